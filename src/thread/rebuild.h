/*
 * rebuild.h: a thread made anew from its change sets, in a store in memory; and the story of a thread, which is all that this needs.
 *
 * B1  The story is: an identity, change set 0, then change sets and identities by version. An identity comes right after the change set of
 *     the version it was written at (`since`), and counts one more fork than the one before it.
 * B2  The same story gives the same commits, here as in the thread that it was told by.
 */
#ifndef PD_THREAD_REBUILD_H
#define PD_THREAD_REBUILD_H

#include "thread/thread.h"

typedef struct pd_rebuild {
  pd_store *store;
  pd_thread *t;         /* NULL before the first change set */
  pd_identity identity; /* the one in force; {0} before the first */
  int64_t now_ms;       /* the clock of the store: that of the change set */
} pd_rebuild;

/* *out is {0} before; finish it also if this fails. Do not move it: the store has its address. */
PD_MUST_USE pd_code pd_rebuild_open(pd_rebuild *out, pd_error *err);
void pd_rebuild_done(pd_rebuild *r);

/* The next part of the story. PD_INVALID says what is wrong with it. `identity` is taken over on success. */
PD_MUST_USE pd_code pd_rebuild_identity(pd_rebuild *r, pd_identity *identity, pd_error *err);
/* `json` is what pd_changeset_parse reads; for version 0 only "snapshot" and "time". */
PD_MUST_USE pd_code pd_rebuild_change(pd_rebuild *r, uint64_t version, pd_bytes json, pd_error *err);
/* The ref that the thread has in the rebuilt store. */
const char *pd_rebuild_ref(const pd_rebuild *r);

/* Those who listen to a story. What they return besides PD_OK ends it. */
typedef struct pd_story {
  pd_code (*identity)(void *ctx, const pd_identity *identity, pd_error *err);
  pd_code (*change)(void *ctx, const pd_thread_delta *delta, pd_error *err);
  void *ctx;
} pd_story;

/* Tell the story of the thread up to where the handle is. */
PD_MUST_USE pd_code pd_thread_tell(pd_thread *t, const pd_story *story, pd_error *err);

#endif
