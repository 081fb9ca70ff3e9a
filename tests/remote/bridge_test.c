/*
 * bridge_test.c: `perdure --server URL mcp` (argv[1] is perdure) when things go wrong: streams that break in the middle, a server that
 * comes back, and ends in the middle of a call. tests/cmd/cli_bridge.sh has what goes right.
 */
#include "remote/cutter.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS (SERVED_IS_SANITIZED ? 60000 : 20000)
#define TOLD_SIZE_MAX ((size_t)1 << 20)
#define UPDATED "\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"state://persistent/plan\""
#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define RECEIVE(more)                                                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":50,\"method\":\"tools/call\",\"params\":{\"name\":\"queue_receive\",\"arguments\":{\"wait_ms\":50000}" more \
  "}}"
#define SUBSCRIBE(id, verb, key)                                                                                                           \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"resources/" verb "\",\"params\":{\"uri\":\"state://persistent/" key "\"}}"

/* A server, a bridge to it, and what can cut the two apart. */
typedef struct world {
  served *s;
  cutter *c;
  pid_t pid; /* of the bridge; 0: none */
  int in, out;
  char *told; /* by the bridge, so far */
  size_t told_size;
} world;

static int64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the bridge ---- */

static void become_bridge(const world *w, int in, int out)
{
  char *uri = text_of("http://127.0.0.1:%d", cutter_port(w->c));
  int err = open(text_of("%s/bridge.err", w->s->folder), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execl(served_binary, served_binary, "--server", uri, "--agent", "ada", "mcp", (char *)NULL);
  _exit(127);
}

static void begin(world *w)
{
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) abort();
  w->pid = fork();
  if (w->pid == 0) become_bridge(w, in[0], out[1]);
  close(in[0]);
  close(out[1]);
  w->in = in[1];
  w->out = out[0];
}

static void say(const world *w, const char *line)
{
  if (dprintf(w->in, "%s\n", line) < 0) fail_msg("the bridge does not listen: %s", strerror(errno));
}

static size_t count(const world *w, const char *text)
{
  size_t n = 0;
  for (const char *at = w->told; at && (at = strstr(at, text)); at++) n++;
  return n;
}

/* Read what it has said by then; false: it has closed its output. */
static bool listen_on(world *w, int timeout_ms)
{
  struct pollfd fd = {.fd = w->out, .events = POLLIN};
  if (poll(&fd, 1, timeout_ms) <= 0) return true;
  ssize_t got = read(w->out, w->told + w->told_size, TOLD_SIZE_MAX - 1 - w->told_size);
  if (got <= 0) return false;
  w->told_size += (size_t)got;
  w->told[w->told_size] = 0;
  return true;
}

static void await_count(world *w, const char *text, size_t wanted)
{
  for (int64_t end = now_ms() + PATIENCE_MS; count(w, text) < wanted;)
    if (!listen_on(w, 50) || now_ms() > end) fail_msg("the bridge said %zu times, not %zu: %s\n%s", count(w, text), wanted, text, w->told);
}

static void await(world *w, const char *text)
{
  await_count(w, text, 1);
}

typedef size_t (*counter)(cutter *c, const char *text);

static void await_wire(world *w, counter how_often, const char *text, size_t wanted)
{
  for (int64_t end = now_ms() + PATIENCE_MS; how_often(w->c, text) < wanted;) {
    listen_on(w, 10);
    if (now_ms() > end) fail_msg("on the wire %zu times, not %zu: %s\n%s", how_often(w->c, text), wanted, text, w->told);
  }
}

