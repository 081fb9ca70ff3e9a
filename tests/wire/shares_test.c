/*
 * shares_test.c: what one agent and one token may have of what all share: requests in flight, MCP sessions, watches, sessions and their
 * memory, requests a second. Bytes in flight have a test of their own: bytes_test.c.
 */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define INITIALIZE                                                                                                                         \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"            \
  "\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}"
#define ACCEPT "Accept: application/json, text/event-stream\r\n"

static served *start(const char *settings, bool has_tokens)
{
  static const char *const open_args[] = {"--no-auth", "--log-level", "error", NULL}, *const args[] = {"--log-level", "error", NULL};
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *path = text_of("%s/home/perdure.toml", folder);
  assert_int_equal(mkdir(home, 0700), 0);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(settings, file);
  fclose(file);
  free(home);
  free(path);
  return served_start_in(folder, has_tokens ? args : open_args);
}

static served *start_with(const char *settings)
{
  return start(settings, false);
}

static void want(reply r, int status, const char *part)
{
  if (r.status != status || !strstr(r.body ? r.body : "", part)) fail_msg("%d %.300s", r.status, r.body ? r.body : "");
  reply_done(&r);
}

static void mcp_sessions__an_agent_begins_as_many_as_it_likes_and_takes_them_from_itself(void **state)
{
  (void)state;
  served *s = start_with("");
  char first[80], *headers;
  int fd = served_connect(s);
  want(ask(s, "POST", "/mcp", "Perdure-Agent: bob\r\n" ACCEPT, INITIALIZE), 200, "protocolVersion");
  reply r = ask_on(fd, "POST", "/mcp", "Perdure-Agent: alice\r\n" ACCEPT, INITIALIZE);
  reply_header(&r, "Mcp-Session-Id", first, sizeof first);
  reply_done(&r);
  for (int i = 0; i < 520; i++) want(ask_on(fd, "POST", "/mcp", "Perdure-Agent: alice\r\n" ACCEPT, INITIALIZE), 200, "protocolVersion");
  close(fd);
  assert_int_equal(served_metric(s, "perdure_mcp_sessions"), 501); /* 500 of hers, and bob's */
  headers = text_of("Perdure-Agent: alice\r\nMcp-Session-Id: %s\r\n" ACCEPT, first);
  want(ask(s, "POST", "/mcp", headers, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}"), 200, "result"); /* it is known again */
  assert_int_equal(served_metric(s, "perdure_mcp_sessions"), 501);
  free(headers);
  served_free(s);
}

/* If all have as many as they may, the agent that has most gives one for whoever comes. */
static void mcp_sessions__a_newcomer_gets_one_though_all_are_taken(void **state)
{
  (void)state;
  served *s = start_with("");
  int fd = served_connect(s);
  for (int agent = 0; agent < 21; agent++) {
    char *headers = text_of("Perdure-Agent: agent%d\r\n" ACCEPT, agent);
    for (int i = 0; i < 480; i++) want(ask_on(fd, "POST", "/mcp", headers, INITIALIZE), 200, "protocolVersion");
    free(headers);
  }
  assert_int_equal(served_metric(s, "perdure_mcp_sessions"), 10000);
  want(ask_on(fd, "POST", "/mcp", "Perdure-Agent: bob\r\n" ACCEPT, INITIALIZE), 200, "protocolVersion");
  assert_int_equal(served_metric(s, "perdure_mcp_sessions"), 10000);
  close(fd);
  served_free(s);
}

/* ---- requests in flight ---- */

static const char poll_body[] = "{\"wait_ms\":60000}";

/* A call that waits until it is closed. */
static int open_poll(const served *s, const char *headers)
{
  char *text = text_of("POST /v1/call/queue.receive HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s"
                       "Content-Length: %zu\r\n\r\n%s",
                       headers, strlen(poll_body), poll_body);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static void want_busy(const served *s, const char *headers)
{
  char after[16];
  reply r = ask(s, "POST", "/v1/call/queue.count", headers, "{}");
  assert_string_equal(reply_header(&r, "Retry-After", after, sizeof after), "1");
  want(r, 429, "too many requests are in flight for");
}

static void in_flight__no_agent_has_more_than_half_of_all(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nin_flight_max = 6\nagent_in_flight_max = 100\n");
  int fds[3];
  for (int i = 0; i < 3; i++) fds[i] = open_poll(s, "Perdure-Agent: alice\r\n");
  served_await_in_flight(s, 3);
  want_busy(s, "Perdure-Agent: alice\r\n");
  want(ask(s, "POST", "/v1/call/queue.count", "Perdure-Agent: bob\r\n", "{}"), 200, "{");
  for (int i = 0; i < 3; i++) close(fds[i]);
  served_free(s);
}

/* An operator's, that acts for many agents. Its metrics are not asked for: they are its requests, too. */
static void in_flight__no_token_has_more_than_half_of_all(void **state)
{
  (void)state;
  served *s = start("[test.server]\nin_flight_max = 8\n", true);
  char *token = served_token(s, "create --role operator"), *other = served_token(s, "create --role operator"), *agents[5];
  for (int i = 0; i < 5; i++)
    agents[i] = text_of("Authorization: Bearer %s\r\nPerdure-Agent: agent%d\r\nPerdure-Role: agent\r\n", token, i);
  char *watcher = text_of("Authorization: Bearer %s\r\n", other);
  int fds[4];
  for (int i = 0; i < 4; i++) fds[i] = open_poll(s, agents[i]);
  for (int i = 0, count = 0; i < SERVED_PATIENCE_S * 100 && count < 5; i++) { /* four, and the one that asks */
    reply r = ask(s, "GET", "/metrics", watcher, NULL);
    const char *at = strstr(r.body, "\nperdure_requests_in_flight ");
    assert_non_null(at);
    count = atoi(at + strlen("\nperdure_requests_in_flight "));
    reply_done(&r);
    usleep(10000);
  }
  want_busy(s, agents[4]);
  want(ask(s, "GET", "/metrics", watcher, NULL), 200, "perdure_");
  for (int i = 0; i < 4; i++) close(fds[i]);
  for (int i = 0; i < 5; i++) free(agents[i]);
  free(token), free(other), free(watcher);
  served_free(s);
}

/* ---- watches ---- */

static int open_watch_with(const served *s, const char *headers, int status)
{
  char *text = text_of("GET /v1/watch?store=shared HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers), head[64] = "",
       *wanted = text_of(" %d ", status);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  assert_true(recv(fd, head, sizeof head - 1, 0) > 12);
  if (!strstr(head, wanted)) fail_msg("%s: %s", headers, head);
  free(text);
  free(wanted);
  return fd;
}

static int open_watch(const served *s, const char *agent, int status)
{
  char *headers = text_of("Perdure-Agent: %s\r\n", agent);
  int fd = open_watch_with(s, headers, status);
  free(headers);
  return fd;
}

static void watches__an_agent_has_its_share_and_a_closed_one_is_given_back_at_once(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nagent_watchers_max = 3\nheartbeat = \"1h\"\n");
  int fds[3];
  for (int i = 0; i < 3; i++) fds[i] = open_watch(s, "alice", 200);
  close(open_watch(s, "alice", 429));
  close(open_watch(s, "bob", 200));
  for (int i = 0; i < 3; i++) close(fds[i]);
  served_await_metric(s, "perdure_watchers", 0); /* without a heartbeat */
  close(open_watch(s, "alice", 200));
  served_free(s);
}

static void watches__none_has_more_than_half_of_all(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nwatchers_max = 4\nagent_watchers_max = 100\n");
  int fds[4] = {open_watch(s, "alice", 200), open_watch(s, "alice", 200), open_watch(s, "alice", 429), open_watch(s, "bob", 200)};
  for (int i = 0; i < 4; i++) close(fds[i]);
  served_free(s);
}

static void watches__no_token_has_more_than_half_of_all(void **state)
{
  (void)state;
  served *s = start("[test.server]\nwatchers_max = 4\n", true);
  char *token = served_token(s, "create --role operator"), *other = served_token(s, "create --agent bob"), *agents[3];
  for (int i = 0; i < 3; i++)
    agents[i] = text_of("Authorization: Bearer %s\r\nPerdure-Agent: agent%d\r\nPerdure-Role: agent\r\n", token, i);
  char *bob = text_of("Authorization: Bearer %s\r\n", other);
  int fds[4] = {open_watch_with(s, agents[0], 200), open_watch_with(s, agents[1], 200), open_watch_with(s, agents[2], 429),
                open_watch_with(s, bob, 200)};
  for (int i = 0; i < 4; i++) close(fds[i]);
  for (int i = 0; i < 3; i++) free(agents[i]);
  free(token), free(other), free(bob);
  served_free(s);
}

/* ---- sessions ---- */

static char *begin(const served *s, const char *agent)
{
  char id[64] = "";
  reply r = ask_call(s, agent, "session.begin", "{}");
  const char *at = strstr(r.body, "\"session_id\":\"");
  assert_true(at && sscanf(at + 14, "%63[^\"]", id) == 1);
  reply_done(&r);
  return text_of("Perdure-Agent: %s\r\nPerdure-Session: %s\r\n", agent, id);
}

static void sessions__bytes_and_number_are_counted_over_all_of_an_agent(void **state)
{
  (void)state;
  served *s = start_with("[test.session]\nagent_quota = \"100 KiB\"\nagent_count_max = 2\n");
  char value[60001], *body, *a = begin(s, "alice"), *b = begin(s, "alice"), *c = begin(s, "bob");
  memset(value, 'x', 60000);
  value[60000] = 0;
  body = text_of("{\"key\":\"k\",\"value\":\"%s\"}", value);
  want(ask_call(s, "alice", "session.begin", "{}"), 429, "TooManySessions");
  want(ask(s, "POST", "/v1/call/state.session.set", a, body), 200, "overwritten");
  want(ask(s, "POST", "/v1/call/state.session.set", a, body), 200, "overwritten"); /* what an overwrite frees is counted */
  want(ask(s, "POST", "/v1/call/state.session.set", b, body), 507, "it follows session.quota");
  want(ask(s, "POST", "/v1/call/state.session.set", c, body), 200, "overwritten");
  want(ask(s, "POST", "/v1/call/state.session.delete", a, "{\"key\":\"k\"}"), 200, "\"deleted\":true");
  want(ask(s, "POST", "/v1/call/state.session.set", b, body), 200, "overwritten");
  want(ask(s, "POST", "/v1/call/session.end", b, "{}"), 200, "ended");
  want(ask(s, "POST", "/v1/call/state.session.set", a, body), 200, "overwritten");
  want(ask(s, "POST", "/v1/call/state.session.clear", a, "{}"), 200, "removed_count");
  free(b);
  b = begin(s, "alice");
  want(ask(s, "POST", "/v1/call/state.session.set", b, body), 200, "overwritten");
  free(body), free(a), free(b), free(c);
  served_free(s);
}

static void sessions__no_agent_has_more_than_half_of_all(void **state)
{
  (void)state;
  served *s = start_with("[test.session]\ncount_max = 20\n");
  for (int i = 0; i < 10; i++) free(begin(s, "alice"));
  want(ask_call(s, "alice", "session.begin", "{}"), 429, "TooManySessions");
  for (int i = 0; i < 10; i++) free(begin(s, "bob"));
  want(ask_call(s, "carol", "session.begin", "{}"), 429, "20 sessions already");
  served_free(s);
}

/* ---- rates ---- */

static void rate__all_tokens_of_an_agent_count_together(void **state)
{
  (void)state;
  served *s = start("[server]\nagent_rate = 1\n", true);
  char *tokens[2] = {served_token(s, "create --agent alice"), served_token(s, "create --agent alice")};
  char *other = served_token(s, "create --agent bob"), *bob = text_of("Authorization: Bearer %s\r\n", other);
  unsigned answered = 0, refused = 0;
  for (int i = 0; i < 40; i++) {
    char *headers = text_of("Authorization: Bearer %s\r\n", tokens[i % 2]);
    reply r = ask(s, "POST", "/v1/call/queue.count", headers, "{}");
    answered += r.status == 200;
    refused += r.status == 429 && strstr(r.body, "server.agent_rate");
    reply_done(&r);
    free(headers);
  }
  printf("# %u answered, %u refused\n", answered, refused);
  assert_true(answered >= 1 && answered < 20);
  assert_int_equal(answered + refused, 40);
  want(ask(s, "POST", "/v1/call/queue.count", bob, "{}"), 200, "{");
  free(tokens[0]), free(tokens[1]), free(other), free(bob);
  served_free(s);
}

static void rate__each_message_of_a_batch_counts(void **state)
{
  (void)state;
  served *s = served_start((const char *const[]){"--log-level", "error", NULL});
  char *token = served_token(s, "create --agent alice --rate 1");
  char *headers = text_of("Authorization: Bearer %s\r\nMCP-Protocol-Version: 2025-03-26\r\n" ACCEPT, token), *batch = strdup("[");
  for (int i = 0; i < 50; i++) {
    char *more = text_of("%s%s{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}", batch, i ? "," : "", i);
    free(batch);
    batch = more;
  }
  char *whole = text_of("%s]", batch);
  reply r = ask(s, "POST", "/mcp", headers, whole);
  assert_int_equal(r.status, 200);
  unsigned answered = 0, refused = 0;
  for (const char *at = r.body; (at = strstr(at, "\"result\"")); at++) answered++;
  for (const char *at = r.body; (at = strstr(at, "times a second")); at++) refused++;
  printf("# %u answered, %u refused\n", answered, refused);
  assert_true(answered >= 1 && answered < 25); /* one, and one for each second that it took */
  assert_int_equal(answered + refused, 50);
  reply_done(&r);
  free(whole), free(batch), free(headers), free(token);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mcp_sessions__an_agent_begins_as_many_as_it_likes_and_takes_them_from_itself),
    cmocka_unit_test(mcp_sessions__a_newcomer_gets_one_though_all_are_taken),
    cmocka_unit_test(in_flight__no_agent_has_more_than_half_of_all),
    cmocka_unit_test(in_flight__no_token_has_more_than_half_of_all),
    cmocka_unit_test(watches__an_agent_has_its_share_and_a_closed_one_is_given_back_at_once),
    cmocka_unit_test(watches__none_has_more_than_half_of_all),
    cmocka_unit_test(watches__no_token_has_more_than_half_of_all),
    cmocka_unit_test(sessions__bytes_and_number_are_counted_over_all_of_an_agent),
    cmocka_unit_test(sessions__no_agent_has_more_than_half_of_all),
    cmocka_unit_test(rate__all_tokens_of_an_agent_count_together),
    cmocka_unit_test(rate__each_message_of_a_batch_counts),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
