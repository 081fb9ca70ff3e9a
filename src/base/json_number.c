/* json_number.c: see json_number.h. Numbers are compared as they are written; to be added they are laid out digit by digit. */
#include "base/json_number.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

/* A number as its digits without the zeros around them, and the power of ten of the first one. */
typedef struct decimal {
  const char *digits;  /* may still have the point among them */
  const char *end;     /* of the digits */
  int64_t first_power; /* saturates: no text is long enough to matter beyond */
  bool is_negative, is_zero;
} decimal;

#define POWER_MAX ((int64_t)1 << 60)

static int64_t read_power(const char *p, const char *end)
{
  bool is_negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  int64_t power = 0;
  for (; p < end && power < POWER_MAX / 10; p++) power = power * 10 + (*p - '0');
  return is_negative ? -power : power;
}

static decimal read_decimal(pd_json number)
{
  const char *p = number.raw.data, *end = p + number.raw.size;
  decimal d = {.is_negative = *p == '-', .is_zero = true};
  if (d.is_negative) p++;
  const char *power = p, *point = NULL;
  while (power < end && *power != 'e' && *power != 'E') power++;
  d.end = power;
  for (const char *c = p; c < d.end && !point; c++)
    if (*c == '.') point = c;
  for (; p < d.end && d.is_zero; p++)
    if (*p != '0' && *p != '.') d.is_zero = false, d.digits = p;
  if (d.is_zero) return d;
  const char *ones = point ? point : d.end; /* just behind the digit of 10^0 */
  d.first_power = d.digits < ones ? ones - d.digits - 1 : ones - d.digits;
  if (power < end) d.first_power += read_power(power + 1, end);
  return d;
}

static int next_digit(decimal *d)
{
  if (d->digits < d->end && *d->digits == '.') d->digits++;
  return d->digits < d->end ? *d->digits++ : '0';
}

static int compare_sizes(decimal a, decimal b)
{
  if (a.is_zero || b.is_zero) return (int)b.is_zero - (int)a.is_zero;
  if (a.first_power != b.first_power) return a.first_power < b.first_power ? -1 : 1;
  while (a.digits < a.end || b.digits < b.end) {
    int digit_a = next_digit(&a), digit_b = next_digit(&b);
    if (digit_a != digit_b) return digit_a < digit_b ? -1 : 1;
  }
  return 0;
}

int pd_json_number_compare(pd_json a, pd_json b)
{
  decimal da = read_decimal(a), db = read_decimal(b);
  if (da.is_zero) da.is_negative = false;
  if (db.is_zero) db.is_negative = false;
  if (da.is_negative != db.is_negative) return da.is_negative ? -1 : 1;
  return da.is_negative ? compare_sizes(db, da) : compare_sizes(da, db);
}

bool pd_json_number_is_natural(pd_json number)
{
  if (number.kind != PD_JSON_NUMBER) return false;
  const char *p = number.raw.data;
  for (size_t i = 0; i < number.raw.size; i++)
    if (p[i] < '0' || p[i] > '9') return false;
  return true;
}

/* ---- sums ---- */

#define PLACES (PD_NUMBER_PLACES_BEFORE + PD_NUMBER_PLACES_AFTER)

/* Digits from the largest place down; the first is one that sums may carry into. */
typedef struct layout {
  bool is_negative;
  uint8_t digits[1 + PLACES];
} layout;

static pd_code refuse(pd_json number, pd_error *err)
{
  return pd_error_set(err, PD_INVALID, "%.*s is out of range: a number to add has at most %d places before and %d after the point",
                      (int)(number.raw.size < 60 ? number.raw.size : 60), (const char *)number.raw.data, PD_NUMBER_PLACES_BEFORE,
                      PD_NUMBER_PLACES_AFTER);
}

static pd_code lay_out(pd_json number, layout *out, pd_error *err)
{
  if (number.kind != PD_JSON_NUMBER)
    return pd_error_set(err, PD_INVALID, "a number is needed, and this is of the kind %s", pd_json_kind_name(number.kind));
  decimal d = read_decimal(number);
  memset(out, 0, sizeof *out);
  if (d.is_zero) return PD_OK;
  out->is_negative = d.is_negative;
  if (d.first_power >= PD_NUMBER_PLACES_BEFORE || d.first_power < -PD_NUMBER_PLACES_AFTER) return refuse(number, err);
  size_t place = (size_t)(PD_NUMBER_PLACES_BEFORE - d.first_power);
  while (d.digits < d.end) {
    int digit = next_digit(&d) - '0';
    if (place < COUNT_OF(out->digits))
      out->digits[place++] = (uint8_t)digit;
    else if (digit)
      return refuse(number, err);
  }
  return PD_OK;
}

pd_code pd_json_number_check(pd_json number, pd_error *err)
{
  layout digits;
  return lay_out(number, &digits, err);
}

static void add_digits(layout *a, const layout *b)
{
  unsigned carry = 0;
  for (size_t i = COUNT_OF(a->digits); i-- > 0;) {
    unsigned sum = a->digits[i] + b->digits[i] + carry;
    carry = sum >= 10;
    a->digits[i] = (uint8_t)(sum - 10 * carry);
  }
}

/* a must not be the smaller one. */
static void subtract_digits(layout *a, const layout *b)
{
  int borrow = 0;
  for (size_t i = COUNT_OF(a->digits); i-- > 0;) {
    int rest = a->digits[i] - b->digits[i] - borrow;
    borrow = rest < 0;
    a->digits[i] = (uint8_t)(rest + 10 * borrow);
  }
}

static pd_code write_layout(const layout *n, pd_buf *out, pd_error *err)
{
  char text[COUNT_OF(n->digits) + 3];
  size_t size = 0, first = 0, end = COUNT_OF(n->digits);
  const size_t ones = PD_NUMBER_PLACES_BEFORE;
  while (first < ones && !n->digits[first]) first++;
  while (end > ones + 1 && !n->digits[end - 1]) end--;
  bool is_zero = first == ones && end == ones + 1 && !n->digits[ones];
  if (n->is_negative && !is_zero) text[size++] = '-';
  for (size_t i = first; i < end; i++) {
    if (i == ones + 1) text[size++] = '.';
    text[size++] = (char)('0' + n->digits[i]);
  }
  return pd_buf_append(out, text, size, err);
}

pd_code pd_json_number_add(pd_json a, pd_json b, bool is_minus, pd_buf *out, pd_error *err)
{
  layout da, db;
  TRY(lay_out(a, &da, err));
  TRY(lay_out(b, &db, err));
  if (is_minus) db.is_negative = !db.is_negative;
  if (da.is_negative == db.is_negative) {
    add_digits(&da, &db);
  } else if (memcmp(da.digits, db.digits, sizeof da.digits) >= 0) {
    subtract_digits(&da, &db);
  } else {
    subtract_digits(&db, &da);
    da = db;
  }
  if (da.digits[0]) return pd_error_set(err, PD_LIMIT, "the result has more than %d places before the point", PD_NUMBER_PLACES_BEFORE);
  return write_layout(&da, out, err);
}
