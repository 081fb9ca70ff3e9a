/*
 * run_checkpoint.c: committing what a run was told, and what happens when that fails. Invariants U2 and U3 are in run_context.h.
 *
 * A commit whose answer was a failure may have come about. So before the next one the thread is asked: the change set behind the version
 * that the run knows is the run's own if it has its id, its reason, the same patches and actions, and all of its messages are there.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/changeset.h"
#include "thread/operation.h"
#include "thread/run_context.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the change set ---- */

typedef struct parts {
  pd_buf messages, patches, actions;
} parts;

static void parts_done(parts *p)
{
  pd_buf_done(&p->messages);
  pd_buf_done(&p->patches);
  pd_buf_done(&p->actions);
}

static pd_code write_items(const pd_run_items *items, pd_buf *out, pd_error *err)
{
  return items->count ? pd_run_items_write(items, out, err) : PD_OK;
}

static pd_code make_set(const pd_run_context *run, pd_reason reason, int64_t time_ms, parts *p, pd_changeset *out, pd_error *err)
{
  TRY(write_items(&run->messages, &p->messages, err));
  TRY(write_items(&run->patches, &p->patches, err));
  TRY(write_items(&run->actions, &p->actions, err));
  *out = (pd_changeset){.run_id = run->id,
                        .parent_run_id = *run->parent_id ? run->parent_id : NULL,
                        .reason = reason,
                        .messages = pd_buf_bytes(&p->messages),
                        .patches = pd_buf_bytes(&p->patches),
                        .state_actions = pd_buf_bytes(&p->actions),
                        .active_run = reason == PD_REASON_RUN_FINISHED ? "" : run->id,
                        .time_ms = time_ms,
                        .author = run->author,
                        .operation_id = *run->operation_id ? run->operation_id : NULL,
                        .operation_mark = *run->operation_id ? run->operation_mark : NULL,
                        .later = run->later};
  return PD_OK;
}

/* ---- a commit that came about ---- */

static void is_committed(pd_run_context *run, pd_reason reason, pd_done_reason done, uint64_t version)
{
  pd_run_clear_delta(run); /* U2 */
  *run->operation_id = 0;
  run->is_unsettled = false;
  run->version = version;
  pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_CHECKPOINT, .reason = reason, .status = run->status});
  if (reason != PD_REASON_RUN_FINISHED) return;
  for (size_t i = 0; i < run->call_count; i++)
    pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_TOOL_CALL, .call_id = run->calls[i].id, .call_status = PD_TOOL_CANCELLED});
  pd_run_calls_done(run);
  run->status = PD_PHASE_DONE;
  run->done_reason = done;
  pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_FINISHED, .reason = reason, .status = PD_PHASE_DONE, .done_reason = done});
}

/* ---- finding out ---- */

typedef struct look {
  const pd_prepared *prepared;
  bool is_same;
} look;

static bool is_text(pd_json value, const pd_buf *text)
{
  return value.kind == PD_JSON_NONE ? !text->size : pd_bytes_equal(value.raw, pd_buf_bytes(text));
}

static bool compare(void *ctx, const pd_thread_delta *delta)
{
  look *l = ctx;
  pd_json json;
  const pd_changeset *set = l->prepared->set;
  if (pd_json_parse(delta->json, &json, NULL)) return false;
  l->is_same = strcmp(delta->run_id, set->run_id) == 0 && strcmp(delta->reason, pd_reason_name(set->reason)) == 0 &&
               is_text(pd_json_member(json, "patches"), &l->prepared->patches_text) &&
               is_text(pd_json_member(json, "state_actions"), &l->prepared->actions_text);
  return false;
}

static pd_code has_messages(pd_run_context *run, pd_json messages, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf id = {0};
  pd_json_walk walk = pd_json_walk_begin(messages);
  pd_error why = {0};
  pd_json message;
  uint64_t place;
  while (*out && pd_json_walk_next(&walk, NULL, &message)) {
    pd_buf_clear(&id);
    TRY(pd_message_id(message, &id, err));
    TRY(pd_buf_byte(&id, 0, err));
    pd_code code = pd_thread_message_find(run->thread, (const char *)id.data, &place, &why);
    if (code == PD_NOT_FOUND) *out = false;
    if (code && code != PD_NOT_FOUND && err) *err = why;
    if (code && code != PD_NOT_FOUND) return code;
  }
  return PD_OK;
}

