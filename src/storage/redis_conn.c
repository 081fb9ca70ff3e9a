/* redis_conn.c: see redis_conn.h. */
#include "storage/redis_conn.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 8
#define PAUSE_FIRST_MS 20
#define PAUSE_MAX_MS 1000
#define CHUNK (64 * 1024)
#define ID_TEXT 24

struct pd_redis {
  pd_redis_address address;
  redisContext *line; /* NULL: not connected */
  SSL_CTX *tls_settings;
  SSL *tls;
  char id[ID_TEXT], stale_id[ID_TEXT]; /* CLIENT ID of this connection, and of one that was left with a command on it; "" if not known */
  int64_t deadline_ms;                 /* of the command that is under way */
};

const pd_redis_address *pd_redis_where(const pd_redis *redis)
{
  return &redis->address;
}

void pd_redis_reply_done(redisReply **reply)
{
  if (*reply) freeReplyObject(*reply);
  *reply = NULL;
}

/* ---- TLS ----------------------------------------------------------------------------------------------------------- */

static pd_code tls_refused(const pd_redis *r, const char *what, pd_error *err)
{
  char why[256] = "the connection was cut";
  unsigned long code = ERR_get_error();
  if (code) ERR_error_string_n(code, why, sizeof why);
  ERR_clear_error();
  return pd_error_set(err, PD_STORAGE, "Redis at %.200s: %s: %s", r->address.shown, what, why);
}

