/* sse.c: see sse.h. */
#include "wire/sse.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"

static bool is_zero(const pd_id *id)
{
  static const pd_id zero;
  return pd_id_equal(id, &zero);
}

static void put_id(pd_json_writer *w, const char *key, const pd_id *id)
{
  char hex[PD_ID_HEX_SIZE];
  if (!is_zero(id)) pd_json_put_text(w, key, pd_id_hex(id, hex));
}

static void put_text(pd_json_writer *w, const char *key, const char *text)
{
  if (*text) pd_json_put_text(w, key, text);
}

/* The members are those of `perdure watch --json`. */
static void put_members(pd_json_writer *w, const pd_watch_event *e)
{
  char text[PD_TIME_TEXT_SIZE];
  pd_json_put_text(w, "event", pd_watch_kind_name(e->kind));
  pd_json_put_number(w, "seq", e->seq);
  if (e->kind == PD_WATCH_GAP) pd_json_put_number(w, "last_seq", e->last_seq);
  put_text(w, "ref", e->ref);
  if (e->kind == PD_WATCH_PUT || e->kind == PD_WATCH_DELETE) {
    pd_json_put_bytes(w, "key", e->key);
    pd_json_put_number(w, "version", e->version);
  }
  if (e->kind == PD_WATCH_PUT) {
    put_id(w, "value_id", &e->value_id);
    pd_json_put_number(w, "size", e->size);
    if (e->is_erased) pd_json_put_bool(w, "erased", true);
  }
  if (e->kind == PD_WATCH_MOVE) {
    pd_json_put_text(w, "move", pd_record_kind_name(e->record_kind));
    put_id(w, "before", &e->before);
  }
  put_id(w, "commit", &e->commit.id);
  put_text(w, "author", e->author);
  put_text(w, "run", e->run);
  put_text(w, "reason", e->reason);
  if (e->time_ms) pd_json_put_text(w, "time", pd_time_text(e->time_ms, text));
}

pd_code pd_sse_event(pd_buf *out, const pd_watch_event *event, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  TRY(pd_buf_printf(out, err, "id: %s\nevent: %s\ndata: ", pd_watch_cursor_text(&event->next, place), pd_watch_kind_name(event->kind)));
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  put_members(&w, event);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_buf_append(out, "\n\n", 2, err);
}

pd_code pd_sse_note(pd_buf *out, const char *name, const pd_watch_cursor *at, const char *store, const char *reason, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  TRY(pd_buf_printf(out, err, "id: %s\nevent: %s\ndata: ", pd_watch_cursor_text(at, place), name));
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", store);
  pd_json_put_text(&w, "next", place);
  if (reason) pd_json_put_text(&w, "reason", reason);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_buf_append(out, "\n\n", 2, err);
}

pd_code pd_sse_heartbeat(pd_buf *out, const pd_watch_cursor *at, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  return pd_buf_printf(out, err, ": heartbeat\nid: %s\n\n", pd_watch_cursor_text(at, place));
}
