/* config_limits_test.c: what was a setting once: it is ignored and reported, and follows a setting or has one value for everybody. */
#include "state/config.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/home.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GB ((uint64_t)1 << 30)
#define MB ((uint64_t)1 << 20)

/* A folder with this text as its perdure.toml; for temp_folder_free. */
static char *folder_with(const char *text)
{
  char *folder = temp_folder_new(), *path = text_of("%s/perdure.toml", folder);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
  free(path);
  return folder;
}

static void load(const char *text, pd_config *out)
{
  char *folder = folder_with(text);
  pd_error err = {0};
  if (pd_config_load(out, folder, NULL, &err)) fail_msg("%s: %s", text, err.message);
  temp_folder_free(folder);
}

static void add_line(void *ctx, const char *text)
{
  assert_int_equal(pd_buf_printf(ctx, NULL, "%s\n", text), PD_OK);
}

/* What a person should look at in a file with this text: the file's folder is cut off, each line ends with \n. For free(). */
static char *notices(const char *text)
{
  CLEANUP(pd_buf_done) pd_buf out = {0}, cut = {0};
  char *folder = folder_with(text), *file = text_of("%s/perdure.toml", folder), *at;
  pd_error err = {0};
  if (pd_config_each_notice(NULL, file, add_line, &out, &err)) fail_msg("%s", err.message);
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  for (at = (char *)out.data; *at; at += strlen(folder) + 1) {
    char *next = strstr(at, folder);
    if (!next) break;
    assert_int_equal(pd_buf_append(&cut, at, (size_t)(next - at), NULL), PD_OK);
    at = next;
  }
  assert_int_equal(pd_buf_printf(&cut, NULL, "%s", at), PD_OK);
  assert_int_equal(pd_buf_byte(&cut, 0, NULL), PD_OK);
  temp_folder_free(folder);
  free(file);
  return text_of("%s", (const char *)cut.data);
}

static void want_notices(const char *text, const char *wanted)
{
  char *is = notices(text);
  assert_string_equal(is, wanted);
  free(is);
}

static void limits__are_what_they_were_as_settings_by_default(void **state)
{
  (void)state;
  pd_config c = {0};
  assert_int_equal(pd_config_load(&c, NULL, NULL, NULL), PD_OK);
  const uint64_t pairs[][2] = {{c.session_agent_quota_bytes, 256 * MB},
                               {c.session_count_max, 100000},
                               {c.session_agent_count_max, 10000},
                               {c.history_forks_max, 100},
                               {c.history_marks_max, 1000},
                               {c.store_idle_ms, 600000},
                               {c.snapshot_keep, 50},
                               {c.alert_keep, 1000},
                               {c.alert_bytes_max, 16 * MB},
                               {c.process_keep, 1000},
                               {c.approval_history_keep, 1000},
                               {c.queue_count_max, 100000},
                               {c.queue_sender_bytes_max, 256 * MB},
                               {c.mailbox_count_max, 10000},
                               {c.work_keep, 1000},
                               {c.work_lease_ms, 900000},
                               {c.activity_flush_ms, 5000},
                               {c.briefing_files_max, 100000},
                               {c.server_bytes_max, 512 * MB},
                               {c.server_in_flight_max, 4096},
                               {c.server_agent_in_flight_max, 256},
                               {c.server_request_ms, 60000},
                               {c.server_idle_ms, 75000},
                               {c.server_drain_ms, 20000},
                               {c.server_watchers_max, 4096},
                               {c.server_agent_watchers_max, 256},
                               {c.server_watch_queue_bytes, 256 << 10},
                               {c.server_heartbeat_ms, 15000}};
  for (size_t i = 0; i < COUNT_OF(pairs); i++)
    if (pairs[i][0] != pairs[i][1]) fail_msg("limit %zu is %llu", i, (unsigned long long)pairs[i][0]);
  pd_config_done(&c);
}

static void limits__follow_the_settings_of_the_file(void **state)
{
  (void)state;
  pd_config c = {0};
  load("[agent]\nquota = '2560 MiB'\n[queue]\nbytes_max = '1 GiB'\n[session]\nquota = '1 GiB'\n"
       "[server]\nconnections_max = 65536\nbody_max = '64 MiB'\n",
       &c);
  assert_int_equal(c.history_forks_max, 250);
  assert_int_equal(c.history_marks_max, 2500);
  assert_int_equal(c.mailbox_count_max, 25000);
  assert_int_equal(c.queue_count_max, 1600000);
  assert_true(c.queue_sender_bytes_max == 4 * GB && c.session_agent_quota_bytes == 5 * GB && c.server_bytes_max == 2 * GB);
  assert_int_equal(c.server_in_flight_max, 16384);
  assert_int_equal(c.server_watchers_max, 16384);
  assert_int_equal(c.server_agent_in_flight_max, 1024);
  assert_int_equal(c.server_agent_watchers_max, 1024);
  pd_config_done(&c);
}

