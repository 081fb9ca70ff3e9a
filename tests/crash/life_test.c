/*
 * life_test.c PLUGIN: several processes of one life, in one epoch, on each storage: two work on the queue, one pushes events and intends
 * effects. Before Redis there is a proxy that delays, cuts and repeats their saves. In the end: every event whose push was acknowledged was
 * worked on, once; every reply that was given for it is the same; no step's change of a variable is lost; every effect that was
 * intended is in the ledger, and was done by one process alone; every reply of a finished step was given to somebody.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "crash/crash.h"
#include "crash/redis_proxy.h"
#include "storage/redis_server.h"

#include <fcntl.h>
#include <perdure/agent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EVENTS_SHORT 40
#define EVENTS_FULL 400
#define EVENTS_PLUGIN 120 /* the example reads its whole journal at each call */
#define WORKERS 2
#define INTENTS_EACH 4 /* one effect without a step for so many events */
#define LIFE_MS_MAX 400000
#define LOG_SIZE_MAX ((size_t)4 << 20)
#define MISTREATED 25 /* of 100 saves, in Redis */

static const char *plugin_path;

typedef struct life {
  char folder[CRASH_PATH_MAX], uri[2 * CRASH_URI_MAX];
  uint64_t epoch, events;
  int64_t end_ms;
} life;

/* ---- in the processes ---- */

__attribute__((noreturn)) static void give_up(const char *what, const pd_error *err)
{
  fprintf(stderr, "# %s: %s: %s\n", what, pd_error_name(err), err->message);
  _exit(1);
}

/* Append a line; lines of several processes do not mix. */
static void note(const life *l, const char *name, const char *line)
{
  char path[CRASH_URI_MAX];
  snprintf(path, sizeof path, "%s/%s", l->folder, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ssize_t size = (ssize_t)strlen(line);
  if (fd < 0 || write(fd, line, (size_t)size) != size) _exit(3);
  close(fd);
}

static bool is_noted(const life *l, const char *name)
{
  char path[CRASH_URI_MAX];
  snprintf(path, sizeof path, "%s/%s", l->folder, name);
  return access(path, F_OK) == 0;
}

static bool is_named(const pd_error *err, const char *name)
{
  return strcmp(pd_error_name(err), name) == 0;
}

/* The outcome is not known, or the server was away: it is to be tried again. */
static bool is_passing(const life *l, pd_code code, const pd_error *err, const char *what)
{
  if (!code) return false;
  if (code != PD_STORAGE || pd_clock_monotonic_ms() > l->end_ms) give_up(what, err);
  return true;
}

static pd_agent *attach(const life *l)
{
  pd_agent *agent = NULL;
  pd_agent_options options = {.epoch = l->epoch, .reply_count_max = 100000, .reply_bytes_max = (size_t)8 << 20};
  pd_error err = {0};
  while (is_passing(l, pd_agent_open(l->uri, "x", &options, &agent, &err), &err, "open")) continue;
  return agent;
}

static void do_effect(const life *l, pd_agent *agent)
{
  char id[300], line[310];
  pd_effect_state state;
  pd_error err = {0};
  snprintf(id, sizeof id, "mail-%s", pd_agent_step_event_id(agent));
  while (is_passing(l, pd_agent_effect_intend(agent, id, pd_text(""), &state, &err), &err, "intend")) continue;
  if (state != PD_EFFECT_INTENDED) return; /* another one does it, or did */
  snprintf(line, sizeof line, "%s\n", id);
  note(l, "effects", line);
  while (is_passing(l, pd_agent_effect_done(agent, id, pd_text(""), &err), &err, "done")) continue;
}

static void tell_reply(const life *l, const pd_agent *agent)
{
  char line[800];
  snprintf(line, sizeof line, "%s\t%s\n", pd_agent_step_event_id(agent), pd_agent_reply_text(agent));
  note(l, "replies", line);
}

/* Commit; again, or not, if the outcome is not known. */
static void finish_step(const life *l, pd_agent *agent)
{
  pd_error err = {0};
  for (;;) {
    pd_code code = pd_agent_step_commit(agent, &err);
    if (!code) break;
    bool is_outdated = code == PD_CONFLICT && is_named(&err, "StepOutdated");
    if (!is_outdated) is_passing(l, code, &err, "commit");
    if (!is_outdated && crash_random(3)) continue;
    pd_agent_step_abort(agent);
    return;
  }
  tell_reply(l, agent);
}

static void work(const life *l, unsigned number)
{
  pd_agent *agent = attach(l);
  for (bool is_over = false;;) {
    pd_step step = PD_STEP_NONE;
    char reply[64];
    pd_error err = {0};
    bool is_last = is_noted(l, "pushed");
    if (is_passing(l, pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, &err), &err, "begin")) continue;
    if (step == PD_STEP_NONE && is_last && is_over) break;
    is_over = step == PD_STEP_NONE && is_last; /* twice, with a pause: what is still on the way arrives */
    if (step == PD_STEP_NONE) poll(NULL, 0, is_over ? 1200 : 2);
    if (step == PD_STEP_SEEN) tell_reply(l, agent);
    if (step != PD_STEP_NEW) continue;
    do_effect(l, agent);
    snprintf(reply, sizeof reply, "by %u, %llu", number, (unsigned long long)crash_random(1u << 30));
    if (pd_agent_step_set_number(agent, "count", pd_agent_number(agent, "count", 0) + 1, &err)) give_up("set", &err);
    if (pd_agent_step_reply_text(agent, reply, &err)) give_up("reply", &err);
    finish_step(l, agent);
  }
  pd_agent_close(agent);
}

