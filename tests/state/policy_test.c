/* policy_test.c: policy.toml: what it may say, and what it then does to calls. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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
  write_policy(&w, "no_rules = true\n");
  w.now_ms += 1000;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL); /* what loosens is looked at twice */
  w.now_ms += 1000;
  world_ok(&w, GET, "{\"key\":\"a\"}");
  world_close(&w);
}

/* ---- what is not to be trusted ---- */

/* The rules are in force, and everybody is told why. */
static void stays_blocked(world *w, const char *problem)
{
  for (int i = 0; i < 3; i++) {
    w->now_ms += 1000;
    world_fails(w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  }
  operator_ok(w, "policy.list", "{}");
  if (!strstr(world_out(w, "problem"), problem)) fail_msg("%s is not in %s", problem, w->member);
  assert_string_equal(world_out(w, "rules.0.permission"), "\"blocked\"");
  operator_ok(w, "system.health", "{}");
  world_want(w, "status", "\"degraded\"");
  if (!strstr(world_out(w, "reasons"), "the rules from before stay in force")) fail_msg("%s", w->member);
}

#define BLOCKED RULE("state.shared.get", "permission = \"blocked\"")

static void policy__a_file_that_is_missing_empty_unreadable_or_cut_keeps_the_rules_in_force(void **state)
{
  (void)state;
  static const char *const files[][2] = {
    {"", "has no rules in it"},
    {"# all gone\n\n", "has no rules in it"},
    {"[[rule]]\ncapability = \"state.shared.get\"\n", "needs a 'permission'"},
    {"[[rule]]\ncapability = \"state.sha", "policy.toml:2"},
    {"rule_count = 2\n" BLOCKED, "'rule_count' is 2, and there are 1 rules: is the file whole?"},
    {"rule_count = 2\n", "'rule_count' is 2, and there are 0 rules"},
    {"rule_count = 0\n", "'rule_count' must be"},
    {"no_rules = false\n", "'no_rules' must be true"},
    {"no_rules = true\n" BLOCKED, "which is meant?"},
  };
  world w;
  world_open(&w, NULL);
  set_policy(&w, "rule_count = 1\n" BLOCKED);
  char *path = text_of("%s/policy.toml", w.folder);
  for (size_t i = 0; i < COUNT_OF(files); i++) {
    write_policy(&w, files[i][0]);
    stays_blocked(&w, files[i][1]);
    assert_int_equal(pd_home_reload(w.home, &w.err), PD_INVALID); /* nor when it is told to reload */
    world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  }
  assert_int_equal(unlink(path), 0);
  stays_blocked(&w, "is missing");
  assert_int_equal(pd_home_reload(w.home, &w.err), PD_INVALID);
  assert_int_equal(mkdir(path, 0700), 0);
  stays_blocked(&w, "policy.toml");
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(symlink("policy.toml", path), 0);
  stays_blocked(&w, "policy.toml");
  assert_int_equal(unlink(path), 0);
  alarm(60); /* who waited for a writer would hold all calls */
  assert_int_equal(mkfifo(path, 0600), 0);
  stays_blocked(&w, "policy.toml");
  alarm(0);
  assert_int_equal(unlink(path), 0);
  write_policy(&w, BLOCKED);
  w.now_ms += 1000;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  operator_ok(&w, "policy.list", "{}");
  world_want(&w, "problem", "null");
  set_policy(&w, "no_rules = true\n"); /* the way out */
  world_ok(&w, GET, "{\"key\":\"a\"}");
  assert_int_equal(unlink(path), 0); /* and then there may be none */
  set_policy(&w, "");
  world_ok(&w, GET, "{\"key\":\"a\"}");
  free(path);
  world_close(&w);
}

static void policy__a_home_that_had_rules_does_not_open_without_them(void **state)
{
  (void)state;
  world w;
  pd_home *second = NULL;
  world_open(&w, NULL);
  set_policy(&w, BLOCKED);
  char *path = text_of("%s/policy.toml", w.folder);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(pd_home_open(w.uri, NULL, &second, &w.err), PD_INVALID);
  assert_non_null(strstr(w.err.message, "policy.toml is missing, and this home had rules"));
  assert_non_null(strstr(w.err.message, "no_rules = true"));
  assert_int_equal(pd_policy_check(w.folder, &w.err), PD_INVALID);
  write_policy(&w, "");
  assert_int_equal(pd_home_open(w.uri, NULL, &second, &w.err), PD_INVALID);
  write_policy(&w, "no_rules = true\n");
  assert_int_equal(pd_policy_check(w.folder, &w.err), PD_OK);
  assert_int_equal(pd_home_open(w.uri, NULL, &second, &w.err), PD_OK);
  assert_int_equal(pd_home_close(second, NULL), PD_OK);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(pd_home_open(w.uri, NULL, &second, &w.err), PD_OK); /* it was said that there are none */
  assert_int_equal(pd_home_close(second, NULL), PD_OK);
  free(path);
  world_close(&w);
}

static void policy__a_file_that_lacks_rules_is_taken_when_it_has_come_to_rest(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_policy(&w, BLOCKED RULE("state.shared.list", "permission = \"blocked\""));
  for (int i = 0; i < 3; i++) { /* it is being written */
    char *part = text_of(RULE("state.shared.list", "permission = \"blocked\"") "# %0*d\n", i + 1, 0);
    write_policy(&w, part);
    w.now_ms += 1000;
    world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
    free(part);
  }
  w.now_ms += 1000;
  world_ok(&w, GET, "{\"key\":\"a\"}");
  world_fails(&w, "state.shared.list", "{}", "PermissionDenied", NULL);
  write_policy(&w, RULE("state.shared.list", "permission = \"blocked\"") BLOCKED); /* what only tightens is taken at once */
  w.now_ms += 1000;
  world_fails(&w, GET, "{\"key\":\"a\"}", "PermissionDenied", NULL);
  world_close(&w);
}

/* ---- what goes on ---- */

#define CLOSED(prefix) RULE("state.shared.*", "agent = \"alice\"\nprefix = \"" prefix "\"\npermission = \"blocked\"")

static void set_shared(world *w, const char *key)
{
  w->agent = "bob";
  world_okf(w, SET, "{\"key\":\"%s\",\"value\":1,\"expected_version\":0}", key);
  w->agent = "alice";
}

static void policy__reaches_subscriptions_and_what_they_have_queued(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.agent = "alice";
  world_begin_session(&w);
  world_ok(&w, "state.shared.watch", "{\"prefix\":\"\"}");
  set_shared(&w, "merger/queued");
  world_ok(&w, "queue.count", "{}"); /* moved into the queue, perhaps */
  set_policy(&w, CLOSED("merger/"));
  set_shared(&w, "merger/later");
  set_shared(&w, "news");
  for (bool has_news = false; !has_news;) {
    world_ok(&w, "queue.receive", "{\"max\":100,\"wait_ms\":20000}");
    if (strstr((const char *)w.out.data, "merger/")) fail_msg("%s", (const char *)w.out.data);
    has_news = strstr((const char *)w.out.data, "\"news\"") != NULL;
  }
  world_close(&w);
}

static void policy__reaches_briefings_which_say_what_is_left_out(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.agent = "alice";
  world_ok(&w, "state.persistent.set", "{\"key\":\"mine\",\"value\":1}");
  set_shared(&w, "merger/acme");
  set_shared(&w, "news");
  static const char since[] = "{\"since\":\"2020-01-01T00:00:00Z\",\"detail_level\":\"detailed\"}";
  world_ok(&w, "state.briefing.generate", since);
  assert_non_null(strstr((const char *)w.out.data, "merger/acme"));
  set_policy(&w, CLOSED("merger/"));
  world_ok(&w, "state.briefing.generate", since);
  assert_null(strstr((const char *)w.out.data, "merger/acme"));
  assert_non_null(strstr((const char *)w.out.data, "\"news\""));
  assert_non_null(strstr((const char *)w.out.data, "\"left_out\":\"some, by policy\""));
  set_policy(&w, RULE("state.shared.*", "agent = \"alice\"\npermission = \"blocked\""));
  world_ok(&w, "state.briefing.generate", since);
  assert_null(strstr((const char *)w.out.data, "\"news\""));
  assert_null(strstr((const char *)w.out.data, "bob"));
  assert_non_null(strstr((const char *)w.out.data, "\"left_out\":\"all, by policy\""));
  assert_non_null(strstr((const char *)w.out.data, "Policy keeps the shared state from you"));
  world_close(&w);
}

/* Each section is another way to what a capability tells. */
static void policy__a_section_of_a_briefing_is_closed_with_the_capability_that_tells_the_same(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"system.health", "health"},
    {"alerts.list", "alerts"},
    {"approvals.list", "pending_approvals"},
    {"approvals.list", "approval_decisions"},
    {"queue.count", "unread_messages"},
    {"process.list", "process_events"},
    {"folders.list", "filesystem_changes"},
  };
  static const char since[] = "{\"since\":\"2020-01-01T00:00:00Z\",\"detail_level\":\"detailed\"}";
  world w;
  world_open(&w, NULL);
  operator_ok(&w, "alerts.send", "{\"severity\":\"critical\",\"title\":\"SECRET\",\"message\":\"merger\"}");
  world_ok(&w, "state.briefing.generate", since);
  assert_non_null(strstr((const char *)w.out.data, "SECRET"));
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char *text = text_of("[[rule]]\ncapability = \"%s\"\npermission = \"blocked\"\n", cases[i][0]),
         *member = text_of("briefing.%s.left_out", cases[i][1]);
    set_policy(&w, text);
    world_ok(&w, "state.briefing.generate", since);
    world_want(&w, member, "\"all, by policy\"");
    assert_true((strstr((const char *)w.out.data, "SECRET") == NULL) == (strcmp(cases[i][1], "alerts") == 0));
    free(text), free(member);
  }
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
    cmocka_unit_test(policy__a_file_that_is_missing_empty_unreadable_or_cut_keeps_the_rules_in_force),
    cmocka_unit_test(policy__a_home_that_had_rules_does_not_open_without_them),
    cmocka_unit_test(policy__a_file_that_lacks_rules_is_taken_when_it_has_come_to_rest),
    cmocka_unit_test(policy__reaches_subscriptions_and_what_they_have_queued),
    cmocka_unit_test(policy__reaches_briefings_which_say_what_is_left_out),
    cmocka_unit_test(policy__a_section_of_a_briefing_is_closed_with_the_capability_that_tells_the_same),
    cmocka_unit_test(policy__tightening_does_not_wait_for_what_was_approved_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
