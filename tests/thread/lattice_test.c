/* lattice_test.c: src/thread/lattice*.c: joins of every lattice, alone, in any order, and as what they stand for. */
#include "thread/lattice.h"

#include "thread/patched.h"

static char *merge_text(const char *lattice, const char *value)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(
    pd_buf_printf(&out, NULL, "[{\"op\":\"lattice_merge\",\"path\":\"/m\",\"lattice\":\"%s\",\"value\":%s}]", lattice, value), PD_OK);
  char *text = (char *)out.data; /* pd_buf_printf leaves a NUL behind it */
  out.data = NULL;
  return text;
}

static pd_code merge_into(pd_doc *doc, const char *lattice, const char *value, pd_touched *touched, pd_error *err)
{
  char *patches = merge_text(lattice, value);
  pd_code code = patched(doc, patches, touched, err);
  free(patches);
  return code;
}

/* ---- each by itself ---- */

typedef struct joined {
  const char *lattice, *before, *value, *after, *touched;
} joined;

static void lattice_join__of_each_kind(void **state)
{
  (void)state;
  static const joined cases[] = {
    {"flag", "{\"x\":1}", "false", "{\"m\":false,\"x\":1}", "/m"},
    {"flag", "{\"m\":false}", "true", "{\"m\":true}", "/m"},
    {"flag", "{\"m\":true}", "false", "{\"m\":true}", ""},
    {"max", "{\"m\":3}", "12", "{\"m\":12}", "/m"},
    {"max", "{\"m\":12}", "3e0", "{\"m\":12}", ""},
    {"max", "{\"m\":9007199254740992}", "9007199254740993", "{\"m\":9007199254740993}", "/m"},
    {"max", "{\"m\":\"2026-01\"}", "\"2026-02\"", "{\"m\":\"2026-02\"}", "/m"},
    {"max", "{\"m\":1}", "1.0", "{\"m\":1.0}", "/m"},
    {"max", "{\"m\":1.0}", "1", "{\"m\":1.0}", ""},
    {"min", "{\"m\":3}", "-0.5", "{\"m\":-0.5}", "/m"},
    {"min", "{\"m\":3}", "4", "{\"m\":3}", ""},
    {"counter", "{\"x\":1}", "{\"a\":3}", "{\"m\":{\"$counter\":{\"a\":3}},\"x\":1}", "/m"},
    {"counter", "{\"m\":{\"$counter\":{\"a\":3}}}", "{\"a\":2,\"b\":7}", "{\"m\":{\"$counter\":{\"a\":3,\"b\":7}}}", "/m/$counter/b"},
    {"counter", "{\"m\":{\"$counter\":{\"a\":3}}}", "{\"$counter\":{\"a\":4}}", "{\"m\":{\"$counter\":{\"a\":4}}}", "/m/$counter/a"},
    {"counter", "{\"m\":{\"$counter\":{}}}", "{\"$counter\":4}", "{\"m\":{\"$counter\":{\"$counter\":4}}}", "/m/$counter"},
    {"set", "{\"x\":1}", "[\"b\",{\"z\":1,\"a\":2},\"b\"]",
     "{\"m\":{\"$set\":{\"\\\"b\\\"\":true,\"{\\\"a\\\":2,\\\"z\\\":1}\":true}},\"x\":1}", "/m"},
    {"set", "{\"m\":{\"$set\":{\"1\":true}}}", "[1]", "{\"m\":{\"$set\":{\"1\":true}}}", ""},
    {"set", "{\"m\":{\"$set\":{\"1\":true}}}", "{\"$set\":{\"2\":true}}", "{\"m\":{\"$set\":{\"1\":true,\"2\":true}}}", "/m/$set/2"},
    {"or_set", "{\"x\":1}", "[{\"item\":1,\"tag\":\"a1\"}]", "{\"m\":{\"$or_set\":{\"1\":{\"a1\":true}}},\"x\":1}", "/m"},
    {"or_set", "{\"m\":{\"$or_set\":{\"1\":{\"a1\":true}}}}", "[{\"item\":1,\"tag\":\"a1\",\"removed\":true}]",
     "{\"m\":{\"$or_set\":{\"1\":{\"a1\":false}}}}", "/m/$or_set/1/a1"},
    {"or_set", "{\"m\":{\"$or_set\":{\"1\":{\"a1\":false}}}}", "[{\"item\":1,\"tag\":\"a1\"}]",
     "{\"m\":{\"$or_set\":{\"1\":{\"a1\":false}}}}", ""},
    {"or_set", "{\"m\":{\"$or_set\":{\"1\":{\"a1\":false}}}}", "[{\"item\":1,\"tag\":\"b1\"}]",
     "{\"m\":{\"$or_set\":{\"1\":{\"a1\":false,\"b1\":true}}}}", "/m/$or_set/1/b1"},
    {"or_map", "{\"x\":1}", "[{\"key\":\"k\",\"tag\":\"a1\",\"value\":{\"b\":1,\"a\":2}}]",
     "{\"m\":{\"$or_map\":{\"k\":{\"a1\":[{\"a\":2,\"b\":1}]}}},\"x\":1}", "/m"},
    {"or_map", "{\"m\":{\"$or_map\":{\"k\":{\"a1\":[1]}}}}",
     "[{\"key\":\"k\",\"tag\":\"a1\",\"removed\":true},{\"key\":\"k\",\"tag\":\"a2\",\"value\":2}]",
     "{\"m\":{\"$or_map\":{\"k\":{\"a1\":false,\"a2\":[2]}}}}", "/m/$or_map/k/a1 /m/$or_map/k/a2"},
    {"or_map", "{\"m\":{\"$or_map\":{\"k\":{\"a1\":[2]}}}}", "[{\"key\":\"k\",\"tag\":\"a1\",\"value\":1}]",
     "{\"m\":{\"$or_map\":{\"k\":{\"a1\":[2]}}}}", ""},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    pd_doc *doc = doc_of(cases[i].before);
    pd_error err;
    CLEANUP(pd_touched_done) pd_touched touched = {0};
    if (merge_into(doc, cases[i].lattice, cases[i].value, &touched, &err)) fail_msg("%s: %s", cases[i].value, err.message);
    doc_is(doc, cases[i].after);
    touched_is(&touched, cases[i].touched);
    pd_doc_free(doc);
  }
}

