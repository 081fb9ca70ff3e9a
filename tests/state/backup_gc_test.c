/*
 * backup_gc_test.c: backups one after the other beside a process that writes and runs gc without a pause. Each is made, and can be
 * verified.
 * A few here, 200 in `make torture`.
 */
#include "base/base.h"
#include "crash/crash.h"
#include "state/backup_world.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS_SHORT 5
#define ROUNDS_FULL 200
#define COMMITS 40 /* between two gcs */

/* Write to both agents and collect, until nobody reads the pipe. */
static int write_and_collect(const char *uri)
{
  static const char *const names[] = {"main", "helper"};
  pd_store *stores[2] = {NULL, NULL};
  pd_error err;
  unsigned number = 0;
  alarm(3000);
  signal(SIGPIPE, SIG_IGN);
  fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (pd_store_open(uri, names[i], NULL, &stores[i], &err)) return 1;
  while (write(STDOUT_FILENO, "", 1) >= 0 || errno != EPIPE) {
    for (size_t i = 0; i < COUNT_OF(names); i++) {
      for (int k = 0; k < COMMITS; k++) {
        char value[32];
        snprintf(value, sizeof value, "%u", number++);
        if (pd_put(stores[i], pd_text(k % 2 ? "plan" : "other"), pd_text(value), NULL, NULL, &err)) return 2;
      }
      pd_code code = pd_gc(stores[i], &(pd_gc_policy){.keep_last = 1}, NULL, &err);
      if (!code || code == PD_CONFLICT) continue;
      fprintf(stderr, "gc in another process: %s\n", err.message);
      return 3;
    }
  }
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (pd_store_close(stores[i], &err)) return 4;
  return 0;
}

static pid_t start_collector(const char *uri, int *out_pipe)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) { /* this program again: nobody uses SQLite on both sides of a fork */
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    execl("/proc/self/exe", "backup_gc_test", uri, (char *)NULL);
    _exit(101);
  }
  close(ends[1]);
  *out_pipe = ends[0];
  return pid;
}

static void backup__beside_writes_and_continuous_gc_of_another_process_is_made_each_time(void **state)
{
  (void)state;
  world w;
  int pipe_end, status = 0;
  uint64_t rounds = crash_count(ROUNDS_SHORT, ROUNDS_FULL);
  open_with_state(&w);
  pid_t pid = start_collector(w.uri, &pipe_end);
  for (uint64_t n = 0; n < rounds; n++) {
    char input[64], *id = create(&w, "{}");
    snprintf(input, sizeof input, "{\"backup_id\":\"%s\"}", id);
    pd_ctx ctx = {.home = w.home, .agent = "main", .is_operator = true};
    if (pd_call(&ctx, "state.backup.verify", pd_text(input), &w.out, &w.err)) fail_msg("verify: %s", w.err.message);
    if (n + 1 == rounds) { /* nobody writes while it is restored */
      close(pipe_end);
      assert_int_equal(waitpid(pid, &status, 0), pid);
      assert_true(WIFEXITED(status));
      assert_int_equal(WEXITSTATUS(status), 0);
      restore_ok(&w, id);
    }
    free(id);
  }
  printf("# %llu backups\n", (unsigned long long)rounds);
  world_close(&w);
}

int main(int argument_count, char **arguments)
{
  if (argument_count == 2) return write_and_collect(arguments[1]);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup__beside_writes_and_continuous_gc_of_another_process_is_made_each_time),
  };
  return cmocka_run_group_tests_name("backup_gc", tests, NULL, NULL);
}
