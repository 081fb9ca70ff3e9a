/* statestore_plugin_test.c: what stands on a StateStore: keys and views of plugins, observers, and the configuration as JSON. */
#include "state/desk.h"

static void plugin__keys_are_plugin_colon_name(void **state)
{
  (void)state;
  char key[PD_KEY_SIZE_MAX + 1] = "untouched", name[PD_KEY_SIZE_MAX + 1];
  pd_error err;
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  assert_int_equal(pd_statestore_key("a:b", "x", key, &err), PD_INVALID);
  assert_int_equal(pd_statestore_key("", "x", key, &err), PD_INVALID);
  assert_int_equal(pd_statestore_key("p", "", key, &err), PD_INVALID);
  assert_int_equal(pd_statestore_key("p", "\xff", key, &err), PD_INVALID);
  assert_int_equal(pd_statestore_key("p", name, key, &err), PD_LIMIT);
  assert_string_equal(key, "untouched");
  assert_int_equal(pd_statestore_key("my-plugin", "check:count", key, &err), PD_OK);
  assert_string_equal(key, "my-plugin:check:count");
}

static void plugin__a_view_sees_its_own_keys_only(void **state)
{
  (void)state;
  desk d;
  pd_stateview *view = NULL;
  pd_buf list = {0};
  uint64_t count = 0;
  char long_key[PD_KEY_SIZE_MAX];
  memset(long_key, 'k', sizeof long_key);
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "other:secret", "1");
  desk_set(&d, "pp:x", "1");
  desk_set(&d, "p", "1");
  assert_int_equal(pd_stateview_new(d.s, "p:q", &view, &d.err), PD_INVALID);
  assert_int_equal(pd_stateview_new(d.s, "p", &view, &d.err), PD_OK);
  assert_int_equal(pd_stateview_set(view, pd_text("x"), pd_text("2"), &d.err), PD_OK);
  assert_int_equal(pd_stateview_set(view, pd_text("other:secret"), pd_text("3"), &d.err), PD_OK);
  assert_int_equal(pd_stateview_set(view, pd_text(""), pd_text("3"), &d.err), PD_INVALID);
  assert_int_equal(pd_stateview_set(view, (pd_bytes){long_key, sizeof long_key}, pd_text("3"), &d.err), PD_LIMIT);
  assert_false(pd_stateview_has(view, (pd_bytes){long_key, sizeof long_key}));
  assert_value(&d, "other:secret", "1");
  assert_value(&d, "p:other:secret", "3");
  assert_int_equal(pd_stateview_get(view, pd_text("x"), &d.value, &d.err), PD_OK);
  assert_text(&d.value, "2");
  assert_true(pd_stateview_has(view, pd_text("x")));
  assert_false(pd_stateview_has(view, pd_text("secret")));
  assert_int_equal(pd_stateview_list(view, pd_text(""), desk_add_key, &list, &d.err), PD_OK);
  assert_text(&list, "x other:secret ");
  assert_int_equal(pd_stateview_delete(view, pd_text("x"), NULL, &d.err), PD_OK);
  assert_int_equal(pd_stateview_clear(view, pd_text(""), &count, &d.err), PD_OK);
  assert_int_equal(count, 1);
  assert_keys(&d, "", "other:secret pp:x p ");
  pd_buf_done(&list);
  pd_stateview_free(view);
  pd_stateview_free(NULL);
  desk_done(&d);
}

/* ---- observers ---- */

static void assert_wait(desk *d, const char *observer, uint64_t interval_ms, uint64_t wanted_ms)
{
  bool is_due = false;
  uint64_t wait_ms = 12345;
  if (pd_observer_is_due(d->s, observer, interval_ms, &is_due, &wait_ms, &d->err)) fail_msg("%s", d->err.message);
  assert_int_equal(wait_ms, wanted_ms);
  assert_int_equal(is_due, wanted_ms == 0);
}

