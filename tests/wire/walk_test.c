/*
 * walk_test.c: every route and every method of MCP, with tokens that may do little or nothing. The lists are the server's own tables: what
 * is new there and has no entry here fails. Each answer is compared with what its token may do; no answer has a byte of what was planted
 * for others; and nothing is made or changed.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "wire/http.h"
#include "wire/mcp.h"
#include "wire/schema_input.h"
#include "wire/server_world.h"
#include "wire/stores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STATE "s3cr3t-state" /* vera's keys */
#define DEEP "s3cr3t-deep"   /* vera's threads, mailboxes, session, queue, work, alerts */
#define BOARD "s3cr3t-board" /* what all agents share */
#define HIDDEN "zq-hidden"   /* an agent that nobody names */
#define MINE "mine-all-mine" /* open/k of vera, which the narrowed token is for */
#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\n"

typedef enum caller_kind { NOBODY, EXPIRED, STRANGER, NARROW, FEW, AUDITOR } caller_kind;

typedef struct caller {
  caller_kind kind;
  const char *name, *more; /* more: headers */
  char *token;             /* NULL: none */
  char *session;           /* header of a legacy MCP session; NULL: none yet */
} caller;

typedef struct walk {
  served *s;
  caller operator, vera;
  const caller *who;
  char *session, *snapshot, *commit, *leaf; /* vera's session; a snapshot; a commit of a thread of hers, and a key in it */
  size_t count;
} walk;

/* ---- asking ---- */

static char *headers_of(const caller *c, const char *more)
{
  return text_of("%s%s%sAccept: application/json, text/event-stream\r\n%s%s", c->token ? "Authorization: Bearer " : "",
                 c->token ? c->token : "", c->token ? "\r\n" : "", c->more, more);
}

static reply ask_as(walk *k, const caller *c, const char *method, const char *path, const char *more, const char *body)
{
  char *headers = headers_of(c, more);
  reply r = ask(k->s, method, path, headers, body);
  free(headers);
  return r;
}

static bool has(const reply *r, const char *text)
{
  return memmem(r->body, r->body_size, text, strlen(text)) || strstr(r->head, text);
}

/* What no answer to this caller may have in it. */
static void check_bytes(const walk *k, const char *what, const reply *r)
{
  caller_kind kind = k->who->kind;
  if (kind == AUDITOR) return; /* who may look at everything */
  bool leaks = has(r, DEEP) || has(r, HIDDEN) || (kind != FEW && has(r, STATE)) || (kind == NARROW && has(r, BOARD)) ||
               (kind < STRANGER && (has(r, BOARD) || has(r, MINE))) || (kind == STRANGER && has(r, MINE));
  if (leaks) fail_msg("%s: %s: %d %s", k->who->name, what, r->status, r->body);
}

/* One request of the walk. `allowed`: may it succeed? Who is nobody is told so, and a server that is asked for anything does not break. */
static reply step(walk *k, const char *method, const char *path, const char *more, const char *body, bool allowed)
{
  reply r = ask_as(k, k->who, method, path, more, body);
  k->count++;
  check_bytes(k, path, &r);
  bool is_right = k->who->kind < STRANGER ? r.status == 401
                  : allowed               ? r.status >= 200 && r.status != 401 && r.status != 500
                                          : r.status >= 400 && r.status != 401 && r.status < 500;
  if (!is_right) fail_msg("%s: %s %s: %d %s", k->who->name, method, path, r.status, r.body);
  return r;
}

static void walk_on(walk *k, const char *method, const char *path, const char *more, const char *body, bool allowed)
{
  reply r = step(k, method, path, more, body, allowed);
  reply_done(&r);
}

