/* session.c: first slice. */
#include "base/base.h"
#include "base/error.h"
#include "state/call.h"
#include "state/run.h"
#include "state/tiers.h"

#include <stdlib.h>

struct pd_sessions {
  pd_home *home;
};

pd_code pd_sessions_new(pd_home *home, pd_sessions **out, pd_error *err)
{
  pd_sessions *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  *out = made;
  return PD_OK;
}

void pd_sessions_free(pd_sessions *session)
{
  free(session);
}

pd_code pd_cap_state_session_get(pd_frame *frame, pd_error *err)
{
  (void)frame;
  return pd_error_set(err, PD_SESSION, "there are no sessions yet");
}

pd_code pd_session_begin(pd_home *home, const char *agent, char out_id[PD_SESSION_ID_SIZE], pd_error *err)
{
  (void)home;
  (void)agent;
  (void)out_id;
  return pd_error_set(err, PD_SESSION, "there are no sessions yet");
}

pd_code pd_session_end(pd_home *home, const char *agent, const char *id, pd_error *err)
{
  (void)home;
  (void)agent;
  (void)id;
  return pd_error_set(err, PD_SESSION, "there are no sessions yet");
}
