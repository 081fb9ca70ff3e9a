/*
 * tree.h: an ordered map from keys to values as a tree of immutable nodes (node.h).
 *
 *   T1  Same map, same tree, same id, whatever the order of edits: which keys begin a node is decided by each key alone
 *       (pd_key_height), and a run longer than PD_NODE_COUNT_MAX is cut at exact multiples of it.
 *   T2  The root is the lowest level at which a single node remains; the empty map is a leaf without entries.
 *   T3  An edit makes new nodes on its path only and leaves the old tree as it was.
 *
 * Pure: nodes that are not in memory come from `load`, which the owner provides and which checks the blob against its id.
 * Nothing here locks: the owner does.
 */
#ifndef PD_DAG_TREE_H
#define PD_DAG_TREE_H

#include "dag/node.h"

/* Give the node whose blob has this id, with one reference, its bytes checked. */
typedef pd_code (*pd_node_load)(void *ctx, const pd_id *blob_id, pd_node **out, pd_error *err);

struct pd_builder;

typedef struct pd_tree {
  pd_node_pool pool;
  pd_node_load load;
  void *load_ctx;
  struct pd_builder *builder; /* scratch space of pd_tree_apply */
} pd_tree;

void pd_tree_init(pd_tree *tree, pd_node_load load, void *load_ctx);
void pd_tree_done(pd_tree *tree);

PD_MUST_USE pd_code pd_tree_empty(pd_tree *tree, pd_node **out_root, pd_error *err);
/* The id of the empty tree. */
pd_id pd_tree_empty_id(void);

/* Child `index`, loaded and compared with the id that its parent holds; borrowed from the parent. */
PD_MUST_USE pd_code pd_tree_kid(pd_tree *tree, pd_node *parent, size_t index, pd_node **out_kid, pd_error *err);
/* Load a root by its blob and check that its id is `id`. One reference. */
PD_MUST_USE pd_code pd_tree_load_root(pd_tree *tree, const pd_id *blob_id, const pd_id *id, pd_node **out_root, pd_error *err);

/* Find `key` under `root`. *out_leaf is NULL if it is absent; else borrowed, with the entry's index. */
PD_MUST_USE pd_code pd_tree_find(pd_tree *tree, pd_node *root, pd_bytes key, pd_node **out_leaf, size_t *out_index, pd_error *err);

typedef struct pd_tree_edit {
  pd_bytes key;
  bool is_delete; /* of an absent key: no change */
  pd_id value_id;
  pd_rider rider;
  bool has_value; /* `value` is to be embedded: at most PD_EMBED_SIZE_MAX bytes, copied */
  pd_bytes value;
  pd_cell *cell; /* else, or NULL; the tree takes its own reference */
} pd_tree_edit;

/* The tree with the edits applied. `edits` ascend by key, each key once. *out_root has one reference. */
PD_MUST_USE pd_code pd_tree_apply(pd_tree *tree, pd_node *root, const pd_tree_edit *edits, size_t count, pd_node **out_root, pd_error *err);

/* Set an existing key in the very nodes of `root` instead of copies, if nobody else holds any of them: all on the path have one
 * owner, and the root `root_refs` of them. False, and nothing changed, if that is not so. Cannot fail otherwise. */
bool pd_tree_set_in_place(pd_tree *tree, pd_node *root, uint32_t root_refs, const pd_tree_edit *edit);

/* pd_tree_apply for one edit that sets an existing key: its path is copied node by node, which is cheaper. */
PD_MUST_USE pd_code pd_tree_set(pd_tree *tree, pd_node *root, const pd_tree_edit *edit, pd_node **out_root, pd_error *err);

/* ---- walking (tree_walk.c) ---- */

#define PD_TREE_DEPTH_MAX (PD_NODE_LEVEL_MAX + 3)

typedef struct pd_tree_cursor {
  pd_tree *tree;
  pd_node *nodes[PD_TREE_DEPTH_MAX]; /* [0] is the root; each referenced */
  uint16_t index[PD_TREE_DEPTH_MAX];
  size_t depth; /* 0: at the end */
} pd_tree_cursor;

/* At the first key >= `key`. Pair with pd_tree_cursor_done, also on failure. */
PD_MUST_USE pd_code pd_tree_seek(pd_tree_cursor *cursor, pd_tree *tree, pd_node *root, pd_bytes key, pd_error *err);
/* The leaf and index the cursor stands at; false at the end. */
bool pd_tree_at(const pd_tree_cursor *cursor, pd_node **out_leaf, size_t *out_index);
PD_MUST_USE pd_code pd_tree_next(pd_tree_cursor *cursor, pd_error *err);
/* To the first entry of the next leaf. */
PD_MUST_USE pd_code pd_tree_next_leaf(pd_tree_cursor *cursor, pd_error *err);
void pd_tree_cursor_done(pd_tree_cursor *cursor);

/* One entry of each side; the absent side has leaf NULL. Return anything but PD_OK to stop. */
typedef pd_code (*pd_tree_diff_visit)(void *ctx, pd_node *leaf_a, size_t index_a, pd_node *leaf_b, size_t index_b, pd_error *err);

/* Entries whose value ids differ, in key order. Subtrees with the same id are not entered. */
PD_MUST_USE pd_code pd_tree_diff(pd_tree *tree, pd_node *a, pd_node *b, pd_tree_diff_visit visit, void *ctx, pd_error *err);

/* Forget loaded children that are saved, unreferenced by others and unused since the hand last passed, from `hand` on (a key; moved
 * along), until the pool holds at most `bytes_max` or the whole tree was passed. */
void pd_tree_evict(pd_tree *tree, pd_node *root, pd_buf *hand, size_t bytes_max);

#endif
