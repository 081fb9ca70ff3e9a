/*
 * queue_place_test.c: where queues are: in the agents' own stores, and in `system` for agents that have none; how they are brought over,
 * also when the process is killed, another does the same, or an older perdure was there meanwhile (Q3 and Q4 in state/queue.h).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/stores.h"
#include "state/one_world.h"
#include "state/queue.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_at(const char *store_name, const char *ref, const char *key)
{
  pd_store *store;
  pd_buf value = {0};
  if (world_borrow(w.home, store_name, false, &store, &w.err)) return false;
  pd_code code = pd_get(store, ref, pd_text(key), &value, NULL, &w.err);
  pd_home_return(w.home, store);
  pd_buf_done(&value);
  return code == PD_OK;
}

/* The agent writes something: now it has a store. */
static void give_store(const char *agent)
{
  w.agent = agent;
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
}

static void queue__of_an_agent_with_a_store_is_there(void **state)
{
  (void)state;
  give_store("bob");
  send("alice", "bob", "1");
  assert_true(is_at("bob", PD_QUEUE_REF, "queue/bob/00000000000000000001"));
  assert_false(is_at("system", "main", "queue/bob"));
}

static void queue__a_message_makes_no_store_for_an_agent_that_has_none(void **state)
{
  (void)state;
  bool has_store = true;
  send("alice", "bob", "1");
  w.agent = "bob";
  world_ok(&w, "queue.count", "{}");
  world_want(&w, "unread", "1");
  world_ok(&w, "queue.receive", "{}");
  world_want(&w, "count", "1");
  assert_int_equal(pd_home_has_agent(w.home, "bob", &has_store, &w.err), PD_OK);
  assert_false(has_store);
}

static void queue__looking_at_an_empty_queue_writes_nothing(void **state)
{
  (void)state;
  pd_store *store;
  pd_stats before, after;
  give_store("bob");
  assert_int_equal(world_borrow(w.home, "bob", false, &store, &w.err), PD_OK);
  assert_int_equal(pd_store_stats(store, &before, &w.err), PD_OK);
  world_ok(&w, "queue.count", "{}");
  world_ok(&w, "queue.receive", "{}");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  world_want(&w, "acknowledged", "0");
  assert_int_equal(pd_store_stats(store, &after, &w.err), PD_OK);
  assert_int_equal(after.records, before.records);
  pd_home_return(w.home, store);
}

static void queue__is_brought_over_when_its_agent_gets_a_store(void **state)
{
  (void)state;
  for (int i = 1; i <= 4; i++) {
    w.agent = "alice";
    world_okf(&w, "queue.send", "{\"to\":\"bob\",\"body\":%d,\"operation_id\":\"op-%d\"}", i, i);
  }
  assert_int_equal(pd_queue_push(w.home, "bob", "notice", pd_text("5"), "once", &w.err), PD_OK);
  w.agent = "bob";
  world_ok(&w, "queue.receive", "{\"max\":2,\"visibility_ms\":60000}");
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  give_store("bob");
  world_ok(&w, "queue.count", "{}");
  world_want(&w, "unread", "3");
  world_want(&w, "in_flight", "1");
  assert_false(is_at("system", "main", "queue/bob/00000000000000000002"));
  assert_int_equal(pd_queue_push(w.home, "bob", "notice", pd_text("5"), "once", &w.err), PD_OK); /* it was pushed */
  w.agent = "alice";
  world_ok(&w, "queue.send", "{\"to\":\"bob\",\"body\":3,\"operation_id\":\"op-3\"}");
  world_want(&w, "is_duplicate", "true");
  send("alice", "bob", "6");
  world_want(&w, "message_id", "\"m6\"");
  w.agent = "bob";
  w.now_ms += 60001;
  world_ok(&w, "queue.receive", "{}");
  world_want(&w, "count", "5");
  world_want(&w, "messages.0.message_id", "\"m2\"");
  world_want(&w, "messages.0.deliveries", "2");
  world_want(&w, "messages.4.body", "6");
}

