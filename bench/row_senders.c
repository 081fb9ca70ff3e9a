/*
 * row_senders.c: row 26: many senders to one thing. 64 clients of one server against one client of it, in turns: queue.send to one queue,
 * mailbox.send to one mailbox, alerts.send to one agent's list, threads.append to one thread, work.create in one agent's index.
 *
 * Each of these reads a counter and writes it back. Senders that conflicted with each other were slower together than one alone, and some
 * were refused; those that take turns and share a sync (pd_update) are faster. Every answer has to be 200: one 409 or 5xx fails the row.
 * Each measurement has a queue, mailbox, agent and thread of its own (the clients' `round`), so that none is longer than the one before.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "client.h"
#include "daemon.h"
#include "rows.h"

#define RUNS_MAX 5
#define RATIO_MIN 3.0
#define SENDS_MAX 9000 /* in one measurement: a mailbox takes 10,000 letters, and an agent has 10,000 work items at most */

enum { ONE, MANY, SIDE_COUNT };

typedef struct sender_kind {
  const char *what;
  const bench_speech *speech;
  bool needs_start; /* a "read" makes what they send to */
} sender_kind;

static const sender_kind kinds[] = {
  {"queue.send to one queue", &bench_speech_queue, false},  {"mailbox.send to one mailbox", &bench_speech_mailbox, false},
  {"alerts.send to one list", &bench_speech_alerts, false}, {"threads.append to one thread", &bench_speech_threads, true},
  {"work.create in one index", &bench_speech_work, false},
};

typedef struct sender_bench {
  bench_daemon daemon;
  bench_clients clients;
  bench_series rates[SIDE_COUNT], p99s[SIDE_COUNT];
  uint32_t round;
} sender_bench;

static void senders_done(sender_bench *s)
{
  bench_clients_done(&s->clients);
  bench_daemon_stop(&s->daemon);
}

static pd_code measure_side(bench *b, sender_bench *s, const sender_kind *kind, size_t side, pd_error *err)
{
  bench_pace pace = {0};
  uint32_t count = side == ONE ? 1 : BENCH_CLIENT_COUNT;
  s->round++;
  for (uint32_t i = 0; i < BENCH_CLIENT_COUNT; i++) s->clients.clients[i].round = s->round;
  s->clients.asking = 1;
  if (kind->needs_start) TRY(bench_clients_run(&s->clients, false, 60, 1, &pace, err));
  TRY(bench_clients_run(&s->clients, true, 60, 1, &pace, err)); /* the agent's store is open, and the thing is there */
  s->clients.asking = count;
  TRY(bench_clients_run(&s->clients, true, b->sizes.wire_ms / 1e3, SENDS_MAX / count, &pace, err));
  bench_series_add(&s->rates[side], pace.rate);
  bench_series_add(&s->p99s[side], pace.p99_s);
  return PD_OK;
}

static pd_code report_kind(bench *b, const sender_bench *s, const sender_kind *kind, pd_error *err)
{
  bench_line line = {.is_met = false};
  char *texts[] = {line.peer_text, line.ours_text};
  char rate[BENCH_TEXT_SIZE], p99[BENCH_TEXT_SIZE];
  snprintf(line.what, sizeof(line.what), "%s over HTTP, 64 clients", kind->what);
  snprintf(line.peer, sizeof(line.peer), "one client");
  for (size_t side = 0; side < SIDE_COUNT; side++)
    snprintf(texts[side], sizeof(line.ours_text), "%s, p99 %s", bench_text_rate(bench_series_median(&s->rates[side]), rate),
             bench_text_seconds(bench_series_median(&s->p99s[side]), p99));
  bench_judge(&line, bench_series_median(&s->rates[MANY]) / bench_series_median(&s->rates[ONE]), BENCH_AT_LEAST, RATIO_MIN);
  snprintf(line.note, sizeof(line.note),
           "Durable. %u runs of at most %.1f s and %d calls each, in turns, each to a new target; every answer was 200 (a 409 or 5xx fails "
           "the row).",
           bench_runs_at_most(b, RUNS_MAX), b->sizes.wire_ms / 1e3, SENDS_MAX);
  return bench_report(b, &line, err);
}

static pd_code measure_kind(bench *b, const sender_kind *kind, pd_error *err)
{
  CLEANUP(senders_done) sender_bench s = {.round = 0};
  TRY(bench_daemon_start(b->dir, BENCH_DAEMON_PERDURE, &s.daemon, err));
  TRY(bench_clients_open(&s.clients, kind->speech, s.daemon.port, err));
  for (uint32_t run = 0; run < bench_runs_at_most(b, RUNS_MAX); run++)
    for (size_t side = 0; side < SIDE_COUNT; side++) TRY(measure_side(b, &s, kind, side, err));
  return report_kind(b, &s, kind, err);
}

pd_code row_senders(bench *b, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(kinds); i++) TRY(measure_kind(b, &kinds[i], err));
  return PD_OK;
}
