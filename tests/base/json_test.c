/* json_test.c: the strict scanner, the walkers, strings and numbers, and the writer of src/base/json.h. */
#include "base/json.h"
#include "base/json_pick.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* A copy without a byte of slack, so that a sanitizer sees a read past the end. */
static pd_code parse_copy(const char *text, size_t size, pd_error *err)
{
  char *copy = malloc(size ? size : 1);
  assert_non_null(copy);
  memcpy(copy, text, size);
  pd_json out = {{NULL, 0}, PD_JSON_NONE};
  pd_code code = pd_json_parse((pd_bytes){copy, size}, &out, err);
  free(copy);
  return code;
}

static pd_json parsed(const char *text)
{
  pd_json out;
  assert_int_equal(pd_json_parse(pd_text(text), &out, NULL), PD_OK);
  return out;
}

static void json__valid_texts_are_accepted(void **state)
{
  (void)state;
  static const char *const good[] = {
    "0",
    "-0",
    "1",
    "-1",
    "12",
    "10.0",
    "0.5",
    "-0.5e10",
    "1E+2",
    "1e-2",
    "0e0",
    "123456789012345678901234567890",
    "true",
    "false",
    "null",
    "\"\"",
    "\"a\"",
    "\"0123456789abcdef0123456789\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0041\\uD83D\\uDE00\"",
    "\"\\ud800\"",
    "\"\x7f\"",
    "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
    "[]",
    "{}",
    " [ ] ",
    "\t{\r\n} ",
    "[1,2,3]",
    "[[],{},[{}]]",
    "{\"a\":1}",
    "{\"a\":{\"b\":[1,{\"c\":null}]},\"d\":\"e\"}",
    "{\"a\":1,\"a\":2}",
    "{\"\":0}",
    "[1 , 2\n,\t3 ]",
    " 1 ",
  };
  for (size_t i = 0; i < COUNT_OF(good); i++)
    if (parse_copy(good[i], strlen(good[i]), NULL) != PD_OK) fail_msg("refused: %s", good[i]);
}

static void json__malformed_texts_are_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "",
    " ",
    "\n\t",
    "x",
    "nul",
    "nulll",
    "True",
    "tru",
    "fals",
    "NaN",
    "Infinity",
    "-Infinity",
    "undefined",
    "'a'",
    "+1",
    "-",
    "--1",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "-.5",
    "1.e1",
    "1e",
    "1e+",
    "1ee1",
    "1.2.3",
    "0x10",
    "1_000",
    "1 2",
    "1,",
    "\"",
    "\"a",
    "a\"",
    "\"\\\"",
    "\"\\",
    "\"\\x41\"",
    "\"\\u\"",
    "\"\\u12\"",
    "\"\\u12G4\"",
    "\"\\u 123\"",
    "\"\\U0041\"",
    "\"\\\xC3\xA9\"",
    "\"\n\"",
    "\"\t\"",
    "\"0123456\x01\"",
    "\"012345678901234\x1f\"",
    "\"\x80\"",
    "\"\xC3\"",
    "\"\xC0\xAF\"",
    "\"\xE0\x80\xAF\"",
    "\"\xED\xA0\x80\"",
    "\"\xF4\x90\x80\x80\"",
    "\"\xFF\"",
    "\"aaaaaaaaaaaaaaa\xC3(\"",
    "\xEF\xBB\xBF{}",
    "\xC2\xA0 1",
    "[",
    "]",
    "{",
    "}",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[,]",
    "[1 2]",
    "[1}",
    "{]",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":}",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{,}",
    "{\"a\" 1}",
    "{a:1}",
    "{1:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1]",
    "{\"a\":1,,\"b\":2}",
    "{\"a\"::1}",
    "{\"a\",1}",
    "{null:1}",
    "[[]",
    "[]]",
    "{}{}",
    "[] []",
    "// comment\n1",
    "/* c */ 1",
    "1 // c",
    "# c",
    "\v1",
    "\f1",
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_error err = {0};
    if (parse_copy(bad[i], strlen(bad[i]), &err) != PD_INVALID) fail_msg("accepted: %s", bad[i]);
    assert_int_equal(err.code, PD_INVALID);
    assert_non_null(strstr(err.message, "JSON"));
  }
}

