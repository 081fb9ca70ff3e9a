/* mcp_http.c: see mcp_http.h. */
#include "wire/mcp_http.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/mcp_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define BLOCK_SIZE 4096
#define QUEUE_SIZE_MAX ((size_t)8 * 1024 * 1024) /* of a stream that nobody reads: then it is cut */
#define BEAT_MS 10000
#define BESIDE_MAX 64

/* What goes back to one request: first gathered, then perhaps streamed. */
typedef struct flow {
  pd_mcp_http *http;
  struct MHD_Connection *connection;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  pd_buf out; /* the message, while there is one; from the second on, events */
  size_t sent;
  size_t count;
  int status;
  bool is_last, is_done, is_stream, is_suspended;
  char session[PD_MCP_SESSION_ID_SIZE];
  int64_t spoke_ms;
  unsigned refs;
  struct flow *next, **link; /* in pd_mcp_http.flows, under its lock */
} flow;

struct pd_mcp_http {
  pd_mcp *mcp;
  pthread_mutex_t lock; /* of what follows; a flow's lock may be taken under it */
  flow *flows;
  unsigned beside; /* threads that run a message of their own */
  pthread_cond_t ended;
};

pd_code pd_mcp_http_new(pd_mcp *mcp, pd_mcp_http **out, pd_error *err)
{
  pd_mcp_http *http = calloc(1, sizeof *http);
  if (!http) return pd_error_memory(err, "the MCP server");
  http->mcp = mcp;
  pthread_mutex_init(&http->lock, NULL);
  pthread_cond_init(&http->ended, NULL);
  *out = http;
  return PD_OK;
}

void pd_mcp_http_free(pd_mcp_http *http)
{
  if (!http) return;
  pthread_cond_destroy(&http->ended);
  pthread_mutex_destroy(&http->lock);
  free(http);
}

pd_mcp *pd_mcp_http_core(pd_mcp_http *http)
{
  return http->mcp;
}

/* ---- a flow ---- */

static flow *new_flow(pd_mcp_http *http, struct MHD_Connection *connection)
{
  flow *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->http = http;
  f->connection = connection;
  f->refs = 1;
  f->spoke_ms = pd_clock_monotonic_ms();
  f->out.size_max = PD_MCP_MESSAGE_SIZE_MAX * 4;
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->changed, NULL);
  return f;
}

/* The flow's lock is held; it is let go. */
static void let_go(flow *f)
{
  bool is_last = --f->refs == 0;
  pthread_mutex_unlock(&f->lock);
  if (!is_last) return;
  pd_buf_done(&f->out);
  pthread_cond_destroy(&f->changed);
  pthread_mutex_destroy(&f->lock);
  free(f);
}

/* Under the flow's lock. */
static void wake(flow *f)
{
  pthread_cond_broadcast(&f->changed);
  if (!f->is_suspended) return;
  f->is_suspended = false;
  MHD_resume_connection(f->connection);
}

static pd_code add_event(pd_buf *out, pd_bytes message)
{
  TRY(pd_buf_append(out, "event: message\ndata: ", 21, NULL));
  TRY(pd_buf_append(out, message.data, message.size, NULL));
  return pd_buf_append(out, "\n\n", 2, NULL);
}

/* What was gathered as one message becomes the first event. */
static pd_code become_stream(flow *f)
{
  if (f->is_stream) return PD_OK;
  pd_buf events = {.size_max = f->out.size_max};
  pd_code code = f->count ? add_event(&events, pd_buf_bytes(&f->out)) : PD_OK;
  if (code) {
    pd_buf_done(&events);
    return code;
  }
  pd_buf_done(&f->out);
  f->out = events;
  f->is_stream = true;
  return PD_OK;
}

static pd_code add_message(flow *f, pd_bytes message)
{
  if (f->is_stream && f->out.size - f->sent > QUEUE_SIZE_MAX) return PD_LIMIT;
  if (f->count || f->is_stream) {
    TRY(become_stream(f));
    return add_event(&f->out, message);
  }
  return pd_buf_append(&f->out, message.data, message.size, NULL);
}

static void flow_send(void *ctx, pd_bytes message, int status, bool is_last)
{
  flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (add_message(f, message))
    f->is_done = true; /* a reader that is too slow, or no memory: the stream ends, and the client sees that it does */
  else if (!f->count++)
    f->status = status;
  f->is_last = f->is_last || is_last;
  f->spoke_ms = pd_clock_monotonic_ms();
  wake(f);
  pthread_mutex_unlock(&f->lock);
}

static void flow_done(void *ctx, int status)
{
  flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (!f->count) f->status = status;
  f->is_done = true;
  wake(f);
  pthread_mutex_unlock(&f->lock);
}

