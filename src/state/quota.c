/* quota.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"
#include "state/tiers.h"

#include <stdlib.h>

struct pd_quotas {
  pd_home *home;
};

pd_code pd_quotas_new(pd_home *home, pd_quotas **out, pd_error *err)
{
  pd_quotas *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  *out = made;
  return PD_OK;
}

void pd_quotas_free(pd_quotas *quota)
{
  free(quota);
}
