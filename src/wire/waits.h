/*
 * waits.h: calls that wait for a message, and hold no thread meanwhile. A call that would sleep comes back without an answer (pd_wait in
 * perdure/state.h) and is parked here, a small record; it is made again by a pool when there may be something for it.
 *
 *     for (;;) {
 *       pd_waits_look(waits, w);                              // what comes from here on is not missed
 *       … make the call with .wait = &w->wait …
 *       if (!w->wait.is_waiting) break;                       // there is an answer
 *       if (pd_waits_park(waits, w)) return;                  // w->job runs, somewhere, and begins here again
 *     }
 *     pd_waits_end(waits, w);
 *
 * A1  A waiter is its owner's until pd_waits_park returned true, and again when its job runs, once for each time it was parked.
 * A2  Nothing is missed: who parks after its agent's queue has changed since its last look is sent to look again.
 * A3  A message wakes one waiter of its agent, the one that waits longest; when that one has its answer, the next looks. So a thousand who
 *     wait for one queue cost no more than one.
 * A4  Every waiter's job runs at its time, when its client has left, or when the server stops, whichever is first. When the server stops,
 *     or the client sends nothing more and may be gone (gone.h), it is asked to answer with what there is: nobody hears nothing.
 */
#ifndef PD_WIRE_WAITS_H
#define PD_WIRE_WAITS_H

#include "wire/gone.h"
#include "wire/pool.h"

#include <stdatomic.h>

typedef struct pd_waits pd_waits;
typedef struct pd_waits_group pd_waits_group; /* the waiters of one agent */

/* Zero-initialise, then fill the first four; job.owner is set here. */
typedef struct pd_waiter pd_waiter;
struct pd_waiter {
  pd_job job;          /* first: what makes the call again */
  const char *agent;   /* as long as the waiter is there */
  int fd;              /* of its client, to notice when it leaves; -1: nobody looks */
  pd_wait wait;        /* for the call */
  atomic_bool is_gone; /* the client has left, or it was cancelled: the call should give up */
  /* waits.c */
  pd_waits_group *group; /* NULL: it did not wait so far */
  uint64_t ticket, order;
  bool is_parked, is_hurried;
  bool passes_on;         /* it was woken for something that others may want, too */
  pd_waits *waits;        /* while its client is watched over */
  pd_waiter *next, *prev; /* in its group, while it is parked, the oldest first */
  size_t place;           /* in the heap, from 1 on; 0: not there */
  int64_t due_ms;
  pd_leaver leaver;
};

PD_MUST_USE pd_code pd_waits_new(pd_home *home, pd_pool *pool, pd_gone *gone, pd_waits **out, pd_error *err);
/* Nobody waits any more. Takes NULL. */
void pd_waits_free(pd_waits *waits);
/* How many are parked. */
size_t pd_waits_count(pd_waits *waits);

/* Before each look. */
void pd_waits_look(pd_waits *waits, pd_waiter *waiter);
/* After a call that waits. True: it is parked, and not the caller's any more. False: look again. */
PD_MUST_USE bool pd_waits_park(pd_waits *waits, pd_waiter *waiter);
/* There is an answer. */
void pd_waits_end(pd_waits *waits, pd_waiter *waiter);
/* Have it look again, by any thread while the waiter is there: it was cancelled. */
void pd_waits_cancel(pd_waits *waits, pd_waiter *waiter);
/* Have it answer now with what there is: its client may be gone. As pd_waits_cancel. */
void pd_waits_hurry(pd_waits *waits, pd_waiter *waiter);
/* The server stops: everybody answers now. */
void pd_waits_drain(pd_waits *waits);

#endif
