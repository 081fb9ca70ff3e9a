/*
 * settle.h: calls whose commits are staged wait here for the sync that they share. Whoever finishes the first of a group syncs for all of
 * them; meanwhile the next ones gather. One worker is busy with a group at a time, so that a sync serves as many as have come. The pool has
 * to be the settler's alone, with a thread for each group: what is staged is finished even if requests occupy every other thread.
 */
#ifndef PD_WIRE_SETTLE_H
#define PD_WIRE_SETTLE_H

#include "wire/pool.h"

#define PD_SETTLE_GROUPS 64 /* stores that sync side by side; more of them share */

typedef struct pd_settle_group {
  pd_job job; /* first: the pool's */
  pd_pool *pool;
  pthread_mutex_t lock;
  pd_job *first, **last; /* that wait */
  bool is_running;
} pd_settle_group;

typedef struct pd_settler {
  pd_settle_group groups[PD_SETTLE_GROUPS];
} pd_settler;

/* It lasts as long as the pool, and holds nothing that would have to be freed. */
void pd_settler_init(pd_settler *settler, pd_pool *pool);
/* Run `job` together with the others of the group `key`. On a worker; or here, if there is none to be had. */
void pd_settler_add(pd_settler *settler, const void *key, pd_job *job);

#endif
