/* session_test.c: sessions and the state in them. Names of the first part follow seed 001: docs/seed-001-coverage.md is made from them. */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define IDLE_MS 3600000

static int open_world(void **state)
{
  world *w = calloc(1, sizeof *w);
  world_open(w, NULL);
  world_begin_session(w);
  *state = w;
  return 0;
}

static int close_world(void **state)
{
  world_close(*state);
  free(*state);
  return 0;
}

static void expect(world *w, const char *path, const char *json)
{
  assert_string_equal(world_out(w, path), json);
}

/* The whole answer. */
static void answers(world *w, const char *capability, const char *input, const char *output)
{
  world_ok(w, capability, input);
  assert_string_equal((const char *)w->out.data, output);
}

/* Every way not to have a session: none named, ended, never begun, idled out, another agent's. */
static void expect_not_found(world *w, const char *capability, const char *input)
{
  char own[PD_SESSION_ID_SIZE];
  memcpy(own, w->session, sizeof own);
  w->session[0] = 0;
  world_fails(w, capability, input, "SessionNotFound", "reconnect");
  strcpy(w->session, "s-00000000000000000000000000000000");
  world_fails(w, capability, input, "SessionNotFound", "reconnect");
  memcpy(w->session, own, sizeof own);
  w->agent = "other";
  world_fails(w, capability, input, "SessionNotFound", "reconnect");
  w->agent = "main";
  w->now_ms += IDLE_MS + 1;
  world_fails(w, capability, input, "SessionNotFound", "reconnect");
  world_begin_session(w);
  assert_int_equal(pd_session_end(w->home, "main", w->session, NULL), PD_OK);
  world_fails(w, capability, input, "SessionNotFound", "reconnect");
  assert_non_null(strstr(w->err.message, w->session));
}

/* ---- state.session.get ---- */

static void session_get__in_key__is_looked_up_byte_for_byte(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"task.current\",\"value\":1}");
  answers(w, "state.session.get", "{\"key\":\"task.current\"}", "{\"value\":1,\"found\":true}");
  answers(w, "state.session.get", "{\"key\":\"t\\u0061sk.current\"}", "{\"value\":1,\"found\":true}");
  answers(w, "state.session.get", "{\"key\":\"Task.current\"}", "{\"value\":null,\"found\":false}");
  answers(w, "state.session.get", "{\"key\":\"task.curren\"}", "{\"value\":null,\"found\":false}");
}

static void session_get__out_value__is_the_stored_json_or_null(void **state)
{
  world *w = *state;
  static const char *const values[] = {"0", "-1.50e3", "\"\"", "\"\\u00e9\\n\"", "true", "null", "[]", "{\"a\":[1,{\"b\":null}]}"};
  for (size_t i = 0; i < COUNT_OF(values); i++) {
    assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"k\",\"value\":%s}", values[i]), PD_OK);
    world_ok(w, "state.session.get", "{\"key\":\"k\"}");
    expect(w, "value", values[i]);
  }
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\": { \"a\" : [ 1 ,\n 2 ] , \"b c\":\" x \" } }");
  world_ok(w, "state.session.get", "{\"key\":\"k\"}");
  expect(w, "value", "{\"a\":[1,2],\"b c\":\" x \"}");
  world_ok(w, "state.session.get", "{\"key\":\"absent\"}");
  expect(w, "value", "null");
}

static void session_get__out_found__tells_a_stored_null_from_an_absent_key(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"nothing\",\"value\":null}");
  answers(w, "state.session.get", "{\"key\":\"nothing\"}", "{\"value\":null,\"found\":true}");
  answers(w, "state.session.get", "{\"key\":\"absent\"}", "{\"value\":null,\"found\":false}");
}

static void session_get__err_SessionNotFound__without_a_live_session_of_the_agent(void **state)
{
  expect_not_found(*state, "state.session.get", "{\"key\":\"k\"}");
}

/* ---- state.session.set ---- */

