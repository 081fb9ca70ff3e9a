/* listen.c: where the server listens, and the lock that keeps a second one away from its home. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "wire/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 4096
#define LEAVE_MS 3000 /* for a server that was asked to leave */

/* ---- one server a home ---- */

typedef struct lock_owner {
  long pid;            /* 0: not known */
  bool leaves_if_idle; /* exit_idle_ms: SIGUSR1 asks it to */
} lock_owner;

static lock_owner read_owner(int fd)
{
  char text[64] = "", mark[8] = "";
  lock_owner owner = {0};
  if (pread(fd, text, sizeof text - 1, 0) > 0 && sscanf(text, "%ld %7s", &owner.pid, mark) > 0)
    owner.leaves_if_idle = owner.pid > 1 && strcmp(mark, "idle") == 0;
  return owner;
}

static pd_code write_owner(const pd_server *server, const char *path, pd_error *err)
{
  char text[64];
  int size = snprintf(text, sizeof text, "%ld%s\n", (long)getpid(), server->options->exit_idle_ms ? " idle" : "");
  if (ftruncate(server->lock_fd, 0) || pwrite(server->lock_fd, text, (size_t)size, 0) != size) return pd_file_refused(err, "write", path);
  return PD_OK;
}

/* A server that stops when it is idle is asked to, and waited for. One that was started for a command waits for whoever has the lock: its
 * home_socket was gone, so that it is about to end. */
