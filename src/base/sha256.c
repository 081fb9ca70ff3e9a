/* sha256.c: see sha256.h. */
#include "base/sha256.h"

void pd_hash_init(pd_hash *hash)
{
  SHA256_Init(hash);
}

void pd_hash_add(pd_hash *hash, const void *data, size_t size)
{
  if (size) SHA256_Update(hash, data, size);
}

pd_id pd_hash_end(pd_hash *hash)
{
  pd_id id;
  SHA256_Final(id.bytes, hash);
  return id;
}

pd_id pd_sha256(pd_bytes data)
{
  return pd_sha256_parts(&data, 1);
}

pd_id pd_sha256_parts(const pd_bytes *parts, size_t count)
{
  pd_hash hash;
  pd_hash_init(&hash);
  for (size_t i = 0; i < count; i++) pd_hash_add(&hash, parts[i].data, parts[i].size);
  return pd_hash_end(&hash);
}
