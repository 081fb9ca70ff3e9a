/*
 * sigterm_test.c: a server that is told to stop while it works, with writes in memory (store.flush) and calls that wait for a message.
 * Nothing that was answered 200 is lost, whoever waits gets an answer, and it does not take long.
 */
#include "base/clock.h"
#include "support/temp_folder.h"
#include "wire/bad_disk.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define WRITERS 8
#define WRITES_MAX 4000 /* of one of them */
#define POLLS 80        /* more than there are workers */
#define STOP_MS 20000   /* test.server.drain is 60 s: who waits must not keep it */

/* ---- who writes ---- */

typedef struct writer {
  served *s;
  unsigned index, acknowledged;
  atomic_uint *total;
  pthread_t thread;
} writer;

static void *write_on(void *ctx)
{
  writer *w = ctx;
  char *headers = text_of("Perdure-Agent: writer%u\r\n", w->index);
  int fd = served_connect(w->s);
  for (unsigned i = 0; fd >= 0 && i < WRITES_MAX; i++) {
    char *body = text_of("{\"key\":\"k%u\",\"value\":%u}", i, i);
    reply r = ask_on(fd, "POST", "/v1/call/state.persistent.set", headers, body);
    int status = r.status;
    reply_done(&r);
    free(body);
    if (status != 200) break; /* it stops */
    w->acknowledged = i + 1;
    atomic_fetch_add(w->total, 1);
  }
  if (fd >= 0) close(fd);
  free(headers);
  return NULL;
}

/* ---- who waits ---- */

static const char *const polls[] = {
  "POST /v1/call/queue.receive HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPerdure-Agent: waiter\r\n"
  "Content-Length: 17\r\n\r\n{\"wait_ms\":60000}",
  "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nPerdure-Agent: legacy\r\n"
  "MCP-Protocol-Version: 2025-06-18\r\nContent-Length: 118\r\n\r\n"
  "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"queue_receive\",\"arguments\":{\"wait_ms\":60000}}}     ",
  "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nPerdure-Agent: modern\r\n"
  "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: queue_receive\r\nContent-Length: 320\r\n\r\n"
  "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"queue_receive\",\"arguments\":{\"wait_ms\":60000},"
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"x\","
  "\"version\":\"1\"},\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
};

/* The head says how long the body is; here it is said of itself. */
static void send_poll(int fd, const char *text)
{
  const char *body = strstr(text, "\r\n\r\n") + 4, *length = strstr(text, "Content-Length: ");
  char *whole = text_of("%.*sContent-Length: %zu\r\n\r\n%s", (int)(length - text), text, strlen(body), body);
  assert_true(send_bytes(fd, whole, strlen(whole)));
  free(whole);
}

static void want_nothing_came(int fd)
{
  reply r = read_reply(fd, false);
  if (r.status != 200 || !strstr(r.body, "\"count\":0")) fail_msg("who waited was answered %d %.300s", r.status, r.body ? r.body : "");
  reply_done(&r);
  close(fd);
}

/* ---- */

static void want_all(served *s, const writer *w)
{
  char *headers = text_of("Perdure-Agent: writer%u\r\n", w->index);
  int fd = served_connect(s);
  for (unsigned i = 0; i < w->acknowledged; i++) {
    char *body = text_of("{\"key\":\"k%u\"}", i), *value = text_of("\"value\":%u,", i);
    reply r = ask_on(fd, "POST", "/v1/call/state.persistent.get", headers, body);
    if (r.status != 200 || !strstr(r.body, value)) fail_msg("writer%u k%u: %d %.300s", w->index, i, r.status, r.body ? r.body : "");
    reply_done(&r);
    free(body);
    free(value);
  }
  close(fd);
  free(headers);
}

