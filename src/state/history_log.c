/*
 * history_log.c: history.log, show, key, blame: who changed what, when and why.
 *
 * A walk back through commits holds the store's lock for LOOK_AT_ONCE of them, and gives up after LOOK_MAX with a cursor to go on from: a
 * filter that nothing fits must not stop those who write.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_record.h"
#include "base/number.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/moment.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdio.h>

#define LOOK_AT_ONCE 1000
#define LOOK_MAX 20000
#define CHANGES_SHOWN 100 /* of one commit, in a list of commits */
#define CURSOR_SIZE PD_ID_HEX_SIZE

/* ---- log ---- */

typedef struct log_walk {
  pd_frame *frame;
  pd_change_filter filter;
  int64_t since_ms, until_ms;
  bool has_until, is_of_ref;
  uint64_t limit, count, looked, at_once;
  bool is_over;           /* nothing before is wanted */
  bool has_next;          /* there is more: from `next` on, or before `last_seq` */
  char next[CURSOR_SIZE]; /* the first commit that was not looked at */
  uint64_t last_seq;      /* the last record that was */
} log_walk;

static uint64_t count_fitting(const pd_change_filter *filter, const pd_record *record)
{
  uint64_t count = 0;
  for (size_t i = 0; i < record->change_count; i++) count += pd_change_fits(filter, record->changes[i].key);
  return count;
}

static void write_commit(log_walk *w, const pd_record *record, uint64_t fitting)
{
  pd_frame *frame = w->frame;
  uint64_t shown = 0;
  pd_json_open(&frame->out, '{');
  pd_json_put_record(&frame->out, record, PD_WITH_KIND | PD_WITH_PARENTS | PD_WITHOUT_EMPTY);
  pd_json_key(&frame->out, "changes");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < record->change_count && shown < CHANGES_SHOWN; i++) {
    if (!pd_change_fits(&w->filter, record->changes[i].key)) continue;
    pd_json_open(&frame->out, '{');
    pd_json_put_change(&frame->out, &record->changes[i]);
    pd_json_close(&frame->out, '}');
    shown++;
  }
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "change_count", fitting);
  pd_json_close(&frame->out, '}');
}

static bool visit_record(void *ctx, const pd_record *record)
{
  log_walk *w = ctx;
  bool is_full = w->count == w->limit || (w->count && pd_out_is_long(w->frame));
  if (is_full || w->at_once == LOOK_AT_ONCE || w->frame->out.code) {
    pd_id_hex(&record->commit.id, w->next);
    w->has_next = true;
    w->is_over = is_full;
    return false;
  }
  w->at_once++;
  w->looked++;
  w->last_seq = record->seq;
  w->is_over = record->time_ms < w->since_ms; /* times never go back in a log */
  if (w->is_over) return false;
  if (w->has_until && record->time_ms >= w->until_ms) return true;
  uint64_t fitting = count_fitting(&w->filter, record);
  bool has_filter = w->filter.key.size || w->filter.prefix.size;
  if (has_filter && !fitting) return true;
  write_commit(w, record, fitting);
  w->count++;
  return true;
}

static pd_code walk_line(log_walk *w, pd_store *store, pd_error *err)
{
  pd_point_in from;
  char cursor[CURSOR_SIZE];
  if (pd_in_string(w->frame, "cursor", cursor, sizeof cursor))
    TRY(pd_history_point_at(store, cursor, &from, err));
  else
    TRY(pd_history_point(w->frame, store, "at", NULL, &from, err));
  memcpy(w->next, from.at, sizeof w->next);
  do {
    char at[CURSOR_SIZE]; /* the visitor writes `next` */
    memcpy(at, w->next, sizeof at);
    pd_log_query query = {.at = at};
    w->at_once = 0;
    w->has_next = false;
    TRY(pd_log(store, &query, visit_record, w, err));
  } while (w->has_next && !w->is_over && w->looked < LOOK_MAX);
  return PD_OK;
}

/* Every move of one ref, also what was undone since. */
static pd_code walk_ref(log_walk *w, pd_store *store, pd_error *err)
{
  char ref[PD_REF_SIZE_MAX + 1] = "", cursor[CURSOR_SIZE];
  (void)!pd_in_string(w->frame, "ref", ref, sizeof ref);
  w->is_of_ref = true;
  if (pd_history_hides(ref)) return pd_error_named(err, PD_NOT_FOUND, "NotFound", "there never was a ref '%s'", ref);
  pd_log_query query = {.ref = ref};
  if (pd_in_string(w->frame, "cursor", cursor, sizeof cursor)) (void)pd_u64_parse(cursor, &query.before); /* checked */
  do {
    w->at_once = 0;
    w->has_next = false;
    TRY(pd_log(store, &query, visit_record, w, err));
    query.before = w->last_seq;
  } while (w->has_next && !w->is_over && w->looked < LOOK_MAX);
  return PD_OK;
}

