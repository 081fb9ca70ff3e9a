/* redis_proxy.c: see redis_proxy.h. A process with a thread for each connection; it dies with its parent. */
#include "crash/redis_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_MAX ((size_t)8 << 20)
#define LATE_MS_MAX 900

static const char *socket_path;
static unsigned percent;
static unsigned seed;
static pthread_mutex_t seed_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned draw(unsigned below)
{
  pthread_mutex_lock(&seed_lock);
  unsigned number = (unsigned)rand_r(&seed) % below;
  pthread_mutex_unlock(&seed_lock);
  return number;
}

static int dial(void)
{
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  snprintf(at.sun_path, sizeof at.sun_path, "%s", socket_path);
  if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
  close(fd);
  return -1;
}

static bool send_all(int fd, const char *data, size_t size)
{
  while (size) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n, size -= (size_t)n;
  }
  return true;
}

/* The size of the command that `text` begins with; 0 if it is not all there. */
static size_t command_size(const char *text, size_t size)
{
  char *end;
  const char *at = text, *all = text + size;
  if (size < 4 || *at != '*' || !memchr(at, '\n', size)) return 0;
  long words = strtol(at + 1, &end, 10);
  at = end + 2;
  while (words-- > 0) {
    if (at >= all || !memchr(at, '\n', (size_t)(all - at))) return 0;
    long bytes = strtol(at + 1, &end, 10);
    at = end + 2 + bytes + 2;
  }
  return at <= all ? (size_t)(at - text) : 0;
}

typedef struct late_save {
  char *text;
  size_t size;
  unsigned after_ms;
} late_save;

static void *send_late(void *ctx)
{
  late_save *late = ctx;
  char answer[256];
  poll(NULL, 0, (int)late->after_ms);
  int fd = dial();
  if (fd >= 0 && send_all(fd, late->text, late->size)) {
    ssize_t ignored = recv(fd, answer, sizeof answer, 0);
    (void)ignored;
  }
  if (fd >= 0) close(fd);
  free(late->text);
  free(late);
  return NULL;
}

static void begin_late(const char *text, size_t size)
{
  pthread_t thread;
  late_save *late = malloc(sizeof *late);
  *late = (late_save){malloc(size), size, draw(LATE_MS_MAX)};
  memcpy(late->text, text, size);
  if (pthread_create(&thread, NULL, send_late, late) == 0) pthread_detach(thread);
}

enum { PASS, CUT_BEFORE, CUT_AFTER, HOLD, REPEAT, FATES };

/* One command; false: the connection is cut. *is_mute: its answer does not get through. */
static bool pass_on(int server, const char *text, size_t size, bool *is_mute, bool *is_cut_after)
{
  bool is_save = size > 600 && memcmp(text, "*8\r\n$4\r\nEVAL", 12) == 0;
  unsigned fate = is_save && draw(100) < percent ? 1 + draw(FATES - 1) : PASS;
  if (fate == CUT_BEFORE) return false;
  if (fate == REPEAT) begin_late(text, size);
  if (fate == HOLD) {
    begin_late(text, size);
    *is_mute = true; /* the client waits, and gives up */
    return true;
  }
  *is_cut_after = fate == CUT_AFTER;
  return send_all(server, text, size);
}

static void *serve(void *ctx)
{
  int client = (int)(intptr_t)ctx, server = dial();
  char *text = malloc(COMMAND_MAX), chunk[16384];
  size_t size = 0, whole;
  bool is_open = server >= 0, is_mute = false, is_cut_after = false;
  while (is_open) {
    struct pollfd fds[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    poll(fds, 2, -1);
    if (fds[1].revents) {
      ssize_t n = recv(server, chunk, sizeof chunk, 0);
      is_open = n > 0 && !is_cut_after && (is_mute || send_all(client, chunk, (size_t)n));
    }
    if (is_open && fds[0].revents) {
      ssize_t n = recv(client, text + size, COMMAND_MAX - size, 0);
      is_open = n > 0;
      size += n > 0 ? (size_t)n : 0;
      while (is_open && (whole = command_size(text, size))) {
        is_open = pass_on(server, text, whole, &is_mute, &is_cut_after);
        memmove(text, text + whole, size -= whole);
      }
    }
  }
  free(text);
  close(client);
  if (server >= 0) close(server);
  return NULL;
}

redis_proxy redis_proxy_start(const char *path, unsigned of_100, unsigned first)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 64) || getsockname(fd, (struct sockaddr *)&at, &size)) abort();
  redis_proxy proxy = {fork(), ntohs(at.sin_port)};
  if (proxy.pid) {
    close(fd);
    return proxy;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  socket_path = path, percent = of_100, seed = first;
  for (int client; (client = accept(fd, NULL, NULL)) >= 0;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) == 0) pthread_detach(thread);
  }
  _exit(0);
}

void redis_proxy_stop(redis_proxy *proxy)
{
  kill(proxy->pid, SIGKILL);
  waitpid(proxy->pid, NULL, 0);
}
