/*
 * power_test.c: simulated power cuts (support/power_vfs.h). A child writes through a VFS that loses power in the middle of its n-th
 * write: what was not synced is kept, dropped or torn. The store is opened again: everything acknowledged is there, verify is clean.
 */
#include "crash/crash.h"
#include "crash/writer.h"
#include "support/power_vfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CUTS_SHORT 10
#define CUTS_FULL 200
#define CUTS_PER_STORE 10
#define WRITES_MAX 60
#define CALLS_MAX 500
#define LIFE_SECONDS_MAX 120

typedef struct cut {
  uint64_t after, seed;
} cut;

/* In the child: write until the lights go out. Status 0: they did; 2: they did not; the rest is a fault. */
static int write_in_the_dark(const writer_plan *plan, cut c)
{
  power_vfs_install();
  power_vfs_cut_after(c.after, c.seed);
  int status = writer_run(plan);
  if (!power_vfs_is_cut()) {
    power_vfs_cut_after(0, 0);
    return status ? 1 : 2;
  }
  return 0;
}

static int run_child(const char *folder, writer_ledger *ledger, cut c, uint64_t number_from)
{
  char uri[CRASH_URI_MAX];
  int ends[2], status = 0;
  snprintf(uri, sizeof uri, "sqlite:%s?vfs=powercut", folder);
  if (pipe(ends) != 0) fail_msg("no pipe");
  writer_plan plan = {.uri = uri, .seed = c.seed, .number_from = number_from, .pipe = ends[1], .is_doomed = true, .stop_after = WRITES_MAX};
  plan.thread_count = (unsigned)(1 + crash_random(WRITER_THREADS));
  plan.flush_ms = crash_random(5) == 0 ? 5 : 0;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    alarm(LIFE_SECONDS_MAX); /* a store without power must give up, not wait for it */
    _exit(write_in_the_dark(&plan, c));
  }
  close(ends[1]);
  assert_true(pid > 0);
  writer_ledger_read(ledger, ends[0], true);
  close(ends[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status)) fail_msg("the writer died of signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

/* One life up to a cut; whether there was one. */
static bool cut_once(const char *folder, writer_ledger *ledger, uint64_t number_from)
{
  cut c = {.after = 1 + crash_random(CALLS_MAX), .seed = crash_random(1u << 30)};
  char lock[CRASH_URI_MAX], uri[CRASH_URI_MAX];
  uint8_t older[4096];
  size_t before = ledger->count;
  snprintf(lock, sizeof lock, "%s/main.lock", folder);
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  bool has_older = power_lock_file_save(lock, older);
  int status = run_child(folder, ledger, c, number_from);
  if (status == 1) fail_msg("the writer failed before the power did");
  if (status == 0) power_lock_file_tear(lock, has_older ? older : NULL, c.seed);

  pd_store *store = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", NULL, &store, &err) != PD_OK)
    fail_msg("does not open after a cut (after %llu, seed %llu): %s", (unsigned long long)c.after, (unsigned long long)c.seed, err.message);
  bool is_right = writer_ledger_check(ledger, store, before);
  pd_code code = crash_verify(store, &err);
  if (pd_store_close(store, NULL) != PD_OK) fail_msg("does not close");
  if (!is_right || code != PD_OK)
    fail_msg("cut after %llu, seed %llu: %s", (unsigned long long)c.after, (unsigned long long)c.seed, code ? err.message : "");
  return status == 0;
}

static void power__no_acknowledged_write_is_lost(void **state)
{
  (void)state;
  char folder[CRASH_PATH_MAX];
  uint64_t wanted = crash_count(CUTS_SHORT, CUTS_FULL), cuts = 0, lives = 0, reports = 0;
  crash_seed();
  crash_scratch(folder);
  while (cuts < wanted && lives < 4 * wanted) {
    writer_ledger ledger = {0};
    char store[CRASH_PATH_MAX + 32];
    snprintf(store, sizeof store, "%s/s%llu", folder, (unsigned long long)lives);
    for (int i = 0; i < CUTS_PER_STORE && cuts < wanted; i++, lives++) cuts += cut_once(store, &ledger, 1 + lives * 1000000);
    reports += ledger.count;
    writer_ledger_done(&ledger);
  }
  printf("# %llu cuts in %llu lives, %llu acknowledged writes\n", (unsigned long long)cuts, (unsigned long long)lives,
         (unsigned long long)reports);
  crash_scratch_remove(folder);
  assert_int_equal(cuts, wanted);
  assert_true(reports > wanted * 5); /* else nothing was tested */
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(power__no_acknowledged_write_is_lost)};
  return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
