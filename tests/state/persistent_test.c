/* persistent_test.c: state.persistent.get, set and delete, sentence by sentence of seed 001; list, query and history are in
 * persistent_read_test.c. */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GET "state.persistent.get"
#define SET "state.persistent.set"
#define DELETE "state.persistent.delete"
#define LIST "state.persistent.list"
#define HISTORY "state.persistent.history"

#define CHECK(w, path, text) assert_string_equal(world_out(w, path), text)

static void set(world *w, const char *key, const char *value)
{
  if (world_callf(w, SET, "{\"key\":\"%s\",\"value\":%s}", key, value)) fail_msg("%s", (const char *)w->out.data);
}

/* As [persistent] quota and versions in perdure.toml would. */
static void open_with(world *w, uint64_t quota_bytes, uint64_t versions)
{
  world_open(w, NULL);
  w->home->config.persistent_quota_bytes = quota_bytes;
  w->home->config.persistent_versions = versions;
}

static void set_many(world *w, const char *key, int count)
{
  char value[16];
  for (int i = 1; i <= count; i++) {
    snprintf(value, sizeof value, "%d", i);
    set(w, key, value);
  }
}

/* ---- get ---- */

static void persistent_get__in_key__is_looked_up_and_nothing_else(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  set(&w, "a.b", "2");
  world_ok(&w, GET, "{\"key\":\"a.b\"}");
  CHECK(&w, "value", "2");
  world_ok(&w, GET, "{\"key\":\"\\u0061\"}");
  CHECK(&w, "value", "1");
  world_ok(&w, GET, "{\"key\":\"a.\"}");
  CHECK(&w, "found", "false");
  world_fails(&w, GET, "{}", "InvalidInput", NULL);
  world_close(&w);
}

static void persistent_get__in_version__reads_that_version(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "config", 4);
  world_ok(&w, GET, "{\"key\":\"config\",\"version\":3}");
  CHECK(&w, "value", "3");
  CHECK(&w, "version", "3");
  world_ok(&w, GET, "{\"key\":\"config\",\"version\":1}");
  CHECK(&w, "value", "1");
  world_ok(&w, GET, "{\"key\":\"config\"}");
  CHECK(&w, "version", "4");
  world_close(&w);
}

static void persistent_get__in_version__that_is_no_version_is_invalid(void **state)
{
  (void)state;
  static const char *const versions[] = {
    "0", "-1", "1.5", "1e3", "\"1\"", "true", "99999999999999999999", "-9223372036854775808", "[1]", "9007199254740993", "NaN"};
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  for (size_t i = 0; i < COUNT_OF(versions); i++) {
    char input[80];
    snprintf(input, sizeof input, "{\"key\":\"a\",\"version\":%s}", versions[i]);
    world_fails(&w, GET, input, "InvalidInput", "correct");
  }
  world_close(&w);
}

static void persistent_get__out_value__is_the_stored_one_or_null(void **state)
{
  (void)state;
  static const char *const values[] = {
    "null", "true", "-1.50e+3", "\"\"", "\"\\u00e9\\n\"", "[]", "{}", "[1,{\"a\":[null]}]", "\"\xf0\x9f\x8c\xb1\""};
  world w;
  world_open(&w, NULL);
  for (size_t i = 0; i < COUNT_OF(values); i++) {
    set(&w, "a", values[i]);
    world_ok(&w, GET, "{\"key\":\"a\"}");
    CHECK(&w, "value", values[i]);
    CHECK(&w, "found", "true");
  }
  set(&w, "spaced", " { \"a b\" : [ 1 , 2 ] } ");
  world_ok(&w, GET, "{\"key\":\"spaced\"}");
  CHECK(&w, "value", "{\"a b\":[1,2]}");
  world_ok(&w, GET, "{\"key\":\"none\"}");
  CHECK(&w, "value", "null");
  world_close(&w);
}

static void persistent_get__out_version__is_of_the_returned_value_and_0_if_there_is_none(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 3);
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "version", "3");
  world_ok(&w, GET, "{\"key\":\"a\",\"version\":2}");
  CHECK(&w, "version", "2");
  world_ok(&w, GET, "{\"key\":\"b\"}");
  CHECK(&w, "version", "0");
  world_close(&w);
}

