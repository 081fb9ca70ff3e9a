/*
 * file.c: `file:DIR`: DIR/<agent_id>.json, the document as it was given, with its seal behind it (seal.h); and once the agent was claimed
 * DIR/<agent_id>.epoch. Nothing is made, or removed, before the first claim or save.
 *
 * A save writes another file, syncs it, renames it over the old one and syncs the folder (pd_file_write): after a crash the old or the
 * new snapshot is there. What a crash left half-written is never read; it is removed by the next handle that writes, once it is an hour
 * old and so nobody's.
 *
 * The epoch is in two slots of one line each, and the larger one counts: a claim writes the slot of the smaller one, so that a crash
 * spoils none that was given out. The file is locked while somebody claims, removes, or saves: so the epoch and the mark that a save finds
 * are those that it replaces. It stays when the snapshot is removed.
 */
#include "base/file.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "storage/builtin.h"
#include "storage/seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".json"
#define DRAFT_TAIL (sizeof PD_FILE_DRAFT - 1 + 6)
#define DRAFT_AGE_S 3600
#define FOLDER_SIZE_MAX 4000
#define EPOCH_SUFFIX ".epoch"
#define EPOCH_LINE 21 /* 20 digits and a newline */
#define EPOCH_SLOTS 2
#define LOCK_WAIT_MS 10000
#define LOCK_PAUSE_MS 2

typedef struct file_storage {
  char folder[FOLDER_SIZE_MAX + 1];
  bool is_made; /* the folder is there, and old drafts are gone */
} file_storage;

typedef struct file_path {
  char text[FOLDER_SIZE_MAX + PD_NAME_SIZE_MAX + 8];
} file_path;

static file_path path_with(const file_storage *s, const char *agent, const char *suffix)
{
  file_path path;
  snprintf(path.text, sizeof path.text, "%s/%s%s", s->folder, agent, suffix);
  return path;
}

static file_path path_of(const file_storage *s, const char *agent)
{
  return path_with(s, agent, SUFFIX);
}

static void close_folder(DIR **folder)
{
  if (*folder) closedir(*folder);
}

/* Is it `<agent_id>.json` with `tail` bytes behind it? Then its agent. */
static bool agent_of(const char *name, size_t tail, char out[PD_NAME_SIZE_MAX + 1])
{
  size_t size = strlen(name), suffix = strlen(SUFFIX);
  if (size <= suffix + tail || size - suffix - tail > PD_NAME_SIZE_MAX) return false;
  size_t stem = size - suffix - tail;
  if (memcmp(name + stem, SUFFIX, suffix) != 0) return false;
  if (tail && strncmp(name + stem + suffix, PD_FILE_DRAFT, sizeof PD_FILE_DRAFT - 1) != 0) return false;
  memcpy(out, name, stem);
  out[stem] = '\0';
  return pd_agent_check(out, NULL) == PD_OK;
}

static void remove_old_drafts(const file_storage *s)
{
  CLEANUP(close_folder) DIR *folder = opendir(s->folder);
  char agent[PD_NAME_SIZE_MAX + 1];
  struct stat is;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (!agent_of(entry->d_name, DRAFT_TAIL, agent)) continue;
    if (fstatat(dirfd(folder), entry->d_name, &is, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(is.st_mode)) continue;
    if (is.st_mtime < pd_clock_now_ms(NULL) / 1000 - DRAFT_AGE_S) unlinkat(dirfd(folder), entry->d_name, 0);
  }
}

static pd_code open_folder(const char *argument, void **out, pd_error *err)
{
  if (!*argument) return pd_error_set(err, PD_INVALID, "the storage file: names no folder: write file:DIR");
  if (strlen(argument) > FOLDER_SIZE_MAX) return pd_error_set(err, PD_LIMIT, "the path of the storage's folder is too long");
  struct stat is;
  bool is_bad = stat(argument, &is) == 0 ? !S_ISDIR(is.st_mode) : errno == ENOTDIR;
  if (is_bad) return pd_error_set(err, PD_FORMAT, "%.300s: it, or what it lies in, is not a folder", argument);
  file_storage *s = calloc(1, sizeof *s);
  if (!s) return pd_error_memory(err, "a storage");
  snprintf(s->folder, sizeof s->folder, "%s", argument);
  *out = s;
  return PD_OK;
}

/* Before anything is written. */
static pd_code make_folder(file_storage *s, pd_error *err)
{
  if (s->is_made) return PD_OK;
  TRY(pd_folders_make(s->folder, err));
  remove_old_drafts(s);
  s->is_made = true;
  return PD_OK;
}

