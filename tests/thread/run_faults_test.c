/* run_faults_test.c: checkpoints that fail: on the disk, by other writers and processes. Nothing is lost, nothing is committed twice. */
#include "support/fault_backend.h"
#include "support/temp_folder.h"
#include "thread/run_world.h"

#include <sys/wait.h>
#include <unistd.h>

static int open_faulty(void **state)
{
  static int number;
  char uri[64];
  (void)state;
  fault_backend_install();
  fault_backend_plan((fault_plan){0});
  snprintf(uri, sizeof uri, "fault:memory:runs-%d", number++);
  world_open_at(uri);
  return 0;
}

static int close_faulty(void **state)
{
  fault_backend_plan((fault_plan){0});
  return world_close(state);
}

/* From now on every append fails. */
static void fail_appends(fault_how how)
{
  fault_backend_plan((fault_plan){.at = 1, .count = how == FAULT_AFTER ? 1 : UINT64_MAX, .how = how, .ops = FAULT_LOG_APPEND});
}

static void heal(void)
{
  assert_true(fault_backend_has_fired());
  fault_backend_plan((fault_plan){0});
}

static pd_code checkpoint(pd_reason reason)
{
  w.err = (pd_error){0};
  return pd_run_checkpoint(w.run, reason, NULL, &w.err);
}

static pd_code finish(pd_done_reason reason)
{
  w.err = (pd_error){0};
  return pd_run_finish(w.run, reason, NULL, &w.err);
}

#define INCREMENT pd_text("[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]")

/* ---- a disk that fails ---- */

/* seed 003: 28, 29 */
static void failure__a_failed_checkpoint_fails_the_run_and_emits_a_state_error(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_message("m1");
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  fail_appends(FAULT_BEFORE);
  FAILS(checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED), PD_STORAGE, "StorageError");
  assert_string_equal(w.events, "run_started@1 state_error:AssistantTurnCommittedStorageError@1");
  assert_true(pd_run_info_get(w.run).has_failed);
  FAILS(pd_run_message(w.run, pd_text("{\"id\":\"m2\"}"), &w.err), PD_CONFLICT, "RunFailed");
  FAILS(pd_run_patch(w.run, INCREMENT, &w.err), PD_CONFLICT, "RunFailed");
  FAILS(pd_tool_call_begin(w.run, &(pd_tool_call){.id = "c", .name = "n"}, &w.err), PD_CONFLICT, "RunFailed");
  heal();
  assert_int_equal(world_version(), 1);
  FAILS(finish(PD_DONE_NATURAL), PD_CONFLICT, "RunFailed");
  world_finish(PD_DONE_ERROR);
  assert_non_null(strstr(w.events, "run_finished:error@2"));
  assert_string_equal(world_stored("/n"), "1"); /* the delta came with it */
}

static void failure__the_delta_can_be_committed_again_after_recovery(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_message("m1");
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  fail_appends(FAULT_BEFORE);
  for (int i = 0; i < 3; i++) FAILS(checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED), PD_STORAGE, "StorageError");
  heal();
  pd_run_ack ack = world_checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED);
  assert_true(ack.is_committed && ack.version == 2 && ack.ack.message_count == 1 && !ack.was_committed);
  assert_string_equal(world_stored("/n"), "1");
  assert_true(pd_run_info_get(w.run).has_failed); /* it stays failed */
  FAILS(finish(PD_DONE_STOPPED), PD_CONFLICT, "RunFailed");
  world_finish(PD_DONE_ERROR);
}

static void failure__the_delta_can_be_taken_from_a_failed_run_and_committed_by_another(void **state)
{
  (void)state;
  pd_buf delta = {0};
  world_begin("r1", NULL);
  world_message("m1");
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  fail_appends(FAULT_BEFORE);
  FAILS(checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED), PD_STORAGE, "StorageError");
  heal();
  OK(pd_run_take_delta(w.run, &delta, &w.err));
  world_finish(PD_DONE_ERROR);
  assert_string_equal(world_stored("/n"), "-");
  world_begin("r2", NULL);
  OK(pd_run_put_delta(w.run, pd_buf_bytes(&delta), &w.err));
  world_finish(PD_DONE_NATURAL);
  assert_string_equal(world_stored("/n"), "1");
  uint64_t place;
  OK(pd_thread_message_find(w.t, "m1", &place, &w.err));
  pd_buf_done(&delta);
}

