/*
 * row_thread.c: row 20: a conversation of 500 turns, one checkpoint each, as a thread and by LangGraph's SQLite checkpointer (talk.h).
 *
 * The peer keeps the whole state with every checkpoint, so its time and bytes grow with the square of the turns: bench-threads plots that.
 */
#include <stdio.h>

#include "base/base.h"
#include "folder.h"
#include "rows.h"
#include "talk.h"

#define PEER "LangGraph checkpoint-sqlite"

typedef struct sums {
  bench_series ours, peer; /* seconds a checkpoint */
  double ours_bytes, peer_bytes;
} sums;

static pd_code run_both(bench *b, bool is_synced, sums *out, pd_error *err)
{
  static talk_result result;
  char dir[BENCH_PATH_SIZE];
  uint32_t turn_count = b->sizes.thread_turns;
  TRY(bench_folder_new(b->dir, "row-ours", dir, err));
  TRY(talk_ours(dir, turn_count, is_synced, &result, err));
  bench_series_add(&out->ours, result.seconds_all / turn_count);
  out->ours_bytes = (double)result.bytes;
  if (!talk_peer_is_there()) return PD_OK;
  TRY(bench_folder_new(b->dir, "row-peer", dir, err));
  TRY(talk_langgraph(dir, turn_count, is_synced, &result, err));
  bench_series_add(&out->peer, result.seconds_all / turn_count);
  out->peer_bytes = (double)result.bytes;
  return PD_OK;
}

/* Without the peer a line has our number and the verdict that nothing was shown. */
static pd_code report(bench *b, bench_line *line, double ratio, bench_sense sense, double budget, pd_error *err)
{
  snprintf(line->peer, sizeof(line->peer), "%s", PEER);
  bench_judge(line, ratio, sense, budget);
  if (!talk_peer_is_there()) {
    snprintf(line->peer_text, sizeof(line->peer_text), "not installed");
    snprintf(line->ratio, sizeof(line->ratio), "none");
    snprintf(line->note, sizeof(line->note), "The peer is not installed: bench/langgraph/install FOLDER, PERDURE_BENCH_NPM=FOLDER.");
    line->is_met = false;
  }
  return bench_report(b, line, err);
}

static pd_code report_time(bench *b, bool is_synced, const sums *s, double budget, pd_error *err)
{
  bench_line line = {0};
  double ours = bench_series_median(&s->ours), peer = bench_series_median(&s->peer);
  snprintf(line.what, sizeof(line.what), "checkpoint of a thread, %u turns, sync %s", b->sizes.thread_turns, is_synced ? "on" : "off");
  bench_text_seconds(ours, line.ours_text);
  bench_text_seconds(peer, line.peer_text);
  snprintf(line.note, sizeof(line.note),
           "%s Mean over the conversation, median of %zu runs; 2 messages of 500 B and 3 of 20 fields a turn.",
           is_synced ? "Theirs with PRAGMA synchronous=FULL."
                     : "Theirs with PRAGMA synchronous=OFF; ours buffered, the flush at the end included.",
           s->ours.count);
  return report(b, &line, peer / ours, BENCH_AT_LEAST, budget, err);
}

static pd_code report_bytes(bench *b, const sums *s, pd_error *err)
{
  bench_line line = {0};
  snprintf(line.what, sizeof(line.what), "bytes on disk of that thread, %u turns", b->sizes.thread_turns);
  bench_text_bytes(s->ours_bytes, line.ours_text);
  bench_text_bytes(s->peer_bytes, line.peer_text);
  snprintf(line.note, sizeof(line.note), "File sizes when closed, written with sync on; what is said itself is %.2f MB.",
           b->sizes.thread_turns * 2 * TALK_MESSAGE_SIZE / 1e6);
  return report(b, &line, s->peer_bytes > 0 ? s->ours_bytes / s->peer_bytes : 0, BENCH_AT_MOST, 0.05, err);
}

pd_code row_thread(bench *b, pd_error *err)
{
  static sums off, on;
  for (uint32_t run = 0; run < bench_runs_at_most(b, 3); run++) {
    TRY(run_both(b, false, &off, err));
    TRY(run_both(b, true, &on, err));
  }
  TRY(report_time(b, false, &off, 20, err));
  TRY(report_time(b, true, &on, 1, err));
  return report_bytes(b, &on, err);
}