static void push_all(const life *l)
{
  pd_agent *agent = attach(l);
  char text[96];
  for (uint64_t i = 1; i <= l->events; i++) {
    pd_error err = {0};
    pd_push what;
    pd_effect_state state;
    snprintf(text, sizeof text, "{\"id\":\"e%llu\"}", (unsigned long long)i);
    while (is_passing(l, pd_agent_event_push(agent, pd_text(text), &what, &err), &err, "push")) continue;
    if (i % INTENTS_EACH == 0) {
      snprintf(text, sizeof text, "free-%llu", (unsigned long long)i);
      while (is_passing(l, pd_agent_effect_intend(agent, text, pd_text(""), &state, &err), &err, "intend")) continue;
    }
    if (i % 8 == 0) poll(NULL, 0, 5);
  }
  pd_agent_close(agent);
  note(l, "pushed", "all\n");
}

/* ---- looking ---- */

static void read_log(const life *l, const char *name, pd_buf *out)
{
  char path[CRASH_URI_MAX];
  snprintf(path, sizeof path, "%s/%s", l->folder, name);
  assert_int_equal(pd_file_read(path, LOG_SIZE_MAX, out, NULL), PD_OK);
  assert_int_equal(pd_buf_byte(out, 0, NULL), PD_OK);
}

/* Each line of the log: KEY or KEY<tab>VALUE; how many there are of the key, and they must have one value. */
static uint64_t count_of(const pd_buf *log, const char *key, const char *what)
{
  uint64_t count = 0;
  const char *value = NULL, *end = NULL;
  size_t size = strlen(key);
  for (const char *line = (const char *)log->data; *line; line = strchr(line, '\n') + 1) {
    if (strncmp(line, key, size) != 0 || (line[size] != '\t' && line[size] != '\n')) continue;
    const char *stop = strchr(line, '\n');
    if (value && (stop - (line + size) != end - value || strncmp(value, line + size, (size_t)(end - value)) != 0))
      fail_msg("%s of %s: '%.*s' and '%.*s'", what, key, (int)(end - value), value, (int)(stop - line - (long)size), line + size);
    value = line + size, end = stop;
    count++;
  }
  return count;
}

static void check(const life *l)
{
  CLEANUP(pd_buf_done) pd_buf replies = {0};
  CLEANUP(pd_buf_done) pd_buf effects = {0};
  pd_agent *agent = NULL;
  pd_agent_info info;
  pd_effect effect;
  pd_error err = {0};
  char name[64];
  read_log(l, "replies", &replies);
  read_log(l, "effects", &effects);
  if (pd_agent_open(l->uri, "x", NULL, &agent, &err)) fail_msg("%s", err.message);
  pd_agent_info_get(agent, &info);
  assert_int_equal(info.event_count, 0);
  assert_int_equal(info.tick_index, l->events);                    /* each worked on, once */
  assert_int_equal(pd_agent_number(agent, "count", 0), l->events); /* and no change lost */
  assert_int_equal(info.reply_count, l->events);
  for (uint64_t i = 1; i <= l->events; i++) {
    snprintf(name, sizeof name, "e%llu", (unsigned long long)i);
    if (!count_of(&replies, name, "the reply")) fail_msg("nobody was given the reply to %s", name);
    snprintf(name, sizeof name, "mail-e%llu", (unsigned long long)i);
    assert_int_equal(count_of(&effects, name, "the effect"), 1);
    snprintf(name, sizeof name, "free-%llu", (unsigned long long)i);
    if (i % INTENTS_EACH == 0 && pd_agent_effect_get(agent, name, &effect, &err)) fail_msg("%s", err.message);
  }
  pd_agent_close(agent);
}

