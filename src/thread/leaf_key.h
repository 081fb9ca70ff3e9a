/* leaf_key.h: one step of a leaf's key; between leaf_key.c and leaf.c. */
#ifndef PD_THREAD_LEAF_KEY_H
#define PD_THREAD_LEAF_KEY_H

#include "base/doc.h"

/* Append a slash and the segment of `step`. *out_is_whole: its name is so long that what is there is kept whole,
 * under the name's hash. */
PD_MUST_USE pd_code pd_stateleaf_key_step(const pd_doc_step *step, pd_buf *key, bool *out_is_whole, pd_error *err);
/* Is the last segment of a key the hash of a name? */
bool pd_stateleaf_is_hashed(pd_bytes key);

#endif
