/* writer.c: see writer.h. */
#include "crash/writer.h"

#include "base/base.h"
#include "base/buf.h"
#include "crash/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH 3
#define PENDING_MAX 16

typedef struct writer_thread {
  const writer_plan *plan;
  pd_store *store;
  unsigned index;
  uint64_t random, number, forks;
  char line[32];
  writer_report pending[PENDING_MAX]; /* acknowledged as buffered, not yet flushed */
  size_t pending_count;
  bool has_failed;
} writer_thread;

static uint64_t pick(writer_thread *t, uint64_t below)
{
  uint64_t x = t->random += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  return (x ^ x >> 31) % below;
}

static void key_name(unsigned thread, unsigned key, char out[32])
{
  snprintf(out, 32, "t%u/key/%u", thread, key);
}

static bool send_report(writer_thread *t, const writer_report *report)
{
  return write(t->plan->pipe, report, sizeof *report) == sizeof *report;
}

/* W1. */
static pd_code acknowledge(writer_thread *t, const writer_report *report, pd_durability durability, pd_error *err)
{
  if (durability == PD_SYNCED) return send_report(t, report) ? PD_OK : PD_STORAGE;
  t->pending[t->pending_count++] = *report;
  if (t->pending_count < PENDING_MAX && pick(t, 6)) return PD_OK;
  TRY(pd_store_flush(t->store, err));
  for (size_t i = 0; i < t->pending_count; i++)
    if (!send_report(t, &t->pending[i])) return PD_STORAGE;
  t->pending_count = 0;
  return PD_OK;
}

static pd_code write_one(writer_thread *t, unsigned line, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char key[32];
  writer_report report = {.thread = t->index, .line = line, .key = (uint32_t)pick(t, WRITER_KEYS), .number = t->number++};
  pd_note note = {.ref = line ? t->line : NULL, .reason = "one"};
  pd_ack ack;
  key_name(t->index, report.key, key);
  crash_value(report.number, &value);
  TRY(pd_put(t->store, pd_text(key), pd_buf_bytes(&value), &note, &ack, err));
  report.commit = ack.commit;
  return acknowledge(t, &report, ack.durability, err);
}

static pd_code stage(writer_thread *t, pd_edit *edit, writer_report *report, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char key[32];
  key_name(t->index, report->key, key);
  crash_value(report->number, &value);
  return pd_edit_put(edit, pd_text(key), pd_buf_bytes(&value), PD_ANY_VERSION, err);
}

static pd_code write_batch(writer_thread *t, unsigned line, pd_error *err)
{
  writer_report reports[BATCH];
  pd_note note = {.ref = line ? t->line : NULL, .reason = "batch"};
  pd_edit *edit;
  pd_ack ack;
  TRY(pd_edit_begin(t->store, &note, &edit, err));
  for (uint32_t i = 0; i < BATCH; i++) {
    reports[i] =
      (writer_report){.thread = t->index, .line = line, .key = (uint32_t)pick(t, WRITER_KEYS / BATCH) * BATCH + i, .number = t->number++};
    pd_code code = stage(t, edit, &reports[i], err);
    if (code != PD_OK) {
      pd_edit_abort(edit);
      return code;
    }
  }
  pd_code code = pd_edit_commit(edit, &ack, err);
  if (code != PD_OK) {
    pd_edit_abort(edit);
    return code;
  }
  for (size_t i = 0; i < BATCH; i++) {
    reports[i].commit = ack.commit;
    TRY(acknowledge(t, &reports[i], ack.durability, err));
  }
  return PD_OK;
}

static pd_code fork_one(writer_thread *t, pd_error *err)
{
  writer_report report = {.thread = t->index, .is_fork = 1};
  pd_ack ack;
  snprintf(report.ref, sizeof report.ref, "f%llu-%u-%llu", (unsigned long long)t->plan->number_from, t->index,
           (unsigned long long)t->forks++);
  TRY(pd_fork(t->store, report.ref, NULL, NULL, &ack, err));
  report.commit = ack.commit;
  return acknowledge(t, &report, ack.durability, err);
}

static pd_code make_line(writer_thread *t, pd_error *err)
{
  pd_ack ack;
  snprintf(t->line, sizeof t->line, "line%u", t->index);
  pd_code code = pd_fork(t->store, t->line, "root", NULL, &ack, err);
  return code == PD_EXISTS ? PD_OK : code;
}

static void *write_until_killed(void *ctx)
{
  writer_thread *t = ctx;
  pd_error err = {0};
  pd_code code = make_line(t, &err);
  for (uint64_t i = 0; code == PD_OK && (!t->plan->stop_after || i < t->plan->stop_after); i++) {
    unsigned line = pick(t, 5) == 0;
    uint64_t what = pick(t, 100);
    if (what < 70)
      code = write_one(t, line, &err);
    else if (what < 92)
      code = write_batch(t, line, &err);
    else if (what < 97)
      code = fork_one(t, &err);
    else
      code = pd_store_keyframe(t->store, &err);
  }
  t->has_failed = code != PD_OK;
  if (t->has_failed && !t->plan->is_doomed) printf("# writer: %s: %s\n", pd_code_name(code), err.message);
  return NULL;
}

