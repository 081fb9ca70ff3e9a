/*
 * sqlite_open.c: opening, creating and closing a store of the sqlite backend.
 *
 *  O1  A store appears whole: it is made under another name, synced, and renamed. So a file that is there and is not ours
 *      is somebody else's, never our own half-made one.
 *  O2  Nothing is written beside a file that is not a store (B11).
 *  O3  Opening, creating and closing happen under the lock file: SQLite checkpoints when its last connection closes.
 */
#include "backend/sqlite_store.h"

#include "backend/builtin.h"
#include "backend/sqlite_joint.h"
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "base/file.h"
#include "base/stores.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names -------------------------------------------------------------------------------------------------------- */

pd_code pd_sqlite_parse(const char *rest, char **out_folder, char **out_vfs, pd_error *err)
{
  const char *question = strchr(rest, '?');
  size_t folder_size = question ? (size_t)(question - rest) : strlen(rest);
  const char *vfs = NULL;
  if (!folder_size) return pd_error_set(err, PD_INVALID, "URI 'sqlite:%.200s' names no folder", rest);
  if (question) {
    if (strncmp(question, "?vfs=", 5) != 0 || !question[5] || strpbrk(question + 5, "&?")) {
      return pd_error_set(err, PD_INVALID, "URI 'sqlite:%.200s' has an unknown option '%.80s'", rest, question);
    }
    vfs = question + 5;
    if (!sqlite3_vfs_find(vfs)) return pd_error_set(err, PD_INVALID, "URI 'sqlite:%.200s' names an unknown VFS '%.80s'", rest, vfs);
  }
  char *folder = strndup(rest, folder_size), *vfs_copy = vfs ? strdup(vfs) : NULL;
  if (!folder || (vfs && !vfs_copy)) {
    free(folder), free(vfs_copy);
    return pd_error_memory(err, "a path");
  }
  *out_folder = folder;
  *out_vfs = vfs_copy;
  return PD_OK;
}

pd_code pd_sqlite_folder(const char *rest, char **out_folder, pd_error *err)
{
  char *folder = NULL, *vfs = NULL;
  TRY(pd_sqlite_parse(rest, &folder, &vfs, err));
  free(vfs);
  *out_folder = folder;
  return PD_OK;
}

static pd_code join(char **out, const char *folder, const char *store, const char *suffix, pd_error *err)
{
  const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
  if (asprintf(out, "%s%s%s%s", folder, slash, store, suffix) >= 0) return PD_OK;
  *out = NULL;
  return pd_error_memory(err, "a path");
}

/* ---- creating ----------------------------------------------------------------------------------------------------- */

/* The journal is in memory: until the rename nobody can see the file, so a crash leaves only rubbish (O1). */
static const char schema_sql[] = "PRAGMA page_size=4096; PRAGMA auto_vacuum=NONE; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=FULL;"
                                 "BEGIN;"
                                 "CREATE TABLE log(seq INTEGER PRIMARY KEY, count INTEGER NOT NULL, data BLOB NOT NULL);"
                                 "CREATE TABLE bag(n INTEGER PRIMARY KEY, key INTEGER NOT NULL, id BLOB NOT NULL, data BLOB NOT NULL);"
                                 "CREATE INDEX bag_by_key ON bag(key);"
                                 "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
                                 "INSERT INTO meta VALUES('uuid', x'%s'), ('created_ms', %lld);"
                                 "PRAGMA application_id=%d;"
                                 "PRAGMA user_version=%d;"
                                 "COMMIT;"
                                 "PRAGMA journal_mode=WAL";

static pd_code write_schema(sqlite3 *db, const char *path, pd_error *err)
{
  uint8_t uuid[PD_LOCK_UUID_SIZE];
  char hex[2 * sizeof uuid + 1];
  if (getrandom(uuid, sizeof uuid, 0) != (ssize_t)sizeof uuid) return pd_error_set(err, PD_STORAGE, "no random bytes: %s", strerror(errno));
  for (size_t i = 0; i < sizeof uuid; i++) snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
  char *sql = sqlite3_mprintf(schema_sql, hex, (long long)pd_clock_now_ms(NULL), PD_SQLITE_APPLICATION_ID, PD_SQLITE_FORMAT);
  if (!sql) return pd_error_memory(err, "a SQLite statement");
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return rc == SQLITE_OK ? PD_OK : pd_sqlite_error(db, rc, path, err);
}

