/* append.h: appending what was prepared, and the records of runs; between the files that write change sets. */
#ifndef PD_THREAD_APPEND_H
#define PD_THREAD_APPEND_H

#include "thread/changeset.h"
#include "thread/thread.h"

/* Append at the handle's head, without looking whether it is the newest: PD_CONFLICT if it is not. For replays: nobody else
 * writes then. */
PD_MUST_USE pd_code pd_thread_append_here(pd_thread *t, const pd_prepared *prepared, pd_thread_ack *out, pd_error *err);

/* VersionConflict. */
pd_code pd_thread_conflict(const pd_thread *t, uint64_t expected, pd_error *err);

/* Stage what a change set means for its run. */
PD_MUST_USE pd_code pd_run_stage(const char *thread_id, pd_edit *edit, const pd_prepared *prepared, pd_thread_head *head, pd_error *err);

#endif
