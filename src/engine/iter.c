/*
 * iter.c: walking the keys of a tree in order (view.c says of which). The lock is taken once per leaf: the iterator holds a reference to
 * the leaf, whose entries and loaded values do not change (N2), and hands them out without locking.
 */
#include "engine/iter.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/error.h"

#include <stdlib.h>

struct pd_iter {
  pd_store *store;
  pd_node *root;
  pd_tree_cursor cursor;
  pd_buf prefix, to, value;
  bool keys_only;
  pd_node *leaf; /* the cursor's; NULL: at the end */
  size_t index, end;
};

static bool is_past_end(const pd_iter *it, pd_bytes key)
{
  if (it->prefix.size && !pd_bytes_starts(key, pd_buf_bytes(&it->prefix))) return true;
  return it->to.size && pd_bytes_compare(key, pd_buf_bytes(&it->to)) >= 0;
}

/* How many entries of the leaf are in range: most leaves lie in it as a whole. */
static size_t range_end(const pd_iter *it, const pd_node *leaf, size_t from)
{
  if (!is_past_end(it, pd_node_key(leaf, (size_t)leaf->count - 1))) return leaf->count;
  size_t end = from;
  while (end < leaf->count && !is_past_end(it, pd_node_key(leaf, end))) end++;
  return end;
}

/* With the lock held: take the leaf that the cursor stands at. */
static pd_code enter_leaf(pd_iter *it, pd_error *err)
{
  it->leaf = NULL;
  pd_node *leaf;
  size_t index;
  if (!pd_tree_at(&it->cursor, &leaf, &index)) return PD_OK;
  size_t end = range_end(it, leaf, index);
  if (end == index) return PD_OK;
  for (size_t i = index; !it->keys_only && i < end; i++) {
    if (leaf->cells[i])
      __builtin_prefetch(leaf->cells[i]);
    else
      TRY(pd_value_load(it->store, leaf, i, err));
  }
  it->leaf = leaf;
  it->index = index;
  it->end = end;
  return PD_OK;
}

static pd_code copy_bytes(pd_buf *to, pd_bytes from, pd_error *err)
{
  return pd_buf_append(to, from.data, from.size, err);
}

static pd_code start(pd_iter *it, const pd_scan *scan, pd_error *err)
{
  pd_bytes low = {"", 0};
  bool skips_low = false;
  if (scan) {
    it->keys_only = scan->keys_only;
    TRY(copy_bytes(&it->prefix, scan->prefix, err));
    TRY(copy_bytes(&it->to, scan->to, err));
    low = scan->prefix;
    if (pd_bytes_compare(scan->from, low) > 0) low = scan->from;
    skips_low = scan->after.size && pd_bytes_compare(scan->after, low) >= 0;
    if (skips_low) low = scan->after;
  }
  TRY(pd_tree_seek(&it->cursor, &it->store->tree, it->root, low, err));
  pd_node *leaf;
  size_t index;
  if (skips_low && pd_tree_at(&it->cursor, &leaf, &index) && pd_bytes_equal(pd_node_key(leaf, index), low))
    TRY(pd_tree_next(&it->cursor, err));
  return enter_leaf(it, err);
}

/* With the lock held. */
static void free_iter(pd_iter *it)
{
  pd_tree_cursor_done(&it->cursor);
  pd_node_unref(&it->store->tree.pool, it->root);
  pd_buf_done(&it->prefix);
  pd_buf_done(&it->to);
  pd_buf_done(&it->value);
  free(it);
}

pd_code pd_iter_over(pd_store *s, pd_node *root, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  pd_iter *it = calloc(1, sizeof *it);
  if (!it) return pd_error_memory(err, "an iterator");
  it->store = s;
  it->root = pd_node_ref(root);
  it->cursor.tree = &s->tree;
  pd_code code = start(it, scan, err);
  if (code) {
    free_iter(it);
    return code;
  }
  *out = it;
  return PD_OK;
}

static pd_code next_leaf(pd_iter *it, pd_error *err)
{
  TRY(pd_disk_step(err));
  pd_store_lock_to_read(it->store);
  bool was_last = it->end < it->leaf->count;
  pd_code code = was_last ? PD_OK : pd_tree_next_leaf(&it->cursor, err);
  it->leaf = NULL;
  if (!code && !was_last) code = enter_leaf(it, err);
  pd_cache_trim(it->store);
  pd_store_unlock(it->store);
  return code;
}

/* The value of the entry at hand: its cell, or for one too large to keep, a copy in the iterator. */
static pd_code value_here(pd_iter *it, pd_bytes *out, pd_error *err)
{
  const pd_cell *cell = it->leaf->cells[it->index];
  TRY(pd_disk_step(err));
  if (cell) {
    *out = (pd_bytes){cell->data, cell->size};
    return PD_OK;
  }
  pd_store_lock(it->store);
  pd_code code = pd_value_read(it->store, it->leaf, it->index, &it->value, err);
  pd_store_unlock(it->store);
  *out = pd_buf_bytes(&it->value);
  return code;
}

pd_code pd_iter_next(pd_iter *iter, pd_entry *out_entry, pd_bytes *out_value, pd_error *err)
{
  if (iter->leaf && iter->index == iter->end) TRY(next_leaf(iter, err));
  if (!iter->leaf) return PD_NOT_FOUND;
  pd_bytes value = {NULL, 0};
  if (out_value && !iter->keys_only) TRY(value_here(iter, &value, err));
  if (out_value) *out_value = value;
  pd_entry_of(iter->leaf, iter->index, out_entry);
  iter->index++;
  return PD_OK;
}

void pd_iter_close(pd_iter *iter)
{
  if (!iter) return;
  pd_store *s = iter->store;
  pd_store_lock(s);
  free_iter(iter);
  pd_store_unlock(s);
}
