/* redis_uri.c: see redis_uri.h. */
#include "storage/redis_uri.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/number.h"
#include "base/uri.h"

#include <stdio.h>

#define PORT 6379
#define PREFIX "perdure:agent-snapshot:"
#define MS_MAX 600000
#define DATABASE_MAX 65535

/* Copy `size` bytes with their %XX decoded. */
static pd_code decode(const char *text, size_t size, const char *what, char out[PD_REDIS_TEXT_MAX], pd_error *err)
{
  CLEANUP(pd_buf_wipe) pd_buf plain = {0}; /* it may be a password */
  pd_code code = pd_buf_reserve(&plain, size + 1, NULL);
  if (!code) code = pd_uri_unescape((pd_bytes){text, size}, &plain, NULL);
  if (code == PD_NO_MEMORY) return pd_error_memory(err, "a Redis URI");
  if (plain.size >= PD_REDIS_TEXT_MAX) return pd_error_set(err, PD_INVALID, "the Redis URI's %s is too long", what);
  if (code || (plain.size && memchr(plain.data, 0, plain.size)))
    return pd_error_set(err, PD_INVALID, "the Redis URI's %s has a '%%' without two hex digits behind it, or a NUL", what);
  if (plain.size) memcpy(out, plain.data, plain.size);
  out[plain.size] = '\0';
  return PD_OK;
}

static pd_code number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *out, pd_error *err)
{
  uint64_t value;
  if (!pd_u64_parse(text, &value) || value < min || value > max) {
    return pd_error_set(err, PD_INVALID, "the Redis URI's %s is '%.40s'; it has to be a number from %u to %u", what, text, min, max);
  }
  *out = (uint32_t)value;
  return PD_OK;
}

/* ---- options ------------------------------------------------------------------------------------------------------- */

static pd_code set_option(pd_redis_address *a, const char *name, const char *value, pd_error *err)
{
  const struct {
    const char *name;
    char *text;
    uint32_t *number;
    uint32_t min, max;
  } known[] = {
    {"prefix", a->prefix, NULL, 0, 0},
    {"db", NULL, &a->database, 0, DATABASE_MAX},
    {"connect_ms", NULL, &a->connect_ms, 1, MS_MAX},
    {"command_ms", NULL, &a->command_ms, 1, MS_MAX},
    {"retry_ms", NULL, &a->retry_ms, 0, MS_MAX},
    {"tls_ca", a->ca, NULL, 0, 0},
    {"tls_cert", a->cert, NULL, 0, 0},
    {"tls_key", a->key, NULL, 0, 0},
  };
  if (strncmp(name, "tls_", 4) == 0 && a->way != PD_REDIS_TLS) {
    return pd_error_set(err, PD_INVALID, "the Redis URI's option '%.40s' is for rediss:// only", name);
  }
  for (size_t i = 0; i < COUNT_OF(known); i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    if (known[i].number) return number(value, name, known[i].min, known[i].max, known[i].number, err);
    snprintf(known[i].text, PD_REDIS_TEXT_MAX, "%s", value);
    return PD_OK;
  }
  if (strcmp(name, "tls_verify") == 0 && (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)) {
    a->is_unverified = strcmp(value, "no") == 0;
    return PD_OK;
  }
  return pd_error_set(err, PD_INVALID,
                      "the Redis URI has an unknown option '%.40s' (known: prefix, db, connect_ms, command_ms, retry_ms, tls_ca, tls_cert,"
                      " tls_key, tls_verify=yes|no)",
                      name);
}

static pd_code parse_options(pd_redis_address *a, const char *at, pd_error *err)
{
  char name[PD_REDIS_TEXT_MAX], value[PD_REDIS_TEXT_MAX];
  while (*at) {
    size_t size = strcspn(at, "&"), equal = strcspn(at, "=&");
    if (equal == size) return pd_error_set(err, PD_INVALID, "the Redis URI's option '%.*s' has no value", (int)(size < 40 ? size : 40), at);
    TRY(decode(at, equal, "option", name, err));
    TRY(decode(at + equal + 1, size - equal - 1, name, value, err));
    TRY(set_option(a, name, value, err));
    at += size + (at[size] == '&');
  }
  return PD_OK;
}

