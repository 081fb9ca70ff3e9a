/* policy_test.c: policy.toml: what it may say, and what it then does to calls. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define GET "state.shared.get"
#define SET "state.shared.set"
#define RULE(capability, rest) "[[rule]]\ncapability = \"" capability "\"\n" rest "\n"

static void write_policy(world *w, const char *text)
{
  char *path = text_of("%s/policy.toml", w->folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  free(path);
}

static void set_policy(world *w, const char *text)
{
  write_policy(w, text);
  if (pd_home_reload(w->home, &w->err)) fail_msg("%s", w->err.message);
}

static void operator_ok(world *w, const char *capability, const char *input)
{
  w->is_operator = true;
  world_ok(w, capability, input);
  w->is_operator = false;
}

static void check_is(world *w, const char *agent, const char *capability, const char *key, const char *permission)
{
  char input[300], quoted[40];
  snprintf(input, sizeof input, "{\"agent\":\"%s\",\"capability\":\"%s\"%s%s%s}", agent, capability, key ? ",\"key\":\"" : "",
           key ? key : "", key ? "\"" : "");
  operator_ok(w, "policy.check", input);
  snprintf(quoted, sizeof quoted, "\"%s\"", permission);
  assert_string_equal(world_out(w, "permission"), quoted);
}

static void policy__without_a_file_capabilities_speak_for_themselves(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, GET, "{\"key\":\"a\"}");
  check_is(&w, "main", SET, NULL, "notify");
  operator_ok(&w, "policy.list", "{}");
  assert_string_equal(world_out(&w, "rules"), "[]");
  assert_string_equal(world_out(&w, "problem"), "null");
  world_close(&w);
}

static void policy__blocks_by_capability_agent_and_prefix(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_policy(
    &w, "# secrets\n" RULE("state.shared.*", "agent = \"intern-?\"\nprefix = \"pay/\"\npermission = \"blocked\"\nreason = \"no money\""));
  w.agent = "intern-1";
  world_fails(&w, GET, "{\"key\":\"pay/me\"}", "PermissionDenied", "ask");
  assert_non_null(strstr(w.err.message, "no money"));
  world_fails(&w, GET, "{\"key\":\"p\\u0061y/me\"}", "PermissionDenied", NULL);
  world_fails(&w, "state.shared.list", "{}", "PermissionDenied", NULL);
  world_fails(&w, "state.shared.list", "{\"prefix\":\"pa\"}", "PermissionDenied", NULL);
  world_fails(&w, "state.shared.list", "{\"prefix\":\"pay/x\"}", "PermissionDenied", NULL);
  world_ok(&w, "state.shared.list", "{\"prefix\":\"play\"}");
  world_ok(&w, GET, "{\"key\":\"pay\"}");
  w.agent = "intern-12";
  world_ok(&w, GET, "{\"key\":\"pay/me\"}");
  w.agent = "main";
  world_ok(&w, GET, "{\"key\":\"pay/me\"}");
  check_is(&w, "intern-1", GET, "pay/me", "blocked");
  assert_string_equal(world_out(&w, "rule_line"), "2");
  assert_string_equal(world_out(&w, "reason"), "\"no money\"");
  check_is(&w, "intern-1", GET, "other", "autonomous");
  check_is(&w, "intern-1", GET, NULL, "blocked"); /* at worst */
  check_is(&w, "main", GET, "pay/me", "autonomous");
  world_close(&w);
}

static void policy__blocked_holds_for_the_operator_too(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_policy(&w, RULE("state.shared.get", "permission = \"blocked\""));
  w.is_operator = true;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  set_policy(&w, RULE("state.shared.get", "permission = \"operator\""));
  world_ok(&w, GET, "{\"key\":\"a\"}");
  w.is_operator = false;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  world_close(&w);
}

static void policy__notify_runs_and_tells_the_feed(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, GET, "{\"key\":\"before\"}");
  set_policy(&w, RULE("state.*", "permission = \"notify\""));
  world_ok(&w, GET, "{\"key\":\"after\"}");
  operator_ok(&w, "operator.feed", "{}");
  assert_string_equal(world_out(&w, "lines.0.subject"), "\"after\"");
  assert_string_equal(world_out(&w, "lines.1"), "");
  world_close(&w);
}

static void policy__the_strictest_of_all_rules_is_in_force(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_policy(&w, RULE("*", "permission = \"notify\"") RULE("state.shared.set", "permission = \"blocked\"")
                   RULE("state.shared.*", "permission = \"approval\""));
  check_is(&w, "main", SET, "k", "blocked");
  assert_string_equal(world_out(&w, "rule_line"), "4");
  check_is(&w, "main", GET, "k", "approval");
  check_is(&w, "main", "state.session.get", "k", "notify");
  check_is(&w, "main", "audit.verify", NULL, "operator"); /* "*" does not loosen it */
  assert_string_equal(world_out(&w, "rule_line"), "null");
  world_close(&w);
}

