/*
 * operation.h: change sets that can be sent again. One that names an operation is appended once: the key `operation/ID` has its version, in
 * the same commit. Those of the last PD_THREAD_OPERATIONS_KEPT versions are remembered; `operation-at/N` has the id, so that the oldest are
 * found. Id and mark stand in the change set itself, so a rebuilt thread remembers the same.
 */
#ifndef PD_THREAD_OPERATION_H
#define PD_THREAD_OPERATION_H

#include "thread/changeset.h"
#include "thread/thread.h"

/* PD_INVALID (InvalidId). NULL is fine: no operation. */
PD_MUST_USE pd_code pd_operation_check(const char *id, const char *mark, pd_error *err);
/* What stands for the content of a change set, if nothing was given: of the parts that a repetition has again. */
PD_MUST_USE pd_code pd_operation_mark(const pd_prepared *prepared, char out[PD_ID_HEX_SIZE], pd_error *err);
/* Was the operation appended to the thread, as the handle knows it? Then *out is its acknowledgement. PD_CONFLICT (OperationUsed) if it had
 * another mark. `mark` NULL: any. */
PD_MUST_USE pd_code pd_operation_find(pd_thread *t, const char *id, const char *mark, bool *out_is_found, pd_thread_ack *out,
                                      pd_error *err);
/* Does the thread have the change set's operation, as an invocation sees it? False if it names none. */
PD_MUST_USE pd_code pd_operation_is_there(pd_edit *edit, const pd_changeset *set, bool *out, pd_error *err);
/* Stage the keys of the change set's operation, if it has one, and forget the oldest. */
PD_MUST_USE pd_code pd_operation_stage(pd_edit *edit, const pd_changeset *set, uint64_t version, pd_error *err);

#endif
