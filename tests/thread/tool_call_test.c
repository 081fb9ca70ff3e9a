/* tool_call_test.c: tool calls of a run: their states, suspension and decisions, and patches of calls that run in parallel. */
#include "thread/run_world.h"

static void patch(const char *call_id, const char *patches)
{
  OK(pd_tool_call_patch(w.run, call_id, pd_text(patches), &w.err));
}

static pd_code end(const char *call_id, pd_tool_status status)
{
  w.err = (pd_error){0};
  return pd_tool_call_end(w.run, call_id, &(pd_tool_result){.status = status}, &w.err);
}

static pd_code resume(const char *call_id, const char *decision, bool *out_is_duplicate)
{
  w.err = (pd_error){0};
  return pd_tool_call_resume(w.run, call_id, &(pd_decision){.id = decision, .payload = pd_text("{\"ok\":true}")}, out_is_duplicate, &w.err);
}

static void suspend(const char *call_id)
{
  OK(pd_tool_call_suspend(w.run, call_id, pd_text("{\"ask\":\"may I?\"}"), &w.err));
}

static void note_call(void *ctx, const pd_tool_call_info *call)
{
  char *out = ctx;
  size_t at = strlen(out);
  snprintf(out + at, 2000 - at, "%s:%s ", call->id, pd_tool_status_name(call->status));
}

static const char *calls(void)
{
  static char out[2000];
  *out = 0;
  OK(pd_tool_call_list(w.run, note_call, out, &w.err));
  return out;
}

/* ---- the machines ---- */

static void machines__a_run_goes_from_running_to_waiting_and_back_and_to_done_once(void **state)
{
  (void)state;
  static const char *const expected[PD_PHASE_COUNT] = {"running", "waiting done", "running done", ""};
  for (int from = 0; from < PD_PHASE_COUNT; from++) {
    char out[64] = "";
    for (int to = 0; to < PD_PHASE_COUNT; to++)
      if (pd_run_phase_may((pd_run_phase)from, (pd_run_phase)to))
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", *out ? " " : "", pd_run_phase_name((pd_run_phase)to));
    assert_string_equal(out, expected[from]);
  }
  assert_false(pd_run_phase_may((pd_run_phase)99, PD_PHASE_RUNNING));
  assert_false(pd_run_phase_may(PD_PHASE_RUNNING, (pd_run_phase)-1));
}

static void machines__a_tool_call_goes_only_where_it_may(void **state)
{
  (void)state;
  static const char *const expected[PD_TOOL_STATUS_COUNT] = {
    "new running",
    "running suspended failed cancelled",
    "suspended succeeded failed cancelled",
    "resuming cancelled",
    "running suspended succeeded failed cancelled",
    "",
    "",
    "",
  };
  for (int from = 0; from < PD_TOOL_STATUS_COUNT; from++) {
    char out[200] = "";
    for (int to = 0; to < PD_TOOL_STATUS_COUNT; to++)
      if (pd_tool_status_may((pd_tool_status)from, (pd_tool_status)to))
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", *out ? " " : "", pd_tool_status_name((pd_tool_status)to));
    assert_string_equal(out, expected[from]);
  }
}

static void machines__names_are_read_back_and_others_are_none(void **state)
{
  (void)state;
  for (int i = 1; i < PD_PHASE_COUNT; i++) assert_int_equal(pd_run_phase_parse(pd_run_phase_name((pd_run_phase)i)), i);
  for (int i = 1; i < PD_DONE_COUNT; i++) assert_int_equal(pd_done_reason_parse(pd_done_reason_name((pd_done_reason)i)), i);
  for (int i = 1; i < PD_TOOL_STATUS_COUNT; i++) assert_int_equal(pd_tool_status_parse(pd_tool_status_name((pd_tool_status)i)), i);
  for (int i = 1; i < PD_SCOPE_COUNT; i++) assert_int_equal(pd_scope_parse(pd_scope_name((pd_scope)i)), i);
  assert_int_equal(pd_run_phase_parse("asleep"), 0);
  assert_int_equal(pd_tool_status_parse(""), 0);
  assert_int_equal(pd_done_reason_parse(NULL), 0);
  assert_string_equal(pd_tool_status_name((pd_tool_status)99), "");
  assert_string_equal(pd_run_event_name((pd_run_event_kind)0), "");
}

