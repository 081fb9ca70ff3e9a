/*
 * side_lmdb.c: LMDB as its users write it: one transaction a put or a batch, one reused read transaction that is renewed every
 * `renew_count` gets (else a reader would not see what others commit). A get borrows from the map: nothing is copied.
 */
#include <lmdb.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/error.h"
#include "side.h"

#define MAP_SIZE ((size_t)8 << 30)

typedef struct lmdb_side {
  MDB_env *env;
  MDB_dbi dbi;
  MDB_txn *write;
  MDB_txn *read;
  MDB_cursor *cursor;
  uint32_t renew_count;
  uint32_t get_count; /* since the last renewal */
} lmdb_side;

static pd_code lmdb_check(int rc, const char *doing, pd_error *err)
{
  return rc == MDB_SUCCESS ? PD_OK : pd_error_set(err, PD_STORAGE, "LMDB, %s: %s", doing, mdb_strerror(rc));
}

static MDB_val to_val(pd_bytes bytes)
{
  MDB_val v = {bytes.size, (void *)(uintptr_t)bytes.data}; /* LMDB does not write to it */
  return v;
}

static pd_code lmdb_batch_begin(void *state, pd_error *err)
{
  lmdb_side *side = state;
  return lmdb_check(mdb_txn_begin(side->env, NULL, 0, &side->write), "begin", err);
}

static pd_code lmdb_batch_put(void *state, pd_bytes key, pd_bytes value, pd_error *err)
{
  lmdb_side *side = state;
  MDB_val k = to_val(key), v = to_val(value);
  return lmdb_check(mdb_put(side->write, side->dbi, &k, &v, 0), "put", err);
}

static pd_code lmdb_batch_commit(void *state, pd_error *err)
{
  lmdb_side *side = state;
  MDB_txn *txn = side->write;
  side->write = NULL; /* freed by the commit, also if that fails */
  return lmdb_check(mdb_txn_commit(txn), "commit", err);
}

static pd_code lmdb_put(void *state, pd_bytes key, pd_bytes value, pd_error *err)
{
  TRY(lmdb_batch_begin(state, err));
  TRY(lmdb_batch_put(state, key, value, err));
  return lmdb_batch_commit(state, err);
}

static pd_code renew_read(lmdb_side *side, pd_error *err)
{
  if (!side->read) return lmdb_check(mdb_txn_begin(side->env, NULL, MDB_RDONLY, &side->read), "begin a read", err);
  mdb_txn_reset(side->read);
  return lmdb_check(mdb_txn_renew(side->read), "renew a read", err);
}

static pd_code lmdb_get(void *state, pd_bytes key, pd_bytes *out_value, pd_error *err)
{
  lmdb_side *side = state;
  if (++side->get_count >= side->renew_count) {
    side->get_count = 0;
    TRY(renew_read(side, err));
  }
  MDB_val k = to_val(key), v;
  TRY(lmdb_check(mdb_get(side->read, side->dbi, &k, &v), "get", err));
  *out_value = (pd_bytes){v.mv_data, v.mv_size};
  return PD_OK;
}

static pd_code open_cursor(lmdb_side *side, pd_error *err)
{
  TRY(renew_read(side, err));
  if (side->cursor) return lmdb_check(mdb_cursor_renew(side->read, side->cursor), "renew a cursor", err);
  return lmdb_check(mdb_cursor_open(side->read, side->dbi, &side->cursor), "open a cursor", err);
}

static pd_code lmdb_scan(void *state, pd_bytes prefix, bench_scan_sum *out, pd_error *err)
{
  lmdb_side *side = state;
  bench_scan_sum sum = {0};
  MDB_val k = to_val(prefix), v;
  TRY(open_cursor(side, err));
  int rc = mdb_cursor_get(side->cursor, &k, &v, MDB_SET_RANGE);
  while (rc == MDB_SUCCESS && k.mv_size >= prefix.size && memcmp(k.mv_data, prefix.data, prefix.size) == 0) {
    sum.count++;
    sum.sum += bench_touch((pd_bytes){k.mv_data, k.mv_size}, (pd_bytes){v.mv_data, v.mv_size});
    rc = mdb_cursor_get(side->cursor, &k, &v, MDB_NEXT);
  }
  if (rc != MDB_NOTFOUND) TRY(lmdb_check(rc, "scan", err));
  *out = sum;
  return PD_OK;
}

static pd_code lmdb_flush(void *state, pd_error *err)
{
  lmdb_side *side = state;
  return lmdb_check(mdb_env_sync(side->env, 1), "sync", err);
}

static pd_code lmdb_close(void *state, pd_error *err)
{
  (void)err; /* mdb_env_close cannot fail */
  lmdb_side *side = state;
  if (side->cursor) mdb_cursor_close(side->cursor);
  if (side->read) mdb_txn_abort(side->read);
  if (side->write) mdb_txn_abort(side->write);
  mdb_env_close(side->env);
  free(side);
  return PD_OK;
}

static const bench_side_ops lmdb_ops = {
  .name = "LMDB",
  .put = lmdb_put,
  .batch_begin = lmdb_batch_begin,
  .batch_put = lmdb_batch_put,
  .batch_commit = lmdb_batch_commit,
  .get = lmdb_get,
  .scan = lmdb_scan,
  .flush = lmdb_flush,
  .close = lmdb_close,
};

static pd_code open_env(lmdb_side *side, const char *dir, bool is_unsynced, pd_error *err)
{
  TRY(lmdb_check(mdb_env_set_mapsize(side->env, MAP_SIZE), "set the map's size", err));
  TRY(lmdb_check(mdb_env_open(side->env, dir, is_unsynced ? MDB_NOSYNC : 0, 0600), dir, err));
  TRY(lmdb_batch_begin(side, err));
  TRY(lmdb_check(mdb_dbi_open(side->write, NULL, 0, &side->dbi), "open the table", err));
  return lmdb_batch_commit(side, err);
}

pd_code bench_lmdb_open(const char *dir, const bench_lmdb_options *options, bench_side *out, pd_error *err)
{
  lmdb_side *side = calloc(1, sizeof(*side));
  if (!side) return pd_error_memory(err, "a side");
  pd_code code = lmdb_check(mdb_env_create(&side->env), "create", err);
  if (code != PD_OK) {
    free(side);
    return code;
  }
  code = open_env(side, dir, options && options->is_unsynced, err);
  if (code != PD_OK) {
    pd_code ignored = lmdb_close(side, NULL);
    (void)ignored;
    return code;
  }
  *out = (bench_side){&lmdb_ops, side};
  bench_lmdb_renew_set(out, options ? options->renew_count : 0);
  return PD_OK;
}

void bench_lmdb_renew_set(bench_side *side, uint32_t renew_count)
{
  lmdb_side *lmdb = side->state;
  lmdb->renew_count = renew_count ? renew_count : 1;
  lmdb->get_count = lmdb->renew_count; /* the next get begins with a renewal */
}

pd_code bench_lmdb_used(bench_side *side, uint64_t *out_bytes, pd_error *err)
{
  lmdb_side *lmdb = side->state;
  MDB_envinfo info;
  MDB_stat stat;
  TRY(lmdb_check(mdb_env_info(lmdb->env, &info), "info", err));
  TRY(lmdb_check(mdb_env_stat(lmdb->env, &stat), "stat", err));
  *out_bytes = (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize;
  return PD_OK;
}
