/*
 * supervisor.c: the loop: start, watch, record, wait, start again. See supervisor.h.
 *
 * L1  TERM and INT are passed on and mean the end: nothing is started after them. The second one, or the end of the grace, kills.
 * L2  HUP, USR1, USR2 and WINCH are passed on. One that dies of a HUP that was passed on was ended by whoever sent it: as with TERM.
 * L3  An event that cannot be recorded is told on standard error; the agent runs on.
 */
#include "supervisor.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 4096        /* a pipe that is ready takes so much without blocking */
#define DRAIN_CHUNKS 1024 /* of what is left in the pipe when the process has ended */
#define SIGNAL_SIZE 32
#define EXEC_NOT_FOUND 127
#define EXEC_DENIED 126

typedef struct loop {
  cli_session *cli;
  pd_supervisor *lock;
  const supervisor_plan *plan;
  const pd_agent_config *config;
  int signal_fd;
  child child;
  tail tail;
  char passing[CHUNK]; /* read from the process, and not written yet */
  size_t passing_size;
  int64_t started_ms, ended_ms, kill_at_ms; /* monotonic; kill at 0: not asked to end */
  bool is_stopping, was_hung_up, was_killed;
  unsigned failures; /* in a row */
  uint64_t restarts;
  int64_t recent_ms[PD_AGENT_RESTARTS_MAX]; /* of restarts, monotonic: a ring */
  pd_supervised note;
} loop;

void supervisor_signals(sigset_t *out)
{
  static const int wanted[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH};
  sigemptyset(out);
  for (size_t i = 0; i < COUNT_OF(wanted); i++) sigaddset(out, wanted[i]);
}

/* ---- telling ---- */

void supervise_record(cli_session *cli, const char *agent, const char *event, const char *name, const char *fields)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_error err = {0};
  pd_home *home = NULL;
  pd_json_writer w = {.out = &input, .err = &err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "event", event);
  pd_json_put_text(&w, "name", name);
  pd_code code = w.code;
  if (code == PD_OK) code = pd_buf_printf(&input, &err, "%s}", fields);
  if (code == PD_OK) code = pd_home_open(cli->uri, NULL, &home, &err);
  pd_ctx ctx = {.home = home, .agent = agent, .is_operator = true};
  if (code == PD_OK) code = pd_call(&ctx, "process.record", pd_buf_bytes(&input), &out, &err);
  pd_code closed = home ? pd_home_close(home, code ? NULL : &err) : PD_OK;
  if (code || closed) fprintf(stderr, "perdure: the event '%s' of agent '%s' was not recorded: %s\n", event, agent, err.message);
}

static void note(loop *l, pd_supervised_state state)
{
  pd_error err;
  l->note.state = state;
  l->note.pid = (uint64_t)(l->child.pid > 0 ? l->child.pid : 0);
  l->note.restarts = l->restarts;
  if (pd_supervisor_note(l->lock, &l->note, &err)) fprintf(stderr, "perdure: %s\n", err.message);
}

static void record(loop *l, const char *event, const char *fields)
{
  supervise_record(l->cli, l->plan->child.agent, event, l->plan->name, fields);
}

/* ---- the process ---- */

static void record_start(loop *l, bool is_first)
{
  char fields[256];
  snprintf(fields, sizeof fields, ",\"pid\":%d,\"restarts\":%llu,\"token_sha256\":\"%s\"", (int)l->child.pid,
           (unsigned long long)l->restarts, l->child.token_hash);
  note(l, PD_SUPERVISED_RUNNING);
  record(l, is_first ? "started" : "restarted", fields);
}

static void pass_on(loop *l)
{
  ssize_t wrote = write(STDERR_FILENO, l->passing, l->passing_size);
  if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) return;
  size_t gone = wrote < 0 ? l->passing_size : (size_t)wrote; /* nobody listens any more: the tail is kept all the same */
  memmove(l->passing, l->passing + gone, l->passing_size - gone);
  l->passing_size -= gone;
}

