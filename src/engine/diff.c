/*
 * diff.c: what differs between two points. If the commits between them are few, only the keys that they changed are compared; else
 * the two trees are, skipping what they share.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

#define NEAR_COMMITS_MAX 256
#define NEAR_KEYS_MAX 4096

typedef struct diff {
  pd_store *s;
  bool (*visit)(void *ctx, const pd_difference *difference);
  void *ctx;
  bool is_stopped;
  size_t compared; /* keys */
} diff;

/* After each key: others may have the lock. The trees are held, and so are the nodes that the walk stands on. */
static void rest(diff *d)
{
  if (++d->compared % PD_YIELD_STEPS == 0) pd_store_yield(d->s);
}

static void report(diff *d, const pd_entry *before, const pd_entry *after)
{
  pd_difference difference = {before ? before->key : after->key, before, after};
  d->is_stopped = !d->visit(d->ctx, &difference);
}

/* ---- far apart: trees ---- */

static pd_code report_entries(void *ctx, pd_node *a, size_t i, pd_node *b, size_t j, pd_error *err)
{
  diff *d = ctx;
  pd_entry before, after;
  if (a) pd_entry_of(a, i, &before);
  if (b) pd_entry_of(b, j, &after);
  report(d, a ? &before : NULL, b ? &after : NULL);
  rest(d);
  return d->is_stopped ? pd_error_set(err, PD_EXISTS, "stopped") : PD_OK;
}

static pd_code diff_trees(pd_store *s, uint64_t a, uint64_t b, diff *d, pd_error *err)
{
  pd_node *root_a, *root_b;
  TRY(pd_tree_to_read(s, a, &root_a, err));
  pd_code code = pd_tree_to_read(s, b, &root_b, err);
  if (!code) {
    code = pd_tree_diff(&s->tree, root_a, root_b, report_entries, d, err);
    pd_node_unref(&s->tree.pool, root_b);
  }
  pd_node_unref(&s->tree.pool, root_a);
  return d->is_stopped ? PD_OK : code;
}

/* ---- near: the keys that were touched on the way ---- */

typedef struct touched {
  pd_buf keys; /* one after the other */
  size_t ends[NEAR_KEYS_MAX];
  pd_bytes sorted[NEAR_KEYS_MAX];
  size_t count;
} touched;

static pd_code touch(pd_store *s, uint64_t seq, touched *t, uint64_t *out_parent, bool *out_fits, pd_error *err)
{
  pd_segment *seg;
  pd_rec rec;
  TRY(pd_segment_bring(s, seq, err));
  TRY(pd_segment_of(s, seq, &seg, err));
  TRY(pd_segment_record(seg, seq, &rec, err));
  if (rec.kind != PD_RECORD_COMMIT) return pd_error_set(err, PD_CORRUPT, "record %llu is no commit", (unsigned long long)seq);
  *out_parent = pd_rec_base(&rec);
  *out_fits = t->count + rec.change_count <= NEAR_KEYS_MAX;
  pd_cursor c = pd_rec_changes(&rec);
  for (size_t i = 0; *out_fits && i < rec.change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(&rec, &c, &ch);
    TRY(pd_buf_append(&t->keys, ch.key.data, ch.key.size, err));
    t->ends[t->count++] = t->keys.size;
  }
  return PD_OK;
}

/* Walk both back to where they meet. */
static pd_code touch_between(pd_store *s, uint64_t a, uint64_t b, touched *t, bool *out_fits, pd_error *err)
{
  *out_fits = true;
  TRY(pd_retention_ready(s, err));
  for (size_t steps = 0; a != b && *out_fits; steps++) {
    uint64_t *later = a > b ? &a : &b;
    if (steps == NEAR_COMMITS_MAX || *later < s->retention.state.cut) *out_fits = false; /* there are trees before the cut, no steps */
    if (*out_fits) TRY(touch(s, *later, t, later, out_fits, err));
  }
  return PD_OK;
}

static int compare_keys(const void *a, const void *b)
{
  return pd_bytes_compare(*(const pd_bytes *)a, *(const pd_bytes *)b);
}

static pd_code compare_key(pd_store *s, uint64_t a, uint64_t b, pd_bytes key, diff *d, pd_error *err)
{
  pd_entry before, after;
  pd_code had = pd_get_to_read(s, a, key, NULL, &before, err);
  if (had && had != PD_NOT_FOUND) return had;
  pd_code has = pd_get_to_read(s, b, key, NULL, &after, err);
  if (has && has != PD_NOT_FOUND) return has;
  if (had && has) return PD_OK;
  if (!had && !has && pd_id_equal(&before.value_id, &after.value_id)) return PD_OK;
  report(d, had ? NULL : &before, has ? NULL : &after);
  return PD_OK;
}

static pd_code diff_near(pd_store *s, uint64_t a, uint64_t b, touched *t, diff *d, pd_error *err)
{
  size_t at = 0;
  for (size_t i = 0; i < t->count; i++) {
    t->sorted[i] = (pd_bytes){t->keys.data + at, t->ends[i] - at};
    at = t->ends[i];
  }
  qsort(t->sorted, t->count, sizeof *t->sorted, compare_keys);
  for (size_t i = 0; i < t->count && !d->is_stopped; i++)
    if (!i || !pd_bytes_equal(t->sorted[i], t->sorted[i - 1])) {
      TRY(compare_key(s, a, b, t->sorted[i], d, err));
      rest(d);
    }
  return PD_OK;
}

static pd_code diff_locked(pd_store *s, const char *before, const char *after, diff *d, pd_error *err)
{
  pd_commit a, b;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_resolve_to_read(s, before, &a, err));
  TRY(pd_resolve_to_read(s, after, &b, err));
  if (pd_id_equal(&a.tree, &b.tree)) return PD_OK;
  touched *t = malloc(sizeof *t);
  if (!t) return pd_error_memory(err, "a diff");
  t->keys = (pd_buf){0};
  t->count = 0;
  bool fits;
  pd_code code = touch_between(s, a.seq, b.seq, t, &fits, err);
  if (!code) code = fits ? diff_near(s, a.seq, b.seq, t, d, err) : diff_trees(s, a.seq, b.seq, d, err);
  pd_buf_done(&t->keys);
  free(t);
  return code;
}

pd_code pd_diff(pd_store *store, const char *before, const char *after, bool (*visit)(void *ctx, const pd_difference *difference),
                void *ctx, pd_error *err)
{
  diff d = {.s = store, .visit = visit, .ctx = ctx};
  pd_store_lock_to_read(store);
  pd_code code = diff_locked(store, before, after, &d, err);
  pd_cache_trim(store);
  pd_store_unlock(store);
  return code;
}
