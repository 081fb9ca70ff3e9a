/*
 * bundle_graft.c: a commit whose parents are gone, on its way into a bundle with its whole tree (bundle_out.h D6).
 *
 * What the tree has that the graft before has not is a set of changes, each in some record of the log. Backwards from those the versions
 * before them are looked for, as far as retention left them; then the records are written, oldest first, with those changes.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle_out.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <stdlib.h>

#define GONE_COUNT_MAX 10000 /* deletes of one graft; beyond, it begins with nothing */
#define TRIM_EVERY 1024
#define FOUND 1u /* the change is in its record */

typedef struct grafter {
  pd_exporter *ex;
  const pd_knot *knot, *base; /* base NULL: the empty tree */
  pd_node *from, *to;
  pd_map64 wanted; /* fingerprints of (record, key) */
  uint64_t *seqs;  /* records with something wanted: a heap, largest first; then ascending */
  size_t count, capacity;
  uint64_t *parts; /* those that had it, newest first */
  size_t part_count, part_capacity;
  pd_buf gone; /* keys that the base has and this has not, sized */
  size_t gone_count;
  pd_point point; /* parents */
  bool has_begun;
  pd_buf hands[2];
  unsigned lookups;
} grafter;

static void grafter_done(grafter *g)
{
  pd_store *s = g->ex->s;
  pd_store_lock(s);
  pd_node_unref(&s->tree.pool, g->from);
  pd_node_unref(&s->tree.pool, g->to);
  pd_store_unlock(s);
  pd_map64_done(&g->wanted);
  free(g->seqs);
  free(g->parts);
  pd_buf_done(&g->gone);
  pd_buf_done(&g->hands[0]);
  pd_buf_done(&g->hands[1]);
}

/* ---- what has to come along ---- */

static pd_code push(grafter *g, uint64_t seq, pd_error *err)
{
  TRY(pd_array_grow(&g->seqs, g->count, &g->capacity, sizeof *g->seqs, "a bundle", err));
  size_t i = g->count++;
  for (; i && g->seqs[(i - 1) / 2] < seq; i = (i - 1) / 2) g->seqs[i] = g->seqs[(i - 1) / 2];
  g->seqs[i] = seq;
  return PD_OK;
}

static uint64_t pop_one(grafter *g)
{
  uint64_t top = g->seqs[0], last = g->seqs[--g->count];
  size_t i = 0;
  for (size_t kid; (kid = 2 * i + 1) < g->count; i = kid) {
    if (kid + 1 < g->count && g->seqs[kid + 1] > g->seqs[kid]) kid++;
    if (g->seqs[kid] <= last) break;
    g->seqs[i] = g->seqs[kid];
  }
  g->seqs[i] = last;
  return top;
}

/* The newest record; each once. */
static uint64_t pop(grafter *g)
{
  uint64_t seq = pop_one(g);
  while (g->count && g->seqs[0] == seq) pop_one(g);
  return seq;
}

static pd_code want(grafter *g, uint64_t seq, pd_bytes key, pd_error *err)
{
  bool is_new;
  TRY(pd_map64_add(&g->wanted, pd_change_print(seq, key), NULL, &is_new, err));
  return is_new ? push(g, seq, err) : PD_OK;
}

static pd_code take_difference(void *ctx, const pd_node *leaf_a, size_t index_a, const pd_node *leaf_b, size_t index_b, pd_error *err)
{
  grafter *g = ctx;
  if (leaf_b) return want(g, leaf_b->riders[index_b].seq, pd_node_key(leaf_b, index_b), err);
  if (++g->gone_count > GONE_COUNT_MAX) return PD_OK;
  return pd_add_sized(&g->gone, pd_node_key(leaf_a, index_a), err);
}

/* Nodes that were loaded stay with their tree, unless they are made to go. */
static void trim(grafter *g)
{
  pd_store *s = g->ex->s;
  if (++g->lookups % TRIM_EVERY || s->tree.pool.bytes < s->cache_size_max / 4) return;
  pd_tree_evict(&s->tree, g->from, &g->hands[0], s->cache_size_max / 4);
  pd_tree_evict(&s->tree, g->to, &g->hands[1], s->cache_size_max / 4);
}

/* What a tree says of a key: who wrote it, and when its first version was. */
static pd_code look_up(grafter *g, pd_node *root, pd_bytes key, uint64_t *out_seq, int64_t *out_created_ms, pd_error *err)
{
  pd_store *s = g->ex->s;
  pd_node *leaf;
  size_t index;
  pd_store_lock(s);
  pd_code code = pd_tree_find(&s->tree, root, key, &leaf, &index, err);
  *out_seq = !code && leaf ? leaf->riders[index].seq : 0;
  *out_created_ms = !code && leaf ? leaf->riders[index].created_ms : 0;
  trim(g);
  pd_store_unlock(s);
  return code;
}

