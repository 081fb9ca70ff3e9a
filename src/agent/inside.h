/*
 * inside.h: the inside of a pd_agent.
 *
 *  I1  `document` is what is saved, or, for a fresh agent, what a first save changes. Nothing else is known of the agent's past: a step is
 *      written as that document with a draft laid over it, and replaces it once it is saved.
 *  I2  After a save that failed and may have been done, `is_unsure` is set, and pd_agent_settle finds out before anything else happens.
 *  I3  A save is made on the document that `mark` names, or not at all. If another process of this life saved meanwhile, the agent becomes
 *      what is stored now, pd_agent_save answers PD_CONFLICT, and whoever called it looks at that and decides again (pd_agent_again):
 *      an event may be queued by then, an effect intended, a step finished.
 *  I4  Whatever is found in the storage has to follow `document`: a later save of this epoch. Anything else (restored, undone, written by
 *      another program) is AgentFenced.
 */
#ifndef PD_AGENT_INSIDE_H
#define PD_AGENT_INSIDE_H

#include "agent/ledger.h"

#define PD_AGENT_TAG 17 /* hexadecimal digits, and a NUL */

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
  bool names_events;                       /* events of the queue that have no id get one */
} pd_draft;

struct pd_agent {
  pd_storage *storage;
  bool owns_storage, is_reader;
  bool is_attached;       /* a further process of a life: opened with its epoch, not by a claim */
  bool is_call;           /* one of many that take turns */
  char tag[PD_AGENT_TAG]; /* this handle, among those of its life */
  char id[PD_NAME_SIZE_MAX + 1];
  uint64_t epoch;
  size_t reply_count_max, reply_bytes_max; /* 0: as stored */
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;
  pd_agent_origin origin;

  pd_buf document;      /* I1 */
  pd_storage_mark mark; /* of the document; zeros: it has none */
  pd_snapshot facts;
  pd_ledger ledger;

  bool is_unsure;           /* I2 */
  uint64_t tried_token;     /* of the last save that failed */
  bool has_company;         /* another process of this life has saved */
  bool has_changed;         /* I3: the last save was refused for that */
  pd_agent_id tried_effect; /* what a save that failed was about to intend */

  bool is_open;
  bool was_queued;  /* its event was in the queue when it began */
  bool is_outdated; /* another process committed a step since, and variables or status are others now */
  pd_buf event;
  pd_agent_id event_id, pushed_id;
  pd_draft draft;

  pd_buf reply, reply_text;
  pd_agent_id replied; /* whose reply `reply` is; "": nobody's */
  pd_agent_id *sent;   /* whose reply has left, as far as it is not saved yet */
  size_t sent_count, sent_capacity;
  pd_agent_id *owed; /* whose commit of this handle failed and may have been done: a reply of this life that nobody was given */
  size_t owed_count, owed_capacity;

  pd_agent_id effect_id, effect_event; /* what a pd_effect points to */
};

void pd_draft_begin(pd_draft *draft);
void pd_draft_done(pd_draft *draft);

/* ---- agent.c ---- */
/* I2 */
PD_MUST_USE pd_code pd_agent_settle(pd_agent *agent, pd_error *err);
/* Become what is stored now (I4). */
PD_MUST_USE pd_code pd_agent_refresh(pd_agent *agent, pd_error *err);
/* Save the document with `draft` over it (I3). */
PD_MUST_USE pd_code pd_agent_save(pd_agent *agent, const pd_draft *draft, pd_error *err);
/* How long a call has been waiting for others. Zero-initialise. */
typedef struct pd_patience {
  int64_t give_up_ms;
  unsigned tries;
} pd_patience;
/* I3: is it to be tried again? Waits before that, a little longer each time; after half a minute not any more. */
bool pd_agent_again(const pd_agent *agent, pd_code code, pd_patience *patience);
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
/* The id of an event: its `id`, or `perdure_id` where that is none; false if it has neither. */
bool pd_event_id(pd_json event, pd_agent_id *out);
/* Which event of the queue has this id; SIZE_MAX: none. */
size_t pd_event_find(const pd_agent *agent, const char *id);
/* The first event of the queue. */
bool pd_event_first(const pd_agent *agent, pd_json *out);
/* A new id: no other event ever has it. */
PD_MUST_USE pd_code pd_event_new_id(pd_agent_id *out, pd_error *err);
/* Append an event of the queue, with a new id if it has none. One that is no id stays, and the event gets a `perdure_id`. */
PD_MUST_USE pd_code pd_event_name(pd_json event, pd_buf *out, pd_error *err);
/* Append an event that came from outside, with `new_id` if it has no id. PD_INVALID if its id is none. */
PD_MUST_USE pd_code pd_event_write(pd_json event, const char *new_id, pd_buf *out, pd_agent_id *out_id, pd_error *err);
/* Put aside an event for `draft`; *out says what became of it. */
PD_MUST_USE pd_code pd_event_stage(pd_agent *agent, pd_bytes event, pd_draft *draft, pd_push *out, pd_error *err);

/* ---- step.c ---- */
/* Make the reply of this event what pd_agent_reply gives, if it is remembered. */
PD_MUST_USE pd_code pd_agent_recall(pd_agent *agent, const char *event_id, bool *out_is_known, pd_error *err);
bool pd_agent_has_left(const pd_agent *agent, const char *event_id);
/* Is this reply to be given out by this handle: one of an earlier life, or of a commit whose outcome was not known? */
bool pd_agent_is_due(const pd_agent *agent, pd_json unsent);
/* The reply of this event, if there is one, may not have been given to anybody. */
PD_MUST_USE pd_code pd_agent_owe(pd_agent *agent, const char *event_id, pd_error *err);
bool pd_agent_owes(const pd_agent *agent, const char *event_id);

#endif