static void json__every_prefix_of_a_document_is_refused(void **state)
{
  (void)state;
  const char *text = "{\"key\":[1.5e3,\"tw\\u00e9\\n\xE2\x82\xAC\",true,false,null,{\"x\":{}}],\"z\":-0.25}";
  for (size_t size = 0; size < strlen(text); size++) assert_int_equal(parse_copy(text, size, NULL), PD_INVALID);
  assert_int_equal(parse_copy(text, strlen(text), NULL), PD_OK);
}

static void json__a_nul_byte_is_refused_everywhere(void **state)
{
  (void)state;
  assert_int_equal(parse_copy("\0", 1, NULL), PD_INVALID);
  assert_int_equal(parse_copy("1\0", 2, NULL), PD_INVALID);
  assert_int_equal(parse_copy("\"a\0b\"", 5, NULL), PD_INVALID);
  assert_int_equal(parse_copy("\"\\\0\"", 4, NULL), PD_INVALID);
  assert_int_equal(parse_copy("[1\0]", 4, NULL), PD_INVALID);
}

static void json__each_byte_is_judged_wherever_it_stands_in_a_string(void **state)
{
  (void)state;
  for (int byte = 0; byte < 256; byte++)
    for (size_t at = 1; at <= 20; at++) {
      char text[22];
      memset(text, 'a', sizeof text);
      text[0] = text[21] = '"';
      text[at] = (char)byte;
      bool is_good = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
      assert_int_equal(parse_copy(text, sizeof text, NULL), is_good ? PD_OK : PD_INVALID);
    }
}

static void json__the_message_names_the_byte(void **state)
{
  (void)state;
  pd_error err = {0};
  assert_int_equal(pd_json_parse(pd_text("{\"a\": tru}"), NULL, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "byte 6"));
}

static void nest(char *text, size_t depth, char open, char close)
{
  memset(text, open, depth);
  memset(text + depth, close, depth);
  text[2 * depth] = 0;
}

static void json__nesting_stops_at_its_limit(void **state)
{
  (void)state;
  static char text[400001];
  nest(text, PD_JSON_DEPTH_MAX, '[', ']');
  assert_int_equal(pd_json_parse(pd_text(text), NULL, NULL), PD_OK);
  nest(text, PD_JSON_DEPTH_MAX + 1, '[', ']');
  pd_error err = {0};
  assert_int_equal(pd_json_parse(pd_text(text), NULL, &err), PD_LIMIT);
  nest(text, 200000, '[', ']');
  assert_int_equal(pd_json_parse(pd_text(text), NULL, &err), PD_LIMIT);
  assert_int_equal(err.code, PD_LIMIT);
}

static void json__slices_have_no_white_space_around_them(void **state)
{
  (void)state;
  pd_json value = parsed(" \n {\"n\" : 1.50e+07 , \"s\":[ ] } \t");
  assert_int_equal(value.kind, PD_JSON_OBJECT);
  assert_true(pd_bytes_equal(value.raw, pd_text("{\"n\" : 1.50e+07 , \"s\":[ ] }")));
  assert_true(pd_bytes_equal(pd_json_member(value, "n").raw, pd_text("1.50e+07")));
  assert_true(pd_bytes_equal(pd_json_member(value, "s").raw, pd_text("[ ]")));
  assert_int_equal(pd_json_member(value, "x").kind, PD_JSON_NONE);
  assert_int_equal(pd_json_member(parsed("[1]"), "n").kind, PD_JSON_NONE);
}

