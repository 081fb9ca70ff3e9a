/*
 * history_write_test.c: history.commit, undo, redo, reset, rollback, fork, drop, merge, cherry_pick, revert, tag, pin: and that none of
 * them is a way around what the other tiers promise: quotas, deletion for good, policy and approvals, threads and work.
 */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECRET "s3cr3t-41d0"

static void set(world *w, const char *key, const char *json)
{
  world_okf(w, "state.persistent.set", "{\"key\":\"%s\",\"value\":%s}", key, json);
  w->now_ms += 1000;
}

static void want_value(world *w, const char *key, const char *json)
{
  world_okf(w, "state.persistent.get", "{\"key\":\"%s\"}", key);
  world_want(w, "value", json);
}

static char *head_of(world *w, const char *ref)
{
  world_okf(w, "history.show", "{\"at\":\"%s\"}", ref);
  return world_text(w, "commit");
}

static void set_policy(world *w, const char *rules)
{
  char *path = text_of("%s/policy.toml", w->folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(rules, f);
  assert_int_equal(fclose(f), 0);
  free(path);
  assert_int_equal(pd_home_reload(w->home, &w->err), PD_OK);
}

/* Nothing of the agent's history, at whatever commit, has the secret. */
static void want_no_secret(world *w)
{
  for (int seq = 1; seq < 40; seq++) {
    (void)!world_callf(w, "history.list", "{\"at\":\"#%d\",\"values\":true}", seq);
    if (strstr((const char *)w->out.data, SECRET)) fail_msg("record %d still has it: %s", seq, (const char *)w->out.data);
  }
}

/* What list counts is what the quota counts. */
static void want_counted(world *w)
{
  world_ok(w, "state.persistent.list", "{}");
  char *listed = text_of("%s", world_out(w, "total_size_bytes"));
  world_ok(w, "history.stats", "{}");
  world_want(w, "state_bytes", listed);
  free(listed);
}

/* ---- moving ---- */

static void history_undo__takes_all_keys_back_and_redo_brings_them_again(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  set(w, "plan", "22");
  set(w, "new", "333");
  world_ok(w, "history.undo", "{\"count\":2}");
  world_want(w, "changed", "2");
  world_want(w, "can_redo", "true");
  want_value(w, "plan", "1");
  want_value(w, "new", "null");
  want_counted(w);
  world_ok(w, "history.redo", "{}");
  world_want(w, "can_redo", "true");
  want_value(w, "plan", "22");
  want_value(w, "new", "null");
  world_ok(w, "history.redo", "{}");
  world_want(w, "can_redo", "false");
  want_value(w, "new", "333");
  want_counted(w);
  world_fails(w, "history.redo", "{}", "NothingToRedo", "log");
  world_ok(w, "history.undo", "{}");
  set(w, "plan", "4"); /* then there is no way forward */
  world_fails(w, "history.redo", "{}", "NothingToRedo", "log");
  world_ok(w, "state.persistent.history", "{\"key\":\"plan\"}");
  world_want(w, "versions.0.value", "4");
  world_want(w, "versions.0.version", "3");
  world_want(w, "versions.1.value", "22");
  world_ok(w, "history.verify", "{}");
  world_want(w, "ok", "true");
}

static void history_undo__to_the_beginning_and_back(void **state)
{
  world *w = *state;
  set(w, "a", "1");
  set(w, "b", "2");
  world_ok(w, "history.undo", "{\"count\":2}");
  world_ok(w, "state.persistent.list", "{}");
  world_want(w, "count", "0");
  want_counted(w);
  world_fails(w, "history.undo", "{}", "NotFound", "list");
  world_ok(w, "history.redo", "{\"count\":2}");
  want_value(w, "b", "2");
  want_counted(w);
}

static void history_reset__runs_once_when_the_operator_has_approved_this_very_call(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  set(w, "plan", "2");
  world_fails(w, "history.reset", "{\"to\":\"main~1\"}", "ApprovalRequired", "wait");
  char *id = world_text(w, "error.details.approval_id");
  want_value(w, "plan", "2");
  w->is_operator = true;
  world_okf(w, "approvals.approve", "{\"approval_id\":\"%s\"}", id);
  w->is_operator = false;
  world_fails(w, "history.reset", "{\"to\":\"root\"}", "ApprovalRequired", "wait"); /* another call is another matter */
  world_ok(w, "history.reset", "{\"to\":\"main~1\"}");
  want_value(w, "plan", "1");
  world_fails(w, "history.reset", "{\"to\":\"main~1\"}", "ApprovalRequired", "wait");
  free(id);
}

static void history__expected_head_binds_a_write_to_what_was_seen(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  char *head = head_of(w, "main");
  world_okf(w, "history.commit", "{\"changes\":[{\"key\":\"plan\",\"value\":2}],\"expected_head\":\"%s\"}", head);
  assert_int_equal(world_callf(w, "history.undo", "{\"expected_head\":\"%s\"}", head), PD_CONFLICT);
  want_value(w, "plan", "2");
  free(head);
  head = head_of(w, "main");
  world_okf(w, "history.undo", "{\"expected_head\":\"%s\"}", head);
  want_value(w, "plan", "1");
  world_fails(w, "history.undo", "{\"expected_head\":\"zz34567890123456789012345678901234567890123456789012345678901234\"}", "InvalidInput",
              "correct");
  free(head);
}

static void history_rollback__is_a_commit_and_leaves_other_keys_and_what_was_erased(void **state)
{
  world *w = *state;
  set(w, "drafts/a", "1");
  set(w, "drafts/gone", "\"" SECRET "\"");
  set(w, "plan", "1");
  char *then = head_of(w, "main");
  set(w, "drafts/a", "2");
  set(w, "drafts/new", "3");
  set(w, "plan", "2");
  world_ok(w, "state.persistent.delete", "{\"key\":\"drafts/gone\"}");
  world_okf(w, "history.rollback", "{\"to\":\"%s\",\"prefix\":\"drafts/\",\"reason\":\"they were better\"}", then);
  world_want(w, "changed", "2");
  world_want(w, "skipped", "[\"drafts/gone\"]");
  want_value(w, "drafts/a", "1");
  want_value(w, "drafts/new", "null");
  want_value(w, "plan", "2");
  want_counted(w);
  world_ok(w, "history.show", "{}");
  world_want(w, "reason", "\"they were better\"");
  world_ok(w, "state.persistent.history", "{\"key\":\"drafts/a\"}");
  world_want(w, "versions.0.version", "3");
  world_okf(w, "history.rollback", "{\"to\":\"%s\",\"prefix\":\"drafts/\"}", then); /* nothing differs that could be brought back */
  world_want(w, "changed", "0");
  want_no_secret(w);
  free(then);
}

/* ---- commit ---- */

static void history_commit__is_all_or_nothing(void **state)
{
  world *w = *state;
  set(w, "a", "1");
  set(w, "b", "1");
  world_ok(w, "history.commit",
           "{\"changes\":[{\"key\":\"a\",\"delete\":true},{\"key\":\"b\",\"value\":[ 1, 2 ]},{\"key\":\"c\",\"value\":null}]}");
  world_want(w, "changed", "3");
  want_value(w, "a", "null");
  want_value(w, "b", "[1,2]");
  static const char *const bad[] = {
    "{\"changes\":[]}",
    "{\"changes\":[1]}",
    "{\"changes\":[{\"key\":\"k\"}]}",
    "{\"changes\":[{\"value\":1}]}",
    "{\"changes\":[{\"key\":\"\",\"value\":1}]}",
    "{\"changes\":[{\"key\":\"a\\nb\",\"value\":1}]}",
    "{\"changes\":[{\"key\":7,\"value\":1}]}",
    "{\"changes\":[{\"key\":\"k\",\"value\":1,\"delete\":true}]}",
    "{\"changes\":[{\"key\":\"k\",\"delete\":false}]}",
    "{\"changes\":[{\"key\":\"k\",\"delete\":\"yes\"}]}",
    "{\"changes\":[{\"key\":\"k\",\"value\":1,\"expected_version\":-1}]}",
    "{\"changes\":[{\"key\":\"k\",\"value\":1,\"more\":1}]}",
    "{\"changes\":[{\"key\":\"k\",\"value\":1},{\"key\":\"k\",\"value\":2}]}",
    "{\"changes\":[{\"key\":\"k\",\"value\":1}],\"ref\":\"thread/t\"}",
    "{\"changes\":[{\"key\":\"k\",\"value\":1}],\"ref\":\"other\"}",
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) world_fails(w, "history.commit", bad[i], "InvalidInput", "correct");
  world_fails(w, "history.commit", "{\"changes\":[{\"key\":\"k\",\"value\":1},{\"key\":\"b\",\"value\":1,\"expected_version\":1}]}",
              "VersionConflict", "reload");
  want_value(w, "k", "null");
  world_ok(w, "history.log", "{}");
  world_want(w, "count", "3");
}

/* ---- forks and merges ---- */

static void history_fork__is_written_compared_merged_and_dropped(void **state)
{
  world *w = *state;
  set(w, "plan", "{\"step\":1}");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.commit",
           "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"plan\",\"value\":{\"step\":1,\"via\":\"Rome\"}},{\"key\":\"n\",\"value\":1}]}");
  want_value(w, "plan", "{\"step\":1}");
  world_ok(w, "history.diff", "{\"from\":\"main\",\"to\":\"fork/b\"}");
  world_want(w, "differences.0.key", "\"n\"");
  world_want(w, "differences.1.key", "\"plan\"");
  set(w, "plan", "{\"step\":2}");
  char *before = head_of(w, "main");
  world_ok(w, "history.merge", "{\"from\":\"fork/b\",\"policy\":\"json\",\"preview\":true}");
  world_want(w, "outcome", "\"committed\"");
  world_want(w, "commit", "null");
  world_want(w, "change_count", "2");
  char *after = head_of(w, "main");
  assert_string_equal(before, after); /* a preview writes nothing */
  world_ok(w, "history.merge", "{\"from\":\"fork/b\"}");
  world_want(w, "outcome", "\"conflicts\"");
  world_want(w, "conflicts.0.theirs", "{\"step\":1,\"via\":\"Rome\"}");
  want_value(w, "n", "null");
  world_ok(w, "history.merge",
           "{\"from\":\"fork/b\",\"resolutions\":[{\"key\":\"plan\",\"take\":\"value\",\"value\":{\"step\":3}}],\"reason\":\"both\"}");
  world_want(w, "outcome", "\"committed\"");
  want_value(w, "plan", "{\"step\":3}");
  want_value(w, "n", "1");
  want_counted(w);
  world_ok(w, "history.show", "{}");
  world_want(w, "parents.2", "");
  world_want(w, "reason", "\"both\"");
  assert_true(*world_out(w, "parents.1"));
  world_ok(w, "history.merge", "{\"from\":\"fork/b\"}");
  world_want(w, "outcome", "\"up-to-date\"");
  world_ok(w, "history.undo", "{}"); /* one undo takes a merge back, also one that could have been a move */
  want_value(w, "n", "null");
  world_ok(w, "history.drop", "{\"name\":\"fork/b\"}");
  world_fails(w, "history.merge", "{\"from\":\"fork/b\"}", "NotFound", "list");
  static const char *const bad[] = {"{\"from\":\"main~1\",\"resolutions\":[{\"key\":\"plan\"}]}",
                                    "{\"from\":\"main~1\",\"resolutions\":[{\"key\":\"plan\",\"take\":\"mine\"}]}",
                                    "{\"from\":\"main~1\",\"resolutions\":[{\"key\":\"plan\",\"take\":\"ours\",\"value\":1}]}",
                                    "{\"from\":\"main~1\",\"resolutions\":[{\"take\":\"ours\"}]}",
                                    "{\"from\":\"main~1\",\"resolutions\":[7]}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) world_fails(w, "history.merge", bad[i], "InvalidInput", "correct");
  free(before);
  free(after);
}

static void history_merge__moves_a_ref_that_has_nothing_of_its_own(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  char *before = head_of(w, "main");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"plan\",\"value\":2}]}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"n\",\"value\":1}]}");
  char *theirs = head_of(w, "fork/b");
  world_ok(w, "history.merge", "{\"from\":\"fork/b\",\"fast_forward\":false,\"preview\":true}");
  world_want(w, "outcome", "\"committed\"");
  world_ok(w, "history.merge", "{\"from\":\"fork/b\",\"preview\":true}");
  world_want(w, "outcome", "\"fast-forward\"");
  world_want(w, "commit", "null");
  world_ok(w, "history.merge", "{\"from\":\"fork/b\"}");
  world_want(w, "outcome", "\"fast-forward\"");
  world_want(w, "change_count", "2");
  world_want(w, "changes.0.key", "\"n\"");
  char *answered = text_of("%s", world_out(w, "commit")), *after = head_of(w, "main");
  assert_string_equal(after, theirs);
  assert_non_null(strstr(answered, after));
  want_value(w, "plan", "2");
  want_counted(w);
  assert_int_equal(world_callf(w, "history.reset", "{\"to\":\"%s\"}", before), PD_APPROVAL);
  world_ok(w, "history.undo", "{\"count\":2}"); /* the fork's two commits are main's now */
  char *undone = head_of(w, "main");
  assert_string_equal(undone, before);
  free(before), free(theirs), free(answered), free(after), free(undone);
}

