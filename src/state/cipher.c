/* cipher.c: see cipher.h. */
#include "state/cipher.h"

#include "base/base.h"
#include "base/crypto.h"
#include "base/error.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/random.h>

pd_code pd_random_bytes(void *out, size_t size, pd_error *err)
{
  uint8_t *next = out;
  while (size) {
    ssize_t n = getrandom(next, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_error_set(err, PD_STORAGE, "the system gives no random bytes: %s", strerror(errno));
    next += n;
    size -= (size_t)n;
  }
  return PD_OK;
}

bool pd_same_secret(const uint8_t *a, const uint8_t *b, size_t size)
{
  return CRYPTO_memcmp(a, b, size) == 0;
}

static pd_code failed(pd_error *err, const char *what)
{
  return pd_error_set(err, PD_NO_MEMORY, "%s failed in libcrypto", what);
}

pd_code pd_hkdf(const uint8_t key[PD_KEY_BYTES], pd_bytes salt, const char *label, uint8_t out[PD_KEY_BYTES], pd_error *err)
{
  TRY(pd_crypto_ready(err));
  EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
  EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
  OSSL_PARAM params[] = {
    OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
    OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, PD_KEY_BYTES),
    OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(salt.size ? salt.data : ""), salt.size),
    OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)label, strlen(label)),
    OSSL_PARAM_construct_end(),
  };
  bool is_done = ctx && EVP_KDF_derive(ctx, out, PD_KEY_BYTES, params) == 1;
  EVP_KDF_CTX_free(ctx);
  EVP_KDF_free(kdf);
  return is_done ? PD_OK : failed(err, "HKDF");
}

/* ---- AES-256-GCM ---- */

pd_code pd_gcm_new(pd_gcm *out, const uint8_t key[PD_KEY_BYTES], pd_error *err)
{
  TRY(pd_crypto_ready(err));
  EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
  if (!ctx || EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, NULL) != 1) {
    EVP_CIPHER_CTX_free(ctx);
    return failed(err, "AES-256-GCM");
  }
  out->ctx = ctx;
  return PD_OK;
}

void pd_gcm_done(pd_gcm *gcm)
{
  EVP_CIPHER_CTX_free(gcm->ctx); /* wipes */
  gcm->ctx = NULL;
}

static bool run(EVP_CIPHER_CTX *ctx, bool is_seal, const uint8_t *nonce, pd_bytes aad, pd_bytes in, uint8_t *out)
{
  int size;
  if (EVP_CipherInit_ex(ctx, NULL, NULL, NULL, nonce, is_seal) != 1) return false;
  if (aad.size && EVP_CipherUpdate(ctx, NULL, &size, aad.data, (int)aad.size) != 1) return false;
  return !in.size || EVP_CipherUpdate(ctx, out, &size, in.data, (int)in.size) == 1;
}

pd_code pd_gcm_seal(pd_gcm *gcm, const uint8_t nonce[PD_NONCE_BYTES], pd_bytes aad, pd_bytes text, uint8_t *out, uint8_t tag[PD_TAG_BYTES],
                    pd_error *err)
{
  int size;
  uint8_t none[PD_TAG_BYTES];
  if (!run(gcm->ctx, true, nonce, aad, text, out) || EVP_CipherFinal_ex(gcm->ctx, none, &size) != 1 ||
      EVP_CIPHER_CTX_ctrl(gcm->ctx, EVP_CTRL_GCM_GET_TAG, PD_TAG_BYTES, tag) != 1)
    return failed(err, "AES-256-GCM");
  return PD_OK;
}

pd_code pd_gcm_open(pd_gcm *gcm, const uint8_t nonce[PD_NONCE_BYTES], pd_bytes aad, pd_bytes box, const uint8_t tag[PD_TAG_BYTES],
                    uint8_t *out, pd_error *err)
{
  int size;
  uint8_t none[PD_TAG_BYTES];
  bool is_right = run(gcm->ctx, false, nonce, aad, box, out) &&
                  EVP_CIPHER_CTX_ctrl(gcm->ctx, EVP_CTRL_GCM_SET_TAG, PD_TAG_BYTES, (void *)tag) == 1 &&
                  EVP_CipherFinal_ex(gcm->ctx, none, &size) == 1;
  if (is_right) return PD_OK;
  explicit_bzero(out, box.size);
  return pd_error_set(err, PD_DECRYPT, "the bytes do not match their tag");
}
