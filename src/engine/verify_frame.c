/*
 * verify_frame.c: a keyframe against the log: every node, list of commits and catalog follows from the records that it covers, byte for
 * byte. So what is damaged or missing in the bag can be said exactly, and made again.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/retired.h"
#include "engine/verify.h"

#include <stdlib.h>

/* The bag must hold `blob` under `id`. What follows from the log can be mended. */
static pd_code expect_blob(pd_verifier *v, const pd_id *id, const pd_buf *blob, const char *what, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf stored = {0};
  pd_error why;
  pd_code code = pd_load_blob(v->s, id, what, &stored, &why);
  if (code == PD_CORRUPT && v->mend) return v->mend(v->mend_ctx, what, id, pd_buf_bytes(blob), err);
  if (code && err) *err = why;
  return code;
}

/* Children first: the blob that a replayed node encodes to must be in the bag. */
static pd_code check_nodes(pd_verifier *v, pd_node *n, pd_buf *blob, pd_error *err)
{
  if (n->is_saved) return PD_OK; /* compared at an earlier keyframe */
  for (size_t i = 0; n->level && i < n->count; i++)
    if (n->kids[i]) TRY(check_nodes(v, n->kids[i], blob, err)); /* not loaded: of the base, untouched */
  pd_buf_clear(blob);
  TRY(pd_node_encode(n, blob, err));
  pd_id id = pd_sha256(pd_buf_bytes(blob));
  TRY(expect_blob(v, &id, blob, "a tree node", err));
  pd_node_mark_saved(&v->replay->tree.pool, n, &id);
  v->report.nodes++;
  return PD_OK;
}

static bool is_same_ref(const pd_catalog_ref *ref, const pd_ref_slot *slot)
{
  const pd_head *h = &slot->seen;
  if (strcmp(ref->name, slot->name) != 0 || ref->is_deleted != h->is_deleted || ref->last_seq != h->last_seq) return false;
  if (h->is_deleted) return true;
  return ref->commit.seq == h->commit.seq && pd_id_equal(&ref->commit.id, &h->commit.id) &&
         pd_id_equal(&ref->commit.tree, &h->commit.tree) && ref->redo_seq == h->redo_seq && ref->updated_ms == h->updated_ms &&
         (!h->root || pd_id_equal(&ref->root_blob, &h->root->blob_id)); /* of one that is lost, nobody can tell */
}

/* The list of commits after record `base`, as a keyframe keeps it. */
static pd_code derive_run(const pd_verifier *v, uint64_t base, pd_buf *out, pd_error *err)
{
  size_t from = v->commit_count, count = 0;
  while (from && v->commits[from - 1].seq > base) from--, count++;
  pd_run_entry *copy = malloc((count + 1) * sizeof *copy);
  if (!copy) return pd_error_memory(err, "a verification");
  if (count) memcpy(copy, v->commits + from, count * sizeof *copy);
  pd_code code = pd_run_encode(copy, count, base, out, err);
  free(copy);
  return code;
}

/* A list that begins before the cut: only what comes after it can be compared. */
static pd_code check_part_of_run(pd_verifier *v, const pd_catalog *catalog, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  TRY(pd_load_blob(v->s, &catalog->run, "a keyframe's commit list", &blob, err));
  pd_bytes run = pd_buf_bytes(&blob);
  TRY(pd_run_check(run, err));
  size_t count = 0;
  for (size_t i = 0; i < pd_run_count(run); i++) count += pd_run_at(run, i).seq >= v->points.cut;
  for (size_t i = 0; i < v->commit_count; i++) {
    bool is_there = false;
    for (size_t k = pd_run_find(run, v->commits[i].prefix); !is_there && k < pd_run_count(run); k++) {
      pd_run_entry entry = pd_run_at(run, k);
      if (entry.prefix != v->commits[i].prefix) break;
      is_there = entry.seq == v->commits[i].seq;
    }
    if (!is_there) return pd_error_set(err, PD_CORRUPT, "its list of commits is not what the log gives");
  }
  return count == v->commit_count ? PD_OK : pd_error_set(err, PD_CORRUPT, "its list of commits is not what the log gives");
}

