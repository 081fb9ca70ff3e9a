/* snapshot_view_test.c: a system snapshot as an agent sees it, and whose snapshots stay (N5, N6 of snapshot.h). */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void as(world *w, const char *agent, bool is_operator)
{
  w->agent = agent;
  w->is_operator = is_operator;
}

/* Bob has state, an alert and a pending approval; so has alice. */
static void plant(world *w)
{
  static const char *const agents[] = {"alice", "bob"};
  for (size_t i = 0; i < COUNT_OF(agents); i++) {
    as(w, agents[i], false);
    world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
    world_ok(w, "alerts.send", "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\"}");
    world_ok(w, "state.snapshot.create", "{}");
    assert_int_equal(world_callf(w, "state.snapshot.restore", "{\"snapshot_id\":%s}", world_out(w, "snapshot_id")), PD_APPROVAL);
    w->now_ms += 1000;
  }
}

static char *create(world *w)
{
  world_ok(w, "state.snapshot.create", "{}");
  w->now_ms += 1000;
  return world_text(w, "snapshot_id");
}

static void load(world *w, const char *id)
{
  world_okf(w, "state.snapshot.load", "{\"snapshot_id\":\"%s\"}", id);
}

static void snapshot__an_agent_sees_its_own_entries_and_totals(void **state)
{
  world *w = *state;
  static const char *const sections[] = {"agents", "approvals", "alerts", "resources", "health", "state", "timestamp", "sha256"};
  plant(w);
  as(w, NULL, true);
  char *id = create(w), name[64];
  load(w, id);
  assert_non_null(strstr((char *)w->out.data, "bob"));
  world_want(w, "snapshot.approvals.count", "2");
  as(w, "alice", false);
  load(w, id);
  if (strstr((char *)w->out.data, "bob")) fail_msg("%s", (char *)w->out.data);
  for (size_t i = 0; i < COUNT_OF(sections); i++) {
    snprintf(name, sizeof name, "snapshot.%s", sections[i]);
    assert_string_not_equal(world_out(w, name), "");
  }
  world_want(w, "snapshot.agents.0.name", "\"alice\"");
  world_want(w, "snapshot.agents.1", "");
  world_want(w, "snapshot.approvals.count", "1");
  world_want(w, "snapshot.approvals.pending.0.agent", "\"alice\"");
  world_want(w, "snapshot.alerts.newest.0.agent", "\"alice\"");
  world_want(w, "snapshot.alerts.newest.1", "");
  world_want(w, "snapshot.state.totals.stores", "3");
  world_want(w, "snapshot.state.stores.1.name", "\"system\"");
  world_want(w, "snapshot.state.stores.2", "");
  world_want(w, "snapshot.health.totals.agents", "2");
  world_want(w, "snapshot.health.status", "\"ok\"");
  world_want(w, "snapshot.created_by", "\"operator\"");
  free(id);
}

static void snapshot__who_made_it_is_told_of_the_caller_and_the_operator_alone(void **state)
{
  world *w = *state;
  plant(w);
  as(w, "bob", false);
  char *bobs = create(w);
  as(w, "bob", true); /* the operator, in the name of bob */
  char *operators = create(w);
  as(w, "alice", false);
  load(w, bobs);
  world_want(w, "snapshot.created_by", "\"another agent\"");
  load(w, operators);
  world_want(w, "snapshot.created_by", "\"operator\"");
  as(w, "bob", false);
  load(w, bobs);
  world_want(w, "snapshot.created_by", "\"bob\"");
  free(bobs);
  free(operators);
}

/* A reason of health that names another agent's store. */
static void snapshot__what_is_wrong_with_anothers_store_is_not_told(void **state)
{
  world *w = *state;
  plant(w);
  char *path = text_of("%s/agents/bob.db", w->folder), *other = text_of("%s/bob.db", w->folder);
  world_restart(w);
  FILE *f = fopen(path, "r+");
  if (!f) f = fopen(other, "r+");
  assert_non_null(f);
  assert_int_equal(fwrite("damaged damaged damaged damaged", 1, 31, f), 31);
  assert_int_equal(fclose(f), 0);
  as(w, NULL, true);
  char *id = create(w);
  load(w, id);
  assert_string_not_equal(world_out(w, "snapshot.health.status"), "\"ok\"");
  assert_non_null(strstr(world_out(w, "snapshot.health.reasons"), "bob"));
  as(w, "alice", false);
  load(w, id);
  if (strstr((char *)w->out.data, "bob")) fail_msg("%s", (char *)w->out.data);
  assert_string_not_equal(world_out(w, "snapshot.health.status"), "\"ok\"");
  free(id);
  free(path);
  free(other);
}

static bool has(world *w, const char *id)
{
  return world_callf(w, "state.snapshot.load", "{\"snapshot_id\":\"%s\"}", id) == PD_OK;
}

static void snapshot__nobody_pushes_out_anothers(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[test.snapshot]\nkeep = 2\n");
  plant(&w);
  char *ids[5];
  as(&w, NULL, true);
  ids[0] = create(&w);
  as(&w, "bob", false);
  ids[1] = create(&w);
  as(&w, "alice", true); /* the operator's, too */
  ids[2] = create(&w);
  as(&w, "operator", false); /* an agent that is called so is no operator */
  for (int i = 0; i < 5; i++) free(create(&w));
  as(&w, "alice", false);
  for (int i = 0; i < 4; i++) free(create(&w));
  world_want(&w, "removed_count", "1");
  for (int i = 0; i < 3; i++) assert_true(has(&w, ids[i]));
  world_ok(&w, "state.snapshot.list", "{}");
  world_want(&w, "count", "8"); /* two each: of alice, bob, the agent that is called operator, and the operator */
  as(&w, NULL, true);
  ids[3] = create(&w);
  world_want(&w, "removed_count", "1"); /* the operator's own oldest */
  assert_false(has(&w, ids[0]));
  assert_true(has(&w, ids[1]));
  for (int i = 0; i < 4; i++) free(ids[i]);
  world_close(&w);
}

#define VIEW_TEST(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    VIEW_TEST(snapshot__an_agent_sees_its_own_entries_and_totals),
    VIEW_TEST(snapshot__who_made_it_is_told_of_the_caller_and_the_operator_alone),
    VIEW_TEST(snapshot__what_is_wrong_with_anothers_store_is_not_told),
    cmocka_unit_test(snapshot__nobody_pushes_out_anothers),
  };
  return cmocka_run_group_tests_name("state snapshot_view", tests, NULL, NULL);
}
