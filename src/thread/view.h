/*
 * view.h: a tree that is read more than once, and is the same each time: at a point in history, or as an invocation found it.
 *
 * At a head the tree in memory is used, where pd_get by number would load the records since the last keyframe. In the past that is just
 * what saves building a tree.
 */
#ifndef PD_THREAD_VIEW_H
#define PD_THREAD_VIEW_H

#include <perdure/perdure.h>

typedef struct pd_old_view {
  pd_store *store;
  const char *at;
  bool is_past;  /* `at` is no head: single keys are found without building its tree */
  pd_edit *edit; /* instead of `at`: what it sees, as long as nothing is staged */
} pd_old_view;

/* As pd_get; the entry's key is the argument. */
PD_MUST_USE pd_code pd_old_view_get(const pd_old_view *view, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* As pd_iter_open. */
PD_MUST_USE pd_code pd_old_view_scan(const pd_old_view *view, const pd_scan *scan, pd_iter **out, pd_error *err);

#endif
