/* permit.c: may this call run now? The capability's permission, tightened by policy, and what the operator decided. */
#include "base/base.h"
#include "base/error.h"
#include "state/approval.h"
#include "state/call.h"
#include "state/policy.h"

static pd_code refuse(const pd_frame *frame, const pd_verdict *verdict, const char *what, pd_error *err)
{
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s %s%s%s", frame->capability->name, what, *verdict->reason ? ": " : "",
                        verdict->reason);
}

pd_code pd_permit(pd_frame *frame, pd_error *err)
{
  pd_verdict verdict;
  pd_policy_judge(frame, &verdict);
  frame->permission = verdict.permission;
  bool is_watched = verdict.permission == PD_PERMIT_OPERATOR || verdict.permission == PD_PERMIT_APPROVAL;
  if (frame->is_begun && is_watched) return pd_frame_must_wait(frame, err); /* approvals and their audit are on disk before the answer */
  switch (verdict.permission) {
  case PD_PERMIT_BLOCKED: return refuse(frame, &verdict, "is blocked by policy", err);
  case PD_PERMIT_OPERATOR: return frame->ctx->is_operator ? PD_OK : refuse(frame, &verdict, "is the operator's alone", err);
  case PD_PERMIT_APPROVAL: return frame->ctx->is_operator ? PD_OK : pd_approval_settle(frame, verdict.ttl_ms, verdict.reason, err);
  case PD_PERMIT_NOTIFY:
  case PD_PERMIT_AUTONOMOUS: break;
  }
  return PD_OK;
}
