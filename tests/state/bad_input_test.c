/*
 * bad_input_test.c: every field of every capability, by its schema: missing, of a wrong type, too long, too deep, out of bounds. The answer
 * is an error of the one shape that names the field, nothing is changed, and the audit says so.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DEEP 200

typedef struct target {
  world *w;
  const char *capability;
  pd_json properties, required;
  char field[64];
  size_t tried;
} target;

static bool is_listed(pd_json list, const char *text)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item))
    if (pd_json_is(item, text)) return true;
  return false;
}

/* Something that the schema accepts, for the fields that are not under test. */
static void write_good(pd_json_writer *out, pd_json schema)
{
  pd_json choices = pd_json_member(schema, "enum"), first, minimum = pd_json_member(schema, "minimum");
  pd_json type = pd_json_member(schema, "type");
  pd_json_walk walk = pd_json_walk_begin(choices);
  if (choices.kind == PD_JSON_ARRAY && pd_json_walk_next(&walk, NULL, &first))
    pd_json_value(out, first);
  else if (pd_json_is(type, "integer") && minimum.kind == PD_JSON_NUMBER)
    pd_json_value(out, minimum);
  else if (pd_json_is(type, "integer"))
    pd_json_number(out, 0);
  else if (pd_json_is(type, "boolean"))
    pd_json_bool(out, true);
  else if (pd_json_is(type, "array"))
    pd_json_open(out, '['), pd_json_text(out, pd_text("x")), pd_json_close(out, ']');
  else if (pd_json_is(type, "object"))
    pd_json_open(out, '{'), pd_json_close(out, '}');
  else
    pd_json_text(out, pd_text("x"));
}

/* All required fields good, but the one under test: `raw`, or absent if NULL. */
static void try_value(target *t, const char *raw, const char *code)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  pd_json_writer out = {.out = &input};
  pd_json key, schema;
  pd_json_open(&out, '{');
  pd_json_walk walk = pd_json_walk_begin(t->properties);
  while (pd_json_walk_next(&walk, &key, &schema)) {
    CLEANUP(pd_buf_done) pd_buf name = {0};
    assert_int_equal(pd_json_decode(key, &name, NULL), PD_OK);
    assert_int_equal(pd_buf_byte(&name, 0, NULL), PD_OK);
    bool is_it = strcmp((const char *)name.data, t->field) == 0;
    if (is_it ? !raw : !is_listed(t->required, (const char *)name.data)) continue;
    pd_json_key(&out, (const char *)name.data);
    if (!is_it) {
      write_good(&out, schema);
      continue;
    }
    assert_int_equal(pd_buf_append(&input, raw, strlen(raw), NULL), PD_OK); /* as it is: it may be no JSON */
    out.needs_comma = true;
  }
  pd_json_close(&out, '}');
  assert_int_equal(pd_buf_byte(&input, 0, NULL), PD_OK);
  t->tried++;
  if (world_call(t->w, t->capability, (const char *)input.data) == PD_OK)
    fail_msg("%s accepts %.200s", t->capability, (const char *)input.data);
  if (strcmp(pd_error_name(&t->w->err), code) != 0)
    fail_msg("%s %.200s: %s, not %s", t->capability, (const char *)input.data, (const char *)t->w->out.data, code);
  const char *recovery = world_out(t->w, "error.recovery.0.action");
  if (!*recovery) fail_msg("%s %.200s: no recovery in %s", t->capability, (const char *)input.data, (const char *)t->w->out.data);
}

static char *repeated(const char *before, char c, size_t count, const char *after)
{
  size_t head = strlen(before), tail = strlen(after);
  char *text = malloc(head + count + tail + 1);
  assert_non_null(text);
  memcpy(text, before, head);
  memset(text + head, c, count);
  memcpy(text + head + count, after, tail + 1);
  return text;
}

static void try_long(target *t, const char *before, char c, size_t count, const char *after)
{
  char *text = repeated(before, c, count, after);
  try_value(t, text, "InvalidInput");
  free(text);
}

static void try_string(target *t, pd_json schema)
{
  uint64_t most = 16384;
  if (!pd_json_u64(pd_json_member(schema, "maxLength"), &most)) most = 16384;
  try_long(t, "\"", 'x', (size_t)most + 1, "\"");
  try_value(t, "\"\xff\xfe\"", "InvalidInput");
  try_value(t, "\"\\ud800\"", "InvalidInput");
  try_value(t, "\"a\\u0000b\"", "InvalidInput");
  pd_json format = pd_json_member(schema, "format");
  if (pd_json_is(format, "key") || pd_json_is(format, "prefix")) try_value(t, "\"line\\nbreak\"", "InvalidInput");
  if (pd_json_is(format, "key") || pd_json_is(format, "agent")) try_value(t, "\"\"", "InvalidInput");
  if (pd_json_is(format, "agent") || pd_json_is(format, "name")) try_value(t, "\"../x\"", "InvalidInput");
  if (pd_json_member(schema, "enum").kind == PD_JSON_ARRAY) try_value(t, "\"none of these\"", "InvalidInput");
}

static void try_integer(target *t, pd_json schema)
{
  static const char *const values[] = {"1.5", "1e3", "NaN", "Infinity", "-9223372036854775809", "99999999999999999999999", "\"1\"", "01"};
  for (size_t i = 0; i < COUNT_OF(values); i++) try_value(t, values[i], "InvalidInput");
  pd_json minimum = pd_json_member(schema, "minimum");
  if (minimum.kind == PD_JSON_NONE || pd_json_is(minimum, "0")) try_value(t, "-1", "InvalidInput");
}

