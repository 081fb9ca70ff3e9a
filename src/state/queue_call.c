/* queue_call.c: queue.send, queue.receive, queue.ack, queue.count. Waiting for messages is waiting for the log of the agent's store. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/call.h"
#include "state/queue.h"
#include "state/run.h"
#include "state/session.h"
#include "state/subscription.h"
#include "state/threads.h"

#include <perdure/follow.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define ACK_COUNT_MAX 100
#define ASK_MS 100 /* who waits is asked so often whether it still wants to */

/* ---- send ---- */

typedef struct send_job {
  const char *from, *kind;
  pd_bytes body;
  pd_operation_name operation;
  uint64_t grant;       /* what was reserved for it */
  uint64_t short_bytes; /* out: what must be reserved first */
  uint64_t number;
  bool is_duplicate;
} send_job;

static pd_code stage_message(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  send_job *job = ctx;
  const pd_operation_name *o = &job->operation;
  uint64_t sent = 0;
  job->short_bytes = 0;
  if (*o->id) TRY(pd_queue_operation_find(tx, job->from, o->id, o->mark, &sent, err));
  job->is_duplicate = sent != 0;
  if (sent) job->number = sent;
  if (sent) return PD_OK; /* nothing to write */
  tx->grant = job->grant;
  pd_code code = pd_queue_stage(tx, job->kind, job->from, job->body, &job->number, err);
  job->short_bytes = tx->short_bytes;
  TRY(code);
  if (*o->id) TRY(pd_queue_operation_stage(tx, job->from, o->id, o->mark, job->number, err));
  return pd_queue_stage_head(tx, err);
}

/* Mostly one commit; a second one in the sender's own queue before it, if it must reserve room. */
static pd_code send(pd_home *home, const char *to, const pd_note *note, send_job *job, pd_ack *out, pd_error *err)
{
  for (;;) {
    pd_code code = pd_queue_update(home, to, note, stage_message, job, out, err);
    if (code != PD_QUOTA || !job->short_bytes) return code;
    TRY(pd_queue_sender_reserve(home, job->from, to, job->short_bytes, &job->grant, err));
  }
}

/* Agents must not say what only perdure says: who reads a kind believes it. */
static pd_code check_send(const char *to, const char *kind, pd_error *err)
{
  static const char *const own[] = {PD_QUEUE_SHARED_CHANGE, PD_QUEUE_APPROVAL, PD_QUEUE_NOTICE};
  if (strcmp(to, PD_STORE_SHARED) == 0 || strcmp(to, PD_STORE_SYSTEM) == 0)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "queue.send: field 'to': '%s' is the name of a store that is no agent's", to);
  for (size_t i = 0; i < COUNT_OF(own); i++)
    if (strcmp(kind, own[i]) == 0)
      return pd_error_named(err, PD_INVALID, "InvalidInput", "queue.send: field 'kind': messages of kind '%s' come from perdure alone",
                            kind);
  return PD_OK;
}

static bool is_operation_id(const char *id)
{
  for (; *id; id++)
    if (*id == '/' || (unsigned char)*id < 0x20 || *id == 0x7f) return false;
  return true;
}

/* The receiver's store, until the message that is only staged is in it. */
static pd_code hold_receiver(pd_frame *frame, const char *to, pd_error *err)
{
  pd_grant grant;
  pd_held *held;
  if (!pd_frame_is_hurried(frame)) return PD_OK;
  TRY(pd_authorise_work(frame->home, "queue", &grant, err));
  TRY(pd_home_hold(&grant, to, true, &held, err));
  pd_frame_keep(frame, held);
  return PD_OK;
}

pd_code pd_cap_queue_send(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf body = {0};
  char to[PD_NAME_SIZE_MAX + 1], kind[PD_QUEUE_KIND_SIZE_MAX + 1] = "message", id[PD_QUEUE_ID_SIZE];
  pd_in_string(frame, "to", to, sizeof to);
  pd_in_string(frame, "kind", kind, sizeof kind);
  TRY(check_send(to, kind, err));
  TRY(pd_in_value(frame, "body", &body, err));
  send_job job = {.from = *frame->agent ? frame->agent : NULL, .kind = kind, .body = pd_buf_bytes(&body)};
  TRY(pd_in_operation(frame, &job.operation, err));
  if (!is_operation_id(job.operation.id))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "queue.send: field 'operation_id': no '/' and no control characters");
  pd_note note = pd_frame_last_note(frame);
  pd_ack ack;
  TRY(hold_receiver(frame, to, err));
  pd_code code = send(frame->home, to, &note, &job, &ack, err);
  if (code == PD_QUOTA) pd_frame_detail_number(frame, "limit", err->expected ? err->expected : frame->home->config.queue_count_max);
  TRY(code);
  if (!job.is_duplicate) pd_frame_commit(frame, &ack);
  snprintf(id, sizeof id, "m%llu", (unsigned long long)job.number);
  pd_json_put_text(&frame->out, "message_id", id);
  if (*job.operation.id) pd_json_put_bool(&frame->out, "is_duplicate", job.is_duplicate);
  return frame->out.code;
}

/* ---- receive ---- */

