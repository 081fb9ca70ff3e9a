/*
 * backup_made.c: which backups there should be: FOLDER/backups/.made/ID, a file for each backup that was made or imported here and not
 * removed by backup.keep. That of an imported one says so: backup.keep leaves it alone. A backup whose file is gone and whose mark is not
 * was removed by somebody else: `backup list` and `doctor` name it.
 *
 * A mark is made after its backup has its name, and removed before its backup is: a kill in between reports nothing wrongly, and the next
 * backup marks what is there.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "state/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKS_FOLDER ".made"

static pd_code path_of(const char *folder, const char *id, char out[PD_BACKUP_PATH_SIZE], pd_error *err)
{
  if (snprintf(out, PD_BACKUP_PATH_SIZE, "%s/" MARKS_FOLDER "%s%s", folder, *id ? "/" : "", id) < PD_BACKUP_PATH_SIZE) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", folder);
}

static const char imported[] = "imported\n";

bool pd_backup_is_imported(const char *folder, const char *id)
{
  char path[PD_BACKUP_PATH_SIZE], text[sizeof imported] = "";
  if (path_of(folder, id, path, NULL)) return false;
  CLEANUP(pd_fd_done) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  return fd >= 0 && read(fd, text, sizeof text) == (ssize_t)sizeof imported - 1 && strcmp(text, imported) == 0;
}

pd_code pd_backup_mark_imported(const char *folder, const char *id, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  TRY(pd_backup_mark(folder, id, err));
  TRY(path_of(folder, id, path, err));
  CLEANUP(pd_fd_done) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return pd_file_refused(err, "write", path);
  TRY(pd_fd_write(fd, (const uint8_t *)imported, sizeof imported - 1, path, err));
  return fsync(fd) == 0 ? PD_OK : pd_file_refused(err, "write", path);
}

pd_code pd_backup_mark(const char *folder, const char *id, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  TRY(path_of(folder, "", path, err));
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return pd_file_refused(err, "make", path);
  TRY(path_of(folder, id, path, err));
  CLEANUP(pd_fd_done) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno == EEXIST ? PD_OK : pd_file_refused(err, "make", path);
  return pd_folder_sync(path, err);
}

pd_code pd_backup_unmark(const char *folder, const char *id, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  TRY(path_of(folder, id, path, err));
  if (unlink(path) == 0) return pd_folder_sync(path, err);
  return errno == ENOENT ? PD_OK : pd_file_refused(err, "remove", path);
}

static bool is_missing(const char *folder, const char *id)
{
  char path[PD_BACKUP_PATH_SIZE + 64];
  return snprintf(path, sizeof path, "%s/%.48s.pdb", folder, id) < (int)sizeof path && access(path, F_OK) != 0 && errno == ENOENT;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

void pd_backup_names_done(pd_backup_names *names)
{
  free(names->ids);
  *names = (pd_backup_names){0};
}

pd_code pd_backup_missing(const char *folder, pd_backup_names *out, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  pd_code code = PD_OK;
  TRY(path_of(folder, "", path, err));
  DIR *dir = opendir(path);
  if (!dir) return errno == ENOENT ? PD_OK : pd_file_refused(err, "read the folder", path);
  for (const struct dirent *entry; !code && (entry = readdir(dir));) {
    if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof out->ids[0] || !is_missing(folder, entry->d_name)) continue;
    code = pd_array_grow(&out->ids, out->count, &out->capacity, sizeof out->ids[0], "names of backups", err);
    if (!code) strcpy(out->ids[out->count++], entry->d_name);
  }
  closedir(dir);
  if (out->count > 1) qsort(out->ids, out->count, sizeof out->ids[0], by_name);
  return code;
}
