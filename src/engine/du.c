/*
 * du.c: where the bytes are. Rows come from walks over trees; the sums of the whole store from one walk over the log, in which every value
 * is noted by its id, so that one that was written twice, or is at two refs, counts once.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/gc.h"

#include <stdlib.h>

typedef struct noted {
  pd_id id;
  uint64_t size;
  bool is_live;
  bool is_blob; /* in the bag as it is */
} noted;

typedef struct survey {
  pd_store *s;
  noted *values;
  size_t count, capacity;
  bool (*visit)(void *ctx, const pd_du_row *row);
  void *ctx;
  bool is_stopped;
  char (*refs)[PD_REF_SIZE_MAX + 1];
  size_t ref_count, ref_capacity;
  bool failed; /* no memory for the list of refs */
} survey;

static void survey_done(survey *v)
{
  free(v->values);
  free(v->refs);
}

static pd_code note(survey *v, const noted *value, pd_error *err)
{
  TRY(pd_array_grow(&v->values, v->count, &v->capacity, sizeof *v->values, "the use of disk", err));
  v->values[v->count++] = *value;
  return PD_OK;
}

static void give(survey *v, const pd_du_row *row)
{
  if (v->visit && !v->is_stopped && row->keys) v->is_stopped = !v->visit(v->ctx, row);
}

/* ---- rows ---- */

/* How much of `key` names its row: `depth` segments after the prefix. */
static size_t row_size(pd_bytes key, size_t prefix_size, unsigned depth)
{
  const char *text = key.data;
  size_t at = prefix_size;
  for (; depth; depth--) {
    const char *slash = at < key.size ? memchr(text + at, '/', key.size - at) : NULL;
    if (!slash) return key.size;
    at = (size_t)(slash - text) + 1;
  }
  return at;
}

static pd_code add_up_keys(survey *v, const char *at, pd_bytes prefix, unsigned depth, pd_du *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_du_row row = {0};
  pd_scan scan = {.prefix = prefix, .keys_only = true};
  pd_iter *iter;
  pd_entry entry;
  TRY(pd_iter_open(v->s, at, &scan, &iter, err));
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, NULL, err))) {
    pd_bytes group = {entry.key.data, row_size(entry.key, prefix.size, depth)};
    if (!pd_bytes_equal(group, pd_buf_bytes(&name)) || !row.keys) {
      row.prefix = pd_buf_bytes(&name);
      give(v, &row);
      row = (pd_du_row){0};
      pd_buf_clear(&name);
      if ((code = pd_buf_append(&name, group.data, group.size, err))) break;
    }
    row.keys++, row.bytes += entry.size;
    out->keys++, out->bytes += entry.size;
  }
  row.prefix = pd_buf_bytes(&name);
  if (code == PD_NOT_FOUND) give(v, &row);
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static void take_ref(void *ctx, const pd_ref *ref)
{
  survey *v = ctx;
  if (pd_array_grow(&v->refs, v->ref_count, &v->ref_capacity, sizeof *v->refs, "the use of disk", NULL))
    v->failed = true;
  else
    strcpy(v->refs[v->ref_count++], ref->name);
}

/* One ref: its row, and its values are live. The hidden ref gives no row. */
static pd_code add_up_ref(survey *v, const char *name, bool is_hidden, pd_error *err)
{
  pd_du_row row = {.prefix = pd_text(name), .is_ref = true};
  pd_scan scan = {.keys_only = true};
  pd_iter *iter;
  pd_entry entry;
  TRY(pd_iter_open(v->s, name, &scan, &iter, err));
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, NULL, err))) {
    row.keys++, row.bytes += entry.size;
    noted value = {.id = entry.value_id, .size = entry.size, .is_live = true};
    if ((code = note(v, &value, err))) break;
  }
  pd_iter_close(iter);
  if (code != PD_NOT_FOUND) return code;
  if (!is_hidden) give(v, &row);
  return PD_OK;
}

