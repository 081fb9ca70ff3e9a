/*
 * runs.h: the run manager: work that is waiting, being done, or over, and that outlives the process. Included by perdure.h.
 *
 *     pd_runs *runs = NULL;
 *     pd_runs_open(statestore, NULL, &runs, &err);         // what the process before left unfinished is offered again
 *     pd_runs_create(runs, &(pd_run_request){.title = "look at disk 3"}, NULL, &err);
 *     pd_buf text = {0};
 *     pd_run run;
 *     while (pd_runs_claim(runs, NULL, &text, &err) == PD_OK) {
 *       pd_run_parse((pd_bytes){text.data, text.size}, &run, &err);
 *       …
 *       pd_runs_complete(runs, run.id, run.token, pd_text("{\"found\":0}"), NULL, &err);
 *     }
 *     pd_runs_close(runs);
 *
 * A run is a JSON object at the key run:<id> of the StateStore, and run:index is the list of all ids, the oldest first. Both change in one
 * batch, so they never disagree. Members that perdure does not know are kept. The same runs, under the same keys and rules, are to be had
 * as capabilities (runs.create, runs.claim…) in a home: there they are on the ref `state` of the agent's own store, and any number of
 * processes may work on them. Use one of the two for an agent at a time. In a home the index has a key a run (docs/formats.md), which a
 * StateStore of type perdure shows as run:index.
 *
 *     pending ──────► investigating ──────► completed
 *        │ ▲  claim    │      │    complete
 *        │ └───────────┘      ├───────────► failed        (also from pending)
 *        │   given back       └───────────► cancelled     (also from pending)
 *
 * CLAIMS      Who claims a run gets a token, which update, complete, fail and give_back ask for: so of two who believe that a run is
 *             theirs only the one that claimed last can end it. A claim ends with the run, when it is given back, when its lease has
 *             passed, or when the owner starts again: then the run is offered to the next who claims.
 * RETRIES     Ending a run once more in the same way, with the same token and the same value, is PD_OK and changes nothing.
 * PRUNING     Runs that are over are removed, by age and by count, when another one ends and when the runs are opened. Others never are.
 * DURABILITY  That of the StateStore: with flush_interval_ms = 0 a change is durable when the call returns. If that flush fails, the
 *             change is in memory and pending, as with pd_statestore_set.
 * COST        Every call but get looks at all runs, which is what the format asks for; so there are limits.
 * LIMITS      10,000 runs; ids: 1 to 128 of letters, digits, . _ - (perdure makes UUIDs); values: 1 MiB of JSON each, 120 levels deep;
 *             title and reason: 1024 bytes; owner: 128 bytes.
 * THREADS     Any number.
 */
#ifndef PERDURE_RUNS_H
#define PERDURE_RUNS_H

#include <perdure/statestore.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_RUNS_COUNT_MAX 10000
#define PD_RUN_ID_SIZE_MAX 128
#define PD_RUN_OWNER_SIZE_MAX 128
#define PD_RUN_TEXT_SIZE_MAX 1024
#define PD_RUN_VALUE_SIZE_MAX ((size_t)1024 * 1024)
#define PD_RUN_VALUE_DEPTH_MAX 120
#define PD_RUNS_KEEP_ALL UINT64_MAX

typedef struct pd_runs pd_runs;

typedef enum pd_run_status {
  PD_RUN_PENDING = 0,
  PD_RUN_INVESTIGATING = 1,
  PD_RUN_COMPLETED = 2,
  PD_RUN_FAILED = 3,
  PD_RUN_CANCELLED = 4,
  PD_RUN_STATUS_COUNT
} pd_run_status;

/* "pending", "investigating"… Static storage. */
PD_API const char *pd_run_status_name(pd_run_status status);

/* A run's document. The values are JSON texts, borrowed from it; data is NULL if there is none. Times are milliseconds since 1970, 0 if
 * there is none. */
typedef struct pd_run {
  char id[PD_RUN_ID_SIZE_MAX + 1];
  pd_run_status status;
  char token[PD_RUN_ID_SIZE_MAX + 1]; /* of the last claim; "" if there is none */
  char owner[PD_RUN_OWNER_SIZE_MAX + 1];
  pd_bytes title, input, progress, result, error, reason;
  uint64_t attempts, attempts_max; /* claims so far; and how many there may be, 0: any number */
  int64_t created_ms, updated_ms, claimed_ms, lease_until_ms, finished_ms;
} pd_run;

/* Read a run's document. PD_CORRUPT if it is none. */
PD_API PD_MUST_USE pd_code pd_run_parse(pd_bytes json, pd_run *out, pd_error *err);

typedef struct pd_runs_options {
  const char *owner;   /* of claims that name none; NULL: "main" */
  bool keeps_claims;   /* do not offer again what is being done: another process is at it, or one only looks. Nothing is pruned then */
  uint64_t keep_count; /* of runs that are over: 1000. PD_RUNS_KEEP_ALL: any number */
  uint64_t keep_ms;    /* a run that is over is kept this long: 30 days. PD_RUNS_KEEP_ALL: for ever */
} pd_runs_options;

PD_API pd_runs_options pd_runs_defaults(void);

