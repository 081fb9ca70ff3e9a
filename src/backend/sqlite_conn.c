/* sqlite_conn.c: see sqlite_conn.h. */
#include "backend/sqlite_conn.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *const sql_texts[PD_SQL_COUNT] = {
  [PD_SQL_TAIL] = "SELECT seq, count FROM log ORDER BY seq DESC LIMIT 1",
  [PD_SQL_LOG_READ] = "SELECT seq, count, data FROM log WHERE seq >= coalesce((SELECT max(seq) FROM log WHERE seq <= ?1), 0) ORDER BY seq",
  [PD_SQL_LOG_APPEND] = "INSERT INTO log(seq, count, data) VALUES (?1, ?2, ?3)",
  [PD_SQL_BAG_FIND] = "SELECT id, n FROM bag WHERE key = ?1",
  [PD_SQL_BAG_GET] = "SELECT id, data FROM bag WHERE key = ?1",
  [PD_SQL_BAG_PUT] = "INSERT INTO bag(n, key, id, data) VALUES (?1, ?2, ?3, ?4)",
  [PD_SQL_BAG_LAST] = "SELECT coalesce(max(n), 0) FROM bag",
  [PD_SQL_BAG_TOUCH] = "INSERT INTO touched(n, at) VALUES (?1, ?2) ON CONFLICT(n) DO UPDATE SET at = excluded.at WHERE at <> excluded.at",
  [PD_SQL_BAG_PAGE] = "SELECT n, id, length(data) FROM bag WHERE n > ?1 AND n <= ?2 ORDER BY n LIMIT ?3",
  [PD_SQL_BAG_DELETE] = "DELETE FROM bag WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM touched WHERE n = ?1 AND at > ?2)",
  [PD_SQL_BAG_FORGET] = "DELETE FROM touched WHERE n = ?1",
  [PD_SQL_MARK] = "SELECT value FROM meta WHERE name = 'mark'",
  [PD_SQL_SCRUB] = "SELECT value FROM meta WHERE name = 'scrub'",
  [PD_SQL_ROW_AT] = "SELECT seq, count, data FROM log WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1",
  [PD_SQL_ROW_DELETE] = "DELETE FROM log WHERE seq = ?1",
  [PD_SQL_BEGIN] = "BEGIN IMMEDIATE",
  [PD_SQL_COMMIT] = "COMMIT",
  [PD_SQL_SYNC_FULL] = "PRAGMA synchronous=FULL",
  [PD_SQL_SYNC_NORMAL] = "PRAGMA synchronous=NORMAL",
};

/* A WAL that one large bag_put blew up is cut back to 32 MiB when it starts again; below that it is kept and overwritten. */
static const char writer_sql[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA journal_size_limit=33554432";

static pd_code host_error(int why, const char *path, const char *what, pd_error *err)
{
  if (why == ENOSPC || why == EDQUOT || why == EFBIG)
    return pd_error_set(err, PD_FULL, "no space left to write %.300s: %s", path, strerror(why));
  if (why == EROFS) return pd_error_set(err, PD_READ_ONLY, "%.300s is on a read-only medium", path);
  if (why == EACCES || why == EPERM) return pd_error_set(err, PD_STORAGE, "no permission to open %.300s", path);
  if (why) return pd_error_set(err, PD_STORAGE, "%.300s: %s: %s", path, what, strerror(why));
  return pd_error_set(err, PD_STORAGE, "%.300s: %s", path, what);
}

/* What the system said. SQLite forgets to ask when a commit fails, but the WAL's file remembers. */
static int system_errno(sqlite3 *db)
{
  sqlite3_file *wal = NULL;
  int why = db ? sqlite3_system_errno(db) : 0;
  if (why || !db || sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) != SQLITE_OK || !wal || !wal->pMethods) return why;
  if (wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &why) != SQLITE_OK) return 0;
  return why;
}

