/* distance.c: see distance.h. */
#include "base/distance.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static unsigned least3(unsigned a, unsigned b, unsigned c)
{
  unsigned least = a < b ? a : b;
  return least < c ? least : c;
}

unsigned pd_text_distance(const char *a, const char *b)
{
  size_t na = strlen(a), nb = strlen(b);
  if (na > PD_DISTANCE_MAX || nb > PD_DISTANCE_MAX) return PD_DISTANCE_MAX;
  unsigned rows[3][PD_DISTANCE_MAX + 1];
  unsigned *before = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= nb; j++) last[j] = (unsigned)j;
  for (size_t i = 1; i <= na; i++) {
    now[0] = (unsigned)i;
    for (size_t j = 1; j <= nb; j++) {
      unsigned cost = a[i - 1] != b[j - 1];
      now[j] = least3(last[j] + 1, now[j - 1] + 1, last[j - 1] + cost);
      bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap && before[j - 2] + 1 < now[j]) now[j] = before[j - 2] + 1;
    }
    unsigned *free_row = before;
    before = last, last = now, now = free_row;
  }
  return last[nb];
}
