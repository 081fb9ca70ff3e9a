/*
 * repair_test.c: repair killed (SIGKILL before its n-th write) and cut from power (in its n-th write). The store has lost and damaged
 * derived data; whatever became of the repair, the next one brings it back whole: verify is clean, every value is there.
 */
#include "base/buf.h"
#include "crash/crash.h"
#include "support/power_vfs.h"

#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS_SHORT 8
#define ROUNDS_FULL 200
#define KEYS 120
#define COMMITS 1300
#define CALLS_MAX 60
#define LONG_PATH (CRASH_URI_MAX + 64)

static void build_store(const char *folder)
{
  char uri[LONG_PATH], key[32];
  pd_store *s = NULL;
  pd_options options = {.flush_ms = 1000};
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  assert_int_equal(pd_store_open(uri, "main", &options, &s, NULL), PD_OK);
  pd_buf value = {0};
  for (uint64_t i = 1; i <= COMMITS; i++) {
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)(i % KEYS));
    crash_value(i, &value);
    assert_int_equal(pd_put(s, pd_text(key), pd_buf_bytes(&value), NULL, NULL, NULL), PD_OK);
    if (i == COMMITS / 2) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  }
  pd_buf_done(&value);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* Some derived blobs go, some rot; what lies in the bag as a value (over 16 KiB) is left alone. */
static void damage(const char *folder)
{
  char path[LONG_PATH], sql[300];
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/main.db", folder);
  snprintf(sql, sizeof sql,
           "DELETE FROM bag WHERE length(data) < 16000 AND n %% 3 = %llu;"
           "UPDATE bag SET data = x'ff' || substr(data, 2) WHERE length(data) < 16000 AND n %% 2 = %llu",
           (unsigned long long)crash_random(3), (unsigned long long)crash_random(2));
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

/* Everything as it was written. */
static void check_whole(const char *folder)
{
  char uri[LONG_PATH], key[32];
  pd_store *s = NULL;
  pd_error err = {0};
  pd_repair_report report;
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  if (pd_repair(uri, "main", NULL, &report, &err)) fail_msg("the next repair: %s", err.message);
  if (pd_store_open(uri, "main", NULL, &s, &err)) fail_msg("does not open after the repair: %s", err.message);
  if (crash_verify(s, &err)) fail_msg("verify after the repair: %s", err.message);
  pd_buf value = {0};
  for (uint64_t i = COMMITS - KEYS + 1; i <= COMMITS; i++) {
    uint64_t number = 0;
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)(i % KEYS));
    if (pd_get(s, NULL, pd_text(key), &value, NULL, &err)) fail_msg("%s: %s", key, err.message);
    assert_true(crash_value_number(pd_buf_bytes(&value), &number));
    assert_int_equal(number, i);
  }
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* In a child: repair until it is stopped. 0: it ended by itself; 1: it failed without a reason; 3: the power went. */
static int repair_until(const char *folder, uint64_t after, bool is_kill, uint64_t seed)
{
  char uri[LONG_PATH];
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s?vfs=powercut", folder);
  power_vfs_install();
  if (is_kill)
    power_vfs_kill_after(after);
  else
    power_vfs_cut_after(after, seed);
  pd_code code = pd_repair(uri, "main", NULL, NULL, &err);
  if (!is_kill && power_vfs_is_cut()) return 3;
  if (code) printf("# repair: %s\n", err.message);
  return code ? 1 : 0;
}

static bool stop_once(const char *fresh, const char *folder, bool is_kill)
{
  uint64_t after = 1 + crash_random(CALLS_MAX), seed = crash_random(1u << 30);
  int status = 0;
  assert_true(crash_copy(fresh, folder));
  damage(folder);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) _exit(repair_until(folder, after, is_kill, seed));
  assert_true(pid > 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  bool was_stopped = is_kill ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 3;
  if (!was_stopped && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
    fail_msg("the repair failed by itself (after %llu, seed %llu, status %d)", (unsigned long long)after, (unsigned long long)seed, status);
  check_whole(folder);
  crash_remove(folder);
  return was_stopped;
}

static void stop_often(bool is_kill)
{
  char scratch[CRASH_PATH_MAX], fresh[CRASH_URI_MAX], folder[CRASH_URI_MAX];
  uint64_t wanted = crash_count(ROUNDS_SHORT, ROUNDS_FULL), stopped = 0, rounds = 0;
  crash_seed();
  crash_scratch(scratch);
  snprintf(fresh, sizeof fresh, "%s/fresh", scratch);
  build_store(fresh);
  for (; stopped < wanted && rounds < 8 * wanted; rounds++) {
    snprintf(folder, sizeof folder, "%s/r%llu", scratch, (unsigned long long)rounds);
    stopped += stop_once(fresh, folder, is_kill);
  }
  printf("# %llu repairs, %llu stopped\n", (unsigned long long)rounds, (unsigned long long)stopped);
  crash_scratch_remove(scratch);
  assert_int_equal(stopped, wanted);
}

static void repair__killed_it_leaves_a_store_that_the_next_one_mends(void **state)
{
  (void)state;
  stop_often(true);
}

static void repair__cut_from_power_it_leaves_a_store_that_the_next_one_mends(void **state)
{
  (void)state;
  stop_often(false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(repair__killed_it_leaves_a_store_that_the_next_one_mends),
                                     cmocka_unit_test(repair__cut_from_power_it_leaves_a_store_that_the_next_one_mends)};
  return cmocka_run_group_tests_name("repair", tests, NULL, NULL);
}