static void persistent_get__out_found__is_false_without_making_a_store(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.agent = "nobody";
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "found", "false");
  world_ok(&w, LIST, "{}");
  CHECK(&w, "count", "0");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  CHECK(&w, "deleted", "false");
  world_fails(&w, HISTORY, "{\"key\":\"a\"}", "KeyNotFound", "list_keys");
  char *path = NULL;
  assert_true(asprintf(&path, "%s/nobody.db", w.folder) > 0);
  FILE *f = fopen(path, "r");
  assert_null(f);
  free(path);
  set(&w, "a", "1");
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "found", "true");
  world_close(&w);
}

static void persistent_get__out_created_at__is_of_version_1(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  w.now_ms += 60000;
  set(&w, "a", "2");
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "created_at", "\"2026-11-15T10:00:00.000Z\"");
  world_ok(&w, GET, "{\"key\":\"b\"}");
  CHECK(&w, "created_at", "null");
  world_close(&w);
}

static void persistent_get__out_updated_at__is_of_the_returned_version(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  w.now_ms += 61001;
  set(&w, "a", "2");
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "updated_at", "\"2026-11-15T10:01:01.001Z\"");
  world_ok(&w, GET, "{\"key\":\"a\",\"version\":1}");
  CHECK(&w, "updated_at", "\"2026-11-15T10:00:00.000Z\"");
  world_ok(&w, GET, "{\"key\":\"b\"}");
  CHECK(&w, "updated_at", "null");
  world_close(&w);
}

static void persistent_get__err_KeyNotFound__for_versions_that_never_were(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 2);
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":3}", "KeyNotFound", "list_keys");
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":9007199254740991}", "KeyNotFound", "use_session");
  world_fails(&w, GET, "{\"key\":\"b\",\"version\":1}", "KeyNotFound", "list_keys");
  assert_non_null(strstr(w.err.message, "'b'"));
  world_close(&w);
}

static void persistent_get__err_KeyNotFound__for_versions_before_the_window(void **state)
{
  (void)state;
  world w;
  open_with(&w, 1000, 5);
  set_many(&w, "a", 12);
  world_ok(&w, GET, "{\"key\":\"a\",\"version\":8}");
  CHECK(&w, "value", "8");
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":7}", "KeyNotFound", "list_keys");
  CHECK(&w, "error.details.oldest_version", "8");
  CHECK(&w, "error.details.current_version", "12");
  world_close(&w);
}