static void history_merge__that_moves_is_bound_by_policy_and_quota(void **state)
{
  world *w = *state;
  set(w, "a", "1234567890");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"b\",\"value\":12345678901234567890}]}");
  w->home->config.persistent_quota_bytes = 20;
  world_fails(w, "history.merge", "{\"from\":\"fork/b\"}", "QuotaExceeded", "delete_unused");
  want_value(w, "b", "null");
}

static void history_revert__keeps_what_came_after(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  set(w, "mistake", "true");
  set(w, "plan", "2");
  world_ok(w, "history.revert", "{\"at\":\"main~1\"}");
  want_value(w, "mistake", "null");
  want_value(w, "plan", "2");
  world_ok(w, "history.revert", "{\"at\":\"main~3\"}"); /* plan was changed since: a conflict, and nothing is written */
  world_want(w, "outcome", "\"conflicts\"");
  want_value(w, "plan", "2");
}

static void history_merge__into_main_stays_within_the_quota(void **state)
{
  world *w = *state;
  w->home->config.persistent_quota_bytes = 20;
  set(w, "a", "1234567890");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"b\",\"value\":1234567}]}"); /* 17 of 20 there */
  world_fails(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"c\",\"value\":1234567}]}", "QuotaExceeded",
              "delete_unused");
  set(w, "d", "12345");
  world_fails(w, "history.merge", "{\"from\":\"fork/b\"}", "QuotaExceeded", "delete_unused");
  world_fails(w, "history.cherry_pick", "{\"at\":\"fork/b\"}", "QuotaExceeded", "delete_unused");
  want_value(w, "b", "null");
  world_ok(w, "state.persistent.delete", "{\"key\":\"d\"}");
  world_ok(w, "history.merge", "{\"from\":\"fork/b\"}");
  want_counted(w);
  world_fails(w, "state.persistent.set", "{\"key\":\"e\",\"value\":12345}", "QuotaExceeded", NULL); /* exact after a merge… */
  world_ok(w, "history.undo", "{}");
  set(w, "e", "12345"); /* …and after an undo */
  world_fails(w, "history.merge", "{\"from\":\"fork/b\"}", "QuotaExceeded", "delete_unused");
}