/* ---- the life of a call ---- */

static void tool_call__its_state_is_told_in_its_scope_and_goes_when_it_ends(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  OK(pd_tool_call_new(w.run, &(pd_tool_call){.id = "c.1", .name = "search", .arguments = pd_text("{\"q\" : 1}")}, &w.err));
  assert_string_equal(world_seen("/__tool_call_scope/c.1/tool_call_state/status"), "\"new\"");
  world_call("c.1");
  assert_string_equal(world_seen("/__tool_call_scope/c.1/tool_call_state/status"), "\"running\"");
  assert_string_equal(world_seen("/__tool_call_scope/c.1/tool_call_state/name"), "\"search\"");
  assert_string_equal(world_seen("/__tool_call_scope/c.1/tool_call_state/arguments"), "{\"q\":1}");
  patch("c.1", "[{\"op\":\"set\",\"path\":\"/found\",\"value\":3}]");
  assert_string_equal(world_seen("/found"), "-"); /* not before it ends */
  OK(pd_tool_call_end(w.run, "c.1", &(pd_tool_result){.status = PD_TOOL_SUCCEEDED, .message = pd_text("{\"id\":\"t1\"}")}, &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/found"), "3");
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  assert_non_null(strstr(world_delta(2), "\"id\":\"t1\""));
  assert_non_null(strstr(world_delta(2), "\"status\":\"succeeded\"")); /* the audit has its end */
  FAILS(end("c.1", PD_TOOL_SUCCEEDED), PD_NOT_FOUND, "ToolCallNotFound");
}

static void tool_call__patches_of_a_call_that_did_not_succeed_are_dropped(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  for (int i = 0; i < 2; i++) {
    world_call("c1");
    patch("c1", "[{\"op\":\"set\",\"path\":\"/half\",\"value\":1}]");
    world_end("c1", i ? PD_TOOL_FAILED : PD_TOOL_CANCELLED);
    assert_string_equal(world_seen("/half"), "-");
  }
}

static void tool_call__wrong_moves_are_refused_and_change_nothing(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  pd_tool_call call = {.id = "c1", .name = "n"};
  OK(pd_tool_call_new(w.run, &call, &w.err));
  FAILS(end("c1", PD_TOOL_SUCCEEDED), PD_CONFLICT, "InvalidTransition"); /* it never ran */
  FAILS(resume("c1", "d", NULL), PD_CONFLICT, "InvalidTransition");
  FAILS(pd_tool_call_new(w.run, &call, &w.err), PD_EXISTS, "ToolCallExists");
  world_call("c1");
  FAILS(pd_tool_call_begin(w.run, &call, &w.err), PD_CONFLICT, "InvalidTransition");
  FAILS(end("c1", PD_TOOL_SUSPENDED), PD_INVALID, "InvalidArgument");
  suspend("c1");
  FAILS(pd_tool_call_begin(w.run, &call, &w.err), PD_CONFLICT, "InvalidTransition");
  FAILS(pd_tool_call_suspend(w.run, "c1", (pd_bytes){0}, &w.err), PD_CONFLICT, "InvalidTransition");
  FAILS(end("c1", PD_TOOL_SUCCEEDED), PD_CONFLICT, "InvalidTransition");
  FAILS(end("c1", PD_TOOL_FAILED), PD_CONFLICT, "InvalidTransition");
  FAILS(pd_tool_call_patch(w.run, "c1", pd_text("[]"), &w.err), PD_CONFLICT, "InvalidTransition");
  assert_string_equal(calls(), "c1:suspended ");
  assert_string_equal(world_seen("/__tool_call_scope/c1/tool_call_state/status"), "\"suspended\"");
}

static void tool_call__bad_input_is_refused(void **state)
{
  (void)state;
  char name[300];
  memset(name, 'n', sizeof name);
  name[299] = 0;
  world_begin("r1", NULL);
  const pd_tool_call bad[] = {
    {.id = "", .name = "n"},   {.id = "a/b", .name = "n"},
    {.id = "..", .name = "n"}, {.id = "c"},
    {.id = "c", .name = ""},   {.id = "c", .name = "\xff"},
    {.id = "c", .name = name}, {.id = "c", .name = "n", .arguments = pd_text("{")},
    {.id = NULL, .name = "n"}, {.id = "c", .name = "n", .arguments = pd_text("{\"a\":1,\"a\":1}")},
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    if (pd_tool_call_begin(w.run, &bad[i], &w.err) != PD_INVALID) fail_msg("case %zu", i);
    assert_int_equal(pd_tool_call_new(w.run, &bad[i], &w.err), PD_INVALID);
  }
  FAILS(pd_tool_call_patch(w.run, "none", pd_text("[]"), &w.err), PD_NOT_FOUND, "ToolCallNotFound");
  world_call("c1");
  FAILS(pd_tool_call_patch(w.run, "c1", pd_text("[{\"op\":\"increment\",\"path\":\"/__run/id\",\"by\":1}]"), &w.err), PD_INVALID,
        "InvalidPatch");
  FAILS(pd_tool_call_suspend(w.run, "c1", pd_text("{"), &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_tool_call_end(w.run, "c1", &(pd_tool_result){.status = PD_TOOL_SUCCEEDED, .message = pd_text("{}")}, &w.err), PD_INVALID,
        "InvalidChangeSet");
  assert_string_equal(calls(), "c1:running ");
  assert_int_equal(pd_run_info_get(w.run).messages, 0);
}

static void tool_call__a_run_has_at_most_a_hundred_open_calls(void **state)
{
  (void)state;
  char id[8];
  world_begin("r1", NULL);
  for (int i = 0; i < PD_RUN_CALLS_MAX; i++) {
    snprintf(id, sizeof id, "c%d", i);
    world_call(id);
  }
  assert_int_equal(pd_tool_call_begin(w.run, &(pd_tool_call){.id = "one-more", .name = "n"}, &w.err), PD_LIMIT);
  world_end("c7", PD_TOOL_SUCCEEDED);
  world_call("one-more");
  assert_int_equal(pd_run_info_get(w.run).calls, PD_RUN_CALLS_MAX);
  world_finish(PD_DONE_CANCELLED);
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
}

static void tool_call__a_run_with_open_calls_does_not_end_naturally(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("c1");
  world_call("c2");
  FAILS(pd_run_finish(w.run, PD_DONE_NATURAL, NULL, &w.err), PD_CONFLICT, "ToolCallsOpen");
  assert_false(pd_run_info_get(w.run).has_failed);
  world_finish(PD_DONE_STOPPED);
  assert_int_equal(pd_run_info_get(w.run).calls, 0);
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  assert_non_null(strstr(w.events, "checkpoint:RunFinished@2 tool_call:cancelled@2 tool_call:cancelled@2 run_finished:stopped@2"));
}

/* ---- waiting and decisions ---- */

/* seed 003: 25 */
static void tool_call__the_run_waits_when_all_its_calls_are_suspended(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("c1");
  world_call("c2");
  suspend("c1");
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_RUNNING);
  world_end("c2", PD_TOOL_SUCCEEDED);
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_WAITING);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/__run/status"), "\"waiting\"");
  assert_string_equal(world_active(), "r1");
  OK(resume("c1", "d1", NULL));
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_RUNNING);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/__run/status"), "\"running\"");
  assert_non_null(strstr(w.events, "run_status:waiting@1"));
  assert_non_null(strstr(w.events, "run_status:running@2"));
}

