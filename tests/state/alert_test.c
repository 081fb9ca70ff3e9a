/* alert_test.c: alerts.send, alerts.list, alerts.acknowledge; process.record and process.list, which are kept alike. */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void send_one(world *w, const char *severity, const char *title)
{
  if (world_callf(w, "alerts.send", "{\"severity\":\"%s\",\"title\":\"%s\",\"message\":\"text\"}", severity, title))
    fail_msg("%s", (const char *)w->out.data);
}

static void alerts_send__in_all_fields__come_back_as_they_were(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "alerts.send",
           "{\"severity\":\"critical\",\"title\":\"T "
           "\\\"x\\\"\",\"message\":\"line\\nline\",\"tags\":[\"a\",\"b\"],\"details\":{\"n\":[1,2.50]}}");
  assert_string_equal(world_out(&w, "alert_id"), "\"alert:main:01794736800000-00001\"");
  assert_string_equal(world_out(&w, "timestamp"), "\"2026-11-15T10:00:00.000Z\"");
  world_restart(&w); /* durable */
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(
    world_out(&w, "alerts"),
    "[{\"alert_id\":\"alert:main:01794736800000-00001\",\"agent\":\"main\",\"severity\":\"critical\",\"title\":\"T \\\"x\\\"\","
    "\"message\":\"line\\nline\",\"tags\":[\"a\",\"b\"],\"details\":{\"n\":[1,2.50]},\"timestamp\":\"2026-11-15T10:00:00.000Z\","
    "\"acknowledged\":false,\"acknowledged_at\":null}]");
  world_close(&w);
}

static void alerts_send__err_InvalidInput__nothing_is_stored(void **state)
{
  (void)state;
  static const char *const inputs[] = {
    "{}",
    "{\"severity\":\"info\",\"title\":\"t\"}",
    "{\"severity\":\"INFO\",\"title\":\"t\",\"message\":\"m\"}",
    "{\"severity\":\"info\",\"title\":\"\",\"message\":\"m\"}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"\"}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"tags\":[1]}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"tags\":[\"\"]}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"tags\":[[\"a\"]]}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"tags\":\"a\"}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"details\":[]}",
    "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"details\":{\"a\":1,\"a\":2}}",
    "{\"severity\":\"info\",\"title\":\"a\\u0000b\",\"message\":\"m\"}",
  };
  world w;
  world_open(&w, NULL);
  for (size_t i = 0; i < COUNT_OF(inputs); i++) world_fails(&w, "alerts.send", inputs[i], "InvalidInput", "correct");
  char *large = malloc(40000);
  assert_non_null(large);
  int size = sprintf(large, "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\",\"details\":{\"a\":\"");
  for (int i = 0; i < 17000; i++) large[size++] = 'x';
  strcpy(large + size, "\"}}");
  world_fails(&w, "alerts.send", large, "LimitExceeded", "split");
  free(large);
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "total"), "0");
  world_close(&w);
}

static void alerts_send__effect_2__only_the_agents_own_oldest_go(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.agent = "other";
  send_one(&w, "info", "of another");
  w.agent = "main";
  for (int i = 0; i < 1005; i++) {
    char title[16];
    snprintf(title, sizeof title, "n%d", i);
    w.now_ms += i % 2; /* two in each millisecond */
    send_one(&w, "info", title);
  }
  world_ok(&w, "alerts.list", "{\"limit\":1000}");
  assert_string_equal(world_out(&w, "count"), "1000");
  assert_string_equal(world_out(&w, "total"), "1000");
  assert_string_equal(world_out(&w, "alerts.0.title"), "\"n1004\"");
  assert_string_equal(world_out(&w, "alerts.999.title"), "\"n5\"");
  w.is_operator = true;
  world_ok(&w, "alerts.list", "{\"limit\":1}");
  assert_string_equal(world_out(&w, "count"), "1");
  assert_string_equal(world_out(&w, "total"), "1001");
  world_close(&w);
}

static void alerts_list__agents_see_their_own_and_the_operator_sees_all(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  send_one(&w, "info", "mine");
  w.agent = "other";
  w.now_ms++;
  send_one(&w, "error", "secret of other");
  w.agent = "";
  w.is_operator = true;
  w.now_ms++;
  send_one(&w, "warning", "for all");
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "count"), "3");
  assert_string_equal(world_out(&w, "alerts.0.title"), "\"for all\"");
  assert_string_equal(world_out(&w, "alerts.0.agent"), "");
  assert_string_equal(world_out(&w, "alerts.2.title"), "\"mine\"");
  w.is_operator = false;
  w.agent = "main";
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "count"), "2");
  assert_null(strstr((const char *)w.out.data, "secret"));
  w.agent = "mai"; /* a beginning of another's name is not that name */
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "count"), "1");
  world_close(&w);
}

