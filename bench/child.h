/* child.h: run a piece of the benchmark in a process of its own, and hear from it through a pipe. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include "bench.h"

#define BENCH_CHILD_SECONDS_MAX 600 /* then it is stopped: a hang is a finding like any other */

/* What to run in the child; `out_fd` is where bench_child_line writes to. Its failure becomes the parent's. */
typedef pd_code (*bench_child_fn)(void *ctx, int out_fd, pd_error *err);
typedef void (*bench_line_visit)(void *ctx, const bench_line *line);

/* In the parent: run `fn`, visit each line it sends (`visit` may be NULL), wait for its end. PD_STORAGE with "killed by signal …" if
 * it did not end by itself. Call it only where no store is open: handles do not survive a fork. */
PD_MUST_USE pd_code bench_child_run(bench_child_fn fn, void *ctx, bench_line_visit visit, void *visit_ctx, pd_error *err);
/* In the child. */
PD_MUST_USE pd_code bench_child_line(int out_fd, const bench_line *line, pd_error *err);
/* Was the last child stopped by the user (SIGINT)? Then the rest is not worth running. */
bool bench_child_was_interrupted(void);

#endif
