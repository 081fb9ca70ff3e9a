/*
 * merge_tree.c: three trees become the changes that make ours into the merged one. Only what differs between base and theirs is walked;
 * each key of it is looked up in ours. So a merge costs what theirs changed, whatever is stored and whatever ours changed.
 *
 * The same walk also merges several common ancestors into one base (a criss-cross history): then nothing can conflict, because a key
 * that does gets what the bases had in common, and the changes are applied to a tree that lives in memory only.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/merge.h"

#include <stdlib.h>

#define BASE_DEPTH_MAX 32 /* bases of bases of bases…: beyond this the newest stands for all */

/* An entry of one of the trees; leaf NULL: absent. */
typedef struct entry_at {
  pd_node *leaf;
  size_t index;
} entry_at;

typedef struct tree_merge {
  pd_merge_job *job;
  pd_node *ours;
  bool is_base; /* making a base of several: no resolutions, no conflicts, edits instead of changes */
  pd_tree_edit *edits;
  size_t edit_count, edit_capacity;
  pd_buf values[PD_SIDE_COUNT]; /* of the key at hand */
  pd_buf merged;
  pd_bytes key;
  pd_merge_rule rule;
  bool was_resolved; /* some path of the key at hand */
} tree_merge;

static void tree_merge_done(tree_merge *m)
{
  for (size_t i = 0; i < m->edit_count; i++) pd_cell_unref(&m->job->store->tree.pool, m->edits[i].cell);
  free(m->edits);
  for (int i = 0; i < PD_SIDE_COUNT; i++) pd_buf_done(&m->values[i]);
  pd_buf_done(&m->merged);
}

static bool are_same(const entry_at *a, const entry_at *b)
{
  if (!a->leaf || !b->leaf) return !a->leaf && !b->leaf;
  return memcmp(pd_node_value_id(a->leaf, a->index), pd_node_value_id(b->leaf, b->index), PD_ID_SIZE) == 0;
}

/* ---- rules and resolutions ---- */

static pd_merge_rule rule_of(const pd_rule_book *book, pd_bytes key)
{
  pd_merge_rule best = book->policy;
  size_t best_size = 0;
  for (size_t i = 0; i < book->count; i++) {
    const pd_prefix_rule *r = &book->rules[i];
    if (r->prefix_size < best_size || !pd_bytes_starts(key, (pd_bytes){r->prefix, r->prefix_size})) continue;
    best = r->rule;
    best_size = r->prefix_size;
  }
  return best;
}

/* Rules under which the same change on both sides is two changes. */
static bool is_additive(pd_merge_rule rule)
{
  return rule == PD_MERGE_COUNTER || rule == PD_MERGE_APPEND;
}

static const pd_resolution *find_resolution(tree_merge *m, pd_bytes path)
{
  size_t low = 0, high = m->is_base ? 0 : m->job->resolution_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    const pd_resolution *r = m->job->resolutions[mid];
    int order = pd_bytes_compare(r->key, m->key);
    if (!order) order = pd_bytes_compare(r->path, path);
    if (!order) {
      m->job->used[mid] = true;
      return r;
    }
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return NULL;
}

/* ---- what becomes of a key ---- */

static pd_code read_side(tree_merge *m, const entry_at *at, int side, pd_side_value *out, pd_error *err)
{
  *out = (pd_side_value){.is_present = at->leaf != NULL};
  if (!at->leaf) return PD_OK;
  TRY(pd_value_read(m->job->store, at->leaf, at->index, &m->values[side], err));
  out->bytes = pd_buf_bytes(&m->values[side]);
  return PD_OK;
}

static pd_code add_change(tree_merge *m, const entry_at *ours, bool is_both, bool is_resolved, const pd_side_value *value, pd_error *err)
{
  if (!value->is_present && !ours->leaf) return PD_OK;
  pd_merge_change change = {
    .key = m->key, .is_delete = !value->is_present, .is_new = !ours->leaf, .is_both = is_both, .is_resolved = is_resolved, .rule = m->rule};
  if (value->bytes.size > m->job->store->value_size_max)
    return pd_error_set(err, PD_LIMIT, "the merged value of key '%.*s' has %zu bytes, the limit is %zu",
                        (int)(m->key.size < 200 ? m->key.size : 200), (const char *)m->key.data, value->bytes.size,
                        m->job->store->value_size_max);
  if (value->is_present && ours->leaf) {
    pd_id id = pd_sha256(value->bytes);
    if (memcmp(id.bytes, pd_node_value_id(ours->leaf, ours->index), PD_ID_SIZE) == 0) return PD_OK; /* as it is */
  }
  return pd_result_change(m->job->result, &change, value->bytes, err);
}

