/*
 * run.h: runs of a thread: what an agent's loop tells while it works, and when it becomes durable. Included by perdure.h; threads and
 * change sets are in thread.h.
 *
 *     pd_run_context *run = NULL;
 *     pd_run_options options = {.run_id = "run-7", .messages = inbound, .on_event = tell};
 *     if (pd_run_begin(thread, &options, &run, &err)) …                                       // A: inbound, UserMessage
 *     …what the run's start brings: pd_run_patch…
 *     pd_run_checkpoint(run, PD_REASON_USER_MESSAGE, NULL, &err);                             // B1
 *     …replay of what was decided: pd_tool_call_resume, _begin, _end…
 *     pd_run_checkpoint(run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &err);                   // B2
 *     for (;;) {
 *       pd_run_message(run, assistant_message, &err);
 *       pd_run_checkpoint(run, PD_REASON_ASSISTANT_TURN_COMMITTED, NULL, &err);               // B3
 *       …pd_tool_call_begin, pd_tool_call_patch, pd_tool_call_end (or _suspend), for each call…
 *       pd_run_checkpoint(run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &err);                 // B4
 *     }
 *     pd_run_finish(run, PD_DONE_NATURAL, NULL, &err);                                        // B5: RunFinished, always a commit
 *     pd_run_close(run);
 *
 * DELTA       What was told since the last checkpoint: messages, patches, state actions. A checkpoint commits it as one change set at the
 *             exact version that the run knows, and writes the new version back; without a delta it commits nothing. pd_run_state shows
 *             the thread's state with the delta applied.
 * FAILURES    A checkpoint that fails fails the run: a state error is emitted, and from then on the run takes nothing new. Its delta is not
 *             lost: checkpoint again when the cause is gone (pd_run_checkpoint), or take it (pd_run_take_delta), and finish with
 *             PD_DONE_ERROR. If the final checkpoint fails, an error is emitted and the finish event is not; pd_run_finish again. What was
 *             committed although its answer failed is recognised: nothing is committed twice.
 * TWO HANDLES Two handles may hold one run, in two processes. The one whose checkpoint finds other versions answers VersionConflict; the
 *             next checkpoint lays its delta over what the others committed: their tool calls stay, and this handle has them then. A call
 *             that they ended is lost here: it is told as cancelled, and what it brought is dropped. A checkpoint without a delta takes in
 *             what others committed (a decision, say) and fails nothing.
 * ONE RUN     A thread has one active run at a time, whichever processes ask: pd_run_begin answers PD_CONFLICT (RunActive). A run whose
 *             process died stays active: pd_run_attach goes on with it, or attach and finish it with PD_DONE_ERROR.
 * SCOPES      Paths of scope Run are deleted before the next run is marked running; those of scope ToolCall live below
 *             /__tool_call_scope/CALL and go when the call completes; all others are the thread's. The run keeps its own status in /__run.
 * HANDLES     A pd_run_context belongs to one thread of execution at a time and borrows its pd_thread, which nobody else may use meanwhile.
 */
#ifndef PERDURE_RUN_H
#define PERDURE_RUN_H

#include <perdure/thread.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_RUN_CALLS_MAX 100 /* tool calls of a run that are not settled */
#define PD_RUN_DECISION_ID_SIZE_MAX 256
#define PD_RUN_DECISIONS_MAX 10000                             /* applied in one run */
#define PD_RUN_PATCHES_MAX 9000                                /* between two checkpoints */
#define PD_RUN_DELTA_SIZE_MAX (PD_CHANGESET_SIZE_MAX - 262144) /* bytes between two checkpoints; the rest is for the run's own patches */
#define PD_SCOPES_MAX 1000

/* ---- state machines ------------------------------------------------------------------------------------------------ */

typedef enum pd_run_phase {
  PD_PHASE_RUNNING = 1,
  PD_PHASE_WAITING = 2, /* every tool call that is not settled is suspended */
  PD_PHASE_DONE = 3,    /* never reopened */
  PD_PHASE_COUNT
} pd_run_phase;

typedef enum pd_done_reason {
  PD_DONE_NONE = 0, /* not done */
  PD_DONE_NATURAL = 1,
  PD_DONE_CANCELLED = 2,
  PD_DONE_ERROR = 3,
  PD_DONE_STOPPED = 4,
  PD_DONE_COUNT
} pd_done_reason;

