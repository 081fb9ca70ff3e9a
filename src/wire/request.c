/*
 * request.c: the life of a request: libmicrohttpd's callbacks, from the first line to the last byte. Invariants W1 to W4 are in http.h.
 *
 * libmicrohttpd calls `answer` once with the head, once for each piece of the body, once at its end, and once more after a connection that
 * slept was woken.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/mcp_flow.h"
#include "wire/stores.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define BODY_DROP_MAX ((size_t)64 * 1024 * 1024) /* of a body that is too large: then the connection is cut */
#define FILES_TOLD_MS 60000
#define FILES_REST_MS 50
#define HOME_ROOM 64 /* connections of commands of the home's own user */
#define REPLY_ROOM 512
#define SPOOL_BLOCK ((size_t)256 * 1024) /* of a body that goes into a file */
#define STALL_S 120u                     /* a client that takes nothing of its answer for so long is cut off */

const char *pd_request_header(const pd_request *request, const char *name)
{
  return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *pd_request_query(const pd_request *request, const char *name)
{
  return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* ---- the first line ---- */

/* libmicrohttpd decodes on its own and would stop at an encoded NUL: another path than was asked for. */
static const char *fault_of_uri(const char *uri)
{
  for (const char *at = uri; *at; at++) {
    if ((unsigned char)*at < 0x21 || *at == 0x7f) return "a byte that no URI has";
    if (*at != '%') continue;
    if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2])) return "a percent sign without two hex digits after it";
  }
  return strstr(uri, "%00") ? "an encoded NUL" : NULL;
}

/* One request that is over waits in each of libmicrohttpd's threads for the next: it is larger than what malloc gives quickly. */
static pthread_key_t spare_key;
static pthread_once_t spare_once = PTHREAD_ONCE_INIT;
static bool has_spare_key;

static void make_spare_key(void)
{
  has_spare_key = pthread_key_create(&spare_key, free) == 0;
}

static pd_request *new_request(void)
{
  pthread_once(&spare_once, make_spare_key);
  pd_request *request = has_spare_key ? pthread_getspecific(spare_key) : NULL;
  if (!request) return calloc(1, sizeof *request);
  pthread_setspecific(spare_key, NULL);
  memset(request, 0, sizeof *request);
  return request;
}

static void free_request(pd_request *request)
{
  pd_buf_done(&request->body);
  pd_buf_done(&request->out);
  pd_caller_done(&request->caller);
  free(request->path);
  if (!has_spare_key || pthread_getspecific(spare_key) || pthread_setspecific(spare_key, request)) free(request);
}

static void *begin_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
  pd_listener *listener = cls;
  pd_request *request = new_request();
  if (!request) return NULL;
  request->server = listener->server;
  pd_disk_wait_forbid(true); /* this is a thread of libmicrohttpd */
  pd_caller_init(&request->caller, listener->server);
  request->connection = connection;
  request->begun_us = pd_clock_monotonic_us();
  request->bad_uri = fault_of_uri(uri);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  request->conn = info ? info->socket_context : NULL;
  return request;
}

/* ---- the head ---- */

static void make_id(pd_request *request)
{
  size_t size = strlen(request->server->id_prefix);
  memcpy(request->id, request->server->id_prefix, size);
  request->id[size++] = '-';
  pd_u64_text(atomic_fetch_add(&request->server->request_count, 1), request->id + size);
}

