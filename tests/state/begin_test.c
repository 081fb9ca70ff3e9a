/* begin_test.c: calls in two steps (pd_call_begin, pd_call_finish): the same answers, the same audit, one sync. */
#include "state/world.h"

#include "backend/builtin.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SET "state.persistent.set"

static pd_ctx ctx_of(const world *w)
{
  return (pd_ctx){.home = w->home, .agent = w->agent, .is_operator = w->is_operator};
}

static pd_code begin(world *w, const char *capability, const char *input, pd_begun **out)
{
  pd_ctx ctx = ctx_of(w);
  return pd_call_begin(&ctx, capability, pd_text(input), out, &w->out, &w->err);
}

static pd_code finish(world *w, pd_begun *begun)
{
  pd_code code = pd_call_finish(begun, &w->out, &w->err);
  assert_int_equal(pd_buf_byte(&w->out, 0, NULL), PD_OK); /* as world_call does, for world_out */
  w->out.size--;
  return code;
}

static uint64_t audit_count(world *w, const char *capability)
{
  w->is_operator = true;
  assert_int_equal(world_callf(w, "audit.list", "{\"capability\":\"%s\"}", capability), PD_OK);
  w->is_operator = false;
  uint64_t count = 0;
  pd_json answer, line;
  assert_int_equal(pd_json_parse(pd_buf_bytes(&w->out), &answer, NULL), PD_OK);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "lines"));
  while (pd_json_walk_next(&walk, NULL, &line)) {
    uint64_t alike = 1;
    if (!pd_json_u64(pd_json_member(line, "count"), &alike)) alike = 1;
    count += alike;
  }
  return count;
}

static void begin__the_first_write_of_an_agent_is_done_whole_by_whoever_finishes_it(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  world_open(&w, NULL);
  assert_int_equal(begin(&w, SET, "{\"key\":\"a\",\"value\":1}", &begun), PD_OK);
  assert_non_null(begun);
  assert_null(pd_begun_group(begun)); /* its store has to be made */
  assert_int_equal(finish(&w, begun), PD_OK);
  assert_string_equal(world_out(&w, "version"), "1");
  assert_int_equal(audit_count(&w, SET), 1);
  world_close(&w);
}

static void begin__staged_calls_are_seen_and_audited_when_they_are_finished(void **state)
{
  (void)state;
  world w;
  pd_begun *first = NULL, *second = NULL;
  world_open(&w, NULL);
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  pd_buf other = {0};
  pd_ctx ctx = ctx_of(&w);
  assert_int_equal(begin(&w, SET, "{\"key\":\"a\",\"value\":2}", &first), PD_OK);
  assert_int_equal(pd_call_begin(&ctx, SET, pd_text("{\"key\":\"a\",\"value\":3}"), &second, &other, &w.err), PD_OK);
  assert_non_null(pd_begun_group(first));
  assert_ptr_equal(pd_begun_group(first), pd_begun_group(second));
  assert_int_equal(finish(&w, first), PD_OK);
  assert_string_equal(world_out(&w, "version"), "2");
  assert_int_equal(pd_call_finish(second, &other, &w.err), PD_OK);
  assert_memory_equal(other.data, "{\"version\":3,\"previous_version\":2}", other.size);
  pd_buf_done(&other);
  world_ok(&w, "state.persistent.get", "{\"key\":\"a\"}");
  assert_string_equal(world_out(&w, "value"), "3");
  assert_int_equal(audit_count(&w, SET), 3);
  world_close(&w);
}

static void begin__what_fails_at_once_is_over(void **state)
{
  (void)state;
  static const char *const calls[][3] = {
    {SET, "{\"key\":1}", "InvalidInput"},
    {"make.coffee.now", "{}", "UnknownCapability"},
  };
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":0}");
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    pd_begun *begun = NULL;
    assert_int_not_equal(begin(&w, calls[i][0], calls[i][1], &begun), PD_OK);
    assert_null(begun);
    assert_string_equal(pd_error_name(&w.err), calls[i][2]);
  }
  assert_int_equal(audit_count(&w, SET), 1);
  world_close(&w);
}

static void begin__other_capabilities_are_done_whole(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  world_open(&w, NULL);
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  assert_int_equal(begin(&w, "state.persistent.get", "{\"key\":\"none\"}", &begun), PD_OK);
  assert_null(begun);
  assert_int_equal(audit_count(&w, "state.persistent.get"), 1);
  world_close(&w);
}

static void must_wait(world *w, const char *capability, const char *input)
{
  pd_begun *begun = NULL;
  assert_int_equal(begin(w, capability, input, &begun), PD_OK);
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(w, begun), PD_OK);
}