/* The sender's debt is known before and after, and is paid by an acknowledgement after it. */
static void queue__bytes_of_a_sender_count_on_when_it_is_brought_over(void **state)
{
  (void)state;
  w.home->config.queue_sender_bytes_max = 1000;
  char body[702];
  memset(body, 'x', sizeof body);
  body[0] = body[700] = '"';
  body[701] = 0;
  send("alice", "bob", body);
  give_store("bob");
  give_store("alice");
  for (int i = 0; i < 2; i++) {
    w.agent = "alice";
    assert_int_equal(world_callf(&w, "queue.send", "{\"to\":\"%s\",\"body\":%s}", i ? "carol" : "bob", body), PD_QUOTA);
    assert_string_equal(pd_error_name(&w.err), "QuotaExceeded");
  }
  w.agent = "bob";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  world_want(&w, "acknowledged", "1");
  send("alice", "carol", body);
}

/* It finds a head without messages, and goes on with its numbers; what it writes is brought over once more. */
static void queue__what_an_older_perdure_sends_later_comes_once(void **state)
{
  (void)state;
  pd_store *system;
  send("alice", "bob", "1");
  give_store("bob");
  world_ok(&w, "queue.receive", "{}");
  send("alice", "bob", "\"new\""); /* m2, in the store */
  assert_int_equal(pd_home_store(w.home, PD_STORE_SYSTEM, true, &system, &w.err), PD_OK);
  static const char old[] = "{\"kind\":\"message\",\"from\":\"alice\",\"time\":1794736800000,\"body\":\"old\"}";
  assert_int_equal(pd_put(system, pd_text("queue/bob/00000000000000000002"), pd_text(old), NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_put(system, pd_text("queue/bob"), pd_text("{\"next\":3,\"count\":1,\"bytes\":70}"), NULL, NULL, &w.err), PD_OK);
  for (int i = 0; i < 2; i++) {
    world_restart(&w);
    w.agent = "bob";
    world_ok(&w, "queue.count", "{}");
    world_want(&w, "unread", "2");
  }
  world_ok(&w, "queue.receive", "{}");
  world_want(&w, "messages.0.body", "\"new\"");
  world_want(&w, "messages.1.body", "\"old\"");
  world_want(&w, "messages.1.message_id", "\"m3\"");
}

/* An agent's store that comes from another home says how far its queue was brought from the system store of that home, not of this one. */
static void queue__messages_that_wait_for_a_store_from_another_home_are_not_lost(void **state)
{
  (void)state;
  world there;
  char copy[1024];
  for (int i = 1; i <= 3; i++) send("alice", "bob", "\"there\"");
  give_store("bob");
  world_ok(&w, "queue.count", "{}");
  world_want(&w, "unread", "3");
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK);
  there = w;
  world_open(&w, NULL);
  send("alice", "bob", "\"here\"");
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK);
  snprintf(copy, sizeof copy, "cp '%s'/bob.* '%s'/", there.folder, w.folder);
  assert_int_equal(system(copy), 0);
  pd_home_options options = {.folder = w.folder};
  assert_int_equal(pd_home_open(w.uri, &options, &w.home, &w.err), PD_OK);
  for (int i = 0; i < 2; i++) {
    w.agent = "bob";
    world_ok(&w, "queue.count", "{}");
    world_want(&w, "unread", "4");
  }
  world_ok(&w, "queue.receive", "{}");
  world_want(&w, "messages.3.body", "\"here\"");
  world_want(&w, "messages.3.message_id", "\"m4\"");
  there.home = NULL;
  world_close(&there);
}

/* ---- kills, and two at once ---- */

#define MESSAGES 2500 /* three commits of messages */

static void fill(void)
{
  world_close(&w);
  world_open(&w, "[store]\nflush = \"1s\"\n");
  for (int i = 1; i <= MESSAGES; i++) {
    char body[16];
    snprintf(body, sizeof body, "%d", i);
    assert_int_equal(pd_queue_push(w.home, "bob", "notice", pd_text(body), NULL, &w.err), PD_OK);
  }
  give_store("bob");
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK); /* children open it by themselves */
  w.home = NULL;
}

/* Bodies from 1 on, each once and in order. */
static void want_bodies(int until)
{
  w.agent = "bob";
  int next = 1;
  do {
    world_ok(&w, "queue.receive", "{\"max\":100}");
    int count = atoi(world_out(&w, "count"));
    if (!count) break;
    for (int i = 0; i < count; i++, next++) {
      char path[40], want[16];
      snprintf(path, sizeof path, "messages.%d.body", i);
      snprintf(want, sizeof want, "%d", next);
      world_want(&w, path, want);
    }
  } while (true);
  assert_int_equal(next, until + 1);
}

