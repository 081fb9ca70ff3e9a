/* policy.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"
#include "state/tiers.h"

#include <stdlib.h>

struct pd_policy {
  pd_home *home;
};

pd_code pd_policy_new(pd_home *home, pd_policy **out, pd_error *err)
{
  pd_policy *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  *out = made;
  return PD_OK;
}

void pd_policy_free(pd_policy *policy)
{
  free(policy);
}
