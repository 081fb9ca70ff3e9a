/*
 * thread.h: threads: an agent's conversation and its JSON state as a row of change sets, each at an exact version. Included by perdure.h;
 * errors, lifetimes and points in history are explained there.
 *
 *     pd_thread *t = NULL;
 *     pd_thread_create(store, &(pd_thread_options){.id = "trip", .owner = "ada"}, &t, &err);              // version 0
 *     pd_changeset c = {.run_id = "run-1", .reason = PD_REASON_USER_MESSAGE,
 *                       .messages = pd_text("[{\"id\":\"m1\",\"role\":\"user\",\"content\":\"To Rome!\"}]"),
 *                       .patches = pd_text("[{\"op\":\"set\",\"path\":[\"trip\",\"to\"],\"value\":\"Rome\"}]")};
 *     pd_thread_ack ack;
 *     pd_thread_append(t, &c, 0, &ack, &err);                    // Exact(0): ack.version is 1; durable as the store is
 *     pd_buf state = {0};
 *     pd_thread_state(t, PD_VERSION_HEAD, NULL, &state, &err);   // {"trip":{"to":"Rome"}}
 *     pd_buf_done(&state);
 *     pd_thread_close(t);
 *
 * WORDS       change set: what one append brings: messages, patches, perhaps a snapshot, and who (run) and why (reason). version: how many
 *             change sets a thread has; 0 when it is created. place: the number of a message in its thread, from 1 on. run: a row of change
 *             sets with one run id.
 * THREAD      A thread is the ref `thread/ID` of an agent's store, and one change set is one commit. So what works on refs works on it:
 *             log, diff, proofs, bundles. Its keys are in docs/formats.md. The ids of its commits depend on its change sets alone.
 * STATE       One JSON object. Members have no order: it is kept, compared and answered sorted by name, without white space. Numbers keep
 *             their digits.
 * VERSIONS    Exact(N) is `expect_version` N; Any is PD_ANY_VERSION. Where a past version is asked for, PD_VERSION_HEAD is the newest.
 * HANDLES     A pd_thread belongs to one thread of execution at a time; open one for each. It keeps the state at the version it last saw
 *             and follows what other handles and processes append. Close it before its store.
 * ERRORS      By name: NotFound, AlreadyExists, InvalidId, VersionConflict (err->expected, err->actual), InvalidChangeSet, LimitExceeded.
 *             A change set is taken whole or refused whole; the thread is then as it was.
 * COST        An append costs what it brings, whatever the thread's length. Reading costs what is asked for.
 * LIMITS      Ids of threads and runs: 1 to 64 of [A-Za-z0-9._-], no leading dot, no "..". Ids of messages: 1 to 256 bytes of UTF-8 without
 *             control characters, '/' and "..". Owners: 1 to 256 bytes of UTF-8 without control characters. Change sets: 16 MiB.
 *             JSON: 100 levels deep.
 */
#include <perdure/perdure.h> /* before the guard: it includes this header where others need it */

#ifndef PERDURE_THREAD_H
#define PERDURE_THREAD_H

