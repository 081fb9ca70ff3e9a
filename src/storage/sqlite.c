/*
 * sqlite.c: `sqlite-snapshots:FILE`: one database, one row an agent and one for its epoch (docs/formats.md).
 *
 * WAL and synchronous=FULL: a save is on the disk when its transaction is. A file that is there and is no such database is PD_FORMAT and
 * nothing is written to it. A snapshot has its seal behind it (seal.h). Nothing is made before the first claim or save.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "storage/snapshot.h"

#include "storage/builtin.h"
#include "storage/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x50445353 /* "PDSS" */
#define FORMAT 1
#define BUSY_MS 5000

typedef struct sqlite_storage {
  sqlite3 *db; /* NULL: there was no file yet */
  char *path;
  bool is_made; /* the tables are there */
} sqlite_storage;

static const char schema_sql[] = "CREATE TABLE agent_snapshots(agent_id TEXT PRIMARY KEY NOT NULL, tick_index INTEGER NOT NULL,"
                                 " timestamp INTEGER NOT NULL, status TEXT NOT NULL, snapshot TEXT NOT NULL);"
                                 "CREATE TABLE agent_epochs(agent_id TEXT PRIMARY KEY NOT NULL, epoch INTEGER NOT NULL);"
                                 "PRAGMA application_id=1346655059; PRAGMA user_version=1";
_Static_assert(APPLICATION_ID == 1346655059 && FORMAT == 1, "as schema_sql says");

/* What SQLite says, as one of ours. */
static pd_code refused(sqlite_storage *s, const char *what, pd_error *err)
{
  int rc = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM;
  pd_code code = PD_STORAGE;
  if (rc == SQLITE_FULL) code = PD_FULL;
  if (rc == SQLITE_READONLY) code = PD_READ_ONLY;
  if (rc == SQLITE_CORRUPT) code = PD_CORRUPT;
  if (rc == SQLITE_NOTADB) code = PD_FORMAT;
  if (rc == SQLITE_NOMEM) code = PD_NO_MEMORY;
  return pd_error_set(err, code, "cannot %s the snapshots in %.300s: %s", what, s->path, s->db ? sqlite3_errmsg(s->db) : "no memory");
}

static pd_code run(sqlite_storage *s, const char *sql, const char *what, pd_error *err)
{
  return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? PD_OK : refused(s, what, err);
}

static void statement_done(sqlite3_stmt **statement)
{
  sqlite3_finalize(*statement);
}

static pd_code read_number(sqlite_storage *s, const char *sql, int64_t *out, pd_error *err)
{
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW) return refused(s, "read", err);
  *out = sqlite3_column_int64(st, 0);
  return PD_OK;
}

/* Is it ours, or empty? */
static pd_code check_format(sqlite_storage *s, bool *out_is_empty, pd_error *err)
{
  int64_t application = 0, version = 0, things = 0;
  TRY(read_number(s, "SELECT count(*) FROM sqlite_master", &things, err));
  TRY(read_number(s, "PRAGMA application_id", &application, err));
  TRY(read_number(s, "PRAGMA user_version", &version, err));
  *out_is_empty = !things && !application && !version;
  if (*out_is_empty) return PD_OK;
  if (application != APPLICATION_ID) return pd_error_set(err, PD_FORMAT, "%.300s is a database, but not one of snapshots", s->path);
  if (version != FORMAT) {
    return pd_error_set(err, PD_FORMAT, "%.300s has snapshots of format %lld; this perdure knows %d", s->path, (long long)version, FORMAT);
  }
  return PD_OK;
}

static pd_code make_tables(sqlite_storage *s, pd_error *err)
{
  bool is_empty;
  TRY(run(s, "PRAGMA journal_mode=WAL", "make", err));
  TRY(run(s, "BEGIN IMMEDIATE", "make", err));
  pd_code code = check_format(s, &is_empty, err); /* another process may have been first */
  if (!code && is_empty) code = run(s, schema_sql, "make", err);
  if (!code) code = run(s, "COMMIT", "make", err);
  if (code) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  return code;
}

