/*
 * bytes_test.c: bytes in flight. A body is counted before there is memory for it, an answer until it is sent; one agent
 * has a share, one token half, and whoever sends little is served whatever others hold.
 */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <netinet/in.h>
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

#define SET "/v1/call/state.persistent.set"
#define GET_K "{\"key\":\"k\"}"
#define MIB ((size_t)1 << 20)

/* 4 MiB for all: an agent has room for one body of 1 MiB, a token for 2 MiB. */
#define SETTINGS "[server]\nbody_max = \"1 MiB\"\n[test.server]\nbytes_max = \"4 MiB\"\n"

static served *start_with(const char *settings, bool has_tokens)
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

static void want(reply r, int status, const char *part)
{
  if (r.status != status || !strstr(r.body ? r.body : "", part)) fail_msg("%d %.300s", r.status, r.body ? r.body : "");
  reply_done(&r);
}

/* With what tells a client when to come again. */
static void want_later(reply r, int status, const char *part)
{
  char after[16];
  assert_string_equal(reply_header(&r, "Retry-After", after, sizeof after), "1");
  assert_non_null(strstr(r.body, "\"recovery\":[{\"action\":\"retry\""));
  want(r, status, part);
}

static char *agent_headers(const char *agent)
{
  return text_of("Perdure-Agent: %s\r\n", agent);
}

/* A call that sets k to a text, `size` bytes long as a whole. */
static char *body_of(size_t size)
{
  static const char begin[] = "{\"key\":\"k\",\"value\":\"", end[] = "\"}";
  char *body = malloc(size + 1);
  memset(body, 'x', size);
  memcpy(body, begin, sizeof begin - 1);
  memcpy(body + size - (sizeof end - 1), end, sizeof end);
  return body;
}

static reply set_on(int fd, const char *headers, size_t size)
{
  char *body = body_of(size);
  reply r = ask_on(fd, "POST", SET, headers, body);
  free(body);
  return r;
}

static reply set(const served *s, const char *headers, size_t size)
{
  int fd = served_connect(s);
  reply r = set_on(fd, headers, size);
  close(fd);
  return r;
}

/* Wait until so many bytes are counted. */
static void await_bytes(const served *s, uint64_t least)
{
  for (int i = 0; i < SERVED_PATIENCE_S * 200; i++) {
    if (served_metric(s, "perdure_bytes_in_flight") >= least) return;
    usleep(5000);
  }
  fail_msg("never were %llu bytes in flight", (unsigned long long)least);
}

