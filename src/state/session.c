/*
 * session.c: the sessions of a home: beginning, finding, ending. Invariants S1 to S4 are in session.h; what is done inside a session is in
 * session_state.c.
 *
 * The table is cut into shards, so that threads in different sessions rarely meet. Sessions that idled out are found by whoever uses
 * them, and by a sweep over all of them, which is due when the first of them can have idled out.
 */
#include "state/session.h"

#include "base/base.h"
#include "base/error.h"
#include "state/activity.h"
#include "state/tiers.h"

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define SHARD_COUNT 16
#define SHARE_MIN 8 /* sessions of one agent, if there are few for all */
#define TRIM_BYTES ((size_t)8 * 1024 * 1024)
#define SWEEPS_AN_IDLE 64 /* sweeps are at least session.idle / 64 apart */

typedef struct shard {
  pthread_mutex_t lock;
  pd_map sessions; /* by id */
} shard;

typedef struct listener {
  void (*ended)(void *ctx, const char *agent, const char *id);
  void *ctx;
} listener;

struct pd_sessions {
  pd_home *home;
  pd_session_shares *shares; /* of agents */
  shard shards[SHARD_COUNT];
  atomic_size_t count;
  _Atomic int64_t sweep_ms;  /* no session can have idled out before; or it is too early to look again */
  atomic_size_t freed_bytes; /* since memory was last given back to the system */
  uint64_t seed;
  listener listeners[PD_SESSION_LISTENERS_MAX];
  size_t listener_count;
};

pd_code pd_sessions_new(pd_home *home, pd_sessions **out, pd_error *err)
{
  pd_sessions *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  atomic_store(&made->sweep_ms, INT64_MAX);
  for (size_t i = 0; i < SHARD_COUNT; i++) {
    made->shards[i].sessions.text_at = offsetof(pd_session, id);
    pthread_mutex_init(&made->shards[i].lock, NULL);
  }
  pd_code code = pd_session_shares_new(&made->shares, err);
  if (!code && getrandom(&made->seed, sizeof made->seed, 0) != (ssize_t)sizeof made->seed)
    code = pd_error_set(err, PD_STORAGE, "no random bytes: %s", strerror(errno));
  if (code)
    pd_sessions_free(made);
  else
    *out = made;
  return code;
}

size_t pd_session_count(pd_home *home)
{
  return atomic_load(&home->sessions->count);
}

/* ---- one session ---- */

static void let_go(pd_session *session)
{
  if (atomic_fetch_sub(&session->refs, 1) != 1) return;
  pd_session_map_done(&session->map);
  pthread_mutex_destroy(&session->lock);
  free(session);
}

void pd_session_freed(pd_home *home, size_t bytes)
{
  if (atomic_fetch_add(&home->sessions->freed_bytes, bytes) + bytes < TRIM_BYTES) return;
  atomic_store(&home->sessions->freed_bytes, 0);
#ifdef __GLIBC__
  malloc_trim(0); /* else values of middle size stay with the process, though nobody uses them */
#endif
}

/* End a session that the caller has unlinked: give back its memory, tell those who want to know. */
static void finish(pd_sessions *sessions, pd_session *session, size_t *out_count, size_t *out_bytes)
{
  pthread_mutex_lock(&session->lock);
  session->is_ended = true;
  if (out_count) *out_count = session->map.entries.count;
  size_t bytes = session->map.bytes;
  if (out_bytes) *out_bytes = bytes;
  pd_session_map_done(&session->map);
  pd_session_share *share = session->share;
  session->share = NULL;
  pthread_mutex_unlock(&session->lock);
  pd_session_share_give(share, bytes);
  pd_session_share_leave(sessions->shares, share);
  pd_session_freed(sessions->home, bytes);
  for (size_t i = 0; i < sessions->listener_count; i++)
    sessions->listeners[i].ended(sessions->listeners[i].ctx, session->agent, session->id);
  let_go(session);
}

static bool is_idle(const pd_sessions *sessions, const pd_session *session, int64_t now_ms)
{
  uint64_t idle_ms = sessions->home->config.session_idle_ms;
  return idle_ms && now_ms - atomic_load_explicit(&session->used_ms, memory_order_relaxed) > (int64_t)idle_ms;
}

/* ---- the table ---- */

static shard *shard_of(pd_sessions *sessions, const char *id)
{
  return &sessions->shards[pd_map_hash(pd_text(id), sessions->seed) >> 60];
}