pd_code pd_sqlite_error(sqlite3 *db, int rc, const char *path, pd_error *err)
{
  const char *what = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  switch (rc & 0xFF) {
  case SQLITE_FULL: return pd_error_set(err, PD_FULL, "no space left to write %.300s", path);
  case SQLITE_READONLY: return pd_error_set(err, PD_READ_ONLY, "%.300s cannot be written: %.150s", path, what);
  case SQLITE_NOTADB: return pd_error_set(err, PD_FORMAT, "%.300s is not a perdure store", path);
  case SQLITE_CORRUPT: return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: %.150s", path, what);
  case SQLITE_NOMEM: return pd_error_memory(err, "a SQLite page or statement");
  case SQLITE_TOOBIG: return pd_error_set(err, PD_LIMIT, "%.300s: a record or blob is too large for SQLite", path);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
  case SQLITE_PROTOCOL: return pd_error_set(err, PD_STORAGE, "another program has kept %.300s to itself for two minutes", path);
  case SQLITE_CANTOPEN:
  case SQLITE_IOERR:
  case SQLITE_PERM:
  case SQLITE_AUTH: return host_error(system_errno(db), path, what, err);
  case SQLITE_ERROR: /* a table or column that every store has is missing */
  case SQLITE_SCHEMA:
  case SQLITE_MISMATCH: return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: %.150s", path, what);
  default: return pd_error_set(err, PD_STORAGE, "%.300s: %.150s", path, what);
  }
}

bool pd_sqlite_is_sync_failure(int rc)
{
  return rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC;
}

