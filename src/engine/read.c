/*
 * read.c: get, has and get_version. At a head: the tree in memory. In the past: the segment's index, then the keyframe before it
 * (segment.h). Nothing here walks a chain longer than a segment.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/retired.h"
#include "engine/segment.h"

#define SLOW_READS_MAX 256 /* then a head that other processes moved gets its tree built */

static pd_code not_found(pd_bytes key, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "there is no key '%.*s'", (int)(key.size < 200 ? key.size : 200), (const char *)key.data);
}

pd_code pd_get_in_tree(pd_store *s, pd_node *root, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_find(&s->tree, root, key, &leaf, &index, err));
  if (!leaf) return not_found(key, err);
  if (out_value) TRY(pd_value_read(s, leaf, index, out_value, err));
  if (out_entry) {
    pd_entry_of(leaf, index, out_entry);
    out_entry->key = key;
  }
  return PD_OK;
}

static pd_code take_value(pd_store *s, const pd_rec_change *ch, pd_buf *out_value, pd_error *err)
{
  if (ch->is_erased) return pd_erased_error(s, ch->key, &ch->value_id, err);
  if (ch->is_chunked) return pd_pieces_read(s, &ch->list_id, &ch->value_id, ch->size, out_value, err);
  if (ch->is_in_bag) return pd_value_blob(s, &ch->value_id, out_value, err);
  pd_buf_clear(out_value);
  return pd_buf_append(out_value, ch->value.data, ch->value.size, err);
}

pd_code pd_change_value(pd_store *s, const pd_rec_change *ch, pd_buf *out, pd_error *err)
{
  return take_value(s, ch, out, err);
}

static pd_code get_at(pd_store *s, uint64_t seq, pd_bytes key, bool may_yield, pd_buf *out_value, pd_entry *out_entry, pd_error *err);

/* The keyframe before the segment has the date in its tree. Without it, the segments before would have to be read down to version 1. */
static pd_code created_before(pd_store *s, pd_segment *seg, uint64_t outside, pd_bytes key, bool may_yield, int64_t *out_ms, pd_error *err)
{
  pd_entry before;
  pd_error why;
  pd_node *root = NULL;
  if (outside) TRY(pd_segment_base_root(s, seg, outside, &root, err));
  pd_code code = root ? pd_get_in_tree(s, root, key, NULL, &before, &why) : PD_NOT_FOUND;
  if (code && code != PD_NOT_FOUND && err) *err = why;
  if (code == PD_NOT_FOUND) code = get_at(s, outside, key, may_yield, NULL, &before, err);
  if (!code) *out_ms = before.created_ms;
  return code;
}

/* The entry that a change in the past made. Its value was covered by the record's checksum; its id is computed here. */
static pd_code take_entry(pd_store *s, pd_segment *seg, const pd_rec *rec, const pd_rec_change *ch, pd_bytes key, bool may_yield,
                          pd_entry *out, pd_error *err)
{
  pd_rec whole;
  TRY(pd_rec_decode_checked(rec->seq, rec->bytes, &whole, err));
  pd_entry entry = {.key = key,
                    .value_id = pd_rec_value_id(ch),
                    .version = ch->version,
                    .size = ch->size,
                    .seq = rec->seq,
                    .updated_ms = pd_rec_made_ms(&whole)};
  bool is_known;
  uint64_t outside;
  TRY(pd_segment_created(seg, rec->seq, key, &is_known, &entry.created_ms, &outside, err));
  if (!is_known) TRY(created_before(s, seg, outside, key, may_yield, &entry.created_ms, err));
  *out = entry;
  return PD_OK;
}

static pd_code get_at_point(pd_store *s, uint64_t seq, pd_bytes key, bool may_yield, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  pd_node *root;
  if (pd_is_retired(s, seq)) return pd_retired_error(s, seq, err);
  TRY(may_yield ? pd_tree_to_read(s, seq, &root, err) : pd_tree_of(s, seq, &root, err));
  pd_code code = pd_get_in_tree(s, root, key, out_value, out_entry, err);
  pd_node_unref(&s->tree.pool, root);
  return code;
}

static pd_code get_at(pd_store *s, uint64_t seq, pd_bytes key, bool may_yield, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  TRY(pd_retention_ready(s, err));
  while (seq) {
    if (may_yield) TRY(pd_segment_bring(s, seq, err));
    if (seq < s->retention.state.cut) return get_at_point(s, seq, key, may_yield, out_value, out_entry, err);
    pd_segment *seg;
    pd_rec rec;
    pd_rec_change ch;
    bool is_found;
    TRY(pd_segment_of(s, seq, &seg, err));
    TRY(pd_segment_find(seg, seq, key, &is_found, &rec, &ch, &seq, err));
    if (is_found && ch.is_delete) return not_found(key, err);
    if (is_found) {
      if (out_value) TRY(take_value(s, &ch, out_value, err));
      return out_entry ? take_entry(s, seg, &rec, &ch, key, may_yield, out_entry, err) : PD_OK;
    }
    pd_node *root = NULL;
    if (seq) TRY(pd_segment_base_root(s, seg, seq, &root, err));
    if (root) return pd_get_in_tree(s, root, key, out_value, out_entry, err);
  }
  return not_found(key, err);
}

pd_code pd_get_at(pd_store *s, uint64_t seq, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  return get_at(s, seq, key, false, out_value, out_entry, err);
}

pd_code pd_get_to_read(pd_store *s, uint64_t seq, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  return get_at(s, seq, key, true, out_value, out_entry, err);
}

