/*
 * parcel.h: byte strings one after the other, each with its length before it: 4 bytes, little-endian, then so many bytes. Bodies of the
 * server's raw routes are made of them (docs/formats.md).
 */
#ifndef PD_BASE_PARCEL_H
#define PD_BASE_PARCEL_H

#include <perdure/perdure.h>

#define PD_PARCEL_HEAD 4

/* PD_LIMIT for one of 4 GiB or more. */
PD_MUST_USE pd_code pd_parcel_put(pd_buf *out, pd_bytes bytes, pd_error *err);

/* The next one, borrowed from `rest`, which moves behind it. PD_NOT_FOUND at the end, without a message. PD_INVALID if it is cut off. */
PD_MUST_USE pd_code pd_parcel_next(pd_bytes *rest, pd_bytes *out, pd_error *err);

/* All of them as an array for free(). PD_INVALID if the last one is cut off; PD_LIMIT if there are more than `count_max`. */
PD_MUST_USE pd_code pd_parcel_all(pd_bytes text, size_t count_max, pd_bytes **out, size_t *out_count, pd_error *err);

#endif
