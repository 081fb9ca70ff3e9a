/*
 * bench.h: what every row of the table shares: sizes, timing, medians, and the line that it reports.
 *
 * A row is one budget of the table. Each row runs in a process of its own, so that a crash costs its own line only, and no row
 * inherits another's heap; what it reports goes through a pipe. A row that fails still has its line, and that line says NOT MET.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <perdure/perdure.h>

#define BENCH_RUN_COUNT_MAX 101
#define BENCH_SERIES_COUNT_MAX 1024

/* How much is done; all of it is smaller with --quick. */
typedef struct bench_sizes {
  uint32_t keys_small; /* 10 k  */
  uint32_t keys_mid;   /* 100 k */
  uint32_t keys_big;   /* 1 M   */
  uint32_t put_ops;    /* durable puts a run and side */
  uint32_t thread_ops; /* durable puts a run and thread */
  uint32_t buffered_ops;
  uint32_t batch_size;
  uint32_t get_ops;
  uint32_t scan_ops;
  uint32_t history_commits;
  uint32_t history_ops; /* ours; libgit2 does a tenth */
  uint32_t fork_ops;
  uint32_t diff_ops; /* ours; libgit2 does a tenth */
  uint32_t disk_commits;
  uint32_t open_commits_few, open_commits_many;
  uint32_t memory_ops;
  uint32_t merge_ops; /* merges a run */
  uint32_t gc_versions;
  uint32_t session_ops;    /* calls a run */
  uint32_t statestore_ops; /* sets, and gets, a run */
  uint32_t thread_turns;   /* of a conversation */
  uint32_t snapshot_saves;
  uint32_t wire_ms; /* a run of the server's clients, and side */
  uint32_t wire_watchers, wire_connections, wire_agents;
} bench_sizes;

typedef struct bench {
  const char *dir; /* where the files go */
  uint32_t run_count;
  bench_sizes sizes;
  int out_fd; /* where lines go */
} bench;

/* One line of the table, as text, ready to print. */
typedef struct bench_line {
  char what[128];
  char peer[128];
  char ours_text[64];
  char peer_text[64];
  char ratio[24];
  char budget[40];
  char note[440];
  bool is_met;
} bench_line;

/* ---- measuring ---------------------------------------------------------------------------------------------------- */

/* Seconds that only go forward. */
double bench_now(void);

/* The same measurement, repeated. Zero-initialise. */
typedef struct bench_series {
  double values[BENCH_SERIES_COUNT_MAX];
  size_t count;
} bench_series;

void bench_series_add(bench_series *series, double value);
double bench_series_median(const bench_series *series);
/* The value that 99 of 100 do not exceed. */
double bench_series_p99(const bench_series *series);

typedef enum bench_sense { BENCH_AT_LEAST, BENCH_AT_MOST } bench_sense;

/* Write `ratio`, the budget and the verdict into a line. */
void bench_judge(bench_line *line, double ratio, bench_sense sense, double budget);
/* The smaller of the runs asked for and `count_max`, for rows whose single run is long. */
uint32_t bench_runs_at_most(const bench *b, uint32_t count_max);

/* Hand the line to the table. */
PD_MUST_USE pd_code bench_report(bench *b, const bench_line *line, pd_error *err);
/* Progress, on stderr. */
void bench_say(const char *fmt, ...) PD_PRINTF(1, 2);

/* ---- numbers as text; each returns `out` -------------------------------------------------------------------------- */

#define BENCH_TEXT_SIZE 32
char *bench_text_count(uint64_t count, char out[BENCH_TEXT_SIZE]);   /* 10 k, 1 M, 512          */
char *bench_text_rate(double per_second, char out[BENCH_TEXT_SIZE]); /* 4.41 k/s, 1.20 M/s      */
char *bench_text_seconds(double seconds, char out[BENCH_TEXT_SIZE]); /* 850 ns, 12.3 µs, 1.40 s */
char *bench_text_bytes(double bytes, char out[BENCH_TEXT_SIZE]);     /* 412 B, 7.50 KB, 96.1 MB */

#endif
