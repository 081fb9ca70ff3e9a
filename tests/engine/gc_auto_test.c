/* gc_auto_test.c: src/engine/gc_auto.c: off by default; on, a store that is written to for long stays small and readable. */
#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <perdure/perdure.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char *folder;

static void expect_ok(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s: %s", pd_code_name(code), err->message);
}

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *s = NULL;
  pd_error err;
  pd_options options = {.flush_ms = flush_ms};
  expect_ok(pd_store_open(uri, "main", &options, &s, &err), &err);
  return s;
}

static void set(pd_store *s, const char *name, const char *value)
{
  pd_error err;
  expect_ok(pd_setting_set(s, name, pd_text(value), NULL, &err), &err);
}

static void put(pd_store *s, int number, size_t size)
{
  pd_error err;
  char key[32], value[1024];
  snprintf(key, sizeof key, "key/%d", number % 50);
  memset(value, 'a' + number % 26, sizeof value);
  int head = snprintf(value, sizeof value, "number %d ", number);
  value[head] = '.';
  expect_ok(pd_put(s, pd_text(key), (pd_bytes){value, size}, NULL, NULL, &err), &err);
}

static void fill(pd_store *s, int from, int to)
{
  for (int i = from; i < to; i++) put(s, i, 200);
}

static pd_gc_info status_of(pd_store *s)
{
  pd_gc_info info;
  pd_error err;
  expect_ok(pd_gc_status(s, &info, &err), &err);
  return info;
}

static uint64_t payload_of(pd_store *s)
{
  pd_stats stats;
  pd_error err;
  expect_ok(pd_store_stats(s, &stats, &err), &err);
  return stats.log_bytes + stats.bag_bytes;
}

/* It runs on its own thread, some time after it became due: write until it did. On a machine that is busy with other things, a thread that
 * is nice to others may have to wait long. */
static void write_until_cut(pd_store *s, int *number, uint64_t beyond)
{
  for (int i = 0; i < 400 && status_of(s).cut <= beyond; i++, *number += 500) {
    fill(s, *number, *number + 500);
    for (int wait = 0; wait < (i < 100 ? 2 : 300) && status_of(s).cut <= beyond; wait++) usleep(1000);
  }
  assert_true(status_of(s).cut > beyond);
}

static void check_long_life(const char *uri, uint32_t flush_ms)
{
  pd_store *s = open_store(uri, flush_ms);
  pd_error err;
  pd_commit tagged, same;
  pd_buf value = {0};
  put(s, 0, 200);
  expect_ok(pd_tag_set(s, "early", NULL, false, NULL, &tagged, &err), &err);
  fill(s, 1, 6000);
  assert_false(status_of(s).is_auto); /* off by default */
  assert_int_equal(status_of(s).cut, 0);
  set(s, PD_SETTING_GC_AUTO, "on");
  set(s, PD_SETTING_GC_KEEP_LAST, "20");
  set(s, PD_SETTING_GC_KEEP_VERSIONS, "5");
  int number = 6000;
  for (uint64_t beyond = 5000, round = 0; round < 4; round++, beyond = status_of(s).cut + 4000) write_until_cut(s, &number, beyond);
  fill(s, number, 30000);
  for (int i = 0; i < 12000 && status_of(s).auto_runs < 4; i++) usleep(10000); /* the last may be at it */
  assert_true(status_of(s).auto_runs >= 4);
  assert_string_equal(status_of(s).auto_trouble, "");
  expect_ok(pd_store_flush(s, &err), &err);
  assert_true(payload_of(s) < (uint64_t)(number > 30000 ? number : 30000) * 200); /* records have more than 300 bytes */
  expect_ok(pd_get(s, "early", pd_text("key/0"), &value, NULL, &err), &err);
  assert_memory_equal(value.data, "number 0 ", 9);
  expect_ok(pd_resolve(s, "early", &same, &err), &err);
  assert_true(pd_id_equal(&same.id, &tagged.id));
  expect_ok(pd_get(s, "main~19", pd_text("key/7"), &value, NULL, &err), &err);
  pd_entry entry;
  expect_ok(pd_get(s, NULL, pd_text("key/7"), NULL, &entry, &err), &err);
  for (uint64_t back = 0; back < 5; back++)
    expect_ok(pd_get_version(s, NULL, pd_text("key/7"), entry.version - back, &value, NULL, &err), &err);
  expect_ok(pd_verify(s, NULL, NULL, &err), &err);
  pd_buf_done(&value);
  expect_ok(pd_store_close(s, &err), &err);
}

static void gc_auto__keeps_a_store_bounded_and_what_is_kept_readable(void **state)
{
  (void)state;
  char uri[160];
  check_long_life("memory:auto", 0);
  snprintf(uri, sizeof uri, "sqlite:%s/long", folder);
  check_long_life(uri, 20);
}

