/* file_format.h: {"version":1,"entries":[["key",value],…]}: the text of a state file. See docs/formats.md. */
#ifndef PD_SHELF_FILE_FORMAT_H
#define PD_SHELF_FILE_FORMAT_H

#include "shelf/shelf.h"

/* Check all of `text`, then visit its entries in order (`visit` may be NULL). Keys are decoded, values are slices of it. PD_FORMAT if it is
 * no state file or one of another version; PD_CORRUPT if it is no JSON, as half of a file is. What the visitor answers. */
PD_MUST_USE pd_code pd_state_file_parse(pd_bytes text, pd_shelf_visit visit, void *ctx, pd_error *err);
/* Append the text. Values are JSON without white space. */
PD_MUST_USE pd_code pd_state_file_write(const pd_shelf_item *items, size_t count, pd_buf *out, pd_error *err);

#endif
