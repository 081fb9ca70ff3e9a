/* merge_history_test.c: src/engine/merge_base.c and what merges make of odd histories: unrelated, criss-cross, five at once, many refs. */
#include "engine/merge_world.h"
#include "engine/retired.h"

/* ---- histories ---- */

static void merge__of_unrelated_histories_needs_permission(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  OK(pd_fork(s, "side", "root", NULL, NULL, &err));
  put(s, "main", "a", "1");
  put(s, "side", "b", "2");
  uint64_t before = records(s);
  assert_int_equal(pd_merge(s, "side", NULL, NULL, NULL, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "unrelated histories"));
  assert_int_equal(records(s), before);
  pd_merge_options options = {.allows_unrelated = true};
  OK(pd_merge(s, "side", &options, NULL, NULL, &err));
  assert_string_equal(get(s, "main", "a"), "1");
  assert_string_equal(get(s, "main", "b"), "2");
  pd_store_close(s, NULL);
}

/* Two refs merge each other, and then go on: two best common ancestors. */
static pd_store *criss_crossed(const char *base, const char *a, const char *b, pd_merge_options *options)
{
  pd_store *s = open_memory();
  put(s, "main", "k", base);
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  put(s, "main", "k", a);
  put(s, "side", "k", b);
  OK(pd_fork(s, "main-before", "main", NULL, NULL, &err));
  pd_note on_side = {.ref = "side"};
  OK(pd_merge(s, "side", options, NULL, NULL, &err));
  OK(pd_merge(s, "main-before", options, &on_side, NULL, &err));
  return s;
}

