/* patch_test.c: src/thread/patch*.c: what each op does, what it touches, and what is refused whole. */
#include "thread/patched.h"

typedef struct change {
  const char *before, *patches, *after, *touched;
} change;

static void check_changes(const change *cases, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    pd_doc *doc = doc_of(cases[i].before);
    pd_error err;
    CLEANUP(pd_touched_done) pd_touched touched = {0};
    if (patched(doc, cases[i].patches, &touched, &err)) fail_msg("%s: %s", cases[i].patches, err.message);
    doc_is(doc, cases[i].after);
    touched_is(&touched, cases[i].touched);
    pd_doc_undo(doc, 0);
    doc_is(doc, cases[i].before);
    pd_doc_free(doc);
  }
}

#define CHECK_CHANGES(...)                                                                                                                 \
  do {                                                                                                                                     \
    static const change cases[] = {__VA_ARGS__};                                                                                           \
    check_changes(cases, COUNT_OF(cases));                                                                                                 \
  } while (0)

static void patch_set__creates_parents_and_touches_the_topmost_new_path(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"x\":1}", "[{\"op\":\"set\",\"path\":[\"x\"],\"value\":2}]", "{\"x\":2}", "/x"},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":[\"a\",\"b\",\"c\"],\"value\":[1]}]", "{\"a\":{\"b\":{\"c\":[1]}},\"x\":1}", "/a"},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":null}]", "{\"a\":{\"b\":null},\"x\":1}", "/a"},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":[\"a\",0,\"c\"],\"value\":7}]", "{\"a\":[{\"c\":7}],\"x\":1}", "/a"},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":\"/a/0\",\"value\":7}]", "{\"a\":{\"0\":7},\"x\":1}", "/a"},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":\"/a/-\",\"value\":7}]", "{\"a\":[7],\"x\":1}", "/a"},
                {"{\"a\":{}}", "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":7}]", "{\"a\":{\"b\":7}}", "/a"},
                {"{}", "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":7}]", "{\"a\":{\"b\":7}}", "."},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":[],\"value\":{\"y\":2}}]", "{\"y\":2}", "."},
                {"{\"x\":1}", "[{\"op\":\"set\",\"path\":\"\",\"value\":{}}]", "{}", "."});
}

static void patch_set__replaces_and_appends_items(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"a\":[1,2]}", "[{\"op\":\"set\",\"path\":[\"a\",1],\"value\":\"b\"}]", "{\"a\":[1,\"b\"]}", "/a/1"},
                {"{\"a\":[1,2]}", "[{\"op\":\"set\",\"path\":\"/a/1\",\"value\":\"b\"}]", "{\"a\":[1,\"b\"]}", "/a/1"},
                {"{\"a\":[1,2]}", "[{\"op\":\"set\",\"path\":[\"a\",2],\"value\":3}]", "{\"a\":[1,2,3]}", "/a/2"},
                {"{\"a\":[1,2]}", "[{\"op\":\"set\",\"path\":\"/a/-\",\"value\":3}]", "{\"a\":[1,2,3]}", "/a/2"},
                {"{\"a\":[]}", "[{\"op\":\"set\",\"path\":\"/a/-\",\"value\":3}]", "{\"a\":[3]}", "/a"});
}

static void patch_path__names_of_every_kind_can_be_reached(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"a/b\":{\"m~n\":1}}", "[{\"op\":\"set\",\"path\":\"/a~1b/m~0n\",\"value\":2}]", "{\"a/b\":{\"m~n\":2}}", "/a~1b/m~0n"},
                {"{\"\":{\"\":1}}", "[{\"op\":\"set\",\"path\":\"//\",\"value\":2}]", "{\"\":{\"\":2}}", "//"},
                {"{\"\":{\"\":1}}", "[{\"op\":\"set\",\"path\":[\"\",\"\"],\"value\":2}]", "{\"\":{\"\":2}}", "//"},
                {"{\"0\":{\"-\":1}}", "[{\"op\":\"set\",\"path\":\"/0/-\",\"value\":2}]", "{\"0\":{\"-\":2}}", "/0/-"},
                {"{\"\xc3\xa9\":1}", "[{\"op\":\"set\",\"path\":[\"\\u00e9\"],\"value\":2}]", "{\"\xc3\xa9\":2}", "/\xc3\xa9"},
                {"{\"a\\u0000b\":1,\"x\":1}", "[{\"op\":\"delete\",\"path\":[\"a\\u0000b\"]},{\"op\":\"delete\",\"path\":[\"a\"]}]",
                 "{\"x\":1}", "/a"}); /* the pointer has a NUL there */
}

