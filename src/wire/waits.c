/*
 * waits.c: see waits.h for the invariants A1 to A4.
 *
 * Two threads, begun with the first who waits: one follows the keys queue/… of the store `system` and wakes the agent's oldest waiter; one
 * keeps the time. The first sleeps, and has no watch open, while nobody waits.
 *
 * LOCKS       That of `gone`, then ours, then the pool's.
 */
#include "wire/waits.h"

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/start.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_SIZE ((size_t)256 * 1024)
#define BUCKETS 256u
#define SLICE_MS 100 /* how long closing may have to wait for the thread; changes wake it at once */
#define RETRY_MS 20  /* the pool had no room */
#define PREFIX "queue/"

struct pd_waits_group {
  pd_waits_group *next;
  char agent[PD_NAME_SIZE_MAX + 1];
  size_t count;            /* waiters, parked or running */
  uint64_t generation;     /* changes of the queue that were seen since there is the group */
  pd_waiter *first, *last; /* those that are parked, the oldest first */
};

struct pd_waits {
  pd_home *home;
  pd_pool *pool;
  pd_gone *gone;
  pthread_t follower, timer;
  bool has_follower, has_timer;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed, time_changed;
  bool is_stopping, is_draining;
  pd_store *store; /* `system`, borrowed while the watch is open */
  pd_watch *watch; /* used by the follower; opened and closed under the lock */
  pd_waits_group *groups[BUCKETS];
  size_t count; /* waiters that have joined: there is room for as many in the heap */
  uint64_t next_order;
  pd_waiter **heap; /* from 1 on: the parked ones, the next that is due first */
  size_t heap_count, heap_capacity;
};

/* ---- the heap; under the lock ---- */

static void put_at(pd_waits *waits, size_t place, pd_waiter *w)
{
  waits->heap[place] = w;
  w->place = place;
}

static void sift_up(pd_waits *waits, size_t place, pd_waiter *w)
{
  for (; place > 1 && waits->heap[place / 2]->due_ms > w->due_ms; place /= 2) put_at(waits, place, waits->heap[place / 2]);
  put_at(waits, place, w);
}

static void sift_down(pd_waits *waits, size_t place, pd_waiter *w)
{
  for (size_t child; (child = place * 2) <= waits->heap_count; place = child) {
    if (child < waits->heap_count && waits->heap[child + 1]->due_ms < waits->heap[child]->due_ms) child++;
    if (waits->heap[child]->due_ms >= w->due_ms) break;
    put_at(waits, place, waits->heap[child]);
  }
  put_at(waits, place, w);
}

static void heap_add(pd_waits *waits, pd_waiter *w, int64_t due_ms)
{
  w->due_ms = due_ms;
  sift_up(waits, ++waits->heap_count, w);
  if (w->place == 1) pthread_cond_signal(&waits->time_changed);
}

static void heap_remove(pd_waits *waits, pd_waiter *w)
{
  size_t place = w->place;
  pd_waiter *last = waits->heap[waits->heap_count--];
  w->place = 0;
  if (last == w) return;
  if (place > 1 && waits->heap[place / 2]->due_ms > last->due_ms)
    sift_up(waits, place, last);
  else
    sift_down(waits, place, last);
}

/* ---- groups; under the lock ---- */

static pd_waits_group **group_place(pd_waits *waits, const char *agent, size_t size)
{
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (uint8_t)agent[i]) * 16777619u;
  pd_waits_group **at = &waits->groups[hash % BUCKETS];
  while (*at && (strncmp((*at)->agent, agent, size) != 0 || (*at)->agent[size])) at = &(*at)->next;
  return at;
}

static void group_add(pd_waiter *w)
{
  pd_waits_group *group = w->group;
  pd_waiter *before = group->last;
  while (before && before->order > w->order) before = before->prev;
  w->prev = before;
  w->next = before ? before->next : group->first;
  *(w->next ? &w->next->prev : &group->last) = w;
  *(before ? &before->next : &group->first) = w;
}

static void group_remove(pd_waiter *w)
{
  *(w->prev ? &w->prev->next : &w->group->first) = w->next;
  *(w->next ? &w->next->prev : &w->group->last) = w->prev;
  w->next = w->prev = NULL;
}

/* ---- waking; under the lock ---- */

/* A parked one: its job runs. `passes_on`: for something that others may want, too. */
static void wake(pd_waits *waits, pd_waiter *w, bool passes_on)
{
  heap_remove(waits, w);
  w->passes_on = passes_on;
  w->is_parked = false;
  group_remove(w);
  if (pd_pool_add(waits->pool, &w->job)) return; /* from here on it is its owner's: A1 */
  w->is_parked = true;
  group_add(w);
  heap_add(waits, w, pd_clock_monotonic_ms() + RETRY_MS);
}

static void wake_first(pd_waits *waits, pd_waits_group *group)
{
  if (group->first) wake(waits, group->first, true);
}

/* ---- the follower ---- */

static void close_watch(pd_waits *waits)
{
  pd_watch_close(waits->watch);
  pd_home_return(waits->home, waits->store);
  waits->watch = NULL;
  waits->store = NULL;
}

