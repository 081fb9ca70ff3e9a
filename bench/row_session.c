/*
 * row_session.c: rows 17 and 18: the door: state.session.get and .set by one thread, and state.persistent.set against the engine's own put.
 *
 * The home is on disk, as an agent's would be: every call is audited and noted as activity, and what those write now and then is paid here.
 * Calls are counted against the processor time of the whole process, its audit thread included: that is what a second of one core means,
 * and other work on the machine does not change it. The rate by the clock on the wall is in the note. 1,000 keys with values of about
 * 100 bytes; the last answer is checked byte for byte.
 */
#include <stdio.h>
#include <time.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "folder.h"
#include "rows.h"

#define KEY_COUNT 1000
#define VALUE "{\"step\":12345,\"plan\":[\"look\",\"think\",\"write\"],\"note\":\"a value of about a hundred bytes in all..\"}"
#define PRE_PARSED_RATE 1e6
#define JSON_RATE 300e3

typedef struct caller {
  pd_home *home;
  pd_ctx ctx;
  char session[PD_SESSION_ID_SIZE];
  pd_buf out;
  const char *capability;
  pd_buf texts[KEY_COUNT];
  pd_input *inputs[KEY_COUNT];
} caller;

static void caller_done(caller *c)
{
  for (size_t i = 0; i < KEY_COUNT; i++) {
    pd_buf_done(&c->texts[i]);
    pd_input_free(c->inputs[i]);
    c->inputs[i] = NULL;
  }
  pd_buf_done(&c->out);
}

static void close_home(pd_home **home)
{
  pd_home_close(*home, NULL);
}

static pd_code open_home(bench *b, const char *name, const char *config, pd_home **out, pd_error *err)
{
  char dir[BENCH_PATH_SIZE], path[BENCH_PATH_SIZE + 32], uri[BENCH_PATH_SIZE + 32];
  TRY(bench_folder_new(b->dir, name, dir, err));
  snprintf(path, sizeof(path), "%s/perdure.toml", dir);
  FILE *f = fopen(path, "w");
  if (!f || fputs(config, f) < 0 || fclose(f)) return pd_error_set(err, PD_STORAGE, "cannot write %s", path);
  snprintf(uri, sizeof(uri), "sqlite:%s", dir);
  return pd_home_open(uri, NULL, out, err);
}

/* Inputs for each key, as text and parsed. */
static pd_code prepare(caller *c, const char *capability, bool has_value, pd_error *err)
{
  c->capability = capability;
  for (size_t i = 0; i < KEY_COUNT; i++) {
    pd_buf_clear(&c->texts[i]);
    pd_input_free(c->inputs[i]);
    c->inputs[i] = NULL;
    TRY(pd_buf_printf(&c->texts[i], err, "{\"key\":\"task.%zu\"%s%s}", i, has_value ? ",\"value\":" : "", has_value ? VALUE : ""));
    TRY(pd_input_new(capability, pd_buf_bytes(&c->texts[i]), &c->inputs[i], err));
  }
  return PD_OK;
}

/* Seconds of processor time that this process has used. */
static double processor_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

typedef struct call_rates {
  double core, wall;
} call_rates;

static pd_code call_many(caller *c, uint32_t count, bool is_parsed, call_rates *out, pd_error *err)
{
  double start = bench_now(), processor_start = processor_now();
  for (uint32_t i = 0; i < count; i++) {
    size_t k = i * 7919u % KEY_COUNT;
    pd_code code = is_parsed ? pd_call_input(&c->ctx, c->inputs[k], &c->out, err)
                             : pd_call(&c->ctx, c->capability, pd_buf_bytes(&c->texts[k]), &c->out, err);
    if (code) return code;
    if (c->out.size < sizeof("{}")) return pd_error_set(err, PD_CORRUPT, "%s answered nothing", c->capability);
  }
  out->core = count / (processor_now() - processor_start);
  out->wall = count / (bench_now() - start);
  return PD_OK;
}

static pd_code report_session(bench *b, caller *c, bool is_parsed, double budget, pd_error *err)
{
  call_rates rates = {0};
  char wall_text[BENCH_TEXT_SIZE];
  bench_series core = {.count = 0}, wall = {.count = 0};
  TRY(call_many(c, KEY_COUNT * 2, is_parsed, &rates, err)); /* warm */
  for (uint32_t run = 0; run < b->run_count; run++) {
    TRY(call_many(c, b->sizes.session_ops, is_parsed, &rates, err));
    bench_series_add(&core, rates.core);
    bench_series_add(&wall, rates.wall);
  }
  bench_line line = {.peer = "the issue's number, not a peer"};
  snprintf(line.what, sizeof(line.what), "%s, %s, a core", c->capability, is_parsed ? "pre-parsed input" : "through JSON");
  bench_text_rate(bench_series_median(&core), line.ours_text);
  bench_text_rate(budget, line.peer_text);
  bench_judge(&line, bench_series_median(&core) / budget, BENCH_AT_LEAST, 1.0);
  snprintf(line.note, sizeof(line.note),
           "Calls a second of processor time, the audit's thread included; by the clock: %s. %d keys, values of %zu bytes, a home on disk.",
           bench_text_rate(bench_series_median(&wall), wall_text), KEY_COUNT, strlen(VALUE));
  return bench_report(b, &line, err);
}

