/* statestore_database_test.c: the StateStores that are a SQLite table or a ref of an agent's store: what is in them, and what fails. */
#include "state/desk.h"

#include "base/file.h"

#include <sqlite3.h>
#include <sys/stat.h>

static void run_sql(desk *d, const char *sql)
{
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(d->database, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL)) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  sqlite3_close(db);
}

/* The first column of all rows, each with a blank behind it. */
static void assert_sql(desk *d, const char *sql, const char *wanted)
{
  sqlite3 *db = NULL;
  sqlite3_stmt *rows = NULL;
  pd_buf got = {0};
  assert_int_equal(sqlite3_open(d->database, &db), SQLITE_OK);
  if (sqlite3_prepare_v2(db, sql, -1, &rows, NULL)) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  while (sqlite3_step(rows) == SQLITE_ROW)
    assert_int_equal(pd_buf_printf(&got, NULL, "%s ", (const char *)sqlite3_column_text(rows, 0)), PD_OK);
  sqlite3_finalize(rows);
  sqlite3_close(db);
  assert_text(&got, wanted);
  pd_buf_done(&got);
}

static void database__has_the_table_of_the_seed(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_DATABASE);
  d.options.table_name = "agent_state";
  desk_start(&d);
  desk_set(&d, "key1", "\"value1\"");
  desk_set(&d, "key2", "{ \"nested\": true }");
  desk_flush(&d);
  assert_sql(&d, "SELECT sql FROM sqlite_master WHERE name = 'core_agent_state'",
             "CREATE TABLE core_agent_state (state_key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT DEFAULT CURRENT_TIMESTAMP) ");
  assert_sql(&d, "SELECT state_key || '=' || value FROM core_agent_state ORDER BY rowid", "key1=\"value1\" key2={\"nested\":true} ");
  assert_sql(&d, "SELECT count(*) FROM core_agent_state WHERE updated_at LIKE '20__-__-__ __:__:__' AND typeof(value) = 'text'", "2 ");
  run_sql(&d, "UPDATE core_agent_state SET updated_at = 'old'");
  desk_set(&d, "key1", "1");
  desk_flush(&d);
  assert_sql(&d, "SELECT state_key FROM core_agent_state WHERE updated_at = 'old'", "key2 ");
  desk_done(&d);
}

static void database__rows_of_the_original_are_read(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_DATABASE);
  run_sql(&d, "CREATE TABLE core_state (state_key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT DEFAULT CURRENT_TIMESTAMP);"
              "INSERT INTO core_state(state_key, value) VALUES ('z', '{ \"n\": 1 }'), ('a', 'true')");
  desk_start(&d);
  assert_keys(&d, "", "z a ");
  assert_value(&d, "z", "{\"n\":1}");
  desk_done(&d);
}

static void database__rows_that_are_no_json_are_told_and_left_alone(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_DATABASE);
  run_sql(&d, "CREATE TABLE core_state (state_key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT DEFAULT CURRENT_TIMESTAMP);"
              "INSERT INTO core_state(state_key, value) VALUES ('bad', '{half'), ('good', '1'), (NULL, '2')");
  desk_start(&d);
  assert_keys(&d, "", "good ");
  assert_int_equal(d.warning_count, 2);
  desk_set(&d, "good", "2");
  desk_stop(&d);
  assert_sql(&d, "SELECT value FROM core_state ORDER BY rowid", "{half 2 2 ");
  desk_done(&d);
}

static void database__is_for_its_owner_alone(void **state)
{
  (void)state;
  desk d;
  struct stat is;
  mode_t before = umask(022);
  desk_open(&d, PD_STATESTORE_DATABASE);
  umask(before);
  assert_int_equal(stat(d.database, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0600);
  desk_done(&d);
}

static void database__what_others_write_has_no_checksum_and_is_taken(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_DATABASE);
  desk_set(&d, "a", "1");
  desk_set(&d, "b", "2");
  desk_set(&d, "c", "3");
  desk_stop(&d);
  run_sql(&d, "UPDATE core_state SET value = '10' WHERE state_key = 'a'; DELETE FROM core_state WHERE state_key = 'b';"
              "INSERT INTO core_state (state_key, value) VALUES ('d', '4')");
  desk_start(&d);
  assert_keys(&d, "", "a c d ");
  assert_value(&d, "a", "10");
  assert_int_equal(d.warning_count, 0);
  desk_done(&d);
}

