/*
 * watcher.c: one watcher: how it catches up, sleeps and is woken. Invariants X1 to X5 are in hub.h.
 *
 * libmicrohttpd asks for bytes (read_stream) when the socket takes some. If there are none, a live watcher sleeps, and one that is behind
 * has the pool read on in the log; both wake it.
 */
#include "wire/watcher.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define BLOCK_SIZE 4096
#define FILL_SIZE ((size_t)32 * 1024) /* read ahead for one that is behind */
#define SEND_SIZE (64 * 1024)

static void wake(pd_watcher *w)
{
  if (!w->is_filling) pd_sse_wake(&w->reader); /* who fills it wakes it, and is done with it then */
}

/* ---- sending; under its lock ---- */

/* As much as the socket takes now. */
static size_t send_now(pd_watcher *w, pd_bytes text)
{
  ssize_t sent = w->fd >= 0 && w->reader.is_asleep ? send(w->fd, text.data, text.size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) w->is_over = true; /* the client is gone */
  return sent < 0 ? 0 : (size_t)sent;
}

static void end_with(pd_watcher *w, const char *reason)
{
  if (w->is_over) return;
  w->stream.out.size_max = 0;                                                  /* there is room for the last word */
  (void)!pd_sse_note(&w->stream.out, "cut", &w->place, w->name, reason, NULL); /* without memory for it, the end alone tells */
  w->is_over = true;
  wake(w);
}

static void push(pd_watcher *w, pd_bytes text)
{
  if (w->is_over) return;
  w->pushed_ms = pd_clock_monotonic_ms();
  size_t sent = w->stream.out.size ? 0 : send_now(w, text); /* in order: behind what waits already */
  pd_bytes rest = {(const char *)text.data + sent, text.size - sent};
  pd_code code = rest.size && !w->is_over ? pd_sse_add(&w->stream, rest) : PD_OK;
  if (code) atomic_fetch_add(&w->hub->cut_count, 1);
  if (code && sent) /* no memory: a piece of an event is out, and what came after it would be read as one with it. The end alone tells. */
    w->is_over = true;
  else if (code)
    end_with(w, "too slow: what was to be sent did not fit the queue of the watch; come back with Last-Event-ID");
  if (rest.size || w->is_over) wake(w);
}

static void beat(pd_watcher *w)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_sse_heartbeat(&text, &w->place, NULL) == PD_OK) push(w, pd_buf_bytes(&text));
}

void pd_watcher_beat(pd_watcher *w, int64_t after_ms)
{
  pthread_mutex_lock(&w->lock);
  if (w->is_live && pd_clock_monotonic_ms() - w->pushed_ms >= after_ms) beat(w);
  pthread_mutex_unlock(&w->lock);
}

void pd_watcher_stop(pd_watcher *w)
{
  pthread_mutex_lock(&w->lock);
  if (w->is_live) end_with(w, "the server is stopping");
  pthread_mutex_unlock(&w->lock);
}

/* ---- while it is live ---- */

#define EVENT_SIZE 512 /* of most events */

/* X5: the events of a batch as text, one after the other. */
typedef struct texts {
  pd_buf all;
  size_t ends[PD_FOLLOW_EVENTS_MAX];
  bool is_whole; /* else there was no memory */
} texts;

static void free_texts(void *made)
{
  pd_buf_done(&((texts *)made)->all);
  free(made);
}

/* NULL: no memory. */
static const texts *texts_of(pd_follow_batch *batch)
{
  texts *t = batch->made ? batch->made : calloc(1, sizeof *t);
  if (!t || batch->made) return t && t->is_whole ? t : NULL;
  batch->made = t;
  batch->made_free = free_texts;
  if (pd_buf_reserve(&t->all, batch->count * EVENT_SIZE, NULL)) return NULL;
  for (size_t i = 0; i < batch->count; i++) {
    if (pd_sse_event(&t->all, &batch->events[i], NULL)) return NULL;
    t->ends[i] = t->all.size;
  }
  t->is_whole = true;
  return t;
}

