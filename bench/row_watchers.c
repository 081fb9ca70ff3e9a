/*
 * row_watchers.c: rows 24 and 25: how long a commit takes to reach 1,000 watchers of the server against one, and what a connection costs
 * that asks nothing.
 *
 * The time is from before the question is sent to the whole event in the hands of the last watcher: the durable commit is part of both.
 * The watchers are one thread of this process, which shares the processors with the server. So that it is the server that is measured, a
 * watcher does the least that tells: it is woken by epoll and looks at the event once, all of it (MSG_PEEK). Only when the clock has
 * stopped is it taken out of the socket and checked: taking it has TCP acknowledge it, and a thousand acknowledgements cost this machine
 * as much as the sending does, where watchers elsewhere would pay for them themselves.
 *
 * The memory of row 25 is the server's own (RssAnon) before and after: each connection has had an answer, and is kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
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
#define WARM_COUNT 3

typedef struct crowd {
  int fds[CONNECTIONS_MAX], epoll;
  uint8_t matched[CONNECTIONS_MAX]; /* characters of `mark`, as an event may come in pieces */
  bool has_seen[CONNECTIONS_MAX];
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

/* Is the whole event there? It stays in the socket. */
static pd_code look(crowd *c, size_t index, size_t *inout_wanted, pd_error *err)
{
  char bytes[READ_SIZE];
  ssize_t got = recv(c->fds[index], bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return PD_OK;
  if (got <= 0) return pd_error_set(err, PD_STORAGE, "the server hung up");
  const char *begin = c->has_seen[index] ? NULL : memmem(bytes, (size_t)got, c->mark, strlen(c->mark));
  if (!begin || !memmem(begin, (size_t)(bytes + got - begin), "\n\n", 2)) return PD_OK;
  c->has_seen[index] = true;
  --*inout_wanted;
  return PD_OK;
}

/* Until each of them sees an event. */
static pd_code see_all(crowd *c, pd_error *err)
{
  struct epoll_event events[256];
  size_t wanted = c->count;
  memset(c->has_seen, 0, sizeof(c->has_seen));
  while (wanted) {
    int count = epoll_wait(c->epoll, events, 256, SILENCE_MS);
    if (count == 0) return pd_error_set(err, PD_STORAGE, "%zu watchers have seen nothing for %d ms", wanted, SILENCE_MS);
    for (int i = 0; i < count; i++) TRY(look(c, events[i].data.u32, &wanted, err));
  }
  return PD_OK;
}

/* What was seen: one event each. */
static pd_code take_all(crowd *c, pd_error *err)
{
  char bytes[READ_SIZE];
  for (size_t i = 0; i < c->count; i++) {
    ssize_t got = recv(c->fds[i], bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0 || marks_in(c, i, bytes, (size_t)got) != 1)
      return pd_error_set(err, PD_CORRUPT, "a watcher did not hear '%s' once", c->mark);
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
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = (uint32_t)c->count};
    TRY(bench_connect(port, &c->fds[c->count], err));
    c->count++;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->fds[c->count - 1], &event))
      return pd_error_set(err, PD_STORAGE, "epoll: %s", strerror(errno));
    TRY(send_text(c->fds[c->count - 1], question, err));
  }
  return PD_OK;
}

/* ---- row 24 ------------------------------------------------------------------------------------------------------- */

static pd_code commit_once(crowd *c, int writer, uint32_t number, double *out_seconds, pd_error *err)
{
  char text[512], body[64];
  snprintf(body, sizeof(body), "{\"key\":\"news\",\"value\":%u}", number);
  snprintf(
    text, sizeof(text),
    "POST /v1/call/state.persistent.set HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
    strlen(body), body);
  double start = bench_now();
  TRY(send_text(writer, text, err));
  TRY(see_all(c, err));
  *out_seconds = bench_now() - start;
  TRY(take_all(c, err));
  ssize_t got = recv(writer, text, sizeof(text) - 1, 0);
  text[got > 0 ? got : 0] = 0;
  return strstr(text, " 200 ") ? PD_OK : pd_error_set(err, PD_CORRUPT, "a write was answered: %.200s", text);
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
  TRY(bench_daemon_start(b->dir, BENCH_DAEMON_PERDURE, &server, err));
  TRY(time_commits(server.port, 1, commits, &one, err));
  TRY(time_commits(server.port, watchers, commits, &many, err));
  bench_line line = {.peer = "one watcher"};
  snprintf(line.what, sizeof(line.what), "a commit reaches %u watchers of the server", watchers);
  bench_text_seconds(many.median_s, line.ours_text);
  bench_text_seconds(one.median_s, line.peer_text);
  bench_judge(&line, many.median_s / one.median_s, BENCH_AT_MOST, FAN_OUT_BUDGET);
  snprintf(line.note, sizeof(line.note),
           "Median of %u durable commits, from before the request to the whole event seen by the last watcher; p99 %s against %s. The "
           "watchers are "
           "one thread beside the server: epoll, and one look (MSG_PEEK) a socket; taken out of the sockets after the clock has stopped.",
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
