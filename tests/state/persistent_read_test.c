/* persistent_read_test.c: state.persistent.list, query and history, sentence by sentence of seed 001. */
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
#define QUERY "state.persistent.query"
#define HISTORY "state.persistent.history"

#define CHECK(w, path, text) assert_string_equal(world_out(w, path), text)

static void set(world *w, const char *key, const char *value)
{
  if (world_callf(w, SET, "{\"key\":\"%s\",\"value\":%s}", key, value)) fail_msg("%s", (const char *)w->out.data);
}

static void set_many(world *w, const char *key, int count)
{
  char value[16];
  for (int i = 1; i <= count; i++) {
    snprintf(value, sizeof value, "%d", i);
    set(w, key, value);
    w->now_ms += 1000;
  }
}

/* task.1, task.2, task2, other: some that begin alike. */
static void open_with_tasks(world *w)
{
  world_open(w, NULL);
  set(w, "task.2", "\"two\"");
  set(w, "other", "0");
  set(w, "task2", "[1,2]");
  w->now_ms += 1000;
  set(w, "task.1", "{\"n\":1}");
  w->now_ms += 1000;
  set(w, "task.2", "22");
}

/* ---- list ---- */

static void persistent_list__in_prefix__chooses_keys_that_begin_with_it(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_ok(&w, LIST, "{\"prefix\":\"task.\"}");
  CHECK(&w, "count", "2");
  CHECK(&w, "entries.0.key", "\"task.1\"");
  CHECK(&w, "entries.1.key", "\"task.2\"");
  world_ok(&w, LIST, "{\"prefix\":\"\"}");
  CHECK(&w, "count", "4");
  world_ok(&w, LIST, "{\"prefix\":\"none\"}");
  CHECK(&w, "count", "0");
  CHECK(&w, "entries", "[]");
  world_fails(&w, LIST, "{\"prefix\":\"a\\nb\"}", "InvalidInput", "correct");
  world_fails(&w, LIST, "{\"prefix\":7}", "InvalidInput", "correct");
  world_close(&w);
}

static void persistent_list__out_entries__have_key_version_size_and_time_but_no_value(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_ok(&w, LIST, "{}");
  CHECK(&w, "entries",
        "[{\"key\":\"other\",\"version\":1,\"size_bytes\":1,\"updated_at\":\"2026-11-15T10:00:00.000Z\"},"
        "{\"key\":\"task.1\",\"version\":1,\"size_bytes\":7,\"updated_at\":\"2026-11-15T10:00:01.000Z\"},"
        "{\"key\":\"task.2\",\"version\":2,\"size_bytes\":2,\"updated_at\":\"2026-11-15T10:00:02.000Z\"},"
        "{\"key\":\"task2\",\"version\":1,\"size_bytes\":5,\"updated_at\":\"2026-11-15T10:00:00.000Z\"}]");
  world_close(&w);
}

static void persistent_list__out_count__is_of_what_is_listed(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_ok(&w, LIST, "{}");
  CHECK(&w, "count", "4");
  world_ok(&w, DELETE, "{\"key\":\"other\"}");
  world_ok(&w, LIST, "{}");
  CHECK(&w, "count", "3");
  world_close(&w);
}

static void persistent_list__out_total_size_bytes__is_what_the_quota_counts(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_ok(&w, LIST, "{}");
  CHECK(&w, "total_size_bytes", "15");
  w.home->config.persistent_quota_bytes = 16;
  world_fails(&w, SET, "{\"key\":\"new\",\"value\":12}", "QuotaExceeded", NULL);
  CHECK(&w, "error.details.used", "15");
  set(&w, "new", "1");
  world_ok(&w, LIST, "{\"prefix\":\"task.\"}");
  CHECK(&w, "total_size_bytes", "9");
  world_close(&w);
}

/* Garbage over the pages of the agent's database, but for the first. */
static void damage(world *w)
{
  char path[4096], junk[4096];
  assert_int_equal(pd_home_close(w->home, &w->err), PD_OK);
  snprintf(path, sizeof path, "%s/main.db", w->folder);
  memset(junk, 0x5a, sizeof junk);
  FILE *f = fopen(path, "r+");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  fseek(f, 4096, SEEK_SET);
  for (long at = 4096; at < size; at += 4096) assert_int_equal(fwrite(junk, sizeof junk, 1, f), 1);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(pd_home_open(w->uri, NULL, &w->home, &w->err), PD_OK);
}

