/*
 * pool.h: threads that do what may wait for the disk. Threads are started as they are needed, up to a maximum; jobs beyond that wait in
 * order, up to a maximum. Many threads are meant: those that wait for one sync share it (pd_put and its like group).
 */
#ifndef PD_WIRE_POOL_H
#define PD_WIRE_POOL_H

#include <perdure/perdure.h>
#include <pthread.h>

typedef struct pd_job pd_job;
struct pd_job {
  pd_job *next;
  void (*run)(pd_job *job);
};

typedef struct pd_pool {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pd_job *first, **last;
  size_t queued, queued_max;
  unsigned threads, threads_max, idle;
  uint64_t taken; /* jobs that were begun */
  bool is_stopping;
  pthread_t *ids;
} pd_pool;

PD_MUST_USE pd_code pd_pool_init(pd_pool *pool, unsigned threads_max, size_t queued_max, pd_error *err);
/* False: it has too much to do. */
PD_MUST_USE bool pd_pool_add(pd_pool *pool, pd_job *job);
/* How many jobs were begun so far. */
uint64_t pd_pool_taken(pd_pool *pool);
/* Do what is queued, then end the threads. False if they need longer than `timeout_ms`: then nothing that they use may be freed. Takes one
 * that was never made (zeroed). */
bool pd_pool_done(pd_pool *pool, uint32_t timeout_ms);

#endif