/* Somebody who sleeps until its queue, or shared state that it has subscribed to, changes. */
typedef struct sleeper {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t change_count;
} sleeper;

/* A store that wakes it. */
typedef struct waker {
  pd_follower follower; /* first */
  sleeper *sleeper;
  const char *ref, *key; /* the key that has to change; NULL: any */
} waker;

static bool is_about(const pd_watch_event *event, const waker *a)
{
  bool is_change = event->kind == PD_WATCH_PUT || event->kind == PD_WATCH_DELETE;
  if (!a->key || event->kind == PD_WATCH_GAP) return true;
  return strcmp(event->ref, a->ref) == 0 && (!is_change || pd_bytes_equal(event->key, pd_text(a->key)));
}

static void wake_sleeper(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  const waker *a = (waker *)follower;
  bool is_news = batch->is_failing; /* then its own look tells what is wrong */
  for (size_t i = first; i < batch->count && !is_news; i++) is_news = is_about(&batch->events[i], a);
  if (!is_news) return;
  pthread_mutex_lock(&a->sleeper->lock);
  a->sleeper->change_count++;
  pthread_cond_signal(&a->sleeper->changed);
  pthread_mutex_unlock(&a->sleeper->lock);
}

static pd_code set_waker(waker *a, pd_home *home, const char *store, pd_error *err)
{
  pd_grant grant;
  a->follower.take = wake_sleeper;
  TRY(pd_authorise_work(home, "wait", &grant, err));
  TRY(pd_follow_open(&grant, store, &a->follower, err));
  (void)!pd_follow_join(&a->follower, NULL); /* from now on: always true */
  return PD_OK;
}

static uint64_t changes_of(sleeper *s)
{
  pthread_mutex_lock(&s->lock);
  uint64_t count = s->change_count;
  pthread_mutex_unlock(&s->lock);
  return count;
}

/* Until there was a change since `seen`, or the time is over. Who may give up is asked now and then. */
static pd_code sleep_until(pd_frame *frame, sleeper *s, uint64_t seen, int64_t end_ms, pd_error *err)
{
  for (int64_t now_ms; changes_of(s) == seen && (now_ms = pd_clock_monotonic_ms()) < end_ms;) {
    TRY(pd_frame_progress(frame, 0, 0, err));
    int64_t until_ms = frame->ctx->progress && end_ms - now_ms > ASK_MS ? now_ms + ASK_MS : end_ms;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    pthread_mutex_lock(&s->lock);
    while (s->change_count == seen && pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0) continue;
    pthread_mutex_unlock(&s->lock);
  }
  return PD_OK;
}

/* When to look again, if nothing changes: a delivery may end before the deadline. */
static int64_t due_of(const pd_frame *frame, const pd_queue_take *take, int64_t deadline_ms)
{
  int64_t now_ms = pd_clock_monotonic_ms(), left_ms = take->next_due_ms - pd_home_now(frame->home);
  if (left_ms < 1) left_ms = 1;
  return left_ms < deadline_ms - now_ms ? now_ms + left_ms : deadline_ms;
}

/* Changes of shared state come by another log, and matter to those who have subscriptions. *out_is_new: it was not known that they do. A
 * subscription that is made later changes the queue's head. */
static pd_code hear_shared(pd_frame *frame, bool *hears_shared, bool *out_is_new, pd_error *err)
{
  bool hears = *hears_shared;
  if (!hears) TRY(pd_subscriptions_any(frame->home, frame->agent, &hears, err));
  *out_is_new = hears && !*hears_shared;
  *hears_shared = hears;
  return PD_OK;
}

static pd_code receive_until(pd_frame *frame, pd_queue_take *take, sleeper *s, waker *shared, int64_t deadline_ms, pd_error *err)
{
  for (bool hears_shared = false, is_new;;) {
    uint64_t seen = changes_of(s);
    TRY(pd_frame_progress(frame, 0, 0, err)); /* who gave up does not take what comes */
    TRY(pd_queue_receive(frame->home, frame->agent, take, err));
    if (take->count || pd_clock_monotonic_ms() >= deadline_ms) return PD_OK;
    TRY(hear_shared(frame, &hears_shared, &is_new, err));
    if (is_new)
      TRY(set_waker(shared, frame->home, PD_STORE_SHARED, err));
    else
      TRY(sleep_until(frame, s, seen, due_of(frame, take, deadline_ms), err));
  }
}

/* The queue is followed before the first look, so that nothing comes between the two. */
static pd_code receive_waiting(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
  CLEANUP(pd_queue_place_close) pd_queue_place place = {0};
  char key[PD_QUEUE_KEY_SIZE];
  sleeper s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  waker queue = {.sleeper = &s, .ref = PD_QUEUE_REF, .key = key}, shared = {.sleeper = &s};
  pthread_condattr_t monotonic;
  snprintf(key, sizeof key, "queue/%s", frame->agent);
  TRY(pd_queue_place_open(frame->home, frame->agent, true, &place, err));
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&s.changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pd_code code = set_waker(&queue, frame->home, frame->agent, err);
  if (!code) code = receive_until(frame, take, &s, &shared, pd_clock_monotonic_ms() + wait_ms, err);
  pd_follow_close(&queue.follower);
  pd_follow_close(&shared.follower);
  pthread_cond_destroy(&s.changed);
  return code;
}

