/*
 * hammer_test.c: clients that do it wrong on purpose: thousands of requests that were damaged at random, sent in pieces, cut off, reset or
 * half closed. Whatever they do, the server is well afterwards and has given back what they held. PERDURE_SEED replays a run.
 */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HAMMERS 4
#define BLOWS_EACH 500 /* in each of two halves */
#define BLOW_SIZE_MAX ((size_t)32 * 1024)
#define ANSWER_MS 15 /* to wait for one that may never come */
#define GROWTH_MAX ((uint64_t)16 << 20)

#define JSON "Host: localhost\r\nContent-Type: application/json\r\n"
#define MCP JSON "Accept: application/json, text/event-stream\r\n"
#define META                                                                                                                               \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"h\","          \
  "\"version\":\"1\"},\"io.modelcontextprotocol/clientCapabilities\":{}}"

static const char *const seeds[] = {
  "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET /v1/agents/main/state/k?at=main~1 HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"x\"\r\n\r\n",
  "GET /v1/agents/main/state?prefix=k&after=k1&limit=10 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET /v1/agents/main/log?before=5&limit=3 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET /v1/agents/main/diff?from=main~1&to=main HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "GET /v1/watch?store=shared&prefix=k&from=start HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 3\r\n\r\n",
  "HEAD /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
  "OPTIONS /v1/call/a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n",
  "POST /v1/call/state.persistent.set HTTP/1.1\r\n" JSON "Content-Length: 23\r\n\r\n{\"key\":\"k1\",\"value\":12}}",
  "POST /v1/call/state.persistent.get HTTP/1.1\r\n" JSON "Content-Length: 12\r\n\r\n{\"key\":\"k1\"}",
  "POST /v1/call/state.persistent.set HTTP/1.1\r\n" JSON
  "Transfer-Encoding: chunked\r\n\r\nb\r\n{\"key\":\"k2\"\r\nb\r\n,\"value\":1}\r\n0\r\n\r\n",
  "POST /v1/call/state.shared.set HTTP/1.1\r\n" JSON "Content-Length: 41\r\n\r\n{\"key\":\"k\",\"value\":1,\"expected_version\":0}",
  "POST /v1/call/session.begin HTTP/1.1\r\n" JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
  "POST /v1/call/queue.receive HTTP/1.1\r\n" JSON "Content-Length: 14\r\n\r\n{\"wait_ms\":20}",
  "POST /mcp HTTP/1.1\r\n" MCP
  "Content-Length: 158\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
  "\"capabilities\":{},\"clientInfo\":{\"name\":\"hammer\",\"version\":\"1.0\"}}}     ",
  "POST /mcp HTTP/1.1\r\n" MCP "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nTransfer-Encoding: chunked\r\n\r\n"
  "100\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{" META "}}                               \r\n0\r\n\r\n",
  "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: 1\r\n\r\n",
};

/* What hurts other servers. */
static const char *const thorns[] = {
  "Content-Length: -1\r\n",
  "Content-Length: 99999999999999999999\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding : x\r\n",
  "\r\n",
  "\r\n\r\n",
  "\n\n",
  "\r",
  "\t",
  " ",
  "%00",
  "%",
  "%c0%af",
  "%ed%a0%80",
  "\xff\xfe",
  "\xc0\xaf",
  "\xf4\x90\x80\x80",
  "..",
  "../../",
  "//",
  "?",
  "&a=b",
  "#",
  "HTTP/1.0",
  "HTTP/9.9",
  "Expect: 100-continue\r\n",
  "Connection: close\r\n",
  "Connection: upgrade\r\n",
  "Host: a\r\n",
  "Cookie: a=b; c\r\n",
  "ffffffffffffffff\r\n",
  "-1\r\n",
  "0\r\n\r\n",
  "[[[[[[[[[[[[[[[[",
  "{\"a\":",
  "\"\\ud800\"",
  "1e999",
  "null",
  "Last-Event-ID: 18446744073709551615.4294967295\r\n",
  "Perdure-Session: s-0\r\n",
  "Perdure-Agent: ../x\r\n",
  "Authorization: Bearer pd_\r\n",
};