static pd_code run_session(bench *b, caller *c, pd_home *home, pd_error *err)
{
  c->home = home;
  TRY(pd_session_begin(home, "main", c->session, err));
  c->ctx = (pd_ctx){.home = home, .agent = "main", .session = c->session};
  TRY(prepare(c, "state.session.set", true, err));
  TRY(report_session(b, c, true, PRE_PARSED_RATE, err));
  TRY(report_session(b, c, false, JSON_RATE, err));
  TRY(prepare(c, "state.session.get", false, err));
  TRY(report_session(b, c, true, PRE_PARSED_RATE, err));
  TRY(report_session(b, c, false, JSON_RATE, err));
  TRY(pd_call_input(&c->ctx, c->inputs[0], &c->out, err));
  if (c->out.size == strlen("{\"value\":" VALUE ",\"found\":true}")) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "state.session.get answered %.*s", (int)c->out.size, (const char *)c->out.data);
}

pd_code row_session(bench *b, pd_error *err)
{
  CLEANUP(close_home) pd_home *home = NULL;
  CLEANUP(caller_done) caller c = {.home = NULL};
  TRY(open_home(b, "session", "", &home, err));
  return run_session(b, &c, home, err);
}

/* ---- row 18 ------------------------------------------------------------------------------------------------------- */

#define FLUSH_MS 100

static pd_code engine_puts(pd_store *store, uint32_t count, double *out_rate, pd_error *err)
{
  char keys[KEY_COUNT][32];
  pd_note note = {.author = "main", .reason = "state.persistent.set"};
  for (size_t i = 0; i < KEY_COUNT; i++) snprintf(keys[i], sizeof(keys[i]), "task.%zu", i);
  double start = bench_now();
  for (uint32_t i = 0; i < count; i++) TRY(pd_put(store, pd_text(keys[i * 7919u % KEY_COUNT]), pd_text(VALUE), &note, NULL, err));
  *out_rate = count / (bench_now() - start);
  return pd_store_flush(store, err);
}

static void close_store(pd_store **store)
{
  pd_store_close(*store, NULL);
}

/* In turns; the first turn warms both up. */
static pd_code compare_persistent(bench *b, caller *c, pd_store *store, double out_rates[2], pd_error *err)
{
  bench_series ours = {.count = 0}, engine = {.count = 0};
  call_rates rates = {0};
  double rate = 0;
  for (uint32_t run = 0; run <= b->run_count; run++) {
    TRY(call_many(c, b->sizes.buffered_ops, true, &rates, err));
    TRY(engine_puts(store, b->sizes.buffered_ops, &rate, err));
    if (!run) continue;
    bench_series_add(&ours, rates.wall);
    bench_series_add(&engine, rate);
  }
  out_rates[0] = bench_series_median(&ours);
  out_rates[1] = bench_series_median(&engine);
  return PD_OK;
}

pd_code row_persistent(bench *b, pd_error *err)
{
  CLEANUP(close_home) pd_home *home = NULL;
  CLEANUP(close_store) pd_store *store = NULL;
  CLEANUP(caller_done) caller c = {.home = NULL};
  char dir[BENCH_PATH_SIZE], uri[BENCH_PATH_SIZE + 32];
  double rates[2];
  TRY(open_home(b, "persistent", "[store]\nflush = \"100ms\"\n", &home, err));
  TRY(bench_folder_new(b->dir, "engine", dir, err));
  snprintf(uri, sizeof(uri), "sqlite:%s", dir);
  TRY(pd_store_open(uri, "main", &(pd_options){.flush_ms = FLUSH_MS}, &store, err));
  c.ctx = (pd_ctx){.home = home, .agent = "main"};
  TRY(prepare(&c, "state.persistent.set", true, err));
  TRY(compare_persistent(b, &c, store, rates, err));
  bench_line line = {.peer = "the engine's own buffered put", .what = "state.persistent.set, buffered, one thread"};
  bench_text_rate(rates[0], line.ours_text);
  bench_text_rate(rates[1], line.peer_text);
  bench_judge(&line, rates[0] / rates[1], BENCH_AT_LEAST, 0.7);
  snprintf(line.note, sizeof(line.note),
           "Pre-parsed input, %d keys, the same values on both sides, both flushed every %d ms; with quota, retention, audit and activity.",
           KEY_COUNT, FLUSH_MS);
  return bench_report(b, &line, err);
}
