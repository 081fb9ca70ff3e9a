/*
 * row_snapshots.c: row 21: AgentSnapshots of 1,000 messages, saved 1,000 times: bytes written and time a save.
 *
 * Each tick says one message of 500 bytes and forgets the oldest, so the document is always of the same size and every save has
 * something new at both ends of the history. All storages get the same documents, two of them in turns. Bytes: `file:` the documents
 * themselves; `redis:` what its append-only file grew by; `perdure:` everything that this process handed to write calls while it saved
 * and while the storage was closed, so the journal, what is copied from it into the database, and keyframes count. At the end every
 * storage is asked for the last document.
 */
#include <perdure/storage.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "data.h"
#include "redis.h"
#include "rows.h"

#define AGENT "worker_007"
#define MESSAGE_COUNT 1000
#define MESSAGE_SIZE 500
#define BYTES_BUDGET 0.05

enum { OURS, SQLITE, PLAIN, REDIS, SIDE_COUNT };

typedef struct snapshot_bench {
  pd_storage *storages[SIDE_COUNT];
  bench_series seconds[SIDE_COUNT];
  bench_redis redis;
  uint64_t bytes[SIDE_COUNT];
  pd_buf document, loaded;
} snapshot_bench;

static void bench_done(snapshot_bench *t)
{
  for (size_t i = 0; i < SIDE_COUNT; i++) pd_storage_close(t->storages[i]);
  bench_redis_stop(&t->redis);
  pd_buf_done(&t->document);
  pd_buf_done(&t->loaded);
}

/* ---- documents ---- */

static pd_code add_message(pd_buf *out, uint32_t number, pd_error *err)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.";
  uint64_t random = number + 1;
  size_t start = out->size;
  TRY(pd_buf_printf(out, err, "{\"role\":\"%s\",\"content\":\"", number % 2 ? "assistant" : "user"));
  while (out->size - start < MESSAGE_SIZE - 2)
    TRY(pd_buf_byte(out, (uint8_t)letters[bench_random_below(&random, sizeof(letters) - 1)], err));
  return pd_buf_append(out, "\"}", 2, err);
}

static pd_code make_document(uint32_t tick, pd_buf *out, pd_error *err)
{
  pd_buf_clear(out);
  TRY(pd_buf_printf(out, err,
                    "{\"agent_id\":\"" AGENT "\",\"tick_index\":%u,\"timestamp\":%llu,\"status\":\"WAITING_FOR_EVENT\","
                    "\"memory\":{\"short_term_history\":[",
                    tick, 1794736800000ull + tick * 1000ull));
  for (uint32_t i = 0; i < MESSAGE_COUNT; i++) {
    if (i) TRY(pd_buf_byte(out, ',', err));
    TRY(add_message(out, tick + i, err));
  }
  return pd_buf_printf(out, err, "],\"working_variables\":{\"goal\":\"count\",\"step\":%u}},\"event_queue_backup\":[]}", tick);
}

/* ---- measuring ---- */

/* What this process has handed to write calls so far. */
static pd_code written_so_far(uint64_t *out, pd_error *err)
{
  unsigned long long number = 0;
  FILE *f = fopen("/proc/self/io", "r");
  bool is_read = f && fscanf(f, "rchar: %*u\nwchar: %llu", &number) == 1;
  if (f) fclose(f);
  if (!is_read) return pd_error_set(err, PD_STORAGE, "/proc/self/io does not tell what was written");
  *out = number;
  return PD_OK;
}

static pd_code save_one(snapshot_bench *t, int side, pd_error *err)
{
  uint64_t before = 0, after = 0;
  TRY(written_so_far(&before, err));
  double start = bench_now();
  TRY(pd_storage_save(t->storages[side], AGENT, pd_buf_bytes(&t->document), err));
  bench_series_add(&t->seconds[side], bench_now() - start);
  TRY(written_so_far(&after, err));
  if (side == OURS) t->bytes[OURS] += after - before;
  if (side == PLAIN) t->bytes[PLAIN] += t->document.size;
  return PD_OK;
}

static pd_code check_last(snapshot_bench *t, pd_error *err)
{
  for (int side = 0; side < SIDE_COUNT; side++) {
    TRY(pd_storage_load(t->storages[side], AGENT, &t->loaded, err));
    if (!pd_bytes_equal(pd_buf_bytes(&t->loaded), pd_buf_bytes(&t->document)))
      return pd_error_set(err, PD_CORRUPT, "storage %d did not keep the last snapshot", side);
  }
  return PD_OK;
}