static void lattice_join__what_is_no_value_of_the_lattice_is_refused(void **state)
{
  (void)state;
  static const struct {
    const char *lattice, *before, *value, *message;
  } cases[] = {
    {"flag", "{}", "1", "true or false is needed"},
    {"flag", "{\"m\":1}", "true", "what is there is of the kind number"},
    {"max", "{}", "true", "a number or a string is needed"},
    {"max", "{}", "1e999", "out of range"},
    {"max", "{\"m\":\"a\"}", "1", "what is there is of the kind string"},
    {"min", "{\"m\":{}}", "1", "what is there is of the kind object"},
    {"counter", "{}", "3", "an object of counts by replica"},
    {"counter", "{}", "{\"a\":-1}", "a replica's count is a whole number from 0"},
    {"counter", "{}", "{\"a\":1.5}", "a replica's count is a whole number from 0"},
    {"counter", "{}", "{\"\":1}", "replicas and tags have 1 to 256 bytes"},
    {"counter", "{\"m\":3}", "{\"a\":1}", "not the state of a counter"},
    {"counter", "{\"m\":{\"$set\":{}}}", "{\"a\":1}", "not the state of a counter"},
    {"counter", "{\"m\":{\"$counter\":{},\"more\":1}}", "{\"a\":1}", "not the state of a counter"},
    {"counter", "{\"m\":{\"$counter\":{\"a\":\"x\"}}}", "{\"a\":1}", "is no count"},
    {"set", "{}", "\"a\"", "a list, or a whole state"},
    {"set", "{}", "{\"$set\":{\"a\":true}}", "an item's name is no JSON"},
    {"set", "{}", "{\"$set\":{\"[1, 2]\":true}}", "not its canonical JSON"},
    {"set", "{}", "{\"$set\":{\"1\":false}}", "the state of an item is true"},
    {"set", "{}", "{\"$set\":{},\"x\":1}", "a list, or a whole state"},
    {"or_set", "{}", "[{\"item\":1}]", "'item' and 'tag'"},
    {"or_set", "{}", "[{\"tag\":\"a\"}]", "'item' and 'tag'"},
    {"or_set", "{}", "[{\"item\":1,\"tag\":7}]", "a tag is a string"},
    {"or_set", "{}", "[{\"item\":1,\"tag\":\"a\",\"value\":1}]", "value"},
    {"or_set", "{}", "[{\"item\":1,\"tag\":\"a\",\"removed\":false}]", "'removed' is true or absent"},
    {"or_set", "{}", "{\"$or_set\":{\"1\":true}}", "under an item or key are its tags"},
    {"or_set", "{}", "{\"$or_set\":{\"1\":{\"a\":1}}}", "the state of a tag is true or false"},
    {"or_set", "{\"m\":{\"$or_set\":{\"1\":7}}}", "[{\"item\":1,\"tag\":\"a\"}]", "are no tags"},
    {"or_map", "{}", "[{\"key\":1,\"tag\":\"a\",\"value\":1}]", "a key is a string"},
    {"or_map", "{}", "[{\"key\":\"k\",\"tag\":\"a\"}]", "either 'value' or 'removed'"},
    {"or_map", "{}", "[{\"key\":\"k\",\"tag\":\"a\",\"value\":1,\"removed\":true}]", "either 'value' or 'removed'"},
    {"or_map", "{}", "{\"$or_map\":{\"k\":{\"a\":[1,2]}}}", "[value] or false"},
    {"or_map", "{}", "{\"$or_map\":{\"k\":{\"a\":true}}}", "[value] or false"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    pd_doc *doc = doc_of(cases[i].before);
    pd_error err = {0};
    pd_code code = merge_into(doc, cases[i].lattice, cases[i].value, NULL, &err);
    if (code != PD_INVALID || !strstr(err.message, cases[i].message) || !strstr(err.message, "patch 1 (lattice_merge '/m')"))
      fail_msg("%s %s: %d %s", cases[i].lattice, cases[i].value, code, err.message);
    doc_is(doc, cases[i].before);
    pd_doc_free(doc);
  }
}

static void lattice_view__shows_what_the_states_stand_for(void **state)
{
  (void)state;
  static const struct {
    const char *state, *view;
  } cases[] = {
    {"{\"a\":{\"$counter\":{\"x\":9007199254740993,\"y\":2}},\"b\":[1,{\"$set\":{\"\\\"p\\\"\":true,\"7\":true}}]}",
     "{\"a\":9007199254740995,\"b\":[1,[\"p\",7]]}"},
    {"{\"a\":{\"$or_set\":{\"1\":{\"t\":true,\"u\":false},\"2\":{\"t\":false},\"3\":{}}}}", "{\"a\":[1]}"},
    {"{\"a\":{\"$or_map\":{\"k\":{\"t1\":[1],\"t2\":[{\"$counter\":{\"r\":5}}],\"t3\":false},\"gone\":{\"t\":false}}}}",
     "{\"a\":{\"k\":5}}"},
    {"{\"a\":{\"$counter\":{\"x\":\"no\"}}}", "{\"a\":{\"$counter\":{\"x\":\"no\"}}}"},
    {"{\"a\":{\"$counter\":{},\"b\":1}}", "{\"a\":{\"$counter\":{},\"b\":1}}"},
    {"{\"a\":{\"$set\":{\"no json\":true}}}", "{\"a\":{\"$set\":{\"no json\":true}}}"},
    {"{\"a\":{\"$counter\":{}}}", "{\"a\":0}"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    CLEANUP(pd_buf_done) pd_buf out = {0};
    pd_doc *doc = doc_of(cases[i].state);
    assert_int_equal(pd_lattice_view(pd_doc_root(doc), &out, NULL), PD_OK);
    assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
    assert_string_equal((const char *)out.data, cases[i].view);
    pd_doc_free(doc);
  }
}

/* ---- properties ---- */

#define MERGES_MAX 12

static int below(int n)
{
  return rand() % n;
}

static const char *random_number(void)
{
  static const char *const numbers[] = {"0",   "-0",  "1",  "1.0", "10e-1", "2", "-3", "9007199254740993", "9007199254740992",
                                        "0.1", "1e2", "100"};
  return numbers[below((int)COUNT_OF(numbers))];
}

static void random_tagged(pd_buf *out, bool is_map, int i)
{
  static const char *const items[] = {"1", "\"a\"", "{\"y\":1, \"x\":[]}", "null"};
  const char *sep = i ? "," : "";
  int item = below(4), tag = below(3);
  pd_code code;
  bool is_removed = below(3) == 0;
  if (!is_map)
    code = pd_buf_printf(out, NULL, "%s{\"item\":%s,\"tag\":\"t%d\"%s}", sep, items[item], tag, is_removed ? ",\"removed\":true" : "");
  else if (is_removed)
    code = pd_buf_printf(out, NULL, "%s{\"key\":\"k%d\",\"tag\":\"t%d\",\"removed\":true}", sep, item, tag);
  else
    code = pd_buf_printf(out, NULL, "%s{\"key\":\"k%d\",\"tag\":\"t%d\",\"value\":%s}", sep, item, tag, random_number());
  assert_int_equal(code, PD_OK);
}

/* A value to merge, at random. Free it. */
static char *random_value(pd_lattice lattice)
{
  pd_buf out = {0};
  int count = below(4);
  pd_code code = PD_OK;
  switch (lattice) {
  case PD_LATTICE_FLAG: code = pd_buf_printf(&out, NULL, "%s", below(3) ? "false" : "true"); break;
  case PD_LATTICE_MAX:
  case PD_LATTICE_MIN: code = pd_buf_printf(&out, NULL, "%s", random_number()); break;
  case PD_LATTICE_COUNTER: code = pd_buf_printf(&out, NULL, "{\"r%d\":%d,\"s%d\":%d}", below(3), below(100), below(3), below(9)); break;
  case PD_LATTICE_SET: code = pd_buf_printf(&out, NULL, "[%s, %d,\"x%d\"]", random_number(), below(4), below(3)); break;
  default:
    code = pd_buf_byte(&out, '[', NULL);
    for (int i = 0; i < count; i++) random_tagged(&out, lattice == PD_LATTICE_OR_MAP, i);
    code = code ? code : pd_buf_printf(&out, NULL, "]");
  }
  assert_int_equal(code, PD_OK);
  return (char *)out.data;
}

static void merge_all(pd_doc *doc, pd_lattice lattice, char *const *values, const int *order, int count)
{
  pd_error err;
  for (int i = 0; i < count; i++)
    if (merge_into(doc, pd_lattice_name(lattice), values[order[i]], NULL, &err)) fail_msg("%s: %s", values[order[i]], err.message);
}

static void shuffle(int *order, int count)
{
  for (int i = count - 1; i > 0; i--) {
    int k = below(i + 1), swap = order[i];
    order[i] = order[k];
    order[k] = swap;
  }
}

static void agree(const pd_doc *a, const pd_doc *b, unsigned seed)
{
  char *text_a = text_of(a), *text_b = text_of(b);
  if (strcmp(text_a, text_b) != 0) fail_msg("seed %u: %s and %s", seed, text_a, text_b);
  free(text_a);
  free(text_b);
}

/* Split the merges between two replicas that overlap, then merge the second's whole state into the first. */
static pd_doc *by_two_replicas(pd_lattice lattice, char *const *values, const int *order, int count)
{
  pd_doc *a = doc_of("{}"), *b = doc_of("{}");
  int half = below(count + 1), overlap = below(count - half + 1);
  CLEANUP(pd_buf_done) pd_buf whole = {0};
  merge_all(a, lattice, values, order, half + overlap);
  merge_all(b, lattice, values, order + half, count - half);
  pd_node *state = pd_node_member(pd_doc_root(b), pd_text("m"));
  if (state) {
    assert_int_equal(pd_node_write(state, &whole, NULL), PD_OK);
    assert_int_equal(pd_buf_byte(&whole, 0, NULL), PD_OK);
    assert_int_equal(merge_into(a, pd_lattice_name(lattice), (const char *)whole.data, NULL, NULL), PD_OK);
  }
  pd_doc_free(b);
  return a;
}

static void check_orders(pd_lattice lattice, unsigned seed)
{
  srand(seed);
  char *values[MERGES_MAX];
  int order[2 * MERGES_MAX], count = 1 + below(MERGES_MAX);
  for (int i = 0; i < count; i++) values[i] = random_value(lattice), order[i] = i;
  pd_doc *first = doc_of("{}");
  merge_all(first, lattice, values, order, count);
  for (int round = 0; round < 8; round++) {
    int repeated = below(count + 1); /* idempotent: some come twice */
    for (int i = 0; i < repeated; i++) order[count + i] = below(count);
    for (int i = 0; i < count; i++) order[i] = i;
    shuffle(order, count + repeated);
    pd_doc *again = doc_of("{}");
    merge_all(again, lattice, values, order, count + repeated);
    agree(first, again, seed);
    pd_doc_free(again);
    again = by_two_replicas(lattice, values, order, count + repeated);
    agree(first, again, seed);
    pd_doc_free(again);
  }
  pd_doc_free(first);
  for (int i = 0; i < count; i++) free(values[i]);
}

static void lattice_merges__commute_associate_and_are_idempotent_in_random_orders(void **state)
{
  (void)state;
  for (int lattice = PD_LATTICE_NONE + 1; lattice < PD_LATTICE_COUNT; lattice++)
    for (unsigned seed = 1; seed <= 200; seed++) check_orders((pd_lattice)lattice, seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lattice_join__of_each_kind),
    cmocka_unit_test(lattice_join__what_is_no_value_of_the_lattice_is_refused),
    cmocka_unit_test(lattice_view__shows_what_the_states_stand_for),
    cmocka_unit_test(lattice_merges__commute_associate_and_are_idempotent_in_random_orders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
