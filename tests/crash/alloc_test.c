/*
 * alloc_test.c: each allocation fails in turn, alone and with all after it. The linker sends the calls of our own code here (--wrap);
 * those of libraries are theirs. Whatever fails, fails as an error: no crash, no leak (make asan), nothing acknowledged lost.
 */
#include "crash/crash.h"
#include "crash/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ALLOCATIONS_MAX 1000000
#define STRIDE_SHORT 7 /* on disk, make test tries one in so many */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

/* 0: none fails. The store's own threads allocate too. */
static _Atomic uint64_t fail_at, calls;
static _Atomic bool fail_on;

static bool is_to_fail(void)
{
  uint64_t at = atomic_load(&fail_at);
  if (!at) return false;
  uint64_t n = atomic_fetch_add(&calls, 1) + 1;
  return n == at || (n > at && atomic_load(&fail_on));
}

void *__wrap_malloc(size_t size)
{
  return is_to_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
  return is_to_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
  return is_to_fail() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
  return is_to_fail() ? NULL : __real_strdup(text);
}

typedef struct alloc_plan {
  const char *scheme; /* memory: or sqlite:FOLDER/ */
  bool all_after;
  uint64_t stride;
} alloc_plan;

static void fail_each_allocation(const alloc_plan *plan)
{
  uint64_t survived = 0, unnoticed = 0, n;
  bool is_memory = strcmp(plan->scheme, "memory:") == 0;
  for (n = 1 + crash_random(plan->stride); n < ALLOCATIONS_MAX; n += plan->stride) {
    char uri[CRASH_URI_MAX];
    scenario s;
    pd_store *keep = NULL; /* memory lives as long as its last handle */
    snprintf(uri, sizeof uri, "%s%llu", plan->scheme, (unsigned long long)n);
    if (is_memory) assert_int_equal(pd_store_open(uri, "main", NULL, &keep, NULL), PD_OK);
    atomic_store(&calls, 0);
    atomic_store(&fail_on, plan->all_after);
    atomic_store(&fail_at, n);
    scenario_run(&s, uri, 0);
    atomic_store(&fail_at, 0);
    bool has_fired = atomic_load(&calls) >= n;
    if (!scenario_check(&s, uri))
      fail_msg("after allocation %llu failed (%s: %s)", (unsigned long long)n, s.step, s.code ? s.err.message : "ok");
    pd_store_close(keep, NULL);
    if (!is_memory) crash_remove(uri + strlen("sqlite:"));
    if (has_fired && s.code != PD_OK && s.code != PD_NO_MEMORY)
      fail_msg("allocation %llu: %s answered %s: %s", (unsigned long long)n, s.step, pd_code_name(s.code), s.err.message);
    if (!has_fired) {
      if (s.code != PD_OK) fail_msg("without any fault: %s: %s", s.step, s.err.message);
      break;
    }
    survived++;
    unnoticed += s.code == PD_OK;
  }
  printf("# %llu allocations failed in turn, %llu of them without the caller noticing\n", (unsigned long long)survived,
         (unsigned long long)unnoticed);
  assert_true(n < ALLOCATIONS_MAX);
  assert_true(survived * plan->stride > 100); /* else nothing was tested */
}

static void alloc__each_allocation_fails_in_memory(void **state)
{
  (void)state;
  fail_each_allocation(&(alloc_plan){.scheme = "memory:", .stride = 1});
}

static void alloc__all_allocations_fail_from_some_on_in_memory(void **state)
{
  (void)state;
  fail_each_allocation(&(alloc_plan){.scheme = "memory:", .stride = 1, .all_after = true});
}

static void alloc__each_allocation_fails_on_disk(void **state)
{
  (void)state;
  char folder[CRASH_PATH_MAX], scheme[CRASH_URI_MAX];
  crash_scratch(folder);
  snprintf(scheme, sizeof scheme, "sqlite:%s/", folder);
  fail_each_allocation(&(alloc_plan){.scheme = scheme, .stride = crash_count(STRIDE_SHORT, 1)});
  fail_each_allocation(&(alloc_plan){.scheme = scheme, .stride = crash_count(STRIDE_SHORT, 1), .all_after = true});
  crash_scratch_remove(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(alloc__each_allocation_fails_in_memory),
    cmocka_unit_test(alloc__all_allocations_fail_from_some_on_in_memory),
    cmocka_unit_test(alloc__each_allocation_fails_on_disk),
  };
  crash_seed();
  return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
