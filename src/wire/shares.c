/*
 * shares.c: what one agent and one token may have of what all of them share: requests in flight, their bytes, streams, requests a second.
 * An agent's limit is a sixteenth, of bytes an eighth, never more than half of what there is in all; a token that acts for many agents,
 * an operator's, has half of it. So the limits for all are never one's to use up. What an agent's own token has is part of what its agent
 * has, whose limit is no larger: it is not counted a second time.
 *
 * Bytes: a body is counted before there is memory for it: by its Content-Length, or as it grows. Its answer is counted in its place until
 * it is sent. How large an answer is shows only when it is made, and then it has to be given: so a caller whose answers wait is refused
 * before the next is made, and what it may have beyond its share is what runs at that moment. What is small is not counted: the number of
 * requests bounds it, and nobody's small requests fail because others send large ones.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/http.h"

#include <stdio.h>

#define NAME_SIZE (PD_TOKEN_ID_SIZE + 8)
#define SMALL ((size_t)16 * 1024)
#define NOBODY ":" /* who has neither an agent's name nor a token: the server's own user */

uint64_t pd_share_of(uint64_t wanted, uint64_t total)
{
  uint64_t half = total / 2 ? total / 2 : total;
  return wanted < half ? wanted : half;
}

/* A token that may act for many agents. */
static bool has_share(const pd_caller *caller)
{
  return caller->has_token && caller->token->role != PD_ROLE_AGENT;
}

/* No agent's name has a colon. */
static const char *token_name(const pd_caller *caller, char out[NAME_SIZE])
{
  snprintf(out, NAME_SIZE, "token:%s", caller->token->id);
  return out;
}

/* For the agent and for a token that has a share, or for neither. `*out_whose`: who has too much. */
static bool enter(pd_meter *meter, const pd_caller *caller, uint64_t agent_max, uint64_t total, const char **out_whose)
{
  char token[NAME_SIZE];
  *out_whose = "agent ";
  if (*caller->agent && !pd_meter_enter(meter, caller->agent, pd_share_of(agent_max, total))) return false;
  *out_whose = "the token of ";
  if (!has_share(caller) || pd_meter_enter(meter, token_name(caller, token), pd_share_of(total, total))) return true;
  if (*caller->agent) pd_meter_leave(meter, caller->agent);
  return false;
}

static void leave(pd_meter *meter, const pd_caller *caller)
{
  char token[NAME_SIZE];
  if (*caller->agent) pd_meter_leave(meter, caller->agent);
  if (has_share(caller)) pd_meter_leave(meter, token_name(caller, token));
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
                     "%s%s has as many watches and streams as its share of server.connections_max allows", whose,
                     name_of(&request->caller));
  else
    pd_reply_failure(request, MHD_HTTP_TOO_MANY_REQUESTS, PD_LIMIT, "TooManyWatchers", "Wait until others have closed theirs.",
                     "there are %llu watches and streams, and a quarter of server.connections_max is allowed", (unsigned long long)total);
  return false;
}

/* ---- bytes ---- */

/* The smaller shares hold one body at least. */
static uint64_t agent_share(const pd_wire_settings *settings)
{
  uint64_t total = settings->bytes_max, eighth = total / 8;
  return pd_share_of(eighth > settings->body_size_max ? eighth : settings->body_size_max, total);
}

uint64_t pd_bytes_share(const pd_request *request)
{
  const pd_wire_settings *settings = &request->server->settings;
  return *request->caller.agent ? agent_share(settings) : pd_share_of(settings->bytes_max, settings->bytes_max);
}

typedef struct account {
  const char *name;
  uint64_t max;
} account;

/* Where the caller's bytes are counted: one or two. */
static size_t accounts_of(const pd_request *request, char token[NAME_SIZE], account out[2])
{
  const pd_wire_settings *settings = &request->server->settings;
  const pd_caller *caller = &request->caller;
  uint64_t half = pd_share_of(settings->bytes_max, settings->bytes_max);
  size_t count = 0;
  if (*caller->agent) out[count++] = (account){caller->agent, agent_share(settings)};
  if (has_share(caller)) out[count++] = (account){token_name(caller, token), half};
  if (!count) out[count++] = (account){NOBODY, half};
  return count;
}

