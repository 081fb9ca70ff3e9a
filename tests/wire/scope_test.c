/*
 * scope_test.c: what a token may do holds on every way in: points in history, watches, cancellations, sessions; and an auditor makes
 * nothing. The walk of all routes and methods is walk_test.c.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "s3cr3t-8c1f"
#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"

typedef struct world {
  served *s;
  char *writer, *narrow, *other, *operator, * auditor; /* tokens; narrow: of writer, for state.persistent.* */
} world;

static reply post(const world *w, const char *token, const char *path, const char *more, const char *body)
{
  char *headers = text_of("Authorization: Bearer %s\r\nAccept: application/json, text/event-stream\r\n%s", token, more);
  reply r = ask(w->s, "POST", path, headers, body);
  free(headers);
  return r;
}

static reply get(const world *w, const char *token, const char *path)
{
  char *headers = text_of("Authorization: Bearer %s\r\n", token);
  reply r = ask(w->s, "GET", path, headers, NULL);
  free(headers);
  return r;
}

/* A call that succeeds; its answer, freed by the caller. */
static char *call(const world *w, const char *token, const char *more, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability);
  reply r = post(w, token, path, more, input);
  if (r.status != 200) fail_msg("%s %s: %d %s", capability, input, r.status, r.body);
  char *answer = strdup(r.body);
  reply_done(&r);
  free(path);
  return answer;
}

static void make(const world *w, const char *token, const char *capability, const char *input)
{
  free(call(w, token, "", capability, input));
}

/* The text of a member of an answer, wherever it is first. */
static char *text_in(const char *answer, const char *name)
{
  char *part = text_of("\"%s\":\"", name);
  const char *at = strstr(answer, part);
  if (!at) fail_msg("no %s in %s", name, answer);
  at += strlen(part);
  free(part);
  return strndup(at, strcspn(at, "\""));
}

/* What came on a stream until `part` did, after what is in `out` already. */
static void read_until(int fd, const char *part, char *out, size_t size)
{
  size_t used = strlen(out);
  while (!strstr(out, part)) {
    ssize_t got = read(fd, out + used, size - 1 - used);
    if (got <= 0) fail_msg("the stream ended before: %s\n%s", part, out);
    used += (size_t)got;
    out[used] = 0;
  }
}

static char *begin(const world *w, const char *token)
{
  char *answer = call(w, token, "", "session.begin", "{}"), *id = text_in(answer, "session_id");
  free(answer);
  return id;
}

static int set_up(void **state)
{
  static const char *const none[] = {NULL};
  world *w = calloc(1, sizeof *w);
  w->s = served_start(none);
  w->writer = served_token(w->s, "create --agent writer");
  w->narrow = served_token(w->s, "create --agent writer --capability 'state.persistent.*'");
  w->other = served_token(w->s, "create --agent other");
  w->operator= served_token(w->s, "create --role operator");
  w->auditor = served_token(w->s, "create --role auditor");
  *state = w;
  return 0;
}

static int tear_down(void **state)
{
  world *w = *state;
  served_free(w->s);
  free(w->writer);
  free(w->narrow);
  free(w->other);
  free(w->operator);
  free(w->auditor);
  free(w);
  return 0;
}

/* ---- points in history ---- */

/* A writer with a thread and a mailbox, and a tag that the operator has put on the thread. */
static void plant(const world *w)
{
  make(w, w->writer, "state.persistent.set", "{\"key\":\"plan\",\"value\":1}");
  make(w, w->writer, "threads.create", "{\"thread_id\":\"tx\"}");
  make(w, w->writer, "threads.append",
       "{\"thread_id\":\"tx\",\"run_id\":\"r1\",\"reason\":\"UserMessage\","
       "\"messages\":[{\"id\":\"m1\",\"role\":\"user\",\"content\":\"" SECRET "\"}]}");
  make(w, w->writer, "mailbox.send", "{\"thread_id\":\"tx\",\"body\":\"" SECRET "\"}");
  make(w, w->writer, "state.persistent.set", "{\"key\":\"plan\",\"value\":2}");
}

