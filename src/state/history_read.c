/* history_read.c: history.get, list, diff, refs, marks, stats: the state as it was at any point, and what points there are. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_record.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdio.h>

/* ---- what they share ---- */

static void put_null(pd_frame *frame, const char *name)
{
  pd_json_key(&frame->out, name);
  pd_json_null(&frame->out);
}

/* ---- get ---- */

static pd_code put_missing(pd_frame *frame)
{
  pd_json_put_bool(&frame->out, "found", false);
  put_null(frame, "value");
  pd_json_put_number(&frame->out, "version", 0);
  return frame->out.code;
}

pd_code pd_cap_history_get(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  CLEANUP(pd_history_view_close) pd_view *view = NULL;
  pd_point_in point;
  pd_store *store;
  pd_entry entry;
  TRY(pd_history_may_read_key(frame, err));
  TRY(pd_history_open(frame, &store, err));
  if (!store && pd_in_text(frame, "at").size) return pd_history_none(frame, err);
  if (!store) {
    put_null(frame, "commit");
    return put_missing(frame);
  }
  TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  TRY(pd_brink(frame, err)); /* F5 */
  pd_out_id(frame, "commit", &point.commit.id);
  TRY(pd_view_open_commit(store, &point.commit, &view, err));
  pd_code code = pd_view_get(view, pd_in_text(frame, "key"), &value, &entry, err);
  if (code == PD_NOT_FOUND) return put_missing(frame);
  TRY(code);
  pd_json_put_bool(&frame->out, "found", true);
  pd_json_key(&frame->out, "value");
  pd_out_stored(&frame->out, pd_buf_bytes(&value));
  pd_json_put_entry(&frame->out, &entry);
  return frame->out.code;
}

/* ---- list ---- */

typedef struct listing {
  uint64_t count, limit;
  bool has_more, has_values;
  char last[PD_KEY_SIZE_MAX];
  size_t last_size;
} listing;

static pd_code list_entries(pd_frame *frame, pd_view *view, pd_iter *iter, listing *l, pd_error *err)
{
  pd_entry entry;
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, NULL, err))) {
    l->has_more = l->count == l->limit || (l->count && pd_out_is_long(frame));
    if (l->has_more) return frame->out.code;
    l->count++;
    memcpy(l->last, entry.key.data, entry.key.size);
    l->last_size = entry.key.size;
    pd_json_open(&frame->out, '{');
    pd_json_put_bytes(&frame->out, "key", entry.key);
    pd_json_put_entry(&frame->out, &entry);
    if (l->has_values) TRY(pd_history_put_value(frame, view, entry.key, "value", "erased", err));
    pd_json_close(&frame->out, '}');
  }
  return code == PD_NOT_FOUND ? frame->out.code : code;
}

static pd_code list_at(pd_frame *frame, pd_store *store, listing *l, pd_error *err)
{
  pd_scan scan = {.prefix = pd_in_text(frame, "prefix"), .after = pd_in_text(frame, "after"), .keys_only = true};
  CLEANUP(pd_history_view_close) pd_view *view = NULL;
  pd_point_in point;
  pd_iter *iter;
  TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  pd_out_id(frame, "commit", &point.commit.id);
  TRY(pd_view_open_commit(store, &point.commit, &view, err));
  TRY(pd_view_scan(view, &scan, &iter, err));
  pd_json_key(&frame->out, "entries");
  pd_json_open(&frame->out, '[');
  pd_code code = list_entries(frame, view, iter, l, err);
  pd_iter_close(iter);
  pd_json_close(&frame->out, ']');
  return code;
}

static void put_nothing(pd_frame *frame, const char *list)
{
  put_null(frame, "commit");
  pd_json_key(&frame->out, list);
  pd_json_open(&frame->out, '[');
  pd_json_close(&frame->out, ']');
}

pd_code pd_cap_history_list(pd_frame *frame, pd_error *err)
{
  listing l = {.limit = (uint64_t)pd_in_int(frame, "limit", 100), .has_values = pd_in_bool(frame, "values", false)};
  pd_store *store;
  TRY(pd_history_may_read_prefix(frame, err));
  TRY(pd_history_open(frame, &store, err));
  if (!store && pd_in_text(frame, "at").size) return pd_history_none(frame, err);
  if (store)
    TRY(list_at(frame, store, &l, err));
  else
    put_nothing(frame, "entries");
  pd_json_put_number(&frame->out, "count", l.count);
  pd_out_next(frame, "next_after", (pd_bytes){l.last, l.has_more ? l.last_size : 0});
  return frame->out.code;
}