static void patch_delete__of_what_is_absent_does_nothing(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"a\":1,\"b\":2}", "[{\"op\":\"delete\",\"path\":[\"a\"]}]", "{\"b\":2}", "/a"},
                {"{\"a\":1}", "[{\"op\":\"delete\",\"path\":[\"a\"]}]", "{}", "."},
                {"{\"x\":{\"a\":1}}", "[{\"op\":\"delete\",\"path\":\"/x/a\"}]", "{\"x\":{}}", "/x"},
                {"{\"a\":1}", "[{\"op\":\"delete\",\"path\":[\"b\"]}]", "{\"a\":1}", ""},
                {"{\"a\":1}", "[{\"op\":\"delete\",\"path\":[\"b\",\"c\",4]}]", "{\"a\":1}", ""},
                {"{\"a\":[1]}", "[{\"op\":\"delete\",\"path\":[\"a\",1]}]", "{\"a\":[1]}", ""},
                {"{\"a\":[1,2,3]}", "[{\"op\":\"delete\",\"path\":[\"a\",1]}]", "{\"a\":[1,3]}", "/a"},
                {"{\"a\":[1,2,3]}", "[{\"op\":\"delete\",\"path\":[\"a\",2]}]", "{\"a\":[1,2]}", "/a/2"},
                {"{\"a\":[1]}", "[{\"op\":\"delete\",\"path\":[\"a\",0]}]", "{\"a\":[]}", "/a"},
                {"{\"a\":1}", "[{\"op\":\"delete\",\"path\":[]}]", "{}", "."});
}

static void patch_append__makes_the_array_if_it_is_absent(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"a\":[1]}", "[{\"op\":\"append\",\"path\":[\"a\"],\"value\":[2]}]", "{\"a\":[1,[2]]}", "/a/1"},
                {"{\"a\":[]}", "[{\"op\":\"append\",\"path\":[\"a\"],\"value\":2}]", "{\"a\":[2]}", "/a"},
                {"{\"x\":0}", "[{\"op\":\"append\",\"path\":\"/a/b\",\"value\":2}]", "{\"a\":{\"b\":[2]},\"x\":0}", "/a"},
                {"{\"a\":[1]}", "[{\"op\":\"append\",\"path\":\"/a\",\"value\":2},{\"op\":\"append\",\"path\":\"/a\",\"value\":3}]",
                 "{\"a\":[1,2,3]}", "/a/1 /a/2"});
}

static void patch_merge_object__sets_each_member_and_keeps_the_others(void **state)
{
  (void)state;
  CHECK_CHANGES(
    {"{\"a\":{\"x\":1,\"y\":{\"z\":1}}}", "[{\"op\":\"merge_object\",\"path\":[\"a\"],\"value\":{\"y\":{},\"w\":null}}]",
     "{\"a\":{\"w\":null,\"x\":1,\"y\":{}}}", "/a/w /a/y"},
    {"{\"x\":1}", "[{\"op\":\"merge_object\",\"path\":\"/a/b\",\"value\":{\"c\":1}}]", "{\"a\":{\"b\":{\"c\":1}},\"x\":1}", "/a"},
    {"{\"x\":1}", "[{\"op\":\"merge_object\",\"path\":\"\",\"value\":{\"c\":1}}]", "{\"c\":1,\"x\":1}", "/c"},
    {"{\"a\":{}}", "[{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{\"c\":1,\"b\":2}}]", "{\"a\":{\"b\":2,\"c\":1}}", "/a"},
    {"{\"a\":{\"b\":1}}", "[{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{}}]", "{\"a\":{\"b\":1}}", ""});
}

