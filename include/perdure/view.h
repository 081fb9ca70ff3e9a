/*
 * view.h: the tree of one commit, to be read as often as you like. Part of perdure.h.
 *
 *     pd_view *view;
 *     pd_view_open(store, "main", &view, &err);
 *     pd_view_get(view, pd_text("plan"), &plan, NULL, &err);
 *     pd_view_scan(view, &(pd_scan){.prefix = pd_text("task/")}, &iter, &err);
 *     …                       both are of the same moment, whatever is committed meanwhile
 *     pd_view_close(view);
 *
 * Taking a view and reading through it never keeps a commit waiting, and does not wait for one that is on its way to the disk. A view
 * sees what every reader sees: what is durable, and of a buffered store what this handle was acknowledged. Only the past of a buffered
 * store that is not in its log yet is appended first.
 *
 * A view does not keep its commit: what gc or an erasure takes is PD_RETIRED or PD_ERASED from the moment that the handle knows of it (one
 * of another process becomes known with the next read of a ref). To keep a commit, pin or tag it.
 *
 * Any number of threads may use one view at once. Close views and their iterators before their store.
 */
#ifndef PERDURE_VIEW_H
#define PERDURE_VIEW_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pd_view pd_view;

/* The tree at `at`, as of now: a ref that moves on is not followed. PD_NOT_FOUND, PD_RETIRED. */
PD_API PD_MUST_USE pd_code pd_view_open(pd_store *store, const char *at, pd_view **out, pd_error *err);
/* The tree of a commit that this store has named before, in an acknowledgement or a ref for instance: nothing is looked up. */
PD_API PD_MUST_USE pd_code pd_view_open_commit(pd_store *store, const pd_commit *commit, pd_view **out, pd_error *err);
/* The tree of the commit that record `seq` made, as pd_entry has it. PD_NOT_FOUND if there is no such record, or it made none. */
PD_API PD_MUST_USE pd_code pd_view_open_record(pd_store *store, uint64_t seq, pd_view **out, pd_error *err);
/* Which commit it is. */
PD_API pd_commit pd_view_commit(const pd_view *view);
/* As pd_get. */
PD_API PD_MUST_USE pd_code pd_view_get(pd_view *view, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* As pd_iter_open; the iterator may outlive the view. */
PD_API PD_MUST_USE pd_code pd_view_scan(pd_view *view, const pd_scan *scan, pd_iter **out, pd_error *err);
/* Takes NULL. */
PD_API void pd_view_close(pd_view *view);

/* What an invocation began on, without its own edits: valid as long as the invocation, and not to be closed. In pd_update its commit may be
 * staged still. */
PD_API pd_view *pd_edit_view(pd_edit *edit);

#ifdef __cplusplus
}
#endif

#endif
