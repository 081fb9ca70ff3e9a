/*
 * row_disk.c: row 10: bytes on disk for a commit of one key, all included: files of the closed store over commits.
 *
 * The first commits create the keys, one each; the others replace random ones. Judged in the default mode, where each commit is synced
 * on its own; the note has the buffered mode, where commits share appends.
 */
#include <stdio.h>

#include "base/base.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define SQLITE_BATCH_SIZE 1000 /* the same rows, hence the same pages, sooner */

static pd_code put_commit(bench_side *side, uint32_t commit, uint32_t key_count, pd_error *err)
{
  bench_key key;
  bench_value value;
  uint64_t random = commit;
  uint32_t index = commit < key_count ? commit : bench_random_below(&random, key_count);
  bench_key_make(index, &key);
  bench_value_make(index, commit, &value);
  return side->ops->put(side->state, bench_key_bytes(&key), bench_value_bytes(&value), err);
}

static pd_code check_keys(bench_side *side, uint32_t key_count, pd_error *err)
{
  for (uint32_t i = 0; i < key_count; i++) TRY(bench_side_get(side, i, err));
  return PD_OK;
}

static pd_code measure_ours(bench *b, uint32_t flush_ms, double *out_bytes, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  pd_options options = {.flush_ms = flush_ms};
  char dir[BENCH_PATH_SIZE];
  uint64_t size;
  TRY(bench_folder_new(b->dir, "row-ours", dir, err));
  TRY(bench_ours_open(dir, &options, &side, err));
  for (uint32_t c = 0; c < b->sizes.disk_commits; c++) TRY(put_commit(&side, c, b->sizes.keys_small, err));
  TRY(check_keys(&side, b->sizes.keys_small, err));
  TRY(bench_side_close(&side, err));
  TRY(bench_folder_size(dir, &size, err));
  *out_bytes = (double)size / b->sizes.disk_commits;
  return PD_OK;
}

static pd_code measure_sqlite(bench *b, double *out_bytes, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  char dir[BENCH_PATH_SIZE];
  uint64_t size;
  TRY(bench_folder_new(b->dir, "row-peer", dir, err));
  TRY(bench_sqlite_history_open(dir, &side, err));
  for (uint32_t c = 0; c < b->sizes.disk_commits; c++) {
    if (c % SQLITE_BATCH_SIZE == 0) TRY(side.ops->batch_begin(side.state, err));
    TRY(put_commit(&side, c, b->sizes.keys_small, err));
    if ((c + 1) % SQLITE_BATCH_SIZE == 0 || c + 1 == b->sizes.disk_commits) TRY(side.ops->batch_commit(side.state, err));
  }
  TRY(check_keys(&side, b->sizes.keys_small, err));
  TRY(bench_side_close(&side, err));
  TRY(bench_folder_size(dir, &size, err));
  *out_bytes = (double)size / b->sizes.disk_commits;
  return PD_OK;
}

pd_code row_disk(bench *b, pd_error *err)
{
  char commits[BENCH_TEXT_SIZE], keys[BENCH_TEXT_SIZE];
  double synced, buffered, sqlite;
  TRY(measure_ours(b, 0, &synced, err));
  TRY(measure_ours(b, 100, &buffered, err));
  TRY(measure_sqlite(b, &sqlite, err));
  bench_line line = {.peer = "SQLite history table"};
  snprintf(line.what, sizeof(line.what), "bytes on disk a single-key commit, %s commits, %s keys",
           bench_text_count(b->sizes.disk_commits, commits), bench_text_count(b->sizes.keys_small, keys));
  snprintf(line.ours_text, sizeof(line.ours_text), "%.0f B", synced);
  snprintf(line.peer_text, sizeof(line.peer_text), "%.0f B", sqlite);
  bench_judge(&line, synced / sqlite, BENCH_AT_MOST, 1.5);
  snprintf(line.note, sizeof(line.note),
           "File sizes of the closed store over commits, each commit synced on its own; buffered: %.0f B. Measured once.", buffered);
  return bench_report(b, &line, err);
}
