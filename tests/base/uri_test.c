/* uri_test.c: percent-encoding, there and back. */
#include "base/uri.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_text(const pd_buf *out, const char *text)
{
  assert_int_equal(out->size, strlen(text));
  assert_memory_equal(out->data, text, out->size);
}

static void uri__reserved_bytes_are_escaped_but_for_those_that_may_stay(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_uri_escape(pd_text("a/b c?d#%\xc3\xa4~"), "/", &out, NULL), PD_OK);
  assert_text(&out, "a/b%20c%3Fd%23%25%C3%A4~");
  pd_buf_clear(&out);
  assert_int_equal(pd_uri_escape((pd_bytes){"\0/", 2}, "", &out, NULL), PD_OK);
  assert_text(&out, "%00%2F");
}

static void uri__every_byte_comes_back(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  CLEANUP(pd_buf_done) pd_buf back = {0};
  uint8_t all[256];
  for (size_t i = 0; i < sizeof all; i++) all[i] = (uint8_t)i;
  assert_int_equal(pd_uri_escape((pd_bytes){all, sizeof all}, ":@", &out, NULL), PD_OK);
  assert_int_equal(pd_uri_unescape(pd_buf_bytes(&out), &back, NULL), PD_OK);
  assert_int_equal(back.size, sizeof all);
  assert_memory_equal(back.data, all, sizeof all);
}

static void uri__small_and_capital_digits_are_read(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_uri_unescape(pd_text("%2f%2F+"), &out, NULL), PD_OK);
  assert_text(&out, "//+");
}

static void uri__a_percent_sign_without_two_digits_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {"%", "a%", "%2", "%2g", "%g2", "%%20", "%-1", "a%20%"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    CLEANUP(pd_buf_done) pd_buf out = {0};
    pd_error err = {0};
    assert_int_equal(pd_uri_unescape(pd_text(bad[i]), &out, &err), PD_INVALID);
    assert_non_null(strstr(err.message, "%"));
  }
}

static void uri__digits_behind_the_end_do_not_count(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  assert_int_equal(pd_uri_unescape((pd_bytes){"%20", 2}, &out, NULL), PD_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(uri__reserved_bytes_are_escaped_but_for_those_that_may_stay),
    cmocka_unit_test(uri__every_byte_comes_back),
    cmocka_unit_test(uri__small_and_capital_digits_are_read),
    cmocka_unit_test(uri__a_percent_sign_without_two_digits_is_refused),
    cmocka_unit_test(uri__digits_behind_the_end_do_not_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