/* ---- deletion for good ---- */

static void history__delete_takes_also_what_was_undone(void **state)
{
  world *w = *state;
  set(w, "other", "1");
  set(w, "k", "\"" SECRET "-1\"");
  world_ok(w, "history.undo", "{}");
  set(w, "k", "\"" SECRET "-2\"");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_want(w, "deleted", "true");
  want_no_secret(w);
  want_value(w, "other", "1");
}

static void history__delete_takes_what_only_redo_leads_to(void **state)
{
  world *w = *state;
  set(w, "other", "1");
  set(w, "k", "\"" SECRET "\"");
  world_ok(w, "history.undo", "{}");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}"); /* it is not in the state, and yet in the history */
  world_want(w, "deleted", "true");
  world_fails(w, "history.redo", "{}", "ValueErased", "rollback");
  want_no_secret(w);
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_want(w, "deleted", "false");
  world_ok(w, "state.persistent.query", "{\"prefix\":\"\"}");
  world_want(w, "count", "1");
}

static void history__delete_takes_what_was_there_before_another_deletion(void **state)
{
  world *w = *state;
  set(w, "k", "\"" SECRET "-1\"");
  world_ok(w, "history.commit", "{\"changes\":[{\"key\":\"k\",\"delete\":true}]}"); /* this one keeps it… */
  world_ok(w, "history.get", "{\"key\":\"k\",\"at\":\"main~1\"}");
  world_want(w, "found", "true");
  set(w, "k", "\"" SECRET "-2\"");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}"); /* …and this one removes all of it */
  want_no_secret(w);
}

