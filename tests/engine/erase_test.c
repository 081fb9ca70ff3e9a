/* erase_test.c: src/engine/erase.c: the bytes are gone from the files, ids and the chain stay, and reads say when and by whom. */
#include "support/fault_backend.h"

#include <perdure/perdure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], uri[128];

static void expect_ok(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s: %s", pd_code_name(code), err->message);
}

static pd_store *open_store(void)
{
  pd_store *s = NULL;
  pd_error err;
  expect_ok(pd_store_open(uri, "main", NULL, &s, &err), &err);
  return s;
}

/* `size` bytes that begin with the word and repeat it. */
static void put(pd_store *s, const char *ref, const char *key, const char *word, size_t size)
{
  pd_error err;
  pd_note note = {.ref = ref};
  char *bytes = malloc(size + 1);
  size_t length = strlen(word);
  assert_non_null(bytes);
  for (size_t i = 0; i < size; i++) bytes[i] = i % 97 < length ? word[i % 97] : (char)('a' + (i / 97 * 7 + i) % 26);
  expect_ok(pd_put(s, pd_text(key), (pd_bytes){bytes, size}, &note, NULL, &err), &err);
  free(bytes);
}

static bool files_contain(const char *word)
{
  char command[256];
  snprintf(command, sizeof command, "grep -raqF -- '%s' '%s'", word, folder);
  return system(command) == 0;
}

static void check_clean(pd_store *s)
{
  pd_error err;
  expect_ok(pd_verify(s, NULL, NULL, &err), &err);
}

static void expect_erased(pd_store *s, const char *at, const char *key)
{
  pd_buf value = {0};
  pd_error err;
  assert_int_equal(pd_get(s, at, pd_text(key), &value, NULL, &err), PD_ERASED);
  assert_non_null(strstr(err.message, "by 'officer'"));
  assert_non_null(strstr(err.message, key));
  pd_buf_done(&value);
}

