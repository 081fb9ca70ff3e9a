/* soak.c: see soak.h. */
#include "crash/soak.h"

#include "support/temp_folder.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAILURES_PRINTED_MAX 20
#define KEYS_EACH 20
#define EVENT_WAIT_MS 60000

#define META                                                                                                                               \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"soak\","       \
  "\"version\":\"1\"},\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
#define LEGACY "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"

__attribute__((format(printf, 2, 3))) static void failed(soak *s, const char *fmt, ...)
{
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (atomic_fetch_add(&s->failures, 1) < FAILURES_PRINTED_MAX) printf("# %s\n", text);
}

static uint64_t pick(soak_client *c, uint64_t below)
{
  uint64_t x = c->random += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return (x ^ x >> 31) % below;
}

/* ---- asking ---- */

static void hang_up(soak_client *c)
{
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
}

static reply ask_as(soak_client *c, const char *method, const char *path, const char *more, const char *body)
{
  char headers[512];
  snprintf(headers, sizeof headers, "%s%s", c->headers, more);
  if (c->fd < 0) c->fd = served_connect(c->soak->server);
  if (c->fd < 0) failed(c->soak, "no connection: %s", strerror(errno));
  reply r = c->fd >= 0 ? ask_on(c->fd, method, path, headers, body) : (reply){.body = calloc(1, 1)};
  atomic_fetch_add(&c->soak->requests, 1);
  if (r.is_closed || !r.status) hang_up(c);
  return r;
}

/* S1: `statuses` are those that may be, as "200 409". True: it is the first of them. The answer is kept for the caller. */
static bool is_right(soak_client *c, const char *what, const reply *r, const char *statuses)
{
  char text[16];
  snprintf(text, sizeof text, "%d", r->status);
  if (!r->status || !strstr(statuses, text)) failed(c->soak, "%s: %d %.300s", what, r->status, r->body);
  return strncmp(statuses, text, 3) == 0;
}

static bool want(soak_client *c, const char *what, reply r, const char *statuses)
{
  bool is = is_right(c, what, &r, statuses);
  reply_done(&r);
  return is;
}

__attribute__((format(printf, 3, 4))) static reply call(soak_client *c, const char *capability, const char *fmt, ...)
{
  char *input = NULL, path[96];
  va_list args;
  va_start(args, fmt);
  if (vasprintf(&input, fmt, args) < 0) abort();
  va_end(args);
  snprintf(path, sizeof path, "/v1/call/%s", capability);
  reply r = ask_as(c, "POST", path, "", input);
  free(input);
  return r;
}

/* A text or number that follows "name": in JSON; "" if there is none. Where it ends, to look on from; NULL at the end. */
static const char *member(const char *json, const char *name, char *out, size_t size)
{
  char quoted[48];
  snprintf(quoted, sizeof quoted, "\"%s\":", name);
  const char *at = json ? strstr(json, quoted) : NULL;
  out[0] = 0;
  if (!at) return NULL;
  at += strlen(quoted);
  if (*at == '"') at++;
  size_t length = strcspn(at, "\",}]");
  snprintf(out, size, "%.*s", (int)length, at);
  return at + length;
}

/* ---- what they do ---- */

static void keep_session(soak_client *c)
{
  char id[64], more[128];
  reply r = call(c, "session.begin", "{}");
  bool is_begun = is_right(c, "session.begin", &r, "200");
  member(r.body, "session_id", id, sizeof id);
  reply_done(&r);
  if (!is_begun) return;
  snprintf(more, sizeof more, "Perdure-Session: %s\r\n", id);
  for (int i = 0; i < 3; i++)
    want(c, "state.session.set", ask_as(c, "POST", "/v1/call/state.session.set", more, "{\"key\":\"a\",\"value\":[1,2,3]}"), "200");
  want(c, "state.session.get", ask_as(c, "POST", "/v1/call/state.session.get", more, "{\"key\":\"a\"}"), "200");
  want(c, "session.end", call(c, "session.end", "{\"session_id\":\"%s\"}", id), "200");
}

