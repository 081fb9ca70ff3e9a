/*
 * staged_test.c: capabilities that end in a commit, in two steps (pd_call_begin, pd_call_finish): messages, threads, work items and alerts
 * alike. What is staged shares a sync, is seen and audited when it is finished, and is done anew or fails as a whole.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/json.h"
#include "support/fault_backend.h"
#include "support/gate_backend.h"
#include "support/temp_folder.h"

#include <perdure/retention.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SET "state.persistent.set"

typedef struct kind {
  const char *capability, *input, *store;
  const char *again;                               /* a call that what is staged stands against… */
  const char *outcome;                             /* …and what comes of it; NULL: it is the same operation, and a duplicate */
  const char *looker, *look, *look_input, *member; /* how many took effect, as readers see it */
} kind;

static const kind kinds[] = {
  {"queue.send", "{\"to\":\"reader\",\"body\":1,\"operation_id\":\"o1\"}", "reader",
   "{\"to\":\"reader\",\"body\":1,\"operation_id\":\"o1\"}", NULL, "reader", "queue.count", "{}", "unread"},
  {"threads.append",
   "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"patches\":[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]}",
   "main", "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"expected_version\":0}", "VersionConflict", "main",
   "threads.load", "{\"thread_id\":\"t\"}", "version"},
  {"work.claim", "{\"run_id\":\"w1\"}", "main", "{\"run_id\":\"w1\"}", "RunNotHeld", "main", "work.list", "{\"status\":\"investigating\"}",
   "count"},
  {"history.commit", "{\"changes\":[{\"key\":\"h\",\"value\":1,\"expected_version\":0}]}", "main",
   "{\"changes\":[{\"key\":\"h\",\"value\":2,\"expected_version\":0}]}", "VersionConflict", "main", "state.persistent.list",
   "{\"prefix\":\"h\"}", "count"},
};

/* Other calls of the kind, that nothing stands against. */
static const char *const others[] = {
  "{\"to\":\"reader\",\"body\":2}",
  "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"patches\":[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]}",
  "{\"run_id\":\"w2\"}",
  "{\"changes\":[{\"key\":\"h2\",\"value\":1}]}",
};

/* All stores are open and written to, and what is written to is there. */
static void warm(world *w)
{
  w->agent = "reader";
  world_ok(w, SET, "{\"key\":\"a\",\"value\":1}");
  w->agent = "main";
  world_ok(w, SET, "{\"key\":\"a\",\"value\":1}");
  world_ok(w, "queue.send", "{\"to\":\"reader\",\"body\":0}");
  w->agent = "reader";
  world_ok(w, "queue.receive", "{}");
  world_ok(w, "queue.ack", "{\"message_ids\":[\"m1\"]}");
  w->agent = "main";
  world_ok(w, "alerts.send", "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\"}"); /* in 'system' */
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"n\":0}}");
  for (int i = 1; i <= 3; i++) world_okf(w, "work.create", "{\"run_id\":\"w%d\"}", i);
  assert_int_equal(pd_home_flush(w->home, &w->err), PD_OK); /* else the audit may be writing to `system` meanwhile */
}

static unsigned count_of(world *w, const kind *k)
{
  w->agent = k->looker;
  world_ok(w, k->look, k->look_input);
  w->agent = "main";
  return (unsigned)strtoul(world_out(w, k->member), NULL, 10);
}

static void want_count(world *w, const kind *k, unsigned count)
{
  unsigned is = count_of(w, k);
  if (is != count) fail_msg("%s: %u took effect, not %u", k->capability, is, count);
}

/* As a thread begins it that serves connections. */
static pd_begun *begin(world *w, const char *capability, const char *input)
{
  pd_ctx ctx = {.home = w->home, .agent = w->agent, .session = *w->session ? w->session : NULL};
  pd_begun *begun = NULL;
  pd_disk_wait_assert(true);
  pd_disk_wait_forbid(true);
  pd_code code = pd_call_begin(&ctx, capability, pd_text(input), &begun, &w->out, &w->err);
  pd_disk_wait_forbid(false);
  pd_disk_wait_assert(false);
  if (code) fail_msg("%s %s: %s", capability, input, w->err.message);
  return begun;
}

static pd_begun *stage(world *w, const char *capability, const char *input)
{
  pd_begun *begun = begin(w, capability, input);
  if (!begun || !pd_begun_group(begun)) fail_msg("%s %s was not staged: %s", capability, input, w->err.message);
  return begun;
}