/* Keys at a point, as the operator sees them. */
static void each_key(const world *w, const char *at, void (*visit)(const world *w, const char *at, const char *key))
{
  char *path = text_of("/v1/agents/writer/state?at=%s", at);
  reply r = get(w, w->operator, path);
  pd_json json, item;
  if (r.status == 200) {
    assert_int_equal(pd_json_parse(pd_text(r.body), &json, NULL), PD_OK);
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(json, "entries"));
    while (pd_json_walk_next(&walk, NULL, &item)) {
      pd_buf key = {0};
      assert_int_equal(pd_json_decode(pd_json_member(item, "key"), &key, NULL), PD_OK);
      assert_int_equal(pd_buf_byte(&key, 0, NULL), PD_OK);
      visit(w, at, (const char *)key.data);
      pd_buf_done(&key);
    }
  }
  reply_done(&r);
  free(path);
}

static size_t seen, tried; /* secrets by the operator; keys that others tried */

/* Who may not see it is told that there is no such point, and not what lies there. */
static void try_key(const world *w, const char *at, const char *key)
{
  char *path = text_of("/v1/agents/writer/state/%s?at=%s", key, at);
  const char *const tokens[] = {w->writer, w->narrow, w->other};
  reply r = get(w, w->operator, path);
  bool is_secret = strstr(r.body, SECRET);
  seen += is_secret;
  reply_done(&r);
  for (size_t i = 0; i < COUNT_OF(tokens); i++) {
    r = get(w, tokens[i], path);
    if (strstr(r.body, SECRET)) fail_msg("token %zu, %s: %s", i, path, r.body);
    if (is_secret && r.status != 404 && r.status != 403) fail_msg("token %zu, %s: %d %s", i, path, r.status, r.body);
    reply_done(&r);
    tried++;
  }
  free(path);
}

static void try_point(const world *w, const char *at)
{
  static const char *const forms[] = {"log?at=%s", "diff?to=%s", "diff?from=%s", "state?at=%s"};
  for (size_t i = 0; i < COUNT_OF(forms); i++) {
    char *tail = text_of(forms[i], at), *path = text_of("/v1/agents/writer/%s", tail);
    reply r = get(w, w->narrow, path);
    if (strstr(r.body, "message/") || strstr(r.body, "letter") || r.status == 200) fail_msg("%s: %d %s", path, r.status, r.body);
    reply_done(&r);
    free(path);
    free(tail);
  }
  each_key(w, at, try_key);
}

static void scope__at_reaches_no_thread_and_no_mailbox_in_any_form(void **state)
{
  world *w = *state;
  plant(w);
  static const char *const points[] = {"thread/tx", "thread/tx~", "thread/tx~0", "mailbox/tx", "threads", "@meta"};
  for (size_t i = 0; i < COUNT_OF(points); i++) try_point(w, points[i]);
  assert_true(seen >= 2);
  char *head = NULL;
  for (unsigned n = 1; n < 40; n++) { /* the numbers of all records */
    char at[16];
    snprintf(at, sizeof at, "%%23%u", n);
    each_key(w, at, try_key);
  }
  reply r = get(w, w->operator, "/v1/agents/writer/state?at=thread/tx");
  head = text_in(r.body, "commit");
  reply_done(&r);
  try_point(w, head);
  head[12] = 0;
  try_point(w, head);
  char *tag = text_of("%s --store %s/home --agent writer tag on-thread %s >/dev/null 2>&1", served_binary, w->s->folder, head);
  assert_int_equal(system(tag), 0);
  try_point(w, "on-thread");
  assert_true(tried > 20);
  r = get(w, w->narrow, "/v1/agents/writer/state/plan?at=main~"); /* what is its own it reads as before */
  assert_string_equal(r.body, "1");
  reply_done(&r);
  free(tag);
  free(head);
}

/* ---- watches ---- */