static void policy__a_wrong_file_is_refused_with_its_line(void **state)
{
  (void)state;
  static const char *const files[][2] = {
    {"x = 1\n", "policy.toml:1: "},
    {"\n[rule]\ncapability = \"*\"\n", "policy.toml:2: a policy has only [[rule]]"},
    {"[[rules]]\n", "policy.toml:1: a policy has only [[rule]]"},
    {RULE("*", ""), "policy.toml:1: this rule needs a 'permission'"},
    {"[[rule]]\npermission = \"blocked\"\n", "policy.toml:1: this rule names no 'capability'"},
    {RULE("*", "permission = \"never\""), "policy.toml:3: 'permission' must be one of"},
    {RULE("*", "permission = 3"), "policy.toml:3: 'permission' must be one of"},
    {RULE("*", "permission = \"blocked\"\ncolour = \"red\""), "policy.toml:4: there is no 'colour'"},
    {RULE("*", "permission = \"blocked\"\npermission = \"notify\""), "policy.toml:4"},
    {RULE("", "permission = \"blocked\""), "policy.toml:2: 'capability' must be"},
    {RULE("no.such", "permission = \"blocked\""), "policy.toml:1: no capability fits 'no.such'"},
    {RULE("*", "permission = \"autonomous\""), "only tighten"},
    {RULE("audit.verify", "permission = \"notify\""), "policy.toml:1: 'notify' would loosen audit.verify, which is operator"},
    {RULE("policy.*", "permission = \"approval\""), "would loosen"},
    {RULE("audit.verify", "permission = \"blocked\"\nprefix = \"a\""), "has no keys"},
    {RULE("*", "permission = \"approval\"\nttl = \"soon\""), "policy.toml:4: 'ttl'"},
    {RULE("*", "permission = \"approval\"\nttl = \"99999 d\""), "policy.toml:4: 'ttl'"},
    {RULE("*", "permission = \"blocked\"\nagent = [\"a\"]"), "policy.toml:4: 'agent'"},
    {"[[rule]\n", "policy.toml:1"},
  };
  world w;
  world_open(&w, NULL);
  for (size_t i = 0; i < COUNT_OF(files); i++) {
    write_policy(&w, files[i][0]);
    assert_int_equal(pd_home_reload(w.home, &w.err), PD_INVALID);
    if (!strstr(w.err.message, files[i][1])) fail_msg("%s\nsays: %s", files[i][0], w.err.message);
  }
  pd_home *second = NULL;
  assert_int_equal(pd_home_open(w.uri, NULL, &second, &w.err), PD_INVALID);
  assert_non_null(strstr(w.err.message, "policy.toml:1"));
  write_policy(&w, "");
  assert_int_equal(pd_home_reload(w.home, &w.err), PD_OK);
  world_close(&w);
}

static void policy__a_changed_file_is_seen_within_a_second(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, GET, "{\"key\":\"a\"}");
  write_policy(&w, RULE("state.shared.get", "permission = \"blocked\""));
  w.now_ms += 1000;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  write_policy(&w, RULE("state.shared.get", "permission = \"blocked\"\nnonsense = 1"));
  w.now_ms += 1000;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL); /* what was in force before a mistake stays */
  operator_ok(&w, "policy.list", "{}");
  assert_non_null(strstr(world_out(&w, "problem"), "policy.toml:4"));
  assert_string_equal(world_out(&w, "rules.0.permission"), "\"blocked\"");
  char *path = text_of("%s/policy.toml", w.folder);
  assert_int_equal(unlink(path), 0);
  free(path);
  w.now_ms += 1000;
  world_ok(&w, GET, "{\"key\":\"a\"}");
  world_close(&w);
}

static void policy__tightening_does_not_wait_for_what_was_approved_before(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_policy(&w, RULE("state.shared.get", "permission = \"approval\""));
  world_fails(&w, GET, "{\"key\":\"a\"}", "ApprovalRequired", "wait");
  char input[100];
  snprintf(input, sizeof input, "{\"approval_id\":%s}", world_out(&w, "error.details.approval_id"));
  operator_ok(&w, "approvals.approve", input);
  set_policy(&w, RULE("state.shared.get", "permission = \"blocked\""));
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(policy__without_a_file_capabilities_speak_for_themselves),
    cmocka_unit_test(policy__blocks_by_capability_agent_and_prefix),
    cmocka_unit_test(policy__blocked_holds_for_the_operator_too),
    cmocka_unit_test(policy__notify_runs_and_tells_the_feed),
    cmocka_unit_test(policy__the_strictest_of_all_rules_is_in_force),
    cmocka_unit_test(policy__a_wrong_file_is_refused_with_its_line),
    cmocka_unit_test(policy__a_changed_file_is_seen_within_a_second),
    cmocka_unit_test(policy__tightening_does_not_wait_for_what_was_approved_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
