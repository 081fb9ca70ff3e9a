/*
 * bundle_check.c: is the bundle what it says? (D3) The first pass reads its structure and follows the ids of commits; the second replays
 * every commit into a tree, beside the trees of the store, and compares the ids.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"

#include <stdlib.h>

/* Reading is three passes over the file; the last is the longest, but who knows. */
pd_code pd_import_tick(pd_importer *im, pd_error *err)
{
  const pd_import_options *o = im->options;
  TRY(pd_import_beat(im->s, im->lines, err));
  if (!o->progress || im->reader.commit_index % 64) return PD_OK;
  uint64_t size = im->reader.in.size, passes = o->is_dry_run ? 2 : 3;
  if (o->progress(o->ctx, im->phase * size + im->reader.in.block_at, passes * size)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the import was given up");
}

pd_commit pd_import_parent(const pd_importer *im, uint64_t child, uint64_t coded)
{
  if (!coded) return (pd_commit){pd_commit_root_id(), pd_tree_empty_id(), 0};
  if (!(coded & 1)) return im->bases[coded / 2 - 1];
  const pd_bundle_note *note = &im->notes[child - (coded + 1) / 2];
  return (pd_commit){note->id, note->tree, note->seq};
}

/* ---- first pass ---- */

typedef struct finder {
  pd_store *s;
  const pd_id *id;
  pd_commit *out;
  bool is_found;
} finder;

static pd_code consider(void *ctx, uint64_t seq, bool *out_stop, pd_error *err)
{
  finder *f = ctx;
  pd_commit commit;
  pd_error why;
  pd_code code = pd_commit_at(f->s, seq, &commit, &why);
  if (code == PD_RETIRED) return PD_OK; /* as good as absent */
  if (code && err) *err = why;
  TRY(code);
  if (!pd_id_equal(&commit.id, f->id)) return PD_OK;
  *f->out = commit;
  f->is_found = *out_stop = true;
  return PD_OK;
}

pd_code pd_import_find(pd_store *s, const pd_id *id, pd_commit *out, bool *out_found, pd_error *err)
{
  pd_id root = pd_commit_root_id();
  finder f = {.s = s, .id = id, .out = out};
  *out_found = pd_id_equal(id, &root);
  if (*out_found) return pd_commit_at(s, 0, out, err);
  uint32_t prefix = pd_id_prefix(id);
  TRY(pd_index_search(s, prefix, prefix, consider, &f, err));
  *out_found = f.is_found;
  return PD_OK;
}

static pd_code find_bases(pd_importer *im, pd_error *err)
{
  im->bases = calloc(im->head.base_count + 1, sizeof *im->bases);
  if (!im->bases) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < im->head.base_count; i++) {
    bool is_found;
    char hex[PD_ID_HEX_SIZE];
    TRY(pd_import_find(im->s, &im->head.bases[i], &im->bases[i], &is_found, err));
    if (is_found) continue;
    return pd_error_set(err, PD_NOT_FOUND, "the bundle builds on commit %s, which is not here; import a bundle that brings it first",
                        pd_id_hex(&im->head.bases[i], hex));
  }
  return PD_OK;
}

static pd_code note_commit(pd_importer *im, const pd_bundle_commit *commit, pd_error *err)
{
  pd_id parents[PD_PARENT_COUNT_MAX];
  char hex[PD_ID_HEX_SIZE];
  TRY(pd_array_grow(&im->notes, im->note_count, &im->note_capacity, sizeof *im->notes, "a bundle", err));
  for (size_t i = 0; i < commit->parent_count; i++) {
    uint64_t coded = commit->parents[i];
    if (coded && !(coded & 1) && coded / 2 > im->head.base_count)
      return pd_error_set(err, PD_CORRUPT, "commit %.12s of the bundle has a parent that is not named", pd_id_hex(&commit->id, hex));
    parents[i] = pd_import_parent(im, commit->index, coded).id;
    if (!i) continue;
    TRY(pd_array_grow(&im->more, im->more_count, &im->more_capacity, sizeof *im->more, "a bundle", err));
    im->more[im->more_count++] = (pd_bundle_edge){commit->index, coded};
  }
  pd_id id = pd_commit_id(&commit->tree, parents, commit->parent_count);
  if (!pd_id_equal(&id, &commit->id))
    return pd_error_set(err, PD_CORRUPT, "commit %.12s of the bundle does not follow from its tree and parents",
                        pd_id_hex(&commit->id, hex));
  if (commit->parents[0] & 1) im->notes[commit->index - (commit->parents[0] + 1) / 2].uses++;
  im->notes[im->note_count++] =
    (pd_bundle_note){.id = commit->id, .tree = commit->tree, .parent = commit->parents[0], .has_more_parents = commit->parent_count > 1};
  return PD_OK;
}

