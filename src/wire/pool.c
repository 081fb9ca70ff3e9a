/* pool.c: see pool.h. */
#include "wire/pool.h"

#include "base/base.h"
#include "base/error.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define STACK_SIZE ((size_t)512 * 1024)

pd_code pd_pool_init(pd_pool *pool, unsigned threads_max, size_t queued_max, pd_error *err)
{
  *pool = (pd_pool){.threads_max = threads_max, .queued_max = queued_max};
  pool->ids = calloc(threads_max, sizeof *pool->ids);
  if (!pool->ids) return pd_error_memory(err, "the server's threads");
  pool->last = &pool->first;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->changed, NULL);
  return PD_OK;
}

static pd_job *take(pd_pool *pool)
{
  pthread_mutex_lock(&pool->lock);
  while (!pool->first && !pool->is_stopping) {
    pool->idle++;
    pthread_cond_wait(&pool->changed, &pool->lock);
    pool->idle--;
  }
  pd_job *job = pool->first;
  if (job) {
    pool->first = job->next;
    if (!pool->first) pool->last = &pool->first;
    pool->queued--;
    pool->taken++;
  }
  pthread_mutex_unlock(&pool->lock);
  return job;
}

static void *work(void *ctx)
{
  pd_pool *pool = ctx;
  for (pd_job *job; (job = take(pool));) job->run(job);
  return NULL;
}

/* Signals are the main thread's. False: there is none to be had. */
static bool start_thread(pd_pool *pool)
{
  sigset_t all, before;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return false;
  pthread_attr_setstacksize(&attributes, STACK_SIZE);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_started = pthread_create(&pool->ids[pool->threads], &attributes, work, pool) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (is_started) pool->threads++;
  return is_started;
}

bool pd_pool_add(pd_pool *pool, pd_job *job)
{
  pthread_mutex_lock(&pool->lock);
  bool is_needed = pool->queued >= pool->idle && pool->threads < pool->threads_max;
  bool is_taken = !pool->is_stopping && pool->queued < pool->queued_max && ((is_needed && start_thread(pool)) || pool->threads);
  if (is_taken) {
    job->next = NULL;
    *pool->last = job;
    pool->last = &job->next;
    pool->queued++;
    pthread_cond_signal(&pool->changed);
  }
  pthread_mutex_unlock(&pool->lock);
  return is_taken;
}

uint64_t pd_pool_taken(pd_pool *pool)
{
  pthread_mutex_lock(&pool->lock);
  uint64_t taken = pool->taken;
  pthread_mutex_unlock(&pool->lock);
  return taken;
}

bool pd_pool_done(pd_pool *pool, uint32_t timeout_ms)
{
  struct timespec end;
  if (!pool->ids) return true;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += timeout_ms / 1000 + 1;
  pthread_mutex_lock(&pool->lock);
  pool->is_stopping = true;
  pthread_cond_broadcast(&pool->changed);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 0; i < pool->threads; i++)
    if (pthread_timedjoin_np(pool->ids[i], NULL, &end)) return false;
  pthread_cond_destroy(&pool->changed);
  pthread_mutex_destroy(&pool->lock);
  free(pool->ids);
  *pool = (pd_pool){0};
  return true;
}
