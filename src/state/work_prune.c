/* work_prune.c: removing items that are over, by age and by count (R4). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"
#include "state/work.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW 256
#define SELDOM 64

/* An item that is over, and when that came; 0: nobody knows. */
typedef struct over_item {
  size_t at; /* in the index */
  int64_t ended_ms;
} over_item;

typedef struct sweep {
  pd_work_index index;
  over_item *over;
  size_t over_count;
  bool has_gaps; /* ids without a document */
} sweep;

static void sweep_done(sweep *s)
{
  pd_work_index_done(&s->index);
  free(s->over);
}

/* The last ended first. */
static int by_end(const void *a, const void *b)
{
  const over_item *x = a, *y = b;
  if (x->ended_ms != y->ended_ms) return x->ended_ms < y->ended_ms ? 1 : -1;
  return x->at < y->at ? 1 : -1;
}

static int64_t end_of(const pd_work_item *item)
{
  return item->finished_ms ? item->finished_ms : item->updated_ms;
}

/* Find the items that are over; ids without a document lose their place in the index. */
static pd_code look(const pd_work_place *place, const char *ended, sweep *s, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf json = {0};
  TRY(pd_work_index_read(place, &s->index, err));
  s->over = malloc((s->index.count + 1) * sizeof *s->over);
  if (!s->over) return pd_error_memory(err, "a list of work items");
  for (size_t i = 0; i < s->index.count; i++) {
    char key[PD_WORK_KEY_SIZE];
    pd_work_item item;
    pd_error why;
    if (ended && pd_bytes_equal(s->index.ids[i], pd_text(ended))) continue;
    pd_code code = place->get(place->ctx, pd_work_key(s->index.ids[i], key), &json, &why);
    if (code && code != PD_NOT_FOUND) {
      if (err) *err = why;
      return code;
    }
    if (code) {
      s->index.ids[i].data = NULL;
      s->has_gaps = true;
    } else if (!pd_work_parse(pd_buf_bytes(&json), &item, NULL) && pd_work_is_over(item.status)) {
      s->over[s->over_count++] = (over_item){i, end_of(&item)};
    }
  }
  qsort(s->over, s->over_count, sizeof s->over[0], by_end);
  return PD_OK;
}

static pd_code show(const pd_work_place *place, const pd_work_op *op, const char *key, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf json = {0};
  pd_work_item item;
  if (!op->visit) return PD_OK;
  TRY(place->get(place->ctx, key, &json, err));
  TRY(pd_work_parse(pd_buf_bytes(&json), &item, err));
  op->visit(op->visit_ctx, &item, pd_buf_bytes(&json));
  return PD_OK;
}

/* A sweep reads every item, so where there are many it comes with one end in SELDOM. Where the index is one value nobody counts ends: there
 * the id says which, so that a repetition does the same. */
pd_code pd_work_prune_is_due(const pd_work_place *place, const char *ended, pd_work_batch *batch, bool *out, pd_error *err)
{
  CLEANUP(pd_work_tally_done) pd_work_tally tally = {0};
  uint64_t hash = 0;
  TRY(pd_work_tally_read(place, &tally, err));
  for (const char *c = ended; *c; c++) hash = pd_mix64(hash, (uint8_t)*c);
  *out = tally.count <= FEW || (tally.has_index ? hash % SELDOM == 0 : tally.ended + 1 >= SELDOM);
  return *out || tally.has_index ? PD_OK : pd_work_tally_end(&tally, batch, err);
}

pd_code pd_work_stage_prune(const pd_work_place *place, pd_work_op *op, const char *ended, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(sweep_done) sweep s = {0};
  uint64_t kept = ended ? 1 : 0;
  TRY(look(place, ended, &s, err));
  op->count = 0;
  for (size_t i = 0; i < s.over_count; i++) {
    char key[PD_WORK_KEY_SIZE];
    int64_t age_ms = s.over[i].ended_ms && s.over[i].ended_ms < place->now_ms ? place->now_ms - s.over[i].ended_ms : 0;
    bool is_old = op->prune.keep_ms != PD_WORK_KEEP_ALL && s.over[i].ended_ms && (uint64_t)age_ms >= op->prune.keep_ms;
    if (!is_old && kept < op->prune.keep_count) {
      kept++;
      continue;
    }
    pd_work_key(s.index.ids[s.over[i].at], key);
    TRY(show(place, op, key, err));
    if (!op->prune.is_dry_run) TRY(pd_work_batch_add(batch, key, (pd_bytes){NULL, 0}, err));
    s.index.ids[s.over[i].at].data = NULL;
    op->count++;
  }
  bool is_counted = ended && place->scan && s.index.count > FEW; /* the count of ends begins anew */
  if (op->prune.is_dry_run || (!op->count && !s.has_gaps && !is_counted)) return PD_OK;
  return pd_work_index_stage(place, &s.index, batch, err);
}
