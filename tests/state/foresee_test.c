/* foresee_test.c: what is approved is what was seen: names are resolved when approval is asked for, and nobody is asked in vain. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void set_policy(world *w, const char *text)
{
  char *path = text_of("%s/policy.toml", w->folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  free(path);
  if (pd_home_reload(w->home, &w->err)) fail_msg("%s", w->err.message);
}

static void rule(world *w, const char *capability)
{
  char *text = text_of("[[rule]]\ncapability = \"%s\"\npermission = \"approval\"\n", capability);
  set_policy(w, text);
  free(text);
}

static void operator_ok(world *w, const char *capability, const char *input)
{
  w->is_operator = true;
  world_ok(w, capability, input);
  w->is_operator = false;
}

static void put(world *w, const char *key, int value)
{
  world_okf(w, "state.persistent.set", "{\"key\":\"%s\",\"value\":%d}", key, value);
}

static void is_at(world *w, const char *key, int value)
{
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  world_okf(w, "state.persistent.get", "{\"key\":\"%s\"}", key);
  world_want(w, "value", text);
}

/* The commit that a point stands for now, as JSON. Freed by the caller. */
static char *commit_at(world *w, const char *at)
{
  world_okf(w, "history.show", "{\"at\":\"%s\"}", at);
  return strdup(world_out(w, "commit"));
}

static unsigned count_pending(world *w)
{
  world_ok(w, "approvals.list", "{}");
  return (unsigned)atoi(world_out(w, "count"));
}

/* The call asks; the input that names the approval. Freed by the caller. */
static char *ask(world *w, const char *capability, const char *input)
{
  world_fails(w, capability, input, "ApprovalRequired", "wait");
  return text_of("{\"approval_id\":%s}", world_out(w, "error.details.approval_id"));
}

static void approve(world *w, const char *capability, const char *input)
{
  char *named = ask(w, capability, input);
  operator_ok(w, "approvals.approve", named);
  free(named);
}

/* Three commits of `plan` on main. */
static void set_up(world *w)
{
  world_open(w, NULL);
  for (int i = 1; i <= 3; i++) put(w, "plan", i);
}

/* ---- what is bound ---- */

static void foresee__the_operator_is_shown_the_commits_that_names_stand_for(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  char *head = commit_at(&w, "main"), *target = commit_at(&w, "main~1"), *named = ask(&w, "history.reset", "{\"to\":\"main~1\"}");
  operator_ok(&w, "approvals.show", named);
  world_want(&w, "approval.input.to", "\"main~1\"");
  world_want(&w, "approval.resolved.to", target);
  world_want(&w, "approval.resolved.expected_head", head);
  operator_ok(&w, "approvals.approve", named);
  world_ok(&w, "history.reset", "{\"to\":\"main~1\"}");
  world_want(&w, "commit", target);
  is_at(&w, "plan", 2);
  free(head), free(target), free(named);
  world_close(&w);
}

/* F18: approved for one head, the reset would discard a commit that nobody reviewed. */
static void foresee__an_approved_call_is_refused_when_the_head_has_moved_and_then_asks_anew(void **state)
{
  (void)state;
  static const struct {
    const char *capability, *input;
  } cases[] = {
    {"history.reset", "{\"to\":\"main~1\"}"},    {"history.reset", "{\"to\":\"root\"}"},
    {"history.rollback", "{\"to\":\"main~1\"}"}, {"history.undo", "{}"},
    {"history.undo", "{\"count\":2}"},           {"history.merge", "{\"from\":\"fork/x\",\"policy\":\"theirs\"}"},
  };
  world w;
  set_up(&w);
  rule(&w, "history.*");
  w.is_operator = true;
  world_ok(&w, "history.fork", "{\"name\":\"x\",\"at\":\"main~1\"}");
  world_ok(&w, "history.commit", "{\"ref\":\"fork/x\",\"changes\":[{\"key\":\"plan\",\"value\":77}]}");
  w.is_operator = false;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    approve(&w, cases[i].capability, cases[i].input);
    put(&w, "unseen", (int)i);
    world_fails(&w, cases[i].capability, cases[i].input, "ApprovalStale", "retry");
    is_at(&w, "unseen", (int)i);
    is_at(&w, "plan", 3);
    assert_int_equal(count_pending(&w), 0);
    char *named = ask(&w, cases[i].capability, cases[i].input); /* for what there is now */
    operator_ok(&w, "approvals.deny", named);
    world_fails(&w, cases[i].capability, cases[i].input, "ApprovalDenied", NULL);
    free(named);
  }
  w.is_operator = true;
  world_ok(&w, "approvals.list", "{\"status\":\"expired\"}");
  world_want(&w, "count", "6");
  world_close(&w);
}

