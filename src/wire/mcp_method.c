/* mcp_method.c: the methods of MCP, by name and era. What is offered comes from the provider. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_inside.h"

#include <stdio.h>

#define URI_SIZE_MAX 8192
#define LIST_TTL_MS 60000

/* ---- parameters ---- */

/* A text of params as a C string. */
static pd_code text_param(pd_mcp_turn *turn, pd_json object, const char *name, pd_buf *out)
{
  pd_json value = pd_json_member(object, name);
  out->size_max = URI_SIZE_MAX;
  if (value.kind != PD_JSON_STRING || pd_json_decode(value, out, NULL) || memchr(out->data, 0, out->size) ||
      pd_buf_byte(out, 0, &turn->err))
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.%s is not a text of at most %d bytes", name, URI_SIZE_MAX - 1);
  return PD_OK;
}

static pd_code object_param(pd_mcp_turn *turn, const char *name, pd_json *out)
{
  *out = pd_json_member(turn->message->params, name);
  if (out->kind == PD_JSON_NONE || out->kind == PD_JSON_OBJECT) return PD_OK;
  return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.%s is not an object", name);
}

/* ---- opening ---- */

static void write_changes(pd_mcp_turn *turn, const char *name, unsigned what, bool can_subscribe)
{
  const pd_mcp_provider *p = turn->mcp->provider;
  unsigned changes = p->changes | (turn->is_modern ? p->changes_modern : 0);
  pd_json_key(&turn->w, name);
  pd_json_open(&turn->w, '{');
  if (can_subscribe) pd_json_put_bool(&turn->w, "subscribe", true);
  if (changes & what) pd_json_put_bool(&turn->w, "listChanged", true);
  pd_json_close(&turn->w, '}');
}

static void write_offers(pd_mcp_turn *turn)
{
  const pd_mcp_provider *p = turn->mcp->provider;
  pd_json_key(&turn->w, "capabilities");
  pd_json_open(&turn->w, '{');
  if (p->tools) write_changes(turn, "tools", PD_MCP_TOOLS, false);
  if (p->resources) write_changes(turn, "resources", PD_MCP_RESOURCES, true);
  if (p->prompts) write_changes(turn, "prompts", PD_MCP_PROMPTS, false);
  if (p->complete) {
    pd_json_key(&turn->w, "completions");
    pd_json_raw(&turn->w, pd_text("{}"));
  }
  pd_json_key(&turn->w, "logging");
  pd_json_raw(&turn->w, pd_text("{}"));
  pd_json_close(&turn->w, '}');
}

static pd_code run_discover(pd_mcp_turn *turn)
{
  pd_json_key(&turn->w, "supportedVersions");
  pd_json_open(&turn->w, '[');
  pd_json_text(&turn->w, pd_text(PD_MCP_MODERN));
  for (size_t i = 0; pd_mcp_revision_at(i); i++) pd_json_text(&turn->w, pd_text(pd_mcp_revision_at(i)));
  pd_json_close(&turn->w, ']');
  write_offers(turn);
  pd_json_put_text(&turn->w, "instructions", turn->mcp->provider->instructions);
  turn->ttl_ms = LIST_TTL_MS;
  return PD_OK;
}

/* The session of the connection, or a new one with an id. */
static pd_code begin_session(pd_mcp_turn *turn, const char *revision, unsigned client)
{
  pd_mcp_session *session = NULL;
  if (!turn->peer->is_http) {
    pthread_mutex_lock(&turn->mcp->lock);
    if (turn->session) {
      turn->session->revision = revision;
      turn->session->client = client;
    }
    pthread_mutex_unlock(&turn->mcp->lock);
    return PD_OK;
  }
  TRY(pd_mcp_session_make(turn->mcp, turn->peer->agent, turn->peer->realm, revision, client, &session, &turn->err));
  pd_mcp_exchange_session(turn->exchange, session->id);
  pd_mcp_session_release(session);
  return PD_OK;
}

