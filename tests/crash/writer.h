/*
 * writer.h: a process that writes until it is killed and reports each acknowledged write through a pipe; and the ledger that its reports
 * are kept in, to be held against the store afterwards.
 *
 *  W1  A report is sent only after the store acknowledged the write as synced (or, buffered, after a flush succeeded).
 *  W2  Each key of a ref is written by one thread, with rising numbers: the head may be ahead of the last report, never behind it.
 */
#ifndef PD_TESTS_CRASH_WRITER_H
#define PD_TESTS_CRASH_WRITER_H

#include <perdure/perdure.h>

#define WRITER_THREADS 4
#define WRITER_KEYS 12
#define WRITER_LINES 2 /* main, and a ref of the thread's own */

/* One acknowledged write; small enough to be written to a pipe at once. */
typedef struct writer_report {
  uint32_t thread, line, key;
  uint32_t is_fork; /* a ref that was made at `commit` */
  uint64_t number;
  pd_id commit;
  char ref[32];
} writer_report;

typedef struct writer_plan {
  const char *uri;
  uint32_t flush_ms;
  unsigned thread_count;
  uint64_t number_from; /* above every number used before */
  uint64_t seed;
  uint64_t stop_after; /* writes per thread; 0: until it is killed */
  bool is_doomed;      /* it will fail, and need not say so */
  int pipe;
} writer_plan;

/* Write until killed, or until every thread has done `stop_after`. The exit status: 0, or 1 after an error. */
int writer_run(const writer_plan *plan);

typedef struct writer_ledger {
  writer_report *reports;
  size_t count, room;
  uint64_t last[WRITER_LINES][WRITER_THREADS][WRITER_KEYS]; /* 0: never reported */
} writer_ledger;

void writer_ledger_done(writer_ledger *ledger);
/* Read what is in the pipe: up to its end if `until_end`, else what is there. False at the end. */
bool writer_ledger_read(writer_ledger *ledger, int pipe, bool until_end);
/* Is everything reported from report `from` on, and the last write of every key, in the store? Prints what is not. */
bool writer_ledger_check(const writer_ledger *ledger, pd_store *store, size_t from);

#endif
