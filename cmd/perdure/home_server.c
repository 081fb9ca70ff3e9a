/* home_server.c: see home_server.h. */
#include "home_server.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_IDLE "5s"

/* ---- where ---- */

pd_code home_server_folder(char *out, size_t size, pd_error *err)
{
  const char *given = getenv("XDG_RUNTIME_DIR");
  int length = given && *given ? snprintf(out, size, "%s/perdure", given) : snprintf(out, size, "/tmp/perdure-%u", (unsigned)getuid());
  if (length < 0 || (size_t)length >= size) return pd_error_set(err, PD_LIMIT, "the path %s is too long for a socket", given);
  if (mkdir(out, 0700) && errno != EEXIST) return pd_error_set(err, PD_STORAGE, "cannot make the folder %s: %s", out, strerror(errno));
  struct stat is;
  if (lstat(out, &is) || !S_ISDIR(is.st_mode) || is.st_uid != getuid() || (is.st_mode & 077))
    return pd_error_set(err, PD_STORAGE, "%s is not a folder of yours alone; nothing can be put there", out);
  return PD_OK;
}

pd_code home_server_path(const char *uri, char out[HOME_SERVER_PATH_SIZE], pd_error *err)
{
  char home[PATH_MAX], folder[PATH_MAX], hex[PD_ID_HEX_SIZE];
  if (strncmp(uri, "sqlite:", 7) != 0 || !realpath(uri + 7, home))
    return pd_error_set(err, PD_UNSUPPORTED, "the home %s is not a folder: no server can keep anything for it", uri);
  TRY(home_server_folder(folder, sizeof folder, err));
  pd_id id = pd_value_id(pd_text(home));
  int length = snprintf(out, HOME_SERVER_PATH_SIZE, "%s/%.16s.sock", folder, pd_id_hex(&id, hex));
  if (length < 0 || (size_t)length >= HOME_SERVER_PATH_SIZE)
    return pd_error_set(err, PD_LIMIT, "the path %s is too long for a socket", folder);
  return PD_OK;
}

/* ---- finding ---- */

/* False: nobody listens there; errno says why. */
static bool is_live(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  CLEANUP(pd_fd_done) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
}

/* Whoever starts a server, or removes what is left of one, has this lock. */
static pd_code lock_path(const char *path, int *out, pd_error *err)
{
  char name[HOME_SERVER_PATH_SIZE + 8];
  snprintf(name, sizeof name, "%s.lock", path);
  CLEANUP(pd_fd_done) int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 || flock(fd, LOCK_EX)) return pd_file_refused(err, "lock", name);
  *out = fd;
  fd = -1;
  return PD_OK;
}

/* A server that stops removes its socket first. A socket that refuses is what a killed one left. */
static void forget_dead(const cli_session *cli, const char *path)
{
  CLEANUP(pd_fd_done) int lock = -1;
  if (lock_path(path, &lock, NULL) || is_live(path) || errno != ECONNREFUSED || unlink(path)) return;
  cli_say(cli, "perdure: the server of this home was killed: the sessions that it kept are lost, and the vault is locked");
}

bool home_server_find(const cli_session *cli, char out_path[HOME_SERVER_PATH_SIZE])
{
  if (home_server_path(cli->uri, out_path, NULL)) return false;
  if (is_live(out_path)) return true;
  if (errno == ECONNREFUSED) forget_dead(cli, out_path);
  return is_live(out_path);
}

/* ---- starting ---- */

/* It must not take for its own what was meant for this command: a supervisor's sockets and notices, a credential. */
static void clean_environment(void)
{
  static const char *const names[] = {"CREDENTIALS_DIRECTORY", "LISTEN_FDS",    "LISTEN_FDNAMES", "LISTEN_PID",    "NOTIFY_SOCKET",
                                      "PERDURE_SERVER",        "PERDURE_TOKEN", "WATCHDOG_PID",   "WATCHDOG_USEC", "PERDURE_SESSION"};
  for (size_t i = 0; i < COUNT_OF(names); i++) unsetenv(names[i]);
}

__attribute__((noreturn)) static void become_server(const char *uri, int out)
{
  char home[PATH_MAX], store[PATH_MAX + 8];
  if (fork()) _exit(0); /* so that nobody has to wait for it */
  setsid();
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (!realpath(uri + 7, home) || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
      dup2(out, STDERR_FILENO) < 0 || chdir("/"))
    _exit(1);
  close_range(STDERR_FILENO + 1, UINT_MAX, 0); /* a pipe of the caller's must not stay open, nor the file of a passphrase */
  snprintf(store, sizeof store, "sqlite:%s", home);
  clean_environment();
  execl("/proc/self/exe", "perdure", "--store", store, "serve", "--local", "--exit-idle", EXIT_IDLE, "--log", "human", "--log-level",
        "error", (char *)NULL);
  _exit(1);
}

/* Its first line: where it serves, or what is wrong. What it says later goes nowhere. */
static pd_code await_ready(int from, pd_error *err)
{
  char text[PD_ERROR_MESSAGE_MAX] = "";
  size_t size = 0;
  for (ssize_t got; size < sizeof text - 1 && !strchr(text, '\n'); size += (size_t)got) {
    got = read(from, text + size, sizeof text - 1 - size);
    if (got < 0 && errno == EINTR)
      got = 0;
    else if (got <= 0)
      break;
  }
  if (strncmp(text, "perdure serves ", 15) == 0) return PD_OK;
  text[strcspn(text, "\n")] = 0;
  const char *why = strncmp(text, "perdure: ", 9) == 0 ? text + 9 : text;
  return pd_error_set(err, PD_STORAGE, "the server of this home did not start: %.*s", 400, *why ? why : "it said nothing");
}

static pd_code start(const char *uri, pd_error *err)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return pd_error_set(err, PD_STORAGE, "cannot start a server for this home: %s", strerror(errno));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) become_server(uri, ends[1]);
  close(ends[1]);
  CLEANUP(pd_fd_done) int from = ends[0];
  if (child < 0) return pd_error_set(err, PD_STORAGE, "cannot start a server for this home: %s", strerror(errno));
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  return await_ready(from, err);
}

pd_code home_server_start(const cli_session *cli, pd_error *err)
{
  char path[HOME_SERVER_PATH_SIZE];
  CLEANUP(pd_fd_done) int lock = -1;
  if (strncmp(cli->uri, "sqlite:", 7) == 0 && mkdir(cli->uri + 7, 0700) && errno != EEXIST)
    return pd_error_set(err, PD_STORAGE, "cannot make the folder %s: %s", cli->uri + 7, strerror(errno));
  TRY(home_server_path(cli->uri, path, err));
  TRY(lock_path(path, &lock, err));
  return is_live(path) ? PD_OK : start(cli->uri, err); /* under the lock: two who start at once get one server */
}
