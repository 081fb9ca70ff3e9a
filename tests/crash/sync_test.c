/*
 * sync_test.c: every sync of a workload fails once, as it does on Linux (support/power_vfs.h): large values, forks, keyframes, a
 * checkpoint. Then the power goes, or the store is opened again, written on, and the power goes. What was acknowledged is there, or its
 * loss is reported when the store is opened; what was answered an error is not there, unless the answer was that the outcome is unknown.
 */
#include "crash/crash.h"
#include "support/power_vfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PUTS 120 /* with these values the WAL is checkpointed once */
#define FORK_EACH 10
#define FLUSH_EACH 7
#define VALUE_SIZE_MAX 500000
#define STRIDE_SHORT 19
#define SYNCS_MAX 2000

typedef enum fate { NOT_TRIED, ACKNOWLEDGED, BUFFERED, REFUSED, UNKNOWN } fate;

typedef struct life {
  char folder[CRASH_PATH_MAX], uri[CRASH_URI_MAX], lock[CRASH_URI_MAX];
  uint32_t flush_ms;
  uint64_t n, seed;
  pd_store *store;
  fate puts[2 * PUTS], forks[2 * PUTS];
  uint64_t reported;
} life;

static pd_bytes value_of(uint64_t number)
{
  static const size_t sizes[] = {104, 20000, 70000, VALUE_SIZE_MAX};
  static uint8_t bytes[VALUE_SIZE_MAX];
  uint64_t random = number;
  size_t size = sizes[number % 4];
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t x = power_random(&random);
    memcpy(bytes + i, &x, 8);
  }
  return (pd_bytes){bytes, size};
}

static void name_of(char out[32], const char *prefix, uint64_t number)
{
  snprintf(out, 32, "%s%llu", prefix, (unsigned long long)number);
}

static fate fate_of(const life *l, pd_code code, bool is_synced)
{
  if (code == PD_OK) return is_synced ? ACKNOWLEDGED : BUFFERED;
  if (code == PD_OUTCOME_UNKNOWN) return UNKNOWN;
  if (code != PD_STORAGE) fail_msg("sync %llu: the answer is %s", (unsigned long long)l->n, pd_code_name(code));
  return REFUSED;
}

static void flush(life *l)
{
  if (pd_store_flush(l->store, NULL) != PD_OK) return;
  for (size_t i = 0; i < 2 * PUTS; i++)
    if (l->puts[i] == BUFFERED) l->puts[i] = ACKNOWLEDGED;
}

/* Puts number from … to - 1, with forks and flushes in between, errors or not. */
static void work(life *l, uint64_t from, uint64_t to)
{
  for (uint64_t i = from; i < to; i++) {
    char name[32];
    name_of(name, "k", i);
    l->puts[i] = fate_of(l, pd_put(l->store, pd_text(name), value_of(i), NULL, NULL, NULL), !l->flush_ms);
    if (l->flush_ms && i % FLUSH_EACH == 0) flush(l);
    if (i % FORK_EACH) continue;
    name_of(name, "f", i);
    l->forks[i] = fate_of(l, pd_fork(l->store, name, "main", NULL, NULL, NULL), true);
    if (l->forks[i] == ACKNOWLEDGED) /* a move settles what is buffered */
      for (uint64_t k = 0; k <= i; k++)
        if (l->puts[k] == BUFFERED) l->puts[k] = ACKNOWLEDGED;
  }
}

static void open_life(life *l, uint32_t flush_ms)
{
  pd_error err = {0};
  pd_code code = pd_store_open(l->uri, "main", &(pd_options){.flush_ms = flush_ms}, &l->store, &err);
  if (code == PD_OK) return;
  l->store = NULL;
  if (code == PD_CORRUPT && strstr(err.message, "were acknowledged"))
    l->reported++;
  else
    fail_msg("sync %llu, seed %llu: does not open: %s", (unsigned long long)l->n, (unsigned long long)l->seed, err.message);
}

static void close_life(life *l)
{
  bool is_closed = pd_store_close(l->store, NULL) == PD_OK;
  l->store = NULL;
  for (size_t i = 0; i < 2 * PUTS; i++)
    if (l->puts[i] == BUFFERED) l->puts[i] = is_closed ? ACKNOWLEDGED : UNKNOWN; /* close said that they are lost */
}

static void judge(const life *l, const char *name, fate was, bool is_there)
{
  if (was == ACKNOWLEDGED && !is_there)
    fail_msg("sync %llu, seed %llu: %s was acknowledged and is gone", (unsigned long long)l->n, (unsigned long long)l->seed, name);
  if ((was == REFUSED || was == NOT_TRIED) && is_there)
    fail_msg("sync %llu, seed %llu: %s was refused and is there", (unsigned long long)l->n, (unsigned long long)l->seed, name);
}