/* Mark what is wanted of the record, and want the versions before, but for those that the base has. */
static pd_code look_back(grafter *g, const pd_rec *rec, bool *out_has_some, pd_error *err)
{
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    uint64_t base_seq;
    int64_t created_ms;
    pd_rec_next(rec, &c, &ch);
    uint32_t *wanted = pd_map64_find(&g->wanted, pd_change_print(rec->seq, ch.key));
    if (!wanted || ch.is_delete) continue;
    *wanted = FOUND;
    *out_has_some = true;
    if (!ch.prev_seq) continue;
    TRY(look_up(g, g->from, ch.key, &base_seq, &created_ms, err));
    if (base_seq != ch.prev_seq) TRY(want(g, ch.prev_seq, ch.key, err));
  }
  return PD_OK;
}

static pd_code look_back_all(grafter *g, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf copy = {0};
  while (g->count) {
    pd_rec rec;
    pd_error why;
    bool has_some = false;
    uint64_t seq = pop(g);
    pd_code code = pd_export_fetch(g->ex, seq, &copy, &rec, &why);
    if (code == PD_RETIRED) continue; /* an older version that retention took */
    if (code && err) *err = why;
    TRY(code);
    TRY(look_back(g, &rec, &has_some, err));
    if (!has_some) continue;
    TRY(pd_array_grow(&g->parts, g->part_count, &g->part_capacity, sizeof *g->parts, "a bundle", err));
    g->parts[g->part_count++] = seq;
  }
  return PD_OK;
}

/* ---- writing ---- */

static pd_code write_change(grafter *g, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  pd_exporter *ex = g->ex;
  uint64_t base_seq, own_seq;
  int64_t created_ms;
  TRY(look_up(g, g->from, ch->key, &base_seq, &created_ms, err));
  TRY(look_up(g, g->to, ch->key, &own_seq, &created_ms, err));
  const uint32_t *before = ch->prev_seq ? pd_map64_find(&g->wanted, pd_change_print(ch->prev_seq, ch->key)) : NULL;
  bool is_linked = ch->prev_seq && (base_seq == ch->prev_seq || (before && *before == FOUND));
  uint8_t flags = (uint8_t)(pd_export_flags(ch) | (is_linked ? PD_BUNDLE_LINKED : 0));
  ex->report.changes++;
  TRY(pd_bundle_add(&ex->out, &flags, 1, err));
  TRY(pd_bundle_add_sized(&ex->out, ch->key, err));
  TRY(pd_bundle_add_number(&ex->out, ch->version, err));
  if (!is_linked && ch->version > 1) TRY(pd_bundle_add_number(&ex->out, (uint64_t)created_ms, err));
  return pd_export_value(ex, ch, scratch, err);
}

static bool is_wanted(const grafter *g, uint64_t seq, const pd_rec_change *ch)
{
  return !ch->is_delete && pd_map64_find(&g->wanted, pd_change_print(seq, ch->key));
}

static size_t count_wanted(const grafter *g, const pd_rec *rec)
{
  size_t count = 0;
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    count += is_wanted(g, rec->seq, &ch);
  }
  return count;
}

static pd_code write_gone(grafter *g, pd_bytes key, pd_error *err)
{
  static const uint8_t flags = PD_BUNDLE_DELETE;
  g->ex->report.changes++;
  TRY(pd_bundle_add(&g->ex->out, &flags, 1, err));
  return pd_bundle_add_sized(&g->ex->out, key, err);
}

/* The record's own changes, and among them by key, if it is the commit itself, what the base has too much. */
static pd_code write_changes(grafter *g, const pd_rec *rec, bool is_last, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_cursor gone = pd_cursor_of(is_last ? pd_buf_bytes(&g->gone) : (pd_bytes){0}), c = pd_rec_changes(rec);
  size_t left = is_last ? g->gone_count : 0;
  pd_bytes key = left ? pd_take_sized(&gone, PD_KEY_SIZE_MAX) : (pd_bytes){0};
  TRY(pd_bundle_add_number(&g->ex->out, count_wanted(g, rec) + left, err));
  for (size_t i = 0; i <= rec->change_count; i++) {
    pd_rec_change ch = {.is_delete = true};
    if (i < rec->change_count) pd_rec_next(rec, &c, &ch);
    bool is_end = i == rec->change_count;
    if (!is_end && !is_wanted(g, rec->seq, &ch)) continue;
    for (; left && (is_end || pd_bytes_compare(key, ch.key) < 0); left--) {
      TRY(write_gone(g, key, err));
      if (left > 1) key = pd_take_sized(&gone, PD_KEY_SIZE_MAX);
    }
    if (!is_end) TRY(write_change(g, &ch, &scratch, err));
  }
  return PD_OK;
}

