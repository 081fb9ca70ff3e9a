/* audit.c: where calls leave their lines, and the thread that has them written. Invariants A1 to A5 are in audit.h. */
#include "state/audit.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/tiers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TEXT_MAX 128     /* of an agent, a session, an approval or an unknown capability: all that is longer is no real one */
#define RETRY_MS_MIN 100 /* after a write that failed */
#define RETRY_MS_MAX 5000

struct pd_audit {
  pd_home *home;
  pthread_mutex_t write_lock; /* one writer at a time; taken before `lock` */
  pd_audit_batch writing;     /* under write_lock */
  pthread_mutex_t lock;       /* of all below */
  pthread_cond_t wake, room;
  pd_audit_batch waiting;
  uint64_t added, written; /* tickets */
  uint64_t lost, failures; /* failures: in a row */
  char message[256];
  pthread_t thread;
  bool has_thread, is_closing, is_urgent;
  atomic_bool is_roomy; /* there is room for many more, and a thread that writes them: nobody has to wait */
  pd_audit_joined *joined;
};

/* ---- a batch in memory ---- */

pd_bytes pd_audit_text(const pd_audit_batch *batch, const pd_audit_line *line, int which)
{
  size_t at = line->text_at;
  for (int i = 0; i < which; i++) at += line->sizes[i];
  return (pd_bytes){batch->texts.data + at, line->sizes[which]};
}

static void batch_clear(pd_audit_batch *batch)
{
  batch->count = batch->lost = 0;
  pd_buf_clear(&batch->texts);
  if (batch->alike.slots) memset(batch->alike.slots, 0, batch->alike.size * sizeof *batch->alike.slots);
  batch->alike.count = 0;
}

static void batch_done(pd_audit_batch *batch)
{
  free(batch->lines);
  pd_buf_done(&batch->texts);
  pd_map64_done(&batch->alike);
}

static bool batch_is_full(const pd_audit_batch *batch)
{
  return batch->count >= PD_AUDIT_LINES_MAX || batch->texts.size + PD_KEY_SIZE_MAX + 5 * TEXT_MAX > PD_AUDIT_TEXTS_MAX;
}

static bool batch_is_empty(const pd_audit_batch *batch)
{
  return !batch->count && !batch->lost;
}

static pd_bytes cut(pd_bytes text, size_t most)
{
  return (pd_bytes){text.data, text.size < most ? text.size : most};
}

/* The texts of an entry, in the order of the line. */
static void texts_of(const pd_audit_entry *entry, const char *known, pd_bytes out[PD_AUDIT_TEXT_COUNT])
{
  out[PD_AUDIT_AGENT] = cut(pd_text(entry->agent), TEXT_MAX);
  out[PD_AUDIT_SESSION] = cut(pd_text(entry->session), TEXT_MAX);
  out[PD_AUDIT_APPROVAL] = cut(pd_text(entry->approval), TEXT_MAX);
  out[PD_AUDIT_SUBJECT] = cut(entry->subject, PD_KEY_SIZE_MAX);
  out[PD_AUDIT_TOKEN] = cut(pd_text(entry->token ? entry->token : ""), TEXT_MAX);
  out[PD_AUDIT_NAME] = known ? (pd_bytes){0} : cut(pd_text(entry->capability), TEXT_MAX);
}

static bool is_alike(const pd_audit_batch *batch, const pd_audit_line *line, const pd_audit_entry *entry, const char *known,
                     const pd_bytes texts[PD_AUDIT_TEXT_COUNT])
{
  if (line->capability != known || line->outcome != entry->outcome || line->permission != entry->permission ||
      line->is_operator != entry->is_operator || line->has_commit || !pd_id_equal(&line->input_hash, &entry->input_hash))
    return false;
  const uint8_t *at = batch->texts.data + line->text_at;
  for (int i = 0; i < PD_AUDIT_TEXT_COUNT; i++) {
    if (line->sizes[i] != texts[i].size || (texts[i].size && memcmp(at, texts[i].data, texts[i].size) != 0)) return false;
    at += line->sizes[i];
  }
  return true;
}

