/* queue_test.c: the agents' message queues: queue.send, receive, ack, count, and pd_queue_push. */
#include "state/one_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "state/queue.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void count_is(const char *agent, const char *unread, const char *in_flight)
{
  w.agent = agent;
  world_ok(&w, "queue.count", "{}");
  OUT("unread", unread);
  OUT("in_flight", in_flight);
}

/* ---- sending ---- */

static void queue_send__in_to__is_a_valid_agent_that_need_not_exist(void **state)
{
  (void)state;
  static const char *const bad[] = {"../x", "",      "shared", "system",
                                    "a b",  "a\\nb", ".x",     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char input[160];
    snprintf(input, sizeof input, "{\"to\":\"%s\",\"body\":1}", bad[i]);
    world_fails(&w, "queue.send", input, "InvalidInput", "correct");
  }
  send("main", "not.born-yet_1", "1");
  count_is("not.born-yet_1", "1", "0");
}

static void queue_send__in_body__is_any_json_up_to_1_mib(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf input = {0};
  for (size_t over = 0; over < 2; over++) {
    pd_buf_clear(&input);
    assert_int_equal(pd_buf_printf(&input, NULL, "{\"to\":\"main\",\"body\":\""), PD_OK);
    for (size_t i = 0; i < PD_QUEUE_BODY_SIZE_MAX - 2 + over; i++) assert_int_equal(pd_buf_byte(&input, 'x', NULL), PD_OK);
    assert_int_equal(pd_buf_printf(&input, NULL, "\"}%c", 0), PD_OK);
    if (over)
      world_fails(&w, "queue.send", (const char *)input.data, "LimitExceeded", "split");
    else
      world_ok(&w, "queue.send", (const char *)input.data);
  }
  world_fails(&w, "queue.send", "{\"to\":\"main\"}", "InvalidInput", "correct");
  world_fails(&w, "queue.send", "{\"to\":\"main\",\"body\":{\"a\":1,\"a\":2}}", "InvalidInput", "correct");
  count_is("main", "1", "0");
}

static void queue_send__in_kind__cannot_be_one_of_perdures_own(void **state)
{
  (void)state;
  static const char *const own[] = {"shared_change", "approval", "notice", "", "a b", "a/b"};
  for (size_t i = 0; i < COUNT_OF(own); i++) {
    char input[160];
    snprintf(input, sizeof input, "{\"to\":\"main\",\"body\":1,\"kind\":\"%s\"}", own[i]);
    world_fails(&w, "queue.send", input, "InvalidInput", "correct");
  }
  world_ok(&w, "queue.send", "{\"to\":\"main\",\"body\":1,\"kind\":\"task\"}");
  world_ok(&w, "queue.send", "{\"to\":\"main\",\"body\":1}");
  world_ok(&w, "queue.receive", "{}");
  OUT("messages.0.kind", "\"task\"");
  OUT("messages.1.kind", "\"message\"");
}

static void queue_send__out_message_id__is_the_one_that_is_received(void **state)
{
  (void)state;
  send("alice", "main", "1");
  OUT("message_id", "\"m1\"");
  send("alice", "other", "1");
  OUT("message_id", "\"m1\"");
  send("bob", "main", "2");
  OUT("message_id", "\"m2\"");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  OUT("messages.1.message_id", "\"m2\"");
}

static void queue_send__effect_1__survives_a_restart(void **state)
{
  (void)state;
  send("alice", "main", "{\"n\":1}");
  world_restart(&w);
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  OUT("messages.0.body", "{\"n\":1}");
  OUT("messages.0.from", "\"alice\"");
  OUT("messages.0.sent_at", "\"2026-11-15T10:00:00.000Z\"");
}

