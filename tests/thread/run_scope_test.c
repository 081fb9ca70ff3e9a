/* run_scope_test.c: scopes: the registry, what prepare_run deletes, and that nothing leaks from one run into the next. */
#include "thread/run_world.h"

static void add(const char *path, pd_scope scope)
{
  OK(pd_scopes_add(w.scopes, path, scope, &w.err));
}

static int open_scopes(void **state)
{
  world_open(state);
  OK(pd_scopes_new(&w.scopes, &w.err));
  return 0;
}

/* ---- the registry ---- */

static void note_path(void *ctx, const char *path, pd_scope scope)
{
  char *out = ctx;
  size_t at = strlen(out);
  snprintf(out + at, 400 - at, "%s:%s ", path, pd_scope_name(scope));
}

/* seed 003: 33, 37 */
static void scopes__the_registry_tells_the_run_scoped_paths(void **state)
{
  (void)state;
  char out[400] = "";
  add("/trip", PD_SCOPE_THREAD);
  add("plugin.counters", PD_SCOPE_RUN);
  add("/plugin/approval", PD_SCOPE_TOOL_CALL);
  add("/plugin/counters", PD_SCOPE_RUN); /* again */
  OK(pd_scopes_list(w.scopes, PD_SCOPE_RUN, note_path, out, &w.err));
  assert_string_equal(out, "/__run:run /__kernel/stop_policy_runtime:run /plugin/counters:run ");
  *out = 0;
  OK(pd_scopes_list(w.scopes, 0, note_path, out, &w.err));
  assert_non_null(strstr(out, "/trip:thread "));
  assert_non_null(strstr(out, "/plugin/approval:tool_call "));
}

static void scopes__a_path_has_the_scope_of_what_it_lies_in_and_else_the_threads(void **state)
{
  (void)state;
  static const struct {
    const char *path;
    pd_scope scope;
  } expected[] = {
    {"/notes", PD_SCOPE_THREAD},      {"/notes/tmp", PD_SCOPE_RUN},
    {"/notes/tmp/3", PD_SCOPE_RUN},   {"/notes/other", PD_SCOPE_THREAD},
    {"/unknown", PD_SCOPE_THREAD},    {"", PD_SCOPE_THREAD},
    {"/__run/status", PD_SCOPE_RUN},  {"__kernel.stop_policy_runtime.x", PD_SCOPE_RUN},
    {"/__kernel", PD_SCOPE_THREAD},   {"/scratch/a", PD_SCOPE_TOOL_CALL},
    {"/notes/tmpx", PD_SCOPE_THREAD}, {"/__tool_call_scope/c/x", PD_SCOPE_TOOL_CALL},
  };
  add("notes", PD_SCOPE_THREAD);
  add("notes.tmp", PD_SCOPE_RUN);
  add("scratch", PD_SCOPE_TOOL_CALL);
  for (size_t i = 0; i < COUNT_OF(expected); i++) {
    pd_scope scope;
    OK(pd_scopes_find(w.scopes, expected[i].path, &scope, &w.err));
    if (scope != expected[i].scope) fail_msg("%s is %s", expected[i].path, pd_scope_name(scope));
  }
}

