/*
 * row_open.c: row 11: open a store of a million keys and get the first one, with little and with much history behind it.
 *
 * Each time a new handle; the files are in the system's page cache for both sides. Closing is not timed.
 */
#include <stdio.h>

#include "base/base.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define OPENS_PER_RUN 8

typedef struct opened {
  char dir[BENCH_PATH_SIZE];
  bool is_sqlite;
  bench_series seconds;
} opened;

static pd_code open_once(opened *o, uint32_t index, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  double start = bench_now();
  TRY(o->is_sqlite ? bench_sqlite_reopen(o->dir, &side, err) : bench_ours_open(o->dir, NULL, &side, err));
  TRY(bench_side_get(&side, index, err));
  bench_series_add(&o->seconds, bench_now() - start);
  return bench_side_close(&side, err);
}

static pd_code take_turns(bench *b, opened stores[3], pd_error *err)
{
  uint64_t random = 11;
  for (size_t i = 0; i < 3; i++) {
    TRY(open_once(&stores[i], 0, err));
    stores[i].seconds.count = 0; /* that was the warm-up */
  }
  for (uint32_t op = 0; op < b->run_count * OPENS_PER_RUN; op++) {
    uint32_t index = bench_random_below(&random, b->sizes.keys_big);
    for (size_t i = 0; i < 3; i++) TRY(open_once(&stores[i], index, err));
  }
  return PD_OK;
}

static pd_code report_open(bench *b, uint32_t commit_count, double ours_s, double sqlite_s, pd_error *err)
{
  char keys[BENCH_TEXT_SIZE], commits[BENCH_TEXT_SIZE];
  bench_line line = {.peer = "SQLite open + first SELECT",
                     .note = "New handle each time, files in the page cache, store closed properly before."};
  snprintf(line.what, sizeof(line.what), "open + first get, %s keys, %s commits", bench_text_count(b->sizes.keys_big, keys),
           bench_text_count(commit_count, commits));
  bench_text_seconds(ours_s, line.ours_text);
  bench_text_seconds(sqlite_s, line.peer_text);
  bench_judge(&line, ours_s / sqlite_s, BENCH_AT_MOST, 5.0);
  return bench_report(b, &line, err);
}

static pd_code report_growth(bench *b, double few_s, double many_s, pd_error *err)
{
  char few[BENCH_TEXT_SIZE], many[BENCH_TEXT_SIZE];
  bench_text_count(b->sizes.open_commits_few, few);
  bench_text_count(b->sizes.open_commits_many, many);
  bench_line line = {.note = "The dearer of the two against the cheaper."};
  snprintf(line.what, sizeof(line.what), "open + first get, %s against %s commits", many, few);
  snprintf(line.peer, sizeof(line.peer), "ours at %s commits", few);
  bench_text_seconds(many_s, line.ours_text);
  bench_text_seconds(few_s, line.peer_text);
  bench_judge(&line, many_s > few_s ? many_s / few_s : few_s / many_s, BENCH_AT_MOST, 1.5);
  return bench_report(b, &line, err);
}

pd_code row_open(bench *b, pd_error *err)
{
  static opened stores[3]; /* few commits, many commits, SQLite */
  const bench_sizes *s = &b->sizes;
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, s->keys_big, s->open_commits_few, stores[0].dir, err));
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, s->keys_big, s->open_commits_many, stores[1].dir, err));
  TRY(bench_fixture(b, BENCH_FIXTURE_SQLITE, s->keys_big, 0, stores[2].dir, err));
  stores[2].is_sqlite = true;
  TRY(take_turns(b, stores, err));
  double few_s = bench_series_median(&stores[0].seconds), many_s = bench_series_median(&stores[1].seconds);
  double sqlite_s = bench_series_median(&stores[2].seconds);
  TRY(report_open(b, s->open_commits_few, few_s, sqlite_s, err));
  TRY(report_open(b, s->open_commits_many, many_s, sqlite_s, err));
  return report_growth(b, few_s, many_s, err);
}
