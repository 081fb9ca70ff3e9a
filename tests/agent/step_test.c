/* step_test.c: agents that are opened, step, and are opened again. */
#include "agent/world.h"
#include "base/base.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static void open__tells_a_fresh_agent_from_a_restored_one(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  pd_agent_info info = agent_info(agent);
  assert_int_equal(info.origin, PD_AGENT_FRESH);
  assert_int_equal(info.tick_index, 0);
  uint64_t first = info.epoch;
  assert_true(first > 0);
  assert_string_equal(info.status, "WAITING_FOR_EVENT");
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  pd_agent_close(agent);
  agent = agent_open(*state, "x"); /* nothing was saved */
  assert_int_equal(agent_info(agent).origin, PD_AGENT_FRESH);
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_NEW);
  count_step(agent);
  pd_agent_close(agent);
  agent = agent_open(*state, "x");
  info = agent_info(agent);
  assert_int_equal(info.origin, PD_AGENT_RESTORED);
  assert_int_equal(info.tick_index, 1);
  assert_true(info.epoch > first + 1);
  assert_int_equal(info.history_count, 1);
  expect_variable(agent, "count", "1");
  pd_agent_close(agent);
}

static void open__snapshots_of_others_are_continued_and_their_members_kept(void **state)
{
  static const char given[] =
    "{\"zz\":[1,2.50,{\"a\":null}],\"agent_id\":\"x\",\"tick_index\":42,\"timestamp\":1706582400000,"
    "\"status\":\"WAITING_FOR_EVENT\",\"memory\":{\"more\":1,\"short_term_history\":[{\"role\":\"user\"}],"
    "\"working_variables\":{\"retry_count\":0,\"a\\u0062\":1}},\"event_queue_backup\":[{\"source\":\"mcp\",\"type\":"
    "\"task\",\"payload\":\"...\"},{\"id\":{\"odd\":1}}]}";
  pd_storage *storage = storage_open(*state);
  pd_agent *agent = NULL;
  storage_save(storage, "x", given);
  OK(pd_agent_open_in(storage, "x", NULL, &agent, &err));
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  assert_int_equal(strncmp(pd_agent_step_event_id(agent), "perdure-", 8), 0);
  OK(pd_agent_step_set(agent, "ab", pd_text(" [ 2 ] "), &err));
  OK(pd_agent_step_unset(agent, "retry_count", &err));
  OK(pd_agent_step_status(agent, "WORKING", &err));
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  CLEANUP(pd_buf_done) pd_buf odd = {0};
  OK(pd_agent_step_event_get(agent, "id", &odd, &err));
  assert_memory_equal(odd.data, "{\"odd\":1}", odd.size); /* somebody else's idea of an id stays */
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  pd_json top, member;
  assert_int_equal(pd_json_parse(pd_agent_snapshot(agent), &top, NULL), PD_OK);
  member = pd_json_member(top, "zz");
  assert_memory_equal(member.raw.data, "[1,2.50,{\"a\":null}]", member.raw.size);
  member = pd_json_member(top, "memory");
  static const char memory[] = "{\"more\":1,\"short_term_history\":[{\"role\":\"user\"}],\"working_variables\":{\"ab\":[2]}}";
  assert_int_equal(member.raw.size, sizeof memory - 1);
  assert_memory_equal(member.raw.data, memory, member.raw.size);
  assert_int_equal(agent_info(agent).tick_index, 44);
  assert_string_equal(agent_info(agent).status, "WORKING");
  pd_agent_close(agent);
  pd_storage_close(storage);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static void step__is_one_save_with_one_tick(void **state)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_agent *agent = agent_open(*state, "x");
  assert_int_equal(begin(agent, "{\"id\":\"7\",\"payload\":\"add\"}"), PD_STEP_NEW);
  OK(pd_agent_step_event_get(agent, "payload", &got, &err));
  assert_int_equal(got.size, 3);
  assert_memory_equal(got.data, "add", 3);
  REFUSED(PD_NOT_FOUND, "no member 'x'", pd_agent_step_event_get(agent, "x", &got, &err));
  OK(pd_agent_step_set_number(agent, "count", 5, &err));
  expect_variable(agent, "count", "5"); /* its own reads see it */
  OK(pd_agent_step_set_text(agent, "name", "a\"b", &err));
  OK(pd_agent_step_push(agent, pd_text("{\"id\":8}"), &err));
  OK(pd_agent_step_push(agent, pd_text("{\"id\":\"8\"}"), &err)); /* the same */
  OK(pd_agent_step_push(agent, pd_text("{\"type\":\"no id\"}"), &err));
  OK(pd_agent_step_reply(agent, pd_text("{\"sum\": 5}"), &err));
  assert_int_equal(pd_agent_reply(agent).size, 0); /* not before the commit */
  assert_int_equal(agent_info(agent).tick_index, 0);
  OK(pd_agent_step_commit(agent, &err));
  expect_reply(agent, "{\"sum\":5}");
  assert_null(pd_agent_reply_text(agent));
  pd_agent_info info = agent_info(agent);
  assert_int_equal(info.tick_index, 1);
  assert_int_equal(info.event_count, 2);
  assert_int_equal(info.variable_count, 2);
  expect_variable(agent, "name", "\"a\\\"b\"");
  pd_agent_close(agent);
}

