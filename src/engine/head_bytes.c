/*
 * head_bytes.c: how many bytes the values at the head of a ref have together. A commit that is staged here knows what it adds and
 * removes (commit.c), one by another process is compared with the tree before (open.c); after anything else they are counted anew.
 */
#include "base/base.h"
#include "base/error.h"
#include "engine/store.h"

static uint64_t bytes_of_leaf(const pd_node *leaf)
{
  uint64_t bytes = 0;
  for (size_t i = 0; i < leaf->count; i++) bytes += leaf->riders[i].size;
  return bytes;
}

static pd_code walk_leaves(pd_store *s, pd_tree_cursor *cursor, pd_node *root, uint64_t *bytes, pd_error *err)
{
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_seek(cursor, &s->tree, root, (pd_bytes){"", 0}, err));
  while (pd_tree_at(cursor, &leaf, &index)) {
    *bytes += bytes_of_leaf(leaf);
    TRY(pd_tree_next_leaf(cursor, err));
    pd_cache_trim(s);
  }
  return PD_OK;
}

pd_code pd_head_count(pd_store *s, pd_ref_slot *slot, pd_error *err)
{
  pd_node *root;
  TRY(pd_head_root(s, &slot->seen, &root, err));
  pd_node_ref(root); /* trimming must not take what is walked over */
  pd_tree_cursor cursor = {.tree = &s->tree};
  uint64_t bytes = 0;
  pd_code code = walk_leaves(s, &cursor, root, &bytes, err);
  pd_tree_cursor_done(&cursor);
  pd_node_unref(&s->tree.pool, root);
  if (code) return code;
  bool is_one = slot->tip.last_seq == slot->seen.last_seq || !(s->pending.count || s->inflight.count); /* nothing is staged on it */
  slot->seen.bytes = bytes;
  slot->seen.has_bytes = true;
  if (is_one) slot->tip.bytes = bytes;
  if (is_one) slot->tip.has_bytes = true;
  return PD_OK;
}

static pd_code add_difference(void *ctx, pd_node *a, size_t i, pd_node *b, size_t j, pd_error *err)
{
  uint64_t *bytes = ctx;
  (void)err;
  if (a) *bytes -= a->riders[i].size;
  if (b) *bytes += b->riders[j].size;
  return PD_OK;
}

pd_code pd_head_recount(pd_store *s, pd_node *before, pd_node *after, uint64_t *bytes, pd_error *err)
{
  uint64_t counted = *bytes;
  TRY(pd_tree_diff(&s->tree, before, after, add_difference, &counted, err));
  *bytes = counted;
  return PD_OK;
}

static pd_code bytes_locked(pd_store *s, const char *name, uint64_t *out, pd_error *err)
{
  pd_ref_slot *slot;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_slot_get(s, name, &slot, err));
  if (!slot->seen.has_bytes) TRY(pd_head_count(s, slot, err));
  *out = slot->seen.bytes;
  return PD_OK;
}

pd_code pd_ref_bytes(pd_store *store, const char *name, uint64_t *out_bytes, pd_error *err)
{
  pd_store_lock(store);
  pd_code code = bytes_locked(store, name, out_bytes, err);
  pd_store_unlock(store);
  return code;
}
