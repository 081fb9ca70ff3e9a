/*
 * row_put.c: rows 1 to 3: single puts: durable, durable from 16 threads, buffered.
 *
 * Every store holds all keys of the row before the first run, so that each put replaces a value; runs go on where the last ended.
 */
#include <pthread.h>
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define LOAD_BATCH_SIZE 1000
#define THREAD_COUNT 16
#define FLUSH_MS 100

typedef struct put_job {
  uint32_t key_count;
  uint32_t op_count;
  uint32_t version; /* of what is put: no run puts what is there already */
  uint64_t seed;
} put_job;

/* Seconds for `op_count` puts at random keys, and for the flush after them. */
static pd_code time_puts(bench_side *side, const put_job *job, double *out_seconds, pd_error *err)
{
  bench_key key;
  bench_value value;
  uint64_t random = job->seed;
  double start = bench_now();
  for (uint32_t i = 0; i < job->op_count; i++) {
    uint32_t index = bench_random_below(&random, job->key_count);
    bench_key_make(index, &key);
    bench_value_make(index, job->version + i, &value);
    TRY(side->ops->put(side->state, bench_key_bytes(&key), bench_value_bytes(&value), err));
  }
  TRY(side->ops->flush(side->state, err));
  *out_seconds = bench_now() - start;
  return PD_OK;
}

/* What the last run left must be there: each key's newest version, found by doing the job again without a store. */
static pd_code check_puts(bench_side *side, const put_job *job, pd_error *err)
{
  uint64_t random = job->seed;
  uint32_t last = 0;
  for (uint32_t i = 0; i < job->op_count; i++) {
    last = bench_random_below(&random, job->key_count);
    TRY(bench_side_get(side, last, err));
  }
  bench_key key;
  pd_bytes value;
  bench_key_make(last, &key);
  TRY(side->ops->get(side->state, bench_key_bytes(&key), &value, err));
  if (bench_value_is(value, last, job->version + job->op_count - 1)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%s: the last put to '%s' is not there", side->ops->name, key.text);
}

static pd_code load_for_puts(bench_side *side, uint32_t key_count, pd_error *err)
{
  uint32_t commit_count = key_count > LOAD_BATCH_SIZE ? key_count / LOAD_BATCH_SIZE : 1;
  return bench_load(side, key_count, commit_count, 1, err);
}

/* Ours and the peer in turn; the rates' medians. */
static pd_code compare_puts(bench *b, bench_side *ours, bench_side *peer, uint32_t op_count, double out_rates[2], pd_error *err)
{
  bench_side *sides[2] = {ours, peer};
  bench_series rates[2] = {{.count = 0}, {.count = 0}};
  put_job job = {.key_count = b->sizes.keys_mid, .op_count = op_count};
  for (int s = 0; s < 2; s++) TRY(load_for_puts(sides[s], job.key_count, err));
  for (uint32_t run = 0; run < b->run_count; run++) {
    job.version = 1 + run * op_count;
    job.seed = run;
    for (int s = 0; s < 2; s++) {
      double seconds = 0;
      TRY(time_puts(sides[s], &job, &seconds, err));
      bench_series_add(&rates[s], op_count / seconds);
    }
  }
  for (int s = 0; s < 2; s++) {
    TRY(check_puts(sides[s], &job, err));
    out_rates[s] = bench_series_median(&rates[s]);
  }
  return PD_OK;
}

static void describe_rates(bench_line *line, const double rates[2])
{
  bench_text_rate(rates[0], line->ours_text);
  bench_text_rate(rates[1], line->peer_text);
}

pd_code row_put(bench *b, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side ours = {0};
  CLEANUP(bench_side_done) bench_side sqlite = {0};
  char ours_dir[BENCH_PATH_SIZE], sqlite_dir[BENCH_PATH_SIZE], count[BENCH_TEXT_SIZE];
  double rates[2];
  TRY(bench_folder_new(b->dir, "row-ours", ours_dir, err));
  TRY(bench_folder_new(b->dir, "row-peer", sqlite_dir, err));
  TRY(bench_ours_open(ours_dir, NULL, &ours, err));
  TRY(bench_sqlite_open(sqlite_dir, &sqlite, err));
  TRY(compare_puts(b, &ours, &sqlite, b->sizes.put_ops, rates, err));
  bench_line line = {.peer = "SQLite WAL FULL, plain upsert"};
  snprintf(line.what, sizeof(line.what), "durable put, one thread, %s keys", bench_text_count(b->sizes.keys_mid, count));
  describe_rates(&line, rates);
  bench_judge(&line, rates[0] / rates[1], BENCH_AT_LEAST, 1.0);
  snprintf(line.note, sizeof(line.note), "%u puts a run and side at random keys that exist; checkpoints and keyframes included.",
           b->sizes.put_ops);
  TRY(bench_report(b, &line, err));
  TRY(bench_side_close(&sqlite, err));
  return bench_side_close(&ours, err);
}

/* ---- row 2 -------------------------------------------------------------------------------------------------------- */

typedef struct putter {
  pthread_t thread;
  bench_side *side;
  put_job job;
  pthread_barrier_t *barrier;
  pd_code code;
  pd_error error;
} putter;

/* Only puts: they do not touch what a side keeps for gets and batches, so threads may share the side. */
static void *run_putter(void *ctx)
{
  putter *p = ctx;
  double ignored;
  pthread_barrier_wait(p->barrier);
  p->code = time_puts(p->side, &p->job, &ignored, &p->error);
  return NULL;
}

/* A thread that cannot be started fails the row; those that wait for it end with the row's process. */
static pd_code time_threads(bench_side *side, const put_job *job, double *out_seconds, pd_error *err)
{
  static putter putters[THREAD_COUNT];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, THREAD_COUNT + 1);
  for (uint32_t i = 0; i < THREAD_COUNT; i++) {
    putters[i] = (putter){.side = side, .job = *job, .barrier = &barrier};
    putters[i].job.seed = job->seed * THREAD_COUNT + i;
    int rc = pthread_create(&putters[i].thread, NULL, run_putter, &putters[i]);
    if (rc != 0) return pd_error_set(err, PD_STORAGE, "cannot start thread %u: %s", i, strerror(rc));
  }
  pthread_barrier_wait(&barrier);
  double start = bench_now();
  for (uint32_t i = 0; i < THREAD_COUNT; i++) pthread_join(putters[i].thread, NULL);
  *out_seconds = bench_now() - start;
  pthread_barrier_destroy(&barrier);
  for (uint32_t i = 0; i < THREAD_COUNT; i++) {
    if (putters[i].code == PD_OK) continue;
    if (err) *err = putters[i].error;
    return putters[i].code;
  }
  return PD_OK;
}

