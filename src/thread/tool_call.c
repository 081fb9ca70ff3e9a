/*
 * tool_call.c: the tool calls of a run. A call's status is in memory and in the delta; both change together or not at all.
 *
 * /__tool_call_scope/ID/tool_call_state holds arguments, decision, name, request, status and updated_at; it goes with the scope.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/run_context.h"

#include <stdio.h>
#include <stdlib.h>

#define TOOL_NAME_SIZE_MAX 256

/* ---- the calls in memory ---- */

void pd_run_calls_done(pd_run_context *run)
{
  for (size_t i = 0; i < run->call_count; i++) pd_run_items_done(&run->calls[i].patches);
  for (size_t i = 0; i < run->settled_count; i++) pd_run_items_done(&run->settled[i].patches);
  free(run->settled);
  run->settled = NULL;
  run->call_count = run->settled_count = run->settled_capacity = 0;
}

pd_run_call *pd_run_find_call(pd_run_context *run, const char *id)
{
  for (size_t i = 0; id && i < run->call_count; i++)
    if (strcmp(run->calls[i].id, id) == 0) return &run->calls[i];
  return NULL;
}

pd_code pd_run_get_call(pd_run_context *run, const char *id, pd_run_call **out, pd_error *err)
{
  TRY(pd_thread_id_check(id, "tool call", err));
  *out = pd_run_find_call(run, id);
  if (*out) return PD_OK;
  return pd_error_named(err, PD_NOT_FOUND, "ToolCallNotFound", "run '%s' has no tool call '%s' that is not settled", run->id, id);
}

void pd_run_remove_call(pd_run_context *run, pd_run_call *call)
{
  pd_run_items_done(&call->patches);
  *call = run->calls[--run->call_count];
  run->calls[run->call_count] = (pd_run_call){0};
}

pd_code pd_run_add_call(pd_run_context *run, const char *id, pd_run_call **out, pd_error *err)
{
  if (run->call_count >= PD_RUN_CALLS_MAX)
    return pd_error_set(err, PD_LIMIT, "run '%s' has %d tool calls that are not settled, which is the limit", run->id, PD_RUN_CALLS_MAX);
  *out = &run->calls[run->call_count++];
  **out = (pd_run_call){.began = ++run->tick};
  strcpy((*out)->id, id);
  return PD_OK;
}

/* ---- the calls in the state ---- */

static const pd_node *state_of(const pd_node *scope)
{
  return pd_node_member(scope, pd_text(PD_SCOPE_CALL_STATE_NAME));
}

static const pd_node *scopes_of(const pd_doc *doc)
{
  return pd_node_member(pd_doc_root(doc), pd_text(PD_SCOPE_CALLS_NAME));
}

static const pd_node *scopes_node(const pd_run_context *run)
{
  return scopes_of(run->doc);
}

size_t pd_run_count_scopes(const pd_run_context *run)
{
  const pd_node *scopes = scopes_node(run);
  return scopes ? pd_node_count(scopes) : 0;
}

static pd_tool_status read_status(const pd_node *scope)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = 32};
  const pd_node *state = state_of(scope), *status = state ? pd_node_member(state, pd_text("status")) : NULL;
  if (!status || pd_json_decode(pd_node_leaf(status), &text, NULL) || pd_buf_byte(&text, 0, NULL)) return 0;
  return pd_tool_status_parse((const char *)text.data);
}

pd_code pd_run_visit_calls(const pd_run_context *run, const pd_doc *doc,
                           pd_code (*visit)(void *ctx, const char *id, pd_tool_status status, pd_error *err), void *ctx, pd_error *err)
{
  pd_bytes name;
  pd_node *scope;
  if (!scopes_of(doc)) return PD_OK;
  pd_node_walk walk = pd_node_walk_begin(scopes_of(doc));
  while (pd_node_walk_next(&walk, &name, &scope)) {
    char id[PD_THREAD_ID_SIZE_MAX + 1];
    pd_tool_status status = read_status(scope);
    snprintf(id, sizeof id, "%.*s", (int)(name.size < sizeof id ? name.size : sizeof id - 1), (const char *)name.data);
    if (!status || pd_tool_status_is_final(status) || name.size >= sizeof id || pd_thread_id_check(id, "tool call", NULL))
      return pd_error_set(err, PD_CORRUPT, "/" PD_SCOPE_CALLS_NAME "/%s of thread '%s' is not as runs write it", id,
                          pd_thread_id(run->thread));
    TRY(visit(ctx, id, status, err));
  }
  return PD_OK;
}

