/*
 * bundle.h: the inside of bundles. Private to src/engine; the byte tables are in docs/formats.md.
 *
 *   D1  A bundle ends with the SHA-256 of everything before it. Nothing is parsed before that was compared, so what the parsers meet
 *       later is either whole or made on purpose; they still check every bound.
 *   D2  Memory is bounded by what one commit holds inline: blocks are at most PD_BUNDLE_BLOCK_MAX bytes when unpacked, whatever they
 *       claim, and large values go from the file to the bag piece by piece.
 *   D3  Before anything is appended, every commit id follows from its tree and parents, and every tree from the changes.
 *   D4  Imported commits are appended under hidden refs; the visible refs move in one append at the end. Whatever happens before
 *       that, the refs are as they were, and importing again skips what is there.
 *   D7  Each line of commits that an import appends has a hidden ref of its own, which gc keeps whole; they are deleted in the append that
 *       moves the visible refs. So gc may run at any moment, in any process. If it takes something that the import found and did not
 *       append, staging refuses (retired.h G9), and the import begins again: with its lines, so that each time less is missing.
 *   D5  Versions are not in the bundle, but for grafts (bundle_out.h D6): they follow from the changes, one record of the source for one
 *       of the target.
 */
#ifndef PD_ENGINE_BUNDLE_H
#define PD_ENGINE_BUNDLE_H

#include "base/map64.h"
#include "base/sha256.h"
#include "engine/store.h"

#include <zstd.h>

#define PD_BUNDLE_FORMAT 3 /* the newest that is read: commits may be numbered */
#define PD_BUNDLE_FORMAT_GRAFTS 2
#define PD_BUNDLE_FORMAT_WHOLE 1 /* without grafts */
#define PD_BUNDLE_BLOCK_MAX ((size_t)1 << 20)
#define PD_BUNDLE_HEAD_MAX ((size_t)64 << 20)
#define PD_BUNDLE_REF_MAX 100000
#define PD_BUNDLE_BASE_MAX 1000000
#define PD_BUNDLE_META_MAX 1000000
#define PD_BUNDLE_META_SIZE_MAX PD_CHUNKED_SIZE_MIN /* of one; settings are the largest */
#define PD_BUNDLE_PIECE_MAX ((uint64_t)1 << 32)
#define PD_BUNDLE_COMMIT_MAX PD_RECORD_SIZE_MAX /* values of one commit together, but for those in pieces that are not kept (D2) */

/* What an item of the stream begins with. */
#define PD_BUNDLE_END 0
#define PD_BUNDLE_COMMIT 1
#define PD_BUNDLE_META 2
#define PD_BUNDLE_GRAFT 3 /* a commit without its parents */
#define PD_BUNDLE_PART 4  /* of the tree of the graft that follows */

/* Flags of a change. */
#define PD_BUNDLE_DELETE 1u
#define PD_BUNDLE_ERASED 2u
#define PD_BUNDLE_LINKED 8u    /* in grafts: it follows the version that is in the tree */
#define PD_BUNDLE_NUMBERED 16u /* in commits: it says which version it was */
#define PD_BUNDLE_PIECES 4u    /* the value comes in pieces; those that came before are named, not repeated */

#define PD_BUNDLE_ON_PART 2 /* a graft or part that builds on the part before it */

typedef struct pd_bundle_ref {
  char name[PD_REF_SIZE_MAX + 1];
  pd_id commit;
  uint64_t place; /* 0: the root commit; odd: commit (n - 1) / 2 of the bundle; even: base n / 2 - 1 */
} pd_bundle_ref;

typedef struct pd_bundle_head {
  char store[PD_NAME_SIZE_MAX + 1];  /* the agent it comes from */
  char current[PD_REF_SIZE_MAX + 1]; /* the current ref there */
  int64_t made_ms;
  uint64_t tail; /* the source's last record, and its audit: what the bundle is a picture of */
  pd_id audit;
  uint64_t commit_count, meta_count;
  pd_bundle_ref *refs;
  size_t ref_count;
  pd_id *bases; /* commits that it builds on and does not bring */
  size_t base_count;
} pd_bundle_head;

