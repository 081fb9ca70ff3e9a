/* merge_gc_test.c: what merges, blame and proofs make of history that gc retired, and of values that were erased. */
#include "engine/merge_world.h"

/* `count` commits on a ref that nobody will ask for. */
static void pass_time(pd_store *s, const char *ref, int count)
{
  char value[32];
  for (int i = 0; i < count; i++) {
    snprintf(value, sizeof value, "%d", i);
    put(s, ref, "noise", value);
  }
}

static void retire(pd_store *s)
{
  pd_gc_policy policy = {.keep_last = 1, .author = "janitor"};
  pd_gc_report report;
  OK(pd_gc(s, &policy, &report, &err));
  assert_true(report.retired > 0);
}

static void merge__with_a_retired_ancestor_says_so_and_changes_nothing(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  pd_commit head, after;
  put(s, "main", "k", "0");
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  pass_time(s, "side", 50);
  put(s, "side", "k", "1");
  pass_time(s, "main", 50);
  OK(pd_resolve(s, "main", &head, &err));
  retire(s);
  uint64_t before = records(s);
  assert_int_equal(pd_merge(s, "side", NULL, NULL, NULL, &err), PD_RETIRED);
  assert_non_null(strstr(err.message, "'janitor'"));
  assert_non_null(strstr(err.message, "in common"));
  pd_merge_options dry = {.is_dry_run = true};
  assert_int_equal(pd_merge(s, "side", &dry, NULL, NULL, &err), PD_RETIRED);
  assert_int_equal(records(s), before);
  OK(pd_resolve(s, "main", &after, &err));
  assert_true(pd_id_equal(&head.id, &after.id));
  assert_string_equal(get(s, "main", "k"), "0");
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

/* Both heads and the commit they share lie before the cut: points, which know their parents. */
static void merge__finds_an_ancestor_that_was_kept(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  pass_time(s, "main", 20);
  put(s, "main", "k", "0");
  OK(pd_tag_set(s, "fork-point", "main", false, NULL, NULL, &err));
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  OK(pd_fork(s, "noisy", "root", NULL, NULL, &err));
  put(s, "side", "theirs", "1");
  put(s, "main", "ours", "2");
  pass_time(s, "noisy", 60);
  retire(s);
  pd_gc_info info;
  OK(pd_gc_status(s, &info, &err));
  pd_commit head;
  OK(pd_resolve(s, "main", &head, &err));
  assert_true(head.seq < info.cut);
  pd_merge_result r;
  OK(pd_merge(s, "side", NULL, NULL, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_COMMITTED);
  pd_merge_result_done(&r);
  assert_string_equal(get(s, "main", "theirs"), "1");
  assert_string_equal(get(s, "main", "ours"), "2");
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

static void merge__takes_no_erased_value_and_says_which(void **state)
{
  (void)state;
  pd_store *s = diverged("{\"a\":1}", "{\"a\":1,\"b\":2}", "{\"a\":3}");
  pd_note officer = {.author = "officer"};
  pd_erase_options first = {.version = 1, .note = &officer};
  OK(pd_erase(s, pd_text("k"), &first, NULL, &err)); /* the base's value: a three-way merge of it cannot be */
  uint64_t before = records(s);
  pd_merge_options json = {.policy = PD_MERGE_JSON};
  assert_int_equal(pd_merge(s, "side", &json, NULL, NULL, &err), PD_ERASED);
  assert_non_null(strstr(err.message, "'k'"));
  assert_non_null(strstr(err.message, "'officer'"));
  assert_int_equal(records(s), before);
  pd_merge_options theirs = {.policy = PD_MERGE_THEIRS}; /* needs no base */
  OK(pd_merge(s, "side", &theirs, NULL, NULL, &err));
  assert_string_equal(get(s, "main", "k"), "{\"a\":3}");
  assert_string_equal(get(s, "main", "only-theirs"), "1");
  pd_store_close(s, NULL);
}

/* ---- blame ---- */

typedef struct blamed {
  int count, known;
  char authors[4][16];
} blamed;

static bool note_line(void *ctx, const pd_blame_line *line)
{
  blamed *b = ctx;
  snprintf(b->authors[b->count], sizeof b->authors[0], "%s", line->author);
  b->known += line->is_known;
  return ++b->count < 4;
}

static void put_by(pd_store *s, const char *author, const char *value)
{
  pd_note note = {.author = author};
  OK(pd_put(s, pd_text("k"), pd_text(value), &note, NULL, &err));
}

static void blame__over_retired_versions_says_that_it_does_not_know(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  put_by(s, "ann", "{\"a\":1,\"b\":1}");
  put_by(s, "bob", "{\"a\":1,\"b\":2}");
  pass_time(s, "main", 60);
  blamed whole = {0}, after = {0}, later = {0};
  OK(pd_blame(s, NULL, pd_text("k"), note_line, &whole, &err));
  assert_int_equal(whole.count, 2);
  assert_int_equal(whole.known, 2);
  assert_string_equal(whole.authors[0], "ann");
  assert_string_equal(whole.authors[1], "bob");
  retire(s);
  OK(pd_blame(s, NULL, pd_text("k"), note_line, &after, &err));
  assert_int_equal(after.count, 2);
  assert_int_equal(after.known, 0); /* b may be older than bob's version, for all that is left */
  assert_string_equal(after.authors[0], "bob");
  assert_string_equal(after.authors[1], "bob");
  put_by(s, "eve", "{\"a\":1,\"b\":3}");
  OK(pd_blame(s, NULL, pd_text("k"), note_line, &later, &err));
  assert_int_equal(later.known, 1);
  assert_string_equal(later.authors[0], "bob");
  assert_string_equal(later.authors[1], "eve");
  pd_store_close(s, NULL);
}

/* ---- proofs ---- */

static void expect_proof(pd_store *s, const char *at, const char *key, pd_proof_kind kind)
{
  pd_buf proof = {0};
  pd_proof shown;
  pd_commit commit;
  OK(pd_resolve(s, at, &commit, &err));
  OK(pd_prove(s, at, pd_text(key), true, &proof, &err));
  pd_proof_expect expect = {.commit = &commit.id, .key = pd_text(key)};
  OK(pd_check_proof((pd_bytes){proof.data, proof.size}, &expect, &shown, &err));
  assert_int_equal(shown.kind, kind);
  pd_buf_done(&proof);
}

static void prove__works_at_points_that_gc_kept(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  pass_time(s, "main", 30);
  put(s, "main", "k", "tagged");
  OK(pd_tag_set(s, "kept", "main", false, NULL, NULL, &err));
  pass_time(s, "main", 60);
  put(s, "main", "k", "now");
  retire(s);
  expect_proof(s, "kept", "k", PD_PROOF_VALUE);
  expect_proof(s, "kept", "absent", PD_PROOF_ABSENT);
  expect_proof(s, "main", "k", PD_PROOF_VALUE);
  pd_buf proof = {0};
  assert_int_equal(pd_prove(s, "main~40", pd_text("k"), true, &proof, &err), PD_RETIRED);
  assert_int_equal(pd_prove_descent(s, "kept", "main", &proof, &err), PD_RETIRED);
  pd_buf_done(&proof);
  pd_store_close(s, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(merge__with_a_retired_ancestor_says_so_and_changes_nothing),
    cmocka_unit_test(merge__finds_an_ancestor_that_was_kept),
    cmocka_unit_test(merge__takes_no_erased_value_and_says_which),
    cmocka_unit_test(blame__over_retired_versions_says_that_it_does_not_know),
    cmocka_unit_test(prove__works_at_points_that_gc_kept),
  };
  return cmocka_run_group_tests_name("engine/merge_gc", tests, NULL, NULL);
}
