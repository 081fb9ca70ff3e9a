/* counter_test.c: eight processes increment one counter by compare-and-swap; no increment is lost, and nobody sees another error than a
 * conflict. */
#include "base/base.h"
#include "base/buf.h"
#include "crash/crash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PROCESSES 8
#define INCREMENTS_SHORT 100
#define INCREMENTS_FULL 1000

/* What the counter is, and at which version; 0 and 0 if it is absent. */
static pd_code read_counter(pd_store *store, uint64_t *out_count, uint64_t *out_version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_entry entry;
  *out_count = *out_version = 0;
  pd_code code = pd_get(store, NULL, pd_text("counter"), &value, &entry, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  TRY(pd_buf_byte(&value, 0, err));
  *out_count = strtoull((char *)value.data, NULL, 10);
  *out_version = entry.version;
  return PD_OK;
}

static pd_code increment(pd_store *store, uint64_t *conflicts, pd_error *err)
{
  for (;; (*conflicts)++) {
    uint64_t count, version;
    char text[32];
    TRY(read_counter(store, &count, &version, err));
    snprintf(text, sizeof text, "%llu", (unsigned long long)count + 1);
    pd_code code = pd_put_if(store, pd_text("counter"), pd_text(text), version, NULL, NULL, err);
    if (code != PD_CONFLICT) return code;
  }
}

static int run_process(const char *uri, uint64_t increments)
{
  pd_store *store;
  pd_error err = {0};
  uint64_t conflicts = 0;
  pd_code code = pd_store_open(uri, "main", NULL, &store, &err);
  if (code == PD_OK) {
    for (uint64_t i = 0; i < increments && code == PD_OK; i++) code = increment(store, &conflicts, &err);
    pd_code close_code = pd_store_close(store, code == PD_OK ? &err : NULL);
    if (code == PD_OK) code = close_code;
  }
  if (code != PD_OK) printf("# process %d: %s: %s\n", (int)getpid(), pd_code_name(code), err.message);
  fflush(stdout);
  return code != PD_OK;
}

static void counter__eight_processes_lose_no_increment(void **state)
{
  (void)state;
  char folder[CRASH_PATH_MAX], uri[CRASH_URI_MAX];
  uint64_t increments = crash_count(INCREMENTS_SHORT, INCREMENTS_FULL), count, version;
  crash_scratch(folder);
  snprintf(uri, sizeof uri, "sqlite:%s/store", folder);
  fflush(stdout);
  for (int i = 0; i < PROCESSES; i++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(run_process(uri, increments));
  }
  int failed = 0;
  for (int i = 0; i < PROCESSES; i++) {
    int status = 0;
    assert_true(wait(&status) > 0);
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  assert_int_equal(failed, 0);
  pd_store *store = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", NULL, &store, &err) != PD_OK) fail_msg("%s", err.message);
  assert_int_equal(read_counter(store, &count, &version, &err), PD_OK);
  assert_int_equal(crash_verify(store, &err), PD_OK);
  assert_int_equal(pd_store_close(store, &err), PD_OK);
  assert_int_equal(count, PROCESSES * increments);
  assert_int_equal(version, PROCESSES * increments);
  crash_scratch_remove(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(counter__eight_processes_lose_no_increment)};
  return cmocka_run_group_tests_name("counter", tests, NULL, NULL);
}
