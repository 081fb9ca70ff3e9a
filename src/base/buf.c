/* buf.c: growing bytes with a maximum, byte comparison, UTF-8. */
#include "base/buf.h"

#include "base/base.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void pd_buf_done(pd_buf *buf)
{
  if (!buf) return;
  free(buf->data);
  buf->data = NULL;
  buf->size = buf->capacity = 0;
}

void pd_buf_wipe(pd_buf *buf)
{
  if (buf->data) explicit_bzero(buf->data, buf->capacity);
  pd_buf_done(buf);
}

pd_code pd_buf_reserve(pd_buf *buf, size_t more, pd_error *err)
{
  size_t need = buf->size + more;
  if (need < more || (buf->size_max && need > buf->size_max))
    return pd_error_set(err, PD_LIMIT, "buffer of %zu bytes is over its limit of %zu", need, buf->size_max);
  if (need <= buf->capacity) return PD_OK;
  size_t capacity = buf->capacity * 2 > need ? buf->capacity * 2 : need;
  if (capacity < 64) capacity = 64;
  if (buf->size_max && capacity > buf->size_max) capacity = buf->size_max; /* whoever counts memory by the maximum is right */
  uint8_t *data = realloc(buf->data, capacity);
  if (!data) return pd_error_memory(err, "a buffer");
  buf->data = data;
  buf->capacity = capacity;
  return PD_OK;
}

pd_code pd_buf_append(pd_buf *buf, const void *data, size_t size, pd_error *err)
{
  TRY(pd_buf_reserve(buf, size, err));
  if (size) memcpy(buf->data + buf->size, data, size);
  buf->size += size;
  return PD_OK;
}

pd_code pd_buf_append_all(pd_buf *buf, const pd_bytes *parts, size_t count, pd_error *err)
{
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    if (__builtin_add_overflow(size, parts[i].size, &size)) return pd_error_set(err, PD_LIMIT, "the parts of a buffer are too large");
  TRY(pd_buf_reserve(buf, size, err));
  for (size_t i = 0; i < count; i++) {
    if (parts[i].size) memcpy(buf->data + buf->size, parts[i].data, parts[i].size);
    buf->size += parts[i].size;
  }
  return PD_OK;
}

pd_code pd_buf_byte(pd_buf *buf, uint8_t byte, pd_error *err)
{
  return pd_buf_append(buf, &byte, 1, err);
}

pd_code pd_buf_printf(pd_buf *buf, pd_error *err, const char *fmt, ...)
{
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int size = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  pd_code code = size < 0 ? pd_error_set(err, PD_INVALID, "format '%s' failed", fmt) : pd_buf_reserve(buf, (size_t)size + 1, err);
  if (code == PD_OK) {
    vsnprintf((char *)buf->data + buf->size, (size_t)size + 1, fmt, again);
    buf->size += (size_t)size;
  }
  va_end(again);
  return code;
}

size_t pd_u64_text(uint64_t number, char out[PD_U64_TEXT_SIZE])
{
  char digits[PD_U64_TEXT_SIZE];
  size_t at = sizeof digits;
  digits[--at] = 0;
  do digits[--at] = (char)('0' + number % 10);
  while (number /= 10);
  memcpy(out, digits + at, sizeof digits - at);
  return sizeof digits - at - 1;
}

int pd_bytes_compare(pd_bytes a, pd_bytes b)
{
  size_t shorter = a.size < b.size ? a.size : b.size;
  int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
  if (order) return order;
  return (a.size > b.size) - (a.size < b.size);
}

bool pd_bytes_equal(pd_bytes a, pd_bytes b)
{
  return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}

bool pd_bytes_starts(pd_bytes whole, pd_bytes prefix)
{
  return whole.size >= prefix.size && (!prefix.size || memcmp(whole.data, prefix.data, prefix.size) == 0);
}

/* Size of the sequence at p, or 0. */
static size_t utf8_step(const uint8_t *p, size_t left)
{
  uint8_t lead = p[0];
  size_t size;
  uint32_t point, least;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) {
    size = 2, point = lead & 0x1Fu, least = 0x80;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    size = 3, point = lead & 0x0Fu, least = 0x800;
  } else if (lead >= 0xF0 && lead < 0xF5) {
    size = 4, point = lead & 0x07u, least = 0x10000;
  } else {
    return 0;
  }
  if (left < size) return 0;
  for (size_t i = 1; i < size; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
    point = point << 6 | (p[i] & 0x3Fu);
  }
  if (point < least || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return 0;
  return size;
}

bool pd_utf8_check(pd_bytes text)
{
  const uint8_t *p = text.data;
  for (size_t i = 0; i < text.size;) {
    size_t step = utf8_step(p + i, text.size - i);
    if (!step) return false;
    i += step;
  }
  return true;
}