/* false: there is nothing more for now, or for good. */
static bool read_errors(loop *l)
{
  ssize_t got = read(l->child.stderr_fd, l->passing + l->passing_size, CHUNK - l->passing_size);
  if (got <= 0) {
    if (got == 0) close(l->child.stderr_fd), l->child.stderr_fd = -1;
    return false;
  }
  tail_add(&l->tail, l->passing + l->passing_size, (size_t)got);
  l->passing_size += (size_t)got;
  return true;
}

/* What is left when the process has ended. Who reads our standard error has a second for each piece. */
static void drain(loop *l)
{
  for (int i = 0; i < DRAIN_CHUNKS; i++) {
    bool has_read = l->child.stderr_fd >= 0 && l->passing_size < CHUNK && read_errors(l);
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (l->passing_size && poll(&out, 1, 1000) > 0)
      pass_on(l);
    else if (l->passing_size || !has_read)
      break;
  }
  l->passing_size = 0;
}

/* ---- signals ---- */

static void ask_to_end(loop *l, int signal)
{
  if (l->is_stopping) l->was_killed = true, signal = SIGKILL;
  if (!l->is_stopping) l->kill_at_ms = pd_clock_monotonic_ms() + (int64_t)l->config->grace_ms;
  l->is_stopping = true;
  child_signal(&l->child, signal);
}

