/*
 * side_sqlite.c: plain SQLite as its users write it: WAL, synchronous=FULL, prepared statements, automatic checkpoints and the
 * page cache as shipped. Two tables: the state (an upsert) and the history (an insert of the next version).
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "side.h"

typedef struct sql_plan {
  const char *schema;
  const char *put; /* ?1 key, ?2 value, ?3 time */
  const char *get; /* ?1 key */
} sql_plan;

static const sql_plan state_plan = {
  .schema = "CREATE TABLE IF NOT EXISTS state(state_key TEXT PRIMARY KEY, value, updated_at)",
  .put = "INSERT INTO state(state_key, value, updated_at) VALUES(?1, ?2, ?3) "
         "ON CONFLICT(state_key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
  .get = "SELECT value FROM state WHERE state_key = ?1",
};

static const sql_plan history_plan = {
  .schema = "CREATE TABLE IF NOT EXISTS history(key TEXT, version INTEGER, value, created_at, PRIMARY KEY(key, version))",
  .put = "INSERT INTO history(key, version, value, created_at) "
         "VALUES(?1, (SELECT coalesce(max(version), 0) + 1 FROM history WHERE key = ?1), ?2, ?3)",
  .get = "SELECT value FROM history WHERE key = ?1 ORDER BY version DESC LIMIT 1",
};

typedef struct sqlite_side {
  sqlite3 *db;
  sqlite3_stmt *put;
  sqlite3_stmt *get;
} sqlite_side;

static pd_code sqlite_error(sqlite_side *side, const char *doing, pd_error *err)
{
  return pd_error_set(err, PD_STORAGE, "SQLite, %s: %s", doing, side->db ? sqlite3_errmsg(side->db) : "out of memory");
}

static pd_code run_sql(sqlite_side *side, const char *sql, pd_error *err)
{
  return sqlite3_exec(side->db, sql, NULL, NULL, NULL) == SQLITE_OK ? PD_OK : sqlite_error(side, sql, err);
}

static pd_code sqlite_put(void *state, pd_bytes key, pd_bytes value, pd_error *err)
{
  sqlite_side *side = state;
  if (sqlite3_bind_text(side->put, 1, key.data, (int)key.size, SQLITE_STATIC) != SQLITE_OK ||
      sqlite3_bind_blob(side->put, 2, value.data, (int)value.size, SQLITE_STATIC) != SQLITE_OK ||
      sqlite3_bind_int64(side->put, 3, pd_clock_now_ms(NULL)) != SQLITE_OK)
    return sqlite_error(side, "bind", err);
  if (sqlite3_step(side->put) != SQLITE_DONE) return sqlite_error(side, "put", err);
  return sqlite3_reset(side->put) == SQLITE_OK ? PD_OK : sqlite_error(side, "put", err);
}

static pd_code sqlite_batch_begin(void *state, pd_error *err)
{
  return run_sql(state, "BEGIN", err);
}

static pd_code sqlite_batch_commit(void *state, pd_error *err)
{
  return run_sql(state, "COMMIT", err);
}

static pd_code sqlite_get(void *state, pd_bytes key, pd_bytes *out_value, pd_error *err)
{
  sqlite_side *side = state;
  sqlite3_reset(side->get); /* here and not after the read: the value is borrowed until now */
  if (sqlite3_bind_text(side->get, 1, key.data, (int)key.size, SQLITE_STATIC) != SQLITE_OK) return sqlite_error(side, "bind", err);
  if (sqlite3_step(side->get) != SQLITE_ROW) return sqlite_error(side, "get", err);
  out_value->data = sqlite3_column_blob(side->get, 0);
  out_value->size = (size_t)sqlite3_column_bytes(side->get, 0);
  return PD_OK;
}

static pd_code sqlite_flush(void *state, pd_error *err)
{
  (void)state; /* every commit is synced already */
  (void)err;
  return PD_OK;
}

static pd_code sqlite_close(void *state, pd_error *err)
{
  sqlite_side *side = state;
  sqlite3_finalize(side->put);
  sqlite3_finalize(side->get);
  pd_code code = sqlite3_close(side->db) == SQLITE_OK ? PD_OK : sqlite_error(side, "close", err);
  free(side);
  return code;
}

static const bench_side_ops sqlite_ops = {
  .name = "SQLite",
  .put = sqlite_put,
  .batch_begin = sqlite_batch_begin,
  .batch_put = sqlite_put,
  .batch_commit = sqlite_batch_commit,
  .get = sqlite_get,
  .flush = sqlite_flush,
  .close = sqlite_close,
};

/* To read only: what is there already is not asked for again. */
static pd_code prepare_get(sqlite_side *side, const sql_plan *plan, pd_error *err)
{
  int rc = sqlite3_prepare_v3(side->db, plan->get, -1, SQLITE_PREPARE_PERSISTENT, &side->get, NULL);
  return rc == SQLITE_OK ? PD_OK : sqlite_error(side, "prepare", err);
}

static pd_code prepare_all(sqlite_side *side, const sql_plan *plan, pd_error *err)
{
  TRY(run_sql(side, "PRAGMA journal_mode=WAL", err));
  TRY(run_sql(side, "PRAGMA synchronous=FULL", err));
  TRY(run_sql(side, plan->schema, err));
  int rc = sqlite3_prepare_v3(side->db, plan->put, -1, SQLITE_PREPARE_PERSISTENT, &side->put, NULL);
  return rc == SQLITE_OK ? prepare_get(side, plan, err) : sqlite_error(side, "prepare", err);
}

typedef pd_code (*prepare_fn)(sqlite_side *side, const sql_plan *plan, pd_error *err);

static pd_code open_with(const char *dir, const sql_plan *plan, prepare_fn prepare, bench_side *out, pd_error *err)
{
  char path[4096];
  if (snprintf(path, sizeof(path), "%s/state.db", dir) >= (int)sizeof(path))
    return pd_error_set(err, PD_LIMIT, "the path '%s' is too long", dir);
  sqlite_side *side = calloc(1, sizeof(*side));
  if (!side) return pd_error_memory(err, "a side");
  pd_code code = sqlite3_open(path, &side->db) == SQLITE_OK ? prepare(side, plan, err) : sqlite_error(side, path, err);
  if (code != PD_OK) {
    pd_code ignored = sqlite_close(side, NULL);
    (void)ignored;
    return code;
  }
  *out = (bench_side){&sqlite_ops, side};
  return PD_OK;
}

pd_code bench_sqlite_open(const char *dir, bench_side *out, pd_error *err)
{
  return open_with(dir, &state_plan, prepare_all, out, err);
}

pd_code bench_sqlite_history_open(const char *dir, bench_side *out, pd_error *err)
{
  return open_with(dir, &history_plan, prepare_all, out, err);
}

pd_code bench_sqlite_reopen(const char *dir, bench_side *out, pd_error *err)
{
  return open_with(dir, &state_plan, prepare_get, out, err);
}
