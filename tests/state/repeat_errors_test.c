/* repeat_errors_test.c: the errors of operation ids, expected versions and quotas, of every capability that has them. */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define T "{\"thread_id\":\"t\","

/* A thread at version 2, with an active run, and operation x. */
static void prepare(world *w)
{
  world_ok(w, "threads.create", "{\"thread_id\":\"t\"}");
  world_ok(w, "runs.begin", T "\"run_id\":\"r1\"}");
  world_ok(w, "threads.append", T "\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"operation_id\":\"x\"}");
}

/* A JSON string of 5,000 letters. */
static const char *large(void)
{
  static char text[5003];
  memset(text, 'x', sizeof text - 1);
  text[0] = text[sizeof text - 2] = '"';
  return text;
}

/* The agent keeps more than it may. */
static void fill(world *w)
{
  prepare(w);
  world_restart(w);
  w->home->config.agent_quota_bytes = 1;
}

static void assert_full(world *w, const char *capability, const char *format)
{
  assert_int_equal(world_callf(w, capability, format, large()), PD_QUOTA);
  assert_string_equal(world_out(w, "error.code"), "\"QuotaExceeded\"");
  assert_string_equal(world_out(w, "error.details.limit"), "1");
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void runs_checkpoint__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.checkpoint", T "\"reason\":\"UserMessage\",\"operation_id\":\"x\",\"messages\":[{\"id\":\"big\",\"text\":1}]}",
              "OperationUsed", "rename");
}

static void runs_checkpoint__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.checkpoint", T "\"reason\":\"UserMessage\",\"expected_version\":1}", "VersionConflict", "reload");
}

static void runs_checkpoint__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.checkpoint", T "\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"big\",\"text\":%s}]}");
}

static void runs_finish__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.finish", T "\"done_reason\":\"stopped\",\"operation_id\":\"x\",\"messages\":[{\"id\":\"big\",\"text\":1}]}",
              "OperationUsed", "rename");
}

static void runs_finish__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.finish", T "\"done_reason\":\"stopped\",\"expected_version\":1}", "VersionConflict", "reload");
}

static void runs_finish__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.finish", T "\"done_reason\":\"stopped\",\"messages\":[{\"id\":\"big\",\"text\":%s}]}");
}

static void runs_tool_begin__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_begin", T "\"call_id\":\"c\",\"name\":\"n\",\"operation_id\":\"x\",\"arguments\":1}", "OperationUsed",
              "rename");
}

static void runs_tool_begin__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_begin", T "\"call_id\":\"c\",\"name\":\"n\",\"expected_version\":1}", "VersionConflict", "reload");
}

static void runs_tool_begin__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.tool_begin", T "\"call_id\":\"c\",\"name\":\"n\",\"arguments\":%s}");
}

static void runs_tool_suspend__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_suspend", T "\"call_id\":\"c\",\"operation_id\":\"x\",\"request\":1}", "OperationUsed", "rename");
}

static void runs_tool_suspend__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_suspend", T "\"call_id\":\"c\",\"expected_version\":1}", "VersionConflict", "reload");
}

static void runs_tool_suspend__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.tool_suspend", T "\"call_id\":\"c\",\"request\":%s}");
}

static void runs_tool_resume__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_resume", T "\"call_id\":\"c\",\"decision_id\":\"d\",\"operation_id\":\"x\",\"payload\":1}", "OperationUsed",
              "rename");
}

static void runs_tool_resume__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_resume", T "\"call_id\":\"c\",\"decision_id\":\"d\",\"expected_version\":1}", "VersionConflict", "reload");
}

static void runs_tool_resume__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.tool_resume", T "\"call_id\":\"c\",\"decision_id\":\"d\",\"payload\":%s}");
}

static void runs_tool_end__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_end", T "\"call_id\":\"c\",\"operation_id\":\"x\",\"message\":{\"id\":\"big\",\"text\":1}}", "OperationUsed",
              "rename");
}