static pd_code prepare_file(sqlite_storage *s, bool is_write, pd_error *err)
{
  bool is_empty;
  sqlite3_busy_timeout(s->db, BUSY_MS);
  TRY(run(s, "BEGIN", "read", err)); /* its numbers are of one moment: another process may be making it */
  pd_code code = check_format(s, &is_empty, err);
  sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  TRY(code);
  if (is_empty && is_write) TRY(make_tables(s, err));
  s->is_made = !is_empty || is_write;
  return run(s, "PRAGMA synchronous=FULL", "open", err);
}

static void close_file(void *handle)
{
  sqlite_storage *s = handle;
  sqlite3_close(s->db);
  free(s->path);
  free(s);
}

/*
 * Make the folder, and lock it until *out_fd is closed. Processes that make the database at the same time would else meet inside SQLite's
 * change to WAL, which answers "locked" at once whatever the timeout is.
 */
static pd_code lock_parent(const char *path, int *out_fd, pd_error *err)
{
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
  if (!folder) return pd_error_memory(err, "a path");
  pd_code code = pd_folders_make(folder, err);
  if (!code) *out_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!code && (*out_fd < 0 || flock(*out_fd, LOCK_EX) != 0)) code = pd_file_refused(err, "lock", folder);
  free(folder);
  return code;
}

/* SQLite would make it with the rights that umask leaves: snapshots are their owner's. */
static void make_private(const char *path)
{
  int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return; /* it is there, or SQLite will say why not */
  close(fd);
  pd_code code = pd_folder_sync(path, NULL);
  (void)code;
}

static void hang_up(sqlite_storage *s)
{
  sqlite3_close(s->db);
  s->db = NULL;
  s->is_made = false;
}

/* Open the file. To read, one that is not there stays so, and one that is empty too: s->is_made says whether there is anything. */
static pd_code reach(sqlite_storage *s, bool is_write, pd_error *err)
{
  struct stat is;
  if (s->db && (s->is_made || !is_write)) return s->is_made ? PD_OK : prepare_file(s, false, err);
  if (!is_write && stat(s->path, &is) != 0 && errno == ENOENT) return PD_OK;
  hang_up(s);
  CLEANUP(pd_fd_done) int lock = -1;
  if (is_write) {
    TRY(lock_parent(s->path, &lock, err));
    make_private(s->path);
  }
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | (is_write ? SQLITE_OPEN_CREATE : 0);
  pd_code code = sqlite3_open_v2(s->path, &s->db, flags, NULL) == SQLITE_OK ? prepare_file(s, is_write, err) : refused(s, "open", err);
  if (code) hang_up(s);
  return code;
}

static pd_code open_file(const char *argument, void **out, pd_error *err)
{
  if (!*argument) return pd_error_set(err, PD_INVALID, "the storage sqlite-snapshots: names no file");
  sqlite_storage *s = calloc(1, sizeof *s);
  if (s) s->path = strdup(argument);
  if (!s || !s->path) {
    free(s);
    return pd_error_memory(err, "a storage");
  }
  pd_code code = reach(s, false, err);
  if (code) {
    close_file(s);
    return code;
  }
  *out = s;
  return PD_OK;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static pd_code prepare(sqlite_storage *s, const char *sql, const char *agent, sqlite3_stmt **out, pd_error *err)
{
  if (sqlite3_prepare_v2(s->db, sql, -1, out, NULL) != SQLITE_OK) return refused(s, "read", err);
  if (agent && sqlite3_bind_text(*out, 1, agent, -1, SQLITE_STATIC) != SQLITE_OK) return refused(s, "read", err);
  return PD_OK;
}

/* The number that `sql` finds for the agent; 0 if there is none. */
static pd_code find_number(sqlite_storage *s, const char *sql, const char *agent, uint64_t *out, pd_error *err)
{
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s, sql, agent, &st, err));
  int rc = sqlite3_step(st);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) return refused(s, "read", err);
  *out = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
  return PD_OK;
}

#define EPOCH_SQL "SELECT epoch FROM agent_epochs WHERE agent_id=?"

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  sqlite_storage *s = handle;
  *out = 0;
  TRY(reach(s, false, err));
  return s->is_made ? find_number(s, EPOCH_SQL, agent, out, err) : PD_OK;
}

/* End a transaction: by COMMIT, or by ROLLBACK if `code` says so or the commit fails. */
static pd_code end(sqlite_storage *s, pd_code code, pd_error *err)
{
  if (!code) code = run(s, "COMMIT", "write", err);
  if (code) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  return code;
}

