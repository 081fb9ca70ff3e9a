/*
 * keyframe.c: writing what can be derived, so that nobody replays from the beginning: the nodes of every head's tree that the bag
 * does not have yet, the commits since the last keyframe, and a catalog; then one record that names it.
 *
 *   K1  A keyframe stands for a moment (`covers`) that was published before it was begun; commits go on meanwhile.
 *   K2  A node is marked saved only after the bag took it, children before parents.
 *   K3  Nothing depends on a keyframe but speed: if writing one fails, the store is as good as before.
 *   K4  A gc of another process may sweep what was put before the record that names it: then the keyframe is not written.
 *   K5  A catalog repeats every ref and every keyframe before. One is written by itself only if twice as many bytes came to the log and the
 *       trees: so all catalogs together are at most half of what they stand for, however many refs there are.
 *   K6  A ref whose tree cannot be had stays listed, with zeros for its root: whoever reads it is told why, and the others are not held up.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/retired.h"

#include <stdlib.h>

#define DUE_RECORDS_MIN 4096
#define DUE_RECORDS_MAX 49152
#define DUE_BYTES_MAX ((uint64_t)64 << 20)
#define DUE_RATIO 24          /* log bytes for each byte of nodes that a keyframe would write */
#define DUE_CATALOG_RATIO 4   /* log bytes for each byte of the catalog, if nothing presses */
#define WORTH_RATIO 2         /* bytes of log and nodes for each byte of the catalog, in any case (K5) */
#define DUE_CACHE_SHARE 8     /* nodes that are not saved cannot leave the cache */
#define DUE_RECORDS_STUCK 128 /* nor can the values that they hold, which may be large */
#define REF_SIZE 144          /* of a ref in a catalog, about */
#define CHUNK_COUNT 256
#define CONFLICT_TRIES 3
#define CHUNK_BYTES ((size_t)512 << 10)

/* The size that the next catalog would have, at most. */
static uint64_t catalog_size(const pd_store *s)
{
  size_t more = s->slot_count > s->catalog_slots ? s->slot_count - s->catalog_slots : 0;
  return s->catalog_size + (uint64_t)more * REF_SIZE;
}

/* Bytes of nodes that a keyframe would save. */
static size_t unsaved_bytes(pd_store *s)
{
  if (s->dirty_left > s->tree.pool.dirty_bytes) s->dirty_left = s->tree.pool.dirty_bytes;
  return s->tree.pool.dirty_bytes - s->dirty_left;
}

bool pd_keyframe_is_worth(pd_store *s)
{
  return s->tail_bytes + unsaved_bytes(s) >= WORTH_RATIO * catalog_size(s);
}

bool pd_keyframe_is_due(pd_store *s)
{
  uint64_t covered = s->frame_count ? s->frames[s->frame_count - 1].covers : 0;
  uint64_t records = s->log_seq - covered;
  if (s->is_keyframing || s->wants_keyframe || s->is_read_only || !pd_keyframe_is_worth(s)) return false; /* K5 */
  if (records >= DUE_RECORDS_MAX || s->tail_bytes >= DUE_BYTES_MAX) return true;
  if (unsaved_bytes(s) > s->cache_size_max / DUE_CACHE_SHARE) return true;
  if (s->trim_again_bytes && records >= DUE_RECORDS_STUCK) return true;
  return records >= DUE_RECORDS_MIN && s->tail_bytes >= DUE_RATIO * unsaved_bytes(s) + DUE_CATALOG_RATIO * catalog_size(s);
}

/* The moment to be kept. */
typedef struct moment {
  pd_catalog catalog;
  pd_node **roots; /* of catalog.refs, referenced */
  pd_run_entry *run;
  size_t run_count;
  uint64_t base;
  pd_node **dirty; /* children before parents, referenced: not to be evicted, nor changed in place, before they are marked */
  size_t dirty_count, dirty_capacity;
  uint64_t reload_count;          /* of the store, when it was begun */
  size_t slot_count, dirty_bytes; /* then, too */
  size_t saved_bytes;
  size_t catalog_size;
} moment;