/* seed 003: 25, 46 */
static void tool_call__a_suspended_call_goes_on_in_another_process(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("c1");
  patch("c1", "[{\"op\":\"set\",\"path\":\"/so_far\",\"value\":1}]");
  suspend("c1");
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  OK(world_attach("r1"));
  assert_string_equal(calls(), "c1:suspended ");
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_WAITING);
  assert_string_equal(world_seen("/so_far"), "1");
  assert_string_equal(world_seen("/__tool_call_scope/c1/tool_call_state/request"), "{\"ask\":\"may I?\"}");
  OK(resume("c1", "d1", NULL));
  assert_string_equal(world_seen("/__tool_call_scope/c1/tool_call_state/decision"), "{\"id\":\"d1\",\"payload\":{\"ok\":true}}");
  world_call("c1");
  assert_string_equal(calls(), "c1:running ");
  world_end("c1", PD_TOOL_SUCCEEDED);
  world_finish(PD_DONE_NATURAL);
}

static void tool_call__a_decision_is_applied_once(void **state)
{
  (void)state;
  bool is_duplicate = true;
  world_begin("r1", NULL);
  world_call("c1");
  world_call("c2");
  suspend("c1");
  suspend("c2");
  OK(resume("c1", "d/1 \xe2\x82\xac", &is_duplicate));
  assert_false(is_duplicate);
  size_t patches = pd_run_info_get(w.run).patches;
  OK(resume("c1", "d/1 \xe2\x82\xac", &is_duplicate));
  assert_true(is_duplicate);
  assert_int_equal(pd_run_info_get(w.run).patches, patches);
  FAILS(resume("c2", "d/1 \xe2\x82\xac", NULL), PD_CONFLICT, "DecisionUsed");
  FAILS(resume("c1", "d2", NULL), PD_CONFLICT, "InvalidTransition");
  world_call("c1");
  world_end("c1", PD_TOOL_SUCCEEDED);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  OK(world_attach("r1")); /* another process is told it again, when the call has long ended */
  OK(resume("c1", "d/1 \xe2\x82\xac", &is_duplicate));
  assert_true(is_duplicate);
  assert_string_equal(calls(), "c2:suspended ");
}