/* A thread that serves connections begins calls, and others wait behind it. */
static void begin__what_waits_for_the_disk_is_left_to_one_who_may(void **state)
{
  (void)state;
  static const char get[] = "state.persistent.get", key[] = "{\"key\":\"a\"}";
  world w;
  pd_begun *begun = NULL, *staged = NULL;
  pd_store *theirs = NULL;
  pd_buf other = {0};
  world_open(&w, "[session]\nidle = \"10s\"\n");
  must_wait(&w, get, key); /* the agent's first note looks into the system store */
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  assert_int_equal(begin(&w, get, key, &begun), PD_OK);
  assert_null(begun);
  must_wait(&w, get, "{\"key\":\"a\",\"version\":1}"); /* the past is on the disk */
  pd_ctx ctx = ctx_of(&w);
  assert_int_equal(pd_call_begin(&ctx, SET, pd_text("{\"key\":\"b\",\"value\":1}"), &staged, &other, &w.err), PD_OK);
  assert_non_null(pd_begun_group(staged));
  assert_int_equal(pd_store_open(w.uri, w.agent, NULL, &theirs, NULL), PD_OK);
  assert_int_equal(pd_put(theirs, pd_text("a"), pd_text("2"), NULL, NULL, NULL), PD_OK);
  must_wait(&w, get, key); /* nothing is told before what is staged is synced behind the other's */
  assert_string_equal(world_out(&w, "value"), "2");
  assert_int_equal(pd_call_finish(staged, &other, &w.err), PD_OK);
  pd_buf_done(&other);
  assert_int_equal(pd_store_close(theirs, NULL), PD_OK);
  world_ok(&w, "session.begin", "{}");
  w.now_ms += 60000;
  must_wait(&w, get, key); /* a session has idled out: what its end has to tell is written */
  assert_int_equal(begin(&w, get, key, &begun), PD_OK);
  assert_null(begun);
  world_close(&w);
}

