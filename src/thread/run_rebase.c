/*
 * run_rebase.c: a run that finds its thread at a version that others made: another handle of the same run, in this process or another.
 *
 * What was told here is kept, what they committed stays. The state at the new version says which calls there are; the delta is gone through
 * once, patch by patch, beside that list:
 *
 * B1  A change of a call is kept if the call is there in the state (or was begun by this delta) and its status allows the change. If not,
 *     somebody else ended it or took it elsewhere: it is lost here, and what this delta says of it goes, with the patches that it brought.
 *     Those of a call are applied once, whoever ended it first.
 * B2  The patches that delete a call's scope, and the one that sets the run's status, are written anew, by the list as it is now. So all of
 *     /__tool_call_scope is deleted only when the state has no other call in it.
 * B3  Afterwards the calls in memory are those of the state with the delta. Nothing has changed if it fails.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/run_context.h"

#include <stdio.h>
#include <stdlib.h>

/* A call of the state with as much of the delta as was gone through. */
typedef struct known {
  char id[PD_THREAD_ID_SIZE_MAX + 1];
  pd_tool_status status; /* 0: it is not there */
  bool is_lost;          /* B1 */
} known;

typedef struct rebase {
  pd_run_context *run;
  pd_doc *doc; /* the state, without the delta */
  known *calls;
  size_t call_count, call_capacity;
  pd_buf text;   /* the delta's patches: "[…]" */
  pd_json *list; /* the same, one by one */
  size_t count;
  char ending[PD_THREAD_ID_SIZE_MAX + 1]; /* the call that the patch before ended; "": none */
  pd_run_items kept;
} rebase;

static void rebase_done(rebase *r)
{
  pd_doc_free(r->doc);
  free(r->calls);
  free(r->list);
  pd_buf_done(&r->text);
  pd_run_items_done(&r->kept);
}

/* ---- the calls ---- */

static known *find_known(rebase *r, const char *id)
{
  for (size_t i = 0; i < r->call_count; i++)
    if (strcmp(r->calls[i].id, id) == 0) return &r->calls[i];
  return NULL;
}

static pd_code add_known(rebase *r, const char *id, pd_tool_status status, known **out, pd_error *err)
{
  TRY(pd_array_grow(&r->calls, r->call_count, &r->call_capacity, sizeof r->calls[0], "tool calls", err));
  *out = &r->calls[r->call_count++];
  **out = (known){.status = status};
  snprintf((*out)->id, sizeof(*out)->id, "%s", id);
  return PD_OK;
}

static bool is_open(const known *call)
{
  return call->status && !pd_tool_status_is_final(call->status);
}

static size_t count_open(const rebase *r)
{
  size_t count = 0;
  for (size_t i = 0; i < r->call_count; i++) count += is_open(&r->calls[i]);
  return count;
}

static pd_code note_call(void *ctx, const char *id, pd_tool_status status, pd_error *err)
{
  known *made;
  return add_known(ctx, id, status, &made, err);
}

/* ---- the patches of the delta ---- */

typedef enum patch_kind {
  PATCH_PLAIN = 0,
  PATCH_STATUS,   /* of the run: written anew */
  PATCH_DECISION, /* the patch behind it is the call's change */
  PATCH_BEGIN,    /* of a call: all of its state */
  PATCH_CHANGE,   /* of a call: its status */
  PATCH_SCOPE,    /* something in a call's scope */
  PATCH_END       /* the scope of a call goes, or all scopes with the last one */
} patch_kind;

typedef struct patch {
  patch_kind kind;
  char call_id[PD_THREAD_ID_SIZE_MAX + 1]; /* "": the one that the patch before ended */
  char decision[PD_RUN_DECISION_ID_SIZE_MAX + 1];
  pd_tool_status to;
} patch;

static void copy_text(pd_bytes text, char *out, size_t size)
{
  snprintf(out, size, "%.*s", (int)(text.size < size ? text.size : size - 1), (const char *)text.data);
}

static bool is_name(const pd_doc_path *path, size_t index, const char *name)
{
  return path->count > index && pd_bytes_equal(path->steps[index].name, pd_text(name));
}

static void read_call_patch(pd_json json, const pd_doc_path *path, patch *out)
{
  char status[32];
  bool is_state = path->count == 3 && is_name(path, 2, PD_SCOPE_CALL_STATE_NAME);
  bool is_delete = pd_json_is(pd_json_member(json, "op"), "delete");
  out->kind = is_delete && path->count <= 2 ? PATCH_END : is_state ? PATCH_CHANGE : PATCH_SCOPE;
  if (path->count > 1) copy_text(path->steps[1].name, out->call_id, sizeof out->call_id);
  if (!is_state) return;
  if (pd_json_is(pd_json_member(json, "op"), "set")) out->kind = PATCH_BEGIN;
  (void)!pd_json_copy_text(pd_json_member(pd_json_member(json, "value"), "status"), status, sizeof status);
  out->to = pd_tool_status_parse(status);
}