static pd_code run_initialize(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf version = {0};
  pd_json params = turn->message->params, client;
  const pd_mcp_provider *p = turn->mcp->provider;
  TRY(text_param(turn, params, "protocolVersion", &version));
  TRY(object_param(turn, "capabilities", &client));
  int index = pd_mcp_revision_index((const char *)version.data);
  const char *revision = pd_mcp_revision_at(index < 0 ? 0 : (size_t)index);
  TRY(begin_session(turn, revision, pd_mcp_client_of(client)));
  pd_json_put_text(&turn->w, "protocolVersion", revision);
  write_offers(turn);
  pd_json_key(&turn->w, "serverInfo");
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "name", p->name);
  pd_json_put_text(&turn->w, "title", p->title);
  pd_json_put_text(&turn->w, "version", p->version ? p->version : pd_version());
  pd_json_close(&turn->w, '}');
  pd_json_put_text(&turn->w, "instructions", p->instructions);
  return PD_OK;
}

static pd_code run_ping(pd_mcp_turn *turn)
{
  (void)turn;
  return PD_OK;
}

static pd_code run_set_level(pd_mcp_turn *turn)
{
  pd_mcp_level level = pd_mcp_level_parse(pd_json_member(turn->message->params, "level"));
  if (level == PD_MCP_SILENT)
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS,
                         "params.level is none of debug, info, notice, warning, error, critical, alert, emergency");
  if (!turn->session) return PD_OK;
  pthread_mutex_lock(&turn->mcp->lock);
  turn->session->level = level;
  pthread_mutex_unlock(&turn->mcp->lock);
  return PD_OK;
}

/* ---- lists ---- */

typedef pd_code (*list_function)(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);

static pd_code run_list(pd_mcp_turn *turn, const char *name, list_function list)
{
  CLEANUP(pd_buf_done) pd_buf cursor = {0};
  CLEANUP(pd_buf_done) pd_buf next = {0};
  bool has_cursor = pd_json_member(turn->message->params, "cursor").kind != PD_JSON_NONE;
  if (has_cursor) TRY(text_param(turn, turn->message->params, "cursor", &cursor));
  pd_json_key(&turn->w, name);
  pd_json_open(&turn->w, '[');
  TRY(list(turn, has_cursor ? pd_text((const char *)cursor.data) : (pd_bytes){0}, &next));
  pd_json_close(&turn->w, ']');
  if (next.size) pd_json_put_bytes(&turn->w, "nextCursor", pd_buf_bytes(&next));
  return PD_OK;
}

static pd_code run_tools(pd_mcp_turn *turn)
{
  turn->ttl_ms = LIST_TTL_MS;
  return run_list(turn, "tools", turn->mcp->provider->tools);
}

static pd_code run_prompts(pd_mcp_turn *turn)
{
  turn->ttl_ms = LIST_TTL_MS;
  return run_list(turn, "prompts", turn->mcp->provider->prompts);
}

static pd_code run_templates(pd_mcp_turn *turn)
{
  turn->ttl_ms = LIST_TTL_MS;
  return run_list(turn, "resourceTemplates", turn->mcp->provider->templates);
}

static pd_code run_resources(pd_mcp_turn *turn)
{
  return run_list(turn, "resources", turn->mcp->provider->resources);
}

/* ---- one thing ---- */

static pd_code run_call(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_json arguments;
  TRY(text_param(turn, turn->message->params, "name", &name));
  TRY(object_param(turn, "arguments", &arguments));
  return turn->mcp->provider->call(turn, (const char *)name.data, arguments);
}

static pd_code run_prompt(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_json arguments;
  TRY(text_param(turn, turn->message->params, "name", &name));
  TRY(object_param(turn, "arguments", &arguments));
  return turn->mcp->provider->prompt(turn, (const char *)name.data, arguments);
}

static pd_code run_read(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  TRY(text_param(turn, turn->message->params, "uri", &uri));
  pd_json_key(&turn->w, "contents");
  pd_json_open(&turn->w, '[');
  TRY(turn->mcp->provider->read(turn, (const char *)uri.data));
  pd_json_close(&turn->w, ']');
  return PD_OK;
}

static pd_code run_complete(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json reference, argument;
  TRY(object_param(turn, "ref", &reference));
  TRY(object_param(turn, "argument", &argument));
  TRY(text_param(turn, argument, "name", &name));
  TRY(text_param(turn, argument, "value", &value));
  pd_json_key(&turn->w, "completion");
  pd_json_open(&turn->w, '{');
  TRY(turn->mcp->provider->complete(turn, reference, (const char *)name.data, pd_text((const char *)value.data)));
  pd_json_close(&turn->w, '}');
  return PD_OK;
}

