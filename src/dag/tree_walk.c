/*
 * tree_walk.c: cursors, diff and eviction. A cursor holds a reference to each node on its path, so that neither eviction nor the
 * end of the tree it walks pulls them away.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "dag/tree.h"

static void push(pd_tree_cursor *c, pd_node *n, size_t index)
{
  c->nodes[c->depth] = pd_node_ref(n);
  c->index[c->depth++] = (uint16_t)index;
}

static void pop(pd_tree_cursor *c)
{
  pd_node_unref(&c->tree->pool, c->nodes[--c->depth]);
}

void pd_tree_cursor_done(pd_tree_cursor *cursor)
{
  while (cursor->depth) pop(cursor);
}

/* From the node on top down to a leaf, along first children. */
static pd_code descend(pd_tree_cursor *c, pd_error *err)
{
  for (;;) {
    pd_node *top = c->nodes[c->depth - 1], *kid;
    if (!top->level) return PD_OK;
    TRY(pd_tree_kid(c->tree, top, c->index[c->depth - 1], &kid, err));
    push(c, kid, 0);
  }
}

/* Climb while the node on top is used up, then go down to the next leaf. */
static pd_code settle(pd_tree_cursor *c, pd_error *err)
{
  while (c->depth && c->index[c->depth - 1] >= c->nodes[c->depth - 1]->count) {
    pop(c);
    if (c->depth) c->index[c->depth - 1]++;
  }
  return c->depth ? descend(c, err) : PD_OK;
}

pd_code pd_tree_seek(pd_tree_cursor *cursor, pd_tree *tree, pd_node *root, pd_bytes key, pd_error *err)
{
  memset(cursor, 0, sizeof *cursor);
  cursor->tree = tree;
  for (pd_node *n = root;;) {
    bool is_equal;
    size_t i = pd_node_find(n, key, &is_equal);
    if (n->level && !is_equal && i) i--;
    push(cursor, n, i);
    if (!n->level) return settle(cursor, err);
    TRY(pd_tree_kid(tree, n, i, &n, err));
  }
}

bool pd_tree_at(const pd_tree_cursor *cursor, pd_node **out_leaf, size_t *out_index)
{
  if (!cursor->depth) return false;
  *out_leaf = cursor->nodes[cursor->depth - 1];
  *out_index = cursor->index[cursor->depth - 1];
  return true;
}

pd_code pd_tree_next(pd_tree_cursor *cursor, pd_error *err)
{
  cursor->index[cursor->depth - 1]++;
  return settle(cursor, err);
}

pd_code pd_tree_next_leaf(pd_tree_cursor *cursor, pd_error *err)
{
  cursor->index[cursor->depth - 1] = cursor->nodes[cursor->depth - 1]->count;
  return settle(cursor, err);
}

/* ---- diff: two cursors that stand at children as well as at entries ---- */

/* Step over the child or entry on top without entering it. */
static void skip(pd_tree_cursor *c)
{
  c->index[c->depth - 1]++;
  while (c->depth && c->index[c->depth - 1] >= c->nodes[c->depth - 1]->count) {
    pop(c);
    if (c->depth) c->index[c->depth - 1]++;
  }
}

static pd_code enter(pd_tree_cursor *c, pd_error *err)
{
  pd_node *kid;
  TRY(pd_tree_kid(c->tree, c->nodes[c->depth - 1], c->index[c->depth - 1], &kid, err));
  push(c, kid, 0);
  return PD_OK;
}

static pd_node *top_of(const pd_tree_cursor *c, size_t *out_index)
{
  if (!c->depth) return NULL;
  *out_index = c->index[c->depth - 1];
  return c->nodes[c->depth - 1];
}

typedef struct diff {
  pd_tree_cursor a, b;
  pd_tree_diff_visit visit;
  void *ctx;
} diff;

