/*
 * retention_test.c: gc and erase killed before their n-th write, cut from power in it, out of disk, and with failing calls on the backend.
 * Whatever became of it: verify is clean, all that is kept is there, and doing it again ends it: what was to go is gone.
 */
#include "base/buf.h"
#include "crash/crash.h"
#include "support/fault_backend.h"
#include "support/power_vfs.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS_SHORT 3
#define ROUNDS_FULL 200
#define STRIDE_SHORT 9 /* of failing calls: on average half of this */
#define KEYS 30
#define GONE 500
#define COMMITS 400
#define CALLS_MAX 10000
#define WORD "xyzzy-the-secret-word" /* at the start of each value of key "secret" */
#define LIFE_SECONDS_MAX 120

/* What is kept, by where it is read. */
typedef struct kept {
  const char *at;
  uint64_t numbers[KEYS];
} kept;

static kept kepts[] = {{.at = "keep"}, {.at = "side"}, {.at = "main"}};
#define KEPT_COUNT (sizeof kepts / sizeof kepts[0])

static char scratch[CRASH_PATH_MAX], fresh[CRASH_URI_MAX], folder[CRASH_URI_MAX], uri[CRASH_URI_MAX + 64];

/* ---- the store ---- */

static void put_secret(pd_store *s, const char *ref, size_t size)
{
  char *bytes = malloc(size);
  pd_note note = {.ref = ref};
  assert_non_null(bytes);
  for (size_t i = 0; i < size; i++) bytes[i] = (char)crash_random(256);
  memcpy(bytes, WORD, strlen(WORD));
  assert_int_equal(pd_put(s, pd_text("secret"), (pd_bytes){bytes, size}, &note, NULL, NULL), PD_OK);
  free(bytes);
}

static void put_number(pd_store *s, kept *k, const char *ref, uint64_t number)
{
  char key[32];
  pd_buf value = {0};
  pd_note note = {.ref = ref};
  snprintf(key, sizeof key, "key-%llu", (unsigned long long)(number % KEYS));
  crash_value(number, &value);
  assert_int_equal(pd_put(s, pd_text(key), pd_buf_bytes(&value), &note, NULL, NULL), PD_OK);
  pd_buf_done(&value);
  k->numbers[number % KEYS] = number;
}

/* Refs that come and go: their names weigh so much that gc cuts twice (gc.h G8). */
static void put_gone(pd_store *s)
{
  char name[128];
  for (int i = 0; i < GONE; i++) {
    snprintf(name, sizeof name, "gone/%0100d", i);
    assert_int_equal(pd_fork(s, name, "main", NULL, NULL, NULL), PD_OK);
    assert_int_equal(pd_ref_delete(s, name, NULL, NULL), PD_OK);
  }
}