static pd_code check_log(pd_frame *frame, bool is_of_ref, pd_error *err)
{
  char cursor[CURSOR_SIZE];
  if (is_of_ref && pd_in_text(frame, "at").size)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'at' and field 'ref' exclude each other", frame->capability->name);
  if (!pd_in_string(frame, "cursor", cursor, sizeof cursor)) return PD_OK;
  uint64_t seq;
  if (is_of_ref ? pd_u64_parse(cursor, &seq) : strspn(cursor, "0123456789abcdef") == CURSOR_SIZE - 1) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'cursor' is not what the page before said", frame->capability->name);
}

static void end_log(log_walk *w)
{
  char text[24];
  pd_json_close(&w->frame->out, ']');
  pd_json_put_number(&w->frame->out, "count", w->count);
  snprintf(text, sizeof text, "%llu", (unsigned long long)w->last_seq);
  pd_out_next(w->frame, "next_cursor", w->has_next ? pd_text(w->is_of_ref ? text : w->next) : (pd_bytes){0});
}

pd_code pd_cap_history_log(pd_frame *frame, pd_error *err)
{
  log_walk w = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 50), .since_ms = INT64_MIN};
  w.filter = (pd_change_filter){.key = pd_in_text(frame, "key"), .prefix = pd_in_text(frame, "prefix")};
  bool has_since, is_of_ref = pd_in_text(frame, "ref").size > 0;
  int64_t since_ms;
  pd_store *store;
  TRY(pd_in_moment(frame, "since", &since_ms, &has_since, err));
  if (has_since) w.since_ms = since_ms;
  TRY(pd_in_moment(frame, "until", &w.until_ms, &w.has_until, err));
  TRY(check_log(frame, is_of_ref, err));
  TRY(w.filter.key.size ? pd_history_may_read_key(frame, err) : pd_history_may_read_prefix(frame, err));
  TRY(pd_history_open(frame, &store, err));
  pd_json_key(&frame->out, "commits");
  pd_json_open(&frame->out, '[');
  if (store) TRY(is_of_ref ? walk_ref(&w, store, err) : walk_line(&w, store, err));
  end_log(&w);
  return frame->out.code;
}

/* ---- show ---- */

typedef struct showing {
  pd_frame *frame;
  pd_change_filter filter;
  pd_rows rows;
  bool has_more;
} showing;

static void showing_done(showing *s)
{
  pd_rows_done(&s->rows);
}

static bool show_record(void *ctx, const pd_record *record)
{
  showing *s = ctx;
  pd_json_put_record(&s->frame->out, record, PD_WITH_REF | PD_WITH_TREE | PD_WITH_PARENTS | PD_WITHOUT_EMPTY);
  pd_json_put_number(&s->frame->out, "change_count", count_fitting(&(pd_change_filter){.prefix = s->filter.prefix}, record));
  for (size_t i = 0; i < record->change_count && !s->has_more; i++) {
    if (!pd_change_fits(&s->filter, record->changes[i].key)) continue;
    s->has_more = s->rows.count == s->filter.limit;
    pd_row *row = s->has_more ? NULL : pd_rows_add(&s->rows, record->changes[i].key);
    if (row) row->change = record->changes[i];
  }
  return false;
}

static pd_code show_changes(showing *s, pd_store *store, const pd_commit *commit, pd_bytes *out_last, pd_error *err)
{
  CLEANUP(pd_history_view_close) pd_view *view = NULL;
  bool has_values = pd_in_bool(s->frame, "values", false);
  if (has_values) TRY(pd_view_open_commit(store, commit, &view, err));
  for (size_t i = 0; i < s->rows.count; i++) {
    pd_row *row = &s->rows.items[i];
    row->change.key = pd_row_key(&s->rows, row);
    s->has_more |= i && pd_out_is_long(s->frame);
    if (s->has_more && i && pd_out_is_long(s->frame)) return s->frame->out.code;
    pd_json_open(&s->frame->out, '{');
    pd_json_put_change(&s->frame->out, &row->change);
    if (has_values && !row->change.is_delete) TRY(pd_history_put_value(s->frame, view, row->change.key, "value", "erased", err));
    pd_json_close(&s->frame->out, '}');
    *out_last = row->change.key;
  }
  return s->frame->out.code;
}

pd_code pd_cap_history_show(pd_frame *frame, pd_error *err)
{
  CLEANUP(showing_done) showing s = {.frame = frame};
  pd_point_in point;
  pd_store *store;
  pd_bytes last = {0};
  s.filter = (pd_change_filter){.prefix = pd_in_text(frame, "prefix"), .after = pd_in_text(frame, "after")};
  s.filter.limit = (uint64_t)pd_in_int(frame, "limit", 100);
  TRY(pd_history_may_read_prefix(frame, err));
  TRY(pd_history_open(frame, &store, err));
  if (!store) return pd_history_none(frame, err);
  TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  TRY(pd_show(store, point.at, show_record, &s, err));
  if (s.rows.code) return pd_error_memory(err, "an answer");
  pd_json_key(&frame->out, "changes");
  pd_json_open(&frame->out, '[');
  TRY(show_changes(&s, store, &point.commit, &last, err));
  pd_json_close(&frame->out, ']');
  pd_out_next(frame, "next_after", s.has_more ? last : (pd_bytes){0});
  return frame->out.code;
}

