/* mcp_stdio.h: MCP over a pair of pipes: one JSON text a line, nothing else. */
#ifndef PD_WIRE_MCP_STDIO_H
#define PD_WIRE_MCP_STDIO_H

#include "wire/mcp.h"

/* Serve until `in` ends; then what was asked is answered still. Requests run in the order they came, on a thread of their own, so that a
 * cancellation is heard meanwhile. `peer` says who asks; its session is made here. PD_STORAGE if `out` cannot be written. */
PD_MUST_USE pd_code pd_mcp_stdio(pd_mcp *mcp, const pd_mcp_peer *peer, int in, int out, pd_error *err);

#endif
