/*
 * row_agents.c: row 28: 64 clients of one server that write for 1, 64, 500 and 5,000 agents, durably, in turns.
 *
 * Each agent has a store of its own: writes to one share a sync, those to many cannot, and a server keeps only so many open. The operator
 * writes for all (Perdure-Agent). With each write a client goes on to its next agent, so no two clients write to one unless there are
 * fewer agents than clients. All agents are made before the first measurement.
 *
 * It has no peer; its budget is to get no worse. `before` is what commit b5e4400 reached of its own rate on one agent, with
 * this client and the server of that day, in turns with ours on a quiet machine: 0.46 and 0.37 on 64 agents, 0.13 and 0.08 on 500, 0.05 and
 * 0.03 on 5,000. Ours in the same turns: 0.37 and 0.34, 0.10 and 0.11, 0.04 and 0.04. The disk moves by half between turns.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "client.h"
#include "daemon.h"
#include "rows.h"

#define RUNS_MAX 3

typedef struct agent_side {
  uint32_t agents;
  double before; /* b5e4400: rate over that on one agent */
  const char *before_text;
} agent_side;

static const agent_side sides[] = {
  {1, 1, ""},
  {64, 0.41, "9.00 k/s, 0.41×"},
  {500, 0.10, "2.26 k/s, 0.10×"},
  {5000, 0.04, "832 /s, 0.04×"},
};

typedef struct agent_bench {
  bench_daemon daemon;
  bench_clients clients;
  bench_series rates[COUNT_OF(sides)], p99s[COUNT_OF(sides)];
} agent_bench;

static void agents_done(agent_bench *a)
{
  bench_clients_done(&a->clients);
  bench_daemon_stop(&a->daemon);
}

static uint32_t agents_of(const bench *b, size_t side)
{
  return sides[side].agents < b->sizes.wire_agents ? sides[side].agents : b->sizes.wire_agents;
}

static void set_agents(agent_bench *a, uint32_t count)
{
  for (uint32_t i = 0; i < BENCH_CLIENT_COUNT; i++) a->clients.clients[i].agents = count;
}

static pd_code measure_side(bench *b, agent_bench *a, size_t side, pd_error *err)
{
  bench_pace pace = {0};
  set_agents(a, agents_of(b, side));
  TRY(bench_clients_run(&a->clients, true, b->sizes.wire_ms / 1e3, 0, &pace, err));
  bench_series_add(&a->rates[side], pace.rate);
  bench_series_add(&a->p99s[side], pace.p99_s);
  return PD_OK;
}

static char *text_of_side(const agent_bench *a, size_t side, char *out, size_t size)
{
  char rate[BENCH_TEXT_SIZE], p99[BENCH_TEXT_SIZE];
  snprintf(out, size, "%s, p99 %s", bench_text_rate(bench_series_median(&a->rates[side]), rate),
           bench_text_seconds(bench_series_median(&a->p99s[side]), p99));
  return out;
}

static pd_code report_side(bench *b, const agent_bench *a, size_t side, pd_error *err)
{
  bench_line line = {.peer = "ours on 1 agent"};
  snprintf(line.what, sizeof(line.what), "durable state.persistent.set over HTTP, 64 clients, %u agents", agents_of(b, side));
  text_of_side(a, side, line.ours_text, sizeof(line.ours_text));
  text_of_side(a, 0, line.peer_text, sizeof(line.peer_text));
  bench_judge(&line, bench_series_median(&a->rates[side]) / bench_series_median(&a->rates[0]), BENCH_AT_LEAST, sides[side].before);
  snprintf(line.note, sizeof(line.note),
           "No budget yet but to become no worse: commit b5e4400 reached %s (medians, on a busy machine: see row_agents.c). %u runs of "
           "%.1f s in turns, the operator writes for the agents, "
           "each client goes on to another with each write.",
           sides[side].before_text, bench_runs_at_most(b, RUNS_MAX), b->sizes.wire_ms / 1e3);
  return bench_report(b, &line, err);
}

pd_code row_agents(bench *b, pd_error *err)
{
  CLEANUP(agents_done) agent_bench a = {.daemon = {0}};
  bench_pace pace = {0};
  TRY(bench_daemon_start(b->dir, BENCH_DAEMON_PERDURE, &a.daemon, err));
  TRY(bench_clients_open(&a.clients, &bench_speech_agents, a.daemon.port, err));
  set_agents(&a, b->sizes.wire_agents);
  TRY(bench_clients_run(&a.clients, true, 300, b->sizes.wire_agents / BENCH_CLIENT_COUNT + 1, &pace, err));
  bench_say("  made %u agents at %.0f a second", b->sizes.wire_agents, pace.rate);
  for (uint32_t run = 0; run < bench_runs_at_most(b, RUNS_MAX); run++)
    for (size_t side = 0; side < COUNT_OF(sides); side++) TRY(measure_side(b, &a, side, err));
  for (size_t side = 1; side < COUNT_OF(sides); side++) TRY(report_side(b, &a, side, err));
  return PD_OK;
}
