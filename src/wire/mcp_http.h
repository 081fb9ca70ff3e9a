/*
 * mcp_http.h: MCP over HTTP: POST, GET and DELETE /mcp (Streamable HTTP). One answer is JSON; more than one, or one that comes later, is a
 * stream of server-sent events.
 *
 * A message runs on the worker that took the request. What may take long (it tells of progress, or goes on with an answer of the client's)
 * runs on a thread beside it, and the request attends to its flow without one, so that a stream begins before the answer is there. What
 * waits for a message has no thread at all (waits.h).
 */
#ifndef PD_WIRE_MCP_HTTP_H
#define PD_WIRE_MCP_HTTP_H

#include "wire/http.h"
#include "wire/mcp.h"

typedef struct pd_mcp_http pd_mcp_http;

PD_MUST_USE pd_code pd_mcp_http_new(pd_mcp *mcp, pd_server *server, pd_mcp_http **out, pd_error *err);
/* When no connection is served any more. Takes NULL. */
void pd_mcp_http_free(pd_mcp_http *http);
pd_mcp *pd_mcp_http_core(pd_mcp_http *http);
/* About once a second. */
void pd_mcp_http_tick(pd_mcp_http *http);
/* End every stream, before the server stops; those whose answer is on its way only with `is_end`. */
void pd_mcp_http_drain(pd_mcp_http *http, bool is_end);
/* Is an answer on its way? */
bool pd_mcp_http_is_open(pd_mcp_http *http);
/* Wait for the messages that run beside the workers. False: one is not over in time, and nothing that it uses may be freed. */
bool pd_mcp_http_wait(pd_mcp_http *http, uint32_t timeout_ms);

#endif
