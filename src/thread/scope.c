/* scope.c: the registry of scopes. Invariant S1 is in scope.h. */
#include "thread/scope.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

/* ---- paths ---- */

pd_code pd_scope_path(const char *text, pd_doc_path *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pointer = {0};
  if (!*text || *text == '/') return pd_doc_path_pointer(pd_text(text), out, err);
  TRY(pd_buf_byte(&pointer, '/', err));
  for (const char *c = text; *c; c++) {
    const char *as = *c == '.' ? "/" : *c == '~' ? "~0" : *c == '/' ? "~1" : NULL;
    TRY(pd_buf_append(&pointer, as ? as : c, as ? strlen(as) : 1, err));
  }
  return pd_doc_path_pointer(pd_buf_bytes(&pointer), out, err);
}

bool pd_paths_overlap(const pd_doc_path *a, const pd_doc_path *b)
{
  return pd_doc_path_covers(a, b) || pd_doc_path_covers(b, a);
}

/* ---- the registry ---- */

pd_code pd_scopes_new(pd_scopes **out, pd_error *err)
{
  pd_scopes *scopes = calloc(1, sizeof *scopes);
  if (!scopes) return pd_error_memory(err, "a registry of scopes");
  pd_code code = pd_scopes_add(scopes, "/" PD_SCOPE_RUN_NAME, PD_SCOPE_RUN, err);
  if (!code) code = pd_scopes_add(scopes, "/__kernel/stop_policy_runtime", PD_SCOPE_RUN, err);
  if (code)
    pd_scopes_free(scopes);
  else
    *out = scopes;
  return code;
}

void pd_scopes_free(pd_scopes *scopes)
{
  if (!scopes) return;
  for (size_t i = 0; i < scopes->count; i++) pd_doc_path_done(&scopes->entries[i].path);
  free(scopes->entries);
  free(scopes);
}

/* Is the second one of scope Run and inside the first, which is the thread's? */
static bool is_run_in_thread(pd_scope outer_scope, const pd_doc_path *outer, pd_scope inner_scope, const pd_doc_path *inner)
{
  return outer_scope == PD_SCOPE_THREAD && inner_scope == PD_SCOPE_RUN && outer->count < inner->count && pd_doc_path_covers(outer, inner);
}

static pd_code check_overlap(const pd_scope_entry *entry, const char *text, const pd_doc_path *path, pd_scope scope, pd_error *err)
{
  char other[200];
  if (entry->scope == scope || !pd_paths_overlap(&entry->path, path)) return PD_OK;
  if (is_run_in_thread(entry->scope, &entry->path, scope, path) || is_run_in_thread(scope, path, entry->scope, &entry->path)) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidScope", "'%s' cannot have the scope %s: '%s' has the scope %s", text, pd_scope_name(scope),
                        pd_doc_path_text(entry->path.steps, entry->path.count, other, sizeof other), pd_scope_name(entry->scope));
}

static pd_code check_path(const pd_scopes *scopes, const char *text, const pd_doc_path *path, pd_scope scope, pd_error *err)
{
  if (!path->count)
    return pd_error_named(err, PD_INVALID, "InvalidScope", "the whole state cannot have the scope %s", pd_scope_name(scope));
  if (pd_bytes_equal(path->steps[0].name, pd_text(PD_SCOPE_CALLS_NAME)))
    return pd_error_named(err, PD_INVALID, "InvalidScope", "'%s': what is below " PD_SCOPE_CALLS_NAME " is the tool calls' own", text);
  for (size_t i = 0; i < scopes->count; i++) TRY(check_overlap(&scopes->entries[i], text, path, scope, err));
  return PD_OK;
}

static bool is_there(const pd_scopes *scopes, const pd_doc_path *path)
{
  for (size_t i = 0; i < scopes->count; i++)
    if (pd_doc_path_compare(&scopes->entries[i].path, path) == 0) return true;
  return false;
}

static pd_code add(pd_scopes *scopes, const char *text, pd_doc_path *path, pd_scope scope, pd_error *err)
{
  TRY(check_path(scopes, text, path, scope, err));
  if (is_there(scopes, path)) return PD_OK;
  if (scopes->count >= PD_SCOPES_MAX) return pd_error_set(err, PD_LIMIT, "a registry holds at most %d scopes", PD_SCOPES_MAX);
  TRY(pd_array_grow(&scopes->entries, scopes->count, &scopes->capacity, sizeof scopes->entries[0], "scopes", err));
  scopes->entries[scopes->count++] = (pd_scope_entry){.path = *path, .scope = scope};
  *path = (pd_doc_path){0};
  return PD_OK;
}

pd_code pd_scopes_add(pd_scopes *scopes, const char *path, pd_scope scope, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path parsed = {0};
  if (!*pd_scope_name(scope)) return pd_error_set(err, PD_INVALID, "a scope is thread, run or tool_call");
  if (!path) return pd_error_set(err, PD_INVALID, "a scope needs a path");
  TRY(pd_scope_path(path, &parsed, err));
  return add(scopes, path, &parsed, scope, err);
}

pd_scope pd_scopes_of(const pd_scopes *scopes, const pd_doc_path *path)
{
  const pd_scope_entry *best = NULL;
  for (size_t i = 0; i < scopes->count; i++) {
    const pd_scope_entry *e = &scopes->entries[i];
    if (pd_doc_path_covers(&e->path, path) && (!best || e->path.count > best->path.count)) best = e;
  }
  return best ? best->scope : PD_SCOPE_THREAD;
}

pd_code pd_scopes_find(const pd_scopes *scopes, const char *path, pd_scope *out, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path parsed = {0};
  TRY(pd_scope_path(path, &parsed, err));
  bool is_calls = parsed.count && pd_bytes_equal(parsed.steps[0].name, pd_text(PD_SCOPE_CALLS_NAME));
  *out = is_calls ? PD_SCOPE_TOOL_CALL : pd_scopes_of(scopes, &parsed);
  return PD_OK;
}

pd_code pd_scopes_list(const pd_scopes *scopes, pd_scope scope, void (*visit)(void *ctx, const char *path, pd_scope scope), void *ctx,
                       pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  for (size_t i = 0; i < scopes->count; i++) {
    const pd_scope_entry *e = &scopes->entries[i];
    if (scope && e->scope != scope) continue;
    pd_buf_clear(&text);
    TRY(pd_doc_path_write(e->path.steps, e->path.count, &text, err));
    TRY(pd_buf_byte(&text, 0, err));
    visit(ctx, (const char *)text.data, e->scope);
  }
  return PD_OK;
}