static void set_id(pd_request *request)
{
  const char *given = pd_request_header(request, "X-Request-Id");
  size_t size = given ? strlen(given) : 0;
  if (size && size <= 64 && strspn(given, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size)
    memcpy(request->id, given, size + 1);
  else
    make_id(request);
}

static bool is_spooled(const pd_request *request)
{
  return request->route->is_spooled && pd_bundle_takes_body(request);
}

/* A bundle says how long it is, so that what does not fit is refused before it is sent. */
static bool is_spool_size(pd_request *request)
{
  const char *text = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
  uint64_t max = pd_spool_share(request->server);
  request->body.size_max = 2 * SPOOL_BLOCK;
  if (!text)
    pd_reply_failure(request, MHD_HTTP_LENGTH_REQUIRED, PD_INVALID, "InvalidInput", "Send the bundle with its Content-Length.",
                     "a bundle that is sent needs a Content-Length");
  else if (strtoull(text, NULL, 10) > max)
    pd_reply_failure(request, MHD_HTTP_CONTENT_TOO_LARGE, PD_LIMIT, "LimitExceeded",
                     "Send less at once (export --since), or raise server.bundles_max in perdure.toml.",
                     "a bundle of %.20s bytes is too large; the most is %llu, half of server.bundles_max", text, (unsigned long long)max);
  else
    return true;
  return false;
}

static bool is_small_enough(pd_request *request)
{
  const char *text = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
  uint64_t max = request->server->settings.body_size_max;
  if (is_spooled(request)) return is_spool_size(request);
  if (request->route->run == pd_route_store && max < PD_RAW_BODY_MAX) max = PD_RAW_BODY_MAX;
  if (request->conn && request->conn->listener->is_home) max = PD_CALL_SIZE_MAX; /* as without a server */
  request->body.size_max = max;
  if (!text || strtoull(text, NULL, 10) <= max) return true;
  pd_reply_failure(request, MHD_HTTP_CONTENT_TOO_LARGE, PD_LIMIT, "LimitExceeded",
                   "Split the input, or raise server.body_max in perdure.toml.", "a body of %.20s bytes is too large; the most is %llu",
                   text, (unsigned long long)max);
  return false;
}

/* Now that it is known who asks. A body that is dropped anyway is not held. */
static bool has_room(pd_request *request)
{
  const char *text = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
  uint64_t share = pd_bytes_share(request), size = text ? strtoull(text, NULL, 10) : 0;
  if (request->route->is_open || is_spooled(request)) return true;
  if (request->body.size_max > share) request->body.size_max = share;
  if (size <= share) return pd_bytes_hold(request, size);
  pd_reply_failure(request, MHD_HTTP_CONTENT_TOO_LARGE, PD_LIMIT, "LimitExceeded",
                   "Split the input, or raise server.body_max in perdure.toml.", "a body of %.20s bytes is too large; the most is %llu",
                   text, (unsigned long long)share);
  return false;
}

static bool find_route(pd_request *request)
{
  request->route = pd_route_find(request->method, request->path, &request->rest, request->allow_text, sizeof request->allow_text);
  if (request->route) return true;
  if (*request->allow_text) {
    request->allow = request->allow_text;
    pd_reply_failure(request, MHD_HTTP_METHOD_NOT_ALLOWED, PD_INVALID, "MethodNotAllowed", "Use one of the methods that Allow names.",
                     "%s does not answer %s", request->path, request->method);
  } else {
    pd_reply_failure(request, MHD_HTTP_NOT_FOUND, PD_NOT_FOUND, "NotFound", "GET /v1/openapi.json tells what there is.",
                     "there is nothing at %.256s", request->path);
  }
  return false;
}

/* Asked a second time when the request is counted: pd_idle_leaves decides the other way round, so one of the two sees the other. */
static bool is_serving(pd_request *request)
{
  if (!atomic_load(&request->server->is_draining) || request->route->is_open) return true;
  request->retry_after_s = 1;
  pd_reply_failure(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_STORAGE, "Draining", "Ask again: the server is about to stop.",
                   "the server is stopping and takes no new requests");
  return false;
}

/* Everything that can be said without knowing who calls. */
static bool admits(pd_request *request, const char *url, const char *method, const char *version)
{
  set_id(request);
  memcpy(request->method, method, strnlen(method, sizeof request->method - 1)); /* it is zero: a longer one, which no route has, is cut */
  request->path = strdup(url);
  if (!request->path) return false;
  if (request->bad_uri) {
    pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput", "Encode the path as RFC 3986 says.", "the path has %s",
                     request->bad_uri);
    return false;
  }
  return pd_framing_admits(request, version) && pd_guard_admits(request) && !pd_guard_preflight(request) && find_route(request) &&
         is_serving(request) && is_small_enough(request);
}

/* Once it is known who calls. */
static bool admits_caller(pd_request *request)
{
  return (request->route->is_stream || pd_shares_enter(request)) && is_serving(request) && has_room(request);
}