/* seed 003: 30, 31 */
static void failure__a_failed_final_checkpoint_emits_an_error_and_no_finish(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_call("c1");
  world_message("m1");
  fail_appends(FAULT_BEFORE);
  FAILS(finish(PD_DONE_CANCELLED), PD_STORAGE, "StorageError");
  FAILS(finish(PD_DONE_CANCELLED), PD_STORAGE, "StorageError");
  assert_string_equal(w.events, "run_started@1 tool_call:running@1 error:RunFinishedStorageError@1 error:RunFinishedStorageError@1");
  assert_int_equal(pd_run_info_get(w.run).status, PD_PHASE_RUNNING);
  FAILS(pd_run_message(w.run, pd_text("{\"id\":\"m2\"}"), &w.err), PD_CONFLICT, "RunFailed");
  heal();
  assert_string_equal(world_active(), "r1");
  world_finish(PD_DONE_STOPPED); /* another reason is fine: the first was never committed */
  assert_non_null(strstr(w.events, "run_finished:stopped@2"));
  assert_string_equal(world_stored("/__run/done_reason"), "\"stopped\"");
  assert_string_equal(world_stored("/__tool_call_scope"), "-");
  assert_true(world_finish(PD_DONE_STOPPED).is_duplicate);
  assert_null(strstr(strstr(w.events, "run_finished") + 1, "run_finished"));
}

static void failure__after_a_failed_final_checkpoint_another_can_still_be_made(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  fail_appends(FAULT_BEFORE);
  FAILS(finish(PD_DONE_NATURAL), PD_STORAGE, "StorageError");
  heal();
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
  assert_string_equal(world_stored("/n"), "1");
  assert_string_equal(world_stored("/__run/status"), "\"running\""); /* its last words were taken back */
  world_finish(PD_DONE_NATURAL);
}

static void failure__what_was_committed_although_the_answer_failed_is_recognised(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  world_message("m1");
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  OK(pd_run_action(w.run, pd_text("{\"b\":1,\"a\":2}"), &w.err));
  fail_appends(FAULT_AFTER);
  FAILS(checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED), PD_STORAGE, "StorageError");
  heal();
  pd_run_ack ack = world_checkpoint(PD_REASON_ASSISTANT_TURN_COMMITTED);
  assert_true(ack.was_committed && !ack.is_committed && ack.version == 2);
  assert_string_equal(world_stored("/n"), "1");
  world_finish(PD_DONE_ERROR);
  assert_string_equal(world_stored("/n"), "1");
  assert_int_equal(world_version(), 3);
}

static void failure__a_final_commit_whose_answer_failed_is_recognised_as_finished(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  fail_appends(FAULT_AFTER);
  FAILS(finish(PD_DONE_NATURAL), PD_STORAGE, "StorageError");
  assert_null(strstr(w.events, "run_finished"));
  heal();
  pd_run_ack ack = world_finish(PD_DONE_NATURAL);
  assert_true(ack.was_committed && !ack.is_committed && !ack.is_duplicate && ack.version == 2);
  assert_non_null(strstr(w.events, "run_finished:natural@2"));
  assert_int_equal(world_version(), 2);
  assert_string_equal(world_stored("/n"), "1");
}

static void failure__a_delta_taken_while_nothing_is_known_is_not_committed_twice(void **state)
{
  (void)state;
  for (int was_committed = 0; was_committed < 2; was_committed++) {
    pd_buf delta = {0};
    char id[8], expected[8];
    snprintf(id, sizeof id, "r%d", was_committed);
    world_begin(id, NULL);
    OK(pd_run_patch(w.run, INCREMENT, &w.err));
    fail_appends(was_committed ? FAULT_AFTER : FAULT_BEFORE);
    FAILS(checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED), PD_STORAGE, "StorageError");
    fault_backend_plan((fault_plan){.at = 1, .count = UINT64_MAX}); /* now nothing can be read either */
    OK(pd_run_take_delta(w.run, &delta, &w.err));
    fault_backend_plan((fault_plan){0});
    assert_int_equal(pd_run_info_get(w.run).patches, 0);
    world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
    OK(pd_run_put_delta(w.run, pd_buf_bytes(&delta), &w.err));
    world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED);
    world_finish(PD_DONE_ERROR);
    snprintf(expected, sizeof expected, "%d", was_committed + 1);
    assert_string_equal(world_stored("/n"), expected);
    pd_buf_done(&delta);
  }
}

static void failure__a_run_whose_beginning_failed_can_begin_again(void **state)
{
  (void)state;
  pd_run_options options = world_options("r1");
  options.messages = pd_text("[{\"id\":\"u1\"}]");
  fail_appends(FAULT_BEFORE);
  FAILS(pd_run_begin(w.t, &options, &w.run, &w.err), PD_STORAGE, "StorageError");
  assert_string_equal(w.events, "state_error:UserMessageStorageError@0");
  heal();
  OK(pd_run_begin(w.t, &options, &w.run, &w.err));
  assert_int_equal(world_version(), 1);
}

