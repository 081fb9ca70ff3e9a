/* work.c: the rules of items. Invariants R1 to R4 are in work.h. */
#include "state/work.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "leased/leased.h"

#include <stdio.h>

#define LEASE_DAYS_MAX 3650
#define LEASE_MS_MAX ((uint64_t)LEASE_DAYS_MAX * 86400 * 1000)

/* R2: 1 << the statuses that each may become. */
static const unsigned moves[PD_WORK_STATUS_COUNT] = {
  [PD_WORK_PENDING] = 1u << PD_WORK_INVESTIGATING | 1u << PD_WORK_FAILED | 1u << PD_WORK_CANCELLED,
  [PD_WORK_INVESTIGATING] = 1u << PD_WORK_COMPLETED | 1u << PD_WORK_FAILED | 1u << PD_WORK_CANCELLED | 1u << PD_WORK_PENDING,
};

/* ---- arguments ---- */

static pd_code check_id(const char *id, pd_error *err)
{
  if (pd_work_id_check(pd_text(id))) return PD_OK;
  return pd_error_set(err, PD_INVALID, "'%.140s' is no id of a run: 1 to %d of letters, digits, . _ -, but not 'index'", id,
                      PD_WORK_ID_SIZE_MAX);
}

static pd_code check_text(const char *what, const char *text, size_t size_max, pd_error *err)
{
  if (!text) return PD_OK;
  if (strlen(text) > size_max) return pd_error_set(err, PD_LIMIT, "the %s of a work item has at most %zu bytes", what, size_max);
  return pd_utf8_check(pd_text(text)) ? PD_OK : pd_error_set(err, PD_INVALID, "the %s of a work item is no UTF-8", what);
}

static pd_code check_value(pd_bytes value, pd_error *err)
{
  pd_json json;
  pd_json_facts facts;
  if (!value.size) return PD_OK;
  if (value.size > PD_WORK_VALUE_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a work item's value of %zu bytes is over the limit of %zu", value.size, PD_WORK_VALUE_SIZE_MAX);
  TRY(pd_json_parse_facts(value, &json, &facts, err));
  if (facts.depth <= PD_WORK_VALUE_DEPTH_MAX) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "a work item's value may nest at most %d levels deep", PD_WORK_VALUE_DEPTH_MAX);
}

pd_code pd_work_op_check(const pd_work_op *op, pd_error *err)
{
  bool needs_id = op->verb >= PD_WORK_DO_UPDATE && op->verb <= PD_WORK_DO_CANCEL;
  if (needs_id && !op->id) return pd_error_set(err, PD_INVALID, "which work item? It has no id");
  if (op->lease_ms > LEASE_MS_MAX) return pd_error_set(err, PD_LIMIT, "a lease is at most %d days long", LEASE_DAYS_MAX);
  if (op->id) TRY(check_id(op->id, err));
  TRY(check_text("owner", op->owner, PD_WORK_OWNER_SIZE_MAX, err));
  TRY(check_text("title", op->title, PD_WORK_TEXT_SIZE_MAX, err));
  TRY(check_text("reason", op->reason, PD_WORK_TEXT_SIZE_MAX, err));
  return check_value(op->value, err);
}

/* ---- one item ---- */

/* An item and its document. `texts` holds what is put into it. */
typedef struct subject {
  pd_buf json, after, title, reason, value;
  pd_work_item item;
} subject;

static void subject_done(subject *s)
{
  pd_buf_done(&s->json);
  pd_buf_done(&s->after);
  pd_buf_done(&s->title);
  pd_buf_done(&s->reason);
  pd_buf_done(&s->value);
}

static pd_code quote(const char *text, pd_buf *out, pd_bytes *out_bytes, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  if (text) pd_json_text(&w, pd_text(text));
  *out_bytes = pd_buf_bytes(out);
  return w.code;
}

/* The operation's value on one line; empty if it has none. */
static pd_code take_value(const pd_work_op *op, subject *s, pd_bytes *out, pd_error *err)
{
  pd_json json;
  if (!op->value.size) {
    *out = (pd_bytes){NULL, 0};
    return PD_OK;
  }
  pd_json_writer w = {.out = &s->value, .err = err};
  TRY(pd_json_parse(op->value, &json, err));
  pd_json_value(&w, json);
  *out = pd_buf_bytes(&s->value);
  return w.code;
}

static pd_code load(const pd_work_place *place, pd_bytes id, subject *s, pd_error *err)
{
  char key[PD_WORK_KEY_SIZE];
  pd_error why;
  pd_code code = place->get(place->ctx, pd_work_key(id, key), &s->json, &why);
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "RunNotFound", "there is no work item '%.*s'", (int)id.size, (const char *)id.data);
  if (code) {
    if (err) *err = why;
    return code;
  }
  TRY(pd_work_parse(pd_buf_bytes(&s->json), &s->item, err));
  if (pd_bytes_equal(pd_text(s->item.id), id)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the value of key '%s' is the work item '%s'", key, s->item.id);
}

