/* upload.c: see upload.h. */
#include "engine/upload.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"

#include <stdlib.h>

#define PENDING_COUNT_MAX 256
#define PENDING_BYTES_MAX ((size_t)1 << 20)
#define KNOWN_COUNT_MAX 32768 /* half a gigabyte of a value; pieces behind it are looked up in the bag one by one */
#define STALE_TRIES_MAX 64    /* each is lost to another gc or erasure */

/* ---- ids that need not be put ---- */

/* Open addressing by the first bytes of the id; a zero id is an empty place. */
typedef struct id_set {
  pd_id *places;
  size_t place_count; /* a power of two, or 0 */
  size_t count;
} id_set;

static size_t place_of(const id_set *set, const pd_id *id)
{
  static const pd_id empty;
  uint64_t hash;
  memcpy(&hash, id->bytes, sizeof hash);
  size_t i = (size_t)hash & (set->place_count - 1);
  while (!pd_id_equal(&set->places[i], &empty) && !pd_id_equal(&set->places[i], id)) i = (i + 1) & (set->place_count - 1);
  return i;
}

static bool id_set_has(const id_set *set, const pd_id *id)
{
  return set->place_count && pd_id_equal(&set->places[place_of(set, id)], id);
}

static pd_code id_set_grow(id_set *set, pd_error *err)
{
  id_set grown = {.place_count = set->place_count ? set->place_count * 2 : 256, .count = set->count};
  grown.places = calloc(grown.place_count, sizeof *grown.places);
  if (!grown.places) return pd_error_memory(err, "the pieces of a value");
  static const pd_id empty;
  for (size_t i = 0; i < set->place_count; i++)
    if (!pd_id_equal(&set->places[i], &empty)) grown.places[place_of(&grown, &set->places[i])] = set->places[i];
  free(set->places);
  *set = grown;
  return PD_OK;
}

static pd_code id_set_add(id_set *set, const pd_id *id, pd_error *err)
{
  if (set->count >= KNOWN_COUNT_MAX) return PD_OK;
  if (set->count * 2 >= set->place_count) TRY(id_set_grow(set, err));
  size_t i = place_of(set, id);
  if (!pd_id_equal(&set->places[i], id)) set->count++;
  set->places[i] = *id;
  return PD_OK;
}

/* ---- the upload ---- */

struct pd_upload {
  pd_store *s;
  pd_gear gear;
  id_set known;
  uint64_t size, since_seq, basis_seq;
  pd_chunk chunks[PD_GROUP_COUNT_MAX]; /* of the group that is being filled */
  size_t chunk_count;
  pd_group *groups;
  size_t group_count, group_capacity;
  /* on their way into the bag; pieces are borrowed from the caller's data, groups are owned */
  pd_id ids[PENDING_COUNT_MAX];
  pd_bytes blobs[PENDING_COUNT_MAX];
  pd_buf owned[PENDING_COUNT_MAX];
  size_t pending_count, pending_bytes;
};

static pd_code know_list(void *ctx, const pd_id *id, pd_error *err)
{
  return id_set_add(ctx, id, err);
}

static pd_code know_chunk(void *ctx, const pd_chunk *chunk, pd_error *err)
{
  return id_set_add(ctx, &chunk->id, err);
}

/* The version that the key has now, if it is in pieces: most of them will come again. */
static pd_code find_basis(pd_store *s, const char *ref, pd_bytes key, uint64_t *out_seq, pd_id *out_list, pd_error *err)
{
  pd_ref_slot *slot;
  pd_node *root, *leaf;
  size_t index;
  *out_seq = 0;
  TRY(pd_slot_get(s, ref, &slot, err));
  TRY(pd_head_root(s, &slot->seen, &root, err));
  TRY(pd_tree_find(&s->tree, root, key, &leaf, &index, err));
  if (!leaf || leaf->riders[index].pos != PD_POS_CHUNKED) return PD_OK;
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_rec_change ch;
  TRY(pd_version_step(s, key, leaf->riders[index].seq, &scratch, &rec, &ch, err));
  if (!ch.is_chunked || ch.is_erased) return PD_OK;
  *out_seq = leaf->riders[index].seq;
  *out_list = ch.list_id;
  return PD_OK;
}

