/* uri.h: percent-encoding (RFC 3986, section 2.1). */
#ifndef PD_BASE_URI_H
#define PD_BASE_URI_H

#include <perdure/perdure.h>

/* Append `text` with every byte as %XX but for letters, digits, -._~ and the characters of `also`. */
PD_MUST_USE pd_code pd_uri_escape(pd_bytes text, const char *also, pd_buf *out, pd_error *err);
/* Append `text` with every %XX as its byte. PD_INVALID for a % without two hexadecimal digits behind it. */
PD_MUST_USE pd_code pd_uri_unescape(pd_bytes text, pd_buf *out, pd_error *err);

/* 0 to 15; -1 if it is not a hexadecimal digit. */
int pd_hex_digit(char c);

#endif
