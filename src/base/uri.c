/* uri.c: see uri.h. */
#include "base/uri.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <string.h>

int pd_hex_digit(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

pd_code pd_uri_escape(pd_bytes text, const char *also, pd_buf *out, pd_error *err)
{
  static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  const uint8_t *bytes = text.data;
  for (size_t i = 0; i < text.size; i++) {
    bool is_plain = bytes[i] && (strchr(unreserved, bytes[i]) || strchr(also, bytes[i]));
    TRY(is_plain ? pd_buf_byte(out, bytes[i], err) : pd_buf_printf(out, err, "%%%02X", bytes[i]));
  }
  return PD_OK;
}

pd_code pd_uri_unescape(pd_bytes text, pd_buf *out, pd_error *err)
{
  const char *at = text.data;
  for (size_t i = 0; i < text.size; i++) {
    int byte = (unsigned char)at[i];
    if (byte == '%') {
      int high = text.size - i > 2 ? pd_hex_digit(at[i + 1]) : -1, low = high < 0 ? -1 : pd_hex_digit(at[i + 2]);
      if (low < 0) return pd_error_set(err, PD_INVALID, "the URI has a '%%' without two hexadecimal digits behind it");
      byte = high * 16 + low;
      i += 2;
    }
    TRY(pd_buf_byte(out, (uint8_t)byte, err));
  }
  return PD_OK;
}
