/* run_shared_test.c: one run, two handles: what another process committed stays, and reaches the handle that lost the race
 * (run_rebase.c). */
#include "thread/run_world.h"

/* The other process: its own handle of the thread and of the run. */
typedef struct other {
  pd_thread *t;
  pd_run_context *run;
} other;

static other other_attach(void)
{
  other o = {0};
  OK(pd_thread_open(w.store, "t", &o.t, &w.err));
  OK(pd_run_attach(o.t, &(pd_run_options){.now_ms = world_now}, &o.run, &w.err));
  return o;
}

static void other_close(other *o)
{
  pd_run_close(o->run);
  pd_thread_close(o->t);
}

static void other_commits(other *o)
{
  OK(pd_run_checkpoint(o->run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &w.err));
  other_close(o);
}

/* Another process begins a call and asks a question with it. */
static void other_asks(const char *call)
{
  other o = other_attach();
  OK(pd_tool_call_begin(o.run, &(pd_tool_call){.id = call, .name = "pay"}, &w.err));
  OK(pd_tool_call_suspend(o.run, call, pd_text("\"pay?\""), &w.err));
  other_commits(&o);
}

static void other_decides(const char *call, const char *decision, bool is_cancel)
{
  other o = other_attach();
  OK(pd_tool_call_resume(o.run, call, &(pd_decision){.id = decision, .is_cancel = is_cancel}, NULL, &w.err));
  other_commits(&o);
}

static void other_ends(const char *call, pd_tool_status status, const char *patches)
{
  other o = other_attach();
  if (patches) OK(pd_tool_call_patch(o.run, call, pd_text(patches), &w.err));
  OK(pd_tool_call_end(o.run, call, &(pd_tool_result){.status = status}, &w.err));
  other_commits(&o);
}

static void conflict_then_commit(void)
{
  FAILS(pd_run_checkpoint(w.run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &w.err), PD_CONFLICT, "VersionConflict");
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
}

static void list_one(void *ctx, const pd_tool_call_info *call)
{
  char *out = ctx;
  size_t at = strlen(out);
  snprintf(out + at, 1000 - at, "%s%s:%s", at ? " " : "", call->id, pd_tool_status_name(call->status));
}

/* "c1:running c2:suspended", as the handle has them. */
static const char *calls_here(void)
{
  static char out[1000];
  *out = 0;
  OK(pd_tool_call_list(w.run, list_one, out, &w.err));
  return out;
}

static void set_up(const char *call)
{
  world_begin("r1", NULL);
  world_call(call);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
}

#define PAY "[{\"op\":\"increment\",\"path\":\"/paid\",\"by\":100}]"

/* ---- what another process committed stays ---- */

static void shared__a_checkpoint_after_a_conflict_keeps_the_call_of_another_process(void **state)
{
  (void)state;
  set_up("c1");
  world_end("c1", PD_TOOL_SUCCEEDED);
  other_asks("c2");
  conflict_then_commit();
  assert_string_equal(world_stored("/__tool_call_scope/c1"), "-");
  assert_string_equal(world_stored("/__tool_call_scope/c2/tool_call_state/request"), "\"pay?\"");
  assert_string_equal(world_stored("/__run/status"), "\"waiting\"");
  assert_string_equal(calls_here(), "c2:suspended");
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_WAITING);
  other o = other_attach(); /* a third process can decide it, and the run cannot end as if nobody waited */
  FAILS(pd_run_finish(o.run, PD_DONE_NATURAL, NULL, &w.err), PD_CONFLICT, "ToolCallsOpen");
  OK(pd_tool_call_resume(o.run, "c2", &(pd_decision){.id = "d"}, NULL, &w.err));
  other_commits(&o);
}

static void shared__a_finish_after_a_conflict_cancels_the_calls_that_the_state_has(void **state)
{
  (void)state;
  set_up("c1");
  other_asks("c2");
  FAILS(pd_run_finish(w.run, PD_DONE_CANCELLED, NULL, &w.err), PD_CONFLICT, "VersionConflict");
  world_finish(PD_DONE_CANCELLED);
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  assert_string_equal(world_stored("/__run/done_reason"), "\"cancelled\"");
}

static void shared__patches_of_the_run_are_applied_to_what_others_made(void **state)
{
  (void)state;
  set_up("c1");
  OK(pd_run_patch(w.run, pd_text(PAY), &w.err));
  world_call("c3");
  other_ends("c1", PD_TOOL_SUCCEEDED, PAY);
  conflict_then_commit();
  assert_string_equal(world_stored("/paid"), "200");
  assert_string_equal(calls_here(), "c3:running");
  assert_string_equal(world_stored("/__tool_call_scope/c3/tool_call_state/status"), "\"running\"");
}

/* ---- calls that both had ---- */

static void shared__a_call_that_another_process_ended_does_not_bring_its_patches_twice(void **state)
{
  (void)state;
  set_up("c1");
  OK(pd_tool_call_patch(w.run, "c1", pd_text(PAY), &w.err));
  world_end("c1", PD_TOOL_SUCCEEDED);
  world_set("/note", "\"kept\"");
  other_ends("c1", PD_TOOL_SUCCEEDED, PAY);
  conflict_then_commit();
  assert_string_equal(world_stored("/paid"), "100");
  assert_string_equal(world_stored("/note"), "\"kept\"");
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
}

