/*
 * line.c: along first parents in long strides: `main~N`, undo, and the page of a log that begins far back.
 *
 * Inside a segment a step is a look at an array in memory, no record is decoded. Where a line enters a segment that a keyframe has closed,
 * the commit that it leaves it for never changes: it is remembered as a jump, and whoever comes again does not even load the segment. So
 * the first walk back costs what its segments cost to read, and each later one a look-up a segment.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

#define JUMP_COUNT_MAX 4096 /* segments of lines; then they are learnt again */

/* Of the jump that begins at `entry`, or where it belongs. */
static size_t jump_index(const pd_store *s, uint64_t entry, bool *out_found)
{
  size_t low = 0, high = s->jump_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (s->jumps[mid].entry < entry)
      low = mid + 1;
    else
      high = mid;
  }
  *out_found = low < s->jump_count && s->jumps[low].entry == entry;
  return low;
}

/* What cannot be remembered is learnt again. */
static void remember(pd_store *s, const pd_line_jump *jump)
{
  bool is_known;
  if (s->jump_count >= JUMP_COUNT_MAX) s->jump_count = 0;
  size_t i = jump_index(s, jump->entry, &is_known);
  if (is_known || pd_array_grow(&s->jumps, s->jump_count, &s->jump_capacity, sizeof *s->jumps, "a line", NULL)) return;
  memmove(s->jumps + i + 1, s->jumps + i, (s->jump_count - i) * sizeof *s->jumps);
  s->jumps[i] = *jump;
  s->jump_count++;
}

void pd_line_forget(pd_store *s)
{
  free(s->jumps);
  s->jumps = NULL;
  s->jump_count = s->jump_capacity = 0;
}

/* In the segment of *seq: to the first commit that is numbered below `before` or lies outside, at most `*steps` back. */
static pd_code walk_segment(pd_store *s, uint64_t *seq, uint64_t before, uint64_t *steps, pd_error *err)
{
  pd_segment *seg;
  TRY(pd_segment_of(s, *seq, &seg, err));
  uint64_t at = *seq, done = 0;
  while (at > seg->base && at >= before && done < *steps) {
    const pd_seg_record *r = &seg->records[at - seg->base - 1];
    if (r->kind != PD_RECORD_COMMIT || (r->parent_seq >= at && r->parent_seq != PD_SEQ_GONE))
      return pd_error_set(err, PD_CORRUPT, "record %llu has a parent that is not a commit before it", (unsigned long long)at);
    at = r->parent_seq;
    done++;
    if (at == PD_SEQ_GONE) break;
  }
  bool is_closed = s->frame_count && seg->base < s->frames[s->frame_count - 1].covers;
  if (is_closed && (at <= seg->base || at == PD_SEQ_GONE)) remember(s, &(pd_line_jump){*seq, seg->base, at, done});
  *seq = at;
  *steps -= done;
  return PD_OK;
}

/* With `may_yield` the segment is loaded without the lock, once: what is known is then looked up again. */
static pd_code stride(pd_store *s, uint64_t *seq, uint64_t before, uint64_t *steps, bool may_yield, pd_error *err)
{
  for (;; may_yield = false) {
    bool is_known;
    TRY(pd_retention_ready(s, err));
    if (*seq == PD_SEQ_GONE || *seq < s->retention.state.cut) { /* a point, or an error */
      --*steps;
      return pd_parent_of(s, *seq, seq, err);
    }
    size_t i = jump_index(s, *seq, &is_known);
    const pd_line_jump *jump = is_known ? &s->jumps[i] : NULL;
    if (jump && jump->base + 1 >= before && jump->steps <= *steps) {
      *steps -= jump->steps;
      *seq = jump->outside;
      return PD_OK;
    }
    if (!may_yield) return walk_segment(s, seq, before, steps, err);
    TRY(pd_segment_bring(s, *seq, err));
  }
}

pd_code pd_line_back(pd_store *s, uint64_t *seq, uint64_t *steps, bool may_yield, pd_error *err)
{
  uint64_t at = *seq, left = *steps;
  while (left && at) {
    TRY(stride(s, &at, 0, &left, may_yield, err));
    if (may_yield) pd_store_yield(s);
  }
  *seq = at;
  *steps = left;
  return PD_OK;
}

pd_code pd_line_before(pd_store *s, uint64_t *seq, uint64_t before, pd_error *err)
{
  uint64_t at = *seq, left = UINT64_MAX;
  TRY(pd_retention_ready(s, err));
  while (at >= before && at && !pd_is_retired(s, at)) {
    TRY(stride(s, &at, before, &left, true, err));
    pd_store_yield(s);
    TRY(pd_retention_ready(s, err));
  }
  *seq = at;
  return PD_OK;
}

pd_code pd_line_count(pd_store *s, uint64_t seq, uint64_t ancestor, bool may_yield, bool *out_found, uint64_t *out_steps, pd_error *err)
{
  uint64_t left = UINT64_MAX;
  while (seq > ancestor) {
    TRY(stride(s, &seq, ancestor + 1, &left, may_yield, err));
    if (may_yield) pd_store_yield(s);
  }
  *out_found = seq == ancestor;
  *out_steps = UINT64_MAX - left;
  return PD_OK;
}
