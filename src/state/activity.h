/*
 * activity.h: when each agent was last active.
 *
 * A1  A note never fails the call, and costs no lock and no I/O, but the first of an agent and the first after a pause, which look into
 *     the system store. A write that is due (activity.flush) is made by a thread of its own; with activity.flush = 0 it is made before the
 *     call is answered. Calls whose note waits are not answered on a thread that serves connections (pd_activity_must_wait).
 * A2  `activity/AGENT` in the system store is {"last":"2026-11-15T10:00:00.000Z"}: the latest that any process has told. It never goes
 *     back.
 * A3  What "last activity" means to an agent that comes back: its last call before the present stretch. A stretch is a session; without
 *     one, the calls of this process with no pause longer than session.idle (a session would have ended in such a pause).
 *     state.briefing.generate itself is no activity: who asks again, also from another process, gets the same answer.
 */
#ifndef PD_STATE_ACTIVITY_H
#define PD_STATE_ACTIVITY_H

#include "state/home.h"

/* The agent did something now. */
void pd_activity_note(pd_home *home, const char *agent, int64_t now_ms);
/* Would that note wait for the disk? */
bool pd_activity_must_wait(pd_home *home, const char *agent, int64_t now_ms);
/* The agent's last activity before its session `session` began; without one (NULL, or it has ended), before the present stretch of
 * calls (A3). 0 if the agent was never active before. Unreadable stores count as "never". */
void pd_activity_last(pd_home *home, const char *agent, const char *session, int64_t *out_ms);
/* The agent's last call so far, whether in this process or another; 0: none. */
int64_t pd_activity_latest(pd_home *home, const char *agent);
/* Visit every agent that was ever active, by name, with its last call so far, whether in this process or another. */
PD_MUST_USE pd_code pd_activity_each(pd_home *home, void (*visit)(void *ctx, const char *agent, int64_t last_ms), void *ctx, pd_error *err);
/* Write what is not written yet. On a failure it is kept, and tried again later. At once PD_OK if another thread is at it. */
PD_MUST_USE pd_code pd_activity_flush(pd_home *home, pd_error *err);

#endif
