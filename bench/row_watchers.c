/*
 * row_watchers.c: rows 24 and 25: how long a commit takes to reach 1,000 watchers of the server against one, and what a connection costs
 * that asks nothing.
 *
 * The time is from before the question is sent to the arrival of the whole event at the last watcher's socket: the durable commit is part
 * of both. The watchers are of this machine, and would take processor time from the server, which those elsewhere do not: to be woken, to
 * read, and to acknowledge (TCP does that when a socket is emptied) costs as much as the sending. So the system notes when an event arrives
 * (SO_TIMESTAMPNS), and the one thread that all watchers are keeps still until the server should be done. It then reads and checks all.
 * If it was too early it waits, and that an event came later is still seen.
 *
 * The memory of row 25 is the server's own (RssAnon) before and after: each connection has had an answer, and is kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"
#include "daemon.h"
#include "rows.h"

#define COMMIT_COUNT 100
#define CONNECTIONS_MAX 4096
#define IDLE_BUDGET (16 * 1024)
#define FAN_OUT_BUDGET 10.0
#define SILENCE_MS 20000
#define READ_SIZE 8192 /* more than anything that is said at once */
#define STILL_US 20    /* a watcher: twice what telling one takes */
#define WARM_COUNT 3

typedef struct crowd {
  int fds[CONNECTIONS_MAX], epoll;
  uint8_t matched[CONNECTIONS_MAX]; /* characters of `mark`, as an event may come in pieces */
  size_t count;
  const char *mark; /* what each has to hear */
} crowd;

static void crowd_done(crowd *c)
{
  for (size_t i = 0; i < c->count; i++) close(c->fds[i]);
  if (c->epoll) close(c->epoll);
  c->count = 0;
}

/* Marks as there are in the bytes. None of them begins again within itself. */
static uint32_t marks_in(crowd *c, size_t index, const char *bytes, size_t size)
{
  uint32_t found = 0;
  for (size_t i = 0; i < size; i++) {
    uint8_t at = c->matched[index];
    at = bytes[i] == c->mark[at] ? at + 1 : bytes[i] == c->mark[0];
    found += c->mark[at] == 0;
    c->matched[index] = c->mark[at] ? at : 0;
  }
  return found;
}

/* Until `wanted` marks were heard by all together. */
static pd_code hear_all(crowd *c, size_t wanted, pd_error *err)
{
  struct epoll_event events[256];
  char bytes[READ_SIZE];
  while (wanted) {
    int count = epoll_wait(c->epoll, events, 256, SILENCE_MS);
    if (count == 0) return pd_error_set(err, PD_STORAGE, "%zu connections have heard nothing for %d ms", wanted, SILENCE_MS);
    for (int i = 0; i < count; i++) {
      size_t index = events[i].data.u32;
      ssize_t got = recv(c->fds[index], bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return pd_error_set(err, PD_STORAGE, "the server hung up");
      uint32_t found = marks_in(c, index, bytes, (size_t)got);
      if (found > wanted) return pd_error_set(err, PD_CORRUPT, "a connection heard '%s' too often", c->mark);
      wanted -= found;
    }
  }
  return PD_OK;
}

static pd_code send_text(int fd, const char *text, pd_error *err)
{
  size_t size = strlen(text);
  if (send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot send: %s", strerror(errno));
}

/* `count` connections that ask the same. */
static pd_code gather(crowd *c, int port, size_t count, const char *question, pd_error *err)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  c->epoll = epoll_create1(EPOLL_CLOEXEC);
  while (c->count < count) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)c->count};
    TRY(bench_connect(port, &c->fds[c->count], err));
    c->count++;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->fds[c->count - 1], &event))
      return pd_error_set(err, PD_STORAGE, "epoll: %s", strerror(errno));
    TRY(send_text(c->fds[c->count - 1], question, err));
  }
  return PD_OK;
}

/* ---- row 24 ------------------------------------------------------------------------------------------------------- */

static double wall_clock(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now); /* which arrivals are noted by */
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A piece of what one hears, and when it came. */
static pd_code receive(int fd, char *bytes, size_t room, size_t *out_size, double *out_came, pd_error *err)
{
  char control[CMSG_SPACE(sizeof(struct timespec)) * 2];
  struct iovec part = {bytes, room};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  struct timespec came = {0};
  ssize_t got = recvmsg(fd, &message, 0);
  if (got <= 0) return pd_error_set(err, PD_STORAGE, "a watcher heard nothing: %s", got ? strerror(errno) : "the server hung up");
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) memcpy(&came, CMSG_DATA(c), sizeof(came));
  if (!came.tv_sec) return pd_error_set(err, PD_UNSUPPORTED, "the system does not note when something arrives at a socket");
  *out_size = (size_t)got;
  *out_came = (double)came.tv_sec + (double)came.tv_nsec / 1e9;
  return PD_OK;
}

/* The one event of a commit, whole. */
static pd_code hear_event(crowd *c, size_t index, double *inout_last, pd_error *err)
{
  char bytes[READ_SIZE];
  size_t size = 0, got = 0;
  double came = 0;
  uint32_t events = 0;
  do {
    TRY(receive(c->fds[index], bytes + size, sizeof(bytes) - size, &got, &came, err));
    events += marks_in(c, index, bytes + size, got);
    size += got;
  } while (size < sizeof(bytes) && (!events || memcmp(bytes + size - 2, "\n\n", 2) != 0));
  if (events != 1) return pd_error_set(err, PD_CORRUPT, "a watcher heard '%s' %u times", c->mark, events);
  if (came > *inout_last) *inout_last = came;
  return PD_OK;
}