static pd_code read_call(void *ctx, const char *id, pd_tool_status status, pd_error *err)
{
  pd_run_call *call = NULL;
  TRY(pd_run_add_call(ctx, id, &call, err));
  call->status = status;
  return PD_OK;
}

pd_code pd_run_read_calls(pd_run_context *run, pd_error *err)
{
  TRY(pd_run_need_part(run, NULL, NULL, err));
  return pd_run_visit_calls(run, run->doc, read_call, run, err);
}

pd_code pd_tool_call_list(pd_run_context *run, void (*visit)(void *ctx, const pd_tool_call_info *call), void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_bytes name;
  pd_node *scope;
  TRY(pd_run_need_part(run, NULL, NULL, err));
  if (!run->call_count || !scopes_node(run)) return PD_OK;
  pd_node_walk walk = pd_node_walk_begin(scopes_node(run));
  while (pd_node_walk_next(&walk, &name, &scope)) {
    char id[PD_THREAD_ID_SIZE_MAX + 1];
    snprintf(id, sizeof id, "%.*s", (int)(name.size < sizeof id ? name.size : sizeof id - 1), (const char *)name.data);
    const pd_run_call *call = pd_run_find_call(run, id);
    if (!call || !state_of(scope)) continue;
    pd_buf_clear(&text);
    TRY(pd_node_write(state_of(scope), &text, err));
    visit(ctx, &(pd_tool_call_info){.id = call->id, .status = call->status, .state = pd_buf_bytes(&text)});
  }
  return PD_OK;
}

/* ---- changing a call ---- */

/* A change of one call: what is written besides its status. */
typedef struct change {
  pd_tool_status to;
  const char *name;  /* of a new call */
  pd_json arguments; /* of a new call */
  pd_json request;   /* of a suspension */
  const pd_decision *decision;
  pd_json payload;            /* of the decision */
  const pd_run_items *brings; /* the call's own patches: they come first */
} change;

static void put_json_if(pd_json_writer *w, const char *key, pd_json value)
{
  if (value.kind == PD_JSON_NONE) return;
  pd_json_key(w, key);
  pd_json_value(w, value);
}

static void put_call_state(pd_json_writer *w, const char *call_id, const change *c, int64_t now_ms)
{
  pd_patch_open(w, c->name ? "set" : "merge_object", (const char *const[]){PD_SCOPE_CALLS_NAME, call_id, PD_SCOPE_CALL_STATE_NAME}, 3);
  pd_json_key(w, "value");
  pd_json_open(w, '{');
  put_json_if(w, "arguments", c->arguments);
  if (c->decision) {
    pd_json_key(w, "decision");
    pd_json_open(w, '{');
    pd_json_put_text(w, "id", c->decision->id);
    put_json_if(w, "payload", c->payload);
    pd_json_close(w, '}');
  }
  if (c->name) pd_json_put_text(w, "name", c->name);
  put_json_if(w, "request", c->request);
  pd_json_put_text(w, "status", pd_tool_status_name(c->to));
  pd_json_put_number(w, "updated_at", (uint64_t)now_ms);
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}

void pd_tool_call_write_end(pd_json_writer *w, const char *call_id, pd_tool_status status, int64_t now_ms, bool is_last)
{
  put_call_state(w, call_id, &(change){.to = status}, now_ms);
  pd_tool_call_write_delete(w, call_id, is_last);
}

void pd_tool_call_write_delete(pd_json_writer *w, const char *call_id, bool is_last)
{
  pd_patch_open(w, "delete", (const char *const[]){PD_SCOPE_CALLS_NAME, call_id}, is_last ? 1 : 2);
  pd_json_close(w, '}');
}