static pd_code append_line(pd_audit_batch *batch, const pd_audit_entry *entry, const char *known, const pd_bytes *texts)
{
  TRY(pd_array_grow(&batch->lines, batch->count, &batch->capacity, sizeof batch->lines[0], "audit lines", NULL));
  pd_audit_line *line = &batch->lines[batch->count];
  *line = (pd_audit_line){
    .first_ms = entry->first_ms ? entry->first_ms : entry->time_ms,
    .last_ms = entry->time_ms,
    .capability = known,
    .outcome = entry->outcome,
    .input_hash = entry->input_hash,
    .count = entry->count ? entry->count : 1,
    .text_at = (uint32_t)batch->texts.size,
    .permission = (uint8_t)entry->permission,
    .is_operator = entry->is_operator,
    .has_commit = entry->commit != NULL,
  };
  if (entry->commit) line->commit = *entry->commit;
  for (int i = 0; i < PD_AUDIT_TEXT_COUNT; i++) line->sizes[i] = (uint16_t)texts[i].size;
  TRY(pd_buf_append_all(&batch->texts, texts, PD_AUDIT_TEXT_COUNT, NULL));
  batch->count++;
  return PD_OK;
}

/* Refused before anything was done: nobody waits for evidence of it, and whoever tries again and again shall not fill the disk. */
static bool is_refused(const pd_audit_entry *entry)
{
  return strcmp(entry->outcome, "PermissionDenied") == 0 && !entry->is_operator;
}

/* A3, or a line of its own. */
static pd_code batch_add(pd_audit_batch *batch, const pd_audit_entry *entry, const char *known)
{
  pd_bytes texts[PD_AUDIT_TEXT_COUNT];
  texts_of(entry, known, texts);
  bool is_shared = entry->permission == PD_PERMIT_AUTONOMOUS || entry->is_hasty || is_refused(entry);
  if (entry->commit || !is_shared) return append_line(batch, entry, known, texts);
  uint64_t mark;
  memcpy(&mark, entry->input_hash.bytes, sizeof mark);
  mark = pd_mix64(mark, (uintptr_t)entry->outcome ^ (texts[0].size ? *(const uint8_t *)texts[0].data : 0u));
  uint32_t *slot;
  if (pd_map64_add(&batch->alike, mark, &slot, NULL, NULL)) return append_line(batch, entry, known, texts);
  if (*slot && is_alike(batch, &batch->lines[*slot - 1], entry, known, texts)) {
    pd_audit_line *line = &batch->lines[*slot - 1];
    line->count += entry->count ? entry->count : 1;
    if (entry->first_ms && entry->first_ms < line->first_ms) line->first_ms = entry->first_ms;
    if (entry->time_ms > line->last_ms) line->last_ms = entry->time_ms;
    return PD_OK;
  }
  TRY(append_line(batch, entry, known, texts));
  *slot = (uint32_t)batch->count;
  return PD_OK;
}

/* ---- writing ---- */

static void note_result(pd_audit *audit, pd_code code, const pd_error *why)
{
  pthread_mutex_lock(&audit->lock);
  audit->failures = code ? audit->failures + 1 : 0;
  if (code)
    snprintf(audit->message, sizeof audit->message, "%.250s", why->message);
  else
    audit->written = audit->writing.tickets;
  pthread_cond_broadcast(&audit->room); /* those who wait for room see it, or see that there will be none */
  pthread_mutex_unlock(&audit->lock);
}

static pd_code write_once(pd_audit *audit, pd_error *err)
{
  pd_error why = {0};
  pd_code code = pd_audit_write(audit->home, &audit->writing, &why);
  if (code && err) *err = why;
  note_result(audit, code, &why);
  if (code == PD_OK) batch_clear(&audit->writing);
  return code;
}

