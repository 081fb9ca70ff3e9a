/*
 * store_log.c: store.log, history, blame, diff: records as the log has them.
 *
 * Answers come in pages, so that neither side holds a whole log: of records, the next page is what came `before` the last one; a record's
 * parents have smaller numbers, so that is true of a line of commits, too.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/history.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#include <stdio.h>

#define SMALL_SIZE_MAX 64   /* of a value that a short list of differences shows */
#define SMALL_COUNT_MAX 100 /* differences that such a list has at most */

/* ---- records ---- */

typedef struct store_page {
  pd_frame *frame;
  uint64_t limit, count, last_seq;
  bool has_more;
  pd_rows *rows; /* keys that the record has put; NULL: not wanted */
} store_page;

static void put_ids(pd_frame *frame, const char *name, const pd_id *ids, size_t count)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_key(&frame->out, name);
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < count; i++) pd_json_text(&frame->out, pd_text(pd_id_hex(&ids[i], hex)));
  pd_json_close(&frame->out, ']');
}

static void put_change(pd_frame *frame, const pd_change *change)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", change->key);
  if (change->is_delete) pd_json_put_bool(&frame->out, "is_delete", true);
  if (change->is_new) pd_json_put_bool(&frame->out, "is_new", true);
  pd_json_put_number(&frame->out, "version", change->version);
  pd_json_put_number(&frame->out, "size", change->size);
  pd_out_id(frame, "value_id", &change->value_id);
  pd_json_close(&frame->out, '}');
}

static void put_record(pd_frame *frame, const pd_record *record)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_number(&frame->out, "seq", record->seq);
  pd_json_put_text(&frame->out, "kind", pd_record_kind_name(record->kind));
  pd_out_said(frame, "ref", record->ref ? record->ref : "");
  pd_out_id(frame, "commit", &record->commit.id);
  pd_out_id(frame, "tree", &record->commit.tree);
  put_ids(frame, "parents", record->parents, record->parent_count);
  pd_out_who(frame, record->author, record->run, record->reason);
  pd_json_put_number(&frame->out, "time_ms", (uint64_t)record->time_ms);
  pd_json_key(&frame->out, "changes");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < record->change_count; i++) put_change(frame, &record->changes[i]);
  pd_json_close(&frame->out, ']');
  pd_out_id(frame, "audit", &record->audit);
  pd_json_close(&frame->out, '}');
}

static bool visit_record(void *ctx, const pd_record *record)
{
  store_page *p = ctx;
  p->has_more = p->count == p->limit || (p->count && pd_out_is_long(p->frame));
  if (p->has_more || p->frame->out.code) return false;
  p->count++;
  p->last_seq = record->seq;
  put_record(p->frame, record);
  for (size_t i = 0; p->rows && i < record->change_count; i++)
    if (!record->changes[i].is_delete && !pd_rows_add(p->rows, record->changes[i].key)) return false;
  return true;
}

/* ---- log ---- */

static bool stop_at_first(void *ctx, const pd_record *record)
{
  (void)record;
  *(bool *)ctx = true;
  return false;
}

/* A `key` that no commit has changed and that is a ref: the commits of the ref are meant. */
static pd_code take_key(pd_frame *frame, pd_store *store, const char *at, pd_log_query *query, char name[PD_REF_SIZE_MAX + 1],
                        pd_error *err)
{
  bool is_key = false;
  pd_ref ref;
  query->key = pd_in_text(frame, "key");
  if (!query->key.size || !pd_in_bool(frame, "or_ref", false) || query->key.size > PD_REF_SIZE_MAX) return PD_OK;
  snprintf(name, PD_REF_SIZE_MAX + 1, "%.*s", (int)query->key.size, (const char *)query->key.data);
  if (pd_ref_check(name, NULL) || pd_ref_get(store, name, &ref, NULL)) return PD_OK;
  TRY(pd_log(store, &(pd_log_query){.at = at, .key = query->key, .limit = 1}, stop_at_first, &is_key, err));
  if (is_key) return PD_OK;
  query->key = (pd_bytes){0};
  query->at = name;
  pd_json_put_bool(&frame->out, "is_ref", true);
  return PD_OK;
}

static pd_code put_head(pd_frame *frame, pd_store *store, pd_error *err)
{
  pd_gc_info gc;
  pd_commit root;
  if (pd_in_bool(frame, "refs", false)) TRY(pd_out_refs(frame, store, err));
  TRY(pd_resolve(store, "root", &root, err));
  TRY(pd_gc_status(store, &gc, err));
  pd_out_point(frame, "root", &root);
  pd_json_put_number(&frame->out, "cut", gc.cut);
  pd_json_put_number(&frame->out, "retired_ms", (uint64_t)gc.retired_ms);
  pd_json_put_text(&frame->out, "retired_by", gc.by);
  return frame->out.code;
}

