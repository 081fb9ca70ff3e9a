/*
 * chunk.h: large values in pieces. Where a piece ends is decided by the bytes around that place alone, so that an edit changes the
 * pieces it touches and no others, wherever they then lie.
 *
 *   C1  The cut depends on nothing but the bytes since the last cut: a rolling hash (gear) over the last 64 of them, tested from
 *       PD_CHUNK_SIZE_MIN on, against 16 bits up to PD_CHUNK_SIZE_NORMAL and 12 bits after it, and PD_CHUNK_SIZE_MAX at the latest.
 *       The mean is about 16 KiB. These numbers and the table are part of the format: they never change.
 *   C2  Pieces are blobs by their own SHA-256. A *group* lists a run of them, and ends with a piece whose id says so
 *       (PD_GROUP_COUNT_*); a *list* lists the groups of one value. A small edit makes one new group and one new list.
 *   C3  The same bytes give the same pieces, groups and list, whatever was stored before.
 *
 * Byte tables: docs/formats.md. Pure: no I/O, no clock.
 */
#ifndef PD_DAG_CHUNK_H
#define PD_DAG_CHUNK_H

#include "dag/cursor.h"

#define PD_CHUNK_SIZE_MIN ((size_t)4 << 10)
#define PD_CHUNK_SIZE_NORMAL ((size_t)13 << 10)
#define PD_CHUNK_SIZE_MAX ((size_t)64 << 10)
#define PD_GROUP_COUNT_MIN 16
#define PD_GROUP_COUNT_MAX 256
#define PD_GROUP_MASK 63u                    /* of the id's last byte: a group has about 16 + 64 pieces */
#define PD_CHUNKED_SIZE_MAX (UINT32_MAX - 1) /* of a value: records hold 32 bits, and the largest says "none" */

typedef struct pd_gear {
  uint64_t table[256];
} pd_gear;

void pd_gear_init(pd_gear *gear);
/* C1: the size of the first piece of `data`, which has PD_CHUNK_SIZE_MAX bytes or all that is left of the value. 0 only for none. */
size_t pd_chunk_cut(const pd_gear *gear, pd_bytes data);

/* One piece. */
typedef struct pd_chunk {
  pd_id id;
  uint32_t size;
} pd_chunk;

/* C2: does a group of `count` pieces end with this one? */
bool pd_group_ends(const pd_id *id, size_t count);

/* One group, as the list names it. */
typedef struct pd_group {
  pd_id id;       /* of its blob */
  uint32_t count; /* of pieces */
  uint32_t size;  /* of all of them, bytes */
} pd_group;

PD_MUST_USE pd_code pd_group_encode(const pd_chunk *chunks, size_t count, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_list_encode(const pd_group *groups, size_t count, pd_buf *out, pd_error *err);

/* A decoded blob to be walked: everything was checked when it was opened. */
typedef struct pd_list_walk {
  pd_cursor c;
  size_t count;  /* of entries left */
  uint64_t size; /* of all entries, bytes */
} pd_list_walk;

/* PD_CORRUPT if the blob is no well-formed group, or not the one that `expect` (may be NULL) names. */
PD_MUST_USE pd_code pd_group_open(pd_bytes blob, const pd_group *expect, pd_list_walk *out, pd_error *err);
/* False at the end. */
bool pd_group_next(pd_list_walk *walk, pd_chunk *out);
/* PD_CORRUPT if the blob is no well-formed list. */
PD_MUST_USE pd_code pd_list_open(pd_bytes blob, pd_list_walk *out, pd_error *err);
bool pd_list_next(pd_list_walk *walk, pd_group *out);

#endif