/* All documents to two storages, in turns. */
static pd_code save_pair(bench *b, snapshot_bench *t, int first, int second, pd_error *err)
{
  for (uint32_t tick = 0; tick < b->sizes.snapshot_saves; tick++) {
    TRY(make_document(tick, &t->document, err));
    TRY(save_one(t, tick % 2 ? second : first, err));
    TRY(save_one(t, tick % 2 ? first : second, err));
  }
  return PD_OK;
}

static pd_code save_all(bench *b, snapshot_bench *t, pd_error *err)
{
  uint64_t aof_before, aof_after, before = 0, after = 0;
  TRY(save_pair(b, t, OURS, SQLITE, err)); /* the two whose time is judged: nobody else writes meanwhile */
  TRY(bench_folder_size(t->redis.folder, &aof_before, err));
  TRY(save_pair(b, t, PLAIN, REDIS, err));
  TRY(bench_folder_size(t->redis.folder, &aof_after, err));
  t->bytes[REDIS] = aof_after - aof_before;
  TRY(check_last(t, err));
  TRY(written_so_far(&before, err));
  pd_storage_close(t->storages[OURS]);
  t->storages[OURS] = NULL;
  TRY(written_so_far(&after, err));
  t->bytes[OURS] += after - before;
  return PD_OK;
}

/* ---- reporting ---- */

static pd_code report_bytes(bench *b, const snapshot_bench *t, int side, const char *peer, const char *how, pd_error *err)
{
  bench_line line = {.is_met = false};
  double saves = b->sizes.snapshot_saves;
  snprintf(line.peer, sizeof(line.peer), "%s", peer);
  snprintf(line.what, sizeof(line.what), "bytes written a save, AgentSnapshot of 1,000 messages");
  bench_text_bytes((double)t->bytes[OURS] / saves, line.ours_text);
  bench_text_bytes((double)t->bytes[side] / saves, line.peer_text);
  bench_judge(&line, (double)t->bytes[OURS] / (double)t->bytes[side], BENCH_AT_MOST, BYTES_BUDGET);
  snprintf(
    line.note, sizeof(line.note),
    "%u saves; each adds a message of 500 B and drops the oldest. Ours: all bytes of write calls, journal (16 MB of room, made once), "
    "closing included. Peer: %s.",
    b->sizes.snapshot_saves, how);
  return bench_report(b, &line, err);
}

static pd_code report_time(bench *b, const snapshot_bench *t, pd_error *err)
{
  char plain[BENCH_TEXT_SIZE];
  double ours = bench_series_median(&t->seconds[OURS]), sqlite = bench_series_median(&t->seconds[SQLITE]);
  bench_line line = {.peer = "sqlite-snapshots:, synced"};
  snprintf(line.what, sizeof(line.what), "time a save, AgentSnapshot of 1,000 messages");
  bench_text_seconds(ours, line.ours_text);
  bench_text_seconds(sqlite, line.peer_text);
  bench_judge(&line, ours / sqlite, BENCH_AT_MOST, 1.0);
  snprintf(line.note, sizeof(line.note), "Medians of %u saves, in turns, each durable when it returns. `file:` %s.",
           b->sizes.snapshot_saves, bench_text_seconds(bench_series_median(&t->seconds[PLAIN]), plain));
  return bench_report(b, &line, err);
}

pd_code row_snapshots(bench *b, pd_error *err)
{
  CLEANUP(bench_done) snapshot_bench t = {.bytes = {0}};
  char dir[BENCH_PATH_SIZE], uri[BENCH_PATH_SIZE + 32];
  static const char *const forms[] = {
    [OURS] = "perdure:sqlite:%s/ours", [SQLITE] = "sqlite-snapshots:%s/peer.db", [PLAIN] = "file:%s/plain"};
  TRY(bench_redis_start(b->dir, &t.redis, err)); /* before any storage is open: it forks */
  TRY(bench_folder_new(b->dir, "snapshots", dir, err));
  for (int side = 0; side < REDIS; side++) {
    snprintf(uri, sizeof(uri), forms[side], dir);
    TRY(pd_storage_open(uri, &t.storages[side], err));
  }
  TRY(pd_storage_open(t.redis.uri, &t.storages[REDIS], err));
  TRY(save_all(b, &t, err));
  TRY(report_bytes(b, &t, PLAIN, "file:", "the documents", err));
  TRY(report_bytes(b, &t, REDIS, "redis:, appendonly", "growth of the append-only file", err));
  return report_time(b, &t, err);
}
