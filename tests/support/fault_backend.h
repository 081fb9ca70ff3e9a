/*
 * fault_backend.h: a backend around another, `fault:sqlite:DIR` or `fault:memory:NAME`, that fails the call you choose.
 *
 *     fault_backend_install();
 *     for (uint64_t n = 1;; n++) {
 *       fault_backend_plan((fault_plan){.at = n, .code = PD_STORAGE});
 *       … open "fault:sqlite:DIR", work, close; whatever failed must have failed cleanly …
 *       if (!fault_backend_has_fired()) break;   // n was past the last call: every call has failed once
 *     }
 *
 * There is one plan for the whole process. Calls of all threads and handles are counted together; close, flags,
 * log_tail_hint and log_release cannot fail and are not counted.
 */
#ifndef SUPPORT_FAULT_BACKEND_H
#define SUPPORT_FAULT_BACKEND_H

#include <perdure/backend.h>

typedef enum fault_op {
  FAULT_OPEN = 1,
  FAULT_LOG_APPEND = 2,
  FAULT_LOG_READ = 4,
  FAULT_LOG_TAIL = 8,
  FAULT_BAG_PUT = 16,
  FAULT_BAG_GET = 32,
  FAULT_LOG_CLAIM = 64,
  FAULT_CHECK = 128,
  FAULT_USAGE = 256,
  FAULT_STORES = 512,
  FAULT_LOG_REDACT = 1024,
  FAULT_BAG_MARK = 2048,
  FAULT_BAG_SWEEP = 4096,
  FAULT_COMPACT = 8192,
  FAULT_LOG_WAIT = 16384
} fault_op;

typedef enum fault_how {
  FAULT_BEFORE = 0, /* nothing was done */
  FAULT_AFTER,      /* all was done, and only the answer is a failure */
  FAULT_TEAR        /* bag_put: the first half of the blobs went in. log_read: the first half was visited. bag_sweep: about half of
                       what should go went. Else like BEFORE */
} fault_how;

typedef struct fault_plan {
  uint64_t at;    /* the n-th counted call from now on fails; 1 is the next; 0: none */
  uint64_t count; /* and so many in a row; 0 means 1, UINT64_MAX all */
  pd_code code;   /* 0 means PD_STORAGE */
  fault_how how;
  unsigned ops; /* only these fault_op are counted and fail; 0 means all */
} fault_plan;

/* Register the scheme; may be called again. */
void fault_backend_install(void);
/* Replace the plan and begin counting anew. */
void fault_backend_plan(fault_plan plan);
/* Calls that the plan counted since it was made. */
uint64_t fault_backend_calls(void);
/* How many of them failed. */
uint64_t fault_backend_fired(void);
/* While the gate is shut, appends of all handles wait in front of it: a sync that takes as long as the test wants. */
void fault_backend_gate(bool is_shut);
/* Return once an append waits at the gate, since it was shut. */
void fault_backend_await_append(void);
static inline bool fault_backend_has_fired(void)
{
  return fault_backend_fired() > 0;
}

#endif
