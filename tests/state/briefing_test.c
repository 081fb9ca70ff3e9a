/* briefing_test.c: state.briefing.generate and the folders that it looks at. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GENERATE "state.briefing.generate"

typedef struct scene {
  world w;
  char *folder; /* watched */
} scene;

static void scene_open(scene *s)
{
  world_open(&s->w, NULL);
  s->folder = temp_folder_new();
}

static void scene_close(scene *s)
{
  temp_folder_free(s->folder);
  world_close(&s->w);
}

static void write_file(const scene *s, const char *name, const char *text)
{
  char *path = text_of("%s/%s", s->folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  free(path);
}

static void watch(scene *s)
{
  if (world_callf(&s->w, "folders.watch", "{\"path\":\"%s\"}", s->folder)) fail_msg("%s", (const char *)s->w.out.data);
}

static void put(world *w, const char *agent, const char *key, const char *value)
{
  pd_store *s = NULL;
  if (pd_store_open(w->uri, agent, NULL, &s, &w->err) || pd_put(s, pd_text(key), pd_text(value), NULL, NULL, &w->err))
    fail_msg("%s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

/* ---- since ---- */

static void briefing_generate__err_InvalidTimestamp__for_whatever_is_no_time(void **state)
{
  (void)state;
  static const char *const times[] = {"yesterday",
                                      "",
                                      "1794736800000",
                                      "20261115",
                                      "2026-13-01T00:00:00Z",
                                      "2026-02-30T00:00:00Z",
                                      "2026-11-15T25:00:00Z",
                                      "2026-11-15T10:00:00X",
                                      "2026-11-15 10:00:00Z",
                                      "2026-11-15T10:00:00ZZ",
                                      "2026-11-15T10:00:00+99:00",
                                      "-2026-11-15T10:00:00Z",
                                      "2026-11-15T",
                                      "NaN",
                                      "2026-11-15T10:00:00Z2026-11-15T10:00:00Z2026-11-15T10:00:00Z2026-11-15T10:00:00Z"};
  scene s;
  scene_open(&s);
  for (size_t i = 0; i < COUNT_OF(times); i++) {
    char input[200];
    snprintf(input, sizeof input, "{\"since\":\"%s\"}", times[i]);
    world_fails(&s.w, GENERATE, input, "InvalidTimestamp", "fix_format");
    assert_non_null(strstr((const char *)s.w.out.data, "Use ISO 8601 format: YYYY-MM-DDTHH:MM:SSZ"));
  }
  world_fails(&s.w, GENERATE, "{\"since\":1794736800000}", "InvalidInput", NULL);
  scene_close(&s);
}

static void briefing_generate__in_since__any_iso_time_is_the_beginning(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  world_ok(&s.w, "process.record", "{\"event\":\"started\",\"name\":\"early\"}");
  s.w.now_ms += 3600000;
  world_ok(&s.w, "process.record", "{\"event\":\"started\",\"name\":\"late\"}");
  static const char *const times[][2] = {
    {"2026-11-15T10:30:00Z", "1"}, {"2026-11-15T12:30:00+02:00", "1"}, {"2026-11-15", "2"},           {"2026-11-15T09:59:59.999Z", "2"},
    {"2026-11-15T10:00:00Z", "1"}, {"1900-01-01T00:00:00Z", "2"},      {"2026-11-15T11:00:00Z", "0"}, {"9999-12-31T23:59:59Z", "0"}};
  for (size_t i = 0; i < COUNT_OF(times); i++) {
    char input[100];
    snprintf(input, sizeof input, "{\"since\":\"%s\"}", times[i][0]);
    world_ok(&s.w, GENERATE, input);
    if (strcmp(world_out(&s.w, "briefing.process_events.count"), times[i][1]) != 0) fail_msg("%s: %s", times[i][0], s.w.out.data);
  }
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "still to come"));
  scene_close(&s);
}

/* Omitted: what the agent did last before it went away. */
static void briefing_generate__in_since__omitted_is_the_last_activity(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  world_ok(&s.w, GENERATE, "{}");
  assert_string_equal(world_out(&s.w, "briefing.since"), "null");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "first briefing"));
  world_begin_session(&s.w);
  world_ok(&s.w, "state.session.set", "{\"key\":\"a\",\"value\":1}");
  assert_int_equal(pd_session_end(s.w.home, "main", s.w.session, &s.w.err), PD_OK);
  s.w.session[0] = 0;
  s.w.now_ms += 11520000; /* 3 h 12 min */
  world_restart(&s.w);
  s.w.is_operator = true;
  s.w.agent = "";
  world_ok(&s.w, "process.record", "{\"event\":\"crashed\",\"name\":\"indexer\"}");
  s.w.is_operator = false;
  s.w.agent = "main";
  world_begin_session(&s.w);
  for (int i = 0; i < 2; i++) { /* looking does not make it forget */
    world_ok(&s.w, GENERATE, i ? "{\"detail_level\":\"detailed\"}" : "{}");
    assert_string_equal(world_out(&s.w, "briefing.since"), "\"2026-11-15T10:00:00.000Z\"");
    assert_string_equal(world_out(&s.w, "briefing.summary"), "\"While you were away (3 h 12 min): 1 process event (indexer crashed).\"");
  }
  scene_close(&s);
}

