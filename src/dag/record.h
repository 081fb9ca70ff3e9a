/*
 * record.h: one record of the log as bytes.
 *
 *   R1  A record names other records by distance (its own number minus theirs), so it can be read alone.
 *   R2  Its last four bytes are a checksum of all before them: rot is found when it is read.
 *   R3  audit = SHA-256(audit of the record before || this record in normal form). In normal form each value stands as its id,
 *       whether it is inline, in the bag or erased: who, when and why stay provable after the bytes are gone.
 *   R4  A record may be redacted after it was written (pd_rec_redact): some values erased (their ids stay), some changes dropped.
 *       What is left keeps its `pos`, because leaves name values by it: in a redacted record it is a name, not a place. With
 *       nothing left a record is 0 bytes long: retired.
 *   R5  A commit whose parents are not in the log, because retention had removed them where it was exported, is grafted: it names them by
 *       id, and the record that its changes are against apart from them. Its tree is put together by parts before it, each of which
 *       stands for one commit that is gone: grafted too, without parents.
 *
 * Byte table: docs/formats.md.
 */
#ifndef PD_DAG_RECORD_H
#define PD_DAG_RECORD_H

#include "dag/commit.h"
#include "dag/cursor.h"

#define PD_RECORD_FORMAT 1
#define PD_RECORD_FORMAT_REDACTED 2
#define PD_RECORD_SIZE_MAX ((size_t)512 << 20)
#define PD_SEQ_GONE UINT64_MAX /* the number of a commit that is not in this log */

/* One change. To encode: key, is_delete, version, prev_seq, size, value or (is_in_bag and value_id). Decoded: all but value_id of
 * inline values (pd_rec_value_id). */
typedef struct pd_rec_change {
  pd_bytes key;
  bool is_delete;
  bool is_in_bag;
  bool is_chunked; /* in the bag, in pieces: list_id names the blob that lists them */
  bool is_erased;  /* redacted: only value_id and size are left */
  bool is_carried; /* the version before is not in this log: prev_seq is 0, and created_ms is set */
  uint64_t version;
  uint64_t prev_seq;  /* the record that wrote the key before; 0: it was absent, or is_carried */
  int64_t created_ms; /* is_carried */
  uint32_t size;
  uint32_t pos;   /* of the inline value in the record (R4), or PD_POS_BAG, or PD_POS_CHUNKED */
  pd_bytes value; /* inline */
  pd_id value_id;
  pd_id list_id; /* is_chunked */
} pd_rec_change;

typedef struct pd_rec {
  uint64_t seq;
  pd_record_kind kind;
  bool is_redacted;
  bool has_dropped;      /* redacted: changes are missing, so the audit cannot be computed again */
  bool is_imported;      /* made elsewhere: made_ms and origin are set */
  int64_t time_ms;       /* when it was appended here */
  int64_t made_ms;       /* when it was made */
  pd_bytes origin;       /* the store that it was made in */
  uint64_t keyframe_seq; /* the last keyframe record before this one; 0: none */
  pd_bytes ref;
  uint64_t ref_prev_seq; /* the last record that moved this ref; 0: none */
  pd_bytes author, run, reason;
  /* commit: the new commit. fork, reset, undo, redo: the one pointed at */
  pd_id commit, tree;
  uint64_t target_seq;                       /* of the commit pointed at; commits: their own number */
  uint64_t parent_seqs[PD_PARENT_COUNT_MAX]; /* commits; 0 is the root commit; PD_SEQ_GONE of grafted ones */
  size_t parent_count;
  bool is_grafted;                       /* R5 */
  uint64_t base_seq;                     /* grafted: what the changes are against */
  pd_id parent_ids[PD_PARENT_COUNT_MAX]; /* grafted. Without parents the first is the commit that it stands for */
  size_t change_count;
  pd_id catalog;   /* keyframe */
  uint64_t covers; /* keyframe: the last record it stands for */
  pd_id audit;
  pd_bytes bytes;       /* decoded: the whole record, borrowed */
  uint32_t ids_pos;     /* of commit and tree in the record */
  uint32_t changes_pos; /* of the first change */
} pd_rec;

