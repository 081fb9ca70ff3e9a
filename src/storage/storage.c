/*
 * storage.c: the door of src/storage: from a URI to a storage, and every document checked on its way in and out.
 *
 *  D1  No document reaches a storage, or leaves it, that is no sound snapshot of the agent that was named.
 *  D2  Before a handle saves an agent's snapshot for the first time it looks at what is there: what is no snapshot of that agent
 *      belongs to somebody else, or is all that is left of something, and is not overwritten.
 *  D3  One call at a time enters a storage (S7).
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"
#include "base/random.h"
#include "storage/builtin.h"
#include "storage/simple.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define URI_SIZE_MAX 4096
#define AGENTS_MAX 1000000 /* of a list */

struct pd_storage {
  pd_storage_ops ops;
  void *handle;
  void *library; /* of a plugin */
  pthread_mutex_t lock;
  pd_map64 seen; /* agents whose stored snapshot was looked at (D2) */
};

static const struct {
  const char *scheme;
  const pd_storage_ops *ops; /* NULL: a plugin */
} schemes[] = {
  {"file", &pd_storage_file},
  {"sqlite-snapshots", &pd_storage_sqlite},
  {"redis", &pd_storage_redis},
  {"rediss", &pd_storage_rediss},
  {"redis+unix", &pd_storage_redis_unix},
  {"perdure", &pd_storage_perdure},
  {"plugin", NULL},
};

#define KNOWN "file:, sqlite-snapshots:, redis:, rediss:, redis+unix:, perdure:, plugin:"

