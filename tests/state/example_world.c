/* example_world.c: see example_world.h. */
#include "state/example_world.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

char *example_text(pd_json value)
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
static char *fill_in(const example_stage *s, pd_json input)
{
  char *raw = example_text(input);
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

char *example_input(const example_stage *s, pd_json step)
{
  pd_json input = pd_json_member(step, "input");
  return input.kind == PD_JSON_NONE ? strdup("{}") : fill_in(s, input);
}

pd_code example_call(example_stage *s, const char *capability, pd_json step)
{
  char *text = example_input(s, step);
  s->w.is_operator = pd_json_is(pd_json_member(step, "as"), "operator");
  pd_code code = world_call(&s->w, capability, text);
  s->w.is_operator = false;
  free(text);
  return code;
}

static void save_outputs(example_stage *s, pd_json names)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(names);
  while (pd_json_walk_next(&walk, &key, &value)) {
    assert_true(s->count < EXAMPLE_VARIABLES_MAX);
    char *name = example_text(key), *path = example_text(value);
    pd_json got;
    assert_int_equal(pd_json_parse(pd_text(world_out(&s->w, path)), &got, NULL), PD_OK);
    char *text = example_text(got);
    snprintf(s->variables[s->count].name, sizeof s->variables[0].name, "%s", name);
    snprintf(s->variables[s->count++].text, sizeof s->variables[0].text, "%s", text);
    free(name);
    free(path);
    free(text);
  }
}

static void run_setup(example_stage *s, const char *name, pd_json example)
{
  pd_json step;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(example, "setup"));
  while (pd_json_walk_next(&walk, NULL, &step)) {
    char *capability = example_text(pd_json_member(step, "call"));
    if (example_call(s, capability, step)) fail_msg("%s: the set-up's %s failed: %s", name, capability, (const char *)s->w.out.data);
    save_outputs(s, pd_json_member(step, "save"));
    free(capability);
  }
}

static void stage_example(void (*visit)(example_stage *stage, const pd_capability_info *info, pd_json example),
                          const pd_capability_info *info, pd_json example)
{
  example_stage s = {0};
  world_open(&s.w, NULL);
  world_begin_session(&s.w);
  run_setup(&s, info->name, example);
  visit(&s, info, example);
  world_close(&s.w);
}

void example_each(void (*visit)(example_stage *stage, const pd_capability_info *info, pd_json example))
{
  pd_capability_info info;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    pd_json document, example;
    size_t count = 0;
    assert_int_equal(pd_json_parse(pd_text(info.document), &document, NULL), PD_OK);
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(document, "examples"));
    for (; pd_json_walk_next(&walk, NULL, &example); count++) stage_example(visit, &info, example);
    if (!count) fail_msg("%s has no example", info.name);
  }
}
