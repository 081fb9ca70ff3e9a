/*
 * pool.h: threads that do what may wait for the disk. Threads are started as they are needed, up to a maximum; jobs beyond that wait, up to
 * a maximum. Many threads are meant: those that wait for one sync share it (pd_put and its like group).
 *
 * P1  Jobs have an owner, an agent most often. Those of one owner are begun in order; owners take turns. So who asks for little waits for
 *     one job of each other owner at most, not for all jobs of one who asks for much.
 * P2  One owner has no more than `share` of the threads at once, and no more than a quarter of the queue: there is always a thread that
 *     its slow jobs do not occupy. Jobs without an owner are the server's own and have no such limit.
 */
#ifndef PD_WIRE_POOL_H
#define PD_WIRE_POOL_H

#include "base/map.h"

#include <pthread.h>

typedef struct pd_job pd_job;
struct pd_job {
  pd_job *next;
  void (*run)(pd_job *job);
  const char *owner; /* whose it is; NULL: the server's own. Borrowed until pd_pool_add returns */
};

typedef struct pd_pool_lane pd_pool_lane; /* the jobs of one owner */

typedef struct pd_pool {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pd_map lanes;                    /* by owner: those that have a job, waiting or running */
  pd_pool_lane *own;               /* of jobs without an owner */
  pd_pool_lane *turn, **turn_last; /* those whose next job may be begun, in their order */
  size_t queued, queued_max;
  unsigned threads, threads_max, idle, share;
  uint64_t taken; /* jobs that were begun */
  bool is_stopping;
  pthread_t *ids;
} pd_pool;

/* `share`: threads that one owner may have at once; 0: all. */
PD_MUST_USE pd_code pd_pool_init(pd_pool *pool, unsigned threads_max, unsigned share, size_t queued_max, pd_error *err);
/* False: it, or the job's owner, has too much to do. */
PD_MUST_USE bool pd_pool_add(pd_pool *pool, pd_job *job);
/* How many jobs were begun so far. */
uint64_t pd_pool_taken(pd_pool *pool);
/* Do what is queued, then end the threads. False if they need longer than `timeout_ms`: then nothing that they use may be freed. Takes one
 * that was never made (zeroed). */
bool pd_pool_done(pd_pool *pool, uint32_t timeout_ms);

#endif
