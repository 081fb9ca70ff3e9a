/* snapshot_restore_test.c: state.snapshot.restore: a snapshot as a restore point. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static pd_store *open_store(world *w, const char *agent)
{
  pd_store *s = NULL;
  if (pd_store_open(w->uri, agent, NULL, &s, &w->err)) fail_msg("%s", w->err.message);
  return s;
}

static void put(world *w, const char *agent, const char *key, const char *value)
{
  pd_store *s = open_store(w, agent);
  if (pd_put(s, pd_text(key), pd_text(value), NULL, NULL, &w->err)) fail_msg("%s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

static void want(world *w, const char *agent, const char *at, const char *key, const char *value)
{
  pd_store *s = open_store(w, agent);
  pd_buf got = {0};
  pd_code code = pd_get(s, at, pd_text(key), &got, NULL, &w->err);
  if (value && code) fail_msg("%s %s: %s", agent, key, w->err.message);
  if (value && !pd_bytes_equal(pd_buf_bytes(&got), pd_text(value))) fail_msg("%s %s: %.*s", agent, key, (int)got.size, (char *)got.data);
  if (!value) assert_int_equal(code, PD_NOT_FOUND);
  pd_buf_done(&got);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

/* ada, bob and the shared state, a snapshot, and what came after it. */
static void set_up(world *w)
{
  world_open(w, NULL);
  put(w, "ada", "k", "1");
  put(w, "bob", "k", "1");
  put(w, "shared", "plan", "\"a\"");
  world_ok(w, "alerts.send", "{\"severity\":\"info\",\"title\":\"before\",\"message\":\"m\"}");
  world_ok(w, "state.snapshot.create", "{}");
  put(w, "ada", "k", "2");
  put(w, "ada", "new", "2");
  put(w, "shared", "plan", "\"b\"");
  put(w, "eve", "k", "later");
  w->is_operator = true;
  w->now_ms += 1000;
  world_ok(w, "alerts.send", "{\"severity\":\"info\",\"title\":\"after\",\"message\":\"m\"}");
}

#define BEFORE "before-restore/snap-20261115T100000Z"

static void snapshot_restore__effect_1__every_store_is_as_it_was(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  assert_string_equal(world_out(&w, "restored"), "true");
  assert_string_equal(world_out(&w, "stores.0.name"), "\"ada\"");
  assert_string_equal(world_out(&w, "stores.0.changed"), "true");
  assert_string_equal(world_out(&w, "stores.0.before"), "\"" BEFORE "\"");
  assert_string_equal(world_out(&w, "stores.1.changed"), "false");
  assert_string_equal(world_out(&w, "stores.1.before"), "null");
  want(&w, "ada", "main", "k", "1");
  want(&w, "ada", "main", "new", NULL);
  want(&w, "bob", "main", "k", "1");
  want(&w, "shared", "main", "plan", "\"a\"");
  want(&w, "eve", "main", "k", "later"); /* what the snapshot does not know stays */
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "total"), "2"); /* the system's own records stay */
  world_close(&w);
}

static void snapshot_restore__effect_2__what_was_replaced_is_a_ref(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  want(&w, "ada", BEFORE, "new", "2");
  want(&w, "shared", BEFORE, "plan", "\"b\"");
  put(&w, "ada", "k", "3");
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  want(&w, "ada", "main", "k", "1");
  want(&w, "ada", BEFORE, "k", "2");
  want(&w, "ada", BEFORE "-2", "k", "3");
  world_close(&w);
}

static void snapshot_restore__in_agent__restores_that_agent_alone(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\",\"agent\":\"ada\"}");
  want(&w, "ada", "main", "k", "1");
  want(&w, "shared", "main", "plan", "\"b\"");
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\",\"agent\":\"eve\"}", "RestoreImpossible", "choose");
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\",\"agent\":\"../x\"}", "InvalidInput", NULL);
  world_close(&w);
}

