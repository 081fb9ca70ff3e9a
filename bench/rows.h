/* rows.h: the rows of the table: one budget of the issue each, and one function each, in row_*.c. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "bench.h"

typedef struct bench_row {
  int number;
  const char *name;                 /* for --only */
  const char *what, *peer, *budget; /* for the line of a row that could not finish */
  pd_code (*run)(bench *b, pd_error *err);
} bench_row;

extern const bench_row bench_rows[];
extern const size_t bench_row_count;
extern const bench_sizes bench_sizes_full;
extern const bench_sizes bench_sizes_quick; /* a table in seconds, of numbers that mean little */

PD_MUST_USE pd_code row_put(bench *b, pd_error *err);
PD_MUST_USE pd_code row_threads(bench *b, pd_error *err);
PD_MUST_USE pd_code row_buffered(bench *b, pd_error *err);
PD_MUST_USE pd_code row_batch(bench *b, pd_error *err);
PD_MUST_USE pd_code row_get(bench *b, pd_error *err);
PD_MUST_USE pd_code row_scan(bench *b, pd_error *err);
PD_MUST_USE pd_code row_history(bench *b, pd_error *err);
PD_MUST_USE pd_code row_fork(bench *b, pd_error *err);
PD_MUST_USE pd_code row_diff(bench *b, pd_error *err);
PD_MUST_USE pd_code row_disk(bench *b, pd_error *err);
PD_MUST_USE pd_code row_open(bench *b, pd_error *err);
PD_MUST_USE pd_code row_memory(bench *b, pd_error *err);
PD_MUST_USE pd_code row_merge(bench *b, pd_error *err);
PD_MUST_USE pd_code row_large(bench *b, pd_error *err);
PD_MUST_USE pd_code row_gc(bench *b, pd_error *err);
PD_MUST_USE pd_code row_watch(bench *b, pd_error *err);
PD_MUST_USE pd_code row_session(bench *b, pd_error *err);
PD_MUST_USE pd_code row_persistent(bench *b, pd_error *err);
PD_MUST_USE pd_code row_statestore(bench *b, pd_error *err);
PD_MUST_USE pd_code row_snapshots(bench *b, pd_error *err);
PD_MUST_USE pd_code row_thread(bench *b, pd_error *err);
PD_MUST_USE pd_code row_wire_set(bench *b, pd_error *err);
PD_MUST_USE pd_code row_wire_get(bench *b, pd_error *err);
PD_MUST_USE pd_code row_senders(bench *b, pd_error *err);
PD_MUST_USE pd_code row_leaves(bench *b, pd_error *err);
PD_MUST_USE pd_code row_agents(bench *b, pd_error *err);
PD_MUST_USE pd_code row_watchers(bench *b, pd_error *err);
PD_MUST_USE pd_code row_idle(bench *b, pd_error *err);

#endif