static pd_code stage(const pd_work_place *place, subject *s, pd_work_batch *batch, pd_error *err)
{
  char key[PD_WORK_KEY_SIZE];
  s->item.updated_ms = place->now_ms;
  pd_buf_clear(&s->after);
  TRY(pd_work_write(pd_buf_bytes(&s->json), &s->item, &s->after, err));
  return pd_work_batch_add(batch, pd_work_key(pd_text(s->item.id), key), pd_buf_bytes(&s->after), err);
}

static pd_code answer(const pd_work_op *op, pd_bytes json, pd_error *err)
{
  if (!op->out) return PD_OK;
  pd_buf_clear(op->out);
  return pd_buf_append(op->out, json.data, json.size, err);
}

/* ---- create ---- */

static pd_code check_new(const pd_work_place *place, uint64_t count, const char *id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf old = {0};
  char key[PD_WORK_KEY_SIZE];
  pd_error why;
  if (count >= PD_WORK_COUNT_MAX)
    return pd_error_named(err, PD_QUOTA, "RunsFull", "there are %llu work items, the limit is %d", (unsigned long long)count,
                          PD_WORK_COUNT_MAX);
  pd_code code = place->get(place->ctx, pd_work_key(pd_text(id), key), &old, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (!code) return pd_error_named(err, PD_EXISTS, "RunExists", "there is a work item '%s' already", id);
  if (err) *err = why;
  return code;
}

static pd_code do_create(const pd_work_place *place, pd_work_op *op, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(subject_done) subject s = {.item = {.status = PD_WORK_PENDING, .attempts_max = op->attempts_max, .created_ms = place->now_ms}};
  CLEANUP(pd_work_tally_done) pd_work_tally tally = {0};
  char made[37];
  TRY(pd_work_uuid(made, err));
  snprintf(s.item.id, sizeof s.item.id, "%s", op->id ? op->id : made);
  TRY(pd_work_tally_read(place, &tally, err));
  TRY(check_new(place, tally.count, s.item.id, err));
  TRY(quote(op->title, &s.title, &s.item.title, err));
  TRY(take_value(op, &s, &s.item.input, err));
  TRY(stage(place, &s, batch, err));
  TRY(pd_work_tally_add(place, &tally, s.item.id, batch, err));
  return answer(op, pd_buf_bytes(&s.after), err);
}

/* ---- claim ---- */

/* One without a time is held until it is given back, or its owner resumes. */
static bool is_offered(const pd_work_place *place, const pd_work_item *item)
{
  pd_leased_look look = {place->now_ms, (int64_t)LEASE_MS_MAX, INT64_MAX};
  if (item->status != PD_WORK_INVESTIGATING || !item->lease_until_ms) return item->status == PD_WORK_PENDING;
  return pd_leased_is_free(&look, item->lease_until_ms, item->claimed_ms);
}

static bool is_exhausted(const pd_work_item *item)
{
  return item->attempts_max && item->attempts >= item->attempts_max;
}

static pd_code stage_exhausted(const pd_work_place *place, subject *s, pd_work_batch *batch, pd_error *err)
{
  pd_buf_clear(&s->value);
  TRY(pd_buf_printf(&s->value, err, "{\"message\":\"claimed %llu times, and never finished\"}", (unsigned long long)s->item.attempts));
  s->item.status = PD_WORK_FAILED;
  s->item.error = pd_buf_bytes(&s->value);
  s->item.finished_ms = place->now_ms;
  s->item.lease_until_ms = 0;
  return stage(place, s, batch, err);
}

static pd_code stage_claim(const pd_work_place *place, const pd_work_op *op, subject *s, pd_work_batch *batch, pd_error *err)
{
  pd_work_item *item = &s->item;
  TRY(pd_work_uuid(item->token, err));
  snprintf(item->owner, sizeof item->owner, "%s", op->owner ? op->owner : "");
  item->status = PD_WORK_INVESTIGATING;
  item->attempts++;
  item->claimed_ms = place->now_ms;
  item->lease_until_ms = op->lease_ms ? place->now_ms + (int64_t)op->lease_ms : 0;
  item->reason = (pd_bytes){NULL, 0};
  TRY(stage(place, s, batch, err));
  return answer(op, pd_buf_bytes(&s->after), err);
}

static pd_code not_held(const pd_work_item *item, pd_error *err)
{
  char time[PD_TIME_TEXT_SIZE];
  return pd_error_named(err, PD_CONFLICT, "RunNotHeld", "work item '%s' is held by '%s' since %s, under another token", item->id,
                        item->owner, pd_time_text(item->claimed_ms, time));
}

static pd_code no_move(const pd_work_item *item, const char *to, pd_error *err)
{
  return pd_error_named(err, PD_CONFLICT, "RunStatusConflict", "work item '%s' is %s: it cannot become %s", item->id,
                        pd_work_status_name(item->status), to);
}

static pd_code claim_this(const pd_work_place *place, const pd_work_op *op, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(subject_done) subject s = {0};
  TRY(load(place, pd_text(op->id), &s, err));
  if (!is_offered(place, &s.item)) return pd_work_is_over(s.item.status) ? no_move(&s.item, "investigating", err) : not_held(&s.item, err);
  if (!is_exhausted(&s.item)) return stage_claim(place, op, &s, batch, err);
  TRY(stage_exhausted(place, &s, batch, err));
  TRY(place->write(place->ctx, batch->changes, batch->count, err));
  return no_move(&s.item, "investigating", err);
}

static pd_code claim_oldest(const pd_work_place *place, const pd_work_op *op, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(pd_work_index_done) pd_work_index index = {0};
  TRY(pd_work_index_read(place, &index, err));
  for (size_t i = 0; i < index.count; i++) {
    CLEANUP(subject_done) subject s = {0};
    pd_error why;
    pd_code code = load(place, index.ids[i], &s, &why);
    if (code == PD_NOT_FOUND || code == PD_CORRUPT) continue; /* one bad document must not stop all work; list and get tell of it */
    if (code) return pd_error_set(err, code, "%s", why.message);
    if (!is_offered(place, &s.item)) continue;
    if (!is_exhausted(&s.item)) return stage_claim(place, op, &s, batch, err);
    TRY(stage_exhausted(place, &s, batch, err));
  }
  if (batch->count) TRY(place->write(place->ctx, batch->changes, batch->count, err));
  return pd_error_named(err, PD_NOT_FOUND, "NoRunWaits", "no work item waits to be claimed");
}

/* ---- moves ---- */

static void let_go(pd_work_item *item)
{
  item->status = PD_WORK_PENDING;
  item->owner[0] = item->token[0] = 0;
  item->claimed_ms = item->lease_until_ms = 0;
}

typedef struct move {
  pd_work_status to;
  bool needs_token;
} move;

static move move_of(pd_work_verb verb)
{
  switch (verb) {
  case PD_WORK_DO_GIVE_BACK: return (move){PD_WORK_PENDING, true};
  case PD_WORK_DO_COMPLETE: return (move){PD_WORK_COMPLETED, true};
  case PD_WORK_DO_FAIL: return (move){PD_WORK_FAILED, true};
  case PD_WORK_DO_CANCEL: return (move){PD_WORK_CANCELLED, false};
  default: return (move){PD_WORK_INVESTIGATING, true};
  }
}

static bool has_token(const pd_work_op *op, const pd_work_item *item)
{
  return op->token && strcmp(op->token, item->token) == 0;
}

/* The same end, once more, by the same hand: a retry of a call whose answer was lost. */
static bool is_again(const pd_work_op *op, const pd_work_item *item, move m, pd_bytes value)
{
  if (item->status != m.to || !pd_work_is_over(m.to)) return false;
  if (m.to == PD_WORK_CANCELLED) return true;
  return has_token(op, item) && pd_bytes_equal(value, m.to == PD_WORK_COMPLETED ? item->result : item->error);
}

static pd_code check_move(const pd_work_op *op, const pd_work_item *item, move m, pd_error *err)
{
  bool is_update = op->verb == PD_WORK_DO_UPDATE;
  if (is_update && item->status != PD_WORK_INVESTIGATING)
    return pd_error_named(err, PD_CONFLICT, "RunStatusConflict", "work item '%s' is %s: only one that is investigating is updated",
                          item->id, pd_work_status_name(item->status));
  if (!is_update && !(moves[item->status] >> m.to & 1)) return no_move(item, pd_work_status_name(m.to), err);
  return m.needs_token && item->status == PD_WORK_INVESTIGATING && !has_token(op, item) ? not_held(item, err) : PD_OK;
}

static pd_code change(const pd_work_place *place, const pd_work_op *op, subject *s, pd_work_status to, pd_bytes value, pd_error *err)
{
  pd_work_item *item = &s->item;
  switch (op->verb) {
  case PD_WORK_DO_UPDATE:
    if (value.size) item->progress = value;
    item->lease_until_ms = op->lease_ms ? place->now_ms + (int64_t)op->lease_ms : 0;
    return PD_OK;
  case PD_WORK_DO_GIVE_BACK: let_go(item); break;
  case PD_WORK_DO_COMPLETE: item->result = value; break;
  case PD_WORK_DO_FAIL: item->error = value; break;
  default: break;
  }
  item->status = to;
  if (pd_work_is_over(to)) item->finished_ms = place->now_ms, item->lease_until_ms = 0;
  return quote(op->reason, &s->reason, &item->reason, err);
}

static pd_code do_move(const pd_work_place *place, pd_work_op *op, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(subject_done) subject s = {0};
  move m = move_of(op->verb);
  pd_bytes value;
  TRY(load(place, pd_text(op->id), &s, err));
  TRY(take_value(op, &s, &value, err));
  if (is_again(op, &s.item, m, value)) return answer(op, pd_buf_bytes(&s.json), err);
  TRY(check_move(op, &s.item, m, err));
  TRY(change(place, op, &s, m.to, value, err));
  TRY(stage(place, &s, batch, err));
  bool is_due = false;
  if (pd_work_is_over(m.to)) TRY(pd_work_prune_is_due(place, s.item.id, batch, &is_due, err));
  if (is_due) {
    pd_work_op sweep = {.verb = PD_WORK_DO_PRUNE, .prune = {.keep_count = place->keep_count, .keep_ms = place->keep_ms}};
    TRY(pd_work_stage_prune(place, &sweep, s.item.id, batch, err));
  }
  return answer(op, pd_buf_bytes(&s.after), err);
}

static pd_code do_resume(const pd_work_place *place, pd_work_op *op, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(pd_work_index_done) pd_work_index index = {0};
  TRY(pd_work_index_read(place, &index, err));
  op->count = 0;
  for (size_t i = 0; i < index.count; i++) {
    CLEANUP(subject_done) subject s = {0};
    pd_error why;
    pd_code code = load(place, index.ids[i], &s, &why);
    if (code == PD_NOT_FOUND || code == PD_CORRUPT) continue;
    if (code) return pd_error_set(err, code, "%s", why.message);
    bool is_ours = !*s.item.owner || (op->owner && strcmp(op->owner, s.item.owner) == 0); /* other programs know no owners */
    if (s.item.status != PD_WORK_INVESTIGATING || !is_ours) continue;
    let_go(&s.item);
    TRY(stage(place, &s, batch, err));
    op->count++;
  }
  return PD_OK;
}

/* ---- the way in ---- */

static pd_code do_staged(const pd_work_place *place, pd_work_op *op, pd_work_batch *batch, pd_error *err)
{
  switch (op->verb) {
  case PD_WORK_DO_CREATE: return do_create(place, op, batch, err);
  case PD_WORK_DO_CLAIM: return op->id ? claim_this(place, op, batch, err) : claim_oldest(place, op, batch, err);
  case PD_WORK_DO_RESUME: return do_resume(place, op, batch, err);
  case PD_WORK_DO_PRUNE: return pd_work_stage_prune(place, op, NULL, batch, err);
  default: return do_move(place, op, batch, err);
  }
}

pd_code pd_work_op_do(const pd_work_place *place, pd_work_op *op, pd_error *err)
{
  CLEANUP(pd_work_batch_done) pd_work_batch batch = {0};
  TRY(do_staged(place, op, &batch, err));
  return batch.count ? place->write(place->ctx, batch.changes, batch.count, err) : PD_OK;
}

/* ---- reading ---- */

pd_code pd_work_read(const pd_work_place *place, const char *id, pd_buf *out, pd_error *err)
{
  CLEANUP(subject_done) subject s = {0};
  TRY(check_id(id, err));
  TRY(load(place, pd_text(id), &s, err));
  pd_work_op op = {.out = out};
  return answer(&op, pd_buf_bytes(&s.json), err);
}

pd_code pd_work_each(const pd_work_place *place, const pd_work_query *query, pd_work_visit visit, void *ctx, uint64_t *out_unreadable,
                     pd_error *err)
{
  CLEANUP(pd_work_index_done) pd_work_index index = {0};
  CLEANUP(subject_done) subject s = {0};
  pd_work_query all = {0};
  uint64_t unreadable = 0, count = 0;
  if (!query) query = &all;
  TRY(pd_work_index_read(place, &index, err));
  for (size_t i = 0; i < index.count && (!query->limit || count < query->limit); i++) {
    pd_error why;
    pd_code code = load(place, index.ids[query->newest_first ? index.count - 1 - i : i], &s, &why);
    if (code == PD_NOT_FOUND) continue; /* it was pruned meanwhile */
    unreadable += code == PD_CORRUPT;
    if (code == PD_CORRUPT) continue;
    if (code) return pd_error_set(err, code, "%s", why.message);
    if (query->statuses && !(query->statuses >> s.item.status & 1)) continue;
    count++;
    if (!visit(ctx, &s.item, pd_buf_bytes(&s.json))) break;
  }
  if (out_unreadable) *out_unreadable = unreadable;
  return PD_OK;
}