static pd_code compare_threads(bench *b, bench_side *ours, double out_rates[2], pd_error *err)
{
  bench_series many = {.count = 0}, one = {.count = 0};
  put_job job = {.key_count = b->sizes.keys_mid};
  for (uint32_t run = 0; run < b->run_count; run++) {
    double seconds = 0;
    job.seed = run;
    job.version = 1 + run * 1000000;
    job.op_count = b->sizes.thread_ops;
    TRY(time_threads(ours, &job, &seconds, err));
    bench_series_add(&many, (double)job.op_count * THREAD_COUNT / seconds);
    job.version += 500000;
    job.op_count = b->sizes.put_ops / 4;
    TRY(time_puts(ours, &job, &seconds, err));
    bench_series_add(&one, job.op_count / seconds);
  }
  out_rates[0] = bench_series_median(&many);
  out_rates[1] = bench_series_median(&one);
  return check_puts(ours, &job, err);
}

pd_code row_threads(bench *b, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side ours = {0};
  char dir[BENCH_PATH_SIZE];
  double rates[2];
  pd_stats before, after;
  TRY(bench_folder_new(b->dir, "row-ours", dir, err));
  TRY(bench_ours_open(dir, NULL, &ours, err));
  TRY(load_for_puts(&ours, b->sizes.keys_mid, err));
  TRY(pd_store_stats(bench_ours_store(&ours), &before, err));
  TRY(compare_threads(b, &ours, rates, err));
  TRY(pd_store_stats(bench_ours_store(&ours), &after, err));
  bench_line line = {.what = "durable puts, 16 threads on one store", .peer = "our one thread"};
  describe_rates(&line, rates);
  bench_judge(&line, rates[0] / rates[1], BENCH_AT_LEAST, 6.0);
  snprintf(line.note, sizeof(line.note), "%u puts a thread and run; over both modes %llu commits took %llu syncs.", b->sizes.thread_ops,
           (unsigned long long)(after.commits - before.commits), (unsigned long long)(after.syncs - before.syncs));
  TRY(bench_report(b, &line, err));
  return bench_side_close(&ours, err);
}

/* ---- row 3 -------------------------------------------------------------------------------------------------------- */

pd_code row_buffered(bench *b, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side ours = {0};
  CLEANUP(bench_side_done) bench_side lmdb = {0};
  char ours_dir[BENCH_PATH_SIZE], lmdb_dir[BENCH_PATH_SIZE], count[BENCH_TEXT_SIZE];
  pd_options ours_options = {.flush_ms = FLUSH_MS};
  bench_lmdb_options lmdb_options = {.is_unsynced = true};
  double rates[2];
  TRY(bench_folder_new(b->dir, "row-ours", ours_dir, err));
  TRY(bench_folder_new(b->dir, "row-peer", lmdb_dir, err));
  TRY(bench_ours_open(ours_dir, &ours_options, &ours, err));
  TRY(bench_lmdb_open(lmdb_dir, &lmdb_options, &lmdb, err));
  TRY(compare_puts(b, &ours, &lmdb, b->sizes.buffered_ops, rates, err));
  bench_line line = {.peer = "LMDB NOSYNC, one transaction a put"};
  snprintf(line.what, sizeof(line.what), "buffered put, one thread, %s keys", bench_text_count(b->sizes.keys_mid, count));
  describe_rates(&line, rates);
  bench_judge(&line, rates[0] / rates[1], BENCH_AT_LEAST, 2.0);
  snprintf(line.note, sizeof(line.note),
           "%u puts a run and side, flush_ms %d; each run ends with a flush, ours and mdb_env_sync, inside the time.",
           b->sizes.buffered_ops, FLUSH_MS);
  TRY(bench_report(b, &line, err));
  TRY(bench_side_close(&lmdb, err));
  return bench_side_close(&ours, err);
}
