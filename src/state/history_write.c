/*
 * history_write.c: what the capabilities share that change a history (history.h, W1 to W4).
 *
 * Everything is settled by what differs between the ref as it is and as it would be; the write then names the head that this was found
 * out for, and if others were faster, all of it is done again.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/approval.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/policy.h"
#include "state/quota.h"

#include <stdio.h>

#define LEFT_SETTING "state.history.left" /* "on": a line of history was left, or may be, since */

/* ---- who, why, where ---- */

pd_note pd_history_note(const pd_frame *frame, pd_history_texts *texts)
{
  pd_note note = pd_frame_note(frame);
  if (frame->ctx->is_operator) note.author = "operator";
  for (size_t i = 0; i < frame->capability->field_count; i++)
    if (strcmp(frame->capability->fields[i].name, "reason") == 0 && pd_in_string(frame, "reason", texts->reason, sizeof texts->reason))
      note.reason = texts->reason;
  return note;
}

bool pd_history_is_fork(const char *ref)
{
  return strncmp(ref, PD_FORK_PREFIX, strlen(PD_FORK_PREFIX)) == 0;
}

pd_code pd_history_take_ref(const pd_frame *frame, char out[PD_REF_SIZE_MAX + 1], pd_error *err)
{
  if (!pd_in_string(frame, "ref", out, PD_REF_SIZE_MAX + 1)) snprintf(out, PD_REF_SIZE_MAX + 1, "%s", PD_STATE_REF);
  if (strcmp(out, PD_STATE_REF) == 0 || (pd_history_is_fork(out) && pd_ref_check(out, NULL) == PD_OK)) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidInput",
                        "%s: field 'ref' must be main, or fork/NAME as history.fork makes it, not '%.128s'", frame->capability->name, out);
}

pd_code pd_history_take_head(const pd_frame *frame, const pd_id *head, pd_error *err)
{
  char text[PD_ID_HEX_SIZE], hex[PD_ID_HEX_SIZE];
  pd_id expected;
  if (!pd_in_string(frame, "expected_head", text, sizeof text)) return PD_OK;
  if (!pd_id_parse(text, &expected))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'expected_head' is no commit id: 64 hex digits",
                          frame->capability->name);
  if (pd_id_equal(&expected, head)) return PD_OK;
  return pd_error_named(err, PD_CONFLICT, "HeadMoved", "the ref is at commit %.12s, expected %.12s", pd_id_hex(head, hex), text);
}

/* ---- what was left behind ---- */

pd_code pd_history_leave(pd_store *store, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  pd_note note = {.author = "perdure", .reason = "history"};
  pd_code code = pd_setting_get(store, LEFT_SETTING, &before, err);
  return code == PD_NOT_FOUND ? pd_setting_set(store, LEFT_SETTING, pd_text("on"), &note, err) : code;
}