typedef struct hammer {
  const served *s;
  pthread_t thread;
  uint64_t state; /* of the random numbers */
  unsigned answers;
} hammer;

static uint64_t seed;

static uint64_t pick(hammer *h, uint64_t below)
{
  uint64_t x = h->state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return (x ^ x >> 31) % below;
}

/* ---- damage ---- */

typedef struct blow {
  char data[BLOW_SIZE_MAX];
  size_t size;
} blow;

static void insert(blow *b, size_t at, const char *text, size_t size)
{
  if (b->size + size > BLOW_SIZE_MAX) return;
  memmove(b->data + at + size, b->data + at, b->size - at);
  memcpy(b->data + at, text, size);
  b->size += size;
}

static void damage(hammer *h, blow *b)
{
  static _Thread_local char many[13 * 1024];
  const char *thorn = thorns[pick(h, sizeof thorns / sizeof *thorns)];
  size_t at = b->size ? pick(h, b->size) : 0, gone;
  switch (pick(h, 8)) {
  case 0:
    if (b->size) b->data[at] ^= (char)(1u << pick(h, 8));
    break;
  case 1:
    if (b->size) b->data[at] = (char)pick(h, 256);
    break;
  case 2: b->size = at; break;
  case 3:
    gone = b->size ? 1 + pick(h, b->size - at < 40 ? b->size - at : 40) : 0;
    memmove(b->data + at, b->data + at + gone, b->size - at - gone);
    b->size -= gone;
    break;
  case 4:
    memset(many, "a0[ \xff"[pick(h, 5)], sizeof many);
    insert(b, at, many, 1 + pick(h, pick(h, 4) ? 60 : sizeof many));
    break;
  default: insert(b, at, thorn, strlen(thorn)); break;
  }
}

static void make_blow(hammer *h, blow *b)
{
  b->size = 0;
  for (uint64_t n = 1 + pick(h, 3); n; n--) {
    const char *text = seeds[pick(h, sizeof seeds / sizeof *seeds)];
    insert(b, b->size, text, strlen(text));
  }
  for (uint64_t n = pick(h, 6); n; n--) damage(h, b);
}

/* ---- sending it ---- */

/* Read while there is something; true if anything came. */
static bool take_answers(int fd, int wait_ms, bool is_byte_by_byte)
{
  char bytes[4096];
  bool is_any = false;
  struct pollfd p = {.fd = fd, .events = POLLIN};
  while (poll(&p, 1, wait_ms) > 0) {
    ssize_t got = recv(fd, bytes, is_byte_by_byte ? 1 : sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) break;
    is_any = true;
    if (is_byte_by_byte && bytes[0] == '\n') is_byte_by_byte = false;
  }
  return is_any;
}

