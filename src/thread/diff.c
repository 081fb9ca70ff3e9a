/* diff.c: which leaves differ between two versions, and who wrote each leaf. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/changeset.h"
#include "thread/leaf.h"
#include "thread/thread.h"

/* ---- differences ---- */

/* Keys of leaves that differ; their values are read afterwards, when the store may be called again. */
typedef struct found_keys {
  pd_stateleaves keys;
  pd_code code;
  pd_error *err;
} found_keys;

static void found_done(found_keys *f)
{
  pd_stateleaves_done(&f->keys);
}

static bool find_key(void *ctx, const pd_difference *difference)
{
  static const char prefix[] = PD_LEAF_ROOT "/";
  found_keys *f = ctx;
  if (!pd_bytes_starts(difference->key, pd_text(prefix))) return pd_bytes_compare(difference->key, pd_text(prefix)) < 0;
  f->code = pd_stateleaves_add(&f->keys, difference->key, (pd_bytes){NULL, 0}, f->err);
  return !f->code;
}

static pd_code get_optional(pd_view *view, pd_bytes key, pd_buf *out, pd_error *err)
{
  pd_error why;
  pd_buf_clear(out);
  pd_code code = pd_view_get(view, key, out, NULL, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  return code;
}

typedef bool (*diff_visit)(void *ctx, const pd_thread_difference *difference);

static pd_code write_pointer(pd_bytes key, pd_bytes value, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  TRY(pd_stateleaf_path(key, value, &path, err));
  return pd_doc_path_write(path.steps, path.count, out, err);
}

static pd_code show_difference(pd_view *from, pd_view *to, pd_bytes key, diff_visit visit, void *ctx, bool *out_goes_on, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf before = {0}, after = {0}, pointer = {0};
  pd_json was = {.kind = PD_JSON_NONE}, is = {.kind = PD_JSON_NONE};
  TRY(get_optional(from, key, &before, err));
  TRY(get_optional(to, key, &after, err));
  if (before.size) TRY(pd_stateleaf_json(key, pd_buf_bytes(&before), &was, err));
  if (after.size) TRY(pd_stateleaf_json(key, pd_buf_bytes(&after), &is, err));
  TRY(write_pointer(key, pd_buf_bytes(after.size ? &after : &before), &pointer, err));
  *out_goes_on = visit(ctx, &(pd_thread_difference){.path = pd_buf_bytes(&pointer), .before = was.raw, .after = is.raw});
  return PD_OK;
}

static void count_messages(pd_thread_diff_report *report)
{
  uint64_t low = report->from.message_count, high = report->to.message_count;
  if (low > high) low = report->to.message_count, high = report->from.message_count;
  report->message_count = high - low;
  report->message_first = high > low ? low + 1 : 0;
}

pd_code pd_thread_diff(pd_thread *thread, uint64_t from, uint64_t to, diff_visit visit, void *ctx, pd_thread_diff_report *out,
                       pd_error *err)
{
  CLEANUP(found_done) found_keys found = {.err = err};
  CLEANUP(pd_view_close_at) pd_view *was = NULL;
  CLEANUP(pd_view_close_at) pd_view *is = NULL;
  pd_thread_diff_report report = {0};
  char before[PD_THREAD_AT_SIZE], after[PD_THREAD_AT_SIZE];
  bool goes_on = true;
  TRY(pd_thread_follow(thread, err));
  TRY(pd_thread_find_point(thread, from, &report.from, err));
  TRY(pd_thread_find_point(thread, to, &report.to, err));
  pd_thread_at(report.from.commit.seq, before);
  pd_thread_at(report.to.commit.seq, after);
  TRY(pd_thread_view(thread, &report.from.commit, &was, err));
  TRY(pd_thread_view(thread, &report.to.commit, &is, err));
  TRY(pd_diff(thread->store, before, after, find_key, &found, err));
  TRY(found.code);
  for (size_t i = 0; goes_on && i < found.keys.count; i++) {
    report.paths++;
    if (visit) TRY(show_difference(was, is, pd_stateleaf_key_of(&found.keys, i), visit, ctx, &goes_on, err));
  }
  count_messages(&report);
  if (out) *out = report;
  return PD_OK;
}

/* ---- blame ---- */

/* What is known of the record that wrote the leaf before: leaves that came together are told together. */
typedef struct blamer {
  pd_thread *t;
  uint64_t newest; /* version */
  uint64_t seq;
  pd_thread_blame_line line;
  pd_buf texts;
  size_t run_at, reason_at, author_at, ids_at;
} blamer;

static void blamer_done(blamer *b)
{
  pd_buf_done(&b->texts);
}

typedef struct author_job {
  pd_buf *out;
  pd_code code;
  pd_error *err;
} author_job;

static bool take_author(void *ctx, const pd_record *record)
{
  author_job *job = ctx;
  job->code = pd_buf_append(job->out, record->author, strlen(record->author) + 1, job->err);
  return false;
}

static pd_code take_string(pd_json value, pd_buf *out, size_t *out_at, pd_error *err)
{
  *out_at = out->size;
  if (value.kind == PD_JSON_STRING) TRY(pd_json_decode(value, out, err));
  return pd_buf_byte(out, 0, err);
}

static pd_code take_change(blamer *b, pd_view *view, uint64_t version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_THREAD_KEY_SIZE];
  pd_change_parts parts;
  pd_error why = {0};
  TRY(pd_view_get(view, pd_text(pd_thread_key(PD_KEY_CHANGE, version, key)), &text, NULL, err));
  TRY(pd_thread_stored(b->t->id, key, pd_change_parse(pd_buf_bytes(&text), &parts, &why), &why, err));
  TRY(take_string(parts.run_id, &b->texts, &b->run_at, err));
  TRY(take_string(parts.reason, &b->texts, &b->reason_at, err));
  b->ids_at = b->texts.size;
  pd_bytes ids = parts.message_ids.kind == PD_JSON_ARRAY ? parts.message_ids.raw : pd_text("[]");
  TRY(pd_buf_append(&b->texts, ids.data, ids.size, err));
  TRY(pd_buf_byte(&b->texts, 0, err));
  b->line.version = version;
  b->line.time_ms = parts.time_ms;
  return PD_OK;
}

