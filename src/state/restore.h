/*
 * restore.h: from a backup back into the stores, all or nothing.
 *
 * R1  First every bundle is taken into its store under the refs restoring/NAME. Nobody looks there: the state is the old one.
 * R2  Then FOLDER/restore.json appears, whole and synced: the decision. From now on the restore is completed, by this process or by the
 *     next one that opens the home, so that the state is the new one in all stores.
 * R3  A ref is switched at most once by one restore: its reset carries the restore's id as its run, and who goes on looks for that. So
 *     what was written after the switch is never taken back by somebody who completes it late.
 * R4  What a ref pointed at before is kept as before-restore/RESTORE-ID/NAME, made before the ref is switched.
 * R5  One restore at a time: FOLDER/restore.lock is held from R1 to the end. Who finds it taken leaves the completion to its holder.
 */
#ifndef PD_STATE_RESTORE_H
#define PD_STATE_RESTORE_H

#include "state/backup.h"

#define PD_RESTORE_ID_SIZE 32 /* with its NUL: 20261115T100000Z-1a2b3c4d */
#define PD_RESTORE_AS "restoring"
#define PD_RESTORE_BEFORE "before-restore"

typedef struct pd_restore_store {
  char name[PD_NAME_SIZE_MAX + 1];
  pd_id head;   /* where main shall point */
  uint64_t seq; /* the last record of its log before the switch: R3 looks no further back */
} pd_restore_store;

typedef struct pd_restore_plan {
  char id[PD_RESTORE_ID_SIZE], backup[PD_BACKUP_ID_SIZE + 8];
  pd_restore_store *stores;
  size_t count;
} pd_restore_plan;

void pd_restore_plan_done(pd_restore_plan *plan);
PD_MUST_USE pd_code pd_restore_plan_encode(const pd_restore_plan *plan, pd_buf *out, pd_error *err);
/* PD_CORRUPT for anything that encode did not write. */
PD_MUST_USE pd_code pd_restore_plan_decode(pd_bytes text, pd_restore_plan *out, pd_error *err);

/* R5. *out_fd is -1 if `waits` is false and another holds it. */
PD_MUST_USE pd_code pd_restore_lock(pd_home *home, bool waits, int *out_fd, pd_error *err);
/* R2: write the plan down. */
PD_MUST_USE pd_code pd_restore_decide(pd_home *home, const pd_restore_plan *plan, pd_error *err);
/* R3, R4 for all stores of the plan, then it is forgotten. With the lock held. */
PD_MUST_USE pd_code pd_restore_carry_out(pd_home *home, const pd_restore_plan *plan, pd_error *err);
/* Remove the refs restoring/NAME of a store. */
PD_MUST_USE pd_code pd_restore_clean(pd_store *store, pd_error *err);
/* What an interrupted one has decided, completed. With the lock held. */
PD_MUST_USE pd_code pd_restore_finish(pd_home *home, pd_error *err);

#endif
