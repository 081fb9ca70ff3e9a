/* sha256.h: SHA-256, by OpenSSL. The old streaming calls are several times faster on small inputs than EVP (FACTS.md). */
#ifndef PD_BASE_SHA256_H
#define PD_BASE_SHA256_H

#include <perdure/perdure.h>

#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init & co: 109 ns against 450 ns one-shot at 64 bytes */
#include <openssl/sha.h>

typedef SHA256_CTX pd_hash;

void pd_hash_init(pd_hash *hash);
void pd_hash_add(pd_hash *hash, const void *data, size_t size);
pd_id pd_hash_end(pd_hash *hash);

pd_id pd_sha256(pd_bytes data);
/* The hash of two or more pieces, one after the other, without copying them together. */
pd_id pd_sha256_parts(const pd_bytes *parts, size_t count);

/* HMAC-SHA256 (RFC 2104) with a key of at most 64 bytes. Cannot fail, unlike libcrypto's, which allocates. */
pd_id pd_hmac_sha256(pd_bytes key, pd_bytes text);

#endif
