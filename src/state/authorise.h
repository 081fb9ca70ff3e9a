/*
 * authorise.h: may somebody do this? The one place that decides: the scopes and the role of the caller's token, whose state it is, the
 * capability's own permission, and policy. The dispatcher asks here before every call (pd_authorise_call); whoever reads state by another
 * way asks here what a call that tells the same would be answered (pd_authorise_read, pd_authorise_any in perdure/state.h).
 *
 *   AU1  What is not known is refused: a capability that does not exist is the operator's, a token narrowed to prefixes names nothing else.
 *   AU2  The answer holds now. Whoever goes on for long asks again when pd_policy_epoch or the token changes.
 *   AU3  Only the dispatcher can turn "needs approval" into yes. To all others it is no.
 *   AU4  No capability runs and no agent's store is opened without a pd_grant, and only authorise.c fills one.
 *
 * How much may be written is not decided here but where it is staged: only there the sizes are known (quota.h).
 */
#ifndef PD_STATE_AUTHORISE_H
#define PD_STATE_AUTHORISE_H

#include "state/call.h"

/* Is `grant` for this store of its home; to write, if `writes`? PD_DENIED. */
PD_MUST_USE pd_code pd_grant_check(const pd_grant *grant, const char *store, bool writes, pd_error *err);
/* Is frame->grant for this very call? PD_DENIED. */
PD_MUST_USE pd_code pd_grant_check_call(const pd_frame *frame, pd_error *err);

/* The call in `frame`, in two steps. First what its token says, before anything is told about the input, which may be `is_malformed`. Sets
 * frame->is_out_of_scope. PD_DENIED. */
PD_MUST_USE pd_code pd_authorise_token(pd_frame *frame, bool is_malformed, pd_error *err);
/* Then the rest; sets frame->permission and, with PD_OK, frame->grant. PD_DENIED; PD_APPROVAL (a pending item was made or is there). */
PD_MUST_USE pd_code pd_authorise_call(pd_frame *frame, pd_error *err);
/* By its name alone: may the token call it, whatever the input? PD_DENIED. For names that are no capability. */
PD_MUST_USE pd_code pd_authorise_name(const pd_ctx *who, const char *capability, pd_error *err);

#endif
