/* segment.c: see segment.h. */
#include "engine/segment.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"

#include <stdlib.h>

#define SEGMENT_CACHE_SHARE 2 /* of the cache: half as much again */
#define STRIDE_RECORDS 256    /* to be read at once from a backend that others need */

static uint64_t hash_key(pd_bytes key)
{
  const uint8_t *p = key.data;
  uint64_t h = 0x9e3779b97f4a7c15u ^ key.size;
  for (size_t i = 0; i < key.size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h ^ h >> 29;
}

/* ---- filling ---- */

static pd_code rehash(pd_segment *seg, pd_error *err)
{
  size_t count = seg->bucket_count ? seg->bucket_count * 4 : 256;
  uint32_t *buckets = calloc(count, sizeof *buckets);
  if (!buckets) return pd_error_memory(err, "a segment of the log");
  free(seg->buckets);
  seg->buckets = buckets;
  seg->bucket_count = count;
  for (size_t i = 0; i < seg->change_count; i++) {
    uint32_t *bucket = &buckets[seg->changes[i].hash & (count - 1)];
    seg->changes[i].older = *bucket;
    *bucket = (uint32_t)i + 1;
  }
  return PD_OK;
}

static pd_code add_change(pd_segment *seg, uint32_t record, pd_bytes key, size_t at, pd_error *err)
{
  TRY(pd_array_grow(&seg->changes, seg->change_count, &seg->change_capacity, sizeof *seg->changes, "a segment of the log", err));
  if (seg->change_count >= seg->bucket_count) TRY(rehash(seg, err));
  pd_seg_change *ch = &seg->changes[seg->change_count++];
  *ch = (pd_seg_change){.hash = hash_key(key), .at = at, .record = record};
  uint32_t *bucket = &seg->buckets[ch->hash & (seg->bucket_count - 1)];
  ch->older = *bucket;
  *bucket = (uint32_t)seg->change_count;
  return PD_OK;
}

/* `parent_seq`: what the changes of the record are against. */
static pd_code find_lineage(pd_segment *seg, uint32_t record, uint64_t parent_seq, uint32_t *out, pd_error *err)
{
  pd_lineage fresh = {.newest = record, .outside_seq = parent_seq};
  if (parent_seq > seg->base) {
    uint32_t parent_record = (uint32_t)(parent_seq - seg->base - 1);
    if (parent_record >= record || seg->records[parent_record].kind != PD_RECORD_COMMIT)
      return pd_error_set(err, PD_CORRUPT, "record %llu has a parent that is no commit", (unsigned long long)(seg->base + 1 + record));
    uint32_t lineage = seg->records[parent_record].lineage;
    if (seg->lineages[lineage].newest == parent_record) {
      seg->lineages[lineage].newest = record;
      *out = lineage;
      return PD_OK;
    }
    fresh.parent = lineage + 1;
    fresh.leaves_at = parent_record;
  }
  TRY(pd_array_grow(&seg->lineages, seg->lineage_count, &seg->lineage_capacity, sizeof *seg->lineages, "a segment of the log", err));
  seg->lineages[seg->lineage_count] = fresh;
  *out = (uint32_t)seg->lineage_count++;
  return PD_OK;
}

static pd_code index_commit(pd_segment *seg, pd_seg_record *r, const pd_rec *rec, pd_error *err)
{
  uint32_t number = (uint32_t)(rec->seq - seg->base - 1);
  r->parent_seq = rec->parent_seqs[0];
  TRY(find_lineage(seg, number, pd_rec_base(rec), &r->lineage, err));
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    size_t at = r->at + (size_t)(c.next - (const uint8_t *)rec->bytes.data);
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    TRY(add_change(seg, number, ch.key, at, err));
  }
  return PD_OK;
}

static pd_code add_record(void *ctx, uint64_t seq, pd_bytes bytes, pd_error *err)
{
  pd_segment *seg = ctx;
  pd_rec rec;
  if (seq != seg->last + 1) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seg->last + 1);
  if (!bytes.size) return pd_error_set(err, PD_RETIRED, "record %llu was retired by gc", (unsigned long long)seq);
  TRY(pd_rec_decode(seq, bytes, &rec, err));
  if (rec.has_dropped) return pd_error_set(err, PD_RETIRED, "record %llu was retired by gc", (unsigned long long)seq);
  TRY(pd_array_grow(&seg->records, seg->record_count, &seg->record_capacity, sizeof *seg->records, "a segment of the log", err));
  pd_seg_record r = {.at = seg->data.size, .size = (uint32_t)bytes.size, .kind = (uint8_t)rec.kind};
  TRY(pd_buf_append(&seg->data, bytes.data, bytes.size, err));
  if (rec.kind == PD_RECORD_COMMIT) TRY(index_commit(seg, &r, &rec, err));
  seg->records[seg->record_count++] = r;
  seg->last = seq;
  return PD_OK;
}

