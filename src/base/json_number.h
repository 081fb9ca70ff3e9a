/*
 * json_number.h: JSON numbers by their exact decimal value: no digit is lost, whatever the length.
 *
 * Sums are for numbers that could be a double, by their size: below 10^309, and with no digit behind the 400th place after the point. So
 * what other programs read as infinity cannot enter by the exponent.
 */
#ifndef PD_BASE_JSON_NUMBER_H
#define PD_BASE_JSON_NUMBER_H

#include "base/json.h"

#define PD_NUMBER_PLACES_BEFORE 309 /* the point */
#define PD_NUMBER_PLACES_AFTER 400

/* The order of two numbers by their exact decimal value, whatever their length. */
int pd_json_number_compare(pd_json a, pd_json b);
/* Can it be added to? PD_INVALID names what is no number or out of range. */
PD_MUST_USE pd_code pd_json_number_check(pd_json number, pd_error *err);
/* Is it written without sign, fraction and exponent? */
bool pd_json_number_is_natural(pd_json number);
/* Append a + b, or a - b. The text depends on the value only: no exponent, no zeros that say nothing. PD_INVALID as of
 * pd_json_number_check, PD_LIMIT if the result is out of range. */
PD_MUST_USE pd_code pd_json_number_add(pd_json a, pd_json b, bool is_minus, pd_buf *out, pd_error *err);

#endif