pd_code pd_sqlite_conn_error(pd_sqlite_conn *conn, int rc, pd_error *err)
{
  if (pd_sqlite_is_sync_failure(rc)) conn->has_failed_sync = true;
  return pd_sqlite_error(conn->db, rc, conn->path, err);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

/* file:PATH?immutable=1 */
static char *immutable_uri(const char *path)
{
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  pd_code code = pd_buf_printf(&uri, NULL, "file:%s", path[0] == '/' ? "//" : "");
  if (code == PD_OK) code = pd_uri_escape(pd_text(path), "/", &uri, NULL);
  if (code == PD_OK) code = pd_buf_printf(&uri, NULL, "?immutable=1");
  return code == PD_OK ? strdup((char *)uri.data) : NULL;
}

/* Debian's SQLite takes a name that begins with "file:" for a URI, asked or not. */
static char *plain_name(const char *path)
{
  char *name = NULL;
  bool needs_dot = strncmp(path, "file:", 5) == 0 || path[0] == ':';
  if (asprintf(&name, "%s%s", needs_dot ? "./" : "", path) < 0) return NULL;
  return name;
}

/* A store that somebody else prepared may hold triggers and views; none of ours does. */
static int harden(sqlite3 *db)
{
  int rc = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  return rc;
}

/* Open and read something, so that whatever is wrong with the file shows here. */
static pd_code open_as(pd_sqlite_conn *conn, const char *name, int flags, const char *vfs, pd_error *err)
{
  int rc = sqlite3_open_v2(name, &conn->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(conn->db, PD_SQLITE_BUSY_TIMEOUT_MS);
  if (rc == SQLITE_OK) rc = harden(conn->db);
  if (rc == SQLITE_OK) {
    rc = sqlite3_exec(conn->db, "PRAGMA wal_autocheckpoint=0; PRAGMA cell_size_check=ON; SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL,
                      NULL);
  }
  if (rc == SQLITE_OK) return PD_OK;
  pd_code code = pd_sqlite_error(conn->db, rc, conn->path, err);
  sqlite3_close(conn->db);
  conn->db = NULL;
  return code;
}

static bool has_wal(const char *path)
{
  char *wal = NULL;
  struct stat st;
  if (asprintf(&wal, "%s-wal", path) < 0) return true;
  bool is_there = stat(wal, &st) == 0 && st.st_size > 0;
  free(wal);
  return is_there;
}

static pd_code open_immutable(pd_sqlite_conn *conn, const char *path, const char *vfs, pd_error *err)
{
  if (has_wal(path)) {
    return pd_error_set(err, PD_STORAGE, "%.300s has unfinished business in its -wal file, and the folder cannot be written to settle it",
                        path);
  }
  char *uri = immutable_uri(path);
  if (!uri) return pd_error_memory(err, "a SQLite file name");
  pd_code code = open_as(conn, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, vfs, err);
  free(uri);
  return code;
}

pd_code pd_sqlite_conn_open(pd_sqlite_conn *conn, const char *path, const char *vfs, pd_sqlite_mode mode, pd_error *err)
{
  *conn = (pd_sqlite_conn){.path = path};
  char *name = plain_name(path);
  if (!name) return pd_error_memory(err, "a SQLite file name");
  pd_error first;
  pd_code code = open_as(conn, name, mode == PD_SQLITE_READ_ONLY ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, vfs, &first);
  free(name);
  if (mode == PD_SQLITE_READ_ONLY && (code == PD_STORAGE || code == PD_READ_ONLY)) return open_immutable(conn, path, vfs, err);
  if (code != PD_OK && err) *err = first;
  if (code == PD_OK && mode == PD_SQLITE_READ) code = pd_sqlite_conn_exec(conn, "PRAGMA query_only=ON", err);
  if (code == PD_OK && mode == PD_SQLITE_WRITE) code = pd_sqlite_conn_exec(conn, writer_sql, err);
  if (code != PD_OK) pd_sqlite_conn_close(conn);
  return code;
}

void pd_sqlite_conn_close(pd_sqlite_conn *conn)
{
  for (size_t i = 0; i < PD_SQL_COUNT; i++) sqlite3_finalize(conn->statements[i]);
  sqlite3_close(conn->db);
  *conn = (pd_sqlite_conn){0};
}

/* ---- statements --------------------------------------------------------------------------------------------------- */

pd_code pd_sqlite_conn_use(pd_sqlite_conn *conn, pd_sqlite_statement which, sqlite3_stmt **out, pd_error *err)
{
  if (!conn->statements[which]) {
    int rc = sqlite3_prepare_v3(conn->db, sql_texts[which], -1, SQLITE_PREPARE_PERSISTENT, &conn->statements[which], NULL);
    if (rc != SQLITE_OK) return pd_sqlite_conn_error(conn, rc, err);
  }
  *out = conn->statements[which];
  return PD_OK;
}

pd_code pd_sqlite_conn_run(pd_sqlite_conn *conn, pd_sqlite_statement which, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  TRY(pd_sqlite_conn_use(conn, which, &statement, err));
  int rc = sqlite3_step(statement);
  pd_code code = rc == SQLITE_DONE || rc == SQLITE_ROW ? PD_OK : pd_sqlite_conn_error(conn, rc, err);
  sqlite3_reset(statement);
  return code;
}

pd_code pd_sqlite_conn_exec(pd_sqlite_conn *conn, const char *sql, pd_error *err)
{
  int rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);
  return rc == SQLITE_OK ? PD_OK : pd_sqlite_conn_error(conn, rc, err);
}

pd_code pd_sqlite_conn_number(pd_sqlite_conn *conn, pd_sqlite_statement which, uint64_t *out, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  TRY(pd_sqlite_conn_use(conn, which, &statement, err));
  int rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW || rc == SQLITE_DONE) *out = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
  pd_code code = rc == SQLITE_ROW || rc == SQLITE_DONE ? PD_OK : pd_sqlite_conn_error(conn, rc, err);
  sqlite3_reset(statement);
  return code;
}

