/*
 * erase_lazy.c: erasure that costs what the key's versions cost (erase.h).
 *
 * With the lock held and nothing staged: the versions of the key are found along its chain, then its deletion and what is to be erased are
 * staged together and appended in one batch (X1). Then the values leave their records. If that is cut off, the next gc does it.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/erase.h"

#include <stdlib.h>

#define SWAP_RECORDS_MAX 512
#define SWAP_BYTES_MAX ((size_t)8 << 20)
#define SWAP_TRIES 16

/* ---- what goes ---- */

/* The versions from the one that record `seq` wrote back to the first. */
static pd_code take_chain(pd_eraser *e, uint64_t seq, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  while (seq) {
    pd_rec rec;
    pd_rec_change ch;
    pd_error why;
    bool is_new;
    TRY(pd_map64_add(&e->line, seq, NULL, &is_new, err));
    if (!is_new) return PD_OK; /* another ref led here already */
    pd_code code = pd_version_step(e->s, e->key, seq, &scratch, &rec, &ch, &why);
    if (code == PD_RETIRED) return PD_OK;
    if (code && err) *err = why;
    if (code) return code;
    if (!ch.is_delete && (!e->only_seq || e->only_seq == seq)) TRY(pd_eraser_add(e, &rec, &ch, err));
    if (ch.prev_seq >= seq) return pd_error_set(err, PD_CORRUPT, "the versions of a key do not go back to the first");
    seq = ch.prev_seq;
  }
  return PD_OK;
}

static bool is_meant(const pd_eraser *e, const pd_ref_slot *slot)
{
  if (slot->tip.is_deleted || pd_ref_is_hidden(slot->name)) return false;
  return e->options->everywhere || strcmp(slot->name, e->ref) == 0;
}

/* *out_has: the ref has the key. */
static pd_code take_from(pd_eraser *e, pd_ref_slot *slot, bool *out_has, pd_error *err)
{
  pd_entry entry;
  pd_error why;
  pd_code code = pd_get_at_head(e->s, &slot->seen, e->key, NULL, &entry, &why);
  *out_has = !code;
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  return code ? code : take_chain(e, entry.seq, err);
}

static int compare_victims(const void *a, const void *b)
{
  const pd_victim *x = a, *y = b;
  return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Those that nobody holds, ascending. */
static pd_code leave_held(pd_eraser *e, pd_error *err)
{
  size_t left = 0;
  if (!e->count) return PD_OK;
  qsort(e->victims, e->count, sizeof *e->victims, compare_victims);
  TRY(pd_eraser_hold(e, e->victims[0].seq, err));
  for (size_t i = 0; i < e->count; i++) {
    if (e->victims[i].was_erased || pd_eraser_holds(e, e->victims[i].seq)) continue;
    e->report->versions++;
    e->report->bytes += e->victims[i].size;
    e->victims[left++] = e->victims[i];
  }
  e->count = left;
  return PD_OK;
}

static pd_code find_versions(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  pd_ref_slot *own;
  TRY(pd_retention_ready(s, err));
  TRY(pd_slot_get(s, e->ref, &own, err));
  pd_eraser_reset(e);
  e->report->refs = 0;
  e->report->has_commit = false; /* of a try that was not appended */
  for (size_t i = 0; i < s->slot_count; i++) {
    bool has;
    if (!is_meant(e, s->slots[i])) continue;
    TRY(take_from(e, s->slots[i], &has, err));
    e->report->refs += has && !e->only_seq;
  }
  if (e->options->left_of) TRY(pd_eraser_add_left(e, err));
  if (!e->report->refs && !e->count) return pd_eraser_nothing(e, err);
  TRY(leave_held(e, err));
  return e->report->refs || e->count || e->only_seq ? PD_OK : pd_eraser_nothing(e, err);
}

/* ---- saying so ---- */

static pd_code stage_deletion(pd_eraser *e, const pd_ref_slot *slot, pd_error *err)
{
  pd_entry entry;
  pd_error why;
  pd_note note = e->options->note ? *e->options->note : (pd_note){0};
  note.ref = slot->name;
  if (e->options->everywhere) note.expect_head = NULL;
  uint64_t expected = e->options->expect_version;
  pd_change_in change = {.key = e->key, .is_delete = true, .expect_version = expected ? expected : PD_ANY_VERSION};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = slot->name, .note = &note, .changes = &change, .change_count = 1};
  pd_code code = pd_get_at_head(e->s, (pd_head *)&slot->seen, e->key, NULL, &entry, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  if (code) return code;
  pd_ack ack;
  TRY(pd_stage(e->s, &intent, NULL, &ack, err));
  pd_eraser_deleted(e, slot->name, &ack);
  return PD_OK;
}

static pd_code stage_notes(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  CLEANUP(pd_erase_notes_done) pd_erase_notes n = {0};
  pd_note note = {.ref = PD_META_REF, .author = e->options->note ? e->options->note->author : NULL};
  pd_erase_moment moment = pd_erase_moment_now(s);
  if (!e->count) return PD_OK;
  TRY(pd_erase_notes_add(e, true, &moment, note.author ? note.author : s->author, &n, err));
  TRY(pd_erase_todo_add(e, s->tip_seq, &n, err));
  pd_erase_notes_end(&n);
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = PD_META_REF, .note = &note, .changes = n.changes, .change_count = n.count};
  return pd_stage(s, &intent, NULL, NULL, err);
}

