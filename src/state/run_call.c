/*
 * run_call.c: runs.begin|checkpoint|finish|status|tool_*: runs of a thread (perdure/run.h) for callers that keep nothing between two calls.
 * Each call attaches to the run, tells what happened, and makes the checkpoint: so nothing is staged that a crash could lose.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/home.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <perdure/run.h>

/* A run that a call works with, and its thread. */
typedef struct held {
  pd_thread *thread;
  pd_run_context *run;
  char run_id[PD_THREAD_ID_SIZE_MAX + 1], parent_id[PD_THREAD_ID_SIZE_MAX + 1], call_id[PD_THREAD_ID_SIZE_MAX + 1];
  bool is_repeated;    /* the operation was done before: nothing is held, and… */
  pd_thread_ack first; /* …this was answered then */
} held;

static void let_go(held *h)
{
  pd_run_close(h->run);
  pd_thread_close(h->thread);
}

static pd_run_options options_of(pd_frame *frame, held *h)
{
  return (pd_run_options){
    .run_id = pd_in_string(frame, "run_id", h->run_id, sizeof h->run_id) ? h->run_id : NULL,
    .author = *frame->agent ? frame->agent : "operator",
    .now_ms = pd_threads_now,
    .now_ctx = frame->home,
    .later = pd_frame_later(frame),
  };
}

static pd_code check_version(pd_frame *frame, const held *h, pd_error *err)
{
  uint64_t is = pd_run_info_get(h->run).version, expected = pd_in_version(frame, "expected_version", is);
  if (is == expected) return PD_OK;
  pd_frame_detail_number(frame, "expected", expected);
  pd_frame_detail_number(frame, "actual", is);
  return pd_error_named(err, PD_CONFLICT, "VersionConflict", "thread '%s' is at version %llu, not %llu", pd_thread_id(h->thread),
                        (unsigned long long)is, (unsigned long long)expected);
}

/* Hold the run, unless the call's operation was done before: h->is_repeated. */
static pd_code attach(pd_frame *frame, held *h, pd_error *err)
{
  pd_run_options options = options_of(frame, h);
  pd_operation_name operation;
  TRY(pd_in_operation(frame, &operation, err));
  TRY(pd_threads_open(frame, &h->thread, err));
  TRY(pd_operation_look(h->thread, &operation, &h->is_repeated, &h->first, err));
  if (h->is_repeated) return PD_OK;
  TRY(pd_quota_room(frame, true, err));
  TRY(pd_run_attach(h->thread, &options, &h->run, err));
  TRY(check_version(frame, h, err));
  bool is_done = pd_run_info_get(h->run).status == PD_PHASE_DONE;
  return is_done || !*operation.id ? PD_OK : pd_run_operation(h->run, operation.id, operation.mark, err);
}

/* Is this a call that says whether it was a repetition? */
static void put_repeated(pd_frame *frame, bool is_repeated)
{
  if (pd_in(frame, "operation_id").kind != PD_JSON_NONE) pd_json_put_bool(&frame->out, "is_duplicate", is_repeated);
}

/* …to one of its calls. */
static pd_code attach_call(pd_frame *frame, held *h, pd_error *err)
{
  pd_in_string(frame, "call_id", h->call_id, sizeof h->call_id);
  return attach(frame, h, err);
}

static pd_code checkpoint(pd_frame *frame, held *h, pd_reason reason, pd_run_ack *out, pd_error *err)
{
  if (h->is_repeated)
    *out = (pd_run_ack){.version = h->first.version, .is_duplicate = true};
  else
    TRY(pd_run_checkpoint(h->run, reason, out, err));
  if (out->is_committed) {
    frame->commit = out->ack.commit;
    frame->has_commit = true;
  }
  pd_json_put_number(&frame->out, "version", out->version);
  return PD_OK;
}

static pd_code commit_call(pd_frame *frame, held *h, const char *status, pd_error *err)
{
  pd_run_ack ack;
  TRY(checkpoint(frame, h, PD_REASON_TOOL_RESULTS_COMMITTED, &ack, err));
  pd_json_put_text(&frame->out, "status", status);
  put_repeated(frame, ack.is_duplicate);
  return PD_OK;
}