/* ---- the rest ------------------------------------------------------------------------------------------------------ */

/* USER:PASSWORD, :PASSWORD, or PASSWORD alone. */
static pd_code parse_user(pd_redis_address *a, const char *at, size_t size, pd_error *err)
{
  const char *colon = memchr(at, ':', size);
  if (!colon) return decode(at, size, "password", a->password, err);
  TRY(decode(at, (size_t)(colon - at), "user", a->user, err));
  return decode(colon + 1, size - (size_t)(colon + 1 - at), "password", a->password, err);
}

static pd_code parse_host(pd_redis_address *a, const char *at, size_t size, pd_error *err)
{
  const char *port = NULL;
  char digits[PD_REDIS_TEXT_MAX];
  uint32_t value = PORT;
  size_t host = size;
  if (size && *at == '[') {
    const char *close = memchr(at, ']', size);
    if (!close) return pd_error_set(err, PD_INVALID, "the Redis URI's host has a '[' without a ']'");
    host = (size_t)(close - at) + 1;
    if (host < size && at[host] != ':') return pd_error_set(err, PD_INVALID, "the Redis URI has something between host and port");
    if (host < size) port = at + host + 1;
    TRY(decode(at + 1, host - 2, "host", a->host, err));
  } else {
    port = memchr(at, ':', size);
    if (port) host = (size_t)(port++ - at);
    TRY(decode(at, host, "host", a->host, err));
  }
  if (!*a->host) snprintf(a->host, sizeof a->host, "127.0.0.1");
  if (port) {
    TRY(decode(port, size - (size_t)(port - at), "port", digits, err));
    TRY(number(digits, "port", 1, 65535, &value, err));
  }
  a->port = (uint16_t)value;
  return PD_OK;
}

static pd_code parse_place(pd_redis_address *a, const char *at, size_t size, pd_error *err)
{
  char text[PD_REDIS_TEXT_MAX];
  if (a->way == PD_REDIS_UNIX) {
    TRY(decode(at, size, "path", a->host, err));
    return a->host[0] == '/' ? PD_OK : pd_error_set(err, PD_INVALID, "the Redis URI names no socket: write redis+unix:///path/to/socket");
  }
  const char *slash = memchr(at, '/', size);
  if (!slash) return parse_host(a, at, size, err);
  TRY(parse_host(a, at, (size_t)(slash - at), err));
  TRY(decode(slash + 1, size - (size_t)(slash + 1 - at), "database", text, err));
  return *text ? number(text, "database", 0, DATABASE_MAX, &a->database, err) : PD_OK;
}

pd_code pd_redis_uri_parse(pd_redis_way way, const char *rest, pd_redis_address *out, pd_error *err)
{
  pd_redis_address a = {.way = way, .prefix = PREFIX, .connect_ms = 2000, .command_ms = 5000, .retry_ms = 10000};
  if (strncmp(rest, "//", 2) != 0) return pd_error_set(err, PD_INVALID, "a Redis URI is redis://HOST[:PORT][/DATABASE]");
  rest += 2;
  size_t size = strcspn(rest, "?");
  /* The last '@', so that a password that was not encoded hurts less. */
  const char *at = memrchr(rest, '@', size);
  if (at) TRY(parse_user(&a, rest, (size_t)(at - rest), err));
  const char *place = at ? at + 1 : rest;
  TRY(parse_place(&a, place, size - (size_t)(place - rest), err));
  if (rest[size]) TRY(parse_options(&a, rest + size + 1, err));
  if (*a.user && !*a.password) return pd_error_set(err, PD_INVALID, "the Redis URI has a user without a password");
  if (!*a.cert != !*a.key) return pd_error_set(err, PD_INVALID, "the Redis URI needs tls_cert and tls_key together");
  if (way == PD_REDIS_UNIX)
    snprintf(a.shown, sizeof a.shown, "%s", a.host);
  else
    snprintf(a.shown, sizeof a.shown, strchr(a.host, ':') ? "[%.500s]:%u" : "%.500s:%u", a.host, (unsigned)a.port);
  *out = a;
  return PD_OK;
}
