/*
 * sqlite_conn.h: one SQLite connection with its prepared statements, errors in perdure's shape, and a look at a file's header.
 * A connection belongs to who holds its owner's lock: it is opened with SQLITE_OPEN_NOMUTEX.
 */
#ifndef PD_BACKEND_SQLITE_CONN_H
#define PD_BACKEND_SQLITE_CONN_H

#include <perdure/perdure.h>
#include <sqlite3.h>

#define PD_SQLITE_APPLICATION_ID 0x50444255 /* "PDBU" */
#define PD_SQLITE_FORMAT 1
#define PD_SQLITE_BUSY_TIMEOUT_MS 120000

typedef enum pd_sqlite_statement {
  PD_SQL_TAIL,
  PD_SQL_LOG_READ,
  PD_SQL_LOG_APPEND,
  PD_SQL_BAG_FIND,
  PD_SQL_BAG_GET,
  PD_SQL_BAG_PUT,
  PD_SQL_BAG_LAST,
  PD_SQL_BAG_TOUCH,
  PD_SQL_BAG_PAGE,
  PD_SQL_BAG_DELETE,
  PD_SQL_BAG_FORGET,
  PD_SQL_MARK,
  PD_SQL_SCRUB,
  PD_SQL_ROW_AT,
  PD_SQL_ROW_DELETE,
  PD_SQL_BEGIN,
  PD_SQL_COMMIT,
  PD_SQL_SYNC_FULL,
  PD_SQL_SYNC_NORMAL,
  PD_SQL_COUNT
} pd_sqlite_statement;

typedef struct pd_sqlite_conn {
  sqlite3 *db; /* NULL: not open */
  const char *path;
  sqlite3_stmt *statements[PD_SQL_COUNT]; /* prepared when first used */
  bool has_failed_sync;                   /* a call answered that a sync failed; set by pd_sqlite_conn_error */
} pd_sqlite_conn;

typedef enum pd_sqlite_mode {
  PD_SQLITE_WRITE,    /* reads and writes */
  PD_SQLITE_READ,     /* reads, but may take part in recovery */
  PD_SQLITE_READ_ONLY /* never changes a file; falls back to immutable=1 if the medium leaves nothing else */
} pd_sqlite_mode;

/* `path` and `vfs` (NULL: the default) are borrowed until close. The file must exist. */
PD_MUST_USE pd_code pd_sqlite_conn_open(pd_sqlite_conn *conn, const char *path, const char *vfs, pd_sqlite_mode mode, pd_error *err);
void pd_sqlite_conn_close(pd_sqlite_conn *conn);

/* The statement, reset; NULL with `err` set if it cannot be prepared (the code is then in `out_code`). */
PD_MUST_USE pd_code pd_sqlite_conn_use(pd_sqlite_conn *conn, pd_sqlite_statement which, sqlite3_stmt **out, pd_error *err);
/* Step a statement that gives no rows, and reset it. */
PD_MUST_USE pd_code pd_sqlite_conn_run(pd_sqlite_conn *conn, pd_sqlite_statement which, pd_error *err);
PD_MUST_USE pd_code pd_sqlite_conn_exec(pd_sqlite_conn *conn, const char *sql, pd_error *err);
/* A statement that gives one number; 0 if it gives none. */
PD_MUST_USE pd_code pd_sqlite_conn_number(pd_sqlite_conn *conn, pd_sqlite_statement which, uint64_t *out, pd_error *err);
/* The number of the log's last record, 0 if there is none. */
PD_MUST_USE pd_code pd_sqlite_conn_tail(pd_sqlite_conn *conn, uint64_t *out_tail, pd_error *err);

/* The failure `rc` of a call on the connection, as pd_sqlite_error; remembers a sync that failed. */
pd_code pd_sqlite_conn_error(pd_sqlite_conn *conn, int rc, pd_error *err);
/* SQLite's code for a sync that failed, of a file or a folder. */
bool pd_sqlite_is_sync_failure(int rc);
/* The failure `rc` of a call on `db` (NULL: of the library), in perdure's words; names `path`. */
pd_code pd_sqlite_error(sqlite3 *db, int rc, const char *path, pd_error *err);

/* What a file is, without a connection to it: *out_is_there is false for no file and for an empty one. PD_FORMAT for a file
 * that is no perdure store or a newer one. Changes nothing. */
PD_MUST_USE pd_code pd_sqlite_probe(const char *path, const char *vfs, bool *out_is_there, pd_error *err);

#endif
