/* mcp_message.c: see mcp_message.h. */
#include "wire/mcp_message.h"

#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_pick.h"

typedef enum slot { AT_VERSION, AT_ID, AT_METHOD, AT_PARAMS, AT_RESULT, AT_ERROR, SLOT_COUNT } slot;

static const char *const names[SLOT_COUNT] = {"jsonrpc", "id", "method", "params", "result", "error"};

static int wrong(pd_error *err, const char *what)
{
  pd_error_set(err, PD_INVALID, "not a JSON-RPC 2.0 message: %s", what);
  return PD_MCP_INVALID_REQUEST;
}

static bool is_id(pd_json id)
{
  int64_t number;
  if (id.raw.size > PD_MCP_ID_SIZE_MAX) return false;
  return id.kind == PD_JSON_STRING || (id.kind == PD_JSON_NUMBER && pd_json_i64(id, &number));
}

static int read_call(const pd_json *slots, pd_mcp_message *out, pd_error *err)
{
  if (slots[AT_RESULT].kind != PD_JSON_NONE || slots[AT_ERROR].kind != PD_JSON_NONE) return wrong(err, "it has a method and an answer");
  if (!pd_json_copy_text(slots[AT_METHOD], out->method, sizeof out->method) || !*out->method)
    return wrong(err, "method is not a text of 1 to 128 bytes");
  out->kind = slots[AT_ID].kind == PD_JSON_NONE ? PD_MCP_NOTIFICATION : PD_MCP_REQUEST;
  if (slots[AT_ID].kind != PD_JSON_NONE && out->id.kind == PD_JSON_NONE)
    return wrong(err, "id is neither a text (of at most 510 bytes) nor an integer");
  out->params = slots[AT_PARAMS];
  if (out->params.kind == PD_JSON_NONE || out->params.kind == PD_JSON_OBJECT) return 0;
  return wrong(err, "params is not an object");
}

static int read_answer(const pd_json *slots, pd_mcp_message *out, pd_error *err)
{
  bool has_result = slots[AT_RESULT].kind != PD_JSON_NONE, has_error = slots[AT_ERROR].kind != PD_JSON_NONE;
  if (has_result == has_error) return wrong(err, "it has no method, and not just one of result and error");
  out->kind = has_result ? PD_MCP_RESPONSE : PD_MCP_FAILURE;
  out->result = slots[AT_RESULT];
  out->error = slots[AT_ERROR];
  if (slots[AT_ID].kind == PD_JSON_NULL && has_error) out->id = slots[AT_ID];
  if (out->id.kind == PD_JSON_NONE) return wrong(err, "an answer without the id of what it answers");
  pd_json body = has_result ? out->result : out->error;
  if (body.kind != PD_JSON_OBJECT) return wrong(err, has_result ? "result is not an object" : "error is not an object");
  int64_t code;
  if (has_error && (!pd_json_i64(pd_json_member(body, "code"), &code) || pd_json_member(body, "message").kind != PD_JSON_STRING))
    return wrong(err, "an error has an integer code and a message");
  return 0;
}

int pd_mcp_message_read(pd_json json, pd_mcp_message *out, pd_error *err)
{
  pd_json slots[SLOT_COUNT] = {0};
  *out = (pd_mcp_message){0};
  if (json.kind != PD_JSON_OBJECT) return wrong(err, "it is not an object");
  pd_json key;
  size_t index; /* members that JSON-RPC does not know are passed over; those that it knows may be there once */
  bool is_unique = pd_json_pick(json, names, sizeof names[0], SLOT_COUNT, false, slots, &key, &index) == PD_JSON_FITS;
  if (is_id(slots[AT_ID])) out->id = slots[AT_ID];
  if (!is_unique) return wrong(err, "it has a member twice");
  if (!pd_json_is(slots[AT_VERSION], "2.0")) return wrong(err, "jsonrpc is not \"2.0\"");
  if (slots[AT_METHOD].kind != PD_JSON_NONE) return read_call(slots, out, err);
  return read_answer(slots, out, err);
}
