/*
 * row_memory.c: row 12: resident memory of a process that serves a million keys with a cache of 64 MB.
 *
 * The row's own process is the one that is measured: the store was loaded by another. The high-water mark is what counts.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "rows.h"

#define CACHE_SIZE ((size_t)64 << 20)
#define BUDGET_BYTES 128e6

/* A line "VmHWM:   1234 kB" of /proc/self/status, in bytes. */
static pd_code read_status(const char *name, double *out_bytes, pd_error *err)
{
  char text[256];
  size_t name_size = strlen(name);
  FILE *file = fopen("/proc/self/status", "re");
  if (!file) return pd_error_set(err, PD_STORAGE, "cannot read /proc/self/status");
  bool is_found = false;
  while (!is_found && fgets(text, sizeof(text), file)) {
    unsigned long kilobytes;
    is_found = strncmp(text, name, name_size) == 0 && sscanf(text + name_size, ": %lu", &kilobytes) == 1;
    if (is_found) *out_bytes = (double)kilobytes * 1024;
  }
  fclose(file);
  return is_found ? PD_OK : pd_error_set(err, PD_STORAGE, "no %s in /proc/self/status", name);
}

/* Every byte of every value is compared. */
static pd_code serve(bench *b, bench_side *side, pd_error *err)
{
  uint64_t random = 12;
  for (uint32_t i = 0; i < b->sizes.memory_ops; i++) {
    bench_key key;
    pd_bytes value;
    uint32_t index = bench_random_below(&random, b->sizes.keys_big);
    bench_key_make(index, &key);
    TRY(side->ops->get(side->state, bench_key_bytes(&key), &value, err));
    if (!bench_value_is(value, index, 0)) return pd_error_set(err, PD_CORRUPT, "the value of '%s' is not the one that was put", key.text);
  }
  return PD_OK;
}

pd_code row_memory(bench *b, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  pd_options options = {.cache_size_max = CACHE_SIZE};
  char dir[BENCH_PATH_SIZE], count[BENCH_TEXT_SIZE], before[BENCH_TEXT_SIZE], cache[BENCH_TEXT_SIZE], rate[BENCH_TEXT_SIZE];
  double start_bytes, peak_bytes;
  pd_stats stats;
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, b->sizes.keys_big, 0, dir, err));
  TRY(read_status("VmRSS", &start_bytes, err));
  TRY(bench_ours_open(dir, &options, &side, err));
  double start = bench_now();
  TRY(serve(b, &side, err));
  double seconds = bench_now() - start;
  TRY(read_status("VmHWM", &peak_bytes, err));
  TRY(pd_store_stats(bench_ours_store(&side), &stats, err));
  bench_line line = {.peer = "", .budget = "≤ 128 MB", .is_met = peak_bytes <= BUDGET_BYTES};
  snprintf(line.what, sizeof(line.what), "resident memory, %s keys, 64 MB cache", bench_text_count(b->sizes.keys_big, count));
  bench_text_bytes(peak_bytes, line.ours_text);
  snprintf(line.note, sizeof(line.note), "High-water mark after %u random gets, every byte compared, at %s; %s before the open, cache %s.",
           b->sizes.memory_ops, bench_text_rate(b->sizes.memory_ops / seconds, rate), bench_text_bytes(start_bytes, before),
           bench_text_bytes((double)stats.cache_bytes, cache));
  TRY(bench_report(b, &line, err));
  return bench_side_close(&side, err);
}
