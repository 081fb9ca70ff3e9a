/*
 * slow_vfs.h: a SQLite VFS, `slow`, over SQLite's own, whose syncs take longer. Open a store as `sqlite:DIR?vfs=slow`. For races that
 * are decided while a disk syncs: on a fast one the window is too short to be met.
 */
#ifndef SUPPORT_SLOW_VFS_H
#define SUPPORT_SLOW_VFS_H

#include <stdint.h>

/* Register the VFS; may be called again. It is not made the default. */
void slow_vfs_install(void);
/* How much longer each sync takes, from now on; 0 at first. */
void slow_vfs_set(uint32_t sync_us);

#endif