static void moment_done(pd_store *s, moment *m)
{
  for (size_t i = 0; m->roots && i < m->catalog.ref_count; i++) pd_node_unref(&s->tree.pool, m->roots[i]);
  for (size_t i = 0; i < m->dirty_count; i++) pd_node_unref(&s->tree.pool, m->dirty[i]);
  free(m->roots);
  free(m->run);
  free(m->dirty);
  pd_catalog_done(&m->catalog);
}

static pd_code gather_dirty(moment *m, pd_node *n, pd_error *err)
{
  if (n->is_saved) return PD_OK;
  for (size_t i = 0; n->level && i < n->count; i++)
    if (n->kids[i]) TRY(gather_dirty(m, n->kids[i], err));
  TRY(pd_array_grow(&m->dirty, m->dirty_count, &m->dirty_capacity, sizeof *m->dirty, "a keyframe", err));
  m->dirty[m->dirty_count++] = pd_node_ref(n);
  return PD_OK;
}

static pd_code capture_ref(pd_store *s, moment *m, pd_ref_slot *slot, size_t i, pd_error *err)
{
  pd_catalog_ref *ref = &m->catalog.refs[i];
  pd_head *head = &slot->seen;
  memcpy(ref->name, slot->name, sizeof ref->name);
  ref->is_deleted = head->is_deleted;
  ref->last_seq = head->last_seq;
  ref->redo_seq = head->redo_seq;
  ref->updated_ms = head->updated_ms;
  ref->commit = head->commit;
  ref->root_blob = head->root_blob;
  if (head->is_deleted || (!head->root && head->has_blob)) return PD_OK;
  pd_node *root;
  pd_error why;
  pd_code code = pd_head_root(s, head, &root, &why);
  ref->root_blob = (pd_id){{0}};
  if (code == PD_RETIRED || code == PD_CORRUPT) return PD_OK; /* K6 */
  if (code && err) *err = why;
  if (code) return code;
  m->roots[i] = pd_node_ref(root);
  return gather_dirty(m, root, err);
}

/* The cut; 0 if it cannot be read, for a repair must be able to write a keyframe: then no name is left out. */
static uint64_t cut_of(pd_store *s)
{
  return pd_retention_ready(s, NULL) ? 0 : s->retention.state.cut;
}

static bool has_deleted(const pd_store *s)
{
  for (size_t i = 0; i < s->slot_count; i++)
    if (s->slots[i]->seen.is_deleted && s->slots[i]->seen.last_seq) return true;
  return false;
}

static pd_code capture(pd_store *s, moment *m, pd_error *err)
{
  uint64_t cut = has_deleted(s) ? cut_of(s) : 0; /* first: it may change which keyframes are known */
  m->catalog.refs = calloc(s->slot_count + 1, sizeof *m->catalog.refs);
  m->catalog.frames = malloc((s->frame_count + 1) * sizeof *m->catalog.frames);
  m->roots = calloc(s->slot_count + 1, sizeof *m->roots);
  m->run = malloc((s->run_count + 1) * sizeof *m->run);
  if (!m->catalog.refs || !m->catalog.frames || !m->roots || !m->run) return pd_error_memory(err, "a keyframe");
  m->catalog.covers = s->seen_seq;
  m->catalog.audit = s->seen_audit;
  m->catalog.time_ms = s->seen_time_ms;
  memcpy(m->catalog.current, s->current, sizeof s->current);
  m->catalog.frame_count = s->frame_count;
  if (s->frame_count) memcpy(m->catalog.frames, s->frames, s->frame_count * sizeof *s->frames);
  m->run_count = s->run_count;
  if (s->run_count) memcpy(m->run, s->run, s->run_count * sizeof *s->run);
  m->base = s->frame_count ? s->frames[s->frame_count - 1].covers : 0;
  m->slot_count = s->slot_count;
  for (size_t i = 0; i < s->slot_count; i++) {
    if (!s->slots[i]->seen.last_seq) continue; /* staged, never appended */
    if (pd_is_forgotten(&s->slots[i]->seen, cut)) continue;
    m->catalog.ref_count++;
    TRY(capture_ref(s, m, s->slots[i], m->catalog.ref_count - 1, err));
  }
  m->dirty_bytes = s->tree.pool.dirty_bytes; /* now: to build the tree of a head makes nodes */
  return PD_OK;
}

