/* mcp_http.c: see mcp_http.h. */
#include "wire/mcp_http.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_flow.h"
#include "wire/mcp_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define BESIDE_MAX 64
#define EARLY_MS 1000 /* after this a stream begins, though there is nothing to say yet: the client can then be missed, and can come back */

struct pd_mcp_http {
  pd_mcp *mcp;
  pd_mcp_flows flows;
  pthread_mutex_t lock; /* of what follows */
  unsigned beside;      /* threads that run a message of their own */
  pthread_cond_t ended;
};

pd_code pd_mcp_http_new(pd_mcp *mcp, pd_mcp_http **out, pd_error *err)
{
  pd_mcp_http *http = calloc(1, sizeof *http);
  if (!http) return pd_error_memory(err, "the MCP server");
  pd_code code = pd_mcp_flows_init(&http->flows, mcp, err);
  if (code) {
    free(http);
    return code;
  }
  http->mcp = mcp;
  pthread_mutex_init(&http->lock, NULL);
  pthread_cond_init(&http->ended, NULL);
  *out = http;
  return PD_OK;
}

void pd_mcp_http_free(pd_mcp_http *http)
{
  if (!http) return;
  pd_mcp_flows_done(&http->flows);
  pthread_cond_destroy(&http->ended);
  pthread_mutex_destroy(&http->lock);
  free(http);
}

pd_mcp *pd_mcp_http_core(pd_mcp_http *http)
{
  return http->mcp;
}

void pd_mcp_http_tick(pd_mcp_http *http)
{
  pd_mcp_flows_tick(&http->flows);
  pd_mcp_tick(http->mcp);
}

void pd_mcp_http_drain(pd_mcp_http *http)
{
  pd_mcp_drain(http->mcp);
  pd_mcp_flows_drain(&http->flows);
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

/* ---- refusing ---- */

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
  pd_mcp_http *http;
  pd_mcp_flow *f;
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
  pd_mcp_http *http = b->http;
  pd_mcp_out out = pd_mcp_flow_out(b->f);
  pd_mcp_handle(http->mcp, &b->peer, pd_buf_bytes(&b->body), &out);
  pd_mcp_flow_release(b->f);
  free_beside(b);
  leave(http);
  return NULL;
}

static bool start_beside(pd_request *request, pd_mcp_http *http, pd_mcp_flow *f, const pd_mcp_peer *peer)
{
  pthread_t thread;
  if (!enter(http)) return false;
  beside *b = calloc(1, sizeof *b);
  if (!b) {
    leave(http);
    return false;
  }
  const char *given[] = {peer->version, peer->method, peer->name};
  for (size_t i = 0; i < COUNT_OF(given); i++) b->headers[i] = given[i] ? strdup(given[i]) : NULL;
  b->http = http;
  b->f = pd_mcp_flow_hold(f);
  b->caller = request->caller;
  b->session = peer->session;
  b->body = request->body;
  request->body = (pd_buf){0};
  b->peer = *peer;
  b->peer.agent = b->caller.agent;
  if (b->peer.gate.call) b->peer.gate.ctx = &b->caller;
  b->peer.realm = peer->realm ? b->caller.token.id : NULL;
  b->peer.version = b->headers[0], b->peer.method = b->headers[1], b->peer.name = b->headers[2];
  if (pthread_create(&thread, NULL, run_beside, b)) {
    pd_mcp_flow_release(f);
    request->body = b->body;
    b->body = (pd_buf){0};
    b->session = NULL;
    free_beside(b);
    leave(http);
    return false;
  }
  pthread_detach(thread);
  return true;
}

static bool has_word(const pd_request *request, const char *word)
{
  return request->body.size && memmem(request->body.data, request->body.size, word, strlen(word)) != NULL;
}

/* May it take long, so that a worker should not wait for it? A guess is enough: both ways give the same answers. What is no call is the
 * answer to a question of ours, and what was asked for goes on with it. */
static bool may_take_long(const pd_request *request)
{
  return has_word(request, "\"progressToken\"") || has_word(request, "\"wait_ms\"") || !has_word(request, "\"method\"");
}

static bool takes_streams(const pd_request *request)
{
  const char *accept = pd_request_header(request, MHD_HTTP_HEADER_ACCEPT);
  return !accept || strstr(accept, "text/event-stream") || strstr(accept, "*/*");
}

/* ---- the methods ---- */

static bool is_json(const pd_request *request)
{
  const char *type = pd_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
  static const char json[] = "application/json";
  return type && strncasecmp(type, json, sizeof json - 1) == 0 && strchr("; \t", type[sizeof json - 1]);
}

/* What a session hears of, its token may hear of: one that is narrowed has sessions of its own, and so has one that is not the agent's. */
static const char *realm_of(const pd_caller *caller)
{
  bool is_agents = !caller->has_token || caller->token.role == PD_ROLE_AGENT;
  return !is_agents || pd_caller_is_scoped(caller) ? caller->token.id : NULL;
}

/* False: an answer is in the request. */
static bool find_session(pd_request *request, pd_mcp_http *http, pd_mcp_session **out)
{
  const char *id = pd_request_header(request, "Mcp-Session-Id");
  pd_error err = {0};
  *out = NULL;
  if (!id) return true;
  pd_code code = pd_mcp_session_find(http->mcp, request->caller.agent, realm_of(&request->caller), id, out, &err);
  if (!code) return true;
  refuse(request, code == PD_NOT_FOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_SERVICE_UNAVAILABLE, PD_MCP_INVALID_REQUEST, err.message);
  return false;
}

