/* sha256.c: see sha256.h. */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init & co: 109 ns against 450 ns one-shot at 64 bytes */
#include "base/sha256.h"

#include <openssl/sha.h>

pd_id pd_sha256(pd_bytes data)
{
  return pd_sha256_parts(&data, 1);
}

pd_id pd_sha256_parts(const pd_bytes *parts, size_t count)
{
  SHA256_CTX ctx;
  pd_id id;
  SHA256_Init(&ctx);
  for (size_t i = 0; i < count; i++)
    if (parts[i].size) SHA256_Update(&ctx, parts[i].data, parts[i].size);
  SHA256_Final(id.bytes, &ctx);
  return id;
}