/* Write until `ticket` is written. What failed before goes first, so lines stay in order. */
static pd_code write_until(pd_audit *audit, uint64_t ticket, pd_error *err)
{
  pd_code code = PD_OK;
  pthread_mutex_lock(&audit->write_lock);
  while (code == PD_OK) {
    if (batch_is_empty(&audit->writing)) {
      pthread_mutex_lock(&audit->lock);
      bool is_done = audit->written >= ticket || batch_is_empty(&audit->waiting);
      if (!is_done) {
        pd_audit_batch closed = audit->waiting;
        closed.tickets = audit->added;
        audit->waiting = audit->writing;
        audit->writing = closed;
        audit->is_urgent = false;
        pthread_cond_broadcast(&audit->room);
      }
      pthread_mutex_unlock(&audit->lock);
      if (is_done) break;
    }
    code = write_once(audit, err);
  }
  pthread_mutex_unlock(&audit->write_lock);
  return code;
}

/* Wait on `wake` for at most `ms`, or until `audit` is closing or `is_urgent`. Under `lock`. */
static void nap(pd_audit *audit, uint64_t ms, bool wakes_for_urgent)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(ms / 1000);
  until.tv_nsec += (long)(ms % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  while (!audit->is_closing && !(wakes_for_urgent && audit->is_urgent))
    if (pthread_cond_timedwait(&audit->wake, &audit->lock, &until)) return;
}

static void *write_now_and_then(void *ctx)
{
  pd_audit *audit = ctx;
  pthread_mutex_lock(&audit->lock);
  while (!audit->is_closing) {
    if (audit->failures) {
      uint64_t ms = audit->failures > 6 ? RETRY_MS_MAX : (uint64_t)RETRY_MS_MIN << (audit->failures - 1);
      nap(audit, ms, false);
    } else if (batch_is_empty(&audit->waiting)) {
      pthread_cond_wait(&audit->wake, &audit->lock);
      continue;
    } else {
      nap(audit, audit->home->config.audit_flush_ms * 3 / 4, true); /* the rest is for the write */
    }
    uint64_t ticket = audit->added;
    pthread_mutex_unlock(&audit->lock);
    if (write_until(audit, ticket, NULL)) {
      /* note_result has counted it; the loop naps and tries again */
    }
    pthread_mutex_lock(&audit->lock);
  }
  pthread_mutex_unlock(&audit->lock);
  return NULL;
}

/* Under `lock`. Without a thread (no memory for one) every call writes for itself. */
static bool has_thread(pd_audit *audit)
{
  if (!audit->has_thread) audit->has_thread = pthread_create(&audit->thread, NULL, write_now_and_then, audit) == 0;
  return audit->has_thread;
}

/* Under `lock`, after whatever changes it. */
static void note_room(pd_audit *audit)
{
  const pd_audit_batch *waiting = &audit->waiting;
  bool is_near = waiting->count >= PD_AUDIT_LINES_MAX / 4 * 3 || waiting->texts.size >= PD_AUDIT_TEXTS_MAX / 4 * 3;
  atomic_store_explicit(&audit->is_roomy, audit->has_thread && !is_near, memory_order_relaxed);
}

/* ---- the front ---- */

/* Room for one more line, A5. Under `lock`. */
static bool has_room(pd_audit *audit)
{
  while (batch_is_full(&audit->waiting)) {
    audit->is_urgent = true;
    pthread_cond_signal(&audit->wake);
    if (audit->failures || audit->is_closing || !has_thread(audit)) return false;
    pthread_cond_wait(&audit->room, &audit->lock);
  }
  return true;
}

void pd_audit_add(pd_home *home, const pd_audit_entry *entry)
{
  pd_audit *audit = home->audit;
  bool is_watched = entry->permission == PD_PERMIT_APPROVAL || entry->permission == PD_PERMIT_OPERATOR;
  bool is_now = !home->config.audit_flush_ms || (is_watched && !is_refused(entry));
  pthread_mutex_lock(&audit->lock);
  if (!has_room(audit) || batch_add(&audit->waiting, entry, entry->is_known ? entry->capability : NULL)) {
    audit->lost++;
    audit->waiting.lost++;
  }
  uint64_t ticket = ++audit->added;
  if (!is_now && !has_thread(audit)) is_now = true;
  bool is_first = audit->waiting.count == 1;
  if (audit->waiting.count > PD_AUDIT_LINES_MAX / 2) audit->is_urgent = is_first = true;
  if (!is_now && is_first) pthread_cond_signal(&audit->wake);
  note_room(audit);
  pthread_mutex_unlock(&audit->lock);
  if (is_now && write_until(audit, ticket, NULL)) {
    pthread_mutex_lock(&audit->lock);
    if (has_thread(audit)) pthread_cond_signal(&audit->wake); /* it tries again */
    pthread_mutex_unlock(&audit->lock);
  }
}

