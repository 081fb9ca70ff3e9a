/*
 * database.c: the shelf that is a table of a SQLite database, which others may use too: its journal mode and its other tables are left
 * alone. One transaction a batch. A row keeps its rowid when its value changes, so rows are in the order in which keys were first set.
 *
 * D1  Each row that perdure wrote has a checksum in the table perdure_sum_<table>, which other programs need not know. Triggers take it
 *     away when a row is changed or deleted, by whomever; perdure's own writes put it there again in the same transaction. So a
 *     checksum that does not fit, or that has no row, is damage. A row without one was written by others, and is taken as it is.
 */
#include "shelf/shelf.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define BUSY_MS 5000
#define SQL_SIZE 1024

typedef struct database_shelf {
  pd_shelf base;
  sqlite3 *db;
  sqlite3_stmt *put, *remove, *sum;
  char *path;
  char table[PD_STATESTORE_TABLE_SIZE_MAX + 8]; /* with core_ */
} database_shelf;

static pd_code failed(const database_shelf *s, int rc, pd_error *err)
{
  const char *what = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
  switch (rc & 0xFF) {
  case SQLITE_FULL: return pd_error_set(err, PD_FULL, "no space left to write %.300s", s->path);
  case SQLITE_READONLY: return pd_error_set(err, PD_READ_ONLY, "%.300s cannot be written: %.120s", s->path, what);
  case SQLITE_NOTADB: return pd_error_set(err, PD_FORMAT, "%.300s is no SQLite database", s->path);
  case SQLITE_CORRUPT: return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: %.120s", s->path, what);
  case SQLITE_NOMEM: return pd_error_memory(err, "a SQLite page or statement");
  default: return pd_error_set(err, PD_STORAGE, "%.300s, table %s: %.120s", s->path, s->table, what);
  }
}

static pd_code run(database_shelf *s, const char *sql, pd_error *err)
{
  int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
  return rc ? failed(s, rc, err) : PD_OK;
}

static pd_code prepare(database_shelf *s, const char *fmt, sqlite3_stmt **out, pd_error *err)
{
  char sql[SQL_SIZE];
  snprintf(sql, sizeof sql, fmt, s->table, s->table, s->table); /* the table's name has letters, digits and _ only */
  int rc = sqlite3_prepare_v2(s->db, sql, -1, out, NULL);
  return rc ? failed(s, rc, err) : PD_OK;
}

static void finish(sqlite3_stmt **statement)
{
  sqlite3_finalize(*statement);
}

/* ---- checksums (D1) ---- */

static const char *sum_text(pd_bytes key, pd_bytes value, char out[PD_ID_HEX_SIZE])
{
  pd_hash hash;
  uint8_t size[8];
  for (size_t i = 0; i < sizeof size; i++) size[i] = (uint8_t)(key.size >> (8 * i));
  pd_hash_init(&hash);
  pd_hash_add(&hash, size, sizeof size);
  pd_hash_add(&hash, key.data, key.size);
  pd_hash_add(&hash, value.data, value.size);
  pd_id id = pd_hash_end(&hash);
  return pd_id_hex(&id, out);
}

static pd_code check_row(database_shelf *s, pd_bytes key, pd_bytes value, const char *sum, pd_error *err)
{
  char expected[PD_ID_HEX_SIZE];
  if (!sum || strcmp(sum_text(key, value, expected), sum) == 0) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: table %s, the value of key '%.*s' does not match its checksum", s->path,
                      s->table, (int)(key.size < 100 ? key.size : 100), (const char *)key.data);
}

/* Rows that perdure wrote and nobody deleted are there: as many as there are checksums. */
static pd_code check_all_there(database_shelf *s, int64_t found, pd_error *err)
{
  CLEANUP(finish) sqlite3_stmt *sums = NULL;
  TRY(prepare(s, "SELECT count(*) FROM perdure_sum_%s", &sums, err));
  int rc = sqlite3_step(sums);
  if (rc != SQLITE_ROW) return failed(s, rc, err);
  long long lost = sqlite3_column_int64(sums, 0) - found;
  if (!lost) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: table %s has lost %lld keys", s->path, s->table, lost);
}

static pd_code load_row(database_shelf *s, sqlite3_stmt *row, pd_shelf_visit visit, void *ctx, pd_error *err)
{
  pd_error why;
  const char *key = (const char *)sqlite3_column_text(row, 0), *value = (const char *)sqlite3_column_text(row, 1);
  int key_size = sqlite3_column_bytes(row, 0), value_size = sqlite3_column_bytes(row, 1);
  if (!key || !value) {
    pd_shelf_warn(&s->base.warner, PD_CORRUPT, "%s, table %s: a row has no key or no value; it is left alone", s->path, s->table);
    return PD_OK;
  }
  TRY(
    check_row(s, (pd_bytes){key, (size_t)key_size}, (pd_bytes){value, (size_t)value_size}, (const char *)sqlite3_column_text(row, 2), err));
  pd_code code = visit(ctx, (pd_bytes){key, (size_t)key_size}, (pd_bytes){value, (size_t)value_size}, &why);
  if (code == PD_INVALID || code == PD_LIMIT) {
    pd_shelf_warn(&s->base.warner, PD_CORRUPT, "%s, table %s: the value of key '%.100s' cannot be used and is left alone: %s", s->path,
                  s->table, key, why.message);
    return PD_OK;
  }
  return code ? pd_error_set(err, code, "%s", why.message) : PD_OK;
}

