/*
 * call.h: the door, seen from inside: what a capability's function is given, and what the door asks of its neighbours.
 *
 * C1  A capability runs only with an input that its schema accepts and with a grant of authorise.c (AU4).
 * C2  Every call that names a capability is audited once, whatever came of it.
 * C3  What a function writes to frame->out reaches the caller only if it returned PD_OK.
 */
#ifndef PD_STATE_CALL_H
#define PD_STATE_CALL_H

#include "base/json.h"
#include "state/capability.h"
#include "state/home.h"

/* An input after parsing: one slot for each field of the capability. */
struct pd_input {
  const pd_capability *capability;
  pd_json fields[PD_FIELD_COUNT_MAX]; /* PD_JSON_NONE: absent */
  pd_bytes texts[PD_FIELD_COUNT_MAX]; /* of strings: decoded */
  pd_json_facts facts;                /* of the whole text */
  pd_id hash;                         /* of capability and input, canonical where it matters: see pd_input_hash */
  bool has_hash;
  pd_buf decoded; /* of strings with escapes */
  pd_buf copy;    /* pd_input_new: what the slices point into */
};

struct pd_frame {
  const pd_ctx *ctx;
  pd_home *home;
  const char *agent; /* checked; "" if the operator named none */
  const pd_capability *capability;
  const pd_input *input;
  pd_permission permission; /* in force: of the capability, tightened by policy */
  pd_grant grant;           /* pd_authorise_call: to run, and to use the agent's store and the shared one */
  int64_t now_ms;
  pd_json_writer out; /* an object is open: write members */
  pd_buf details;     /* JSON members for error.details: "\"used\":3,\"limit\":2"; see pd_frame_detail */
  pd_id commit;       /* that the call made, for the audit */
  bool has_commit;
  char approval[72];        /* the approval that was used, or that is needed; "" if none */
  bool is_begun;            /* by one who does not want to wait: pd_call_begin */
  bool must_wait;           /* it cannot be done so */
  bool is_out_of_scope;     /* its token does not let it be called so */
  pd_later *later;          /* set by a function that ends with a staged commit */
  pd_held *held;            /* the agent's store, until the call is over; NULL: it was not needed yet */
  struct pd_thread *thread; /* that the call is about: pd_threads_hold */
  pd_input *bound;          /* `input` with what was approved in place of names; NULL: no such approval was used. Owned */
  const pd_input *named;    /* the input as it was given, if it is bound */
  bool foresees;            /* it only finds out what it would do: foresee.h */
  bool is_foreseen;         /* it has */
  bool is_approved;         /* an approval was used, with these facts */
  bool is_stale;            /* and one of them is another now */
  pd_buf facts;             /* JSON members, as `details` */
};

/* ---- what a capability's function uses ---- */

/* An input by its name, which must be one of the capability's. PD_JSON_NONE if absent. */
pd_json pd_in(const pd_frame *frame, const char *name);
/* A string input, decoded; empty with data NULL if absent. Not NUL-terminated. */
pd_bytes pd_in_text(const pd_frame *frame, const char *name);
/* As C text into `out`, which is always large enough for strings that the schema lets through; false if absent. */
bool pd_in_string(const pd_frame *frame, const char *name, char *out, size_t size);
/* An integer input, or `otherwise` if absent. */
int64_t pd_in_int(const pd_frame *frame, const char *name, int64_t otherwise);
bool pd_in_bool(const pd_frame *frame, const char *name, bool otherwise);
/* Any input as it will be stored: JSON text on one line, appended to `out`. */
PD_MUST_USE pd_code pd_in_value(const pd_frame *frame, const char *name, pd_buf *out, pd_error *err);

