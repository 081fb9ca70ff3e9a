/*
 * file.c: the shelf that is a JSON file.
 *
 * F1  The file under its own name is always whole: the text goes to PATH.tmp, is synced, and takes the name by a rename; then the folder
 *     is synced.
 * F2  Nobody writes without the lock on PATH.lock, which has the holder's process id in it. (The file itself cannot be locked: it
 *     is another one after each flush.) Where the lock cannot be made, as in a folder that may not be written, each write tries again.
 * F3  What cannot be read is moved aside before anything is written, or the open fails. Only an agent's StateStore moves things; commands
 *     open with `refuses_damage`.
 */
#include "shelf/file_format.h"
#include "shelf/shelf.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE_TRIES 1000

typedef struct file_shelf {
  pd_shelf base;
  char *path, *draft, *lock_path; /* absolute: the working folder may change */
  int lock_fd;
  bool refuses_damage;
} file_shelf;

void pd_shelf_warn(const pd_shelf_warner *warner, pd_code code, const char *fmt, ...)
{
  char message[2 * PD_ERROR_MESSAGE_MAX];
  if (!warner->warn) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  warner->warn(warner->ctx, code, message);
}

pd_code pd_shelf_folders(const char *path, pd_error *err)
{
  CLEANUP(pd_free_at) char *copy = strdup(path);
  if (!copy) return pd_error_memory(err, "a path");
  return pd_folders_make(dirname(copy), err);
}

/* ---- the lock (F2) ---- */

static void read_holder(int fd, char out[32])
{
  ssize_t size = pread(fd, out, 31, 0);
  out[size > 0 ? size : 0] = '\0';
  out[strspn(out, "0123456789")] = '\0';
}

/* The file that was locked may have been removed by its last holder meanwhile: then it guards nothing. */
static bool is_still_there(int fd, const char *path)
{
  struct stat held, named;
  return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

static pd_code lock_once(file_shelf *s, int *fd, pd_error *err)
{
  char text[32];
  *fd = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (*fd < 0) return pd_file_refused(err, "make the lock", s->lock_path);
  if (flock(*fd, LOCK_EX | LOCK_NB) == 0) {
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(*fd, 0) == 0 && pwrite(*fd, text, (size_t)size, 0) < 0) errno = 0; /* on a full disk nobody is named; the lock holds */
    return PD_OK;
  }
  if (errno != EWOULDBLOCK && errno != EINTR) return pd_file_refused(err, "lock", s->lock_path);
  read_holder(*fd, text);
  return pd_error_named(err, PD_CONFLICT, "StateFileInUse", "the state file %.300s is in use by %s%s", s->path,
                        *text ? "process " : "another process", text);
}

static pd_code take_lock(file_shelf *s, pd_error *err)
{
  while (s->lock_fd < 0) {
    CLEANUP(pd_fd_done) int fd = -1;
    TRY(lock_once(s, &fd, err));
    if (!is_still_there(fd, s->lock_path)) continue;
    s->lock_fd = fd;
    fd = -1;
  }
  return PD_OK;
}

static void close_file(pd_shelf *shelf)
{
  file_shelf *s = (file_shelf *)shelf;
  if (s->lock_fd >= 0) unlink(s->lock_path); /* while it is held: who opened it and waits sees that it is gone */
  pd_fd_done(&s->lock_fd);
  free(s->path);
  free(s->draft);
  free(s->lock_path);
  free(s);
}

/* ---- reading ---- */

static pd_code move_aside(file_shelf *s, const pd_error *why, pd_error *err)
{
  CLEANUP(pd_free_at) char *aside = NULL;
  if (s->refuses_damage)
    return pd_error_set(err, why->code, "the state file %.300s cannot be used: %.200s. It was left as it is", s->path, why->message);
  int64_t now_ms = pd_clock_now_ms(NULL);
  for (int i = 0; i < ASIDE_TRIES; i++) {
    free(aside);
    if (asprintf(&aside, "%s.corrupt-%lld", s->path, (long long)(now_ms + i)) < 0) {
      aside = NULL;
      return pd_error_memory(err, "a path");
    }
    if (access(aside, F_OK) == 0) continue; /* only we move things there, and we have the lock */
    if (rename(s->path, aside) != 0)
      return pd_error_set(err, PD_STORAGE, "the state file %.200s cannot be used (%.120s), nor moved aside: %s", s->path, why->message,
                          strerror(errno));
    TRY(pd_folder_sync(s->path, err));
    pd_shelf_warn(&s->base.warner, why->code, "the state file %s cannot be used: %s. It was moved to %s, and the state starts empty",
                  s->path, why->message, aside);
    return PD_OK;
  }
  return pd_error_set(err, PD_STORAGE, "the state file %.200s cannot be used, and there is no free name to move it to", s->path);
}

/* What the file itself is to blame for; not a want of memory or of descriptors, which passes. */
static bool is_unreadable(const char *path)
{
  CLEANUP(pd_fd_done) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  char byte;
  if (fd < 0) return errno == EACCES || errno == EPERM || errno == EIO;
  return read(fd, &byte, 1) < 0 && errno == EIO;
}

