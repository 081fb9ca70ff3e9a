/* temp_folder.c: see temp_folder.h. */
#include "support/temp_folder.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

char *text_of(const char *fmt, ...)
{
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  if (vasprintf(&text, fmt, args) < 0) abort();
  va_end(args);
  return text;
}

char *temp_folder_new(void)
{
  const char *where = getenv("TMPDIR");
  char *path = text_of("%s/perdure-test-XXXXXX", where && *where ? where : "/tmp");
  if (!mkdtemp(path)) {
    perror(path);
    abort();
  }
  return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st, (void)type, (void)ftw;
  return remove(path);
}

void temp_folder_free(char *path)
{
  if (path) nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  free(path);
}