static void step__what_is_aborted_leaves_nothing(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  assert_int_equal(push(agent, "{\"id\":\"1\"}"), PD_PUSH_QUEUED);
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  OK(pd_agent_step_set_number(agent, "count", 9, &err));
  OK(pd_agent_step_push(agent, pd_text("{}"), &err));
  pd_agent_step_abort(agent);
  pd_agent_step_abort(agent);
  expect_variable(agent, "count", NULL);
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  assert_string_equal(pd_agent_step_event_id(agent), "1");
  pd_agent_close(agent);
  agent = agent_open(*state, "x");
  assert_int_equal(agent_info(agent).event_count, 1);
  assert_int_equal(agent_info(agent).tick_index, 0);
  pd_agent_close(agent);
}

static void step__events_come_in_their_order_also_after_a_crash(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  for (int i = 0; i < 6; i++) {
    char *event = text_of("{\"id\":\"e%d\",\"n\":%d}", i, i);
    assert_int_equal(push(agent, event), PD_PUSH_QUEUED);
    assert_int_equal(push(agent, event), PD_PUSH_WAITING);
    free(event);
  }
  for (int i = 0; i < 6; i++) {
    char *id = text_of("e%d", i);
    pd_step step = begin(agent, NULL);
    while (step == PD_STEP_SEEN) step = begin(agent, NULL);
    assert_int_equal(step, PD_STEP_NEW);
    assert_string_equal(pd_agent_step_event_id(agent), id);
    count_step(agent);
    free(id);
    pd_agent_close(agent);
    agent = agent_open(*state, "x");
  }
  expect_variable(agent, "count", "6");
  assert_int_equal(agent_info(agent).tick_index, 6);
  assert_int_equal(agent_info(agent).event_count, 0);
  pd_agent_close(agent);
}

/* Whoever sent it did so twice, by both ways. */
static void step__an_event_that_is_pushed_while_it_is_worked_on_does_not_stay(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  push(agent, "{\"id\":\"0\"}");
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_NEW);
  assert_int_equal(push(agent, "{\"id\":\"1\"}"), PD_PUSH_QUEUED);
  count_step(agent);
  assert_int_equal(agent_info(agent).event_count, 1);
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  assert_string_equal(pd_agent_step_event_id(agent), "0");
  pd_agent_close(agent);
}

/* ---- replies ------------------------------------------------------------------------------------------------------- */

static void reply__of_a_finished_event_is_sent_again_instead_of_working_twice(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  assert_int_equal(begin(agent, "{\"id\":\"7\"}"), PD_STEP_NEW);
  count_step(agent);
  assert_string_equal(pd_agent_reply_text(agent), "counted 1");
  assert_int_equal(begin(agent, "{\"id\":7,\"again\":true}"), PD_STEP_SEEN);
  expect_reply(agent, "\"counted 1\"");
  pd_agent_close(agent);
  agent = agent_open(*state, "x");
  assert_int_equal(begin(agent, "{\"id\":\"7\"}"), PD_STEP_SEEN);
  assert_string_equal(pd_agent_reply_text(agent), "counted 1");
  assert_string_equal(pd_agent_step_event_id(agent), "7");
  assert_int_equal(push(agent, "{\"id\":\"7\"}"), PD_PUSH_SEEN);
  assert_string_equal(pd_agent_reply_text(agent), "counted 1");
  expect_variable(agent, "count", "1");
  pd_agent_close(agent);
}

