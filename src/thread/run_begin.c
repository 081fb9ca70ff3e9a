/*
 * run_begin.c: beginning a run, going on with one, and closing.
 *
 * prepare_run is one change set with what came in: first the snapshot, if there is one, then the deletions, then the mark that the run is
 * running. So nobody sees a run that runs on what an earlier one left, and of two that begin at once only one can commit.
 */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "thread/run_context.h"
#include "thread/thread.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what all files use ---- */

int64_t pd_run_now(const pd_run_context *run)
{
  int64_t now = run->now_ms(run->now_ctx);
  return now < 1 ? 1 : now; /* 0 would mean the system's clock */
}

pd_code pd_run_check_open(const pd_run_context *run, pd_error *err)
{
  if (run->status == PD_PHASE_DONE)
    return pd_error_named(err, PD_CONFLICT, "RunDone", "run '%s' of thread '%s' is done (%s): it takes nothing new", run->id,
                          pd_thread_id(run->thread), pd_done_reason_name(run->done_reason));
  if (run->has_failed || run->is_unsettled)
    return pd_error_named(err, PD_CONFLICT, "RunFailed",
                          "a checkpoint of run '%s' of thread '%s' failed: checkpoint again, or finish it with"
                          " an error",
                          run->id, pd_thread_id(run->thread));
  return PD_OK;
}

void pd_run_emit(const pd_run_context *run, pd_run_event event)
{
  if (!run->on_event) return;
  event.thread_id = pd_thread_id(run->thread);
  event.run_id = run->id;
  if (!event.version) event.version = run->version;
  if (!event.call_id) event.call_id = "";
  run->on_event(run->event_ctx, &event);
}

/* ---- making the handle ---- */

static pd_code copy_id(const char *id, const char *what, char out[PD_THREAD_ID_SIZE_MAX + 1], pd_error *err)
{
  if (!id) return PD_OK;
  TRY(pd_thread_id_check(id, what, err));
  strcpy(out, id);
  return PD_OK;
}

static pd_code fill(pd_run_context *run, const pd_run_options *o, pd_error *err)
{
  run->on_event = o->on_event;
  run->event_ctx = o->event_ctx;
  run->now_ms = o->now_ms ? o->now_ms : pd_clock_now_ms;
  run->now_ctx = o->now_ctx;
  run->later = o->later;
  TRY(copy_id(o->run_id, "run", run->id, err));
  TRY(copy_id(o->parent_run_id, "parent run", run->parent_id, err));
  if (!o->scopes) TRY(pd_scopes_new(&run->own_scopes, err));
  run->scopes = o->scopes ? o->scopes : run->own_scopes;
  if (o->author && !(run->author = strdup(o->author))) return pd_error_memory(err, "a run");
  return PD_OK;
}

static void close_at(pd_run_context **run)
{
  pd_run_close(*run);
}

static pd_code make(pd_thread *thread, const pd_run_options *options, pd_run_context **out, pd_error *err)
{
  static const pd_run_options none = {0};
  pd_run_context *run = calloc(1, sizeof *run);
  if (!run) return pd_error_memory(err, "a run");
  run->thread = thread;
  *out = run; /* the caller closes it, whatever comes */
  return fill(run, options ? options : &none, err);
}

void pd_run_close(pd_run_context *run)
{
  if (!run) return;
  pd_run_calls_done(run);
  pd_run_items_done(&run->messages);
  pd_run_items_done(&run->patches);
  pd_run_items_done(&run->actions);
  pd_run_drop_doc(run);
  free(run->brought);
  pd_scopes_free(run->own_scopes);
  free(run->author);
  free(run);
}

pd_run_info pd_run_info_get(const pd_run_context *run)
{
  return (pd_run_info){.run_id = run->id,
                       .parent_run_id = run->parent_id,
                       .status = run->status,
                       .done_reason = run->done_reason,
                       .has_failed = run->has_failed,
                       .version = run->version,
                       .messages = run->messages.count,
                       .patches = run->patches.count,
                       .state_actions = run->actions.count,
                       .calls = run->call_count};
}

/* ---- prepare_run ---- */

