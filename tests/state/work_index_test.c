/* work_index_test.c: the index of an agent's work items: a key an item, the list of older stores, and StateStores beside it. */
#include "state/one_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "state/home.h"
#include "support/temp_folder.h"

#include <perdure/work.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int set_up_buffered(void **state)
{
  (void)state;
  world_open(&w, "[store]\nflush = \"1s\"\n"); /* for tests that are not about syncs */
  return 0;
}

static void fails(const char *capability, const char *error, const char *action, const char *fmt, ...)
  __attribute__((format(printf, 4, 5)));

static void fails(const char *capability, const char *error, const char *action, const char *fmt, ...)
{
  char *input = NULL;
  va_list args;
  va_start(args, fmt);
  assert_true(vasprintf(&input, fmt, args) >= 0);
  va_end(args);
  world_fails(&w, capability, input, error, action);
  free(input);
}

static void create(const char *id)
{
  if (world_callf(&w, "work.create", "{\"run_id\":\"%s\",\"title\":\"t\"}", id)) fail_msg("create: %s", w.err.message);
}

/* On the ref `state`, past the home. Value NULL: a delete. */
static void write_raw(const char *key, const char *value)
{
  pd_store *store = NULL;
  assert_int_equal(pd_store_open(w.uri, "main", &(pd_options){.ref = "state"}, &store, &w.err), PD_OK);
  if (value)
    assert_int_equal(pd_put(store, pd_text(key), pd_text(value), NULL, NULL, &w.err), PD_OK);
  else
    assert_int_equal(pd_delete(store, pd_text(key), PD_ANY_VERSION, NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
}

/* "" if it is not there; static. */
static const char *read_raw(const char *key)
{
  static char text[256];
  pd_store *store = NULL;
  CLEANUP(pd_buf_done) pd_buf value = {0};
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &store, &w.err), PD_OK);
  pd_code code = pd_get(store, "state", pd_text(key), &value, NULL, &w.err);
  assert_true(!code || code == PD_NOT_FOUND);
  snprintf(text, sizeof text, "%.*s", (int)value.size, value.size ? (const char *)value.data : "");
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  return text;
}

/* The ids of all items in order, each with a blank behind it. */
static void ids_are(const char *want)
{
  char got[256] = "", path[32];
  world_ok(&w, "work.list", "{\"status\":\"all\"}");
  for (int i = 0; i < 20; i++) {
    snprintf(path, sizeof path, "runs.%d.id", i);
    const char *id = world_out(&w, path);
    if (!*id) break;
    strncat(got, id + 1, strlen(id) - 2);
    strcat(got, " ");
  }
  assert_string_equal(got, want);
}

/* A home as versions before this index left it. */
static void write_old_work(void)
{
  create("first");
  write_raw("run:index/0000000000000001", NULL);
  write_raw("run:index/tally", NULL);
  write_raw("run:index", "[\"first\",\"old-2\",\"old-1\"]");
  write_raw("run:old-1", "{\"id\":\"old-1\",\"status\":\"pending\"}");
  write_raw("run:old-2", "{\"id\":\"old-2\",\"status\":\"pending\"}");
  ids_are("first old-2 old-1 ");
}

static uint64_t bytes_of_a_create(void)
{
  pd_stats before, after;
  pd_held *held = NULL;
  assert_int_equal(pd_home_hold(world_grant(w.home), "main", false, &held, &w.err), PD_OK);
  assert_int_equal(pd_store_flush(held->store, &w.err), PD_OK);
  assert_int_equal(pd_store_stats(held->store, &before, &w.err), PD_OK);
  world_ok(&w, "work.create", "{\"title\":\"t\"}");
  assert_int_equal(pd_store_flush(held->store, &w.err), PD_OK);
  assert_int_equal(pd_store_stats(held->store, &after, &w.err), PD_OK);
  pd_home_let(w.home, held);
  assert_true(after.records == before.records + 1);
  return after.log_bytes + after.bag_bytes - before.log_bytes - before.bag_bytes;
}

static void work_index__creating_one_of_2000_writes_as_much_as_one_of_10(void **state)
{
  (void)state;
  uint64_t few, many;
  for (int i = 0; i < 9; i++) world_ok(&w, "work.create", "{\"title\":\"t\"}");
  few = bytes_of_a_create();
  for (int i = 10; i < 1999; i++) world_ok(&w, "work.create", "{\"title\":\"t\"}");
  many = bytes_of_a_create();
  print_message("# %llu and %llu bytes\n", (unsigned long long)few, (unsigned long long)many);
  assert_true(few > 0 && many <= few + 16); /* the numbers have more digits */
}

static void work_index__an_old_list_becomes_keys_with_the_first_create(void **state)
{
  (void)state;
  write_old_work();
  assert_string_not_equal(read_raw("run:index"), ""); /* reading changes nothing */
  create("new");
  ids_are("first old-2 old-1 new ");
  assert_string_equal(read_raw("run:index"), "");
  assert_string_equal(read_raw("run:index/0000000000000002"), "\"old-2\"");
  assert_string_equal(read_raw("run:index/tally"), "{\"next\":5,\"count\":4,\"ended\":0}");
  fails("work.create", "RunExists", "get", "{\"run_id\":\"old-1\"}");
  world_ok(&w, "work.claim", "{}");
  OUT("run.id", "\"first\"");
}