typedef enum pd_tool_status {
  PD_TOOL_NEW = 1,
  PD_TOOL_RUNNING = 2,
  PD_TOOL_SUSPENDED = 3, /* waits for a decision */
  PD_TOOL_RESUMING = 4,  /* decided, not running yet */
  PD_TOOL_SUCCEEDED = 5,
  PD_TOOL_FAILED = 6,
  PD_TOOL_CANCELLED = 7,
  PD_TOOL_STATUS_COUNT
} pd_tool_status;

/* "running", "waiting", "done"; "natural", "cancelled", "error", "stopped"; "new", "running", "suspended", "resuming", "succeeded",
 * "failed", "cancelled"; "" for other numbers. Static storage. The parsers answer 0 for other texts. */
PD_API const char *pd_run_phase_name(pd_run_phase status);
PD_API pd_run_phase pd_run_phase_parse(const char *name);
PD_API const char *pd_done_reason_name(pd_done_reason reason);
PD_API pd_done_reason pd_done_reason_parse(const char *name);
PD_API const char *pd_tool_status_name(pd_tool_status status);
PD_API pd_tool_status pd_tool_status_parse(const char *name);
/* May it go from one to the other? Never from a state to itself. `from` 0: it is made. */
PD_API bool pd_run_phase_may(pd_run_phase from, pd_run_phase to);
PD_API bool pd_tool_status_may(pd_tool_status from, pd_tool_status to);
/* Succeeded, failed, cancelled. */
PD_API bool pd_tool_status_is_final(pd_tool_status status);

/* ---- scopes -------------------------------------------------------------------------------------------------------- */

typedef enum pd_scope {
  PD_SCOPE_THREAD = 1,    /* stays until somebody removes it */
  PD_SCOPE_RUN = 2,       /* deleted before each new run */
  PD_SCOPE_TOOL_CALL = 3, /* below /__tool_call_scope/CALL, deleted when the call completes */
  PD_SCOPE_COUNT
} pd_scope;

/* "thread", "run", "tool_call"; "" and 0 for others. */
PD_API const char *pd_scope_name(pd_scope scope);
PD_API pd_scope pd_scope_parse(const char *name);

/* A registry of paths. What it does not know is the thread's. Not for two threads of execution at once, unless all only read. */
typedef struct pd_scopes pd_scopes;

/* With /__run and /__kernel/stop_policy_runtime, which are Run-scoped. /__tool_call_scope needs no entry: it is the tool calls' own. */
PD_API PD_MUST_USE pd_code pd_scopes_new(pd_scopes **out, pd_error *err);
/* Takes NULL. */
PD_API void pd_scopes_free(pd_scopes *scopes);
/* `path`: a JSON Pointer ("/plugin/counters"), or names with dots between ("plugin.counters"). The same path with the same scope again is
 * no error. PD_INVALID (InvalidScope) where two scopes overlap (a Run path inside a Thread path may), for the root, and inside
 * /__tool_call_scope; PD_LIMIT. */
PD_API PD_MUST_USE pd_code pd_scopes_add(pd_scopes *scopes, const char *path, pd_scope scope, pd_error *err);
/* The scope that what is at `path` has. */
PD_API PD_MUST_USE pd_code pd_scopes_find(const pd_scopes *scopes, const char *path, pd_scope *out, pd_error *err);
/* Visit the paths of a scope (0: all) as JSON Pointers, in the order in which they were added: run_scoped_paths(). */
PD_API PD_MUST_USE pd_code pd_scopes_list(const pd_scopes *scopes, pd_scope scope,
                                          void (*visit)(void *ctx, const char *path, pd_scope scope), void *ctx, pd_error *err);

/* ---- events -------------------------------------------------------------------------------------------------------- */

