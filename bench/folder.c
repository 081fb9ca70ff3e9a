/* folder.c: see folder.h. */
#include "folder.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"

pd_code bench_path(const char *parent, const char *name, char out[BENCH_PATH_SIZE], pd_error *err)
{
  if (snprintf(out, BENCH_PATH_SIZE, "%s/%s", parent, name) < BENCH_PATH_SIZE) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the path '%s/%s' is too long", parent, name);
}

pd_code bench_folder_new(const char *parent, const char *name, char out[BENCH_PATH_SIZE], pd_error *err)
{
  TRY(bench_path(parent, name, out, err));
  TRY(bench_folder_remove(out, err));
  if (mkdir(out, 0700) == 0) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot make the folder '%s': %s", out, strerror(errno));
}

pd_code bench_folder_temp(const char *parent, char out[BENCH_PATH_SIZE], pd_error *err)
{
  if (mkdir(parent, 0700) != 0 && errno != EEXIST)
    return pd_error_set(err, PD_STORAGE, "cannot make the folder '%s': %s", parent, strerror(errno));
  TRY(bench_path(parent, "bench-XXXXXX", out, err));
  if (mkdtemp(out)) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot make a folder in '%s': %s", parent, strerror(errno));
}

static FTS *walk_open(const char *path)
{
  char *paths[] = {(char *)(uintptr_t)path, NULL}; /* fts does not write to it */
  return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
}

pd_code bench_folder_size(const char *path, uint64_t *out_bytes, pd_error *err)
{
  uint64_t total = 0;
  FTS *walk = walk_open(path);
  if (!walk) return pd_error_set(err, PD_STORAGE, "cannot read the folder '%s': %s", path, strerror(errno));
  for (FTSENT *entry; (entry = fts_read(walk));)
    if (entry->fts_info == FTS_F) total += (uint64_t)entry->fts_statp->st_size;
  fts_close(walk);
  *out_bytes = total;
  return PD_OK;
}

pd_code bench_folder_remove(const char *path, pd_error *err)
{
  if (access(path, F_OK) != 0) return PD_OK;
  FTS *walk = walk_open(path);
  if (!walk) return pd_error_set(err, PD_STORAGE, "cannot read the folder '%s': %s", path, strerror(errno));
  pd_code code = PD_OK;
  for (FTSENT *entry; (entry = fts_read(walk));) {
    bool is_folder = entry->fts_info == FTS_DP;
    if (entry->fts_info == FTS_D) continue; /* seen again, empty, as FTS_DP */
    if ((is_folder ? rmdir(entry->fts_accpath) : unlink(entry->fts_accpath)) != 0 && code == PD_OK)
      code = pd_error_set(err, PD_STORAGE, "cannot remove '%s': %s", entry->fts_path, strerror(errno));
  }
  fts_close(walk);
  return code;
}
