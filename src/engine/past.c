/*
 * past.c: the tree of any commit. From the nearest ancestor whose tree is at hand (a keyframe's, a head's, one built before) the
 * changes of the commits in between are applied in one edit.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

/* A change on the way from the base to the wanted commit. */
typedef struct step {
  pd_rec_change change;
  uint64_t seq;
  int64_t time_ms;
  size_t order; /* the later, the larger */
} step;

typedef struct path {
  step *steps;
  size_t count, capacity;
} path;

static void path_done(path *p)
{
  free(p->steps);
}

static pd_code path_add(path *p, const pd_rec *rec, pd_error *err)
{
  if (p->count + rec->change_count > p->capacity) {
    size_t capacity = (p->count + rec->change_count) * 2;
    step *grown = realloc(p->steps, capacity * sizeof *grown);
    if (!grown) return pd_error_memory(err, "a tree of the past");
    p->steps = grown;
    p->capacity = capacity;
  }
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    step *st = &p->steps[p->count++];
    pd_rec_next(rec, &c, &st->change);
    st->seq = rec->seq;
    st->time_ms = pd_rec_made_ms(rec);
    st->order = rec->seq;
  }
  return PD_OK;
}

static int compare_steps(const void *a, const void *b)
{
  const step *x = a, *y = b;
  int order = pd_bytes_compare(x->change.key, y->change.key);
  if (order) return order;
  return (x->order > y->order) - (x->order < y->order);
}

/* When version 1 of the key was written: by one of these steps (oldest first), or as the base says. */
static pd_code created_of(pd_tree *tree, pd_node *base, const step *steps, size_t count, int64_t *out_ms, pd_error *err)
{
  for (size_t i = count; i-- > 0;) {
    if (steps[i].change.prev_seq) continue;
    *out_ms = steps[i].change.is_carried ? steps[i].change.created_ms : steps[i].time_ms;
    return PD_OK;
  }
  pd_node *leaf = NULL;
  size_t index;
  if (base) TRY(pd_tree_find(tree, base, steps[0].change.key, &leaf, &index, err));
  if (!leaf) return pd_error_set(err, PD_CORRUPT, "record %llu changes a key that is not there", (unsigned long long)steps[0].seq);
  *out_ms = leaf->riders[index].created_ms;
  return PD_OK;
}

static pd_code edit_of_steps(pd_tree *tree, pd_node *base, const step *steps, size_t count, pd_tree_edit *out, pd_error *err)
{
  const step *last = &steps[count - 1];
  *out = (pd_tree_edit){.key = last->change.key, .is_delete = last->change.is_delete};
  if (out->is_delete) return PD_OK;
  out->value_id = pd_rec_value_id(&last->change);
  out->rider = (pd_rider){
    .seq = last->seq, .version = last->change.version, .updated_ms = last->time_ms, .size = last->change.size, .pos = last->change.pos};
  return created_of(tree, base, steps, count, &out->rider.created_ms, err);
}

/* Steps become one edit per key. */
static pd_code apply_path(pd_tree *tree, pd_node *base, path *p, pd_node **out_root, pd_error *err)
{
  pd_tree_edit *edits = malloc((p->count + 1) * sizeof *edits);
  if (!edits) return pd_error_memory(err, "a tree of the past");
  if (p->count) qsort(p->steps, p->count, sizeof *p->steps, compare_steps);
  size_t count = 0;
  pd_code code = PD_OK;
  for (size_t i = 0, end; !code && i < p->count; i = end) {
    for (end = i + 1; end < p->count && pd_bytes_equal(p->steps[end].change.key, p->steps[i].change.key);) end++;
    code = edit_of_steps(tree, base, &p->steps[i], end - i, &edits[count++], err);
  }
  if (!code) code = pd_tree_apply(tree, base, edits, count, out_root, err);
  free(edits);
  return code;
}

