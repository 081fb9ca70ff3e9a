/* storage_contract.c: the clauses S1 to S8, each on a fresh URI; storage_epochs.c has S9 to S12. */
#include "contract/storage_contract.h"

#include "base/base.h"
#include "base/json_merge.h"
#include "contract/storage_clauses.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MAX 64

static const storage_contract_target *current;

const storage_contract_target *storage_contract_current(void)
{
  return current;
}

/* ---- helpers ------------------------------------------------------------------------------------------------------- */

pd_storage *storage_open(const char *uri)
{
  pd_storage *storage = NULL;
  pd_error err = {0};
  if (pd_storage_open(uri, &storage, &err) != PD_OK) fail_msg("open %s: %s", uri, err.message);
  return storage;
}

static void expect_says(const pd_error *err, pd_code code, pd_code want, const char *says)
{
  if (code != want) fail_msg("%s (%s) instead of %s", pd_code_name(code), code ? err->message : "", pd_code_name(want));
  if (!strstr(err->message, says)) fail_msg("'%s' does not say '%s'", err->message, says);
  assert_int_equal(err->code, want);
}

void storage_open_refused(const char *uri, pd_code code, const char *says)
{
  pd_storage *storage = NULL;
  pd_error err = {0};
  expect_says(&err, pd_storage_open(uri, &storage, &err), code, says);
  assert_null(storage);
}

char *snapshot_new(const char *agent, uint64_t tick, size_t messages)
{
  char *history = text_of("%s", "");
  size_t size = 0, capacity = 1;
  for (size_t i = 0; i < messages; i++) {
    char *one = text_of("%s{\"role\":\"%s\",\"content\":\"message %zu of a long talk\"}", i ? "," : "", i % 2 ? "assistant" : "user", i);
    size_t more = strlen(one);
    if (size + more + 1 > capacity) history = realloc(history, capacity = 2 * (size + more + 1));
    memcpy(history + size, one, more + 1);
    size += more;
    free(one);
  }
  char *all = text_of("{\"agent_id\":\"%s\",\"tick_index\":%llu,\"timestamp\":1706582400000,\"status\":\"WAITING_FOR_EVENT\","
                      "\"memory\":{\"short_term_history\":[%s],\"working_variables\":{\"retry_count\":%llu,\"path\":\"/tmp/x\"}},"
                      "\"event_queue_backup\":[{\"source\":\"mcp\",\"type\":\"task\",\"payload\":\"%llu\"}]}",
                      agent, (unsigned long long)tick, history, (unsigned long long)tick, (unsigned long long)tick);
  free(history);
  return all;
}

void storage_save(pd_storage *storage, const char *agent, const char *document)
{
  pd_error err = {0};
  if (pd_storage_save(storage, agent, pd_text(document), &err) != PD_OK) fail_msg("save %s: %s", agent, err.message);
}

void storage_save_refused(pd_storage *storage, const char *agent, const char *document, pd_code code, const char *says)
{
  pd_error err = {0};
  expect_says(&err, pd_storage_save(storage, agent, pd_text(document), &err), code, says);
}

void expect_same_meaning(pd_bytes a, pd_bytes b)
{
  pd_json left, right;
  bool is_same = false;
  assert_int_equal(pd_json_parse(a, &left, NULL), PD_OK);
  assert_int_equal(pd_json_parse(b, &right, NULL), PD_OK);
  assert_int_equal(pd_json_equal(left, right, &is_same, NULL), PD_OK);
  if (!is_same) fail_msg("not the same:\n%.*s\n%.*s", (int)a.size, (const char *)a.data, (int)b.size, (const char *)b.data);
}

void storage_expect(pd_storage *storage, const char *agent, const char *document)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_error err = {0};
  pd_code code = pd_storage_load(storage, agent, &got, &err);
  if (!document) {
    assert_int_equal(code, PD_NOT_FOUND);
    return;
  }
  if (code) fail_msg("load %s: %s", agent, err.message);
  expect_same_meaning((pd_bytes){got.data, got.size}, pd_text(document));
}

