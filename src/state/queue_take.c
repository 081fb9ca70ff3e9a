/* queue_take.c: receiving, acknowledging and counting. Invariants are in queue.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/close.h"
#include "base/error.h"
#include "base/key.h"
#include "state/queue.h"
#include "state/subscription.h"

#include <stdio.h>

#define TAKE_COUNT_MAX 100
#define VISIBILITY_MS_MAX ((int64_t)365 * 24 * 3600 * 1000) /* as queue.receive.json has it */
#define TAKE_SIZE_MAX ((uint64_t)16 * 1024 * 1024)          /* of one answer; the first message is given whatever its size */

/* ---- deliveries: the leases of messages ---- */

static const pd_bind flight[] = {
  {"until", PD_BIND_MS, PD_BIND_AT(pd_leased_item, until_ms)},
  {"deliveries", PD_BIND_NUMBER, PD_BIND_AT(pd_leased_item, attempts)},
  {"given", PD_BIND_MS, PD_BIND_AT(pd_leased_item, given_ms), .is_optional = true, .is_always = true}, /* not by an older program */
};

static bool read_flight(pd_bytes value, pd_leased_item *out)
{
  return pd_bind_parse(value, flight, COUNT_OF(flight), PD_BIND_LOOSE, out, NULL) == PD_OK;
}

/* All of them, by the numbers of their messages. */
static pd_code list_flights(pd_queue_tx *tx, pd_leased_item **out, size_t *out_count, pd_error *err)
{
  char prefix[PD_QUEUE_KEY_SIZE];
  snprintf(prefix, sizeof prefix, "flight/%s/", tx->agent);
  return pd_leased_list(&tx->l, prefix, read_flight, NULL, SIZE_MAX, out, out_count, err);
}

static pd_code stage_flight(pd_queue_tx *tx, const pd_leased_item *item, int64_t visibility_ms, pd_error *err)
{
  char key[PD_QUEUE_KEY_SIZE];
  pd_leased_item next = {.until_ms = tx->l.now_ms + visibility_ms, .attempts = item->attempts, .given_ms = tx->l.now_ms};
  return pd_leased_put(&tx->l, pd_queue_key("flight", tx->agent, item->number, key), flight, COUNT_OF(flight), &next, err);
}

static pd_leased_look look_of(const pd_queue_tx *tx)
{
  return (pd_leased_look){tx->l.now_ms, VISIBILITY_MS_MAX, INT64_MAX};
}

/* ---- receiving ---- */

