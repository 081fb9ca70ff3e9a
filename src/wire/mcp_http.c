/* mcp_http.c: see mcp_http.h. */
#include "wire/mcp_http.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_error.h"
#include "base/spawn.h"
#include "wire/mcp_flow.h"
#include "wire/mcp_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define BESIDE_MAX 64
#define BESIDE_STACK ((size_t)512 * 1024)
#define AGENT_BESIDE_MAX 8 /* of one agent; its other messages run on workers, of which it has a share, too */

struct pd_mcp_http {
  pd_mcp *mcp;
  pd_server *server;
  pd_mcp_flows flows;
  pd_meter *meter;      /* of threads beside, by agent */
  pthread_mutex_t lock; /* of what follows */
  unsigned beside;      /* threads that run a message of their own */
  pthread_cond_t ended;
};

pd_code pd_mcp_http_new(pd_mcp *mcp, pd_server *server, pd_mcp_http **out, pd_error *err)
{
  pd_mcp_http *http = calloc(1, sizeof *http);
  if (!http) return pd_error_memory(err, "the MCP server");
  pd_code code = pd_meter_new(&http->meter, err);
  if (!code) code = pd_mcp_flows_init(&http->flows, mcp, server->gone, err);
  if (code) {
    pd_meter_free(http->meter);
    free(http);
    return code;
  }
  http->mcp = mcp;
  http->server = server;
  pthread_mutex_init(&http->lock, NULL);
  pthread_cond_init(&http->ended, NULL);
  *out = http;
  return PD_OK;
}

