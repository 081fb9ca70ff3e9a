/* room_test.c: what one agent may keep, over all its tiers, and what may lie in queues (quota.h, queue.h); and that `system` is pruned. */
#include "state/one_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/home.h"
#include "state/queue.h"
#include "state/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A JSON string of `size` letters; static. */
static const char *letters(size_t size)
{
  static char text[300000];
  assert_true(size + 3 < sizeof text);
  static uint64_t seed = 1; /* other ones each time: equal pieces of values are kept once */
  text[0] = '"';
  for (size_t i = 0; i < size; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    text[1 + i] = (char)('a' + (seed >> 33) % 26);
  }
  memcpy(text + 1 + size, "\"", 2);
  return text;
}

static pd_code append(const char *thread, int number, size_t size)
{
  return world_callf(&w, "threads.append",
                     "{\"thread_id\":\"%s\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\",\"text\":%s}]}",
                     thread, number, letters(size));
}

static void create(const char *thread)
{
  world_okf(&w, "threads.create", "{\"thread_id\":\"%s\"}", thread);
}

/* Appends of 100 kB until one is refused; how many fitted. */
static int fill(const char *thread, int from)
{
  int count = 0;
  while (count < 100 && !append(thread, from + count, 100000)) count++;
  assert_string_equal(world_out(&w, "error.code"), "\"QuotaExceeded\"");
  return count;
}

/* ---- agent.quota ---- */

static void room__of_threads_is_bounded_and_comes_back_when_one_is_deleted(void **state)
{
  (void)state;
  w.home->config.agent_quota_bytes = 1000000;
  create("a");
  create("b");
  int fitted = fill("a", 0);
  assert_true(fitted >= 7 && fitted <= 9);
  assert_string_equal(world_out(&w, "error.details.limit"), "1000000");
  assert_non_null(strstr(w.err.message, "agent.quota"));
  world_ok(&w, "threads.load", "{\"thread_id\":\"a\"}"); /* reading goes on… */
  assert_int_equal(append("b", 0, 200000), PD_QUOTA);
  world_ok(&w, "threads.delete", "{\"thread_id\":\"a\"}"); /* …and deleting makes room, at once */
  assert_int_equal(append("b", 0, 200000), PD_OK);
}

static void room__is_one_for_threads_forks_mailboxes_and_runs(void **state)
{
  (void)state;
  w.home->config.agent_quota_bytes = 1000000;
  create("a");
  world_ok(&w, "runs.begin", "{\"thread_id\":\"a\",\"run_id\":\"r1\"}");
  for (int i = 0; i < 3; i++) assert_int_equal(append("a", i, 100000), PD_OK);
  world_ok(&w, "threads.fork", "{\"thread_id\":\"a\",\"new_thread_id\":\"f\"}");
  fill("f", 10);
  assert_int_equal(world_callf(&w, "mailbox.send", "{\"thread_id\":\"a\",\"body\":%s}", letters(250000)), PD_QUOTA);
  assert_string_equal(world_out(&w, "error.code"), "\"QuotaExceeded\"");
  assert_int_equal(world_callf(&w, "runs.checkpoint",
                               "{\"thread_id\":\"a\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\",\"t\":%s}]}", letters(250000)),
                   PD_QUOTA);
  world_ok(&w, "runs.finish", "{\"thread_id\":\"a\"}"); /* what is begun can be ended */
}