/* ---- diff ---- */

typedef struct differing {
  pd_change_filter filter;
  pd_rows rows;
  bool has_more;
} differing;

static void differing_done(differing *d)
{
  pd_rows_done(&d->rows);
}

static bool take_difference(void *ctx, const pd_difference *difference)
{
  differing *d = ctx;
  if (!pd_change_fits(&d->filter, difference->key)) /* keys come in order: past the prefix there is nothing more */
    return pd_bytes_starts(difference->key, d->filter.prefix) || pd_bytes_compare(difference->key, d->filter.prefix) < 0;
  d->has_more = d->rows.count == d->filter.limit;
  return !d->has_more && pd_rows_differ(&d->rows, difference);
}

static pd_code put_side(pd_frame *frame, const char *name, const pd_entry *entry, pd_view *view, pd_bytes key, pd_error *err)
{
  pd_json_key(&frame->out, name);
  pd_json_open(&frame->out, '{');
  pd_json_put_entry(&frame->out, entry);
  if (view) TRY(pd_history_put_value(frame, view, key, "value", "erased", err));
  pd_json_close(&frame->out, '}');
  return frame->out.code;
}

/* `from` and `to` are NULL if values are not wanted. */
static pd_code put_differences(pd_frame *frame, differing *d, pd_view *from, pd_view *to, pd_bytes *out_last, pd_error *err)
{
  for (size_t i = 0; i < d->rows.count; i++) {
    const pd_row *row = &d->rows.items[i];
    pd_bytes key = pd_row_key(&d->rows, row);
    bool is_full = i && pd_out_is_long(frame);
    d->has_more |= is_full;
    if (is_full) return frame->out.code;
    pd_json_open(&frame->out, '{');
    pd_json_put_difference(&frame->out, key, row->has_before, row->has_after);
    if (row->has_before) TRY(put_side(frame, "before", &row->before, from, key, err));
    if (row->has_after) TRY(put_side(frame, "after", &row->after, to, key, err));
    pd_json_close(&frame->out, '}');
    *out_last = key;
  }
  return frame->out.code;
}

/* Both sides; `from` absent: the commit before `to`. */
static pd_code find_sides(pd_frame *frame, pd_store *store, pd_point_in *from, pd_point_in *to, pd_error *err)
{
  char before[PD_ID_HEX_SIZE + 1];
  TRY(pd_history_point(frame, store, "to", NULL, to, err));
  snprintf(before, sizeof before, "%s~", to->at);
  return pd_history_point(frame, store, "from", to->commit.seq ? before : "root", from, err);
}

pd_code pd_cap_history_diff(pd_frame *frame, pd_error *err)
{
  CLEANUP(differing_done) differing d = {0};
  CLEANUP(pd_history_view_close) pd_view *was = NULL;
  CLEANUP(pd_history_view_close) pd_view *is = NULL;
  pd_point_in from, to;
  pd_store *store;
  pd_bytes last = {0};
  bool has_values = pd_in_bool(frame, "values", false);
  d.filter = (pd_change_filter){.prefix = pd_in_text(frame, "prefix"), .after = pd_in_text(frame, "after")};
  d.filter.limit = (uint64_t)pd_in_int(frame, "limit", 100);
  TRY(pd_history_may_read_prefix(frame, err));
  TRY(pd_history_open(frame, &store, err));
  if (!store) return pd_history_none(frame, err);
  TRY(find_sides(frame, store, &from, &to, err));
  pd_out_id(frame, "from", &from.commit.id);
  pd_out_id(frame, "to", &to.commit.id);
  TRY(pd_diff(store, from.at, to.at, take_difference, &d, err));
  if (d.rows.code) return pd_error_memory(err, "an answer");
  pd_json_key(&frame->out, "differences");
  pd_json_open(&frame->out, '[');
  if (has_values) TRY(pd_view_open_commit(store, &from.commit, &was, err));
  if (has_values) TRY(pd_view_open_commit(store, &to.commit, &is, err));
  TRY(put_differences(frame, &d, was, is, &last, err));
  pd_json_close(&frame->out, ']');
  pd_out_next(frame, "next_after", d.has_more ? last : (pd_bytes){0});
  return frame->out.code;
}

/* ---- refs ---- */

typedef struct naming {
  pd_frame *frame;
  char after[PD_REF_SIZE_MAX + 8], last[PD_REF_SIZE_MAX + 8];
  uint64_t limit, count;
  bool has_more;
} naming;