static void flow_session(void *ctx, const char *id)
{
  flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  snprintf(f->session, sizeof f->session, "%s", id);
  pthread_mutex_unlock(&f->lock);
}

static pd_mcp_out out_of(flow *f)
{
  return (pd_mcp_out){.send = flow_send, .done = flow_done, .session = flow_session, .ctx = f};
}

/* ---- streams ---- */

static ssize_t read_stream(void *ctx, uint64_t at, char *out, size_t max)
{
  flow *f = ctx;
  ssize_t got = 0;
  (void)at;
  pthread_mutex_lock(&f->lock);
  size_t left = f->out.size - f->sent;
  if (left) {
    got = (ssize_t)(left < max ? left : max);
    memcpy(out, f->out.data + f->sent, (size_t)got);
    f->sent += (size_t)got;
    if (f->sent == f->out.size) f->sent = f->out.size = 0;
  } else if (f->is_done) {
    got = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    f->is_suspended = true;
    MHD_suspend_connection(f->connection);
  }
  pthread_mutex_unlock(&f->lock);
  return got;
}

/* The response is gone: sent, or the client is. */
static void end_stream(void *ctx)
{
  flow *f = ctx;
  pd_mcp_http *http = f->http;
  pthread_mutex_lock(&http->lock);
  *f->link = f->next;
  if (f->next) f->next->link = f->link;
  pthread_mutex_unlock(&http->lock);
  pd_mcp_hang_up(http->mcp, f);
  pthread_mutex_lock(&f->lock);
  let_go(f);
}

static void stream(pd_request *request, flow *f)
{
  pd_mcp_http *http = f->http;
  pthread_mutex_lock(&f->lock);
  pd_code code = become_stream(f);
  pthread_mutex_unlock(&f->lock);
  request->stream = code ? NULL : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_stream, f, end_stream);
  if (!request->stream) {
    pd_mcp_hang_up(http->mcp, f);
    pd_reply_failure(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_NO_MEMORY, NULL, "Try again.", "out of memory");
    pthread_mutex_lock(&f->lock);
    let_go(f);
    return;
  }
  pthread_mutex_lock(&http->lock);
  f->next = http->flows;
  f->link = &http->flows;
  if (f->next) f->next->link = &f->next;
  http->flows = f;
  pthread_mutex_unlock(&http->lock);
  request->type = "text/event-stream";
  pd_reply_header(request, "X-Accel-Buffering", "no");
  request->status = MHD_HTTP_OK;
}

void pd_mcp_http_tick(pd_mcp_http *http)
{
  int64_t before_ms = pd_clock_monotonic_ms() - BEAT_MS;
  pthread_mutex_lock(&http->lock);
  for (flow *f = http->flows; f; f = f->next) {
    pthread_mutex_lock(&f->lock);
    if (f->is_suspended && f->spoke_ms < before_ms && pd_buf_append(&f->out, ": still here\n\n", 14, NULL) == PD_OK) {
      f->spoke_ms = pd_clock_monotonic_ms();
      wake(f);
    }
    pthread_mutex_unlock(&f->lock);
  }
  pthread_mutex_unlock(&http->lock);
  pd_mcp_tick(http->mcp);
}

void pd_mcp_http_drain(pd_mcp_http *http)
{
  pd_mcp_drain(http->mcp);
  pthread_mutex_lock(&http->lock);
  for (flow *f = http->flows; f; f = f->next) {
    pthread_mutex_lock(&f->lock);
    f->is_done = true;
    wake(f);
    pthread_mutex_unlock(&f->lock);
  }
  pthread_mutex_unlock(&http->lock);
}

bool pd_mcp_http_wait(pd_mcp_http *http, uint32_t timeout_ms)
{
  struct timespec end;
  int why = 0;
  clock_gettime(CLOCK_REALTIME, &end);
  pthread_mutex_lock(&http->lock);
  end.tv_sec += timeout_ms / 1000 + 1;
  while (http->beside && why != ETIMEDOUT) why = pthread_cond_timedwait(&http->ended, &http->lock, &end);
  bool is_over = !http->beside;
  pthread_mutex_unlock(&http->lock);
  return is_over;
}

/* ---- answering ---- */

/* One message, or none: a plain reply. The flow is over. */
static void reply_plain(pd_request *request, flow *f)
{
  pthread_mutex_lock(&f->lock);
  pd_buf_done(&request->out);
  request->out = f->out;
  f->out = (pd_buf){0};
  request->type = f->count ? "application/json" : NULL;
  request->status = (unsigned)f->status;
  let_go(f);
}