void pd_mcp_http_free(pd_mcp_http *http)
{
  if (!http) return;
  pd_mcp_flows_done(&http->flows);
  pd_meter_free(http->meter);
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

void pd_mcp_http_drain(pd_mcp_http *http, bool is_end)
{
  pd_mcp_drain(http->mcp);
  pd_mcp_flows_drain(&http->flows, is_end);
}

bool pd_mcp_http_is_open(pd_mcp_http *http)
{
  return pd_mcp_flows_are_open(&http->flows);
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
  pd_json_rpc_error(&w, (pd_bytes){0}, code, message, (pd_bytes){0});
  request->type = "application/json";
  request->outcome = "Refused";
  pd_reply(request, status);
}

/* ---- messages that may outlive their request ---- */

/* One message with all that it needs: it may wait, or run on a thread of its own, and the request may be over before. */
typedef struct errand {
  pd_waiter waiter; /* first */
  pd_mcp_http *http;
  pd_mcp_flow *f;
  pd_mcp_job *job;
  pd_caller caller;
  pd_mcp_session *session;
  char *headers[3];
  pd_mcp_peer peer;
} errand;

static void free_errand(errand *e)
{
  for (size_t i = 0; i < COUNT_OF(e->headers); i++) free(e->headers[i]);
  pd_mcp_session_release(e->session);
  pd_mcp_flow_release(e->f);
  pd_caller_done(&e->caller);
  free(e);
}

/* Until there is an answer, or it is parked: then it is not ours any more. */
static void run_errand(errand *e)
{
  pd_waits *waits = e->http->server->waits;
  for (;;) {
    pd_waits_look(waits, &e->waiter);
    if (pd_mcp_run(e->http->mcp, &e->peer, e->job)) break;
    if (pd_waits_park(waits, &e->waiter)) return;
  }
  pd_mcp_flow_waiter(e->f, NULL, NULL);
  pd_waits_end(waits, &e->waiter);
  free_errand(e);
}

static void run_again(pd_job *job)
{
  run_errand((errand *)job);
}

/* Takes the session. NULL: no memory; then the flow may be done already. */
static errand *make_errand(pd_request *request, pd_mcp_http *http, pd_mcp_flow *f, const pd_mcp_peer *peer)
{
  errand *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  const char *given[] = {peer->version, peer->method, peer->name};
  for (size_t i = 0; i < COUNT_OF(given); i++) e->headers[i] = given[i] ? strdup(given[i]) : NULL;
  e->http = http;
  e->f = pd_mcp_flow_hold(f);
  pd_caller_copy(&request->caller, &e->caller);
  e->session = peer->session;
  e->peer = *peer;
  e->peer.agent = e->caller.agent;
  if (e->peer.gate.call) e->peer.gate.ctx = &e->caller;
  e->peer.realm = peer->realm ? e->caller.token->id : NULL;
  e->peer.token = peer->token ? e->caller.token : NULL;
  e->peer.version = e->headers[0], e->peer.method = e->headers[1], e->peer.name = e->headers[2];
  e->waiter = (pd_waiter){.job.run = run_again, .agent = e->caller.agent, .fd = -1}; /* the flow notices when the client leaves */
  e->peer.wait = &e->waiter.wait;
  pd_mcp_out out = pd_mcp_flow_out(f);
  e->job = pd_mcp_accept(http->mcp, &e->peer, pd_buf_bytes(&request->body), &out);
  if (e->job) {
    pd_mcp_flow_waiter(f, http->server->waits, &e->waiter);
    return e;
  }
  e->session = NULL;
  free_errand(e);
  return NULL;
}

/* ---- beside the worker ---- */

static bool enter(pd_mcp_http *http, const char *agent)
{
  if (!pd_meter_enter(http->meter, agent, AGENT_BESIDE_MAX)) return false;
  pthread_mutex_lock(&http->lock);
  bool has_room = http->beside < BESIDE_MAX;
  if (has_room) http->beside++;
  pthread_mutex_unlock(&http->lock);
  if (!has_room) pd_meter_leave(http->meter, agent);
  return has_room;
}

/* The last touch of `http`: whoever waits for it may free it. */
static void leave(pd_mcp_http *http, const char *agent)
{
  pd_meter_leave(http->meter, agent);
  pthread_mutex_lock(&http->lock);
  if (--http->beside == 0) pthread_cond_broadcast(&http->ended);
  pthread_mutex_unlock(&http->lock);
}

static void *run_beside(void *ctx)
{
  errand *e = ctx;
  pd_mcp_http *http = e->http;
  char agent[PD_NAME_SIZE_MAX + 1];
  memcpy(agent, e->caller.agent, sizeof agent);
  run_errand(e);
  leave(http, agent);
  return NULL;
}

static bool start_beside(errand *e)
{
  if (!enter(e->http, e->caller.agent)) return false;
  if (pd_spawn(NULL, BESIDE_STACK, run_beside, e) == 0) return true;
  leave(e->http, e->caller.agent);
  return false;
}

static bool has_word(const pd_request *request, const char *word)
{
  return request->body.size && memmem(request->body.data, request->body.size, word, strlen(word)) != NULL;
}

/* May it take long, so that a worker should not wait for it? A guess is enough: both ways give the same answers. What is no call is the
 * answer to a question of ours, and what was asked for goes on with it. */
static bool may_take_long(const pd_request *request)
{
  return has_word(request, "\"progressToken\"") || !has_word(request, "\"method\"");
}

/* May it wait for a message? As exact: in what is not an errand nothing waits. */
static bool may_wait(const pd_request *request)
{
  return has_word(request, "wait_ms");
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
  bool is_agents = !caller->has_token || caller->token->role == PD_ROLE_AGENT;
  return !is_agents || pd_caller_is_scoped(caller) ? caller->token->id : NULL;
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
  unsigned status = code == PD_NOT_FOUND ? MHD_HTTP_NOT_FOUND
                    : code == PD_LIMIT   ? MHD_HTTP_TOO_MANY_REQUESTS
                                         : MHD_HTTP_SERVICE_UNAVAILABLE;
  refuse(request, status, PD_MCP_INVALID_REQUEST, err.message);
  return false;
}

/* Tools are called as everything is: within the scopes of the token. */
static pd_code call_within_scopes(void *ctx, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  return pd_wire_call(ctx, who, capability, input, out, err);
}

static pd_code admit_by_rate(void *ctx, pd_error *err)
{
  return pd_rate_admits(ctx, err);
}

/* What the caller may do, as far as MCP is concerned. */
static void admit(const pd_request *request, pd_mcp_peer *peer)
{
  peer->gate = (pd_mcp_gate){.call = call_within_scopes, .admit = admit_by_rate, .ctx = (void *)(uintptr_t)&request->caller};
  peer->token = request->caller.has_token ? request->caller.token : NULL;
  peer->realm = realm_of(&request->caller);
  const pd_serve_options *options = request->server->options;
  peer->may_approve = options->mcp_approvals && !options->no_mcp_approvals;
}

static bool attend(pd_request *request)
{
  return pd_mcp_flow_attend(request->flow, request, takes_streams(request));
}

/* What the request attended to is there. */
static void answer(pd_request *request)
{
  pd_mcp_flow *f = request->flow;
  request->flow = NULL;
  pd_mcp_flow_answer(f, request);
  pd_mcp_flow_release(f);
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
  bool is_long = may_take_long(request);
  errand *e = is_long || may_wait(request) ? make_errand(request, http, f, &peer) : NULL;
  if (e && !(is_long && start_beside(e))) run_errand(e);
  if (!e) {
    pd_wait none = {.is_over = true};
    pd_mcp_out out = pd_mcp_flow_out(f);
    peer.wait = &none;
    pd_mcp_handle(http->mcp, &peer, pd_buf_bytes(&request->body), &out);
    pd_mcp_session_release(peer.session);
  }
  request->flow = f;
  if (e)
    request->park = attend;
  else
    answer(request);
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
  if (!pd_request_streams(request)) {
    pd_mcp_session_release(session);
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
  if (request->flow)
    answer(request);
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