static void snapshot_restore__in_dry_run__changes_nothing(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\",\"dry_run\":true}");
  assert_string_equal(world_out(&w, "restored"), "false");
  assert_string_equal(world_out(&w, "stores.0.changed"), "true"); /* would be */
  assert_string_equal(world_out(&w, "stores.1.changed"), "false");
  want(&w, "ada", "main", "k", "2");
  world_close(&w);
}

/* A store whose state is gone: nothing is changed in any. */
static void snapshot_restore__err_RestoreImpossible__changes_nothing(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  world_restart(&w);
  char *path = text_of("rm %s/bob.db*", w.folder);
  assert_int_equal(system(path), 0);
  free(path);
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}", "RestoreImpossible", "choose");
  assert_non_null(strstr(w.err.message, "bob"));
  want(&w, "ada", "main", "k", "2");
  want(&w, "shared", "main", "plan", "\"b\"");
  put(&w, "bob", "k", "another history");
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}", "RestoreImpossible", "choose");
  want(&w, "ada", "main", "k", "2");
  world_close(&w);
}

static void snapshot_restore__err_SnapshotNotFound__names_the_snapshot(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100009Z\"}", "SnapshotNotFound", "list_snapshots");
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"../x\"}", "InvalidInput", NULL);
  world_close(&w);
}

/* After gc has taken all that is not needed, the snapshot can still be restored. */
static void snapshot_restore__works_after_gc(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  pd_store *s = open_store(&w, "ada");
  for (int i = 0; i < 10; i++) {
    char value[8];
    snprintf(value, sizeof value, "%d", i);
    assert_int_equal(pd_put(s, pd_text("k"), pd_text(value), NULL, NULL, &w.err), PD_OK);
  }
  pd_gc_policy policy = {.keep_last = 1};
  if (pd_gc(s, &policy, NULL, &w.err)) fail_msg("%s", w.err.message);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  want(&w, "ada", "main", "k", "1");
  want(&w, "ada", BEFORE, "k", "9");
  world_close(&w);
}

static void snapshot_restore__an_agent_needs_approval(void **state)
{
  (void)state;
  world w;
  set_up(&w);
  w.is_operator = false;
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}", "ApprovalRequired", "wait");
  want(&w, "ada", "main", "k", "2");
  world_ok(&w, "state.briefing.generate", "{\"detail_level\":\"detailed\"}");
  assert_string_equal(world_out(&w, "briefing.pending_approvals.approvals.0.capability"), "\"state.snapshot.restore\"");
  char *input = text_of("{\"approval_id\":%s}", world_out(&w, "briefing.pending_approvals.approvals.0.approval_id"));
  w.is_operator = true;
  world_ok(&w, "approvals.approve", input);
  free(input);
  w.is_operator = false;
  world_ok(&w, "state.briefing.generate", "{\"since\":\"2026-11-15T10:00:00Z\"}");
  assert_string_equal(world_out(&w, "briefing.approval_decisions.approved"), "1");
  assert_string_equal(world_out(&w, "briefing.pending_approvals.count"), "0");
  world_ok(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  want(&w, "ada", "main", "k", "1");
  world_fails(&w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}", "ApprovalRequired",
              "wait"); /* it was good once */
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(snapshot_restore__effect_1__every_store_is_as_it_was),
    cmocka_unit_test(snapshot_restore__effect_2__what_was_replaced_is_a_ref),
    cmocka_unit_test(snapshot_restore__in_agent__restores_that_agent_alone),
    cmocka_unit_test(snapshot_restore__in_dry_run__changes_nothing),
    cmocka_unit_test(snapshot_restore__err_RestoreImpossible__changes_nothing),
    cmocka_unit_test(snapshot_restore__err_SnapshotNotFound__names_the_snapshot),
    cmocka_unit_test(snapshot_restore__works_after_gc),
    cmocka_unit_test(snapshot_restore__an_agent_needs_approval),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
