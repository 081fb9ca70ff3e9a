/*
 * thread_errors_test.c: every error that threads.*, runs.* (of a thread) and mailbox.* name, provoked one by one: the code, and what the
 * capability's file says can be done about it.
 */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- what has happened before ---- */

/* Scenes: each one a call, after the one before. */
static const struct {
  const char *name, *before, *capability, *input;
} scenes[] = {
  {"thread", NULL, "threads.create", "{\"thread_id\":\"t\"}"},
  {"run", "thread", "runs.begin", "{\"thread_id\":\"t\",\"run_id\":\"r1\"}"},
  {"done", "run", "runs.finish", "{\"thread_id\":\"t\"}"},
  {"forked", "run", "threads.fork", "{\"thread_id\":\"t\",\"new_thread_id\":\"u\"}"},
  {"call", "run", "runs.tool_begin", "{\"thread_id\":\"t\",\"call_id\":\"c\",\"name\":\"n\"}"},
  {"suspended", "call", "runs.tool_suspend", "{\"thread_id\":\"t\",\"call_id\":\"c\"}"},
  {"resumed", "suspended", "runs.tool_resume", "{\"thread_id\":\"t\",\"call_id\":\"c\",\"decision_id\":\"d\"}"},
  {"second call", "resumed", "runs.tool_begin", "{\"thread_id\":\"t\",\"call_id\":\"e\",\"name\":\"n\"}"},
  {"decided", "second call", "runs.tool_suspend", "{\"thread_id\":\"t\",\"call_id\":\"e\"}"},
  {"letter", NULL, "mailbox.send", "{\"thread_id\":\"t\",\"body\":1}"},
  {"claimed", "letter", "mailbox.claim", "{\"thread_id\":\"t\",\"consumer\":\"w\"}"},
  {"cancelled", "letter", "mailbox.cancel", "{\"thread_id\":\"t\",\"number\":1}"},
  {"interrupted", "letter", "mailbox.send", "{\"thread_id\":\"t\",\"body\":2,\"is_interrupt\":true}"},
  {"full", "letter", "mailbox.send", "{\"thread_id\":\"t\",\"body\":1}"}, /* a mailbox has two letters here */
};

static void play(world *w, const char *name)
{
  w->home->config.mailbox_count_max = 2;
  for (size_t i = 0; i < COUNT_OF(scenes); i++) {
    if (strcmp(scenes[i].name, name) != 0) continue;
    if (scenes[i].before) play(w, scenes[i].before);
    world_ok(w, scenes[i].capability, scenes[i].input);
    return;
  }
  fail_msg("there is no scene '%s'", name);
}

/* ---- the errors ---- */