/* What a watch of a token says from the start until it has told of `part`. */
static void hear(const world *w, const char *token, const char *query, const char *part, char *out, size_t size)
{
  char *head = text_of("GET /v1/watch?%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", query, token);
  int fd = served_connect(w->s);
  assert_true(send_bytes(fd, head, strlen(head)));
  *out = 0;
  read_until(fd, part, out, size);
  close(fd);
  free(head);
}

static void scope__a_watch_of_all_refs_tells_of_no_hidden_one(void **state)
{
  world *w = *state;
  static char heard[1 << 18];
  plant(w);
  make(w, w->writer, "state.persistent.set", "{\"key\":\"the-end\",\"value\":2}");
  static const char *const hidden[] = {"store=writer&ref=thread/tx", "store=writer&ref=mailbox/tx&from=start", "store=writer&ref=@meta"};
  const char *const tokens[] = {w->writer, w->narrow};
  for (size_t t = 0; t < COUNT_OF(tokens); t++) {
    hear(w, tokens[t], "store=writer&ref=*&from=start", "the-end", heard, sizeof heard);
    assert_non_null(strstr(heard, "\"plan\""));
    assert_null(strstr(heard, "thread"));
    assert_null(strstr(heard, "mailbox"));
    for (size_t i = 0; i < COUNT_OF(hidden); i++) {
      char *path = text_of("/v1/watch?%s", hidden[i]);
      reply r = get(w, tokens[t], path);
      assert_int_equal(r.status, 403);
      reply_done(&r);
      free(path);
    }
  }
  hear(w, w->operator, "store=writer&ref=*&from=start", "the-end", heard, sizeof heard);
  assert_non_null(strstr(heard, "thread/tx"));
}

/* One that is live, not one that catches up: other code. */
static void scope__a_live_watch_tells_of_no_hidden_ref_either(void **state)
{
  world *w = *state;
  static char heard[1 << 18];
  plant(w);
  char *head = text_of("GET /v1/watch?store=writer&ref=* HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", w->narrow);
  int fd = served_connect(w->s);
  assert_true(send_bytes(fd, head, strlen(head)));
  for (int round = 0; round < 5; round++) {
    char *part = text_of("live-%d", round), *put = text_of("{\"key\":\"%s\",\"value\":1}", part);
    if (round) {
      char *letter = text_of("{\"thread_id\":\"tx\",\"body\":%d}", round);
      make(w, w->writer, "mailbox.send", letter);
      make(w, w->writer, "state.persistent.set", put);
      free(letter);
    } else {
      free(part);
      part = strdup("event: hello");
    }
    read_until(fd, part, heard, sizeof heard);
    free(put);
    free(part);
  }
  assert_null(strstr(heard, "mailbox"));
  assert_null(strstr(heard, "thread"));
  close(fd);
  free(head);
}

/* ---- whose call it is ---- */

/* A call that waits for mail: sent, and begun, as the head of its stream tells. */
static int wait_for_mail(const world *w, const char *headers, const char *body, char *out, size_t size)
{
  char *head = text_of("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                       "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
                       w->writer, headers, strlen(body), body);
  int fd = served_connect(w->s);
  assert_true(send_bytes(fd, head, strlen(head)));
  *out = 0;
  read_until(fd, "text/event-stream", out, size);
  free(head);
  return fd;
}

#define MODERN_CALL "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: queue_receive\r\n"
#define MODERN_NOTICE "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: notifications/cancelled\r\n"
#define RECEIVE(meta)                                                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","                                                                               \
  "\"params\":{\"name\":\"queue_receive\",\"arguments\":{\"wait_ms\":60000}" meta "}}"
#define CANCEL(meta) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1" meta "}}"