static void patch_increment__is_exact_at_any_length(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"n\":1}", "[{\"op\":\"increment\",\"path\":[\"n\"]}]", "{\"n\":2}", "/n"},
                {"{\"n\":1}", "[{\"op\":\"decrement\",\"path\":[\"n\"],\"by\":3}]", "{\"n\":-2}", "/n"},
                {"{\"n\":9007199254740992}", "[{\"op\":\"increment\",\"path\":[\"n\"]}]", "{\"n\":9007199254740993}", "/n"},
                {"{\"n\":99999999999999999999999999999999}", "[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]",
                 "{\"n\":100000000000000000000000000000000}", "/n"},
                {"{\"n\":0.1}", "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":0.2}]", "{\"n\":0.3}", "/n"},
                {"{\"n\":1e3}", "[{\"op\":\"decrement\",\"path\":[\"n\"],\"by\":0.5}]", "{\"n\":999.5}", "/n"},
                {"{\"n\":0.5}", "[{\"op\":\"decrement\",\"path\":[\"n\"],\"by\":0.50}]", "{\"n\":0}", "/n"},
                {"{\"x\":1}", "[{\"op\":\"increment\",\"path\":[\"a\",\"n\"],\"by\":5}]", "{\"a\":{\"n\":5},\"x\":1}", "/a"},
                {"{\"x\":1}", "[{\"op\":\"decrement\",\"path\":[\"n\"]}]", "{\"n\":-1,\"x\":1}", "/n"});
}

static void patch_insert__and_remove_move_the_items_behind(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"a\":[1,3]}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"index\":1,\"value\":2}]", "{\"a\":[1,2,3]}", "/a"},
                {"{\"a\":[1,3]}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"index\":2,\"value\":4}]", "{\"a\":[1,3,4]}", "/a/2"},
                {"{\"a\":[]}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"index\":0,\"value\":4}]", "{\"a\":[4]}", "/a"},
                {"{\"a\":[1,2,3]}", "[{\"op\":\"remove\",\"path\":[\"a\"],\"index\":0}]", "{\"a\":[2,3]}", "/a"},
                {"{\"a\":[1,2,3]}", "[{\"op\":\"remove\",\"path\":[\"a\"],\"index\":2}]", "{\"a\":[1,2]}", "/a/2"},
                {"{\"a\":[1,{\"b\":2,\"c\":3},{\"b\":2,\"c\":3}]}", "[{\"op\":\"remove\",\"path\":\"/a\",\"value\":{\"c\":3,\"b\":2}}]",
                 "{\"a\":[1,{\"b\":2,\"c\":3}]}", "/a"},
                {"{\"a\":[1]}", "[{\"op\":\"remove\",\"path\":\"/a\",\"value\":2}]", "{\"a\":[1]}", ""},
                {"{\"a\":[1]}", "[{\"op\":\"remove\",\"path\":\"/b\",\"value\":2}]", "{\"a\":[1]}", ""});
}

static void patch_touched__is_minimal_over_the_whole_list(void **state)
{
  (void)state;
  CHECK_CHANGES({"{\"a\":{\"b\":1,\"c\":2}}",
                 "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":2},{\"op\":\"set\",\"path\":\"/a/b\",\"value\":{\"x\":1}},"
                 "{\"op\":\"set\",\"path\":\"/a/b/y\",\"value\":2},{\"op\":\"delete\",\"path\":\"/a/c\"}]",
                 "{\"a\":{\"b\":{\"x\":1,\"y\":2}}}", "/a/b /a/c"},
                {"{\"a\":{\"b\":1,\"c\":2},\"a-b\":1}",
                 "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":2},{\"op\":\"increment\",\"path\":\"/a-b\"},"
                 "{\"op\":\"set\",\"path\":\"/a\",\"value\":[]},{\"op\":\"append\",\"path\":\"/a\",\"value\":1}]",
                 "{\"a\":[1],\"a-b\":2}", "/a /a-b"});
}

/* ---- refusals ---- */

typedef struct refusal {
  const char *before, *patches;
  pd_code code;
  const char *message; /* a part of it */
} refusal;

static void refused(const refusal *r)
{
  pd_doc *doc = doc_of(r->before);
  pd_error err = {0};
  CLEANUP(pd_touched_done) pd_touched touched = {0};
  pd_code code = patched(doc, r->patches, &touched, &err);
  if (code != r->code || !strstr(err.message, r->message)) fail_msg("%s: %d '%s', not '%s'", r->patches, code, err.message, r->message);
  assert_int_equal(touched.count, 0);
  doc_is(doc, r->before);
  pd_doc_free(doc);
}

static void patch_list__one_bad_patch_refuses_all_and_is_named(void **state)
{
  (void)state;
  const refusal bad = {"{\"a\":[1],\"s\":\"x\"}",
                       "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":1},{\"op\":\"append\",\"path\":[\"a\"],\"value\":2},"
                       "{\"op\":\"delete\",\"path\":[\"a\",0]},{\"op\":\"increment\",\"path\":[\"s\"]}]",
                       PD_INVALID, "patch 4 (increment '/s'): a number is needed, and what is there is of the kind string"};
  refused(&bad);
}

