/* watch_test.c: state.shared.watch and unwatch: what is told, to whom, until when, and after what. */
#include "state/one_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "state/subscription.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char subscription[PD_SUBSCRIPTION_ID_SIZE];

/* As another agent, without touching w's session. */
static void set_in(pd_home *home, const char *agent, const char *key, const char *value, unsigned expected)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_ctx ctx = {.home = home, .agent = agent};
  char *input = text_of("{\"key\":\"%s\",\"value\":%s,\"expected_version\":%u}", key, value, expected);
  if (pd_call(&ctx, "state.shared.set", pd_text(input), &out, &w.err)) fail_msg("%s: %s", input, w.err.message);
  free(input);
}

static void set(const char *agent, const char *key, const char *value, unsigned expected)
{
  set_in(w.home, agent, key, value, expected);
}

/* Watch as w.agent in a session of its own; `input` is watch's. */
static void watch(const char *input)
{
  if (!w.session[0]) world_begin_session(&w);
  world_ok(&w, "state.shared.watch", input);
  snprintf(subscription, sizeof subscription, "%s", world_out(&w, "subscription_id") + 1);
  subscription[strcspn(subscription, "\"")] = 0;
}

static void receive(const char *count)
{
  world_ok(&w, "queue.receive", "{\"max\":100}");
  OUT("count", count);
}

/* ---- inputs ---- */

static void shared_watch__in_prefix__takes_only_keys_that_begin_so(void **state)
{
  (void)state;
  watch("{\"prefix\":\"config.\"}");
  set("alice", "config.a", "1", 0);
  set("alice", "task", "1", 0);
  set("alice", "config", "1", 0);
  set("alice", "config.b", "1", 0);
  receive("2");
  OUT("messages.0.body.key", "\"config.a\"");
  OUT("messages.1.body.key", "\"config.b\"");
}

static void shared_watch__in_prefix__if_omitted_all_changes_are_reported_own_ones_too(void **state)
{
  (void)state;
  set("alice", "before", "1", 0);
  watch("{}");
  set("alice", "a", "1", 0);
  set("main", "own", "1", 0);
  world_ok(&w, "state.shared.delete", "{\"key\":\"a\"}");
  receive("3");
  OUT("messages.0.body.key", "\"a\"");
  OUT("messages.0.body.kind", "\"set\"");
  OUT("messages.1.body.writer", "\"main\"");
  OUT("messages.2.body.key", "\"a\"");
  OUT("messages.2.body.kind", "\"delete\"");
}

static void shared_watch__in_subscription_id__goes_on_where_it_stopped_after_a_restart(void **state)
{
  (void)state;
  char first[PD_SUBSCRIPTION_ID_SIZE];
  watch("{\"prefix\":\"a\"}");
  strcpy(first, subscription);
  set("alice", "a", "1", 0);
  receive("1");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  set("alice", "a", "2", 1);
  world_restart(&w);
  set("alice", "a", "3", 2);
  world_ok(&w, "queue.receive", "{}"); /* its session is no more: nothing is told */
  OUT("count", "0");
  char *input = text_of("{\"subscription_id\":\"%s\"}", first);
  watch(input);
  assert_string_equal(subscription, first);
  receive("2");
  OUT("messages.0.body.version", "2");
  OUT("messages.1.body.version", "3");
  free(input);
  input = text_of("{\"subscription_id\":\"%s\",\"prefix\":\"b\"}", first);
  world_fails(&w, "state.shared.watch", input, "InvalidInput", "correct");
  free(input);
}

static void shared_watch__in_subscription_id__gives_what_was_not_acknowledged_first(void **state)
{
  (void)state;
  watch("{}");
  for (unsigned i = 0; i < 4; i++) set("alice", "a", "1", i);
  world_ok(&w, "queue.send", "{\"to\":\"main\",\"body\":1}");
  receive("5");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}"); /* the send, which was there first */
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m2\"]}");
  world_restart(&w);
  set("alice", "a", "1", 4);
  char *input = text_of("{\"subscription_id\":\"%s\"}", subscription);
  watch(input);
  free(input);
  receive("4");
  for (int i = 0; i < 4; i++) {
    char path[64], version[8];
    snprintf(path, sizeof path, "messages.%d.body.version", i);
    snprintf(version, sizeof version, "%d", i + 2);
    OUT(path, version);
    snprintf(path, sizeof path, "messages.%d.deliveries", i);
    OUT(path, i < 3 ? "2" : "1");
  }
}

