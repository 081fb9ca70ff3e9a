/* iter.h: iterators over a tree that is given. Private to src/engine. */
#ifndef PD_ENGINE_ITER_H
#define PD_ENGINE_ITER_H

#include "engine/store.h"

/* With the lock held. Takes its own references. */
PD_MUST_USE pd_code pd_iter_over(pd_store *s, pd_node *root, const pd_scan *scan, pd_iter **out, pd_error *err);

#endif
