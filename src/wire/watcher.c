/*
 * watcher.c: one follower: how it catches up, sleeps and is woken. Invariants X1 to X4 are in hub.h.
 *
 * libmicrohttpd asks for bytes (read_stream) when the socket takes some. If there are none, a live watcher sleeps, and one that is behind
 * has the pool read on in the log; both wake it.
 */
#include "wire/watcher.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/sse.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define BLOCK_SIZE 4096
#define FILL_SIZE ((size_t)32 * 1024) /* read ahead for one that is behind */
#define SEND_SIZE (64 * 1024)
#define LAST_SIZE 1024 /* the word at the end has room in every queue */

int pd_cursor_compare(const pd_watch_cursor *a, const pd_watch_cursor *b)
{
  if (a->seq != b->seq) return a->seq < b->seq ? -1 : 1;
  return (a->index > b->index) - (a->index < b->index);
}

static void wake(pd_watcher *w)
{
  if (!w->is_asleep || w->is_filling) return; /* who fills it wakes it, and is done with it then */
  w->is_asleep = false;
  MHD_resume_connection(w->connection);
}

/* ---- while it is live ---- */

static bool wants(const pd_watcher *w, const pd_news *news, const pd_news_item *item)
{
  if (pd_cursor_compare(&item->next, &w->joined) <= 0) return false; /* it has read that by itself */
  if (!item->is_whole) return true;
  const char *ref = pd_news_ref(news, item);
  if (*w->ref && *ref && strcmp(w->ref, ref) != 0) return false;
  if (!w->is_open && pd_history_hides(ref)) return false;
  return !item->is_change || pd_bytes_starts(pd_news_key(news, item), pd_buf_bytes(&w->prefix));
}

/* As much as the socket takes now. */
static size_t send_now(pd_watcher *w, pd_bytes text)
{
  ssize_t sent = w->fd >= 0 && w->is_asleep ? send(w->fd, text.data, text.size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) w->is_over = true; /* the client is gone */
  return sent < 0 ? 0 : (size_t)sent;
}

const pd_watch_cursor *pd_watcher_place(const pd_watcher *w)
{
  return pd_cursor_compare(&w->joined, &w->topic->position) > 0 ? &w->joined : &w->topic->position;
}

static void end_with(pd_watcher *w, const char *reason)
{
  w->queue.size_max += LAST_SIZE;
  (void)!pd_sse_note(&w->queue, "cut", pd_watcher_place(w), w->topic->name, reason, NULL); /* without memory for it, the end alone tells */
  w->is_over = true;
}

void pd_watcher_push(pd_watcher *w, pd_bytes text, int64_t now_ms)
{
  pthread_mutex_lock(&w->lock);
  w->pushed_ms = now_ms;
  if (!w->is_over) {
    size_t sent = w->queue.size ? 0 : send_now(w, text); /* in order: behind what waits already */
    pd_bytes rest = {(const char *)text.data + sent, text.size - sent};
    if (rest.size && !w->is_over && pd_buf_append(&w->queue, rest.data, rest.size, NULL)) {
      /* A piece of an event may be out: its rest, and the word after it, would be read as one. The end alone tells, then. */
      if (sent)
        w->is_over = true;
      else
        end_with(w, "too slow: what was to be sent did not fit the queue (server.watch_queue); come back with Last-Event-ID");
      atomic_fetch_add(&w->topic->hub->cut_count, 1);
    }
    if (rest.size || w->is_over) wake(w);
  }
  pthread_mutex_unlock(&w->lock);
}

void pd_watcher_cut(pd_watcher *w, const char *reason)
{
  pthread_mutex_lock(&w->lock);
  if (!w->is_over) {
    end_with(w, reason);
    wake(w);
  }
  pthread_mutex_unlock(&w->lock);
}

/* Policy is asked when the watch begins; and again, before anything is told, when other rules came into force. */
static bool may_hear(pd_watcher *w)
{
  pd_home *home = w->topic->hub->server->home;
  uint64_t epoch = pd_policy_epoch(home);
  if (epoch == w->policy_epoch) return true;
  pd_permission permission = pd_permission_of(home, w->agent, w->like, w->prefix.size ? pd_buf_bytes(&w->prefix) : (pd_bytes){0});
  bool may = permission <= PD_PERMIT_NOTIFY || (w->is_operator && permission < PD_PERMIT_BLOCKED);
  if (may) w->policy_epoch = epoch;
  return may;
}

#define BARRED "policy does not let you follow this any more"