static bool has_body(const pd_request *request)
{
  const char *size = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
  return pd_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING) || (size && strcmp(size, "0") != 0);
}

/* A client that should come again gets its answer for certain: one that sends when the connection is closed may never see it. */
static bool is_worth_reading(const pd_request *request)
{
  return request->retry_after_s && request->is_counted && !pd_request_header(request, MHD_HTTP_HEADER_EXPECT);
}

static void reply_overloaded(pd_request *request)
{
  request->retry_after_s = 1;
  pd_reply_failure(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_LIMIT, "Overloaded", "Wait a little, then try again.",
                   "the server has too much to do");
}

static enum MHD_Result end_head(pd_request *request, bool is_admitted)
{
  request->is_refused = !is_admitted && is_worth_reading(request);
  bool is_read = is_admitted || request->is_refused;
  if (request->conn) pd_conn_enter(request->conn, is_read ? PD_CONN_READING : PD_CONN_BUSY);
  request->state = is_read ? PD_REQUEST_READING : PD_REQUEST_ANSWERED;
  if (is_read || !has_body(request)) return MHD_YES; /* answered with the next call, so that the connection may stay */
  return pd_reply_send(request);                     /* before the body is sent: libmicrohttpd closes then */
}

/* SP-3: what may wait for the disk is done by a worker; then libmicrohttpd goes on where it was. */
static enum MHD_Result do_elsewhere(pd_request *request, void (*run)(pd_job *job), pd_request_state next)
{
  request->state = PD_REQUEST_WORKING;
  request->job.run = run;
  request->job.owner = *request->caller.agent ? request->caller.agent : request->caller.token->id;
  if (request->conn) pd_conn_enter(request->conn, PD_CONN_BUSY);
  MHD_suspend_connection(request->connection);
  if (pd_pool_add(&request->server->slow, &request->job)) return MHD_YES;
  reply_overloaded(request);
  request->is_refused = true;
  request->state = next;
  MHD_resume_connection(request->connection);
  return MHD_YES;
}

static void open_spool(pd_job *job)
{
  pd_request *request = (pd_request *)job;
  const char *size = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
  pd_error err = {0};
  request->is_refused = pd_spool_open(request, strtoull(size, NULL, 10), &err) != PD_OK;
  if (request->is_refused) pd_reply_error(request, &err);
  if (request->is_refused && request->status == MHD_HTTP_TOO_MANY_REQUESTS) request->retry_after_s = 1;
  request->state = PD_REQUEST_SPOOLED;
  MHD_resume_connection(request->connection); /* from here on it is libmicrohttpd's: W4 */
}

static enum MHD_Result begin_body(pd_request *request, bool is_admitted)
{
  pd_error err = {0};
  if (!is_admitted || !is_spooled(request)) return end_head(request, is_admitted);
  if (pd_bundle_permit(request, &err) == PD_OK) return do_elsewhere(request, open_spool, PD_REQUEST_SPOOLED);
  pd_reply_error(request, &err);
  return end_head(request, false);
}

static void find_caller(pd_job *job)
{
  pd_request *request = (pd_request *)job;
  request->is_known = pd_auth_admits(request);
  request->state = PD_REQUEST_KNOWN;
  MHD_resume_connection(request->connection); /* from here on it is libmicrohttpd's: W4 */
}

/* The store has to be read to know who calls. */
static enum MHD_Result find_caller_elsewhere(pd_request *request)
{
  request->state = PD_REQUEST_WORKING;
  request->job.run = find_caller;
  request->job.owner = "?"; /* no agent's name: all who are not known yet share one lane, so that guessing takes no more than that */
  MHD_suspend_connection(request->connection);
  if (pd_pool_add(&request->server->readers, &request->job)) return MHD_YES;
  reply_overloaded(request);
  request->state = PD_REQUEST_KNOWN;
  MHD_resume_connection(request->connection);
  return MHD_YES;
}

static enum MHD_Result take_head(pd_request *request, const char *url, const char *method, const char *version)
{
  bool is_admitted = admits(request, url, method, version);
  if (!request->path) return MHD_NO;
  if (is_admitted && !request->route->is_open) {
    if (pd_auth_must_wait(request)) return find_caller_elsewhere(request);
    is_admitted = pd_auth_admits(request);
  }
  return begin_body(request, is_admitted && admits_caller(request));
}