static void foresee__a_name_that_moved_since_does_not_change_what_was_approved(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  rule(&w, "history.rollback");
  world_ok(&w, "history.tag", "{\"name\":\"good\",\"at\":\"main~2\"}");
  char *seen = commit_at(&w, "good");
  approve(&w, "history.rollback", "{\"to\":\"good\"}");
  world_ok(&w, "history.tag", "{\"name\":\"good\",\"at\":\"main~1\",\"move\":true}");
  world_ok(&w, "history.rollback", "{\"to\":\"good\"}");
  is_at(&w, "plan", 1); /* as main~2 was, which was approved; main~1 had 2 */
  free(seen);
  world_close(&w);
}

static void foresee__a_merge_takes_what_was_approved_and_not_what_was_added_since(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  rule(&w, "history.merge");
  world_ok(&w, "history.fork", "{\"name\":\"x\"}");
  world_ok(&w, "history.commit", "{\"ref\":\"fork/x\",\"changes\":[{\"key\":\"seen\",\"value\":1}]}");
  put(&w, "own", 1); /* so that main does not just move forward, which binds its head */
  approve(&w, "history.merge", "{\"from\":\"fork/x\"}");
  world_ok(&w, "history.commit", "{\"ref\":\"fork/x\",\"changes\":[{\"key\":\"unseen\",\"value\":1}]}");
  put(&w, "other", 1); /* which a merge leaves alone: main may move */
  world_ok(&w, "history.merge", "{\"from\":\"fork/x\"}");
  is_at(&w, "seen", 1);
  world_ok(&w, "state.persistent.get", "{\"key\":\"unseen\"}");
  world_want(&w, "found", "false");
  world_close(&w);
}

static void foresee__a_fork_that_moved_is_not_dropped(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  rule(&w, "history.drop");
  world_ok(&w, "history.fork", "{\"name\":\"x\"}");
  approve(&w, "history.drop", "{\"name\":\"x\"}");
  world_ok(&w, "history.commit", "{\"ref\":\"fork/x\",\"changes\":[{\"key\":\"unseen\",\"value\":1}]}");
  world_fails(&w, "history.drop", "{\"name\":\"x\"}", "ApprovalStale", NULL);
  free(commit_at(&w, "fork/x"));
  approve(&w, "history.drop", "{\"name\":\"x\"}");
  world_ok(&w, "history.drop", "{\"name\":\"x\"}");
  world_close(&w);
}

static void append(world *w, int number)
{
  world_okf(w, "threads.append",
            "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\",\"role\":\"user\",\"content\":"
            "\"hi\"}]}",
            number);
}

static void foresee__a_thread_that_went_on_is_neither_deleted_nor_rewound(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"threads.delete", "{\"thread_id\":\"t\"}"},
    {"threads.rewind", "{\"thread_id\":\"t\",\"version\":1}"},
  };
  world w;
  world_open(&w, NULL);
  set_policy(&w, "[[rule]]\ncapability = \"threads.delete\"\npermission = \"approval\"\n"
                 "[[rule]]\ncapability = \"threads.rewind\"\npermission = \"approval\"\n");
  world_ok(&w, "threads.create", "{\"thread_id\":\"t\"}");
  append(&w, 1);
  append(&w, 2);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    approve(&w, cases[i][0], cases[i][1]);
    append(&w, 10 + (int)i);
    world_fails(&w, cases[i][0], cases[i][1], "ApprovalStale", NULL);
  }
  approve(&w, cases[1][0], cases[1][1]);
  world_ok(&w, cases[1][0], cases[1][1]);
  approve(&w, cases[0][0], cases[0][1]);
  world_ok(&w, cases[0][0], cases[0][1]);
  world_close(&w);
}