static pd_code load_table(pd_shelf *shelf, pd_shelf_visit visit, void *ctx, pd_error *err)
{
  database_shelf *s = (database_shelf *)shelf;
  CLEANUP(finish) sqlite3_stmt *rows = NULL;
  int64_t found = 0;
  TRY(prepare(s, "SELECT t.state_key, t.value, c.sum FROM %s t LEFT JOIN perdure_sum_%s c ON c.state_key = t.state_key ORDER BY t.rowid",
              &rows, err));
  int rc;
  while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
    found += sqlite3_column_type(rows, 2) != SQLITE_NULL;
    TRY(load_row(s, rows, visit, ctx, err));
  }
  return rc == SQLITE_DONE ? check_all_there(s, found, err) : failed(s, rc, err);
}

/* `value` is NULL for a delete. */
static pd_code run_for(database_shelf *s, sqlite3_stmt *statement, pd_bytes key, const pd_bytes *value, pd_error *err)
{
  int rc = sqlite3_bind_text64(statement, 1, key.size ? key.data : "", key.size, SQLITE_STATIC, SQLITE_UTF8);
  if (!rc && value) rc = sqlite3_bind_text64(statement, 2, value->data, value->size, SQLITE_STATIC, SQLITE_UTF8);
  if (!rc) rc = sqlite3_step(statement);
  pd_code code = rc == SQLITE_DONE ? PD_OK : failed(s, rc, err);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return code;
}

static pd_code write_rows(database_shelf *s, const pd_shelf_batch *batch, pd_error *err)
{
  for (size_t i = 0; i < batch->delete_count; i++) TRY(run_for(s, s->remove, batch->deletes[i], NULL, err));
  for (size_t i = 0; i < batch->put_count; i++) {
    char hex[PD_ID_HEX_SIZE];
    pd_bytes sum = pd_text(sum_text(batch->puts[i].key, batch->puts[i].value, hex));
    TRY(run_for(s, s->put, batch->puts[i].key, &batch->puts[i].value, err));
    TRY(run_for(s, s->sum, batch->puts[i].key, &sum, err));
  }
  return run(s, "COMMIT", err);
}

static pd_code write_table(pd_shelf *shelf, const pd_shelf_batch *batch, pd_error *err)
{
  database_shelf *s = (database_shelf *)shelf;
  TRY(run(s, "BEGIN IMMEDIATE", err));
  pd_code code = write_rows(s, batch, err);
  if (code && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
  return code;
}

static void close_table(pd_shelf *shelf)
{
  database_shelf *s = (database_shelf *)shelf;
  sqlite3_finalize(s->put);
  sqlite3_finalize(s->remove);
  sqlite3_finalize(s->sum);
  sqlite3_close(s->db);
  free(s->path);
  free(s);
}

/* The table of checksums, and what keeps it true whoever writes. */
static pd_code open_sums(database_shelf *s, pd_error *err)
{
  char sql[2 * SQL_SIZE];
  const char *t = s->table;
  snprintf(sql, sizeof sql,
           "CREATE TABLE IF NOT EXISTS perdure_sum_%s (state_key TEXT PRIMARY KEY, sum TEXT NOT NULL) WITHOUT ROWID;"
           "CREATE TRIGGER IF NOT EXISTS perdure_sum_%s_put AFTER INSERT ON %s BEGIN "
           "DELETE FROM perdure_sum_%s WHERE state_key = NEW.state_key; END;"
           "CREATE TRIGGER IF NOT EXISTS perdure_sum_%s_set AFTER UPDATE OF state_key, value ON %s BEGIN "
           "DELETE FROM perdure_sum_%s WHERE state_key IN (OLD.state_key, NEW.state_key); END;"
           "CREATE TRIGGER IF NOT EXISTS perdure_sum_%s_delete AFTER DELETE ON %s BEGIN "
           "DELETE FROM perdure_sum_%s WHERE state_key = OLD.state_key; END;",
           t, t, t, t, t, t, t, t, t, t);
  TRY(run(s, sql, err));
  return prepare(s, "INSERT OR REPLACE INTO perdure_sum_%s (state_key, sum) VALUES (?1, ?2)", &s->sum, err);
}

/* SQLite would make the file as the umask says: the state is for its owner alone. */
static void make_private(const char *path)
{
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  pd_fd_done(&fd); /* if it was there already, or cannot be made, SQLite says so */
}

static pd_code open_table(database_shelf *s, pd_error *err)
{
  char sql[SQL_SIZE];
  TRY(pd_shelf_folders(s->path, err));
  make_private(s->path);
  int rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  if (rc) return failed(s, rc, err);
  sqlite3_busy_timeout(s->db, BUSY_MS);
  TRY(run(s, "PRAGMA synchronous=FULL", err));
  snprintf(sql, sizeof sql,
           "CREATE TABLE IF NOT EXISTS %s (state_key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT DEFAULT CURRENT_TIMESTAMP)",
           s->table);
  TRY(run(s, sql, err));
  TRY(open_sums(s, err));
  TRY(prepare(s,
              "INSERT INTO %s (state_key, value, updated_at) VALUES (?1, ?2, CURRENT_TIMESTAMP) "
              "ON CONFLICT (state_key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
              &s->put, err));
  return prepare(s, "DELETE FROM %s WHERE state_key = ?1", &s->remove, err);
}

pd_code pd_shelf_database_open(const char *path, const char *table, pd_shelf_warner warner, pd_shelf **out, pd_error *err)
{
  static const pd_shelf_ops ops = {.load = load_table, .write = write_table, .close = close_table};
  database_shelf *s = calloc(1, sizeof *s);
  if (!s) return pd_error_memory(err, "a database's handle");
  s->base = (pd_shelf){&ops, warner};
  s->path = strdup(path);
  snprintf(s->table, sizeof s->table, "core_%s", table);
  pd_code code = s->path ? open_table(s, err) : pd_error_memory(err, "a path");
  if (code)
    close_table(&s->base);
  else
    *out = &s->base;
  return code;
}