static void patch_list__what_does_not_fit_the_state_is_refused(void **state)
{
  (void)state;
  static const refusal cases[] = {
    {"{\"s\":\"x\"}", "[{\"op\":\"set\",\"path\":[\"s\",\"b\"],\"value\":1}]", PD_INVALID, "'/s' is a string: there is no 'b' inside it"},
    {"{\"s\":null}", "[{\"op\":\"set\",\"path\":[\"s\",\"b\",\"c\"],\"value\":1}]", PD_INVALID, "patch 1 (set '/s/b/c'): '/s' is a null"},
    {"{\"s\":1}", "[{\"op\":\"delete\",\"path\":[\"s\",\"b\"]}]", PD_INVALID, "'/s' is a number"},
    {"{\"a\":[1]}", "[{\"op\":\"set\",\"path\":[\"a\",\"b\"],\"value\":1}]", PD_INVALID, "'/a' is an array: its items have indices"},
    {"{\"a\":[1]}", "[{\"op\":\"set\",\"path\":\"/a/01\",\"value\":1}]", PD_INVALID, "'/a' is an array"},
    {"{\"a\":{}}", "[{\"op\":\"set\",\"path\":[\"a\",0],\"value\":1}]", PD_INVALID, "'/a' is an object"},
    {"{\"a\":[1]}", "[{\"op\":\"set\",\"path\":[\"a\",2],\"value\":1}]", PD_INVALID, "index 2 is past the end of '/a', which has 1 items"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\",1],\"value\":1}]", PD_INVALID, "index 1 is past the end of '/a', which has 0 items"},
    {"{\"a\":[1]}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"index\":2,\"value\":1}]", PD_INVALID, "index 2 is past the end"},
    {"{\"a\":[1]}", "[{\"op\":\"remove\",\"path\":[\"a\"],\"index\":1}]", PD_INVALID, "index 1 is past the end"},
    {"{}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"index\":0,\"value\":1}]", PD_INVALID, "an array is needed, and nothing is there"},
    {"{}", "[{\"op\":\"remove\",\"path\":[\"a\"],\"index\":0}]", PD_INVALID, "nothing is there"},
    {"{\"a\":{}}", "[{\"op\":\"append\",\"path\":[\"a\"],\"value\":1}]", PD_INVALID,
     "an array is needed, and what is there is of the kind object"},
    {"{\"a\":[]}", "[{\"op\":\"merge_object\",\"path\":[\"a\"],\"value\":{}}]", PD_INVALID, "an object is needed"},
    {"{\"a\":null}", "[{\"op\":\"merge_object\",\"path\":[\"a\"],\"value\":{}}]", PD_INVALID, "of the kind null"},
    {"{\"a\":true}", "[{\"op\":\"increment\",\"path\":[\"a\"]}]", PD_INVALID, "of the kind bool"},
    {"{\"a\":\"1\"}", "[{\"op\":\"decrement\",\"path\":[\"a\"]}]", PD_INVALID, "of the kind string"},
    {"{}", "[{\"op\":\"increment\",\"path\":[]}]", PD_INVALID, "of the kind object"},
    {"{}", "[{\"op\":\"append\",\"path\":[],\"value\":1}]", PD_INVALID, "an array is needed"},
    {"{\"n\":1e400}", "[{\"op\":\"increment\",\"path\":[\"n\"]}]", PD_INVALID, "1e400 is out of range"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) refused(&cases[i]);
}

static void patch_list__what_is_no_patch_is_refused(void **state)
{
  (void)state;
  static const refusal cases[] = {
    {"{}", "{}", PD_INVALID, "patches are a list"},
    {"{}", "[1]", PD_INVALID, "patch 1:"},
    {"{}", "[{\"path\":[]}]", PD_INVALID, "patch 1: it has no 'op'"},
    {"{}", "[{\"op\":\"put\",\"path\":[]}]", PD_INVALID, "patch 1: unknown op \"put\": there are set, delete"},
    {"{}", "[{\"op\":\"set\",\"path\":[],\"value\":{}},{\"op\":\"set\",\"value\":1}]", PD_INVALID, "patch 2 (set): the path is missing"},
    {"{}", "[{\"op\":\"set\",\"path\":7,\"value\":1}]", PD_INVALID, "patch 1 (set): the path is number"},
    {"{}", "[{\"op\":\"set\",\"path\":\"a\",\"value\":1}]", PD_INVALID, "does not begin with a slash"},
    {"{}", "[{\"op\":\"set\",\"path\":\"/a~2\",\"value\":1}]", PD_INVALID, "'~'"},
    {"{}", "[{\"op\":\"set\",\"path\":\"/a~\",\"value\":1}]", PD_INVALID, "'~'"},
    {"{}", "[{\"op\":\"set\",\"path\":[-1],\"value\":1}]", PD_INVALID, "step 1 of the path"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\",1.5],\"value\":1}]", PD_INVALID, "step 2 of the path"},
    {"{}", "[{\"op\":\"set\",\"path\":[null],\"value\":1}]", PD_INVALID, "(null)"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"\\ud800\"],\"value\":1}]", PD_INVALID, "patch 1 (set)"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\",99999999999],\"value\":1}]", PD_LIMIT, "index 99999999999"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\"]}]", PD_INVALID, "patch 1 (set '/a'): it has no 'value'"},
    {"{}", "[{\"op\":\"set\",\"path\":[],\"value\":1}]", PD_INVALID, "the whole state is an object"},
    {"{}", "[{\"op\":\"delete\",\"path\":[\"a\"],\"value\":1}]", PD_INVALID, "it takes no 'value'"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":1,\"by\":1}]", PD_INVALID, "it takes no 'by'"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":1,\"extra\":1}]", PD_INVALID, "extra"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":1,\"value\":2}]", PD_INVALID, "value"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":{\"b\":1,\"\\u0062\":2}}]", PD_INVALID, "patch 1 (set '/a')"},
    {"{}", "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":{\"\\udc00\":2}}]", PD_INVALID, "patch 1 (set '/a')"},
    {"{}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"value\":1}]", PD_INVALID, "it has no 'index'"},
    {"{}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"value\":1,\"index\":-1}]", PD_INVALID, "'index' is a whole number"},
    {"{}", "[{\"op\":\"insert\",\"path\":[\"a\"],\"value\":1,\"index\":\"0\"}]", PD_INVALID, "'index' is a whole number"},
    {"{}", "[{\"op\":\"remove\",\"path\":[\"a\"]}]", PD_INVALID, "it has either 'index' or 'value'"},
    {"{}", "[{\"op\":\"remove\",\"path\":[\"a\"],\"index\":0,\"value\":1}]", PD_INVALID, "it has either 'index' or 'value'"},
    {"{}", "[{\"op\":\"merge_object\",\"path\":[\"a\"],\"value\":[]}]", PD_INVALID, "an object is needed"},
    {"{}", "[{\"op\":\"lattice_merge\",\"path\":[\"a\"],\"value\":1}]", PD_INVALID, "it has no 'lattice'"},
    {"{}", "[{\"op\":\"lattice_merge\",\"path\":[\"a\"],\"value\":1,\"lattice\":\"avg\"}]", PD_INVALID, "'lattice' is one of"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) refused(&cases[i]);
}

static void patch_increment__by_what_is_no_finite_number_is_refused(void **state)
{
  (void)state;
  static const char *const bys[] = {"\"NaN\"",
                                    "\"Infinity\"",
                                    "\"1\"",
                                    "null",
                                    "true",
                                    "[1]",
                                    "1e309",
                                    "-1e309",
                                    "1e99999999999999999999",
                                    "1e-401",
                                    "12e-400000000000000000000000"};
  for (size_t i = 0; i < COUNT_OF(bys); i++) {
    char patches[200];
    snprintf(patches, sizeof patches, "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":%s}]", bys[i]);
    refused(&(refusal){"{\"n\":1}", patches, PD_INVALID, "patch 1 (increment '/n')"});
  }
  char nines[400] = "{\"n\":", patches[500];
  memset(nines + 5, '9', 309);
  strcpy(nines + 5 + 309, "}");
  refused(&(refusal){nines, "[{\"op\":\"increment\",\"path\":[\"n\"]}]", PD_LIMIT, "more than 309 places"});
  snprintf(patches, sizeof patches, "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":1%0399d}]", 0);
  refused(&(refusal){"{\"n\":1}", patches, PD_INVALID, "out of range"});
}

/* ---- limits ---- */

static char *repeated(const char *head, const char *one, size_t count, const char *tail)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_buf_append(&out, head, strlen(head), NULL), PD_OK);
  for (size_t i = 0; i < count; i++) assert_int_equal(pd_buf_append(&out, one, strlen(one), NULL), PD_OK);
  assert_int_equal(pd_buf_append(&out, tail, strlen(tail) + 1, NULL), PD_OK);
  char *text = (char *)out.data;
  out.data = NULL;
  return text;
}

