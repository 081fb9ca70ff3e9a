/* tls_world.c: see tls_world.h. */
#include "wire/tls_world.h"

#include "support/temp_folder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DAY_S (24 * 3600L)

/* ---- certificates ---- */

static pthread_mutex_t authority_lock = PTHREAD_MUTEX_INITIALIZER;
static EVP_PKEY *authority_key;
static X509 *authority;

static void must(bool is_so)
{
  if (!is_so) abort();
}

static FILE *open_file(const char *folder, const char *name)
{
  char *path = text_of("%s/%s", folder, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  must(fd >= 0);
  free(path);
  return fdopen(fd, "w");
}

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
  X509V3_CTX ctx;
  X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
  must(extension && X509_add_ext(cert, extension, -1));
  X509_EXTENSION_free(extension);
}

static X509 *new_certificate(EVP_PKEY *key, unsigned serial, const char *name, long from_s, long until_s)
{
  X509 *cert = X509_new();
  must(cert && X509_set_version(cert, 2) && ASN1_INTEGER_set(X509_get_serialNumber(cert), serial));
  must(X509_gmtime_adj(X509_getm_notBefore(cert), from_s) && X509_gmtime_adj(X509_getm_notAfter(cert), until_s));
  must(X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0));
  must(X509_set_pubkey(cert, key));
  return cert;
}

static void make_authority(void)
{
  if (authority) return;
  authority_key = EVP_EC_gen("P-256");
  authority = new_certificate(authority_key, 1, "perdure's tests", -400 * DAY_S, 400 * DAY_S);
  must(X509_set_issuer_name(authority, X509_get_subject_name(authority)));
  extend(authority, authority, NID_basic_constraints, "critical,CA:TRUE");
  extend(authority, authority, NID_key_usage, "critical,keyCertSign");
  extend(authority, authority, NID_subject_key_identifier, "hash");
  must(X509_sign(authority, authority_key, EVP_sha256()));
}

static void write_key(const char *folder, const char *name, EVP_PKEY *key, const char *passphrase)
{
  FILE *f = open_file(folder, name);
  must(PEM_write_PKCS8PrivateKey(f, key, passphrase ? EVP_aes_256_cbc() : NULL, NULL, 0, NULL, (void *)(uintptr_t)passphrase));
  fclose(f);
}

static void write_certificate(const char *folder, const char *name, X509 *cert)
{
  FILE *f = open_file(folder, name);
  must(PEM_write_X509(f, cert));
  fclose(f);
}

void certificate_write(const char *folder, const char *cert_file, const char *key_file, const certificate *wanted)
{
  bool has_days = wanted->from_day || wanted->until_day;
  EVP_PKEY *key = wanted->is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
  X509 *cert = new_certificate(key, wanted->serial, "localhost", DAY_S * (has_days ? wanted->from_day : -1),
                               DAY_S * (has_days ? wanted->until_day : 30));
  char *names = text_of("DNS:localhost,IP:127.0.0.1%s%s", wanted->name ? ",DNS:" : "", wanted->name ? wanted->name : "");
  pthread_mutex_lock(&authority_lock);
  make_authority();
  must(X509_set_issuer_name(cert, X509_get_subject_name(authority)));
  extend(cert, authority, NID_subject_alt_name, names);
  extend(cert, authority, NID_authority_key_identifier, "keyid:always");
  must(X509_sign(cert, authority_key, EVP_sha256()));
  char *authority_file = text_of("%s/ca.pem", folder);
  if (access(authority_file, F_OK)) write_certificate(folder, "ca.pem", authority); /* else somebody may read it just now */
  free(authority_file);
  pthread_mutex_unlock(&authority_lock);
  write_certificate(folder, cert_file, cert);
  write_key(folder, key_file, key, wanted->passphrase);
  X509_free(cert);
  EVP_PKEY_free(key);
  free(names);
}

void key_write(const char *folder, const char *name)
{
  EVP_PKEY *key = EVP_EC_gen("P-256");
  write_key(folder, name, key, NULL);
  EVP_PKEY_free(key);
}

/* ---- what goes through ---- */

typedef struct pipe_ends {
  SSL *ssl;
  int plain;
} pipe_ends;

static atomic_uint truncated_count;

unsigned tls_truncated(void)
{
  return atomic_load(&truncated_count);
}

/* What the server sent; false at its end. */
static bool pass_in(const pipe_ends *ends)
{
  char data[16384];
  do {
    int got = SSL_read(ends->ssl, data, sizeof data), why = got > 0 ? 0 : SSL_get_error(ends->ssl, got);
    if (why == SSL_ERROR_WANT_READ) return true;
    if (why && why != SSL_ERROR_ZERO_RETURN) atomic_fetch_add(&truncated_count, 1);
    if (why || !send_bytes(ends->plain, data, (size_t)got)) return false;
  } while (SSL_pending(ends->ssl));
  return true;
}

