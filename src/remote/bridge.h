/*
 * bridge.h: an MCP client on standard input and output, served by a server's /mcp: `perdure --server URL mcp`.
 *
 * N1  Every request of the client gets one answer: the server's, or an error that names the server (E1). One that the client cancelled
 *     gets none.
 * N2  Requests begin in the order in which they came, as without a server: each when the one before is done, or after a moment beside it.
 *     Notifications, answers and pings wait for nothing, and everything waits for `initialize`.
 * N3  What the server says comes on whole lines, in the order in which it came on each stream. A stream that breaks off is resumed, as
 *     far as the era has it: nothing of it is missed or told twice.
 * N4  What a session subscribed to outlives a restart of the server: it is subscribed to again, and told of as changed.
 * N5  It ends with its input, with its reader, or when it is told to, and leaves no session and no call behind.
 */
#ifndef PD_REMOTE_BRIDGE_H
#define PD_REMOTE_BRIDGE_H

#include <perdure/perdure.h>

typedef struct pd_bridge_options {
  const char *uri;   /* of the server */
  const char *agent; /* NULL: the token says it */
  int in, out;
  int stop; /* readable: it is over, whoever waits; -1: none */
} pd_bridge_options;

/* Until `in` ends, and what was asked is answered; what waits for something to happen is waited for a moment. pd_remote_setup comes first.
 * PD_STORAGE: the server never answered, or `in` or `out` failed. PD_DENIED: the server let nothing in. */
PD_MUST_USE pd_code pd_bridge_run(const pd_bridge_options *options, pd_error *err);

#endif
