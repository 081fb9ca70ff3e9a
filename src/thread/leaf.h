/*
 * leaf.h: a thread's state as keys of a tree: one key a leaf, so that a change costs the leaves it touches.
 *
 *     {"plan":{"steps":["a","b"],"tags":[]}}      state/plan/steps/#0000000000  "a"
 *                                                 state/plan/steps/#0000000001  "b"
 *                                                 state/plan/tags               []
 *
 * L1  A leaf is what is neither object nor array, or an empty one, or a subtree that is kept whole. The root is never a leaf: an empty
 *     state has no keys.
 * L2  Which keys there are depends on the state alone, not on its history. Whether a subtree is kept whole depends on its path alone: if
 *     its key has more than PD_LEAF_SPLIT_MAX bytes, or its name more than PD_LEAF_NAME_MAX, or more than a key has room for when it is
 *     escaped (in these two cases the key has the name's hash, and the value is [name, subtree]).
 * L3  In names '~' is "~0", '/' "~1", NUL "~2", a '#' at the beginning "~3"; "~h" and 64 digits is a hashed name, "#" and ten
 *     digits an index.
 */
#ifndef PD_THREAD_LEAF_H
#define PD_THREAD_LEAF_H

#include "base/doc.h"

#define PD_LEAF_ROOT "state"
#define PD_LEAF_SPLIT_MAX 700
#define PD_LEAF_NAME_MAX 256

/* Replace `out_key` by the key of what is at the path, or of the whole subtree that it lies in; returns the steps that the key stands for
 * in *out_used. No step may be PD_STEP_EITHER. */
PD_MUST_USE pd_code pd_stateleaf_key(const pd_doc_step *steps, size_t count, pd_buf *out_key, size_t *out_used, pd_error *err);

/* The path of a leaf, from its key and its value (a hashed name is only there). PD_CORRUPT if this is no leaf. *out is yours. */
PD_MUST_USE pd_code pd_stateleaf_path(pd_bytes key, pd_bytes value, pd_doc_path *out, pd_error *err);
/* The JSON at a leaf: its value, without the name that may stand before it. */
PD_MUST_USE pd_code pd_stateleaf_json(pd_bytes key, pd_bytes value, pd_json *out, pd_error *err);

/* Leaves in the order of their keys. {0} is none. */
typedef struct pd_stateleaf {
  size_t key_at, key_size, value_at, value_size; /* in `bytes` */
} pd_stateleaf;

typedef struct pd_stateleaves {
  pd_stateleaf *items;
  size_t count, capacity;
  pd_buf bytes;
} pd_stateleaves;

void pd_stateleaves_done(pd_stateleaves *leaves);
pd_bytes pd_stateleaf_key_of(const pd_stateleaves *leaves, size_t index);
pd_bytes pd_stateleaf_value_of(const pd_stateleaves *leaves, size_t index);
PD_MUST_USE pd_code pd_stateleaves_add(pd_stateleaves *leaves, pd_bytes key, pd_bytes value, pd_error *err);

/* Those of the value at the path in `doc`; none if nothing is there. `used` steps, as pd_stateleaf_key said. */
PD_MUST_USE pd_code pd_stateleaves_of(const pd_doc *doc, const pd_doc_step *steps, size_t used, pd_bytes key, pd_stateleaves *out,
                                      pd_error *err);
/* Those that a tree has for `key`: itself and what is below it. */
PD_MUST_USE pd_code pd_stateleaves_read(pd_view *view, pd_bytes key, pd_stateleaves *out, pd_error *err);

/* Stage what differs at these paths between the tree that `edit` began with and the doc. Nothing is staged yet. */
PD_MUST_USE pd_code pd_stateleaves_stage(pd_edit *edit, const pd_doc *doc, const pd_doc_path *paths, size_t count, pd_error *err);

/* Put one leaf into the doc, and keep all edits of the doc so far. The items of an array come in order. PD_CORRUPT if it does not fit. */
PD_MUST_USE pd_code pd_stateleaf_put(pd_doc *doc, pd_bytes key, pd_bytes value, pd_error *err);
/* The state as a doc. */
PD_MUST_USE pd_code pd_stateleaves_load(pd_view *view, pd_doc **out, pd_error *err);
/* Append the canonical JSON of what is at the pointer; PD_NOT_FOUND (PathNotFound). */
PD_MUST_USE pd_code pd_stateleaves_text(pd_view *view, const char *pointer, pd_buf *out, pd_error *err);
/* The leaves at the pointer; there is at least one, unless the pointer is the root's. PD_NOT_FOUND (PathNotFound). *out_path is its path,
 * as far as keys have it; it is yours. */
PD_MUST_USE pd_code pd_stateleaves_at(pd_view *view, const char *pointer, pd_stateleaves *out, pd_doc_path *out_path, size_t *out_used,
                                      pd_error *err);

#endif
