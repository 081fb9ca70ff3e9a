/* threads_read.c: threads.load|list|messages|deltas|state|diff|runs|blame|replay: the calls that only look at threads. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/home.h"
#include "state/moment.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdio.h>

static void put_json(pd_frame *frame, const char *key, pd_bytes json)
{
  pd_json_key(&frame->out, key);
  pd_json_raw(&frame->out, json);
}

/* A number, or null for 0. */
static void put_next(pd_frame *frame, const char *key, uint64_t next)
{
  if (next) {
    pd_json_put_number(&frame->out, key, next);
    return;
  }
  pd_json_key(&frame->out, key);
  pd_json_null(&frame->out);
}

static void put_path(pd_frame *frame, pd_bytes path)
{
  pd_json_put_bytes(&frame->out, "path", path);
}

/* ---- the thread itself ---- */

static void write_info(pd_frame *frame, const pd_thread_info *info)
{
  pd_json_writer *w = &frame->out;
  pd_json_open(w, '{');
  pd_json_put_text(w, "thread_id", info->id);
  pd_out_said(frame, "owner", info->owner);
  pd_out_said(frame, "parent", info->parent);
  if (info->meta.size) put_json(frame, "meta", info->meta);
  pd_out_time(frame, "created_at", info->created_ms);
  pd_out_time(frame, "updated_at", info->updated_ms);
  pd_json_put_number(w, "version", info->version);
  pd_json_put_number(w, "message_count", info->message_count);
  pd_json_put_number(w, "run_count", info->run_count);
  pd_out_said(frame, "active_run", info->active_run);
  pd_out_said(frame, "forked_from", info->forked_from);
  if (info->forked_from && *info->forked_from) pd_json_put_number(w, "forked_version", info->forked_version);
  pd_out_id(frame, "commit", &info->commit);
  pd_json_close(w, '}');
}

typedef struct listing {
  pd_frame *frame;
  uint64_t count, limit;
  bool has_more;
  char cursor[PD_THREAD_CURSOR_SIZE];
  uint64_t first, last; /* places, numbers or versions of what was written */
} listing;

/* May one more be written? */
static bool has_room(listing *l)
{
  l->has_more = l->count >= l->limit || (l->count && pd_out_is_long(l->frame));
  return !l->has_more && !l->frame->out.code;
}

static bool list_thread(void *ctx, const pd_thread_info *info, const char *cursor)
{
  listing *l = ctx;
  if (!has_room(l)) return false;
  write_info(l->frame, info);
  snprintf(l->cursor, sizeof l->cursor, "%s", cursor);
  l->count++;
  return true;
}