/* ---- epochs -------------------------------------------------------------------------------------------------------- */

/* Not for ever: who holds it may be stopped. */
static pd_code lock_file(int fd, const char *path, pd_error *err)
{
  int64_t give_up_ms = pd_clock_monotonic_ms() + LOCK_WAIT_MS;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return pd_file_refused(err, "lock", path);
    if (pd_clock_monotonic_ms() > give_up_ms) {
      return pd_error_set(err, PD_STORAGE, "%.300s has been locked by another process for %d seconds", path, LOCK_WAIT_MS / 1000);
    }
    nanosleep(&(struct timespec){0, LOCK_PAUSE_MS * 1000000}, NULL);
  }
  return PD_OK;
}

/* The larger one counts; `out_free` is the slot that a claim may write: not the larger one's. */
static pd_code read_epoch(int fd, const char *path, uint64_t *out, size_t *out_free, pd_error *err)
{
  char text[EPOCH_SLOTS * EPOCH_LINE + 1] = {0};
  ssize_t size = pread(fd, text, sizeof text - 1, 0);
  uint64_t best = 0;
  size_t best_slot = EPOCH_SLOTS - 1;
  bool is_sound = size == 0;
  if (size < 0) return pd_file_refused(err, "read", path);
  for (size_t slot = 0; slot < EPOCH_SLOTS; slot++) {
    char *line = text + slot * EPOCH_LINE;
    if (strspn(line, "0123456789") != EPOCH_LINE - 1 || line[EPOCH_LINE - 1] != '\n') continue;
    uint64_t epoch = strtoull(line, NULL, 10);
    if (epoch > best) best = epoch, best_slot = slot;
    is_sound = true;
  }
  if (!is_sound) return pd_error_set(err, PD_CORRUPT, "%.300s holds no epoch; if nobody uses the agent, delete the file", path);
  *out = best;
  *out_free = (best_slot + 1) % EPOCH_SLOTS;
  return PD_OK;
}

typedef struct held_epoch {
  int fd; /* -1: the agent was never claimed */
  uint64_t now;
  size_t free_slot;
} held_epoch;

static void held_done(held_epoch *held)
{
  pd_fd_done(&held->fd);
}

/* The agent's epoch, locked until it is done. */
static pd_code hold_epoch(const file_storage *s, const char *agent, bool is_made, held_epoch *out, pd_error *err)
{
  file_path path = path_with(s, agent, EPOCH_SUFFIX);
  out->fd = open(path.text, O_RDWR | O_CLOEXEC | (is_made ? O_CREAT : 0), 0600);
  if (out->fd < 0) return errno == ENOENT && !is_made ? PD_OK : pd_file_refused(err, "open", path.text);
  TRY(lock_file(out->fd, path.text, err));
  return read_epoch(out->fd, path.text, &out->now, &out->free_slot, err);
}

static pd_code raise_epoch(const file_storage *s, const char *agent, const held_epoch *held, uint64_t epoch, pd_error *err)
{
  char line[EPOCH_LINE + 1];
  file_path path = path_with(s, agent, EPOCH_SUFFIX);
  snprintf(line, sizeof line, "%020llu\n", (unsigned long long)epoch);
  bool is_first = lseek(held->fd, 0, SEEK_END) == 0;
  errno = 0;
  if (pwrite(held->fd, line, EPOCH_LINE, (off_t)(held->free_slot * EPOCH_LINE)) != EPOCH_LINE || fdatasync(held->fd) != 0) {
    if (!errno) errno = ENOSPC; /* a part was written */
    return pd_file_refused(err, "write", path.text);
  }
  return is_first ? pd_folder_sync(path.text, err) : PD_OK;
}

static pd_code claim(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  CLEANUP(held_done) held_epoch held = {.fd = -1};
  TRY(make_folder(handle, err));
  TRY(hold_epoch(handle, agent, true, &held, err));
  uint64_t epoch = pd_epoch_after(held.now);
  TRY(raise_epoch(handle, agent, &held, epoch, err));
  *out = epoch;
  return PD_OK;
}

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  file_path path = path_with(handle, agent, EPOCH_SUFFIX);
  CLEANUP(pd_fd_done) int fd = open(path.text, O_RDONLY | O_CLOEXEC);
  size_t slot;
  *out = 0;
  if (fd < 0) return errno == ENOENT ? PD_OK : pd_file_refused(err, "open", path.text);
  return read_epoch(fd, path.text, out, &slot, err);
}

