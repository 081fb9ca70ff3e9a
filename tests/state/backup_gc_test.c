/*
 * backup_gc_test.c: backups one after the other beside a process that writes and runs gc without a pause. Each is made, and can be
 * verified. And backups of a home whose clock is behind that of those who write.
 * A few here, 200 in `make torture`.
 */
#include "base/base.h"
#include "crash/crash.h"
#include "state/backup_world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS_SHORT 5
#define ROUNDS_FULL 200
#define COMMITS 40 /* between two gcs */
#define AGENTS 30  /* their heads take longer to read than one write takes */

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

/* ---- a clock that was set back ---- */

typedef struct busy {
  world *w;
  atomic_bool is_over;
} busy;

/* With the machine's clock, which is days ahead of the home's. */
static void *write_on(void *ctx)
{
  busy *b = ctx;
  pd_store *store;
  if (pd_store_open(b->w->uri, "helper", NULL, &store, NULL)) abort();
  for (unsigned n = 0; !atomic_load(&b->is_over); n++) {
    char value[32];
    snprintf(value, sizeof value, "%u", n);
    if (pd_put(store, pd_text("busy"), pd_text(value), NULL, NULL, NULL)) abort();
  }
  if (pd_store_close(store, NULL)) abort();
  return NULL;
}

static void backup__by_a_clock_that_was_set_back_has_what_was_written_before_it(void **state)
{
  (void)state;
  world w;
  pthread_t thread;
  char *id = NULL;
  open_with_state(&w);
  for (unsigned n = 0; n < AGENTS; n++) {
    char agent[16];
    snprintf(agent, sizeof agent, "a%02u", n);
    put_text(&w, agent, "plan", "1");
  }
  busy b = {.w = &w};
  assert_int_equal(pthread_create(&thread, NULL, write_on, &b), 0);
  for (unsigned n = 0; n < 3; n++) {
    char mark[16];
    snprintf(mark, sizeof mark, "%u", n);
    put_text(&w, "main", "mark", mark);
    free(id);
    id = create(&w, "{}");
  }
  atomic_store(&b.is_over, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  put_text(&w, "main", "mark", "later");
  restore_ok(&w, id);
  assert_string_equal(get(&w, "main", "mark"), "2");
  free(id);
  world_close(&w);
}

int main(int argument_count, char **arguments)
{
  if (argument_count == 2) return write_and_collect(arguments[1]);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup__beside_writes_and_continuous_gc_of_another_process_is_made_each_time),
    cmocka_unit_test(backup__by_a_clock_that_was_set_back_has_what_was_written_before_it),
  };
  return cmocka_run_group_tests_name("backup_gc", tests, NULL, NULL);
}
