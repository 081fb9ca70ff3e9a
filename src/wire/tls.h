/*
 * tls.h: the server's certificate and key, and their renewal while it runs.
 *
 * T1  Each handshake gets a copy of the pair that is current at its time, which GnuTLS frees with the session: a renewal touches no open
 *     connection.
 * T2  A pair is current only if its key is its certificate's. What cannot be used changes nothing, and the log says once why.
 */
#ifndef PD_WIRE_TLS_H
#define PD_WIRE_TLS_H

#include "wire/log.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

/* TLS 1.3 and 1.2 with forward secrecy and authenticated ciphers; what older clients have is refused. */
#define PD_TLS_PRIORITIES                                                                                                                  \
  "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:"                   \
  "+CHACHA20-POLY1305:-MAC-ALL:+AEAD:%SERVER_PRECEDENCE"

/* ---- one certificate and its key (tls_pair.c) ---- */

typedef struct pd_tls_pair {
  gnutls_x509_crt_t *certs; /* the server's first, then those who vouch for it */
  unsigned cert_count;
  gnutls_x509_privkey_t key;
} pd_tls_pair;

/* Both files are PEM. PD_STORAGE if they cannot be read; PD_INVALID for what is not there or is none, for a key with a passphrase and for
 * one of another certificate. */
PD_MUST_USE pd_code pd_tls_pair_load(pd_tls_pair *out, const char *cert_file, const char *key_file, pd_error *err);
/* Takes {0}. */
void pd_tls_pair_done(pd_tls_pair *pair);
/* A copy for one session. GnuTLS's code. */
int pd_tls_pair_copy(const pd_tls_pair *pair, gnutls_pcert_st **out_certs, unsigned *out_count, gnutls_privkey_t *out_key);

/* ---- the pair that is current (tls.c) ---- */

typedef struct pd_tls pd_tls;

/* Load both files; paths are borrowed until pd_tls_free. Warnings (expired, a key that others may read) go to the log. */
PD_MUST_USE pd_code pd_tls_new(const char *cert_file, const char *key_file, const pd_log_options *log, pd_tls **out, pd_error *err);
/* Takes NULL. */
void pd_tls_free(pd_tls *tls);
/* Load them again, from other files perhaps (NULL: the same). After a failure the old ones stay, and it was logged. */
pd_code pd_tls_reload(pd_tls *tls, const char *cert_file, const char *key_file);
/* About once a second: load them again if they changed and then kept still from one look to the next. */
void pd_tls_look(pd_tls *tls);
/* Is the certificate made out to this name? */
bool pd_tls_is_named(pd_tls *tls, const char *host);
/* When the certificate ends, in seconds since 1970. */
int64_t pd_tls_expires_s(pd_tls *tls);
/* A new session takes its certificate from here: a gnutls_certificate_retrieve_function3, for sessions that pd_tls_attach saw. */
gnutls_certificate_retrieve_function3 pd_tls_retrieve;
void pd_tls_attach(pd_tls *tls, gnutls_session_t session);

#endif