void pd_bundle_head_done(pd_bundle_head *head);
PD_MUST_USE pd_code pd_bundle_head_encode(const pd_bundle_head *head, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_bundle_head_decode(pd_bytes bytes, pd_bundle_head *out, pd_error *err);

/* ---- writing (bundle_stream.c) ---- */

typedef struct pd_bundle_out {
  pd_sink sink;
  pd_hash hash;
  pd_buf raw, packed;
  ZSTD_CCtx *zstd;
  uint64_t written, raw_bytes;
} pd_bundle_out;

/* Pair with pd_bundle_out_done, also on failure. */
PD_MUST_USE pd_code pd_bundle_out_begin(pd_bundle_out *out, const pd_sink *sink, uint32_t format, pd_bytes head, pd_error *err);
PD_MUST_USE pd_code pd_bundle_add(pd_bundle_out *out, const void *data, size_t size, pd_error *err);
PD_MUST_USE pd_code pd_bundle_add_number(pd_bundle_out *out, uint64_t n, pd_error *err);
PD_MUST_USE pd_code pd_bundle_add_sized(pd_bundle_out *out, pd_bytes bytes, pd_error *err);
/* The last block and the checksum. */
PD_MUST_USE pd_code pd_bundle_out_end(pd_bundle_out *out, pd_error *err);
void pd_bundle_out_done(pd_bundle_out *out);

/* ---- reading ---- */

/* A place in the stream of items. */
typedef struct pd_bundle_place {
  uint64_t block_at; /* in the file */
  uint32_t next;     /* in the unpacked block */
} pd_bundle_place;

/* The first failure sticks in `code` and `why`, and everything after it is zeros: one look at the end of an item is enough. */
typedef struct pd_bundle_in {
  pd_source source;
  uint64_t size;              /* of the file, without the checksum */
  uint64_t first_at;          /* the first block */
  uint64_t block_at, next_at; /* this block and the one behind it */
  pd_buf packed, raw;
  size_t next;
  bool is_at_end; /* the last block was read */
  ZSTD_DCtx *zstd;
  pd_code code;
  pd_error why;
} pd_bundle_in;

/* Files as sinks and sources: the context is the file descriptor's address. PD_INVALID for a source that is no regular file. */
pd_sink pd_bundle_file_sink(int *fd);
PD_MUST_USE pd_code pd_bundle_file_source(int *fd, pd_source *out, pd_error *err);
/* D1: compare the checksum, read the header. Pair with pd_bundle_in_done. */
PD_MUST_USE pd_code pd_bundle_in_open(pd_bundle_in *in, const pd_source *source, pd_bundle_head *out_head, pd_error *err);
/* Another reader of the same bundle. */
PD_MUST_USE pd_code pd_bundle_in_copy(pd_bundle_in *in, const pd_bundle_in *other, pd_error *err);
void pd_bundle_in_done(pd_bundle_in *in);
void pd_bundle_rewind(pd_bundle_in *in);
pd_bundle_place pd_bundle_tell(const pd_bundle_in *in);
void pd_bundle_seek(pd_bundle_in *in, pd_bundle_place place);
pd_code pd_bundle_fail(pd_bundle_in *in, pd_code code, const char *fmt, ...) PD_PRINTF(3, 4);
uint8_t pd_bundle_u8(pd_bundle_in *in);
uint64_t pd_bundle_number(pd_bundle_in *in, uint64_t most);
pd_id pd_bundle_id(pd_bundle_in *in);
/* The next `size` bytes: appended to `buf` and added to `hash`, each of which may be NULL. */
void pd_bundle_bytes(pd_bundle_in *in, uint64_t size, pd_buf *buf, pd_hash *hash);
/* True if nothing is left. */
bool pd_bundle_is_over(pd_bundle_in *in);

/* ---- items (bundle_item.c) ---- */

typedef struct pd_bundle_change {
  bool is_delete, is_erased;
  bool is_forgotten;       /* erased because the ledger here says so */
  bool is_linked;          /* of grafts */
  uint64_t version;        /* of grafts */
  uint64_t number;         /* of other commits; 0: not said */
  int64_t created_ms;      /* of grafts, if it is not linked and not the first version */
  size_t key_at, key_size; /* in bytes */
  size_t value_at;
  bool is_far; /* large, and not kept: pd_bundle_value reads it from here */
  pd_bundle_place place;
  uint32_t size;
  pd_id value_id;
} pd_bundle_change;

/* A commit as it comes out of the stream. A parent is 0 for the root commit, odd for one that came (n + 1) / 2 commits before, else the
 * base number n / 2 - 1. */
typedef struct pd_bundle_commit {
  uint8_t kind;   /* PD_BUNDLE_COMMIT, _GRAFT or _PART */
  uint64_t index; /* among the commits of the bundle; a part has that of its graft */
  size_t item;    /* third pass: among commits and parts */
  pd_id id, tree; /* a part has none */
  size_t parent_count;
  uint64_t parents[PD_PARENT_COUNT_MAX]; /* the first of a graft or part: what it builds on, or PD_BUNDLE_ON_PART */
  pd_id parent_ids[PD_PARENT_COUNT_MAX]; /* of a graft; of a part, the commit that it stands for */
  int64_t made_ms;
  size_t author_at, run_at, reason_at, origin_size; /* origin, author, run, reason in texts, each with a NUL */
  pd_buf texts, bytes;
  pd_bundle_change *changes;
  size_t count, capacity;
  uint64_t kept_bytes; /* of values */
} pd_bundle_commit;

void pd_bundle_commit_done(pd_bundle_commit *commit);

typedef enum pd_bundle_depth {
  PD_BUNDLE_SKIP, /* values are passed over; pieces are written down */
  PD_BUNDLE_HASH, /* value ids are computed */
  PD_BUNDLE_KEEP  /* and the bytes are kept */
} pd_bundle_depth;

/* Reads items one after the other. */
typedef struct pd_bundle_reader {
  pd_bundle_in in, aside; /* aside: for pieces that came before */
  pd_bundle_in far;       /* for values that are read once more */
  pd_bundle_depth depth;
  uint64_t value_size_max;
  uint64_t commit_index;
  struct pd_bundle_piece {
    pd_bundle_place place;
    uint64_t size;
  } * pieces;
  size_t piece_count, piece_capacity;
  size_t piece_next; /* after the first pass: which one comes next */
  bool is_in_graft;  /* a part came, its graft is to follow */
  uint64_t changes, value_bytes;
} pd_bundle_reader;

PD_MUST_USE pd_code pd_bundle_reader_open(pd_bundle_reader *r, const pd_source *source, pd_bundle_head *out_head, pd_error *err);
void pd_bundle_reader_done(pd_bundle_reader *r);
/* From the beginning, in another depth. The first pass must be PD_BUNDLE_SKIP. */
void pd_bundle_again(pd_bundle_reader *r, pd_bundle_depth depth);
/* The kind of the next item. */
PD_MUST_USE pd_code pd_bundle_next(pd_bundle_reader *r, uint8_t *out_kind, pd_error *err);
/* A commit, graft or part. `out` is overwritten, its memory used again. */
PD_MUST_USE pd_code pd_bundle_read_commit(pd_bundle_reader *r, uint8_t kind, pd_bundle_commit *out, pd_error *err);
/* The bytes of a value that was not kept, some at a time (D2). */
typedef pd_code (*pd_bundle_visit)(void *ctx, pd_bytes some, pd_error *err);
PD_MUST_USE pd_code pd_bundle_value(pd_bundle_reader *r, const pd_bundle_change *ch, pd_bundle_visit visit, void *ctx, pd_error *err);
PD_MUST_USE pd_code pd_bundle_read_meta(pd_bundle_reader *r, pd_buf *out_key, pd_buf *out_value, pd_error *err);
/* Does this entry of PD_META_REF travel? What belongs to a home alone stays: where it pushes to, and anything that counts records. */
bool pd_bundle_is_portable(pd_bytes key);
/* After PD_BUNDLE_END: the counts must be right, and nothing may follow. */
PD_MUST_USE pd_code pd_bundle_read_end(pd_bundle_reader *r, pd_error *err);

/* ---- import in three passes ---- */

/* A commit of the bundle, as the first pass leaves it. */
typedef struct pd_bundle_note {
  pd_id id, tree;
  uint64_t parent;       /* the first one, coded */
  uint32_t uses;         /* as a first parent, still to come */
  bool has_more_parents; /* which are in `more` */
  bool is_graft;         /* `parent` is what it builds on, and its parents are in `gone` */
  pd_node *root;         /* second pass: while `uses` */
  uint64_t seq;          /* third pass: its record here; 0: not yet */
} pd_bundle_note;

typedef struct pd_bundle_edge {
  uint64_t child, parent; /* index; parent coded */
} pd_bundle_edge;

/* A parent of a graft: not here, or not known to be. */
typedef struct pd_bundle_gone {
  uint64_t child;
  pd_id id;
} pd_bundle_gone;

/* A line of commits that this import appended (D7). */
typedef struct pd_import_line {
  uint64_t number;
  pd_commit tip;
} pd_import_line;

typedef struct pd_import_lines {
  uint64_t owner; /* the part of their names that they share; once there is one */
  pd_import_line *list;
  size_t count, capacity;
  pd_map64 by_tip; /* the number of a tip, plus 1: which line; entries of tips that moved on are not taken out */
  int64_t beat_ms; /* when one of them was moved last, monotonic */
  uint64_t added;  /* commits that the tries so far appended */
  bool is_watching;
  uint64_t ledger_seq; /* the last record of the hidden ref whose erasures all that was written goes by */
  bool has_forgotten;  /* something on a line of an import is in the ledger by now */
} pd_import_lines;

typedef struct pd_importer {
  pd_store *s;
  pd_import_lines *lines; /* the caller's: they outlive a try */
  const pd_import_options *options;
  pd_import_report report;
  pd_bundle_reader reader;
  pd_bundle_head head;
  pd_bundle_note *notes;
  size_t note_count, note_capacity;
  pd_bundle_edge *more; /* second and further parents, by child */
  size_t more_count, more_capacity;
  pd_bundle_gone *gone; /* by child */
  size_t gone_count, gone_capacity;
  pd_node *part_root;    /* second pass: the tree of the last part */
  pd_commit *bases;      /* of the target */
  pd_import_fate *fates; /* of each ref */
  uint64_t *seqs;        /* third pass: of each item, the record if it is on a line of an import; else 0 */
  size_t item_count, item_capacity;
  pd_buf meta;  /* varint key size, key, varint value size, value… */
  bool is_late; /* the refs were not moved, because something was erased meanwhile */
  unsigned phase;
} pd_importer;

/* The commit that a coded parent of commit `child` names. Its seq is 0 before the third pass, but for bases. */
pd_commit pd_import_parent(const pd_importer *im, uint64_t child, uint64_t coded);
PD_MUST_USE pd_code pd_import_tick(pd_importer *im, pd_error *err);
/* After the first pass: the next commit, graft or part. */
PD_MUST_USE pd_code pd_import_read(pd_importer *im, pd_bundle_commit *out, pd_error *err);
/* erase_ledger.c: changes whose values were erased here since become erased ones. Takes the lock. */
PD_MUST_USE pd_code pd_import_forget(pd_importer *im, pd_bundle_commit *commit, pd_error *err);
/* erase_late.c. Before the third pass: from now on erasures are watched for. Takes the lock. */
PD_MUST_USE pd_code pd_import_watch_ledger(pd_importer *im, pd_error *err);
/* With the lock and nothing staged: may the ledger cover more than it did when the commits were read? */
PD_MUST_USE pd_code pd_import_is_late(pd_importer *im, bool *out, pd_error *err);
/* One more commit or part was read… */
PD_MUST_USE pd_code pd_import_item_add(pd_importer *im, pd_bundle_commit *commit, pd_error *err);
/* …and record `seq` is the same. Takes the lock. */
PD_MUST_USE pd_code pd_import_item_found(pd_importer *im, const pd_bundle_commit *commit, uint64_t seq, pd_error *err);
/* Take out of the records what the ledger covers by now. Takes the lock. */
PD_MUST_USE pd_code pd_import_forget_late(pd_importer *im, pd_error *err);
/* bundle_check.c: first and second pass. */
PD_MUST_USE pd_code pd_import_check(pd_importer *im, pd_error *err);
/* bundle_apply.c: third pass. */
PD_MUST_USE pd_code pd_import_apply(pd_importer *im, pd_error *err);
/* bundle_lines.c */
void pd_import_lines_done(pd_import_lines *lines);
void pd_import_line_name(const pd_import_lines *lines, const pd_import_line *line, char out[PD_REF_SIZE_MAX + 1]);
/* With the lock and nothing staged: the line that ends with `base`; if there is none, a new one is staged. PD_RETIRED if others deleted
 * it. */
PD_MUST_USE pd_code pd_import_line_stage(pd_store *s, pd_import_lines *lines, const pd_commit *base, pd_import_line *out, pd_error *err);
/* What was staged is in the log: the line now ends with `tip`. */
PD_MUST_USE pd_code pd_import_line_appended(pd_import_lines *lines, const pd_import_line *line, const pd_commit *tip, pd_error *err);
/* Before another try: forget lines that others deleted. Takes the lock. */
void pd_import_lines_check(pd_store *s, pd_import_lines *lines);
/* Show that the import is at work, if nothing has for a while. Takes the lock. */
PD_MUST_USE pd_code pd_import_beat(pd_store *s, pd_import_lines *lines, pd_error *err);
/* With the lock: stage the deletion of all lines. */
PD_MUST_USE pd_code pd_import_lines_end(pd_store *s, const pd_import_lines *lines, pd_error *err);
/* With the lock: stage the deletion of what imports left that did not end. */
PD_MUST_USE pd_code pd_import_stage_clean(pd_store *s, pd_error *err);
/* bundle_refs.c: is `id` `from` or one of its ancestors? With the lock held. */
PD_MUST_USE pd_code pd_is_ancestor(pd_store *s, const pd_id *id, uint64_t from, bool *out, pd_error *err);
/* bundle_refs.c: may the refs move? Before the third pass, without changing anything. */
PD_MUST_USE pd_code pd_import_plan_refs(pd_importer *im, pd_error *err);
/* bundle_refs.c: after it: move them, and merge what the store knows besides. */
PD_MUST_USE pd_code pd_import_move_refs(pd_importer *im, pd_error *err);
/* The record of `id` here; any if there are several. *out_found says whether there is one. */
PD_MUST_USE pd_code pd_import_find(pd_store *s, const pd_id *id, pd_commit *out, bool *out_found, pd_error *err);

#endif
