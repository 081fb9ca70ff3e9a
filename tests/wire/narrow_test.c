/*
 * narrow_test.c: a token that is for some keys alone, at /mcp: what it sees, reads, completes and hears of are those keys, in both eras;
 * token_test.c has the same of /v1. The walk calls every capability about a key that is not the token's.
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

#define SECRET "s3cr3t-4d7e"
#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* A server with a writer's state, a token for two beginnings of keys, and one for all. */
typedef struct world {
  served *s;
  char *narrow, *wide;
} world;

static reply post_to(const world *w, const char *token, const char *path, const char *more, const char *body)
{
  char *headers = text_of("Authorization: Bearer %s\r\nAccept: application/json, text/event-stream\r\n%s", token, more);
  reply r = ask(w->s, "POST", path, headers, body);
  free(headers);
  return r;
}

static void put(const world *w, const char *capability, const char *key, const char *value)
{
  char *path = text_of("/v1/call/%s", capability);
  char *input = text_of("{\"key\":\"%s\",\"value\":\"%s\"%s}", key, value, strstr(capability, "shared") ? ",\"expected_version\":0" : "");
  reply r = post_to(w, w->wide, path, "", input);
  if (r.status != 200) fail_msg("%s: %s", key, r.body);
  reply_done(&r);
  free(input);
  free(path);
}

static int set_up(void **state)
{
  static const char *const none[] = {NULL};
  static const char *const own[] = {"a", "drafts/1", "drafts/2", "drafts0", "other", "zeta"};
  world *w = calloc(1, sizeof *w);
  w->s = served_start(none);
  w->wide = served_token(w->s, "create --agent writer");
  w->narrow = served_token(w->s, "create --agent writer --prefix zeta --prefix drafts/ --prefix drafts/1");
  for (size_t i = 0; i < COUNT_OF(own); i++)
    put(w, "state.persistent.set", own[i], strncmp(own[i], "drafts/", 7) == 0 || own[i][0] == 'z' ? "mine" : SECRET);
  put(w, "state.shared.set", "drafts/s", "mine");
  put(w, "state.shared.set", "board", SECRET);
  reply r = post_to(w, w->wide, "/v1/call/threads.create", "", "{\"thread_id\":\"trip\"}");
  assert_int_equal(r.status, 200);
  reply_done(&r);
  *state = w;
  return 0;
}

static int tear_down(void **state)
{
  world *w = *state;
  served_free(w->s);
  free(w->narrow);
  free(w->wide);
  free(w);
  return 0;
}

/* ---- the stateless era ---- */

/* A request of the narrow token: the answer's body, in which no secret is. `params` without braces, "" for none. */
static char *request(const world *w, const char *method, const char *name, const char *params)
{
  char *headers =
    text_of("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%s%s%s", method, *name ? "Mcp-Name: " : "", name, *name ? "\r\n" : "");
  char *body = text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s" META "}}", method, params, *params ? "," : "");
  reply r = post_to(w, w->narrow, "/mcp", headers, body);
  if (strstr(r.body, SECRET)) fail_msg("%s %s: %s", method, params, r.body);
  char *answer = strdup(r.body);
  reply_done(&r);
  free(body);
  free(headers);
  return answer;
}

static void expect(const world *w, const char *method, const char *name, const char *params, const char *part)
{
  char *answer = request(w, method, name, params);
  if (!strstr(answer, part)) fail_msg("%s %s has no %s: %s", method, params, part, answer);
  free(answer);
}

static void expect_error(const world *w, const char *method, const char *name, const char *params)
{
  expect(w, method, name, params, "\"error\":{\"code\":");
}

/* The members `name` of the objects in the array at result.LIST, with blanks in between. */
static void names_in(const char *answer, const char *list, const char *name, pd_buf *out)
{
  pd_json json, item;
  assert_int_equal(pd_json_parse(pd_text(answer), &json, NULL), PD_OK);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(pd_json_member(json, "result"), list));
  while (pd_json_walk_next(&walk, NULL, &item)) {
    assert_int_equal(pd_json_decode(pd_json_member(item, name), out, NULL), PD_OK);
    assert_int_equal(pd_buf_byte(out, ' ', NULL), PD_OK);
  }
  assert_int_equal(pd_buf_byte(out, 0, NULL), PD_OK);
}

static void expect_names(const world *w, const char *method, const char *list, const char *name, const char *wanted)
{
  pd_buf names = {0};
  char *answer = request(w, method, "", "");
  names_in(answer, list, name, &names);
  assert_string_equal((char *)names.data, wanted);
  pd_buf_done(&names);
  free(answer);
}