static void history__delete_leaves_what_a_fork_or_a_tag_shows_until_it_is_gone(void **state)
{
  world *w = *state;
  set(w, "k", "\"" SECRET "\"");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.tag", "{\"name\":\"t\"}");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_ok(w, "history.get", "{\"key\":\"k\",\"at\":\"fork/b\"}");
  world_want(w, "value", "\"" SECRET "\"");
  world_ok(w, "history.drop", "{\"name\":\"b\"}");
  world_ok(w, "history.get", "{\"key\":\"k\",\"at\":\"t\"}");
  world_want(w, "value", "\"" SECRET "\"");
  world_ok(w, "history.untag", "{\"name\":\"t\"}");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_want(w, "deleted", "true");
  want_no_secret(w);
}

static void history__delete_takes_what_a_dropped_fork_left(void **state)
{
  world *w = *state;
  set(w, "other", "1");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"k\",\"value\":\"" SECRET "\"}]}");
  world_ok(w, "history.drop", "{\"name\":\"b\"}");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_want(w, "deleted", "true");
  want_no_secret(w);
}

static void history__delete_takes_what_a_restore_left(void **state)
{
  world *w = *state;
  set(w, "other", "1");
  world_ok(w, "state.snapshot.create", "{}");
  char *id = world_text(w, "snapshot_id");
  set(w, "k", "\"" SECRET "\"");
  set(w, "k", "0"); /* before-restore/ID shows this one */
  w->is_operator = true;
  world_okf(w, "state.snapshot.restore", "{\"snapshot_id\":\"%s\"}", id);
  w->is_operator = false;
  want_value(w, "k", "null");
  world_ok(w, "state.persistent.delete", "{\"key\":\"k\"}");
  world_want(w, "deleted", "true");
  want_no_secret(w);
  free(id);
}