static void account(pd_store *s, pd_segment *seg)
{
  size_t bytes = sizeof *seg + seg->data.capacity + seg->record_capacity * sizeof *seg->records + seg->bucket_count * sizeof *seg->buckets +
                 seg->change_capacity * sizeof *seg->changes + seg->lineage_capacity * sizeof *seg->lineages;
  s->segment_bytes += bytes - seg->bytes;
  seg->bytes = bytes;
}

static pd_code extend(pd_store *s, pd_segment *seg, uint64_t to, pd_error *err)
{
  if (seg->last >= to) return PD_OK;
  pd_code code = s->ops->log_read(s->backend, seg->last + 1, to, add_record, seg, err);
  if (!code && seg->last < to) code = pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seg->last + 1);
  account(s, seg);
  return code;
}

/* ---- finding, making, freeing ---- */

/* The keyframe that covers most without covering `seq`: its index plus 1; 0: none. */
static size_t frame_before(const pd_store *s, uint64_t seq)
{
  size_t low = 0, high = s->frame_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (s->frames[mid].covers < seq)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static void free_segment(pd_store *s, pd_segment *seg)
{
  for (size_t i = 0; seg->roots && i < seg->catalog.ref_count; i++) pd_node_unref(&s->tree.pool, seg->roots[i]);
  free(seg->roots);
  pd_catalog_done(&seg->catalog);
  pd_buf_done(&seg->data);
  free(seg->records);
  free(seg->changes);
  free(seg->buckets);
  free(seg->lineages);
  s->segment_bytes -= seg->bytes;
  free(seg);
}

void pd_segments_trim(pd_store *s, size_t bytes_max)
{
  while (s->segment_count && s->segment_bytes > bytes_max) {
    size_t oldest = 0;
    for (size_t i = 1; i < s->segment_count; i++)
      if (s->segments[i]->used < s->segments[oldest]->used) oldest = i;
    free_segment(s, s->segments[oldest]);
    s->segments[oldest] = s->segments[--s->segment_count];
  }
}

/* It is no longer the store's, and the caller's to free. */
static void take_out(pd_store *s, pd_segment *seg)
{
  for (size_t i = 0; i < s->segment_count; i++)
    if (s->segments[i] == seg) s->segments[i] = s->segments[--s->segment_count];
}

static void drop_segment(pd_store *s, pd_segment *seg)
{
  take_out(s, seg);
  free_segment(s, seg);
}

static pd_code load_base(pd_store *s, pd_segment *seg, const pd_catalog_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  TRY(pd_load_blob(s, &frame->catalog, "a keyframe's catalog", &blob, err));
  TRY(pd_catalog_decode(pd_buf_bytes(&blob), &seg->catalog, err));
  seg->roots = calloc(seg->catalog.ref_count + 1, sizeof *seg->roots);
  return seg->roots ? PD_OK : pd_error_memory(err, "a segment of the log");
}

/* One without records, which is not among the store's. */
static pd_code new_segment(pd_store *s, size_t frame, pd_segment **out, pd_error *err)
{
  if (s->segment_count) pd_segments_trim(s, s->cache_size_max / SEGMENT_CACHE_SHARE);
  pd_segment *seg = calloc(1, sizeof *seg);
  if (!seg) return pd_error_memory(err, "a segment of the log");
  pd_code code = PD_OK;
  if (frame) {
    seg->base = s->frames[frame - 1].covers;
    code = load_base(s, seg, &s->frames[frame - 1], err);
  }
  if (code) {
    free_segment(s, seg);
    return code;
  }
  seg->last = seg->base;
  *out = seg;
  return PD_OK;
}

/* It becomes the store's; freed if that fails. */
static pd_code adopt_segment(pd_store *s, pd_segment *seg, pd_error *err)
{
  pd_code code = pd_array_grow(&s->segments, s->segment_count, &s->segment_capacity, sizeof *s->segments, "a segment of the log", err);
  if (code)
    free_segment(s, seg);
  else
    s->segments[s->segment_count++] = seg;
  return code;
}

static pd_code make_segment(pd_store *s, size_t frame, pd_segment **out, pd_error *err)
{
  pd_segment *seg;
  TRY(new_segment(s, frame, &seg, err));
  TRY(adopt_segment(s, seg, err));
  *out = seg;
  return PD_OK;
}

static pd_segment *find_by_base(pd_store *s, uint64_t base)
{
  for (size_t i = 0; i < s->segment_count; i++)
    if (s->segments[i]->base == base) return s->segments[i];
  return NULL;
}

static uint64_t base_of(const pd_store *s, size_t frame)
{
  return frame ? s->frames[frame - 1].covers : 0;
}

/* Of the segment after `frame` that is to hold `seq`. */
static uint64_t end_of(const pd_store *s, size_t frame, uint64_t seq)
{
  uint64_t end = frame < s->frame_count ? s->frames[frame].covers : s->log_seq;
  return end < seq ? seq : end;
}

pd_code pd_segment_of(pd_store *s, uint64_t seq, pd_segment **out, pd_error *err)
{
  TRY(pd_retention_ready(s, err));
  if (seq == PD_SEQ_GONE || seq < s->retention.state.cut)
    return pd_retired_error(s, seq, err); /* G1: only points are read there, and not here */
  size_t frame = frame_before(s, seq);
  pd_segment *seg = find_by_base(s, base_of(s, frame));
  if (!seg) TRY(make_segment(s, frame, &seg, err));
  pd_code code = seg->last < seq ? extend(s, seg, end_of(s, frame, seq), err) : PD_OK;
  if (code) { /* half a record may be in the index */
    drop_segment(s, seg);
    return code;
  }
  seg->used = ++s->use_clock;
  *out = seg;
  return PD_OK;
}

/* ---- loading without the lock ---- */

/* Nobody else knows the segment. In strides, because whoever has the lock may need the backend: it comes first. */
static pd_code fill_apart(pd_store *s, pd_segment *seg, uint64_t end, pd_error *err)
{
  uint64_t forgotten = s->forgotten;
  pd_code code = PD_OK;
  while (!code && seg->last < end && forgotten == s->forgotten) {
    uint64_t from = seg->last + 1, to = end - from < STRIDE_RECORDS ? end : from + STRIDE_RECORDS - 1;
    pd_store_unlock(s);
    code = s->ops->log_read(s->backend, from, to, add_record, seg, err);
    pd_store_lock(s);
    if (!code && seg->last < to)
      code = pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seg->last + 1);
  }
  return code;
}

