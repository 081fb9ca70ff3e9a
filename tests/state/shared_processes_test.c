/*
 * shared_processes_test.c: shared state between processes: no update is lost, and watchers are told every change once and in order, also
 * over a kill -9 of one of them. Children open the home themselves; the parent only ever after the last of them is gone.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WRITERS 4
#define WRITES 2000
#define WATCHERS 3
#define KILL_AFTER 1500 /* events that the first watcher has dealt with when it is killed */

static char *folder, *uri;

/* ---- in the children ---- */

typedef struct caller {
  pd_ctx ctx;
  pd_buf out;
  pd_error err;
  char session[PD_SESSION_ID_SIZE];
} caller;

static void give_up(const char *what, const caller *c)
{
  fprintf(stderr, "# process %d: %s: %s\n", (int)getpid(), what, c->err.message);
  _exit(1);
}

static void caller_open(caller *c, const char *agent)
{
  *c = (caller){.ctx = {.agent = agent}};
  if (pd_home_open(uri, NULL, &c->ctx.home, &c->err)) give_up("open", c);
}

static pd_json call(caller *c, const char *name, const char *input)
{
  pd_json answer = {0};
  pd_code code = pd_call(&c->ctx, name, pd_text(input), &c->out, &c->err);
  if (code == PD_CONFLICT) return answer;
  if (code || pd_json_parse(pd_buf_bytes(&c->out), &answer, &c->err)) give_up(name, c);
  return answer;
}

static uint64_t number(pd_json object, const char *name)
{
  uint64_t n = 0;
  if (!pd_json_u64(pd_json_member(object, name), &n)) return 0;
  return n;
}

static void write_many(const char *agent)
{
  caller c;
  char input[128];
  caller_open(&c, agent);
  for (int i = 0; i < WRITES;) {
    pd_json now = call(&c, "state.shared.get", "{\"key\":\"counter\"}");
    snprintf(input, sizeof input, "{\"key\":\"counter\",\"value\":%llu,\"expected_version\":%llu}",
             (unsigned long long)number(now, "value") + 1, (unsigned long long)number(now, "version"));
    if (call(&c, "state.shared.set", input).kind == PD_JSON_OBJECT) i++;
  }
  if (pd_home_close(c.ctx.home, &c.err)) give_up("close", &c);
  _exit(0);
}

static void begin_watching(caller *c, const char *resumed)
{
  char input[160] = "{\"prefix\":\"counter\"}";
  if (*resumed) snprintf(input, sizeof input, "{\"subscription_id\":\"%s\"}", resumed);
  if (pd_session_begin(c->ctx.home, c->ctx.agent, c->session, &c->err)) give_up("session", c);
  c->ctx.session = c->session;
  pd_json answer = call(c, "state.shared.watch", input);
  char *path = text_of("%s/%s.subscription", folder, c->ctx.agent);
  FILE *f = fopen(path, "w");
  pd_json id = pd_json_member(answer, "subscription_id");
  if (!f || fprintf(f, "%.*s", (int)id.raw.size - 2, (const char *)id.raw.data + 1) < 0 || fclose(f)) give_up("file", c);
  free(path);
}

static void tell(caller *c, int fd, uint64_t last)
{
  if (write(fd, &last, sizeof last) != (ssize_t)sizeof last) give_up("tell", c);
}

/* What was received is written down, then acknowledged; one who is killed in between receives it again. */
static uint64_t deal_with(caller *c, pd_json messages, FILE *log, uint64_t last, int tell_fd)
{
  CLEANUP(pd_buf_done) pd_buf ack = {0};
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(messages);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    pd_json id = pd_json_member(item, "message_id");
    last = number(pd_json_member(item, "body"), "version");
    fprintf(log, "%.*s %llu %llu\n", (int)id.raw.size - 3, (const char *)id.raw.data + 2, (unsigned long long)last,
            (unsigned long long)number(item, "deliveries"));
    if (pd_buf_printf(&ack, &c->err, "%s%.*s", ack.size ? "," : "{\"message_ids\":[", (int)id.raw.size, (const char *)id.raw.data))
      give_up("ack", c);
  }
  if (!ack.size) return last;
  if (fflush(log) || pd_buf_printf(&ack, &c->err, "]}%c", 0)) give_up("log", c);
  tell(c, tell_fd, last);
  call(c, "queue.ack", (const char *)ack.data);
  return last;
}

static void watch_all(const char *agent, const char *resumed, int tell_fd)
{
  caller c;
  char *path = text_of("%s/%s.log", folder, agent);
  FILE *log = fopen(path, "a");
  if (!log) _exit(1);
  caller_open(&c, agent);
  begin_watching(&c, resumed);
  tell(&c, tell_fd, 0);
  for (uint64_t last = 0; last < WRITERS * WRITES;) {
    pd_json answer = call(&c, "queue.receive", "{\"max\":100,\"wait_ms\":60000,\"visibility_ms\":3600000}");
    last = deal_with(&c, pd_json_member(answer, "messages"), log, last, tell_fd);
  }
  if (number(call(&c, "queue.receive", "{}"), "count")) give_up("there is more", &c);
  if (pd_home_close(c.ctx.home, &c.err)) give_up("close", &c);
  free(path);
  _exit(0);
}