static pd_code add_up_refs(survey *v, pd_error *err)
{
  pd_store_lock(v->s);
  const pd_ref_slot *meta = pd_slot_find(v->s, PD_META_REF);
  bool has_meta = meta && !meta->seen.is_deleted;
  pd_store_unlock(v->s);
  TRY(pd_ref_list(v->s, take_ref, v, err));
  if (v->failed) return pd_error_memory(err, "the use of disk");
  for (size_t i = 0; i < v->ref_count; i++) TRY(add_up_ref(v, v->refs[i], false, err));
  return has_meta ? add_up_ref(v, PD_META_REF, true, err) : PD_OK;
}

/* ---- the whole log ---- */

static pd_code note_record(survey *v, uint64_t seq, pd_bytes bytes, pd_error *err)
{
  pd_rec rec;
  if (!bytes.size) return PD_OK; /* retired */
  TRY(pd_rec_decode(seq, bytes, &rec, err));
  if (rec.kind != PD_RECORD_COMMIT) return PD_OK;
  pd_cursor c = pd_rec_changes(&rec);
  for (size_t i = 0; i < rec.change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(&rec, &c, &ch);
    if (ch.is_delete || ch.is_erased) continue;
    noted value = {.id = pd_rec_value_id(&ch), .size = ch.size, .is_blob = ch.is_in_bag && !ch.is_chunked};
    TRY(note(v, &value, err));
  }
  return PD_OK;
}

static pd_code note_log(survey *v, uint64_t tail, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  for (uint64_t seq = 1; seq <= tail;) {
    TRY(pd_take_records(v->s, seq, tail, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    for (size_t i = 0; i < t.count; i++, seq++) TRY(note_record(v, seq, pd_taken_at(&t, i), err));
  }
  return PD_OK;
}

static int compare_noted(const void *a, const void *b)
{
  return memcmp(&((const noted *)a)->id, &((const noted *)b)->id, sizeof(pd_id));
}

static void add_up_values(survey *v, pd_du *out)
{
  if (v->count) qsort(v->values, v->count, sizeof *v->values, compare_noted);
  for (size_t i = 0, end; i < v->count; i = end) {
    bool is_live = false, is_blob = false;
    for (end = i; end < v->count && compare_noted(&v->values[i], &v->values[end]) == 0; end++) {
      is_live |= v->values[end].is_live;
      is_blob |= v->values[end].is_blob;
    }
    uint64_t size = v->values[i].size;
    out->versions++, out->version_bytes += size;
    if (is_live) out->live_versions++, out->live_bytes += size;
    if (is_blob) out->bag_value_bytes += size;
  }
  out->history_versions = out->versions - out->live_versions;
  out->history_bytes = out->version_bytes - out->live_bytes;
}

pd_code pd_du_store(pd_store *store, const char *at, pd_bytes prefix, unsigned depth, bool (*visit)(void *ctx, const pd_du_row *row),
                    void *ctx, pd_du *out, pd_error *err)
{
  CLEANUP(survey_done) survey v = {.s = store, .visit = visit, .ctx = ctx};
  pd_du du = {0};
  pd_stats stats;
  TRY(pd_store_flush(store, err));
  TRY(add_up_keys(&v, at, prefix, depth ? depth : 1, &du, err));
  TRY(add_up_refs(&v, err));
  TRY(pd_store_stats(store, &stats, err));
  TRY(note_log(&v, stats.records, err));
  add_up_values(&v, &du);
  if (du.bag_value_bytes > stats.bag_bytes) du.bag_value_bytes = stats.bag_bytes; /* another wrote meanwhile */
  du.log_bytes = stats.log_bytes;
  du.bag_node_bytes = stats.bag_bytes - du.bag_value_bytes;
  du.disk_bytes = stats.disk_bytes;
  uint64_t payload = stats.log_bytes + stats.bag_bytes;
  du.overhead_bytes = stats.disk_bytes > payload ? stats.disk_bytes - payload : 0;
  pd_gc_policy policy;
  TRY(pd_auto_gc_policy(store, &policy, err));
  pd_error why;
  pd_code code = pd_gc_would_free(store, &policy, &du.gc_bytes, &why);
  if (code && code != PD_UNSUPPORTED && err) *err = why;
  if (code && code != PD_UNSUPPORTED) return code;
  *out = du;
  return PD_OK;
}
