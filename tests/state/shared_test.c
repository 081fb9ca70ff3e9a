/* shared_test.c: state.shared.get, set, delete, list, as seed 001 has them. Watching is in watch_test.c. */
#include "state/one_world.h"

#include "base/base.h"
#include "base/clock.h"
#include "state/home.h"
#include "state/owners.h"
#include "support/heap.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void set(const char *agent, const char *key, const char *value, unsigned expected)
{
  w.agent = agent;
  if (world_callf(&w, "state.shared.set", "{\"key\":\"%s\",\"value\":%s,\"expected_version\":%u}", key, value, expected))
    fail_msg("set %s: %s", key, w.err.message);
}

static void get(const char *key)
{
  assert_int_equal(world_callf(&w, "state.shared.get", "{\"key\":\"%s\"}", key), PD_OK);
}

/* ---- get ---- */

static void shared_get__in_key__names_the_entry_that_is_read(void **state)
{
  (void)state;
  set("main", "a", "1", 0);
  set("main", "ab", "2", 0);
  get("a");
  OUT("value", "1");
  get("ab");
  OUT("value", "2");
}

static void shared_get__out_value__is_the_very_json_and_null_if_absent(void **state)
{
  (void)state;
  set("main", "a", "{ \"n\" : 1.50, \"list\": [ 1e3, null, \"x y\" ] }", 0);
  get("a");
  OUT("value", "{\"n\":1.50,\"list\":[1e3,null,\"x y\"]}");
  get("b");
  OUT("value", "null");
}

static void shared_get__out_version__counts_writes_and_is_0_if_absent(void **state)
{
  (void)state;
  for (unsigned i = 0; i < 5; i++) {
    char version[16];
    snprintf(version, sizeof version, "%u", i);
    get("a");
    OUT("version", version);
    set("main", "a", "true", i);
  }
}

static void shared_get__out_found__tells_null_from_nothing(void **state)
{
  (void)state;
  set("main", "a", "null", 0);
  get("a");
  OUT("found", "true");
  OUT("value", "null");
  get("b");
  OUT("found", "false");
}

static void shared_get__out_owner_agent__is_who_last_wrote(void **state)
{
  (void)state;
  set("alice", "a", "1", 0);
  get("a");
  OUT("owner_agent", "\"alice\"");
  set("bob", "a", "2", 1);
  w.agent = "carol";
  get("a");
  OUT("owner_agent", "\"bob\"");
  world_restart(&w);
  get("a");
  OUT("owner_agent", "\"bob\"");
  get("b");
  OUT("owner_agent", "null");
}

static void shared_get__out_updated_at__is_the_time_of_the_last_write(void **state)
{
  (void)state;
  set("main", "a", "1", 0);
  w.now_ms += 90000;
  set("main", "a", "2", 1);
  w.now_ms += 90000;
  get("a");
  OUT("updated_at", "\"2026-11-15T10:01:30.000Z\"");
  get("b");
  OUT("updated_at", "null");
}

static void shared_get__err_KeyNotFound__is_answered_as_found_false(void **state)
{
  (void)state;
  get("nobody.wrote.this");
  OUT("found", "false");
  OUT("version", "0");
  OUT("owner_agent", "null");
}

/* ---- set ---- */

static void shared_set__in_key__is_one_line_of_text(void **state)
{
  (void)state;
  world_fails(&w, "state.shared.set", "{\"key\":\"a\\nb\",\"value\":1,\"expected_version\":0}", "InvalidInput", "correct");
  world_fails(&w, "state.shared.set", "{\"key\":\"\",\"value\":1,\"expected_version\":0}", "InvalidInput", "correct");
  set("main", "../x", "1", 0); /* no path: only a key */
  world_ok(&w, "state.shared.list", "{}");
  OUT("count", "1");
  OUT("entries.0.key", "\"../x\"");
}

static void shared_set__in_value__may_be_any_json(void **state)
{
  (void)state;
  static const char *const values[] = {"null",        "false", "0",  "-1.5e-7",           "\"\"",
                                       "\"\\u00e9\"", "[]",    "{}", "[[[{\"a\":[1]}]]]", "123456789012345678901234567890"};
  for (unsigned i = 0; i < COUNT_OF(values); i++) {
    set("main", "a", values[i], i);
    get("a");
    OUT("value", values[i]);
  }
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":{\"x\":1,\"x\":2},\"expected_version\":10}", "InvalidInput", "correct");
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"expected_version\":10}", "InvalidInput", "correct");
}

