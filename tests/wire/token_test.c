/*
 * token_test.c: who may do what over HTTP: without a token, with one of each role, with scopes; and a walk of a stranger with every name of
 * a victim through every capability and every path.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "wire/schema_input.h"
#include "wire/server_world.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "s3cr3t-9b1c"

static const char *const none[] = {NULL};

static reply ask_as(const served *s, const char *text, const char *more, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability), *headers = text_of("Authorization: Bearer %s\r\n%s", text, more);
  reply r = ask(s, "POST", path, headers, input);
  free(path);
  free(headers);
  return r;
}

static void want_call(const served *s, const char *text, const char *more, const char *capability, const char *input, int status)
{
  reply r = ask_as(s, text, more, capability, input);
  if (r.status != status) print_message("%s %s as %.20s…: %d %s\n", capability, input, text, r.status, r.body);
  assert_int_equal(r.status, status);
  reply_done(&r);
}

static void want_get(const served *s, const char *text, const char *path, int status)
{
  char *headers = text_of("Authorization: Bearer %s\r\n", text);
  reply r = ask(s, "GET", path, headers, NULL);
  if (r.status != status) print_message("%s: %d %s\n", path, r.status, r.body);
  assert_int_equal(r.status, status);
  assert_null(strstr(r.body, SECRET));
  reply_done(&r);
  free(headers);
}

/* ---- tests ---- */

static void auth__without_a_token_nothing_but_health_is_answered(void **state)
{
  (void)state;
  served *s = served_start(none);
  char value[64];
  reply r = ask(s, "POST", "/v1/call/state.persistent.list", "", "{}");
  assert_int_equal(r.status, 401);
  assert_string_equal(reply_header(&r, "WWW-Authenticate", value, sizeof value), "Bearer realm=\"perdure\"");
  reply_done(&r);
  static const char *const closed[] = {"/v1/capabilities",       "/v1/openapi.json",      "/metrics",
                                       "/v1/watch?store=shared", "/v1/agents/main/state", "/mcp"};
  for (size_t i = 0; i < COUNT_OF(closed); i++) {
    r = ask(s, "GET", closed[i], "", NULL);
    assert_int_equal(r.status, 401);
    reply_done(&r);
  }
  r = ask(s, "GET", "/healthz", "", NULL);
  assert_int_equal(r.status, 200);
  reply_done(&r);
  want_call(s, "pd_0123456789abcdef_0000000000000000000000000000000000000000000000000000000000000000", "", "state.persistent.list", "{}",
            401);
  want_call(s, "", "", "state.persistent.list", "{}", 401);
  served_free(s);
}

static void auth__an_agents_token_is_that_agents_and_revoking_ends_it(void **state)
{
  (void)state;
  served *s = served_start(none);
  char *text = served_token(s, "create --agent writer");
  want_call(s, text, "", "state.persistent.set", "{\"key\":\"k\",\"value\":1}", 200);
  want_call(s, text, "Perdure-Agent: writer\r\n", "state.persistent.get", "{\"key\":\"k\"}", 200);
  want_call(s, text, "Perdure-Agent: other\r\n", "state.persistent.get", "{\"key\":\"k\"}", 403);
  want_call(s, text, "Perdure-Role: operator\r\n", "policy.list", "{}", 403);
  want_call(s, text, "", "policy.list", "{}", 403);
  want_call(s, text, "", "tokens.list", "{}", 403);
  want_get(s, text, "/v1/agents/writer/state/k", 200);
  want_get(s, text, "/metrics", 403);
  char id[17];
  snprintf(id, sizeof id, "%.16s", text + 3);
  char *args = text_of("revoke %s", id);
  free(served_token(s, args));
  want_call(s, text, "", "state.persistent.get", "{\"key\":\"k\"}", 401);
  free(args);
  free(text);
  char *log = served_file(s, "log");
  assert_null(strstr(log, "pd_")); /* no token, not even a wrong one */
  free(log);
  served_free(s);
}

/* The status that a watch begins with. */
static int status_of_watch(const served *s, const char *text, const char *query, const char *headers)
{
  char line[16] = "",
       *head = text_of("GET /v1/watch?%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n", query, text, headers);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, head, strlen(head)));
  for (size_t used = 0; used < 12;) {
    ssize_t got = read(fd, line + used, 12 - used);
    assert_true(got > 0);
    used += (size_t)got;
  }
  close(fd);
  free(head);
  return atoi(line + 9);
}

