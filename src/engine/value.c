/* value.c: from a leaf entry to its bytes, and the size of the cache. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/retired.h"
#include "engine/segment.h"

void pd_entry_of(const pd_node *leaf, size_t index, pd_entry *out)
{
  const pd_rider *r = &leaf->riders[index];
  out->key = pd_node_key(leaf, index);
  memcpy(out->value_id.bytes, pd_node_value_id(leaf, index), PD_ID_SIZE);
  out->version = r->version;
  out->size = r->size;
  out->seq = r->seq;
  out->created_ms = r->created_ms;
  out->updated_ms = r->updated_ms;
}

static pd_code wrong_value(const pd_node *leaf, size_t index, pd_error *err)
{
  pd_bytes key = pd_node_key(leaf, index);
  return pd_error_set(err, PD_CORRUPT, "the value of key '%.*s' in record %llu does not match its id",
                      (int)(key.size < 200 ? key.size : 200), (const char *)key.data, (unsigned long long)leaf->riders[index].seq);
}

typedef struct slice {
  pd_store *s;
  const pd_rider *rider;
  uint64_t seq;
  pd_buf *out;
  pd_buf *record; /* NULL, or gets a copy of a large record */
  bool was_met;
} slice;

#define READ_AHEAD_SIZE_MIN ((size_t)32 << 10)
#define READ_AHEAD_AFTER 8 /* a few reads after an open should not pay for all */

static pd_code take_slice(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  slice *sl = ctx;
  pd_bytes value;
  if (seq != sl->seq) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)sl->seq);
  sl->was_met = true;
  if (!record.size) return pd_retired_error(sl->s, seq, err);
  pd_error why;
  pd_code code = pd_rec_value_at(seq, record, sl->rider->pos, sl->rider->size, &value, &why);
  pd_rec rec;
  if (code == PD_CORRUPT && !pd_rec_decode(seq, record, &rec, NULL) && rec.has_dropped) return pd_retired_error(sl->s, seq, err);
  if (code && err) *err = why;
  if (code) return code;
  if (sl->record && record.size >= READ_AHEAD_SIZE_MIN) TRY(pd_buf_append(sl->record, record.data, record.size, err));
  pd_buf_clear(sl->out);
  return pd_buf_append(sl->out, value.data, value.size, err);
}

static const pd_buf *find_blob(const pd_batch *batch, const pd_id *id)
{
  for (size_t i = 0; i < batch->blob_count; i++)
    if (pd_id_equal(&batch->blobs[i].id, id)) return &batch->blobs[i].bytes;
  return NULL;
}

static pd_code read_slice(pd_store *s, const pd_rider *rider, pd_buf *out, pd_buf *record_copy, pd_error *err)
{
  slice sl = {.s = s, .rider = rider, .seq = rider->seq, .out = out, .record = record_copy};
  pd_bytes record;
  pd_segment *seg = pd_segment_loaded(s, rider->seq);
  if (seg) {
    const pd_seg_record *r = &seg->records[rider->seq - seg->base - 1];
    record = (pd_bytes){seg->data.data + r->at, r->size};
    return take_slice(&sl, rider->seq, record, err);
  }
  if (pd_record_staged(s, rider->seq, &record)) return take_slice(&sl, rider->seq, record, err);
  TRY(s->ops->log_read(s->backend, rider->seq, rider->seq, take_slice, &sl, err));
  return sl.was_met ? PD_OK : pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)rider->seq);
}

pd_code pd_value_blob(pd_store *s, const pd_id *id, pd_buf *out, pd_error *err)
{
  const pd_buf *staged = find_blob(&s->pending, id);
  if (!staged) staged = find_blob(&s->inflight, id);
  if (staged) {
    pd_buf_clear(out);
    return pd_buf_append(out, staged->data, staged->size, err);
  }
  return pd_load_blob(s, id, "a value", out, err);
}

/* Its record names the list of its pieces. */
static pd_code read_pieces(pd_store *s, pd_bytes key, const pd_rider *rider, const pd_id *id, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_rec_change ch;
  TRY(pd_version_step(s, key, rider->seq, &scratch, &rec, &ch, err));
  if (ch.is_chunked && !pd_id_equal(&ch.value_id, id))
    return pd_error_set(err, PD_CORRUPT, "record %llu has another value than its tree", (unsigned long long)rider->seq);
  return pd_change_value(s, &ch, out, err);
}

static void keep_value(pd_store *s, pd_node *leaf, size_t index, uint64_t seq, const pd_rec_change *ch)
{
  const pd_rider *rider = &leaf->riders[index];
  if (leaf->cells[index] || rider->seq != seq || rider->pos != ch->pos || ch->is_in_bag || ch->is_erased || ch->size > PD_CELL_SIZE_MAX)
    return;
  pd_id id = pd_sha256(ch->value);
  if (memcmp(id.bytes, pd_node_value_id(leaf, index), PD_ID_SIZE) != 0) return; /* whoever reads it will be told */
  if (!pd_cell_new(&s->tree.pool, ch->value, &leaf->cells[index], NULL)) leaf->has_shared = true;
}

/* A large commit was read for one value, and not for the first time: take its other values too while there is room. Else each of a
 * thousand keys written together would read the whole of it again. */