static void narrow__lists_have_the_tokens_keys_alone(void **state)
{
  world *w = *state;
  expect_names(w, "resources/list", "resources", "uri",
               "state://persistent/drafts/1 state://persistent/drafts/2 state://persistent/zeta state://shared/drafts/s ");
  expect_names(w, "resources/templates/list", "resourceTemplates", "name", "persistent shared ");
  expect_names(w, "prompts/list", "prompts", "name", "");
}

static void narrow__values_of_its_keys_are_read_and_no_others(void **state)
{
  world *w = *state;
  static const char *const others[] = {"state://persistent/other", "state://persistent/drafts0", "state://persistent/a",
                                       "state://shared/board",     "state://threads/trip",       "state://persistent/%64rafts0"};
  expect(w, "resources/read", "state://persistent/drafts/1", "\"uri\":\"state://persistent/drafts/1\"", "mine");
  expect(w, "resources/read", "state://shared/drafts/s", "\"uri\":\"state://shared/drafts/s\"", "mine");
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    char *params = text_of("\"uri\":\"%s\"", others[i]);
    expect_error(w, "resources/read", others[i], params);
    free(params);
  }
  expect_error(w, "prompts/get", "briefing", "\"name\":\"briefing\"");
}

static void narrow__a_commit_is_of_all_keys_and_so_not_its(void **state)
{
  world *w = *state;
  reply r = post_to(w, w->wide, "/v1/call/history.log", "", "{\"limit\":1}");
  const char *at = strstr(r.body, "\"commit\":\"");
  assert_non_null(at);
  char *uri = text_of("state://commits/%.64s", at + 10), *params = text_of("\"uri\":\"%s\"", uri);
  expect_error(w, "resources/read", uri, params);
  free(params);
  free(uri);
  reply_done(&r);
}

static void narrow__completion_knows_its_keys_alone(void **state)
{
  world *w = *state;
  static const char *const cases[][2] = {{"", "[\"drafts/1\",\"drafts/2\",\"zeta\"]"},
                                         {"dr", "[\"drafts/1\",\"drafts/2\"]"},
                                         {"drafts/2", "[\"drafts/2\"]"},
                                         {"z", "[\"zeta\"]"},
                                         {"zetas", "[]"},
                                         {"o", "[]"},
                                         {"a", "[]"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char *params =
      text_of("\"ref\":{\"type\":\"ref/resource\",\"uri\":\"state://persistent/{key}\"},\"argument\":{\"name\":\"key\",\"value\":\"%s\"}",
              cases[i][0]);
    char *part = text_of("\"values\":%s", cases[i][1]);
    expect(w, "completion/complete", "", params, part);
    free(part);
    free(params);
  }
  expect(w, "completion/complete", "",
         "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"state://threads/{id}\"},\"argument\":{\"name\":\"id\",\"value\":\"\"}",
         "\"values\":[]");
}

/* Every tool that is shown is about keys; every capability, shown or not, refuses a key that is not the token's. */
static void narrow__the_walk_every_capability_refuses_other_keys(void **state)
{
  world *w = *state;
  static const char arguments[] =
    "{\"key\":\"other\",\"prefix\":\"other\",\"value\":1,\"expected_version\":1,\"at\":\"main\",\"from\":\"root\"}";
  pd_capability_info info;
  size_t refused = 0;
  char *tools = request(w, "tools/list", "", "");
  assert_non_null(strstr(tools, "\"state_persistent_get\""));
  assert_non_null(strstr(tools, "\"state_shared_set\""));
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    char tool[128], *quoted, *params;
    snprintf(tool, sizeof tool, "%s", info.name);
    for (char *at = tool; (at = strchr(at, '.'));) *at = '_';
    quoted = text_of("\"name\":\"%s\"", tool);
    bool is_about_keys =
      strstr(info.document, "\"key\":{") || strstr(info.document, "\"prefix\":{") || strncmp(info.name, "session.", 8) == 0;
    if (strstr(tools, quoted) && !is_about_keys) fail_msg("%s is shown", tool);
    params = text_of("\"name\":\"%s\",\"arguments\":%s", tool, arguments);
    char *answer = request(w, "tools/call", tool, params);
    if (!strstr(answer, "\"isError\":true") && !strstr(answer, "\"error\":{")) fail_msg("%s was let through: %s", tool, answer);
    refused++;
    free(answer);
    free(params);
    free(quoted);
  }
  assert_true(refused > 50);
  free(tools);
  expect(w, "tools/call", "state_persistent_get", "\"name\":\"state_persistent_get\",\"arguments\":{\"key\":\"drafts/1\"}", "mine");
  expect(w, "tools/call", "state_persistent_get", "\"name\":\"state_persistent_get\",\"arguments\":{\"key\":\"other\"}",
         "PermissionDenied");
}

