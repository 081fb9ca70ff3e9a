/*
 * tail.h: what this process knows of the end of a log on a server. There is no shared memory with a server, so the number of the last
 * record is that which the last answer told (B5), and a thread asks for news once somebody waits for them, or has the store open for longer
 * than a command takes.
 *
 * L1  One pd_tail for a URI and store, shared by all handles of the process: what one hears, all know.
 * L2  The number only grows.
 */
#ifndef PD_REMOTE_TAIL_H
#define PD_REMOTE_TAIL_H

#include <perdure/perdure.h>

typedef struct pd_tail pd_tail;

PD_MUST_USE pd_code pd_tail_open(const char *uri, const char *store, pd_tail **out, pd_error *err);
/* The last one who closes it ends the thread. Takes NULL. */
void pd_tail_close(pd_tail *tail);
/* The log is known to reach so far. */
void pd_tail_raise(pd_tail *tail, uint64_t seq);
/* The number of the last record as far as is known. Nanoseconds. */
uint64_t pd_tail_hint(pd_tail *tail);
/* B17. */
PD_MUST_USE pd_code pd_tail_wait(pd_tail *tail, uint64_t after, uint32_t timeout_ms, pd_error *err);

#endif
