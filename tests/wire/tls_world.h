/* tls_world.h: certificates made on the spot, and connections whose TLS a thread does, so that tests read and write plain bytes. */
#ifndef TESTS_WIRE_TLS_WORLD_H
#define TESTS_WIRE_TLS_WORLD_H

#include "wire/server_world.h"

/* ---- certificates ---- */

typedef struct certificate {
  unsigned serial;
  int from_day, until_day; /* relative to now; both 0: yesterday until in 30 days */
  const char *name;        /* besides localhost and 127.0.0.1; NULL: none */
  bool is_rsa;             /* else P-256 */
  const char *passphrase;  /* of the key's file; NULL: none */
} certificate;

/* Issue it by this program's own authority: FOLDER/CERT and FOLDER/KEY (mode 0600). FOLDER/ca.pem is the authority's. */
void certificate_write(const char *folder, const char *cert, const char *key, const certificate *wanted);
/* A key that belongs to no certificate. */
void key_write(const char *folder, const char *key);

/* ---- connections ---- */

typedef struct tls_terms {
  const char *host;    /* that the certificate must be made out to; NULL: localhost */
  int version_max;     /* TLS1_2_VERSION…; 0: any */
  const char *ciphers; /* of TLS 1.2; NULL: all */
} tls_terms;

typedef struct tls_seen {
  unsigned serial; /* of the server's certificate */
  int version;
  char alpn[16];
} tls_seen;

/* Shake hands with 127.0.0.1:PORT, trusting FOLDER/ca.pem alone. A plain descriptor for what goes through; -1 if it came to nothing.
 * `terms` and `seen` may be NULL. */
int tls_connect(const char *folder, int port, const tls_terms *terms, tls_seen *seen);
/* How many connections the server ended without saying so (no close_notify). */
unsigned tls_truncated(void);
/* A port that speaks plainly and hands on to PORT by TLS, for as long as this program runs. */
int tls_proxy(const char *folder, int port);

#endif
