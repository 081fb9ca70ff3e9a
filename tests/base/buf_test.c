/* buf_test.c: growing bytes, their maximum, byte order, UTF-8. */
#include "base/buf.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_bytes bytes_of(const char *data, size_t size)
{
  pd_bytes b = {data, size};
  return b;
}

static void buf__appended_pieces_come_back_in_order(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(pd_buf_append(&buf, "abc", 3, NULL), PD_OK);
    assert_int_equal(pd_buf_byte(&buf, (uint8_t)i, NULL), PD_OK);
  }
  assert_int_equal(buf.size, 4000);
  for (int i = 0; i < 1000; i++) {
    assert_memory_equal(buf.data + 4 * i, "abc", 3);
    assert_int_equal(buf.data[4 * i + 3], (uint8_t)i);
  }
}

static void buf__nothing_may_be_appended_from_nowhere(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  assert_int_equal(pd_buf_append(&buf, NULL, 0, NULL), PD_OK);
  assert_int_equal(buf.size, 0);
  assert_int_equal(pd_buf_append(&buf, "x", 1, NULL), PD_OK);
  assert_int_equal(pd_buf_append(&buf, NULL, 0, NULL), PD_OK);
  assert_int_equal(buf.size, 1);
}

static void buf__its_maximum_is_kept_and_named(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf buf = {.size_max = 100};
  pd_error err = {0};
  char block[101] = {0};
  assert_int_equal(pd_buf_append(&buf, block, 101, &err), PD_LIMIT);
  assert_int_equal(err.code, PD_LIMIT);
  assert_non_null(strstr(err.message, "100"));
  assert_int_equal(buf.size, 0);
  assert_int_equal(pd_buf_append(&buf, block, 100, &err), PD_OK);
  assert_int_equal(pd_buf_byte(&buf, 1, &err), PD_LIMIT);
  assert_int_equal(buf.size, 100);
}

static void buf__a_size_that_wraps_around_is_refused(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  assert_int_equal(pd_buf_append(&buf, "0123456789", 10, NULL), PD_OK);
  assert_int_equal(pd_buf_reserve(&buf, SIZE_MAX - 5, NULL), PD_LIMIT);
  assert_int_equal(buf.size, 10);
  assert_memory_equal(buf.data, "0123456789", 10);
}

static void buf__printf_appends_without_the_final_nul(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  assert_int_equal(pd_buf_printf(&buf, NULL, "%s=%d;", "key", 7), PD_OK);
  assert_int_equal(pd_buf_printf(&buf, NULL, "%0200d", 5), PD_OK);
  assert_int_equal(buf.size, 6 + 200);
  assert_memory_equal(buf.data, "key=7;000", 9);
  assert_int_equal(buf.data[205], '5');
}

static void buf__done_takes_null_and_may_be_repeated(void **state)
{
  (void)state;
  pd_buf buf = {0};
  assert_int_equal(pd_buf_append(&buf, "x", 1, NULL), PD_OK);
  pd_buf_done(&buf);
  assert_null(buf.data);
  assert_int_equal(buf.size, 0);
  pd_buf_done(&buf);
  pd_buf_done(NULL);
}

static void buf__clear_keeps_the_memory(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  assert_int_equal(pd_buf_append(&buf, "hello", 5, NULL), PD_OK);
  const uint8_t *data = buf.data;
  pd_buf_clear(&buf);
  assert_int_equal(pd_buf_bytes(&buf).size, 0);
  assert_int_equal(pd_buf_append(&buf, "bye", 3, NULL), PD_OK);
  assert_ptr_equal(buf.data, data);
}

static void number__text_is_what_printf_writes(void **state)
{
  (void)state;
  static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 12345678901234567u, UINT64_MAX - 1, UINT64_MAX};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    char text[PD_U64_TEXT_SIZE], expected[32];
    int size = snprintf(expected, sizeof expected, "%llu", (unsigned long long)numbers[i]);
    assert_int_equal(pd_u64_text(numbers[i], text), size);
    assert_string_equal(text, expected);
  }
}

static void bytes__order_is_that_of_unsigned_bytes_shorter_first(void **state)
{
  (void)state;
  const pd_bytes rising[] = {bytes_of(NULL, 0),   bytes_of("\0", 1),   bytes_of("\0a", 2),   bytes_of("a", 1),
                             bytes_of("a\0", 2),  bytes_of("aa", 2),   bytes_of("b", 1),     bytes_of("\x7f", 1),
                             bytes_of("\x80", 1), bytes_of("\xff", 1), bytes_of("\xff\0", 2)};
  for (size_t i = 0; i < COUNT_OF(rising); i++)
    for (size_t j = 0; j < COUNT_OF(rising); j++) {
      int order = pd_bytes_compare(rising[i], rising[j]);
      assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
      assert_int_equal(pd_bytes_equal(rising[i], rising[j]), i == j);
    }
}

