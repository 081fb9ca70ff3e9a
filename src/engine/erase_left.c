/*
 * erase_left.c: what a key was on lines of history that no ref leads to any more (erase.h, options->left_of): undone and never redone,
 * reset away, on a fork that was dropped, from before a deletion. Nothing but the log leads there, so the log is walked: without the
 * lock, and what was appended meanwhile under it.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/erase.h"

static bool is_listed(const char *refs, pd_bytes ref)
{
  for (const char *at = refs; *at;) {
    size_t size = strcspn(at, " ");
    pd_bytes name = {at, size};
    bool is_folder = size && at[size - 1] == '/';
    if (size && (is_folder ? pd_bytes_starts(ref, name) : pd_bytes_equal(ref, name))) return true;
    at += size + (at[size] == ' ');
  }
  return false;
}

/* *out: the change that put the key; false if the record has none. */
static bool find_put(const pd_eraser *e, const pd_rec *rec, pd_rec_change *out)
{
  if (rec->kind != PD_RECORD_COMMIT || !is_listed(e->options->left_of, rec->ref)) return false;
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_next(rec, &c, out);
    if (pd_bytes_equal(out->key, e->key)) return !out->is_delete;
  }
  return false;
}

/* The records after e->left_seq up to `last`. */
static pd_code look_until(pd_eraser *e, uint64_t last, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  while (e->left_seq < last) {
    TRY(pd_take_records(e->s, e->left_seq + 1, last, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)e->left_seq + 1);
    for (size_t i = 0; i < t.count; i++) {
      pd_bytes bytes = pd_taken_at(&t, i);
      pd_rec rec;
      pd_rec_change ch;
      if (!bytes.size) continue; /* gc took all of it */
      TRY(pd_rec_decode(t.first + i, bytes, &rec, err));
      if (!find_put(e, &rec, &ch)) continue;
      TRY(pd_array_grow(&e->left, e->left_count, &e->left_capacity, sizeof *e->left, "an erasure", err));
      e->left[e->left_count++] = t.first + i;
    }
    e->left_seq += t.count;
  }
  return PD_OK;
}

pd_code pd_eraser_look_left(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  pd_store_lock(s);
  pd_code code = pd_refresh_to_read(s, err);
  uint64_t last = s->log_seq;
  pd_store_unlock(s);
  return code ? code : look_until(e, last, err);
}

static pd_code add_one(pd_eraser *e, uint64_t seq, pd_taken *t, pd_error *err)
{
  pd_rec rec;
  pd_rec_change ch;
  bool is_new;
  TRY(pd_map64_add(&e->line, seq, NULL, &is_new, err));
  if (!is_new) return PD_OK; /* the head led there */
  TRY(pd_take_records(e->s, seq, seq, t, err));
  if (!t->count || !pd_taken_at(t, 0).size) return PD_OK; /* gc was faster */
  TRY(pd_rec_decode(seq, pd_taken_at(t, 0), &rec, err));
  return find_put(e, &rec, &ch) ? pd_eraser_add(e, &rec, &ch, err) : PD_OK;
}

pd_code pd_eraser_add_left(pd_eraser *e, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  TRY(look_until(e, e->s->log_seq, err));
  for (size_t i = 0; i < e->left_count; i++) TRY(add_one(e, e->left[i], &t, err));
  return PD_OK;
}