/* The store is over the limit: what brings bytes is refused, and what reads, ends or deletes is not. */
static void room__that_is_used_up_refuses_state_and_work_but_no_deletes(void **state)
{
  (void)state;
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  world_ok(&w, "work.create", "{\"run_id\":\"r\"}");
  world_ok(&w, "work.claim", "{\"run_id\":\"r\"}");
  char token[64];
  snprintf(token, sizeof token, "%s", world_out(&w, "run.token"));
  world_ok(&w, "history.fork", "{\"name\":\"f\"}");
  create("a");
  for (int i = 0; i < 5; i++) assert_int_equal(append("a", i, 100000), PD_OK);
  world_restart(&w);
  w.home->config.agent_quota_bytes = 100000;
  assert_int_equal(world_callf(&w, "history.fork", "{\"name\":\"g\"}"), PD_QUOTA);
  assert_int_equal(world_callf(&w, "history.merge", "{\"from\":\"fork/f\"}"), PD_QUOTA);
  assert_int_equal(world_callf(&w, "history.cherry_pick", "{\"at\":\"fork/f\"}"), PD_QUOTA);
  world_ok(&w, "history.drop", "{\"name\":\"fork/f\"}");
  assert_int_equal(world_callf(&w, "state.persistent.set", "{\"key\":\"l\",\"value\":1}"), PD_QUOTA);
  assert_string_equal(world_out(&w, "error.code"), "\"QuotaExceeded\"");
  assert_non_null(strstr(w.err.message, "agent.quota"));
  assert_int_equal(world_callf(&w, "work.create", "{\"title\":\"t\"}"), PD_QUOTA);
  assert_int_equal(world_callf(&w, "work.update", "{\"run_id\":\"r\",\"token\":%s,\"progress\":%s}", token, letters(5000)), PD_QUOTA);
  assert_int_equal(world_callf(&w, "work.complete", "{\"run_id\":\"r\",\"token\":%s,\"result\":%s}", token, letters(5000)), PD_QUOTA);
  world_ok(&w, "state.persistent.get", "{\"key\":\"k\"}");
  world_ok(&w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_okf(&w, "work.complete", "{\"run_id\":\"r\",\"token\":%s,\"result\":1}", token); /* what is begun can be ended */
  world_ok(&w, "work.prune", "{\"keep\":0}");
}

/* What moves a ref brings bytes back as a write does. Where it takes some away it is never refused. */
static void room__that_is_used_up_refuses_moves_of_history_that_bring_bytes_back(void **state)
{
  (void)state;
  world_ok(&w, "state.persistent.set", "{\"key\":\"small\",\"value\":1}");
  world_ok(&w, "history.tag", "{\"name\":\"small\"}");
  world_okf(&w, "state.persistent.set", "{\"key\":\"big\",\"value\":%s}", letters(50000));
  world_ok(&w, "history.tag", "{\"name\":\"big\"}");
  world_ok(&w, "history.commit", "{\"changes\":[{\"key\":\"big\",\"delete\":true}]}");
  create("a");
  for (int i = 0; i < 5; i++) assert_int_equal(append("a", i, 100000), PD_OK);
  world_restart(&w);
  w.home->config.agent_quota_bytes = 510000; /* the thread has 500,000 */
  static const struct {
    const char *capability, *input;
  } moves[] = {{"history.undo", "{}"}, {"history.reset", "{\"to\":\"big\"}"}, {"history.rollback", "{\"to\":\"big\"}"}};
  w.is_operator = true; /* a reset needs approval */
  for (size_t i = 0; i < COUNT_OF(moves); i++) {
    world_fails(&w, moves[i].capability, moves[i].input, "QuotaExceeded", NULL);
    assert_non_null(strstr(w.err.message, "agent.quota"));
    world_want(&w, "error.details.limit", "510000");
  }
  w.home->config.agent_quota_bytes = 600000;
  world_ok(&w, "history.undo", "{}");
  world_ok(&w, "history.undo", "{}");
  world_restart(&w);
  w.home->config.agent_quota_bytes = 510000;
  world_fails(&w, "history.redo", "{}", "QuotaExceeded", NULL);
  assert_non_null(strstr(w.err.message, "agent.quota"));
  w.home->config.agent_quota_bytes = 600000;
  world_ok(&w, "history.redo", "{}");
  world_restart(&w); /* what was counted is forgotten */
  w.home->config.agent_quota_bytes = 100000;
  world_ok(&w, "history.reset", "{\"to\":\"small\"}");
  w.is_operator = false;
  assert_int_equal(world_callf(&w, "history.commit", "{\"changes\":[{\"key\":\"more\",\"value\":1}]}"), PD_QUOTA);
  world_ok(&w, "history.commit", "{\"changes\":[{\"key\":\"small\",\"delete\":true}]}");
}

static void room__of_a_home_that_is_over_a_lowered_limit_is_read_and_deleted(void **state)
{
  (void)state;
  create("a");
  for (int i = 0; i < 5; i++) assert_int_equal(append("a", i, 100000), PD_OK);
  world_restart(&w);
  w.home->config.agent_quota_bytes = 100000;
  assert_int_equal(append("a", 9, 10), PD_QUOTA);
  world_ok(&w, "threads.messages", "{\"thread_id\":\"a\",\"limit\":1}");
  world_ok(&w, "threads.delete", "{\"thread_id\":\"a\"}");
  create("b");
}

/* ---- queues ---- */

static pd_code send_to(const char *from, const char *to, size_t size)
{
  w.agent = from;
  return world_callf(&w, "queue.send", "{\"to\":\"%s\",\"body\":%s}", to, letters(size));
}

static void queue__bytes_are_bounded_and_freed_when_they_are_acknowledged(void **state)
{
  (void)state;
  w.home->config.queue_bytes_max = 250000;
  assert_int_equal(send_to("alice", "main", 100000), PD_OK);
  assert_int_equal(send_to("alice", "main", 100000), PD_OK);
  assert_int_equal(send_to("bob", "main", 100000), PD_QUOTA);
  assert_string_equal(world_out(&w, "error.code"), "\"QueueFull\"");
  assert_string_equal(world_out(&w, "error.details.limit"), "250000");
  assert_int_equal(send_to("bob", "other", 100000), PD_OK);
  world_restart(&w);
  w.home->config.queue_bytes_max = 250000;
  assert_int_equal(send_to("bob", "main", 100000), PD_QUOTA);
  w.agent = "main";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  assert_int_equal(send_to("bob", "main", 100000), PD_OK);
}

static void queue__a_sender_is_bounded_over_all_queues_also_of_agents_that_do_not_exist(void **state)
{
  (void)state;
  char to[32];
  w.home->config.queue_sender_bytes_max = 500000;
  for (int i = 0; i < 4; i++) {
    snprintf(to, sizeof to, "nobody-%d", i);
    assert_int_equal(send_to("alice", to, 100000), PD_OK);
  }
  assert_int_equal(send_to("alice", "nobody-9", 100000), PD_QUOTA);
  assert_string_equal(world_out(&w, "error.code"), "\"QuotaExceeded\"");
  assert_non_null(strstr(w.err.message, "four times queue.bytes_max"));
  assert_int_equal(send_to("bob", "nobody-9", 100000), PD_OK);
  w.agent = "nobody-0";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  assert_int_equal(send_to("alice", "nobody-9", 100000), PD_OK);
}

static void queue__a_message_that_is_sent_again_as_the_same_operation_is_there_once(void **state)
{
  static const char once[] = "{\"to\":\"main\",\"body\":1,\"operation_id\":\"op\"}";
  (void)state;
  for (int i = 0; i < 3; i++) {
    w.agent = "alice";
    world_ok(&w, "queue.send", once);
    world_want(&w, "message_id", "\"m1\"");
    world_want(&w, "is_duplicate", i ? "true" : "false");
    world_restart(&w);
  }
  w.agent = "bob"; /* ids are each sender's own */
  world_ok(&w, "queue.send", once);
  world_want(&w, "message_id", "\"m2\"");
  w.agent = "main";
  world_ok(&w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  w.agent = "alice"; /* it was received meanwhile: it is not sent anew */
  world_ok(&w, "queue.send", once);
  world_want(&w, "is_duplicate", "true");
  for (int i = 0; i < 1100; i++) world_okf(&w, "queue.send", "{\"to\":\"many\",\"body\":1,\"operation_id\":\"op-%d\"}", i);
  world_ok(&w, "queue.send", "{\"to\":\"many\",\"body\":1,\"operation_id\":\"op-200\"}");
  world_want(&w, "is_duplicate", "true");
  world_ok(&w, "queue.send", "{\"to\":\"many\",\"body\":1,\"operation_id\":\"op-0\"}"); /* 1,000 are remembered */
  world_want(&w, "is_duplicate", "false");
}

/* A head from before bytes were counted. */
static void queue__bytes_of_an_old_queue_are_counted_when_it_is_next_written(void **state)
{
  (void)state;
  pd_store *system = NULL;
  assert_int_equal(send_to("alice", "main", 100000), PD_OK);
  assert_int_equal(pd_home_store(w.home, PD_STORE_SYSTEM, true, &system, &w.err), PD_OK);
  assert_int_equal(pd_put(system, pd_text("queue/main"), pd_text("{\"next\":2,\"count\":1}"), NULL, NULL, &w.err), PD_OK);
  w.home->config.queue_bytes_max = 150000;
  assert_int_equal(send_to("alice", "main", 100000), PD_QUOTA);
  assert_int_equal(send_to("alice", "main", 10), PD_OK);
}

/* ---- the system store ---- */

static void take_all(void)
{
  char *ids = malloc(4000);
  w.agent = "main";
  for (;;) {
    size_t at = (size_t)sprintf(ids, "{\"message_ids\":["), count = 0;
    world_ok(&w, "queue.receive", "{\"max\":100}");
    for (; count < 100; count++) {
      char path[64];
      snprintf(path, sizeof path, "messages.%zu.message_id", count);
      const char *id = world_out(&w, path);
      if (!*id) break;
      at += (size_t)sprintf(ids + at, "%s%s", count ? "," : "", id);
    }
    if (!count) break;
    sprintf(ids + at, "]}");
    world_ok(&w, "queue.ack", ids);
  }
  free(ids);
}

static void system__ten_thousand_messages_that_were_acknowledged_leave_a_bounded_store(void **state)
{
  (void)state;
  pd_store *system = NULL;
  pd_gc_info gc;
  pd_stats stats;
  world_close(&w);
  world_open(&w, "[store]\nflush = \"1s\"\n"); /* nothing here is about syncs */
  for (int i = 0; i < 10000; i++) {
    assert_int_equal(send_to("alice", "main", 300), PD_OK);
    if (i % 100 == 99) take_all();
  }
  world_restart(&w); /* gc that is due runs when the home closes, at the latest */
  assert_int_equal(pd_home_store(w.home, PD_STORE_SYSTEM, true, &system, &w.err), PD_OK);
  assert_int_equal(pd_gc_status(system, &gc, &w.err), PD_OK);
  assert_int_equal(pd_store_stats(system, &stats, &w.err), PD_OK);
  print_message("# records %llu, cut at %llu, %llu bytes of log\n", (unsigned long long)stats.records, (unsigned long long)gc.cut,
                (unsigned long long)stats.log_bytes);
  assert_true(stats.records > 10000);
  assert_true(gc.is_auto && gc.cut > 2000); /* it comes with 4096 records, and keeps 1000; how many came while it ran, nobody knows */
  assert_int_equal(send_to("alice", "main", 10), PD_OK);
  w.agent = "main";
  world_ok(&w, "queue.receive", "{}");
  w.is_operator = true; /* what must be kept is: the chain of the audit is whole */
  world_ok(&w, "audit.verify", "{}");
  world_want(&w, "valid", "true");
}

static void system__gc_that_was_switched_off_by_hand_stays_off(void **state)
{
  (void)state;
  pd_store *system = NULL;
  pd_buf value = {0};
  assert_int_equal(pd_store_open(w.uri, PD_STORE_SHARED, NULL, &system, &w.err), PD_OK);
  assert_int_equal(pd_setting_set(system, PD_SETTING_GC_AUTO, pd_text("off"), NULL, &w.err), PD_OK);
  world_ok(&w, "state.shared.set", "{\"key\":\"k\",\"value\":1,\"expected_version\":0}");
  assert_int_equal(pd_setting_get(system, PD_SETTING_GC_AUTO, &value, &w.err), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&value), pd_text("off")));
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(system, &w.err), PD_OK);
}

