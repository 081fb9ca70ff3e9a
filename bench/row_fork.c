/*
 * row_fork.c: row 8: a fork costs the same at any number of keys, and no more than a put.
 *
 * The stores take turns, and within a turn forks and puts do, one by one, so that a slow moment of the disk hits them alike. The puts
 * go to a ref of their own: the stores are shared with other rows, which rely on what main holds.
 */
#include <stdio.h>

#include "base/base.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define STORE_COUNT 3
#define KEYS_FEW 10

typedef struct forked {
  bench_side side;
  uint32_t key_count;
  uint64_t stamp; /* makes names new in a folder that was kept from a run before */
  char work_ref[PD_REF_SIZE_MAX];
  bench_series fork_seconds, put_seconds;
} forked;

static void forked_done(forked (*stores)[STORE_COUNT])
{
  for (size_t i = 0; i < STORE_COUNT; i++) bench_side_done(&(*stores)[i].side);
}

static pd_code forked_open(const char *dir, uint32_t key_count, forked *f, pd_error *err)
{
  pd_stats stats;
  f->key_count = key_count;
  TRY(bench_ours_open(dir, NULL, &f->side, err));
  TRY(pd_store_stats(bench_ours_store(&f->side), &stats, err));
  f->stamp = stats.records;
  snprintf(f->work_ref, sizeof(f->work_ref), "fork-work-%llu", (unsigned long long)f->stamp);
  return pd_fork(bench_ours_store(&f->side), f->work_ref, "main", NULL, NULL, err);
}

static pd_code fork_once(forked *f, uint32_t op, pd_error *err)
{
  char name[PD_REF_SIZE_MAX];
  snprintf(name, sizeof(name), "fork-%llu-%u", (unsigned long long)f->stamp, op);
  double start = bench_now();
  TRY(pd_fork(bench_ours_store(&f->side), name, "main", NULL, NULL, err));
  bench_series_add(&f->fork_seconds, bench_now() - start);
  return PD_OK;
}

static pd_code put_once(forked *f, uint32_t op, pd_error *err)
{
  bench_key key;
  bench_value value;
  uint64_t random = op;
  pd_note note = {.ref = f->work_ref};
  uint32_t index = bench_random_below(&random, f->key_count);
  bench_key_make(index, &key);
  bench_value_make(index, op + 1, &value);
  double start = bench_now();
  TRY(pd_put(bench_ours_store(&f->side), bench_key_bytes(&key), bench_value_bytes(&value), &note, NULL, err));
  bench_series_add(&f->put_seconds, bench_now() - start);
  return PD_OK;
}

static pd_code report_sizes(bench *b, const double seconds[STORE_COUNT], pd_error *err)
{
  char text[STORE_COUNT][BENCH_TEXT_SIZE], mid[BENCH_TEXT_SIZE], big[BENCH_TEXT_SIZE];
  double least = seconds[0], most = seconds[0];
  for (size_t i = 0; i < STORE_COUNT; i++) {
    if (seconds[i] < least) least = seconds[i];
    if (seconds[i] > most) most = seconds[i];
    bench_text_seconds(seconds[i], text[i]);
  }
  bench_line line = {.peer = "each other"};
  snprintf(line.what, sizeof(line.what), "fork at %d, %s and %s keys", KEYS_FEW, bench_text_count(b->sizes.keys_small, mid),
           bench_text_count(b->sizes.keys_big, big));
  snprintf(line.ours_text, sizeof(line.ours_text), "%.14s / %.14s / %.14s", text[0], text[1], text[2]);
  bench_judge(&line, most / least, BENCH_AT_MOST, 2.0);
  snprintf(line.note, sizeof(line.note), "Durable; medians of single forks, taken in turns with puts. Dearest against cheapest.");
  return bench_report(b, &line, err);
}

static pd_code report_puts(bench *b, const double forks[STORE_COUNT], const double puts[STORE_COUNT], pd_error *err)
{
  size_t worst = 0;
  char count[BENCH_TEXT_SIZE];
  for (size_t i = 1; i < STORE_COUNT; i++)
    if (forks[i] / puts[i] > forks[worst] / puts[worst]) worst = i;
  const uint32_t key_counts[STORE_COUNT] = {KEYS_FEW, b->sizes.keys_small, b->sizes.keys_big};
  bench_line line = {.what = "fork against a put", .peer = "our durable put"};
  bench_text_seconds(forks[worst], line.ours_text);
  bench_text_seconds(puts[worst], line.peer_text);
  bench_judge(&line, forks[worst] / puts[worst], BENCH_AT_MOST, 1.0);
  snprintf(line.note, sizeof(line.note), "At the size where it is worst: %s keys.", bench_text_count(key_counts[worst], count));
  return bench_report(b, &line, err);
}

/* A store's turn. Forks and puts go first in turns, so that neither is always the one that follows a put. */
static pd_code take_turn(forked *f, uint32_t first_op, uint32_t op_count, pd_error *err)
{
  for (uint32_t op = first_op; op < first_op + op_count; op++) {
    bool is_fork_first = op % 2 == 0;
    if (is_fork_first) TRY(fork_once(f, op, err));
    TRY(put_once(f, op, err));
    if (!is_fork_first) TRY(fork_once(f, op, err));
  }
  return PD_OK;
}

static pd_code take_turns(bench *b, forked stores[STORE_COUNT], pd_error *err)
{
  uint32_t op_count = b->sizes.fork_ops;
  uint32_t runs = bench_runs_at_most(b, BENCH_SERIES_COUNT_MAX / op_count);
  for (uint32_t run = 0; run < runs; run++)
    for (size_t i = 0; i < STORE_COUNT; i++) TRY(take_turn(&stores[i], run * op_count, op_count, err));
  return PD_OK;
}

pd_code row_fork(bench *b, pd_error *err)
{
  CLEANUP(forked_done) forked stores[STORE_COUNT] = {0};
  const uint32_t key_counts[STORE_COUNT] = {KEYS_FEW, b->sizes.keys_small, b->sizes.keys_big};
  double forks[STORE_COUNT], puts[STORE_COUNT];
  char dirs[STORE_COUNT][BENCH_PATH_SIZE];
  for (size_t i = 0; i < STORE_COUNT; i++) TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, key_counts[i], 0, dirs[i], err));
  for (size_t i = 0; i < STORE_COUNT; i++) TRY(forked_open(dirs[i], key_counts[i], &stores[i], err));
  TRY(take_turns(b, stores, err));
  for (size_t i = 0; i < STORE_COUNT; i++) {
    forks[i] = bench_series_median(&stores[i].fork_seconds);
    puts[i] = bench_series_median(&stores[i].put_seconds);
    TRY(bench_side_close(&stores[i].side, err));
  }
  TRY(report_sizes(b, forks, err));
  return report_puts(b, forks, puts, err);
}
