/* bind_test.c: structs from and to JSON by a table: what is written is read, and nothing else is. */
#include "base/bind.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef enum colour { RED, GREEN } colour;

typedef struct thing {
  char name[8];
  char tags[2][4];
  uint8_t key[3];
  pd_id id;
  uint32_t small;
  uint64_t large;
  int64_t made_ms, seen_ms;
  bool is_open;
  colour colour;
  pd_json any, text;
} thing;

static const char *const colours[] = {"red", "green", NULL};

static const pd_bind members[] = {
  {"name", PD_BIND_TEXT, PD_BIND_AT(thing, name)},
  {"tags", PD_BIND_TEXTS, PD_BIND_AT(thing, tags), .stride = 4, .is_optional = true},
  {"key", PD_BIND_BYTES, PD_BIND_AT(thing, key)},
  {"id", PD_BIND_ID, PD_BIND_AT(thing, id), .is_optional = true},
  {"small", PD_BIND_NUMBER, PD_BIND_AT(thing, small), .is_optional = true, .is_always = true},
  {"large", PD_BIND_NUMBER, PD_BIND_AT(thing, large), .is_optional = true},
  {"made_ms", PD_BIND_MS, PD_BIND_AT(thing, made_ms), .is_optional = true},
  {"seen_at", PD_BIND_TIME, PD_BIND_AT(thing, seen_ms), .is_optional = true},
  {"open", PD_BIND_BOOL, PD_BIND_AT(thing, is_open), .is_optional = true},
  {"colour", PD_BIND_NAME, PD_BIND_AT(thing, colour), .names = colours},
  {"any", PD_BIND_JSON, PD_BIND_AT(thing, any), .is_optional = true},
  {"text", PD_BIND_STRING, PD_BIND_AT(thing, text), .is_optional = true},
};

#define LEAST "{\"name\":\"n\",\"key\":\"AQID\",\"small\":0,\"colour\":\"green\"}"
#define MOST                                                                                                                               \
  "{\"name\":\"n\\\"\",\"tags\":[\"a\",\"bcd\"],\"key\":\"AQID\",\"id\":"                                                                  \
  "\"00000000000000000000000000000000000000000000000000000000000000ff\","                                                                  \
  "\"small\":4294967295,\"large\":18446744073709551615,\"made_ms\":7,\"seen_at\":\"2026-11-15T10:20:30.123Z\",\"open\":true,\"colour\":"   \
  "\"red\","                                                                                                                               \
  "\"any\":null,\"text\":\"t\"}"

static pd_code parse(const char *text, pd_bind_mode mode, thing *out, pd_error *err)
{
  return pd_bind_parse(pd_text(text), members, COUNT_OF(members), mode, out, err);
}

static void assert_round_trip(const char *text)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  thing it = {0};
  assert_int_equal(parse(text, PD_BIND_EXACT, &it, NULL), PD_OK);
  pd_bind_object(&w, members, COUNT_OF(members), &it);
  assert_int_equal(w.code, PD_OK);
  assert_int_equal(out.size, strlen(text));
  assert_memory_equal(out.data, text, out.size);
}

static void bind__what_is_read_is_written_again_byte_for_byte(void **state)
{
  (void)state;
  assert_round_trip(LEAST);
  assert_round_trip(MOST);
}

static void bind__values_are_where_the_table_says(void **state)
{
  (void)state;
  thing it = {0};
  assert_int_equal(parse(MOST, PD_BIND_EXACT, &it, NULL), PD_OK);
  assert_string_equal(it.name, "n\"");
  assert_string_equal(it.tags[1], "bcd");
  assert_memory_equal(it.key, "\1\2\3", 3);
  assert_int_equal(it.id.bytes[31], 0xff);
  assert_int_equal(it.small, UINT32_MAX);
  assert_true(it.large == UINT64_MAX);
  assert_true(it.made_ms == 7 && it.seen_ms == 1794738030123);
  assert_true(it.is_open);
  assert_int_equal(it.colour, RED);
  assert_int_equal(it.any.kind, PD_JSON_NULL);
  assert_true(pd_json_is(it.text, "t"));
}

