/*
 * number.h: the one reader of whole numbers that somebody outside wrote: options, URLs, headers, cursors, points in history. One number has
 * one spelling: digits alone, without a sign, a blank or a needless zero in front. "01", "+1", " 1" and "1 " are not numbers, and neither
 * is what does not fit.
 */
#ifndef PD_BASE_NUMBER_H
#define PD_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The number at *at; *at goes past its digits. False, with nothing changed, if there is none. */
bool pd_u64_take(const char **at, uint64_t *out);
/* The number that the whole text is. False, with nothing changed, if it is not one. */
bool pd_u64_parse(const char *text, uint64_t *out);

#endif