void pd_watcher_tell(pd_watcher *w, const pd_news *news, int64_t now_ms)
{
  if (!may_hear(w)) {
    pd_watcher_cut(w, BARRED);
    return;
  }
  for (size_t i = 0, first; i < news->count;) {
    if (!wants(w, news, &news->items[i])) {
      i++;
      continue;
    }
    for (first = i; i < news->count && news->items[i].is_whole && wants(w, news, &news->items[i]);) i++;
    if (i == first) {
      pd_watcher_cut(w, "the server has no memory"); /* not silence: it comes back and reads it again */
      return;
    }
    pd_watcher_push(w, pd_news_text(news, first, i - 1), now_ms);
    w->joined = news->items[i - 1].next;
  }
}

/* ---- while it is behind ---- */

/* X1. False: the store's thread is further; read on. */
static bool join_live(pd_watcher *w)
{
  pd_topic *topic = w->topic;
  pd_watch_cursor at = pd_watch_where(w->watch);
  pthread_mutex_lock(&topic->lock);
  bool is_there = pd_cursor_compare(&at, &topic->position) >= 0;
  if (is_there) {
    w->joined = at;
    w->pushed_ms = pd_clock_monotonic_ms();
    w->is_live = true;
    pd_topic_join(topic, w);
  }
  pthread_mutex_unlock(&topic->lock);
  if (is_there) {
    pd_watch_close(w->watch);
    w->watch = NULL;
  }
  return is_there;
}

/* Read on until there is enough, or it is live. The watcher is nobody else's meanwhile, but for the topic once it is live. */
static pd_code fill(pd_watcher *w, pd_buf *out, bool *out_is_live, pd_error *err)
{
  pd_watch_event event;
  *out_is_live = false;
  while (out->size < FILL_SIZE) {
    pd_code code = pd_watch_next(w->watch, 0, &event, err);
    if (code == PD_OK) {
      if (w->is_open || !pd_history_hides(event.ref)) TRY(pd_sse_event(out, &event, err));
      continue;
    }
    if (code != PD_NOT_FOUND) return code;
    if (out->size) return PD_OK; /* first send it: who is live is written to by others */
    if (join_live(w)) {
      *out_is_live = true;
      return PD_OK;
    }
    if (pd_watch_next(w->watch, 1, &event, err) == PD_OK && (w->is_open || !pd_history_hides(event.ref)))
      TRY(pd_sse_event(out, &event, err));
  }
  return PD_OK;
}

/* Read ahead, then wake it. */
static void fill_and_wake(pd_watcher *w)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  bool is_live = false, is_draining = atomic_load(&w->topic->hub->is_draining);
  pd_watch_cursor before = pd_watch_where(w->watch);
  pd_error err = {0};
  pd_code code = is_draining    ? pd_error_set(&err, PD_STORAGE, "the server is stopping")
                 : !may_hear(w) ? pd_error_set(&err, PD_DENIED, BARRED)
                                : fill(w, &text, &is_live, &err);
  pthread_mutex_lock(&w->lock);
  w->is_filling = false;
  if (is_live && !w->is_over && atomic_load(&w->topic->hub->is_draining)) { /* it joined after all others were told */
    w->is_over = true;
  } else if (code) {
    (void)!pd_sse_note(&w->queue, "cut", &before, w->topic->name, err.message, NULL); /* what was read just now is read again */
    w->is_over = true;
  } else if (text.size) {
    pd_buf_done(&w->queue); /* it is empty: who is behind is filled when all was sent */
    size_t size_max = w->queue.size_max;
    w->queue = text;
    w->queue.size_max = size_max;
    text = (pd_buf){0};
  }
  if (!is_live || w->queue.size || w->is_over) wake(w); /* live and nothing to say: let it sleep */
  pthread_mutex_unlock(&w->lock);
}

static void run_job(pd_job *job)
{
  fill_and_wake((pd_watcher *)((char *)job - offsetof(pd_watcher, job)));
}

/* ---- what libmicrohttpd asks for ---- */

static ssize_t take_queued(pd_watcher *w, char *out, size_t max)
{
  size_t left = w->queue.size - w->sent, size = left < max ? left : max;
  memcpy(out, w->queue.data + w->sent, size);
  w->sent += size;
  if (w->sent == w->queue.size) {
    w->sent = 0;
    pd_buf_done(&w->queue); /* an idle watcher costs little */
    w->queue = (pd_buf){.size_max = w->queue.size_max};
  }
  return (ssize_t)size;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
  pd_watcher *w = cls;
  ssize_t size = 0;
  (void)pos;
  pthread_mutex_lock(&w->lock);
  bool must_fill = false;
  if (w->queue.size) {
    size = take_queued(w, out, max);
  } else if (w->is_over) {
    size = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    w->is_asleep = true;
    must_fill = w->is_filling = !w->is_live;
    MHD_suspend_connection(w->connection);
  }
  pthread_mutex_unlock(&w->lock);
  if (must_fill && !pd_pool_add(&w->topic->hub->server->readers, &w->job)) {
    pthread_mutex_lock(&w->lock);
    w->is_filling = false;
    w->is_over = true;
    wake(w);
    pthread_mutex_unlock(&w->lock);
  }
  return size;
}