static void gc_auto__is_off_unless_it_is_set_and_settings_are_checked(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:settings", 0);
  pd_error err;
  static const struct {
    const char *name, *value;
  } bad[] = {{"gc.auto", "yes"},
             {"gc.auto", ""},
             {"gc.keep-last", "0"},
             {"gc.keep-last", "-1"},
             {"gc.keep-versions", "1.5"},
             {"gc.keep-days", "7 days"},
             {"gc.keep-days", "9999999999"},
             {"gc.keepdays", "7"},
             {"gc.keep-refs", "a  b"},
             {"gc.keep-refs", "../x"},
             {"gc.", "on"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(pd_setting_set(s, bad[i].name, pd_text(bad[i].value), NULL, &err), PD_INVALID);
    assert_non_null(strstr(err.message, bad[i].name));
  }
  bool did = true;
  fill(s, 0, 4500);
  expect_ok(pd_gc_auto(s, &did, NULL, &err), &err);
  assert_false(did);
  set(s, "gc.auto", "off");
  expect_ok(pd_gc_auto(s, &did, NULL, &err), &err);
  assert_false(did);
  assert_int_equal(status_of(s).cut, 0);
  pd_store_close(s, NULL);
}

static void gc_auto__by_hand_runs_once_when_it_is_due(void **state)
{
  (void)state;
  char uri[160];
  snprintf(uri, sizeof uri, "sqlite:%s/hand", folder);
  pd_store *s = open_store(uri, 1000);
  pd_error err;
  bool did;
  fill(s, 0, 5000);
  pd_store_close(s, NULL);
  s = open_store(uri, 0);
  set(s, "gc.auto", "on"); /* its own commit is one of few: no thread looks */
  for (int i = 0; i < 3; i++) {
    pd_gc_report report = {0};
    expect_ok(pd_gc_auto(s, &did, &report, &err), &err);
    assert_int_equal(did, i == 0);
    if (!i) assert_true(report.retired > 4000);
    pd_store_close(s, NULL);
    s = open_store(uri, 0);
  }
  expect_ok(pd_verify(s, NULL, NULL, &err), &err);
  pd_store_close(s, NULL);
}

static void gc_auto__trouble_is_remembered_and_ends_with_the_next_success(void **state)
{
  (void)state;
  fault_backend_install();
  pd_store *s = open_store("fault:memory:trouble", 0), *other;
  pd_error err;
  bool did;
  fill(s, 0, 4500);
  fault_backend_plan((fault_plan){.at = 1, .count = UINT64_MAX, .code = PD_FULL, .ops = FAULT_BAG_MARK});
  set(s, "gc.auto", "on");
  for (int i = 0; i < 30000 && !status_of(s).auto_trouble[0]; i++) { /* the thread that the setting started, or we */
    pd_code code = pd_gc_auto(s, &did, NULL, &err);
    assert_true(code == PD_OK || code == PD_FULL);
    usleep(2000);
  }
  assert_true(status_of(s).auto_trouble[0] != 0);
  assert_true(status_of(s).auto_ms > 0);
  other = open_store("fault:memory:trouble", 0);
  assert_non_null(strstr(status_of(other).auto_trouble, pd_code_name(PD_FULL))); /* for doctor, which is another process */
  pd_store_close(other, NULL);
  fault_backend_plan((fault_plan){0});
  put(s, 1, 100); /* writing goes on as ever */
  for (int i = 0; i < 30000 && !status_of(s).auto_runs; i++) {
    expect_ok(pd_gc_auto(s, &did, NULL, &err), &err);
    usleep(2000);
  }
  assert_string_equal(status_of(s).auto_trouble, "");
  assert_true(status_of(s).cut > 4000);
  pd_store_close(s, NULL);
}

static int64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void gc_auto__gives_up_when_the_store_is_closed(void **state)
{
  (void)state;
  char uri[160];
  pd_error err;
  for (int i = 0; i < 8; i++) {
    snprintf(uri, sizeof uri, "sqlite:%s/close%d", folder, i);
    pd_store *s = open_store(uri, 1000);
    fill(s, 0, 5000);
    set(s, "gc.auto", "on");
    fill(s, 0, 100);
    usleep((useconds_t)(i * 3000));
    int64_t start = now_ms();
    expect_ok(pd_store_close(s, &err), &err);
    assert_true(now_ms() - start < 120000); /* no judge of speed, only of waiting for ever */
    s = open_store(uri, 0);
    expect_ok(pd_verify(s, NULL, NULL, &err), &err);
    pd_store_close(s, NULL);
  }
}

static void write_until_killed(const char *uri, int from)
{
  pd_store *s = open_store(uri, 5);
  for (int i = from;; i++) put(s, i, 200);
}

static void gc_auto__killed_at_any_moment_leaves_a_sound_store(void **state)
{
  (void)state;
  char uri[160];
  pd_error err;
  snprintf(uri, sizeof uri, "sqlite:%s/kill", folder);
  pd_store *s = open_store(uri, 1000);
  put(s, 0, 200);
  expect_ok(pd_tag_set(s, "early", NULL, false, NULL, NULL, &err), &err);
  fill(s, 1, 4000);
  set(s, "gc.auto", "on");
  set(s, "gc.keep-last", "10");
  pd_store_close(s, NULL);
  uint64_t cut = 0;
  for (int i = 0; i < 8 || (i < 100 && cut < 1000); i++) {
    pid_t child = fork();
    if (!child) write_until_killed(uri, i);
    usleep((useconds_t)(60000 + i * 37000));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    pd_buf value = {0};
    s = open_store(uri, 0);
    expect_ok(pd_verify(s, NULL, NULL, &err), &err);
    expect_ok(pd_get(s, "early", pd_text("key/0"), &value, NULL, &err), &err);
    assert_memory_equal(value.data, "number 0 ", 9);
    cut = status_of(s).cut;
    pd_buf_done(&value);
    pd_store_close(s, NULL);
  }
  assert_true(cut > 1000); /* it did run */
}

static int make_folder(void **state)
{
  (void)state;
  folder = temp_folder_new();
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  temp_folder_free(folder);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(gc_auto__is_off_unless_it_is_set_and_settings_are_checked),
    cmocka_unit_test(gc_auto__by_hand_runs_once_when_it_is_due),
    cmocka_unit_test(gc_auto__keeps_a_store_bounded_and_what_is_kept_readable),
    cmocka_unit_test(gc_auto__trouble_is_remembered_and_ends_with_the_next_success),
    cmocka_unit_test(gc_auto__gives_up_when_the_store_is_closed),
    cmocka_unit_test(gc_auto__killed_at_any_moment_leaves_a_sound_store),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
