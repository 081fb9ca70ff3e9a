/* mcp_era.c: which era a request belongs to, and whether it says what its era wants: `_meta`, headers, the session. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_inside.h"

#include <ctype.h>

#define META "io.modelcontextprotocol/"
#define NAME_HEADER_SIZE_MAX 8192

static const char *const legacy[] = {PD_MCP_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"};

const char *pd_mcp_revision_at(size_t index)
{
  return index < COUNT_OF(legacy) ? legacy[index] : NULL;
}

int pd_mcp_revision_index(const char *revision)
{
  for (size_t i = 0; i < COUNT_OF(legacy); i++)
    if (strcmp(legacy[i], revision) == 0) return (int)i;
  return -1;
}

pd_mcp_level pd_mcp_level_parse(pd_json level)
{
  static const char *const names[] = {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (pd_json_is(level, names[i])) return (pd_mcp_level)i;
  return PD_MCP_SILENT;
}

/* {} means forms, as before there were others. */
static bool elicits_forms(pd_json elicitation)
{
  if (elicitation.kind != PD_JSON_OBJECT) return false;
  return pd_json_member(elicitation, "form").kind == PD_JSON_OBJECT || pd_json_member(elicitation, "url").kind == PD_JSON_NONE;
}

unsigned pd_mcp_client_of(pd_json capabilities)
{
  unsigned can = elicits_forms(pd_json_member(capabilities, "elicitation")) ? PD_MCP_ELICITS : 0;
  if (pd_json_member(capabilities, "sampling").kind == PD_JSON_OBJECT) can |= PD_MCP_SAMPLES;
  if (pd_json_member(capabilities, "roots").kind == PD_JSON_OBJECT) can |= PD_MCP_HAS_ROOTS;
  return can;
}

/* ---- headers ---- */

static pd_code mismatch(pd_mcp_turn *turn, const char *header)
{
  turn->status = 400;
  return pd_mcp_refuse(turn, PD_MCP_HEADER_MISMATCH, "the header %s is missing, or says something else than the message", header);
}

/* The header's value without blanks around it. */
static pd_bytes trimmed(const char *text)
{
  while (*text == ' ' || *text == '\t') text++;
  size_t size = strlen(text);
  while (size && (text[size - 1] == ' ' || text[size - 1] == '\t')) size--;
  return (pd_bytes){text, size};
}

static bool is_same(const char *header, pd_json value)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_json_decode(value, &text, NULL)) return false;
  return pd_bytes_equal(trimmed(header), pd_buf_bytes(&text));
}

/* =?base64?…?= stands for what a header cannot say plainly. */
static bool is_same_encoded(const char *header, pd_json value)
{
  CLEANUP(pd_buf_done) pd_buf plain = {.size_max = NAME_HEADER_SIZE_MAX};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_bytes raw = trimmed(header);
  if (raw.size < 11 || strncasecmp(raw.data, "=?base64?", 9) != 0 || memcmp((const char *)raw.data + raw.size - 2, "?=", 2) != 0)
    return is_same(header, value);
  if (pd_base64_decode((pd_bytes){(const char *)raw.data + 9, raw.size - 11}, &plain, NULL)) return false;
  return pd_json_decode(value, &text, NULL) == PD_OK && pd_bytes_equal(pd_buf_bytes(&plain), pd_buf_bytes(&text));
}

static pd_json name_of(const pd_mcp_message *message)
{
  if (strcmp(message->method, "tools/call") == 0 || strcmp(message->method, "prompts/get") == 0)
    return pd_json_member(message->params, "name");
  if (strcmp(message->method, "resources/read") == 0) return pd_json_member(message->params, "uri");
  return (pd_json){0};
}

