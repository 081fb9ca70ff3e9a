/*
 * simple.c: see simple.h. Under which keys things are kept:
 *
 *     AGENT           the document with its seal (seal.h): checksum and mark are replaced together with it (S11)
 *     _epoch.AGENT    "AGENT EPOCH\n" and a seal whose mark has the epoch; there once the agent was claimed, and it stays
 *     _names          the names of agents, a line each, and a seal
 *
 * No agent's name begins with '_'. Invariants, all under the lock:
 *
 *  KV-1 Every agent that was saved is in _names: the name is written before the first snapshot and dropped after it is removed. A crash
 *       between leaves a name too many, never one too few, so list asks for each name whether something is stored.
 *  KV-2 What is looked at (epoch, mark) and what is written on that condition are under one lock: that is all that S9, S10 and S12 rest on.
 *  KV-3 An epoch is raised before the snapshot is removed: else a crash between would let the old holder save again.
 *
 * The lock is a byte of one file in /tmp for each user; which byte is a hash of the plugin's name and argument. Two storages that share a
 * byte wait for each other, and nothing worse. It is not in XDG_RUNTIME_DIR, which cron and services of the same user do not have.
 */
#include "storage/simple.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/map64.h"
#include "storage/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_PATH_FORMAT "/tmp/perdure-storages-%u.lock"
#define LOCK_WAIT_MS 10000
#define LOCK_PAUSE_MS 2
#define NAMES_KEY "_names"
#define EPOCH_PREFIX "_epoch."
#define VALUE_SIZE_MAX (PD_SNAPSHOT_SIZE_MAX + PD_SEAL_SIZE)
#define OWN_TOKEN 1 /* in the seals of _names and _epoch.AGENT: says that there is one */

typedef struct simple_storage {
  const pd_storage_simple_ops *plugin;
  void *handle;
  char *argument;
  uint64_t lock_byte;
  pd_map64 listed; /* agents that this handle has found in _names */
} simple_storage;

static uint64_t hash_text(uint64_t hash, const char *text)
{
  for (; *text; text++) hash = pd_mix64(hash, (uint8_t)*text);
  return hash ? hash : 1;
}

static void close_simple(void *handle)
{
  simple_storage *s = handle;
  if (s->plugin->close) s->plugin->close(s->handle);
  pd_map64_done(&s->listed);
  free(s->argument);
  free(s);
}

pd_code pd_storage_simple_open(const pd_storage_simple_ops *plugin, const char *argument, void **out_handle, pd_error *err)
{
  simple_storage *s = calloc(1, sizeof *s);
  char *copy = strdup(argument);
  pd_code code = s && copy ? PD_OK : pd_error_memory(err, "a storage");
  if (!code && plugin->open) code = plugin->open(argument, &s->handle, err);
  if (code) {
    free(copy);
    free(s);
    return code;
  }
  s->plugin = plugin;
  s->argument = copy;
  if (!plugin->open) s->handle = copy;
  s->lock_byte = hash_text(hash_text(1, plugin->name), argument) >> 2; /* an offset is signed, and has an end */
  *out_handle = s;
  return PD_OK;
}

/* ---- the lock ------------------------------------------------------------------------------------------------------ */

typedef struct held_lock {
  int fd;
  off_t at;
} held_lock;

static struct flock byte_of(off_t at, short type)
{
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
}

static void unlock(held_lock *held)
{
  struct flock none = byte_of(held->at, F_UNLCK);
  if (held->fd >= 0) (void)!fcntl(held->fd, F_OFD_SETLK, &none); /* a child that was forked meanwhile has the file open, too */
  pd_fd_done(&held->fd);
}

static pd_code open_lock(const char *path, int *out, pd_error *err)
{
  struct stat is;
  *out = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (*out < 0 || fstat(*out, &is) != 0) return pd_file_refused(err, "open the lock", path);
  if (S_ISREG(is.st_mode) && is.st_uid == geteuid()) return PD_OK;
  return pd_error_set(err, PD_DENIED, "the lock %s belongs to another user, or is not a file", path);
}