/* ---- what is told ---- */

static void shared_watch__out_subscription_id__is_in_each_event(void **state)
{
  (void)state;
  watch("{}");
  w.now_ms += 5000;
  set("alice", "config.mode", "\"x\"", 0);
  receive("1");
  OUT("messages.0.kind", "\"shared_change\"");
  OUT("messages.0.from", "null");
  char *body = text_of("{\"type\":\"shared_change\",\"subscription_id\":\"%s\",\"kind\":\"set\",\"key\":\"config.mode\",\"version\":1,"
                       "\"writer\":\"alice\",\"time\":\"2026-11-15T10:00:05.000Z\",\"cursor\":",
                       subscription);
  assert_memory_equal(world_out(&w, "messages.0.body"), body, strlen(body));
  free(body);
}

static void shared_watch__effect_1__delivers_until_the_session_ends(void **state)
{
  (void)state;
  watch("{}");
  set("alice", "a", "1", 0);
  assert_int_equal(pd_session_end(w.home, "main", w.session, &w.err), PD_OK);
  w.session[0] = 0;
  set("alice", "a", "2", 1);
  receive("1"); /* what happened before the end is told */
  OUT("messages.0.body.version", "1");
  world_begin_session(&w);
  char *input = text_of("{\"subscription_id\":\"%s\"}", subscription);
  world_fails(&w, "state.shared.watch", input, "SubscriptionFailed", "retry");
  free(input);
}

static void shared_watch__effect_1__ends_when_the_session_idles_out(void **state)
{
  (void)state;
  bool has_any = false;
  w.home->config.session_idle_ms = 60000;
  watch("{}");
  for (int i = 0; i < 4; i++) { /* receiving is using it */
    w.now_ms += 50000;
    receive("0");
  }
  assert_int_equal(pd_subscriptions_any(w.home, "main", &has_any, &w.err), PD_OK);
  assert_true(has_any);
  w.now_ms += 70000;
  w.session[0] = 0;
  set("alice", "a", "1", 0);
  world_ok(&w, "queue.receive", "{}");
  assert_int_equal(pd_subscriptions_any(w.home, "main", &has_any, &w.err), PD_OK);
  assert_false(has_any);
}

static void shared_set__effect_2__notifies_all_subscribed_agents(void **state)
{
  (void)state;
  static const char *const agents[] = {"ann", "ben", "cy"};
  for (size_t i = 0; i < COUNT_OF(agents); i++) {
    w.agent = agents[i];
    w.session[0] = 0;
    watch(i == 2 ? "{\"prefix\":\"other\"}" : "{}");
  }
  set("alice", "a", "1", 0);
  for (size_t i = 0; i < COUNT_OF(agents); i++) {
    w.agent = agents[i];
    receive(i == 2 ? "0" : "1");
  }
}

static void shared_watch__each_of_two_subscriptions_is_told_in_order(void **state)
{
  (void)state;
  char first[PD_SUBSCRIPTION_ID_SIZE];
  watch("{}");
  strcpy(first, subscription);
  watch("{\"prefix\":\"k\"}");
  for (unsigned i = 0; i < 5; i++) set("alice", "k", "1", i);
  receive("10");
  unsigned version[2] = {0, 0};
  for (int i = 0; i < 10; i++) {
    char path[64];
    snprintf(path, sizeof path, "messages.%d.body.subscription_id", i);
    int which = strncmp(world_out(&w, path) + 1, first, strlen(first)) != 0;
    snprintf(path, sizeof path, "messages.%d.body.version", i);
    assert_int_equal(atoi(world_out(&w, path)), (int)++version[which]);
  }
  assert_int_equal(version[0], 5);
}

static void shared_watch__a_full_queue_loses_nothing(void **state)
{
  (void)state;
  w.home->config.queue_count_max = 4;
  watch("{}");
  for (unsigned i = 0; i < 11; i++) set("alice", "k", "1", i);
  unsigned told = 0;
  for (int round = 0; round < 5; round++) {
    world_ok(&w, "queue.receive", "{\"max\":100}");
    int count = atoi(world_out(&w, "count"));
    for (int i = 0; i < count; i++) {
      char path[64];
      snprintf(path, sizeof path, "messages.%d.body.version", i);
      assert_int_equal(atoi(world_out(&w, path)), (int)++told);
    }
    if (count)
      assert_int_equal(world_callf(&w, "queue.ack", "{\"message_ids\":[\"m%u\",\"m%u\",\"m%u\",\"m%u\"]}", told, told > 1 ? told - 1 : 1,
                                   told > 2 ? told - 2 : 1, told > 3 ? told - 3 : 1),
                       PD_OK);
  }
  assert_int_equal(told, 11);
}

