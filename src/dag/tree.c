/* tree.c: loading and finding. Editing is in tree_edit.c, walking in tree_walk.c. */
#include "dag/tree.h"

#include "base/base.h"
#include "base/error.h"

#include <stdlib.h>

/* Reuse would hide what the sanitizer is to find. */
#if defined(__SANITIZE_ADDRESS__)
#define SPARE_BYTES_MAX 0
#else
#define SPARE_BYTES_MAX ((size_t)8 << 20)
#endif

void pd_tree_init(pd_tree *tree, pd_node_load load, void *load_ctx)
{
  memset(tree, 0, sizeof *tree);
  tree->pool.spare_bytes_max = SPARE_BYTES_MAX;
  tree->load = load;
  tree->load_ctx = load_ctx;
}

void pd_tree_done(pd_tree *tree)
{
  free(tree->builder);
  tree->builder = NULL;
  pd_node_pool_done(&tree->pool);
}

pd_code pd_tree_empty(pd_tree *tree, pd_node **out_root, pd_error *err)
{
  return pd_tree_apply(tree, NULL, NULL, 0, out_root, err);
}

pd_id pd_tree_empty_id(void)
{
  /* SHA-256 of the preimage 4e 00 00 00: a leaf without entries */
  static const pd_id id = {{0xc0, 0x73, 0x64, 0x11, 0xa6, 0x2e, 0xc0, 0xf4, 0xac, 0xa1, 0xe1, 0x13, 0x35, 0x50, 0x49, 0x1b,
                            0xd0, 0x9b, 0x6f, 0xa9, 0x9a, 0xe3, 0x6c, 0x7b, 0x2f, 0x85, 0xa1, 0x2c, 0x4d, 0xc3, 0x87, 0xd1}};
  return id;
}

static pd_code load_checked(pd_tree *tree, const pd_id *blob_id, const pd_id *id, pd_node **out, pd_error *err)
{
  pd_node *n = NULL;
  TRY(tree->load(tree->load_ctx, blob_id, &n, err));
  if (!pd_id_equal(&n->id, id)) {
    char hex[PD_ID_HEX_SIZE];
    pd_node_unref(&tree->pool, n);
    return pd_error_set(err, PD_CORRUPT, "tree node %.16s does not match its id", pd_id_hex(id, hex));
  }
  *out = n;
  return PD_OK;
}

pd_code pd_tree_kid(pd_tree *tree, pd_node *parent, size_t index, pd_node **out_kid, pd_error *err)
{
  pd_node *kid = parent->kids[index];
  if (!kid) {
    pd_id id;
    memcpy(id.bytes, pd_node_value_id(parent, index), PD_ID_SIZE);
    TRY(load_checked(tree, &parent->kid_blobs[index], &id, &kid, err));
    if (kid->level + 1 != parent->level || kid->key_count != parent->kid_counts[index]) {
      pd_node_unref(&tree->pool, kid);
      return pd_error_set(err, PD_CORRUPT, "a tree node does not fit its parent");
    }
    parent->kids[index] = kid;
  }
  if (!kid->is_used) kid->is_used = true;
  *out_kid = kid;
  return PD_OK;
}

pd_code pd_tree_load_root(pd_tree *tree, const pd_id *blob_id, const pd_id *id, pd_node **out_root, pd_error *err)
{
  return load_checked(tree, blob_id, id, out_root, err);
}

/* What a search of the node will touch lies at fixed places: fetch it all at once. */
static void prefetch(const pd_node *n)
{
  const char *p = (const char *)n;
  if (!n) return;
  __builtin_prefetch(p);
  for (size_t line = 0; line < 5; line++) __builtin_prefetch(p + sizeof *n + 64 * line);
}

pd_code pd_tree_find(pd_tree *tree, pd_node *root, pd_bytes key, pd_node **out_leaf, size_t *out_index, pd_error *err)
{
  pd_node *n = root;
  bool is_equal;
  while (n->level) {
    size_t i = pd_node_find(n, key, &is_equal);
    if (!is_equal && !i) {
      *out_leaf = NULL;
      return PD_OK;
    }
    if (!is_equal) i--;
    prefetch(n->kids[i]);
    TRY(pd_tree_kid(tree, n, i, &n, err));
  }
  size_t i = pd_node_find(n, key, &is_equal);
  *out_leaf = is_equal ? n : NULL;
  *out_index = i;
  return PD_OK;
}

