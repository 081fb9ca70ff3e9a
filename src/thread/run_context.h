/*
 * run_context.h: the inside of a run, between the files run_*.c and tool_call*.c. The manual is <perdure/run.h>.
 *
 * U1  The delta's patches can be applied to the state at `version`, in order; `doc`, if there is one, is the result. What cannot be applied
 *     is refused when it is told, not at the checkpoint.
 * U2  The delta is emptied only when it is known to be committed, or was taken.
 * U3  `is_unsettled`: a commit was tried and it is not known whether it came about. Nothing is committed before that is known.
 * U4  A run that is done, failed or unsettled takes nothing new.
 * U5  The calls in memory are those of the state at `version` with the delta. When others made a newer version, run_rebase.c sees to it.
 */
#ifndef PD_THREAD_RUN_CONTEXT_H
#define PD_THREAD_RUN_CONTEXT_H

#include "base/doc.h"
#include "thread/part.h"
#include "thread/patch.h"
#include "thread/scope.h"

#include <perdure/run.h>

/* Items of a JSON array without its brackets: "{…},{…}". */
typedef struct pd_run_items {
  pd_buf text;
  size_t count;
} pd_run_items;

/* A tool call that is not settled. */
typedef struct pd_run_call {
  char id[PD_THREAD_ID_SIZE_MAX + 1];
  pd_tool_status status;
  pd_run_items patches; /* told by the call, not in the delta yet */
  uint64_t began;       /* the run's clock of calls when it last began to run here */
} pd_run_call;

/* What a call brought that ended while others were running. */
typedef struct pd_run_settled {
  char id[PD_THREAD_ID_SIZE_MAX + 1];
  pd_run_items patches;
  uint64_t ended;
} pd_run_settled;

/* Patches of the delta that a call brought: they stand before the patch that changes its status. */
typedef struct pd_run_brought {
  size_t first, count; /* places in the delta's patches */
  size_t moved;        /* where a rebase puts them */
  bool is_kept;        /* by a rebase */
} pd_run_brought;

struct pd_run_context {
  pd_thread *thread;
  char id[PD_THREAD_ID_SIZE_MAX + 1], parent_id[PD_THREAD_ID_SIZE_MAX + 1];
  char *author; /* NULL: the store's */
  const pd_scopes *scopes;
  pd_scopes *own_scopes; /* if none were given */
  pd_run_event_fn on_event;
  void *event_ctx;
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;
  pd_later **later; /* NULL: commits are waited for */

  char operation_id[PD_THREAD_OPERATION_SIZE_MAX + 1], operation_mark[PD_ID_HEX_SIZE]; /* of the next commit; "": none */
  uint64_t version;
  pd_run_phase status;
  pd_done_reason done_reason;
  bool has_failed;

  pd_run_items messages, patches, actions; /* the delta */
  pd_doc *doc;                             /* U1; NULL: not needed yet */
  bool is_part;                            /* the doc is a part of the state (part.h): what lies at part_paths */
  pd_touched part_paths;
  unsigned part_loads;

  bool is_unsettled; /* U3; what was tried at unsettled_version is the delta, unless it was taken */
  uint64_t unsettled_version;
  pd_reason unsettled_reason;
  pd_done_reason unsettled_done;
  size_t final_mark, final_count; /* where the run's own last patches begin in patches.text, and how many came before */

  pd_run_call calls[PD_RUN_CALLS_MAX];
  size_t call_count;
  pd_run_settled *settled;
  size_t settled_count, settled_capacity;
  uint64_t tick; /* counts begins and ends of calls */
  pd_run_brought *brought;
  size_t brought_count, brought_capacity;
};

/* ---- run_begin.c ---- */

int64_t pd_run_now(const pd_run_context *run);
/* PD_CONFLICT (RunDone, RunFailed) unless the run takes something new. U4. */
PD_MUST_USE pd_code pd_run_check_open(const pd_run_context *run, pd_error *err);
/* Fill in what belongs to every event, and call. */
void pd_run_emit(const pd_run_context *run, pd_run_event event);

/* ---- run_delta.c ---- */

void pd_run_items_done(pd_run_items *items);
/* Append one item, JSON on one line. */
PD_MUST_USE pd_code pd_run_items_add(pd_run_items *items, pd_bytes json, pd_error *err);
/* Append all items of "[…]", which are `count`. */
PD_MUST_USE pd_code pd_run_items_add_list(pd_run_items *items, pd_bytes list, size_t count, pd_error *err);
/* Append "[…]". */
PD_MUST_USE pd_code pd_run_items_write(const pd_run_items *items, pd_buf *out, pd_error *err);
void pd_run_items_cut(pd_run_items *items, size_t size, size_t count);

/* The delta has so many bytes and patches more: PD_LIMIT? */
PD_MUST_USE pd_code pd_run_check_room(const pd_run_context *run, size_t bytes, size_t patches, pd_error *err);

/* Forget the delta: it is committed, or taken. */
void pd_run_clear_delta(pd_run_context *run);
static inline bool pd_run_has_delta(const pd_run_context *run)
{
  return run->messages.count || run->patches.count || run->actions.count;
}

/* ---- run_doc.c ---- */

