/* retired.c: see retired.h. */
#include "engine/retired.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- knowing ---- */

/* Keyframes before the cut are gone; the cut itself stands for them. */
static pd_code adopt_cut(pd_store *s, const pd_points *state, pd_error *err)
{
  if (state->cut <= 1) return PD_OK;
  TRY(pd_index_reserve(s, 1, err));
  uint64_t covers = state->cut - 1;
  size_t gone = 0;
  while (gone < s->frame_count && s->frames[gone].covers < covers) pd_buf_done(&s->frame_runs[gone++]);
  if (gone) {
    s->frame_count -= gone;
    memmove(s->frames, s->frames + gone, s->frame_count * sizeof *s->frames);
    memmove(s->frame_runs, s->frame_runs + gone, s->frame_count * sizeof *s->frame_runs);
  }
  pd_catalog_frame cut = {state->cut, covers, state->catalog, state->run};
  if (s->frame_count && s->frames[0].covers == covers) {
    if (s->frames[0].seq != state->cut) return PD_OK; /* a keyframe, which records name by its number */
    pd_buf_done(&s->frame_runs[0]);                   /* maybe this cut as an earlier gc left it, whose catalog is gone */
  } else {
    memmove(s->frames + 1, s->frames, s->frame_count * sizeof *s->frames);
    memmove(s->frame_runs + 1, s->frame_runs, s->frame_count * sizeof *s->frame_runs);
    s->frame_count++;
  }
  s->frames[0] = cut;
  s->frame_runs[0] = (pd_buf){0};
  return PD_OK;
}

static pd_code look_for_erasures(pd_store *s, pd_node *root, pd_error *err)
{
  CLEANUP(pd_tree_cursor_done) pd_tree_cursor cursor = {0};
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_seek(&cursor, &s->tree, root, pd_text(PD_ERASED_KIND "/"), err));
  if (pd_tree_at(&cursor, &leaf, &index) && pd_bytes_starts(pd_node_key(leaf, index), pd_text(PD_ERASED_KIND "/")))
    s->retention.has_erased = true;
  return PD_OK;
}

/* By its tree: how old the entry is would have to be looked for before the cut. */
static pd_code load_state(pd_store *s, pd_head *head, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf bytes = {0};
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  pd_retention *r = &s->retention;
  pd_node *root, *leaf;
  size_t index;
  TRY(pd_head_root(s, head, &root, err));
  TRY(look_for_erasures(s, root, err));
  TRY(pd_tree_find(&s->tree, root, pd_text(PD_RETENTION_KEY), &leaf, &index, err));
  if (!leaf || leaf->riders[index].seq == r->epoch) return PD_OK;
  uint64_t epoch = leaf->riders[index].seq;
  TRY(pd_value_read(s, leaf, index, &bytes, err));
  CLEANUP(pd_points_done) pd_points state = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  TRY(pd_points_decode(pd_buf_bytes(&bytes), &state, err));
  if (state.cut > 1) {
    TRY(pd_load_blob(s, &state.catalog, "the catalog of the cut", &blob, err));
    TRY(pd_catalog_decode(pd_buf_bytes(&blob), &catalog, err));
  }
  TRY(adopt_cut(s, &state, err));
  pd_past_forget(s);
  pd_retention_done(s);
  r->epoch = epoch;
  r->state = state;
  r->catalog = catalog;
  state = (pd_points){0};
  catalog = (pd_catalog){0};
  return PD_OK;
}

pd_code pd_retention_ready(pd_store *s, pd_error *err)
{
  pd_retention *r = &s->retention;
  if (!r->is_stale || r->is_loading) return PD_OK;
  pd_ref_slot *slot = pd_slot_find(s, PD_META_REF);
  if (!slot || slot->seen.is_deleted) return PD_OK;
  r->is_loading = true; /* what it reads is newer than any cut */
  pd_code code = load_state(s, &slot->seen, err);
  r->is_loading = false;
  r->is_stale = code != PD_OK;
  return code;
}

void pd_retention_changed(pd_store *s)
{
  s->retention.is_stale = true;
  s->retention.has_changed = true;
  s->forgotten++;
}

void pd_retention_done(pd_store *s)
{
  pd_points_done(&s->retention.state);
  pd_catalog_done(&s->retention.catalog);
  s->retention.state = (pd_points){0};
  s->retention.epoch = 0;
}

const pd_point *pd_point_at(const pd_store *s, uint64_t seq)
{
  return seq < s->retention.state.cut ? pd_points_find(&s->retention.state, seq) : NULL;
}

bool pd_is_retired(const pd_store *s, uint64_t seq)
{
  if (seq == PD_SEQ_GONE) return true;
  return seq && seq < s->retention.state.cut && !pd_point_at(s, seq);
}

