/* queue_take.c: receiving, acknowledging and counting. Invariants Q1 to Q3 are in queue.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/key.h"
#include "state/queue.h"
#include "state/subscription.h"

#include <stdio.h>
#include <stdlib.h>

#define TAKE_COUNT_MAX 100
#define VISIBILITY_MS_MAX ((int64_t)365 * 24 * 3600 * 1000) /* as queue.receive.json has it */
#define CLOCK_MS_MAX ((int64_t)24 * 3600 * 1000)
#define TAKE_SIZE_MAX ((uint64_t)16 * 1024 * 1024) /* of one answer; the first message is given whatever its size */

/* ---- a message and its delivery, side by side ---- */

typedef struct delivery {
  uint64_t number; /* 0: none */
  uint64_t until, deliveries;
  uint64_t given; /* when; 0: not known */
} delivery;

/* Walks the messages in order, and with each the delivery that it has, if any. */
typedef struct walk {
  pd_iter *messages, *flights;
  delivery ahead; /* the next delivery that was read */
} walk;

static void walk_done(walk *k)
{
  pd_iter_close(k->messages);
  pd_iter_close(k->flights);
}

static pd_code next_flight(walk *k, pd_error *err)
{
  pd_entry entry;
  pd_bytes text;
  pd_json json;
  k->ahead = (delivery){0};
  pd_code code = pd_iter_next(k->flights, &entry, &text, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  k->ahead.number = pd_key_number(entry.key);
  TRY(pd_queue_parse("flight", text, &json, err));
  TRY(pd_queue_field("flight", json, "until", &k->ahead.until, err));
  if (!pd_json_u64(pd_json_member(json, "given"), &k->ahead.given)) k->ahead.given = 0; /* by an older program */
  return pd_queue_field("flight", json, "deliveries", &k->ahead.deliveries, err);
}

static pd_code walk_open(pd_queue_tx *tx, walk *out, pd_error *err)
{
  char messages[PD_QUEUE_KEY_SIZE], flights[PD_QUEUE_KEY_SIZE];
  snprintf(messages, sizeof messages, "queue/%s/", tx->agent);
  snprintf(flights, sizeof flights, "flight/%s/", tx->agent);
  pd_scan of_messages = {.prefix = pd_text(messages), .keys_only = true}, of_flights = {.prefix = pd_text(flights)};
  TRY(pd_edit_iter(tx->edit, &of_messages, &out->messages, err));
  TRY(pd_edit_iter(tx->edit, &of_flights, &out->flights, err));
  return next_flight(out, err);
}

/* The next message: its number, size and delivery (number 0: never given). PD_NOT_FOUND at the end. */
static pd_code walk_next(walk *k, uint64_t *out_number, uint64_t *out_size, delivery *out, pd_error *err)
{
  pd_entry entry;
  TRY(pd_iter_next(k->messages, &entry, NULL, err));
  *out_number = pd_key_number(entry.key);
  *out_size = entry.size;
  while (k->ahead.number && k->ahead.number < *out_number) TRY(next_flight(k, err));
  *out = k->ahead.number == *out_number ? k->ahead : (delivery){0};
  return PD_OK;
}

/* What was given more than a day from now was given by a clock that was ahead: nobody holds it until then. */
static bool is_in_flight(const pd_queue_tx *tx, const delivery *d)
{
  int64_t until_max = tx->now_ms + VISIBILITY_MS_MAX, given_max = tx->now_ms + CLOCK_MS_MAX;
  if (!d->number || (int64_t)d->until <= tx->now_ms) return false;
  return (int64_t)d->until <= until_max && (int64_t)d->given <= given_max;
}

/* ---- receiving ---- */

/* The first messages that nobody has. */
static pd_code pick(pd_queue_tx *tx, pd_queue_take *take, delivery *out, size_t *out_count, pd_error *err)
{
  CLEANUP(walk_done) walk k = {0};
  uint64_t number, size, total = 0;
  delivery d;
  pd_code code;
  TRY(walk_open(tx, &k, err));
  while (*out_count < take->max && (code = walk_next(&k, &number, &size, &d, err)) != PD_NOT_FOUND) {
    TRY(code);
    if (is_in_flight(tx, &d)) {
      if ((int64_t)d.until < take->next_due_ms) take->next_due_ms = (int64_t)d.until;
      continue;
    }
    if (*out_count && total + size > TAKE_SIZE_MAX) return PD_OK;
    total += size;
    out[*out_count] = (delivery){.number = number, .deliveries = d.deliveries + 1};
    (*out_count)++;
  }
  return PD_OK;
}

/* The body of a message that tells of a shared key which policy has closed since: the key is not told. */
static bool is_closed(const pd_queue_tx *tx, pd_json message)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  pd_json name = pd_json_member(pd_json_member(message, "body"), "key");
  if (!pd_json_is(pd_json_member(message, "kind"), PD_QUEUE_SHARED_CHANGE) || name.kind != PD_JSON_STRING) return false;
  if (pd_json_decode(name, &key, NULL)) return true;
  pd_ctx who = {.home = tx->home, .agent = tx->agent};
  return pd_authorise_read(&who, "state.shared.watch", PD_STORE_SHARED, pd_buf_bytes(&key), NULL, NULL) != PD_OK;
}