/* A request whose answer may be a stream: what came until `part`, or the whole answer if it is none. */
static void step_stream(walk *k, const char *method, const char *path, const char *more, const char *body, const char *part, bool allowed)
{
  static char heard[1 << 20];
  char *headers = headers_of(k->who, more), *head;
  head = text_of("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%sContent-Length: %zu\r\nConnection: close\r\n\r\n%s", method, path, headers,
                 body ? "Content-Type: application/json\r\n" : "", body ? strlen(body) : 0, body ? body : "");
  int fd = served_connect(k->s);
  size_t used = 0;
  assert_true(send_bytes(fd, head, strlen(head)));
  heard[0] = 0;
  for (ssize_t got;
       !(strstr(heard, "text/event-stream") && strstr(heard, part)) && (got = read(fd, heard + used, sizeof heard - 1 - used)) > 0;) {
    used += (size_t)got;
    heard[used] = 0;
  }
  close(fd);
  k->count++;
  reply r = {.status = atoi(heard + 9), .head = heard, .body = heard, .body_size = used};
  check_bytes(k, path, &r);
  bool is_stream = strstr(heard, "text/event-stream") != NULL;
  if (k->who->kind < STRANGER ? r.status != 401 : !allowed && is_stream) fail_msg("%s: %s: %s", k->who->name, path, heard);
  free(head);
  free(headers);
}

static void make_as(walk *k, const caller *c, const char *more, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability);
  reply r = ask_as(k, c, "POST", path, more, input);
  if (r.status != 200) fail_msg("%s: %s", capability, r.body);
  reply_done(&r);
  free(path);
}

/* A text of the answer to a call. */
static char *learn(walk *k, const caller *c, const char *method, const char *path, const char *input, const char *member)
{
  reply r = ask_as(k, c, method, path, "", input);
  char *part = text_of("\"%s\":\"", member);
  const char *at = strstr(r.body, part);
  if (!at) fail_msg("%s: %s", path, r.body);
  at += strlen(part);
  char *text = strndup(at, strcspn(at, "\""));
  free(part);
  reply_done(&r);
  return text;
}

/* ---- what there is ---- */

static void plant(walk *k)
{
  caller hidden = {STRANGER, HIDDEN, "", served_token(k->s, "create --agent " HIDDEN), NULL};
  make_as(k, &hidden, "", "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  make_as(k, &hidden, "", "alerts.send", "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\"}");
  make_as(k, &k->vera, "", "state.persistent.set", "{\"key\":\"plan\",\"value\":\"" STATE "\"}");
  make_as(k, &k->vera, "", "state.persistent.set", "{\"key\":\"open/k\",\"value\":\"" MINE "\"}");
  make_as(k, &k->vera, "", "state.shared.set", "{\"key\":\"board\",\"value\":\"" BOARD "\",\"expected_version\":0}");
  make_as(k, &k->vera, "", "threads.create", "{\"thread_id\":\"tx\",\"state\":{\"a\":\"" DEEP "\"}}");
  make_as(k, &k->vera, "", "threads.append",
          "{\"thread_id\":\"tx\",\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m1\",\"content\":\"" DEEP "\"}]}");
  make_as(k, &k->vera, "", "mailbox.send", "{\"thread_id\":\"tx\",\"body\":\"" DEEP "\"}");
  make_as(k, &k->vera, "", "queue.send", "{\"to\":\"vera\",\"body\":\"" DEEP "\"}");
  make_as(k, &k->vera, "", "alerts.send", "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"" DEEP "\"}");
  make_as(k, &k->vera, "", "work.create", "{\"run_id\":\"run-1\",\"input\":\"" DEEP "\"}");
  k->session = learn(k, &k->vera, "POST", "/v1/call/session.begin", "{}", "session_id");
  char *in = text_of("Perdure-Session: %s\r\n", k->session);
  make_as(k, &k->vera, in, "state.session.set", "{\"key\":\"plan\",\"value\":\"" DEEP "\"}");
  k->snapshot = learn(k, &k->operator, "POST", "/v1/call/state.snapshot.create", "{}", "snapshot_id");
  k->commit = learn(k, &k->operator, "GET", "/v1/agents/vera/state?at=thread/tx", NULL, "commit");
  k->leaf = learn(k, &k->operator, "GET", "/v1/agents/vera/state?at=thread/tx", NULL, "key");
  free(in);
  free(hidden.token);
}

