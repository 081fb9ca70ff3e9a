/* store_read.c: store.get, list, refs, stats, and what all of store.* share: see store_call.h. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#include <stdio.h>

/* ---- which store ---- */

pd_code pd_store_missing(const char *name, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "StoreNotFound", "no store for agent '%s' here", name);
}

/* E2 */
pd_code pd_store_check_system(const pd_frame *frame, const char *name, pd_store_use use, pd_error *err)
{
  if (strcmp(name, PD_STORE_SYSTEM) != 0 || (use == PD_STORE_READ && !frame->ctx->is_onlooker)) return PD_OK;
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "the store 'system' is written by the server alone, and read by the operator");
}

static pd_code hold(pd_frame *frame, const char *name, bool is_of_all, bool create, pd_held **out_held, pd_store **out, pd_error *err)
{
  if (is_of_all) return pd_home_store(frame->home, name, create, out, err);
  return pd_home_hold(&frame->grant, name, create, out_held, err);
}

/* A store that is there is not opened as tiers open one to write to it: that would set the home's rules for gc in it (window.h). */
pd_code pd_store_open_for(pd_frame *frame, pd_store_use use, pd_store **out, pd_error *err)
{
  char name[PD_NAME_SIZE_MAX + 1] = "";
  pd_held *held = NULL;
  (void)!pd_in_string(frame, "store", name, sizeof name);
  TRY(pd_store_check_system(frame, name, use, err));
  bool is_of_all = strcmp(name, PD_STORE_SYSTEM) == 0 || strcmp(name, PD_STORE_SHARED) == 0;
  pd_code code = hold(frame, name, is_of_all, false, &held, out, err);
  if (code == PD_NOT_FOUND && use == PD_STORE_MAKE) code = hold(frame, name, is_of_all, true, &held, out, err);
  if (code == PD_NOT_FOUND) return pd_store_missing(name, err);
  TRY(code);
  if (is_of_all) return PD_OK;
  pd_home_let(frame->home, frame->held);
  frame->held = held;
  *out = held->store;
  return PD_OK;
}

/* ---- which point ---- */

static void take_current(void *ctx, const pd_ref *ref)
{
  if (ref->is_current) snprintf(ctx, PD_REF_SIZE_MAX + 1, "%s", ref->name);
}

pd_code pd_store_current(pd_store *store, char out[PD_REF_SIZE_MAX + 1], pd_error *err)
{
  out[0] = 0;
  TRY(pd_ref_list(store, take_current, out, err));
  return *out ? PD_OK : pd_error_set(err, PD_NOT_FOUND, "the store has no current ref");
}

pd_code pd_store_at(pd_frame *frame, pd_store *store, const char *field, char out[PD_STORE_AT_SIZE], pd_error *err)
{
  char given[PD_STORE_AT_SIZE - PD_REF_SIZE_MAX] = "", current[PD_REF_SIZE_MAX + 1] = "";
  (void)!pd_in_string(frame, field, given, sizeof given);
  if (!*given || *given == '~' || *given == '@') TRY(pd_store_current(store, current, err));
  snprintf(out, PD_STORE_AT_SIZE, "%s%s", current, given);
  return PD_OK;
}

pd_code pd_store_point(pd_frame *frame, pd_store *store, const char *field, pd_commit *out, char out_hex[PD_ID_HEX_SIZE], pd_error *err)
{
  char at[PD_STORE_AT_SIZE];
  TRY(pd_store_at(frame, store, field, at, err));
  TRY(pd_resolve(store, at, out, err));
  pd_id_hex(&out->id, out_hex);
  return PD_OK;
}

static bool has_field(const pd_frame *frame, const char *name)
{
  for (size_t i = 0; i < frame->capability->field_count; i++)
    if (strcmp(frame->capability->fields[i].name, name) == 0) return true;
  return false;
}

pd_code pd_store_take_note(pd_frame *frame, pd_store *store, pd_store_note *out, pd_error *err)
{
  (void)!pd_in_string(frame, "store", out->name, sizeof out->name);
  bool has_author = pd_in_string(frame, "author", out->author, sizeof out->author);
  bool has_run = pd_in_string(frame, "run", out->run, sizeof out->run);
  bool has_reason = pd_in_string(frame, "reason", out->reason, sizeof out->reason);
  bool has_ref = has_field(frame, "ref") && pd_in_string(frame, "ref", out->ref, sizeof out->ref);
  if (!has_ref) TRY(pd_store_current(store, out->ref, err));
  TRY(pd_ref_check(out->ref, err));
  out->note = (pd_note){.ref = out->ref, .author = has_author ? out->author : out->name};
  if (has_run) out->note.run = out->run;
  if (has_reason) out->note.reason = out->reason;
  return PD_OK;
}

/* ---- answers ---- */

