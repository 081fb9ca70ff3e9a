/*
 * update.c: pd_update: read, decide and write as one step, without conflicts.
 *
 * Many callers that each read a counter and write it back would spin if they began on what readers see: until the batch before is
 * synced, each of them reads the old counter and is refused. So updates of a ref take turns, and each reads the tip, with what those
 * before it staged:
 *
 *   take the turn · begin on the tip · run the callback · stage the commit · give the turn up · wait for the batch
 *
 * The turn is never held across the sync, so all who came during one sync share the next: 64 callers need about as many syncs as one.
 * The exception: values in pieces (upload.h) are put with the turn held, and an upload waits for a moment with nothing staged.
 *
 * UPD-1  A commit was staged on the tips that its callback read, or on tips where each key that the callback put a condition on is as it
 *        was. If the batch below fails or another process was first, the tips are void (E4) and the callback is run again.
 * UPD-2  A refusal, or the answer that there is nothing to write, rests on stable storage: if the callback read the tip and something
 *        there was not synced, or another process appended behind it, wait until it is (or is void), and ask once more on the newest that
 *        readers see. That answer holds.
 * UPD-4  With note.later there is one round, on the tip, and what would have to wait is refused (WouldWait): the turn, staging, a refusal
 *        that rests on what is not synced. Nothing is staged if a read was refused on the way (disk_wait.h), whatever the callback made
 *        of it.
 * UPD-3  Nothing counts attempts. A round is repeated only because somebody else's commit came in between and a condition does not hold any
 *        more, or because a sync ended. For a limit on bytes there is no such end on a ref that others never leave alone: the second time
 *        it is asked about with nothing staged, and that answer holds.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "engine/edit.h"

#include <sched.h>

#define TURN_US 100 /* who has the turn is done in less, unless it waits for something */

typedef struct update {
  pd_store *store;
  const pd_note *note;
  pd_update_fn fn;
  void *ctx;
} update;

typedef struct round {
  const update *u;
  pd_edit_base base;
  bool is_hurried;
  bool is_moved; /* the tip is not what the callback read any more… */
  bool is_void;  /* …because that was not written */
  pd_later *later;
  pd_ack ack;
} round;

static const char *ref_of(const update *u)
{
  return u->note && u->note->ref && *u->note->ref ? u->note->ref : u->store->ref;
}

/* Of the name, so that a long callback on one thread's ref does not hold up all the others. */
static pthread_mutex_t *turn_of(const update *u)
{
  unsigned hash = 5381;
  for (const char *c = ref_of(u); *c; c++) hash = hash * 33 + (unsigned char)*c;
  return &u->store->turns[hash % PD_TURN_COUNT];
}

static pd_code check_base(pd_store *s, void *ctx, pd_error *err)
{
  round *r = ctx;
  const pd_ref_slot *slot = pd_slot_find(s, ref_of(r->u));
  r->is_void = s->voided != r->base.voided; /* a version of a key may be another one by now, though its number is the same */
  r->is_moved = r->is_void || !slot || slot->tip.last_seq != r->base.last_seq;
  return r->is_void ? pd_error_set(err, PD_CONFLICT, "the commits that were read were not written") : PD_OK;
}

static pd_code run_callback(round *r, pd_edit *edit, pd_error *err)
{
  pd_store *s = r->u->store;
  pd_code code = r->u->fn(r->u->ctx, edit, err);
  if (code) {
    pd_store_lock(s);
    r->is_void = s->voided != r->base.voided; /* values of a void commit cannot be read */
    pd_store_unlock(s);
  }
  return code;
}

static pd_later **later_of(const update *u)
{
  return u->note ? u->note->later : NULL;
}

/* UPD-4 */
static pd_code check_hurried(const round *r, const pd_edit *edit, pd_error *err)
{
  bool must_wait = pd_disk_has_refused() || (pd_edit_count(edit) && !later_of(r->u));
  return must_wait ? pd_would_wait(r->u->store, err) : PD_OK;
}

static pd_code run_round(round *r, bool is_on_tip, pd_error *err)
{
  pd_edit *edit = NULL;
  pd_edit_guard guard = {.check = check_base, .ctx = r, .settles_quota = !is_on_tip, .is_hurried = r->is_hurried};
  pd_code code = pd_edit_begin_on(r->u->store, r->u->note, is_on_tip ? PD_ON_TIP : PD_ON_NEWEST, &r->base, &edit, err);
  if (!code) code = run_callback(r, edit, err);
  if (!code && r->is_hurried) code = check_hurried(r, edit, err);
  if (!code && pd_edit_count(edit)) code = pd_edit_stage(edit, &guard, &r->later, &r->ack, err);
  pd_edit_abort(edit);
  return code;
}