/* ---- routes ---- */

static bool has_effects(const char *capability)
{
  pd_capability_info info;
  return pd_capability_find(capability, &info, NULL) == PD_OK && !strstr(info.document, "\"side_effects\":[]");
}

static bool is_operators(const char *capability)
{
  pd_capability_info info;
  return pd_capability_find(capability, &info, NULL) == PD_OK && info.permission == PD_PERMIT_OPERATOR;
}

/* May a call of it about what is vera's succeed, whatever its input says? */
static bool may_call(const caller *c, const char *capability)
{
  switch (c->kind) {
  case STRANGER: return !is_operators(capability);
  case FEW: return strcmp(capability, "state.persistent.get") == 0;
  case AUDITOR: return !has_effects(capability);
  default: return false; /* the narrowed one is for other keys */
  }
}

static char *input_of(const walk *k, const char *capability, bool has_all)
{
  const char *const named[][2] = {{"thread_id", "tx"},  {"at", "thread/tx"},          {"from", "thread/tx"},
                                  {"to", "thread/tx"},  {"snapshot_id", k->snapshot}, {"run_id", "run-1"},
                                  {"message_id", "m1"}, {"ref", "thread/tx"},         {NULL, NULL}};
  schema_words words = {.agent = "vera", .session = k->session, .text = "plan", .named = named};
  pd_capability_info info;
  pd_json document;
  assert_int_equal(pd_capability_find(capability, &info, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_text(info.document), &document, NULL), PD_OK);
  return schema_input(&words, pd_json_member(document, "inputs"), has_all);
}

static void walk_calls(walk *k)
{
  pd_capability_info info;
  char *session = text_of("Perdure-Session: %s\r\n", k->session);
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    char *path = text_of("/v1/call/%s", info.name);
    for (int all = 0; all < 2; all++) {
      char *input = input_of(k, info.name, all);
      walk_on(k, "POST", path, all ? session : "", input, may_call(k->who, info.name));
      if (k->who->kind == STRANGER || k->who->kind == NARROW) /* who says to be somebody else is refused for that */
        walk_on(k, "POST", path, "Perdure-Agent: sim\r\n", input, false);
      free(input);
    }
    free(path);
  }
  walk_on(k, "POST", "/v1/call/no.such", "", "{}", false);
  reply r = step(k, "POST", "/v1/call/state.persistent.get", "", "{\"key\":\"open/k\"}", true); /* of its own state */
  if (k->who->kind == NARROW && !has(&r, MINE)) fail_msg("the narrowed token cannot read its own: %s", r.body);
  reply_done(&r);
  free(session);
}

static void walk_agents(walk *k)
{
  static const char *const names[] = {"vera", "sam", "shared", "system", "ghost"};
  char *leaf = text_of("state/%s", k->leaf);
  const char *const whats[] = {leaf, "state", "state/plan", "state/open/k", "log", "diff", "state?prefix=open/", "none", "state/message/0"};
  const char *const ats[] = {"",           "main",    "main~0", "thread/tx",  "%23%32", "%23%39",
                             "mailbox/tx", k->commit, "@meta",  "message:m1", "threads"};
  caller_kind kind = k->who->kind;
  for (size_t n = 0; n < COUNT_OF(names); n++)
    for (size_t w = 0; w < COUNT_OF(whats); w++)
      for (size_t a = 0; a < COUNT_OF(ats); a++) {
        bool is_key = strncmp(whats[w], "state/", 6) == 0, is_vera = n == 0;
        const char *field = strcmp(whats[w], "diff") == 0 ? "to" : "at";
        char *path = text_of("/v1/agents/%s/%s%s%s=%s", names[n], whats[w], strchr(whats[w], '?') ? "&" : "?", field, ats[a]);
        bool allowed = kind == AUDITOR || (kind == STRANGER && (n == 1 || n == 2)) || (kind == FEW && is_key) ||
                       (kind == NARROW && is_vera && strcmp(whats[w], "state/open/k") == 0);
        reply r = step(k, "GET", path, "", NULL, allowed);
        bool is_hidden = a == 3 || a == 6 || a == 7 || a == 8 || a == 10;
        if (is_hidden && kind != AUDITOR && r.status == 200) fail_msg("%s: %s: %s", k->who->name, path, r.body);
        reply_done(&r);
        free(path);
      }
  free(leaf);
  reply r = step(k, "GET", "/v1/agents/vera/state/open/k", "", NULL, kind != STRANGER);
  if (kind == NARROW && (r.status != 200 || !has(&r, MINE))) fail_msg("the narrowed token cannot read its own: %s", r.body);
  reply_done(&r);
}