static pd_code finish(world *w, pd_begun *begun)
{
  pd_code code = pd_call_finish(begun, &w->out, &w->err);
  assert_int_equal(pd_buf_byte(&w->out, 0, NULL), PD_OK); /* as world_call does, for world_out */
  w->out.size--;
  return code;
}

static void finish_ok(world *w, const kind *k, pd_begun *begun)
{
  if (finish(w, begun)) fail_msg("%s: %s", k->capability, w->err.message);
}

/* Lines of the audit about the capability with this outcome (NULL: any); *out_commits: those that name a commit. */
static unsigned audit_count(world *w, const char *capability, const char *outcome, unsigned *out_commits)
{
  unsigned count = 0;
  pd_json answer, line;
  w->is_operator = true;
  world_okf(w, "audit.list", "{\"capability\":\"%s\"}", capability);
  w->is_operator = false;
  *out_commits = 0;
  assert_int_equal(pd_json_parse(pd_buf_bytes(&w->out), &answer, NULL), PD_OK);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "lines"));
  while (pd_json_walk_next(&walk, NULL, &line)) {
    if (outcome && !pd_json_is(pd_json_member(line, "outcome"), outcome)) continue;
    uint64_t alike = 1;
    if (!pd_json_u64(pd_json_member(line, "count"), &alike)) alike = 1;
    count += (unsigned)alike;
    *out_commits += pd_json_member(line, "commit").kind != PD_JSON_NONE;
  }
  return count;
}

static unsigned audited(world *w, const kind *k)
{
  unsigned commits;
  return audit_count(w, k->capability, NULL, &commits);
}

/* ---- staged ---- */

static unsigned appends; /* to counted_store; atomic */
static const char *counted_store;

static void count_append(void *ctx, const char *store)
{
  (void)ctx;
  if (strcmp(store, counted_store) == 0) __atomic_add_fetch(&appends, 1, __ATOMIC_SEQ_CST);
}

static void staged__calls_share_a_sync_and_are_seen_and_audited_when_they_are_finished(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    gate_backend_install();
    world_open_at(&w, "gate:memory:staged", NULL);
    warm(&w);
    unsigned lines = audited(&w, k), before = count_of(&w, k);
    pd_begun *first = stage(&w, k->capability, k->input), *second = stage(&w, k->capability, others[i]);
    assert_ptr_equal(pd_begun_group(first), pd_begun_group(second));
    assert_int_equal(audited(&w, k), lines);
    counted_store = k->store;
    appends = 0;
    gate_before_append(count_append, NULL);
    finish_ok(&w, k, first);
    finish_ok(&w, k, second);
    gate_before_append(NULL, NULL);
    assert_int_equal(appends, 1);
    want_count(&w, k, before + 2);
    assert_int_equal(audited(&w, k), lines + 2);
    world_close(&w);
  }
}

static void staged__nothing_is_seen_before_it_is_finished(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    world w;
    pd_store *store;
    pd_stats before, after;
    world_open(&w, NULL);
    warm(&w);
    assert_int_equal(world_borrow(w.home, kinds[i].store, false, &store, &w.err), PD_OK);
    assert_int_equal(pd_store_stats(store, &before, NULL), PD_OK);
    pd_begun *begun = stage(&w, kinds[i].capability, kinds[i].input);
    assert_int_equal(pd_store_stats(store, &after, NULL), PD_OK);
    assert_int_equal(after.commits, before.commits);
    finish_ok(&w, &kinds[i], begun);
    assert_int_equal(pd_store_stats(store, &after, NULL), PD_OK);
    assert_int_equal(after.commits, before.commits + 1);
    pd_home_return(w.home, store);
    world_close(&w);
  }
}

static void staged__a_call_that_another_process_overtook_is_done_anew(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    pd_store *theirs = NULL;
    world_open(&w, NULL);
    warm(&w);
    unsigned lines = audited(&w, k), before = count_of(&w, k);
    assert_int_equal(pd_store_open(w.uri, k->store, NULL, &theirs, NULL), PD_OK);
    pd_begun *first = stage(&w, k->capability, k->input), *second = stage(&w, k->capability, others[i]);
    assert_int_equal(pd_put(theirs, pd_text("theirs"), pd_text("1"), NULL, NULL, NULL), PD_OK);
    finish_ok(&w, k, first);
    finish_ok(&w, k, second);
    want_count(&w, k, before + 2);
    assert_int_equal(audited(&w, k), lines + 2);
    assert_int_equal(pd_store_close(theirs, NULL), PD_OK);
    world_close(&w);
  }
}

