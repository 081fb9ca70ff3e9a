/* history_move.c: history.undo, redo, reset, fork, drop: refs that move, are made and go. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdio.h>

/* ---- undo, redo, reset ---- */

static pd_code answer(pd_turn *turn, const pd_ack *ack, bool can_redo)
{
  pd_frame *frame = turn->frame;
  pd_json_put_text(&frame->out, "ref", turn->ref);
  pd_out_commit(frame, &ack->commit);
  pd_out_id(frame, "previous", &turn->head.id);
  pd_json_put_number(&frame->out, "changed", turn->rows.count);
  pd_json_put_bool(&frame->out, "can_redo", can_redo);
  return frame->out.code;
}

static pd_code find_undone(pd_turn *turn, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE], at[PD_ID_HEX_SIZE + 24];
  snprintf(at, sizeof at, "%s~%llu", pd_id_hex(&turn->head.id, hex), (unsigned long long)pd_in_int(turn->frame, "count", 1));
  return pd_history_point_at(turn->store, at, &turn->to, err);
}

typedef struct redo_search {
  pd_id head, tip;
  bool has_tip, has_met;
  uint64_t distance; /* commits from the tip back to the head */
} redo_search;

/* Where the ref was before it was undone: what made its last move that was no undo and no redo. */
static bool find_tip(void *ctx, const pd_record *record)
{
  redo_search *search = ctx;
  if (record->kind == PD_RECORD_UNDO || record->kind == PD_RECORD_REDO || record->kind == PD_RECORD_SWITCH) return true;
  search->tip = record->commit.id;
  search->has_tip = true;
  return false;
}

static bool find_head(void *ctx, const pd_record *record)
{
  redo_search *search = ctx;
  search->has_met = pd_id_equal(&record->commit.id, &search->head);
  search->distance += !search->has_met;
  return !search->has_met;
}

static pd_code find_redone(pd_turn *turn, pd_error *err)
{
  redo_search search = {.head = turn->head.id};
  char hex[PD_ID_HEX_SIZE], at[PD_ID_HEX_SIZE + 24];
  uint64_t count = (uint64_t)pd_in_int(turn->frame, "count", 1);
  if (turn->can_redo) TRY(pd_log(turn->store, &(pd_log_query){.ref = turn->ref}, find_tip, &search, err));
  pd_id_hex(&search.tip, hex);
  if (search.has_tip) TRY(pd_log(turn->store, &(pd_log_query){.at = hex}, find_head, &search, err));
  if (!search.has_met && turn->head.seq) search.distance = 0; /* the head is not behind it: there is no way there */
  if (!search.has_tip || count > search.distance)
    return pd_error_named(err, PD_NOT_FOUND, "NothingToRedo", "ref '%s': %llu undone commits can be redone, not %llu", turn->ref,
                          (unsigned long long)search.distance, (unsigned long long)count);
  snprintf(at, sizeof at, "%s~%llu", hex, (unsigned long long)(search.distance - count));
  return pd_history_point_at(turn->store, at, &turn->to, err);
}

static pd_code find_target(pd_turn *turn, pd_error *err)
{
  return pd_history_point(turn->frame, turn->store, "to", NULL, &turn->to, err);
}

static pd_code do_undo(pd_turn *turn, const pd_note *note, pd_ack *out, pd_error *err)
{
  return pd_undo(turn->store, (uint64_t)pd_in_int(turn->frame, "count", 1), note, out, err);
}

static pd_code do_redo(pd_turn *turn, const pd_note *note, pd_ack *out, pd_error *err)
{
  return pd_redo(turn->store, (uint64_t)pd_in_int(turn->frame, "count", 1), note, out, err);
}

static pd_code do_reset(pd_turn *turn, const pd_note *note, pd_ack *out, pd_error *err)
{
  return pd_reset(turn->store, turn->ref, turn->to.at, note, out, err);
}

static pd_code move(pd_turn *turn, pd_code (*find)(pd_turn *, pd_error *), pd_code (*act)(pd_turn *, const pd_note *, pd_ack *, pd_error *),
                    pd_ack *out, pd_error *err)
{
  pd_history_texts texts;
  pd_note note = pd_history_note(turn->frame, &texts);
  pd_code code;
  do {
    if (turn->is_again) TRY(pd_turn_look(turn, err));
    TRY(find(turn, err));
    note.ref = turn->ref;
    note.expect_head = &turn->head.id;
    code = pd_turn_settle(turn, err);
    if (!code) code = act(turn, &note, out, err);
  } while (pd_turn_again(turn, code));
  return code;
}