static pd_code check_headers(pd_mcp_turn *turn, pd_json version)
{
  const pd_mcp_peer *peer = turn->peer;
  if (!peer->is_http) return PD_OK;
  if (!peer->version || !is_same(peer->version, version)) return mismatch(turn, "MCP-Protocol-Version");
  if (!peer->method || !pd_bytes_equal(trimmed(peer->method), pd_text(turn->message->method))) return mismatch(turn, "Mcp-Method");
  pd_json name = name_of(turn->message);
  if (name.kind == PD_JSON_STRING && (!peer->name || !is_same_encoded(peer->name, name))) return mismatch(turn, "Mcp-Name");
  return PD_OK;
}

/* ---- modern ---- */

static pd_code no_meta(pd_mcp_turn *turn, const char *what)
{
  turn->status = 400;
  return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params._meta needs \"" META "%s\"", what);
}

static pd_code check_inputs(pd_mcp_turn *turn)
{
  pd_json key, value, inputs = pd_json_member(turn->message->params, "inputResponses");
  if (inputs.kind == PD_JSON_NONE) return PD_OK;
  if (inputs.kind != PD_JSON_OBJECT) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "inputResponses is not an object");
  pd_json_walk walk = pd_json_walk_begin(inputs);
  while (pd_json_walk_next(&walk, &key, &value))
    if (value.kind != PD_JSON_OBJECT)
      return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "inputResponses.%.*s is not an object", (int)key.raw.size,
                           (const char *)key.raw.data);
  turn->inputs = inputs;
  return PD_OK;
}

static pd_code modern(pd_mcp_turn *turn, pd_json meta)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json version = pd_json_member(meta, META "protocolVersion"), client = pd_json_member(meta, META "clientCapabilities");
  turn->is_modern = true;
  turn->revision = PD_MCP_MODERN;
  if (version.kind != PD_JSON_STRING || pd_json_decode(version, &text, NULL)) return no_meta(turn, "protocolVersion");
  if (client.kind != PD_JSON_OBJECT) return no_meta(turn, "clientCapabilities");
  TRY(check_headers(turn, version));
  if (!pd_json_is(version, PD_MCP_MODERN)) return pd_mcp_refuse_version(turn, pd_buf_bytes(&text));
  turn->client = pd_mcp_client_of(client);
  turn->level = pd_mcp_level_parse(pd_json_member(meta, META "logLevel"));
  return check_inputs(turn);
}

/* ---- legacy ---- */

static pd_code old(pd_mcp_turn *turn)
{
  const char *header = turn->peer->is_http ? turn->peer->version : NULL;
  if (header) {
    pd_bytes text = trimmed(header);
    bool is_known = false;
    for (size_t i = 0; i < COUNT_OF(legacy); i++) is_known = is_known || pd_bytes_equal(text, pd_text(legacy[i]));
    if (!is_known) return pd_mcp_refuse_version(turn, text);
  }
  turn->revision = "2025-03-26"; /* what a request without any word of it is taken for */
  if (!turn->session) return PD_OK;
  pthread_mutex_lock(&turn->mcp->lock);
  if (turn->session->revision) turn->revision = turn->session->revision;
  turn->client = turn->session->client;
  turn->level = turn->session->level;
  pthread_mutex_unlock(&turn->mcp->lock);
  return PD_OK;
}

pd_code pd_mcp_era(pd_mcp_turn *turn)
{
  pd_json meta = pd_json_member(turn->message->params, "_meta"), token = pd_json_member(meta, "progressToken");
  const char *method = turn->message->method;
  int64_t number;
  if (token.kind == PD_JSON_STRING || pd_json_i64(token, &number)) turn->progress_token = token;
  bool is_new = pd_json_member(meta, META "protocolVersion").kind != PD_JSON_NONE || strcmp(method, "server/discover") == 0 ||
                strcmp(method, "subscriptions/listen") == 0;
  if (turn->peer->is_http && turn->peer->version && pd_bytes_equal(trimmed(turn->peer->version), pd_text(PD_MCP_MODERN))) is_new = true;
  return is_new ? modern(turn, meta) : old(turn);
}
