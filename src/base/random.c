/* random.c: see random.h. */
#include "base/random.h"

#include "base/error.h"

#include <errno.h>
#include <sys/random.h>

pd_code pd_random_u64(uint64_t *out, pd_error *err)
{
  uint64_t number;
  do {
    ssize_t got = getrandom(&number, sizeof number, 0);
    if (got < 0 && errno == EINTR)
      number = 0;
    else if (got != (ssize_t)sizeof number)
      return pd_error_set(err, PD_STORAGE, "the system gives no random bytes");
  } while (!number);
  *out = number;
  return PD_OK;
}
