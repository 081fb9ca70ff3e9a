/* queue_call.c: queue.send, queue.receive, queue.ack, queue.count. Waiting for messages is waiting for the system's log. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/call.h"
#include "state/ear.h"
#include "state/queue.h"
#include "state/run.h"
#include "state/session.h"
#include "state/subscription.h"
#include "state/threads.h"

#include <stdio.h>

#define ACK_COUNT_MAX 100
#define ASK_MS 100 /* who waits is asked so often whether it still wants to */

static pd_note note_of(const pd_frame *frame)
{
  return (pd_note){.author = *frame->agent ? frame->agent : "operator", .run = frame->ctx->session, .reason = frame->capability->name};
}

/* ---- send ---- */

typedef struct send_job {
  const char *from, *kind;
  pd_bytes body;
  pd_operation_name operation;
  uint64_t number;
  bool is_duplicate;
} send_job;

static pd_code stage_message(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  send_job *job = ctx;
  const pd_operation_name *o = &job->operation;
  uint64_t sent = 0;
  if (*o->id) TRY(pd_queue_operation_find(tx, job->from, o->id, o->mark, &sent, err));
  job->is_duplicate = sent != 0;
  if (sent) job->number = sent;
  if (sent) return PD_OK; /* nothing to write */
  TRY(pd_queue_stage(tx, job->kind, job->from, job->body, &job->number, err));
  if (*o->id) TRY(pd_queue_operation_stage(tx, job->from, o->id, o->mark, job->number, err));
  return pd_queue_stage_head(tx, err);
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
  pd_note note = note_of(frame);
  pd_ack ack;
  pd_code code = pd_queue_update(frame->home, to, &note, stage_message, &job, &ack, err);
  if (code == PD_QUOTA) pd_frame_detail_number(frame, "limit", err->expected ? err->expected : frame->home->config.queue_count_max);
  TRY(code);
  if (!job.is_duplicate) pd_frame_commit(frame, &ack);
  snprintf(id, sizeof id, "m%llu", (unsigned long long)job.number);
  pd_json_put_text(&frame->out, "message_id", id);
  if (*job.operation.id) pd_json_put_bool(&frame->out, "is_duplicate", job.is_duplicate);
  return frame->out.code;
}

/* ---- receive ---- */

/* What has happened since is told at once; then sleep until there is more, or the time is over. Who may give up is asked now and then. */
static pd_code wait_for_change(pd_frame *frame, pd_watch *watch, int64_t wait_ms, pd_error *err)
{
  pd_watch_event event;
  int64_t end_ms = pd_clock_monotonic_ms() + wait_ms;
  pd_code code = PD_NOT_FOUND;
  for (int64_t left_ms = wait_ms; code == PD_NOT_FOUND && left_ms > 0; left_ms = end_ms - pd_clock_monotonic_ms()) {
    TRY(pd_frame_progress(frame, 0, 0, err));
    code = pd_watch_next(watch, (uint32_t)(frame->ctx->progress && left_ms > ASK_MS ? ASK_MS : left_ms), &event, err);
  }
  while (code == PD_OK) code = pd_watch_next(watch, 0, &event, err);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* Changes of shared state come by another log: whoever has subscriptions needs an ear there. *out_is_new: look again before waiting. */
static pd_code listen(pd_frame *frame, bool *is_listening, bool *out_is_new, pd_error *err)
{
  bool has_any = false;
  *out_is_new = false;
  if (*is_listening) return PD_OK;
  TRY(pd_subscriptions_any(frame->home, frame->agent, &has_any, err));
  if (!has_any) return PD_OK; /* one that is made later is told by the queue's head */
  TRY(pd_ear_join(frame->home, frame->agent, err));
  *is_listening = *out_is_new = true;
  return PD_OK;
}

static pd_code receive_until(pd_frame *frame, pd_queue_take *take, pd_watch *watch, int64_t deadline_ms, bool *is_listening, pd_error *err)
{
  for (;;) {
    bool is_new;
    TRY(pd_frame_progress(frame, 0, 0, err)); /* who gave up does not take what comes */
    TRY(pd_queue_receive(frame->home, frame->agent, take, err));
    int64_t left_ms = deadline_ms - pd_clock_monotonic_ms();
    if (take->count || left_ms <= 0) return PD_OK;
    TRY(listen(frame, is_listening, &is_new, err));
    if (is_new) continue;
    int64_t due_ms = take->next_due_ms - pd_home_now(frame->home);
    if (due_ms < 1) due_ms = 1;
    TRY(wait_for_change(frame, watch, due_ms < left_ms ? due_ms : left_ms, err));
  }
}

/* The watch is opened before the first look, so that nothing comes between the two. */
static pd_code receive_waiting(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_store *store;
  pd_watch *watch;
  snprintf(prefix, sizeof prefix, "queue/%s", frame->agent);
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  pd_watch_options options = {.prefix = pd_text(prefix), .ref = pd_store_ref(store)};
  TRY(pd_watch_open(store, &options, &watch, err));
  bool is_listening = false;
  pd_code code = receive_until(frame, take, watch, pd_clock_monotonic_ms() + wait_ms, &is_listening, err);
  if (is_listening) pd_ear_leave(frame->home, frame->agent);
  pd_watch_close(watch);
  return code;
}

/* The same without sleeping: who calls comes again (pd_wait). */
static pd_code receive_or_come_again(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
  pd_wait *wait = frame->ctx->wait;
  if (!wait->deadline_ms) wait->deadline_ms = pd_clock_monotonic_ms() + wait_ms;
  for (bool is_new = true; is_new;) {
    TRY(pd_frame_progress(frame, 0, 0, err)); /* who gave up does not take what comes */
    TRY(pd_queue_receive(frame->home, frame->agent, take, err));
    if (take->count || wait->is_over || pd_clock_monotonic_ms() >= wait->deadline_ms) return PD_OK;
    TRY(listen(frame, &wait->is_listening, &is_new, err));
  }
  int64_t now_ms = pd_clock_monotonic_ms(), left_ms = take->next_due_ms - pd_home_now(frame->home);
  if (left_ms < 1) left_ms = 1;
  wait->due_ms = left_ms < wait->deadline_ms - now_ms ? now_ms + left_ms : wait->deadline_ms;
  wait->is_waiting = true;
  return PD_OK;
}

void pd_wait_end(pd_home *home, const char *agent, pd_wait *wait)
{
  if (wait->is_listening) pd_ear_leave(home, agent);
  wait->is_listening = false;
}

static pd_code receive(pd_frame *frame, pd_queue_take *take, int64_t wait_ms, pd_error *err)
{
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
  pd_note note = note_of(frame);
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
  pd_note note = note_of(frame);
  pd_ack ack;
  pd_json item;
  pd_json_walk items = pd_json_walk_begin(pd_in(frame, "message_ids"));
  while (pd_json_walk_next(&items, NULL, &item))
    if (!parse_id(item, &numbers[number_count++]))
      return pd_error_named(err, PD_INVALID, "InvalidInput", "queue.ack: field 'message_ids': item %zu is no id of a message, like \"m17\"",
                            number_count);
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