static void persistent_get__shows_what_put_wrote_though_it_is_no_json(void **state)
{
  (void)state;
  world w;
  pd_store *s;
  world_open(&w, NULL);
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_int_equal(pd_put(s, pd_text("plain"), pd_text("hello \"you\""), NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_put(s, pd_text("bytes"), (pd_bytes){"\xff\x00", 2}, NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_put(s, pd_text("json"), pd_text("{\"a\" : 1}"), NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_ok(&w, GET, "{\"key\":\"plain\"}");
  CHECK(&w, "value", "\"hello \\\"you\\\"\"");
  world_ok(&w, GET, "{\"key\":\"bytes\"}");
  CHECK(&w, "value", "{\"base64\":\"/wA=\"}");
  world_ok(&w, GET, "{\"key\":\"json\"}");
  CHECK(&w, "value.a", "1");
  world_close(&w);
}

static void persistent_get__reads_main_whatever_the_stores_current_ref_is(void **state)
{
  (void)state;
  world w;
  pd_store *s;
  world_open(&w, NULL);
  set(&w, "a", "1");
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_int_equal(pd_fork(s, "trial", "main", NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_switch(s, "trial", NULL, &w.err), PD_OK);
  assert_int_equal(pd_put(s, pd_text("a"), pd_text("2"), NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_restart(&w);
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "value", "1");
  set(&w, "a", "3");
  CHECK(&w, "version", "3"); /* 2 was given on the fork */
  CHECK(&w, "previous_version", "1");
  world_close(&w);
}

/* ---- set ---- */

static void persistent_set__in_key__of_any_text_but_no_control_characters(void **state)
{
  (void)state;
  static const char *const bad[] = {"", "a\\nb", "a\\u0000b", "\\u007f", "\\ud800"};
  world w;
  world_open(&w, NULL);
  set(&w, "../x", "1");
  set(&w, "\xe2\x9c\x93 two words", "2");
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char input[64];
    snprintf(input, sizeof input, "{\"key\":\"%s\",\"value\":1}", bad[i]);
    world_fails(&w, SET, input, "InvalidInput", "correct");
  }
  char input[1200], key[1026];
  memset(key, 'k', sizeof key - 1);
  key[1025] = 0;
  snprintf(input, sizeof input, "{\"key\":\"%s\",\"value\":1}", key);
  world_fails(&w, SET, input, "InvalidInput", NULL);
  key[1024] = 0;
  set(&w, key, "1");
  world_ok(&w, LIST, "{}");
  CHECK(&w, "count", "3");
  world_close(&w);
}

static void persistent_set__in_value__is_any_json_value_and_must_be_there(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  static const char *const bad[] = {"{\"key\":\"a\"}", "{\"key\":\"a\",\"value\":}", "{\"key\":\"a\",\"value\":{\"x\":1,\"x\":2}}",
                                    "{\"key\":\"a\",\"value\":NaN}", "{\"key\":\"a\",\"value\":\"\xff\"}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) world_fails(&w, SET, bad[i], "InvalidInput", NULL);
  char deep[600] = "{\"key\":\"a\",\"value\":";
  for (int i = 0; i < 130; i++) strcat(deep, "[");
  for (int i = 0; i < 130; i++) strcat(deep, "]");
  strcat(deep, "}");
  world_fails(&w, SET, deep, "InvalidInput", NULL);
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "found", "false");
  set(&w, "a", "null");
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "found", "true");
  CHECK(&w, "value", "null");
  world_close(&w);
}

static void persistent_set__out_version__counts_from_1_and_over_restarts(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  CHECK(&w, "version", "1");
  set(&w, "a", "1");
  CHECK(&w, "version", "2");
  world_restart(&w);
  set(&w, "a", "2");
  CHECK(&w, "version", "3");
  world_close(&w);
}

static void persistent_set__out_previous_version__is_0_for_a_new_key(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  CHECK(&w, "previous_version", "0");
  set(&w, "a", "2");
  CHECK(&w, "previous_version", "1");
  set(&w, "b", "2");
  CHECK(&w, "previous_version", "0");
  world_close(&w);
}

static bool take_note(void *ctx, const pd_version_info *v)
{
  snprintf(ctx, 200, "%s|%s|%s", v->author, v->run, v->reason);
  return false;
}

static void persistent_set__effect_1__makes_a_version_in_the_agents_database(void **state)
{
  (void)state;
  world w;
  pd_store *s;
  char note[200], wanted[200];
  world_open(&w, NULL);
  strcpy(w.session, "session-7");
  set_many(&w, "a", 2);
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  pd_entry entry;
  assert_int_equal(pd_get(s, "main", pd_text("a"), NULL, &entry, &w.err), PD_OK);
  assert_int_equal(entry.version, 2);
  assert_int_equal(pd_history(s, "main", pd_text("a"), 1, take_note, note, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  snprintf(wanted, sizeof wanted, "main|%s|" SET, w.session);
  assert_string_equal(note, wanted);
  world_close(&w);
}

static void persistent_set__effect_2__hides_versions_beyond_the_window_at_once(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 100);
  world_ok(&w, GET, "{\"key\":\"a\",\"version\":1}");
  set(&w, "a", "101");
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":1}", "KeyNotFound", NULL);
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "100");
  CHECK(&w, "versions.99.version", "2");
  world_close(&w);
}

static void persistent_set__effect_2__keeps_all_versions_if_the_window_is_0(void **state)
{
  (void)state;
  world w;
  open_with(&w, 1000, 0);
  set_many(&w, "a", 130);
  world_ok(&w, GET, "{\"key\":\"a\",\"version\":1}");
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "130");
  world_close(&w);
}

static void persistent_set__effect_3__counts_toward_the_quota(void **state)
{
  (void)state;
  world w;
  open_with(&w, 10, 100);
  set(&w, "a", "12345");
  set(&w, "b", "12345"); /* exactly full */
  world_fails(&w, SET, "{\"key\":\"c\",\"value\":1}", "QuotaExceeded", NULL);
  set(&w, "a", "54321"); /* the same size: a version more does not count */
  set(&w, "a", "1");
  set(&w, "c", "1234");
  world_fails(&w, SET, "{\"key\":\"c\",\"value\":12345}", "QuotaExceeded", NULL);
  w.agent = "other"; /* has a quota of its own */
  set(&w, "a", "1234567890");
  world_close(&w);
}

static void persistent_set__err_QuotaExceeded__names_both_recoveries_and_the_numbers(void **state)
{
  (void)state;
  world w;
  open_with(&w, 10, 100);
  set(&w, "a", "1234567");
  static const char input[] = "{\"key\":\"b\",\"value\":\"xx\"}";
  world_fails(&w, SET, input, "QuotaExceeded", "delete_unused");
  world_fails(&w, SET, input, "QuotaExceeded", "request_increase");
  CHECK(&w, "error.details.used", "7");
  CHECK(&w, "error.details.limit", "10");
  CHECK(&w, "error.details.size", "4");
  world_ok(&w, GET, "{\"key\":\"b\"}");
  CHECK(&w, "found", "false");
  world_close(&w);
}

static void persistent_set__err_QuotaExceeded__of_a_large_value_leaves_nothing(void **state)
{
  (void)state;
  enum { SIZE = 300000 };
  world w;
  open_with(&w, 200000, 100);
  char *input = malloc(SIZE + 40);
  assert_non_null(input);
  int at = sprintf(input, "{\"key\":\"big\",\"value\":\"");
  memset(input + at, 'x', SIZE);
  strcpy(input + at + SIZE, "\"}");
  world_fails(&w, SET, input, "QuotaExceeded", "delete_unused");
  world_ok(&w, LIST, "{}");
  CHECK(&w, "count", "0");
  free(input);
  world_close(&w);
}

static void persistent_set__a_lowered_quota_lets_values_shrink(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "123456789");
  set(&w, "b", "123456789");
  w.home->config.persistent_quota_bytes = 10;
  world_fails(&w, SET, "{\"key\":\"a\",\"value\":1234567890}", "QuotaExceeded", NULL);
  set(&w, "a", "12345678");
  set(&w, "a", "87654321");
  world_close(&w);
}

/* ---- delete ---- */

static void persistent_delete__in_key__is_removed_and_no_other(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  set(&w, "a.b", "2");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  world_ok(&w, GET, "{\"key\":\"a\"}");
  CHECK(&w, "found", "false");
  world_ok(&w, GET, "{\"key\":\"a.b\"}");
  CHECK(&w, "found", "true");
  world_fails(&w, DELETE, "{\"key\":\"\"}", "InvalidInput", NULL);
  world_close(&w);
}

static void persistent_delete__out_deleted__is_false_the_second_time(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "1");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  CHECK(&w, "deleted", "true");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  CHECK(&w, "deleted", "false");
  world_close(&w);
}

