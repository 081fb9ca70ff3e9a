/* export.c: a thread as NDJSON: its story, a line a part (docs/formats.md). */
#include "thread/export.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/rebuild.h"

typedef struct exporter {
  const pd_thread *t;
  const pd_sink *sink;
  pd_buf line;
  uint64_t identities, lines;
} exporter;

static void exporter_done(exporter *e)
{
  pd_buf_done(&e->line);
}

static pd_code send_line(exporter *e, pd_json_writer *w, pd_error *err)
{
  pd_json_close(w, '}');
  TRY(w->code);
  TRY(pd_buf_byte(&e->line, '\n', err));
  TRY(e->sink->write(e->sink->ctx, e->line.data, e->line.size, err));
  e->lines++;
  return PD_OK;
}

static pd_json_writer begin_line(exporter *e, const char *kind, pd_error *err)
{
  pd_json_writer w = {.out = &e->line, .err = err};
  pd_buf_clear(&e->line);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "kind", kind);
  return w;
}

static pd_code export_identity(void *ctx, const pd_identity *identity, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  exporter *e = ctx;
  bool is_first = !e->identities++;
  pd_json_writer w = begin_line(e, is_first ? "thread" : "fork", err);
  if (is_first) {
    pd_json_put_number(&w, "format", PD_EXPORT_FORMAT);
    pd_json_put_text(&w, "id", e->t->id);
    pd_json_put_number(&w, "forks", e->t->identity.forks);
  }
  TRY(pd_identity_write(identity, &text, err));
  pd_json_key(&w, "identity");
  pd_json_raw(&w, pd_buf_bytes(&text));
  return send_line(e, &w, err);
}

static pd_code export_change(void *ctx, const pd_thread_delta *delta, pd_error *err)
{
  exporter *e = ctx;
  pd_json_writer w = begin_line(e, "change", err);
  pd_json_put_number(&w, "version", delta->version);
  pd_json_key(&w, "change");
  pd_json_raw(&w, delta->json);
  return send_line(e, &w, err);
}

static pd_code export_end(exporter *e, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_writer w = begin_line(e, "end", err);
  pd_json_put_number(&w, "version", e->t->head.version);
  pd_json_put_number(&w, "messages", e->t->head.messages);
  pd_json_put_number(&w, "runs", e->t->head.runs);
  pd_json_put_text(&w, "commit", pd_id_hex(&e->t->commit.id, hex));
  return send_line(e, &w, err);
}

pd_code pd_thread_export(pd_thread *thread, const pd_sink *sink, uint64_t *out_lines, pd_error *err)
{
  CLEANUP(exporter_done) exporter e = {.t = thread, .sink = sink};
  pd_story story = {.identity = export_identity, .change = export_change, .ctx = &e};
  TRY(pd_thread_follow(thread, err));
  TRY(pd_thread_tell(thread, &story, err));
  TRY(export_end(&e, err));
  if (out_lines) *out_lines = e.lines;
  return PD_OK;
}