static void session_set__in_key__overwrites_the_same_key_and_no_other(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"a\",\"value\":1}");
  world_ok(w, "state.session.set", "{\"key\":\"aa\",\"value\":2}");
  world_ok(w, "state.session.set", "{\"key\":\"a\",\"value\":3}");
  answers(w, "state.session.get", "{\"key\":\"a\"}", "{\"value\":3,\"found\":true}");
  answers(w, "state.session.get", "{\"key\":\"aa\"}", "{\"value\":2,\"found\":true}");
  char key[1025];
  memset(key, 'k', 1024);
  key[1024] = 0;
  assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"%s\",\"value\":1}", key), PD_OK);
  assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"%sk\",\"value\":1}", key), PD_INVALID);
  world_ok(w, "state.session.list", "{\"prefix\":\"kk\"}");
  expect(w, "count", "1");
}

static void session_set__in_value__any_json_and_nothing_that_is_none(void **state)
{
  world *w = *state;
  static const char *const refused[] = {"", "nul", "NaN", "Infinity", "01", "'a'", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "[1,]"};
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":[\"before\"]}");
  for (size_t i = 0; i < COUNT_OF(refused); i++)
    if (world_callf(w, "state.session.set", "{\"key\":\"k\",\"value\":%s}", refused[i]) != PD_INVALID) fail_msg("accepted: %s", refused[i]);
  world_fails(w, "state.session.set", "{\"key\":\"k\"}", "InvalidInput", "correct");
  answers(w, "state.session.get", "{\"key\":\"k\"}", "{\"value\":[\"before\"],\"found\":true}");
}

static void session_set__out_previous_value__is_what_was_overwritten_or_null(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":{\"a\":1}}");
  expect(w, "previous_value", "null");
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":\"two\"}");
  expect(w, "previous_value", "{\"a\":1}");
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":3}");
  expect(w, "previous_value", "\"two\"");
}

static void session_set__out_overwritten__is_true_only_over_an_existing_key(void **state)
{
  world *w = *state;
  answers(w, "state.session.set", "{\"key\":\"k\",\"value\":null}", "{\"previous_value\":null,\"overwritten\":false}");
  answers(w, "state.session.set", "{\"key\":\"k\",\"value\":1}", "{\"previous_value\":null,\"overwritten\":true}");
  world_ok(w, "state.session.delete", "{\"key\":\"k\"}");
  answers(w, "state.session.set", "{\"key\":\"k\",\"value\":2}", "{\"previous_value\":null,\"overwritten\":false}");
}

static void session_set__effect_1__memory_grows_by_key_and_value_up_to_the_cap(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"four\",\"value\": [ 1, 2 ] }");
  world_ok(w, "session.list", "{}");
  expect(w, "sessions.0.size_bytes", "9");
  world_ok(w, "state.session.set", "{\"key\":\"four\",\"value\":[]}");
  world_ok(w, "session.list", "{}");
  expect(w, "sessions.0.size_bytes", "6");
  assert_int_equal(w->home->config.session_quota_bytes, 50 * 1024 * 1024);
}

static void session_set__err_SessionNotFound__without_a_live_session_of_the_agent(void **state)
{
  expect_not_found(*state, "state.session.set", "{\"key\":\"k\",\"value\":1}");
}

static void session_set__err_QuotaExceeded__names_both_recoveries(void **state)
{
  world *w = *state;
  w->home->config.session_quota_bytes = 20;
  world_ok(w, "state.session.set", "{\"key\":\"a\",\"value\":\"12345678\"}"); /* 11 */
  world_fails(w, "state.session.set", "{\"key\":\"b\",\"value\":\"1234567\"}", "QuotaExceeded", "delete_unused");
  assert_non_null(strstr((const char *)w->out.data, "\"action\":\"clear\",\"hint\":\"Use state.session.clear"));
  expect(w, "error.details.used", "11");
  expect(w, "error.details.limit", "20");
  answers(w, "state.session.list", "{}", "{\"keys\":[\"a\"],\"count\":1}");
}

