/*
 * mcp_flow.h: what goes back to one request of MCP over HTTP: first gathered, then perhaps a stream of server-sent events, which outlives
 * its connection if it belongs to a session of the legacy era.
 *
 * S1  An event of a stream that can be resumed has an id. Who comes back with it is sent what followed in that stream, each event once, and
 *     nothing of another stream.
 * S2  Sent events are kept up to KEPT_SIZE bytes, unsent ones up to QUEUE_SIZE_MAX (sse.h), then the stream is over and lost. A stream
 *     without a connection is kept for PARKED_MS, SESSION_PARKED_MAX of a session, PARKED_SIZE_MAX of all: the agent that has the most
 *     loses its oldest first.
 * S3  A stream is written to by one connection at a time: who comes later takes it over.
 *
 * LOCKS       That of pd_gone, pd_mcp_flows.lock, then a flow's, then that of pd_waits. MHD's callbacks hold none when they begin.
 */
#ifndef PD_WIRE_MCP_FLOW_H
#define PD_WIRE_MCP_FLOW_H

#include "wire/http.h"
#include "wire/mcp.h"

typedef struct pd_mcp_flow pd_mcp_flow;

/* All streams of a server. */
typedef struct pd_mcp_flows {
  pd_mcp *mcp;
  pd_gone *gone;
  pthread_mutex_t lock; /* of what follows */
  pd_mcp_flow *first;
  _Atomic uint64_t next_number;
  size_t parked_size_max; /* PARKED_SIZE_MAX, but in tests */
  uint32_t boot;          /* random: ids of another process are not ours */
} pd_mcp_flows;

PD_MUST_USE pd_code pd_mcp_flows_init(pd_mcp_flows *flows, pd_mcp *mcp, pd_gone *gone, pd_error *err);
/* When no connection is served and no message runs any more. */
void pd_mcp_flows_done(pd_mcp_flows *flows);
/* About once a second: streams that say nothing get a comment now and then, so that a client that is gone is noticed; those that nobody
 * comes back to go. */
void pd_mcp_flows_tick(pd_mcp_flows *flows);
/* End every stream of a session; with `is_end`, also those whose answer is not there yet. */
void pd_mcp_flows_drain(pd_mcp_flows *flows, bool is_end);
/* Is one of them written to, or waited for? */
bool pd_mcp_flows_are_open(pd_mcp_flows *flows);
/* The session has ended: its streams end, and what runs for them is cancelled. */
void pd_mcp_flows_forget(pd_mcp_flows *flows, const char *session);

/* A flow for a request; `session` NULL: it cannot be resumed. `is_get`: the stream of the session itself. NULL: no memory. To be let go. */
pd_mcp_flow *pd_mcp_flow_new(pd_mcp_flows *flows, pd_mcp_session *session, bool is_get);
pd_mcp_flow *pd_mcp_flow_hold(pd_mcp_flow *flow);
void pd_mcp_flow_release(pd_mcp_flow *flow);
/* Where the core sends to. */
pd_mcp_out pd_mcp_flow_out(pd_mcp_flow *flow);
/* Have the request woken (pd_request_ready) when there is something to answer with: the answer, or a message before it; with
 * `may_stream`, also after EARLY_MS without a word, as a stream can begin then; and when the client has left. False: there is already. */
PD_MUST_USE bool pd_mcp_flow_attend(pd_mcp_flow *flow, pd_request *request, bool may_stream);
/* The request that attended is over without an answer: cancel what was asked for. Lets go of the flow. */
void pd_mcp_flow_abandon(pd_mcp_flow *flow);
/* Whose call waits for this flow's answer; it is woken when that is not wanted any more. NULL: nobody's. */
void pd_mcp_flow_waiter(pd_mcp_flow *flow, pd_waits *waits, pd_waiter *waiter);
/* Answer the request with what is there: one message as JSON, more or none yet as a stream. */
void pd_mcp_flow_answer(pd_mcp_flow *flow, pd_request *request);
/* Answer it with the stream, whatever is there. */
void pd_mcp_flow_stream(pd_mcp_flow *flow, pd_request *request);

/* What a Last-Event-ID of this session stands for. */
typedef enum pd_mcp_resumed {
  PD_MCP_RESUMED, /* the stream goes on: it is in the request */
  PD_MCP_ANEW,    /* a session's stream that is not there any more: begin another */
  PD_MCP_LOST     /* an answer's stream that is not there any more, or no id of ours */
} pd_mcp_resumed;
pd_mcp_resumed pd_mcp_flow_resume(pd_mcp_flows *flows, pd_request *request, const char *session, const char *event_id);

#endif
