/*
 * agent_test.c AGENT PLUGIN: the example agent (examples/agent/agent.c) is killed at random moments, 300 times for each storage in
 * `make torture`; and a Redis server under it, 50 times. After each kill: every acknowledged reply is in the state, no step is lost, none
 * is done twice.
 *
 * One agent with one list of tasks is a generation. When it is through with its list, all of it is compared and the next one begins.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "crash/crash.h"
#include "storage/redis_server.h"

#include <fcntl.h>
#include <perdure/agent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KILLS_SHORT 6
#define KILLS_FULL 300
#define SERVER_KILLS_SHORT 2
#define SERVER_KILLS_FULL 50
#define TASKS_SHORT 30
#define TASKS_FULL 300
#define LIFE_MS_MAX 250
#define FILE_SIZE_MAX ((size_t)1024 * 1024)

static const char *agent_path, *plugin_path;
static uint64_t tasks; /* of a generation */

typedef struct generation {
  char folder[CRASH_PATH_MAX], uri[2 * CRASH_URI_MAX], agent[32];
  uint64_t number, kills, steps; /* steps of all generations */
  uint64_t seen_tick;            /* of this one */
} generation;

/* ---- the agent ---- */

static void begin_generation(generation *g)
{
  char path[CRASH_URI_MAX];
  snprintf(path, sizeof path, "%s/g%llu", g->folder, (unsigned long long)++g->number);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(g->agent, sizeof g->agent, "counter%llu", (unsigned long long)g->number);
  g->seen_tick = 0;
  strcat(path, "/tasks");
  FILE *f = fopen(path, "w");
  for (int i = 1; i <= (int)tasks; i++) fprintf(f, "plant %d\n", i);
  fclose(f);
}

static pid_t start_agent(const generation *g)
{
  char out[CRASH_URI_MAX], list[CRASH_URI_MAX + 8], errors[CRASH_URI_MAX + 8];
  snprintf(out, sizeof out, "%s/g%llu", g->folder, (unsigned long long)g->number);
  snprintf(list, sizeof list, "%s/tasks", out);
  snprintf(errors, sizeof errors, "%s/errors", out);
  fflush(stdout);
  pid_t pid = fork();
  if (pid) return pid;
  setenv("PERDURE_STORAGE", g->uri, 1);
  setenv("PERDURE_AGENT", g->agent, 1);
  int fd = open(errors, O_WRONLY | O_CREAT | O_APPEND, 0600), null = open("/dev/null", O_WRONLY);
  dup2(fd, STDERR_FILENO);
  dup2(null, STDOUT_FILENO);
  execl(agent_path, agent_path, list, out, (char *)NULL);
  _exit(127);
}

/* ---- looking ---- */

static void read_out(const generation *g, const char *name, pd_buf *out)
{
  char path[CRASH_URI_MAX];
  snprintf(path, sizeof path, "%s/g%llu/%s", g->folder, (unsigned long long)g->number, name);
  pd_code code = pd_file_read(path, FILE_SIZE_MAX, out, NULL);
  assert_true(code == PD_OK || code == PD_NOT_FOUND);
}

/* The number of lines, which must be task 1, 2, 3… with their texts, each once. A last one without an end is not there yet. */
static uint64_t count_lines(const generation *g, const char *name, const char *format)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char want[128];
  uint64_t count = 0;
  read_out(g, name, &text);
  for (size_t at = 0; at < text.size;) {
    const uint8_t *end = memchr(text.data + at, '\n', text.size - at);
    if (!end) break;
    size_t size = (size_t)(end - text.data) - at, wanted;
    int number = (int)++count;
    wanted = (size_t)snprintf(want, sizeof want, format, number, number);
    if (size != wanted || memcmp(text.data + at, want, size) != 0)
      fail_msg("%s %s, line %d is '%.*s', not '%s'", g->agent, name, number, (int)size, (const char *)text.data + at, want);
    at += size + 1;
  }
  return count;
}

static uint64_t replies_of(const generation *g)
{
  return count_lines(g, "replies", "task-%d\tnumber %d is done");
}

