/*
 * restore.h: from a backup back into the stores, all or nothing.
 *
 * R1  First every bundle is taken into its store under the refs restoring/NAME. Nobody looks there: the state is the old one. All that
 *     needs space is written here.
 * R2  Then all refs of all stores are switched in one joint commit (joint.h): killed or out of space at any moment, the state is the old
 *     one in all stores or the new one in all stores, for everybody who opens or has open any of them.
 * R3  Of a restore that an older perdure decided (FOLDER/restore.json) a ref is switched at most once: its reset carries the restore's id
 *     as its run, and whoever goes on looks for that. So what was written after the switch is not taken back by a late completion.
 * R4  What a ref pointed at before is kept as before-restore/RESTORE-ID/NAME, made before the ref is switched.
 * R5  One restore at a time: FOLDER/.restore.lock is held from R1 to the end.
 * R6  A home in memory has no joint commits: its refs are switched one after the other, and nobody else has them open.
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
  pd_id queue;  /* where PD_QUEUE_REF shall; zero: where it is in the bundle */
  uint64_t seq; /* the last record of its log before the switch: R3 looks no further back */
} pd_restore_store;

typedef struct pd_restore_plan {
  char id[PD_RESTORE_ID_SIZE], backup[PD_BACKUP_ID_SIZE + 8];
  pd_restore_store *stores;
  size_t count;
} pd_restore_plan;

void pd_restore_plan_done(pd_restore_plan *plan);
/* Of FOLDER/restore.json (R3). PD_CORRUPT. */
PD_MUST_USE pd_code pd_restore_plan_decode(pd_bytes text, pd_restore_plan *out, pd_error *err);

/* R5. *out_fd is -1 if `waits` is false and another holds it. */
PD_MUST_USE pd_code pd_restore_lock(pd_home *home, bool waits, int *out_fd, pd_error *err);
/* R2 to R4 for all stores of the plan. With the lock held. */
PD_MUST_USE pd_code pd_restore_carry_out(pd_home *home, const pd_restore_plan *plan, pd_error *err);
/* Remove the refs restoring/NAME of a store. */
PD_MUST_USE pd_code pd_restore_clean(pd_store *store, pd_error *err);
/* R3: what restore.json says, completed. With the lock held. */
PD_MUST_USE pd_code pd_restore_finish(pd_home *home, pd_error *err);

/* ---- restore_notice.c ---- */

typedef struct pd_restore_newer {
  uint64_t commits;
  size_t stores;   /* that have them */
  int64_t last_ms; /* of the newest */
  bool is_more;    /* `commits` is a lower bound */
  char names[256]; /* of some of the stores, with their numbers */
} pd_restore_newer;

/* What `main` of the stores has since then; `agent` "": all agents and the shared state. A store that cannot be read is passed over. */
PD_MUST_USE pd_code pd_restore_count_newer(pd_home *home, const char *agent, int64_t since_ms, pd_restore_newer *out, pd_error *err);

#endif
