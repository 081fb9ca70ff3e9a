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
/* …up to here. True if one was: what the calls in between came to does not count. */
bool pd_disk_allow(void);

/* For backends and what drives them, before they read: PD_LIMIT if this is refused. */
PD_MUST_USE pd_code pd_disk_may_read(pd_error *err);
/* Before they write. A write is not refused: others may be in the same batch. */
void pd_disk_may_write(void);

/* Debug builds assert from the start; for tests of others. */
void pd_disk_wait_assert(bool is_asserted);

#endif
