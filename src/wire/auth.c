/* auth.c: who calls. */
#include "base/base.h"
#include "wire/http.h"

#include <stdio.h>

/* Perdure-Agent, Perdure-Session, Perdure-Role: names that the caller gives. */
static bool take_names(pd_request *request)
{
  pd_caller *caller = &request->caller;
  const char *agent = pd_request_header(request, "Perdure-Agent"), *session = pd_request_header(request, "Perdure-Session");
  const char *role = pd_request_header(request, "Perdure-Role");
  pd_error err = {0};
  if (agent && *agent && pd_agent_check(agent, &err)) {
    pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput", "Name an agent: letters, digits, '.', '_' and '-'.",
                     "Perdure-Agent: %s", err.message);
    return false;
  }
  if (session && strlen(session) >= sizeof caller->session) {
    pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput", "Use the session_id that session.begin answered.",
                     "Perdure-Session: that is no session's id");
    return false;
  }
  if (role && strcmp(role, "agent") != 0 && strcmp(role, "operator") != 0) {
    pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput", "Use agent or operator.",
                     "Perdure-Role: there is no role '%.40s'", role);
    return false;
  }
  snprintf(caller->agent, sizeof caller->agent, "%s", agent ? agent : "");
  snprintf(caller->session, sizeof caller->session, "%s", session ? session : "");
  caller->is_operator = role && strcmp(role, "operator") == 0;
  if (!*caller->agent && !caller->is_operator) snprintf(caller->agent, sizeof caller->agent, "main");
  return true;
}

bool pd_auth_admits(pd_request *request)
{
  return take_names(request);
}
