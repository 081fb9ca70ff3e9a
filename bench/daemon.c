/* daemon.c: see daemon.h. */
#include "daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"

#define START_TRIES 1000 /* of 20 ms */
#define ARGS_MAX 24

/* How each one is asked whether it is ready, and what it says then. */
static const struct {
  const char *name, *question, *answer;
} probes[] = {
  {"perdure serve", "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", " 200 "},
  {"redis-server", "PING\r\n", "+PONG"},
  {"etcd", "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "\"true\""},
};

static struct sockaddr_in loopback(int port)
{
  return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

pd_code bench_connect(int port, int *out_fd, pd_error *err)
{
  struct sockaddr_in at = loopback(port);
  struct timeval limit = {.tv_sec = 20};
  int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
    int reason = errno;
    if (fd >= 0) close(fd);
    return pd_error_set(err, PD_STORAGE, "cannot connect to port %d: %s", port, strerror(reason));
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  *out_fd = fd;
  return PD_OK;
}

/* A port that nobody has now. */
static int free_port(void)
{
  struct sockaddr_in at = loopback(0);
  socklen_t size = sizeof(at);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0;
  if (fd >= 0) close(fd);
  return is_bound ? ntohs(at.sin_port) : 0;
}

/* ---- what each one is started with; in the child ---- */

static void say_perdure(const bench_daemon *d, const char **args)
{
  static char address[32];
  snprintf(address, sizeof(address), "127.0.0.1:%d", d->port);
  const char *const all[] = {BENCH_PERDURE, "serve", "--no-auth", "--home", d->folder, "--listen", address, "--log-level", "error", NULL};
  memcpy(args, all, sizeof(all));
}

static void say_redis(const bench_daemon *d, const char **args)
{
  static char port[16];
  snprintf(port, sizeof(port), "%d", d->port);
  const char *const all[] = {"redis-server", "--dir", d->folder,      "--bind", "127.0.0.1",     "--port", port,
                             "--save",       "",      "--appendonly", "yes",    "--appendfsync", "always", NULL};
  memcpy(args, all, sizeof(all));
}

static void say_etcd(const bench_daemon *d, const char **args)
{
  static char client[64], peer[64], cluster[80];
  snprintf(client, sizeof(client), "http://127.0.0.1:%d", d->port);
  snprintf(peer, sizeof(peer), "http://127.0.0.1:%d", free_port());
  snprintf(cluster, sizeof(cluster), "default=%s", peer);
  const char *const all[] = {"etcd",    "--data-dir",
                             d->folder, "--listen-client-urls",
                             client,    "--advertise-client-urls",
                             client,    "--listen-peer-urls",
                             peer,      "--initial-advertise-peer-urls",
                             peer,      "--initial-cluster",
                             cluster,   NULL};
  memcpy(args, all, sizeof(all));
}

__attribute__((noreturn)) static void run_daemon(const bench_daemon *d, bench_daemon_kind kind)
{
  static void (*const say[])(const bench_daemon *, const char **) = {say_perdure, say_redis, say_etcd};
  const char *args[ARGS_MAX];
  say[kind](d, args);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int out = open("/dev/null", O_WRONLY);
  if (out < 0) _exit(126);
  dup2(out, 1), dup2(out, 2);
  execvp(args[0], (char *const *)(uintptr_t)args);
  _exit(127);
}

/* ---- starting and stopping ---- */

static bool is_ready(const bench_daemon *d, bench_daemon_kind kind)
{
  char text[2048];
  size_t used = 0;
  int fd;
  if (bench_connect(d->port, &fd, NULL)) return false;
  ssize_t got = send(fd, probes[kind].question, strlen(probes[kind].question), MSG_NOSIGNAL);
  while (got > 0 && used < sizeof(text) - 1) {
    got = recv(fd, text + used, sizeof(text) - 1 - used, 0);
    if (got > 0) used += (size_t)got;
    text[used] = 0;
    if (strstr(text, probes[kind].answer)) break;
  }
  close(fd);
  return got > 0;
}

static pd_code wait_for(bench_daemon *d, bench_daemon_kind kind, pd_error *err)
{
  for (int i = 0; i < START_TRIES; i++) {
    if (waitpid(d->pid, NULL, WNOHANG) == d->pid) {
      d->pid = 0;
      return pd_error_set(err, PD_STORAGE, "%s did not start: is it installed?", probes[kind].name);
    }
    if (is_ready(d, kind)) return PD_OK;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  return pd_error_set(err, PD_STORAGE, "%s does not answer", probes[kind].name);
}

pd_code bench_daemon_start(const char *parent, bench_daemon_kind kind, bench_daemon *out, pd_error *err)
{
  static const char *const folders[] = {"served", "redis-always", "etcd"};
  TRY(bench_folder_new(parent, folders[kind], out->folder, err));
  out->port = free_port();
  if (!out->port) return pd_error_set(err, PD_STORAGE, "no free port for %s", probes[kind].name);
  out->pid = fork();
  if (out->pid < 0) {
    out->pid = 0;
    return pd_error_set(err, PD_STORAGE, "no process for %s", probes[kind].name);
  }
  if (!out->pid) run_daemon(out, kind);
  return wait_for(out, kind, err);
}

void bench_daemon_stop(bench_daemon *daemon)
{
  if (daemon->pid) {
    kill(daemon->pid, SIGKILL);
    waitpid(daemon->pid, NULL, 0);
  }
  daemon->pid = 0;
}

pd_code bench_daemon_memory(const bench_daemon *daemon, uint64_t *out_bytes, pd_error *err)
{
  char path[64], line[128];
  unsigned long long kib = 0;
  snprintf(path, sizeof(path), "/proc/%d/status", (int)daemon->pid);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof(line), f))
    if (sscanf(line, "RssAnon: %llu kB", &kib) == 1) break;
  if (f) fclose(f);
  if (!kib) return pd_error_set(err, PD_STORAGE, "%s does not tell the memory of the server", path);
  *out_bytes = kib * 1024;
  return PD_OK;
}
