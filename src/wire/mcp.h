/*
 * mcp.h: the Model Context Protocol without a transport: messages in, messages out. stdio (mcp_stdio.h), POST /mcp and the test fixtures
 * of the official suite share it.
 *
 * Both eras are served at once, told apart by what a message says: a request that carries its protocol version in `_meta` is stateless
 * (2026-07-28); any other belongs to the older revisions, with `initialize` and, over HTTP, sessions.
 *
 * M1  Each request is answered at most once, and `done` is called once for each exchange that was not hung up.
 * M2  A request that was cancelled or whose exchange was hung up is not answered.
 * M3  A requestState is good once, for the very request that it was made for, by the agent that it was made for, and not for long.
 * M4  A subscriber hears of a commit once, whatever the number of keys in it that fit one subscription.
 * M5  A request is cancelled by its own session or its own connection. Without a session, as over HTTP in the modern era, closing the
 *     connection is what cancels, and notifications/cancelled is ignored.
 *
 * THREADS     A pd_mcp may be used by any number of threads. Callbacks of a pd_mcp_out come from any thread, one at a time for an exchange,
 *             and must not call back into the pd_mcp.
 */
#ifndef PD_WIRE_MCP_H
#define PD_WIRE_MCP_H

#include <perdure/perdure.h>

#define PD_MCP_MODERN "2026-07-28"
#define PD_MCP_LEGACY "2025-11-25" /* what a client that opens with an unknown revision is answered */
#define PD_MCP_MESSAGE_SIZE_MAX (PD_CALL_SIZE_MAX + 65536)
#define PD_MCP_SESSION_ID_SIZE PD_ID_HEX_SIZE /* 64 hex digits and a NUL */

typedef struct pd_mcp pd_mcp;
typedef struct pd_mcp_session pd_mcp_session;
typedef struct pd_mcp_provider pd_mcp_provider; /* mcp_turn.h: what is offered */

/* ---- what is served ---- */

/* Zero-initialise; texts are copied. */
typedef struct pd_mcp_options {
  pd_home *home;        /* outlives the pd_mcp */
  const char *uri;      /* of the home: watches and commits open its stores themselves */
  const char *tools;    /* globs of capabilities, with commas; NULL: all */
  const char *key_file; /* where the key of session ids is kept, so that they survive a restart; NULL: it is made up, and forgotten */
  size_t page_count;    /* items of one page of a list; 0: as many as suit clients */
  const pd_mcp_provider *provider; /* NULL: the capabilities of the home */
  void *provider_ctx;
  int64_t (*now_ms)(void *ctx); /* NULL: the system's clock */
  void *now_ctx;
} pd_mcp_options;

/* PD_INVALID for a filter that fits no tool. */
PD_MUST_USE pd_code pd_mcp_new(const pd_mcp_options *options, pd_mcp **out, pd_error *err);
/* Ends its sessions and streams. Takes NULL. No thread may be inside a call on it. */
void pd_mcp_free(pd_mcp *mcp);
/* To be called about once a second: questions that nobody answered end, sessions that nobody uses go. */
void pd_mcp_tick(pd_mcp *mcp);
/* The end is near: calls that only wait give up. What works goes on. */
void pd_mcp_hurry(pd_mcp *mcp);
/* Answer every open stream and question with its end, as a server does before it stops. */
void pd_mcp_drain(pd_mcp *mcp);
/* How many legacy sessions there are, and open streams (GET and subscriptions/listen). For metrics. */
void pd_mcp_counts(pd_mcp *mcp, size_t *out_sessions, size_t *out_streams);

/* ---- who asks ---- */

/* How calls get to the home; all NULL: pd_call, all capabilities. A server puts its token's scopes here. */
typedef struct pd_mcp_gate {
  pd_code (*call)(void *ctx, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err);
  /* Each message of a batch but the first, which the transport has counted: may the caller ask so often? PD_LIMIT. May be NULL. */
  pd_code (*admit)(void *ctx, pd_error *err);
  void *ctx;
} pd_mcp_gate;