/* One at a time in a store: others that want the same one would load it once more. What gc or an erasure took meanwhile may be in it, so
 * it is not kept then (*out_again), and its errors do not count. */
static pd_code bring(pd_store *s, size_t frame, uint64_t end, bool *out_again, pd_error *err)
{
  pd_segment *seg = find_by_base(s, base_of(s, frame));
  if (!seg)
    TRY(new_segment(s, frame, &seg, err));
  else
    take_out(s, seg);
  uint64_t forgotten = s->forgotten;
  pd_error why;
  s->is_bringing = true;
  pd_code code = fill_apart(s, seg, end, &why);
  s->is_bringing = false;
  pd_store_wake(s);
  account(s, seg);
  seg->used = ++s->use_clock;
  *out_again = forgotten != s->forgotten;
  if (!code && !*out_again && !find_by_base(s, seg->base)) return adopt_segment(s, seg, err);
  free_segment(s, seg);
  if (*out_again || !code) return PD_OK;
  if (err) *err = why;
  return code;
}

pd_code pd_segment_bring(pd_store *s, uint64_t seq, pd_error *err)
{
  for (bool again = true; again;) {
    TRY(pd_retention_ready(s, err));
    if (!seq || seq == PD_SEQ_GONE || seq < s->retention.state.cut) return PD_OK;
    if (seq > s->log_seq) TRY(pd_log_reach(s, seq, err));
    size_t frame = frame_before(s, seq);
    const pd_segment *seg = find_by_base(s, base_of(s, frame));
    if (seg && seg->last >= seq) return PD_OK;
    if (s->is_bringing)
      pd_store_wait(s);
    else
      TRY(bring(s, frame, end_of(s, frame, seq), &again, err));
  }
  return PD_OK;
}

pd_segment *pd_segment_loaded(pd_store *s, uint64_t seq)
{
  for (size_t i = 0; i < s->segment_count; i++) {
    pd_segment *seg = s->segments[i];
    if (seq > seg->base && seq <= seg->last) {
      seg->used = ++s->use_clock;
      return seg;
    }
  }
  return NULL;
}

/* ---- reading ---- */