static pd_code learn_basis(pd_upload *u, const char *ref, pd_bytes key, pd_error *err)
{
  pd_store *s = u->s;
  pd_id list;
  pd_store_lock(s);
  pd_code code = pd_settle(s, err); /* what is staged may be what sweeps, or get another number (E4) */
  if (!code) code = pd_refresh(s, err);
  u->since_seq = s->seen_seq;
  if (!code && find_basis(s, ref, key, &u->basis_seq, &list, NULL)) u->basis_seq = 0; /* a damaged one is no basis, and no reason to fail */
  pd_store_unlock(s);
  if (code || !u->basis_seq) return code;
  pd_pieces_walk walk = {.list = know_list, .chunk = know_chunk, .ctx = &u->known};
  if (pd_pieces_walk_over(s, &list, NULL, &walk, NULL)) {
    free(u->known.places);
    u->known = (id_set){0};
    u->basis_seq = 0;
  }
  return PD_OK;
}

pd_code pd_upload_new(pd_store *s, const char *ref, pd_bytes key, pd_upload **out, pd_error *err)
{
  pd_upload *u = calloc(1, sizeof *u);
  if (!u) return pd_error_memory(err, "the pieces of a value");
  u->s = s;
  pd_gear_init(&u->gear);
  pd_code code = learn_basis(u, ref, key, err);
  if (code) {
    pd_upload_free(u);
    return code;
  }
  *out = u;
  return PD_OK;
}

static void drop_pending(pd_upload *u)
{
  for (size_t i = 0; i < u->pending_count; i++) pd_buf_done(&u->owned[i]);
  u->pending_count = u->pending_bytes = 0;
}

void pd_upload_free(pd_upload *u)
{
  if (!u) return;
  drop_pending(u);
  free(u->known.places);
  free(u->groups);
  free(u);
}

static pd_code flush_pending(pd_upload *u, pd_error *err)
{
  pd_code code = PD_OK;
  if (u->pending_count) code = u->s->ops->bag_put(u->s->backend, u->ids, u->blobs, u->pending_count, err);
  drop_pending(u);
  return code;
}

/* Takes `owned` over in any case; it may be NULL. */
static pd_code add_blob(pd_upload *u, const pd_id *id, pd_bytes blob, pd_buf *owned, pd_error *err)
{
  pd_code code = PD_OK;
  if (id_set_has(&u->known, id)) {
    pd_buf_done(owned);
    return PD_OK;
  }
  if (u->pending_count == PENDING_COUNT_MAX || u->pending_bytes >= PENDING_BYTES_MAX) code = flush_pending(u, err);
  if (code) {
    pd_buf_done(owned);
    return code;
  }
  size_t i = u->pending_count++;
  u->ids[i] = *id;
  u->blobs[i] = blob;
  u->owned[i] = owned ? *owned : (pd_buf){0};
  u->pending_bytes += blob.size;
  return PD_OK;
}

static pd_code end_group(pd_upload *u, pd_error *err)
{
  if (!u->chunk_count) return PD_OK;
  TRY(pd_array_grow(&u->groups, u->group_count, &u->group_capacity, sizeof *u->groups, "the pieces of a value", err));
  pd_buf blob = {0};
  pd_code code = pd_group_encode(u->chunks, u->chunk_count, &blob, err);
  if (code) {
    pd_buf_done(&blob);
    return code;
  }
  pd_group group = {.id = pd_sha256(pd_buf_bytes(&blob)), .count = (uint32_t)u->chunk_count};
  for (size_t i = 0; i < u->chunk_count; i++) group.size += u->chunks[i].size;
  u->groups[u->group_count++] = group;
  u->chunk_count = 0;
  return add_blob(u, &group.id, pd_buf_bytes(&blob), &blob, err);
}

static pd_code add_piece(pd_upload *u, pd_bytes piece, pd_error *err)
{
  pd_chunk chunk = {pd_sha256(piece), (uint32_t)piece.size};
  TRY(add_blob(u, &chunk.id, piece, NULL, err));
  u->chunks[u->chunk_count++] = chunk;
  u->size += piece.size;
  return pd_group_ends(&chunk.id, u->chunk_count) ? end_group(u, err) : PD_OK;
}

pd_code pd_upload_add(pd_upload *u, pd_bytes data, bool is_end, size_t *out_used, pd_error *err)
{
  size_t used = 0, keep = is_end ? 1 : PD_CHUNK_SIZE_MAX;
  while (data.size - used >= keep) {
    pd_bytes rest = {(const uint8_t *)data.data + used, data.size - used};
    rest.size = pd_chunk_cut(&u->gear, rest);
    TRY(add_piece(u, rest, err));
    used += rest.size;
  }
  *out_used = used;
  return is_end ? PD_OK : flush_pending(u, err); /* the data is about to go */
}