static void persistent_delete__effect_1__leaves_nothing_of_the_history_when_the_key_comes_again(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 5);
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  world_fails(&w, HISTORY, "{\"key\":\"a\"}", "KeyNotFound", "list_keys");
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":2}", "KeyNotFound", NULL);
  w.now_ms += 1000;
  set(&w, "a", "\"new\"");
  CHECK(&w, "version", "6"); /* no number is given twice */
  CHECK(&w, "previous_version", "0");
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "1");
  CHECK(&w, "versions.0.value", "\"new\"");
  CHECK(&w, "versions.0.created_at", "\"2026-11-15T10:00:01.000Z\"");
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":2}", "KeyNotFound", NULL);
  world_close(&w);
}

static void assert_erased(pd_store *s, const char *at)
{
  pd_buf value = {0};
  assert_int_equal(pd_get(s, at, pd_text("a"), &value, NULL, NULL), PD_ERASED);
  pd_buf_done(&value);
}

static void assert_shows(pd_store *s, const char *at, const char *text)
{
  pd_buf value = {0};
  assert_int_equal(pd_get(s, at, pd_text("a"), &value, NULL, NULL), PD_OK);
  assert_int_equal(value.size, strlen(text));
  assert_memory_equal(value.data, text, value.size);
  pd_buf_done(&value);
}

static bool is_in_file(const world *w, const char *name, const char *text)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", w->folder, name);
  FILE *f = fopen(path, "r");
  if (!f) return false;
  fseek(f, 0, SEEK_END);
  size_t size = (size_t)ftell(f);
  char *bytes = malloc(size + 1);
  assert_non_null(bytes);
  rewind(f);
  assert_int_equal(fread(bytes, 1, size, f), size);
  bool is_there = memmem(bytes, size, text, strlen(text)) != NULL;
  free(bytes);
  fclose(f);
  return is_there;
}

static void persistent_delete__effect_1__takes_the_bytes_out_of_history_and_file(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", "\"first-secret\"");
  set(&w, "a", "\"second-secret\"");
  set(&w, "b", "\"kept\"");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  pd_store *s = NULL;
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_erased(s, "main~1");
  assert_erased(s, "main~3");
  assert_int_equal(pd_gc(s, NULL, NULL, &w.err), PD_OK); /* takes what is left in free pages */
  assert_int_equal(pd_verify(s, NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK);
  w.home = NULL;
  static const char *const files[] = {"main.db", "main.db-wal", "system.db", "system.db-wal"};
  for (size_t i = 0; i < COUNT_OF(files); i++) assert_false(is_in_file(&w, files[i], "-secret"));
  assert_true(is_in_file(&w, "main.db", "kept"));
  world_close(&w);
}

