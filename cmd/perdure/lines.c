/* lines.c: see lines.h. */
#include "lines.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <errno.h>
#include <unistd.h>

#define CHUNK_SIZE ((size_t)64 * 1024)

void lines_done(lines_reader *lines)
{
  pd_buf_done(&lines->buf);
}

static size_t unread(const lines_reader *l)
{
  return l->buf.size - l->begin;
}

/* Read more behind what is there; what was given out makes room. */
static pd_code fill(lines_reader *l, pd_error *err)
{
  if (l->begin) memmove(l->buf.data, l->buf.data + l->begin, unread(l));
  l->buf.size -= l->begin;
  l->begin = 0;
  TRY(pd_buf_reserve(&l->buf, CHUNK_SIZE, err));
  for (;;) {
    ssize_t n = read(l->fd, l->buf.data + l->buf.size, l->buf.capacity - l->buf.size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_error_set(err, PD_STORAGE, "cannot read standard input: %s", strerror(errno));
    l->buf.size += (size_t)n;
    l->is_ended = n == 0;
    return PD_OK;
  }
}

/* Give out `size` bytes and step over the newline behind them, if there is one. */
static lines_kind give(lines_reader *l, size_t size, size_t newline, pd_bytes *out)
{
  lines_kind kind = l->is_skipping || size > l->line_size_max ? LINES_TOO_LONG : LINES_LINE;
  *out = (pd_bytes){l->buf.data + l->begin, kind == LINES_LINE ? size : 0};
  l->begin += size + newline;
  l->scanned = 0;
  l->is_skipping = false;
  return kind;
}

pd_code lines_next(lines_reader *lines, lines_kind *out_kind, pd_bytes *out_line, pd_error *err)
{
  for (;;) {
    size_t left = unread(lines) - lines->scanned;
    const uint8_t *from = lines->buf.data + lines->begin + lines->scanned;
    const uint8_t *newline = left ? memchr(from, '\n', left) : NULL;
    if (newline) {
      *out_kind = give(lines, (size_t)(newline - (lines->buf.data + lines->begin)), 1, out_line);
      return PD_OK;
    }
    lines->scanned = unread(lines);
    if (lines->is_ended) {
      bool has_rest = lines->scanned > 0 || lines->is_skipping;
      *out_kind = has_rest ? give(lines, lines->scanned, 0, out_line) : LINES_END;
      return PD_OK;
    }
    if (lines->scanned > lines->line_size_max) {
      lines->is_skipping = true;
      lines->begin = lines->scanned = lines->buf.size = 0;
    }
    TRY(fill(lines, err));
  }
}