#define FAILS(function, code, capability, before, input, action)                                                                           \
  static void function##__err_##code##__is_told(void **state)                                                                              \
  {                                                                                                                                        \
    play(*state, #before);                                                                                                                 \
    world_fails(*state, capability, input, #code, action);                                                                                 \
  }

FAILS(mailbox_accept, InvalidId, "mailbox.accept", thread,
      "{\"thread_id\":\"..x\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "correct")
FAILS(mailbox_accept, LetterNotFound, "mailbox.accept", thread,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "list")
FAILS(mailbox_accept, ClaimLost, "mailbox.accept", claimed,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "drop")
FAILS(mailbox_accept, LetterDone, "mailbox.accept", cancelled,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "drop")
FAILS(mailbox_cancel, InvalidId, "mailbox.cancel", thread, "{\"thread_id\":\"..x\",\"number\":1}", "correct")
FAILS(mailbox_cancel, LetterNotFound, "mailbox.cancel", thread, "{\"thread_id\":\"t\",\"number\":1}", "list")
FAILS(mailbox_cancel, LetterDone, "mailbox.cancel", interrupted, "{\"thread_id\":\"t\",\"number\":1}", "drop")
FAILS(mailbox_claim, InvalidId, "mailbox.claim", thread, "{\"thread_id\":\"..x\",\"consumer\":\"w\"}", "correct")
FAILS(mailbox_extend, InvalidId, "mailbox.extend", thread,
      "{\"thread_id\":\"..x\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "correct")
FAILS(mailbox_extend, LetterNotFound, "mailbox.extend", thread,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "list")
FAILS(mailbox_extend, ClaimLost, "mailbox.extend", claimed,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "drop")
FAILS(mailbox_extend, LetterDone, "mailbox.extend", cancelled,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "drop")
FAILS(mailbox_list, InvalidId, "mailbox.list", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(mailbox_reject, InvalidId, "mailbox.reject", thread,
      "{\"thread_id\":\"..x\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "correct")
FAILS(mailbox_reject, LetterNotFound, "mailbox.reject", thread,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "list")
FAILS(mailbox_reject, ClaimLost, "mailbox.reject", claimed,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "drop")
FAILS(mailbox_reject, LetterDone, "mailbox.reject", cancelled,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\"}", "drop")
FAILS(mailbox_reject, InvalidTimestamp, "mailbox.reject", thread,
      "{\"thread_id\":\"t\",\"number\":1,\"token\":\"00000000000000000000000000000000\",\"retry_at\":\"soon\"}", "fix_format")
FAILS(mailbox_requeue, InvalidId, "mailbox.requeue", thread, "{\"thread_id\":\"..x\",\"number\":1}", "correct")
FAILS(mailbox_requeue, LetterNotFound, "mailbox.requeue", thread, "{\"thread_id\":\"t\",\"number\":1}", "list")
FAILS(mailbox_requeue, LetterNotDead, "mailbox.requeue", letter, "{\"thread_id\":\"t\",\"number\":1}", "look")
FAILS(mailbox_send, InvalidId, "mailbox.send", thread, "{\"thread_id\":\"..x\",\"body\":1}", "correct")
FAILS(mailbox_send, MailboxFull, "mailbox.send", full, "{\"thread_id\":\"t\",\"body\":1}", "raise_limit")
FAILS(mailbox_send, InvalidTimestamp, "mailbox.send", thread, "{\"thread_id\":\"t\",\"body\":1,\"not_before\":\"soon\"}", "fix_format")
FAILS(runs_begin, NotFound, "runs.begin", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(runs_begin, InvalidId, "runs.begin", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(runs_begin, RunActive, "runs.begin", run, "{\"thread_id\":\"t\"}", "finish")
FAILS(runs_begin, RunExists, "runs.begin", done, "{\"thread_id\":\"t\",\"run_id\":\"r1\"}", "choose")
FAILS(runs_begin, InvalidChangeSet, "runs.begin", thread, "{\"thread_id\":\"t\",\"messages\":[{\"role\":\"user\"}]}", "correct")
FAILS(runs_checkpoint, NotFound, "runs.checkpoint", thread,
      "{\"thread_id\":\"none\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}]}", "create")
FAILS(runs_checkpoint, InvalidId, "runs.checkpoint", thread,
      "{\"thread_id\":\"..x\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}]}", "correct")
FAILS(runs_checkpoint, RunNotFound, "runs.checkpoint", thread,
      "{\"thread_id\":\"t\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}]}", "begin")
static void runs_checkpoint__err_RunDone__is_told(void **state)
{
  world *w = *state;
  play(w, "done");
  world_fails(w, "runs.checkpoint", "{\"thread_id\":\"t\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}],\"run_id\":\"r1\"}",
              "RunDone", "begin");
}

static void runs_checkpoint__err_RunNotActive__is_told(void **state)
{
  world *w = *state;
  play(w, "forked");
  world_fails(w, "runs.checkpoint", "{\"thread_id\":\"u\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}],\"run_id\":\"r1\"}",
              "RunNotActive", "begin");
}

static void runs_checkpoint__err_InvalidChangeSet__is_told(void **state)
{
  world *w = *state;
  play(w, "run");
  world_fails(w, "runs.checkpoint", "{\"thread_id\":\"t\",\"reason\":\"UserMessage\",\"messages\":[{\"role\":\"user\"}]}",
              "InvalidChangeSet", "correct");
}

static void runs_checkpoint__err_InvalidPatch__is_told(void **state)
{
  world *w = *state;
  play(w, "run");
  world_fails(
    w, "runs.checkpoint",
    "{\"thread_id\":\"t\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}],\"patches\":[{\"op\":\"jump\",\"path\":\"/a\"}]}",
    "InvalidPatch", "correct");
}

static void runs_checkpoint__err_ReservedPath__is_told(void **state)
{
  world *w = *state;
  play(w, "run");
  world_fails(w, "runs.checkpoint",
              "{\"thread_id\":\"t\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"x\"}],\"patches\":[{\"op\":\"set\",\"path\":\"/"
              "__run\",\"value\":1}]}",
              "ReservedPath", "correct");
}

FAILS(runs_finish, NotFound, "runs.finish", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(runs_finish, InvalidId, "runs.finish", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(runs_finish, RunNotFound, "runs.finish", thread, "{\"thread_id\":\"t\"}", "begin")
FAILS(runs_finish, RunDone, "runs.finish", done, "{\"thread_id\":\"t\",\"run_id\":\"r1\",\"done_reason\":\"error\"}", "begin")
FAILS(runs_finish, RunNotActive, "runs.finish", forked, "{\"thread_id\":\"u\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_finish, ToolCallsOpen, "runs.finish", call, "{\"thread_id\":\"t\"}", "settle")
FAILS(runs_finish, InvalidChangeSet, "runs.finish", run, "{\"thread_id\":\"t\",\"messages\":[{\"role\":\"user\"}]}", "correct")
FAILS(runs_finish, InvalidPatch, "runs.finish", run, "{\"thread_id\":\"t\",\"patches\":[{\"op\":\"jump\",\"path\":\"/a\"}]}", "correct")
FAILS(runs_finish, ReservedPath, "runs.finish", run, "{\"thread_id\":\"t\",\"patches\":[{\"op\":\"set\",\"path\":\"/__run\",\"value\":1}]}",
      "correct")
FAILS(runs_status, NotFound, "runs.status", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(runs_status, InvalidId, "runs.status", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(runs_status, RunNotFound, "runs.status", thread, "{\"thread_id\":\"t\"}", "begin")
FAILS(runs_status, RunNotActive, "runs.status", forked, "{\"thread_id\":\"u\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_begin, NotFound, "runs.tool_begin", thread, "{\"thread_id\":\"none\",\"call_id\":\"c\",\"name\":\"n\"}", "create")
FAILS(runs_tool_begin, InvalidId, "runs.tool_begin", thread, "{\"thread_id\":\"..x\",\"call_id\":\"c\",\"name\":\"n\"}", "correct")
FAILS(runs_tool_begin, RunNotFound, "runs.tool_begin", thread, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"name\":\"n\"}", "begin")
FAILS(runs_tool_begin, RunDone, "runs.tool_begin", done, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"name\":\"n\",\"run_id\":\"r1\"}",
      "begin")
FAILS(runs_tool_begin, RunNotActive, "runs.tool_begin", forked, "{\"thread_id\":\"u\",\"call_id\":\"c\",\"name\":\"n\",\"run_id\":\"r1\"}",
      "begin")
FAILS(runs_tool_begin, InvalidTransition, "runs.tool_begin", call, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"name\":\"n\"}", "look")
FAILS(runs_tool_end, NotFound, "runs.tool_end", thread, "{\"thread_id\":\"none\",\"call_id\":\"c\"}", "create")
FAILS(runs_tool_end, InvalidId, "runs.tool_end", thread, "{\"thread_id\":\"..x\",\"call_id\":\"c\"}", "correct")
FAILS(runs_tool_end, RunNotFound, "runs.tool_end", thread, "{\"thread_id\":\"t\",\"call_id\":\"c\"}", "begin")
FAILS(runs_tool_end, RunDone, "runs.tool_end", done, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_end, RunNotActive, "runs.tool_end", forked, "{\"thread_id\":\"u\",\"call_id\":\"c\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_end, ToolCallNotFound, "runs.tool_end", run, "{\"thread_id\":\"t\",\"call_id\":\"c\"}", "look")
FAILS(runs_tool_end, InvalidTransition, "runs.tool_end", suspended, "{\"thread_id\":\"t\",\"call_id\":\"c\"}", "look")
FAILS(runs_tool_end, InvalidChangeSet, "runs.tool_end", call, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"message\":{\"role\":\"tool\"}}",
      "correct")
FAILS(runs_tool_end, InvalidPatch, "runs.tool_end", call,
      "{\"thread_id\":\"t\",\"call_id\":\"c\",\"patches\":[{\"op\":\"jump\",\"path\":\"/a\"}]}", "correct")
static void runs_tool_end__err_ReservedPath__is_told(void **state)
{
  world *w = *state;
  play(w, "call");
  world_fails(w, "runs.tool_end", "{\"thread_id\":\"t\",\"call_id\":\"c\",\"patches\":[{\"op\":\"set\",\"path\":\"/__run\",\"value\":1}]}",
              "ReservedPath", "correct");
}

FAILS(runs_tool_resume, NotFound, "runs.tool_resume", thread, "{\"thread_id\":\"none\",\"call_id\":\"c\",\"decision_id\":\"d\"}", "create")
FAILS(runs_tool_resume, InvalidId, "runs.tool_resume", thread, "{\"thread_id\":\"..x\",\"call_id\":\"c\",\"decision_id\":\"d\"}", "correct")
FAILS(runs_tool_resume, RunNotFound, "runs.tool_resume", thread, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"decision_id\":\"d\"}", "begin")
FAILS(runs_tool_resume, RunDone, "runs.tool_resume", done,
      "{\"thread_id\":\"t\",\"call_id\":\"c\",\"decision_id\":\"d\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_resume, RunNotActive, "runs.tool_resume", forked,
      "{\"thread_id\":\"u\",\"call_id\":\"c\",\"decision_id\":\"d\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_resume, ToolCallNotFound, "runs.tool_resume", run, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"decision_id\":\"d\"}", "look")
FAILS(runs_tool_resume, InvalidTransition, "runs.tool_resume", call, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"decision_id\":\"d\"}",
      "look")
FAILS(runs_tool_resume, DecisionUsed, "runs.tool_resume", decided, "{\"thread_id\":\"t\",\"call_id\":\"e\",\"decision_id\":\"d\"}",
      "correct")
FAILS(runs_tool_suspend, NotFound, "runs.tool_suspend", thread, "{\"thread_id\":\"none\",\"call_id\":\"c\"}", "create")
FAILS(runs_tool_suspend, InvalidId, "runs.tool_suspend", thread, "{\"thread_id\":\"..x\",\"call_id\":\"c\"}", "correct")
FAILS(runs_tool_suspend, RunNotFound, "runs.tool_suspend", thread, "{\"thread_id\":\"t\",\"call_id\":\"c\"}", "begin")
FAILS(runs_tool_suspend, RunDone, "runs.tool_suspend", done, "{\"thread_id\":\"t\",\"call_id\":\"c\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_suspend, RunNotActive, "runs.tool_suspend", forked, "{\"thread_id\":\"u\",\"call_id\":\"c\",\"run_id\":\"r1\"}", "begin")
FAILS(runs_tool_suspend, ToolCallNotFound, "runs.tool_suspend", run, "{\"thread_id\":\"t\",\"call_id\":\"c\"}", "look")
FAILS(runs_tool_suspend, InvalidTransition, "runs.tool_suspend", suspended, "{\"thread_id\":\"t\",\"call_id\":\"c\"}", "look")
static void runs_tool_suspend__err_InvalidPatch__is_told(void **state)
{
  world *w = *state;
  play(w, "call");
  world_fails(w, "runs.tool_suspend", "{\"thread_id\":\"t\",\"call_id\":\"c\",\"patches\":[{\"op\":\"jump\",\"path\":\"/a\"}]}",
              "InvalidPatch", "correct");
}

FAILS(runs_tool_suspend, ReservedPath, "runs.tool_suspend", call,
      "{\"thread_id\":\"t\",\"call_id\":\"c\",\"patches\":[{\"op\":\"set\",\"path\":\"/__run\",\"value\":1}]}", "correct")
FAILS(threads_append, NotFound, "threads.append", thread, "{\"thread_id\":\"none\",\"run_id\":\"r\",\"reason\":\"UserMessage\"}", "create")
FAILS(threads_append, InvalidId, "threads.append", thread, "{\"thread_id\":\"..x\",\"run_id\":\"r\",\"reason\":\"UserMessage\"}", "correct")
static void threads_append__err_VersionConflict__is_told(void **state)
{
  world *w = *state;
  play(w, "thread");
  world_fails(w, "threads.append", "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"expected_version\":7}",
              "VersionConflict", "reload");
}

static void threads_append__err_InvalidChangeSet__is_told(void **state)
{
  world *w = *state;
  play(w, "thread");
  world_fails(w, "threads.append", "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"messages\":[{\"role\":\"user\"}]}",
              "InvalidChangeSet", "correct");
}

static void threads_append__err_InvalidPatch__is_told(void **state)
{
  world *w = *state;
  play(w, "thread");
  world_fails(w, "threads.append",
              "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"patches\":[{\"op\":\"jump\",\"path\":\"/a\"}]}",
              "InvalidPatch", "correct");
}

FAILS(threads_blame, NotFound, "threads.blame", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_blame, InvalidId, "threads.blame", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_blame, VersionNotFound, "threads.blame", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_blame, PathNotFound, "threads.blame", thread, "{\"thread_id\":\"t\",\"path\":\"/none\"}", "look")
FAILS(threads_create, AlreadyExists, "threads.create", thread, "{\"thread_id\":\"t\"}", "load")
FAILS(threads_create, InvalidId, "threads.create", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_create, NotFound, "threads.create", thread, "{\"thread_id\":\"u\",\"parent\":\"none\"}", "create")
FAILS(threads_delete, NotFound, "threads.delete", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_delete, InvalidId, "threads.delete", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_delete, VersionConflict, "threads.delete", thread, "{\"thread_id\":\"t\",\"expected_version\":7}", "reload")
FAILS(threads_deltas, NotFound, "threads.deltas", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_deltas, InvalidId, "threads.deltas", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_deltas, VersionNotFound, "threads.deltas", thread, "{\"thread_id\":\"t\",\"after_version\":9}", "list")
FAILS(threads_diff, NotFound, "threads.diff", thread, "{\"thread_id\":\"none\",\"from\":0}", "create")
FAILS(threads_diff, InvalidId, "threads.diff", thread, "{\"thread_id\":\"..x\",\"from\":0}", "correct")
FAILS(threads_diff, VersionNotFound, "threads.diff", thread, "{\"thread_id\":\"t\",\"from\":9}", "list")
FAILS(threads_fork, NotFound, "threads.fork", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_fork, AlreadyExists, "threads.fork", thread, "{\"thread_id\":\"t\",\"new_thread_id\":\"t\"}", "load")
FAILS(threads_fork, InvalidId, "threads.fork", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_fork, VersionNotFound, "threads.fork", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_list, InvalidTimestamp, "threads.list", thread, "{\"since\":\"soon\"}", "fix_format")
FAILS(threads_load, NotFound, "threads.load", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_load, InvalidId, "threads.load", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_load, VersionNotFound, "threads.load", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_messages, NotFound, "threads.messages", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_messages, InvalidId, "threads.messages", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_messages, VersionNotFound, "threads.messages", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_replay, NotFound, "threads.replay", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_replay, InvalidId, "threads.replay", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_rewind, NotFound, "threads.rewind", thread, "{\"thread_id\":\"none\",\"version\":0}", "create")
FAILS(threads_rewind, InvalidId, "threads.rewind", thread, "{\"thread_id\":\"..x\",\"version\":0}", "correct")
FAILS(threads_rewind, VersionNotFound, "threads.rewind", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_rewind, VersionConflict, "threads.rewind", thread, "{\"thread_id\":\"t\",\"version\":0,\"expected_version\":7}", "reload")
FAILS(threads_runs, NotFound, "threads.runs", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_runs, InvalidId, "threads.runs", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_runs, VersionNotFound, "threads.runs", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_state, NotFound, "threads.state", thread, "{\"thread_id\":\"none\"}", "create")
FAILS(threads_state, InvalidId, "threads.state", thread, "{\"thread_id\":\"..x\"}", "correct")
FAILS(threads_state, VersionNotFound, "threads.state", thread, "{\"thread_id\":\"t\",\"version\":9}", "list")
FAILS(threads_state, PathNotFound, "threads.state", thread, "{\"thread_id\":\"t\",\"path\":\"/none\"}", "look")
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(mailbox_accept__err_InvalidId__is_told),
    TEST(mailbox_accept__err_LetterNotFound__is_told),
    TEST(mailbox_accept__err_ClaimLost__is_told),
    TEST(mailbox_accept__err_LetterDone__is_told),
    TEST(mailbox_cancel__err_InvalidId__is_told),
    TEST(mailbox_cancel__err_LetterNotFound__is_told),
    TEST(mailbox_cancel__err_LetterDone__is_told),
    TEST(mailbox_claim__err_InvalidId__is_told),
    TEST(mailbox_extend__err_InvalidId__is_told),
    TEST(mailbox_extend__err_LetterNotFound__is_told),
    TEST(mailbox_extend__err_ClaimLost__is_told),
    TEST(mailbox_extend__err_LetterDone__is_told),
    TEST(mailbox_list__err_InvalidId__is_told),
    TEST(mailbox_reject__err_InvalidId__is_told),
    TEST(mailbox_reject__err_LetterNotFound__is_told),
    TEST(mailbox_reject__err_ClaimLost__is_told),
    TEST(mailbox_reject__err_LetterDone__is_told),
    TEST(mailbox_reject__err_InvalidTimestamp__is_told),
    TEST(mailbox_requeue__err_InvalidId__is_told),
    TEST(mailbox_requeue__err_LetterNotFound__is_told),
    TEST(mailbox_requeue__err_LetterNotDead__is_told),
    TEST(mailbox_send__err_InvalidId__is_told),
    TEST(mailbox_send__err_MailboxFull__is_told),
    TEST(mailbox_send__err_InvalidTimestamp__is_told),
    TEST(runs_begin__err_NotFound__is_told),
    TEST(runs_begin__err_InvalidId__is_told),
    TEST(runs_begin__err_RunActive__is_told),
    TEST(runs_begin__err_RunExists__is_told),
    TEST(runs_begin__err_InvalidChangeSet__is_told),
    TEST(runs_checkpoint__err_NotFound__is_told),
    TEST(runs_checkpoint__err_InvalidId__is_told),
    TEST(runs_checkpoint__err_RunNotFound__is_told),
    TEST(runs_checkpoint__err_RunDone__is_told),
    TEST(runs_checkpoint__err_RunNotActive__is_told),
    TEST(runs_checkpoint__err_InvalidChangeSet__is_told),
    TEST(runs_checkpoint__err_InvalidPatch__is_told),
    TEST(runs_checkpoint__err_ReservedPath__is_told),
    TEST(runs_finish__err_NotFound__is_told),
    TEST(runs_finish__err_InvalidId__is_told),
    TEST(runs_finish__err_RunNotFound__is_told),
    TEST(runs_finish__err_RunDone__is_told),
    TEST(runs_finish__err_RunNotActive__is_told),
    TEST(runs_finish__err_ToolCallsOpen__is_told),
    TEST(runs_finish__err_InvalidChangeSet__is_told),
    TEST(runs_finish__err_InvalidPatch__is_told),
    TEST(runs_finish__err_ReservedPath__is_told),
    TEST(runs_status__err_NotFound__is_told),
    TEST(runs_status__err_InvalidId__is_told),
    TEST(runs_status__err_RunNotFound__is_told),
    TEST(runs_status__err_RunNotActive__is_told),
    TEST(runs_tool_begin__err_NotFound__is_told),
    TEST(runs_tool_begin__err_InvalidId__is_told),
    TEST(runs_tool_begin__err_RunNotFound__is_told),
    TEST(runs_tool_begin__err_RunDone__is_told),
    TEST(runs_tool_begin__err_RunNotActive__is_told),
    TEST(runs_tool_begin__err_InvalidTransition__is_told),
    TEST(runs_tool_end__err_NotFound__is_told),
    TEST(runs_tool_end__err_InvalidId__is_told),
    TEST(runs_tool_end__err_RunNotFound__is_told),
    TEST(runs_tool_end__err_RunDone__is_told),
    TEST(runs_tool_end__err_RunNotActive__is_told),
    TEST(runs_tool_end__err_ToolCallNotFound__is_told),
    TEST(runs_tool_end__err_InvalidTransition__is_told),
    TEST(runs_tool_end__err_InvalidChangeSet__is_told),
    TEST(runs_tool_end__err_InvalidPatch__is_told),
    TEST(runs_tool_end__err_ReservedPath__is_told),
    TEST(runs_tool_resume__err_NotFound__is_told),
    TEST(runs_tool_resume__err_InvalidId__is_told),
    TEST(runs_tool_resume__err_RunNotFound__is_told),
    TEST(runs_tool_resume__err_RunDone__is_told),
    TEST(runs_tool_resume__err_RunNotActive__is_told),
    TEST(runs_tool_resume__err_ToolCallNotFound__is_told),
    TEST(runs_tool_resume__err_InvalidTransition__is_told),
    TEST(runs_tool_resume__err_DecisionUsed__is_told),
    TEST(runs_tool_suspend__err_NotFound__is_told),
    TEST(runs_tool_suspend__err_InvalidId__is_told),
    TEST(runs_tool_suspend__err_RunNotFound__is_told),
    TEST(runs_tool_suspend__err_RunDone__is_told),
    TEST(runs_tool_suspend__err_RunNotActive__is_told),
    TEST(runs_tool_suspend__err_ToolCallNotFound__is_told),
    TEST(runs_tool_suspend__err_InvalidTransition__is_told),
    TEST(runs_tool_suspend__err_InvalidPatch__is_told),
    TEST(runs_tool_suspend__err_ReservedPath__is_told),
    TEST(threads_append__err_NotFound__is_told),
    TEST(threads_append__err_InvalidId__is_told),
    TEST(threads_append__err_VersionConflict__is_told),
    TEST(threads_append__err_InvalidChangeSet__is_told),
    TEST(threads_append__err_InvalidPatch__is_told),
    TEST(threads_blame__err_NotFound__is_told),
    TEST(threads_blame__err_InvalidId__is_told),
    TEST(threads_blame__err_VersionNotFound__is_told),
    TEST(threads_blame__err_PathNotFound__is_told),
    TEST(threads_create__err_AlreadyExists__is_told),
    TEST(threads_create__err_InvalidId__is_told),
    TEST(threads_create__err_NotFound__is_told),
    TEST(threads_delete__err_NotFound__is_told),
    TEST(threads_delete__err_InvalidId__is_told),
    TEST(threads_delete__err_VersionConflict__is_told),
    TEST(threads_deltas__err_NotFound__is_told),
    TEST(threads_deltas__err_InvalidId__is_told),
    TEST(threads_deltas__err_VersionNotFound__is_told),
    TEST(threads_diff__err_NotFound__is_told),
    TEST(threads_diff__err_InvalidId__is_told),
    TEST(threads_diff__err_VersionNotFound__is_told),
    TEST(threads_fork__err_NotFound__is_told),
    TEST(threads_fork__err_AlreadyExists__is_told),
    TEST(threads_fork__err_InvalidId__is_told),
    TEST(threads_fork__err_VersionNotFound__is_told),
    TEST(threads_list__err_InvalidTimestamp__is_told),
    TEST(threads_load__err_NotFound__is_told),
    TEST(threads_load__err_InvalidId__is_told),
    TEST(threads_load__err_VersionNotFound__is_told),
    TEST(threads_messages__err_NotFound__is_told),
    TEST(threads_messages__err_InvalidId__is_told),
    TEST(threads_messages__err_VersionNotFound__is_told),
    TEST(threads_replay__err_NotFound__is_told),
    TEST(threads_replay__err_InvalidId__is_told),
    TEST(threads_rewind__err_NotFound__is_told),
    TEST(threads_rewind__err_InvalidId__is_told),
    TEST(threads_rewind__err_VersionNotFound__is_told),
    TEST(threads_rewind__err_VersionConflict__is_told),
    TEST(threads_runs__err_NotFound__is_told),
    TEST(threads_runs__err_InvalidId__is_told),
    TEST(threads_runs__err_VersionNotFound__is_told),
    TEST(threads_state__err_NotFound__is_told),
    TEST(threads_state__err_InvalidId__is_told),
    TEST(threads_state__err_VersionNotFound__is_told),
    TEST(threads_state__err_PathNotFound__is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