/* ---- in the parent ---- */

typedef struct child {
  pid_t pid;
  int fd; /* to read what it tells; -1: nothing */
} child;

static child start_watcher(const char *agent, const char *resumed)
{
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  child it = {.pid = fork(), .fd = fds[0]};
  assert_true(it.pid >= 0);
  if (!it.pid) {
    close(fds[0]);
    watch_all(agent, resumed, fds[1]);
  }
  close(fds[1]);
  return it;
}

static uint64_t hear(const child *it)
{
  uint64_t last;
  if (read(it->fd, &last, sizeof last) != (ssize_t)sizeof last) fail_msg("a watcher is gone");
  return last;
}

static void wait_well(pid_t pid)
{
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* Drain what the others tell, so that none of them waits for us. */
static void *drain(void *ctx)
{
  uint64_t last;
  while (read(*(int *)ctx, &last, sizeof last) > 0) continue;
  return NULL;
}

static void kill_and_restart(child *it, const char *agent)
{
  char id[160] = "";
  int status;
  while (hear(it) < KILL_AFTER) continue;
  kill(it->pid, SIGKILL);
  assert_int_equal(waitpid(it->pid, &status, 0), it->pid);
  assert_true(WIFSIGNALED(status));
  close(it->fd);
  char *path = text_of("%s/%s.subscription", folder, agent);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(id, sizeof id, f));
  fclose(f);
  free(path);
  *it = start_watcher(agent, id);
}

/* Every version once and in order; what was not acknowledged when the watcher was killed may come again, as the same message. */
static void check_log(const char *agent, bool was_killed)
{
  static unsigned long long message_of[WRITERS * WRITES + 1];
  unsigned long long message, version, deliveries, last = 0, again = 0;
  char *path = text_of("%s/%s.log", folder, agent);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fscanf(f, "%llu %llu %llu", &message, &version, &deliveries) == 3) {
    assert_in_range(version, 1, WRITERS * WRITES);
    if (version <= last) {
      assert_true(was_killed && deliveries == 2 && message_of[version] == message);
      again++;
    } else {
      assert_int_equal(version, last + 1);
      assert_true(deliveries == 1 || was_killed);
      assert_true(version == 1 || message > message_of[version - 1]);
      message_of[version] = message;
      last = version;
    }
  }
  assert_true(again <= 100);
  assert_int_equal(last, WRITERS * WRITES);
  print_message("# %s: %llu events, %llu of them twice\n", agent, last, again);
  fclose(f);
  free(path);
}

static void processes__4_times_2000_updates_are_all_there_and_3_watchers_are_told_each_once(void **state)
{
  (void)state;
  static const char *const watcher_names[WATCHERS] = {"watcher-0", "watcher-1", "watcher-2"};
  static const char *const writer_names[WRITERS] = {"writer-0", "writer-1", "writer-2", "writer-3"};
  child watchers[WATCHERS];
  pid_t writers[WRITERS];
  pthread_t drains[WATCHERS];
  int64_t start = pd_clock_monotonic_ms();
  for (int i = 0; i < WATCHERS; i++) {
    watchers[i] = start_watcher(watcher_names[i], "");
    hear(&watchers[i]); /* it has subscribed */
  }
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = fork();
    assert_true(writers[i] >= 0);
    if (!writers[i]) write_many(writer_names[i]);
  }
  kill_and_restart(&watchers[0], watcher_names[0]);
  for (int i = 0; i < WATCHERS; i++) assert_int_equal(pthread_create(&drains[i], NULL, drain, &watchers[i].fd), 0);
  for (int i = 0; i < WRITERS; i++) wait_well(writers[i]);
  print_message("# the writers took %lld ms\n", (long long)(pd_clock_monotonic_ms() - start));
  for (int i = 0; i < WATCHERS; i++) wait_well(watchers[i].pid);
  print_message("# the watchers took %lld ms\n", (long long)(pd_clock_monotonic_ms() - start));
  for (int i = 0; i < WATCHERS; i++) {
    pthread_join(drains[i], NULL);
    close(watchers[i].fd);
    check_log(watcher_names[i], i == 0);
  }
  caller c;
  caller_open(&c, "main");
  pd_json counter = call(&c, "state.shared.get", "{\"key\":\"counter\"}");
  assert_int_equal(number(counter, "value"), WRITERS * WRITES);
  assert_int_equal(number(counter, "version"), WRITERS * WRITES);
  assert_int_equal(pd_home_close(c.ctx.home, &c.err), PD_OK);
  pd_buf_done(&c.out);
}

static int set_up(void **state)
{
  (void)state;
  folder = temp_folder_new();
  uri = text_of("sqlite:%s/home", folder);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  temp_folder_free(folder);
  free(uri);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(processes__4_times_2000_updates_are_all_there_and_3_watchers_are_told_each_once, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
