/* toml_test.c: what the reader of configuration files takes, and the line and the words with which it refuses the rest. */
#include "base/toml.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void parse(const char *text, pd_toml *out)
{
  pd_error err = {0};
  if (pd_toml_parse(pd_text(text), "x.toml", out, &err)) fail_msg("%s", err.message);
}

static void refused(const char *text, const char *message)
{
  pd_toml doc;
  pd_error err = {0};
  pd_code code = pd_toml_parse(pd_text(text), "x.toml", &doc, &err);
  pd_toml_done(&doc);
  if (code != PD_INVALID) fail_msg("accepted: %s", text);
  if (!strstr(err.message, message)) fail_msg("%s: '%s' has no '%s'", text, err.message, message);
}

static const pd_toml_value *value_of(const pd_toml *doc, const char *name)
{
  for (size_t i = 0; i < doc->entry_count; i++)
    if (strcmp(doc->entries[i].name, name) == 0) return &doc->entries[i].value;
  fail_msg("there is no %s", name);
  return NULL;
}

static void toml__tables_and_dotted_keys_make_names(void **state)
{
  (void)state;
  pd_toml doc;
  parse("top = 1\n[session]\nquota = 2 # c\n a . b=3\n[ store.\"deep\" ]\n'k' = 4\r\n", &doc);
  static const char *const names[] = {"top", "session.quota", "session.a.b", "store.deep.k"};
  assert_int_equal(doc.entry_count, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(doc.entries[i].name, names[i]);
    assert_int_equal(doc.entries[i].value.integer, i + 1);
  }
  assert_string_equal(doc.entries[2].key, "a.b");
  assert_int_equal(doc.entries[2].line, 4);
  assert_int_equal(doc.table_count, 3);
  assert_string_equal(doc.tables[0].name, "");
  assert_int_equal(doc.tables[2].line, 5);
  pd_toml_done(&doc);
}

static void toml__arrays_of_tables_are_numbered(void **state)
{
  (void)state;
  pd_toml doc;
  parse("[[rule]]\nagent = 'a'\n[[other]]\n[[rule]]\nagent = 'b'\n[[rule]]\n", &doc);
  assert_int_equal(doc.table_count, 5);
  assert_true(doc.tables[1].is_list);
  assert_int_equal(doc.tables[4].index, 2);
  assert_int_equal(doc.tables[2].index, 0);
  assert_int_equal(doc.entries[1].table, 3);
  assert_string_equal(doc.entries[1].name, "rule.agent");
  assert_string_equal(doc.entries[1].value.text, "b");
  pd_toml_done(&doc);
}

static void toml__values_are_what_they_say(void **state)
{
  (void)state;
  pd_toml doc;
  parse("a = \"x\\t\\\"\\u00e9\\U0001F600#\" # c\nb = 'c:\\n \"'\nc = -9223372036854775808\nd = +1_000\ne = true\nf = false\n"
        "g = [ 1, 'two', # three\n\n true, ]\nh = []\ni = ''\nj = 0",
        &doc);
  assert_string_equal(value_of(&doc, "a")->text, "x\t\"\xc3\xa9\xf0\x9f\x98\x80#");
  assert_string_equal(value_of(&doc, "b")->text, "c:\\n \"");
  assert_true(value_of(&doc, "c")->integer == INT64_MIN);
  assert_int_equal(value_of(&doc, "d")->integer, 1000);
  assert_true(value_of(&doc, "e")->is_true);
  assert_false(value_of(&doc, "f")->is_true);
  const pd_toml_value *g = value_of(&doc, "g");
  assert_int_equal(g->item_count, 3);
  assert_int_equal(g->items[0].integer, 1);
  assert_string_equal(g->items[1].text, "two");
  assert_int_equal(g->items[2].line, 9);
  assert_int_equal(value_of(&doc, "h")->item_count, 0);
  assert_string_equal(value_of(&doc, "i")->text, "");
  assert_int_equal(value_of(&doc, "j")->kind, PD_TOML_INTEGER);
  pd_toml_done(&doc);
}

static void toml__empty_files_and_comments_have_nothing(void **state)
{
  (void)state;
  static const char *const texts[] = {"", "\n", "# only", "\t # x\n\r\n  "};
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    pd_toml doc;
    parse(texts[i], &doc);
    assert_int_equal(doc.entry_count, 0);
    assert_int_equal(doc.table_count, 1);
    pd_toml_done(&doc);
  }
}