/* Every byte of the file but those that hold nothing: the state is as it was, or the open says that it is damaged. */
static void database__a_flipped_byte_is_never_read_as_the_truth(void **state)
{
  (void)state;
  desk d;
  pd_buf whole = {0};
  unsigned noticed = 0;
  desk_open(&d, PD_STATESTORE_DATABASE);
  desk_set(&d, "a", "\"first\"");
  desk_set(&d, "b", "[1,2,3]");
  desk_stop(&d);
  assert_int_equal(pd_file_read(d.database, (size_t)1 << 20, &whole, &d.err), PD_OK);
  d.options.flush_interval_ms = 60000;
  for (size_t i = 0; i < whole.size; i++) {
    if (!whole.data[i]) continue; /* mostly empty space; what counts there is tried below */
    whole.data[i] ^= (uint8_t)(1 << i % 8);
    assert_int_equal(pd_file_write(d.database, pd_buf_bytes(&whole), false, &d.err), PD_OK);
    whole.data[i] ^= (uint8_t)(1 << i % 8);
    pd_statestore_stats stats;
    d.warning_count = 0;
    desk_start(&d);
    pd_statestore_stats_get(d.s, &stats);
    if (stats.is_fallback) {
      assert_true(d.warning_count >= 1);
      noticed++;
    } else {
      assert_keys(&d, "", "a b ");
      assert_value(&d, "a", "\"first\"");
      assert_value(&d, "b", "[1,2,3]");
    }
    desk_stop(&d);
  }
  assert_true(noticed > 50);
  pd_buf_done(&whole);
  desk_done(&d);
}

static void database__table_names_are_checked(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "", "a b", "a;DROP TABLE x", "a\"", "1a", "a-b", "\xc3\xa9", "a.b", "a23456789012345678901234567890123456789012345678901234567890"};
  desk d;
  desk_init(&d, PD_STATESTORE_DATABASE);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    d.options.table_name = bad[i];
    assert_int_equal(pd_statestore_open(&d.options, &d.s, &d.err), PD_INVALID);
    assert_non_null(strstr(d.err.message, "table_name"));
  }
  assert_int_equal(access(d.database, F_OK), -1);
  desk_done(&d);
}

static void assert_in_memory(desk *d)
{
  pd_statestore_stats stats;
  desk_start(d);
  pd_statestore_stats_get(d->s, &stats);
  assert_int_equal(stats.type, PD_STATESTORE_MEMORY);
  assert_true(stats.is_fallback);
  assert_int_equal(d->warning_count, 1);
  assert_non_null(strstr(d->warning, "memory"));
  desk_set(d, "a", "1");
  assert_value(d, "a", "1");
  desk_flush(d);
  desk_stop(d);
  d->warning_count = 0;
}

static void database__that_cannot_be_opened_means_a_warning_and_memory(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_DATABASE);
  d.options.database = NULL; /* not configured */
  assert_in_memory(&d);
  d.options.database = d.dir; /* a folder */
  assert_in_memory(&d);
  write_text(d.database, "this is no database, and is long enough to be looked at as one: it has more than a hundred bytes of text in it");
  d.options.database = d.database;
  assert_in_memory(&d);
  assert_file(d.database, "this is no database, and is long enough to be looked at as one: it has more than a hundred bytes of text in it");
  unlink(d.database);
  run_sql(&d, "CREATE TABLE core_state (something TEXT)"); /* another's table */
  assert_in_memory(&d);
  desk_done(&d);
}

/* Another program holds the database: the batch stays, deletes and sets alike, and is written when it can be. */
static void database__a_failed_batch_is_kept_and_tried_again(void **state)
{
  (void)state;
  desk d;
  pd_statestore_stats stats;
  desk_init(&d, PD_STATESTORE_DATABASE);
  d.options.flush_interval_ms = 1;
  desk_start(&d);
  desk_set(&d, "a", "1");
  desk_set(&d, "b", "1");
  desk_flush(&d);
  run_sql(&d, "CREATE TRIGGER no BEFORE INSERT ON core_state WHEN NEW.state_key = 'c' BEGIN SELECT RAISE(ABORT, 'not now'); END");
  pd_statestore_change changes[] = {{pd_text("a"), {NULL, 0}}, {pd_text("b"), pd_text("2")}, {pd_text("c"), pd_text("3")}};
  assert_int_equal(pd_statestore_apply(d.s, changes, 3, &d.err), PD_OK);
  wait_for(&d, 1, 2);
  assert_sql(&d, "SELECT state_key || value FROM core_state ORDER BY rowid", "a1 b1 "); /* all or nothing */
  assert_keys(&d, "", "b c ");                                                          /* and reads are never stale */
  desk_delete(&d, "b"); /* goes on changing while it fails: deleted, set, deleted again */
  desk_set(&d, "b", "4");
  assert_int_equal(pd_statestore_flush(d.s, &d.err), PD_STORAGE);
  assert_non_null(strstr(d.err.message, "not now"));
  desk_delete(&d, "b");
  pd_statestore_stats_get(d.s, &stats);
  assert_true(stats.pending > 0);
  run_sql(&d, "DROP TRIGGER no");
  wait_for(&d, stats.flushes + 1, 0);
  desk_flush(&d);
  assert_sql(&d, "SELECT state_key || value FROM core_state ORDER BY rowid", "c3 ");
  assert_true(d.warning_count >= 1);
  desk_done(&d);
}

