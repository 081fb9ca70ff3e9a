/* supervise_test.c: agent.toml, the supervisor's lock and note, agents.list, and what process.record takes of a supervisor. */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"
#include "support/fault_backend.h"

#include <perdure/agent.h>
#include <perdure/supervise.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- agent.toml ---- */

static pd_code parse(const char *text, pd_agent_config *config, pd_error *err)
{
  pd_agent_config_init(config);
  return pd_agent_config_parse(pd_text(text), "agent.toml", "/conf", config, err);
}

static void config__every_setting_is_taken(void **state)
{
  (void)state;
  pd_agent_config c;
  pd_error err;
  assert_int_equal(
    parse("name = \"w\"\nobject_storage = \"sqlite:data\"\nsnapshot_storage = \"perdure:sqlite:snaps\"\ncommand = [\"a\", \"\"]\n"
          "[folders]\nwatch = [\"x\", \"/y\"]\nhidden = true\n"
          "[quotas]\npersistent = 5\nsession = \"1 KiB\"\nmemory = \"1 GiB\"\nfiles = 99\n"
          "[restart]\npolicy = \"always\"\nbackoff = \"1s..1m\"\nmax = \"7/2h\"\nhealthy = 0\ngrace = \"3s\"\n",
          &c, &err),
    PD_OK);
  assert_string_equal(c.name, "w");
  assert_string_equal(c.object_storage, "sqlite:/conf/data");
  assert_string_equal(c.snapshot_storage, "perdure:sqlite:/conf/snaps");
  assert_false(c.has_old_storage);
  assert_int_equal(c.command_count, 2);
  assert_null(c.command[2]);
  assert_string_equal(c.folders[0], "/conf/x");
  assert_string_equal(c.folders[1], "/y");
  assert_true(c.has_hidden);
  assert_int_equal(c.persistent_quota_bytes, 5);
  assert_int_equal(c.session_quota_bytes, 1024);
  assert_int_equal(c.memory_bytes, 1 << 30);
  assert_int_equal(c.files_max, 99);
  assert_int_equal(c.restart, PD_RESTART_ALWAYS);
  assert_int_equal(c.backoff_min_ms, 1000);
  assert_int_equal(c.backoff_max_ms, 60000);
  assert_int_equal(c.restarts_max, 7);
  assert_int_equal(c.restarts_within_ms, 7200000);
  assert_int_equal(c.healthy_ms, 0);
  assert_int_equal(c.grace_ms, 3000);
  pd_agent_config_done(&c);
}

static void config__an_empty_file_leaves_the_defaults(void **state)
{
  (void)state;
  pd_agent_config c;
  assert_int_equal(parse("", &c, NULL), PD_OK);
  assert_string_equal(c.name, "");
  assert_null(c.object_storage);
  assert_null(c.command);
  assert_int_equal(c.restart, PD_RESTART_ON_FAILURE);
  assert_int_equal(c.backoff_min_ms, 200);
  assert_int_equal(c.restarts_max, 10);
  pd_agent_config_done(&c);
}

