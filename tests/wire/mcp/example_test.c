/*
 * example_test.c: every example of every capability that is a tool, called as a tool: what comes back fits the output schema that the list
 * tells, and says the same as text; what fails says its code and what to do.
 */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/example_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- JSON Schema, as much of it as our tools use ---- */

static bool fits(pd_json schema, pd_json value);

static bool fits_type(pd_json type, pd_json value)
{
  int64_t number;
  if (pd_json_is(type, "object")) return value.kind == PD_JSON_OBJECT;
  if (pd_json_is(type, "array")) return value.kind == PD_JSON_ARRAY;
  if (pd_json_is(type, "string")) return value.kind == PD_JSON_STRING;
  if (pd_json_is(type, "number")) return value.kind == PD_JSON_NUMBER;
  if (pd_json_is(type, "integer")) return value.kind == PD_JSON_NUMBER && pd_json_i64(value, &number);
  if (pd_json_is(type, "boolean")) return value.kind == PD_JSON_BOOL;
  if (pd_json_is(type, "null")) return value.kind == PD_JSON_NULL;
  fail_msg("a type that nobody knows: %.*s", (int)type.raw.size, (const char *)type.raw.data);
  return false;
}

static bool fits_any(pd_json list, pd_json value)
{
  pd_json one;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &one))
    if (one.kind == PD_JSON_OBJECT ? fits(one, value) : pd_bytes_equal(one.raw, value.raw)) return true;
  return false;
}

static bool fits_object(pd_json schema, pd_json value)
{
  pd_json key, member, name, additional = pd_json_member(schema, "additionalProperties");
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(schema, "required"));
  while (pd_json_walk_next(&walk, NULL, &name)) {
    char *text = example_text(name);
    bool is_there = pd_json_member(value, text).kind != PD_JSON_NONE;
    free(text);
    if (!is_there) return false;
  }
  walk = pd_json_walk_begin(value);
  while (pd_json_walk_next(&walk, &key, &member)) {
    char *text = example_text(key);
    pd_json property = pd_json_member(pd_json_member(schema, "properties"), text);
    free(text);
    if (property.kind == PD_JSON_OBJECT && !fits(property, member)) return false;
    if (property.kind == PD_JSON_NONE && additional.kind == PD_JSON_BOOL && !pd_json_true(additional)) return false;
  }
  return true;
}

static bool fits_items(pd_json schema, pd_json value)
{
  pd_json item, items = pd_json_member(schema, "items");
  pd_json_walk walk = pd_json_walk_begin(value);
  while (pd_json_walk_next(&walk, NULL, &item))
    if (items.kind == PD_JSON_OBJECT && !fits(items, item)) return false;
  return true;
}

static bool fits(pd_json schema, pd_json value)
{
  pd_json type = pd_json_member(schema, "type"), any = pd_json_member(schema, "anyOf"), words = pd_json_member(schema, "enum");
  if (type.kind != PD_JSON_NONE && !fits_type(type, value)) return false;
  if (any.kind != PD_JSON_NONE && !fits_any(any, value)) return false;
  if (words.kind != PD_JSON_NONE && !fits_any(words, value)) return false;
  if (value.kind == PD_JSON_OBJECT) return fits_object(schema, value);
  return value.kind != PD_JSON_ARRAY || fits_items(schema, value);
}

static void example__the_checker_tells_right_from_wrong(void **state)
{
  (void)state;
  static const struct {
    const char *value;
    bool is_right;
  } cases[] = {
    {"{\"n\":1,\"l\":[\"a\"]}", true},
    {"{\"n\":1}", true},
    {"{\"n\":1,\"l\":[7]}", false},
    {"{\"n\":1.5}", false},
    {"{\"l\":[]}", false},
    {"[]", false},
    {"{\"n\":1,\"x\":1}", false},
    {"{\"n\":\"1\"}", false},
    {"{\"n\":1,\"w\":\"b\"}", true},
    {"{\"n\":1,\"w\":2}", false},
    {"{\"n\":1,\"a\":null}", true},
    {"{\"n\":1,\"a\":true}", false},
  };
  pd_json schema, value;
  const char *text = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},\"l\":{\"type\":\"array\",\"items\":{\"type\":"
                     "\"string\"}},\"w\":{\"enum\":[\"b\"]},\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}},\"required\":["
                     "\"n\"],\"additionalProperties\":false}";
  assert_int_equal(pd_json_parse(pd_text(text), &schema, NULL), PD_OK);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    assert_int_equal(pd_json_parse(pd_text(cases[i].value), &value, NULL), PD_OK);
    if (fits(schema, value) != cases[i].is_right) fail_msg("%s", cases[i].value);
  }
}

/* ---- the examples ---- */

static size_t answered, refused;

static bool is_of_session(const char *name)
{
  return strncmp(name, "state.session.", 14) == 0 || strcmp(name, "state.shared.watch") == 0 || strncmp(name, "session.", 8) == 0;
}