typedef enum pd_run_event_kind {
  PD_RUN_EVENT_STARTED = 1,     /* marked running, durably */
  PD_RUN_EVENT_CHECKPOINT = 2,  /* committed: reason, version */
  PD_RUN_EVENT_STATUS = 3,      /* running or waiting; durable with the next checkpoint */
  PD_RUN_EVENT_TOOL_CALL = 4,   /* a call has another status; durable with the next checkpoint */
  PD_RUN_EVENT_STATE_ERROR = 5, /* a checkpoint failed, and so has the run: reason, error */
  PD_RUN_EVENT_ERROR = 6,       /* the final checkpoint failed: error. No FINISHED comes, unless finishing again succeeds */
  PD_RUN_EVENT_FINISHED = 7,    /* done, durably: done_reason, version. Once */
  PD_RUN_EVENT_COUNT
} pd_run_event_kind;

/* "run_started", "checkpoint", "run_status", "tool_call", "state_error", "error", "run_finished"; "" for other numbers. */
PD_API const char *pd_run_event_name(pd_run_event_kind kind);

/* What a kind does not name is zero, or "". Borrowed until the callback returns, which must not call the run. */
typedef struct pd_run_event {
  pd_run_event_kind kind;
  const char *thread_id, *run_id;
  uint64_t version; /* the thread's, as the run knows it */
  pd_reason reason;
  pd_run_phase status;
  pd_done_reason done_reason;
  const char *call_id;
  pd_tool_status call_status;
  const pd_error *error;
} pd_run_event;

typedef void (*pd_run_event_fn)(void *ctx, const pd_run_event *event);

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

typedef struct pd_run_context pd_run_context;

/* Texts and JSON are copied, or used up when the call returns. */
typedef struct pd_run_options {
  const char *run_id;        /* NULL: a new one, 32 hex digits */
  const char *parent_run_id; /* NULL: none */
  pd_bytes meta;             /* run_meta: a JSON object; empty: none */
  pd_bytes messages;         /* inbound: a JSON array; those that the thread has already are dropped */
  pd_bytes snapshot;         /* inbound: a JSON object that replaces the thread's state; empty: none */
  const pd_scopes *scopes;   /* borrowed until pd_run_close; NULL: the built-in ones */
  const char *author;        /* of the commits; NULL: the store's */
  pd_run_event_fn on_event;  /* NULL: nobody listens */
  void *event_ctx;
  int64_t (*now_ms)(void *ctx); /* NULL: the system's clock */
  void *now_ctx;
  pd_later **later; /* as note.later (perdure.h), for the next commit; after that the run is closed. Borrowed. Most often NULL */
} pd_run_options;

/* Begin a run. One change set, UserMessage, all or nothing: the snapshot, the inbound messages, then prepare_run: every Run-scoped path
 * that is present (by this registry and by that of the run before) is deleted, and what tool calls left behind; then the run is marked
 * running. PD_CONFLICT (RunActive), PD_EXISTS (RunExists: the id was used before; runs are never reopened), and what pd_thread_append
 * answers. A commit that fails is emitted as a state error. `thread` is borrowed until pd_run_close. `options` may be NULL. */
PD_API PD_MUST_USE pd_code pd_run_begin(pd_thread *thread, const pd_run_options *options, pd_run_context **out, pd_error *err);

/* Go on with a run that was begun before, here or in another process: options->run_id (NULL: the active one); meta, messages and snapshot
 * must be empty. Its tool calls are as they were committed. A run that is done can be attached to, and answers PD_CONFLICT (RunDone) to
 * everything but questions and a duplicate finish. PD_NOT_FOUND (RunNotFound); PD_CONFLICT (RunNotActive) for a run that was neither
 * finished nor is active: the thread was forked or rewound. */
PD_API PD_MUST_USE pd_code pd_run_attach(pd_thread *thread, const pd_run_options *options, pd_run_context **out, pd_error *err);

/* Takes NULL. The run itself stays as it was committed; a delta that was not is lost. */
PD_API void pd_run_close(pd_run_context *run);

typedef struct pd_run_info {
  const char *run_id, *parent_run_id; /* "" if none. Borrowed until pd_run_close */
  pd_run_phase status;
  pd_done_reason done_reason;
  bool has_failed;                         /* a checkpoint failed */
  uint64_t version;                        /* of the thread, as committed last or seen by pd_run_attach */
  size_t messages, patches, state_actions; /* of the delta */
  size_t calls;                            /* tool calls that are not settled */
} pd_run_info;

PD_API pd_run_info pd_run_info_get(const pd_run_context *run);

