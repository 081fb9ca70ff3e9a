/*
 * row_watch.c: row 16: how long after a put is called in one process another one that watches has the event in its hands.
 *
 * The writer puts its clock's time as the value and pauses between puts, so that the watcher sleeps each time. The time includes the
 * durable put itself: a watch tells only what is in the log.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"
#include "folder.h"
#include "rows.h"

#define EVENT_COUNT 500
#define PAUSE_US 4000
#define BUDGET_S 0.005
#define EVENT_WAIT_MS 30000

/* In a process of its own. */
static int write_times(const char *uri, uint32_t count)
{
  pd_store *store = NULL;
  if (pd_store_open(uri, "main", NULL, &store, NULL)) return 1;
  for (uint32_t i = 0; i < count; i++) {
    char value[64];
    usleep(PAUSE_US);
    snprintf(value, sizeof value, "%.9f", bench_now());
    if (pd_put(store, pd_text("time"), pd_text(value), NULL, NULL, NULL)) return 2;
  }
  return pd_store_close(store, NULL) ? 3 : 0;
}

static pd_code take_event(pd_store *store, pd_watch *watch, bench_series *latencies, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_watch_event event;
  char at[32];
  pd_code code = pd_watch_next(watch, EVENT_WAIT_MS, &event, err);
  double now = bench_now();
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_STORAGE, "no event came within %d ms", EVENT_WAIT_MS);
  TRY(code);
  snprintf(at, sizeof at, "#%llu", (unsigned long long)event.seq);
  TRY(pd_get(store, at, event.key, &value, NULL, err));
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)value.size, (const char *)value.data);
  bench_series_add(latencies, now - strtod(text, NULL));
  return PD_OK;
}

static pd_code watch_all(const char *uri, uint64_t from, uint32_t count, bench_series *latencies, pd_error *err)
{
  pd_store *store = NULL;
  pd_watch *watch = NULL;
  const pd_watch_options options = {.from = {from, 0}, .prefix = pd_text("time")};
  TRY(pd_store_open(uri, "main", NULL, &store, err));
  pd_code code = pd_watch_open(store, &options, &watch, err);
  for (uint32_t i = 0; i < count && code == PD_OK; i++) code = take_event(store, watch, latencies, err);
  pd_watch_close(watch);
  pd_store_close(store, NULL);
  return code;
}

static pd_code make_store(const char *uri, uint64_t *out_next, pd_error *err)
{
  pd_store *store = NULL;
  pd_ack ack = {0};
  TRY(pd_store_open(uri, "main", NULL, &store, err));
  pd_code code = pd_put(store, pd_text("first"), pd_text("1"), NULL, &ack, err);
  *out_next = ack.seq + 1;
  pd_code closed = pd_store_close(store, code == PD_OK ? err : NULL);
  return code == PD_OK ? closed : code;
}

static pd_code report_watch(bench *b, const bench_series *latencies, pd_error *err)
{
  double median_s = bench_series_median(latencies);
  bench_line line = {.what = "watch, put in one process to event in another", .peer = "5 ms", .peer_text = "5.00 ms"};
  snprintf(line.note, sizeof line.note, "Median of %zu, from before the durable put to the event; the watcher sleeps between them.",
           latencies->count);
  bench_text_seconds(median_s, line.ours_text);
  bench_judge(&line, median_s / BUDGET_S, BENCH_AT_MOST, 1.0);
  return bench_report(b, &line, err);
}

pd_code row_watch(bench *b, pd_error *err)
{
  static bench_series latencies;
  char dir[BENCH_PATH_SIZE], uri[BENCH_PATH_SIZE + 8];
  uint64_t next = 0;
  uint32_t count = b->sizes.put_ops < EVENT_COUNT ? b->sizes.put_ops / 4 : EVENT_COUNT;
  int status = 0;
  TRY(bench_folder_new(b->dir, "watch", dir, err));
  snprintf(uri, sizeof uri, "sqlite:%s", dir);
  TRY(make_store(uri, &next, err));
  pid_t writer = fork();
  if (writer < 0) return pd_error_set(err, PD_STORAGE, "cannot start a writer");
  if (writer == 0) _exit(write_times(uri, count));
  pd_code code = watch_all(uri, next, count, &latencies, err);
  waitpid(writer, &status, 0);
  TRY(code);
  if (status != 0) return pd_error_set(err, PD_STORAGE, "the writer ended with %d", status);
  return report_watch(b, &latencies, err);
}
