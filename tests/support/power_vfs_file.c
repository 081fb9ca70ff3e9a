/* power_vfs_file.c: the powercut VFS as SQLite sees it. Each call goes through to the real VFS unless the power is off. */
#include "support/power_vfs.h"
#include "support/power_vfs_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static sqlite3_file *real_of(sqlite3_file *file)
{
  return ((power_file *)file)->real;
}

static sqlite3_vfs *real_vfs(sqlite3_vfs *vfs)
{
  return vfs->pAppData;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *file)
{
  sqlite3_file *real = real_of(file);
  return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *out, int size, sqlite3_int64 at)
{
  if (power_vfs_is_cut()) return SQLITE_IOERR_READ;
  return real_of(file)->pMethods->xRead(real_of(file), out, size, at);
}

/* The bytes at `at`, as far as the file reaches. */
static uint8_t *read_old(sqlite3_file *real, int64_t at, int64_t end, int64_t file_size, size_t *out_size)
{
  if (end > file_size) end = file_size;
  *out_size = end > at ? (size_t)(end - at) : 0;
  uint8_t *data = power_alloc(*out_size);
  if (*out_size && real->pMethods->xRead(real, data, (int)*out_size, at) != SQLITE_OK) abort();
  return data;
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
  sqlite3_file *real = real_of(file);
  power_node *node = ((power_file *)file)->node;
  sqlite3_int64 file_size = 0;
  if (power_vfs_is_cut()) return SQLITE_IOERR_WRITE;
  int rc = real->pMethods->xFileSize(real, &file_size);
  if (rc != SQLITE_OK) return rc;
  if (node) {
    power_change change = {.offset = at, .old_file_size = file_size, .new_size = (size_t)size};
    change.old_data = read_old(real, at, at + size, file_size, &change.old_size);
    change.new_data = power_alloc((size_t)size);
    memcpy(change.new_data, data, (size_t)size);
    power_remember(node, change);
  }
  if (power_strikes()) return SQLITE_IOERR_WRITE;
  return real->pMethods->xWrite(real, data, size, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
  sqlite3_file *real = real_of(file);
  power_node *node = ((power_file *)file)->node;
  sqlite3_int64 file_size = 0;
  if (power_vfs_is_cut()) return SQLITE_IOERR_TRUNCATE;
  int rc = real->pMethods->xFileSize(real, &file_size);
  if (rc != SQLITE_OK) return rc;
  if (node) {
    power_change change = {.is_truncate = true, .offset = size, .old_file_size = file_size};
    change.old_data = read_old(real, size, file_size, file_size, &change.old_size);
    power_remember(node, change);
  }
  if (power_strikes()) return SQLITE_IOERR_TRUNCATE;
  return real->pMethods->xTruncate(real, size);
}

/* The disk below is not asked to sync: what counts here is what would have been on it. */
static int file_sync(sqlite3_file *file, int flags)
{
  (void)flags;
  power_node *node = ((power_file *)file)->node;
  if (power_strikes()) return SQLITE_IOERR_FSYNC;
  if (!node) return SQLITE_OK;
  if (power_sync_fails(node->path)) {
    power_lose(node);
    errno = EIO;
    return SQLITE_IOERR_FSYNC;
  }
  power_settle(node);
  return SQLITE_OK;
}

static int file_size_of(sqlite3_file *file, sqlite3_int64 *out)
{
  if (power_vfs_is_cut()) return SQLITE_IOERR_FSTAT;
  return real_of(file)->pMethods->xFileSize(real_of(file), out);
}

static int file_lock(sqlite3_file *file, int how)
{
  if (power_vfs_is_cut()) return SQLITE_IOERR_LOCK;
  return real_of(file)->pMethods->xLock(real_of(file), how);
}

static int file_unlock(sqlite3_file *file, int how)
{
  return real_of(file)->pMethods->xUnlock(real_of(file), how);
}

static int file_check_lock(sqlite3_file *file, int *out)
{
  if (power_vfs_is_cut()) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
  return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int file_sector_size(sqlite3_file *file)
{
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **out)
{
  if (power_vfs_is_cut()) return SQLITE_IOERR_SHMMAP;
  return real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, out);
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
  if (power_vfs_is_cut() && !(flags & SQLITE_SHM_UNLOCK)) return SQLITE_IOERR_SHMLOCK;
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int is_delete)
{
  return real_of(file)->pMethods->xShmUnmap(real_of(file), is_delete);
}

/* Version 2: shared memory, but no mapped reads, which would go past us. */
static const sqlite3_io_methods methods = {
  .iVersion = 2,
  .xClose = file_close,
  .xRead = file_read,
  .xWrite = file_write,
  .xTruncate = file_truncate,
  .xSync = file_sync,
  .xFileSize = file_size_of,
  .xLock = file_lock,
  .xUnlock = file_unlock,
  .xCheckReservedLock = file_check_lock,
  .xFileControl = file_control,
  .xSectorSize = file_sector_size,
  .xDeviceCharacteristics = file_characteristics,
  .xShmMap = file_shm_map,
  .xShmLock = file_shm_lock,
  .xShmBarrier = file_shm_barrier,
  .xShmUnmap = file_shm_unmap,
};

/* ---- the VFS ------------------------------------------------------------------------------------------------------ */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
  power_file *p = (power_file *)file;
  *p = (power_file){.real = (sqlite3_file *)(void *)(p + 1)};
  memset(p->real, 0, (size_t)real_vfs(vfs)->szOsFile);
  if (power_vfs_is_cut()) return SQLITE_CANTOPEN;
  int rc = real_vfs(vfs)->xOpen(real_vfs(vfs), name, p->real, flags, out_flags);
  if (rc != SQLITE_OK) return rc;
  p->node = name ? power_node_of(name) : NULL;
  p->base.pMethods = &methods;
  return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int is_synced)
{
  if (power_strikes()) return SQLITE_IOERR_DELETE;
  int rc = real_vfs(vfs)->xDelete(real_vfs(vfs), name, is_synced);
  if (rc == SQLITE_OK) power_forget(power_node_of(name));
  return rc;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
  if (power_vfs_is_cut()) return SQLITE_IOERR_ACCESS;
  return real_vfs(vfs)->xAccess(real_vfs(vfs), name, flags, out);
}

static int vfs_full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
  return real_vfs(vfs)->xFullPathname(real_vfs(vfs), name, size, out);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *out)
{
  return real_vfs(vfs)->xRandomness(real_vfs(vfs), size, out);
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
  return real_vfs(vfs)->xSleep(real_vfs(vfs), microseconds);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *out)
{
  return real_vfs(vfs)->xGetLastError(real_vfs(vfs), size, out);
}

static int vfs_now(sqlite3_vfs *vfs, double *out)
{
  return real_vfs(vfs)->xCurrentTime(real_vfs(vfs), out);
}

sqlite3_vfs *power_vfs_make(sqlite3_vfs *real)
{
  sqlite3_vfs *vfs = power_alloc(sizeof *vfs);
  *vfs = (sqlite3_vfs){
    .iVersion = 1,
    .szOsFile = (int)sizeof(power_file) + real->szOsFile,
    .mxPathname = real->mxPathname,
    .zName = "powercut",
    .pAppData = real,
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_full_pathname,
    .xRandomness = vfs_randomness,
    .xSleep = vfs_sleep,
    .xGetLastError = vfs_last_error,
    .xCurrentTime = vfs_now,
  };
  return vfs;
}
