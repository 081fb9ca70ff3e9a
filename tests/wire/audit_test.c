/* audit_test.c: what the audit says of requests that are not calls: reads over GET, watches, MCP resources, and whatever is refused. */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
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

static const char *const none[] = {NULL};

typedef struct parties {
  served *s;
  char *boss, *alice; /* tokens: the operator's, an agent's */
  char boss_id[17], alice_id[17];
} parties;

static void meet(parties *p, const char *const *args)
{
  p->s = served_start(args);
  p->boss = served_token(p->s, "create --role operator");
  p->alice = served_token(p->s, "create --agent alice");
  snprintf(p->boss_id, sizeof p->boss_id, "%.16s", p->boss + 3);
  snprintf(p->alice_id, sizeof p->alice_id, "%.16s", p->alice + 3);
}

static void part(parties *p)
{
  free(p->boss);
  free(p->alice);
  served_free(p->s);
}

static int status_of(const served *s, const char *token, const char *method, const char *path, const char *body)
{
  char *headers = token ? text_of("Authorization: Bearer %s\r\nAccept: application/json, text/event-stream\r\n", token) : strdup("");
  reply r = ask(s, method, path, headers, body);
  int status = r.status;
  reply_done(&r);
  free(headers);
  return status;
}

static void want(const parties *p, const char *token, const char *method, const char *path, const char *body, int status)
{
  int got = status_of(p->s, token, method, path, body);
  if (got != status) fail_msg("%s %s: %d, expected %d", method, path, got, status);
}

/* The lines of a capability, as the operator sees them. */
static char *lines_of(const parties *p, const char *capability)
{
  char *headers = text_of("Authorization: Bearer %s\r\n", p->boss), *input = text_of("{\"capability\":\"%s\"}", capability);
  reply r = ask(p->s, "POST", "/v1/call/audit.list", headers, input);
  assert_int_equal(r.status, 200);
  char *text = strdup(r.body);
  reply_done(&r);
  free(headers);
  free(input);
  return text;
}

/* One of the lines must have all of these, one after the other; as many calls as `count` must be told by lines that do. */
static void want_lines(const parties *p, const char *capability, unsigned count, const char *agent, const char *token, const char *subject,
                       const char *outcome)
{
  char *text = lines_of(p, capability);
  pd_json json, line;
  unsigned told = 0;
  assert_int_equal(pd_json_parse(pd_text(text), &json, NULL), PD_OK);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(json, "lines"));
  while (pd_json_walk_next(&walk, NULL, &line)) {
    uint64_t times = 1;
    bool has_token = pd_json_member(line, "token").kind == PD_JSON_STRING;
    bool has_subject = pd_json_member(line, "subject").kind == PD_JSON_STRING;
    if (!pd_json_is(pd_json_member(line, "agent"), agent) || !pd_json_is(pd_json_member(line, "outcome"), outcome)) continue;
    if (token ? !pd_json_is(pd_json_member(line, "token"), token) : has_token) continue;
    if (subject ? !pd_json_is(pd_json_member(line, "subject"), subject) : has_subject) continue;
    if (!pd_json_u64(pd_json_member(line, "count"), &times)) times = 1;
    told += (unsigned)times;
  }
  if (told != count) fail_msg("%s by '%s' of %s, %s: %u told, expected %u\n%s", capability, agent, subject, outcome, told, count, text);
  free(text);
}

static void want_none(const parties *p, const char *capability)
{
  char *text = lines_of(p, capability);
  if (strstr(text, "\"seq\"")) fail_msg("%s: %s", capability, text);
  free(text);
}

/* ---- tests ---- */

