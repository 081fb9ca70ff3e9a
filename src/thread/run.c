/*
 * run.c: the runs of a thread: `run/N` in the order in which they began, `run-id/ID` says which. Written when a run begins, when it brings
 * run_meta, and when it finishes; other change sets cost it nothing.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/append.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN_ID_KEY_SIZE (PD_THREAD_ID_SIZE_MAX + 16)

/* ---- the record ---- */

/* Texts are in `texts`; "" if none. */
typedef struct run_record {
  pd_thread_run run;
  pd_buf texts, meta;
} run_record;

static void run_done(run_record *r)
{
  pd_buf_done(&r->texts);
  pd_buf_done(&r->meta);
}

static pd_code write_run(const pd_thread_run *run, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  if (run->finished_version) {
    pd_json_put_number(&w, "finished_at", (uint64_t)run->finished_ms);
    pd_json_put_number(&w, "finished_version", run->finished_version);
  }
  pd_json_put_number(&w, "first_version", run->first_version);
  pd_json_put_text(&w, "id", run->id);
  if (run->meta.size) {
    pd_json_key(&w, "meta");
    pd_json_raw(&w, run->meta);
  }
  if (*run->parent_run_id) pd_json_put_text(&w, "parent_run_id", run->parent_run_id);
  pd_json_put_number(&w, "started_at", (uint64_t)run->started_ms);
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code take_number(pd_json value, bool is_must, uint64_t *out)
{
  if (value.kind == PD_JSON_NONE && !is_must) return PD_OK;
  return pd_json_u64(value, out) && *out <= INT64_MAX ? PD_OK : PD_INVALID;
}

static pd_code parse_run(pd_bytes text, run_record *r, pd_error *err)
{
  enum { FINISHED, FINISHED_VERSION, FIRST, ID, META, PARENT, STARTED, COUNT };
  pd_json_field f[COUNT] = {{"finished_at", {{0}, 0}}, {"finished_version", {{0}, 0}}, {"first_version", {{0}, 0}}, {"id", {{0}, 0}},
                            {"meta", {{0}, 0}},        {"parent_run_id", {{0}, 0}},    {"started_at", {{0}, 0}}};
  uint64_t finished = 0, started = 0;
  pd_json json;
  TRY(pd_json_parse(text, &json, err));
  TRY(pd_json_fields(json, f, COUNT, err));
  if (take_number(f[FINISHED].value, false, &finished) || take_number(f[FINISHED_VERSION].value, false, &r->run.finished_version) ||
      take_number(f[FIRST].value, true, &r->run.first_version) || take_number(f[STARTED].value, true, &started))
    return pd_error_set(err, PD_INVALID, "a number is wrong");
  TRY(pd_json_decode(f[ID].value, &r->texts, err));
  TRY(pd_buf_byte(&r->texts, 0, err));
  size_t parent_at = r->texts.size;
  if (f[PARENT].value.kind != PD_JSON_NONE) TRY(pd_json_decode(f[PARENT].value, &r->texts, err));
  TRY(pd_buf_byte(&r->texts, 0, err));
  if (f[META].value.kind != PD_JSON_NONE) TRY(pd_buf_append(&r->meta, f[META].value.raw.data, f[META].value.raw.size, err));
  r->run.finished_ms = (int64_t)finished;
  r->run.started_ms = (int64_t)started;
  r->run.id = (const char *)r->texts.data;
  r->run.parent_run_id = (const char *)r->texts.data + parent_at;
  r->run.meta = pd_buf_bytes(&r->meta);
  return PD_OK;
}

static char *run_id_key(const char *run_id, char out[RUN_ID_KEY_SIZE])
{
  snprintf(out, RUN_ID_KEY_SIZE, PD_KEY_RUN "-id/%.*s", PD_THREAD_ID_SIZE_MAX, run_id);
  return out;
}

static pd_code parse_number(const pd_buf *text, const char *key, uint64_t *out, pd_error *err)
{
  pd_json json;
  if (!pd_json_parse(pd_buf_bytes(text), &json, NULL) && pd_json_u64(json, out) && *out) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "key '%s' of a thread is no number", key);
}

/* ---- writing ---- */

static pd_code put_run(pd_edit *edit, uint64_t number, const pd_thread_run *run, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_THREAD_KEY_SIZE];
  TRY(write_run(run, &text, err));
  return pd_edit_put(edit, pd_text(pd_thread_key(PD_KEY_RUN, number, key)), pd_buf_bytes(&text), PD_ANY_VERSION, err);
}

/* What the change set says of the run. */
static bool update_run(pd_thread_run *run, const pd_prepared *p, const pd_thread_head *head)
{
  bool has_meta = p->run_meta_text.size > 0;
  bool is_finished = p->set->reason == PD_REASON_RUN_FINISHED && !run->finished_version;
  if (has_meta) run->meta = pd_buf_bytes(&p->run_meta_text);
  if (is_finished) run->finished_version = head->version;
  if (is_finished) run->finished_ms = head->time_ms;
  return has_meta || is_finished;
}

