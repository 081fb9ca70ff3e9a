/*
 * errors_test.c: failures that are a capability's own, provoked one by one: the code, the recovery, and that nothing came of the call.
 * Those of the other capabilities are with the rest of their tests.
 */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- times ---- */

/* No text of a time, times that do not exist, and half ones. */
static void refuse_times(world *w, const char *capability)
{
  static const char *const times[] = {
    "",          "yesterday", "2026", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-15T25:00:00Z", "2026-11-15T10:00:00Zulu",
    "1794736800"};
  for (size_t i = 0; i < COUNT_OF(times); i++) {
    char *input = text_of("{\"since\":\"%s\"}", times[i]);
    world_fails(w, capability, input, "InvalidTimestamp", "fix_format");
    free(input);
  }
  world_ok(w, capability, "{\"since\":\"2026-11-15T10:00:00Z\"}");
}

static void alerts_list__err_InvalidTimestamp__for_whatever_is_no_time(void **state)
{
  refuse_times(*state, "alerts.list");
}

static void process_list__err_InvalidTimestamp__for_whatever_is_no_time(void **state)
{
  refuse_times(*state, "process.list");
}

/* ---- approvals ---- */

/* A request of main that waits: the input that names it. Freed by the caller. */
static char *ask(world *w)
{
  world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":1}");
  world_fails(w, "history.reset", "{\"to\":\"root\"}", "ApprovalRequired", "wait");
  return text_of("{\"approval_id\":%s}", world_out(w, "error.details.approval_id"));
}

static void status_is(world *w, const char *named, const char *status)
{
  world_ok(w, "approvals.show", named);
  assert_string_equal(world_out(w, "approval.status"), status);
}

static void refuse_to_agents(world *w, const char *capability)
{
  char *named = ask(w);
  world_fails(w, capability, named, "PermissionDenied", "ask");
  w->agent = "sly";
  world_fails(w, capability, named, "PermissionDenied", "ask");
  w->agent = "main";
  status_is(w, named, "\"pending\"");
  free(named);
}

static void refuse_unknown(world *w, const char *capability)
{
  char *named = ask(w);
  w->is_operator = true;
  world_fails(w, capability, "{\"approval_id\":\"apr-none\"}", "ApprovalNotFound", "list_approvals");
  assert_non_null(strstr(w->err.message, "apr-none"));
  world_fails(w, capability, "{\"approval_id\":\"../x\"}", "InvalidInput", "correct");
  world_fails(w, capability, "{}", "InvalidInput", "correct");
  status_is(w, named, "\"pending\"");
  free(named);
}

static void approvals_approve__err_PermissionDenied__agents_do_not_decide(void **state)
{
  refuse_to_agents(*state, "approvals.approve");
}

static void approvals_deny__err_PermissionDenied__agents_do_not_decide(void **state)
{
  refuse_to_agents(*state, "approvals.deny");
}

static void approvals_approve__err_ApprovalNotFound__an_unknown_id(void **state)
{
  refuse_unknown(*state, "approvals.approve");
}

static void approvals_deny__err_ApprovalNotFound__an_unknown_id(void **state)
{
  refuse_unknown(*state, "approvals.deny");
}

static void approvals_list__err_PermissionDenied__of_another_agent(void **state)
{
  world *w = *state;
  char *named = ask(w);
  w->agent = "sly";
  world_fails(w, "approvals.list", "{\"agent\":\"main\"}", "PermissionDenied", "omit_agent");
  world_ok(w, "approvals.list", "{\"agent\":\"sly\"}");
  assert_string_equal(world_out(w, "count"), "0");
  w->is_operator = true;
  world_ok(w, "approvals.list", "{\"agent\":\"main\"}");
  assert_string_equal(world_out(w, "count"), "1");
  free(named);
}

/* ---- what is the operator's ---- */

static void operator_may(world *w, const char *capability, const char *input)
{
  w->is_operator = true;
  world_ok(w, capability, input);
}

static void audit_list__err_PermissionDenied__of_another_agent(void **state)
{
  world *w = *state;
  w->agent = "other";
  world_fails(w, "audit.list", "{\"agent\":\"main\"}", "PermissionDenied", "omit_agent");
  world_ok(w, "audit.list", "{\"agent\":\"other\"}");
  operator_may(w, "audit.list", "{\"agent\":\"main\"}");
}

static void audit_verify__err_PermissionDenied__is_the_operators(void **state)
{
  world_fails(*state, "audit.verify", "{}", "PermissionDenied", "ask");
  operator_may(*state, "audit.verify", "{}");
}

static void operator_feed__err_PermissionDenied__is_the_operators(void **state)
{
  world_fails(*state, "operator.feed", "{}", "PermissionDenied", "own_lines");
  operator_may(*state, "operator.feed", "{}");
}

static void policy_list__err_PermissionDenied__is_the_operators(void **state)
{
  world_fails(*state, "policy.list", "{}", "PermissionDenied", "ask");
  operator_may(*state, "policy.list", "{}");
}

static void policy_check__err_PermissionDenied__is_the_operators(void **state)
{
  static const char input[] = "{\"agent\":\"main\",\"capability\":\"audit.list\"}";
  world_fails(*state, "policy.check", input, "PermissionDenied", "ask");
  operator_may(*state, "policy.check", input);
}

static void policy_check__err_UnknownCapability__names_what_is_not_there(void **state)
{
  world *w = *state;
  w->is_operator = true;
  world_fails(w, "policy.check", "{\"agent\":\"main\",\"capability\":\"state.sesion.get\"}", "UnknownCapability", "list");
  assert_non_null(strstr(w->err.message, "state.sesion.get"));
  world_fails(w, "policy.check", "{\"agent\":\"main\",\"capability\":\"state.*\"}", "UnknownCapability", "list");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(alerts_list__err_InvalidTimestamp__for_whatever_is_no_time),    TEST(process_list__err_InvalidTimestamp__for_whatever_is_no_time),
    TEST(approvals_approve__err_PermissionDenied__agents_do_not_decide), TEST(approvals_deny__err_PermissionDenied__agents_do_not_decide),
    TEST(approvals_approve__err_ApprovalNotFound__an_unknown_id),        TEST(approvals_deny__err_ApprovalNotFound__an_unknown_id),
    TEST(approvals_list__err_PermissionDenied__of_another_agent),        TEST(audit_list__err_PermissionDenied__of_another_agent),
    TEST(audit_verify__err_PermissionDenied__is_the_operators),          TEST(operator_feed__err_PermissionDenied__is_the_operators),
    TEST(policy_list__err_PermissionDenied__is_the_operators),           TEST(policy_check__err_PermissionDenied__is_the_operators),
    TEST(policy_check__err_UnknownCapability__names_what_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
