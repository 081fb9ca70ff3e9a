/* redis_uri.h: where a Redis server is and how to speak with it, from a URI. */
#ifndef PD_STORAGE_REDIS_URI_H
#define PD_STORAGE_REDIS_URI_H

#include <perdure/perdure.h>

#define PD_REDIS_TEXT_MAX 512

typedef enum pd_redis_way { PD_REDIS_TCP, PD_REDIS_TLS, PD_REDIS_UNIX } pd_redis_way;

typedef struct pd_redis_address {
  pd_redis_way way;
  char host[PD_REDIS_TEXT_MAX]; /* or the path of a socket */
  uint16_t port;
  char user[PD_REDIS_TEXT_MAX], password[PD_REDIS_TEXT_MAX]; /* "" if none */
  uint32_t database;
  char prefix[PD_REDIS_TEXT_MAX]; /* of the keys */
  uint32_t connect_ms, command_ms, retry_ms;
  char ca[PD_REDIS_TEXT_MAX], cert[PD_REDIS_TEXT_MAX], key[PD_REDIS_TEXT_MAX]; /* files; "" if none */
  bool is_unverified;                                                          /* tls_verify=no */
  char shown[PD_REDIS_TEXT_MAX + 32];                                          /* for messages: no password */
} pd_redis_address;

/* `rest` is the URI without its scheme: //[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?NAME=VALUE&…], or with a path instead of host and
 * port. Everything may have %XX. PD_INVALID says what is wrong, without telling the password. */
PD_MUST_USE pd_code pd_redis_uri_parse(pd_redis_way way, const char *rest, pd_redis_address *out, pd_error *err);

#endif