/* Secrets inline, in the bag and in pieces; a tag and a fork in the middle. */
static void build_store(void)
{
  kept *tag = &kepts[0], *side = &kepts[1], *head = &kepts[2];
  pd_store *s = NULL;
  pd_options options = {.flush_ms = 1000};
  snprintf(uri, sizeof uri, "sqlite:%s", fresh);
  assert_int_equal(pd_store_open(uri, "main", &options, &s, NULL), PD_OK);
  for (uint64_t i = 1; i <= COMMITS; i++) {
    put_number(s, head, "main", i);
    if (i % 50 == 7) put_secret(s, "main", i % 100 == 7 ? 60 : 20000);
    if (i == 200) {
      put_secret(s, "main", 150000);
      assert_int_equal(pd_tag_set(s, "keep", "main", false, NULL, NULL, NULL), PD_OK);
      assert_int_equal(pd_fork(s, "side", "main", NULL, NULL, NULL), PD_OK);
      put_gone(s);
      assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
      memcpy(tag->numbers, head->numbers, sizeof tag->numbers);
      memcpy(side->numbers, head->numbers, sizeof side->numbers);
    }
    if (i > 200 && i % 4 == 0) put_number(s, side, "side", COMMITS + i);
  }
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void check_kept(pd_store *s)
{
  pd_buf value = {0};
  pd_error err = {0};
  for (size_t k = 0; k < KEPT_COUNT; k++) {
    for (int i = 0; i < KEYS; i++) {
      uint64_t number = 0;
      char key[32];
      snprintf(key, sizeof key, "key-%d", i);
      if (pd_get(s, kepts[k].at, pd_text(key), &value, NULL, &err)) fail_msg("%s at %s is lost: %s", key, kepts[k].at, err.message);
      assert_true(crash_value_number(pd_buf_bytes(&value), &number));
      assert_int_equal(number, kepts[k].numbers[i]);
    }
  }
  pd_buf_done(&value);
  if (crash_verify(s, &err)) fail_msg("verify: %s", err.message);
}

/* ---- the works ---- */

typedef struct work {
  const char *name;
  pd_code (*run)(pd_store *s, pd_error *err);
  void (*check_gone)(pd_store *s);
} work;

static pd_code run_gc(pd_store *s, pd_error *err)
{
  return pd_gc(s, &(pd_gc_policy){.keep_last = 10, .keep_versions = 2}, NULL, err);
}

static void check_retired(pd_store *s)
{
  assert_int_equal(pd_get(s, "main~350", pd_text("key-1"), NULL, NULL, NULL), PD_RETIRED);
}

static pd_code run_clear(pd_store *s, pd_error *err)
{
  return pd_gc(s, &(pd_gc_policy){.keep_last = 1}, NULL, err);
}

static bool ignore_record(void *ctx, const pd_record *record)
{
  (void)ctx;
  (void)record;
  return true;
}

static void check_cleared(pd_store *s)
{
  char name[128];
  snprintf(name, sizeof name, "gone/%0100d", GONE / 2);
  check_retired(s);
  assert_int_equal(pd_log(s, &(pd_log_query){.ref = name}, ignore_record, NULL, NULL), PD_NOT_FOUND);
}

static pd_code run_erase(pd_store *s, pd_error *err)
{
  return pd_erase(s, pd_text("secret"), &(pd_erase_options){.everywhere = true}, NULL, err);
}

static void check_erased(pd_store *s)
{
  char command[CRASH_URI_MAX + 64];
  assert_int_equal(pd_get(s, "main", pd_text("secret"), NULL, NULL, NULL), PD_NOT_FOUND);
  snprintf(command, sizeof command, "grep -raqF -- '%s' '%s'", WORD, folder);
  if (system(command) == 0) fail_msg("bytes of an erased value are left in the files");
}

static const work gc_work = {"gc", run_gc, check_retired}, clear_work = {"clear", run_clear, check_cleared},
                  erase_work = {"erase", run_erase, check_erased};

/* After the end of a work, or of half of one. */
static void check_and_end(const work *w)
{
  pd_store *s = NULL;
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  if (pd_store_open(uri, "main", NULL, &s, &err)) fail_msg("does not open: %s", err.message);
  check_kept(s);
  if (w->run(s, &err)) fail_msg("%s again: %s", w->name, err.message);
  check_kept(s);
  w->check_gone(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* ---- a child that does not come to the end ---- */

typedef enum fate { FATE_KILL, FATE_CUT, FATE_FULL } fate;

/* Of all files: where the log of SQLite ends is decided by chance, somewhere between nothing and more than is needed. */
static void limit_files(uint64_t size_max)
{
  struct rlimit limit = {size_max, size_max};
  signal(SIGXFSZ, SIG_IGN); /* writing then fails, as on a full disk */
  if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(1);
}

/* Exit status 0: all was done; 3: it was stopped; 1: it failed by itself. */
static int work_until(const work *w, fate f, uint64_t after, uint64_t seed)
{
  pd_store *s = NULL;
  pd_error err = {0};
  power_vfs_install();
  snprintf(uri, sizeof uri, "sqlite:%s?vfs=powercut", folder);
  if (pd_store_open(uri, "main", NULL, &s, &err)) return 1;
  if (f == FATE_KILL) power_vfs_kill_after(after);
  if (f == FATE_CUT) power_vfs_cut_after(after, seed);
  if (f == FATE_FULL) limit_files(after);
  pd_code code = w->run(s, &err);
  pd_code close_code = pd_store_close(s, NULL);
  if (f == FATE_CUT && power_vfs_is_cut()) return 3;
  if (f == FATE_FULL && (code || close_code)) return code == PD_FULL || code == PD_STORAGE || !code ? 3 : 1;
  if (code) printf("# %s: %s\n", w->name, err.message);
  return code ? 1 : 0;
}

static bool stop_once(const work *w, fate f, uint64_t after_max)
{
  uint64_t after = 1 + crash_random(after_max), seed = crash_random(1u << 30);
  char lock[CRASH_URI_MAX + 16];
  int status = 0;
  assert_true(crash_copy(fresh, folder));
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(LIFE_SECONDS_MAX);
    _exit(work_until(w, f, after, seed));
  }
  assert_true(pid > 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  bool is_stopped = WIFSIGNALED(status) ? f == FATE_KILL && WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 3;
  printf("# %s, fate %d, after %llu, seed %llu: %s\n", w->name, (int)f, (unsigned long long)after, (unsigned long long)seed,
         is_stopped ? "stopped" : "done");
  if (!is_stopped && status != 0) fail_msg("%s failed by itself, status %d", w->name, status);
  snprintf(lock, sizeof lock, "%s/main.lock", folder);
  if (is_stopped && f == FATE_CUT) power_lock_file_tear(lock, NULL, seed);
  check_and_end(w);
  crash_remove(folder);
  return is_stopped;
}

/* How far there is to go: writes, or bytes of the largest file. */
static uint64_t measure(const work *w, fate f)
{
  char path[CRASH_URI_MAX + 16];
  struct stat st;
  pd_store *s = NULL;
  snprintf(path, sizeof path, "%s/main.db", fresh);
  assert_int_equal(stat(path, &st), 0);
  if (f == FATE_FULL) return (uint64_t)st.st_size;
  assert_true(crash_copy(fresh, folder));
  power_vfs_install();
  snprintf(uri, sizeof uri, "sqlite:%s?vfs=powercut", folder);
  assert_int_equal(pd_store_open(uri, "main", NULL, &s, NULL), PD_OK);
  uint64_t before = power_vfs_calls();
  assert_int_equal(w->run(s, NULL), PD_OK);
  uint64_t calls = power_vfs_calls() - before;
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  crash_remove(folder);
  return calls;
}

static void stop_often(const work *w, fate f)
{
  uint64_t wanted = crash_count(ROUNDS_SHORT, ROUNDS_FULL), stopped = 0, rounds = 0, far = measure(w, f);
  for (; stopped < wanted && rounds < 8 * wanted; rounds++) stopped += stop_once(w, f, far);
  printf("# %llu of %llu were stopped on their way of %llu\n", (unsigned long long)stopped, (unsigned long long)rounds,
         (unsigned long long)far);
  assert_int_equal(stopped, wanted);
}

/* ---- calls that fail ---- */

/* Whether the plan hit anything. */
static bool fail_once(const work *w, fault_plan plan)
{
  char faulty[sizeof uri + 16];
  pd_store *s = NULL;
  pd_error err = {0};
  assert_true(crash_copy(fresh, folder));
  snprintf(faulty, sizeof faulty, "fault:sqlite:%s", folder);
  fault_backend_plan((fault_plan){0});
  assert_int_equal(pd_store_open(faulty, "main", NULL, &s, NULL), PD_OK);
  fault_backend_plan(plan);
  pd_code code = w->run(s, &err);
  bool has_fired = fault_backend_has_fired();
  fault_backend_plan((fault_plan){0});
  if (code && !has_fired) fail_msg("%s without any fault: %s", w->name, err.message);
  if (code && !err.message[0]) fail_msg("%s failed at call %llu and did not say why", w->name, (unsigned long long)plan.at);
  if (!code) w->check_gone(s); /* it got over it: then all was done */
  check_kept(s);               /* this handle too has to know what is there */
  pd_code close_code = pd_store_close(s, NULL);
  if (plan.count != UINT64_MAX && close_code) fail_msg("does not close after call %llu failed", (unsigned long long)plan.at);
  check_and_end(w);
  crash_remove(folder);
  return has_fired;
}

static void fail_each_call(const work *w, fault_plan plan)
{
  uint64_t failed = 0;
  fault_backend_install();
  plan.at = CALLS_MAX;
  (void)fail_once(w, plan); /* counts, and fails nothing */
  for (plan.at = 1; plan.at < CALLS_MAX && fail_once(w, plan); plan.at += crash_count(1 + crash_random(STRIDE_SHORT), 1)) failed++;
  printf("# %s: %llu calls failed in turn, up to call %llu\n", w->name, (unsigned long long)failed, (unsigned long long)plan.at);
  assert_in_range(failed, 2, CALLS_MAX); /* else nothing was tested */
}

/* ---- the tests ---- */

#define STOP_TEST(what, fate_name, fate)                                                                                                   \
  static void what##__##fate_name##_it_leaves_a_sound_store(void **state)                                                                  \
  {                                                                                                                                        \
    (void)state;                                                                                                                           \
    stop_often(&what##_work, fate);                                                                                                        \
  }
#define FAULT_TEST(what, fault_name, ...)                                                                                                  \
  static void what##__##fault_name##_leaves_a_sound_store(void **state)                                                                    \
  {                                                                                                                                        \
    (void)state;                                                                                                                           \
    fail_each_call(&what##_work, (fault_plan){__VA_ARGS__});                                                                               \
  }

STOP_TEST(gc, killed, FATE_KILL)
STOP_TEST(gc, cut_from_power, FATE_CUT)
STOP_TEST(gc, out_of_disk, FATE_FULL)
STOP_TEST(clear, killed, FATE_KILL)
STOP_TEST(clear, cut_from_power, FATE_CUT)
STOP_TEST(erase, killed, FATE_KILL)
STOP_TEST(erase, cut_from_power, FATE_CUT)
STOP_TEST(erase, out_of_disk, FATE_FULL)
FAULT_TEST(gc, each_call_refused, .how = FAULT_BEFORE)
FAULT_TEST(gc, each_call_done_and_reported_as_failed, .how = FAULT_AFTER)
FAULT_TEST(gc, each_call_torn, .how = FAULT_TEAR, .code = PD_FULL)
FAULT_TEST(gc, everything_failing_from_some_call_on, .code = PD_FULL, .count = UINT64_MAX)
FAULT_TEST(clear, each_call_refused, .how = FAULT_BEFORE)
FAULT_TEST(clear, each_call_done_and_reported_as_failed, .how = FAULT_AFTER)
FAULT_TEST(erase, each_call_refused, .how = FAULT_BEFORE)
FAULT_TEST(erase, each_call_done_and_reported_as_failed, .how = FAULT_AFTER)
FAULT_TEST(erase, each_call_torn, .how = FAULT_TEAR, .code = PD_FULL)
FAULT_TEST(erase, everything_failing_from_some_call_on, .code = PD_FULL, .count = UINT64_MAX)

static int set_up(void **state)
{
  (void)state;
  crash_seed();
  crash_scratch(scratch);
  snprintf(fresh, sizeof fresh, "%s/fresh", scratch);
  snprintf(folder, sizeof folder, "%s/copy", scratch);
  build_store();
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  crash_scratch_remove(scratch);
  return 0;
}

/* A test that failed leaves its copy. */
static int begin(void **state)
{
  (void)state;
  crash_remove(folder);
  return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(gc__killed_it_leaves_a_sound_store),
    TEST(gc__cut_from_power_it_leaves_a_sound_store),
    TEST(gc__out_of_disk_it_leaves_a_sound_store),
    TEST(clear__killed_it_leaves_a_sound_store),
    TEST(clear__cut_from_power_it_leaves_a_sound_store),
    TEST(erase__killed_it_leaves_a_sound_store),
    TEST(erase__cut_from_power_it_leaves_a_sound_store),
    TEST(erase__out_of_disk_it_leaves_a_sound_store),
    TEST(gc__each_call_refused_leaves_a_sound_store),
    TEST(gc__each_call_done_and_reported_as_failed_leaves_a_sound_store),
    TEST(gc__each_call_torn_leaves_a_sound_store),
    TEST(gc__everything_failing_from_some_call_on_leaves_a_sound_store),
    TEST(clear__each_call_refused_leaves_a_sound_store),
    TEST(clear__each_call_done_and_reported_as_failed_leaves_a_sound_store),
    TEST(erase__each_call_refused_leaves_a_sound_store),
    TEST(erase__each_call_done_and_reported_as_failed_leaves_a_sound_store),
    TEST(erase__each_call_torn_leaves_a_sound_store),
    TEST(erase__everything_failing_from_some_call_on_leaves_a_sound_store),
  };
  return cmocka_run_group_tests_name("retention", tests, set_up, tear_down);
}