static void bind__an_absent_or_null_member_leaves_the_struct_as_it_is(void **state)
{
  (void)state;
  thing it = {.large = 5, .made_ms = 6, .is_open = true};
  assert_int_equal(parse("{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"made_ms\":null}", PD_BIND_EXACT, &it, NULL), PD_OK);
  assert_true(it.large == 5 && it.made_ms == 6 && it.is_open);
}

static void bind__members_that_do_not_fit_are_refused_by_name(void **state)
{
  (void)state;
  static const struct {
    const char *json, *name;
  } bad[] = {
    {"{\"key\":\"AQID\",\"colour\":\"red\"}", "'name'"},
    {"{\"name\":null,\"key\":\"AQID\",\"colour\":\"red\"}", "'name'"},
    {"{\"name\":\"12345678\",\"key\":\"AQID\",\"colour\":\"red\"}", "'name'"},
    {"{\"name\":\"a\\u0000\",\"key\":\"AQID\",\"colour\":\"red\"}", "'name'"},
    {"{\"name\":\"\\ud800\",\"key\":\"AQID\",\"colour\":\"red\"}", "'name'"},
    {"{\"name\":7,\"key\":\"AQID\",\"colour\":\"red\"}", "'name'"},
    {"{\"name\":\"n\",\"key\":\"AQI=\",\"colour\":\"red\"}", "'key'"},
    {"{\"name\":\"n\",\"key\":\"AQIDBA==\",\"colour\":\"red\"}", "'key'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"blue\"}", "'colour'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":1}", "'colour'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"tags\":[\"a\",\"b\",\"c\"]}", "'tags'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"tags\":[\"abcd\"]}", "'tags'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"tags\":{}}", "'tags'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"id\":\"ff\"}", "'id'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"small\":4294967296}", "'small'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"large\":-1}", "'large'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"made_ms\":-1}", "'made_ms'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"seen_at\":\"2026-11-15\"}", "'seen_at'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"seen_at\":\"1794738030123\"}", "'seen_at'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"open\":1}", "'open'"},
    {"{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"text\":1}", "'text'"},
    {"[]", "object"},
    {"{", "JSON"},
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    thing it = {0};
    pd_error err = {0};
    assert_int_equal(parse(bad[i].json, PD_BIND_LOOSE, &it, &err), PD_INVALID);
    if (!strstr(err.message, bad[i].name)) fail_msg("%s: %s", bad[i].json, err.message);
  }
}

static void bind__exact_refuses_other_members_and_repeated_ones_and_loose_passes_over_them(void **state)
{
  (void)state;
  static const char *const odd[] = {
    "{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"more\":1}",
    "{\"name\":\"n\",\"key\":\"AQID\",\"colour\":\"red\",\"name\":\"m\"}",
  };
  for (size_t i = 0; i < COUNT_OF(odd); i++) {
    thing it = {0};
    assert_int_equal(parse(odd[i], PD_BIND_EXACT, &it, NULL), PD_INVALID);
    assert_int_equal(parse(odd[i], PD_BIND_LOOSE, &it, NULL), PD_OK);
    assert_string_equal(it.name, "n");
  }
}

/* ---- kept texts ---- */

typedef struct note {
  const char *title, *body;
  uint32_t count;
} note;

static const pd_bind note_members[] = {
  {"title", PD_BIND_KEPT, PD_BIND_AT(note, title)},
  {"body", PD_BIND_KEPT, PD_BIND_AT(note, body), .is_optional = true},
  {"count", PD_BIND_NUMBER, PD_BIND_AT(note, count), .is_optional = true},
};

static pd_code keep(const char *text, pd_bind_mode mode, note *out, pd_buf *texts)
{
  pd_json object;
  assert_int_equal(pd_json_parse(pd_text(text), &object, NULL), PD_OK);
  return pd_bind_keep(object, note_members, COUNT_OF(note_members), mode, out, texts, NULL);
}