/* ---- detail_level ---- */

static void briefing_generate__in_detail_level__summary_counts_and_detailed_lists(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  world_ok(&s.w, "process.record", "{\"event\":\"crashed\",\"name\":\"indexer\"}");
  world_ok(&s.w, "alerts.send", "{\"severity\":\"critical\",\"title\":\"No disk\",\"message\":\"m\"}");
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:00:00Z\"}");
  assert_string_equal(world_out(&s.w, "briefing.process_events"), "{\"count\":1}");
  assert_string_equal(world_out(&s.w, "briefing.alerts.alerts"), "");
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:00:00Z\",\"detail_level\":\"summary\"}");
  assert_string_equal(world_out(&s.w, "briefing.process_events"), "{\"count\":1}");
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:00:00Z\",\"detail_level\":\"detailed\"}");
  assert_string_equal(world_out(&s.w, "briefing.process_events.events.0.name"), "\"indexer\"");
  assert_string_equal(world_out(&s.w, "briefing.alerts.alerts.0.title"), "\"No disk\"");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "1 alert of severity critical (\\\"No disk\\\")"));
  world_ok(&s.w, "alerts.send", "{\"severity\":\"info\",\"title\":\"Hello\",\"message\":\"m\"}");
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:00:00Z\"}");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "2 alerts, 1 of them critical (\\\"No disk\\\")"));
  world_fails(&s.w, GENERATE, "{\"detail_level\":\"all\"}", "InvalidInput", NULL);
  world_fails(&s.w, GENERATE, "{\"detail_level\":\"\"}", "InvalidInput", NULL);
  scene_close(&s);
}

/* ---- the sections ---- */

static void briefing_generate__out_briefing__has_what_the_seed_names(void **state)
{
  (void)state;
  static const char *const names[] = {
    "filesystem_changes", "process_events",     "pending_approvals", "unread_messages", "alerts", "health",
    "shared_changes",     "approval_decisions", "own_changes",       "summary"};
  scene s;
  scene_open(&s);
  world_ok(&s.w, GENERATE, "{}");
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char path[64];
    snprintf(path, sizeof path, "briefing.%s", names[i]);
    if (!*world_out(&s.w, path)) fail_msg("no %s", names[i]);
  }
  assert_string_equal(world_out(&s.w, "briefing.health.reasons"), "[]");
  scene_close(&s);
}

static void briefing_generate__shared_changes_of_others_are_told_by_key_and_writer(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  s.w.agent = "bob";
  world_ok(&s.w, "state.shared.set", "{\"key\":\"old\",\"value\":1,\"expected_version\":0}");
  s.w.now_ms += 60000;
  world_ok(&s.w, "state.shared.set", "{\"key\":\"plan\",\"value\":1,\"expected_version\":0}");
  world_ok(&s.w, "state.shared.set", "{\"key\":\"plan\",\"value\":2,\"expected_version\":1}");
  world_ok(&s.w, "state.shared.delete", "{\"key\":\"old\"}");
  s.w.agent = "main";
  world_ok(&s.w, "state.shared.set", "{\"key\":\"mine\",\"value\":1,\"expected_version\":0}");
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T10:00:30Z\",\"detail_level\":\"detailed\"}");
  assert_string_equal(world_out(&s.w, "briefing.shared_changes.count"), "3");
  assert_string_equal(world_out(&s.w, "briefing.shared_changes.keys"), "2");
  assert_string_equal(world_out(&s.w, "briefing.shared_changes.writers"), "[\"bob\"]");
  assert_string_equal(world_out(&s.w, "briefing.shared_changes.changes.0.key"), "\"old\"");
  assert_string_equal(world_out(&s.w, "briefing.shared_changes.changes.0.kind"), "\"delete\"");
  assert_string_equal(world_out(&s.w, "briefing.shared_changes.changes.1.version"), "2");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "bob changed 2 shared keys (old, plan)"));
  scene_close(&s);
}