static void walk_watch(walk *k)
{
  static const char *const queries[] = {"store=vera",  "store=vera&ref=*&from=start", "store=vera&ref=thread/tx&from=start",
                                        "store=ghost", "store=vera&prefix=open/",     "store=system"};
  for (size_t i = 0; i < COUNT_OF(queries); i++) {
    char *path = text_of("/v1/watch?%s", queries[i]);
    step_stream(k, "GET", path, "", NULL, "event: hello", k->who->kind == AUDITOR);
    free(path);
  }
  step_stream(k, "GET", "/v1/watch?store=shared&from=start", "", NULL, "event: hello", k->who->kind == STRANGER || k->who->kind == AUDITOR);
}

static void walk_home(walk *k)
{
  const char *method, *what;
  for (size_t i = 0; pd_home_verb_at(i, &method, &what); i++) {
    char *path = text_of("/v1/home/%s%s", what, what[strlen(what) - 1] == '/' ? "init" : "");
    bool is_get = strcmp(method, "GET") == 0;
    walk_on(k, method, path, "", is_get ? NULL : "{\"agent\":\"vera\",\"passphrase\":\"cGFzc3BocmFzZQ==\"}",
            k->who->kind == AUDITOR && is_get);
    free(path);
  }
}

static void walk_bundles(walk *k)
{
  static const char *const names[] = {"vera", "shared", "ghost", "system"};
  const char *what;
  bool writes;
  for (size_t n = 0; n < COUNT_OF(names); n++)
    for (size_t i = 0; pd_bundle_verb_at(i, &what, &writes); i++) {
      char *path = text_of("/v1/bundles/%s/%s?thread=tx", names[n], what);
      walk_on(k, "POST", path, "", "{}", k->who->kind == AUDITOR && !writes && strcmp(names[n], "system") != 0);
      free(path);
    }
}

static void walk_store(walk *k)
{
  static const char *const names[] = {"vera", "shared", "system", "ghost"};
  const char *method, *what;
  for (size_t n = 0; n < COUNT_OF(names); n++)
    for (size_t i = 0; pd_store_verb_at(i, &method, &what); i++) {
      bool is_get = strcmp(method, "GET") == 0, has_rest = *what && what[strlen(what) - 1] == '/';
      char *path = text_of("/v1/stores/%s%s%s%s?from=1&after=0&since=0&epoch=0&ms=1&mark=1&count=10&seq=1", names[n], *what ? "/" : "",
                           what, has_rest ? k->commit : "");
      bool allowed = k->who->kind == AUDITOR && is_get && n != 2 && strcmp(what, "bag") != 0;
      walk_on(k, method, path, "", is_get ? NULL : "{}", allowed);
      free(path);
    }
}

/* What an auditor may look at as a whole. */
static void walk_looks(walk *k)
{
  walk_on(k, "GET", "/v1/stores", "", NULL, k->who->kind == AUDITOR);
  walk_on(k, "GET", "/metrics", "", NULL, k->who->kind == AUDITOR);
}