/* All stores move all the time: a restore is bound to the snapshot, and not to what it leaves, which stays as before-restore/ID. */
static void foresee__a_restore_is_bound_to_what_is_restored(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  operator_ok(&w, "state.snapshot.create", "{}");
  char *id = world_text(&w, "snapshot_id"), *input = text_of("{\"snapshot_id\":\"%s\",\"agent\":\"main\"}", id),
       *head = commit_at(&w, "main");
  char *named = ask(&w, "state.snapshot.restore", input);
  operator_ok(&w, "approvals.show", named);
  assert_int_equal(strlen(world_out(&w, "approval.resolved.snapshot_hash")), 66);
  world_want(&w, "approval.resolved.commit", head);
  operator_ok(&w, "approvals.approve", named);
  put(&w, "plan", 5);
  world_ok(&w, "state.snapshot.restore", input);
  is_at(&w, "plan", 3);
  free(id), free(input), free(head), free(named);
  world_close(&w);
}

/* What gc took does not come back: the approval is over, and the agent may ask for what there is. */
static void foresee__an_approval_for_what_gc_took_is_stale_and_does_not_block_the_call(void **state)
{
  (void)state;
  world w;
  pd_store *store;
  set_up(&w);
  rule(&w, "history.fork");
  approve(&w, "history.fork", "{\"name\":\"x\",\"at\":\"main\"}");
  for (int i = 0; i < 200; i++) put(&w, "plan", i); /* gc cuts no less than half */
  assert_int_equal(world_borrow(w.home, "main", true, &store, &w.err), PD_OK);
  assert_int_equal(pd_gc(store, &(pd_gc_policy){.keep_last = 1}, NULL, &w.err), PD_OK);
  pd_home_return(w.home, store);
  world_fails(&w, "history.fork", "{\"name\":\"x\",\"at\":\"main\"}", "ApprovalStale", "retry");
  approve(&w, "history.fork", "{\"name\":\"x\",\"at\":\"main\"}");
  world_ok(&w, "history.fork", "{\"name\":\"x\",\"at\":\"main\"}");
  world_close(&w);
}

/* ---- asked for again while it waits ---- */

static void foresee__a_request_for_what_is_no_more_is_replaced_by_one_for_what_is(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  char *first = ask(&w, "history.reset", "{\"to\":\"main~1\"}"), *same = ask(&w, "history.reset", "{\"to\":\"main~1\"}");
  assert_string_equal(first, same);
  put(&w, "plan", 4);
  char *second = ask(&w, "history.reset", "{\"to\":\"main~1\"}");
  assert_string_not_equal(first, second);
  assert_int_equal(count_pending(&w), 1);
  w.is_operator = true;
  world_fails(&w, "approvals.approve", first, "AlreadyDecided", NULL);
  w.is_operator = false;
  operator_ok(&w, "approvals.approve", second);
  world_ok(&w, "history.reset", "{\"to\":\"main~1\"}");
  is_at(&w, "plan", 3);
  free(first), free(same), free(second);
  world_close(&w);
}

/* ---- what policy asks for in the middle of a call ---- */

static void foresee__approval_for_a_key_inside_a_rollback_binds_the_head_as_well(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  set_policy(&w, "[[rule]]\ncapability = \"state.persistent.set\"\nprefix = \"plan\"\npermission = \"approval\"\n");
  world_ok(&w, "history.tag", "{\"name\":\"good\",\"at\":\"main~1\"}");
  approve(&w, "history.rollback", "{\"to\":\"good\"}");
  put(&w, "other", 1);
  world_fails(&w, "history.rollback", "{\"to\":\"good\"}", "ApprovalStale", NULL);
  is_at(&w, "plan", 3);
  is_at(&w, "other", 1);
  approve(&w, "history.rollback", "{\"to\":\"good\"}");
  world_ok(&w, "history.tag", "{\"name\":\"good\",\"at\":\"main~3\",\"move\":true}"); /* what was approved holds, not the name */
  world_ok(&w, "history.rollback", "{\"to\":\"good\"}");
  is_at(&w, "plan", 2);
  world_close(&w);
}

/* ---- nobody is asked in vain ---- */

