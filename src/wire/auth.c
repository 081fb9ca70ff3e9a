/*
 * auth.c: who calls. By a token (Authorization: Bearer …); over the Unix socket by the peer's user, if it is the server's own, who could
 * open the files anyway; with --no-auth by what the request says.
 *
 * An agent's token is for that agent alone. The operator and the auditor may name one with Perdure-Agent, and be no more than that agent
 * with Perdure-Role: agent.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "wire/http.h"

#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* Who calls without a token: nothing is known but the role. */
static const pd_token_info nobody[] = {{.role = PD_ROLE_AGENT}, {.role = PD_ROLE_OPERATOR}};

void pd_caller_init(pd_caller *caller, pd_server *server)
{
  *caller = (pd_caller){.server = server, .token = &nobody[0]};
}

void pd_caller_copy(const pd_caller *from, pd_caller *to)
{
  *to = *from;
  if (to->has_token) pd_token_hold(to->token);
}

void pd_caller_done(pd_caller *caller)
{
  if (caller->has_token) pd_token_release(caller->token);
  caller->has_token = false;
}

static bool refuse_token(pd_request *request, const char *token_id, unsigned status, const char *name, const char *hint,
                         const char *message)
{
  if (status != MHD_HTTP_BAD_REQUEST) {
    const pd_caller *caller = &request->caller;
    pd_access refused = {
      .capability = "token.refuse",
      .agent = *caller->token->agent ? caller->token->agent : NULL,
      .token = *token_id ? token_id : NULL,
      .outcome = name,
      .is_joined_by_minute = true,
    };
    pd_audit_access(request->server->home, &refused);
  }
  pd_reply_failure(request, status, status == MHD_HTTP_BAD_REQUEST ? PD_INVALID : PD_DENIED, name, hint, "%s", message);
  return false;
}

static bool refuse(pd_request *request, unsigned status, const char *name, const char *hint, const char *message)
{
  return refuse_token(request, request->caller.token->id, status, name, hint, message);
}

/* ---- names ---- */

static bool take_session(pd_request *request)
{
  const char *session = pd_request_header(request, "Perdure-Session");
  if (session && strlen(session) >= sizeof request->caller.session)
    return refuse(request, MHD_HTTP_BAD_REQUEST, "InvalidInput", "Use the session_id that session.begin answered.",
                  "Perdure-Session: that is no session's id");
  if (session) memcpy(request->caller.session, session, strlen(session) + 1);
  return true;
}

/* Perdure-Agent, for those who may be anybody. */
static bool take_agent(pd_request *request)
{
  const char *agent = pd_request_header(request, "Perdure-Agent");
  if (!agent || !*agent) return true;
  pd_error err = {0};
  if (pd_agent_check(agent, &err)) {
    pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput", "Name an agent: letters, digits, '.', '_' and '-'.",
                     "Perdure-Agent: %s", err.message);
    return false;
  }
  memcpy(request->caller.agent, agent, strlen(agent) + 1); /* it fits, or it would be no name */
  return true;
}

/* ---- without a token ---- */

/* Perdure-Role: agent (and then `main` if none is named) or operator. */
static bool take_role(pd_request *request, const char *otherwise)
{
  pd_caller *caller = &request->caller;
  const char *role = pd_request_header(request, "Perdure-Role");
  if (!role) role = *caller->agent ? "agent" : otherwise;
  if (strcmp(role, "agent") != 0 && strcmp(role, "operator") != 0)
    return refuse(request, MHD_HTTP_BAD_REQUEST, "InvalidInput", "Use agent or operator.", "Perdure-Role: there is no such role");
  caller->is_operator = strcmp(role, "operator") == 0;
  caller->token = &nobody[caller->is_operator];
  if (!*caller->agent && !caller->is_operator) memcpy(caller->agent, "main", sizeof "main");
  return true;
}