/* ---- subscriptions, legacy ---- */

static pd_code run_subscribe(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  TRY(text_param(turn, turn->message->params, "uri", &uri));
  if (!turn->session) return pd_mcp_refuse(turn, PD_MCP_INVALID_REQUEST, "subscriptions need a session: initialize, and send its id");
  pd_code code = pd_mcp_listener_subscribe(turn, &turn->session->listener, (const char *)uri.data, &turn->err);
  if (!code) return PD_OK;
  return pd_mcp_refuse(turn, code == PD_NOT_FOUND ? PD_MCP_RESOURCE_NOT_FOUND : PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
}

static pd_code run_unsubscribe(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  TRY(text_param(turn, turn->message->params, "uri", &uri));
  if (turn->session) pd_mcp_listener_unsubscribe(turn->mcp, &turn->session->listener, (const char *)uri.data);
  return PD_OK;
}

/* ---- the table ---- */

#define IS_OLD 1u
#define IS_NEW 2u
#define IS_BOTH 3u
#define IS_CACHED 4u /* the modern result says for how long */
#define MAY_ASK 8u   /* the modern request may carry answers and state */
#define OF(member) offsetof(pd_mcp_provider, member)
#define ALWAYS ((size_t)-1)

static const struct {
  const char *name;
  unsigned flags;
  size_t offer; /* the function of the provider that it needs */
  pd_code (*run)(pd_mcp_turn *turn);
} methods[] = {
  {"tools/call", IS_BOTH | MAY_ASK, OF(call), run_call},
  {"tools/list", IS_BOTH | IS_CACHED, OF(tools), run_tools},
  {"resources/read", IS_BOTH | IS_CACHED | MAY_ASK, OF(read), run_read},
  {"resources/list", IS_BOTH | IS_CACHED, OF(resources), run_resources},
  {"resources/templates/list", IS_BOTH | IS_CACHED, OF(templates), run_templates},
  {"resources/subscribe", IS_OLD, OF(read), run_subscribe},
  {"resources/unsubscribe", IS_OLD, OF(read), run_unsubscribe},
  {"subscriptions/listen", IS_NEW, ALWAYS, pd_mcp_listen},
  {"prompts/list", IS_BOTH | IS_CACHED, OF(prompts), run_prompts},
  {"prompts/get", IS_BOTH | MAY_ASK, OF(prompt), run_prompt},
  {"completion/complete", IS_BOTH, OF(complete), run_complete},
  {"server/discover", IS_NEW | IS_CACHED, ALWAYS, run_discover},
  {"initialize", IS_OLD, ALWAYS, run_initialize},
  {"ping", IS_OLD, ALWAYS, run_ping},
  {"logging/setLevel", IS_OLD, ALWAYS, run_set_level},
};

const char *pd_mcp_method_at(size_t index)
{
  return index < COUNT_OF(methods) ? methods[index].name : NULL;
}

static bool is_offered(const pd_mcp_provider *provider, size_t offer)
{
  void (*function)(void);
  if (offer == ALWAYS) return true;
  memcpy(&function, (const char *)provider + offer, sizeof function);
  return function != NULL;
}

static pd_code open_state(pd_mcp_turn *turn, pd_buf *out)
{
  pd_json sealed = pd_json_member(turn->message->params, "requestState");
  if (!turn->is_modern || sealed.kind == PD_JSON_NONE) return PD_OK;
  if (pd_mcp_unseal(turn, sealed, out, &turn->err)) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  turn->state = pd_buf_bytes(out);
  turn->has_state = true;
  return PD_OK;
}

pd_code pd_mcp_method_run(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf state = {0};
  TRY(pd_mcp_era(turn));
  for (size_t i = 0; i < COUNT_OF(methods); i++) {
    if (strcmp(methods[i].name, turn->message->method) != 0) continue;
    if (!(methods[i].flags & (turn->is_modern ? IS_NEW : IS_OLD)) || !is_offered(turn->mcp->provider, methods[i].offer)) break;
    turn->is_cacheable = methods[i].flags & IS_CACHED;
    if (methods[i].flags & MAY_ASK) TRY(open_state(turn, &state));
    return methods[i].run(turn);
  }
  return pd_mcp_refuse(turn, PD_MCP_METHOD_NOT_FOUND, "there is no method %s in the revision %s", turn->message->method, turn->revision);
}
