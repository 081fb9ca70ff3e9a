/*
 * view.c: the tree of one commit. A view is the number of a commit and, if there is one, a reference to the root of its tree: nodes do not
 * change (N2), so nothing that is committed later is seen through it, and nobody has to wait for it.
 */
#include "engine/view.h"

#include "base/base.h"
#include "base/error.h"
#include "engine/iter.h"
#include "engine/retired.h"

#include <stdlib.h>

/* A head's tree in memory is there for nothing, one in the bag for a read. Otherwise it is built when it is walked over. */
static pd_code take_head(pd_view *view, pd_ref_slot *slot, pd_error *err)
{
  pd_head *head = &slot->seen;
  pd_node *root = head->root;
  if (!root && head->has_blob) TRY(pd_head_root(view->store, head, &root, err));
  view->commit = head->commit;
  view->slot = slot;
  view->root = root ? pd_node_ref(root) : NULL;
  return PD_OK;
}

static pd_code take_point(pd_view *view, const char *at, pd_error *err)
{
  pd_ref_slot *slot;
  TRY(pd_refresh_to_read(view->store, err));
  if (pd_resolve_head(view->store, at, &slot)) return take_head(view, slot, err);
  return pd_resolve_to_read(view->store, at, &view->commit, err);
}

void pd_view_done(pd_view *view)
{
  pd_node_unref(&view->store->tree.pool, view->root);
  view->root = NULL;
}

static pd_code take_record(pd_view *view, uint64_t seq, pd_error *err)
{
  TRY(pd_refresh_to_read(view->store, err));
  return pd_commit_at(view->store, seq, &view->commit, err);
}

static pd_code take_commit(pd_view *view, const pd_commit *commit, pd_error *err)
{
  pd_store *s = view->store;
  view->commit = *commit;
  if (commit->seq > s->seen_seq) return take_record(view, commit->seq, err); /* another process may have made it */
  TRY(pd_retention_ready(s, err));
  return pd_is_retired(s, commit->seq) ? pd_retired_error(s, commit->seq, err) : PD_OK;
}

/* One of the three. */
typedef struct point {
  const char *at;
  const pd_commit *commit;
  uint64_t seq;
} point;

static pd_code open_view(pd_store *s, const point *p, pd_view **out, pd_error *err)
{
  pd_view *view = calloc(1, sizeof *view);
  if (!view) return pd_error_memory(err, "a view");
  view->store = s;
  pd_store_lock_to_read(s);
  pd_code code = p->commit ? take_commit(view, p->commit, err) : p->at ? take_point(view, p->at, err) : take_record(view, p->seq, err);
  view->forgotten = s->forgotten;
  pd_store_unlock(s);
  if (code)
    free(view);
  else
    *out = view;
  return code;
}

pd_code pd_view_open(pd_store *store, const char *at, pd_view **out, pd_error *err)
{
  return open_view(store, &(point){.at = at ? at : ""}, out, err);
}

pd_code pd_view_open_commit(pd_store *store, const pd_commit *commit, pd_view **out, pd_error *err)
{
  return open_view(store, &(point){.commit = commit}, out, err);
}

pd_code pd_view_open_record(pd_store *store, uint64_t seq, pd_view **out, pd_error *err)
{
  return open_view(store, &(point){.seq = seq}, out, err);
}

void pd_view_close(pd_view *view)
{
  if (!view) return;
  pd_store *s = view->store;
  pd_store_lock(s);
  pd_view_done(view);
  pd_store_unlock(s);
  free(view);
}

pd_commit pd_view_commit(const pd_view *view)
{
  return view->commit;
}

/* What gc or an erasure took must not be answered from memory, and what they left may lie elsewhere. True if there was one. */
static bool forget_root(pd_view *view)
{
  if (view->is_base || view->forgotten == view->store->forgotten) return false;
  pd_view_done(view);
  view->forgotten = view->store->forgotten;
  return true;
}

static pd_code get_locked(pd_view *view, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  forget_root(view);
  if (view->root) return pd_get_in_tree(view->store, view->root, key, out_value, out_entry, err);
  return pd_get_to_read(view->store, view->commit.seq, key, out_value, out_entry, err);
}

/* Something is gone: because of another process, whose gc this handle has not heard of yet? */
static bool has_heard_of_gc(pd_view *view)
{
  return !view->is_base && !pd_refresh_to_read(view->store, NULL) && !pd_retention_ready(view->store, NULL) && forget_root(view);
}

pd_code pd_view_get(pd_view *view, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  pd_store *s = view->store;
  if (!key.size || key.size > PD_KEY_SIZE_MAX) TRY(pd_key_check(key, err));
  pd_store_lock_to_read(s);
  pd_code code = get_locked(view, key, out_value, out_entry, err);
  if (code == PD_RETIRED && has_heard_of_gc(view)) code = get_locked(view, key, out_value, out_entry, err);
  pd_cache_trim(s);
  pd_store_unlock(s);
  return code;
}

/* Others may be doing the same with the view while the lock is given up. */
static pd_code need_root(pd_view *view, pd_error *err)
{
  pd_node *root;
  if (view->root) return PD_OK;
  TRY(pd_tree_to_read(view->store, view->commit.seq, &root, err));
  if (view->root)
    pd_node_unref(&view->store->tree.pool, root);
  else
    view->root = root;
  pd_head *head = view->slot ? &view->slot->seen : NULL;
  if (head && !head->root && head->commit.seq == view->commit.seq) head->root = pd_node_ref(view->root);
  return PD_OK;
}

static pd_code scan_locked(pd_view *view, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  forget_root(view);
  TRY(need_root(view, err));
  return pd_iter_over(view->store, view->root, scan, out, err);
}

pd_code pd_view_scan(pd_view *view, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  pd_store_lock_to_read(view->store);
  pd_code code = scan_locked(view, scan, out, err);
  if (code == PD_RETIRED && has_heard_of_gc(view)) code = scan_locked(view, scan, out, err);
  pd_store_unlock(view->store);
  return code;
}

pd_code pd_iter_open(pd_store *store, const char *at, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  pd_view view = {.store = store};
  pd_store_lock_to_read(store);
  pd_code code = take_point(&view, at, err);
  view.forgotten = store->forgotten;
  if (!code) code = scan_locked(&view, scan, out, err);
  pd_view_done(&view);
  pd_store_unlock(store);
  return code;
}