/* It may be gone: a word to it tells. */
static void client_is_silent(void *ctx)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_watcher *w = ctx;
  pthread_mutex_lock(&w->topic->lock);
  if (w->is_live && pd_sse_heartbeat(&text, pd_watcher_place(w), NULL) == PD_OK)
    pd_watcher_push(w, pd_buf_bytes(&text), pd_clock_monotonic_ms());
  pthread_mutex_unlock(&w->topic->lock);
}

/* Its place is another's from now on, not when a heartbeat finds nobody there. */
static void client_left(void *ctx)
{
  pd_watcher *w = ctx;
  pthread_mutex_lock(&w->lock);
  w->is_over = true;
  wake(w);
  pthread_mutex_unlock(&w->lock);
}

static void end_stream(void *cls)
{
  pd_watcher *w = cls;
  pd_topic *topic = w->topic;
  pd_gone_forget(topic->hub->server->gone, &w->leaver);
  if (w->is_live) {
    pthread_mutex_lock(&topic->lock);
    pd_topic_leave(topic, w);
    pthread_mutex_unlock(&topic->lock);
  }
  atomic_fetch_sub(&topic->hub->count, 1);
  pd_watch_close(w->watch); /* before the topic, which gives the store back */
  pd_topic_release(topic);
  pd_buf_done(&w->queue);
  pd_buf_done(&w->prefix);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

/* ---- a new one ---- */

static pd_code set_up(pd_watcher *w, pd_hub *hub, const pd_hub_request *request, pd_error *err)
{
  w->connection = request->connection;
  w->fd = request->is_direct ? request->fd : -1;
  w->job.run = run_job;
  w->is_open = request->is_open;
  w->is_operator = request->is_operator;
  w->like = request->like;
  w->policy_epoch = request->policy_epoch;
  snprintf(w->agent, sizeof w->agent, "%s", request->agent);
  w->job.owner = w->owner;
  snprintf(w->owner, sizeof w->owner, "%s", request->owner);
  int size = SEND_SIZE;
  if (request->fd >= 0)
    setsockopt(request->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* else the system keeps megabytes for who does not read */
  snprintf(w->ref, sizeof w->ref, "%s", request->options.ref ? request->options.ref : "");
  w->queue.size_max = hub->server->settings.watch_queue_bytes;
  TRY(pd_buf_append(&w->prefix, request->options.prefix.data, request->options.prefix.size, err));
  TRY(pd_watch_open(request->store, &request->options, &w->watch, err));
  pd_watch_cursor at = pd_watch_where(w->watch);
  TRY(pd_buf_printf(&w->queue, err, "retry: 1000\n"));
  return pd_sse_note(&w->queue, "hello", &at, w->topic->name, NULL, err);
}

pd_code pd_hub_add(pd_hub *hub, const pd_hub_request *request, struct MHD_Response **out, pd_error *err)
{
  if (atomic_load(&hub->count) >= hub->server->settings.watcher_count_max)
    return pd_error_named(err, PD_LIMIT, "TooManyWatchers", "there are %llu watchers, as many as server.watchers_max allows",
                          (unsigned long long)hub->server->settings.watcher_count_max);
  pd_watcher *w = calloc(1, sizeof *w);
  if (!w) return pd_error_memory(err, "a watch");
  pd_code code = pd_topic_take(hub, request->name, &w->topic, err);
  if (code) {
    free(w);
    return code;
  }
  pthread_mutex_init(&w->lock, NULL);
  atomic_fetch_add(&hub->count, 1);
  code = set_up(w, hub, request, err);
  if (!code) *out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_stream, w, end_stream);
  if (!code && !*out) code = pd_error_memory(err, "a watch");
  if (code)
    end_stream(w);
  else
    MHD_set_response_options(*out, MHD_RF_HTTP_VERSION_1_0_RESPONSE, MHD_RO_END); /* bytes as they are, not in chunks: X4 */
  if (!code) {
    w->leaver = (pd_leaver){.half = client_is_silent, .left = client_left, .ctx = w, .fd = request->fd};
    pd_gone_watch(hub->server->gone, &w->leaver);
  }
  return code;
}