static pd_code load_tls(pd_redis *r, pd_error *err)
{
  const pd_redis_address *a = &r->address;
  TRY(pd_crypto_ready(err));
  r->tls_settings = SSL_CTX_new(TLS_client_method());
  if (!r->tls_settings) return pd_error_memory(err, "the settings of TLS");
  SSL_CTX_set_min_proto_version(r->tls_settings, TLS1_2_VERSION);
  SSL_CTX_set_verify(r->tls_settings, a->is_unverified ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
  bool is_trusting =
    *a->ca ? SSL_CTX_load_verify_locations(r->tls_settings, a->ca, NULL) : SSL_CTX_set_default_verify_paths(r->tls_settings);
  if (!is_trusting) return tls_refused(r, "cannot read the certificates of tls_ca", err);
  if (!*a->cert) return PD_OK;
  if (SSL_CTX_use_certificate_chain_file(r->tls_settings, a->cert) != 1) return tls_refused(r, "cannot use tls_cert", err);
  if (SSL_CTX_use_PrivateKey_file(r->tls_settings, a->key, SSL_FILETYPE_PEM) != 1) return tls_refused(r, "cannot use tls_key", err);
  return PD_OK;
}

static pd_code shake_hands(pd_redis *r, pd_error *err)
{
  const char *host = r->address.host;
  r->tls = SSL_new(r->tls_settings);
  if (!r->tls || SSL_set_fd(r->tls, r->line->fd) != 1) return pd_error_memory(err, "a TLS connection");
  if (!X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(r->tls), host)) { /* no address, so a name */
    SSL_set1_host(r->tls, host);
    SSL_set_tlsext_host_name(r->tls, host);
  }
  ERR_clear_error();
  return SSL_connect(r->tls) == 1 ? PD_OK : tls_refused(r, "no TLS connection", err);
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

static void hang_up(pd_redis *r)
{
  SSL_free(r->tls);
  r->tls = NULL;
  if (r->line) redisFree(r->line);
  r->line = NULL;
  r->id[0] = '\0';
}

static pd_code lost(const pd_redis *r, const char *what, pd_error *err)
{
  bool is_late = errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT;
  if (is_late) return pd_error_set(err, PD_STORAGE, "Redis at %.200s did not answer in time (%s)", r->address.shown, what);
  return pd_error_set(err, PD_STORAGE, "Redis at %.200s: the connection was lost (%s%s%s)", r->address.shown, what, errno ? ": " : "",
                      errno ? strerror(errno) : "");
}

static bool is_late(const pd_redis *r)
{
  return pd_clock_monotonic_ms() > r->deadline_ms;
}

static pd_code send_all(pd_redis *r, const char *data, size_t size, pd_error *err)
{
  while (size) {
    errno = 0;
    size_t chunk = size < CHUNK ? size : CHUNK;
    ssize_t n = r->tls ? SSL_write(r->tls, data, (int)chunk) : send(r->line->fd, data, chunk, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0 && is_late(r)) n = -1, errno = ETIMEDOUT;
    if (n <= 0) return lost(r, "sending", err);
    data += n;
    size -= (size_t)n;
  }
  return PD_OK;
}

static pd_code receive(pd_redis *r, redisReply **out, pd_error *err)
{
  char chunk[CHUNK];
  for (;;) {
    void *reply = NULL;
    if (redisReaderGetReply(r->line->reader, &reply) != REDIS_OK) {
      return pd_error_set(err, PD_STORAGE, "what answers at %.200s is no Redis: %s", r->address.shown, r->line->reader->errstr);
    }
    if (reply) {
      *out = reply;
      return PD_OK;
    }
    errno = 0;
    ssize_t n = r->tls ? SSL_read(r->tls, chunk, sizeof chunk) : recv(r->line->fd, chunk, sizeof chunk, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0 && is_late(r)) n = -1, errno = ETIMEDOUT;
    if (n <= 0) return lost(r, "receiving", err);
    if (redisReaderFeed(r->line->reader, chunk, (size_t)n) != REDIS_OK) return pd_error_memory(err, "an answer of Redis");
  }
}

/* OpenSSL writes without MSG_NOSIGNAL: keep a SIGPIPE that it raises from the program that we are in. */
typedef struct pipe_guard {
  sigset_t before;
  bool was_pending, is_needed;
} pipe_guard;

static pipe_guard guard_begin(const pd_redis *r)
{
  pipe_guard guard = {.is_needed = r->address.way == PD_REDIS_TLS};
  if (!guard.is_needed) return guard;
  sigset_t pipe, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  guard.was_pending = sigismember(&pending, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &guard.before);
  return guard;
}

static void guard_end(pipe_guard *guard)
{
  if (!guard->is_needed) return;
  sigset_t pipe, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  if (!guard->was_pending && sigismember(&pending, SIGPIPE)) sigtimedwait(&pipe, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* One command and its answer, whatever it says. */
static pd_code exchange(pd_redis *r, const pd_bytes *words, size_t count, redisReply **out, pd_error *err)
{
  const char *argv[WORDS_MAX];
  size_t sizes[WORDS_MAX];
  char *text = NULL;
  for (size_t i = 0; i < count; i++) argv[i] = words[i].data, sizes[i] = words[i].size;
  long long size = redisFormatCommandArgv(&text, (int)count, argv, sizes);
  if (size < 0) return pd_error_memory(err, "a command for Redis");
  r->deadline_ms = pd_clock_monotonic_ms() + r->address.command_ms;
  pd_code code = send_all(r, text, (size_t)size, err);
  redisFreeCommand(text);
  return code ? code : receive(r, out, err);
}

/* ---- what the server says ------------------------------------------------------------------------------------------ */

static bool says(const redisReply *reply, const char *word)
{
  size_t size = strlen(word);
  return (size_t)reply->len >= size && memcmp(reply->str, word, size) == 0;
}

/* Will it be over soon? */
static bool is_passing(const redisReply *reply)
{
  return says(reply, "LOADING") || says(reply, "BUSY") || says(reply, "TRYAGAIN") || says(reply, "MASTERDOWN") ||
         says(reply, "CLUSTERDOWN");
}

static pd_code told(const pd_redis *r, const redisReply *reply, pd_error *err)
{
  static const struct {
    const char *word;
    pd_code code;
  } table[] = {
    {"OOM", PD_FULL},          {"READONLY", PD_READ_ONLY},          {"NOAUTH", PD_DENIED},   {"NOPERM", PD_DENIED},
    {"WRONGPASS", PD_DENIED},  {"ERR invalid password", PD_DENIED}, {"ERR AUTH", PD_DENIED}, {"ERR Client sent AUTH", PD_DENIED},
    {"WRONGTYPE", PD_CORRUPT},
  };
  pd_code code = PD_STORAGE;
  for (size_t i = 0; i < COUNT_OF(table); i++)
    if (says(reply, table[i].word)) code = table[i].code;
  return pd_error_set(err, code, "Redis at %.200s refuses: %.250s", r->address.shown, reply->str);
}

/* ---- connecting ---------------------------------------------------------------------------------------------------- */

static pd_code dial(pd_redis *r, pd_error *err)
{
  const pd_redis_address *a = &r->address;
  struct timeval connect_time = {a->connect_ms / 1000, a->connect_ms % 1000 * 1000};
  struct timeval command_time = {a->command_ms / 1000, a->command_ms % 1000 * 1000};
  r->line =
    a->way == PD_REDIS_UNIX ? redisConnectUnixWithTimeout(a->host, connect_time) : redisConnectWithTimeout(a->host, a->port, connect_time);
  if (!r->line) return pd_error_memory(err, "a connection");
  if (r->line->err) return pd_error_set(err, PD_STORAGE, "no Redis server at %.200s: %s", a->shown, r->line->errstr);
  fcntl(r->line->fd, F_SETFD, FD_CLOEXEC);
  if (redisSetTimeout(r->line, command_time) != REDIS_OK) return lost(r, "setting its time-out", err);
  return a->way == PD_REDIS_TLS ? shake_hands(r, err) : PD_OK;
}

/* A command of the greeting; its refusal is passed on unless it `may_fail`. */
static pd_code greet(pd_redis *r, const pd_bytes *words, size_t count, bool may_fail, redisReply **out, pd_error *err)
{
  TRY(exchange(r, words, count, out, err));
  return (*out)->type == REDIS_REPLY_ERROR && !may_fail ? told(r, *out, err) : PD_OK;
}

/* N3. Servers before 5, and users without the right, have no ids. */
static pd_code learn_id(pd_redis *r, pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *id = NULL, *killed = NULL;
  const pd_bytes ask[] = {pd_text("CLIENT"), pd_text("ID")};
  TRY(greet(r, ask, COUNT_OF(ask), true, &id, err));
  if (id->type == REDIS_REPLY_INTEGER) snprintf(r->id, sizeof r->id, "%lld", id->integer);
  if (!r->stale_id[0]) return PD_OK;
  const pd_bytes kill_old[] = {pd_text("CLIENT"), pd_text("KILL"), pd_text("ID"), pd_text(r->stale_id)};
  TRY(greet(r, kill_old, COUNT_OF(kill_old), true, &killed, err));
  r->stale_id[0] = '\0';
  return PD_OK;
}

static pd_code introduce(pd_redis *r, pd_error *err)
{
  const pd_redis_address *a = &r->address;
  CLEANUP(pd_redis_reply_done) redisReply *auth = NULL, *selected = NULL;
  char database[16];
  snprintf(database, sizeof database, "%u", a->database);
  const pd_bytes log_in[] = {pd_text("AUTH"), pd_text(a->user), pd_text(a->password)};
  const pd_bytes log_in_plain[] = {pd_text("AUTH"), pd_text(a->password)};
  const pd_bytes choose[] = {pd_text("SELECT"), pd_text(database)};
  if (*a->password) TRY(greet(r, *a->user ? log_in : log_in_plain, *a->user ? 3 : 2, false, &auth, err));
  TRY(greet(r, choose, COUNT_OF(choose), false, &selected, err)); /* also for 0: it tells whether a password is wanted */
  return learn_id(r, err);
}

static pd_code connect_once(pd_redis *r, pd_error *err)
{
  if (r->line) return PD_OK;
  pd_code code = dial(r, err);
  if (!code) code = introduce(r, err);
  if (code) hang_up(r);
  return code;
}

/* ---- commands ------------------------------------------------------------------------------------------------------ */

/* One try. *out_is_passing: it may work a little later. */
static pd_code try_command(pd_redis *r, const pd_bytes *words, size_t count, redisReply **out, bool *out_is_passing, pd_error *err)
{
  redisReply *reply = NULL;
  pd_code code = connect_once(r, err);
  *out_is_passing = code == PD_STORAGE;
  if (code) return code;
  code = count ? exchange(r, words, count, &reply, err) : PD_OK;
  if (code) {
    *out_is_passing = code == PD_STORAGE;
    memcpy(r->stale_id, r->id, sizeof r->stale_id);
    hang_up(r);
    return code;
  }
  if (reply && reply->type == REDIS_REPLY_ERROR) {
    *out_is_passing = is_passing(reply);
    code = told(r, reply, err);
    pd_redis_reply_done(&reply);
    return code;
  }
  *out = reply;
  return PD_OK;
}

/* N2 */
pd_code pd_redis_command(pd_redis *r, const pd_bytes *words, size_t count, redisReply **out, pd_error *err)
{
  int64_t give_up_ms = pd_clock_monotonic_ms() + r->address.retry_ms;
  uint32_t pause_ms = PAUSE_FIRST_MS;
  for (;;) {
    bool is_worth_it;
    pipe_guard guard = guard_begin(r);
    pd_code code = try_command(r, words, count, out, &is_worth_it, err);
    guard_end(&guard);
    if (!code || !is_worth_it || pd_clock_monotonic_ms() + pause_ms > give_up_ms) return code;
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    if (pause_ms < PAUSE_MAX_MS) pause_ms *= 2;
  }
}

void pd_redis_close(pd_redis *r)
{
  if (!r) return;
  pipe_guard guard = guard_begin(r);
  hang_up(r);
  guard_end(&guard);
  SSL_CTX_free(r->tls_settings);
  explicit_bzero(&r->address, sizeof r->address);
  free(r);
}

pd_code pd_redis_open(const pd_redis_address *address, pd_redis **out, pd_error *err)
{
  redisReply *none = NULL;
  pd_redis *r = calloc(1, sizeof *r);
  if (!r) return pd_error_memory(err, "a connection");
  r->address = *address;
  pd_code code = address->way == PD_REDIS_TLS ? load_tls(r, err) : PD_OK;
  if (!code) code = pd_redis_command(r, NULL, 0, &none, err); /* no words: only connects */
  if (code) {
    pd_redis_close(r);
    return code;
  }
  *out = r;
  return PD_OK;
}
