/*
 * hostile_test.c: one agent with one token against an honest one. The hostile agent floods the server with long polls, watches, large
 * bodies that end a byte at a time, MCP sessions, batches, cancellations, sessions with large state, and tokens that it guesses: each by
 * itself, and all at once. Meanwhile the honest agent asks for everything there is: none of its requests fails, and they do not take long.
 * What the bodies take of the server's memory is the agent's share, not what it sends.
 *
 * How long is measured for each flood, beside what it takes without one. No request may take 10 s, which a server whose workers are all
 * taken by the flood does not keep. PERDURE_TORTURE=full: the 99th percentile has to be under 250 ms, too.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define POLLS 120   /* more than any pool has threads, and less than an agent may have in flight */
#define WATCHES 300 /* more than an agent may have */
#define BODIES 64   /* of 4 MB: four times the agent's share of all bytes */
#define HEAP_MAX ((uint64_t)160 << 20)
#define TALKERS 2   /* threads of each of the other floods */
#define GUESSERS 64 /* connections of one thread that guesses tokens */
#define ROUNDS 12
#define ROUNDS_FULL 100
#define WORST_MS (SERVED_IS_SANITIZED ? 40000 : 10000)
#define FULL_MS 250
#define LARGE ((size_t)4 << 20)

typedef enum flood {
  NONE,
  LONG_POLLS,
  WATCHERS,
  LARGE_BODIES,
  MCP_SESSIONS,
  BATCHES,
  CANCELLATIONS,
  LARGE_SESSIONS,
  WRONG_TOKENS,
  EVERYTHING,
  FLOODS
} flood;

static const char *const flood_names[] = {"no flood",    "long polls",        "watches",        "large bodies", "MCP sessions",
                                          "MCP batches", "MCP cancellations", "large sessions", "wrong tokens", "everything at once"};

typedef struct world {
  served *s;
  char *hostile, *honest, *operator; /* headers */
  atomic_bool is_over;
  atomic_uint ready; /* flooders that are at it */
} world;

static bool is_full(void)
{
  const char *torture = getenv("PERDURE_TORTURE");
  return torture && strcmp(torture, "full") == 0;
}

/* ---- the hostile agent ---- */

typedef struct flooder {
  world *w;
  flood kind;
  pthread_t thread;
} flooder;

static void send_request(int fd, const char *headers, const char *path, const char *body)
{
  char *text = text_of("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s", path,
                       headers, strlen(body), body);
  (void)!send_bytes(fd, text, strlen(text));
  free(text);
}

