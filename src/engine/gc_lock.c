/*
 * gc_lock.c: exports and gc exclude each other (B21), across processes.
 *
 * An export chooses commits and reads them for as long as it takes. What gc retires meanwhile it would not find. So each shares the store's
 * gc_lock from before it chooses until it has read all, and gc has the lock alone from before it plans until the last byte is gone. gc that
 * runs by itself does not wait: its turn comes again. A backend without gc_lock is as it was: an export may meet PD_RETIRED.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/gc.h"

#include <stdlib.h>
#include <time.h>

#define PAUSE_MS (6u * 60 * 60 * 1000)
#define PAUSE_WAIT_MS (10 * 60 * 1000)
#define GC_WAIT_MS (30 * 1000)
#define TRY_AGAIN_NS 2000000 /* often: a gc that follows another leaves little time between them */

struct pd_gc_pause {
  const pd_backend_ops *ops;
  void *lock;
};

static void nap(void)
{
  nanosleep(&(struct timespec){.tv_nsec = TRY_AGAIN_NS}, NULL);
}

pd_code pd_gc_pause_begin(pd_store *store, pd_gc_pause **out, pd_error *err)
{
  const pd_backend_ops *ops = store->ops;
  pd_gc_pause *pause = calloc(1, sizeof *pause);
  if (!pause) return pd_error_memory(err, "a pause of gc");
  pause->ops = ops;
  int64_t end = pd_clock_monotonic_ms() + PAUSE_WAIT_MS;
  pd_code code = PD_OK;
  while (ops->gc_lock && (code = ops->gc_lock(store->backend, PAUSE_MS, &pause->lock, err)) == PD_CONFLICT && pd_clock_monotonic_ms() < end)
    nap();
  if (!code) {
    *out = pause;
    return PD_OK;
  }
  free(pause);
  if (code != PD_CONFLICT) return code;
  return pd_error_set(err, PD_CONFLICT, "gc of the store of agent '%s' has been running for over 10 minutes: try again when it has ended",
                      store->agent);
}

void pd_gc_pause_end(pd_gc_pause *pause)
{
  if (!pause) return;
  if (pause->ops->gc_lock) pause->ops->gc_unlock(pause->lock);
  free(pause);
}

pd_code pd_gc_lock(pd_gc_run *run, void **out_lock, pd_error *err)
{
  pd_store *s = run->s;
  if (!s->ops->gc_lock) return PD_OK;
  int64_t end = run->is_quiet ? 0 : pd_clock_monotonic_ms() + GC_WAIT_MS;
  pd_code code;
  while ((code = s->ops->gc_lock(s->backend, 0, out_lock, err)) == PD_CONFLICT && pd_clock_monotonic_ms() < end) {
    TRY(pd_gc_tick(run, 0, err));
    nap();
  }
  if (code != PD_CONFLICT) return code;
  return pd_error_set(err, PD_CONFLICT, "an export, a backup or another gc is reading the store of agent '%s': try again when it has ended",
                      s->agent);
}

void pd_gc_unlock(pd_gc_run *run, void *lock)
{
  if (run->s->ops->gc_lock) run->s->ops->gc_unlock(lock);
}