static void put_decision(pd_json_writer *w, const char *call_id, const pd_decision *decision)
{
  pd_patch_open(w, "set", (const char *const[]){PD_SCOPE_RUN_NAME, "decisions", decision->id}, 3);
  pd_json_key(w, "value");
  pd_json_text(w, pd_text(call_id));
  pd_json_close(w, '}');
}

static pd_code write_change(const pd_run_context *run, const pd_run_call *call, const change *c, pd_buf *out, pd_run_phase *out_status,
                            pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  int64_t now_ms = pd_run_now(run);
  pd_json_open(&w, '[');
  if (c->brings && c->brings->count) pd_json_raw(&w, pd_buf_bytes(&c->brings->text));
  if (c->decision) put_decision(&w, call->id, c->decision);
  if (pd_tool_status_is_final(c->to))
    pd_tool_call_write_end(&w, call->id, c->to, now_ms, pd_run_count_scopes(run) == 1);
  else
    put_call_state(&w, call->id, c, now_ms);
  *out_status = pd_run_write_status(run, &w);
  pd_json_close(&w, ']');
  return w.code;
}

static void tell_change(pd_run_context *run, const char *call_id, pd_tool_status to, pd_run_phase status)
{
  bool is_other = status != run->status;
  run->status = status;
  pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_TOOL_CALL, .status = status, .call_id = call_id, .call_status = to});
  if (is_other) pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_STATUS, .status = status});
}

static pd_code change_call(pd_run_context *run, pd_run_call *call, const change *c, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_tool_status from = call->status;
  pd_run_phase status = run->status;
  if (!pd_tool_status_may(from, c->to))
    return pd_error_named(err, PD_CONFLICT, "InvalidTransition", "tool call '%s' is %s: it cannot become %s", call->id,
                          pd_tool_status_name(from), pd_tool_status_name(c->to));
  TRY(pd_run_need_part(run, NULL, NULL, err));
  call->status = c->to; /* pd_run_write_status looks at it */
  pd_code code = write_change(run, call, c, &text, &status, err);
  if (!code) code = pd_run_add_patches(run, pd_buf_bytes(&text), PD_PATCH_INTERNAL, NULL, err);
  if (code)
    call->status = from;
  else
    tell_change(run, call->id, c->to, status);
  return code;
}

/* ---- new, begin ---- */

static pd_code read_json(pd_run_context *run, const char *what, pd_bytes text, pd_json *out, pd_error *err)
{
  pd_error why = {0};
  *out = (pd_json){0};
  if (!text.size) return PD_OK;
  TRY(pd_run_check_room(run, text.size, 0, err));
  pd_code code = pd_json_parse(text, out, &why);
  if (!code) code = pd_json_unique(*out, &why);
  return code ? pd_error_set(err, code, "the %s of a tool call: %.300s", what, why.message) : PD_OK;
}

static pd_code make_call(pd_run_context *run, const pd_tool_call *call, pd_tool_status status, pd_error *err)
{
  pd_run_call *made = NULL;
  change c = {.to = status, .name = call->name};
  size_t size = call->name ? strlen(call->name) : 0;
  if (!size || size > TOOL_NAME_SIZE_MAX || !pd_utf8_check(pd_text(call->name)))
    return pd_error_set(err, PD_INVALID, "the name of a tool is 1 to %d bytes of UTF-8", TOOL_NAME_SIZE_MAX);
  TRY(read_json(run, "arguments", call->arguments, &c.arguments, err));
  TRY(pd_run_add_call(run, call->id, &made, err));
  pd_code code = change_call(run, made, &c, err);
  if (code) pd_run_remove_call(run, made);
  return code;
}

pd_code pd_tool_call_new(pd_run_context *run, const pd_tool_call *call, pd_error *err)
{
  TRY(pd_run_check_open(run, err));
  TRY(pd_thread_id_check(call->id, "tool call", err));
  if (pd_run_find_call(run, call->id))
    return pd_error_named(err, PD_EXISTS, "ToolCallExists", "run '%s' has a tool call '%s' already", run->id, call->id);
  return make_call(run, call, PD_TOOL_NEW, err);
}