static void mark(desk *d, const char *observer)
{
  if (pd_observer_mark_run(d->s, observer, &d->err)) fail_msg("%s", d->err.message);
}

static void pass(desk *d, int64_t clock_ms, int64_t uptime_ms)
{
  d->now_ms += clock_ms;
  d->uptime_ms += uptime_ms;
}

static void observer__is_due_when_its_interval_has_passed(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  assert_wait(&d, "cpu", 1000, 0); /* never ran */
  mark(&d, "cpu");
  mark(&d, "disk \"x\"");
  assert_value(&d, "observer:lastRun", "{\"cpu\":1700000000000,\"disk \\\"x\\\"\":1700000000000}");
  assert_wait(&d, "cpu", 1000, 1000);
  pass(&d, 600, 600);
  assert_wait(&d, "cpu", 1000, 400);
  mark(&d, "disk \"x\"");
  pass(&d, 400, 400);
  assert_wait(&d, "cpu", 1000, 0);
  assert_wait(&d, "disk \"x\"", 1000, 600);
  mark(&d, "cpu");
  assert_value(&d, "observer:lastRun", "{\"cpu\":1700000001000,\"disk \\\"x\\\"\":1700000000600}");
  assert_int_equal(pd_observer_mark_run(d.s, "", &d.err), PD_INVALID);
  desk_done(&d);
}

static void observer__intervals_hold_over_restarts_and_clocks_that_jump(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  mark(&d, "cpu");
  pass(&d, -86400000, 300); /* the clock goes back a day */
  assert_wait(&d, "cpu", 1000, 700);
  desk_restart(&d);
  assert_wait(&d, "cpu", 1000, 700);
  pass(&d, 30 * 86400000ll, 300); /* and forward a month */
  desk_restart(&d);
  assert_wait(&d, "cpu", 1000, 400);
  pass(&d, 0, 400);
  assert_wait(&d, "cpu", 1000, 0);
  desk_done(&d);
}

static void observer__after_a_restart_of_the_machine_the_clock_counts(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  mark(&d, "cpu");
  d.options.boot_id = "boot-2";
  d.uptime_ms = 10;
  d.now_ms += 400;
  desk_restart(&d);
  assert_wait(&d, "cpu", 1000, 600);
  pass(&d, 86400000, 100); /* from the first look on, jumps do no harm */
  assert_wait(&d, "cpu", 1000, 500);
  desk_done(&d);
}

static void observer__a_last_run_in_the_future_delays_by_one_interval_at_most(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "observer:lastRun", "{\"cpu\":1900000000000,\"other\":5}");
  assert_wait(&d, "cpu", 1000, 1000);
  assert_value(&d, "observer:lastRun", "{\"cpu\":1700000000000,\"other\":5}");
  pass(&d, -5000, 1000);
  assert_wait(&d, "cpu", 1000, 0);
  desk_done(&d);
}

static void observer__what_another_program_writes_is_believed(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  mark(&d, "cpu");
  pass(&d, 5000, 5000);
  desk_set(&d, "observer:lastRun", "{\"cpu\":1700000004900}");
  assert_wait(&d, "cpu", 1000, 900);
  static const char *const bad[] = {"[]", "7", "{\"cpu\":\"x\"}", "{\"cpu\":-5}", "{\"cpu\":null}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    bool is_due = false;
    desk_set(&d, "observer:lastRun", bad[i]);
    assert_int_equal(pd_observer_is_due(d.s, "cpu", 1000, &is_due, NULL, &d.err), PD_CORRUPT);
    assert_value(&d, "observer:lastRun", bad[i]);
  }
  static const char *const odd[] = {"[]", "{}", "{\"boot\":\"boot-1\"}", "{\"boot\":\"boot-1\",\"runs\":7}",
                                    "{\"boot\":\"boot-1\",\"runs\":{\"cpu\":[1]}}"};
  for (size_t i = 0; i < COUNT_OF(odd); i++) { /* the clock's key is only a help */
    desk_set(&d, "observer:lastRun", "{\"cpu\":1700000004900}");
    desk_set(&d, "observer:clock", odd[i]);
    assert_wait(&d, "cpu", 1000, 900);
    mark(&d, "cpu");
    assert_value(&d, "observer:clock", "{\"boot\":\"boot-1\",\"runs\":{\"cpu\":[1700000005000,5005000]}}");
  }
  desk_done(&d);
}

