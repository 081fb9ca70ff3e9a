/*
 * scope.h: the inside of the registry of scopes. The manual is <perdure/run.h>.
 *
 * S1  Paths that overlap have the same scope, but a Run path may lie inside a Thread path. So deleting the Run-scoped ones deletes nothing
 *     that is anybody else's.
 */
#ifndef PD_THREAD_SCOPE_H
#define PD_THREAD_SCOPE_H

#include "base/doc.h"

#include <perdure/run.h>

#define PD_SCOPE_RUN_NAME "__run"
#define PD_SCOPE_CALLS_NAME "__tool_call_scope"
#define PD_SCOPE_CALL_STATE_NAME "tool_call_state"

#define PD_SCOPES_BUILT_IN 2 /* so many entries every registry has, and they are its first */

typedef struct pd_scope_entry {
  pd_doc_path path;
  pd_scope scope;
} pd_scope_entry;

struct pd_scopes {
  pd_scope_entry *entries;
  size_t count, capacity;
};

/* A JSON Pointer, or names with dots between. */
PD_MUST_USE pd_code pd_scope_path(const char *text, pd_doc_path *out, pd_error *err);
/* The deepest entry that covers the path; Thread if there is none. */
pd_scope pd_scopes_of(const pd_scopes *scopes, const pd_doc_path *path);
/* Is one of them inside the other, or the same? */
bool pd_paths_overlap(const pd_doc_path *a, const pd_doc_path *b);

#endif