static void walk_descriptions(walk *k)
{
  static const char *const paths[] = {"/v1/capabilities", "/v1/openapi.json", "/v1/capabilities/state.persistent.get"};
  for (size_t i = 0; i < COUNT_OF(paths); i++) walk_on(k, "GET", paths[i], "", NULL, true);
}

static void walk_open(walk *k)
{
  static const char *const paths[] = {"/", "/favicon.ico", "/healthz", "/readyz"};
  for (size_t i = 0; i < COUNT_OF(paths); i++) {
    reply r = ask_as(k, k->who, "GET", paths[i], "", NULL);
    check_bytes(k, paths[i], &r);
    if (r.status != 200 || has(&r, STATE) || has(&r, DEEP) || has(&r, BOARD) || has(&r, MINE) || has(&r, "vera"))
      fail_msg("%s: %d %s", paths[i], r.status, r.body);
    reply_done(&r);
    k->count++;
  }
}

/* ---- the methods of MCP ---- */

/* Does this caller's call of this tool, or read of this URI, have to fail? */
static void check_message(const walk *k, const char *what, const reply *r, bool allowed)
{
  if (k->who->kind < STRANGER) return;
  bool is_refused = strstr(r->body, "\"error\":") || strstr(r->body, "\"isError\":true");
  if (!allowed && !is_refused) fail_msg("%s: %s was let through: %d %s", k->who->name, what, r->status, r->body);
}

/* One message in both eras. `params` without braces. */
static void say(walk *k, const char *method, const char *name, const char *params, bool allowed)
{
  char *modern = text_of(MODERN "Mcp-Method: %s\r\n%s%s%s", method, *name ? "Mcp-Name: " : "", name, *name ? "\r\n" : "");
  char *new_body =
    text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s" META "}}", method, params, *params ? "," : "");
  char *old_body = text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}", method, params);
  const char *headers[] = {modern, k->who->session ? k->who->session : ""}, *bodies[] = {new_body, old_body};
  for (int i = 0; i < 2; i++) {
    reply r = step(k, "POST", "/mcp", headers[i], bodies[i], true);
    check_message(k, bodies[i], &r, allowed);
    reply_done(&r);
  }
  free(old_body);
  free(new_body);
  free(modern);
}

static void say_tools(walk *k)
{
  pd_capability_info info;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    char tool[128];
    snprintf(tool, sizeof tool, "%s", info.name);
    for (char *at = tool; (at = strchr(at, '.'));) *at = '_';
    for (int all = 0; all < 2; all++) {
      char *input = input_of(k, info.name, all), *params = text_of("\"name\":\"%s\",\"arguments\":%s", tool, input);
      bool allowed = may_call(k->who, info.name) && !is_operators(info.name);
      say(k, "tools/call", tool, params, allowed);
      free(params);
      free(input);
    }
  }
}

static const char *const uris[] = {"state://persistent/plan", "state://persistent/open/k", "state://shared/board",     "state://threads/tx",
                                   "state://commits/",        "state://persistent/..",     "state://persistent/%70lan"};

static void say_uris(walk *k, const char *method, bool has_name)
{
  for (size_t i = 0; i < COUNT_OF(uris); i++) {
    caller_kind kind = k->who->kind;
    char *uri = text_of("%s%s", uris[i], i == 4 ? k->commit : ""), *params = text_of("\"uri\":\"%s\"", uri);
    bool allowed = kind == STRANGER || kind == AUDITOR || (kind == FEW && i != 2 && i != 3) || (kind == NARROW && i == 1);
    say(k, method, has_name ? uri : "", params, allowed || strcmp(method, "resources/read") != 0);
    free(params);
    free(uri);
  }
}

static void say_reads(walk *k)
{
  say_uris(k, "resources/read", true);
}

static void say_subscribes(walk *k)
{
  say_uris(k, "resources/subscribe", false);
}

static void say_unsubscribes(walk *k)
{
  say_uris(k, "resources/unsubscribe", false);
}