static void shared_set__in_expected_version__is_required_and_no_other_than_the_current(void **state)
{
  (void)state;
  static const char *const bad[] = {"-1", "1.0", "1e1", "\"0\"", "null", "true", "9007199254740992", "99999999999999999999"};
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":1}", "InvalidInput", "correct");
  assert_non_null(strstr(w.err.message, "'expected_version' is missing"));
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char input[128];
    snprintf(input, sizeof input, "{\"key\":\"a\",\"value\":1,\"expected_version\":%s}", bad[i]);
    world_fails(&w, "state.shared.set", input, "InvalidInput", "correct");
  }
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":9007199254740991}", "VersionConflict", "retry");
  get("a");
  OUT("found", "false");
  set("main", "a", "1", 0);
}

static void shared_set__out_version__is_the_one_that_get_then_tells(void **state)
{
  (void)state;
  set("main", "a", "1", 0);
  OUT("version", "1");
  set("main", "a", "1", 1);
  OUT("version", "2");
  get("a");
  OUT("version", "2");
}

static void shared_set__effect_1__is_in_the_shared_database_after_a_restart(void **state)
{
  (void)state;
  set("alice", "a", "{\"kept\":true}", 0);
  world_restart(&w);
  w.agent = "bob";
  get("a");
  OUT("value", "{\"kept\":true}");
  char *path = text_of("%s/shared.db", w.folder);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fclose(f);
  free(path);
}

static void shared_set__err_VersionConflict__carries_both_versions_and_changes_nothing(void **state)
{
  (void)state;
  set("alice", "a", "1", 0);
  set("bob", "a", "2", 1);
  w.agent = "alice";
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":3,\"expected_version\":1}", "VersionConflict", "retry");
  OUT("error.details.expected", "1");
  OUT("error.details.actual", "2");
  OUT("error.recovery.0.hint", "\"Re-read the key with state.shared.get and retry with the new version.\"");
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":3,\"expected_version\":0}", "VersionConflict", "retry");
  OUT("error.details.expected", "0");
  OUT("error.details.actual", "2");
  world_fails(&w, "state.shared.set", "{\"key\":\"b\",\"value\":3,\"expected_version\":4}", "VersionConflict", "retry");
  OUT("error.details.actual", "0");
  get("a");
  OUT("value", "2");
  OUT("owner_agent", "\"bob\"");
  get("b");
  OUT("found", "false");
}

static void shared_set__effect_3__counts_toward_the_quota_of_all_agents(void **state)
{
  (void)state;
  assert_int_equal(w.home->config.shared_quota_bytes, 500 * 1024 * 1024);
  w.home->config.shared_quota_bytes = 20;
  set("alice", "a", "12345678", 0);
  set("bob", "b", "12345678", 0);
  set("bob", "b", "1234", 1); /* what it was before does not count any more */
  set("carol", "c", "12345678", 0);
  world_fails(&w, "state.shared.set", "{\"key\":\"d\",\"value\":1,\"expected_version\":0}", "QuotaExceeded", "delete_unused");
}

static void shared_set__err_QuotaExceeded__names_both_recoveries_and_changes_nothing(void **state)
{
  (void)state;
  w.home->config.shared_quota_bytes = 10;
  set("alice", "a", "12345", 0);
  w.agent = "bob";
  world_fails(&w, "state.shared.set", "{\"key\":\"b\",\"value\":123456,\"expected_version\":0}", "QuotaExceeded", "delete_unused");
  OUT("error.recovery.1.action", "\"request_increase\"");
  OUT("error.details.used", "5");
  OUT("error.details.limit", "10");
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":12345678901,\"expected_version\":1}", "QuotaExceeded", NULL);
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":7}", "VersionConflict", "retry");
  world_ok(&w, "state.shared.list", "{}");
  OUT("count", "1");
  OUT("entries.0.version", "1");
  set("bob", "b", "12345", 0);
}

/* ---- delete ---- */

static void shared_delete__in_key__is_the_one_that_goes(void **state)
{
  (void)state;
  set("main", "a", "1", 0);
  set("main", "ab", "2", 0);
  world_ok(&w, "state.shared.delete", "{\"key\":\"a\"}");
  get("ab");
  OUT("found", "true");
  get("a");
  OUT("found", "false");
}

