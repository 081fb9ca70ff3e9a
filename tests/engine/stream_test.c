/* stream_test.c: large values: round trips by every way, what is stored once, what an edit costs, old versions. */
#include "engine/stream_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

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
  };
  return cmocka_run_group_tests_name("engine/stream", tests, NULL, NULL);
}
