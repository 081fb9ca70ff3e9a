/*
 * fault_test.c: each call on the backend fails in turn (support/fault_backend.h): before it did anything, after it did all, half way.
 * Whatever fails, fails cleanly: an error, nothing acknowledged lost, the store opens and verifies afterwards.
 */
#include "base/base.h"
#include "crash/crash.h"
#include "crash/scenario.h"
#include "support/fault_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FLUSH_MS 60000   /* the scenario flushes before */
#define CALLS_MAX 100000 /* more than the scenario ever makes: else it goes round in circles */

/* Fail call n, n = 1, 2, 3… until n is past the last call. */
static void fail_each_call(fault_plan plan, uint32_t flush_ms)
{
  char folder[CRASH_PATH_MAX], faulty[CRASH_URI_MAX + 16], plain[CRASH_URI_MAX];
  uint64_t survived = 0, unnoticed = 0;
  fault_backend_install();
  crash_scratch(folder);
  for (plan.at = 1; plan.at < CALLS_MAX; plan.at++) {
    scenario s;
    snprintf(plain, sizeof plain, "sqlite:%s/s%llu", folder, (unsigned long long)plan.at);
    snprintf(faulty, sizeof faulty, "fault:%s", plain);
    fault_backend_plan(plan);
    scenario_run(&s, faulty, flush_ms);
    bool has_fired = fault_backend_has_fired();
    fault_backend_plan((fault_plan){0});
    if (!scenario_check(&s, plain))
      fail_msg("after call %llu failed (%s: %s)", (unsigned long long)plan.at, s.step, s.code ? s.err.message : "ok");
    crash_remove(plain + strlen("sqlite:"));
    if (!has_fired) {
      if (s.code != PD_OK) fail_msg("without any fault: %s: %s", s.step, s.err.message);
      break;
    }
    survived++;
    unnoticed += s.code == PD_OK;
  }
  printf("# %llu calls failed in turn, %llu of them without the caller noticing\n", (unsigned long long)survived,
         (unsigned long long)unnoticed);
  crash_scratch_remove(folder);
  assert_true(plan.at < CALLS_MAX);
  assert_true(survived > 20); /* else nothing was tested */
}

static void fault__each_call_refused(void **state)
{
  (void)state;
  fail_each_call((fault_plan){.how = FAULT_BEFORE, .code = PD_STORAGE}, 0);
}

static void fault__each_call_done_and_then_reported_as_failed(void **state)
{
  (void)state;
  fail_each_call((fault_plan){.how = FAULT_AFTER, .code = PD_STORAGE}, 0);
}

static void fault__each_call_torn(void **state)
{
  (void)state;
  fail_each_call((fault_plan){.how = FAULT_TEAR, .code = PD_FULL}, 0);
}

static void fault__everything_fails_from_some_call_on(void **state)
{
  (void)state;
  fail_each_call((fault_plan){.how = FAULT_BEFORE, .code = PD_FULL, .count = UINT64_MAX}, 0);
}

static void fault__a_buffered_store_survives_each_call_refused(void **state)
{
  (void)state;
  fail_each_call((fault_plan){.how = FAULT_BEFORE, .code = PD_STORAGE}, FLUSH_MS);
}

static void fault__a_buffered_store_survives_everything_failing(void **state)
{
  (void)state;
  fail_each_call((fault_plan){.how = FAULT_BEFORE, .code = PD_FULL, .count = UINT64_MAX}, FLUSH_MS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fault__each_call_refused),
    cmocka_unit_test(fault__each_call_done_and_then_reported_as_failed),
    cmocka_unit_test(fault__each_call_torn),
    cmocka_unit_test(fault__everything_fails_from_some_call_on),
    cmocka_unit_test(fault__a_buffered_store_survives_each_call_refused),
    cmocka_unit_test(fault__a_buffered_store_survives_everything_failing),
  };
  return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
