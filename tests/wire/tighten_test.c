/* tighten_test.c: a policy that changes while a server runs: who follows hears no more, reads of the operator, and what the log says. */
#include "base/base.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK(agent) "[[rule]]\ncapability = \"state.*\"\nagent = \"" agent "\"\npermission = \"blocked\"\n"

static void write_home(const served *s, const char *name, const char *text)
{
  char *path = text_of("%s/home/%s", s->folder, name), *draft = text_of("%s.new", path);
  FILE *f = fopen(draft, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(rename(draft, path), 0);
  free(draft);
  free(path);
}

static int status_of(const served *s, const char *token, const char *method, const char *path, const char *body)
{
  char *headers = text_of("Authorization: Bearer %s\r\n", token);
  reply r = ask(s, method, path, headers, body);
  int status = r.status;
  reply_done(&r);
  free(headers);
  return status;
}

static void set_shared(const served *s, const char *token, const char *key)
{
  char *body = text_of("{\"key\":\"%s\",\"value\":1,\"expected_version\":0}", key);
  assert_int_equal(status_of(s, token, "POST", "/v1/call/state.shared.set", body), 200);
  free(body);
}

/* Read on until `word` is in it, or the end. */
static bool read_until(int fd, char *text, size_t size, const char *word)
{
  size_t used = strlen(text);
  while (!strstr(text, word)) {
    ssize_t got = used + 1 < size ? read(fd, text + used, size - 1 - used) : 0;
    if (got <= 0) return false;
    text[used += (size_t)got] = 0;
  }
  return true;
}

static void await_status(const served *s, const char *token, const char *path, int wanted)
{
  for (int i = 0; i < SERVED_PATIENCE_S * 20; i++) {
    if (status_of(s, token, "GET", path, NULL) == wanted) return;
    usleep(50000);
  }
  fail_msg("%s never answered %d", path, wanted);
}

static void tighten__a_running_watch_is_cut_before_it_tells_what_policy_has_closed(void **state)
{
  (void)state;
  static const char *const none[] = {NULL};
  static char text[65536];
  served *s = served_start(none);
  char *alice = served_token(s, "create --agent alice"), *bob = served_token(s, "create --agent bob");
  char *head = text_of("GET /v1/watch?store=shared HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", alice);
  int fd = served_connect(s);
  text[0] = 0;
  assert_true(send_bytes(fd, head, strlen(head)));
  assert_true(read_until(fd, text, sizeof text, "event: hello"));
  set_shared(s, bob, "before");
  assert_true(read_until(fd, text, sizeof text, "\"before\""));
  write_home(s, "policy.toml", BLOCK("alice"));
  await_status(s, alice, "/v1/agents/shared/state/before", 403);
  set_shared(s, bob, "merger");
  assert_true(read_until(fd, text, sizeof text, "policy does not let you follow this any more"));
  assert_false(read_until(fd, text, sizeof text, "no such word: read to the end"));
  if (strstr(text, "merger")) fail_msg("%s", text);
  close(fd);
  free(head), free(alice), free(bob);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void tighten__nobody_passes_blocked_not_the_operator_by_get(void **state)
{
  (void)state;
  static const char *const none[] = {NULL};
  served *s = served_start(none);
  char *alice = served_token(s, "create --agent alice"), *boss = served_token(s, "create --role operator");
  assert_int_equal(status_of(s, alice, "POST", "/v1/call/state.persistent.set", "{\"key\":\"k\",\"value\":1}"), 200);
  assert_int_equal(status_of(s, boss, "GET", "/v1/agents/alice/state/k", NULL), 200);
  write_home(s, "policy.toml", BLOCK("alice"));
  await_status(s, alice, "/v1/agents/alice/state/k", 403);
  assert_int_equal(status_of(s, boss, "GET", "/v1/agents/alice/state/k", NULL), 403);
  assert_int_equal(status_of(s, boss, "GET", "/v1/watch?store=alice", NULL), 403);
  free(alice), free(boss);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void tighten__a_policy_that_went_away_keeps_blocking_also_after_a_restart_is_refused(void **state)
{
  (void)state;
  static const char *const none[] = {NULL};
  served *s = served_start(none);
  char *alice = served_token(s, "create --agent alice"), *path = text_of("%s/home/policy.toml", s->folder);
  assert_int_equal(status_of(s, alice, "POST", "/v1/call/state.persistent.set", "{\"key\":\"k\",\"value\":1}"), 200);
  write_home(s, "policy.toml", BLOCK("alice"));
  await_status(s, alice, "/v1/agents/alice/state/k", 403);
  assert_int_equal(unlink(path), 0);
  served_await_log(s, "the policy was not taken, the rules from before stay in force");
  assert_int_equal(status_of(s, alice, "GET", "/v1/agents/alice/state/k", NULL), 403);
  char *doctor =
    text_of("%s --store sqlite:%s/home doctor | grep -q 'policy.toml is missing, and this home had rules'", served_binary, s->folder);
  assert_int_equal(system(doctor), 0);
  kill(s->pid, SIGHUP);
  served_await_log(s, "reloaded the settings alone");
  assert_int_equal(status_of(s, alice, "GET", "/v1/agents/alice/state/k", NULL), 403);
  char *again = text_of("%s serve --home %s/home --listen 127.0.0.1:0 2>&1 | grep -q 'this home had rules'", served_binary, s->folder);
  assert_int_equal(served_stop(s), 0);
  assert_int_equal(system(again), 0);
  write_home(s, "policy.toml", "no_rules = true\n");
  served_again(s);
  assert_int_equal(status_of(s, alice, "GET", "/v1/agents/alice/state/k", NULL), 200);
  free(alice), free(path), free(doctor), free(again);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void tighten__a_reload_says_which_of_the_files_it_took(void **state)
{
  (void)state;
  static const char *const none[] = {NULL};
  served *s = served_start(none);
  write_home(s, "policy.toml", BLOCK("alice"));
  write_home(s, "perdure.toml", "[server]\nnonsense = 1\n");
  kill(s->pid, SIGHUP);
  served_await_log(s, "the settings stay as they were");
  served_await_log(s, "reloaded the policy alone");
  assert_int_equal(served_log_count(s, "nothing was changed"), 0);
  write_home(s, "policy.toml", "nonsense = 1\n");
  kill(s->pid, SIGHUP);
  served_await_log(s, "reload failed, nothing was changed");
  write_home(s, "perdure.toml", "");
  kill(s->pid, SIGHUP);
  served_await_log(s, "reloaded the settings alone");
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tighten__a_running_watch_is_cut_before_it_tells_what_policy_has_closed),
    cmocka_unit_test(tighten__nobody_passes_blocked_not_the_operator_by_get),
    cmocka_unit_test(tighten__a_policy_that_went_away_keeps_blocking_also_after_a_restart_is_refused),
    cmocka_unit_test(tighten__a_reload_says_which_of_the_files_it_took),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  return cmocka_run_group_tests_name("tighten", tests, NULL, NULL);
}
