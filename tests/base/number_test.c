/* number_test.c: one number, one spelling. */
#include "base/number.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void number__digits_alone_are_a_number(void **state)
{
  uint64_t n = 7;
  (void)state;
  assert_true(pd_u64_parse("0", &n));
  assert_int_equal(n, 0);
  assert_true(pd_u64_parse("10", &n));
  assert_int_equal(n, 10);
  assert_true(pd_u64_parse("18446744073709551615", &n));
  assert_true(n == UINT64_MAX);
}

static void number__another_spelling_is_refused_and_changes_nothing(void **state)
{
  static const char *const bad[] = {"",
                                    "01",
                                    "00",
                                    "+1",
                                    "-1",
                                    " 1",
                                    "1 ",
                                    "\t1",
                                    "1\n",
                                    "0x1",
                                    "1.0",
                                    "1e3",
                                    "1_0",
                                    "½",
                                    "one",
                                    "１",
                                    "1,0",
                                    "18446744073709551616",
                                    "99999999999999999999999",
                                    "4444444444444444444444110"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    uint64_t n = 7;
    if (pd_u64_parse(bad[i], &n)) fail_msg("'%s' was taken as %llu", bad[i], (unsigned long long)n);
    assert_int_equal(n, 7);
  }
}

static void number__taking_stops_behind_the_digits(void **state)
{
  const char *at = "42.7";
  uint64_t n = 0;
  (void)state;
  assert_true(pd_u64_take(&at, &n));
  assert_int_equal(n, 42);
  assert_string_equal(at, ".7");
  assert_false(pd_u64_take(&at, &n));
  assert_string_equal(at, ".7");
  at = "007";
  assert_false(pd_u64_take(&at, &n));
  assert_string_equal(at, "007");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(number__digits_alone_are_a_number),
    cmocka_unit_test(number__another_spelling_is_refused_and_changes_nothing),
    cmocka_unit_test(number__taking_stops_behind_the_digits),
  };
  return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
