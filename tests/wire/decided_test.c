/*
 * decided_test.c: a token that may do nothing, on every route of the OpenAPI document and every method of MCP: each refuses it, and each
 * has asked the function that decides (perdure_permission_decisions_total). What may go without is listed here by name, with the reason.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "wire/http.h"
#include "wire/mcp.h"
#include "wire/schema_input.h"
#include "wire/server_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\n"
#define SECRET "s3cr3t"

typedef struct walk {
  served *s;
  char *operator, * nobody; /* tokens; nobody: of vera, for nothing */
  char *session;            /* headers of nobody's MCP session of the older era */
  uint64_t own;             /* decisions that reading their count takes */
  size_t count;
} walk;

static char *headers_of(const char *token, const char *more)
{
  return text_of("Authorization: Bearer %s\r\nAccept: application/json, text/event-stream\r\n%s", token, more);
}

static reply ask_as(walk *k, const char *token, const char *method, const char *path, const char *more, const char *body)
{
  char *headers = headers_of(token, more);
  reply r = ask(k->s, method, path, headers, body);
  free(headers);
  return r;
}

static char *input_of(const char *capability)
{
  static const char *const named[][2] = {{NULL, NULL}};
  schema_words words = {.agent = "vera", .session = "none", .text = "plan", .named = named};
  pd_capability_info info;
  pd_json document;
  assert_int_equal(pd_capability_find(capability, &info, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_text(info.document), &document, NULL), PD_OK);
  return schema_input(&words, pd_json_member(document, "inputs"), false);
}

/* Routes without a decision about the caller, and why they may. */
static const char *const open_paths[][2] = {
  {"/v1/capabilities", "what there is, the same for everybody with a token"},
  {"/v1/capabilities/{name}", "the same"},
  {"/v1/openapi.json", "the same"},
  {"/healthz", "is the process alive; tells nothing else"},
  {"/readyz", "does it take requests; tells nothing else"},
};
/* Routes that the document does not have. */
static const char *const undocumented[][2] = {
  {"/", "the console, which calls as its user does"},
  {"/favicon.ico", "a picture"},
  {"/mcp", "its methods are walked one by one"},
  {"/v1/openapi.json", "the document itself"},
};
static const char *const open_methods[][2] = {
  {"server/discover", "what the server can do, the same for everybody with a token"},
  {"initialize", "the same"},
  {"ping", "tells nothing"},
  {"logging/setLevel", "about the caller's own session"},
  {"resources/unsubscribe", "ends what the caller itself began"},
};

static bool is_listed(const char *const list[][2], size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i][0], name) == 0) return true;
  return false;
}

/* The count in the operator's metrics. */
static uint64_t decisions(walk *k)
{
  reply r = ask_as(k, k->operator, "GET", "/metrics", "", NULL);
  const char *at = strstr(r.body, "\nperdure_permission_decisions_total ");
  if (!at) fail_msg("no count of decisions: %d %s", r.status, r.body);
  uint64_t count = strtoull(at + strlen("\nperdure_permission_decisions_total "), NULL, 10);
  reply_done(&r);
  return count;
}

/* "/v1/agents/{agent}/state/{key}" with what is vera's. */
static char *path_of(pd_bytes pattern)
{
  pd_buf out = {0};
  for (const char *at = pattern.data, *end = at + pattern.size; at < end; at++) {
    const char *name = *at == '{' ? at + 1 : NULL, *word = "plan";
    if (name && (strncmp(name, "agent}", 6) == 0 || strncmp(name, "store}", 6) == 0)) word = "vera";
    assert_int_equal(pd_buf_append(&out, name ? word : at, name ? strlen(word) : 1, NULL), PD_OK);
    if (name) at = strchr(at, '}');
  }
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  return (char *)out.data;
}

static void check_route(walk *k, const char *method, const char *pattern)
{
  const char *capability = strncmp(pattern, "/v1/call/", 9) == 0 ? pattern + 9 : NULL;
  char *path = path_of(pd_text(pattern)), *input = capability ? input_of(capability) : NULL;
  bool is_open = is_listed(open_paths, COUNT_OF(open_paths), pattern);
  uint64_t before = decisions(k);
  reply r = ask_as(k, k->nobody, method, path, "", input ? input : strcmp(method, "POST") == 0 ? "{}" : NULL);
  uint64_t asked = decisions(k) - before - k->own;
  if (!is_open && r.status != 403) fail_msg("%s %s is not refused to a token for nothing: %d %s", method, path, r.status, r.body);
  if (!is_open && !asked) fail_msg("%s %s was answered without a decision", method, path);
  reply_done(&r);
  free(input);
  free(path);
  k->count++;
}