/* What came on a stream until `part` did. */
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

static void narrow__a_subscription_is_to_its_keys_alone(void **state)
{
  world *w = *state;
  char heard[16384] = "";
  static const char body[] =
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"subscriptions/listen\",\"params\":{" META
    ",\"notifications\":{\"resourcesListChanged\":true,"
    "\"resourceSubscriptions\":[\"state://persistent/other\",\"state://persistent/drafts/1\",\"state://threads/trip\"]}}}";
  char *head = text_of("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n"
                       "Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       w->narrow, strlen(body), body);
  int fd = served_connect(w->s);
  assert_true(send_bytes(fd, head, strlen(head)));
  read_until(fd, "subscriptions/acknowledged", heard, sizeof heard);
  read_until(fd, "\n\n", heard, sizeof heard);
  assert_non_null(strstr(heard, "state://persistent/drafts/1"));
  assert_null(strstr(heard, "state://persistent/other"));
  assert_null(strstr(heard, "state://threads/trip"));
  assert_null(strstr(heard, "resourcesListChanged"));
  put(w, "state.persistent.set", "other", SECRET);
  put(w, "state.persistent.set", "drafts/1", "mine");
  read_until(fd, "notifications/resources/updated", heard, sizeof heard);
  read_until(fd, "subscriptionId\":7}}}", heard, sizeof heard);
  assert_null(strstr(heard, "persistent/other"));
  close(fd);
  free(head);
}

/* ---- sessions ---- */

static char *begin_session(const world *w, const char *token)
{
  char id[128];
  reply r =
    post_to(w, token, "/mcp", "",
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
            "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  assert_int_equal(r.status, 200);
  reply_header(&r, "Mcp-Session-Id", id, sizeof id);
  assert_int_equal(strlen(id), 64);
  reply_done(&r);
  return strdup(id);
}

static int status_in(const world *w, const char *token, const char *session, const char *message, const char *part)
{
  char *header = text_of("Mcp-Session-Id: %s\r\n", session);
  reply r = post_to(w, token, "/mcp", header, message);
  int status = r.status;
  if (part && !strstr(r.body, part)) fail_msg("no %s: %s", part, r.body);
  reply_done(&r);
  free(header);
  return status;
}

#define SUBSCRIBE(key)                                                                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://persistent/" key "\"}}"

static void narrow__sessions_of_a_wider_token_are_not_found_nor_heard(void **state)
{
  world *w = *state;
  char *wide = begin_session(w, w->wide), *narrow = begin_session(w, w->narrow);
  assert_int_equal(status_in(w, w->wide, wide, SUBSCRIBE("other"), "\"result\":{}"), 200);
  assert_int_equal(status_in(w, w->narrow, narrow, SUBSCRIBE("drafts/1"), "\"result\":{}"), 200);
  assert_int_equal(status_in(w, w->narrow, narrow, SUBSCRIBE("other"), "\"error\":"), 200);
  assert_int_equal(status_in(w, w->narrow, wide, SUBSCRIBE("drafts/1"), NULL), 404);
  assert_int_equal(status_in(w, w->wide, narrow, SUBSCRIBE("drafts/1"), NULL), 404);
  char *headers = text_of("Authorization: Bearer %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n", w->narrow, wide);
  reply r = ask(w->s, "GET", "/mcp", headers, NULL);
  assert_int_equal(r.status, 404);
  reply_done(&r);
  r = ask(w->s, "DELETE", "/mcp", headers, NULL);
  assert_int_equal(r.status, 404);
  reply_done(&r);
  free(headers);
  assert_int_equal(served_stop(w->s), 0);
  served_again(w->s);
  assert_int_equal(status_in(w, w->narrow, wide, SUBSCRIBE("drafts/1"), NULL), 404);
  assert_int_equal(status_in(w, w->narrow, narrow, SUBSCRIBE("drafts/1"), "\"result\":{}"), 200); /* it outlives a restart, as others do */
  free(narrow);
  free(wide);
}

#define NARROW_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    NARROW_TEST(narrow__lists_have_the_tokens_keys_alone),
    NARROW_TEST(narrow__values_of_its_keys_are_read_and_no_others),
    NARROW_TEST(narrow__a_commit_is_of_all_keys_and_so_not_its),
    NARROW_TEST(narrow__completion_knows_its_keys_alone),
    NARROW_TEST(narrow__the_walk_every_capability_refuses_other_keys),
    NARROW_TEST(narrow__a_subscription_is_to_its_keys_alone),
    NARROW_TEST(narrow__sessions_of_a_wider_token_are_not_found_nor_heard),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  return cmocka_run_group_tests_name("wire narrow", tests, NULL, NULL);
}
