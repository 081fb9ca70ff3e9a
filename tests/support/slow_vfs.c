/* slow_vfs.c: see slow_vfs.h. A file keeps the real VFS's own object; only its table of methods is a copy with another xSync. */
#include "support/slow_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#define TABLES_MAX 16 /* SQLite's VFS has a table for each way to lock */

typedef struct slow_table {
  sqlite3_io_methods methods; /* first: a file's pMethods leads here */
  const sqlite3_io_methods *real;
} slow_table;

static sqlite3_vfs slow, *real_vfs;
static slow_table tables[TABLES_MAX];
static size_t table_count;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static uint32_t delay_us;

static int sync_slowly(sqlite3_file *file, int flags)
{
  const slow_table *table = (const slow_table *)file->pMethods;
  uint32_t us = __atomic_load_n(&delay_us, __ATOMIC_RELAXED);
  if (us) usleep(us); /* the disk, not a wait for something */
  return table->real->xSync(file, flags);
}

static const sqlite3_io_methods *table_of(const sqlite3_io_methods *real)
{
  size_t i = 0;
  pthread_mutex_lock(&guard);
  while (i < table_count && tables[i].real != real) i++;
  if (i == TABLES_MAX) abort();
  if (i == table_count) {
    tables[i] = (slow_table){.methods = *real, .real = real};
    tables[i].methods.xSync = sync_slowly;
    table_count++;
  }
  pthread_mutex_unlock(&guard);
  return &tables[i].methods;
}

static int open_slowly(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
  (void)vfs;
  int code = real_vfs->xOpen(real_vfs, name, file, flags, out_flags);
  if (code == SQLITE_OK && file->pMethods) file->pMethods = table_of(file->pMethods);
  return code;
}

void slow_vfs_install(void)
{
  if (real_vfs) return;
  real_vfs = sqlite3_vfs_find(NULL);
  slow = *real_vfs; /* what takes only the VFS's own data works with the copy */
  slow.zName = "slow";
  slow.pNext = NULL;
  slow.xOpen = open_slowly;
  if (sqlite3_vfs_register(&slow, 0) != SQLITE_OK) abort();
}

void slow_vfs_set(uint32_t sync_us)
{
  __atomic_store_n(&delay_us, sync_us, __ATOMIC_RELAXED);
}
