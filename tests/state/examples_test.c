/*
 * examples_test.c: every example of every capability runs and answers what its file says. The set-up, the call and the answer are in
 * capabilities/NAME.json; "*" in an expected answer stands for anything.
 */
#include "state/example_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- answers ---- */

static bool matches(pd_json wanted, pd_json got);

static bool matches_members(pd_json wanted, pd_json got)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(wanted);
  while (pd_json_walk_next(&walk, &key, &value)) {
    char *name = example_text(key);
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

static void run_example(example_stage *s, const pd_capability_info *info, pd_json example)
{
  pd_code code = example_call(s, info->name, example);
  pd_json wanted = pd_json_member(example, "output"), got;
  if (wanted.kind == PD_JSON_NONE) {
    if (code == PD_OK || !pd_json_is(pd_json_member(example, "error"), pd_error_name(&s->w.err)))
      fail_msg("%s: example %.*s answered %s", info->name, (int)example.raw.size, (const char *)example.raw.data,
               (const char *)s->w.out.data);
    return;
  }
  assert_int_equal(pd_json_parse(pd_buf_bytes(&s->w.out), &got, NULL), PD_OK);
  if (code || !matches(wanted, got))
    fail_msg("%s: example %.*s answered %s", info->name, (int)example.raw.size, (const char *)example.raw.data,
             (const char *)s->w.out.data);
}

static void examples__every_example_of_every_capability_runs_as_written(void **state)
{
  (void)state;
  example_each(run_example);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(examples__every_example_of_every_capability_runs_as_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
