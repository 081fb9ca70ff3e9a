/* files_test.c: descriptors run out: who comes waits and is served later, those who are in are served, and nothing spins meanwhile. */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS 150

static const char *real_binary;

/* A server that may have `limit` open files, and cannot raise it. */
static served *start_with_files(unsigned limit, const char *const *args)
{
  char *folder = temp_folder_new(), *script = text_of("%s/limited", folder);
  FILE *f = fopen(script, "w");
  assert_non_null(f);
  fprintf(f, "#!/bin/sh\nulimit -n %u && exec '%s' \"$@\"\n", limit, real_binary);
  fclose(f);
  chmod(script, 0700);
  served_binary = script;
  served *s = served_start_in(folder, args);
  served_binary = real_binary;
  free(script);
  return s;
}

/* Seconds of processor that the server has used. */
static double cpu_of(const served *s)
{
  char path[64], text[1024] = "";
  unsigned long user = 0, kernel = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)s->pid);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  assert_int_equal(sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
  return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static void want_rest(const served *s)
{
  double before = cpu_of(s);
  poll(NULL, 0, 1000);
  double used = cpu_of(s) - before;
  if (used >= 0.25) print_message("%.2f s of processor in a second\n", used);
  assert_true(used < 0.25);
}

static bool is_answered(int fd, int timeout_ms)
{
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  return poll(&wait, 1, timeout_ms) == 1;
}

static void crowd(const served *s, int (*connect_to)(const served *))
{
  static const char text[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  int fds[CLIENTS], waiting = 0;
  for (int i = 0; i < CLIENTS; i++) {
    fds[i] = connect_to(s);
    assert_true(fds[i] >= 0 && send_bytes(fds[i], text, sizeof text - 1));
  }
  assert_true(is_answered(fds[0], SERVED_PATIENCE_S * 1000));
  served_await_log(s, "further clients wait");
  want_rest(s);
  assert_int_equal(served_log_count(s, "further clients wait"), 1); /* later, as some leave and others come, it may say so again */
  for (int i = 0; i < CLIENTS; i++) waiting += !is_answered(fds[i], 0);
  assert_true(waiting > CLIENTS / 2 && waiting < CLIENTS); /* else the test shows nothing */
  for (int i = 0; i < CLIENTS; i++) {
    reply r = read_reply(fds[i], false);
    assert_int_equal(r.status, 200);
    reply_done(&r);
    if (i == 0) { /* one that is in has its store opened, which takes descriptors too */
      r = ask_on(fds[i], "POST", "/v1/call/state.persistent.set", "", "{\"key\":\"k\",\"value\":1}");
      assert_int_equal(r.status, 200);
      reply_done(&r);
    }
    close(fds[i]);
  }
  assert_int_equal(served_log_count(s, "to be had"), 0);
}

static void files__more_clients_than_descriptors_are_all_served_as_others_leave(void **state)
{
  (void)state;
  served *s = start_with_files(64, (const char *const[]){"--no-auth", NULL});
  crowd(s, served_connect);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void files__over_the_unix_socket_it_is_the_same(void **state)
{
  (void)state;
  served *s = start_with_files(64, (const char *const[]){"--no-auth", "--socket", "@socket", NULL});
  crowd(s, served_connect_unix);
  served_free(s);
}

/* The descriptor that the next accept() would get. */
static unsigned next_file(const served *s)
{
  for (unsigned fd = 0;; fd++) {
    char path[64], target[8];
    snprintf(path, sizeof path, "/proc/%d/fd/%u", (int)s->pid, fd);
    if (readlink(path, target, sizeof target) < 0) return fd;
  }
}

/* The same, when it has been so for a while: nothing is opened for a moment only. */
static unsigned settled_file(const served *s)
{
  unsigned last = next_file(s);
  for (int still = 0; still < 10; still++) {
    poll(NULL, 0, 50);
    if (next_file(s) < last) last = next_file(s), still = 0;
  }
  return last;
}

/* Somebody else used up what was left for stores, or the whole system has none: accept() itself fails. */
static void files__when_accept_finds_none_it_rests_says_so_once_and_goes_on_when_there_are_some(void **state)
{
  (void)state;
  static const char text[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  served *s = served_start((const char *const[]){"--no-auth", "--log-level", "debug", NULL});
  struct rlimit before, none;
  int first = served_connect(s);
  reply r = ask_on(first, "GET", "/healthz", "", NULL); /* it is up, and its descriptors are all there */
  assert_int_equal(r.status, 200);
  reply_done(&r);
  unsigned with_first = settled_file(s);
  close(first);
  for (int i = 0; i < SERVED_PATIENCE_S * 50 && next_file(s) >= with_first; i++) poll(NULL, 0, 20); /* until it is closed there, too */
  none = (struct rlimit){.rlim_cur = settled_file(s)};
  assert_int_equal(prlimit(s->pid, RLIMIT_NOFILE, NULL, &before), 0);
  none.rlim_max = before.rlim_max;
  assert_int_equal(prlimit(s->pid, RLIMIT_NOFILE, &none, NULL), 0);
  int fds[20];
  for (int i = 0; i < 20; i++) {
    fds[i] = served_connect(s);
    assert_true(fds[i] >= 0 && send_bytes(fds[i], text, sizeof text - 1));
  }
  served_await_log(s, "there are no more open files to be had");
  want_rest(s);
  assert_false(is_answered(fds[0], 0));
  assert_int_equal(served_log_count(s, "there are no more open files to be had"), 1);
  assert_int_equal(prlimit(s->pid, RLIMIT_NOFILE, &before, NULL), 0);
  for (int i = 0; i < 20; i++) {
    r = read_reply(fds[i], false);
    assert_int_equal(r.status, 200);
    reply_done(&r);
    close(fds[i]);
  }
  assert_true(served_log_count(s, "\n") < 200);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(files__more_clients_than_descriptors_are_all_served_as_others_leave),
    cmocka_unit_test(files__over_the_unix_socket_it_is_the_same),
    cmocka_unit_test(files__when_accept_finds_none_it_rests_says_so_once_and_goes_on_when_there_are_some),
  };
  if (argc < 2) return 2;
  served_binary = real_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire files", tests, NULL, NULL);
}