/* Sleep while nobody waits. False: stop. */
static bool is_wanted(pd_waits *waits)
{
  pthread_mutex_lock(&waits->lock);
  while (!waits->is_stopping && !waits->count) {
    close_watch(waits);
    pthread_cond_wait(&waits->changed, &waits->lock);
  }
  bool is_stopping = waits->is_stopping;
  pthread_mutex_unlock(&waits->lock);
  return !is_stopping;
}

/* Something that is no change of a key, or the log cannot be followed: everybody has a look. */
static void wake_all_first(pd_waits *waits)
{
  pthread_mutex_lock(&waits->lock);
  for (size_t i = 0; i < BUCKETS; i++)
    for (pd_waits_group *group = waits->groups[i]; group; group = group->next) {
      group->generation++;
      wake_first(waits, group);
    }
  pthread_mutex_unlock(&waits->lock);
}

/* A key of an agent's queue has changed: queue/AGENT, or one below it. */
static void take_event(pd_waits *waits, const pd_watch_event *event)
{
  if ((event->kind != PD_WATCH_PUT && event->kind != PD_WATCH_DELETE) || event->key.size < sizeof PREFIX) {
    wake_all_first(waits);
    return;
  }
  const char *agent = (const char *)event->key.data + sizeof PREFIX - 1;
  size_t size = event->key.size - (sizeof PREFIX - 1);
  const char *slash = memchr(agent, '/', size);
  if (slash) size = (size_t)(slash - agent);
  pthread_mutex_lock(&waits->lock);
  pd_waits_group *group = *group_place(waits, agent, size);
  if (group && !slash) { /* each change of the queue is one of its head: once is enough */
    group->generation++;
    wake_first(waits, group);
  }
  pthread_mutex_unlock(&waits->lock);
}

static void *follow(void *ctx)
{
  pd_waits *waits = ctx;
  pd_watch_event event;
  while (is_wanted(waits)) {
    pd_code code = pd_watch_next(waits->watch, SLICE_MS, &event, NULL);
    for (; code == PD_OK; code = pd_watch_next(waits->watch, 0, &event, NULL)) take_event(waits, &event);
    if (code == PD_NOT_FOUND) continue;
    wake_all_first(waits);
    nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL); /* it fails: not in a circle */
  }
  return NULL;
}

/* ---- the time ---- */

static void *keep_time(void *ctx)
{
  pd_waits *waits = ctx;
  pthread_mutex_lock(&waits->lock);
  while (!waits->is_stopping) {
    pd_waiter *next = waits->heap_count ? waits->heap[1] : NULL;
    int64_t now_ms = pd_clock_monotonic_ms();
    if (next && next->due_ms <= now_ms) {
      wake(waits, next, now_ms < next->wait.deadline_ms);
      continue;
    }
    if (!next) {
      pthread_cond_wait(&waits->time_changed, &waits->lock);
      continue;
    }
    struct timespec until = {.tv_sec = next->due_ms / 1000, .tv_nsec = next->due_ms % 1000 * 1000000};
    pthread_cond_timedwait(&waits->time_changed, &waits->lock, &until);
  }
  pthread_mutex_unlock(&waits->lock);
  return NULL;
}

/* ---- all of them ---- */

pd_code pd_waits_new(pd_home *home, pd_pool *pool, pd_gone *gone, pd_waits **out, pd_error *err)
{
  pd_waits *waits = calloc(1, sizeof *waits);
  if (!waits) return pd_error_memory(err, "the server");
  waits->home = home;
  waits->pool = pool;
  waits->gone = gone;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&waits->time_changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_cond_init(&waits->changed, NULL);
  pthread_mutex_init(&waits->lock, NULL);
  *out = waits;
  return PD_OK;
}

void pd_waits_free(pd_waits *waits)
{
  if (!waits) return;
  pthread_mutex_lock(&waits->lock);
  waits->is_stopping = true;
  pthread_cond_broadcast(&waits->changed);
  pthread_cond_broadcast(&waits->time_changed);
  pthread_mutex_unlock(&waits->lock);
  if (waits->has_follower) pthread_join(waits->follower, NULL);
  if (waits->has_timer) pthread_join(waits->timer, NULL);
  if (waits->watch) close_watch(waits);
  pthread_cond_destroy(&waits->changed);
  pthread_cond_destroy(&waits->time_changed);
  pthread_mutex_destroy(&waits->lock);
  free(waits->heap);
  free(waits);
}

size_t pd_waits_count(pd_waits *waits)
{
  pthread_mutex_lock(&waits->lock);
  size_t count = waits->heap_count;
  pthread_mutex_unlock(&waits->lock);
  return count;
}

void pd_waits_drain(pd_waits *waits)
{
  pthread_mutex_lock(&waits->lock);
  waits->is_draining = true;
  size_t count = waits->heap_count;
  for (size_t i = 1; i <= count; i++) waits->heap[i]->wait.is_over = true;
  while (count-- && waits->heap_count) wake(waits, waits->heap[1], false);
  pthread_mutex_unlock(&waits->lock);
}

