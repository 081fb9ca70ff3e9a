/*
 * waits.c: see waits.h for the invariants A1 to A4.
 *
 * For each agent that somebody waits for, a follower of the agent's store wakes the oldest waiter when the queue changes; one of `shared`
 * wakes those who have subscriptions. They follow while somebody waits. Who waits for a log is a follower of that store itself. A thread,
 * begun with the first who waits, keeps the time.
 *
 * LOCKS       That of `gone`, then ours, then the pool's. Ours is not held while following begins or ends.
 */
#include "wire/waits.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/spawn.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_SIZE ((size_t)256 * 1024)
#define RETRY_MS 20 /* the pool had no room */
#define PREFIX "queue/"

/* A store that is followed while somebody needs it. */
typedef struct line {
  pd_follower follower; /* first */
  pd_waits *waits;
  const char *store;
  /* under the lock */
  size_t users;
  enum { OFF, CHANGING, ON } state; /* changing: somebody opens or closes it, without the lock */
} line;

struct pd_waits_group {
  line queue; /* first: the agent's store, where its queue is */
  char agent[PD_NAME_SIZE_MAX + 1];
  char head[sizeof PREFIX + PD_NAME_SIZE_MAX]; /* the queue's key that changes whenever the queue does */
  size_t count;                                /* waiters: those that are joining, parked, running or leaving */
  size_t hearing;                              /* those of them that hear of shared state */
  uint64_t generation;                         /* changes of the queue that were seen since there is the group */
  pd_waiter *first, *last;                     /* those that are parked, the oldest first */
};

