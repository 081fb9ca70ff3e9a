/* redis_test.c: agents in a real Redis server that is full, read-only, deaf, killed, or has somebody else's keys. */
#include "agent/world.h"
#include "base/base.h"
#include "storage/redis_server.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const lasting[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};

static int set_up(void **state)
{
  redis_server *server = redis_server_new();
  redis_server_start(server, lasting);
  *state = server;
  return 0;
}

static int tear_down(void **state)
{
  redis_server_free(*state);
  return 0;
}

static void tell(const redis_server *server, const char *command)
{
  free(redis_server_ask(server, command));
}

static pd_agent *open_at(const redis_server *server, const char *options)
{
  char *uri = redis_server_socket_uri(server, options);
  pd_agent *agent = agent_open(uri, "x");
  free(uri);
  return agent;
}

static void stage(pd_agent *agent, const char *event)
{
  assert_int_equal(begin(agent, event), PD_STEP_NEW);
  OK(pd_agent_step_set_number(agent, "count", pd_agent_number(agent, "count", 0) + 1, &err));
  OK(pd_agent_step_reply_text(agent, "done", &err));
}

static void expect_counted(pd_agent *agent, int64_t count)
{
  assert_string_equal(pd_agent_reply_text(agent), "done");
  assert_int_equal(pd_agent_number(agent, "count", 0), count);
  assert_int_equal(agent_info(agent).tick_index, count);
}

static void agent__lives_in_redis(void **state)
{
  pd_agent *agent = open_at(*state, "");
  push(agent, "{\"id\":\"1\"}");
  stage(agent, NULL);
  OK(pd_agent_step_commit(agent, &err));
  pd_agent_close(agent);
  char *epoch = redis_server_ask(*state, "GET perdure:agent-snapshot:epoch:x");
  agent = open_at(*state, "");
  assert_true(agent_info(agent).epoch > strtoull(epoch, NULL, 10));
  free(epoch);
  assert_int_equal(begin(agent, NULL), PD_STEP_SEEN);
  expect_counted(agent, 1);
  pd_agent_close(agent);
}

static void agent__out_of_memory_is_said_and_the_step_done_once(void **state)
{
  pd_agent *agent = open_at(*state, "");
  stage(agent, "{\"id\":\"1\"}");
  tell(*state, "CONFIG SET maxmemory-policy noeviction");
  tell(*state, "CONFIG SET maxmemory 1mb");
  REFUSED(PD_FULL, "OOM", pd_agent_step_commit(agent, &err));
  REFUSED(PD_FULL, "OOM", pd_agent_step_commit(agent, &err));
  assert_int_equal(pd_agent_reply(agent).size, 0);
  tell(*state, "CONFIG SET maxmemory 0");
  OK(pd_agent_step_commit(agent, &err));
  expect_counted(agent, 1);
  pd_agent_close(agent);
}

static void agent__a_server_that_became_a_replica_is_read_only(void **state)
{
  pd_agent *agent = open_at(*state, "");
  stage(agent, "{\"id\":\"1\"}");
  tell(*state, "REPLICAOF 127.0.0.1 1");
  REFUSED(PD_READ_ONLY, "READONLY", pd_agent_step_commit(agent, &err));
  tell(*state, "REPLICAOF NO ONE");
  OK(pd_agent_step_commit(agent, &err));
  expect_counted(agent, 1);
  pd_agent_close(agent);
}

/* It hears the save later than we wait for the answer. */
static void agent__a_slow_server_does_not_make_a_step_twice(void **state)
{
  pd_agent *agent = open_at(*state, "command_ms=1000&retry_ms=0&connect_ms=3000");
  for (int i = 0; i < 3; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    stage(agent, event);
    redis_server_pause(*state);
    REFUSED(PD_STORAGE, "did not answer in time", pd_agent_step_commit(agent, &err));
    redis_server_resume(*state);
    pd_code code = PD_STORAGE;
    for (int tries = 0; code && tries < 100; tries++) code = pd_agent_step_commit(agent, NULL);
    assert_int_equal(code, PD_OK);
    expect_counted(agent, i + 1);
    free(event);
  }
  pd_agent_close(agent);
}

static void agent__a_server_that_is_killed_and_comes_back_has_all_that_was_acknowledged(void **state)
{
  redis_server *server = *state;
  pd_agent *agent = open_at(server, "retry_ms=600");
  for (int i = 0; i < 5; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    pd_effect_state what;
    stage(agent, event);
    OK(pd_agent_effect_intend(agent, event, pd_text(""), &what, &err));
    redis_server_kill(server);
    REFUSED(PD_STORAGE, "no Redis server", pd_agent_step_commit(agent, &err));
    redis_server_start(server, lasting);
    OK(pd_agent_step_commit(agent, &err));
    expect_counted(agent, i + 1);
    free(event);
  }
  pd_agent_close(agent);
}

/* Its epoch is gone with the rest: nobody knows who came meanwhile. */
static void agent__a_server_that_forgot_everything_fences_whoever_remembers(void **state)
{
  pd_agent *agent = open_at(*state, "");
  stage(agent, "{\"id\":\"1\"}");
  OK(pd_agent_step_commit(agent, &err));
  tell(*state, "FLUSHALL");
  stage(agent, "{\"id\":\"2\"}");
  REFUSED(PD_CONFLICT, "held by epoch 0 now", pd_agent_step_commit(agent, &err));
  pd_agent_close(agent);
}

