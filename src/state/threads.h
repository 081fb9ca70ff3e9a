/* threads.h: what the capabilities threads.* and runs.* share: the thread that a call names, in the agent's own store. */
#ifndef PD_STATE_THREADS_H
#define PD_STATE_THREADS_H

#include "state/call.h"

#include <perdure/thread.h>

#define PD_THREADS_ANSWER_SIZE_MAX ((size_t)16 << 20) /* where a list stops, to be gone on with */

/* The input thread_id as text. */
typedef struct pd_thread_name {
  char text[PD_THREAD_ID_SIZE_MAX + 1];
} pd_thread_name;
pd_thread_name pd_in_thread(const pd_frame *frame);

/* The home's clock, for options that take one; ctx is the home. */
int64_t pd_threads_now(void *home);

/* Open the thread that the input names. PD_NOT_FOUND (NotFound), PD_INVALID (InvalidId). */
PD_MUST_USE pd_code pd_threads_open(pd_frame *frame, pd_thread **out, pd_error *err);
/* The same, borrowed until the call is over; if the call succeeds the handle is kept for the next one (thread_cache.c). */
PD_MUST_USE pd_code pd_threads_hold(pd_frame *frame, pd_thread **out, pd_error *err);
/* The call is over. A handle that a call failed with is not used again. */
void pd_threads_let(pd_frame *frame, bool is_kept);
/* CLEANUP(pd_threads_shut) pd_thread *t = NULL; */
void pd_threads_shut(pd_thread **thread);
/* A version among the inputs, or `otherwise`. */
uint64_t pd_in_version(const pd_frame *frame, const char *name, uint64_t otherwise);
/* A member with 64 digits. */
void pd_out_id(pd_frame *frame, const char *key, const pd_id *id);
/* A member, unless it says nothing. */
void pd_out_said(pd_frame *frame, const char *key, const char *text);
/* Is the answer so long that a list should stop? Also true once it failed. */
bool pd_out_is_long(const pd_frame *frame);
/* Note the commit for the audit, and write it. */
void pd_out_commit(pd_frame *frame, const pd_id *commit);

/* ---- thread_cache.c (T1 to T4) ---- */

PD_MUST_USE pd_code pd_thread_cache_new(pd_thread_cache **out, pd_error *err);
void pd_thread_cache_free(pd_thread_cache *cache);
/* A handle on this thread, the caller's; NULL: there is none. */
pd_thread *pd_thread_cache_take(pd_thread_cache *cache, const pd_store *store, const char *id);
/* Takes the handle. */
void pd_thread_cache_put(pd_thread_cache *cache, pd_thread *thread);
/* The store is about to be closed. */
void pd_thread_cache_forget(pd_thread_cache *cache, const pd_store *store);

/* ---- operations: calls that can be made again ---- */

typedef struct pd_operation_name {
  char id[PD_THREAD_OPERATION_SIZE_MAX + 1]; /* "" if the call names none */
  char mark[PD_ID_HEX_SIZE];                 /* of capability and input */
} pd_operation_name;

/* The input `operation_id`, and the hash of the call. */
PD_MUST_USE pd_code pd_in_operation(const pd_frame *frame, pd_operation_name *out, pd_error *err);
/* Was it done before? Then *out_first is what was answered. PD_CONFLICT (OperationUsed). */
PD_MUST_USE pd_code pd_operation_look(pd_thread *thread, const pd_operation_name *operation, bool *out_is_repeated,
                                      pd_thread_ack *out_first, pd_error *err);

#endif