/* The call as a client makes it; the session that the set-up used goes with those that have one. */
static char *call_text(const example_stage *s, const char *name, pd_json example)
{
  char *input = example_input(s, example), *text = NULL;
  const char *rest = input + 1 + strspn(input + 1, " ");
  bool is_empty = *rest == '}';
  char session[64] = "";
  if (is_of_session(name) && strcmp(name, "session.begin") != 0 && strcmp(name, "session.list") != 0 && !strstr(input, "session_id"))
    snprintf(session, sizeof session, "\"session_id\":\"%s\"%s", s->w.session, is_empty ? "" : ",");
  if (asprintf(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":{%s%s}}", name,
               session, rest) < 0)
    abort();
  free(input);
  return text;
}

static pd_json result_of(mcp_world *m, const char *name)
{
  pd_json json;
  if (m->last.count != 1 || pd_json_parse(pd_text(m->last.messages[0]), &json, NULL)) fail_msg("%s: no answer", name);
  return pd_json_member(json, "result");
}

static pd_json output_schema(pd_json list, const char *capability)
{
  pd_json tool;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &tool))
    if (pd_json_is(pd_json_member(tool, "title"), capability)) return pd_json_member(tool, "outputSchema");
  fail_msg("%s is no tool", capability);
  return (pd_json){0};
}

static pd_json first_text(pd_json result, pd_buf *text)
{
  pd_json block = {0}, json;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(result, "content"));
  assert_true(pd_json_walk_next(&walk, NULL, &block));
  assert_int_equal(pd_json_decode(pd_json_member(block, "text"), text, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_buf_bytes(text), &json, NULL), PD_OK);
  return json;
}

static void check_answer(const char *name, pd_json result, pd_json schema)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json structured = pd_json_member(result, "structuredContent"), same = first_text(result, &text);
  if (pd_json_true(pd_json_member(result, "isError"))) fail_msg("%s: %.*s", name, (int)text.size, (const char *)text.data);
  if (!fits(schema, structured))
    fail_msg("%s: %.*s does not fit %.*s", name, (int)structured.raw.size, (const char *)structured.raw.data, (int)schema.raw.size,
             (const char *)schema.raw.data);
  assert_true(pd_bytes_equal(same.raw, structured.raw));
  answered++;
}

static void check_refusal(const char *name, pd_json result, pd_json wanted)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json error = pd_json_member(first_text(result, &text), "error"), code = pd_json_member(error, "code"), one;
  assert_true(pd_json_true(pd_json_member(result, "isError")));
  assert_int_equal(pd_json_member(result, "structuredContent").kind, PD_JSON_NONE);
  if (!pd_bytes_equal(code.raw, wanted.raw)) fail_msg("%s: %.*s", name, (int)error.raw.size, (const char *)error.raw.data);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(error, "recovery"));
  if (!pd_json_walk_next(&walk, NULL, &one)) fail_msg("%s: no recovery", name);
  assert_int_equal(pd_json_member(one, "action").kind, PD_JSON_STRING);
  assert_int_equal(pd_json_member(one, "hint").kind, PD_JSON_STRING);
  refused++;
}

static void run_example(example_stage *s, const pd_capability_info *info, pd_json example)
{
  mcp_world m = {.peer = {.agent = s->w.agent}};
  exchange listed;
  pd_json list;
  if (info->permission == PD_PERMIT_OPERATOR || pd_json_is(pd_json_member(example, "as"), "operator")) return;
  pd_mcp_options options = {.home = s->w.home, .uri = s->w.uri};
  assert_int_equal(pd_mcp_new(&options, &m.mcp, NULL), PD_OK);
  exchange_begin(&listed);
  exchange_begin(&m.last);
  mcp_send_into(&m, &listed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
  assert_int_equal(pd_json_parse(pd_text(listed.messages[0]), &list, NULL), PD_OK);
  pd_json schema = output_schema(pd_json_member(pd_json_member(list, "result"), "tools"), info->name);
  char *text = call_text(s, info->name, example);
  mcp_send(&m, text);
  if (pd_json_member(example, "output").kind != PD_JSON_NONE)
    check_answer(info->name, result_of(&m, info->name), schema);
  else
    check_refusal(info->name, result_of(&m, info->name), pd_json_member(example, "error"));
  free(text);
  exchange_end(&m.last);
  exchange_end(&listed);
  pd_mcp_free(m.mcp);
}

static void example__every_answer_fits_its_schema_and_every_error_has_code_and_recovery(void **state)
{
  (void)state;
  example_each(run_example);
  print_message("# %zu answers, %zu errors\n", answered, refused);
  assert_true(answered > 60 && refused > 40);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(example__the_checker_tells_right_from_wrong),
    cmocka_unit_test(example__every_answer_fits_its_schema_and_every_error_has_code_and_recovery),
  };
  return cmocka_run_group_tests_name("example", tests, NULL, NULL);
}
