/* snapshot_test.c: which documents are snapshots, and which Redis URIs are URIs. */
#include "base/base.h"
#include "contract/storage_contract.h"
#include "storage/redis_uri.h"
#include "support/temp_folder.h"

#include <stdlib.h>

static const char seed_document[] =
  "{\n  \"agent_id\": \"worker_007\",\n  \"tick_index\": 42,\n  \"timestamp\": 1706582400000,\n  \"status\": \"WAITING_FOR_EVENT\",\n"
  "  \"memory\": {\n    \"short_term_history\": [\n      { \"role\": \"user\", \"content\": \"...\" },\n"
  "      { \"role\": \"assistant\", \"content\": \"...\" }\n    ],\n    \"working_variables\": {\n"
  "      \"current_file_path\": \"/tmp/report.txt\",\n      \"retry_count\": 0\n    }\n  },\n"
  "  \"event_queue_backup\": [\n    { \"source\": \"mcp\", \"type\": \"task\", \"payload\": \"...\" }\n  ]\n}\n";

static void snapshot__the_document_of_the_seed_is_read(void **state)
{
  pd_snapshot s;
  (void)state;
  assert_int_equal(pd_snapshot_check(pd_text(seed_document), NULL, &s, NULL), PD_OK);
  assert_string_equal(s.agent_id, "worker_007");
  assert_int_equal(s.tick_index, 42);
  assert_int_equal(s.timestamp, 1706582400000);
  assert_string_equal(s.status, "WAITING_FOR_EVENT");
  assert_int_equal(s.history_count, 2);
  assert_int_equal(s.variable_count, 2);
  assert_int_equal(s.event_count, 1);
  assert_memory_equal(s.variables.data, "{", 1);
  assert_int_equal(pd_snapshot_check(pd_text(seed_document), "worker_007", NULL, NULL), PD_OK);
}

/* The sound document with its first `from` made `to`. */
static char *changed(const char *from, const char *to)
{
  const char *at = strstr(seed_document, from);
  assert_non_null(at);
  return text_of("%.*s%s%s", (int)(at - seed_document), seed_document, to, at + strlen(from));
}

static void snapshot__what_is_wrong_is_named(void **state)
{
  static const struct {
    const char *from, *to, *says;
  } faults[] = {
    {"\"agent_id\"", "\"agent\"", "no 'agent_id'"},
    {"\"worker_007\"", "7", "'agent_id' is of type number"},
    {"worker_007", "", "'agent_id' has 0 bytes"},
    {"worker_007", "../etc", "../etc"},
    {"worker_007", "a\\u0000b", "NUL"},
    {"worker_007", "a\\ud800", "no sound text"},
    {"\"tick_index\"", "\"tick\"", "no 'tick_index'"},
    {": 42", ": -1", "'tick_index' is -1"},
    {": 42", ": 1.5", "'tick_index' is 1.5"},
    {": 42", ": 9007199254740992", "'tick_index' is 9007199254740992"},
    {": 42", ": 99999999999999999999999", "'tick_index'"},
    {": 42", ": \"42\"", "'tick_index' is of type string"},
    {": 42", ": null", "'tick_index' is of type null"},
    {"1706582400000", "-5", "'timestamp' is -5"},
    {"1706582400000", "\"2026\"", "'timestamp' is of type string"},
    {"\"timestamp\"", "\"time\"", "no 'timestamp'"},
    {"\"status\"", "\"state\"", "no 'status'"},
    {"\"WAITING_FOR_EVENT\"", "true", "'status' is of type bool"},
    {"WAITING_FOR_EVENT", "", "'status' has 0 bytes"},
    {"\"memory\"", "\"mem\"", "no 'memory'"},
    {"\"short_term_history\"", "\"history\"", "no 'memory.short_term_history'"},
    {"\"working_variables\"", "\"variables\"", "no 'memory.working_variables'"},
    {"\"event_queue_backup\"", "\"events\"", "no 'event_queue_backup'"},
    {"{ \"role\": \"user\", \"content\": \"...\" }", "\"hello\"", "number 0) of type string"},
    {"{ \"source\": \"mcp\", \"type\": \"task\", \"payload\": \"...\" }", "[]", "'event_queue_backup' has an entry"},
    {"\"retry_count\"", "\"current_file_path\"", "current_file_path"},
    {"\"status\"", "\"tick_index\": 1, \"status\"", "tick_index"},
    {"\n}\n", "\n} x", ""},
    {"42,", "42", ""},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(faults); i++) {
    char *document = changed(faults[i].from, faults[i].to);
    pd_error err = {0};
    pd_code code = pd_snapshot_check(pd_text(document), NULL, NULL, &err);
    if (code != PD_INVALID || !strstr(err.message, faults[i].says)) fail_msg("%zu: %s: %s", i, pd_code_name(code), err.message);
    free(document);
  }
}

static void snapshot__other_agents_and_other_kinds_are_refused(void **state)
{
  static const char *const others[] = {"", "[]", "null", "\"x\"", "17", "{}", "\xff"};
  pd_error err = {0};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(others); i++) assert_int_equal(pd_snapshot_check(pd_text(others[i]), NULL, NULL, NULL), PD_INVALID);
  assert_int_equal(pd_snapshot_check(pd_text(seed_document), "worker_008", NULL, &err), PD_INVALID);
  assert_string_equal(err.message, "the snapshot is of agent 'worker_007', not of 'worker_008'");
}