static void limits__stay_within_bounds_when_settings_are_extreme(void **state)
{
  (void)state;
  pd_config c = {0};
  load("[agent]\nquota = 1\n[queue]\nbytes_max = 1\n[session]\nquota = 1\n[server]\nconnections_max = 16\nbody_max = 1024\n", &c);
  assert_int_equal(c.history_forks_max, 100);
  assert_int_equal(c.queue_count_max, 1000);
  assert_int_equal(c.queue_sender_bytes_max, 4);
  assert_int_equal(c.session_agent_quota_bytes, 256 * MB);
  assert_int_equal(c.server_in_flight_max, 4);
  assert_int_equal(c.server_agent_watchers_max, 16);
  assert_int_equal(c.server_bytes_max, 64 * MB);
  pd_config_done(&c);
  load("[agent]\nquota = '1000 TiB'\n[queue]\nbytes_max = '1 TiB'\n[session]\nquota = '1 TiB'\n", &c);
  assert_int_equal(c.history_forks_max, 100000);
  assert_int_equal(c.mailbox_count_max, 1000000);
  assert_true(c.queue_count_max == 1638400000 && c.queue_sender_bytes_max == 4096 * GB && c.session_agent_quota_bytes == 5120 * GB);
  pd_config_done(&c);
}

static void former__a_home_opens_with_each_of_them_and_ignores_it(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  for (size_t i = 0; i < pd_config_limit_count; i++)
    assert_int_equal(pd_buf_printf(&text, NULL, "%s = 'nonsense'\n", pd_config_limits[i].item.name), PD_OK);
  assert_int_equal(pd_buf_byte(&text, 0, NULL), PD_OK);
  world w;
  world_open(&w, (const char *)text.data);
  assert_int_equal(w.home->config.server_heartbeat_ms, 15000);
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  world_close(&w);
  char *said = notices((const char *)text.data);
  for (size_t i = 0; i < pd_config_limit_count; i++) {
    char *wanted =
      text_of("perdure.toml:%zu: '%s' is no longer a setting and is ignored; it is now ", i + 1, pd_config_limits[i].item.name);
    if (!strstr(said, wanted)) fail_msg("there is no '%s' in\n%s", wanted, said);
    free(wanted);
  }
  free(said);
}

static void former__what_is_said_names_the_line_and_what_it_is_now(void **state)
{
  (void)state;
  want_notices(
    "[server]\nheartbeat = '1s'\nin_flight_max = 1\n[activity]\nflush = 0\n[session]\nquota = 5\n",
    "perdure.toml:5: 'activity.flush' is no longer a setting and is ignored; it is now 5s\n"
    "perdure.toml:3: 'server.in_flight_max' is no longer a setting and is ignored; it is now a quarter of server.connections_max\n"
    "perdure.toml:2: 'server.heartbeat' is no longer a setting and is ignored; it is now 15s\n");
  want_notices("[session]\nquota = 5\n", "");
}

static void former__variables_are_ignored_and_reported(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  setenv("PERDURE_SERVER_DRAIN", "1s", 1);
  setenv("PERDURE_WORK_KEEP", "", 1); /* empty: not set */
  setenv("PERDURE_TEST_SERVER_IDLE", "1s", 1);
  pd_config c = {0};
  assert_int_equal(pd_config_load(&c, NULL, NULL, NULL), PD_OK);
  assert_int_equal(c.server_drain_ms, 20000);
  assert_int_equal(c.server_idle_ms, 75000);
  pd_config_done(&c);
  assert_int_equal(pd_config_each_notice(NULL, NULL, add_line, &out, NULL), PD_OK);
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  unsetenv("PERDURE_SERVER_DRAIN");
  unsetenv("PERDURE_WORK_KEEP");
  unsetenv("PERDURE_TEST_SERVER_IDLE");
  assert_string_equal((const char *)out.data,
                      "PERDURE_SERVER_DRAIN: 'server.drain' is no longer a setting and is ignored; it is now 20s\n");
}

static void test_table__sets_a_limit_and_is_reported(void **state)
{
  (void)state;
  pd_config c = {0};
  load("[server]\nidle = '5s'\nconnections_max = 64\n[test.server]\nidle = '1s'\nwatchers_max = 3\n", &c);
  assert_int_equal(c.server_idle_ms, 1000);
  assert_int_equal(c.server_watchers_max, 3);
  assert_int_equal(c.server_in_flight_max, 16);
  pd_config_done(&c);
  want_notices("[test.server]\nidle = '1s'\n", "perdure.toml:2: 'test.server.idle' is for perdure's own tests; remove it\n");
  want_notices("[test]\nserver.idle = '1s'\n", "perdure.toml:2: 'test.server.idle' is for perdure's own tests; remove it\n");
}

static void former__names_that_never_were_are_refused(void **state)
{
  (void)state;
  static const char *const cases[] = {"[server]\nheartbeet = 1",     "[activityy]\nflush = 1",      "[test.server]\nlisten = 'x'",
                                      "[test.server]\nlog = 'json'", "[test.nothing]\nidle = 1",    "[test.folders]\nroots = []",
                                      "[tests]\nserver.idle = 1",    "[test.server]\nidle = 'soon'"};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char *folder = folder_with(cases[i]);
    pd_config c = {0};
    if (pd_config_load(&c, folder, NULL, NULL) != PD_INVALID) fail_msg("accepted: %s", cases[i]);
    pd_config_done(&c);
    temp_folder_free(folder);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(limits__are_what_they_were_as_settings_by_default),
    cmocka_unit_test(limits__follow_the_settings_of_the_file),
    cmocka_unit_test(limits__stay_within_bounds_when_settings_are_extreme),
    cmocka_unit_test(former__a_home_opens_with_each_of_them_and_ignores_it),
    cmocka_unit_test(former__what_is_said_names_the_line_and_what_it_is_now),
    cmocka_unit_test(former__variables_are_ignored_and_reported),
    cmocka_unit_test(former__names_that_never_were_are_refused),
    cmocka_unit_test(test_table__sets_a_limit_and_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
