/* mcp_inside.h: the inside of a pd_mcp, for the files mcp*.c alone. */
#ifndef PD_WIRE_MCP_INSIDE_H
#define PD_WIRE_MCP_INSIDE_H

#include "base/map.h"
#include "wire/mcp_turn.h"

#include <pthread.h>
#include <stdatomic.h>

#define SESSIONS_MAX 10000u
#define AGENT_SESSIONS_MAX 500u /* of one agent: then its idlest goes for a new one */
#define SESSION_IDLE_MS ((int64_t)24 * 3600 * 1000)
#define SUBSCRIPTIONS_MAX 1000u /* of one session or stream */
#define ASK_MS ((int64_t)5 * 60 * 1000)
#define ASKS_MAX 1000u
#define USED_MAX 4096u
#define KEY_SIZE 32

/* ---- mcp_exchange.c: one way back to a client ---- */

struct pd_mcp_exchange {
  pthread_mutex_t lock; /* of is_over, and held while a callback runs */
  pd_mcp_out out;
  atomic_bool is_over;
  atomic_bool is_cancelled;
  atomic_uint refs;
  uint64_t session;                /* of the request: pd_mcp_session.number; 0: none, and then nobody but its own connection cancels it */
  char id[PD_MCP_ID_SIZE_MAX + 1]; /* of the request, as JSON text; "" if there is none */
  pd_mcp_exchange *next, **link;   /* in pd_mcp.live; link NULL: not there */
};

/* For a request of `session` with this id, by which it can be cancelled from now on; PD_JSON_NONE: it has none. */
PD_MUST_USE pd_code pd_mcp_exchange_new(pd_mcp *mcp, const pd_mcp_out *out, pd_json id, const pd_mcp_session *session,
                                        pd_mcp_exchange **exchange, pd_error *err);
pd_mcp_exchange *pd_mcp_exchange_hold(pd_mcp_exchange *exchange);
void pd_mcp_exchange_release(pd_mcp *mcp, pd_mcp_exchange *exchange); /* takes NULL */
/* Nothing if it is over. After the last message it is. */
void pd_mcp_exchange_send(pd_mcp_exchange *exchange, pd_bytes message, int status, bool is_last);
void pd_mcp_exchange_session(pd_mcp_exchange *exchange, const char *id);
void pd_mcp_exchange_done(pd_mcp_exchange *exchange, int status);
/* Cancel the request `id` of the session. M5 */
void pd_mcp_exchange_cancel(pd_mcp *mcp, const pd_mcp_session *session, pd_json id);

/* ---- mcp_listen.c: who wants to hear what ---- */

typedef struct pd_mcp_listener {
  char agent[PD_NAME_SIZE_MAX + 1];
  unsigned wants;
  char **uris;
  size_t uri_count, uri_capacity;
  pd_mcp_exchange *stream;         /* NULL: nowhere to send to now */
  char id[PD_MCP_ID_SIZE_MAX + 1]; /* of subscriptions/listen; "": legacy */
  bool is_listed;
  struct pd_mcp_listener *next;
} pd_mcp_listener;

/* Begin and stop to hear. Both take the lock. */
void pd_mcp_listener_add(pd_mcp *mcp, pd_mcp_listener *listener);
/* Also lets go of the stream, the texts, and what was watched for it. */
void pd_mcp_listener_remove(pd_mcp *mcp, pd_mcp_listener *listener);
/* PD_DENIED if the caller may not hear of it. */
PD_MUST_USE pd_code pd_mcp_listener_subscribe(pd_mcp_turn *turn, pd_mcp_listener *listener, const char *uri, pd_error *err);
bool pd_mcp_listener_unsubscribe(pd_mcp *mcp, pd_mcp_listener *listener, const char *uri);
/* subscriptions/listen. */
pd_code pd_mcp_listen(pd_mcp_turn *turn);
/* Streams whose exchange is over go; with `is_end`, all of them, each with its result. */
void pd_mcp_listen_sweep(pd_mcp *mcp, bool is_end);

/* ---- mcp_session.c ---- */

struct pd_mcp_session {
  pd_mcp *mcp;
  uint64_t number; /* from 1 on, of this process; no other has it */
  atomic_uint refs;
  char id[PD_MCP_SESSION_ID_SIZE]; /* "": stdio */
  char agent[PD_NAME_SIZE_MAX + 1], realm[PD_TOKEN_ID_SIZE];
  char state_session[PD_SESSION_ID_SIZE]; /* of state.session.*; "": not begun. Under pd_mcp.lock, as all that follows */
  const char *revision;                   /* NULL: not initialized */
  unsigned client;
  pd_mcp_level level;
  bool is_ended;
  int64_t used_ms;
  pd_mcp_listener listener;
  struct pd_mcp_owner *owner;           /* while it is in the table */
  struct pd_mcp_session *older, *newer; /* of the owner's, by the time of their last use */
};

/* The sessions of one agent in the table. */
typedef struct pd_mcp_owner {
  char agent[PD_NAME_SIZE_MAX + 1];
  size_t count;
  pd_mcp_session *oldest, *newest;
} pd_mcp_owner;

