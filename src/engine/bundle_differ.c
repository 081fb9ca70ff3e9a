/*
 * bundle_differ.c: where two trees differ, in value or in history (bundle_out.h). pd_tree_diff compares values alone: two branches may
 * have come to the same value on different ways, and then versions and authors differ. Subtrees with the same blob are not entered.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle_out.h"

#define TRIM_EVERY 256

/* One side: the way from the root to where it stands. What it stands at is an entry of a leaf, or a child that was not entered. */
typedef struct side {
  pd_node *root; /* borrowed */
  pd_node *nodes[PD_TREE_DEPTH_MAX];
  size_t index[PD_TREE_DEPTH_MAX];
  size_t depth; /* 0: at the end */
} side;

typedef struct differ {
  pd_store *s;
  side a, b;
  pd_differ_visit visit;
  void *ctx;
  pd_buf hand;
  unsigned loads;
} differ;

static pd_node *node_of(const side *x)
{
  return x->nodes[x->depth - 1];
}

static size_t index_of(const side *x)
{
  return x->index[x->depth - 1];
}

static pd_bytes key_of(const side *x)
{
  return pd_node_key(node_of(x), index_of(x));
}

/* 0: an entry. Else the level of the child plus 1. */
static unsigned level_of(const side *x)
{
  return node_of(x)->level;
}

/* ---- with the lock ---- */

static void leave(differ *d, side *x)
{
  pd_node_unref(&d->s->tree.pool, x->nodes[--x->depth]);
}

static void step(differ *d, side *x)
{
  x->index[x->depth - 1]++;
  while (x->depth && index_of(x) >= node_of(x)->count) {
    leave(d, x);
    if (x->depth) x->index[x->depth - 1]++;
  }
}

static void enter(side *x, pd_node *node)
{
  x->nodes[x->depth] = pd_node_ref(node);
  x->index[x->depth++] = 0;
}

static const pd_id *blob_of(const pd_node *n, size_t index)
{
  const pd_node *kid = n->kids[index];
  return !kid ? &n->kid_blobs[index] : kid->is_saved ? &kid->blob_id : NULL;
}

static bool is_same_kid(const side *x, const side *y)
{
  const pd_node *kid = node_of(x)->kids[index_of(x)];
  const pd_id *one = blob_of(node_of(x), index_of(x)), *two = blob_of(node_of(y), index_of(y));
  return (kid && kid == node_of(y)->kids[index_of(y)]) || (one && two && pd_id_equal(one, two));
}

/* What was loaded stays with its tree, unless it is made to go. */
static void trim(differ *d)
{
  size_t most = d->s->cache_size_max / 4;
  if (++d->loads % TRIM_EVERY) return;
  pd_tree_evict(&d->s->tree, d->a.root, &d->hand, most);
  pd_tree_evict(&d->s->tree, d->b.root, &d->hand, most);
}

static pd_code expand(differ *d, side *x, pd_error *err)
{
  pd_node *kid;
  if (x->depth == PD_TREE_DEPTH_MAX) return pd_error_set(err, PD_CORRUPT, "a tree is deeper than it can be");
  TRY(pd_tree_kid(&d->s->tree, node_of(x), index_of(x), &kid, err));
  enter(x, kid);
  trim(d);
  return PD_OK;
}

/* Children are entered, or passed over, until both stand at entries. *out_stands says that they do. */
static pd_code approach(differ *d, bool *out_stands, pd_error *err)
{
  side *a = &d->a, *b = &d->b;
  unsigned la = a->depth ? level_of(a) : 0, lb = b->depth ? level_of(b) : 0;
  *out_stands = !la && !lb;
  if (*out_stands) return PD_OK;
  if (la && la == lb && is_same_kid(a, b)) {
    step(d, a);
    step(d, b);
    return PD_OK;
  }
  if (la && lb) return expand(d, la >= lb ? a : b, err);
  side *inner = la ? a : b, *leaf = la ? b : a;
  *out_stands = leaf->depth && pd_bytes_compare(key_of(leaf), key_of(inner)) < 0; /* it is alone */
  return *out_stands ? PD_OK : expand(d, inner, err);
}

static pd_code approach_all(differ *d, pd_error *err)
{
  bool stands = false;
  pd_code code = PD_OK;
  pd_store_lock(d->s);
  while (!code && !stands && (d->a.depth || d->b.depth)) code = approach(d, &stands, err);
  pd_store_unlock(d->s);
  return code;
}

/* ---- without ---- */

static bool is_same_entry(const side *x, const side *y)
{
  const pd_node *n = node_of(x), *m = node_of(y);
  return n->riders[index_of(x)].seq == m->riders[index_of(y)].seq &&
         memcmp(pd_node_value_id(n, index_of(x)), pd_node_value_id(m, index_of(y)), PD_ID_SIZE) == 0;
}

static pd_code compare(differ *d, pd_error *err)
{
  side *a = &d->a, *b = &d->b;
  bool has_a = a->depth && !level_of(a), has_b = b->depth && !level_of(b);
  int order = !has_a ? 1 : !has_b ? -1 : pd_bytes_compare(key_of(a), key_of(b));
  bool takes_a = order <= 0, takes_b = order >= 0;
  if (order != 0 || !is_same_entry(a, b))
    TRY(d->visit(d->ctx, takes_a ? node_of(a) : NULL, takes_a ? index_of(a) : 0, takes_b ? node_of(b) : NULL, takes_b ? index_of(b) : 0,
                 err));
  pd_store_lock(d->s);
  if (takes_a) step(d, a);
  if (takes_b) step(d, b);
  pd_store_unlock(d->s);
  return PD_OK;
}

static pd_code run(differ *d, pd_error *err)
{
  for (;;) {
    TRY(approach_all(d, err));
    if (!d->a.depth && !d->b.depth) return PD_OK;
    TRY(compare(d, err));
  }
}

pd_code pd_differ(pd_store *s, pd_node *a, pd_node *b, pd_differ_visit visit, void *ctx, pd_error *err)
{
  differ d = {.s = s, .a = {.root = a}, .b = {.root = b}, .visit = visit, .ctx = ctx};
  pd_store_lock(s);
  if (a->count) enter(&d.a, a);
  if (b->count) enter(&d.b, b);
  pd_store_unlock(s);
  pd_code code = run(&d, err);
  pd_store_lock(s);
  while (d.a.depth) leave(&d, &d.a);
  while (d.b.depth) leave(&d, &d.b);
  pd_store_unlock(s);
  pd_buf_done(&d.hand);
  return code;
}
