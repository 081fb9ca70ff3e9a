/* map_test.c: the hash map against a plain array. */
#include "base/map.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 5000

typedef struct thing {
  uint64_t number;
  char name[16];
} thing;

static thing things[MANY];

static int set_up(void **state)
{
  (void)state;
  for (size_t i = 0; i < MANY; i++) {
    things[i].number = i;
    snprintf(things[i].name, sizeof things[i].name, "thing-%zu", i);
  }
  return 0;
}

static void map__finds_what_was_put_by_its_name(void **state)
{
  (void)state;
  CLEANUP(pd_map_done) pd_map map = {.text_at = offsetof(thing, name)};
  assert_null(pd_map_find(&map, pd_text("thing-1")));
  assert_null(pd_map_remove(&map, pd_text("thing-1")));
  for (size_t i = 0; i < MANY; i++) assert_int_equal(pd_map_put(&map, &things[i], NULL, NULL), PD_OK);
  assert_int_equal(map.count, MANY);
  for (size_t i = 0; i < MANY; i++) assert_ptr_equal(pd_map_find(&map, pd_text(things[i].name)), &things[i]);
  assert_null(pd_map_find(&map, pd_text("thing-")));
  assert_null(pd_map_find(&map, (pd_bytes){"thing-1\0", 8})); /* the text's end is not part of the key */
  assert_null(pd_map_find(&map, (pd_bytes){0}));
}

static void map__a_second_one_with_the_key_replaces_the_first(void **state)
{
  (void)state;
  CLEANUP(pd_map_done) pd_map map = {.text_at = offsetof(thing, name)};
  thing again = {.name = "thing-7"};
  void *old = &again;
  assert_int_equal(pd_map_put(&map, &things[7], &old, NULL), PD_OK);
  assert_null(old);
  assert_int_equal(pd_map_put(&map, &again, &old, NULL), PD_OK);
  assert_ptr_equal(old, &things[7]);
  assert_int_equal(map.count, 1);
  assert_ptr_equal(pd_map_find(&map, pd_text("thing-7")), &again);
}

/* Few keys, many removals: gaps are closed across the end of the table, too. The array says what there is. */
static void map__agrees_with_an_array_whatever_is_put_and_removed(void **state)
{
  (void)state;
  CLEANUP(pd_map_done) pd_map map = {.text_at = offsetof(thing, name), .seed = 42};
  bool is_in[64] = {0};
  size_t count = 0;
  uint64_t random = 1;
  for (size_t i = 0; i < 200000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t which = (random >> 33) % COUNT_OF(is_in);
    bool is_put = (random >> 60) % 8 < (i / 1000 % 2 ? 2 : 6); /* it fills, and empties again */
    if (is_put)
      assert_int_equal(pd_map_put(&map, &things[which], &(void *){NULL}, NULL), PD_OK);
    else
      assert_ptr_equal(pd_map_remove(&map, pd_text(things[which].name)), is_in[which] ? &things[which] : NULL);
    count = count + (is_put && !is_in[which]) - (!is_put && is_in[which]);
    is_in[which] = is_put;
    assert_int_equal(map.count, count);
    for (size_t k = 0; i % 16 == 0 && k < COUNT_OF(is_in); k++)
      assert_ptr_equal(pd_map_find(&map, pd_text(things[k].name)), is_in[k] ? &things[k] : NULL);
  }
}

static void map__visits_each_thing_once(void **state)
{
  (void)state;
  CLEANUP(pd_map_done) pd_map map = {.text_at = offsetof(thing, name)};
  static bool is_seen[MANY];
  size_t at = 0, count = 0;
  assert_null(pd_map_next(&map, &at));
  for (size_t i = 0; i < MANY; i++) assert_int_equal(pd_map_put(&map, &things[i], NULL, NULL), PD_OK);
  for (const thing *one; (one = pd_map_next(&map, &at)); count++) {
    assert_false(is_seen[one->number]);
    is_seen[one->number] = true;
  }
  assert_int_equal(count, MANY);
}

static void map__an_emptied_one_is_small_again(void **state)
{
  (void)state;
  CLEANUP(pd_map_done) pd_map map = {.text_at = offsetof(thing, name)};
  for (size_t i = 0; i < MANY; i++) assert_int_equal(pd_map_put(&map, &things[i], NULL, NULL), PD_OK);
  assert_true(map.size >= MANY && map.size <= 4 * MANY);
  for (size_t i = 0; i < MANY; i++) {
    assert_ptr_equal(pd_map_remove(&map, pd_text(things[i].name)), &things[i]);
    assert_true(map.size <= 16 || map.size <= 8 * map.count);
  }
  assert_int_equal(map.count, 0);
  assert_int_equal(map.size, 16);
}

static pd_bytes number_of(const void *item)
{
  return (pd_bytes){&((const thing *)item)->number, sizeof(uint64_t)};
}

/* A stranger who knows the function finds keys that meet, but not without the seed. */
static void map__a_key_may_be_any_bytes_and_the_seed_changes_where_it_lies(void **state)
{
  (void)state;
  CLEANUP(pd_map_done) pd_map map = {.key_of = number_of, .seed = 7};
  for (size_t i = 0; i < MANY; i++) assert_int_equal(pd_map_put(&map, &things[i], NULL, NULL), PD_OK);
  for (uint64_t i = 0; i < MANY; i++) assert_ptr_equal(pd_map_find(&map, (pd_bytes){&i, sizeof i}), &things[i]);
  size_t alike = 0;
  for (size_t i = 0; i < MANY; i++)
    alike += (pd_map_hash(pd_text(things[i].name), 1) & 1023) == (pd_map_hash(pd_text(things[i].name), 2) & 1023);
  assert_true(alike < 50);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(map__finds_what_was_put_by_its_name),
    cmocka_unit_test(map__a_second_one_with_the_key_replaces_the_first),
    cmocka_unit_test(map__agrees_with_an_array_whatever_is_put_and_removed),
    cmocka_unit_test(map__visits_each_thing_once),
    cmocka_unit_test(map__an_emptied_one_is_small_again),
    cmocka_unit_test(map__a_key_may_be_any_bytes_and_the_seed_changes_where_it_lies),
  };
  return cmocka_run_group_tests_name("map", tests, set_up, NULL);
}