static void auth__an_auditor_watches_everything_and_makes_nothing(void **state)
{
  (void)state;
  served *s = served_start(none);
  char *boss = served_token(s, "create --role operator"), *auditor = served_token(s, "create --role auditor");
  want_call(s, boss, "Perdure-Agent: writer\r\n", "state.persistent.set", "{\"key\":\"k\",\"value\":1}", 200);
  assert_int_equal(status_of_watch(s, auditor, "store=writer", ""), 200);
  assert_int_equal(status_of_watch(s, auditor, "store=nobody", "Perdure-Agent: nobody\r\n"), 404);
  assert_int_equal(status_of_watch(s, auditor, "store=shared", ""), 404); /* nobody wrote to it yet */
  want_get(s, auditor, "/v1/agents/nobody/state", 404);
  want_call(s, boss, "Perdure-Agent: writer\r\n", "state.shared.set", "{\"key\":\"k\",\"value\":1,\"expected_version\":0}", 200);
  assert_int_equal(status_of_watch(s, auditor, "store=shared", ""), 200);
  assert_int_equal(status_of_watch(s, boss, "store=somebody", "Perdure-Agent: somebody\r\n"), 200);
  free(boss);
  free(auditor);
  served_free(s);
}

/* A watch that runs: its connection, after the first bytes have come. */
static int begin_watch(const served *s, const char *text)
{
  char *head = text_of("GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", text), byte;
  int fd = served_connect(s);
  assert_true(send_bytes(fd, head, strlen(head)));
  assert_int_equal(read(fd, &byte, 1), 1);
  free(head);
  return fd;
}

/* Does the server end it, within SERVED_PATIENCE_S? */
static bool ends(int fd)
{
  char bytes[4096];
  ssize_t got;
  while ((got = read(fd, bytes, sizeof bytes)) > 0) {}
  close(fd);
  return got == 0;
}

static void auth__a_watch_ends_with_its_token(void **state)
{
  (void)state;
  served *s = served_start(none);
  char *revoked = served_token(s, "create --agent writer"), *rotated = served_token(s, "create --agent writer"),
       *expired = served_token(s, "create --agent writer --expires 3s"), *kept = served_token(s, "create --agent writer"),
       *in_grace = served_token(s, "create --agent writer");
  int of_revoked = begin_watch(s, revoked), of_rotated = begin_watch(s, rotated), of_expired = begin_watch(s, expired),
      of_kept = begin_watch(s, kept), of_grace = begin_watch(s, in_grace);
  char *revoke = text_of("revoke %.16s", revoked + 3), *rotate = text_of("rotate %.16s", rotated + 3),
       *with_grace = text_of("rotate %.16s --grace 1h", in_grace + 3);
  free(served_token(s, revoke));
  free(served_token(s, rotate));
  free(served_token(s, with_grace));
  assert_true(ends(of_revoked));
  assert_true(ends(of_rotated));
  assert_true(ends(of_expired));
  want_call(s, kept, "", "state.persistent.set", "{\"key\":\"k\",\"value\":\"still here\"}", 200);
  int others[] = {of_kept, of_grace};
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    char text[4096] = "";
    for (size_t used = 0; !strstr(text, "event: put");) {
      ssize_t got = read(others[i], text + used, sizeof text - 1 - used);
      assert_true(got > 0);
      used += (size_t)got;
      text[used] = 0;
    }
    close(others[i]);
  }
  char *texts[] = {revoked, rotated, expired, kept, in_grace, revoke, rotate, with_grace};
  for (size_t i = 0; i < COUNT_OF(texts); i++) free(texts[i]);
  served_free(s);
}

static void auth__operator_and_auditor(void **state)
{
  (void)state;
  served *s = served_start(none);
  char *boss = served_token(s, "create --role operator"), *auditor = served_token(s, "create --role auditor");
  want_call(s, boss, "Perdure-Agent: writer\r\n", "state.persistent.set", "{\"key\":\"k\",\"value\":1}", 200);
  want_call(s, boss, "", "tokens.list", "{}", 200);
  want_call(s, auditor, "Perdure-Agent: writer\r\n", "state.persistent.get", "{\"key\":\"k\"}", 200);
  want_call(s, auditor, "Perdure-Agent: writer\r\n", "state.persistent.set", "{\"key\":\"k\",\"value\":2}", 403);
  want_call(s, auditor, "", "tokens.create", "{\"role\":\"operator\"}", 403);
  want_call(s, auditor, "", "audit.list", "{}", 200);
  want_get(s, auditor, "/metrics", 200);
  want_get(s, auditor, "/v1/agents/writer/state/k", 200);
  free(boss);
  free(auditor);
  served_free(s);
}