static void tool_call__a_decision_can_cancel(void **state)
{
  (void)state;
  bool is_duplicate;
  pd_decision no = {.id = "no", .is_cancel = true};
  world_begin("r1", NULL);
  world_call("c1");
  suspend("c1");
  OK(pd_tool_call_resume(w.run, "c1", &no, NULL, &w.err));
  assert_string_equal(calls(), "");
  assert_string_equal(world_seen("/__tool_call_scope"), "-");
  OK(pd_tool_call_resume(w.run, "c1", &no, &is_duplicate, &w.err));
  assert_true(is_duplicate);
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_RUNNING);
  world_finish(PD_DONE_NATURAL);
}

static void tool_call__bad_decisions_are_refused(void **state)
{
  (void)state;
  char id[PD_RUN_DECISION_ID_SIZE_MAX + 2];
  memset(id, 'd', sizeof id);
  id[sizeof id - 1] = 0;
  world_begin("r1", NULL);
  world_call("c1");
  suspend("c1");
  FAILS(resume("c1", "", NULL), PD_INVALID, "InvalidId");
  FAILS(resume("c1", NULL, NULL), PD_INVALID, "InvalidId");
  FAILS(resume("c1", id, NULL), PD_INVALID, "InvalidId");
  FAILS(resume("c1", "\xff", NULL), PD_INVALID, "InvalidId");
  FAILS(resume("none", "d", NULL), PD_NOT_FOUND, "ToolCallNotFound");
  FAILS(pd_tool_call_resume(w.run, "c1", &(pd_decision){.id = "d", .payload = pd_text("{")}, NULL, &w.err), PD_INVALID, "InvalidArgument");
  assert_string_equal(calls(), "c1:suspended ");
}

/* ---- in parallel ---- */

static void note_conflict(void *ctx, const pd_tool_conflict *c)
{
  char *out = ctx;
  size_t at = strlen(out);
  snprintf(out + at, 1000 - at, "%s %s(%s) %s(%s)%s; ", c->other_id, c->path, c->op, c->other_path, c->other_op,
           c->is_settled ? " settled" : "");
}

static const char *conflicts(const char *call_id)
{
  static char out[1000];
  *out = 0;
  OK(pd_tool_call_conflicts(w.run, call_id, note_conflict, out, &w.err));
  return out;
}

static void tool_call__conflicting_patches_of_parallel_calls_are_reported(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("a");
  world_call("b");
  patch("a", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":1},{\"op\":\"set\",\"path\":\"/only_a\",\"value\":1}]");
  patch("b", "[{\"op\":\"set\",\"path\":\"/x/deep\",\"value\":2},{\"op\":\"set\",\"path\":\"/only_b\",\"value\":1}]");
  assert_string_equal(conflicts("b"), "a /x/deep(set) /x(set); ");
  world_end("a", PD_TOOL_SUCCEEDED);
  assert_string_equal(conflicts("b"), "a /x/deep(set) /x(set) settled; ");
  FAILS(end("b", PD_TOOL_SUCCEEDED), PD_CONFLICT, "PatchConflict");
  assert_non_null(strstr(w.err.message, "'/x/deep'"));
  assert_non_null(strstr(w.err.message, "'a'"));
  assert_string_equal(calls(), "b:running ");
  assert_string_equal(world_seen("/only_b"), "-");
  FAILS(pd_tool_call_suspend(w.run, "b", (pd_bytes){0}, &w.err), PD_CONFLICT, "PatchConflict");
  world_end("b", PD_TOOL_FAILED);
  assert_string_equal(world_seen("/x"), "1");
}

