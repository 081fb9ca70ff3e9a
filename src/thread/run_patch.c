/* run_patch.c: the patches of a run and of its tool calls: which paths they may write, and where. Invariant U1 is in run_context.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "thread/changeset.h"
#include "thread/run_context.h"

static pd_doc_path path_of(pd_doc_step *steps, const char *const *names, size_t count)
{
  for (size_t i = 0; i < count; i++) steps[i] = (pd_doc_step){.kind = PD_STEP_NAME, .name = pd_text(names[i])};
  return (pd_doc_path){.steps = steps, .count = count};
}

/* Is `path` in the scope of this call, and not its own state? */
static bool is_in_own_scope(const pd_doc_path *path, const char *call_id)
{
  pd_doc_step steps[3];
  pd_doc_path scope = path_of(steps, (const char *const[]){PD_SCOPE_CALLS_NAME, call_id, PD_SCOPE_CALL_STATE_NAME}, 3), state = scope;
  scope.count = 2;
  return path->count > 2 && pd_doc_path_covers(&scope, path) && !pd_doc_path_covers(&state, path);
}

static pd_code check_touched(const pd_doc_path *path, pd_patch_rights rights, const char *call_id, pd_error *err)
{
  pd_doc_step run_step, calls_step;
  char text[200];
  pd_doc_path of_run = path_of(&run_step, (const char *const[]){PD_SCOPE_RUN_NAME}, 1);
  pd_doc_path of_calls = path_of(&calls_step, (const char *const[]){PD_SCOPE_CALLS_NAME}, 1);
  bool is_reserved = pd_paths_overlap(path, &of_run);
  if (pd_paths_overlap(path, &of_calls)) is_reserved = rights != PD_PATCH_OF_CALL || !is_in_own_scope(path, call_id);
  if (!is_reserved) return PD_OK;
  return pd_error_named(err, PD_INVALID, "ReservedPath",
                        "a patch writes '%s': /" PD_SCOPE_RUN_NAME " and /" PD_SCOPE_CALLS_NAME " are the runs' own",
                        pd_doc_path_text(path->steps, path->count, text, sizeof text));
}

/* Nothing that is ToolCall-scoped may lie outside of a call's scope, whichever patch put it there. */
static pd_code check_scopes(const pd_run_context *run, pd_error *err)
{
  char text[200];
  for (size_t i = 0; i < run->scopes->count; i++) {
    const pd_scope_entry *e = &run->scopes->entries[i];
    if (e->scope == PD_SCOPE_TOOL_CALL && pd_doc_find(run->doc, e->path.steps, e->path.count))
      return pd_error_named(err, PD_INVALID, "InvalidScope", "'%s' has the scope tool_call: only a tool call can write it",
                            pd_doc_path_text(e->path.steps, e->path.count, text, sizeof text));
  }
  return PD_OK;
}

pd_code pd_run_try(pd_run_context *run, const pd_patches *patches, pd_patch_rights rights, const char *call_id, pd_error *err)
{
  CLEANUP(pd_touched_done) pd_touched touched = {0};
  size_t mark = pd_doc_mark(run->doc);
  TRY(pd_patch_error(pd_patches_apply(patches, run->doc, &touched, err), err));
  if (rights == PD_PATCH_INTERNAL) return PD_OK;
  pd_code code = PD_OK;
  for (size_t i = 0; !code && i < touched.count; i++) code = check_touched(&touched.paths[i], rights, call_id, err);
  if (!code) code = check_scopes(run, err);
  if (code) pd_doc_undo(run->doc, mark);
  return code;
}