#ifdef __cplusplus
extern "C" {
#endif

#define PD_THREAD_ID_SIZE_MAX 64
#define PD_MESSAGE_ID_SIZE_MAX 256
#define PD_THREAD_OWNER_SIZE_MAX 256
#define PD_THREAD_DEPTH_MAX 100
#define PD_CHANGESET_SIZE_MAX ((size_t)16 * 1024 * 1024)
#define PD_THREAD_OPERATION_SIZE_MAX 256
#define PD_THREAD_OPERATIONS_KEPT 1000 /* so many versions back a thread remembers its operations */
#define PD_VERSION_HEAD UINT64_MAX

typedef struct pd_thread pd_thread;

/* PD_OK, or PD_INVALID named InvalidId. For ids of threads, runs and tool calls; `what` is for the message: "thread", "run". */
PD_API PD_MUST_USE pd_code pd_thread_id_check(const char *id, const char *what, pd_error *err);

/* ---- threads ------------------------------------------------------------------------------------------------------- */

/* Texts are copied. */
typedef struct pd_thread_options {
  const char *id;     /* NULL: a new one, 32 hex digits; pd_thread_info_get tells it */
  const char *owner;  /* NULL: none */
  const char *parent; /* the thread that this is a sub-thread of; NULL: none. It must exist */
  pd_bytes meta;      /* a JSON object of the user's own, fixed from now on; empty: none. At most 64 KiB */
  pd_bytes state;     /* the state of version 0, a JSON object; empty: {} */
  int64_t time_ms;    /* 0: now */
  const char *author; /* of the commits; NULL: the store handle's */
} pd_thread_options;

/* A new thread at version 0. PD_EXISTS (AlreadyExists), PD_INVALID (InvalidId), PD_NOT_FOUND for a parent that is not there. `out` may be
 * NULL. If the process dies in between, either the thread is there or creating it again works. */
PD_API PD_MUST_USE pd_code pd_thread_create(pd_store *store, const pd_thread_options *options, pd_thread **out, pd_error *err);

/* A handle on a thread that is there, at its newest version. Reads three small keys. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_thread_open(pd_store *store, const char *id, pd_thread **out, pd_error *err);
/* Takes NULL. */
PD_API void pd_thread_close(pd_thread *thread);

/* Everything about a thread but its content. Pointers are borrowed from the handle until its next call (a listing: until the visitor
 * returns). */
typedef struct pd_thread_info {
  const char *id, *owner, *parent; /* "" if none */
  pd_bytes meta;                   /* JSON; empty if none */
  int64_t created_ms, updated_ms;
  uint64_t version, message_count, run_count;
  const char *active_run;  /* "" if none */
  const char *forked_from; /* the thread that it was forked from; "" if none… */
  uint64_t forked_version; /* …and at which version */
  pd_id commit;            /* of the newest version */
} pd_thread_info;

/* Follow what others appended, then tell. PD_NOT_FOUND if the thread was deleted meanwhile. */
PD_API PD_MUST_USE pd_code pd_thread_info_get(pd_thread *thread, pd_thread_info *out, pd_error *err);
/* The version that the handle last saw: no look at the store. */
PD_API uint64_t pd_thread_version(const pd_thread *thread);
/* The id, borrowed until close. */
PD_API const char *pd_thread_id(const pd_thread *thread);
PD_API pd_store *pd_thread_store(const pd_thread *thread);
/* How large the state is that the handle has in memory: as JSON text, in bytes. 0: it has none. */
PD_API size_t pd_thread_size(const pd_thread *thread);

/* Remove a thread, and its mailbox. Its commits stay until retention takes them; sub-threads stay, with a parent that is not there.
 * PD_NOT_FOUND; PD_CONFLICT unless it is at `expect_version` (or Any). `note` (author, run, reason) may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_delete(pd_store *store, const char *id, uint64_t expect_version, const pd_note *note, pd_error *err);

/* Return false to stop. Nothing it is given outlives it. It may call the store. */
typedef bool (*pd_thread_visit)(void *ctx, const pd_thread_info *info, const char *cursor);

#define PD_THREAD_CURSOR_SIZE 128

typedef struct pd_thread_query {
  const char *owner;          /* only this owner's; NULL: all */
  const char *parent;         /* only sub-threads of this one; NULL: all. With `owner`: those that are both */
  int64_t since_ms, until_ms; /* only threads created at since <= time < until; 0: no bound */
  const char *cursor;         /* only what comes after it: the visitor was given it with the last thread of the page before; NULL: all */
  uint64_t limit;             /* 0: all */
} pd_thread_query;

/* Threads, newest first by creation, then by id. `query` may be NULL: all. A cursor stays good whatever is made or deleted meanwhile.
 * PD_INVALID for one that is none. */
PD_API PD_MUST_USE pd_code pd_thread_list(pd_store *store, const pd_thread_query *query, pd_thread_visit visit, void *ctx, pd_error *err);

/* ---- change sets --------------------------------------------------------------------------------------------------- */

/* Why a checkpoint was made (seed 003). Others are refused. */
typedef enum pd_reason {
  PD_REASON_NONE = 0, /* no reason: refused */
  PD_REASON_USER_MESSAGE = 1,
  PD_REASON_ASSISTANT_TURN_COMMITTED = 2,
  PD_REASON_TOOL_RESULTS_COMMITTED = 3,
  PD_REASON_RUN_FINISHED = 4,
  PD_REASON_COUNT
} pd_reason;

/* "UserMessage", "AssistantTurnCommitted", "ToolResultsCommitted", "RunFinished"; "" else. Static storage. */
PD_API const char *pd_reason_name(pd_reason reason);
/* PD_REASON_NONE for any other text. */
PD_API pd_reason pd_reason_parse(const char *name);

/* ThreadChangeSet. Zero-initialise; run_id and reason are a must. JSON texts are borrowed until return; white space is not kept. */
typedef struct pd_changeset {
  const char *run_id;
  const char *parent_run_id; /* NULL: none */
  pd_bytes run_meta;         /* a JSON object about the run, kept until another replaces it; empty: as it was */
  pd_reason reason;
  pd_bytes messages;      /* a JSON array of objects, each with a string "id". An id that the thread has already is dropped */
  pd_bytes patches;       /* a JSON array of patches, applied in order (docs/guide/threads.md) */
  pd_bytes state_actions; /* a JSON array of objects: kept for replay and audit, not interpreted */
  pd_bytes snapshot;      /* a JSON object that replaces the state, before the patches; only for that */
  const char *active_run; /* NULL: as it was. "": none from now on. Else this run: PD_CONFLICT (RunActive) if another one is active */
  int64_t time_ms;        /* 0: now. Never before that of the change set before: then that one's is taken */
  const char *author;     /* of the commit; NULL: the store handle's */
  /* NULL: none. Else 1 to 256 bytes of UTF-8 that stand for this very change: appending it again, after an answer that was lost, changes
   * nothing, and the acknowledgement is that of the first time. A thread remembers those of its last PD_THREAD_OPERATIONS_KEPT versions; a
   * fork remembers what it was forked with. */
  const char *operation_id;
  const char *operation_mark; /* NULL: made of the content. 64 hex digits; the same id with another one is PD_CONFLICT (OperationUsed) */
  pd_later **later;           /* as note.later (perdure.h). The handle is then where the thread will be; close it if the commit fails */
} pd_changeset;

/* Read a change set from its JSON form:
 *
 *     {"run_id":"r1","parent_run_id":"r0","run_meta":{},"reason":"UserMessage","messages":[],"patches":[],"state_actions":[],
 *      "snapshot":{},"active_run":"r1","time":1763200000000,"operation_id":"op-7"}
 *
 * null is the same as absent, and so is an "active_run" of null; none from now on is "". What it points to is in `json` or in `texts`,
 * which is empty before and yours to finish when the change set is appended. PD_INVALID (InvalidChangeSet) names the member that is
 * wrong or unknown. */
PD_API PD_MUST_USE pd_code pd_changeset_parse(pd_bytes json, pd_changeset *out, pd_buf *texts, pd_error *err);

typedef struct pd_thread_ack {
  uint64_t version;            /* the committed next version */
  uint64_t message_first;      /* the place of the first message that is new; 0: there is none */
  uint64_t message_count;      /* that are new */
  uint64_t message_duplicates; /* dropped */
  int64_t time_ms;             /* as written */
  pd_id commit;
  pd_durability durability;
  bool is_duplicate; /* the operation was appended before: all of this is as it was then */
} pd_thread_ack;

/* Append a change set as the next version. With Exact(expect_version): PD_CONFLICT (VersionConflict) unless that is the newest version, and
 * err->actual is the newest. With Any: it is applied to whatever is newest. PD_INVALID (InvalidChangeSet, InvalidId, InvalidPatch) and
 * PD_LIMIT: what is wrong with it. PD_NOT_FOUND if the thread was deleted. On any error the thread is as it was, and the same call can be
 * made again. `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_append(pd_thread *thread, const pd_changeset *changeset, uint64_t expect_version, pd_thread_ack *out,
                                            pd_error *err);

/* Was an operation appended? PD_NOT_FOUND (OperationNotFound) if the thread does not remember it; PD_CONFLICT (OperationUsed) if it had
 * another mark (NULL: any). `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_operation_get(pd_thread *thread, const char *operation_id, const char *mark, pd_thread_ack *out,
                                                   pd_error *err);

/* One change set as it was committed. Pointers are borrowed until the visitor returns, or as said at the function. */
typedef struct pd_thread_delta {
  uint64_t version;
  int64_t time_ms;
  const char *run_id;     /* "" for version 0, the creation */
  const char *reason;     /* "" for version 0 */
  uint64_t message_first; /* place of its first message; 0: it has none */
  uint64_t message_count;
  pd_bytes json; /* all of it, with the bodies of its messages: what pd_changeset_parse reads (but for version 0, which has no run) */
  pd_id commit;  /* that it made; zero if retention has taken it */
} pd_thread_delta;

/* Return false to stop. May call the store, but not the thread's handle. */
typedef bool (*pd_delta_visit)(void *ctx, const pd_thread_delta *delta);

/* The change sets after `after_version`, oldest first; `limit` 0: all. PD_NOT_FOUND (VersionNotFound) if it is from the future. */
PD_API PD_MUST_USE pd_code pd_thread_deltas(pd_thread *thread, uint64_t after_version, uint64_t limit, pd_delta_visit visit, void *ctx,
                                            pd_error *err);
/* One of them. */
PD_API PD_MUST_USE pd_code pd_thread_delta_get(pd_thread *thread, uint64_t version, pd_delta_visit visit, void *ctx, pd_error *err);

/* ---- reading, at any version ------------------------------------------------------------------------------------------- */

/* The state at `version`, or what is at `path` in it (a JSON Pointer: "/trip/to"; NULL or "": all). Replaces what `out` holds. At
 * PD_VERSION_HEAD the handle follows first. PD_NOT_FOUND (VersionNotFound, PathNotFound). */
PD_API PD_MUST_USE pd_code pd_thread_state(pd_thread *thread, uint64_t version, const char *path, pd_buf *out, pd_error *err);

typedef struct pd_thread_message {
  uint64_t place;
  const char *id;
  pd_bytes json; /* the message, its id included */
} pd_thread_message;

/* Return false to stop. May call the store, but not the thread's handle. */
typedef bool (*pd_thread_message_visit)(void *ctx, const pd_thread_message *message);

typedef struct pd_message_query {
  uint64_t version; /* the messages as of this version. {0} is version 0, before all messages: say PD_VERSION_HEAD */
  uint64_t after;   /* cursor: only places greater than it; 0: from the first */
  uint64_t last;    /* only the last so many of the thread (of those after the cursor); 0: no such bound */
  uint64_t limit;   /* 0: all */
} pd_message_query;

/* Messages by place, oldest first. `query` may be NULL: all of the newest version. Costs what it visits. `out_next` (may be NULL): the
 * cursor for the next page, 0 if there are no more. */
PD_API PD_MUST_USE pd_code pd_thread_messages(pd_thread *thread, const pd_message_query *query, pd_thread_message_visit visit, void *ctx,
                                              uint64_t *out_next, pd_error *err);
/* The place of a message; PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_thread_message_find(pd_thread *thread, const char *message_id, uint64_t *out_place, pd_error *err);

/* What a version was: its numbers and its commit (which `at` takes as 64 digits everywhere else in the library). */
typedef struct pd_thread_point {
  uint64_t version, message_count, run_count;
  char active_run[PD_THREAD_ID_SIZE_MAX + 1]; /* "" if none */
  pd_commit commit;
} pd_thread_point;

PD_API PD_MUST_USE pd_code pd_thread_point_get(pd_thread *thread, uint64_t version, pd_thread_point *out, pd_error *err);

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

typedef struct pd_thread_run {
  uint64_t number;                 /* 1, 2, 3… in the order in which runs began here: the cursor */
  const char *id, *parent_run_id;  /* "" if none */
  pd_bytes meta;                   /* the last run_meta, a JSON object; empty if none */
  uint64_t first_version;          /* of its first change set */
  uint64_t finished_version;       /* of its RunFinished; 0: none yet */
  int64_t started_ms, finished_ms; /* of these change sets */
  bool is_active;
} pd_thread_run;

/* Return false to stop. May call the store, but not the thread's handle. */
typedef bool (*pd_thread_run_visit)(void *ctx, const pd_thread_run *run);

/* The runs of a thread as of `version`, oldest first: those after number `after` (0: all), at most `limit` (0: all). */
PD_API PD_MUST_USE pd_code pd_thread_runs(pd_thread *thread, uint64_t version, uint64_t after, uint64_t limit, pd_thread_run_visit visit,
                                          void *ctx, pd_error *err);
/* One run, as of the newest version. PD_NOT_FOUND (RunNotFound). */
PD_API PD_MUST_USE pd_code pd_thread_run_get(pd_thread *thread, const char *run_id, pd_thread_run_visit visit, void *ctx, pd_error *err);

/* ---- forks, rewinds, differences ------------------------------------------------------------------------------------- */

/* A new thread that begins as `thread` was at `version`: same version, state, messages and runs, but no active run. From `options`: id,
 * owner (NULL: the same), parent (NULL: the same; "": none), meta (empty: the same), time_ms, author; `state` must be empty. The original
 * is not touched. Costs a few small keys, whatever the thread's length. PD_EXISTS. `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_fork(pd_thread *thread, uint64_t version, const pd_thread_options *options, pd_thread **out,
                                          pd_error *err);

/* Go back to `version`: the thread is what it was then, and the next change set is version + 1. What was left is in the log of the ref (and
 * can be forked by commit id) until retention takes it. PD_CONFLICT unless it is at `expect_version` (or Any). Rewinding to where it is
 * does nothing. `note` (author, run, reason) and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_rewind(pd_thread *thread, uint64_t version, uint64_t expect_version, const pd_note *note,
                                            pd_thread_point *out, pd_error *err);

typedef struct pd_thread_difference {
  pd_bytes path;          /* JSON Pointer of a leaf: what is no object and no array, or one that is empty or kept as one value */
  pd_bytes before, after; /* JSON; empty: there was none, there is none */
} pd_thread_difference;