static pd_code stage_erasure(void *ctx, pd_error *err)
{
  pd_eraser *e = ctx;
  pd_store *s = e->s;
  TRY(find_versions(e, err));
  for (size_t i = 0; !e->only_seq && i < s->slot_count; i++)
    if (is_meant(e, s->slots[i])) TRY(stage_deletion(e, s->slots[i], err));
  TRY(stage_notes(e, err));
  s->retention.has_erased = true;
  return PD_OK;
}

/* ---- taking the bytes away ---- */

/* Records on their way to lose a value. */
typedef struct swapping {
  pd_bytes key;
  pd_taken one;
  pd_buf was, now;
  pd_log_swap swaps[SWAP_RECORDS_MAX]; /* sizes; the bytes are set at the end */
  size_t count;
} swapping;

static void swapping_free(swapping **w)
{
  if (!*w) return;
  pd_taken_done(&(*w)->one);
  pd_buf_done(&(*w)->was);
  pd_buf_done(&(*w)->now);
  free(*w);
}

static pd_redaction choose(void *ctx, const pd_rec *rec, const pd_rec_change *ch)
{
  const swapping *w = ctx;
  (void)rec;
  return pd_bytes_equal(ch->key, w->key) ? PD_REDACT_ERASE : PD_REDACT_KEEP;
}