static void database__is_shared_with_other_tables(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_DATABASE);
  run_sql(&d, "PRAGMA journal_mode=WAL; CREATE TABLE history (x); INSERT INTO history VALUES ('kept')");
  desk_start(&d);
  desk_set(&d, "a", "1");
  assert_int_equal(pd_statestore_clear(d.s, pd_text(""), NULL, &d.err), PD_OK);
  desk_stop(&d);
  assert_sql(&d, "SELECT x FROM history", "kept ");
  assert_sql(&d, "PRAGMA journal_mode", "wal ");
  desk_done(&d);
}

/* ---- perdure ---- */

static bool count_record(void *ctx, const pd_record *record)
{
  *(int *)ctx += record->kind == PD_RECORD_COMMIT;
  return true;
}

static void perdure__each_flush_is_one_commit_and_the_past_can_be_read(void **state)
{
  (void)state;
  desk d;
  int commits = 0;
  pd_store *store = NULL;
  desk_open(&d, PD_STATESTORE_PERDURE);
  desk_set(&d, "a", "1");
  desk_set(&d, "b", "[1]");
  desk_flush(&d);
  desk_set(&d, "a", "2");
  desk_delete(&d, "b");
  desk_set(&d, "c", "1");
  desk_flush(&d);
  desk_set(&d, "c", "1");
  desk_delete(&d, "c");
  desk_set(&d, "x", "1");
  desk_delete(&d, "x"); /* never stored: nothing to tell */
  desk_flush(&d);
  assert_int_equal(pd_statestore_get_at(d.s, "state~1", pd_text("a"), &d.value, &d.err), PD_OK);
  assert_text(&d.value, "2");
  assert_int_equal(pd_statestore_get_at(d.s, "state~2", pd_text("b"), &d.value, &d.err), PD_OK);
  assert_text(&d.value, "[1]");
  assert_int_equal(pd_statestore_get_at(d.s, NULL, pd_text("b"), &d.value, &d.err), PD_NOT_FOUND);
  desk_stop(&d);
  assert_int_equal(pd_store_open(d.uri, "main", &(pd_options){.ref = "state", .must_exist = true}, &store, &d.err), PD_OK);
  assert_int_equal(pd_log(store, &(pd_log_query){.at = "state"}, count_record, &commits, &d.err), PD_OK);
  assert_int_equal(commits, 3);
  pd_store_close(store, NULL);
  desk_done(&d);
}

static void perdure__the_agents_own_state_is_not_touched(void **state)
{
  (void)state;
  desk d;
  pd_store *store = NULL;
  desk_init(&d, PD_STATESTORE_PERDURE);
  d.options.agent = "researcher";
  assert_int_equal(pd_store_open(d.uri, "researcher", NULL, &store, &d.err), PD_OK);
  assert_int_equal(pd_put(store, pd_text("plan"), pd_text("no json"), NULL, NULL, &d.err), PD_OK);
  desk_start(&d);
  assert_keys(&d, "", "");
  desk_set(&d, "a", "1");
  assert_int_equal(pd_statestore_clear(d.s, pd_text(""), NULL, &d.err), PD_OK);
  desk_stop(&d);
  assert_int_equal(pd_get(store, NULL, pd_text("plan"), &d.value, NULL, &d.err), PD_OK);
  assert_int_equal(pd_put(store, pd_text("k"), pd_text("{no json"), &(pd_note){.ref = "state"}, NULL, &d.err), PD_OK);
  pd_store_close(store, NULL);
  assert_int_equal(pd_statestore_open(&d.options, &d.s, &d.err), PD_CORRUPT); /* somebody else wrote there */
  assert_non_null(strstr(d.err.message, "'k'"));
  desk_done(&d);
}

static void perdure__the_others_have_no_past(void **state)
{
  (void)state;
  desk d;
  for (int type = PD_STATESTORE_MEMORY; type <= PD_STATESTORE_DATABASE; type++) {
    desk_open(&d, (pd_statestore_type)type);
    desk_set(&d, "a", "1");
    assert_int_equal(pd_statestore_get_at(d.s, NULL, pd_text("a"), &d.value, &d.err), PD_UNSUPPORTED);
    desk_done(&d);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(database__has_the_table_of_the_seed),
    cmocka_unit_test(database__rows_of_the_original_are_read),
    cmocka_unit_test(database__rows_that_are_no_json_are_told_and_left_alone),
    cmocka_unit_test(database__is_for_its_owner_alone),
    cmocka_unit_test(database__what_others_write_has_no_checksum_and_is_taken),
    cmocka_unit_test(database__a_flipped_byte_is_never_read_as_the_truth),
    cmocka_unit_test(database__table_names_are_checked),
    cmocka_unit_test(database__that_cannot_be_opened_means_a_warning_and_memory),
    cmocka_unit_test(database__a_failed_batch_is_kept_and_tried_again),
    cmocka_unit_test(database__is_shared_with_other_tables),
    cmocka_unit_test(perdure__each_flush_is_one_commit_and_the_past_can_be_read),
    cmocka_unit_test(perdure__the_agents_own_state_is_not_touched),
    cmocka_unit_test(perdure__the_others_have_no_past),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
