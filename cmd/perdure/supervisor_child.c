/*
 * supervisor_child.c: one process of an agent: started in a group of its own with the environment that it needs, and with a guard beside
 * it: a process that does nothing but wait for the supervisor's death, and then ends the group.
 */
#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- in the new process: nothing here may allocate or fail quietly ---- */

static void limit(int what, uint64_t most)
{
  struct rlimit is;
  if (!most || getrlimit(what, &is)) return;
  if (is.rlim_max == RLIM_INFINITY || most < is.rlim_max) is.rlim_max = most;
  is.rlim_cur = is.rlim_max;
  setrlimit(what, &is);
}

static void reset_signals(const sigset_t *mask)
{
  for (int signal = 1; signal < NSIG; signal++)
    if (signal != SIGKILL && signal != SIGSTOP) sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  sigprocmask(SIG_SETMASK, mask, NULL);
}

/* A group in the background that reads from a terminal is stopped: such a process gets nothing to read instead. */
static void guard_input(void)
{
  int null = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
  if (null >= 0) dup2(null, STDIN_FILENO);
}

__attribute__((noreturn)) static void become(const child_plan *plan, char **environment, pid_t parent, int stderr_fd, int failed_fd)
{
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it died before it could be noticed */
  guard_input();
  dup2(stderr_fd, STDERR_FILENO);
  limit(RLIMIT_AS, plan->config->memory_bytes);
  limit(RLIMIT_NOFILE, plan->config->files_max);
  reset_signals(&plan->mask);
  execvpe(plan->config->command[0], plan->config->command, environment);
  int why = errno;
  ssize_t wrote = write(failed_fd, &why, sizeof why);
  _exit(wrote == sizeof why ? 127 : 126);
}

#define GROUP_WAIT_MS 10000
#define GROUP_PAUSE_MS 5

/* A process that was killed may take its time: one that waits for a disk dies only then. But not for ever, as one that nobody waits for
 * (a container whose first process does not) is there until the end of time. */
static void await_group(pid_t group)
{
  for (int waited_ms = 0; kill(-group, 0) == 0 && waited_ms < GROUP_WAIT_MS; waited_ms += GROUP_PAUSE_MS)
    nanosleep(&(struct timespec){0, GROUP_PAUSE_MS * 1000000L}, NULL);
}

/* Wait for the supervisor's end of the pipe: a byte says that all is well, its end that the supervisor is dead. The lock stays open here,
 * so that no other supervisor begins before the group has ended. */
__attribute__((noreturn)) static void guard(pid_t group, int fd)
{
  char byte;
  ssize_t got;
  setsid();
  while ((got = read(fd, &byte, 1)) < 0 && errno == EINTR) continue;
  if (got <= 0) {
    kill(-group, SIGKILL);
    await_group(group);
  }
  _exit(0);
}

/* ---- its environment ---- */

static pd_code make_token(char out[TOKEN_SIZE], pd_error *err)
{
  unsigned char bytes[(TOKEN_SIZE - 1) / 2];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
    return pd_error_set(err, PD_STORAGE, "the system gives no random bytes: %s", strerror(errno));
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  return PD_OK;
}

#define OWN_MAX 8

typedef struct environment {
  char **all;         /* of the process: this one's, without those that are set here, and these */
  char *own[OWN_MAX]; /* NAME=VALUE */
  size_t own_count;
} environment;

static void environment_done(environment *e)
{
  for (size_t i = 0; i < e->own_count; i++) {
    explicit_bzero(e->own[i], strlen(e->own[i])); /* a token, a password */
    free(e->own[i]);
  }
  free(e->all);
}

static pd_code add_variable(environment *e, const char *name, const char *value, pd_error *err)
{
  if (asprintf(&e->own[e->own_count], "%s=%s", name, value) < 0) return pd_error_memory(err, "an environment");
  e->own_count++;
  return PD_OK;
}

static pd_code add_bytes(environment *e, const char *name, uint64_t bytes, pd_error *err)
{
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
  return bytes ? add_variable(e, name, text, err) : PD_OK;
}

/* Of the life, or the session, of whoever started the supervisor: the agent has its own. */
static bool is_foreign(const char *entry)
{
  static const char *const names[] = {"PERDURE_EPOCH=", "PERDURE_SESSION="};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strncmp(entry, names[i], strlen(names[i])) == 0) return true;
  return false;
}

static bool is_own(const environment *e, const char *entry)
{
  for (size_t i = 0; i < e->own_count; i++) {
    size_t size = strcspn(e->own[i], "=") + 1;
    if (strncmp(e->own[i], entry, size) == 0) return true;
  }
  return false;
}