/* Of a base in the making: the entry of a tree as it is, with its place in the log. */
static pd_code edit_from_entry(tree_merge *m, const entry_at *from, pd_error *err)
{
  TRY(pd_array_grow(&m->edits, m->edit_count, &m->edit_capacity, sizeof *m->edits, "the base of a merge", err));
  pd_tree_edit *e = &m->edits[m->edit_count++];
  *e = (pd_tree_edit){.is_delete = !from->leaf};
  TRY(pd_result_keep(m->job->result, m->key, &e->key, err));
  if (!from->leaf) return PD_OK;
  memcpy(e->value_id.bytes, pd_node_value_id(from->leaf, from->index), PD_ID_SIZE);
  e->rider = from->leaf->riders[from->index];
  const pd_cell *cell = from->leaf->cells[from->index];
  if (!cell) return PD_OK;
  pd_bytes value = {cell->data, cell->size};
  e->has_value = cell->size <= PD_EMBED_SIZE_MAX;
  if (e->has_value) return pd_result_keep(m->job->result, value, &e->value, err);
  return pd_cell_new(&m->job->store->tree.pool, value, &e->cell, err);
}

/* The same for a value that no record has: it lives in the tree alone. */
static pd_code edit_from_value(tree_merge *m, pd_bytes value, pd_error *err)
{
  TRY(pd_array_grow(&m->edits, m->edit_count, &m->edit_capacity, sizeof *m->edits, "the base of a merge", err));
  pd_tree_edit *e = &m->edits[m->edit_count++];
  *e = (pd_tree_edit){.value_id = pd_sha256(value), .rider = {.version = 1, .size = (uint32_t)value.size, .pos = PD_POS_BAG}};
  TRY(pd_result_keep(m->job->result, m->key, &e->key, err));
  e->has_value = value.size <= PD_EMBED_SIZE_MAX;
  if (e->has_value) return pd_result_keep(m->job->result, value, &e->value, err);
  return pd_cell_new(&m->job->store->tree.pool, value, &e->cell, err);
}

static pd_code take_entry(tree_merge *m, const entry_at *ours, const entry_at *from, bool is_both, pd_error *err)
{
  if (are_same(ours, from)) return PD_OK;
  if (m->is_base) return edit_from_entry(m, from, err);
  pd_side_value value;
  TRY(read_side(m, from, PD_SIDE_THEIRS, &value, err));
  return add_change(m, ours, is_both, false, &value, err);
}

/* ---- both sides changed it ---- */

static pd_code choose_resolved(tree_merge *m, const pd_resolution *r, const pd_side_value sides[PD_SIDE_COUNT], pd_json *chosen,
                               pd_error *err)
{
  pd_side_value value = {r->take == PD_TAKE_VALUE, r->value};
  if (r->take == PD_TAKE_BASE) value = sides[PD_SIDE_BASE];
  if (r->take == PD_TAKE_OURS) value = sides[PD_SIDE_OURS];
  if (r->take == PD_TAKE_THEIRS) value = sides[PD_SIDE_THEIRS];
  *chosen = (pd_json){0};
  m->was_resolved = true;
  pd_error why;
  if (!value.is_present || !pd_json_parse(value.bytes, chosen, &why)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the resolution of key '%.*s' at '%.*s' is no JSON: %.200s",
                      (int)(m->key.size < 100 ? m->key.size : 100), (const char *)m->key.data,
                      (int)(r->path.size < 100 ? r->path.size : 100), (const char *)r->path.data, why.message);
}

