/*
 * flush.c: from staged to acknowledged. The first thread that finds no flush in progress appends all that is pending as one batch, with one
 * sync; those that come meanwhile stage behind it and share the next one.
 *
 * Why nobody waits for ever. A record is pending, then in flight, then concluded: published, failed, or void (to be staged again). Only
 * the thread that set is_flushing moves it on, and it gives the lock up in three places: while others stage (gather), during the append,
 * and while it tells those concluded. It waits for nobody: not for the gate, not for a claim. So every flush ends. Whoever needs a batch
 * to end (pd_ticket_wait, pd_settle, pd_log_reach, refresh_up_to, wait_for_batch_of, pd_publish_buffered) waits only while is_flushing is
 * set, and flushes otherwise: it needs no particular thread, and that the owner of a staged record is not there yet (pd_put_later) delays
 * nobody.
 * A flusher that ends wakes all that wait on `changed`, and calls one owner of a pending record (call_next), whose semaphore keeps the
 * call.
 * The gate stops new commits while somebody settles; pd_settle holds it only until what was staged before is concluded, so it opens. A
 * batch that fails voids all that was staged on top of it (E4), a conflict with another process voids it, too; each restaging waits for an
 * append, which takes the other's records into account. A refusal waits for at most REFUSED_TRIES (write.c)
 * batches, then settles, and is final (E7).
 *
 * Buffered stores: commits are acknowledged when they are staged, and a batch of them that fails stays in flight and is tried again. What
 * is waited for (moves of refs, pd_write_many) is taken back when it fails: its caller was told so (FL1, write.c). It holds the
 * gate until it is concluded, which takes one append.
 */
#include "engine/flush.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "engine/retired.h"

#include <sched.h>
#include <stdlib.h>

#define RECORDS_ON_STACK 64

/* ---- appending ---- */

static pd_code put_blobs(pd_store *s, const pd_batch *batch, pd_error *err)
{
  for (size_t i = 0; i < batch->blob_count; i++) {
    pd_bytes blob = pd_buf_bytes(&batch->blobs[i].bytes);
    TRY(s->ops->bag_put(s->backend, &batch->blobs[i].id, &blob, 1, err));
  }
  return PD_OK;
}

/* Without the lock: nobody else touches a batch in flight. */
static pd_code append_batch(pd_store *s, const pd_batch *batch, pd_error *err)
{
  pd_bytes few[RECORDS_ON_STACK], *records = few;
  if (batch->count > RECORDS_ON_STACK && !(records = malloc(batch->count * sizeof *records))) return pd_error_memory(err, "a batch");
  for (size_t i = 0; i < batch->count; i++)
    records[i] = (pd_bytes){batch->bytes.data + batch->staged[i].record_at, batch->staged[i].record_size};
  pd_code code = put_blobs(s, batch, err);
  if (!code) code = s->ops->log_append(s->backend, batch->staged[0].seq, records, batch->count, err);
  if (records != few) free(records);
  return code;
}

/* ---- outcomes ---- */

static void conclude_ticket(pd_store *s, pd_ticket *ticket, bool is_done)
{
  ticket->next = s->concluded;
  s->concluded = ticket;
  __atomic_store_n(&ticket->state, is_done ? PD_DONE : PD_MUST_RESTAGE, __ATOMIC_RELEASE);
}

/* Gives the lock up meanwhile. */
static void tell_concluded(pd_store *s)
{
  pd_ticket *ticket = s->concluded;
  s->concluded = NULL;
  pd_store_unlock(s);
  while (ticket) {
    pd_ticket *next = ticket->next; /* once it is told, it is gone */
    sem_post(&ticket->wake);
    ticket = next;
  }
  pd_store_lock(s);
}

static void publish_head(pd_store *s, pd_ref_slot *slot, const pd_head *head)
{
  if (head->last_seq <= slot->seen.last_seq) return; /* a buffered commit on top of it was seen already */
  pd_head_copy(s, &slot->seen, head);
}

static void publish_seq(pd_store *s, const pd_staged *st)
{
  if (st->seq <= s->seen_seq) return;
  pd_see(s, st->seq);
  s->seen_audit = st->audit;
  s->seen_time_ms = st->time_ms;
}

static void publish(pd_store *s, pd_staged *st)
{
  if (st->slot) publish_head(s, st->slot, &st->head);
  publish_seq(s, st);
  if (st->is_retention) pd_retention_changed(s); /* G9: before anybody else gets the lock */
  s->log_seq = st->seq;
  s->tail_bytes += st->record_size;
  if (st->kind == PD_RECORD_COMMIT) {
    pd_run_add(s, &st->head.commit.id, st->seq);
    s->commits++;
  }
  if (st->kind == PD_RECORD_SWITCH) memcpy(s->current, st->slot->name, sizeof s->current);
  if (st->kind == PD_RECORD_KEYFRAME) pd_frame_add(s, &st->frame);
  if (st->ticket) conclude_ticket(s, st->ticket, true);
}