static bool wants(const pd_watcher *w, const pd_watch_event *event)
{
  if (*w->ref && *event->ref && strcmp(w->ref, event->ref) != 0) return false;
  if (!w->is_open && pd_history_hides(event->ref)) return false;
  bool is_change = event->kind == PD_WATCH_PUT || event->kind == PD_WATCH_DELETE; /* anything else is told whatever the prefix */
  return !is_change || pd_bytes_starts(event->key, pd_buf_bytes(&w->prefix));
}

/* Send the events from `i` on that it wants, as many as follow one another and fit any queue; returns the next to look at. */
static size_t push_some(pd_watcher *w, pd_follow_batch *batch, size_t i)
{
  const texts *t = texts_of(batch);
  if (!t) { /* not silence: it comes back and reads it again */
    end_with(w, "the server has no memory");
    return batch->count;
  }
  size_t begin = i ? t->ends[i - 1] : 0, size_max = w->hub->server->settings.watch_queue_bytes / 2;
  do i++;
  while (i < batch->count && wants(w, &batch->events[i]) && t->ends[i] - begin <= size_max);
  push(w, (pd_bytes){t->all.data + begin, t->ends[i - 1] - begin});
  if (!w->is_over) w->place = batch->events[i - 1].next;
  return i;
}

/* Policy is asked when the watch begins; and again, before anything is told, when other rules came into force. */
static bool may_hear(pd_watcher *w)
{
  uint64_t epoch = pd_policy_epoch(w->hub->server->home);
  if (epoch == w->policy_epoch) return true;
  pd_ctx who = pd_caller_ctx(&w->caller);
  bool may = pd_authorise_read(&who, w->like, w->name, pd_buf_bytes(&w->prefix), NULL, NULL) == PD_OK;
  if (may) w->policy_epoch = epoch;
  return may;
}

#define BARRED "policy does not let you follow this any more"

static void take(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  pd_watcher *w = (pd_watcher *)follower;
  bool may = may_hear(w);
  pthread_mutex_lock(&w->lock);
  if (!may) end_with(w, BARRED);
  for (size_t i = first; i < batch->count && !w->is_over;) i = wants(w, &batch->events[i]) ? push_some(w, batch, i) : i + 1;
  if (!w->is_over && pd_watch_cursor_compare(&batch->next, &w->place) > 0) w->place = batch->next;
  pthread_mutex_unlock(&w->lock);
}

/* ---- while it is behind ---- */

static void stop_reading(pd_watcher *w)
{
  pd_watch_close(w->watch);
  pd_home_return(w->hub->server->home, w->store);
  w->watch = NULL;
  w->store = NULL;
}

/* X1. False: the store's thread is further; read on. Events may come as soon as it has joined: they wait for the lock. */
static bool join_live(pd_watcher *w)
{
  pd_watch_cursor at = pd_watch_where(w->watch);
  pthread_mutex_lock(&w->lock);
  w->is_live = pd_follow_join(&w->follower, &at);
  w->place = at;
  w->pushed_ms = pd_clock_monotonic_ms();
  bool is_live = w->is_live;
  pthread_mutex_unlock(&w->lock);
  if (is_live) stop_reading(w);
  return is_live;
}

/* Read on until there is enough, or it is live. The watcher is nobody else's meanwhile, but for the store's thread once it is live. */
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
      return w->wants_live ? pd_sse_live(out, err) : PD_OK;
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
  bool is_live = false, is_draining = atomic_load(&w->hub->is_draining);
  pd_watch_cursor before = pd_watch_where(w->watch);
  pd_error err = {0};
  pd_code code = is_draining    ? pd_error_set(&err, PD_STORAGE, "the server is stopping")
                 : !may_hear(w) ? pd_error_set(&err, PD_DENIED, BARRED)
                                : fill(w, &text, &is_live, &err);
  pthread_mutex_lock(&w->lock);
  w->is_filling = false;
  if (is_live && !w->is_over && atomic_load(&w->hub->is_draining)) { /* it joined after all others were told */
    w->is_over = true;
  } else if (code) {
    (void)!pd_sse_note(&w->stream.out, "cut", &before, w->name, err.message, NULL); /* what was read just now is read again */
    w->is_over = true;
  } else if (text.size && pd_sse_add(&w->stream, pd_buf_bytes(&text))) { /* it was empty: there is no memory */
    w->is_over = true;
  }
  if (!is_live || w->stream.out.size || w->is_over) wake(w); /* live and nothing to say: let it sleep */
  pthread_mutex_unlock(&w->lock);
}