void pd_out_ack(pd_frame *frame, const char *ref, const pd_ack *ack)
{
  pd_json_put_text(&frame->out, "ref", ref);
  pd_out_commit(frame, &ack->commit);
  pd_out_id(frame, "tree", &ack->tree);
  pd_json_put_number(&frame->out, "seq", ack->seq);
  if (ack->version) pd_json_put_number(&frame->out, "version", ack->version);
  pd_json_put_text(&frame->out, "durability", ack->durability == PD_SYNCED ? "synced" : "buffered");
}

void pd_out_base64(pd_frame *frame, const char *name, pd_bytes bytes)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (frame->out.code) return;
  frame->out.code = pd_base64_encode(bytes, &text, frame->out.err);
  pd_json_put_bytes(&frame->out, name, pd_buf_bytes(&text));
}

void pd_out_entry(pd_frame *frame, const pd_entry *entry)
{
  pd_json_put_number(&frame->out, "version", entry->version);
  pd_json_put_number(&frame->out, "size", entry->size);
  pd_out_id(frame, "value_id", &entry->value_id);
  pd_json_put_number(&frame->out, "seq", entry->seq);
  pd_json_put_number(&frame->out, "created_ms", (uint64_t)entry->created_ms);
  pd_json_put_number(&frame->out, "updated_ms", (uint64_t)entry->updated_ms);
}

void pd_out_point(pd_frame *frame, const char *name, const pd_commit *commit)
{
  pd_json_key(&frame->out, name);
  pd_json_open(&frame->out, '{');
  pd_out_id(frame, "commit", &commit->id);
  pd_out_id(frame, "tree", &commit->tree);
  pd_json_put_number(&frame->out, "seq", commit->seq);
  pd_json_close(&frame->out, '}');
}

static void write_ref(void *ctx, const pd_ref *ref)
{
  pd_frame *frame = ctx;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "name", ref->name);
  pd_out_id(frame, "commit", &ref->commit.id);
  pd_out_id(frame, "tree", &ref->commit.tree);
  pd_json_put_number(&frame->out, "seq", ref->commit.seq);
  pd_json_put_number(&frame->out, "updated_ms", (uint64_t)ref->updated_ms);
  pd_json_put_bool(&frame->out, "is_current", ref->is_current);
  pd_json_put_bool(&frame->out, "can_redo", ref->can_redo);
  pd_json_close(&frame->out, '}');
}

pd_code pd_out_refs(pd_frame *frame, pd_store *store, pd_error *err)
{
  pd_json_key(&frame->out, "refs");
  pd_json_open(&frame->out, '[');
  TRY(pd_ref_list(store, write_ref, frame, err));
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}

/* ---- get ---- */

pd_code pd_cap_store_get(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char at[PD_STORE_AT_SIZE];
  pd_bytes key = pd_in_text(frame, "key");
  uint64_t version = (uint64_t)pd_in_int(frame, "version", 0);
  bool has_value = pd_in_bool(frame, "value", true), is_found = true;
  pd_store *store;
  pd_entry entry;
  TRY(pd_key_check(key, err));
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_at(frame, store, "at", at, err));
  if (pd_in_bool(frame, "missing_ok", false)) TRY(pd_has(store, at, key, &is_found, err));
  pd_json_put_bool(&frame->out, "found", is_found);
  if (!is_found || !has_value) return frame->out.code;
  TRY(version ? pd_get_version(store, at, key, version, &value, &entry, err) : pd_get(store, at, key, &value, &entry, err));
  pd_out_entry(frame, &entry);
  pd_out_base64(frame, "base64", pd_buf_bytes(&value));
  return frame->out.code;
}

/* ---- list ---- */

typedef struct store_listing {
  uint64_t count, limit;
  bool has_more, has_values;
  pd_buf last;
} store_listing;

static void listing_done(store_listing *l)
{
  pd_buf_done(&l->last);
}

static pd_code list_entries(pd_frame *frame, pd_iter *iter, store_listing *l, pd_error *err)
{
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, &value, err))) {
    l->has_more = l->count == l->limit || (l->count && pd_out_is_long(frame));
    if (l->has_more) return frame->out.code;
    l->count++;
    pd_buf_clear(&l->last);
    TRY(pd_buf_append(&l->last, entry.key.data, entry.key.size, err));
    pd_json_open(&frame->out, '{');
    pd_json_put_bytes(&frame->out, "key", entry.key);
    pd_out_entry(frame, &entry);
    if (l->has_values) pd_out_base64(frame, "base64", value);
    pd_json_close(&frame->out, '}');
  }
  return code == PD_NOT_FOUND ? frame->out.code : code;
}