static void json__walking_gives_items_in_order(void **state)
{
  (void)state;
  static const char *const items[] = {"1", "\"a,]\\\"}\"", "{\"x\":[1,2]}", "[]", "null", "false"};
  static const pd_json_kind kinds[] = {PD_JSON_NUMBER, PD_JSON_STRING, PD_JSON_OBJECT, PD_JSON_ARRAY, PD_JSON_NULL, PD_JSON_BOOL};
  pd_json_walk walk = pd_json_walk_begin(parsed("[1, \"a,]\\\"}\" ,{\"x\":[1,2]},[], null ,false ]"));
  pd_json key, value;
  for (size_t i = 0; i < COUNT_OF(items); i++) {
    assert_true(pd_json_walk_next(&walk, &key, &value));
    assert_int_equal(key.kind, PD_JSON_NONE);
    assert_int_equal(value.kind, kinds[i]);
    assert_true(pd_bytes_equal(value.raw, pd_text(items[i])));
  }
  assert_false(pd_json_walk_next(&walk, &key, &value));
}

static void json__walking_what_is_empty_or_no_container_gives_nothing(void **state)
{
  (void)state;
  static const char *const texts[] = {"{}", "[]", "{ }", "[\n]", "1", "\"[1]\"", "null"};
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    pd_json_walk walk = pd_json_walk_begin(parsed(texts[i]));
    pd_json value;
    assert_false(pd_json_walk_next(&walk, NULL, &value));
  }
}

static void json__keys_are_compared_after_decoding(void **state)
{
  (void)state;
  pd_json value = parsed("{\"\\u006be\\u0079\":1,\"\\u00e9\":2,\"\\ud83d\\ude00\":3}");
  uint64_t n;
  assert_true(pd_json_u64(pd_json_member(value, "key"), &n) && n == 1);
  assert_true(pd_json_u64(pd_json_member(value, "\xC3\xA9"), &n) && n == 2);
  assert_true(pd_json_u64(pd_json_member(value, "\xF0\x9F\x98\x80"), &n) && n == 3);
  assert_false(pd_json_is(parsed("\"ke\""), "key"));
  assert_false(pd_json_is(parsed("\"keys\""), "key"));
  assert_false(pd_json_is(parsed("\"a\\u0000\""), "a"));
  assert_false(pd_json_is(parsed("1"), "1"));
}

static void json__strings_decode_to_their_bytes(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_json_decode(parsed("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00E9\\u20ac\\uD83D\\uDE00\xC3\xA9z\""), &out, NULL),
                   PD_OK);
  static const char want[] = "a\"\\/\b\f\n\r\t\0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xC3\xA9z";
  assert_int_equal(out.size, sizeof want - 1);
  assert_memory_equal(out.data, want, out.size);
}

static void json__lone_surrogates_are_refused_and_leave_nothing(void **state)
{
  (void)state;
  static const char *const bad[] = {"\"\\ud800\"",        "\"\\udfff\"",        "\"\\ud83dx\"",       "\"\\ud83d\\n\"",
                                    "\"\\ude00\\ud83d\"", "\"\\ud83d\\ud83d\"", "\"\\ud83d\\u0041\"", "\"ok\\udbff\""};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_buf_append(&out, "kept", 4, NULL), PD_OK);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_error err = {0};
    assert_int_equal(pd_json_decode(parsed(bad[i]), &out, &err), PD_INVALID);
    assert_int_equal(err.code, PD_INVALID);
    assert_int_equal(out.size, 4);
  }
  assert_int_equal(pd_json_decode(parsed("12"), &out, NULL), PD_INVALID);
}

static void json__integers_must_fit_exactly(void **state)
{
  (void)state;
  uint64_t u = 7;
  int64_t i = 7;
  assert_true(pd_json_u64(parsed("18446744073709551615"), &u) && u == UINT64_MAX);
  static const char *const no_u64[] = {"18446744073709551616", "99999999999999999999", "-1", "-0", "1.0", "1e3", "\"1\"", "null", "true"};
  for (size_t k = 0; k < COUNT_OF(no_u64); k++) assert_false(pd_json_u64(parsed(no_u64[k]), &u));
  assert_true(u == UINT64_MAX);
  assert_true(pd_json_i64(parsed("-9223372036854775808"), &i) && i == INT64_MIN);
  assert_true(pd_json_i64(parsed("9223372036854775807"), &i) && i == INT64_MAX);
  assert_false(pd_json_i64(parsed("9223372036854775808"), &i));
  assert_false(pd_json_i64(parsed("-9223372036854775809"), &i));
  assert_true(i == INT64_MAX);
  assert_true(pd_json_true(parsed("true")));
  assert_false(pd_json_true(parsed("false")));
  assert_false(pd_json_true(parsed("\"true\"")));
}

