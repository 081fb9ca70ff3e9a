/*
 * tree_edit.c: applying sorted edits to a tree.
 *
 * The old tree is walked once from left to right, entering only the children that edits fall into. Everything met is pushed
 * into a builder with one open node per level. What T1 and T2 of tree.h ask for is kept by three moves:
 *
 *   close   a key of height h ends the open nodes of levels 0 … h-1; each becomes an entry of the level above
 *   reopen  a key of height h goes on in the node of level h that its predecessor is in. If that is not open (the predecessor's
 *           leaf, or a node higher up, was pushed whole), the right edge is opened again: the last child is taken apart into the
 *           open node below, down to level h
 *   explode a whole child whose first key is no natural boundary any more (its leaf's first key was deleted, or it was cut at
 *           the maximum) is taken apart and pushed piece by piece
 *
 * Old nodes are borrowed: the caller holds the old root. New nodes are owned by their item until a parent takes them.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "dag/cursor.h"
#include "dag/tree.h"

#include <assert.h>
#include <stdlib.h>

#define LEVEL_COUNT (PD_NODE_LEVEL_MAX + 2)
#define ENTRY_FIXED_SIZE (2 + PD_ID_SIZE)

/* One entry of an open node: of an old node, or fresh from an edit (leaf), or a new child (inner). */
typedef struct item {
  pd_node *src;
  const pd_tree_edit *fresh;
  pd_node *kid; /* owned */
  uint16_t index;
} item;

typedef struct open_node {
  item items[PD_NODE_COUNT_MAX];
  size_t count;
} open_node;

typedef struct pd_builder {
  pd_tree *tree;
  bool is_empty; /* nothing was pushed yet */
  open_node open[LEVEL_COUNT];
  pd_node **reopened; /* new nodes that were taken apart again; their entries are still borrowed */
  size_t reopened_count, reopened_capacity;
} builder;

static size_t entry_size(const item *it)
{
  if (it->src) return it->src->offsets[it->index + 1] - it->src->offsets[it->index];
  return ENTRY_FIXED_SIZE + (it->fresh ? it->fresh->key.size : pd_node_key(it->kid, 0).size);
}

static void write_entry(uint8_t *out, pd_bytes key, const pd_id *id)
{
  pd_put_u16(out, (uint16_t)key.size);
  memcpy(out + 2, key.data, key.size);
  memcpy(out + 2 + key.size, id->bytes, PD_ID_SIZE);
}

/* What the value of an item takes in the new leaf; 0 if it is not embedded there. */
static size_t embed_size(const item *it)
{
  if (it->src) {
    size_t size = it->src->riders[it->index].size;
    return it->src->cells[it->index] && size <= PD_EMBED_SIZE_MAX ? pd_embed_size(size) : 0;
  }
  return it->fresh->has_value ? pd_embed_size(it->fresh->value.size) : 0;
}

static pd_cell *embed(uint8_t **room, const void *value, size_t size)
{
  pd_cell *cell = (pd_cell *)*room;
  cell->refs = 0;
  cell->size = (uint32_t)size;
  if (size) memcpy(cell->data, value, size);
  *room += pd_embed_size(size);
  return cell;
}

static void fill_leaf_entry(pd_node *n, size_t i, const item *it, uint8_t **room)
{
  pd_cell *shared = it->src ? it->src->cells[it->index] : it->fresh->cell;
  if (it->src) {
    n->riders[i] = it->src->riders[it->index];
  } else {
    write_entry(n->packed + n->offsets[i], it->fresh->key, &it->fresh->value_id);
    n->riders[i] = it->fresh->rider;
  }
  if (it->fresh && it->fresh->has_value) {
    n->cells[i] = embed(room, it->fresh->value.data, it->fresh->value.size);
  } else if (it->src && shared && n->riders[i].size <= PD_EMBED_SIZE_MAX) {
    n->cells[i] = embed(room, shared->data, shared->size);
  } else if (shared) {
    shared->refs++;
    n->cells[i] = shared;
    n->has_shared = true;
  }
}

static void fill_inner_entry(pd_node *n, size_t i, item *it)
{
  if (it->src) {
    n->kid_blobs[i] = it->src->kid_blobs[it->index];
    n->kid_counts[i] = it->src->kid_counts[it->index];
    n->kids[i] = it->src->kids[it->index];
    if (n->kids[i]) n->kids[i]->refs++; /* and nothing else of it is touched: it is cold */
  } else {
    write_entry(n->packed + n->offsets[i], pd_node_key(it->kid, 0), &it->kid->id);
    n->kid_blobs[i] = it->kid->blob_id;
    n->kid_counts[i] = it->kid->key_count;
    n->kids[i] = it->kid; /* the item's reference moves into the parent */
    it->kid = NULL;
  }
}