/* Zero-initialise. Borrowed until pd_mcp_handle returns. */
typedef struct pd_mcp_peer {
  const char *agent;
  const char *realm;       /* who of the agent's: a legacy session that was begun in one is not found in another. NULL: all the others */
  pd_mcp_session *session; /* stdio: its only one. HTTP: what pd_mcp_session_find found; NULL: none */
  bool is_http;            /* then the headers below are checked against the message */
  const char *version;     /* MCP-Protocol-Version; NULL: absent */
  const char *method;      /* Mcp-Method */
  const char *name;        /* Mcp-Name */
  /* May a person behind this client approve what needs approval? False: ApprovalRequired is all it hears. */
  bool may_approve;
  const struct pd_token_info *token; /* that was shown: its scopes hold; NULL: none */
  pd_mcp_gate gate;
  /* A call that waits does not sleep, and pd_mcp_run returns false (pd_wait in perdure/state.h). NULL: it sleeps. In a batch nothing waits
   * then. */
  pd_wait *wait;
} pd_mcp_peer;

/* Where the messages of one exchange go: what answers one line, or one POST. */
typedef struct pd_mcp_out {
  /* One JSON-RPC message on one line, without a newline. `status` is what HTTP says with it; `is_last`: it answers the request. */
  void (*send)(void *ctx, pd_bytes message, int status, bool is_last);
  /* The exchange is over. 202 if nothing was sent because there is nothing to answer. */
  void (*done)(void *ctx, int status);
  /* A legacy session was made: `id` belongs into the header Mcp-Session-Id. Before the first send. May be NULL. */
  void (*session)(void *ctx, const char *id);
  /* What was asked for is not wanted any more: who waits for it should run it again, and hear so. May be NULL. Must not call back. */
  void (*cancelled)(void *ctx);
  void *ctx; /* names the exchange; different for each that is open at one time over HTTP */
} pd_mcp_out;

/* One message: a request, a notification, a response, or a batch of them. Runs the call on this thread. When it returns, `done` was
 * called, or the exchange waits: for answers of the client, or as an open stream. */
void pd_mcp_handle(pd_mcp *mcp, const pd_mcp_peer *peer, pd_bytes message, const pd_mcp_out *out);

/* The same in two steps, for a transport that reads on one thread and runs on others: what was accepted can be cancelled before it runs.
 * The text is copied. NULL if there is no memory: then `done` was called. */
typedef struct pd_mcp_job pd_mcp_job;
pd_mcp_job *pd_mcp_accept(pd_mcp *mcp, const pd_mcp_peer *peer, pd_bytes message, const pd_mcp_out *out);
/* A notification or a ping, which need not wait their turn. */
bool pd_mcp_is_quick(const pd_mcp_job *job);
size_t pd_mcp_job_size(const pd_mcp_job *job); /* of its text */
/* Run it, on any thread, and free it. `peer` as in pd_mcp_accept. False: it waits (peer->wait), and is to be run again. */
PD_MUST_USE bool pd_mcp_run(pd_mcp *mcp, const pd_mcp_peer *peer, pd_mcp_job *job);

/* The methods that there are, in either era; NULL after the last. */
const char *pd_mcp_method_at(size_t index);

/* The other side of `ctx` is gone: cancel what it asked for. When it returns no callback comes to `ctx` any more. */
void pd_mcp_hang_up(pd_mcp *mcp, void *ctx);

/* ---- legacy sessions ---- */

/* The session of a stdio connection: it has no id. `push` is where notifications of its subscriptions go. */
PD_MUST_USE pd_code pd_mcp_session_new(pd_mcp *mcp, const char *agent, const pd_mcp_out *push, pd_mcp_session **out, pd_error *err);
/* By its header; also if another process made it, with the same key. PD_NOT_FOUND if it never was, has ended, or is another agent's, or of
 * another realm (pd_mcp_peer). To be let go. */
PD_MUST_USE pd_code pd_mcp_session_find(pd_mcp *mcp, const char *agent, const char *realm, const char *id, pd_mcp_session **out,
                                        pd_error *err);
/* Its id ("": stdio), and the revision that it was begun with. Valid while it is held. */
const char *pd_mcp_session_id(const pd_mcp_session *session);
const char *pd_mcp_session_revision(const pd_mcp_session *session);
const char *pd_mcp_session_agent(const pd_mcp_session *session);
/* Let it go. Takes NULL. */
void pd_mcp_session_release(pd_mcp_session *session);
/* DELETE: nothing finds it any more, and its session state is gone. */
void pd_mcp_session_end(pd_mcp *mcp, pd_mcp_session *session);
/* GET: notifications of the session go to `out` until it hangs up. A second stream takes the place of the first, which is done. */
PD_MUST_USE pd_code pd_mcp_session_stream(pd_mcp *mcp, pd_mcp_session *session, const pd_mcp_out *out, pd_error *err);

#endif