static void session_set__err_QuotaExceeded__only_beyond_the_last_byte(void **state)
{
  world *w = *state;
  w->home->config.session_quota_bytes = 20;
  world_ok(w, "state.session.set", "{\"key\":\"a\",\"value\":\"12345678\"}");
  world_ok(w, "state.session.set", "{\"key\":\"b\",\"value\":\"123456\"}"); /* 11 + 9 = 20 */
  world_fails(w, "state.session.set", "{\"key\":\"b\",\"value\":\"1234567\"}", "QuotaExceeded", "clear");
  expect(w, "error.details.used", "20");
  answers(w, "state.session.get", "{\"key\":\"b\"}", "{\"value\":\"123456\",\"found\":true}");
  world_ok(w, "state.session.set", "{\"key\":\"a\",\"value\":\"1234567\"}"); /* an overwrite counts what it frees */
  world_ok(w, "state.session.set", "{\"key\":\"b\",\"value\":\"1234567\"}");
}

/* ---- state.session.delete ---- */

static void session_delete__in_key__is_removed_and_no_other(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"task.current\",\"value\":1}");
  world_ok(w, "state.session.set", "{\"key\":\"task.currently\",\"value\":2}");
  world_ok(w, "state.session.delete", "{\"key\":\"task.current\"}");
  answers(w, "state.session.list", "{}", "{\"keys\":[\"task.currently\"],\"count\":1}");
  world_fails(w, "state.session.delete", "{}", "InvalidInput", "correct");
}

static void session_delete__out_previous_value__is_what_was_removed_or_null(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":[1,2]}");
  world_ok(w, "state.session.delete", "{\"key\":\"k\"}");
  expect(w, "previous_value", "[1,2]");
  world_ok(w, "state.session.delete", "{\"key\":\"k\"}");
  expect(w, "previous_value", "null");
}

static void session_delete__out_deleted__is_true_once(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":null}");
  answers(w, "state.session.delete", "{\"key\":\"k\"}", "{\"previous_value\":null,\"deleted\":true}");
  answers(w, "state.session.delete", "{\"key\":\"k\"}", "{\"previous_value\":null,\"deleted\":false}");
}

static void session_delete__effect_1__frees_what_the_pair_used(void **state)
{
  world *w = *state;
  w->home->config.session_quota_bytes = 10;
  world_ok(w, "state.session.set", "{\"key\":\"a\",\"value\":123456789}");
  world_fails(w, "state.session.set", "{\"key\":\"b\",\"value\":1}", "QuotaExceeded", NULL);
  world_ok(w, "state.session.delete", "{\"key\":\"a\"}");
  world_ok(w, "session.list", "{}");
  expect(w, "sessions.0.size_bytes", "0");
  world_ok(w, "state.session.set", "{\"key\":\"b\",\"value\":123456789}");
}

static void session_delete__err_SessionNotFound__without_a_live_session_of_the_agent(void **state)
{
  expect_not_found(*state, "state.session.delete", "{\"key\":\"k\"}");
}

/* ---- state.session.list ---- */

static void session_list__in_prefix__filters_and_is_optional(void **state)
{
  world *w = *state;
  static const char *const keys[] = {"task.b", "tas", "task.", "task", "task.a", "other"};
  for (size_t i = 0; i < COUNT_OF(keys); i++)
    assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"%s\",\"value\":1}", keys[i]), PD_OK);
  answers(w, "state.session.list", "{\"prefix\":\"task.\"}", "{\"keys\":[\"task.\",\"task.a\",\"task.b\"],\"count\":3}");
  answers(w, "state.session.list", "{\"prefix\":\"nothing\"}", "{\"keys\":[],\"count\":0}");
  world_ok(w, "state.session.list", "{\"prefix\":\"\"}");
  expect(w, "count", "6");
  world_ok(w, "state.session.list", "{}");
  expect(w, "count", "6");
}