static void staged__a_failed_sync_fails_all_that_wait_for_it_and_nothing_of_them_comes_back(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    unsigned commits;
    fault_backend_install();
    fault_backend_plan((fault_plan){0});
    world_open_at(&w, "fault:memory:staged", NULL);
    warm(&w);
    unsigned before = count_of(&w, k);
    pd_begun *first = stage(&w, k->capability, k->input), *second = stage(&w, k->capability, others[i]);
    fault_backend_plan((fault_plan){.at = 1, .count = UINT64_MAX, .ops = FAULT_LOG_APPEND});
    pd_code codes[] = {finish(&w, first), finish(&w, second)};
    fault_backend_plan((fault_plan){0});
    for (size_t c = 0; c < COUNT_OF(codes); c++) assert_int_equal(codes[c], PD_STORAGE);
    assert_non_null(strstr((const char *)w.out.data, "\"error\""));
    want_count(&w, k, before);
    assert_int_equal(audit_count(&w, k->capability, "DatabaseError", &commits), 2);
    assert_int_equal(commits, 0); /* what was staged is not named: it is nowhere */
    finish_ok(&w, k, stage(&w, k->capability, k->input));
    want_count(&w, k, before + 1);
    world_close(&w);
  }
}

/* What is staged may fail yet. */
static void staged__an_answer_that_rests_on_what_is_staged_is_left_to_one_who_may_wait(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    world_open(&w, NULL);
    warm(&w);
    unsigned before = count_of(&w, k);
    pd_begun *first = stage(&w, k->capability, k->input), *second = begin(&w, k->capability, k->again);
    assert_non_null(second);
    assert_null(pd_begun_group(second));
    pd_code code = finish(&w, second); /* before the first: nobody else is there to sync */
    if (k->outcome) {
      assert_int_not_equal(code, PD_OK);
      assert_string_equal(pd_error_name(&w.err), k->outcome);
    } else {
      assert_int_equal(code, PD_OK);
      world_want(&w, "is_duplicate", "true");
    }
    finish_ok(&w, k, first);
    want_count(&w, k, before + 1);
    world_close(&w);
  }
}

static void staged__a_repeated_operation_is_answered_at_once_when_the_first_is_on_the_disk(void **state)
{
  (void)state;
  world w;
  world_open_at(&w, "memory:repeated", NULL);
  warm(&w);
  finish_ok(&w, &kinds[0], stage(&w, kinds[0].capability, kinds[0].input));
  world_want(&w, "message_id", "\"m2\"");
  assert_null(begin(&w, kinds[0].capability, kinds[0].again));
  assert_int_equal(pd_buf_byte(&w.out, 0, NULL), PD_OK);
  w.out.size--;
  world_want(&w, "message_id", "\"m2\"");
  world_want(&w, "is_duplicate", "true");
  want_count(&w, &kinds[0], 1);
  world_close(&w);
}

static void staged__a_buffered_commit_is_done_at_once(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    world_open(&w, "[store]\nflush = \"1m\"\n");
    warm(&w);
    w.agent = k->store;
    world_ok(&w, SET, "{\"key\":\"b\",\"value\":1}"); /* its log is claimed, until it is flushed */
    unsigned before = count_of(&w, k);
    assert_null(begin(&w, k->capability, k->input));
    want_count(&w, k, before + 1);
    world_restart(&w);
    want_count(&w, k, before + 1);
    pd_begun *begun = begin(&w, k->capability, others[i]);
    if (!begun) fail_msg("%s did not wait for the log that another may hold", k->capability);
    assert_null(pd_begun_group(begun));
    finish_ok(&w, k, begun);
    want_count(&w, k, before + 2);
    world_close(&w);
  }
}

