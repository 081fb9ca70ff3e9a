/*
 * session_share.h: what the sessions of one agent have together: how many they are, and how many bytes they hold. So that one agent cannot
 * take the memory of all.
 */
#ifndef PD_STATE_SESSION_SHARE_H
#define PD_STATE_SESSION_SHARE_H

#include <perdure/perdure.h>
#include <stdatomic.h>

typedef struct pd_session_shares pd_session_shares; /* of all agents that have a session */
typedef struct pd_session_share pd_session_share;   /* of one of them */

PD_MUST_USE pd_code pd_session_shares_new(pd_session_shares **out, pd_error *err);
/* Every session has left. Takes NULL. */
void pd_session_shares_free(pd_session_shares *shares);

/* One more session of `agent`. PD_LIMIT, named TooManySessions, if it has `count_max`. */
PD_MUST_USE pd_code pd_session_share_enter(pd_session_shares *shares, const char *agent, uint64_t count_max, pd_session_share **out,
                                           pd_error *err);
/* One less. Takes NULL. */
void pd_session_share_leave(pd_session_shares *shares, pd_session_share *share);

/* So many bytes more, unless they would be more than `bytes_max` then. */
PD_MUST_USE bool pd_session_share_take(pd_session_share *share, size_t bytes, uint64_t bytes_max);
void pd_session_share_give(pd_session_share *share, size_t bytes);
size_t pd_session_share_bytes(const pd_session_share *share);

#endif