pd_code pd_cap_threads_list(pd_frame *frame, pd_error *err)
{
  char owner[PD_THREAD_OWNER_SIZE_MAX + 1], parent[PD_THREAD_ID_SIZE_MAX + 1], cursor[PD_THREAD_CURSOR_SIZE];
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  pd_thread_query query = {
    .owner = pd_in_string(frame, "owner", owner, sizeof owner) ? owner : NULL,
    .parent = pd_in_string(frame, "parent", parent, sizeof parent) ? parent : NULL,
    .cursor = pd_in_string(frame, "cursor", cursor, sizeof cursor) ? cursor : NULL,
  };
  pd_store *store;
  bool has;
  TRY(pd_in_moment(frame, "since", &query.since_ms, &has, err));
  TRY(pd_in_moment(frame, "until", &query.until_ms, &has, err));
  TRY(pd_frame_own_or_none(frame, &store, err));
  pd_json_key(&frame->out, "threads");
  pd_json_open(&frame->out, '[');
  if (store) TRY(pd_thread_list(store, &query, list_thread, &l, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", l.count);
  pd_json_key(&frame->out, "next_cursor");
  if (l.has_more)
    pd_json_text(&frame->out, pd_text(l.cursor));
  else
    pd_json_null(&frame->out);
  return PD_OK;
}

/* ---- messages ---- */

static bool list_message(void *ctx, const pd_thread_message *message)
{
  listing *l = ctx;
  if (!has_room(l)) return false;
  if (!l->count++) l->first = message->place;
  l->last = message->place;
  pd_json_raw(&l->frame->out, message->json);
  return true;
}

static pd_code write_messages(listing *l, pd_thread *thread, const pd_message_query *query, pd_error *err)
{
  pd_json_key(&l->frame->out, "messages");
  pd_json_open(&l->frame->out, '[');
  TRY(pd_thread_messages(thread, query, list_message, l, NULL, err));
  pd_json_close(&l->frame->out, ']');
  return PD_OK;
}

pd_code pd_cap_threads_messages(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  pd_message_query query = {
    .version = pd_in_version(frame, "version", PD_VERSION_HEAD),
    .after = (uint64_t)pd_in_int(frame, "after", 0),
    .last = (uint64_t)pd_in_int(frame, "last", 0),
    .limit = l.limit + 1,
  };
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(write_messages(&l, thread, &query, err));
  pd_json_put_number(&frame->out, "first_place", l.first);
  put_next(frame, "next_after", l.has_more ? l.last : 0);
  return PD_OK;
}

static pd_code write_state(pd_frame *frame, pd_thread *thread, uint64_t version, const char *path, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf state = {0};
  TRY(pd_thread_state(thread, version, path, &state, err));
  put_json(frame, "state", pd_buf_bytes(&state));
  return PD_OK;
}

/* What the thread was at a version: the numbers of the newest are not those of then. */
static pd_code look_back(pd_thread *thread, uint64_t version, pd_thread_info *info, pd_thread_point *point, pd_error *err)
{
  TRY(pd_thread_info_get(thread, info, err));
  TRY(pd_thread_point_get(thread, version == PD_VERSION_HEAD ? info->version : version, point, err));
  info->version = point->version;
  info->message_count = point->message_count;
  info->run_count = point->run_count;
  info->active_run = point->active_run;
  info->commit = point->commit.id;
  return PD_OK;
}

/* The last l->limit messages; fewer if they are so long that the answer would be, and then the earlier ones go. */
static pd_code write_last(listing *l, pd_thread *thread, const pd_thread_point *point, pd_error *err)
{
  pd_json_writer before = l->frame->out;
  size_t size = before.out->size;
  uint64_t count = l->limit < point->message_count ? l->limit : point->message_count;
  for (;; count = (count + 1) / 2) {
    pd_message_query query = {.version = point->version, .after = point->message_count - count, .limit = count};
    *l = (listing){.frame = l->frame, .limit = count};
    TRY(write_messages(l, thread, &query, err));
    if (!l->has_more || count < 2) return PD_OK;
    l->frame->out = before;
    before.out->size = size;
  }
}

pd_code pd_cap_threads_load(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  pd_thread_info info;
  pd_thread_point point;
  uint64_t last = (uint64_t)pd_in_int(frame, "last", 50);
  listing l = {.frame = frame, .limit = last};
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(look_back(thread, pd_in_version(frame, "version", PD_VERSION_HEAD), &info, &point, err));
  pd_json_key(&frame->out, "thread");
  write_info(frame, &info);
  pd_json_put_number(&frame->out, "version", point.version);
  TRY(write_state(frame, thread, point.version, NULL, err));
  TRY(write_last(&l, thread, &point, err));
  pd_json_put_bool(&frame->out, "has_more", point.message_count > l.count);
  return PD_OK;
}

/* ---- state, change sets ---- */

pd_code pd_cap_threads_state(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  char path[4097] = "";
  pd_thread_info info;
  pd_in_string(frame, "path", path, sizeof path);
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(pd_thread_info_get(thread, &info, err));
  uint64_t version = pd_in_version(frame, "version", info.version);
  TRY(write_state(frame, thread, version, path, err));
  pd_json_put_number(&frame->out, "version", version);
  return PD_OK;
}

static bool list_delta(void *ctx, const pd_thread_delta *delta)
{
  listing *l = ctx;
  if (!has_room(l)) return false;
  l->count++;
  l->last = delta->version;
  pd_json_open(&l->frame->out, '{');
  pd_json_put_number(&l->frame->out, "version", delta->version);
  pd_out_id(l->frame, "commit", &delta->commit);
  put_json(l->frame, "change", delta->json);
  pd_json_close(&l->frame->out, '}');
  return true;
}

pd_code pd_cap_threads_deltas(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  TRY(pd_threads_hold(frame, &thread, err));
  pd_json_key(&frame->out, "deltas");
  pd_json_open(&frame->out, '[');
  TRY(pd_thread_deltas(thread, (uint64_t)pd_in_int(frame, "after_version", 0), l.limit + 1, list_delta, &l, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "version", pd_thread_version(thread));
  put_next(frame, "next_after", l.has_more ? l.last : 0);
  return PD_OK;
}

/* ---- diff ---- */

static bool list_difference(void *ctx, const pd_thread_difference *d)
{
  listing *l = ctx;
  if (!has_room(l)) return false;
  l->count++;
  pd_json_open(&l->frame->out, '{');
  put_path(l->frame, d->path);
  if (d->before.size) put_json(l->frame, "before", d->before);
  if (d->after.size) put_json(l->frame, "after", d->after);
  pd_json_close(&l->frame->out, '}');
  return true;
}

pd_code pd_cap_threads_diff(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  pd_thread_diff_report report;
  pd_thread_info info;
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(pd_thread_info_get(thread, &info, err));
  uint64_t from = pd_in_version(frame, "from", 0), to = pd_in_version(frame, "to", info.version);
  pd_json_put_number(&frame->out, "from", from);
  pd_json_put_number(&frame->out, "to", to);
  pd_json_key(&frame->out, "changes");
  pd_json_open(&frame->out, '[');
  TRY(pd_thread_diff(thread, from, to, list_difference, &l, &report, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "message_first", report.message_first);
  pd_json_put_number(&frame->out, "message_count", report.message_count);
  pd_json_put_bool(&frame->out, "has_more", l.has_more);
  return PD_OK;
}

/* ---- runs ---- */

static bool list_run(void *ctx, const pd_thread_run *run)
{
  listing *l = ctx;
  pd_json_writer *w = &l->frame->out;
  if (!has_room(l)) return false;
  l->count++;
  pd_json_open(w, '{');
  pd_json_put_number(w, "number", run->number);
  pd_json_put_text(w, "run_id", run->id);
  pd_out_said(l->frame, "parent_run_id", run->parent_run_id);
  if (run->meta.size) put_json(l->frame, "run_meta", run->meta);
  pd_json_put_number(w, "first_version", run->first_version);
  if (run->finished_version) pd_json_put_number(w, "finished_version", run->finished_version);
  pd_out_time(l->frame, "started_at", run->started_ms);
  if (run->finished_version) pd_out_time(l->frame, "finished_at", run->finished_ms);
  pd_json_put_bool(w, "is_active", run->is_active);
  pd_json_close(w, '}');
  return true;
}

pd_code pd_cap_threads_runs(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  pd_thread_info info;
  pd_thread_point point;
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(look_back(thread, pd_in_version(frame, "version", PD_VERSION_HEAD), &info, &point, err));
  pd_json_key(&frame->out, "runs");
  pd_json_open(&frame->out, '[');
  TRY(pd_thread_runs(thread, point.version, (uint64_t)pd_in_int(frame, "after", 0), l.limit, list_run, &l, err));
  pd_json_close(&frame->out, ']');
  pd_json_key(&frame->out, "active_run");
  if (*point.active_run)
    pd_json_text(&frame->out, pd_text(point.active_run));
  else
    pd_json_null(&frame->out);
  return PD_OK;
}

/* ---- audit ---- */

static bool list_line(void *ctx, const pd_thread_blame_line *line)
{
  listing *l = ctx;
  pd_json_writer *w = &l->frame->out;
  if (!has_room(l)) return false;
  l->count++;
  pd_json_open(w, '{');
  put_path(l->frame, line->path);
  pd_json_put_number(w, "version", line->version);
  pd_json_put_text(w, "run_id", line->run_id);
  pd_json_put_text(w, "reason", line->reason);
  pd_json_put_text(w, "author", line->author);
  pd_out_time(l->frame, "time", line->time_ms);
  put_json(l->frame, "message_ids", pd_text(line->message_ids));
  pd_out_id(l->frame, "commit", &line->commit);
  pd_json_close(w, '}');
  return true;
}

pd_code pd_cap_threads_blame(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  char path[4097] = "";
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  pd_in_string(frame, "path", path, sizeof path);
  TRY(pd_threads_hold(frame, &thread, err));
  pd_json_key(&frame->out, "lines");
  pd_json_open(&frame->out, '[');
  TRY(pd_thread_blame(thread, pd_in_version(frame, "version", PD_VERSION_HEAD), path, list_line, &l, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_bool(&frame->out, "has_more", l.has_more);
  return PD_OK;
}

pd_code pd_cap_threads_replay(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  pd_thread_replay_report report;
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(pd_thread_replay(thread, NULL, NULL, &report, err));
  pd_json_put_bool(&frame->out, "is_same", report.is_same);
  pd_json_put_number(&frame->out, "versions", report.versions);
  pd_json_put_number(&frame->out, "messages", report.messages);
  pd_out_id(frame, "commit", &report.commit);
  return PD_OK;
}
