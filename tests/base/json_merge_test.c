/* json_merge_test.c: src/base/json_canon.c and json_merge.c: what JSON values mean, the order of numbers, three-way merges. */
#include "base/json_merge.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_json parsed(const char *text)
{
  pd_json out = {{NULL, 0}, PD_JSON_NONE};
  if (text) assert_int_equal(pd_json_parse(pd_text(text), &out, NULL), PD_OK);
  return out;
}

static void json_canonical__differs_only_if_the_meaning_does(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
    bool is_equal;
  } cases[] = {
    {"{\"a\":1,\"b\":2}", " { \"b\" : 2 , \"a\":1}", true},
    {"{\"\\u0061\":\"\\u00e9\"}", "{\"a\":\"\xc3\xa9\"}", true},
    {"[1,2]", "[2,1]", false},
    {"1", "1.0", false},
    {"1", "\"1\"", false},
    {"null", "false", false},
    {"{}", "[]", false},
    {"{\"a\":null}", "{}", false},
    {"[{\"x\":[{\"b\":1,\"a\":{}}]}]", "[{\"x\":[{\"a\":{},\"b\":1}]}]", true},
    {"\"\\ud800\"", "\"\\ud800\"", true},
    {"\"\\ud800\"", "\"\\ud801\"", false},
    {NULL, NULL, true},
    {NULL, "null", false},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    bool is_equal;
    assert_int_equal(pd_json_equal(parsed(cases[i].a), parsed(cases[i].b), &is_equal, NULL), PD_OK);
    if (is_equal != cases[i].is_equal) fail_msg("%s and %s", cases[i].a, cases[i].b);
  }
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_json_canonical(parsed("{ \"b\" : [ 1 , \"\\u0041\" ], \"a\" : { } }"), &out, NULL), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text("{\"a\":{},\"b\":[1,\"A\"]}")));
}

static void json_number__order_is_exact_at_any_length(void **state)
{
  (void)state;
  /* ascending; numbers of one line are equal */
  static const char *const lines[][4] = {
    {"-1e400", "-10e399"},
    {"-123456789012345678901234567890.5"},
    {"-123456789012345678901234567890"},
    {"-2", "-2.0", "-0.2e1", "-20e-1"},
    {"-0.001"},
    {"0", "-0", "0.000", "0e99999999999999999999"},
    {"1e-99999999999999999999"},
    {"0.0009"},
    {"0.001", "1e-3", "0.0010", "10E-4"},
    {"9.99"},
    {"10", "1e1", "1.0e+1", "0.01e3"},
    {"10.0000000000000000000000000000001"},
    {"123456789012345678901234567890"},
    {"123456789012345678901234567891"},
    {"1e99999999999999999999"},
  };
  for (size_t i = 0; i < COUNT_OF(lines); i++)
    for (size_t k = 0; k < COUNT_OF(lines); k++)
      for (size_t m = 0; m < 4 && lines[i][m]; m++)
        for (size_t n = 0; n < 4 && lines[k][n]; n++) {
          int order = pd_json_number_compare(parsed(lines[i][m]), parsed(lines[k][n]));
          if ((order > 0) - (order < 0) != (i > k) - (i < k)) fail_msg("%s and %s: %d", lines[i][m], lines[k][n], order);
        }
}

static void json_number__order_agrees_with_the_machine_on_random_numbers(void **state)
{
  (void)state;
  srand(3);
  for (int i = 0; i < 20000; i++) {
    char text[2][32];
    double value[2];
    for (int k = 0; k < 2; k++) {
      snprintf(text[k], sizeof text[k], rand() % 2 ? "%.*f" : "%.*e", rand() % 5, (rand() % 2001 - 1000) / 8.0);
      value[k] = strtod(text[k], NULL);
    }
    int order = pd_json_number_compare(parsed(text[0]), parsed(text[1]));
    if ((order > 0) - (order < 0) != (value[0] > value[1]) - (value[0] < value[1])) fail_msg("%s and %s: %d", text[0], text[1], order);
  }
}

