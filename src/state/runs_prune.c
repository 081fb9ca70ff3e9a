/* runs_prune.c: removing runs that are over, by age and by count (R4). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"
#include "state/runs.h"

#include <stdio.h>
#include <stdlib.h>

#define FEW 256
#define SELDOM 64

/* A run that is over, and when that came; 0: nobody knows. */
typedef struct over_run {
  size_t at; /* in the index */
  int64_t ended_ms;
} over_run;

typedef struct sweep {
  pd_run_index index;
  over_run *over;
  size_t over_count;
  bool has_gaps; /* ids without a document */
} sweep;

static void sweep_done(sweep *s)
{
  pd_run_index_done(&s->index);
  free(s->over);
}

/* The last ended first. */
static int by_end(const void *a, const void *b)
{
  const over_run *x = a, *y = b;
  if (x->ended_ms != y->ended_ms) return x->ended_ms < y->ended_ms ? 1 : -1;
  return x->at < y->at ? 1 : -1;
}

static int64_t end_of(const pd_run *run)
{
  return run->finished_ms ? run->finished_ms : run->updated_ms;
}

/* Find the runs that are over; ids without a document lose their place in the index. */
static pd_code look(const pd_runs_place *place, const char *ended, sweep *s, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf json = {0};
  TRY(pd_run_index_read(place, &s->index, err));
  s->over = malloc((s->index.count + 1) * sizeof *s->over);
  if (!s->over) return pd_error_memory(err, "a list of runs");
  for (size_t i = 0; i < s->index.count; i++) {
    char key[PD_RUN_KEY_SIZE];
    pd_run run;
    pd_error why;
    if (ended && pd_bytes_equal(s->index.ids[i], pd_text(ended))) continue;
    pd_code code = place->get(place->ctx, pd_run_key(s->index.ids[i], key), &json, &why);
    if (code && code != PD_NOT_FOUND) {
      if (err) *err = why;
      return code;
    }
    if (code) {
      s->index.ids[i].data = NULL;
      s->has_gaps = true;
    } else if (!pd_run_parse(pd_buf_bytes(&json), &run, NULL) && pd_run_is_over(run.status)) {
      s->over[s->over_count++] = (over_run){i, end_of(&run)};
    }
  }
  qsort(s->over, s->over_count, sizeof s->over[0], by_end);
  return PD_OK;
}

static pd_code show(const pd_runs_place *place, const pd_run_op *op, const char *key, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf json = {0};
  pd_run run;
  if (!op->visit) return PD_OK;
  TRY(place->get(place->ctx, key, &json, err));
  TRY(pd_run_parse(pd_buf_bytes(&json), &run, err));
  op->visit(op->visit_ctx, &run, pd_buf_bytes(&json));
  return PD_OK;
}

/* A sweep reads every run, so where there are many it comes with one end in SELDOM. Where the index is one value nobody counts ends: there
 * the id says which, so that a repetition does the same. */
pd_code pd_run_prune_is_due(const pd_runs_place *place, const char *ended, pd_run_batch *batch, bool *out, pd_error *err)
{
  CLEANUP(pd_run_tally_done) pd_run_tally tally = {0};
  uint64_t hash = 0;
  TRY(pd_run_tally_read(place, &tally, err));
  for (const char *c = ended; *c; c++) hash = pd_mix64(hash, (uint8_t)*c);
  *out = tally.count <= FEW || (tally.has_index ? hash % SELDOM == 0 : tally.ended + 1 >= SELDOM);
  return *out || tally.has_index ? PD_OK : pd_run_tally_end(&tally, batch, err);
}

pd_code pd_run_stage_prune(const pd_runs_place *place, pd_run_op *op, const char *ended, pd_run_batch *batch, pd_error *err)
{
  CLEANUP(sweep_done) sweep s = {0};
  uint64_t kept = ended ? 1 : 0;
  TRY(look(place, ended, &s, err));
  op->count = 0;
  for (size_t i = 0; i < s.over_count; i++) {
    char key[PD_RUN_KEY_SIZE];
    int64_t age_ms = s.over[i].ended_ms && s.over[i].ended_ms < place->now_ms ? place->now_ms - s.over[i].ended_ms : 0;
    bool is_old = op->prune.keep_ms != PD_RUNS_KEEP_ALL && s.over[i].ended_ms && (uint64_t)age_ms >= op->prune.keep_ms;
    if (!is_old && kept < op->prune.keep_count) {
      kept++;
      continue;
    }
    pd_run_key(s.index.ids[s.over[i].at], key);
    TRY(show(place, op, key, err));
    if (!op->prune.is_dry_run) TRY(pd_run_batch_add(batch, key, (pd_bytes){NULL, 0}, err));
    s.index.ids[s.over[i].at].data = NULL;
    op->count++;
  }
  bool is_counted = ended && place->scan && s.index.count > FEW; /* the count of ends begins anew */
  if (op->prune.is_dry_run || (!op->count && !s.has_gaps && !is_counted)) return PD_OK;
  return pd_run_index_stage(place, &s.index, batch, err);
}