struct pd_waits {
  pd_home *home;
  pd_pool *pool;
  pd_gone *gone;
  line shared;
  pthread_t timer;
  bool has_timer;
  pthread_mutex_t lock;                 /* of what follows */
  pthread_cond_t changed, time_changed; /* changed: a line's state */
  bool is_stopping, is_draining;
  pd_map groups; /* by agent */
  size_t count;  /* waiters that have joined: there is room for as many in the heap */
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

static void group_add(pd_waiter *w)
{
  pd_waits_group *group = w->group;
  if (!group) return;
  pd_waiter *before = group->last;
  while (before && before->order > w->order) before = before->prev;
  w->prev = before;
  w->next = before ? before->next : group->first;
  *(w->next ? &w->next->prev : &group->last) = w;
  *(before ? &before->next : &group->first) = w;
}

static void group_remove(pd_waiter *w)
{
  if (!w->group) return;
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

/* ---- what the stores tell ---- */

static void wake_group(pd_waits *waits, pd_waits_group *group)
{
  group->generation++;
  wake_first(waits, group);
}

/* What is not a change of a key is a reason to look, too. */
static bool is_about(const pd_watch_event *event, const pd_waits_group *group)
{
  bool is_change = event->kind == PD_WATCH_PUT || event->kind == PD_WATCH_DELETE;
  if (event->kind != PD_WATCH_GAP && strcmp(event->ref, PD_QUEUE_REF) != 0) return false;
  return !is_change || pd_bytes_equal(event->key, pd_text(group->head));
}

static void take_queue(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  pd_waits_group *group = (pd_waits_group *)follower;
  pd_waits *waits = group->queue.waits;
  bool is_news = batch->is_failing; /* their own look tells what is wrong */
  for (size_t i = first; i < batch->count && !is_news; i++) is_news = is_about(&batch->events[i], group);
  if (!is_news) return;
  pthread_mutex_lock(&waits->lock);
  wake_group(waits, group);
  pthread_mutex_unlock(&waits->lock);
}

static void take_shared(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  pd_waits *waits = ((line *)follower)->waits;
  if (first == batch->count && !batch->is_failing) return;
  pthread_mutex_lock(&waits->lock);
  size_t at = 0;
  for (pd_waits_group *group; (group = pd_map_next(&waits->groups, &at));)
    if (group->hearing) wake_group(waits, group);
  pthread_mutex_unlock(&waits->lock);
}

/* Any record counts, not only those that are events. */
static void take_log(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  pd_waiter *w = (pd_waiter *)((char *)follower - offsetof(pd_waiter, follower));
  pd_waits *waits = w->waits;
  (void)batch, (void)first;
  pthread_mutex_lock(&waits->lock);
  w->has_grown = true;
  if (w->is_parked) wake(waits, w, false);
  pthread_mutex_unlock(&waits->lock);
}

static pd_code open_follower(pd_waits *waits, const char *store, pd_follower *follower, pd_error *err)
{
  pd_grant grant;
  TRY(pd_authorise_work(waits->home, "wait", &grant, err));
  TRY(pd_follow_open(&grant, store, follower, err));
  (void)!pd_follow_join(follower, NULL); /* from now on: always true */
  return PD_OK;
}

/* For one more user. */
static pd_code open_line(line *l, pd_error *err)
{
  pd_waits *waits = l->waits;
  pd_code code = PD_OK;
  pthread_mutex_lock(&waits->lock);
  while (l->state == CHANGING) pthread_cond_wait(&waits->changed, &waits->lock);
  if (l->state == OFF) {
    l->state = CHANGING;
    pthread_mutex_unlock(&waits->lock);
    code = open_follower(waits, l->store, &l->follower, err);
    pthread_mutex_lock(&waits->lock);
    l->state = code ? OFF : ON;
    pthread_cond_broadcast(&waits->changed);
  }
  if (!code) l->users++;
  pthread_mutex_unlock(&waits->lock);
  return code;
}

/* The last user ends it: nobody wants what happens meanwhile. */
static void close_line(line *l)
{
  pd_waits *waits = l->waits;
  pthread_mutex_lock(&waits->lock);
  if (--l->users == 0) {
    l->state = CHANGING;
    pthread_mutex_unlock(&waits->lock);
    pd_follow_close(&l->follower);
    pthread_mutex_lock(&waits->lock);
    l->state = OFF;
    pthread_cond_broadcast(&waits->changed);
  }
  pthread_mutex_unlock(&waits->lock);
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
  waits->groups.text_at = offsetof(pd_waits_group, agent);
  waits->pool = pool;
  waits->gone = gone;
  waits->shared = (line){.follower.take = take_shared, .waits = waits, .store = "shared"};
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
  pthread_cond_broadcast(&waits->time_changed);
  pthread_mutex_unlock(&waits->lock);
  if (waits->has_timer) pthread_join(waits->timer, NULL);
  pthread_cond_destroy(&waits->changed);
  pthread_cond_destroy(&waits->time_changed);
  pthread_mutex_destroy(&waits->lock);
  pd_map_done(&waits->groups);
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

/* The agent's group, held; made if there is none. Under the lock. */
static pd_waits_group *hold_group(pd_waits *waits, const char *agent)
{
  pd_waits_group *group = pd_map_find(&waits->groups, pd_text(agent));
  if (!group && (group = calloc(1, sizeof *group))) {
    group->queue = (line){.follower.take = take_queue, .waits = waits, .store = group->agent};
    snprintf(group->agent, sizeof group->agent, "%s", agent);
    snprintf(group->head, sizeof group->head, PREFIX "%s", agent);
    if (pd_map_put(&waits->groups, group, NULL, NULL)) {
      free(group);
      return NULL;
    }
  }
  if (group) group->count++;
  return group;
}

static void let_group(pd_waits *waits, pd_waits_group *group)
{
  pthread_mutex_lock(&waits->lock);
  if (--group->count == 0) free(pd_map_remove(&waits->groups, pd_text(group->agent)));
  pthread_mutex_unlock(&waits->lock);
}

static pd_code join_group(pd_waits *waits, pd_waiter *w, pd_error *err)
{
  pthread_mutex_lock(&waits->lock);
  pd_waits_group *group = hold_group(waits, w->agent);
  pthread_mutex_unlock(&waits->lock);
  if (!group) return pd_error_memory(err, "who waits");
  pd_code code = open_line(&group->queue, err);
  if (code)
    let_group(waits, group);
  else
    w->group = group;
  return code;
}

static void leave_group(pd_waits *waits, pd_waiter *w)
{
  pd_waits_group *group = w->group;
  w->group = NULL;
  close_line(&group->queue);
  let_group(waits, group);
}

static pd_code join_locked(pd_waits *waits, pd_waiter *w, pd_error *err)
{
  TRY(pd_array_grow(&waits->heap, waits->count + 1, &waits->heap_capacity, sizeof(pd_waiter *), "who waits", err));
  if (!waits->has_timer) waits->has_timer = pd_spawn(&waits->timer, STACK_SIZE, keep_time, waits) == 0;
  if (!waits->has_timer) return pd_error_set(err, PD_STORAGE, "cannot start a thread for those who wait");
  w->has_joined = true;
  w->order = ++waits->next_order;
  w->job.owner = w->agent;
  waits->count++;
  return PD_OK;
}

/* Follow what it waits for, and count it. */
static pd_code join(pd_waits *waits, pd_waiter *w, pd_error *err)
{
  w->waits = waits;
  w->follower.take = take_log;
  TRY(w->store ? open_follower(waits, w->store, &w->follower, err) : join_group(waits, w, err));
  pthread_mutex_lock(&waits->lock);
  pd_code code = join_locked(waits, w, err);
  pthread_mutex_unlock(&waits->lock);
  if (!code) return PD_OK;
  if (w->group)
    leave_group(waits, w);
  else
    pd_follow_close(&w->follower);
  return code;
}

static pd_code hear_shared(pd_waits *waits, pd_waiter *w, pd_error *err)
{
  TRY(open_line(&waits->shared, err));
  pthread_mutex_lock(&waits->lock);
  w->hears_shared = true;
  w->group->hearing++;
  pthread_mutex_unlock(&waits->lock);
  return PD_OK;
}

/* ---- one of them ---- */

void pd_waits_look(pd_waits *waits, pd_waiter *w)
{
  if (!w->has_joined) return;
  pd_gone_forget(waits->gone, &w->leaver);
  pthread_mutex_lock(&waits->lock);
  w->has_grown = false;
  if (w->group) w->ticket = w->group->generation;
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
  if (w->group ? w->ticket != w->group->generation : w->has_grown) return 0; /* A2: at once, when it is its turn in the pool */
  return w->group && w->group->first == w ? w->wait.due_ms : w->wait.deadline_ms;
}

bool pd_waits_park(pd_waits *waits, pd_waiter *w)
{
  bool must_hear = w->wait.hears_shared && !w->hears_shared;
  if (!w->has_joined || must_hear) { /* it looks again: what came before is not heard */
    pd_code code = w->has_joined ? PD_OK : join(waits, w, NULL);
    if (!code && must_hear) code = hear_shared(waits, w, NULL);
    if (code) w->wait.is_over = true; /* it answers with what there is */
    return false;
  }
  w->leaver = (pd_leaver){.half = client_is_silent, .left = client_left, .ctx = w, .fd = w->fd};
  pd_gone_watch(waits->gone, &w->leaver);
  pthread_mutex_lock(&waits->lock);
  if (waits->is_draining || w->is_hurried) w->wait.is_over = true;
  bool is_parked = !w->wait.is_over && !atomic_load(&w->is_gone);
  if (is_parked) {
    w->is_parked = true;
    w->passes_on = false;
    group_add(w);
    heap_add(waits, w, due_of(w));
  }
  pthread_mutex_unlock(&waits->lock);
  return is_parked;
}

/* The oldest of its agent, which alone looks when a delivery ends: another has to do that from now on, and learn when. */
static bool was_first(const pd_waiter *w)
{
  return w->group->first && w->order < w->group->first->order;
}

void pd_waits_end(pd_waits *waits, pd_waiter *w)
{
  if (!w->has_joined) return;
  pd_gone_forget(waits->gone, &w->leaver);
  pthread_mutex_lock(&waits->lock);
  waits->count--;
  if (w->hears_shared) w->group->hearing--;
  if (w->group && (w->passes_on || was_first(w))) wake_first(waits, w->group); /* A3 */
  pthread_mutex_unlock(&waits->lock);
  pd_follow_close(&w->follower);
  if (w->group) leave_group(waits, w);
  if (w->hears_shared) close_line(&waits->shared);
  w->has_joined = w->hears_shared = false;
}
