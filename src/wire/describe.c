/*
 * describe.c: what there is: the capabilities as they are, and the OpenAPI 3.1 document that is made of them. Both are made once, when the
 * server opens: the capabilities are part of the program.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "wire/http.h"

#include <stdio.h>

/* ---- the document ---- */

static void put_raw(pd_json_writer *w, const char *key, const char *json)
{
  pd_json_key(w, key);
  pd_json_raw(w, pd_text(json));
}

static void put_schema(pd_json_writer *w, const char *description, pd_json schema)
{
  pd_json_open(w, '{');
  if (description) pd_json_put_text(w, "description", description);
  pd_json_key(w, "content");
  pd_json_open(w, '{');
  pd_json_key(w, "application/json");
  pd_json_open(w, '{');
  pd_json_key(w, "schema");
  pd_json_value(w, schema);
  pd_json_close(w, '}');
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}

static void put_call(pd_json_writer *w, const pd_capability_info *info, pd_json document)
{
  char path[160];
  snprintf(path, sizeof path, "/v1/call/%s", info->name);
  pd_json_key(w, path);
  pd_json_open(w, '{');
  pd_json_key(w, "post");
  pd_json_open(w, '{');
  pd_json_put_text(w, "operationId", info->name);
  pd_json_put_text(w, "summary", info->summary);
  pd_json_put_value(w, "description", pd_json_member(document, "when_to_use"));
  pd_json_put_value(w, "tags", pd_json_member(document, "tags"));
  pd_json_put_text(w, "x-permission", pd_permission_name(info->permission));
  pd_json_put_value(w, "x-errors", pd_json_member(document, "errors"));
  put_raw(w, "parameters", "[{\"$ref\":\"#/components/parameters/agent\"},{\"$ref\":\"#/components/parameters/session\"}]");
  pd_json_key(w, "requestBody");
  put_schema(w, NULL, pd_json_member(document, "inputs"));
  pd_json_key(w, "responses");
  pd_json_open(w, '{');
  pd_json_key(w, "200");
  put_schema(w, "The capability's answer.", pd_json_member(document, "outputs"));
  put_raw(w, "default", "{\"$ref\":\"#/components/responses/error\"}");
  pd_json_close(w, '}');
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}

/* What is no capability. */
/* clang-format off */
#define OK_JSON "\"responses\":{\"200\":{\"description\":\"ok\"},\"default\":{\"$ref\":\"#/components/responses/error\"}}"
#define PARAM(name, where, about)                                                                                                         \
  "{\"name\":\"" name "\",\"in\":\"" where "\",\"description\":\"" about "\",\"schema\":{\"type\":\"string\"}}"
#define QUERY(name, about) PARAM(name, "query", about)
#define IN_PATH(name, about)                                                                                                              \
  "{\"name\":\"" name "\",\"in\":\"path\",\"required\":true,\"description\":\"" about "\",\"schema\":{\"type\":\"string\"}}"