static void say_listen(walk *k)
{
  step_stream(
    k, "POST", "/mcp", MODERN "Mcp-Method: subscriptions/listen\r\n",
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":{\"resourcesListChanged\":true,"
    "\"resourceSubscriptions\":[\"state://persistent/plan\",\"state://threads/tx\",\"state://shared/board\"]}," META "}}",
    "acknowledged", true);
}

static void say_complete(walk *k)
{
  static const char *const refs[][2] = {
    {"state://persistent/{key}", "key"}, {"state://shared/{key}", "key"}, {"state://threads/{id}", "id"}, {"state://commits/{id}", "id"}};
  for (size_t i = 0; i < COUNT_OF(refs); i++) {
    char *params =
      text_of("\"ref\":{\"type\":\"ref/resource\",\"uri\":\"%s\"},\"argument\":{\"name\":\"%s\",\"value\":\"\"}", refs[i][0], refs[i][1]);
    say(k, "completion/complete", "", params, true);
    free(params);
  }
  say(k, "completion/complete", "", "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"briefing\"},\"argument\":{\"name\":\"a\",\"value\":\"\"}",
      true);
}

static void say_prompt(walk *k)
{
  bool allowed = k->who->kind == STRANGER || k->who->kind == AUDITOR;
  say(k, "prompts/get", "briefing", "\"name\":\"briefing\"", allowed);
}

static const struct {
  const char *name;
  void (*say)(walk *k); /* NULL: once, with `params` */
  const char *params;
} methods[] = {
  {"tools/call", say_tools, NULL},
  {"tools/list", NULL, ""},
  {"resources/read", say_reads, NULL},
  {"resources/list", NULL, ""},
  {"resources/templates/list", NULL, ""},
  {"resources/subscribe", say_subscribes, NULL},
  {"resources/unsubscribe", say_unsubscribes, NULL},
  {"subscriptions/listen", say_listen, NULL},
  {"prompts/list", NULL, ""},
  {"prompts/get", say_prompt, NULL},
  {"completion/complete", say_complete, NULL},
  {"server/discover", NULL, ""},
  {"initialize", NULL, "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}"},
  {"ping", NULL, ""},
  {"logging/setLevel", NULL, "\"level\":\"debug\""},
};

