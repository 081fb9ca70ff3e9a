/* doc_test.c: src/base/doc*.c and json_number.c: docs read, edited and taken back; paths; sums. */
#include "base/doc.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/doc_node.h"
#include "base/json_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_json parsed(const char *text)
{
  pd_json out;
  pd_error err;
  if (pd_json_parse(pd_text(text), &out, &err)) fail_msg("%s: %s", text, err.message);
  return out;
}

static pd_doc *doc_of(const char *text)
{
  pd_doc *doc;
  assert_int_equal(pd_doc_new(parsed(text), 0, &doc, NULL), PD_OK);
  return doc;
}

static void doc_is(const pd_doc *doc, const char *expected)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_doc_write(doc, &out, NULL), PD_OK);
  assert_int_equal(out.size, pd_doc_size(doc));
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  assert_string_equal((const char *)out.data, expected);
}

static void doc__writes_the_canonical_text(void **state)
{
  (void)state;
  static const char *const texts[] = {
    "{}",
    "[]",
    "1e5",
    "\"\\u0041\\n\\u007f\"",
    "{ \"b\" : [ 1 , 2.50, {} ], \"a\" : null, \"\\u0000\":\"\\ud800\" }",
    "{\"\xc3\xa9\":1,\"z\":2,\"\\\"q\\\\\":[[[]]],\"tab\\t\":true}",
  };
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    CLEANUP(pd_buf_done) pd_buf expected = {0};
    pd_doc *doc = doc_of(texts[i]);
    assert_int_equal(pd_json_canonical(parsed(texts[i]), &expected, NULL), PD_OK);
    assert_int_equal(pd_buf_byte(&expected, 0, NULL), PD_OK);
    doc_is(doc, (const char *)expected.data);
    pd_doc_free(doc);
  }
  pd_doc *empty;
  assert_int_equal(pd_doc_new((pd_json){{NULL, 0}, PD_JSON_NONE}, 0, &empty, NULL), PD_OK);
  doc_is(empty, "{}");
  pd_doc_free(empty);
}

static void doc__refuses_names_that_are_there_twice_or_have_no_decoded_form(void **state)
{
  (void)state;
  pd_doc *doc = NULL;
  pd_error err;
  assert_int_equal(pd_doc_new(parsed("[{\"a\":1,\"b\":2,\"\\u0061\":3}]"), 0, &doc, &err), PD_INVALID);
  assert_string_equal(err.message, "member \"\\u0061\" is there twice");
  assert_int_equal(pd_doc_new(parsed("{\"\\udead\":3}"), 0, &doc, &err), PD_INVALID);
  assert_null(doc);
}

static void doc__depth_and_name_sizes_have_limits(void **state)
{
  (void)state;
  char deep[2 * PD_DOC_DEPTH_MAX + 3];
  pd_doc *doc = NULL;
  for (size_t depth = PD_DOC_DEPTH_MAX; depth <= PD_DOC_DEPTH_MAX + 1; depth++) {
    memset(deep, '[', depth);
    memset(deep + depth, ']', depth);
    deep[2 * depth] = 0;
    assert_int_equal(pd_doc_new(parsed(deep), 0, &doc, NULL), depth == PD_DOC_DEPTH_MAX ? PD_OK : PD_LIMIT);
    if (depth == PD_DOC_DEPTH_MAX) pd_doc_free(doc);
  }
  char *name = malloc(PD_DOC_NAME_SIZE_MAX + 1);
  memset(name, 'n', PD_DOC_NAME_SIZE_MAX + 1);
  doc = doc_of("{}");
  pd_node *root = pd_doc_root(doc);
  assert_int_equal(pd_doc_member_set(doc, root, 0, (pd_bytes){name, PD_DOC_NAME_SIZE_MAX}, parsed("1"), NULL, NULL), PD_OK);
  assert_int_equal(pd_doc_member_set(doc, root, 0, (pd_bytes){name, PD_DOC_NAME_SIZE_MAX + 1}, parsed("1"), NULL, NULL), PD_LIMIT);
  pd_doc_free(doc);
  free(name);
}