static pd_code make_environment(const child_plan *plan, const char *token, environment *e, pd_error *err)
{
  size_t count = 0;
  TRY(add_variable(e, "PERDURE_STORE", plan->store, err));
  TRY(add_variable(e, "PERDURE_AGENT", plan->agent, err));
  TRY(add_variable(e, "PERDURE_STORAGE", plan->storage, err));
  TRY(add_variable(e, "PERDURE_TOKEN", token, err));
  TRY(add_bytes(e, "PERDURE_PERSISTENT_QUOTA", plan->config->persistent_quota_bytes, err));
  TRY(add_bytes(e, "PERDURE_SESSION_QUOTA", plan->config->session_quota_bytes, err));
  while (environ[count]) count++;
  e->all = calloc(count + e->own_count + 1, sizeof *e->all);
  if (!e->all) return pd_error_memory(err, "an environment");
  char **to = e->all;
  for (size_t i = 0; i < count; i++)
    if (!is_own(e, environ[i]) && !is_foreign(environ[i])) *to++ = environ[i];
  for (size_t i = 0; i < e->own_count; i++) *to++ = e->own[i];
  return PD_OK;
}

/* ---- starting ---- */

typedef struct pipes {
  int errors[2], failed[2], guard[2];
} pipes;

static void pipes_done(pipes *p)
{
  int *fds[] = {&p->errors[0], &p->errors[1], &p->failed[0], &p->failed[1], &p->guard[0], &p->guard[1]};
  for (size_t i = 0; i < COUNT_OF(fds); i++) pd_fd_done(fds[i]);
}

static pd_code cannot(pd_error *err, const char *what)
{
  return pd_error_set(err, PD_STORAGE, "cannot %s: %s", what, strerror(errno));
}

static pd_code await_exec(const child_plan *plan, int fd, pid_t pid, pd_error *err)
{
  int why = 0;
  ssize_t got;
  while ((got = read(fd, &why, sizeof why)) < 0 && errno == EINTR) continue;
  if (got != sizeof why) return PD_OK; /* closed by the exec: it runs */
  waitpid(pid, NULL, 0);
  pd_code code = why == ENOENT || why == ENOTDIR ? PD_NOT_FOUND : why == EACCES || why == ENOEXEC ? PD_DENIED : PD_STORAGE;
  return pd_error_set(err, code, "cannot run '%.200s': %s", plan->config->command[0], strerror(why));
}

static pd_code start(const child_plan *plan, char **environment_, pipes *p, child *out, pd_error *err)
{
  pid_t parent = getpid();
  out->pid = fork();
  if (out->pid < 0) return cannot(err, "start a process");
  if (out->pid == 0) become(plan, environment_, parent, p->errors[1], p->failed[1]);
  setpgid(out->pid, out->pid); /* here and there: whoever comes first */
  pd_fd_done(&p->failed[1]);
  p->failed[1] = -1;
  TRY(await_exec(plan, p->failed[0], out->pid, err));
  out->guard = fork();
  if (out->guard == 0) {
    close(p->guard[1]);
    close(p->errors[0]);
    close(p->errors[1]);
    guard(out->pid, p->guard[0]);
  }
  return PD_OK;
}

pd_code child_start(const child_plan *plan, child *out, pd_error *err)
{
  CLEANUP(pipes_done) pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
  CLEANUP(environment_done) environment e = {0};
  child c = {0};
  char token[TOKEN_SIZE];
  TRY(make_token(token, err));
  pd_id hash = pd_value_id(pd_text(token));
  pd_id_hex(&hash, c.token_hash);
  pd_code code = make_environment(plan, token, &e, err);
  explicit_bzero(token, sizeof token);
  TRY(code);
  if (pipe2(p.errors, O_CLOEXEC) || pipe2(p.failed, O_CLOEXEC) || pipe2(p.guard, O_CLOEXEC)) return cannot(err, "make a pipe");
  fcntl(p.errors[0], F_SETFL, O_NONBLOCK);
  TRY(start(plan, e.all, &p, &c, err));
  c.stderr_fd = p.errors[0];
  c.guard_fd = p.guard[1];
  p.errors[0] = p.guard[1] = -1;
  *out = c;
  return PD_OK;
}

/* ---- its life ---- */

void child_signal(const child *c, int signal)
{
  if (c->pid > 0) kill(-c->pid, signal);
}

bool child_look(child *c)
{
  siginfo_t info = {0};
  if (c->pid <= 0) return true;
  if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != c->pid) return false;
  kill(-c->pid, SIGKILL); /* while its number is still its own: it was not waited for yet */
  waitpid(c->pid, &c->status, 0);
  c->pid = 0;
  return true;
}

void child_done(child *c)
{
  if (c->guard > 0) {
    ssize_t wrote = write(c->guard_fd, "", 1);
    (void)wrote; /* or it was killed, and has left already */
    waitpid(c->guard, NULL, 0);
  }
  pd_fd_done(&c->guard_fd);
  pd_fd_done(&c->stderr_fd);
  *c = (child){.guard_fd = -1, .stderr_fd = -1, .status = c->status};
}
