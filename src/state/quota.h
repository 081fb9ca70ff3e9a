/* quota.h: writing under a quota, for the tiers that are stores. What is used is what list shows: the sum of the sizes of the values. */
#ifndef PD_STATE_QUOTA_H
#define PD_STATE_QUOTA_H

#include "state/call.h"

#define PD_STATE_REF "main" /* where agents' state, and the shared one, is */

/* Whose state, and how much of it there may be. */
typedef struct pd_quota {
  const char *what;  /* for the message: "the persistent state of agent" */
  const char *whose; /* the agent; NULL: all of them */
  uint64_t bytes_max;
} pd_quota;

/* pd_put_if on PD_STATE_REF with pd_frame_note, unless the values would then have more bytes than the quota and more than now (so a
 * value may shrink although the quota was lowered meanwhile). Exact, whatever other threads and processes write; O(1) but for the first
 * write after an open. PD_QUOTA named QuotaExceeded, with `used`, `limit` and `size` in the details; PD_CONFLICT as pd_put_if.
 * Notes the commit in the frame. */
PD_MUST_USE pd_code pd_quota_put(pd_frame *frame, pd_store *store, const pd_quota *quota, pd_bytes key, pd_bytes value,
                                 uint64_t expect_version, pd_ack *out, pd_error *err);

/* Is there room in the agent's store, which the frame holds, for what the call brings? What counts is what all its refs hold now: state,
 * forks, threads, mailboxes, work items. It is counted only if the store's files are larger than agent.quota, and then not for each call,
 * so several writers at once may go past the limit by a little. PD_QUOTA named QuotaExceeded, with `used`, `limit` and `size` in the
 * details. `small_is_free`: calls of a few KiB pass, for those that end something. */
PD_MUST_USE pd_code pd_quota_room(pd_frame *frame, bool small_is_free, pd_error *err);
/* The same for `size` bytes that the call brings back, whatever its input has. */
PD_MUST_USE pd_code pd_quota_room_for(pd_frame *frame, uint64_t size, pd_error *err);
/* Something was deleted: the next call looks anew. */
void pd_quota_look_again(pd_frame *frame);

#endif