static void doc__is_read_by_name_index_and_path(void **state)
{
  (void)state;
  pd_doc *doc = doc_of("{\"todos\":[{\"title\":\"a\"},{\"title\":\"b\"}],\"0\":{\"1\":5}}");
  static const struct {
    const char *pointer, *text;
  } cases[] = {{"/todos/1/title", "\"b\""}, {"/0/1", "5"}, {"/todos/2", NULL}, {"/todos/-", NULL}, {"/todos/x", NULL}, {"/0/1/2", NULL}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
    assert_int_equal(pd_doc_path_pointer(pd_text(cases[i].pointer), &path, NULL), PD_OK);
    pd_node *node = pd_doc_find(doc, path.steps, path.count);
    assert_int_equal(node != NULL, cases[i].text != NULL);
    if (node) assert_true(pd_bytes_equal(pd_node_leaf(node).raw, pd_text(cases[i].text)));
  }
  assert_null(pd_node_item(pd_doc_root(doc), 0));
  assert_null(pd_node_member(pd_node_member(pd_doc_root(doc), pd_text("todos")), pd_text("0")));
  pd_doc_free(doc);
}

static void doc_path__is_written_as_it_was_read(void **state)
{
  (void)state;
  static const char *const pointers[] = {"", "/", "//", "/a~1b~0c/0/-", "/\xc3\xa9"};
  for (size_t i = 0; i < COUNT_OF(pointers); i++) {
    CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
    CLEANUP(pd_buf_done) pd_buf out = {0};
    assert_int_equal(pd_doc_path_pointer(pd_text(pointers[i]), &path, NULL), PD_OK);
    assert_int_equal(pd_doc_path_write(path.steps, path.count, &out, NULL), PD_OK);
    assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text(pointers[i])));
  }
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  assert_int_equal(pd_doc_path_parse(parsed("[\"a\",3,\"\\n\"]"), &path, NULL), PD_OK);
  pd_doc_path_json(path.steps, path.count, &w);
  assert_true(pd_bytes_equal(pd_buf_bytes(&out), pd_text("[\"a\",3,\"\\n\"]")));
  char text[8];
  assert_string_equal(pd_doc_path_text(path.steps, path.count, text, sizeof text), "/a/3/?");
  assert_string_equal(pd_doc_path_text(path.steps, path.count, text, 6), "/a...");
  assert_int_equal(pd_doc_path_pointer((pd_bytes){"/\xff", 2}, &path, NULL), PD_INVALID);
}

/* ---- trees ---- */

static unsigned checked_height(const pd_node *node, const pd_node *low, const pd_node *high)
{
  if (!node) return 0;
  if (low) assert_true(pd_bytes_compare(pd_node_name(low), pd_node_name(node)) < 0);
  if (high) assert_true(pd_bytes_compare(pd_node_name(node), pd_node_name(high)) < 0);
  unsigned left = checked_height(node->left, low, node), right = checked_height(node->right, node, high);
  assert_true(left <= right + 1 && right <= left + 1);
  assert_int_equal(node->height, (left > right ? left : right) + 1);
  return node->height;
}

static unsigned scattered(unsigned i, int way, unsigned count)
{
  return way == 0 ? i : way == 1 ? count - 1 - i : (unsigned)((i * 2654435761ull) % count); /* count is odd and no multiple of it */
}

static void doc__a_hundred_thousand_members_stay_balanced_in_any_order(void **state)
{
  (void)state;
  const unsigned count = 100003; /* a prime */
  for (int way = 0; way < 3; way++) {
    pd_doc *doc = doc_of("{}");
    pd_node *root = pd_doc_root(doc);
    char name[16];
    for (unsigned i = 0; i < count; i++) {
      snprintf(name, sizeof name, "k%06u", scattered(i, way, count));
      assert_int_equal(pd_doc_member_set(doc, root, 0, pd_text(name), parsed("1"), NULL, NULL), PD_OK);
    }
    assert_int_equal(pd_node_count(root), count);
    assert_int_equal(pd_doc_size(doc), 2 + (size_t)count * 12 - 1);
    assert_in_range(checked_height(root->members, NULL, NULL), 17, 24);
    size_t mark = pd_doc_mark(doc);
    for (unsigned i = 0; i < count; i += 2) {
      snprintf(name, sizeof name, "k%06u", scattered(i, (way + 1) % 3, count));
      assert_int_equal(pd_doc_member_remove(doc, root, pd_text(name), NULL), PD_OK);
    }
    checked_height(root->members, NULL, NULL);
    assert_int_equal(pd_node_count(root), count / 2);
    pd_doc_undo(doc, mark);
    checked_height(root->members, NULL, NULL);
    assert_int_equal(pd_node_count(root), count);
    pd_doc_free(doc);
  }
}