/* The shard is locked. */
static void take_out(pd_sessions *sessions, shard *s, pd_session *session)
{
  pd_map_remove(&s->sessions, pd_text(session->id));
  atomic_fetch_sub(&sessions->count, 1);
}

static bool is_whose(const pd_session *session, const char *agent)
{
  return !agent || strcmp(session->agent, agent) == 0;
}

/* Take out what idled out in a shard; answers the chain of it. `*first_ms` becomes the earliest use that is left. */
static pd_session *take_idle(pd_sessions *sessions, shard *s, int64_t now_ms, int64_t *first_ms)
{
  pd_session *taken = NULL;
  size_t i = 0;
  pthread_mutex_lock(&s->lock);
  for (pd_session *at; (at = pd_map_next(&s->sessions, &i));) {
    int64_t used_ms = atomic_load_explicit(&at->used_ms, memory_order_relaxed);
    if (is_idle(sessions, at, now_ms)) {
      at->next = taken;
      taken = at;
    } else if (used_ms < *first_ms) {
      *first_ms = used_ms;
    }
  }
  for (pd_session *at = taken; at; at = at->next) take_out(sessions, s, at);
  pthread_mutex_unlock(&s->lock);
  return taken;
}

static void sweep(pd_sessions *sessions, int64_t now_ms)
{
  int64_t idle_ms = (int64_t)sessions->home->config.session_idle_ms, first_ms = now_ms;
  if (!idle_ms) return;
  atomic_store(&sessions->sweep_ms, now_ms + idle_ms); /* so that one thread does it; sessions that begin now end no sooner */
  for (size_t i = 0; i < SHARD_COUNT; i++) {
    for (pd_session *at = take_idle(sessions, &sessions->shards[i], now_ms, &first_ms), *next; at; at = next) {
      next = at->next;
      finish(sessions, at, NULL, NULL);
    }
  }
  int64_t soon_ms = now_ms + idle_ms / SWEEPS_AN_IDLE, due_ms = first_ms + idle_ms;
  atomic_store(&sessions->sweep_ms, due_ms > soon_ms ? due_ms : soon_ms);
}

bool pd_sessions_are_due(pd_home *home, int64_t now_ms)
{
  return now_ms > atomic_load_explicit(&home->sessions->sweep_ms, memory_order_relaxed);
}

static void sweep_if_due(pd_sessions *sessions, int64_t now_ms)
{
  if (pd_sessions_are_due(sessions->home, now_ms)) sweep(sessions, now_ms);
}

void pd_sessions_sweep(pd_home *home)
{
  sweep_if_due(home->sessions, pd_home_now(home));
}

void pd_sessions_free(pd_sessions *sessions)
{
  if (!sessions) return;
  for (size_t i = 0; i < SHARD_COUNT; i++) {
    shard *s = &sessions->shards[i];
    for (pd_session *at; (at = pd_map_next(&s->sessions, &(size_t){0}));) {
      take_out(sessions, s, at);
      finish(sessions, at, NULL, NULL);
    }
  }
  for (size_t i = 0; i < SHARD_COUNT; i++) { /* only now: those who are told of an end may ask for other sessions */
    pd_map_done(&sessions->shards[i].sessions);
    pthread_mutex_destroy(&sessions->shards[i].lock);
  }
  pd_session_shares_free(sessions->shares);
  free(sessions);
}

/* ---- beginning ---- */

/* Room for one more is taken in the count, or refused. */
static pd_code count_one(pd_sessions *sessions, int64_t now_ms, pd_error *err)
{
  uint64_t count_max = sessions->home->config.session_count_max;
  if (atomic_fetch_add(&sessions->count, 1) < count_max) return PD_OK;
  sweep(sessions, now_ms);
  if (atomic_load(&sessions->count) <= count_max) return PD_OK;
  atomic_fetch_sub(&sessions->count, 1);
  return pd_error_named(err, PD_LIMIT, "TooManySessions", "there are %llu sessions already, and no more are allowed",
                        (unsigned long long)count_max);
}