static void foresee__what_cannot_succeed_is_answered_at_once_and_nobody_is_asked(void **state)
{
  (void)state;
  static const char *const cases[][3] = {
    {"history.reset", "{\"to\":\"nowhere\"}", "NotFound"},
    {"history.reset", "{\"to\":\"main~9\"}", "NotFound"},
    {"history.reset", "{\"to\":\"main\",\"ref\":\"fork/none\"}", "NotFound"},
    {"history.reset", "{\"to\":\"main~1\",\"ref\":\"thread/t\"}", "InvalidInput"},
    {"history.reset", "{\"to\":\"main~1\",\"expected_head\":\"0000000000000000000000000000000000000000000000000000000000000000\"}",
     "HeadMoved"},
    {"history.undo", "{\"count\":99}", "NotFound"},
    {"history.redo", "{}", "NothingToRedo"},
    {"history.merge", "{\"from\":\"fork/none\"}", "NotFound"},
    {"history.drop", "{\"name\":\"none\"}", "NotFound"},
    {"history.untag", "{\"name\":\"none\"}", "NotFound"},
    {"history.fork", "{\"name\":\"x\",\"at\":\"nowhere\"}", "NotFound"},
    {"state.snapshot.restore", "{\"snapshot_id\":\"snap-none\"}", "SnapshotNotFound"},
    {"state.backup.create", "{}", "VaultLocked"},
    {"state.backup.restore", "{\"backup_id\":\"bkp-none\"}", "BackupNotFound"},
    {"state.backup.export", "{\"backup_id\":\"bkp-none\",\"path\":\"/tmp/x\"}", "BackupNotFound"},
    {"threads.delete", "{\"thread_id\":\"none\"}", "NotFound"},
  };
  world w;
  set_up(&w);
  set_policy(
    &w,
    "[[rule]]\ncapability = \"history.*\"\npermission = \"approval\"\n[[rule]]\ncapability = \"threads.*\"\npermission = \"approval\"\n");
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    world_call(&w, cases[i][0], cases[i][1]);
    if (!w.err.name || strcmp(w.err.name, cases[i][2]) != 0) fail_msg("%s %s: %s", cases[i][0], cases[i][1], (const char *)w.out.data);
  }
  world_ok(&w, "approvals.list", "{\"status\":\"all\"}");
  world_want(&w, "count", "0");
  world_close(&w);
}

/* A rule for the reading of history hides what is read: a refusal before the approval would tell whether the key is there. */
static void foresee__a_read_that_is_asked_for_does_not_tell_whether_the_key_exists(void **state)
{
  (void)state;
  static const char *const reads[] = {"history.key", "history.blame", "history.prove", "history.get"};
  static const char *const keys[] = {"plan", "none", "deleted", "text"};
  char input[128], first[PD_ERROR_MESSAGE_MAX];
  world w;
  set_up(&w);
  put(&w, "deleted", 1);
  world_ok(&w, "state.persistent.delete", "{\"key\":\"deleted\"}");
  world_ok(&w, "state.persistent.set", "{\"key\":\"text\",\"value\":\"no object\"}");
  rule(&w, "history.*");
  for (size_t i = 0; i < COUNT_OF(reads); i++) {
    for (size_t k = 0; k < COUNT_OF(keys); k++) {
      snprintf(input, sizeof input, "{\"key\":\"%s\",\"at\":\"main\"}", keys[k]);
      world_fails(&w, reads[i], input, "ApprovalRequired", "wait");
      char *at = strstr(w.err.message, "apr-");
      assert_non_null(at);
      *at = 0; /* from the id on they differ */
      if (k) assert_string_equal(w.err.message, first);
      snprintf(first, sizeof first, "%s", w.err.message);
    }
  }
  assert_int_equal(count_pending(&w), COUNT_OF(reads) * COUNT_OF(keys));
  w.agent = "nobody"; /* who never wrote anything */
  world_fails(&w, "history.key", "{\"key\":\"none\"}", "ApprovalRequired", "wait");
  world_fails(&w, "history.blame", "{\"key\":\"none\"}", "ApprovalRequired", "wait");
  w.agent = "main";
  approve(&w, "history.key", "{\"key\":\"none\"}");
  world_call(&w, "history.key", "{\"key\":\"none\"}");
  assert_string_equal(w.err.name, "KeyNotFound");
  world_close(&w);
}