/* The same without sleeping: who calls comes again (pd_wait). */
static pd_code receive_or_come_again(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
  pd_wait *wait = frame->ctx->wait;
  bool is_new;
  if (!wait->deadline_ms) {
    CLEANUP(pd_queue_place_close) pd_queue_place place = {0}; /* an agent that waits gets a store: that is followed */
    TRY(pd_queue_place_open(frame->home, frame->agent, true, &place, err));
    wait->deadline_ms = pd_clock_monotonic_ms() + wait_ms;
  }
  TRY(pd_frame_progress(frame, 0, 0, err)); /* who gave up does not take what comes */
  TRY(pd_queue_receive(frame->home, frame->agent, take, err));
  if (take->count || wait->is_over || pd_clock_monotonic_ms() >= wait->deadline_ms) return PD_OK;
  TRY(hear_shared(frame, &wait->hears_shared, &is_new, err));
  wait->due_ms = due_of(frame, take, wait->deadline_ms);
  wait->is_waiting = true;
  return PD_OK;
}

/* What is there now; if there is nothing, who wants to wait for it does so elsewhere. */
static pd_code receive_at_once(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
  pd_store *store;
  TRY(pd_frame_own(frame, true, &store, err)); /* held until the call is over */
  TRY(pd_queue_receive(frame->home, frame->agent, take, err));
  return !take->count && wait_ms ? pd_frame_must_wait(frame, err) : PD_OK;
}

static pd_code receive(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
  if (pd_frame_is_hurried(frame)) return receive_at_once(frame, take, wait_ms, err);
  if (!wait_ms) return pd_queue_receive(frame->home, frame->agent, take, err);
  return frame->ctx->wait ? receive_or_come_again(frame, take, wait_ms, err) : receive_waiting(frame, take, wait_ms, err);
}

/* Who only waits for events uses its session all the same: else it would idle out, and the subscriptions with it. */
static void touch_session(pd_frame *frame)
{
  pd_session *session;
  if (!frame->ctx->session || pd_session_enter(frame->home, frame->agent, frame->ctx->session, &session, NULL)) return;
  pd_session_leave(session);
}

pd_code pd_cap_queue_receive(pd_frame *frame, pd_error *err)
{
  pd_note note = pd_frame_last_note(frame);
  int64_t wait_ms = pd_in_int(frame, "wait_ms", 0);
  pd_queue_take take = {
    .max = (uint64_t)pd_in_int(frame, "max", 10),
    .visibility_ms = pd_in_int(frame, "visibility_ms", (int64_t)frame->home->config.queue_visibility_ms),
    .note = &note,
    .out = &frame->out,
  };
  touch_session(frame);
  pd_json_key(&frame->out, "messages");
  pd_json_open(&frame->out, '[');
  TRY(receive(frame, &take, wait_ms, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", take.count);
  if (take.count) pd_frame_commit(frame, &take.ack);
  return frame->out.code;
}

/* ---- ack, count ---- */

/* "m17" -> 17 */
static bool parse_id(pd_json value, uint64_t *out)
{
  pd_bytes raw = value.raw;
  if (value.kind != PD_JSON_STRING || raw.size < 4 || raw.size > 22 || ((const char *)raw.data)[1] != 'm') return false;
  pd_json digits = {.raw = {(const char *)raw.data + 2, raw.size - 3}, .kind = PD_JSON_NUMBER};
  return pd_json_u64(digits, out) && *out && *(const char *)digits.raw.data != '0';
}

pd_code pd_cap_queue_ack(pd_frame *frame, pd_error *err)
{
  uint64_t numbers[ACK_COUNT_MAX], count = 0;
  size_t number_count = 0;
  pd_note note = pd_frame_last_note(frame);
  pd_store *store;
  pd_ack ack;
  pd_json item;
  pd_json_walk items = pd_json_walk_begin(pd_in(frame, "message_ids"));
  while (pd_json_walk_next(&items, NULL, &item))
    if (!parse_id(item, &numbers[number_count++]))
      return pd_error_named(err, PD_INVALID, "InvalidInput", "queue.ack: field 'message_ids': item %zu is no id of a message, like \"m17\"",
                            number_count);
  if (pd_frame_is_hurried(frame)) TRY(pd_frame_own(frame, true, &store, err)); /* held until the call is over */
  TRY(pd_queue_ack(frame->home, frame->agent, numbers, number_count, &note, &count, &ack, err));
  if (count) pd_frame_commit(frame, &ack);
  pd_json_put_number(&frame->out, "acknowledged", count);
  return frame->out.code;
}

pd_code pd_cap_queue_count(pd_frame *frame, pd_error *err)
{
  pd_queue_counts counts;
  TRY(pd_queue_count(frame->home, frame->agent, &counts, err));
  pd_json_put_number(&frame->out, "unread", counts.unread);
  pd_json_put_number(&frame->out, "in_flight", counts.in_flight);
  return frame->out.code;
}
