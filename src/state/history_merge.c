/*
 * history_merge.c: history.merge, cherry_pick, revert: what another line of history did, or one commit, done to a ref or taken back.
 *
 * First as a dry run, whose changes are settled by W1 to W3 of history.h; then for good, on condition that the ref is still where it was.
 * A merge into a ref that has nothing of its own moves the ref, as `perdure merge` does, and is settled like a reset; everything else is a
 * commit. Conflicts are an answer, no error.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdlib.h>

typedef pd_code (*merge_call)(pd_store *store, const char *at, const pd_merge_options *options, const pd_note *note, pd_merge_result *out,
                              pd_error *err);

typedef struct merging {
  pd_turn turn; /* ref, head, and in `to` what is merged */
  merge_call call;
  pd_merge_options options;
  pd_note note;
  pd_history_texts texts;
  pd_resolution *resolutions;
  size_t (*places)[3]; /* of key, path and value of each in `bytes` */
  size_t count, capacity, place_capacity;
  pd_buf bytes;
  pd_merge_result result;
  pd_ack ack;
} merging;

static void merging_done(merging *m)
{
  pd_turn_done(&m->turn);
  pd_merge_result_done(&m->result);
  pd_buf_done(&m->bytes);
  free(m->resolutions);
  free(m->places);
}

/* ---- resolutions ---- */

static pd_code bad_resolution(const merging *m, pd_error *err, const char *what)
{
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'resolutions', item %zu: %s", m->turn.frame->capability->name, m->count,
                        what);
}

static bool take_take(pd_json value, pd_take *out)
{
  static const char *const names[] = {
    [PD_TAKE_VALUE] = "value", [PD_TAKE_DELETE] = "delete", [PD_TAKE_BASE] = "base", [PD_TAKE_OURS] = "ours", [PD_TAKE_THEIRS] = "theirs"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    if (!pd_json_is(value, names[i])) continue;
    *out = (pd_take)i;
    return true;
  }
  return false;
}

static pd_code take_resolution(merging *m, pd_json item, pd_error *err)
{
  pd_json_field fields[] = {{"key", {{0}, 0}}, {"path", {{0}, 0}}, {"take", {{0}, 0}}, {"value", {{0}, 0}}};
  pd_error why = {0};
  pd_resolution made = {0};
  if (pd_json_fields(item, fields, COUNT_OF(fields), &why)) return bad_resolution(m, err, why.message);
  pd_json value = fields[3].value;
  TRY(pd_array_grow(&m->resolutions, m->count, &m->capacity, sizeof *m->resolutions, "resolutions", err));
  TRY(pd_array_grow(&m->places, m->count, &m->place_capacity, sizeof *m->places, "resolutions", err));
  size_t *places = m->places[m->count];
  places[0] = m->bytes.size;
  if (pd_json_decode(fields[0].value, &m->bytes, NULL)) return bad_resolution(m, err, "'key' must be a text");
  places[1] = m->bytes.size;
  if (fields[1].value.kind != PD_JSON_NONE && pd_json_decode(fields[1].value, &m->bytes, NULL))
    return bad_resolution(m, err, "'path' must be a text");
  places[2] = m->bytes.size;
  if (!take_take(fields[2].value, &made.take)) return bad_resolution(m, err, "'take' must be one of: value delete base ours theirs");
  if ((made.take == PD_TAKE_VALUE) != (value.kind != PD_JSON_NONE)) return bad_resolution(m, err, "'value' goes with \"take\":\"value\"");
  pd_json_writer w = {.out = &m->bytes, .err = err};
  if (value.kind != PD_JSON_NONE) pd_json_value(&w, value);
  TRY(w.code);
  made.key.size = places[1] - places[0];
  made.path.size = places[2] - places[1];
  made.value.size = m->bytes.size - places[2];
  m->resolutions[m->count++] = made;
  return PD_OK;
}

static pd_code take_resolutions(merging *m, pd_error *err)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(pd_in(m->turn.frame, "resolutions"));
  while (pd_json_walk_next(&walk, NULL, &item)) TRY(take_resolution(m, item, err));
  for (size_t i = 0; i < m->count; i++) { /* the bytes do not move any more */
    m->resolutions[i].key.data = m->bytes.data + m->places[i][0];
    m->resolutions[i].path.data = m->bytes.data + m->places[i][1];
    m->resolutions[i].value.data = m->bytes.data + m->places[i][2];
  }
  m->options.resolutions = m->resolutions;
  m->options.resolution_count = m->count;
  return PD_OK;
}