/* ---- work items ---- */

/* Work items in memory, and how often one is read. */
typedef struct counted {
  char keys[700][80];
  char *values[700];
  size_t count, reads;
} counted;

static pd_code counted_get(void *ctx, const char *key, pd_buf *out, pd_error *err)
{
  counted *c = ctx;
  c->reads++;
  pd_buf_clear(out);
  for (size_t i = 0; i < c->count; i++)
    if (c->values[i] && strcmp(c->keys[i], key) == 0) return pd_buf_append(out, c->values[i], strlen(c->values[i]), err);
  return PD_NOT_FOUND;
}

static pd_code counted_write(void *ctx, const pd_statestore_change *changes, size_t count, pd_error *err)
{
  counted *c = ctx;
  (void)err;
  for (size_t k = 0; k < count; k++) {
    size_t i = 0;
    while (i < c->count && strncmp(c->keys[i], changes[k].key.data, changes[k].key.size + 1) != 0) i++;
    assert_true(i < COUNT_OF(c->keys));
    if (i == c->count)
      snprintf(c->keys[c->count++], sizeof c->keys[0], "%.*s", (int)changes[k].key.size, (const char *)changes[k].key.data);
    free(c->values[i]);
    c->values[i] = changes[k].value.data ? strndup(changes[k].value.data, changes[k].value.size) : NULL;
  }
  return PD_OK;
}

