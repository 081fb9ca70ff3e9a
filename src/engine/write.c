/*
 * write.c: the way in for every record: wait until it may be staged, stage it (commit.c), and wait until it is acknowledged (flush.c).
 * In one go (pd_write), many records as one (pd_write_many), or in two steps (pd_write_later, pd_later_wait).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "engine/flush.h"
#include "engine/retired.h"

#include <stdlib.h>

#define REFUSED_TRIES 4    /* then with nothing staged, for which others have to wait */
#define LEAD_BATCHES_MAX 8 /* who flushes goes on with what came meanwhile: until another is awake, the disk would idle */

/* ---- before staging ---- */

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
  if (code) pd_release_claim(s);
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
  bool waits_itself = intent->later && !(intent->settles_quota && code == PD_QUOTA); /* pd_update (UPD-2) */
  bool is_final = is_settled || intent->kind == PD_RECORD_KEYFRAME || waits_itself;
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
    pd_ticket_wait(s, &ticket, LEAD_BATCHES_MAX);
    *out_again = ticket.state == PD_MUST_RESTAGE;
    code = ticket.code;
    if (code && err) *err = ticket.err;
    if (!code) out->durability = PD_SYNCED;
    if (code || shuts) pd_store_lock(s);
  } else if (!code) {
    pd_publish_buffered(s);
    pd_look_after(s);
  }
  open_gate(s, shuts);
  if (code) pd_release_claim(s); /* nothing is staged: do not keep others out */
  if (code || shuts || !waits) pd_store_unlock(s);
  if (waits) sem_destroy(&ticket.wake);
  return code;
}

static pd_code stage_many(pd_store *s, pd_stage_many stage, void *ctx, pd_ticket *ticket, pd_error *err)
{
  TRY(prepare_settled(s, err));
  pd_code code = stage(ctx, err);
  if (code) pd_rewind_tips(s);                                                   /* all of it is ours: nothing was staged before */
  if (s->pending.count) s->pending.staged[s->pending.count - 1].ticket = ticket; /* the last speaks for all */
  return code;
}

pd_code pd_write_many(pd_store *s, pd_stage_many stage, void *ctx, pd_error *err)
{
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  TRY(pd_disk_may_wait(err));
  pd_code code = PD_OK;
  for (bool again = true; again;) {
    pd_ticket ticket = {.state = PD_WAITING};
    sem_init(&ticket.wake, 0, 0);
    pd_store_lock(s);
    shut_gate(s, s->is_buffered);
    code = stage_many(s, stage, ctx, &ticket, err);
    bool waits = !code && s->pending.count;
    if (waits) {
      pd_ticket_wait(s, &ticket, LEAD_BATCHES_MAX);
      code = ticket.code;
      if (code && err) *err = ticket.err;
      pd_store_lock(s);
    }
    again = waits && ticket.state == PD_MUST_RESTAGE;
    open_gate(s, s->is_buffered);
    pd_release_claim(s);
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
    pd_publish_buffered(s);
    pd_look_after(s);
  }
  if (code) pd_release_claim(s);
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

/* A buffered commit waits for nobody: the log is claimed, the keeper runs, and its batch is not so large that it must be flushed first. */
static bool is_ready_to_buffer(const pd_store *s)
{
  if (s->ops->health && s->ops->health(s->backend, NULL)) return false;
  return s->is_claimed && !s->is_claiming && s->has_keeper && !s->flush_error.code && s->pending.bytes.size < PD_PENDING_SIZE_MAX / 2;
}

/* Staging may be done at once: nobody needs a moment with nothing staged, and what a limit asks for is known. */
static bool is_ready(pd_store *s, const pd_intent *intent)
{
  if (s->gate || pd_intent_points_back(intent)) return false;
  if (s->is_buffered && !is_ready_to_buffer(s)) return false;
  if (!intent->note || !intent->note->bytes_max) return true;
  const pd_ref_slot *slot = pd_slot_find(s, intent->ref && *intent->ref ? intent->ref : s->ref);
  return slot && (slot->tip.is_deleted || slot->tip.has_bytes);
}

/* E7 for one who must not wait: PD_OK if it takes waiting to tell whether the commit is refused. */
static pd_code refuse_now(pd_store *s, const pd_intent *intent, pd_error *err)
{
  return is_plain(intent) && pd_is_newest(s) ? pd_check_seen(s, intent, err) : PD_OK;
}

static pd_code stage_at_once(pd_store *s, const pd_intent *intent, pd_later *later, pd_ack *out_ack, pd_error *err)
{
  pd_error why;
  pd_ack ack;
  pd_code code = pd_stage(s, intent, s->is_buffered ? NULL : &later->ticket, &ack, &why);
  if (is_refusal(code)) return refuse_now(s, intent, err);
  if (code && err) *err = why;
  if (code) return code;
  *out_ack = ack;
  if (!s->is_buffered) {
    out_ack->durability = PD_STAGED;
  } else {
    pd_publish_buffered(s);
    pd_look_after(s);
  }
  return PD_OK;
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
  if (s->is_buffered && !pd_disk_is_refusing()) return pd_write(s, intent, out_ack, err);
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  TRY(pd_note_check(intent->note, err));
  if (pd_intent_is_large(intent)) return PD_OK;
  pd_later *later = later_new(s);
  if (!later) return pd_error_memory(err, "a commit");
  pd_code code = stage_later(s, intent, later, out_ack, err);
  if (!code && out_ack->durability != PD_NOTHING) pd_disk_committed();
  if (!code && out_ack->durability == PD_STAGED) {
    *out = later;
    pd_disk_staged();
    return PD_OK;
  }
  later_free(later);
  return code;
}

pd_code pd_would_wait(const pd_store *s, pd_error *err)
{
  TRY(pd_disk_may_wait(err)); /* so that whoever tried it there learns that it has to be done elsewhere */
  return pd_error_named(err, PD_LIMIT, "WouldWait", "a commit to the store of agent '%s' would have to wait", s->agent);
}

pd_code pd_write_at_once(pd_store *s, const pd_intent *intent, pd_later **out, pd_ack *out_ack, pd_error *err)
{
  if (*out) return pd_error_set(err, PD_INVALID, "another commit is staged for this note: it has to be waited for first");
  if (pd_disk_has_refused()) return pd_would_wait(s, err); /* what it rests on may not have been read */
  TRY(pd_write_later(s, intent, out, out_ack, err));
  return out_ack->durability == PD_NOTHING ? pd_would_wait(s, err) : PD_OK;
}

pd_store *pd_later_store(const pd_later *later)
{
  return later->store;
}

static pd_code finish_later(pd_later *later, unsigned batches_max, bool *out_again, pd_error *err)
{
  pd_ticket *ticket = &later->ticket;
  if (pd_ticket_is_concluded(ticket)) {
    pd_ticket_hear_all(ticket, 0); /* without the lock, which others need to stage */
  } else {
    pd_store_lock(later->store);
    pd_ticket_wait(later->store, ticket, batches_max);
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
  TRY(pd_disk_may_wait(err));
  return pd_intent_is_large(intent) ? pd_write_large(s, intent, out, err) : pd_write_once(s, intent, out, err);
}