static void scopes__paths_of_different_scopes_must_not_overlap(void **state)
{
  (void)state;
  add("/a", PD_SCOPE_RUN);
  add("/t/deep", PD_SCOPE_THREAD);
  add("/c", PD_SCOPE_TOOL_CALL);
  FAILS(pd_scopes_add(w.scopes, "/a", PD_SCOPE_THREAD, &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_scopes_add(w.scopes, "/a/b", PD_SCOPE_THREAD, &w.err), PD_INVALID, "InvalidScope"); /* would go with /a */
  FAILS(pd_scopes_add(w.scopes, "/t", PD_SCOPE_RUN, &w.err), PD_INVALID, "InvalidScope");      /* would take /t/deep with it */
  FAILS(pd_scopes_add(w.scopes, "/c/x", PD_SCOPE_RUN, &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_scopes_add(w.scopes, "/a/x", PD_SCOPE_TOOL_CALL, &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_scopes_add(w.scopes, "", PD_SCOPE_RUN, &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_scopes_add(w.scopes, "/__tool_call_scope/x", PD_SCOPE_RUN, &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_scopes_add(w.scopes, "/__run/x", PD_SCOPE_THREAD, &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_scopes_add(w.scopes, "/x", (pd_scope)9, &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_scopes_add(w.scopes, "/x~2", PD_SCOPE_RUN, &w.err), PD_INVALID, "InvalidArgument");
  FAILS(pd_scopes_add(w.scopes, "/\xff", PD_SCOPE_RUN, &w.err), PD_INVALID, "InvalidArgument");
  OK(pd_scopes_add(w.scopes, "/t/deep/tmp", PD_SCOPE_RUN, &w.err));
}

static void scopes__a_registry_has_a_limit(void **state)
{
  (void)state;
  char path[32];
  pd_code code = PD_OK;
  int i = 0;
  for (; !code && i < 2 * PD_SCOPES_MAX; i++) {
    snprintf(path, sizeof path, "/p%d", i);
    code = pd_scopes_add(w.scopes, path, PD_SCOPE_RUN, &w.err);
  }
  assert_int_equal(code, PD_LIMIT);
  assert_int_equal(i, PD_SCOPES_MAX - 2 + 1);
}

/* ---- cleaning ---- */

/* seed 003: 35, 38, 39 */
static void scopes__prepare_run_deletes_run_scoped_paths_before_the_run_is_marked_running(void **state)
{
  (void)state;
  add("/plugin/counters", PD_SCOPE_RUN);
  add("/absent", PD_SCOPE_RUN);
  world_begin("r1", NULL);
  world_set("/plugin/counters", "{\"a\":1}");
  world_set("/plugin/kept", "2");
  world_set("/__kernel/stop_policy_runtime", "{\"rounds\":9}");
  world_finish(PD_DONE_NATURAL);
  assert_string_equal(world_stored("/plugin/counters"), "{\"a\":1}"); /* until the next run: it can be looked at */
  world_begin("r2", NULL);
  assert_string_equal(world_stored("/plugin"), "{\"kept\":2}");
  assert_string_equal(world_stored("/__kernel/stop_policy_runtime"), "-");
  assert_string_equal(world_stored("/__run/done_reason"), "-");
  const char *delta = world_delta(world_version());
  const char *run = strstr(delta, "{\"op\":\"delete\",\"path\":\"/__run\"}");
  const char *counters = strstr(delta, "{\"op\":\"delete\",\"path\":\"/plugin/counters\"}");
  const char *marked = strstr(delta, "\"status\":\"running\"");
  assert_true(run && counters && marked && run < marked && counters < marked);
  assert_null(strstr(delta, "\"path\":\"/absent\"")); /* only what is there */
}

/* seed 003: 34, 41, 44 */
static void scopes__thread_scoped_state_stays_across_runs_and_reloads(void **state)
{
  (void)state;
  add("/trip", PD_SCOPE_THREAD);
  world_begin("r1", NULL);
  world_set("/trip", "{\"to\":\"Rome\"}");
  world_set("/notes", "[1]");
  world_finish(PD_DONE_NATURAL);
  for (int i = 0; i < 3; i++) {
    char id[8];
    snprintf(id, sizeof id, "s%d", i);
    world_begin(id, NULL);
    world_finish(PD_DONE_ERROR);
    pd_thread_close(w.t);
    OK(pd_thread_open(w.store, "t", &w.t, &w.err));
    assert_string_equal(world_stored("/trip/to"), "\"Rome\"");
    assert_string_equal(world_stored("/notes"), "[1]");
    pd_run_close(w.run);
    w.run = NULL;
  }
}

/* Whatever a run may do to leave something in a Run-scoped path. */
static const char *const leaks[] = {
  "[{\"op\":\"set\",\"path\":\"/secret\",\"value\":1}]",
  "[{\"op\":\"set\",\"path\":[\"secret\",\"deep\",\"er\"],\"value\":1}]",
  "[{\"op\":\"merge_object\",\"path\":[],\"value\":{\"secret\":{\"x\":1}}}]",
  "[{\"op\":\"append\",\"path\":\"/secret\",\"value\":1}]",
  "[{\"op\":\"increment\",\"path\":\"/secret\",\"by\":3}]",
  "[{\"op\":\"set\",\"path\":\"/nested\",\"value\":{\"secret\":1,\"mine\":2}}]",
  "[{\"op\":\"set\",\"path\":\"/nested/secret/0\",\"value\":1}]",
};

/* seed 003: 40, 42, 45 */
static void scopes__nothing_run_scoped_leaks_into_the_next_run(void **state)
{
  (void)state;
  add("/secret", PD_SCOPE_RUN);
  add("/nested/secret", PD_SCOPE_RUN);
  for (size_t i = 0; i < 3 * COUNT_OF(leaks); i++) {
    char id[16];
    snprintf(id, sizeof id, "r%zu", i);
    world_begin(id, NULL);
    if (strcmp(world_stored("/secret"), "-") != 0 || strcmp(world_stored("/nested/secret"), "-") != 0) fail_msg("leak %zu", i - 1);
    OK(pd_run_patch(w.run, pd_text(leaks[i % COUNT_OF(leaks)]), &w.err));
    if (i / COUNT_OF(leaks) == 0) world_finish(PD_DONE_NATURAL);
    if (i / COUNT_OF(leaks) == 1) world_finish(PD_DONE_ERROR);
    if (i / COUNT_OF(leaks) < 2) continue;
    world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED); /* the process dies here; another ends the run */
    OK(world_attach(id));
    world_finish(PD_DONE_ERROR);
  }
  world_begin("last", NULL);
  assert_string_equal(world_stored("/secret"), "-");
  assert_string_equal(world_stored("/nested/secret"), "-");
}

static void scopes__a_process_that_does_not_know_a_scope_cleans_it_all_the_same(void **state)
{
  (void)state;
  add("/plugin/secret", PD_SCOPE_RUN);
  world_begin("r1", NULL);
  world_set("/plugin/secret", "1");
  world_finish(PD_DONE_NATURAL);
  pd_scopes_free(w.scopes);
  w.scopes = NULL; /* another process, without the plugin */
  world_begin("r2", NULL);
  assert_string_equal(world_stored("/plugin"), "{}");
  assert_string_equal(world_stored("/__run/scopes"), "-");
}

static void scopes__a_path_that_is_the_threads_now_is_not_cleaned_for_what_it_was(void **state)
{
  (void)state;
  add("/x", PD_SCOPE_RUN);
  world_begin("r1", NULL);
  world_set("/x", "1");
  world_finish(PD_DONE_NATURAL);
  pd_scopes_free(w.scopes);
  OK(pd_scopes_new(&w.scopes, &w.err));
  add("/x", PD_SCOPE_THREAD);
  world_begin("r2", NULL);
  assert_string_equal(world_stored("/x"), "1");
}

static void scopes__an_inbound_snapshot_leaks_nothing(void **state)
{
  (void)state;
  add("/secret", PD_SCOPE_RUN);
  pd_run_options options = world_options("r1");
  options.snapshot = pd_text("{\"secret\":1,\"open\":2,\"__kernel\":{\"stop_policy_runtime\":1,\"y\":1}}");
  OK(pd_run_begin(w.t, &options, &w.run, &w.err));
  assert_string_equal(world_stored("/secret"), "-");
  assert_string_equal(world_stored("/open"), "2");
  assert_string_equal(world_stored("/__kernel"), "{\"y\":1}");
}

static void scopes__what_others_wrote_into_the_runs_own_place_does_no_harm(void **state)
{
  (void)state;
  static const char *const bad[] = {"1", "[]", "{\"scopes\":7}", "{\"scopes\":[1,\"x\",\"\",\"/t\",\"/a~9\"]}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char patches[200], id[8];
    snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":\"/__run\",\"value\":%s},{\"op\":\"set\",\"path\":\"/k\",\"value\":1}]",
             bad[i]);
    snprintf(id, sizeof id, "r%zu", i);
    pd_changeset set = {.run_id = "x", .reason = PD_REASON_USER_MESSAGE, .patches = pd_text(patches)};
    OK(pd_thread_append(w.t, &set, PD_ANY_VERSION, NULL, &w.err));
    world_begin(id, NULL);
    assert_string_equal(world_stored("/k"), "1");
    assert_string_equal(world_stored("/__run/status"), "\"running\"");
    world_finish(PD_DONE_NATURAL);
  }
}

/* ---- tool calls ---- */

/* seed 003: 36, 43, 46 */
static void scopes__tool_call_state_lives_below_its_call_and_goes_with_it(void **state)
{
  (void)state;
  add("/approval", PD_SCOPE_TOOL_CALL);
  world_begin("r1", NULL);
  world_call("c1");
  world_call("c2");
  OK(pd_tool_call_patch(w.run, "c1", pd_text("[{\"op\":\"set\",\"path\":\"/approval/by\",\"value\":\"ada\"}]"), &w.err));
  OK(pd_tool_call_patch(w.run, "c2", pd_text("[{\"op\":\"set\",\"path\":[\"approval\",\"by\"],\"value\":\"bob\"}]"), &w.err));
  OK(pd_tool_call_suspend(w.run, "c1", (pd_bytes){0}, &w.err));
  OK(pd_tool_call_suspend(w.run, "c2", (pd_bytes){0}, &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/__tool_call_scope/c1/approval"), "{\"by\":\"ada\"}");
  assert_string_equal(world_stored("/__tool_call_scope/c2/approval"), "{\"by\":\"bob\"}");
  assert_string_equal(world_stored("/approval"), "-");
  OK(pd_tool_call_resume(w.run, "c1", &(pd_decision){.id = "d1"}, NULL, &w.err));
  world_end("c1", PD_TOOL_SUCCEEDED);
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/__tool_call_scope/c1"), "-");
  assert_string_equal(world_stored("/__tool_call_scope/c2/approval"), "{\"by\":\"bob\"}");
  OK(pd_tool_call_resume(w.run, "c2", &(pd_decision){.id = "d2", .is_cancel = true}, NULL, &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
}

static void scopes__only_a_tool_call_writes_tool_call_scoped_paths(void **state)
{
  (void)state;
  add("/plugin/approval", PD_SCOPE_TOOL_CALL);
  world_begin("r1", NULL);
  world_call("c1");
  static const char *const bad[] = {
    "[{\"op\":\"set\",\"path\":\"/plugin/approval\",\"value\":1}]",
    "[{\"op\":\"set\",\"path\":\"/plugin\",\"value\":{\"approval\":1}}]",
    "[{\"op\":\"merge_object\",\"path\":[],\"value\":{\"plugin\":{\"approval\":1}}}]",
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) FAILS(pd_run_patch(w.run, pd_text(bad[i]), &w.err), PD_INVALID, "InvalidScope");
  FAILS(pd_tool_call_patch(w.run, "c1", pd_text(bad[1]), &w.err), PD_INVALID, "InvalidScope");
  OK(pd_tool_call_patch(w.run, "c1", pd_text(bad[0]), &w.err));
}

static void scopes__a_tool_call_writes_no_other_calls_scope_and_not_its_own_status(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "[{\"op\":\"set\",\"path\":\"/__tool_call_scope/c2/x\",\"value\":1}]",
    "[{\"op\":\"set\",\"path\":\"/__tool_call_scope/new/x\",\"value\":1}]",
    "[{\"op\":\"set\",\"path\":\"/__tool_call_scope/c1/tool_call_state/status\",\"value\":\"new\"}]",
    "[{\"op\":\"set\",\"path\":\"/__tool_call_scope/c1\",\"value\":{}}]",
    "[{\"op\":\"delete\",\"path\":\"/__tool_call_scope\"}]",
    "[{\"op\":\"set\",\"path\":\"/__run/status\",\"value\":\"done\"}]",
  };
  world_begin("r1", NULL);
  world_call("c1");
  world_call("c2");
  for (size_t i = 0; i < COUNT_OF(bad); i++) FAILS(pd_tool_call_patch(w.run, "c1", pd_text(bad[i]), &w.err), PD_INVALID, "ReservedPath");
  OK(pd_tool_call_patch(w.run, "c1", pd_text("[{\"op\":\"set\",\"path\":\"/__tool_call_scope/c1/own\",\"value\":1}]"), &w.err));
}

static void scopes__what_calls_of_a_dead_run_left_is_gone_with_the_next_run(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("c1");
  OK(pd_tool_call_suspend(w.run, "c1", pd_text("{\"ask\":\"may I?\"}"), &w.err));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  /* somebody ends it who knows nothing of calls */
  pd_changeset end = {.run_id = "r1", .reason = PD_REASON_RUN_FINISHED};
  OK(pd_thread_append(w.t, &end, PD_ANY_VERSION, NULL, &w.err));
  assert_string_not_equal(world_stored("/__tool_call_scope"), "-");
  world_begin("r2", NULL);
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  assert_int_equal(pd_run_info_get(w.run).calls, 0);
}

int main(void)
{
#define SCOPED(name) cmocka_unit_test_setup_teardown(name, open_scopes, world_close)
  const struct CMUnitTest tests[] = {
    SCOPED(scopes__the_registry_tells_the_run_scoped_paths),
    SCOPED(scopes__a_path_has_the_scope_of_what_it_lies_in_and_else_the_threads),
    SCOPED(scopes__paths_of_different_scopes_must_not_overlap),
    SCOPED(scopes__a_registry_has_a_limit),
    SCOPED(scopes__prepare_run_deletes_run_scoped_paths_before_the_run_is_marked_running),
    SCOPED(scopes__thread_scoped_state_stays_across_runs_and_reloads),
    SCOPED(scopes__nothing_run_scoped_leaks_into_the_next_run),
    SCOPED(scopes__a_process_that_does_not_know_a_scope_cleans_it_all_the_same),
    SCOPED(scopes__a_path_that_is_the_threads_now_is_not_cleaned_for_what_it_was),
    SCOPED(scopes__an_inbound_snapshot_leaks_nothing),
    SCOPED(scopes__what_others_wrote_into_the_runs_own_place_does_no_harm),
    SCOPED(scopes__tool_call_state_lives_below_its_call_and_goes_with_it),
    SCOPED(scopes__only_a_tool_call_writes_tool_call_scoped_paths),
    SCOPED(scopes__a_tool_call_writes_no_other_calls_scope_and_not_its_own_status),
    SCOPED(scopes__what_calls_of_a_dead_run_left_is_gone_with_the_next_run),
  };
  return cmocka_run_group_tests_name("thread scopes", tests, NULL, NULL);
}