/* Borrows the store until pd_runs_close. `options` may be NULL: the defaults. What the owner was doing when its process ended is given back
 * here, and so offered again. PD_CORRUPT if run:index is no list of ids. */
PD_API PD_MUST_USE pd_code pd_runs_open(pd_statestore *store, const pd_runs_options *options, pd_runs **out, pd_error *err);
/* Takes NULL. Claims stay. */
PD_API void pd_runs_close(pd_runs *runs);

/*
 * In all of these `out` (may be NULL) is replaced by the run's document as it is afterwards, for pd_run_parse. Errors:
 * PD_NOT_FOUND (name RunNotFound), PD_CONFLICT (name RunStatusConflict: from its status the run cannot go there; name RunNotHeld:
 * another token holds it), PD_INVALID and PD_LIMIT for what is wrong with an argument, PD_CORRUPT for a document that is no run's, and what
 * pd_statestore_apply answers.
 */

typedef struct pd_run_request {
  const char *id;        /* NULL: one is made */
  const char *title;     /* NULL: none */
  pd_bytes input;        /* JSON: what is to be done; empty: none */
  uint64_t attempts_max; /* after so many claims that came to nothing the run fails; 0: never */
} pd_run_request;

/* A pending run. PD_EXISTS (name RunExists), PD_QUOTA (name RunsFull). */
PD_API PD_MUST_USE pd_code pd_runs_create(pd_runs *runs, const pd_run_request *request, pd_buf *out, pd_error *err);
PD_API PD_MUST_USE pd_code pd_runs_get(pd_runs *runs, const char *id, pd_buf *out, pd_error *err);

typedef struct pd_runs_query {
  unsigned statuses; /* 1u << status of those that are wanted; 0: all */
  bool newest_first;
  uint64_t limit; /* 0: all */
} pd_runs_query;

/* Return false to stop. Both are borrowed until it returns. It may call the runs. */
typedef bool (*pd_run_visit)(void *ctx, const pd_run *run, pd_bytes json);

/* The runs that fit, the oldest first. `query` may be NULL: all. Documents that are no runs' are left out; `out_unreadable` (may be NULL)
 * says how many. */
PD_API PD_MUST_USE pd_code pd_runs_list(pd_runs *runs, const pd_runs_query *query, pd_run_visit visit, void *ctx, uint64_t *out_unreadable,
                                        pd_error *err);

typedef struct pd_run_claim {
  const char *id;    /* NULL: the oldest run that is offered */
  const char *owner; /* NULL: that of the options */
  uint64_t lease_ms; /* the run is offered to others after this time without an update; 0: never */
} pd_run_claim;

/* Take a run that is pending, or whose lease has passed. `claim` may be NULL. PD_NOT_FOUND (name NoRunWaits) if there is none. Runs that
 * were claimed attempts_max times already become failed by the way. */
PD_API PD_MUST_USE pd_code pd_runs_claim(pd_runs *runs, const pd_run_claim *claim, pd_buf *out, pd_error *err);
/* Note how far it is (`progress` is JSON; empty: as before), and begin the lease anew with `lease_ms` (0: it has none). */
PD_API PD_MUST_USE pd_code pd_runs_update(pd_runs *runs, const char *id, const char *token, pd_bytes progress, uint64_t lease_ms,
                                          pd_buf *out, pd_error *err);
/* Stop working on it; it is pending again. `reason` may be NULL. */
PD_API PD_MUST_USE pd_code pd_runs_give_back(pd_runs *runs, const char *id, const char *token, const char *reason, pd_buf *out,
                                             pd_error *err);
/* `result` is JSON; empty: none. */
PD_API PD_MUST_USE pd_code pd_runs_complete(pd_runs *runs, const char *id, const char *token, pd_bytes result, pd_buf *out, pd_error *err);
/* `error` is JSON; empty: none. A run that is pending fails without a token (NULL). */
PD_API PD_MUST_USE pd_code pd_runs_fail(pd_runs *runs, const char *id, const char *token, pd_bytes error, pd_buf *out, pd_error *err);
/* Needs no token: who was at it finds out by its next call. `reason` may be NULL. */
PD_API PD_MUST_USE pd_code pd_runs_cancel(pd_runs *runs, const char *id, const char *reason, pd_buf *out, pd_error *err);

/* Give back all that `owner` (NULL: that of the options) is doing: it has just started again. `out_count` may be NULL. */
PD_API PD_MUST_USE pd_code pd_runs_resume(pd_runs *runs, const char *owner, uint64_t *out_count, pd_error *err);

typedef struct pd_runs_prune_options {
  uint64_t keep_count; /* the last ended of those that are over stay; PD_RUNS_KEEP_ALL: any number */
  uint64_t keep_ms;    /* those that ended within this time stay; PD_RUNS_KEEP_ALL: for ever */
  bool is_dry_run;     /* only look */
} pd_runs_prune_options;

/* Remove runs that are over and fit neither. `options` may be NULL: those of pd_runs_open. `visit` (may be NULL) is shown each of them,
 * and must not call the runs. Ids in run:index that have no document go, too. */
PD_API PD_MUST_USE pd_code pd_runs_prune(pd_runs *runs, const pd_runs_prune_options *options, pd_run_visit visit, void *ctx,
                                         uint64_t *out_count, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
