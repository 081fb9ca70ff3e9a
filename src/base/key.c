/* key.c: see key.h. */
#include "base/key.h"

#define DIGITS 20

uint64_t pd_key_number(pd_bytes key)
{
  uint64_t number = 0;
  if (key.size < DIGITS) return 0;
  const char *at = (const char *)key.data + key.size - DIGITS;
  for (int i = 0; i < DIGITS; i++) {
    if (at[i] < '0' || at[i] > '9') return 0;
    number = number * 10 + (uint64_t)(at[i] - '0');
  }
  return number;
}
