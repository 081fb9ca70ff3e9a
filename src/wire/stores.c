/* stores.c: /v1/stores and /v1/stores/NAME/…: who may, and which function answers (stores.h). */
#include "wire/stores.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/number.h"

#include <stdio.h>

/* ---- what the functions share ---- */

pd_code pd_raw_number(const pd_raw_call *call, const char *name, uint64_t *out, pd_error *err)
{
  const char *text = pd_request_query(call->request, name);
  if (text && pd_u64_parse(text, out)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%s has to be a number, not '%.40s'", name, text ? text : "");
}

pd_code pd_raw_answer(pd_raw_call *call, const char *name, uint64_t number, pd_error *err)
{
  call->request->type = NULL;
  pd_json_writer w = {.out = &call->request->out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, name, number);
  pd_json_close(&w, '}');
  return w.code;
}

void pd_raw_audit(const pd_raw_call *call, const char *deed, const char *text, pd_code code, const pd_error *err, const pd_id *commit)
{
  const pd_caller *caller = &call->request->caller;
  char subject[PD_NAME_SIZE_MAX + 160];
  snprintf(subject, sizeof subject, "%s: %s, by %s%s", call->name, text, caller->has_token ? "token " : "the operator",
           caller->has_token ? caller->token->id : "");
  pd_deed done = {.name = deed, .subject = pd_text(subject), .outcome = code ? pd_error_name(err) : "ok", .commit = commit};
  pd_audit_tell(call->request->server->home, &done);
}

/* ---- a store as a whole ---- */

static pd_code describe(pd_raw_call *call, pd_error *err)
{
  uint64_t tail = 0;
  TRY(call->b->ops->log_tail(call->b, &tail, err));
  call->request->type = NULL;
  pd_json_writer w = {.out = &call->request->out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", call->name);
  pd_json_put_number(&w, "flags", call->b->ops->flags(call->b));
  pd_json_put_number(&w, "tail", tail);
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code compact(pd_raw_call *call, pd_error *err)
{
  if (call->b->ops->compact) TRY(call->b->ops->compact(call->b, err));
  pd_raw_audit(call, "store.compact", "all", PD_OK, NULL, NULL);
  return pd_raw_answer(call, "done", 1, err);
}

static void add_finding(void *ctx, const char *what)
{
  pd_json_text(ctx, pd_text(what));
}

static pd_code check(pd_raw_call *call, pd_error *err)
{
  pd_json_writer w = {.out = &call->request->out, .err = err};
  call->request->type = NULL;
  pd_json_open(&w, '{');
  pd_json_key(&w, "findings");
  pd_json_open(&w, '[');
  if (call->b->ops->check) TRY(call->b->ops->check(call->b, add_finding, &w, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code usage(pd_raw_call *call, pd_error *err)
{
  pd_backend_usage usage = {0};
  if (call->b->ops->usage) TRY(call->b->ops->usage(call->b, &usage, err));
  call->request->type = NULL;
  pd_json_writer w = {.out = &call->request->out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "log_bytes", usage.log_bytes);
  pd_json_put_number(&w, "bag_bytes", usage.bag_bytes);
  pd_json_put_number(&w, "bag_count", usage.bag_count);
  pd_json_put_number(&w, "disk_bytes", usage.disk_bytes);
  pd_json_close(&w, '}');
  return w.code;
}

/* ---- the table ---- */

static const struct verb {
  const char *method, *what; /* what ends with '/': something follows */
  pd_code (*run)(pd_raw_call *call, pd_error *err);
  pd_lane lane;
  bool writes, creates;
} verbs[] = {
  {"GET", "", describe, PD_LANE_SLOW, false, false},
  {"POST", "", describe, PD_LANE_WRITE, true, true},
  {"GET", "log", pd_raw_log_read, PD_LANE_SLOW, false, false},
  {"POST", "log", pd_raw_log_append, PD_LANE_WRITE, true, false},
  {"POST", "log/redact", pd_raw_log_redact, PD_LANE_SLOW, true, false},
  {"POST", "log/swap", pd_raw_log_swap, PD_LANE_SLOW, true, false},
  {"GET", "log/wait", pd_raw_log_wait, PD_LANE_SLOW, false, false},
  {"GET", "bag", pd_raw_bag_ids, PD_LANE_SLOW, true, false}, /* a list to sweep by: nobody else needs it */
  {"POST", "bag", pd_raw_bag_put, PD_LANE_WRITE, true, false},
  {"POST", "bag/mark", pd_raw_bag_mark, PD_LANE_WRITE, true, false},
  {"POST", "bag/sweep", pd_raw_bag_sweep, PD_LANE_SLOW, true, false},
  {"GET", "bag/", pd_raw_bag_get, PD_LANE_SLOW, false, false},
  {"POST", "compact", compact, PD_LANE_SLOW, true, false},
  {"GET", "check", check, PD_LANE_SLOW, false, false},
  {"GET", "usage", usage, PD_LANE_SLOW, false, false},
};

bool pd_store_verb_at(size_t index, const char **out_method, const char **out_what)
{
  if (index >= COUNT_OF(verbs)) return false;
  *out_method = verbs[index].method;
  *out_what = verbs[index].what;
  return true;
}

static const char *what_of(const pd_request *request)
{
  const char *slash = strchr(request->rest, '/');
  return slash ? slash + 1 : "";
}

static const struct verb *find_verb(const pd_request *request, const char **out_rest)
{
  const char *what = what_of(request);
  for (size_t i = 0; i < COUNT_OF(verbs); i++) {
    size_t size = strlen(verbs[i].what);
    bool has_rest = size && verbs[i].what[size - 1] == '/';
    if (strcmp(verbs[i].method, request->method) != 0) continue;
    if (has_rest ? strncmp(what, verbs[i].what, size) != 0 || !what[size] : strcmp(what, verbs[i].what) != 0) continue;
    *out_rest = what + size;
    return &verbs[i];
  }
  return NULL;
}

pd_lane pd_route_store_lane(pd_request *request)
{
  const char *rest;
  const struct verb *verb = find_verb(request, &rest);
  return verb ? verb->lane : PD_LANE_HERE;
}

/* ---- who may ---- */

/* K1 */
static pd_code judge(const pd_request *request, const char *name, bool writes, pd_error *err)
{
  const pd_caller *caller = &request->caller;
  pd_ctx who = pd_caller_ctx(caller);
  TRY(pd_authorise_operator(&who, writes ? "store.write" : "store.read", writes, NULL, err));
  if (strcmp(name, "system") != 0 || (!writes && caller->token->role == PD_ROLE_OPERATOR)) return PD_OK;
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "the store 'system' is written by the server alone, and read by the operator");
}

/* A remote command reads record by record: a line a minute is enough to tell that it did. */
static void audit_access(const pd_request *request, const char *name, bool writes, pd_code code, const pd_error *err)
{
  const pd_caller *caller = &request->caller;
  pd_access access = {
    .capability = writes ? "store.write" : "store.read",
    .agent = *caller->agent ? caller->agent : NULL,
    .token = caller->has_token ? caller->token->id : NULL,
    .subject = pd_text(name),
    .outcome = code ? pd_error_name(err) : "ok",
    .is_operator = caller->is_operator,
    .is_joined_by_minute = true,
  };
  pd_audit_access(request->server->home, &access);
}

pd_code pd_raw_permit(const pd_request *request, const char *name, bool writes, pd_error *err)
{
  pd_code code = judge(request, name, writes, err);
  if (code || !writes) audit_access(request, name, writes, code, err); /* what was written is told by its deed */
  return code;
}

/* ---- answering ---- */

static void put_tail(const pd_raw_call *call)
{
  char number[24];
  snprintf(number, sizeof number, "%llu", (unsigned long long)call->b->ops->log_tail_hint(call->b));
  pd_reply_header(call->request, "Perdure-Tail", number);
}

/* K5: who opens a store and who writes find in the log what was acknowledged before, and need not wait for its time to come. */
static pd_code flush(const pd_raw_call *call, const struct verb *verb, pd_error *err)
{
  pd_store *store = NULL;
  pd_server *server = call->request->server;
  if (!server->is_buffered || (*verb->what && !verb->writes)) return PD_OK;
  pd_grant grant;
  pd_ctx who = pd_caller_ctx(&call->request->caller);
  TRY(pd_authorise_operator(&who, verb->writes ? "store.write" : "store.read", verb->writes, &grant, err));
  pd_code code = pd_home_borrow(&grant, call->name, false, &store, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  code = pd_store_flush(store, err);
  pd_home_return(server->home, store);
  return code;
}

static pd_code answer(pd_raw_call *call, const struct verb *verb, pd_error *err)
{
  pd_request *request = call->request;
  size_t size = strcspn(request->rest, "/");
  if (size > PD_NAME_SIZE_MAX) return pd_error_set(err, PD_INVALID, "no store has so long a name");
  snprintf(call->name, sizeof call->name, "%.*s", (int)size, request->rest);
  TRY(pd_agent_check(call->name, err));
  if (!request->waiter) TRY(pd_raw_permit(request, call->name, verb->writes, err)); /* else it was asked before it waited */
  TRY(flush(call, verb, err));
  pd_code code = pd_raw_borrow(request->server->raw, call->name, verb->creates, &call->b, err);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_NOT_FOUND, "there is no store '%s' here", call->name);
  TRY(code);
  request->type = "application/octet-stream";
  code = verb->run(call, err);
  if (!request->park) put_tail(call);
  pd_raw_return(request->server->raw, call->b);
  return code;
}

void pd_route_store(pd_request *request)
{
  pd_raw_call call = {.request = request};
  pd_error err = {0};
  const struct verb *verb = find_verb(request, &call.what);
  pd_code code = verb ? answer(&call, verb, &err)
                      : pd_error_set(&err, PD_NOT_FOUND, "there is nothing at %.256s for %s", request->path, request->method);
  if (request->park) return;
  pd_request_wait_over(request);
  if (!code) return pd_reply(request, MHD_HTTP_OK);
  pd_buf_clear(&request->out);
  pd_reply_error(request, &err);
}

static void add_store(void *ctx, const char *store)
{
  pd_json_text(ctx, pd_text(store));
}

void pd_route_stores(pd_request *request)
{
  pd_error err = {0};
  pd_json_writer w = {.out = &request->out, .err = &err};
  pd_code code = pd_raw_permit(request, "", false, &err);
  pd_json_open(&w, '{');
  pd_json_key(&w, "stores");
  pd_json_open(&w, '[');
  if (!code) code = pd_raw_stores(request->server->raw, add_store, &w, &err);
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  if (!code && !w.code) return pd_reply(request, MHD_HTTP_OK);
  pd_buf_clear(&request->out);
  pd_reply_error(request, &err);
}

pd_lane pd_route_stores_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_SLOW;
}