/* Cleaners remove old files from /tmp: a lock on a file that is not there any more keeps nobody out. */
static bool is_still_there(int fd, const char *path)
{
  struct stat mine, there;
  return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* KV-2. It has an end: the holder may be stopped. */
static pd_code lock(const simple_storage *s, held_lock *out, pd_error *err)
{
  char path[64];
  int64_t give_up_ms = pd_clock_monotonic_ms() + LOCK_WAIT_MS;
  struct flock mine = byte_of((off_t)s->lock_byte, F_WRLCK);
  out->at = (off_t)s->lock_byte;
  snprintf(path, sizeof path, LOCK_PATH_FORMAT, (unsigned)geteuid());
  for (;;) {
    if (out->fd < 0) TRY(open_lock(path, &out->fd, err));
    if (fcntl(out->fd, F_OFD_SETLK, &mine) == 0) {
      if (is_still_there(out->fd, path)) {
        (void)!futimens(out->fd, NULL); /* so that it is not old while somebody holds it */
        return PD_OK;
      }
      pd_fd_done(&out->fd);
      out->fd = -1;
      continue;
    }
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return pd_file_refused(err, "lock", path);
    if (pd_clock_monotonic_ms() > give_up_ms) {
      return pd_error_set(err, PD_STORAGE, "the storage '%s' has been locked by another process for %d seconds (%s)", s->plugin->name,
                          LOCK_WAIT_MS / 1000, path);
    }
    nanosleep(&(struct timespec){0, LOCK_PAUSE_MS * 1000000}, NULL);
  }
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

typedef struct value_key {
  char text[PD_STORAGE_KEY_SIZE_MAX + 1];
} value_key;

static value_key epoch_key(const char *agent)
{
  value_key key;
  snprintf(key.text, sizeof key.text, EPOCH_PREFIX "%s", agent);
  return key;
}

static pd_code corrupt(const simple_storage *s, const char *key, const char *why, pd_error *err)
{
  char text[PD_ERROR_MESSAGE_MAX];
  snprintf(text, sizeof text, "%s", why);
  return pd_error_set(err, PD_CORRUPT, "storage '%.60s', key '%s': %.300s", s->plugin->name, key, text);
}

typedef struct fetching {
  pd_storage_take take; /* of the sealed value */
  void *ctx;
  unsigned count;
} fetching;

static pd_code take_bounded(void *ctx, pd_bytes value, pd_error *err)
{
  fetching *f = ctx;
  f->count++;
  if (value.size > VALUE_SIZE_MAX) return pd_error_set(err, PD_CORRUPT, "the value is larger than any that was saved");
  return f->take(f->ctx, value, err);
}

/* K2 is checked: a plugin that finds nothing and says PD_OK would make an agent begin anew. */
static pd_code fetch(const simple_storage *s, const char *key, pd_storage_take take, void *ctx, pd_error *err)
{
  fetching f = {take, ctx, 0};
  pd_code code = s->plugin->load(s->handle, key, take_bounded, &f, err);
  if (!code && f.count != 1) return corrupt(s, key, "load reported success, but gave no value, or more than one", err);
  return code == PD_CORRUPT ? corrupt(s, key, err->message, err) : code;
}

static pd_code take_copy(void *ctx, pd_bytes value, pd_error *err)
{
  pd_buf_clear(ctx);
  return pd_buf_append(ctx, value.data, value.size, err);
}

static pd_code take_mark(void *ctx, pd_bytes value, pd_error *err)
{
  size_t size = value.size < PD_SEAL_SIZE ? value.size : PD_SEAL_SIZE;
  (void)err;
  *(pd_storage_mark *)ctx = pd_seal_mark((pd_bytes){(const char *)value.data + value.size - size, size});
  return PD_OK;
}

/* Is something stored for `agent`, and with which mark (zeros if not)? */
static pd_code look(const simple_storage *s, const char *agent, bool *out_is_there, pd_storage_mark *out_mark, pd_error *err)
{
  *out_mark = (pd_storage_mark){0};
  pd_code code = fetch(s, agent, take_mark, out_mark, err);
  *out_is_there = !code;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code put_sealed(const simple_storage *s, const char *key, pd_bytes document, const pd_storage_mark *mark, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf sealed = {0};
  TRY(pd_seal_write(document, mark, &sealed, err));
  pd_code code = s->plugin->save(s->handle, key, pd_buf_bytes(&sealed), err);
  if (code != PD_NOT_FOUND && code != PD_CONFLICT) return code;
  char why[PD_ERROR_MESSAGE_MAX]; /* those two mean something else to whoever saves */
  snprintf(why, sizeof why, "%s", err->message);
  return pd_error_set(err, PD_STORAGE, "storage '%.60s', key '%s': %.300s", s->plugin->name, key, why);
}

/* A value of the adapter's own; `out_document` points into `stored`. Nothing: PD_OK and an empty one. */
static pd_code get_own(const simple_storage *s, const char *key, pd_buf *stored, pd_bytes *out_document, pd_storage_mark *out_mark,
                       pd_error *err)
{
  *out_mark = (pd_storage_mark){0};
  *out_document = pd_text("");
  pd_code code = fetch(s, key, take_copy, stored, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code) return code;
  code = pd_seal_read(pd_buf_bytes(stored), out_document, out_mark, err);
  if (code || out_mark->token != OWN_TOKEN) return corrupt(s, key, "the value is damaged, or was not written by perdure", err);
  return PD_OK;
}

/* ---- epochs -------------------------------------------------------------------------------------------------------- */

static void epoch_text(const char *agent, uint64_t epoch, char out[PD_NAME_SIZE_MAX + 32])
{
  snprintf(out, PD_NAME_SIZE_MAX + 32, "%s %llu\n", agent, (unsigned long long)epoch);
}

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf stored = {0};
  char want[PD_NAME_SIZE_MAX + 32];
  value_key key = epoch_key(agent);
  pd_storage_mark mark;
  pd_bytes document;
  TRY(get_own(handle, key.text, &stored, &document, &mark, err));
  epoch_text(agent, mark.epoch, want);
  if (mark.token && pd_bytes_compare(document, pd_text(want)) != 0) { /* a plugin that takes two keys for one */
    return corrupt(handle, key.text, "the value is the epoch of another agent", err);
  }
  *out = mark.epoch;
  return PD_OK;
}

static pd_code raise_epoch(const simple_storage *s, const char *agent, uint64_t epoch, pd_error *err)
{
  char text[PD_NAME_SIZE_MAX + 32];
  epoch_text(agent, epoch, text);
  return put_sealed(s, epoch_key(agent).text, pd_text(text), &(pd_storage_mark){.epoch = epoch, .token = OWN_TOKEN}, err);
}

static pd_code claim(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  CLEANUP(unlock) held_lock held = {.fd = -1};
  uint64_t now = 0;
  TRY(lock(handle, &held, err));
  TRY(epoch_now(handle, agent, &now, err));
  now = pd_epoch_after(now);
  TRY(raise_epoch(handle, agent, now, err));
  *out = now;
  return PD_OK;
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* The line of `agent`; NULL if there is none. */
static const char *find_name(pd_bytes names, const char *agent)
{
  const char *at = names.data, *end = at + names.size;
  size_t size = strlen(agent);
  while (at < end) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) return NULL;
    if ((size_t)(line_end - at) == size && memcmp(at, agent, size) == 0) return at;
    at = line_end + 1;
  }
  return NULL;
}

/* KV-1: write `agent` into the names, or out of them. */
static pd_code set_listed(const simple_storage *s, const char *agent, bool is_listed, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf stored = {0}, changed = {0};
  pd_storage_mark mark;
  pd_bytes names;
  TRY(get_own(s, NAMES_KEY, &stored, &names, &mark, err));
  const char *line = find_name(names, agent), *end = (const char *)names.data + names.size;
  if ((line != NULL) == is_listed) return PD_OK;
  size_t before = line ? (size_t)(line - (const char *)names.data) : names.size;
  TRY(pd_buf_append(&changed, names.data, before, err));
  if (is_listed) TRY(pd_buf_printf(&changed, err, "%s\n", agent));
  if (line) {
    const char *rest = line + strlen(agent) + 1;
    TRY(pd_buf_append(&changed, rest, (size_t)(end - rest), err));
  }
  return put_sealed(s, NAMES_KEY, pd_buf_bytes(&changed), &(pd_storage_mark){.token = OWN_TOKEN}, err);
}

/* Where nothing is stored another process may have dropped the name; and names that were lost come back with the next handle. */
static pd_code list_before_saving(simple_storage *s, const char *agent, bool is_there, pd_error *err)
{
  uint64_t print = hash_text(1, agent);
  if (is_there && pd_map64_find(&s->listed, print)) return PD_OK;
  TRY(set_listed(s, agent, true, err));
  return pd_map64_add(&s->listed, print, NULL, NULL, err);
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf stored = {0};
  char agent[PD_NAME_SIZE_MAX + 1];
  pd_storage_mark mark;
  pd_bytes names;
  TRY(get_own(handle, NAMES_KEY, &stored, &names, &mark, err));
  const char *at = names.data, *end = at + names.size;
  for (const char *line_end; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
    bool is_there = false;
    snprintf(agent, sizeof agent, "%.*s", (int)(line_end - at), at);
    pd_code code = look(handle, agent, &is_there, &mark, err);
    if (code && code != PD_CORRUPT) return code;
    if (is_there || code) TRY(visit(ctx, agent, err));
  }
  return PD_OK;
}

/* ---- snapshots ----------------------------------------------------------------------------------------------------- */

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  CLEANUP(unlock) held_lock held = {.fd = -1};
  pd_storage_mark now;
  uint64_t epoch = 0;
  bool is_there;
  TRY(lock(handle, &held, err));
  if (next->epoch) TRY(epoch_now(handle, agent, &epoch, err));
  if (epoch != next->epoch) return pd_epoch_conflict(next->epoch, epoch, err);
  TRY(look(handle, agent, &is_there, &now, err));
  if (last && pd_mark_is(&now, next)) return PD_OK;
  if (!pd_mark_is(&now, last)) return pd_mark_conflict(next, &now, err);
  TRY(list_before_saving(handle, agent, is_there, err));
  return put_sealed(handle, agent, snapshot, next, err);
}

