/*
 * side.h: one shape for what is measured side by side: perdure, SQLite and LMDB, each holding the same keys and values.
 *
 * A side belongs to one thread. Zero-initialise; bench_side_done closes what is open, bench_side_close reports how it went.
 */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include <perdure/perdure.h>

/* What a scan touched: keys counted, and bytes of each key and value added up, so that no side can skip reading them. */
typedef struct bench_scan_sum {
  uint64_t count;
  uint64_t sum;
} bench_scan_sum;

typedef struct bench_side_ops {
  const char *name;
  /* One write, committed on its own in the way the side was opened for. */
  pd_code (*put)(void *state, pd_bytes key, pd_bytes value, pd_error *err);
  pd_code (*batch_begin)(void *state, pd_error *err);
  pd_code (*batch_put)(void *state, pd_bytes key, pd_bytes value, pd_error *err);
  pd_code (*batch_commit)(void *state, pd_error *err);
  /* `out_value` is borrowed until the next call on the side. */
  pd_code (*get)(void *state, pd_bytes key, pd_bytes *out_value, pd_error *err);
  /* NULL if the side is in no scan row. */
  pd_code (*scan)(void *state, pd_bytes prefix, bench_scan_sum *out, pd_error *err);
  pd_code (*flush)(void *state, pd_error *err);
  pd_code (*close)(void *state, pd_error *err);
} bench_side_ops;

typedef struct bench_side {
  const bench_side_ops *ops;
  void *state;
} bench_side;

/* Takes a side that is closed already. */
PD_MUST_USE pd_code bench_side_close(bench_side *side, pd_error *err);
void bench_side_done(bench_side *side);

/* Read key `index` and check that the value belongs to it; PD_CORRUPT else. */
PD_MUST_USE pd_code bench_side_get(bench_side *side, uint32_t index, pd_error *err);

/* perdure in folder `dir`. */
PD_MUST_USE pd_code bench_ours_open(const char *dir, const pd_options *options, bench_side *out, pd_error *err);
pd_store *bench_ours_store(const bench_side *side);

/* SQLite: WAL, synchronous=FULL, everything else as SQLite ships it, table state(state_key TEXT PRIMARY KEY, value, updated_at). */
PD_MUST_USE pd_code bench_sqlite_open(const char *dir, bench_side *out, pd_error *err);
/* A table that is there, to get from it and for nothing else: the least that SQLite has to do. */
PD_MUST_USE pd_code bench_sqlite_reopen(const char *dir, bench_side *out, pd_error *err);
/* The same as the first with table history(key, version, value, created_at, PRIMARY KEY (key, version)); a put adds a version. */
PD_MUST_USE pd_code bench_sqlite_history_open(const char *dir, bench_side *out, pd_error *err);

typedef struct bench_lmdb_options {
  bool is_unsynced;     /* MDB_NOSYNC: the system writes when it likes; flush syncs */
  uint32_t renew_count; /* gets between two renewals of the read transaction; 0: 1 */
} bench_lmdb_options;

PD_MUST_USE pd_code bench_lmdb_open(const char *dir, const bench_lmdb_options *options, bench_side *out, pd_error *err);
void bench_lmdb_renew_set(bench_side *side, uint32_t renew_count);
/* Bytes of the map that hold pages. */
PD_MUST_USE pd_code bench_lmdb_used(bench_side *side, uint64_t *out_bytes, pd_error *err);

static inline uint64_t bench_touch(pd_bytes key, pd_bytes value)
{
  uint64_t word = 0;
  memcpy(&word, value.data, value.size < sizeof(word) ? value.size : sizeof(word));
  return word + ((const uint8_t *)key.data)[key.size - 1];
}

#endif