/* An empty file of mode 0600: SQLite would make it 0644, and takes the mode of -wal and -shm from it. */
static pd_code make_empty(const char *path, pd_error *err)
{
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) {
    close(fd);
    return PD_OK;
  }
  if (errno == EROFS) return pd_error_set(err, PD_READ_ONLY, "%.300s is on a read-only medium", path);
  if (errno == ENOSPC || errno == EDQUOT) return pd_error_set(err, PD_FULL, "no space left to make %.300s", path);
  return pd_error_set(err, PD_STORAGE, "cannot make %.300s: %s", path, strerror(errno));
}

static void unlink_beside(const char *path, const char *suffix)
{
  CLEANUP(pd_free_at) char *name = NULL;
  if (asprintf(&name, "%s%s", path, suffix) < 0) name = NULL;
  if (name) unlink(name);
}

/* SQLite does not tell why it could not write the first pages or their journal. The file is of no use any more: it is asked by writing. */
static pd_code explain(const char *path, pd_code code, pd_error *err)
{
  static const char block[65536];
  int fd = code == PD_STORAGE ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (fd < 0) return code;
  ssize_t written = write(fd, block, sizeof block);
  int why = written < 0 ? errno : written < (ssize_t)sizeof block ? ENOSPC : 0;
  close(fd);
  if (why != ENOSPC && why != EDQUOT && why != EFBIG) return code;
  return pd_error_set(err, PD_FULL, "no space left to make %.300s", path);
}

static pd_code build_file(const char *path, const char *vfs, pd_error *err)
{
  sqlite3 *db = NULL;
  TRY(make_empty(path, err));
  CLEANUP(pd_free_at) char *name = NULL;
  if (asprintf(&name, "%s%s", path[0] == '/' ? "" : "./", path) < 0) return name = NULL, pd_error_memory(err, "a path");
  int rc = sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
  pd_code code = rc == SQLITE_OK ? write_schema(db, path, err) : pd_sqlite_error(db, rc, path, err);
  sqlite3_close(db);
  return explain(path, code, err);
}

/* Under the exclusive lock. What lies beside a database that is not there (any more) belongs to no store: SQLite would
 * replay such a -wal into the new one. */
static pd_code create_store(const pd_sqlite *s, pd_error *err)
{
  CLEANUP(pd_free_at) char *fresh = NULL;
  if (asprintf(&fresh, "%s.new", s->path) < 0) return fresh = NULL, pd_error_memory(err, "a path");
  const char *const suffixes[] = {"-wal", "-shm", "-journal"};
  unlink(fresh);
  for (size_t i = 0; i < COUNT_OF(suffixes); i++) unlink_beside(fresh, suffixes[i]);
  pd_code code = build_file(fresh, s->vfs, err);
  if (code == PD_OK) {
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) unlink_beside(s->path, suffixes[i]);
    if (rename(fresh, s->path) != 0) code = pd_error_set(err, PD_STORAGE, "cannot make %.300s: %s", s->path, strerror(errno));
  }
  if (code != PD_OK) {
    unlink(fresh);
    return code;
  }
  code = pd_sqlite_sync_folder(s->folder, err); /* else the store may be gone after a loss of power, acknowledged or not */
  if (code != PD_OK) unlink(s->path);           /* nobody has seen it; a store that is there would be taken for one whose name lasts */
  return code;
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

pd_code pd_sqlite_witness(const pd_sqlite *s, uint64_t tail, uint64_t acknowledged, pd_error *err)
{
  if (tail >= acknowledged) return PD_OK;
  return pd_error_set(
    err, PD_CORRUPT,
    "%.200s: the log ends at record %llu but %llu were acknowledged (if an older copy was put there on purpose, remove %.150s)", s->path,
    (unsigned long long)tail, (unsigned long long)acknowledged, s->lock.path);
}

