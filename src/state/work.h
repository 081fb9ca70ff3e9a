/*
 * work.h: the rules of work items, seen from inside: one implementation for two places: a StateStore (<perdure/work.h>) and the ref `state`
 * of an agent's store in a home (the capabilities work.*).
 *
 * R1  The index has the ids of all items in the order in which they were made. It changes only in the batch that adds or removes items. In
 *     a StateStore it is one value, run:index; in an agent's store a key an item (shelf/work_index.h), so that a new item costs the same
 *     however many there are. A list found there becomes keys with the first batch that changes the index.
 * R2  A status changes only as `moves` in work.c says; an item that is over never changes again.
 * R3  An operation reads, decides, and writes one batch. The place sees to it that what was read of the keys in the batch still holds.
 * R4  Only items that are over are ever removed.
 */
#ifndef PD_STATE_WORK_H
#define PD_STATE_WORK_H

#include "base/json.h"
#include "shelf/work_index.h"

#include <perdure/work.h>

#define PD_WORK_KEY_SIZE (PD_WORK_ID_SIZE_MAX + 8)
#define PD_WORK_KEEP_COUNT 1000
#define PD_WORK_KEEP_MS ((uint64_t)30 * 86400 * 1000)

typedef pd_code (*pd_work_scan_visit)(void *ctx, pd_bytes key, pd_bytes value, pd_error *err);

/* Where items are kept, as one operation sees it. */
typedef struct pd_work_place {
  /* The value replaces what `out` holds. PD_NOT_FOUND. */
  pd_code (*get)(void *ctx, const char *key, pd_buf *out, pd_error *err);
  /* All or nothing (R3). */
  pd_code (*write)(void *ctx, const pd_statestore_change *changes, size_t count, pd_error *err);
  void *ctx;
  int64_t now_ms;
  uint64_t keep_count, keep_ms; /* of items that are over */
  /* Visit the values of all keys that begin with `prefix`, in order. NULL: the index is one value. */
  pd_code (*scan)(void *ctx, const char *prefix, pd_work_scan_visit visit, void *visit_ctx, pd_error *err);
} pd_work_place;

typedef enum pd_work_verb {
  PD_WORK_DO_CREATE = 0,
  PD_WORK_DO_CLAIM,
  PD_WORK_DO_UPDATE,
  PD_WORK_DO_GIVE_BACK,
  PD_WORK_DO_COMPLETE,
  PD_WORK_DO_FAIL,
  PD_WORK_DO_CANCEL,
  PD_WORK_DO_RESUME,
  PD_WORK_DO_PRUNE
} pd_work_verb;

typedef struct pd_work_op {
  pd_work_verb verb;
  const char *id, *token, *owner; /* NULL: none */
  const char *title, *reason;     /* NULL: none */
  pd_bytes value;                 /* JSON: input, progress, result or error; empty: none */
  uint64_t lease_ms, attempts_max;
  pd_work_prune_options prune;
  pd_work_visit visit; /* prune: is shown what goes; NULL: nobody is */
  void *visit_ctx;

  pd_buf *out;    /* the item afterwards; NULL: not wanted */
  uint64_t count; /* out: of resume and prune */
} pd_work_op;

/* work.c */

/* Check the arguments, once. PD_INVALID, PD_LIMIT. */
PD_MUST_USE pd_code pd_work_op_check(const pd_work_op *op, pd_error *err);
/* Do it. May be done again, from the start, if the place says that it lost a race. */
PD_MUST_USE pd_code pd_work_op_do(const pd_work_place *place, pd_work_op *op, pd_error *err);
PD_MUST_USE pd_code pd_work_read(const pd_work_place *place, const char *id, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_work_each(const pd_work_place *place, const pd_work_query *query, pd_work_visit visit, void *ctx,
                                 uint64_t *out_unreadable, pd_error *err);

/* work_document.c */

PD_MUST_USE bool pd_work_id_check(pd_bytes id);
PD_MUST_USE bool pd_work_status_parse(pd_json value, pd_work_status *out);
bool pd_work_is_over(pd_work_status status);
/* A random UUID. */
PD_MUST_USE pd_code pd_work_uuid(char out[37], pd_error *err);
/* The document `json` with members of `item` written over it: status, token, owner, attempts and times as `item` has them; absent ones are
 * taken out. The JSON values are those of `item`. `json` may be empty: a new one. */
PD_MUST_USE pd_code pd_work_write(pd_bytes json, const pd_work_item *item, pd_buf *out, pd_error *err);

/* work_index.c */

/* What an operation will write. Zero-initialise; pd_work_batch_done. */
typedef struct pd_work_batch {
  pd_statestore_change *changes; /* keys and values are owned */
  size_t count, capacity;
} pd_work_batch;

/* The index as it is. Zero-initialise; pd_work_index_done. */
typedef struct pd_work_index {
  pd_buf text, names; /* run:index, and the ids of the keys in a row */
  pd_bytes *ids;      /* slices of the two */
  size_t count, capacity;
  uint64_t *numbers; /* of their keys; 0: in the list. NULL: there are no keys */
  size_t number_capacity;
  bool has_list;
} pd_work_index;

/* PD_CORRUPT if it is no list of ids. */
PD_MUST_USE pd_code pd_work_index_read(const pd_work_place *place, pd_work_index *out, pd_error *err);
void pd_work_index_done(pd_work_index *index);
/* Stage the index without the ids whose data is NULL, as this place keeps it; a sweep begins to count anew. */
PD_MUST_USE pd_code pd_work_index_stage(const pd_work_place *place, const pd_work_index *index, pd_work_batch *batch, pd_error *err);

/* What creating and ending an item have to know of the index: O(1) where it is keys. Zero-initialise; pd_work_tally_done. */
typedef struct pd_work_tally {
  uint64_t next, count, ended; /* ended: since the last sweep */
  bool has_index;              /* it was not to be had without reading the index */
  pd_work_index index;
} pd_work_tally;

PD_MUST_USE pd_code pd_work_tally_read(const pd_work_place *place, pd_work_tally *out, pd_error *err);
void pd_work_tally_done(pd_work_tally *tally);
/* Stage the index with `id` behind all others. */
PD_MUST_USE pd_code pd_work_tally_add(const pd_work_place *place, pd_work_tally *tally, const char *id, pd_work_batch *batch,
                                      pd_error *err);
/* Stage it with one more that has ended. Only if it has no index. */
PD_MUST_USE pd_code pd_work_tally_end(pd_work_tally *tally, pd_work_batch *batch, pd_error *err);

/* Copies both. `value` with data NULL: a delete. */
PD_MUST_USE pd_code pd_work_batch_add(pd_work_batch *batch, const char *key, pd_bytes value, pd_error *err);
void pd_work_batch_done(pd_work_batch *batch);
/* "run:" and the id; returns `out`. */
char *pd_work_key(pd_bytes id, char out[PD_WORK_KEY_SIZE]);

/* work_prune.c: stage the removal of what op->prune lets go. `ended` (NULL: none) is an item that this operation ends: it counts as over
 * and stays. */
/* Is it time, now that this item ends? If not, that it ended is counted. */
PD_MUST_USE pd_code pd_work_prune_is_due(const pd_work_place *place, const char *ended, pd_work_batch *batch, bool *out, pd_error *err);
PD_MUST_USE pd_code pd_work_stage_prune(const pd_work_place *place, pd_work_op *op, const char *ended, pd_work_batch *batch, pd_error *err);

#endif
