/* leaf_key.h: one step of a leaf's key; between leaf_key.c and leaf.c. */
#ifndef PD_THREAD_LEAF_KEY_H
#define PD_THREAD_LEAF_KEY_H

#include "base/doc.h"

/* Append a slash and the segment of `step`. *out_is_whole: its name is so long that what is there is kept whole. */
PD_MUST_USE pd_code pd_stateleaf_key_step(const pd_doc_step *step, pd_buf *key, bool *out_is_whole, pd_error *err);

#endif