static pd_code await_lock(pd_server *server, const char *path, pd_error *err)
{
  int64_t end_ms = pd_clock_monotonic_ms() + LEAVE_MS;
  for (bool is_asked = false; flock(server->lock_fd, LOCK_EX | LOCK_NB);) {
    if (errno != EWOULDBLOCK) return pd_file_refused(err, "lock", path);
    lock_owner owner = read_owner(server->lock_fd);
    if (pd_clock_monotonic_ms() >= end_ms || (!owner.leaves_if_idle && !server->options->is_local))
      return pd_error_set(err, PD_EXISTS, "the home %s is served already, by process %ld%s", server->options->uri, owner.pid,
                          owner.leaves_if_idle ? ", which keeps a session or the unlocked vault for other commands" : "");
    if (owner.leaves_if_idle && !is_asked) is_asked = kill((pid_t)owner.pid, SIGUSR1) == 0;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  return PD_OK;
}

pd_code pd_lock_home(pd_server *server, pd_error *err)
{
  char path[4200]; /* no store's name begins with a dot; agent 'server' has server.lock */
  const char *uri = server->options->uri;
  server->lock_fd = -1;
  if (strncmp(uri, "sqlite:", 7) != 0) return PD_OK; /* nobody else can have it open */
  if (snprintf(path, sizeof path, "%s/.server.lock", uri + 7) >= (int)sizeof path)
    return pd_error_set(err, PD_LIMIT, "the path %.100s… is too long", uri);
  server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (server->lock_fd < 0) return pd_file_refused(err, "open", path);
  TRY(await_lock(server, path, err));
  return write_owner(server, path, err);
}

/* ---- TCP ---- */

/* HOST:PORT, [HOST]:PORT, PORT. */
static pd_code split_address(const char *text, char *host, size_t size, char port[8], pd_error *err)
{
  const char *colon = strrchr(text, ':'), *begin = text, *end = colon ? colon : text;
  const char *digits = colon ? colon + 1 : text;
  if (*begin == '[' && end > begin + 1 && end[-1] == ']') begin++, end--;
  uint64_t number;
  if (!pd_u64_parse(digits, &number) || number > UINT16_MAX || (size_t)(end - begin) >= size)
    return pd_error_set(err, PD_INVALID, "'%.100s' is no address to listen on; write HOST:PORT, as 127.0.0.1:%d", text, PD_SERVE_PORT);
  snprintf(port, 8, "%s", digits);
  snprintf(host, size, "%.*s", (int)(end - begin), begin);
  if (!*host) snprintf(host, size, "127.0.0.1");
  return PD_OK;
}

pd_code pd_listen_check_host(const pd_server *server, const char *host, pd_error *err)
{
  const pd_serve_options *options = server->options;
  if (pd_is_loopback(host)) return PD_OK;
  if (options->no_auth)
    return pd_error_set(err, PD_DENIED, "--no-auth is for loopback alone: whoever reaches %s could do everything", host);
  if (!options->insecure_listen && !options->tls_cert)
    return pd_error_set(
      err, PD_DENIED, "%s is no loopback address: give --tls-cert and --tls-key, or --insecure-listen if the network is yours alone", host);
  return PD_OK;
}

void pd_listener_name(pd_listener *listener)
{
  struct sockaddr_storage at;
  socklen_t size = sizeof at;
  char host[INET6_ADDRSTRLEN] = "", port[8] = "";
  if (getsockname(listener->fd, (struct sockaddr *)&at, &size)) return;
  if (getnameinfo((struct sockaddr *)&at, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV)) return;
  bool is_v6 = strchr(host, ':') != NULL;
  snprintf(listener->address, sizeof listener->address, "%s://%s%s%s:%s", listener->is_tls ? "https" : "http", is_v6 ? "[" : "", host,
           is_v6 ? "]" : "", port);
}

static int bind_to(const struct addrinfo *at)
{
  int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

pd_listener *pd_listener_new(pd_server *server, int fd, bool is_unix)
{
  pd_listener *listener = &server->listeners[server->listener_count++];
  *listener = (pd_listener){.server = server, .fd = fd, .is_unix = is_unix, .is_tls = server->tls && !is_unix};
  return listener;
}

static pd_code listen_tcp(pd_server *server, const char *text, pd_error *err)
{
  char host[256], port[8];
  TRY(split_address(text, host, sizeof host, port, err));
  TRY(pd_listen_check_host(server, host, err));
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
  int failed = getaddrinfo(host, port, &hints, &found);
  if (failed) return pd_error_set(err, PD_INVALID, "cannot listen on %s: %s", text, gai_strerror(failed));
  int fd = bind_to(found);
  int why = errno;
  freeaddrinfo(found);
  if (fd < 0) return pd_error_set(err, PD_STORAGE, "cannot listen on %s: %s", text, strerror(why));
  pd_listener_name(pd_listener_new(server, fd, false));
  return PD_OK;
}

/* ---- a Unix socket ---- */

/* A socket that nobody listens on any more is in the way; anything else is not ours to remove. */
static pd_code clear_path(const struct sockaddr_un *address, pd_error *err)
{
  struct stat is;
  if (lstat(address->sun_path, &is)) return PD_OK;
  if (!S_ISSOCK(is.st_mode)) return pd_error_set(err, PD_EXISTS, "%s is there and is no socket", address->sun_path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool is_live = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
  if (fd >= 0) close(fd);
  if (is_live) return pd_error_set(err, PD_EXISTS, "another process listens on %s", address->sun_path);
  unlink(address->sun_path);
  return PD_OK;
}

static pd_code listen_unix(pd_server *server, const char *path, unsigned mode, pd_error *err)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return pd_error_set(err, PD_LIMIT, "the path %s is too long for a socket", path);
  memcpy(address.sun_path, path, strlen(path));
  TRY(clear_path(&address, err));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t before = umask(0777); /* nobody may connect before its mode is set */
  bool is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  umask(before);
  if (!is_bound || chmod(path, mode) || listen(fd, BACKLOG)) {
    pd_error_set(err, PD_STORAGE, "cannot listen on %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return PD_STORAGE;
  }
  pd_listener *listener = pd_listener_new(server, fd, true);
  snprintf(listener->address, sizeof listener->address, "unix:%s", path);
  return PD_OK;
}

/* Last, so that pd_server_address leaves it out. Without it commands open the home themselves, unless it is all that there is. */
static pd_code listen_home(pd_server *server, const char *path, pd_error *err)
{
  pd_error why = {0};
  pd_code code = listen_unix(server, path, 0600, server->listener_count ? &why : err);
  if (!code) server->listeners[server->listener_count - 1].is_home = true;
  if (!code || !server->listener_count) return code;
  pd_log_say(&server->options->log, PD_LOG_WARN, "commands that open this home do not use this server: %s", why.message);
  return PD_OK;
}

pd_code pd_listen_all(pd_server *server, pd_error *err)
{
  const pd_serve_options *options = server->options;
  if (options->listen) TRY(listen_tcp(server, options->listen, err));
  if (options->socket) TRY(listen_unix(server, options->socket, options->socket_mode ? options->socket_mode : 0600, err));
  TRY(pd_listen_passed(server, err));
  if (options->home_socket && server->listener_count < PD_LISTENERS_MAX) TRY(listen_home(server, options->home_socket, err));
  bool has_tls = false;
  for (size_t i = 0; i < server->listener_count; i++) has_tls = has_tls || server->listeners[i].is_tls;
  if (options->tls_cert && !has_tls) return pd_error_set(err, PD_INVALID, "--tls-cert is for TCP, and there is no --listen");
  if (!server->listener_count) return pd_error_set(err, PD_INVALID, "there is nothing to listen on: give --listen or --socket");
  return PD_OK;
}