/* Is the change set behind our version the one that we tried to commit? */
static pd_code find_own(pd_run_context *run, bool *out, pd_error *err)
{
  CLEANUP(parts_done) parts p = {0};
  CLEANUP(pd_prepared_done) pd_prepared prepared = {0};
  pd_changeset set;
  look l = {.prepared = &prepared};
  *out = false;
  if (!pd_run_has_delta(run)) return PD_OK;
  TRY(make_set(run, run->unsettled_reason, 0, &p, &set, err));
  if (pd_prepare(&set, &prepared, NULL)) return PD_OK; /* what cannot be committed was not */
  TRY(pd_thread_delta_get(run->thread, run->unsettled_version + 1, compare, &l, err));
  if (l.is_same) TRY(has_messages(run, prepared.messages, &l.is_same, err));
  *out = l.is_same;
  return PD_OK;
}

static pd_code lost(const pd_run_context *run, pd_error *err)
{
  return pd_error_named(err, PD_CONFLICT, "RunLost", "run '%s' of thread '%s' is not active any more: somebody else ended it", run->id,
                        pd_thread_id(run->thread));
}

pd_code pd_run_settle_commit(pd_run_context *run, pd_error *err)
{
  pd_thread_info info;
  bool is_own = false;
  TRY(pd_thread_info_get(run->thread, &info, err));
  uint64_t newest = info.version;
  bool is_active = strcmp(info.active_run, run->id) == 0;
  if (newest > run->unsettled_version) TRY(find_own(run, &is_own, err));
  if (is_own) is_committed(run, run->unsettled_reason, run->unsettled_done, run->unsettled_version + 1);
  if (run->status == PD_PHASE_DONE) return PD_OK;
  if (!is_active) return lost(run, err);
  if (run->unsettled_reason == PD_REASON_RUN_FINISHED) pd_run_take_back_final(run);
  if (newest != run->version) TRY(pd_run_rebase(run, newest, err)); /* others appended */
  run->is_unsettled = false;
  return PD_OK;
}

/* Without a delta: take in what others committed, a decision say. */
static pd_code follow(pd_run_context *run, pd_error *err)
{
  pd_thread_info info;
  TRY(pd_thread_info_get(run->thread, &info, err));
  if (info.version == run->version) return PD_OK;
  if (strcmp(info.active_run, run->id) != 0) return lost(run, err);
  return pd_run_rebase(run, info.version, err);
}

/* ---- committing ---- */

static void tell_failure(const pd_run_context *run, pd_reason reason, const pd_error *why)
{
  bool is_final = reason == PD_REASON_RUN_FINISHED;
  pd_run_emit(run,
              (pd_run_event){
                .kind = is_final ? PD_RUN_EVENT_ERROR : PD_RUN_EVENT_STATE_ERROR, .reason = reason, .status = run->status, .error = why});
}

/* The one place where a checkpoint fails. `code` is 0: it did not. */
static pd_code outcome(pd_run_context *run, pd_reason reason, pd_code code, const pd_error *why, pd_error *err)
{
  if (!code) return PD_OK;
  if (reason != PD_REASON_RUN_FINISHED) run->has_failed = true;
  tell_failure(run, reason, why);
  if (err) *err = *why;
  return code;
}

/* Another handle committed the operation: its delta is there, so this one goes, and the run is where the thread is. */
static pd_code is_repeated(pd_run_context *run, pd_error *err)
{
  pd_thread_info info;
  pd_run_clear_delta(run);
  pd_run_drop_doc(run);
  *run->operation_id = 0;
  run->is_unsettled = false;
  TRY(pd_thread_info_get(run->thread, &info, err));
  bool is_active = strcmp(info.active_run, run->id) == 0;
  return is_active ? pd_run_rebase(run, info.version, err) : PD_OK; /* if it is not, the next call says RunLost */
}