/* Keys are numbered as they come, so their order is that of their numbers. */
static pd_code counted_scan(void *ctx, const char *prefix, pd_work_scan_visit visit, void *visit_ctx, pd_error *err)
{
  counted *c = ctx;
  for (size_t i = 0; i < c->count; i++) {
    if (!c->values[i] || strncmp(c->keys[i], prefix, strlen(prefix)) != 0) continue;
    c->reads++;
    assert_int_equal(visit(visit_ctx, pd_text(c->keys[i]), pd_text(c->values[i]), err), PD_OK);
  }
  return PD_OK;
}

/* Of 64 that end one sweeps all 300, the others read a few keys. */
static void end_64_of_300(bool has_keys)
{
  counted *c = calloc(1, sizeof *c);
  pd_work_place place = {counted_get, counted_write, c, 1000000, 10, PD_WORK_KEEP_ALL, has_keys ? counted_scan : NULL};
  char id[16];
  for (int i = 0; i < 300; i++) {
    snprintf(id, sizeof id, "run-%d", i);
    pd_work_op op = {.verb = PD_WORK_DO_CREATE, .id = id, .title = "t", .value = pd_text("1")};
    assert_int_equal(pd_work_op_do(&place, &op, &w.err), PD_OK);
  }
  c->reads = 0;
  for (int i = 0; i < 64; i++) {
    snprintf(id, sizeof id, "run-%d", i);
    pd_work_op op = {.verb = PD_WORK_DO_CANCEL, .id = id, .reason = "no"};
    assert_int_equal(pd_work_op_do(&place, &op, &w.err), PD_OK);
  }
  print_message("# %zu reads\n", c->reads);
  assert_true(c->reads < 64 * 300 / 8);
  size_t left = 0;
  for (size_t i = 0; i < c->count; i++) left += c->values[i] && strncmp(c->keys[i], "run:run-", 8) == 0;
  if (has_keys) assert_int_equal(left, 300 - 64 + 10); /* the 64th swept */
  for (size_t i = 0; i < c->count; i++) free(c->values[i]);
  free(c);
}

static void work__ending_one_of_many_reads_few_of_the_others(void **state)
{
  (void)state;
  end_64_of_300(false);
  end_64_of_300(true);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(room__of_threads_is_bounded_and_comes_back_when_one_is_deleted),
    CASE(room__is_one_for_threads_forks_mailboxes_and_runs),
    CASE(room__that_is_used_up_refuses_state_and_work_but_no_deletes),
    CASE(room__that_is_used_up_refuses_moves_of_history_that_bring_bytes_back),
    CASE(room__of_a_home_that_is_over_a_lowered_limit_is_read_and_deleted),
    CASE(queue__bytes_are_bounded_and_freed_when_they_are_acknowledged),
    CASE(queue__a_sender_is_bounded_over_all_queues_also_of_agents_that_do_not_exist),
    CASE(queue__a_message_that_is_sent_again_as_the_same_operation_is_there_once),
    CASE(queue__bytes_of_an_old_queue_are_counted_when_it_is_next_written),
    CASE(work__ending_one_of_many_reads_few_of_the_others),
    CASE(system__ten_thousand_messages_that_were_acknowledged_leave_a_bounded_store),
    CASE(system__gc_that_was_switched_off_by_hand_stays_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
