/* vault.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"
#include "state/tiers.h"

#include <stdlib.h>

struct pd_vault {
  pd_home *home;
};

pd_code pd_vault_new(pd_home *home, pd_vault **out, pd_error *err)
{
  pd_vault *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  *out = made;
  return PD_OK;
}

void pd_vault_free(pd_vault *vault)
{
  free(vault);
}