/* ---- the body ---- */

/* With memory for all of it at once if it said how long it is; else it doubles, and what is counted with it. */
static bool keep(pd_request *request, const char *data, size_t size)
{
  pd_buf *body = &request->body;
  size_t need = body->size + size, room = need > request->held ? need : request->held;
  if (need > body->capacity && need <= body->size_max) {
    if (room < 2 * body->capacity) room = 2 * body->capacity;
    if (room > body->size_max) room = body->size_max;
    request->is_refused = !pd_bytes_hold(request, room);
    if (request->is_refused) return false;
  }
  request->is_too_large = pd_buf_reserve(body, (room > need ? room : need) - body->size, NULL) || pd_buf_append(body, data, size, NULL);
  return !request->is_too_large;
}

static void spill(pd_job *job)
{
  pd_request *request = (pd_request *)job;
  pd_error err = {0};
  request->is_refused = pd_spool_write(request->spool, request->body.data, request->body.size, &err) != PD_OK;
  if (request->is_refused) pd_reply_error(request, &err);
  pd_buf_clear(&request->body);
  if (request->conn) pd_conn_enter(request->conn, PD_CONN_READING); /* server.request_time is for each block */
  request->state = PD_REQUEST_READING;
  MHD_resume_connection(request->connection); /* from here on it is libmicrohttpd's: W4 */
}

static enum MHD_Result spool_body(pd_request *request, const char *data, size_t *size)
{
  pd_error err = {0};
  pd_code code = request->body.size ? PD_OK : pd_buf_reserve(&request->body, SPOOL_BLOCK + PD_HEAD_SIZE_MAX, &err);
  if (!code) code = pd_buf_append(&request->body, data, *size, &err);
  *size = 0;
  request->is_refused = code != PD_OK;
  if (code) pd_reply_error(request, &err);
  return code || request->body.size < SPOOL_BLOCK ? MHD_YES : do_elsewhere(request, spill, PD_REQUEST_READING);
}

static enum MHD_Result take_body(pd_request *request, const char *data, size_t *size)
{
  if (request->spool && !request->is_refused) return spool_body(request, data, size);
  bool is_kept = !request->is_too_large && !request->is_refused && !request->route->is_open && keep(request, data, *size);
  if (!is_kept) {
    pd_buf_done(&request->body);
    pd_bytes_release(request);
  }
  request->dropped += is_kept ? 0 : *size;
  *size = 0;
  return request->dropped > BODY_DROP_MAX ? MHD_NO : MHD_YES;
}

/* ---- the answer ---- */

static void finish(pd_request *request)
{
  if (request->is_write) pd_stall_end(&request->server->stall, pd_clock_monotonic_ms());
  request->state = PD_REQUEST_ANSWERED;
  MHD_resume_connection(request->connection); /* from here on it is libmicrohttpd's: W4 */
}

void pd_request_run(pd_request *request)
{
  for (;;) {
    request->park = NULL;
    request->route->run(request);
    bool (*park)(pd_request *) = request->park;
    if (!park) break;
    if (park(request)) return; /* it is another's now */
  }
  finish(request);
}

void pd_request_ready(pd_request *request)
{
  request->state = PD_REQUEST_READY;
  MHD_resume_connection(request->connection);
}

static void run_job(pd_job *job)
{
  pd_request *request = (pd_request *)job;
  if (!request->begun && pd_bytes_are_over(request))
    finish(request);
  else
    pd_request_run(request);
}

pd_code pd_request_pools(pd_server *server, pd_error *err)
{
  TRY(pd_pool_init(&server->writers, 64, 32, 8192, err)); /* many of one agent share a sync */
  /* A group is one job: each has a thread when it needs one. */
  TRY(pd_pool_init(&server->finishers, PD_SETTLE_GROUPS, 0, PD_SETTLE_GROUPS, err));
  pd_settler_init(&server->settler, &server->finishers);
  TRY(pd_pool_init(&server->slow, 64, 8, 8192, err));
  TRY(pd_pool_init(&server->readers, 4, 2, 65536, err));
  return pd_waits_new(server->home, &server->slow, server->gone, &server->waits, err);
}