static void answer(pd_request *request, flow *f)
{
  pthread_mutex_lock(&f->lock);
  bool is_plain = f->is_done && f->count <= 1 && !f->is_stream;
  pthread_mutex_unlock(&f->lock);
  if (*f->session) pd_reply_header(request, "Mcp-Session-Id", f->session);
  if (is_plain)
    reply_plain(request, f);
  else
    stream(request, f);
}

/* JSON-RPC has its own shape of errors. */
static void refuse(pd_request *request, unsigned status, int code, const char *message)
{
  pd_json_writer w = {.out = &request->out};
  char number[16];
  snprintf(number, sizeof number, "%d", code);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "jsonrpc", "2.0");
  pd_json_key(&w, "id");
  pd_json_null(&w);
  pd_json_key(&w, "error");
  pd_json_open(&w, '{');
  pd_json_key(&w, "code");
  pd_json_raw(&w, pd_text(number));
  pd_json_put_text(&w, "message", message);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  request->type = "application/json";
  request->outcome = "Refused";
  pd_reply(request, status);
}

/* ---- beside the worker ---- */

/* A message that runs on its own thread: it outlives the request if the client goes away. */
typedef struct beside {
  flow *f;
  pd_buf body;
  pd_caller caller;
  pd_mcp_session *session;
  char *headers[3];
  pd_mcp_peer peer;
} beside;

static void free_beside(beside *b)
{
  for (size_t i = 0; i < COUNT_OF(b->headers); i++) free(b->headers[i]);
  pd_mcp_session_release(b->session);
  pd_buf_done(&b->body);
  free(b);
}

static bool enter(pd_mcp_http *http)
{
  pthread_mutex_lock(&http->lock);
  bool has_room = http->beside < BESIDE_MAX;
  if (has_room) http->beside++;
  pthread_mutex_unlock(&http->lock);
  return has_room;
}

/* The last touch of `http`: whoever waits for it may free it. */
static void leave(pd_mcp_http *http)
{
  pthread_mutex_lock(&http->lock);
  if (--http->beside == 0) pthread_cond_broadcast(&http->ended);
  pthread_mutex_unlock(&http->lock);
}

static void *run_beside(void *ctx)
{
  beside *b = ctx;
  pd_mcp_http *http = b->f->http;
  pd_mcp_out out = out_of(b->f);
  pd_mcp_handle(http->mcp, &b->peer, pd_buf_bytes(&b->body), &out);
  pthread_mutex_lock(&b->f->lock);
  let_go(b->f);
  free_beside(b);
  leave(http);
  return NULL;
}

static bool start_beside(pd_request *request, flow *f, const pd_mcp_peer *peer)
{
  pthread_t thread;
  if (!enter(f->http)) return false;
  beside *b = calloc(1, sizeof *b);
  if (!b) {
    leave(f->http);
    return false;
  }
  const char *given[] = {peer->version, peer->method, peer->name};
  for (size_t i = 0; i < COUNT_OF(given); i++) b->headers[i] = given[i] ? strdup(given[i]) : NULL;
  b->f = f;
  b->caller = request->caller;
  b->session = peer->session;
  b->body = request->body;
  request->body = (pd_buf){0};
  b->peer = *peer;
  b->peer.agent = b->caller.agent;
  if (b->peer.gate.call) b->peer.gate.ctx = &b->caller;
  b->peer.version = b->headers[0], b->peer.method = b->headers[1], b->peer.name = b->headers[2];
  f->refs++;
  if (pthread_create(&thread, NULL, run_beside, b)) {
    f->refs--;
    request->body = b->body;
    b->body = (pd_buf){0};
    b->session = NULL;
    free_beside(b);
    leave(f->http);
    return false;
  }
  pthread_detach(thread);
  return true;
}

/* Until there is something to answer with. */
static void await(flow *f)
{
  pthread_mutex_lock(&f->lock);
  while (!f->is_done && !(f->count && !f->is_last)) pthread_cond_wait(&f->changed, &f->lock);
  pthread_mutex_unlock(&f->lock);
}

static bool wants_progress(const pd_request *request)
{
  return request->body.size && memmem(request->body.data, request->body.size, "\"progressToken\"", 15) != NULL;
}

/* ---- the methods ---- */

static bool is_json(const pd_request *request)
{
  const char *type = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
  static const char json[] = "application/json";
  return type && strncasecmp(type, json, sizeof json - 1) == 0 && strchr("; \t", type[sizeof json - 1]);
}

/* False: an answer is in the request. */
static bool find_session(pd_request *request, pd_mcp_http *http, pd_mcp_session **out)
{
  const char *id = pd_request_header(request, "Mcp-Session-Id");
  pd_error err = {0};
  *out = NULL;
  if (!id) return true;
  pd_code code = pd_mcp_session_find(http->mcp, request->caller.agent, id, out, &err);
  if (!code) return true;
  refuse(request, code == PD_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_SERVICE_UNAVAILABLE, PD_MCP_INVALID_REQUEST, err.message);
  return false;
}

