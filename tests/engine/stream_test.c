/* stream_test.c: large values: pieces, streams, what an edit costs, damage, streams that are given up or killed. PERDURE_SEED replays. */
#include "support/fault_backend.h"

#include <perdure/perdure.h>

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

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static char folder[64];
static char uri[128];
static uint64_t seed_base;

static int make_folder(void **state)
{
  (void)state;
  const char *text = getenv("PERDURE_SEED");
  seed_base = text ? strtoull(text, NULL, 10) : 7;
  strcpy(folder, "/tmp/perdure-stream-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(uri, sizeof uri, "sqlite:%s/home", folder);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static uint64_t next_random(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static void fill_noise(uint8_t *data, size_t size, uint64_t seed)
{
  seed += seed_base * 1000;
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(next_random(&seed) >> 56);
}

static uint8_t *noise(size_t size, uint64_t seed)
{
  uint8_t *data = malloc(size + 1);
  assert_non_null(data);
  fill_noise(data, size, seed);
  return data;
}

static pd_store *open_at(const char *where, const pd_options *options)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(where, "main", options, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static pd_store *open_store(void)
{
  return open_at(uri, NULL);
}

static void put(pd_store *s, const char *key, const uint8_t *data, size_t size)
{
  pd_error err = {0};
  if (pd_put(s, pd_text(key), (pd_bytes){data, size}, NULL, NULL, &err)) fail_msg("put %s: %s", key, err.message);
}

static void expect_sound(pd_store *s)
{
  pd_error err = {0};
  if (pd_verify(s, NULL, NULL, &err)) fail_msg("verify: %s", err.message);
}

/* ---- streams over memory ---- */

typedef struct feed {
  const uint8_t *data;
  size_t size, at;
  uint64_t random;                /* pieces of ragged sizes */
  size_t act_at;                  /* once past this… */
  void (*act)(struct feed *feed); /* …do this, once */
  pd_store *store;
  pd_code fail_code; /* set by `act`: give up with it */
  unsigned calls;
} feed;

static pd_code feed_read(void *ctx, void *buffer, size_t size, size_t *out_size, pd_error *err)
{
  feed *f = ctx;
  f->calls++;
  if (f->act && f->at >= f->act_at) {
    f->act(f);
    f->act = NULL;
  }
  if (f->fail_code) {
    if (err) err->code = f->fail_code;
    return f->fail_code;
  }
  size_t n = 1 + next_random(&f->random) % 100000;
  if (n > size) n = size;
  if (n > f->size - f->at) n = f->size - f->at;
  memcpy(buffer, f->data + f->at, n);
  f->at += n;
  *out_size = n;
  return PD_OK;
}

static pd_code put_feed(pd_store *s, const char *key, feed *f, uint64_t expect_version, pd_error *err)
{
  f->store = s;
  return pd_put_stream(s, pd_text(key), feed_read, f, expect_version, NULL, NULL, err);
}

static void put_stream(pd_store *s, const char *key, const uint8_t *data, size_t size)
{
  feed f = {.data = data, .size = size};
  pd_error err = {0};
  if (put_feed(s, key, &f, PD_ANY_VERSION, &err)) fail_msg("put_stream %s: %s", key, err.message);
}

typedef struct taken {
  uint8_t *data;
  size_t size, piece_max, stop_after;
} taken;

static pd_code take_piece(void *ctx, pd_bytes piece, pd_error *err)
{
  taken *t = ctx;
  if (t->stop_after && t->size >= t->stop_after) {
    if (err) err->code = PD_INVALID;
    return PD_INVALID;
  }
  assert_true(piece.size > 0);
  t->data = realloc(t->data, t->size + piece.size);
  memcpy(t->data + t->size, piece.data, piece.size);
  t->size += piece.size;
  if (piece.size > t->piece_max) t->piece_max = piece.size;
  return PD_OK;
}

static void expect_same(const uint8_t *got, size_t got_size, const uint8_t *data, size_t size)
{
  assert_int_equal(got_size, size);
  if (size) assert_int_equal(memcmp(got, data, size), 0);
}

/* By every way of reading a value at `at`. */
static void expect_bytes(pd_store *s, const char *at, const char *key, const uint8_t *data, size_t size)
{
  pd_buf got = {0};
  pd_entry entry;
  pd_error err = {0};
  pd_id id = pd_value_id((pd_bytes){data, size});
  if (pd_get(s, at, pd_text(key), &got, &entry, &err)) fail_msg("get %s: %s", key, err.message);
  expect_same(got.data, got.size, data, size);
  assert_true(pd_id_equal(&entry.value_id, &id));
  assert_int_equal(entry.size, size);
  uint64_t version = entry.version;
  taken t = {0};
  if (pd_get_stream(s, at, pd_text(key), take_piece, &t, &entry, &err)) fail_msg("get_stream %s: %s", key, err.message);
  expect_same(t.data, t.size, data, size);
  assert_true(t.piece_max <= 64 * KIB && pd_id_equal(&entry.value_id, &id));
  if (pd_get_version(s, at, pd_text(key), version, &got, NULL, &err)) fail_msg("get_version %s: %s", key, err.message);
  expect_same(got.data, got.size, data, size);
  t.size = 0;
  if (pd_get_version_stream(s, at, pd_text(key), version, take_piece, &t, NULL, &err)) fail_msg("version_stream: %s", err.message);
  expect_same(t.data, t.size, data, size);
  pd_iter *iter;
  pd_bytes value;
  pd_scan scan = {.prefix = pd_text(key)};
  assert_int_equal(pd_iter_open(s, at, &scan, &iter, &err), PD_OK);
  assert_int_equal(pd_iter_next(iter, &entry, &value, &err), PD_OK);
  expect_same(value.data, value.size, data, size);
  pd_iter_close(iter);
  pd_buf_done(&got);
  free(t.data);
}

/* ---- round trips ---- */

static void stream__values_of_every_size_come_back_by_every_way(void **state)
{
  (void)state;
  const size_t sizes[] = {0,        1,         16 * KIB, 16 * KIB + 1, 64 * KIB - 1, 64 * KIB,       64 * KIB + 1,
                          68 * KIB, 128 * KIB, MIB - 1,  MIB,          MIB + 1,      MIB + 64 * KIB, 3 * MIB + 7};
  pd_store *s = open_store();
  uint8_t *data = noise(4 * MIB, 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    put(s, "whole", data, sizes[i]);
    put_stream(s, "stream", data, sizes[i]);
    expect_bytes(s, NULL, "whole", data, sizes[i]);
    expect_bytes(s, NULL, "stream", data, sizes[i]);
  }
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  s = open_store();
  expect_bytes(s, NULL, "stream", data, sizes[sizeof sizes / sizeof *sizes - 1]);
  expect_bytes(s, "main~2", "stream", data, sizes[sizeof sizes / sizeof *sizes - 2]);
  pd_store_close(s, NULL);
  free(data);
}

static uint64_t bag_bytes(pd_store *s)
{
  pd_stats stats;
  pd_error err = {0};
  if (pd_store_stats(s, &stats, &err)) fail_msg("stats: %s", err.message);
  return stats.bag_bytes;
}

static void stream__the_same_bytes_are_stored_once(void **state)
{
  (void)state;
  pd_store *s = open_store();
  uint8_t *data = noise(3 * MIB, 2);
  put(s, "once/a", data, 3 * MIB);
  uint64_t before = bag_bytes(s);
  put_stream(s, "once/b", data, 3 * MIB);
  put(s, "once/c", data, 3 * MIB);
  assert_int_equal(bag_bytes(s), before);
  pd_store_close(s, NULL);
  free(data);
}

static void stream__what_repeats_inside_a_value_is_stored_once(void **state)
{
  (void)state;
  pd_store *s = open_store();
  uint8_t *zeros = calloc(8, MIB);
  uint64_t before = bag_bytes(s);
  put_stream(s, "zeros", zeros, 8 * MIB);
  expect_bytes(s, NULL, "zeros", zeros, 8 * MIB);
  assert_true(bag_bytes(s) - before < 100 * KIB);
  pd_store_close(s, NULL);
  free(zeros);
}

static void stream__a_small_edit_of_ten_megabytes_costs_less_than_64_kib(void **state)
{
  (void)state;
  size_t size = 10000000, rounds = 12;
  uint64_t random = seed_base;
  pd_store *s = open_store();
  uint8_t *data = noise(size + 4 * KIB, 3);
  put(s, "big", data, size);
  uint64_t before = bag_bytes(s);
  for (size_t round = 0; round < rounds; round++) {
    size_t at = next_random(&random) % (size - 100);
    if (round % 3 == 1) { /* insert */
      memmove(data + at + 100, data + at, size - at);
      size += 100;
    } else if (round % 3 == 2) { /* delete */
      memmove(data + at, data + at + 100, size - at - 100);
      size -= 100;
    }
    fill_noise(data + at, 100, next_random(&random));
    if (round % 2)
      put(s, "big", data, size);
    else
      put_stream(s, "big", data, size);
  }
  uint64_t each = (bag_bytes(s) - before) / rounds;
  assert_in_range(each, 1000, 64 * KIB);
  expect_bytes(s, NULL, "big", data, size);
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

/* ---- history ---- */

#define VERSIONS 6

static void stream__old_versions_are_read_at_any_point(void **state)
{
  (void)state;
  size_t size = 300 * KIB;
  pd_store *s = open_store();
  uint8_t *versions[VERSIONS];
  for (size_t i = 0; i < VERSIONS; i++) {
    versions[i] = noise(size, 4);
    fill_noise(versions[i] + i * 50000, 200, 100 + i);
    put_stream(s, "old", versions[i], size);
    if (i == 2) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  }
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < VERSIONS; i++) {
      char at[32];
      snprintf(at, sizeof at, "main~%zu", VERSIONS - 1 - i);
      expect_bytes(s, at, "old", versions[i], size);
      taken t = {0};
      pd_entry entry;
      assert_int_equal(pd_get_version_stream(s, NULL, pd_text("old"), i + 1, take_piece, &t, &entry, NULL), PD_OK);
      expect_same(t.data, t.size, versions[i], size);
      assert_int_equal(entry.version, i + 1);
      free(t.data);
    }
    pd_store_close(s, NULL);
    s = open_store();
  }
  expect_sound(s);
  pd_store_close(s, NULL);
  for (size_t i = 0; i < VERSIONS; i++) free(versions[i]);
}

static void stream__an_invocation_sees_and_commits_large_values(void **state)
{
  (void)state;
  size_t size = 200 * KIB;
  pd_store *s = open_store();
  uint8_t *a = noise(size, 5), *b = noise(size, 6);
  pd_edit *edit;
  pd_buf got = {0};
  put(s, "edit/a", a, size);
  assert_int_equal(pd_edit_begin(s, NULL, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_get(edit, pd_text("edit/a"), &got, NULL, NULL), PD_OK);
  expect_same(got.data, got.size, a, size);
  assert_int_equal(pd_edit_put(edit, pd_text("edit/a"), (pd_bytes){b, size}, 1, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("edit/b"), (pd_bytes){a, size}, 0, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("edit/c"), pd_text("small"), 0, NULL), PD_OK);
  assert_int_equal(pd_edit_get(edit, pd_text("edit/a"), &got, NULL, NULL), PD_OK);
  expect_same(got.data, got.size, b, size);
  pd_iter *iter;
  pd_entry entry;
  pd_bytes value;
  pd_scan scan = {.prefix = pd_text("edit/")};
  assert_int_equal(pd_edit_iter(edit, &scan, &iter, NULL), PD_OK);
  assert_int_equal(pd_iter_next(iter, &entry, &value, NULL), PD_OK);
  expect_same(value.data, value.size, b, size);
  pd_iter_close(iter);
  assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
  expect_bytes(s, NULL, "edit/a", b, size);
  expect_bytes(s, NULL, "edit/b", a, size);
  expect_bytes(s, "main~1", "edit/a", a, size);
  pd_store_close(s, NULL);
  pd_buf_done(&got);
  free(a);
  free(b);
}

static void stream__a_buffered_store_reads_what_it_has_not_flushed(void **state)
{
  (void)state;
  size_t size = 500 * KIB;
  pd_options options = {.flush_ms = 60000};
  pd_store *s = open_at(uri, &options);
  uint8_t *data = noise(size, 7);
  for (size_t i = 0; i < 4; i++) {
    fill_noise(data + i * 1000, 100, i);
    put_stream(s, "buffered", data, size);
    pd_buf got = {0};
    assert_int_equal(pd_get(s, NULL, pd_text("buffered"), &got, NULL, NULL), PD_OK);
    expect_same(got.data, got.size, data, size);
    taken t = {0};
    assert_int_equal(pd_get_stream(s, NULL, pd_text("buffered"), take_piece, &t, NULL, NULL), PD_OK);
    expect_same(t.data, t.size, data, size);
    free(t.data);
    pd_buf_done(&got);
  }
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  s = open_store();
  expect_bytes(s, NULL, "buffered", data, size);
  expect_sound(s);
  pd_store_close(s, NULL);
  free(data);
}

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(stream__values_of_every_size_come_back_by_every_way),
    TEST(stream__the_same_bytes_are_stored_once),
    TEST(stream__what_repeats_inside_a_value_is_stored_once),
    TEST(stream__a_small_edit_of_ten_megabytes_costs_less_than_64_kib),
    TEST(stream__old_versions_are_read_at_any_point),
    TEST(stream__an_invocation_sees_and_commits_large_values),
    TEST(stream__a_buffered_store_reads_what_it_has_not_flushed),
    TEST(stream__a_key_that_others_change_meanwhile_gets_its_value_all_the_same),
    TEST(stream__a_version_that_was_overtaken_is_a_conflict),
    TEST(stream__a_wrong_version_is_told_before_anything_is_read),
    TEST(stream__the_limit_is_kept_and_can_be_raised),
    TEST(stream__one_that_is_given_up_changes_nothing),
    TEST(stream__killed_in_the_middle_the_store_is_sound),
    TEST(stream__each_failing_call_leaves_the_old_value_or_the_new),
    TEST(stream__damage_of_any_blob_of_a_value_is_found),
    TEST(stream__a_damaged_value_can_be_overwritten),
  };
  return cmocka_run_group_tests_name("engine/stream", tests, NULL, NULL);
}