/* `is_forced`: whatever the limits say. */
static bool take_bytes(pd_request *request, size_t amount, bool is_forced, bool *out_is_own)
{
  pd_server *server = request->server;
  char token[NAME_SIZE];
  account accounts[2];
  size_t count = accounts_of(request, token, accounts), taken = 0;
  bool has_room = atomic_fetch_add(&server->byte_count, amount) + amount <= server->settings.bytes_max || is_forced;
  *out_is_own = has_room;
  for (; has_room && taken < count; taken++)
    if (!pd_meter_take(server->bytes, accounts[taken].name, amount, is_forced ? UINT64_MAX : accounts[taken].max)) break;
  if (has_room && taken == count) {
    request->held += amount;
    return true;
  }
  for (size_t i = 0; i < taken; i++) pd_meter_give(server->bytes, accounts[i].name, amount);
  atomic_fetch_sub(&server->byte_count, amount);
  return false;
}

static void refuse_bytes(pd_request *request, bool is_own)
{
  request->retry_after_s = 1;
  if (is_own)
    pd_reply_failure(request, MHD_HTTP_TOO_MANY_REQUESTS, PD_LIMIT, "TooManyRequests",
                     "Wait for answers, and read them, before sending or asking for more.",
                     "%s has as many bytes of requests and answers in flight as its share allows (it follows server.body_max)",
                     name_of(&request->caller));
  else
    pd_reply_failure(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_LIMIT, "Overloaded", "Wait a little, then try again.",
                     "there are as many bytes of requests and answers in flight as are allowed (it follows server.body_max)");
}

bool pd_bytes_hold(pd_request *request, size_t size)
{
  bool is_own = false;
  if (size <= SMALL || size <= request->held || take_bytes(request, size - request->held, false, &is_own)) return true;
  refuse_bytes(request, is_own);
  return false;
}

void pd_bytes_release(pd_request *request)
{
  char token[NAME_SIZE];
  account accounts[2];
  if (!request->held) return;
  size_t count = accounts_of(request, token, accounts);
  for (size_t i = 0; i < count; i++) pd_meter_give(request->server->bytes, accounts[i].name, request->held);
  atomic_fetch_sub(&request->server->byte_count, request->held);
  request->held = 0;
}

void pd_bytes_answer(pd_request *request)
{
  bool is_own;
  pd_buf_done(&request->body);
  pd_bytes_release(request);
  if (request->out.size > SMALL) (void)!take_bytes(request, request->out.size, true, &is_own);
}

/* If all together have too much, whoever has nothing else in flight is served even so. */
bool pd_bytes_are_over(pd_request *request)
{
  pd_server *server = request->server;
  char token[NAME_SIZE];
  account accounts[2];
  uint64_t all = atomic_load_explicit(&server->byte_count, memory_order_relaxed);
  if (all <= request->held || all < agent_share(&server->settings)) return false; /* nearly always */
  bool is_own = false, is_over = false;
  for (size_t i = 0, count = accounts_of(request, token, accounts); i < count && !is_own; i++) {
    uint64_t has = pd_meter_of(server->bytes, accounts[i].name), others = has > request->held ? has - request->held : 0;
    is_own = others >= accounts[i].max;
    is_over = is_over || (others && all - request->held >= server->settings.bytes_max);
  }
  if (is_own || is_over) refuse_bytes(request, is_own);
  return is_own || is_over;
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
  const pd_token_info *token = caller->token;
  char name[NAME_SIZE];
  uint64_t rate = token->rate ? token->rate : server->settings.rate, agent_rate = server->settings.agent_rate;
  if (caller->has_token && rate && !pd_rate_take(server->rates, token_name(caller, name), rate))
    return pd_error_named(err, PD_LIMIT, "TooManyRequests", "this token may ask %llu times a second", (unsigned long long)rate);
  if (*caller->agent && agent_rate && !pd_rate_take(server->rates, caller->agent, agent_rate))
    return pd_error_named(err, PD_LIMIT, "TooManyRequests", "agent %s may ask %llu times a second (server.agent_rate)", caller->agent,
                          (unsigned long long)agent_rate);
  return PD_OK;
}
