/*
 * serve_test.c: SIGKILL of `perdure serve` under 32 clients that write and 4 that watch, again and again on one home. What was
 * acknowledged is there, what was not is there whole or not at all, and who watches misses nothing and sees nothing twice (fleet.h).
 */
#include "base/clock.h"
#include "crash/crash.h"
#include "crash/fleet.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define KILLS_SHORT 6
#define KILLS_FULL 100
#define LIFE_MS_MAX 250
#define WAIT_MS_MAX 60000
#define KILLED_STATUS (256 + SIGKILL)

static void pause_ms(uint64_t ms)
{
  nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* Until one more write was acknowledged. */
static void wait_for_a_write(fleet *f)
{
  unsigned long long before = atomic_load(&f->acknowledged);
  int64_t end_ms = pd_clock_monotonic_ms() + WAIT_MS_MAX;
  while (atomic_load(&f->acknowledged) == before && !atomic_load(&f->failures)) {
    if (pd_clock_monotonic_ms() > end_ms) fail_msg("no write was acknowledged within %d ms", WAIT_MS_MAX);
    pause_ms(1);
  }
}

/* One life: mostly under full load, sometimes while the clients are still coming. */
static void live_and_die(fleet *f)
{
  fleet_up(f);
  if (crash_random(5)) wait_for_a_write(f);
  pause_ms(crash_random(LIFE_MS_MAX));
  kill(f->server->pid, SIGKILL);
  assert_int_equal(served_wait(f->server), KILLED_STATUS);
  fleet_down(f);
  served_again(f->server);
}

static void verify_home(const served *server)
{
  static const char *const stores[] = {"shared", "main"};
  for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
    char uri[CRASH_URI_MAX];
    pd_store *store = NULL;
    pd_error err = {0};
    snprintf(uri, sizeof uri, "sqlite:%s/home", server->folder);
    if (pd_store_open(uri, stores[i], NULL, &store, &err)) fail_msg("%s does not open: %s", stores[i], err.message);
    pd_code code = crash_verify(store, &err);
    pd_store_close(store, NULL);
    if (code) fail_msg("verify of %s: %s", stores[i], err.message);
  }
}

/* Enough was under way when it was killed. */
static bool is_tested(fleet *f, uint64_t kills)
{
  uint64_t resumes = 0;
  for (unsigned i = 0; i < FLEET_WATCHERS; i++) resumes += atomic_load(&f->watchers[i].resumes);
  return atomic_load(&f->acknowledged) > kills * FLEET_WRITERS && resumes > kills;
}

static void serve__a_kill_under_load_loses_no_write_and_no_event(void **state)
{
  static const char *const args[] = {"--no-auth", "--log-level", "error", NULL};
  static fleet f;
  uint64_t wanted = crash_count(KILLS_SHORT, KILLS_FULL), kills = 0, resumes = 0;
  (void)state;
  crash_seed();
  f.server = served_start(args);
  fleet_start(&f);
  for (; !crash_is_enough(kills, wanted, is_tested(&f, wanted)) && !atomic_load(&f.failures); kills++) live_and_die(&f);
  fleet_up(&f);
  if (!atomic_load(&f.failures)) wait_for_a_write(&f);
  fleet_end(&f, WAIT_MS_MAX);
  assert_int_equal(served_stop(f.server), 0);
  for (unsigned i = 0; i < FLEET_WATCHERS; i++) {
    pthread_join(f.watchers[i].thread, NULL);
    resumes += atomic_load(&f.watchers[i].resumes);
  }
  printf("# %llu kills, %llu acknowledged writes, %llu watches resumed\n", (unsigned long long)kills,
         (unsigned long long)atomic_load(&f.acknowledged), (unsigned long long)resumes);
  assert_int_equal(atomic_load(&f.failures), 0);
  verify_home(f.server);
  served_free(f.server);
  assert_true(is_tested(&f, wanted));
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(serve__a_kill_under_load_loses_no_write_and_no_event)};
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
