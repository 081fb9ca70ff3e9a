/* run_call_test.c: runs.begin to runs.tool_end and mailbox.*, whose calls keep nothing between two of them. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define T "{\"thread_id\":\"t\""

static int open_world(void **state)
{
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  world_open(w, NULL);
  world_ok(w, "threads.create", T "}");
  *state = w;
  return 0;
}

static int close_world(void **state)
{
  world_close(*state);
  free(*state);
  return 0;
}

static void begin(world *w, const char *run)
{
  char *input = text_of(T ",\"run_id\":\"%s\"}", run);
  world_ok(w, "runs.begin", input);
  free(input);
}

static void runs__a_run_goes_on_in_another_process(void **state)
{
  world *w = *state;
  begin(w, "r1");
  world_ok(w, "runs.tool_begin", T ",\"call_id\":\"c\",\"name\":\"mail\"}");
  world_restart(w);
  world_ok(w, "runs.status", T "}");
  assert_string_equal(world_out(w, "run_id"), "\"r1\"");
  assert_string_equal(world_out(w, "calls.0.status"), "\"running\"");
  world_ok(w, "runs.tool_end", T ",\"call_id\":\"c\",\"patches\":[{\"op\":\"set\",\"path\":\"/sent\",\"value\":true}]}");
  world_ok(w, "runs.finish", T ",\"messages\":[{\"id\":\"m9\"}]}");
  world_ok(w, "threads.state", T ",\"path\":\"/sent\"}");
  assert_string_equal(world_out(w, "state"), "true");
  world_ok(w, "runs.status", T ",\"run_id\":\"r1\"}");
  assert_string_equal(world_out(w, "done_reason"), "\"natural\"");
  world_ok(w, "threads.state", T "}");
  assert_null(strstr((const char *)w->out.data, "__tool_call_scope\":{\"c"));
}

static void runs__what_is_done_is_not_reopened(void **state)
{
  world *w = *state;
  begin(w, "r1");
  world_fails(w, "runs.begin", T ",\"run_id\":\"r2\"}", "RunActive", "finish");
  world_ok(w, "runs.finish", T ",\"done_reason\":\"stopped\"}");
  world_fails(w, "runs.begin", T ",\"run_id\":\"r1\"}", "RunExists", "choose");
  world_fails(w, "runs.finish", T ",\"run_id\":\"r1\"}", "RunDone", "begin");
  world_fails(w, "runs.checkpoint", T ",\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}]}", "RunDone", "begin");
  world_fails(w, "runs.status", T "}", "RunNotFound", "begin");
  world_ok(w, "runs.status", T ",\"run_id\":\"r1\"}");
  assert_string_equal(world_out(w, "done_reason"), "\"stopped\"");
}

static void runs__of_a_rewound_thread_are_not_active(void **state)
{
  world *w = *state;
  world_ok(w, "threads.append", T ",\"run_id\":\"r0\",\"reason\":\"UserMessage\"}");
  begin(w, "r1");
  world_ok(w, "threads.fork", T ",\"new_thread_id\":\"u\"}");
  world_fails(w, "runs.checkpoint", "{\"thread_id\":\"u\",\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}]}",
              "RunNotActive", "begin");
}

static void runs__patches_of_a_call_are_checked(void **state)
{
  world *w = *state;
  begin(w, "r1");
  world_ok(w, "runs.tool_begin", T ",\"call_id\":\"c\",\"name\":\"n\"}");
  world_fails(w, "runs.tool_end", T ",\"call_id\":\"c\",\"patches\":[{\"op\":\"set\",\"path\":\"/__run\",\"value\":1}]}", "ReservedPath",
              "correct");
  world_fails(w, "runs.tool_end", T ",\"call_id\":\"c\",\"patches\":[{\"op\":\"jump\",\"path\":\"/a\"}]}", "InvalidPatch", "correct");
  world_fails(w, "runs.tool_end", T ",\"call_id\":\"d\"}", "ToolCallNotFound", "look");
  world_fails(w, "runs.tool_end", T ",\"call_id\":\"c\",\"message\":{\"role\":\"tool\"}}", "InvalidChangeSet", "correct");
  world_ok(w, "runs.tool_suspend", T ",\"call_id\":\"c\"}");
  world_fails(w, "runs.tool_suspend", T ",\"call_id\":\"c\"}", "InvalidTransition", "look");
  world_ok(w, "runs.tool_resume", T ",\"call_id\":\"c\",\"decision_id\":\"d1\",\"is_cancel\":true}");
  world_ok(w, "runs.tool_begin", T ",\"call_id\":\"e\",\"name\":\"n\"}");
  world_ok(w, "runs.tool_suspend", T ",\"call_id\":\"e\"}");
  world_fails(w, "runs.tool_resume", T ",\"call_id\":\"e\",\"decision_id\":\"d1\"}", "DecisionUsed", "correct");
  world_ok(w, "runs.finish", T ",\"done_reason\":\"cancelled\"}");
}

/* The token of the letter that is claimed now; to be freed. */
static char *claim(world *w, const char *consumer)
{
  char *input = text_of(T ",\"consumer\":\"%s\",\"lease_seconds\":10}", consumer);
  world_ok(w, "mailbox.claim", input);
  free(input);
  return text_of("%s", world_out(w, "letters.0.token"));
}

