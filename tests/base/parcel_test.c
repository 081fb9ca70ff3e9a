/* parcel_test.c: byte strings with their lengths, whole and cut off. */
#include "base/parcel.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void parcel__what_was_put_comes_out_in_order(void **state)
{
  static const char *const texts[] = {"one", "", "a longer text", "x"};
  pd_buf packed = {0};
  pd_bytes *all = NULL;
  size_t count = 0;
  (void)state;
  for (size_t i = 0; i < 4; i++) assert_int_equal(pd_parcel_put(&packed, pd_text(texts[i]), NULL), PD_OK);
  assert_int_equal(packed.size, 4 * PD_PARCEL_HEAD + 3 + 13 + 1);
  assert_memory_equal(packed.data, "\x03\x00\x00\x00one", 7);
  assert_int_equal(pd_parcel_all(pd_buf_bytes(&packed), 4, &all, &count, NULL), PD_OK);
  assert_int_equal(count, 4);
  for (size_t i = 0; i < 4; i++) assert_true(pd_bytes_equal(all[i], pd_text(texts[i])));
  free(all);
  pd_buf_done(&packed);
}

static void parcel__nothing_holds_none(void **state)
{
  pd_bytes *all = NULL, rest = {0}, out;
  size_t count = 9;
  (void)state;
  assert_int_equal(pd_parcel_all((pd_bytes){0}, 4, &all, &count, NULL), PD_OK);
  assert_int_equal(count, 0);
  assert_int_equal(pd_parcel_next(&rest, &out, NULL), PD_NOT_FOUND);
  free(all);
}

static void parcel__cut_off_anywhere_it_is_refused(void **state)
{
  pd_buf packed = {0};
  (void)state;
  assert_int_equal(pd_parcel_put(&packed, pd_text("abc"), NULL), PD_OK);
  assert_int_equal(pd_parcel_put(&packed, pd_text("defgh"), NULL), PD_OK);
  for (size_t size = 1; size < packed.size; size++) {
    pd_bytes *all = NULL;
    size_t count = 0;
    pd_error err = {0};
    pd_code code = pd_parcel_all((pd_bytes){packed.data, size}, 9, &all, &count, &err);
    assert_int_equal(code, size == PD_PARCEL_HEAD + 3 ? PD_OK : PD_INVALID); /* at the end of the first it is whole */
    if (code) assert_non_null(strstr(err.message, "cut off"));
    if (code) assert_null(all);
    free(all);
  }
  pd_buf_done(&packed);
}

static void parcel__a_length_that_is_a_lie_is_refused(void **state)
{
  pd_bytes *all = NULL;
  size_t count = 0;
  (void)state;
  assert_int_equal(pd_parcel_all((pd_bytes){"\xff\xff\xff\xff"
                                            "abc",
                                            7},
                                 9, &all, &count, NULL),
                   PD_INVALID);
  assert_int_equal(pd_parcel_all((pd_bytes){"\x04\x00\x00\x00"
                                            "abc",
                                            7},
                                 9, &all, &count, NULL),
                   PD_INVALID);
  assert_null(all);
}

static void parcel__more_than_may_be_are_refused(void **state)
{
  pd_buf packed = {0};
  pd_bytes *all = NULL;
  size_t count = 0;
  (void)state;
  for (int i = 0; i < 5; i++) assert_int_equal(pd_parcel_put(&packed, pd_text(""), NULL), PD_OK);
  assert_int_equal(pd_parcel_all(pd_buf_bytes(&packed), 4, &all, &count, NULL), PD_LIMIT);
  assert_null(all);
  pd_buf_done(&packed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(parcel__what_was_put_comes_out_in_order), cmocka_unit_test(parcel__nothing_holds_none),
    cmocka_unit_test(parcel__cut_off_anywhere_it_is_refused),  cmocka_unit_test(parcel__a_length_that_is_a_lie_is_refused),
    cmocka_unit_test(parcel__more_than_may_be_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
