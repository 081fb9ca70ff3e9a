/*
 * sign_key.c: the Ed25519 key of a home, in the file perdure.key of its folder.
 *
 *   K1  The file appears whole, with mode 0600 from its birth, and never replaces another: made under another name, synced, linked.
 *   K2  The private key is held by OpenSSL alone and is wiped with it; it is never copied into a buffer of ours.
 */
#include "engine/sign.h"

#include "base/array.h"
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/crypto.h"
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <perdure/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_FILE "perdure.key"
#define KEY_TEXT_SIZE_MAX 4096

struct pd_sign_key {
  EVP_PKEY *pair;
  pd_public_key public_key;
};

static void free_pair(EVP_PKEY **pair)
{
  EVP_PKEY_free(*pair);
}

static pd_code failed(pd_error *err, const char *what)
{
  char why[160];
  ERR_error_string_n(ERR_get_error(), why, sizeof why);
  ERR_clear_error();
  return pd_error_set(err, PD_INVALID, "%s: %s", what, why);
}

static pd_code refused(pd_error *err, const char *what, const char *path)
{
  pd_code code = errno == ENOSPC || errno == EDQUOT ? PD_FULL : errno == EROFS ? PD_READ_ONLY : PD_STORAGE;
  return pd_error_set(err, code, "cannot %s %.300s: %s", what, path, strerror(errno));
}

/* ---- where ---- */

static pd_code find_folder(const char *uri, char **out, pd_error *err)
{
  const pd_backend_ops *ops;
  const char *rest;
  TRY(pd_backend_find(uri, &ops, &rest, err));
  if (!ops->folder)
    return pd_error_set(err, PD_UNSUPPORTED, "a home of '%s:' has no folder, so there is no place for its key", ops->scheme);
  return ops->folder(rest, out, err);
}

static pd_code key_path(const char *folder, char **out, pd_error *err)
{
  if (asprintf(out, "%s/" KEY_FILE, folder) >= 0) return PD_OK;
  *out = NULL;
  return pd_error_memory(err, "a path");
}

/* ---- making ---- */

static pd_code write_pair(EVP_PKEY *pair, int fd, const char *path, pd_error *err)
{
  FILE *file = fdopen(fd, "w");
  if (!file) {
    close(fd);
    return pd_error_memory(err, "a key file");
  }
  pd_code code = PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL) == 1 ? PD_OK : failed(err, "the key cannot be written");
  if (!code && (fflush(file) || fsync(fileno(file)))) code = refused(err, "write", path);
  if (fclose(file) && !code) code = refused(err, "write", path);
  return code;
}

static void sync_folder(const char *path)
{
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd); /* else the link may be lost though the key survived */
  close(fd);
}

/* K1 */
static pd_code store_pair(EVP_PKEY *pair, const char *folder, const char *path, pd_error *err)
{
  CLEANUP(pd_free_at) char *draft = NULL;
  if (asprintf(&draft, "%s.XXXXXX", path) < 0) {
    draft = NULL;
    return pd_error_memory(err, "a path");
  }
  int fd = mkostemp(draft, O_CLOEXEC); /* mode 0600 */
  if (fd < 0) return refused(err, "make a file in", folder);
  pd_code code = write_pair(pair, fd, path, err);
  if (!code && link(draft, path) < 0) {
    if (errno == EEXIST)
      code = pd_error_set(err, PD_EXISTS, "there is a key already: %.300s", path);
    else
      code = refused(err, "make", path);
  }
  unlink(draft);
  if (!code) sync_folder(folder);
  return code;
}

pd_code pd_sign_key_make(const char *uri, pd_error *err)
{
  CLEANUP(pd_free_at) char *folder = NULL;
  CLEANUP(pd_free_at) char *path = NULL;
  struct stat st;
  TRY(find_folder(uri, &folder, err));
  if (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode)) return pd_error_set(err, PD_NOT_FOUND, "there is no home in %.300s", folder);
  TRY(key_path(folder, &path, err));
  if (lstat(path, &st) == 0) return pd_error_set(err, PD_EXISTS, "there is a key already: %.300s", path);
  TRY(pd_crypto_ready(err));
  CLEANUP(free_pair) EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  if (!pair) return failed(err, "no key can be made");
  return store_pair(pair, folder, path, err);
}

/* ---- reading ---- */

/* An encrypted file would have OpenSSL ask for a password on the terminal. */
static int no_password(char *out, int size, int is_writing, void *ctx)
{
  (void)out, (void)size, (void)is_writing, (void)ctx;
  return -1;
}

static pd_code take_public(EVP_PKEY *pair, pd_public_key *out, const char *what, pd_error *err)
{
  size_t size = sizeof out->bytes;
  if (EVP_PKEY_get_id(pair) != EVP_PKEY_ED25519) return pd_error_set(err, PD_INVALID, "%.300s is no Ed25519 key", what);
  return EVP_PKEY_get_raw_public_key(pair, out->bytes, &size) == 1 ? PD_OK : failed(err, "the key has no public part");
}

static pd_code check_mode(FILE *file, const char *path, pd_error *err)
{
  struct stat st;
  if (fstat(fileno(file), &st) < 0) return refused(err, "look at", path);
  if (!S_ISREG(st.st_mode)) return pd_error_set(err, PD_INVALID, "%.300s is no file", path);
  if (st.st_mode & 077)
    return pd_error_set(err, PD_INVALID, "others may use the key %.300s (mode %03o): make it private with chmod 600", path,
                        (unsigned)st.st_mode & 0777);
  return PD_OK;
}

