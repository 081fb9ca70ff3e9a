/*
 * merge_base.c: common ancestors. The commits are walked from the newest number down, each once, with marks of who reaches it: a parent
 * has a smaller number than its child (M3), so when a commit is taken all its descendants in the walk have marked it already. What
 * both sides reach is a best common ancestor unless a better one reached it first. The walk ends when only ancestors of those are left.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/merge.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

enum { MARK_LEFT = 1, MARK_RIGHT = 2, MARK_BOTH = 3, MARK_BELOW = 4 };

typedef struct mark {
  uint64_t seq;
  uint8_t marks;
} mark;

/* A heap, largest number first. A commit may be in it several times, until it is taken. */
typedef struct walk {
  mark *heap;
  size_t count, capacity;
  size_t open_count; /* those not below a common ancestor */
} walk;

static void walk_done(walk *w)
{
  free(w->heap);
}

static pd_code push(walk *w, uint64_t seq, uint8_t marks, pd_error *err)
{
  TRY(pd_array_grow(&w->heap, w->count, &w->capacity, sizeof *w->heap, "a walk over commits", err));
  size_t i = w->count++;
  for (; i && w->heap[(i - 1) / 2].seq < seq; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = (mark){seq, marks};
  if (!(marks & MARK_BELOW)) w->open_count++;
  return PD_OK;
}

static mark pop(walk *w)
{
  mark top = w->heap[0], last = w->heap[--w->count];
  size_t i = 0;
  for (size_t kid; (kid = 2 * i + 1) < w->count; i = kid) {
    if (kid + 1 < w->count && w->heap[kid + 1].seq > w->heap[kid].seq) kid++;
    if (w->heap[kid].seq <= last.seq) break;
    w->heap[i] = w->heap[kid];
  }
  w->heap[i] = last;
  if (!(top.marks & MARK_BELOW)) w->open_count--;
  return top;
}

/* The newest commit, with all its marks. */
static mark take(walk *w)
{
  mark one = pop(w);
  while (w->count && w->heap[0].seq == one.seq) one.marks |= pop(w).marks;
  return one;
}

pd_code pd_parents_of(pd_store *s, uint64_t seq, uint64_t out[PD_PARENT_COUNT_MAX], size_t *out_count, pd_error *err)
{
  *out_count = 0;
  if (!seq) return PD_OK;
  TRY(pd_retention_ready(s, err));
  const pd_point *point = pd_point_at(s, seq);
  if (point) { /* its record may be gone */
    memcpy(out, point->parent_seqs, point->parent_count * sizeof *out);
    *out_count = point->parent_count;
    return PD_OK;
  }
  pd_segment *seg;
  pd_rec rec;
  TRY(pd_segment_of(s, seq, &seg, err));
  TRY(pd_segment_record(seg, seq, &rec, err));
  if (rec.kind != PD_RECORD_COMMIT) return pd_error_set(err, PD_CORRUPT, "record %llu is no commit", (unsigned long long)seq);
  memcpy(out, rec.parent_seqs, rec.parent_count * sizeof *out);
  *out_count = rec.parent_count;
  return PD_OK;
}

static pd_code push_parents(pd_store *s, walk *w, const mark *of, uint8_t marks, pd_error *err)
{
  uint64_t parents[PD_PARENT_COUNT_MAX];
  size_t count;
  pd_error why;
  pd_code code = pd_parents_of(s, of->seq, parents, &count, &why);
  if (code == PD_RETIRED) return pd_error_set(err, PD_RETIRED, "%.400s: what both sides have in common cannot be known", why.message);
  if (code && err) *err = why;
  if (code) return code;
  for (size_t i = 0; i < count; i++) TRY(push(w, parents[i], marks, err));
  return PD_OK;
}

pd_code pd_merge_bases(pd_store *s, const pd_seq_set *left, const pd_seq_set *right, bool may_yield, pd_seq_set *out, size_t *out_total,
                       pd_error *err)
{
  CLEANUP(walk_done) walk w = {0};
  pd_seq_set found = {.count = 0};
  size_t total = 0;
  for (size_t i = 0; i < left->count; i++) TRY(push(&w, left->seqs[i], MARK_LEFT, err));
  for (size_t i = 0; i < right->count; i++) TRY(push(&w, right->seqs[i], MARK_RIGHT, err));
  for (size_t steps = 1; w.open_count; steps++) {
    mark one = take(&w);
    bool is_common = (one.marks & MARK_BOTH) == MARK_BOTH;
    if (is_common && !(one.marks & MARK_BELOW)) {
      if (found.count < PD_MERGE_BASE_MAX) found.seqs[found.count++] = one.seq;
      total++;
    }
    /* nothing above the last open one can be left once the queue has only what is below common ancestors */
    if (is_common && !w.open_count) break;
    if (may_yield && (steps % PD_YIELD_STEPS == 0 || !pd_segment_loaded(s, one.seq))) {
      pd_store_yield(s);
      TRY(pd_segment_bring(s, one.seq, err));
    }
    TRY(push_parents(s, &w, &one, is_common ? MARK_BOTH | MARK_BELOW : one.marks, err));
  }
  *out = found;
  if (out_total) *out_total = total;
  return PD_OK;
}

pd_code pd_common_ancestors(pd_store *store, const char *a, const char *b, pd_commit *out, size_t count_max, size_t *out_count,
                            pd_error *err)
{
  pd_commit left, right;
  pd_seq_set bases;
  pd_store_lock_to_read(store);
  pd_code code = pd_refresh_to_read(store, err);
  if (!code) code = pd_resolve_to_read(store, a, &left, err);
  if (!code) code = pd_resolve_to_read(store, b, &right, err);
  pd_seq_set sides[2] = {{.count = 1}, {.count = 1}};
  if (!code) sides[0].seqs[0] = left.seq, sides[1].seqs[0] = right.seq;
  if (!code) code = pd_merge_bases(store, &sides[0], &sides[1], true, &bases, NULL, err);
  for (size_t i = 0; !code && i < bases.count && i < count_max; i++) code = pd_commit_at(store, bases.seqs[i], &out[i], err);
  if (!code) *out_count = bases.count;
  pd_store_unlock(store);
  return code;
}