/* The first messages that nobody has. */
static pd_code pick(pd_queue_tx *tx, pd_queue_take *take, pd_leased_item *out, size_t *out_count, pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *flights = NULL;
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_leased_look look = look_of(tx);
  char prefix[PD_QUEUE_KEY_SIZE];
  size_t flight_count = 0, next = 0;
  uint64_t total = 0;
  pd_entry entry;
  pd_code code = PD_NOT_FOUND;
  snprintf(prefix, sizeof prefix, "queue/%s/", tx->agent);
  TRY(list_flights(tx, &flights, &flight_count, err));
  TRY(pd_edit_iter(tx->l.edit, &(pd_scan){.prefix = pd_text(prefix), .keys_only = true}, &iter, err));
  while (*out_count < take->max && (code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    pd_leased_item item = {.number = pd_key_number(entry.key)};
    while (next < flight_count && flights[next].number < item.number) next++;
    if (next < flight_count && flights[next].number == item.number) item = flights[next];
    if (!pd_leased_is_free(&look, item.until_ms, item.given_ms)) continue;
    if (*out_count && total + entry.size > TAKE_SIZE_MAX) break;
    total += entry.size;
    item.attempts++;
    out[(*out_count)++] = item;
  }
  take->next_due_ms = look.next_due_ms;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* The body of a message that tells of a shared key which policy has closed since: the key is not told. */
static bool is_closed(const pd_queue_tx *tx, const pd_queue_message *message)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  pd_json name = pd_json_member(message->body, "key");
  if (!pd_json_is(message->kind, PD_QUEUE_SHARED_CHANGE) || name.kind != PD_JSON_STRING) return false;
  if (pd_json_decode(name, &key, NULL)) return true;
  pd_ctx who = {.home = tx->home, .agent = tx->agent};
  return pd_authorise_read(&who, "state.shared.watch", PD_STORE_SHARED, pd_buf_bytes(&key), NULL, NULL) != PD_OK;
}

/* Message `number`, which is borrowed from `text`. PD_NOT_FOUND. */
static pd_code read_message(pd_queue_tx *tx, uint64_t number, pd_buf *text, pd_queue_message *out, pd_error *err)
{
  char key[PD_QUEUE_KEY_SIZE];
  pd_buf_clear(text);
  TRY(pd_edit_get(tx->l.edit, pd_text(pd_queue_key("queue", tx->agent, number, key)), text, NULL, err));
  return pd_queue_message_parse(key, pd_buf_bytes(text), out, err);
}

static pd_code put_delivered(pd_queue_tx *tx, pd_json_writer *out, const pd_leased_item *item, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char id[PD_QUEUE_ID_SIZE], time_text[PD_TIME_TEXT_SIZE];
  pd_queue_message message;
  TRY(read_message(tx, item->number, &text, &message, err));
  snprintf(id, sizeof id, "m%llu", (unsigned long long)item->number);
  pd_json_open(out, '{');
  pd_json_put_text(out, "message_id", id);
  pd_json_put_value(out, "kind", message.kind);
  pd_json_put_or_null(out, "from", pd_text(message.from));
  pd_json_put_text(out, "sent_at", pd_time_text(message.time_ms, time_text));
  pd_json_put_number(out, "deliveries", item->attempts);
  pd_json_key(out, "body");
  if (is_closed(tx, &message))
    pd_json_raw(out, pd_text("{\"type\":\"" PD_QUEUE_SHARED_CHANGE "\",\"kind\":\"closed\",\"key\":null,\"reason\":\"policy\"}"));
  else
    pd_json_value(out, message.body);
  pd_json_close(out, '}');
  return out->code;
}

typedef struct take_job {
  pd_queue_take *take;
  pd_buf text; /* the messages, until they are committed */
} take_job;

static void take_job_done(take_job *job)
{
  pd_buf_done(&job->text);
}

static pd_code stage_take(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  take_job *job = ctx;
  pd_queue_take *take = job->take;
  pd_leased_item picked[TAKE_COUNT_MAX];
  size_t count = 0;
  take->count = 0;
  take->next_due_ms = INT64_MAX;
  pd_buf_clear(&job->text);
  pd_json_writer w = {.out = &job->text, .err = err};
  TRY(pick(tx, take, picked, &count, err));
  if (!count) return PD_OK;
  pd_json_open(&w, '[');
  for (size_t i = 0; i < count; i++) TRY(put_delivered(tx, &w, &picked[i], err));
  pd_json_close(&w, ']');
  TRY(w.code);
  for (size_t i = 0; i < count; i++) TRY(stage_flight(tx, &picked[i], take->visibility_ms, err));
  take->count = count;
  return pd_queue_stage_head(tx, err);
}

pd_code pd_queue_receive(pd_home *home, const char *agent, pd_queue_take *take, pd_error *err)
{
  CLEANUP(take_job_done) take_job job = {.take = take};
  take->count = 0;
  if (take->max > TAKE_COUNT_MAX) take->max = TAKE_COUNT_MAX;
  TRY(pd_subscriptions_move(home, agent, err));
  take->next_due_ms = INT64_MAX;
  TRY(pd_queue_update_any(home, agent, take->note, stage_take, &job, &take->ack, err));
  pd_json list, item;
  if (!take->count) return PD_OK;
  TRY(pd_json_parse(pd_buf_bytes(&job.text), &list, err));
  pd_json_walk items = pd_json_walk_begin(list);
  while (pd_json_walk_next(&items, NULL, &item)) pd_json_value(take->out, item);
  return take->out->code;
}

/* ---- giving back ---- */

static pd_code release_one(pd_queue_tx *tx, const pd_leased_item *item, const char *subscription, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_queue_message message;
  TRY(read_message(tx, item->number, &text, &message, err));
  if (!pd_json_is(message.kind, PD_QUEUE_SHARED_CHANGE)) return PD_OK;
  if (!pd_json_is(pd_json_member(message.body, "subscription_id"), subscription)) return PD_OK;
  return stage_flight(tx, item, 0, err);
}

pd_code pd_queue_release(pd_queue_tx *tx, const char *subscription, pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *all = NULL;
  pd_leased_look look = look_of(tx);
  size_t count = 0;
  TRY(list_flights(tx, &all, &count, err));
  for (size_t i = 0; i < count; i++)
    if (!pd_leased_is_free(&look, all[i].until_ms, all[i].given_ms)) TRY(release_one(tx, &all[i], subscription, err));
  return PD_OK;
}

/* ---- acknowledging ---- */

typedef struct ack_job {
  const uint64_t *numbers;
  size_t number_count;
  uint64_t count;
} ack_job;

static pd_code stage_ack(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  ack_job *job = ctx;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE];
  pd_queue_message message;
  job->count = 0;
  for (size_t i = 0; i < job->number_count; i++) {
    pd_code code = read_message(tx, job->numbers[i], &text, &message, err);
    if (code == PD_NOT_FOUND) continue; /* it was acknowledged before, or stands twice in the list */
    TRY(code);
    TRY(pd_queue_stage_gone(tx, *message.from ? message.from : NULL, text.size, err));
    TRY(pd_edit_delete(tx->l.edit, pd_text(pd_queue_key("queue", tx->agent, job->numbers[i], key)), PD_ANY_VERSION, err));
    TRY(pd_edit_delete(tx->l.edit, pd_text(pd_queue_key("flight", tx->agent, job->numbers[i], key)), PD_ANY_VERSION, err));
    job->count++;
  }
  if (!job->count) return PD_OK;
  tx->count -= job->count < tx->count ? job->count : tx->count;
  return pd_queue_stage_head(tx, err);
}