/* Members of error.details, for a failure that the function is about to return. */
void pd_frame_detail_number(pd_frame *frame, const char *key, uint64_t number);
void pd_frame_detail_text(pd_frame *frame, const char *key, const char *text);
/* Who writes and why, as records keep it: author (the agent), run (its session), reason (the capability). Borrowed from the frame. */
pd_note pd_frame_note(const pd_frame *frame);
/* Tell the caller how far it is, if it wants to know. PD_INVALID named Cancelled if it has enough. */
PD_MUST_USE pd_code pd_frame_progress(const pd_frame *frame, uint64_t done, uint64_t total, pd_error *err);
/* Note the commit that the call made, for the audit. */
void pd_frame_commit(pd_frame *frame, const pd_ack *ack);
/* A member with a time as text; null for 0. */
void pd_out_time(pd_frame *frame, const char *key, int64_t time_ms);
/* A stored value as JSON: as it is if it is JSON; a string if it is other UTF-8 text; {"base64":…} else. */
void pd_out_stored(pd_json_writer *out, pd_bytes value);

/* Is this the first half of a call, so that it should stage its commit and not wait? If it finds that it has to wait, it returns
 * pd_frame_must_wait, and the call is run anew by one who may: so it must not have changed anything. */
bool pd_frame_is_hurried(const pd_frame *frame);
PD_MUST_USE pd_code pd_frame_must_wait(pd_frame *frame, pd_error *err);
/* pd_frame_note for the commit that a call ends with: it may only be staged when the function returns, and is waited for before the answer
 * leaves. So the function neither reads the store nor writes after it; the answer says what the commit will be. */
pd_note pd_frame_last_note(pd_frame *frame);
/* For that commit: where a note's `later` points; NULL if it is to be waited for. */
pd_later **pd_frame_later(pd_frame *frame);
/* The store of that commit, if it is neither the agent's own, `shared` nor `system`: let go when the call is over. */
void pd_frame_keep(pd_frame *frame, pd_held *held);
/* The store of the agent that calls; borrowed until the call is over. Made if it is not there and `create`, which says that it will be
 * written to; else PD_NOT_FOUND. */
PD_MUST_USE pd_code pd_frame_own(pd_frame *frame, bool create, pd_store **out, pd_error *err);
/* The same, but *out is NULL if there is none. */
PD_MUST_USE pd_code pd_frame_own_or_none(pd_frame *frame, pd_store **out, pd_error *err);

/* ---- input.c ---- */

/* Parse and check. `out` is to be finished with pd_input_done, also after a failure. The slices point into `text`.
 * PD_INVALID named InvalidInput: the message names the field. */
PD_MUST_USE pd_code pd_input_parse(const pd_capability *capability, pd_bytes text, pd_input *out, pd_error *err);
void pd_input_done(pd_input *input);
/* SHA-256 of the capability's name, a newline, and the canonical JSON of the input: what approvals are bound to and audits tell. */
PD_MUST_USE pd_code pd_input_hash(const pd_input *input, pd_id *out, pd_error *err);

/* ---- the neighbours ---- */

/* One line of the audit. Texts are borrowed. */
typedef struct pd_audit_entry {
  int64_t time_ms;
  int64_t first_ms;                                                      /* of the first of `count` calls; 0: time_ms */
  uint64_t count;                                                        /* 0: 1 */
  const char *agent, *session, *token, *capability, *outcome, *approval; /* outcome: "ok" or the error's name; token: NULL: none */
  bool is_operator;
  bool is_known; /* `capability` is one, and so of static storage */
  pd_permission permission;
  pd_bytes subject; /* the key, prefix or id that the call was about; never a value */
  pd_id input_hash;
  const pd_id *commit; /* NULL: none */
  bool is_hasty;       /* it does not wait for room, nor for the disk; and it changed nothing */
} pd_audit_entry;

/* audit.c: never fails the call: what cannot be written is kept and tried again, and system.health says so. */
void pd_audit_add(pd_home *home, const pd_audit_entry *entry);
/* The same for an entry in haste. False: there is no room now, and nothing was added. */
PD_MUST_USE bool pd_audit_add_hasty(pd_home *home, const pd_audit_entry *entry);

#endif