/* The item of one side comes first: report it if it is an entry, go into it if it is a child. */
static pd_code step_one(diff *d, bool is_a, pd_error *err)
{
  size_t i = 0;
  pd_tree_cursor *c = is_a ? &d->a : &d->b;
  pd_node *n = top_of(c, &i);
  if (n->level) return enter(c, err);
  TRY(is_a ? d->visit(d->ctx, n, i, NULL, 0, err) : d->visit(d->ctx, NULL, 0, n, i, err));
  skip(c);
  return PD_OK;
}

static pd_code step_both(diff *d, pd_node *a, size_t i, pd_node *b, size_t j, pd_error *err)
{
  if (a->level > b->level) return enter(&d->a, err);
  if (b->level > a->level) return enter(&d->b, err);
  if (memcmp(pd_node_value_id(a, i), pd_node_value_id(b, j), PD_ID_SIZE) != 0) {
    if (a->level) {
      TRY(enter(&d->a, err));
      return enter(&d->b, err);
    }
    TRY(d->visit(d->ctx, a, i, b, j, err));
  }
  skip(&d->a);
  skip(&d->b);
  return PD_OK;
}

static pd_code run_diff(diff *d, pd_error *err)
{
  for (;;) {
    size_t i = 0, j = 0;
    pd_node *a = top_of(&d->a, &i), *b = top_of(&d->b, &j);
    if (!a && !b) return PD_OK;
    int order = !a ? 1 : !b ? -1 : pd_bytes_compare(pd_node_key(a, i), pd_node_key(b, j));
    if (order)
      TRY(step_one(d, order < 0, err));
    else
      TRY(step_both(d, a, i, b, j, err));
  }
}

pd_code pd_tree_diff(pd_tree *tree, pd_node *a, pd_node *b, pd_tree_diff_visit visit, void *ctx, pd_error *err)
{
  if (pd_id_equal(&a->id, &b->id)) return PD_OK;
  diff d = {.a.tree = tree, .b.tree = tree, .visit = visit, .ctx = ctx};
  if (a->count) push(&d.a, a, 0);
  if (b->count) push(&d.b, b, 0);
  pd_code code = run_diff(&d, err);
  pd_tree_cursor_done(&d.a);
  pd_tree_cursor_done(&d.b);
  return code;
}

/* ---- eviction ---- */

static void set_hand(pd_buf *hand, pd_bytes key)
{
  pd_buf_clear(hand);
  if (pd_buf_append(hand, key.data, key.size, NULL)) pd_buf_clear(hand); /* no memory: begin again at the first key */
}

static bool evict_kid(pd_tree *tree, pd_node *parent, size_t i)
{
  pd_node *kid = parent->kids[i];
  if (kid->is_used || !kid->is_saved || kid->refs > 1) {
    kid->is_used = false;
    return false;
  }
  parent->kid_blobs[i] = kid->blob_id; /* it may have been saved after its parent was made */
  parent->kids[i] = NULL;
  pd_node_unref(&tree->pool, kid);
  return true;
}

/* True when enough was freed; the hand then stands where to go on. */
static bool evict_below(pd_tree *tree, pd_node *n, bool from_hand, pd_buf *hand, size_t bytes_max)
{
  size_t i = 0;
  bool is_equal = true;
  if (from_hand && hand->size) i = pd_node_find(n, pd_buf_bytes(hand), &is_equal);
  if (!is_equal && i) i--;
  for (size_t first = i; i < n->count; i++) {
    pd_node *kid = n->kids[i];
    if (!kid) continue;
    if (kid->level && evict_below(tree, kid, from_hand && i == first, hand, bytes_max)) return true;
    if (evict_kid(tree, n, i) && tree->pool.bytes <= bytes_max) {
      set_hand(hand, pd_node_key(n, i));
      return true;
    }
  }
  return false;
}

void pd_tree_evict(pd_tree *tree, pd_node *root, pd_buf *hand, size_t bytes_max)
{
  if (!root->level || tree->pool.bytes <= bytes_max) return;
  if (!evict_below(tree, root, true, hand, bytes_max)) pd_buf_clear(hand);
}