static void snapshot__more_entries_than_the_limit_are_refused(void **state)
{
  size_t count = PD_SNAPSHOT_ITEMS_MAX;
  char *list = malloc(3 * count + 64), *at = list;
  (void)state;
  for (size_t i = 0; i < count; i++) at = stpcpy(at, "{},");
  strcpy(at, "{ \"role\": \"user\"");
  char *over = changed("{ \"role\": \"user\"", list); /* with the two that are there: two too many */
  pd_error err = {0};
  assert_int_equal(pd_snapshot_check(pd_text(over), NULL, NULL, &err), PD_LIMIT);
  assert_non_null(strstr(err.message, "short_term_history"));
  free(over);
  strcpy(list + 3 * (count - 2), "{ \"role\": \"user\"");
  char *most = changed("{ \"role\": \"user\"", list);
  assert_int_equal(pd_snapshot_check(pd_text(most), NULL, NULL, NULL), PD_OK);
  free(most);
  free(list);
}

/* ---- Redis URIs ---------------------------------------------------------------------------------------------------- */

static void redis_uri__all_parts_are_read(void **state)
{
  pd_redis_address a;
  (void)state;
  assert_int_equal(pd_redis_uri_parse(PD_REDIS_TCP, "//", &a, NULL), PD_OK);
  assert_string_equal(a.host, "127.0.0.1");
  assert_int_equal(a.port, 6379);
  assert_string_equal(a.prefix, "perdure:agent-snapshot:");
  assert_int_equal(
    pd_redis_uri_parse(PD_REDIS_TLS,
                       "//us%3Aer:p%40s%2F%3f@host.example:7000/15?prefix=a%26b&connect_ms=1&command_ms=2&retry_ms=0&tls_ca=/c"
                       "&tls_cert=/d&tls_key=/e&tls_verify=no",
                       &a, NULL),
    PD_OK);
  assert_string_equal(a.user, "us:er");
  assert_string_equal(a.password, "p@s/?");
  assert_string_equal(a.host, "host.example");
  assert_int_equal(a.port, 7000);
  assert_int_equal(a.database, 15);
  assert_string_equal(a.prefix, "a&b");
  assert_int_equal(a.connect_ms + 10 * a.command_ms + 100 * a.retry_ms, 21);
  assert_string_equal(a.ca, "/c");
  assert_true(a.is_unverified);
  assert_string_equal(a.shown, "host.example:7000");
  assert_int_equal(pd_redis_uri_parse(PD_REDIS_TCP, "//[::1]:1/", &a, NULL), PD_OK);
  assert_string_equal(a.host, "::1");
  assert_string_equal(a.shown, "[::1]:1");
  assert_int_equal(pd_redis_uri_parse(PD_REDIS_UNIX, "//:pw@/run/a%20b.sock?db=2", &a, NULL), PD_OK);
  assert_string_equal(a.host, "/run/a b.sock");
  assert_string_equal(a.password, "pw");
  assert_int_equal(a.database, 2);
}

static void redis_uri__what_is_wrong_is_named_and_no_password_told(void **state)
{
  static const struct {
    const char *rest, *says;
  } bad[] = {
    {"", "redis://HOST"},
    {"host", "redis://HOST"},
    {"//h:0", "port is '0'"},
    {"//h:65536", "port is '65536'"},
    {"//h:x", "port is 'x'"},
    {"//h:", "port is ''"},
    {"//h/x", "database is 'x'"},
    {"//h/1/2", "database is '1/2'"},
    {"//[::1", "without a ']'"},
    {"//[::1]x", "between host and port"},
    {"//h?a=1", "unknown option 'a'"},
    {"//h?prefix", "'prefix' has no value"},
    {"//h?command_ms=0", "command_ms is '0'"},
    {"//h?command_ms=1s", "command_ms is '1s'"},
    {"//h?tls_ca=/x", "for rediss:// only"},
    {"//:hidden%@h", "password has a '%'"},
    {"//:hidden%0@h", "password has a '%'"},
    {"//:hidden%00@h", "password has a '%'"},
    {"//:hidden%zz@h", "password has a '%'"},
    {"//user:@h", "user without a password"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_redis_address a;
    pd_error err = {0};
    pd_code code = pd_redis_uri_parse(PD_REDIS_TCP, bad[i].rest, &a, &err);
    if (code != PD_INVALID || !strstr(err.message, bad[i].says)) fail_msg("%s: %s: %s", bad[i].rest, pd_code_name(code), err.message);
    if (strstr(err.message, "hidden")) fail_msg("tells the password: %s", err.message);
  }
  pd_redis_address a;
  assert_int_equal(pd_redis_uri_parse(PD_REDIS_UNIX, "//relative", &a, NULL), PD_INVALID);
  assert_int_equal(pd_redis_uri_parse(PD_REDIS_TLS, "//h?tls_cert=/x", &a, NULL), PD_INVALID);
  assert_int_equal(pd_redis_uri_parse(PD_REDIS_TLS, "//h?tls_verify=maybe", &a, NULL), PD_INVALID);
}

int main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(snapshot__the_document_of_the_seed_is_read),
    cmocka_unit_test(snapshot__what_is_wrong_is_named),
    cmocka_unit_test(snapshot__other_agents_and_other_kinds_are_refused),
    cmocka_unit_test(snapshot__more_entries_than_the_limit_are_refused),
    cmocka_unit_test(redis_uri__all_parts_are_read),
    cmocka_unit_test(redis_uri__what_is_wrong_is_named_and_no_password_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