/* Make the node of an open level and leave the level empty. */
static pd_code build(builder *b, size_t level, pd_node **out, pd_error *err)
{
  open_node *o = &b->open[level];
  size_t packed_size = 0, embedded_size = 0;
  for (size_t i = 0; i < o->count; i++) {
    packed_size += entry_size(&o->items[i]);
    if (level && o->items[i].src) __builtin_prefetch(o->items[i].src->kids[o->items[i].index], 1); /* its count is raised below */
    if (!level) embedded_size += embed_size(&o->items[i]);
  }
  pd_node *n;
  TRY(pd_node_new(&b->tree->pool, (uint8_t)level, o->count, packed_size, embedded_size, &n, err));
  uint8_t *room = n->embedded;
  for (size_t i = 0; i < o->count; i++) {
    item *it = &o->items[i];
    size_t size = entry_size(it);
    n->offsets[i + 1] = n->offsets[i] + (uint32_t)size;
    if (it->src) memcpy(n->packed + n->offsets[i], it->src->packed + it->src->offsets[it->index], size);
    if (level)
      fill_inner_entry(n, i, it);
    else
      fill_leaf_entry(n, i, it, &room);
  }
  pd_node_seal(&b->tree->pool, n);
  o->count = 0;
  *out = n;
  return PD_OK;
}

static pd_code append(builder *b, size_t level, const item *it, pd_error *err);

static pd_code close_level(builder *b, size_t level, pd_error *err)
{
  if (!b->open[level].count) return PD_OK;
  item it = {0};
  TRY(build(b, level, &it.kid, err));
  pd_code code = append(b, level + 1, &it, err);
  if (code) pd_node_unref(&b->tree->pool, it.kid);
  return code;
}

static pd_code close_below(builder *b, size_t height, pd_error *err)
{
  for (size_t level = 0; level < height; level++) TRY(close_level(b, level, err));
  return PD_OK;
}

static pd_code append(builder *b, size_t level, const item *it, pd_error *err)
{
  if (level >= LEVEL_COUNT) return pd_error_set(err, PD_LIMIT, "the tree is deeper than %d levels", LEVEL_COUNT);
  if (b->open[level].count == PD_NODE_COUNT_MAX) TRY(close_level(b, level, err));
  b->open[level].items[b->open[level].count++] = *it;
  b->is_empty = false;
  return PD_OK;
}

static pd_code keep_reopened(builder *b, pd_node *n, pd_error *err)
{
  TRY(pd_array_grow(&b->reopened, b->reopened_count, &b->reopened_capacity, sizeof *b->reopened, "a tree edit", err));
  b->reopened[b->reopened_count++] = n;
  return PD_OK;
}

/* Take the last child of `level` apart into the open node below it. */
static pd_code reopen_level(builder *b, size_t level, pd_error *err)
{
  open_node *o = &b->open[level], *below = &b->open[level - 1];
  item *last = &o->items[o->count - 1];
  pd_node *n = last->kid;
  if (n) {
    TRY(keep_reopened(b, n, err));
    last->kid = NULL;
  } else {
    TRY(pd_tree_kid(b->tree, last->src, last->index, &n, err));
  }
  o->count--;
  assert(!below->count);
  for (size_t i = 0; i < n->count; i++) below->items[i] = (item){.src = n, .index = (uint16_t)i};
  below->count = n->count;
  return PD_OK;
}

/* A key of this height comes next: end the nodes that it does not belong to, and have the one open that it goes on in. */
static pd_code begin_key(builder *b, size_t height, pd_error *err)
{
  if (b->is_empty) return PD_OK;
  TRY(close_below(b, height, err));
  size_t level = height;
  while (!b->open[level].count) level++;
  for (; level > height; level--) TRY(reopen_level(b, level, err));
  return PD_OK;
}

static pd_code push_entry(builder *b, const item *it, size_t height, pd_error *err)
{
  TRY(begin_key(b, height, err));
  return append(b, 0, it, err);
}

static pd_code push_old_entry(builder *b, pd_node *leaf, size_t i, pd_error *err)
{
  item it = {.src = leaf, .index = (uint16_t)i};
  /* only the first key of a leaf can be a boundary: T1 */
  return push_entry(b, &it, i ? 0 : pd_key_height(pd_node_key(leaf, 0)), err);
}

static pd_code push_kids(builder *b, pd_node *n, size_t from, size_t to, pd_error *err);

