/*
 * points.h: what a store remembers of its retention, as bytes: where the log was cut, and the commits before the cut that can still be
 * read, each with the root of its tree in the bag. Byte table: docs/formats.md.
 */
#ifndef PD_DAG_POINTS_H
#define PD_DAG_POINTS_H

#include "dag/cursor.h"
#include "dag/record.h"

#define PD_POINT_COUNT_MAX 10000000

/* A commit before the cut that was kept. */
typedef struct pd_point {
  pd_commit commit;
  pd_id root_blob;
  size_t parent_count;
  uint64_t parent_seqs[PD_PARENT_COUNT_MAX]; /* PD_SEQ_GONE if it never was in this log */
  pd_id parents[PD_PARENT_COUNT_MAX];        /* their records may be gone */
} pd_point;

typedef struct pd_points {
  uint64_t cut;        /* records from here on are whole; 1: all are */
  pd_id audit;         /* of record cut - 1 */
  int64_t cut_time_ms; /* of record cut - 1 */
  pd_id catalog, run;  /* the refs as they stood after record cut - 1; zero if cut is 1 */
  int64_t retired_ms;  /* when the last gc or erasure was */
  uint64_t erasures;   /* how often something was erased */
  char by[256];        /* who ran it */
  pd_point *points;    /* ascending */
  size_t count, capacity;
} pd_points;

PD_MUST_USE pd_code pd_points_encode(const pd_points *points, pd_buf *out, pd_error *err);
/* Allocates: pd_points_done, also on failure. PD_CORRUPT for anything but what pd_points_encode makes. */
PD_MUST_USE pd_code pd_points_decode(pd_bytes bytes, pd_points *out, pd_error *err);
void pd_points_done(pd_points *points);
/* Room for one more at the end; *out is zeroed. */
PD_MUST_USE pd_code pd_points_add(pd_points *points, pd_point **out, pd_error *err);
/* Who: shortened if it is long, never inside a character. */
void pd_points_set_by(pd_points *points, const char *by);
/* NULL if there is none at `seq`. */
const pd_point *pd_points_find(const pd_points *points, uint64_t seq);
/* The newest point at or before `seq`, or NULL. */
const pd_point *pd_points_before(const pd_points *points, uint64_t seq);

#endif