static void config__what_is_wrong_is_named_with_its_line(void **state)
{
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
    {"\nstorage = \"file:x\"", "agent.toml:2: there is no setting 'storage' of an agent"},
    {"name = 3", "agent.toml:1: 'name' is an integer; it must be a string"},
    {"name = \"\"", "agent.toml:1: "},
    {"object_storage = \"\"", "agent.toml:1: 'object_storage' is no storage"},
    {"object_storage = \"file:\"", "agent.toml:1: 'object_storage' is no storage"},
    {"\nobject_storage = \"s3://bucket/x\"", "agent.toml:2: 'object_storage' is no storage: write sqlite:DIR"},
    {"object_storage = \"memory:\"", "agent.toml:1: 'object_storage' is no storage"},
    {"snapshot_storage = \"s3://bucket/x\"", "agent.toml:1: 'snapshot_storage' is no storage of snapshots"},
    {"snapshot_storage = \"sqlite:./y\"", "agent.toml:1: 'snapshot_storage' is no storage of snapshots"},
    {"snapshot_storage = \"redis:\"", "agent.toml:1: 'snapshot_storage' is no storage of snapshots"},
    {"command = [\"\"]", "agent.toml:1: item 1 of 'command' is empty"},
    {"[folders]\nwatch = [\"\"]", "agent.toml:2: item 1 of 'folders.watch' is empty"},
    {"[folders]\nhidden = 1", "agent.toml:2: 'folders.hidden' is an integer; it must be true or false"},
    {"[[folders]]", "agent.toml:1: [[folders]]: there are no arrays of tables here"},
    {"[quotas]\npersistent = 0", "agent.toml:2: 'quotas.persistent' is 0"},
    {"[quotas]\nfiles = -1", "agent.toml:2: 'quotas.files' is negative"},
    {"[quotas]\nmemory = \"1 MB\"", "agent.toml:2: 'quotas.memory' is 1 MB; it must be from 16 MiB"},
    {"[restart]\nbackoff = \"..\"", "agent.toml:2: 'restart.backoff' is ''"},
    {"[restart]\nbackoff = \"0..1s\"", "agent.toml:2: 'restart.backoff' is 0"},
    {"[restart]\nbackoff = 5", "agent.toml:2: 'restart.backoff' is an integer; it must be a string"},
    {"[restart]\nmax = \"5\"", "agent.toml:2: 'restart.max' is '5'; it must be N/TIME"},
    {"[restart]\nmax = \"x/1m\"", "agent.toml:2: 'restart.max' is 'x'; it must be a whole number"},
    {"[restart]\nmax = \"1/0\"", "agent.toml:2: 'restart.max' is 0"},
    {"[restart]\ngrace = \"2d\"", "agent.toml:2: 'restart.grace' is 2d; it must be from 0 to 1d"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    pd_agent_config c;
    pd_error err = {0};
    assert_int_equal(parse(cases[i].text, &c, &err), PD_INVALID);
    if (strncmp(err.message, cases[i].message, strlen(cases[i].message)) != 0) fail_msg("%s: %s", cases[i].text, err.message);
    pd_agent_config_done(&c);
  }
}

static void config__more_than_the_most_is_refused(void **state)
{
  (void)state;
  pd_agent_config c;
  pd_error err;
  char text[4096] = "[folders]\nwatch = [";
  for (int i = 0; i <= PD_AGENT_FOLDERS_MAX; i++) strcat(text, "'/a',");
  strcat(text, "]");
  assert_int_equal(parse(text, &c, &err), PD_LIMIT);
  pd_agent_config_done(&c);
}

static void config__a_setting_may_come_from_elsewhere(void **state)
{
  (void)state;
  pd_agent_config c;
  pd_error err;
  pd_agent_config_init(&c);
  assert_int_equal(pd_agent_config_set(&c, "restart.max", "none", "--max-restarts", &err), PD_OK);
  assert_int_equal(c.restarts_max, 0);
  assert_int_equal(pd_agent_config_set(&c, "restart.grace", "x", "--grace", &err), PD_INVALID);
  assert_int_equal(strncmp(err.message, "--grace: ", 9), 0);
  assert_int_equal(pd_agent_config_set(&c, "command", "ls", "--command", &err), PD_INVALID);
  assert_int_equal(pd_agent_config_set(&c, "object_storage", "redis://h", "--storage", &err), PD_OK);
  assert_null(c.object_storage); /* an old file: taken as what it meant */
  assert_string_equal(c.snapshot_storage, "redis://h");
  assert_true(c.has_old_storage);
  pd_agent_config_done(&c);
  assert_int_equal(pd_agent_config_read("/there/is/none.toml", &c, &err), PD_NOT_FOUND);
}

/* ---- the lock and the note ---- */

static void supervisor__there_is_one_at_a_time(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  pd_supervisor *one = NULL, *two = NULL, *other = NULL;
  assert_int_equal(pd_supervisor_open(w.home, "a", &one, &w.err), PD_OK);
  assert_int_equal(pd_supervisor_open(w.home, "a", &two, &w.err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&w.err), "AgentSupervised");
  assert_null(two);
  assert_int_equal(pd_supervisor_open(w.home, "b", &other, &w.err), PD_OK);
  pd_supervisor_close(one);
  assert_int_equal(pd_supervisor_open(w.home, "a", &two, &w.err), PD_OK);
  pd_supervisor_close(two);
  pd_supervisor_close(other);
  pd_supervisor_close(NULL);
  assert_int_equal(pd_supervisor_open(w.home, "../a", &two, &w.err), PD_INVALID);
  world_close(&w);
}