/* Each call of the backend fails once; the loop does what a host would: again, until it is done. The counter must be exactly 3. */
static bool run_all(uint64_t n, fault_how how)
{
  pd_run_options options = world_options("r");
  fault_backend_plan((fault_plan){.at = n, .how = how, .ops = FAULT_LOG_APPEND | FAULT_LOG_READ | FAULT_LOG_TAIL});
  for (int i = 0; pd_run_begin(w.t, &options, &w.run, &w.err); i++) {
    assert_true(i < 4);
    if (w.err.code == PD_EXISTS) {
      OK(pd_run_attach(w.t, &options, &w.run, &w.err));
      break;
    }
  }
  bool has_failed = false;
  for (int k = 0; k < 3; k++) {
    if (pd_run_patch(w.run, INCREMENT, &w.err)) { /* failed: recover, and go on with a new handle */
      assert_true(w.err.code == PD_STORAGE || strcmp(pd_error_name(&w.err), "RunFailed") == 0);
      pd_run_close(w.run);
      for (int i = 0; pd_run_attach(w.t, &options, &w.run, &w.err); i++) assert_true(i < 4);
      k--;
      continue;
    }
    for (int i = 0; checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED); i++) assert_true(i < 4);
    has_failed = has_failed || pd_run_info_get(w.run).has_failed;
  }
  pd_done_reason reason = pd_run_info_get(w.run).has_failed ? PD_DONE_ERROR : PD_DONE_NATURAL;
  for (int i = 0; finish(reason); i++) assert_true(i < 4);
  bool fired = fault_backend_has_fired();
  fault_backend_plan((fault_plan){0});
  if (strcmp(world_stored("/n"), "3") != 0) fail_msg("call %llu, how %d: %s", (unsigned long long)n, how, world_stored("/n"));
  assert_string_equal(world_active(), "");
  assert_string_equal(world_stored("/__run/status"), "\"done\"");
  return fired;
}

static void failure__whichever_call_fails_nothing_is_lost_or_committed_twice(void **state)
{
  (void)state;
  for (int how = FAULT_BEFORE; how <= FAULT_AFTER; how++) {
    uint64_t n = 1;
    for (bool fired = true; fired; n++) {
      close_faulty(NULL);
      open_faulty(NULL);
      fired = run_all(n, (fault_how)how);
    }
    assert_true(n > 6); /* five commits at the least */
  }
}

/* ---- other writers ---- */

static void append_beside(const char *run_id)
{
  pd_thread *other;
  pd_changeset set = {.run_id = run_id, .reason = PD_REASON_USER_MESSAGE, .patches = INCREMENT};
  OK(pd_thread_open(w.store, "t", &other, &w.err));
  OK(pd_thread_append(other, &set, PD_ANY_VERSION, NULL, &w.err));
  pd_thread_close(other);
}

/* seed 003: 12, 47 */
static void failure__somebody_elses_change_set_is_a_conflict_and_no_lost_update(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  append_beside("other");
  FAILS(checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED), PD_CONFLICT, "VersionConflict");
  assert_true(w.err.expected == 1 && w.err.actual == 2);
  assert_non_null(strstr(w.events, "state_error:ToolResultsCommittedVersionConflict@1"));
  world_checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED); /* on what the other made */
  assert_string_equal(world_stored("/n"), "2");
  assert_int_equal(pd_run_info_get(w.run).version, 3);
  world_finish(PD_DONE_ERROR);
}

static void failure__anothers_change_set_that_looks_alike_is_not_taken_for_the_runs_own(void **state)
{
  (void)state;
  world_begin("r1", NULL);
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  append_beside("r2"); /* same reason, same patches, another run */
  FAILS(checkpoint(PD_REASON_USER_MESSAGE), PD_CONFLICT, "VersionConflict");
  assert_false(world_checkpoint(PD_REASON_USER_MESSAGE).was_committed);
  assert_string_equal(world_stored("/n"), "2");
}

static void failure__a_run_that_somebody_else_ended_is_lost(void **state)
{
  (void)state;
  pd_thread *other_thread;
  pd_run_context *other;
  pd_run_options options = {.run_id = "r1"};
  pd_buf delta = {0};
  world_begin("r1", NULL);
  OK(pd_run_patch(w.run, INCREMENT, &w.err));
  OK(pd_thread_open(w.store, "t", &other_thread, &w.err));
  OK(pd_run_attach(other_thread, &options, &other, &w.err));
  OK(pd_run_finish(other, PD_DONE_ERROR, NULL, &w.err));
  pd_run_close(other);
  pd_thread_close(other_thread);
  FAILS(checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED), PD_CONFLICT, "VersionConflict");
  FAILS(checkpoint(PD_REASON_TOOL_RESULTS_COMMITTED), PD_CONFLICT, "RunLost");
  FAILS(finish(PD_DONE_ERROR), PD_CONFLICT, "RunLost");
  assert_null(strstr(w.events, "run_finished"));
  OK(pd_run_take_delta(w.run, &delta, &w.err)); /* not lost */
  assert_non_null(memmem(delta.data, delta.size, "increment", 9));
  pd_buf_done(&delta);
  assert_string_equal(world_stored("/n"), "-");
}