static void mailbox__a_lease_that_ends_by_the_homes_clock_is_lost_to_the_next(void **state)
{
  world *w = *state;
  world_ok(w, "mailbox.send", T ",\"body\":1,\"attempts_max\":2}");
  char *first = claim(w, "a");
  world_ok(w, "mailbox.claim", T ",\"consumer\":\"b\"}");
  assert_string_equal(world_out(w, "letters"), "[]");
  assert_string_equal(world_out(w, "next_due_at"), "\"2026-11-15T10:00:10.000Z\"");
  w->now_ms += 11000;
  char *second = claim(w, "b");
  assert_string_not_equal(first, second);
  char *input = text_of(T ",\"number\":1,\"token\":%s}", first);
  world_fails(w, "mailbox.accept", input, "ClaimLost", "drop");
  world_fails(w, "mailbox.extend", input, "ClaimLost", "drop");
  world_fails(w, "mailbox.reject", input, "ClaimLost", "drop");
  free(input);
  input = text_of(T ",\"number\":1,\"token\":%s}", second);
  world_ok(w, "mailbox.extend", input);
  world_ok(w, "mailbox.reject", input);
  assert_string_equal(world_out(w, "status"), "\"dead_letter\"");
  world_fails(w, "mailbox.accept", input, "LetterDone", "drop");
  free(input);
  world_ok(w, "mailbox.requeue", T ",\"number\":1}");
  world_ok(w, "mailbox.cancel", T ",\"number\":1}");
  world_fails(w, "mailbox.requeue", T ",\"number\":1}", "LetterNotDead", "look");
  world_fails(w, "mailbox.cancel", T ",\"number\":2}", "LetterNotFound", "list");
  world_fails(w, "mailbox.send", T ",\"body\":1,\"not_before\":\"soon\"}", "InvalidTimestamp", "fix_format");
  free(first);
  free(second);
}

/* An answer of a list stops at 16 MiB; a claim must not: what it does not tell is lost until the lease ends. */
static void mailbox__a_claim_tells_every_letter_that_it_took(void **state)
{
  world *w = *state;
  size_t size = 1000000;
  char *body = malloc(size + 1);
  assert_non_null(body);
  memset(body, 'x', size);
  body[size] = 0;
  char *input = text_of(T ",\"body\":\"%s\"}", body);
  for (int i = 0; i < 20; i++) world_ok(w, "mailbox.send", input);
  world_ok(w, "mailbox.claim", T ",\"consumer\":\"a\",\"count\":20}");
  int tokens = 0;
  for (const char *at = (const char *)w->out.data; (at = strstr(at, "\"token\":\"")); at++) tokens++;
  assert_int_equal(tokens, 20);
  free(input);
  free(body);
}