pd_code pd_get_at_head(pd_store *s, pd_head *head, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  if (!head->root && !head->has_blob && head->commit.seq && head->commit.seq <= s->log_seq && ++s->slow_reads < SLOW_READS_MAX)
    return pd_get_at(s, head->commit.seq, key, out_value, out_entry, err);
  s->slow_reads = 0;
  pd_node *root;
  TRY(pd_head_root(s, head, &root, err));
  return pd_get_in_tree(s, root, key, out_value, out_entry, err);
}

pd_code pd_get_locked(pd_store *s, const char *at, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  pd_ref_slot *slot;
  TRY(pd_refresh_to_read(s, err));
  if (pd_resolve_head(s, at, &slot)) return pd_get_at_head(s, &slot->seen, key, out_value, out_entry, err);
  pd_commit commit;
  pd_store_yield(s);
  TRY(pd_resolve_to_read(s, at, &commit, err));
  return pd_get_to_read(s, commit.seq, key, out_value, out_entry, err);
}

pd_code pd_get(pd_store *store, const char *at, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  if (!key.size || key.size > PD_KEY_SIZE_MAX) TRY(pd_key_check(key, err));
  pd_store_lock(store);
  pd_code code = pd_get_locked(store, at, key, out_value, out_entry, err);
  pd_cache_trim(store);
  pd_store_unlock(store);
  return code;
}

pd_code pd_has(pd_store *store, const char *at, pd_bytes key, bool *out_has, pd_error *err)
{
  pd_error why;
  TRY(pd_key_check(key, err));
  pd_commit point; /* tells an absent key from an absent point */
  pd_code code = at && *at ? pd_resolve(store, at, &point, err) : PD_OK;
  if (code) return code;
  code = pd_get(store, at, key, NULL, NULL, &why);
  if (code && code != PD_NOT_FOUND) {
    if (err) *err = why;
    return code;
  }
  *out_has = !code;
  return PD_OK;
}

/* ---- versions: each change names the record that wrote the key before ---- */

pd_code pd_version_step(pd_store *s, pd_bytes key, uint64_t seq, pd_buf *scratch, pd_rec *out_rec, pd_rec_change *out_change, pd_error *err)
{
  TRY(pd_record_at(s, seq, scratch, out_rec, err));
  pd_error why;
  pd_code code = pd_rec_find(out_rec, key, out_change, &why);
  if (code == PD_CORRUPT && out_rec->has_dropped) return pd_retired_error(s, seq, err);
  if (code && err) *err = why;
  return code;
}

pd_code pd_version_value(pd_store *s, pd_bytes key, uint64_t seq, pd_id *out_id, pd_buf *out_value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_rec_change ch;
  TRY(pd_version_step(s, key, seq, &scratch, &rec, &ch, err));
  pd_id id = pd_rec_value_id(&ch);
  if (out_value) TRY(take_value(s, &ch, out_value, err));
  *out_id = id;
  return PD_OK;
}

static pd_code retired_version(pd_store *s, pd_bytes key, uint64_t version, pd_error *err)
{
  pd_error why;
  pd_code code = pd_retired_error(s, 0, &why);
  return pd_error_set(err, code, "version %llu of key '%.*s' is gone: %s", (unsigned long long)version,
                      (int)(key.size < 200 ? key.size : 200), (const char *)key.data, why.message);
}

static pd_code no_version(pd_bytes key, uint64_t version, uint64_t present, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "key '%.*s' has no version %llu: it is at %llu", (int)(key.size < 200 ? key.size : 200),
                      (const char *)key.data, (unsigned long long)version, (unsigned long long)present);
}

static pd_code get_version_locked(pd_store *s, const char *at, pd_bytes key, uint64_t version, pd_buf *out_value, pd_entry *out_entry,
                                  pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_entry entry;
  pd_rec rec;
  pd_rec_change ch;
  TRY(pd_get_locked(s, at, key, NULL, &entry, err));
  uint64_t seq = entry.seq;
  if (!version || version > entry.version) return no_version(key, version, entry.version, err);
  for (unsigned steps = 1;; steps++) {
    if (steps % PD_YIELD_STEPS == 0) pd_store_yield(s);
    pd_code code = pd_version_step(s, key, seq, &scratch, &rec, &ch, err);
    if (code == PD_RETIRED) return retired_version(s, key, version, err);
    if (code) return code;
    if (ch.version == version) break;
    if (ch.version < version) return no_version(key, version, entry.version, err); /* numbers may skip */
    if (ch.is_carried) return retired_version(s, key, version, err);
    if (!ch.prev_seq) return no_version(key, version, entry.version, err);
    if (ch.prev_seq >= seq) return pd_error_set(err, PD_CORRUPT, "the versions of a key do not go back to the first");
    seq = ch.prev_seq;
  }
  entry.version = version;
  entry.size = ch.size;
  entry.seq = seq;
  entry.updated_ms = pd_rec_made_ms(&rec);
  entry.value_id = pd_rec_value_id(&ch);
  entry.key = key;
  if (out_value) TRY(take_value(s, &ch, out_value, err));
  if (out_entry) *out_entry = entry;
  return PD_OK;
}

pd_code pd_get_version(pd_store *store, const char *at, pd_bytes key, uint64_t version, pd_buf *out_value, pd_entry *out_entry,
                       pd_error *err)
{
  TRY(pd_key_check(key, err));
  pd_store_lock_to_read(store);
  pd_code code = get_version_locked(store, at, key, version, out_value, out_entry, err);
  pd_cache_trim(store);
  pd_store_unlock(store);
  return code;
}
