/*
 * cursor.h: one reader for all encodings, so that parsers read as schemas.
 *
 * A cursor that was asked for more than there is becomes `failed`, gives zeros from then on, and never reads outside.
 * Check `pd_cursor_ok` once at the end. Writers append to a pd_buf; they fail only for memory.
 */
#ifndef PD_DAG_CURSOR_H
#define PD_DAG_CURSOR_H

#include <perdure/perdure.h>

typedef struct pd_cursor {
  const uint8_t *next, *end;
  bool failed;
} pd_cursor;

static inline pd_cursor pd_cursor_of(pd_bytes bytes)
{
  pd_cursor c = {bytes.data, (const uint8_t *)bytes.data + bytes.size, false};
  return c;
}

static inline size_t pd_cursor_left(const pd_cursor *c)
{
  return (size_t)(c->end - c->next);
}

uint8_t pd_take_u8(pd_cursor *c);
uint16_t pd_take_u16(pd_cursor *c);
uint32_t pd_take_u32(pd_cursor *c);
/* LEB128, shortest form only, so that each number has one encoding. */
uint64_t pd_take_varint(pd_cursor *c);
/* Borrowed from what the cursor reads. */
pd_bytes pd_take_bytes(pd_cursor *c, size_t size);
pd_id pd_take_id(pd_cursor *c);
/* A varint size and that many bytes; fails over `size_max`. */
pd_bytes pd_take_sized(pd_cursor *c, size_t size_max);
/* True if nothing failed and nothing is left. */
bool pd_cursor_ok(const pd_cursor *c);

#define PD_VARINT_SIZE_MAX 10
/* Returns the number of bytes written. */
size_t pd_varint_size(uint64_t n);
size_t pd_varint_write(uint8_t out[PD_VARINT_SIZE_MAX], uint64_t n);
PD_MUST_USE pd_code pd_add_varint(pd_buf *buf, uint64_t n, pd_error *err);
PD_MUST_USE pd_code pd_add_id(pd_buf *buf, const pd_id *id, pd_error *err);
PD_MUST_USE pd_code pd_add_sized(pd_buf *buf, pd_bytes bytes, pd_error *err);
void pd_put_u16(uint8_t *out, uint16_t n);
void pd_put_u32(uint8_t *out, uint32_t n);

#endif