pd_code pd_queue_ack(pd_home *home, const char *agent, const uint64_t *numbers, size_t count, const pd_note *note, uint64_t *out_count,
                     pd_ack *out, pd_error *err)
{
  ack_job job = {.numbers = numbers, .number_count = count};
  pd_ack ack;
  TRY(pd_queue_update_any(home, agent, note, stage_ack, &job, &ack, err));
  *out_count = job.count;
  if (job.count) *out = ack;
  return PD_OK;
}

/* ---- counting ---- */

static pd_code count_all(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *all = NULL;
  pd_leased_look look = look_of(tx);
  pd_queue_counts counts = {0};
  size_t count = 0;
  TRY(list_flights(tx, &all, &count, err));
  for (size_t i = 0; i < count; i++) counts.in_flight += !pd_leased_is_free(&look, all[i].until_ms, all[i].given_ms);
  counts.unread = tx->count - (counts.in_flight < tx->count ? counts.in_flight : tx->count);
  *(pd_queue_counts *)ctx = counts;
  return PD_OK;
}

pd_code pd_queue_count(pd_home *home, const char *agent, pd_queue_counts *out, pd_error *err)
{
  pd_queue_counts counts = {0};
  pd_note note = {.author = "perdure", .reason = "queue.count"};
  TRY(pd_subscriptions_move(home, agent, err));
  TRY(pd_queue_update_any(home, agent, &note, count_all, &counts, NULL, err));
  *out = counts;
  return PD_OK;
}