static void toml__what_is_no_toml_is_refused_with_its_line(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"a", "x.toml:1: 'a' is not followed by ="},
    {"\na = \n", "x.toml:2: 'a' has no value"},
    {"= 1", "1: a key was expected"},
    {"a. = 1", "1: a key was expected"},
    {"a = 1 b", "1: something follows"},
    {"a = 1\nb = 'x\ny'", "2: 'b': the string does not end on its line"},
    {"a = \"x", "1: 'a': the string does not end"},
    {"a = \"\\q\"", "an escape that TOML does not know"},
    {"a = \"\\u12\"", "an escape needs 4 hex digits"},
    {"a = \"\\ud800\"", "no character"},
    {"a = \"\\u0000\"", "no character"},
    {"a = \"\\U00110000\"", "no character"},
    {"a = 01", "is no value"},
    {"a = 1_", "no whole number"},
    {"a = 1__0", "no whole number"},
    {"a = _1", "is no value"},
    {"a = 1.5", "no whole number"},
    {"a = 2026-11-15", "no whole number"},
    {"a = 0x10", "is no value"},
    {"a = inf", "is no value"},
    {"a = True", "is no value"},
    {"a = 9223372036854775808", "does not fit 64 bits"},
    {"a = -9223372036854775809", "does not fit 64 bits"},
    {"a = [1 2]", "an array goes on with"},
    {"a = [1,\n\n", "3: 'a' has no value"},
    {"a = [,]", "has no value"},
    {"a = [[1]]", "arrays of arrays"},
    {"a = {b = 1}", "tables in braces"},
    {"a = '''x'''", "over several lines"},
    {"[a", "does not end with ]"},
    {"[[a]", "does not end with ]]"},
    {"[a] b = 1", "something follows"},
    {"[]", "a key was expected"},
    {"\"a.b\" = 1", "a key in quotes"},
    {"a = 1\x01", "something follows"},
    {"# \x01", "a control character"},
    {"\r", "a key was expected"},
    {"a = 1\n\nb = '\xff'", "x.toml:3: this is no UTF-8"},
    {"\xef\xbb\xbf"
     "a = 1",
     "a key was expected"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) refused(cases[i][0], cases[i][1]);
}

static void toml__a_name_may_be_there_once_and_be_one_thing(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"a = 1\na = 2", "x.toml:2: 'a' is there already, on line 1"},
    {"[t]\na.b = 1\n[t.a]\nb = 2", "4: 't.a.b' is there already, on line 2"},
    {"[t]\n[u]\n[t]", "3: 't' is there already, on line 1"},
    {"a = 1\n[a]", "2: 'a' is there already"},
    {"a = 1\na.b = 2", "2: 'a.b' cannot be inside 'a', which line 1"},
    {"a = 1\na-x = 3\n[a.b.c]", "3: 'a.b.c' cannot be inside 'a'"},
    {"[[r]]\n[r]", "2: 'r' is there already"},
    {"[r]\n[[r]]", "2: 'r' is there already"},
    {"[[r]]\n[r.s]", "2: 'r.s' cannot be inside 'r'"},
    {"[[r]]\nk = 1\n[[r]]\nk = 1\nk = 2", "5: 'r[1].k' is there already, on line 4"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) refused(cases[i][0], cases[i][1]);
  pd_toml doc;
  parse("[[r]]\nk = 1\n[[r]]\nk = 1\n[a.b]\nk = 1\n[a]\nk = 1\nc.k = 1\nc.l = 2", &doc);
  pd_toml_done(&doc);
}

static void toml__sizes_are_bounded(void **state)
{
  (void)state;
  pd_toml doc;
  pd_error err;
  char *text = malloc(PD_TOML_SIZE_MAX + 2);
  memset(text, '\n', PD_TOML_SIZE_MAX + 1);
  text[PD_TOML_SIZE_MAX + 1] = 0;
  assert_int_equal(pd_toml_parse(pd_text(text), "x.toml", &doc, &err), PD_LIMIT);
  pd_toml_done(&doc);
  assert_int_equal(pd_toml_parse((pd_bytes){text, PD_TOML_SIZE_MAX}, "x.toml", &doc, &err), PD_OK);
  pd_toml_done(&doc);
  memset(text, 'k', 201);
  strcpy(text + 201, " = 1");
  refused(text, "a name is longer than 200 bytes");
  size_t used = 0;
  for (int i = 0; i < 5000; i++) used += (size_t)sprintf(text + used, "[t%d]\n", i);
  refused(text, "more than 4096 tables");
  used = 0;
  for (int i = 0; i < 50000; i++) used += (size_t)sprintf(text + used, "k%d = %d\n", i, i);
  parse(text, &doc);
  assert_int_equal(doc.entry_count, 50000);
  pd_toml_done(&doc);
  free(text);
}

static void toml__files_that_are_not_there_or_folders_are_told_apart(void **state)
{
  (void)state;
  pd_toml doc;
  pd_error err;
  assert_int_equal(pd_toml_read("/nowhere/x.toml", &doc, &err), PD_NOT_FOUND);
  assert_non_null(strstr(err.message, "/nowhere/x.toml"));
  assert_int_equal(pd_toml_read("/tmp", &doc, &err), PD_STORAGE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(toml__tables_and_dotted_keys_make_names),
    cmocka_unit_test(toml__arrays_of_tables_are_numbered),
    cmocka_unit_test(toml__values_are_what_they_say),
    cmocka_unit_test(toml__empty_files_and_comments_have_nothing),
    cmocka_unit_test(toml__what_is_no_toml_is_refused_with_its_line),
    cmocka_unit_test(toml__a_name_may_be_there_once_and_be_one_thing),
    cmocka_unit_test(toml__sizes_are_bounded),
    cmocka_unit_test(toml__files_that_are_not_there_or_folders_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
