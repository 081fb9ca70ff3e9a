/* points_test.c: src/dag/points.c: the bytes are golden (docs/formats.md), and everything else is refused. */
#include "dag/points.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Hexadecimal; "11*32" is a byte 32 times. */
static const char golden[] =
  "50 01 ac 02 11*32 e8 07 22*32 33*32 d0 0f 01 03 62 6f 62 02 " /* cut 300, at 1000, by bob at 2000, one erasure */
  "05 44*32 55*32 66*32 01 01 77*32 "                            /* point 5, child of 4 */
  "c3 01 88*32 99*32 aa*32 02 c3 01 bb*32 c8 01 cc*32";          /* point 200, child of 5 and the root */

static void expand(const char *text, pd_buf *out)
{
  while (*text) {
    char *end;
    uint8_t byte = (uint8_t)strtoul(text, &end, 16);
    long count = *end == '*' ? strtol(end + 1, &end, 10) : 1;
    while (count-- > 0) assert_int_equal(pd_buf_append(out, &byte, 1, NULL), PD_OK);
    text = *end ? end + 1 : end;
  }
}

static pd_id id_of(uint8_t byte)
{
  pd_id id;
  memset(id.bytes, byte, sizeof id.bytes);
  return id;
}

static void fill(pd_points *p)
{
  pd_point *point;
  *p = (pd_points){.cut = 300, .audit = id_of(0x11), .cut_time_ms = 1000, .catalog = id_of(0x22), .run = id_of(0x33)};
  p->retired_ms = 2000;
  p->erasures = 1;
  pd_points_set_by(p, "bob");
  assert_int_equal(pd_points_add(p, &point, NULL), PD_OK);
  *point = (pd_point){.commit = {.seq = 5, .id = id_of(0x44), .tree = id_of(0x55)}, .root_blob = id_of(0x66), .parent_count = 1};
  point->parent_seqs[0] = 4;
  point->parents[0] = id_of(0x77);
  assert_int_equal(pd_points_add(p, &point, NULL), PD_OK);
  *point = (pd_point){.commit = {.seq = 200, .id = id_of(0x88), .tree = id_of(0x99)}, .root_blob = id_of(0xaa), .parent_count = 2};
  point->parent_seqs[0] = 5;
  point->parents[0] = id_of(0xbb);
  point->parents[1] = id_of(0xcc);
}

/* Accepted only if it is what encoding gives. */
static bool is_accepted(pd_bytes bytes)
{
  pd_points p = {0};
  pd_buf again = {0};
  pd_error err = {0};
  pd_code code = pd_points_decode(bytes, &p, &err);
  if (code) {
    assert_int_equal(code, PD_CORRUPT);
    assert_non_null(strstr(err.message, "retention"));
  } else {
    assert_int_equal(pd_points_encode(&p, &again, NULL), PD_OK);
    assert_true(pd_bytes_equal(pd_buf_bytes(&again), bytes));
  }
  pd_buf_done(&again);
  pd_points_done(&p);
  return !code;
}

static void expect_refused(const char *text)
{
  pd_buf bytes = {0};
  expand(text, &bytes);
  if (is_accepted(pd_buf_bytes(&bytes))) fail_msg("accepted: %s", text);
  pd_buf_done(&bytes);
}

static void points__bytes_are_golden(void **state)
{
  (void)state;
  pd_points p;
  pd_buf bytes = {0}, expected = {0};
  fill(&p);
  expand(golden, &expected);
  assert_int_equal(pd_points_encode(&p, &bytes, NULL), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&bytes), pd_buf_bytes(&expected)));
  assert_true(is_accepted(pd_buf_bytes(&expected)));
  pd_points_done(&p);
  pd_buf_done(&bytes);
  pd_buf_done(&expected);
}

static void points__cut_short_or_too_long_they_are_refused(void **state)
{
  (void)state;
  pd_buf bytes = {0};
  expand(golden, &bytes);
  for (size_t size = 0; size < bytes.size; size++) assert_false(is_accepted((pd_bytes){bytes.data, size}));
  expand("00", &bytes);
  assert_false(is_accepted(pd_buf_bytes(&bytes)));
  pd_buf_done(&bytes);
}

static void points__with_any_bit_flipped_they_are_refused_or_something_else(void **state)
{
  (void)state;
  pd_buf bytes = {0};
  expand(golden, &bytes);
  for (size_t bit = 0; bit < 8 * bytes.size; bit++) {
    bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    (void)is_accepted(pd_buf_bytes(&bytes));
    bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  pd_buf_done(&bytes);
}

#define HEAD "11*32 e8 07 22*32 33*32 d0 0f 01 00 "

static void points__parents_may_be_gone(void **state)
{
  (void)state;
  pd_buf bytes = {0};
  pd_points p = {0};
  expand("50 01 05 " HEAD "02 02 44*32 55*32 66*32 00 01 44*32 55*32 66*32 01 00 77*32", &bytes);
  assert_true(is_accepted(pd_buf_bytes(&bytes)));
  assert_int_equal(pd_points_decode(pd_buf_bytes(&bytes), &p, NULL), PD_OK);
  assert_int_equal(p.points[0].parent_count, 0); /* a part of an imported tree */
  assert_true(p.points[0].parent_seqs[0] == PD_SEQ_GONE && p.points[1].parent_seqs[0] == PD_SEQ_GONE);
  pd_points_done(&p);
  pd_buf_done(&bytes);
}

static void points__what_cannot_be_is_refused(void **state)
{
  (void)state;
  expect_refused("51 01 01 " HEAD "00");                                      /* another tag */
  expect_refused("50 02 01 " HEAD "00");                                      /* another format */
  expect_refused("50 01 00 " HEAD "00");                                      /* no cut */
  expect_refused("50 01 81 00 " HEAD "00");                                   /* a number longer than it must be */
  expect_refused("50 01 01 " HEAD "ff ff ff ff 0f");                          /* more points than bytes */
  expect_refused("50 01 05 " HEAD "01 05 44*32 55*32 66*32 01 01 77*32");     /* a point at the cut */
  expect_refused("50 01 05 " HEAD "01 00 44*32 55*32 66*32 01 01 77*32");     /* a point at record 0 */
  expect_refused("50 01 05 " HEAD "01 02 44*32 55*32 66*32 11");              /* more parents than there can be */
  expect_refused("50 01 05 " HEAD "01 02 44*32 55*32 66*32 01 03 77*32");     /* a parent before the first record */
  expect_refused("50 01 05 11*32 e8 07 22*32 33*32 d0 0f 01 03 61 00 62 00"); /* a name with a zero in it */
  expect_refused("50 01 05 11*32 ff*9 01 22*32 33*32 d0 0f 01 00 00");        /* a time beyond all times */
  expect_refused("50 01 ff*9 01 " HEAD "02 "                                  /* the second point wraps around to one before the first */
                 "85 80*8 01 44*32 55*32 66*32 01 01 77*32 80*9 01 44*32 55*32 66*32 01 01 77*32");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(points__bytes_are_golden),
    cmocka_unit_test(points__cut_short_or_too_long_they_are_refused),
    cmocka_unit_test(points__with_any_bit_flipped_they_are_refused_or_something_else),
    cmocka_unit_test(points__parents_may_be_gone),
    cmocka_unit_test(points__what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests_name("dag/points", tests, NULL, NULL);
}