/* ---- policy and approvals ---- */

static void history__a_change_needs_what_policy_asks_for_the_keys(void **state)
{
  world *w = *state;
  set(w, "billing/rate", "1");
  set(w, "billing/rate", "2");
  set(w, "notes", "1");
  world_ok(w, "history.fork", "{\"name\":\"b\",\"at\":\"main~2\"}");
  set_policy(w, "[[rule]]\ncapability = \"state.persistent.set\"\nprefix = \"billing/\"\npermission = \"approval\"\nreason = \"money\"\n");
  world_ok(w, "history.undo", "{}"); /* only the notes */
  static const char *const asking[][2] = {
    {"history.undo", "{}"},
    {"history.rollback", "{\"to\":\"main~1\"}"},
    {"history.revert", "{\"at\":\"main\"}"},
    {"history.commit", "{\"changes\":[{\"key\":\"notes\",\"value\":2},{\"key\":\"billing/rate\",\"value\":3}]}"},
    {"history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"billing/rate\",\"value\":3}]}"},
  };
  for (size_t i = 0; i < COUNT_OF(asking); i++) world_fails(w, asking[i][0], asking[i][1], "ApprovalRequired", "wait");
  want_value(w, "billing/rate", "2");
  world_fails(w, "history.undo", "{}", "ApprovalRequired", "wait");
  char *id = world_text(w, "error.details.approval_id");
  w->is_operator = true;
  world_okf(w, "approvals.approve", "{\"approval_id\":\"%s\"}", id);
  w->is_operator = false;
  world_ok(w, "history.undo", "{}");
  want_value(w, "billing/rate", "1");
  world_ok(w, "history.rollback", "{\"to\":\"main\",\"prefix\":\"notes\"}");
  set_policy(w, "[[rule]]\ncapability = \"state.persistent.*\"\nagent = \"main\"\nprefix = \"billing/\"\npermission = \"blocked\"\n");
  world_fails(w, "history.redo", "{}", "PermissionDenied", "ask");
  w->is_operator = true;
  world_fails(w, "history.redo", "{}", "PermissionDenied", "ask");
  w->is_operator = false;
  free(id);
}