static void check_all(void)
{
  pd_home_options options = {.folder = w.folder};
  assert_int_equal(pd_home_open(w.uri, &options, &w.home, &w.err), PD_OK);
  want_bodies(MESSAGES);
}

static pid_t start_counting(void)
{
  pid_t child = fork();
  assert_true(child >= 0);
  if (child) return child;
  pd_home_options options = {.folder = w.folder};
  pd_queue_counts counts;
  pd_error err;
  pd_home *home;
  if (pd_home_open(w.uri, &options, &home, &err)) _exit(2);
  _exit(pd_queue_count(home, "bob", &counts, &err) || counts.unread != MESSAGES ? 3 : 0); /* nothing is closed: as if killed */
}

static void queue__a_kill_while_it_is_brought_over_loses_and_doubles_nothing(void **state)
{
  (void)state;
  fill();
  unsigned killed = 0;
  for (unsigned delay_us = 500;; delay_us += delay_us / 3) {
    int status;
    pid_t child = start_counting();
    usleep(delay_us);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      assert_int_equal(WEXITSTATUS(status), 0);
      break;
    }
    killed++;
  }
  print_message("# %u kills\n", killed);
  assert_true(killed > 3);
  check_all();
}

static void queue__two_processes_bring_it_over_at_once(void **state)
{
  (void)state;
  fill();
  pid_t children[2] = {start_counting(), start_counting()};
  for (int i = 0; i < 2; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  check_all();
}

#define OLD_MESSAGES 300

/* As an older perdure sends: it knows `system` alone, and writes a head without "moved". */
static pd_code stage_old(void *ctx, pd_edit *edit, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE], value[128];
  pd_json head;
  uint64_t next = 1, count = 0;
  if (pd_edit_get(edit, pd_text("queue/bob"), &text, NULL, err) == PD_OK) {
    TRY(pd_json_parse(pd_buf_bytes(&text), &head, err));
    assert_true(pd_json_u64(pd_json_member(head, "next"), &next) && pd_json_u64(pd_json_member(head, "count"), &count));
  }
  snprintf(value, sizeof value, "{\"kind\":\"message\",\"from\":null,\"time\":1,\"body\":%d}", *(int *)ctx);
  TRY(pd_edit_put(edit, pd_text(pd_queue_key("queue", "bob", next, key)), pd_text(value), PD_ANY_VERSION, err));
  snprintf(value, sizeof value, "{\"next\":%llu,\"count\":%llu,\"bytes\":0}", (unsigned long long)next + 1, (unsigned long long)count + 1);
  return pd_edit_put(edit, pd_text("queue/bob"), pd_text(value), PD_ANY_VERSION, err);
}

static void *send_as_old(void *is_done)
{
  pd_store *system;
  pd_error err;
  pd_note note = {.author = "alice"};
  if (pd_home_store(w.home, PD_STORE_SYSTEM, true, &system, &err)) return NULL;
  for (int i = 1; i <= OLD_MESSAGES; i++)
    if (pd_update(system, &note, stage_old, &i, NULL, &err)) return NULL;
  atomic_store((atomic_bool *)is_done, true);
  return is_done;
}

static void queue__an_older_perdure_that_sends_at_the_same_time_loses_nothing(void **state)
{
  (void)state;
  atomic_bool is_done = false;
  pd_queue_counts counts;
  pthread_t thread;
  void *done;
  world_close(&w);
  world_open(&w, "[store]\nflush = \"1s\"\n");
  give_store("bob");
  assert_int_equal(pthread_create(&thread, NULL, send_as_old, &is_done), 0);
  for (int i = 0; i < 100000 && !atomic_load(&is_done); i++) assert_int_equal(pd_queue_count(w.home, "bob", &counts, &w.err), PD_OK);
  pthread_join(thread, &done);
  assert_ptr_equal(done, &is_done);
  want_bodies(OLD_MESSAGES);
}

/* ---- what it is to others ---- */

