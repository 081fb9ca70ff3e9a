/*
 * erase_times.c: of which times an entry of the ledger speaks (erase_ledger.c, Y1 to Y6). No I/O but the record that put the clock right.
 *
 *   {"at_ms":T}                        commits that were made up to T
 *   {"at_ms":T,"ahead":[F,U,…]}        and those made from F to U: erased commits have such times, though T may turn out to be earlier
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/erase.h"

static int64_t day_before(int64_t ms)
{
  return ms > PD_JUMP_MS ? ms - PD_JUMP_MS : 0;
}

static int64_t day_after(int64_t ms)
{
  return ms < INT64_MAX - PD_JUMP_MS ? ms + PD_JUMP_MS : INT64_MAX;
}

void pd_erase_ledger_add_span(pd_erase_ledger_times *t, int64_t from_ms, int64_t to_ms)
{
  size_t i = 0;
  while (i < t->count && (from_ms > day_after(t->ahead[i].to_ms) || to_ms < day_before(t->ahead[i].from_ms))) i++;
  if (i == t->count && i < PD_ERASE_LEDGER_SPANS) t->ahead[t->count++] = (pd_erase_ledger_span){from_ms, to_ms};
  if (i == PD_ERASE_LEDGER_SPANS) i--; /* clocks were wrong in many ways: rather too much than too little */
  if (from_ms < t->ahead[i].from_ms) t->ahead[i].from_ms = from_ms;
  if (to_ms > t->ahead[i].to_ms) t->ahead[i].to_ms = to_ms;
}

static bool take_spans(pd_json list, pd_erase_ledger_times *out)
{
  pd_json item;
  int64_t from_ms, to_ms;
  if (list.kind != PD_JSON_ARRAY) return list.kind == PD_JSON_NONE;
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);) {
    if (!pd_json_i64(item, &from_ms) || !pd_json_walk_next(&walk, NULL, &item) || !pd_json_i64(item, &to_ms)) return false;
    if (from_ms < 0 || to_ms < from_ms) return false;
    pd_erase_ledger_add_span(out, from_ms, to_ms);
  }
  return true;
}

bool pd_erase_ledger_parse(pd_bytes value, pd_erase_ledger_times *out)
{
  pd_json json;
  pd_erase_ledger_times t = {0};
  if (pd_json_parse(value, &json, NULL) || !pd_json_i64(pd_json_member(json, "at_ms"), &t.at_ms)) return false;
  if (!take_spans(pd_json_member(json, "ahead"), &t)) t.count = 0; /* the time holds all the same */
  *out = t;
  return true;
}

pd_code pd_erase_ledger_print(const pd_erase_ledger_times *t, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_printf(out, err, "{\"at_ms\":%lld", (long long)t->at_ms));
  for (size_t i = 0; i < t->count; i++)
    TRY(pd_buf_printf(out, err, "%s%lld,%lld%s", i ? "," : ",\"ahead\":[", (long long)t->ahead[i].from_ms, (long long)t->ahead[i].to_ms,
                      i + 1 == t->count ? "]" : ""));
  return pd_buf_byte(out, '}', err);
}

void pd_erase_ledger_join(pd_erase_ledger_times *t, const pd_erase_ledger_times *other)
{
  if (other->at_ms > t->at_ms) t->at_ms = other->at_ms;
  for (size_t i = 0; i < other->count; i++) pd_erase_ledger_add_span(t, other->ahead[i].from_ms, other->ahead[i].to_ms);
}

/* Y6. INT64_MAX: nothing says that the times up to record `seq` were wrong. */
static pd_code put_right_ms(pd_store *s, uint64_t seq, int64_t *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_error why;
  int64_t next_ms = pd_time_next(s);
  *out = INT64_MAX;
  if (next_ms < s->tip_time_ms) { /* the next record will be the one */
    *out = next_ms;
    return PD_OK;
  }
  if (s->back_seq <= seq) return PD_OK;
  if (s->back_seq > s->log_seq) { /* it is staged */
    *out = s->tip_time_ms;
    return PD_OK;
  }
  pd_code code = pd_record_at(s, s->back_seq, &scratch, &rec, &why);
  if (code == PD_RETIRED) return PD_OK; /* by a gc, which has written down what it means for the ledger */
  if (code && err) *err = why;
  if (!code) *out = rec.time_ms;
  return code;
}

pd_code pd_erase_ledger_settle(pd_store *s, uint64_t seq, pd_erase_ledger_times *t, pd_error *err)
{
  int64_t right_ms;
  TRY(put_right_ms(s, seq, &right_ms, err));
  if (right_ms > t->at_ms) return PD_OK;
  pd_erase_ledger_add_span(t, day_before(t->at_ms), t->at_ms);
  t->at_ms = right_ms - 1;
  return PD_OK;
}

bool pd_erase_ledger_has_value(const pd_erase_ledger_times *t, int64_t made_ms)
{
  bool has = made_ms <= t->at_ms;
  for (size_t i = 0; i < t->count; i++) has |= made_ms >= t->ahead[i].from_ms && made_ms <= t->ahead[i].to_ms;
  return has;
}

bool pd_erase_ledger_has_key(const pd_erase_ledger_times *t, int64_t made_ms)
{
  bool has = made_ms < t->at_ms;
  for (size_t i = 0; i < t->count; i++) has |= made_ms >= day_before(t->ahead[i].from_ms) && made_ms < t->ahead[i].to_ms;
  return has;
}

/* A whole key's entry covers all that a value's does. */
bool pd_erase_ledger_is_within(const pd_erase_ledger_times *value, const pd_erase_ledger_times *key)
{
  bool is_within = value->at_ms < key->at_ms;
  for (size_t i = 0; is_within && i < value->count; i++) {
    const pd_erase_ledger_span *v = &value->ahead[i];
    is_within = v->to_ms < key->at_ms;
    for (size_t k = 0; k < key->count && !is_within; k++)
      is_within = v->from_ms >= day_before(key->ahead[k].from_ms) && v->to_ms < key->ahead[k].to_ms;
  }
  return is_within;
}
