/*
 * leaves.h: a JSON value as its leaves: what a JSON Pointer leads to that holds nothing more: scalars and empty containers. For
 * blame, which asks of an older value which of the leaves it has already. Private to src/engine.
 */
#ifndef PD_ENGINE_LEAVES_H
#define PD_ENGINE_LEAVES_H

#include "base/json.h"

typedef struct pd_leaf {
  size_t path_at; /* in `paths` */
  uint32_t path_size;
  uint64_t hash;   /* of the path */
  pd_json value;   /* borrowed from the text */
  uint64_t holder; /* blame: the oldest record known to have it; once settled, the one that is blamed */
  uint32_t source; /* blame: index of who is blamed */
  uint32_t met_in; /* the last walk that came by: a member that appears twice counts once */
  bool is_settled, is_known;
} pd_leaf;

typedef struct pd_leaves {
  pd_leaf *items; /* in the order of the text */
  size_t count, capacity;
  pd_buf paths;
  uint32_t *table; /* open addressing by hash: index plus 1 */
  size_t table_size;
  uint32_t walks;
} pd_leaves;

void pd_leaves_done(pd_leaves *leaves);
/* Take the leaves of a parsed value, whose text must stay. PD_LIMIT for too many. */
PD_MUST_USE pd_code pd_leaves_take(pd_leaves *leaves, pd_json value, pd_error *err);
/* A value that is no JSON, as one leaf. */
PD_MUST_USE pd_code pd_leaves_take_opaque(pd_leaves *leaves, pd_bytes value, pd_error *err);
/* Leaves of `value` that are also here with the same path and the same value move their holder `from` one record `to` another. */
PD_MUST_USE pd_code pd_leaves_pass(pd_leaves *leaves, pd_json value, uint64_t from, uint64_t to, pd_error *err);
pd_bytes pd_leaf_path(const pd_leaves *leaves, const pd_leaf *leaf);

#endif