static void json__fields_refuse_what_is_unknown_or_given_twice(void **state)
{
  (void)state;
  pd_json_field fields[] = {{.name = "op"}, {.name = "key"}};
  assert_int_equal(pd_json_fields(parsed("{\"key\":\"k\"}"), fields, 2, NULL), PD_OK);
  assert_int_equal(fields[0].value.kind, PD_JSON_NONE);
  assert_true(pd_json_is(fields[1].value, "k"));
  pd_error err = {0};
  assert_int_equal(pd_json_fields(parsed("{\"op\":1,\"kez\":2}"), fields, 2, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "\"kez\""));
  assert_int_equal(pd_json_fields(parsed("{\"op\":1,\"o\\u0070\":2}"), fields, 2, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "twice"));
  assert_int_equal(pd_json_fields(parsed("[1]"), fields, 2, &err), PD_INVALID);
}

static void json__repeated_keys_are_found_at_any_depth(void **state)
{
  (void)state;
  static const char *const unique[] = {"1",
                                       "[]",
                                       "{}",
                                       "{\"a\":{\"a\":{\"a\":1}}}",
                                       "[{\"a\":1},{\"a\":1}]",
                                       "{\"a\":\"b\",\"b\":\"a\"}",
                                       "{\"a\":[\"a\",\"a\"],\"b\":1}",
                                       "{\"\\ud800\":1,\"\\ud801\":2}"};
  static const char *const twice[] = {"{\"a\":1,\"a\":1}",
                                      "{\"a\":1,\"\\u0061\":1}",
                                      "[[{\"x\":{\"b\":1,\"c\":2,\"b\":3}}]]",
                                      "{\"a\":{\"q\":1},\"b\":2,\"a\":3}",
                                      "{\"\":1,\"\":2}",
                                      "{\"\xC3\xA9\":1,\"\\u00e9\":2}",
                                      "{\"\xF0\x9F\x98\x80\":1,\"\\ud83d\\ude00\" :2}"};
  for (size_t i = 0; i < COUNT_OF(unique); i++) assert_int_equal(pd_json_unique(parsed(unique[i]), NULL), PD_OK);
  for (size_t i = 0; i < COUNT_OF(twice); i++) {
    pd_error err = {0};
    if (pd_json_unique(parsed(twice[i]), &err) != PD_INVALID) fail_msg("passed: %s", twice[i]);
    assert_non_null(strstr(err.message, "twice"));
  }
}

static void json__the_scanner_tells_blanks_escapes_and_keys_out_of_order(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool has_space, has_escape, is_outer_unordered, is_inner_unordered;
  } cases[] = {
    {"{}", false, false, false, false},
    {"[{},[]]", false, false, false, false},
    {"{\"a\":1,\"b\":{\"c\":1,\"d\":2}}", false, false, false, false},
    {"{\"a\": 1}", true, false, false, false},
    {" {}", true, false, false, false},
    {"[\" \"]", false, false, false, false},
    {"{\"a\\n\":1}", false, true, false, false},
    {"[\"\\u0041\"]", false, true, false, false},
    {"{\"b\":1,\"a\":2}", false, false, true, false},
    {"{\"a\":1,\"a\":2}", false, false, true, false},
    {"{\"a\":{\"b\":1,\"a\":2}}", false, false, false, true},
    {"[{\"a\":1,\"a\":2}]", false, false, false, true},
    {"[{\"b\":1},{\"a\":1}]", false, false, false, false},                     /* each object for itself */
    {"{\"a\":{\"x\":{\"y\":1}},\"b\":{\"a\":1}}", false, false, false, false}, /* …also after a deeper one */
    {"{\"b\":{\"z\":1},\"a\":1}", false, false, true, false},                  /* the key before, not the one inside its value */
    {"[{\"b\":{\"z\":1},\"b\":1}]", false, false, false, true},
    {"{\"a\":1,\"ab\":1,\"a!\":1}", false, false, true, false},
    {"{\"\":1,\"a\":1}", false, false, false, false},
    {"{\"\":1,\"\":1}", false, false, true, false},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    pd_json_facts facts;
    pd_json json;
    assert_int_equal(pd_json_parse_facts(pd_text(cases[i].text), &json, &facts, NULL), PD_OK);
    bool is_as_told = facts.has_space == cases[i].has_space && facts.has_escape == cases[i].has_escape &&
                      facts.is_outer_unordered == cases[i].is_outer_unordered && facts.is_inner_unordered == cases[i].is_inner_unordered;
    if (!is_as_told) fail_msg("%s", cases[i].text);
    if (pd_json_inside_is_unique(&facts) && !facts.is_outer_unordered) assert_int_equal(pd_json_unique(json, NULL), PD_OK);
  }
}