/* ---- the delta ----------------------------------------------------------------------------------------------------- */

/* All of these: PD_CONFLICT (RunDone, RunFailed); PD_LIMIT past PD_RUN_DELTA_SIZE_MAX: checkpoint first. On an error nothing has changed.
 * */

/* A message: a JSON object with a string "id". */
PD_API PD_MUST_USE pd_code pd_run_message(pd_run_context *run, pd_bytes message, pd_error *err);
/* Patches: a JSON array (docs/guide/patches.md), tried on the state at once. PD_INVALID (InvalidPatch; ReservedPath for /__run and
 * /__tool_call_scope; InvalidScope for a ToolCall-scoped path, which only a tool call may write). */
PD_API PD_MUST_USE pd_code pd_run_patch(pd_run_context *run, pd_bytes patches, pd_error *err);
/* A state action: a JSON object, kept with the change set and not interpreted. */
PD_API PD_MUST_USE pd_code pd_run_action(pd_run_context *run, pd_bytes action, pd_error *err);

/* The state with the delta applied, or what is at `path` in it (a JSON Pointer; NULL or "": all). PD_NOT_FOUND (PathNotFound). */
PD_API PD_MUST_USE pd_code pd_run_state(pd_run_context *run, const char *path, pd_buf *out, pd_error *err);

/* Take the delta: {"messages":[…],"patches":[…],"state_actions":[…]}. It is yours then: the run forgets it. Works on a failed run, too. */
PD_API PD_MUST_USE pd_code pd_run_take_delta(pd_run_context *run, pd_buf *out, pd_error *err);
/* Give one back: it comes before what was told since. Works on a failed run, too, and with a delta of a run that is no more. */
PD_API PD_MUST_USE pd_code pd_run_put_delta(pd_run_context *run, pd_bytes delta, pd_error *err);

/* ---- checkpoints --------------------------------------------------------------------------------------------------- */

typedef struct pd_run_ack {
  uint64_t version;  /* of the thread now */
  bool is_committed; /* false: there was no delta; or a duplicate */
  bool
    is_duplicate; /* pd_run_finish: the run was done already, with this reason. Or its operation was committed before: pd_run_operation */
  bool was_committed; /* an earlier call committed it, and only its answer failed */
  pd_thread_ack ack;  /* of the commit, if is_committed */
} pd_run_ack;

/* Commit the delta. `reason` is any but RunFinished. Without a delta nothing is committed, which is no error; what others committed since
 * is taken in. If it fails the run has failed (FAILURES above); calling it again then first looks whether the commit came about all the
 * same, then takes the newest version and commits again (TWO HANDLES above): the run stays failed. PD_CONFLICT: VersionConflict (somebody
 * else appended), RunLost (the run is no longer active), RunDone. `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_run_checkpoint(pd_run_context *run, pd_reason reason, pd_run_ack *out, pd_error *err);

/* Name what is told from now on up to the next checkpoint or finish, so that it can be told again after an answer that was lost, by this
 * process or another: if an operation of that id was committed before, that checkpoint commits nothing, and says is_duplicate and the
 * version of the first time. Ids and marks are those of pd_changeset (thread.h); `mark` NULL: any content is taken for the same. NULL as
 * id: none. A checkpoint without a delta leaves no trace of it. PD_INVALID (InvalidId). */
PD_API PD_MUST_USE pd_code pd_run_operation(pd_run_context *run, const char *operation_id, const char *mark, pd_error *err);

/* End the run: a RunFinished checkpoint, also without a delta. Tool calls that are not settled are cancelled, unless the reason is
 * PD_DONE_NATURAL: PD_CONFLICT (ToolCallsOpen). A failed run can be finished with PD_DONE_ERROR alone (RunFailed). Finishing a run that is
 * done, with the same reason, is PD_OK and is_duplicate: nothing is committed or emitted; with another reason PD_CONFLICT (RunDone). */
PD_API PD_MUST_USE pd_code pd_run_finish(pd_run_context *run, pd_done_reason reason, pd_run_ack *out, pd_error *err);

/* ---- tool calls ---------------------------------------------------------------------------------------------------- */

