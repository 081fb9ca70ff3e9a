/* message_test.c: JSON-RPC, strictly: what is a message, what is none, and what is answered then. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void message__what_is_no_message_is_refused_with_the_code_that_says_why(void **state)
{
  (void)state;
  static const struct {
    const char *text, *code, *id;
  } cases[] = {
    {"", "-32700", "null"},
    {"{", "-32700", "null"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x", "-32700", "null"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xFFng\"}", "-32700", "null"},
    {"7", "-32600", "null"},
    {"\"ping\"", "-32600", "null"},
    {"{}", "-32600", "null"},
    {"{\"id\":1,\"method\":\"ping\"}", "-32600", "1"},
    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "-32600", "1"},
    {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "-32600", "null"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", "-32600", "null"},
    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", "-32600", "null"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":{}}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{\"code\":1,\"message\":\"\"}}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", "-32600", "1"},
    {"{\"jsonrpc\":\"2.0\",\"result\":{}}", "-32600", "null"},
    {"[]", "-32600", "null"},
  };
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    mcp_send(&m, cases[i].text);
    assert_string_equal(mcp_last(&m, "error.code"), cases[i].code);
    assert_string_equal(mcp_last(&m, "id"), cases[i].id);
    assert_true(m.last.is_done);
    assert_int_equal(m.last.status, 400);
  }
  mcp_close(&m);
}

static void message__ids_come_back_as_they_were(void **state)
{
  (void)state;
  static const char *const ids[] = {"0", "-7", "9007199254740993", "\"\"", "\"a\\u0041\\\"\"", "\"\xC3\xA4\""};
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}", ids[i]);
    assert_string_equal(mcp_last(&m, "id"), ids[i]);
    assert_string_equal(mcp_last(&m, "result"), "{}");
  }
  mcp_close(&m);
}

static void message__an_id_that_is_too_long_is_refused(void **state)
{
  (void)state;
  char id[1024];
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  memset(id, 'x', 600);
  id[600] = 0;
  mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", id);
  assert_string_equal(mcp_last(&m, "error.code"), "-32600");
  mcp_close(&m);
}

static void message__notifications_and_answers_to_nothing_are_taken_in_silence(void **state)
{
  (void)state;
  static const char *const texts[] = {
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/never/heard/of\",\"params\":{}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"q-1\",\"result\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{},\"more\":1}",
  };
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    mcp_send(&m, texts[i]);
    assert_int_equal(m.last.count, 0);
    assert_true(m.last.is_done);
    assert_int_equal(m.last.status, 202);
  }
  mcp_close(&m);
}

static void message__a_batch_is_answered_as_one_in_the_revision_that_has_them(void **state)
{
  (void)state;
  mcp_world m;
  const char *batch = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},"
                      "7,{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"nope\"}]";
  mcp_open(&m, NULL, NULL);
  mcp_initialize(&m, "2025-03-26", "{}");
  mcp_send(&m, batch);
  assert_int_equal(m.last.count, 1);
  assert_string_equal(mcp_last(&m, "0.result"), "{}");
  assert_string_equal(mcp_last(&m, "1.error.code"), "-32600");
  assert_string_equal(mcp_last(&m, "2.error.code"), "-32601");
  mcp_send(&m, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]");
  assert_int_equal(m.last.count, 0);
  assert_int_equal(m.last.status, 202);
  mcp_initialize(&m, "2025-11-25", "{}");
  mcp_send(&m, batch);
  assert_string_equal(mcp_last(&m, "error.code"), "-32600");
  mcp_close(&m);
}

static void message__a_batch_of_more_than_100_is_refused(void **state)
{
  (void)state;
  mcp_world m;
  char text[8192] = "[";
  mcp_open(&m, NULL, NULL);
  for (int i = 0; i < 101; i++) strcat(text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},");
  text[strlen(text) - 1] = ']';
  mcp_send(&m, text);
  assert_string_equal(mcp_last(&m, "error.code"), "-32600");
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(message__what_is_no_message_is_refused_with_the_code_that_says_why),
    cmocka_unit_test(message__ids_come_back_as_they_were),
    cmocka_unit_test(message__an_id_that_is_too_long_is_refused),
    cmocka_unit_test(message__notifications_and_answers_to_nothing_are_taken_in_silence),
    cmocka_unit_test(message__a_batch_is_answered_as_one_in_the_revision_that_has_them),
    cmocka_unit_test(message__a_batch_of_more_than_100_is_refused),
  };
  return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
