/* tls.c: the pair that is current, and the look at its files. Invariants T1 and T2 are in tls.h. */
#include "wire/tls.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SOON_S ((int64_t)7 * 86400) /* a certificate that ends sooner is worth a warning */
#define WARN_EVERY_MS ((int64_t)86400 * 1000)

/* What tells one version of a file from another. Zeros: it is not there. */
typedef struct stamp {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified, changed;
} stamp;

typedef struct stamps {
  stamp cert, key;
} stamps;

struct pd_tls {
  const char *cert_file, *key_file;
  const pd_log_options *log;
  pthread_rwlock_t lock; /* of what is current */
  pd_tls_pair current;
  stamps tried, seen; /* when they were loaded, or could not be; at the last look */
  int64_t warned_ms;
};

static stamp stamp_of(const char *path)
{
  struct stat is;
  if (stat(path, &is)) return (stamp){0};
  return (stamp){is.st_dev, is.st_ino, is.st_size, is.st_mtim, is.st_ctim};
}

static stamps take_stamps(const pd_tls *tls)
{
  return (stamps){stamp_of(tls->cert_file), stamp_of(tls->key_file)};
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
  return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_file(const stamp *a, const stamp *b)
{
  return a->device == b->device && a->inode == b->inode && a->size == b->size && is_same_time(&a->modified, &b->modified) &&
         is_same_time(&a->changed, &b->changed);
}

static bool is_same(const stamps *a, const stamps *b)
{
  return is_same_file(&a->cert, &b->cert) && is_same_file(&a->key, &b->key);
}

/* ---- warnings ---- */

static void warn_of_mode(const pd_tls *tls)
{
  struct stat is;
  if (stat(tls->key_file, &is) == 0 && (is.st_mode & S_IROTH))
    pd_log_say(tls->log, PD_LOG_WARN, "TLS: everybody on this machine may read the key %s (chmod o-r)", tls->key_file);
}

static void warn_of_time(pd_tls *tls)
{
  char text[PD_TIME_TEXT_SIZE];
  int64_t now_s = pd_clock_now_ms(NULL) / 1000, from_s = gnutls_x509_crt_get_activation_time(tls->current.certs[0]),
          until_s = pd_tls_expires_s(tls);
  tls->warned_ms = pd_clock_monotonic_ms();
  if (from_s > now_s)
    pd_log_say(tls->log, PD_LOG_WARN, "TLS: the certificate %s is not valid before %s", tls->cert_file, pd_time_text(from_s * 1000, text));
  else if (until_s <= now_s)
    pd_log_say(tls->log, PD_LOG_WARN, "TLS: the certificate %s has expired, on %s", tls->cert_file, pd_time_text(until_s * 1000, text));
  else if (until_s - now_s < SOON_S)
    pd_log_say(tls->log, PD_LOG_WARN, "TLS: the certificate %s expires soon, on %s", tls->cert_file, pd_time_text(until_s * 1000, text));
}

/* ---- loading ---- */

static pd_code load(pd_tls *tls, pd_error *err)
{
  CLEANUP(pd_tls_pair_done) pd_tls_pair pair = {0};
  tls->seen = tls->tried = take_stamps(tls); /* before: what changes while they are read is seen at the next look */
  TRY(pd_tls_pair_load(&pair, tls->cert_file, tls->key_file, err));
  pthread_rwlock_wrlock(&tls->lock);
  pd_tls_pair before = tls->current;
  tls->current = pair;
  pthread_rwlock_unlock(&tls->lock);
  pair = before;
  warn_of_mode(tls);
  warn_of_time(tls);
  return PD_OK;
}

pd_code pd_tls_new(const char *cert_file, const char *key_file, const pd_log_options *log, pd_tls **out, pd_error *err)
{
  pd_tls *tls = calloc(1, sizeof *tls);
  if (!tls) return pd_error_memory(err, "TLS");
  tls->cert_file = cert_file;
  tls->key_file = key_file;
  tls->log = log;
  pthread_rwlock_init(&tls->lock, NULL);
  pd_code code = load(tls, err);
  if (code)
    pd_tls_free(tls);
  else
    *out = tls;
  return code;
}

void pd_tls_free(pd_tls *tls)
{
  if (!tls) return;
  pd_tls_pair_done(&tls->current);
  pthread_rwlock_destroy(&tls->lock);
  free(tls);
}

pd_code pd_tls_reload(pd_tls *tls, const char *cert_file, const char *key_file)
{
  char text[PD_TIME_TEXT_SIZE];
  const char *cert_before = tls->cert_file, *key_before = tls->key_file;
  pd_error err = {0};
  if (cert_file && key_file) tls->cert_file = cert_file, tls->key_file = key_file;
  pd_code code = load(tls, &err);
  if (code) {
    tls->cert_file = cert_before;
    tls->key_file = key_before;
  }
  if (code)
    pd_log_say(tls->log, PD_LOG_ERROR, "TLS: the new certificate is refused, the old one stays: %s", err.message);
  else
    pd_log_say(tls->log, PD_LOG_INFO, "TLS: new connections get the certificate of %s, valid until %s", tls->cert_file,
               pd_time_text(pd_tls_expires_s(tls) * 1000, text));
  return code;
}

void pd_tls_look(pd_tls *tls)
{
  stamps now = take_stamps(tls);
  bool is_new = !is_same(&now, &tls->tried), is_still = is_same(&now, &tls->seen);
  tls->seen = now;
  if (is_new && is_still) (void)pd_tls_reload(tls, NULL, NULL); /* still: whoever renews writes two files, one after the other */
  if (pd_clock_monotonic_ms() - tls->warned_ms > WARN_EVERY_MS) warn_of_time(tls);
}

/* ---- what it is used for ---- */

bool pd_tls_is_named(pd_tls *tls, const char *host)
{
  pthread_rwlock_rdlock(&tls->lock);
  bool is_named = gnutls_x509_crt_check_hostname(tls->current.certs[0], host) != 0;
  pthread_rwlock_unlock(&tls->lock);
  return is_named;
}

int64_t pd_tls_expires_s(pd_tls *tls)
{
  pthread_rwlock_rdlock(&tls->lock);
  int64_t at_s = gnutls_x509_crt_get_expiration_time(tls->current.certs[0]);
  pthread_rwlock_unlock(&tls->lock);
  return at_s;
}

void pd_tls_attach(pd_tls *tls, gnutls_session_t session)
{
  gnutls_session_set_ptr(session, tls);
}

int pd_tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **out_certs, unsigned *out_count,
                    gnutls_ocsp_data_st **out_ocsp, unsigned *out_ocsp_count, gnutls_privkey_t *out_key, unsigned *out_flags)
{
  pd_tls *tls = gnutls_session_get_ptr(session);
  (void)info;
  *out_ocsp = NULL;
  *out_ocsp_count = 0;
  *out_flags = GNUTLS_CERT_RETR_DEINIT_ALL;
  if (!tls) return -1;
  pthread_rwlock_rdlock(&tls->lock);
  int failed = pd_tls_pair_copy(&tls->current, out_certs, out_count, out_key);
  pthread_rwlock_unlock(&tls->lock);
  return failed < 0 ? -1 : 0;
}