/* The tick of the saved state, in which every step left its message, in order, once. */
static uint64_t tick_of(const generation *g, bool is_there)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  pd_storage *storage = NULL;
  pd_error err = {0};
  pd_snapshot s;
  char want[64];
  if (pd_storage_open(g->uri, &storage, &err)) fail_msg("%s: %s", g->uri, err.message);
  pd_code code = pd_storage_load(storage, g->agent, &document, &err);
  pd_storage_close(storage);
  if (code == PD_NOT_FOUND && !is_there) return 0;
  if (code || pd_snapshot_check(pd_buf_bytes(&document), g->agent, &s, &err)) fail_msg("%s in %s: %s", g->agent, g->uri, err.message);
  pd_json history, variables, message;
  uint64_t count = 0, number = 0;
  assert_int_equal(pd_json_parse(s.history, &history, NULL), PD_OK);
  assert_int_equal(pd_json_parse(s.variables, &variables, NULL), PD_OK);
  for (pd_json_walk walk = pd_json_walk_begin(history); pd_json_walk_next(&walk, NULL, &message);) {
    snprintf(want, sizeof want, "plant %llu", (unsigned long long)++number);
    if (!pd_json_is(pd_json_member(message, "content"), want))
      fail_msg("%s: message %llu is %.*s", g->agent, (unsigned long long)number, (int)message.raw.size, (const char *)message.raw.data);
  }
  bool has_count = pd_json_u64(pd_json_member(variables, "count"), &count);
  if (s.tick_index && !has_count) fail_msg("%s has no count", g->agent);
  if (s.tick_index != number || s.tick_index != count)
    fail_msg("%s: tick %llu, %llu messages, count %llu", g->agent, (unsigned long long)s.tick_index, (unsigned long long)number,
             (unsigned long long)count);
  return s.tick_index;
}

/* While nobody works. */
static void check(generation *g)
{
  uint64_t replies = replies_of(g), effects = count_lines(g, "effects", "task-%d\tplant %d"), tick = tick_of(g, replies > 0);
  if (tick < replies)
    fail_msg("%s: %llu replies have left, and the state is at tick %llu", g->agent, (unsigned long long)replies, (unsigned long long)tick);
  if (tick > replies + 1)
    fail_msg("%s: tick %llu, but only %llu replies have left", g->agent, (unsigned long long)tick, (unsigned long long)replies);
  if (effects < tick || effects > tick + 1)
    fail_msg("%s: %llu effects at tick %llu", g->agent, (unsigned long long)effects, (unsigned long long)tick);
  if (tick < g->seen_tick)
    fail_msg("%s: the state went back from tick %llu to %llu", g->agent, (unsigned long long)g->seen_tick, (unsigned long long)tick);
  g->steps += tick - g->seen_tick;
  g->seen_tick = tick;
}

static void check_end(generation *g, int status)
{
  CLEANUP(pd_buf_done) pd_buf errors = {0};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    read_out(g, "errors", &errors);
    fail_msg("%s in %s ended with status %x: %.*s", g->agent, g->uri, (unsigned)status, (int)errors.size,
             errors.data ? (const char *)errors.data : "");
  }
  check(g);
  assert_int_equal(g->seen_tick, tasks);
  assert_int_equal(replies_of(g), tasks);
}

/* ---- killing the agent ---- */

/* The agent's status if it ended before its time, else -1. */
static int let_live(pid_t pid, int64_t life_ms)
{
  int status;
  for (int64_t end = pd_clock_monotonic_ms() + life_ms; pd_clock_monotonic_ms() < end; poll(NULL, 0, 1))
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
  return -1;
}

static void kill_once(generation *g)
{
  pid_t pid = start_agent(g);
  assert_true(pid > 0);
  int status = let_live(pid, (int64_t)crash_random(LIFE_MS_MAX));
  if (status < 0) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
  }
  if (!WIFSIGNALED(status)) {
    check_end(g, status);
    begin_generation(g);
    return;
  }
  assert_int_equal(WTERMSIG(status), SIGKILL);
  g->kills++;
  check(g);
}

static void finish(generation *g)
{
  int status;
  pid_t pid = start_agent(g);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  check_end(g, status);
}