pd_code pd_cap_history_undo(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_turn_done) pd_turn turn = {0};
  pd_ack ack;
  TRY(pd_turn_begin(frame, &turn, err));
  TRY(move(&turn, find_undone, do_undo, &ack, err));
  return answer(&turn, &ack, true);
}

pd_code pd_cap_history_redo(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_turn_done) pd_turn turn = {0};
  pd_ack ack;
  pd_ref after;
  TRY(pd_turn_begin(frame, &turn, err));
  TRY(move(&turn, find_redone, do_redo, &ack, err));
  TRY(pd_ref_get(turn.store, turn.ref, &after, err));
  return answer(&turn, &ack, after.can_redo);
}

pd_code pd_cap_history_reset(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_turn_done) pd_turn turn = {0};
  pd_ack ack;
  TRY(pd_turn_begin(frame, &turn, err));
  TRY(move(&turn, find_target, do_reset, &ack, err));
  return answer(&turn, &ack, false);
}

/* ---- fork, drop ---- */

static pd_code take_name(const pd_frame *frame, char out[PD_REF_SIZE_MAX + 1], pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1] = "";
  pd_error why = {0};
  (void)!pd_in_string(frame, "name", name, sizeof name);
  const char *plain = pd_history_is_fork(name) ? name + strlen(PD_FORK_PREFIX) : name;
  if (pd_agent_check(plain, &why))
    return pd_error_named(
      err, PD_INVALID, "InvalidInput",
      "%s: field 'name' is no name of a fork: 1 to 64 of letters, digits, '.', '_' and '-', and a letter or digit first",
      frame->capability->name);
  snprintf(out, PD_REF_SIZE_MAX + 1, PD_FORK_PREFIX "%s", plain);
  return PD_OK;
}

static void count_fork(void *ctx, const pd_ref *ref)
{
  *(uint64_t *)ctx += pd_history_is_fork(ref->name);
}

static pd_code check_count(pd_frame *frame, pd_store *store, pd_error *err)
{
  uint64_t count = 0, limit = frame->home->config.history_forks_max;
  TRY(pd_ref_list(store, count_fork, &count, err));
  if (count < limit) return PD_OK;
  pd_frame_detail_number(frame, "used", count);
  pd_frame_detail_number(frame, "limit", limit);
  return pd_error_named(err, PD_QUOTA, "QuotaExceeded", "agent '%s' has %llu forks, at most %llu are allowed", frame->agent,
                        (unsigned long long)count, (unsigned long long)limit);
}

pd_code pd_cap_history_fork(pd_frame *frame, pd_error *err)
{
  char ref[PD_REF_SIZE_MAX + 1];
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  pd_point_in point;
  pd_store *store;
  pd_ref is;
  pd_ack ack;
  TRY(take_name(frame, ref, err));
  TRY(pd_history_own(frame, &store, err));
  TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  TRY(check_count(frame, store, err));
  TRY(pd_quota_room(frame, false, err));
  if (frame->foresees && pd_ref_get(store, ref, &is, NULL) == PD_OK)
    return pd_error_set(err, PD_EXISTS, "there is a ref '%s' already", ref);
  pd_fact_text(frame, "at", point.at);
  TRY(pd_brink(frame, err));
  TRY(pd_history_leave(store, err));
  TRY(pd_fork(store, ref, point.at, &note, &ack, err));
  pd_quota_look_again(frame); /* what the fork holds counts */
  pd_json_put_text(&frame->out, "ref", ref);
  pd_out_commit(frame, &ack.commit);
  return frame->out.code;
}

pd_code pd_cap_history_drop(pd_frame *frame, pd_error *err)
{
  char ref[PD_REF_SIZE_MAX + 1];
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  pd_store *store;
  pd_ref is;
  TRY(take_name(frame, ref, err));
  TRY(pd_history_own(frame, &store, err));
  TRY(pd_ref_get(store, ref, &is, err));
  pd_fact_id(frame, "commit", &is.commit.id);
  TRY(pd_brink(frame, err));
  if (frame->is_approved) note.expect_head = &is.commit.id;
  TRY(pd_history_leave(store, err));
  TRY(pd_ref_delete(store, ref, &note, err));
  pd_json_put_text(&frame->out, "ref", ref);
  pd_out_id(frame, "commit", &is.commit.id);
  pd_json_put_bool(&frame->out, "dropped", true);
  return frame->out.code;
}