static void merge__of_a_criss_cross_history_merges_the_bases_first(void **state)
{
  (void)state;
  pd_merge_options options = {.policy = PD_MERGE_COUNTER};
  pd_store *s = criss_crossed("100", "110", "101", &options);
  assert_string_equal(get(s, "main", "k"), "111");
  assert_string_equal(get(s, "side", "k"), "111");
  put(s, "main", "k", "112");
  put(s, "side", "k", "211");
  pd_commit bases[4];
  size_t count;
  OK(pd_common_ancestors(s, "main", "side", bases, 4, &count, &err));
  assert_int_equal(count, 2);
  assert_true(bases[0].seq > bases[1].seq);
  pd_merge_result r;
  OK(pd_merge(s, "side", &options, NULL, &r, &err));
  assert_int_equal(r.base_count, 2);
  assert_string_equal(get(s, "main", "k"), "212"); /* 111 + 1 + 100: with either base alone, something would count twice */
  pd_merge_result_done(&r);
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

static void merge__bases_that_conflict_count_as_changed_by_both(void **state)
{
  (void)state;
  pd_merge_options ours = {.policy = PD_MERGE_OURS}, fail = {.policy = PD_MERGE_FAIL};
  pd_store *s = criss_crossed("0", "1", "2", &ours); /* main kept 1, side kept 2 */
  pd_merge_result r;
  assert_int_equal(pd_merge(s, "side", &fail, NULL, &r, &err), PD_CONFLICT);
  assert_int_equal(r.conflict_count, 1);
  assert_true(text_is(r.conflicts[0].base, "0") && text_is(r.conflicts[0].ours, "1") && text_is(r.conflicts[0].theirs, "2"));
  pd_merge_result_done(&r);
  pd_store_close(s, NULL);
}

static void merge__many_criss_crosses_deep_still_ends_and_counts_right(void **state)
{
  (void)state;
  pd_merge_options options = {.policy = PD_MERGE_COUNTER, .no_fast_forward = true};
  pd_store *s = criss_crossed("0", "1", "1", &options);
  pd_note on_side = {.ref = "side"};
  int expected = 2;
  for (int i = 0; i < 30; i++) {
    char text[16], before[32];
    snprintf(text, sizeof text, "%d", expected + 1);
    put(s, "main", "k", text);
    put(s, "side", "k", text); /* both count one: the very same commit content */
    expected += 2;
    snprintf(before, sizeof before, "before-%d", i);
    OK(pd_fork(s, before, "main", NULL, NULL, &err));
    OK(pd_merge(s, "side", &options, NULL, NULL, &err));
    OK(pd_merge(s, before, &options, &on_side, NULL, &err));
    assert_int_equal(atoi(get(s, "main", "k")), expected);
    assert_int_equal(atoi(get(s, "side", "k")), expected);
  }
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

/* The best common ancestors of random graphs against their definition. */
static void ancestors__of_random_graphs_are_the_common_ones_that_no_other_common_one_reaches(void **state)
{
  (void)state;
  enum { COMMITS = 60 };
  srand(7);
  for (int round = 0; round < 20; round++) {
    pd_store *s = open_memory();
    pd_commit commits[COMMITS];
    uint64_t reach[COMMITS]; /* bit i: commit i is an ancestor or itself */
    char name[16], at[32], key[16];
    put(s, "main", "k", "0");
    for (int i = 0; i < COMMITS; i++) {
      int p = i ? rand() % i : -1, q = i > 2 && rand() % 3 == 0 ? rand() % i : -1;
      snprintf(name, sizeof name, "r%d", i);
      snprintf(key, sizeof key, "k%d", i);
      snprintf(at, sizeof at, p < 0 ? "main" : "#%llu", p < 0 ? 0ULL : (unsigned long long)commits[p].seq);
      OK(pd_fork(s, name, at, NULL, NULL, &err));
      pd_change_in change = {.key = pd_text(key), .value_id = pd_value_id((pd_bytes){NULL, 0}), .expect_version = PD_ANY_VERSION};
      pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = name, .changes = &change, .change_count = 1};
      if (q >= 0) intent.merged = &commits[q], intent.merged_count = 1;
      pd_ack ack;
      OK(pd_write(s, &intent, &ack, &err));
      commits[i] = (pd_commit){ack.commit, ack.tree, ack.seq};
      reach[i] = 1ULL << i | (p >= 0 ? reach[p] : 0) | (q >= 0 ? reach[q] : 0);
    }
    for (int pair = 0; pair < 100; pair++) {
      int a = rand() % COMMITS, b = rand() % COMMITS;
      uint64_t common = reach[a] & reach[b], best = common;
      for (int i = 0; i < COMMITS; i++)
        if (common >> i & 1) best &= ~(reach[i] & ~(1ULL << i));
      pd_seq_set left = {.seqs = {commits[a].seq}, .count = 1}, right = {.seqs = {commits[b].seq}, .count = 1}, found;
      size_t total, expected = 0;
      pd_store_lock(s);
      OK(pd_merge_bases(s, &left, &right, true, &found, &total, &err));
      pd_store_unlock(s);
      for (int i = COMMITS; i-- > 0;)
        if (best >> i & 1) assert_int_equal(found.seqs[expected++], commits[i].seq);
      assert_int_equal(found.count, expected ? expected : 1);
      assert_int_equal(total, found.count);
    }
    pd_store_close(s, NULL);
  }
}

/* ---- five at once ---- */

#define AGENT_COUNT 5
#define STEP_COUNT 40

typedef struct worker {
  pd_store *store;
  char ref[16];
  pthread_t thread;
  int merges;
} worker;

/* Each works on a ref of its own and merges it back every few steps, while the others do. */
static void *work(void *arg)
{
  worker *w = arg;
  pd_error why;
  pd_note note = {.ref = w->ref}, on_main = {.ref = "main"};
  for (int step = 0; step < STEP_COUNT; step++) {
    pd_buf value = {0};
    char text[32];
    if (pd_get(w->store, w->ref, pd_text("count"), &value, NULL, &why)) return NULL;
    snprintf(text, sizeof text, "%.*s", (int)value.size, value.size ? (const char *)value.data : ""); /* no NUL in there */
    int next = atoi(text) + 1;
    snprintf(text, sizeof text, "%d", next);
    pd_buf_done(&value);
    if (pd_put(w->store, pd_text("count"), pd_text(text), &note, NULL, &why)) return NULL;
    if (step % 8 != 7) continue;
    if (pd_merge(w->store, w->ref, NULL, &on_main, NULL, &why)) return NULL;
    if (pd_merge(w->store, "main", NULL, &note, NULL, &why)) return NULL;
    w->merges++;
  }
  return w;
}

static void merge__by_many_at_once_loses_nothing(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  worker workers[AGENT_COUNT] = {0};
  OK(pd_setting_set(s, "merge.rule.count", pd_text("counter"), NULL, &err));
  put(s, "main", "count", "0");
  for (int i = 0; i < AGENT_COUNT; i++) {
    workers[i].store = s;
    snprintf(workers[i].ref, sizeof workers[i].ref, "agent-%d", i);
    OK(pd_fork(s, workers[i].ref, "main", NULL, NULL, &err));
  }
  for (int i = 0; i < AGENT_COUNT; i++) pthread_create(&workers[i].thread, NULL, work, &workers[i]);
  for (int i = 0; i < AGENT_COUNT; i++) {
    void *done;
    pthread_join(workers[i].thread, &done);
    assert_ptr_equal(done, &workers[i]);
    assert_int_equal(workers[i].merges, STEP_COUNT / 8);
  }
  assert_int_equal(atoi(get(s, "main", "count")), AGENT_COUNT * STEP_COUNT);
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

/* ---- many refs ---- */

static pd_node *root_of_head(pd_store *s, const char *ref)
{
  pd_ref_slot *slot = pd_slot_find(s, ref);
  pd_node *root = NULL;
  assert_non_null(slot);
  OK(pd_tree_of(s, slot->seen.commit.seq, &root, &err));
  pd_node_unref(&s->tree.pool, root); /* a head has it still, if it is that head's */
  assert_non_null(slot->seen.root);
  return root;
}

static void merge__among_many_refs_builds_no_tree_that_a_head_has(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  char ref[32];
  put(s, "main", "k", "0");
  for (int i = 0; i < 300; i++) {
    snprintf(ref, sizeof ref, "a/%d", i); /* before main and side in any order by name */
    OK(pd_fork(s, ref, "main", NULL, NULL, &err));
    put(s, ref, "mine", ref);
  }
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  put(s, "side", "k", "1");
  OK(pd_fork(s, "ours", "main", NULL, NULL, &err));
  put(s, "ours", "other", "2");
  pd_store_lock(s);
  pd_past_forget(s);
  const char *const heads[] = {"main", "side", "ours"};
  for (size_t i = 0; i < 3; i++) assert_ptr_equal(root_of_head(s, heads[i]), pd_slot_find(s, heads[i])->seen.root);
  assert_int_equal(s->segment_count, 0); /* no record was read for it */
  pd_store_unlock(s);
  pd_note on_ours = {.ref = "ours"};
  OK(pd_merge(s, "side", NULL, &on_ours, NULL, &err));
  assert_string_equal(get(s, "ours", "k"), "1");
  assert_string_equal(get(s, "ours", "other"), "2");
  pd_store_close(s, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(merge__of_unrelated_histories_needs_permission),
    cmocka_unit_test(merge__of_a_criss_cross_history_merges_the_bases_first),
    cmocka_unit_test(merge__bases_that_conflict_count_as_changed_by_both),
    cmocka_unit_test(merge__many_criss_crosses_deep_still_ends_and_counts_right),
    cmocka_unit_test(ancestors__of_random_graphs_are_the_common_ones_that_no_other_common_one_reaches),
    cmocka_unit_test(merge__by_many_at_once_loses_nothing),
    cmocka_unit_test(merge__among_many_refs_builds_no_tree_that_a_head_has),
  };
  return cmocka_run_group_tests_name("engine/merge_history", tests, NULL, NULL);
}