static void shared_delete__out_deleted__is_true_once(void **state)
{
  (void)state;
  set("main", "a", "1", 0);
  world_ok(&w, "state.shared.delete", "{\"key\":\"a\"}");
  OUT("deleted", "true");
  world_ok(&w, "state.shared.delete", "{\"key\":\"a\"}");
  OUT("deleted", "false");
}

static void shared_delete__effect_1__is_visible_to_all_at_once_and_no_version_comes_again(void **state)
{
  (void)state;
  world other = w;
  pd_home_options options = {0};
  assert_int_equal(pd_home_open(w.uri, &options, &other.home, &other.err), PD_OK); /* as another process would */
  other.out = (pd_buf){0};
  other.agent = "bob";
  set("alice", "a", "1", 0);
  set("alice", "a", "2", 1);
  world_ok(&other, "state.shared.get", "{\"key\":\"a\"}");
  assert_string_equal(world_out(&other, "version"), "2");
  world_ok(&w, "state.shared.delete", "{\"key\":\"a\"}");
  world_ok(&other, "state.shared.get", "{\"key\":\"a\"}");
  assert_string_equal(world_out(&other, "found"), "false");
  world_fails(&other, "state.shared.set", "{\"key\":\"a\",\"value\":3,\"expected_version\":2}", "VersionConflict", "retry");
  world_ok(&other, "state.shared.set", "{\"key\":\"a\",\"value\":3,\"expected_version\":0}");
  assert_string_equal(world_out(&other, "version"), "3");
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":4,\"expected_version\":1}", "VersionConflict", "retry");
  world_fails(&w, "state.shared.set", "{\"key\":\"a\",\"value\":4,\"expected_version\":2}", "VersionConflict", "retry");
  assert_int_equal(pd_home_close(other.home, &other.err), PD_OK);
  pd_buf_done(&other.out);
}

static void shared_delete__in_expected_version__removes_only_what_was_read(void **state)
{
  (void)state;
  set("alice", "read", "1", 0);
  set("bob", "read", "2", 1);
  world_fails(&w, "state.shared.delete", "{\"key\":\"read\",\"expected_version\":0}", "InvalidInput", NULL);
  world_fails(&w, "state.shared.delete", "{\"key\":\"read\",\"expected_version\":\"2\"}", "InvalidInput", NULL);
  world_ok(&w, "state.shared.get", "{\"key\":\"read\"}");
  assert_string_equal(world_out(&w, "value"), "2");
  world_ok(&w, "state.shared.delete", "{\"key\":\"read\",\"expected_version\":2}");
  assert_string_equal(world_out(&w, "deleted"), "true");
  world_ok(&w, "state.shared.delete", "{\"key\":\"read\",\"expected_version\":2}");
  assert_string_equal(world_out(&w, "deleted"), "false");
}

static void shared_delete__effect_1__takes_the_bytes_out_of_history(void **state)
{
  (void)state;
  set("alice", "secret", "\"hunter2\"", 0);
  set("alice", "secret", "\"hunter3\"", 1);
  world_ok(&w, "history.get", "{\"key\":\"secret\",\"store\":\"shared\",\"at\":\"main~1\"}");
  world_ok(&w, "state.shared.delete", "{\"key\":\"secret\"}");
  world_fails(&w, "history.get", "{\"key\":\"secret\",\"store\":\"shared\",\"at\":\"main~1\"}", "ValueErased", NULL);
  world_fails(&w, "history.get", "{\"key\":\"secret\",\"store\":\"shared\",\"at\":\"main~2\"}", "ValueErased", NULL);
}

static void shared_delete__effect_2__frees_quota(void **state)
{
  (void)state;
  w.home->config.shared_quota_bytes = 10;
  set("alice", "a", "1234567890", 0);
  world_fails(&w, "state.shared.set", "{\"key\":\"b\",\"value\":1,\"expected_version\":0}", "QuotaExceeded", "delete_unused");
  world_ok(&w, "state.shared.delete", "{\"key\":\"a\"}");
  set("alice", "b", "1234567890", 0);
}

static void shared_delete__err_VersionConflict__leaves_the_key(void **state)
{
  (void)state;
  world_ok(&w, "state.shared.set", "{\"key\":\"k\",\"value\":1,\"expected_version\":0}");
  world_fails(&w, "state.shared.delete", "{\"key\":\"k\",\"expected_version\":7}", "VersionConflict", "retry");
  world_ok(&w, "state.shared.get", "{\"key\":\"k\"}");
  assert_string_equal(world_out(&w, "value"), "1");
}