static void foresee__what_policy_refuses_anyway_is_not_asked_for(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  set_policy(&w, "[[rule]]\ncapability = \"state.persistent.set\"\nprefix = \"plan\"\npermission = \"blocked\"\n");
  world_fails(&w, "history.reset", "{\"to\":\"main~1\"}", "PermissionDenied", NULL);
  assert_int_equal(count_pending(&w), 0);
  world_close(&w);
}

static void foresee__foreseeing_changes_nothing(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"history.reset", "{\"to\":\"main~1\"}"},
    {"history.undo", "{}"},
    {"history.rollback", "{\"to\":\"main~1\"}"},
    {"history.merge", "{\"from\":\"fork/x\"}"},
    {"history.drop", "{\"name\":\"x\"}"},
    {"history.fork", "{\"name\":\"y\"}"},
    {"history.cherry_pick", "{\"at\":\"fork/x\"}"},
    {"history.revert", "{\"at\":\"main\"}"},
    {"history.tag", "{\"name\":\"t\"}"},
    {"history.pin", "{\"at\":\"main~1\"}"},
    {"history.untag", "{\"name\":\"old\"}"},
    {"history.get", "{\"key\":\"plan\",\"at\":\"main\"}"},
  };
  world w;
  set_up(&w);
  world_ok(&w, "history.fork", "{\"name\":\"x\"}");
  world_ok(&w, "history.commit", "{\"ref\":\"fork/x\",\"changes\":[{\"key\":\"seen\",\"value\":1}]}");
  world_ok(&w, "history.tag", "{\"name\":\"old\",\"at\":\"main~1\"}");
  rule(&w, "history.*");
  w.is_operator = true;
  world_ok(&w, "history.log", "{\"limit\":1000}");
  char *log = strdup((const char *)w.out.data);
  world_ok(&w, "history.refs", "{}");
  char *refs = strdup((const char *)w.out.data);
  world_ok(&w, "history.marks", "{}");
  char *marks = strdup((const char *)w.out.data);
  w.is_operator = false;
  for (size_t i = 0; i < COUNT_OF(cases); i++) world_fails(&w, cases[i][0], cases[i][1], "ApprovalRequired", "wait");
  w.is_operator = true;
  world_ok(&w, "history.log", "{\"limit\":1000}");
  assert_string_equal(log, (const char *)w.out.data);
  world_ok(&w, "history.refs", "{}");
  assert_string_equal(refs, (const char *)w.out.data);
  world_ok(&w, "history.marks", "{}");
  assert_string_equal(marks, (const char *)w.out.data);
  free(log), free(refs), free(marks);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(foresee__the_operator_is_shown_the_commits_that_names_stand_for),
    cmocka_unit_test(foresee__an_approved_call_is_refused_when_the_head_has_moved_and_then_asks_anew),
    cmocka_unit_test(foresee__a_name_that_moved_since_does_not_change_what_was_approved),
    cmocka_unit_test(foresee__a_merge_takes_what_was_approved_and_not_what_was_added_since),
    cmocka_unit_test(foresee__a_fork_that_moved_is_not_dropped),
    cmocka_unit_test(foresee__a_thread_that_went_on_is_neither_deleted_nor_rewound),
    cmocka_unit_test(foresee__a_restore_is_bound_to_what_is_restored),
    cmocka_unit_test(foresee__an_approval_for_what_gc_took_is_stale_and_does_not_block_the_call),
    cmocka_unit_test(foresee__a_request_for_what_is_no_more_is_replaced_by_one_for_what_is),
    cmocka_unit_test(foresee__approval_for_a_key_inside_a_rollback_binds_the_head_as_well),
    cmocka_unit_test(foresee__what_cannot_succeed_is_answered_at_once_and_nobody_is_asked),
    cmocka_unit_test(foresee__a_read_that_is_asked_for_does_not_tell_whether_the_key_exists),
    cmocka_unit_test(foresee__what_policy_refuses_anyway_is_not_asked_for),
    cmocka_unit_test(foresee__foreseeing_changes_nothing),
  };
  return cmocka_run_group_tests_name("foresee", tests, NULL, NULL);
}
