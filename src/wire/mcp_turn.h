/*
 * mcp_turn.h: one request of MCP while it is answered, and what a provider offers. The capabilities of a home are one provider
 * (mcp_tool.c, mcp_resource.c, mcp_prompt.c), the fixtures of the official suite are another.
 *
 * A provider's function writes members of the result with `turn->w`, or refuses, or asks: then the client is asked (by its era: a request
 * of the server's, or a result that wants the same request again), and the function is called anew with the answers in `turn->inputs`.
 */
#ifndef PD_WIRE_MCP_TURN_H
#define PD_WIRE_MCP_TURN_H

#include "base/json.h"
#include "wire/mcp.h"
#include "wire/mcp_message.h"

/* What a client can do. */
#define PD_MCP_ELICITS 1u /* by form */
#define PD_MCP_SAMPLES 2u
#define PD_MCP_HAS_ROOTS 4u

/* What may change. */
#define PD_MCP_TOOLS 1u
#define PD_MCP_PROMPTS 2u
#define PD_MCP_RESOURCES 4u

typedef enum pd_mcp_level {
  PD_MCP_DEBUG,
  PD_MCP_INFO,
  PD_MCP_NOTICE,
  PD_MCP_WARNING,
  PD_MCP_ERROR,
  PD_MCP_CRITICAL,
  PD_MCP_ALERT,
  PD_MCP_EMERGENCY,
  PD_MCP_SILENT /* nothing is told */
} pd_mcp_level;

typedef struct pd_mcp_exchange pd_mcp_exchange;

typedef struct pd_mcp_turn {
  pd_mcp *mcp;
  const pd_mcp_peer *peer;
  pd_mcp_session *session; /* NULL: none */
  pd_mcp_exchange *exchange;
  const pd_mcp_message *message;
  bool is_modern, is_batch;
  const char *revision; /* of the protocol */
  unsigned client;      /* PD_MCP_ELICITS… */
  pd_json progress_token;
  pd_mcp_level level;
  pd_json inputs; /* the client's answers by the name of the question; PD_JSON_NONE in the first round */
  pd_bytes state; /* what pd_mcp_keep kept in the round before; data is NULL if there was none */
  bool has_state;

  pd_json_writer w; /* members of the result */
  pd_buf body;
  /* …and what pd_mcp_ask, pd_mcp_keep and pd_mcp_refuse leave here */
  pd_json_writer ask_w;
  pd_buf asks, kept, otherwise, refusal;
  size_t ask_count;
  int refused, status;
  bool is_open;    /* the answer comes later */
  bool is_waiting; /* there is none yet: the whole turn is run again (peer->wait) */
  bool is_cacheable, is_public;
  uint32_t ttl_ms;
  pd_error err;
} pd_mcp_turn;

/* ---- for providers ---- */

/* Refuse with a code of JSON-RPC; returns PD_INVALID, for `return pd_mcp_refuse(…)`. */
pd_code pd_mcp_refuse(pd_mcp_turn *turn, int code, const char *fmt, ...) PD_PRINTF(3, 4);
/* The same, with the members of `data` as they are in JSON text (`"uri":"…"`). */
pd_code pd_mcp_refuse_with(pd_mcp_turn *turn, int code, pd_bytes data, const char *fmt, ...) PD_PRINTF(4, 5);
/* params.cursor is none of ours. */
pd_code pd_mcp_refuse_cursor(pd_mcp_turn *turn);
/* The client cannot do what is needed: "sampling". */
pd_code pd_mcp_refuse_client(pd_mcp_turn *turn, const char *capability);

/* Ask the client: `method` is elicitation/create, sampling/createMessage or roots/list; `params` is JSON text of an object. The caller has
 * looked at turn->client before. */
PD_MUST_USE pd_code pd_mcp_ask(pd_mcp_turn *turn, const char *name, const char *method, const char *params);
/* Keep `bytes` for the round that has the answers; no client sees or changes them unnoticed. */
PD_MUST_USE pd_code pd_mcp_keep(pd_mcp_turn *turn, pd_bytes bytes);
/* The answer to a question, PD_JSON_NONE if it was not answered. */
pd_json pd_mcp_answer(const pd_mcp_turn *turn, const char *name);

/* Tell how far it is, if the client asked to be told. total 0: not known. */
void pd_mcp_progress(pd_mcp_turn *turn, uint64_t done, uint64_t total);
/* Tell the client's log, if it wants to hear that level. */
void pd_mcp_log(pd_mcp_turn *turn, pd_mcp_level level, const char *logger, pd_bytes text);
bool pd_mcp_is_cancelled(const pd_mcp_turn *turn);

/* {"type":"text","text":…} into an open array. */
void pd_mcp_text_block(pd_json_writer *w, pd_bytes text);

/* Something changed: tell who listens. `agent` NULL: all. */
void pd_mcp_changed(pd_mcp *mcp, const char *agent, unsigned what);
void pd_mcp_updated(pd_mcp *mcp, const char *agent, const char *uri);

/* ---- what a provider offers ---- */

/* Functions get the turn; `turn->mcp` and its provider_ctx are the way to their own things. A NULL function: not offered. */
struct pd_mcp_provider {
  const char *name, *title, *version, *instructions; /* version NULL: perdure's own */
  unsigned changes;                                  /* PD_MCP_TOOLS…: of these, notices may come in either era */
  unsigned changes_modern;                           /* of these, too, to who listens the modern way */
  /* Lists write items; the array is open. `cursor` is what the page before left in `out_cursor` (data NULL: the first page); at the end it
   * stays empty. */
  pd_code (*tools)(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
  pd_code (*call)(pd_mcp_turn *turn, const char *name, pd_json arguments);
  pd_code (*resources)(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
  pd_code (*templates)(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
  pd_code (*read)(pd_mcp_turn *turn, const char *uri); /* items of contents */
  pd_code (*prompts)(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
  pd_code (*prompt)(pd_mcp_turn *turn, const char *name, pd_json arguments);
  pd_code (*complete)(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value); /* members of completion */
  /* May the caller hear of changes of this resource? PD_DENIED, PD_NOT_FOUND, PD_INVALID. NULL: of all. */
  pd_code (*admit)(pd_mcp_turn *turn, const char *uri, pd_error *err);
  /* Watch a resource for the agent, or its list (uri ""), until as many calls of `unwatch`. NULL: pd_mcp_updated comes from elsewhere. */
  pd_code (*watch)(pd_mcp *mcp, const char *agent, const char *uri, pd_error *err);
  void (*unwatch)(pd_mcp *mcp, const char *agent, const char *uri);
  pd_code (*open)(pd_mcp *mcp, pd_error *err); /* when the pd_mcp is made; may be NULL */
  void (*close)(pd_mcp *mcp);
};

extern const pd_mcp_provider pd_mcp_home; /* mcp_home.c: the capabilities of a home */

/* What pd_mcp_new was given. */
void *pd_mcp_provider_ctx(const pd_mcp *mcp);

#endif
