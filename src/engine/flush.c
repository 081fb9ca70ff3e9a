/*
 * flush.c: from staged to acknowledged. The first thread that finds no flush in progress appends all that is pending as one batch, with one
 * sync; those that come meanwhile stage behind it and share the next one.
 *
 * Why nobody waits for ever. A record is pending, then in flight, then concluded: published, failed, or void (to be staged again). Only
 * the thread that set is_flushing moves it on, and it gives the lock up in three places: while others stage (gather), during the append,
 * and while it tells those concluded. It waits for nobody: not for the gate, not for a claim. So every flush ends. Whoever needs a batch
 * to end (wait_for, pd_settle, refresh_up_to, wait_for_batch_of, buffer) waits only while is_flushing is set, and flushes otherwise: it
 * needs no particular thread, and that the owner of a staged record is not there yet (pd_put_later) delays nobody. A flusher that ends
 * wakes all that wait on `changed`, and calls one owner of a pending record (call_next), whose semaphore keeps the call.
 * The gate stops new commits while somebody settles; pd_settle holds it only until what was staged before is concluded, so it opens. A
 * batch that fails voids all that was staged on top of it (E4), a conflict with another process voids it, too; each restaging waits for an
 * append, which takes the other's records into account. A refusal waits for at most REFUSED_TRIES batches, then settles, and is final (E7).
 *
 * Buffered stores: commits are acknowledged when they are staged, and a batch of them that fails stays in flight and is tried again. What
 * is waited for (moves of refs, pd_write_many) is taken back when it fails: its caller was told so (FL1, at shut_gate). It holds the
 * gate until it is concluded, which takes one append.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/retired.h"

#include <sched.h>
#include <stdlib.h>

#define RECORDS_ON_STACK 64
#define REFUSED_TRIES 4    /* then with nothing staged, for which others have to wait */
#define LEAD_BATCHES_MAX 8 /* who flushes goes on with what came meanwhile: until another is awake, the disk would idle */

/* ---- appending ---- */