/* A new one with an id, for an `initialize` over HTTP. */
PD_MUST_USE pd_code pd_mcp_session_make(pd_mcp *mcp, const char *agent, const char *realm, const char *revision, unsigned client,
                                        pd_mcp_session **out, pd_error *err);
void pd_mcp_sessions_sweep(pd_mcp *mcp, bool is_end);
/* The session of the home that calls of this turn belong to, begun if there is none. `is_new`: not the one that was there. */
PD_MUST_USE pd_code pd_mcp_state_session(pd_mcp_turn *turn, bool is_new, char out[PD_SESSION_ID_SIZE], pd_error *err);
/* …if there is one already; else "". */
void pd_mcp_state_session_look(pd_mcp_turn *turn, char out[PD_SESSION_ID_SIZE]);
/* The index of a legacy revision; -1 if it is none. */
int pd_mcp_revision_index(const char *revision);
const char *pd_mcp_revision_at(size_t index); /* NULL after the last; the newest first */

/* ---- mcp_seal.c: what a client carries for us ---- */

/* Base64 of `state`, sealed for this very request (agent, method, name, arguments). M3 */
PD_MUST_USE pd_code pd_mcp_seal(pd_mcp_turn *turn, pd_bytes state, pd_buf *out, pd_error *err);
/* Open it, once; PD_DENIED names what is wrong with it. */
PD_MUST_USE pd_code pd_mcp_unseal(pd_mcp_turn *turn, pd_json text, pd_buf *out, pd_error *err);
pd_id pd_mcp_mac(const uint8_t key[KEY_SIZE], const pd_bytes *parts, size_t count);
PD_MUST_USE pd_code pd_mcp_keys(pd_mcp *mcp, const char *file, pd_error *err);

/* ---- mcp_ask.c: requests of ours, and their answers; legacy ---- */

typedef struct pd_mcp_pending pd_mcp_pending;
/* Send the turn's questions and remember the turn. */
PD_MUST_USE pd_code pd_mcp_ask_client(pd_mcp_turn *turn, pd_bytes message, pd_error *err);
/* An answer came; whatever waited for it and has all it needs runs on this thread. */
void pd_mcp_ask_answer(pd_mcp *mcp, const pd_mcp_peer *peer, const pd_mcp_message *answer);
void pd_mcp_ask_sweep(pd_mcp *mcp, bool is_end);

/* ---- mcp_method.c ---- */

/* Run the method of the turn's message. */
pd_code pd_mcp_method_run(pd_mcp_turn *turn);
/* Is the request modern, and are its `_meta` and headers right? Fills the turn. */
pd_code pd_mcp_era(pd_mcp_turn *turn);
pd_mcp_level pd_mcp_level_parse(pd_json level); /* PD_MCP_SILENT if it is none */
unsigned pd_mcp_client_of(pd_json capabilities);
/* "supported":[…],"requested":… */
pd_code pd_mcp_refuse_version(pd_mcp_turn *turn, pd_bytes requested);

/* ---- mcp.c ---- */

/* Answer the request; `message` is its whole text, for those that have to be run again. */
void pd_mcp_turn_run(pd_mcp_turn *turn, pd_bytes message);
void pd_mcp_turn_done(pd_mcp_turn *turn);
/* The members of `_meta` that every modern result has. */
void pd_mcp_write_server(pd_mcp_turn *turn, pd_json_writer *w);

typedef struct pd_mcp_used {
  uint8_t nonce[16];
  int64_t expires_ms;
} pd_mcp_used;

typedef struct pd_mcp_agent_session {
  char agent[PD_NAME_SIZE_MAX + 1];
  char id[PD_SESSION_ID_SIZE];
} pd_mcp_agent_session;

struct pd_mcp {
  pd_home *home;
  char *uri;
  char **filters;
  size_t filter_count, page_count;
  const pd_mcp_provider *provider;
  void *provider_ctx;
  void *inside; /* the provider's own */
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;
  uint8_t session_key[KEY_SIZE], state_key[KEY_SIZE];
  atomic_bool is_hurrying;             /* who waits should not */
  atomic_uint_fast64_t session_number; /* that was given last */

  pthread_mutex_t lock; /* of what follows; an exchange's lock may be taken under it, never the other way round */
  pd_mcp_exchange *live;
  pd_mcp_listener *listeners;
  size_t stream_count;
  pd_map sessions; /* by id */
  pd_map owners;   /* by agent */
  pd_id *ended;    /* hashes of ids of sessions that ended, so that they do not come back */
  size_t ended_count, ended_capacity, ended_next;
  pd_map agent_sessions; /* by agent */
  pd_mcp_pending *pending;
  size_t pending_count;
  pd_mcp_used used[USED_MAX];
  size_t used_next;
};

/* Is it one of the tools of this pd_mcp, by its filter? */
bool pd_mcp_fits(const pd_mcp *mcp, const char *capability);
/* Call a capability by the peer's gate. */
PD_MUST_USE pd_code pd_mcp_call(pd_mcp_turn *turn, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err);

#endif
