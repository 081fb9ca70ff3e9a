/* version_test.c: src/engine/version.c through perdure.h: no number is given to two writes of a key, whatever happens in between (VN1 to
 * VN4): a client that read version N never overwrites what it has not seen. */
#include <perdure/perdure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/perdure-version-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static pd_store *open_named(const char *agent)
{
  pd_store *s = NULL;
  char uri[128];
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s/home", folder);
  if (pd_store_open(uri, agent, NULL, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static void close_store(pd_store *s)
{
  pd_error err = {0};
  if (pd_store_close(s, &err)) fail_msg("close: %s", err.message);
}

static void must(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s", err->message);
}

static uint64_t put_on(pd_store *s, const char *ref, const char *key, const char *value)
{
  pd_note note = {.ref = ref};
  pd_ack ack;
  pd_error err = {0};
  must(pd_put(s, pd_text(key), pd_text(value), &note, &ack, &err), &err);
  return ack.version;
}

static uint64_t put(pd_store *s, const char *key, const char *value)
{
  return put_on(s, NULL, key, value);
}

static uint64_t version_at(pd_store *s, const char *at, const char *key)
{
  pd_entry entry;
  pd_error err = {0};
  must(pd_get(s, at, pd_text(key), NULL, &entry, &err), &err);
  return entry.version;
}

static void drop(pd_store *s, const char *key)
{
  pd_error err = {0};
  must(pd_delete(s, pd_text(key), PD_ANY_VERSION, NULL, NULL, &err), &err);
}

static void fork_at(pd_store *s, const char *name, const char *at)
{
  pd_error err = {0};
  must(pd_fork(s, name, at, NULL, NULL, &err), &err);
}

static void reset_to(pd_store *s, const char *ref, const char *at)
{
  pd_error err = {0};
  must(pd_reset(s, ref, at, NULL, NULL, &err), &err);
}

static void undo(pd_store *s)
{
  pd_error err = {0};
  must(pd_undo(s, 1, NULL, NULL, &err), &err);
}

static void keyframe(pd_store *s)
{
  pd_error err = {0};
  must(pd_store_keyframe(s, &err), &err);
}

static void expect_conflict(pd_store *s, const char *key, uint64_t expected)
{
  pd_error err = {0};
  assert_int_equal(pd_put_if(s, pd_text(key), pd_text("over something unseen"), expected, NULL, NULL, &err), PD_CONFLICT);
}

static void expect_sound(pd_store *s)
{
  pd_error err = {0};
  must(pd_verify(s, NULL, NULL, &err), &err);
}

/* ---- ---- */

static void versions__count_from_1_while_nothing_was_taken_back(void **state)
{
  (void)state;
  pd_store *s = open_named("counts");
  assert_int_equal(put(s, "k", "a"), 1);
  assert_int_equal(put(s, "k", "b"), 2);
  assert_int_equal(put(s, "j", "a"), 1);
  keyframe(s);
  close_store(s);
  s = open_named("counts");
  assert_int_equal(put(s, "k", "c"), 3);
  assert_int_equal(put(s, "new", "c"), 1);
  close_store(s);
}

static void delete__a_key_that_comes_again_goes_on_counting(void **state)
{
  (void)state;
  pd_store *s = open_named("deletes");
  put(s, "k", "a");
  uint64_t read = put(s, "k", "b");
  drop(s, "k");
  assert_true(put(s, "k", "c") > read);
  expect_conflict(s, "k", read);
  expect_conflict(s, "k", 1);
  pd_error err = {0};
  assert_int_equal(pd_get_version(s, NULL, pd_text("k"), 1, NULL, NULL, &err), PD_NOT_FOUND);
  expect_sound(s);
  close_store(s);
}

static void delete__is_remembered_after_a_keyframe_a_gc_and_a_reopen(void **state)
{
  (void)state;
  pd_store *s = open_named("remembers");
  for (int i = 0; i < 5; i++) put(s, "k", i % 2 ? "a" : "b");
  drop(s, "k");
  put(s, "other", "x");
  pd_error err = {0};
  pd_gc_policy policy = {.keep_last = 1};
  pd_gc_report report;
  must(pd_gc(s, &policy, &report, &err), &err);
  keyframe(s);
  close_store(s);
  s = open_named("remembers");
  assert_true(put(s, "k", "again") > 5);
  expect_sound(s);
  close_store(s);
}

static void undo__shows_the_old_number_and_the_next_write_skips_what_it_took_back(void **state)
{
  (void)state;
  pd_store *s = open_named("undoes");
  put(s, "k", "a");
  uint64_t read = put(s, "k", "b");
  undo(s);
  assert_int_equal(version_at(s, NULL, "k"), 1);
  assert_true(put(s, "k", "c") > read);
  expect_conflict(s, "k", read);
  close_store(s);
}

static void undo__of_a_delete_and_of_a_creation_give_no_number_twice(void **state)
{
  (void)state;
  pd_store *s = open_named("undoes2");
  uint64_t read = put(s, "k", "a");
  undo(s);
  uint64_t second = put(s, "k", "b");
  assert_true(second > read);
  drop(s, "k");
  undo(s);
  assert_int_equal(version_at(s, NULL, "k"), second);
  assert_true(put(s, "k", "c") > second);
  close_store(s);
}

static void undo__is_remembered_after_a_keyframe_and_by_another_process(void **state)
{
  (void)state;
  pd_store *s = open_named("undoes3"), *other = open_named("undoes3");
  put(s, "k", "a");
  uint64_t read = put(s, "k", "b");
  assert_int_equal(version_at(other, NULL, "k"), read);
  undo(s);
  assert_true(put(other, "k", "c") > read);
  undo(s);
  keyframe(s);
  close_store(other);
  close_store(s);
  s = open_named("undoes3");
  assert_true(put(s, "k", "d") > read + 1);
  close_store(s);
}

static void reset__to_an_older_commit_gives_no_number_twice(void **state)
{
  (void)state;
  pd_store *s = open_named("resets");
  put(s, "k", "a");
  uint64_t read = put(s, "k", "b");
  reset_to(s, "main", "main~1");
  assert_true(put(s, "k", "c") > read);
  expect_conflict(s, "k", read);
  close_store(s);
}

static void fork__two_lines_with_one_past_have_no_number_in_common(void **state)
{
  (void)state;
  pd_store *s = open_named("forks");
  put(s, "k", "a");
  fork_at(s, "x", "main");
  uint64_t read = put(s, "k", "b");
  uint64_t there = put_on(s, "x", "k", "c");
  assert_int_not_equal(read, there);
  reset_to(s, "main", "x");
  assert_int_equal(version_at(s, "main", "k"), there);
  expect_conflict(s, "k", read);
  close_store(s);
}

static void fork__from_an_older_commit_counts_too(void **state)
{
  (void)state;
  pd_store *s = open_named("forks2");
  put(s, "k", "a");
  uint64_t read = put(s, "k", "b");
  fork_at(s, "x", "main~1");
  uint64_t there = put_on(s, "x", "k", "c");
  assert_true(there > read);
  uint64_t here = put(s, "k", "d");
  assert_int_not_equal(here, there);
  assert_true(here > read);
  close_store(s);
}

static void fork__of_one_line_leaves_the_numbers_of_another_alone(void **state)
{
  (void)state;
  pd_store *s = open_named("forks3");
  put(s, "k", "a");
  fork_at(s, "thread", "root");
  put_on(s, "thread", "t", "1");
  fork_at(s, "thread2", "thread");
  for (int i = 0; i < 5; i++) put_on(s, "thread2", "t", i % 2 ? "a" : "b");
  assert_int_equal(put(s, "k", "b"), 2);
  close_store(s);
}

static void ref_delete__a_ref_of_the_same_name_gives_no_number_twice(void **state)
{
  (void)state;
  pd_store *s = open_named("refs");
  pd_error err = {0};
  fork_at(s, "x", "root");
  uint64_t read = put_on(s, "x", "k", "a");
  must(pd_ref_delete(s, "x", NULL, &err), &err);
  fork_at(s, "x", "root");
  assert_true(put_on(s, "x", "k", "b") > read);
  close_store(s);
}

static void merge__fast_forward_and_commit_give_no_number_twice(void **state)
{
  (void)state;
  pd_store *s = open_named("merges");
  pd_error err = {0};
  put(s, "k", "a");
  fork_at(s, "x", "main");
  uint64_t read = put(s, "k", "b");
  put_on(s, "x", "k", "c");
  undo(s);
  pd_merge_result result = {0};
  must(pd_merge(s, "x", NULL, NULL, &result, &err), &err);
  pd_merge_result_done(&result);
  assert_int_not_equal(version_at(s, "main", "k"), read);
  expect_conflict(s, "k", read);
  close_store(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(versions__count_from_1_while_nothing_was_taken_back),
    cmocka_unit_test(delete__a_key_that_comes_again_goes_on_counting),
    cmocka_unit_test(delete__is_remembered_after_a_keyframe_a_gc_and_a_reopen),
    cmocka_unit_test(undo__shows_the_old_number_and_the_next_write_skips_what_it_took_back),
    cmocka_unit_test(undo__of_a_delete_and_of_a_creation_give_no_number_twice),
    cmocka_unit_test(undo__is_remembered_after_a_keyframe_and_by_another_process),
    cmocka_unit_test(reset__to_an_older_commit_gives_no_number_twice),
    cmocka_unit_test(fork__two_lines_with_one_past_have_no_number_in_common),
    cmocka_unit_test(fork__from_an_older_commit_counts_too),
    cmocka_unit_test(fork__of_one_line_leaves_the_numbers_of_another_alone),
    cmocka_unit_test(ref_delete__a_ref_of_the_same_name_gives_no_number_twice),
    cmocka_unit_test(merge__fast_forward_and_commit_give_no_number_twice),
  };
  return cmocka_run_group_tests_name("version", tests, make_folder, remove_folder);
}
