/* audit.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"
#include "state/tiers.h"

#include <stdlib.h>

struct pd_audit {
  pd_home *home;
};

pd_code pd_audit_new(pd_home *home, pd_audit **out, pd_error *err)
{
  pd_audit *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  *out = made;
  return PD_OK;
}

void pd_audit_free(pd_audit *audit)
{
  free(audit);
}

void pd_audit_add(pd_home *home, const pd_audit_entry *entry)
{
  (void)home;
  (void)entry;
}