/* ---- the configuration as JSON ---- */

static void config__a_statePersistence_object_is_read(void **state)
{
  (void)state;
  pd_error err;
  pd_buf texts = {0};
  pd_statestore_options o = pd_statestore_defaults();
  pd_bytes json = pd_text("{\"enabled\":true,\"type\":\"database\",\"config\":{\"path\":\"./d\\u0061ta.json\",\"flushIntervalMs\":500,"
                          "\"tableName\":\"agent_state\",\"database\":\"zup.db\",\"uri\":\"sqlite:x\",\"agent\":\"a\"}}");
  if (pd_statestore_configure(json, &o, &texts, &err)) fail_msg("%s", err.message);
  assert_true(o.enabled);
  assert_int_equal(o.type, PD_STATESTORE_DATABASE);
  assert_string_equal(o.path, "./data.json");
  assert_int_equal(o.flush_interval_ms, 500);
  assert_string_equal(o.table_name, "agent_state");
  assert_string_equal(o.database, "zup.db");
  assert_string_equal(o.uri, "sqlite:x");
  assert_string_equal(o.agent, "a");
  pd_buf_done(&texts);
  o = pd_statestore_defaults();
  assert_int_equal(pd_statestore_configure(pd_text("{\"enabled\":false}"), &o, &texts, &err), PD_OK);
  assert_int_equal(o.flush_interval_ms, 1000);
  assert_string_equal(o.path, "zup.state.json");
  pd_buf_done(&texts);
}

static void config__what_is_wrong_is_named_and_changes_nothing(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"{", "JSON"},
    {"[]", "object"},
    {"{\"enabled\":1}", "enabled"},
    {"{\"type\":\"redis\"}", "type"},
    {"{\"type\":null}", "type"},
    {"{\"kind\":\"file\"}", "kind"},
    {"{\"config\":{\"pth\":\"x\"}}", "pth"},
    {"{\"config\":{\"path\":1}}", "path"},
    {"{\"config\":{\"path\":\"a\\u0000b\"}}", "path"},
    {"{\"config\":{\"flushIntervalMs\":-1}}", "flushIntervalMs"},
    {"{\"config\":{\"flush_interval_ms\":1.5}}", "flush_interval_ms"},
    {"{\"config\":{\"flushIntervalMs\":99999999999}}", "flushIntervalMs"},
    {"{\"config\":{\"tableName\":\"a b\"}}", "table_name"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    pd_error err = {0};
    pd_buf texts = {0};
    pd_statestore_options o = pd_statestore_defaults(), before = o;
    assert_int_equal(pd_statestore_configure(pd_text(cases[i][0]), &o, &texts, &err), PD_INVALID);
    if (!strstr(err.message, cases[i][1])) fail_msg("%s: %s", cases[i][0], err.message);
    assert_memory_equal(&o, &before, sizeof o);
    pd_buf_done(&texts);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(plugin__keys_are_plugin_colon_name),
    cmocka_unit_test(plugin__a_view_sees_its_own_keys_only),
    cmocka_unit_test(observer__is_due_when_its_interval_has_passed),
    cmocka_unit_test(observer__intervals_hold_over_restarts_and_clocks_that_jump),
    cmocka_unit_test(observer__after_a_restart_of_the_machine_the_clock_counts),
    cmocka_unit_test(observer__a_last_run_in_the_future_delays_by_one_interval_at_most),
    cmocka_unit_test(observer__what_another_program_writes_is_believed),
    cmocka_unit_test(config__a_statePersistence_object_is_read),
    cmocka_unit_test(config__what_is_wrong_is_named_and_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