static pd_code put_values(pd_frame *frame, pd_store *store, const char *at, const pd_rows *rows, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  if (rows->code) return pd_error_memory(err, "an answer");
  pd_json_key(&frame->out, "values");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < rows->count; i++) {
    pd_bytes key = pd_row_key(rows, &rows->items[i]);
    TRY(pd_get(store, at, key, &value, NULL, err));
    pd_json_open(&frame->out, '{');
    pd_json_put_bytes(&frame->out, "key", key);
    pd_out_base64(frame, "base64", pd_buf_bytes(&value));
    pd_json_close(&frame->out, '}');
  }
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}

static void rows_done(pd_rows *rows)
{
  pd_rows_done(rows);
}

/* One commit: the record that made it, and if asked for the values that it has put. */
static pd_code show_one(pd_frame *frame, pd_store *store, const pd_commit *commit, const char *hex, pd_error *err)
{
  CLEANUP(rows_done) pd_rows rows = {0};
  bool has_values = pd_in_bool(frame, "values", false);
  store_page p = {.frame = frame, .limit = 1, .rows = has_values ? &rows : NULL};
  pd_json_key(&frame->out, "records");
  pd_json_open(&frame->out, '[');
  if (commit->seq) TRY(pd_show(store, hex, visit_record, &p, err)); /* no record has made the root */
  pd_json_close(&frame->out, ']');
  return has_values ? put_values(frame, store, hex, &rows, err) : frame->out.code;
}

static pd_code list_records(pd_frame *frame, pd_store *store, const char *at, pd_error *err)
{
  char ref[PD_REF_SIZE_MAX + 1], name[PD_REF_SIZE_MAX + 1];
  store_page p = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  pd_log_query query = {.at = at, .before = (uint64_t)pd_in_int(frame, "before", 0), .limit = p.limit + 1};
  query.whole_store = pd_in_bool(frame, "all", false);
  if (pd_in_string(frame, "ref", ref, sizeof ref)) query.ref = ref;
  TRY(take_key(frame, store, at, &query, name, err));
  pd_json_key(&frame->out, "records");
  pd_json_open(&frame->out, '[');
  TRY(pd_log(store, &query, visit_record, &p, err));
  pd_json_close(&frame->out, ']');
  if (p.has_more) pd_json_put_number(&frame->out, "next_before", p.last_seq);
  return frame->out.code;
}

pd_code pd_cap_store_log(pd_frame *frame, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_point(frame, store, "at", &commit, hex, err));
  TRY(put_head(frame, store, err));
  pd_out_point(frame, "start", &commit);
  return pd_in_bool(frame, "one", false) ? show_one(frame, store, &commit, hex, err) : list_records(frame, store, hex, err);
}

/* ---- the versions of a key ---- */

static void put_version(pd_frame *frame, const pd_version_info *version)
{
  pd_out_entry(frame, &version->entry);
  pd_out_id(frame, "commit", &version->commit);
}

pd_code pd_cap_store_history(pd_frame *frame, pd_error *err)
{
  pd_version_page page = {.frame = frame, .put = put_version, .limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  char at[PD_STORE_AT_SIZE];
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_at(frame, store, "at", at, err));
  TRY(pd_out_versions(&page, store, at, err));
  pd_json_put_said(&frame->out, "next_at", page.next);
  return frame->out.code;
}

/* ---- blame ---- */

typedef struct store_blame {
  pd_frame *frame;
  uint64_t skip, seen, count;
  bool has_more;
} store_blame;

static bool write_line(void *ctx, const pd_blame_line *line)
{
  store_blame *b = ctx;
  pd_frame *frame = b->frame;
  if (b->seen++ < b->skip) return true;
  b->has_more = b->count && pd_out_is_long(frame);
  if (b->has_more || frame->out.code) return false;
  b->count++;
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "path", line->path);
  pd_out_base64(frame, "base64", line->value);
  pd_json_put_bool(&frame->out, "is_known", line->is_known);
  pd_out_id(frame, "commit", &line->commit);
  pd_json_put_number(&frame->out, "seq", line->seq);
  pd_json_put_number(&frame->out, "version", line->version);
  pd_json_put_number(&frame->out, "time_ms", (uint64_t)line->time_ms);
  pd_out_who(frame, line->author, line->run, line->reason);
  pd_json_close(&frame->out, '}');
  return true;
}

