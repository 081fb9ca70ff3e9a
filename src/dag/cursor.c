/* cursor.c: see cursor.h. Little-endian throughout. */
#include "dag/cursor.h"

#include "base/base.h"
#include "base/buf.h"

pd_bytes pd_take_bytes(pd_cursor *c, size_t size)
{
  pd_bytes none = {NULL, 0};
  if (c->failed || pd_cursor_left(c) < size) {
    c->failed = true;
    return none;
  }
  pd_bytes taken = {c->next, size};
  c->next += size;
  return taken;
}

uint8_t pd_take_u8(pd_cursor *c)
{
  pd_bytes b = pd_take_bytes(c, 1);
  return b.size ? *(const uint8_t *)b.data : 0;
}

uint16_t pd_take_u16(pd_cursor *c)
{
  pd_bytes b = pd_take_bytes(c, 2);
  const uint8_t *p = b.data;
  return b.size ? (uint16_t)(p[0] | p[1] << 8) : 0;
}

uint32_t pd_take_u32(pd_cursor *c)
{
  pd_bytes b = pd_take_bytes(c, 4);
  const uint8_t *p = b.data;
  return b.size ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

uint64_t pd_take_varint(pd_cursor *c)
{
  uint64_t n = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint8_t byte = pd_take_u8(c);
    if (c->failed) return 0;
    if (shift == 63 && byte > 1) break;
    n |= (uint64_t)(byte & 0x7F) << shift;
    if (byte & 0x80) continue;
    if (byte == 0 && shift > 0) break; /* a longer form of a smaller number */
    return n;
  }
  c->failed = true;
  return 0;
}

pd_id pd_take_id(pd_cursor *c)
{
  pd_id id = {{0}};
  pd_bytes b = pd_take_bytes(c, PD_ID_SIZE);
  if (b.size) memcpy(id.bytes, b.data, PD_ID_SIZE);
  return id;
}

pd_bytes pd_take_sized(pd_cursor *c, size_t size_max)
{
  uint64_t size = pd_take_varint(c);
  if (size > size_max) c->failed = true;
  return pd_take_bytes(c, c->failed ? 0 : (size_t)size);
}

bool pd_cursor_ok(const pd_cursor *c)
{
  return !c->failed && c->next == c->end;
}

size_t pd_varint_size(uint64_t n)
{
  uint8_t bytes[PD_VARINT_SIZE_MAX];
  return pd_varint_write(bytes, n);
}

size_t pd_varint_write(uint8_t out[PD_VARINT_SIZE_MAX], uint64_t n)
{
  size_t size = 0;
  for (; n >= 0x80; n >>= 7) out[size++] = (uint8_t)(n | 0x80);
  out[size++] = (uint8_t)n;
  return size;
}

pd_code pd_add_varint(pd_buf *buf, uint64_t n, pd_error *err)
{
  uint8_t bytes[PD_VARINT_SIZE_MAX];
  return pd_buf_append(buf, bytes, pd_varint_write(bytes, n), err);
}

pd_code pd_add_id(pd_buf *buf, const pd_id *id, pd_error *err)
{
  return pd_buf_append(buf, id->bytes, PD_ID_SIZE, err);
}

pd_code pd_add_sized(pd_buf *buf, pd_bytes bytes, pd_error *err)
{
  TRY(pd_add_varint(buf, bytes.size, err));
  return pd_buf_append(buf, bytes.data, bytes.size, err);
}

void pd_put_u16(uint8_t *out, uint16_t n)
{
  out[0] = (uint8_t)n;
  out[1] = (uint8_t)(n >> 8);
}

void pd_put_u32(uint8_t *out, uint32_t n)
{
  for (int i = 0; i < 4; i++) out[i] = (uint8_t)(n >> (8 * i));
}
