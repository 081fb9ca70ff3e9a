/*
 * scenario.h: one small life of a store, each step acknowledged or not, for the tests that make its calls fail one by one. It allocates
 * nothing itself while faults are armed.
 */
#ifndef PD_TESTS_CRASH_SCENARIO_H
#define PD_TESTS_CRASH_SCENARIO_H

#include <perdure/perdure.h>

#define SCENARIO_BATCH 40

/* What was acknowledged. */
typedef struct scenario {
  bool has_plan, has_plan_again, has_large, has_batch, has_fork, has_reset_fork, has_delete, has_undo;
  pd_id plan, large, batch, fork;
  pd_code code; /* of the first step that failed */
  const char *step;
  pd_error err;
} scenario;

/* Open `uri`, put, commit a batch, fork, read, diff, list, log, verify, close. Stops at the first failure; always closes. With `flush_ms`
 * the store is buffered, and a step counts as acknowledged once a flush succeeded. */
void scenario_run(scenario *out, const char *uri, uint32_t flush_ms);

/* With no faults armed: does the store open, hold everything acknowledged, and verify? Prints what does not. */
bool scenario_check(const scenario *done, const char *uri);

#endif