/* Tools are called as everything is: within the scopes of the token. */
static pd_code call_within_scopes(void *ctx, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  return pd_wire_call(ctx, who, capability, input, out, err);
}

/* Does the token let any call of it through? One that is limited to keys does not get here. */
static bool sees_by_scopes(void *ctx, const char *capability)
{
  return pd_caller_permits(ctx, capability, (pd_bytes){0}, NULL) == PD_OK;
}

/* What the caller may do, as far as MCP is concerned. */
static void admit(const pd_request *request, pd_mcp_peer *peer)
{
  peer->gate = (pd_mcp_gate){.call = call_within_scopes, .sees = sees_by_scopes, .ctx = (void *)(uintptr_t)&request->caller};
  peer->may_approve = !request->server->options->no_mcp_approvals;
}

static void post(pd_request *request, pd_mcp_http *http)
{
  pd_mcp_peer peer = {
    .agent = request->caller.agent,
    .is_http = true,
    .version = pd_request_header(request, "MCP-Protocol-Version"),
    .method = pd_request_header(request, "Mcp-Method"),
    .name = pd_request_header(request, "Mcp-Name"),
  };
  admit(request, &peer);
  if (!is_json(request)) {
    refuse(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, PD_MCP_INVALID_REQUEST, "a message has Content-Type: application/json");
    return;
  }
  if (!find_session(request, http, &peer.session)) return;
  flow *f = new_flow(http, request->connection);
  if (!f) {
    pd_mcp_session_release(peer.session);
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_MCP_INTERNAL_ERROR, "out of memory");
    return;
  }
  if (wants_progress(request) && start_beside(request, f, &peer)) {
    await(f);
  } else {
    pd_mcp_out out = out_of(f);
    pd_mcp_handle(http->mcp, &peer, pd_buf_bytes(&request->body), &out);
    pd_mcp_session_release(peer.session);
  }
  answer(request, f);
}

/* The stream of a legacy session. */
static void get(pd_request *request, pd_mcp_http *http)
{
  pd_mcp_session *session = NULL;
  pd_error err = {0};
  if (!find_session(request, http, &session)) return;
  if (!session) {
    request->allow = "POST, DELETE";
    refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED, PD_MCP_INVALID_REQUEST,
           "GET needs the Mcp-Session-Id of a session; subscriptions/listen needs none");
    return;
  }
  flow *f = new_flow(http, request->connection);
  pd_mcp_out out = f ? out_of(f) : (pd_mcp_out){0};
  pd_code code = f ? pd_mcp_session_stream(http->mcp, session, &out, &err) : PD_NO_MEMORY;
  pd_mcp_session_release(session);
  if (!code) {
    stream(request, f);
    return;
  }
  if (f) {
    pthread_mutex_lock(&f->lock);
    let_go(f);
  }
  refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_MCP_INTERNAL_ERROR, "out of memory");
}

static void delete_session(pd_request *request, pd_mcp_http *http)
{
  pd_mcp_session *session = NULL;
  if (!find_session(request, http, &session)) return;
  if (!session) {
    refuse(request, MHD_HTTP_BAD_REQUEST, PD_MCP_INVALID_REQUEST, "DELETE needs the Mcp-Session-Id of the session that ends");
    return;
  }
  pd_mcp_session_end(http->mcp, session);
  pd_mcp_session_release(session);
  pd_buf_clear(&request->out);
  request->type = NULL;
  request->status = MHD_HTTP_NO_CONTENT;
}

void pd_route_mcp(pd_request *request)
{
  pd_mcp_http *http = request->server->mcp;
  if (pd_caller_is_narrow(&request->caller))
    refuse(request, MHD_HTTP_FORBIDDEN, PD_MCP_INVALID_REQUEST,
           "resources cannot be limited to keys: use a token without prefixes for MCP");
  else if (!*request->caller.agent)
    refuse(request, MHD_HTTP_FORBIDDEN, PD_MCP_INVALID_REQUEST, "MCP serves an agent: use an agent's token, or name one in Perdure-Agent");
  else if (strcmp(request->caller.agent, "shared") == 0 || strcmp(request->caller.agent, "system") == 0)
    refuse(request, MHD_HTTP_FORBIDDEN, PD_MCP_INVALID_REQUEST,
           "MCP serves an agent, and 'shared' and 'system' are stores that are no agent's");
  else if (strcmp(request->method, "POST") == 0)
    post(request, http);
  else if (strcmp(request->method, "DELETE") == 0)
    delete_session(request, http);
  else
    get(request, http);
}

pd_lane pd_route_mcp_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_SLOW;
}
