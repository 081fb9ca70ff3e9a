/* mcp_flow_inside.h: the inside of a flow, for mcp_flow.c and mcp_flows.c alone. */
#ifndef PD_WIRE_MCP_FLOW_INSIDE_H
#define PD_WIRE_MCP_FLOW_INSIDE_H

#include "wire/mcp_flow.h"
#include "wire/sse.h"

/* One connection that a flow is written to. Under the flow's lock; freed by libmicrohttpd, with the response. */
typedef struct pd_mcp_tap {
  pd_mcp_flow *flow;
  pd_sse_reader reader;
  bool is_over, is_beat; /* over: another has taken its place, or the client has left; beat: a comment is due */
  pd_leaver leaver;
} pd_mcp_tap;

struct pd_mcp_flow {
  pd_mcp_flows *flows;
  bool is_get, is_resumable, primes;
  uint64_t number;
  char session_id[PD_MCP_SESSION_ID_SIZE]; /* of the session that it belongs to; "": none */
  char agent[PD_NAME_SIZE_MAX + 1];        /* whose session that is */
  pthread_mutex_t lock;                    /* of what follows */
  pd_request *request;                     /* that attends; NULL: none. It holds the flow */
  int64_t early_ms;                        /* when it is answered with a stream, whatever there is */
  bool is_left;                            /* its client is gone */
  pd_leaver leaver;
  pd_waits *waits;
  pd_waiter *waiter;
  pd_buf message; /* the only one, until it is a stream */
  pd_sse stream;
  size_t count; /* messages */
  int status;
  bool is_last, is_done, is_stream, is_lost;
  char new_session[PD_MCP_SESSION_ID_SIZE]; /* that was made by the request; "": none */
  pd_mcp_tap *tap;
  int64_t spoke_ms, left_ms; /* left: when the last connection went */
  atomic_uint refs;
  bool was_listed;           /* ever: set before the flow is there */
  pd_mcp_flow *next, **link; /* in flows->first, under its lock; link NULL: not there */
};

/* Under the flow's lock. */
void pd_mcp_flow_wake_tap(pd_mcp_tap *tap);
void pd_mcp_flow_wake_request(pd_mcp_flow *flow);
void pd_mcp_flow_wake(pd_mcp_flow *flow);
/* Under the list's lock. True: the list's hold is the caller's now. */
bool pd_mcp_flow_unlist(pd_mcp_flow *flow);
/* Nobody will come back to it: cancel what it waits for. It was taken out of the list. */
void pd_mcp_flow_drop(pd_mcp_flow *flow);

#endif
