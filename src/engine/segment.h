/*
 * segment.h: the records between two keyframes, in memory and indexed by key: how the past is read without building trees.
 *
 * A key's value at a commit is what the last of the commit's ancestors (along first parents) in the same segment did to it, and
 * if none touched it, what the keyframe before the segment says. Ancestry inside a segment is a matter of lineages: a record
 * whose parent is the newest of a lineage continues it; any other begins one, and remembers where it left its parent's.
 */
#ifndef PD_ENGINE_SEGMENT_H
#define PD_ENGINE_SEGMENT_H

#include "engine/store.h"

typedef struct pd_seg_record {
  uint64_t parent_seq; /* commits: the first parent, which may be PD_SEQ_GONE */
  size_t at;           /* in `data` */
  uint32_t size;
  uint32_t lineage; /* commits */
  uint8_t kind;
} pd_seg_record;

typedef struct pd_seg_change {
  uint64_t hash; /* of the key */
  size_t at;     /* of the change in `data` */
  uint32_t record;
  uint32_t older; /* change of the same hash before it, plus 1; 0: none */
} pd_seg_change;

typedef struct pd_lineage {
  uint32_t parent;      /* plus 1; 0: it begins outside the segment */
  uint32_t leaves_at;   /* the record of the parent lineage that it continues */
  uint32_t newest;      /* its last record */
  uint64_t outside_seq; /* parent == 0: the commit before the segment that it continues */
} pd_lineage;

typedef struct pd_segment {
  uint64_t base;      /* records up to here are before it: a keyframe's `covers`, or 0 */
  uint64_t last;      /* the last record it holds */
  pd_catalog catalog; /* of the keyframe at `base` */
  pd_node **roots;    /* of catalog.refs; NULL: not loaded */
  pd_buf data;
  pd_seg_record *records;
  size_t record_count, record_capacity;
  pd_seg_change *changes;
  size_t change_count, change_capacity;
  uint32_t *buckets; /* by hash: newest change, plus 1 */
  size_t bucket_count;
  pd_lineage *lineages;
  size_t lineage_count, lineage_capacity;
  size_t bytes; /* accounted */
  uint64_t used;
} pd_segment;

/* The segment that holds record `seq`, loaded up to it at least. Borrowed until the next call of this room. */
PD_MUST_USE pd_code pd_segment_of(pd_store *s, uint64_t seq, pd_segment **out, pd_error *err);
/* For readers, before pd_segment_of: load it without the lock, and append it first if it is buffered. As after pd_store_yield, whatever
 * was borrowed or looked up may be another; the segment may be gone, too, which is only slow. PD_OK for a record that is retired: whoever
 * reads it says so. */
PD_MUST_USE pd_code pd_segment_bring(pd_store *s, uint64_t seq, pd_error *err);
/* pd_segment_of if it is in memory already, else NULL. */
pd_segment *pd_segment_loaded(pd_store *s, uint64_t seq);
PD_MUST_USE pd_code pd_segment_record(const pd_segment *seg, uint64_t seq, pd_rec *out, pd_error *err);

/* What the ancestors of `seq` in this segment did last to `key`: *out_rec and *out_change, or *out_found false and
 * *out_outside the commit before the segment to go on from. */
PD_MUST_USE pd_code pd_segment_find(const pd_segment *seg, uint64_t seq, pd_bytes key, bool *out_found, pd_rec *out_rec,
                                    pd_rec_change *out_change, uint64_t *out_outside, pd_error *err);

/* When the key that record `seq` changed was created, along the versions in this segment; or *out_known false and *out_outside the
 * commit before the segment that knows. */
PD_MUST_USE pd_code pd_segment_created(const pd_segment *seg, uint64_t seq, pd_bytes key, bool *out_known, int64_t *out_ms,
                                       uint64_t *out_outside, pd_error *err);

/* The tree of a commit that was a head at the segment's keyframe, borrowed; *out_root NULL if it was none. */
PD_MUST_USE pd_code pd_segment_base_root(pd_store *s, pd_segment *seg, uint64_t seq, pd_node **out_root, pd_error *err);

/* Free segments, least recently used first, until they take at most `bytes_max`. */
void pd_segments_trim(pd_store *s, size_t bytes_max);

#endif
