/* gc_mark.c: what kept trees reach: nodes and, by the leaves, changes in the log (gc.h). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <stdlib.h>

uint64_t pd_change_print(uint64_t seq, pd_bytes key)
{
  const uint8_t *p = key.data;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < key.size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return pd_mix64(seq, h);
}

pd_code pd_gc_keep_blob(pd_gc_run *run, const pd_id *id, uint64_t size, pd_error *err)
{
  bool is_new;
  TRY(pd_id_map_add(&run->blobs, id, NULL, &is_new, err));
  if (is_new) run->bag_bytes += size;
  return PD_OK;
}

static pd_code keep_piece(void *ctx, const pd_id *id, pd_error *err)
{
  return pd_gc_keep_blob(ctx, id, 0, err);
}

pd_code pd_gc_keep_value(pd_gc_run *run, const pd_rec_change *ch, pd_error *err)
{
  if (ch->is_delete || ch->is_erased || !ch->is_in_bag) return PD_OK;
  if (!ch->is_chunked) return pd_gc_keep_blob(run, &ch->value_id, ch->size, err);
  if (pd_id_map_find(&run->blobs, &ch->list_id)) return PD_OK;
  TRY(pd_gc_keep_blob(run, &ch->list_id, ch->size, err));
  return pd_chunks_visit(run->s, &ch->list_id, keep_piece, run, err);
}

pd_code pd_piece_ignore(void *ctx, pd_bytes piece, pd_error *err)
{
  (void)ctx;
  (void)piece;
  (void)err;
  return PD_OK;
}

/* ---- trees ---- */

typedef struct walk {
  pd_store *s;
  pd_node_pool pool;
  pd_id_map *seen;
  pd_node_visit visit;
  void *ctx;
} walk;

static pd_code check_id(const pd_node *n, const uint8_t *expected, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  if (!expected || memcmp(n->id.bytes, expected, PD_ID_SIZE) == 0) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "a tree node is not the one that it should be: %.16s…", pd_id_hex(&n->id, hex));
}

static pd_code walk_node(walk *w, const pd_id *blob_id, const uint8_t *id, unsigned depth, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  bool is_new;
  pd_node *n;
  TRY(pd_id_map_add(w->seen, blob_id, NULL, &is_new, err));
  if (!is_new) return PD_OK;
  if (depth > PD_TREE_DEPTH_MAX) return pd_error_set(err, PD_CORRUPT, "a tree is deeper than it can be");
  TRY(pd_load_blob(w->s, blob_id, "a tree node", &blob, err));
  TRY(pd_node_decode(&w->pool, pd_buf_bytes(&blob), blob_id, &n, err));
  pd_buf_done(&blob);
  blob = (pd_buf){0};
  pd_code code = check_id(n, id, err);
  if (!code) code = w->visit(w->ctx, n, err);
  for (size_t i = 0; !code && n->level && i < n->count; i++) code = walk_node(w, &n->kid_blobs[i], pd_node_value_id(n, i), depth + 1, err);
  pd_node_unref(&w->pool, n);
  return code;
}

pd_code pd_walk_tree(pd_store *s, const pd_id *root_blob, const pd_id *tree, pd_id_map *seen, pd_node_visit visit, void *ctx, pd_error *err)
{
  walk w = {.s = s, .seen = seen, .visit = visit, .ctx = ctx};
  pd_code code = walk_node(&w, root_blob, tree ? tree->bytes : NULL, 0, err);
  pd_node_pool_done(&w.pool);
  return code;
}

pd_code pd_gc_note_node(void *ctx, const pd_node *n, pd_error *err)
{
  pd_gc_run *run = ctx;
  run->bag_bytes += n->blob_size;
  TRY(pd_gc_tick(run, 0, err));
  for (size_t i = 0; !n->level && i < n->count; i++) {
    uint32_t *versions;
    if (n->riders[i].seq >= run->cut && !run->versions) continue; /* whole anyway */
    TRY(pd_map64_add(&run->live, pd_change_print(n->riders[i].seq, pd_node_key(n, i)), &versions, NULL, err));
    if (*versions < run->versions) *versions = run->versions;
  }
  return PD_OK;
}

