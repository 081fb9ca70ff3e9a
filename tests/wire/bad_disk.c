/* bad_disk.c: see bad_disk.h. */
#include "wire/bad_disk.h"

#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *bad_disk_module;
static char control[4200];

/* A sanitizer wants to be the first library. */
static void preload(void)
{
  char line[4400], first[600] = "", both[1400];
  FILE *maps = SERVED_IS_SANITIZED ? fopen("/proc/self/maps", "r") : NULL;
  while (maps && !*first && fgets(line, sizeof line, maps)) {
    char *path = strchr(line, '/');
    if (!path || !(strstr(path, "/libasan.so") || strstr(path, "/libtsan.so"))) continue;
    path[strcspn(path, "\n")] = 0;
    snprintf(first, sizeof first, "%.599s", path);
  }
  if (maps) fclose(maps);
  snprintf(both, sizeof both, "%s%s%.700s", first, *first ? ":" : "", bad_disk_module);
  setenv("LD_PRELOAD", both, 1);
  setenv("PERDURE_TEST_SYNC", control, 1);
}

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file)) abort();
}

served *bad_disk_start(const char *settings)
{
  static const char *const args[] = {"--no-auth", "--log-level", "warn", NULL};
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *path = text_of("%s/home/perdure.toml", folder);
  if (mkdir(home, 0700)) abort();
  write_file(path, settings);
  snprintf(control, sizeof control, "%s/sync", folder);
  served_prepare = preload;
  free(home);
  free(path);
  return served_start_in(folder, args);
}

/* Put in place as a whole: a sync that reads it meanwhile finds the one or the other. */
void bad_disk_set(const served *s, const char *how)
{
  char *path = text_of("%s/sync", s->folder), *next = text_of("%s/sync.next", s->folder);
  if (how) {
    write_file(next, how);
    if (rename(next, path)) abort();
  } else if (unlink(path)) {
    abort();
  }
  free(path);
  free(next);
}
