/* agents_test.c: a server with far more agents than it has descriptors for: all are served, and who is watched is not closed. */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FILES 256
#define AGENTS 500
#define HANDS 4
#define STORES_MAX (FILES / 4 / PD_STORE_FILES)

static void limit_files(void)
{
  const struct rlimit limit = {FILES, FILES};
  if (setrlimit(RLIMIT_NOFILE, &limit)) abort();
}

/* A server that cannot have more than FILES files open, with this perdure.toml. */
static served *start_with(const char *config)
{
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *path = text_of("%s/perdure.toml", home);
  assert_int_equal(mkdir(home, 0700), 0);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(config, f);
  assert_int_equal(fclose(f), 0);
  served_prepare = limit_files;
  served *s = served_start_in(folder, (const char *const[]){"--no-auth", NULL});
  served_prepare = NULL;
  free(path);
  free(home);
  return s;
}

static unsigned count_files(const served *s)
{
  char path[64];
  unsigned count = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)s->pid);
  DIR *folder = opendir(path);
  assert_non_null(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count - 2;
}

/* ---- all of them ---- */

typedef struct hand {
  const served *s;
  pthread_t thread;
  unsigned number, round, failed;
  char why[512];
} hand;

static bool call(hand *h, int fd, unsigned agent, const char *capability, const char *input, const char *wanted)
{
  char *path = text_of("/v1/call/%s", capability), *headers = text_of("Perdure-Agent: agent-%u\r\n", agent);
  reply r = ask_on(fd, "POST", path, headers, input);
  bool is_right = r.status == 200 && strstr(r.body, wanted);
  if (!is_right) snprintf(h->why, sizeof h->why, "agent-%u: %s: %d %.300s", agent, capability, r.status, r.body ? r.body : "");
  reply_done(&r);
  free(headers);
  free(path);
  return is_right;
}

static void *work(void *ctx)
{
  hand *h = ctx;
  char input[64], wanted[64];
  int fd = served_connect(h->s);
  for (unsigned i = h->number; i < AGENTS && !h->failed; i += HANDS) {
    snprintf(input, sizeof input, "{\"key\":\"k\",\"value\":%u}", h->round * 1000 + i);
    snprintf(wanted, sizeof wanted, "\"version\":%u,", h->round);
    bool is_right = h->round == 1 || call(h, fd, i, "state.persistent.get", "{\"key\":\"k\"}", "\"found\":true");
    if (!is_right || !call(h, fd, i, "state.persistent.set", input, wanted)) h->failed++;
  }
  close(fd);
  return NULL;
}

static void serve_all(const served *s, unsigned round)
{
  hand hands[HANDS];
  for (unsigned i = 0; i < HANDS; i++) {
    hands[i] = (hand){.s = s, .number = i, .round = round};
    assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
  }
  for (unsigned i = 0; i < HANDS; i++) {
    pthread_join(hands[i].thread, NULL);
    if (hands[i].failed) fail_msg("%s", hands[i].why);
  }
}

/* Reads on until `text` has come. */
static void want_event(int fd, const char *text)
{
  char got[16384];
  size_t size = 0;
  while (size < sizeof got - 1) {
    ssize_t more = read(fd, got + size, sizeof got - 1 - size);
    if (more <= 0) fail_msg("the watch ended without %s", text);
    got[size += (size_t)more] = 0;
    if (strstr(got, text)) return;
  }
  fail_msg("no %s in what was watched", text);
}

static void set_watched(const served *s, const char *key)
{
  char *input = text_of("{\"key\":\"%s\",\"value\":1}", key);
  reply r = ask_call(s, "watched", "state.persistent.set", input);
  assert_int_equal(r.status, 200);
  reply_done(&r);
  free(input);
}

static void agents__five_hundred_are_served_with_descriptors_for_a_few(void **state)
{
  (void)state;
  static const char watch[] = "GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nPerdure-Agent: watched\r\n\r\n";
  served *s = start_with("[store]\nflush = \"1s\"\n"); /* so that the test is quick */
  set_watched(s, "first");
  int fd = served_connect(s);
  assert_true(send_bytes(fd, watch, sizeof watch - 1));
  want_event(fd, "event: hello");
  serve_all(s, 1);
  assert_in_range(served_metric(s, "perdure_stores_open"), 2, STORES_MAX + 2 + HANDS);
  assert_int_equal(served_metric(s, "perdure_stores_open_max"), STORES_MAX);
  assert_true(served_metric(s, "perdure_stores_closed_total") >= AGENTS - STORES_MAX - 2 - HANDS);
  assert_true(count_files(s) < FILES / 2);
  assert_true(served_metric(s, "perdure_sync_seconds_count") > AGENTS); /* those of stores that were closed are in it */
  serve_all(s, 2);
  set_watched(s, "last");
  want_event(fd, "\"key\":\"last\"");
  close(fd);
  char *log = served_file(s, "log");
  assert_non_null(strstr(log, "agents' stores stay open"));
  assert_null(strstr(log, "to be had"));
  free(log);
  assert_int_equal(served_stop(s), 0);
  served_again(s);
  serve_all(s, 3);
  served_free(s);
}

static void agents__stores_that_nobody_uses_are_closed_after_a_while(void **state)
{
  (void)state;
  served *s = start_with("[test.store]\nidle = \"100ms\"\n");
  for (unsigned i = 0; i < 5; i++) {
    char *agent = text_of("agent-%u", i);
    reply r = ask_call(s, agent, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
    assert_int_equal(r.status, 200);
    reply_done(&r);
    free(agent);
  }
  served_await_metric(s, "perdure_stores_open", 0);
  assert_int_equal(served_metric(s, "perdure_stores_closed_total"), 5);
  reply r = ask_call(s, "agent-3", "state.persistent.get", "{\"key\":\"k\"}");
  assert_int_equal(r.status, 200);
  assert_non_null(strstr(r.body, "\"found\":true"));
  reply_done(&r);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(agents__five_hundred_are_served_with_descriptors_for_a_few),
    cmocka_unit_test(agents__stores_that_nobody_uses_are_closed_after_a_while),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire agents", tests, NULL, NULL);
}
