/*
 * row_merge.c: row 13: a merge of two branches costs what they changed, not what is stored.
 *
 * Each run forks two refs from main, changes as many keys on each in one commit (a tenth of them on both), and merges one into the
 * other; then a batch of as many keys as both changed is committed on the same store. The fixture's main ref stays as it is.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define CHANGE_COUNT 100
#define SHARED_COUNT (CHANGE_COUNT / 10)
#define BATCH_COUNT (2 * CHANGE_COUNT)

typedef struct branches {
  pd_store *store;
  uint32_t key_count;
  uint64_t stamp; /* makes names new in a folder that was kept from a run before */
  uint64_t random;
  uint32_t version;
} branches;

static uint32_t any_key(branches *b)
{
  return bench_random_below(&b->random, b->key_count);
}

static pd_code put_keys(branches *b, const char *ref, const uint32_t *keys, size_t count, double *out_seconds, pd_error *err)
{
  pd_note note = {.ref = ref};
  pd_edit *edit;
  uint32_t version = ++b->version;
  double start = bench_now();
  TRY(pd_edit_begin(b->store, &note, &edit, err));
  pd_code code = PD_OK;
  for (size_t i = 0; i < count && !code; i++) {
    bench_key key;
    bench_value value;
    bench_key_make(keys[i], &key);
    bench_value_make(keys[i], version, &value);
    code = pd_edit_put(edit, bench_key_bytes(&key), bench_value_bytes(&value), PD_ANY_VERSION, err);
  }
  if (!code) code = pd_edit_commit(edit, NULL, err);
  if (code) pd_edit_abort(edit);
  *out_seconds = bench_now() - start;
  return code;
}

static pd_code check_merged(branches *b, const char *ref, uint32_t index, uint32_t version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  bench_key key;
  bench_key_make(index, &key);
  TRY(pd_get(b->store, ref, bench_key_bytes(&key), &value, NULL, err));
  if (bench_value_is((pd_bytes){value.data, value.size}, index, version)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "key %u was not merged", index);
}

static pd_code merge_once(branches *b, uint32_t run, bench_series *merges, pd_error *err)
{
  char ours[PD_REF_SIZE_MAX], theirs[PD_REF_SIZE_MAX];
  uint32_t our_keys[CHANGE_COUNT], their_keys[CHANGE_COUNT];
  double seconds;
  snprintf(ours, sizeof(ours), "merge-%llu-%u-ours", (unsigned long long)b->stamp, run);
  snprintf(theirs, sizeof(theirs), "merge-%llu-%u-theirs", (unsigned long long)b->stamp, run);
  for (size_t i = 0; i < CHANGE_COUNT; i++) {
    our_keys[i] = any_key(b);
    their_keys[i] = i < SHARED_COUNT ? our_keys[i] : any_key(b);
  }
  TRY(pd_fork(b->store, ours, "main", NULL, NULL, err));
  TRY(pd_fork(b->store, theirs, "main", NULL, NULL, err));
  TRY(put_keys(b, ours, our_keys, CHANGE_COUNT, &seconds, err));
  TRY(put_keys(b, theirs, their_keys, CHANGE_COUNT, &seconds, err));
  pd_merge_options options = {.policy = PD_MERGE_THEIRS};
  pd_note note = {.ref = ours};
  double start = bench_now();
  TRY(pd_merge(b->store, theirs, &options, &note, NULL, err));
  bench_series_add(merges, bench_now() - start);
  for (size_t i = 0; i < CHANGE_COUNT; i++) TRY(check_merged(b, ours, their_keys[i], b->version, err));
  return PD_OK;
}

static pd_code batch_once(branches *b, const char *ref, bench_series *batches, pd_error *err)
{
  uint32_t keys[BATCH_COUNT];
  double seconds;
  for (size_t i = 0; i < BATCH_COUNT; i++) keys[i] = any_key(b);
  TRY(put_keys(b, ref, keys, BATCH_COUNT, &seconds, err));
  bench_series_add(batches, seconds);
  return PD_OK;
}

static pd_code take_turns(bench *b, branches *on, bench_series *merges, bench_series *batches, pd_error *err)
{
  char work[PD_REF_SIZE_MAX];
  snprintf(work, sizeof(work), "merge-%llu-work", (unsigned long long)on->stamp);
  TRY(pd_fork(on->store, work, "main", NULL, NULL, err));
  uint32_t count = bench_runs_at_most(b, BENCH_SERIES_COUNT_MAX / b->sizes.merge_ops) * b->sizes.merge_ops;
  for (uint32_t run = 0; run < count; run++) {
    TRY(merge_once(on, run, merges, err));
    TRY(batch_once(on, work, batches, err));
  }
  return PD_OK;
}

static pd_code report(bench *b, double merge, double batch, pd_error *err)
{
  char count[BENCH_TEXT_SIZE];
  bench_line line = {.ours_text = ""};
  snprintf(line.what, sizeof(line.what), "merge of two branches, %d changes each, over %s keys", CHANGE_COUNT,
           bench_text_count(b->sizes.keys_big, count));
  snprintf(line.peer, sizeof(line.peer), "our durable batch of %d keys", BATCH_COUNT);
  bench_text_seconds(merge, line.ours_text);
  bench_text_seconds(batch, line.peer_text);
  bench_judge(&line, merge / batch, BENCH_AT_MOST, 20.0);
  snprintf(line.note, sizeof(line.note), "Durable, both; %d keys were changed on both sides. Medians, taken in turns on one store.",
           SHARED_COUNT);
  return bench_report(b, &line, err);
}

pd_code row_merge(bench *b, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  static bench_series merges, batches;
  char dir[BENCH_PATH_SIZE];
  pd_stats stats;
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, b->sizes.keys_big, 0, dir, err));
  TRY(bench_ours_open(dir, NULL, &side, err));
  branches on = {.store = bench_ours_store(&side), .key_count = b->sizes.keys_big, .random = 13};
  TRY(pd_store_stats(on.store, &stats, err));
  on.stamp = stats.records;
  TRY(take_turns(b, &on, &merges, &batches, err));
  TRY(bench_side_close(&side, err));
  return report(b, bench_series_median(&merges), bench_series_median(&batches), err);
}