static void keep_state(soak_client *c)
{
  static char filler[2001];
  char key[32];
  if (!filler[0]) memset(filler, 'x', 2000);
  snprintf(key, sizeof key, "c%02u.%u", c->index, (unsigned)pick(c, KEYS_EACH));
  switch (pick(c, 8)) {
  case 0: want(c, "delete", call(c, "state.persistent.delete", "{\"key\":\"%s\"}", key), "200 404"); break;
  case 1: want(c, "list", call(c, "state.persistent.list", "{\"prefix\":\"c%02u.\"}", c->index), "200"); break;
  case 2: want(c, "history", call(c, "state.persistent.history", "{\"key\":\"%s\",\"limit\":5}", key), "200 404"); break;
  case 3:
  case 4: want(c, "get", call(c, "state.persistent.get", "{\"key\":\"%s\"}", key), "200"); break;
  default:
    want(c, "set",
         call(c, "state.persistent.set", "{\"key\":\"%s\",\"value\":{\"turn\":%llu,\"pad\":\"%.*s\"}}", key, (unsigned long long)c->turn,
              (int)pick(c, 2000), filler),
         "200");
  }
}

/* Read, then write if nobody else did meanwhile. */
static void share(soak_client *c)
{
  char version[32];
  unsigned key = (unsigned)pick(c, 8);
  reply r = call(c, "state.shared.get", "{\"key\":\"s%u\"}", key);
  is_right(c, "state.shared.get", &r, "200 404");
  member(r.body, "version", version, sizeof version);
  reply_done(&r);
  want(c, "state.shared.set",
       call(c, "state.shared.set", "{\"key\":\"s%u\",\"value\":%llu,\"expected_version\":%s}", key, (unsigned long long)c->turn,
            *version ? version : "0"),
       "200 409");
}

static void send_messages(soak_client *c)
{
  char ids[2048] = "", id[64];
  want(c, "queue.send", call(c, "queue.send", "{\"to\":\"soak%u\",\"body\":{\"n\":%llu}}", c->agent, (unsigned long long)c->turn), "200");
  reply r = call(c, "queue.receive", "{\"max\":10}");
  is_right(c, "queue.receive", &r, "200");
  for (const char *at = r.body; (at = member(at, "message_id", id, sizeof id));)
    snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s\"%s\"", *ids ? "," : "", id);
  reply_done(&r);
  if (*ids) want(c, "queue.ack", call(c, "queue.ack", "{\"message_ids\":[%s]}", ids), "200");
}

/* A conversation from its beginning to its end, with a letter in its mailbox. Its name is used again: history keeps every name for ever,
 * as it should, and new ones would be growth of another kind (S2). */
static void converse(soak_client *c)
{
  char id[48], number[32], token[128];
  snprintf(id, sizeof id, "t%02u-%u", c->index, (unsigned)pick(c, 3));
  if (!want(c, "threads.create", call(c, "threads.create", "{\"thread_id\":\"%s\",\"state\":{\"a\":1}}", id), "200")) return;
  for (int i = 0; i < 2; i++)
    want(c, "threads.append",
         call(c, "threads.append",
              "{\"thread_id\":\"%s\",\"run_id\":\"r%d\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\",\"role\":\"user\","
              "\"content\":\"hello\"}]}",
              id, i, i),
         "200");
  want(c, "mailbox.send", call(c, "mailbox.send", "{\"thread_id\":\"%s\",\"body\":{\"a\":1}}", id), "200");
  reply r = call(c, "mailbox.claim", "{\"thread_id\":\"%s\",\"consumer\":\"soak\"}", id);
  is_right(c, "mailbox.claim", &r, "200");
  member(r.body, "number", number, sizeof number);
  member(r.body, "token", token, sizeof token);
  reply_done(&r);
  want(c, "mailbox.accept", call(c, "mailbox.accept", "{\"thread_id\":\"%s\",\"number\":%s,\"token\":\"%s\"}", id, number, token), "200");
  want(c, "threads.messages", call(c, "threads.messages", "{\"thread_id\":\"%s\"}", id), "200");
  want(c, "threads.delete", call(c, "threads.delete", "{\"thread_id\":\"%s\"}", id), "200");
}