void storage_load_refused(pd_storage *storage, const char *agent, pd_code code, const char *says)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_error err = {0};
  expect_says(&err, pd_storage_load(storage, agent, &got, &err), code, says);
  assert_int_equal(got.size, 0);
}

static void join_name(void *ctx, const char *agent)
{
  char **all = ctx, *longer = text_of("%s%s%s", *all, **all ? " " : "", agent);
  free(*all);
  *all = longer;
}

char *storage_names(pd_storage *storage)
{
  char *all = text_of("%s", "");
  pd_error err = {0};
  if (pd_storage_list(storage, join_name, &all, &err) != PD_OK) fail_msg("list: %s", err.message);
  return all;
}

void expect_names(pd_storage *storage, const char *want)
{
  char *names = storage_names(storage);
  assert_string_equal(names, want);
  free(names);
}

void save_tick(pd_storage *storage, const char *agent, uint64_t tick, size_t messages)
{
  char *document = snapshot_new(agent, tick, messages);
  storage_save(storage, agent, document);
  free(document);
}

void expect_tick(pd_storage *storage, const char *agent, uint64_t tick, size_t messages)
{
  char *document = snapshot_new(agent, tick, messages);
  storage_expect(storage, agent, document);
  free(document);
}

/* ---- S1, S2 -------------------------------------------------------------------------------------------------------- */

static void S1_what_is_saved_is_loaded(void **state)
{
  pd_storage *s = storage_open(*state);
  storage_expect(s, "worker_007", NULL);
  save_tick(s, "worker_007", 1, 3);
  expect_tick(s, "worker_007", 1, 3);
  save_tick(s, "worker_007", 2, 5);
  expect_tick(s, "worker_007", 2, 5);
  save_tick(s, "worker_007", 3, 0);
  expect_tick(s, "worker_007", 3, 0);
  pd_storage_close(s);
}

static void S1_other_handles_see_it_and_it_is_there_after_a_close(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  save_tick(a, "x", 7, 2);
  expect_tick(b, "x", 7, 2);
  save_tick(b, "x", 8, 2);
  expect_tick(a, "x", 8, 2);
  pd_storage_close(a);
  pd_storage_close(b);
  a = storage_open(*state);
  expect_tick(a, "x", 8, 2);
  pd_storage_close(a);
}

static void S1_what_is_refused_leaves_the_old_one(void **state)
{
  pd_storage *s = storage_open(*state);
  save_tick(s, "x", 1, 2);
  char *other = snapshot_new("y", 2, 2);
  storage_save_refused(s, "x", other, PD_INVALID, "is of agent 'y', not of 'x'");
  storage_save_refused(s, "x", "{}", PD_INVALID, "agent_id");
  storage_save_refused(s, "x", "{\"agent_id\":\"x\"", PD_INVALID, "");
  storage_save_refused(s, "x", "", PD_INVALID, "");
  storage_save_refused(s, "../x", other, PD_INVALID, "");
  storage_save_refused(s, "", other, PD_INVALID, "");
  size_t size = PD_SNAPSHOT_SIZE_MAX + 1;
  char *big = malloc(size + 1);
  memset(big, ' ', size);
  big[size] = '\0';
  storage_save_refused(s, "x", big, PD_LIMIT, "over the limit");
  expect_tick(s, "x", 1, 2);
  storage_expect(s, "y", NULL);
  expect_names(s, "x");
  free(big);
  free(other);
  pd_storage_close(s);
}

