/* keeper.c: the thread behind a store: flushes what a buffered store holds, and writes keyframes when they are due. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/store.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define RETRY_MS 1000 /* after a flush or keyframe that failed */

/* Wait until there is work or `wake_ms` (monotonic; 0: no limit) comes. */
static void wait_until(pd_store *s, int64_t wake_ms)
{
  if (!wake_ms) {
    pthread_cond_wait(&s->work, &s->lock);
    return;
  }
  struct timespec t = {.tv_sec = wake_ms / 1000, .tv_nsec = wake_ms % 1000 * 1000000};
  pthread_cond_timedwait(&s->work, &s->lock, &t);
}

/* When the pending commits of a buffered store are to be flushed; 0: nothing to do. */
static int64_t flush_time(const pd_store *s)
{
  if (!s->is_buffered || s->is_flushing || !(s->pending.count || s->inflight.count)) return 0;
  return s->pending_since_ms + (s->flush_error.code ? RETRY_MS : (int64_t)s->flush_ms);
}

static void flush_now(pd_store *s)
{
  pd_flush_batch(s);
  s->pending_since_ms = pd_clock_monotonic_ms(); /* what came meanwhile, or the retry, counts from here */
}

static void keyframe_now(pd_store *s)
{
  pd_store_unlock(s);
  pd_code code = pd_keyframe_write(s, NULL); /* K3: a failure is nobody's; it is tried again later */
  pd_store_lock(s);
  s->keyframe_retry_ms = code ? pd_clock_monotonic_ms() + RETRY_MS : 0;
}

static void *keep(void *ctx)
{
  pd_store *s = ctx;
  pd_store_lock(s);
  while (!s->is_closing) {
    int64_t now = pd_clock_monotonic_ms(), flush_at = flush_time(s);
    if (flush_at && flush_at <= now)
      flush_now(s);
    else if (s->wants_keyframe && !s->is_keyframing && s->keyframe_retry_ms <= now)
      keyframe_now(s);
    else if (flush_at)
      wait_until(s, flush_at);
    else
      wait_until(s, s->wants_keyframe && !s->is_keyframing ? s->keyframe_retry_ms : 0);
  }
  pd_store_unlock(s);
  return NULL;
}

pd_code pd_keeper_start(pd_store *s, pd_error *err)
{
  if (s->has_keeper) return PD_OK;
  sigset_t all, before; /* signals are for the threads of the program */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&s->keeper, NULL, keep, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return pd_error_set(err, PD_NO_MEMORY, "cannot start a thread for the store of agent '%s'", s->agent);
  s->has_keeper = true;
  return PD_OK;
}

void pd_keeper_stop(pd_store *s)
{
  pd_store_lock(s);
  bool has_keeper = s->has_keeper;
  s->is_closing = true;
  pthread_cond_signal(&s->work);
  pd_store_unlock(s);
  if (has_keeper) pthread_join(s->keeper, NULL);
}
