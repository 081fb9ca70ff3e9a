/* call_test.c: the door, whatever the capability. */
#include "state/world.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void call__an_unknown_capability_is_named_with_the_nearest(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_fails(&w, "state.sesion.get", "{}", "UnknownCapability", "list");
  assert_non_null(strstr(w.err.message, "state.session.get"));
  world_fails(&w, "session.set", "{}", "UnknownCapability", "list");
  assert_non_null(strstr(w.err.message, "'state.session.set'?"));
  world_fails(&w, "make.coffee.now", "{}", "UnknownCapability", "list");
  assert_null(strstr(w.err.message, "did you mean"));
  world_close(&w);
}

static void call__input_that_the_schema_does_not_know_is_refused_by_name(void **state)
{
  (void)state;
  static const char *const inputs[][2] = {
    {"{}", "'key' is missing"},
    {"{\"key\":1}", "'key' must be a string"},
    {"{\"key\":null}", "'key' must be a string"},
    {"{\"kex\":\"a\"}", "\"kex\""},
    {"{\"key\":\"a\",\"key\":\"b\"}", "appears twice"},
    {"{\"key\":\"a\",\"k\\u0065y\":\"b\"}", "appears twice"},
    {"[]", "must be a JSON object"},
    {"{\"key\":\"a\"", "no JSON"},
    {"{\"key\":\"\xff\"}", "no JSON"},
    {"{\"key\":\"a\\nb\"}", "control character"},
    {"{\"key\":\"\"}", "is empty"},
    {"{\"key\":\"\\ud800\"}", "no character"},
  };
  world w;
  world_open(&w, NULL);
  for (size_t i = 0; i < COUNT_OF(inputs); i++) {
    world_fails(&w, "state.session.get", inputs[i][0], "InvalidInput", "correct");
    if (!strstr(w.err.message, inputs[i][1])) fail_msg("%s: %s", inputs[i][0], w.err.message);
  }
  world_close(&w);
}

static void call__agents_must_have_names_of_agents(void **state)
{
  (void)state;
  static const char *const names[] = {"", "../x", "a/b", "shared", "system", ".hidden", "a b", "a\nb"};
  world w;
  world_open(&w, NULL);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    w.agent = names[i];
    world_fails(&w, "state.session.get", "{\"key\":\"a\"}", "InvalidInput", NULL);
  }
  world_close(&w);
}

/* Backups, the shared state and the vault are no agent's: an operator's call of them names none. */
static void call__operators_name_no_agent_where_none_is_meant(void **state)
{
  (void)state;
  static const char *const calls[][2] = {
    {"vault.status", "{}"},        {"state.backup.list", "{}"}, {"state.shared.list", "{}"}, {"state.shared.get", "{\"key\":\"a\"}"},
    {"state.snapshot.list", "{}"}, {"system.health", "{}"},
  };
  static const char *const others[][3] = {
    {"state.backup.create", "{}", "VaultLocked"},
    {"state.backup.restore", "{\"backup_id\":\"bkp-1\"}", "BackupNotFound"},
    {"state.backup.verify", "{\"backup_id\":\"bkp-1\"}", "BackupNotFound"},
    {"state.backup.export", "{\"backup_id\":\"bkp-1\",\"path\":\"/tmp\"}", "BackupNotFound"},
    {"state.persistent.list", "{}", "InvalidInput"},
  };
  world w;
  world_open(&w, NULL);
  w.agent = NULL;
  w.is_operator = true;
  for (size_t i = 0; i < COUNT_OF(calls); i++) world_ok(&w, calls[i][0], calls[i][1]);
  for (size_t i = 0; i < COUNT_OF(others); i++) world_fails(&w, others[i][0], others[i][1], others[i][2], NULL);
  assert_non_null(strstr(w.err.message, "missing agent"));
  w.is_operator = false;
  world_fails(&w, "vault.status", "{}", "InvalidInput", NULL); /* but nobody calls without a name */
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(call__an_unknown_capability_is_named_with_the_nearest),
    cmocka_unit_test(call__input_that_the_schema_does_not_know_is_refused_by_name),
    cmocka_unit_test(call__agents_must_have_names_of_agents),
    cmocka_unit_test(call__operators_name_no_agent_where_none_is_meant),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
