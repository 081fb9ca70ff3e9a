/* sse.c: see sse.h. */
#include "wire/sse.h"

#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/json_record.h"

#include <string.h>

#define FRAME_SIZE 256 /* what an event has around its data, at most */

static pd_code begin_event(pd_buf *out, const char *id, const char *name, pd_error *err)
{
  if (id) TRY(pd_buf_printf(out, err, "id: %s\n", id));
  if (name) TRY(pd_buf_printf(out, err, "event: %s\n", name));
  return pd_buf_append(out, "data: ", 6, err);
}

static pd_code end_event(pd_buf *out, pd_error *err)
{
  return pd_buf_append(out, "\n\n", 2, err);
}

/* ---- the stream ---- */

void pd_sse_done(pd_sse *s)
{
  pd_buf_done(&s->out);
  free(s->ends);
}

size_t pd_sse_unsent(const pd_sse *s)
{
  return (size_t)(s->base + s->out.size - s->sent);
}

/* Where none is kept, what was sent and is still there counts, too: that is memory. */
static pd_code check_room(pd_sse *s, size_t size)
{
  size_t held = s->kept_max ? pd_sse_unsent(s) : s->out.size;
  if (held && held + size > s->queue_max) return PD_LIMIT;
  if (!s->kept_max) s->out.size_max = held + size > s->queue_max ? held + size : s->queue_max; /* so that it does not grow by doubling */
  return PD_OK;
}

pd_code pd_sse_add(pd_sse *s, pd_bytes text)
{
  TRY(check_room(s, text.size));
  return pd_buf_append(&s->out, text.data, text.size, NULL);
}

pd_code pd_sse_put(pd_sse *s, const char *id, const char *name, pd_bytes data)
{
  TRY(check_room(s, data.size + FRAME_SIZE));
  TRY(begin_event(&s->out, id, name, NULL));
  TRY(pd_buf_append(&s->out, data.data, data.size, NULL));
  TRY(end_event(&s->out, NULL));
  if (!s->kept_max) return PD_OK;
  TRY(pd_array_grow(&s->ends, s->end_count, &s->end_capacity, sizeof s->ends[0], "events", NULL));
  s->ends[s->end_count++] = s->base + s->out.size;
  return PD_OK;
}

uint64_t pd_sse_next(const pd_sse *s)
{
  return s->first_event + s->end_count;
}

bool pd_sse_after(const pd_sse *s, uint64_t event, uint64_t *out_at)
{
  if (event >= pd_sse_next(s) || event + 1 < s->first_event) return false;
  *out_at = event + 1 == s->first_event ? s->base : s->ends[event - s->first_event];
  return true;
}

/* SSE-2: forget what was sent long enough ago. It moves what is left, so not each time. */
static void trim(pd_sse *s)
{
  size_t sent = (size_t)(s->sent - s->base), gone = 0;
  uint64_t from = s->kept_max ? s->base : s->sent;
  if (sent < s->out.size && sent < s->out.size / 2) return;
  if (s->kept_max && sent < 2 * s->kept_max) return;
  while (gone + 1 < s->end_count && s->ends[gone] + s->kept_max < s->sent && s->ends[gone + 1] <= s->sent) from = s->ends[gone++];
  if (gone) memmove(s->ends, s->ends + gone, (s->end_count - gone) * sizeof s->ends[0]);
  s->end_count -= gone;
  s->first_event += gone;
  size_t drop = (size_t)(from - s->base);
  if (drop && drop < s->out.size) memmove(s->out.data, s->out.data + drop, s->out.size - drop);
  s->out.size -= drop;
  s->base = from;
  if (!s->out.size) pd_buf_done(&s->out);
}

/* ---- who reads it ---- */

void pd_sse_sleep(pd_sse_reader *reader)
{
  reader->is_asleep = true;
  MHD_suspend_connection(reader->connection);
}

void pd_sse_wake(pd_sse_reader *reader)
{
  if (!reader->is_asleep) return;
  reader->is_asleep = false;
  MHD_resume_connection(reader->connection);
}

size_t pd_sse_read(pd_sse *s, pd_sse_reader *reader, char *out, size_t max)
{
  size_t left = (size_t)(s->base + s->out.size - reader->at), size = left < max ? left : max;
  if (!size) return 0;
  memcpy(out, s->out.data + (reader->at - s->base), size);
  reader->at += size;
  if (reader->at > s->sent) s->sent = reader->at;
  trim(s);
  return size;
}

/* ---- events of a watch ---- */

pd_code pd_sse_event(pd_buf *out, const pd_watch_event *event, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  TRY(begin_event(out, pd_watch_cursor_text(&event->next, place), pd_watch_kind_name(event->kind), err));
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_event(&w, event);
  if (event->is_new && event->version > 1) pd_json_put_bool(&w, "is_new", true); /* that version 1 is new is known */
  pd_json_close(&w, '}');
  TRY(w.code);
  return end_event(out, err);
}

pd_code pd_sse_note(pd_buf *out, const char *name, const pd_watch_cursor *at, const char *store, const char *reason, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  TRY(begin_event(out, pd_watch_cursor_text(at, place), name, err));
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", store);
  pd_json_put_text(&w, "next", place);
  if (reason) pd_json_put_text(&w, "reason", reason);
  pd_json_close(&w, '}');
  TRY(w.code);
  return end_event(out, err);
}

pd_code pd_sse_live(pd_buf *out, pd_error *err)
{
  TRY(begin_event(out, NULL, "live", err));
  TRY(pd_buf_printf(out, err, "{\"live\":true}"));
  return end_event(out, err);
}

pd_code pd_sse_heartbeat(pd_buf *out, const pd_watch_cursor *at, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  return pd_buf_printf(out, err, ": heartbeat\nid: %s\n\n", pd_watch_cursor_text(at, place));
}