static void tool_call__a_conflict_can_be_forced(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("a");
  world_call("b");
  patch("a", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":1}]");
  patch("b", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":2}]");
  world_end("a", PD_TOOL_SUCCEEDED);
  OK(pd_tool_call_end(w.run, "b", &(pd_tool_result){.status = PD_TOOL_SUCCEEDED, .is_forced = true}, &w.err));
  assert_string_equal(world_seen("/x"), "2");
}

static void tool_call__calls_one_after_the_other_do_not_conflict(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("long"); /* runs all the time, and writes elsewhere */
  for (int i = 0; i < 3; i++) {
    world_call("a");
    patch("a", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":1}]");
    assert_string_equal(conflicts("a"), "");
    world_end("a", PD_TOOL_SUCCEEDED);
  }
  patch("long", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":2}]");
  FAILS(end("long", PD_TOOL_SUCCEEDED), PD_CONFLICT, "PatchConflict");
}

static void tool_call__lattice_merges_of_parallel_calls_do_not_conflict(void **state)
{
  (void)state;
  static const char max3[] = "[{\"op\":\"lattice_merge\",\"path\":\"/best\",\"lattice\":\"max\",\"value\":3}]";
  static const char max7[] = "[{\"op\":\"lattice_merge\",\"path\":\"/best\",\"lattice\":\"max\",\"value\":7}]";
  world_begin("r1", NULL);
  world_call("a");
  world_call("b");
  patch("a", max7);
  patch("b", max3);
  assert_string_equal(conflicts("a"), "");
  world_end("a", PD_TOOL_SUCCEEDED);
  world_end("b", PD_TOOL_SUCCEEDED);
  assert_string_equal(world_seen("/best"), "7");
}

static void tool_call__a_suspended_calls_patches_conflict_with_those_that_ran_beside_it(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("a");
  world_call("b");
  patch("a", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":1}]");
  suspend("a");
  patch("b", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":2}]");
  FAILS(end("b", PD_TOOL_SUCCEEDED), PD_CONFLICT, "PatchConflict");
  world_end("b", PD_TOOL_CANCELLED);
  OK(resume("a", "d", NULL)); /* what it writes now is later */
  patch("a", "[{\"op\":\"set\",\"path\":\"/x\",\"value\":3}]");
  world_end("a", PD_TOOL_SUCCEEDED);
  assert_string_equal(world_seen("/x"), "3");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(machines__a_run_goes_from_running_to_waiting_and_back_and_to_done_once),
    cmocka_unit_test(machines__a_tool_call_goes_only_where_it_may),
    cmocka_unit_test(machines__names_are_read_back_and_others_are_none),
    CASE(tool_call__its_state_is_told_in_its_scope_and_goes_when_it_ends),
    CASE(tool_call__patches_of_a_call_that_did_not_succeed_are_dropped),
    CASE(tool_call__wrong_moves_are_refused_and_change_nothing),
    CASE(tool_call__bad_input_is_refused),
    CASE(tool_call__a_run_has_at_most_a_hundred_open_calls),
    CASE(tool_call__a_run_with_open_calls_does_not_end_naturally),
    CASE(tool_call__the_run_waits_when_all_its_calls_are_suspended),
    CASE(tool_call__a_suspended_call_goes_on_in_another_process),
    CASE(tool_call__a_decision_is_applied_once),
    CASE(tool_call__a_decision_can_cancel),
    CASE(tool_call__bad_decisions_are_refused),
    CASE(tool_call__conflicting_patches_of_parallel_calls_are_reported),
    CASE(tool_call__a_conflict_can_be_forced),
    CASE(tool_call__calls_one_after_the_other_do_not_conflict),
    CASE(tool_call__lattice_merges_of_parallel_calls_do_not_conflict),
    CASE(tool_call__a_suspended_calls_patches_conflict_with_those_that_ran_beside_it),
  };
  return cmocka_run_group_tests_name("thread tool calls", tests, NULL, NULL);
}