static void queue_send__err_QueueFull__until_something_is_acknowledged(void **state)
{
  (void)state;
  w.home->config.queue_count_max = 3;
  for (int i = 0; i < 3; i++) send("alice", "main", "1");
  world_fails(&w, "queue.send", "{\"to\":\"main\",\"body\":1}", "QueueFull", "wait");
  OUT("error.details.limit", "3");
  assert_non_null(strstr(w.err.message, "'main'"));
  send("alice", "other", "1");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{\"max\":1}");
  w.agent = "alice";
  world_fails(&w, "queue.send", "{\"to\":\"main\",\"body\":1}", "QueueFull", "wait"); /* received is not dealt with */
  w.agent = "main";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  send("alice", "main", "1");
  OUT("message_id", "\"m4\"");
}

static void queue_send__by_the_operator_comes_from_nobody(void **state)
{
  (void)state;
  w.is_operator = true;
  w.agent = NULL;
  world_ok(&w, "queue.send", "{\"to\":\"main\",\"body\":\"hello\"}");
  w.is_operator = false;
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  OUT("messages.0.from", "null");
}

/* ---- receiving ---- */

static void queue_receive__in_max__bounds_what_is_given_in_order(void **state)
{
  (void)state;
  static const char *const bad[] = {"0", "101", "-1", "1.5", "\"1\""};
  char body[16];
  for (int i = 0; i < 25; i++) {
    snprintf(body, sizeof body, "%d", i);
    send("alice", "main", body);
  }
  w.agent = "main";
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char input[64];
    snprintf(input, sizeof input, "{\"max\":%s}", bad[i]);
    world_fails(&w, "queue.receive", input, "InvalidInput", "correct");
  }
  world_ok(&w, "queue.receive", "{}");
  OUT("count", "10");
  OUT("messages.0.body", "0");
  OUT("messages.9.body", "9");
  world_ok(&w, "queue.receive", "{\"max\":1}");
  OUT("count", "1");
  OUT("messages.0.body", "10");
  world_ok(&w, "queue.receive", "{\"max\":100}");
  OUT("count", "14");
  OUT("messages.13.body", "24");
  world_ok(&w, "queue.receive", "{}");
  OUT("messages", "[]");
}

#define YEAR_MS ((int64_t)365 * 24 * 3600 * 1000)

static void queue_receive__a_clock_a_year_ahead_for_one_call_holds_no_message(void **state)
{
  (void)state;
  send("alice", "bob", "1");
  w.agent = "bob";
  w.now_ms += YEAR_MS;
  world_ok(&w, "queue.receive", "{\"visibility_ms\":30000}");
  OUT("count", "1");
  w.now_ms -= YEAR_MS;
  w.now_ms += 60000;
  world_ok(&w, "queue.receive", "{\"visibility_ms\":30000}");
  OUT("count", "1");
  OUT("messages.0.deliveries", "2");
  world_ok(&w, "queue.receive", "{\"visibility_ms\":30000}");
  OUT("count", "0");
}

static void queue_push__a_clock_a_year_ahead_for_one_call_forgets_no_dedupe_key(void **state)
{
  (void)state;
  assert_int_equal(pd_queue_push(w.home, "bob", "notice", pd_text("1"), "once", &w.err), PD_OK);
  w.now_ms += YEAR_MS;
  assert_int_equal(pd_queue_push(w.home, "bob", "notice", pd_text("2"), "other", &w.err), PD_OK);
  w.now_ms -= YEAR_MS;
  w.now_ms += 60000;
  assert_int_equal(pd_queue_push(w.home, "bob", "notice", pd_text("1"), "once", &w.err), PD_OK);
  count_is("bob", "2", "0");
}

static void queue_receive__in_visibility_ms__is_when_it_comes_again(void **state)
{
  (void)state;
  send("alice", "main", "1");
  send("alice", "main", "2");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{\"max\":1,\"visibility_ms\":5000}");
  world_ok(&w, "queue.receive", "{\"max\":1}"); /* the setting: 30 s */
  OUT("messages.0.body", "2");
  w.now_ms += 4999;
  world_ok(&w, "queue.receive", "{}");
  OUT("count", "0");
  w.now_ms += 1;
  world_ok(&w, "queue.receive", "{\"visibility_ms\":1000}");
  OUT("count", "1");
  OUT("messages.0.body", "1");
  OUT("messages.0.deliveries", "2");
  w.now_ms += 25000;
  world_ok(&w, "queue.receive", "{}");
  OUT("count", "2");
  OUT("messages.0.body", "1");
  OUT("messages.0.deliveries", "3");
  OUT("messages.1.body", "2");
  OUT("messages.1.deliveries", "2");
}

