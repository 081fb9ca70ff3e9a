/* number.c: see number.h. */
#include "base/number.h"

bool pd_u64_take(const char **at, uint64_t *out)
{
  const char *p = *at;
  uint64_t n = 0;
  for (; *p >= '0' && *p <= '9'; p++)
    if (__builtin_mul_overflow(n, (uint64_t)10, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n)) return false;
  if (p == *at || (**at == '0' && p > *at + 1)) return false;
  *at = p;
  *out = n;
  return true;
}

bool pd_u64_parse(const char *text, uint64_t *out)
{
  uint64_t n;
  if (!pd_u64_take(&text, &n) || *text) return false;
  *out = n;
  return true;
}