/* ---- joining ---- */

/* Under the lock, which nothing that the store calls asks for. */
static pd_code open_watch(pd_waits *waits, pd_error *err)
{
  if (waits->watch) return PD_OK;
  TRY(pd_home_borrow(waits->home, "system", true, &waits->store, err));
  pd_watch_options options = {.prefix = pd_text(PREFIX), .ref = pd_store_ref(waits->store)};
  pd_code code = pd_watch_open(waits->store, &options, &waits->watch, err);
  if (code) close_watch(waits);
  return code;
}

static pd_code start_threads(pd_waits *waits, pd_error *err)
{
  if (!waits->has_timer) waits->has_timer = pd_spawn(&waits->timer, STACK_SIZE, keep_time, waits) == 0;
  if (!waits->has_follower) waits->has_follower = pd_spawn(&waits->follower, STACK_SIZE, follow, waits) == 0;
  if (waits->has_timer && waits->has_follower) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot start a thread for those who wait");
}

static pd_code join(pd_waits *waits, pd_waiter *w, pd_error *err)
{
  TRY(pd_array_grow(&waits->heap, waits->count + 1, &waits->heap_capacity, sizeof(pd_waiter *), "who waits", err));
  TRY(open_watch(waits, err));
  TRY(start_threads(waits, err));
  pd_waits_group **at = group_place(waits, w->agent, strlen(w->agent));
  if (!*at) {
    pd_waits_group *group = calloc(1, sizeof *group);
    if (!group) return pd_error_memory(err, "who waits");
    snprintf(group->agent, sizeof group->agent, "%s", w->agent);
    *at = group;
  }
  w->group = *at;
  w->group->count++;
  w->order = ++waits->next_order;
  w->job.owner = w->agent;
  if (!waits->count++) pthread_cond_signal(&waits->changed);
  return PD_OK;
}

static void leave(pd_waits *waits, pd_waiter *w)
{
  pd_waits_group *group = w->group;
  waits->count--;
  w->group = NULL;
  if (w->passes_on) wake_first(waits, group); /* A3 */
  if (--group->count) return;
  *group_place(waits, group->agent, strlen(group->agent)) = group->next;
  free(group);
}

/* ---- one of them ---- */

void pd_waits_look(pd_waits *waits, pd_waiter *w)
{
  if (!w->group) return;
  pd_gone_forget(waits->gone, &w->leaver);
  pthread_mutex_lock(&waits->lock);
  w->ticket = w->group->generation;
  pthread_mutex_unlock(&waits->lock);
}

/* Under the lock of `gone`. */
static void client_left(void *ctx)
{
  pd_waiter *w = ctx;
  pd_waits_cancel(w->waits, w);
}

void pd_waits_cancel(pd_waits *waits, pd_waiter *w)
{
  pthread_mutex_lock(&waits->lock);
  atomic_store(&w->is_gone, true);
  if (w->is_parked) wake(waits, w, w->passes_on);
  pthread_mutex_unlock(&waits->lock);
}

static void client_is_silent(void *ctx)
{
  pd_waiter *w = ctx;
  pd_waits_hurry(w->waits, w);
}

void pd_waits_hurry(pd_waits *waits, pd_waiter *w)
{
  pthread_mutex_lock(&waits->lock);
  w->is_hurried = true;
  if (w->is_parked) {
    w->wait.is_over = true;
    wake(waits, w, w->passes_on);
  }
  pthread_mutex_unlock(&waits->lock);
}

/* Only the oldest needs to look when a delivery ends (A3); the others sleep until their own end. */
static int64_t due_of(const pd_waiter *w)
{
  if (w->ticket != w->group->generation) return 0; /* A2: at once, when it is its turn in the pool */
  return w->group->first == w ? w->wait.due_ms : w->wait.deadline_ms;
}

bool pd_waits_park(pd_waits *waits, pd_waiter *w)
{
  bool is_new = !w->group;
  if (!is_new) {
    w->waits = waits;
    w->leaver = (pd_leaver){.half = client_is_silent, .left = client_left, .ctx = w, .fd = w->fd};
    pd_gone_watch(waits->gone, &w->leaver);
  }
  pthread_mutex_lock(&waits->lock);
  if (waits->is_draining || w->is_hurried || (is_new && join(waits, w, NULL))) w->wait.is_over = true; /* it answers with what there is */
  bool is_parked = !is_new && !w->wait.is_over && !atomic_load(&w->is_gone);
  if (is_parked) {
    w->is_parked = true;
    w->passes_on = false;
    group_add(w);
    heap_add(waits, w, due_of(w));
  }
  pthread_mutex_unlock(&waits->lock);
  return is_parked;
}

void pd_waits_end(pd_waits *waits, pd_waiter *w)
{
  pd_wait_end(waits->home, w->agent, &w->wait);
  if (!w->group) return;
  pd_gone_forget(waits->gone, &w->leaver);
  pthread_mutex_lock(&waits->lock);
  leave(waits, w);
  pthread_mutex_unlock(&waits->lock);
}