/* A graft: what it builds on is in the bundle, its parents are known by their ids alone. A part is noted with it. */
static pd_code note_graft(pd_importer *im, const pd_bundle_commit *commit, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  uint64_t on = commit->parents[0];
  if (on & 1) im->notes[commit->index - (on + 1) / 2].uses++;
  if (commit->kind == PD_BUNDLE_PART) return PD_OK;
  TRY(pd_array_grow(&im->notes, im->note_count, &im->note_capacity, sizeof *im->notes, "a bundle", err));
  pd_id id = pd_commit_id(&commit->tree, commit->parent_ids, commit->parent_count);
  if (!pd_id_equal(&id, &commit->id))
    return pd_error_set(err, PD_CORRUPT, "commit %.12s of the bundle does not follow from its tree and parents",
                        pd_id_hex(&commit->id, hex));
  for (size_t i = 0; i < commit->parent_count; i++) {
    TRY(pd_array_grow(&im->gone, im->gone_count, &im->gone_capacity, sizeof *im->gone, "a bundle", err));
    im->gone[im->gone_count++] = (pd_bundle_gone){commit->index, commit->parent_ids[i]};
  }
  im->notes[im->note_count++] = (pd_bundle_note){.id = commit->id, .tree = commit->tree, .parent = on, .is_graft = true};
  return PD_OK;
}

static pd_code check_ref(const pd_importer *im, const pd_bundle_ref *ref, pd_error *err)
{
  bool is_commit = ref->place & 1;
  uint64_t number = is_commit ? (ref->place - 1) / 2 : ref->place / 2 - 1;
  pd_id root = pd_commit_root_id();
  const pd_id *id = !ref->place ? &root : NULL;
  if (ref->place && is_commit && number < im->note_count) id = &im->notes[number].id;
  if (ref->place && !is_commit && number < im->head.base_count) id = &im->head.bases[number];
  if (id && pd_id_equal(id, &ref->commit)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "ref '%s' of the bundle points at a commit that it does not bring", ref->name);
}

static pd_code note_meta(pd_importer *im, pd_buf *key, pd_buf *value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  TRY(pd_buf_append(&before, key->data, key->size, err));
  TRY(pd_bundle_read_meta(&im->reader, key, value, err));
  if (before.size && pd_bytes_compare(pd_buf_bytes(&before), pd_buf_bytes(key)) >= 0)
    return pd_error_set(err, PD_CORRUPT, "the bundle is out of order");
  TRY(pd_add_sized(&im->meta, pd_buf_bytes(key), err));
  return pd_add_sized(&im->meta, pd_buf_bytes(value), err);
}

static pd_code survey(pd_importer *im, pd_bundle_commit *commit, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  CLEANUP(pd_buf_done) pd_buf value = {0};
  uint64_t metas = 0;
  for (;;) {
    uint8_t kind;
    TRY(pd_bundle_next(&im->reader, &kind, err));
    if (kind == PD_BUNDLE_END) break;
    if (kind == PD_BUNDLE_META) {
      metas++;
      TRY(note_meta(im, &key, &value, err));
      continue;
    }
    if (metas) return pd_error_set(err, PD_CORRUPT, "the bundle is out of order");
    TRY(pd_bundle_read_commit(&im->reader, kind, commit, err));
    TRY(kind == PD_BUNDLE_COMMIT ? note_commit(im, commit, err) : note_graft(im, commit, err));
    TRY(pd_import_tick(im, err));
  }
  TRY(pd_bundle_read_end(&im->reader, err));
  if (im->note_count != im->head.commit_count || metas != im->head.meta_count)
    return pd_error_set(err, PD_CORRUPT, "the bundle does not bring what its header says");
  im->report.commits = im->note_count;
  im->report.changes = im->reader.changes;
  im->report.value_bytes = im->reader.value_bytes;
  for (size_t i = 0; i < im->head.ref_count; i++) TRY(check_ref(im, &im->head.refs[i], err));
  return PD_OK;
}

/* ---- second pass ---- */

/* The tree of the first parent, with a reference. */
static pd_code parent_root(pd_importer *im, const pd_bundle_commit *commit, pd_node **out, pd_error *err)
{
  uint64_t coded = commit->parents[0];
  if (commit->kind != PD_BUNDLE_COMMIT && coded == PD_BUNDLE_ON_PART) {
    *out = im->part_root;
    im->part_root = NULL;
    return PD_OK;
  }
  if (!coded) return pd_tree_empty(&im->s->tree, out, err);
  if (!(coded & 1)) return pd_tree_of(im->s, im->bases[coded / 2 - 1].seq, out, err);
  pd_bundle_note *note = &im->notes[commit->index - (coded + 1) / 2];
  *out = note->root; /* with the reference, if this was the last use */
  if (--note->uses)
    pd_node_ref(note->root);
  else
    note->root = NULL;
  return PD_OK;
}