static void erase__takes_the_bytes_out_of_the_files_and_leaves_the_chain(void **state)
{
  (void)state;
  snprintf(uri, sizeof uri, "sqlite:%s/a", folder);
  pd_store *s = open_store(), *other = open_store();
  pd_error err;
  pd_commit old, same;
  pd_erase_report report;
  put(s, NULL, "person", "SECRET-inline", 300);
  put(s, NULL, "other", "harmless", 300);
  expect_ok(pd_resolve(s, NULL, &old, &err), &err);
  put(s, NULL, "person", "SECRET-in-the-bag", 30000);
  put(s, NULL, "person", "SECRET-in-pieces", 300000);
  expect_ok(pd_store_keyframe(s, &err), &err);
  put(s, NULL, "person", "SECRET-again", 100);
  pd_buf value = {0};
  expect_ok(pd_get(other, NULL, pd_text("person"), &value, NULL, &err), &err);
  assert_true(files_contain("SECRET"));
  pd_note note = {.author = "officer", .reason = "asked to be forgotten"};
  pd_erase_options options = {.note = &note, .is_dry = true};
  expect_ok(pd_erase(s, pd_text("person"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 4);
  assert_true(files_contain("SECRET"));
  options.is_dry = false;
  expect_ok(pd_erase(s, pd_text("person"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 4);
  assert_int_equal(report.bytes, 300 + 30000 + 300000 + 100);
  assert_int_equal(report.refs, 1);
  assert_false(files_contain("SECRET"));
  assert_true(files_contain("harmless"));
  for (int i = 0; i < 2; i++) {
    pd_store *h = i ? other : s;
    assert_int_equal(pd_get(h, NULL, pd_text("person"), &value, NULL, &err), PD_NOT_FOUND);
    expect_erased(h, "main~1", "person");
    expect_erased(h, "main~2", "person");
    expect_erased(h, "main~3", "person");
    expect_erased(h, "main~4", "person");
    expect_ok(pd_get(h, "main~4", pd_text("other"), &value, NULL, &err), &err);
    char at[PD_ID_HEX_SIZE];
    expect_ok(pd_resolve(h, pd_id_hex(&old.id, at), &same, &err), &err);
    assert_true(pd_id_equal(&old.tree, &same.tree));
    check_clean(h);
  }
  assert_int_equal(pd_erase(s, pd_text("never"), &options, NULL, &err), PD_NOT_FOUND);
  put(s, NULL, "person", "a new beginning", 50);
  expect_ok(pd_get(other, NULL, pd_text("person"), &value, NULL, &err), &err);
  pd_buf_done(&value);
  pd_store_close(other, NULL);
  pd_store_close(s, NULL);
  assert_false(files_contain("SECRET"));
  s = open_store();
  check_clean(s);
  pd_gc_policy policy = {.keep_last = 3};
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  expect_erased(s, "main~2", "person");
  check_clean(s);
  pd_store_close(s, NULL);
}

static void erase__leaves_what_the_head_of_another_ref_or_another_key_holds(void **state)
{
  (void)state;
  snprintf(uri, sizeof uri, "sqlite:%s/b", folder);
  pd_store *s = open_store();
  pd_error err;
  pd_erase_report report;
  pd_buf value = {0};
  put(s, NULL, "k", "FIRST-one", 100);
  put(s, NULL, "k", "SHARED-large", 40000);
  expect_ok(pd_fork(s, "branch", NULL, NULL, NULL, &err), &err);
  put(s, NULL, "k", "THIRD-one", 100);
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note};
  expect_ok(pd_erase(s, pd_text("k"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 2);
  assert_int_equal(report.held_refs, 1);
  assert_string_equal(report.held_by, "ref 'branch'");
  expect_ok(pd_get(s, "branch", pd_text("k"), &value, NULL, &err), &err);
  assert_false(files_contain("FIRST-one"));
  assert_false(files_contain("THIRD-one"));
  put(s, NULL, "twin", "SHARED-large", 40000);
  options.everywhere = true;
  expect_ok(pd_erase(s, pd_text("k"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 1);
  assert_int_equal(report.held_keys, 1);
  assert_string_equal(report.held_by, "key 'twin'");
  assert_int_equal(pd_get(s, "branch", pd_text("k"), &value, NULL, &err), PD_NOT_FOUND);
  expect_erased(s, "branch~1", "k"); /* though the blob is there: the key's value is not */
  expect_ok(pd_get(s, NULL, pd_text("twin"), &value, NULL, &err), &err);
  check_clean(s);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static void erase__reaches_a_key_that_was_written_before_the_cut_of_gc(void **state)
{
  (void)state;
  snprintf(uri, sizeof uri, "sqlite:%s/cut", folder);
  pd_store *s = open_store();
  pd_error err;
  pd_erase_report report;
  bool has = true;
  put(s, NULL, "person", "SECRET-before-the-cut", 300);
  for (int i = 0; i < 6; i++) put(s, NULL, "other", i % 2 ? "odd" : "even", 300);
  expect_ok(pd_gc(s, &(pd_gc_policy){.keep_last = 1}, NULL, &err), &err);
  assert_true(files_contain("SECRET-before-the-cut"));
  expect_ok(pd_erase(s, pd_text("person"), NULL, &report, &err), &err);
  assert_int_equal(report.versions, 1);
  assert_false(files_contain("SECRET-before-the-cut"));
  expect_ok(pd_has(s, NULL, pd_text("person"), &has, &err), &err);
  assert_false(has);
  check_clean(s);
  expect_ok(pd_store_close(s, &err), &err);
}

static void erase__of_one_version_leaves_the_others(void **state)
{
  (void)state;
  strcpy(uri, "memory:erase");
  pd_store *s = open_store();
  pd_error err;
  pd_buf value = {0};
  for (int i = 0; i < 5; i++) put(s, NULL, "k", "word", 50 + (size_t)i);
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note, .version = 5};
  assert_int_equal(pd_erase(s, pd_text("k"), &options, NULL, &err), PD_INVALID);
  options.version = 6;
  assert_int_equal(pd_erase(s, pd_text("k"), &options, NULL, &err), PD_NOT_FOUND);
  options.version = 2;
  expect_ok(pd_erase(s, pd_text("k"), &options, NULL, &err), &err);
  assert_int_equal(pd_get_version(s, NULL, pd_text("k"), 2, &value, NULL, &err), PD_ERASED);
  for (uint64_t v = 1; v <= 5; v++)
    if (v != 2) expect_ok(pd_get_version(s, NULL, pd_text("k"), v, &value, NULL, &err), &err);
  options.everywhere = true;
  assert_int_equal(pd_erase(s, pd_text("k"), &options, NULL, &err), PD_INVALID);
  check_clean(s);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

/* ---- marks ---- */

static void expect_word(pd_store *s, const char *at, const char *key, const char *word)
{
  pd_buf value = {0};
  pd_error err;
  expect_ok(pd_get(s, at, pd_text(key), &value, NULL, &err), &err);
  assert_memory_equal(value.data, word, strlen(word));
  pd_buf_done(&value);
}

static void check_spares_marks(const char *where, bool is_lazy)
{
  snprintf(uri, sizeof uri, "%s", where);
  pd_store *s = open_store();
  pd_error err;
  pd_erase_report report;
  pd_commit pinned;
  char same[PD_ID_HEX_SIZE];
  put(s, NULL, "k", "ONE-", 60);
  expect_ok(pd_tag_set(s, "first", NULL, false, NULL, NULL, &err), &err);
  put(s, NULL, "other", "x", 60); /* the pin below shows the same version */
  expect_ok(pd_pin_set(s, NULL, NULL, &pinned, &err), &err);
  put(s, NULL, "k", "TWO-", 60);
  put(s, NULL, "k", "THREE-", 40000);
  pd_message message = {.id = "m1", .agent = "main", .session = "s"};
  expect_ok(pd_message_link(s, &message, NULL, NULL, NULL, &err), &err);
  put(s, NULL, "k", "FOUR-", 60);
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note, .spares_marks = true, .is_lazy = is_lazy, .is_dry = true};
  for (int i = 0; i < 2; i++, options.is_dry = false) {
    expect_ok(pd_erase(s, pd_text("k"), &options, &report, &err), &err);
    assert_int_equal(report.versions, 2);
    assert_int_equal(report.held_marks, 2);
    assert_int_equal(report.held_refs, 0);
    assert_int_equal(report.refs, 1);
    assert_true(report.held_by[0] != 0);
  }
  expect_word(s, "first", "k", "ONE-");
  expect_word(s, pd_id_hex(&pinned.id, same), "k", "ONE-");
  expect_word(s, "message:m1", "k", "THREE-");
  expect_erased(s, "main~1", "k");
  expect_erased(s, "main~3", "k");
  check_clean(s);
  pd_gc_policy policy = {.keep_last = 1};
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  expect_word(s, "first", "k", "ONE-");
  expect_word(s, "message:m1", "k", "THREE-");
  check_clean(s);
  pd_store_close(s, NULL);
}

static void erase__spares_what_tags_pins_and_links_show_if_it_is_told_to(void **state)
{
  (void)state;
  char where[128];
  check_spares_marks("memory:marks", false);
  check_spares_marks("memory:marks-lazy", true);
  snprintf(where, sizeof where, "sqlite:%s/m", folder);
  check_spares_marks(where, false);
  snprintf(where, sizeof where, "sqlite:%s/ml", folder);
  check_spares_marks(where, true);
}

/* ---- lazily ---- */

static bool count_version(void *ctx, const pd_version_info *version)
{
  (void)version;
  ++*(int *)ctx;
  return true;
}

static void check_lazy(const char *where, uint32_t flush_ms)
{
  snprintf(uri, sizeof uri, "%s", where);
  pd_error err;
  pd_store *s, *other;
  pd_options how = {.flush_ms = flush_ms};
  expect_ok(pd_store_open(uri, "main", &how, &s, &err), &err);
  put(s, NULL, "k", "SECRET-gone", 100);
  expect_ok(pd_delete(s, pd_text("k"), PD_ANY_VERSION, NULL, NULL, &err), &err);
  put(s, NULL, "k", "SECRET-one", 100);
  put(s, NULL, "other", "harmless", 300);
  put(s, NULL, "k", "SECRET-bag", 30000);
  put(s, NULL, "k", "SECRET-pieces", 300000);
  expect_ok(pd_store_keyframe(s, &err), &err);
  pd_edit *edit;
  expect_ok(pd_edit_begin(s, NULL, &edit, &err), &err);
  expect_ok(pd_edit_put(edit, pd_text("k"), pd_text("SECRET-four"), PD_ANY_VERSION, &err), &err);
  expect_ok(pd_edit_put(edit, pd_text("third"), pd_text("beside it"), PD_ANY_VERSION, &err), &err);
  expect_ok(pd_edit_commit(edit, NULL, &err), &err);
  expect_ok(pd_store_flush(s, &err), &err);
  other = open_store();
  expect_word(other, "main~3", "k", "SECRET-one"); /* it has read the past, and keeps some of it */
  expect_word(s, "main~2", "k", "SECRET-bag");
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note, .is_lazy = true};
  pd_erase_report report;
  expect_ok(pd_erase(s, pd_text("k"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 4);
  assert_int_equal(report.bytes, 100 + 30000 + 300000 + 11);
  assert_int_equal(report.refs, 1);
  put(s, NULL, "k", "again", 50);
  expect_ok(pd_store_flush(s, &err), &err);
  for (int i = 0; i < 2; i++) {
    pd_store *h = i ? other : s;
    pd_buf value = {0};
    int versions = 0;
    expect_erased(h, "main~2", "k");
    expect_erased(h, "main~3", "k");
    expect_erased(h, "main~4", "k");
    expect_erased(h, "main~5", "k");
    expect_word(h, "main~2", "third", "beside it");
    expect_word(h, "main~8", "k", "SECRET-gone"); /* of before the deletion */
    expect_word(h, NULL, "k", "again");
    assert_int_equal(pd_get_version(h, NULL, pd_text("k"), 2, &value, NULL, &err), PD_NOT_FOUND);
    expect_ok(pd_history(h, NULL, pd_text("k"), 0, count_version, &versions, &err), &err);
    assert_int_equal(versions, 1);
    check_clean(h);
    pd_buf_done(&value);
  }
  assert_int_equal(pd_erase(s, pd_text("never"), &options, NULL, &err), PD_NOT_FOUND);
  pd_gc_policy policy = {.keep_last = 1};
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  check_clean(s);
  pd_store_close(other, NULL);
  pd_store_close(s, NULL);
  if (strncmp(where, "sqlite:", 7) == 0) assert_false(files_contain("SECRET"));
}

static void erase__lazily_takes_the_versions_of_a_key_out_of_the_past(void **state)
{
  (void)state;
  char where[128];
  check_lazy("memory:lazy", 0);
  snprintf(where, sizeof where, "sqlite:%s/l", folder);
  check_lazy(where, 0);
  snprintf(where, sizeof where, "sqlite:%s/lb", folder);
  check_lazy(where, 50);
}

static void erase__lazily_everywhere_or_of_one_version(void **state)
{
  (void)state;
  strcpy(uri, "memory:lazy-more");
  pd_store *s = open_store();
  pd_error err;
  pd_erase_report report;
  for (int i = 0; i < 4; i++) put(s, NULL, "k", "word", 50 + (size_t)i);
  expect_ok(pd_fork(s, "branch", NULL, NULL, NULL, &err), &err);
  put(s, NULL, "k", "main alone", 50);
  put(s, "branch", "k", "branch alone", 50);
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note, .is_lazy = true, .version = 2};
  expect_ok(pd_erase(s, pd_text("k"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 1);
  assert_int_equal(report.refs, 0);
  pd_buf value = {0};
  assert_int_equal(pd_get_version(s, NULL, pd_text("k"), 2, &value, NULL, &err), PD_ERASED);
  expect_ok(pd_get_version(s, NULL, pd_text("k"), 3, &value, NULL, &err), &err);
  options.version = 5;
  assert_int_equal(pd_erase(s, pd_text("k"), &options, &report, &err), PD_INVALID);
  options.version = 0;
  options.everywhere = true;
  expect_ok(pd_erase(s, pd_text("k"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 5);
  assert_int_equal(report.refs, 2);
  expect_erased(s, "main~1", "k");
  expect_erased(s, "branch~1", "k");
  check_clean(s);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static void erase__lazily_finds_what_was_left_behind_if_it_is_told_to(void **state)
{
  (void)state;
  snprintf(uri, sizeof uri, "sqlite:%s/left", folder);
  pd_store *s = open_store();
  pd_error err;
  pd_ack undone, forked;
  pd_erase_report report;
  pd_note on_fork = {.ref = "fork/x"}, on_main = {.ref = "main", .author = "officer"};
  expect_ok(pd_put(s, pd_text("left"), pd_text("LEFTWORD-undone"), NULL, &undone, &err), &err);
  expect_ok(pd_undo(s, 1, NULL, NULL, &err), &err);
  expect_ok(pd_fork(s, "fork/x", "main", NULL, NULL, &err), &err);
  expect_ok(pd_fork(s, "thread/x", "main", NULL, NULL, &err), &err);
  expect_ok(pd_put(s, pd_text("left"), pd_text("LEFTWORD-forked"), &on_fork, &forked, &err), &err);
  expect_ok(pd_ref_delete(s, "fork/x", NULL, &err), &err);
  put(s, "thread/x", "left", "NOTMEANT", 30);
  put(s, "main", "left", "LEFTWORD-deleted", 40);
  expect_ok(pd_delete(s, pd_text("left"), PD_ANY_VERSION, NULL, NULL, &err), &err);

  pd_erase_options options = {.is_lazy = true, .note = &on_main};
  assert_int_equal(pd_erase(s, pd_text("left"), &options, &report, &err), PD_NOT_FOUND); /* the head does not lead there */
  options.left_of = "main fork/";
  expect_ok(pd_erase(s, pd_text("left"), &options, &report, &err), &err);
  assert_int_equal(report.versions, 3);
  assert_int_equal(report.refs, 0);
  char at[PD_ID_HEX_SIZE];
  expect_erased(s, pd_id_hex(&undone.commit, at), "left");
  expect_erased(s, pd_id_hex(&forked.commit, at), "left");
  expect_erased(s, "main~1", "left");
  pd_buf value = {0};
  expect_ok(pd_get(s, "thread/x", pd_text("left"), &value, NULL, &err), &err); /* another ref's is another's */
  pd_buf_done(&value);
  assert_int_equal(pd_erase(s, pd_text("left"), &options, &report, &err), PD_NOT_FOUND);
  options.is_lazy = false;
  assert_int_equal(pd_erase(s, pd_text("left"), &options, &report, &err), PD_INVALID);
  check_clean(s);
  expect_ok(pd_store_close(s, &err), &err);
  s = open_store();
  check_clean(s);
  expect_ok(pd_store_close(s, &err), &err);
}

static void erase__lazily_that_was_cut_off_is_finished_by_gc(void **state)
{
  (void)state;
  fault_backend_install();
  strcpy(uri, "fault:memory:cut-off");
  pd_store *s = open_store();
  pd_error err;
  put(s, NULL, "k", "one", 50);
  put(s, NULL, "k", "two", 50);
  put(s, NULL, "other", "stays", 50);
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note, .is_lazy = true};
  fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_LOG_REDACT});
  assert_int_equal(pd_erase(s, pd_text("k"), &options, NULL, &err), PD_STORAGE);
  fault_backend_plan((fault_plan){0});
  expect_word(s, "main~2", "k", "two"); /* it is deleted and written down, no more */
  put(s, NULL, "k", "new", 50);
  for (int i = 0; i < 2; i++) {
    expect_ok(pd_gc(s, NULL, NULL, &err), &err);
    expect_erased(s, "main~3", "k");
    expect_erased(s, "main~4", "k");
    expect_word(s, "main~2", "other", "stays");
    expect_word(s, NULL, "k", "new");
    check_clean(s);
  }
  pd_store_close(s, NULL);
}

static pd_code take_nothing(void *ctx, pd_bytes piece, pd_error *err)
{
  (void)ctx;
  (void)piece;
  return pd_error_set(err, PD_INVALID, "bytes of an erased value");
}

static void erase__of_a_chunked_value_answers_erased(void **state)
{
  (void)state;
  strcpy(uri, "memory:chunked");
  pd_store *s = open_store();
  pd_error err;
  put(s, NULL, "doc", "pieces", 500000);
  put(s, NULL, "doc", "small", 50);
  pd_note note = {.author = "officer"};
  pd_erase_options options = {.note = &note, .version = 1};
  expect_ok(pd_erase(s, pd_text("doc"), &options, NULL, &err), &err);
  pd_buf value = {0};
  assert_int_equal(pd_get_version(s, NULL, pd_text("doc"), 1, &value, NULL, &err), PD_ERASED);
  expect_erased(s, "main~1", "doc");
  assert_int_equal(pd_get_stream(s, "main~1", pd_text("doc"), take_nothing, NULL, NULL, &err), PD_ERASED);
  check_clean(s);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static int make_folder(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/perdure-erase-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(erase__takes_the_bytes_out_of_the_files_and_leaves_the_chain),
    cmocka_unit_test(erase__leaves_what_the_head_of_another_ref_or_another_key_holds),
    cmocka_unit_test(erase__reaches_a_key_that_was_written_before_the_cut_of_gc),
    cmocka_unit_test(erase__of_one_version_leaves_the_others),
    cmocka_unit_test(erase__spares_what_tags_pins_and_links_show_if_it_is_told_to),
    cmocka_unit_test(erase__lazily_takes_the_versions_of_a_key_out_of_the_past),
    cmocka_unit_test(erase__lazily_everywhere_or_of_one_version),
    cmocka_unit_test(erase__lazily_finds_what_was_left_behind_if_it_is_told_to),
    cmocka_unit_test(erase__lazily_that_was_cut_off_is_finished_by_gc),
    cmocka_unit_test(erase__of_a_chunked_value_answers_erased),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