static void briefing_generate__own_changes_are_told_with_who_made_them(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  put(&s.w, "main", "a", "1"); /* by the system's clock, which is later than the test's */
  pd_store *store = NULL;
  assert_int_equal(pd_store_open(s.w.uri, "main", NULL, &store, &s.w.err), PD_OK);
  pd_note note = {.author = "somebody"};
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("2"), &note, NULL, &s.w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &s.w.err), PD_OK);
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:00:00Z\",\"detail_level\":\"detailed\"}");
  assert_string_equal(world_out(&s.w, "briefing.own_changes.keys"), "2");
  assert_string_equal(world_out(&s.w, "briefing.own_changes.by_others"), "1");
  assert_string_equal(world_out(&s.w, "briefing.own_changes.changes.0.writer"), "\"somebody\"");
  scene_close(&s);
}

static void briefing_generate__unread_messages_are_counted_and_stay_unread(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  s.w.agent = "bob";
  world_ok(&s.w, "queue.send", "{\"to\":\"main\",\"body\":{\"hello\":1}}");
  s.w.agent = "main";
  for (int i = 0; i < 2; i++) {
    world_ok(&s.w, GENERATE, "{}");
    assert_string_equal(world_out(&s.w, "briefing.unread_messages.count"), "1");
  }
  scene_close(&s);
}

static void briefing_generate__approvals_pending_and_decided_are_the_agents_own(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  pd_store *store = NULL;
  assert_int_equal(pd_store_open(s.w.uri, "system", NULL, &store, &s.w.err), PD_OK);
  static const char pending[] =
    "[{\"id\":\"apr-1\",\"agent\":\"main\",\"capability\":\"state.backup.create\",\"created_at\":\"2026-11-15T09:50:00.000Z\","
    "\"expires_at\":\"2026-11-15T10:50:00.000Z\",\"status\":\"pending\"},"
    "{\"id\":\"apr-2\",\"agent\":\"bob\",\"capability\":\"state.backup.export\",\"created_at\":\"2026-11-15T09:50:00.000Z\","
    "\"status\":\"pending\"},"
    "{\"id\":\"apr-3\",\"agent\":\"main\",\"capability\":\"state.backup.export\",\"created_at\":\"2026-11-15T08:50:00.000Z\","
    "\"expires_at\":\"2026-11-15T09:50:00.000Z\",\"status\":\"pending\"}]";
  static const char history[] =
    "[{\"id\":\"apr-0\",\"agent\":\"main\",\"capability\":\"state.backup.create\",\"created_at\":\"2026-11-15T08:00:00.000Z\","
    "\"status\":\"denied\",\"decided_at\":\"2026-11-15T09:30:00.000Z\",\"decided_by\":\"operator\",\"reason\":\"no\"}]";
  assert_int_equal(pd_put(store, pd_text("approvals:pending"), pd_text(pending), NULL, NULL, &s.w.err), PD_OK);
  assert_int_equal(pd_put(store, pd_text("approvals:history"), pd_text(history), NULL, NULL, &s.w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &s.w.err), PD_OK);
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:00:00Z\",\"detail_level\":\"detailed\"}");
  assert_string_equal(world_out(&s.w, "briefing.pending_approvals.count"), "1");
  assert_string_equal(world_out(&s.w, "briefing.pending_approvals.approvals.0.approval_id"), "\"apr-1\"");
  assert_string_equal(world_out(&s.w, "briefing.approval_decisions.denied"), "1");
  assert_string_equal(world_out(&s.w, "briefing.approval_decisions.approvals.0.reason"), "\"no\"");
  assert_null(strstr((const char *)s.w.out.data, "apr-2"));
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "1 request waits for the operator's approval (state.backup.create)"));
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "Of your requests 1 was denied"));
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T09:31:00Z\"}");
  assert_string_equal(world_out(&s.w, "briefing.approval_decisions.count"), "0");
  scene_close(&s);
}

static void briefing_generate__an_agent_sees_nothing_of_another(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  write_file(&s, "secret.txt", "1");
  s.w.agent = "bob";
  watch(&s);
  write_file(&s, "secret2.txt", "1");
  world_ok(&s.w, "process.record", "{\"event\":\"crashed\",\"name\":\"secret process\"}");
  world_ok(&s.w, "alerts.send", "{\"severity\":\"critical\",\"title\":\"secret title\",\"message\":\"m\"}");
  put(&s.w, "bob", "secret.key", "1");
  s.w.agent = "main";
  world_ok(&s.w, GENERATE, "{\"detail_level\":\"detailed\"}");
  assert_null(strstr((const char *)s.w.out.data, "secret"));
  world_ok(&s.w, "folders.list", "{}");
  assert_string_equal(world_out(&s.w, "count"), "0");
  scene_close(&s);
}