static void audit__reads_over_get_are_lines_of_their_caller(void **state)
{
  (void)state;
  parties p;
  meet(&p, none);
  want(&p, p.alice, "POST", "/v1/call/state.persistent.set", "{\"key\":\"plan\",\"value\":1}", 200);
  for (int i = 0; i < 3; i++) want(&p, p.alice, "GET", "/v1/agents/alice/state/plan", NULL, 200);
  want(&p, p.alice, "GET", "/v1/agents/alice/state/none", NULL, 404);
  want(&p, p.alice, "GET", "/v1/agents/alice/state?prefix=pl", NULL, 200);
  want(&p, p.alice, "GET", "/v1/agents/alice/log", NULL, 200);
  want(&p, p.boss, "GET", "/v1/agents/alice/state/plan", NULL, 200);
  want_lines(&p, "state.persistent.get", 3, "alice", p.alice_id, "plan", "ok");
  want_lines(&p, "state.persistent.get", 1, "alice", p.alice_id, "none", "KeyNotFound");
  want_lines(&p, "state.persistent.list", 1, "alice", p.alice_id, "pl", "ok");
  want_lines(&p, "state.persistent.history", 1, "alice", p.alice_id, NULL, "ok");
  want_lines(&p, "state.persistent.get", 1, "alice", p.boss_id, "plan", "ok"); /* the operator's, of alice's state */
  want_lines(&p, "state.persistent.set", 1, "alice", p.alice_id, "plan", "ok");
  want_none(&p, "policy.check");
  part(&p);
}

static void audit__refusals_by_scope_policy_and_token_leave_a_line(void **state)
{
  (void)state;
  parties p;
  meet(&p, none);
  char *narrow = served_token(p.s, "create --agent bob --capability state.shared.get --prefix pub/");
  char id[17];
  snprintf(id, sizeof id, "%.16s", narrow + 3);
  want(&p, narrow, "POST", "/v1/call/state.persistent.get", "{\"key\":\"secret\"}", 403);
  want(&p, narrow, "POST", "/v1/call/state.shared.get", "{\"key\":\"secret\"}", 403);
  want(&p, narrow, "POST", "/v1/call/state.backup.restore", "{\"backup_id\":\"b\"}", 403);
  want(&p, narrow, "GET", "/v1/agents/shared/state/secret", NULL, 403);
  want(&p, narrow, "GET", "/v1/agents/alice/state/plan", NULL, 403);
  want(&p, narrow, "GET", "/v1/watch?store=alice", NULL, 403);
  want(&p, narrow, "GET", "/v1/stores/alice", NULL, 403);
  want(&p, narrow, "GET", "/metrics", NULL, 403);
  want(&p, narrow, "POST", "/mcp",
       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"mailbox_list\",\"arguments\":{}}}", 200);
  want_lines(&p, "state.persistent.get", 1, "bob", id, "secret", "PermissionDenied");
  want_lines(&p, "state.shared.get", 2, "bob", id, "secret", "PermissionDenied");
  want_lines(&p, "state.backup.restore", 1, "bob", id, "b", "PermissionDenied");
  want_lines(&p, "state.persistent.get", 1, "bob", id, "plan", "PermissionDenied");
  want_lines(&p, "state.persistent.list", 1, "bob", id, NULL, "PermissionDenied");
  want_lines(&p, "store.read", 1, "bob", id, "alice", "PermissionDenied");
  want_lines(&p, "metrics.read", 1, "bob", id, NULL, "PermissionDenied");
  want_lines(&p, "mailbox.list", 1, "bob", id, NULL, "PermissionDenied");

  char *file = text_of("%s/home/policy.toml", p.s->folder);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs("[[rule]]\ncapability = \"state.persistent.get\"\nprefix = \"closed/\"\npermission = \"blocked\"\n", f);
  fclose(f);
  for (int i = 0; i < SERVED_PATIENCE_S * 20 && status_of(p.s, p.alice, "GET", "/v1/agents/alice/state/closed/a", NULL) != 403; i++)
    usleep(50000); /* the file is looked at once a second */
  want(&p, p.alice, "GET", "/v1/agents/alice/state/closed/b", NULL, 403);
  want(&p, p.boss, "GET", "/v1/agents/alice/state/closed/c", NULL, 403); /* blocked is nobody's */
  want(&p, p.alice, "POST", "/v1/call/state.persistent.get", "{\"key\":\"closed/d\"}", 403);
  want_lines(&p, "state.persistent.get", 1, "alice", p.alice_id, "closed/b", "PermissionDenied");
  want_lines(&p, "state.persistent.get", 1, "alice", p.boss_id, "closed/c", "PermissionDenied");
  want_lines(&p, "state.persistent.get", 1, "alice", p.alice_id, "closed/d", "PermissionDenied");
  want_none(&p, "policy.check");
  free(file);
  free(narrow);
  part(&p);
}