/* ---- several processes ---- */

#define PROCESSES 4
#define RUNS_EACH 15

/* Begin and finish runs until so many were one's own. Each counts in a Run-scoped path, which must be clean at the beginning. */
static void child_runs(const char *uri, int number)
{
  pd_store *store;
  pd_thread *t;
  pd_run_context *run;
  pd_scopes *scopes;
  pd_error err;
  pd_buf text = {0};
  if (pd_store_open(uri, "main", NULL, &store, &err) || pd_thread_open(store, "t", &t, &err)) _exit(1);
  if (pd_scopes_new(&scopes, &err) || pd_scopes_add(scopes, "/scratch", PD_SCOPE_RUN, &err)) _exit(2);
  for (int i = 0; i < RUNS_EACH;) {
    char id[32];
    snprintf(id, sizeof id, "p%d-%d", number, i);
    pd_run_options options = {.run_id = id, .scopes = scopes};
    pd_code code = pd_run_begin(t, &options, &run, &err);
    if (code == PD_CONFLICT && strcmp(pd_error_name(&err), "RunActive") == 0) continue;
    if (code) _exit(3);
    if (pd_run_state(run, "/scratch", &text, &err) != PD_NOT_FOUND) _exit(4);
    if (pd_run_patch(run, INCREMENT, &err)) _exit(5);
    if (pd_run_patch(run, pd_text("[{\"op\":\"set\",\"path\":\"/scratch\",\"value\":1}]"), &err)) _exit(6);
    if (pd_run_checkpoint(run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &err)) _exit(7); /* nobody else may write while it runs */
    if (pd_run_finish(run, PD_DONE_NATURAL, NULL, &err)) _exit(8);
    pd_run_close(run);
    i++;
  }
  pd_scopes_free(scopes);
  pd_thread_close(t);
  _exit(pd_store_close(store, NULL) ? 9 : 0);
}

static bool count_run(void *ctx, const pd_thread_run *run)
{
  uint64_t *last = ctx;
  assert_true(run->first_version > *last && run->finished_version == run->first_version + 2); /* one after the other */
  *last = run->finished_version;
  return true;
}

static void run__one_run_is_active_at_a_time_whichever_processes_ask(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pid_t pids[PROCESSES];
  uint64_t last = 0;
  world_open_at(uri);
  world_close(NULL);
  for (int i = 0; i < PROCESSES; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (!pids[i]) child_runs(uri, i);
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_int_equal(status, 0);
  }
  w = (run_world){0};
  OK(pd_store_open(uri, "main", NULL, &w.store, &w.err));
  OK(pd_thread_open(w.store, "t", &w.t, &w.err));
  OK(pd_thread_runs(w.t, PD_VERSION_HEAD, 0, 0, count_run, &last, &w.err));
  assert_int_equal(last, PROCESSES * RUNS_EACH * 3);
  assert_string_equal(world_stored("/n"), "60");
  world_close(NULL);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
#define FAULTY(name) cmocka_unit_test_setup_teardown(name, open_faulty, close_faulty)
  const struct CMUnitTest tests[] = {
    FAULTY(failure__a_failed_checkpoint_fails_the_run_and_emits_a_state_error),
    FAULTY(failure__the_delta_can_be_committed_again_after_recovery),
    FAULTY(failure__the_delta_can_be_taken_from_a_failed_run_and_committed_by_another),
    FAULTY(failure__a_failed_final_checkpoint_emits_an_error_and_no_finish),
    FAULTY(failure__after_a_failed_final_checkpoint_another_can_still_be_made),
    FAULTY(failure__what_was_committed_although_the_answer_failed_is_recognised),
    FAULTY(failure__a_final_commit_whose_answer_failed_is_recognised_as_finished),
    FAULTY(failure__a_delta_taken_while_nothing_is_known_is_not_committed_twice),
    FAULTY(failure__a_run_whose_beginning_failed_can_begin_again),
    FAULTY(failure__whichever_call_fails_nothing_is_lost_or_committed_twice),
    FAULTY(failure__somebody_elses_change_set_is_a_conflict_and_no_lost_update),
    FAULTY(failure__anothers_change_set_that_looks_alike_is_not_taken_for_the_runs_own),
    FAULTY(failure__a_run_that_somebody_else_ended_is_lost),
    cmocka_unit_test(run__one_run_is_active_at_a_time_whichever_processes_ask),
  };
  return cmocka_run_group_tests_name("thread run faults", tests, NULL, NULL);
}