typedef struct pd_thread_diff_report {
  pd_thread_point from, to;
  uint64_t paths;                        /* visited */
  uint64_t message_first, message_count; /* those that only one side has: of `to` if it is the later one, else of `from` */
} pd_thread_diff_report;

/* The leaves of the state that differ between two versions of a thread, by path; either may be the later one. `visit` may be NULL; return
 * false to stop; it may call the store. `out` may be NULL. Costs what differs. */
PD_API PD_MUST_USE pd_code pd_thread_diff(pd_thread *thread, uint64_t from, uint64_t to,
                                          bool (*visit)(void *ctx, const pd_thread_difference *difference), void *ctx,
                                          pd_thread_diff_report *out, pd_error *err);

/* ---- audit ----------------------------------------------------------------------------------------------------------- */

/* Who wrote a leaf of the state last. Pointers are borrowed until the visitor returns. */
typedef struct pd_thread_blame_line {
  pd_bytes path;           /* JSON Pointer of the leaf */
  uint64_t version;        /* of the change set; 0: the thread was created with it */
  const char *run_id;      /* "" for version 0 */
  const char *reason;      /* "" for version 0 */
  const char *author;      /* of the commit; "" if retention has taken it */
  int64_t time_ms;         /* of the change set */
  const char *message_ids; /* JSON array of the ids of the messages that came with it */
  pd_id commit;            /* zero if retention has taken it */
} pd_thread_blame_line;

