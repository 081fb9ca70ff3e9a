/*
 * disk_wait.h: which threads may wait for a disk.
 *
 * A thread that serves many connections must not: all of them would wait with it. It says so once, and what reads from memory most of the
 * time is tried there between pd_disk_refuse and pd_disk_allow: a backend that would have to read refuses instead, and the whole is done
 * again by a thread that may wait. Outside of that it is a bug if such a thread reaches a backend; debug builds assert that it does not.
 */
#ifndef PD_BASE_DISK_WAIT_H
#define PD_BASE_DISK_WAIT_H

#include <perdure/perdure.h>

/* This thread must not wait for a disk; or may again. */
void pd_disk_wait_forbid(bool is_forbidden);
/* From here on reads of this thread that would wait are refused… */
void pd_disk_refuse(void);
/* …up to here. True if one was and nothing was committed: what the calls in between came to does not count. */
bool pd_disk_allow(void);
/* A commit was made or staged: it must not be made again, whatever is refused afterwards. */
void pd_disk_committed(void);

bool pd_disk_is_refusing(void);
/* One more step of what is tried: a value that is read, a leaf that is walked. After PD_DISK_STEPS_MAX it is refused: it takes too long for
 * those who wait behind it, though it needs no disk. */
PD_MUST_USE pd_code pd_disk_step(pd_error *err);
#define PD_DISK_STEPS_MAX 500 /* with what is done for each, a few milliseconds */

/* The last write of what is tried is staged: readers do not see it yet, so no store is looked at any more, up to pd_disk_allow. Debug
 * builds assert that. */
void pd_disk_staged(void);
void pd_disk_may_look(void);
/* Was one refused since pd_disk_refuse? */
bool pd_disk_has_refused(void);

/* For backends and what drives them, before they read: PD_LIMIT if this is refused. */
PD_MUST_USE pd_code pd_disk_may_read(pd_error *err);
/* The same before whatever else may last: a write that is waited for, a store that has to be opened. */
PD_MUST_USE pd_code pd_disk_may_wait(pd_error *err);
/* Before they write. A write is not refused: others may be in the same batch. */
void pd_disk_may_write(void);

/* Debug builds assert from the start; for tests of others. */
void pd_disk_wait_assert(bool is_asserted);
bool pd_disk_wait_is_asserted(void);

#endif