static void fail_batch(pd_store *s, const pd_batch *batch, const pd_error *err)
{
  for (size_t i = 0; i < batch->count; i++) {
    pd_ticket *ticket = batch->staged[i].ticket;
    if (!ticket) continue;
    ticket->code = err->code;
    ticket->err = *err;
    conclude_ticket(s, ticket, true);
  }
}

static void restage_batch(pd_store *s, const pd_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->staged[i].ticket) conclude_ticket(s, batch->staged[i].ticket, false);
}

/* E4: everything staged is void. */
void pd_rewind_tips(pd_store *s)
{
  s->voided++;
  pd_batch_clear(s, &s->inflight);
  pd_batch_clear(s, &s->pending);
  for (size_t i = 0; i < s->slot_count; i++) pd_head_copy(s, &s->slots[i]->tip, &s->slots[i]->seen);
  s->tip_seq = s->seen_seq;
  s->tip_audit = s->seen_audit;
  s->tip_time_ms = s->seen_time_ms;
}

void pd_release_claim(pd_store *s)
{
  if (!s->is_claimed || s->pending.count || s->inflight.count) return;
  s->ops->log_release(s->backend);
  s->is_claimed = false;
}

/* Of a buffered store: what somebody waits for, a move or a pd_write_many, and so was not acknowledged yet. */
static bool is_awaited(const pd_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->staged[i].ticket && batch->staged[i].kind != PD_RECORD_KEYFRAME) return true;
  return false;
}

static void conclude(pd_store *s, const pd_error *err)
{
  if (!err->code) {
    for (size_t i = 0; i < s->inflight.count; i++) publish(s, &s->inflight.staged[i]);
    pd_batch_clear(s, &s->inflight);
    s->flush_error.code = PD_OK;
    pd_release_claim(s);
  } else if (s->is_buffered && (is_awaited(&s->inflight) || is_awaited(&s->pending))) {
    fail_batch(s, &s->inflight, err); /* the gate was shut (FL1): nothing that was acknowledged is among it */
    fail_batch(s, &s->pending, err);
    pd_rewind_tips(s);
    s->flush_error.code = PD_OK; /* its owner has it */
  } else if (s->is_buffered) {
    s->flush_error = *err; /* the batch stays in flight and is tried again */
    fail_batch(s, &s->inflight, err);
    fail_batch(s, &s->pending, err); /* it waits behind the one that fails: its owners would spin until the disk is well */
    for (size_t i = 0; i < s->inflight.count; i++) s->inflight.staged[i].ticket = NULL; /* its owner leaves */
    for (size_t i = 0; i < s->pending.count; i++) s->pending.staged[i].ticket = NULL;
  } else {
    if (err->code == PD_CONFLICT)
      restage_batch(s, &s->inflight); /* another process was first */
    else
      fail_batch(s, &s->inflight, err);
    restage_batch(s, &s->pending);
    pd_rewind_tips(s);
  }
}

/* One of those who wait behind the batch that ended flushes next. Under the lock: it cannot be concluded, and leave, meanwhile.
 * If nobody waits yet, whoever does first finds that nobody flushes. */
static void call_next(pd_store *s)
{
  for (size_t i = 0; i < s->pending.count; i++) {
    pd_ticket *ticket = s->pending.staged[i].ticket;
    if (!ticket || !ticket->is_awaited) continue;
    ticket->calls++;
    sem_post(&ticket->wake);
    return;
  }
}

/* After commits: is a keyframe or gc due, is the cache too large? */
void pd_look_after(pd_store *s)
{
  if (pd_keyframe_is_due(s)) {
    s->wants_keyframe = true;
    if (!pd_keeper_start(s, NULL)) pthread_cond_signal(&s->work); /* without a keeper it is written at close */
  }
  if (!pd_disk_is_refusing() && pd_auto_gc_is_near(s)) pd_auto_gc_look(s); /* it reads; the next flush looks, too */
  pd_cache_trim(s);
}

/* Others were writing a moment ago: let those that are on their way stage first, and one sync serves them all. */
static void gather(pd_store *s)
{
  for (size_t before = 0; s->group_size > 1 && s->pending.count < s->group_size && s->pending.count > before;) {
    before = s->pending.count;
    pd_store_unlock(s);
    sched_yield();
    pd_store_lock(s);
  }
}

static void count_sync(pd_store *s, int64_t us, size_t records)
{
  s->syncs++;
  s->sync_us += (uint64_t)us;
  s->group_count += records;
  s->sync_steps[pd_counter_step((uint64_t)us)]++;
  s->group_steps[pd_counter_step(records)]++;
}