/* Bind the lock file to the store and compare the two. */
static pd_code check_witness(pd_sqlite *s, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  uint8_t uuid[PD_LOCK_UUID_SIZE] = {0};
  uint64_t acknowledged = 0;
  int rc = sqlite3_prepare_v2(s->reader.db, "SELECT value FROM meta WHERE name='uuid'", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  bool is_uuid = rc == SQLITE_ROW && sqlite3_column_bytes(statement, 0) == sizeof uuid;
  if (is_uuid) memcpy(uuid, sqlite3_column_blob(statement, 0), sizeof uuid);
  pd_code code = PD_OK;
  if (rc != SQLITE_ROW && rc != SQLITE_DONE)
    code = pd_sqlite_error(s->reader.db, rc, s->path, err);
  else if (!is_uuid)
    code = pd_error_set(err, PD_CORRUPT, "%.300s is damaged: it has no uuid", s->path);
  sqlite3_finalize(statement);
  TRY(code);
  TRY(pd_sqlite_visible_tail(s, &s->tail, err));
  if (s->tail > PD_LOCK_TAIL_MAX)
    return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: its log is said to have %llu records", s->path, (unsigned long long)s->tail);
  pd_lock_file_bind(&s->lock, uuid);
  bool is_known = pd_lock_file_tail(&s->lock, &acknowledged);
  if (is_known) TRY(pd_sqlite_witness(s, s->tail, acknowledged, err));
  if (!is_known || acknowledged < s->tail) pd_lock_file_set_tail(&s->lock, s->tail);
  return PD_OK;
}

/* The -wal file was just made, or is empty again. */
static bool is_wal_new(const pd_sqlite *s)
{
  CLEANUP(pd_free_at) char *wal = NULL;
  struct stat st;
  if (asprintf(&wal, "%s-wal", s->path) < 0) return wal = NULL, true;
  return stat(wal, &st) != 0 || st.st_size == 0;
}

/* PLC-3 of engine/place.c: the store is kept elsewhere, and there must not be a second one. */
static pd_code refuse_if_placed(const pd_sqlite *s, pd_error *err)
{
  CLEANUP(pd_free_at) char *place = NULL;
  struct stat st;
  TRY(join(&place, s->folder, s->store, PD_PLACE_SUFFIX, err));
  if (lstat(place, &st) != 0) return PD_OK;
  return pd_error_set(err, PD_CONFLICT, "the store '%s' is not made here: it is placed elsewhere, as %s" PD_PLACE_SUFFIX " says", s->store,
                      s->store);
}

/* Under the lock file. `is_there`: as it was before we had the lock; somebody may have made it since. */
static pd_code open_locked(pd_sqlite *s, unsigned flags, bool is_there, pd_error *err)
{
  uint64_t acknowledged = 0;
  struct stat st;
  if (!is_there) TRY(pd_sqlite_probe(s->path, s->vfs, &is_there, err));
  if (!is_there) {
    if (!(flags & PD_BACKEND_CREATE)) return pd_error_set(err, PD_NOT_FOUND, "no store at %.300s", s->path);
    if (s->flags & PD_BACKEND_READ_ONLY) return pd_error_set(err, PD_READ_ONLY, "%.300s cannot be made: the medium is read-only", s->path);
    if (stat(s->path, &st) == 0 && pd_lock_file_peek(&s->lock, &acknowledged) && acknowledged > 0) {
      return pd_error_set(err, PD_CORRUPT, "%.300s is empty but %llu records were acknowledged (to begin anew, remove it and %.150s)",
                          s->path, (unsigned long long)acknowledged, s->lock.path);
    }
    TRY(refuse_if_placed(s, err));
    TRY(create_store(s, err));
  }
  pd_sqlite_heal(s);
  TRY(pd_sqlite_conn_open(&s->reader, s->path, s->vfs, s->flags & PD_BACKEND_READ_ONLY ? PD_SQLITE_READ_ONLY : PD_SQLITE_READ, err));
  if (!(s->flags & PD_BACKEND_READ_ONLY) && is_wal_new(s)) pd_lock_file_set_unnamed(&s->lock, true);
  return check_witness(s, err);
}

static pd_code open_files(pd_sqlite *s, const char *store, unsigned flags, bool is_quiet, pd_error *err)
{
  CLEANUP(pd_free_at) char *lock_path = NULL;
  bool is_there = false, is_read_only = flags & PD_BACKEND_OPEN_READ_ONLY;
  TRY(join(&s->path, s->folder, store, ".db", err));
  TRY(join(&lock_path, s->folder, store, ".lock", err));
  TRY(pd_sqlite_probe(s->path, s->vfs, &is_there, err)); /* before anything is made (O2) */
  if (!is_there && !(flags & PD_BACKEND_CREATE)) return pd_error_set(err, PD_NOT_FOUND, "no store at %.300s", s->path);
  if (!is_there) TRY(pd_folders_make(s->folder, err));
  TRY(pd_lock_file_open(&s->lock, lock_path, is_read_only, err));
  s->lock.is_quiet = is_quiet;
  if (!is_quiet) pd_joint_settle(s); /* before the lock: settling takes those of other stores, too */
  if (is_read_only || !s->lock.is_writable) s->flags |= PD_BACKEND_READ_ONLY;
  TRY(pd_lock_file_lock(&s->lock, !s->lock.is_writable, err));
  TRY(pd_lock_file_join(&s->lock, err));
  pd_code code = open_locked(s, flags, is_there, err);
  if (code != PD_OK) pd_sqlite_conn_close(&s->reader);
  pd_lock_file_unlock(&s->lock);
  return code;
}

static pd_code open_handle(const char *rest, const char *store, unsigned flags, bool is_quiet, pd_backend **out, pd_error *err)
{
  if (!*store || *store == '.' || strchr(store, '/') || strlen(store) > PD_NAME_SIZE_MAX)
    return pd_error_set(err, PD_INVALID, "'%.80s' is not a store's name", store);
  if (flags & PD_BACKEND_OPEN_READ_ONLY) flags &= ~PD_BACKEND_CREATE;
  TRY(pd_disk_may_read(err));
  pd_sqlite *s = calloc(1, sizeof *s);
  if (!s) return pd_error_memory(err, "a store's handle");
  s->base.ops = &pd_sqlite_ops;
  s->flags = PD_BACKEND_LASTS;
  strcpy(s->store, store);
  s->lock.fd = -1;
  pthread_mutex_init(&s->read_lock, NULL);
  pthread_mutex_init(&s->write_lock, NULL);
  pthread_cond_init(&s->unclaimed, NULL);
  pd_code code = pd_sqlite_parse(rest, &s->folder, &s->vfs, err);
  if (code == PD_OK) code = open_files(s, store, flags, is_quiet, err);
  if (code != PD_OK) {
    pd_sqlite_close(&s->base);
    return code;
  }
  *out = &s->base;
  return PD_OK;
}

pd_code pd_sqlite_open(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  return open_handle(rest, store, flags, false, out, err);
}

pd_code pd_sqlite_open_quiet(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  return open_handle(rest, store, flags, true, out, err);
}

void pd_sqlite_close(pd_backend *b)
{
  if (!b) return;
  pd_sqlite *s = (pd_sqlite *)b;
  pd_sqlite_log_release(b);
  bool is_locked = s->reader.db && pd_lock_file_lock(&s->lock, false, NULL) == PD_OK;
  if (is_locked) pd_sqlite_leave(s);
  pd_sqlite_conn_close(&s->reader);
  pd_sqlite_conn_close(&s->writer);
  if (is_locked) pd_lock_file_unlock(&s->lock);
  pd_lock_file_close(&s->lock);
  pthread_cond_destroy(&s->unclaimed);
  pthread_mutex_destroy(&s->write_lock);
  pthread_mutex_destroy(&s->read_lock);
  pd_buf_done(&s->batch);
  free(s->folder);
  free(s->path);
  free(s->vfs);
  free(s);
}
