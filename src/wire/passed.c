/*
 * passed.c: sockets that somebody else listens on for us, in systemd's way: descriptors 3 and up, as many as $LISTEN_FDS says, for the
 * process $LISTEN_PID. Who connects before we are up waits there, and is not refused.
 */
#include "base/base.h"
#include "base/error.h"
#include "base/number.h"
#include "wire/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3
#define NAME_SIZE 64

bool pd_serve_is_activated(void)
{
  const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
  uint64_t number;
  return pid && count && pd_u64_parse(pid, &number) && number == (uint64_t)getpid();
}

/* The index-th of the names in $LISTEN_FDNAMES, which colons part; "" if there is none. */
static void name_of(const char *names, size_t index, char out[NAME_SIZE])
{
  for (; names && index; index--) {
    names = strchr(names, ':');
    if (names) names++;
  }
  snprintf(out, NAME_SIZE, "%.*s", names ? (int)strcspn(names, ":") : 0, names ? names : "");
}

static int option_of(int fd, int option)
{
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) ? -1 : value;
}

static pd_code check_socket(int fd, const char *name, pd_error *err)
{
  int family = option_of(fd, SO_DOMAIN);
  bool is_known = family == AF_INET || family == AF_INET6 || family == AF_UNIX;
  if (is_known && option_of(fd, SO_TYPE) == SOCK_STREAM && option_of(fd, SO_ACCEPTCONN) == 1) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the descriptor %d (%s) that was passed by LISTEN_FDS is no stream socket that listens", fd,
                      *name ? name : "without a name");
}

static pd_code check_address(const pd_server *server, int fd, pd_error *err)
{
  struct sockaddr_storage at;
  socklen_t size = sizeof at;
  char host[INET6_ADDRSTRLEN] = "";
  if (getsockname(fd, (struct sockaddr *)&at, &size) ||
      getnameinfo((struct sockaddr *)&at, size, host, sizeof host, NULL, 0, NI_NUMERICHOST))
    return pd_error_set(err, PD_STORAGE, "the descriptor %d that was passed by LISTEN_FDS has no address: %s", fd, strerror(errno));
  return pd_listen_check_host(server, host, err);
}

static void name_unix(pd_listener *listener)
{
  struct sockaddr_un at = {0};
  socklen_t size = sizeof at;
  (void)getsockname(listener->fd, (struct sockaddr *)&at, &size);
  size_t length = size > offsetof(struct sockaddr_un, sun_path) ? size - offsetof(struct sockaddr_un, sun_path) : 0;
  bool is_abstract = length && !at.sun_path[0];
  snprintf(listener->address, sizeof listener->address, "unix:%s%.*s", is_abstract ? "@" : "", (int)(length - is_abstract),
           at.sun_path + is_abstract);
}

static pd_code take_socket(pd_server *server, int fd, const char *name, pd_error *err)
{
  TRY(check_socket(fd, name, err));
  bool is_unix = option_of(fd, SO_DOMAIN) == AF_UNIX;
  if (!is_unix) TRY(check_address(server, fd, err));
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
    return pd_error_set(err, PD_STORAGE, "cannot use the descriptor %d that was passed by LISTEN_FDS: %s", fd, strerror(errno));
  pd_listener *listener = pd_listener_new(server, fd, is_unix);
  listener->is_passed = true;
  if (is_unix)
    name_unix(listener);
  else
    pd_listener_name(listener);
  return PD_OK;
}

pd_code pd_listen_passed(pd_server *server, pd_error *err)
{
  if (!pd_serve_is_activated()) return PD_OK;
  const char *text = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
  char name[NAME_SIZE];
  uint64_t count;
  if (!pd_u64_parse(text, &count)) return pd_error_set(err, PD_INVALID, "LISTEN_FDS is '%.40s', and not a number of sockets", text);
  if (count > PD_LISTENERS_MAX - server->listener_count)
    return pd_error_set(err, PD_LIMIT, "LISTEN_FDS passes %.20s sockets; the most is %d with --listen and --socket", text,
                        PD_LISTENERS_MAX);
  for (uint64_t i = 0; i < count; i++) {
    name_of(names, (size_t)i, name);
    TRY(take_socket(server, FIRST_FD + (int)i, name, err));
  }
  unsetenv("LISTEN_PID"); /* they are ours alone */
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
  return PD_OK;
}
