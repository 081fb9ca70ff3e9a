/* history_test.c: history.log, show, get, list, diff, key, blame, refs, marks, prove, check_proof, verify: looking at any point in time. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void set(world *w, const char *key, const char *json)
{
  if (world_callf(w, "state.persistent.set", "{\"key\":\"%s\",\"value\":%s}", key, json)) fail_msg("%s", (const char *)w->out.data);
  w->now_ms += 1000;
}

/* ---- points ---- */

static void history_get__reads_at_ids_refs_times_numbers_and_tags(void **state)
{
  world *w = *state;
  set(w, "plan", "1"); /* at 10:00:00 */
  world_ok(w, "history.show", "{}");
  char *id = world_text(w, "commit"), *seq = text_of("%s", world_out(w, "seq"));
  set(w, "plan", "2");
  set(w, "plan", "3");
  world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"%s\"}", id);
  world_want(w, "value", "1");
  world_want(w, "version", "1");
  world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"%.10s\"}", id);
  world_want(w, "value", "1");
  world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"#%s\"}", seq);
  world_want(w, "value", "1");
  static const char *const points[][2] = {{"main", "3"},
                                          {"main~1", "2"},
                                          {"~2", "1"},
                                          {"main~~", "1"},
                                          {"root", "null"},
                                          {"@2026-11-15T10:00:01Z", "2"},
                                          {"main@2026-11-15T10:00:00.500Z", "1"}};
  for (size_t i = 0; i < COUNT_OF(points); i++) {
    world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"%s\"}", points[i][0]);
    world_want(w, "value", points[i][1]);
  }
  pd_store *store;
  assert_int_equal(world_borrow(w->home, "main", false, &store, &w->err), PD_OK);
  assert_int_equal(pd_tag_set(store, "first", id, false, NULL, NULL, &w->err), PD_OK);
  world_ok(w, "history.get", "{\"key\":\"plan\",\"at\":\"first\"}");
  world_want(w, "value", "1");
  world_ok(w, "history.marks", "{}");
  world_want(w, "marks.0.name", "\"first\"");
  free(id);
  free(seq);
}

static void history__the_points_are_of_main_whatever_ref_is_current(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  set(w, "plan", "2");
  pd_store *store;
  assert_int_equal(world_borrow(w->home, "main", false, &store, &w->err), PD_OK);
  assert_int_equal(pd_fork(store, "elsewhere", "root", NULL, NULL, &w->err), PD_OK);
  assert_int_equal(pd_switch(store, "elsewhere", NULL, &w->err), PD_OK);
  static const char *const points[][2] = {{"~1", "1"}, {"@2026-11-15T10:00:00.5Z", "1"}, {"main", "2"}};
  for (size_t i = 0; i < COUNT_OF(points); i++) {
    world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"%s\"}", points[i][0]);
    world_want(w, "value", points[i][1]);
  }
  world_ok(w, "history.get", "{\"key\":\"plan\"}");
  world_want(w, "value", "2");
}

static void history__reading_makes_no_store(void **state)
{
  world *w = *state;
  w->agent = "newcomer";
  static const char *const calls[] = {"history.log", "history.list", "history.refs", "history.marks", "history.stats"};
  for (size_t i = 0; i < COUNT_OF(calls); i++) world_ok(w, calls[i], "{}");
  world_ok(w, "history.get", "{\"key\":\"k\"}");
  world_want(w, "found", "false");
  world_want(w, "commit", "null");
  world_fails(w, "history.verify", "{}", "NotFound", "list");
  world_ok(w, "history.log", "{\"store\":\"shared\"}");
  pd_store *store;
  assert_int_equal(world_borrow(w->home, "newcomer", false, &store, &w->err), PD_NOT_FOUND);
  assert_int_equal(world_borrow(w->home, "shared", false, &store, &w->err), PD_NOT_FOUND);
}

static void history__an_operator_without_an_agent_reads_only_what_is_shared(void **state)
{
  world *w = *state;
  world_ok(w, "state.shared.set", "{\"key\":\"k\",\"value\":1,\"expected_version\":0}");
  w->is_operator = true;
  w->agent = NULL;
  world_ok(w, "history.log", "{\"store\":\"shared\"}");
  world_want(w, "count", "1");
  world_fails(w, "history.log", "{}", "InvalidInput", "correct");
  w->agent = "main";
  w->is_operator = false;
}

/* ---- log ---- */