typedef struct waiter {
  pd_home *home;
  const char *input;
  pd_buf out;
  pd_code code;
} waiter;

static void *wait_for_message(void *ctx)
{
  waiter *it = ctx;
  pd_ctx who = {.home = it->home, .agent = "main"};
  it->code = pd_call(&who, "queue.receive", pd_text(it->input), &it->out, NULL);
  return NULL;
}

static void queue_receive__in_wait_ms__ends_when_a_message_comes(void **state)
{
  (void)state;
  pd_home *other; /* as another process would have it */
  assert_int_equal(pd_home_open(w.uri, NULL, &other, &w.err), PD_OK);
  waiter it = {.home = other, .input = "{\"wait_ms\":60000}"};
  pthread_t thread;
  int64_t start = pd_clock_monotonic_ms();
  assert_int_equal(pthread_create(&thread, NULL, wait_for_message, &it), 0);
  send("alice", "main", "\"wake up\"");
  pthread_join(thread, NULL);
  assert_true(pd_clock_monotonic_ms() - start < 50000);
  assert_int_equal(it.code, PD_OK);
  assert_int_equal(pd_buf_byte(&it.out, 0, NULL), PD_OK);
  assert_non_null(strstr((const char *)it.out.data, "wake up"));
  pd_buf_done(&it.out);
  assert_int_equal(pd_home_close(other, &w.err), PD_OK);
}

static void queue_receive__in_wait_ms__ends_without_a_message_when_it_is_over(void **state)
{
  (void)state;
  int64_t start = pd_clock_monotonic_ms();
  send("alice", "other", "1");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{\"wait_ms\":50}");
  OUT("count", "0");
  assert_true(pd_clock_monotonic_ms() - start >= 50);
  world_fails(&w, "queue.receive", "{\"wait_ms\":60001}", "InvalidInput", "correct");
}

static void queue_receive__in_wait_ms__also_waits_for_a_message_that_comes_again(void **state)
{
  (void)state;
  pd_home *real; /* with the system's clock */
  waiter it = {.input = "{\"visibility_ms\":40}"};
  send("alice", "main", "\"twice\"");
  assert_int_equal(pd_home_open(w.uri, NULL, &real, &w.err), PD_OK);
  it.home = real;
  wait_for_message(&it);
  it.input = "{\"wait_ms\":60000}";
  wait_for_message(&it);
  assert_int_equal(pd_buf_byte(&it.out, 0, NULL), PD_OK);
  assert_non_null(strstr((const char *)it.out.data, "\"deliveries\":2"));
  pd_buf_done(&it.out);
  assert_int_equal(pd_home_close(real, &w.err), PD_OK);
}

static bool give_up_at_third(void *ctx, uint64_t done, uint64_t total)
{
  assert_int_equal(done, 0);
  assert_int_equal(total, 0); /* there is nothing to tell of a wait */
  return ++*(int *)ctx < 3;
}

static void queue_receive__error_Cancelled__ends_the_wait_and_takes_nothing(void **state)
{
  (void)state;
  int asked = 0;
  pd_ctx who = {.home = w.home, .agent = "main", .progress = give_up_at_third, .progress_ctx = &asked};
  int64_t begun_ms = pd_clock_monotonic_ms();
  assert_int_equal(pd_call(&who, "queue.receive", pd_text("{\"wait_ms\":60000}"), &w.out, &w.err), PD_INVALID);
  assert_string_equal(pd_error_name(&w.err), "Cancelled");
  assert_true(pd_clock_monotonic_ms() - begun_ms < 50000);
  send("main", "main", "1");
  count_is("main", "1", "0");
}

