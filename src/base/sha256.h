/* sha256.h: SHA-256, by OpenSSL. The old streaming calls are several times faster on small inputs than EVP (FACTS.md). */
#ifndef PD_BASE_SHA256_H
#define PD_BASE_SHA256_H

#include <perdure/perdure.h>

pd_id pd_sha256(pd_bytes data);
/* The hash of two or more pieces, one after the other, without copying them together. */
pd_id pd_sha256_parts(const pd_bytes *parts, size_t count);

#endif