typedef struct opening {
  pd_storage_take take;
  void *ctx;
  pd_storage_mark *out_mark;
} opening;

static pd_code take_sealed(void *ctx, pd_bytes value, pd_error *err)
{
  opening *o = ctx;
  pd_bytes document;
  TRY(pd_seal_read(value, &document, o->out_mark, err));
  return o->take(o->ctx, document, err);
}

static pd_code none_stored(const simple_storage *s, const char *agent, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in the storage '%.60s'", agent, s->plugin->name);
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  opening o = {take, ctx, out_mark};
  pd_code code = fetch(handle, agent, take_sealed, &o, err);
  return code == PD_NOT_FOUND ? none_stored(handle, agent, err) : code;
}

static pd_code remove_agent(void *handle, const char *agent, pd_error *err)
{
  CLEANUP(unlock) held_lock held = {.fd = -1};
  simple_storage *s = handle;
  pd_storage_mark mark;
  uint64_t epoch = 0;
  bool is_there;
  TRY(lock(s, &held, err));
  pd_code code = look(s, agent, &is_there, &mark, err);
  if (code && code != PD_CORRUPT) return code;
  if (!code && !is_there) return none_stored(s, agent, err);
  TRY(epoch_now(s, agent, &epoch, err));
  if (epoch) TRY(raise_epoch(s, agent, pd_epoch_after(epoch), err)); /* KV-3 */
  TRY(s->plugin->remove(s->handle, agent, err));
  return set_listed(s, agent, false, err);
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  const simple_storage *s = handle;
  (void)err;
  out->lasting = s->plugin->lasting;
  snprintf(out->detail, sizeof out->detail,
           "as the plugin '%.30s' says; fencing and listing (S4, S9, S10, S12) hold only among processes of one user on one machine "
           "that use one URI: elsewhere a lost save is detected by the next one, not prevented",
           s->plugin->name);
  return PD_OK;
}

const pd_storage_ops pd_storage_simple = {
  .abi = PD_STORAGE_ABI,
  .name = "simple plugin",
  .close = close_simple,
  .remove = remove_agent,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
  .save_next = save_next,
  .load_marked = load_marked,
};