/* The path to an existing key whose nodes nobody shares; its length, or 0. */
static size_t own_path(pd_node *root, uint32_t root_refs, pd_bytes key, pd_node **nodes, size_t *indexes)
{
  size_t depth = 0;
  bool is_equal;
  for (pd_node *n = root;; depth++) {
    if (n->refs != (depth ? 1 : root_refs)) return 0;
    size_t i = pd_node_find(n, key, &is_equal);
    nodes[depth] = n;
    if (!n->level) {
      indexes[depth] = i;
      return is_equal ? depth + 1 : 0;
    }
    if (!is_equal && !i) return 0;
    indexes[depth] = is_equal ? i : i - 1;
    n = n->kids[indexes[depth]];
    if (!n) return 0;
  }
}

/* The new value where the old one was embedded, if it fits; else in a cell of its own, or none: cells are only a cache. */
static void set_cell(pd_tree *tree, pd_node *leaf, size_t at, const pd_tree_edit *edit)
{
  pd_cell *old = leaf->cells[at], *cell = edit->cell;
  if (edit->has_value && old && !old->refs && pd_embed_size(edit->value.size) <= pd_embed_size(old->size)) {
    old->size = (uint32_t)edit->value.size;
    if (edit->value.size) memcpy(old->data, edit->value.data, edit->value.size);
    return;
  }
  if (cell)
    cell->refs++;
  else if (edit->has_value && pd_cell_new(&tree->pool, edit->value, &cell, NULL))
    cell = NULL;
  pd_cell_unref(&tree->pool, old);
  leaf->cells[at] = cell;
  leaf->has_shared |= cell != NULL;
}

/* The value and the ids along a path of nodes that may be changed. */
static void set_path(pd_tree *tree, pd_node **nodes, const size_t *indexes, size_t depth, const pd_tree_edit *edit)
{
  pd_node *leaf = nodes[depth - 1];
  size_t at = indexes[depth - 1];
  set_cell(tree, leaf, at, edit);
  leaf->riders[at] = edit->rider;
  pd_node_set_id(&tree->pool, leaf, at, &edit->value_id);
  for (size_t i = depth - 1; i-- > 0;) pd_node_set_id(&tree->pool, nodes[i], indexes[i], &nodes[i + 1]->id);
}

bool pd_tree_set_in_place(pd_tree *tree, pd_node *root, uint32_t root_refs, const pd_tree_edit *edit)
{
  pd_node *nodes[PD_TREE_DEPTH_MAX];
  size_t indexes[PD_TREE_DEPTH_MAX];
  size_t depth = own_path(root, root_refs, edit->key, nodes, indexes);
  if (!depth) return false;
  set_path(tree, nodes, indexes, depth, edit);
  return true;
}

/* Copies of the nodes from `root` down to the key's leaf, each the only owner of the next. nodes[0] is the caller's. */
static pd_code copy_path(pd_tree *tree, pd_node *root, pd_bytes key, pd_node **nodes, size_t *indexes, size_t *out_depth, pd_error *err)
{
  size_t depth = 0;
  for (pd_node *n = root;; depth++) {
    bool is_equal;
    size_t i = pd_node_find(n, key, &is_equal);
    if (n->level ? !is_equal && !i : !is_equal) return pd_error_set(err, PD_CORRUPT, "a key that should be there is not");
    indexes[depth] = n->level && !is_equal ? i - 1 : i;
    TRY(pd_node_clone(&tree->pool, n, &nodes[depth], err));
    if (depth) {
      pd_node_unref(&tree->pool, n); /* the copy above had its own reference to it */
      nodes[depth - 1]->kids[indexes[depth - 1]] = nodes[depth];
    }
    *out_depth = depth + 1;
    if (!nodes[depth]->level) return PD_OK; /* n itself may be gone */
    TRY(pd_tree_kid(tree, nodes[depth], indexes[depth], &n, err));
  }
}

pd_code pd_tree_set(pd_tree *tree, pd_node *root, const pd_tree_edit *edit, pd_node **out_root, pd_error *err)
{
  pd_node *nodes[PD_TREE_DEPTH_MAX];
  size_t indexes[PD_TREE_DEPTH_MAX], depth = 0;
  pd_code code = copy_path(tree, root, edit->key, nodes, indexes, &depth, err);
  if (code) {
    if (depth) pd_node_unref(&tree->pool, nodes[0]);
    return code;
  }
  set_path(tree, nodes, indexes, depth, edit);
  *out_root = nodes[0];
  return PD_OK;
}