static void take_signals(loop *l)
{
  struct signalfd_siginfo info;
  while (read(l->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
    int signal = (int)info.ssi_signo;
    if (signal == SIGTERM || signal == SIGINT)
      ask_to_end(l, signal);
    else if (signal != SIGCHLD)
      child_signal(&l->child, signal);
    if (signal == SIGHUP) l->was_hung_up = true;
  }
}

static int timeout_of(const loop *l, int64_t until_ms)
{
  int64_t at = l->kill_at_ms && !l->was_killed && (!until_ms || l->kill_at_ms < until_ms) ? l->kill_at_ms : until_ms;
  if (!at) return -1;
  int64_t left = at - pd_clock_monotonic_ms();
  return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void watch(loop *l)
{
  while (!child_look(&l->child)) {
    struct pollfd fds[] = {
      {.fd = l->signal_fd, .events = POLLIN},
      {.fd = l->passing_size < CHUNK ? l->child.stderr_fd : -1, .events = POLLIN},
      {.fd = l->passing_size ? STDERR_FILENO : -1, .events = POLLOUT},
    };
    if (poll(fds, COUNT_OF(fds), timeout_of(l, 0)) < 0 && errno != EINTR) continue;
    if (fds[0].revents) take_signals(l);
    if (fds[1].revents) read_errors(l);
    if (fds[2].revents) pass_on(l);
    if (l->kill_at_ms && !l->was_killed && pd_clock_monotonic_ms() >= l->kill_at_ms) ask_to_end(l, SIGKILL);
  }
  drain(l);
}

/* Wait until a time, unless we are told to end; TERM and INT need not be passed on to anybody here. */
static void wait_until(loop *l, int64_t until_ms)
{
  l->kill_at_ms = 0;
  while (!l->is_stopping && pd_clock_monotonic_ms() < until_ms) {
    struct pollfd fd = {.fd = l->signal_fd, .events = POLLIN};
    if (poll(&fd, 1, timeout_of(l, until_ms)) > 0) take_signals(l);
  }
}

/* ---- how it ended, and what follows ---- */

static int exit_code_of(int status)
{
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const char *signal_name(int signal, char out[SIGNAL_SIZE])
{
  const char *name = sigabbrev_np(signal);
  if (name)
    snprintf(out, SIGNAL_SIZE, "SIG%s", name);
  else
    snprintf(out, SIGNAL_SIZE, "signal %d", signal);
  return out;
}

static void describe(int status, char *out, size_t size)
{
  char signal[SIGNAL_SIZE];
  if (WIFSIGNALED(status))
    snprintf(out, size, "ended by %s", signal_name(WTERMSIG(status), signal));
  else
    snprintf(out, size, "exit code %d", WEXITSTATUS(status));
}

static const char *event_of(const loop *l, int status)
{
  if (l->was_killed) return "killed";
  if (l->is_stopping) return "stopped";
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "exited" : "crashed";
}

static pd_code end_fields(const loop *l, const char *message, pd_buf *out, pd_error *err)
{
  char text[TAIL_SIZE], signal[SIGNAL_SIZE];
  int status = l->child.status;
  size_t size = tail_text(&l->tail, text);
  pd_json_writer w = {.out = out, .err = err, .needs_comma = true};
  pd_json_put_number(&w, "exit_code", (uint64_t)exit_code_of(status));
  if (WIFSIGNALED(status)) pd_json_put_text(&w, "signal", signal_name(WTERMSIG(status), signal));
  pd_json_put_text(&w, "message", message);
  pd_json_put_number(&w, "restarts", l->restarts);
  if (size) pd_json_put_bytes(&w, "stderr_tail", (pd_bytes){text, size});
  return w.code;
}

static void record_end(loop *l, pid_t pid, const char *what)
{
  CLEANUP(pd_buf_done) pd_buf fields = {0};
  pd_error err;
  char message[128];
  int64_t ran_ms = l->ended_ms - l->started_ms;
  snprintf(message, sizeof message, "%s after %lld.%03lld s", what, (long long)(ran_ms / 1000), (long long)(ran_ms % 1000));
  pd_code code = pd_buf_printf(&fields, &err, ",\"pid\":%d", (int)pid);
  if (code == PD_OK) code = end_fields(l, message, &fields, &err);
  if (code == PD_OK) code = pd_buf_byte(&fields, 0, &err);
  record(l, event_of(l, l->child.status), code ? "" : (const char *)fields.data);
}

static bool is_wanted_again(const loop *l)
{
  int status = l->child.status;
  if (l->is_stopping || l->config->restart == PD_RESTART_NEVER) return false;
  return l->config->restart == PD_RESTART_ALWAYS || WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

/* Was it started again as often, in that time, as it may be? */
static bool is_too_often(const loop *l)
{
  uint64_t most = l->config->restarts_max;
  if (!most || l->restarts < most) return false;
  int64_t oldest = l->recent_ms[(l->restarts - most) % PD_AGENT_RESTARTS_MAX];
  return pd_clock_monotonic_ms() - oldest < (int64_t)l->config->restarts_within_ms;
}

/* Twice as long each time, up to the limit, and somewhere in its upper half: agents that fail together do not come back together. */
static uint64_t next_delay(loop *l)
{
  uint64_t delay = l->config->backoff_min_ms, random = 0;
  for (unsigned i = 0; i < l->failures && delay < l->config->backoff_max_ms; i++) delay *= 2;
  if (delay > l->config->backoff_max_ms) delay = l->config->backoff_max_ms;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = (uint64_t)pd_clock_monotonic_ms();
  l->failures++;
  return delay - random % (delay / 2 + 1);
}

static void give_up(loop *l)
{
  char fields[200];
  snprintf(fields, sizeof fields, ",\"restarts\":%llu,\"message\":\"%llu restarts in less than %llu ms\"", (unsigned long long)l->restarts,
           (unsigned long long)l->config->restarts_max, (unsigned long long)l->config->restarts_within_ms);
  note(l, PD_SUPERVISED_GAVE_UP);
  record(l, "gave_up", fields);
  fprintf(stderr, "perdure: agent '%s' failed too often (%llu restarts); giving up\n", l->plan->child.agent,
          (unsigned long long)l->restarts);
}

/* After an end: true if it is to be started again, and the time for that has come. */
static bool wait_for_turn(loop *l, const char *what)
{
  if (!is_wanted_again(l)) {
    note(l, l->is_stopping ? PD_SUPERVISED_STOPPED : PD_SUPERVISED_ENDED);
    return false;
  }
  if (is_too_often(l)) {
    give_up(l);
    return false;
  }
  uint64_t delay = next_delay(l);
  note(l, PD_SUPERVISED_WAITING);
  cli_say(l->cli, "agent '%s': %s; starts again in %llu ms", l->plan->child.agent, what, (unsigned long long)delay);
  wait_until(l, pd_clock_monotonic_ms() + (int64_t)delay);
  if (l->is_stopping) note(l, PD_SUPERVISED_STOPPED);
  return !l->is_stopping;
}

/* One life: from its start to its end. */
static pd_code live(loop *l, bool is_first, char *what, size_t what_size, pd_error *err)
{
  l->tail = (tail){0};
  l->started_ms = pd_clock_monotonic_ms();
  l->note.started_ms = pd_clock_now_ms(NULL);
  l->was_hung_up = false;
  TRY(child_start(&l->plan->child, &l->child, err));
  pid_t pid = l->child.pid;
  record_start(l, is_first);
  watch(l);
  l->ended_ms = pd_clock_monotonic_ms();
  int status = l->child.status;
  if (l->was_hung_up && WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP) l->is_stopping = true; /* L2 */
  child_done(&l->child);
  describe(status, what, what_size);
  record_end(l, pid, what);
  l->cli->exit_code = exit_code_of(status);
  if (l->ended_ms - l->started_ms >= (int64_t)l->config->healthy_ms) l->failures = 0;
  return PD_OK;
}

static pd_code run_loop(loop *l, pd_error *err)
{
  char what[PD_ERROR_MESSAGE_MAX];
  for (bool is_first = true;; is_first = false) {
    if (!is_first) l->recent_ms[l->restarts++ % PD_AGENT_RESTARTS_MAX] = pd_clock_monotonic_ms();
    pd_code code = live(l, is_first, what, sizeof what, err);
    if (code && is_first) {
      l->cli->exit_code = code == PD_NOT_FOUND ? EXEC_NOT_FOUND : code == PD_DENIED ? EXEC_DENIED : 0;
      snprintf(l->cli->hint, sizeof l->cli->hint, "give a program on the PATH, or the path of one: ./agent");
      return code;
    }
    if (code) { /* the command was there before, and may be again: a new version is being put in its place */
      snprintf(what, sizeof what, "%s", err->message);
      l->ended_ms = l->started_ms;
      l->child.status = W_EXITCODE(EXEC_NOT_FOUND, 0);
      l->cli->exit_code = EXEC_NOT_FOUND;
      record_end(l, 0, "could not be started");
    }
    if (!wait_for_turn(l, what)) return PD_OK;
  }
}

pd_code supervise(cli_session *cli, pd_supervisor *lock, const supervisor_plan *plan, pd_error *err)
{
  static loop l; /* large, and there is one */
  sigset_t signals;
  supervisor_signals(&signals);
  l = (loop){.cli = cli, .lock = lock, .plan = plan, .config = plan->child.config, .child = {.guard_fd = -1, .stderr_fd = -1}};
  snprintf(l.note.storage, sizeof l.note.storage, "%s", plan->child.storage);
  snprintf(l.note.config, sizeof l.note.config, "%s", plan->child.config->file ? plan->child.config->file : "");
  l.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (l.signal_fd < 0) return pd_error_set(err, PD_STORAGE, "cannot watch for signals: %s", strerror(errno));
  note(&l, PD_SUPERVISED_WAITING); /* so that others know whose the lock is, before there is a process */
  pd_code code = run_loop(&l, err);
  if (code) note(&l, PD_SUPERVISED_ENDED);
  close(l.signal_fd);
  return code;
}