static bool is_own_user(const pd_request *request)
{
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (!request->conn || !request->conn->listener->is_unix) return false;
  return getsockopt(request->conn->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static bool is_home_command(const pd_request *request)
{
  return request->conn && request->conn->listener->is_home;
}

/* ---- with one ---- */

static const char *token_of(const pd_request *request)
{
  const char *given = pd_request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
  if (!given || strncasecmp(given, "Bearer ", 7) != 0) return NULL;
  given += 7;
  while (*given == ' ') given++;
  return given;
}

/* The operator, or the auditor, as an agent: with no more than both may do. So that whoever works for both needs one token. */
static bool step_down(pd_caller *caller)
{
  caller->is_operator = false;
  if (!*caller->agent) snprintf(caller->agent, sizeof caller->agent, "main");
  return true;
}

/* Held for the caller. */
static pd_code look_up(pd_request *request, const char *text, pd_error *err)
{
  pd_home *home = request->server->home;
  const pd_token_info **token = &request->caller.token;
  if (!request->conn) return pd_token_find(home, text, token, err);
  return pd_token_find_again(home, text, &request->conn->known, token, err);
}

bool pd_auth_must_wait(pd_request *request)
{
  pd_caller *caller = &request->caller;
  const char *text = request->server->options->no_auth && !is_home_command(request) ? NULL : token_of(request);
  if (!text) return false;
  pd_disk_refuse();
  caller->has_token = look_up(request, text, NULL) == PD_OK;
  bool is_refused = pd_disk_allow();
  if (is_refused && caller->has_token) pd_token_release(caller->token); /* by what it knew: that may be of before */
  if (is_refused) caller->has_token = false;
  if (!caller->has_token) caller->token = &nobody[0];
  return !caller->has_token;
}

static bool take_token(pd_request *request, const char *text)
{
  pd_caller *caller = &request->caller;
  pd_error err = {0};
  const char *agent = pd_request_header(request, "Perdure-Agent"), *role = pd_request_header(request, "Perdure-Role");
  char claimed[PD_TOKEN_ID_SIZE] = "";
  pd_code code = caller->has_token ? PD_OK : look_up(request, text, &err);
  if (code && code != PD_DENIED) {
    pd_reply_error(request, &err);
    return false;
  }
  if (code) {
    if (!pd_token_claimed(request->server->home, text, claimed)) claimed[0] = 0;
    return refuse_token(request, claimed, MHD_HTTP_UNAUTHORIZED, "Unauthorized", "Ask the operator for a token: perdure token create.",
                        err.message);
  }
  caller->has_token = true;
  caller->is_operator = caller->token->role != PD_ROLE_AGENT;
  if (role && strcmp(role, "agent") == 0 && caller->is_operator) return take_agent(request) && step_down(caller);
  if (role && strcmp(role, pd_role_name(caller->token->role)) != 0)
    return refuse(request, MHD_HTTP_FORBIDDEN, "PermissionDenied", "Leave Perdure-Role out: the token says it.",
                  "the token is of another role");
  if (caller->is_operator) return take_agent(request);
  if (agent && strcmp(agent, caller->token->agent) != 0)
    return refuse(request, MHD_HTTP_FORBIDDEN, "PermissionDenied", "Leave Perdure-Agent out: the token says it.",
                  "the token is another agent's");
  snprintf(caller->agent, sizeof caller->agent, "%s", caller->token->agent);
  return true;
}

static bool is_in_rate(pd_request *request)
{
  pd_error err = {0};
  if (pd_rate_admits(&request->caller, &err) == PD_OK) return true;
  request->retry_after_s = 1;
  pd_reply_failure(request, MHD_HTTP_TOO_MANY_REQUESTS, PD_LIMIT, "TooManyRequests", "Ask more slowly.", "%s", err.message);
  return false;
}

static bool find_caller(pd_request *request)
{
  const char *text = token_of(request);
  if (!take_session(request)) return false;
  if (request->server->options->no_auth && !is_home_command(request))
    return take_agent(request) && take_role(request, "agent") && is_in_rate(request);
  if (text) return take_token(request, text) && is_in_rate(request);
  if (is_own_user(request)) {
    request->caller.is_local = is_home_command(request);
    return take_agent(request) && take_role(request, "operator") && is_in_rate(request);
  }
  return refuse(request, MHD_HTTP_UNAUTHORIZED, "Unauthorized",
                "Send Authorization: Bearer TOKEN (perdure --token-file FILE, PERDURE_TOKEN); perdure token create makes one.",
                "who calls? There is no token");
}

/* What is recorded as the session of a call was one: another name only reaches the capabilities about sessions, which refuse it by its
 * name. The operator who acts for no agent may name anybody's. */
static void check_session(pd_caller *caller)
{
  caller->is_session_live =
    *caller->session && pd_session_is_alive(caller->server->home, *caller->agent ? caller->agent : NULL, caller->session);
}

bool pd_auth_admits(pd_request *request)
{
  if (!find_caller(request)) return false;
  check_session(&request->caller);
  return true;
}

/* ---- what a caller may do ---- */

pd_ctx pd_caller_ctx(const pd_caller *caller)
{
  return (pd_ctx){
    .home = caller->server->home,
    .agent = *caller->agent ? caller->agent : NULL,
    .session = caller->is_session_live ? caller->session : NULL,
    .is_operator = caller->is_operator,
    .is_onlooker = caller->token->role == PD_ROLE_AUDITOR,
    .is_remote = !caller->is_local,
    .token = caller->has_token ? caller->token : NULL,
  };
}

void pd_caller_audit(const pd_caller *caller, const char *capability, pd_bytes subject, pd_code code, const pd_error *err)
{
  pd_access access = {
    .capability = capability,
    .agent = *caller->agent ? caller->agent : NULL,
    .session = caller->is_session_live ? caller->session : NULL,
    .token = caller->has_token ? caller->token->id : NULL,
    .subject = subject,
    .outcome = code ? pd_error_name(err) : "ok",
    .is_operator = caller->is_operator,
  };
  pd_audit_access(caller->server->home, &access);
}

bool pd_caller_is_narrow(const pd_caller *caller)
{
  return caller->has_token && caller->token->prefixes[0][0];
}

bool pd_caller_is_scoped(const pd_caller *caller)
{
  return pd_caller_is_narrow(caller) || (caller->has_token && caller->token->capabilities[0][0]);
}

bool pd_caller_sees_hidden(const pd_caller *caller)
{
  return caller->is_operator && !pd_caller_is_scoped(caller);
}
