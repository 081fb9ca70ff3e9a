/*
 * follow.h: hearing of changes to a home's stores as they happen, for a server and its like. Errors and lifetimes are explained in
 * perdure.h.
 *
 * Each store that has followers is read by one thread, once for all of them; it starts with the first follower and ends soon after the
 * last. While it tells hundreds of followers of a batch, up to three more threads help it. For a single reader with a thread to spare,
 * watch.h is simpler.
 *
 * FOL-1  A follower that has joined is given every event after its place, once, in the order of the log.
 * FOL-2  `take` runs on the store's thread or one that helps it, never on two at once for the same follower. The other followers of the
 *        store wait for it: it must not block.
 * FOL-3  pd_follow_close returns when `take` does not run and will not run again. Do not call it from `take`, nor while holding a lock that
 *        `take` needs.
 * FOL-4  No lock of the home is held while `take` runs or a store is read.
 */
#ifndef PERDURE_FOLLOW_H
#define PERDURE_FOLLOW_H

#include <perdure/state.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_FOLLOW_EVENTS_MAX 64 /* of one batch */

/* Events that were due together. Borrowed until `take` returns. */
typedef struct pd_follow_batch {
  pd_store *store;
  const pd_watch_event *events;
  size_t count;         /* may be 0: records that are not events were passed over, or is_failing */
  pd_watch_cursor next; /* the log was read up to here */
  bool is_failing;      /* the log cannot be read at the moment; it is tried again, and nothing is lost */
  /* For followers that make the same thing of a batch: the first that a thread tells sets it, its others find it. Freed after the last. */
  void *made;
  void (*made_free)(void *made);
} pd_follow_batch;

/* Zero-initialise; it must stay where it is until it is closed. */
typedef struct pd_follower pd_follower;
struct pd_follower {
  /* `first`: the first event that is new to this follower; batch->count if none is. */
  void (*take)(pd_follower *follower, pd_follow_batch *batch, size_t first);
  /* follow.c */
  struct pd_feed *feed; /* NULL: not open */
  pd_watch_cursor from;
  pd_follower *next, **link; /* link NULL: has not joined */
};

/* Follow the store `name`, which `grant` has to be for; nothing is given to `follower` before it joins. A store that does not exist is
 * not made: it is followed from its beginning once somebody else makes it. PD_DENIED; other errors are those of opening the store;
 * PD_STORAGE if there is no thread. */
PD_API PD_MUST_USE pd_code pd_follow_open(const pd_grant *grant, const char *name, pd_follower *follower, pd_error *err);
/* Give it what comes after `at`; NULL: what the store's thread reads from now on. False: the thread has passed `at` already. Then read on
 * up to a later place (watch.h) and try again. */
PD_API PD_MUST_USE bool pd_follow_join(pd_follower *follower, const pd_watch_cursor *at);
/* Takes one that is not open. */
PD_API void pd_follow_close(pd_follower *follower);

/* How many stores are followed now: so many threads there are, but for those that help. */
PD_API size_t pd_follow_count(pd_home *home);

#ifdef __cplusplus
}
#endif
#endif