static pd_code try_commit(pd_run_context *run, pd_reason reason, pd_done_reason done, pd_thread_ack *out, pd_error *err)
{
  CLEANUP(parts_done) parts p = {0};
  pd_changeset set;
  TRY(make_set(run, reason, pd_run_now(run), &p, &set, err));
  run->is_unsettled = true; /* U3 */
  run->unsettled_version = run->version;
  run->unsettled_reason = reason;
  run->unsettled_done = done;
  TRY(pd_thread_append(run->thread, &set, run->version, out, err));
  if (out->is_duplicate) return is_repeated(run, err);
  is_committed(run, reason, done, out->version);
  return PD_OK;
}

static void tell_ack(const pd_run_context *run, bool was_committed, const pd_thread_ack *ack, pd_run_ack *out)
{
  if (!out) return;
  bool is_duplicate = ack && ack->is_duplicate;
  *out = (pd_run_ack){.version = is_duplicate ? ack->version : run->version,
                      .is_committed = ack && !is_duplicate,
                      .is_duplicate = is_duplicate,
                      .was_committed = was_committed};
  if (ack) out->ack = *ack;
}

static pd_code checkpoint(pd_run_context *run, pd_reason reason, pd_run_ack *out, pd_error *err)
{
  bool was_committed = false;
  pd_thread_ack ack;
  if (run->is_unsettled) {
    uint64_t before = run->version;
    bool had_delta = pd_run_has_delta(run);
    TRY(pd_run_settle_commit(run, err));
    was_committed = had_delta && !pd_run_has_delta(run) && run->version > before;
  }
  if (run->status == PD_PHASE_DONE) return pd_run_check_open(run, err);
  bool has_delta = pd_run_has_delta(run);
  if (!has_delta) TRY(follow(run, err));
  if (has_delta) TRY(try_commit(run, reason, PD_DONE_NONE, &ack, err));
  tell_ack(run, was_committed, has_delta ? &ack : NULL, out);
  return PD_OK;
}

pd_code pd_run_checkpoint(pd_run_context *run, pd_reason reason, pd_run_ack *out, pd_error *err)
{
  pd_error why = {0};
  if (reason == PD_REASON_RUN_FINISHED)
    return pd_error_set(err, PD_INVALID, "RunFinished is the reason of the last checkpoint, which finishing the run makes");
  if (!*pd_reason_name(reason)) return pd_error_set(err, PD_INVALID, "a checkpoint needs a reason, and %d is none", (int)reason);
  if (run->status == PD_PHASE_DONE) return pd_run_check_open(run, err);
  return outcome(run, reason, checkpoint(run, reason, out, &why), &why, err);
}

/* ---- the run's status ---- */

void pd_run_put_status(pd_json_writer *w, pd_run_phase status, pd_done_reason done, int64_t now_ms)
{
  pd_patch_open(w, "merge_object", (const char *const[]){PD_SCOPE_RUN_NAME}, 1);
  pd_json_key(w, "value");
  pd_json_open(w, '{');
  if (done) pd_json_put_text(w, "done_reason", pd_done_reason_name(done));
  pd_json_put_text(w, "status", pd_run_phase_name(status));
  pd_json_put_number(w, "updated_at", (uint64_t)now_ms);
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}

pd_run_phase pd_run_write_status(const pd_run_context *run, pd_json_writer *w)
{
  size_t suspended = 0;
  for (size_t i = 0; i < run->call_count; i++) suspended += run->calls[i].status == PD_TOOL_SUSPENDED;
  size_t open = 0;
  for (size_t i = 0; i < run->call_count; i++) open += !pd_tool_status_is_final(run->calls[i].status);
  pd_run_phase wanted = open && suspended == open ? PD_PHASE_WAITING : PD_PHASE_RUNNING;
  if (wanted != run->status) pd_run_put_status(w, wanted, PD_DONE_NONE, pd_run_now(run));
  return wanted;
}

