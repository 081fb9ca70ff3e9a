/* server_test.c: the server as a process: one a home, draining, reload, refusals to start, connections that misbehave. */
#include "base/clock.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const plain[] = {"--no-auth", NULL};

/* Run `perdure serve ARGS…` to its end; its exit code, and what it said on standard error. */
static int run_serve(const char *const *args, char *out_err, size_t size)
{
  const char *argv[SERVED_ARGS_MAX] = {served_binary, "serve"};
  int fds[2], status;
  for (size_t i = 0; args[i]; i++) argv[i + 2] = args[i];
  assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    alarm(SERVED_PATIENCE_S); /* one that starts after all fails the test, and does not hang it */
    execv(served_binary, (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  close(fds[1]);
  size_t used = 0;
  for (ssize_t got; used < size - 1 && (got = read(fds[0], out_err + used, size - 1 - used)) > 0;) used += (size_t)got;
  out_err[used] = 0;
  close(fds[0]);
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void want_status(reply r, int status)
{
  if (r.status != status) print_message("%s\n%s\n", r.head ? r.head : "(nothing)", r.body);
  assert_int_equal(r.status, status);
  reply_done(&r);
}

static void write_file(const served *s, const char *name, const char *text)
{
  char *path = text_of("%s/home/%s", s->folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  free(path);
}

/* A server whose home has this perdure.toml. */
static served *start_with(const char *toml)
{
  served before = {.folder = temp_folder_new()};
  char *home = text_of("%s/home", before.folder);
  mkdir(home, 0700);
  free(home);
  write_file(&before, "perdure.toml", toml);
  return served_start_in(before.folder, plain);
}

/* ---- starting ---- */

static void start__a_second_server_on_one_home_is_refused(void **state)
{
  (void)state;
  served *s = served_start(plain);
  char *home = text_of("%s/home", s->folder), err[1024];
  const char *args[] = {"--home", home, "--no-auth", "--listen", "127.0.0.1:0", NULL};
  assert_int_equal(run_serve(args, err, sizeof err), 3);
  assert_non_null(strstr(err, "is served already, by process"));
  want_status(ask(s, "GET", "/healthz", "", NULL), 200);
  free(home);
  served_free(s);
}

/* The lock file of its store is not the server's. */
static void start__an_agent_called_server_can_be_opened(void **state)
{
  (void)state;
  served *s = served_start(plain);
  char *uri = text_of("sqlite:%s/home", s->folder);
  pd_store *store = NULL;
  pd_error err = {0};
  alarm(60); /* it would wait for ever */
  if (pd_store_open(uri, "server", NULL, &store, &err)) fail_msg("%s", err.message);
  alarm(0);
  assert_int_equal(pd_put(store, pd_text("k"), pd_text("v"), NULL, NULL, &err), PD_OK);
  assert_int_equal(pd_store_close(store, &err), PD_OK);
  free(uri);
  served_free(s);
}

static void start__after_a_kill_the_home_can_be_served_again(void **state)
{
  (void)state;
  served *s = served_start(plain);
  want_status(ask_call(s, "main", "state.persistent.set", "{\"key\":\"k\",\"value\":1}"), 200);
  kill(s->pid, SIGKILL);
  assert_int_equal(served_wait(s), 256 + SIGKILL);
  served_again(s);
  reply r = ask_call(s, "main", "state.persistent.get", "{\"key\":\"k\"}");
  assert_non_null(strstr(r.body, "\"value\":1,\"version\":1"));
  reply_done(&r);
  served_free(s);
}

static void want_refused(const char *const *args, int code, const char *why)
{
  char err[1024];
  int got = run_serve(args, err, sizeof err);
  if (got != code || !strstr(err, why)) print_message("exit %d: %s\n", got, err);
  assert_int_equal(got, code);
  assert_non_null(strstr(err, why));
}

static void start__addresses_that_may_not_be_are_refused(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  want_refused((const char *const[]){"--home", folder, "--listen", "0.0.0.0:0", "--no-auth", NULL}, 6, "--no-auth is for loopback alone");
  want_refused((const char *const[]){"--home", folder, "--listen", "nonsense", "--no-auth", NULL}, 2, "no address to listen on");
  want_refused((const char *const[]){"--home", folder, "--listen", "127.0.0.1:99999", "--no-auth", NULL}, 2, "no address to listen on");
  want_refused((const char *const[]){"--home", folder, "--log", "xml", "--no-auth", NULL}, 2, "--log is json or human");
  want_refused((const char *const[]){"--home", folder, "--socket-mode", "rw", "--no-auth", NULL}, 2, "--socket-mode");
  temp_folder_free(folder);
}

static void start__a_file_in_the_sockets_place_is_left_alone(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *path = text_of("%s/file", folder);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  want_refused((const char *const[]){"--home", folder, "--socket", path, "--no-auth", NULL}, 3, "is no socket");
  assert_int_equal(access(path, F_OK), 0);
  free(path);
  temp_folder_free(folder);
}

static void socket__serves_and_is_the_owners_alone_and_goes_with_the_server(void **state)
{
  (void)state;
  served *s = served_start((const char *const[]){"--no-auth", "--socket", "@socket", NULL});
  char *path = text_of("%s/socket", s->folder);
  struct stat is;
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0600);
  int fd = served_connect_unix(s);
  want_status(ask_on(fd, "GET", "/healthz", "", NULL), 200);
  close(fd);
  assert_int_equal(served_stop(s), 0);
  assert_int_not_equal(access(path, F_OK), 0);
  free(path);
  served_free(s);
}

/* ---- stopping ---- */

static const char receive[] = "POST /v1/call/queue.receive HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                              "Perdure-Agent: waiter\r\nContent-Length: 17\r\n\r\n{\"wait_ms\":60000}";
static const char set_a[] = "POST /v1/call/state.persistent.set HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            "Content-Length: 21\r\n\r\n{\"key\":\"a\",\"value\":1}";

/* Only the one that waits longest keeps in mind when a message comes again. If it leaves, the next does. */
static void wait__a_message_comes_again_to_the_next_when_the_first_has_left(void **state)
{
  (void)state;
  served *s = served_start(plain);
  int fds[2];
  reply r = ask_call(s, "sender", "queue.send", "{\"to\":\"waiter\",\"body\":1}");
  want_status(r, 200);
  r = ask_call(s, "waiter", "queue.receive", "{\"visibility_ms\":4000}");
  assert_non_null(strstr(r.body, "\"count\":1"));
  want_status(r, 200);
  for (int i = 0; i < 2; i++) {
    fds[i] = served_connect(s);
    assert_true(send_bytes(fds[i], receive, strlen(receive)));
    served_await_in_flight(s, (uint64_t)i + 1);
    usleep(300000); /* it waits */
  }
  close(fds[0]);
  struct pollfd answer = {.fd = fds[1], .events = POLLIN};
  assert_int_equal(poll(&answer, 1, 30000), 1); /* it would have waited for a minute */
  r = read_reply(fds[1], false);
  assert_non_null(strstr(r.body, "\"count\":1"));
  want_status(r, 200);
  close(fds[1]);
  served_free(s);
}

/* A body that is not there yet is a request at work; who waits for a message hears that none came. */
static void stop__requests_at_work_get_their_answers(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\ndrain = \"60s\"\n");
  int fd = served_connect(s), idle = served_connect(s), waiting = served_connect(s);
  want_status(ask_on(idle, "GET", "/healthz", "", NULL), 200);
  assert_true(send_bytes(waiting, receive, strlen(receive)));
  assert_true(send_bytes(fd, set_a, strlen(set_a) - 3));
  served_await_in_flight(s, 2);
  kill(s->pid, SIGTERM);
  reply gone = read_reply(idle, false); /* who asks nothing is sent away */
  assert_int_equal(gone.status, 0);
  reply_done(&gone);
  reply none = read_reply(waiting, false);
  assert_int_equal(none.status, 200);
  assert_non_null(strstr(none.body, "\"count\":0"));
  reply_done(&none);
  assert_true(send_bytes(fd, set_a + strlen(set_a) - 3, 3));
  reply r = read_reply(fd, false);
  char value[32];
  assert_int_equal(r.status, 200);
  assert_non_null(strstr(r.body, "\"version\":1"));
  assert_string_equal(reply_header(&r, "Connection", value, sizeof value), "close");
  reply_done(&r);
  close(fd);
  close(idle);
  close(waiting);
  assert_int_equal(served_wait(s), 0);
  char *log = served_file(s, "log");
  assert_non_null(strstr(log, "\"message\":\"stopped\""));
  free(log);
  served_free(s);
}

static void stop__what_takes_longer_than_server_drain_is_cut_off(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\ndrain = \"100ms\"\n");
  int fd = served_connect(s);
  assert_true(send_bytes(fd, set_a, strlen(set_a) - 3));
  served_await_in_flight(s, 1);
  assert_int_equal(served_stop(s), 0);
  char *log = served_file(s, "log");
  assert_non_null(strstr(log, "1 requests were cut off"));
  free(log);
  close(fd);
  served_again(s); /* and the home is whole */
  want_status(ask(s, "GET", "/readyz", "", NULL), 200);
  served_free(s);
}

/* Over a Unix socket, where who leaves is seen to: its place is another's at once. */
static void wait__who_leaves_gives_its_place_back(void **state)
{
  (void)state;
  served *s = served_start((const char *const[]){"--no-auth", "--socket", "@socket", NULL});
  int fds[40];
  for (size_t i = 0; i < 40; i++) {
    fds[i] = i % 2 ? served_connect_unix(s) : served_connect(s);
    assert_true(send_bytes(fds[i], receive, strlen(receive)));
  }
  served_await_in_flight(s, 40);
  for (size_t i = 0; i < 40; i++) close(fds[i]);
  served_await_metric(s, "perdure_requests_in_flight", 1);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static uint64_t tail_of(reply r)
{
  char value[32];
  assert_int_equal(r.status, 200);
  uint64_t tail = strtoull(reply_header(&r, "Perdure-Tail", value, sizeof value), NULL, 10);
  reply_done(&r);
  return tail;
}

/* They are parked, and a record wakes all of them; one whose time is over is answered without one. */
static void wait__for_a_log_holds_no_thread_and_everybody_is_answered(void **state)
{
  (void)state;
  enum { COUNT = 40 };
  static const char set[] = "{\"key\":\"k\",\"value\":1}";
  served *s = served_start(plain);
  int fds[COUNT];
  char text[256];
  want_status(ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: ada\r\n", set), 200);
  uint64_t tail = tail_of(ask(s, "GET", "/v1/stores/ada", "Perdure-Role: operator\r\n", NULL));
  snprintf(text, sizeof text, "/v1/stores/ada/log/wait?after=%llu&ms=50", (unsigned long long)tail);
  assert_int_equal(tail_of(ask(s, "GET", text, "Perdure-Role: operator\r\n", NULL)), tail);
  snprintf(text, sizeof text,
           "GET /v1/stores/ada/log/wait?after=%llu&ms=30000 HTTP/1.1\r\nHost: localhost\r\nPerdure-Role: operator\r\n\r\n",
           (unsigned long long)tail);
  for (size_t i = 0; i < COUNT; i++) {
    fds[i] = served_connect(s);
    assert_true(send_bytes(fds[i], text, strlen(text)));
  }
  int64_t end_ms = pd_clock_monotonic_ms() + SERVED_PATIENCE_S * 1000;
  while (served_metric(s, "perdure_calls_waiting") < COUNT && pd_clock_monotonic_ms() < end_ms) continue;
  assert_int_equal(served_metric(s, "perdure_calls_waiting"), COUNT);
  want_status(ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: ada\r\n", set), 200);
  for (size_t i = 0; i < COUNT; i++) {
    assert_true(tail_of(read_reply(fds[i], false)) > tail);
    close(fds[i]);
  }
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

/* ---- a sync that failed ---- */

/* As a process does whose sync failed: the sick word of the lock file (src/backend/sqlite_lock.h). */
static void make_sick(const served *s, const char *store)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/home/%s.lock", s->folder, store);
  int fd = open(path, O_WRONLY);
  assert_true(fd >= 0);
  assert_true(pwrite(fd, "\1\0\0\0", 4, 80) == 4);
  close(fd);
}

static void want_body(reply r, int status, const char *part)
{
  if (r.status != status || !strstr(r.body, part)) fail_msg("%d: %s", r.status, r.body);
  reply_done(&r);
}

static void sick__readyz_and_metrics_say_so_writes_are_refused_and_a_restart_heals(void **state)
{
  (void)state;
  static const char set[] = "{\"key\":\"k\",\"value\":1}";
  served *s = served_start(plain);
  want_body(ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: ada\r\n", set), 200, "");
  want_body(ask(s, "GET", "/readyz", "", NULL), 200, "\"ready\"");
  make_sick(s, "ada");
  want_body(ask(s, "GET", "/readyz", "", NULL), 503, "{\"status\":\"sick\",\"reason\":\"a sync of the store 'ada' failed");
  want_body(ask(s, "GET", "/metrics", "Perdure-Role: operator\r\n", NULL), 200, "perdure_stores_sick 1\n");
  want_body(ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: ada\r\n", set), 500, "writes are refused");
  want_body(ask(s, "POST", "/v1/call/state.persistent.get", "Perdure-Agent: ada\r\n", "{\"key\":\"k\"}"), 200, "");
  want_body(ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: bob\r\n", set), 200, "");
  assert_int_equal(served_stop(s), 0);
  served_again(s);
  want_body(ask(s, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: ada\r\n", set), 200, "");
  want_body(ask(s, "GET", "/readyz", "", NULL), 200, "\"ready\"");
  served_free(s);
}

/* ---- reloading ---- */

static void reload__limits_change_and_a_wrong_file_changes_nothing(void **state)
{
  (void)state;
  served *s = served_start(plain);
  char big[3000];
  memset(big, ' ', sizeof big);
  memcpy(big, "{}", 2);
  big[sizeof big - 1] = 0;
  want_status(ask_call(s, "main", "state.persistent.list", big), 200);
  write_file(s, "perdure.toml", "[server]\nbody_max = \"2 KB\"\n");
  kill(s->pid, SIGHUP);
  served_await_log(s, "\"reloaded\"");
  want_status(ask_call(s, "main", "state.persistent.list", big), 413);
  write_file(s, "perdure.toml", "[server]\nbody_maxx = 1\n");
  kill(s->pid, SIGHUP);
  served_await_log(s, "the settings stay as they were");
  want_status(ask_call(s, "main", "state.persistent.list", big), 413);
  served_free(s);
}

static void reload__what_is_no_longer_a_setting_is_ignored_and_said(void **state)
{
  (void)state;
  served *s = start_with("[server]\nidle = \"1s\"\n");
  served_await_log(s, "'server.idle' is no longer a setting and is ignored; it is now 75s");
  write_file(s, "perdure.toml", "[server]\nbytes_max = 1\nbody_max = \"2 KB\"\n[audit]\nkeep = 1\n");
  kill(s->pid, SIGHUP);
  served_await_log(s, "'server.bytes_max' is no longer a setting and is ignored; it is now 32 times server.body_max, and at least 64 MiB");
  served_await_log(s, "\"reloaded\"");
  char big[3000];
  memset(big, ' ', sizeof big);
  memcpy(big, "{}", 2);
  big[sizeof big - 1] = 0;
  want_status(ask_call(s, "main", "state.persistent.list", big), 413);
  want_status(ask_call(s, "main", "state.persistent.list", "{}"), 200);
  served_free(s);
}

/* ---- connections ---- */

static void slow__a_head_that_never_ends_is_cut(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nidle = \"1s\"\nrequest_time = \"1s\"\n");
  int head = served_connect(s), body = served_connect(s), quiet = served_connect(s);
  const char *half = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ";
  const char *whole = "POST /v1/call/state.persistent.list HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n";
  assert_true(send_bytes(head, half, strlen(half)));
  assert_true(send_bytes(body, whole, strlen(whole)));
  bool is_open = true;
  for (int i = 0; i < SERVED_PATIENCE_S * 10 && is_open; i++) { /* a byte now and then does not keep it */
    is_open = send_bytes(head, "x", 1);
    poll(NULL, 0, 100);
  }
  assert_false(is_open);
  char byte;
  assert_true(read(body, &byte, 1) <= 0);
  assert_true(read(quiet, &byte, 1) <= 0);
  close(head), close(body), close(quiet);
  want_status(ask(s, "GET", "/healthz", "", NULL), 200);
  served_free(s);
}

static void head__larger_than_it_may_be_is_refused(void **state)
{
  (void)state;
  served *s = served_start(plain);
  size_t size = 20000;
  char *text = malloc(size + 1);
  memset(text, 'a', size);
  text[size] = 0;
  char *header = text_of("X-Long: %s\r\n", text), *path = text_of("/%s", text);
  reply r = ask(s, "GET", "/healthz", header, NULL);
  assert_true(r.status == 431 || r.status == 413);
  reply_done(&r);
  r = ask(s, "GET", path, "", NULL);
  assert_true(r.status == 414 || r.status == 431 || r.status == 413);
  reply_done(&r);
  free(text), free(header), free(path);
  want_status(ask(s, "GET", "/healthz", "", NULL), 200);
  served_free(s);
}

static void half_closed__who_stops_sending_gets_an_answer_or_an_end(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nidle = \"1s\"\n");
  const char *text = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  int fds[20];
  for (int i = 0; i < 20; i++) {
    fds[i] = served_connect(s);
    assert_true(send_bytes(fds[i], text, i % 2 ? strlen(text) : 20));
    shutdown(fds[i], SHUT_WR);
  }
  for (int i = 0; i < 20; i++) {
    reply r = read_reply(fds[i], false);
    char byte;
    assert_int_equal(r.status, i % 2 ? 200 : 0);
    reply_done(&r);
    assert_int_equal(read(fds[i], &byte, 1), 0); /* and its place is given back */
    close(fds[i]);
  }
  want_status(ask(s, "GET", "/healthz", "", NULL), 200);
  served_free(s);
}

/* ---- many at once ---- */

typedef struct writer {
  const served *s;
  int number, failures;
} writer;

static void *write_many(void *ctx)
{
  writer *w = ctx;
  int fd = served_connect(w->s);
  for (int i = 0; i < 50; i++) {
    char *body = text_of("{\"key\":\"k%d.%d\",\"value\":%d}", w->number, i, i);
    reply r = ask_on(fd, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: crowd\r\n", body);
    w->failures += r.status != 200;
    reply_done(&r);
    free(body);
  }
  close(fd);
  return NULL;
}

static void many__writers_at_once_all_get_their_versions(void **state)
{
  (void)state;
  served *s = served_start(plain);
  writer writers[32];
  pthread_t threads[32];
  for (int i = 0; i < 32; i++) {
    writers[i] = (writer){.s = s, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
  }
  for (int i = 0; i < 32; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(writers[i].failures, 0);
  }
  reply r = ask(s, "GET", "/v1/agents/crowd/state?limit=10000", "Perdure-Agent: crowd\r\n", NULL);
  size_t count = 0;
  for (const char *at = r.body; (at = strstr(at, "\"key\":")); at++) count++;
  assert_int_equal(count, 32 * 50);
  reply_done(&r);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void in_flight__more_than_an_agent_may_have_is_429_and_others_are_served(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nagent_in_flight_max = 2\n");
  int fds[2];
  for (int i = 0; i < 2; i++) {
    fds[i] = served_connect(s);
    assert_true(send_bytes(fds[i], receive, strlen(receive)));
  }
  served_await_in_flight(s, 2);
  reply r = ask_call(s, "waiter", "state.persistent.list", "{}");
  char value[16];
  assert_int_equal(r.status, 429);
  assert_string_equal(reply_header(&r, "Retry-After", value, sizeof value), "1");
  assert_non_null(strstr(r.body, "\"code\":\"TooManyRequests\""));
  reply_done(&r);
  want_status(ask_call(s, "modest", "state.persistent.list", "{}"), 200);
  want_status(ask_call(s, "modest", "queue.send", "{\"to\":\"waiter\",\"body\":1}"), 200);
  struct pollfd either[2] = {{.fd = fds[0], .events = POLLIN}, {.fd = fds[1], .events = POLLIN}};
  assert_true(poll(either, 2, SERVED_PATIENCE_S * 1000) > 0);
  int first = either[0].revents ? 0 : 1;
  want_status(read_reply(fds[first], false), 200);
  served_await_metric(s, "perdure_requests_in_flight", 2); /* a place is given back some moments after the answer */
  want_status(ask_call(s, "waiter", "state.persistent.list", "{}"), 200);
  want_status(ask_call(s, "modest", "queue.send", "{\"to\":\"waiter\",\"body\":2}"), 200);
  want_status(read_reply(fds[1 - first], false), 200);
  close(fds[0]), close(fds[1]);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(start__a_second_server_on_one_home_is_refused),
    cmocka_unit_test(start__an_agent_called_server_can_be_opened),
    cmocka_unit_test(start__after_a_kill_the_home_can_be_served_again),
    cmocka_unit_test(start__addresses_that_may_not_be_are_refused),
    cmocka_unit_test(start__a_file_in_the_sockets_place_is_left_alone),
    cmocka_unit_test(socket__serves_and_is_the_owners_alone_and_goes_with_the_server),
    cmocka_unit_test(wait__a_message_comes_again_to_the_next_when_the_first_has_left),
    cmocka_unit_test(stop__requests_at_work_get_their_answers),
    cmocka_unit_test(stop__what_takes_longer_than_server_drain_is_cut_off),
    cmocka_unit_test(wait__who_leaves_gives_its_place_back),
    cmocka_unit_test(wait__for_a_log_holds_no_thread_and_everybody_is_answered),
    cmocka_unit_test(sick__readyz_and_metrics_say_so_writes_are_refused_and_a_restart_heals),
    cmocka_unit_test(reload__limits_change_and_a_wrong_file_changes_nothing),
    cmocka_unit_test(reload__what_is_no_longer_a_setting_is_ignored_and_said),
    cmocka_unit_test(slow__a_head_that_never_ends_is_cut),
    cmocka_unit_test(head__larger_than_it_may_be_is_refused),
    cmocka_unit_test(half_closed__who_stops_sending_gets_an_answer_or_an_end),
    cmocka_unit_test(many__writers_at_once_all_get_their_versions),
    cmocka_unit_test(in_flight__more_than_an_agent_may_have_is_429_and_others_are_served),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire server", tests, NULL, NULL);
}