static void queue__its_ref_is_hidden_from_agents(void **state)
{
  (void)state;
  give_store("bob");
  send("alice", "bob", "1");
  w.agent = "bob";
  world_ok(&w, "history.refs", "{}");
  world_want(&w, "count", "1");
  world_fails(&w, "history.get", "{\"key\":\"queue/bob\",\"at\":\"" PD_QUEUE_REF "\"}", "NotFound", NULL);
  world_fails(&w, "history.log", "{\"ref\":\"" PD_QUEUE_REF "\"}", "NotFound", NULL);
  world_ok(&w, "state.persistent.list", "{}");
  world_want(&w, "count", "1");
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":2}");
  world_want(&w, "version", "2"); /* messages are no versions of keys */
}

static void queue__a_backup_has_it_and_a_restore_brings_it_back(void **state)
{
  (void)state;
  give_store("bob");
  send("alice", "bob", "1");
  assert_int_equal(pd_vault_init(w.home, pd_text("correct horse battery"), NULL, &w.err), PD_OK);
  assert_int_equal(pd_vault_unlock(w.home, pd_text("correct horse battery"), &w.err), PD_OK);
  w.is_operator = true;
  world_ok(&w, "state.backup.create", "{}");
  char *id = world_text(&w, "backup_id");
  w.agent = "bob";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  world_want(&w, "acknowledged", "1");
  world_okf(&w, "state.backup.restore", "{\"backup_id\":\"%s\"}", id);
  world_ok(&w, "queue.receive", "{}");
  world_want(&w, "count", "1");
  world_want(&w, "messages.0.message_id", "\"m1\"");
  free(id);
}

/* Once the instant is chosen bob does what the message asks for, and acknowledges it. */
static bool do_what_it_says(void *ctx, uint64_t done, uint64_t total)
{
  world *here = ctx;
  if (done || !total || here->is_operator) return true;
  world_ok(here, "state.persistent.set", "{\"key\":\"done\",\"value\":1}");
  world_ok(here, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  world_want(here, "acknowledged", "1");
  return true;
}

static void queue__of_a_backup_is_of_the_same_instant_as_the_keys(void **state)
{
  (void)state;
  give_store("bob");
  send("alice", "bob", "1");
  w.agent = "bob";
  assert_int_equal(pd_vault_init(w.home, pd_text("correct horse battery"), NULL, &w.err), PD_OK);
  assert_int_equal(pd_vault_unlock(w.home, pd_text("correct horse battery"), &w.err), PD_OK);
  pd_buf out = {0};
  pd_ctx ctx = {.home = w.home, .is_operator = true, .progress = do_what_it_says, .progress_ctx = &w};
  assert_int_equal(pd_call(&ctx, "state.backup.create", pd_text("{}"), &out, &w.err), PD_OK);
  world_ok(&w, "queue.count", "{}");
  world_want(&w, "unread", "0");
  pd_buf_done(&w.out);
  w.out = out;
  assert_int_equal(pd_buf_byte(&w.out, 0, NULL), PD_OK);
  w.out.size--;
  char *id = world_text(&w, "backup_id");
  w.is_operator = true;
  world_okf(&w, "state.backup.restore", "{\"backup_id\":\"%s\"}", id);
  world_ok(&w, "state.persistent.get", "{\"key\":\"done\"}");
  world_want(&w, "found", "false");
  world_ok(&w, "queue.receive", "{}");
  world_want(&w, "count", "1");
  world_want(&w, "messages.0.message_id", "\"m1\"");
  free(id);
}

int main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(queue__of_an_agent_with_a_store_is_there, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__a_message_makes_no_store_for_an_agent_that_has_none, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__looking_at_an_empty_queue_writes_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__is_brought_over_when_its_agent_gets_a_store, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__bytes_of_a_sender_count_on_when_it_is_brought_over, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__what_an_older_perdure_sends_later_comes_once, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__messages_that_wait_for_a_store_from_another_home_are_not_lost, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__a_kill_while_it_is_brought_over_loses_and_doubles_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__two_processes_bring_it_over_at_once, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__an_older_perdure_that_sends_at_the_same_time_loses_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__its_ref_is_hidden_from_agents, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__a_backup_has_it_and_a_restore_brings_it_back, set_up, tear_down),
    cmocka_unit_test_setup_teardown(queue__of_a_backup_is_of_the_same_instant_as_the_keys, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("queue places", tests, NULL, NULL);
}
