/* era_test.c: which era a request belongs to, and what each of them wants to hear. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define DISCOVER(params) "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"server/discover\",\"params\":{" params "}}"
#define VERSION "io.modelcontextprotocol/protocolVersion"
#define CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

static void era__initialize_answers_the_revision_it_was_asked_for_or_the_newest_of_its_era(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"2025-11-25", "\"2025-11-25\""}, {"2025-06-18", "\"2025-06-18\""}, {"2025-03-26", "\"2025-03-26\""},
    {"2024-11-05", "\"2024-11-05\""}, {"2026-07-28", "\"2025-11-25\""}, {"1999-01-01", "\"2025-11-25\""},
  };
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    mcp_initialize(&m, cases[i][0], "{}");
    assert_string_equal(mcp_last(&m, "result.protocolVersion"), cases[i][1]);
    assert_string_equal(mcp_last(&m, "result.resultType"), "");
    assert_string_equal(mcp_last(&m, "result.serverInfo.name"), "\"perdure\"");
  }
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_close(&m);
}

static void era__a_modern_result_says_its_type_its_server_and_how_long_it_holds(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_send(&m, DISCOVER(META));
  assert_string_equal(mcp_last(&m, "result.resultType"), "\"complete\"");
  assert_string_equal(mcp_last(&m, "result.supportedVersions.0"), "\"2026-07-28\"");
  assert_string_equal(mcp_last(&m, "result._meta.io!modelcontextprotocol/serverInfo.name"), "\"perdure\"");
  assert_string_equal(mcp_last(&m, "result.cacheScope"), "\"private\"");
  assert_string_equal(mcp_last(&m, "result.ttlMs"), "60000");
  assert_string_equal(mcp_last(&m, "result.capabilities.resources"), "{\"subscribe\":true,\"listChanged\":true}");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" META ",\"name\":\"system_health\"}}");
  assert_string_equal(mcp_last(&m, "result.resultType"), "\"complete\"");
  assert_string_equal(mcp_last(&m, "result.ttlMs"), ""); /* a call is not cached */
  mcp_close(&m);
}

static void era__a_modern_request_without_what_it_needs_in_meta_is_refused(void **state)
{
  (void)state;
  static const char *const cases[] = {
    DISCOVER(""),
    DISCOVER("\"_meta\":{}"),
    DISCOVER("\"_meta\":{\"" VERSION "\":\"2026-07-28\"}"),
    DISCOVER("\"_meta\":{\"" VERSION "\":7,\"" CAPABILITIES "\":{}}"),
    DISCOVER("\"_meta\":{\"" VERSION "\":\"2026-07-28\",\"" CAPABILITIES "\":[]}"),
  };
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    mcp_send(&m, cases[i]);
    assert_string_equal(mcp_last(&m, "error.code"), "-32602");
    assert_string_equal(mcp_last(&m, "id"), "7");
    assert_int_equal(m.last.status, 400);
  }
  mcp_send(&m, DISCOVER("\"_meta\":{\"" VERSION "\":\"2099-01-01\",\"" CAPABILITIES "\":{}}"));
  assert_string_equal(mcp_last(&m, "error.code"), "-32022");
  assert_string_equal(mcp_last(&m, "error.data.requested"), "\"2099-01-01\"");
  assert_string_equal(mcp_last(&m, "error.data.supported.0"), "\"2026-07-28\"");
  mcp_close(&m);
}

static void era__each_era_has_methods_that_the_other_has_not(void **state)
{
  (void)state;
  static const char *const old[] = {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"};
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(old); i++) {
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}", old[i], META);
    assert_string_equal(mcp_last(&m, "error.code"), "-32601");
    assert_int_equal(m.last.status, 404);
  }
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32601");
  assert_int_equal(m.last.status, 200); /* the old era tells it in the message alone */
  mcp_close(&m);
}

/* ---- over HTTP: headers ---- */

static void as_http(mcp_world *m, const char *version, const char *method, const char *name)
{
  m->peer.is_http = true;
  m->peer.version = version;
  m->peer.method = method;
  m->peer.name = name;
}

static void era__headers_that_say_something_else_than_the_message_are_refused(void **state)
{
  (void)state;
  static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" META ",\"name\":\"system_health\"}}";
  static const struct {
    const char *version, *method, *name;
    bool is_right;
  } cases[] = {
    {"2026-07-28", "tools/call", "system_health", true},
    {" 2026-07-28\t", " tools/call ", "  system_health", true},
    {"2026-07-28", "tools/call", "=?base64?c3lzdGVtX2hlYWx0aA==?=", true},
    {NULL, "tools/call", "system_health", false},
    {"2025-11-25", "tools/call", "system_health", false},
    {"2026-07-28", NULL, "system_health", false},
    {"2026-07-28", "TOOLS/CALL", "system_health", false},
    {"2026-07-28", "tools/call", NULL, false},
    {"2026-07-28", "tools/call", "other", false},
    {"2026-07-28", "tools/call", "=?base64?b3RoZXI=?=", false},
    {"2026-07-28", "tools/call", "=?base64?***?=", false},
  };
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    as_http(&m, cases[i].version, cases[i].method, cases[i].name);
    mcp_send(&m, call);
    assert_string_equal(mcp_last(&m, "error.code"), cases[i].is_right ? "" : "-32020");
    assert_int_equal(m.last.status, cases[i].is_right ? 200 : 400);
  }
  mcp_close(&m);
}

static void era__a_header_of_an_unknown_version_is_refused_and_none_is_fine_in_the_old_era(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  as_http(&m, "1999-01-01", NULL, NULL);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32022");
  assert_int_equal(m.last.status, 400);
  as_http(&m, NULL, NULL, NULL);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  assert_string_equal(mcp_last(&m, "result"), "{}");
  as_http(&m, "2026-07-28", "ping", NULL);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"); /* the header says modern, the message says nothing */
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_close(&m);
}

/* ---- logging ---- */

static void era__log_lines_come_at_the_level_that_was_asked_for_and_not_before(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "system_health", "{}");
  assert_int_equal(m.last.count, 1);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"loud\"}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"debug\"}}");
  mcp_tool(&m, "system_health", "{}");
  assert_int_equal(m.last.count, 2);
  assert_string_equal(mcp_member(&m, m.last.messages[0], "params.level"), "\"debug\"");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"error\"}}");
  mcp_tool(&m, "system_health", "{}");
  assert_int_equal(m.last.count, 1);
  /* the modern era: for this request alone */
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"_meta\":{\"" VERSION
               "\":\"2026-07-28\",\"" CAPABILITIES "\":{},\"io.modelcontextprotocol/logLevel\":\"debug\"},\"name\":\"system_health\"}}");
  assert_int_equal(m.last.count, 2);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" META ",\"name\":\"system_health\"}}");
  assert_int_equal(m.last.count, 1);
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(era__initialize_answers_the_revision_it_was_asked_for_or_the_newest_of_its_era),
    cmocka_unit_test(era__a_modern_result_says_its_type_its_server_and_how_long_it_holds),
    cmocka_unit_test(era__a_modern_request_without_what_it_needs_in_meta_is_refused),
    cmocka_unit_test(era__each_era_has_methods_that_the_other_has_not),
    cmocka_unit_test(era__headers_that_say_something_else_than_the_message_are_refused),
    cmocka_unit_test(era__a_header_of_an_unknown_version_is_refused_and_none_is_fine_in_the_old_era),
    cmocka_unit_test(era__log_lines_come_at_the_level_that_was_asked_for_and_not_before),
  };
  return cmocka_run_group_tests_name("era", tests, NULL, NULL);
}
