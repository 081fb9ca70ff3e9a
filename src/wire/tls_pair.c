/* tls_pair.c: a certificate chain and its key, from PEM files. See tls.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "wire/tls.h"

#include <string.h>

#define FILE_SIZE_MAX ((size_t)1024 * 1024)
#define CHAIN_MAX 16
#define KEY_ID_SIZE 64

static void wipe(pd_buf *buf)
{
  if (buf->data) explicit_bzero(buf->data, buf->size);
  pd_buf_done(buf);
}

/* PD_NOT_FOUND is for keys of a store: here it is the word that was given that is wrong. */
static pd_code read_file(const char *path, const char *what, pd_buf *out, pd_error *err)
{
  pd_code code = pd_file_read(path, FILE_SIZE_MAX, out, err);
  return code == PD_NOT_FOUND ? pd_error_set(err, PD_INVALID, "the %s: there is no file %.300s", what, path) : code;
}

static gnutls_datum_t datum_of(const pd_buf *buf)
{
  return (gnutls_datum_t){.data = buf->data, .size = (unsigned)buf->size};
}

static pd_code load_certs(pd_tls_pair *pair, const char *path, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(read_file(path, "certificate", &text, err));
  gnutls_datum_t data = datum_of(&text);
  int failed =
    gnutls_x509_crt_list_import2(&pair->certs, &pair->cert_count, &data, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
  if (failed == GNUTLS_E_MEMORY_ERROR) return pd_error_memory(err, "the certificate");
  if (failed == GNUTLS_E_CERTIFICATE_LIST_UNSORTED)
    return pd_error_set(err, PD_INVALID, "the certificates in %.300s are not in order: the server's first, then each one's issuer", path);
  if (failed < 0) return pd_error_set(err, PD_INVALID, "%.300s holds no certificate (PEM): %s", path, gnutls_strerror(failed));
  if (pair->cert_count > CHAIN_MAX) return pd_error_set(err, PD_LIMIT, "%.300s holds more than %d certificates", path, CHAIN_MAX);
  return PD_OK;
}

static pd_code load_key(pd_tls_pair *pair, const char *path, pd_error *err)
{
  CLEANUP(wipe) pd_buf text = {0};
  TRY(read_file(path, "key", &text, err));
  gnutls_datum_t data = datum_of(&text);
  if (gnutls_x509_privkey_init(&pair->key) < 0) return pd_error_memory(err, "the key");
  int failed = gnutls_x509_privkey_import2(pair->key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
  if (failed == GNUTLS_E_DECRYPTION_FAILED)
    return pd_error_set(err, PD_INVALID, "the key in %.300s has a passphrase, which a server cannot be asked for", path);
  if (failed < 0) return pd_error_set(err, PD_INVALID, "%.300s holds no private key (PEM): %s", path, gnutls_strerror(failed));
  return PD_OK;
}

static bool is_own_key(const pd_tls_pair *pair)
{
  unsigned char of_cert[KEY_ID_SIZE], of_key[KEY_ID_SIZE];
  size_t cert_size = sizeof of_cert, key_size = sizeof of_key;
  if (gnutls_x509_crt_get_key_id(pair->certs[0], GNUTLS_KEYID_USE_SHA256, of_cert, &cert_size) < 0) return false;
  if (gnutls_x509_privkey_get_key_id(pair->key, GNUTLS_KEYID_USE_SHA256, of_key, &key_size) < 0) return false;
  return cert_size == key_size && memcmp(of_cert, of_key, key_size) == 0;
}

pd_code pd_tls_pair_load(pd_tls_pair *out, const char *cert_file, const char *key_file, pd_error *err)
{
  CLEANUP(pd_tls_pair_done) pd_tls_pair pair = {0};
  TRY(load_certs(&pair, cert_file, err));
  TRY(load_key(&pair, key_file, err));
  if (!is_own_key(&pair))
    return pd_error_set(err, PD_INVALID, "the key in %.300s is not the one of the certificate in %.300s", key_file, cert_file);
  *out = pair;
  pair = (pd_tls_pair){0};
  return PD_OK;
}

void pd_tls_pair_done(pd_tls_pair *pair)
{
  for (unsigned i = 0; i < pair->cert_count; i++) gnutls_x509_crt_deinit(pair->certs[i]);
  gnutls_free(pair->certs);
  if (pair->key) gnutls_x509_privkey_deinit(pair->key);
  *pair = (pd_tls_pair){0};
}

int pd_tls_pair_copy(const pd_tls_pair *pair, gnutls_pcert_st **out_certs, unsigned *out_count, gnutls_privkey_t *out_key)
{
  unsigned count = pair->cert_count;
  gnutls_privkey_t key = NULL;
  gnutls_pcert_st *certs = gnutls_calloc(count, sizeof *certs);
  int failed = certs ? gnutls_privkey_init(&key) : GNUTLS_E_MEMORY_ERROR;
  if (failed >= 0) failed = gnutls_privkey_import_x509(key, pair->key, GNUTLS_PRIVKEY_IMPORT_COPY);
  if (failed >= 0) failed = gnutls_pcert_import_x509_list(certs, pair->certs, &count, 0);
  if (failed < 0) {
    if (key) gnutls_privkey_deinit(key);
    gnutls_free(certs);
    return failed;
  }
  *out_certs = certs;
  *out_count = count;
  *out_key = key;
  return 0;
}