pd_code pd_history_has_left(pd_store *store, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  pd_code code = pd_setting_get(store, LEFT_SETTING, &before, err);
  *out = code == PD_OK;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* ---- policy, W1 ---- */

static int shown(pd_bytes key)
{
  return (int)(key.size < PD_HISTORY_SHOWN_MAX ? key.size : PD_HISTORY_SHOWN_MAX);
}

pd_code pd_history_may_write(pd_frame *frame, pd_bytes key, bool is_delete, pd_error *err)
{
  const char *like = is_delete ? "state.persistent.delete" : "state.persistent.set";
  pd_verdict verdict;
  pd_policy_ask(frame->home, pd_capability_get(like), pd_text(frame->agent), &key, &verdict);
  if (verdict.permission <= PD_PERMIT_NOTIFY) return PD_OK;
  if (verdict.permission != PD_PERMIT_BLOCKED && frame->ctx->is_operator) return PD_OK;
  if (verdict.permission == PD_PERMIT_APPROVAL && frame->foresees) return PD_OK; /* it is asked for */
  if (verdict.permission == PD_PERMIT_APPROVAL)
    return *frame->approval ? PD_OK : pd_approval_settle(frame, verdict.ttl_ms, verdict.reason, err);
  return pd_error_named(err, PD_DENIED, "PermissionDenied",
                        "%s would change key '%.*s', and policy does not let agent '%s' do that by %s%s%s", frame->capability->name,
                        shown(key), (const char *)key.data, frame->agent, like, *verdict.reason ? ": " : "", verdict.reason);
}

/* ---- what would change ---- */

static bool take_row(void *ctx, const pd_difference *difference)
{
  pd_turn *turn = ctx;
  if (!pd_bytes_starts(difference->key, turn->prefix)) return pd_bytes_compare(difference->key, turn->prefix) < 0;
  turn->is_too_much = turn->rows.count == PD_HISTORY_CHANGES_MAX;
  return !turn->is_too_much && pd_rows_differ(&turn->rows, difference);
}

void pd_turn_done(pd_turn *turn)
{
  pd_rows_done(&turn->rows);
}

pd_code pd_turn_compare(pd_turn *turn, pd_error *err)
{
  char before[PD_ID_HEX_SIZE];
  turn->rows.count = turn->rows.keys.size = 0;
  TRY(pd_diff(turn->store, pd_id_hex(&turn->head.id, before), turn->to.at, take_row, turn, err));
  if (turn->rows.code) return pd_error_memory(err, "a change of history");
  if (!turn->is_too_much) return PD_OK;
  return pd_error_named(err, PD_LIMIT, "LimitExceeded", "%s would change more than %d keys; ask the operator: perdure reset",
                        turn->frame->capability->name, PD_HISTORY_CHANGES_MAX);
}

/* W2 */
static pd_code check_quota(pd_turn *turn, pd_error *err)
{
  uint64_t used, limit = turn->frame->home->config.persistent_quota_bytes, more = 0, less = 0;
  TRY(pd_ref_bytes(turn->store, turn->ref, &used, err));
  for (size_t i = 0; i < turn->rows.count; i++) {
    const pd_row *row = &turn->rows.items[i];
    more += row->has_after ? row->after.size : 0;
    less += row->has_before ? row->before.size : 0;
  }
  if (more <= less) return PD_OK;
  return used + more - less > limit ? pd_history_no_room(turn->frame, used, err) : pd_quota_room_for(turn->frame, more - less, err);
}

pd_code pd_history_no_room(pd_frame *frame, uint64_t used, pd_error *err)
{
  uint64_t limit = frame->home->config.persistent_quota_bytes;
  pd_frame_detail_number(frame, "used", used);
  pd_frame_detail_number(frame, "limit", limit);
  return pd_error_named(err, PD_QUOTA, "QuotaExceeded", "%s: the state of agent '%s' has %llu of %llu bytes, and would then have more",
                        frame->capability->name, frame->agent, (unsigned long long)used, (unsigned long long)limit);
}

/* W3 */
pd_code pd_history_check_value(pd_frame *frame, pd_store *store, const char *at, pd_bytes key, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_error why;
  pd_code code = pd_get(store, at, key, &value, NULL, &why);
  if (code == PD_ERASED)
    return pd_error_named(err, PD_ERASED, "ValueErased", "%s would bring back key '%.*s', whose bytes were erased: %.200s",
                          frame->capability->name, shown(key), (const char *)key.data, why.message);
  if (code && code != PD_NOT_FOUND) *err = why;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_turn_settle(pd_turn *turn, pd_error *err)
{
  pd_frame *frame = turn->frame;
  TRY(pd_turn_compare(turn, err));
  TRY(check_quota(turn, err));
  for (size_t i = 0; i < turn->rows.count; i++) {
    const pd_row *row = &turn->rows.items[i];
    if (row->has_after) TRY(pd_history_check_value(frame, turn->store, turn->to.at, pd_row_key(&turn->rows, row), err));
  }
  for (size_t i = 0; i < turn->rows.count; i++) {
    const pd_row *row = &turn->rows.items[i];
    TRY(pd_history_may_write(frame, pd_row_key(&turn->rows, row), !row->has_after, err));
  }
  TRY(pd_turn_brink(turn, err));
  return pd_history_leave(turn->store, err);
}

pd_code pd_turn_brink(pd_turn *turn, pd_error *err)
{
  pd_fact_id(turn->frame, "expected_head", &turn->head.id);
  pd_fact_text(turn->frame, "to", turn->to.at);
  TRY(pd_brink(turn->frame, err));
  return pd_turn_is_of(turn, err);
}

pd_code pd_turn_is_of(const pd_turn *turn, pd_error *err)
{
  if (turn->input == turn->frame->input) return PD_OK;
  return pd_error_set(err, PD_CONFLICT, "%s was approved meanwhile", turn->frame->capability->name); /* for nobody's eyes */
}

/* ---- one after the other ---- */

pd_code pd_turn_begin(pd_frame *frame, pd_turn *out, pd_error *err)
{
  out->frame = frame;
  TRY(pd_history_take_ref(frame, out->ref, err));
  TRY(pd_history_own(frame, &out->store, err));
  return pd_turn_look(out, err);
}

pd_code pd_turn_look(pd_turn *turn, pd_error *err)
{
  pd_ref ref;
  turn->input = turn->frame->input;
  TRY(pd_ref_get(turn->store, turn->ref, &ref, err));
  turn->head = ref.commit;
  turn->can_redo = ref.can_redo;
  return pd_history_take_head(turn->frame, &turn->head.id, err);
}

bool pd_turn_again(pd_turn *turn, pd_code code)
{
  turn->is_again = code == PD_CONFLICT;
  return turn->is_again;
}
