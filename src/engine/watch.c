/*
 * watch.c: following the log: records become events, in order, each once.
 *
 * Place: beside log.c, but forward and without the store's lock: a watch reads the log through the backend, which any thread may.
 * Invariants:
 *  C1  `next` is the place after the last event given. It moves only over what was given, or is of no interest to this watch, so a watch
 *      that begins there misses nothing and repeats nothing.
 *  C2  Within a record, places count all its changes, whatever the prefix: a cursor of one watch is good for another.
 *  C3  Where records were retired, or lost changes since, counting is over: a gap tells it, never silence.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/number.h"
#include "engine/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define POLL_MS 50    /* where the backend cannot wake us */
#define SLICE_MS 5000 /* then the log's real tail is asked for: the hint of a writer that died may be missing */
#define TAKEN_KEEP_MAX ((size_t)1 << 20)

struct pd_watch {
  pd_store *store;
  pd_watch_cursor next;
  char ref[PD_REF_SIZE_MAX + 1]; /* "": all */
  pd_buf prefix;
  pd_taken taken; /* records read ahead */
  size_t taken_at;
  bool has_record; /* `rec` is a commit in the middle of its changes */
  pd_rec rec;
  pd_cursor changes;
  pd_buf texts; /* of the event: ref, author, run, reason, each with a NUL */
};

/* ---- cursors and names -------------------------------------------------------------------------------------------- */

char *pd_watch_cursor_text(const pd_watch_cursor *cursor, char out[PD_WATCH_CURSOR_SIZE])
{
  int n = snprintf(out, PD_WATCH_CURSOR_SIZE, "%llu", (unsigned long long)cursor->seq);
  if (cursor->index) snprintf(out + n, (size_t)(PD_WATCH_CURSOR_SIZE - n), ".%llu", (unsigned long long)cursor->index);
  return out;
}

bool pd_watch_cursor_parse(const char *text, pd_watch_cursor *out)
{
  pd_watch_cursor cursor = {0};
  if (!text || !pd_u64_take(&text, &cursor.seq)) return false;
  if (*text == '.') {
    text++;
    if (!pd_u64_take(&text, &cursor.index) || !cursor.index || !cursor.seq) return false;
  }
  if (*text) return false;
  *out = cursor;
  return true;
}