static void supervisor__a_note_is_read_as_it_was_written(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  pd_supervisor *s = NULL;
  pd_supervised now = {.state = PD_SUPERVISED_WAITING, .pid = 7, .restarts = 3, .started_ms = 12345}, got;
  snprintf(now.storage, sizeof now.storage, "redis://me:se@cret@host:1/2");
  snprintf(now.config, sizeof now.config, "/conf/\"agent\".toml");
  assert_int_equal(pd_supervised_read(w.home, "a", &got, &w.err), PD_NOT_FOUND);
  assert_int_equal(pd_supervisor_open(w.home, "a", &s, &w.err), PD_OK);
  assert_int_equal(pd_supervisor_note(s, &now, &w.err), PD_OK);
  assert_int_equal(pd_supervised_read(w.home, "a", &got, &w.err), PD_OK);
  assert_int_equal(got.state, PD_SUPERVISED_WAITING);
  assert_int_equal(got.supervisor_pid, getpid());
  assert_int_equal(got.pid, 7);
  assert_int_equal(got.restarts, 3);
  assert_int_equal(got.started_ms, 12345);
  assert_string_equal(got.storage, "redis://host:1/2");
  assert_string_equal(got.config, "/conf/\"agent\".toml");
  pd_supervisor_close(s);
  assert_int_equal(pd_supervised_read(w.home, "a", &got, &w.err), PD_OK);
  assert_int_equal(got.state, PD_SUPERVISED_LOST); /* nobody holds the lock */
  assert_int_equal(got.pid + got.supervisor_pid, 0);
  world_close(&w);
}

static void supervisor__a_killed_one_leaves_the_lock(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/supervise", w.folder);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    pd_supervisor *s = NULL;
    pd_home *home = NULL;
    if (pd_home_open(w.uri, NULL, &home, NULL) || pd_supervisor_open(home, "a", &s, NULL)) _exit(1);
    raise(SIGKILL);
  }
  int status;
  waitpid(child, &status, 0);
  assert_true(WIFSIGNALED(status));
  pd_supervisor *s = NULL;
  assert_int_equal(pd_supervisor_open(w.home, "a", &s, &w.err), PD_OK);
  pd_supervisor_close(s);
  world_close(&w);
}

static void supervisor__a_damaged_note_is_corrupt(void **state)
{
  (void)state;
  static const char *const damaged[] = {"",
                                        "{",
                                        "[]",
                                        "{}",
                                        "{\"state\":\"dancing\",\"supervisor_pid\":1,\"pid\":1,\"restarts\":0,\"started_ms\":0,"
                                        "\"storage\":\"\",\"config\":\"\"}",
                                        "{\"state\":\"running\",\"supervisor_pid\":-1,\"pid\":1,\"restarts\":0,\"started_ms\":0,"
                                        "\"storage\":\"\",\"config\":\"\"}",
                                        "{\"state\":\"running\",\"supervisor_pid\":1,\"pid\":1,\"restarts\":0,\"started_ms\":0,"
                                        "\"storage\":1,\"config\":\"\"}"};
  world w;
  world_open(&w, NULL);
  char path[4096];
  snprintf(path, sizeof path, "%s/supervise", w.folder);
  mkdir(path, 0700);
  strcat(path, "/a.json");
  for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
    pd_supervised got;
    FILE *f = fopen(path, "w");
    fputs(damaged[i], f);
    fclose(f);
    assert_int_equal(pd_supervised_read(w.home, "a", &got, &w.err), PD_CORRUPT);
  }
  w.is_operator = true;
  world_ok(&w, "agents.list", "{}"); /* it is shown all the same */
  assert_string_equal(world_out(&w, "agents.0.agent"), "\"a\"");
  world_close(&w);
}

static void supervisor__a_home_without_a_folder_has_none(void **state)
{
  (void)state;
  pd_home *home = NULL;
  pd_supervisor *s = NULL;
  pd_error err;
  assert_int_equal(pd_home_open("memory:", NULL, &home, &err), PD_OK);
  assert_int_equal(pd_supervisor_open(home, "a", &s, &err), PD_UNSUPPORTED);
  pd_home_close(home, NULL);
}

/* ---- agents.list ---- */