static pd_code tell_each(held *h, pd_json list, pd_code (*tell)(pd_run_context *run, pd_bytes json, pd_error *err), pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(list);
  pd_json item;
  while (pd_json_walk_next(&walk, NULL, &item)) TRY(tell(h->run, item.raw, err));
  return PD_OK;
}

/* The delta that the input brings. */
static pd_code tell(pd_frame *frame, held *h, pd_error *err)
{
  pd_json patches = pd_in(frame, "patches");
  TRY(tell_each(h, pd_in(frame, "messages"), pd_run_message, err));
  if (patches.kind == PD_JSON_ARRAY) TRY(pd_run_patch(h->run, patches.raw, err));
  return tell_each(h, pd_in(frame, "state_actions"), pd_run_action, err);
}

/* ---- a run ---- */

pd_code pd_cap_runs_begin(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  pd_run_options options = options_of(frame, &h);
  options.parent_run_id = pd_in_string(frame, "parent_run_id", h.parent_id, sizeof h.parent_id) ? h.parent_id : NULL;
  options.meta = pd_in(frame, "meta").raw;
  options.messages = pd_in(frame, "messages").raw;
  options.snapshot = pd_in(frame, "snapshot").raw;
  TRY(pd_threads_open(frame, &h.thread, err));
  TRY(pd_quota_room(frame, false, err));
  TRY(pd_run_begin(h.thread, &options, &h.run, err));
  pd_run_info info = pd_run_info_get(h.run);
  pd_json_put_text(&frame->out, "run_id", info.run_id);
  pd_json_put_text(&frame->out, "status", pd_run_phase_name(info.status));
  pd_json_put_number(&frame->out, "version", info.version);
  return PD_OK;
}

static pd_code try_checkpoint(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  char reason[32] = "";
  pd_run_ack ack;
  pd_in_string(frame, "reason", reason, sizeof reason);
  TRY(attach(frame, &h, err));
  if (!h.is_repeated) TRY(tell(frame, &h, err));
  TRY(checkpoint(frame, &h, pd_reason_parse(reason), &ack, err));
  pd_json_put_bool(&frame->out, "is_committed", ack.is_committed || ack.is_duplicate);
  put_repeated(frame, ack.is_duplicate);
  return PD_OK;
}

static pd_code try_finish(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  char reason[32] = "natural";
  pd_run_ack ack = {.is_duplicate = true};
  pd_in_string(frame, "done_reason", reason, sizeof reason);
  TRY(attach(frame, &h, err));
  ack.version = h.first.version;
  if (!h.is_repeated && pd_run_info_get(h.run).status != PD_PHASE_DONE) TRY(tell(frame, &h, err));
  if (!h.is_repeated) TRY(pd_run_finish(h.run, pd_done_reason_parse(reason), &ack, err));
  if (ack.is_committed) {
    frame->commit = ack.ack.commit;
    frame->has_commit = true;
  }
  pd_json_put_number(&frame->out, "version", ack.version);
  pd_json_put_bool(&frame->out, "is_duplicate", ack.is_duplicate);
  return PD_OK;
}

static void list_call(void *ctx, const pd_tool_call_info *call)
{
  pd_frame *frame = ctx;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "call_id", call->id);
  pd_json_put_text(&frame->out, "status", pd_tool_status_name(call->status));
  pd_json_key(&frame->out, "state");
  pd_json_raw(&frame->out, call->state);
  pd_json_close(&frame->out, '}');
}

pd_code pd_cap_runs_status(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  pd_run_options options = options_of(frame, &h);
  TRY(pd_threads_open(frame, &h.thread, err));
  TRY(pd_run_attach(h.thread, &options, &h.run, err));
  pd_run_info info = pd_run_info_get(h.run);
  pd_json_put_text(&frame->out, "run_id", info.run_id);
  pd_json_put_text(&frame->out, "status", pd_run_phase_name(info.status));
  pd_json_key(&frame->out, "done_reason");
  if (info.done_reason)
    pd_json_text(&frame->out, pd_text(pd_done_reason_name(info.done_reason)));
  else
    pd_json_null(&frame->out);
  pd_json_put_number(&frame->out, "version", info.version);
  pd_json_key(&frame->out, "calls");
  pd_json_open(&frame->out, '[');
  TRY(pd_tool_call_list(h.run, list_call, frame, err));
  pd_json_close(&frame->out, ']');
  return PD_OK;
}