/* What it builds on: the base, or the part before it. */
static pd_code write_start(grafter *g, pd_error *err)
{
  uint64_t on = g->has_begun ? PD_BUNDLE_ON_PART : g->base ? 2 * (uint64_t)(g->knot->place - g->base->place) - 1 : 0;
  g->has_begun = true;
  return pd_bundle_add_number(&g->ex->out, on, err);
}

static pd_code write_part(grafter *g, uint64_t seq, pd_error *err)
{
  static const uint8_t kind = PD_BUNDLE_PART;
  CLEANUP(pd_buf_done) pd_buf copy = {0};
  pd_exporter *ex = g->ex;
  pd_rec rec;
  TRY(pd_export_fetch(ex, seq, &copy, &rec, err));
  TRY(pd_bundle_add(&ex->out, &kind, 1, err));
  TRY(pd_bundle_add(&ex->out, pd_rec_maker(&rec)->bytes, PD_ID_SIZE, err));
  TRY(write_start(g, err));
  TRY(pd_export_origin(ex, &rec, err));
  return write_changes(g, &rec, false, err);
}

static pd_code write_last(grafter *g, pd_error *err)
{
  static const uint8_t kind = PD_BUNDLE_GRAFT;
  CLEANUP(pd_buf_done) pd_buf copy = {0};
  pd_exporter *ex = g->ex;
  const pd_point *p = &g->point;
  pd_rec rec;
  TRY(pd_export_fetch(ex, g->knot->seq, &copy, &rec, err));
  TRY(pd_bundle_add(&ex->out, &kind, 1, err));
  TRY(pd_bundle_add(&ex->out, p->commit.id.bytes, PD_ID_SIZE, err));
  TRY(pd_bundle_add(&ex->out, p->commit.tree.bytes, PD_ID_SIZE, err));
  TRY(pd_bundle_add_number(&ex->out, p->parent_count, err));
  for (size_t i = 0; i < p->parent_count; i++) TRY(pd_bundle_add(&ex->out, p->parents[i].bytes, PD_ID_SIZE, err));
  TRY(write_start(g, err));
  TRY(pd_export_origin(ex, &rec, err));
  return write_changes(g, &rec, true, err);
}

/* ---- all together ---- */

/* With the lock: the commit and the ids of its parents. */
static pd_code learn(grafter *g, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_store *s = g->ex->s;
  pd_rec rec;
  TRY(pd_retention_ready(s, err));
  const pd_point *point = pd_point_at(s, g->knot->seq);
  if (point) g->point = *point;
  if (point) return PD_OK;
  TRY(pd_commit_at(s, g->knot->seq, &g->point.commit, err));
  TRY(pd_record_at(s, g->knot->seq, &scratch, &rec, err));
  if (!rec.is_grafted) return pd_retired_error(s, g->knot->seq, err);
  g->point.parent_count = rec.parent_count;
  memcpy(g->point.parents, rec.parent_ids, sizeof g->point.parents);
  return PD_OK;
}

static pd_code load_trees(grafter *g, pd_error *err)
{
  pd_store *s = g->ex->s;
  pd_store_lock_to_read(s);
  pd_code code = learn(g, err);
  if (!code) code = g->base ? pd_tree_to_read(s, g->base->seq, &g->from, err) : pd_tree_empty(&s->tree, &g->from, err);
  if (!code) code = pd_tree_to_read(s, g->knot->seq, &g->to, err);
  pd_store_unlock(s);
  return code;
}

static pd_code write_graft(pd_exporter *ex, const pd_knot *l, const pd_knot *base, bool *out_is_far, pd_error *err)
{
  CLEANUP(grafter_done) grafter g = {.ex = ex, .knot = l, .base = base};
  TRY(load_trees(&g, err));
  TRY(pd_differ(ex->s, g.from, g.to, take_difference, &g, err));
  *out_is_far = g.gone_count > GONE_COUNT_MAX;
  if (*out_is_far) return PD_OK;
  TRY(look_back_all(&g, err));
  for (size_t i = g.part_count; i-- > 0;)
    if (g.parts[i] != l->seq) TRY(write_part(&g, g.parts[i], err));
  return write_last(&g, err);
}

pd_code pd_export_graft(pd_exporter *ex, const pd_knot *l, pd_error *err)
{
  bool is_far;
  TRY(write_graft(ex, l, ex->graft, &is_far, err));
  if (is_far) TRY(write_graft(ex, l, NULL, &is_far, err));
  ex->graft = l;
  return PD_OK;
}