/* A chunk of nodes on its way into the bag. */
typedef struct chunk {
  pd_buf bytes;
  size_t ends[CHUNK_COUNT];
  pd_id ids[CHUNK_COUNT];
  pd_node *nodes[CHUNK_COUNT];
  size_t count;
} chunk;

/* Encode nodes from *next on, as many as fit. One that two refs share is listed twice and written once. */
static pd_code encode_chunk(const moment *m, size_t *next, chunk *c, pd_error *err)
{
  c->count = 0;
  pd_buf_clear(&c->bytes);
  for (; *next < m->dirty_count && c->count < CHUNK_COUNT && c->bytes.size < CHUNK_BYTES; (*next)++) {
    pd_node *n = m->dirty[*next];
    if (n->is_saved) continue;
    size_t at = c->bytes.size;
    TRY(pd_node_encode(n, &c->bytes, err));
    pd_bytes blob = {c->bytes.data + at, c->bytes.size - at};
    n->blob_id = c->ids[c->count] = pd_sha256(blob); /* its parent, encoded next, names it */
    c->nodes[c->count] = n;
    c->ends[c->count++] = c->bytes.size;
  }
  return PD_OK;
}

static pd_code put_chunk(pd_store *s, const chunk *c, pd_error *err)
{
  pd_bytes blobs[CHUNK_COUNT];
  size_t at = 0;
  for (size_t i = 0; i < c->count; i++) {
    blobs[i] = (pd_bytes){c->bytes.data + at, c->ends[i] - at};
    at = c->ends[i];
  }
  return s->ops->bag_put(s->backend, c->ids, blobs, c->count, err);
}

/* Takes the lock for encoding, not for writing. */
static pd_code save_nodes(pd_store *s, moment *m, pd_error *err)
{
  chunk *c = calloc(1, sizeof *c);
  if (!c) return pd_error_memory(err, "a keyframe");
  pd_code code = PD_OK;
  for (size_t next = 0; !code && next < m->dirty_count;) {
    pd_store_lock(s);
    code = encode_chunk(m, &next, c, err);
    pd_store_unlock(s);
    if (!code && c->count) code = put_chunk(s, c, err);
    if (code) break;
    pd_store_lock(s);
    size_t before = s->tree.pool.dirty_bytes;
    for (size_t i = 0; i < c->count; i++) pd_node_mark_saved(&s->tree.pool, c->nodes[i], &c->ids[i]); /* K2 */
    m->saved_bytes += before - s->tree.pool.dirty_bytes;
    pd_store_unlock(s);
  }
  pd_buf_done(&c->bytes);
  free(c);
  return code;
}

static pd_code put_one(pd_store *s, pd_buf *blob, pd_id *out_id, pd_error *err)
{
  pd_bytes bytes = pd_buf_bytes(blob);
  *out_id = pd_sha256(bytes);
  return s->ops->bag_put(s->backend, out_id, &bytes, 1, err);
}