typedef struct heard {
  char paths[256];
  const char *instead; /* what the result gets; NULL: the base's */
} heard;

static pd_code hear(void *ctx, pd_bytes path, const pd_json sides[PD_SIDE_COUNT], pd_json *chosen, pd_error *err)
{
  heard *h = ctx;
  (void)err;
  assert_int_equal(chosen->kind, sides[PD_SIDE_BASE].kind);
  size_t used = strlen(h->paths);
  snprintf(h->paths + used, sizeof h->paths - used, "[%.*s]", (int)path.size, (const char *)path.data);
  if (h->instead) *chosen = *h->instead ? parsed(h->instead) : (pd_json){0};
  return PD_OK;
}

static void merges(const char *base, const char *ours, const char *theirs, const char *instead, const char *paths, const char *expected)
{
  for (int way = 0; way < 2; way++) {
    CLEANUP(pd_buf_done) pd_buf out = {0};
    heard h = {.instead = instead};
    pd_json sides[PD_SIDE_COUNT] = {parsed(base), parsed(way ? theirs : ours), parsed(way ? ours : theirs)};
    assert_int_equal(pd_json_merge(sides, hear, &h, &out, NULL), PD_OK);
    assert_string_equal(h.paths, paths);
    if (!pd_bytes_equal(pd_buf_bytes(&out), pd_text(expected)))
      fail_msg("%s, %s, %s: %.*s", base, ours, theirs, (int)out.size, (const char *)out.data);
  }
}

static void json_merge__is_the_same_both_ways_and_tells_paths(void **state)
{
  (void)state;
  merges("{\"z\":1,\"a\":1}", "{\"z\":2,\"a\":1,\"q\":1}", "{\"a\":3,\"z\":1,\"b\":2}", NULL, "", "{\"z\":2,\"a\":3,\"b\":2,\"q\":1}");
  merges("{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}", "{\"a\":{\"b\":3}}", NULL, "[/a/b]", "{\"a\":{\"b\":1}}");
  merges("{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}", "{\"a\":{\"b\":3}}", "[ 9 ]", "[/a/b]", "{\"a\":{\"b\":[9]}}");
  merges("{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}", "{\"a\":{\"b\":3}}", "", "[/a/b]", "{\"a\":{}}");
  merges("{\"\":{\"/\":{\"~\":0}}}", "{\"\":{\"/\":{\"~\":1}}}", "{\"\":{\"/\":{}}}", NULL, "[//~1/~0]", "{\"\":{\"/\":{\"~\":0}}}");
  merges("{\"\\ud800\":0}", "{\"\\ud800\":1}", "{\"\\ud800\":2}", NULL, "[/\\ud800]", "{\"\\ud800\":0}");
  merges("[1]", "[1,2]", "[1,3]", NULL, "[]", "[1]");
  merges(NULL, "{\"a\":1}", "{\"a\":2}", NULL, "[/a]", "{}");
  merges(NULL, "1", "2", NULL, "[]", "");
  merges("1", "{\"a\":1}", "{\"b\":1}", NULL, "[]", "1"); /* no object before: a whole against a whole */
  merges("{\"a\":1,\"b\":1}", "{\"b\":1}", "{\"a\":1}", NULL, "", "{}");
  merges("{\"a\":{}}", "{}", "{\"a\":{\"n\":1}}", NULL, "[/a]", "{\"a\":{}}");
}