static void history_log__pages_go_on_after_their_cursor(void **state)
{
  world *w = *state;
  for (int i = 1; i <= 7; i++) {
    char value[16];
    snprintf(value, sizeof value, "%d", i);
    set(w, i % 2 ? "odd" : "even", value);
  }
  world_ok(w, "history.log", "{\"limit\":3}");
  world_want(w, "commits.2.changes.0.version", "3"); /* the third of `odd`, fifth in all */
  char *cursor = world_text(w, "next_cursor");
  set(w, "late", "1"); /* what comes meanwhile does not move the pages */
  world_okf(w, "history.log", "{\"limit\":3,\"cursor\":\"%s\"}", cursor);
  world_want(w, "commits.0.changes.0.key", "\"even\"");
  world_want(w, "commits.2.changes.0.version", "1");
  free(cursor);
  cursor = world_text(w, "next_cursor");
  world_okf(w, "history.log", "{\"limit\":3,\"cursor\":\"%s\"}", cursor);
  world_want(w, "count", "1");
  world_want(w, "next_cursor", "null");
  free(cursor);
  world_ok(w, "history.log", "{\"key\":\"even\",\"limit\":2}");
  world_want(w, "commits.0.changes.0.version", "3");
  world_want(w, "commits.1.changes.0.version", "2");
  world_fails(w, "history.log", "{\"cursor\":\"17\"}", "InvalidInput", "correct");
  world_fails(w, "history.log", "{\"ref\":\"main\",\"at\":\"main\"}", "InvalidInput", "correct");
}

static void history_log__since_until_and_prefix_filter(void **state)
{
  world *w = *state;
  pd_store *store;
  pd_edit *edit;
  set(w, "a/1", "1"); /* 10:00:00 */
  set(w, "b/1", "1"); /* 10:00:01 */
  assert_int_equal(world_borrow(w->home, "main", false, &store, &w->err), PD_OK);
  assert_int_equal(pd_edit_begin(store, &(pd_note){.ref = "main", .author = "ada"}, &edit, &w->err), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("a/2"), pd_text("1"), PD_ANY_VERSION, &w->err), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("b/2"), pd_text("1"), PD_ANY_VERSION, &w->err), PD_OK);
  assert_int_equal(pd_edit_commit(edit, NULL, &w->err), PD_OK); /* 10:00:02 */
  world_ok(w, "history.log", "{\"prefix\":\"a/\"}");
  world_want(w, "count", "2");
  world_want(w, "commits.0.author", "\"ada\"");
  world_want(w, "commits.0.change_count", "1");
  world_want(w, "commits.0.changes.0.key", "\"a/2\"");
  world_want(w, "commits.0.changes.1", ""); /* b/2 is not told to who asked for a/ */
  world_ok(w, "history.log", "{\"since\":\"2026-11-15T10:00:01Z\",\"until\":\"2026-11-15T10:00:02Z\"}");
  world_want(w, "count", "1");
  world_want(w, "commits.0.changes.0.key", "\"b/1\"");
  world_ok(w, "history.show", "{\"prefix\":\"b/\"}");
  world_want(w, "change_count", "1");
  world_want(w, "changes.0.key", "\"b/2\"");
}

static void history_log__of_a_ref_tells_what_was_undone(void **state)
{
  world *w = *state;
  pd_store *store;
  set(w, "plan", "1");
  set(w, "plan", "2");
  assert_int_equal(world_borrow(w->home, "main", false, &store, &w->err), PD_OK);
  assert_int_equal(pd_undo(store, 1, NULL, NULL, &w->err), PD_OK);
  set(w, "plan", "3");
  world_ok(w, "history.log", "{}");
  world_want(w, "count", "2");
  world_ok(w, "history.log", "{\"ref\":\"main\",\"limit\":2}");
  world_want(w, "commits.0.kind", "\"commit\"");
  world_want(w, "commits.1.kind", "\"undo\"");
  char *cursor = world_text(w, "next_cursor");
  world_okf(w, "history.log", "{\"ref\":\"main\",\"limit\":2,\"cursor\":\"%s\"}", cursor);
  world_want(w, "commits.0.changes.0.version", "2"); /* what was undone */
  world_want(w, "commits.1.changes.0.version", "1");
  char *undone = world_text(w, "commits.0.commit");
  world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"%s\"}", undone);
  world_want(w, "value", "2");
  world_fails(w, "history.log", "{\"ref\":\"never\"}", "NotFound", "list");
  free(cursor);
  free(undone);
}

/* ---- the state at a point ---- */