int pd_watch_cursor_compare(const pd_watch_cursor *a, const pd_watch_cursor *b)
{
  if (a->seq != b->seq) return a->seq < b->seq ? -1 : 1;
  return (a->index > b->index) - (a->index < b->index);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

static pd_code begin_at(pd_watch *w, pd_watch_cursor from, pd_error *err)
{
  uint64_t tail = 0;
  char text[PD_WATCH_CURSOR_SIZE];
  TRY(w->store->ops->log_tail(w->store->backend, &tail, err));
  w->next = from;
  if (!from.seq) w->next = (pd_watch_cursor){tail + 1, 0};
  if (w->next.seq <= tail || (w->next.seq == tail + 1 && !w->next.index)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "cannot watch from %s: the log of '%s' ends at record %llu", pd_watch_cursor_text(&from, text),
                      w->store->agent, (unsigned long long)tail);
}

static pd_code set_up(pd_watch *w, const pd_watch_options *options, pd_error *err)
{
  if (options->prefix.size > PD_KEY_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a prefix of %zu bytes is longer than a key (%d)", options->prefix.size, PD_KEY_SIZE_MAX);
  if (options->ref && *options->ref) {
    TRY(pd_ref_check(options->ref, err));
    snprintf(w->ref, sizeof w->ref, "%s", options->ref);
  }
  TRY(pd_buf_append(&w->prefix, options->prefix.data, options->prefix.size, err));
  return begin_at(w, options->from, err);
}

pd_code pd_watch_open(pd_store *store, const pd_watch_options *options, pd_watch **out, pd_error *err)
{
  static const pd_watch_options everything;
  pd_watch *w = calloc(1, sizeof *w);
  if (!w) return pd_error_memory(err, "a watch");
  w->store = store;
  pd_code code = set_up(w, options ? options : &everything, err);
  if (code == PD_OK)
    *out = w;
  else
    pd_watch_close(w);
  return code;
}

void pd_watch_close(pd_watch *watch)
{
  if (!watch) return;
  pd_taken_done(&watch->taken);
  pd_buf_done(&watch->prefix);
  pd_buf_done(&watch->texts);
  free(watch);
}

pd_watch_cursor pd_watch_where(const pd_watch *watch)
{
  return watch->next;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static pd_code put_texts(pd_watch *w, pd_watch_event *out, pd_error *err)
{
  const pd_bytes parts[] = {w->rec.ref, w->rec.author, w->rec.run, w->rec.reason};
  const char **slots[] = {&out->ref, &out->author, &out->run, &out->reason};
  size_t at[COUNT_OF(parts)];
  pd_buf_clear(&w->texts);
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    at[i] = w->texts.size;
    TRY(pd_buf_append(&w->texts, parts[i].data, parts[i].size, err));
    TRY(pd_buf_byte(&w->texts, 0, err));
  }
  for (size_t i = 0; i < COUNT_OF(parts); i++) *slots[i] = (const char *)w->texts.data + at[i];
  return PD_OK;
}

/* What all events of the present record have in common. */
static pd_code begin_event(pd_watch *w, pd_watch_kind kind, pd_watch_event *out, pd_error *err)
{
  const pd_rec *rec = &w->rec;
  *out = (pd_watch_event){.kind = kind,
                          .seq = rec->seq,
                          .last_seq = rec->seq,
                          .record_kind = rec->kind,
                          .commit = {rec->commit, rec->tree, rec->target_seq},
                          .time_ms = rec->time_ms};
  return put_texts(w, out, err);
}

static void leave_record(pd_watch *w)
{
  w->has_record = false;
  w->taken_at++;
  w->next = (pd_watch_cursor){w->taken.first + w->taken_at, 0};
}

/* Records that are there no more, as many as follow one another. */
static void gap_of_retired(pd_watch *w, pd_watch_event *out)
{
  *out = (pd_watch_event){.kind = PD_WATCH_GAP, .seq = w->next.seq, .ref = "", .author = "", .run = "", .reason = ""};
  do {
    out->last_seq = w->taken.first + w->taken_at;
    leave_record(w);
  } while (w->taken_at < w->taken.count && !pd_taken_at(&w->taken, w->taken_at).size);
  out->next = w->next;
}

/* A record that has lost changes: what is left of it was told, or cannot be counted (C3). */
static pd_code gap_in_record(pd_watch *w, pd_watch_event *out, pd_error *err)
{
  TRY(begin_event(w, PD_WATCH_GAP, out, err));
  leave_record(w);
  out->next = w->next;
  return PD_OK;
}

/* The commit that a record left its ref at, and the record before it of the same ref; zero if it is retired. */
static pd_code read_move(pd_watch *w, uint64_t seq, pd_commit *out, uint64_t *out_prev, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken taken = {0};
  pd_rec rec;
  *out_prev = 0;
  TRY(pd_take_records(w->store, seq, seq, &taken, err));
  if (!taken.count || !pd_taken_at(&taken, 0).size) return PD_OK;
  TRY(pd_rec_decode(seq, pd_taken_at(&taken, 0), &rec, err));
  if (rec.kind == PD_RECORD_SWITCH)
    *out_prev = rec.ref_prev_seq; /* it left the ref where it was */
  else if (rec.kind != PD_RECORD_REF_DELETE)
    *out = (pd_commit){rec.commit, rec.tree, rec.target_seq};
  return PD_OK;
}

static pd_code move_event(pd_watch *w, pd_watch_event *out, pd_error *err)
{
  pd_commit before = {0};
  for (uint64_t seq = w->rec.ref_prev_seq; seq;) TRY(read_move(w, seq, &before, &seq, err));
  TRY(begin_event(w, PD_WATCH_MOVE, out, err));
  out->before = before.id;
  if (w->rec.kind == PD_RECORD_SWITCH) out->commit = before;
  if (w->rec.kind == PD_RECORD_REF_DELETE) out->commit = (pd_commit){0};
  leave_record(w);
  out->next = w->next;
  return PD_OK;
}

/* The next change of the present record that is of interest. At its end, the record is left. */
static pd_code next_change(pd_watch *w, pd_watch_event *out, bool *out_found, pd_error *err)
{
  while (w->next.index < w->rec.change_count) {
    pd_rec_change change;
    pd_rec_next(&w->rec, &w->changes, &change);
    w->next.index++;
    if (!pd_bytes_starts(change.key, pd_buf_bytes(&w->prefix))) continue;
    TRY(begin_event(w, change.is_delete ? PD_WATCH_DELETE : PD_WATCH_PUT, out, err));
    out->key = change.key;
    out->version = change.version;
    out->is_new = pd_rec_is_new(&change);
    out->size = change.size;
    out->is_erased = change.is_erased;
    if (!change.is_delete) out->value_id = pd_rec_value_id(&change);
    if (w->next.index == w->rec.change_count && !w->rec.has_dropped) leave_record(w);
    out->next = w->next;
    *out_found = true;
    return PD_OK;
  }
  *out_found = w->rec.has_dropped;
  if (w->rec.has_dropped) return gap_in_record(w, out, err);
  leave_record(w);
  return PD_OK;
}

static bool is_wanted(const pd_watch *w)
{
  const pd_rec *rec = &w->rec;
  if (rec->kind == PD_RECORD_KEYFRAME || !rec->ref.size || *(const char *)rec->ref.data == PD_META_REF[0]) return false;
  return !*w->ref || pd_bytes_equal(rec->ref, pd_text(w->ref));
}

/* Begin with the record at taken_at; it may give an event at once. */
static pd_code enter_record(pd_watch *w, pd_watch_event *out, bool *out_found, pd_error *err)
{
  pd_bytes bytes = pd_taken_at(&w->taken, w->taken_at);
  *out_found = true;
  if (!bytes.size) {
    gap_of_retired(w, out);
    return PD_OK;
  }
  TRY(pd_rec_decode(w->next.seq, bytes, &w->rec, err));
  if (is_wanted(w) && w->rec.kind != PD_RECORD_COMMIT && !w->next.index) return move_event(w, out, err);
  if (is_wanted(w) && w->next.index && w->rec.has_dropped) return gap_in_record(w, out, err);
  *out_found = false;
  if (!is_wanted(w) || w->rec.kind != PD_RECORD_COMMIT) {
    leave_record(w);
    return PD_OK;
  }
  w->changes = pd_rec_changes(&w->rec);
  for (uint64_t i = 0; i < w->next.index && i < w->rec.change_count; i++) pd_rec_next(&w->rec, &w->changes, &(pd_rec_change){0});
  w->has_record = true;
  return PD_OK;
}

/* The next event of what was read ahead, if there is one. */
static pd_code next_taken(pd_watch *w, pd_watch_event *out, bool *out_found, pd_error *err)
{
  *out_found = false;
  while (!*out_found && (w->has_record || w->taken_at < w->taken.count))
    TRY(w->has_record ? next_change(w, out, out_found, err) : enter_record(w, out, out_found, err));
  return PD_OK;
}

/* ---- reading and waiting ------------------------------------------------------------------------------------------ */

/* The flusher of this very handle appends before it publishes: give it the moment, so that who hears of a change can read it. */
static void wait_published(pd_store *s, uint64_t seq)
{
  pd_store_lock(s);
  s->followers++; /* woken by each batch, not when the flusher is done with all of them */
  while (s->is_flushing && s->seen_seq < seq) pd_store_wait(s);
  s->followers--;
  pd_store_unlock(s);
}

static pd_code read_ahead(pd_watch *w, uint64_t tail, pd_error *err)
{
  if (w->taken.bytes.capacity > TAKEN_KEEP_MAX) {
    pd_taken_done(&w->taken);
    w->taken = (pd_taken){0};
  }
  w->taken_at = 0;
  w->taken.count = 0;
  if (tail < w->next.seq) return PD_OK;
  pd_code code = pd_take_records(w->store, w->next.seq, tail, &w->taken, err);
  if (code != PD_OK) w->taken.count = 0;
  TRY(code);
  if (w->taken.count) wait_published(w->store, w->taken.first + w->taken.count - 1);
  return PD_OK;
}

/* Sleep until there is something past what we know, the time is over, or a signal comes. *out_is_over: not for something new. */
static pd_code sleep_until(pd_watch *w, uint32_t timeout_ms, bool *out_is_over, pd_error *err)
{
  pd_store *s = w->store;
  uint64_t tail = s->ops->log_tail_hint(s->backend);
  uint32_t slice = timeout_ms < SLICE_MS ? timeout_ms : SLICE_MS;
  int64_t start = pd_clock_monotonic_ms();
  if (tail < w->next.seq && slice) {
    if (s->ops->log_wait)
      TRY(s->ops->log_wait(s->backend, w->next.seq - 1, slice, err));
    else
      usleep((slice < POLL_MS ? slice : POLL_MS) * 1000);
    tail = s->ops->log_tail_hint(s->backend);
  }
  bool is_slept = pd_clock_monotonic_ms() - start >= SLICE_MS;
  if (tail < w->next.seq && (is_slept || !s->ops->log_wait)) TRY(s->ops->log_tail(s->backend, &tail, err));
  bool is_signal = tail < w->next.seq && s->ops->log_wait && pd_clock_monotonic_ms() - start < slice;
  *out_is_over = is_signal;
  return read_ahead(w, tail, err);
}

pd_code pd_watch_next(pd_watch *watch, uint32_t timeout_ms, pd_watch_event *out, pd_error *err)
{
  int64_t start = pd_clock_monotonic_ms();
  uint64_t due = watch->store->ops->log_tail_hint(watch->store->backend); /* what was there is told, however short the time */
  bool is_over = false;
  for (;;) {
    bool is_found = false;
    pd_watch_event event;
    TRY(next_taken(watch, &event, &is_found, err));
    if (is_found) {
      *out = event;
      return PD_OK;
    }
    int64_t spent = pd_clock_monotonic_ms() - start;
    uint32_t left = timeout_ms == PD_WATCH_FOREVER ? SLICE_MS : spent >= timeout_ms ? 0 : timeout_ms - (uint32_t)spent;
    if (!left && watch->next.seq > due) return PD_NOT_FOUND;
    TRY(sleep_until(watch, left, &is_over, err));
    if (!watch->taken.count && (!left || is_over)) return PD_NOT_FOUND;
  }
}
