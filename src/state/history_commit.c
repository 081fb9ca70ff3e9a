/* history_commit.c: history.commit and rollback: many keys in one commit, on main or a fork. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdio.h>

#define SKIPPED_SHOWN 100

static void edit_abort(pd_edit **edit)
{
  pd_edit_abort(*edit);
}

/* Frees the edit, whatever comes of it. */
static pd_code finish(pd_frame *frame, pd_edit **edit, pd_ack *out, pd_error *err)
{
  pd_code code = pd_edit_commit(*edit, out, err);
  if (code == PD_OK) *edit = NULL;
  if (code == PD_QUOTA) return pd_history_no_room(frame, err->actual, err);
  return code;
}

static void put_ack(pd_frame *frame, const char *ref, const pd_ack *ack, uint64_t changed)
{
  pd_json_put_text(&frame->out, "ref", ref);
  pd_out_commit(frame, &ack->commit);
  pd_json_put_number(&frame->out, "changed", changed);
  pd_json_put_text(&frame->out, "durability", ack->durability == PD_BUFFERED ? "buffered" : "synced");
}

/* ---- commit ---- */

static pd_code bad_change(const pd_frame *frame, size_t index, pd_error *err, const char *what)
{
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'changes', item %zu: %s", frame->capability->name, index, what);
}

static bool has_control(pd_bytes text)
{
  const uint8_t *at = text.data;
  for (size_t i = 0; i < text.size; i++)
    if (at[i] < 0x20 || at[i] == 0x7f) return true;
  return false;
}

typedef struct change_in {
  pd_buf key, value;
  bool is_delete;
  uint64_t expect_version;
} change_in;

static void change_done(change_in *change)
{
  pd_buf_done(&change->key);
  pd_buf_done(&change->value);
}

static pd_code take_change(pd_frame *frame, pd_json item, size_t index, change_in *out, pd_error *err)
{
  pd_json_field fields[] = {{"key", {{0}, 0}}, {"value", {{0}, 0}}, {"delete", {{0}, 0}}, {"expected_version", {{0}, 0}}};
  pd_error why = {0};
  out->expect_version = PD_ANY_VERSION;
  if (pd_json_fields(item, fields, COUNT_OF(fields), &why)) return bad_change(frame, index, err, why.message);
  pd_json key = fields[0].value, value = fields[1].value, deletes = fields[2].value, expected = fields[3].value;
  if (pd_json_decode(key, &out->key, &why)) return bad_change(frame, index, err, "'key' must be a text");
  if (pd_key_check(pd_buf_bytes(&out->key), &why)) return bad_change(frame, index, err, why.message);
  if (has_control(pd_buf_bytes(&out->key))) return bad_change(frame, index, err, "the key has a control character");
  if (deletes.kind != PD_JSON_NONE && deletes.kind != PD_JSON_BOOL) return bad_change(frame, index, err, "'delete' must be true or false");
  out->is_delete = deletes.kind == PD_JSON_BOOL && pd_json_true(deletes);
  if (out->is_delete == (value.kind != PD_JSON_NONE)) return bad_change(frame, index, err, "give 'value', or 'delete' as true");
  if (expected.kind != PD_JSON_NONE && !pd_json_u64(expected, &out->expect_version))
    return bad_change(frame, index, err, "'expected_version' must be a version: 0 or more");
  pd_json_writer w = {.out = &out->value, .err = err};
  if (!out->is_delete) pd_json_value(&w, value);
  return w.code;
}

static pd_code stage_change(pd_frame *frame, pd_edit *edit, pd_json item, size_t index, pd_error *err)
{
  CLEANUP(change_done) change_in change = {0};
  pd_error why;
  pd_entry entry;
  TRY(take_change(frame, item, index, &change, err));
  pd_bytes key = pd_buf_bytes(&change.key);
  pd_code code = pd_edit_get(edit, key, NULL, &entry, &why);
  if (code == PD_OK && !entry.seq) return bad_change(frame, index, err, "the key is there twice");
  if (code && code != PD_NOT_FOUND) *err = why;
  if (code && code != PD_NOT_FOUND) return code;
  TRY(pd_history_may_write(frame, key, change.is_delete, err));
  if (change.is_delete) return pd_edit_delete(edit, key, change.expect_version, err);
  return pd_edit_put(edit, key, pd_buf_bytes(&change.value), change.expect_version, err);
}

static pd_code stage_changes(pd_frame *frame, pd_edit *edit, uint64_t *out_count, pd_error *err)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "changes"));
  for (*out_count = 0; pd_json_walk_next(&walk, NULL, &item); ++*out_count) TRY(stage_change(frame, edit, item, *out_count, err));
  return PD_OK;
}

static bool has_delete(const pd_frame *frame)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "changes"));
  while (pd_json_walk_next(&walk, NULL, &item))
    if (pd_json_member(item, "delete").kind == PD_JSON_BOOL) return true;
  return false;
}