pd_code pd_upload_end(pd_upload *u, pd_pieces *out, pd_error *err)
{
  TRY(end_group(u, err));
  pd_buf list = {0};
  pd_code code = pd_list_encode(u->groups, u->group_count, &list, err);
  if (code) {
    pd_buf_done(&list);
    return code;
  }
  pd_id id = pd_sha256(pd_buf_bytes(&list));
  TRY(add_blob(u, &id, pd_buf_bytes(&list), &list, err));
  TRY(flush_pending(u, err));
  *out = (pd_pieces){.list_id = id, .size = u->size, .since_seq = u->since_seq, .basis_seq = u->basis_seq};
  return PD_OK;
}

/* ---- pieces and their commit ---- */

typedef struct holder {
  pd_store *s;
  pd_buf blob;
} holder;

static void holder_done(holder *h)
{
  pd_buf_done(&h->blob);
}

static pd_code hold_blob(void *ctx, const pd_id *id, pd_error *err)
{
  holder *h = ctx;
  TRY(pd_load_blob(h->s, id, "a piece of a value", &h->blob, err));
  pd_bytes bytes = pd_buf_bytes(&h->blob);
  return h->s->ops->bag_put(h->s->backend, id, &bytes, 1, err);
}

pd_code pd_pieces_hold(pd_store *s, pd_pieces *pieces, pd_error *err)
{
  CLEANUP(holder_done) holder h = {.s = s};
  pd_store_lock(s);
  pd_code code = pd_settle(s, err); /* a number that is staged may be given twice (E4) */
  if (!code) code = pd_refresh(s, err);
  uint64_t since = s->seen_seq;
  pd_store_unlock(s);
  if (code) return code;
  pd_error why = {.code = PD_OK};
  code = pd_chunks_visit(s, &pieces->list_id, hold_blob, &h, &why);
  if (code == PD_CORRUPT || code == PD_RETIRED)
    return pd_error_set(err, PD_CONFLICT, "gc removed pieces of a value before its commit: put it again");
  if (code && err) *err = why;
  if (code) return code;
  pieces->since_seq = since;
  pieces->basis_seq = 0;
  pieces->is_stale = false;
  return PD_OK;
}

static bool is_large(const pd_change_in *in)
{
  return in->pieces || (!in->is_delete && !in->is_erased && in->value.size > PD_CHUNKED_SIZE_MIN);
}

bool pd_intent_is_large(const pd_intent *intent)
{
  for (size_t i = 0; i < intent->change_count; i++)
    if (is_large(&intent->changes[i])) return true;
  return false;
}

static pd_code upload_value(pd_store *s, const pd_intent *intent, const pd_change_in *in, pd_pieces *out, pd_error *err)
{
  pd_upload *u;
  size_t used;
  bool has_lost_basis = out->basis_seq != 0; /* to the writer of a newer version, or gc: without one, this try cannot lose it again */
  TRY(pd_upload_new(s, intent->ref, has_lost_basis ? (pd_bytes){"", 0} : in->key, &u, err));
  pd_code code = pd_upload_add(u, in->value, true, &used, err);
  if (!code) code = pd_upload_end(u, out, err);
  pd_upload_free(u);
  return code;
}

/* Have every large value of a commit in the bag: what is stale is put again, from its bytes if they are here. */
static pd_code ready_values(pd_store *s, const pd_intent *intent, pd_change_in *changes, pd_pieces *own, pd_error *err)
{
  for (size_t i = 0; i < intent->change_count; i++) {
    const pd_change_in *in = &intent->changes[i];
    changes[i] = *in;
    if (!is_large(in)) continue;
    changes[i].pieces = in->pieces ? in->pieces : &own[i];
    if (!changes[i].pieces->is_stale) continue;
    TRY(in->pieces ? pd_pieces_hold(s, in->pieces, err) : upload_value(s, intent, in, &own[i], err));
  }
  return PD_OK;
}

static bool is_any_stale(const pd_intent *intent)
{
  for (size_t i = 0; i < intent->change_count; i++)
    if (intent->changes[i].pieces && intent->changes[i].pieces->is_stale) return true;
  return false;
}

pd_code pd_write_large(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  pd_change_in *changes = malloc(intent->change_count * sizeof *changes);
  pd_pieces *own = calloc(intent->change_count, sizeof *own);
  pd_intent ready = *intent;
  ready.changes = changes;
  for (size_t i = 0; own && i < intent->change_count; i++) own[i].is_stale = true; /* not there yet */
  pd_code code = changes && own ? PD_OK : pd_error_memory(err, "a commit");
  for (unsigned tries = 0; !code && tries < STALE_TRIES_MAX; tries++) {
    code = ready_values(s, intent, changes, own, err);
    if (code) break;
    code = pd_write_once(s, &ready, out, err);
    if (!code || !is_any_stale(&ready)) break;
    if (tries + 1 < STALE_TRIES_MAX) code = PD_OK;
  }
  free(changes);
  free(own);
  return code;
}