pd_code pd_sqlite_conn_tail(pd_sqlite_conn *conn, uint64_t *out_tail, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  TRY(pd_sqlite_conn_use(conn, PD_SQL_TAIL, &statement, err));
  pd_code code = PD_OK;
  int rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    int64_t seq = sqlite3_column_int64(statement, 0), count = sqlite3_column_int64(statement, 1);
    if (seq < 1 || count < 1 || seq > INT64_MAX - count) {
      code = pd_error_set(err, PD_CORRUPT, "%.300s is damaged: its last log row is numbered %lld with %lld records", conn->path,
                          (long long)seq, (long long)count);
    } else {
      *out_tail = (uint64_t)(seq + count - 1);
    }
  } else if (rc == SQLITE_DONE) {
    *out_tail = 0;
  } else {
    code = pd_sqlite_conn_error(conn, rc, err);
  }
  sqlite3_reset(statement);
  return code;
}

/* ---- a look at a file --------------------------------------------------------------------------------------------- */

#define HEADER_SIZE 100
#define HEADER_USER_VERSION_AT 60
#define HEADER_APPLICATION_ID_AT 68

static uint32_t get_be32(const uint8_t *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Both numbers are written once, at creation, before the file has a WAL: the file's own header tells the truth. */
static pd_code judge_header(const uint8_t header[HEADER_SIZE], const char *path, pd_error *err)
{
  uint32_t format = get_be32(header + HEADER_USER_VERSION_AT);
  if (memcmp(header, "SQLite format 3", 16) != 0 || get_be32(header + HEADER_APPLICATION_ID_AT) != PD_SQLITE_APPLICATION_ID) {
    return pd_error_set(err, PD_FORMAT, "%.300s is not a perdure store", path);
  }
  if (format > PD_SQLITE_FORMAT) {
    return pd_error_set(err, PD_FORMAT, "%.300s was written by a newer perdure (format %u, this one knows %d)", path, format,
                        PD_SQLITE_FORMAT);
  }
  if (format < PD_SQLITE_FORMAT) return pd_error_set(err, PD_FORMAT, "%.300s has the unknown format %u", path, format);
  return PD_OK;
}

/* Through the VFS: a close() of our own would drop the POSIX locks of every connection to the file in this process. */
static pd_code read_header(sqlite3_vfs *vfs, const char *path, uint8_t header[HEADER_SIZE], pd_error *err)
{
  sqlite3_file *file = calloc(1, (size_t)vfs->szOsFile);
  const char *name = sqlite3_create_filename(path, "", "", 0, NULL);
  if (!file || !name) {
    free(file);
    sqlite3_free_filename((char *)name);
    return pd_error_memory(err, "a file handle");
  }
  errno = 0;
  int rc = vfs->xOpen(vfs, name, file, SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, NULL);
  if (rc == SQLITE_OK) {
    rc = file->pMethods->xRead(file, header, HEADER_SIZE, 0);
    if (rc == SQLITE_IOERR_SHORT_READ) rc = SQLITE_OK; /* the rest is zeros */
  }
  int why = errno;
  if (file->pMethods) file->pMethods->xClose(file);
  free(file);
  sqlite3_free_filename((char *)name);
  return rc == SQLITE_OK ? PD_OK : host_error(why, path, sqlite3_errstr(rc), err);
}

pd_code pd_sqlite_probe(const char *path, const char *vfs_name, bool *out_is_there, pd_error *err)
{
  struct stat st;
  uint8_t header[HEADER_SIZE] = {0};
  *out_is_there = false;
  if (stat(path, &st) != 0) {
    if (errno == ENOENT) return PD_OK;
    if (errno == ENOTDIR) return pd_error_set(err, PD_FORMAT, "%.300s cannot be: a part of its path is not a folder", path);
    return host_error(errno, path, "cannot look at it", err);
  }
  if (!S_ISREG(st.st_mode)) return pd_error_set(err, PD_FORMAT, "%.300s is not a perdure store: it is not a file", path);
  if (st.st_size == 0) return PD_OK;
  sqlite3_vfs *vfs = sqlite3_vfs_find(vfs_name);
  if (!vfs) return pd_error_set(err, PD_INVALID, "SQLite has no VFS '%.80s'", vfs_name ? vfs_name : "");
  TRY(read_header(vfs, path, header, err));
  TRY(judge_header(header, path, err));
  *out_is_there = true;
  return PD_OK;
}
