/* clock_test.c: times as text and back, and what is no time. */
#include "base/clock.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

typedef struct time_case {
  const char *text;
  int64_t ms;
} time_case;

static void time__text_of_known_moments(void **state)
{
  (void)state;
  static const time_case cases[] = {
    {"1970-01-01T00:00:00.000Z", 0},
    {"1970-01-01T00:00:00.001Z", 1},
    {"1969-12-31T23:59:59.999Z", -1},
    {"1969-12-31T23:59:59.000Z", -1000},
    {"2001-09-09T01:46:40.000Z", 1000000000000},
    {"2000-02-29T12:00:00.250Z", 951825600250},
    {"2038-01-19T03:14:08.000Z", 2147483648000},
    {"9999-12-31T23:59:59.999Z", 253402300799999},
  };
  char text[PD_TIME_TEXT_SIZE];
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    assert_string_equal(pd_time_text(cases[i].ms, text), cases[i].text);
    int64_t back = 0;
    assert_true(pd_time_parse(cases[i].text, &back));
    assert_int_equal(back, cases[i].ms);
  }
}

static void time__parse_reads_every_documented_form(void **state)
{
  (void)state;
  static const time_case cases[] = {
    {"0", 0},
    {"1731670830123", 1731670830123},
    {"1970-01-02", 86400000},
    {"2000-01-01T00:00Z", 946684800000},
    {"2000-01-01 00:00", 946684800000},
    {"2000-01-01t00:00:01", 946684801000},
    {"2000-01-01T00:00:01.5Z", 946684801500},
    {"2000-01-01T00:00:01.123456789Z", 946684801123},
    {"2000-01-01T01:00:00+01:00", 946684800000},
    {"2000-01-01T01:00:00+0100", 946684800000},
    {"1999-12-31T22:30:00-01:30", 946684800000},
    {"2000-02-29", 951782400000},
    {"2024-02-29T23:59:60Z", 1709251200000},
    {"0001-01-01", -62135596800000},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    int64_t ms = 42;
    if (!pd_time_parse(cases[i].text, &ms)) fail_msg("'%s' was refused", cases[i].text);
    if (ms != cases[i].ms) fail_msg("'%s' is %lld, not %lld", cases[i].text, (long long)cases[i].ms, (long long)ms);
  }
}

static void time__parse_refuses_what_is_no_time(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "",
    " ",
    "now",
    "-1",
    "+5",
    "1.5",
    "0x10",
    "1 ",
    " 1",
    "1234567890123456",
    "2000-",
    "2000-1-1",
    "2000-01",
    "2000-01-",
    "2000-13-01",
    "2000-00-01",
    "2000-01-00",
    "2000-01-32",
    "1999-02-29",
    "1900-02-29",
    "2000-04-31",
    "20000-01-01",
    "2000-01-01T",
    "2000-01-01T1",
    "2000-01-01T24:00",
    "2000-01-01T00:60",
    "2000-01-01T00:00:61",
    "2000-01-01T00:00:00.",
    "2000-01-01T00:00:00.Z",
    "2000-01-01T00:00:00X",
    "2000-01-01T00:00:00ZZ",
    "2000-01-01T00:00:00+1",
    "2000-01-01T00:00:00+24:00",
    "2000-01-01T00:00:00+01:60",
    "2000-01-01Z",
    "2000/01/01",
    "2000-01-01T00:00:00 ",
    "\xC2\xB2\x30\x30\x30-01-01",
  };
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    int64_t ms = 42;
    if (pd_time_parse(bad[i], &ms)) fail_msg("'%s' passed as %lld", bad[i], (long long)ms);
    assert_int_equal(ms, 42);
  }
}

static void time__text_and_parse_are_inverse_over_eight_thousand_years(void **state)
{
  (void)state;
  char text[PD_TIME_TEXT_SIZE];
  for (int64_t ms = -30000000000000; ms < 253402300799999; ms += 86400000LL * 97 + 12345677) {
    int64_t back = 0;
    assert_true(pd_time_parse(pd_time_text(ms, text), &back));
    assert_int_equal(back, ms);
  }
}

/* Every day of some centuries, a second at either side of midnight: the system's own calendar agrees. */
static void time__text_agrees_with_the_system_calendar(void **state)
{
  (void)state;
  for (int64_t second = -86400LL * 366 * 250; second < 86400LL * 366 * 300; second += 86400 / 2 + (second % 2 ? 1 : -1)) {
    char text[PD_TIME_TEXT_SIZE], expected[64];
    time_t given = (time_t)second;
    struct tm tm;
    assert_non_null(gmtime_r(&given, &tm));
    strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.007Z", &tm);
    assert_string_equal(pd_time_text(second * 1000 + 7, text), expected);
  }
}

static void time__text_of_any_number_fits_its_room(void **state)
{
  (void)state;
  static const int64_t odd[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, -62135596800001, 253402300800000};
  for (size_t i = 0; i < COUNT_OF(odd); i++) {
    char text[PD_TIME_TEXT_SIZE];
    memset(text, 'x', sizeof text);
    assert_ptr_equal(pd_time_text(odd[i], text), text);
    assert_non_null(memchr(text, 0, sizeof text));
  }
}

static void clock__monotonic_never_goes_back_and_now_is_after_2020(void **state)
{
  (void)state;
  int64_t last = pd_clock_monotonic_ms();
  for (int i = 0; i < 1000; i++) {
    int64_t now = pd_clock_monotonic_ms();
    assert_true(now >= last);
    last = now;
  }
  assert_true(pd_clock_now_ms(NULL) > 1577836800000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(time__text_of_known_moments),
    cmocka_unit_test(time__parse_reads_every_documented_form),
    cmocka_unit_test(time__parse_refuses_what_is_no_time),
    cmocka_unit_test(time__text_and_parse_are_inverse_over_eight_thousand_years),
    cmocka_unit_test(time__text_agrees_with_the_system_calendar),
    cmocka_unit_test(time__text_of_any_number_fits_its_room),
    cmocka_unit_test(clock__monotonic_never_goes_back_and_now_is_after_2020),
  };
  return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