pd_code pd_apply_record(pd_tree *tree, pd_node *root, const pd_rec *rec, pd_node **out_root, pd_error *err)
{
  CLEANUP(path_done) path p = {0};
  TRY(path_add(&p, rec, err));
  pd_node *made;
  TRY(apply_path(tree, root, &p, &made, err));
  if (!pd_id_equal(&made->id, &rec->tree)) {
    pd_node_unref(&tree->pool, made);
    return pd_error_set(err, PD_CORRUPT, "record %llu: its changes do not give the tree that it names", (unsigned long long)rec->seq);
  }
  *out_root = made;
  return PD_OK;
}

static pd_node *find_past(pd_store *s, uint64_t seq)
{
  for (size_t i = 0; i < PD_PAST_COUNT; i++) {
    if (!s->pasts[i].root || s->pasts[i].seq != seq) continue;
    s->pasts[i].used = ++s->use_clock;
    return s->pasts[i].root;
  }
  return NULL;
}

/* Heads with a tree in memory, by the number of their commit. A store may have many thousand refs: they are looked at once for each
 * tree that is built, not once for each record on the way to it. Two that want one place: the newer stays. */
#define NEAR_COUNT 128

typedef struct near_heads {
  const pd_head *heads[NEAR_COUNT];
} near_heads;

static bool is_loadable(const pd_head *head, uint64_t seq)
{
  return head->commit.seq == seq && head->has_blob && !head->is_deleted;
}

/* *out_near gets the heads at ancestors of `seq`, perhaps. Returns the head that is at it: one with its tree in memory, else one whose
 * tree can be loaded, else NULL. */
static pd_head *look_at_heads(pd_store *s, uint64_t seq, near_heads *out_near)
{
  pd_head *loadable = NULL;
  *out_near = (near_heads){0};
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_head *both[] = {&s->slots[i]->seen, &s->slots[i]->tip};
    for (size_t k = 0; k < COUNT_OF(both); k++) {
      pd_head *head = both[k];
      const pd_head **place = &out_near->heads[head->commit.seq % NEAR_COUNT];
      if (head->root && head->commit.seq == seq) return head;
      if (!loadable && is_loadable(head, seq)) loadable = head;
      if (head->root && head->commit.seq < seq && (!*place || (*place)->commit.seq < head->commit.seq)) *place = head;
    }
  }
  return loadable;
}

/* A tree in memory for exactly this commit: one built before, or a head's. Borrowed. */
static pd_node *find_at_hand(pd_store *s, const near_heads *near, uint64_t seq)
{
  const pd_head *head = near->heads[seq % NEAR_COUNT];
  if (head && head->commit.seq == seq && head->root) return head->root;
  return find_past(s, seq);
}

static void keep_past(pd_store *s, uint64_t seq, pd_node *root)
{
  size_t oldest = 0;
  for (size_t i = 1; i < PD_PAST_COUNT; i++)
    if (s->pasts[i].used < s->pasts[oldest].used) oldest = i;
  pd_node_unref(&s->tree.pool, s->pasts[oldest].root);
  s->pasts[oldest] = (pd_past){seq, pd_node_ref(root), ++s->use_clock};
}

void pd_past_forget(pd_store *s)
{
  for (size_t i = 0; i < PD_PAST_COUNT; i++) {
    pd_node_unref(&s->tree.pool, s->pasts[i].root);
    s->pasts[i] = (pd_past){0};
  }
  pd_segments_trim(s, 0);
}

/* Collect the records from `seq` back to a commit whose tree is at hand. *out_base is borrowed; NULL for the empty tree, or if
 * *out_outside is not 0: the commit before the segment to go on from. */
