/* run_test.c: the life of a run: beginning, the schedule of checkpoints, the delta, finishing. */
#include "thread/run_world.h"

#define M(id) "{\"id\":\"" id "\",\"role\":\"user\"}"

/* ---- the schedule ---- */

/* seed 003: 09, 13, 17, 20, 21, 22, 23, 24, 25, 26, 32 */
static void run__a_whole_run_makes_the_checkpoints_of_the_schedule_in_order(void **state)
{
  (void)state;
  world_begin("r1", "[" M("u1") "]");
  world_set("/plugin/ready", "true");
  assert_int_equal(world_checkpoint(PD_REASON_USER_MESSAGE).version, 2);
  world_call("replayed");
  world_end("replayed", PD_TOOL_SUCCEEDED);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  world_message("a1");
  world_checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED);
  world_call("c1");
  OK(pd_tool_call_end(w.run, "c1", &(pd_tool_result){.status = PD_TOOL_SUCCEEDED, .message = pd_text(M("tool1"))}, &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_int_equal(pd_run_info_get(w.run).version, 5);
  assert_int_equal(world_finish(PD_DONE_NATURAL).version, 6);
  assert_string_equal(world_reasons(),
                      "UserMessage UserMessage ToolResultsCommitted AssistantTurnCommitted ToolResultsCommitted RunFinished");
  assert_string_equal(w.events, "run_started@1 checkpoint:UserMessage@2 tool_call:running@2 tool_call:succeeded@2 "
                                "checkpoint:ToolResultsCommitted@3 checkpoint:AssistantTurnCommitted@4 tool_call:running@4 "
                                "tool_call:succeeded@4 checkpoint:ToolResultsCommitted@5 checkpoint:RunFinished@6 run_finished:natural@6");
}

/* seed 003: 27 */
static void run__finishing_commits_even_without_a_delta(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  assert_int_equal(world_version(), 1);
  pd_run_ack ack = world_finish(PD_DONE_STOPPED);
  assert_true(ack.is_committed && ack.version == 2 && !ack.is_duplicate);
  assert_int_equal(world_version(), 2);
  assert_string_equal(world_reasons(), "UserMessage RunFinished");
  assert_string_equal(world_stored("/__run/status"), "\"done\"");
  assert_string_equal(world_stored("/__run/done_reason"), "\"stopped\"");
}

static void run__another_checkpoint_without_a_delta_commits_nothing(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  for (int reason = PD_REASON_USER_MESSAGE; reason <= PD_REASON_TOOL_RESULTS_COMMITTED; reason++) {
    pd_run_ack ack = world_checkpoint((pd_reason)reason);
    assert_true(!ack.is_committed && ack.version == 1);
  }
  assert_int_equal(world_version(), 1);
}

static void run__reasons_that_are_none_are_refused(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_message("m1");
  FAILS(pd_run_checkpoint(w.run, PD_REASON_NONE, NULL, &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_run_checkpoint(w.run, PD_REASON_COUNT, NULL, &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_run_checkpoint(w.run, PD_REASON_RUN_FINISHED, NULL, &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_run_finish(w.run, PD_DONE_NONE, NULL, &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_run_finish(w.run, PD_DONE_COUNT, NULL, &w.err), PD_INVALID, "InvalidArgument");
  assert_false(pd_run_info_get(w.run).has_failed);
  assert_int_equal(world_version(), 1);
}

/* ---- inbound ---- */

/* seed 003: 16, 18 */
static void run__inbound_messages_are_committed_once_by_id(void **state)
{
  (void)state;
  world_begin("r1", "[" M("u1") "," M("u2") "]");
  world_finish(PD_DONE_NATURAL);
  world_begin("r2", "[" M("u2") "," M("u3") "," M("u3") "]");
  pd_thread_info info;
  OK(pd_thread_info_get(w.t, &info, &w.err));
  assert_int_equal(info.message_count, 3);
  pd_thread_point point;
  OK(pd_thread_point_get(w.t, 1, &point, &w.err));
  assert_int_equal(point.message_count, 2);
}

/* seed 003: 11, 14, 19 */
static void run__an_inbound_snapshot_replaces_the_state(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_set("/old", "1");
  world_checkpoint(PD_REASON_USER_MESSAGE);
  world_finish(PD_DONE_NATURAL);
  pd_run_options options = world_options("r2");
  options.snapshot = pd_text("{\"fresh\":[1,2],\"__run\":{\"status\":\"done\",\"leak\":1},\"__tool_call_scope\":{\"x\":{}}}");
  pd_run_close(w.run);
  OK(pd_run_begin(w.t, &options, &w.run, &w.err));
  assert_string_equal(world_stored("/fresh"), "[1,2]");
  assert_string_equal(world_stored("/old"), "-");
  assert_string_equal(world_stored("/__run/leak"), "-");
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  assert_string_equal(world_stored("/__run/id"), "\"r2\"");
  assert_non_null(strstr(world_delta(world_version()), "\"snapshot\":{"));
}

/* seed 003: 15 */
static void run__loop_checkpoints_hold_messages_and_patches_and_no_snapshot(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_message("a1");
  world_set("/x", "1");
  OK(pd_run_action(w.run, pd_text(" {\"type\" : \"Bump\"} "), &w.err));
  world_checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED);
  const char *delta = world_delta(2);
  assert_non_null(strstr(delta, "\"patches\":[{\"op\":\"set\",\"path\":\"/x\",\"value\":1}]"));
  assert_non_null(strstr(delta, "\"state_actions\":[{\"type\":\"Bump\"}]"));
  assert_non_null(strstr(delta, "\"id\":\"a1\""));
  assert_null(strstr(delta, "snapshot"));
}

static void run__meta_and_parent_are_kept_with_the_run(void **state)
{
  (void)state;
  pd_run_options options = world_options("child");
  options.parent_run_id = "mother";
  options.meta = pd_text("{\"agent\":\"planner\"}");
  OK(pd_run_begin(w.t, &options, &w.run, &w.err));
  assert_string_equal(pd_run_info_get(w.run).parent_run_id, "mother");
  assert_non_null(strstr(world_delta(1), "\"run_meta\":{\"agent\":\"planner\"}"));
  assert_non_null(strstr(world_delta(1), "\"parent_run_id\":\"mother\""));
  OK(world_attach("child"));
  assert_string_equal(pd_run_info_get(w.run).parent_run_id, "mother");
}

static void run__a_run_without_an_id_gets_one(void **state)
{
  (void)state;
  OK(pd_run_begin(w.t, NULL, &w.run, &w.err));
  assert_int_equal(strlen(pd_run_info_get(w.run).run_id), 32);
  assert_string_equal(world_active(), pd_run_info_get(w.run).run_id);
}

static void run__bad_inbound_is_refused_whole(void **state)
{
  (void)state;
  static const struct {
    const char *run_id, *messages, *snapshot, *meta, *name;
  } bad[] = {
    {"../x", NULL, NULL, NULL, "InvalidId"},
    {"", NULL, NULL, NULL, "InvalidId"},
    {"a/b", NULL, NULL, NULL, "InvalidId"},
    {"r", "[{\"role\":\"user\"}]", NULL, NULL, "InvalidChangeSet"},
    {"r", "[1]", NULL, NULL, "InvalidChangeSet"},
    {"r", "{}", NULL, NULL, "InvalidChangeSet"},
    {"r", NULL, "[]", NULL, "InvalidChangeSet"},
    {"r", NULL, "{", NULL, "InvalidChangeSet"},
    {"r", NULL, "{\"a\":1,\"a\":2}", NULL, "InvalidChangeSet"},
    {"r", NULL, NULL, "[]", "InvalidChangeSet"},
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_run_options options = world_options(bad[i].run_id);
    if (bad[i].messages) options.messages = pd_text(bad[i].messages);
    if (bad[i].snapshot) options.snapshot = pd_text(bad[i].snapshot);
    if (bad[i].meta) options.meta = pd_text(bad[i].meta);
    FAILS(pd_run_begin(w.t, &options, &w.run, &w.err), PD_INVALID, bad[i].name);
    assert_null(w.run);
  }
  assert_int_equal(world_version(), 0);
  assert_string_equal(world_active(), "");
}

/* ---- one active run ---- */

static void run__a_thread_has_one_active_run(void **state)
{
  (void)state;
  pd_run_options options = world_options("r2");
  pd_run_context *other = NULL;
  world_begin("r1", NULL);
  FAILS(pd_run_begin(w.t, &options, &other, &w.err), PD_CONFLICT, "RunActive");
  assert_non_null(strstr(w.err.message, "'r1'"));
  assert_string_equal(w.events, "run_started@1");
  world_finish(PD_DONE_CANCELLED);
  OK(pd_run_begin(w.t, &options, &other, &w.err));
  assert_string_equal(world_active(), "r2");
  pd_run_close(other);
}

static void run__the_id_of_a_run_is_used_once(void **state)
{
  (void)state;
  pd_run_options options = world_options("r1");
  pd_run_context *other = NULL;
  world_begin("r1", NULL);
  FAILS(pd_run_begin(w.t, &options, &other, &w.err), PD_EXISTS, "RunExists");
  world_finish(PD_DONE_NATURAL);
  FAILS(pd_run_begin(w.t, &options, &other, &w.err), PD_EXISTS, "RunExists");
  assert_null(other);
}

static void run__a_run_of_a_dead_process_can_be_gone_on_with_and_ended(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_set("/x", "1");
  world_checkpoint(PD_REASON_USER_MESSAGE);
  world_set("/x", "2"); /* never committed */
  OK(world_attach(NULL));
  assert_string_equal(pd_run_info_get(w.run).run_id, "r1");
  assert_string_equal(world_seen("/x"), "1");
  assert_int_equal(pd_run_info_get(w.run).version, 2);
  world_set("/x", "3");
  world_finish(PD_DONE_ERROR);
  assert_string_equal(world_stored("/x"), "3");
  assert_string_equal(world_stored("/__run/done_reason"), "\"error\"");
}

static void run__attaching_knows_what_is_not_there(void **state)
{
  (void)state;
  FAILS(world_attach(NULL), PD_NOT_FOUND, "RunNotFound");
  FAILS(world_attach("r9"), PD_NOT_FOUND, "RunNotFound");
  FAILS(world_attach("a b"), PD_INVALID, "InvalidId");
  pd_run_options options = world_options("r9");
  options.messages = pd_text("[]");
  FAILS(pd_run_attach(w.t, &options, &w.run, &w.err), PD_INVALID, "InvalidArgument");
}

static void run__a_fork_has_no_active_run_and_begins_clean(void **state)
{
  (void)state;
  pd_thread *fork = NULL;
  pd_run_context *other = NULL;
  world_begin("r1", NULL);
  world_call("c1");
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  OK(pd_thread_fork(w.t, PD_VERSION_HEAD, &(pd_thread_options){.id = "f"}, &fork, &w.err));
  pd_run_options options = world_options("r1");
  FAILS(pd_run_attach(fork, &options, &other, &w.err), PD_CONFLICT, "RunNotActive");
  options.run_id = "r2";
  OK(pd_run_begin(fork, &options, &other, &w.err));
  OK(pd_thread_state(fork, PD_VERSION_HEAD, "/__run/id", &w.text, &w.err));
  assert_string_equal(world_answer(PD_OK), "\"r2\"");
  FAILS(pd_thread_state(fork, PD_VERSION_HEAD, "/__tool_call_scope", &w.text, &w.err), PD_NOT_FOUND, "PathNotFound");
  pd_run_close(other);
  pd_thread_close(fork);
  assert_string_equal(world_active(), "r1");
}

/* ---- finishing ---- */

static void run__a_duplicate_finish_is_recognised(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_finish(PD_DONE_NATURAL);
  size_t events = strlen(w.events);
  pd_run_ack ack = world_finish(PD_DONE_NATURAL);
  assert_true(ack.is_duplicate && !ack.is_committed && ack.version == 2);
  assert_int_equal(strlen(w.events), events);
  FAILS(pd_run_finish(w.run, PD_DONE_ERROR, NULL, &w.err), PD_CONFLICT, "RunDone");
  assert_int_equal(world_version(), 2);
}

static void run__a_duplicate_finish_is_recognised_by_another_handle_and_after_other_runs(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_finish(PD_DONE_STOPPED);
  OK(world_attach("r1"));
  assert_true(world_finish(PD_DONE_STOPPED).is_duplicate);
  world_begin("r2", NULL);
  OK(world_attach("r1"));
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_DONE);
  assert_int_equal(pd_run_info_get(w.run).done_reason, PD_DONE_STOPPED);
  assert_true(world_finish(PD_DONE_STOPPED).is_duplicate);
  FAILS(pd_run_finish(w.run, PD_DONE_NATURAL, NULL, &w.err), PD_CONFLICT, "RunDone");
  assert_string_equal(world_active(), "r2");
}

static void run__a_done_run_is_never_reopened(void **state)
{
  (void)state;
  pd_buf delta = {0};
  world_begin("r1", NULL);
  world_finish(PD_DONE_NATURAL);
  for (int again = 0; again < 2; again++) {
    FAILS(pd_run_message(w.run, pd_text(M("m")), &w.err), PD_CONFLICT, "RunDone");
    FAILS(pd_run_patch(w.run, pd_text("[]"), &w.err), PD_CONFLICT, "RunDone");
    FAILS(pd_run_action(w.run, pd_text("{}"), &w.err), PD_CONFLICT, "RunDone");
    FAILS(pd_run_checkpoint(w.run, PD_REASON_USER_MESSAGE, NULL, &w.err), PD_CONFLICT, "RunDone");
    FAILS(pd_run_put_delta(w.run, pd_text("{}"), &w.err), PD_CONFLICT, "RunDone");
    FAILS(pd_tool_call_begin(w.run, &(pd_tool_call){.id = "c", .name = "n"}, &w.err), PD_CONFLICT, "RunDone");
    OK(world_attach("r1"));
  }
  OK(pd_run_take_delta(w.run, &delta, &w.err));
  pd_buf_done(&delta);
  assert_int_equal(world_version(), 2);
}

static void run__every_done_reason_is_kept(void **state)
{
  (void)state;
  for (int reason = PD_DONE_NATURAL; reason < PD_DONE_COUNT; reason++) {
    char id[8], expected[32];
    snprintf(id, sizeof id, "r%d", reason);
    snprintf(expected, sizeof expected, "\"%s\"", pd_done_reason_name((pd_done_reason)reason));
    world_begin(id, NULL);
    world_finish((pd_done_reason)reason);
    assert_string_equal(world_stored("/__run/done_reason"), expected);
    assert_string_equal(world_active(), "");
  }
}

/* ---- the delta ---- */

/* seed 003: 06, 10 */
static void run__taking_the_delta_gives_messages_patches_and_state_actions(void **state)
{
  (void)state;
  pd_buf delta = {0};
  world_begin("r1", NULL);
  OK(pd_run_message(w.run, pd_text(" { \"id\" : \"m1\" } "), &w.err));
  world_set("/a", "[1, 2]");
  OK(pd_run_action(w.run, pd_text("{\"t\":1}"), &w.err));
  pd_run_info info = pd_run_info_get(w.run);
  assert_true(info.messages == 1 && info.patches == 1 && info.state_actions == 1);
  OK(pd_run_take_delta(w.run, &delta, &w.err));
  OK(pd_buf_byte(&delta, 0, &w.err));
  assert_string_equal((char *)delta.data, "{\"messages\":[{\"id\":\"m1\"}],\"patches\":[{\"op\":\"set\",\"path\":\"/a\",\"value\":[1,2]}],"
                                          "\"state_actions\":[{\"t\":1}]}");
  assert_string_equal(world_seen("/a"), "-");
  assert_false(world_checkpoint(PD_REASON_USER_MESSAGE).is_committed);
  world_set("/b", "2");
  delta.size--;
  OK(pd_run_put_delta(w.run, pd_buf_bytes(&delta), &w.err));
  assert_string_equal(world_seen("/a"), "[1,2]");
  assert_true(world_checkpoint(PD_REASON_USER_MESSAGE).is_committed);
  assert_non_null(strstr(world_delta(2), "\"path\":\"/a\",\"value\":[1,2]},{\"op\":\"set\",\"path\":\"/b\""));
  pd_buf_done(&delta);
}

static void run__a_bad_delta_is_not_taken_back(void **state)
{
  (void)state;
  static const char *const bad[] = {"",
                                    "[]",
                                    "{\"messages\":{}}",
                                    "{\"messages\":[{}]}",
                                    "{\"messages\":[1]}",
                                    "{\"patches\":[{\"op\":\"fly\",\"path\":\"/a\"}]}",
                                    "{\"patches\":[{\"op\":\"increment\",\"path\":\"/s\",\"by\":1}]}",
                                    "{\"extra\":[]}",
                                    "{\"unsettled\":{}}",
                                    "{\"unsettled\":{\"reason\":\"UserMessage\",\"version\":-1}}",
                                    "{\"patches\":[],\"patches\":[]}"};
  world_begin("r1", NULL);
  world_set("/s", "\"text\"");
  world_checkpoint(PD_REASON_USER_MESSAGE);
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    if (pd_run_put_delta(w.run, pd_text(bad[i]), &w.err) != PD_INVALID) fail_msg("case %zu", i);
  assert_int_equal(pd_run_info_get(w.run).patches, 0);
  assert_string_equal(world_seen("/s"), "\"text\"");
}

static void run__the_run_sees_its_own_delta_and_others_do_not(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_set("/n", "1");
  OK(pd_run_patch(w.run, pd_text("[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":4}]"), &w.err));
  assert_string_equal(world_seen("/n"), "5");
  assert_string_equal(world_stored("/n"), "-");
  world_checkpoint(PD_REASON_USER_MESSAGE);
  assert_string_equal(world_stored("/n"), "5");
  assert_string_equal(world_seen("/n"), "5");
  FAILS(pd_run_state(w.run, "/none", &w.text, &w.err), PD_NOT_FOUND, "PathNotFound");
  FAILS(pd_run_state(w.run, "none", &w.text, &w.err), PD_INVALID, "InvalidArgument");
}

static void run__bad_patches_are_refused_when_they_are_told(void **state)
{
  (void)state;
  static const struct {
    const char *patches, *name;
  } bad[] = {
    {"{}", "InvalidPatch"},
    {"[1]", "InvalidPatch"},
    {"[{\"op\":\"set\"}]", "InvalidPatch"},
    {"[{\"op\":\"set\",\"path\":\"/ok\",\"value\":1},{\"op\":\"increment\",\"path\":\"/s\",\"by\":1}]", "InvalidPatch"},
    {"[{\"op\":\"set\",\"path\":[\"s\",\"x\"],\"value\":1}]", "InvalidPatch"},
    {"[{\"op\":\"set\",\"path\":\"/__run/status\",\"value\":\"done\"}]", "ReservedPath"},
    {"[{\"op\":\"delete\",\"path\":\"/__run\"}]", "ReservedPath"},
    {"[{\"op\":\"merge_object\",\"path\":[],\"value\":{\"__run\":{}}}]", "ReservedPath"},
    {"[{\"op\":\"set\",\"path\":[],\"value\":{}}]", "ReservedPath"},
    {"[{\"op\":\"set\",\"path\":\"/__tool_call_scope/c1/x\",\"value\":1}]", "ReservedPath"},
    {"[{\"op\":\"delete\",\"path\":[\"__tool_call_scope\"]}]", "ReservedPath"},
  };
  world_begin("r1", NULL);
  world_set("/s", "\"text\"");
  world_call("c1");
  size_t patches = pd_run_info_get(w.run).patches;
  for (size_t i = 0; i < COUNT_OF(bad); i++) FAILS(pd_run_patch(w.run, pd_text(bad[i].patches), &w.err), PD_INVALID, bad[i].name);
  assert_int_equal(pd_run_info_get(w.run).patches, patches);
  assert_string_equal(world_seen("/ok"), "-");
  assert_string_equal(world_seen("/__run/status"), "\"running\"");
  world_checkpoint(PD_REASON_USER_MESSAGE);
}

static void run__bad_messages_and_actions_are_refused_when_they_are_told(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "", "1", "[]", "{", "{}", "{\"id\":1}", "{\"id\":\"\"}", "{\"id\":\"a/b\"}", "{\"id\":\"a\",\"id\":\"b\"}"};
  world_begin("r1", NULL);
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(pd_run_message(w.run, pd_text(bad[i]), &w.err), PD_INVALID);
  for (size_t i = 0; i < 4; i++) assert_int_equal(pd_run_action(w.run, pd_text(bad[i]), &w.err), PD_INVALID);
  assert_int_equal(pd_run_info_get(w.run).messages, 0);
  assert_false(world_checkpoint(PD_REASON_USER_MESSAGE).is_committed);
}

static void run__a_delta_has_limits_and_a_full_one_can_still_be_committed(void **state)
{
  (void)state;
  pd_buf text = {0};
  world_begin("r1", NULL);
  world_call("c1");
  size_t room = 4 * 1024 * 1024, count = 0;
  for (;;) {
    pd_buf_clear(&text);
    OK(pd_buf_printf(&text, &w.err, "{\"id\":\"m%zu\",\"content\":\"", count));
    for (size_t i = 0; i < room; i++) OK(pd_buf_byte(&text, 'x', &w.err));
    OK(pd_buf_printf(&text, &w.err, "\"}"));
    if (pd_run_message(w.run, pd_buf_bytes(&text), &w.err) == PD_OK) {
      count++;
      continue;
    }
    assert_int_equal(w.err.code, PD_LIMIT);
    if (room < 64) break;
    room /= 2;
  }
  pd_buf_done(&text);
  world_finish(PD_DONE_CANCELLED);
  pd_thread_info info;
  OK(pd_thread_info_get(w.t, &info, &w.err));
  assert_true(count > 3);
  assert_int_equal(info.message_count, count);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(run__a_whole_run_makes_the_checkpoints_of_the_schedule_in_order),
    CASE(run__finishing_commits_even_without_a_delta),
    CASE(run__another_checkpoint_without_a_delta_commits_nothing),
    CASE(run__reasons_that_are_none_are_refused),
    CASE(run__inbound_messages_are_committed_once_by_id),
    CASE(run__an_inbound_snapshot_replaces_the_state),
    CASE(run__loop_checkpoints_hold_messages_and_patches_and_no_snapshot),
    CASE(run__meta_and_parent_are_kept_with_the_run),
    CASE(run__a_run_without_an_id_gets_one),
    CASE(run__bad_inbound_is_refused_whole),
    CASE(run__a_thread_has_one_active_run),
    CASE(run__the_id_of_a_run_is_used_once),
    CASE(run__a_run_of_a_dead_process_can_be_gone_on_with_and_ended),
    CASE(run__attaching_knows_what_is_not_there),
    CASE(run__a_fork_has_no_active_run_and_begins_clean),
    CASE(run__a_duplicate_finish_is_recognised),
    CASE(run__a_duplicate_finish_is_recognised_by_another_handle_and_after_other_runs),
    CASE(run__a_done_run_is_never_reopened),
    CASE(run__every_done_reason_is_kept),
    CASE(run__taking_the_delta_gives_messages_patches_and_state_actions),
    CASE(run__a_bad_delta_is_not_taken_back),
    CASE(run__the_run_sees_its_own_delta_and_others_do_not),
    CASE(run__bad_patches_are_refused_when_they_are_told),
    CASE(run__bad_messages_and_actions_are_refused_when_they_are_told),
    CASE(run__a_delta_has_limits_and_a_full_one_can_still_be_committed),
  };
  return cmocka_run_group_tests_name("thread run", tests, NULL, NULL);
}