/* Is there a path of the document for this route? */
static bool is_documented(pd_json paths, const char *route)
{
  pd_json key, item;
  size_t size = strlen(route);
  pd_json_walk at = pd_json_walk_begin(paths);
  while (pd_json_walk_next(&at, &key, &item)) {
    pd_bytes path = {(const char *)key.raw.data + 1, key.raw.size - 2};
    bool has_rest = route[size - 1] == '/';
    if (has_rest ? pd_bytes_starts(path, pd_text(route)) && path.size > size : pd_bytes_equal(path, pd_text(route))) return true;
  }
  return false;
}

static void check_routes(walk *k)
{
  reply r = ask_as(k, k->operator, "GET", "/v1/openapi.json", "", NULL);
  pd_json document, path, item, method, operation;
  assert_int_equal(pd_json_parse((pd_bytes){r.body, r.body_size}, &document, NULL), PD_OK);
  pd_json paths = pd_json_member(document, "paths");
  pd_json_walk at = pd_json_walk_begin(paths);
  while (pd_json_walk_next(&at, &path, &item)) {
    pd_json_walk methods_of = pd_json_walk_begin(item);
    while (pd_json_walk_next(&methods_of, &method, &operation)) {
      char *pattern = strndup((const char *)path.raw.data + 1, path.raw.size - 2);
      check_route(k, pd_json_is(method, "post") ? "POST" : "GET", pattern);
      free(pattern);
    }
  }
  for (size_t i = 0; pd_route_at(i); i++) {
    const char *route = pd_route_at(i)->path;
    if (!is_documented(paths, route) && !is_listed(undocumented, COUNT_OF(undocumented), route))
      fail_msg("the route %s is neither in the document nor listed here with a reason", route);
  }
  reply_done(&r);
}

/* Methods that the walk has a function for, with something of vera's. */
static const char *params_of(const char *method)
{
  static const char *const params[][2] = {
    {"tools/call", "\"name\":\"state_persistent_get\",\"arguments\":{\"key\":\"plan\"}"},
    {"resources/read", "\"uri\":\"state://persistent/plan\""},
    {"resources/subscribe", "\"uri\":\"state://persistent/plan\""},
    {"resources/unsubscribe", "\"uri\":\"state://persistent/plan\""},
    {"prompts/get", "\"name\":\"briefing\""},
    {"completion/complete", "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"state://persistent/{key}\"},"
                            "\"argument\":{\"name\":\"key\",\"value\":\"\"}"},
    {"initialize", "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}"},
    {"logging/setLevel", "\"level\":\"debug\""},
  };
  for (size_t i = 0; i < COUNT_OF(params); i++)
    if (strcmp(params[i][0], method) == 0) return params[i][1];
  return "";
}

static const char *name_header(const char *method)
{
  if (strcmp(method, "tools/call") == 0) return "Mcp-Name: state_persistent_get\r\n";
  if (strcmp(method, "resources/read") == 0) return "Mcp-Name: state://persistent/plan\r\n";
  return strcmp(method, "prompts/get") == 0 ? "Mcp-Name: briefing\r\n" : "";
}

/* A list has nothing in it; all else is an error. */
static bool is_nothing(const char *method, const reply *r)
{
  static const char *const empty[] = {"\"tools\":[]", "\"resources\":[]", "\"resourceTemplates\":[]", "\"prompts\":[]", "\"values\":[]"};
  bool is_list = strstr(method, "list") || strstr(method, "complet");
  for (size_t i = 0; is_list && i < COUNT_OF(empty); i++)
    if (strstr(r->body, empty[i])) return true;
  return strstr(r->body, "\"error\":") || strstr(r->body, "\"isError\":true");
}