/* After a restart the settings of gc are not in memory, and the commit that makes it look for them is one of many. */
static void staged__a_buffered_commit_is_made_once_though_gc_would_have_to_read(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[store]\nflush = \"1m\"\n");
  warm(&w);
  world_restart(&w);
  world_ok(&w, "queue.send", "{\"to\":\"reader\",\"body\":0}"); /* its log is claimed */
  w.agent = "reader";
  world_ok(&w, "queue.count", "{}");
  unsigned before = (unsigned)strtoul(world_out(&w, "unread"), NULL, 10);
  w.agent = "main";
  for (int i = 0; i < 700; i++) {
    pd_begun *begun = begin(&w, "queue.send", "{\"to\":\"reader\",\"body\":1}");
    if (begun) assert_int_equal(finish(&w, begun), PD_OK);
  }
  w.agent = "reader";
  world_ok(&w, "queue.count", "{}");
  assert_int_equal(strtoul(world_out(&w, "unread"), NULL, 10), before + 700);
  world_close(&w);
}

static void staged__gc_and_a_flush_beside_conclude_what_is_staged(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    pd_store *store;
    world_open(&w, NULL);
    warm(&w);
    unsigned before = count_of(&w, k);
    assert_int_equal(world_borrow(w.home, k->store, false, &store, &w.err), PD_OK);
    pd_begun *first = stage(&w, k->capability, k->input);
    assert_int_equal(pd_gc(store, &(pd_gc_policy){.keep_last = 1}, NULL, &w.err), PD_OK);
    pd_begun *second = begin(&w, k->capability, others[i]);
    assert_non_null(second);
    assert_int_equal(pd_store_flush(store, &w.err), PD_OK);
    finish_ok(&w, k, first);
    finish_ok(&w, k, second);
    want_count(&w, k, before + 2);
    pd_home_return(w.home, store);
    world_close(&w);
  }
}

/* Its store is not closed before, though others are wanted and few may be open. */
static void staged__the_store_of_a_staged_commit_stays_open(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    const kind *k = &kinds[i];
    world w;
    world_open(&w, "[store]\nopen_max = 2\n");
    warm(&w);
    unsigned before = count_of(&w, k);
    pd_begun *begun = NULL;
    for (int tries = 0; tries < 1000 && !(begun && pd_begun_group(begun)); tries++) { /* the closer may have been quicker */
      if (begun) pd_call_drop(begun);
      begun = begin(&w, k->capability, k->input);
      if (!begun || !pd_begun_group(begun)) count_of(&w, k);
    }
    assert_non_null(pd_begun_group(begun));
    for (int n = 0; n < 8; n++) {
      char agent[16];
      snprintf(agent, sizeof agent, "other%d", n);
      w.agent = agent;
      world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
    }
    w.agent = "main";
    finish_ok(&w, k, begun);
    want_count(&w, k, before + 1);
    world_close(&w);
  }
}

/* A call that takes long, though it needs no disk, is not done where others wait for their requests to be read. */
static void staged__a_long_walk_is_left_to_one_who_may_take_its_time(void **state)
{
  (void)state;
  world w;
  world_open_at(&w, "memory:long", NULL);
  for (int i = 0; i <= PD_DISK_STEPS_MAX; i++) world_okf(&w, "work.create", "{\"run_id\":\"i%d\"}", i);
  for (int i = 0; i < PD_DISK_STEPS_MAX; i++) world_okf(&w, "work.claim", "{\"run_id\":\"i%d\"}", i);
  pd_begun *begun = begin(&w, "work.claim", "{}");
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_OK);
  char last[32];
  snprintf(last, sizeof last, "\"i%d\"", PD_DISK_STEPS_MAX);
  world_want(&w, "run.id", last);
  world_close(&w);
}

static void staged__who_would_wait_for_a_message_is_told_elsewhere_and_who_finds_one_is_not(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  warm(&w);
  w.agent = "reader";
  pd_begun *begun = begin(&w, "queue.receive", "{\"wait_ms\":60000}");
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  pd_call_drop(begun);
  begun = begin(&w, "queue.receive", "{}"); /* that there is none rests on the log */
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_OK);
  world_want(&w, "count", "0");
  w.agent = "main";
  world_ok(&w, "queue.send", "{\"to\":\"reader\",\"body\":7}");
  w.agent = "reader";
  assert_int_equal(finish(&w, stage(&w, "queue.receive", "{\"wait_ms\":60000}")), PD_OK);
  world_want(&w, "messages.0.body", "7");
  assert_int_equal(finish(&w, stage(&w, "queue.ack", "{\"message_ids\":[\"m2\"]}")), PD_OK);
  world_want(&w, "acknowledged", "1");
  world_close(&w);
}