static pd_code take_options(merging *m, pd_error *err)
{
  pd_frame *frame = m->turn.frame;
  char policy[16] = "fail";
  (void)!pd_in_string(frame, "policy", policy, sizeof policy);
  TRY(pd_merge_rule_parse(policy, &m->options.policy, err));
  m->note = pd_history_note(frame, &m->texts);
  m->note.ref = m->turn.ref;
  m->note.bytes_max = frame->home->config.persistent_quota_bytes;
  return take_resolutions(m, err);
}

/* ---- answers ---- */

static void put_side(pd_frame *frame, const char *name, bool has, pd_bytes value)
{
  if (!has) return;
  pd_json_key(&frame->out, name);
  pd_out_stored(&frame->out, value);
}

static void put_conflict(pd_frame *frame, const pd_conflict *conflict)
{
  pd_error why;
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", conflict->key);
  if (conflict->path.size) pd_json_put_bytes(&frame->out, "path", conflict->path);
  pd_json_put_text(&frame->out, "rule", pd_merge_rule_name(conflict->rule));
  pd_json_put_text(&frame->out, "why", conflict->why);
  if (pd_history_may_read(frame, &conflict->key, &why) == PD_OK) {
    put_side(frame, "base", conflict->has_base, conflict->base);
    put_side(frame, "ours", conflict->has_ours, conflict->ours);
    put_side(frame, "theirs", conflict->has_theirs, conflict->theirs);
  }
  pd_json_close(&frame->out, '}');
}

static void put_change(pd_frame *frame, const pd_merge_change *change)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", change->key);
  pd_json_put_text(&frame->out, "change", change->is_delete ? "deleted" : change->is_new ? "added" : "changed");
  if (!change->is_delete) pd_json_put_number(&frame->out, "size", change->size);
  if (change->is_both) pd_json_put_text(&frame->out, "rule", pd_merge_rule_name(change->rule));
  if (change->is_resolved) pd_json_put_bool(&frame->out, "resolved", true);
  pd_json_close(&frame->out, '}');
}

static void put_lists(pd_frame *frame, const pd_merge_result *r)
{
  uint64_t limit = (uint64_t)pd_in_int(frame, "limit", 100);
  pd_json_put_number(&frame->out, "change_count", r->change_count);
  pd_json_key(&frame->out, "changes");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < r->change_count && i < limit; i++) put_change(frame, &r->changes[i]);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "conflict_count", r->conflict_total);
  pd_json_key(&frame->out, "conflicts");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < r->conflict_count && i < limit && !(i && pd_out_is_long(frame)); i++) put_conflict(frame, &r->conflicts[i]);
  pd_json_close(&frame->out, ']');
}

static pd_code answer(merging *m, bool is_written)
{
  pd_frame *frame = m->turn.frame;
  const pd_merge_result *r = &m->result;
  pd_json_put_text(&frame->out, "outcome", pd_merge_outcome_name(r->outcome));
  pd_json_put_text(&frame->out, "ref", m->turn.ref);
  if (is_written) {
    pd_out_commit(frame, &m->ack.commit);
  } else {
    pd_json_key(&frame->out, "commit");
    pd_json_null(&frame->out);
  }
  pd_out_id(frame, "previous", &r->ours.id);
  pd_out_id(frame, "base", &r->base.id);
  pd_out_id(frame, "theirs", &r->theirs.id);
  put_lists(frame, r);
  return frame->out.code;
}

/* ---- one try ---- */

static pd_code settle(merging *m, pd_error *err)
{
  pd_frame *frame = m->turn.frame;
  const pd_merge_result *r = &m->result;
  char theirs[PD_ID_HEX_SIZE];
  pd_id_hex(&r->theirs.id, theirs);
  if (r->change_count > PD_HISTORY_CHANGES_MAX)
    return pd_error_named(err, PD_LIMIT, "LimitExceeded", "%s would change more than %d keys; ask the operator: perdure merge",
                          frame->capability->name, PD_HISTORY_CHANGES_MAX);
  for (size_t i = 0; i < r->change_count; i++)
    if (!r->changes[i].is_delete) TRY(pd_history_check_value(frame, m->turn.store, theirs, r->changes[i].key, err));
  for (size_t i = 0; i < r->change_count; i++) TRY(pd_history_may_write(frame, r->changes[i].key, r->changes[i].is_delete, err));
  TRY(pd_brink(frame, err));
  TRY(pd_turn_is_of(&m->turn, err));
  return pd_history_leave(m->turn.store, err);
}