static void try_any(target *t)
{
  char *deep = repeated("", '[', DEEP, ""), *both = repeated(deep, ']', DEEP, "");
  try_value(t, both, "InvalidInput");
  try_value(t, "{\"a\":1,\"a\":2}", "InvalidInput");
  try_value(t, "{\"a\":1,\"\\u0061\":2}", "InvalidInput");
  try_value(t, "nope", "InvalidInput");
  try_value(t, "\"\xc3\x28\"", "InvalidInput");
  free(deep);
  free(both);
}

static void try_field(target *t, pd_json schema)
{
  static const char *const samples[][2] = {
    {"string", "\"text\""}, {"integer", "7"}, {"boolean", "true"}, {"object", "{\"a\":1}"}, {"array", "[]"}};
  pd_json type = pd_json_member(schema, "type");
  if (is_listed(t->required, t->field)) try_value(t, NULL, "InvalidInput");
  if (type.kind == PD_JSON_NONE) {
    try_any(t);
    return;
  }
  for (size_t i = 0; i < COUNT_OF(samples); i++)
    if (!pd_json_is(type, samples[i][0])) try_value(t, samples[i][1], "InvalidInput");
  if (pd_json_is(type, "string")) try_string(t, schema);
  if (pd_json_is(type, "integer")) try_integer(t, schema);
}

/* Returns how many calls that made. */
static size_t try_capability(world *w, const pd_capability_info *info)
{
  pd_json document, key, schema;
  assert_int_equal(pd_json_parse(pd_text(info->document), &document, NULL), PD_OK);
  pd_json inputs = pd_json_member(document, "inputs");
  target t = {
    .w = w, .capability = info->name, .properties = pd_json_member(inputs, "properties"), .required = pd_json_member(inputs, "required")};
  pd_json_walk walk = pd_json_walk_begin(t.properties);
  while (pd_json_walk_next(&walk, &key, &schema)) {
    CLEANUP(pd_buf_done) pd_buf name = {0};
    assert_int_equal(pd_json_decode(key, &name, NULL), PD_OK);
    snprintf(t.field, sizeof t.field, "%.*s", (int)name.size, (const char *)name.data);
    try_field(&t, schema);
  }
  world_fails(w, info->name, "{\"no_such_field\":1}", "InvalidInput", "correct");
  world_fails(w, info->name, "[]", "InvalidInput", "correct");
  world_fails(w, info->name, "{", "InvalidInput", "correct");
  return t.tried + 3;
}

static void count_commits(void *ctx, const char *agent)
{
  char uri[512];
  const char **folder = ctx;
  snprintf(uri, sizeof uri, "sqlite:%s", folder[0]);
  if (strcmp(agent, "system") == 0) return; /* the audit of the refused calls is there */
  pd_store *store = NULL;
  pd_commit head;
  assert_int_equal(pd_store_open(uri, agent, NULL, &store, NULL), PD_OK);
  assert_int_equal(pd_resolve(store, NULL, &head, NULL), PD_OK);
  assert_int_equal(head.seq, 0);
  pd_store_close(store, NULL);
}

/* One page of the audit: each line tells of a refused input and of no commit. Returns how many calls it tells of. */
static uint64_t count_page(world *w, uint64_t *out_seq)
{
  uint64_t calls = 0;
  pd_json page, line;
  assert_int_equal(pd_json_parse(pd_buf_bytes(&w->out), &page, NULL), PD_OK);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(page, "lines"));
  while (pd_json_walk_next(&walk, NULL, &line)) {
    uint64_t times = 1;
    pd_json count = pd_json_member(line, "count");
    if (!pd_json_is(pd_json_member(line, "outcome"), "InvalidInput") || pd_json_member(line, "commit").kind != PD_JSON_NONE)
      fail_msg("the audit says %.*s", (int)line.raw.size, (const char *)line.raw.data);
    if (count.kind != PD_JSON_NONE) assert_true(pd_json_u64(count, &times));
    assert_true(pd_json_u64(pd_json_member(line, "seq"), out_seq));
    calls += times;
  }
  return calls;
}

/* Is every refused call in the audit, and nothing else? */
static void audit_tells_of(world *w, uint64_t calls)
{
  uint64_t told = 0, seq = (uint64_t)1 << 40;
  w->is_operator = true;
  do {
    if (world_callf(w, "audit.list", "{\"before\":%llu,\"limit\":1000}", (unsigned long long)seq)) fail_msg("%s", w->err.message);
    told += count_page(w, &seq);
  } while (strcmp(world_out(w, "has_more"), "true") == 0);
  assert_int_equal(told, calls);
}

static void bad_input__every_field_of_every_capability_is_refused_changes_nothing_and_is_in_the_audit(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_begin_session(&w);
  pd_capability_info info;
  size_t calls = 0;
  for (int as_operator = 0; as_operator < 2; as_operator++) {
    w.is_operator = as_operator;
    for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) calls += try_capability(&w, &info);
  }
  audit_tells_of(&w, calls);
  const char *folder = w.folder;
  assert_int_equal(pd_home_agents(w.uri, count_commits, &folder, NULL), PD_OK);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_input__every_field_of_every_capability_is_refused_changes_nothing_and_is_in_the_audit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