/* Connections that ask once, and wait. */
static void hold(world *w, int count, const char *path, const char *body)
{
  int *fds = calloc((size_t)count, sizeof *fds);
  for (int i = 0; i < count; i++) {
    fds[i] = served_connect(w->s);
    if (fds[i] < 0) continue;
    if (body)
      send_request(fds[i], w->hostile, path, body);
    else {
      char *text = text_of("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, w->hostile);
      (void)!send_bytes(fds[i], text, strlen(text));
      free(text);
    }
  }
  atomic_fetch_add(&w->ready, 1);
  while (!atomic_load(&w->is_over)) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  for (int i = 0; i < count; i++)
    if (fds[i] >= 0) close(fds[i]);
  free(fds);
}

/* All of a body but its end, which comes a byte at a time. Every other one does not say how long it will be. */
static void begin_body(world *w, int fd, bool is_chunked)
{
  static const char path[] = "/v1/call/state.persistent.set";
  char *head = text_of("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s%s%zu\r\n\r\n", path, w->hostile,
                       is_chunked ? "Transfer-Encoding: chunked\r\nX-About: " : "Content-Length: ", LARGE + 1024);
  char *size = text_of("%zx\r\n", LARGE + 1024), *value = calloc(1, LARGE);
  bool is_sent = send_bytes(fd, head, strlen(head)) && (!is_chunked || send_bytes(fd, size, strlen(size)));
  (void)!(is_sent && send_bytes(fd, value, LARGE));
  free(head);
  free(size);
  free(value);
}

static void trickle(world *w)
{
  int fds[BODIES];
  for (int i = 0; i < BODIES; i++) {
    fds[i] = served_connect(w->s);
    if (fds[i] >= 0) begin_body(w, fds[i], i % 2);
  }
  atomic_fetch_add(&w->ready, 1);
  for (int i = 0; !atomic_load(&w->is_over); i = (i + 1) % BODIES) {
    if (fds[i] >= 0) (void)!send(fds[i], " ", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  for (int i = 0; i < BODIES; i++)
    if (fds[i] >= 0) close(fds[i]);
}

/* One that asks again and again, whatever it is answered. */
static void talk(world *w, const char *path, const char *body, const char *more)
{
  char *headers = text_of("%sAccept: application/json, text/event-stream\r\n%s", w->hostile, more);
  bool is_first = true;
  while (!atomic_load(&w->is_over)) {
    int fd = served_connect(w->s);
    for (int status = 1; fd >= 0 && status && !atomic_load(&w->is_over);) {
      reply r = ask_on(fd, "POST", path, headers, body);
      status = r.is_closed ? 0 : r.status;
      reply_done(&r);
      if (is_first) atomic_fetch_add(&w->ready, 1);
      is_first = false;
    }
    if (fd >= 0) close(fd);
  }
  free(headers);
}

static char *batch(void)
{
  pd_buf text = {0};
  for (int i = 0; i < 100; i++) {
    char *item = text_of("%s{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"state_persistent_list\","
                         "\"arguments\":{}}}",
                         i ? "," : "[", i);
    assert_int_equal(pd_buf_append(&text, item, strlen(item), NULL), PD_OK);
    free(item);
  }
  assert_int_equal(pd_buf_append(&text, "]", 2, NULL), PD_OK);
  return (char *)text.data;
}

/* Begin sessions, and fill them. */
static void fill_sessions(world *w)
{
  char *value = malloc(LARGE + 1);
  memset(value, 'x', LARGE);
  value[LARGE] = 0;
  char *body = text_of("{\"key\":\"k\",\"value\":\"%s\"}", value);
  int fd = served_connect(w->s);
  bool is_first = true;
  while (fd >= 0 && !atomic_load(&w->is_over)) {
    char id[64] = "";
    reply r = ask_on(fd, "POST", "/v1/call/session.begin", w->hostile, "{}");
    const char *at = r.body ? strstr(r.body, "\"session_id\":\"") : NULL;
    if (at) sscanf(at + 14, "%63[^\"]", id);
    reply_done(&r);
    char *headers = text_of("%sPerdure-Session: %s\r\n", w->hostile, id);
    r = ask_on(fd, "POST", "/v1/call/state.session.set", headers, body);
    reply_done(&r);
    r = ask_on(fd, "POST", "/v1/call/state.session.get", headers, "{\"key\":\"k\"}");
    reply_done(&r);
    free(headers);
    if (is_first) atomic_fetch_add(&w->ready, 1);
    is_first = false;
  }
  if (fd >= 0) close(fd);
  free(body);
  free(value);
}

/* A well-formed token that nobody made, on many connections at once, again and again. */
static void guess(world *w)
{
  int fds[GUESSERS];
  char got[4096];
  unsigned long long number = 0;
  bool is_first = true;
  for (int i = 0; i < GUESSERS; i++) fds[i] = served_connect(w->s);
  while (!atomic_load(&w->is_over)) {
    for (int i = 0; i < GUESSERS; i++) {
      char *headers = text_of("Authorization: Bearer pd_%016llx_%064llx\r\n", number, number);
      if (fds[i] >= 0) send_request(fds[i], headers, "/v1/call/state.persistent.list", "{}");
      number++;
      free(headers);
    }
    for (int i = 0; i < GUESSERS; i++) {
      if (fds[i] >= 0 && recv(fds[i], got, sizeof got, 0) > 0) continue;
      if (fds[i] >= 0) close(fds[i]);
      fds[i] = served_connect(w->s);
    }
    if (is_first) atomic_fetch_add(&w->ready, 1);
    is_first = false;
  }
  for (int i = 0; i < GUESSERS; i++)
    if (fds[i] >= 0) close(fds[i]);
}

static void *run_flooder(void *ctx)
{
  flooder *f = ctx;
  char *text = NULL;
  switch (f->kind) {
  case LONG_POLLS: hold(f->w, POLLS, "/v1/call/queue.receive", "{\"wait_ms\":60000}"); break;
  case WATCHERS: hold(f->w, WATCHES, "/v1/watch?store=shared", NULL); break;
  case LARGE_BODIES: trickle(f->w); break;
  case MCP_SESSIONS:
    talk(f->w, "/mcp",
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
         "\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}",
         "");
    break;
  case BATCHES: talk(f->w, "/mcp", text = batch(), "MCP-Protocol-Version: 2025-03-26\r\n"); break;
  case CANCELLATIONS:
    talk(f->w, "/mcp", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}", "");
    break;
  case LARGE_SESSIONS: fill_sessions(f->w); break;
  case WRONG_TOKENS: guess(f->w); break;
  default: break;
  }
  free(text);
  return NULL;
}

static size_t start_floods(world *w, flood which, flooder *out)
{
  size_t count = 0;
  atomic_store(&w->is_over, false);
  atomic_store(&w->ready, 0);
  for (int kind = LONG_POLLS; kind < EVERYTHING; kind++) {
    if (which != EVERYTHING && (int)which != kind) continue;
    for (int i = 0; i < (kind <= LARGE_BODIES ? 1 : TALKERS); i++) out[count++] = (flooder){.w = w, .kind = (flood)kind};
  }
  for (size_t i = 0; i < count; i++) assert_int_equal(pthread_create(&out[i].thread, NULL, run_flooder, &out[i]), 0);
  int64_t end_ms = pd_clock_monotonic_ms() + SERVED_PATIENCE_S * 1000;
  while (atomic_load(&w->ready) < count) {
    if (pd_clock_monotonic_ms() > end_ms) fail_msg("%s: the flood does not begin", flood_names[which]);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return count;
}

static void stop_floods(world *w, flooder *flooders, size_t count)
{
  atomic_store(&w->is_over, true);
  for (size_t i = 0; i < count; i++) pthread_join(flooders[i].thread, NULL);
}

/* ---- the honest one ---- */

/* Its own delays are not the server's. */
static int connect_now(const served *s)
{
  int fd = served_connect(s);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  return fd;
}

#define KINDS 13

static const struct {
  const char *name, *method, *path, *body, *part; /* part: of the answer */
} questions[] = {
  {"get", "POST", "/v1/call/state.persistent.get", "{\"key\":\"k\"}", "\"value\":"},
  {"set", "POST", "/v1/call/state.persistent.set", "{\"key\":\"k\",\"value\":1}", "\"version\":"},
  {"large set", "POST", "/v1/call/state.persistent.set", NULL, "\"version\":"}, /* ask_everything has its body */
  {"list", "POST", "/v1/call/state.persistent.list", "{}", "\"k\""},
  {"history.log", "POST", "/v1/call/history.log", "{\"limit\":5}", "commits"},
  {"briefing", "POST", "/v1/call/state.briefing.generate", "{}", "{"},
  {"GET state", "GET", "/v1/agents/honest/state/k", NULL, "1"},
  {"MCP ping", "POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}", "\"result\""},
  {"MCP initialize", "POST", "/mcp",
   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
   "\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}",
   "protocolVersion"},
  {"session.begin", "POST", "/v1/call/session.begin", "{}", "session_id"},
};

typedef struct times {
  int64_t us[KINDS * ROUNDS_FULL];
  size_t count;
  int64_t worst_us[KINDS];
} times;

static const char *const other_names[] = {"queue round trip", "watch event", "long poll"};

static void note(times *t, size_t kind, int64_t begun_us)
{
  int64_t us = pd_clock_monotonic_us() - begun_us;
  t->us[t->count++] = us;
  if (us > t->worst_us[kind]) t->worst_us[kind] = us;
}

static reply want(world *w, int fd, const char *method, const char *path, const char *body, const char *part)
{
  char *headers = text_of("%sAccept: application/json, text/event-stream\r\n", w->honest);
  reply r = ask_on(fd, method, path, headers, body);
  free(headers);
  if (r.status != 200 || !strstr(r.body, part)) fail_msg("%s %s: %d %.300s", method, path, r.status, r.body ? r.body : "");
  return r;
}

static void message_id(const reply *r, char out[32])
{
  const char *at = strstr(r->body, "\"message_id\":\"");
  if (!at || sscanf(at + 14, "%31[^\"]", out) != 1) fail_msg("no message in %.300s", r->body);
}

static void acknowledge(world *w, int fd, const char *id)
{
  char *body = text_of("{\"message_ids\":[\"%s\"]}", id);
  reply r = want(w, fd, "POST", "/v1/call/queue.ack", body, "\"acknowledged\":1");
  reply_done(&r);
  free(body);
}

static void round_trip(world *w, int fd)
{
  char id[32];
  reply r = want(w, fd, "POST", "/v1/call/queue.send", "{\"to\":\"honest\",\"body\":1}", "message_id");
  reply_done(&r);
  r = want(w, fd, "POST", "/v1/call/queue.receive", "{}", "\"count\":1");
  message_id(&r, id);
  reply_done(&r);
  acknowledge(w, fd, id);
}

/* From the message to the answer of one who waits for it. */
static int64_t long_poll(world *w, int fd, int waiting)
{
  char id[32];
  send_request(waiting, w->honest, "/v1/call/queue.receive", "{\"wait_ms\":60000}");
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* most often it waits then; either way it is answered */
  int64_t begun_us = pd_clock_monotonic_us();
  reply r = want(w, fd, "POST", "/v1/call/queue.send", "{\"to\":\"honest\",\"body\":2}", "message_id");
  reply_done(&r);
  r = read_reply(waiting, false);
  if (r.status != 200 || !strstr(r.body, "\"count\":1")) fail_msg("long poll: %d %.300s", r.status, r.body ? r.body : "");
  message_id(&r, id);
  reply_done(&r);
  acknowledge(w, fd, id);
  return begun_us;
}

/* A stream: read until the text has come. */
static void read_until(int fd, const char *text)
{
  static char got[65536];
  size_t size = 0;
  for (;;) {
    ssize_t more = recv(fd, got + size, sizeof got - 1 - size, 0);
    if (more <= 0) fail_msg("the watch ended before it said %s", text);
    size += (size_t)more;
    got[size] = 0;
    if (strstr(got, text)) return;
    if (size > sizeof got / 2) {
      memmove(got, got + size - 4096, 4096);
      size = 4096;
    }
  }
}

static int open_watch(world *w)
{
  int fd = served_connect(w->s);
  char *text = text_of("GET /v1/watch?prefix=seen HTTP/1.1\r\nHost: localhost\r\n%s\r\n", w->honest);
  assert_true(send_bytes(fd, text, strlen(text)));
  free(text);
  read_until(fd, "event: hello");
  return fd;
}

static void watch_event(world *w, int fd, int watch, unsigned number)
{
  char *body = text_of("{\"key\":\"seen%u\",\"value\":1}", number), *key = text_of("\"seen%u\"", number);
  reply r = want(w, fd, "POST", "/v1/call/state.persistent.set", body, "\"version\":");
  reply_done(&r);
  read_until(watch, key);
  free(body);
  free(key);
}

static void ask_everything(world *w, unsigned rounds, times *t)
{
  static unsigned number;
  size_t count = sizeof questions / sizeof *questions;
  char *large = text_of("{\"key\":\"large\",\"value\":\"%0200000d\"}", 0);
  int fd = connect_now(w->s), waiting = connect_now(w->s), watch = open_watch(w);
  for (unsigned round = 0; round < rounds; round++) {
    for (size_t i = 0; i < count; i++) {
      int64_t begun_us = pd_clock_monotonic_us();
      const char *body = questions[i].body || strcmp(questions[i].method, "GET") == 0 ? questions[i].body : large;
      reply r = want(w, fd, questions[i].method, questions[i].path, body, questions[i].part);
      note(t, i, begun_us);
      reply_done(&r);
    }
    int64_t begun_us = pd_clock_monotonic_us();
    round_trip(w, fd);
    note(t, count, begun_us);
    begun_us = pd_clock_monotonic_us();
    watch_event(w, fd, watch, number++);
    note(t, count + 1, begun_us);
    begun_us = long_poll(w, fd, waiting);
    note(t, count + 2, begun_us);
  }
  close(fd);
  close(waiting);
  close(watch);
  free(large);
}

/* ---- both ---- */

static int compare(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t percentile_ms(times *t, unsigned percent)
{
  qsort(t->us, t->count, sizeof t->us[0], compare);
  return t->us[(t->count * percent + 99) / 100 - 1] / 1000;
}

static uint64_t heap_of(world *w)
{
  reply r = ask(w->s, "GET", "/metrics", w->operator, NULL);
  const char *at = r.body ? strstr(r.body, "\nperdure_heap_bytes ") : NULL;
  if (!at) fail_msg("%d %.300s", r.status, r.body ? r.body : "");
  uint64_t bytes = strtoull(at + strlen("\nperdure_heap_bytes "), NULL, 10);
  reply_done(&r);
  return bytes;
}

static void measure(world *w, flood which, unsigned rounds)
{
  flooder flooders[2 + TALKERS * FLOODS];
  static times t;
  memset(&t, 0, sizeof t);
  size_t count = start_floods(w, which, flooders), worst = 0;
  ask_everything(w, rounds, &t);
  uint64_t heap = which == LARGE_BODIES ? heap_of(w) : 0;
  stop_floods(w, flooders, count);
  for (size_t i = 0; i < KINDS; i++)
    if (t.worst_us[i] > t.worst_us[worst]) worst = i;
  size_t asked = sizeof questions / sizeof *questions;
  int64_t p50 = percentile_ms(&t, 50), p99 = percentile_ms(&t, 99);
  printf("# %-18s %4zu requests: p50 %lld ms, p99 %lld ms, worst %lld ms (%s)\n", flood_names[which], t.count, (long long)p50,
         (long long)p99, (long long)(t.us[t.count - 1] / 1000), worst < asked ? questions[worst].name : other_names[worst - asked]);
  if (heap) printf("# %llu MB of memory while %d MB of bodies are sent\n", (unsigned long long)heap >> 20, (int)(BODIES * LARGE >> 20));
  fflush(stdout);
  if (heap > HEAP_MAX && !SERVED_IS_SANITIZED) fail_msg("bodies of one agent take %llu bytes", (unsigned long long)heap);
  int64_t worst_ms = t.us[t.count - 1] / 1000;
  if (worst_ms >= WORST_MS) fail_msg("%s: a request took %lld ms", flood_names[which], (long long)worst_ms);
  if (is_full() && !SERVED_IS_SANITIZED && p99 >= FULL_MS)
    fail_msg("%s: p99 is %lld ms, and has to be under %d", flood_names[which], (long long)p99, FULL_MS);
}

static void hostile__an_honest_agent_is_served_whatever_another_floods_the_server_with(void **state)
{
  static const char *const args[] = {"--log-level", "error", NULL};
  unsigned rounds = is_full() ? ROUNDS_FULL : SERVED_IS_SANITIZED ? 3 : ROUNDS;
  (void)state;
  world w = {.s = served_start(args)};
  char *hostile = served_token(w.s, "create --agent hostile"), *honest = served_token(w.s, "create --agent honest");
  char *operator= served_token(w.s, "create --role operator");
  w.operator= text_of("Authorization: Bearer %s\r\n", operator);
  w.hostile = text_of("Authorization: Bearer %s\r\n", hostile);
  w.honest = text_of("Authorization: Bearer %s\r\n", honest);
  for (int which = NONE; which < FLOODS; which++) measure(&w, (flood)which, rounds);
  assert_int_equal(served_stop(w.s), 0);
  free(hostile);
  free(honest);
  free(operator);
  free(w.operator);
  free(w.hostile);
  free(w.honest);
  served_free(w.s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(hostile__an_honest_agent_is_served_whatever_another_floods_the_server_with)};
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
