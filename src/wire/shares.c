/*
 * shares.c: what one agent and one token may have of what all of them share: requests in flight, streams, requests a second. An agent's
 * limit is its setting (server.agent_…), and never more than half of what there is in all; a token, which may be an operator's that acts
 * for many agents, has half of it. So the limits for all are never one's to use up.
 */
#include "base/base.h"
#include "base/error.h"
#include "wire/http.h"

#include <stdio.h>

#define NAME_SIZE (PD_TOKEN_ID_SIZE + 8)

uint64_t pd_share_of(uint64_t wanted, uint64_t total)
{
  uint64_t half = total / 2 ? total / 2 : total;
  return wanted < half ? wanted : half;
}

/* No agent's name has a colon. "": there is no token. */
static const char *token_name(const pd_caller *caller, char out[NAME_SIZE])
{
  snprintf(out, NAME_SIZE, "%s%s", caller->has_token ? "token:" : "", caller->has_token ? caller->token.id : "");
  return out;
}

/* For the agent and for the token, or for neither. `*out_whose`: who has too much. */
static bool enter(pd_meter *meter, const pd_caller *caller, uint64_t agent_max, uint64_t total, const char **out_whose)
{
  char token[NAME_SIZE];
  *out_whose = "agent ";
  if (*caller->agent && !pd_meter_enter(meter, caller->agent, pd_share_of(agent_max, total))) return false;
  *out_whose = "the token of ";
  if (!*token_name(caller, token) || pd_meter_enter(meter, token, pd_share_of(total, total))) return true;
  if (*caller->agent) pd_meter_leave(meter, caller->agent);
  return false;
}

static void leave(pd_meter *meter, const pd_caller *caller)
{
  char token[NAME_SIZE];
  if (*caller->agent) pd_meter_leave(meter, caller->agent);
  if (*token_name(caller, token)) pd_meter_leave(meter, token);
}

static const char *name_of(const pd_caller *caller)
{
  return *caller->agent ? caller->agent : "the operator";
}

/* ---- in flight ---- */

bool pd_shares_enter(pd_request *request)
{
  pd_server *server = request->server;
  const pd_wire_settings *settings = &server->settings;
  const char *whose = "";
  bool has_room = atomic_fetch_add(&server->in_flight, 1) < settings->in_flight_max;
  request->is_counted = has_room && enter(server->meter, &request->caller, settings->agent_in_flight_max, settings->in_flight_max, &whose);
  if (request->is_counted) return true;
  atomic_fetch_sub(&server->in_flight, 1);
  request->retry_after_s = 1;
  pd_reply_failure(request, MHD_HTTP_TOO_MANY_REQUESTS, PD_LIMIT, "TooManyRequests", "Wait for answers before asking more.",
                   "too many requests are in flight%s%s%s", has_room ? " for " : "", has_room ? whose : "",
                   has_room ? name_of(&request->caller) : "");
  return false;
}

/* ---- streams ---- */

bool pd_request_streams(pd_request *request)
{
  if (request->is_streaming) return true;
  pd_server *server = request->server;
  uint64_t total = server->settings.watcher_count_max;
  const char *whose = "";
  bool has_room = atomic_fetch_add(&server->stream_count, 1) < total;
  request->is_streaming = has_room && enter(server->streams, &request->caller, server->settings.agent_watcher_count_max, total, &whose);
  if (request->is_streaming) return true;
  atomic_fetch_sub(&server->stream_count, 1);
  request->retry_after_s = 1;
  if (has_room)
    pd_reply_failure(request, MHD_HTTP_TOO_MANY_REQUESTS, PD_LIMIT, "TooManyWatchers", "Close a stream before opening another.",
                     "%s%s has as many watches and streams as server.agent_watchers_max and half of server.watchers_max allow", whose,
                     name_of(&request->caller));
  else
    pd_reply_failure(request, MHD_HTTP_TOO_MANY_REQUESTS, PD_LIMIT, "TooManyWatchers", "Wait until others have closed theirs.",
                     "there are %llu watches and streams, as many as server.watchers_max allows", (unsigned long long)total);
  return false;
}

/* ---- both ---- */

void pd_request_leave(pd_request *request)
{
  if (!request->is_counted) return;
  request->is_counted = false;
  atomic_fetch_sub(&request->server->in_flight, 1);
  leave(request->server->meter, &request->caller);
}

void pd_request_stream_over(pd_request *request)
{
  if (!request->is_streaming) return;
  request->is_streaming = false;
  atomic_fetch_sub(&request->server->stream_count, 1);
  leave(request->server->streams, &request->caller);
}

/* ---- rates ---- */

pd_code pd_rate_admits(const pd_caller *caller, pd_error *err)
{
  pd_server *server = caller->server;
  const pd_token_info *token = &caller->token;
  char name[NAME_SIZE];
  uint64_t rate = token->rate ? token->rate : server->settings.rate, agent_rate = server->settings.agent_rate;
  if (caller->has_token && rate && !pd_rate_take(server->rates, token_name(caller, name), rate))
    return pd_error_named(err, PD_LIMIT, "TooManyRequests", "this token may ask %llu times a second", (unsigned long long)rate);
  if (*caller->agent && agent_rate && !pd_rate_take(server->rates, caller->agent, agent_rate))
    return pd_error_named(err, PD_LIMIT, "TooManyRequests", "agent %s may ask %llu times a second (server.agent_rate)", caller->agent,
                          (unsigned long long)agent_rate);
  return PD_OK;
}
