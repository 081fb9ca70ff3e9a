/*
 * examples_test.c: every example of every capability runs and answers what its file says. The set-up, the call and the answer are in
 * capabilities/NAME.json; "*" in an expected answer stands for anything, "${x}" in an input for what a set-up step saved as x.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define VARIABLES_MAX 8

typedef struct variable {
  char name[32], text[256];
} variable;

typedef struct stage {
  world w;
  variable variables[VARIABLES_MAX];
  size_t count;
} stage;

/* ---- texts ---- */

static char *text_of_json(pd_json value)
{
  pd_buf buf = {0};
  if (value.kind == PD_JSON_STRING) {
    assert_int_equal(pd_json_decode(value, &buf, NULL), PD_OK);
  } else {
    pd_json_writer writer = {.out = &buf};
    pd_json_value(&writer, value);
  }
  assert_int_equal(pd_buf_byte(&buf, 0, NULL), PD_OK);
  return (char *)buf.data;
}

/* The input with its variables filled in. */
static char *fill_in(const stage *s, pd_json input)
{
  char *raw = text_of_json(input);
  pd_buf out = {0};
  for (const char *at = raw; *at;) {
    size_t i = 0, size = 0;
    for (; i < s->count; i++) {
      char mark[40];
      size = (size_t)snprintf(mark, sizeof mark, "${%s}", s->variables[i].name);
      if (strncmp(at, mark, size) == 0) break;
    }
    if (i < s->count) {
      assert_int_equal(pd_buf_append(&out, s->variables[i].text, strlen(s->variables[i].text), NULL), PD_OK);
      at += size;
    } else {
      assert_int_equal(pd_buf_byte(&out, (uint8_t)*at++, NULL), PD_OK);
    }
  }
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  free(raw);
  return (char *)out.data;
}

/* ---- answers ---- */

static bool matches(pd_json wanted, pd_json got);

static bool matches_members(pd_json wanted, pd_json got)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(wanted);
  while (pd_json_walk_next(&walk, &key, &value)) {
    char *name = text_of_json(key);
    bool fits = matches(value, pd_json_member(got, name));
    free(name);
    if (!fits) return false;
  }
  return true;
}

static bool matches_items(pd_json wanted, pd_json got)
{
  pd_json a, b;
  pd_json_walk walk_a = pd_json_walk_begin(wanted), walk_b = pd_json_walk_begin(got);
  while (pd_json_walk_next(&walk_a, NULL, &a))
    if (!pd_json_walk_next(&walk_b, NULL, &b) || !matches(a, b)) return false;
  return !pd_json_walk_next(&walk_b, NULL, &b);
}

/* Objects may have more members than is wanted; everything else is as it is, but for "*". */
static bool matches(pd_json wanted, pd_json got)
{
  if (got.kind == PD_JSON_NONE) return false;
  if (pd_json_is(wanted, "*")) return true;
  if (wanted.kind == PD_JSON_OBJECT) return got.kind == PD_JSON_OBJECT && matches_members(wanted, got);
  if (wanted.kind == PD_JSON_ARRAY) return got.kind == PD_JSON_ARRAY && matches_items(wanted, got);
  bool is_equal = false;
  assert_int_equal(pd_json_equal(wanted, got, &is_equal, NULL), PD_OK);
  return is_equal;
}

/* ---- running ---- */

static pd_code call_step(stage *s, const char *capability, pd_json step)
{
  pd_json input = pd_json_member(step, "input");
  char *text = input.kind == PD_JSON_NONE ? strdup("{}") : fill_in(s, input);
  s->w.is_operator = pd_json_is(pd_json_member(step, "as"), "operator");
  pd_code code = world_call(&s->w, capability, text);
  s->w.is_operator = false;
  free(text);
  return code;
}

static void save_outputs(stage *s, pd_json names)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(names);
  while (pd_json_walk_next(&walk, &key, &value)) {
    assert_true(s->count < VARIABLES_MAX);
    char *name = text_of_json(key), *path = text_of_json(value);
    pd_json got;
    assert_int_equal(pd_json_parse(pd_text(world_out(&s->w, path)), &got, NULL), PD_OK);
    char *text = text_of_json(got);
    snprintf(s->variables[s->count].name, sizeof s->variables[0].name, "%s", name);
    snprintf(s->variables[s->count++].text, sizeof s->variables[0].text, "%s", text);
    free(name);
    free(path);
    free(text);
  }
}

static void run_setup(stage *s, const char *name, pd_json example)
{
  pd_json step;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(example, "setup"));
  while (pd_json_walk_next(&walk, NULL, &step)) {
    char *capability = text_of_json(pd_json_member(step, "call"));
    if (call_step(s, capability, step)) fail_msg("%s: the set-up's %s failed: %s", name, capability, (const char *)s->w.out.data);
    save_outputs(s, pd_json_member(step, "save"));
    free(capability);
  }
}

static void run_example(const char *name, pd_json example)
{
  stage s = {0};
  world_open(&s.w, NULL);
  world_begin_session(&s.w);
  run_setup(&s, name, example);
  pd_code code = call_step(&s, name, example);
  pd_json wanted = pd_json_member(example, "output"), got;
  if (wanted.kind == PD_JSON_NONE) {
    if (code == PD_OK || !pd_json_is(pd_json_member(example, "error"), pd_error_name(&s.w.err)))
      fail_msg("%s: example %.*s answered %s", name, (int)example.raw.size, (const char *)example.raw.data, (const char *)s.w.out.data);
  } else {
    assert_int_equal(pd_json_parse(pd_buf_bytes(&s.w.out), &got, NULL), PD_OK);
    if (code || !matches(wanted, got))
      fail_msg("%s: example %.*s answered %s", name, (int)example.raw.size, (const char *)example.raw.data, (const char *)s.w.out.data);
  }
  world_close(&s.w);
}

static void examples__every_example_of_every_capability_runs_as_written(void **state)
{
  (void)state;
  pd_capability_info info;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    pd_json document, example;
    size_t count = 0;
    assert_int_equal(pd_json_parse(pd_text(info.document), &document, NULL), PD_OK);
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(document, "examples"));
    for (; pd_json_walk_next(&walk, NULL, &example); count++) run_example(info.name, example);
    if (!count) fail_msg("%s has no example", info.name);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(examples__every_example_of_every_capability_runs_as_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
