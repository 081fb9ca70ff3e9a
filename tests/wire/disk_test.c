/*
 * disk_test.c: what waits, while the disk fails: long polls over HTTP and MCP, watches, and waits for the log, when syncs of all stores
 * begin to fail. Nobody is told what is not so, whoever waits gets an answer, and the server stops as always.
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
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define KINDS 3
#define STOP_MS 20000 /* far less than anybody waits */

static void want(reply r, int status, const char *part)
{
  if (r.status != status || !strstr(r.body ? r.body : "", part)) fail_msg("%d %.300s", r.status, r.body ? r.body : "");
  reply_done(&r);
}

/* ---- who waits ---- */

static const char *const agents[KINDS] = {"plain", "legacy", "modern"};

#define CALL "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"queue_receive\",\"arguments\":{\"wait_ms\":%u}"

static const struct {
  const char *path, *headers, *body;
} polls[KINDS] = {
  {"/v1/call/queue.receive", "", "{\"wait_ms\":%u}"},
  {"/mcp", "Accept: application/json\r\nMCP-Protocol-Version: 2025-06-18\r\n", CALL "}}"},
  {"/mcp", "Accept: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: queue_receive\r\n",
   CALL ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"x\","
        "\"version\":\"1\"},\"io.modelcontextprotocol/clientCapabilities\":{}}}}"},
};

static int wait_for_message(const served *s, int kind, unsigned wait_ms)
{
  char number[16], body[600];
  const char *at = strstr(polls[kind].body, "%u");
  snprintf(number, sizeof number, "%u", wait_ms);
  snprintf(body, sizeof body, "%.*s%s%s", (int)(at - polls[kind].body), polls[kind].body, number, at + 2);
  char *text = text_of("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPerdure-Agent: %s\r\n%s"
                       "Content-Length: %zu\r\n\r\n%s",
                       polls[kind].path, agents[kind], polls[kind].headers, strlen(body), body);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static int wait_for_log(const served *s, const char *store, unsigned after, unsigned ms)
{
  char *text =
    text_of("GET /v1/stores/%s/log/wait?after=%u&ms=%u HTTP/1.1\r\nHost: localhost\r\nPerdure-Role: operator\r\n\r\n", store, after, ms);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static int watch_shared(const served *s)
{
  static const char text[] = "GET /v1/watch?store=shared HTTP/1.1\r\nHost: localhost\r\nPerdure-Agent: watcher\r\n\r\n";
  char head[512] = "";
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  assert_true(recv(fd, head, sizeof head - 1, 0) > 12);
  assert_non_null(strstr(head, " 200 "));
  return fd;
}

/* An answer, whatever it is, but no message: there is none. Who waits is given a store (decision 089), and that may be what failed. */
static void want_no_message(int fd)
{
  reply r = read_reply(fd, false);
  const char *body = r.body ? r.body : "";
  bool is_empty = r.status == 200 && strstr(body, "\"count\":0");
  bool is_error = strstr(body, "DatabaseError") || strstr(body, "OutcomeUnknown");
  if (!is_empty && !is_error) fail_msg("who waited was answered %d %.400s", r.status, r.body ? r.body : "");
  reply_done(&r);
  close(fd);
}

static void want_some_answer(int fd)
{
  reply r = read_reply(fd, false);
  if (r.status != 200 && !(r.status >= 500 && strstr(r.body, "\"error\":{"))) fail_msg("%d %.300s", r.status, r.body ? r.body : "");
  reply_done(&r);
  close(fd);
}

/* To its end, which must come; what was not written must not be in it. */
static void want_silent_end(int fd)
{
  char text[65536] = "";
  size_t used = 0;
  ssize_t got;
  while (used < sizeof text - 1 && (got = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0) used += (size_t)got;
  text[used] = 0;
  if (got < 0) fail_msg("the watch did not end");
  assert_null(strstr(text, "event: put"));
  close(fd);
}

/* ---- the tests ---- */

/* Truthful: it failed, or nobody knows. */
static void want_refused(const served *s, const char *agent, const char *capability, const char *input)
{
  reply r = ask_call(s, agent, capability, input);
  bool is_told = r.status == 500 && (strstr(r.body, "\"DatabaseError\"") || strstr(r.body, "\"OutcomeUnknown\""));
  if (!is_told) fail_msg("%s: %d %.300s", capability, r.status, r.body ? r.body : "");
  reply_done(&r);
}

static void disk__who_waits_is_answered_though_syncs_fail(void **state)
{
  (void)state;
  served *s = bad_disk_start("[test.server]\ndrain = \"60s\"\n");
  int soon[KINDS], late[KINDS];
  for (int kind = 0; kind < KINDS; kind++)
    want(ask_call(s, agents[kind], "queue.send", "{\"to\":\"other\",\"body\":1}"), 200, "message_id");
  want(ask_call(s, "plain", "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":0}"), 200, "\"version\":1");
  for (int kind = 0; kind < KINDS; kind++) {
    soon[kind] = wait_for_message(s, kind, 3000);
    late[kind] = wait_for_message(s, kind, 60000);
  }
  int watch = watch_shared(s), log_soon = wait_for_log(s, "shared", 1000, 2000), log_late = wait_for_log(s, "shared", 1000, 30000);
  served_await_in_flight(s, 2 * KINDS + 2);
  bad_disk_set(s, "fail");
  for (int kind = 0; kind < KINDS; kind++) {
    char *input = text_of("{\"to\":\"%s\",\"body\":1}", agents[kind]);
    want_refused(s, "sender", "queue.send", input);
    free(input);
  }
  want_refused(s, "plain", "state.shared.set", "{\"key\":\"b\",\"value\":1,\"expected_version\":0}");
  want(ask(s, "GET", "/readyz", "", NULL), 503, "{\"status\":\"sick\"");
  for (int kind = 0; kind < KINDS; kind++) want_no_message(soon[kind]);
  want_some_answer(log_soon);
  want(ask_call(s, "plain", "state.shared.get", "{\"key\":\"a\"}"), 200, "\"value\":1"); /* reads go on */
  int64_t begun_ms = pd_clock_monotonic_ms();
  kill(s->pid, SIGTERM);
  for (int kind = 0; kind < KINDS; kind++) want_no_message(late[kind]);
  want_some_answer(log_late);
  want_silent_end(watch);
  int code = served_wait(s);
  int64_t took_ms = pd_clock_monotonic_ms() - begun_ms;
  printf("# exit code %d, stopped after %lld ms\n", code, (long long)took_ms);
  assert_true(code > 0 && code < 256); /* lines of the audit could not be written, which it says */
  assert_true(took_ms < STOP_MS);
  bad_disk_set(s, NULL);
  served_again(s);
  want(ask(s, "GET", "/readyz", "", NULL), 200, "ready");
  want(ask_call(s, "plain", "state.shared.get", "{\"key\":\"a\"}"), 200, "\"value\":1");
  want(ask_call(s, "sender", "queue.send", "{\"to\":\"plain\",\"body\":2}"), 200, "message_id");
  want(ask_call(s, "plain", "queue.receive", "{}"), 200, "\"body\":2");
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(disk__who_waits_is_answered_though_syncs_fail),
  };
  if (argc < 3) return 2;
  served_binary = argv[1];
  bad_disk_module = argv[2];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