static pd_code commit_once(crowd *c, int writer, uint32_t number, double *out_seconds, pd_error *err)
{
  char text[512], body[64];
  snprintf(body, sizeof(body), "{\"key\":\"news\",\"value\":%u}", number);
  snprintf(
    text, sizeof(text),
    "POST /v1/call/state.persistent.set HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
    strlen(body), body);
  double start = wall_clock(), last = 0;
  TRY(send_text(writer, text, err));
  ssize_t got = recv(writer, text, sizeof(text) - 1, 0);
  text[got > 0 ? got : 0] = 0;
  if (!strstr(text, " 200 ")) return pd_error_set(err, PD_CORRUPT, "a write was answered: %.200s", text);
  usleep((useconds_t)(c->count * STILL_US));
  for (size_t i = 0; i < c->count; i++) TRY(hear_event(c, i, &last, err));
  *out_seconds = last - start;
  return PD_OK;
}

/* From here on arrivals are noted, and nobody is woken. */
static void note_arrivals(crowd *c)
{
  const struct timeval patience = {.tv_sec = SILENCE_MS / 1000};
  const int on = 1;
  for (size_t i = 0; i < c->count; i++) {
    setsockopt(c->fds[i], SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
    setsockopt(c->fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  close(c->epoll);
  c->epoll = 0;
}

typedef struct news {
  double median_s, p99_s;
} news;

static pd_code commit_many(crowd *c, int writer, uint32_t commits, news *out, pd_error *err)
{
  bench_series times = {.count = 0};
  double seconds = 0;
  c->mark = "event: put\n";
  for (uint32_t i = 0; i < commits + WARM_COUNT; i++) {
    TRY(commit_once(c, writer, i, &seconds, err));
    if (i >= WARM_COUNT) bench_series_add(&times, seconds);
  }
  out->median_s = bench_series_median(&times);
  out->p99_s = bench_series_p99(&times);
  return PD_OK;
}

static pd_code time_commits(int port, size_t watchers, uint32_t commits, news *out, pd_error *err)
{
  static const char question[] = "GET /v1/watch?store=main&prefix=news HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CLEANUP(crowd_done) crowd c = {.mark = "event: hello\n"};
  int writer = -1;
  TRY(gather(&c, port, watchers, question, err));
  TRY(hear_all(&c, watchers, err));
  note_arrivals(&c);
  TRY(bench_connect(port, &writer, err));
  pd_code code = commit_many(&c, writer, commits, out, err);
  close(writer);
  return code;
}

static void stop_daemon(bench_daemon *daemon)
{
  bench_daemon_stop(daemon);
}

pd_code row_watchers(bench *b, pd_error *err)
{
  CLEANUP(stop_daemon) bench_daemon server = {0};
  news one = {0}, many = {0};
  char p99[2][BENCH_TEXT_SIZE];
  uint32_t watchers = b->sizes.wire_watchers, commits = b->sizes.wire_ms < 1000 ? COMMIT_COUNT / 10 : COMMIT_COUNT;
  setenv("PERDURE_SERVER_CONNECTIONS_MAX", "131072", 1); /* all of them are one agent's, which has 1/64 */
  TRY(bench_daemon_start(b->dir, BENCH_DAEMON_PERDURE, &server, err));
  TRY(time_commits(server.port, 1, commits, &one, err));
  TRY(time_commits(server.port, watchers, commits, &many, err));
  bench_line line = {.peer = "one watcher"};
  snprintf(line.what, sizeof(line.what), "a commit reaches %u watchers of the server", watchers);
  bench_text_seconds(many.median_s, line.ours_text);
  bench_text_seconds(one.median_s, line.peer_text);
  bench_judge(&line, many.median_s / one.median_s, BENCH_AT_MOST, FAN_OUT_BUDGET);
  snprintf(
    line.note, sizeof(line.note),
    "Median of %u durable commits, from before the request to the event's arrival at the last watcher's socket, as the kernel notes "
    "it (SO_TIMESTAMPNS); p99 %s against %s. The watchers' own work, on the same processors, is kept out: they read and check after it.",
    commits, bench_text_seconds(many.p99_s, p99[0]), bench_text_seconds(one.p99_s, p99[1]));
  return bench_report(b, &line, err);
}

/* ---- row 25 ------------------------------------------------------------------------------------------------------- */

static pd_code weigh(const bench_daemon *server, size_t count, double *out_each, pd_error *err)
{
  static const char question[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CLEANUP(crowd_done) crowd c = {.mark = "HTTP/1.1 200"};
  uint64_t before = 0, after = 0;
  TRY(bench_daemon_memory(server, &before, err));
  TRY(gather(&c, server->port, count, question, err));
  TRY(hear_all(&c, count, err));
  TRY(bench_daemon_memory(server, &after, err));
  *out_each = after > before ? (double)(after - before) / (double)count : 0;
  return PD_OK;
}

pd_code row_idle(bench *b, pd_error *err)
{
  CLEANUP(stop_daemon) bench_daemon server = {0};
  double each = 0;
  TRY(bench_daemon_start(b->dir, BENCH_DAEMON_PERDURE, &server, err));
  TRY(weigh(&server, b->sizes.wire_connections, &each, err));
  bench_line line = {.what = "memory of an idle connection to the server", .peer = "16 KiB"};
  bench_text_bytes(each, line.ours_text);
  bench_text_bytes(IDLE_BUDGET, line.peer_text);
  bench_judge(&line, each / IDLE_BUDGET, BENCH_AT_MOST, 1.0);
  snprintf(line.note, sizeof(line.note), "Growth of the server's own memory (RssAnon) over %u connections that had an answer and are kept.",
           b->sizes.wire_connections);
  return bench_report(b, &line, err);
}