static void reset(int fd)
{
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void strike(hammer *h, const blow *b)
{
  int fd = served_connect(h->s);
  if (fd < 0) return;
  uint64_t how = pick(h, 8);
  size_t step = how == 1 ? 1 + pick(h, 7) : how == 2 ? 1 + pick(h, 400) : BLOW_SIZE_MAX;
  bool is_open = true;
  for (size_t at = 0; at < b->size && is_open; at += step)
    is_open = send_bytes(fd, b->data + at, b->size - at < step ? b->size - at : step);
  if (how == 3) reset(fd); /* at once, or after a look at the answer */
  if (how == 4) shutdown(fd, SHUT_WR);
  if (how != 3) h->answers += take_answers(fd, how == 5 ? 1 : ANSWER_MS, how == 6);
  if (how >= 5) reset(fd);
  close(fd);
}

static void *hammer_on(void *ctx)
{
  hammer *h = ctx;
  blow *b = malloc(sizeof *b);
  for (int i = 0; b && i < BLOWS_EACH; i++) {
    make_blow(h, b);
    strike(h, b);
  }
  free(b);
  return NULL;
}

/* ---- and after ---- */

/* Nobody is left but who asks. */
static void is_well(const served *s)
{
  served_await_metric(s, "perdure_connections", 1);
  served_await_metric(s, "perdure_requests_in_flight", 1);
  served_await_metric(s, "perdure_watchers", 0);
  reply r = ask_call(s, "main", "state.persistent.set", "{\"key\":\"well\",\"value\":1}");
  assert_int_equal(r.status, 200);
  reply_done(&r);
  r = ask(s, "POST", "/v1/call/audit.list", "Perdure-Role: operator\r\n", "{\"limit\":1}"); /* whose store is open from now on */
  assert_int_equal(r.status, 200);
  reply_done(&r);
}

static served *start(const char *toml)
{
  static const char *const args[] = {"--no-auth", "--log-level", "error", NULL};
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *path = text_of("%s/perdure.toml", home);
  mkdir(home, 0700);
  FILE *f = fopen(path, "w");
  fputs(toml, f);
  fclose(f);
  free(home), free(path);
  return served_start_in(folder, args);
}

static unsigned hammer_all(const served *s, uint64_t salt)
{
  hammer hammers[HAMMERS];
  unsigned answers = 0;
  for (unsigned i = 0; i < HAMMERS; i++) {
    hammers[i] = (hammer){.s = s, .state = seed * 1000003 + salt * 101 + i};
    assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_on, &hammers[i]), 0);
  }
  for (unsigned i = 0; i < HAMMERS; i++) {
    pthread_join(hammers[i].thread, NULL);
    answers += hammers[i].answers;
  }
  is_well(s);
  return answers;
}

static void want_verified(const served *s, const char *name)
{
  char *uri = text_of("sqlite:%s/home", s->folder);
  pd_store *store = NULL;
  pd_verify_report report = {0};
  assert_int_equal(pd_store_open(uri, name, NULL, &store, NULL), PD_OK);
  assert_int_equal(pd_verify(store, NULL, &report, NULL), PD_OK);
  assert_int_equal(report.findings, 0);
  pd_store_close(store, NULL);
  free(uri);
}

static void hammer__thousands_of_damaged_requests_leave_the_server_well(void **state)
{
  (void)state;
  served *s = start("[test.server]\nidle = \"1s\"\nrequest_time = \"1s\"\nheartbeat = \"1s\"\n");
  unsigned answers = hammer_all(s, 0);
  uint64_t files = served_metric(s, "process_open_fds"), bytes = served_metric(s, "process_resident_memory_bytes");
  answers += hammer_all(s, 1);
  uint64_t grown = served_metric(s, "process_resident_memory_bytes");
  grown = grown > bytes ? grown - bytes : 0;
  print_message("# %u of %d blows were answered; %llu KiB grown in the second half\n", answers, 2 * HAMMERS * BLOWS_EACH,
                (unsigned long long)grown >> 10);
  served_await_metric(s, "process_open_fds", files);
  assert_true(answers > HAMMERS * BLOWS_EACH / 10); /* else nothing was tested */
  if (!SERVED_IS_SANITIZED) assert_true(grown < GROWTH_MAX);
  assert_int_equal(served_stop(s), 0); /* under a sanitizer: and nothing leaked */
  want_verified(s, "main");
  served_free(s);
}

/* ---- those that are right, in odd ways ---- */

static void want_status(reply r, int status, const char *text)
{
  if (r.status != status || !strstr(r.body, text)) print_message("%s\n%s\n", r.head ? r.head : "(nothing)", r.body);
  assert_int_equal(r.status, status);
  assert_non_null(strstr(r.body, text));
  reply_done(&r);
}

