/*
 * examples_test.c: every example of every capability runs and answers what its file says. The set-up, the call and the answer are in
 * capabilities/NAME.json; "*" in an expected answer stands for anything.
 */
#include "state/example_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/json.h"
#include "base/json_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void check_answer(example_stage *s, const pd_capability_info *info, pd_json example, pd_code code)
{
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

static void run_example(example_stage *s, const pd_capability_info *info, pd_json example)
{
  check_answer(s, info, example, example_call(s, info->name, example));
}

/* ---- in two steps ---- */

/* Those that have staged a commit. */
static const char *staged[256];
static size_t staged_count;

static bool has_staged(const char *name)
{
  for (size_t i = 0; i < staged_count; i++)
    if (strcmp(staged[i], name) == 0) return true;
  return false;
}

/* What a server that has been running for a while has open: the agent's store, the shared one, and the home's own. */
static void warm(world *w)
{
  world_ok(w, "state.persistent.set", "{\"key\":\"zz-warm\",\"value\":1}");
  world_ok(w, "state.shared.set", "{\"key\":\"zz-warm\",\"value\":1,\"expected_version\":0}");
  world_ok(w, "process.record", "{\"event\":\"started\",\"name\":\"zz-warm\",\"pid\":1}");
}

/* As a thread begins it that serves connections, and another finishes it. */
static void run_in_two_steps(example_stage *s, const pd_capability_info *info, pd_json example)
{
  world *w = &s->w;
  if (info->handling->executor != PD_EXECUTOR_QUICK) return;
  if (pd_json_member(example, "output").kind != PD_JSON_NONE) warm(w); /* some are refused for want of a store */
  assert_int_equal(pd_home_flush(w->home, &w->err), PD_OK);            /* else the audit may be writing to `system` meanwhile */
  char *input = example_input(s, example);
  bool is_operator = pd_json_is(pd_json_member(example, "as"), "operator");
  pd_ctx ctx = {.home = w->home, .agent = w->agent, .session = *w->session ? w->session : NULL, .is_operator = is_operator};
  pd_begun *begun = NULL;
  pd_disk_wait_assert(true);
  pd_disk_wait_forbid(true);
  pd_code code = pd_call_begin(&ctx, info->name, pd_text(input), &begun, &w->out, &w->err);
  pd_disk_wait_forbid(false);
  pd_disk_wait_assert(false);
  if (begun && pd_begun_group(begun) && !has_staged(info->name)) staged[staged_count++] = info->name;
  if (begun) code = pd_call_finish(begun, &w->out, &w->err);
  check_answer(s, info, example, code);
  free(input);
}

static void examples__every_quick_capability_answers_the_same_in_two_steps(void **state)
{
  (void)state;
  staged_count = 0;
  example_each(run_in_two_steps);
}

/* Its last act is one commit, or all that it changes is in memory. */
static bool is_of_sessions(const pd_capability_info *info)
{
  return info->handling->session == PD_SESSION_REQUIRED;
}

/* Their examples are refused, or find a store that has to be made first. */
static bool is_staged_elsewhere(const char *name)
{
  static const char *const names[] = {"queue.send",  "queue.receive", "queue.ack",    "state.shared.unwatch",
                                      "work.create", "work.update",   "work.complete"}; /* in staged_test.c */
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static void examples__every_quick_capability_that_writes_has_staged_its_commit(void **state)
{
  (void)state;
  pd_capability_info info;
  unsigned missing = 0;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    bool must = info.handling->executor == PD_EXECUTOR_QUICK && info.handling->has_effects && !is_of_sessions(&info);
    if (must && !has_staged(info.name) && !is_staged_elsewhere(info.name)) {
      print_error("%s is 'quick', and none of its examples has staged a commit\n", info.name);
      missing++;
    }
  }
  assert_int_equal(missing, 0);
  assert_in_range(staged_count, 20, COUNT_OF(staged));
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
    cmocka_unit_test(examples__every_quick_capability_answers_the_same_in_two_steps),
    cmocka_unit_test(examples__every_quick_capability_that_writes_has_staged_its_commit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
