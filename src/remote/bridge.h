/*
 * bridge.h: an MCP client on standard input and output, served by a server's /mcp: `perdure --server URL mcp`.
 *
 * N1  Every request of the client gets one answer: the server's, or an error that names the server (E1). One that the client cancelled
 *     gets none.
 * N2  Requests begin in the order in which they came, as without a server: each when the one before is done, or after a moment beside it.
 *     Notifications, answers and pings wait for nothing, and everything waits for `initialize`.
 * N3  What the server says comes on whole lines, in the order in which it came on each stream.
 */
#ifndef PD_REMOTE_BRIDGE_H
#define PD_REMOTE_BRIDGE_H

#include <perdure/perdure.h>

typedef struct pd_bridge_options {
  const char *uri;   /* of the server */
  const char *agent; /* NULL: the token says it */
  int in, out;
} pd_bridge_options;

/* Until `in` ends, and what was asked is answered. pd_remote_setup comes first. PD_STORAGE: the server never answered, or `in` or `out`
 * failed. */
PD_MUST_USE pd_code pd_bridge_run(const pd_bridge_options *options, pd_error *err);

#endif
