/*
 * sqlite.c: `sqlite-snapshots:FILE`: one database, one row an agent and one for its epoch (docs/formats.md).
 *
 * WAL and synchronous=FULL: a save is on the disk when its transaction is. A file that is there and is no such database is PD_FORMAT and
 * nothing is written to it.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "storage/snapshot.h"

#include "storage/builtin.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define APPLICATION_ID 0x50445353 /* "PDSS" */
#define FORMAT 1
#define BUSY_MS 5000

typedef struct sqlite_storage {
  sqlite3 *db;
  char *path;
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

static pd_code prepare_file(sqlite_storage *s, pd_error *err)
{
  bool is_empty;
  sqlite3_busy_timeout(s->db, BUSY_MS);
  TRY(check_format(s, &is_empty, err));
  if (is_empty) {
    TRY(run(s, "PRAGMA journal_mode=WAL", "make", err));
    TRY(run(s, "BEGIN IMMEDIATE", "make", err));
    pd_code code = check_format(s, &is_empty, err); /* another process may have been first */
    if (!code && is_empty) code = run(s, schema_sql, "make", err);
    if (!code) code = run(s, "COMMIT", "make", err);
    if (code) {
      sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
      return code;
    }
  }
  return run(s, "PRAGMA synchronous=FULL", "open", err);
}

static void close_file(void *handle)
{
  sqlite_storage *s = handle;
  sqlite3_close(s->db);
  free(s->path);
  free(s);
}

static pd_code make_parent(const char *path, pd_error *err)
{
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return PD_OK;
  char *folder = strndup(path, (size_t)(slash - path));
  if (!folder) return pd_error_memory(err, "a path");
  pd_code code = pd_folders_make(folder, err);
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

static pd_code open_file(const char *argument, void **out, pd_error *err)
{
  if (!*argument) return pd_error_set(err, PD_INVALID, "the storage sqlite-snapshots: names no file");
  TRY(make_parent(argument, err));
  sqlite_storage *s = calloc(1, sizeof *s);
  if (s) s->path = strdup(argument);
  if (!s || !s->path) {
    free(s);
    return pd_error_memory(err, "a storage");
  }
  make_private(s->path);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  pd_code code = sqlite3_open_v2(s->path, &s->db, flags, NULL) == SQLITE_OK ? prepare_file(s, err) : refused(s, "open", err);
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

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  sqlite_storage *s = handle;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s, "SELECT epoch FROM agent_epochs WHERE agent_id=?", agent, &st, err));
  int rc = sqlite3_step(st);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) return refused(s, "read", err);
  *out = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
  return PD_OK;
}

static pd_code claim(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  sqlite_storage *s = handle;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(
    prepare(s, "INSERT INTO agent_epochs VALUES(?,1) ON CONFLICT(agent_id) DO UPDATE SET epoch=epoch+1 RETURNING epoch", agent, &st, err));
  if (sqlite3_step(st) != SQLITE_ROW) return refused(s, "write", err);
  *out = (uint64_t)sqlite3_column_int64(st, 0);
  return sqlite3_step(st) == SQLITE_DONE ? PD_OK : refused(s, "write", err); /* only now it is committed */
}

static pd_code save(void *handle, const char *agent, uint64_t epoch, pd_bytes snapshot, pd_error *err)
{
  sqlite_storage *s = handle;
  pd_snapshot facts;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  pd_snapshot_parts parts;
  TRY(pd_snapshot_split(snapshot, agent, &parts, &facts, err)); /* storage.c has checked it */
  TRY(prepare(s,
              "INSERT INTO agent_snapshots SELECT ?1,?2,?3,?4,?5 WHERE ?6=0 OR ?6=(SELECT epoch FROM agent_epochs WHERE agent_id=?1)"
              " ON CONFLICT(agent_id) DO UPDATE SET tick_index=excluded.tick_index,"
              " timestamp=excluded.timestamp, status=excluded.status, snapshot=excluded.snapshot",
              agent, &st, err));
  bool is_bound = sqlite3_bind_int64(st, 2, (int64_t)facts.tick_index) == SQLITE_OK &&
                  sqlite3_bind_int64(st, 3, facts.timestamp) == SQLITE_OK &&
                  sqlite3_bind_text(st, 4, facts.status, -1, SQLITE_STATIC) == SQLITE_OK &&
                  sqlite3_bind_text(st, 5, snapshot.data, (int)snapshot.size, SQLITE_STATIC) == SQLITE_OK &&
                  sqlite3_bind_int64(st, 6, (int64_t)epoch) == SQLITE_OK;
  if (!is_bound || sqlite3_step(st) != SQLITE_DONE) return refused(s, "write", err);
  if (sqlite3_changes(s->db)) return PD_OK;
  uint64_t now = 0;
  TRY(epoch_now(s, agent, &now, err));
  return pd_error_conflict(err, epoch, now, "epoch %llu holds the agent", (unsigned long long)now);
}

static pd_code load(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_error *err)
{
  sqlite_storage *s = handle;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
  TRY(prepare(s, "SELECT snapshot FROM agent_snapshots WHERE agent_id=?", agent, &st, err));
  int rc = sqlite3_step(st);
  if (rc == SQLITE_DONE) return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", agent, s->path);
  if (rc != SQLITE_ROW) return refused(s, "read", err);
  const void *data = sqlite3_column_blob(st, 0);
  return take(ctx, (pd_bytes){data, (size_t)sqlite3_column_bytes(st, 0)}, err);
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
  int removed = 0, raised;
  TRY(run(s, "BEGIN IMMEDIATE", "write", err));
  pd_code code = change_rows(s, "DELETE FROM agent_snapshots WHERE agent_id=?", agent, &removed, err);
  if (!code && removed) code = change_rows(s, "UPDATE agent_epochs SET epoch=epoch+1 WHERE agent_id=?", agent, &raised, err);
  if (!code) code = run(s, "COMMIT", "write", err);
  if (code) {
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return code;
  }
  return removed ? PD_OK : pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", agent, s->path);
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  sqlite_storage *s = handle;
  CLEANUP(statement_done) sqlite3_stmt *st = NULL;
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
  .save = save,
  .load = load,
  .remove = remove_row,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
};