int writer_run(const writer_plan *plan)
{
  pd_options options = {.flush_ms = plan->flush_ms};
  pd_store *store;
  pd_error err = {0};
  pd_code code = pd_store_open(plan->uri, "main", &options, &store, &err);
  if (code != PD_OK) {
    if (!plan->is_doomed) printf("# writer: open: %s\n", err.message);
    fflush(stdout);
    return 1;
  }
  static writer_thread threads[WRITER_THREADS];
  pthread_t ids[WRITER_THREADS];
  for (unsigned i = 0; i < plan->thread_count; i++) {
    threads[i] = (writer_thread){.plan = plan, .store = store, .index = i, .random = plan->seed * 77 + i, .number = plan->number_from};
    if (pthread_create(&ids[i], NULL, write_until_killed, &threads[i]) != 0) abort();
  }
  bool has_failed = false;
  for (unsigned i = 0; i < plan->thread_count; i++) {
    pthread_join(ids[i], NULL);
    has_failed |= threads[i].has_failed;
  }
  code = pd_store_close(store, &err);
  if (code != PD_OK && !plan->is_doomed) printf("# writer: close: %s\n", err.message);
  fflush(stdout);
  return has_failed || code != PD_OK;
}

/* ---- the ledger ---- */

void writer_ledger_done(writer_ledger *ledger)
{
  free(ledger->reports);
  *ledger = (writer_ledger){0};
}

static void keep(writer_ledger *ledger, const writer_report *report)
{
  if (ledger->count == ledger->room) {
    ledger->room = ledger->room ? 2 * ledger->room : 1024;
    ledger->reports = realloc(ledger->reports, ledger->room * sizeof *report);
    if (!ledger->reports) abort();
  }
  ledger->reports[ledger->count++] = *report;
  if (!report->is_fork) ledger->last[report->line][report->thread][report->key] = report->number;
}

bool writer_ledger_read(writer_ledger *ledger, int pipe, bool until_end)
{
  int flags = fcntl(pipe, F_GETFL);
  fcntl(pipe, F_SETFL, until_end ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
  for (;;) {
    writer_report report;
    ssize_t n = read(pipe, &report, sizeof report);
    if (n == sizeof report)
      keep(ledger, &report);
    else if (n < 0 && errno == EINTR)
      continue;
    else
      return n < 0 && errno == EAGAIN;
  }
}

static bool check_report(const writer_report *r, pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char key[32], at[PD_ID_HEX_SIZE];
  pd_error err = {0};
  pd_ref ref;
  uint64_t number = 0;
  if (r->is_fork) {
    if (pd_ref_get(store, r->ref, &ref, &err) == PD_OK && pd_id_equal(&ref.commit.id, &r->commit)) return true;
    printf("# acknowledged fork '%s' is lost: %s\n", r->ref, err.message);
    return false;
  }
  key_name(r->thread, r->key, key);
  pd_id_hex(&r->commit, at);
  pd_code code = pd_get(store, at, pd_text(key), &value, NULL, &err);
  if (code == PD_OK && crash_value_number(pd_buf_bytes(&value), &number) && number == r->number) return true;
  printf("# acknowledged write %llu of '%s' at %s is lost: %s\n", (unsigned long long)r->number, key, at,
         code ? err.message : "another value");
  return false;
}

/* W2. */
static bool check_head(const writer_ledger *ledger, pd_store *store, unsigned line, unsigned thread, unsigned k)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char key[32], ref[32] = "main";
  pd_error err = {0};
  uint64_t number = 0, last = ledger->last[line][thread][k];
  if (!last) return true;
  if (line) snprintf(ref, sizeof ref, "line%u", thread);
  key_name(thread, k, key);
  pd_code code = pd_get(store, ref, pd_text(key), &value, NULL, &err);
  if (code == PD_OK && crash_value_number(pd_buf_bytes(&value), &number) && number >= last) return true;
  printf("# '%s' on %s is at %llu, but %llu was acknowledged: %s\n", key, ref, (unsigned long long)number, (unsigned long long)last,
         code ? err.message : "");
  return false;
}

bool writer_ledger_check(const writer_ledger *ledger, pd_store *store, size_t from)
{
  bool is_right = true;
  for (size_t i = from; i < ledger->count; i++) is_right &= check_report(&ledger->reports[i], store);
  for (size_t i = 0; from && i < 50; i++) is_right &= check_report(&ledger->reports[crash_random(from)], store);
  for (unsigned line = 0; line < WRITER_LINES; line++)
    for (unsigned thread = 0; thread < WRITER_THREADS; thread++)
      for (unsigned key = 0; key < WRITER_KEYS; key++) is_right &= check_head(ledger, store, line, thread, key);
  return is_right;
}