/* What is merged, and also what it is merged into if conflicts would be decided without anybody seeing them. */
static pd_code find_point(merging *m, const char *field, pd_error *err)
{
  pd_frame *frame = m->turn.frame;
  TRY(pd_history_point(frame, m->turn.store, field, NULL, &m->turn.to, err));
  pd_fact_text(frame, field, m->turn.to.at);
  if (m->options.policy != PD_MERGE_FAIL || m->count) pd_fact_id(frame, "expected_head", &m->turn.head.id);
  return PD_OK;
}

/* As a dry run, or for good. PD_CONFLICT only if the ref was moved by others: conflicts are in the result. */
static pd_code run_call(merging *m, bool is_dry, pd_error *err)
{
  m->options.is_dry_run = is_dry;
  m->note.expect_head = &m->turn.head.id;
  pd_merge_result_done(&m->result);
  pd_code code = m->call(m->turn.store, m->turn.to.at, &m->options, &m->note, &m->result, err);
  if (code == PD_CONFLICT && m->result.conflict_total) return PD_OK;
  if (code == PD_QUOTA) return pd_history_no_room(m->turn.frame, err->actual, err);
  return code;
}

/* The ref has nothing of its own: move it. What changes was found out by the dry run, and stays the answer. */
static pd_code move_forward(merging *m, pd_error *err)
{
  CLEANUP(pd_merge_result_done) pd_merge_result moved = {0};
  TRY(pd_turn_settle(&m->turn, err));
  m->options.is_dry_run = false;
  TRY(m->call(m->turn.store, m->turn.to.at, &m->options, &m->note, &moved, err));
  m->ack = moved.ack;
  return PD_OK;
}

/* *out_written: the ref has another commit now. */
static pd_code try_once(merging *m, bool *out_written, pd_error *err)
{
  *out_written = false;
  TRY(run_call(m, true, err));
  if (pd_in_bool(m->turn.frame, "preview", false)) return PD_OK;
  if (m->result.outcome == PD_MERGE_FAST_FORWARD) {
    TRY(move_forward(m, err));
    *out_written = true;
    return PD_OK;
  }
  if (m->result.outcome != PD_MERGE_COMMITTED) return PD_OK;
  TRY(settle(m, err));
  TRY(run_call(m, false, err));
  m->ack = m->result.ack;
  *out_written = m->result.outcome == PD_MERGE_COMMITTED;
  return PD_OK;
}

static pd_code merge_by(pd_frame *frame, const char *field, merge_call call, pd_error *err)
{
  CLEANUP(merging_done) merging m = {.call = call};
  bool is_written;
  pd_code code;
  TRY(pd_turn_begin(frame, &m.turn, err));
  TRY(take_options(&m, err));
  TRY(find_point(&m, field, err));
  if (call != pd_revert) TRY(pd_quota_room(frame, false, err)); /* what takes back may go on */
  if (call != pd_merge) m.options.parent_number = (uint32_t)pd_in_int(frame, "parent", 0);
  if (call == pd_merge) m.options.no_fast_forward = !pd_in_bool(frame, "fast_forward", true);
  do {
    if (m.turn.is_again) TRY(pd_turn_look(&m.turn, err));
    if (m.turn.is_again) TRY(find_point(&m, field, err));
    code = try_once(&m, &is_written, err);
  } while (pd_turn_again(&m.turn, code));
  TRY(code);
  return answer(&m, is_written);
}

pd_code pd_cap_history_merge(pd_frame *frame, pd_error *err)
{
  return merge_by(frame, "from", pd_merge, err);
}

pd_code pd_cap_history_cherry_pick(pd_frame *frame, pd_error *err)
{
  return merge_by(frame, "at", pd_cherry_pick, err);
}

pd_code pd_cap_history_revert(pd_frame *frame, pd_error *err)
{
  return merge_by(frame, "at", pd_revert, err);
}
