/*
 * row_wire.c: rows 22 and 23: the server under 64 clients, each with a connection that it keeps: durable writes, and reads.
 *
 * Perdure, Redis and etcd run side by side on loopback and are asked in turns by the same clients (client.h): one thread of this process,
 * one question at a time a client. All three sync before they acknowledge:
 * perdure and etcd as they ship, Redis with appendfsync always.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "client.h"
#include "daemon.h"
#include "rows.h"

#define RUNS_MAX 5

enum { OURS, REDIS, ETCD, SIDE_COUNT };

typedef struct wire_bench {
  bench_daemon daemons[SIDE_COUNT];
  bench_clients clients[SIDE_COUNT];
  bench_series rates[SIDE_COUNT], means[SIDE_COUNT], p99s[SIDE_COUNT];
} wire_bench;

static void wire_done(wire_bench *w)
{
  for (size_t i = 0; i < SIDE_COUNT; i++) {
    bench_clients_done(&w->clients[i]);
    bench_daemon_stop(&w->daemons[i]);
  }
}

static pd_code start_all(bench *b, wire_bench *w, const bench_speech *ours, pd_error *err)
{
  const bench_speech *const speeches[] = {ours, &bench_speech_redis, &bench_speech_etcd};
  static const bench_daemon_kind kinds[] = {BENCH_DAEMON_PERDURE, BENCH_DAEMON_REDIS, BENCH_DAEMON_ETCD};
  for (size_t i = 0; i < SIDE_COUNT; i++) {
    TRY(bench_daemon_start(b->dir, kinds[i], &w->daemons[i], err));
    TRY(bench_clients_open(&w->clients[i], speeches[i], w->daemons[i].port, err));
  }
  return PD_OK;
}

/* The first turn makes every key, and warms up. */
static pd_code measure_all(bench *b, wire_bench *w, bool is_writing, pd_error *err)
{
  bench_pace pace = {0};
  double duration_s = b->sizes.wire_ms / 1e3;
  for (size_t i = 0; i < SIDE_COUNT; i++) TRY(bench_clients_run(&w->clients[i], true, 60, BENCH_KEYS_EACH, &pace, err));
  for (uint32_t run = 0; run < bench_runs_at_most(b, RUNS_MAX); run++)
    for (size_t i = 0; i < SIDE_COUNT; i++) {
      TRY(bench_clients_run(&w->clients[i], is_writing, duration_s, 0, &pace, err));
      bench_series_add(&w->rates[i], pace.rate);
      bench_series_add(&w->means[i], pace.mean_s);
      bench_series_add(&w->p99s[i], pace.p99_s);
    }
  return PD_OK;
}

static char *text_of_side(const wire_bench *w, size_t side, char *out, size_t size)
{
  char rate[BENCH_TEXT_SIZE], p99[BENCH_TEXT_SIZE];
  snprintf(out, size, "%s, p99 %s", bench_text_rate(bench_series_median(&w->rates[side]), rate),
           bench_text_seconds(bench_series_median(&w->p99s[side]), p99));
  return out;
}

static pd_code report_side(bench *b, const wire_bench *w, const char *what, const char *peer, size_t side, double budget, pd_error *err)
{
  bench_line line = {.is_met = false};
  char ours_mean[BENCH_TEXT_SIZE], peer_mean[BENCH_TEXT_SIZE];
  snprintf(line.what, sizeof(line.what), "%s", what);
  snprintf(line.peer, sizeof(line.peer), "%s", peer);
  text_of_side(w, OURS, line.ours_text, sizeof(line.ours_text));
  text_of_side(w, side, line.peer_text, sizeof(line.peer_text));
  bench_judge(&line, bench_series_median(&w->rates[OURS]) / bench_series_median(&w->rates[side]), BENCH_AT_LEAST, budget);
  snprintf(
    line.note, sizeof(line.note),
    "Mean of an answer %s against %s. %d clients with kept connections on loopback, one question at a time each, %u runs of %.1f s in "
    "turns, %d keys, values of %zu bytes.%s",
    bench_text_seconds(bench_series_median(&w->means[OURS]), ours_mean),
    bench_text_seconds(bench_series_median(&w->means[side]), peer_mean), BENCH_CLIENT_COUNT, bench_runs_at_most(b, RUNS_MAX),
    b->sizes.wire_ms / 1e3, BENCH_WIRE_KEYS, strlen(BENCH_WIRE_VALUE), side == ETCD ? " etcd 3.4 over gRPC, a connection a client." : "");
  return bench_report(b, &line, err);
}

pd_code row_wire_set(bench *b, pd_error *err)
{
  CLEANUP(wire_done) wire_bench w = {.daemons = {{0}}};
  TRY(start_all(b, &w, &bench_speech_shared, err));
  TRY(measure_all(b, &w, true, err));
  TRY(report_side(b, &w, "durable state.shared.set over HTTP, 64 clients", "Redis SET, appendfsync always, 64 clients", REDIS, 1.0, err));
  return report_side(b, &w, "durable state.shared.set over HTTP, 64 clients", "etcd put, 64 clients", ETCD, 5.0, err);
}

pd_code row_wire_get(bench *b, pd_error *err)
{
  CLEANUP(wire_done) wire_bench w = {.daemons = {{0}}};
  TRY(start_all(b, &w, &bench_speech_persistent, err));
  TRY(measure_all(b, &w, false, err));
  TRY(report_side(b, &w, "state.persistent.get over HTTP, 64 clients", "Redis GET, 64 clients, no pipelining", REDIS, 0.5, err));
  return report_side(b, &w, "state.persistent.get over HTTP, 64 clients", "etcd get, linearizable, 64 clients", ETCD, 5.0, err);
}