pd_code pd_tool_call_begin(pd_run_context *run, const pd_tool_call *call, pd_error *err)
{
  TRY(pd_run_check_open(run, err));
  TRY(pd_thread_id_check(call->id, "tool call", err));
  pd_run_call *known = pd_run_find_call(run, call->id);
  return known ? change_call(run, known, &(change){.to = PD_TOOL_RUNNING}, err) : make_call(run, call, PD_TOOL_RUNNING, err);
}

/* ---- patches ---- */

static pd_code try_both(pd_run_context *run, const pd_run_call *call, const pd_patches *before, const pd_patches *patches, pd_error *err)
{
  size_t mark = pd_doc_mark(run->doc);
  pd_code code = pd_run_try(run, before, PD_PATCH_OF_CALL, call->id, err);
  if (!code) code = pd_run_try(run, patches, PD_PATCH_OF_CALL, call->id, err);
  pd_doc_undo(run->doc, mark);
  return code;
}

/* Try all that the call has told, and this; then take it back: it is applied when the call ends. */
static pd_code try_patches(pd_run_context *run, const pd_run_call *call, const pd_patches *patches, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_patches_free_at) pd_patches *before = NULL;
  pd_json list;
  TRY(pd_run_items_write(&call->patches, &text, err));
  TRY(pd_json_parse(pd_buf_bytes(&text), &list, err));
  TRY(pd_patches_parse(list, &before, err));
  TRY(pd_run_need_part(run, before, patches, err));
  pd_code code = try_both(run, call, before, patches, run->is_part ? NULL : err);
  if (!code || !run->is_part) return code;
  TRY(pd_run_need_doc(run, err));
  return try_both(run, call, before, patches, err);
}

pd_code pd_tool_call_patch(pd_run_context *run, const char *call_id, pd_bytes patches, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_patches_free_at) pd_patches *parsed = NULL;
  pd_run_call *call;
  TRY(pd_run_check_open(run, err));
  TRY(pd_run_get_call(run, call_id, &call, err));
  if (call->status == PD_TOOL_SUSPENDED)
    return pd_error_named(err, PD_CONFLICT, "InvalidTransition", "tool call '%s' is suspended: it writes nothing", call_id);
  TRY(pd_run_check_room(run, call->patches.text.size + patches.size, call->patches.count, err));
  TRY(pd_run_read_patches(run, patches, call_id, &text, &parsed, err));
  TRY(pd_run_check_room(run, call->patches.text.size + text.size, call->patches.count + pd_patches_count(parsed), err));
  TRY(try_patches(run, call, parsed, err));
  return pd_run_items_add_list(&call->patches, pd_buf_bytes(&text), pd_patches_count(parsed), err);
}

/* ---- suspend, resume, end ---- */

/* Change a call that brings its patches into the delta. */
static pd_code bring(pd_run_context *run, pd_run_call *call, change *c, bool is_forced, pd_error *err)
{
  if (!is_forced) TRY(pd_run_check_conflicts(run, call, err));
  TRY(pd_run_check_room(run, call->patches.text.size, call->patches.count, err));
  TRY(pd_run_reserve_settled(run, err));
  TRY(pd_array_grow(&run->brought, run->brought_count, &run->brought_capacity, sizeof run->brought[0], "tool calls", err));
  c->brings = &call->patches;
  pd_run_brought brought = {.first = run->patches.count, .count = call->patches.count};
  TRY(change_call(run, call, c, err));
  if (brought.count) run->brought[run->brought_count++] = brought;
  pd_run_settle(run, call);
  return PD_OK;
}

pd_code pd_tool_call_suspend(pd_run_context *run, const char *call_id, pd_bytes request, pd_error *err)
{
  change c = {.to = PD_TOOL_SUSPENDED};
  pd_run_call *call;
  TRY(pd_run_check_open(run, err));
  TRY(pd_run_get_call(run, call_id, &call, err));
  TRY(read_json(run, "request", request, &c.request, err));
  return bring(run, call, &c, false, err);
}