pd_code pd_segment_record(const pd_segment *seg, uint64_t seq, pd_rec *out, pd_error *err)
{
  const pd_seg_record *r = &seg->records[seq - seg->base - 1];
  pd_bytes bytes = {seg->data.data + r->at, r->size};
  return pd_rec_decode_checked(seq, bytes, out, err);
}

/* Is record `a` an ancestor of record `r`, or `r` itself? */
static bool is_ancestor(const pd_segment *seg, uint32_t a, uint32_t r)
{
  uint32_t wanted = seg->records[a].lineage, lineage = seg->records[r].lineage, limit = r;
  for (;;) {
    if (lineage == wanted) return a <= limit;
    const pd_lineage *l = &seg->lineages[lineage];
    if (!l->parent) return false;
    limit = l->leaves_at;
    lineage = l->parent - 1;
  }
}

static uint64_t outside_of(const pd_segment *seg, uint32_t r)
{
  const pd_lineage *l = &seg->lineages[seg->records[r].lineage];
  while (l->parent) l = &seg->lineages[l->parent - 1];
  return l->outside_seq;
}

/* Change `i` (its index plus 1), read. Only seq and bytes of *out_rec are set. */
static void read_change(const pd_segment *seg, uint32_t i, pd_rec *out_rec, pd_rec_change *out_change)
{
  const pd_seg_change *ch = &seg->changes[i - 1];
  const pd_seg_record *r = &seg->records[ch->record];
  *out_rec = (pd_rec){.seq = seg->base + 1 + ch->record, .bytes = {seg->data.data + r->at, r->size}};
  pd_cursor c = {seg->data.data + ch->at, seg->data.data + r->at + r->size, false};
  pd_rec_next(out_rec, &c, out_change);
}

static uint32_t newest_change(const pd_segment *seg, uint64_t hash)
{
  return seg->bucket_count ? seg->buckets[hash & (seg->bucket_count - 1)] : 0;
}

pd_code pd_segment_find(const pd_segment *seg, uint64_t seq, pd_bytes key, bool *out_found, pd_rec *out_rec, pd_rec_change *out_change,
                        uint64_t *out_outside, pd_error *err)
{
  uint32_t r = (uint32_t)(seq - seg->base - 1);
  if (seg->records[r].kind != PD_RECORD_COMMIT) return pd_error_set(err, PD_CORRUPT, "record %llu is no commit", (unsigned long long)seq);
  uint64_t hash = hash_key(key);
  *out_found = false;
  for (uint32_t i = newest_change(seg, hash); i; i = seg->changes[i - 1].older) {
    const pd_seg_change *ch = &seg->changes[i - 1];
    if (ch->hash != hash || ch->record > r || !is_ancestor(seg, ch->record, r)) continue;
    read_change(seg, i, out_rec, out_change);
    if (!pd_bytes_equal(out_change->key, key)) continue;
    *out_found = true;
    return PD_OK;
  }
  *out_outside = outside_of(seg, r);
  return PD_OK;
}

pd_code pd_segment_created(const pd_segment *seg, uint64_t seq, pd_bytes key, bool *out_known, int64_t *out_ms, uint64_t *out_outside,
                           pd_error *err)
{
  uint64_t hash = hash_key(key), wanted = seq;
  for (uint32_t i = newest_change(seg, hash); i; i = seg->changes[i - 1].older) {
    pd_rec rec;
    pd_rec_change change;
    if (seg->changes[i - 1].hash != hash || seg->base + 1 + seg->changes[i - 1].record != wanted) continue;
    read_change(seg, i, &rec, &change);
    if (!pd_bytes_equal(change.key, key)) continue;
    if (!change.prev_seq) {
      TRY(pd_segment_record(seg, wanted, &rec, err));
      *out_known = true;
      *out_ms = change.is_carried ? change.created_ms : pd_rec_made_ms(&rec);
      return PD_OK;
    }
    wanted = change.prev_seq;
  }
  *out_known = false;
  *out_outside = outside_of(seg, (uint32_t)(seq - seg->base - 1));
  return PD_OK;
}

pd_code pd_segment_base_root(pd_store *s, pd_segment *seg, uint64_t seq, pd_node **out_root, pd_error *err)
{
  *out_root = NULL;
  for (size_t i = 0; i < seg->catalog.ref_count; i++) {
    pd_catalog_ref *ref = &seg->catalog.refs[i];
    if (ref->is_deleted || ref->commit.seq != seq) continue;
    if (!seg->roots[i]) TRY(pd_tree_load_root(&s->tree, &ref->root_blob, &ref->commit.tree, &seg->roots[i], err));
    *out_root = seg->roots[i];
    return PD_OK;
  }
  return PD_OK;
}
