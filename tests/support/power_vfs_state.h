/* power_vfs_state.h: what the powercut VFS remembers; between power_vfs.c (memory and cuts) and power_vfs_file.c (SQLite's side). */
#ifndef SUPPORT_POWER_VFS_STATE_H
#define SUPPORT_POWER_VFS_STATE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One unsynced change of a file: a write, or a truncate (is_truncate; offset is the new size). */
typedef struct power_change {
  struct power_change *older;
  bool is_truncate;
  int64_t offset;
  int64_t old_file_size;
  size_t old_size, new_size;
  uint8_t *old_data, *new_data; /* what was at `offset` before, what was put there */
} power_change;

#define POWER_PAGE 4096

/* A page that a failed sync left clean in the cache and different on the disk. */
typedef struct power_lost {
  struct power_lost *next;
  int64_t number;
  uint8_t disk[POWER_PAGE]; /* what the disk has there */
} power_lost;

typedef struct power_node {
  struct power_node *next;
  char *path;
  uint64_t inode; /* of the file that was opened last under this name: what is remembered belongs to it alone */
  int fd;         /* while something is pending: finds the file again if it was renamed */
  power_change *newest;
  power_lost *lost;
} power_node;

typedef struct power_file {
  sqlite3_file base;
  power_node *node; /* NULL: a file without a name; not remembered */
  sqlite3_file *real;
} power_file;

/* The state of a file by name, made if it is new; forgotten first if another file has the name now. */
power_node *power_node_of(const char *path);
/* Count a call that changes the disk. True: the power is off, or goes off in the middle of this very call: the change, if any, is
 * already remembered, and the call must fail. */
bool power_strikes(void);
/* Remember a change that was (or is about to be) done. `old_data` and `new_data` are taken over. */
void power_remember(power_node *node, power_change change);
/* The file was synced: what is pending is settled. Pages that an earlier failed sync lost stay lost unless they were written again. */
void power_settle(power_node *node);
/* The file was deleted. */
void power_forget(power_node *node);
/* Count a sync of the file or folder `path`. True: it is the one that has to fail. */
bool power_sync_fails(const char *path);
/* The sync failed: what is pending is clean now, and not on the disk. */
void power_lose(power_node *node);
/* From power_vfs_file.c. */
sqlite3_vfs *power_vfs_make(sqlite3_vfs *real);
void *power_alloc(size_t size);

#endif
