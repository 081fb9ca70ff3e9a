/* pool.c: see pool.h. */
#include "wire/pool.h"

#include "base/base.h"
#include "base/error.h"
#include "base/spawn.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_SIZE ((size_t)512 * 1024)
#define OWNER_SIZE 128

/* It is there as long as it has a job, waiting or running. */
struct pd_pool_lane {
  pd_pool_lane *turn_next; /* in pool->turn, while is_in_turn */
  bool is_in_turn;
  pd_job *first, **last;
  size_t queued;
  unsigned running;
  char owner[OWNER_SIZE]; /* "": nobody's */
};

pd_code pd_pool_init(pd_pool *pool, unsigned threads_max, unsigned share, size_t queued_max, pd_error *err)
{
  *pool = (pd_pool){.threads_max = threads_max, .share = share ? share : threads_max, .queued_max = queued_max};
  pool->lanes.text_at = offsetof(pd_pool_lane, owner);
  pool->ids = calloc(threads_max, sizeof *pool->ids);
  pool->own = calloc(1, sizeof *pool->own);
  if (!pool->ids || !pool->own) {
    free(pool->ids);
    free(pool->own);
    *pool = (pd_pool){0};
    return pd_error_memory(err, "the server's threads");
  }
  pool->own->last = &pool->own->first;
  pool->turn_last = &pool->turn;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->changed, NULL);
  return PD_OK;
}

/* ---- lanes; all under the lock ---- */

/* NULL: there is no memory for it. */
static pd_pool_lane *lane_of(pd_pool *pool, const char *owner)
{
  if (!owner || !*owner) return pool->own;
  pd_pool_lane *lane = pd_map_find(&pool->lanes, (pd_bytes){owner, strnlen(owner, OWNER_SIZE - 1)});
  if (lane || !(lane = calloc(1, sizeof *lane))) return lane;
  snprintf(lane->owner, sizeof lane->owner, "%s", owner);
  lane->last = &lane->first;
  if (pd_map_put(&pool->lanes, lane, NULL, NULL) == PD_OK) return lane;
  free(lane);
  return NULL;
}

static void free_if_unused(pd_pool *pool, pd_pool_lane *lane)
{
  if (lane != pool->own && !lane->queued && !lane->running) free(pd_map_remove(&pool->lanes, pd_text(lane->owner)));
}

static bool has_turn(const pd_pool *pool, const pd_pool_lane *lane)
{
  return lane->queued && (lane == pool->own || lane->running < pool->share);
}

static void give_turn(pd_pool *pool, pd_pool_lane *lane)
{
  if (lane->is_in_turn || !has_turn(pool, lane)) return;
  lane->is_in_turn = true;
  lane->turn_next = NULL;
  *pool->turn_last = lane;
  pool->turn_last = &lane->turn_next;
}

/* The next job of the lane whose turn it is, which goes to the end. */
static pd_job *take_turn(pd_pool *pool, pd_pool_lane **out_lane)
{
  pd_pool_lane *lane = pool->turn;
  pool->turn = lane->turn_next;
  if (!pool->turn) pool->turn_last = &pool->turn;
  lane->is_in_turn = false;
  pd_job *job = lane->first;
  lane->first = job->next;
  if (!lane->first) lane->last = &lane->first;
  lane->queued--;
  lane->running++;
  pool->queued--;
  pool->taken++;
  give_turn(pool, lane);
  *out_lane = lane;
  return job;
}

/* ---- threads ---- */

/* `lane`: whose job is over; NULL: this is the first. */
static pd_job *take(pd_pool *pool, pd_pool_lane **lane)
{
  pthread_mutex_lock(&pool->lock);
  if (*lane) {
    (*lane)->running--;
    give_turn(pool, *lane);
    if (pool->is_stopping && !pool->queued) pthread_cond_broadcast(&pool->changed);
    free_if_unused(pool, *lane);
  }
  while (!pool->turn && (pool->queued || !pool->is_stopping)) {
    pool->idle++;
    pthread_cond_wait(&pool->changed, &pool->lock);
    pool->idle--;
  }
  pd_job *job = pool->turn ? take_turn(pool, lane) : NULL;
  if (pool->turn && pool->idle) pthread_cond_signal(&pool->changed); /* a lane that was at its limit may have come back */
  pthread_mutex_unlock(&pool->lock);
  return job;
}

static void *work(void *ctx)
{
  pd_pool *pool = ctx;
  pd_pool_lane *lane = NULL;
  for (pd_job *job; (job = take(pool, &lane));) job->run(job);
  return NULL;
}

/* False: there is none to be had. */
static bool start_thread(pd_pool *pool)
{
  bool is_started = pd_spawn(&pool->ids[pool->threads], STACK_SIZE, work, pool) == 0;
  if (is_started) pool->threads++;
  return is_started;
}

/* Has its owner a place in the queue? */
static bool has_room(const pd_pool *pool, const pd_pool_lane *lane)
{
  size_t most = pool->queued_max / 4 ? pool->queued_max / 4 : 1;
  return pool->queued < pool->queued_max && (lane == pool->own || lane->queued < most);
}

bool pd_pool_add(pd_pool *pool, pd_job *job)
{
  pthread_mutex_lock(&pool->lock);
  pd_pool_lane *lane = pool->is_stopping ? NULL : lane_of(pool, job->owner);
  bool is_needed = pool->queued >= pool->idle && pool->threads < pool->threads_max;
  bool is_taken = lane && has_room(pool, lane) && ((is_needed && start_thread(pool)) || pool->threads);
  if (is_taken) {
    job->next = NULL;
    *lane->last = job;
    lane->last = &job->next;
    lane->queued++;
    pool->queued++;
    give_turn(pool, lane);
    pthread_cond_signal(&pool->changed);
  } else if (lane) {
    free_if_unused(pool, lane);
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
  pd_map_done(&pool->lanes);
  free(pool->own);
  free(pool->ids);
  *pool = (pd_pool){0};
  return true;
}