static void runs_tool_end__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "runs.tool_end", T "\"call_id\":\"c\",\"expected_version\":1}", "VersionConflict", "reload");
}

static void runs_tool_end__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.tool_end", T "\"call_id\":\"c\",\"message\":{\"id\":\"big\",\"text\":%s}}");
}

static void threads_append__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  prepare(w);
  world_fails(w, "threads.append",
              T "\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"operation_id\":\"x\",\"messages\":[{\"id\":\"big\",\"text\":1}]}",
              "OperationUsed", "rename");
}

static void threads_append__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "threads.append", T "\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"big\",\"text\":%s}]}");
}

static void runs_begin__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "runs.begin", T "\"run_id\":\"r2\",\"meta\":{\"text\":%s}}");
}

static void threads_create__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "threads.create", "{\"thread_id\":\"u\",\"state\":{\"text\":%s}}");
}

static void threads_fork__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "threads.fork", T "\"new_thread_id\":\"u\",\"meta\":{\"text\":%s}}");
}

static void mailbox_send__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  fill(w);
  assert_full(w, "mailbox.send", T "\"body\":%s}");
}

static void queue_send__err_OperationUsed__is_told(void **state)
{
  world *w = *state;
  world_ok(w, "queue.send", "{\"to\":\"bob\",\"body\":1,\"operation_id\":\"x\"}");
  world_fails(w, "queue.send", "{\"to\":\"bob\",\"body\":2,\"operation_id\":\"x\"}", "OperationUsed", "rename");
  world_fails(w, "queue.send", "{\"to\":\"bob\",\"body\":2,\"operation_id\":\"a/b\"}", "InvalidInput", NULL);
  world_fails(w, "queue.send", "{\"to\":\"bob\",\"body\":2,\"operation_id\":\"a\\u0001b\"}", "InvalidInput", NULL);
}

static void queue_send__err_QuotaExceeded__is_told(void **state)
{
  world *w = *state;
  w->home->config.queue_sender_bytes_max = 1;
  assert_full(w, "queue.send", "{\"to\":\"nobody\",\"body\":%s}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(runs_checkpoint__err_OperationUsed__is_told),     TEST(runs_checkpoint__err_VersionConflict__is_told),
    TEST(runs_checkpoint__err_QuotaExceeded__is_told),     TEST(runs_finish__err_OperationUsed__is_told),
    TEST(runs_finish__err_VersionConflict__is_told),       TEST(runs_finish__err_QuotaExceeded__is_told),
    TEST(runs_tool_begin__err_OperationUsed__is_told),     TEST(runs_tool_begin__err_VersionConflict__is_told),
    TEST(runs_tool_begin__err_QuotaExceeded__is_told),     TEST(runs_tool_suspend__err_OperationUsed__is_told),
    TEST(runs_tool_suspend__err_VersionConflict__is_told), TEST(runs_tool_suspend__err_QuotaExceeded__is_told),
    TEST(runs_tool_resume__err_OperationUsed__is_told),    TEST(runs_tool_resume__err_VersionConflict__is_told),
    TEST(runs_tool_resume__err_QuotaExceeded__is_told),    TEST(runs_tool_end__err_OperationUsed__is_told),
    TEST(runs_tool_end__err_VersionConflict__is_told),     TEST(runs_tool_end__err_QuotaExceeded__is_told),
    TEST(threads_append__err_OperationUsed__is_told),      TEST(threads_append__err_QuotaExceeded__is_told),
    TEST(runs_begin__err_QuotaExceeded__is_told),          TEST(threads_create__err_QuotaExceeded__is_told),
    TEST(threads_fork__err_QuotaExceeded__is_told),        TEST(mailbox_send__err_QuotaExceeded__is_told),
    TEST(queue_send__err_OperationUsed__is_told),          TEST(queue_send__err_QuotaExceeded__is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
