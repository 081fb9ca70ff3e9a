/*
 * run_doc.c: the state with the delta (U1 of run_context.h), whole or in part.
 *
 * Most calls need little of the state: the run's own paths and those of the patches at hand. So a run loads that part of it (part.h), and
 * loads it again with more paths when a list brings others. A run that is told much, or is asked for its state, has the whole of it in
 * memory. A list that the part refuses is applied to the whole state, which gives the error.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/changeset.h"
#include "thread/run_context.h"
#include "thread/thread.h"

#define PART_LOADS_MAX 8 /* by one handle: then it is a run that is told much */

void pd_run_drop_doc(pd_run_context *run)
{
  pd_doc_free(run->doc);
  run->doc = NULL;
  run->is_part = false;
  pd_touched_done(&run->part_paths);
}

static void free_doc(pd_doc **doc)
{
  pd_doc_free(*doc);
}

/* ---- the whole ---- */

static pd_code parse_items(const pd_run_items *items, pd_buf *text, pd_patches **out, pd_error *err)
{
  pd_json list;
  TRY(pd_run_items_write(items, text, err));
  TRY(pd_json_parse(pd_buf_bytes(text), &list, err));
  return pd_patches_parse(list, out, err);
}

static pd_code apply_items(const pd_run_items *items, pd_doc *doc, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_patches_free_at) pd_patches *patches = NULL;
  if (!items->count) return PD_OK;
  TRY(parse_items(items, &text, &patches, err));
  return pd_patches_apply(patches, doc, NULL, err);
}

pd_code pd_run_load_doc(pd_run_context *run, uint64_t version, pd_doc **out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json state;
  TRY(pd_thread_state(run->thread, version, NULL, &text, err));
  TRY(pd_json_parse(pd_buf_bytes(&text), &state, err));
  return pd_doc_new(state, 0, out, err);
}

pd_code pd_run_need_doc(pd_run_context *run, pd_error *err)
{
  CLEANUP(free_doc) pd_doc *doc = NULL;
  if (run->doc && !run->is_part) return PD_OK;
  TRY(pd_run_load_doc(run, run->version, &doc, err));
  TRY(pd_patch_error(apply_items(&run->patches, doc, err), err));
  pd_doc_keep(doc);
  pd_run_drop_doc(run);
  run->doc = doc;
  doc = NULL;
  return PD_OK;
}

/* ---- a part ---- */

/* What a run looks at whatever it is told: its own words, its calls, and where only calls may write (check_scopes of run_patch.c). */
static pd_code add_own_paths(const pd_run_context *run, pd_touched *out, pd_error *err)
{
  static const char *const own[] = {PD_SCOPE_RUN_NAME, PD_SCOPE_CALLS_NAME};
  for (size_t i = 0; i < COUNT_OF(own); i++) {
    pd_doc_step step = {.kind = PD_STEP_NAME, .name = pd_text(own[i])};
    TRY(pd_touched_add(out, &step, 1, err));
  }
  for (size_t i = 0; i < run->scopes->count; i++) {
    const pd_scope_entry *e = &run->scopes->entries[i];
    if (e->scope == PD_SCOPE_TOOL_CALL) TRY(pd_touched_add(out, e->path.steps, e->path.count, err));
  }
  return PD_OK;
}

static bool has_path(const pd_touched *paths, const pd_doc_path *path)
{
  for (size_t i = 0; i < paths->count; i++)
    if (pd_doc_path_covers(&paths->paths[i], path)) return true;
  return false;
}

/* Are all paths of `inner` in `outer`? */
static bool has_paths(const pd_touched *outer, const pd_touched *inner)
{
  for (size_t i = 0; i < inner->count; i++)
    if (!has_path(outer, &inner->paths[i])) return false;
  return true;
}

/* The state at the run's version, as much as `wanted` says, with the delta. */
static pd_code load_part(pd_run_context *run, const pd_touched *wanted, pd_part *out, pd_error *err)
{
  CLEANUP(pd_part_done) pd_part part = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread_point point;
  TRY(pd_thread_point_get(run->thread, run->version, &point, err));
  TRY(pd_thread_view(run->thread, &point.commit, &view, err));
  TRY(pd_part_load(view, &point.commit.tree, wanted, &part, err));
  TRY(apply_items(&run->patches, part.doc, err));
  pd_doc_keep(part.doc);
  *out = part;
  part = (pd_part){0};
  return PD_OK;
}

/* Everything that the doc must have: what it has, the delta's paths, the run's own, and `more`. */
static pd_code collect_paths(const pd_run_context *run, const pd_touched *more, pd_touched *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_patches_free_at) pd_patches *delta = NULL;
  TRY(add_own_paths(run, out, err));
  for (size_t i = 0; i < run->part_paths.count; i++)
    TRY(pd_touched_add(out, run->part_paths.paths[i].steps, run->part_paths.paths[i].count, err));
  for (size_t i = 0; i < more->count; i++) TRY(pd_touched_add(out, more->paths[i].steps, more->paths[i].count, err));
  if (run->patches.count) TRY(parse_items(&run->patches, &text, &delta, err));
  if (delta) TRY(pd_patches_paths(delta, out, err));
  pd_touched_minimize(out);
  return PD_OK;
}

static pd_code load_with(pd_run_context *run, const pd_touched *more, pd_error *err)
{
  CLEANUP(pd_touched_done) pd_touched wanted = {0};
  CLEANUP(pd_part_done) pd_part part = {0};
  TRY(collect_paths(run, more, &wanted, err));
  TRY(load_part(run, &wanted, &part, err));
  pd_run_drop_doc(run);
  run->doc = part.doc;
  part.doc = NULL;
  run->is_part = true;
  run->part_paths = wanted;
  wanted = (pd_touched){0};
  return PD_OK;
}

pd_code pd_run_need_part(pd_run_context *run, const pd_patches *patches, const pd_patches *more, pd_error *err)
{
  CLEANUP(pd_touched_done) pd_touched paths = {0};
  pd_error why = {0};
  if (run->doc && !run->is_part) return PD_OK;
  if (patches) TRY(pd_patches_paths(patches, &paths, err));
  if (more) TRY(pd_patches_paths(more, &paths, err));
  if (run->doc && has_paths(&run->part_paths, &paths)) return PD_OK;
  pd_code code = run->part_loads >= PART_LOADS_MAX ? PD_LIMIT : load_with(run, &paths, &why);
  run->part_loads++;
  if (!code) return PD_OK;
  if (pd_part_is_refused(code)) return pd_run_need_doc(run, err);
  if (err) *err = why;
  return code;
}

/* ---- what is asked ---- */

pd_code pd_run_state(pd_run_context *run, const char *path, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = out->size_max};
  CLEANUP(pd_doc_path_done) pd_doc_path steps = {0};
  TRY(pd_doc_path_pointer(pd_text(path ? path : ""), &steps, err));
  TRY(pd_run_need_doc(run, err));
  const pd_node *node = pd_doc_find(run->doc, steps.steps, steps.count);
  if (!node) return pd_error_named(err, PD_NOT_FOUND, "PathNotFound", "there is nothing at '%s' in the state of run '%s'", path, run->id);
  TRY(pd_node_write(node, &text, err));
  pd_buf_done(out);
  *out = text;
  text = (pd_buf){0};
  return PD_OK;
}