/* The state that the run will begin with, before prepare_run. */
static pd_code base_doc(pd_run_context *run, pd_bytes snapshot, pd_doc **out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_error why = {0};
  pd_json state;
  if (!snapshot.size) TRY(pd_thread_state(run->thread, run->version, NULL, &text, err));
  pd_code code = pd_json_parse(snapshot.size ? snapshot : pd_buf_bytes(&text), &state, &why);
  if (!code && state.kind != PD_JSON_OBJECT) code = pd_error_set(&why, PD_INVALID, "it is no object but %s", pd_json_kind_name(state.kind));
  if (!code) code = pd_doc_new(state, 0, out, &why);
  if (code) return pd_error_named(err, code, code == PD_INVALID ? "InvalidChangeSet" : NULL, "'snapshot': %.300s", why.message);
  return PD_OK;
}

/* Delete what is at the path, if something is; also in `doc`, so that what goes with another path is not deleted twice. */
static pd_code put_delete(pd_json_writer *w, pd_doc *doc, const pd_doc_path *path, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pointer = {0};
  if (!path->count || !pd_doc_find(doc, path->steps, path->count)) return PD_OK;
  TRY(pd_doc_remove(doc, path->steps, path->count, NULL, err));
  TRY(pd_doc_path_write(path->steps, path->count, &pointer, err));
  pd_json_open(w, '{');
  pd_json_put_text(w, "op", "delete");
  pd_json_put_bytes(w, "path", pd_buf_bytes(&pointer));
  pd_json_close(w, '}');
  return w->code;
}

static bool is_threads_own(const pd_scopes *scopes, const pd_doc_path *path)
{
  for (size_t i = 0; i < scopes->count; i++)
    if (scopes->entries[i].scope == PD_SCOPE_THREAD && pd_paths_overlap(&scopes->entries[i].path, path)) return true;
  return false;
}

/* What the run before had as Run-scoped: the process that began it may have known more scopes than this one. */
static pd_code put_former(const pd_run_context *run, pd_json_writer *w, pd_doc *doc, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_error why = {0};
  pd_json list, item;
  pd_code code = pd_thread_state(run->thread, run->version, "/" PD_SCOPE_RUN_NAME "/scopes", &text, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  TRY(code);
  TRY(pd_json_parse(pd_buf_bytes(&text), &list, err));
  pd_json_walk items = pd_json_walk_begin(list);
  while (pd_json_walk_next(&items, NULL, &item)) {
    CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
    if (item.kind != PD_JSON_STRING || pd_doc_path_parse(item, &path, NULL))
      continue; /* not of our making: change sets can write anything */
    if (!is_threads_own(run->scopes, &path)) TRY(put_delete(w, doc, &path, err));
  }
  return PD_OK;
}

static pd_code put_deletes(const pd_run_context *run, pd_json_writer *w, pd_doc *doc, pd_error *err)
{
  pd_doc_step calls_step = {.kind = PD_STEP_NAME, .name = pd_text(PD_SCOPE_CALLS_NAME)};
  pd_doc_path calls = {.steps = &calls_step, .count = 1};
  TRY(put_delete(w, doc, &calls, err)); /* what calls of a run that died left behind */
  for (size_t i = 0; i < run->scopes->count; i++)
    if (run->scopes->entries[i].scope == PD_SCOPE_RUN) TRY(put_delete(w, doc, &run->scopes->entries[i].path, err));
  return put_former(run, w, doc, err);
}

/* The registry's Run-scoped paths, for the next prepare_run; those that every registry has are left out. */
static pd_code put_scopes(const pd_run_context *run, pd_json_writer *w, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pointer = {0};
  bool is_open = false;
  for (size_t i = PD_SCOPES_BUILT_IN; i < run->scopes->count; i++) {
    const pd_scope_entry *e = &run->scopes->entries[i];
    if (e->scope != PD_SCOPE_RUN) continue;
    if (!is_open) pd_json_key(w, "scopes");
    if (!is_open) pd_json_open(w, '[');
    is_open = true;
    pd_buf_clear(&pointer);
    TRY(pd_doc_path_write(e->path.steps, e->path.count, &pointer, err));
    pd_json_text(w, pd_buf_bytes(&pointer));
  }
  if (is_open) pd_json_close(w, ']');
  return w->code;
}

static pd_code write_prepare(const pd_run_context *run, pd_doc *doc, int64_t now_ms, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '[');
  TRY(put_deletes(run, &w, doc, err));
  pd_patch_open(&w, "set", (const char *const[]){PD_SCOPE_RUN_NAME}, 1);
  pd_json_key(&w, "value");
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "id", run->id);
  TRY(put_scopes(run, &w, err));
  pd_json_put_text(&w, "status", pd_run_phase_name(PD_PHASE_RUNNING));
  pd_json_put_number(&w, "updated_at", (uint64_t)now_ms);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  pd_json_close(&w, ']');
  return w.code;
}

