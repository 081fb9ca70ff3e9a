/* hub.c: the stores that are followed, and what happens to their followers. Invariants X1 to X4 are in hub.h; one follower is watcher.c. */
#include "wire/hub.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/sse.h"
#include "wire/watcher.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLICE_MS 200 /* how long the end of a topic may take to be seen; events wake it at once */
#define STACK_SIZE ((size_t)256 * 1024)

pd_code pd_hub_new(pd_server *server, pd_hub **out, pd_error *err)
{
  pd_hub *hub = calloc(1, sizeof *hub);
  if (!hub) return pd_error_memory(err, "the watches");
  hub->server = server;
  pthread_mutex_init(&hub->lock, NULL);
  pthread_cond_init(&hub->changed, NULL);
  *out = hub;
  return PD_OK;
}

void pd_hub_free(pd_hub *hub)
{
  if (!hub) return;
  pthread_mutex_lock(&hub->lock);
  while (hub->topics) pthread_cond_wait(&hub->changed, &hub->lock); /* their threads end when nobody follows them */
  pthread_mutex_unlock(&hub->lock);
  pthread_cond_destroy(&hub->changed);
  pthread_mutex_destroy(&hub->lock);
  free(hub);
}

size_t pd_hub_count(const pd_hub *hub)
{
  return atomic_load(&hub->count);
}

uint64_t pd_hub_cut_count(const pd_hub *hub)
{
  return atomic_load(&hub->cut_count);
}

/* ---- a topic ---- */

/* Give an event to all live followers that want it. The event's text is made once, if anybody wants it. */
static void fan_out(pd_topic *topic, const pd_watch_event *event, pd_buf *text)
{
  pd_buf_clear(text);
  pthread_mutex_lock(&topic->lock);
  for (pd_watcher *w = topic->live, *next; w; w = next) {
    next = w->next;
    if (!pd_watcher_wants(w, event)) continue;
    if (!text->size && pd_sse_event(text, event, NULL)) {
      pd_buf_clear(text);
      pd_watcher_cut(w, "the server has no memory"); /* not silence: it comes back and reads it again */
      continue;
    }
    pd_watcher_push(w, pd_buf_bytes(text));
  }
  topic->position = event->next;
  pthread_mutex_unlock(&topic->lock);
}

/* What was passed over counts too: else a follower of another ref would never be seen to have caught up. */
static void pass_over(pd_topic *topic)
{
  pthread_mutex_lock(&topic->lock);
  topic->position = pd_watch_where(topic->watch);
  pthread_mutex_unlock(&topic->lock);
}

/* Nobody follows it: take it out. */
static bool is_over(pd_topic *topic)
{
  pd_hub *hub = topic->hub;
  pthread_mutex_lock(&hub->lock);
  bool is_unused = topic->refs == 0;
  if (is_unused) {
    pd_topic **link = &hub->topics;
    while (*link != topic) link = &(*link)->next;
    *link = topic->next;
    pthread_cond_broadcast(&hub->changed);
  }
  pthread_mutex_unlock(&hub->lock);
  return is_unused;
}

static void free_topic(pd_topic *topic)
{
  pd_watch_close(topic->watch);
  pthread_mutex_destroy(&topic->lock);
  free(topic);
}

static void *follow(void *ctx)
{
  pd_topic *topic = ctx;
  pd_watch_event event;
  pd_buf text = {0};
  while (!is_over(topic)) {
    pd_code code = pd_watch_next(topic->watch, SLICE_MS, &event, NULL);
    while (code == PD_OK) {
      fan_out(topic, &event, &text);
      code = pd_watch_next(topic->watch, 0, &event, NULL);
    }
    pass_over(topic);
    if (code != PD_NOT_FOUND) nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL); /* it fails: not in a circle */
  }
  pd_buf_done(&text);
  free_topic(topic);
  return NULL;
}

static pd_code start_thread(pd_topic *topic, pd_error *err)
{
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes)) return pd_error_memory(err, "a watch");
  pthread_attr_setstacksize(&attributes, STACK_SIZE);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread, &attributes, follow, topic);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failed ? pd_error_set(err, PD_STORAGE, "cannot start a thread to watch %s: %s", topic->name, strerror(failed)) : PD_OK;
}

static pd_code make_topic(pd_hub *hub, const char *name, pd_store *store, pd_topic **out, pd_error *err)
{
  pd_topic *topic = calloc(1, sizeof *topic);
  if (!topic) return pd_error_memory(err, "a watch");
  topic->hub = hub;
  snprintf(topic->name, sizeof topic->name, "%s", name);
  pthread_mutex_init(&topic->lock, NULL);
  topic->refs = 1;
  pd_code code = pd_watch_open(store, NULL, &topic->watch, err);
  if (!code) topic->position = pd_watch_where(topic->watch);
  topic->next = hub->topics;
  if (!code) hub->topics = topic;
  if (!code) code = start_thread(topic, err);
  if (!code) {
    *out = topic;
    return PD_OK;
  }
  if (hub->topics == topic) hub->topics = topic->next;
  free_topic(topic);
  return code;
}

pd_code pd_topic_take(pd_hub *hub, const char *name, pd_store *store, pd_topic **out, pd_error *err)
{
  pthread_mutex_lock(&hub->lock);
  pd_topic *topic = hub->topics;
  while (topic && strcmp(topic->name, name) != 0) topic = topic->next;
  if (topic) topic->refs++;
  pd_code code = topic ? PD_OK : make_topic(hub, name, store, &topic, err);
  pthread_mutex_unlock(&hub->lock);
  if (!code) *out = topic;
  return code;
}

void pd_topic_release(pd_topic *topic)
{
  pd_hub *hub = topic->hub;
  pthread_mutex_lock(&hub->lock);
  topic->refs--; /* its thread sees it, and frees it */
  pthread_mutex_unlock(&hub->lock);
}

/* ---- all of them ---- */

static void each_live(pd_hub *hub, void (*act)(pd_watcher *watcher, pd_topic *topic, int64_t now_ms))
{
  int64_t now_ms = pd_clock_monotonic_ms();
  pthread_mutex_lock(&hub->lock);
  for (pd_topic *topic = hub->topics; topic; topic = topic->next) {
    pthread_mutex_lock(&topic->lock);
    for (pd_watcher *w = topic->live, *next; w; w = next) {
      next = w->next;
      act(w, topic, now_ms);
    }
    pthread_mutex_unlock(&topic->lock);
  }
  pthread_mutex_unlock(&hub->lock);
}

static void beat(pd_watcher *watcher, pd_topic *topic, int64_t now_ms)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (now_ms - watcher->pushed_ms < (int64_t)topic->hub->server->settings.heartbeat_ms) return;
  if (pd_sse_heartbeat(&text, pd_watcher_place(watcher), NULL) == PD_OK) pd_watcher_push(watcher, pd_buf_bytes(&text));
}

void pd_hub_tick(pd_hub *hub)
{
  each_live(hub, beat);
}

static void end(pd_watcher *watcher, pd_topic *topic, int64_t now_ms)
{
  (void)topic, (void)now_ms;
  pd_watcher_cut(watcher, "the server is stopping");
}

void pd_hub_drain(pd_hub *hub)
{
  atomic_store(&hub->is_draining, true); /* those that are behind see it by themselves */
  each_live(hub, end);
}