/* A request that says how long it is and sends little of it. */
static int hold(const served *s, const char *headers, size_t size)
{
  char *text =
    text_of("POST " SET " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n{", headers, size);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static void bodies__one_agent_has_a_share_and_others_notice_nothing(void **state)
{
  (void)state;
  served *s = start_with(SETTINGS, false);
  char *alice = agent_headers("alice"), *bob = agent_headers("bob");
  int held = hold(s, alice, 700000), fd = served_connect(s);
  await_bytes(s, 700000);
  want_later(set_on(fd, alice, 400000), 429, "\"TooManyRequests\",\"message\":\"alice has as many bytes");
  want(set_on(fd, alice, 300000), 200, "\"version\":1"); /* what fits, on the same connection */
  want(ask_on(fd, "POST", SET, alice, "{\"key\":\"small\",\"value\":1}"), 200, "\"version\":1");
  want(set(s, bob, 1000000), 200, "\"version\":1");
  close(held);
  served_await_metric(s, "perdure_bytes_in_flight", 0);
  want(set_on(fd, alice, 1000000), 200, "\"version\":2");
  close(fd);
  served_await_metric(s, "perdure_bytes_in_flight", 0);
  free(alice), free(bob);
  served_free(s);
}

static void bodies__an_expected_continue_is_refused_before_the_body_is_sent(void **state)
{
  (void)state;
  served *s = start_with(SETTINGS, false);
  char *alice = agent_headers("alice"), *expecting = agent_headers("alice\r\nExpect: 100-continue");
  int held = hold(s, alice, 700000), fd;
  await_bytes(s, 700000);
  fd = hold(s, expecting, 400000);
  want_later(read_reply(fd, false), 429, "TooManyRequests");
  close(fd);
  close(held);
  free(alice), free(expecting);
  served_free(s);
}

static void send_chunk(int fd, size_t size)
{
  char *body = body_of(size), *text = text_of("%zx\r\n%s\r\n", size, body);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(body), free(text);
}

static int begin_chunks(const served *s, const char *headers)
{
  char *text =
    text_of("POST " SET " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sTransfer-Encoding: chunked\r\n\r\n", headers);
  int fd = served_connect(s);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static void bodies__chunks_are_counted_as_they_grow(void **state)
{
  (void)state;
  served *s = start_with(SETTINGS, false);
  char *alice = agent_headers("alice"), *bob = agent_headers("bob");
  int held = begin_chunks(s, alice), fd;
  for (int i = 0; i < 7; i++) send_chunk(held, 100000);
  await_bytes(s, 700000);
  want_later(set(s, alice, 400000), 429, "TooManyRequests");
  want(set(s, bob, 400000), 200, "\"version\":1");
  fd = begin_chunks(s, alice); /* one that outgrows the share while it comes */
  for (int i = 0; i < 9; i++) send_chunk(fd, 100000);
  assert_true(send_bytes(fd, "0\r\n\r\n", 5));
  want_later(read_reply(fd, false), 429, "TooManyRequests");
  want(ask_on(fd, "POST", SET, alice, "{\"key\":\"small\",\"value\":1}"), 200, "\"version\":1");
  close(fd);
  close(held);
  served_await_metric(s, "perdure_bytes_in_flight", 0);
  free(alice), free(bob);
  served_free(s);
}

static void bodies__all_together_have_a_limit_and_small_ones_are_taken_even_then(void **state)
{
  (void)state;
  served *s = start_with(SETTINGS, false);
  char *agents[5];
  int held[4];
  for (int i = 0; i < 5; i++) agents[i] = text_of("Perdure-Agent: agent%d\r\n", i);
  for (int i = 0; i < 4; i++) held[i] = hold(s, agents[i], 1000000);
  await_bytes(s, 4000000);
  want_later(set(s, agents[4], 300000), 503, "\"Overloaded\",\"message\":\"there are as many bytes");
  for (int i = 0; i < 5; i++) want(ask(s, "POST", SET, agents[i], "{\"key\":\"small\",\"value\":1}"), 200, "\"version\":1");
  close(held[0]);
  served_await_metric(s, "perdure_bytes_in_flight", 3000000);
  want(set(s, agents[4], 300000), 200, "\"version\":1");
  for (int i = 1; i < 4; i++) close(held[i]);
  for (int i = 0; i < 5; i++) free(agents[i]);
  served_free(s);
}

/* An operator's token may act for many agents. */
static void bodies__one_token_has_half_for_whomever_it_acts(void **state)
{
  (void)state;
  served *s = start_with(SETTINGS, true);
  char *token = served_token(s, "create --role operator"), *other = served_token(s, "create --agent bob"), *agents[3];
  for (int i = 0; i < 3; i++)
    agents[i] = text_of("Authorization: Bearer %s\r\nPerdure-Agent: agent%d\r\nPerdure-Role: agent\r\n", token, i);
  int held[2] = {hold(s, agents[0], 1000000), hold(s, agents[1], 1000000)};
  char *bob = text_of("Authorization: Bearer %s\r\n", other);
  want(ask(s, "POST", SET, agents[2], "{\"key\":\"small\",\"value\":1}"), 200, "\"version\":1"); /* both were read by then, or soon after */
  reply r = set(s, agents[2], 300000);
  for (int i = 0; i < 1000 && r.status == 200; i++) {
    usleep(10000);
    reply_done(&r);
    r = set(s, agents[2], 300000);
  }
  want_later(r, 429, "TooManyRequests");
  want(set(s, bob, 1000000), 200, "\"version\":1");
  close(held[0]), close(held[1]);
  for (int i = 0; i < 3; i++) free(agents[i]);
  free(token), free(other), free(bob);
  served_free(s);
}

static void bodies__one_that_no_share_can_hold_is_413(void **state)
{
  (void)state;
  served *s = start_with("[server]\nbody_max = \"16 MiB\"\n[test.server]\nbytes_max = \"2 MiB\"\n", false);
  char *alice = agent_headers("alice");
  want(set(s, alice, MIB), 200, "\"version\":1");
  int fd = hold(s, alice, MIB + 1);
  want(read_reply(fd, false), 413, "\"message\":\"a body of 1048577 bytes is too large; the most is 1048576\"");
  close(fd);
  free(alice);
  served_free(s);
}

/* ---- who has not said who it is ---- */

static void strangers__what_they_send_is_not_kept(void **state)
{
  (void)state;
  served *s = start_with("", false);
  enum { COUNT = 16 };
  int fds[COUNT];
  char *body = body_of(4 * MIB), head[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194305\r\n\r\n";
  uint64_t before = served_metric(s, "perdure_heap_bytes");
  for (int i = 0; i < COUNT; i++) {
    fds[i] = served_connect(s);
    assert_true(send_bytes(fds[i], head, strlen(head)) && send_bytes(fds[i], body, 4 * MIB)); /* all but one byte */
  }
  uint64_t after = served_metric(s, "perdure_heap_bytes");
  printf("# heap: %llu bytes before, %llu after\n", (unsigned long long)before, (unsigned long long)after);
  if (!SERVED_IS_SANITIZED) assert_true(after < before + 16 * MIB);
  for (int i = 0; i < COUNT; i++) {
    assert_true(send_bytes(fds[i], "x", 1));
    want(read_reply(fds[i], false), 200, "ok");
    close(fds[i]);
  }
  free(body);
  served_free(s);
}

static void strangers__without_a_token_no_body_is_read(void **state)
{
  (void)state;
  served *s = start_with(SETTINGS, true);
  int fd = hold(s, "", 1000000);
  want(read_reply(fd, false), 401, "Unauthorized");
  close(fd);
  served_free(s);
}

/* ---- answers ---- */

/* One that asks for k and reads nothing of it. */
static int ask_and_leave_it(const served *s, const char *headers)
{
  int fd = served_connect(s);
  char *text = text_of("POST /v1/call/state.persistent.get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s"
                       "Content-Length: %zu\r\n\r\n%s",
                       headers, strlen(GET_K), GET_K);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

/* Shares: 16 MiB of 64. The values are larger than what the system's sockets take of them. */
static void answers__that_nobody_reads_are_counted_and_the_agent_gets_no_more(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nbytes_max = \"64 MiB\"\n", false);
  char *alice = agent_headers("alice"), *bob = agent_headers("bob");
  int held[2];
  want(set(s, alice, 14 * MIB), 200, "\"version\":1");
  want(ask(s, "POST", "/v1/call/state.persistent.get", alice, GET_K), 200, "xxx"); /* one that is read, is not */
  served_await_metric(s, "perdure_bytes_in_flight", 0);
  for (int i = 0; i < 2; i++) {
    held[i] = ask_and_leave_it(s, alice);
    await_bytes(s, (uint64_t)(i + 1) * 14 * MIB);
  }
  want_later(ask(s, "POST", "/v1/call/state.persistent.get", alice, GET_K), 429, "TooManyRequests");
  want_later(ask(s, "GET", "/v1/agents/alice/state/k", alice, NULL), 429, "TooManyRequests");
  want_later(ask(s, "POST", "/mcp", "Perdure-Agent: alice\r\nAccept: application/json, text/event-stream\r\n",
                 "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"),
             429, "TooManyRequests");
  want(set(s, bob, 14 * MIB), 200, "\"version\":1");
  want(ask(s, "POST", "/v1/call/state.persistent.get", bob, GET_K), 200, "xxx");
  want(ask(s, "GET", "/healthz", alice, NULL), 200, "ok");
  close(held[0]), close(held[1]);
  served_await_metric(s, "perdure_bytes_in_flight", 0);
  want(ask(s, "POST", "/v1/call/state.persistent.get", alice, GET_K), 200, "xxx");
  free(alice), free(bob);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bodies__one_agent_has_a_share_and_others_notice_nothing),
    cmocka_unit_test(bodies__an_expected_continue_is_refused_before_the_body_is_sent),
    cmocka_unit_test(bodies__chunks_are_counted_as_they_grow),
    cmocka_unit_test(bodies__all_together_have_a_limit_and_small_ones_are_taken_even_then),
    cmocka_unit_test(bodies__one_token_has_half_for_whomever_it_acts),
    cmocka_unit_test(bodies__one_that_no_share_can_hold_is_413),
    cmocka_unit_test(strangers__what_they_send_is_not_kept),
    cmocka_unit_test(strangers__without_a_token_no_body_is_read),
    cmocka_unit_test(answers__that_nobody_reads_are_counted_and_the_agent_gets_no_more),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