static void begin_write(pd_request *request)
{
  request->is_write = true;
  pd_stall_begin(&request->server->stall, pd_clock_monotonic_ms());
}

static enum MHD_Result hand_over(pd_request *request, pd_pool *pool)
{
  request->state = PD_REQUEST_WORKING;
  request->job.run = run_job;
  request->job.owner = *request->caller.agent ? request->caller.agent : request->caller.token->id;
  MHD_suspend_connection(request->connection);
  if (pool == &request->server->writers && pd_route_call_writes(request)) begin_write(request);
  if (pd_pool_add(pool, &request->job)) return MHD_YES;
  if (request->begun) pd_call_drop(request->begun); /* nothing of it was done */
  request->begun = NULL;
  reply_overloaded(request);
  finish(request);
  return MHD_YES;
}

/* What it waits for did not come yet: it is made from the start by those who park it (call.c). */
static enum MHD_Result wait_elsewhere(pd_request *request)
{
  pd_call_drop(request->begun);
  request->begun = NULL;
  return hand_over(request, &request->server->slow);
}

static enum MHD_Result begin_here(pd_request *request)
{
  if (pd_route_call_begin(request)) return pd_reply_send(request);
  const void *group = pd_begun_group(request->begun);
  if (!group && request->called.handling->is_waiting) return wait_elsewhere(request);
  if (!group) return hand_over(request, &request->server->writers);
  request->state = PD_REQUEST_WORKING;
  request->job.run = run_job;
  MHD_suspend_connection(request->connection);
  begin_write(request);
  pd_settler_add(&request->server->settler, group, &request->job);
  return MHD_YES;
}

static enum MHD_Result take_end(pd_request *request)
{
  if (request->conn) pd_conn_enter(request->conn, PD_CONN_BUSY);
  if (request->is_refused || (!request->route->is_open && pd_bytes_are_over(request))) return pd_reply_send(request);
  if (request->is_too_large) {
    pd_reply_failure(request, MHD_HTTP_CONTENT_TOO_LARGE, PD_LIMIT, "LimitExceeded",
                     "Split the input, or raise server.body_max in perdure.toml.", "the body is too large; the most is %llu bytes",
                     (unsigned long long)request->body.size_max);
    return pd_reply_send(request);
  }
  pd_lane lane = request->route->lane ? request->route->lane(request) : PD_LANE_HERE;
  (void)!pd_buf_reserve(&request->out, REPLY_ROOM, NULL); /* for most answers, at once; without memory they fail on their own */
  if (lane == PD_LANE_STAGE) return begin_here(request);
  if (lane == PD_LANE_WRITE) return hand_over(request, &request->server->writers);
  if (lane == PD_LANE_SLOW) return hand_over(request, &request->server->slow);
  if (lane == PD_LANE_WATCH) return hand_over(request, &request->server->readers);
  request->route->run(request);
  return pd_reply_send(request);
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                              const char *data, size_t *size, void **con_cls)
{
  pd_request *request = *con_cls;
  (void)cls, (void)connection;
  if (!request) return MHD_NO; /* no memory for it */
  switch (request->state) {
  case PD_REQUEST_NEW: return take_head(request, url, method, version);
  case PD_REQUEST_KNOWN: return begin_body(request, request->is_known && admits_caller(request));
  case PD_REQUEST_SPOOLED: return end_head(request, !request->is_refused);
  case PD_REQUEST_READING: return *size ? take_body(request, data, size) : take_end(request);
  case PD_REQUEST_READY: request->route->run(request); return pd_reply_send(request);
  case PD_REQUEST_ANSWERED: return pd_reply_send(request);
  case PD_REQUEST_WORKING:
  case PD_REQUEST_SENT: break;
  }
  return MHD_YES;
}

/* ---- the end ---- */

