/* source.h: a value on its way in, from a file or standard input, a piece at a time. */
#ifndef PD_CMD_SOURCE_H
#define PD_CMD_SOURCE_H

#include "progress.h"

/* Zero-initialise; close takes one that was never opened. Its beginning is read when it is opened, so that what cannot be read is
 * refused before a store is made. */
typedef struct source {
  bool is_open;
  int fd;
  const char *name;
  size_t size_max;
  uint64_t total; /* a file's size; 0: not known */
  uint64_t taken; /* bytes read so far, the beginning included */
  pd_buf head;    /* the beginning */
  size_t head_at; /* so much of it was given */
  progress_bar *bar;
} source;

/* Does a VALUE name a source ("-" or "@FILE"), or is it the text itself? */
bool source_is_named(const char *text);
/* `text` is "-" or "@FILE". PD_LIMIT for a file over `size_max`; what has no size is counted as it comes. */
PD_MUST_USE pd_code source_open(source *s, const char *text, size_t size_max, pd_error *err);
/* A pd_stream_read; ctx is the source. */
PD_MUST_USE pd_code source_read(void *ctx, void *buffer, size_t size, size_t *out_size, pd_error *err);
void source_close(source *s);

#endif
