/*
 * row_leaves.c: row 27: threads.append over HTTP to a thread whose state has 1,000 leaves against one with 10.
 *
 * A change set adds a message and changes one leaf, so it should cost the same. By one client, and by 64 of them to one thread: those share
 * syncs, so what is computed for each append weighs more. Both threads are there from the beginning, and each measurement has new ones, so
 * that none is longer than the one before.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "client.h"
#include "daemon.h"
#include "rows.h"

#define RUNS_MAX 5
#define RATIO_MAX 1.5

enum { FEW, MANY, SIDE_COUNT };

static const uint32_t leaves[SIDE_COUNT] = {10, 1000};

typedef struct leaf_bench {
  bench_daemon daemon;
  bench_clients clients;
  bench_series times[SIDE_COUNT]; /* seconds an append */
  uint32_t round;
} leaf_bench;

static void leaves_done(leaf_bench *l)
{
  bench_clients_done(&l->clients);
  bench_daemon_stop(&l->daemon);
}

static pd_code measure_side(bench *b, leaf_bench *l, size_t side, uint32_t count, pd_error *err)
{
  bench_pace pace = {0};
  l->round++;
  for (uint32_t i = 0; i < BENCH_CLIENT_COUNT; i++) {
    l->clients.clients[i].round = l->round;
    l->clients.clients[i].leaves = leaves[side];
  }
  l->clients.asking = 1;
  TRY(bench_clients_run(&l->clients, false, 60, 1, &pace, err)); /* makes the thread */
  TRY(bench_clients_run(&l->clients, true, 60, 1, &pace, err));
  l->clients.asking = count;
  TRY(bench_clients_run(&l->clients, true, b->sizes.wire_ms / 2e3, 0, &pace, err));
  bench_series_add(&l->times[side], 1 / pace.rate);
  return PD_OK;
}

static pd_code measure_clients(bench *b, uint32_t count, pd_error *err)
{
  CLEANUP(leaves_done) leaf_bench l = {.round = 0};
  bench_line line = {.is_met = false};
  TRY(bench_daemon_start(b->dir, BENCH_DAEMON_PERDURE, &l.daemon, err));
  TRY(bench_clients_open(&l.clients, &bench_speech_threads, l.daemon.port, err));
  for (uint32_t run = 0; run < bench_runs_at_most(b, RUNS_MAX); run++)
    for (size_t side = 0; side < SIDE_COUNT; side++) TRY(measure_side(b, &l, side, count, err));
  double many = bench_series_median(&l.times[MANY]), few = bench_series_median(&l.times[FEW]);
  snprintf(line.what, sizeof(line.what), "threads.append over HTTP, a state of %u leaves, %u client%s", leaves[MANY], count,
           count == 1 ? "" : "s");
  snprintf(line.peer, sizeof(line.peer), "ours with %u leaves", leaves[FEW]);
  bench_text_seconds(many, line.ours_text);
  bench_text_seconds(few, line.peer_text);
  bench_judge(&line, many / few, BENCH_AT_MOST, RATIO_MAX);
  snprintf(line.note, sizeof(line.note),
           "Durable; time over answers. %u runs of %.1f s in turns, each to a new thread; a message of %zu bytes and an increment each.",
           bench_runs_at_most(b, RUNS_MAX), b->sizes.wire_ms / 2e3, strlen(BENCH_WIRE_VALUE));
  return bench_report(b, &line, err);
}

pd_code row_leaves(bench *b, pd_error *err)
{
  TRY(measure_clients(b, 1, err));
  return measure_clients(b, BENCH_CLIENT_COUNT, err);
}
