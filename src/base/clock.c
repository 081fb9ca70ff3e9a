/* clock.c: see clock.h. Civil dates by the days-from-civil formula: no locale, no time zone database. */
#include "base/clock.h"

#include "base/number.h"

#include <ctype.h>
#include <stdio.h>
#include <time.h>

#define DAY_MS ((int64_t)86400000)
#define MS_TEXT_END ((uint64_t)1000000000000000) /* milliseconds of 16 digits are no time */

int64_t pd_clock_now_ms(void *ctx)
{
  (void)ctx;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t pd_clock_monotonic_us(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t pd_clock_monotonic_ms(void)
{
  return pd_clock_monotonic_us() / 1000;
}

static int64_t days_from_civil(int64_t year, unsigned month, unsigned day)
{
  year -= month <= 2;
  int64_t era = (year >= 0 ? year : year - 399) / 400;
  unsigned yoe = (unsigned)(year - era * 400);
  unsigned doy = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
  unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + (int64_t)doe - 719468;
}

/* The inverse of days_from_civil. */
static void civil_from_days(int64_t days, int64_t *out_year, unsigned *out_month, unsigned *out_day)
{
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  unsigned doe = (unsigned)(days - era * 146097);
  unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  unsigned month = (5 * doy + 2) / 153;
  *out_day = doy - (153 * month + 2) / 5 + 1;
  *out_month = month < 10 ? month + 3 : month - 9;
  *out_year = (int64_t)yoe + era * 400 + (*out_month <= 2);
}

/* `digits` digits of `number`, and a character after them. */
static char *put_number(char *at, int digits, unsigned number, char after)
{
  for (int i = digits; i-- > 0; number /= 10) at[i] = (char)('0' + number % 10);
  at[digits] = after;
  return at + digits + 1;
}

/* By hand, as each answer of a capability has some: strftime takes longer than the read that it is about. */
char *pd_time_text(int64_t time_ms, char out[PD_TIME_TEXT_SIZE])
{
  int64_t days = time_ms / DAY_MS - (time_ms % DAY_MS < 0), year;
  unsigned month, day, ms = (unsigned)((time_ms % DAY_MS + DAY_MS) % DAY_MS);
  civil_from_days(days, &year, &month, &day);
  if (year < 0 || year > 9999) {
    snprintf(out, PD_TIME_TEXT_SIZE, "%lld", (long long)time_ms);
    return out;
  }
  char *at = put_number(out, 4, (unsigned)year, '-');
  at = put_number(at, 2, month, '-');
  at = put_number(at, 2, day, 'T');
  at = put_number(at, 2, ms / 3600000, ':');
  at = put_number(at, 2, ms / 60000 % 60, ':');
  at = put_number(at, 2, ms / 1000 % 60, '.');
  at = put_number(at, 3, ms % 1000, 'Z');
  *at = 0;
  return out;
}

/* Exactly `digits` digits at *p, at most `most`; moves *p. */
static bool take_number(const char **p, int digits, unsigned most, unsigned *out)
{
  unsigned n = 0;
  for (int i = 0; i < digits; i++) {
    if (!isdigit((unsigned char)**p)) return false;
    n = n * 10 + (unsigned)(*(*p)++ - '0');
  }
  *out = n;
  return n <= most;
}

static bool take_char(const char **p, char c)
{
  if (**p != c) return false;
  (*p)++;
  return true;
}

static bool take_fraction(const char **p, unsigned *out_ms)
{
  unsigned scale = 100;
  *out_ms = 0;
  if (!take_char(p, '.')) return true;
  if (!isdigit((unsigned char)**p)) return false;
  for (; isdigit((unsigned char)**p); (*p)++, scale /= 10) *out_ms += (unsigned)(**p - '0') * scale;
  return true;
}

/* Z, +hh:mm, -hh:mm or nothing; in minutes. */
static bool take_offset(const char **p, int *out_minutes)
{
  *out_minutes = 0;
  if (take_char(p, 'Z') || **p == 0) return true;
  int sign = **p == '+' ? 1 : **p == '-' ? -1 : 0;
  unsigned hours, minutes;
  if (!sign) return false;
  (*p)++;
  if (!take_number(p, 2, 23, &hours)) return false;
  take_char(p, ':');
  if (!take_number(p, 2, 59, &minutes)) return false;
  *out_minutes = sign * (int)(hours * 60 + minutes);
  return true;
}

static bool parse_civil(const char *p, int64_t *out_ms)
{
  unsigned year, month, day, hour = 0, minute = 0, second = 0, ms = 0;
  int offset = 0;
  if (!take_number(&p, 4, 9999, &year) || !take_char(&p, '-') || !take_number(&p, 2, 12, &month) || !take_char(&p, '-') ||
      !take_number(&p, 2, 31, &day) || !month || !day)
    return false;
  static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (day > month_days[month - 1] + (month == 2 && is_leap ? 1u : 0u)) return false;
  if (*p == 'T' || *p == ' ' || *p == 't') {
    p++;
    if (!take_number(&p, 2, 23, &hour) || !take_char(&p, ':') || !take_number(&p, 2, 59, &minute)) return false;
    if (take_char(&p, ':') && (!take_number(&p, 2, 60, &second) || !take_fraction(&p, &ms))) return false;
    if (!take_offset(&p, &offset)) return false;
  }
  if (*p) return false;
  int64_t seconds = days_from_civil(year, month, day) * 86400 + (int64_t)hour * 3600 + ((int64_t)minute - offset) * 60 + second;
  *out_ms = seconds * 1000 + ms;
  return true;
}

bool pd_time_parse(const char *text, int64_t *out_ms)
{
  uint64_t ms;
  if (!pd_u64_parse(text, &ms)) return parse_civil(text, out_ms);
  if (ms >= MS_TEXT_END) return false;
  *out_ms = (int64_t)ms;
  return true;
}