static void begin__a_call_that_another_process_overtook_is_run_anew(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  pd_store *theirs = NULL;
  world_open(&w, NULL);
  world_ok(&w, "state.shared.set", "{\"key\":\"n\",\"value\":1,\"expected_version\":0}");
  assert_int_equal(pd_store_open(w.uri, "shared", NULL, &theirs, NULL), PD_OK);
  assert_int_equal(begin(&w, "state.shared.set", "{\"key\":\"n\",\"value\":2,\"expected_version\":1}", &begun), PD_OK);
  assert_non_null(begun);
  assert_int_equal(pd_put(theirs, pd_text("n"), pd_text("9"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(finish(&w, begun), PD_CONFLICT);
  assert_string_equal(world_out(&w, "error.code"), "\"VersionConflict\"");
  assert_int_equal(begin(&w, "state.shared.set", "{\"key\":\"n\",\"value\":2,\"expected_version\":2}", &begun), PD_OK);
  assert_non_null(begun);
  assert_int_equal(pd_put(theirs, pd_text("other"), pd_text("9"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(finish(&w, begun), PD_OK);
  assert_string_equal(world_out(&w, "version"), "3");
  assert_int_equal(audit_count(&w, "state.shared.set"), 3);
  assert_int_equal(pd_store_close(theirs, NULL), PD_OK);
  world_close(&w);
}

/* What is staged may fail yet: whoever is refused for it has to wait, and can then read why. */
static void begin__a_refusal_for_what_is_staged_is_left_to_one_who_may_wait(void **state)
{
  (void)state;
  world w;
  pd_begun *first = NULL, *second = NULL;
  pd_buf other = {0};
  world_open(&w, NULL);
  world_ok(&w, "state.shared.set", "{\"key\":\"n\",\"value\":1,\"expected_version\":0}");
  pd_ctx ctx = ctx_of(&w);
  static const char input[] = "{\"key\":\"n\",\"value\":2,\"expected_version\":1}";
  assert_int_equal(pd_call_begin(&ctx, "state.shared.set", pd_text(input), &first, &other, &w.err), PD_OK);
  assert_non_null(pd_begun_group(first));
  assert_int_equal(begin(&w, "state.shared.set", input, &second), PD_OK);
  assert_non_null(second);
  assert_null(pd_begun_group(second));
  assert_int_equal(finish(&w, second), PD_CONFLICT); /* before the first: nobody else is there to sync */
  assert_string_equal(world_out(&w, "error.details.actual"), "2");
  world_ok(&w, "state.shared.get", "{\"key\":\"n\"}");
  assert_string_equal(world_out(&w, "version"), "2");
  assert_int_equal(pd_call_finish(first, &other, &w.err), PD_OK);
  pd_buf_done(&other);
  assert_int_equal(audit_count(&w, "state.shared.set"), 3);
  world_close(&w);
}

static void begin__a_large_value_and_a_quota_are_left_to_the_second_step(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  static char input[200000];
  world_open(&w, "[persistent]\nquota = \"100 KiB\"\n");
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  snprintf(input, sizeof input, "{\"key\":\"b\",\"value\":\"%0150000d\"}", 7);
  assert_int_equal(begin(&w, SET, input, &begun), PD_OK);
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_QUOTA);
  snprintf(input, sizeof input, "{\"key\":\"b\",\"value\":\"%060000d\"}", 7);
  assert_int_equal(begin(&w, SET, input, &begun), PD_OK);
  assert_non_null(begun);
  assert_int_equal(finish(&w, begun), PD_OK);
  assert_int_equal(begin(&w, SET, "{\"key\":\"c\",\"value\":2}", &begun), PD_OK);
  assert_int_equal(finish(&w, begun), PD_OK);
  snprintf(input, sizeof input, "{\"key\":\"d\",\"value\":\"%060000d\"}", 7);
  assert_int_equal(begin(&w, SET, input, &begun), PD_OK); /* a refusal rests on the log, which has to be read */
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_QUOTA);
  world_close(&w);
}

static void begin__an_approval_is_used_up_once(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  static const char input[] = "{\"key\":\"a\",\"value\":2}";
  world_open(&w, NULL);
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  char path[4200];
  snprintf(path, sizeof path, "%s/policy.toml", w.folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("[[rule]]\ncapability = \"state.persistent.set\"\npermission = \"approval\"\n", file);
  fclose(file);
  assert_int_equal(pd_home_reload(w.home, &w.err), PD_OK);
  assert_int_equal(begin(&w, SET, input, &begun), PD_OK);
  assert_non_null(begun); /* the pending approval is written by one who may wait for the disk */
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_APPROVAL);
  w.is_operator = true;
  world_ok(&w, "approvals.list", "{}");
  char id[80];
  snprintf(id, sizeof id, "%s", world_out(&w, "approvals.0.id"));
  assert_int_equal(world_callf(&w, "approvals.approve", "{\"approval_id\":%s}", id), PD_OK);
  w.is_operator = false;
  assert_int_equal(begin(&w, SET, input, &begun), PD_OK);
  assert_int_equal(finish(&w, begun), PD_OK);
  assert_int_equal(begin(&w, SET, input, &begun), PD_OK);
  assert_int_equal(finish(&w, begun), PD_APPROVAL);
  world_close(&w);
}

/* Who begins a call serves connections: audit or activity that must be on disk before the answer are written in the second step. */
static void check_slow_conclusion(const char *config)
{
  world w;
  pd_begun *begun = NULL;
  world_open(&w, config);
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  assert_int_equal(begin(&w, "state.persistent.get", "{\"key\":\"a\"}", &begun), PD_OK);
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_OK);
  world_want(&w, "value", "1");
  assert_int_equal(begin(&w, "state.persistent.get", "{\"bad\":1}", &begun), PD_OK);
  assert_non_null(begun);
  assert_int_equal(finish(&w, begun), PD_INVALID);
  assert_non_null(strstr(w.err.message, "bad")); /* what parsing found is not lost on the way */
  world_want(&w, "error.code", "\"InvalidInput\"");
  world_close(&w);
}

static void begin__an_audit_that_is_written_at_once_is_left_to_the_second_step(void **state)
{
  (void)state;
  check_slow_conclusion("[audit]\nflush = \"0s\"\n");
}

static void begin__activity_that_is_written_at_once_is_left_to_the_second_step(void **state)
{
  (void)state;
  check_slow_conclusion("[test.activity]\nflush = \"0s\"\n");
}

static void begin__reads_are_over_at_once_otherwise(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  world_open(&w, NULL);
  world_ok(&w, SET, "{\"key\":\"a\",\"value\":1}");
  w.now_ms += 3600 * 1000; /* activity is due, too: that is written by its own thread */
  assert_int_equal(begin(&w, "state.persistent.get", "{\"key\":\"a\"}", &begun), PD_OK);
  assert_null(begun);
  world_close(&w);
}

/* ---- threads that must not wait for a disk (base/disk_wait.h) ---- */

static void begin__a_conflict_that_rests_on_the_log_is_left_to_one_who_may_read_it(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  world_open(&w, NULL);
  world_ok(&w, "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":0}");
  assert_int_equal(begin(&w, "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":7}", &begun), PD_OK);
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  assert_int_not_equal(finish(&w, begun), PD_OK);
  assert_string_equal(pd_error_name(&w.err), "VersionConflict");
  assert_int_equal(audit_count(&w, "state.shared.set"), 2);
  world_close(&w);
}

/* A value of its own blob, in a store that was just opened: nothing of it is in memory. */
static void set_up_cold_value(world *w)
{
  char *text = malloc(300000);
  assert_non_null(text);
  memset(text, 'x', 299999);
  text[299999] = 0;
  world_open(w, NULL);
  world_okf(w, SET, "{\"key\":\"large\",\"value\":\"%s\"}", text);
  free(text);
  world_restart(w);
  world_ok(w, SET, "{\"key\":\"a\",\"value\":1}"); /* opens the store */
}

static void begin__a_value_that_is_not_in_memory_is_left_to_one_who_may_wait(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  set_up_cold_value(&w);
  pd_disk_wait_assert(true);
  pd_disk_wait_forbid(true);
  assert_int_equal(begin(&w, "state.persistent.get", "{\"key\":\"large\"}", &begun), PD_OK);
  pd_disk_wait_forbid(false);
  pd_disk_wait_assert(false);
  assert_non_null(begun);
  assert_null(pd_begun_group(begun));
  assert_int_equal(finish(&w, begun), PD_OK);
  assert_true(w.out.size > 299999);
  assert_int_equal(audit_count(&w, "state.persistent.get"), 1);
  world_close(&w);
}

static void begin__a_call_that_must_wait_can_be_dropped_and_was_not_made(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  world_open(&w, NULL);
  assert_int_equal(begin(&w, SET, "{\"key\":\"a\",\"value\":1}", &begun), PD_OK);
  assert_null(pd_begun_group(begun));
  pd_call_drop(begun);
  world_ok(&w, "state.persistent.get", "{\"key\":\"a\"}");
  assert_string_equal(world_out(&w, "found"), "false");
  assert_int_equal(audit_count(&w, SET), 0);
  world_close(&w);
}

enum { DONE = 7, FAILED };

/* In a process of its own: how it ended. */
static int end_of_planted_read(const char *folder, bool is_forbidden)
{
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit no_core = {0};
    pd_backend *backend = NULL;
    uint64_t tail;
    setrlimit(RLIMIT_CORE, &no_core);
    if (pd_sqlite_ops.open(folder, "main", PD_BACKEND_CREATE, &backend, NULL)) _exit(FAILED);
    pd_disk_wait_assert(true);
    pd_disk_wait_forbid(is_forbidden);
    _exit(backend->ops->log_tail(backend, &tail, NULL) ? FAILED : DONE);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void disk_wait__a_read_planted_on_a_thread_that_serves_connections_is_caught(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  int status = end_of_planted_read(folder, false);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == DONE);
  status = end_of_planted_read(folder, true);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(begin__the_first_write_of_an_agent_is_done_whole_by_whoever_finishes_it),
    cmocka_unit_test(begin__staged_calls_are_seen_and_audited_when_they_are_finished),
    cmocka_unit_test(begin__what_fails_at_once_is_over),
    cmocka_unit_test(begin__other_capabilities_are_done_whole),
    cmocka_unit_test(begin__what_waits_for_the_disk_is_left_to_one_who_may),
    cmocka_unit_test(begin__a_call_that_another_process_overtook_is_run_anew),
    cmocka_unit_test(begin__a_refusal_for_what_is_staged_is_left_to_one_who_may_wait),
    cmocka_unit_test(begin__a_large_value_and_a_quota_are_left_to_the_second_step),
    cmocka_unit_test(begin__an_approval_is_used_up_once),
    cmocka_unit_test(begin__an_audit_that_is_written_at_once_is_left_to_the_second_step),
    cmocka_unit_test(begin__activity_that_is_written_at_once_is_left_to_the_second_step),
    cmocka_unit_test(begin__reads_are_over_at_once_otherwise),
    cmocka_unit_test(begin__a_conflict_that_rests_on_the_log_is_left_to_one_who_may_read_it),
    cmocka_unit_test(begin__a_value_that_is_not_in_memory_is_left_to_one_who_may_wait),
    cmocka_unit_test(begin__a_call_that_must_wait_can_be_dropped_and_was_not_made),
    cmocka_unit_test(disk_wait__a_read_planted_on_a_thread_that_serves_connections_is_caught),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