static bool takes(naming *n, const char *name)
{
  if (*n->after && strcmp(name, n->after) <= 0) return false;
  n->has_more = n->has_more || n->count == n->limit;
  if (n->has_more) return false;
  n->count++;
  snprintf(n->last, sizeof n->last, "%s", name);
  return true;
}

static void write_ref(void *ctx, const pd_ref *ref)
{
  naming *n = ctx;
  pd_frame *frame = n->frame;
  if (pd_history_hides(ref->name) || !takes(n, ref->name)) return;
  bool is_own = strcmp(ref->name, PD_STATE_REF) == 0 || strncmp(ref->name, PD_FORK_PREFIX, strlen(PD_FORK_PREFIX)) == 0;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "ref", ref->name);
  pd_out_id(frame, "commit", &ref->commit.id);
  pd_out_time(frame, "updated_at", ref->updated_ms);
  pd_json_put_bool(&frame->out, "can_redo", ref->can_redo);
  pd_json_put_bool(&frame->out, "can_write", is_own);
  pd_json_close(&frame->out, '}');
}

static naming begin_names(pd_frame *frame, const char *list)
{
  naming n = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  (void)!pd_in_string(frame, "after", n.after, sizeof n.after);
  pd_json_key(&frame->out, list);
  pd_json_open(&frame->out, '[');
  return n;
}

static pd_code end_names(naming *n)
{
  pd_json_close(&n->frame->out, ']');
  pd_json_put_number(&n->frame->out, "count", n->count);
  pd_out_next(n->frame, "next_after", pd_text(n->has_more ? n->last : ""));
  return n->frame->out.code;
}

pd_code pd_cap_history_refs(pd_frame *frame, pd_error *err)
{
  pd_store *store;
  TRY(pd_history_open(frame, &store, err));
  naming n = begin_names(frame, "refs");
  if (store) TRY(pd_ref_list(store, write_ref, &n, err));
  return end_names(&n);
}

/* ---- marks: pins, then tags ---- */

static bool write_mark(naming *n, const char *kind, const pd_mark *mark)
{
  pd_frame *frame = n->frame;
  char name[PD_REF_SIZE_MAX + 8];
  snprintf(name, sizeof name, "%s:%s", kind, mark->name);
  if (!takes(n, name)) return !n->has_more;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "kind", kind);
  if (strcmp(kind, "tag") == 0) pd_json_put_text(&frame->out, "name", mark->name);
  pd_out_id(frame, "commit", &mark->commit);
  pd_out_time(frame, "set_at", mark->time_ms);
  pd_out_said(frame, "author", mark->author);
  pd_out_said(frame, "reason", mark->reason);
  pd_json_close(&frame->out, '}');
  return !frame->out.code;
}

static bool write_pin(void *ctx, const pd_mark *mark)
{
  return write_mark(ctx, "pin", mark);
}

static bool write_tag(void *ctx, const pd_mark *mark)
{
  return write_mark(ctx, "tag", mark);
}

pd_code pd_cap_history_marks(pd_frame *frame, pd_error *err)
{
  pd_store *store;
  TRY(pd_history_open(frame, &store, err));
  naming n = begin_names(frame, "marks");
  if (store) TRY(pd_pin_list(store, write_pin, &n, err));
  if (store && !n.has_more) TRY(pd_tag_list(store, write_tag, &n, err));
  return end_names(&n);
}

/* ---- stats ---- */

pd_code pd_cap_history_stats(pd_frame *frame, pd_error *err)
{
  pd_stats stats = {0};
  pd_gc_info gc = {0};
  uint64_t bytes = 0;
  pd_store *store;
  TRY(pd_history_open(frame, &store, err));
  if (store) {
    TRY(pd_store_stats(store, &stats, err));
    TRY(pd_gc_status(store, &gc, err));
    TRY(pd_ref_bytes(store, PD_STATE_REF, &bytes, err));
  }
  pd_json_put_number(&frame->out, "records", stats.records);
  pd_json_put_number(&frame->out, "keys", stats.keys);
  pd_json_put_number(&frame->out, "state_bytes", bytes);
  pd_json_put_number(&frame->out, "log_bytes", stats.log_bytes);
  pd_json_put_number(&frame->out, "bag_bytes", stats.bag_bytes);
  pd_json_put_number(&frame->out, "disk_bytes", stats.disk_bytes);
  pd_json_put_number(&frame->out, "retired_records", gc.cut > 1 ? gc.cut - 1 : 0);
  pd_out_time(frame, "retired_at", gc.retired_ms);
  return frame->out.code;
}
