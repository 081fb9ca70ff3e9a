/* buf.h: owned, growing, bounded bytes (pd_buf of perdure.h), and borrowed ones. */
#ifndef PD_BASE_BUF_H
#define PD_BASE_BUF_H

#include <perdure/perdure.h>

/* Room for `more` bytes after size. PD_LIMIT past size_max, PD_NO_MEMORY. */
PD_MUST_USE pd_code pd_buf_reserve(pd_buf *buf, size_t more, pd_error *err);
PD_MUST_USE pd_code pd_buf_append(pd_buf *buf, const void *data, size_t size, pd_error *err);
/* All of them, one after the other, or none. */
PD_MUST_USE pd_code pd_buf_append_all(pd_buf *buf, const pd_bytes *parts, size_t count, pd_error *err);
PD_MUST_USE pd_code pd_buf_byte(pd_buf *buf, uint8_t byte, pd_error *err);
PD_MUST_USE pd_code pd_buf_printf(pd_buf *buf, pd_error *err, const char *fmt, ...) PD_PRINTF(3, 4);
/* pd_buf_done of a secret. Reserve its room first: what a growing buffer leaves behind is not wiped. */
void pd_buf_wipe(pd_buf *buf);
/* Forget the content, keep the memory. */
static inline void pd_buf_clear(pd_buf *buf)
{
  buf->size = 0;
}

static inline pd_bytes pd_buf_bytes(const pd_buf *buf)
{
  pd_bytes b = {buf->data, buf->size};
  return b;
}

#define PD_U64_TEXT_SIZE 21

/* The number in decimal, with a NUL; returns the size without it. */
size_t pd_u64_text(uint64_t number, char out[PD_U64_TEXT_SIZE]);

/* memcmp order, the shorter first if one is the other's prefix. */
int pd_bytes_compare(pd_bytes a, pd_bytes b);
bool pd_bytes_equal(pd_bytes a, pd_bytes b);
bool pd_bytes_starts(pd_bytes whole, pd_bytes prefix);
/* Strict UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF. */
bool pd_utf8_check(pd_bytes text);

#endif