static pd_code check_run(pd_verifier *v, const pd_catalog *catalog, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf run = {0};
  uint64_t base = catalog->frame_count ? catalog->frames[catalog->frame_count - 1].covers : 0;
  if (base + 1 < v->points.cut) return check_part_of_run(v, catalog, err);
  TRY(derive_run(v, catalog->frame_count ? catalog->frames[catalog->frame_count - 1].covers : 0, &run, err));
  pd_id id = pd_sha256(pd_buf_bytes(&run));
  if (!pd_id_equal(&id, &catalog->run)) return pd_error_set(err, PD_CORRUPT, "its list of commits is not what the log gives");
  return expect_blob(v, &id, &run, "a keyframe's commit list", err);
}

static pd_code wrong_ref(const char *name, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "ref '%s' is not what the log gives", name);
}

/* Both are sorted by name. What was forgotten (G7) may be in either, or in none. */
static pd_code check_refs(const pd_verifier *v, const pd_catalog *catalog, pd_error *err)
{
  const pd_store *r = v->replay;
  for (size_t i = 0, k = 0; i < r->slot_count || k < catalog->ref_count;) {
    const pd_ref_slot *slot = i < r->slot_count ? r->slots[i] : NULL;
    const pd_catalog_ref *ref = k < catalog->ref_count ? &catalog->refs[k] : NULL;
    int order = !slot ? 1 : !ref ? -1 : strcmp(slot->name, ref->name);
    if (order < 0 && !pd_is_forgotten(&slot->seen, v->points.cut)) return wrong_ref(slot->name, err);
    if (order > 0 && !(ref->is_deleted && ref->last_seq < v->points.cut)) return wrong_ref(ref->name, err);
    if (order == 0 && !is_same_ref(ref, slot)) return wrong_ref(slot->name, err);
    if (order > 0 && k && strcmp(ref[-1].name, ref->name) >= 0) return wrong_ref(ref->name, err);
    i += order <= 0;
    k += order >= 0;
  }
  return PD_OK;
}

static pd_code check_catalog(pd_verifier *v, const pd_catalog *catalog, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  const pd_store *r = v->replay;
  if (catalog->covers != r->seen_seq || !pd_id_equal(&catalog->audit, &r->seen_audit) || catalog->time_ms != r->seen_time_ms ||
      strcmp(catalog->current, r->current) != 0)
    return pd_error_set(err, PD_CORRUPT, "its catalog is not what the log gives");
  for (size_t i = 0; i < r->slot_count; i++)
    if (!r->slots[i]->seen.is_deleted && r->slots[i]->seen.root) TRY(check_nodes(v, r->slots[i]->seen.root, &blob, err));
  TRY(check_refs(v, catalog, err));
  return check_run(v, catalog, err);
}

/* ---- a catalog anew, from the log ---- */

static pd_code derive_refs(pd_verifier *v, pd_catalog *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  const pd_store *r = v->replay;
  out->refs = calloc(r->slot_count + 1, sizeof *out->refs);
  if (!out->refs) return pd_error_memory(err, "a catalog");
  for (size_t i = 0; i < r->slot_count; i++) {
    const pd_head *h = &r->slots[i]->seen;
    pd_catalog_ref *ref = &out->refs[out->ref_count++];
    if (!h->is_deleted && h->root) TRY(check_nodes(v, h->root, &blob, err));
    *ref = (pd_catalog_ref){
      .is_deleted = h->is_deleted, .commit = h->commit, .last_seq = h->last_seq, .redo_seq = h->redo_seq, .updated_ms = h->updated_ms};
    if (!h->is_deleted && h->root) ref->root_blob = h->root->blob_id;
    memcpy(ref->name, r->slots[i]->name, sizeof ref->name);
  }
  return PD_OK;
}