static void expect__a_body_is_asked_for_and_one_that_is_too_large_is_not(void **state)
{
  (void)state;
  served *s = start("[server]\nbody_max = \"1 KiB\"\n");
  const char *head = "POST /v1/call/state.persistent.set HTTP/1.1\r\n" JSON "Expect: 100-continue\r\nContent-Length: ";
  char answer[64] = "";
  int fd = served_connect(s);
  assert_true(send_bytes(fd, head, strlen(head)) && send_bytes(fd, "21\r\n\r\n", 6));
  assert_true(recv(fd, answer, 25, MSG_WAITALL) == 25);
  assert_string_equal(answer, "HTTP/1.1 100 Continue\r\n\r\n");
  assert_true(send_bytes(fd, "{\"key\":\"k\",\"value\":1}", 21));
  want_status(read_reply(fd, false), 200, "\"version\":1");
  assert_true(send_bytes(fd, head, strlen(head)) && send_bytes(fd, "2000\r\n\r\n", 8));
  assert_true(recv(fd, answer, 12, MSG_PEEK | MSG_WAITALL) == 12);
  assert_memory_equal(answer, "HTTP/1.1 413", 12);
  want_status(read_reply(fd, false), 413, "\"LimitExceeded\"");
  close(fd);
  served_free(s);
}

/* Reads and writes take different ways through the server, and are answered in the order of the questions all the same. */
static void pipelined__requests_are_answered_in_their_order(void **state)
{
  (void)state;
  served *s = start("");
  int fd = served_connect(s);
  char *all = text_of("%s", "");
  for (int i = 1; i <= 10; i++) {
    char *body = text_of("{\"key\":\"k\",\"value\":%d}", i);
    char *more = text_of("%sPOST /v1/call/state.persistent.set HTTP/1.1\r\n" JSON "Content-Length: %zu\r\n\r\n%s"
                         "POST /v1/call/state.persistent.get HTTP/1.1\r\n" JSON "Content-Length: 11\r\n\r\n{\"key\":\"k\"}",
                         all, strlen(body), body);
    free(body), free(all);
    all = more;
  }
  assert_true(send_bytes(fd, all, strlen(all)));
  shutdown(fd, SHUT_WR); /* and there is nothing more to come */
  size_t used = 0;
  char *text = calloc(1, 65536), *at = text;
  for (ssize_t got; (got = read(fd, text + used, 65535 - used)) > 0;) used += (size_t)got;
  for (int i = 1; i <= 10; i++) {
    char *set = text_of("{\"version\":%d,", i), *get = text_of("{\"value\":%d,", i);
    at = at ? strstr(at, set) : NULL;
    at = at ? strstr(at, get) : NULL;
    free(set), free(get);
  }
  if (!at) print_message("%s\n", text);
  assert_non_null(at);
  free(text), free(all);
  close(fd);
  served_free(s);
}

static void half_closed__whoever_has_asked_gets_an_answer(void **state)
{
  static const char *const requests[] = {
    "POST /v1/call/state.persistent.set HTTP/1.1\r\n" JSON "Content-Length: 21\r\n\r\n{\"key\":\"k\",\"value\":1}",
    "POST /v1/call/queue.receive HTTP/1.1\r\n" JSON "Content-Length: 15\r\n\r\n{\"wait_ms\":300}",
    "POST /v1/call/state.persistent.list HTTP/1.1\r\n" JSON "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "GET /v1/agents/main/state HTTP/1.1\r\nHost: localhost\r\n\r\n",
  };
  (void)state;
  served *s = start("");
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    int fd = served_connect(s);
    assert_true(send_bytes(fd, requests[i], strlen(requests[i])));
    shutdown(fd, SHUT_WR);
    want_status(read_reply(fd, false), 200, "{");
    close(fd);
  }
  is_well(s);
  served_free(s);
}

