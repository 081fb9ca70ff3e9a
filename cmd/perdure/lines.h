/* lines.h: lines from a file descriptor, each bounded: one that is too long is skipped without being held in memory whole. */
#ifndef PD_CMD_LINES_H
#define PD_CMD_LINES_H

#include <perdure/perdure.h>

typedef enum lines_kind { LINES_LINE, LINES_TOO_LONG, LINES_END } lines_kind;

typedef struct lines_reader {
  int fd;
  size_t line_size_max;
  pd_buf buf;
  size_t begin;   /* of what was not given out yet */
  size_t scanned; /* from begin on: no newline in these bytes */
  bool is_skipping, is_ended;
} lines_reader;

void lines_done(lines_reader *lines);
/* The next line without its newline; borrowed until the next call. The last line needs no newline. PD_STORAGE if reading fails. */
PD_MUST_USE pd_code lines_next(lines_reader *lines, lines_kind *out_kind, pd_bytes *out_line, pd_error *err);

#endif