static void shared_delete__err_KeyNotFound__is_answered_as_deleted_false(void **state)
{
  (void)state;
  world_ok(&w, "state.shared.delete", "{\"key\":\"nobody.wrote.this\"}");
  OUT("deleted", "false");
}

/* ---- list ---- */

static void shared_list__in_prefix__takes_only_keys_that_begin_so(void **state)
{
  (void)state;
  set("main", "config.a", "1", 0);
  set("main", "config.b", "1", 0);
  set("main", "config", "1", 0);
  set("main", "task", "1", 0);
  world_ok(&w, "state.shared.list", "{\"prefix\":\"config.\"}");
  OUT("count", "2");
  OUT("entries.0.key", "\"config.a\"");
  OUT("entries.1.key", "\"config.b\"");
  world_ok(&w, "state.shared.list", "{\"prefix\":\"\"}");
  OUT("count", "4");
  world_ok(&w, "state.shared.list", "{\"prefix\":\"x\"}");
  OUT("entries", "[]");
}

static void shared_list__out_entries__tell_key_version_size_owner_and_time(void **state)
{
  (void)state;
  set("alice", "a", "[1, 2]", 0);
  set("bob", "b", "\"\\u00e9\"", 0);
  w.now_ms += 1000;
  set("carol", "b", "\"long\"", 1);
  world_ok(&w, "state.shared.list", "{}");
  OUT("entries.0", "{\"key\":\"a\",\"version\":1,\"size_bytes\":5,\"owner_agent\":\"alice\",\"updated_at\":\"2026-11-15T10:00:00.000Z\"}");
  OUT("entries.1", "{\"key\":\"b\",\"version\":2,\"size_bytes\":6,\"owner_agent\":\"carol\",\"updated_at\":\"2026-11-15T10:00:01.000Z\"}");
}

static void shared_list__out_count__is_the_number_of_entries(void **state)
{
  (void)state;
  world_ok(&w, "state.shared.list", "{}");
  OUT("count", "0");
  set("main", "a", "1", 0);
  set("main", "b", "1", 0);
  set("main", "b", "1", 1);
  world_ok(&w, "state.shared.list", "{}");
  OUT("count", "2");
}

static void shared_list__out_total_size_bytes__is_the_sum_of_what_is_listed(void **state)
{
  (void)state;
  set("main", "a.1", "12345", 0);
  set("main", "a.2", "\"xyz\"", 0);
  set("main", "b", "true", 0);
  world_ok(&w, "state.shared.list", "{\"prefix\":\"a.\"}");
  OUT("total_size_bytes", "10");
  world_ok(&w, "state.shared.list", "{}");
  OUT("total_size_bytes", "14");
  world_ok(&w, "state.shared.delete", "{\"key\":\"a.1\"}");
  world_ok(&w, "state.shared.list", "{}");
  OUT("total_size_bytes", "9");
}

static void shared_list__err_DatabaseError__says_retry_when_the_database_is_none(void **state)
{
  (void)state;
  char *path = text_of("%s/shared.db", w.folder);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  for (int i = 0; i < 4096; i++) fputs("this is no database ", f);
  assert_int_equal(fclose(f), 0);
  free(path);
  world_fails(&w, "state.shared.list", "{}", "DatabaseError", "retry");
  OUT("error.recovery.0.hint", "\"Retry the operation. If the error persists, check disk health.\"");
}

static void shared_list__of_10000_keys_names_every_owner(void **state)
{
  (void)state;
  pd_store *store;
  pd_options options = {.flush_ms = 1000}; /* a record for each key, but not a sync */
  char key[32], author[16];
  assert_int_equal(pd_store_open(w.uri, "shared", &options, &store, &w.err), PD_OK);
  for (int i = 0; i < 10000; i++) {
    snprintf(author, sizeof author, "agent-%d", i % 10);
    snprintf(key, sizeof key, "k%05d", i);
    assert_int_equal(pd_put(store, pd_text(key), pd_text("1"), &(pd_note){.author = author}, NULL, &w.err), PD_OK);
  }
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  for (int round = 0; round < 2; round++) {
    int64_t start = pd_clock_monotonic_ms();
    world_ok(&w, "state.shared.list", "{}");
    print_message("# list of 10,000 keys, round %d: %lld ms\n", round + 1, (long long)(pd_clock_monotonic_ms() - start));
    OUT("count", "10000");
    OUT("entries.4321.owner_agent", "\"agent-1\"");
    OUT("entries.9999.owner_agent", "\"agent-9\"");
  }
}

