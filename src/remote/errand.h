/*
 * errand.h: one line of an MCP client on its way to a server: what kind of message it is, and which of its requests (a batch has many) are
 * still to be answered.
 *
 * E1  Every request of a line gets one answer: the server's, or pd_errand_fail's.
 */
#ifndef PD_REMOTE_ERRAND_H
#define PD_REMOTE_ERRAND_H

#include "base/json.h"

#define PD_ERRAND_ITEMS_MAX 128u /* that are told apart; the server takes 100 */

typedef struct pd_errand {
  pd_buf text;
  pd_json json;        /* of the text; PD_JSON_NONE: it is none, and the server will say so */
  pd_buf method, name; /* what Mcp-Method and Mcp-Name say; "" if there is nothing to say */
  char version[32];    /* of a stateless request: what its `_meta` says; "": of the older revisions */
  bool is_quick;       /* a notification, an answer or a ping: it waits for no other */
  bool begins;         /* initialize: all others wait for it */
  bool is_open_ended;  /* a subscription: it is answered when it ends */
  bool may_wait;       /* for something to happen (wait_ms), and not only for its turn */
  bool is_settled;     /* nobody waits for an answer any more */
  uint64_t answered[PD_ERRAND_ITEMS_MAX / 64];
} pd_errand;

/* The text is copied. PD_NO_MEMORY is all that can go wrong. */
PD_MUST_USE pd_code pd_errand_init(pd_errand *errand, pd_bytes line, pd_error *err);
void pd_errand_done(pd_errand *errand);
/* Does a request of it wait for its answer? */
bool pd_errand_waits(const pd_errand *errand);
/* Is this the id of a request of it? */
bool pd_errand_has(const pd_errand *errand, pd_json id);
/* A message (or batch) came for it. *out_asks: it asks something of the client. */
void pd_errand_note(pd_errand *errand, pd_json message, bool *out_asks);
/* The client wants no answer to the request of this id. */
void pd_errand_drop(pd_errand *errand, pd_json id);
/* Append an error, one line, for each request that waits; for a line that is no JSON, one without an id. Nobody waits after that. */
PD_MUST_USE pd_code pd_errand_fail(pd_errand *errand, int64_t code, const char *message, pd_buf *out, pd_error *err);
/* The request that a notifications/cancelled names; PD_JSON_NONE: it is none. */
pd_json pd_errand_cancels(const pd_errand *errand);

#endif
