/* read.c: state, messages and change sets, at any version. Messages and change sets of the past are read at the head (R4). */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/changeset.h"
#include "thread/leaf.h"
#include "thread/thread.h"

/* ---- state ---- */

static pd_code state_here(pd_thread *t, pd_buf *out, pd_error *err)
{
  TRY(pd_thread_need_doc(t, err));
  return pd_doc_write(t->doc, out, err);
}

pd_code pd_thread_state(pd_thread *thread, uint64_t version, const char *path, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = out->size_max};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread_point point;
  TRY(pd_thread_point_get(thread, version, &point, err));
  bool is_here = point.commit.seq == thread->commit.seq && (!path || !*path);
  if (!is_here) TRY(pd_thread_view(thread, &point.commit, &view, err));
  TRY(is_here ? state_here(thread, &text, err) : pd_stateleaves_text(view, path ? path : "", &text, err));
  pd_buf_done(out);
  *out = text;
  text = (pd_buf){0};
  return PD_OK;
}

/* ---- messages ---- */

static pd_code scan_head(const pd_thread *t, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  TRY(pd_thread_view(t, &t->commit, &view, err));
  return pd_view_scan(view, scan, out, err);
}

/* Which places: first..last, and none if first > last. */
typedef struct places {
  uint64_t first, last;
} places;

static places places_of(const pd_message_query *q, uint64_t count, uint64_t *out_next)
{
  places p = {.first = q->after < count ? q->after + 1 : count + 1, .last = count};
  if (q->last && count - (p.first - 1) > q->last) p.first = count - q->last + 1;
  if (q->limit && p.first <= p.last && p.last - p.first >= q->limit) p.last = p.first + q->limit - 1;
  if (out_next) *out_next = p.last < count && p.first <= p.last ? p.last : 0;
  return p;
}

typedef struct message_walk {
  pd_thread *t;
  pd_iter *iter;
  uint64_t next, last;
} message_walk;

static void message_walk_done(message_walk *w)
{
  pd_iter_close(w->iter);
}

static pd_code begin_messages(pd_thread *t, uint64_t first, uint64_t last, message_walk *out, pd_error *err)
{
  char from[PD_THREAD_KEY_SIZE], to[PD_THREAD_KEY_SIZE];
  *out = (message_walk){.t = t, .next = first, .last = last};
  if (first > last) return PD_OK;
  pd_scan scan = {.from = pd_text(pd_thread_key(PD_KEY_MESSAGE, first, from)), .to = pd_text(pd_thread_key(PD_KEY_MESSAGE, last + 1, to))};
  return scan_head(t, &scan, &out->iter, err);
}

/* PD_NOT_FOUND at the end. A place that is empty is damage. */
static pd_code next_message(message_walk *w, pd_bytes *out, pd_error *err)
{
  pd_entry entry;
  char key[PD_THREAD_KEY_SIZE];
  if (w->next > w->last) return PD_NOT_FOUND;
  pd_code code = pd_iter_next(w->iter, &entry, out, err);
  if (code == PD_NOT_FOUND || (!code && pd_thread_key_number(entry.key) != w->next))
    return pd_thread_corrupt(w->t->id, pd_thread_key(PD_KEY_MESSAGE, w->next, key), "it is missing", err);
  w->next++;
  return code;
}

static pd_code show_message(pd_thread *t, uint64_t place, pd_bytes text, pd_buf *id, pd_thread_message_visit visit, void *ctx,
                            bool *out_goes_on, pd_error *err)
{
  char key[PD_THREAD_KEY_SIZE];
  pd_json json;
  pd_error why = {0};
  pd_buf_clear(id);
  pd_code code = pd_json_parse(text, &json, &why);
  if (!code) code = pd_message_id(json, id, &why);
  TRY(pd_thread_stored(t->id, pd_thread_key(PD_KEY_MESSAGE, place, key), code, &why, err));
  TRY(pd_buf_byte(id, 0, err));
  *out_goes_on = visit(ctx, &(pd_thread_message){.place = place, .id = (const char *)id->data, .json = text});
  return PD_OK;
}

pd_code pd_thread_messages(pd_thread *thread, const pd_message_query *query, pd_thread_message_visit visit, void *ctx, uint64_t *out_next,
                           pd_error *err)
{
  CLEANUP(message_walk_done) message_walk walk = {0};
  CLEANUP(pd_buf_done) pd_buf id = {0};
  pd_message_query q = query ? *query : (pd_message_query){.version = PD_VERSION_HEAD};
  pd_thread_point point;
  pd_bytes text;
  uint64_t next;
  bool goes_on = true;
  pd_code code = PD_NOT_FOUND;
  TRY(pd_thread_point_get(thread, q.version, &point, err));
  places p = places_of(&q, point.message_count, &next);
  TRY(begin_messages(thread, p.first, p.last, &walk, err));
  while (goes_on && (code = next_message(&walk, &text, err)) == PD_OK)
    TRY(show_message(thread, walk.next - 1, text, &id, visit, ctx, &goes_on, err));
  if (code && code != PD_NOT_FOUND) return code;
  if (out_next) *out_next = goes_on ? next : walk.next - 1 < point.message_count ? walk.next - 1 : 0;
  return PD_OK;
}