static pd_code read_pair(const char *path, pd_sign_key *key, pd_error *err)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return pd_error_set(err, PD_NOT_FOUND, "there is no key %.300s", path);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
  if (!file) {
    if (fd >= 0) close(fd);
    return refused(err, "open", path);
  }
  pd_code code = check_mode(file, path, err);
  if (!code) key->pair = PEM_read_PrivateKey(file, NULL, no_password, NULL);
  fclose(file);
  if (code) return code;
  if (!key->pair) {
    ERR_clear_error();
    return pd_error_set(err, PD_INVALID, "%.300s holds no private key in PEM", path);
  }
  return take_public(key->pair, &key->public_key, path, err);
}

pd_code pd_sign_key_open(const char *uri, pd_sign_key **out, pd_error *err)
{
  CLEANUP(pd_free_at) char *folder = NULL;
  CLEANUP(pd_free_at) char *path = NULL;
  TRY(pd_crypto_ready(err));
  TRY(find_folder(uri, &folder, err));
  TRY(key_path(folder, &path, err));
  pd_sign_key *key = calloc(1, sizeof *key);
  if (!key) return pd_error_memory(err, "a key");
  pd_code code = read_pair(path, key, err);
  if (code) {
    pd_sign_key_free(key);
    return code;
  }
  *out = key;
  return PD_OK;
}

void pd_sign_key_free(pd_sign_key *key)
{
  if (!key) return;
  EVP_PKEY_free(key->pair);
  free(key);
}

/* ---- public keys ---- */

pd_public_key pd_sign_key_public(const pd_sign_key *key)
{
  return key->public_key;
}

char *pd_public_key_text(const pd_public_key *key, char out[PD_PUBLIC_KEY_TEXT_SIZE])
{
  EVP_EncodeBlock((unsigned char *)out, key->bytes, sizeof key->bytes);
  return out;
}

static void free_bio(BIO **bio)
{
  BIO_free(*bio);
}

pd_code pd_public_key_pem(const pd_public_key *key, pd_buf *out, pd_error *err)
{
  TRY(pd_crypto_ready(err));
  CLEANUP(free_bio) BIO *bio = BIO_new(BIO_s_mem());
  CLEANUP(free_pair) EVP_PKEY *pair = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->bytes, sizeof key->bytes);
  char *text;
  if (!bio || !pair || PEM_write_bio_PUBKEY(bio, pair) != 1) return failed(err, "the public key cannot be written");
  long size = BIO_get_mem_data(bio, &text);
  pd_buf_clear(out);
  return pd_buf_append(out, text, (size_t)size, err);
}

static pd_code parse_pem(pd_bytes text, pd_public_key *out, pd_error *err)
{
  static const char private_mark[] = "PRIVATE KEY-----";
  if (memmem(text.data, text.size, private_mark, sizeof private_mark - 1))
    return pd_error_set(err, PD_INVALID, "that is a private key, which nobody should see: give the public one");
  TRY(pd_crypto_ready(err));
  CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(text.data, (int)text.size);
  CLEANUP(free_pair) EVP_PKEY *pair = bio ? PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL) : NULL;
  ERR_clear_error();
  return pair ? take_public(pair, out, "that", err) : pd_error_set(err, PD_INVALID, "that is no public key in PEM");
}

pd_code pd_public_key_parse(pd_bytes text, pd_public_key *out, pd_error *err)
{
  const char *p = text.data;
  while (text.size && isspace((unsigned char)p[text.size - 1])) text.size--;
  while (text.size && isspace((unsigned char)*p)) p++, text.size--;
  text.data = p;
  if (text.size > KEY_TEXT_SIZE_MAX) return pd_error_set(err, PD_INVALID, "a public key of %zu bytes is none", text.size);
  if (text.size > 5 && memcmp(p, "-----", 5) == 0) return parse_pem(text, out, err);
  CLEANUP(pd_buf_done) pd_buf raw = {0};
  if (pd_base64_decode(text, &raw, NULL) || raw.size != PD_PUBLIC_KEY_SIZE)
    return pd_error_set(err, PD_INVALID, "that is no public key: 44 characters of base64, or PEM");
  memcpy(out->bytes, raw.data, PD_PUBLIC_KEY_SIZE);
  return PD_OK;
}

/* ---- signatures ---- */

static void free_digest(EVP_MD_CTX **ctx)
{
  EVP_MD_CTX_free(*ctx);
}

pd_code pd_sign_bytes(const pd_sign_key *key, pd_bytes message, uint8_t out[PD_SIGNATURE_SIZE], pd_error *err)
{
  CLEANUP(free_digest) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  size_t size = PD_SIGNATURE_SIZE;
  if (!ctx) return pd_error_memory(err, "a signature");
  if (EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pair) == 1 && EVP_DigestSign(ctx, out, &size, message.data, message.size) == 1)
    return PD_OK;
  return failed(err, "it cannot be signed");
}

pd_code pd_signature_check(const pd_public_key *key, pd_bytes message, const uint8_t signature[PD_SIGNATURE_SIZE], bool *out_is_right,
                           pd_error *err)
{
  TRY(pd_crypto_ready(err));
  CLEANUP(free_digest) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  CLEANUP(free_pair) EVP_PKEY *pair = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->bytes, sizeof key->bytes);
  if (!ctx || !pair || EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pair) != 1) return pd_error_memory(err, "a signature");
  *out_is_right = EVP_DigestVerify(ctx, signature, PD_SIGNATURE_SIZE, message.data, message.size) == 1;
  ERR_clear_error();
  return PD_OK;
}