#define AGENT_PATH IN_PATH("agent", "An agent's name, or shared.")
#define AT_QUERY QUERY("at", "A point in history: a ref, commit id, main~3, @TIME.")
#define PREFIX_QUERY QUERY("prefix", "Only keys that begin with it.")
#define GET(summary, params) "{\"get\":{\"summary\":\"" summary "\",\"parameters\":[" params "]," OK_JSON "}}"
#define POST(summary, params) "{\"post\":{\"summary\":\"" summary "\",\"parameters\":[" params "]," OK_JSON "}}"
#define GET_OPEN(summary) "{\"get\":{\"summary\":\"" summary "\",\"security\":[]," OK_JSON "}}"
static const struct {
  const char *path, *item;
} others[] = {
  {"/v1/capabilities", GET("Every capability, as its file has it", "")},
  {"/v1/capabilities/{name}", GET("One capability", IN_PATH("name", "The capability's name."))},
  {"/v1/agents/{agent}/state", GET("Keys of an agent's state; ETag is the commit", AGENT_PATH "," AT_QUERY "," PREFIX_QUERY ","
                                   QUERY("after", "Only keys after this one: paging.") ","
                                   QUERY("limit", "How many at most, 1 to 10000."))},
  {"/v1/agents/{agent}/state/{key}", GET("The bytes of one value; ETag is the commit",
                                         AGENT_PATH "," IN_PATH("key", "The key; slashes need no encoding.") "," AT_QUERY)},
  {"/v1/agents/{agent}/log", GET("Commits, the newest first; ETag is the commit", AGENT_PATH "," AT_QUERY ","
                                 QUERY("key", "Only commits that changed it.") ","
                                 QUERY("before", "Only records before this number: paging.") ","
                                 QUERY("limit", "How many at most, 1 to 1000."))},
  {"/v1/agents/{agent}/diff", GET("Keys whose values differ between two points; ETag is the later commit", AGENT_PATH ","
                                  QUERY("from", "The earlier point; default: the commit before.") ","
                                  QUERY("to", "The later point; default: the head."))},
  {"/v1/watch", GET("Changes as they happen, as text/event-stream", QUERY("store", "The agent's own store, or shared.") "," PREFIX_QUERY ","
                    QUERY("ref", "A ref, or *; default: main.") "," QUERY("from", "now, start, or the id of an event.") ","
                    QUERY("live", "true: an event live says when all that was there is told.") ","
                    PARAM("Last-Event-ID", "header", "The id of the last event: go on after it."))},
  {"/v1/stores", GET("The stores of the home; the operator's, as all under it: docs/formats.md", "")},
  {"/v1/stores/{store}", GET("The end of a store's log", IN_PATH("store", "An agent, or shared."))},
  {"/v1/bundles/{store}/export", POST("History as a bundle, relative to what the client knows; the operator's, or an auditor's",
                                      IN_PATH("store", "An agent, or shared."))},
  {"/v1/bundles/{store}/import", POST("Take in the bundle that is the body; the operator's", IN_PATH("store", "An agent, or shared.") ","
                                      QUERY("as", "Name the refs AS/REF.") "," QUERY("adopt", "true: take over its current ref.") ","
                                      QUERY("dry_run", "true: verify it, change nothing."))},
  {"/v1/bundles/{store}/thread-export", POST("A thread as lines of JSON; as export", IN_PATH("store", "An agent.") ","
                                             QUERY("thread", "Its id."))},
  {"/v1/bundles/{store}/thread-import", POST("Take in such lines; as import", IN_PATH("store", "An agent.") ","
                                             QUERY("as", "The id that it gets.") "," QUERY("dry_run", "true: change nothing."))},
  {"/v1/home/agents", GET("The names of the stores of the home", "")},
  {"/v1/home/config", GET("The settings that are in force", "")},
  {"/v1/home/doctor", GET("What could be wrong with the home, and what to do", "")},
  {"/metrics", GET("Numbers for Prometheus", "")},
  {"/healthz", GET_OPEN("Is the process alive? 503 if writes wait and none has finished for 10 s")},
  {"/readyz", GET_OPEN("Does it take requests?")},
};
/* clang-format on */

static const char components[] =
  "{\"parameters\":{"
  "\"agent\":{\"name\":\"Perdure-Agent\",\"in\":\"header\",\"description\":\"On whose behalf; an agent's token says it by itself.\","
  "\"schema\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$\"}},"
  "\"session\":{\"name\":\"Perdure-Session\",\"in\":\"header\",\"description\":\"The session, as session.begin answered it.\","
  "\"schema\":{\"type\":\"string\"}}},"
  "\"schemas\":{\"Error\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
  "\"required\":[\"code\",\"message\",\"details\",\"recovery\"],\"properties\":{\"code\":{\"type\":\"string\"},\"message\":{\"type\":"
  "\"string\"},\"details\":{\"type\":\"object\"},\"recovery\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"action\","
  "\"hint\"],\"properties\":{\"action\":{\"type\":\"string\"},\"hint\":{\"type\":\"string\"}}}}}}}}},"
  "\"responses\":{\"error\":{\"description\":\"What went wrong, and what to do about it. 202: an operator has to approve the call first; "
  "404, "
  "409 conflict, 410 erased, 413 too large, 423 vault locked, 429 too many, 507 quota or disk full.\",\"content\":{\"application/json\":{"
  "\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}},"
  "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}}";

static pd_code write_openapi(pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_capability_info info;
  pd_json document;
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "openapi", "3.1.0");
  pd_json_key(&w, "info");
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "title", "perdure");
  pd_json_put_text(&w, "summary", "The state engine for AI agents");
  pd_json_put_text(&w, "version", pd_version());
  pd_json_close(&w, '}');
  put_raw(&w, "security", "[{\"token\":[]}]");
  pd_json_key(&w, "paths");
  pd_json_open(&w, '{');
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    TRY(pd_json_parse(pd_text(info.document), &document, err));
    put_call(&w, &info, document);
  }
  for (size_t i = 0; i < COUNT_OF(others); i++) put_raw(&w, others[i].path, others[i].item);
  pd_json_close(&w, '}');
  put_raw(&w, "components", components);
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code write_capabilities(pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_capability_info info;
  size_t count = 0;
  pd_json_open(&w, '{');
  pd_json_key(&w, "capabilities");
  pd_json_open(&w, '[');
  for (; pd_capability_at(count, &info, NULL) == PD_OK; count++) pd_json_raw(&w, pd_text(info.document));
  pd_json_close(&w, ']');
  pd_json_put_number(&w, "count", count);
  pd_json_close(&w, '}');
  return w.code;
}

