/*
 * kill_test.c: SIGKILL at random moments. A child writes with several threads and reports what was acknowledged; it is killed; the store
 * is opened again: everything reported is there and verify is clean. One store lives through many kills.
 */
#include "base/clock.h"
#include "crash/crash.h"
#include "crash/writer.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KILLS_SHORT 10
#define KILLS_FULL 200
#define KILLS_PER_STORE 20
#define LIFE_MS_MAX 120
#define WAIT_MS_MAX 60000

typedef struct life {
  writer_ledger ledger;
  char uri[CRASH_URI_MAX];
  uint64_t number_from;
  uint64_t silent; /* kills before the first report */
} life;

static pid_t start_writer(life *l, int *out_pipe)
{
  int ends[2];
  if (pipe(ends) != 0) fail_msg("no pipe");
  writer_plan plan = {.uri = l->uri, .seed = crash_random(1000000), .number_from = l->number_from, .pipe = ends[1]};
  plan.thread_count = (unsigned)(1 + crash_random(WRITER_THREADS));
  plan.flush_ms = crash_random(5) == 0 ? 5 : 0;
  l->number_from += 1000000;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    _exit(writer_run(&plan));
  }
  close(ends[1]);
  *out_pipe = ends[0];
  return pid;
}

/* Read reports until the time is over; the clock starts with the first report unless `is_blind`. */
static void let_live(life *l, int pipe, int64_t life_ms, bool is_blind)
{
  size_t before = l->ledger.count;
  int64_t start = pd_clock_monotonic_ms(), end = start + (is_blind ? life_ms : WAIT_MS_MAX);
  for (;;) {
    int64_t left = end - pd_clock_monotonic_ms();
    struct pollfd wait = {.fd = pipe, .events = POLLIN};
    if (left <= 0 || poll(&wait, 1, (int)left) < 0) return;
    bool was_silent = l->ledger.count == before;
    if (wait.revents && !writer_ledger_read(&l->ledger, pipe, false)) return;
    if (was_silent && l->ledger.count > before && !is_blind) end = pd_clock_monotonic_ms() + life_ms;
  }
}

static void kill_once(life *l)
{
  int pipe = -1, status = 0;
  size_t before = l->ledger.count;
  pid_t pid = start_writer(l, &pipe);
  assert_true(pid > 0);
  let_live(l, pipe, (int64_t)crash_random(LIFE_MS_MAX), crash_random(4) == 0);
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  writer_ledger_read(&l->ledger, pipe, true);
  close(pipe);
  if (WIFEXITED(status)) fail_msg("the writer ended by itself with status %d", WEXITSTATUS(status));
  assert_int_equal(WTERMSIG(status), SIGKILL);
  l->silent += l->ledger.count == before;

  pd_store *store = NULL;
  pd_error err = {0};
  if (pd_store_open(l->uri, "main", NULL, &store, &err) != PD_OK) fail_msg("does not open after the kill: %s", err.message);
  bool is_right = writer_ledger_check(&l->ledger, store, before);
  pd_code code = crash_verify(store, &err);
  if (pd_store_close(store, NULL) != PD_OK) fail_msg("does not close");
  assert_true(is_right);
  if (code != PD_OK) fail_msg("verify after the kill: %s", err.message);
}

static void kill__no_acknowledged_write_is_lost(void **state)
{
  (void)state;
  char folder[CRASH_PATH_MAX];
  uint64_t kills = crash_count(KILLS_SHORT, KILLS_FULL), reports = 0, silent = 0;
  crash_seed();
  crash_scratch(folder);
  for (uint64_t done = 0; !crash_is_enough(done, kills, reports > kills * 5);) {
    life l = {.number_from = 1};
    snprintf(l.uri, sizeof l.uri, "sqlite:%s/s%llu", folder, (unsigned long long)done);
    for (int i = 0; i < KILLS_PER_STORE && !crash_is_enough(done, kills, reports + l.ledger.count > kills * 5); i++, done++) kill_once(&l);
    reports += l.ledger.count;
    silent += l.silent;
    writer_ledger_done(&l.ledger);
  }
  printf("# %llu kills, %llu acknowledged writes, %llu killed before the first\n", (unsigned long long)kills, (unsigned long long)reports,
         (unsigned long long)silent);
  crash_scratch_remove(folder);
  assert_true(reports > kills * 5); /* else nothing was tested */
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(kill__no_acknowledged_write_is_lost)};
  return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}