/* ---- snapshots ----------------------------------------------------------------------------------------------------- */

/* The mark of what is there; zeros if nothing is. */
static pd_code mark_now(const char *path, pd_storage_mark *out, pd_error *err)
{
  char tail[PD_SEAL_SIZE];
  struct stat is;
  CLEANUP(pd_fd_done) int fd = open(path, O_RDONLY | O_CLOEXEC);
  *out = (pd_storage_mark){0};
  if (fd < 0) return errno == ENOENT ? PD_OK : pd_file_refused(err, "open", path);
  if (fstat(fd, &is) != 0) return pd_file_refused(err, "read", path);
  if (is.st_size < PD_SEAL_SIZE) return PD_OK;
  ssize_t size = pread(fd, tail, sizeof tail, is.st_size - PD_SEAL_SIZE);
  if (size < 0) return pd_file_refused(err, "read", path);
  *out = pd_seal_mark((pd_bytes){tail, (size_t)size});
  return PD_OK;
}

/* Nothing changes the file between the look and the rename but programs that do not know of the lock. */
static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  CLEANUP(held_done) held_epoch held = {.fd = -1};
  CLEANUP(pd_buf_done) pd_buf sealed = {0};
  file_path path = path_of(handle, agent);
  pd_storage_mark now;
  TRY(make_folder(handle, err));
  TRY(pd_seal_write(snapshot, next, &sealed, err));
  TRY(hold_epoch(handle, agent, false, &held, err));
  if (next->epoch && held.now != next->epoch) return pd_epoch_conflict(next->epoch, held.now, err);
  if (last) {
    TRY(mark_now(path.text, &now, err));
    if (pd_mark_is(&now, next)) return PD_OK;
    if (!pd_mark_is(&now, last)) return pd_mark_conflict(next, &now, err);
  }
  return pd_file_write(path.text, pd_buf_bytes(&sealed), false, err);
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf stored = {0};
  file_path path = path_of(handle, agent);
  pd_bytes document;
  pd_code code = pd_file_read(path.text, PD_SNAPSHOT_SIZE_MAX + PD_SEAL_SIZE, &stored, err);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", agent, path.text);
  if (code == PD_LIMIT) return pd_error_set(err, PD_CORRUPT, "%.300s is larger than any snapshot", path.text);
  if (!code) code = pd_seal_read(pd_buf_bytes(&stored), &document, out_mark, err);
  if (!code) code = take(ctx, document, err);
  if (code != PD_CORRUPT) return code;
  char why[PD_ERROR_MESSAGE_MAX];
  snprintf(why, sizeof why, "%s", err->message);
  return pd_error_set(err, PD_CORRUPT, "%.180s: %.300s", path.text, why);
}

static pd_code remove_file(void *handle, const char *agent, pd_error *err)
{
  CLEANUP(held_done) held_epoch held = {.fd = -1};
  file_path path = path_of(handle, agent);
  TRY(hold_epoch(handle, agent, false, &held, err));
  if (access(path.text, F_OK) == 0 && held.fd >= 0) TRY(raise_epoch(handle, agent, &held, pd_epoch_after(held.now), err));
  if (unlink(path.text) != 0) {
    if (errno == ENOENT) return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", agent, path.text);
    return pd_file_refused(err, "delete", path.text);
  }
  return pd_folder_sync(path.text, err);
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  file_storage *s = handle;
  char agent[PD_NAME_SIZE_MAX + 1];
  CLEANUP(close_folder) DIR *folder = opendir(s->folder);
  if (!folder) return errno == ENOENT ? PD_OK : pd_file_refused(err, "read", s->folder);
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(folder);
    if (!entry) return errno ? pd_file_refused(err, "read", s->folder) : PD_OK;
    if (agent_of(entry->d_name, 0, agent)) TRY(visit(ctx, agent, err));
  }
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  (void)handle, (void)err;
  out->lasting = PD_LASTS_POWER;
  snprintf(out->detail, sizeof out->detail, "each save is a file that is synced, renamed into place, and its folder synced");
  return PD_OK;
}

const pd_storage_ops pd_storage_file = {
  .abi = PD_STORAGE_ABI,
  .name = "file",
  .open = open_folder,
  .close = free,
  .remove = remove_file,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
  .save_next = save_next,
  .load_marked = load_marked,
};