static void read_with_etag(soak_client *c)
{
  char path[96], etag[96], more[128];
  snprintf(path, sizeof path, "/v1/agents/soak%u/state?prefix=c%02u&limit=20", c->agent, c->index);
  reply r = ask_as(c, "GET", path, "", NULL);
  is_right(c, "state by GET", &r, "200 404");
  bool is_there = r.status == 200;
  reply_header(&r, "ETag", etag, sizeof etag);
  reply_done(&r);
  snprintf(more, sizeof more, "If-None-Match: %s\r\n", etag);
  if (is_there) want(c, "state by GET, again", ask_as(c, "GET", path, more, NULL), "304 200");
}

static void look_back(soak_client *c)
{
  char path[96];
  want(c, "set", call(c, "state.persistent.set", "{\"key\":\"c%02u.back\",\"value\":%llu}", c->index, (unsigned long long)c->turn), "200");
  snprintf(path, sizeof path, "/v1/agents/soak%u/log?limit=5", c->agent);
  want(c, "log", ask_as(c, "GET", path, "", NULL), "200");
  snprintf(path, sizeof path, "/v1/agents/soak%u/diff?from=main~1&to=main", c->agent);
  want(c, "diff", ask_as(c, "GET", path, "", NULL), "200");
  snprintf(path, sizeof path, "/v1/agents/soak%u/state/c%02u.back?at=main~1", c->agent, c->index);
  want(c, "state at main~1", ask_as(c, "GET", path, "", NULL), "200 404");
}