/* What JSON can say and a snapshot may hold. */
static const char odd_document[] =
  " {\"zz\" : [3,1,2,{\"b\":1,\"a\":2}], \"agent_id\":\"\\u0078\", "
  "\"tick_index\":9007199254740991,\"timestamp\":0,\"status\":\"\\u00e9\\n\\\"\","
  "\"n\":[1,1.0,1e0,-0,1E400,123456789012345678901234567890,null,true,\"\\ud83d\\ude00\"],"
  "\"memory\":{\"long_term\":{\"keep\":[[],{},\"\"]},\"working_variables\":{\"\":1,\"a/"
  "b\":2,\"nul\\u0000name\":3,\"\\u00fc\":{\"deep\":[1]},"
  "\"history\":4,\"window\":5,\"%\":\"\\\\\"},\"short_term_history\":[{},{},{\"role\":\"user\",\"content\":[ 1 , 2 ]},{}]},"
  "\"event_queue_backup\":[{\"id\":2},{\"id\":1},{\"id\":1}],\"unknown\":{\"short_term_history\":[1]},"
  "\"perdure\":{\"effects\":[1,{\"id\":[]},null],\"replies\":{\"no\":\"list\"},\"x\":[]}}\n";

static const char other_ledger[] = "{\"agent_id\":\"x\",\"tick_index\":1,\"timestamp\":0,\"status\":\"s\",\"perdure\":[{\"replies\":[1]}],"
                                   "\"memory\":{\"working_variables\":{},\"short_term_history\":[]},\"event_queue_backup\":[]}";

static void S2_everything_that_json_can_say_is_kept(void **state)
{
  pd_storage *s = storage_open(*state);
  storage_save(s, "x", odd_document);
  storage_expect(s, "x", odd_document);
  char *name = calloc(1, 3001);
  memset(name, 'n', 3000);
  char *longest =
    text_of("{\"event_queue_backup\":[],\"memory\":{\"short_term_history\":[],\"working_variables\":{\"%s\":{\"a\":1},\"b\":[]}},"
            "\"status\":\"s\",\"timestamp\":1,\"tick_index\":0,\"agent_id\":\"x\"}",
            name);
  storage_save(s, "x", longest);
  storage_expect(s, "x", longest);
  storage_save(s, "x", odd_document);
  storage_expect(s, "x", odd_document);
  storage_save(s, "x", other_ledger);
  storage_expect(s, "x", other_ledger);
  free(longest);
  free(name);
  pd_storage_close(s);
}

static void S2_large_snapshots_are_kept(void **state)
{
  pd_storage *s = storage_open(*state);
  size_t size = 5000000;
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; i++) text[i] = (char)('a' + (i * 2654435761u >> 13) % 26);
  text[size] = '\0';
  char *document =
    text_of("{\"agent_id\":\"x\",\"tick_index\":1,\"timestamp\":1,\"status\":\"s\",\"memory\":{\"short_term_history\":[{\"c\":\"%s\"}],"
            "\"working_variables\":{}},\"event_queue_backup\":[]}",
            text);
  storage_save(s, "x", document);
  storage_expect(s, "x", document);
  free(document);
  free(text);
  save_tick(s, "x", 2, 20000);
  expect_tick(s, "x", 2, 20000);
  pd_storage_close(s);
}

/* A context window and a queue: entries come at the end and go at the front. */
static void S2_lists_that_slide_keep_their_order(void **state)
{
  pd_storage *s = storage_open(*state);
  for (unsigned tick = 0; tick < 60; tick++) {
    char *list = text_of("%s", "");
    unsigned from = tick > 12 ? tick - 12 : 0, to = tick % 7 == 6 ? from : tick + tick % 3;
    for (unsigned i = from; i < to; i++) {
      char *longer = text_of("%s%s{\"n\":%u}", list, i > from ? "," : "", i % 5 ? i : 0);
      free(list);
      list = longer;
    }
    char *document =
      text_of("{\"agent_id\":\"x\",\"tick_index\":%u,\"timestamp\":1,\"status\":\"s\",\"memory\":{\"short_term_history\":[%s],"
              "\"working_variables\":{\"v%u\":1}},\"event_queue_backup\":[%s]}",
              tick, list, tick % 4, list);
    storage_save(s, "x", document);
    storage_expect(s, "x", document);
    free(document);
    free(list);
  }
  pd_storage_close(s);
}