static void history_list__pages_are_of_one_moment(void **state)
{
  world *w = *state;
  static const char *const keys[] = {"a", "b", "c", "d", "e"};
  for (size_t i = 0; i < COUNT_OF(keys); i++) set(w, keys[i], "1");
  world_ok(w, "history.list", "{\"limit\":3,\"values\":true}");
  world_want(w, "entries.2.key", "\"c\"");
  world_want(w, "entries.2.value", "1");
  world_want(w, "next_after", "\"c\"");
  char *commit = world_text(w, "commit");
  set(w, "dd", "2");
  world_okf(w, "history.list", "{\"limit\":3,\"after\":\"c\",\"at\":\"%s\"}", commit);
  world_want(w, "count", "2");
  world_want(w, "entries.1.key", "\"e\"");
  world_want(w, "entries.1.value", "");
  world_want(w, "next_after", "null");
  free(commit);
}

static void history_list__an_erased_value_is_told_and_the_others_are_read(void **state)
{
  world *w = *state;
  set(w, "gone", "\"secret\"");
  set(w, "kept", "1");
  world_ok(w, "state.persistent.delete", "{\"key\":\"gone\"}");
  world_ok(w, "history.list", "{\"at\":\"main~1\",\"values\":true}");
  world_want(w, "entries.0.erased", "true");
  world_want(w, "entries.0.value", "");
  world_want(w, "entries.1.value", "1");
  world_ok(w, "history.diff", "{\"values\":true}");
  world_want(w, "differences.0.change", "\"deleted\"");
  world_want(w, "differences.0.before.erased", "true");
  world_ok(w, "history.show", "{\"at\":\"main~2\",\"values\":true}");
  world_want(w, "changes.0.erased", "true");
  assert_null(strstr((const char *)w->out.data, "secret"));
}

static void history_diff__pages_and_stops_at_the_prefix(void **state)
{
  world *w = *state;
  set(w, "a", "1");
  static const char *const keys[] = {"b/1", "b/2", "b/3", "c"};
  for (size_t i = 0; i < COUNT_OF(keys); i++) set(w, keys[i], "1");
  world_ok(w, "history.diff", "{\"from\":\"root\",\"prefix\":\"b/\",\"limit\":2}");
  world_want(w, "differences.0.key", "\"b/1\"");
  world_want(w, "differences.1.key", "\"b/2\"");
  world_want(w, "next_after", "\"b/2\"");
  world_ok(w, "history.diff", "{\"from\":\"root\",\"prefix\":\"b/\",\"limit\":2,\"after\":\"b/2\"}");
  world_want(w, "differences.0.key", "\"b/3\"");
  world_want(w, "differences.1", "");
  world_want(w, "next_after", "null");
  world_ok(w, "history.diff", "{\"from\":\"main\",\"to\":\"main~2\"}");
  world_want(w, "differences.0.key", "\"b/3\"");
  world_want(w, "differences.0.change", "\"deleted\"");
  world_ok(w, "history.diff", "{\"to\":\"root\"}");
  world_want(w, "differences", "[]");
}

static void history_key__pages_lead_back_to_the_first_version(void **state)
{
  world *w = *state;
  for (int i = 1; i <= 5; i++) {
    char value[16];
    snprintf(value, sizeof value, "%d", i);
    set(w, "plan", value);
    set(w, "noise", value);
  }
  world_ok(w, "history.key", "{\"key\":\"plan\",\"limit\":3}");
  world_want(w, "versions.0.version", "5");
  world_want(w, "versions.2.version", "3");
  char *cursor = world_text(w, "next_cursor");
  world_okf(w, "history.key", "{\"key\":\"plan\",\"limit\":3,\"cursor\":\"%s\"}", cursor);
  world_want(w, "versions.0.version", "2");
  world_want(w, "versions.1.version", "1");
  world_want(w, "next_cursor", "null");
  free(cursor);
  char *commit = world_text(w, "versions.0.commit");
  world_okf(w, "history.get", "{\"key\":\"plan\",\"at\":\"%s\"}", commit);
  world_want(w, "value", "2");
  free(commit);
}

static void history_blame__comes_in_pages(void **state)
{
  world *w = *state;
  set(w, "plan", "{\"a\":1,\"b\":2,\"c\":3}");
  set(w, "plan", "{\"a\":1,\"b\":5,\"c\":3}");
  world_ok(w, "history.blame", "{\"key\":\"plan\",\"limit\":2}");
  world_want(w, "lines.0.version", "1");
  world_want(w, "lines.1.version", "2");
  world_want(w, "has_more", "true");
  world_ok(w, "history.blame", "{\"key\":\"plan\",\"limit\":2,\"skip\":2}");
  world_want(w, "lines.0.path", "\"/c\"");
  world_want(w, "has_more", "false");
}