static void mailbox__lists_in_pages_and_tells_no_tokens(void **state)
{
  world *w = *state;
  for (int i = 0; i < 5; i++) world_ok(w, "mailbox.send", T ",\"body\":{\"n\":1},\"priority\":-3}");
  free(claim(w, "a"));
  world_ok(w, "mailbox.list", T ",\"limit\":3}");
  assert_string_equal(world_out(w, "letters.2.number"), "3");
  assert_string_equal(world_out(w, "letters.0.priority"), "-3");
  assert_string_equal(world_out(w, "letters.0.token"), "");
  assert_string_equal(world_out(w, "letters.0.sender"), "\"main\"");
  assert_string_equal(world_out(w, "next_after"), "3");
  world_ok(w, "mailbox.list", T ",\"after\":3,\"status\":\"queued\"}");
  assert_string_equal(world_out(w, "letters.1.number"), "5");
  assert_string_equal(world_out(w, "next_after"), "null");
  world_ok(w, "mailbox.send", T ",\"body\":\"stop\",\"is_interrupt\":true}");
  assert_string_equal(world_out(w, "superseded"), "5");
  w->agent = "stranger";
  world_ok(w, "mailbox.list", T "}");
  assert_string_equal(world_out(w, "letters"), "[]");
  world_fails(w, "mailbox.cancel", T ",\"number\":6}", "LetterNotFound", "list");
}

/* ---- operations: the same call again, after an answer that was lost ---- */

static const char *paid(world *w)
{
  world_ok(w, "threads.state", T ",\"path\":\"/paid\"}");
  return world_out(w, "state");
}

#define PAY "\"patches\":[{\"op\":\"increment\",\"path\":\"/paid\",\"by\":100}]"

static void operations__a_checkpoint_that_is_repeated_counts_once(void **state)
{
  static const char once[] = T ",\"reason\":\"ToolResultsCommitted\",\"operation_id\":\"op-1\",\"messages\":[{\"id\":\"m1\"}]," PAY "}";
  world *w = *state;
  begin(w, "r1");
  world_ok(w, "runs.checkpoint", once);
  assert_string_equal(world_out(w, "version"), "2");
  assert_string_equal(world_out(w, "is_duplicate"), "false");
  world_ok(w, "runs.checkpoint", T ",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m2\"}]}");
  assert_string_equal(world_out(w, "is_duplicate"), ""); /* it named no operation */
  world_restart(w);
  world_ok(w, "runs.checkpoint", once);
  assert_string_equal(world_out(w, "version"), "2");
  assert_string_equal(world_out(w, "is_committed"), "true");
  assert_string_equal(world_out(w, "is_duplicate"), "true");
  assert_string_equal(paid(w), "100");
  world_ok(w, "runs.finish", T "}");
  world_ok(w, "runs.checkpoint", once); /* no run is active any more: it was done all the same */
  assert_string_equal(world_out(w, "is_duplicate"), "true");
  assert_string_equal(paid(w), "100");
}

static void operations__calls_of_tools_that_are_repeated_answer_as_the_first_time(void **state)
{
  static const char *const calls[][3] = {
    {"runs.tool_begin", T ",\"call_id\":\"c1\",\"name\":\"pay\",\"operation_id\":\"o1\"}", "\"running\""},
    {"runs.tool_suspend", T ",\"call_id\":\"c1\",\"request\":1,\"operation_id\":\"o2\"}", "\"suspended\""},
    {"runs.tool_resume", T ",\"call_id\":\"c1\",\"decision_id\":\"d\",\"operation_id\":\"o3\"}", ""},
    {"runs.tool_end", T ",\"call_id\":\"c1\",\"operation_id\":\"o4\"," PAY "}", "\"succeeded\""},
    {"runs.finish", T ",\"operation_id\":\"o5\",\"messages\":[{\"id\":\"last\"}]}", ""},
  };
  world *w = *state;
  char versions[COUNT_OF(calls)][24];
  begin(w, "r1");
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    world_ok(w, calls[i][0], calls[i][1]);
    assert_string_equal(world_out(w, "is_duplicate"), "false");
    snprintf(versions[i], sizeof versions[i], "%s", world_out(w, "version"));
    world_ok(w, calls[i][0], calls[i][1]);
    assert_string_equal(world_out(w, "is_duplicate"), "true");
    assert_string_equal(world_out(w, "version"), versions[i]);
    assert_string_equal(world_out(w, "status"), calls[i][2]);
  }
  begin(w, "r2");
  for (size_t i = 0; i < COUNT_OF(calls); i++) { /* and later, when another run is active */
    world_ok(w, calls[i][0], calls[i][1]);
    assert_string_equal(world_out(w, "version"), versions[i]);
  }
  assert_string_equal(paid(w), "100");
}