/* The path of one patch, below the call's scope if it is ToolCall-scoped. */
static pd_code write_path(const pd_run_context *run, pd_json value, const char *call_id, pd_json_writer *w, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_doc_path_parse(value, &path, NULL) || pd_scopes_of(run->scopes, &path) != PD_SCOPE_TOOL_CALL) {
    pd_json_value(w, value); /* what is wrong with it is told by pd_patches_parse, which knows the patch's number */
    return PD_OK;
  }
  if (value.kind == PD_JSON_STRING) { /* a pointer stays one: its numerals may be names or indices */
    TRY(pd_buf_printf(&text, err, "/" PD_SCOPE_CALLS_NAME "/%s", call_id));
    TRY(pd_json_decode(value, &text, err));
    pd_json_text(w, pd_buf_bytes(&text));
    return PD_OK;
  }
  pd_json_open(w, '[');
  pd_json_text(w, pd_text(PD_SCOPE_CALLS_NAME));
  pd_json_text(w, pd_text(call_id));
  pd_json_walk steps = pd_json_walk_begin(value);
  pd_json step;
  while (pd_json_walk_next(&steps, NULL, &step)) pd_json_value(w, step);
  pd_json_close(w, ']');
  return PD_OK;
}

static pd_code write_patch(const pd_run_context *run, pd_json patch, const char *call_id, pd_json_writer *w, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_json key, value;
  pd_json_walk members = pd_json_walk_begin(patch);
  pd_json_open(w, '{');
  while (pd_json_walk_next(&members, &key, &value)) {
    pd_buf_clear(&name);
    TRY(pd_json_decode(key, &name, err));
    TRY(pd_buf_byte(&name, 0, err));
    pd_json_key(w, (const char *)name.data);
    if (pd_json_is(key, "path"))
      TRY(write_path(run, value, call_id, w, err));
    else
      pd_json_value(w, value);
  }
  pd_json_close(w, '}');
  return w->code;
}

static pd_code move_to_scope(const pd_run_context *run, pd_json list, const char *call_id, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_walk items = pd_json_walk_begin(list);
  pd_json patch;
  pd_json_open(&w, '[');
  while (pd_json_walk_next(&items, NULL, &patch)) {
    if (patch.kind == PD_JSON_OBJECT)
      TRY(write_patch(run, patch, call_id, &w, err));
    else
      pd_json_value(&w, patch);
  }
  pd_json_close(&w, ']');
  return w.code;
}

pd_code pd_run_read_patches(const pd_run_context *run, pd_bytes list, const char *call_id, pd_buf *out_text, pd_patches **out,
                            pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf moved = {0};
  pd_json json;
  TRY(pd_patch_error(pd_json_parse(list, &json, err), err));
  if (json.kind == PD_JSON_ARRAY) TRY(pd_patch_error(pd_json_unique(json, err), err));
  if (json.kind == PD_JSON_ARRAY && call_id) {
    TRY(move_to_scope(run, json, call_id, &moved, err));
    TRY(pd_json_parse(pd_buf_bytes(&moved), &json, err));
  }
  TRY(pd_json_canonical(json, out_text, err));
  TRY(pd_json_parse(pd_buf_bytes(out_text), &json, err));
  return pd_patch_error(pd_patches_parse(json, out, err), err);
}

pd_code pd_run_add_patches(pd_run_context *run, pd_bytes list, pd_patch_rights rights, const char *call_id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_patches_free_at) pd_patches *patches = NULL;
  TRY(pd_run_read_patches(run, list, NULL, &text, &patches, err));
  if (rights != PD_PATCH_INTERNAL) TRY(pd_run_check_room(run, text.size, pd_patches_count(patches), err));
  TRY(pd_run_need_part(run, patches, NULL, err));
  size_t mark = pd_doc_mark(run->doc);
  pd_code code = pd_run_try(run, patches, rights, call_id, run->is_part ? NULL : err);
  if (code && run->is_part) {
    TRY(pd_run_need_doc(run, err));
    mark = pd_doc_mark(run->doc);
    code = pd_run_try(run, patches, rights, call_id, err);
  }
  TRY(code);
  code = pd_run_items_add_list(&run->patches, pd_buf_bytes(&text), pd_patches_count(patches), err);
  if (code)
    pd_doc_undo(run->doc, mark);
  else
    pd_doc_keep(run->doc);
  return code;
}

void pd_patch_open(pd_json_writer *w, const char *op, const char *const *names, size_t count)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "op", op);
  pd_json_key(w, "path");
  pd_json_open(w, '[');
  for (size_t i = 0; i < count; i++) pd_json_text(w, pd_text(names[i]));
  pd_json_close(w, ']');
}