/* Tools are called as everything is: within the scopes of the token. */
static pd_code call_within_scopes(void *ctx, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  return pd_wire_call(ctx, who, capability, input, out, err);
}

/* Is a call of it about keys, so that one that is narrowed to some may make it? */
static bool names_keys(const char *capability)
{
  pd_capability_info info;
  pd_json document;
  if (pd_capability_find(capability, &info, NULL) || pd_json_parse(pd_text(info.document), &document, NULL)) return false;
  pd_json properties = pd_json_member(pd_json_member(document, "inputs"), "properties");
  return pd_json_member(properties, "key").kind != PD_JSON_NONE || pd_json_member(properties, "prefix").kind != PD_JSON_NONE;
}

/* Does the token let such a call through? */
static bool sees_by_scopes(void *ctx, const char *capability, pd_bytes key)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  const pd_caller *caller = ctx;
  if (!pd_caller_is_narrow(caller)) return pd_caller_permits(caller, capability, (pd_bytes){0}, NULL) == PD_OK;
  if (!key.data && strncmp(capability, "session.", 8) != 0 && !names_keys(capability)) return false;
  pd_json_writer w = {.out = &input};
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", key.data ? key : pd_text(caller->token.prefixes[0]));
  pd_json_close(&w, '}');
  return !w.code && pd_caller_permits(caller, capability, pd_buf_bytes(&input), NULL) == PD_OK;
}

static const char *prefix_of_scopes(void *ctx, size_t index)
{
  const pd_caller *caller = ctx;
  bool is_there = caller->has_token && index < PD_TOKEN_SCOPES_MAX && caller->token.prefixes[index][0];
  return is_there ? caller->token.prefixes[index] : NULL;
}

/* What the caller may do, as far as MCP is concerned. */
static void admit(const pd_request *request, pd_mcp_peer *peer)
{
  peer->gate = (pd_mcp_gate){
    .call = call_within_scopes, .sees = sees_by_scopes, .prefix = prefix_of_scopes, .ctx = (void *)(uintptr_t)&request->caller};
  peer->token = request->caller.has_token ? request->caller.token.id : NULL;
  peer->realm = realm_of(&request->caller);
  const pd_serve_options *options = request->server->options;
  peer->may_approve = options->mcp_approvals && !options->no_mcp_approvals;
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
  bool is_modern = peer.version && strcmp(peer.version, PD_MCP_MODERN) == 0;
  pd_mcp_flow *f = pd_mcp_flow_new(&http->flows, is_modern ? NULL : peer.session, false);
  if (!f) {
    pd_mcp_session_release(peer.session);
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_MCP_INTERNAL_ERROR, "out of memory");
    return;
  }
  if (may_take_long(request) && start_beside(request, http, f, &peer)) {
    pd_mcp_flow_await(f, takes_streams(request) ? EARLY_MS : UINT32_MAX);
  } else {
    pd_mcp_out out = pd_mcp_flow_out(f);
    pd_mcp_handle(http->mcp, &peer, pd_buf_bytes(&request->body), &out);
    pd_mcp_session_release(peer.session);
  }
  pd_mcp_flow_answer(f, request);
  pd_mcp_flow_release(f);
}

/* A stream of the session from now on. */
static void begin_stream(pd_request *request, pd_mcp_http *http, pd_mcp_session *session)
{
  pd_error err = {0};
  pd_mcp_flow *f = pd_mcp_flow_new(&http->flows, session, true);
  pd_mcp_out out = f ? pd_mcp_flow_out(f) : (pd_mcp_out){0};
  if (f && pd_mcp_session_stream(http->mcp, session, &out, &err) == PD_OK)
    pd_mcp_flow_stream(f, request);
  else
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_MCP_INTERNAL_ERROR, "out of memory");
  if (f) pd_mcp_flow_release(f);
}

/* The stream of a legacy session; or, with Last-Event-ID, any of its streams from there on. */
static void get(pd_request *request, pd_mcp_http *http)
{
  pd_mcp_session *session = NULL;
  const char *event = pd_request_header(request, "Last-Event-ID");
  if (!find_session(request, http, &session)) return;
  if (!session) {
    request->allow = "POST, DELETE";
    refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED, PD_MCP_INVALID_REQUEST,
           "GET needs the Mcp-Session-Id of a session; subscriptions/listen needs none");
    return;
  }
  pd_mcp_resumed how = event ? pd_mcp_flow_resume(&http->flows, request, pd_mcp_session_id(session), event) : PD_MCP_ANEW;
  if (how == PD_MCP_RESUMED) pd_reply_header(request, "Perdure-Resumed", "1"); /* for the bridge: ANEW looks the same */
  if (how == PD_MCP_ANEW) begin_stream(request, http, session);
  if (how == PD_MCP_LOST)
    refuse(request, MHD_HTTP_BAD_REQUEST, PD_MCP_INVALID_REQUEST,
           "Last-Event-ID: what followed that event is not kept any more; make the request again");
  pd_mcp_session_release(session);
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
  pd_mcp_flows_forget(&http->flows, pd_mcp_session_id(session));
  pd_mcp_session_release(session);
  pd_buf_clear(&request->out);
  request->type = NULL;
  request->status = MHD_HTTP_NO_CONTENT;
}

void pd_route_mcp(pd_request *request)
{
  pd_mcp_http *http = request->server->mcp;
  if (!*request->caller.agent)
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