static void patch_limits__depth_counts_path_and_value(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf patches = {0};
  for (size_t steps = PD_DOC_DEPTH_MAX - 1; steps <= PD_DOC_DEPTH_MAX + 1; steps++) {
    for (int nested = 0; nested < 2; nested++) {
      char *path = repeated("[{\"op\":\"set\",\"path\":\"", "/a", steps, nested ? "\",\"value\":[]}]" : "\",\"value\":1}]");
      pd_doc *doc = doc_of("{}");
      pd_error err;
      bool fits = steps + (size_t)nested <= PD_DOC_DEPTH_MAX;
      assert_int_equal(patched(doc, path, NULL, &err), fits ? PD_OK : PD_LIMIT);
      if (!fits) doc_is(doc, "{}");
      pd_doc_free(doc);
      free(path);
    }
  }
  char *appended = repeated("[{\"op\":\"append\",\"path\":\"", "/a", PD_DOC_DEPTH_MAX - 1, "\",\"value\":1}]");
  char *too_deep = repeated("[{\"op\":\"append\",\"path\":\"", "/a", PD_DOC_DEPTH_MAX, "\",\"value\":1}]");
  pd_doc *doc = doc_of("{}");
  assert_int_equal(patched(doc, too_deep, NULL, NULL), PD_LIMIT);
  doc_is(doc, "{}");
  assert_int_equal(patched(doc, appended, NULL, NULL), PD_OK);
  pd_doc_free(doc);
  free(appended);
  free(too_deep);
}

