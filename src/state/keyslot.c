/* keyslot.c: see keyslot.h. */
#include "state/keyslot.h"

#include "base/base.h"
#include "base/error.h"
#include "base/secret.h"

#include <argon2.h>

#define LABEL_WRAP "perdure vault 1 wrap"
#define LABEL_COMMIT "perdure vault 1 commitment"
#define LABEL_KEY "perdure key 1"
#define KDF_BYTES (12 + PD_SALT_BYTES + PD_KEY_BYTES)

/* ---- bytes ---- */

void pd_le32_put(uint8_t **to, uint32_t n)
{
  for (unsigned i = 0; i < 4; i++) *(*to)++ = (uint8_t)(n >> 8 * i);
}

void pd_le64_put(uint8_t **to, uint64_t n)
{
  for (unsigned i = 0; i < 8; i++) *(*to)++ = (uint8_t)(n >> 8 * i);
}

void pd_raw_put(uint8_t **to, const void *data, size_t size)
{
  memcpy(*to, data, size);
  *to += size;
}

uint32_t pd_le32_take(const uint8_t **from)
{
  uint32_t n = 0;
  for (unsigned i = 0; i < 4; i++) n |= (uint32_t) * (*from)++ << 8 * i;
  return n;
}

uint64_t pd_le64_take(const uint8_t **from)
{
  uint64_t n = 0;
  for (unsigned i = 0; i < 8; i++) n |= (uint64_t) * (*from)++ << 8 * i;
  return n;
}

void pd_raw_take(const uint8_t **from, void *out, size_t size)
{
  memcpy(out, *from, size);
  *from += size;
}

static void put_kdf(uint8_t **to, const pd_kdf *kdf)
{
  pd_le32_put(to, kdf->memory_kib);
  pd_le32_put(to, kdf->passes);
  pd_le32_put(to, kdf->lanes);
  pd_raw_put(to, kdf->salt, sizeof kdf->salt);
  pd_raw_put(to, kdf->commitment, sizeof kdf->commitment);
}

void pd_keyslot_encode(const pd_kdf *kdf, const pd_wrapped *wrapped, uint8_t out[PD_KEYSLOT_BYTES])
{
  put_kdf(&out, kdf);
  pd_raw_put(&out, wrapped->id, sizeof wrapped->id);
  pd_le64_put(&out, (uint64_t)wrapped->made_ms);
  pd_raw_put(&out, wrapped->nonce, sizeof wrapped->nonce);
  pd_raw_put(&out, wrapped->box, sizeof wrapped->box);
}

void pd_keyslot_decode(const uint8_t bytes[PD_KEYSLOT_BYTES], pd_kdf *out_kdf, pd_wrapped *out_wrapped)
{
  out_kdf->memory_kib = pd_le32_take(&bytes);
  out_kdf->passes = pd_le32_take(&bytes);
  out_kdf->lanes = pd_le32_take(&bytes);
  pd_raw_take(&bytes, out_kdf->salt, sizeof out_kdf->salt);
  pd_raw_take(&bytes, out_kdf->commitment, sizeof out_kdf->commitment);
  pd_raw_take(&bytes, out_wrapped->id, sizeof out_wrapped->id);
  out_wrapped->made_ms = (int64_t)pd_le64_take(&bytes);
  pd_raw_take(&bytes, out_wrapped->nonce, sizeof out_wrapped->nonce);
  pd_raw_take(&bytes, out_wrapped->box, sizeof out_wrapped->box);
}

/* ---- from a passphrase to a key ---- */

pd_code pd_kdf_check(const pd_kdf *kdf, pd_error *err)
{
  if (!kdf->lanes || kdf->lanes > PD_KDF_LANES_MAX || !kdf->passes || kdf->passes > PD_KDF_PASSES_MAX || kdf->memory_kib < 8 * kdf->lanes ||
      kdf->memory_kib > PD_KDF_MEMORY_KIB_MAX)
    return pd_error_set(err, PD_INVALID,
                        "Argon2id with %u KiB, %u passes and %u lanes is out of bounds (8 x lanes to %u KiB, 1 to %u, 1 to %u)",
                        kdf->memory_kib, kdf->passes, kdf->lanes, PD_KDF_MEMORY_KIB_MAX, PD_KDF_PASSES_MAX, PD_KDF_LANES_MAX);
  return PD_OK;
}