const char *pd_lasting_name(pd_lasting lasting)
{
  static const char *const names[] = {"unknown", "memory", "mostly", "power"};
  return (size_t)lasting < COUNT_OF(names) ? names[lasting] : "unknown";
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static bool has_scheme(const char *uri, const char *scheme)
{
  size_t size = strlen(scheme);
  return strncmp(uri, scheme, size) == 0 && uri[size] == ':';
}

bool pd_storage_is_known(const char *uri)
{
  for (size_t i = 0; i < COUNT_OF(schemes); i++)
    if (has_scheme(uri, schemes[i].scheme) && uri[strlen(schemes[i].scheme) + 1]) return true;
  return false;
}

/* The URI is not repeated past its scheme: it may hold a password. */
static pd_code find_ops(const char *uri, pd_storage_library *out, const char **out_argument, pd_error *err)
{
  if (!uri || !*uri) return pd_error_set(err, PD_INVALID, "the storage's URI is empty (known: " KNOWN ")");
  if (strnlen(uri, URI_SIZE_MAX + 1) > URI_SIZE_MAX) {
    return pd_error_set(err, PD_LIMIT, "the storage's URI is longer than %d bytes", URI_SIZE_MAX);
  }
  const char *colon = strchr(uri, ':');
  if (!colon)
    return pd_error_set(err, PD_INVALID, "the storage '%.60s' has no scheme; for a folder write file:DIR (known: " KNOWN ")", uri);
  size_t size = (size_t)(colon - uri);
  for (size_t i = 0; i < COUNT_OF(schemes); i++) {
    if (!has_scheme(uri, schemes[i].scheme)) continue;
    *out_argument = colon + 1;
    if (!schemes[i].ops) return pd_storage_plugin_load(colon + 1, out, out_argument, err);
    out->ops = *schemes[i].ops;
    return PD_OK;
  }
  if (size == 6 && memcmp(uri, "sqlite", 6) == 0) {
    return pd_error_set(err, PD_INVALID, "sqlite: is a store, not a storage: write sqlite-snapshots:FILE, or perdure:sqlite:DIR");
  }
  return pd_error_set(err, PD_INVALID, "unknown storage scheme '%.*s' (known: " KNOWN ")", (int)(size < 60 ? size : 60), uri);
}

pd_code pd_storage_open(const char *uri, pd_storage **out, pd_error *err)
{
  pd_error own;
  const char *argument = NULL;
  pd_storage *storage = calloc(1, sizeof *storage);
  if (!storage) return pd_error_memory(err, "a storage");
  pd_storage_library found = {0};
  if (!err) err = &own;
  pd_code code = find_ops(uri, &found, &argument, err);
  storage->ops = found.ops;
  storage->library = found.library;
  if (!code && found.simple)
    code = pd_storage_simple_open(found.simple, argument, &storage->handle, err);
  else if (!code)
    code = storage->ops.open(argument, &storage->handle, err);
  if (code) {
    if (storage->library) dlclose(storage->library);
    free(storage);
    return code;
  }
  pthread_mutex_init(&storage->lock, NULL);
  *out = storage;
  return PD_OK;
}

void pd_storage_close(pd_storage *storage)
{
  if (!storage) return;
  storage->ops.close(storage->handle);
  if (storage->library) dlclose(storage->library);
  pd_map64_done(&storage->seen);
  pthread_mutex_destroy(&storage->lock);
  free(storage);
}

/* ---- one snapshot -------------------------------------------------------------------------------------------------- */

static uint64_t fingerprint(const char *agent)
{
  uint64_t hash = 1;
  for (; *agent; agent++) hash = pd_mix64(hash, (uint8_t)*agent);
  return hash ? hash : 1;
}

typedef struct taking {
  const char *agent;
  pd_buf *out; /* NULL: only looked at */
} taking;

/* D1 on the way out. */
static pd_code take_checked(void *ctx, pd_bytes snapshot, pd_error *err)
{
  taking *t = ctx;
  pd_error why = {0};
  pd_code code = pd_snapshot_check(snapshot, t->agent, NULL, &why);
  if (code == PD_INVALID || code == PD_LIMIT) {
    return pd_error_set(err, PD_CORRUPT, "what is stored for agent '%s' is no sound snapshot: %.380s", t->agent, why.message);
  }
  if (code) {
    if (err) *err = why;
    return code;
  }
  if (!t->out) return PD_OK;
  pd_buf_clear(t->out);
  return pd_buf_append(t->out, snapshot.data, snapshot.size, err);
}

/* The latest, by whichever version of the interface the storage has. */
static pd_code load_latest(pd_storage *storage, const char *agent, taking *t, pd_storage_mark *out_mark, pd_error *err)
{
  *out_mark = (pd_storage_mark){0};
  if (storage->ops.load_marked) return storage->ops.load_marked(storage->handle, agent, take_checked, t, out_mark, err);
  return storage->ops.load(storage->handle, agent, take_checked, t, err);
}

static pd_code look_before_saving(pd_storage *storage, const char *agent, pd_error *err)
{
  if (pd_map64_find(&storage->seen, fingerprint(agent))) return PD_OK;
  taking look = {agent, NULL};
  pd_storage_mark ignored;
  pd_code code = load_latest(storage, agent, &look, &ignored, err);
  if (code == PD_CORRUPT) {
    char why[PD_ERROR_MESSAGE_MAX];
    snprintf(why, sizeof why, "%s", err->message);
    return pd_error_set(err, PD_CORRUPT, "%.440s; it is not overwritten: move it away or delete it", why);
  }
  if (code && code != PD_NOT_FOUND) return code;
  return pd_map64_add(&storage->seen, fingerprint(agent), NULL, NULL, err);
}

/* The one message of fencing, and of its like, whatever the storage said. */
static pd_code refused(const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_error *err)
{
  uint64_t actual = err->actual;
  if (last && actual == next->epoch) {
    return pd_error_named(err, PD_CONFLICT, "SnapshotChanged",
                          "the snapshot of agent '%s' is not the one that was loaded any more: load it again", agent);
  }
  pd_error_named(err, PD_CONFLICT, "AgentFenced", "agent '%s' is held by epoch %llu now: epoch %llu may not save it any more", agent,
                 (unsigned long long)actual, (unsigned long long)next->epoch);
  err->expected = next->epoch;
  err->actual = actual;
  return PD_CONFLICT;
}

static pd_code save_any(pd_storage *storage, const char *agent_id, const pd_storage_mark *last, const pd_storage_mark *next,
                        pd_bytes snapshot, pd_error *err)
{
  TRY(pd_agent_check(agent_id, err));
  TRY(pd_snapshot_check(snapshot, agent_id, NULL, err));
  pthread_mutex_lock(&storage->lock);
  pd_code code = look_before_saving(storage, agent_id, err);
  if (!code) {
    code = storage->ops.save_next ? storage->ops.save_next(storage->handle, agent_id, last, next, snapshot, err)
                                  : storage->ops.save(storage->handle, agent_id, next->epoch, snapshot, err);
    if (code == PD_CONFLICT && next->epoch) code = refused(agent_id, last, next, err);
  }
  pthread_mutex_unlock(&storage->lock);
  return code;
}

pd_code pd_storage_save(pd_storage *storage, const char *agent_id, pd_bytes snapshot, pd_error *err)
{
  pd_error own;
  pd_storage_mark next = {0};
  if (!err) err = &own;
  TRY(pd_random_u64(&next.token, err));
  return save_any(storage, agent_id, NULL, &next, snapshot, err);
}

static pd_code check_epoch(const char *agent_id, uint64_t epoch, pd_error *err)
{
  if (epoch) return PD_OK;
  return pd_error_set(err, PD_INVALID, "0 is no epoch: claim the agent '%.80s' first", agent_id ? agent_id : "");
}

pd_code pd_storage_save_as(pd_storage *storage, const char *agent_id, uint64_t epoch, pd_bytes snapshot, pd_error *err)
{
  pd_error own;
  pd_storage_mark next = {.epoch = epoch};
  if (!err) err = &own;
  TRY(check_epoch(agent_id, epoch, err));
  TRY(pd_random_u64(&next.token, err));
  return save_any(storage, agent_id, NULL, &next, snapshot, err);
}

pd_code pd_storage_save_next(pd_storage *storage, const char *agent_id, const pd_storage_mark *last, const pd_storage_mark *next,
                             pd_bytes snapshot, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  TRY(check_epoch(agent_id, next->epoch, err));
  if (!next->token) return pd_error_set(err, PD_INVALID, "the mark of a save needs a token that is not 0");
  return save_any(storage, agent_id, last, next, snapshot, err);
}

static pd_code ask_epoch(pd_storage *storage, const char *agent_id, bool is_claim, uint64_t *out, pd_error *err)
{
  pd_error own;
  uint64_t epoch = 0;
  if (!err) err = &own;
  TRY(pd_agent_check(agent_id, err));
  pthread_mutex_lock(&storage->lock);
  pd_code code = (is_claim ? storage->ops.claim : storage->ops.epoch)(storage->handle, agent_id, &epoch, err);
  pthread_mutex_unlock(&storage->lock);
  if (!code && (epoch > PD_SNAPSHOT_NUMBER_MAX || (is_claim && !epoch))) {
    code = pd_error_set(err, PD_CORRUPT, "the storage '%s' gave agent '%s' the epoch %llu, which it cannot have", storage->ops.name,
                        agent_id, (unsigned long long)epoch);
  }
  if (!code) *out = epoch;
  return code;
}

pd_code pd_storage_claim(pd_storage *storage, const char *agent_id, uint64_t *out_epoch, pd_error *err)
{
  return ask_epoch(storage, agent_id, true, out_epoch, err);
}

pd_code pd_storage_epoch(pd_storage *storage, const char *agent_id, uint64_t *out_epoch, pd_error *err)
{
  return ask_epoch(storage, agent_id, false, out_epoch, err);
}

/* Load what `tick` names; NULL: the latest, and its mark. */
static pd_code load_any(pd_storage *storage, const char *agent_id, const uint64_t *tick, pd_buf *out, pd_storage_mark *out_mark,
                        pd_error *err)
{
  pd_storage_mark mark = {0};
  pd_error own;
  CLEANUP(pd_buf_done) pd_buf document = {0};
  if (!err) err = &own;
  TRY(pd_agent_check(agent_id, err));
  if (tick && !storage->ops.load_tick) {
    return pd_error_set(err, PD_UNSUPPORTED, "the storage '%s' keeps only the latest snapshot", storage->ops.name);
  }
  taking t = {agent_id, &document};
  pthread_mutex_lock(&storage->lock);
  pd_code code =
    tick ? storage->ops.load_tick(storage->handle, agent_id, *tick, take_checked, &t, err) : load_latest(storage, agent_id, &t, &mark, err);
  if (!tick && !code) code = pd_map64_add(&storage->seen, fingerprint(agent_id), NULL, NULL, err); /* D2 is done */
  pthread_mutex_unlock(&storage->lock);
  if (out_mark) *out_mark = code ? (pd_storage_mark){0} : mark;
  if (code) return code;
  pd_buf_clear(out);
  return pd_buf_append(out, document.data, document.size, err);
}

pd_code pd_storage_load(pd_storage *storage, const char *agent_id, pd_buf *out, pd_error *err)
{
  return load_any(storage, agent_id, NULL, out, NULL, err);
}

pd_code pd_storage_load_marked(pd_storage *storage, const char *agent_id, pd_buf *out, pd_storage_mark *out_mark, pd_error *err)
{
  *out_mark = (pd_storage_mark){0};
  return load_any(storage, agent_id, NULL, out, out_mark, err);
}

pd_code pd_storage_load_tick(pd_storage *storage, const char *agent_id, uint64_t tick_index, pd_buf *out, pd_error *err)
{
  return load_any(storage, agent_id, &tick_index, out, NULL, err);
}

pd_code pd_storage_ticks(pd_storage *storage, const char *agent_id, pd_storage_tick_visit visit, void *ctx, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  TRY(pd_agent_check(agent_id, err));
  if (!storage->ops.ticks) {
    return pd_error_set(err, PD_UNSUPPORTED, "the storage '%s' keeps only the latest snapshot", storage->ops.name);
  }
  pthread_mutex_lock(&storage->lock);
  pd_code code = storage->ops.ticks(storage->handle, agent_id, visit, ctx, err);
  pthread_mutex_unlock(&storage->lock);
  return code;
}

pd_code pd_storage_delete(pd_storage *storage, const char *agent_id, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  TRY(pd_agent_check(agent_id, err));
  pthread_mutex_lock(&storage->lock);
  pd_code code = storage->ops.remove(storage->handle, agent_id, err);
  pthread_mutex_unlock(&storage->lock);
  return code;
}

/* ---- all of them --------------------------------------------------------------------------------------------------- */

typedef struct agent_list {
  char (*names)[PD_NAME_SIZE_MAX + 1];
  size_t count, capacity;
} agent_list;

/* Names that no agent can have are somebody else's. */
static pd_code take_name(void *ctx, const char *agent, pd_error *err)
{
  agent_list *list = ctx;
  if (pd_agent_check(agent, NULL)) return PD_OK;
  if (list->count == AGENTS_MAX) return pd_error_set(err, PD_LIMIT, "the storage has more than %d agents", AGENTS_MAX);
  TRY(pd_array_grow(&list->names, list->count, &list->capacity, sizeof *list->names, "a list of agents", err));
  snprintf(list->names[list->count++], sizeof *list->names, "%s", agent);
  return PD_OK;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

pd_code pd_storage_list(pd_storage *storage, void (*visit)(void *ctx, const char *agent_id), void *ctx, pd_error *err)
{
  pd_error own;
  agent_list list = {0};
  pthread_mutex_lock(&storage->lock);
  pd_code code = storage->ops.list(storage->handle, take_name, &list, err ? err : &own);
  pthread_mutex_unlock(&storage->lock);
  if (!code && list.count) qsort(list.names, list.count, sizeof *list.names, by_name);
  for (size_t i = 0; !code && i < list.count; i++)
    if (i == 0 || strcmp(list.names[i - 1], list.names[i]) != 0) visit(ctx, list.names[i]); /* SCAN may tell a key twice */
  free(list.names);
  return code;
}

pd_code pd_storage_durability_get(pd_storage *storage, pd_storage_durability *out, pd_error *err)
{
  pd_error own;
  pd_storage_durability found = {0};
  pthread_mutex_lock(&storage->lock);
  pd_code code = storage->ops.durability(storage->handle, &found, err ? err : &own);
  pthread_mutex_unlock(&storage->lock);
  if (!code) *out = found;
  return code;
}