static const char snapshot[] = "{\"agent_id\":\"main\",\"tick_index\":42,\"timestamp\":1706582400000,\"status\":\"BUSY\",\"memory\":{"
                               "\"short_term_history\":[],\"working_variables\":{}},\"event_queue_backup\":[]}";

static void agents__status_and_tick_come_from_the_home_by_default(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  char uri[4096];
  pd_storage *storage = NULL;
  snprintf(uri, sizeof uri, "perdure:%s", w.uri);
  assert_int_equal(pd_storage_open(uri, &storage, &w.err), PD_OK);
  assert_int_equal(pd_storage_save(storage, "main", pd_text(snapshot), &w.err), PD_OK);
  pd_storage_close(storage);
  world_ok(&w, "agents.list", "{}");
  assert_string_equal(world_out(&w, "agents.0.status"), "\"BUSY\"");
  assert_string_equal(world_out(&w, "agents.0.tick"), "42");
  assert_string_equal(world_out(&w, "agents.0.saved_at"), "\"2024-01-30T02:40:00.000Z\"");
  world_close(&w);
}

/* The home has the store open: its snapshot is read there, also if another program saved it, and nothing is opened. */
static void agents__a_store_that_is_open_is_not_opened_again(void **state)
{
  (void)state;
  world w;
  pd_storage *storage = NULL;
  fault_backend_install();
  world_open_at(&w, "fault:memory:agents", NULL);
  world_ok(&w, "process.record", "{\"event\":\"started\",\"name\":\"n\"}"); /* so `system` is there */
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  assert_int_equal(pd_storage_open("perdure:fault:memory:agents", &storage, &w.err), PD_OK);
  assert_int_equal(pd_storage_save(storage, "main", pd_text(snapshot), &w.err), PD_OK);
  pd_storage_close(storage);
  for (int is_operator = 0; is_operator < 2; is_operator++) {
    w.is_operator = is_operator;
    fault_backend_plan((fault_plan){.at = 1, .how = FAULT_BEFORE, .ops = FAULT_OPEN});
    world_ok(&w, "agents.list", "{}");
    assert_false(fault_backend_fired());
    fault_backend_plan((fault_plan){0});
    world_want(&w, "agents.0.status", "\"BUSY\"");
    world_want(&w, "agents.0.tick", "42");
  }
  world_close(&w);
}

static void agents__a_store_that_is_not_open_stays_closed(void **state)
{
  (void)state;
  world w;
  char uri[4096];
  pd_storage *storage = NULL;
  world_open(&w, NULL);
  snprintf(uri, sizeof uri, "perdure:%s", w.uri);
  assert_int_equal(pd_storage_open(uri, &storage, &w.err), PD_OK);
  assert_int_equal(pd_storage_save(storage, "main", pd_text(snapshot), &w.err), PD_OK);
  pd_storage_close(storage);
  w.is_operator = true;
  world_ok(&w, "agents.list", "{}");
  world_want(&w, "agents.0.tick", "42");
  assert_false(pd_home_is_open(w.home, "main")); /* a list of many agents does not close the stores of those who work */
  world_close(&w);
}

static void agents__the_last_activity_is_the_later_of_call_and_save(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  world_ok(&w, "agents.list", "{}");
  assert_string_equal(world_out(&w, "agents.0.last_activity"), "\"2026-11-15T10:00:00.000Z\"");
  world_close(&w);
}

static void agents__an_agent_sees_itself_and_the_operator_all(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  static const char *const agents[] = {"ann", "ben", "cy"};
  for (size_t i = 0; i < 3; i++) {
    w.agent = agents[i];
    world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  }
  world_ok(&w, "agents.list", "{}");
  assert_string_equal(world_out(&w, "count"), "1");
  assert_string_equal(world_out(&w, "agents.0.agent"), "\"cy\"");
  w.is_operator = true;
  world_ok(&w, "agents.list", "{\"limit\":2}");
  assert_string_equal(world_out(&w, "count"), "2");
  assert_string_equal(world_out(&w, "has_more"), "true");
  assert_string_equal(world_out(&w, "agents.1.agent"), "\"ben\"");
  world_ok(&w, "agents.list", "{\"after\":\"ben\"}");
  assert_string_equal(world_out(&w, "agents.0.agent"), "\"cy\"");
  assert_string_equal(world_out(&w, "has_more"), "false");
  world_close(&w);
}

