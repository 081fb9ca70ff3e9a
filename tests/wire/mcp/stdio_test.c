/* stdio_test.c: MCP over pipes: the order of what is quick, and what is slow beside it; cancelling; the end of the input. */
#include "wire/mcp_stdio.h"

#include "base/base.h"
#include "base/clock.h"
#include "wire/mcp/mcp_world.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct talk {
  mcp_world m;
  pthread_t thread;
  int in[2], out[2];
  FILE *answers;
  pd_code code;
  char line[65536];
} talk;

static void *serve(void *ctx)
{
  talk *t = ctx;
  pd_error err = {0};
  pd_mcp_peer peer = {.agent = "main", .may_approve = true};
  t->code = pd_mcp_stdio(t->m.mcp, &peer, t->in[0], t->out[1], &err);
  close(t->out[1]);
  return NULL;
}

static void begin(talk *t)
{
  mcp_open(&t->m, NULL, NULL);
  assert_int_equal(pipe(t->in), 0);
  assert_int_equal(pipe(t->out), 0);
  t->answers = fdopen(t->out[0], "r");
  assert_int_equal(pthread_create(&t->thread, NULL, serve, t), 0);
}

static void say(talk *t, const char *fmt, ...)
{
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  int size = vasprintf(&text, fmt, args);
  va_end(args);
  if (size < 0) abort();
  text[size] = '\n'; /* its NUL */
  assert_int_equal(write(t->in[1], text, (size_t)size + 1), size + 1);
  free(text);
}

static void call(talk *t, int id, const char *tool, const char *arguments)
{
  say(t, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}", id, tool, arguments);
}

/* The next answer; its id. 0 at the end. */
static int next(talk *t)
{
  if (!fgets(t->line, sizeof t->line, t->answers)) return 0;
  return atoi(mcp_member(&t->m, t->line, "id"));
}

/* Close the input and read the rest; how long it took. */
static int64_t finish(talk *t)
{
  int64_t begun_ms = pd_clock_monotonic_ms();
  close(t->in[1]);
  while (next(t)) continue;
  pthread_join(t->thread, NULL);
  fclose(t->answers);
  close(t->in[0]);
  assert_int_equal(t->code, PD_OK);
  mcp_close(&t->m);
  return pd_clock_monotonic_ms() - begun_ms;
}

#define WAIT "{\"wait_ms\":60000}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}"
#define CANCEL "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}"

/* All of them answered; in order? */
static bool is_in_order(void)
{
  talk t;
  bool is = true;
  begin(&t);
  for (int i = 1; i <= 200; i += 2) {
    call(&t, i, "state_session_set", "{\"key\":\"k\",\"value\":1}");
    call(&t, i + 1, "state_session_get", "{\"key\":\"k\"}");
  }
  for (int i = 1; i <= 200; i++) {
    int id = next(&t);
    assert_in_range(id, 1, 200);
    is = is && id == i;
  }
  finish(&t);
  return is;
}

static void stdio__what_is_quick_is_answered_in_the_order_it_was_asked(void **state)
{
  (void)state;
  bool is = false;
  for (int i = 0; i < 5 && !is; i++) is = is_in_order(); /* a machine that stops for a moment makes one slow, which is overtaken */
  assert_true(is);
}

static void stdio__who_waits_blocks_neither_pings_nor_other_calls(void **state)
{
  (void)state;
  talk t;
  begin(&t);
  int64_t begun_ms = pd_clock_monotonic_ms();
  for (int i = 1; i <= 5; i++) call(&t, i, "queue_receive", WAIT);
  call(&t, 10, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  say(&t, PING, 11);
  int quick = next(&t), other = next(&t); /* at once; who of the two is the first is the machine's choice */
  assert_true((quick == 11 && other == 10) || (quick == 10 && other == 11));
  call(&t, 12, "queue_send", "{\"to\":\"main\",\"body\":1}");
  int first = next(&t), second = next(&t); /* the letter is at one of the five */
  assert_true((first == 12) != (second == 12));
  assert_true((first >= 1 && first <= 5) || (second >= 1 && second <= 5));
  assert_true(pd_clock_monotonic_ms() - begun_ms < 50000);
  assert_true(finish(&t) < 50000); /* the other four give up when the input ends */
}

static void stdio__a_wait_that_is_cancelled_ends_and_is_not_answered(void **state)
{
  (void)state;
  talk t;
  begin(&t);
  call(&t, 1, "queue_receive", WAIT);
  say(&t, PING, 2);
  assert_int_equal(next(&t), 2);
  say(&t, CANCEL, 1);
  call(&t, 3, "queue_send", "{\"to\":\"main\",\"body\":\"for the living\"}"); /* after the cancellation: the wait must not take it */
  assert_int_equal(next(&t), 3);
  call(&t, 4, "queue_receive", "{}");
  assert_int_equal(next(&t), 4);
  assert_string_equal(mcp_member(&t.m, t.line, "result.structuredContent.count"), "1");
  assert_string_equal(mcp_member(&t.m, t.line, "result.structuredContent.messages.0.deliveries"), "1");
  finish(&t);
}

static void stdio__what_was_cancelled_before_its_turn_does_not_run(void **state)
{
  (void)state;
  talk t;
  begin(&t);
  for (int i = 1; i <= 40; i++) call(&t, i, "queue_receive", WAIT); /* more than run at once */
  call(&t, 50, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  say(&t, CANCEL, 50);
  for (int i = 1; i <= 40; i++) say(&t, CANCEL, i);
  call(&t, 51, "state_persistent_get", "{\"key\":\"k\"}");
  assert_int_equal(next(&t), 51);
  assert_string_equal(mcp_member(&t.m, t.line, "result.structuredContent.found"), "false");
  assert_true(finish(&t) < 50000);
}

static void stdio__when_the_input_ends_all_that_was_asked_is_answered(void **state)
{
  (void)state;
  talk t;
  int seen = 0;
  begin(&t);
  for (int i = 1; i <= 50; i++) call(&t, i, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  say(&t, "{\"jsonrpc\":\"2.0\",\"id\":51,\"method\":\"ping\"}\n\r\n\n{bad");
  close(t.in[1]);
  while (fgets(t.line, sizeof t.line, t.answers)) seen++;
  assert_int_equal(seen, 52); /* blank lines are none; what is no JSON is told */
  pthread_join(t.thread, NULL);
  fclose(t.answers);
  close(t.in[0]);
  mcp_close(&t.m);
}

static void stdio__a_reader_that_goes_away_ends_it_with_an_error(void **state)
{
  (void)state;
  talk t;
  begin(&t);
  fclose(t.answers);
  signal(SIGPIPE, SIG_IGN);
  call(&t, 1, "state_persistent_get", "{\"key\":\"k\"}");
  pthread_join(t.thread, NULL); /* by itself: nobody hears it any more */
  assert_int_equal(t.code, PD_STORAGE);
  close(t.in[0]);
  close(t.in[1]);
  mcp_close(&t.m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(stdio__what_is_quick_is_answered_in_the_order_it_was_asked),
    cmocka_unit_test(stdio__who_waits_blocks_neither_pings_nor_other_calls),
    cmocka_unit_test(stdio__a_wait_that_is_cancelled_ends_and_is_not_answered),
    cmocka_unit_test(stdio__what_was_cancelled_before_its_turn_does_not_run),
    cmocka_unit_test(stdio__when_the_input_ends_all_that_was_asked_is_answered),
    cmocka_unit_test(stdio__a_reader_that_goes_away_ends_it_with_an_error),
  };
  return cmocka_run_group_tests_name("stdio", tests, NULL, NULL);
}