/* ---- beginning ---- */

static bool ignore_run(void *ctx, const pd_thread_run *run)
{
  (void)ctx, (void)run;
  return true;
}

/* Nobody else's run is active, and the id was never used. */
static pd_code check_free(pd_run_context *run, pd_error *err)
{
  pd_thread_info info;
  pd_error why = {0};
  TRY(pd_thread_info_get(run->thread, &info, err));
  run->version = info.version;
  if (*info.active_run && strcmp(info.active_run, run->id) != 0)
    return pd_error_named(err, PD_CONFLICT, "RunActive", "run '%s' of thread '%s' is active, so run '%s' cannot begin", info.active_run,
                          pd_thread_id(run->thread), run->id);
  pd_code code = pd_thread_run_get(run->thread, run->id, ignore_run, NULL, &why);
  if (!code)
    return pd_error_named(err, PD_EXISTS, "RunExists", "thread '%s' has a run '%s' already: a run begins once", pd_thread_id(run->thread),
                          run->id);
  if (code != PD_NOT_FOUND && err) *err = why;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static void free_doc(pd_doc **doc)
{
  pd_doc_free(*doc);
}

/* *out_is_commit: it was the commit that failed. */
static pd_code begin_once(pd_run_context *run, const pd_run_options *o, pd_thread_ack *ack, bool *out_is_commit, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf patches = {0};
  CLEANUP(free_doc) pd_doc *doc = NULL;
  int64_t now_ms = pd_run_now(run);
  TRY(check_free(run, err));
  TRY(base_doc(run, o->snapshot, &doc, err));
  TRY(write_prepare(run, doc, now_ms, &patches, err));
  pd_changeset set = {.run_id = run->id,
                      .parent_run_id = *run->parent_id ? run->parent_id : NULL,
                      .run_meta = o->meta,
                      .reason = PD_REASON_USER_MESSAGE,
                      .messages = o->messages,
                      .patches = pd_buf_bytes(&patches),
                      .snapshot = o->snapshot,
                      .active_run = run->id,
                      .time_ms = now_ms,
                      .author = run->author,
                      .later = run->later};
  *out_is_commit = true;
  return pd_thread_append(run->thread, &set, run->version, ack, err);
}

/* Somebody else appended between our look and our commit: that is no failure of this run, which has seen nothing yet. */
static bool is_race(pd_code code, const pd_error *why)
{
  return code == PD_CONFLICT && strcmp(pd_error_name(why), "VersionConflict") == 0;
}

static pd_code begin(pd_run_context *run, const pd_run_options *o, pd_error *err)
{
  pd_error why = {0};
  pd_thread_ack ack;
  pd_code code = PD_CONFLICT;
  bool is_commit = false;
  if (!*run->id) TRY(pd_random_hex(run->id, 33, err));
  do { /* each is lost to an append that is on the disk then */
    is_commit = false;
    code = begin_once(run, o, &ack, &is_commit, &why);
  } while (is_race(code, &why));
  if (code && is_commit && strcmp(pd_error_name(&why), "RunActive") != 0)
    pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_STATE_ERROR, .reason = PD_REASON_USER_MESSAGE, .error = &why});
  if (code && err) *err = why;
  TRY(code);
  run->version = ack.version;
  run->status = PD_PHASE_RUNNING;
  pd_run_emit(run, (pd_run_event){.kind = PD_RUN_EVENT_STARTED, .reason = PD_REASON_USER_MESSAGE, .status = PD_PHASE_RUNNING});
  return PD_OK;
}