pd_code pd_cap_store_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(listing_done)
  store_listing l = {.limit = (uint64_t)pd_in_int(frame, "limit", 1000), .has_values = pd_in_bool(frame, "values", false)};
  pd_scan scan = {.prefix = pd_in_text(frame, "prefix"), .after = pd_in_text(frame, "after"), .keys_only = !l.has_values};
  char hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  pd_store *store;
  pd_iter *iter;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_point(frame, store, "at", &commit, hex, err));
  TRY(pd_iter_open(store, hex, &scan, &iter, err));
  pd_out_id(frame, "commit", &commit.id);
  pd_json_key(&frame->out, "entries");
  pd_json_open(&frame->out, '[');
  pd_code code = list_entries(frame, iter, &l, err);
  pd_iter_close(iter);
  TRY(code);
  pd_json_close(&frame->out, ']');
  if (l.has_more) pd_json_put_bytes(&frame->out, "next_after", pd_buf_bytes(&l.last));
  return frame->out.code;
}

/* ---- refs, with tags and pins ---- */

static bool write_mark(void *ctx, const pd_mark *mark)
{
  pd_frame *frame = ctx;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "name", mark->name);
  pd_out_id(frame, "commit", &mark->commit);
  pd_json_put_number(&frame->out, "seq", mark->seq);
  pd_json_put_number(&frame->out, "time_ms", (uint64_t)mark->time_ms);
  pd_json_put_text(&frame->out, "author", mark->author);
  pd_json_put_text(&frame->out, "reason", mark->reason);
  pd_json_close(&frame->out, '}');
  return !frame->out.code;
}

static pd_code put_marks(pd_frame *frame, pd_store *store, const char *name, pd_code (*list)(pd_store *, pd_mark_visit, void *, pd_error *),
                         pd_error *err)
{
  pd_json_key(&frame->out, name);
  pd_json_open(&frame->out, '[');
  TRY(list(store, write_mark, frame, err));
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}

pd_code pd_cap_store_refs(pd_frame *frame, pd_error *err)
{
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_out_refs(frame, store, err));
  TRY(put_marks(frame, store, "tags", pd_tag_list, err));
  return put_marks(frame, store, "pins", pd_pin_list, err);
}

/* ---- stats ---- */

static bool count_mark(void *ctx, const pd_mark *mark)
{
  (void)mark;
  ++*(uint64_t *)ctx;
  return true;
}

static bool count_setting(void *ctx, const char *name, pd_bytes value)
{
  (void)name, (void)value;
  ++*(uint64_t *)ctx;
  return true;
}

static void put_stats(pd_frame *frame, const pd_stats *stats)
{
  pd_json_put_number(&frame->out, "keys", stats->keys);
  pd_json_put_number(&frame->out, "refs", stats->refs);
  pd_json_put_number(&frame->out, "records", stats->records);
  pd_json_put_number(&frame->out, "keyframes", stats->keyframes);
  pd_json_put_number(&frame->out, "tail_records", stats->tail_records);
  pd_json_put_number(&frame->out, "log_bytes", stats->log_bytes);
  pd_json_put_number(&frame->out, "bag_bytes", stats->bag_bytes);
  pd_json_put_number(&frame->out, "disk_bytes", stats->disk_bytes);
  pd_json_put_bool(&frame->out, "is_durable", stats->is_durable);
}

static void put_gc(pd_frame *frame, const pd_gc_info *gc)
{
  pd_json_put_number(&frame->out, "gc_cut", gc->cut);
  pd_json_put_bool(&frame->out, "gc_auto", gc->is_auto);
  pd_json_put_number(&frame->out, "gc_auto_ms", (uint64_t)gc->auto_ms);
  pd_json_put_text(&frame->out, "gc_trouble", gc->auto_trouble);
}

/* The handle counts the keys of its own ref, which need not be the current one (E3). */
static pd_code count_keys(pd_store *store, const char *ref, uint64_t *out, pd_error *err)
{
  pd_iter *iter;
  pd_entry entry;
  pd_code code;
  if (strcmp(pd_store_ref(store), ref) == 0) return PD_OK;
  TRY(pd_iter_open(store, ref, &(pd_scan){.keys_only = true}, &iter, err));
  for (*out = 0; !(code = pd_iter_next(iter, &entry, NULL, err)); ++*out) continue;
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_cap_store_stats(pd_frame *frame, pd_error *err)
{
  char ref[PD_REF_SIZE_MAX + 1];
  uint64_t tags = 0, pins = 0, settings = 0;
  pd_stats stats;
  pd_gc_info gc;
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_current(store, ref, err));
  TRY(pd_store_stats(store, &stats, err));
  TRY(count_keys(store, ref, &stats.keys, err));
  TRY(pd_tag_list(store, count_mark, &tags, err));
  TRY(pd_pin_list(store, count_mark, &pins, err));
  TRY(pd_setting_list(store, NULL, count_setting, &settings, err));
  TRY(pd_gc_status(store, &gc, err));
  pd_json_put_text(&frame->out, "ref", ref);
  put_stats(frame, &stats);
  pd_json_put_number(&frame->out, "tags", tags);
  pd_json_put_number(&frame->out, "pins", pins);
  pd_json_put_number(&frame->out, "settings", settings);
  put_gc(frame, &gc);
  return frame->out.code;
}
