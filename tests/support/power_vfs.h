/*
 * power_vfs.h: a SQLite VFS, `powercut`, that can lose power. Open a store as `sqlite:DIR?vfs=powercut`.
 *
 * It stands over SQLite's own VFS and remembers, file by file, what was written or truncated since that file's last xSync.
 * A cut keeps, drops or tears (at 512-byte sectors) each of those writes at random, as a disk's lost cache would, and from then
 * on every call on the VFS fails. Names are durable at once: a file that was made and never synced comes back, but perhaps
 * empty; one that was deleted stays deleted. Shared memory goes through.
 *
 *     power_vfs_install();
 *     power_vfs_cut_after(37, seed);              // or power_vfs_cut(seed), now
 *     … work until it fails; close all handles …
 *     power_vfs_restore();                        // the machine is on again
 *     power_lock_file_tear(lock_path, older, seed); // the lock file's page is not SQLite's: lose it too
 *     … open again: what was acknowledged must be there …
 *
 * A sync can fail as it does on Linux (power_vfs_fail_sync): it answers EIO once, and the pages it should have written are clean from
 * then on: the process still reads them from the page cache, later syncs succeed and pass them over, and the disk does not have them.
 * A page that is written again is dirty again, and the next sync writes it. A program linked with host_sync_dep counts its own fsync,
 * fdatasync and msync calls, too; a folder's name ends with "/" then, and that of a mapping is "mapping.lock".
 *
 * One process at a time: what other processes write is not seen here.
 */
#ifndef SUPPORT_POWER_VFS_H
#define SUPPORT_POWER_VFS_H

#include <stdbool.h>
#include <stdint.h>

/* Register the VFS; may be called again. It is not made the default. */
void power_vfs_install(void);
/* Cut the power now, while no other thread writes. The same seed and the same writes give the same files. */
void power_vfs_cut(uint64_t seed);
/* Cut it in the middle of the n-th write, truncate or sync from now (1 is the next). 0 takes the plan back. */
void power_vfs_cut_after(uint64_t n, uint64_t seed);
/* Instead of the power, the process goes: SIGKILL to itself before its n-th write, truncate or sync from now. 0 takes it back. */
void power_vfs_kill_after(uint64_t n);
bool power_vfs_is_cut(void);
/* Let the n-th sync from now (1 is the next) of a file whose name ends with `suffix` fail, once. 0 takes the plan back. With seed 0 the
 * disk has none of the pages, else some of them at random. */
void power_vfs_fail_sync(const char *suffix, uint64_t n, uint64_t seed);
/* The same with `count` syncs in a row. */
void power_vfs_fail_syncs(const char *suffix, uint64_t n, uint64_t count, uint64_t seed);
/* Whether that sync came, and failed. */
bool power_vfs_sync_failed(void);
/* The cache forgets clean pages: files read as the disk has them, without a loss of power. Call when no file of the VFS is open. */
void power_vfs_evict(void);
/* Writes, truncates and syncs since the program began. */
uint64_t power_vfs_calls(void);
/* Turn it on again, with nothing pending. Call when no file of the VFS is open. */
void power_vfs_restore(void);

/* Copy a store's lock file (4096 bytes), to go back to later; false if it is not there. */
bool power_lock_file_save(const char *path, uint8_t out[4096]);
/* What a cut may leave of it: itself, an older state (`older`, NULL: none), zeros, noise, or no bytes at all. Only when no
 * handle has it open. */
void power_lock_file_tear(const char *path, const uint8_t older[4096], uint64_t seed);

/* A small, seeded source of numbers (splitmix64), for tests that have to replay. */
uint64_t power_random(uint64_t *state);

#endif