static void write_etag(const pd_buf *document, char out[PD_ID_HEX_SIZE + 2])
{
  char hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(pd_buf_bytes(document));
  snprintf(out, PD_ID_HEX_SIZE + 2, "\"%s\"", pd_id_hex(&id, hex));
}

pd_code pd_describe(pd_server *server, pd_error *err)
{
  TRY(write_capabilities(&server->capabilities, err));
  TRY(write_openapi(&server->openapi, err));
  write_etag(&server->capabilities, server->capabilities_etag);
  write_etag(&server->openapi, server->openapi_etag);
  return PD_OK;
}

/* ---- routes ---- */

static void reply_document(pd_request *request, const pd_buf *document, const char *etag)
{
  pd_error err = {0};
  if (pd_buf_append(&request->out, document->data, document->size, &err)) {
    pd_reply_error(request, &err);
    return;
  }
  snprintf(request->etag, sizeof request->etag, "%s", etag);
  pd_reply(request, MHD_HTTP_OK);
}

void pd_route_capabilities(pd_request *request)
{
  reply_document(request, &request->server->capabilities, request->server->capabilities_etag);
}

void pd_route_capability(pd_request *request)
{
  pd_capability_info info;
  pd_error err = {0};
  pd_code code = pd_capability_find(request->rest, &info, &err);
  if (!code) code = pd_buf_append(&request->out, info.document, strlen(info.document), &err);
  if (code)
    pd_reply_error(request, &err);
  else
    pd_reply(request, MHD_HTTP_OK);
}

void pd_route_openapi(pd_request *request)
{
  reply_document(request, &request->server->openapi, request->server->openapi_etag);
}

static void reply_status(pd_request *request, unsigned status, const char *text, const char *reason)
{
  pd_json_writer w = {.out = &request->out};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "status", text);
  if (reason) pd_json_put_text(&w, "reason", reason);
  pd_json_put_text(&w, "version", pd_version());
  pd_json_close(&w, '}');
  pd_reply(request, status);
}

/* A supervisor may restart a server that fails here, so nothing less will do than that writes wait and none of them finishes. */
void pd_route_healthz(pd_request *request)
{
  char reason[96];
  int64_t ms = pd_stall_ms(&request->server->stall, pd_clock_monotonic_ms());
  if (ms < PD_STALL_MS) {
    reply_status(request, MHD_HTTP_OK, "ok", NULL);
    return;
  }
  snprintf(reason, sizeof reason, "writes are waiting and none has finished for %lld s", (long long)(ms / 1000));
  reply_status(request, MHD_HTTP_SERVICE_UNAVAILABLE, "stalled", reason);
}

typedef struct sick_stores {
  size_t count;
  char name[PD_NAME_SIZE_MAX + 1]; /* of one of them */
} sick_stores;

static void take_sick(void *ctx, const char *name, pd_store *store)
{
  sick_stores *sick = ctx;
  if (pd_store_writable(store, NULL) != PD_STORAGE) return;
  snprintf(sick->name, sizeof sick->name, "%s", name);
  sick->count++;
}

size_t pd_sick_count(pd_server *server, char name[PD_NAME_SIZE_MAX + 1])
{
  sick_stores sick = {0};
  pd_home_each_open(server->home, take_sick, &sick);
  if (name && sick.count) memcpy(name, sick.name, sizeof sick.name);
  return sick.count;
}

/* The route is open to all: no path, and no more than one name. */
static void reply_sick(pd_request *request, size_t count, const char *name)
{
  char reason[256], more[48] = "";
  if (count > 1) snprintf(more, sizeof more, " and %zu more", count - 1);
  snprintf(reason, sizeof reason, "a sync of the store '%s'%s failed: its writes are refused; reads go on. Check the disk and restart",
           name, more);
  reply_status(request, MHD_HTTP_SERVICE_UNAVAILABLE, "sick", reason);
}

/* A full disk does not make it unready: reads and watches are answered, and who is sent elsewhere would find nothing there. A sync that
 * failed does: only a restart ends that. */
void pd_route_readyz(pd_request *request)
{
  char name[PD_NAME_SIZE_MAX + 1];
  size_t sick = pd_sick_count(request->server, name);
  if (atomic_load(&request->server->is_draining))
    reply_status(request, MHD_HTTP_SERVICE_UNAVAILABLE, "draining", NULL);
  else if (sick)
    reply_sick(request, sick, name);
  else if (pd_space_is_full(request->server))
    reply_status(request, MHD_HTTP_OK, "full", "the disk is full: writes are answered 507 until there is space; reads go on");
  else
    reply_status(request, MHD_HTTP_OK, "ready", NULL);
}
