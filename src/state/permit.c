/* permit.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"

pd_code pd_permit(pd_frame *frame, pd_error *err)
{
  if (frame->permission == PD_PERMIT_OPERATOR && !frame->ctx->is_operator)
    return pd_error_set(err, PD_DENIED, "%s is the operator's alone", frame->capability->name);
  return PD_OK;
}