/* ---- operations ---- */

pd_code pd_run_operation(pd_run_context *run, const char *operation_id, const char *mark, pd_error *err)
{
  TRY(pd_run_check_open(run, err));
  TRY(pd_operation_check(operation_id, mark, err));
  snprintf(run->operation_id, sizeof run->operation_id, "%s", operation_id ? operation_id : "");
  memset(run->operation_mark, '0', PD_ID_HEX_SIZE - 1); /* the same for all that name none */
  if (mark) memcpy(run->operation_mark, mark, PD_ID_HEX_SIZE - 1);
  return PD_OK;
}

/* ---- finishing ---- */

static pd_code add_final(pd_run_context *run, pd_done_reason done, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  int64_t now_ms = pd_run_now(run);
  TRY(pd_run_need_part(run, NULL, NULL, err));
  size_t scopes = pd_run_count_scopes(run);
  run->final_mark = run->patches.text.size;
  run->final_count = run->patches.count;
  pd_json_open(&w, '[');
  for (size_t i = 0; i < run->call_count; i++) pd_tool_call_write_end(&w, run->calls[i].id, PD_TOOL_CANCELLED, now_ms, i + 1 == scopes);
  pd_run_put_status(&w, PD_PHASE_DONE, done, now_ms);
  pd_json_close(&w, ']');
  TRY(w.code);
  return pd_run_add_patches(run, pd_buf_bytes(&text), PD_PATCH_INTERNAL, NULL, err);
}

void pd_run_take_back_final(pd_run_context *run)
{
  if (run->patches.count <= run->final_count) return;
  pd_run_items_cut(&run->patches, run->final_mark, run->final_count);
  pd_run_drop_doc(run);
}

static pd_code check_finish(const pd_run_context *run, pd_done_reason done, pd_error *err)
{
  if (run->has_failed && done != PD_DONE_ERROR) return pd_run_check_open(run, err);
  if (done == PD_DONE_NATURAL && run->call_count)
    return pd_error_named(err, PD_CONFLICT, "ToolCallsOpen",
                          "run '%s' of thread '%s' has %zu tool calls that are not settled ('%s' is one):"
                          " it cannot end naturally",
                          run->id, pd_thread_id(run->thread), run->call_count, run->calls[0].id);
  return PD_OK;
}

static pd_code duplicate(const pd_run_context *run, pd_done_reason done, bool was_committed, pd_run_ack *out, pd_error *err)
{
  if (run->done_reason != done) return pd_run_check_open(run, err);
  tell_ack(run, was_committed, NULL, out);
  if (out) out->is_duplicate = !was_committed;
  return PD_OK;
}

static pd_code finish(pd_run_context *run, pd_done_reason done, pd_thread_ack *ack, pd_error *err)
{
  TRY(add_final(run, done, err));
  pd_code code = try_commit(run, PD_REASON_RUN_FINISHED, done, ack, err);
  if (code && !run->is_unsettled) pd_run_take_back_final(run); /* it was never tried */
  return code;
}

pd_code pd_run_finish(pd_run_context *run, pd_done_reason reason, pd_run_ack *out, pd_error *err)
{
  pd_error why = {0};
  pd_thread_ack ack;
  if (!*pd_done_reason_name(reason)) return pd_error_set(err, PD_INVALID, "a run is done for a reason, and %d is none", (int)reason);
  if (run->status == PD_PHASE_DONE) return duplicate(run, reason, false, out, err);
  if (run->is_unsettled) TRY(outcome(run, PD_REASON_RUN_FINISHED, pd_run_settle_commit(run, &why), &why, err));
  if (run->status == PD_PHASE_DONE) return duplicate(run, reason, true, out, err);
  TRY(check_finish(run, reason, err));
  TRY(outcome(run, PD_REASON_RUN_FINISHED, finish(run, reason, &ack, &why), &why, err));
  tell_ack(run, false, &ack, out);
  return PD_OK;
}
