/* hub.c: the stores that are followed, and what happens to their followers. Invariants X1 to X4 are in hub.h; one follower is watcher.c. */
#include "wire/hub.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/sse.h"
#include "wire/start.h"
#include "wire/watcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLICE_MS 200 /* how long the end of a topic may take to be seen; events wake it at once */
#define STACK_SIZE ((size_t)256 * 1024)
#define BURST_SIZE ((size_t)16 * 1024) /* events that are due are joined up to this: enough for one system call to be cheap */
#define SENDERS_MAX 4
#define SHARE_MIN 64 /* fewer followers are told sooner by one thread than others could be woken */
#define SHARE_SIZE 4

pd_code pd_hub_new(pd_server *server, pd_hub **out, pd_error *err)
{
  pd_hub *hub = calloc(1, sizeof *hub);
  if (!hub) return pd_error_memory(err, "the watches");
  hub->server = server;
  pthread_mutex_init(&hub->lock, NULL);
  pthread_cond_init(&hub->changed, NULL);
  pd_code code = pd_team_new(SENDERS_MAX, &hub->team, err);
  if (code)
    pd_hub_free(hub);
  else
    *out = hub;
  return code;
}

void pd_hub_free(pd_hub *hub)
{
  if (!hub) return;
  pthread_mutex_lock(&hub->lock);
  while (hub->topic_count) pthread_cond_wait(&hub->changed, &hub->lock); /* their threads end when nobody follows them */
  pthread_mutex_unlock(&hub->lock);
  pd_team_free(hub->team);
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

void pd_topic_join(pd_topic *topic, pd_watcher *watcher)
{
  watcher->place = topic->live_count;
  topic->live[topic->live_count++] = watcher;
}

void pd_topic_leave(pd_topic *topic, pd_watcher *watcher)
{
  pd_watcher *last = topic->live[--topic->live_count];
  topic->live[watcher->place] = last;
  last->place = watcher->place;
}

typedef struct telling {
  pd_watcher **live;
  const pd_news *news;
  int64_t now_ms;
} telling;

static void tell_some(void *ctx, size_t begin, size_t end)
{
  const telling *t = ctx;
  for (size_t i = begin; i < end; i++) {
    if (i + 1 < end) __builtin_prefetch(t->live[i + 1]); /* they lie apart, and none has been looked at for a while */
    pd_watcher_tell(t->live[i], t->news, t->now_ms);
  }
}

/* To all live followers. The topic's lock is held for all who help: nobody comes or goes meanwhile, and each follower is one thread's. */
static void fan_out(pd_topic *topic, const pd_news *news)
{
  pthread_mutex_lock(&topic->lock);
  telling t = {topic->live, news, pd_clock_monotonic_ms()};
  if (topic->live_count < SHARE_MIN)
    tell_some(&t, 0, topic->live_count);
  else
    pd_team_run(topic->hub->team, topic->live_count, SHARE_SIZE, tell_some, &t);
  topic->position = news->items[news->count - 1].next;
  pthread_mutex_unlock(&topic->lock);
}

/* What is due now, joined as far as it fits any follower's queue; the first may be waited for. */
static pd_code collect(pd_topic *topic, uint32_t timeout_ms, pd_news *news)
{
  size_t half = topic->hub->server->settings.watch_queue_bytes / 2, size_max = half < BURST_SIZE ? half : BURST_SIZE;
  pd_watch_event event;
  pd_news_clear(news);
  pd_code code = pd_watch_next(topic->watch, timeout_ms, &event, NULL);
  while (code == PD_OK) {
    pd_news_add(news, &event);
    if (!pd_news_has_room(news, size_max)) break;
    code = pd_watch_next(topic->watch, 0, &event, NULL);
  }
  return news->count ? PD_OK : code;
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
  }
  pthread_mutex_unlock(&hub->lock);
  return is_unused;
}

static void free_topic(pd_topic *topic)
{
  pd_watch_close(topic->watch);
  pd_home_return(topic->hub->server->home, topic->store);
  pthread_mutex_destroy(&topic->lock);
  free(topic->live);
  free(topic);
}

static void *follow(void *ctx)
{
  pd_topic *topic = ctx;
  CLEANUP(pd_news_done) pd_news news = {.count = 0};
  while (!is_over(topic)) {
    pd_code code = collect(topic, SLICE_MS, &news);
    while (code == PD_OK) {
      fan_out(topic, &news);
      code = collect(topic, 0, &news);
    }
    pass_over(topic);
    if (code != PD_NOT_FOUND) nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL); /* it fails: not in a circle */
  }
  pd_hub *hub = topic->hub;
  free_topic(topic);
  pthread_mutex_lock(&hub->lock);
  hub->topic_count--; /* last: who waits for it closes the home */
  pthread_cond_broadcast(&hub->changed);
  pthread_mutex_unlock(&hub->lock);
  return NULL;
}

/* Room for one more follower. */
static pd_code make_room(pd_topic *topic, pd_error *err)
{
  pthread_mutex_lock(&topic->lock);
  pd_code code = pd_array_grow(&topic->live, topic->refs, &topic->live_room, sizeof(pd_watcher *), "a watch", err);
  pthread_mutex_unlock(&topic->lock);
  return code;
}

static pd_code start_thread(pd_topic *topic, pd_error *err)
{
  int failed = pd_spawn(NULL, STACK_SIZE, follow, topic);
  return failed ? pd_error_set(err, PD_STORAGE, "cannot start a thread to watch %s: %s", topic->name, strerror(failed)) : PD_OK;
}

static pd_code make_topic(pd_hub *hub, const char *name, pd_topic **out, pd_error *err)
{
  pd_topic *topic = calloc(1, sizeof *topic);
  if (!topic) return pd_error_memory(err, "a watch");
  topic->hub = hub;
  snprintf(topic->name, sizeof topic->name, "%s", name);
  pthread_mutex_init(&topic->lock, NULL);
  pd_code code = make_room(topic, err);
  topic->refs = 1;
  if (!code) code = pd_home_borrow(hub->server->home, name, false, &topic->store, err);
  if (!code) code = pd_watch_open(topic->store, NULL, &topic->watch, err);
  if (!code) topic->position = pd_watch_where(topic->watch);
  topic->next = hub->topics;
  if (!code) hub->topics = topic;
  if (!code) code = start_thread(topic, err);
  if (!code) {
    hub->topic_count++;
    *out = topic;
    return PD_OK;
  }
  if (hub->topics == topic) hub->topics = topic->next;
  free_topic(topic);
  return code;
}

pd_code pd_topic_take(pd_hub *hub, const char *name, pd_topic **out, pd_error *err)
{
  pthread_mutex_lock(&hub->lock);
  pd_topic *topic = hub->topics;
  while (topic && strcmp(topic->name, name) != 0) topic = topic->next;
  bool is_there = topic != NULL;
  pd_code code = topic ? make_room(topic, err) : make_topic(hub, name, &topic, err);
  if (!code && is_there) topic->refs++;
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
    for (size_t i = 0; i < topic->live_count; i++) act(topic->live[i], topic, now_ms);
    pthread_mutex_unlock(&topic->lock);
  }
  pthread_mutex_unlock(&hub->lock);
}

static void beat(pd_watcher *watcher, pd_topic *topic, int64_t now_ms)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (now_ms - watcher->pushed_ms < (int64_t)topic->hub->server->settings.heartbeat_ms) return;
  if (pd_sse_heartbeat(&text, pd_watcher_place(watcher), NULL) == PD_OK) pd_watcher_push(watcher, pd_buf_bytes(&text), now_ms);
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