pd_code pd_cap_store_blame(pd_frame *frame, pd_error *err)
{
  store_blame b = {.frame = frame, .skip = (uint64_t)pd_in_int(frame, "skip", 0)};
  char hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_point(frame, store, "at", &commit, hex, err));
  pd_out_id(frame, "commit", &commit.id);
  pd_json_key(&frame->out, "lines");
  pd_json_open(&frame->out, '[');
  TRY(pd_blame(store, hex, pd_in_text(frame, "key"), write_line, &b, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_bool(&frame->out, "has_more", b.has_more);
  return frame->out.code;
}

/* ---- diff ---- */

typedef struct store_diff {
  pd_frame *frame;
  pd_store *store;
  pd_bytes after;
  uint64_t limit;
  pd_rows rows;
  bool has_more, has_values, has_small;
  char hex[2][PD_ID_HEX_SIZE];
} store_diff;

static void diff_done(store_diff *d)
{
  pd_rows_done(&d->rows);
}

static bool take_difference(void *ctx, const pd_difference *difference)
{
  store_diff *d = ctx;
  if (d->after.size && pd_bytes_compare(difference->key, d->after) <= 0) return true;
  d->has_more = d->rows.count == d->limit;
  return !d->has_more && pd_rows_differ(&d->rows, difference);
}

/* A small value that was erased is left out: the difference is true without it. One that was asked for is an error. */
static pd_code put_side(store_diff *d, const pd_row *row, size_t side, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_frame *frame = d->frame;
  const pd_entry *entry = side ? &row->after : &row->before;
  if (!(side ? row->has_after : row->has_before)) return PD_OK;
  bool is_small = d->has_small && entry->size <= SMALL_SIZE_MAX;
  pd_bytes key = pd_row_key(&d->rows, row);
  pd_error why;
  pd_code code = d->has_values || is_small ? pd_get(d->store, d->hex[side], key, &value, NULL, &why) : PD_OK;
  if (code && d->has_values) *err = why;
  if (code && d->has_values) return code;
  pd_json_key(&frame->out, side ? "after" : "before");
  pd_json_open(&frame->out, '{');
  pd_out_entry(frame, entry);
  if (!code && (d->has_values || is_small)) pd_out_base64(frame, "base64", pd_buf_bytes(&value));
  pd_json_close(&frame->out, '}');
  return frame->out.code;
}

static pd_code put_differences(store_diff *d, pd_bytes *out_last, pd_error *err)
{
  pd_frame *frame = d->frame;
  for (size_t i = 0; i < d->rows.count; i++) {
    const pd_row *row = &d->rows.items[i];
    bool is_full = i && pd_out_is_long(frame);
    d->has_more |= is_full;
    if (is_full) return frame->out.code;
    *out_last = pd_row_key(&d->rows, row);
    pd_json_open(&frame->out, '{');
    pd_json_put_bytes(&frame->out, "key", *out_last);
    TRY(put_side(d, row, 0, err));
    TRY(put_side(d, row, 1, err));
    pd_json_close(&frame->out, '}');
  }
  return frame->out.code;
}

pd_code pd_cap_store_diff(pd_frame *frame, pd_error *err)
{
  CLEANUP(diff_done)
  store_diff d = {.frame = frame, .after = pd_in_text(frame, "after"), .limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  pd_commit from, to;
  pd_bytes last = {0};
  TRY(pd_store_open_for(frame, PD_STORE_READ, &d.store, err));
  TRY(pd_store_point(frame, d.store, "from", &from, d.hex[0], err));
  TRY(pd_store_point(frame, d.store, "to", &to, d.hex[1], err));
  TRY(pd_diff(d.store, d.hex[0], d.hex[1], take_difference, &d, err));
  if (d.rows.code) return pd_error_memory(err, "an answer");
  d.has_values = pd_json_is(pd_in(frame, "values"), "all");
  d.has_small = pd_json_is(pd_in(frame, "values"), "small") && d.rows.count <= SMALL_COUNT_MAX && !d.after.size;
  pd_out_id(frame, "from", &from.id);
  pd_out_id(frame, "to", &to.id);
  pd_json_key(&frame->out, "differences");
  pd_json_open(&frame->out, '[');
  TRY(put_differences(&d, &last, err));
  pd_json_close(&frame->out, ']');
  if (d.has_more) pd_json_put_bytes(&frame->out, "next_after", last);
  return frame->out.code;
}