static void tell(const pd_request *request)
{
  const pd_log_options *log = &request->server->options->log;
  pd_log_level level = request->status >= 500 ? PD_LOG_WARN : request->status >= 400 ? PD_LOG_INFO : PD_LOG_DEBUG;
  if (level > log->level || !request->path) return;
  const pd_log_field fields[] = {
    {"request", request->id, 0},
    {"method", request->method, 0},
    {"path", request->path, 0},
    {"status", NULL, request->status},
    {"us", NULL, pd_clock_monotonic_us() - request->begun_us},
    {"agent", request->caller.agent, 0},
    {"outcome", request->outcome ? request->outcome : "ok", 0},
  };
  pd_log_line(log, level, "request", fields, COUNT_OF(fields));
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls, enum MHD_RequestTerminationCode code)
{
  pd_request *request = *con_cls;
  (void)cls, (void)connection, (void)code;
  if (!request) return;
  pd_request_leave(request);
  pd_request_stream_over(request);
  pd_bytes_release(request);
  pd_spool_free(request->spool); /* SP-1 */
  tell(request);
  if (request->status) pd_metrics_request(request->server->metrics, request->status);
  if (request->conn) pd_conn_lasted(request->conn);
  if (request->conn) pd_conn_enter(request->conn, PD_CONN_IDLE);
  if (request->flow) pd_mcp_flow_abandon(request->flow);      /* the client left before there was an answer */
  if (request->stream) MHD_destroy_response(request->stream); /* the client left before it began */
  free_request(request);
  *con_cls = NULL;
}

/* accept() found no descriptor, though some were left for stores. A thread of libmicrohttpd that has connections waits until one of them
 * ends; one that has none asks again and again, and calls us in between: it rests here, where nobody waits for it. */
static void rest_without_files(pd_server *server, bool has_connections)
{
  long long now_ms = pd_clock_monotonic_ms(), told_ms = atomic_load(&server->files_told_ms);
  if (now_ms - told_ms > FILES_TOLD_MS && atomic_compare_exchange_strong(&server->files_told_ms, &told_ms, now_ms))
    pd_log_say(&server->options->log, PD_LOG_WARN, "there are no more open files to be had (ulimit -n): new clients wait");
  if (!has_connections) nanosleep(&(struct timespec){.tv_nsec = FILES_REST_MS * 1000000L}, NULL);
}

static void say(void *cls, const char *fmt, va_list args)
{
  pd_listener *listener = cls;
  char text[512];
  if (strncmp(fmt, "Hit process or system resource limit", 36) == 0) {
    rest_without_files(listener->server, strncmp(fmt + 36, " at FIRST", 9) != 0);
    return;
  }
  vsnprintf(text, sizeof text, fmt, args);
  text[strcspn(text, "\n")] = 0;
  pd_log_say(&listener->server->options->log, PD_LOG_DEBUG, "http: %s", text);
}

pd_code pd_daemon_start(pd_listener *listener, unsigned threads, pd_error *err)
{
  pd_server *server = listener->server;
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_ITC;
  bool has_home = server->listeners[server->listener_count - 1].is_home;
  listener->room = listener->is_home ? HOME_ROOM : server->connection_room / (server->listener_count - has_home);
  struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};
  size_t more_count = 0;
  if (threads > 1) more[more_count++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, threads, NULL};
  if (listener->is_tls) {
    flags |= MHD_USE_TLS;
    more[more_count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PD_TLS_PRIORITIES};
    more[more_count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)pd_tls_retrieve};
  }
  more[more_count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
  listener->daemon =
    MHD_start_daemon(flags, 0, NULL, NULL, answer, listener, MHD_OPTION_EXTERNAL_LOGGER, say, listener, MHD_OPTION_LISTEN_SOCKET,
                     listener->fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)PD_HEAD_SIZE_MAX, MHD_OPTION_CONNECTION_LIMIT,
                     (unsigned)listener->room, MHD_OPTION_CONNECTION_TIMEOUT, STALL_S, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                     MHD_OPTION_URI_LOG_CALLBACK, begin_uri, listener, MHD_OPTION_NOTIFY_COMPLETED, completed, listener,
                     MHD_OPTION_NOTIFY_CONNECTION, pd_conn_notify, listener, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
  if (!listener->daemon) return pd_error_set(err, PD_STORAGE, "cannot serve on %s", listener->address);
  return PD_OK;
}
