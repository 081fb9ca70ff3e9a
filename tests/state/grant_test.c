/* grant_test.c: nothing runs and no agent's store is opened without a grant of authorise.c (AU4). */
#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "state/authorise.h"
#include "state/world.h"

#include <perdure/follow.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- calls ---- */

/* What the dispatcher would run, without asking authorise.c. */
static pd_code run_planted(world *w, const char *capability, const char *input, const pd_grant *grant, pd_buf *out)
{
  CLEANUP(pd_input_done) pd_input parsed;
  pd_ctx ctx = {.home = w->home, .agent = "main"};
  assert_int_equal(pd_input_parse(pd_capability_get(capability), pd_text(input), &parsed, &w->err), PD_OK);
  pd_frame frame = {.ctx = &ctx, .home = w->home, .agent = "main", .capability = parsed.capability, .input = &parsed, .out = {.out = out}};
  if (grant) frame.grant = *grant;
  return pd_capability_run(&frame, &w->err);
}

static void grant__a_capability_does_not_run_without_one(void **state)
{
  world *w = *state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":\"secret\"}");
  assert_int_equal(run_planted(w, "state.persistent.get", "{\"key\":\"k\"}", NULL, &out), PD_DENIED);
  assert_string_equal(pd_error_name(&w->err), "PermissionDenied");
  assert_int_equal(out.size, 0);
  assert_int_equal(run_planted(w, "tokens.list", "{}", NULL, &out), PD_DENIED); /* that opens no agent's store */
  assert_int_equal(out.size, 0);
}

static void grant__one_for_another_capability_is_none(void **state)
{
  world *w = *state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_ctx who = {.home = w->home, .agent = "main"};
  pd_grant read;
  assert_int_equal(pd_authorise_read(&who, "state.persistent.list", NULL, pd_text("k"), &read, &w->err), PD_OK);
  assert_int_equal(run_planted(w, "state.persistent.delete", "{\"key\":\"k\"}", &read, &out), PD_DENIED);
  assert_int_equal(run_planted(w, "state.persistent.get", "{\"key\":\"k\"}", &read, &out), PD_DENIED);
}

static void grant__every_capability_refuses_to_run_without_one(void **state)
{
  world *w = *state;
  pd_ctx ctx = {.home = w->home, .agent = "main"};
  pd_input input = {0};
  for (size_t i = 0; i < pd_capability_count; i++) { /* no function is reached: it would find no input */
    input.capability = &pd_capabilities[i];
    pd_frame frame = {.ctx = &ctx, .home = w->home, .agent = "main", .capability = &pd_capabilities[i], .input = &input};
    if (pd_capability_run(&frame, &w->err) != PD_DENIED) fail_msg("%s ran without a grant", pd_capabilities[i].name);
  }
}

/* ---- stores ---- */

static void grant__no_store_is_opened_without_one(void **state)
{
  world *w = *state;
  pd_store *store = NULL;
  pd_held *held = NULL;
  pd_follower follower = {0};
  pd_grant none = {0}, own = {.granted_by = &own, .home = w->home, .capability = "mine", .writes = true, .is_of_all = true};
  world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  const pd_grant *const bad[] = {NULL, &none, &own};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    assert_int_equal(pd_home_borrow(bad[i], "main", false, &store, &w->err), PD_DENIED);
    assert_int_equal(pd_home_hold(bad[i], "main", false, &held, &w->err), PD_DENIED);
    assert_null(pd_home_hold_opened(bad[i], "main"));
    pd_disk_refuse(); /* as where connections are served */
    assert_int_equal(pd_home_hold(bad[i], "main", true, &held, &w->err), PD_DENIED);
    (void)pd_disk_allow();
    assert_int_equal(pd_follow_open(bad[i], "main", &follower, &w->err), PD_DENIED);
  }
  assert_null(store);
  assert_null(held);
}

