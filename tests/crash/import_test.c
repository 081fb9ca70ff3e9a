/*
 * import_test.c: an import that is killed, or loses power, before its n-th write. The store is opened again: verify is clean, the refs are
 * as before or as after, and importing once more completes it.
 */
#include "crash/crash.h"
#include "support/power_vfs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LIVES_SHORT 8
#define LIVES_FULL 200
#define CALLS_MAX 120
#define COMMITS 60

static pd_id main_head, side_head;

static void put(pd_store *s, uint64_t number, const char *ref)
{
  char key[32];
  pd_buf value = {0};
  pd_note note = {.ref = ref};
  snprintf(key, sizeof key, "k%llu", (unsigned long long)(number % 12));
  crash_value(number, &value);
  assert_int_equal(pd_put(s, pd_text(key), (pd_bytes){value.data, value.size}, &note, NULL, NULL), PD_OK);
  pd_buf_done(&value);
}

static void make_bundle(const char *path)
{
  pd_store *s = NULL;
  pd_commit commit;
  assert_int_equal(pd_store_open("memory:", "main", NULL, &s, NULL), PD_OK);
  for (uint64_t i = 0; i < COMMITS; i++) {
    if (i == COMMITS / 2) assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
    put(s, i, i > COMMITS / 2 && i % 3 == 0 ? "side" : "main");
  }
  assert_int_equal(pd_resolve(s, "main", &commit, NULL), PD_OK);
  main_head = commit.id;
  assert_int_equal(pd_resolve(s, "side", &commit, NULL), PD_OK);
  side_head = commit.id;
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(pd_export(s, fd, &(pd_export_options){.is_all = true}, NULL, NULL), PD_OK);
  close(fd);
  pd_store_close(s, NULL);
}

/* In the child. Status 0: the power went; 2: all was done; 1: a failure that nobody made. */
static int import_once(const char *folder, const char *bundle, uint64_t after, uint64_t seed, bool is_cut)
{
  char uri[CRASH_URI_MAX];
  pd_store *s = NULL;
  power_vfs_install();
  snprintf(uri, sizeof uri, "sqlite:%s?vfs=powercut", folder);
  int fd = open(bundle, O_RDONLY | O_CLOEXEC);
  pd_code code = pd_store_open(uri, "main", NULL, &s, NULL);
  if (code || fd < 0) return 1;
  if (is_cut)
    power_vfs_cut_after(after, seed);
  else
    power_vfs_kill_after(after);
  code = pd_import(s, fd, NULL, NULL, NULL);
  pd_store_close(s, NULL);
  if (power_vfs_is_cut()) return 0;
  return code ? 1 : 2;
}

static int run_child(const char *folder, const char *bundle, uint64_t after, uint64_t seed, bool is_cut)
{
  int status = 0;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(120);
    _exit(import_once(folder, bundle, after, seed, is_cut));
  }
  assert_true(pid > 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !is_cut) return 0;
  if (!WIFEXITED(status)) fail_msg("the import died of signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

static void check_refs(pd_store *s, bool must_be_there, uint64_t after)
{
  pd_ref main_ref, side_ref;
  assert_int_equal(pd_ref_get(s, "main", &main_ref, NULL), PD_OK);
  bool has_side = pd_ref_get(s, "side", &side_ref, NULL) == PD_OK;
  bool is_after = has_side && pd_id_equal(&main_ref.commit.id, &main_head) && pd_id_equal(&side_ref.commit.id, &side_head);
  bool is_before = !has_side && !main_ref.commit.seq;
  if (!is_after && (must_be_there || !is_before))
    fail_msg("after %llu calls: the refs are neither as before nor as after", (unsigned long long)after);
}

/* One life; whether it was cut short. */
static bool live(const char *folder, const char *bundle, bool is_cut)
{
  uint64_t after = 1 + crash_random(CALLS_MAX), seed = crash_random(1u << 30);
  char lock[CRASH_URI_MAX], uri[CRASH_URI_MAX];
  pd_store *s = NULL;
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  snprintf(lock, sizeof lock, "%s/main.lock", folder);
  assert_int_equal(pd_store_open(uri, "main", NULL, &s, NULL), PD_OK); /* the empty store is there before */
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  int status = run_child(folder, bundle, after, seed, is_cut);
  if (status == 1) fail_msg("the import failed by itself");
  if (is_cut && status == 0) power_lock_file_tear(lock, NULL, seed);
  if (pd_store_open(uri, "main", NULL, &s, &err)) fail_msg("does not open (after %llu): %s", (unsigned long long)after, err.message);
  check_refs(s, status == 2, after);
  if (crash_verify(s, &err)) fail_msg("verify (after %llu): %s", (unsigned long long)after, err.message);
  int fd = open(bundle, O_RDONLY | O_CLOEXEC);
  if (pd_import(s, fd, NULL, NULL, &err)) fail_msg("again (after %llu): %s", (unsigned long long)after, err.message);
  close(fd);
  check_refs(s, true, after);
  if (crash_verify(s, &err)) fail_msg("verify at the end (after %llu): %s", (unsigned long long)after, err.message);
  pd_store_close(s, NULL);
  return status == 0;
}

static void die_often(bool is_cut)
{
  char folder[CRASH_PATH_MAX], home[CRASH_PATH_MAX + 32], bundle[CRASH_PATH_MAX + 32];
  uint64_t wanted = crash_count(LIVES_SHORT, LIVES_FULL), ended = 0, lives = 0;
  crash_seed();
  crash_scratch(folder);
  snprintf(bundle, sizeof bundle, "%s/bundle", folder);
  make_bundle(bundle);
  for (; ended < wanted && lives < 20 * wanted; lives++) {
    snprintf(home, sizeof home, "%s/h%llu", folder, (unsigned long long)lives);
    ended += live(home, bundle, is_cut);
    crash_remove(home);
  }
  printf("# %llu of %llu imports were %s\n", (unsigned long long)ended, (unsigned long long)lives, is_cut ? "cut from power" : "killed");
  crash_scratch_remove(folder);
  assert_int_equal(ended, wanted);
}

static void import__killed_leaves_refs_as_before_or_as_after(void **state)
{
  (void)state;
  die_often(false);
}

static void import__cut_from_power_leaves_refs_as_before_or_as_after(void **state)
{
  (void)state;
  die_often(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(import__killed_leaves_refs_as_before_or_as_after),
    cmocka_unit_test(import__cut_from_power_leaves_refs_as_before_or_as_after),
  };
  return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
