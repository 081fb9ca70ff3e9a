/*
 * opened.h: the stores that a home has open: agents' come and go, `shared` and `system` stay.
 *
 * O1  A home has a store open once. It is opened when first needed, and closed when the home does, or earlier by O2.
 * O2  If more agents' stores are open than may be (store.open_max, and what the system allows), those that nobody holds are closed, the
 *     one that was let go longest ago first. If all are held, there are more for a while: nobody is refused for that.
 * O3  Who uses an agent's store holds it. A store that is held is not closed before the home is.
 * O4  No lock is held while a store is opened, flushed or closed. Who wants one that is just being opened or closed waits for that.
 * O5  A store is closed only when all that was acknowledged is on the disk: if flushing fails, it stays open.
 * O6  A home in memory closes nothing early: its stores are nowhere else.
 */
#ifndef PD_STATE_OPENED_H
#define PD_STATE_OPENED_H

#include "state/home.h"

/* With the home's configuration loaded. */
PD_MUST_USE pd_code pd_opened_new(pd_home *home, pd_opened **out, pd_error *err);
/* Flush all that are open; the first error is returned, when all were tried. */
PD_MUST_USE pd_code pd_opened_flush(pd_home *home, pd_error *err);
/* Close all of them; nobody uses any. Takes NULL. */
pd_code pd_opened_free(pd_opened *opened, pd_error *err);

#endif