/* A session of the older era, for who gets one. */
static void begin_session(walk *k, caller *c)
{
  char id[128] = "";
  reply r = ask_as(k, c, "POST", "/mcp", "",
                   "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
                   "\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  reply_header(&r, "Mcp-Session-Id", id, sizeof id);
  if (r.status == 200) c->session = text_of("Mcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n", id);
  reply_done(&r);
}

static void walk_mcp(walk *k)
{
  for (size_t i = 0; pd_mcp_method_at(i); i++) {
    size_t m = 0;
    while (m < COUNT_OF(methods) && strcmp(methods[m].name, pd_mcp_method_at(i)) != 0) m++;
    if (m == COUNT_OF(methods)) fail_msg("the method %s has no entry in this walk", pd_mcp_method_at(i));
    if (methods[m].say)
      methods[m].say(k);
    else
      say(k, methods[m].name, "", methods[m].params, true);
  }
  static const char *const notices[] = {"notifications/cancelled", "notifications/initialized", "no/such"};
  for (size_t i = 0; i < COUNT_OF(notices); i++) {
    char *body = text_of("{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{\"requestId\":1}}", notices[i]);
    walk_on(k, "POST", "/mcp", "", body, true);
    free(body);
  }
}

static void walk_mcp_stream(walk *k)
{
  walk_on(k, "GET", "/mcp", "", NULL, false);                                               /* without a session */
  if (k->vera.session) step_stream(k, "GET", "/mcp", k->vera.session, NULL, "data", false); /* with another's */
}

static void walk_mcp_end(walk *k)
{
  walk_on(k, "DELETE", "/mcp", "", NULL, false);
  if (k->vera.session) walk_on(k, "DELETE", "/mcp", k->vera.session, NULL, false);
}

/* ---- the walk ---- */

static const struct {
  const char *method, *path;
  void (*go)(walk *k);
} entries[] = {
  {"POST", "/v1/call/", walk_calls},
  {"GET", "/v1/capabilities", walk_descriptions},
  {"GET", "/v1/capabilities/", walk_descriptions},
  {"GET", "/v1/openapi.json", walk_descriptions},
  {"GET", "/v1/agents/", walk_agents},
  {"GET", "/v1/watch", walk_watch},
  {"POST", "/v1/bundles/", walk_bundles},
  {"GET", "/v1/home/", walk_home},
  {"POST", "/v1/home/", walk_home},
  {"GET", "/v1/stores", walk_looks},
  {"GET", "/v1/stores/", walk_store},
  {"POST", "/v1/stores/", walk_store},
  {"GET", "/metrics", walk_looks},
  {"POST", "/mcp", walk_mcp},
  {"GET", "/mcp", walk_mcp_stream},
  {"DELETE", "/mcp", walk_mcp_end},
  {"GET", "/", walk_open},
  {"GET", "/favicon.ico", walk_open},
  {"GET", "/healthz", walk_open},
  {"GET", "/readyz", walk_open},
};

/* Everything that there is to see of what a walk might have made: files, the tails of logs, sessions, alerts, approvals, agents. */
static char *look(walk *k)
{
  static const char *const paths[][2] = {{"GET", "/v1/stores/vera"},       {"GET", "/v1/stores/shared"},
                                         {"GET", "/v1/stores/" HIDDEN},    {"POST", "/v1/call/approvals.list"},
                                         {"POST", "/v1/call/agents.list"}, {"POST", "/v1/call/state.snapshot.list"},
                                         {"POST", "/v1/call/tokens.list"}};
  pd_buf out = {0};
  char line[1024], *command = text_of("cd %s/home && find . -type f | grep -v -e '-wal$' -e '-shm$' -e mcp | sort", k->s->folder);
  FILE *f = popen(command, "r");
  while (f && fgets(line, sizeof line, f)) assert_int_equal(pd_buf_append(&out, line, strlen(line), NULL), PD_OK);
  assert_int_equal(pclose(f), 0);
  for (size_t i = 0; i < COUNT_OF(paths); i++) {
    reply r = ask_as(k, &k->operator, paths[i][0], paths[i][1], "", *paths[i][0] == 'P' ? "{}" : NULL);
    assert_int_equal(r.status, 200);
    if (strstr(r.body, "ghost")) fail_msg("a ghost is there: %s", r.body);
    for (char *at = r.body; (at = strstr(at, "\"last_activity\":\""));) /* what vera herself does goes on */
      for (at += strlen("\"last_activity\":\""); *at != '"'; at++) *at = '.';
    assert_int_equal(pd_buf_printf(&out, NULL, "%s: %s\n", paths[i][1], r.body), PD_OK);
    reply_done(&r);
  }
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  free(command);
  return (char *)out.data;
}

static void go_as(walk *k, caller *c)
{
  k->who = c;
  begin_session(k, c);
  char *before = look(k);
  size_t count = k->count;
  for (size_t i = 0; pd_route_at(i); i++) {
    const pd_route *route = pd_route_at(i);
    size_t e = 0;
    while (e < COUNT_OF(entries) && (strcmp(entries[e].method, route->method) != 0 || strcmp(entries[e].path, route->path) != 0)) e++;
    if (e == COUNT_OF(entries)) fail_msg("the route %s %s has no entry in this walk", route->method, route->path);
    bool is_done = false; /* by an entry before */
    for (size_t d = 0; d < e; d++) is_done = is_done || entries[d].go == entries[e].go;
    if (!is_done) entries[e].go(k);
  }
  char *after = look(k);
  if (c->kind != STRANGER && strcmp(before, after) != 0) fail_msg("%s made something:\n%s\n%s", c->name, before, after);
  print_message("%s: %zu requests\n", c->name, k->count - count);
  free(before);
  free(after);
  free(c->session);
  c->session = NULL;
}

static void walk_set_up(walk *k)
{
  static const char *const none[] = {NULL};
  *k = (walk){.s = served_start(none)};
  k->operator=(caller){STRANGER, "operator", "", served_token(k->s, "create --role operator"), NULL};
  k->vera = (caller){STRANGER, "vera", "", served_token(k->s, "create --agent vera"), NULL};
  plant(k);
  begin_session(k, &k->vera);
}

static void walk_done(walk *k, caller *c)
{
  served_free(k->s);
  free(c->token);
  free(k->operator.token);
  free(k->vera.token);
  free(k->vera.session);
  free(k->session);
  free(k->snapshot);
  free(k->commit);
  free(k->leaf);
}

static void run_walk(caller_kind kind, const char *name, const char *more, const char *args)
{
  walk k;
  walk_set_up(&k);
  caller c = {kind, name, more, args ? served_token(k.s, args) : NULL, NULL};
  if (kind == STRANGER) make_as(&k, &c, "", "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  for (int i = 0; kind == EXPIRED && i < 6000; i++) {
    reply r = ask_as(&k, &c, "GET", "/v1/capabilities", "", NULL);
    bool is_over = r.status == 401;
    reply_done(&r);
    if (is_over) break;
    usleep(10000);
  }
  go_as(&k, &c);
  walk_done(&k, &c);
}

static void walk__without_a_token(void **state)
{
  (void)state;
  run_walk(NOBODY, "nobody", "", NULL);
}

static void walk__with_an_expired_token(void **state)
{
  (void)state;
  run_walk(EXPIRED, "expired", "", "create --agent vera --expires 1s");
}

static void walk__with_a_strangers_token(void **state)
{
  (void)state;
  run_walk(STRANGER, "stranger", "", "create --agent sam");
}

static void walk__with_a_token_for_one_capability_and_one_prefix(void **state)
{
  (void)state;
  run_walk(NARROW, "narrowed", "", "create --agent vera --capability state.persistent.get --prefix open/");
}

static void walk__with_an_operators_token_for_one_capability(void **state)
{
  (void)state;
  run_walk(FEW, "narrowed operator", "Perdure-Agent: vera\r\n", "create --role operator --capability state.persistent.get");
}

static void walk__with_a_token_for_one_capability(void **state)
{
  (void)state;
  run_walk(FEW, "one capability", "", "create --agent vera --capability state.persistent.get");
}

static void walk__with_an_auditors_token(void **state)
{
  (void)state;
  run_walk(AUDITOR, "auditor", "Perdure-Agent: vera\r\n", "create --role auditor");
}

static void walk__with_an_auditors_token_for_an_agent_that_is_not_there(void **state)
{
  (void)state;
  run_walk(AUDITOR, "auditor of a ghost", "Perdure-Agent: ghost\r\n", "create --role auditor");
}

static void walk__with_an_auditors_token_as_an_agent_that_is_not_there(void **state)
{
  (void)state;
  run_walk(AUDITOR, "auditor as a ghost", "Perdure-Agent: ghost\r\nPerdure-Role: agent\r\n", "create --role auditor");
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(walk__without_a_token),
    cmocka_unit_test(walk__with_an_expired_token),
    cmocka_unit_test(walk__with_a_strangers_token),
    cmocka_unit_test(walk__with_a_token_for_one_capability_and_one_prefix),
    cmocka_unit_test(walk__with_an_operators_token_for_one_capability),
    cmocka_unit_test(walk__with_a_token_for_one_capability),
    cmocka_unit_test(walk__with_an_auditors_token),
    cmocka_unit_test(walk__with_an_auditors_token_for_an_agent_that_is_not_there),
    cmocka_unit_test(walk__with_an_auditors_token_as_an_agent_that_is_not_there),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  return cmocka_run_group_tests_name("wire walk", tests, NULL, NULL);
}
