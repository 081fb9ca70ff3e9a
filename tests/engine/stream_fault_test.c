/* stream_fault_test.c: large values: writers and gc meanwhile, limits, streams that are given up or killed, failing calls, damage. */
#include "engine/stream_world.h"
#include "support/fault_backend.h"

#include <perdure/backend.h>

#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- others meanwhile ---- */

static uint8_t other[200 << 10];

static void overwrite_key(feed *f)
{
  put(f->store, "shared", other, sizeof other);
}

static void move_meta(feed *f)
{
  pd_error err = {0};
  if (pd_tag_set(f->store, "mark", NULL, true, NULL, NULL, &err)) fail_msg("tag: %s", err.message);
}

/* The pieces that were not put because the version before has them, and gc that may have run: both are made good (U2, U3). */
static void stream__a_key_that_others_change_meanwhile_gets_its_value_all_the_same(void **state)
{
  (void)state;
  void (*acts[])(feed *) = {overwrite_key, move_meta};
  size_t size = 4 * MIB;
  pd_store *s = open_store();
  uint8_t *data = noise(size, 8);
  fill_noise(other, sizeof other, 9);
  put(s, "shared", data, size);
  for (size_t i = 0; i < 2; i++) {
    feed f = {.data = data, .size = size, .act_at = 2 * MIB, .act = acts[i]};
    pd_error err = {0};
    data[10] ^= 1;
    if (put_feed(s, "shared", &f, PD_ANY_VERSION, &err)) fail_msg("put_stream: %s", err.message);
    assert_null(f.act);
    expect_bytes(s, NULL, "shared", data, size);
  }
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

/* What gc of another process does, by its own handle: mark, a new state of retention (here by an erasure), sweep; nothing is worth
 * keeping. */
static pd_backend *sweeper;
static uint64_t sweep_mark;

static bool keeps_nothing(void *ctx, const pd_id *id)
{
  (void)ctx, (void)id;
  return false;
}

static void sweep(void)
{
  pd_error err = {0};
  uint64_t bytes;
  if (sweeper->ops->bag_sweep(sweeper, sweep_mark, keeps_nothing, NULL, &bytes, &err)) fail_msg("sweep: %s", err.message);
}

static void mark_like_gc(feed *f)
{
  pd_error err = {0};
  assert_int_equal(pd_put(f->store, pd_text("scrap"), pd_text("x"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(sweeper->ops->bag_mark(sweeper, &sweep_mark, NULL), PD_OK);
  if (pd_erase(f->store, pd_text("scrap"), NULL, NULL, &err)) fail_msg("erase: %s", err.message);
}

static void gc_at_once(feed *f)
{
  mark_like_gc(f);
  sweep();
}

static void open_sweeper(void)
{
  const pd_backend_ops *ops;
  const char *rest;
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
  assert_int_equal(ops->open(rest, "main", 0, &sweeper, NULL), PD_OK);
}

static void stream__gc_that_begins_meanwhile_takes_no_piece_of_it(void **state)
{
  (void)state;
  size_t size = 4 * MIB;
  pd_store *s = open_store();
  uint8_t *data = noise(size, 17);
  open_sweeper();
  put(s, "swept", data, 100);
  feed f = {.data = data, .size = size, .act_at = 3 * MIB, .act = mark_like_gc};
  pd_error err = {0};
  if (put_feed(s, "swept", &f, PD_ANY_VERSION, &err)) fail_msg("put_stream: %s", err.message);
  assert_null(f.act);
  sweep(); /* gc looked at the log before the commit was in it */
  expect_bytes(s, NULL, "swept", data, size);
  sweeper->ops->close(sweeper);
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

static void stream__gc_that_took_pieces_of_it_is_told(void **state)
{
  (void)state;
  size_t size = 4 * MIB;
  pd_store *s = open_store();
  uint8_t *data = noise(size, 18);
  open_sweeper();
  put(s, "swept", data, 100);
  feed f = {.data = data, .size = size, .act_at = 3 * MIB, .act = gc_at_once};
  pd_error err = {0};
  assert_int_equal(put_feed(s, "swept", &f, PD_ANY_VERSION, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "put it again"));
  expect_bytes(s, NULL, "swept", data, 100);
  put_stream(s, "swept", data, size);
  expect_bytes(s, NULL, "swept", data, size);
  sweeper->ops->close(sweeper);
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

static void stream__a_version_that_was_overtaken_is_a_conflict(void **state)
{
  (void)state;
  size_t size = 2 * MIB;
  pd_store *s = open_store();
  uint8_t *data = noise(size, 10);
  put(s, "raced", data, 1000);
  feed f = {.data = data, .size = size, .act_at = MIB, .act = overwrite_key};
  pd_error err = {0};
  put(s, "shared", data, 10);
  pd_entry entry;
  assert_int_equal(pd_get(s, NULL, pd_text("shared"), NULL, &entry, NULL), PD_OK);
  assert_int_equal(put_feed(s, "shared", &f, entry.version, &err), PD_CONFLICT);
  assert_int_equal(err.expected, entry.version);
  assert_int_equal(err.actual, entry.version + 1);
  expect_bytes(s, NULL, "shared", other, sizeof other);
  pd_store_close(s, NULL);
  free(data);
}

static void stream__a_wrong_version_is_told_before_anything_is_read(void **state)
{
  (void)state;
  pd_store *s = open_store();
  uint8_t byte = 1;
  feed f = {.data = &byte, .size = 1};
  pd_error err = {0};
  put(s, "told", &byte, 1);
  assert_int_equal(put_feed(s, "told", &f, 0, &err), PD_CONFLICT);
  assert_int_equal(put_feed(s, "", &f, 0, &err), PD_INVALID);
  pd_note nowhere = {.ref = "nowhere"};
  assert_int_equal(pd_put_stream(s, pd_text("told"), feed_read, &f, 1, &nowhere, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(f.calls, 0);
  pd_store_close(s, NULL);
  pd_options read_only = {.is_read_only = true};
  s = open_at(uri, &read_only);
  assert_int_equal(put_feed(s, "told", &f, 1, &err), PD_READ_ONLY);
  assert_int_equal(f.calls, 0);
  pd_store_close(s, NULL);
}

/* ---- limits, giving up ---- */

static void stream__the_limit_is_kept_and_can_be_raised(void **state)
{
  (void)state;
  pd_options options = {.value_size_max = 2 * MIB};
  pd_store *s = open_at(uri, &options);
  uint8_t *data = noise(2 * MIB + 1, 11);
  feed over = {.data = data, .size = 2 * MIB + 1};
  pd_error err = {0};
  assert_int_equal(put_feed(s, "limit", &over, PD_ANY_VERSION, &err), PD_LIMIT);
  assert_non_null(strstr(err.message, "limit"));
  bool has = true;
  assert_int_equal(pd_has(s, NULL, pd_text("limit"), &has, NULL), PD_OK);
  assert_false(has);
  put_stream(s, "limit", data, 2 * MIB);
  pd_store_close(s, NULL);
  pd_store *none = NULL;
  options.value_size_max = UINT32_MAX;
  assert_int_equal(pd_store_open(uri, "main", &options, &none, &err), PD_INVALID);
  options.value_size_max = UINT32_MAX - 1;
  pd_store_close(open_at(uri, &options), NULL);
  free(data);
}

static void give_up(feed *f)
{
  f->fail_code = PD_STORAGE;
}

static void stream__one_that_is_given_up_changes_nothing(void **state)
{
  (void)state;
  pd_store *s = open_store();
  uint8_t *data = noise(5 * MIB, 12);
  put(s, "kept", data, 300 * KIB);
  pd_stats before, after;
  assert_int_equal(pd_store_stats(s, &before, NULL), PD_OK);
  feed f = {.data = data + 1, .size = 4 * MIB, .act_at = 3 * MIB, .act = give_up};
  pd_error err = {0};
  assert_int_equal(put_feed(s, "kept", &f, PD_ANY_VERSION, &err), PD_STORAGE);
  assert_int_equal(pd_store_stats(s, &after, NULL), PD_OK);
  assert_int_equal(before.records, after.records);
  expect_bytes(s, NULL, "kept", data, 300 * KIB);
  taken t = {.stop_after = 1};
  assert_int_equal(pd_get_stream(s, NULL, pd_text("kept"), take_piece, &t, NULL, &err), PD_INVALID);
  assert_true(t.size < 300 * KIB);
  free(t.data);
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

static void die(feed *f)
{
  (void)f;
  raise(SIGKILL);
}

static void stream__killed_in_the_middle_the_store_is_sound(void **state)
{
  (void)state;
  uint8_t *data = noise(6 * MIB, 13);
  pd_store *s = open_store();
  put(s, "killed", data, 400 * KIB);
  pd_store_close(s, NULL);
  for (size_t at = 0; at <= 5; at++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
      feed f = {.data = data + 1, .size = 6 * MIB - 1, .act_at = at * MIB, .act = die};
      s = open_store();
      if (put_feed(s, "killed", &f, PD_ANY_VERSION, NULL)) _exit(1);
      _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    s = open_store();
    expect_bytes(s, NULL, "killed", data, 400 * KIB);
    expect_sound(s);
    pd_store_close(s, NULL);
  }
  free(data);
}

/* Every call of the backend fails once: the key has its old value or, if the answer was lost, its new one. */
static void stream__each_failing_call_leaves_the_old_value_or_the_new(void **state)
{
  (void)state;
  fault_backend_install();
  uint8_t *data = noise(3 * MIB, 14);
  bool has_fired = true;
  for (uint64_t n = 1; has_fired; n++) {
    fault_backend_plan((fault_plan){0});
    pd_store *s = open_at("fault:memory:streams", NULL);
    put(s, "k", data, 100 * KIB);
    feed f = {.data = data + 1, .size = 3 * MIB - 1};
    pd_error err = {0};
    fault_backend_plan((fault_plan){.at = n, .how = (fault_how)(n % 3)});
    pd_code code = put_feed(s, "k", &f, PD_ANY_VERSION, &err);
    has_fired = fault_backend_has_fired();
    fault_backend_plan((fault_plan){0});
    if (!has_fired) assert_int_equal(code, PD_OK);
    pd_buf got = {0};
    assert_int_equal(pd_get(s, NULL, pd_text("k"), &got, NULL, &err), PD_OK);
    if (code && got.size == 100 * KIB)
      expect_same(got.data, got.size, data, 100 * KIB);
    else
      expect_same(got.data, got.size, data + 1, 3 * MIB - 1);
    expect_sound(s);
    pd_buf_done(&got);
    pd_store_close(s, NULL);
  }
  free(data);
}

/* ---- damage ---- */

static void run_sql(const char *sql)
{
  char path[160];
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/home/main.db", folder);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  sqlite3_close(db);
}

static int64_t ask_sql(const char *sql)
{
  char path[160];
  sqlite3 *db = NULL;
  sqlite3_stmt *row = NULL;
  snprintf(path, sizeof path, "%s/home/main.db", folder);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  int64_t answer = sqlite3_column_int64(row, 0);
  sqlite3_finalize(row);
  sqlite3_close(db);
  return answer;
}

static void expect_damage(const uint8_t *data, size_t size)
{
  pd_store *s = open_store();
  pd_buf got = {0};
  pd_error err = {0};
  taken t = {0};
  assert_int_equal(pd_get(s, NULL, pd_text("hurt"), &got, NULL, &err), PD_CORRUPT);
  assert_int_equal(pd_get_stream(s, NULL, pd_text("hurt"), take_piece, &t, NULL, &err), PD_CORRUPT);
  assert_true(t.size < size);
  if (t.size) assert_int_equal(memcmp(t.data, data, t.size), 0); /* no damaged byte was handed out */
  assert_int_equal(pd_verify(s, NULL, NULL, &err), PD_CORRUPT);
  pd_store_close(s, NULL);
  pd_buf_done(&got);
  free(t.data);
}

static void stream__damage_of_any_blob_of_a_value_is_found(void **state)
{
  (void)state;
  size_t size = 150 * KIB;
  uint8_t *data = noise(size, 15);
  pd_store *s = open_store();
  put(s, "hurt", data, size);
  pd_store_close(s, NULL);
  int64_t count = ask_sql("SELECT max(n) FROM bag");
  assert_true(count >= 5); /* pieces, a group, the list */
  for (int64_t n = 1; n <= count; n++) {
    char sql[256];
    run_sql("CREATE TABLE kept AS SELECT * FROM bag");
    snprintf(sql, sizeof sql, "UPDATE bag SET data = CAST(substr(data, 1, 40) || x'99' || substr(data, 42) AS BLOB) WHERE n = %lld",
             (long long)n);
    run_sql(sql);
    expect_damage(data, size);
    snprintf(sql, sizeof sql, "DELETE FROM bag WHERE n = %lld", (long long)n);
    run_sql(sql);
    expect_damage(data, size);
    run_sql("DELETE FROM bag; INSERT INTO bag SELECT * FROM kept; DROP TABLE kept");
  }
  s = open_store();
  expect_bytes(s, NULL, "hurt", data, size);
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

/* A value that cannot be read is no reason to refuse the next one. */
static void stream__a_damaged_value_can_be_overwritten(void **state)
{
  (void)state;
  uint8_t *data = noise(200 * KIB, 16);
  pd_store *s = open_store();
  put(s, "hurt", data, 150 * KIB);
  pd_store_close(s, NULL);
  run_sql("DELETE FROM bag");
  s = open_store();
  put(s, "hurt", data, 200 * KIB);
  expect_bytes(s, NULL, "hurt", data, 200 * KIB);
  pd_store_close(s, NULL);
  free(data);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(stream__a_key_that_others_change_meanwhile_gets_its_value_all_the_same),
    TEST(stream__gc_that_begins_meanwhile_takes_no_piece_of_it),
    TEST(stream__gc_that_took_pieces_of_it_is_told),
    TEST(stream__a_version_that_was_overtaken_is_a_conflict),
    TEST(stream__a_wrong_version_is_told_before_anything_is_read),
    TEST(stream__the_limit_is_kept_and_can_be_raised),
    TEST(stream__one_that_is_given_up_changes_nothing),
    TEST(stream__killed_in_the_middle_the_store_is_sound),
    TEST(stream__each_failing_call_leaves_the_old_value_or_the_new),
    TEST(stream__damage_of_any_blob_of_a_value_is_found),
    TEST(stream__a_damaged_value_can_be_overwritten),
  };
  return cmocka_run_group_tests_name("engine/stream_fault", tests, NULL, NULL);
}