/* Hear it out, to its end; its exit code, or 256 plus the signal. */
static int hear_out(world *w)
{
  int status = 0;
  int64_t end = now_ms() + PATIENCE_MS;
  while (w->out >= 0 && listen_on(w, 50))
    if (now_ms() > end) fail_msg("the bridge does not end: %s", w->told);
  while (waitpid(w->pid, &status, WNOHANG) == 0) {
    poll(NULL, 0, 10);
    if (now_ms() > end) fail_msg("the bridge has closed its output, and goes on");
  }
  w->pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void close_in(world *w)
{
  close(w->in);
  w->in = -1;
}

static int end(world *w)
{
  close_in(w);
  return hear_out(w);
}

/* ---- the other side ---- */

static char *call(const world *w, const char *capability, const char *input)
{
  reply r = ask_call(w->s, "ada", capability, input);
  if (r.status != 200) fail_msg("%s: %d %s", capability, r.status, r.body);
  char *body = strdup(r.body);
  reply_done(&r);
  return body;
}

static void set_plan(const world *w, int value)
{
  char *input = text_of("{\"key\":\"plan\",\"value\":%d}", value);
  free(call(w, "state.persistent.set", input));
  free(input);
}

static void send_letter(const world *w)
{
  free(call(w, "queue.send", "{\"to\":\"ada\",\"body\":\"a letter\"}"));
}

/* The letter is for who asks now: no call of somebody who is gone waits for it. */
static void expect_letter_is_left(const world *w)
{
  send_letter(w);
  char *got = call(w, "queue.receive", "{}");
  if (!strstr(got, "a letter")) fail_msg("somebody else got it: %s", got);
  free(got);
}

static void come_back(world *w, int how)
{
  cutter_aim(w->c, 0);
  kill(w->s->pid, how);
  served_wait(w->s);
  served_again(w->s);
  cutter_aim(w->c, w->s->port);
}

/* ---- worlds ---- */

static int set_up(void **state)
{
  static const char *const args[] = {"--no-auth", NULL};
  world *w = calloc(1, sizeof *w);
  w->s = served_start(args);
  w->c = cutter_start(w->s->port);
  w->told = calloc(1, TOLD_SIZE_MAX);
  w->in = w->out = -1;
  signal(SIGPIPE, SIG_IGN);
  begin(w);
  *state = w;
  return 0;
}

static int tear_down(void **state)
{
  world *w = *state;
  if (w->pid) {
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
  }
  if (w->in >= 0) close(w->in);
  if (w->out >= 0) close(w->out);
  cutter_free(w->c);
  served_free(w->s);
  free(w->told);
  free(w);
  return 0;
}

static void open_session(world *w)
{
  say(w, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
         "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  await(w, "\"id\":0,\"result\"");
  await_wire(w, cutter_answered, "retry: 1000", 1); /* the session's stream */
}

/* A call that waits, and whose stream has begun. */
static void wait_for_letter(world *w)
{
  open_session(w);
  say(w, RECEIVE(""));
  await_wire(w, cutter_answered, "retry: 1000", 2);
}

static void expect_one_answer(world *w, const char *kind)
{
  char *answer = text_of("\"id\":50,\"%s\"", kind);
  await(w, answer);
  assert_int_equal(end(w), 0);
  assert_int_equal(count(w, answer), 1);
  assert_int_equal(count(w, "\"id\":50"), 1);
  free(answer);
}

/* ---- streams that break ---- */

static void bridge__an_answer_that_is_cut_in_the_middle_is_resumed_and_comes_once(void **state)
{
  world *w = *state;
  wait_for_letter(w);
  cutter_cut_in(w->c, "\"structuredContent\"");
  send_letter(w);
  expect_one_answer(w, "result");
  assert_true(cutter_has_cut(w->c));
  assert_int_equal(cutter_asked(w->c, "Last-Event-ID: p"), 1);
  assert_int_equal(cutter_answered(w->c, "Perdure-Resumed: 1"), 1);
  assert_int_equal(count(w, "a letter"), 2); /* as text and as structure, of one answer */
}

static void bridge__a_call_whose_stream_breaks_again_and_again_is_waited_for(void **state)
{
  world *w = *state;
  wait_for_letter(w);
  for (size_t i = 1; i <= 3; i++) {
    cutter_cut(w->c);
    await_wire(w, cutter_asked, "Last-Event-ID: p", i);
    await_wire(w, cutter_answered, "Perdure-Resumed: 1", 2 * i); /* the session's stream, too */
  }
  send_letter(w);
  expect_one_answer(w, "result");
}

static void bridge__notices_of_a_stream_that_is_cut_in_the_middle_come_once_each(void **state)
{
  world *w = *state;
  open_session(w);
  say(w, SUBSCRIBE("1", "subscribe", "plan"));
  await(w, "\"id\":1,\"result\":{}");
  cutter_cut_in(w->c, "notifications/resources/updated");
  set_plan(w, 1);
  await_wire(w, cutter_answered, "notifications/resources/updated", 1);
  assert_true(cutter_has_cut(w->c));
  cutter_aim(w->c, 0);
  set_plan(w, 2);
  set_plan(w, 3);
  cutter_aim(w->c, w->s->port);
  await_count(w, UPDATED, 3);
  set_plan(w, 4);
  await_count(w, UPDATED, 4);
  assert_int_equal(end(w), 0);
  assert_int_equal(count(w, UPDATED), 4);
  assert_true(cutter_asked(w->c, "Last-Event-ID: g") >= 1);
  assert_int_equal(cutter_asked(w->c, "resources/subscribe"), 1);
}

static void bridge__a_call_of_the_stateless_era_that_breaks_off_is_an_error_and_is_not_made_twice(void **state)
{
  world *w = *state;
  say(w, RECEIVE("," META));
  await_wire(w, cutter_answered, "text/event-stream", 1);
  cutter_cut(w->c);
  expect_one_answer(w, "error");
  assert_int_equal(cutter_asked(w->c, "Last-Event-ID"), 0);
  assert_int_equal(cutter_asked(w->c, "POST /mcp"), 1);
}

static void bridge__a_subscription_of_the_stateless_era_that_breaks_off_ends_with_an_error_and_can_be_made_again(void **state)
{
  static const char listen[] = "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":"
                               "{\"resourceSubscriptions\":[\"state://persistent/plan\"]}," META "}}";
  world *w = *state;
  for (int i = 1; i <= 2; i++) {
    char *line = text_of(listen, i), *error = text_of("\"id\":%d,\"error\"", i);
    say(w, line);
    await_count(w, "notifications/subscriptions/acknowledged", (size_t)i);
    set_plan(w, i);
    await_count(w, "notifications/resources/updated", (size_t)i);
    cutter_cut(w->c);
    await(w, error);
    free(line);
    free(error);
  }
  assert_int_equal(end(w), 0);
  assert_int_equal(count(w, "notifications/resources/updated"), 2);
}

/* ---- a server that comes back ---- */

static void bridge__a_call_that_a_killed_server_forgot_is_an_error_that_says_what_to_do(void **state)
{
  world *w = *state;
  wait_for_letter(w);
  come_back(w, SIGKILL);
  await(w, "\"id\":50,\"error\"");
  assert_int_equal(count(w, "make the request again"), 1);
  say(w, "{\"jsonrpc\":\"2.0\",\"id\":51,\"method\":\"tools/call\",\"params\":{\"name\":\"queue_count\",\"arguments\":{}}}");
  await(w, "\"id\":51,\"result\"");
  expect_one_answer(w, "error");
}

static void restart_and_expect_notices(void **state, int how)
{
  world *w = *state;
  open_session(w);
  say(w, SUBSCRIBE("1", "subscribe", "plan"));
  say(w, SUBSCRIBE("2", "subscribe", "other"));
  say(w, SUBSCRIBE("3", "unsubscribe", "other"));
  await(w, "\"id\":3,\"result\":{}");
  set_plan(w, 1);
  await_count(w, UPDATED, 1);
  come_back(w, how);
  await_count(w, UPDATED, 2); /* it may have changed meanwhile */
  set_plan(w, 2);
  await_count(w, UPDATED, 3);
  assert_int_equal(end(w), 0);
  assert_int_equal(count(w, UPDATED), 3);
  assert_int_equal(count(w, "\"id\":1,"), 1); /* who asked again was the bridge, and keeps the answer for itself */
  assert_int_equal(cutter_asked(w->c, "\"resources/subscribe\""), 3);
}

static void bridge__what_was_subscribed_to_outlives_a_restart_of_the_server(void **state)
{
  restart_and_expect_notices(state, SIGTERM);
}

static void bridge__what_was_subscribed_to_outlives_a_kill_of_the_server(void **state)
{
  restart_and_expect_notices(state, SIGKILL);
}

/* ---- ends ---- */

static void bridge__told_to_end_while_a_call_waits_it_answers_ends_the_session_and_leaves_no_call(void **state)
{
  world *w = *state;
  wait_for_letter(w);
  kill(w->pid, SIGTERM);
  assert_int_equal(hear_out(w), 0);
  assert_int_equal(count(w, "\"id\":50,\"error\""), 1);
  assert_int_equal(cutter_asked(w->c, "DELETE /mcp"), 1);
  expect_letter_is_left(w);
}

static void bridge__an_input_that_ends_while_a_call_waits_ends_it_all_within_moments(void **state)
{
  world *w = *state;
  wait_for_letter(w);
  int64_t since = now_ms();
  assert_int_equal(end(w), 0);
  assert_in_range(now_ms() - since, 1, 15000); /* the call would wait for 50 s */
  assert_int_equal(count(w, "\"id\":50,\"error\""), 1);
  assert_int_equal(cutter_asked(w->c, "DELETE /mcp"), 1);
  expect_letter_is_left(w);
}

static void bridge__an_input_that_ends_while_a_call_of_the_stateless_era_waits_ends_it_too(void **state)
{
  world *w = *state;
  say(w, RECEIVE("," META));
  await_wire(w, cutter_answered, "text/event-stream", 1);
  assert_int_equal(end(w), 0);
  assert_int_equal(count(w, "\"id\":50,\"error\""), 1);
}

static void bridge__a_reader_that_is_gone_ends_it_though_its_input_is_open(void **state)
{
  world *w = *state;
  wait_for_letter(w);
  close(w->out);
  w->out = -1;
  assert_int_equal(hear_out(w), 4);
  char *err = served_file(w->s, "bridge.err");
  assert_non_null(strstr(err, "nobody reads standard output"));
  free(err);
  assert_int_equal(cutter_asked(w->c, "DELETE /mcp"), 1);
  expect_letter_is_left(w);
}

#define BRIDGE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    BRIDGE_TEST(bridge__an_answer_that_is_cut_in_the_middle_is_resumed_and_comes_once),
    BRIDGE_TEST(bridge__a_call_whose_stream_breaks_again_and_again_is_waited_for),
    BRIDGE_TEST(bridge__notices_of_a_stream_that_is_cut_in_the_middle_come_once_each),
    BRIDGE_TEST(bridge__a_call_of_the_stateless_era_that_breaks_off_is_an_error_and_is_not_made_twice),
    BRIDGE_TEST(bridge__a_subscription_of_the_stateless_era_that_breaks_off_ends_with_an_error_and_can_be_made_again),
    BRIDGE_TEST(bridge__a_call_that_a_killed_server_forgot_is_an_error_that_says_what_to_do),
    BRIDGE_TEST(bridge__what_was_subscribed_to_outlives_a_restart_of_the_server),
    BRIDGE_TEST(bridge__what_was_subscribed_to_outlives_a_kill_of_the_server),
    BRIDGE_TEST(bridge__told_to_end_while_a_call_waits_it_answers_ends_the_session_and_leaves_no_call),
    BRIDGE_TEST(bridge__an_input_that_ends_while_a_call_waits_ends_it_all_within_moments),
    BRIDGE_TEST(bridge__an_input_that_ends_while_a_call_of_the_stateless_era_waits_ends_it_too),
    BRIDGE_TEST(bridge__a_reader_that_is_gone_ends_it_though_its_input_is_open),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  unsetenv("PERDURE_TOKEN");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