/* It was saved, but did it leave? */
static void reply__of_the_last_step_before_a_crash_comes_first(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  push(agent, "{\"id\":\"1\"}");
  push(agent, "{\"id\":\"2\"}");
  for (int i = 0; i < 2; i++) {
    assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
    count_step(agent);
  }
  pd_agent_close(agent); /* the second reply was never followed by anything */
  agent = agent_open(*state, "x");
  assert_int_equal(agent_info(agent).unsent_count, 1);
  assert_int_equal(begin(agent, NULL), PD_STEP_SEEN);
  assert_string_equal(pd_agent_step_event_id(agent), "2");
  assert_string_equal(pd_agent_reply_text(agent), "counted 2");
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  push(agent, "{\"id\":\"3\"}"); /* a save, which tells that it has left */
  pd_agent_close(agent);
  agent = agent_open(*state, "x");
  assert_int_equal(agent_info(agent).unsent_count, 0);
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  assert_string_equal(pd_agent_step_event_id(agent), "3");
  pd_agent_close(agent);
}

static void reply__that_was_said_to_have_left_does_not_come_again(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  begin(agent, "{\"id\":\"1\"}");
  count_step(agent);
  OK(pd_agent_reply_sent(agent, "1", &err));
  REFUSED(PD_NOT_FOUND, "event '1'", pd_agent_reply_sent(agent, "1", &err));
  REFUSED(PD_NOT_FOUND, "event 'q'", pd_agent_reply_sent(agent, "q", &err));
  pd_agent_close(agent);
  agent = agent_open(*state, "x");
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_SEEN); /* but it is remembered */
  pd_agent_close(agent);
}

static void reply__a_step_without_one_is_remembered_and_has_nothing_to_send(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  begin(agent, "{\"id\":\"1\"}");
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(pd_agent_reply(agent).size, 0);
  pd_agent_close(agent);
  agent = agent_open(*state, "x");
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_SEEN);
  assert_int_equal(pd_agent_reply(agent).size, 0);
  pd_agent_close(agent);
}

static void reply__only_so_many_are_remembered(void **state)
{
  pd_agent *agent = agent_open_with(*state, "x", (pd_agent_options){.reply_count_max = 3});
  for (int i = 0; i < 5; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    assert_int_equal(begin(agent, event), PD_STEP_NEW);
    count_step(agent);
    free(event);
  }
  assert_int_equal(agent_info(agent).reply_count, 3);
  assert_int_equal(begin(agent, "{\"id\":\"2\"}"), PD_STEP_SEEN);
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_NEW);
  pd_agent_close(agent);
  agent = agent_open_with(*state, "x", (pd_agent_options){.reply_bytes_max = 100}); /* the count is as it was stored */
  assert_int_equal(begin(agent, "{\"id\":\"a\"}"), PD_STEP_NEW);
  char big[120] = {0};
  memset(big, 'b', 110);
  REFUSED(PD_LIMIT, "no more than 100", pd_agent_step_reply_text(agent, big, &err));
  big[80] = '\0';
  OK(pd_agent_step_reply_text(agent, big, &err));
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(agent_info(agent).reply_count, 1); /* the newest, and nothing fits beside it */
  assert_int_equal(begin(agent, "{\"id\":\"a\"}"), PD_STEP_SEEN);
  pd_agent_close(agent);
}

/* ---- the history --------------------------------------------------------------------------------------------------- */

static void history__is_cut_at_the_front(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  for (int i = 0; i < 4; i++) {
    begin(agent, "{}");
    for (int k = 0; k < 3; k++) {
      char *text = text_of("%d.%d", i, k);
      OK(pd_agent_step_say(agent, "user", text, &err));
      free(text);
    }
    OK(pd_agent_step_keep(agent, i == 3 ? 2 : 5, &err));
    OK(pd_agent_step_commit(agent, &err));
  }
  pd_snapshot facts;
  assert_int_equal(pd_snapshot_check(pd_agent_snapshot(agent), "x", &facts, NULL), PD_OK);
  static const char want[] = "[{\"role\":\"user\",\"content\":\"3.1\"},{\"role\":\"user\",\"content\":\"3.2\"}]";
  assert_int_equal(facts.history.size, sizeof want - 1);
  assert_memory_equal(facts.history.data, want, sizeof want - 1);
  pd_agent_close(agent);
}

/* ---- bad input ----------------------------------------------------------------------------------------------------- */