bool pd_audit_add_hasty(pd_home *home, const pd_audit_entry *entry)
{
  pd_audit *audit = home->audit;
  pthread_mutex_lock(&audit->lock);
  bool is_added = !batch_is_full(&audit->waiting) && batch_add(&audit->waiting, entry, entry->is_known ? entry->capability : NULL) == PD_OK;
  if (is_added) audit->added++;
  bool is_urgent = audit->waiting.count > PD_AUDIT_LINES_MAX / 2;
  if (is_urgent) audit->is_urgent = true;
  if (!audit->is_closing && has_thread(audit) && (is_urgent || audit->waiting.count == 1))
    pthread_cond_signal(&audit->wake); /* without a thread, the next call or the close writes it */
  note_room(audit);
  pthread_mutex_unlock(&audit->lock);
  return is_added;
}

void pd_audit_lose(pd_home *home)
{
  pd_audit *audit = home->audit;
  pthread_mutex_lock(&audit->lock);
  audit->lost++;
  audit->waiting.lost++;
  pthread_mutex_unlock(&audit->lock);
}

pd_audit_joined *pd_audit_joined_of(pd_home *home)
{
  return home->audit->joined;
}

bool pd_audit_must_wait(pd_home *home)
{
  pd_audit *audit = home->audit;
  if (!home->config.audit_flush_ms) return true;
  if (atomic_load_explicit(&audit->is_roomy, memory_order_relaxed)) return false;
  pthread_mutex_lock(&audit->lock);
  (void)has_thread(audit);
  note_room(audit);
  pthread_mutex_unlock(&audit->lock);
  return !atomic_load_explicit(&audit->is_roomy, memory_order_relaxed);
}

pd_code pd_audit_flush(pd_home *home, pd_error *err)
{
  pd_audit *audit = home->audit;
  pd_audit_joined_tell(home);
  pthread_mutex_lock(&audit->lock);
  uint64_t ticket = audit->added;
  pthread_mutex_unlock(&audit->lock);
  return write_until(audit, ticket, err);
}

void pd_audit_status_get(pd_home *home, pd_audit_status *out)
{
  pd_audit *audit = home->audit;
  pthread_mutex_lock(&audit->lock);
  *out = (pd_audit_status){.waiting = audit->waiting.count, .lost = audit->lost, .is_failing = audit->failures > 0};
  if (audit->failures) memcpy(out->message, audit->message, sizeof out->message);
  pthread_mutex_unlock(&audit->lock);
}

pd_code pd_audit_new(pd_home *home, pd_audit **out, pd_error *err)
{
  pd_audit *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "the audit");
  made->home = home;
  pd_code code = pd_audit_joined_new(&made->joined, err);
  if (code) {
    free(made);
    return code;
  }
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&made->wake, &monotonic);
  pthread_cond_init(&made->room, NULL);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&made->lock, NULL);
  pthread_mutex_init(&made->write_lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_audit_free(pd_audit *audit)
{
  if (!audit) return;
  pthread_mutex_lock(&audit->lock);
  audit->is_closing = true;
  pthread_cond_broadcast(&audit->wake);
  bool has_thread = audit->has_thread;
  pthread_mutex_unlock(&audit->lock);
  if (has_thread) pthread_join(audit->thread, NULL);
  if (pd_audit_flush(audit->home, NULL)) {
    /* nobody is left who could be told; the lines are lost with the process */
  }
  pd_audit_joined_free(audit->joined);
  batch_done(&audit->waiting);
  batch_done(&audit->writing);
  pthread_cond_destroy(&audit->wake);
  pthread_cond_destroy(&audit->room);
  pthread_mutex_destroy(&audit->lock);
  pthread_mutex_destroy(&audit->write_lock);
  free(audit);
}
