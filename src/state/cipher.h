/*
 * cipher.h: the cryptography of the vault and of backups: Argon2id, HKDF-SHA256, AES-256-GCM, and random bytes. Nothing here is our own
 * invention; docs/decisions/021-the-vault.md says why these.
 *
 * K1  A key is used for one purpose: what is encrypted with a key that HKDF made from another names that purpose in its label.
 * K2  No key and nonce meet twice: wrapped keys have random nonces, chunks count, and each backup has a key of its own.
 * K3  GCM binds a text to no key, so every place where a wrong key must be noticed compares a commitment first.
 */
#ifndef PD_STATE_CIPHER_H
#define PD_STATE_CIPHER_H

#include <perdure/perdure.h>

#define PD_KEY_BYTES 32
#define PD_NONCE_BYTES 12
#define PD_TAG_BYTES 16

PD_MUST_USE pd_code pd_random_bytes(void *out, size_t size, pd_error *err);
/* A key, or a commitment to one, from another. `label` says what for; `salt` may be empty. */
PD_MUST_USE pd_code pd_hkdf(const uint8_t key[PD_KEY_BYTES], pd_bytes salt, const char *label, uint8_t out[PD_KEY_BYTES], pd_error *err);
/* In a time that tells nothing about where they differ. */
bool pd_same_secret(const uint8_t *a, const uint8_t *b, size_t size);

/* AES-256-GCM with one key, for many texts. Holds a copy of the key, which pd_gcm_done wipes. */
typedef struct pd_gcm {
  void *ctx;
} pd_gcm;

PD_MUST_USE pd_code pd_gcm_new(pd_gcm *out, const uint8_t key[PD_KEY_BYTES], pd_error *err);
void pd_gcm_done(pd_gcm *gcm); /* takes {0} */
/* `out` gets text.size bytes, `tag` what proves them. `out` may be where the text is. */
PD_MUST_USE pd_code pd_gcm_seal(pd_gcm *gcm, const uint8_t nonce[PD_NONCE_BYTES], pd_bytes aad, pd_bytes text, uint8_t *out,
                                uint8_t tag[PD_TAG_BYTES], pd_error *err);
/* PD_DECRYPT if box, tag, nonce, aad and key do not belong together; `out` is wiped then. */
PD_MUST_USE pd_code pd_gcm_open(pd_gcm *gcm, const uint8_t nonce[PD_NONCE_BYTES], pd_bytes aad, pd_bytes box,
                                const uint8_t tag[PD_TAG_BYTES], uint8_t *out, pd_error *err);

#endif
