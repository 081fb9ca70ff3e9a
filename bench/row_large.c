/*
 * row_large.c: row 14: what an edit of 100 bytes in a value of 10 MB costs, on disk and in time.
 *
 * A run puts 10 MB of noise under a new key, then makes edits at random places, each a put of the whole value, synced on its own. Time:
 * the median edit against the median first put of the same run of the program. Disk: the files of the closed store before and after
 * the edits of the last run.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "folder.h"
#include "rows.h"
#include "side.h"

#define VALUE_SIZE ((size_t)10000000)
#define EDIT_SIZE 100
#define EDITS_A_RUN 16
#define RUNS_MAX 9
#define DISK_BUDGET 65536.0

typedef struct large {
  char dir[BENCH_PATH_SIZE];
  bench_side side;
  uint8_t *value;
  uint64_t random;
  char key[32];
  bench_series firsts, edits; /* seconds */
} large;

static void large_done(large *l)
{
  bench_side_done(&l->side);
  free(l->value);
}

static void fill(large *l, size_t at, size_t size)
{
  for (size_t i = 0; i < size; i++) l->value[at + i] = (uint8_t)(bench_random(&l->random) >> 56);
}

static pd_code timed_put(large *l, bench_series *series, pd_error *err)
{
  double begin = bench_now();
  TRY(pd_put(bench_ours_store(&l->side), pd_text(l->key), (pd_bytes){l->value, VALUE_SIZE}, NULL, NULL, err));
  bench_series_add(series, bench_now() - begin);
  return PD_OK;
}

static pd_code edit_some(large *l, pd_error *err)
{
  for (int i = 0; i < EDITS_A_RUN; i++) {
    fill(l, bench_random_below(&l->random, VALUE_SIZE - EDIT_SIZE), EDIT_SIZE);
    TRY(timed_put(l, &l->edits, err));
  }
  return PD_OK;
}

static pd_code run_once(large *l, uint32_t run, pd_error *err)
{
  snprintf(l->key, sizeof(l->key), "large-%u", run);
  fill(l, 0, VALUE_SIZE);
  TRY(timed_put(l, &l->firsts, err));
  return edit_some(l, err);
}

/* Nothing was lost, and the last version is what was put. */
static pd_code check_value(large *l, pd_error *err)
{
  pd_entry entry;
  pd_id id = pd_value_id((pd_bytes){l->value, VALUE_SIZE});
  TRY(pd_get(bench_ours_store(&l->side), NULL, pd_text(l->key), NULL, &entry, err));
  return pd_id_equal(&id, &entry.value_id) ? PD_OK : pd_error_set(err, PD_CORRUPT, "the large value is not what was put");
}

static pd_code measure_disk(large *l, double *out_bytes, pd_error *err)
{
  uint64_t before, after;
  TRY(bench_side_close(&l->side, err));
  TRY(bench_folder_size(l->dir, &before, err));
  TRY(bench_ours_open(l->dir, NULL, &l->side, err));
  TRY(edit_some(l, err));
  TRY(check_value(l, err));
  TRY(bench_side_close(&l->side, err));
  TRY(bench_folder_size(l->dir, &after, err));
  *out_bytes = ((double)after - (double)before) / EDITS_A_RUN;
  return PD_OK;
}

static pd_code report_time(bench *b, const large *l, pd_error *err)
{
  bench_line line = {.what = "100-byte edit in a 10 MB value, durable", .peer = "its first put"};
  double first = bench_series_median(&l->firsts), edit = bench_series_median(&l->edits);
  bench_text_seconds(edit, line.ours_text);
  bench_text_seconds(first, line.peer_text);
  bench_judge(&line, edit / first, BENCH_AT_MOST, 0.05);
  snprintf(line.note, sizeof(line.note),
           "Each edit is a put of all 10 MB; the value's id is the SHA-256 of the whole. Medians of %zu and %zu.", l->edits.count,
           l->firsts.count);
  return bench_report(b, &line, err);
}

static pd_code report_disk(bench *b, double bytes, pd_error *err)
{
  bench_line line = {.what = "bytes on disk of such an edit", .peer = "64 KiB"};
  bench_text_bytes(bytes, line.ours_text);
  bench_text_bytes(DISK_BUDGET, line.peer_text);
  bench_judge(&line, bytes / DISK_BUDGET, BENCH_AT_MOST, 1.0);
  snprintf(line.note, sizeof(line.note), "File sizes of the closed store before and after %d edits.", EDITS_A_RUN);
  return bench_report(b, &line, err);
}

pd_code row_large(bench *b, pd_error *err)
{
  CLEANUP(large_done) large l = {.random = 14, .value = malloc(VALUE_SIZE)};
  uint32_t runs = bench_runs_at_most(b, RUNS_MAX);
  double bytes;
  if (!l.value) return pd_error_set(err, PD_NO_MEMORY, "no memory for a large value");
  TRY(bench_folder_new(b->dir, "row-large", l.dir, err));
  TRY(bench_ours_open(l.dir, NULL, &l.side, err));
  TRY(pd_put(bench_ours_store(&l.side), pd_text("warm"), pd_text("up"), NULL, NULL, err));
  for (uint32_t run = 0; run < runs; run++) TRY(run_once(&l, run, err));
  TRY(check_value(&l, err));
  TRY(measure_disk(&l, &bytes, err));
  TRY(report_disk(b, bytes, err));
  return report_time(b, &l, err);
}