static void check_method(walk *k, const char *method, bool is_new)
{
  const char *params = params_of(method);
  char *body = text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s%s}}", method, params, *params && is_new ? "," : "",
                       is_new ? META : "");
  char *more = is_new ? text_of(MODERN "Mcp-Method: %s\r\n%s", method, name_header(method)) : text_of("%s", k->session);
  uint64_t before = decisions(k);
  reply r = ask_as(k, k->nobody, "POST", "/mcp", more, body);
  uint64_t asked = decisions(k) - before - k->own;
  bool is_of_other_era = strstr(r.body, "-32601") != NULL; /* the method is the other era's */
  if (!is_of_other_era && !is_nothing(method, &r)) fail_msg("%s tells something to a token for nothing: %d %s", method, r.status, r.body);
  if (!is_of_other_era && !asked) fail_msg("%s was answered without a decision: %s", method, r.body);
  k->count += !is_of_other_era;
  reply_done(&r);
  free(more);
  free(body);
}

/* Its answer lasts: until it is acknowledged, or an error. */
static void check_listen(walk *k)
{
  static char heard[1 << 16];
  static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":{"
                             "\"resourcesListChanged\":true,\"resourceSubscriptions\":[\"state://persistent/plan\"]}," META "}}";
  char *headers = headers_of(k->nobody, MODERN "Mcp-Method: subscriptions/listen\r\n");
  char *request = text_of("POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                          headers, sizeof body - 1, body);
  uint64_t before = decisions(k);
  int fd = served_connect(k->s);
  size_t used = 0;
  assert_true(send_bytes(fd, request, strlen(request)));
  for (ssize_t got;
       !strstr(heard, "acknowledged") && !strstr(heard, "\"error\"") && (got = read(fd, heard + used, sizeof heard - 1 - used)) > 0;)
    heard[used += (size_t)got] = 0;
  close(fd);
  if (decisions(k) == before + k->own) fail_msg("subscriptions/listen was answered without a decision: %s", heard);
  const char *told = strstr(heard, "acknowledged");
  if (told && (strstr(told, "state://persistent/plan") || strstr(told, "\"resourcesListChanged\":true"))) fail_msg("it listens: %s", heard);
  k->count++;
  free(request);
  free(headers);
}

static void check_methods(walk *k)
{
  for (size_t i = 0; pd_mcp_method_at(i); i++) {
    const char *method = pd_mcp_method_at(i);
    if (is_listed(open_methods, COUNT_OF(open_methods), method)) continue;
    size_t before = k->count;
    if (strcmp(method, "subscriptions/listen") == 0) {
      check_listen(k);
      continue;
    }
    for (int is_new = 0; is_new < 2; is_new++) check_method(k, method, is_new);
    if (k->count == before) fail_msg("no era has the method %s", method);
  }
}

static void make(walk *k)
{
  static const char *const none[] = {NULL};
  char id[128] = "", *vera;
  *k = (walk){.s = served_start(none)};
  k->operator= served_token(k->s, "create --role operator");
  k->nobody = served_token(k->s, "create --agent vera --capability nothing.at.all");
  vera = served_token(k->s, "create --agent vera");
  reply r = ask_as(k, vera, "POST", "/v1/call/state.persistent.set", "", "{\"key\":\"plan\",\"value\":\"" SECRET "\"}");
  assert_int_equal(r.status, 200);
  reply_done(&r);
  r = ask_as(k, k->nobody, "POST", "/mcp", "",
             "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
             "\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  assert_int_equal(r.status, 200);
  k->session = text_of("Mcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n", reply_header(&r, "Mcp-Session-Id", id, sizeof id));
  reply_done(&r);
  free(vera);
  uint64_t first = decisions(k);
  k->own = decisions(k) - first;
}

static void end(walk *k)
{
  served_free(k->s);
  free(k->operator);
  free(k->nobody);
  free(k->session);
}

static void decided__every_route_refuses_a_token_for_nothing(void **state)
{
  (void)state;
  walk k;
  make(&k);
  check_routes(&k);
  print_message("%zu routes\n", k.count);
  assert_true(k.count > 140); /* there are more capabilities than that */
  end(&k);
}

static void decided__every_method_of_mcp_refuses_a_token_for_nothing(void **state)
{
  (void)state;
  walk k;
  make(&k);
  check_methods(&k);
  print_message("%zu methods\n", k.count);
  assert_true(k.count >= 10);
  end(&k);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(decided__every_route_refuses_a_token_for_nothing),
    cmocka_unit_test(decided__every_method_of_mcp_refuses_a_token_for_nothing),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  return cmocka_run_group_tests_name("wire decided", tests, NULL, NULL);
}