static void agents__a_storage_that_cannot_be_read_is_a_problem_of_that_agent(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  pd_supervisor *s = NULL;
  pd_supervised now = {.state = PD_SUPERVISED_RUNNING, .pid = 7, .storage = "redis://127.0.0.1:1/0?timeout_ms=200"};
  assert_int_equal(pd_supervisor_open(w.home, "far", &s, &w.err), PD_OK);
  assert_int_equal(pd_supervisor_note(s, &now, &w.err), PD_OK);
  w.is_operator = true;
  world_ok(&w, "agents.list", "{}");
  assert_string_equal(world_out(&w, "agents.0.agent"), "\"far\"");
  assert_string_equal(world_out(&w, "agents.0.status"), "null");
  assert_true(*world_out(&w, "agents.0.problem"));
  assert_string_equal(world_out(&w, "agents.0.process"), "\"running\"");
  assert_string_equal(world_out(&w, "agents.0.pid"), "7");
  assert_string_equal(world_out(&w, "agents.1.agent"), "\"main\"");
  assert_string_equal(world_out(&w, "agents.1.problem"), "");
  assert_null(strstr(world_out(&w, "agents.0.problem"), "the operator sees why"));
  w.agent = "far", w.is_operator = false;
  world_ok(&w, "agents.list", "{}");
  assert_non_null(strstr(world_out(&w, "agents.0.problem"), "the operator sees why")); /* messages tell where the host keeps things */
  pd_supervisor_close(s);
  world_close(&w);
}

/* ---- process.record ---- */

static void process__a_supervisor_tells_more(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.is_operator = true;
  world_ok(&w, "process.record", "{\"event\":\"restarted\",\"name\":\"x\",\"pid\":3,\"restarts\":2,\"token_sha256\":\"" HASH "\"}");
  world_ok(&w, "process.record", "{\"event\":\"gave_up\",\"name\":\"x\",\"stderr_tail\":\"Tränen\\n\"}");
  w.is_operator = false;
  world_ok(&w, "process.list", "{}");
  assert_string_equal(world_out(&w, "events.0.event"), "\"gave_up\"");
  assert_string_equal(world_out(&w, "events.0.stderr_tail"), "\"Tränen\\n\"");
  assert_string_equal(world_out(&w, "events.1.restarts"), "2");
  assert_string_equal(world_out(&w, "events.1.token_sha256"), "\"" HASH "\"");
  world_close(&w);
}

static void process_record__err_PermissionDenied__a_token_is_the_operators_to_tell(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_fails(&w, "process.record", "{\"event\":\"started\",\"name\":\"x\",\"token_sha256\":\"" HASH "\"}", "PermissionDenied", "omit");
  w.is_operator = true;
  world_fails(
    &w, "process.record",
    "{\"event\":\"started\",\"name\":\"x\",\"token_sha256\":\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\"}",
    "InvalidInput", NULL);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(config__every_setting_is_taken),
    cmocka_unit_test(config__an_empty_file_leaves_the_defaults),
    cmocka_unit_test(config__what_is_wrong_is_named_with_its_line),
    cmocka_unit_test(config__more_than_the_most_is_refused),
    cmocka_unit_test(config__a_setting_may_come_from_elsewhere),
    cmocka_unit_test(supervisor__there_is_one_at_a_time),
    cmocka_unit_test(supervisor__a_note_is_read_as_it_was_written),
    cmocka_unit_test(supervisor__a_killed_one_leaves_the_lock),
    cmocka_unit_test(supervisor__a_damaged_note_is_corrupt),
    cmocka_unit_test(supervisor__a_home_without_a_folder_has_none),
    cmocka_unit_test(agents__status_and_tick_come_from_the_home_by_default),
    cmocka_unit_test(agents__a_store_that_is_open_is_not_opened_again),
    cmocka_unit_test(agents__a_store_that_is_not_open_stays_closed),
    cmocka_unit_test(agents__the_last_activity_is_the_later_of_call_and_save),
    cmocka_unit_test(agents__an_agent_sees_itself_and_the_operator_all),
    cmocka_unit_test(agents__a_storage_that_cannot_be_read_is_a_problem_of_that_agent),
    cmocka_unit_test(process__a_supervisor_tells_more),
    cmocka_unit_test(process_record__err_PermissionDenied__a_token_is_the_operators_to_tell),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