static bool pass_out(const pipe_ends *ends)
{
  char data[16384];
  ssize_t got = recv(ends->plain, data, sizeof data, 0);
  return got > 0 && SSL_write(ends->ssl, data, (int)got) > 0;
}

static void *pump(void *ctx)
{
  pipe_ends *ends = ctx;
  struct pollfd wait[2] = {{.fd = SSL_get_fd(ends->ssl), .events = POLLIN}, {.fd = ends->plain, .events = POLLIN}};
  bool is_open = true;
  while (is_open && poll(wait, 2, -1) > 0) {
    if (wait[0].revents) is_open = pass_in(ends);
    if (is_open && wait[1].revents) is_open = pass_out(ends);
  }
  SSL_shutdown(ends->ssl);
  close(SSL_get_fd(ends->ssl));
  SSL_free(ends->ssl);
  close(ends->plain);
  free(ends);
  return NULL;
}

static void start_pump(SSL *ssl, int plain)
{
  pipe_ends *ends = malloc(sizeof *ends);
  pthread_attr_t attributes;
  pthread_t thread;
  must(ends);
  *ends = (pipe_ends){ssl, plain};
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  must(pthread_create(&thread, &attributes, pump, ends) == 0);
  pthread_attr_destroy(&attributes);
}

/* ---- shaking hands ---- */

static SSL *new_client(const char *folder, const tls_terms *terms)
{
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  char *path = text_of("%s/ca.pem", folder);
  must(ctx && SSL_CTX_load_verify_locations(ctx, path, NULL));
  free(path);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
  SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY); /* a record without data must not make SSL_read wait for the next */
  SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
  if (terms && terms->version_max) SSL_CTX_set_max_proto_version(ctx, terms->version_max);
  if (!terms || !terms->ciphers)
    SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0"); /* so that it is the server who refuses */
  else
    must(SSL_CTX_set_cipher_list(ctx, terms->ciphers));
  static const unsigned char alpn[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(ctx, alpn, sizeof alpn - 1);
  SSL *ssl = SSL_new(ctx);
  SSL_CTX_free(ctx);
  const char *host = terms && terms->host ? terms->host : "localhost";
  must(ssl && SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host));
  return ssl;
}

static void look(SSL *ssl, tls_seen *seen)
{
  const unsigned char *alpn;
  unsigned size;
  X509 *cert = SSL_get1_peer_certificate(ssl);
  SSL_get0_alpn_selected(ssl, &alpn, &size);
  *seen = (tls_seen){.serial = (unsigned)ASN1_INTEGER_get(X509_get0_serialNumber(cert)), .version = SSL_version(ssl)};
  snprintf(seen->alpn, sizeof seen->alpn, "%.*s", (int)size, (const char *)alpn);
  X509_free(cert);
}

static SSL *shake_hands(const char *folder, int port, const tls_terms *terms)
{
  served to = {.port = port};
  int fd = served_connect(&to);
  if (fd < 0) return NULL;
  SSL *ssl = new_client(folder, terms);
  SSL_set_fd(ssl, fd);
  if (SSL_connect(ssl) == 1) return ssl;
  SSL_free(ssl);
  close(fd);
  return NULL;
}

int tls_connect(const char *folder, int port, const tls_terms *terms, tls_seen *seen)
{
  int ends[2];
  struct timeval limit = {.tv_sec = SERVED_PATIENCE_S};
  SSL *ssl = shake_hands(folder, port, terms);
  if (!ssl) return -1;
  if (seen) look(ssl, seen);
  must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  start_pump(ssl, ends[1]);
  return ends[0];
}

/* ---- a proxy ---- */

typedef struct proxy {
  char *folder;
  int port, listening;
} proxy;

typedef struct proxied {
  const proxy *proxy;
  int fd;
} proxied;

static void *serve_one(void *ctx)
{
  proxied *one = ctx;
  SSL *ssl = shake_hands(one->proxy->folder, one->proxy->port, NULL);
  if (ssl)
    start_pump(ssl, one->fd);
  else
    close(one->fd);
  free(one);
  return NULL;
}

static void *accept_all(void *ctx)
{
  const proxy *p = ctx;
  for (int fd; (fd = accept4(p->listening, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
    proxied *one = malloc(sizeof *one);
    pthread_t thread;
    must(one);
    *one = (proxied){p, fd};
    must(pthread_create(&thread, NULL, serve_one, one) == 0);
    pthread_detach(thread);
  }
  return NULL;
}

int tls_proxy(const char *folder, int port)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  pthread_t thread;
  proxy *p = malloc(sizeof *p);
  must(p);
  *p = (proxy){strdup(folder), port, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  must(bind(p->listening, (struct sockaddr *)&at, size) == 0 && listen(p->listening, 4096) == 0);
  must(getsockname(p->listening, (struct sockaddr *)&at, &size) == 0);
  must(pthread_create(&thread, NULL, accept_all, p) == 0);
  pthread_detach(thread);
  return ntohs(at.sin_port);
}
