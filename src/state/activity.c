/* activity.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"
#include "state/tiers.h"

#include <stdlib.h>

struct pd_activity {
  pd_home *home;
};

pd_code pd_activity_new(pd_home *home, pd_activity **out, pd_error *err)
{
  pd_activity *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  *out = made;
  return PD_OK;
}

void pd_activity_free(pd_activity *activity)
{
  free(activity);
}

void pd_activity_note(pd_home *home, const char *agent, int64_t now_ms)
{
  (void)home;
  (void)agent;
  (void)now_ms;
}