static void audit__tokens_that_are_refused_leave_a_line_and_strangers_few(void **state)
{
  (void)state;
  parties p;
  meet(&p, none);
  char *wrong = strdup(p.alice);
  wrong[strlen(wrong) - 1] = wrong[strlen(wrong) - 1] == '0' ? '1' : '0';
  static const char unknown[] = "pd_0123456789abcdef_0000000000000000000000000000000000000000000000000000000000000000";
  for (int i = 0; i < 5; i++) want(&p, wrong, "GET", "/v1/agents/alice/state", NULL, 401);
  for (int i = 0; i < 200; i++) {
    char *path = text_of("/v1/agents/alice/state/k%d", i);
    want(&p, i % 2 ? unknown : NULL, "GET", path, NULL, 401);
    free(path);
  }
  char *lines = lines_of(&p, "token.refuse");
  size_t count = 0;
  for (const char *at = lines; (at = strstr(at, "\"seq\"")); at++) count++;
  assert_in_range(count, 2, 12); /* more than 4 only if the minute is over once or twice on a machine that does other things */
  free(lines);
  want_lines(&p, "token.refuse", 5, "", p.alice_id, NULL, "Unauthorized");
  want_lines(&p, "token.refuse", 200, "", NULL, NULL, "Unauthorized");
  char *headers = text_of("Authorization: Bearer %s\r\nPerdure-Agent: boss\r\n", p.alice);
  reply r = ask(p.s, "GET", "/v1/agents/alice/state", headers, NULL);
  assert_int_equal(r.status, 403);
  reply_done(&r);
  want_lines(&p, "token.refuse", 1, "alice", p.alice_id, NULL, "PermissionDenied");
  free(headers);
  free(wrong);
  part(&p);
}

static void audit__watches_resources_and_raw_reads_are_lines(void **state)
{
  (void)state;
  parties p;
  meet(&p, none);
  want(&p, p.alice, "POST", "/v1/call/state.persistent.set", "{\"key\":\"plan\",\"value\":1}", 200);
  char *head = text_of("GET /v1/watch?prefix=pl HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", p.alice);
  char line[13] = "";
  int fd = served_connect(p.s);
  assert_true(send_bytes(fd, head, strlen(head)));
  for (size_t used = 0; used < 12;) {
    ssize_t got = read(fd, line + used, 12 - used);
    assert_true(got > 0);
    used += (size_t)got;
  }
  close(fd);
  free(head);
  assert_string_equal(line + 9, "200");
  want(&p, p.alice, "POST", "/mcp",
       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"state://persistent/plan\"}}", 200);
  want(&p, p.alice, "POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/list\",\"params\":{}}", 200);
  for (int i = 0; i < 20; i++) want(&p, p.boss, "GET", "/v1/stores/alice", NULL, 200);
  want_lines(&p, "state.persistent.list", 1, "alice", p.alice_id, "pl", "ok");
  want_lines(&p, "state.persistent.get", 1, "alice", p.alice_id, "plan", "ok");
  want_lines(&p, "state.persistent.list", 1, "alice", p.alice_id, NULL, "ok");
  want_lines(&p, "store.read", 20, "", p.boss_id, "alice", "ok");
  part(&p);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(audit__reads_over_get_are_lines_of_their_caller),
    cmocka_unit_test(audit__refusals_by_scope_policy_and_token_leave_a_line),
    cmocka_unit_test(audit__tokens_that_are_refused_leave_a_line_and_strangers_few),
    cmocka_unit_test(audit__watches_resources_and_raw_reads_are_lines),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire audit", tests, NULL, NULL);
}