static pd_code put_epoch(sqlite_storage *s, const char *agent, uint64_t epoch, pd_error *err)
{
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s, "INSERT INTO agent_epochs VALUES(?1,?2) ON CONFLICT(agent_id) DO UPDATE SET epoch=?2", agent, &st, err));
  bool is_done = sqlite3_bind_int64(st, 2, (int64_t)epoch) == SQLITE_OK && sqlite3_step(st) == SQLITE_DONE;
  return is_done ? PD_OK : refused(s, "write", err);
}

static pd_code claim(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  sqlite_storage *s = handle;
  uint64_t last = 0, epoch = 0;
  TRY(reach(s, true, err));
  TRY(run(s, "BEGIN IMMEDIATE", "write", err));
  pd_code code = find_number(s, EPOCH_SQL, agent, &last, err);
  epoch = pd_epoch_after(last);
  if (!code) code = put_epoch(s, agent, epoch, err);
  TRY(end(s, code, err));
  *out = epoch;
  return PD_OK;
}

/* ---- snapshots ----------------------------------------------------------------------------------------------------- */

/* The mark of what is stored; zeros if nothing is. */
static pd_code mark_now(sqlite_storage *s, const char *agent, pd_storage_mark *out, pd_error *err)
{
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s, "SELECT substr(CAST(snapshot AS BLOB),-?2) FROM agent_snapshots WHERE agent_id=?1", agent, &st, err));
  if (sqlite3_bind_int(st, 2, PD_SEAL_SIZE) != SQLITE_OK) return refused(s, "read", err);
  int rc = sqlite3_step(st);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) return refused(s, "read", err);
  const void *tail = rc == SQLITE_ROW ? sqlite3_column_blob(st, 0) : NULL;
  *out = tail ? pd_seal_mark((pd_bytes){tail, (size_t)sqlite3_column_bytes(st, 0)}) : (pd_storage_mark){0};
  return PD_OK;
}

static pd_code put_snapshot(sqlite_storage *s, const char *agent, const pd_snapshot *facts, pd_bytes sealed, pd_error *err)
{
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s,
              "INSERT INTO agent_snapshots VALUES(?1,?2,?3,?4,?5) ON CONFLICT(agent_id) DO UPDATE SET tick_index=?2, timestamp=?3,"
              " status=?4, snapshot=?5",
              agent, &st, err));
  bool is_bound = sqlite3_bind_int64(st, 2, (int64_t)facts->tick_index) == SQLITE_OK &&
                  sqlite3_bind_int64(st, 3, facts->timestamp) == SQLITE_OK &&
                  sqlite3_bind_text(st, 4, facts->status, -1, SQLITE_STATIC) == SQLITE_OK &&
                  sqlite3_bind_text(st, 5, sealed.data, (int)sealed.size, SQLITE_STATIC) == SQLITE_OK;
  return is_bound && sqlite3_step(st) == SQLITE_DONE ? PD_OK : refused(s, "write", err);
}

/* Inside of a transaction. *out_is_there: this very save is stored already. */
static pd_code check_save(sqlite_storage *s, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next,
                          bool *out_is_there, pd_error *err)
{
  uint64_t epoch = 0;
  pd_storage_mark now;
  if (next->epoch) TRY(find_number(s, EPOCH_SQL, agent, &epoch, err));
  if (next->epoch != epoch) return pd_epoch_conflict(next->epoch, epoch, err);
  if (!last) return PD_OK;
  TRY(mark_now(s, agent, &now, err));
  *out_is_there = pd_mark_is(&now, next);
  return *out_is_there || pd_mark_is(&now, last) ? PD_OK : pd_mark_conflict(next, &now, err);
}

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  sqlite_storage *s = handle;
  pd_snapshot facts;
  pd_snapshot_parts parts;
  bool is_there = false;
  CLEANUP(pd_buf_done) pd_buf sealed = {0};
  TRY(pd_snapshot_split(snapshot, agent, &parts, &facts, err)); /* storage.c has checked it */
  TRY(pd_seal_write(snapshot, next, &sealed, err));
  TRY(reach(s, true, err));
  TRY(run(s, "BEGIN IMMEDIATE", "write", err));
  pd_code code = check_save(s, agent, last, next, &is_there, err);
  if (!code && !is_there) code = put_snapshot(s, agent, &facts, pd_buf_bytes(&sealed), err);
  return end(s, code, err);
}

