/*
 * row_gc.c: row 15: how much of the disk gc gives back that retires nine versions of ten.
 *
 * A commit is a version: the first create the keys, the others replace random ones. Bytes are the files of the closed store, before and
 * after. What is left holds everything that was kept: each key at the head, and a value at the oldest kept commit.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define KEYS_SHARE 100 /* versions to a key */
#define KEPT_SHARE 10  /* one version in so many is kept */
#define FLUSH_MS 100   /* buffered: what a version costs to put is row 3's */

static pd_code put_versions(const char *dir, uint32_t versions, uint32_t key_count, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  uint64_t random = 15;
  TRY(bench_ours_open(dir, &(pd_options){.flush_ms = FLUSH_MS}, &side, err));
  for (uint32_t version = 0; version < versions; version++) {
    bench_key key;
    bench_value value;
    uint32_t index = version < key_count ? version : bench_random_below(&random, key_count);
    bench_key_make(index, &key);
    bench_value_make(index, version, &value);
    TRY(side.ops->put(side.state, bench_key_bytes(&key), bench_value_bytes(&value), err));
  }
  return bench_side_close(&side, err);
}

static pd_code check_kept(bench_side *side, uint32_t key_count, uint32_t kept, pd_error *err)
{
  pd_store *store = bench_ours_store(side);
  char at[32];
  for (uint32_t i = 0; i < key_count; i++) TRY(bench_side_get(side, i, err));
  snprintf(at, sizeof(at), "main~%u", kept - 1);
  bool has;
  bench_key key;
  bench_key_make(0, &key);
  TRY(pd_has(store, at, bench_key_bytes(&key), &has, err));
  if (!has) return pd_error_set(err, PD_CORRUPT, "gc lost key '%s' at %s, which it was to keep", key.text, at);
  snprintf(at, sizeof(at), "main~%u", kept * 2);
  if (pd_has(store, at, bench_key_bytes(&key), &has, NULL) == PD_RETIRED) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "gc did not retire %s", at);
}

static pd_code collect(const char *dir, uint32_t kept, uint32_t key_count, pd_gc_report *out, double *out_seconds, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  TRY(bench_ours_open(dir, NULL, &side, err));
  double begin = bench_now();
  TRY(pd_gc(bench_ours_store(&side), &(pd_gc_policy){.keep_last = kept}, out, err));
  *out_seconds = bench_now() - begin;
  TRY(check_kept(&side, key_count, kept, err));
  return bench_side_close(&side, err);
}

pd_code row_gc(bench *b, pd_error *err)
{
  uint32_t versions = b->sizes.gc_versions, keys = versions / KEYS_SHARE, kept = versions / KEPT_SHARE;
  char dir[BENCH_PATH_SIZE], text[3][BENCH_TEXT_SIZE];
  pd_gc_report report;
  uint64_t before, after;
  double seconds;
  TRY(bench_folder_new(b->dir, "row-gc", dir, err));
  TRY(put_versions(dir, versions, keys, err));
  TRY(bench_folder_size(dir, &before, err));
  TRY(collect(dir, kept, keys, &report, &seconds, err));
  TRY(bench_folder_size(dir, &after, err));
  bench_line line = {.peer = "bytes on disk before"};
  snprintf(line.what, sizeof(line.what), "bytes that gc of %s of %s versions returns, %s keys", bench_text_count(versions - kept, text[0]),
           bench_text_count(versions, text[1]), bench_text_count(keys, text[2]));
  bench_text_bytes((double)before - (double)after, line.ours_text);
  bench_text_bytes((double)before, line.peer_text);
  bench_judge(&line, 1 - (double)after / (double)before, BENCH_AT_LEAST, 0.8);
  snprintf(line.note, sizeof(line.note), "File sizes of the closed store; %llu of %llu commits retired in %s. Measured once.",
           (unsigned long long)report.retired, (unsigned long long)report.commits, bench_text_seconds(seconds, text[0]));
  TRY(bench_folder_remove(dir, err)); /* a gigabyte */
  return bench_report(b, &line, err);
}