/* ---- max_chars ---- */

static void briefing_generate__in_max_chars__drops_the_least_important_first_and_says_so(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  watch(&s);
  s.w.now_ms += 1000;
  for (int i = 0; i < 300; i++) {
    char name[40], input[200];
    snprintf(name, sizeof name, "file%03d.txt", i);
    write_file(&s, name, "x");
    snprintf(input, sizeof input, "{\"event\":\"exited\",\"name\":\"process %d\"}", i);
    if (i < 50) world_ok(&s.w, "process.record", input);
    s.w.now_ms++;
  }
  world_ok(&s.w, "alerts.send", "{\"severity\":\"critical\",\"title\":\"No disk\",\"message\":\"m\"}");
  static const char detailed[] = "{\"since\":\"2026-11-15T10:00:00Z\",\"detail_level\":\"detailed\",\"max_chars\":%d}";
  size_t before = SIZE_MAX;
  for (int most = 60000; most >= 500; most = most * 3 / 4) {
    assert_int_equal(world_callf(&s.w, GENERATE, detailed, most), PD_OK);
    size_t size = strlen(world_out(&s.w, "briefing"));
    if (size > (size_t)most) fail_msg("%zu characters where %d may be", size, most);
    assert_true(size <= before);
    before = size;
    assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "No disk")); /* the most important stays */
  }
  assert_int_equal(world_callf(&s.w, GENERATE, detailed, 20000), PD_OK);
  assert_string_equal(world_out(&s.w, "briefing.dropped"), "[\"filesystem_changes (lists)\"]");
  assert_string_not_equal(world_out(&s.w, "briefing.process_events.events"), "");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "Shortened"));
  assert_int_equal(world_callf(&s.w, GENERATE, detailed, 1000000), PD_OK);
  assert_string_equal(world_out(&s.w, "briefing.dropped"), "");
  world_fails(&s.w, GENERATE, "{\"max_chars\":499}", "InvalidInput", NULL);
  world_fails(&s.w, GENERATE, "{\"max_chars\":-1}", "InvalidInput", NULL);
  world_fails(&s.w, GENERATE, "{\"max_chars\":1e3}", "InvalidInput", NULL);
  scene_close(&s);
}

/* Messages name files of the host; an agent learns that something is wrong, the operator what. */
static void briefing__a_section_that_cannot_be_read_shows_an_agent_no_path(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "main", "k", "1");
  world_restart(&w);
  char *path = text_of("%s/main.db", w.folder);
  FILE *f = fopen(path, "r+");
  assert_non_null(f);
  for (int i = 0; i < 4096; i++) fputc('x', f);
  assert_int_equal(fclose(f), 0);
  for (int is_operator = 0; is_operator < 2; is_operator++) {
    w.is_operator = is_operator;
    world_ok(&w, "state.briefing.generate", "{}");
    assert_non_null(strstr((const char *)w.out.data, "\"failing\""));
    if ((strstr((const char *)w.out.data, w.folder) != NULL) != is_operator) fail_msg("%s", (const char *)w.out.data);
  }
  free(path);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(briefing__a_section_that_cannot_be_read_shows_an_agent_no_path),
    cmocka_unit_test(briefing_generate__err_InvalidTimestamp__for_whatever_is_no_time),
    cmocka_unit_test(briefing_generate__in_since__any_iso_time_is_the_beginning),
    cmocka_unit_test(briefing_generate__in_since__omitted_is_the_last_activity),
    cmocka_unit_test(briefing_generate__in_detail_level__summary_counts_and_detailed_lists),
    cmocka_unit_test(briefing_generate__out_briefing__has_what_the_seed_names),
    cmocka_unit_test(briefing_generate__shared_changes_of_others_are_told_by_key_and_writer),
    cmocka_unit_test(briefing_generate__own_changes_are_told_with_who_made_them),
    cmocka_unit_test(briefing_generate__unread_messages_are_counted_and_stay_unread),
    cmocka_unit_test(briefing_generate__approvals_pending_and_decided_are_the_agents_own),
    cmocka_unit_test(briefing_generate__an_agent_sees_nothing_of_another),
    cmocka_unit_test(briefing_generate__in_max_chars__drops_the_least_important_first_and_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