/* ---- key: the versions of one ---- */

void pd_out_who(pd_frame *frame, const char *author, const char *run, const char *reason)
{
  pd_out_said(frame, "author", author);
  pd_out_said(frame, "run", run);
  pd_out_said(frame, "reason", reason);
}

static bool write_version(void *ctx, const pd_version_info *version)
{
  pd_version_page *page = ctx;
  pd_frame *frame = page->frame;
  if (page->count == page->limit || frame->out.code) {
    pd_id_hex(&version->commit, page->next);
    return false;
  }
  page->count++;
  pd_json_open(&frame->out, '{');
  page->put(frame, version);
  pd_out_who(frame, version->author, version->run, version->reason);
  pd_json_close(&frame->out, '}');
  return true;
}

pd_code pd_out_versions(pd_version_page *page, pd_store *store, const char *at, pd_error *err)
{
  pd_frame *frame = page->frame;
  pd_json_key(&frame->out, "versions");
  pd_json_open(&frame->out, '[');
  TRY(pd_history(store, at, pd_in_text(frame, "key"), page->limit + 1, write_version, page, err));
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}

static void put_version(pd_frame *frame, const pd_version_info *version)
{
  pd_json_put_number(&frame->out, "version", version->entry.version);
  pd_out_id(frame, "value_id", &version->entry.value_id);
  pd_json_put_number(&frame->out, "size", version->entry.size);
  pd_out_id(frame, "commit", &version->commit);
  pd_out_time(frame, "time", version->entry.updated_ms);
}

pd_code pd_cap_history_key(pd_frame *frame, pd_error *err)
{
  pd_version_page page = {.frame = frame, .put = put_version, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  bool has_cursor = pd_in_text(frame, "cursor").size > 0;
  pd_point_in point = {0};
  pd_store *store;
  TRY(pd_history_may_read_key(frame, err));
  TRY(pd_history_open(frame, &store, err));
  if (store) TRY(pd_history_point(frame, store, has_cursor ? "cursor" : "at", NULL, &point, err));
  TRY(pd_brink(frame, err)); /* F5 */
  if (!store) return pd_history_no_key(frame, "main", err);
  pd_code code = pd_out_versions(&page, store, point.at, err);
  if (code == PD_NOT_FOUND) return pd_history_no_key(frame, point.at, err);
  TRY(code);
  pd_json_put_number(&frame->out, "count", page.count);
  pd_out_next(frame, "next_cursor", pd_text(page.next));
  return frame->out.code;
}

/* ---- blame ---- */

typedef struct blaming {
  pd_frame *frame;
  uint64_t skip, limit, seen, count;
  bool has_more;
} blaming;

static bool write_line(void *ctx, const pd_blame_line *line)
{
  blaming *b = ctx;
  pd_frame *frame = b->frame;
  if (b->seen++ < b->skip) return true;
  b->has_more = b->count == b->limit || (b->count && pd_out_is_long(frame));
  if (b->has_more || frame->out.code) return false;
  b->count++;
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "path", line->path);
  pd_json_key(&frame->out, "value");
  pd_out_stored(&frame->out, line->value);
  pd_out_id(frame, "commit", &line->commit);
  pd_json_put_number(&frame->out, "version", line->version);
  pd_out_time(frame, "time", line->time_ms);
  pd_out_who(frame, line->author, line->run, line->reason);
  if (!line->is_known) pd_json_put_bool(&frame->out, "is_older", true);
  pd_json_close(&frame->out, '}');
  return true;
}

pd_code pd_cap_history_blame(pd_frame *frame, pd_error *err)
{
  blaming b = {.frame = frame, .skip = (uint64_t)pd_in_int(frame, "skip", 0), .limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  pd_point_in point = {0};
  pd_store *store;
  TRY(pd_history_may_read_key(frame, err));
  TRY(pd_history_open(frame, &store, err));
  if (store) TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  TRY(pd_brink(frame, err)); /* F5 */
  if (!store) return pd_history_no_key(frame, "main", err);
  pd_json_key(&frame->out, "lines");
  pd_json_open(&frame->out, '[');
  pd_code code = pd_blame(store, point.at, pd_in_text(frame, "key"), write_line, &b, err);
  if (code == PD_NOT_FOUND) return pd_history_no_key(frame, point.at, err);
  TRY(code);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", b.count);
  pd_json_put_bool(&frame->out, "has_more", b.has_more);
  return frame->out.code;
}