/* The agent's own room: what is configured, and never more than half of what there is for all, unless that is very little. */
static pd_code take_share(pd_sessions *sessions, const char *agent, int64_t now_ms, pd_session_share **out, pd_error *err)
{
  const pd_config *config = &sessions->home->config;
  uint64_t half = config->session_count_max / 2, count_max = config->session_agent_count_max;
  if (half < SHARE_MIN) half = SHARE_MIN;
  if (count_max > half) count_max = half;
  if (pd_session_share_enter(sessions->shares, agent, count_max, out, NULL) == PD_OK) return PD_OK;
  sweep(sessions, now_ms); /* some of its own may have idled out */
  return pd_session_share_enter(sessions->shares, agent, count_max, out, err);
}

static pd_code make(pd_sessions *sessions, const char *agent, int64_t now_ms, pd_session **out, pd_error *err)
{
  uint8_t random[16];
  pd_session *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a session");
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
    free(made);
    return pd_error_set(err, PD_STORAGE, "no random bytes: %s", strerror(errno));
  }
  memcpy(made->id, "s-", 2);
  for (size_t i = 0; i < sizeof random; i++) snprintf(made->id + 2 + 2 * i, 3, "%02x", random[i]);
  snprintf(made->agent, sizeof made->agent, "%s", agent);
  pd_session_map_init(&made->map, sessions->seed);
  made->begun_ms = now_ms;
  atomic_init(&made->used_ms, now_ms);
  atomic_init(&made->refs, 1);
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

static pd_code add(pd_sessions *sessions, pd_session *made, pd_error *err)
{
  shard *s = shard_of(sessions, made->id);
  pthread_mutex_lock(&s->lock);
  pd_code code = pd_map_put(&s->sessions, made, NULL, err);
  pthread_mutex_unlock(&s->lock);
  return code;
}

pd_code pd_session_begin(pd_home *home, const char *agent, char out_id[PD_SESSION_ID_SIZE], pd_error *err)
{
  pd_sessions *sessions = home->sessions;
  int64_t now_ms = pd_home_now(home);
  pd_session *made = NULL;
  pd_session_share *share = NULL;
  TRY(pd_agent_check(agent, err));
  sweep_if_due(sessions, now_ms);
  TRY(count_one(sessions, now_ms, err));
  pd_code code = take_share(sessions, agent, now_ms, &share, err);
  if (code == PD_OK) code = make(sessions, agent, now_ms, &made, err);
  if (code == PD_OK) {
    made->share = share;
    char id[PD_SESSION_ID_SIZE];
    memcpy(id, made->id, sizeof id); /* the moment it is in the table, it may end */
    made->before_ms = pd_activity_latest(home, agent);
    code = add(sessions, made, err);
    if (code == PD_OK) memcpy(out_id, id, sizeof id);
  }
  if (code) {
    atomic_fetch_sub(&sessions->count, 1);
    pd_session_share_leave(sessions->shares, share);
    if (made) let_go(made);
    return code;
  }
  int64_t due_ms = now_ms + (int64_t)home->config.session_idle_ms, none = INT64_MAX;
  if (home->config.session_idle_ms) atomic_compare_exchange_strong(&sessions->sweep_ms, &none, due_ms);
  pd_activity_note(home, agent, now_ms);
  return PD_OK;
}

/* ---- finding ---- */

static pd_code refuse(const char *id, pd_error *err)
{
  if (!id || !*id) return pd_error_set(err, PD_SESSION, "no session was named; session.begin makes one");
  return pd_error_set(err, PD_SESSION, "there is no session '%.64s': it has ended, or it never was this agent's", id);
}

/* A session that is alive, held for the caller, who lets it go. NULL if there is none. */
static pd_session *hold(pd_sessions *sessions, const char *agent, const char *id, int64_t now_ms)
{
  if (!id || !*id) return NULL;
  shard *s = shard_of(sessions, id);
  pthread_mutex_lock(&s->lock);
  pd_session *found = pd_map_find(&s->sessions, pd_text(id));
  if (found && (!is_whose(found, agent) || is_idle(sessions, found, now_ms))) found = NULL;
  if (found) atomic_fetch_add_explicit(&found->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&s->lock);
  return found;
}

pd_code pd_session_enter(pd_home *home, const char *agent, const char *id, pd_session **out, pd_error *err)
{
  int64_t now_ms = pd_home_now(home);
  sweep_if_due(home->sessions, now_ms);
  pd_session *found = hold(home->sessions, agent, id, now_ms);
  if (!found) return refuse(id, err);
  atomic_store_explicit(&found->used_ms, now_ms, memory_order_relaxed);
  pthread_mutex_lock(&found->lock);
  if (found->is_ended) {
    pd_session_leave(found);
    return refuse(id, err);
  }
  *out = found;
  return PD_OK;
}