static bool is_put_there(life *l, const char *name, uint64_t number)
{
  pd_buf value = {0};
  pd_bytes want = value_of(number);
  pd_error err = {0};
  pd_code code = pd_get(l->store, "main", pd_text(name), &value, NULL, &err);
  if (code != PD_OK && code != PD_NOT_FOUND) fail_msg("sync %llu: %s cannot be read: %s", (unsigned long long)l->n, name, err.message);
  if (code == PD_OK && (value.size != want.size || memcmp(value.data, want.data, want.size) != 0))
    fail_msg("sync %llu: %s has other bytes", (unsigned long long)l->n, name);
  pd_buf_done(&value);
  return code == PD_OK;
}

static void check(life *l)
{
  pd_error err = {0};
  for (uint64_t i = 0; i < 2 * PUTS; i++) {
    char name[32];
    pd_ref ref;
    name_of(name, "k", i);
    judge(l, name, l->puts[i], is_put_there(l, name, i));
    name_of(name, "f", i);
    judge(l, name, l->forks[i], pd_ref_get(l->store, name, &ref, NULL) == PD_OK);
  }
  if (crash_verify(l->store, &err) != PD_OK)
    fail_msg("sync %llu, seed %llu: %s", (unsigned long long)l->n, (unsigned long long)l->seed, err.message);
}

/* The power goes; what is left of the lock file is a matter of luck, too. */
static void lose_power(life *l)
{
  uint8_t older[4096];
  bool has_older = power_lock_file_save(l->lock, older);
  power_vfs_cut(l->seed);
  (void)!pd_store_close(l->store, NULL);
  power_vfs_restore();
  power_lock_file_tear(l->lock, has_older ? older : NULL, l->seed);
  open_life(l, 0);
}

/* The n-th sync of a life fails. False if there were not so many. */
static bool live(const char *scratch, uint64_t n, uint32_t flush_ms, bool is_reopened, uint64_t *reported)
{
  life *l = calloc(1, sizeof *l);
  assert_non_null(l);
  l->n = n, l->flush_ms = flush_ms, l->seed = 1 + crash_random(1u << 30);
  snprintf(l->folder, sizeof l->folder, "%.200s/s%llu", scratch, (unsigned long long)n);
  snprintf(l->uri, sizeof l->uri, "sqlite:%s?vfs=powercut", l->folder);
  snprintf(l->lock, sizeof l->lock, "%s/main.lock", l->folder);
  open_life(l, flush_ms);
  power_vfs_fail_sync("", n, n % 2 ? 0 : l->seed);
  work(l, 0, PUTS / 2);
  close_life(l);
  open_life(l, flush_ms);
  if (l->store) work(l, PUTS / 2, PUTS);
  bool has_failed = power_vfs_sync_failed();
  if (is_reopened && l->store) {
    close_life(l);
    open_life(l, flush_ms);
    if (l->store) work(l, PUTS, PUTS + 20);
    for (uint64_t i = PUTS; i < PUTS + 20 && has_failed; i++)
      if (l->puts[i] == REFUSED)
        fail_msg("sync %llu: put %llu is refused after the store was opened again", (unsigned long long)n, (unsigned long long)i);
  }
  if (l->store) lose_power(l);
  if (l->store) {
    check(l);
    assert_int_equal(pd_store_close(l->store, NULL), PD_OK);
  }
  power_vfs_restore();
  *reported += l->reported;
  crash_remove(l->folder);
  free(l);
  return has_failed;
}

static void fail_each_sync(uint32_t flush_ms, bool is_reopened)
{
  char scratch[CRASH_PATH_MAX];
  uint64_t stride = crash_count(flush_ms ? STRIDE_SHORT / 2 : STRIDE_SHORT, 1), failed = 0, reported = 0; /* buffered: fewer syncs */
  uint64_t n = 1 + crash_random(stride);
  power_vfs_install();
  crash_scratch(scratch);
  while (n < SYNCS_MAX && live(scratch, n, flush_ms, is_reopened, &reported)) n += stride, failed++;
  printf("# %llu syncs failed in turn (every %llu), %llu losses reported at open\n", (unsigned long long)failed, (unsigned long long)stride,
         (unsigned long long)reported);
  crash_scratch_remove(scratch);
  assert_true(n < SYNCS_MAX);
  assert_true(failed); /* else nothing was tested */
}

static void sync__each_fails_once_and_then_the_power(void **state)
{
  (void)state;
  fail_each_sync(0, false);
}

static void sync__each_fails_once_the_store_is_opened_again_and_then_the_power(void **state)
{
  (void)state;
  fail_each_sync(0, true);
}

static void sync__each_of_a_buffered_store_fails_once_and_then_the_power(void **state)
{
  (void)state;
  fail_each_sync(600000, false);
}

static void sync__each_of_a_buffered_store_fails_once_it_is_opened_again_and_then_the_power(void **state)
{
  (void)state;
  fail_each_sync(600000, true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sync__each_fails_once_and_then_the_power),
    cmocka_unit_test(sync__each_fails_once_the_store_is_opened_again_and_then_the_power),
    cmocka_unit_test(sync__each_of_a_buffered_store_fails_once_and_then_the_power),
    cmocka_unit_test(sync__each_of_a_buffered_store_fails_once_it_is_opened_again_and_then_the_power),
  };
  crash_seed();
  return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
