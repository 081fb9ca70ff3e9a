/*
 * activity.c: see activity.h.
 *
 * Agents are added to the table and never removed while the home is open, so that finding one needs no lock: a chain only grows at its
 * beginning.
 */
#include "state/activity.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/close.h"
#include "base/error.h"
#include "base/json.h"
#include "base/map.h"
#include "state/session.h"
#include "state/tiers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PLACE_COUNT 1024
#define PREFIX "activity/"
#define KEY_SIZE (sizeof PREFIX + PD_NAME_SIZE_MAX)

typedef struct active {
  struct active *next;
  char agent[PD_NAME_SIZE_MAX + 1];
  _Atomic int64_t last_ms;    /* in this process; 0: not yet */
  _Atomic int64_t before_ms;  /* the last call before the present stretch; 0: none */
  _Atomic int64_t written_ms; /* what the store has at least */
  int64_t staged_ms;          /* of the flush that is under way */
} active;

struct pd_activity {
  pd_home *home;
  pthread_mutex_t lock; /* of adding */
  active *_Atomic places[PLACE_COUNT];
  pthread_cond_t wake;
  pthread_t thread;                    /* writes, so that no caller waits for the disk */
  bool has_thread, is_due, is_closing; /* under `lock` */
  atomic_bool is_flushing;
  _Atomic int64_t flushed_ms; /* 0: not yet */
};

pd_code pd_activity_new(pd_home *home, pd_activity **out, pd_error *err)
{
  pd_activity *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->wake, NULL);
  *out = made;
  return PD_OK;
}

void pd_activity_free(pd_activity *activity)
{
  if (!activity) return;
  pthread_mutex_lock(&activity->lock);
  activity->is_closing = true;
  pthread_cond_signal(&activity->wake);
  pthread_mutex_unlock(&activity->lock);
  if (activity->has_thread) pthread_join(activity->thread, NULL);
  pd_code code = pd_activity_flush(activity->home, NULL); /* what is lost is one time of day */
  (void)code;
  for (size_t i = 0; i < PLACE_COUNT; i++)
    for (active *at = activity->places[i], *next; at; at = next) {
      next = at->next;
      free(at);
    }
  pthread_cond_destroy(&activity->wake);
  pthread_mutex_destroy(&activity->lock);
  free(activity);
}

/* ---- what is stored ---- */

static pd_bytes key_of(const char *agent, char out[KEY_SIZE])
{
  int size = snprintf(out, KEY_SIZE, PREFIX "%s", agent);
  return (pd_bytes){out, (size_t)size};
}

static int64_t parse_stored(pd_bytes value)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  int64_t time_ms = 0;
  if (pd_json_parse(value, &json, NULL) || pd_json_decode(pd_json_member(json, "last"), &text, NULL) || pd_buf_byte(&text, 0, NULL))
    return 0;
  return pd_time_parse((const char *)text.data, &time_ms) ? time_ms : 0;
}

static int64_t read_stored(pd_home *home, const char *agent)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_store *system = NULL;
  char key[KEY_SIZE];
  if (pd_home_store(home, PD_STORE_SYSTEM, false, &system, NULL)) return 0;
  if (pd_get(system, NULL, key_of(agent, key), &value, NULL, NULL)) return 0;
  return parse_stored(pd_buf_bytes(&value));
}

/* ---- the table ---- */

static size_t place_of(const char *agent)
{
  return pd_map_hash(pd_text(agent), 0) % PLACE_COUNT;
}

static active *find(pd_activity *activity, const char *agent)
{
  active *at = atomic_load_explicit(&activity->places[place_of(agent)], memory_order_acquire);
  while (at && strcmp(at->agent, agent) != 0) at = at->next;
  return at;
}

/* The agent's entry, made if it is not there; NULL without memory. Reads the store when it is made. */
static active *find_or_add(pd_activity *activity, const char *agent)
{
  active *found = find(activity, agent);
  if (found) return found;
  active *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  snprintf(made->agent, sizeof made->agent, "%s", agent);
  int64_t stored_ms = read_stored(activity->home, agent);
  atomic_init(&made->before_ms, stored_ms);
  atomic_init(&made->written_ms, stored_ms);
  pthread_mutex_lock(&activity->lock);
  found = find(activity, agent);
  if (!found) {
    active *_Atomic *place = &activity->places[place_of(agent)];
    made->next = atomic_load_explicit(place, memory_order_relaxed);
    atomic_store_explicit(place, made, memory_order_release);
  }
  pthread_mutex_unlock(&activity->lock);
  if (!found) return made;
  free(made);
  return found;
}

