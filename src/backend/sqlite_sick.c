/*
 * sqlite_sick.c: a sync that failed, and how a store comes back from it.
 *
 * After a failed fsync Linux calls the pages clean although the disk does not have them: they are still read from the page cache, and the
 * next fsync succeeds without writing them. So success later means nothing, and the store is sick: it is read, and not written.
 * README.md, "A sync that failed", has the reasoning.
 * Invariants:
 *  K1  A sick store's files are not changed: no commit, no checkpoint, not at close either. A checkpoint from a WAL with a hole on the disk
 *      would leave a damaged database after a loss of power. The one exception is bury_frames, which writes behind what was acknowledged.
 *  K2  Healing copies the WAL to a new file and syncs that: all its pages are dirty, so this sync speaks of all of them. Only then is it
 *      renamed, and brought into the database, whose pages are written and synced anew by it. Then the sick word goes.
 *  K3  Healing happens when nobody else has the store open: every connection of it sees the new WAL, and no handle that saw the failure
 *      goes on.
 */
#include "backend/sqlite_store.h"
#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_SIZE (64 << 10)

/* ---- falling sick ------------------------------------------------------------------------------------------------- */

void pd_sqlite_fall_sick(pd_sqlite *s, pd_sick what)
{
  __atomic_store_n(&s->sick, what, __ATOMIC_RELEASE);
  if (pd_lock_file_sick(&s->lock, NULL) == PD_SICK_NOT) pd_lock_file_set_sick(&s->lock, what, pd_clock_now_ms(NULL));
}

static const char *name_of(pd_sick what)
{
  switch (what) {
  case PD_SICK_CHECKPOINT: return "a sync of the database or its -wal file failed in a checkpoint";
  case PD_SICK_FOLDER: return "a sync of its folder failed";
  default: return "a sync of its -wal file failed";
  }
}

pd_code pd_sqlite_health(pd_backend *b, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  int64_t ms = 0;
  char when[PD_TIME_TEXT_SIZE] = "";
  pd_sick sick = __atomic_load_n(&s->sick, __ATOMIC_ACQUIRE), word = pd_lock_file_sick(&s->lock, NULL);
  if (sick == PD_SICK_NOT && word == PD_SICK_NOT) return PD_OK;
  if (sick == PD_SICK_NOT) __atomic_store_n(&s->sick, sick = word, __ATOMIC_RELEASE);
  if (word != PD_SICK_NOT) pd_lock_file_sick(&s->lock, &ms);
  if (ms) pd_time_text(ms, when);
  return pd_error_set(err, PD_STORAGE,
                      "%.200s: %s%s%s; writes are refused until every process has closed the store and it is opened again; check the disk",
                      s->path, name_of(sick), *when ? " at " : "", when);
}

/* ---- appends that failed ------------------------------------------------------------------------------------------ */

/* A write that failed leaves no whole transaction in the WAL. After the last frame come a sync and the shared index. */
bool pd_sqlite_may_reappear(int rc)
{
  return (rc & 0xFF) == SQLITE_NOMEM || ((rc & 0xFF) == SQLITE_IOERR && rc != SQLITE_IOERR_WRITE);
}

/* SQLite writes its next frame over the first one behind the end. The checksums of a WAL are a chain: what follows it is void as well. The
 * synced commit of a page that stays as it is does that; its page of the file is dirty again, so its sync speaks of it. */
bool pd_sqlite_bury_frames(pd_sqlite *s)
{
  char sql[48];
  sqlite3_snprintf((int)sizeof sql, sql, "PRAGMA user_version=%d", PD_SQLITE_FORMAT);
  return pd_sqlite_set_sync(s, false, NULL) == PD_OK && pd_sqlite_conn_exec(&s->writer, sql, NULL) == PD_OK;
}

/* ---- folders ------------------------------------------------------------------------------------------------------ */

pd_code pd_sqlite_sync_folder(const char *folder, pd_error *err)
{
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return PD_OK;
  pd_code code = PD_OK;
  if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS) /* EINVAL: a file system that knows no such thing */
    code = pd_error_set(err, PD_STORAGE, "cannot sync the folder %.300s: %s", folder, strerror(errno));
  close(fd);
  return code;
}

/* ---- healing ------------------------------------------------------------------------------------------------------ */

/* Through the VFS, so that tests can lose what was not synced. The file must not be there. */
static sqlite3_file *open_copy(sqlite3_vfs *vfs, const char *path)
{
  sqlite3_file *file = calloc(1, (size_t)vfs->szOsFile);
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB;
  if (file && vfs->xOpen(vfs, path, file, flags, NULL) == SQLITE_OK) return file;
  if (file && file->pMethods) file->pMethods->xClose(file);
  free(file);
  return NULL;
}