static void bind__kept_texts_stay_where_they_are_and_are_written_again(void **state)
{
  (void)state;
  char title[201], text[400];
  CLEANUP(pd_buf_done) pd_buf texts = {0}, out = {0};
  pd_json_writer w = {.out = &out};
  note it = {0};
  memset(title, 't', 200); /* longer than a buffer is at first: the second text would move the first one */
  title[200] = 0;
  snprintf(text, sizeof text, "{\"title\":\"%s\",\"body\":\"a\\n\u00e9\"}", title);
  assert_int_equal(keep(text, PD_BIND_EXACT, &it, &texts), PD_OK);
  assert_string_equal(it.title, title);
  assert_string_equal(it.body, "a\n\u00e9");
  assert_ptr_equal(it.title, texts.data);
  assert_int_equal(texts.capacity, strlen(text)); /* room for all was made at once */
  pd_bind_object(&w, note_members, COUNT_OF(note_members), &it);
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text(text)));
}

static void bind__a_kept_text_that_is_absent_is_as_before_and_one_that_is_malformed_refused(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf texts = {0}, out = {0};
  pd_json_writer w = {.out = &out};
  note it = {.body = ""};
  static const char *const bad[] = {"{\"title\":1}", "{\"title\":\"a\\u0000b\"}", "{\"title\":\"\\ud800\"}", "{}"};
  assert_int_equal(keep("{\"title\":\"\"}", PD_BIND_EXACT, &it, &texts), PD_OK);
  assert_string_equal(it.title, "");
  assert_string_equal(it.body, "");
  pd_bind_object(&w, note_members, COUNT_OF(note_members), &it);
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text("{\"title\":\"\"}")));
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(keep(bad[i], PD_BIND_LOOSE, &it, &texts), PD_INVALID);
}

static void bind__strict_does_not_take_null_for_absent(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  note it = {.count = 5};
  assert_int_equal(keep("{\"title\":\"t\",\"count\":null}", PD_BIND_EXACT, &it, &texts), PD_OK);
  assert_int_equal(it.count, 5);
  assert_int_equal(keep("{\"title\":\"t\",\"count\":null}", PD_BIND_STRICT, &it, &texts), PD_INVALID);
  assert_int_equal(keep("{\"title\":\"t\",\"more\":1}", PD_BIND_STRICT, &it, &texts), PD_INVALID);
  assert_int_equal(keep("{\"title\":\"t\"}", PD_BIND_STRICT, &it, &texts), PD_OK);
}

static void bind__a_text_with_a_nul_leaves_the_buffer_as_it_was(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json value;
  assert_int_equal(pd_buf_append(&out, "x", 1, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_text("\"a\\u0000b\""), &value, NULL), PD_OK);
  assert_int_equal(pd_json_append_text(value, &out, NULL), PD_INVALID);
  assert_int_equal(out.size, 1);
  assert_int_equal(pd_json_parse(pd_text("\"ab\""), &value, NULL), PD_OK);
  assert_int_equal(pd_json_append_text(value, &out, NULL), PD_OK);
  assert_string_equal((char *)out.data, "xab");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bind__what_is_read_is_written_again_byte_for_byte),
    cmocka_unit_test(bind__values_are_where_the_table_says),
    cmocka_unit_test(bind__an_absent_or_null_member_leaves_the_struct_as_it_is),
    cmocka_unit_test(bind__members_that_do_not_fit_are_refused_by_name),
    cmocka_unit_test(bind__exact_refuses_other_members_and_repeated_ones_and_loose_passes_over_them),
    cmocka_unit_test(bind__kept_texts_stay_where_they_are_and_are_written_again),
    cmocka_unit_test(bind__a_kept_text_that_is_absent_is_as_before_and_one_that_is_malformed_refused),
    cmocka_unit_test(bind__strict_does_not_take_null_for_absent),
    cmocka_unit_test(bind__a_text_with_a_nul_leaves_the_buffer_as_it_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
