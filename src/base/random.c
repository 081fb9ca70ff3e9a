/* random.c: see random.h. */
#include "base/random.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
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

pd_code pd_random_hex(char *out, size_t size, pd_error *err)
{
  uint8_t bytes[32];
  size_t count = (size - 1) / 2;
  assert(count <= sizeof bytes);
  if (getrandom(bytes, count, 0) != (ssize_t)count) return pd_error_set(err, PD_STORAGE, "the system gives no random bytes");
  for (size_t i = 0; i < count; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  explicit_bzero(bytes, sizeof bytes); /* it may become a secret */
  return PD_OK;
}
