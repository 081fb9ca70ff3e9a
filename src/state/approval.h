/*
 * approval.h: what waits for the operator's decision, and what was decided.
 *
 * Two JSON arrays in the system store (seed 000): `approvals:pending`, and `approvals:history` with those that were approved, denied or
 * have expired, the oldest first in both.
 *
 * P1  Every change is one commit on condition of the versions that were read: of several who decide, or who use an approval, one wins.
 * P2  An item is bound to the hash of capability and inputs, and to the agent. There is at most one pending item for both.
 * P3  An approval is used by the first such call after the decision, before that call runs, and whatever comes of the run; but a call that
 *     only found the vault locked gives it back.
 * P4  Of a denial, and of a request that nobody decided in time, the agent is told once by the answer of the same call; the call after
 *     that asks anew.
 * P5  What is asked for could be done when it was asked for: the call was foreseen (foresee.h), and its facts are in the item as
 *     `resolved`. The approved call runs with them. If they do not hold any more the approval expires, and the call after that asks anew;
 *     so does a pending one when the call is made again and its facts are others.
 */
#ifndef PD_STATE_APPROVAL_H
#define PD_STATE_APPROVAL_H

#include "base/json.h"
#include "state/call.h"
#include "state/home.h"

#define PD_APPROVALS_PENDING "approvals:pending"
#define PD_APPROVALS_HISTORY "approvals:history"
#define PD_APPROVALS_PENDING_MAX 10000
#define PD_APPROVALS_AGENT_MAX 1000                      /* of one agent, so that it leaves room for others */
#define PD_APPROVALS_SIZE_MAX ((size_t)16 * 1024 * 1024) /* of each list as text */

typedef enum pd_approval_status { PD_PENDING = 0, PD_APPROVED, PD_REFUSED, PD_EXPIRED } pd_approval_status;

/* "pending", "approved", "denied", "expired". Static storage. */
const char *pd_approval_status_name(pd_approval_status status);

/* An item. The JSON values are slices of the lists' texts; PD_JSON_NONE: there is none. Times are 0 if there is none. */
typedef struct pd_approval {
  pd_json id, agent, session, capability, input_hash, input; /* input: as the operator may see it */
  pd_json resolved;                                          /* what names in it stand for: the facts of foresee.h */
  pd_json policy;                                            /* why approval is needed, if a policy says so */
  pd_json decided_by, reason;
  pd_approval_status status;
  int64_t created_ms, expires_ms; /* expires: 0: never */
  int64_t decided_ms, usable_ms;  /* usable: an approval is good until then */
  int64_t used_ms, told_ms;
  size_t size; /* of its text, about */
} pd_approval;

typedef struct pd_approval_list {
  pd_approval *items;
  size_t count, capacity;
  pd_buf text;
  uint64_t version; /* of the key; 0: absent */
  bool is_changed;
} pd_approval_list;

/* Both lists, as one moment has them, and the invocation that may change them. Zero-initialise; pd_approvals_done. */
typedef struct pd_approvals {
  pd_home *home;
  pd_edit *edit;
  pd_approval_list pending, history;
  size_t expired_from; /* in history: items from here on were moved by this reading */
  int64_t now_ms;
} pd_approvals;

/* Read. What has expired by `now_ms` is moved to the history, here; pd_approvals_save makes it last. `note` may be NULL. */
PD_MUST_USE pd_code pd_approvals_read(pd_home *home, int64_t now_ms, const pd_note *note, pd_approvals *out, pd_error *err);
void pd_approvals_done(pd_approvals *all);
/* Commit what was changed; PD_OK without a commit if nothing was. PD_CONFLICT: others were faster; done, and read again. Agents whose
 * requests have expired are told. `out` may be NULL. */
PD_MUST_USE pd_code pd_approvals_save(pd_approvals *all, pd_ack *out, pd_error *err);
/* Append to the history, and keep that within approval.history. */
PD_MUST_USE pd_code pd_approvals_remember(pd_approvals *all, const pd_approval *item, pd_error *err);
/* As an operator sees it, or the agent that asked: without facts about the host (F4 in foresee.h). */
void pd_approval_json(pd_json_writer *w, const pd_approval *item, bool is_operator);
/* …as it is stored, and read again. */
void pd_approval_put(pd_json_writer *w, const pd_approval *item);
PD_MUST_USE pd_code pd_approval_parse(pd_json object, pd_approval *out, pd_error *err);
/* Tell the agent, by its queue. */
PD_MUST_USE pd_code pd_approval_tell(pd_home *home, const pd_approval *item, pd_error *err);

/* approval_settle.c: may this call run now? PD_OK: an approval was used, frame->approval names it. PD_APPROVAL, PD_DENIED. */
PD_MUST_USE pd_code pd_approval_settle(pd_frame *frame, uint64_t ttl_ms, const char *policy, pd_error *err);
/* The call did nothing after all: the approval that it used is good again. If that cannot be written, it stays used. */
void pd_approval_give_back(const pd_frame *frame);

/* restore_notice.c: of state.backup.restore, how old the backup is and what is newer than it. Appends to `out`; nothing for other calls. */
PD_MUST_USE pd_code pd_restore_notice(const pd_frame *frame, pd_buf *out, pd_error *err);

#endif