static void persistent_delete__effect_1__leaves_what_a_fork_or_a_pin_shows(void **state)
{
  (void)state;
  world w;
  pd_store *s = NULL;
  world_open(&w, NULL);
  set(&w, "a", "1");
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_int_equal(pd_fork(s, "trial", "main", NULL, NULL, &w.err), PD_OK);
  set(&w, "a", "2");
  assert_int_equal(pd_tag_set(s, "v1", "main", false, NULL, NULL, &w.err), PD_OK);
  set(&w, "a", "3");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  assert_shows(s, "trial", "1");
  assert_shows(s, "v1", "2");
  assert_erased(s, "main~1");
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_fails(&w, HISTORY, "{\"key\":\"a\"}", "KeyNotFound", NULL);
  world_close(&w);
}

static void persistent_delete__effect_2__frees_quota(void **state)
{
  (void)state;
  world w;
  open_with(&w, 10, 100);
  set(&w, "a", "1234567890");
  world_fails(&w, SET, "{\"key\":\"b\",\"value\":1}", "QuotaExceeded", NULL);
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  set(&w, "b", "1234567890");
  world_close(&w);
}

static void persistent_delete__err_KeyNotFound__is_told_by_deleted_false(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "b", "1");
  world_ok(&w, DELETE, "{\"key\":\"a\"}"); /* DESIGN section 5: a missing key is an answer here, no failure */
  CHECK(&w, "deleted", "false");
  world_ok(&w, LIST, "{}");
  CHECK(&w, "count", "1");
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(persistent_get__in_key__is_looked_up_and_nothing_else),
    cmocka_unit_test(persistent_get__in_version__reads_that_version),
    cmocka_unit_test(persistent_get__in_version__that_is_no_version_is_invalid),
    cmocka_unit_test(persistent_get__out_value__is_the_stored_one_or_null),
    cmocka_unit_test(persistent_get__out_version__is_of_the_returned_value_and_0_if_there_is_none),
    cmocka_unit_test(persistent_get__out_found__is_false_without_making_a_store),
    cmocka_unit_test(persistent_get__out_created_at__is_of_version_1),
    cmocka_unit_test(persistent_get__out_updated_at__is_of_the_returned_version),
    cmocka_unit_test(persistent_get__err_KeyNotFound__for_versions_that_never_were),
    cmocka_unit_test(persistent_get__err_KeyNotFound__for_versions_before_the_window),
    cmocka_unit_test(persistent_get__shows_what_put_wrote_though_it_is_no_json),
    cmocka_unit_test(persistent_get__reads_main_whatever_the_stores_current_ref_is),
    cmocka_unit_test(persistent_set__in_key__of_any_text_but_no_control_characters),
    cmocka_unit_test(persistent_set__in_value__is_any_json_value_and_must_be_there),
    cmocka_unit_test(persistent_set__out_version__counts_from_1_and_over_restarts),
    cmocka_unit_test(persistent_set__out_previous_version__is_0_for_a_new_key),
    cmocka_unit_test(persistent_set__effect_1__makes_a_version_in_the_agents_database),
    cmocka_unit_test(persistent_set__effect_2__hides_versions_beyond_the_window_at_once),
    cmocka_unit_test(persistent_set__effect_2__keeps_all_versions_if_the_window_is_0),
    cmocka_unit_test(persistent_set__effect_3__counts_toward_the_quota),
    cmocka_unit_test(persistent_set__err_QuotaExceeded__names_both_recoveries_and_the_numbers),
    cmocka_unit_test(persistent_set__err_QuotaExceeded__of_a_large_value_leaves_nothing),
    cmocka_unit_test(persistent_set__a_lowered_quota_lets_values_shrink),
    cmocka_unit_test(persistent_delete__in_key__is_removed_and_no_other),
    cmocka_unit_test(persistent_delete__out_deleted__is_false_the_second_time),
    cmocka_unit_test(persistent_delete__effect_1__leaves_nothing_of_the_history_when_the_key_comes_again),
    cmocka_unit_test(persistent_delete__effect_1__takes_the_bytes_out_of_history_and_file),
    cmocka_unit_test(persistent_delete__effect_1__leaves_what_a_fork_or_a_pin_shows),
    cmocka_unit_test(persistent_delete__effect_2__frees_quota),
    cmocka_unit_test(persistent_delete__err_KeyNotFound__is_told_by_deleted_false),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