static void session_list__out_keys__are_sorted(void **state)
{
  world *w = *state;
  static const char *const keys[] = {"b", "\\u00e9", "a", "B", "a.b", "ab", "a-b", "10", "9", "a\\\"b"};
  for (size_t i = 0; i < COUNT_OF(keys); i++)
    assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"%s\",\"value\":1}", keys[i]), PD_OK);
  world_ok(w, "state.session.list", "{}");
  expect(w, "keys", "[\"10\",\"9\",\"B\",\"a\",\"a\\\"b\",\"a-b\",\"a.b\",\"ab\",\"b\",\"\xc3\xa9\"]");
}

static void session_list__out_count__is_the_number_of_keys_returned(void **state)
{
  world *w = *state;
  answers(w, "state.session.list", "{}", "{\"keys\":[],\"count\":0}");
  for (int i = 0; i < 1000; i++) assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"k%d\",\"value\":%d}", i, i), PD_OK);
  world_ok(w, "state.session.list", "{}");
  expect(w, "count", "1000");
  world_ok(w, "state.session.list", "{\"prefix\":\"k99\"}");
  expect(w, "count", "11");
}

static void session_list__err_SessionNotFound__without_a_live_session_of_the_agent(void **state)
{
  expect_not_found(*state, "state.session.list", "{}");
}

/* ---- state.session.clear ---- */

static void session_clear__out_removed_count__is_the_number_of_keys_that_were_there(void **state)
{
  world *w = *state;
  for (int i = 0; i < 100; i++) assert_int_equal(world_callf(w, "state.session.set", "{\"key\":\"k%d\",\"value\":%d}", i % 60, i), PD_OK);
  answers(w, "state.session.clear", "{}", "{\"removed_count\":60}");
  answers(w, "state.session.clear", "", "{\"removed_count\":0}");
}

static void session_clear__effect_1__all_state_is_gone_and_the_session_goes_on(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":1}");
  world_ok(w, "state.session.clear", "{}");
  answers(w, "state.session.get", "{\"key\":\"k\"}", "{\"value\":null,\"found\":false}");
  world_ok(w, "session.list", "{}");
  expect(w, "sessions.0.size_bytes", "0");
  expect(w, "sessions.0.key_count", "0");
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":2}");
  expect(w, "overwritten", "false");
}

static void session_clear__err_SessionNotFound__without_a_live_session_of_the_agent(void **state)
{
  expect_not_found(*state, "state.session.clear", "{}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(session_get__in_key__is_looked_up_byte_for_byte),
    TEST(session_get__out_value__is_the_stored_json_or_null),
    TEST(session_get__out_found__tells_a_stored_null_from_an_absent_key),
    TEST(session_get__err_SessionNotFound__without_a_live_session_of_the_agent),
    TEST(session_set__in_key__overwrites_the_same_key_and_no_other),
    TEST(session_set__in_value__any_json_and_nothing_that_is_none),
    TEST(session_set__out_previous_value__is_what_was_overwritten_or_null),
    TEST(session_set__out_overwritten__is_true_only_over_an_existing_key),
    TEST(session_set__effect_1__memory_grows_by_key_and_value_up_to_the_cap),
    TEST(session_set__err_SessionNotFound__without_a_live_session_of_the_agent),
    TEST(session_set__err_QuotaExceeded__names_both_recoveries),
    TEST(session_set__err_QuotaExceeded__only_beyond_the_last_byte),
    TEST(session_delete__in_key__is_removed_and_no_other),
    TEST(session_delete__out_previous_value__is_what_was_removed_or_null),
    TEST(session_delete__out_deleted__is_true_once),
    TEST(session_delete__effect_1__frees_what_the_pair_used),
    TEST(session_delete__err_SessionNotFound__without_a_live_session_of_the_agent),
    TEST(session_list__in_prefix__filters_and_is_optional),
    TEST(session_list__out_keys__are_sorted),
    TEST(session_list__out_count__is_the_number_of_keys_returned),
    TEST(session_list__err_SessionNotFound__without_a_live_session_of_the_agent),
    TEST(session_clear__out_removed_count__is_the_number_of_keys_that_were_there),
    TEST(session_clear__effect_1__all_state_is_gone_and_the_session_goes_on),
    TEST(session_clear__err_SessionNotFound__without_a_live_session_of_the_agent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
