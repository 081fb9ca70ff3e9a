/*
 * runs.h: the rules of runs, seen from inside: one implementation for two places: a StateStore (<perdure/runs.h>) and the ref `state` of
 * an agent's store in a home (the capabilities runs.*).
 *
 * R1  The index has the ids of all runs in the order in which they were made. It changes only in the batch that adds or removes runs. In a
 *     StateStore it is one value, run:index; in an agent's store a key a run (shelf/run_index.h), so that a new run costs the same however
 *     many there are. A list found there becomes keys with the first batch that changes the index.
 * R2  A status changes only as `moves` in runs.c says; a run that is over never changes again.
 * R3  An operation reads, decides, and writes one batch. The place sees to it that what was read of the keys in the batch still holds.
 * R4  Only runs that are over are ever removed.
 */
#ifndef PD_STATE_RUNS_H
#define PD_STATE_RUNS_H

#include "base/json.h"
#include "shelf/run_index.h"

#include <perdure/runs.h>

#define PD_RUN_KEY_SIZE (PD_RUN_ID_SIZE_MAX + 8)
#define PD_RUN_KEEP_COUNT 1000
#define PD_RUN_KEEP_MS ((uint64_t)30 * 86400 * 1000)

typedef pd_code (*pd_run_scan_visit)(void *ctx, pd_bytes key, pd_bytes value, pd_error *err);

/* Where runs are kept, as one operation sees it. */
typedef struct pd_runs_place {
  /* The value replaces what `out` holds. PD_NOT_FOUND. */
  pd_code (*get)(void *ctx, const char *key, pd_buf *out, pd_error *err);
  /* All or nothing (R3). */
  pd_code (*write)(void *ctx, const pd_statestore_change *changes, size_t count, pd_error *err);
  void *ctx;
  int64_t now_ms;
  uint64_t keep_count, keep_ms; /* of runs that are over */
  /* Visit the values of all keys that begin with `prefix`, in order. NULL: the index is one value. */
  pd_code (*scan)(void *ctx, const char *prefix, pd_run_scan_visit visit, void *visit_ctx, pd_error *err);
} pd_runs_place;

typedef enum pd_run_verb {
  PD_RUN_DO_CREATE = 0,
  PD_RUN_DO_CLAIM,
  PD_RUN_DO_UPDATE,
  PD_RUN_DO_GIVE_BACK,
  PD_RUN_DO_COMPLETE,
  PD_RUN_DO_FAIL,
  PD_RUN_DO_CANCEL,
  PD_RUN_DO_RESUME,
  PD_RUN_DO_PRUNE
} pd_run_verb;

typedef struct pd_run_op {
  pd_run_verb verb;
  const char *id, *token, *owner; /* NULL: none */
  const char *title, *reason;     /* NULL: none */
  pd_bytes value;                 /* JSON: input, progress, result or error; empty: none */
  uint64_t lease_ms, attempts_max;
  pd_runs_prune_options prune;
  pd_run_visit visit; /* prune: is shown what goes; NULL: nobody is */
  void *visit_ctx;

  pd_buf *out;    /* the run afterwards; NULL: not wanted */
  uint64_t count; /* out: of resume and prune */
} pd_run_op;

/* runs.c */

/* Check the arguments, once. PD_INVALID, PD_LIMIT. */
PD_MUST_USE pd_code pd_run_op_check(const pd_run_op *op, pd_error *err);
/* Do it. May be done again, from the start, if the place says that it lost a race. */
PD_MUST_USE pd_code pd_run_op_do(const pd_runs_place *place, pd_run_op *op, pd_error *err);
PD_MUST_USE pd_code pd_run_read(const pd_runs_place *place, const char *id, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_run_each(const pd_runs_place *place, const pd_runs_query *query, pd_run_visit visit, void *ctx,
                                uint64_t *out_unreadable, pd_error *err);

/* runs_document.c */

PD_MUST_USE bool pd_run_id_check(pd_bytes id);
PD_MUST_USE bool pd_run_status_parse(pd_json value, pd_run_status *out);
bool pd_run_is_over(pd_run_status status);
/* A random UUID. */
PD_MUST_USE pd_code pd_run_uuid(char out[37], pd_error *err);
/* The document `json` with members of `run` written over it: status, token, owner, attempts and times as `run` has them; absent ones are
 * taken out. The JSON values are those of `run`. `json` may be empty: a new one. */
PD_MUST_USE pd_code pd_run_write(pd_bytes json, const pd_run *run, pd_buf *out, pd_error *err);

/* runs_index.c */

/* What an operation will write. Zero-initialise; pd_run_batch_done. */
typedef struct pd_run_batch {
  pd_statestore_change *changes; /* keys and values are owned */
  size_t count, capacity;
} pd_run_batch;

/* The index as it is. Zero-initialise; pd_run_index_done. */
typedef struct pd_run_index {
  pd_buf text, names; /* run:index, and the ids of the keys in a row */
  pd_bytes *ids;      /* slices of the two */
  size_t count, capacity;
  uint64_t *numbers; /* of their keys; 0: in the list. NULL: there are no keys */
  size_t number_capacity;
  bool has_list;
} pd_run_index;

/* PD_CORRUPT if it is no list of ids. */
PD_MUST_USE pd_code pd_run_index_read(const pd_runs_place *place, pd_run_index *out, pd_error *err);
void pd_run_index_done(pd_run_index *index);
/* Stage the index without the ids whose data is NULL, as this place keeps it; a sweep begins to count anew. */
PD_MUST_USE pd_code pd_run_index_stage(const pd_runs_place *place, const pd_run_index *index, pd_run_batch *batch, pd_error *err);

/* What creating and ending a run have to know of the index: O(1) where it is keys. Zero-initialise; pd_run_tally_done. */
typedef struct pd_run_tally {
  uint64_t next, count, ended; /* ended: since the last sweep */
  bool has_index;              /* it was not to be had without reading the index */
  pd_run_index index;
} pd_run_tally;

PD_MUST_USE pd_code pd_run_tally_read(const pd_runs_place *place, pd_run_tally *out, pd_error *err);
void pd_run_tally_done(pd_run_tally *tally);
/* Stage the index with `id` behind all others. */
PD_MUST_USE pd_code pd_run_tally_add(const pd_runs_place *place, pd_run_tally *tally, const char *id, pd_run_batch *batch, pd_error *err);
/* Stage it with one more that has ended. Only if it has no index. */
PD_MUST_USE pd_code pd_run_tally_end(pd_run_tally *tally, pd_run_batch *batch, pd_error *err);

/* Copies both. `value` with data NULL: a delete. */
PD_MUST_USE pd_code pd_run_batch_add(pd_run_batch *batch, const char *key, pd_bytes value, pd_error *err);
void pd_run_batch_done(pd_run_batch *batch);
/* "run:" and the id; returns `out`. */
char *pd_run_key(pd_bytes id, char out[PD_RUN_KEY_SIZE]);

/* runs_prune.c: stage the removal of what op->prune lets go. `ended` (NULL: none) is a run that this operation ends: it counts as over and
 * stays. */
/* Is it time, now that this run ends? If not, that it ended is counted. */
PD_MUST_USE pd_code pd_run_prune_is_due(const pd_runs_place *place, const char *ended, pd_run_batch *batch, bool *out, pd_error *err);
PD_MUST_USE pd_code pd_run_stage_prune(const pd_runs_place *place, pd_run_op *op, const char *ended, pd_run_batch *batch, pd_error *err);

#endif