static void patch_limits__size_of_the_state(void **state)
{
  (void)state;
  pd_doc *doc;
  pd_error err;
  assert_int_equal(pd_doc_new(parsed("{\"a\":\"12345\"}"), 13, &doc, &err), PD_OK);
  assert_int_equal(patched(doc, "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":\"123456\"}]", NULL, &err), PD_LIMIT);
  assert_non_null(strstr(err.message, "patch 1 (set '/a'): the JSON text would have 14 bytes; 13 are the limit"));
  assert_int_equal(patched(doc, "[{\"op\":\"set\",\"path\":[\"b\"],\"value\":0}]", NULL, &err), PD_LIMIT);
  assert_int_equal(patched(doc, "[{\"op\":\"delete\",\"path\":[\"a\"]},{\"op\":\"set\",\"path\":[\"b\"],\"value\":\"54321\"}]", NULL, &err),
                   PD_OK);
  doc_is(doc, "{\"b\":\"54321\"}");
  pd_doc_free(doc);
  assert_int_equal(pd_doc_new(parsed("{\"a\":\"12345\"}"), 12, &doc, &err), PD_LIMIT);
}

static void patch_limits__number_of_patches(void **state)
{
  (void)state;
  const char *one = "{\"op\":\"increment\",\"path\":[\"n\"]},", *last = "{\"op\":\"increment\",\"path\":[\"n\"]}]";
  char *most = repeated("[", one, PD_PATCHES_MAX - 1, last), *more = repeated("[", one, PD_PATCHES_MAX, last);
  pd_doc *doc = doc_of("{}");
  pd_error err;
  assert_int_equal(patched(doc, more, NULL, &err), PD_LIMIT);
  doc_is(doc, "{}");
  assert_int_equal(patched(doc, most, NULL, &err), PD_OK);
  doc_is(doc, "{\"n\":10000}");
  pd_doc_free(doc);
  free(most);
  free(more);
}

static void patches_write__is_canonical_and_parses_to_the_same(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_patches *list;
  assert_int_equal(pd_patches_parse(parsed("[ {\"path\" : \"/a\", \"value\": {\"z\":1, \"b\":2.50}, \"op\":\"set\"} ]"), &list, NULL),
                   PD_OK);
  assert_int_equal(pd_patches_count(list), 1);
  assert_int_equal(pd_patches_write(list, &out, NULL), PD_OK);
  pd_patches_free(list);
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text("[{\"op\":\"set\",\"path\":\"/a\",\"value\":{\"b\":2.50,\"z\":1}}]")));
  assert_int_equal(pd_patches_parse((pd_json){{NULL, 0}, PD_JSON_NONE}, &list, NULL), PD_OK);
  assert_int_equal(pd_patches_count(list), 0);
  pd_patches_free(list);
}

