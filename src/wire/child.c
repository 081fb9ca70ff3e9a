/* child.c: see child.h. */
#include "wire/child.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE 65536

extern char **environ;

/* Signals as a program expects them: a server's threads block them. */
static int spawn(const char *program, const char *const *words, int output, pid_t *out)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, usual;
  sigemptyset(&none);
  sigfillset(&usual);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int failed = posix_spawn(out, program, &actions, &attributes, (char *const *)(uintptr_t)words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

static pd_code read_all(int fd, pd_buf *out, pd_error *err)
{
  for (;;) {
    TRY(pd_buf_reserve(out, PIECE, err));
    ssize_t got = read(fd, out->data + out->size, PIECE);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return pd_error_set(err, PD_STORAGE, "cannot read from a child: %s", strerror(errno));
    if (!got) return PD_OK;
    out->size += (size_t)got;
  }
}

pd_code pd_child_read(const char *program, const char *const *words, pd_buf *out, pd_error *err)
{
  int ends[2], status = 0;
  pid_t pid;
  if (pipe2(ends, O_CLOEXEC)) return pd_error_set(err, PD_STORAGE, "no pipe to a child: %s", strerror(errno));
  int failed = spawn(program, words, ends[1], &pid);
  close(ends[1]);
  CLEANUP(pd_fd_done) int from = ends[0];
  if (failed) return pd_error_set(err, PD_STORAGE, "cannot run %s: %s", program, strerror(failed));
  pd_code code = read_all(from, out, err);
  if (code) kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  TRY(code);
  return WIFEXITED(status) ? PD_OK : pd_error_set(err, PD_STORAGE, "%s was ended by signal %d", words[0], WTERMSIG(status));
}