static void json_merge__of_many_members_is_not_quadratic(void **state)
{
  (void)state;
  enum { MEMBERS = 20000 }; /* a quadratic walk would take minutes */
  pd_buf texts[3] = {{0}};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json sides[PD_SIDE_COUNT];
  for (int side = 0; side < 3; side++) {
    for (int i = 0; i < MEMBERS; i++)
      assert_int_equal(pd_buf_printf(&texts[side], NULL, "%s\"m%d\":%d", i ? "," : "{", i, i % 3 == side ? side : 7), PD_OK);
    assert_int_equal(pd_buf_byte(&texts[side], '}', NULL), PD_OK);
    assert_int_equal(pd_json_parse(pd_buf_bytes(&texts[side]), &sides[side], NULL), PD_OK);
  }
  heard h = {.paths = ""};
  assert_int_equal(pd_json_merge(sides, hear, &h, &out, NULL), PD_OK);
  assert_string_equal(h.paths, "");
  assert_int_equal(pd_json_parse(pd_buf_bytes(&out), &sides[0], NULL), PD_OK);
  uint64_t n;
  assert_true(pd_json_u64(pd_json_member(sides[0], "m1"), &n) && n == 1);
  assert_true(pd_json_u64(pd_json_member(sides[0], "m2"), &n) && n == 2);
  for (int side = 0; side < 3; side++) pd_buf_done(&texts[side]);
}

/* {"b":[X,…],"a":{…}} `depth` deep, with `items` in the middle; or with its members the other way round. */
static void make_deep(pd_buf *out, unsigned depth, size_t items, bool is_turned)
{
  for (unsigned i = 0; i < depth; i++)
    assert_int_equal(pd_buf_printf(out, NULL, is_turned ? "{ \"b\" : [1,[]], \"a\" :" : "{\"a\":"), PD_OK);
  assert_int_equal(pd_buf_printf(out, NULL, "[\"]\\\"}\""), PD_OK);
  while (items--) assert_int_equal(pd_buf_printf(out, NULL, ",{\"y\":[1,2],\"x\":\"{[\"}"), PD_OK);
  assert_int_equal(pd_buf_printf(out, NULL, "]"), PD_OK);
  for (unsigned i = 0; i < depth; i++) assert_int_equal(pd_buf_printf(out, NULL, is_turned ? "}" : ",\"b\":[1,[]]}"), PD_OK);
}

static uint64_t canonical_of(const pd_buf *text, pd_buf *out)
{
  pd_json json;
  uint64_t passed;
  assert_int_equal(pd_json_parse(pd_buf_bytes(text), &json, NULL), PD_OK);
  assert_int_equal(pd_json_canonical_counted(json, out, &passed, NULL), PD_OK);
  return passed;
}

static void json_canonical__cost_does_not_grow_with_the_depth(void **state)
{
  (void)state;
  static const size_t counts[] = {0, 400, 10000};
  for (size_t i = 0; i < COUNT_OF(counts); i++)
    for (unsigned depth = 0; depth <= 120; depth += 40) {
      pd_buf one = {0}, turned = {0}, out_one = {0}, out_turned = {0};
      make_deep(&one, depth, counts[i], false);
      make_deep(&turned, depth, counts[i], true);
      uint64_t passed = canonical_of(&one, &out_one);
      if (one.size >= 5000) assert_in_range(passed, one.size, 3 * one.size); /* was: size times depth */
      canonical_of(&turned, &out_turned);
      assert_int_equal(out_one.size, out_turned.size);
      assert_memory_equal(out_one.data, out_turned.data, out_one.size);
      pd_buf_done(&one), pd_buf_done(&turned), pd_buf_done(&out_one), pd_buf_done(&out_turned);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(json_canonical__differs_only_if_the_meaning_does),
    cmocka_unit_test(json_canonical__cost_does_not_grow_with_the_depth),
    cmocka_unit_test(json_number__order_is_exact_at_any_length),
    cmocka_unit_test(json_number__order_agrees_with_the_machine_on_random_numbers),
    cmocka_unit_test(json_merge__is_the_same_both_ways_and_tells_paths),
    cmocka_unit_test(json_merge__of_many_members_is_not_quadratic),
  };
  return cmocka_run_group_tests_name("base/json_merge", tests, NULL, NULL);
}
