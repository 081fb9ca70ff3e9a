/* rows.c: the rows of the table, in the order of the issue, and how much each does. */
#include "rows.h"

const bench_row bench_rows[] = {
  {1, "put", "durable put, one thread", "SQLite WAL FULL, plain upsert", "≥ 1×", row_put},
  {2, "threads", "durable puts, 16 threads on one store", "our one thread", "≥ 6×", row_threads},
  {3, "buffered", "buffered put, one thread", "LMDB NOSYNC, one transaction a put", "≥ 2×", row_buffered},
  {4, "batch", "batches, durable, scattered", "LMDB, same batches, synced", "≥ 2×", row_batch},
  {5, "get", "random get at head", "LMDB", "≥ 1×", row_get},
  {6, "scan", "prefix scan", "LMDB cursor", "≥ 1×", row_scan},
  {7, "history", "get at a random old commit", "libgit2, 256-way tree", "≥ 30×", row_history},
  {8, "fork", "fork", "each other; our durable put", "≤ 2×; ≤ 1×", row_fork},
  {9, "diff", "diff of changed keys", "libgit2; ours when small", "≥ 20×; ≤ 4×", row_diff},
  {10, "disk", "bytes on disk a single-key commit", "SQLite history table", "≤ 1.5×", row_disk},
  {11, "open", "open + first get", "SQLite open + first SELECT; each other", "≤ 5×; ≤ 1.5×", row_open},
  {12, "memory", "resident memory", "", "≤ 128 MB", row_memory},
  {13, "merge", "merge of two branches", "our durable batch of 200 keys", "≤ 20×", row_merge},
  {14, "large", "100-byte edits in a 10 MB value", "64 KiB; its first put", "≤ 1×; ≤ 0.05×", row_large},
  {16, "watch", "watch, put in one process to event in another", "5 ms", "≤ 1×", row_watch},
};
const size_t bench_row_count = sizeof(bench_rows) / sizeof(bench_rows[0]);

const bench_sizes bench_sizes_full = {
  .keys_small = 10000,
  .keys_mid = 100000,
  .keys_big = 1000000,
  .put_ops = 20000,
  .thread_ops = 2000,
  .buffered_ops = 100000,
  .batch_size = 1000,
  .get_ops = 500000,
  .scan_ops = 2000,
  .history_commits = 10000,
  .history_ops = 20000,
  .fork_ops = 200,
  .diff_ops = 2000,
  .disk_commits = 100000,
  .open_commits_few = 10000,
  .open_commits_many = 1000000,
  .memory_ops = 200000,
  .merge_ops = 20,
};

const bench_sizes bench_sizes_quick = {
  .keys_small = 500,
  .keys_mid = 2000,
  .keys_big = 10000,
  .put_ops = 200,
  .thread_ops = 20,
  .buffered_ops = 2000,
  .batch_size = 1000,
  .get_ops = 5000,
  .scan_ops = 20,
  .history_commits = 200,
  .history_ops = 500,
  .fork_ops = 20,
  .diff_ops = 100,
  .disk_commits = 1000,
  .open_commits_few = 100,
  .open_commits_many = 10000,
  .memory_ops = 5000,
  .merge_ops = 5,
};
