/* id_map_test.c: src/dag/id_map.c. */
#include "dag/id_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static pd_id numbered(uint32_t number)
{
  pd_id id = {{0}};
  memset(id.bytes, 0xAB, 8); /* a collision that somebody made: the first 64 bits are those of all others */
  memcpy(id.bytes + 20, &number, sizeof number);
  return id;
}

/* gc keeps what is in such a set, and erasure deletes it: by the whole id (gc.h G6). */
static void id_map__ids_that_begin_alike_are_told_apart(void **state)
{
  (void)state;
  pd_id_map map = {0};
  bool is_new;
  uint32_t *value;
  for (uint32_t i = 0; i < 2000; i++) {
    pd_id id = numbered(i);
    assert_null(pd_id_map_find(&map, &id));
    assert_int_equal(pd_id_map_add(&map, &id, &value, &is_new, NULL), PD_OK);
    assert_true(is_new);
    assert_int_equal(*value, 0);
    *value = i;
  }
  for (uint32_t i = 0; i < 2000; i++) {
    pd_id id = numbered(i);
    assert_int_equal(pd_id_map_add(&map, &id, &value, &is_new, NULL), PD_OK);
    assert_false(is_new);
    assert_int_equal(*value, i);
    assert_int_equal(*pd_id_map_find(&map, &id), i);
  }
  assert_int_equal(map.count, 2000);
  pd_id_map_done(&map);
}

static void id_map__zeros_are_no_id(void **state)
{
  (void)state;
  pd_id_map map = {0};
  pd_id zeros = {{0}};
  assert_null(pd_id_map_find(&map, &zeros));
  assert_int_equal(pd_id_map_add(&map, &zeros, NULL, NULL, NULL), PD_INVALID);
  pd_id one = numbered(1);
  assert_int_equal(pd_id_map_add(&map, &one, NULL, NULL, NULL), PD_OK);
  assert_null(pd_id_map_find(&map, &zeros));
  pd_id_map_done(&map);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(id_map__ids_that_begin_alike_are_told_apart),
    cmocka_unit_test(id_map__zeros_are_no_id),
  };
  return cmocka_run_group_tests_name("id_map", tests, NULL, NULL);
}