/* `format` is a URI with the folder in it. */
static void torture(const char *format, const char *what)
{
  generation g = {0};
  uint64_t kills = crash_count(KILLS_SHORT, KILLS_FULL);
  crash_seed();
  crash_scratch(g.folder);
  snprintf(g.uri, sizeof g.uri, format, g.folder);
  begin_generation(&g);
  while (g.kills < kills) kill_once(&g);
  finish(&g);
  printf("# %s: %llu kills, %llu steps, %llu agents\n", what, (unsigned long long)g.kills, (unsigned long long)g.steps,
         (unsigned long long)g.number);
  crash_scratch_remove(g.folder);
  assert_true(g.steps >= tasks);
}

static void agent__survives_in_files(void **state)
{
  (void)state;
  torture("file:%s/storage", "file");
}

static void agent__survives_in_sqlite(void **state)
{
  (void)state;
  torture("sqlite-snapshots:%s/storage.db", "sqlite-snapshots");
}

static void agent__survives_in_perdure(void **state)
{
  (void)state;
  torture("perdure:sqlite:%s/storage", "perdure");
}

static void agent__survives_in_a_plugin(void **state)
{
  (void)state;
  char format[CRASH_URI_MAX];
  snprintf(format, sizeof format, "plugin:%s?%%s/journal", plugin_path);
  torture(format, "plugin");
}

/* ---- Redis ---- */

static const char *const always[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};

static void agent__survives_in_redis(void **state)
{
  (void)state;
  if (!redis_server_exists()) skip();
  redis_server *server = redis_server_new();
  redis_server_start(server, always);
  char *uri = redis_server_socket_uri(server, "");
  torture(uri, "redis");
  free(uri);
  redis_server_free(server);
}

/* The agent lives on: what it saves while the server is away waits for it, or fails, and then it is started again. */
static pid_t live_on(generation *g, pid_t pid)
{
  int status;
  if (waitpid(pid, &status, WNOHANG) != pid) return pid;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    check_end(g, status);
    begin_generation(g);
  }
  return start_agent(g);
}

static void agent__survives_a_redis_server_that_is_killed(void **state)
{
  (void)state;
  if (!redis_server_exists()) skip();
  generation g = {0};
  int status;
  uint64_t kills = crash_count(SERVER_KILLS_SHORT, SERVER_KILLS_FULL);
  redis_server *server = redis_server_new();
  redis_server_start(server, always);
  char *uri = redis_server_socket_uri(server, "");
  crash_seed();
  crash_scratch(g.folder);
  snprintf(g.uri, sizeof g.uri, "%s", uri);
  begin_generation(&g);
  pid_t pid = start_agent(&g);
  for (uint64_t i = 0; i < kills; i++) {
    poll(NULL, 0, (int)crash_random(LIFE_MS_MAX) + 20);
    redis_server_kill(server);
    poll(NULL, 0, (int)crash_random(50));
    redis_server_start(server, always);
    uint64_t replies = replies_of(&g), tick = tick_of(&g, replies > 0); /* first the one, then the other: the agent works on */
    if (tick < replies)
      fail_msg("%s: %llu replies have left, and the state is at tick %llu", g.agent, (unsigned long long)replies, (unsigned long long)tick);
    pid = live_on(&g, pid);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    check_end(&g, status);
  else
    finish(&g);
  printf("# redis: %llu kills of the server, %llu agents\n", (unsigned long long)kills, (unsigned long long)g.number);
  free(uri);
  crash_scratch_remove(g.folder);
  redis_server_free(server);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(agent__survives_in_files),   cmocka_unit_test(agent__survives_in_sqlite),
    cmocka_unit_test(agent__survives_in_perdure), cmocka_unit_test(agent__survives_in_a_plugin),
    cmocka_unit_test(agent__survives_in_redis),   cmocka_unit_test(agent__survives_a_redis_server_that_is_killed),
  };
  if (argc != 3) return 2;
  agent_path = argv[1];
  plugin_path = argv[2];
  tasks = crash_count(TASKS_SHORT, TASKS_FULL);
  return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