static pd_code on_conflict(void *ctx, pd_bytes path, const char *why, const pd_side_value sides[PD_SIDE_COUNT], bool *out_is_settled,
                           pd_json *chosen, pd_error *err)
{
  tree_merge *m = ctx;
  *out_is_settled = m->is_base;
  if (m->is_base) return PD_OK;
  const pd_resolution *r = path.size ? find_resolution(m, path) : NULL;
  *out_is_settled = r != NULL;
  if (r) return choose_resolved(m, r, sides, chosen, err);
  return pd_result_conflict(m->job->result, m->key, path, m->rule, why, sides, err);
}

static pd_code merge_key(tree_merge *m, const entry_at at[PD_SIDE_COUNT], pd_error *err)
{
  pd_side_value sides[PD_SIDE_COUNT];
  pd_verdict verdict;
  if (m->rule == PD_MERGE_OURS && !m->is_base) return PD_OK;
  if (m->rule == PD_MERGE_THEIRS && !m->is_base) return take_entry(m, &at[PD_SIDE_OURS], &at[PD_SIDE_THEIRS], true, err);
  for (int side = 0; side < PD_SIDE_COUNT; side++) TRY(read_side(m, &at[side], side, &sides[side], err));
  TRY(pd_merge_value(m->rule, sides, on_conflict, m, &m->merged, &verdict, err));
  switch (verdict) {
  case PD_VERDICT_CONFLICT:
  case PD_VERDICT_OURS: return PD_OK;
  case PD_VERDICT_THEIRS: return take_entry(m, &at[PD_SIDE_OURS], &at[PD_SIDE_THEIRS], true, err);
  case PD_VERDICT_BASE: return take_entry(m, &at[PD_SIDE_OURS], &at[PD_SIDE_BASE], true, err);
  case PD_VERDICT_MERGED: break;
  }
  if (m->is_base) return edit_from_value(m, pd_buf_bytes(&m->merged), err);
  pd_side_value merged = {true, pd_buf_bytes(&m->merged)};
  return add_change(m, &at[PD_SIDE_OURS], true, m->was_resolved, &merged, err);
}

static pd_code resolve_key(tree_merge *m, const pd_resolution *r, const entry_at at[PD_SIDE_COUNT], pd_error *err)
{
  static const int sides[] = {[PD_TAKE_BASE] = PD_SIDE_BASE, [PD_TAKE_OURS] = PD_SIDE_OURS, [PD_TAKE_THEIRS] = PD_SIDE_THEIRS};
  pd_side_value value = {r->take == PD_TAKE_VALUE, r->value};
  if (r->take != PD_TAKE_VALUE && r->take != PD_TAKE_DELETE) TRY(read_side(m, &at[sides[r->take]], sides[r->take], &value, err));
  return add_change(m, &at[PD_SIDE_OURS], true, true, &value, err);
}

/* Theirs differs from the base here. */
static pd_code visit_change(void *ctx, pd_node *leaf_b, size_t index_b, pd_node *leaf_t, size_t index_t, pd_error *err)
{
  tree_merge *m = ctx;
  if (m->job->may_yield && ++m->job->key_count % PD_YIELD_STEPS == 0) pd_store_yield(m->job->store);
  entry_at at[PD_SIDE_COUNT] = {[PD_SIDE_BASE] = {leaf_b, index_b}, [PD_SIDE_THEIRS] = {leaf_t, index_t}};
  m->key = leaf_t ? pd_node_key(leaf_t, index_t) : pd_node_key(leaf_b, index_b);
  m->was_resolved = false;
  m->rule = rule_of(m->job->book, m->key);
  TRY(pd_tree_find(&m->job->store->tree, m->ours, m->key, &at[PD_SIDE_OURS].leaf, &at[PD_SIDE_OURS].index, err));
  const pd_resolution *r = find_resolution(m, (pd_bytes){NULL, 0});
  if (r) return resolve_key(m, r, at, err);
  if (are_same(&at[PD_SIDE_OURS], &at[PD_SIDE_BASE])) return take_entry(m, &at[PD_SIDE_OURS], &at[PD_SIDE_THEIRS], false, err);
  bool is_equal = are_same(&at[PD_SIDE_OURS], &at[PD_SIDE_THEIRS]);
  if (is_equal && (!is_additive(m->rule) || !leaf_t)) return PD_OK;
  return merge_key(m, at, err);
}