static void shared__a_call_keeps_what_it_brought_through_two_conflicts(void **state)
{
  (void)state;
  set_up("c1");
  OK(pd_tool_call_patch(w.run, "c1", pd_text(PAY), &w.err));
  world_set("/before", "1");
  world_end("c1", PD_TOOL_SUCCEEDED);
  world_set("/after", "1");
  other_asks("c2");
  FAILS(pd_run_checkpoint(w.run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &w.err), PD_CONFLICT, "VersionConflict");
  pd_buf delta = {0}; /* taking it settles the conflict, giving it back leaves the second one to come */
  OK(pd_run_take_delta(w.run, &delta, &w.err));
  OK(pd_run_put_delta(w.run, pd_buf_bytes(&delta), &w.err));
  other_decides("c2", "d1", true);
  conflict_then_commit();
  assert_string_equal(world_stored("/paid"), "100");
  assert_string_equal(world_stored("/before"), "1");
  assert_string_equal(world_stored("/after"), "1");
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  pd_buf_done(&delta);
}

static void shared__a_call_that_runs_here_and_was_ended_elsewhere_is_lost_and_told(void **state)
{
  (void)state;
  set_up("c1");
  OK(pd_tool_call_patch(w.run, "c1", pd_text(PAY), &w.err));
  world_message("m1");
  other_ends("c1", PD_TOOL_CANCELLED, NULL);
  conflict_then_commit();
  assert_string_equal(calls_here(), "");
  assert_non_null(strstr(w.events, "tool_call:cancelled"));
  assert_string_equal(world_stored("/paid"), "-");
  world_finish(PD_DONE_ERROR);
}

static void shared__a_decision_that_both_gave_is_applied_once(void **state)
{
  (void)state;
  set_up("c1");
  OK(pd_tool_call_suspend(w.run, "c1", pd_text("1"), &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  OK(pd_tool_call_resume(w.run, "c1", &(pd_decision){.id = "d1"}, NULL, &w.err));
  OK(pd_tool_call_begin(w.run, &(pd_tool_call){.id = "c1", .name = "search"}, &w.err));
  world_message("m1");
  other_decides("c1", "d1", false);
  conflict_then_commit();
  assert_string_equal(calls_here(), "c1:resuming"); /* as the one who was first left it */
  assert_string_equal(world_stored("/__run/decisions/d1"), "\"c1\"");
}

static void shared__a_call_begun_here_and_elsewhere_under_one_id_is_that_of_who_was_first(void **state)
{
  (void)state;
  set_up("c1");
  world_call("c2");
  world_message("m1");
  other_asks("c2");
  conflict_then_commit();
  assert_string_equal(calls_here(), "c1:running c2:suspended");
  assert_string_equal(world_stored("/__tool_call_scope/c2/tool_call_state/name"), "\"pay\"");
}

/* ---- decisions ---- */

static void shared__a_decision_of_another_process_reaches_the_handle_with_a_checkpoint(void **state)
{
  (void)state;
  set_up("c1");
  OK(pd_tool_call_suspend(w.run, "c1", pd_text("1"), &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(calls_here(), "c1:suspended");
  other_decides("c1", "d1", false);
  pd_run_ack ack = world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED); /* nothing to commit: it looks what others did */
  assert_false(ack.is_committed);
  assert_int_equal(ack.version, world_version());
  assert_string_equal(calls_here(), "c1:resuming");
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_RUNNING);
  assert_false(pd_run_info_get(w.run).has_failed);
  world_call("c1");
  world_end("c1", PD_TOOL_SUCCEEDED);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  world_finish(PD_DONE_NATURAL);
}

static void shared__a_run_that_another_process_finished_is_lost_at_the_next_checkpoint(void **state)
{
  (void)state;
  set_up("c1");
  other o = other_attach();
  OK(pd_run_finish(o.run, PD_DONE_STOPPED, NULL, &w.err));
  other_close(&o);
  FAILS(pd_run_checkpoint(w.run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &w.err), PD_CONFLICT, "RunLost");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(shared__a_checkpoint_after_a_conflict_keeps_the_call_of_another_process),
    CASE(shared__a_finish_after_a_conflict_cancels_the_calls_that_the_state_has),
    CASE(shared__patches_of_the_run_are_applied_to_what_others_made),
    CASE(shared__a_call_that_another_process_ended_does_not_bring_its_patches_twice),
    CASE(shared__a_call_keeps_what_it_brought_through_two_conflicts),
    CASE(shared__a_call_that_runs_here_and_was_ended_elsewhere_is_lost_and_told),
    CASE(shared__a_decision_that_both_gave_is_applied_once),
    CASE(shared__a_call_begun_here_and_elsewhere_under_one_id_is_that_of_who_was_first),
    CASE(shared__a_decision_of_another_process_reaches_the_handle_with_a_checkpoint),
    CASE(shared__a_run_that_another_process_finished_is_lost_at_the_next_checkpoint),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
