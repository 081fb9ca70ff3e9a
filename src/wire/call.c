/* call.c: POST /v1/call/NAME: a capability over HTTP; and where it runs. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "wire/http.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define STAGE_SIZE_MAX ((size_t)64 * 1024) /* of a body: to parse a larger one takes longer than others should wait for it */

/* Nobody waits where requests are read until a large body is parsed; nor for the audit of a name that is unknown. */
pd_lane pd_route_call_lane(pd_request *request)
{
  static const pd_lane lanes[] = {
    [PD_EXECUTOR_QUICK] = PD_LANE_STAGE, [PD_EXECUTOR_WRITER] = PD_LANE_WRITE, [PD_EXECUTOR_SLOW] = PD_LANE_SLOW};
  if (pd_capability_find(request->rest, &request->called, NULL)) return PD_LANE_WRITE;
  pd_lane lane = lanes[request->called.handling->executor];
  return lane == PD_LANE_STAGE && request->body.size > STAGE_SIZE_MAX ? PD_LANE_WRITE : lane;
}

bool pd_route_call_writes(const pd_request *request)
{
  return request->route->run != pd_route_call || !request->called.name || request->called.handling->has_effects;
}

/* A form of a web page cannot say that it is JSON. */
static bool is_json(const pd_request *request)
{
  const char *type = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
  static const char json[] = "application/json";
  if (!type) return request->body.size == 0;
  return strncasecmp(type, json, sizeof json - 1) == 0 && strchr("; \t", type[sizeof json - 1]); /* its NUL is found, too */
}

pd_code pd_wire_call(const pd_caller *caller, const pd_ctx *ctx, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  int64_t begun_us = pd_clock_monotonic_us();
  pd_ctx who = *ctx;
  who.is_onlooker = caller->token->role == PD_ROLE_AUDITOR;
  who.is_remote = !caller->is_local;
  who.token = caller->has_token ? caller->token : NULL;
  pd_code code = pd_call(&who, capability, input, out, err);
  if (!code && ctx->wait && ctx->wait->is_waiting) return PD_OK; /* it is made again */
  pd_metrics_call(caller->server->metrics, capability, code, pd_clock_monotonic_us() - begun_us);
  return code;
}

/* They act on the session that was named, or refuse it. */
static bool is_about_sessions(const pd_request *request)
{
  return request->called.name && request->called.handling->session == PD_SESSION_REQUIRED;
}

static pd_ctx ctx_of(const pd_request *request)
{
  const pd_caller *caller = &request->caller;
  pd_ctx who = pd_caller_ctx(caller);
  if (*caller->session && is_about_sessions(request)) who.session = caller->session;
  return who;
}

/* False: it is no call; the answer says so. */
static bool is_call(pd_request *request)
{
  if (request->called.name) request->subject = request->called.name;
  if (is_json(request)) return true;
  pd_reply_failure(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, PD_INVALID, "UnsupportedMediaType",
                   "Send Content-Type: application/json; curl does with --json.", "the body of a call has to be application/json");
  return false;
}

static void reply_outcome(pd_request *request, pd_code code, const pd_error *err)
{
  if (!code) {
    if (request->server->is_buffered) pd_reply_header(request, "Perdure-Durability", "buffered");
    pd_reply(request, MHD_HTTP_OK);
  } else if (request->out.size) {
    request->outcome = pd_error_name(err);
    request->code = code;
    pd_reply(request, pd_status_of(err));
  } else {
    pd_reply_error(request, err);
  }
}

static void finish(pd_request *request)
{
  pd_error err = {0};
  pd_code code = pd_call_finish(request->begun, &request->out, &err);
  request->begun = NULL;
  pd_metrics_call(request->server->metrics, request->subject, code, pd_clock_monotonic_us() - request->begun_us);
  reply_outcome(request, code, &err);
}

bool pd_request_is_wanted(pd_request *request, uint64_t done, uint64_t total)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  (void)done, (void)total;
  if (!info) return true;
  struct pollfd fd = {.fd = info->connect_fd, .events = POLLRDHUP};
  return poll(&fd, 1, 0) < 1 || !(fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static bool is_client_there(void *ctx, uint64_t done, uint64_t total)
{
  return pd_request_is_wanted(ctx, done, total);
}

static bool is_wanted(void *ctx, uint64_t done, uint64_t total)
{
  const pd_waiter *waiter = ctx;
  (void)done, (void)total;
  return !atomic_load(&waiter->is_gone);
}

/* ---- a request that waits (waits.h) ---- */

typedef struct call_waiter {
  pd_waiter waiter; /* first */
  pd_request *request;
  char store[PD_NAME_SIZE_MAX + 1];
} call_waiter;

static void run_again(pd_job *job)
{
  pd_request_run(((call_waiter *)job)->request);
}

bool pd_request_park(pd_request *request)
{
  return pd_waits_park(request->server->waits, request->waiter);
}

pd_waiter *pd_request_wait(pd_request *request, const char *store)
{
  if (!request->waiter) {
    call_waiter *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    snprintf(made->store, sizeof made->store, "%s", store ? store : "");
    made->waiter = (pd_waiter){.job.run = run_again, .agent = request->job.owner, .fd = request->conn ? request->conn->fd : -1};
    if (store) made->waiter.store = made->store;
    made->request = request;
    request->waiter = &made->waiter;
  }
  pd_waits_look(request->server->waits, request->waiter);
  return request->waiter;
}

void pd_request_wait_over(pd_request *request)
{
  if (!request->waiter) return;
  pd_waits_end(request->server->waits, request->waiter);
  free(request->waiter);
  request->waiter = NULL;
}

static void receive(pd_request *request, pd_ctx *ctx)
{
  pd_error err = {0};
  pd_wait none = {.is_over = true}; /* without memory for it, the call does not wait, and answers with what there is */
  pd_waiter *waiter = pd_request_wait(request, NULL);
  ctx->wait = waiter ? &waiter->wait : &none;
  if (waiter) {
    ctx->progress = is_wanted;
    ctx->progress_ctx = waiter;
  }
  pd_code code = pd_wire_call(&request->caller, ctx, request->rest, pd_buf_bytes(&request->body), &request->out, &err);
  if (!code && ctx->wait->is_waiting) {
    request->park = pd_request_park;
    return;
  }
  pd_request_wait_over(request);
  reply_outcome(request, code, &err);
}

/* ---- the route ---- */

void pd_route_call(pd_request *request)
{
  pd_error err = {0};
  if (request->begun) {
    finish(request);
  } else if (is_call(request)) {
    pd_ctx ctx = ctx_of(request);
    const pd_handling *handling = request->called.name ? request->called.handling : NULL;
    if (handling && handling->is_waiting) {
      receive(request, &ctx);
      return;
    }
    if (handling && handling->is_cancellable) {
      ctx.progress = is_client_there;
      ctx.progress_ctx = request;
    }
    pd_code code = pd_wire_call(&request->caller, &ctx, request->rest, pd_buf_bytes(&request->body), &request->out, &err);
    reply_outcome(request, code, &err);
  }
}

bool pd_route_call_begin(pd_request *request)
{
  pd_error err = {0};
  pd_bytes input = pd_buf_bytes(&request->body);
  if (!is_call(request)) return true;
  pd_ctx ctx = ctx_of(request);
  pd_code code = pd_call_begin(&ctx, request->rest, input, &request->begun, &request->out, &err);
  if (request->begun) return false;
  pd_metrics_call(request->server->metrics, request->rest, code, pd_clock_monotonic_us() - request->begun_us);
  reply_outcome(request, code, &err);
  return true;
}