/* Until all that the callback may have read is on stable storage, or void. */
static void wait_synced(pd_store *s, const pd_edit_base *base)
{
  pd_store_lock(s);
  s->followers++;
  while (s->voided == base->voided && s->seen_seq < base->staged_seq && (s->pending.count || s->inflight.count)) {
    if (s->is_flushing)
      pd_store_wait(s);
    else
      pd_flush_batch(s);
  }
  s->followers--;
  pd_store_unlock(s);
}

/* Did the callback read all that others have appended? By log_tail: the hint that the round began with may lag. */
static bool has_read_all(const update *u)
{
  pd_store_lock(u->store);
  bool is_newest = pd_is_newest(u->store);
  pd_store_unlock(u->store);
  return is_newest;
}

static pd_code take_turn(const update *u, bool is_on_tip, round *r, pd_error *err)
{
  pthread_mutex_t *turn = turn_of(u);
  *r = (round){.u = u, .ack.durability = PD_NOTHING};
  pthread_mutex_lock(turn);
  pd_code code = run_round(r, is_on_tip, err);
  pthread_mutex_unlock(turn);
  return code;
}

/* Was it refused for what came between? */
static bool is_overtaken(const round *r, pd_code code)
{
  return r->is_void || (r->is_moved && (code == PD_CONFLICT || code == PD_NOT_FOUND));
}

/* *out_is_final: `code` is the answer. Else *out_is_on_tip says where the next round begins. */
static pd_code conclude(const update *u, round *r, pd_code code, bool *out_is_on_tip, bool *out_is_final, pd_error *err)
{
  bool again = false;
  *out_is_final = true;
  if (!code && r->later) {
    code = pd_later_lead(r->later, &again, err);
    *out_is_final = code || !again;
    *out_is_on_tip = true;
  } else if (!code && r->ack.durability != PD_NOTHING) {
    return PD_OK; /* buffered */
  } else if (is_overtaken(r, code)) {
    *out_is_final = false;
    *out_is_on_tip = true;
  } else if (*out_is_on_tip && (r->base.is_unsynced || r->is_moved || !has_read_all(u))) {
    wait_synced(u->store, &r->base); /* UPD-2 */
    *out_is_final = *out_is_on_tip = false;
  }
  return code;
}

/* ---- at once, or not at all ---- */

static bool take_turn_soon(pthread_mutex_t *turn)
{
  if (pthread_mutex_trylock(turn) == 0) return true;
  for (int64_t end_us = pd_clock_monotonic_us() + TURN_US; pd_clock_monotonic_us() < end_us;) {
    sched_yield();
    if (pthread_mutex_trylock(turn) == 0) return true;
  }
  return false;
}

/* UPD-2: does the answer that nothing was written hold? */
static bool is_settled(const round *r, pd_code code)
{
  return !is_overtaken(r, code) && !r->base.is_unsynced && !r->is_moved && has_read_all(r->u);
}

static pd_code update_at_once(const update *u, pd_ack *out, pd_error *err)
{
  pthread_mutex_t *turn = turn_of(u);
  round r = {.u = u, .is_hurried = true, .ack.durability = PD_NOTHING};
  pd_error why = {0};
  if (later_of(u) && *later_of(u))
    return pd_error_set(err, PD_INVALID, "another commit is staged for this note: it has to be waited for first");
  if (!take_turn_soon(turn)) return pd_would_wait(u->store, err);
  pd_code code = run_round(&r, true, &why);
  pthread_mutex_unlock(turn);
  bool is_written = !code && r.ack.durability != PD_NOTHING;
  if (!is_written && !is_settled(&r, code)) return pd_would_wait(u->store, err);
  if (code && err) *err = why;
  if (code) return code;
  if (r.later) *later_of(u) = r.later;
  if (out) *out = r.ack;
  return PD_OK;
}

/* ---- until it is done ---- */

pd_code pd_update(pd_store *store, const pd_note *note, pd_update_fn fn, void *ctx, pd_ack *out, pd_error *err)
{
  update u = {.store = store, .note = note, .fn = fn, .ctx = ctx};
  if (later_of(&u) || pd_disk_is_refusing()) return update_at_once(&u, out, err);
  bool is_on_tip = true, is_final = false;
  pd_code code = PD_OK;
  pd_error why = {0};
  round r;
  while (!is_final) {
    why = (pd_error){0};
    code = take_turn(&u, is_on_tip, &r, &why);
    code = conclude(&u, &r, code, &is_on_tip, &is_final, &why);
  }
  if (code && err) *err = why;
  if (!code && out) *out = r.ack;
  return code;
}
