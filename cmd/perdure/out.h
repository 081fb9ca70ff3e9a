/*
 * out.h: standard output: buffered, checked, paged and coloured where a person reads it.
 *
 * O1  A write that fails is remembered and told once, by out_finish; later writes do nothing.
 * O2  A reader that went away is no error: out_is_closed says so, and the command may stop early.
 * O3  Text from the store never reaches a terminal with its control characters, except by `get`, which promises the bytes.
 */
#ifndef PD_CMD_OUT_H
#define PD_CMD_OUT_H

#include <perdure/perdure.h>
#include <sys/types.h>

typedef enum out_colour { OUT_PLAIN, OUT_ID, OUT_NAME, OUT_GOOD, OUT_BAD, OUT_CHANGED, OUT_DIM } out_colour;

typedef struct out_stream {
  pd_buf buf;
  bool is_memory; /* keep everything in `buf`: no output at all */
  bool is_terminal, has_colours;
  bool wants_pager; /* start one before the first byte, if this is a terminal */
  pid_t pager;      /* 0: none */
  int failed_errno; /* of the first write that failed */
} out_stream;

void out_init(out_stream *o, bool allow_colours);
void out_bytes(out_stream *o, pd_bytes bytes);
void out_text(out_stream *o, const char *text);
void out_printf(out_stream *o, const char *fmt, ...) PD_PRINTF(2, 3);
void out_set(out_stream *o, out_colour colour);
/* Text with control characters and broken UTF-8 made visible: \n, \t, \x1b. */
void out_safe(out_stream *o, pd_bytes text);
/* The same for one line of TSV: only tab, newline and carriage return are changed. */
void out_tsv(out_stream *o, pd_bytes text);
#define OUT_SIZE_TEXT 16
/* "17 B", "1.5 MiB": a number of bytes for people. Returns `out`. */
const char *out_size(uint64_t bytes, char out[OUT_SIZE_TEXT]);
/* Write the buffer if it has grown; call after using `buf` directly. */
void out_drain(out_stream *o);
void out_flush(out_stream *o);
bool out_is_closed(const out_stream *o);
/* Flush, wait for the pager, free. PD_STORAGE or PD_FULL if a write failed; not if the reader went away. */
PD_MUST_USE pd_code out_finish(out_stream *o, pd_error *err);

#endif