static void queue_receive__out_messages__are_the_agents_own_only(void **state)
{
  (void)state;
  send("alice", "main", "\"for main\"");
  send("alice", "main2", "\"for main2\"");
  send("alice", "ma", "\"for ma\"");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  OUT("messages", "[{\"message_id\":\"m1\",\"kind\":\"message\",\"from\":\"alice\",\"sent_at\":\"2026-11-15T10:00:00.000Z\","
                  "\"deliveries\":1,\"body\":\"for main\"}]");
  OUT("count", "1");
}

static void queue_receive__effect_1__each_message_is_at_one_receiver(void **state)
{
  (void)state;
  enum { THREADS = 4, MESSAGES = 60 };
  static const char input[] = "{\"max\":7,\"visibility_ms\":3600000}";
  for (int i = 0; i < MESSAGES; i++) send("alice", "main", "1");
  pthread_t threads[THREADS];
  waiter them[THREADS] = {0};
  int seen[MESSAGES + 1] = {0}, total = 0;
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < THREADS; i++) {
      if (!round) assert_int_equal(pd_home_open(w.uri, NULL, &them[i].home, &w.err), PD_OK);
      them[i].input = input;
      assert_int_equal(pthread_create(&threads[i], NULL, wait_for_message, &them[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i], NULL);
      assert_int_equal(them[i].code, PD_OK);
      assert_int_equal(pd_buf_byte(&them[i].out, 0, NULL), PD_OK);
      for (const char *at = (const char *)them[i].out.data; (at = strstr(at, "\"m")); at += 2)
        if (at[2] >= '0' && at[2] <= '9') seen[atoi(at + 2)]++, total++;
    }
  }
  assert_int_equal(total, MESSAGES);
  for (int i = 1; i <= MESSAGES; i++) assert_int_equal(seen[i], 1);
  for (int i = 0; i < THREADS; i++) {
    pd_buf_done(&them[i].out);
    assert_int_equal(pd_home_close(them[i].home, &w.err), PD_OK);
  }
}

static void queue_receive__of_large_messages_gives_a_part_of_them(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf body = {0};
  assert_int_equal(pd_buf_byte(&body, '"', NULL), PD_OK);
  for (size_t i = 0; i < 1000000; i++) assert_int_equal(pd_buf_byte(&body, 'x', NULL), PD_OK);
  assert_int_equal(pd_buf_byte(&body, '"', NULL), PD_OK);
  for (int i = 0; i < 20; i++) assert_int_equal(pd_queue_push(w.home, "main", "notice", pd_buf_bytes(&body), NULL, &w.err), PD_OK);
  world_ok(&w, "queue.receive", "{\"max\":100}");
  OUT("count", "16");
  count_is("main", "4", "16");
}

/* ---- acknowledging, counting ---- */

static void queue_ack__in_message_ids__are_checked_one_by_one(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "[]",        "[1]",        "[\"\"]",      "[\"m\"]", "[\"m0\"]", "[\"m01\"]",  "[\"17\"]", "[\"m1\",\"x\"]",
    "[\"m-1\"]", "[\"m1.5\"]", "[\"m1/..\"]", "\"m1\"",  "[null]",   "[[\"m1\"]]", "{}",       "[\"m99999999999999999999\"]"};
  send("alice", "main", "1");
  w.agent = "main";
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char input[128];
    snprintf(input, sizeof input, "{\"message_ids\":%s}", bad[i]);
    world_fails(&w, "queue.ack", input, "InvalidInput", "correct");
  }
  count_is("main", "1", "0");
}

static void queue_ack__out_acknowledged__counts_each_message_once(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) send("alice", "main", "1");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\",\"m3\",\"m1\",\"m77\"]}");
  OUT("acknowledged", "2");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\",\"m3\"]}");
  OUT("acknowledged", "0");
  count_is("main", "0", "1");
}

