/* erase_test.c: src/engine/erase.c: the bytes are gone from the files, ids and the chain stay, and reads say when and by whom. */
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
    cmocka_unit_test(erase__of_one_version_leaves_the_others),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