/* What a patch of the delta is. Runs write the patches of these places themselves, so their form is known. */
static pd_code read_patch(pd_json json, patch *out, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  *out = (patch){0};
  TRY(pd_doc_path_parse(pd_json_member(json, "path"), &path, err));
  if (is_name(&path, 0, PD_SCOPE_CALLS_NAME)) read_call_patch(json, &path, out);
  if (!is_name(&path, 0, PD_SCOPE_RUN_NAME)) return PD_OK;
  if (path.count == 1) out->kind = PATCH_STATUS;
  if (path.count != 3 || !is_name(&path, 1, "decisions")) return PD_OK;
  out->kind = PATCH_DECISION;
  copy_text(path.steps[2].name, out->decision, sizeof out->decision);
  (void)!pd_json_copy_text(pd_json_member(json, "value"), out->call_id, sizeof out->call_id);
  return PD_OK;
}

static bool is_decided(const rebase *r, const char *decision)
{
  const pd_node *of_run = pd_node_member(pd_doc_root(r->doc), pd_text(PD_SCOPE_RUN_NAME));
  const pd_node *all = of_run ? pd_node_member(of_run, pd_text("decisions")) : NULL;
  return all && pd_node_member(all, pd_text(decision));
}

/* B1: may this change of a call still be made? */
static bool may_change(rebase *r, const patch *p)
{
  known *call = find_known(r, p->call_id);
  if (p->kind == PATCH_BEGIN) return p->to && (!call || !is_open(call));
  return call && !call->is_lost && pd_tool_status_may(call->status, p->to);
}

/* From here on, what the delta says of the call goes. */
static pd_code lose(rebase *r, const char *call_id, pd_error *err)
{
  known *call = find_known(r, call_id);
  if (!call) TRY(add_known(r, call_id, 0, &call, err));
  call->is_lost = true;
  return PD_OK;
}

static pd_code keep(rebase *r, pd_json json, pd_error *err)
{
  return pd_run_items_add(&r->kept, json.raw, err);
}

/* ---- going through them ---- */

static pd_code take_change(rebase *r, const patch *p, pd_json json, pd_error *err)
{
  known *call = find_known(r, p->call_id);
  if (!may_change(r, p)) return lose(r, p->call_id, err);
  if (!call) TRY(add_known(r, p->call_id, 0, &call, err));
  call->status = p->to;
  call->is_lost = false;
  if (pd_tool_status_is_final(p->to)) strcpy(r->ending, p->call_id);
  return keep(r, json, err);
}

static pd_code take_end(rebase *r, const patch *p, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  const char *id = *p->call_id ? p->call_id : r->ending;
  known *call = find_known(r, id);
  if (!call || call->is_lost || !pd_tool_status_is_final(call->status)) return PD_OK;
  call->status = 0;
  pd_tool_call_write_delete(&w, id, count_open(r) == 0); /* B2 */
  TRY(w.code);
  return pd_run_items_add(&r->kept, pd_buf_bytes(&text), err);
}

/* A decision goes with the change that it causes. */
static pd_code take_decision(rebase *r, size_t index, const patch *p, pd_error *err)
{
  patch next = {0};
  if (index + 1 < r->count) TRY(read_patch(r->list[index + 1], &next, err));
  bool is_kept = !is_decided(r, p->decision) && strcmp(next.call_id, p->call_id) == 0 && may_change(r, &next);
  return is_kept ? keep(r, r->list[index], err) : lose(r, p->call_id, err);
}

static pd_code take_patch(rebase *r, size_t index, pd_error *err)
{
  patch p;
  TRY(read_patch(r->list[index], &p, err));
  const known *call = find_known(r, p.call_id);
  switch (p.kind) {
  case PATCH_PLAIN: return keep(r, r->list[index], err);
  case PATCH_STATUS: return PD_OK; /* B2 */
  case PATCH_DECISION: return take_decision(r, index, &p, err);
  case PATCH_BEGIN:
  case PATCH_CHANGE: return take_change(r, &p, r->list[index], err);
  case PATCH_SCOPE: return call && is_open(call) && !call->is_lost ? keep(r, r->list[index], err) : PD_OK;
  case PATCH_END: return take_end(r, &p, err);
  }
  return PD_OK;
}

/* The patches that a call brought stand before its change: they are kept if that is. Returns how many stand here in *out. */
static pd_code skip_brought(rebase *r, size_t index, size_t *out, pd_error *err)
{
  *out = 0;
  for (size_t i = 0; i < r->run->brought_count; i++) {
    pd_run_brought *b = &r->run->brought[i];
    patch next = {0};
    if (b->first != index || !b->count || b->first + b->count >= r->count) continue;
    TRY(read_patch(r->list[b->first + b->count], &next, err));
    b->is_kept = may_change(r, &next);
    b->moved = r->kept.count;
    if (b->is_kept) return PD_OK;
    *out = b->count;
    return lose(r, next.call_id, err);
  }
  return PD_OK;
}

static pd_code take_all(rebase *r, pd_error *err)
{
  for (size_t i = 0; i < r->count;) {
    size_t skipped;
    TRY(skip_brought(r, i, &skipped, err));
    if (!skipped) TRY(take_patch(r, i, err));
    i += skipped ? skipped : 1;
  }
  return PD_OK;
}

