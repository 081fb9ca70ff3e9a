/*
 * row_statestore.c: row 19: a StateStore of type perdure, flushed every second into an agent's store on disk: sets and gets of one thread.
 *
 * By the clock on the wall, with the thread that flushes beside it; a full run lasts longer than an interval, so flushes are under way
 * while it is measured. 1,000 keys, values of about 100 bytes; every set parses its JSON, every get copies its value out. At the end the
 * store is closed and opened again, and each key is compared.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "folder.h"
#include "rows.h"

#define KEY_COUNT 1000
#define FLUSH_MS 1000
#define SET_RATE 2e6
#define GET_RATE 5e6
#define VALUE "{\"step\":%05zu,\"plan\":[\"look\",\"think\",\"write\"],\"note\":\"a value of about a hundred bytes in all..\"}"

typedef struct statestore_bench {
  pd_statestore_options options;
  pd_statestore *store;
  char keys[KEY_COUNT][16];
  char values[KEY_COUNT][128];
  pd_buf out;
} statestore_bench;

static void bench_done(statestore_bench *t)
{
  pd_statestore_free(t->store);
  pd_buf_done(&t->out);
}

static size_t pick(uint32_t i)
{
  return i * 7919u % KEY_COUNT;
}

static pd_code run_sets(statestore_bench *t, uint32_t count, double *out_rate, pd_error *err)
{
  double start = bench_now();
  for (uint32_t i = 0; i < count; i++) TRY(pd_statestore_set(t->store, pd_text(t->keys[pick(i)]), pd_text(t->values[pick(i)]), err));
  *out_rate = count / (bench_now() - start);
  return PD_OK;
}

static pd_code run_gets(statestore_bench *t, uint32_t count, double *out_rate, pd_error *err)
{
  double start = bench_now();
  for (uint32_t i = 0; i < count; i++) {
    TRY(pd_statestore_get(t->store, pd_text(t->keys[pick(i)]), &t->out, err));
    if (t->out.size < sizeof("{}")) return pd_error_set(err, PD_CORRUPT, "the StateStore answered nothing");
  }
  *out_rate = count / (bench_now() - start);
  return PD_OK;
}

static pd_code report_rate(bench *b, const char *what, double rate, double budget, pd_error *err)
{
  bench_line line = {.peer = "the issue's number, not a peer"};
  snprintf(line.what, sizeof(line.what), "StateStore %s, type perdure, one thread", what);
  bench_text_rate(rate, line.ours_text);
  bench_text_rate(budget, line.peer_text);
  bench_judge(&line, rate / budget, BENCH_AT_LEAST, 1.0);
  snprintf(line.note, sizeof(line.note), "flush_interval_ms=%d, %d keys, values of about 100 bytes of JSON, a store on disk; by the clock.",
           FLUSH_MS, KEY_COUNT);
  return bench_report(b, &line, err);
}

/* What is measured was also kept. */
static pd_code check_kept(statestore_bench *t, pd_error *err)
{
  TRY(pd_statestore_close(t->store, err));
  pd_statestore_free(t->store);
  t->store = NULL;
  TRY(pd_statestore_open(&t->options, &t->store, err));
  for (size_t i = 0; i < KEY_COUNT; i++) {
    TRY(pd_statestore_get(t->store, pd_text(t->keys[i]), &t->out, err));
    if (!pd_bytes_equal(pd_buf_bytes(&t->out), pd_text(t->values[i])))
      return pd_error_set(err, PD_CORRUPT, "the StateStore lost the value of %s", t->keys[i]);
  }
  return PD_OK;
}

static pd_code measure_both(bench *b, statestore_bench *t, pd_error *err)
{
  bench_series sets = {.count = 0}, gets = {.count = 0};
  double rate = 0;
  TRY(run_sets(t, KEY_COUNT * 2, &rate, err)); /* warm */
  for (uint32_t run = 0; run < b->run_count; run++) {
    TRY(run_sets(t, b->sizes.statestore_ops, &rate, err));
    bench_series_add(&sets, rate);
    TRY(run_gets(t, b->sizes.statestore_ops, &rate, err));
    bench_series_add(&gets, rate);
  }
  TRY(report_rate(b, "set", bench_series_median(&sets), SET_RATE, err));
  TRY(report_rate(b, "get", bench_series_median(&gets), GET_RATE, err));
  return check_kept(t, err);
}

pd_code row_statestore(bench *b, pd_error *err)
{
  CLEANUP(bench_done) statestore_bench t = {.store = NULL};
  char dir[BENCH_PATH_SIZE], uri[BENCH_PATH_SIZE + 32];
  TRY(bench_folder_new(b->dir, "statestore", dir, err));
  snprintf(uri, sizeof(uri), "sqlite:%s", dir);
  for (size_t i = 0; i < KEY_COUNT; i++) {
    snprintf(t.keys[i], sizeof(t.keys[i]), "task.%zu", i);
    snprintf(t.values[i], sizeof(t.values[i]), VALUE, i + 10000);
  }
  t.options = pd_statestore_defaults();
  t.options.enabled = true;
  t.options.type = PD_STATESTORE_PERDURE;
  t.options.uri = uri;
  t.options.flush_interval_ms = FLUSH_MS;
  TRY(pd_statestore_open(&t.options, &t.store, err));
  return measure_both(b, &t, err);
}