/* By the log itself: what is in memory may be older. */
static pd_code add_swap(pd_store *s, swapping *w, uint64_t seq, pd_error *err)
{
  pd_rec rec;
  bool has_changed;
  size_t before = w->now.size;
  TRY(pd_take_records(s, seq, seq, &w->one, err));
  if (!w->one.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
  pd_bytes was = pd_taken_at(&w->one, 0);
  if (!was.size) return PD_OK; /* gc took all of it */
  TRY(pd_rec_decode(seq, was, &rec, err));
  TRY(pd_rec_redact(&rec, choose, w, true, &w->now, &has_changed, err));
  if (!has_changed) {
    w->now.size = before;
    return PD_OK;
  }
  TRY(pd_buf_append(&w->was, was.data, was.size, err));
  w->swaps[w->count++] = (pd_log_swap){.seq = seq, .was.size = was.size, .now.size = w->now.size - before};
  return PD_OK;
}

/* As many as fit; *done says how many. */
static pd_code swap_some(pd_store *s, swapping *w, const uint64_t *seqs, size_t count, size_t *done, pd_error *err)
{
  size_t was_at = 0, now_at = 0;
  w->count = 0;
  pd_buf_clear(&w->was);
  pd_buf_clear(&w->now);
  for (*done = 0; *done < count && w->count < SWAP_RECORDS_MAX && w->was.size < SWAP_BYTES_MAX; ++*done)
    TRY(add_swap(s, w, seqs[*done], err));
  for (size_t i = 0; i < w->count; i++) {
    w->swaps[i].was.data = w->was.data + was_at;
    w->swaps[i].now.data = w->now.data + now_at;
    was_at += w->swaps[i].was.size;
    now_at += w->swaps[i].now.size;
  }
  return w->count ? s->ops->log_swap(s->backend, w->swaps, w->count, err) : PD_OK;
}

pd_code pd_erase_in_records(pd_store *s, pd_bytes key, const uint64_t *seqs, size_t count, pd_error *err)
{
  CLEANUP(swapping_free) swapping *w = calloc(1, sizeof *w);
  if (!w) return pd_error_memory(err, "an erasure");
  w->key = key;
  for (size_t i = 0, done = 0; i < count; i += done) {
    pd_code code = PD_CONFLICT;
    for (int tries = 0; code == PD_CONFLICT && tries < SWAP_TRIES; tries++) code = swap_some(s, w, &seqs[i], count - i, &done, err);
    TRY(code);
  }
  return PD_OK;
}

/* ---- all together ---- */

static pd_code look_only(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  pd_store_lock(s);
  pd_code code = pd_refresh_to_read(s, err);
  if (!code) code = pd_settle(s, err);
  if (!code) code = find_versions(e, err);
  pd_store_unlock(s);
  return code;
}

static pd_code take_away(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  uint64_t *seqs = calloc(e->count + 1, sizeof *seqs);
  if (!seqs) return pd_error_memory(err, "an erasure");
  for (size_t i = 0; i < e->count; i++) seqs[i] = e->victims[i].seq;
  pd_code code = pd_erase_in_records(s, e->key, seqs, e->count, err);
  free(seqs);
  pd_store_lock(s);
  pd_past_forget(s);
  pd_store_unlock(s);
  return code;
}

pd_code pd_erase_lazily(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  if (!s->ops->log_swap) return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot erase lazily", s->ops->scheme);
  if (e->options->left_of) TRY(pd_eraser_look_left(e, err));
  if (e->options->is_dry) return look_only(e, err);
  TRY(pd_note_check(e->options->note, err));
  TRY(pd_retention_prepare(s, err));
  TRY(pd_write_many(s, stage_erasure, e, err));
  return take_away(e, err);
}

/* ---- what was cut off ---- */

typedef struct todo_list {
  pd_erase_notes *n;
  pd_code code;
  pd_error *err;
} todo_list;

static bool take_todo(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  todo_list *list = ctx;
  (void)entry;
  list->code = pd_erase_notes_remove(list->n, name, value, list->err);
  return !list->code;
}

static pd_code finish_one(pd_store *s, pd_bytes todo, pd_error *err)
{
  pd_cursor c = pd_cursor_of(todo);
  pd_bytes key = pd_take_sized(&c, PD_KEY_SIZE_MAX);
  uint64_t count = pd_take_varint(&c);
  if (c.failed || count > todo.size) return pd_error_set(err, PD_CORRUPT, "a note of what is to be erased is malformed");
  uint64_t *seqs = calloc((size_t)count + 1, sizeof *seqs);
  if (!seqs) return pd_error_memory(err, "an erasure");
  for (uint64_t i = 0; i < count; i++) {
    uint64_t step = pd_take_varint(&c);
    seqs[i] = (i ? seqs[i - 1] : 0) + step;
    if (!step || seqs[i] < step) c.failed = true;
  }
  pd_code code = PD_OK;
  if (!pd_cursor_ok(&c)) code = pd_error_set(err, PD_CORRUPT, "a note of what is to be erased is malformed");
  if (!code) code = pd_erase_in_records(s, key, seqs, (size_t)count, err);
  free(seqs);
  return code;
}

pd_code pd_erase_finish(pd_store *s, pd_erase_notes *n, pd_error *err)
{
  todo_list list = {.n = n, .err = err};
  size_t first = n->count;
  if (s->ops->log_swap) TRY(pd_meta_list(s, PD_ERASING_KIND, take_todo, &list, err));
  TRY(list.code);
  pd_erase_notes_end(n);
  for (size_t i = first; i < n->count; i++) TRY(finish_one(s, n->changes[i].value, err));
  return PD_OK;
}