static void persistent_list__err_DatabaseError__when_the_database_cannot_be_read(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  damage(&w);
  world_fails(&w, LIST, "{}", "DatabaseError", "retry");
  world_close(&w);
}

/* ---- query ---- */

static void persistent_query__in_prefix__must_be_there_and_chooses_keys(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_fails(&w, QUERY, "{}", "InvalidInput", "correct");
  world_ok(&w, QUERY, "{\"prefix\":\"task.\"}");
  CHECK(&w, "count", "2");
  world_ok(&w, QUERY, "{\"prefix\":\"\"}");
  CHECK(&w, "count", "4");
  world_close(&w);
}

static void persistent_query__out_entries__have_values_and_times(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_ok(&w, QUERY, "{\"prefix\":\"task.\"}");
  CHECK(&w, "entries",
        "[{\"key\":\"task.1\",\"value\":{\"n\":1},\"version\":1,\"created_at\":\"2026-11-15T10:00:01.000Z\","
        "\"updated_at\":\"2026-11-15T10:00:01.000Z\"},"
        "{\"key\":\"task.2\",\"value\":22,\"version\":2,\"created_at\":\"2026-11-15T10:00:00.000Z\","
        "\"updated_at\":\"2026-11-15T10:00:02.000Z\"}]");
  world_close(&w);
}

static void persistent_query__out_count__is_of_the_entries(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  world_ok(&w, QUERY, "{\"prefix\":\"task\"}");
  CHECK(&w, "count", "3");
  world_ok(&w, QUERY, "{\"prefix\":\"x\"}");
  CHECK(&w, "count", "0");
  CHECK(&w, "entries", "[]");
  world_close(&w);
}

static void persistent_query__err_DatabaseError__when_the_database_cannot_be_read(void **state)
{
  (void)state;
  world w;
  open_with_tasks(&w);
  damage(&w);
  world_fails(&w, QUERY, "{\"prefix\":\"\"}", "DatabaseError", "retry");
  world_close(&w);
}

static void persistent_query__err_LimitExceeded__for_an_answer_that_nobody_wants_in_memory(void **state)
{
  (void)state;
  enum { SIZE = 17 << 20 };
  world w;
  world_open(&w, NULL);
  char *input = malloc(SIZE + 40);
  assert_non_null(input);
  for (int i = 0; i < 4; i++) {
    int at = sprintf(input, "{\"key\":\"big.%d\",\"value\":\"", i);
    memset(input + at, 'a' + i, SIZE);
    strcpy(input + at + SIZE, "\"}");
    world_ok(&w, SET, input);
  }
  free(input);
  world_fails(&w, QUERY, "{\"prefix\":\"big.\"}", "LimitExceeded", "split");
  assert_non_null(strstr(w.err.message, "prefix"));
  world_ok(&w, LIST, "{\"prefix\":\"big.\"}");
  CHECK(&w, "count", "4");
  world_close(&w);
}

/* ---- history ---- */

static void persistent_history__in_key__is_the_one_whose_versions_come(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 2);
  set_many(&w, "b", 3);
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "2");
  world_ok(&w, HISTORY, "{\"key\":\"b\"}");
  CHECK(&w, "count", "3");
  world_fails(&w, HISTORY, "{}", "InvalidInput", "correct");
  world_close(&w);
}

static void persistent_history__in_limit__is_the_most_that_come_newest_first(void **state)
{
  (void)state;
  static const char *const bad[] = {"0", "-1", "1.0", "\"2\"", "99999999999999999999"};
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 5);
  world_ok(&w, HISTORY, "{\"key\":\"a\",\"limit\":2}");
  CHECK(&w, "count", "2");
  CHECK(&w, "versions.0.version", "5");
  CHECK(&w, "versions.1.version", "4");
  world_ok(&w, HISTORY, "{\"key\":\"a\",\"limit\":500}");
  CHECK(&w, "count", "5");
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char input[64];
    snprintf(input, sizeof input, "{\"key\":\"a\",\"limit\":%s}", bad[i]);
    world_fails(&w, HISTORY, input, "InvalidInput", "correct");
  }
  world_close(&w);
}

