/*
 * row_get.c: rows 5 and 6: random gets at the head, and scans of a prefix.
 *
 * Both sides are warmed up by one pass over all keys. LMDB's read transaction is renewed at each get, because ours sees at each get
 * what others have committed; the rate with a renewal every 100 gets is in the note. LMDB hands out a pointer into its map, ours
 * copies the value into a reused buffer; both are checked by the same 12 bytes.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define CACHE_SIZE ((size_t)1 << 30) /* the whole set fits, as it does in LMDB's map */
#define RENEW_RARELY 100

typedef struct pair {
  bench_side ours, lmdb;
} pair;

static void pair_done(pair *p)
{
  bench_side_done(&p->ours);
  bench_side_done(&p->lmdb);
}

static pd_code warm_up(bench_side *side, uint32_t key_count, pd_error *err)
{
  for (uint32_t i = 0; i < key_count; i++) TRY(bench_side_get(side, i, err));
  return PD_OK;
}

static pd_code pair_open(bench *b, uint32_t key_count, pair *out, pd_error *err)
{
  char ours_dir[BENCH_PATH_SIZE], lmdb_dir[BENCH_PATH_SIZE];
  pd_options options = {.cache_size_max = CACHE_SIZE};
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, key_count, 0, ours_dir, err));
  TRY(bench_fixture(b, BENCH_FIXTURE_LMDB, key_count, 0, lmdb_dir, err));
  TRY(bench_ours_open(ours_dir, &options, &out->ours, err));
  TRY(bench_lmdb_open(lmdb_dir, NULL, &out->lmdb, err));
  TRY(warm_up(&out->ours, key_count, err));
  return warm_up(&out->lmdb, key_count, err);
}

static pd_code pair_close(pair *p, pd_error *err)
{
  TRY(bench_side_close(&p->ours, err));
  return bench_side_close(&p->lmdb, err);
}

static pd_code time_gets(bench_side *side, uint32_t key_count, uint32_t op_count, uint64_t seed, double *out_rate, pd_error *err)
{
  double start = bench_now();
  for (uint32_t i = 0; i < op_count; i++) TRY(bench_side_get(side, bench_random_below(&seed, key_count), err));
  *out_rate = op_count / (bench_now() - start);
  return PD_OK;
}

typedef struct get_rates {
  bench_series ours, lmdb, lmdb_rarely;
} get_rates;

static pd_code compare_gets(bench *b, pair *p, uint32_t key_count, get_rates *out, pd_error *err)
{
  for (uint32_t run = 0; run < b->run_count; run++) {
    double rate = 0;
    TRY(time_gets(&p->ours, key_count, b->sizes.get_ops, run, &rate, err));
    bench_series_add(&out->ours, rate);
    bench_lmdb_renew_set(&p->lmdb, 1);
    TRY(time_gets(&p->lmdb, key_count, b->sizes.get_ops, run, &rate, err));
    bench_series_add(&out->lmdb, rate);
    bench_lmdb_renew_set(&p->lmdb, RENEW_RARELY);
    TRY(time_gets(&p->lmdb, key_count, b->sizes.get_ops, run, &rate, err));
    bench_series_add(&out->lmdb_rarely, rate);
  }
  return PD_OK;
}

/* How much memory each side holds for the set. */
static pd_code note_memory(pair *p, double lmdb_rarely, bench_line *line, pd_error *err)
{
  pd_stats stats;
  uint64_t map_bytes;
  char rate[BENCH_TEXT_SIZE], cache[BENCH_TEXT_SIZE], map[BENCH_TEXT_SIZE];
  TRY(pd_store_stats(bench_ours_store(&p->ours), &stats, err));
  TRY(bench_lmdb_used(&p->lmdb, &map_bytes, err));
  snprintf(line->note, sizeof(line->note), "LMDB renewed at each get; every 100 gets: %s. Memory: our cache %s, LMDB's map %s.",
           bench_text_rate(lmdb_rarely, rate), bench_text_bytes((double)stats.cache_bytes, cache),
           bench_text_bytes((double)map_bytes, map));
  return PD_OK;
}

static pd_code get_at(bench *b, uint32_t key_count, pd_error *err)
{
  CLEANUP(pair_done) pair p = {0};
  char count[BENCH_TEXT_SIZE];
  get_rates rates = {0};
  TRY(pair_open(b, key_count, &p, err));
  TRY(compare_gets(b, &p, key_count, &rates, err));
  bench_line line = {.peer = "LMDB"};
  double ours = bench_series_median(&rates.ours), lmdb = bench_series_median(&rates.lmdb);
  snprintf(line.what, sizeof(line.what), "random get at head, %s keys", bench_text_count(key_count, count));
  bench_text_rate(ours, line.ours_text);
  bench_text_rate(lmdb, line.peer_text);
  bench_judge(&line, ours / lmdb, BENCH_AT_LEAST, 1.0);
  TRY(note_memory(&p, bench_series_median(&rates.lmdb_rarely), &line, err));
  TRY(bench_report(b, &line, err));
  return pair_close(&p, err);
}