/* Which change set, run and messages set what is at `path` (NULL or "": everything) as of `version`: one line a leaf, by path. An array's
 * elements are leaves by index, so an insertion in the middle is blamed for all that moved. PD_NOT_FOUND (PathNotFound). */
PD_API PD_MUST_USE pd_code pd_thread_blame(pd_thread *thread, uint64_t version, const char *path,
                                           bool (*visit)(void *ctx, const pd_thread_blame_line *line), void *ctx, pd_error *err);

typedef struct pd_thread_replay_report {
  uint64_t versions, messages, runs; /* rebuilt */
  uint64_t forks;                    /* identities before this one */
  pd_id commit;                      /* of the rebuilt head */
  bool is_same;                      /* state and commit ids are those of the thread */
  uint64_t differs_at;               /* the first version whose commit id is not the same, if !is_same */
} pd_thread_replay_report;

/* Rebuild the thread from its change sets alone, in memory, and compare: every commit id and the state. PD_CORRUPT if something differs
 * (`out` is then written too). `progress` (may be NULL): return false to give up. `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_replay(pd_thread *thread, bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                                            pd_thread_replay_report *out, pd_error *err);

/* The thread as NDJSON (docs/formats.md): a line about it, one a change set, one at the end with the commit id that replaying must give.
 * `sink` is called without any lock held. `out_lines` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_export(pd_thread *thread, const pd_sink *sink, uint64_t *out_lines, pd_error *err);

typedef struct pd_thread_import_options {
  const char *id;     /* NULL: the one in the export. Another one has other commit ids */
  bool is_dry_run;    /* read, replay and compare; write nothing */
  uint64_t bytes_max; /* of the export; 0: 1 GiB */
  bool (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL; return false to give up */
  void *ctx;
} pd_thread_import_options;

/* Replay an export into a thread of its own: same versions, same state, and with the same id the same commit ids. All or nothing: whatever
 * is wrong with it, no thread is made. PD_INVALID (InvalidExport) names the line; PD_CORRUPT if the commit ids come out otherwise;
 * PD_EXISTS; PD_LIMIT. `options` and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_thread_import(pd_store *store, const pd_source *source, const pd_thread_import_options *options,
                                            pd_thread_replay_report *out, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