static void speak_legacy_mcp(soak_client *c)
{
  char session[128], more[256];
  reply r =
    ask_as(c, "POST", "/mcp", "Accept: application/json, text/event-stream\r\n",
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
           "\"clientInfo\":{\"name\":\"soak\",\"version\":\"1\"}}}");
  bool is_there = is_right(c, "initialize", &r, "200");
  reply_header(&r, "Mcp-Session-Id", session, sizeof session);
  reply_done(&r);
  if (!is_there) return;
  snprintf(more, sizeof more, LEGACY "Mcp-Session-Id: %s\r\n", session);
  want(c, "initialized", ask_as(c, "POST", "/mcp", more, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"), "202");
  r = ask_as(
    c, "POST", "/mcp", more,
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"state_session_set\",\"arguments\":{\"key\":\"m\","
    "\"value\":1}}}");
  if (is_right(c, "tools/call", &r, "200") && !strstr(r.body, "\"isError\":false")) failed(c->soak, "tools/call: %.300s", r.body);
  reply_done(&r);
  want(c, "DELETE /mcp", ask_as(c, "DELETE", "/mcp", more, NULL), "204 200 202");
}

static void speak_modern_mcp(soak_client *c)
{
  reply r = ask_as(c, "POST", "/mcp", MODERN "Mcp-Name: state_persistent_set\r\n",
                   "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"state_persistent_set\",\"arguments\":{"
                   "\"key\":\"mcp\",\"value\":{\"a\":1}}," META "}}");
  if (is_right(c, "tools/call", &r, "200") && !strstr(r.body, "\"isError\":false")) failed(c->soak, "tools/call: %.300s", r.body);
  reply_done(&r);
}

/* ---- watching ---- */

/* Read until this text has come, or nothing comes; what has come. */
static char *read_until(int fd, const char *text)
{
  size_t used = 0, size = 1 << 18;
  char *got = calloc(1, size);
  struct pollfd p = {.fd = fd, .events = POLLIN};
  while (got && used + 1 < size && !strstr(got, text)) {
    int ready = poll(&p, 1, EVENT_WAIT_MS);
    ssize_t more = ready > 0 ? recv(fd, got + used, size - 1 - used, 0) : -1;
    if (more < 0 && ready && errno == EINTR) continue; /* a child of ours has ended */
    if (more <= 0) break;
    used += (size_t)more;
  }
  return got;
}

/* Come back to where it was, see its own change, and leave, politely or not. */
static void watch(soak_client *c)
{
  char request[512], key[64];
  int fd = served_connect(c->soak->server);
  snprintf(key, sizeof key, "\"key\":\"c%02u.seen\"", c->index);
  snprintf(request, sizeof request, "GET /v1/watch?prefix=c%02u.seen%s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%s\r\n", c->index,
           pick(c, 2) ? "&ref=*" : "", c->headers, *c->last_id ? "Last-Event-ID: " : "", c->last_id, *c->last_id ? "\r\n" : "");
  if (fd < 0 || !send_bytes(fd, request, strlen(request))) failed(c->soak, "watch: no connection");
  char *hello = read_until(fd, "event: hello");
  want(c, "set", call(c, "state.persistent.set", "{\"key\":\"c%02u.seen\",\"value\":%llu}", c->index, (unsigned long long)c->turn), "200");
  char *text = strstr(hello, key) ? hello : read_until(fd, key);
  if (!strstr(hello, " 200 OK") || !strstr(text, key)) failed(c->soak, "watch from '%s': %.200s… %.300s", c->last_id, hello, text);
  for (const char *at = text; (at = strstr(at, "id: ")); at++) { /* the last that is whole */
    const char *end = strstr(at, "\n\n");
    if (end) snprintf(c->last_id, sizeof c->last_id, "%.*s", (int)strcspn(at + 4, "\n"), at + 4);
  }
  if (text != hello) free(text);
  free(hello);
  atomic_fetch_add(&c->soak->requests, 1);
  struct linger now = {.l_onoff = 1};
  if (pick(c, 2)) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  if (fd >= 0) close(fd);
}

/* ---- what they do wrong ---- */

static void err(soak_client *c)
{
  static const char half[] = "POST /v1/call/state.persistent.set HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"key\":";
  char keep[sizeof c->headers];
  switch (pick(c, 6)) {
  case 0: want(c, "no JSON", call(c, "state.persistent.set", "{\"key\":"), "400"); break;
  case 1: want(c, "no capability", call(c, "state.no.such", "{}"), "404"); break;
  case 2: want(c, "no path", ask_as(c, "GET", "/v2/nothing", "", NULL), "404"); break;
  case 3: want(c, "another's store", ask_as(c, "GET", "/v1/agents/soak99/state", "", NULL), "403 404"); break;
  case 4: { /* leaves in the middle of its body */
    int fd = served_connect(c->soak->server);
    if (fd >= 0 && !send_bytes(fd, half, strlen(half))) failed(c->soak, "half a body was not taken");
    if (fd >= 0) close(fd);
    break;
  }
  default:
    memcpy(keep, c->headers, sizeof keep);
    snprintf(c->headers, sizeof c->headers, "Authorization: Bearer pd_0_0\r\n");
    want(c, "a token that is none", call(c, "state.persistent.list", "{}"), "401");
    memcpy(c->headers, keep, sizeof keep);
  }
}

/* A token's life: made, used, revoked, refused. */
static void change_tokens(soak_client *c)
{
  char keep[sizeof c->headers], id[96], token[SOAK_TOKEN_SIZE];
  memcpy(keep, c->headers, sizeof keep);
  snprintf(c->headers, sizeof c->headers, "Authorization: Bearer %s\r\n", c->soak->operator);
  reply r = call(c, "tokens.create", "{\"role\":\"agent\",\"agent\":\"soak%u\",\"rate\":1000,\"expires_in\":60}", c->agent);
  bool is_made = is_right(c, "tokens.create", &r, "200");
  member(r.body, "token_id", id, sizeof id);
  member(r.body, "token", token, sizeof token);
  reply_done(&r);
  if (is_made) {
    snprintf(c->headers, sizeof c->headers, "Authorization: Bearer %s\r\n", token);
    want(c, "with a new token", call(c, "state.persistent.get", "{\"key\":\"a\"}"), "200");
    snprintf(c->headers, sizeof c->headers, "Authorization: Bearer %s\r\n", c->soak->operator);
    want(c, "tokens.revoke", call(c, "tokens.revoke", "{\"token_id\":\"%s\"}", id), "200");
    snprintf(c->headers, sizeof c->headers, "Authorization: Bearer %s\r\n", token);
    want(c, "with a token that was revoked", call(c, "state.persistent.get", "{\"key\":\"a\"}"), "401");
  }
  memcpy(c->headers, keep, sizeof keep);
}

/* ---- all of them ---- */

static const struct {
  const char *name;
  void (*run)(soak_client *c);
  unsigned share; /* of 100 */
} kinds[SOAK_KINDS] = {
  {"state", keep_state, 40},
  {"shared", share, 10},
  {"sessions", keep_session, 6},
  {"queue", send_messages, 8},
  {"threads", converse, 4},
  {"reads", read_with_etag, 10},
  {"history", look_back, 6},
  {"legacy MCP", speak_legacy_mcp, 3},
  {"modern MCP", speak_modern_mcp, 4},
  {"watches", watch, 4},
  {"mistakes", err, 4},
  {"tokens", change_tokens, 1},
};

const char *soak_kind(unsigned index)
{
  return index < SOAK_KINDS ? kinds[index].name : NULL;
}

static void *run_client(void *ctx)
{
  soak_client *c = ctx;
  for (; !atomic_load(&c->soak->is_over); c->turn++) {
    uint64_t at = pick(c, 100);
    unsigned kind = 0;
    while (kind + 1 < SOAK_KINDS && at >= kinds[kind].share) at -= kinds[kind++].share;
    kinds[kind].run(c);
    atomic_fetch_add(&c->soak->done[kind], 1);
    if (pick(c, 50) == 0) hang_up(c); /* now and then a new connection */
    poll(NULL, 0, (int)c->soak->pause_ms);
  }
  hang_up(c);
  return NULL;
}

/* `perdure token create ARGS` on the server's home. */
static void make_token(const soak *s, const char *args, char out[SOAK_TOKEN_SIZE])
{
  char *command = text_of("%s --store %s/home token create %s 2>/dev/null", served_binary, s->server->folder, args);
  FILE *f = popen(command, "r");
  if (!f || !fgets(out, SOAK_TOKEN_SIZE, f) || pclose(f) != 0) abort();
  out[strcspn(out, "\n")] = 0;
  free(command);
}

void soak_start(soak *s)
{
  make_token(s, "--role operator", s->operator);
  for (unsigned i = 0; i < SOAK_AGENTS; i++) {
    char *args = text_of("--agent soak%u", i);
    make_token(s, args, s->agents[i]);
    free(args);
  }
  for (unsigned i = 0; i < SOAK_CLIENTS; i++) {
    soak_client *c = &s->clients[i];
    *c = (soak_client){.soak = s, .index = i, .agent = i % SOAK_AGENTS, .fd = -1, .random = s->seed * 1000003 + i};
    snprintf(c->headers, sizeof c->headers, "Authorization: Bearer %s\r\n", s->agents[c->agent]);
    if (pthread_create(&c->thread, NULL, run_client, c)) abort();
  }
}

void soak_end(soak *s)
{
  atomic_store(&s->is_over, true);
  for (unsigned i = 0; i < SOAK_CLIENTS; i++) pthread_join(s->clients[i].thread, NULL);
}