pd_code row_get(bench *b, pd_error *err)
{
  TRY(get_at(b, b->sizes.keys_small, err));
  TRY(get_at(b, b->sizes.keys_mid, err));
  return get_at(b, b->sizes.keys_big, err);
}

/* ---- row 6 -------------------------------------------------------------------------------------------------------- */

/* What a scan of a prefix must add up to. */
static bench_scan_sum expected_sum(uint32_t first)
{
  bench_scan_sum sum = {.count = BENCH_PREFIX_COUNT};
  for (uint32_t i = first; i < first + BENCH_PREFIX_COUNT; i++) {
    bench_key key;
    bench_value value;
    bench_key_make(i, &key);
    bench_value_make(i, 0, &value);
    sum.sum += bench_touch(bench_key_bytes(&key), bench_value_bytes(&value));
  }
  return sum;
}

static pd_code scan_once(bench_side *side, uint32_t first, bench_scan_sum *out, pd_error *err)
{
  bench_key key;
  bench_key_make(first, &key);
  return side->ops->scan(side->state, (pd_bytes){key.text, BENCH_PREFIX_SIZE}, out, err);
}

static pd_code check_scans(bench_side *side, uint32_t key_count, pd_error *err)
{
  for (uint32_t first = 0; first + BENCH_PREFIX_COUNT <= key_count; first += BENCH_PREFIX_COUNT) {
    bench_scan_sum expected = expected_sum(first), sum;
    TRY(scan_once(side, first, &sum, err));
    if (sum.count != expected.count || sum.sum != expected.sum)
      return pd_error_set(err, PD_CORRUPT, "%s: the scan from key %u found %llu keys or other values", side->ops->name, first,
                          (unsigned long long)sum.count);
  }
  return PD_OK;
}

static pd_code time_scans(bench_side *side, uint32_t key_count, uint32_t op_count, uint64_t seed, double *out_seconds, pd_error *err)
{
  uint64_t keys = 0;
  double start = bench_now();
  for (uint32_t i = 0; i < op_count; i++) {
    bench_scan_sum sum;
    TRY(scan_once(side, bench_random_below(&seed, key_count / BENCH_PREFIX_COUNT) * BENCH_PREFIX_COUNT, &sum, err));
    keys += sum.count;
  }
  *out_seconds = (bench_now() - start) / op_count;
  if (keys == (uint64_t)op_count * BENCH_PREFIX_COUNT) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%s: %u scans found %llu keys", side->ops->name, op_count, (unsigned long long)keys);
}

static pd_code compare_scans(bench *b, pair *p, uint32_t key_count, double out_seconds[2], pd_error *err)
{
  bench_side *sides[2] = {&p->ours, &p->lmdb};
  bench_series series[2] = {{.count = 0}, {.count = 0}};
  for (int s = 0; s < 2; s++) TRY(check_scans(sides[s], key_count, err));
  for (uint32_t run = 0; run < b->run_count; run++) {
    for (int s = 0; s < 2; s++) {
      double seconds = 0;
      TRY(time_scans(sides[s], key_count, b->sizes.scan_ops, run, &seconds, err));
      bench_series_add(&series[s], seconds);
    }
  }
  for (int s = 0; s < 2; s++) out_seconds[s] = bench_series_median(&series[s]);
  return PD_OK;
}

pd_code row_scan(bench *b, pd_error *err)
{
  CLEANUP(pair_done) pair p = {0};
  char count[BENCH_TEXT_SIZE];
  uint32_t key_count = b->sizes.keys_big;
  double seconds[2];
  TRY(pair_open(b, key_count, &p, err));
  TRY(compare_scans(b, &p, key_count, seconds, err));
  bench_line line = {.peer = "LMDB cursor"};
  snprintf(line.what, sizeof(line.what), "prefix scan of %d keys at %s", BENCH_PREFIX_COUNT, bench_text_count(key_count, count));
  bench_text_seconds(seconds[0], line.ours_text);
  bench_text_seconds(seconds[1], line.peer_text);
  bench_judge(&line, seconds[1] / seconds[0], BENCH_AT_LEAST, 1.0);
  snprintf(line.note, sizeof(line.note), "Time of one scan, key and value touched; every prefix is checked once before. Ratio of speeds.");
  TRY(bench_report(b, &line, err));
  return pair_close(&p, err);
}