static pd_code save_catalog(pd_store *s, moment *m, pd_catalog_frame *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf run = {0};
  CLEANUP(pd_buf_done) pd_buf catalog = {0};
  TRY(pd_run_encode(m->run, m->run_count, m->base, &run, err));
  TRY(put_one(s, &run, &m->catalog.run, err));
  for (size_t i = 0; i < m->catalog.ref_count; i++)
    if (m->roots[i]) m->catalog.refs[i].root_blob = m->roots[i]->blob_id;
  TRY(pd_catalog_encode(&m->catalog, &catalog, err));
  m->catalog_size = catalog.size;
  *out = (pd_catalog_frame){.covers = m->catalog.covers, .run = m->catalog.run};
  return put_one(s, &catalog, &out->catalog, err);
}

/* K4 */
static pd_code check_sweep(pd_store *s, void *ctx, pd_error *err)
{
  const moment *m = ctx;
  if (m->reload_count == s->retention.reload_count) return PD_OK;
  return pd_error_set(err, PD_CONFLICT, "gc ran in another process while a keyframe was being written");
}

/* What K5 needs to know. */
static void note_costs(pd_store *s, const moment *m)
{
  pd_store_lock(s);
  s->catalog_size = m->catalog_size;
  s->catalog_slots = m->slot_count;
  s->dirty_left = m->dirty_bytes > m->saved_bytes ? m->dirty_bytes - m->saved_bytes : 0;
  pd_store_unlock(s);
}

static pd_code write_moment(pd_store *s, moment *m, pd_error *err)
{
  pd_store_lock(s);
  pd_code code = pd_refresh(s, err);
  m->reload_count = s->retention.reload_count;
  if (!code && s->is_buffered) code = pd_settle(s, err);                                       /* K1: what is seen must be in the log */
  bool is_covered = s->frame_count && s->frames[s->frame_count - 1].covers + 1 >= s->seen_seq; /* nothing but the keyframe itself */
  if (!code && !is_covered) code = capture(s, m, err);
  pd_store_unlock(s);
  if (code || is_covered) return code;
  TRY(save_nodes(s, m, err));
  pd_catalog_frame frame;
  TRY(save_catalog(s, m, &frame, err));
  pd_intent intent = {.kind = PD_RECORD_KEYFRAME, .frame = &frame, .guard = check_sweep, .guard_ctx = m};
  code = pd_write(s, &intent, NULL, err);
  if (!code) note_costs(s, m);
  return code == PD_EXISTS ? PD_OK : code;
}

void pd_keyframe_hold(pd_store *s)
{
  pd_store_lock(s);
  while (s->is_keyframing) pd_store_wait(s);
  s->is_keyframing = true;
  pd_store_unlock(s);
}

void pd_keyframe_release(pd_store *s)
{
  pd_store_lock(s);
  s->is_keyframing = false;
  s->trim_again_bytes = 0;
  pd_cache_trim(s);
  pd_store_wake(s);
  pthread_cond_signal(&s->work);
  pd_store_unlock(s);
}

static void end_moment(pd_store *s, moment *m)
{
  pd_store_lock(s);
  moment_done(s, m);
  pd_store_unlock(s);
}

pd_code pd_keyframe_write(pd_store *s, pd_error *err)
{
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  pd_keyframe_hold(s);
  pd_code code = PD_CONFLICT;
  for (int tries = 0; code == PD_CONFLICT && tries < CONFLICT_TRIES; tries++) {
    moment m = {0};
    code = write_moment(s, &m, err);
    end_moment(s, &m);
  }
  pd_store_lock(s);
  s->wants_keyframe = false;
  pd_store_unlock(s);
  pd_keyframe_release(s);
  return code;
}

pd_code pd_tree_save(pd_store *s, pd_node *root, pd_error *err)
{
  moment m = {0};
  pd_store_lock(s);
  pd_code code = gather_dirty(&m, root, err);
  pd_store_unlock(s);
  if (!code) code = save_nodes(s, &m, err);
  end_moment(s, &m);
  return code;
}

pd_code pd_store_keyframe(pd_store *store, pd_error *err)
{
  return pd_keyframe_write(store, err);
}
