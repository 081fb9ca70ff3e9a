/* load.c: see load.h. */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"
#include "child.h"
#include "data.h"

static pd_code load_batch(bench_side *side, const uint32_t *indices, uint32_t count, pd_error *err)
{
  bench_key key;
  bench_value value;
  if (count > 1) TRY(side->ops->batch_begin(side->state, err));
  for (uint32_t i = 0; i < count; i++) {
    bench_key_make(indices[i], &key);
    bench_value_make(indices[i], 0, &value);
    pd_code (*put)(void *, pd_bytes, pd_bytes, pd_error *) = count > 1 ? side->ops->batch_put : side->ops->put;
    TRY(put(side->state, bench_key_bytes(&key), bench_value_bytes(&value), err));
  }
  return count > 1 ? side->ops->batch_commit(side->state, err) : PD_OK;
}

pd_code bench_load(bench_side *side, uint32_t key_count, uint32_t commit_count, uint64_t seed, pd_error *err)
{
  CLEANUP(bench_free) uint32_t *order = NULL;
  TRY(bench_shuffle_new(key_count, seed, &order, err));
  uint32_t batch_size = commit_count && commit_count < key_count ? (key_count + commit_count - 1) / commit_count : 1;
  for (uint32_t done = 0; done < key_count; done += batch_size) {
    uint32_t left = key_count - done;
    TRY(load_batch(side, order + done, left < batch_size ? left : batch_size, err));
  }
  return side->ops->flush(side->state, err);
}

#define FIXTURE_BATCH_SIZE 1000
#define SYNCED_COMMITS_MAX 20000 /* a store with more of them is written buffered: syncing each would take minutes */

typedef struct fixture {
  bench_fixture_kind kind;
  uint32_t key_count, commit_count;
  const char *path;
} fixture;

static pd_code open_fixture(const fixture *f, bench_side *out, pd_error *err)
{
  pd_options ours = {.flush_ms = f->commit_count > SYNCED_COMMITS_MAX ? 100 : 0, .cache_size_max = (size_t)1 << 30};
  bench_lmdb_options lmdb = {.is_unsynced = true};
  switch (f->kind) {
  case BENCH_FIXTURE_PERDURE: return bench_ours_open(f->path, &ours, out, err);
  case BENCH_FIXTURE_LMDB: return bench_lmdb_open(f->path, &lmdb, out, err);
  case BENCH_FIXTURE_SQLITE: return bench_sqlite_open(f->path, out, err);
  }
  return pd_error_set(err, PD_INVALID, "no fixture of kind %d", (int)f->kind);
}

static pd_code build_fixture(void *ctx, int out_fd, pd_error *err)
{
  (void)out_fd; /* a fixture reports no line */
  const fixture *f = ctx;
  CLEANUP(bench_side_done) bench_side side = {0};
  TRY(open_fixture(f, &side, err));
  TRY(bench_load(&side, f->key_count, f->commit_count, f->key_count, err));
  return bench_side_close(&side, err);
}

pd_code bench_fixture(bench *b, bench_fixture_kind kind, uint32_t key_count, uint32_t commit_count, char out_path[BENCH_PATH_SIZE],
                      pd_error *err)
{
  static const char *const names[] = {"perdure", "lmdb", "sqlite"};
  char name[96], made[BENCH_PATH_SIZE], fresh[BENCH_PATH_SIZE];
  if (commit_count == 0) commit_count = (key_count + FIXTURE_BATCH_SIZE - 1) / FIXTURE_BATCH_SIZE;
  snprintf(name, sizeof(name), "fixture-%s-%u-keys-%u-commits", names[kind], key_count, commit_count);
  TRY(bench_path(b->dir, name, made, err));
  if (access(made, F_OK) != 0) {
    double start = bench_now();
    TRY(bench_folder_new(b->dir, "fixture-unfinished", fresh, err));
    fixture f = {kind, key_count, commit_count, fresh};
    TRY(bench_child_run(build_fixture, &f, NULL, NULL, err));
    if (rename(fresh, made) != 0) return pd_error_set(err, PD_STORAGE, "rename '%s': %s", fresh, strerror(errno));
    bench_say("  loaded %s in %.1f s", name, bench_now() - start);
  }
  memcpy(out_path, made, BENCH_PATH_SIZE);
  return PD_OK;
}