static void persistent_history__out_versions__have_value_and_times_newest_first(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 2);
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "versions",
        "[{\"value\":2,\"version\":2,\"created_at\":\"2026-11-15T10:00:00.000Z\",\"updated_at\":\"2026-11-15T10:00:01.000Z\"},"
        "{\"value\":1,\"version\":1,\"created_at\":\"2026-11-15T10:00:00.000Z\",\"updated_at\":\"2026-11-15T10:00:00.000Z\"}]");
  world_close(&w);
}

static void persistent_history__out_count__is_of_the_versions(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.persistent_versions = 4;
  set_many(&w, "a", 3);
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "3");
  set_many(&w, "a", 3);
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "4");
  CHECK(&w, "versions.3.version", "3");
  world_ok(&w, HISTORY, "{\"key\":\"a\",\"limit\":9}");
  CHECK(&w, "count", "4");
  world_close(&w);
}

static void persistent_history__err_KeyNotFound__for_a_key_that_is_not_there(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_fails(&w, HISTORY, "{\"key\":\"a\"}", "KeyNotFound", "list_keys");
  set_many(&w, "a", 2);
  world_fails(&w, HISTORY, "{\"key\":\"b\"}", "KeyNotFound", "list_keys");
  world_ok(&w, DELETE, "{\"key\":\"a\"}");
  world_fails(&w, HISTORY, "{\"key\":\"a\"}", "KeyNotFound", "list_keys");
  world_close(&w);
}

/* ---- what retention and erasure took ---- */

static pd_store *open_main(world *w)
{
  pd_store *s = NULL;
  assert_int_equal(pd_store_open(w->uri, "main", NULL, &s, &w->err), PD_OK);
  return s;
}

static void persistent_get__err_ValueErased__for_a_version_whose_bytes_were_erased(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 3);
  pd_store *s = open_main(&w);
  assert_int_equal(pd_erase(s, pd_text("a"), &(pd_erase_options){.version = 2}, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":2}", "ValueErased", "read_other");
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "3");
  CHECK(&w, "versions.1.value", "null");
  CHECK(&w, "versions.1.erased", "true");
  CHECK(&w, "versions.0.erased", "");
  CHECK(&w, "versions.2.value", "1");
  world_close(&w);
}

static void persistent_history__ends_where_gc_cut_it_off(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_many(&w, "a", 60);
  pd_store *s = open_main(&w);
  assert_int_equal(pd_gc(s, &(pd_gc_policy){.keep_last = 1, .keep_versions = 10}, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_ok(&w, HISTORY, "{\"key\":\"a\"}");
  CHECK(&w, "count", "10");
  CHECK(&w, "versions.9.value", "51");
  world_ok(&w, GET, "{\"key\":\"a\",\"version\":51}");
  CHECK(&w, "value", "51");
  world_fails(&w, GET, "{\"key\":\"a\",\"version\":20}", "KeyNotFound", "list_keys");
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(persistent_list__in_prefix__chooses_keys_that_begin_with_it),
    cmocka_unit_test(persistent_list__out_entries__have_key_version_size_and_time_but_no_value),
    cmocka_unit_test(persistent_list__out_count__is_of_what_is_listed),
    cmocka_unit_test(persistent_list__out_total_size_bytes__is_what_the_quota_counts),
    cmocka_unit_test(persistent_list__err_DatabaseError__when_the_database_cannot_be_read),
    cmocka_unit_test(persistent_query__in_prefix__must_be_there_and_chooses_keys),
    cmocka_unit_test(persistent_query__out_entries__have_values_and_times),
    cmocka_unit_test(persistent_query__out_count__is_of_the_entries),
    cmocka_unit_test(persistent_query__err_DatabaseError__when_the_database_cannot_be_read),
    cmocka_unit_test(persistent_query__err_LimitExceeded__for_an_answer_that_nobody_wants_in_memory),
    cmocka_unit_test(persistent_history__in_key__is_the_one_whose_versions_come),
    cmocka_unit_test(persistent_history__in_limit__is_the_most_that_come_newest_first),
    cmocka_unit_test(persistent_history__out_versions__have_value_and_times_newest_first),
    cmocka_unit_test(persistent_history__out_count__is_of_the_versions),
    cmocka_unit_test(persistent_history__err_KeyNotFound__for_a_key_that_is_not_there),
    cmocka_unit_test(persistent_get__err_ValueErased__for_a_version_whose_bytes_were_erased),
    cmocka_unit_test(persistent_history__ends_where_gc_cut_it_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