static pd_code list_patches(rebase *r, pd_error *err)
{
  pd_json all, item;
  TRY(pd_run_items_write(&r->run->patches, &r->text, err));
  TRY(pd_json_parse(pd_buf_bytes(&r->text), &all, err));
  r->list = calloc(r->run->patches.count + 1, sizeof *r->list);
  if (!r->list) return pd_error_memory(err, "a delta");
  pd_json_walk walk = pd_json_walk_begin(all);
  while (r->count < r->run->patches.count && pd_json_walk_next(&walk, NULL, &item)) r->list[r->count++] = item;
  return PD_OK;
}

/* ---- the run's status ---- */

static pd_run_phase wanted_status(const rebase *r)
{
  size_t suspended = 0, open = count_open(r);
  for (size_t i = 0; i < r->call_count; i++) suspended += r->calls[i].status == PD_TOOL_SUSPENDED;
  return open && suspended == open ? PD_PHASE_WAITING : PD_PHASE_RUNNING;
}

static bool is_stored_status(const rebase *r, pd_run_phase status)
{
  const pd_node *of_run = pd_node_member(pd_doc_root(r->doc), pd_text(PD_SCOPE_RUN_NAME));
  const pd_node *is = of_run ? pd_node_member(of_run, pd_text("status")) : NULL;
  return is && pd_json_is(pd_node_leaf(is), pd_run_phase_name(status));
}

/* Only a delta that is committed carries a status: what others committed has the right one. */
static pd_code add_status(rebase *r, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_run_phase wanted = wanted_status(r);
  if (is_stored_status(r, wanted) || !r->kept.count) return PD_OK;
  pd_run_put_status(&w, wanted, PD_DONE_NONE, pd_run_now(r->run));
  TRY(w.code);
  return pd_run_items_add(&r->kept, pd_buf_bytes(&text), err);
}

/* ---- into the run: nothing fails any more ---- */

static void tell_call(const pd_run_context *run, const char *id, pd_tool_status status)
{
  pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_TOOL_CALL, .call_id = id, .call_status = status, .status = run->status});
}

/* The handle's own calls: what became of them. */
static void follow_calls(rebase *r)
{
  pd_run_context *run = r->run;
  for (size_t i = run->call_count; i-- > 0;) {
    pd_run_call *mine = &run->calls[i];
    const known *is = find_known(r, mine->id);
    if (!is || !is_open(is)) {
      char id[PD_THREAD_ID_SIZE_MAX + 1];
      strcpy(id, mine->id);
      pd_run_remove_call(run, mine);
      tell_call(run, id, PD_TOOL_CANCELLED);
    } else if (mine->status != is->status) {
      mine->status = is->status;
      mine->began = ++run->tick;
      tell_call(run, mine->id, mine->status);
    }
  }
}

static void add_others(rebase *r)
{
  pd_run_call *made;
  for (size_t i = 0; i < r->call_count; i++) {
    const known *is = &r->calls[i];
    if (!is_open(is) || pd_run_find_call(r->run, is->id) || pd_run_add_call(r->run, is->id, &made, NULL)) continue;
    made->status = is->status;
    tell_call(r->run, is->id, is->status);
  }
}

static void move_brought(pd_run_context *run)
{
  size_t kept = 0;
  for (size_t i = 0; i < run->brought_count; i++)
    if (run->brought[i].is_kept) run->brought[kept++] = (pd_run_brought){.first = run->brought[i].moved, .count = run->brought[i].count};
  run->brought_count = kept;
}

static void take_over(rebase *r, uint64_t version)
{
  pd_run_context *run = r->run;
  pd_run_phase wanted = wanted_status(r);
  bool is_other = wanted != run->status;
  pd_run_items_done(&run->patches);
  run->patches = r->kept;
  r->kept = (pd_run_items){0};
  move_brought(run);
  run->version = version;
  run->status = wanted;
  pd_run_drop_doc(run);
  follow_calls(r);
  add_others(r);
  pd_run_forget_settled(run);
  if (is_other) pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_STATUS, .status = wanted});
}

pd_code pd_run_rebase(pd_run_context *run, uint64_t version, pd_error *err)
{
  CLEANUP(rebase_done) rebase r = {.run = run};
  for (size_t i = 0; i < run->brought_count; i++) run->brought[i].is_kept = false;
  TRY(pd_run_load_doc(run, version, &r.doc, err));
  TRY(pd_run_visit_calls(run, r.doc, note_call, &r, err));
  TRY(list_patches(&r, err));
  TRY(take_all(&r, err));
  TRY(add_status(&r, err));
  if (count_open(&r) > PD_RUN_CALLS_MAX)
    return pd_error_set(err, PD_LIMIT, "run '%s' has %zu tool calls that are not settled, with those of others; the limit is %d", run->id,
                        count_open(&r), PD_RUN_CALLS_MAX);
  take_over(&r, version);
  return PD_OK;
}