/* `sync`: see bad_disk_set. */
static void stop_under_load(const char *settings, const char *sync)
{
  writer writers[WRITERS];
  int fds[POLLS];
  atomic_uint total = 0;
  served *s = bad_disk_start(settings);
  if (sync) bad_disk_set(s, sync);
  for (int i = 0; i < POLLS; i++) {
    fds[i] = served_connect(s);
    send_poll(fds[i], polls[i % 3]);
  }
  served_await_in_flight(s, POLLS);
  for (unsigned i = 0; i < WRITERS; i++) {
    writers[i] = (writer){.s = s, .index = i, .total = &total};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
  }
  int64_t end_ms = pd_clock_monotonic_ms() + SERVED_PATIENCE_S * 1000;
  while (atomic_load(&total) < 300 && pd_clock_monotonic_ms() < end_ms) usleep(1000);
  int64_t begun_ms = pd_clock_monotonic_ms();
  kill(s->pid, SIGTERM);
  for (int i = 0; i < POLLS; i++) want_nothing_came(fds[i]);
  int code = served_wait(s);
  int64_t took_ms = pd_clock_monotonic_ms() - begun_ms;
  for (unsigned i = 0; i < WRITERS; i++) pthread_join(writers[i].thread, NULL);
  printf("# %u writes acknowledged, %d who waited; stopped after %lld ms\n", atomic_load(&total), POLLS, (long long)took_ms);
  assert_int_equal(code, 0);
  assert_true(took_ms < STOP_MS);
  assert_true(atomic_load(&total) >= 300);
  served_again(s);
  for (unsigned i = 0; i < WRITERS; i++) want_all(s, &writers[i]);
  served_free(s);
}

static void sigterm__buffered_writes_are_kept_and_who_waits_is_answered(void **state)
{
  (void)state;
  stop_under_load("[store]\nflush = \"60s\"\n[test.server]\ndrain = \"60s\"\n", NULL);
}

static void sigterm__durable_writes_are_kept_and_who_waits_is_answered(void **state)
{
  (void)state;
  stop_under_load("[test.server]\ndrain = \"60s\"\n", NULL);
}

/* Each sync takes longer: the flush of all stores, and the last writes, are waited for. */
static void sigterm__buffered_writes_are_kept_on_a_slow_disk(void **state)
{
  (void)state;
  stop_under_load("[store]\nflush = \"60s\"\n[test.server]\ndrain = \"60s\"\n", "200");
}

static void sigterm__durable_writes_are_kept_on_a_slow_disk(void **state)
{
  (void)state;
  stop_under_load("[test.server]\ndrain = \"60s\"\n", "50");
}

/* ---- what cannot be flushed ---- */

/* Acknowledged in memory, and then the disk is full: the exit code says so. (The log is on that disk, too.) */
static void sigterm__what_cannot_be_flushed_is_told_by_the_exit_code(void **state)
{
  (void)state;
  struct rlimit limit;
  served *s = bad_disk_start("[store]\nflush = \"60s\"\n");
  reply r = ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: writer\r\n", "{\"key\":\"k\",\"value\":1}");
  assert_int_equal(r.status, 200);
  reply_done(&r);
  assert_int_equal(prlimit(s->pid, RLIMIT_FSIZE, NULL, &limit), 0);
  limit.rlim_cur = 0; /* no file may be written to any more */
  assert_int_equal(prlimit(s->pid, RLIMIT_FSIZE, &limit, NULL), 0);
  int code = served_stop(s);
  printf("# exit code %d\n", code);
  assert_int_not_equal(code, 0);
  assert_true(code < 256);
  served_again(s); /* and the home is whole */
  r = ask(s, "GET", "/readyz", "", NULL);
  assert_int_equal(r.status, 200);
  reply_done(&r);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sigterm__buffered_writes_are_kept_and_who_waits_is_answered),
    cmocka_unit_test(sigterm__durable_writes_are_kept_and_who_waits_is_answered),
    cmocka_unit_test(sigterm__buffered_writes_are_kept_on_a_slow_disk),
    cmocka_unit_test(sigterm__durable_writes_are_kept_on_a_slow_disk),
    cmocka_unit_test(sigterm__what_cannot_be_flushed_is_told_by_the_exit_code),
  };
  if (argc < 3) return 2;
  served_binary = argv[1];
  bad_disk_module = argv[2];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("sigterm", tests, NULL, NULL);
}