static void json__the_writer_sets_commas_and_escapes(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "a\"b", "x\\\n\x01\x7f/\xC3\xA9");
  pd_json_key(&w, "list");
  pd_json_open(&w, '[');
  pd_json_number(&w, UINT64_MAX);
  pd_json_open(&w, '{');
  pd_json_close(&w, '}');
  pd_json_null(&w);
  pd_json_close(&w, ']');
  pd_json_put_bool(&w, "yes", true);
  pd_json_put_number(&w, "zero", 0);
  pd_json_close(&w, '}');
  assert_int_equal(w.code, PD_OK);
  const char *want = "{\"a\\\"b\":\"x\\\\\\n\\u0001\\u007f/\xC3\xA9\",\"list\":[18446744073709551615,{},null],\"yes\":true,\"zero\":0}";
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text(want)));
}

static void json__what_is_written_reads_back_the_same(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0}, back = {0};
  char all[127];
  for (int i = 0; i < 127; i++) all[i] = (char)(i + 1);
  pd_json_writer w = {.out = &out};
  pd_json_text(&w, (pd_bytes){all, sizeof all});
  pd_json value;
  assert_int_equal(pd_json_parse(pd_buf_bytes(&out), &value, NULL), PD_OK);
  assert_int_equal(pd_json_decode(value, &back, NULL), PD_OK);
  assert_int_equal(back.size, sizeof all);
  assert_memory_equal(back.data, all, sizeof all);
}

static void json__bytes_that_are_no_utf8_are_written_as_replacements(void **state)
{
  (void)state;
  static const char *const texts[][2] = {{"\xFF", "\"\xEF\xBF\xBD\""},
                                         {"a\xC3", "\"a\xEF\xBF\xBD\""},
                                         {"\xC3(", "\"\xEF\xBF\xBD(\""},
                                         {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""}};
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    CLEANUP(pd_buf_done) pd_buf out = {0};
    pd_json_writer w = {.out = &out};
    pd_json_text(&w, pd_text(texts[i][0]));
    assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text(texts[i][1])));
    assert_int_equal(pd_json_parse(pd_buf_bytes(&out), NULL, NULL), PD_OK);
  }
}

