/* id.c: ids as text, and the id of a value. Declared in perdure.h. */
#include "base/sha256.h"
#include "base/uri.h"

#include <perdure/perdure.h>

char *pd_id_hex(const pd_id *id, char out[PD_ID_HEX_SIZE])
{
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < PD_ID_SIZE; i++) {
    out[2 * i] = digits[id->bytes[i] >> 4];
    out[2 * i + 1] = digits[id->bytes[i] & 15];
  }
  out[2 * PD_ID_SIZE] = 0;
  return out;
}

bool pd_id_parse(const char *hex, pd_id *out)
{
  pd_id id;
  for (size_t i = 0; i < PD_ID_SIZE; i++) {
    int high = pd_hex_digit(hex[2 * i]);
    int low = high < 0 ? -1 : pd_hex_digit(hex[2 * i + 1]);
    if (low < 0) return false;
    id.bytes[i] = (uint8_t)(high << 4 | low);
  }
  if (hex[2 * PD_ID_SIZE]) return false;
  *out = id;
  return true;
}

bool pd_id_equal(const pd_id *a, const pd_id *b)
{
  return memcmp(a->bytes, b->bytes, PD_ID_SIZE) == 0;
}

pd_id pd_value_id(pd_bytes value)
{
  return pd_sha256(value);
}
