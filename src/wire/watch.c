/* watch.c: GET /v1/watch: changes as they happen, as server-sent events. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/sse.h"

pd_lane pd_route_watch_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_WATCH;
}

pd_code pd_sse_from(const char *last, const char *from, pd_watch_cursor *out, pd_error *err)
{
  const char *text = last && *last ? last : from && *from ? from : "now";
  if (strcmp(text, "now") == 0) return PD_OK;
  if (strcmp(text, "start") == 0) {
    *out = (pd_watch_cursor){.seq = 1};
    return PD_OK;
  }
  if (pd_watch_cursor_parse(text, out) && out->seq) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s is '%.60s'; it must be the id of an event, start or now",
                        last && *last ? "Last-Event-ID" : "from", text);
}

static pd_code begin(pd_request *request, pd_error *err)
{
  const char *store = pd_request_query(request, "store"), *prefix = pd_request_query(request, "prefix"),
             *ref = pd_request_query(request, "ref");
  const pd_caller *caller = &request->caller;
  pd_hub_request wanted = {
    .name = store && *store  ? store
            : *caller->agent ? caller->agent
                             : "shared",
    .options = {.prefix = pd_text(prefix ? prefix : ""), .ref = ref && *ref ? ref : "main"},
    .caller = caller,
    .connection = request->connection,
    .fd = request->conn ? request->conn->fd : -1,
    .is_direct = request->conn && !request->conn->listener->is_tls,
  };
  if (strcmp(wanted.options.ref, "*") == 0) wanted.options.ref = NULL;
  const char *live = pd_request_query(request, "live");
  wanted.wants_live = live && strcmp(live, "true") == 0;
  wanted.is_open = pd_caller_sees_hidden(caller);
  TRY(pd_sse_from(pd_request_header(request, "Last-Event-ID"), pd_request_query(request, "from"), &wanted.options.from, err));
  bool is_shared = strcmp(wanted.name, "shared") == 0, is_own = strcmp(wanted.name, caller->agent) == 0;
  bool is_auditor = caller->token->role == PD_ROLE_AUDITOR; /* who changes nothing: makes no store, and needs no leave to subscribe */
  const char *like = !is_shared ? "state.persistent.list" : is_auditor ? "state.shared.list" : "state.shared.watch";
  wanted.like = like;
  wanted.policy_epoch = pd_policy_epoch(request->server->home);
  TRY(pd_read_permit(request, wanted.name, like, prefix, err));
  wanted.grant = &request->grant;
  pd_code code = PD_OK;
  if (!wanted.is_open && wanted.options.ref && pd_history_hides(wanted.options.ref))
    code = pd_error_named(err, PD_DENIED, "PermissionDenied", "the ref '%.200s' is not followed here", wanted.options.ref);
  if (!code) code = pd_read_store(request, wanted.name, !is_auditor && (is_shared || is_own), &wanted.store, err);
  if (!code) code = pd_hub_add(request->server->hub, &wanted, &request->stream, err);
  if (code) pd_home_return(request->server->home, wanted.store);
  pd_read_audit(request, wanted.name, like, prefix, code, err);
  return code;
}

void pd_route_watch(pd_request *request)
{
  pd_error err = {0};
  if (!pd_request_streams(request)) return;
  if (begin(request, &err)) {
    pd_reply_error(request, &err);
    return;
  }
  request->type = "text/event-stream";
  pd_reply_header(request, "X-Accel-Buffering", "no");
  pd_reply(request, MHD_HTTP_OK);
}