/* Its thread is the one that others' commits wait for: if the message was another's in the end, it does not sleep there. */
static void staged__a_receive_that_was_overtaken_answers_at_once_though_it_would_wait(void **state)
{
  (void)state;
  world w;
  pd_home *second;
  pd_buf out = {0};
  world_open(&w, NULL);
  warm(&w);
  world_ok(&w, "queue.send", "{\"to\":\"reader\",\"body\":7}");
  w.agent = "reader";
  pd_begun *begun = stage(&w, "queue.receive", "{\"wait_ms\":60000}");
  assert_int_equal(pd_home_open(w.uri, NULL, &second, &w.err), PD_OK);
  pd_ctx ctx = {.home = second, .agent = "reader"};
  assert_int_equal(pd_call(&ctx, "queue.receive", pd_text("{}"), &out, &w.err), PD_OK);
  assert_int_equal(pd_call(&ctx, "queue.ack", pd_text("{\"message_ids\":[\"m2\"]}"), &out, &w.err), PD_OK);
  alarm(30); /* else it would be a minute */
  assert_int_equal(finish(&w, begun), PD_OK);
  alarm(0);
  world_want(&w, "count", "0");
  pd_buf_done(&out);
  assert_int_equal(pd_home_close(second, &w.err), PD_OK);
  world_close(&w);
}

static void staged__an_item_goes_its_way(void **state)
{
  (void)state;
  static const char *const ends[] = {"work.update", "work.complete"};
  world w;
  world_open(&w, NULL);
  warm(&w);
  assert_int_equal(finish(&w, stage(&w, "work.create", "{\"run_id\":\"w9\"}")), PD_OK);
  assert_int_equal(finish(&w, stage(&w, "work.claim", "{\"run_id\":\"w9\"}")), PD_OK);
  char *token = world_text(&w, "run.token");
  for (size_t i = 0; i < COUNT_OF(ends); i++) {
    char input[160];
    snprintf(input, sizeof input, "{\"run_id\":\"w9\",\"token\":\"%s\"}", token);
    assert_int_equal(finish(&w, stage(&w, ends[i], input)), PD_OK);
  }
  world_want(&w, "run.status", "\"completed\"");
  free(token);
  world_close(&w);
}

static void staged__a_subscription_ends(void **state)
{
  (void)state;
  world w;
  char input[160];
  world_open(&w, NULL);
  warm(&w);
  w.agent = "reader"; /* it has a queue */
  world_begin_session(&w);
  world_ok(&w, "state.shared.watch", "{\"prefix\":\"p\"}");
  char *id = world_text(&w, "subscription_id");
  snprintf(input, sizeof input, "{\"subscription_id\":\"%s\"}", id);
  free(id);
  assert_int_equal(finish(&w, stage(&w, "state.shared.unwatch", input)), PD_OK);
  world_want(&w, "removed", "true");
  world_close(&w);
}

/* ---- many at once ---- */

#define BEGINNERS 4
#define FINISHERS 2
#define CALLS 40 /* of each of those who begin, of each kind */

typedef struct crowd {
  world *w;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pd_begun *begun[BEGINNERS * CALLS * 4];
  size_t count, taken, beginners;
  unsigned ok, failed;
} crowd;

