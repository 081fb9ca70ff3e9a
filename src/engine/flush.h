/* flush.h: from staged to acknowledged, as write.c needs it. With the lock held unless it is said otherwise. Private to src/engine. */
#ifndef PD_ENGINE_FLUSH_H
#define PD_ENGINE_FLUSH_H

#include "engine/store.h"

/* E4: everything staged is void. */
void pd_rewind_tips(pd_store *s);
/* Let other processes append again, unless something is staged. */
void pd_release_claim(pd_store *s);
/* After commits: is a keyframe or gc due, is the cache too large? */
void pd_look_after(pd_store *s);
/* Buffered: what was staged last is seen at once; the keeper appends it in time. */
void pd_publish_buffered(pd_store *s);

/* Until the ticket is concluded. Who finds nobody flushing flushes up to `batches_max`. With the lock held on entry, and without it on
 * return. */
void pd_ticket_wait(pd_store *s, pd_ticket *ticket, unsigned batches_max);
/* Needs no lock. */
bool pd_ticket_is_concluded(const pd_ticket *ticket);
/* Whoever concluded it may be just about to say so: its owner may leave only afterwards. Needs no lock. */
void pd_ticket_hear_all(pd_ticket *ticket, unsigned heard);

#endif
