/* child.c: see child.h. */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"

/* What goes through the pipe. Both ends are the same program, so the struct is the format; smaller than PIPE_BUF, so whole. */
typedef struct message {
  bool is_error;
  bench_line line;
  pd_error error;
} message;

static bool was_interrupted;

bool bench_child_was_interrupted(void)
{
  return was_interrupted;
}

static bool write_whole(int fd, const void *data, size_t size)
{
  const uint8_t *at = data;
  while (size > 0) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

static bool read_whole(int fd, void *data, size_t size)
{
  uint8_t *at = data;
  while (size > 0) {
    ssize_t n = read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

pd_code bench_child_line(int out_fd, const bench_line *line, pd_error *err)
{
  message m = {.line = *line};
  if (write_whole(out_fd, &m, sizeof(m))) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot report a line: %s", strerror(errno));
}

static void run_in_child(bench_child_fn fn, void *ctx, int out_fd) __attribute__((noreturn));
static void run_in_child(bench_child_fn fn, void *ctx, int out_fd)
{
  message m = {.is_error = true};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_DFL);
  alarm(BENCH_CHILD_SECONDS_MAX);
  if (fn(ctx, out_fd, &m.error) == PD_OK) _exit(0);
  bool is_told = write_whole(out_fd, &m, sizeof(m));
  _exit(is_told ? 1 : 2);
}

static pd_code judge_end(int status, bool has_error, const pd_error *told, pd_error *err)
{
  was_interrupted = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
  if (has_error) {
    if (err) *err = *told;
    return told->code;
  }
  if (WIFSIGNALED(status)) return pd_error_set(err, PD_STORAGE, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return pd_error_set(err, PD_STORAGE, "ended with status %d", WEXITSTATUS(status));
  return PD_OK;
}

pd_code bench_child_run(bench_child_fn fn, void *ctx, bench_line_visit visit, void *visit_ctx, pd_error *err)
{
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) return pd_error_set(err, PD_STORAGE, "pipe: %s", strerror(errno));
  fflush(NULL); /* else the child would print what is buffered once more */
  signal(SIGINT, SIG_IGN);
  pid_t pid = fork();
  if (pid < 0) return pd_error_set(err, PD_STORAGE, "fork: %s", strerror(errno));
  if (pid == 0) {
    close(pipe_fds[0]);
    run_in_child(fn, ctx, pipe_fds[1]);
  }
  close(pipe_fds[1]);
  message m;
  pd_error told = {0};
  bool has_error = false;
  while (read_whole(pipe_fds[0], &m, sizeof(m))) {
    if (m.is_error) {
      told = m.error;
      has_error = true;
    } else if (visit) {
      visit(visit_ctx, &m.line);
    }
  }
  close(pipe_fds[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return judge_end(status, has_error, &told, err);
}

pd_code bench_report(bench *b, const bench_line *line, pd_error *err)
{
  return bench_child_line(b->out_fd, line, err);
}