/* Without persistence, killed and started again; both go on (T3). */
static void agent__a_server_that_lost_its_memory_gives_no_epoch_out_again(void **state)
{
  redis_server *server = *state;
  static const char *const forgetful[] = {"--appendonly", "no", "--save", "", NULL};
  redis_server_kill(server);
  char *rest = text_of("rm -rf %s/appendonlydir %s/dump.rdb %s/*.aof", server->folder, server->folder, server->folder);
  assert_int_equal(system(rest), 0);
  free(rest);
  redis_server_start(server, forgetful);
  pd_agent *older = open_at(server, "");
  stage(older, "{\"id\":\"1\"}");
  OK(pd_agent_step_commit(older, &err));
  redis_server_kill(server);
  redis_server_start(server, forgetful);
  pd_agent *newer = open_at(server, "");
  assert_true(agent_info(newer).epoch > agent_info(older).epoch);
  stage(newer, "{\"id\":\"10\"}");
  OK(pd_agent_step_commit(newer, &err));
  stage(older, "{\"id\":\"3\"}");
  REFUSED(PD_CONFLICT, "may not save it any more", pd_agent_step_commit(older, &err));
  stage(newer, "{\"id\":\"11\"}");
  OK(pd_agent_step_commit(newer, &err));
  expect_counted(newer, 2);
  pd_agent_close(older);
  pd_agent_close(newer);
}

static void agent__the_older_of_two_saves_nothing(void **state)
{
  pd_agent *older = open_at(*state, ""), *newer = open_at(*state, "");
  stage(older, "{\"id\":\"1\"}");
  stage(newer, "{\"id\":\"1\"}");
  OK(pd_agent_step_commit(newer, &err));
  pd_error err = {0};
  assert_int_equal(pd_agent_step_commit(older, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "AgentFenced");
  pd_agent_close(older);
  pd_agent_close(newer);
}

static void agent__keys_that_are_no_epoch_are_refused_and_kept(void **state)
{
  static const char *const odd[] = {"-1", "abc", "1.5", "99999999999999999999", ""};
  char *uri = redis_server_socket_uri(*state, "");
  pd_agent *agent = NULL;
  for (size_t i = 0; i < COUNT_OF(odd); i++) {
    free(redis_server_ask(*state, "SET perdure:agent-snapshot:epoch:x %s", odd[i]));
    REFUSED(PD_CORRUPT, "holds no epoch", pd_agent_open(uri, "x", NULL, &agent, &err));
    char *still = redis_server_ask(*state, "GET perdure:agent-snapshot:epoch:x");
    assert_string_equal(still, odd[i]);
    free(still);
  }
  tell(*state, "DEL perdure:agent-snapshot:epoch:x");
  agent = agent_open(uri, "x");
  stage(agent, "{\"id\":\"1\"}");
  tell(*state, "DEL perdure:agent-snapshot:epoch:x");
  tell(*state, "RPUSH perdure:agent-snapshot:epoch:x a");
  REFUSED(PD_CORRUPT, "WRONGTYPE", pd_agent_step_commit(agent, &err));
  pd_agent_close(agent);
  free(uri);
}

static void agent__rights_that_are_missing_are_named(void **state)
{
  redis_server *server = *state;
  tell(server, "ACL SETUSER agent on >p ~* +@all -eval");
  char *uri = text_of("redis://agent:p@127.0.0.1:%d", server->port);
  pd_agent *agent = NULL;
  REFUSED(PD_DENIED, "NOPERM", pd_agent_open(uri, "x", NULL, &agent, &err));
  tell(server, "ACL SETUSER agent +eval");
  agent = agent_open(uri, "x");
  stage(agent, "{\"id\":\"1\"}");
  tell(server, "ACL SETUSER agent -eval");
  REFUSED(PD_DENIED, "NOPERM", pd_agent_step_commit(agent, &err));
  tell(server, "ACL SETUSER agent +eval");
  OK(pd_agent_step_commit(agent, &err));
  pd_agent_close(agent);
  free(uri);
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  static const struct CMUnitTest tests[] = {
    WITH_SERVER(agent__lives_in_redis),
    WITH_SERVER(agent__out_of_memory_is_said_and_the_step_done_once),
    WITH_SERVER(agent__a_server_that_became_a_replica_is_read_only),
    WITH_SERVER(agent__a_slow_server_does_not_make_a_step_twice),
    WITH_SERVER(agent__a_server_that_is_killed_and_comes_back_has_all_that_was_acknowledged),
    WITH_SERVER(agent__a_server_that_forgot_everything_fences_whoever_remembers),
    WITH_SERVER(agent__a_server_that_lost_its_memory_gives_no_epoch_out_again),
    WITH_SERVER(agent__the_older_of_two_saves_nothing),
    WITH_SERVER(agent__keys_that_are_no_epoch_are_refused_and_kept),
    WITH_SERVER(agent__rights_that_are_missing_are_named),
  };
  if (!redis_server_exists()) {
    fprintf(stderr, "# no redis-server here: tools/deps test\n");
    return 1;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