static void run_job(pd_job *job)
{
  fill_and_wake((pd_watcher *)((char *)job - offsetof(pd_watcher, job)));
}

/* ---- what libmicrohttpd asks for ---- */

static ssize_t read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
  pd_watcher *w = cls;
  (void)pos;
  pthread_mutex_lock(&w->lock);
  bool must_fill = false;
  ssize_t size = (ssize_t)pd_sse_read(&w->stream, &w->reader, out, max);
  if (!size && w->is_over) {
    size = MHD_CONTENT_READER_END_OF_STREAM;
  } else if (!size) {
    must_fill = w->is_filling = !w->is_live;
    pd_sse_sleep(&w->reader);
  }
  pthread_mutex_unlock(&w->lock);
  if (must_fill && !pd_pool_add(&w->hub->server->readers, &w->job)) {
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
  pd_watcher_beat(ctx, 0);
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
  pd_hub *hub = w->hub;
  pd_gone_forget(hub->server->gone, &w->leaver);
  pd_follow_close(&w->follower);
  pthread_mutex_lock(&hub->lock);
  *w->link = w->next;
  if (w->next) w->next->link = w->link;
  pthread_mutex_unlock(&hub->lock);
  atomic_fetch_sub(&hub->count, 1);
  stop_reading(w);
  pd_caller_done(&w->caller);
  pd_sse_done(&w->stream);
  pd_buf_done(&w->prefix);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

/* ---- a new one ---- */

static void set_up(pd_watcher *w, const pd_hub_request *request)
{
  w->follower.take = take;
  w->reader.connection = request->connection;
  w->fd = request->is_direct ? request->fd : -1;
  w->job.run = run_job;
  w->is_open = request->is_open;
  w->wants_live = request->wants_live;
  w->like = request->like;
  w->policy_epoch = request->policy_epoch;
  pd_caller_copy(request->caller, &w->caller);
  snprintf(w->name, sizeof w->name, "%s", request->name);
  w->job.owner = *w->caller.agent ? w->caller.agent : w->caller.token->id;
  int size = SEND_SIZE;
  if (request->fd >= 0)
    setsockopt(request->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* else the system keeps megabytes for who does not read */
  snprintf(w->ref, sizeof w->ref, "%s", request->options.ref ? request->options.ref : "");
  w->stream.queue_max = w->hub->server->settings.watch_queue_bytes;
}

static pd_code start(pd_watcher *w, const pd_hub_request *request, pd_error *err)
{
  TRY(pd_buf_append(&w->prefix, request->options.prefix.data, request->options.prefix.size, err));
  TRY(pd_follow_open(request->grant, request->name, &w->follower, err));
  TRY(pd_watch_open(request->store, &request->options, &w->watch, err));
  pd_watch_cursor at = pd_watch_where(w->watch);
  TRY(pd_buf_printf(&w->stream.out, err, "retry: 1000\n"));
  return pd_sse_note(&w->stream.out, "hello", &at, w->name, NULL, err);
}

pd_code pd_watcher_begin(pd_watcher *w, const pd_hub_request *request, struct MHD_Response **out, pd_error *err)
{
  set_up(w, request);
  pd_code code = start(w, request, err);
  if (!code) *out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_stream, w, end_stream);
  if (!code && !*out) code = pd_error_memory(err, "a watch");
  if (code) {
    end_stream(w);
    return code;
  }
  w->store = request->store;
  MHD_set_response_options(*out, MHD_RF_HTTP_VERSION_1_0_RESPONSE, MHD_RO_END); /* bytes as they are, not in chunks: X4 */
  w->leaver = (pd_leaver){.half = client_is_silent, .left = client_left, .ctx = w, .fd = request->fd};
  pd_gone_watch(w->hub->server->gone, &w->leaver);
  return PD_OK;
}