static void begin_one(crowd *c, const char *capability, const char *input)
{
  pd_ctx ctx = {.home = c->w->home, .agent = "main"};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_begun *begun = NULL;
  pd_code code = pd_call_begin(&ctx, capability, pd_text(input), &begun, &out, NULL);
  pthread_mutex_lock(&c->lock);
  if (begun) c->begun[c->count++] = begun;
  if (!begun) ++*(code ? &c->failed : &c->ok);
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static void *begin_many(void *ctx)
{
  crowd *c = ctx;
  pd_disk_wait_forbid(true); /* a thread that serves connections */
  for (int i = 0; i < CALLS; i++) {
    begin_one(c, "queue.send", others[0]);
    begin_one(c, "threads.append", others[1]);
    begin_one(c, "work.create", "{}");
  }
  pthread_mutex_lock(&c->lock);
  c->beginners--;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

static pd_begun *take(crowd *c)
{
  pthread_mutex_lock(&c->lock);
  while (c->taken == c->count && c->beginners) pthread_cond_wait(&c->changed, &c->lock);
  pd_begun *begun = c->taken < c->count ? c->begun[c->taken++] : NULL;
  pthread_mutex_unlock(&c->lock);
  return begun;
}

static void *finish_many(void *ctx)
{
  crowd *c = ctx;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  for (pd_begun *begun; (begun = take(c));) {
    pd_code code = pd_call_finish(begun, &out, NULL);
    pthread_mutex_lock(&c->lock);
    ++*(code ? &c->failed : &c->ok);
    pthread_mutex_unlock(&c->lock);
  }
  return NULL;
}

static void staged__many_begin_and_few_finish_and_each_takes_effect_once(void **state)
{
  (void)state;
  static crowd c;
  world w;
  pthread_t threads[BEGINNERS + FINISHERS];
  world_open(&w, NULL);
  warm(&w);
  c = (crowd){.w = &w, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .beginners = BEGINNERS};
  pd_disk_wait_assert(true);
  for (size_t i = 0; i < COUNT_OF(threads); i++)
    assert_int_equal(pthread_create(&threads[i], NULL, i < BEGINNERS ? begin_many : finish_many, &c), 0);
  for (size_t i = 0; i < COUNT_OF(threads); i++) pthread_join(threads[i], NULL);
  pd_disk_wait_assert(false);
  assert_int_equal(c.failed, 0);
  assert_int_equal(c.ok, BEGINNERS * CALLS * 3);
  want_count(&w, &kinds[0], BEGINNERS * CALLS);
  want_count(&w, &kinds[1], BEGINNERS * CALLS);
  world_ok(&w, "work.list", "{\"limit\":1000}");
  assert_int_equal(strtoul(world_out(&w, "count"), NULL, 10), BEGINNERS * CALLS + 3);
  world_close(&w);
}

/* ---- what must not be ---- */

enum { DONE = 7, FAILED };

static void look_after_staging(pd_store *store, bool looks)
{
  pd_later *later = NULL;
  pd_note note = {.later = &later};
  const struct rlimit no_core = {0};
  setrlimit(RLIMIT_CORE, &no_core);
  pd_disk_wait_assert(true);
  pd_disk_refuse();
  if (pd_put(store, pd_text("k"), pd_text("v"), &note, NULL, NULL) || !later) _exit(FAILED);
  if (looks) (void)!pd_get(store, NULL, pd_text("k"), NULL, NULL, NULL);
  (void)pd_disk_allow();
  bool again;
  _exit(pd_later_wait(later, &again, NULL) || pd_get(store, NULL, pd_text("k"), NULL, NULL, NULL) ? FAILED : DONE);
}

static int end_of_looking(bool looks)
{
  pid_t child = fork();
  if (child == 0) {
    pd_store *store = NULL;
    if (pd_store_open("memory:", "main", NULL, &store, NULL)) _exit(FAILED);
    look_after_staging(store, looks);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void staged__a_call_that_looks_at_a_store_after_its_last_commit_is_caught(void **state)
{
  (void)state;
  int status = end_of_looking(false);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == DONE);
  status = end_of_looking(true);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(staged__calls_share_a_sync_and_are_seen_and_audited_when_they_are_finished),
    cmocka_unit_test(staged__nothing_is_seen_before_it_is_finished),
    cmocka_unit_test(staged__a_call_that_another_process_overtook_is_done_anew),
    cmocka_unit_test(staged__a_failed_sync_fails_all_that_wait_for_it_and_nothing_of_them_comes_back),
    cmocka_unit_test(staged__an_answer_that_rests_on_what_is_staged_is_left_to_one_who_may_wait),
    cmocka_unit_test(staged__a_repeated_operation_is_answered_at_once_when_the_first_is_on_the_disk),
    cmocka_unit_test(staged__a_buffered_commit_is_done_at_once),
    cmocka_unit_test(staged__gc_and_a_flush_beside_conclude_what_is_staged),
    cmocka_unit_test(staged__the_store_of_a_staged_commit_stays_open),
    cmocka_unit_test(staged__a_long_walk_is_left_to_one_who_may_take_its_time),
    cmocka_unit_test(staged__who_would_wait_for_a_message_is_told_elsewhere_and_who_finds_one_is_not),
    cmocka_unit_test(staged__a_receive_that_was_overtaken_answers_at_once_though_it_would_wait),
    cmocka_unit_test(staged__a_buffered_commit_is_made_once_though_gc_would_have_to_read),
    cmocka_unit_test(staged__an_item_goes_its_way),
    cmocka_unit_test(staged__a_subscription_ends),
    cmocka_unit_test(staged__many_begin_and_few_finish_and_each_takes_effect_once),
    cmocka_unit_test(staged__a_call_that_looks_at_a_store_after_its_last_commit_is_caught),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
