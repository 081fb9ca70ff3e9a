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
} pd_sqlite;

pd_code pd_sqlite_open(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err);
void pd_sqlite_close(pd_backend *b);
pd_code pd_sqlite_check(pd_backend *b, pd_check_visit visit, void *ctx, pd_error *err);
pd_code pd_sqlite_usage(pd_backend *b, pd_backend_usage *out, pd_error *err);
pd_code pd_sqlite_stores(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err);

/* DIR[?vfs=NAME] in its parts; `out_vfs` is NULL if none is named. Both are freed by the caller. */
PD_MUST_USE pd_code pd_sqlite_parse(const char *rest, char **out_folder, char **out_vfs, pd_error *err);
/* PD_CORRUPT if the log ends before what was acknowledged. */
PD_MUST_USE pd_code pd_sqlite_witness(const pd_sqlite *s, uint64_t tail, uint64_t acknowledged, pd_error *err);

#endif