static void operations__an_append_that_is_repeated_counts_once_also_with_its_old_version(void **state)
{
  static const char once[] = T ",\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"expected_version\":0,\"operation_id\":\"a\","
                               "\"messages\":[{\"id\":\"m1\"},{\"id\":\"m1\"}]," PAY "}";
  world *w = *state;
  world_ok(w, "threads.append", once);
  char *first = strdup(world_out(w, "commit"));
  for (int i = 0; i < 3; i++) {
    world_ok(w, "threads.append", once);
    assert_string_equal(world_out(w, "version"), "1");
    assert_string_equal(world_out(w, "commit"), first);
    assert_string_equal(world_out(w, "messages_added"), "1");
    assert_string_equal(world_out(w, "messages_dropped"), "1");
    assert_string_equal(world_out(w, "is_duplicate"), "true");
  }
  assert_string_equal(paid(w), "100");
  free(first);
  world_ok(w, "threads.rewind", T ",\"version\":0}"); /* undone, so it can be done again */
  world_ok(w, "threads.append", once);
  assert_string_equal(world_out(w, "is_duplicate"), "false");
  assert_string_equal(paid(w), "100");
}

static void operations__an_id_for_two_different_calls_is_refused(void **state)
{
  world *w = *state;
  begin(w, "r1");
  world_ok(w, "runs.checkpoint", T ",\"reason\":\"UserMessage\",\"operation_id\":\"x\"," PAY "}");
  world_fails(w, "runs.checkpoint", T ",\"reason\":\"AssistantTurnCommitted\",\"operation_id\":\"x\"," PAY "}", "OperationUsed", "rename");
  world_fails(w, "threads.append", T ",\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"operation_id\":\"x\"," PAY "}", "OperationUsed",
              "rename");
  world_fails(w, "runs.tool_begin", T ",\"call_id\":\"c\",\"name\":\"n\",\"operation_id\":\"\"}", "InvalidInput", NULL);
  world_fails(w, "runs.tool_begin", T ",\"call_id\":\"c\",\"name\":\"n\",\"operation_id\":\"a\\nb\"}", "InvalidId", NULL);
  assert_string_equal(paid(w), "100");
}

static void operations__an_expected_version_that_is_not_there_is_refused(void **state)
{
  world *w = *state;
  begin(w, "r1");
  world_fails(w, "runs.tool_begin", T ",\"call_id\":\"c\",\"name\":\"n\",\"expected_version\":0}", "VersionConflict", "reload");
  world_ok(w, "runs.tool_begin", T ",\"call_id\":\"c\",\"name\":\"n\",\"expected_version\":1}");
  world_fails(w, "runs.tool_end", T ",\"call_id\":\"c\",\"expected_version\":1}", "VersionConflict", "reload");
  world_fails(w, "runs.finish", T ",\"done_reason\":\"stopped\",\"expected_version\":7}", "VersionConflict", "reload");
  world_ok(w, "runs.finish", T ",\"done_reason\":\"stopped\",\"expected_version\":2}");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(runs__a_run_goes_on_in_another_process, open_world, close_world),
    cmocka_unit_test_setup_teardown(runs__what_is_done_is_not_reopened, open_world, close_world),
    cmocka_unit_test_setup_teardown(runs__of_a_rewound_thread_are_not_active, open_world, close_world),
    cmocka_unit_test_setup_teardown(runs__patches_of_a_call_are_checked, open_world, close_world),
    cmocka_unit_test_setup_teardown(mailbox__a_lease_that_ends_by_the_homes_clock_is_lost_to_the_next, open_world, close_world),
    cmocka_unit_test_setup_teardown(mailbox__a_claim_tells_every_letter_that_it_took, open_world, close_world),
    cmocka_unit_test_setup_teardown(mailbox__lists_in_pages_and_tells_no_tokens, open_world, close_world),
    cmocka_unit_test_setup_teardown(operations__a_checkpoint_that_is_repeated_counts_once, open_world, close_world),
    cmocka_unit_test_setup_teardown(operations__calls_of_tools_that_are_repeated_answer_as_the_first_time, open_world, close_world),
    cmocka_unit_test_setup_teardown(operations__an_append_that_is_repeated_counts_once_also_with_its_old_version, open_world, close_world),
    cmocka_unit_test_setup_teardown(operations__an_id_for_two_different_calls_is_refused, open_world, close_world),
    cmocka_unit_test_setup_teardown(operations__an_expected_version_that_is_not_there_is_refused, open_world, close_world),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