static pd_code edits_of(const pd_bundle_commit *commit, pd_tree_edit **out, pd_error *err)
{
  pd_tree_edit *edits = calloc(commit->count + 1, sizeof *edits);
  if (!edits) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < commit->count; i++) {
    const pd_bundle_change *ch = &commit->changes[i];
    edits[i] = (pd_tree_edit){.key = {commit->bytes.data + ch->key_at, ch->key_size},
                              .is_delete = ch->is_delete,
                              .value_id = ch->value_id,
                              .rider = {.version = 1}};
    edits[i].rider.size = ch->size;
  }
  *out = edits;
  return PD_OK;
}

/* What says that it follows a version must find one. */
static pd_code check_links(pd_importer *im, const pd_bundle_commit *commit, pd_node *base, pd_error *err)
{
  for (size_t i = 0; i < commit->count; i++) {
    const pd_bundle_change *ch = &commit->changes[i];
    pd_node *leaf;
    size_t index;
    if (!ch->is_linked) continue;
    TRY(pd_tree_find(&im->s->tree, base, (pd_bytes){commit->bytes.data + ch->key_at, ch->key_size}, &leaf, &index, err));
    if (!leaf) return pd_error_set(err, PD_CORRUPT, "the bundle has a version that follows one which does not come");
  }
  return PD_OK;
}

/* The tree that a commit leaves, for those that build on it. Takes over the reference. */
static void keep_root(pd_importer *im, const pd_bundle_commit *commit, pd_node *made)
{
  pd_bundle_note *note = &im->notes[commit->index];
  if (commit->kind == PD_BUNDLE_PART)
    im->part_root = made;
  else if (note->uses)
    note->root = made;
  else
    pd_node_unref(&im->s->tree.pool, made);
}

static pd_code replay(pd_importer *im, const pd_bundle_commit *commit, const pd_tree_edit *edits, pd_error *err)
{
  pd_tree *tree = &im->s->tree;
  pd_bundle_note *note = &im->notes[commit->index];
  pd_node *base, *made;
  char hex[PD_ID_HEX_SIZE];
  TRY(parent_root(im, commit, &base, err));
  pd_code code = check_links(im, commit, base, err);
  if (!code) code = pd_tree_apply(tree, base, edits, commit->count, &made, err);
  pd_node_unref(&tree->pool, base);
  TRY(code);
  if (commit->kind == PD_BUNDLE_PART || pd_id_equal(&made->id, &note->tree)) {
    keep_root(im, commit, made);
    return PD_OK;
  }
  pd_node_unref(&tree->pool, made);
  return pd_error_set(err, PD_CORRUPT, "the changes of commit %.12s of the bundle do not give its tree", pd_id_hex(&note->id, hex));
}

pd_code pd_import_read(pd_importer *im, pd_bundle_commit *out, pd_error *err)
{
  uint8_t kind;
  TRY(pd_bundle_next(&im->reader, &kind, err));
  bool is_right = kind != PD_BUNDLE_META && kind != PD_BUNDLE_END;
  if (is_right) TRY(pd_bundle_read_commit(&im->reader, kind, out, err));
  is_right = is_right && (kind == PD_BUNDLE_PART || pd_id_equal(&out->id, &im->notes[out->index].id));
  return is_right ? PD_OK : pd_error_set(err, PD_CORRUPT, "the bundle changed while it was read");
}

static pd_code replay_all(pd_importer *im, pd_bundle_commit *commit, pd_error *err)
{
  while (im->reader.commit_index < im->note_count) {
    pd_tree_edit *edits = NULL;
    TRY(pd_import_read(im, commit, err));
    TRY(edits_of(commit, &edits, err));
    pd_store_lock(im->s);
    pd_code code = replay(im, commit, edits, err);
    pd_cache_trim(im->s);
    pd_store_unlock(im->s);
    free(edits);
    TRY(code);
    TRY(pd_import_tick(im, err));
  }
  return PD_OK;
}

static void forget_roots(pd_importer *im)
{
  pd_store_lock(im->s);
  pd_node_unref(&im->s->tree.pool, im->part_root);
  im->part_root = NULL;
  for (size_t i = 0; i < im->note_count; i++) {
    pd_node_unref(&im->s->tree.pool, im->notes[i].root);
    im->notes[i].root = NULL;
  }
  pd_store_unlock(im->s);
}

pd_code pd_import_check(pd_importer *im, pd_error *err)
{
  CLEANUP(pd_bundle_commit_done) pd_bundle_commit commit = {0};
  pd_store_lock(im->s);
  pd_code code = pd_refresh(im->s, err);
  if (!code) code = pd_settle(im->s, err);
  if (!code) code = find_bases(im, err);
  pd_store_unlock(im->s);
  TRY(code);
  TRY(survey(im, &commit, err));
  pd_bundle_again(&im->reader, PD_BUNDLE_HASH);
  im->phase = 1;
  code = replay_all(im, &commit, err);
  forget_roots(im);
  return code;
}