static void json__members_are_picked_by_name_in_one_walk(void **state)
{
  static const char *const names[] = {"a", "b"};
  pd_json out[2] = {0}, key;
  size_t index;
  (void)state;
  assert_int_equal(pd_json_pick(parsed("{\"b\":1,\"x\":[2],\"\\u0061\":3}"), names, sizeof names[0], 2, false, out, &key, &index),
                   PD_JSON_FITS);
  assert_true(pd_bytes_equal(out[0].raw, pd_text("3")));
  assert_true(pd_bytes_equal(out[1].raw, pd_text("1")));
  memset(out, 0, sizeof out);
  assert_int_equal(pd_json_pick(parsed("{\"b\":1,\"x\":[2],\"a\":3}"), names, sizeof names[0], 2, true, out, &key, &index),
                   PD_JSON_UNKNOWN);
  assert_true(pd_json_is(key, "x"));
  assert_int_equal(out[0].kind, PD_JSON_NONE); /* it stops there */
  memset(out, 0, sizeof out);
  assert_int_equal(pd_json_pick(parsed("{\"a\":1,\"b\":2,\"b\":3}"), names, sizeof names[0], 2, false, out, &key, &index), PD_JSON_TWICE);
  assert_int_equal(index, 1);
  assert_true(pd_bytes_equal(out[1].raw, pd_text("2")));
  memset(out, 0, sizeof out);
  assert_int_equal(pd_json_pick(parsed("{}"), names, sizeof names[0], 2, true, out, &key, &index), PD_JSON_FITS);
  assert_int_equal(pd_json_pick(parsed("[1,2]"), names, sizeof names[0], 2, true, out, &key, &index), PD_JSON_FITS);
  assert_int_equal(pd_json_pick(parsed("{\"a\":1}"), NULL, 8, 0, true, out, &key, &index), PD_JSON_UNKNOWN);
  assert_int_equal(out[0].kind, PD_JSON_NONE);
  assert_int_equal(pd_json_count(parsed("[1,[2,3],{\"a\":4}]")), 3);
  assert_int_equal(pd_json_count(parsed("{}")), 0);
}

static void json__a_value_is_copied_without_its_white_space(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_json_value(&w, parsed(" { \"a b\" : [ 1 ,\n 2.50 ] ,\r\n\t\"q\\\" \\\\\" : \" x \" } "));
  assert_int_equal(w.code, PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text("{\"a b\":[1,2.50],\"q\\\" \\\\\":\" x \"}")));
}

static void json__a_full_buffer_sticks_as_an_error(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {.size_max = 80};
  char text[100];
  memset(text, 'x', sizeof text);
  pd_error err = {0};
  pd_json_writer w = {.out = &out, .err = &err};
  pd_json_text(&w, (pd_bytes){text, sizeof text});
  assert_int_equal(w.code, PD_LIMIT);
  size_t size = out.size;
  pd_json_null(&w);
  assert_int_equal(w.code, PD_LIMIT);
  assert_int_equal(out.size, size);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(json__valid_texts_are_accepted),
    cmocka_unit_test(json__malformed_texts_are_refused),
    cmocka_unit_test(json__every_prefix_of_a_document_is_refused),
    cmocka_unit_test(json__a_nul_byte_is_refused_everywhere),
    cmocka_unit_test(json__each_byte_is_judged_wherever_it_stands_in_a_string),
    cmocka_unit_test(json__the_message_names_the_byte),
    cmocka_unit_test(json__nesting_stops_at_its_limit),
    cmocka_unit_test(json__slices_have_no_white_space_around_them),
    cmocka_unit_test(json__walking_gives_items_in_order),
    cmocka_unit_test(json__walking_what_is_empty_or_no_container_gives_nothing),
    cmocka_unit_test(json__keys_are_compared_after_decoding),
    cmocka_unit_test(json__strings_decode_to_their_bytes),
    cmocka_unit_test(json__lone_surrogates_are_refused_and_leave_nothing),
    cmocka_unit_test(json__integers_must_fit_exactly),
    cmocka_unit_test(json__fields_refuse_what_is_unknown_or_given_twice),
    cmocka_unit_test(json__repeated_keys_are_found_at_any_depth),
    cmocka_unit_test(json__the_scanner_tells_blanks_escapes_and_keys_out_of_order),
    cmocka_unit_test(json__the_writer_sets_commas_and_escapes),
    cmocka_unit_test(json__what_is_written_reads_back_the_same),
    cmocka_unit_test(json__bytes_that_are_no_utf8_are_written_as_replacements),
    cmocka_unit_test(json__members_are_picked_by_name_in_one_walk),
    cmocka_unit_test(json__a_value_is_copied_without_its_white_space),
    cmocka_unit_test(json__a_full_buffer_sticks_as_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
