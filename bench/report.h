/* report.h: the table, on the terminal and as bench/RESULTS.md. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdio.h>

#include "bench.h"
#include "machine.h"

#define BENCH_LINE_COUNT_MAX 64

typedef struct bench_table {
  bench_line lines[BENCH_LINE_COUNT_MAX];
  int numbers[BENCH_LINE_COUNT_MAX]; /* of the row that each line belongs to */
  size_t count;
} bench_table;

void bench_table_add(bench_table *table, int number, const bench_line *line);
/* How many lines are not met. */
size_t bench_table_missed(const bench_table *table);

void bench_table_print(const bench_table *table, FILE *out);

typedef struct bench_results {
  const bench_table *table;
  const bench_machine *machine;
  const char *command;
  uint32_t run_count;
  double seconds;
} bench_results;

/* As Markdown, whole or not at all (a new file that takes the old one's name). */
PD_MUST_USE pd_code bench_results_write(const bench_results *results, const char *path, pd_error *err);

#endif