/* Append the record to `out`, with its ids and audit left open, and set `pos` of each inline change. The record begins at the
 * buffer's size on entry. */
PD_MUST_USE pd_code pd_rec_encode(pd_rec *rec, pd_rec_change *changes, pd_buf *out, pd_error *err);
/* Room for what pd_rec_seal appends. */
PD_MUST_USE pd_code pd_rec_reserve(pd_buf *out, pd_error *err);
/* Fill in commit and tree, and append audit and checksum, for which room was reserved. `record_at` is where the record begins in
 * `out`. */
void pd_rec_seal(pd_rec *rec, const pd_rec_change *changes, const pd_id *prev_audit, pd_buf *out, size_t record_at);

/* Read a record; slices are borrowed from `bytes`. PD_CORRUPT names the number. Changes are checked here, read by pd_rec_next. */
PD_MUST_USE pd_code pd_rec_decode(uint64_t seq, pd_bytes bytes, pd_rec *out, pd_error *err);

/* The same for bytes that pd_rec_decode has accepted before: no checksum, no look at the changes. */
PD_MUST_USE pd_code pd_rec_decode_checked(uint64_t seq, pd_bytes bytes, pd_rec *out, pd_error *err);

/* When its changes were made, here or elsewhere. */
int64_t pd_rec_made_ms(const pd_rec *rec);
/* The record that the changes of a commit are against. */
uint64_t pd_rec_base(const pd_rec *rec);
/* A part of a grafted commit's tree (R5): no commit that anybody knows. */
bool pd_rec_is_part(const pd_rec *rec);
/* The commit that made its changes. */
const pd_id *pd_rec_maker(const pd_rec *rec);

typedef enum pd_redaction { PD_REDACT_KEEP = 0, PD_REDACT_ERASE, PD_REDACT_DROP } pd_redaction;
/* What happens to a change. */
typedef pd_redaction (*pd_redact_choose)(void *ctx, const pd_rec *rec, const pd_rec_change *change);
/* R4: append the record to `out` as `choose` leaves it. A commit of which nothing is left becomes 0 bytes unless `keep_empty`;
 * a record that is no commit is copied. *out_changed says whether it differs from what it was. */
PD_MUST_USE pd_code pd_rec_redact(const pd_rec *rec, pd_redact_choose choose, void *ctx, bool keep_empty, pd_buf *out, bool *out_changed,
                                  pd_error *err);
/* The inline value at `pos` of a record's bytes, redacted or not; only bounds are checked, the id is the caller's to compare.
 * PD_ERASED, or PD_CORRUPT if there is none. */
PD_MUST_USE pd_code pd_rec_value_at(uint64_t seq, pd_bytes bytes, uint32_t pos, uint32_t size, pd_bytes *out, pd_error *err);

/* Walk the changes of a decoded record: start with pd_rec_changes. */
pd_cursor pd_rec_changes(const pd_rec *rec);
void pd_rec_next(const pd_rec *rec, pd_cursor *c, pd_rec_change *out);
/* The change of `key`; PD_CORRUPT if there is none. */
PD_MUST_USE pd_code pd_rec_find(const pd_rec *rec, pd_bytes key, pd_rec_change *out, pd_error *err);
/* The id of a change's value, computed if it is inline. */
pd_id pd_rec_value_id(const pd_rec_change *change);
/* The key was absent before. */
static inline bool pd_rec_is_new(const pd_rec_change *change)
{
  return !change->is_delete && !change->prev_seq && !change->is_carried;
}

/* R3, for a decoded record. */
pd_id pd_rec_audit(const pd_rec *rec, const pd_id *prev_audit);

#endif
