/* mcp_stdio.h: MCP over a pair of pipes: one JSON text a line, nothing else. */
#ifndef PD_WIRE_MCP_STDIO_H
#define PD_WIRE_MCP_STDIO_H

#include "wire/mcp.h"

/* Serve until `in` ends; then what was asked is answered still, but nothing is waited for. Requests begin in the order in which they came:
 * each when the one before is done, or after a moment if that takes long. Pings and cancellations do not wait at all. `peer` says who asks;
 * its session is made here. PD_STORAGE if `out` cannot be written. */
PD_MUST_USE pd_code pd_mcp_stdio(pd_mcp *mcp, const pd_mcp_peer *peer, int in, int out, pd_error *err);

#endif
