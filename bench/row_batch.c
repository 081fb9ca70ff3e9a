/* row_batch.c: row 4: a million keys in scattered order, in durable batches of 1,000, from an empty store. */
#include <stdio.h>

#include "base/base.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define RUNS_MAX 3 /* a run is long enough to be its own median */
#define CHECK_COUNT 10000

static pd_code check_load(bench_side *side, uint32_t key_count, pd_error *err)
{
  uint64_t random = 4;
  for (uint32_t i = 0; i < CHECK_COUNT; i++) TRY(bench_side_get(side, bench_random_below(&random, key_count), err));
  return PD_OK;
}

static pd_code time_load(bench *b, bool is_ours, uint64_t seed, double *out_rate, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  char dir[BENCH_PATH_SIZE];
  uint32_t key_count = b->sizes.keys_big;
  TRY(bench_folder_new(b->dir, is_ours ? "row-ours" : "row-peer", dir, err));
  TRY(is_ours ? bench_ours_open(dir, NULL, &side, err) : bench_lmdb_open(dir, NULL, &side, err));
  double start = bench_now();
  TRY(bench_load(&side, key_count, key_count / b->sizes.batch_size, seed, err));
  *out_rate = key_count / (bench_now() - start);
  TRY(check_load(&side, key_count, err));
  return bench_side_close(&side, err);
}

pd_code row_batch(bench *b, pd_error *err)
{
  bench_series ours = {.count = 0}, lmdb = {.count = 0};
  char count[BENCH_TEXT_SIZE], size[BENCH_TEXT_SIZE];
  for (uint32_t run = 0; run < bench_runs_at_most(b, RUNS_MAX); run++) {
    double rate = 0;
    TRY(time_load(b, true, run, &rate, err));
    bench_series_add(&ours, rate);
    TRY(time_load(b, false, run, &rate, err));
    bench_series_add(&lmdb, rate);
  }
  bench_line line = {.peer = "LMDB, same batches, synced"};
  snprintf(line.what, sizeof(line.what), "batches of %s, durable, up to %s keys, scattered", bench_text_count(b->sizes.batch_size, size),
           bench_text_count(b->sizes.keys_big, count));
  double ours_rate = bench_series_median(&ours), lmdb_rate = bench_series_median(&lmdb);
  bench_text_rate(ours_rate, line.ours_text);
  bench_text_rate(lmdb_rate, line.peer_text);
  bench_judge(&line, ours_rate / lmdb_rate, BENCH_AT_LEAST, 2.0);
  snprintf(line.note, sizeof(line.note), "Keys a second over the whole load from an empty store; %u runs; default cache of 64 MiB.",
           bench_runs_at_most(b, RUNS_MAX));
  return bench_report(b, &line, err);
}