static void history_merge__conflicts_do_not_tell_what_policy_closes(void **state)
{
  world *w = *state;
  set(w, "secret/k", "1");
  world_ok(w, "history.fork", "{\"name\":\"b\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/b\",\"changes\":[{\"key\":\"secret/k\",\"value\":\"" SECRET "\"}]}");
  set(w, "secret/k", "2");
  set_policy(w, "[[rule]]\ncapability = \"state.persistent.get\"\nprefix = \"secret/\"\npermission = \"operator\"\n");
  world_ok(w, "history.merge", "{\"from\":\"fork/b\"}");
  world_want(w, "conflicts.0.key", "\"secret/k\"");
  world_want(w, "conflicts.0.theirs", "");
  assert_null(strstr((const char *)w->out.data, SECRET));
}

/* ---- what is not the agent's to move ---- */

static void history__threads_runs_and_mailboxes_are_out_of_reach(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"n\":1}}");
  char *commit = world_text(w, "commit");
  world_ok(w, "work.create", "{\"input\":{}}");
  w->is_operator = true; /* not even then: these are other tiers' */
  assert_int_equal(world_callf(w, "history.reset", "{\"to\":\"%s\"}", commit), PD_NOT_FOUND);
  assert_int_equal(world_callf(w, "history.merge", "{\"from\":\"%s\"}", commit), PD_NOT_FOUND);
  assert_int_equal(world_callf(w, "history.cherry_pick", "{\"at\":\"%s\"}", commit), PD_NOT_FOUND);
  assert_int_equal(world_callf(w, "history.fork", "{\"name\":\"x\",\"at\":\"%s\"}", commit), PD_NOT_FOUND);
  assert_int_equal(world_callf(w, "history.tag", "{\"name\":\"x\",\"at\":\"%s\"}", commit), PD_NOT_FOUND);
  w->is_operator = false;
  static const char *const refs[] = {"thread/t", "threads",   "state", "agent-snapshot", "@meta", "before-restore/x",
                                     "fork/",    "fork/../x", ""};
  for (size_t i = 0; i < COUNT_OF(refs); i++) {
    assert_int_not_equal(world_callf(w, "history.undo", "{\"ref\":\"%s\"}", refs[i]), PD_OK);
    assert_int_not_equal(world_callf(w, "history.drop", "{\"name\":\"%s\"}", refs[i]), PD_OK);
    if (strpbrk(refs[i], "/@")) assert_int_not_equal(world_callf(w, "history.fork", "{\"name\":\"%s\"}", refs[i]), PD_OK);
    assert_int_not_equal(world_callf(w, "history.tag", "{\"name\":\"%s\"}", refs[i]), PD_OK);
  }
  world_ok(w, "history.undo", "{}");
  world_ok(w, "threads.load", "{\"thread_id\":\"t\"}");
  world_want(w, "state", "{\"n\":1}");
  world_ok(w, "work.list", "{}");
  world_want(w, "runs.1", "");
  assert_true(*world_out(w, "runs.0"));
  free(commit);
}