static pd_code push_kid(builder *b, pd_node *n, size_t i, pd_error *err)
{
  size_t height = pd_key_height(pd_node_key(n, i));
  if (b->is_empty || height >= n->level) {
    item it = {.src = n, .index = (uint16_t)i};
    TRY(begin_key(b, height, err));
    return append(b, n->level, &it, err);
  }
  pd_node *kid;
  TRY(pd_tree_kid(b->tree, n, i, &kid, err));
  if (kid->level) return push_kids(b, kid, 0, kid->count, err);
  for (size_t k = 0; k < kid->count; k++) TRY(push_old_entry(b, kid, k, err));
  return PD_OK;
}

static pd_code push_kids(builder *b, pd_node *n, size_t from, size_t to, pd_error *err)
{
  size_t i = from;
  for (; i < to && (!i || i == from || n->has_forced); i++) TRY(push_kid(b, n, i, err));
  for (; i < to; i++) { /* height is exactly the level: nothing to close above, nothing open below */
    item it = {.src = n, .index = (uint16_t)i};
    TRY(append(b, n->level, &it, err));
  }
  return PD_OK;
}

static pd_code walk_leaf(builder *b, pd_node *n, const pd_tree_edit *edits, size_t count, pd_error *err)
{
  size_t i = 0;
  for (size_t e = 0; e < count; e++) {
    bool is_equal;
    size_t stop = pd_node_find(n, edits[e].key, &is_equal);
    for (; i < stop; i++) TRY(push_old_entry(b, n, i, err));
    if (is_equal) i = stop + 1;
    if (edits[e].is_delete) continue;
    item it = {.fresh = &edits[e]};
    TRY(push_entry(b, &it, pd_key_height(edits[e].key), err));
  }
  for (; i < n->count; i++) TRY(push_old_entry(b, n, i, err));
  return PD_OK;
}

static pd_code walk(builder *b, pd_node *n, const pd_tree_edit *edits, size_t count, pd_error *err)
{
  if (!n->level) return walk_leaf(b, n, edits, count, err);
  size_t i = 0;
  for (size_t e = 0; e < count;) {
    bool is_equal;
    size_t kid_index = pd_node_find(n, edits[e].key, &is_equal);
    if (!is_equal && kid_index) kid_index--;
    TRY(push_kids(b, n, i, kid_index, err));
    size_t end = e + 1; /* the edits that fall into this child */
    while (end < count && (kid_index + 1u == n->count || pd_bytes_compare(edits[end].key, pd_node_key(n, kid_index + 1)) < 0)) end++;
    pd_node *kid;
    TRY(pd_tree_kid(b->tree, n, kid_index, &kid, err));
    TRY(walk(b, kid, edits + e, end - e, err));
    e = end;
    i = kid_index + 1;
  }
  return push_kids(b, n, i, n->count, err);
}

static size_t top_level(const builder *b)
{
  size_t top = LEVEL_COUNT - 1;
  while (top && !b->open[top].count) top--;
  return top;
}

/* T2: a root with a single child is no root. Takes over the reference to `n`. */
static pd_code collapse(builder *b, pd_node *n, pd_node **out_root, pd_error *err)
{
  while (n->level && n->count == 1) {
    pd_node *kid = NULL;
    pd_code code = pd_tree_kid(b->tree, n, 0, &kid, err);
    if (!code) pd_node_ref(kid);
    pd_node_unref(&b->tree->pool, n);
    if (code) return code;
    n = kid;
  }
  *out_root = n;
  return PD_OK;
}

static pd_code finish(builder *b, pd_node **out_root, pd_error *err)
{
  for (size_t level = 0; level < top_level(b); level++) TRY(close_level(b, level, err));
  pd_node *root;
  TRY(build(b, top_level(b), &root, err));
  return collapse(b, root, out_root, err);
}

static void clean(builder *b)
{
  for (size_t level = 0; level < LEVEL_COUNT; level++) {
    open_node *o = &b->open[level];
    for (size_t i = 0; i < o->count; i++) pd_node_unref(&b->tree->pool, o->items[i].kid);
    o->count = 0;
  }
  for (size_t i = 0; i < b->reopened_count; i++) pd_node_unref(&b->tree->pool, b->reopened[i]);
  free(b->reopened);
  b->reopened = NULL;
  b->reopened_count = b->reopened_capacity = 0;
}

pd_code pd_tree_apply(pd_tree *tree, pd_node *root, const pd_tree_edit *edits, size_t count, pd_node **out_root, pd_error *err)
{
  if (!tree->builder) {
    tree->builder = calloc(1, sizeof *tree->builder);
    if (!tree->builder) return pd_error_memory(err, "a tree edit");
  }
  builder *b = tree->builder;
  b->tree = tree;
  b->is_empty = true;
  pd_node none = {.refs = 1};
  pd_node *result = NULL;
  pd_code code = walk(b, root ? root : &none, edits, count, err);
  if (!code) code = finish(b, &result, err);
  clean(b);
  if (!code) *out_root = result;
  return code;
}
