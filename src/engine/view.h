/* view.h: the inside of a view, which an invocation has as its base. Private to src/engine. */
#ifndef PD_ENGINE_VIEW_H
#define PD_ENGINE_VIEW_H

#include "engine/store.h"

#include <perdure/view.h>

/* The root is there if it was in memory when the view was opened, and from the first scan on; until then single keys are looked up in the
 * segments, which saves building the tree. */
struct pd_view {
  pd_store *store;
  pd_commit commit;
  pd_node *root;      /* with a reference, or NULL */
  pd_ref_slot *slot;  /* whose head it was, and gets the tree if that has to be built; NULL: none */
  uint64_t forgotten; /* of the store, when the root was taken: after a gc or an erasure it is asked for again */
  bool is_base;       /* of an invocation: its commit may be staged, so the root is all there is */
};

/* With the lock held. */
void pd_view_done(pd_view *view);

#endif