/* ---- S3, S4, S8 ---------------------------------------------------------------------------------------------------- */

static void S3_delete_removes_and_says_when_there_is_nothing(void **state)
{
  pd_storage *s = storage_open(*state);
  pd_error err = {0};
  assert_int_equal(pd_storage_delete(s, "x", &err), PD_NOT_FOUND);
  assert_non_null(strstr(err.message, "'x'"));
  save_tick(s, "x", 1, 1);
  save_tick(s, "y", 1, 1);
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_OK);
  storage_expect(s, "x", NULL);
  expect_names(s, "y");
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_NOT_FOUND);
  save_tick(s, "x", 0, 4);
  expect_tick(s, "x", 0, 4);
  assert_int_equal(pd_storage_delete(s, "a b", NULL), PD_INVALID);
  pd_storage_close(s);
}

static void S4_all_agents_are_listed_by_name(void **state)
{
  pd_storage *s = storage_open(*state);
  expect_names(s, "");
  storage_expect(s, "nobody", NULL);
  expect_names(s, ""); /* a look makes nothing */
  static const char *const names[] = {"b", "worker_007", "B", "a", "0"};
  for (size_t i = 0; i < COUNT_OF(names); i++) save_tick(s, names[i], i, 1);
  expect_names(s, "0 B a b worker_007");
  pd_storage_close(s);
}

static void S8_names_that_look_alike_are_different_agents(void **state)
{
  pd_storage *s = storage_open(*state);
  char longest[PD_NAME_SIZE_MAX + 1] = {0};
  memset(longest, 'n', PD_NAME_SIZE_MAX);
  const char *const names[] = {"a", "A", "a.json", "a.json.json", "a-b", "a_b", "a.b", "con", "a.json.abcdef", longest};
  for (size_t i = 0; i < COUNT_OF(names); i++) save_tick(s, names[i], 100 + i, i);
  for (size_t i = 0; i < COUNT_OF(names); i++) expect_tick(s, names[i], 100 + i, i);
  assert_int_equal(pd_storage_delete(s, "a", NULL), PD_OK);
  for (size_t i = 1; i < COUNT_OF(names); i++) expect_tick(s, names[i], 100 + i, i);
  pd_storage_close(s);
}

/* ---- S7 ------------------------------------------------------------------------------------------------------------ */

typedef struct saver {
  pd_storage *storage;
  unsigned number;
  pd_code code;
} saver;

static void *save_many(void *arg)
{
  saver *w = arg;
  char *agent = text_of("agent-%u", w->number);
  for (unsigned tick = 0; tick < 15 && !w->code; tick++) {
    char *document = snapshot_new(agent, tick, w->number);
    w->code = pd_storage_save(w->storage, agent, pd_text(document), NULL);
    free(document);
  }
  free(agent);
  return NULL;
}

static void S7_threads_may_share_a_handle(void **state)
{
  saver savers[4];
  pthread_t threads[4];
  pd_storage *s = storage_open(*state);
  for (unsigned i = 0; i < 4; i++) {
    savers[i] = (saver){s, i, PD_OK};
    assert_int_equal(pthread_create(&threads[i], NULL, save_many, &savers[i]), 0);
  }
  for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (unsigned i = 0; i < 4; i++) {
    char *agent = text_of("agent-%u", i);
    assert_int_equal(savers[i].code, PD_OK);
    expect_tick(s, agent, 14, i);
    free(agent);
  }
  pd_storage_close(s);
}

static void save_and_exit(const char *uri, unsigned number)
{
  pd_storage *s = NULL;
  pd_code code = pd_storage_open(uri, &s, NULL);
  for (unsigned i = 0; !code && i < 20; i++) {
    char *document = snapshot_new("x", number * 1000 + i, number);
    code = pd_storage_save(s, "x", pd_text(document), NULL);
    free(document);
  }
  _exit(code ? 1 : 0);
}

