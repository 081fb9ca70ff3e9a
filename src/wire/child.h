/* child.h: a short program of its own, and what it says. */
#ifndef PD_WIRE_CHILD_H
#define PD_WIRE_CHILD_H

#include <perdure/perdure.h>

/* Run `program` with the words (the first is its name; ended by NULL) without standard input, and wait for its end. What it writes to
 * standard output is appended to `out`; standard error is ours. Its exit code does not matter. PD_STORAGE if it could not be run or a
 * signal ended it; PD_LIMIT if it says more than out->size_max. */
PD_MUST_USE pd_code pd_child_read(const char *program, const char *const *words, pd_buf *out, pd_error *err);

#endif