static void read_ahead(pd_store *s, uint64_t seq, const pd_buf *record)
{
  pd_ref_slot *slot = pd_slot_find(s, s->ref);
  pd_rec rec;
  if (!record->size || ++s->large_reads < READ_AHEAD_AFTER || !slot || !slot->seen.root) return;
  if (pd_rec_decode(seq, pd_buf_bytes(record), &rec, NULL)) return;
  pd_cursor c = pd_rec_changes(&rec);
  for (size_t i = 0; i < rec.change_count && s->tree.pool.bytes < s->cache_size_max / 8 * 7; i++) {
    pd_rec_change ch;
    pd_node *leaf;
    size_t index;
    pd_rec_next(&rec, &c, &ch);
    if (ch.is_delete) continue;
    if (pd_tree_find(&s->tree, slot->seen.root, ch.key, &leaf, &index, NULL)) return; /* whoever needs it will be told */
    if (leaf) keep_value(s, leaf, index, seq, &ch);
  }
}

/* A large value whose blob another key still holds is erased all the same: its record says so. */
static pd_code check_erased(pd_store *s, const pd_node *leaf, size_t index, const pd_id *id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_rec_change ch;
  TRY(pd_retention_ready(s, err));
  if (!s->retention.has_erased || leaf->riders[index].seq > s->log_seq) return PD_OK;
  TRY(pd_version_step(s, pd_node_key(leaf, index), leaf->riders[index].seq, &scratch, &rec, &ch, err));
  return ch.is_erased ? pd_erased_error(s, pd_node_key(leaf, index), id, err) : PD_OK;
}

pd_code pd_value_read(pd_store *s, pd_node *leaf, size_t index, pd_buf *out, pd_error *err)
{
  const pd_cell *cell = leaf->cells[index];
  if (cell) {
    s->hits++;
    pd_buf_clear(out);
    return pd_buf_append(out, cell->data, cell->size, err);
  }
  s->misses++;
  const pd_rider *rider = &leaf->riders[index];
  pd_id id;
  memcpy(id.bytes, pd_node_value_id(leaf, index), PD_ID_SIZE);
  if (rider->pos == PD_POS_BAG) {
    TRY(check_erased(s, leaf, index, &id, err));
    TRY(pd_value_blob(s, &id, out, err));
    return out->size == rider->size ? PD_OK : wrong_value(leaf, index, err);
  }
  if (rider->pos == PD_POS_CHUNKED) return read_pieces(s, pd_node_key(leaf, index), rider, &id, out, err);
  CLEANUP(pd_buf_done) pd_buf record = {0};
  bool has_room = s->tree.pool.bytes < s->cache_size_max / 4 * 3;
  pd_code code = read_slice(s, rider, out, has_room ? &record : NULL, err);
  if (code == PD_ERASED) return pd_erased_error(s, pd_node_key(leaf, index), &id, err);
  if (code) return code;
  pd_id got = pd_sha256(pd_buf_bytes(out));
  if (!pd_id_equal(&got, &id)) return wrong_value(leaf, index, err);
  if (out->size <= PD_CELL_SIZE_MAX && !pd_cell_new(&s->tree.pool, pd_buf_bytes(out), &leaf->cells[index], NULL))
    leaf->has_shared = true; /* without memory it is just not kept */
  read_ahead(s, rider->seq, &record);
  return PD_OK;
}

pd_code pd_value_load(pd_store *s, pd_node *leaf, size_t index, pd_error *err)
{
  if (leaf->cells[index] || leaf->riders[index].pos >= PD_POS_CHUNKED) return PD_OK; /* it lies in the bag, and is large */
  CLEANUP(pd_buf_done) pd_buf value = {0};
  return pd_value_read(s, leaf, index, &value, err);
}

static void evict_some(pd_store *s, size_t target)
{
  for (size_t i = 0; i < s->slot_count && s->tree.pool.bytes > target; i++)
    if (s->slots[i]->seen.root) pd_tree_evict(&s->tree, s->slots[i]->seen.root, &s->evict_hand, target);
  for (size_t i = 0; i < s->segment_count && s->tree.pool.bytes > target; i++) {
    pd_segment *seg = s->segments[i];
    for (size_t k = 0; seg->roots && k < seg->catalog.ref_count; k++)
      if (seg->roots[k]) pd_tree_evict(&s->tree, seg->roots[k], &s->evict_hand, target);
  }
}

void pd_cache_trim(pd_store *s)
{
  if (s->tree.pool.bytes <= s->cache_size_max || s->tree.pool.bytes < s->trim_again_bytes) return;
  size_t target = s->cache_size_max / 8 * 7;
  for (size_t i = 0; i < PD_PAST_COUNT; i++) {
    pd_node_unref(&s->tree.pool, s->pasts[i].root);
    s->pasts[i].root = NULL;
  }
  evict_some(s, target);
  evict_some(s, target); /* the first may only have taken second chances away */
  /* what is left cannot go before the next keyframe: do not walk the tree in vain at every call */
  s->trim_again_bytes = s->tree.pool.bytes > target ? s->tree.pool.bytes + s->cache_size_max / 16 : 0;
}