/* Whoever is last, the snapshot is one of theirs, and whole. */
static void S7_processes_may_save_at_once(void **state)
{
  pid_t children[3];
  pd_storage *first = storage_open(*state); /* made by one, so that the race is about saving */
  save_tick(first, "x", 0, 1);
  pd_storage_close(first);
  for (unsigned i = 0; i < 3; i++) {
    children[i] = fork();
    if (!children[i]) save_and_exit(*state, i + 1);
  }
  for (unsigned i = 0; i < 3; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_snapshot facts;
  pd_storage *s = storage_open(*state);
  assert_int_equal(pd_storage_load(s, "x", &got, NULL), PD_OK);
  assert_int_equal(pd_snapshot_check((pd_bytes){got.data, got.size}, "x", &facts, NULL), PD_OK);
  assert_int_equal(facts.tick_index % 1000, 19);
  expect_tick(s, "x", facts.tick_index, facts.tick_index / 1000);
  pd_storage_close(s);
}

/* ---- durability, ticks, a model ------------------------------------------------------------------------------------ */

static void durability_is_told(void **state)
{
  pd_storage_durability found;
  pd_storage *s = storage_open(*state);
  save_tick(s, "x", 1, 1);
  assert_int_equal(pd_storage_durability_get(s, &found, NULL), PD_OK);
  assert_int_equal(found.lasting, current->lasting);
  assert_true(strlen(found.detail) > 10);
  pd_storage_close(s);
}

typedef struct tick_list {
  uint64_t ticks[64];
  size_t count, stop_at;
} tick_list;

static bool note_tick(void *ctx, const pd_storage_tick *tick)
{
  tick_list *list = ctx;
  assert_true(tick->place && *tick->place);
  list->ticks[list->count++] = tick->tick_index;
  return list->count != list->stop_at;
}

static void ticks_can_be_revisited_where_they_are_kept(void **state)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  tick_list list = {0}, two = {.stop_at = 2};
  pd_storage *s = storage_open(*state);
  for (unsigned tick = 1; tick <= 9; tick++) save_tick(s, "x", tick, tick % 4);
  if (!current->has_ticks) {
    assert_int_equal(pd_storage_ticks(s, "x", note_tick, &list, NULL), PD_UNSUPPORTED);
    assert_int_equal(pd_storage_load_tick(s, "x", 3, &got, NULL), PD_UNSUPPORTED);
    pd_storage_close(s);
    return;
  }
  assert_int_equal(pd_storage_ticks(s, "x", note_tick, &list, NULL), PD_OK);
  assert_int_equal(list.count, 9);
  for (unsigned i = 0; i < 9; i++) assert_int_equal(list.ticks[i], 9 - i);
  assert_int_equal(pd_storage_ticks(s, "x", note_tick, &two, NULL), PD_OK);
  assert_int_equal(two.count, 2);
  for (unsigned tick = 1; tick <= 9; tick++) {
    char *want = snapshot_new("x", tick, tick % 4);
    assert_int_equal(pd_storage_load_tick(s, "x", tick, &got, NULL), PD_OK);
    expect_same_meaning((pd_bytes){got.data, got.size}, pd_text(want));
    free(want);
  }
  assert_int_equal(pd_storage_load_tick(s, "x", 10, &got, NULL), PD_NOT_FOUND);
  assert_int_equal(pd_storage_ticks(s, "nobody", note_tick, &list, NULL), PD_NOT_FOUND);
  pd_storage_close(s);
}