static void input__what_is_wrong_is_named_and_changes_nothing(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  pd_push pushed = 77;
  pd_step step = 77;
  char *longest = calloc(1, PD_AGENT_ID_MAX + 2);
  memset(longest, 'i', PD_AGENT_ID_MAX + 1);
  char *long_id = text_of("{\"id\":\"%s\"}", longest);
  const struct {
    const char *event, *says;
  } bad[] = {
    {"[]", "of type array; it has to be of type object"},
    {"{", "no sound JSON"},
    {"{\"a\":1,\"a\":2}", "no sound JSON"},
    {"{\"id\":\"\"}", "'id' is none"},
    {"{\"id\":1.5}", "'id' is none"},
    {"{\"id\":null}", "'id' is none"},
    {"{\"id\":\"a\\u0000b\"}", "'id' is none"},
    {long_id, "'id' is none"},
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    REFUSED(PD_INVALID, bad[i].says, pd_agent_event_push(agent, pd_text(bad[i].event), &pushed, &err));
    REFUSED(PD_INVALID, bad[i].says, pd_agent_step_begin(agent, pd_text(bad[i].event), &step, &err));
  }
  assert_int_equal(pushed, 77);
  assert_int_equal(step, 77);
  REFUSED(PD_INVALID, "no open step", pd_agent_step_commit(agent, &err));
  REFUSED(PD_INVALID, "no open step", pd_agent_step_set_number(agent, "a", 1, &err));
  REFUSED(PD_INVALID, "no open step", pd_agent_step_reply_text(agent, "a", &err));
  begin(agent, "{\"id\":\"1\"}");
  REFUSED(PD_INVALID, "works on event '1'", pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, &err));
  REFUSED(PD_INVALID, "no sound JSON", pd_agent_step_set(agent, "a", pd_text("{\"a\":1,\"\\u0061\":2}"), &err));
  REFUSED(PD_INVALID, "no sound JSON", pd_agent_step_reply(agent, pd_text(""), &err));
  REFUSED(PD_INVALID, "of type string", pd_agent_step_message(agent, pd_text("\"hello\""), &err));
  REFUSED(PD_INVALID, "no UTF-8", pd_agent_step_set_text(agent, "a", "\xff", &err));
  REFUSED(PD_INVALID, "no UTF-8", pd_agent_step_set_number(agent, "\xff", 1, &err));
  REFUSED(PD_INVALID, "no UTF-8", pd_agent_step_say(agent, "\xff", "x", &err));
  REFUSED(PD_INVALID, "the status", pd_agent_step_status(agent, "", &err));
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(agent_info(agent).variable_count, 0);
  assert_int_equal(agent_info(agent).history_count, 0);
  pd_agent_close(agent);
  free(long_id);
  free(longest);
}

static void input__options_and_names_are_checked(void **state)
{
  pd_agent *agent = NULL;
  REFUSED(PD_INVALID, "", pd_agent_open(*state, "../x", NULL, &agent, &err));
  REFUSED(PD_INVALID, "unknown storage scheme", pd_agent_open("nowhere:x", "x", NULL, &agent, &err));
  REFUSED(PD_LIMIT, "reply_count_max", pd_agent_open(*state, "x", &(pd_agent_options){.reply_count_max = 100001}, &agent, &err));
  REFUSED(PD_LIMIT, "reply_bytes_max", pd_agent_open(*state, "x", &(pd_agent_options){.reply_bytes_max = 1 << 30}, &agent, &err));
  assert_null(agent);
  pd_agent_close(NULL);
}

int main(void)
{
  static const struct CMUnitTest tests[] = {
    IN_ALL(open__tells_a_fresh_agent_from_a_restored_one),
    IN_ALL(open__snapshots_of_others_are_continued_and_their_members_kept),
    IN_ALL(step__is_one_save_with_one_tick),
    IN_ALL(step__what_is_aborted_leaves_nothing),
    IN_ALL(step__events_come_in_their_order_also_after_a_crash),
    IN_ALL(step__an_event_that_is_pushed_while_it_is_worked_on_does_not_stay),
    IN_ALL(reply__of_a_finished_event_is_sent_again_instead_of_working_twice),
    IN_ALL(reply__of_the_last_step_before_a_crash_comes_first),
    IN_ALL(reply__that_was_said_to_have_left_does_not_come_again),
    IN_ALL(reply__a_step_without_one_is_remembered_and_has_nothing_to_send),
    IN_ALL(reply__only_so_many_are_remembered),
    IN_ALL(history__is_cut_at_the_front),
    IN_ALL(input__what_is_wrong_is_named_and_changes_nothing),
    IN_ALL(input__options_and_names_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