pd_code pd_thread_message_find(pd_thread *thread, const char *message_id, uint64_t *out_place, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0}, text = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_json json;
  pd_error why;
  TRY(pd_message_id_check(pd_text(message_id), err));
  TRY(pd_thread_follow(thread, err));
  TRY(pd_buf_printf(&key, err, PD_KEY_MESSAGE "-id/%s", message_id));
  TRY(pd_thread_view(thread, &thread->commit, &view, err));
  pd_code code = pd_view_get(view, pd_buf_bytes(&key), &text, NULL, &why);
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "MessageNotFound", "thread '%s' has no message '%.200s'", thread->id, message_id);
  if (code && err) *err = why;
  TRY(code);
  if (!pd_json_parse(pd_buf_bytes(&text), &json, NULL) && pd_json_u64(json, out_place) && *out_place) return PD_OK;
  return pd_thread_corrupt(thread->id, PD_KEY_MESSAGE "-id", "it is no number", err);
}

/* ---- change sets ---- */

static pd_code join_messages(pd_thread *t, const pd_change_parts *parts, pd_buf *out, pd_error *err)
{
  CLEANUP(message_walk_done) message_walk walk = {0};
  pd_json_writer w = {.out = out, .err = err};
  pd_bytes text;
  pd_code code;
  if (!parts->message_count) return PD_OK;
  TRY(begin_messages(t, parts->message_first, parts->message_first + parts->message_count - 1, &walk, err));
  pd_json_open(&w, '[');
  while ((code = next_message(&walk, &text, err)) == PD_OK) pd_json_raw(&w, text);
  pd_json_close(&w, ']');
  return code == PD_NOT_FOUND ? w.code : code;
}

/* "" if it is absent. */
static pd_code keep_text(pd_json value, pd_buf *out, size_t *out_at, pd_error *err)
{
  *out_at = out->size;
  return value.kind == PD_JSON_NONE ? pd_buf_byte(out, 0, err) : pd_json_append_text(value, out, err);
}

static pd_code show_change(pd_thread *t, uint64_t version, pd_bytes text, const pd_entry *entry, pd_delta_visit visit, void *ctx,
                           bool *out_goes_on, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf messages = {0}, json = {0}, texts = {0};
  char key[PD_THREAD_KEY_SIZE];
  pd_change_parts parts;
  pd_id commit;
  pd_error why = {0};
  size_t run_at = 0, reason_at = 0;
  pd_code code = pd_change_parse(text, &parts, &why);
  if (!code && parts.version != version) code = pd_error_set(&why, PD_CORRUPT, "it is of another version");
  if (!code) code = keep_text(parts.run_id, &texts, &run_at, &why);
  if (!code) code = keep_text(parts.reason, &texts, &reason_at, &why);
  TRY(pd_thread_stored(t->id, pd_thread_key(PD_KEY_CHANGE, version, key), code, &why, err));
  TRY(join_messages(t, &parts, &messages, err));
  TRY(pd_change_show(&parts, pd_buf_bytes(&messages), &json, err));
  TRY(pd_thread_commit_id(t->store, entry->seq, &commit, err));
  pd_thread_delta delta = {.version = version,
                           .time_ms = parts.time_ms,
                           .run_id = (const char *)texts.data + run_at,
                           .reason = (const char *)texts.data + reason_at,
                           .message_first = parts.message_first,
                           .message_count = parts.message_count,
                           .json = pd_buf_bytes(&json),
                           .commit = commit};
  *out_goes_on = visit(ctx, &delta);
  return PD_OK;
}

/* Change sets first..last, at the head. */
pd_code pd_thread_walk_changes(pd_thread *t, uint64_t first, uint64_t last, pd_delta_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  char from[PD_THREAD_KEY_SIZE], to[PD_THREAD_KEY_SIZE], key[PD_THREAD_KEY_SIZE];
  bool goes_on = true;
  pd_entry entry;
  pd_bytes text;
  if (first > last) return PD_OK;
  pd_scan scan = {.from = pd_text(pd_thread_key(PD_KEY_CHANGE, first, from)), .to = pd_text(pd_thread_key(PD_KEY_CHANGE, last + 1, to))};
  TRY(scan_head(t, &scan, &iter, err));
  for (uint64_t version = first; goes_on && version <= last; version++) {
    pd_code code = pd_iter_next(iter, &entry, &text, err);
    if (code == PD_NOT_FOUND || (!code && pd_thread_key_number(entry.key) != version))
      return pd_thread_corrupt(t->id, pd_thread_key(PD_KEY_CHANGE, version, key), "it is missing", err);
    TRY(code);
    TRY(show_change(t, version, text, &entry, visit, ctx, &goes_on, err));
  }
  return PD_OK;
}

static pd_code no_version(const pd_thread *t, uint64_t version, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "VersionNotFound", "thread '%s' has no version %llu: it is at %llu", t->id,
                        (unsigned long long)version, (unsigned long long)t->head.version);
}

pd_code pd_thread_deltas(pd_thread *thread, uint64_t after_version, uint64_t limit, pd_delta_visit visit, void *ctx, pd_error *err)
{
  TRY(pd_thread_follow(thread, err));
  uint64_t last = thread->head.version;
  if (after_version > last) return no_version(thread, after_version, err);
  if (limit && last - after_version > limit) last = after_version + limit;
  return pd_thread_walk_changes(thread, after_version + 1, last, visit, ctx, err);
}

pd_code pd_thread_delta_get(pd_thread *thread, uint64_t version, pd_delta_visit visit, void *ctx, pd_error *err)
{
  TRY(pd_thread_follow(thread, err));
  if (version == PD_VERSION_HEAD) version = thread->head.version;
  if (version > thread->head.version) return no_version(thread, version, err);
  return pd_thread_walk_changes(thread, version, version, visit, ctx, err);
}
