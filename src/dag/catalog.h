/*
 * catalog.h: what a keyframe keeps in the bag beside the trees: the refs as they stood, the list of earlier keyframes, and the
 * commits since the one before, sorted by id (a run), so that a commit id finds its record without reading the log.
 * Byte tables: docs/formats.md.
 */
#ifndef PD_DAG_CATALOG_H
#define PD_DAG_CATALOG_H

#include "dag/cursor.h"

#define PD_CATALOG_COUNT_MAX 10000000

typedef struct pd_catalog_ref {
  char name[PD_REF_SIZE_MAX + 1];
  bool is_deleted;
  pd_commit commit;
  pd_id root_blob;   /* the blob of the tree's root; zero if deleted */
  uint64_t last_seq; /* the last record that moved it */
  uint64_t redo_seq; /* the commit that redo leads to; 0: none */
  int64_t updated_ms;
} pd_catalog_ref;

/* A keyframe as its successors know it. */
typedef struct pd_catalog_frame {
  uint64_t seq;    /* its record */
  uint64_t covers; /* the last record it stands for */
  pd_id catalog;
  pd_id run;
} pd_catalog_frame;

typedef struct pd_catalog {
  uint64_t covers;
  pd_id audit; /* of record `covers` */
  int64_t time_ms;
  pd_id run; /* commits after the frame before, up to `covers` */
  char current[PD_REF_SIZE_MAX + 1];
  pd_catalog_ref *refs;
  size_t ref_count;
  pd_catalog_frame *frames; /* earlier ones, oldest first */
  size_t frame_count;
} pd_catalog;

PD_MUST_USE pd_code pd_catalog_encode(const pd_catalog *catalog, pd_buf *out, pd_error *err);
/* Allocates refs and frames: pd_catalog_done, also on failure. */
PD_MUST_USE pd_code pd_catalog_decode(pd_bytes bytes, pd_catalog *out, pd_error *err);
void pd_catalog_done(pd_catalog *catalog);

/* ---- runs ---- */

typedef struct pd_run_entry {
  uint32_t prefix; /* the first 4 bytes of the commit id, as a big-endian number */
  uint64_t seq;
} pd_run_entry;

uint32_t pd_id_prefix(const pd_id *id);
/* Sorts `entries` and appends the run. */
PD_MUST_USE pd_code pd_run_encode(pd_run_entry *entries, size_t count, uint64_t base_seq, pd_buf *out, pd_error *err);
/* Check a run's shape. */
PD_MUST_USE pd_code pd_run_check(pd_bytes run, pd_error *err);
size_t pd_run_count(pd_bytes run);
pd_run_entry pd_run_at(pd_bytes run, size_t index);
/* The first index whose prefix is >= `prefix`. */
size_t pd_run_find(pd_bytes run, uint32_t prefix);

/* Zeros: the ref was listed though its tree could not be had. */
static inline bool pd_catalog_has_root(const pd_catalog_ref *ref)
{
  static const pd_id none;
  return !pd_id_equal(&ref->root_blob, &none);
}

#endif
