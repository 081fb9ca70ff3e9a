/* base64.c: see base64.h. */
#include "base/base64.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pd_code pd_base64_encode(pd_bytes data, pd_buf *out, pd_error *err)
{
  if (data.size > SIZE_MAX / 4 * 3 - 3) return pd_error_set(err, PD_LIMIT, "%zu bytes are too many to encode", data.size);
  TRY(pd_buf_reserve(out, (data.size + 2) / 3 * 4, err));
  const uint8_t *p = data.data;
  uint8_t *to = out->data + out->size;
  for (size_t i = 0; i < data.size; i += 3) {
    size_t left = data.size - i;
    uint32_t group = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
    *to++ = (uint8_t)letters[group >> 18];
    *to++ = (uint8_t)letters[group >> 12 & 63];
    *to++ = left > 1 ? (uint8_t)letters[group >> 6 & 63] : '=';
    *to++ = left > 2 ? (uint8_t)letters[group & 63] : '=';
  }
  out->size += (data.size + 2) / 3 * 4;
  return PD_OK;
}

static int digit_of(uint8_t c)
{
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Three bytes of four letters, of which the last `pad` are padding. */
static bool decode_group(const uint8_t *p, unsigned pad, uint8_t out[3])
{
  uint32_t group = 0;
  for (unsigned i = 0; i < 4; i++) {
    int digit = i >= 4 - pad ? 0 : digit_of(p[i]);
    if (digit < 0) return false;
    group = group << 6 | (uint32_t)digit;
  }
  out[0] = (uint8_t)(group >> 16);
  out[1] = (uint8_t)(group >> 8);
  out[2] = (uint8_t)group;
  return !((pad == 1 && out[2]) || (pad == 2 && out[1]));
}

pd_code pd_base64_decode(pd_bytes text, pd_buf *out, pd_error *err)
{
  const uint8_t *p = text.data;
  if (text.size % 4) return pd_error_set(err, PD_INVALID, "base64 of %zu letters: not a multiple of four", text.size);
  if (!text.size) return PD_OK;
  TRY(pd_buf_reserve(out, text.size / 4 * 3, err));
  unsigned pad = p[text.size - 1] != '=' ? 0 : p[text.size - 2] != '=' ? 1 : 2;
  size_t size = out->size;
  for (size_t i = 0; i < text.size; i += 4, size += 3)
    if (!decode_group(p + i, i + 4 == text.size ? pad : 0, out->data + size))
      return pd_error_set(err, PD_INVALID, "base64 is malformed near letter %zu", i);
  out->size = size - pad;
  return PD_OK;
}
