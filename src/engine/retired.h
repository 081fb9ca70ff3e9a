/*
 * retired.h: what of the log was retired, as readers see it. Private to src/engine.
 *
 *   G1  Records from `cut` on are whole. Of those before, only points can be read: commits whose tree is in the bag and whose own
 *       record is whole. Everything that records from the cut on name (parents, targets) is a point.
 *   G2  What is retired is decided by the record on PD_META_REF that says so, never by which bytes are left: they go later.
 *   G3  A process that meets such a record of another forgets everything it derived (trees, segments, catalogs) and begins again at the
 *       last keyframe: whatever it had put into the bag without a record that names it may be swept.
 *   G9  No record that is staged behind R names a commit that R retired: not as the target of a move, not as a merged parent, not in a
 *       mark. R's own plan looks at what is in the log or staged before it (gc.c); from the moment that it is published, or met in the
 *       log, the handle's knowledge is stale, and pd_stage reads it again before it lets such a record pass.
 *   G7  A ref that is deleted is forgotten once its last record is before the cut: keyframes from then on leave its name out, the catalog
 *       of a cut does if it was before the cut that was before. Nothing but its records needs the name. Of a name that is not known,
 *       nothing can be said about the time before the cut.
 */
#ifndef PD_ENGINE_RETIRED_H
#define PD_ENGINE_RETIRED_H

#include "engine/store.h"

#define PD_RETENTION_KIND "retention"
#define PD_RETENTION_NAME "state"
#define PD_RETENTION_KEY PD_RETENTION_KIND "/" PD_RETENTION_NAME

#define PD_ERASED_KIND "erased" /* erased/<value id>: {"at_ms":…,"by":…,"key":…} */

/* erasing/<number>/<part>: records whose value of a key is to go (erase.h X1). */
#define PD_ERASING_KIND "erasing"

/* Know what is retired: reads it from PD_META_REF if that has moved. Call before looking at anything before the cut. */
PD_MUST_USE pd_code pd_retention_ready(pd_store *s, pd_error *err);
/* A commit that retention removed? */
bool pd_is_retired(const pd_store *s, uint64_t seq);
/* Has gc left nothing of a ref (G7)? */
static inline bool pd_is_forgotten(const pd_head *head, uint64_t cut)
{
  return head->is_deleted && head->last_seq < cut;
}
const pd_point *pd_point_at(const pd_store *s, uint64_t seq);
/* PD_RETIRED, saying when and by whom. */
pd_code pd_retired_error(const pd_store *s, uint64_t seq, pd_error *err);
/* Something of the bag is missing: PD_RETIRED if gc may have taken it from under this handle, else PD_CORRUPT. */
pd_code pd_missing_error(pd_store *s, const char *what, const pd_id *id, pd_error *err);
/* PD_ERASED, saying when and by whom. */
pd_code pd_erased_error(pd_store *s, pd_bytes key, const pd_id *value_id, pd_error *err);
/* Does a record of another process end what we know (G3)? */
bool pd_is_retention_record(const pd_rec *rec);
/* Does it erase lazily: what was read of the past may be gone? */
bool pd_is_erasure_record(const pd_rec *rec);
/* Does it change when gc runs by itself? */
bool pd_is_ledger_record(const pd_rec *rec);
bool pd_is_gc_setting_record(const pd_rec *rec);
/* Forget trees and segments of the past. */
void pd_past_forget(pd_store *s);
/* Its own process wrote a new state: read it again. */
void pd_retention_changed(pd_store *s);
void pd_retention_done(pd_store *s);

#endif