static pd_code end_call(pd_run_context *run, pd_run_call *call, change *c, bool is_forced, pd_error *err)
{
  if (c->to == PD_TOOL_SUCCEEDED)
    TRY(bring(run, call, c, is_forced, err));
  else
    TRY(change_call(run, call, c, err));
  pd_run_remove_call(run, call);
  pd_run_forget_settled(run);
  return PD_OK;
}

pd_code pd_tool_call_end(pd_run_context *run, const char *call_id, const pd_tool_result *result, pd_error *err)
{
  change c = {.to = result->status};
  pd_run_call *call;
  TRY(pd_run_check_open(run, err));
  TRY(pd_run_get_call(run, call_id, &call, err));
  if (!pd_tool_status_is_final(result->status))
    return pd_error_set(err, PD_INVALID, "a tool call ends as succeeded, failed or cancelled, not as '%s'",
                        pd_tool_status_name(result->status));
  size_t size = run->messages.text.size, count = run->messages.count;
  if (result->message.size) TRY(pd_run_message(run, result->message, err));
  pd_code code = end_call(run, call, &c, result->is_forced, err);
  if (code) pd_run_items_cut(&run->messages, size, count);
  return code;
}

/* ---- decisions ---- */

static pd_code check_decision(const pd_decision *decision, pd_error *err)
{
  size_t size = decision->id ? strlen(decision->id) : 0;
  if (size && size <= PD_RUN_DECISION_ID_SIZE_MAX && pd_utf8_check(pd_text(decision->id))) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidId", "the id of a decision is 1 to %d bytes of UTF-8", PD_RUN_DECISION_ID_SIZE_MAX);
}

/* Was it applied before? */
static pd_code find_decision(pd_run_context *run, const char *call_id, const pd_decision *decision, bool *out, pd_error *err)
{
  TRY(pd_run_need_part(run, NULL, NULL, err));
  const pd_node *of_run = pd_node_member(pd_doc_root(run->doc), pd_text(PD_SCOPE_RUN_NAME));
  const pd_node *all = of_run ? pd_node_member(of_run, pd_text("decisions")) : NULL;
  const pd_node *found = all ? pd_node_member(all, pd_text(decision->id)) : NULL;
  *out = found && pd_json_is(pd_node_leaf(found), call_id);
  if (found && !*out)
    return pd_error_named(err, PD_CONFLICT, "DecisionUsed", "decision '%s' was applied to another tool call than '%s'", decision->id,
                          call_id);
  if (!found && all && pd_node_count(all) >= PD_RUN_DECISIONS_MAX)
    return pd_error_set(err, PD_LIMIT, "%d decisions were applied in run '%s', which is the limit", PD_RUN_DECISIONS_MAX, run->id);
  return PD_OK;
}

pd_code pd_tool_call_resume(pd_run_context *run, const char *call_id, const pd_decision *decision, bool *out_is_duplicate, pd_error *err)
{
  change c = {.to = decision->is_cancel ? PD_TOOL_CANCELLED : PD_TOOL_RESUMING, .decision = decision};
  pd_run_call *call;
  bool is_duplicate;
  TRY(pd_run_check_open(run, err));
  TRY(pd_thread_id_check(call_id, "tool call", err));
  TRY(check_decision(decision, err));
  TRY(find_decision(run, call_id, decision, &is_duplicate, err));
  if (out_is_duplicate) *out_is_duplicate = is_duplicate;
  if (is_duplicate) return PD_OK;
  TRY(pd_run_get_call(run, call_id, &call, err));
  if (call->status != PD_TOOL_SUSPENDED)
    return pd_error_named(err, PD_CONFLICT, "InvalidTransition", "tool call '%s' is %s: only one that is suspended can be decided", call_id,
                          pd_tool_status_name(call->status));
  TRY(read_json(run, "decision", decision->payload, &c.payload, err));
  if (decision->is_cancel) return end_call(run, call, &c, false, err);
  TRY(change_call(run, call, &c, err));
  call->began = ++run->tick;
  return PD_OK;
}