static void doc__undo_takes_back_exactly_what_came_after_the_mark(void **state)
{
  (void)state;
  pd_doc *doc = doc_of("{\"a\":[1,2,3],\"b\":{\"c\":1}}");
  pd_node *root = pd_doc_root(doc), *array = pd_node_member(root, pd_text("a"));
  assert_int_equal(pd_doc_item_remove(doc, array, 0, NULL), PD_OK);
  size_t mark = pd_doc_mark(doc);
  assert_int_equal(pd_doc_item_insert(doc, array, 1, 1, parsed("{\"x\":[]}"), NULL, NULL), PD_OK);
  assert_int_equal(pd_doc_item_set(doc, array, 1, 0, parsed("\"s\""), NULL, NULL), PD_OK);
  assert_int_equal(pd_doc_member_remove(doc, root, pd_text("b"), NULL), PD_OK);
  assert_int_equal(pd_doc_member_remove(doc, root, pd_text("nothing"), NULL), PD_OK);
  doc_is(doc, "{\"a\":[\"s\",{\"x\":[]},3]}");
  assert_int_equal(pd_doc_root_set(doc, parsed("[7]"), NULL), PD_OK);
  doc_is(doc, "[7]");
  pd_doc_undo(doc, mark);
  doc_is(doc, "{\"a\":[2,3],\"b\":{\"c\":1}}");
  pd_doc_keep(doc);
  pd_doc_undo(doc, 0);
  doc_is(doc, "{\"a\":[2,3],\"b\":{\"c\":1}}");
  assert_int_equal(pd_doc_item_set(doc, pd_node_member(pd_doc_root(doc), pd_text("a")), 1, 2, parsed("1"), NULL, NULL), PD_INVALID);
  assert_int_equal(pd_doc_item_insert(doc, pd_node_member(pd_doc_root(doc), pd_text("a")), 1, 3, parsed("1"), NULL, NULL), PD_INVALID);
  assert_int_equal(pd_doc_item_remove(doc, pd_node_member(pd_doc_root(doc), pd_text("a")), 2, NULL), PD_INVALID);
  pd_doc_free(doc);
}

/* ---- sums ---- */

static void adds(const char *a, const char *b, bool is_minus, const char *expected)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_json_number_add(parsed(a), parsed(b), is_minus, &out, NULL), PD_OK);
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  assert_string_equal((const char *)out.data, expected);
}

static void json_number_add__keeps_every_digit(void **state)
{
  (void)state;
  adds("0", "-0", false, "0");
  adds("1", "1", true, "0");
  adds("-1", "1", false, "0");
  adds("0.1", "0.2", false, "0.3");
  adds("1.50", "0", false, "1.5");
  adds("1e2", "1E-2", false, "100.01");
  adds("123456789012345678901234567890", "1", false, "123456789012345678901234567891");
  adds("1", "100000000000000000000000000000000000", true, "-99999999999999999999999999999999999");
  adds("-5", "7", true, "-12");
  adds("1e-400", "1e-400", true, "0");
  adds("0e999999999999999999999", "3", false, "3");
}

static void json_number_add__agrees_with_the_machine_on_random_integers(void **state)
{
  (void)state;
  srand(7);
  for (int i = 0; i < 20000; i++) {
    long long a = ((long long)rand() << 31 ^ rand()) >> rand() % 60, b = ((long long)rand() << 31 ^ rand()) >> rand() % 60;
    if (rand() % 2) a = -a;
    if (rand() % 2) b = -b;
    bool is_minus = rand() % 2;
    char text_a[32], text_b[32], expected[32];
    snprintf(text_a, sizeof text_a, "%lld", a);
    snprintf(text_b, sizeof text_b, "%lld", b);
    snprintf(expected, sizeof expected, "%lld", is_minus ? a - b : a + b);
    adds(text_a, text_b, is_minus, expected);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(doc__writes_the_canonical_text),
    cmocka_unit_test(doc__refuses_names_that_are_there_twice_or_have_no_decoded_form),
    cmocka_unit_test(doc__depth_and_name_sizes_have_limits),
    cmocka_unit_test(doc__is_read_by_name_index_and_path),
    cmocka_unit_test(doc_path__is_written_as_it_was_read),
    cmocka_unit_test(doc__a_hundred_thousand_members_stay_balanced_in_any_order),
    cmocka_unit_test(doc__undo_takes_back_exactly_what_came_after_the_mark),
    cmocka_unit_test(json_number_add__keeps_every_digit),
    cmocka_unit_test(json_number_add__agrees_with_the_machine_on_random_integers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