static pd_code load_file(pd_shelf *shelf, pd_shelf_visit visit, void *ctx, pd_error *err)
{
  file_shelf *s = (file_shelf *)shelf;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  struct stat is;
  pd_error why;
  pd_code code = pd_file_read(s->path, PD_STATESTORE_FILE_SIZE_MAX, &text, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && lstat(s->path, &is) == 0 && S_ISREG(is.st_mode) && code == PD_STORAGE && is_unreadable(s->path))
    return move_aside(s, &why, err);
  if (code) return pd_error_set(err, code, "%s", why.message);
  code = pd_state_file_parse(pd_buf_bytes(&text), visit, ctx, &why);
  if (code == PD_FORMAT || code == PD_CORRUPT) return move_aside(s, &why, err);
  return code ? pd_error_set(err, code, "%s", why.message) : PD_OK;
}

/* ---- writing (F1) ---- */

static pd_code write_draft(file_shelf *s, pd_bytes text, pd_error *err)
{
  struct stat old;
  CLEANUP(pd_fd_done) int fd = open(s->draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return pd_file_refused(err, "write", s->draft);
  if (stat(s->path, &old) == 0 && fchmod(fd, old.st_mode & 0777) != 0) return pd_file_refused(err, "write", s->draft);
  TRY(pd_fd_write(fd, text.data, text.size, s->draft, err));
  return fsync(fd) ? pd_file_refused(err, "write", s->draft) : PD_OK;
}

static pd_code write_file(pd_shelf *shelf, const pd_shelf_batch *batch, pd_error *err)
{
  file_shelf *s = (file_shelf *)shelf;
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = PD_STATESTORE_FILE_SIZE_MAX};
  pd_code code = pd_state_file_write(batch->puts, batch->put_count, &text, err);
  if (code == PD_LIMIT) return pd_error_set(err, PD_LIMIT, "the state is too large for the file %.300s: over 1 GiB", s->path);
  if (code) return code;
  TRY(pd_shelf_folders(s->path, err)); /* somebody may have cleaned up */
  TRY(take_lock(s, err));
  code = write_draft(s, pd_buf_bytes(&text), err);
  if (!code && rename(s->draft, s->path) != 0) code = pd_file_refused(err, "replace", s->path);
  if (code) {
    unlink(s->draft); /* its bytes may be those that are missing on a full disk */
    return code;
  }
  return pd_folder_sync(s->path, err);
}

/* ---- opening ---- */

/* The path without symbolic links: a rename would replace the link, not what it points to. */
static pd_code find_path(const char *path, char **out, pd_error *err)
{
  CLEANUP(pd_free_at) char *copy = strdup(path), *copy2 = strdup(path), *folder = NULL;
  if (!copy || !copy2) return pd_error_memory(err, "a path");
  *out = realpath(path, NULL);
  if (*out) return PD_OK;
  if (errno != ENOENT) return pd_file_refused(err, "open", path);
  folder = realpath(dirname(copy), NULL);
  if (!folder) return pd_file_refused(err, "open", path);
  if (asprintf(out, "%s/%s", strcmp(folder, "/") ? folder : "", basename(copy2)) < 0) *out = NULL;
  return *out ? PD_OK : pd_error_memory(err, "a path");
}

static pd_code open_paths(file_shelf *s, const char *path, pd_error *err)
{
  size_t size = strlen(path);
  if (!size || path[size - 1] == '/') return pd_error_set(err, PD_INVALID, "'%.300s' is no path of a state file", path);
  if (size > PATH_MAX - 64) return pd_error_set(err, PD_LIMIT, "the path %.100s… is too long", path);
  TRY(pd_shelf_folders(path, err));
  TRY(find_path(path, &s->path, err));
  if (asprintf(&s->draft, "%s.tmp", s->path) < 0) s->draft = NULL;
  if (asprintf(&s->lock_path, "%s.lock", s->path) < 0) s->lock_path = NULL;
  return s->draft && s->lock_path ? PD_OK : pd_error_memory(err, "a path");
}

static pd_code open_locked(file_shelf *s, const char *path, pd_error *err)
{
  pd_error why;
  TRY(open_paths(s, path, err));
  pd_code code = take_lock(s, &why);
  if (code == PD_CONFLICT) {
    *err = why;
    return code;
  }
  if (code)
    pd_shelf_warn(&s->base.warner, code, "the state file %s is not locked yet, and will not be written before: %s", s->path, why.message);
  return PD_OK;
}

pd_code pd_shelf_file_open(const char *path, bool refuses_damage, pd_shelf_warner warner, pd_shelf **out, pd_error *err)
{
  static const pd_shelf_ops ops = {.is_whole = true, .load = load_file, .write = write_file, .close = close_file};
  file_shelf *s = calloc(1, sizeof *s);
  pd_error own;
  if (!s) return pd_error_memory(err, "a state file's handle");
  *s = (file_shelf){.base = {&ops, warner}, .lock_fd = -1, .refuses_damage = refuses_damage};
  pd_code code = open_locked(s, path, err ? err : &own);
  if (code)
    close_file(&s->base);
  else
    *out = &s->base;
  return code;
}