/* ---- a life ---- */

static void live(const char *format, const char *claim_uri, uint64_t events_full, const char *what)
{
  life l = {.events = crash_count(EVENTS_SHORT, events_full), .end_ms = pd_clock_monotonic_ms() + LIFE_MS_MAX};
  pid_t children[WORKERS + 1];
  pd_agent *agent = NULL;
  pd_agent_info info;
  pd_error err = {0};
  crash_scratch(l.folder);
  snprintf(l.uri, sizeof l.uri, format, l.folder);
  if (pd_agent_open(claim_uri ? claim_uri : l.uri, "x", NULL, &agent, &err)) fail_msg("%s", err.message);
  pd_agent_info_get(agent, &info);
  l.epoch = info.epoch;
  pd_agent_close(agent);
  fflush(stdout);
  for (unsigned i = 0; i <= WORKERS; i++) {
    children[i] = fork();
    if (children[i]) continue;
    for (unsigned skip = 0; skip < i * 7; skip++) crash_random(2); /* not all the same */
    if (i < WORKERS)
      work(&l, i);
    else
      push_all(&l);
    _exit(0);
  }
  for (unsigned i = 0; i <= WORKERS; i++) {
    int status = 1;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    if (status) fail_msg("%s: process %u ended with status %x", what, i, (unsigned)status);
  }
  if (claim_uri) snprintf(l.uri, sizeof l.uri, "%s", claim_uri);
  check(&l);
  printf("# %s: %llu events by %d processes of one epoch\n", what, (unsigned long long)l.events, WORKERS + 1);
  crash_scratch_remove(l.folder);
}

static void life__loses_nothing_in_files(void **state)
{
  (void)state;
  live("file:%s/storage", NULL, EVENTS_FULL, "file");
}

static void life__loses_nothing_in_sqlite(void **state)
{
  (void)state;
  live("sqlite-snapshots:%s/storage.db", NULL, EVENTS_FULL, "sqlite-snapshots");
}

static void life__loses_nothing_in_perdure(void **state)
{
  (void)state;
  live("perdure:sqlite:%s/storage", NULL, EVENTS_FULL, "perdure");
}

static void life__loses_nothing_in_a_plugin(void **state)
{
  (void)state;
  char format[CRASH_URI_MAX];
  snprintf(format, sizeof format, "plugin:%s?%%s/journal", plugin_path);
  live(format, NULL, EVENTS_PLUGIN, "plugin");
}

static void life__loses_nothing_in_redis_behind_a_bad_line(void **state)
{
  (void)state;
  static const char *const settings[] = {"--save", "", NULL};
  if (!redis_server_exists()) skip();
  redis_server *server = redis_server_new();
  redis_server_start(server, settings);
  char path[CRASH_URI_MAX], uri[128], *straight = redis_server_socket_uri(server, "");
  snprintf(path, sizeof path, "%s/socket", server->folder);
  redis_proxy proxy = redis_proxy_start(path, MISTREATED, (unsigned)crash_random(1u << 30));
  snprintf(uri, sizeof uri, "redis://127.0.0.1:%d/0?command_ms=300&retry_ms=200&connect_ms=5000", proxy.port);
  live(uri, straight, EVENTS_FULL, "redis");
  redis_proxy_stop(&proxy);
  redis_server_free(server);
  free(straight);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(life__loses_nothing_in_files),
    cmocka_unit_test(life__loses_nothing_in_sqlite),
    cmocka_unit_test(life__loses_nothing_in_perdure),
    cmocka_unit_test(life__loses_nothing_in_a_plugin),
    cmocka_unit_test(life__loses_nothing_in_redis_behind_a_bad_line),
  };
  if (argc != 2) return 2;
  plugin_path = argv[1];
  crash_seed();
  return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