pd_code pd_gc_look_at(pd_gc_run *run, pd_node *n, pd_error *err)
{
  static const pd_id none;
  if (n->is_saved) return pd_walk_tree(run->s, &n->blob_id, NULL, &run->blobs, pd_gc_note_node, run, err);
  TRY(pd_gc_note_node(run, n, err));
  for (size_t i = 0; n->level && i < n->count; i++) {
    if (n->kids[i])
      TRY(pd_gc_look_at(run, n->kids[i], err));
    else if (!pd_id_equal(&n->kid_blobs[i], &none))
      TRY(pd_walk_tree(run->s, &n->kid_blobs[i], NULL, &run->blobs, pd_gc_note_node, run, err));
  }
  return PD_OK;
}

/* Heads first: the versions of their keys stay, and a leaf is noted once. */
static pd_code mark_heads(pd_gc_run *run, const pd_catalog *catalog, pd_error *err)
{
  for (size_t i = 0; i < catalog->ref_count; i++) {
    const pd_catalog_ref *ref = &catalog->refs[i];
    if (ref->is_deleted || !pd_catalog_has_root(ref)) continue; /* keyframe.c K6: there is nothing of it to keep */
    run->versions = strcmp(ref->name, PD_META_REF) == 0 ? 0 : pd_gc_versions(run);
    TRY(pd_walk_tree(run->s, &ref->root_blob, NULL, &run->blobs, pd_gc_note_node, run, err));
  }
  run->versions = 0;
  return PD_OK;
}

uint32_t pd_gc_versions(const pd_gc_run *run)
{
  uint64_t keep = run->policy->keep_versions;
  return !keep ? 0 : keep > PD_GC_VERSIONS_MAX ? PD_GC_VERSIONS_MAX : (uint32_t)keep;
}

static pd_code look_at_heads(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_node *root;
    pd_error why;
    if (s->slots[i]->seen.is_deleted) continue;
    pd_code code = pd_head_root(s, &s->slots[i]->seen, &root, &why);
    if (code == PD_RETIRED) continue;
    if (code && err) *err = why;
    TRY(code);
    run->versions = strcmp(s->slots[i]->name, PD_META_REF) == 0 ? 0 : pd_gc_versions(run);
    TRY(pd_gc_look_at(run, root, err));
  }
  run->versions = 0;
  return PD_OK;
}

pd_code pd_gc_mark_heads(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  pd_catalog_frame frame = {0};
  pd_store_lock(s);
  pd_code code = run->is_dry ? look_at_heads(run, err) : PD_OK;
  if (s->frame_count) frame = s->frames[s->frame_count - 1];
  pd_store_unlock(s);
  if (code || run->is_dry || !frame.seq) return code;
  TRY(pd_load_blob(s, &frame.catalog, "a keyframe's catalog", &blob, err));
  TRY(pd_catalog_decode(pd_buf_bytes(&blob), &catalog, err));
  return mark_heads(run, &catalog, err);
}

pd_code pd_gc_mark_points(pd_gc_run *run, pd_error *err)
{
  if (run->is_dry) return PD_OK; /* they were looked at */
  for (size_t i = 0; i < run->next.count; i++)
    TRY(pd_walk_tree(run->s, &run->next.points[i].root_blob, &run->next.points[i].commit.tree, &run->blobs, pd_gc_note_node, run, err));
  if (run->cut <= 1) return PD_OK;
  return pd_gc_keep_frame(run, &run->next.catalog, err);
}

pd_code pd_gc_keep_frame(pd_gc_run *run, const pd_id *catalog_id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  if (pd_id_map_find(&run->blobs, catalog_id)) return PD_OK;
  TRY(pd_load_blob(run->s, catalog_id, "a keyframe's catalog", &blob, err));
  TRY(pd_catalog_decode(pd_buf_bytes(&blob), &catalog, err));
  TRY(pd_gc_keep_blob(run, catalog_id, blob.size, err));
  pd_buf_clear(&blob);
  TRY(pd_load_blob(run->s, &catalog.run, "a keyframe's commit list", &blob, err));
  TRY(pd_gc_keep_blob(run, &catalog.run, blob.size, err));
  for (size_t i = 0; catalog.covers + 1 >= run->cut && i < catalog.ref_count; i++)
    if (!catalog.refs[i].is_deleted && pd_catalog_has_root(&catalog.refs[i]))
      TRY(pd_walk_tree(run->s, &catalog.refs[i].root_blob, &catalog.refs[i].commit.tree, &run->blobs, pd_gc_note_node, run, err));
  return PD_OK;
}
