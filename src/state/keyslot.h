/*
 * keyslot.h: a master key under a passphrase: how the passphrase becomes a key (pd_kdf), and the master key encrypted with that
 * (pd_wrapped). vault.json holds them as JSON, the header of a backup as bytes; docs/formats.md has both.
 */
#ifndef PD_STATE_KEYSLOT_H
#define PD_STATE_KEYSLOT_H

#include "state/cipher.h"

#define PD_SALT_BYTES 32
#define PD_KEY_ID_BYTES 16
#define PD_BOX_BYTES (PD_KEY_BYTES + PD_TAG_BYTES)
#define PD_KEYSLOT_BYTES (12 + PD_SALT_BYTES + PD_KEY_BYTES + PD_KEY_ID_BYTES + 8 + PD_NONCE_BYTES + PD_BOX_BYTES)

#define PD_KDF_MEMORY_KIB 32768
#define PD_KDF_PASSES 4
#define PD_KDF_LANES 1
#define PD_KDF_MEMORY_KIB_MAX 1048576
#define PD_KDF_PASSES_MAX 64
#define PD_KDF_LANES_MAX 16

typedef struct pd_kdf {
  uint32_t memory_kib, passes, lanes;
  uint8_t salt[PD_SALT_BYTES];
  uint8_t commitment[PD_KEY_BYTES]; /* to the key that the right passphrase makes (K3) */
} pd_kdf;

typedef struct pd_wrapped {
  uint8_t id[PD_KEY_ID_BYTES]; /* random; names the master key */
  int64_t made_ms;
  uint8_t nonce[PD_NONCE_BYTES];
  uint8_t box[PD_BOX_BYTES]; /* the master key, its tag */
} pd_wrapped;

/* PD_INVALID for parameters out of bounds: what a file asks for must not eat the machine. */
PD_MUST_USE pd_code pd_kdf_check(const pd_kdf *kdf, pd_error *err);
/* A new salt, and the commitment to the key of `passphrase`, which goes to `out_key` (secret memory). Parameters are set by the caller. */
PD_MUST_USE pd_code pd_kdf_make(pd_kdf *kdf, pd_bytes passphrase, uint8_t out_key[PD_KEY_BYTES], pd_error *err);
/* The key of `passphrase`; PD_DECRYPT if it is not the one that is committed to. */
PD_MUST_USE pd_code pd_kdf_open(const pd_kdf *kdf, pd_bytes passphrase, uint8_t out_key[PD_KEY_BYTES], pd_error *err);

/* Encrypt `master` under a key that came from pd_kdf_make or _open. id and made_ms are set by the caller. */
PD_MUST_USE pd_code pd_wrap(const pd_kdf *kdf, const uint8_t key[PD_KEY_BYTES], const uint8_t master[PD_KEY_BYTES], pd_wrapped *out,
                            pd_error *err);
/* PD_CORRUPT if it does not open though the key is right. */
PD_MUST_USE pd_code pd_unwrap(const pd_kdf *kdf, const uint8_t key[PD_KEY_BYTES], const pd_wrapped *wrapped,
                              uint8_t out_master[PD_KEY_BYTES], pd_error *err);

/* As bytes; numbers are little-endian. */
void pd_keyslot_encode(const pd_kdf *kdf, const pd_wrapped *wrapped, uint8_t out[PD_KEYSLOT_BYTES]);
void pd_keyslot_decode(const uint8_t bytes[PD_KEYSLOT_BYTES], pd_kdf *out_kdf, pd_wrapped *out_wrapped);

/* Little-endian numbers, moving on. */
void pd_le32_put(uint8_t **to, uint32_t n);
void pd_le64_put(uint8_t **to, uint64_t n);
void pd_raw_put(uint8_t **to, const void *data, size_t size);
uint32_t pd_le32_take(const uint8_t **from);
uint64_t pd_le64_take(const uint8_t **from);
void pd_raw_take(const uint8_t **from, void *out, size_t size);

#endif