static void alerts_list__in_since_and_severity__choose(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  static const char *const severities[] = {"info", "warning", "error", "critical"};
  for (size_t i = 0; i < 4; i++, w.now_ms += 1000) send_one(&w, severities[i], severities[i]);
  world_ok(&w, "alerts.list", "{\"severity\":\"error\"}");
  assert_string_equal(world_out(&w, "count"), "2");
  world_ok(&w, "alerts.list", "{\"since\":\"2026-11-15T10:00:01Z\"}");
  assert_string_equal(world_out(&w, "count"), "2"); /* after, not at */
  assert_string_equal(world_out(&w, "alerts.1.title"), "\"error\"");
  world_ok(&w, "alerts.list", "{\"since\":\"2026-11-15T12:00:00.5+02:00\"}");
  assert_string_equal(world_out(&w, "count"), "3");
  world_ok(&w, "alerts.list", "{\"since\":\"9999-12-31T23:59:59Z\"}");
  assert_string_equal(world_out(&w, "count"), "0");
  world_ok(&w, "alerts.list", "{\"since\":\"0001-01-01\"}");
  assert_string_equal(world_out(&w, "count"), "4");
  world_ok(&w, "alerts.list", "{\"limit\":2}");
  assert_string_equal(world_out(&w, "count"), "2");
  assert_string_equal(world_out(&w, "total"), "4");
  world_fails(&w, "alerts.list", "{\"limit\":0}", "InvalidInput", NULL);
  world_close(&w);
}

static void alerts_acknowledge__is_the_operators_and_happens_once(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  send_one(&w, "error", "one");
  static const char input[] = "{\"alert_id\":\"alert:main:01794736800000-00001\",\"note\":\"mended\"}";
  world_fails(&w, "alerts.acknowledge", input, "PermissionDenied", NULL);
  w.is_operator = true;
  w.now_ms += 5000;
  world_ok(&w, "alerts.acknowledge", input);
  assert_string_equal(world_out(&w, "was_acknowledged"), "false");
  w.now_ms += 5000;
  world_ok(&w, "alerts.acknowledge", input);
  assert_string_equal(world_out(&w, "was_acknowledged"), "true");
  assert_string_equal(world_out(&w, "acknowledged_at"), "\"2026-11-15T10:00:05.000Z\"");
  w.is_operator = false;
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "alerts.0.acknowledged"), "true");
  assert_string_equal(world_out(&w, "alerts.0.acknowledged_note"), "\"mended\"");
  assert_string_equal(world_out(&w, "alerts.0.title"), "\"one\"");
  world_ok(&w, "alerts.list", "{\"unacknowledged\":true}");
  assert_string_equal(world_out(&w, "count"), "0");
  world_close(&w);
}

static void alerts_acknowledge__err_AlertNotFound__for_whatever_is_no_alert(void **state)
{
  (void)state;
  static const char *const ids[] = {"alert:main:01794736800000-00002",
                                    "alert:mai:01794736800000-00001",
                                    "alert",
                                    "process:main:1-1",
                                    "approvals:pending",
                                    "....",
                                    "alert:::::"};
  world w;
  world_open(&w, NULL);
  send_one(&w, "error", "one");
  w.is_operator = true;
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    char input[200];
    snprintf(input, sizeof input, "{\"alert_id\":\"%s\"}", ids[i]);
    world_fails(&w, "alerts.acknowledge", input, "AlertNotFound", "list_alerts");
  }
  world_fails(&w, "alerts.acknowledge", "{\"alert_id\":\"../x\"}", "InvalidInput", NULL);
  world_close(&w);
}

/* Four processes, one moment: every alert has an id of its own. */
static void alerts_send__effect_2__so_many_bytes_of_one_agent_stay(void **state)
{
  (void)state;
  world w;
  char text[8001];
  world_open(&w, "[test.alert]\nbytes_max = \"100KB\"\n");
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  w.agent = "other";
  send_one(&w, "info", "kept");
  w.agent = "main";
  for (int i = 0; i < 40; i++, w.now_ms += 1000) {
    world_okf(&w, "alerts.send", "{\"severity\":\"info\",\"title\":\"%d\",\"message\":\"%s\"}", i, text);
  }
  world_ok(&w, "alerts.list", "{\"limit\":1000}");
  assert_string_equal(world_out(&w, "count"), "12"); /* of a little over 8,000 bytes each */
  assert_string_equal(world_out(&w, "alerts.0.title"), "\"39\"");
  assert_string_equal(world_out(&w, "alerts.11.title"), "\"28\"");
  w.agent = "other";
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "count"), "1");
  world_close(&w);
}