/* Was the pause so long that a call now begins a new stretch? */
static bool is_pause(const pd_home *home, int64_t last_ms, int64_t now_ms)
{
  uint64_t idle_ms = home->config.session_idle_ms;
  return last_ms && idle_ms && now_ms - last_ms > (int64_t)idle_ms;
}

static int64_t later(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static void flush(pd_activity *activity)
{
  pd_code code = pd_activity_flush(activity->home, NULL); /* kept and tried again: a call does not fail for it */
  (void)code;
}

static void *write_when_due(void *ctx)
{
  pd_activity *activity = ctx;
  pthread_mutex_lock(&activity->lock);
  while (!activity->is_closing) {
    if (!activity->is_due) {
      pthread_cond_wait(&activity->wake, &activity->lock);
      continue;
    }
    activity->is_due = false;
    pthread_mutex_unlock(&activity->lock);
    flush(activity);
    pthread_mutex_lock(&activity->lock);
  }
  pthread_mutex_unlock(&activity->lock);
  return NULL;
}

/* False: there is no memory for a thread. */
static bool flush_elsewhere(pd_activity *activity)
{
  pthread_mutex_lock(&activity->lock);
  if (!activity->has_thread) activity->has_thread = pthread_create(&activity->thread, NULL, write_when_due, activity) == 0;
  bool is_taken = activity->has_thread;
  activity->is_due = is_taken;
  pthread_cond_signal(&activity->wake);
  pthread_mutex_unlock(&activity->lock);
  return is_taken;
}

static void flush_if_due(pd_activity *activity, int64_t now_ms)
{
  int64_t flush_ms = (int64_t)activity->home->config.activity_flush_ms, flushed_ms = 0;
  bool is_first = atomic_load_explicit(&activity->flushed_ms, memory_order_relaxed) == 0 &&
                  atomic_compare_exchange_strong(&activity->flushed_ms, &flushed_ms, now_ms);
  flushed_ms = atomic_load_explicit(&activity->flushed_ms, memory_order_relaxed);
  if (flush_ms && (is_first || now_ms - flushed_ms < flush_ms)) return;
  atomic_store_explicit(&activity->flushed_ms, now_ms, memory_order_relaxed);
  if (!flush_ms || !flush_elsewhere(activity)) flush(activity); /* 0: it is on disk before the call is answered */
}

bool pd_activity_must_wait(pd_home *home, const char *agent, int64_t now_ms)
{
  active *at = find(home->activity, agent);
  return !home->config.activity_flush_ms || !at || is_pause(home, atomic_load_explicit(&at->last_ms, memory_order_relaxed), now_ms);
}

void pd_activity_note(pd_home *home, const char *agent, int64_t now_ms)
{
  active *at = find_or_add(home->activity, agent);
  if (!at) return;
  int64_t last_ms = atomic_load_explicit(&at->last_ms, memory_order_relaxed);
  if (is_pause(home, last_ms, now_ms)) atomic_store(&at->before_ms, later(last_ms, read_stored(home, agent)));
  if (now_ms > last_ms) atomic_store_explicit(&at->last_ms, now_ms, memory_order_relaxed);
  flush_if_due(home->activity, now_ms);
}

void pd_activity_last(pd_home *home, const char *agent, const char *session, int64_t *out_ms)
{
  if (pd_session_before(home, agent, session, out_ms)) return;
  active *at = find_or_add(home->activity, agent);
  int64_t last_ms = at ? atomic_load(&at->last_ms) : 0;
  if (!last_ms || is_pause(home, last_ms, pd_home_now(home))) /* no stretch of this process: another one may have been active */
    *out_ms = later(last_ms, read_stored(home, agent));
  else
    *out_ms = at ? atomic_load(&at->before_ms) : 0;
}

int64_t pd_activity_latest(pd_home *home, const char *agent)
{
  active *at = find(home->activity, agent);
  return later(at ? atomic_load(&at->last_ms) : 0, read_stored(home, agent));
}

/* ---- writing ---- */

static bool is_dirty(active *at)
{
  return atomic_load(&at->last_ms) > atomic_load(&at->written_ms);
}

static bool any_dirty(pd_activity *activity)
{
  for (size_t i = 0; i < PLACE_COUNT; i++)
    for (active *at = atomic_load(&activity->places[i]); at; at = at->next)
      if (is_dirty(at)) return true;
  return false;
}

static pd_code stage(pd_edit *edit, const char *agent, int64_t last_ms, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf old = {0};
  pd_entry entry = {0};
  char key[KEY_SIZE], value[64], text[PD_TIME_TEXT_SIZE];
  pd_code code = pd_edit_get(edit, key_of(agent, key), &old, &entry, err);
  if (code == PD_OK && parse_stored(pd_buf_bytes(&old)) >= last_ms) return PD_OK; /* another process was later */
  if (code && code != PD_NOT_FOUND) return code;
  snprintf(value, sizeof value, "{\"last\":\"%s\"}", pd_time_text(last_ms, text));
  return pd_edit_put(edit, key_of(agent, key), pd_text(value), code ? 0 : entry.version, err);
}

/* All that is dirty. */
static pd_code stage_all(void *ctx, pd_edit *edit, pd_error *err)
{
  pd_activity *activity = ctx;
  for (size_t i = 0; i < PLACE_COUNT; i++)
    for (active *at = atomic_load(&activity->places[i]); at; at = at->next) {
      at->staged_ms = is_dirty(at) ? atomic_load(&at->last_ms) : 0;
      if (at->staged_ms) TRY(stage(edit, at->agent, at->staged_ms, err));
    }
  return PD_OK;
}

/* What was staged is written; a call that came meanwhile stays to be written. */
static void mark_written(pd_activity *activity)
{
  for (size_t i = 0; i < PLACE_COUNT; i++)
    for (active *at = atomic_load(&activity->places[i]); at; at = at->next) {
      if (at->staged_ms) atomic_store(&at->written_ms, at->staged_ms);
      at->staged_ms = 0;
    }
}

static pd_code write_all(pd_activity *activity, pd_error *err)
{
  pd_store *system = NULL;
  TRY(pd_home_store(activity->home, PD_STORE_SYSTEM, true, &system, err));
  pd_note note = {.author = "perdure", .reason = "activity"};
  TRY(pd_update(system, &note, stage_all, activity, NULL, err));
  mark_written(activity);
  return PD_OK;
}

pd_code pd_activity_flush(pd_home *home, pd_error *err)
{
  pd_activity *activity = home->activity;
  if (!activity || !any_dirty(activity) || atomic_exchange(&activity->is_flushing, true)) return PD_OK;
  pd_code code = write_all(activity, err);
  atomic_store(&activity->is_flushing, false);
  return code;
}

/* ---- all of them ---- */

typedef struct seen {
  char agent[PD_NAME_SIZE_MAX + 1];
  int64_t last_ms;
} seen;

typedef struct seen_list {
  seen *items;
  size_t count, capacity;
} seen_list;

static void seen_list_done(seen_list *list)
{
  free(list->items);
}

static pd_code see(seen_list *list, pd_bytes agent, int64_t last_ms, pd_error *err)
{
  TRY(pd_array_grow(&list->items, list->count, &list->capacity, sizeof list->items[0], "active agents", err));
  seen *at = &list->items[list->count++];
  snprintf(at->agent, sizeof at->agent, "%.*s", (int)agent.size, (const char *)agent.data);
  at->last_ms = last_ms;
  return PD_OK;
}

static pd_code see_stored(pd_home *home, seen_list *list, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_store *system = NULL;
  pd_code code = pd_home_store(home, PD_STORE_SYSTEM, false, &system, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  TRY(pd_iter_open(system, NULL, &(pd_scan){.prefix = pd_text(PREFIX)}, &iter, err));
  pd_entry entry;
  pd_bytes value;
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) {
    pd_bytes agent = {(const char *)entry.key.data + strlen(PREFIX), entry.key.size - strlen(PREFIX)};
    TRY(see(list, agent, parse_stored(value), err));
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static int compare_seen(const void *a, const void *b)
{
  return strcmp(((const seen *)a)->agent, ((const seen *)b)->agent);
}

pd_code pd_activity_each(pd_home *home, void (*visit)(void *ctx, const char *agent, int64_t last_ms), void *ctx, pd_error *err)
{
  CLEANUP(seen_list_done) seen_list list = {0};
  TRY(see_stored(home, &list, err));
  for (size_t i = 0; i < PLACE_COUNT; i++)
    for (active *at = atomic_load(&home->activity->places[i]); at; at = at->next)
      TRY(see(&list, pd_text(at->agent), atomic_load(&at->last_ms), err));
  if (list.count) qsort(list.items, list.count, sizeof list.items[0], compare_seen);
  for (size_t i = 0; i < list.count; i++) {
    bool is_twice = i + 1 < list.count && strcmp(list.items[i].agent, list.items[i + 1].agent) == 0; /* stored, and in memory */
    if (is_twice) list.items[i + 1].last_ms = later(list.items[i].last_ms, list.items[i + 1].last_ms);
    if (!is_twice && list.items[i].last_ms) visit(ctx, list.items[i].agent, list.items[i].last_ms);
  }
  return PD_OK;
}
