/* base64.h: RFC 4648, the standard alphabet with padding. */
#ifndef PD_BASE_BASE64_H
#define PD_BASE_BASE64_H

#include <perdure/perdure.h>

/* Append the encoding of `data`. */
PD_MUST_USE pd_code pd_base64_encode(pd_bytes data, pd_buf *out, pd_error *err);
/* Append the bytes that `text` encodes. Strict: padding required, no white space, no stray bits (so each value has one text).
 * PD_INVALID leaves `out` as it was. */
PD_MUST_USE pd_code pd_base64_decode(pd_bytes text, pd_buf *out, pd_error *err);

#endif
