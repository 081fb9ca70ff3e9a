/*
 * ear.h: who waits for messages also waits for changes of shared state, which is another log. One thread a home listens there while
 * somebody waits, and moves the events of those who wait to their queues; the queue's log then wakes them.
 */
#ifndef PD_STATE_EAR_H
#define PD_STATE_EAR_H

#include "state/home.h"

/* Listen for `agent` until pd_ear_leave. Look at the queue once more after it: what came before is not heard. */
PD_MUST_USE pd_code pd_ear_join(pd_home *home, const char *agent, pd_error *err);
void pd_ear_leave(pd_home *home, const char *agent);

#endif
