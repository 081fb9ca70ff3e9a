/* ear.c: see ear.h. */
#include "state/ear.h"

#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "state/quota.h"
#include "state/subscription.h"
#include "state/tiers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLICE_MS 100 /* how long closing a home may have to wait for the thread; changes wake it at once */

typedef struct listener {
  char agent[PD_NAME_SIZE_MAX + 1];
  unsigned count; /* of those who wait */
} listener;

struct pd_ear {
  pd_home *home;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool has_thread, is_stopping;
  listener *listeners; /* an agent keeps its place once it has one, so that who walks them misses none */
  size_t count, capacity;
  size_t waiting;  /* in all */
  pd_watch *watch; /* of the shared log, open while somebody waits; used by the thread, opened and closed under the lock */
};

pd_code pd_ear_new(pd_home *home, pd_ear **out, pd_error *err)
{
  pd_ear *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  *out = made;
  return PD_OK;
}

void pd_ear_free(pd_ear *ear)
{
  if (!ear) return;
  pthread_mutex_lock(&ear->lock);
  ear->is_stopping = true;
  pthread_cond_broadcast(&ear->changed);
  pthread_mutex_unlock(&ear->lock);
  if (ear->has_thread) pthread_join(ear->thread, NULL);
  pd_watch_close(ear->watch);
  pthread_cond_destroy(&ear->changed);
  pthread_mutex_destroy(&ear->lock);
  free(ear->listeners);
  free(ear);
}

/* ---- the thread ---- */

/* For those who wait now. What fails here is found by their own next look. */
static void move_for_all(pd_ear *ear)
{
  char agent[PD_NAME_SIZE_MAX + 1];
  for (size_t i = 0;; i++) {
    pthread_mutex_lock(&ear->lock);
    bool is_there = i < ear->count, is_waiting = is_there && ear->listeners[i].count;
    if (is_there) memcpy(agent, ear->listeners[i].agent, sizeof agent);
    pthread_mutex_unlock(&ear->lock);
    if (!is_there) return;
    if (is_waiting && pd_subscriptions_move(ear->home, agent, NULL)) continue;
  }
}

/* Sleep while nobody waits. False: stop. */
static bool is_wanted(pd_ear *ear)
{
  pthread_mutex_lock(&ear->lock);
  while (!ear->is_stopping && !ear->waiting) {
    pd_watch_close(ear->watch); /* nobody wants what happens meanwhile */
    ear->watch = NULL;
    pthread_cond_wait(&ear->changed, &ear->lock);
  }
  bool is_stopping = ear->is_stopping;
  pthread_mutex_unlock(&ear->lock);
  return !is_stopping;
}

static void *listen(void *ctx)
{
  pd_ear *ear = ctx;
  pd_watch_event event;
  while (is_wanted(ear)) {
    pd_code code = pd_watch_next(ear->watch, SLICE_MS, &event, NULL);
    bool is_news = code == PD_OK;
    while (code == PD_OK) code = pd_watch_next(ear->watch, 0, &event, NULL);
    if (is_news) move_for_all(ear);
    if (code != PD_NOT_FOUND) nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL); /* it fails: not in a circle */
  }
  return NULL;
}

/* ---- those who wait ---- */

static pd_code start_thread(pd_ear *ear, pd_error *err)
{
  sigset_t all, before;
  if (ear->has_thread) return PD_OK;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
  int failed = pthread_create(&ear->thread, NULL, listen, ear);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return pd_error_set(err, PD_STORAGE, "cannot start a thread to wait for changes: %s", strerror(failed));
  ear->has_thread = true;
  return PD_OK;
}

/* Opened by who wants it, so that what happens after pd_ear_join returned is heard. Calls the store with the ear's lock held, which
 * nothing that the store calls asks for. */
static pd_code open_watch(pd_ear *ear, pd_error *err)
{
  pd_store *store;
  if (ear->watch) return PD_OK;
  TRY(pd_home_store(ear->home, PD_STORE_SHARED, true, &store, err));
  pd_watch_options options = {.ref = PD_STATE_REF};
  return pd_watch_open(store, &options, &ear->watch, err);
}

static pd_code join_locked(pd_ear *ear, const char *agent, pd_error *err)
{
  TRY(open_watch(ear, err));
  TRY(start_thread(ear, err));
  size_t i = 0;
  while (i < ear->count && strcmp(ear->listeners[i].agent, agent) != 0) i++;
  if (i == ear->count) {
    TRY(pd_array_grow(&ear->listeners, ear->count, &ear->capacity, sizeof ear->listeners[0], "who waits for messages", err));
    ear->listeners[ear->count] = (listener){0};
    snprintf(ear->listeners[ear->count].agent, sizeof ear->listeners[0].agent, "%s", agent);
    ear->count++;
  }
  ear->listeners[i].count++;
  ear->waiting++;
  pthread_cond_broadcast(&ear->changed);
  return PD_OK;
}

pd_code pd_ear_join(pd_home *home, const char *agent, pd_error *err)
{
  pthread_mutex_lock(&home->ear->lock);
  pd_code code = join_locked(home->ear, agent, err);
  pthread_mutex_unlock(&home->ear->lock);
  return code;
}

void pd_ear_leave(pd_home *home, const char *agent)
{
  pd_ear *ear = home->ear;
  pthread_mutex_lock(&ear->lock);
  for (size_t i = 0; i < ear->count; i++)
    if (strcmp(ear->listeners[i].agent, agent) == 0) ear->listeners[i].count--;
  ear->waiting--;
  pthread_mutex_unlock(&ear->lock);
}