static void queue_ack__effect_1__it_does_not_come_again_and_is_nobody_elses_to_remove(void **state)
{
  (void)state;
  send("alice", "main", "1");
  send("alice", "main", "2");
  w.agent = "alice";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  OUT("acknowledged", "0");
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  w.now_ms += 365LL * 86400 * 1000;
  world_ok(&w, "queue.receive", "{}");
  OUT("count", "1");
  OUT("messages.0.message_id", "\"m2\"");
}

static void queue_count__out_unread__and_in_flight_follow_a_message(void **state)
{
  (void)state;
  count_is("main", "0", "0");
  send("alice", "main", "1");
  send("alice", "main", "1");
  count_is("main", "2", "0");
  world_ok(&w, "queue.receive", "{\"max\":1,\"visibility_ms\":1000}");
  count_is("main", "1", "1");
  w.now_ms += 1000;
  count_is("main", "2", "0");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  count_is("main", "1", "0");
  world_restart(&w);
  count_is("main", "1", "0");
}

/* ---- perdure's own messages ---- */

static void queue_push__comes_from_perdure_itself(void **state)
{
  (void)state;
  assert_int_equal(pd_queue_push(w.home, "main", PD_QUEUE_APPROVAL, pd_text("{\"approval_id\":\"x\"}"), NULL, &w.err), PD_OK);
  world_ok(&w, "queue.receive", "{}");
  OUT("messages.0.from", "null");
  OUT("messages.0.kind", "\"approval\"");
  OUT("messages.0.body", "{\"approval_id\":\"x\"}");
  assert_int_equal(pd_queue_push(w.home, "main", "notice", pd_text("{"), NULL, &w.err), PD_INVALID);
  assert_int_equal(pd_queue_push(w.home, "../x", "notice", pd_text("1"), NULL, &w.err), PD_INVALID);
}

static void queue_push__with_a_dedupe_key_comes_once_even_if_acknowledged(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) assert_int_equal(pd_queue_push(w.home, "main", "notice", pd_text("1"), "approval:7", &w.err), PD_OK);
  assert_int_equal(pd_queue_push(w.home, "other", "notice", pd_text("1"), "approval:7", &w.err), PD_OK);
  count_is("main", "1", "0");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  world_restart(&w);
  assert_int_equal(pd_queue_push(w.home, "main", "notice", pd_text("1"), "approval:7", &w.err), PD_OK);
  count_is("main", "0", "0");
  w.now_ms += 8LL * 86400 * 1000; /* after seven days nobody retries any more */
  assert_int_equal(pd_queue_push(w.home, "main", "notice", pd_text("1"), "approval:7", &w.err), PD_OK);
  count_is("main", "1", "0");
  count_is("other", "1", "0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(queue_send__in_to__is_a_valid_agent_that_need_not_exist, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_send__in_body__is_any_json_up_to_1_mib, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_send__in_kind__cannot_be_one_of_perdures_own, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_send__out_message_id__is_the_one_that_is_received, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_send__effect_1__survives_a_restart, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_send__err_QueueFull__until_something_is_acknowledged, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_send__by_the_operator_comes_from_nobody, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__in_max__bounds_what_is_given_in_order, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__in_visibility_ms__is_when_it_comes_again, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__a_clock_a_year_ahead_for_one_call_holds_no_message, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_push__a_clock_a_year_ahead_for_one_call_forgets_no_dedupe_key, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__in_wait_ms__ends_when_a_message_comes, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__in_wait_ms__ends_without_a_message_when_it_is_over, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__in_wait_ms__also_waits_for_a_message_that_comes_again, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__error_Cancelled__ends_the_wait_and_takes_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__out_messages__are_the_agents_own_only, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__effect_1__each_message_is_at_one_receiver, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__of_large_messages_gives_a_part_of_them, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_ack__in_message_ids__are_checked_one_by_one, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_ack__out_acknowledged__counts_each_message_once, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_ack__effect_1__it_does_not_come_again_and_is_nobody_elses_to_remove, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_count__out_unread__and_in_flight_follow_a_message, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_push__comes_from_perdure_itself, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_push__with_a_dedupe_key_comes_once_even_if_acknowledged, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