static void auth__scopes_hold_for_calls_reads_and_watches(void **state)
{
  (void)state;
  served *s = served_start(none);
  char *text = served_token(s, "create --agent writer --capability 'state.persistent.*' --prefix drafts/");
  want_call(s, text, "", "state.persistent.set", "{\"key\":\"drafts/1\",\"value\":1}", 200);
  want_call(s, text, "", "state.persistent.set", "{\"key\":\"other\",\"value\":1}", 403);
  want_call(s, text, "", "state.persistent.list", "{}", 403);
  want_call(s, text, "", "state.persistent.list", "{\"prefix\":\"drafts/\"}", 200);
  want_call(s, text, "", "state.shared.get", "{\"key\":\"drafts/1\"}", 403);
  want_get(s, text, "/v1/agents/writer/state/drafts/1", 200);
  want_get(s, text, "/v1/agents/writer/state/other", 403);
  char *past = served_token(s, "create --agent writer --capability 'history.*' --prefix drafts/");
  want_call(s, past, "", "history.get", "{\"key\":\"drafts/1\",\"at\":\"main\"}", 200);
  want_call(s, past, "", "history.get", "{\"key\":\"other\"}", 403);
  want_call(s, past, "", "history.log", "{\"prefix\":\"drafts/\"}", 200);
  want_call(s, past, "", "history.log", "{}", 403);
  want_call(s, past, "", "history.show", "{}", 403);
  want_call(s, past, "", "history.diff", "{\"from\":\"root\"}", 403);
  want_call(s, past, "", "history.diff", "{\"from\":\"root\",\"prefix\":\"drafts/\"}", 200);
  want_call(s, past, "", "history.prove", "{\"key\":\"drafts/1\"}", 403);
  want_call(s, past, "", "history.refs", "{}", 403);
  free(past);
  want_get(s, text, "/v1/agents/writer/state", 403);
  want_get(s, text, "/v1/agents/writer/state?prefix=drafts/", 200);
  want_get(s, text, "/v1/agents/writer/log", 403);
  want_get(s, text, "/v1/agents/writer/diff", 403);
  want_get(s, text, "/v1/agents/shared/state", 403);
  want_get(s, text, "/v1/watch", 403);
  want_get(s, text, "/v1/watch?store=shared&prefix=drafts/", 403);
  want_get(s, text, "/mcp", 405); /* narrow_test.c walks there */
  free(text);
  served_free(s);
}

static void auth__a_token_may_ask_only_so_often(void **state)
{
  (void)state;
  served *s = served_start(none);
  char *text = served_token(s, "create --agent writer --rate 1"), *other = served_token(s, "create --agent writer");
  int refused = 0;
  for (int i = 0; i < 1000 && !refused; i++) { /* were each answer a second late, none would be refused */
    reply r = ask_as(s, text, "", "state.persistent.get", "{\"key\":\"k\"}");
    refused += r.status == 429;
    reply_done(&r);
  }
  assert_true(refused > 0);
  for (int i = 0; i < 30; i++) want_call(s, other, "", "state.persistent.get", "{\"key\":\"k\"}", 200);
  poll(NULL, 0, 1100); /* time itself is what is waited for */
  want_call(s, text, "", "state.persistent.get", "{\"key\":\"k\"}", 200);
  free(text);
  free(other);
  served_free(s);
}

static void auth__the_unix_socket_knows_its_own_user(void **state)
{
  (void)state;
  served *s = served_start((const char *const[]){"--socket", "@socket", NULL});
  int fd = served_connect_unix(s);
  reply r = ask_on(fd, "POST", "/v1/call/policy.list", "", "{}");
  assert_int_equal(r.status, 200); /* the operator */
  reply_done(&r);
  r = ask_on(fd, "POST", "/v1/call/policy.list", "Perdure-Agent: writer\r\n", "{}");
  assert_int_equal(r.status, 403); /* as an agent, an agent */
  reply_done(&r);
  r = ask_on(fd, "POST", "/v1/call/policy.list", "Authorization: Bearer wrong\r\n", "{}");
  assert_int_equal(r.status, 401); /* a token that is shown has to be good */
  reply_done(&r);
  close(fd);
  served_free(s);
}

/* ---- the walk ---- */

typedef struct walk {
  served *s;
  char *victim, *stranger; /* tokens */
  char session[PD_SESSION_ID_SIZE];
} walk;

static void try_capability(const walk *k, pd_json capability, size_t *tried)
{
  pd_buf name = {0};
  assert_int_equal(pd_json_decode(pd_json_member(capability, "name"), &name, NULL), PD_OK);
  assert_int_equal(pd_buf_byte(&name, 0, NULL), PD_OK);
  bool is_operators = pd_json_is(pd_json_member(capability, "permission"), "operator");
  char *sessions[] = {text_of(" "), text_of("Perdure-Session: %s\r\n", k->session)};
  sessions[0][0] = 0;
  for (int i = 0; i < 4; i++) {
    schema_words words = {.agent = "victim", .session = k->session, .text = "plan"};
    char *input = schema_input(&words, pd_json_member(capability, "inputs"), i & 1);
    reply r = ask_as(k->s, k->stranger, sessions[i >> 1], (char *)name.data, input);
    if (strstr(r.body, SECRET) || (is_operators && r.status != 403 && r.status != 400))
      print_message("%s %s: %d %s\n", (char *)name.data, input, r.status, r.body);
    assert_null(strstr(r.body, SECRET));
    if (is_operators) assert_true(r.status == 403 || r.status == 400);
    assert_true(r.status != 0 && r.status != 500);
    reply_done(&r);
    free(input);
    reply refused = ask_as(k->s, k->stranger, "Perdure-Agent: victim\r\n", (char *)name.data, "{}");
    assert_int_equal(refused.status, 403);
    reply_done(&refused);
    ++*tried;
  }
  free(sessions[0]);
  free(sessions[1]);
  pd_buf_done(&name);
}

