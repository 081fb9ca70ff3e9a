/* mcp_message.h: one JSON-RPC 2.0 message, parsed strictly. */
#ifndef PD_WIRE_MCP_MESSAGE_H
#define PD_WIRE_MCP_MESSAGE_H

#include "base/json.h"

#define PD_MCP_METHOD_SIZE_MAX 128
#define PD_MCP_ID_SIZE_MAX 512
#define PD_MCP_BATCH_MAX 100

/* Codes of JSON-RPC and of MCP. */
#define PD_MCP_PARSE_ERROR (-32700)
#define PD_MCP_INVALID_REQUEST (-32600)
#define PD_MCP_METHOD_NOT_FOUND (-32601)
#define PD_MCP_INVALID_PARAMS (-32602)
#define PD_MCP_INTERNAL_ERROR (-32603)
#define PD_MCP_RESOURCE_NOT_FOUND (-32002) /* before 2026-07-28; since then INVALID_PARAMS */
#define PD_MCP_HEADER_MISMATCH (-32020)
#define PD_MCP_MISSING_CAPABILITY (-32021)
#define PD_MCP_UNSUPPORTED_VERSION (-32022)
#define PD_MCP_TOO_MANY (-32029) /* ours: too many messages in a second, or too many sessions */

typedef enum pd_mcp_kind {
  PD_MCP_REQUEST = 1,
  PD_MCP_NOTIFICATION,
  PD_MCP_RESPONSE, /* a result */
  PD_MCP_FAILURE   /* an error */
} pd_mcp_kind;

/* Slices of the text. What a kind does not have is PD_JSON_NONE. */
typedef struct pd_mcp_message {
  pd_mcp_kind kind;
  pd_json id;                              /* a string or an integer; in a failure null, too */
  char method[PD_MCP_METHOD_SIZE_MAX + 1]; /* decoded; "" if there is none */
  pd_json params;                          /* an object */
  pd_json result, error;
} pd_mcp_message;

/* One message. Returns 0, or a code of JSON-RPC; then `err` says why, and `out->id` is what could be told of the id. */
PD_MUST_USE int pd_mcp_message_read(pd_json json, pd_mcp_message *out, pd_error *err);

#endif
