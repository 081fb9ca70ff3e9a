/* merge_test.c: src/engine/merge*.c and settings.c: fast-forward, rules, conflicts as data, resolutions, picks and reverts. */
#include "engine/merge_world.h"

/* ---- what is merged ---- */

static void merge__takes_what_one_side_changed_and_has_two_parents(void **state)
{
  (void)state;
  pd_store *s = diverged("0", "1", "0"); /* theirs wrote the same value again */
  pd_merge_result r;
  OK(pd_merge(s, "side", NULL, NULL, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_COMMITTED);
  assert_int_equal(r.change_count, 1);
  assert_true(text_is(r.changes[0].key, "only-theirs") && r.changes[0].is_new && !r.changes[0].is_both);
  assert_string_equal(get(s, "main", "k"), "1");
  assert_string_equal(get(s, "main", "only-theirs"), "1");
  assert_string_equal(get(s, "main", "only-ours"), "1");
  uint64_t parents[PD_PARENT_COUNT_MAX];
  size_t count;
  pd_store_lock(s);
  OK(pd_parents_of(s, r.ack.seq, parents, &count, &err));
  pd_store_unlock(s);
  assert_int_equal(count, 2);
  assert_int_equal(parents[0], r.ours.seq);
  assert_int_equal(parents[1], r.theirs.seq);
  pd_merge_result_done(&r);
  OK(pd_merge(s, "side", NULL, NULL, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_UP_TO_DATE);
  pd_merge_result_done(&r);
  OK(pd_store_keyframe(s, &err));
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

static void merge__moves_a_ref_that_is_behind_unless_a_commit_is_wanted(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  put(s, "main", "a", "1");
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  OK(pd_fork(s, "kept", "main", NULL, NULL, &err));
  put(s, "side", "a", "2");
  pd_merge_result r;
  pd_merge_options dry = {.is_dry_run = true}, commit = {.no_fast_forward = true};
  uint64_t before = records(s);
  OK(pd_merge(s, "side", &dry, NULL, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_FAST_FORWARD);
  assert_int_equal(r.change_count, 1);
  assert_int_equal(records(s), before);
  pd_merge_result_done(&r);
  OK(pd_merge(s, "side", NULL, NULL, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_FAST_FORWARD);
  assert_true(pd_id_equal(&r.ack.commit, &r.theirs.id));
  assert_string_equal(get(s, "main", "a"), "2");
  pd_merge_result_done(&r);
  OK(pd_merge(s, "kept", NULL, NULL, &r, &err)); /* behind us */
  assert_int_equal(r.outcome, PD_MERGE_UP_TO_DATE);
  pd_merge_result_done(&r);
  pd_note on_kept = {.ref = "kept"};
  OK(pd_merge(s, "side", &commit, &on_kept, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_COMMITTED);
  assert_false(pd_id_equal(&r.ack.commit, &r.theirs.id));
  assert_true(pd_id_equal(&r.ack.tree, &r.theirs.tree));
  pd_merge_result_done(&r);
  pd_store_close(s, NULL);
}

static void merge__the_same_change_on_both_sides_is_no_conflict(void **state)
{
  (void)state;
  pd_store *s = diverged("0", "1", "1");
  OK(pd_merge(s, "side", NULL, NULL, NULL, &err));
  assert_string_equal(get(s, "main", "k"), "1");
  pd_store_close(s, NULL);
  s = diverged("0", NULL, NULL);
  OK(pd_merge(s, "side", NULL, NULL, NULL, &err));
  assert_string_equal(get(s, "main", "k"), "(none)");
  pd_store_close(s, NULL);
}

/* ---- conflicts ---- */

static void conflict_is(const char *base, const char *ours, const char *theirs, pd_merge_rule policy, const char *why)
{
  pd_store *s = diverged(base, ours, theirs);
  pd_merge_options options = {.policy = policy};
  pd_merge_result r;
  uint64_t before = records(s);
  assert_int_equal(pd_merge(s, "side", &options, NULL, &r, &err), PD_CONFLICT);
  assert_int_equal(r.outcome, PD_MERGE_CONFLICTS);
  assert_int_equal(r.conflict_count, 1);
  assert_int_equal(r.conflict_total, 1);
  const pd_conflict *c = &r.conflicts[0];
  assert_true(text_is(c->key, "k") && c->path.size == 0);
  assert_int_equal(c->rule, policy);
  assert_string_equal(c->why, why);
  assert_true(c->has_base == !!base && c->has_ours == !!ours && c->has_theirs == !!theirs);
  if (base) assert_true(text_is(c->base, base));
  if (ours) assert_true(text_is(c->ours, ours));
  if (theirs) assert_true(text_is(c->theirs, theirs));
  assert_non_null(strstr(err.message, "'k'"));
  assert_int_equal(records(s), before); /* nothing changed */
  pd_merge_result_done(&r);
  pd_store_close(s, NULL);
}

static void merge__what_both_changed_is_a_conflict_with_all_three_values(void **state)
{
  (void)state;
  conflict_is("0", "1", "2", PD_MERGE_FAIL, "changed by both");
  conflict_is(NULL, "1", "2", PD_MERGE_FAIL, "changed by both");
  conflict_is("0", NULL, "2", PD_MERGE_FAIL, "deleted by ours, changed by theirs");
  conflict_is("0", "1", NULL, PD_MERGE_FAIL, "changed by ours, deleted by theirs");
  conflict_is("0", "1", "2", PD_MERGE_JSON, "changed by both");
  conflict_is("{}", "{\"a\":1}", NULL, PD_MERGE_JSON, "changed by ours, deleted by theirs");
  conflict_is("0", "not json", "2", PD_MERGE_JSON, "changed by both, and not all are JSON");
  conflict_is("{}", "{\"a\":1,\"a\":2}", "{\"b\":1}", PD_MERGE_JSON, "changed by both, and a JSON object has a name twice");
}

static void merge__values_that_do_not_fit_their_rule_are_conflicts_that_say_so(void **state)
{
  (void)state;
  const char *counter = "rule counter: a value is no whole number of 64 bits";
  conflict_is("0", "1.5", "2", PD_MERGE_COUNTER, counter);
  conflict_is("0", "1", "\"2\"", PD_MERGE_COUNTER, counter);
  conflict_is("zero", "1", "2", PD_MERGE_COUNTER, counter);
  conflict_is("0", "9223372036854775808", "2", PD_MERGE_COUNTER, counter);
  conflict_is("0", "9223372036854775807", "1", PD_MERGE_COUNTER, "rule counter: the sum is no number of 64 bits");
  conflict_is("0", "-9223372036854775808", "-1", PD_MERGE_COUNTER, "rule counter: the sum is no number of 64 bits");
  conflict_is("0", NULL, "2", PD_MERGE_COUNTER, "deleted by ours, changed by theirs");
  conflict_is("[]", "{}", "[1]", PD_MERGE_SET, "rule set: a value is no JSON array");
  conflict_is("3", "[1]", "[2]", PD_MERGE_SET, "rule set: a value is no JSON array");
  conflict_is("0", "1", "\"2\"", PD_MERGE_MAX, "rule max: the values are neither two numbers nor two strings");
  conflict_is("0", "true", "false", PD_MERGE_MIN, "rule min: the values are neither two numbers nor two strings");
  conflict_is("0", "text", "2", PD_MERGE_MIN, "rule min: the values are neither two numbers nor two strings");
  conflict_is("[1]", "[2,1]", "[1,3]", PD_MERGE_APPEND, "rule append: a side does not begin with what was there");
  conflict_is("[1]", "[1,2]", "[]", PD_MERGE_APPEND, "rule append: a side does not begin with what was there");
  conflict_is("a\n", "b\n", "a\nc\n", PD_MERGE_APPEND, "rule append: a side does not begin with what was there");
  conflict_is("a\n", "a\nb", "a\nc\n", PD_MERGE_APPEND, "rule append: a value is neither a JSON array nor text that ends with a newline");
}

/* ---- rules ---- */

static void merges_to(const char *base, const char *ours, const char *theirs, pd_merge_rule policy, const char *expected)
{
  pd_store *s = diverged(base, ours, theirs);
  pd_merge_options options = {.policy = policy};
  pd_code code = pd_merge(s, "side", &options, NULL, NULL, &err);
  if (code) fail_msg("%s, %s, %s: %s", base, ours, theirs, err.message);
  assert_string_equal(get(s, "main", "k"), expected ? expected : "(none)");
  OK(pd_verify(s, NULL, NULL, &err));
  pd_store_close(s, NULL);
}

/* The same whichever side is which. */
static void merges_both_ways(const char *base, const char *a, const char *b, pd_merge_rule policy, const char *expected)
{
  merges_to(base, a, b, policy, expected);
  merges_to(base, b, a, policy, expected);
}

static void rule__ours_and_theirs_take_a_side_also_against_a_delete(void **state)
{
  (void)state;
  merges_to("0", "1", "2", PD_MERGE_OURS, "1");
  merges_to("0", "1", "2", PD_MERGE_THEIRS, "2");
  merges_to("0", NULL, "2", PD_MERGE_OURS, NULL);
  merges_to("0", NULL, "2", PD_MERGE_THEIRS, "2");
  merges_to("0", "1", NULL, PD_MERGE_THEIRS, NULL);
}

static void rule__counter_adds_up_what_both_added(void **state)
{
  (void)state;
  merges_both_ways("10", "13", "8", PD_MERGE_COUNTER, "11");
  merges_to("5", "6", "6", PD_MERGE_COUNTER, "7"); /* the same change twice is two changes */
  merges_both_ways(NULL, "3", "4", PD_MERGE_COUNTER, "7");
  merges_both_ways("-9223372036854775808", "9223372036854775807", "-9223372036854775808", PD_MERGE_COUNTER, "9223372036854775807");
  merges_both_ways("9223372036854775807", "0", "9223372036854775806", PD_MERGE_COUNTER, "-1");
}

static void rule__set_is_a_union_with_removals(void **state)
{
  (void)state;
  merges_both_ways("[1,2,3]", "[2,3,9]", "[1,2,3,7]", PD_MERGE_SET, "[2,3,7,9]");
  merges_both_ways("[\"a\"]", "[]", "[\"a\",\"b\"]", PD_MERGE_SET, "[\"b\"]");
  merges_both_ways(NULL, "[1]", "[2,1,1]", PD_MERGE_SET, "[1,2]");
  merges_both_ways("[]", "[{\"a\":1,\"b\":2}]", "[{ \"b\": 2, \"a\": 1 }, 1]", PD_MERGE_SET, "[1,{\"b\":2,\"a\":1}]");
  merges_both_ways("[1.0]", "[1.0,1]", "[1.0,2]", PD_MERGE_SET, "[1.0,1,2]");
}

static void rule__max_and_min_compare_numbers_exactly_and_strings_by_bytes(void **state)
{
  (void)state;
  merges_both_ways("0", "1", "2", PD_MERGE_MAX, "2");
  merges_both_ways("0", "1", "2", PD_MERGE_MIN, "1");
  merges_both_ways("0", "-1", "-2", PD_MERGE_MAX, "-1");
  merges_both_ways("0", "12345678901234567890123", "12345678901234567890124", PD_MERGE_MAX, "12345678901234567890124");
  merges_both_ways("0", "1e3", "999.99", PD_MERGE_MAX, "1e3");
  merges_both_ways("0", "0.001", "1e-4", PD_MERGE_MIN, "1e-4");
  merges_both_ways("\"\"", "\"b\"", "\"\\u0061\"", PD_MERGE_MIN, "\"\\u0061\"");
  merges_both_ways("x", "2026-11-15T10:00Z", "2026-11-16T09:00Z", PD_MERGE_MAX, "2026-11-16T09:00Z");
}

static void rule__append_puts_ours_before_theirs(void **state)
{
  (void)state;
  merges_to("[1]", "[1, 2]", "[1,3,4]", PD_MERGE_APPEND, "[1,2,3,4]");
  merges_to(NULL, "[1]", "[1]", PD_MERGE_APPEND, "[1,1]");
  merges_to("a\n", "a\nb\n", "a\nb\nc\n", PD_MERGE_APPEND, "a\nb\nb\nc\n");
  merges_to("", "b\n", "c\n", PD_MERGE_APPEND, "b\nc\n");
}

static void rule__json_merges_objects_at_any_depth_and_keeps_digits(void **state)
{
  (void)state;
  merges_both_ways("{\"a\":{\"b\":{\"c\":1,\"d\":2}}}", "{\"a\":{\"b\":{\"c\":1.10,\"d\":2}}}",
                   "{\"a\":{\"b\":{\"c\":1,\"d\":2e0}},\"x\":[1]}", PD_MERGE_JSON, "{\"a\":{\"b\":{\"c\":1.10,\"d\":2e0}},\"x\":[1]}");
  merges_both_ways("{\"a\":1,\"b\":2}", "{\"b\":2}", "{\"a\":1,\"b\":3}", PD_MERGE_JSON, "{\"b\":3}");
  merges_both_ways(NULL, "{\"z\":1}", "{\"y\":{}}", PD_MERGE_JSON, "{\"y\":{},\"z\":1}");
  merges_both_ways("{\"a\":1}", "{ \"a\" : 1 }", "{\"a\":2}", PD_MERGE_JSON, "{\"a\":2}");
  merges_both_ways("{\"k\":0}", "{\"\\u006b\":1}", "{\"k\":0,\"n\":0}", PD_MERGE_JSON, "{\"k\":1,\"n\":0}");
}

static void rule__of_the_longest_prefix_wins_over_the_policy(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  OK(pd_setting_set(s, "merge.rule.n/", pd_text("counter"), NULL, &err));
  OK(pd_setting_set(s, "merge.rule.n/top", pd_text("max"), NULL, &err));
  OK(pd_setting_set(s, "merge.rule.", pd_text("theirs"), NULL, &err));
  const char *keys[] = {"n/a", "n/top/a", "plain"};
  for (int i = 0; i < 3; i++) put(s, "main", keys[i], "1");
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  for (int i = 0; i < 3; i++) put(s, "main", keys[i], "10"), put(s, "side", keys[i], "4");
  pd_merge_options dry = {.is_dry_run = true, .ignores_rules = true};
  pd_merge_result r;
  assert_int_equal(pd_merge(s, "side", &dry, NULL, &r, &err), PD_CONFLICT);
  assert_int_equal(r.conflict_count, 3);
  pd_merge_result_done(&r);
  OK(pd_merge(s, "side", NULL, NULL, &r, &err));
  assert_string_equal(get(s, "main", "n/a"), "13");
  assert_string_equal(get(s, "main", "n/top/a"), "10");
  assert_string_equal(get(s, "main", "plain"), "4");
  assert_int_equal(r.changes[0].rule, PD_MERGE_COUNTER);
  pd_merge_result_done(&r);
  pd_store_close(s, NULL);
}

/* ---- resolutions ---- */

static void resolution__settles_a_conflict_in_a_second_call(void **state)
{
  (void)state;
  static const struct {
    pd_take take;
    const char *expected;
  } cases[] = {{PD_TAKE_VALUE, "mine"}, {PD_TAKE_DELETE, "(none)"}, {PD_TAKE_BASE, "0"}, {PD_TAKE_OURS, "1"}, {PD_TAKE_THEIRS, "2"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    pd_store *s = diverged("0", "1", "2");
    pd_resolution resolution = {.key = pd_text("k"), .take = cases[i].take, .value = pd_text("mine")};
    pd_merge_options options = {.resolutions = &resolution, .resolution_count = 1};
    assert_int_equal(pd_merge(s, "side", NULL, NULL, NULL, &err), PD_CONFLICT);
    OK(pd_merge(s, "side", &options, NULL, NULL, &err));
    assert_string_equal(get(s, "main", "k"), cases[i].expected);
    assert_string_equal(get(s, "main", "only-theirs"), "1");
    OK(pd_merge(s, "side", &options, NULL, NULL, &err)); /* again: up to date, and no complaint */
    pd_store_close(s, NULL);
  }
}

static void resolution__of_a_path_settles_just_that(void **state)
{
  (void)state;
  pd_store *s = diverged("{\"a\":{\"x/y\":0,\"~\":0},\"b\":0}", "{\"a\":{\"x/y\":1,\"~\":1},\"b\":0}", "{\"a\":{\"x/y\":2},\"b\":7}");
  pd_merge_options options = {.policy = PD_MERGE_JSON};
  pd_merge_result r;
  assert_int_equal(pd_merge(s, "side", &options, NULL, &r, &err), PD_CONFLICT);
  assert_int_equal(r.conflict_count, 2);
  assert_true(text_is(r.conflicts[0].path, "/a/x~1y") && text_is(r.conflicts[0].base, "0") && text_is(r.conflicts[0].ours, "1"));
  assert_true(text_is(r.conflicts[1].path, "/a/~0") && !r.conflicts[1].has_theirs && text_is(r.conflicts[1].ours, "1"));
  pd_resolution both[2] = {{.key = pd_text("k"), .path = r.conflicts[0].path, .value = pd_text("{\"n\": 3}")},
                           {.key = pd_text("k"), .path = r.conflicts[1].path, .take = PD_TAKE_THEIRS}};
  options.resolutions = both;
  options.resolution_count = 1;
  pd_merge_result half;
  assert_int_equal(pd_merge(s, "side", &options, NULL, &half, &err), PD_CONFLICT);
  assert_int_equal(half.conflict_count, 1);
  pd_merge_result_done(&half);
  options.resolution_count = 2;
  OK(pd_merge(s, "side", &options, NULL, NULL, &err));
  assert_string_equal(get(s, "main", "k"), "{\"a\":{\"x/y\":{\"n\":3}},\"b\":7}");
  pd_merge_result_done(&r);
  pd_store_close(s, NULL);
}

static void refuses(pd_store *s, const pd_resolution *resolutions, size_t count, const char *message)
{
  pd_merge_options options = {.policy = PD_MERGE_JSON, .resolutions = resolutions, .resolution_count = count};
  uint64_t before = records(s);
  assert_int_equal(pd_merge(s, "side", &options, NULL, NULL, &err), PD_INVALID);
  if (!strstr(err.message, message)) fail_msg("'%s' is not in: %s", message, err.message);
  assert_int_equal(records(s), before);
}

static void resolution__that_settles_nothing_is_refused(void **state)
{
  (void)state;
  pd_store *s = diverged("{\"a\":0}", "{\"a\":1}", "{\"a\":2}");
  pd_resolution typo = {.key = pd_text("kk")}, empty = {.key = pd_text("")}, no_path = {.key = pd_text("k"), .path = pd_text("a")};
  pd_resolution wrong_path = {.key = pd_text("k"), .path = pd_text("/b"), .value = pd_text("1")};
  pd_resolution no_json = {.key = pd_text("k"), .path = pd_text("/a"), .value = pd_text("{")};
  pd_resolution odd = {.key = pd_text("k"), .take = (pd_take)9}, twice[2] = {{.key = pd_text("k")}, {.key = pd_text("k")}};
  refuses(s, &typo, 1, "nothing to resolve at key 'kk'");
  refuses(s, &empty, 1, "key is empty");
  refuses(s, &no_path, 1, "does not begin with '/'");
  refuses(s, &wrong_path, 1, "no conflict at '/b' of key 'k'");
  refuses(s, &no_json, 1, "is no JSON");
  refuses(s, &odd, 1, "takes 9");
  refuses(s, twice, 2, "resolved twice");
  pd_store_close(s, NULL);
}

/* ---- cherry-pick and revert ---- */

static void pick__does_what_one_commit_did_and_nothing_else(void **state)
{
  (void)state;
  pd_store *s = diverged("{\"a\":0}", "{\"a\":0,\"b\":1}", "{\"a\":5}");
  put(s, "side", "later", "1");
  pd_merge_options json = {.policy = PD_MERGE_JSON};
  pd_merge_result r;
  OK(pd_cherry_pick(s, "side~2", &json, NULL, &r, &err));
  assert_int_equal(r.outcome, PD_MERGE_COMMITTED);
  assert_string_equal(get(s, "main", "k"), "{\"a\":5,\"b\":1}");
  assert_string_equal(get(s, "main", "later"), "(none)");
  assert_string_equal(get(s, "main", "only-theirs"), "(none)");
  pd_merge_result_done(&r);
  OK(pd_cherry_pick(s, "side~2", &json, NULL, &r, &err)); /* it is there */
  assert_int_equal(r.outcome, PD_MERGE_UP_TO_DATE);
  pd_merge_result_done(&r);
  assert_int_equal(pd_cherry_pick(s, "root", NULL, NULL, NULL, &err), PD_INVALID);
  assert_int_equal(pd_cherry_pick(s, "nowhere", NULL, NULL, NULL, &err), PD_NOT_FOUND);
  pd_merge_options second = {.parent_number = 2};
  assert_int_equal(pd_cherry_pick(s, "side", &second, NULL, NULL, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "has 1 parent, there is no parent 2"));
  pd_store_close(s, NULL);
}

static void revert__takes_one_commit_back_and_keeps_what_came_after(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  put(s, "main", "a", "1");
  put(s, "main", "a", "2");
  put(s, "main", "b", "1");
  pd_merge_result r;
  OK(pd_revert(s, "main~1", NULL, NULL, &r, &err));
  assert_string_equal(get(s, "main", "a"), "1");
  assert_string_equal(get(s, "main", "b"), "1");
  pd_merge_result_done(&r);
  OK(pd_revert(s, "main", NULL, NULL, NULL, &err)); /* the revert itself */
  assert_string_equal(get(s, "main", "a"), "2");
  put(s, "main", "a", "3");
  assert_int_equal(pd_revert(s, "main~1", NULL, NULL, &r, &err), PD_CONFLICT);
  assert_true(text_is(r.conflicts[0].ours, "3") && text_is(r.conflicts[0].theirs, "1"));
  pd_merge_result_done(&r);
  assert_int_equal(pd_revert(s, "root", NULL, NULL, NULL, &err), PD_INVALID);
  pd_store_close(s, NULL);
}

static void revert__of_a_merge_is_against_the_parent_that_is_named(void **state)
{
  (void)state;
  pd_store *s = diverged("0", "0", "0");
  OK(pd_merge(s, "side", NULL, NULL, NULL, &err));
  OK(pd_fork(s, "copy", "main", NULL, NULL, &err));
  OK(pd_revert(s, "main", NULL, NULL, NULL, &err));
  assert_string_equal(get(s, "main", "only-theirs"), "(none)");
  assert_string_equal(get(s, "main", "only-ours"), "1");
  pd_merge_options second = {.parent_number = 2};
  pd_note on_copy = {.ref = "copy"};
  OK(pd_revert(s, "copy", &second, &on_copy, NULL, &err));
  assert_string_equal(get(s, "copy", "only-theirs"), "1");
  assert_string_equal(get(s, "copy", "only-ours"), "(none)");
  pd_store_close(s, NULL);
}

/* ---- conditions, bad input, settings ---- */

static void merge__checks_its_arguments(void **state)
{
  (void)state;
  pd_store *s = diverged("0", "1", "2");
  pd_commit old;
  OK(pd_resolve(s, "main~1", &old, &err));
  pd_note stale = {.expect_head = &old.id}, nowhere = {.ref = "nowhere"}, hidden = {.ref = PD_META_REF};
  pd_merge_options odd = {.policy = (pd_merge_rule)77}, theirs = {.policy = PD_MERGE_THEIRS};
  pd_merge_result r;
  assert_int_equal(pd_merge(s, "side", &theirs, &stale, &r, &err), PD_CONFLICT);
  assert_int_equal(r.conflict_count, 0);
  assert_null(r.memory);
  assert_int_equal(pd_merge(s, "side", NULL, &nowhere, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_merge(s, "side", NULL, &hidden, NULL, &err), PD_INVALID);
  assert_int_equal(pd_merge(s, "nowhere", NULL, NULL, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_merge(s, "", NULL, NULL, NULL, &err), PD_INVALID);
  assert_int_equal(pd_merge(s, "side", &odd, NULL, NULL, &err), PD_INVALID);
  OK(pd_meta_put(s, "setting", "merge.rule.x", pd_text("nonsense"), PD_ANY_VERSION, NULL, NULL, &err)); /* by a newer perdure */
  assert_int_equal(pd_merge(s, "side", NULL, NULL, NULL, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "'merge.rule.x' is 'nonsense'"));
  pd_store_close(s, NULL);
}

static bool count_setting(void *ctx, const char *name, pd_bytes value)
{
  assert_true(value.size > 0 && *name);
  ++*(int *)ctx;
  return true;
}

static void settings__are_kept_checked_and_listed(void **state)
{
  (void)state;
  pd_store *s = open_memory();
  pd_buf got = {0};
  int count = 0;
  char long_name[1100];
  memset(long_name, 'x', sizeof long_name);
  long_name[sizeof long_name - 1] = 0;
  assert_int_equal(pd_setting_get(s, "merge.rule.a/", &got, &err), PD_NOT_FOUND);
  assert_int_equal(pd_setting_delete(s, "merge.rule.a/", NULL, &err), PD_NOT_FOUND);
  OK(pd_setting_set(s, "merge.rule.a/", pd_text("set"), NULL, &err));
  OK(pd_setting_set(s, "other", pd_text("x"), NULL, &err));
  OK(pd_setting_get(s, "merge.rule.a/", &got, &err));
  assert_true(text_is(pd_buf_bytes(&got), "set"));
  OK(pd_setting_list(s, NULL, count_setting, &count, &err));
  assert_int_equal(count, 2);
  OK(pd_setting_list(s, "merge.", count_setting, &count, &err));
  assert_int_equal(count, 3);
  assert_int_equal(pd_setting_set(s, "merge.rule.a/", pd_text("sets"), NULL, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "'sets' is no merge rule"));
  assert_int_equal(pd_setting_set(s, "", pd_text("x"), NULL, &err), PD_INVALID);
  assert_int_equal(pd_setting_set(s, long_name, pd_text("x"), NULL, &err), PD_LIMIT);
  assert_int_equal(pd_setting_set(s, "other", pd_text("\xff"), NULL, &err), PD_INVALID);
  OK(pd_setting_delete(s, "other", NULL, &err));
  assert_int_equal(pd_setting_get(s, "other", &got, &err), PD_NOT_FOUND);
  pd_buf_done(&got);
  pd_store_close(s, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(merge__takes_what_one_side_changed_and_has_two_parents),
    cmocka_unit_test(merge__moves_a_ref_that_is_behind_unless_a_commit_is_wanted),
    cmocka_unit_test(merge__the_same_change_on_both_sides_is_no_conflict),
    cmocka_unit_test(merge__what_both_changed_is_a_conflict_with_all_three_values),
    cmocka_unit_test(merge__values_that_do_not_fit_their_rule_are_conflicts_that_say_so),
    cmocka_unit_test(rule__ours_and_theirs_take_a_side_also_against_a_delete),
    cmocka_unit_test(rule__counter_adds_up_what_both_added),
    cmocka_unit_test(rule__set_is_a_union_with_removals),
    cmocka_unit_test(rule__max_and_min_compare_numbers_exactly_and_strings_by_bytes),
    cmocka_unit_test(rule__append_puts_ours_before_theirs),
    cmocka_unit_test(rule__json_merges_objects_at_any_depth_and_keeps_digits),
    cmocka_unit_test(rule__of_the_longest_prefix_wins_over_the_policy),
    cmocka_unit_test(resolution__settles_a_conflict_in_a_second_call),
    cmocka_unit_test(resolution__of_a_path_settles_just_that),
    cmocka_unit_test(resolution__that_settles_nothing_is_refused),
    cmocka_unit_test(pick__does_what_one_commit_did_and_nothing_else),
    cmocka_unit_test(revert__takes_one_commit_back_and_keeps_what_came_after),
    cmocka_unit_test(revert__of_a_merge_is_against_the_parent_that_is_named),
    cmocka_unit_test(merge__checks_its_arguments),
    cmocka_unit_test(settings__are_kept_checked_and_listed),
  };
  return cmocka_run_group_tests_name("engine/merge", tests, NULL, NULL);
}