/* ---- what is not seen ---- */

static void history__what_threads_and_runs_keep_is_no_part_of_it(void **state)
{
  world *w = *state;
  set(w, "plan", "1");
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"word\":\"hush\"}}");
  char *commit = world_text(w, "commit");
  world_ok(w, "work.create", "{\"input\":{\"word\":\"hush\"}}");
  world_ok(w, "mailbox.send", "{\"thread_id\":\"t\",\"body\":\"hush\"}");
  world_ok(w, "history.refs", "{}");
  world_want(w, "count", "1");
  world_want(w, "refs.0.ref", "\"main\"");
  static const char *const refs[] = {"thread/t", "threads", "mailbox/t", "state", "thread/t~1", "state@2026-11-16", "@meta", "mailbox/t~"};
  for (size_t i = 0; i < COUNT_OF(refs); i++) {
    assert_int_not_equal(world_callf(w, "history.list", "{\"at\":\"%s\",\"values\":true}", refs[i]), PD_OK);
    assert_int_not_equal(world_callf(w, "history.log", "{\"ref\":\"%s\"}", refs[i]), PD_OK);
  }
  assert_int_equal(world_callf(w, "history.list", "{\"at\":\"%s\",\"values\":true}", commit), PD_NOT_FOUND);
  assert_int_equal(world_callf(w, "history.diff", "{\"to\":\"%s\",\"values\":true}", commit), PD_NOT_FOUND);
  for (int seq = 1; seq < 60; seq++) { /* …and by the number of any record */
    (void)!world_callf(w, "history.list", "{\"at\":\"#%d\",\"values\":true}", seq);
    assert_null(strstr((const char *)w->out.data, "hush"));
  }
  free(commit);
}