/* Does it change something of the hidden ref that begins so? */
static bool changes_meta(const pd_rec *rec, const char *prefix)
{
  if (rec->kind != PD_RECORD_COMMIT || !pd_bytes_equal(rec->ref, pd_text(PD_META_REF))) return false;
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    if (pd_bytes_starts(ch.key, pd_text(prefix))) return true;
  }
  return false;
}

bool pd_is_retention_record(const pd_rec *rec)
{
  return changes_meta(rec, PD_RETENTION_KEY);
}

bool pd_is_erasure_record(const pd_rec *rec)
{
  return changes_meta(rec, PD_ERASING_KIND "/");
}

bool pd_is_ledger_record(const pd_rec *rec)
{
  return changes_meta(rec, PD_ERASED_KIND "/");
}

bool pd_is_gc_setting_record(const pd_rec *rec)
{
  return changes_meta(rec, "setting/" PD_SETTING_GC);
}

/* ---- telling ---- */

pd_code pd_retired_error(const pd_store *s, uint64_t seq, pd_error *err)
{
  const pd_points *state = &s->retention.state;
  char what[64] = "older history", time[PD_TIME_TEXT_SIZE];
  if (seq && seq != PD_SEQ_GONE) snprintf(what, sizeof what, "record %llu", (unsigned long long)seq);
  if (seq == PD_SEQ_GONE) return pd_error_set(err, PD_RETIRED, "older history was retired where this store was imported from");
  if (!state->retired_ms) return pd_error_set(err, PD_RETIRED, "%s was retired by gc", what);
  return pd_error_set(err, PD_RETIRED, "%s was retired by gc on %s by '%s'", what, pd_time_text(state->retired_ms, time), state->by);
}

/* Did another process retire something that this one has not read yet? */
static bool is_behind_gc(pd_store *s)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  for (uint64_t seq = s->log_seq + 1;; seq += t.count) {
    if (pd_take_records(s, seq, UINT64_MAX, &t, NULL) || !t.count) return false;
    for (size_t i = 0; i < t.count; i++) {
      pd_rec rec;
      pd_bytes bytes = pd_taken_at(&t, i);
      if (!bytes.size) return true;
      if (!pd_rec_decode(seq + i, bytes, &rec, NULL) && (rec.has_dropped || pd_is_retention_record(&rec))) return true;
    }
  }
}

pd_code pd_missing_error(pd_store *s, const char *what, const pd_id *id, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  if (!s->retention.has_changed && !is_behind_gc(s))
    return pd_error_set(err, PD_CORRUPT, "%s is missing: %.16s…", what, pd_id_hex(id, hex));
  return pd_error_set(err, PD_RETIRED, "%s is gone: gc ran while this handle was open, and retired what it was reading (%.16s…)", what,
                      pd_id_hex(id, hex));
}

/* {"at_ms":…,"by":…}; false if the note is not there or not so. */
static bool read_erasure(pd_store *s, const char *name, int64_t *out_ms, pd_buf *out_by)
{
  CLEANUP(pd_buf_done) pd_buf note = {0};
  pd_ref_slot *slot = pd_slot_find(s, PD_META_REF);
  pd_json json;
  if (!slot || slot->seen.is_deleted || pd_get_at_head(s, &slot->seen, pd_text(name), &note, NULL, NULL)) return false;
  if (pd_json_parse(pd_buf_bytes(&note), &json, NULL) || !pd_json_i64(pd_json_member(json, "at_ms"), out_ms)) return false;
  return !pd_json_decode(pd_json_member(json, "by"), out_by, NULL);
}

pd_code pd_erased_error(pd_store *s, pd_bytes key, const pd_id *value_id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf by = {0};
  CLEANUP(pd_buf_done) pd_buf own = {0}; /* the key may be borrowed from what the lookup moves */
  char hex[PD_ID_HEX_SIZE], name[16 + PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  TRY(pd_buf_append(&own, key.data, key.size < 200 ? key.size : 200, err));
  snprintf(name, sizeof name, PD_ERASED_KIND "/%s", pd_id_hex(value_id, hex));
  int64_t at_ms;
  if (!read_erasure(s, name, &at_ms, &by))
    return pd_error_set(err, PD_ERASED, "the value %.12s… of key '%.*s' was erased", hex, (int)own.size, (const char *)own.data);
  return pd_error_set(err, PD_ERASED, "the value %.12s… of key '%.*s' was erased on %s by '%.*s'", hex, (int)own.size,
                      (const char *)own.data, pd_time_text(at_ms, time), (int)(by.size < 100 ? by.size : 100), (const char *)by.data);
}