void pd_session_leave(pd_session *session)
{
  if (!session) return;
  pthread_mutex_unlock(&session->lock);
  let_go(session);
}

bool pd_session_is_alive(pd_home *home, const char *agent, const char *id)
{
  return pd_session_before(home, agent, id, &(int64_t){0});
}

bool pd_session_before(pd_home *home, const char *agent, const char *id, int64_t *out_ms)
{
  pd_session *found = hold(home->sessions, agent, id, pd_home_now(home));
  if (!found) return false;
  *out_ms = found->before_ms;
  let_go(found);
  return true;
}

/* ---- ending ---- */

pd_code pd_session_stop(pd_home *home, const char *agent, const char *id, size_t *out_count, size_t *out_bytes, pd_error *err)
{
  if (!id || !*id) return refuse(id, err);
  pd_sessions *sessions = home->sessions;
  int64_t now_ms = pd_home_now(home);
  sweep_if_due(sessions, now_ms);
  shard *s = shard_of(sessions, id);
  pthread_mutex_lock(&s->lock);
  pd_session *found = pd_map_find(&s->sessions, pd_text(id));
  if (found && (!is_whose(found, agent) || is_idle(sessions, found, now_ms))) found = NULL;
  if (found) take_out(sessions, s, found);
  pthread_mutex_unlock(&s->lock);
  if (!found) return refuse(id, err);
  finish(sessions, found, out_count, out_bytes);
  return PD_OK;
}

pd_code pd_session_end(pd_home *home, const char *agent, const char *id, pd_error *err)
{
  TRY(pd_agent_check(agent, err));
  return pd_session_stop(home, agent, id, NULL, NULL, err);
}

void pd_session_on_end(pd_home *home, void (*ended)(void *ctx, const char *agent, const char *id), void *ctx)
{
  pd_sessions *sessions = home->sessions;
  if (sessions->listener_count == PD_SESSION_LISTENERS_MAX) abort(); /* one more tier than there is room for: raise the number */
  sessions->listeners[sessions->listener_count++] = (listener){ended, ctx};
}

/* ---- all of them ---- */

typedef struct held_list {
  pd_session **items;
  size_t count;
} held_list;

static void held_list_done(held_list *list)
{
  for (size_t i = 0; i < list->count; i++) let_go(list->items[i]);
  free(list->items);
}

static pd_code hold_shard(shard *s, const char *agent, held_list *list, pd_error *err)
{
  pthread_mutex_lock(&s->lock);
  pd_session **grown = realloc(list->items, (list->count + s->sessions.count + 1) * sizeof(pd_session *));
  if (grown) list->items = grown;
  size_t i = 0;
  for (pd_session *at; grown && (at = pd_map_next(&s->sessions, &i));) {
    if (!is_whose(at, agent)) continue;
    atomic_fetch_add(&at->refs, 1);
    list->items[list->count++] = at;
  }
  pthread_mutex_unlock(&s->lock);
  return grown ? PD_OK : pd_error_memory(err, "a list of sessions");
}

static int compare_age(const void *a, const void *b)
{
  const pd_session *x = *(pd_session *const *)a, *y = *(pd_session *const *)b;
  if (x->begun_ms != y->begun_ms) return x->begun_ms < y->begun_ms ? -1 : 1;
  return strcmp(x->id, y->id);
}

pd_code pd_session_each(pd_home *home, const char *agent, void (*visit)(void *ctx, const pd_session_info *info), void *ctx, pd_error *err)
{
  CLEANUP(held_list_done) held_list list = {0};
  sweep(home->sessions, pd_home_now(home));
  for (size_t i = 0; i < SHARD_COUNT; i++) TRY(hold_shard(&home->sessions->shards[i], agent, &list, err));
  qsort(list.items, list.count, sizeof(pd_session *), compare_age);
  for (size_t i = 0; i < list.count; i++) {
    pd_session *at = list.items[i];
    pd_session_info info = {at->id, at->agent, at->begun_ms, atomic_load(&at->used_ms), 0, 0};
    pthread_mutex_lock(&at->lock);
    bool is_ended = at->is_ended;
    info.bytes = at->map.bytes;
    info.key_count = at->map.entries.count;
    pthread_mutex_unlock(&at->lock);
    if (!is_ended) visit(ctx, &info);
  }
  return PD_OK;
}
