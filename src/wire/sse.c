/* sse.c: see sse.h. */
#include "wire/sse.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json_record.h"

pd_code pd_sse_event(pd_buf *out, const pd_watch_event *event, pd_error *err)
{
  char place[PD_WATCH_CURSOR_SIZE];
  TRY(pd_buf_printf(out, err, "id: %s\nevent: %s\ndata: ", pd_watch_cursor_text(&event->next, place), pd_watch_kind_name(event->kind)));
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_event(&w, event);
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