pd_code pd_run_begin(pd_thread *thread, const pd_run_options *options, pd_run_context **out, pd_error *err)
{
  static const pd_run_options none = {0};
  CLEANUP(close_at) pd_run_context *run = NULL;
  TRY(make(thread, options, &run, err));
  TRY(begin(run, options ? options : &none, err));
  *out = run;
  run = NULL;
  return PD_OK;
}

/* ---- going on ---- */

typedef struct found_run {
  char parent_id[PD_THREAD_ID_SIZE_MAX + 1];
  uint64_t finished_version;
  bool is_active;
} found_run;

static bool find_run(void *ctx, const pd_thread_run *run)
{
  found_run *found = ctx;
  found->finished_version = run->finished_version;
  found->is_active = run->is_active;
  snprintf(found->parent_id, sizeof found->parent_id, "%s", run->parent_run_id);
  return true;
}

static pd_code not_ours(const pd_run_context *run, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "/" PD_SCOPE_RUN_NAME " of thread '%s' does not tell of run '%s' as runs write it",
                      pd_thread_id(run->thread), run->id);
}

/* The run's own words, as of the version that finished it, or the newest. */
static pd_code read_lifecycle(pd_run_context *run, uint64_t version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char id[PD_THREAD_ID_SIZE_MAX + 1] = "", status[16] = "", reason[16] = "";
  pd_error why = {0};
  pd_json json;
  pd_code code = pd_thread_state(run->thread, version, "/" PD_SCOPE_RUN_NAME, &text, &why);
  if (code == PD_NOT_FOUND) return not_ours(run, err);
  if (code && err) *err = why;
  TRY(code);
  TRY(pd_json_parse(pd_buf_bytes(&text), &json, err));
  (void)!pd_json_copy_text(pd_json_member(json, "id"), id, sizeof id);
  (void)!pd_json_copy_text(pd_json_member(json, "status"), status, sizeof status);
  (void)!pd_json_copy_text(pd_json_member(json, "done_reason"), reason, sizeof reason);
  run->status = pd_run_phase_parse(status);
  run->done_reason = pd_done_reason_parse(reason);
  bool is_whole = run->status && (run->status == PD_PHASE_DONE) == (run->done_reason != PD_DONE_NONE);
  return strcmp(id, run->id) == 0 && is_whole ? PD_OK : not_ours(run, err);
}

static pd_code attach(pd_run_context *run, pd_error *err)
{
  pd_thread_info info;
  found_run found = {0};
  TRY(pd_thread_info_get(run->thread, &info, err));
  if (!*run->id && !*info.active_run)
    return pd_error_named(err, PD_NOT_FOUND, "RunNotFound", "no run of thread '%s' is active", pd_thread_id(run->thread));
  if (!*run->id) snprintf(run->id, sizeof run->id, "%s", info.active_run);
  run->version = info.version;
  TRY(pd_thread_run_get(run->thread, run->id, find_run, &found, err));
  strcpy(run->parent_id, found.parent_id);
  if (!found.is_active && !found.finished_version)
    return pd_error_named(err, PD_CONFLICT, "RunNotActive", "run '%s' of thread '%s' was never finished, but it is not active any more",
                          run->id, pd_thread_id(run->thread));
  TRY(read_lifecycle(run, found.is_active ? run->version : found.finished_version, err));
  if ((run->status == PD_PHASE_DONE) == found.is_active) return not_ours(run, err);
  return found.is_active ? pd_run_read_calls(run, err) : PD_OK;
}

pd_code pd_run_attach(pd_thread *thread, const pd_run_options *options, pd_run_context **out, pd_error *err)
{
  CLEANUP(close_at) pd_run_context *run = NULL;
  if (options && (options->meta.size || options->messages.size || options->snapshot.size || options->parent_run_id))
    return pd_error_set(err, PD_INVALID, "only the beginning of a run takes messages, a snapshot, meta and a parent");
  TRY(make(thread, options, &run, err));
  TRY(attach(run, err));
  *out = run;
  run = NULL;
  return PD_OK;
}