static void set_up(walk *k)
{
  k->s = served_start(none);
  k->victim = served_token(k->s, "create --agent victim");
  k->stranger = served_token(k->s, "create --agent stranger");
  reply r = ask_as(k->s, k->victim, "", "session.begin", "{}");
  const char *at = strstr(r.body, "\"session_id\":\"");
  assert_non_null(at);
  snprintf(k->session, sizeof k->session, "%.*s", (int)strcspn(at + 14, "\""), at + 14);
  reply_done(&r);
  char *session = text_of("Perdure-Session: %s\r\n", k->session);
  want_call(k->s, k->victim, session, "state.session.set", "{\"key\":\"plan\",\"value\":\"" SECRET "\"}", 200);
  want_call(k->s, k->victim, "", "state.persistent.set", "{\"key\":\"plan\",\"value\":\"" SECRET "\"}", 200);
  want_call(k->s, k->victim, "", "queue.send", "{\"to\":\"victim\",\"body\":\"" SECRET "\"}", 200);
  want_call(k->s, k->victim, "", "alerts.send", "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"" SECRET "\"}", 200);
  free(session);
}

static void isolation__a_stranger_with_every_name_of_a_victim_learns_and_changes_nothing(void **state)
{
  (void)state;
  static walk k;
  set_up(&k);
  char *headers = text_of("Authorization: Bearer %s\r\n", k.stranger);
  reply all = ask(k.s, "GET", "/v1/capabilities", headers, NULL);
  pd_json json, capability;
  size_t tried = 0;
  assert_int_equal(pd_json_parse((pd_bytes){all.body, all.body_size}, &json, NULL), PD_OK);
  pd_json_walk each = pd_json_walk_begin(pd_json_member(json, "capabilities"));
  while (pd_json_walk_next(&each, NULL, &capability)) try_capability(&k, capability, &tried);
  assert_true(tried > 200);
  reply_done(&all);
  free(headers);
  static const char *const paths[] = {"/v1/agents/victim/state",
                                      "/v1/agents/victim/state/plan",
                                      "/v1/agents/victim/log",
                                      "/v1/agents/victim/diff",
                                      "/v1/agents/victim/state/plan?at=main",
                                      "/v1/agents/system/state",
                                      "/v1/agents/system/log",
                                      "/v1/watch?store=victim",
                                      "/v1/watch?store=system",
                                      "/v1/watch?store=victim&from=start",
                                      "/metrics"};
  for (size_t i = 0; i < COUNT_OF(paths); i++) want_get(k.s, k.stranger, paths[i], 403);
  reply r = ask_as(k.s, k.victim, "", "state.persistent.get", "{\"key\":\"plan\"}");
  assert_non_null(strstr(r.body, "\"value\":\"" SECRET "\",\"version\":1,"));
  reply_done(&r);
  char *session = text_of("Perdure-Session: %s\r\n", k.session);
  r = ask_as(k.s, k.victim, session, "state.session.get", "{\"key\":\"plan\"}");
  assert_non_null(strstr(r.body, SECRET));
  reply_done(&r);
  r = ask_as(k.s, k.victim, "", "queue.receive", "{}");
  assert_non_null(strstr(r.body, SECRET));
  reply_done(&r);
  free(session);
  free(k.victim);
  free(k.stranger);
  served_free(k.s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(auth__without_a_token_nothing_but_health_is_answered),
    cmocka_unit_test(auth__an_agents_token_is_that_agents_and_revoking_ends_it),
    cmocka_unit_test(auth__a_watch_ends_with_its_token),
    cmocka_unit_test(auth__operator_and_auditor),
    cmocka_unit_test(auth__an_auditor_watches_everything_and_makes_nothing),
    cmocka_unit_test(auth__scopes_hold_for_calls_reads_and_watches),
    cmocka_unit_test(auth__a_token_may_ask_only_so_often),
    cmocka_unit_test(auth__the_unix_socket_knows_its_own_user),
    cmocka_unit_test(isolation__a_stranger_with_every_name_of_a_victim_learns_and_changes_nothing),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire token", tests, NULL, NULL);
}
