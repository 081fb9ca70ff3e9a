/*
 * erase_late.c: erasures that were made while an import ran (erase_ledger.c, Y7).
 *
 * An import appends its commits in groups, and the ledger is asked as each is read. When the refs move, the records of the hidden ref since
 * the import began say whether the ledger has changed. If so the bundle is read once more, and what the ledger covers by now leaves the
 * records that this import wrote, or that it found on the lines of one which did not end. Then the refs move.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"
#include "engine/erase.h"

#include <stdlib.h>

static uint64_t last_meta(pd_store *s)
{
  const pd_ref_slot *slot = pd_slot_find(s, PD_META_REF);
  return slot ? slot->seen.last_seq : 0;
}

pd_code pd_import_watch_ledger(pd_importer *im, pd_error *err)
{
  if (im->lines->is_watching) return PD_OK;
  pd_store_lock(im->s);
  pd_code code = pd_refresh(im->s, err);
  im->lines->ledger_seq = last_meta(im->s);
  im->lines->is_watching = !code;
  pd_store_unlock(im->s);
  return code;
}

pd_code pd_import_is_late(pd_importer *im, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_store *s = im->s;
  *out = im->lines->has_forgotten;
  for (uint64_t seq = last_meta(s); seq > im->lines->ledger_seq && !*out;) {
    pd_rec rec;
    pd_error why;
    pd_code code = pd_record_at(s, seq, &scratch, &rec, &why);
    if (code && code != PD_RETIRED && err) *err = why;
    if (code && code != PD_RETIRED) return code;
    *out = code || pd_is_ledger_record(&rec); /* gc took it: who knows */
    seq = code ? 0 : rec.ref_prev_seq;
  }
  return PD_OK;
}

pd_code pd_import_item_add(pd_importer *im, pd_bundle_commit *commit, pd_error *err)
{
  TRY(pd_array_grow(&im->seqs, im->item_count, &im->item_capacity, sizeof *im->seqs, "a bundle", err));
  commit->item = im->item_count;
  im->seqs[im->item_count++] = 0;
  return PD_OK;
}

static bool is_forgotten(const pd_bundle_commit *commit)
{
  for (size_t i = 0; i < commit->count; i++)
    if (commit->changes[i].is_forgotten) return true;
  return false;
}

/* A visible ref, or one that an import is at? */
static bool is_on_line(pd_store *s, pd_bytes ref)
{
  char name[PD_REF_SIZE_MAX + 1];
  if (ref.size >= sizeof name) return false;
  memcpy(name, ref.data, ref.size);
  name[ref.size] = 0;
  const pd_ref_slot *slot = pd_ref_is_import(name) ? pd_slot_find(s, name) : NULL;
  return slot && !slot->seen.is_deleted;
}

pd_code pd_import_item_found(pd_importer *im, const pd_bundle_commit *commit, uint64_t seq, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_store_lock(im->s);
  pd_code code = pd_record_at(im->s, seq, &scratch, &rec, err);
  bool is_ours = !code && is_on_line(im->s, rec.ref);
  pd_store_unlock(im->s);
  if (!is_ours) return code;
  im->seqs[commit->item] = seq;
  im->lines->has_forgotten |= is_forgotten(commit);
  return PD_OK;
}

static pd_code forget_item(pd_importer *im, const pd_bundle_commit *commit, uint64_t seq, pd_error *err)
{
  for (size_t i = 0; i < commit->count; i++) {
    const pd_bundle_change *ch = &commit->changes[i];
    pd_bytes key = {commit->bytes.data + ch->key_at, ch->key_size};
    if (ch->is_forgotten) TRY(pd_erase_in_records(im->s, key, &seq, 1, err));
  }
  return PD_OK;
}

static pd_code forget_all(pd_importer *im, pd_bundle_commit *commit, pd_error *err)
{
  pd_bundle_again(&im->reader, PD_BUNDLE_HASH);
  for (size_t item = 0; im->reader.commit_index < im->note_count && item < im->item_count; item++) {
    TRY(pd_import_read(im, commit, err));
    if (!im->seqs[item]) continue;
    TRY(pd_import_forget(im, commit, err));
    TRY(forget_item(im, commit, im->seqs[item], err));
  }
  return PD_OK;
}

pd_code pd_import_forget_late(pd_importer *im, pd_error *err)
{
  pd_bundle_commit commit = {0};
  pd_store *s = im->s;
  if (!s->ops->log_swap) return pd_error_set(err, PD_CONFLICT, "something was erased while the import ran: erase it again, then import");
  pd_store_lock(s);
  uint64_t seq = last_meta(s);
  pd_store_unlock(s);
  pd_code code = forget_all(im, &commit, err);
  pd_bundle_commit_done(&commit);
  pd_store_lock(s);
  pd_past_forget(s);
  pd_store_unlock(s);
  if (code) return code;
  im->lines->ledger_seq = seq;
  im->lines->has_forgotten = false;
  return PD_OK;
}