/* ---- conflicts ---- */

static pd_code note_conflict(void *ctx, const pd_patch_conflict *c, pd_error *err)
{
  char *notes = ctx, a[64], b[64];
  size_t used = strlen(notes);
  (void)err;
  snprintf(notes + used, 512 - used, "[%zu %s %s | %zu %s %s]", c->a_index, c->a_op,
           pd_doc_path_text(c->a_path->steps, c->a_path->count, a, sizeof a), c->b_index, c->b_op,
           pd_doc_path_text(c->b_path->steps, c->b_path->count, b, sizeof b));
  return PD_OK;
}

static void conflicts(const char *a, const char *b, const char *expected)
{
  char notes[512] = "", turned[512] = "";
  pd_patches *list_a, *list_b;
  assert_int_equal(pd_patches_parse(parsed(a), &list_a, NULL), PD_OK);
  assert_int_equal(pd_patches_parse(parsed(b), &list_b, NULL), PD_OK);
  assert_int_equal(pd_patches_conflicts(list_a, list_b, note_conflict, notes, NULL), PD_OK);
  assert_int_equal(pd_patches_conflicts(list_b, list_a, note_conflict, turned, NULL), PD_OK);
  assert_string_equal(notes, expected);
  assert_int_equal(*notes == 0, *turned == 0); /* whichever is asked first */
  pd_patches_free(list_a);
  pd_patches_free(list_b);
}

static void patch_conflicts__are_paths_that_are_equal_or_inside_each_other(void **state)
{
  (void)state;
  conflicts("[{\"op\":\"set\",\"path\":\"/a\",\"value\":1}]", "[{\"op\":\"set\",\"path\":\"/b\",\"value\":1}]", "");
  conflicts("[{\"op\":\"set\",\"path\":\"/a\",\"value\":1}]", "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":1}]", "[0 set /a | 0 set /a]");
  conflicts("[{\"op\":\"set\",\"path\":\"/a\",\"value\":1}]", "[{\"op\":\"delete\",\"path\":\"/ab\"}]", "");
  conflicts("[{\"op\":\"set\",\"path\":\"/x\",\"value\":1},{\"op\":\"delete\",\"path\":\"/a\"}]",
            "[{\"op\":\"increment\",\"path\":\"/a/b/c\"}]", "[1 delete /a | 0 increment /a/b/c]");
  conflicts("[{\"op\":\"increment\",\"path\":\"/n\"}]", "[{\"op\":\"increment\",\"path\":\"/n\"}]", "[0 increment /n | 0 increment /n]");
  conflicts("[{\"op\":\"set\",\"path\":\"\",\"value\":{}}]", "[{\"op\":\"set\",\"path\":\"/n\",\"value\":1}]", "[0 set  | 0 set /n]");
  conflicts("[{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{\"x\":1,\"y\":1}}]",
            "[{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{\"y\":2,\"z\":1}}]", "[0 merge_object /a/y | 0 merge_object /a/y]");
  conflicts("[{\"op\":\"set\",\"path\":\"/a-b\",\"value\":1},{\"op\":\"set\",\"path\":\"/a\",\"value\":1}]",
            "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":1}]", "[1 set /a | 0 set /a/b]");
  conflicts("[]", "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":1}]", "");
}

static void patch_conflicts__of_items_that_move_are_with_the_whole_array(void **state)
{
  (void)state;
  conflicts("[{\"op\":\"set\",\"path\":[\"a\",1],\"value\":1}]", "[{\"op\":\"set\",\"path\":[\"a\",2],\"value\":1}]", "");
  conflicts("[{\"op\":\"set\",\"path\":[\"a\",1],\"value\":1}]", "[{\"op\":\"set\",\"path\":\"/a/1\",\"value\":1}]",
            "[0 set /a/1 | 0 set /a/1]");
  conflicts("[{\"op\":\"insert\",\"path\":[\"a\"],\"index\":9,\"value\":1}]", "[{\"op\":\"set\",\"path\":[\"a\",2],\"value\":1}]",
            "[0 insert /a | 0 set /a/2]");
  conflicts("[{\"op\":\"delete\",\"path\":[\"a\",1]}]", "[{\"op\":\"set\",\"path\":[\"a\",2],\"value\":1}]", "[0 delete /a | 0 set /a/2]");
  conflicts("[{\"op\":\"append\",\"path\":[\"a\"],\"value\":1}]", "[{\"op\":\"append\",\"path\":\"/a\",\"value\":1}]",
            "[0 append /a | 0 append /a]");
  conflicts("[{\"op\":\"set\",\"path\":\"/a/-\",\"value\":1}]", "[{\"op\":\"set\",\"path\":\"/a/-\",\"value\":1}]",
            "[0 set /a | 0 set /a]");
}

