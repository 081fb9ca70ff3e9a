/* reply.c: answers: the status of an error, the one shape of it, and the headers that every answer has. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_error.h"
#include "wire/http.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- status ---- */

/* Names that say more than their code does. */
static const struct {
  const char *name;
  unsigned status;
} by_name[] = {
  {"TooManyRequests", MHD_HTTP_TOO_MANY_REQUESTS},
  {"TooManySessions", MHD_HTTP_TOO_MANY_REQUESTS},
  {"QueueFull", MHD_HTTP_TOO_MANY_REQUESTS},
  {"TooManyWatchers", MHD_HTTP_TOO_MANY_REQUESTS},
  {"TooManySubscriptions", MHD_HTTP_TOO_MANY_REQUESTS},
};

static const unsigned by_code[PD_CODE_COUNT] = {
  [PD_OK] = MHD_HTTP_OK,
  [PD_NOT_FOUND] = MHD_HTTP_NOT_FOUND,
  [PD_CONFLICT] = MHD_HTTP_CONFLICT,
  [PD_EXISTS] = MHD_HTTP_CONFLICT,
  [PD_INVALID] = MHD_HTTP_BAD_REQUEST,
  [PD_AMBIGUOUS] = MHD_HTTP_BAD_REQUEST,
  [PD_LIMIT] = MHD_HTTP_CONTENT_TOO_LARGE,
  [PD_QUOTA] = MHD_HTTP_INSUFFICIENT_STORAGE,
  [PD_CORRUPT] = MHD_HTTP_INTERNAL_SERVER_ERROR,
  [PD_STORAGE] = MHD_HTTP_INTERNAL_SERVER_ERROR,
  [PD_FULL] = MHD_HTTP_INSUFFICIENT_STORAGE,
  [PD_READ_ONLY] = MHD_HTTP_SERVICE_UNAVAILABLE,
  [PD_FORMAT] = MHD_HTTP_INTERNAL_SERVER_ERROR,
  [PD_NO_MEMORY] = MHD_HTTP_SERVICE_UNAVAILABLE,
  [PD_UNSUPPORTED] = MHD_HTTP_NOT_IMPLEMENTED,
  [PD_ERASED] = MHD_HTTP_GONE,
  [PD_RETIRED] = MHD_HTTP_GONE,
  [PD_SESSION] = MHD_HTTP_NOT_FOUND,
  [PD_LOCKED] = MHD_HTTP_LOCKED,
  [PD_APPROVAL] = MHD_HTTP_ACCEPTED,
  [PD_DENIED] = MHD_HTTP_FORBIDDEN,
  [PD_DECRYPT] = MHD_HTTP_UNPROCESSABLE_CONTENT,
  [PD_OUTCOME_UNKNOWN] = MHD_HTTP_INTERNAL_SERVER_ERROR,
};

unsigned pd_status_of(const pd_error *err)
{
  for (size_t i = 0; err->name && i < COUNT_OF(by_name); i++)
    if (strcmp(by_name[i].name, err->name) == 0) return by_name[i].status;
  return (unsigned)err->code < PD_CODE_COUNT ? by_code[err->code] : MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* ---- answers ---- */

void pd_reply(pd_request *request, unsigned status)
{
  request->status = status;
  if (!request->type) request->type = "application/json";
}

void pd_wire_error(pd_buf *out, const pd_error *err, const char *hint, const char *request_id)
{
  const pd_recovery given[] = {{err->code == PD_LIMIT ? "retry" : "correct", hint}, {NULL, NULL}};
  pd_json_writer w = {.out = out};
  pd_buf_clear(out);
  pd_json_open(&w, '{');
  pd_json_error_begin(&w, err);
  if (request_id) pd_json_put_text(&w, "request_id", request_id);
  pd_json_error_end(&w, err, hint ? given : NULL);
  pd_json_close(&w, '}');
}

void pd_reply_error(pd_request *request, const pd_error *err)
{
  request->outcome = pd_error_name(err);
  request->code = err->code;
  request->type = "application/json";
  request->etag[0] = 0;
  pd_wire_error(&request->out, err, NULL, request->id);
  pd_reply(request, pd_status_of(err));
}

void pd_reply_failure(pd_request *request, unsigned status, pd_code code, const char *name, const char *hint, const char *fmt, ...)
{
  pd_error err = {.code = code, .name = name};
  va_list args;
  va_start(args, fmt);
  vsnprintf(err.message, sizeof err.message, fmt, args);
  va_end(args);
  request->outcome = name;
  request->code = code;
  request->type = "application/json";
  pd_wire_error(&request->out, &err, hint, request->id);
  pd_reply(request, status);
}

void pd_reply_header(pd_request *request, const char *name, const char *value)
{
  if (request->header_count == PD_REPLY_HEADERS_MAX) return;
  request->headers[request->header_count].name = name;
  snprintf(request->headers[request->header_count++].value, sizeof request->headers[0].value, "%s", value);
}

/* ---- sending ---- */

static bool is_unchanged(const pd_request *request)
{
  const char *given = *request->etag && request->status == MHD_HTTP_OK ? pd_request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH) : NULL;
  return given && (strcmp(given, "*") == 0 || strstr(given, request->etag));
}

static void add_headers(const pd_request *request, struct MHD_Response *response)
{
  char number[16];
  MHD_add_response_header(response, "X-Request-Id", request->id);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (request->type) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, *request->etag ? "private, no-cache" : "no-store");
  if (*request->etag) MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, request->etag);
  if (request->allow) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, request->allow);
  if (request->status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"perdure\"");
  pd_guard_add(request, response);
  if (request->retry_after_s) {
    snprintf(number, sizeof number, "%u", request->retry_after_s);
    MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number);
  }
  if (request->policy) MHD_add_response_header(response, "Content-Security-Policy", request->policy);
  for (size_t i = 0; i < request->header_count; i++) MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
  if (atomic_load_explicit(&request->server->is_draining, memory_order_relaxed))
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

static struct MHD_Response *make_response(pd_request *request)
{
  if (request->stream) return request->stream;
  if (request->spool && request->spool->is_answer) return pd_spool_response(request->spool);
  if (!request->out.size) return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
  struct MHD_Response *response = MHD_create_response_from_buffer(request->out.size, request->out.data, MHD_RESPMEM_MUST_FREE);
  if (response) request->out = (pd_buf){0}; /* the memory is the response's now */
  return response;
}

enum MHD_Result pd_reply_send(pd_request *request)
{
  request->state = PD_REQUEST_SENT;
  if (is_unchanged(request)) {
    request->status = MHD_HTTP_NOT_MODIFIED;
    pd_buf_clear(&request->out);
  }
  if (request->stream) pd_request_leave(request);
  if (request->stream && request->conn) pd_conn_lasts(request->conn, &request->caller);
  pd_bytes_answer(request);
  struct MHD_Response *response = make_response(request);
  if (!response) return MHD_NO;
  add_headers(request, response);
  enum MHD_Result result = MHD_queue_response(request->connection, request->status, response);
  MHD_destroy_response(response);
  request->stream = NULL;
  return result;
}