/* As whoever knew of the cut wrote it (G7). */
static void leave_out_forgotten(pd_catalog *c, uint64_t cut)
{
  size_t kept = 0;
  for (size_t i = 0; i < c->ref_count; i++)
    if (!c->refs[i].is_deleted || c->refs[i].last_seq >= cut) c->refs[kept++] = c->refs[i];
  c->ref_count = kept;
}

/* The keyframes that the writer of `f` knew: those recorded by then; or, if some were forgotten since, those that the store knows. */
static void derive_frames(const pd_verifier *v, const pd_due_frame *f, bool as_store_knows, pd_catalog *out)
{
  out->frame_count = 0;
  for (size_t i = 0; !as_store_knows && i < v->frame_count; i++)
    if (v->frames[i].covers < f->covers && v->frames[i].seq <= f->covers)
      out->frames[out->frame_count++] = (pd_catalog_frame){v->frames[i].seq, v->frames[i].covers, v->frames[i].catalog, v->frames[i].run};
  for (size_t i = 0; as_store_knows && i < v->s->frame_count && v->s->frames[i].covers < f->covers; i++)
    out->frames[out->frame_count++] = v->s->frames[i];
}

static pd_code derive_catalog(pd_verifier *v, const pd_due_frame *f, pd_catalog *c, pd_buf *out_run, pd_buf *out_blob, pd_error *err)
{
  pd_buf_clear(out_run);
  pd_buf_clear(out_blob);
  TRY(derive_run(v, c->frame_count ? c->frames[c->frame_count - 1].covers : 0, out_run, err));
  c->run = pd_sha256(pd_buf_bytes(out_run));
  TRY(pd_catalog_encode(c, out_blob, err));
  pd_id id = pd_sha256(pd_buf_bytes(out_blob));
  return pd_id_equal(&id, &f->catalog) ? PD_OK : PD_NOT_FOUND;
}

/* The catalog is gone: what it said follows from the log, and its id says whether we got it right. */
static pd_code mend_catalog(pd_verifier *v, pd_due_frame *f, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf run = {0};
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done)
  pd_catalog c = {.covers = v->replay->seen_seq, .audit = v->replay->seen_audit, .time_ms = v->replay->seen_time_ms};
  memcpy(c.current, v->replay->current, sizeof c.current);
  TRY(derive_refs(v, &c, err));
  c.frames = calloc(v->frame_count + v->s->frame_count + 1, sizeof *c.frames);
  if (!c.frames) return pd_error_memory(err, "a catalog");
  pd_code code = PD_NOT_FOUND;
  for (int guess = 0; guess < 4 && code == PD_NOT_FOUND; guess++) {
    if (guess == 2) leave_out_forgotten(&c, v->points.cut);
    derive_frames(v, f, guess % 2 == 1, &c);
    code = derive_catalog(v, f, &c, &run, &blob, err);
  }
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_CORRUPT, "its catalog is damaged and does not follow from the log");
  TRY(code);
  f->run = c.run;
  TRY(expect_blob(v, &c.run, &run, "a keyframe's commit list", err));
  return v->mend(v->mend_ctx, "a keyframe's catalog", &f->catalog, pd_buf_bytes(&blob), err);
}

pd_code pd_verify_frame(pd_verifier *v, pd_due_frame *f, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  pd_error why = {.code = PD_OK};
  pd_code code = pd_load_blob(v->s, &f->catalog, "the catalog", &blob, &why);
  if (code == PD_CORRUPT && v->mend)
    code = mend_catalog(v, f, &why);
  else if (!code) {
    code = pd_catalog_decode(pd_buf_bytes(&blob), &catalog, &why);
    f->run = catalog.run;
    if (!code) code = check_catalog(v, &catalog, &why);
  }
  v->report.keyframes++;
  if (code == PD_CORRUPT) { /* derived data: the rest can still be judged */
    pd_finding(v, "keyframe %llu: %s", (unsigned long long)f->seq, why.message);
    return PD_OK;
  }
  if (code && err) *err = why;
  return code;
}