static bool copy_bytes(int from, sqlite3_file *to)
{
  uint8_t *bytes = malloc(COPY_SIZE);
  int64_t at = 0;
  ssize_t got = bytes ? 1 : -1;
  while (got > 0) {
    got = pread(from, bytes, COPY_SIZE, at);
    if (got > 0 && to->pMethods->xWrite(to, bytes, (int)got, at) != SQLITE_OK) got = -1;
    if (got > 0) at += got;
  }
  free(bytes);
  return got == 0 && to->pMethods->xSync(to, SQLITE_SYNC_NORMAL) == SQLITE_OK;
}

/* `path` read and written to the new file `fresh`, synced. */
static bool copy_file(sqlite3_vfs *vfs, const char *path, const char *fresh)
{
  const char *name = sqlite3_create_filename(fresh, "", "", 0, NULL);
  int from = open(path, O_RDONLY | O_CLOEXEC);
  unlink(fresh); /* of a healing that was killed */
  sqlite3_file *to = name && from >= 0 ? open_copy(vfs, name) : NULL;
  bool ok = to && copy_bytes(from, to);
  if (to) to->pMethods->xClose(to);
  free(to);
  if (from >= 0) close(from);
  sqlite3_free_filename((char *)name);
  if (!ok) unlink(fresh);
  return ok;
}

/* K2: a WAL all of which is on the disk. */
static bool renew_wal(const pd_sqlite *s)
{
  CLEANUP(pd_free_at) char *wal = NULL;
  CLEANUP(pd_free_at) char *fresh = NULL;
  struct stat st;
  sqlite3_vfs *vfs = sqlite3_vfs_find(s->vfs);
  if (asprintf(&wal, "%s-wal", s->path) < 0) return wal = NULL, false;
  if (asprintf(&fresh, "%s-wal.new", s->path) < 0) return fresh = NULL, false;
  if (stat(wal, &st) != 0) return errno == ENOENT && pd_sqlite_sync_folder(s->folder, NULL) == PD_OK;
  if (!vfs || !copy_file(vfs, wal, fresh)) return false;
  if (rename(fresh, wal) != 0) return false;
  return pd_sqlite_sync_folder(s->folder, NULL) == PD_OK;
}

/* K2: all of the WAL in the database, written and synced by this connection. */
static bool bring_home(pd_sqlite *s)
{
  pd_sqlite_conn conn = {0};
  int frames = 0, done = 0;
  if (pd_sqlite_conn_open(&conn, s->path, s->vfs, PD_SQLITE_WRITE, NULL) != PD_OK) return false;
  int rc = sqlite3_wal_checkpoint_v2(conn.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, &frames, &done);
  if (rc != SQLITE_OK) sqlite3_db_config(conn.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  pd_sqlite_conn_close(&conn);
  return rc == SQLITE_OK && frames == done;
}

void pd_sqlite_heal(pd_sqlite *s)
{
  if (s->flags & PD_BACKEND_READ_ONLY || pd_lock_file_sick(&s->lock, NULL) == PD_SICK_NOT) return;
  if (!pd_lock_file_is_alone(&s->lock)) return; /* K3 */
  if (renew_wal(s) && bring_home(s)) pd_lock_file_set_sick(&s->lock, PD_SICK_NOT, 0);
}

/* ---- leaving ------------------------------------------------------------------------------------------------------ */

static void keep_wal(pd_sqlite_conn *conn)
{
  if (conn->db) sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* SQLite's own checkpoint, when the last connection closes, drops its result. One before it leaves it nothing to do. */
void pd_sqlite_leave(pd_sqlite *s)
{
  sqlite3 *db = s->writer.db ? s->writer.db : s->reader.db;
  bool is_sick = pd_sqlite_health(&s->base, NULL) != PD_OK;
  if (!is_sick && !(s->flags & PD_BACKEND_READ_ONLY) && pd_lock_file_is_alone(&s->lock)) {
    int frames = 0, done = 0;
    int rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &done);
    if (pd_sqlite_is_sync_failure(rc)) pd_sqlite_fall_sick(s, PD_SICK_CHECKPOINT);
    is_sick = rc != SQLITE_OK || frames != done;
  }
  if (!is_sick) return;
  keep_wal(&s->reader);
  keep_wal(&s->writer);
}