/* 250 random calls over four agents, against the documents in memory. */
static void random_calls_behave_like_a_map(void **state)
{
  static const char *const names[] = {"a", "b", "c", "d"};
  char *model[4] = {0};
  const char *given = getenv("PERDURE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)getpid();
  print_message("# seed %u\n", seed);
  pd_storage *s = storage_open(*state);
  for (unsigned i = 0; i < 250; i++) {
    unsigned who = (unsigned)rand_r(&seed) % 4, what = (unsigned)rand_r(&seed) % 10;
    if (what < 6) {
      free(model[who]);
      model[who] = snapshot_new(names[who], i, (unsigned)rand_r(&seed) % 30);
      storage_save(s, names[who], model[who]);
    } else if (what == 6) {
      assert_int_equal(pd_storage_delete(s, names[who], NULL), model[who] ? PD_OK : PD_NOT_FOUND);
      free(model[who]);
      model[who] = NULL;
    } else if (what == 7) {
      pd_storage_close(s);
      s = storage_open(*state);
    }
    storage_expect(s, names[who], model[who]);
  }
  for (unsigned i = 0; i < 4; i++) {
    storage_expect(s, names[i], model[i]);
    free(model[i]);
  }
  pd_storage_close(s);
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
  *state = current->uri_new();
  return 0;
}

static int tear_down(void **state)
{
  current->uri_destroy(*state);
  free(*state);
  return 0;
}

int storage_contract_run(const storage_contract_target *target, const struct CMUnitTest *own, size_t own_count)
{
#define CLAUSE_OF(test)                                                                                                                    \
  {                                                                                                                                        \
#test, test, set_up, tear_down, NULL                                                                                                   \
  }
  static const struct CMUnitTest clauses[] = {
    CLAUSE_OF(S1_what_is_saved_is_loaded),
    CLAUSE_OF(S1_other_handles_see_it_and_it_is_there_after_a_close),
    CLAUSE_OF(S1_what_is_refused_leaves_the_old_one),
    CLAUSE_OF(S2_everything_that_json_can_say_is_kept),
    CLAUSE_OF(S2_large_snapshots_are_kept),
    CLAUSE_OF(S2_lists_that_slide_keep_their_order),
    CLAUSE_OF(S3_delete_removes_and_says_when_there_is_nothing),
    CLAUSE_OF(S4_all_agents_are_listed_by_name),
    CLAUSE_OF(S7_threads_may_share_a_handle),
    CLAUSE_OF(S7_processes_may_save_at_once),
    CLAUSE_OF(S8_names_that_look_alike_are_different_agents),
    CLAUSE_OF(S9_each_claim_gets_a_larger_epoch),
    CLAUSE_OF(S9_epochs_follow_the_clock),
    CLAUSE_OF(S9_a_claim_makes_no_snapshot_and_changes_none),
    CLAUSE_OF(S10_only_the_last_claim_may_save),
    CLAUSE_OF(S10_who_was_removed_does_not_come_back),
    CLAUSE_OF(S10_processes_that_take_over_never_interleave),
    CLAUSE_OF(S11_the_mark_comes_back_with_its_snapshot),
    CLAUSE_OF(S12_a_save_that_follows_another_one_than_is_stored_changes_nothing),
    CLAUSE_OF(S12_a_save_that_arrives_twice_is_one_save),
    CLAUSE_OF(S12_processes_of_one_epoch_lose_no_save),
    CLAUSE_OF(durability_is_told),
    CLAUSE_OF(ticks_can_be_revisited_where_they_are_kept),
    CLAUSE_OF(random_calls_behave_like_a_map),
  };
  static struct CMUnitTest tests[TESTS_MAX];
  current = target;
  size_t count = 0;
  for (; count < COUNT_OF(clauses); count++) {
    tests[count] = clauses[count];
    tests[count].name = text_of("%s__%s", target->name, clauses[count].name);
  }
  if (count + own_count > TESTS_MAX) abort();
  for (size_t i = 0; i < own_count; i++) tests[count + i] = own[i];
  int failed = _cmocka_run_group_tests(target->name, tests, count + own_count, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(clauses); i++) free((char *)tests[i].name);
  return failed;
}