/* One batch; false if there is none, or it failed. With is_flushing set, which keeps others away while the lock is given up. */
static bool flush_one(pd_store *s)
{
  if (!s->inflight.count) {
    if (!s->pending.count) return false;
    pd_batch swap = s->inflight;
    s->inflight = s->pending;
    s->pending = swap;
  }
  pd_error err = {.code = PD_OK};
  bool has_commits = s->inflight.staged[0].kind != PD_RECORD_KEYFRAME;
  s->group_size = (s->group_size + 2 * s->inflight.count) / 2; /* about twice the last: those in flight, and those behind them */
  size_t records = s->inflight.count;
  pd_store_unlock(s);
  int64_t begun_us = pd_clock_monotonic_us();
  err.code = append_batch(s, &s->inflight, &err);
  int64_t us = pd_clock_monotonic_us() - begun_us;
  pd_store_lock(s);
  count_sync(s, us, records);
  conclude(s, &err);
  if (s->followers) pd_store_wake(s);
  if (has_commits && !err.code) pd_look_after(s);
  tell_concluded(s);
  return !err.code;
}

static void flush_batches(pd_store *s, unsigned count_max)
{
  s->is_flushing = true;
  for (unsigned i = 0; i < count_max; i++) {
    if (!s->is_buffered) gather(s);
    if (!flush_one(s)) break;
  }
  s->is_flushing = false;
  pd_store_wake(s);
  if (s->is_buffered) pthread_cond_signal(&s->work); /* what came meanwhile has a time of its own */
  call_next(s);
}

void pd_flush_batch(pd_store *s)
{
  flush_batches(s, 1);
}

pd_code pd_settle(pd_store *s, pd_error *err)
{
  pd_code code = PD_OK;
  if (s->pending.count || s->inflight.count) TRY(pd_disk_may_read(err)); /* for a flush that one who is refused must not begin */
  s->gate++;                                                             /* no new commits: else this could wait for ever */
  while (!code && (s->pending.count || s->inflight.count)) {
    if (s->is_flushing) {
      pd_store_wait(s);
      continue;
    }
    pd_flush_batch(s);
    code = s->flush_error.code;
    if (code && err) *err = s->flush_error;
  }
  if (!--s->gate) pd_store_wake(s);
  return code;
}

pd_code pd_log_reach(pd_store *s, uint64_t seq, pd_error *err)
{
  pd_code code = PD_OK;
  s->followers++;
  while (!code && s->log_seq < seq && (s->pending.count || s->inflight.count)) {
    if (s->is_flushing) {
      pd_store_wait(s);
      continue;
    }
    pd_flush_batch(s);
    code = s->flush_error.code;
    if (code && err) *err = s->flush_error;
  }
  s->followers--;
  return code;
}

/* ---- waiting ---- */

static void hear(pd_ticket *ticket, unsigned *heard)
{
  while (sem_wait(&ticket->wake) != 0) continue; /* a signal came */
  ++*heard;
}

/* Whoever concluded it may be just about to say so. */
void pd_ticket_hear_all(pd_ticket *ticket, unsigned heard)
{
  while (heard < ticket->calls + 1) hear(ticket, &heard);
}

bool pd_ticket_is_concluded(const pd_ticket *ticket)
{
  return __atomic_load_n(&ticket->state, __ATOMIC_ACQUIRE) != PD_WAITING;
}

/* Until the ticket is concluded. Who finds nobody flushing flushes up to `batches_max`. With the lock held on entry, and without it on
 * return. */
void pd_ticket_wait(pd_store *s, pd_ticket *ticket, unsigned batches_max)
{
  unsigned heard = 0;
  ticket->is_awaited = true;
  while (ticket->state == PD_WAITING) {
    if (s->is_flushing) {
      pd_store_unlock(s);
      hear(ticket, &heard);
      if (pd_ticket_is_concluded(ticket)) goto concluded;
      pd_store_lock(s);
    } else {
      flush_batches(s, batches_max);
    }
  }
  pd_store_unlock(s);
concluded:
  pd_ticket_hear_all(ticket, heard);
}

/* Buffered: what is staged is seen at once; the keeper appends it in time. */
void pd_publish_buffered(pd_store *s)
{
  pd_staged *st = &s->pending.staged[s->pending.count - 1];
  publish_head(s, st->slot, &st->head);
  pd_head_done(s, &st->head); /* the ref has it now; thousands of old roots would fill the cache */
  publish_seq(s, st);
  if (st->is_retention) pd_retention_changed(s);
  if (s->pending.count == 1) {
    s->pending_since_ms = pd_clock_monotonic_ms();
    pthread_cond_signal(&s->work);
  }
  while (s->pending.bytes.size > PD_PENDING_SIZE_MAX && !s->flush_error.code) {
    if (s->is_flushing)
      pd_store_wait(s);
    else
      pd_flush_batch(s);
  }
}