pd_code pd_merge_tree_of(pd_merge_job *job, uint64_t seq, pd_node **out_root, pd_error *err)
{
  return job->may_yield ? pd_tree_to_read(job->store, seq, out_root, err) : pd_tree_of(job->store, seq, out_root, err);
}

pd_code pd_merge_trees(pd_merge_job *job, pd_node *base, pd_node *ours, pd_node *theirs, pd_error *err)
{
  CLEANUP(tree_merge_done) tree_merge m = {.job = job, .ours = ours};
  return pd_tree_diff(&job->store->tree, base, theirs, visit_change, &m, err);
}

/* ---- several bases ---- */

/* Where a side would be preferred, there is none between two ancestors. */
static void neutral_book(const pd_rule_book *from, pd_rule_book *out, pd_prefix_rule *rules)
{
  *out = *from;
  out->rules = rules;
  for (size_t i = 0; i <= from->count; i++) {
    pd_merge_rule *rule = i < from->count ? &rules[i].rule : &out->policy;
    if (i < from->count) rules[i] = from->rules[i];
    if (*rule == PD_MERGE_OURS || *rule == PD_MERGE_THEIRS) *rule = PD_MERGE_FAIL;
  }
}

/* The merge of two trees with a base, as a tree. */
static pd_code join_trees(pd_merge_job *job, pd_node *base, pd_node *left, pd_node *right, pd_node **out_root, pd_error *err)
{
  CLEANUP(tree_merge_done) tree_merge m = {.job = job, .ours = left, .is_base = true};
  TRY(pd_tree_diff(&job->store->tree, base, right, visit_change, &m, err));
  return pd_tree_apply(&job->store->tree, left, m.edits, m.edit_count, out_root, err);
}

static pd_code base_tree(pd_merge_job *job, const pd_seq_set *bases, unsigned depth, pd_node **out_root, pd_error *err);

/* Merge one more base into *root, which stands for `joined`. */
static pd_code join_base(pd_merge_job *job, const pd_seq_set *joined, uint64_t seq, unsigned depth, pd_node **root, pd_error *err)
{
  pd_store *s = job->store;
  pd_seq_set one = {.seqs = {seq}, .count = 1}, common;
  pd_node *base = NULL, *right = NULL, *made = NULL;
  TRY(pd_merge_bases(s, joined, &one, job->may_yield, &common, NULL, err));
  pd_code code = base_tree(job, &common, depth + 1, &base, err);
  if (!code) code = pd_merge_tree_of(job, seq, &right, err);
  if (!code) code = join_trees(job, base, *root, right, &made, err);
  pd_node_unref(&s->tree.pool, base);
  pd_node_unref(&s->tree.pool, right);
  if (code) return code;
  pd_node_unref(&s->tree.pool, *root);
  *root = made;
  return PD_OK;
}

static pd_code base_tree(pd_merge_job *job, const pd_seq_set *bases, unsigned depth, pd_node **out_root, pd_error *err)
{
  if (bases->count == 1 || depth >= BASE_DEPTH_MAX) return pd_merge_tree_of(job, bases->seqs[0], out_root, err);
  pd_seq_set joined = {.seqs = {bases->seqs[bases->count - 1]}, .count = 1};
  pd_node *root;
  TRY(pd_merge_tree_of(job, joined.seqs[0], &root, err));
  pd_code code = PD_OK;
  for (size_t i = bases->count - 1; !code && i-- > 0;) {
    code = join_base(job, &joined, bases->seqs[i], depth, &root, err);
    joined.seqs[joined.count++] = bases->seqs[i];
  }
  if (code)
    pd_node_unref(&job->store->tree.pool, root);
  else
    *out_root = root;
  return code;
}

pd_code pd_merge_base_tree(pd_merge_job *job, const pd_seq_set *bases, pd_node **out_root, pd_error *err)
{
  pd_rule_book neutral;
  pd_prefix_rule *rules = calloc(job->book->count + 1, sizeof *rules);
  if (!rules) return pd_error_memory(err, "the base of a merge");
  neutral_book(job->book, &neutral, rules);
  pd_merge_job inner = *job;
  inner.book = &neutral;
  pd_code code = base_tree(&inner, bases, 0, out_root, err);
  free(rules);
  return code;
}