/* ---- its tool calls ---- */

static pd_code patch_call(pd_frame *frame, held *h, pd_error *err)
{
  pd_json patches = pd_in(frame, "patches");
  return patches.kind == PD_JSON_ARRAY ? pd_tool_call_patch(h->run, h->call_id, patches.raw, err) : PD_OK;
}

static pd_code try_tool_begin(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  char name[257] = "";
  pd_in_string(frame, "name", name, sizeof name);
  TRY(attach_call(frame, &h, err));
  pd_tool_call call = {.id = h.call_id, .name = name, .arguments = pd_in(frame, "arguments").raw};
  if (!h.is_repeated) TRY(pd_tool_call_begin(h.run, &call, err));
  return commit_call(frame, &h, pd_tool_status_name(PD_TOOL_RUNNING), err);
}

static pd_code try_tool_suspend(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  TRY(attach_call(frame, &h, err));
  if (!h.is_repeated) TRY(patch_call(frame, &h, err));
  if (!h.is_repeated) TRY(pd_tool_call_suspend(h.run, h.call_id, pd_in(frame, "request").raw, err));
  return commit_call(frame, &h, pd_tool_status_name(PD_TOOL_SUSPENDED), err);
}

static pd_code try_tool_resume(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  char id[PD_RUN_DECISION_ID_SIZE_MAX + 1] = "";
  bool is_duplicate = true;
  pd_run_ack ack;
  pd_in_string(frame, "decision_id", id, sizeof id);
  pd_decision decision = {.id = id, .is_cancel = pd_in_bool(frame, "is_cancel", false), .payload = pd_in(frame, "payload").raw};
  TRY(attach_call(frame, &h, err));
  if (!h.is_repeated) TRY(pd_tool_call_resume(h.run, h.call_id, &decision, &is_duplicate, err));
  TRY(checkpoint(frame, &h, PD_REASON_TOOL_RESULTS_COMMITTED, &ack, err));
  pd_json_put_bool(&frame->out, "is_duplicate", is_duplicate || ack.is_duplicate);
  return PD_OK;
}

static pd_code try_tool_end(pd_frame *frame, pd_error *err)
{
  CLEANUP(let_go) held h = {0};
  char status[32] = "succeeded";
  pd_in_string(frame, "status", status, sizeof status);
  pd_tool_result result = {.status = pd_tool_status_parse(status), .message = pd_in(frame, "message").raw};
  TRY(attach_call(frame, &h, err));
  if (!h.is_repeated) TRY(patch_call(frame, &h, err));
  if (!h.is_repeated) TRY(pd_tool_call_end(h.run, h.call_id, &result, err));
  return commit_call(frame, &h, status, err);
}

/* ---- races ---- */

/* Who appended between the attaching and the checkpoint was first; the call knows nothing of the version before, so it is made again. The
 * refusal rests on a commit that is on the disk (pd_update), and the next attempt begins on that one: a try that is lost is one that
 * another won. What an attempt writes into the answer it writes after its checkpoint, so nothing is written twice. */
static pd_code settle(pd_frame *frame, pd_cap_run attempt, pd_error *err)
{
  pd_code code = PD_CONFLICT;
  bool is_exact = pd_in(frame, "expected_version").kind != PD_JSON_NONE;
  do code = attempt(frame, err);
  while (code == PD_CONFLICT && !is_exact && strcmp(pd_error_name(err), "VersionConflict") == 0);
  return code;
}

pd_code pd_cap_runs_checkpoint(pd_frame *frame, pd_error *err)
{
  return settle(frame, try_checkpoint, err);
}

pd_code pd_cap_runs_finish(pd_frame *frame, pd_error *err)
{
  return settle(frame, try_finish, err);
}

pd_code pd_cap_runs_tool_begin(pd_frame *frame, pd_error *err)
{
  return settle(frame, try_tool_begin, err);
}

pd_code pd_cap_runs_tool_suspend(pd_frame *frame, pd_error *err)
{
  return settle(frame, try_tool_suspend, err);
}

pd_code pd_cap_runs_tool_resume(pd_frame *frame, pd_error *err)
{
  return settle(frame, try_tool_resume, err);
}

pd_code pd_cap_runs_tool_end(pd_frame *frame, pd_error *err)
{
  return settle(frame, try_tool_end, err);
}