static pd_code put_delivered(pd_queue_tx *tx, pd_json_writer *out, const delivery *d, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE], id[PD_QUEUE_ID_SIZE], time_text[PD_TIME_TEXT_SIZE];
  pd_json json;
  uint64_t time_ms;
  pd_queue_key("queue", tx->agent, d->number, key);
  TRY(pd_edit_get(tx->edit, pd_text(key), &text, NULL, err));
  TRY(pd_queue_parse(key, pd_buf_bytes(&text), &json, err));
  TRY(pd_queue_field(key, json, "time", &time_ms, err));
  snprintf(id, sizeof id, "m%llu", (unsigned long long)d->number);
  pd_json_open(out, '{');
  pd_json_put_text(out, "message_id", id);
  pd_json_key(out, "kind");
  pd_json_value(out, pd_json_member(json, "kind"));
  pd_json_key(out, "from");
  pd_json_value(out, pd_json_member(json, "from"));
  pd_json_put_text(out, "sent_at", pd_time_text((int64_t)time_ms, time_text));
  pd_json_put_number(out, "deliveries", d->deliveries);
  pd_json_key(out, "body");
  if (is_closed(tx, json))
    pd_json_raw(out, pd_text("{\"type\":\"" PD_QUEUE_SHARED_CHANGE "\",\"kind\":\"closed\",\"key\":null,\"reason\":\"policy\"}"));
  else
    pd_json_value(out, pd_json_member(json, "body"));
  pd_json_close(out, '}');
  return out->code;
}

static pd_code stage_flight(pd_queue_tx *tx, const delivery *d, int64_t visibility_ms, pd_error *err)
{
  char key[PD_QUEUE_KEY_SIZE], text[128];
  snprintf(text, sizeof text, "{\"until\":%lld,\"deliveries\":%llu,\"given\":%lld}", (long long)(tx->now_ms + visibility_ms),
           (unsigned long long)d->deliveries, (long long)tx->now_ms);
  return pd_edit_put(tx->edit, pd_text(pd_queue_key("flight", tx->agent, d->number, key)), pd_text(text), PD_ANY_VERSION, err);
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
  delivery picked[TAKE_COUNT_MAX];
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

static pd_code release_one(pd_queue_tx *tx, const delivery *d, const char *subscription, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE];
  pd_json json;
  pd_queue_key("queue", tx->agent, d->number, key);
  TRY(pd_edit_get(tx->edit, pd_text(key), &text, NULL, err));
  TRY(pd_queue_parse(key, pd_buf_bytes(&text), &json, err));
  if (!pd_json_is(pd_json_member(json, "kind"), PD_QUEUE_SHARED_CHANGE)) return PD_OK;
  if (!pd_json_is(pd_json_member(pd_json_member(json, "body"), "subscription_id"), subscription)) return PD_OK;
  return stage_flight(tx, d, 0, err);
}

pd_code pd_queue_release(pd_queue_tx *tx, const char *subscription, pd_error *err)
{
  delivery *all = NULL;
  size_t count = 0, capacity = 0;
  walk k = {0};
  pd_code code = walk_open(tx, &k, err);
  while (code == PD_OK && k.ahead.number) { /* read them all first: an iterator ends with the next edit */
    code = pd_array_grow(&all, count, &capacity, sizeof all[0], "messages in flight", err);
    if (code == PD_OK && is_in_flight(tx, &k.ahead)) all[count++] = k.ahead;
    if (code == PD_OK) code = next_flight(&k, err);
  }
  walk_done(&k);
  for (size_t i = 0; i < count && code == PD_OK; i++) code = release_one(tx, &all[i], subscription, err);
  free(all);
  return code;
}

/* ---- acknowledging ---- */

typedef struct ack_job {
  const uint64_t *numbers;
  size_t number_count;
  uint64_t count;
} ack_job;

static pd_code stage_gone(pd_queue_tx *tx, const char *key, pd_bytes text, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf from = {0};
  pd_json json;
  TRY(pd_queue_parse(key, text, &json, err));
  pd_json sender = pd_json_member(json, "from");
  if (sender.kind != PD_JSON_STRING) return pd_queue_stage_gone(tx, NULL, text.size, err);
  TRY(pd_json_decode(sender, &from, err));
  TRY(pd_buf_byte(&from, 0, err));
  return pd_queue_stage_gone(tx, (const char *)from.data, text.size, err);
}

static pd_code stage_ack(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  ack_job *job = ctx;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE];
  job->count = 0;
  for (size_t i = 0; i < job->number_count; i++) {
    pd_queue_key("queue", tx->agent, job->numbers[i], key);
    pd_code code = pd_edit_get(tx->edit, pd_text(key), &text, NULL, err);
    if (code == PD_NOT_FOUND) continue; /* it was acknowledged before, or stands twice in the list */
    TRY(code);
    TRY(stage_gone(tx, key, pd_buf_bytes(&text), err));
    TRY(pd_edit_delete(tx->edit, pd_text(key), PD_ANY_VERSION, err));
    TRY(pd_edit_delete(tx->edit, pd_text(pd_queue_key("flight", tx->agent, job->numbers[i], key)), PD_ANY_VERSION, err));
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
  CLEANUP(walk_done) walk k = {0};
  pd_queue_counts counts = {0};
  TRY(walk_open(tx, &k, err));
  for (; k.ahead.number;) {
    if (is_in_flight(tx, &k.ahead)) counts.in_flight++;
    TRY(next_flight(&k, err));
  }
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