static pd_code collect(pd_store *s, pd_segment *seg, uint64_t seq, const near_heads *near, path *p, pd_node **out_base,
                       uint64_t *out_outside, pd_error *err)
{
  *out_base = NULL;
  *out_outside = 0;
  while (seq > seg->base) {
    if (p->count && (*out_base = find_at_hand(s, near, seq))) return PD_OK;
    pd_rec rec;
    TRY(pd_segment_record(seg, seq, &rec, err));
    if (rec.kind != PD_RECORD_COMMIT) return pd_error_set(err, PD_CORRUPT, "record %llu is no commit", (unsigned long long)seq);
    TRY(path_add(p, &rec, err));
    seq = pd_rec_base(&rec);
  }
  if (!seq || (*out_base = find_at_hand(s, near, seq))) return PD_OK;
  TRY(pd_segment_base_root(s, seg, seq, out_base, err));
  if (!*out_base) *out_outside = seq;
  return PD_OK;
}

static pd_code check_tree(pd_store *s, uint64_t seq, pd_node *root, pd_error *err)
{
  pd_commit commit;
  TRY(pd_commit_at(s, seq, &commit, err));
  if (pd_id_equal(&commit.tree, &root->id)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the tree of record %llu does not match its id", (unsigned long long)seq);
}

/* The steps of `p` point into segment data: nothing that may load another segment can run before they are applied, so a base
 * outside the segment is fetched first. */
static pd_code build_past(pd_store *s, uint64_t seq, const near_heads *near, pd_node **out_root, pd_error *err)
{
  CLEANUP(path_done) path p = {0};
  pd_segment *seg;
  pd_node *base = NULL, *made = NULL, *fetched = NULL;
  uint64_t outside;
  TRY(pd_segment_of(s, seq, &seg, err));
  TRY(collect(s, seg, seq, near, &p, &base, &outside, err));
  if (outside) {
    TRY(pd_tree_of(s, outside, &fetched, err));
    p.count = 0; /* the segment may have gone meanwhile */
    uint64_t again;
    pd_code code = pd_segment_of(s, seq, &seg, err);
    if (!code) code = collect(s, seg, seq, near, &p, &base, &again, err);
    if (code) {
      pd_node_unref(&s->tree.pool, fetched);
      return code;
    }
    base = fetched;
  }
  pd_code code = apply_path(&s->tree, base, &p, &made, err);
  pd_node_unref(&s->tree.pool, fetched);
  if (code) return code;
  code = check_tree(s, seq, made, err);
  if (code) {
    pd_node_unref(&s->tree.pool, made);
    return code;
  }
  *out_root = made;
  return PD_OK;
}

pd_code pd_tree_of(pd_store *s, uint64_t seq, pd_node **out_root, pd_error *err)
{
  if (!seq) return pd_tree_empty(&s->tree, out_root, err);
  near_heads near;
  pd_head *head = NULL;
  *out_root = find_past(s, seq);
  if (!*out_root && (head = look_at_heads(s, seq, &near))) *out_root = head->root;
  if (*out_root) {
    pd_node_ref(*out_root);
    return PD_OK;
  }
  TRY(pd_retention_ready(s, err));
  if (head && is_loadable(head, seq) && !pd_head_root(s, head, out_root, NULL)) { /* if it cannot be, its records will tell */
    pd_node_ref(*out_root);
    return PD_OK;
  }
  const pd_point *point = pd_point_at(s, seq);
  if (point)
    TRY(pd_tree_load_root(&s->tree, &point->root_blob, &point->commit.tree, out_root, err));
  else
    TRY(build_past(s, seq, &near, out_root, err));
  keep_past(s, seq, *out_root);
  return PD_OK;
}

pd_code pd_head_root(pd_store *s, pd_head *head, pd_node **out_root, pd_error *err)
{
  if (!head->root) {
    pd_node *root;
    if (head->has_blob)
      TRY(pd_tree_load_root(&s->tree, &head->root_blob, &head->commit.tree, &root, err));
    else
      TRY(pd_tree_of(s, head->commit.seq, &root, err));
    if (head->root) /* on the way, pd_retention_ready needed this very head */
      pd_node_unref(&s->tree.pool, root);
    else
      head->root = root;
  }
  *out_root = head->root;
  return PD_OK;
}
