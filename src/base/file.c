/* file.c: see file.h. */
#include "base/file.h"
#include "base/array.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE_MAX 4096

pd_code pd_file_refused(pd_error *err, const char *what, const char *path)
{
  pd_code code = errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? PD_FULL : errno == EROFS ? PD_READ_ONLY : PD_STORAGE;
  return pd_error_set(err, code, "cannot %s %.300s: %s", what, path, strerror(errno));
}

void pd_fd_done(int *fd)
{
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

pd_code pd_file_read(const char *path, size_t size_max, pd_buf *out, pd_error *err)
{
  struct stat is;
  CLEANUP(pd_fd_done) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return pd_error_set(err, PD_NOT_FOUND, "there is no file %.300s", path);
  if (fd < 0 || fstat(fd, &is) != 0) return pd_file_refused(err, "read", path);
  if (!S_ISREG(is.st_mode)) return pd_error_set(err, PD_STORAGE, "%.300s is no regular file", path);
  pd_buf_clear(out);
  for (;;) {
    TRY(pd_buf_reserve(out, 4096, err));
    ssize_t n = read(fd, out->data + out->size, 4096);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_file_refused(err, "read", path);
    if (!n) return PD_OK;
    out->size += (size_t)n;
    if (out->size > size_max) return pd_error_set(err, PD_LIMIT, "%.300s is longer than %zu bytes", path, size_max);
  }
}

pd_code pd_fd_write(int fd, const void *data, size_t size, const char *path, pd_error *err)
{
  const uint8_t *next = data;
  while (size) {
    ssize_t n = write(fd, next, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_file_refused(err, "write", path);
    next += n;
    size -= (size_t)n;
  }
  return PD_OK;
}

pd_code pd_folder_sync(const char *path, pd_error *err)
{
  char folder[PATH_SIZE_MAX];
  const char *slash = strrchr(path, '/');
  int size = slash == path ? 1 : slash ? (int)(slash - path) : 1;
  if (snprintf(folder, sizeof folder, "%.*s", size, slash ? path : ".") >= (int)sizeof folder)
    return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", path);
  CLEANUP(pd_fd_done) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0) return pd_file_refused(err, "sync", folder);
  return PD_OK;
}

static pd_code write_draft(int fd, pd_bytes bytes, const char *path, pd_error *err)
{
  TRY(pd_fd_write(fd, bytes.data, bytes.size, path, err));
  return fsync(fd) ? pd_file_refused(err, "write", path) : PD_OK;
}

pd_code pd_file_write(const char *path, pd_bytes bytes, bool must_be_new, pd_error *err)
{
  char draft[PATH_SIZE_MAX];
  if (snprintf(draft, sizeof draft, "%s" PD_FILE_DRAFT "XXXXXX", path) >= (int)sizeof draft)
    return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", path);
  CLEANUP(pd_fd_done) int fd = mkostemp(draft, O_CLOEXEC); /* mode 0600 */
  if (fd < 0) return pd_file_refused(err, "write", path);
  pd_code code = write_draft(fd, bytes, path, err);
  if (!code && must_be_new && link(draft, path) != 0)
    code = errno == EEXIST ? pd_error_set(err, PD_EXISTS, "there is a file already: %.300s", path) : pd_file_refused(err, "make", path);
  if (!code && !must_be_new && rename(draft, path) != 0) code = pd_file_refused(err, "replace", path);
  if (code || must_be_new) unlink(draft);
  return code ? code : pd_folder_sync(path, err);
}

/* Make one folder, if it is not there, and see to it that its name survives. */
static pd_code make_folder(const char *path, pd_error *err)
{
  struct stat st;
  if (mkdir(path, 0700) == 0) {
    pd_code code = pd_folder_sync(path, NULL);
    (void)code; /* a folder that may be written but not read cannot be synced: the file system's own order has to do */
    return PD_OK;
  }
  int why = errno;
  if (stat(path, &st) == 0) {
    if (S_ISDIR(st.st_mode)) return PD_OK;
    return pd_error_set(err, PD_FORMAT, "%.300s is not a folder", path);
  }
  if (why == ENOTDIR) return pd_error_set(err, PD_FORMAT, "%.300s cannot be made: a part of its path is not a folder", path);
  if (why == ENOSPC || why == EDQUOT) return pd_error_set(err, PD_FULL, "no space left to make the folder %.300s", path);
  if (why == EROFS) return pd_error_set(err, PD_READ_ONLY, "%.300s is on a read-only medium", path);
  if (why == EACCES || why == EPERM) return pd_error_set(err, PD_STORAGE, "no permission to make the folder %.300s", path);
  return pd_error_set(err, PD_STORAGE, "cannot make the folder %.300s: %s", path, strerror(why));
}

pd_code pd_folders_make(const char *path, pd_error *err)
{
  CLEANUP(pd_free_at) char *part = strdup(path);
  struct stat st;
  if (!part) return pd_error_memory(err, "a path");
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return PD_OK;
  for (char *p = part + 1; *p; p++) {
    if (*p != '/') continue;
    *p = '\0';
    TRY(make_folder(part, err));
    *p = '/';
  }
  return make_folder(part, err);
}

pd_code pd_file_temporary(int *out, pd_error *err)
{
  const char *folder = getenv("TMPDIR");
  char path[4096];
  if (!folder || !*folder) folder = "/tmp";
  if (snprintf(path, sizeof path, "%s/perdure-XXXXXX", folder) >= (int)sizeof path)
    return pd_error_set(err, PD_INVALID, "TMPDIR is too long");
  *out = mkostemp(path, O_CLOEXEC);
  if (*out < 0) return pd_error_set(err, PD_STORAGE, "cannot make a temporary file in %s: %s", folder, strerror(errno));
  unlink(path);
  return PD_OK;
}