static void grant__one_is_for_its_store_and_the_shared_one(void **state)
{
  world *w = *state;
  pd_store *store = NULL;
  pd_ctx who = {.home = w->home, .agent = "main"};
  pd_grant grant;
  world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  w->agent = "other";
  world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  assert_int_equal(pd_authorise_read(&who, "state.persistent.get", NULL, pd_text("k"), &grant, &w->err), PD_OK);
  assert_int_equal(pd_home_borrow(&grant, "main", false, &store, &w->err), PD_OK);
  pd_home_return(w->home, store);
  assert_int_equal(pd_home_borrow(&grant, "shared", true, &store, &w->err), PD_OK);
  pd_home_return(w->home, store);
  assert_int_equal(pd_home_borrow(&grant, "other", false, &store, &w->err), PD_DENIED);
  assert_int_equal(pd_home_borrow(&grant, "system", false, &store, &w->err), PD_DENIED);
}

static void grant__a_refusal_gives_none(void **state)
{
  world *w = *state;
  pd_store *store = NULL;
  pd_ctx who = {.home = w->home, .agent = "main"};
  pd_grant grant = {0};
  assert_int_equal(pd_authorise_read(&who, "state.persistent.get", "other", pd_text("k"), &grant, &w->err), PD_DENIED);
  assert_int_equal(pd_home_borrow(&grant, "other", false, &store, &w->err), PD_DENIED);
  assert_int_equal(pd_authorise_operator(&who, "home.sign", true, &grant, &w->err), PD_DENIED);
  assert_int_equal(pd_home_borrow(&grant, "main", false, &store, &w->err), PD_DENIED);
}

static void grant__an_auditors_makes_no_store(void **state)
{
  world *w = *state;
  pd_store *store = NULL;
  pd_ctx who = {.home = w->home, .agent = "ghost", .is_operator = true, .is_onlooker = true};
  pd_grant grant;
  assert_int_equal(pd_authorise_read(&who, "state.persistent.get", NULL, pd_text("k"), &grant, &w->err), PD_OK);
  assert_int_equal(pd_home_borrow(&grant, "ghost", true, &store, &w->err), PD_DENIED);
  assert_int_equal(pd_home_borrow(&grant, "ghost", false, &store, &w->err), PD_NOT_FOUND);
  assert_int_equal(pd_authorise_operator(&who, "home.key", true, &grant, &w->err), PD_DENIED);
  assert_int_equal(pd_authorise_operator(&who, "home.key", false, &grant, &w->err), PD_OK);
}

static void grant__the_homes_own_work_is_a_list(void **state)
{
  world *w = *state;
  pd_grant grant = {0};
  assert_int_equal(pd_authorise_work(w->home, "anything", &grant, &w->err), PD_DENIED);
  assert_int_equal(pd_authorise_work(w->home, "", &grant, &w->err), PD_DENIED);
  assert_int_equal(pd_authorise_work(w->home, "follow", &grant, &w->err), PD_OK);
  pd_store *store = NULL;
  assert_int_equal(pd_home_borrow(&grant, "ghost", true, &store, &w->err), PD_DENIED); /* it only reads */
}

static void grant__each_way_to_decide_is_counted(void **state)
{
  world *w = *state;
  pd_ctx who = {.home = w->home, .agent = "main"};
  uint64_t before = pd_authorise_count(w->home);
  world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  assert_int_equal(pd_authorise_count(w->home), before + 1);
  world_fails(w, "no.such", "{}", "UnknownCapability", NULL);
  assert_int_equal(pd_authorise_count(w->home), before + 2);
  (void)pd_authorise_any(&who, "state.persistent.get", true);
  (void)!pd_authorise_read(&who, "state.persistent.get", NULL, pd_text("k"), NULL, NULL);
  (void)!pd_authorise_operator(&who, "home.key", false, NULL, NULL);
  assert_int_equal(pd_authorise_count(w->home), before + 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(grant__a_capability_does_not_run_without_one),
    TEST(grant__one_for_another_capability_is_none),
    TEST(grant__every_capability_refuses_to_run_without_one),
    TEST(grant__no_store_is_opened_without_one),
    TEST(grant__one_is_for_its_store_and_the_shared_one),
    TEST(grant__a_refusal_gives_none),
    TEST(grant__an_auditors_makes_no_store),
    TEST(grant__the_homes_own_work_is_a_list),
    TEST(grant__each_way_to_decide_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
