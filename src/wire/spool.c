/* spool.c: see spool.h. */
#include "wire/spool.h"

#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "wire/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SPOOLS_MAX 16
#define NOBODY ":" /* without a token: the server's own user */
#define PATH_SIZE 4300

uint64_t pd_spool_share(const pd_server *server)
{
  return pd_share_of(UINT64_MAX, server->settings.bundles_max);
}

/* ---- SP-2 ---- */

static pd_code too_many(const char *whose, pd_error *err)
{
  return pd_error_named(err, PD_LIMIT, "TooManyRequests", "%s as many bundles on their way as there may be; try again when one has arrived",
                        whose);
}

static pd_code enter(pd_spool *spool, pd_error *err)
{
  pd_server *server = spool->server;
  pd_code code = PD_OK;
  if (atomic_fetch_add(&server->spool_count, 1) >= SPOOLS_MAX)
    code = too_many("the server has", err);
  else if (!pd_meter_enter(server->spools, spool->owner, SPOOLS_MAX / 2))
    code = too_many("this token has", err);
  if (code) atomic_fetch_sub(&server->spool_count, 1);
  return code;
}

/* Count `more` bytes before they are there. */
static pd_code hold(pd_spool *spool, uint64_t more, pd_error *err)
{
  pd_server *server = spool->server;
  uint64_t max = server->settings.bundles_max;
  if (atomic_fetch_add(&server->spooled_bytes, more) + more > max) {
    atomic_fetch_sub(&server->spooled_bytes, more);
    return pd_error_named(err, PD_LIMIT, "LimitExceeded",
                          "bundles on their way have at most %llu bytes all together (server.bundles_max); try again later, or raise it",
                          (unsigned long long)max);
  }
  if (!pd_meter_take(server->spooled, spool->owner, more, pd_spool_share(server))) {
    atomic_fetch_sub(&server->spooled_bytes, more);
    return pd_error_named(err, PD_LIMIT, "LimitExceeded",
                          "the bundle is too large: those of one token have at most %llu bytes, half of server.bundles_max",
                          (unsigned long long)pd_spool_share(server));
  }
  spool->held += more;
  return PD_OK;
}

void pd_spool_free(pd_spool *spool)
{
  if (!spool) return;
  if (spool->fd >= 0) close(spool->fd);
  if (spool->held) pd_meter_give(spool->server->spooled, spool->owner, spool->held);
  atomic_fetch_sub(&spool->server->spooled_bytes, spool->held);
  pd_meter_leave(spool->server->spools, spool->owner);
  atomic_fetch_sub(&spool->server->spool_count, 1);
  free(spool);
}

/* ---- the file ---- */

static pd_code open_named(const char *folder, int *out, pd_error *err)
{
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/bundle.XXXXXX", folder);
  *out = mkostemp(path, O_CLOEXEC);
  if (*out < 0) return pd_file_refused(err, "make a file in", folder);
  unlink(path);
  return PD_OK;
}

/* Where the home's files are, so that the disk that takes the bundle is the one that has to take the commits. */
static pd_code open_file(const pd_server *server, int *out, pd_error *err)
{
  const char *uri = server->options->uri, *temporary = getenv("TMPDIR");
  const char *folder = strncmp(uri, "sqlite:", 7) == 0 ? uri + 7 : temporary && *temporary ? temporary : "/tmp";
  *out = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (*out >= 0) return PD_OK;
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT) return open_named(folder, out, err); /* not every file system can */
  return pd_file_refused(err, "make a file in", folder);
}

/* A full disk is found before the client has sent what does not fit. */
static pd_code reserve(const pd_spool *spool, uint64_t size, pd_error *err)
{
  if (!size || fallocate(spool->fd, 0, 0, (off_t)size) == 0) return PD_OK;
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? pd_file_refused(err, "make room for", "the bundle") : PD_OK;
}

pd_code pd_spool_open(pd_request *request, uint64_t size, pd_error *err)
{
  pd_spool *spool = calloc(1, sizeof *spool);
  if (!spool) return pd_error_memory(err, "a bundle");
  *spool = (pd_spool){.server = request->server, .fd = -1};
  snprintf(spool->owner, sizeof spool->owner, "%s", request->caller.has_token ? request->caller.token->id : NOBODY);
  pd_code code = enter(spool, err);
  if (code) {
    free(spool);
    return code;
  }
  request->spool = spool;
  TRY(hold(spool, size, err));
  TRY(open_file(request->server, &spool->fd, err));
  return reserve(spool, size, err);
}

pd_code pd_spool_write(pd_spool *spool, const void *data, size_t size, pd_error *err)
{
  if (spool->size + size > spool->held) TRY(hold(spool, spool->size + size - spool->held, err));
  TRY(pd_fd_write(spool->fd, data, size, "the bundle", err));
  spool->size += size;
  return PD_OK;
}

pd_code pd_spool_read(pd_spool *spool, uint64_t at, void *data, size_t size, pd_error *err)
{
  for (char *to = data; size;) {
    ssize_t n = pread(spool->fd, to, size, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return pd_error_set(err, PD_STORAGE, "the bundle cannot be read: %s", n ? strerror(errno) : "it became shorter");
    to += n, at += (uint64_t)n, size -= (size_t)n;
  }
  return PD_OK;
}

struct MHD_Response *pd_spool_response(pd_spool *spool)
{
  struct MHD_Response *response = MHD_create_response_from_fd64(spool->size, spool->fd);
  if (response) spool->fd = -1; /* it is the response's now */
  return response;
}
