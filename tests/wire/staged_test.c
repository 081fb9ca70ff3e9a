/*
 * staged_test.c: calls over HTTP whose commit is staged while a slow disk syncs: their client leaves, or the server is told to stop. The
 * commit comes about, and is audited, all the same.
 */
#include "base/clock.h"
#include "support/temp_folder.h"
#include "wire/bad_disk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define SYNC_MS "700" /* how long the test has to be quicker than; it does not wait for it */

static const struct {
  const char *capability, *input;
  const char *looker, *look, *look_input, *before, *after; /* what its effect is seen by */
} kinds[] = {
  {"queue.send", "{\"to\":\"reader\",\"body\":\"staged\"}", "reader", "queue.count", "{}", "\"unread\":0", "\"unread\":1"},
  {"threads.append", "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\"}", "main", "threads.load", "{\"thread_id\":\"t\"}",
   "\"version\":0", "\"version\":1"},
  {"work.create", "{\"run_id\":\"w2\"}", "main", "work.list", "{}", "\"count\":1", "\"count\":2"},
};

static void want(reply r, const char *part)
{
  if (r.status != 200 || !strstr(r.body, part)) fail_msg("not 200 with %s, but %d %.300s", part, r.status, r.body ? r.body : "");
  reply_done(&r);
}

static bool looks(const served *s, size_t kind, const char *part)
{
  reply r = ask_call(s, kinds[kind].looker, kinds[kind].look, kinds[kind].look_input);
  bool has = r.status == 200 && strstr(r.body, part);
  reply_done(&r);
  return has;
}

static void await_look(const served *s, size_t kind, const char *part)
{
  int64_t end_ms = pd_clock_monotonic_ms() + SERVED_PATIENCE_S * 1000;
  while (!looks(s, kind, part))
    if (pd_clock_monotonic_ms() > end_ms) fail_msg("%s: never %s", kinds[kind].look, part);
}

/* What is written to is there. */
static served *start_warm(void)
{
  served *s = bad_disk_start("[server]\ndrain = \"60s\"\n");
  want(ask_call(s, "reader", "state.persistent.set", "{\"key\":\"a\",\"value\":1}"), "version");
  want(ask_call(s, "main", "state.persistent.set", "{\"key\":\"a\",\"value\":1}"), "version");
  want(ask_call(s, "main", "queue.send", "{\"to\":\"reader\",\"body\":1}"), "m1");
  want(ask_call(s, "reader", "queue.receive", "{}"), "m1");
  want(ask_call(s, "reader", "queue.ack", "{\"message_ids\":[\"m1\"]}"), "1");
  want(ask_call(s, "main", "threads.create", "{\"thread_id\":\"t\"}"), "commit");
  want(ask_call(s, "main", "work.create", "{\"run_id\":\"w1\"}"), "w1");
  for (size_t i = 0; i < COUNT_OF(kinds); i++) assert_true(looks(s, i, kinds[i].before));
  return s;
}

/* Its answer is not read. */
static int send_call(const served *s, size_t kind)
{
  int fd = served_connect(s);
  char *text = text_of("POST /v1/call/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPerdure-Agent: main\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       kinds[kind].capability, strlen(kinds[kind].input), kinds[kind].input);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static unsigned audited(const served *s, const char *capability)
{
  char *input = text_of("{\"capability\":\"%s\"}", capability);
  reply r = ask(s, "POST", "/v1/call/audit.list", "Perdure-Role: operator\r\n", input);
  assert_int_equal(r.status, 200);
  unsigned count = 0;
  for (const char *at = r.body; (at = strstr(at, "\"seq\":")); at++) count++;
  reply_done(&r);
  free(input);
  return count;
}

static void staged__a_client_that_leaves_takes_nothing_back(void **state)
{
  (void)state;
  served *s = start_warm();
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    unsigned lines = audited(s, kinds[i].capability);
    bad_disk_set(s, SYNC_MS);
    int fd = send_call(s, i);
    served_await_in_flight(s, 1);
    close(fd);
    bad_disk_set(s, NULL);
    await_look(s, i, kinds[i].after);
    int64_t end_ms = pd_clock_monotonic_ms() + SERVED_PATIENCE_S * 1000;
    while (audited(s, kinds[i].capability) != lines + 1 && pd_clock_monotonic_ms() < end_ms) continue;
    assert_int_equal(audited(s, kinds[i].capability), lines + 1);
  }
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void staged__a_server_that_stops_answers_what_was_staged(void **state)
{
  (void)state;
  served *s = start_warm();
  int fds[COUNT_OF(kinds)];
  bad_disk_set(s, SYNC_MS);
  for (size_t i = 0; i < COUNT_OF(kinds); i++) fds[i] = send_call(s, i);
  served_await_in_flight(s, COUNT_OF(kinds));
  kill(s->pid, SIGTERM);
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    reply r = read_reply(fds[i], false);
    assert_int_equal(r.status, 200);
    reply_done(&r);
    close(fds[i]);
  }
  assert_int_equal(served_wait(s), 0);
  bad_disk_set(s, NULL);
  served_again(s);
  for (size_t i = 0; i < COUNT_OF(kinds); i++) assert_true(looks(s, i, kinds[i].after));
  served_free(s);
}

/* Told that it failed, or that nobody knows; and nobody is told that it took effect. */
static void staged__a_sync_that_fails_is_told_to_all_that_wait_for_it(void **state)
{
  (void)state;
  served *s = start_warm();
  int fds[COUNT_OF(kinds)];
  bad_disk_set(s, "fail");
  for (size_t i = 0; i < COUNT_OF(kinds); i++) fds[i] = send_call(s, i);
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    reply r = read_reply(fds[i], false);
    bool is_told = r.status == 500 && (strstr(r.body, "\"DatabaseError\"") || strstr(r.body, "\"OutcomeUnknown\""));
    if (!is_told) fail_msg("%s: %d %.300s", kinds[i].capability, r.status, r.body ? r.body : "");
    reply_done(&r);
    close(fds[i]);
  }
  for (size_t i = 0; i < COUNT_OF(kinds); i++) assert_false(looks(s, i, kinds[i].after));
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(staged__a_client_that_leaves_takes_nothing_back),
    cmocka_unit_test(staged__a_server_that_stops_answers_what_was_staged),
    cmocka_unit_test(staged__a_sync_that_fails_is_told_to_all_that_wait_for_it),
  };
  if (argc < 3) return 2;
  served_binary = argv[1];
  bad_disk_module = argv[2];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("staged", tests, NULL, NULL);
}
