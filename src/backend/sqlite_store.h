/*
 * sqlite_store.h: one open store of the sqlite backend; what its files share. src/backend/README.md tells the whole story.
 *
 * Locks, always taken in this order: write_lock, the lock file, read_lock. Readers take read_lock alone.
 */
#ifndef PD_BACKEND_SQLITE_STORE_H
#define PD_BACKEND_SQLITE_STORE_H

#include "backend/sqlite_conn.h"
#include "backend/sqlite_lock.h"

#include <perdure/backend.h>
#include <pthread.h>

typedef struct pd_sqlite {
  pd_backend base;
  unsigned flags;
  char *folder;
  char *path; /* FOLDER/STORE.db */
  char *vfs;  /* NULL: SQLite's default */
  char store[PD_NAME_SIZE_MAX + 1];
  bool must_look; /* a joint commit could not be settled at open (sqlite_joint.h); atomic */
  pd_lock_file lock;
  uint64_t tail; /* the last one known, atomic; what log_tail_hint falls back to */

  pthread_mutex_t read_lock;
  pd_sqlite_conn reader;

  pthread_mutex_t write_lock;
  pthread_cond_t unclaimed;
  bool is_claimed;       /* this handle keeps the right to append between its calls */
  pd_sqlite_conn writer; /* opened by the first write */
  bool is_sync_normal;   /* the writer's PRAGMA synchronous */
  pd_buf batch;          /* where several records become one row */
  int wal_frames;        /* after the writer's last commit */
  int checkpoint_at;     /* frames */
  uint64_t append_count;
  pd_sick sick; /* atomic: this handle saw a sync fail, or the sick word; it never writes again */
} pd_sqlite;

pd_code pd_sqlite_open(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err);
/* For a coordinator (sqlite_joint.h): sees and appends what others must not see yet, and publishes nothing. */
pd_code pd_sqlite_open_quiet(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err);
void pd_sqlite_close(pd_backend *b);
pd_code pd_sqlite_check(pd_backend *b, pd_check_visit visit, void *ctx, pd_error *err);
pd_code pd_sqlite_usage(pd_backend *b, pd_backend_usage *out, pd_error *err);
pd_code pd_sqlite_folder(const char *rest, char **out_folder, pd_error *err);
pd_code pd_sqlite_stores(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err);

pd_code pd_sqlite_log_claim(pd_backend *b, pd_error *err);
void pd_sqlite_log_release(pd_backend *b);
pd_code pd_sqlite_log_redact(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err);
pd_code pd_sqlite_log_swap(pd_backend *b, const pd_log_swap *swaps, size_t count, pd_error *err);
pd_code pd_sqlite_bag_mark(pd_backend *b, uint64_t *out_mark, pd_error *err);
pd_code pd_sqlite_bag_sweep(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                            pd_error *err);
pd_code pd_sqlite_compact(pd_backend *b, pd_error *err);
pd_code pd_sqlite_gc_lock(pd_backend *b, uint32_t shared_ms, void **out_lock, pd_error *err);

/* ---- sqlite_write.c ----------------------------------------------------------------------------------------------- */

/* Take write_lock and the lock file, waiting for who claims, and have a connection to write with. PD_READ_ONLY. */
PD_MUST_USE pd_code pd_sqlite_write_begin(pd_sqlite *s, pd_error *err);
/* Give the locks up with the outcome `code` of what was done under them. If a sync failed the store is sick, and the error says so. */
pd_code pd_sqlite_write_end(pd_sqlite *s, pd_code code, pd_error *err);
/* The rest under these locks. */
void pd_sqlite_roll_back(pd_sqlite *s);
/* PRAGMA synchronous, where it has to change. NORMAL: no fsync at commit, the next FULL one covers it (B7). */
PD_MUST_USE pd_code pd_sqlite_set_sync(pd_sqlite *s, bool is_normal, pd_error *err);
/* A failure is not the caller's: what was acknowledged is safe in the WAL, and it is tried again. But if a sync failed, the store is
 * sick. */
void pd_sqlite_checkpoint_if_due(pd_sqlite *s);
/* After each append: grows the WAL once, checkpoints when due. */
void pd_sqlite_note_append(pd_sqlite *s);

/* ---- sqlite_sick.c: a sync that failed ---------------------------------------------------------------------------- */

/* PD_STORAGE, with what failed and when, if the store is sick: of the handle's own doing, or by the lock file. Costs nanoseconds. */
PD_MUST_USE pd_code pd_sqlite_health(pd_backend *b, pd_error *err);
/* A sync failed: no process acknowledges a write of this store any more. Under the exclusive lock. */
void pd_sqlite_fall_sick(pd_sqlite *s, pd_sick what);
/* Whether a failed commit with the answer `rc` may have left whole frames in the WAL, which recovery would take in. */
bool pd_sqlite_may_reappear(int rc);
/* Make sure that no frame behind the WAL's end is taken in later, not even after a loss of power. False: that cannot be said. */
bool pd_sqlite_bury_frames(pd_sqlite *s);
/* Sync a folder: names in it. PD_OK for one that may be written but not read: the file system's own order has to do. */
PD_MUST_USE pd_code pd_sqlite_sync_folder(const char *folder, pd_error *err);
/* At open, before a connection is made, under the exclusive lock: if the store is sick and nobody else has it open, write what can be
 * read to new places, sync that, and let it be written again. A failure leaves it sick, and readable. */
void pd_sqlite_heal(pd_sqlite *s);
/* At close, under the exclusive lock: the last handle's checkpoint, with a look at its outcome. A sick store's files stay as they are. */
void pd_sqlite_leave(pd_sqlite *s);

/* ---- sqlite.c: rows of the log (S3) ------------------------------------------------------------------------------- */

#define PD_SQLITE_BLOB_SIZE_MAX 999000000 /* SQLite's own limit is 1e9 for a row */
#define PD_SQLITE_ROW_BYTES_MAX (64 << 10)

PD_MUST_USE pd_code pd_sqlite_put_varint(pd_buf *buf, uint64_t n, pd_error *err);
bool pd_sqlite_get_varint(const uint8_t **p, const uint8_t *end, uint64_t *out);
/* The next record of a row of `count`; the last one must end where the row does. False if the row is damaged. */
bool pd_sqlite_row_take(const uint8_t **p, const uint8_t *end, uint64_t count, bool is_last, pd_bytes *out);
/* The bytes are borrowed until the statement's bindings are cleared. */
void pd_sqlite_bind_bytes(sqlite3_stmt *statement, int at, pd_bytes bytes);
/* The number of the last record that this handle may see (J2). On the reader, under read_lock or before others have the handle. */
PD_MUST_USE pd_code pd_sqlite_visible_tail(pd_sqlite *s, uint64_t *out_tail, pd_error *err);
/* The last mark that bag_mark gave, 0 if none. On the writer. */
PD_MUST_USE pd_code pd_sqlite_last_mark(pd_sqlite *s, uint64_t *out_mark, pd_error *err);

/* DIR[?vfs=NAME] in its parts; `out_vfs` is NULL if none is named. Both are freed by the caller. */
PD_MUST_USE pd_code pd_sqlite_parse(const char *rest, char **out_folder, char **out_vfs, pd_error *err);
/* PD_CORRUPT if the log ends before what was acknowledged. */
PD_MUST_USE pd_code pd_sqlite_witness(const pd_sqlite *s, uint64_t tail, uint64_t acknowledged, pd_error *err);

#endif