pd_code pd_cap_history_commit(pd_frame *frame, pd_error *err)
{
  CLEANUP(edit_abort) pd_edit *edit = NULL;
  char ref[PD_REF_SIZE_MAX + 1], text[PD_ID_HEX_SIZE];
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  pd_store *store;
  pd_id expected;
  pd_ack ack;
  pd_ref is;
  uint64_t count;
  TRY(pd_history_take_ref(frame, ref, err));
  if (!*frame->agent) return pd_history_own(frame, &store, err);
  TRY(pd_frame_own(frame, true, &store, err));
  TRY(pd_quota_room(frame, has_delete(frame), err));
  TRY(pd_ref_get(store, ref, &is, err));
  TRY(pd_history_take_head(frame, &is.commit.id, err));
  if (pd_in_string(frame, "expected_head", text, sizeof text) && pd_id_parse(text, &expected)) note.expect_head = &expected;
  note.ref = ref;
  note.bytes_max = frame->home->config.persistent_quota_bytes;
  note.later = pd_frame_later(frame);
  if (has_delete(frame) || pd_history_is_fork(ref)) TRY(pd_history_leave(store, err));
  TRY(pd_edit_begin(store, &note, &edit, err));
  TRY(stage_changes(frame, edit, &count, err));
  TRY(finish(frame, &edit, &ack, err));
  put_ack(frame, ref, &ack, count);
  return frame->out.code;
}

/* ---- rollback ---- */

typedef struct rollback {
  pd_turn turn;
  pd_rows skipped; /* what was erased */
  uint64_t changed;
  uint64_t more, less; /* bytes that come back, and that go */
} rollback;

static void rollback_done(rollback *r)
{
  pd_turn_done(&r->turn);
  pd_rows_done(&r->skipped);
}

static pd_code stage_row(rollback *r, pd_edit *edit, const pd_row *row, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_bytes key = pd_row_key(&r->turn.rows, row);
  pd_error why;
  pd_code code = row->has_after ? pd_get(r->turn.store, r->turn.to.at, key, &value, NULL, &why) : PD_OK;
  if (code == PD_ERASED) return pd_rows_add(&r->skipped, key) ? PD_OK : pd_error_memory(err, "a rollback");
  if (code) *err = why;
  TRY(code);
  TRY(pd_history_may_write(r->turn.frame, key, !row->has_after, err));
  r->changed++;
  r->more += row->has_after ? row->after.size : 0;
  r->less += row->has_before ? row->before.size : 0;
  if (!row->has_after) return pd_edit_delete(edit, key, PD_ANY_VERSION, err);
  return pd_edit_put(edit, key, pd_buf_bytes(&value), PD_ANY_VERSION, err);
}

/* W1, unless its bytes are gone: then it is left as it is. */
static pd_code may_change(rollback *r, const pd_row *row, pd_error *err)
{
  pd_bytes key = pd_row_key(&r->turn.rows, row);
  pd_code code = row->has_after ? pd_history_check_value(r->turn.frame, r->turn.store, r->turn.to.at, key, err) : PD_OK;
  if (code == PD_ERASED) return PD_OK;
  TRY(code);
  return pd_history_may_write(r->turn.frame, key, !row->has_after, err);
}

static pd_code foresee_rows(rollback *r, pd_error *err)
{
  for (size_t i = 0; i < r->turn.rows.count; i++) TRY(may_change(r, &r->turn.rows.items[i], err));
  return pd_turn_brink(&r->turn, err);
}

/* One try. *out_made: there was something to commit. */
static pd_code roll(rollback *r, const pd_note *note, pd_ack *out, bool *out_made, pd_error *err)
{
  CLEANUP(edit_abort) pd_edit *edit = NULL;
  pd_turn *turn = &r->turn;
  r->changed = r->more = r->less = r->skipped.count = r->skipped.keys.size = 0;
  TRY(pd_history_point(turn->frame, turn->store, "to", NULL, &turn->to, err));
  TRY(pd_turn_compare(turn, err));
  if (turn->frame->foresees) return foresee_rows(r, err);
  TRY(pd_history_leave(turn->store, err));
  TRY(pd_edit_begin(turn->store, note, &edit, err));
  for (size_t i = 0; i < turn->rows.count; i++) TRY(stage_row(r, edit, &turn->rows.items[i], err));
  TRY(pd_turn_is_of(turn, err));
  if (r->more > r->less) TRY(pd_quota_room_for(turn->frame, r->more - r->less, err));
  *out_made = r->changed > 0;
  return r->changed ? finish(turn->frame, &edit, out, err) : PD_OK;
}

static void put_skipped(pd_frame *frame, const rollback *r)
{
  pd_json_put_number(&frame->out, "skipped_count", r->skipped.count);
  pd_json_key(&frame->out, "skipped");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < r->skipped.count && i < SKIPPED_SHOWN; i++)
    pd_json_text(&frame->out, pd_row_key(&r->skipped, &r->skipped.items[i]));
  pd_json_close(&frame->out, ']');
}

pd_code pd_cap_history_rollback(pd_frame *frame, pd_error *err)
{
  CLEANUP(rollback_done) rollback r = {0};
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  bool has_made = false;
  pd_code code;
  TRY(pd_turn_begin(frame, &r.turn, err));
  r.turn.prefix = pd_in_text(frame, "prefix");
  pd_ack ack;
  note.ref = r.turn.ref;
  note.bytes_max = frame->home->config.persistent_quota_bytes;
  do {
    if (r.turn.is_again) TRY(pd_turn_look(&r.turn, err));
    note.expect_head = &r.turn.head.id;
    code = roll(&r, &note, &ack, &has_made, err);
  } while (pd_turn_again(&r.turn, code));
  TRY(code);
  if (!has_made) ack = (pd_ack){.commit = r.turn.head.id};
  if (has_made) pd_frame_commit(frame, &ack);
  pd_json_put_text(&frame->out, "ref", r.turn.ref);
  pd_out_id(frame, "commit", &ack.commit);
  pd_out_id(frame, "previous", &r.turn.head.id);
  pd_json_put_number(&frame->out, "changed", r.changed);
  put_skipped(frame, &r);
  return frame->out.code;
}