static void work_index__an_old_list_becomes_keys_with_the_first_prune(void **state)
{
  (void)state;
  write_old_work();
  world_ok(&w, "work.cancel", "{\"run_id\":\"old-2\"}");
  world_ok(&w, "work.prune", "{\"keep\":0}");
  OUT("run_ids", "[\"old-2\"]");
  ids_are("first old-1 ");
  assert_string_equal(read_raw("run:index"), "");
  assert_string_equal(read_raw("run:index/tally"), "{\"next\":3,\"count\":2,\"ended\":0}");
}

static void work_index__what_is_pruned_leaves_no_key(void **state)
{
  (void)state;
  create("a");
  create("b");
  create("c");
  world_ok(&w, "work.cancel", "{\"run_id\":\"b\"}");
  world_ok(&w, "work.prune", "{\"keep\":0}");
  ids_are("a c ");
  assert_string_equal(read_raw("run:index/0000000000000002"), "");
  assert_string_equal(read_raw("run:index/tally"), "{\"next\":4,\"count\":2,\"ended\":0}");
  create("d");
  assert_string_equal(read_raw("run:index/0000000000000004"), "\"d\"");
}

static void work_index__a_statestore_and_the_home_take_turns_without_losing_an_item(void **state)
{
  (void)state;
  pd_statestore_options options = pd_statestore_defaults();
  options.enabled = true;
  options.type = PD_STATESTORE_PERDURE;
  options.uri = w.uri;
  pd_work_options keep = {.owner = "s", .keep_count = 9, .keep_ms = PD_WORK_KEEP_ALL};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  for (int i = 0; i < 2; i++) {
    pd_statestore *store = NULL;
    pd_work *work = NULL;
    create(i ? "h2" : "h1");
    assert_int_equal(pd_statestore_open(&options, &store, &w.err), PD_OK);
    assert_int_equal(pd_statestore_get(store, pd_text("run:index"), &text, &w.err), PD_OK);
    const char *seen = i ? "[\"h1\",\"s1\",\"h2\"]" : "[\"h1\"]";
    assert_true(pd_bytes_equal(pd_buf_bytes(&text), pd_text(seen)));
    assert_int_equal(pd_statestore_get_at(store, "state", pd_text("run:index"), &text, &w.err), PD_OK);
    assert_true(pd_bytes_equal(pd_buf_bytes(&text), pd_text(seen)));
    assert_int_equal(pd_statestore_get(store, pd_text("run:index/tally"), &text, &w.err), PD_NOT_FOUND);
    assert_int_equal(pd_work_open(store, &keep, &work, &w.err), PD_OK);
    assert_int_equal(pd_work_create(work, &(pd_work_request){.id = i ? "s2" : "s1"}, NULL, &w.err), PD_OK);
    pd_work_close(work);
    assert_int_equal(pd_statestore_close(store, &w.err), PD_OK);
    pd_statestore_free(store);
    assert_string_equal(read_raw("run:index"), i ? "[\"h1\",\"s1\",\"h2\",\"s2\"]" : "[\"h1\",\"s1\"]");
    assert_string_equal(read_raw("run:index/tally"), "");
  }
  create("h3");
  ids_are("h1 s1 h2 s2 h3 ");
}

static void work_index__a_tally_that_is_wrong_or_lost_is_made_again(void **state)
{
  (void)state;
  static const char *const bad[] = {NULL,
                                    "7",
                                    "{}",
                                    "{\"next\":0,\"count\":0,\"ended\":0}",
                                    "{\"next\":1,\"count\":9,\"ended\":0}",
                                    "{\"next\":-4,\"count\":1,\"ended\":0}",
                                    "{\"next\":18446744073709551615,\"count\":1,\"ended\":0}"};
  char want[256] = "a ", id[16], tally[64];
  create("a");
  for (int i = 0; i < (int)COUNT_OF(bad); i++) {
    write_raw("run:index/tally", bad[i]);
    snprintf(id, sizeof id, "r%d", i);
    create(id);
    strcat(strcat(want, id), " ");
    ids_are(want);
    snprintf(tally, sizeof tally, "{\"next\":%d,\"count\":%d,\"ended\":0}", i + 3, i + 2);
    assert_string_equal(read_raw("run:index/tally"), tally);
  }
}

static void work_index__a_key_without_an_id_is_corrupt_and_others_keys_are_let_alone(void **state)
{
  (void)state;
  static const char *const bad[] = {"7", "\"a b\"", "[\"a\"]", "\"index\"", "\"\""};
  create("a");
  write_raw("run:index/else", "7");
  write_raw("run:index/000000000000000G", "7");
  create("b");
  ids_are("a b ");
  assert_string_equal(read_raw("run:index/else"), "7");
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    write_raw("run:index/0000000000000001", bad[i]);
    assert_int_equal(world_callf(&w, "work.list", "{}"), PD_CORRUPT);
    assert_non_null(strstr(w.err.message, "run:index/0000000000000001"));
    assert_int_equal(world_callf(&w, "work.claim", "{}"), PD_CORRUPT);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(work_index__creating_one_of_2000_writes_as_much_as_one_of_10, set_up_buffered, tear_down),
    TEST(work_index__an_old_list_becomes_keys_with_the_first_create),
    TEST(work_index__an_old_list_becomes_keys_with_the_first_prune),
    TEST(work_index__what_is_pruned_leaves_no_key),
    TEST(work_index__a_statestore_and_the_home_take_turns_without_losing_an_item),
    TEST(work_index__a_tally_that_is_wrong_or_lost_is_made_again),
    TEST(work_index__a_key_without_an_id_is_corrupt_and_others_keys_are_let_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