static char *initialize(const world *w, const char *token)
{
  char id[128];
  reply r = post(w, token, "/mcp", "",
                 "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
                 "\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  assert_int_equal(r.status, 200);
  reply_header(&r, "Mcp-Session-Id", id, sizeof id);
  reply_done(&r);
  return text_of("Mcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n", id);
}

static void cancel(const world *w, const char *token, const char *headers, const char *body)
{
  reply r = post(w, token, "/mcp", headers, body);
  assert_int_equal(r.status, 202);
  reply_done(&r);
}

/* The writer waits; others cancel what has the same id; it still gets its mail. */
static void expect_undisturbed(const world *w, const char *headers, const char *body)
{
  static char heard[65536];
  char *session = initialize(w, w->other), *own = initialize(w, w->writer);
  int fd = wait_for_mail(w, headers, body, heard, sizeof heard);
  cancel(w, w->other, MODERN_NOTICE, CANCEL("," META));
  cancel(w, w->other, "", CANCEL(""));
  cancel(w, w->other, session, CANCEL(""));
  cancel(w, w->writer, MODERN_NOTICE, CANCEL("," META)); /* its own, but of no session: the connection is what cancels */
  cancel(w, w->writer, own, CANCEL(""));                 /* another session of its own */
  make(w, w->other, "queue.send", "{\"to\":\"writer\",\"body\":\"" SECRET "\"}");
  read_until(fd, "\r\n0\r\n\r\n", heard, sizeof heard);
  if (!strstr(heard, SECRET)) fail_msg("the call was cancelled: %s", heard);
  close(fd);
  free(session);
  free(own);
}

static void scope__nobody_else_cancels_a_call_in_either_era(void **state)
{
  world *w = *state;
  expect_undisturbed(w, MODERN_CALL, RECEIVE("," META));
  expect_undisturbed(w, "MCP-Protocol-Version: 2025-11-25\r\n", RECEIVE(""));
  char *session = initialize(w, w->writer);
  expect_undisturbed(w, session, RECEIVE(""));
  free(session);
}

static void scope__a_session_cancels_its_own_call(void **state)
{
  world *w = *state;
  static char heard[65536];
  char *session = initialize(w, w->writer);
  int fd = wait_for_mail(w, session, RECEIVE(""), heard, sizeof heard);
  cancel(w, w->writer, session, CANCEL(""));
  read_until(fd, "\r\n0\r\n\r\n", heard, sizeof heard);
  assert_null(strstr(heard, "\"result\""));
  close(fd);
  free(session);
}

/* ---- Perdure-Session ---- */

static void scope__what_is_no_session_of_the_caller_is_not_recorded(void **state)
{
  world *w = *state;
  char *bobs = begin(w, w->other), *own = begin(w, w->writer);
  char *claims[] = {text_of("Perdure-Session: %s\r\n", bobs), text_of("Perdure-Session: operator-approved\r\n"),
                    text_of("Perdure-Session: %s\r\n", own)};
  for (size_t i = 0; i < COUNT_OF(claims); i++) {
    char *put = text_of("{\"key\":\"k%zu\",\"value\":1}", i);
    free(call(w, w->writer, claims[i], "state.persistent.set", put));
    free(call(w, w->writer, claims[i], "session.list", "{}"));
    free(put);
  }
  char *log = call(w, w->writer, "", "history.log", "{}"), *audit = call(w, w->operator, "", "audit.list", "{\"limit\":100}");
  assert_non_null(strstr(log, own));
  assert_null(strstr(log, bobs));
  assert_null(strstr(log, "operator-approved"));
  assert_non_null(strstr(audit, own));
  assert_null(strstr(audit, bobs));
  assert_null(strstr(audit, "operator-approved"));
  reply r = post(w, w->writer, "/v1/call/state.session.list", claims[0], "{}");
  assert_int_equal(r.status, 404);
  assert_non_null(strstr(r.body, "SessionNotFound"));
  reply_done(&r);
  r = post(w, w->writer, "/v1/call/state.session.list", claims[2], "{}");
  assert_int_equal(r.status, 200);
  reply_done(&r);
  for (size_t i = 0; i < COUNT_OF(claims); i++) free(claims[i]);
  free(log);
  free(audit);
  free(bobs);
  free(own);
}

static void scope__a_session_that_an_mcp_call_names_is_checked_too(void **state)
{
  world *w = *state;
  char *bobs = begin(w, w->other);
  char *body = text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"state_session_list\","
                       "\"arguments\":{\"session_id\":\"%s\"}," META "}}",
                       bobs);
  reply r =
    post(w, w->writer, "/mcp", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: state_session_list\r\n", body);
  assert_non_null(strstr(r.body, "SessionNotFound"));
  reply_done(&r);
  char *audit = call(w, w->operator, "", "audit.list", "{\"limit\":100}");
  assert_non_null(strstr(audit, "state.session.list"));
  assert_null(strstr(audit, bobs));
  free(audit);
  free(body);
  free(bobs);
}

/* ---- an auditor makes nothing ---- */

static bool has_file_named(const world *w, const char *name)
{
  char *command = text_of("find %s/home | grep -q %s", w->s->folder, name);
  bool has = system(command) == 0;
  free(command);
  return has;
}

static void scope__an_auditor_who_subscribes_makes_no_store_and_hears_when_there_is_one(void **state)
{
  world *w = *state;
  static const char body[] =
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"subscriptions/listen\",\"params\":{" META
    ",\"notifications\":{\"resourcesListChanged\":true,\"resourceSubscriptions\":[\"state://persistent/k\",\"state://shared/s\"]}}}";
  static char heard[65536];
  static const char headers[] = "Perdure-Agent: ghost\r\n";
  char *head = text_of("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n%s"
                       "Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       w->auditor, headers, strlen(body), body);
  int fd = served_connect(w->s);
  assert_true(send_bytes(fd, head, strlen(head)));
  read_until(fd, "acknowledged", heard, sizeof heard);
  static const char *const tools[] = {"state_session_list", "state_session_get", "state_persistent_get", "threads_list", "history_log"};
  for (size_t i = 0; i < COUNT_OF(tools); i++) {
    char *more = text_of("%sMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n", headers, tools[i]);
    char *ask_it =
      text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":{%s}," META "}}", tools[i],
              strstr(tools[i], "_get") ? "\"key\":\"k\"" : "");
    reply r = post(w, w->auditor, "/mcp", more, ask_it);
    assert_int_equal(r.status, 200);
    reply_done(&r);
    free(ask_it);
    free(more);
  }
  assert_false(has_file_named(w, "ghost"));
  char *snapshot = call(w, w->operator, "", "state.snapshot.create", "{}"), *id = text_in(snapshot, "snapshot_id"),
       *input = text_of("{\"snapshot_id\":\"%s\"}", id), *loaded = call(w, w->operator, "", "state.snapshot.load", input),
       *sessions = call(w, w->operator, "", "session.list", "{}");
  assert_null(strstr(loaded, "ghost")); /* nor was it active */
  assert_null(strstr(sessions, "ghost"));
  free(call(w, w->operator, "Perdure-Agent: ghost\r\n", "state.persistent.set", "{\"key\":\"k\",\"value\":1}"));
  read_until(fd, "resources/updated", heard, sizeof heard);
  assert_non_null(strstr(heard, "state://persistent/k"));
  close(fd);
  free(sessions);
  free(loaded);
  free(input);
  free(id);
  free(snapshot);
  free(head);
}

#define SCOPE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    SCOPE_TEST(scope__at_reaches_no_thread_and_no_mailbox_in_any_form),
    SCOPE_TEST(scope__a_watch_of_all_refs_tells_of_no_hidden_one),
    SCOPE_TEST(scope__a_live_watch_tells_of_no_hidden_ref_either),
    SCOPE_TEST(scope__nobody_else_cancels_a_call_in_either_era),
    SCOPE_TEST(scope__a_session_cancels_its_own_call),
    SCOPE_TEST(scope__what_is_no_session_of_the_caller_is_not_recorded),
    SCOPE_TEST(scope__a_session_that_an_mcp_call_names_is_checked_too),
    SCOPE_TEST(scope__an_auditor_who_subscribes_makes_no_store_and_hears_when_there_is_one),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  return cmocka_run_group_tests_name("wire scope", tests, NULL, NULL);
}