static pd_code stage_new(pd_edit *edit, const pd_prepared *p, pd_thread_head *head, pd_error *err)
{
  char key[RUN_ID_KEY_SIZE], number[24];
  const pd_changeset *set = p->set;
  pd_thread_run run = {.id = set->run_id,
                       .parent_run_id = set->parent_run_id ? set->parent_run_id : "",
                       .first_version = head->version,
                       .started_ms = head->time_ms};
  update_run(&run, p, head);
  head->runs++;
  snprintf(number, sizeof number, "%llu", (unsigned long long)head->runs);
  TRY(pd_edit_put(edit, pd_text(run_id_key(set->run_id, key)), pd_text(number), PD_ANY_VERSION, err));
  return put_run(edit, head->runs, &run, err);
}

pd_code pd_run_stage(const char *thread_id, pd_edit *edit, const pd_prepared *prepared, pd_thread_head *head, pd_error *err)
{
  CLEANUP(run_done) run_record r = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char id_key[RUN_ID_KEY_SIZE], key[PD_THREAD_KEY_SIZE];
  uint64_t number;
  pd_error why;
  run_id_key(prepared->set->run_id, id_key);
  pd_code code = pd_edit_get(edit, pd_text(id_key), &text, NULL, &why);
  if (code == PD_NOT_FOUND) return stage_new(edit, prepared, head, err);
  if (code && err) *err = why;
  TRY(code);
  if (!prepared->run_meta_text.size && prepared->set->reason != PD_REASON_RUN_FINISHED) return PD_OK;
  TRY(parse_number(&text, id_key, &number, err));
  TRY(pd_edit_get(edit, pd_text(pd_thread_key(PD_KEY_RUN, number, key)), &text, NULL, err));
  TRY(pd_thread_stored(thread_id, key, parse_run(pd_buf_bytes(&text), &r, &why), &why, err));
  return update_run(&r.run, prepared, head) ? put_run(edit, number, &r.run, err) : PD_OK;
}

/* ---- reading ---- */

static pd_code show_run(const pd_thread *t, uint64_t number, pd_bytes text, const char *active, pd_thread_run_visit visit, void *ctx,
                        bool *out_goes_on, pd_error *err)
{
  CLEANUP(run_done) run_record r = {0};
  char key[PD_THREAD_KEY_SIZE];
  pd_error why = {0};
  TRY(pd_thread_stored(t->id, pd_thread_key(PD_KEY_RUN, number, key), parse_run(text, &r, &why), &why, err));
  r.run.number = number;
  r.run.is_active = strcmp(active, r.run.id) == 0;
  *out_goes_on = visit(ctx, &r.run);
  return PD_OK;
}

pd_code pd_thread_runs(pd_thread *thread, uint64_t version, uint64_t after, uint64_t limit, pd_thread_run_visit visit, void *ctx,
                       pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread_point point;
  pd_entry entry;
  pd_bytes text;
  char from[PD_THREAD_KEY_SIZE];
  pd_code code = PD_OK;
  bool goes_on = true;
  TRY(pd_thread_point_get(thread, version, &point, err));
  if (after >= point.run_count) return PD_OK;
  pd_scan scan = {.prefix = pd_text(PD_KEY_RUN "/"), .from = pd_text(pd_thread_key(PD_KEY_RUN, after + 1, from))};
  TRY(pd_thread_view(thread, &point.commit, &view, err));
  TRY(pd_view_scan(view, &scan, &iter, err));
  for (uint64_t i = 0; goes_on && (!limit || i < limit) && (code = pd_iter_next(iter, &entry, &text, err)) == PD_OK; i++)
    TRY(show_run(thread, pd_thread_key_number(entry.key), text, point.active_run, visit, ctx, &goes_on, err));
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_thread_run_get(pd_thread *thread, const char *run_id, pd_thread_run_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  char key[RUN_ID_KEY_SIZE], run_key[PD_THREAD_KEY_SIZE];
  uint64_t number;
  pd_error why;
  bool goes_on;
  TRY(pd_thread_id_check(run_id, "run", err));
  TRY(pd_thread_follow(thread, err));
  TRY(pd_thread_view(thread, &thread->commit, &view, err));
  pd_code code = pd_view_get(view, pd_text(run_id_key(run_id, key)), &text, NULL, &why);
  if (code == PD_NOT_FOUND) return pd_error_named(err, PD_NOT_FOUND, "RunNotFound", "thread '%s' has no run '%s'", thread->id, run_id);
  if (code && err) *err = why;
  TRY(code);
  TRY(parse_number(&text, key, &number, err));
  TRY(pd_view_get(view, pd_text(pd_thread_key(PD_KEY_RUN, number, run_key)), &text, NULL, err));
  return show_run(thread, number, pd_buf_bytes(&text), thread->head.active_run, visit, ctx, &goes_on, err);
}
