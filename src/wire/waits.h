/*
 * waits.h: calls that wait for a message, and requests that wait for a log to grow, and hold no thread meanwhile. What would sleep comes
 * back without an answer (pd_wait in perdure/state.h) and is parked here, a small record; a pool runs it again when there may be something
 * for it. The stores are followed (perdure/follow.h) while somebody waits for them.
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
 * A2  Nothing is missed: who parks after what it waits for has changed since its last look is sent to look again.
 * A3  A message wakes one waiter of its agent, the one that waits longest; when that one has its answer or leaves, the next looks. So a
 *     thousand who wait for one queue cost no more than one. A log that grows wakes everybody who waits for it.
 * A4  Every waiter's job runs at its time, when its client has left, or when the server stops, whichever is first. When the server stops,
 *     or the client sends nothing more and may be gone (gone.h), it is asked to answer with what there is: nobody hears nothing.
 */
#ifndef PD_WIRE_WAITS_H
#define PD_WIRE_WAITS_H

#include "wire/gone.h"
#include "wire/pool.h"

#include <perdure/follow.h>
#include <stdatomic.h>

typedef struct pd_waits pd_waits;
typedef struct pd_waits_group pd_waits_group; /* the waiters of one agent */

/* Zero-initialise, then fill the first five; job.owner is set here. */
typedef struct pd_waiter pd_waiter;
struct pd_waiter {
  pd_job job;          /* first: what makes the call again */
  const char *agent;   /* whose it is, and for whose queue it waits; as long as the waiter is there */
  const char *store;   /* instead it waits for this log to grow; NULL: for the queue. As long as the waiter is there */
  int fd;              /* of its client, to notice when it leaves; -1: nobody looks */
  pd_wait wait;        /* for the call */
  atomic_bool is_gone; /* the client has left, or it was cancelled: the call should give up */
  /* waits.c */
  bool has_joined; /* else it did not wait so far */
  bool hears_shared;
  pd_waits_group *group; /* NULL: it waits for a log, or has not joined */
  pd_follower follower;  /* of that log */
  bool has_grown;        /* the log, since the last look */
  uint64_t ticket, order;
  bool is_parked, is_hurried;
  bool passes_on;         /* it was woken for something that others may want, too */
  pd_waits *waits;        /* once it has joined */
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
