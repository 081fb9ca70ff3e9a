/* error.h: setting errors. The public shape is include/perdure/error.h. */
#ifndef PD_BASE_ERROR_H
#define PD_BASE_ERROR_H

#include <perdure/error.h>

/* Write code and message; returns `code`, so that `return pd_error_set(...)` reads well. `err` may be NULL. */
PD_API pd_code pd_error_set(pd_error *err, pd_code code, const char *fmt, ...) PD_PRINTF(3, 4);
/* With a name that is more exact than the code's: "KeyNotFound". `name` has static storage. */
pd_code pd_error_named(pd_error *err, pd_code code, const char *name, const char *fmt, ...) PD_PRINTF(4, 5);
/* PD_CONFLICT with its two numbers. */
pd_code pd_error_conflict(pd_error *err, uint64_t expected, uint64_t actual, const char *fmt, ...) PD_PRINTF(4, 5);
/* The one out-of-memory error: names the thing that was being made. */
pd_code pd_error_memory(pd_error *err, const char *what);

#endif