static void alerts_send__out_alert_id__is_unique_across_processes(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  send_one(&w, "info", "first");
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK); /* no thread of ours holds a lock at the fork */
  pid_t children[4];
  for (int i = 0; i < 4; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      pd_home *home = NULL; /* its own: no handle is used across fork */
      pd_buf out = {0};
      bool is_ok = pd_home_open(w.uri, NULL, &home, NULL) == PD_OK;
      pd_ctx ctx = {.home = home, .agent = "main"};
      for (int n = 0; is_ok && n < 50; n++)
        is_ok = pd_call(&ctx, "alerts.send", pd_text("{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\"}"), &out, NULL) == PD_OK;
      _exit(is_ok && pd_home_close(home, NULL) == PD_OK ? 0 : 1);
    }
  }
  for (int i = 0; i < 4; i++) {
    int status = -1;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(pd_home_open(w.uri, NULL, &w.home, &w.err), PD_OK);
  world_ok(&w, "alerts.list", "{}");
  assert_string_equal(world_out(&w, "total"), "201");
  world_close(&w);
}

static void process_record__in_all_fields__come_back_newest_first(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "process.record", "{\"event\":\"started\",\"name\":\"indexer\",\"pid\":7}");
  w.now_ms++;
  world_ok(&w, "process.record",
           "{\"event\":\"crashed\",\"name\":\"indexer\",\"pid\":7,\"exit_code\":-11,\"signal\":\"SIGSEGV\",\"message\":\"core\"}");
  world_ok(&w, "process.list", "{}");
  assert_string_equal(
    world_out(&w, "events.0"),
    "{\"event_id\":\"process:main:01794736800001-00001\",\"agent\":\"main\",\"event\":\"crashed\",\"name\":\"indexer\","
    "\"pid\":7,\"exit_code\":-11,\"signal\":\"SIGSEGV\",\"message\":\"core\",\"timestamp\":\"2026-11-15T10:00:00.001Z\"}");
  assert_string_equal(world_out(&w, "count"), "2");
  w.agent = "other";
  world_ok(&w, "process.list", "{}");
  assert_string_equal(world_out(&w, "count"), "0");
  world_fails(&w, "process.record", "{\"event\":\"sneezed\",\"name\":\"a\"}", "InvalidInput", NULL);
  world_fails(&w, "process.record", "{\"event\":\"exited\",\"name\":\"a\",\"exit_code\":1e9}", "InvalidInput", NULL);
  world_fails(&w, "process.record", "{\"event\":\"exited\",\"name\":\"a\",\"pid\":-1}", "InvalidInput", NULL);
  world_close(&w);
}

/* ---- decision 099: alerts and process events are the operator's, in one store ---- */

static void note_both(world *w)
{
  send_one(w, "error", "t");
  world_ok(w, "process.record", "{\"event\":\"crashed\",\"name\":\"n\"}");
}

static void journal__an_agent_without_a_store_gets_none_by_telling_something(void **state)
{
  (void)state;
  world w;
  bool has_store = true;
  world_open(&w, NULL);
  w.agent = "fresh";
  note_both(&w);
  assert_int_equal(pd_home_has_agent(w.home, "fresh", &has_store, &w.err), PD_OK);
  assert_false(has_store);
  world_close(&w);
}

static void journal__an_agent_that_has_used_up_its_quota_can_still_tell(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.agent_quota_bytes = 1;
  world_fails(&w, "threads.create", "{\"thread_id\":\"t\"}", "QuotaExceeded", NULL);
  note_both(&w);
  world_ok(&w, "alerts.list", "{}");
  world_want(&w, "total", "1");
  world_close(&w);
}

static void journal__the_operators_lists_open_no_agents_store(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  for (int i = 0; i < 20; i++) {
    char name[16];
    snprintf(name, sizeof name, "agent%d", i);
    w.agent = name;
    world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
    note_both(&w);
  }
  w.agent = "";
  w.is_operator = true;
  world_restart(&w);
  world_ok(&w, "alerts.list", "{}");
  world_want(&w, "total", "20");
  world_ok(&w, "process.list", "{}");
  world_want(&w, "total", "20");
  pd_open_info info;
  pd_home_open_info(w.home, &info);
  assert_int_equal(info.open_count, 0);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(alerts_send__in_all_fields__come_back_as_they_were),
    cmocka_unit_test(alerts_send__err_InvalidInput__nothing_is_stored),
    cmocka_unit_test(alerts_send__effect_2__only_the_agents_own_oldest_go),
    cmocka_unit_test(alerts_send__effect_2__so_many_bytes_of_one_agent_stay),
    cmocka_unit_test(alerts_send__out_alert_id__is_unique_across_processes),
    cmocka_unit_test(alerts_list__agents_see_their_own_and_the_operator_sees_all),
    cmocka_unit_test(alerts_list__in_since_and_severity__choose),
    cmocka_unit_test(alerts_acknowledge__is_the_operators_and_happens_once),
    cmocka_unit_test(alerts_acknowledge__err_AlertNotFound__for_whatever_is_no_alert),
    cmocka_unit_test(process_record__in_all_fields__come_back_newest_first),
    cmocka_unit_test(journal__an_agent_without_a_store_gets_none_by_telling_something),
    cmocka_unit_test(journal__an_agent_that_has_used_up_its_quota_can_still_tell),
    cmocka_unit_test(journal__the_operators_lists_open_no_agents_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