static void history_tag__of_somebody_else_is_not_the_agents(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  w->is_operator = true;
  world_ok(w, "history.tag", "{\"name\":\"evidence\",\"reason\":\"case 4711\"}");
  world_ok(w, "history.pin", "{}");
  w->is_operator = false;
  char *head = head_of(w, "main");
  set(w, "plan", "2");
  world_fails(w, "history.untag", "{\"name\":\"evidence\"}", "PermissionDenied", "ask");
  world_fails(w, "history.tag", "{\"name\":\"evidence\",\"move\":true}", "PermissionDenied", "ask");
  world_okf(w, "history.pin", "{\"at\":\"%s\"}", head); /* it is pinned already: nothing to do, and nothing to take over */
  assert_int_equal(world_callf(w, "history.unpin", "{\"at\":\"%s\"}", head), PD_DENIED);
  world_ok(w, "history.tag", "{\"name\":\"mine\"}");
  set(w, "plan", "3");
  world_ok(w, "history.tag", "{\"name\":\"mine\",\"move\":true}");
  world_ok(w, "history.get", "{\"key\":\"plan\",\"at\":\"mine\"}");
  world_want(w, "value", "3");
  world_ok(w, "history.untag", "{\"name\":\"mine\"}");
  world_ok(w, "state.snapshot.create", "{}");
  world_ok(w, "history.marks", "{}");
  world_want(w, "count", "3"); /* the pin, the operator's tag, the snapshot's */
  char *tag = world_text(w, "marks.2.name");
  assert_int_equal(world_callf(w, "history.untag", "{\"name\":\"%s\"}", tag), PD_INVALID);
  free(tag);
  free(head);
}

/* ---- many at once ---- */

typedef struct worker {
  world *w;
  int number, failures;
} worker;

static void *work(void *ctx)
{
  worker *k = ctx;
  pd_ctx who = {.home = k->w->home, .agent = "main"};
  pd_buf out = {0};
  pd_error err;
  for (int i = 0; i < 40; i++) {
    char input[160];
    const char *capability = i % 4 == 3 ? "history.undo" : i % 4 == 2 ? "history.rollback" : "history.commit";
    if (i % 4 == 3)
      snprintf(input, sizeof input, "{}");
    else if (i % 4 == 2)
      snprintf(input, sizeof input, "{\"to\":\"main~1\",\"prefix\":\"w%d/\"}", k->number);
    else
      snprintf(input, sizeof input, "{\"changes\":[{\"key\":\"w%d/%d\",\"value\":%d},{\"key\":\"all\",\"value\":%d}]}", k->number, i, i, i);
    pd_code code = pd_call(&who, capability, pd_text(input), &out, &err);
    k->failures += code && code != PD_CONFLICT; /* others may be faster sixteen times in a row */
  }
  pd_buf_done(&out);
  return NULL;
}

static void history__writers_at_the_same_time_leave_a_sound_history(void **state)
{
  world *w = *state;
  pthread_t threads[4];
  worker workers[4];
  set(w, "begin", "1");
  for (int i = 0; i < 8; i++) set(w, "begin", "2");
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){.w = w, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].failures, 0);
  }
  world_ok(w, "history.verify", "{}");
  world_want(w, "ok", "true");
  want_counted(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(history_undo__takes_all_keys_back_and_redo_brings_them_again),
    TEST(history_undo__to_the_beginning_and_back),
    TEST(history_reset__runs_once_when_the_operator_has_approved_this_very_call),
    TEST(history__expected_head_binds_a_write_to_what_was_seen),
    TEST(history_rollback__is_a_commit_and_leaves_other_keys_and_what_was_erased),
    TEST(history_commit__is_all_or_nothing),
    TEST(history_fork__is_written_compared_merged_and_dropped),
    TEST(history_merge__moves_a_ref_that_has_nothing_of_its_own),
    TEST(history_merge__that_moves_is_bound_by_policy_and_quota),
    TEST(history_revert__keeps_what_came_after),
    TEST(history_merge__into_main_stays_within_the_quota),
    TEST(history__delete_takes_also_what_was_undone),
    TEST(history__delete_takes_what_only_redo_leads_to),
    TEST(history__delete_takes_what_was_there_before_another_deletion),
    TEST(history__delete_leaves_what_a_fork_or_a_tag_shows_until_it_is_gone),
    TEST(history__delete_takes_what_a_dropped_fork_left),
    TEST(history__delete_takes_what_a_restore_left),
    TEST(history__a_change_needs_what_policy_asks_for_the_keys),
    TEST(history_merge__conflicts_do_not_tell_what_policy_closes),
    TEST(history__threads_runs_and_mailboxes_are_out_of_reach),
    TEST(history_tag__of_somebody_else_is_not_the_agents),
    TEST(history__writers_at_the_same_time_leave_a_sound_history),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