static pd_code derive(const pd_kdf *kdf, pd_bytes passphrase, uint8_t *out_root, pd_error *err)
{
  TRY(pd_kdf_check(kdf, err));
  int failed = argon2id_hash_raw(kdf->passes, kdf->memory_kib, kdf->lanes, passphrase.data, passphrase.size, kdf->salt, sizeof kdf->salt,
                                 out_root, PD_KEY_BYTES);
  if (failed == ARGON2_MEMORY_ALLOCATION_ERROR)
    return pd_error_set(err, PD_NO_MEMORY, "out of memory: Argon2id needs %u KiB", kdf->memory_kib);
  return failed ? pd_error_set(err, PD_INVALID, "Argon2id: %s", argon2_error_message(failed)) : PD_OK;
}

/* The key that wraps, and the commitment to it. */
static pd_code split_root(const pd_kdf *kdf, pd_bytes passphrase, uint8_t *out_key, uint8_t *out_commitment, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret root = {0};
  TRY(pd_secret_new(&root, PD_KEY_BYTES, err));
  TRY(derive(kdf, passphrase, root.data, err));
  TRY(pd_hkdf(root.data, (pd_bytes){0}, LABEL_COMMIT, out_commitment, err));
  return pd_hkdf(root.data, (pd_bytes){0}, LABEL_WRAP, out_key, err);
}

pd_code pd_kdf_make(pd_kdf *kdf, pd_bytes passphrase, uint8_t out_key[PD_KEY_BYTES], pd_error *err)
{
  TRY(pd_random_bytes(kdf->salt, sizeof kdf->salt, err));
  return split_root(kdf, passphrase, out_key, kdf->commitment, err);
}

pd_code pd_kdf_open(const pd_kdf *kdf, pd_bytes passphrase, uint8_t out_key[PD_KEY_BYTES], pd_error *err)
{
  uint8_t commitment[PD_KEY_BYTES];
  TRY(split_root(kdf, passphrase, out_key, commitment, err));
  if (pd_same_secret(commitment, kdf->commitment, sizeof commitment)) return PD_OK;
  explicit_bzero(out_key, PD_KEY_BYTES);
  return pd_error_set(err, PD_DECRYPT, "the passphrase is wrong");
}

/* ---- from that key to the master key ---- */

/* What the box is bound to: everything beside it. */
static pd_bytes bind(const pd_kdf *kdf, const pd_wrapped *wrapped, uint8_t out[128])
{
  uint8_t *to = out;
  pd_raw_put(&to, LABEL_KEY, sizeof LABEL_KEY);
  put_kdf(&to, kdf);
  pd_raw_put(&to, wrapped->id, sizeof wrapped->id);
  pd_le64_put(&to, (uint64_t)wrapped->made_ms);
  return (pd_bytes){out, (size_t)(to - out)};
}

pd_code pd_wrap(const pd_kdf *kdf, const uint8_t key[PD_KEY_BYTES], const uint8_t master[PD_KEY_BYTES], pd_wrapped *out, pd_error *err)
{
  uint8_t aad[128];
  CLEANUP(pd_gcm_done) pd_gcm gcm = {0};
  TRY(pd_random_bytes(out->nonce, sizeof out->nonce, err));
  TRY(pd_gcm_new(&gcm, key, err));
  return pd_gcm_seal(&gcm, out->nonce, bind(kdf, out, aad), (pd_bytes){master, PD_KEY_BYTES}, out->box, out->box + PD_KEY_BYTES, err);
}

pd_code pd_unwrap(const pd_kdf *kdf, const uint8_t key[PD_KEY_BYTES], const pd_wrapped *wrapped, uint8_t out_master[PD_KEY_BYTES],
                  pd_error *err)
{
  uint8_t aad[128];
  CLEANUP(pd_gcm_done) pd_gcm gcm = {0};
  TRY(pd_gcm_new(&gcm, key, err));
  pd_code code = pd_gcm_open(&gcm, wrapped->nonce, bind(kdf, wrapped, aad), (pd_bytes){wrapped->box, PD_KEY_BYTES},
                             wrapped->box + PD_KEY_BYTES, out_master, err);
  if (code != PD_DECRYPT) return code;
  return pd_error_set(err, PD_CORRUPT, "the passphrase is right, but the master key is damaged");
}