static pd_code no_snapshot(const sqlite_storage *s, const char *agent, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", agent, s->path);
}

static pd_code take_row(sqlite_storage *s, sqlite3_stmt *st, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  pd_bytes document;
  const void *data = sqlite3_column_blob(st, 0);
  pd_bytes stored = {data ? data : "", (size_t)sqlite3_column_bytes(st, 0)};
  pd_code code = pd_seal_read(stored, &document, out_mark, err);
  if (!code) return take(ctx, document, err);
  char why[PD_ERROR_MESSAGE_MAX];
  snprintf(why, sizeof why, "%s", err->message);
  return pd_error_set(err, code, "%.180s: %.300s", s->path, why);
}

/* A damaged index must not make an agent a fresh one: does the table itself know it? In one statement, so that no save comes between. */
static pd_code check_index(sqlite_storage *s, const char *agent, pd_error *err)
{
  uint64_t lost = 0;
  TRY(find_number(s,
                  "SELECT count(*) FROM agent_snapshots NOT INDEXED WHERE agent_id=?1 AND NOT EXISTS"
                  "(SELECT 1 FROM agent_snapshots AS known WHERE known.agent_id=?1)",
                  agent, &lost, err));
  return lost ? pd_error_set(err, PD_CORRUPT, "the index of %.300s is damaged: REINDEX it with sqlite3", s->path) : PD_OK;
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  sqlite_storage *s = handle;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(reach(s, false, err));
  if (!s->is_made) return no_snapshot(s, agent, err);
  TRY(prepare(s, "SELECT snapshot FROM agent_snapshots WHERE agent_id=?", agent, &st, err));
  int rc = sqlite3_step(st);
  if (rc == SQLITE_ROW) return take_row(s, st, take, ctx, out_mark, err);
  if (rc != SQLITE_DONE) return refused(s, "read", err);
  TRY(check_index(s, agent, err));
  return no_snapshot(s, agent, err);
}

static pd_code change_rows(sqlite_storage *s, const char *sql, const char *agent, int *out_count, pd_error *err)
{
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s, sql, agent, &st, err));
  if (sqlite3_step(st) != SQLITE_DONE) return refused(s, "write", err);
  *out_count = sqlite3_changes(s->db);
  return PD_OK;
}

static pd_code remove_row(void *handle, const char *agent, pd_error *err)
{
  sqlite_storage *s = handle;
  int removed = 0;
  uint64_t epoch = 0;
  TRY(reach(s, false, err));
  if (!s->is_made) return no_snapshot(s, agent, err);
  TRY(run(s, "BEGIN IMMEDIATE", "write", err));
  pd_code code = change_rows(s, "DELETE FROM agent_snapshots WHERE agent_id=?", agent, &removed, err);
  if (!code && removed) code = find_number(s, EPOCH_SQL, agent, &epoch, err);
  if (!code && epoch) code = put_epoch(s, agent, pd_epoch_after(epoch), err);
  TRY(end(s, code, err));
  return removed ? PD_OK : no_snapshot(s, agent, err);
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  sqlite_storage *s = handle;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(reach(s, false, err));
  if (!s->is_made) return PD_OK;
  TRY(prepare(s, "SELECT agent_id FROM agent_snapshots", NULL, &st, err));
  int rc;
  while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
    const char *agent = (const char *)sqlite3_column_text(st, 0);
    if (agent) TRY(visit(ctx, agent, err));
  }
  return rc == SQLITE_DONE ? PD_OK : refused(s, "read", err);
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  (void)handle, (void)err;
  out->lasting = PD_LASTS_POWER;
  snprintf(out->detail, sizeof out->detail, "SQLite with journal_mode=WAL and synchronous=FULL: each save is a transaction that is synced");
  return PD_OK;
}

const pd_storage_ops pd_storage_sqlite = {
  .abi = PD_STORAGE_ABI,
  .name = "sqlite-snapshots",
  .open = open_file,
  .close = close_file,
  .remove = remove_row,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
  .save_next = save_next,
  .load_marked = load_marked,
};