static void bytes__a_prefix_is_no_longer_than_the_whole(void **state)
{
  (void)state;
  assert_true(pd_bytes_starts(pd_text("user/1"), pd_text("user/")));
  assert_true(pd_bytes_starts(pd_text("user/1"), pd_text("")));
  assert_true(pd_bytes_starts(bytes_of(NULL, 0), bytes_of(NULL, 0)));
  assert_true(pd_bytes_starts(pd_text("a"), pd_text("a")));
  assert_false(pd_bytes_starts(pd_text("a"), pd_text("ab")));
  assert_false(pd_bytes_starts(pd_text("ba"), pd_text("a")));
  assert_false(pd_bytes_starts(bytes_of(NULL, 0), pd_text("a")));
}

static void buf__parts_are_appended_all_or_none(void **state)
{
  (void)state;
  pd_buf buf = {.size_max = 8};
  const pd_bytes parts[] = {{"ab", 2}, {NULL, 0}, {"cde", 3}}, huge[] = {{"x", SIZE_MAX}, {"y", 1}};
  assert_int_equal(pd_buf_append_all(&buf, parts, 3, NULL), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&buf), pd_text("abcde")));
  assert_int_equal(pd_buf_append_all(&buf, parts, 3, NULL), PD_LIMIT);
  assert_int_equal(pd_buf_append_all(&buf, huge, 2, NULL), PD_LIMIT);
  assert_int_equal(buf.size, 5);
  pd_buf_done(&buf);
}

static void utf8__well_formed_text_passes(void **state)
{
  (void)state;
  static const char *const good[] = {"",
                                     "plain",
                                     "\xC2\x80",
                                     "\xDF\xBF",
                                     "\xE0\xA0\x80",
                                     "\xED\x9F\xBF",
                                     "\xEE\x80\x80",
                                     "\xEF\xBF\xBF",
                                     "\xF0\x90\x80\x80",
                                     "\xF4\x8F\xBF\xBF",
                                     "gr\xC3\xBC\xC3\x9F \xE2\x9C\x93 \xF0\x9F\x90\x84"};
  for (size_t i = 0; i < COUNT_OF(good); i++) assert_true(pd_utf8_check(pd_text(good[i])));
  assert_true(pd_utf8_check(bytes_of("a\0b", 3))); /* NUL is a character; who refuses it says so elsewhere */
}

static void utf8__ill_formed_text_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "\x80",
    "\xBF",
    "a\x80",
    "\xC0\x80",
    "\xC1\xBF", /* stray and overlong */
    "\xC2",
    "\xC2 ",
    "\xE2\x9C",
    "\xE2\x9C ",
    "\xF0\x9F\x90",
    "\xC2\xC2", /* cut off */
    "\xE0\x80\x80",
    "\xE0\x9F\xBF",
    "\xF0\x80\x80\x80",
    "\xF0\x8F\xBF\xBF", /* overlong */
    "\xED\xA0\x80",
    "\xED\xBF\xBF", /* surrogates */
    "\xF4\x90\x80\x80",
    "\xF5\x80\x80\x80",
    "\xF8\x88\x80\x80\x80",
    "\xFE",
    "\xFF",
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    if (pd_utf8_check(pd_text(bad[i]))) fail_msg("case %zu passed as UTF-8", i);
}

static void utf8__nothing_past_the_end_is_read(void **state)
{
  (void)state;
  static const char whole[] = "\xF0\x9F\x90\x84";
  for (size_t size = 1; size < 4; size++) {
    char *exact = malloc(size); /* so that the address sanitizer sees a read past it */
    memcpy(exact, whole, size);
    assert_false(pd_utf8_check(bytes_of(exact, size)));
    free(exact);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(buf__appended_pieces_come_back_in_order),
    cmocka_unit_test(buf__nothing_may_be_appended_from_nowhere),
    cmocka_unit_test(buf__its_maximum_is_kept_and_named),
    cmocka_unit_test(buf__a_size_that_wraps_around_is_refused),
    cmocka_unit_test(buf__printf_appends_without_the_final_nul),
    cmocka_unit_test(buf__done_takes_null_and_may_be_repeated),
    cmocka_unit_test(buf__clear_keeps_the_memory),
    cmocka_unit_test(number__text_is_what_printf_writes),
    cmocka_unit_test(bytes__order_is_that_of_unsigned_bytes_shorter_first),
    cmocka_unit_test(bytes__a_prefix_is_no_longer_than_the_whole),
    cmocka_unit_test(buf__parts_are_appended_all_or_none),
    cmocka_unit_test(utf8__well_formed_text_passes),
    cmocka_unit_test(utf8__ill_formed_text_is_refused),
    cmocka_unit_test(utf8__nothing_past_the_end_is_read),
  };
  return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