static void shared_watch__more_than_one_commit_of_events_comes_whole(void **state)
{
  (void)state;
  pd_store *store;
  pd_edit *edit;
  char key[16];
  watch("{}");
  assert_int_equal(pd_store_open(w.uri, "shared", NULL, &store, &w.err), PD_OK);
  assert_int_equal(pd_edit_begin(store, NULL, &edit, &w.err), PD_OK); /* one record with more changes than one batch takes */
  for (int i = 0; i < 2500; i++) {
    snprintf(key, sizeof key, "k%05d", i);
    assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text("1"), 0, &w.err), PD_OK);
  }
  assert_int_equal(pd_edit_commit(edit, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  for (int told = 0; told < 2500; told += 100) {
    char text[32];
    receive("100");
    snprintf(text, sizeof text, "\"k%05d\"", told);
    OUT("messages.0.body.key", text);
    snprintf(text, sizeof text, "\"k%05d\"", told + 99);
    OUT("messages.99.body.key", text);
  }
  receive("0");
}

static void shared_watch__a_gap_by_retention_is_told(void **state)
{
  (void)state;
  pd_store *store;
  watch("{}");
  for (unsigned i = 0; i < 30; i++) set("alice", "k", "1", i);
  assert_int_equal(pd_store_open(w.uri, "shared", NULL, &store, &w.err), PD_OK);
  pd_gc_policy policy = {.keep_last = 1};
  assert_int_equal(pd_gc(store, &policy, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  set("alice", "k", "1", 30);
  world_ok(&w, "queue.receive", "{\"max\":100}");
  OUT("messages.0.body.kind", "\"gap\"");
  OUT("messages.0.body.key", "null");
  assert_non_null(strstr((const char *)w.out.data, "\"version\":31"));
}

static void shared_watch__a_move_of_the_whole_state_is_told(void **state)
{
  (void)state;
  pd_store *store;
  watch("{\"prefix\":\"x\"}");
  set("alice", "k", "1", 0);
  assert_int_equal(pd_store_open(w.uri, "shared", NULL, &store, &w.err), PD_OK);
  assert_int_equal(pd_undo(store, 1, &(pd_note){.author = "boss"}, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  receive("1");
  OUT("messages.0.body.kind", "\"move\"");
  OUT("messages.0.body.writer", "\"boss\"");
}

/* ---- waiting ---- */

static void *change_from_elsewhere(void *ctx)
{
  set_in(ctx, "alice", "k", "\"wake up\"", 0);
  return NULL;
}

static void queue_receive__in_wait_ms__ends_when_watched_state_changes(void **state)
{
  (void)state;
  pd_home *other;
  pthread_t thread;
  assert_int_equal(pd_home_open(w.uri, NULL, &other, &w.err), PD_OK);
  watch("{}");
  int64_t start = pd_clock_monotonic_ms();
  assert_int_equal(pthread_create(&thread, NULL, change_from_elsewhere, other), 0);
  world_ok(&w, "queue.receive", "{\"wait_ms\":60000}");
  pthread_join(thread, NULL);
  OUT("count", "1");
  OUT("messages.0.body.key", "\"k\"");
  assert_true(pd_clock_monotonic_ms() - start < 50000);
  assert_int_equal(pd_home_close(other, &w.err), PD_OK);
}

/* ---- failures ---- */

static void shared_watch__err_SubscriptionFailed__without_a_session(void **state)
{
  (void)state;
  world_fails(&w, "state.shared.watch", "{}", "SubscriptionFailed", "retry");
  snprintf(w.session, sizeof w.session, "%s", "no-such-session");
  world_fails(&w, "state.shared.watch", "{}", "SubscriptionFailed", "retry");
  w.session[0] = 0;
  world_begin_session(&w);
  w.agent = "thief"; /* with another's session */
  world_fails(&w, "state.shared.watch", "{}", "SubscriptionFailed", "retry");
}

static void shared_watch__err_SubscriptionFailed__for_another_agents_subscription(void **state)
{
  (void)state;
  watch("{}");
  char *input = text_of("{\"subscription_id\":\"%s\"}", subscription);
  w.agent = "thief";
  world_begin_session(&w);
  world_fails(&w, "state.shared.watch", input, "SubscriptionFailed", "retry");
  world_ok(&w, "state.shared.unwatch", input);
  OUT("removed", "false");
  free(input);
  world_fails(&w, "state.shared.watch", "{\"subscription_id\":\"../main\"}", "InvalidInput", "correct");
}

static void shared_watch__err_SubscriptionFailed__when_the_store_cannot_be_opened(void **state)
{
  (void)state;
  char *path = text_of("%s/shared.db", w.folder);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  for (int i = 0; i < 4096; i++) fputs("this is no database ", f);
  assert_int_equal(fclose(f), 0);
  free(path);
  world_begin_session(&w);
  world_fails(&w, "state.shared.watch", "{}", "SubscriptionFailed", "retry");
}

static void shared_watch__err_SubscriptionFailed__after_1000_of_them(void **state)
{
  (void)state;
  pd_store *store;
  pd_edit *edit;
  char key[64];
  assert_int_equal(pd_store_open(w.uri, "system", NULL, &store, &w.err), PD_OK);
  assert_int_equal(pd_edit_begin(store, NULL, &edit, &w.err), PD_OK);
  for (int i = 0; i < PD_SUBSCRIPTION_COUNT_MAX - 1; i++) {
    snprintf(key, sizeof key, "subscription/main:%016x", i);
    const char *value = "{\"session\":\"s\",\"prefix\":\"\",\"cursor\":\"1\",\"holder\":\"\",\"process\":\"\"}";
    assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text(value), 0, &w.err), PD_OK);
  }
  assert_int_equal(pd_edit_commit(edit, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  w.now_ms = pd_clock_now_ms(NULL); /* as that store's */
  world_begin_session(&w);
  world_ok(&w, "state.shared.watch", "{}");
  world_fails(&w, "state.shared.watch", "{}", "SubscriptionFailed", "retry");
  w.now_ms += 8LL * 86400 * 1000; /* those that nobody took on again make room */
  world_begin_session(&w);
  world_ok(&w, "state.shared.watch", "{}");
}

/* ---- unwatch ---- */

static void shared_unwatch__in_subscription_id__names_the_one_that_ends(void **state)
{
  (void)state;
  char first[PD_SUBSCRIPTION_ID_SIZE];
  watch("{\"prefix\":\"a\"}");
  strcpy(first, subscription);
  watch("{\"prefix\":\"b\"}");
  assert_int_equal(world_callf(&w, "state.shared.unwatch", "{\"subscription_id\":\"%s\"}", first), PD_OK);
  OUT("removed", "true");
  set("alice", "a", "1", 0);
  set("alice", "b", "1", 0);
  receive("1");
  OUT("messages.0.body.key", "\"b\"");
}

static void shared_unwatch__out_removed__is_true_once(void **state)
{
  (void)state;
  watch("{}");
  assert_int_equal(world_callf(&w, "state.shared.unwatch", "{\"subscription_id\":\"%s\"}", subscription), PD_OK);
  OUT("removed", "true");
  assert_int_equal(world_callf(&w, "state.shared.unwatch", "{\"subscription_id\":\"%s\"}", subscription), PD_OK);
  OUT("removed", "false");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(shared_watch__in_prefix__takes_only_keys_that_begin_so, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__in_prefix__if_omitted_all_changes_are_reported_own_ones_too, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__in_subscription_id__goes_on_where_it_stopped_after_a_restart, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__in_subscription_id__gives_what_was_not_acknowledged_first, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__out_subscription_id__is_in_each_event, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__effect_1__delivers_until_the_session_ends, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__effect_1__ends_when_the_session_idles_out, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__effect_2__notifies_all_subscribed_agents, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__each_of_two_subscriptions_is_told_in_order, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__a_full_queue_loses_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__more_than_one_commit_of_events_comes_whole, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__a_gap_by_retention_is_told, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__a_move_of_the_whole_state_is_told, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue_receive__in_wait_ms__ends_when_watched_state_changes, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__err_SubscriptionFailed__without_a_session, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__err_SubscriptionFailed__for_another_agents_subscription, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__err_SubscriptionFailed__when_the_store_cannot_be_opened, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_watch__err_SubscriptionFailed__after_1000_of_them, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_unwatch__in_subscription_id__names_the_one_that_ends, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_unwatch__out_removed__is_true_once, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
