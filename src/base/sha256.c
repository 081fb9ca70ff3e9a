/* sha256.c: see sha256.h. */
#include "base/sha256.h"

#include <assert.h>
#include <string.h>

#define BLOCK_SIZE 64

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

static pd_id keyed(pd_bytes key, uint8_t pad, pd_bytes text)
{
  uint8_t block[BLOCK_SIZE] = {0};
  memcpy(block, key.data, key.size);
  for (size_t i = 0; i < BLOCK_SIZE; i++) block[i] ^= pad;
  pd_id id = pd_sha256_parts((const pd_bytes[]){{block, BLOCK_SIZE}, text}, 2);
  explicit_bzero(block, sizeof block);
  return id;
}

pd_id pd_hmac_sha256(pd_bytes key, pd_bytes text)
{
  assert(key.size <= BLOCK_SIZE);
  pd_id inner = keyed(key, 0x36, text);
  return keyed(key, 0x5c, (pd_bytes){inner.bytes, PD_ID_SIZE});
}
