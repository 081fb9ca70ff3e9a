/*
 * statestore.h: the inside of a StateStore.
 *
 * K1  The map is the truth; the shelf follows it. Everything here is under `lock`, but for what is set at open and never again.
 * K2  A flush takes what is pending, gives up the lock, writes, and takes the lock again. One at a time (is_flushing); who comes meanwhile
 *     waits, and what changes meanwhile is the next flush's.
 * K3  `changes` counts every set and delete; `flushed` is how many of them are durable. A flush that fails gives back all it took: then the
 *     dirty nodes, and the keys in `gone`, are again those that differ from the shelf.
 * K4  A key is in `gone` only if the shelf may have it. Deletes go to the shelf before puts, so a key may be in both.
 */
#ifndef PD_STATE_STATESTORE_H
#define PD_STATE_STATESTORE_H

#include "shelf/shelf.h"
#include "state/statestore_map.h"

#include <pthread.h>

struct pd_statestore {
  pthread_mutex_t lock;
  pthread_cond_t wake; /* the thread has something to wait for, or should end */
  pthread_cond_t done; /* a flush, or a close, has ended */
  pd_statemap map, gone;
  size_t flight_gone_count; /* deletes in the flush that is under way: `gone` has room for them, too */
  uint64_t changes, flushed;
  bool is_flushing, is_closing, is_closed, is_stopping, has_thread;
  unsigned reading_count; /* calls that read the shelf without the lock */
  int64_t due_ms;         /* when the thread is to flush, monotonic; 0: nothing is due */
  pd_statestore_stats stats;
  pthread_t thread;
  pthread_mutex_t own_lock; /* around reading, changing and writing what perdure keeps here: observers, work items. Taken before `lock` */

  pd_shelf *shelf; /* NULL: memory. Set at open, gone with close */
  bool is_whole;   /* the shelf's: no dirty nodes, no `gone` */
  uint32_t flush_ms;
  pd_shelf_warner warner;
  int64_t (*now_ms)(void *ctx);
  int64_t (*uptime_ms)(void *ctx);
  void *clock_ctx;
  char boot_id[64];
};

/* statestore.c. Check that `value` is JSON within the limits; `*out` is it without white space, borrowed from `value` or `scratch`. */
PD_MUST_USE pd_code pd_statestore_normal(pd_bytes value, pd_buf *scratch, pd_bytes *out, pd_error *err);
pd_code pd_statestore_is_closed(pd_error *err);

/* statestore_flush.c; the lock is held for all of these. */

/* Something has changed: see to it that it is flushed in time. */
void pd_statestore_changed(pd_statestore *s, uint64_t count);
/* Return when `flushed` has reached `target`. Gives up the lock meanwhile. */
PD_MUST_USE pd_code pd_statestore_flush_to(pd_statestore *s, uint64_t target, pd_error *err);
/* The thread. Takes the lock. */
void *pd_statestore_run(void *store);

/* statestore_config.c: PD_INVALID names the option that is wrong. */
PD_MUST_USE pd_code pd_statestore_check(const pd_statestore_options *options, pd_error *err);

#endif
