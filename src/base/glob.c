/* glob.c: see glob.h. */
#include "base/glob.h"

bool pd_glob_match(pd_bytes pattern, pd_bytes text)
{
  const char *p = pattern.data, *t = text.data;
  size_t at = 0, i = 0, star = SIZE_MAX, from = 0;
  while (i < text.size) {
    if (at < pattern.size && p[at] == '*') {
      star = at++;
      from = i;
    } else if (at < pattern.size && (p[at] == '?' || p[at] == t[i])) {
      at++;
      i++;
    } else if (star != SIZE_MAX) { /* the last star takes one more; earlier ones need not be tried again */
      at = star + 1;
      i = ++from;
    } else {
      return false;
    }
  }
  while (at < pattern.size && p[at] == '*') at++;
  return at == pattern.size;
}