static pd_code put_blobs(pd_store *s, const pd_batch *batch, pd_error *err)
{
  for (size_t i = 0; i < batch->blob_count; i++) {
    pd_bytes blob = pd_buf_bytes(&batch->blobs[i]);
    TRY(s->ops->bag_put(s->backend, &batch->blob_ids[i], &blob, 1, err));
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
  s->seen_seq = st->seq;
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
static void rewind_tips(pd_store *s)
{
  s->voided++;
  pd_batch_clear(s, &s->inflight);
  pd_batch_clear(s, &s->pending);
  for (size_t i = 0; i < s->slot_count; i++) pd_head_copy(s, &s->slots[i]->tip, &s->slots[i]->seen);
  s->tip_seq = s->seen_seq;
  s->tip_audit = s->seen_audit;
  s->tip_time_ms = s->seen_time_ms;
}

static void release_claim(pd_store *s)
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
    release_claim(s);
  } else if (s->is_buffered && (is_awaited(&s->inflight) || is_awaited(&s->pending))) {
    fail_batch(s, &s->inflight, err); /* the gate was shut (FL1): nothing that was acknowledged is among it */
    fail_batch(s, &s->pending, err);
    rewind_tips(s);
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
    rewind_tips(s);
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
static void look_after(pd_store *s)
{
  if (pd_keyframe_is_due(s)) {
    s->wants_keyframe = true;
    if (!pd_keeper_start(s, NULL)) pthread_cond_signal(&s->work); /* without a keeper it is written at close */
  }
  if (pd_auto_gc_is_near(s)) pd_auto_gc_look(s);
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
  if (has_commits && !err.code) look_after(s);
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
  s->gate++; /* no new commits: else this could wait for ever */
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

/* ---- the door ---- */

/* A buffered store keeps other processes from appending while it holds unwritten commits, so that their ids stay true. */
static pd_code claim(pd_store *s, pd_error *err)
{
  while (s->is_claiming) pd_store_wait(s);
  if (s->is_claimed) return PD_OK;
  s->is_claiming = true;
  pd_store_unlock(s);
  pd_code code = s->ops->log_claim(s->backend, err);
  pd_store_lock(s);
  s->is_claiming = false;
  pd_store_wake(s);
  if (code) return code;
  s->is_claimed = true;
  code = pd_catch_up(s, err);
  if (code) release_claim(s);
  return code;
}

static bool is_waited_for(const pd_store *s, const pd_intent *intent)
{
  return !s->is_buffered || intent->kind != PD_RECORD_COMMIT;
}

static pd_code prepare_buffered(pd_store *s, pd_error *err)
{
  if (s->ops->health) TRY(s->ops->health(s->backend, err)); /* a sync failed: what is buffered will not be written */
  TRY(pd_keeper_start(s, err));
  TRY(claim(s, err));
  if (!s->flush_error.code || s->pending.bytes.size <= PD_PENDING_SIZE_MAX) return PD_OK;
  if (err) *err = s->flush_error; /* the disk has been refusing for a while */
  return s->flush_error.code;
}

static bool has_staged(const pd_store *s)
{
  return s->pending.count || s->inflight.count;
}

/* For what looks into the past: nothing may be staged, not even what came while the log was being claimed. */
static pd_code prepare_settled(pd_store *s, pd_error *err)
{
  pd_code code = PD_OK;
  s->gate++; /* else others could stage each time that the lock is given up */
  do {
    code = pd_settle(s, err);
    if (!code && s->is_buffered) code = prepare_buffered(s, err);
  } while (!code && has_staged(s));
  if (!code) code = pd_refresh(s, err);
  if (!--s->gate) pd_store_wake(s);
  return code;
}

static pd_code prepare(pd_store *s, const pd_intent *intent, pd_error *err)
{
  if (pd_intent_points_back(intent)) return prepare_settled(s, err);
  do {
    if (intent->kind == PD_RECORD_COMMIT)
      while (s->gate) pd_store_wait(s);
    if (s->is_buffered) TRY(prepare_buffered(s, err));
    TRY(pd_refresh(s, err));
  } while (s->is_buffered && s->gate && intent->kind == PD_RECORD_COMMIT); /* FL1: it was shut while the lock was given up */
  return PD_OK;
}

/* A limit on the bytes of the values needs them known. They are lost when a ref is moved; counting needs a moment with nothing staged. */
static pd_code prepare_bytes(pd_store *s, const pd_intent *intent, pd_error *err)
{
  for (;;) {
    pd_ref_slot *slot = pd_slot_find(s, intent->ref && *intent->ref ? intent->ref : s->ref);
    if (!slot || slot->tip.is_deleted || slot->tip.has_bytes) return PD_OK; /* staging says what is wrong */
    if (!s->pending.count && !s->inflight.count) {
      TRY(pd_head_count(s, slot, err));
      continue;
    }
    TRY(pd_settle(s, err));
    TRY(prepare(s, intent, err));
  }
}

static void hear(pd_ticket *ticket, unsigned *heard)
{
  while (sem_wait(&ticket->wake) != 0) continue; /* a signal came */
  ++*heard;
}

/* Whoever concluded it may be just about to say so. */
static void hear_all(pd_ticket *ticket, unsigned heard)
{
  while (heard < ticket->calls + 1) hear(ticket, &heard);
}

static bool is_concluded(const pd_ticket *ticket)
{
  return __atomic_load_n(&ticket->state, __ATOMIC_ACQUIRE) != PD_WAITING;
}

/* Until the ticket is concluded. Who finds nobody flushing flushes up to `batches_max`. With the lock held on entry, and without it on
 * return. */
static void wait_for(pd_store *s, pd_ticket *ticket, unsigned batches_max)
{
  unsigned heard = 0;
  ticket->is_awaited = true;
  while (ticket->state == PD_WAITING) {
    if (s->is_flushing) {
      pd_store_unlock(s);
      hear(ticket, &heard);
      if (is_concluded(ticket)) goto concluded;
      pd_store_lock(s);
    } else {
      flush_batches(s, batches_max);
    }
  }
  pd_store_unlock(s);
concluded:
  hear_all(ticket, heard);
}

/* Buffered: what is staged is seen at once; the keeper appends it in time. */
static void buffer(pd_store *s)
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

static pd_code stage_now(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  if (intent->note && intent->note->bytes_max) TRY(prepare_bytes(s, intent, err));
  return pd_stage(s, intent, ticket, out, err);
}

/* ---- refusals (E7) ---- */

/* It says what is in the store, not what the disk or the memory cannot do. */
static bool is_refusal(pd_code code)
{
  switch (code) {
  case PD_CONFLICT:
  case PD_NOT_FOUND:
  case PD_EXISTS:
  case PD_QUOTA:
  case PD_RETIRED:
  case PD_INVALID:
  case PD_AMBIGUOUS: return true;
  default: return false;
  }
}

/* pd_check_seen knows all that it may be refused for. */
static bool is_plain(const pd_intent *intent)
{
  if (intent->kind != PD_RECORD_COMMIT || intent->guard || intent->merged_count || intent->origin || intent->graft) return false;
  for (size_t i = 0; i < intent->change_count; i++)
    if (intent->changes[i].pieces) return false;
  return true;
}

/* Until record `seq` is published, or void. Only in a store that is not buffered: there, a batch that failed stays in flight. */
static void wait_for_batch_of(pd_store *s, uint64_t seq)
{
  s->followers++;
  while (s->seen_seq < seq && (s->pending.count || s->inflight.count)) {
    if (s->is_flushing)
      pd_store_wait(s);
    else
      pd_flush_batch(s);
  }
  s->followers--;
}

/* With nothing staged before it, and the lock held from there on: a refusal is final. */
static pd_code stage_settled(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  TRY(prepare_settled(s, err));
  TRY(pd_refresh_exactly(s, err));
  return stage_now(s, intent, ticket, out, err);
}

/* The tip refused it. If the newest that is durable refuses it, too, that is the answer, and nobody waits. Else it was refused for what is
 * staged, and nobody can read that yet, or ever if its batch fails: wait for the batch, and stage again. By then what was in the way is
 * durable, or void; only others that stage again and again, and whose batches fail, lead to another round. */
static pd_code stage_refused(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  for (int tries = 0; tries < REFUSED_TRIES && is_plain(intent) && !s->is_buffered; tries++) {
    pd_error why = {.code = PD_OK};
    TRY(pd_refresh_exactly(s, err));
    if (s->tip_seq == s->seen_seq) return stage_now(s, intent, ticket, out, err);
    TRY(pd_check_seen(s, intent, err));
    wait_for_batch_of(s, s->tip_seq);
    TRY(prepare(s, intent, err));
    pd_code code = stage_now(s, intent, ticket, out, &why);
    if (is_refusal(code)) continue;
    if (code && err) *err = why;
    return code;
  }
  return stage_settled(s, intent, ticket, out, err);
}

static pd_code stage_prepared(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  pd_error why = {.code = PD_OK};
  TRY(prepare(s, intent, err));
  pd_code code = stage_now(s, intent, ticket, out, &why);
  bool is_settled = s->is_claimed && s->tip_seq == s->seen_seq; /* nobody else can append: what is seen is the newest there is */
  bool is_final = is_settled || intent->kind == PD_RECORD_KEYFRAME || intent->later; /* pd_update waits by itself (UPD-2) */
  if (is_refusal(code) && !is_final) return stage_refused(s, intent, ticket, out, err);
  if (code && err) *err = why;
  return code;
}

/* FL1: a buffered store answers a move only when it is synced, and a move that failed must not happen later. So from before it is staged
 * until it is concluded no commit is staged: none is in its batch or behind it, and all of both can be taken back. */
static void shut_gate(pd_store *s, bool shuts)
{
  if (shuts) s->gate++;
}

static void open_gate(pd_store *s, bool was_shut)
{
  if (was_shut && !--s->gate) pd_store_wake(s);
}

/* One go: *out_again if it has to be staged anew. Takes the lock. */
static pd_code try_write(pd_store *s, const pd_intent *intent, pd_ack *out, bool *out_again, pd_error *err)
{
  pd_ticket ticket = {.state = PD_WAITING};
  pd_store_lock(s);
  bool waits = is_waited_for(s, intent), shuts = s->is_buffered && waits && intent->kind != PD_RECORD_KEYFRAME;
  if (waits) sem_init(&ticket.wake, 0, 0); /* cannot fail for 0 */
  shut_gate(s, shuts);
  pd_code code = stage_prepared(s, intent, waits ? &ticket : NULL, out, err);
  if (!code && waits) {
    wait_for(s, &ticket, LEAD_BATCHES_MAX);
    *out_again = ticket.state == PD_MUST_RESTAGE;
    code = ticket.code;
    if (code && err) *err = ticket.err;
    if (!code) out->durability = PD_SYNCED;
    if (code || shuts) pd_store_lock(s);
  } else if (!code) {
    buffer(s);
    look_after(s);
  }
  open_gate(s, shuts);
  if (code) release_claim(s); /* nothing is staged: do not keep others out */
  if (code || shuts || !waits) pd_store_unlock(s);
  if (waits) sem_destroy(&ticket.wake);
  return code;
}

static pd_code stage_many(pd_store *s, pd_stage_many stage, void *ctx, pd_ticket *ticket, pd_error *err)
{
  TRY(prepare_settled(s, err));
  pd_code code = stage(ctx, err);
  if (code) rewind_tips(s);                                                      /* all of it is ours: nothing was staged before */
  if (s->pending.count) s->pending.staged[s->pending.count - 1].ticket = ticket; /* the last speaks for all */
  return code;
}

pd_code pd_write_many(pd_store *s, pd_stage_many stage, void *ctx, pd_error *err)
{
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  pd_code code = PD_OK;
  for (bool again = true; again;) {
    pd_ticket ticket = {.state = PD_WAITING};
    sem_init(&ticket.wake, 0, 0);
    pd_store_lock(s);
    shut_gate(s, s->is_buffered);
    code = stage_many(s, stage, ctx, &ticket, err);
    bool waits = !code && s->pending.count;
    if (waits) {
      wait_for(s, &ticket, LEAD_BATCHES_MAX);
      code = ticket.code;
      if (code && err) *err = ticket.err;
      pd_store_lock(s);
    }
    again = waits && ticket.state == PD_MUST_RESTAGE;
    open_gate(s, s->is_buffered);
    release_claim(s);
    pd_store_unlock(s);
    sem_destroy(&ticket.wake);
  }
  return code;
}

static pd_code check_text(const char *text, const char *what, pd_error *err)
{
  if (!text) return PD_OK;
  size_t size = strnlen(text, PD_NOTE_SIZE_MAX + 1);
  if (size > PD_NOTE_SIZE_MAX) return pd_error_set(err, PD_LIMIT, "the %s is longer than %d bytes", what, PD_NOTE_SIZE_MAX);
  if (!pd_utf8_check((pd_bytes){text, size})) return pd_error_set(err, PD_INVALID, "the %s is not valid UTF-8", what);
  return PD_OK;
}

pd_code pd_note_check(const pd_note *note, pd_error *err)
{
  if (!note) return PD_OK;
  TRY(check_text(note->author, "author", err));
  TRY(check_text(note->run, "run", err));
  return check_text(note->reason, "reason", err);
}

/* ---- a commit that is waited for later ---- */

struct pd_later {
  pd_ticket ticket;
  pd_store *store;
};

static pd_later *later_new(pd_store *s)
{
  pd_later *later = calloc(1, sizeof *later);
  if (!later) return NULL;
  later->store = s;
  later->ticket.state = PD_WAITING;
  sem_init(&later->ticket.wake, 0, 0); /* cannot fail for 0 */
  return later;
}

static void later_free(pd_later *later)
{
  sem_destroy(&later->ticket.wake);
  free(later);
}

/* The first half of try_write. Takes the lock. */
static pd_code write_half(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  pd_later *later = later_new(s);
  if (!later) return pd_error_memory(err, "a commit");
  pd_store_lock(s);
  bool waits = is_waited_for(s, intent);
  pd_code code = stage_prepared(s, intent, waits ? &later->ticket : NULL, out, err);
  if (!code && !waits) {
    buffer(s);
    look_after(s);
  }
  if (code) release_claim(s);
  pd_store_unlock(s);
  if (code || !waits)
    later_free(later);
  else
    *intent->later = later;
  return code;
}

pd_code pd_write_once(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  if (intent->later) return write_half(s, intent, out, err);
  pd_ack ack;
  bool again = true;
  while (again) {
    again = false;
    TRY(try_write(s, intent, &ack, &again, err));
  }
  if (out) *out = ack;
  return PD_OK;
}

/* ---- in two steps ---- */

/* Staging may be done at once: nobody needs a moment with nothing staged, and what a limit asks for is known. */
static bool is_ready(pd_store *s, const pd_intent *intent)
{
  if (s->gate || pd_intent_points_back(intent)) return false;
  if (!intent->note || !intent->note->bytes_max) return true;
  const pd_ref_slot *slot = pd_slot_find(s, intent->ref && *intent->ref ? intent->ref : s->ref);
  return slot && (slot->tip.is_deleted || slot->tip.has_bytes);
}

/* E7 for one who must not wait: PD_OK if it takes waiting to tell whether the commit is refused. */
static pd_code refuse_now(pd_store *s, const pd_intent *intent, pd_error *err)
{
  bool is_newest = s->ops->log_tail_hint(s->backend) == s->log_seq;
  return is_newest && is_plain(intent) ? pd_check_seen(s, intent, err) : PD_OK;
}

static pd_code stage_at_once(pd_store *s, const pd_intent *intent, pd_later *later, pd_ack *out_ack, pd_error *err)
{
  pd_error why;
  pd_code code = pd_stage(s, intent, &later->ticket, out_ack, &why);
  if (is_refusal(code)) return refuse_now(s, intent, err);
  if (code && err) *err = why;
  if (!code) out_ack->durability = PD_STAGED;
  return code;
}

static pd_code stage_later(pd_store *s, const pd_intent *intent, pd_later *later, pd_ack *out_ack, pd_error *err)
{
  pd_store_lock(s);
  pd_code code = pd_refresh(s, err);
  if (!code && is_ready(s, intent)) code = stage_at_once(s, intent, later, out_ack, err);
  pd_store_unlock(s);
  return code;
}

pd_code pd_write_later(pd_store *s, const pd_intent *intent, pd_later **out, pd_ack *out_ack, pd_error *err)
{
  *out_ack = (pd_ack){.durability = PD_NOTHING};
  if (s->is_buffered) return pd_write(s, intent, out_ack, err);
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  TRY(pd_note_check(intent->note, err));
  if (pd_intent_is_large(intent)) return PD_OK;
  pd_later *later = later_new(s);
  if (!later) return pd_error_memory(err, "a commit");
  pd_code code = stage_later(s, intent, later, out_ack, err);
  if (!code && out_ack->durability == PD_STAGED) {
    *out = later;
    return PD_OK;
  }
  later_free(later);
  return code;
}

pd_store *pd_later_store(const pd_later *later)
{
  return later->store;
}

static pd_code finish_later(pd_later *later, unsigned batches_max, bool *out_again, pd_error *err)
{
  pd_ticket *ticket = &later->ticket;
  if (is_concluded(ticket)) {
    hear_all(ticket, 0); /* without the lock, which others need to stage */
  } else {
    pd_store_lock(later->store);
    wait_for(later->store, ticket, batches_max);
  }
  *out_again = ticket->state == PD_MUST_RESTAGE;
  pd_code code = ticket->code;
  if (code && err) *err = ticket->err;
  later_free(later);
  return code;
}

pd_code pd_later_wait(pd_later *later, bool *out_again, pd_error *err)
{
  return finish_later(later, 1, out_again, err); /* its owner has more to do than to flush for others */
}

pd_code pd_later_lead(pd_later *later, bool *out_again, pd_error *err)
{
  return finish_later(later, LEAD_BATCHES_MAX, out_again, err);
}

/* ---- all of it ---- */

pd_code pd_write(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  TRY(pd_note_check(intent->note, err));
  return pd_intent_is_large(intent) ? pd_write_large(s, intent, out, err) : pd_write_once(s, intent, out, err);
}