static void slow__bytes_that_come_and_go_one_by_one_are_a_request_and_an_answer(void **state)
{
  (void)state;
  served *s = start("");
  size_t size = 300000, used = 0;
  char *value = malloc(size + 1), *input, *answer = calloc(1, size + 65536);
  memset(value, 'v', size);
  value[size] = 0;
  input = text_of("{\"key\":\"big\",\"value\":\"%s\"}", value);
  want_status(ask_call(s, "main", "state.persistent.set", input), 200, "\"version\":1");
  int fd = served_connect(s), small = 4096;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  const char *text = "POST /v1/call/state.persistent.get HTTP/1.1\r\n" JSON "Content-Length: 13\r\n\r\n{\"key\":\"big\"}";
  for (const char *at = text; *at; at++) assert_true(send_bytes(fd, at, 1));
  for (int i = 0; i < 1000; i++) used += (size_t)read(fd, answer + used, 1); /* the rest does not fit, and waits */
  want_status(ask_call(s, "main", "state.persistent.list", "{}"), 200, "\"count\":1");
  for (ssize_t got; !strstr(answer + (used > 100 ? used - 100 : 0), "updated_at") && (got = read(fd, answer + used, 8192)) > 0;)
    used += (size_t)got;
  const char *body = strstr(answer, "\r\n\r\n{\"value\":\"");
  assert_non_null(body);
  assert_memory_equal(body + strlen("\r\n\r\n{\"value\":\""), value, size);
  close(fd);
  free(value), free(input), free(answer);
  is_well(s);
  served_free(s);
}

static void reset__in_the_middle_of_bodies_and_answers_nothing_is_left(void **state)
{
  (void)state;
  served *s = start("[test.server]\nheartbeat = \"1s\"\n");
  char *value = malloc(200001), *input;
  memset(value, 'v', 200000);
  value[200000] = 0;
  input = text_of("{\"key\":\"big\",\"value\":\"%s\"}", value);
  want_status(ask_call(s, "main", "state.persistent.set", input), 200, "\"version\":1");
  is_well(s);
  uint64_t files = served_metric(s, "process_open_fds");
  static const char *const begun[] = {
    "POST /v1/call/state.persistent.set HTTP/1.1\r\n" JSON "Content-Length: 200000\r\n\r\n{\"key\":\"k\",\"value\":\"",
    "POST /v1/call/state.persistent.get HTTP/1.1\r\n" JSON "Content-Length: 13\r\n\r\n{\"key\":\"big\"}",
    "GET /v1/watch?from=start HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /v1/call/queue.receive HTTP/1.1\r\n" JSON "Content-Length: 15\r\n\r\n{\"wait_ms\":500}",
  };
  for (int i = 0; i < 400; i++) {
    char bytes[64];
    int fd = served_connect(s);
    const char *text = begun[i % 4];
    assert_true(send_bytes(fd, text, strlen(text)));
    if (i % 4 == 1 || i % 4 == 2) assert_true(recv(fd, bytes, sizeof bytes, 0) > 0);
    reset(fd);
    close(fd);
  }
  is_well(s);
  served_await_metric(s, "process_open_fds", files);
  assert_int_equal(served_stop(s), 0);
  free(value), free(input);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(expect__a_body_is_asked_for_and_one_that_is_too_large_is_not),
    cmocka_unit_test(pipelined__requests_are_answered_in_their_order),
    cmocka_unit_test(half_closed__whoever_has_asked_gets_an_answer),
    cmocka_unit_test(slow__bytes_that_come_and_go_one_by_one_are_a_request_and_an_answer),
    cmocka_unit_test(reset__in_the_middle_of_bodies_and_answers_nothing_is_left),
    cmocka_unit_test(hammer__thousands_of_damaged_requests_leave_the_server_well),
  };
  const char *given = getenv("PERDURE_SEED");
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = 1;
  seed = given && *given ? strtoull(given, NULL, 10) : seed % 1000000000 + 1;
  printf("# PERDURE_SEED=%llu\n", (unsigned long long)seed);
  return cmocka_run_group_tests_name("wire hammer", tests, NULL, NULL);
}