/* Have the whole doc. U1. */
PD_MUST_USE pd_code pd_run_need_doc(pd_run_context *run, pd_error *err);
/* Have a doc that the run's own paths and two lists (NULL is fine) can be read from and applied to; it may be a part, which refuses lists
 * that the whole may take: apply those to the whole, once more. */
PD_MUST_USE pd_code pd_run_need_part(pd_run_context *run, const pd_patches *patches, const pd_patches *more, pd_error *err);
void pd_run_drop_doc(pd_run_context *run);
/* The state of a version, without the delta. *out is yours. */
PD_MUST_USE pd_code pd_run_load_doc(pd_run_context *run, uint64_t version, pd_doc **out, pd_error *err);

/* ---- run_patch.c ---- */

static inline void pd_patches_free_at(pd_patches **patches)
{
  pd_patches_free(*patches);
}

typedef enum pd_patch_rights {
  PD_PATCH_OF_RUN = 0, /* nothing that is reserved or ToolCall-scoped */
  PD_PATCH_OF_CALL,    /* and the scope of its own call */
  PD_PATCH_INTERNAL    /* the run's own patches */
} pd_patch_rights;

/* Apply patches (a JSON array, parsed) to the doc and check what they touched; they can still be taken back to the mark. */
PD_MUST_USE pd_code pd_run_try(pd_run_context *run, const pd_patches *patches, pd_patch_rights rights, const char *call_id, pd_error *err);
/* Apply patches and put them into the delta; all or none. */
PD_MUST_USE pd_code pd_run_add_patches(pd_run_context *run, pd_bytes list, pd_patch_rights rights, const char *call_id, pd_error *err);
/* A list of patches as text: checked, with ToolCall-scoped paths below the call's scope if there is a call. Parsed from `out_text`. */
PD_MUST_USE pd_code pd_run_read_patches(const pd_run_context *run, pd_bytes list, const char *call_id, pd_buf *out_text, pd_patches **out,
                                        pd_error *err);
/* A writer for the run's own patches: [ {"op":"set","path":[…],"value":…}, … ]. */
void pd_patch_open(pd_json_writer *w, const char *op, const char *const *names, size_t count);

/* ---- run_checkpoint.c ---- */

/* Find out what became of the commit that was tried last, and where the thread is now. The run's last words are taken back, unless they
 * were committed. U3. */
PD_MUST_USE pd_code pd_run_settle_commit(pd_run_context *run, pd_error *err);
/* Take the run's last words out of the delta: they are told anew when it is finished again, perhaps for another reason. */
void pd_run_take_back_final(pd_run_context *run);
void pd_run_put_status(pd_json_writer *w, pd_run_phase status, pd_done_reason done, int64_t now_ms);
/* Append the patch that sets the run's status to what its calls say, if it is another; returns it. */
pd_run_phase pd_run_write_status(const pd_run_context *run, pd_json_writer *w);

/* ---- run_rebase.c ---- */

/* Be at a version that others made: the delta and the calls as they are then. Nothing has changed if it fails. U5. */
PD_MUST_USE pd_code pd_run_rebase(pd_run_context *run, uint64_t version, pd_error *err);

/* ---- tool_call.c ---- */

void pd_run_calls_done(pd_run_context *run);
/* NULL if there is no such call that is not settled. */
pd_run_call *pd_run_find_call(pd_run_context *run, const char *id);
/* PD_NOT_FOUND (ToolCallNotFound). */
PD_MUST_USE pd_code pd_run_get_call(pd_run_context *run, const char *id, pd_run_call **out, pd_error *err);
/* PD_LIMIT. The status is to be set. */
PD_MUST_USE pd_code pd_run_add_call(pd_run_context *run, const char *id, pd_run_call **out, pd_error *err);
void pd_run_remove_call(pd_run_context *run, pd_run_call *call);
/* Visit the calls that a state has; PD_CORRUPT if they are not as runs write them. */
PD_MUST_USE pd_code pd_run_visit_calls(const pd_run_context *run, const pd_doc *doc,
                                       pd_code (*visit)(void *ctx, const char *id, pd_tool_status status, pd_error *err), void *ctx,
                                       pd_error *err);
/* Read the calls from the doc, for pd_run_attach. */
PD_MUST_USE pd_code pd_run_read_calls(pd_run_context *run, pd_error *err);
/* Append patches that settle a call in the state: its last status, then its scope goes. With `is_last` the place of all scopes goes. */
void pd_tool_call_write_end(pd_json_writer *w, const char *call_id, pd_tool_status status, int64_t now_ms, bool is_last);
/* The second half of it. */
void pd_tool_call_write_delete(pd_json_writer *w, const char *call_id, bool is_last);
/* How many scopes of calls the state with the delta has. The doc must be there. */
size_t pd_run_count_scopes(const pd_run_context *run);

/* ---- tool_call_conflict.c ---- */

/* PD_CONFLICT (PatchConflict) if the call's patches conflict with those of a settled one that it ran in parallel with. */
PD_MUST_USE pd_code pd_run_check_conflicts(pd_run_context *run, const pd_run_call *call, pd_error *err);
/* Room to remember one more. */
PD_MUST_USE pd_code pd_run_reserve_settled(pd_run_context *run, pd_error *err);
/* Remember what a call brought, as long as others run that it ran in parallel with. Its patches are taken over. */
void pd_run_settle(pd_run_context *run, pd_run_call *call);
void pd_run_forget_settled(pd_run_context *run);

#endif