/* Which change set was made by record `seq`: they are in the order of their records, so the last that is not newer. */
static pd_code find_version(pd_view *view, uint64_t newest, uint64_t seq, uint64_t *out, pd_error *err)
{
  uint64_t low = 0, high = newest;
  char key[PD_THREAD_KEY_SIZE];
  pd_entry entry;
  while (low < high) {
    uint64_t mid = low + (high - low + 1) / 2;
    TRY(pd_view_get(view, pd_text(pd_thread_key(PD_KEY_CHANGE, mid, key)), NULL, &entry, err));
    if (entry.seq <= seq)
      low = mid;
    else
      high = mid - 1;
  }
  *out = low;
  return PD_OK;
}

static pd_code find_author(blamer *b, uint64_t seq, pd_error *err)
{
  author_job job = {.out = &b->texts, .err = err};
  char at[PD_THREAD_AT_SIZE];
  pd_error why;
  b->author_at = b->texts.size;
  pd_code code = pd_show(b->t->store, pd_thread_at(seq, at), take_author, &job, &why);
  if (code == PD_RETIRED) return pd_buf_byte(&b->texts, 0, err);
  if (code && err) *err = why;
  TRY(code);
  return job.code;
}

/* The record that wrote it, and the change set that this was. */
static pd_code look_at_record(blamer *b, pd_view *view, uint64_t seq, pd_error *err)
{
  uint64_t version;
  b->seq = 0;
  pd_buf_clear(&b->texts);
  TRY(find_version(view, b->newest, seq, &version, err));
  TRY(take_change(b, view, version, err));
  TRY(find_author(b, seq, err));
  TRY(pd_thread_commit_id(b->t->store, seq, &b->line.commit, err));
  const char *texts = (const char *)b->texts.data;
  b->line.run_id = texts + b->run_at;
  b->line.reason = texts + b->reason_at;
  b->line.author = texts + b->author_at;
  b->line.message_ids = texts + b->ids_at;
  b->seq = seq;
  return PD_OK;
}

static pd_code blame_leaf(blamer *b, pd_view *view, pd_bytes key, pd_bytes value,
                          bool (*visit)(void *ctx, const pd_thread_blame_line *line), void *ctx, bool *out_goes_on, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pointer = {0};
  pd_entry entry;
  TRY(pd_view_get(view, key, NULL, &entry, err));
  if (entry.seq != b->seq) TRY(look_at_record(b, view, entry.seq, err));
  TRY(write_pointer(key, value, &pointer, err));
  b->line.path = pd_buf_bytes(&pointer);
  *out_goes_on = visit(ctx, &b->line);
  return PD_OK;
}

pd_code pd_thread_blame(pd_thread *thread, uint64_t version, const char *path, bool (*visit)(void *ctx, const pd_thread_blame_line *line),
                        void *ctx, pd_error *err)
{
  CLEANUP(pd_stateleaves_done) pd_stateleaves leaves = {0};
  CLEANUP(pd_doc_path_done) pd_doc_path steps = {0};
  CLEANUP(blamer_done) blamer b = {.t = thread};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread_point point;
  size_t used;
  bool goes_on = true;
  TRY(pd_thread_point_get(thread, version, &point, err));
  TRY(pd_thread_view(thread, &point.commit, &view, err));
  b.newest = point.version;
  if (path && *path) { /* inside of what is kept whole, too, it must be there */
    CLEANUP(pd_buf_done) pd_buf text = {0};
    TRY(pd_stateleaves_text(view, path, &text, err));
  }
  TRY(pd_stateleaves_at(view, path ? path : "", &leaves, &steps, &used, err));
  for (size_t i = 0; goes_on && i < leaves.count; i++)
    TRY(blame_leaf(&b, view, pd_stateleaf_key_of(&leaves, i), pd_stateleaf_value_of(&leaves, i), visit, ctx, &goes_on, err));
  return PD_OK;
}