/* A call's state is kept in /__tool_call_scope/ID/tool_call_state; next to it lies what is ToolCall-scoped. All changes are part of the
 * delta. PD_CONFLICT (InvalidTransition) for what the state machine does not allow; PD_NOT_FOUND (ToolCallNotFound); RunDone, RunFailed. */

typedef struct pd_tool_call {
  const char *id;     /* as ids of threads */
  const char *name;   /* the tool's, 1 to 256 bytes */
  pd_bytes arguments; /* JSON; empty: none */
} pd_tool_call;

/* Make a call known that has not begun. PD_EXISTS (ToolCallExists). */
PD_API PD_MUST_USE pd_code pd_tool_call_new(pd_run_context *run, const pd_tool_call *call, pd_error *err);
/* It runs: a call that is not known yet, or one that is new or resuming (name and arguments are then as they were, and ignored here). */
PD_API PD_MUST_USE pd_code pd_tool_call_begin(pd_run_context *run, const pd_tool_call *call, pd_error *err);
/* Patches of a call that is new, running or resuming. Paths of scope ToolCall are written below the call's scope. They become part of the
 * delta when the call ends or is suspended, so that calls that run in parallel can be told apart. They are tried on the state at once. */
PD_API PD_MUST_USE pd_code pd_tool_call_patch(pd_run_context *run, const char *call_id, pd_bytes patches, pd_error *err);
/* It waits for a decision. `request` is JSON for who decides; empty: none. PD_CONFLICT (PatchConflict) as for pd_tool_call_end. */
PD_API PD_MUST_USE pd_code pd_tool_call_suspend(pd_run_context *run, const char *call_id, pd_bytes request, pd_error *err);

typedef struct pd_decision {
  const char *id;   /* 1 to 256 bytes of UTF-8: a decision is applied once in a run */
  bool is_cancel;   /* the call is cancelled; else it is resuming */
  pd_bytes payload; /* JSON for the tool; empty: none */
} pd_decision;

/* Apply a decision to a suspended call. The same decision again is PD_OK, changes nothing, and *out_is_duplicate (may be NULL) is true,
 * also when the call has ended since. The same id for another call is PD_CONFLICT (DecisionUsed). */
PD_API PD_MUST_USE pd_code pd_tool_call_resume(pd_run_context *run, const char *call_id, const pd_decision *decision,
                                               bool *out_is_duplicate, pd_error *err);

typedef struct pd_tool_result {
  pd_tool_status status; /* succeeded, failed or cancelled. Patches of a call that did not succeed are dropped */
  pd_bytes message;      /* the tool's message, with an "id"; empty: none */
  bool is_forced;        /* conflicting patches are applied all the same, over those of the other call */
} pd_tool_result;

/* The call is settled: its patches and message go into the delta, its scope is deleted. PD_CONFLICT (PatchConflict) if its patches conflict
 * with those of a call that ended while it ran, unless both are merges into the same lattice: nothing has changed then, and the call can
 * be ended as failed, or forced. */
PD_API PD_MUST_USE pd_code pd_tool_call_end(pd_run_context *run, const char *call_id, const pd_tool_result *result, pd_error *err);

/* Borrowed until the visitor returns. */
typedef struct pd_tool_conflict {
  const char *call_id, *other_id;
  const char *path, *other_path; /* JSON Pointers: equal, or one inside the other */
  const char *op, *other_op;
  bool is_settled; /* the other call has ended: pd_tool_call_end will refuse. Else it runs still */
} pd_tool_conflict;

/* Visit the conflicts between a call's patches and those of calls that run, or ended while it ran. The visitor must not call the run. */
PD_API PD_MUST_USE pd_code pd_tool_call_conflicts(pd_run_context *run, const char *call_id,
                                                  void (*visit)(void *ctx, const pd_tool_conflict *conflict), void *ctx, pd_error *err);

/* Borrowed until the visitor returns. */
typedef struct pd_tool_call_info {
  const char *id;
  pd_tool_status status;
  pd_bytes state; /* tool_call_state, JSON: name, arguments, status, updated_at, request, decision */
} pd_tool_call_info;

/* Calls that are not settled, by id. The visitor must not call the run. */
PD_API PD_MUST_USE pd_code pd_tool_call_list(pd_run_context *run, void (*visit)(void *ctx, const pd_tool_call_info *call), void *ctx,
                                             pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
