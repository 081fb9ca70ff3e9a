/*
 * tool_call_conflict.c: tool calls that run in parallel and write the same paths. Two calls ran in parallel if one ended after the other
 * began; what a call brought is remembered as long as there are such others.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/run_context.h"

#include <stdlib.h>

/* ---- remembering ---- */

pd_code pd_run_reserve_settled(pd_run_context *run, pd_error *err)
{
  return pd_array_grow(&run->settled, run->settled_count, &run->settled_capacity, sizeof run->settled[0], "tool calls", err);
}

void pd_run_settle(pd_run_context *run, pd_run_call *call)
{
  pd_run_settled *made = &run->settled[run->settled_count];
  if (!call->patches.count) return;
  *made = (pd_run_settled){.patches = call->patches, .ended = ++run->tick};
  strcpy(made->id, call->id);
  call->patches = (pd_run_items){0};
  run->settled_count++;
  pd_run_forget_settled(run);
}

/* Does a call run that was there before this one ended? A suspended call writes nothing, and begins anew when it goes on. */
static bool is_needed(const pd_run_context *run, const pd_run_settled *settled)
{
  for (size_t i = 0; i < run->call_count; i++) {
    const pd_run_call *call = &run->calls[i];
    if (call->status != PD_TOOL_SUSPENDED && !pd_tool_status_is_final(call->status) && call->began < settled->ended) return true;
  }
  return false;
}

void pd_run_forget_settled(pd_run_context *run)
{
  size_t kept = 0;
  for (size_t i = 0; i < run->settled_count; i++) {
    if (is_needed(run, &run->settled[i]))
      run->settled[kept++] = run->settled[i];
    else
      pd_run_items_done(&run->settled[i].patches);
  }
  run->settled_count = kept;
}

/* ---- comparing ---- */

/* A list of patches as text and parsed. */
typedef struct parsed {
  pd_buf text;
  pd_patches *list;
} parsed;

static void parsed_done(parsed *p)
{
  pd_patches_free(p->list);
  pd_buf_done(&p->text);
}

static pd_code parse(const pd_run_items *items, parsed *out, pd_error *err)
{
  pd_json json;
  TRY(pd_run_items_write(items, &out->text, err));
  TRY(pd_json_parse(pd_buf_bytes(&out->text), &json, err));
  return pd_patches_parse(json, &out->list, err);
}

typedef struct visit_job {
  const char *call_id, *other_id;
  bool is_settled;
  void (*visit)(void *ctx, const pd_tool_conflict *conflict);
  void *ctx;
} visit_job;

static pd_code visit_one(void *ctx, const pd_patch_conflict *conflict, pd_error *err)
{
  const visit_job *job = ctx;
  CLEANUP(pd_buf_done) pd_buf a = {0}, b = {0};
  TRY(pd_doc_path_write(conflict->a_path->steps, conflict->a_path->count, &a, err));
  TRY(pd_doc_path_write(conflict->b_path->steps, conflict->b_path->count, &b, err));
  TRY(pd_buf_byte(&a, 0, err));
  TRY(pd_buf_byte(&b, 0, err));
  job->visit(job->ctx, &(pd_tool_conflict){.call_id = job->call_id,
                                           .other_id = job->other_id,
                                           .path = (const char *)a.data,
                                           .other_path = (const char *)b.data,
                                           .op = conflict->a_op,
                                           .other_op = conflict->b_op,
                                           .is_settled = job->is_settled});
  return PD_OK;
}

static pd_code compare(const parsed *mine, const pd_run_items *others, visit_job *job, pd_error *err)
{
  CLEANUP(parsed_done) parsed theirs = {0};
  TRY(parse(others, &theirs, err));
  return pd_patches_conflicts(mine->list, theirs.list, visit_one, job, err);
}

static pd_code compare_settled(pd_run_context *run, const pd_run_call *call, const parsed *mine, visit_job *job, pd_error *err)
{
  job->is_settled = true;
  for (size_t i = 0; i < run->settled_count; i++) {
    job->other_id = run->settled[i].id;
    if (run->settled[i].ended > call->began) TRY(compare(mine, &run->settled[i].patches, job, err));
  }
  return PD_OK;
}

typedef struct first {
  pd_error why;
  bool is_found;
} first;

static void keep_first(void *ctx, const pd_tool_conflict *c)
{
  first *f = ctx;
  if (f->is_found) return;
  f->is_found = true;
  pd_error_named(&f->why, PD_CONFLICT, "PatchConflict",
                 "tool calls '%s' and '%s' ran in parallel, and both write: %s of '%.150s' by '%s', %s of '%.150s' by '%s'", c->call_id,
                 c->other_id, c->op, c->path, c->call_id, c->other_op, c->other_path, c->other_id);
}

pd_code pd_run_check_conflicts(pd_run_context *run, const pd_run_call *call, pd_error *err)
{
  CLEANUP(parsed_done) parsed mine = {0};
  first found = {0};
  visit_job job = {.call_id = call->id, .visit = keep_first, .ctx = &found};
  if (!run->settled_count || !call->patches.count) return PD_OK;
  TRY(parse(&call->patches, &mine, err));
  TRY(compare_settled(run, call, &mine, &job, err));
  if (!found.is_found) return PD_OK;
  if (err) *err = found.why;
  return PD_CONFLICT;
}

pd_code pd_tool_call_conflicts(pd_run_context *run, const char *call_id, void (*visit)(void *ctx, const pd_tool_conflict *conflict),
                               void *ctx, pd_error *err)
{
  CLEANUP(parsed_done) parsed mine = {0};
  pd_run_call *call;
  visit_job job = {.visit = visit, .ctx = ctx};
  TRY(pd_run_get_call(run, call_id, &call, err));
  job.call_id = call->id;
  TRY(parse(&call->patches, &mine, err));
  TRY(compare_settled(run, call, &mine, &job, err));
  job.is_settled = false;
  for (size_t i = 0; i < run->call_count; i++) {
    job.other_id = run->calls[i].id;
    if (&run->calls[i] != call) TRY(compare(&mine, &run->calls[i].patches, &job, err));
  }
  return PD_OK;
}