static void patch_conflicts__merges_into_the_same_lattice_are_none(void **state)
{
  (void)state;
  const char *max = "[{\"op\":\"lattice_merge\",\"lattice\":\"max\",\"path\":\"/m\",\"value\":1}]";
  const char *min = "[{\"op\":\"lattice_merge\",\"lattice\":\"min\",\"path\":\"/m\",\"value\":1}]";
  conflicts(max, max, "");
  conflicts(max, min, "[0 lattice_merge /m | 0 lattice_merge /m]");
  conflicts(max, "[{\"op\":\"set\",\"path\":\"/m\",\"value\":1}]", "[0 lattice_merge /m | 0 set /m]");
  conflicts(max, "[{\"op\":\"lattice_merge\",\"lattice\":\"max\",\"path\":\"/m/x\",\"value\":1}]",
            "[0 lattice_merge /m | 0 lattice_merge /m/x]");
  conflicts(max, "[{\"op\":\"lattice_merge\",\"lattice\":\"max\",\"path\":\"/m\",\"value\":1},{\"op\":\"delete\",\"path\":\"/m\"}]",
            "[0 lattice_merge /m | 1 delete /m]");
}

static pd_code stop(void *ctx, const pd_patch_conflict *c, pd_error *err)
{
  (void)c, (void)err;
  ++*(int *)ctx;
  return PD_DENIED;
}

static void patch_conflicts__many_paths_are_quick_and_the_visitor_may_stop(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_patches *list;
  int calls = 0;
  for (int i = 0; i < PD_PATCHES_MAX; i++)
    assert_int_equal(pd_buf_printf(&text, NULL, "%c{\"op\":\"set\",\"path\":\"/a/%d\",\"value\":1}", i ? ',' : '[', i), PD_OK);
  assert_int_equal(pd_buf_append(&text, "]", 2, NULL), PD_OK);
  assert_int_equal(pd_patches_parse(parsed((const char *)text.data), &list, NULL), PD_OK);
  assert_int_equal(pd_patches_conflicts(list, list, stop, &calls, NULL), PD_DENIED);
  assert_int_equal(calls, 1);
  pd_patches_free(list);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(patch_set__creates_parents_and_touches_the_topmost_new_path),
    cmocka_unit_test(patch_set__replaces_and_appends_items),
    cmocka_unit_test(patch_path__names_of_every_kind_can_be_reached),
    cmocka_unit_test(patch_delete__of_what_is_absent_does_nothing),
    cmocka_unit_test(patch_append__makes_the_array_if_it_is_absent),
    cmocka_unit_test(patch_merge_object__sets_each_member_and_keeps_the_others),
    cmocka_unit_test(patch_increment__is_exact_at_any_length),
    cmocka_unit_test(patch_insert__and_remove_move_the_items_behind),
    cmocka_unit_test(patch_touched__is_minimal_over_the_whole_list),
    cmocka_unit_test(patch_list__one_bad_patch_refuses_all_and_is_named),
    cmocka_unit_test(patch_list__what_does_not_fit_the_state_is_refused),
    cmocka_unit_test(patch_list__what_is_no_patch_is_refused),
    cmocka_unit_test(patch_increment__by_what_is_no_finite_number_is_refused),
    cmocka_unit_test(patch_limits__depth_counts_path_and_value),
    cmocka_unit_test(patch_limits__size_of_the_state),
    cmocka_unit_test(patch_limits__number_of_patches),
    cmocka_unit_test(patches_write__is_canonical_and_parses_to_the_same),
    cmocka_unit_test(patch_conflicts__are_paths_that_are_equal_or_inside_each_other),
    cmocka_unit_test(patch_conflicts__of_items_that_move_are_with_the_whole_array),
    cmocka_unit_test(patch_conflicts__merges_into_the_same_lattice_are_none),
    cmocka_unit_test(patch_conflicts__many_paths_are_quick_and_the_visitor_may_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