#define WRITES 2000
#define KEPT_BYTES_MAX ((size_t)48 << 10) /* tables begin with some room; 2000 owners were 80 KB */

typedef struct versions {
  pd_entry entries[WRITES]; /* newest first */
  size_t count;
} versions;

static bool take_entry(void *ctx, const pd_version_info *version)
{
  versions *v = ctx;
  v->entries[v->count] = version->entry;
  v->entries[v->count++].key = pd_text("k");
  return v->count < WRITES;
}

static void ask_owners(const versions *v, pd_home *home, pd_store *store)
{
  char owner[PD_NAME_SIZE_MAX + 1];
  for (size_t i = v->count; i > 0; i--) {
    assert_int_equal(pd_owner_of(home, store, &v->entries[i - 1], owner, &w.err), PD_OK);
    assert_string_equal(owner, i % 2 ? "a0" : "a1");
  }
}

/* A server remembers who wrote a value that was asked for: of a key's newest version, not of each that it ever had. */
static void shared__memory_for_owners_does_not_grow_with_writes(void **state)
{
  (void)state;
  static versions v;
  pd_store *store;
  pd_options options = {.flush_ms = 1000};
  v.count = 0;
  assert_int_equal(pd_store_open(w.uri, "shared", &options, &store, &w.err), PD_OK);
  for (int i = 0; i < WRITES; i++)
    assert_int_equal(pd_put(store, pd_text("k"), pd_text("1"), &(pd_note){.author = i % 2 ? "a0" : "a1"}, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  assert_int_equal(pd_store_open(w.uri, "shared", NULL, &store, &w.err), PD_OK); /* one that writes nothing meanwhile */
  assert_int_equal(pd_history(store, NULL, pd_text("k"), 0, take_entry, &v, &w.err), PD_OK);
  assert_int_equal(v.count, WRITES);
  ask_owners(&v, w.home, store); /* what the store itself caches for it */
  pd_home *other;
  assert_int_equal(pd_home_open(w.uri, NULL, &other, &w.err), PD_OK);
  size_t before = heap_in_use();
  ask_owners(&v, other, store);
  print_message("# %zu bytes\n", heap_in_use() - before);
  assert_true(heap_in_use() < before + KEPT_BYTES_MAX || heap_is_hidden());
  assert_int_equal(pd_home_close(other, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(shared__memory_for_owners_does_not_grow_with_writes, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__in_key__names_the_entry_that_is_read, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__out_value__is_the_very_json_and_null_if_absent, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__out_version__counts_writes_and_is_0_if_absent, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__out_found__tells_null_from_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__out_owner_agent__is_who_last_wrote, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__out_updated_at__is_the_time_of_the_last_write, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_get__err_KeyNotFound__is_answered_as_found_false, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__in_key__is_one_line_of_text, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__in_value__may_be_any_json, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__in_expected_version__is_required_and_no_other_than_the_current, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__out_version__is_the_one_that_get_then_tells, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__effect_1__is_in_the_shared_database_after_a_restart, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__err_VersionConflict__carries_both_versions_and_changes_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__effect_3__counts_toward_the_quota_of_all_agents, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_set__err_QuotaExceeded__names_both_recoveries_and_changes_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__in_key__is_the_one_that_goes, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__out_deleted__is_true_once, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__effect_1__is_visible_to_all_at_once_and_no_version_comes_again, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__in_expected_version__removes_only_what_was_read, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__effect_1__takes_the_bytes_out_of_history, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__effect_2__frees_quota, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__err_VersionConflict__leaves_the_key, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_delete__err_KeyNotFound__is_answered_as_deleted_false, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_list__in_prefix__takes_only_keys_that_begin_so, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_list__out_entries__tell_key_version_size_owner_and_time, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_list__out_count__is_the_number_of_entries, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_list__out_total_size_bytes__is_the_sum_of_what_is_listed, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_list__err_DatabaseError__says_retry_when_the_database_is_none, set_up, tear_down),
    cmocka_unit_test_setup_teardown(shared_list__of_10000_keys_names_every_owner, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
