/*
 * inside.h: the inside of a pd_agent.
 *
 *  I1  `document` is what is saved, or, for a fresh agent, what a first save changes. Nothing else is known of the agent's past: a step is
 *      written as that document with a draft laid over it, and replaces it once it is saved.
 *  I2  After a save that failed and may have been done, `is_unsure` is set, and pd_agent_settle finds out before anything else happens.
 */
#ifndef PD_AGENT_INSIDE_H
#define PD_AGENT_INSIDE_H

#include "agent/ledger.h"

typedef struct pd_draft_variable {
  char *name;
  pd_buf json; /* empty: it goes */
} pd_draft_variable;

/* What a save changes. Zero-initialise but for the two that say SIZE_MAX; pd_draft_done frees. */
typedef struct pd_draft {
  bool is_step;            /* the tick goes up */
  const char *event_id;    /* of a step */
  size_t leaves;           /* which event of the queue goes; SIZE_MAX: none */
  pd_buf messages, events; /* JSON with commas between */
  size_t message_count, event_count;
  size_t keep; /* messages; SIZE_MAX: all */
  pd_draft_variable *variables;
  size_t variable_count, variable_capacity;
  char status[PD_SNAPSHOT_STATUS_MAX + 1]; /* "": as it was */
  pd_buf reply;                            /* JSON; empty: none */
  const char *effect_id;                   /* an entry of the ledger that changes */
  pd_bytes effect;                         /* to this JSON; empty: it goes */
} pd_draft;

struct pd_agent {
  pd_storage *storage;
  bool owns_storage, is_reader;
  char id[PD_NAME_SIZE_MAX + 1];
  uint64_t epoch;
  size_t reply_count_max, reply_bytes_max; /* 0: as stored */
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;
  pd_agent_origin origin;

  pd_buf document; /* I1 */
  pd_snapshot facts;
  pd_ledger ledger;

  bool is_unsure; /* I2 */
  uint64_t tried_save;
  pd_agent_id tried_effect; /* what a save that failed was about to intend */

  bool is_open;
  pd_buf event;
  pd_agent_id event_id, pushed_id;
  pd_draft draft;

  pd_buf reply, reply_text;
  pd_agent_id replied; /* whose reply `reply` is; "": nobody's */
  pd_agent_id *sent;   /* whose reply has left, as far as it is not saved yet */
  size_t sent_count, sent_capacity;

  pd_agent_id effect_id, effect_event; /* what a pd_effect points to */
};

void pd_draft_begin(pd_draft *draft);
void pd_draft_done(pd_draft *draft);

/* ---- agent.c ---- */
/* I2 */
PD_MUST_USE pd_code pd_agent_settle(pd_agent *agent, pd_error *err);
/* Save the document with `draft` over it. */
PD_MUST_USE pd_code pd_agent_save(pd_agent *agent, const pd_draft *draft, pd_error *err);
/* The window of replies that counts. */
size_t pd_agent_replies_max(const pd_agent *agent);
size_t pd_agent_reply_bytes_max(const pd_agent *agent);

/* ---- document.c ---- */
/* Append the document with `draft` over it: the next save of this agent. */
PD_MUST_USE pd_code pd_document_write(const pd_agent *agent, const pd_draft *draft, pd_buf *out, pd_error *err);

/* ---- event.c ---- */
/* Parse JSON that came from outside: of this kind (PD_JSON_NONE: any), no member twice, not too large. `what` is for the message. */
PD_MUST_USE pd_code pd_agent_parse(pd_bytes json, pd_json_kind kind, const char *what, pd_json *out, pd_error *err);
/* Entries with commas between, as the array that they make; it lies in `list`. */
PD_MUST_USE pd_code pd_list_parse(pd_bytes entries, pd_buf *list, pd_json *out, pd_error *err);
/* The id of an event; false if it has none that counts. */
bool pd_event_id(pd_json event, pd_agent_id *out);
/* Which event of the queue has this id; SIZE_MAX: none. */
size_t pd_event_find(const pd_agent *agent, const char *id);
/* The first event of the queue. */
bool pd_event_first(const pd_agent *agent, pd_json *out);
/* Append an event that came from outside, with `new_id` if it has no id. PD_INVALID if its id is none. */
PD_MUST_USE pd_code pd_event_write(pd_json event, const char *new_id, pd_buf *out, pd_agent_id *out_id, pd_error *err);
/* Put aside an event for `draft`; *out says what became of it. */
PD_MUST_USE pd_code pd_event_stage(pd_agent *agent, pd_bytes event, pd_draft *draft, pd_push *out, pd_error *err);

/* ---- step.c ---- */
/* Make the reply of this event what pd_agent_reply gives, if it is remembered. */
PD_MUST_USE pd_code pd_agent_recall(pd_agent *agent, const char *event_id, bool *out_is_known, pd_error *err);
bool pd_agent_has_left(const pd_agent *agent, const char *event_id);

#endif