static void restart_with_policy(world *w, const char *rules)
{
  char *path = text_of("%s/policy.toml", w->folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(rules, f);
  assert_int_equal(fclose(f), 0);
  free(path);
  world_restart(w);
}

static void history__what_policy_closes_stays_closed_in_the_past(void **state)
{
  world *w = *state;
  set(w, "secret/k", "\"hush\"");
  set(w, "open/k", "1");
  restart_with_policy(
    w, "[[rule]]\ncapability = \"state.persistent.get\"\nagent = \"main\"\nprefix = \"secret/\"\npermission = \"approval\"\n");
  static const char *const closed[][2] = {{"history.get", "{\"key\":\"secret/k\"}"},
                                          {"history.get", "{\"key\":\"secret/k\",\"at\":\"main~1\"}"},
                                          {"history.key", "{\"key\":\"secret/k\"}"},
                                          {"history.blame", "{\"key\":\"secret/k\"}"},
                                          {"history.list", "{\"values\":true}"},
                                          {"history.list", "{\"prefix\":\"sec\"}"},
                                          {"history.diff", "{\"from\":\"root\"}"},
                                          {"history.show", "{\"at\":\"main~1\"}"},
                                          {"history.log", "{}"},
                                          {"history.log", "{\"key\":\"secret/k\"}"},
                                          {"history.prove", "{\"key\":\"open/k\"}"}};
  for (size_t i = 0; i < COUNT_OF(closed); i++) {
    world_fails(w, closed[i][0], closed[i][1], "PermissionDenied", "ask");
    assert_null(strstr((const char *)w->out.data, "hush"));
  }
  world_ok(w, "history.get", "{\"key\":\"open/k\"}");
  world_ok(w, "history.log", "{\"prefix\":\"open/\"}");
  world_want(w, "count", "1");
  w->is_operator = true;
  world_ok(w, "history.get", "{\"key\":\"secret/k\"}");
  w->is_operator = false;
}

static void history__shared_is_read_by_all_and_by_its_own_rules(void **state)
{
  world *w = *state;
  world_ok(w, "state.shared.set", "{\"key\":\"k\",\"value\":1,\"expected_version\":0}");
  w->agent = "other";
  world_ok(w, "state.shared.set", "{\"key\":\"k\",\"value\":2,\"expected_version\":1}");
  world_ok(w, "history.key", "{\"key\":\"k\",\"store\":\"shared\"}");
  world_want(w, "versions.0.author", "\"other\"");
  world_want(w, "versions.1.author", "\"main\"");
  world_ok(w, "history.get", "{\"key\":\"k\",\"store\":\"shared\",\"at\":\"main~1\"}");
  world_want(w, "value", "1");
  restart_with_policy(w, "[[rule]]\ncapability = \"state.shared.get\"\npermission = \"blocked\"\n");
  world_fails(w, "history.get", "{\"key\":\"k\",\"store\":\"shared\"}", "PermissionDenied", "ask");
  w->is_operator = true;
  world_fails(w, "history.get", "{\"key\":\"k\",\"store\":\"shared\"}", "PermissionDenied", "ask");
  w->is_operator = false;
  w->agent = "main";
}

/* ---- proofs, verify ---- */

static void history_check_proof__finds_every_changed_letter(void **state)
{
  world *w = *state;
  set(w, "plan", "\"Rome\"");
  set(w, "other", "1");
  world_ok(w, "history.prove", "{\"key\":\"plan\",\"with_value\":true}");
  char *proof = world_text(w, "proof"), *commit = world_text(w, "commit");
  world_okf(w, "history.check_proof", "{\"proof\":\"%s\",\"commit\":\"%s\",\"key\":\"plan\"}", proof, commit);
  world_want(w, "valid", "true");
  world_want(w, "value", "\"Rome\"");
  world_okf(w, "history.check_proof", "{\"proof\":\"%s\",\"key\":\"other\"}", proof);
  world_want(w, "valid", "false");
  for (size_t i = 0, size = strcspn(proof, "="); i < size; i += 3) {
    char was = proof[i];
    proof[i] = was == 'A' ? 'B' : 'A';
    if (world_callf(w, "history.check_proof", "{\"proof\":\"%s\"}", proof) == PD_OK) world_want(w, "valid", "false");
    proof[i] = was;
  }
  world_fails(w, "history.check_proof", "{\"proof\":\"no base64\"}", "InvalidInput", "correct");
  world_fails(w, "history.prove", "{}", "InvalidInput", "correct");
  world_fails(w, "history.prove", "{\"key\":\"plan\",\"ancestor\":\"root\"}", "InvalidInput", "correct");
  free(proof);
  free(commit);
}

typedef struct watching {
  uint64_t calls, last, total;
  bool gives_up;
} watching;

static bool watch_progress(void *ctx, uint64_t done, uint64_t total)
{
  watching *p = ctx;
  p->calls++;
  p->last = done;
  p->total = total;
  return !p->gives_up;
}

static void history_verify__tells_its_progress_and_can_be_cancelled(void **state)
{
  world *w = *state;
  for (int i = 0; i < 20; i++) set(w, "plan", "1");
  watching p = {0};
  pd_ctx ctx = {.home = w->home, .agent = "main", .progress = watch_progress, .progress_ctx = &p};
  assert_int_equal(pd_call(&ctx, "history.verify", pd_text("{}"), &w->out, &w->err), PD_OK);
  assert_true(p.calls > 0 && p.last <= p.total);
  p.gives_up = true;
  assert_int_equal(pd_call(&ctx, "history.verify", pd_text("{}"), &w->out, &w->err), PD_INVALID);
  assert_string_equal(pd_error_name(&w->err), "Cancelled");
  world_ok(w, "history.verify", "{\"since\":\"main~3\"}");
  world_want(w, "ok", "true");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(history_get__reads_at_ids_refs_times_numbers_and_tags),
    TEST(history__the_points_are_of_main_whatever_ref_is_current),
    TEST(history__reading_makes_no_store),
    TEST(history__an_operator_without_an_agent_reads_only_what_is_shared),
    TEST(history_log__pages_go_on_after_their_cursor),
    TEST(history_log__since_until_and_prefix_filter),
    TEST(history_log__of_a_ref_tells_what_was_undone),
    TEST(history_list__pages_are_of_one_moment),
    TEST(history_list__an_erased_value_is_told_and_the_others_are_read),
    TEST(history_diff__pages_and_stops_at_the_prefix),
    TEST(history_key__pages_lead_back_to_the_first_version),
    TEST(history_blame__comes_in_pages),
    TEST(history__what_threads_and_runs_keep_is_no_part_of_it),
    TEST(history__what_policy_closes_stays_closed_in_the_past),
    TEST(history__shared_is_read_by_all_and_by_its_own_rules),
    TEST(history_check_proof__finds_every_changed_letter),
    TEST(history_verify__tells_its_progress_and_can_be_cancelled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
