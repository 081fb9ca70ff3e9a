/*
 * store.h: the inside of an open store. Private to src/engine.
 *
 * The invariants that the files of this room keep and cite:
 *
 *   E1  One lock (`lock`) guards everything in pd_store, all nodes and all counts of references. It is never held while the log
 *       is being synced. Functions of this room run with it held unless their comment says "takes the lock".
 *   E2  Each ref has two heads. `seen` is what readers get: in synced stores, only what is on stable storage. `tip` is seen plus
 *       what is staged, and what the next commit builds on. In buffered stores they are the same.
 *   E3  tip_seq = number of the last staged record; seen_seq = of the last published one; log_seq = of the last one appended.
 *       Staged records are numbered without gaps and appended in order, in batches, by one flusher at a time (`is_flushing`).
 *   E4  If a batch fails, everything staged on top of it is void: the tips go back to `seen`, and the callers stage again.
 *   E5  A head's tree may be unknown (root NULL): then it is read through segments (segment.h), or built when it is needed.
 *   E6  Bytes from the backend are checked before they are used: records by checksum and chain, nodes and values by id.
 *   E7  A refusal (a condition that does not hold, a key, a ref or room that is not there) rests on what readers see, never on what is only
 *       staged, nor on a log that others have appended to: whoever is refused can read why. The end of the log is asked for by log_tail
 *       then: the hint may lag (B5).
 */
#ifndef PD_ENGINE_STORE_H
#define PD_ENGINE_STORE_H

#include "dag/catalog.h"
#include "dag/chunk.h"
#include "dag/points.h"
#include "dag/record.h"
#include "dag/tree.h"

#include <perdure/backend.h>
#include <pthread.h>
#include <semaphore.h>

#define PD_INLINE_SIZE_MAX ((size_t)16 << 10) /* larger values are blobs in the bag */
#define PD_CELL_SIZE_MAX ((size_t)64 << 10)   /* larger values are not kept in memory */
#define PD_TURN_COUNT 16
#define PD_JUMP_MS ((int64_t)24 * 3600 * 1000) /* a clock that differs by more was wrong, or time has passed: commit.c, pd_time_next */
#define PD_PENDING_SIZE_MAX ((size_t)8 << 20)  /* a buffered store flushes by itself beyond this */

/* Where a ref points, and the tree there if it is in memory. */
typedef struct pd_head {
  pd_commit commit;
  pd_node *root;   /* owned; NULL: not in memory */
  pd_id root_blob; /* if has_blob: the root can be loaded by this */
  bool has_blob;
  bool is_deleted;
  bool has_bytes;    /* `bytes` is known */
  uint64_t bytes;    /* of the values of the tree, together */
  uint64_t last_seq; /* the last record that moved the ref */
  uint64_t redo_seq; /* the commit that redo leads to; 0: none */
  int64_t updated_ms;
} pd_head;

typedef struct pd_ref_slot {
  char name[PD_REF_SIZE_MAX + 1];
  pd_head seen, tip;
  bool is_plain;  /* version.c, VN2 */
  uint64_t floor; /* …the highest version of a key that was deleted here */
} pd_ref_slot;

/*
 * A caller that waits for its record. Lives on the caller's stack. It waits without the lock, and those that are served leave
 * without it: sixteen threads that all have to take it once more to hear that they are done cost more than the sync.
 * The semaphore is posted `calls` times to say "nobody is flushing, do it", and once for the outcome, outside of the lock. So the
 * owner may leave only when it has taken all of them.
 */
typedef struct pd_ticket {
  struct pd_ticket *next;                              /* on the list of those that are to hear of their outcome */
  enum { PD_WAITING, PD_DONE, PD_MUST_RESTAGE } state; /* restage: another process was first, or the batch below failed */
  unsigned calls;
  bool is_awaited; /* its owner is there, and can flush */
  sem_t wake;
  pd_code code;
  pd_error err;
} pd_ticket;

/* A record that waits to be appended, and what it does once it is. */
typedef struct pd_staged {
  pd_ticket *ticket; /* NULL in buffered stores */
  pd_ref_slot *slot; /* NULL for a keyframe */
  pd_head head;      /* of the slot, afterwards; owns its root */
  uint64_t seq;
  pd_record_kind kind;
  bool is_retention; /* it says what is retired (retired.h G2) */
  size_t record_at, record_size;
  pd_id audit;
  int64_t time_ms;
  pd_catalog_frame frame; /* keyframe */
} pd_staged;

typedef struct pd_batch_value {
  pd_id id;
  pd_buf bytes;
} pd_batch_value;

typedef struct pd_batch {
  pd_buf bytes;
  pd_staged *staged;
  size_t count, capacity;
  pd_batch_value *blobs; /* large values, to be put into the bag first */
  size_t blob_count, blob_capacity;
} pd_batch;

struct pd_segment;

/* A tree built for a point in the past, kept for a while. */
typedef struct pd_past {
  uint64_t seq;
  pd_node *root;
  uint64_t used;
} pd_past;

#define PD_PAST_COUNT 8

/* Along first parents out of a segment (line.c). */
typedef struct pd_line_jump {
  uint64_t entry;   /* the commit in the segment that the line comes to */
  uint64_t base;    /* of the segment: all between are numbered above it */
  uint64_t outside; /* the commit before the segment that it goes on to; 0, or PD_SEQ_GONE */
  uint64_t steps;
} pd_line_jump;

/* What gc and erasure did (retired.h). */
typedef struct pd_retention {
  pd_points state;    /* cut 0: never */
  pd_catalog catalog; /* the refs at the cut */
  uint64_t epoch;     /* the record that said so; 0: none */
  bool has_erased;    /* something, once */
  bool is_stale;      /* PD_META_REF may say something else by now */
  bool is_loading;
  bool must_reload; /* G3 */
  uint64_t reload_count;
  bool has_changed; /* since this handle was opened: what it held may be gone */
} pd_retention;

/* gc_auto.c */
typedef struct pd_auto_gc {
  pthread_t thread;
  bool has_thread; /* to be joined */
  bool is_running;
  int is_stopping;               /* atomic */
  uint64_t next_seq, next_bytes; /* when to look whether it is due */
  uint64_t bytes;                /* of values, that this handle wrote since the last */
  uint64_t runs;
  pd_gc_policy policy;
  pd_error error; /* code 0: none */
} pd_auto_gc;

struct pd_store {
  const pd_backend_ops *ops;
  pd_backend *backend;
  char agent[PD_NAME_SIZE_MAX + 1];
  char author[PD_NOTE_SIZE_MAX + 1];
  char ref[PD_REF_SIZE_MAX + 1];     /* the handle's */
  char current[PD_REF_SIZE_MAX + 1]; /* the store's */
  bool is_read_only, is_buffered;
  bool is_in_joint; /* part of a joint commit (joint.h): no gc by itself */
  bool is_mending;  /* opened by repair: keyframes that cannot be read are passed over, and others are not followed */
  pd_error trouble; /* is_mending: what is wrong with the log itself; code 0: nothing */
  uint32_t flush_ms;
  size_t cache_size_max, value_size_max;
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;

  pthread_mutex_t lock;
  unsigned lock_waiters;                /* atomic: threads that found it taken; and how often one of them got it */
  unsigned lock_turns;                  /* atomic */
  unsigned sleepers;                    /* threads in pd_store_wait */
  unsigned waking;                      /* atomic: those of them that were woken, and want the lock */
  pthread_mutex_t turns[PD_TURN_COUNT]; /* update.c: taken before `lock`, one for the refs of a hash */
  pthread_cond_t changed;               /* a batch or a keyframe ended, the gate opened, a claim was settled */
  pthread_cond_t work;                  /* for the keeper alone: else each commit would wake it */

  pd_tree tree;
  pd_buf evict_hand;
  size_t trim_again_bytes; /* 0, or: nothing could be evicted below this */
  pd_ref_slot **slots;     /* sorted by name */
  size_t slot_count, slot_capacity;

  uint64_t seen_seq, tip_seq;
  uint64_t published; /* atomic: how often seen_seq was set; never goes back, as seen_seq may (pd_store_newest) */
  uint64_t log_seq;   /* the last record known to be in the log: seen_seq, or less in a buffered store */
  pd_id seen_audit, tip_audit;
  int64_t seen_time_ms, tip_time_ms;
  uint64_t version_top, meta_top; /* VN1 */
  bool keeps_numbers;             /* VN5 */
  bool has_jump;                  /* some record is dated more than PD_JUMP_MS after the one before it… */
  int64_t jump_ms;                /* …which has this time: the last such */
  uint64_t back_seq;              /* the last record that is dated before the one before it; 0: none is known */

  pd_batch pending, inflight;
  pd_ticket *concluded; /* to be told once the lock is free */
  bool is_flushing;
  uint64_t voided;    /* how often tips went back to `seen` (E4): what was read there may never have been */
  unsigned followers; /* readers that wait for a batch to end */
  size_t group_size;  /* how many commits a batch may expect, from those before */
  bool is_claimed, is_claiming;
  unsigned gate;        /* > 0: commits wait, somebody needs a moment with nothing staged */
  pd_error flush_error; /* code 0: none */
  int64_t pending_since_ms;

  pd_catalog_frame *frames; /* oldest first */
  pd_buf *frame_runs;       /* of each frame; empty: not loaded */
  size_t frame_count, frame_capacity;
  pd_run_entry *run; /* commits after the last frame */
  size_t run_count, run_capacity;
  uint32_t *run_table; /* open addressing by prefix: index into run, plus 1 */
  size_t run_table_size, run_tabled;
  uint64_t tail_bytes;  /* of records after the last frame */
  size_t catalog_size;  /* of the last frame */
  size_t catalog_slots; /* slots that there were then */
  size_t dirty_left;    /* bytes of nodes that the last keyframe of this handle could not save: of trees of the past */

  struct pd_segment **segments;
  size_t segment_count, segment_capacity;
  size_t segment_bytes;
  bool is_bringing;   /* a segment is being loaded without the lock */
  bool is_building;   /* a tree of the past is (pd_tree_to_read) */
  uint64_t forgotten; /* how often pd_past_forget or pd_retention_changed was called: what was read before may be gone */
  pd_past pasts[PD_PAST_COUNT];
  pd_line_jump *jumps; /* sorted by entry */
  size_t jump_count, jump_capacity;
  uint64_t use_clock;
  unsigned slow_reads;
  unsigned large_reads; /* values read out of large records */

  pthread_t keeper;
  bool has_keeper, is_closing, wants_keyframe, is_keyframing;
  int64_t keyframe_retry_ms; /* not before, after one failed */

  pd_retention retention;
  pd_auto_gc auto_gc;
  unsigned importing; /* imports at work: no gc by itself meanwhile */

  uint64_t commits, syncs, hits, misses;
  uint64_t sync_us, sync_steps[PD_COUNTER_STEPS], group_count, group_steps[PD_COUNTER_STEPS]; /* as in pd_counters */
};

/* stats.c: the step of a distribution (pd_counters) that a number belongs to. */
unsigned pd_counter_step(uint64_t number);

/* What readers see is this record now, or 0: nothing. */
void pd_see(pd_store *s, uint64_t seq);

void pd_store_lock(pd_store *s);
void pd_store_unlock(pd_store *s);
/* Until something changes (`changed`); and say that it did. With the lock held. */
void pd_store_wait(pd_store *s);
void pd_store_wake(pd_store *s);
/* For long walks: if others wait for the lock, give it up until one of them had it. Whatever was borrowed or looked up may be another
 * afterwards: records may have been staged, appended, retired. */
void pd_store_yield(pd_store *s);
/* For readers that may be called over and over: the lock is not fair, and others wait. */
void pd_store_lock_to_read(pd_store *s);
#define PD_YIELD_STEPS 32 /* records that a long walk may read before it looks whether others wait */

/* ---- refs.c ---- */

/* NULL if there is none. Deleted refs have a slot too. */
pd_ref_slot *pd_slot_find(pd_store *s, const char *name);
PD_MUST_USE pd_code pd_slot_make(pd_store *s, const char *name, pd_ref_slot **out, pd_error *err);
/* The handle's ref for NULL or "". PD_NOT_FOUND names it. */
PD_MUST_USE pd_code pd_slot_get(pd_store *s, const char *name, pd_ref_slot **out, pd_error *err);
void pd_head_done(pd_store *s, pd_head *head);
/* `to` becomes a copy of `from`, with its own reference to the root. */
void pd_head_copy(pd_store *s, pd_head *to, const pd_head *from);
/* What a record does to the head of its ref, but for its root. */
void pd_head_move(pd_head *head, const pd_rec *rec);
/* Give the head the tree of another ref at the same commit, if one has it at hand; one that is deleted has none. Overwrites root without
 * releasing it. */
void pd_head_share_root(pd_store *s, pd_head *head);

/* ---- head_bytes.c ---- */

/* Make the bytes of a ref's head known; of its tip, too, if nothing is staged on it. */
PD_MUST_USE pd_code pd_head_count(pd_store *s, pd_ref_slot *slot, pd_error *err);
/* What commits by others did to them: from the tree `before`, whose bytes are known, to `after`. */
PD_MUST_USE pd_code pd_head_recount(pd_store *s, pd_node *before, pd_node *after, uint64_t *bytes, pd_error *err);

/* ---- joint.c ---- */

/* The backend of a store that takes part in `joint`. PD_INVALID for a store that does not. */
PD_MUST_USE pd_code pd_joint_backend(pd_joint *joint, const char *uri, const char *agent, unsigned flags, pd_backend **out, pd_error *err);

/* ---- open.c ---- */

/* Open for repair (is_mending). Takes what can be had: no ref is chosen, and damage of the log is no error but in `trouble`. */
PD_MUST_USE pd_code pd_store_open_mending(const char *uri, const char *agent, bool is_read_only, pd_store **out, pd_error *err);
/* Read what others appended. Only with nothing staged. */
PD_MUST_USE pd_code pd_catch_up(pd_store *s, pd_error *err);
/* pd_catch_up if the backend hints at something new and nothing is staged. */
PD_MUST_USE pd_code pd_refresh(pd_store *s, pd_error *err);
/* For readers: also while something is staged, which it waits for or flushes itself if others have appended. May give up the lock. */
PD_MUST_USE pd_code pd_refresh_to_read(pd_store *s, pd_error *err);
/* The same, but by log_tail, which never lags (B5): for whoever is about to refuse a write. */
PD_MUST_USE pd_code pd_refresh_exactly(pd_store *s, pd_error *err);
/* By log_tail: has nobody appended what this handle has not read? Waits for nobody; false if that cannot be known. */
bool pd_is_newest(pd_store *s);
PD_MUST_USE pd_code pd_load_node(void *ctx, const pd_id *blob_id, pd_node **out, pd_error *err);
/* A blob of the bag, compared with its id. `out` is cleared first. PD_CORRUPT if it is missing: `what` says what it is. */
PD_MUST_USE pd_code pd_load_blob(pd_store *s, const pd_id *id, const char *what, pd_buf *out, pd_error *err);

/* ---- index.c: commits by id ---- */

/* Room for `more` commits and frames, so that publishing what was appended cannot fail. */
PD_MUST_USE pd_code pd_index_reserve(pd_store *s, size_t more, pd_error *err);
void pd_run_add(pd_store *s, const pd_id *commit, uint64_t seq);
/* A keyframe is in the log: commits that it covers leave the run in memory. Ignored if it covers no more than the last one. */
void pd_frame_add(pd_store *s, const pd_catalog_frame *frame);
/* Visit the numbers of the records whose commit ids begin with low … high, newest keyframe first, until *out_stop. */
typedef pd_code (*pd_index_visit)(void *ctx, uint64_t seq, bool *out_stop, pd_error *err);
PD_MUST_USE pd_code pd_index_search(pd_store *s, uint32_t low, uint32_t high, pd_index_visit visit, void *ctx, pd_error *err);
/* Forget all of it. */
void pd_index_reset(pd_store *s);
void pd_index_done(pd_store *s);

/* ---- record_read.c ---- */

/* The bytes of a record that waits to be appended, borrowed until the lock is given up; false: it is not staged. */
bool pd_record_staged(const pd_store *s, uint64_t seq, pd_bytes *out);
/* Record `seq`, decoded, also if it is staged; its slices are borrowed from `scratch` or from a segment: use them before the next call. */
PD_MUST_USE pd_code pd_record_at(pd_store *s, uint64_t seq, pd_buf *scratch, pd_rec *out, pd_error *err);
/* The same, but loads the whole segment: for long walks. */
PD_MUST_USE pd_code pd_record_walk(pd_store *s, uint64_t seq, pd_buf *scratch, pd_rec *out, pd_error *err);
/* The commit that record `seq` made; 0 is the root commit. PD_NOT_FOUND if it made none. */
PD_MUST_USE pd_code pd_commit_at(pd_store *s, uint64_t seq, pd_commit *out, pd_error *err);
/* First parent of the commit that `seq` made. */
PD_MUST_USE pd_code pd_parent_of(pd_store *s, uint64_t seq, uint64_t *out_parent, pd_error *err);

/* ---- line.c ---- */

/* From *seq along first parents, *steps at most: fewer, and *steps what is left, where history begins. With `may_yield` the lock may be
 * given up (pd_store_yield). PD_RETIRED if gc retired what it would step from. */
PD_MUST_USE pd_code pd_line_back(pd_store *s, uint64_t *seq, uint64_t *steps, bool may_yield, pd_error *err);
/* From *seq along first parents to the first that is numbered below `before`; 0 or a retired one at the end. May give the lock up. */
PD_MUST_USE pd_code pd_line_before(pd_store *s, uint64_t *seq, uint64_t before, pd_error *err);
/* How many steps along first parents lead from `seq` to `ancestor`; *out_found false if it is not on the line. `may_yield` as above. */
PD_MUST_USE pd_code pd_line_count(pd_store *s, uint64_t seq, uint64_t ancestor, bool may_yield, bool *out_found, uint64_t *out_steps,
                                  pd_error *err);
/* Forget what was learnt. */
void pd_line_forget(pd_store *s);

/* Records copied out of the log, because handling one may need the backend again. */
typedef struct pd_taken {
  pd_buf bytes;
  size_t *at; /* where each begins; count + 1 of them */
  size_t count, capacity;
  uint64_t first;
} pd_taken;

#define PD_TAKEN_BYTES_MAX ((size_t)8 << 20)
#define PD_TAKEN_COUNT_MAX 16384

/* Some of the records from … to, beginning with `from`; none at the end of the log. Pair with pd_taken_done. Needs no lock. */
PD_MUST_USE pd_code pd_take_records(pd_store *s, uint64_t from, uint64_t to, pd_taken *out, pd_error *err);
/* The *count records that end with `last`, or fewer if they are large: *count is then what one go takes. Needs no lock. */
PD_MUST_USE pd_code pd_take_before(pd_store *s, uint64_t last, uint64_t *count, pd_taken *out, pd_error *err);
pd_bytes pd_taken_at(const pd_taken *taken, size_t index);
void pd_taken_done(pd_taken *taken);

/* ---- past.c ---- */

/* The tree of the commit that record `seq` made, with a reference. */
PD_MUST_USE pd_code pd_tree_of(pd_store *s, uint64_t seq, pd_node **out_root, pd_error *err);
/* The same for those that only read: the lock may be given up (pd_store_yield). PD_RETIRED if gc took it meanwhile. */
PD_MUST_USE pd_code pd_tree_to_read(pd_store *s, uint64_t seq, pd_node **out_root, pd_error *err);
/* The tree of a head, kept in it; borrowed. */
PD_MUST_USE pd_code pd_head_root(pd_store *s, pd_head *head, pd_node **out_root, pd_error *err);
/* Apply a decoded commit record to `root`. */
PD_MUST_USE pd_code pd_apply_record(pd_tree *tree, pd_node *root, const pd_rec *rec, pd_node **out_root, pd_error *err);

/* ---- value.c ---- */

/* The bytes of a leaf entry's value replace what `out` holds, compared with their id. */
PD_MUST_USE pd_code pd_value_read(pd_store *s, pd_node *leaf, size_t index, pd_buf *out, pd_error *err);
/* A large value by its id, in the bag or on its way there; replaces what `out` holds. */
PD_MUST_USE pd_code pd_value_blob(pd_store *s, const pd_id *id, pd_buf *out, pd_error *err);
/* Load the value of an entry into its cell if it is small enough. */
PD_MUST_USE pd_code pd_value_load(pd_store *s, pd_node *leaf, size_t index, pd_error *err);
void pd_entry_of(const pd_node *leaf, size_t index, pd_entry *out);
/* Forget what the cache limit does not allow. */
void pd_cache_trim(pd_store *s);

/* ---- pieces.c: values over PD_CHUNKED_SIZE_MIN, in pieces in the bag (dag/chunk.h). None of these needs the lock ---- */

#define PD_CHUNKED_SIZE_MIN ((size_t)64 << 10) /* larger values are in pieces */

/* A value that lies in the bag in pieces already (dag/chunk.h), and on what that rests. A commit that finds it out of date is
 * refused with PD_CONFLICT and sets `is_stale`: pd_pieces_hold makes it good again. */
typedef struct pd_pieces {
  pd_id list_id;
  uint64_t size;      /* of the value */
  uint64_t since_seq; /* every piece was put, or held, after this record: nothing that was swept since then can have been it */
  uint64_t basis_seq; /* 0, or: some pieces were left out because the version that this record wrote has them */
  bool is_stale;
} pd_pieces;

/* What a walk over a value meets, in order: the list, each group and its pieces. Either may be NULL. */
typedef struct pd_pieces_walk {
  pd_code (*list)(void *ctx, const pd_id *id, pd_error *err);
  pd_code (*chunk)(void *ctx, const pd_chunk *chunk, pd_error *err);
  void *ctx;
} pd_pieces_walk;

/* Walk the pieces that a list names; lists are read and checked, pieces are not read. PD_CORRUPT if they do not add up to
 * *expect_size (NULL: any). */
PD_MUST_USE pd_code pd_pieces_walk_over(pd_store *s, const pd_id *list_id, const uint64_t *expect_size, const pd_pieces_walk *walk,
                                        pd_error *err);
/* Visit the ids of all blobs of a value in pieces: list, groups, pieces; one that is used twice may come twice. For whoever has to
 * keep, copy or count them. The visitor may call the backend. */
typedef pd_code (*pd_blob_visit)(void *ctx, const pd_id *id, pd_error *err);
PD_MUST_USE pd_code pd_chunks_visit(pd_store *s, const pd_id *list_id, pd_blob_visit visit, void *ctx, pd_error *err);
/* Hand out the value piece by piece, each compared with its id before, the whole with `value_id` and `size` at the end. */
typedef pd_code (*pd_piece_visit)(void *ctx, pd_bytes piece, pd_error *err);
PD_MUST_USE pd_code pd_pieces_stream(pd_store *s, const pd_id *list_id, const pd_id *value_id, uint64_t size, pd_piece_visit visit,
                                     void *ctx, pd_error *err);
/* Put every blob of the value once more, so that no sweep can take it (upload.h, U3). Takes the lock. PD_CONFLICT if one is gone. */
PD_MUST_USE pd_code pd_pieces_hold(pd_store *s, pd_pieces *pieces, pd_error *err);
/* The whole value replaces what `out` holds. */
PD_MUST_USE pd_code pd_pieces_read(pd_store *s, const pd_id *list_id, const pd_id *value_id, uint64_t size, pd_buf *out, pd_error *err);

/* ---- read.c ---- */

/* Read a key of a tree. */
PD_MUST_USE pd_code pd_get_in_tree(pd_store *s, pd_node *root, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* Read a key at a head of a ref. */
PD_MUST_USE pd_code pd_get_at_head(pd_store *s, pd_head *head, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* pd_get, with the lock held, which may be given up. */
PD_MUST_USE pd_code pd_get_locked(pd_store *s, const char *at, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* Read a key at the commit that record `seq` made, through segments. */
PD_MUST_USE pd_code pd_get_at(pd_store *s, uint64_t seq, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* The same for those that only read: the lock may be given up (pd_store_yield). */
PD_MUST_USE pd_code pd_get_to_read(pd_store *s, uint64_t seq, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* The bytes of a change's value replace what `out` holds. PD_ERASED. */
PD_MUST_USE pd_code pd_change_value(pd_store *s, const pd_rec_change *ch, pd_buf *out, pd_error *err);
/* The change of `key` in record `seq`; slices as in pd_record_at. */
PD_MUST_USE pd_code pd_version_step(pd_store *s, pd_bytes key, uint64_t seq, pd_buf *scratch, pd_rec *out_rec, pd_rec_change *out_change,
                                    pd_error *err);
/* The value that record `seq` gave to `key`; its id comes even if the bytes were erased, unless they are asked for. `out_value` may be
 * NULL. */
PD_MUST_USE pd_code pd_version_value(pd_store *s, pd_bytes key, uint64_t seq, pd_id *out_id, pd_buf *out_value, pd_error *err);

/* ---- commit.c, flush.c ---- */

/* One edit of an invocation. */
typedef struct pd_change_in {
  pd_bytes key;
  pd_bytes value;
  pd_id value_id;
  pd_pieces *pieces; /* not NULL: the value is there already, and `value` is not used */
  bool is_delete;
  bool must_exist; /* a delete of an absent key is PD_NOT_FOUND, not nothing */
  bool is_erased;  /* imported without its bytes: `value` has only its size */
  bool is_cold;    /* nobody is going to read it soon: it need not stay in memory */
  uint64_t expect_version;
  uint64_t version;   /* 0: the next one. Else what a graft says */
  uint64_t number;    /* the version that an imported change had where it was made; 0: the next one */
  bool is_linked;     /* a graft's: it follows the version that is in the tree; else nothing before it is in this log */
  int64_t created_ms; /* a graft's, not linked: when version 1 was written */
} pd_change_in;

/* Where and when an imported commit was made. */
typedef struct pd_origin {
  pd_bytes store;
  int64_t made_ms;
} pd_origin;

/* The parents of a commit that are not in this log (record.h, R5); none, and `parents` the one that it stands for: a part. */
typedef struct pd_graft {
  const pd_id *parents;
  size_t count;
} pd_graft;

/* A record to be made. */
typedef struct pd_intent {
  pd_record_kind kind;
  const char *ref;
  const pd_note *note;         /* may be NULL */
  const pd_change_in *changes; /* ascending by key */
  size_t change_count;
  const pd_commit *merged; /* parents of the commit besides the head; the changes are against the head */
  size_t merged_count;
  const pd_origin *origin;       /* an imported commit; NULL: made here */
  const pd_graft *graft;         /* NULL, or: the head is not the parent, only what the changes are against */
  const char *at;                /* fork, reset: the point; undo, redo: not used */
  const pd_commit *target;       /* the point itself, instead of `at`: names no ref can hide */
  const pd_commit *kept;         /* NULL, or: a commit that the changes name without being its child, as a mark does */
  uint64_t count;                /* undo, redo */
  const pd_catalog_frame *frame; /* keyframe */
  /* NULL, or called with the lock held each time before the record is staged: whatever it refuses is not written. */
  pd_code (*guard)(pd_store *s, void *ctx, pd_error *err);
  void *guard_ctx;
  /* NULL, or: pd_write only stages the record, and pd_later_wait or pd_later_lead is owed. Stays NULL in a buffered store. */
  pd_later **later;
  bool settles_quota; /* with `later`: PD_QUOTA is asked about once more with nothing staged, and is final then */
} pd_intent;

/* Stage, append, and wait until it is acknowledged. Takes the lock. Large values are put into the bag before. */
PD_MUST_USE pd_code pd_write(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err);
/* The first half of it, or nothing at all: see pd_put_later. Takes the lock. */
PD_MUST_USE pd_code pd_write_later(pd_store *s, const pd_intent *intent, pd_later **out, pd_ack *out_ack, pd_error *err);
/* The same for a note's `later`: nothing at all is PD_LIMIT named WouldWait. Takes the lock. */
PD_MUST_USE pd_code pd_write_at_once(pd_store *s, const pd_intent *intent, pd_later **out, pd_ack *out_ack, pd_error *err);
/* PD_LIMIT named WouldWait: what is done at once, or not at all, would have to wait. */
PD_MUST_USE pd_code pd_would_wait(const pd_store *s, pd_error *err);
/* pd_later_wait for a caller that has nothing else to do: it flushes for those behind it, too. Takes the lock. */
PD_MUST_USE pd_code pd_later_lead(pd_later *later, bool *out_again, pd_error *err);
/* pd_write for checked intents whose large values are in the bag. Takes the lock. */
PD_MUST_USE pd_code pd_write_once(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err);
PD_MUST_USE pd_code pd_note_check(const pd_note *note, pd_error *err);
/* upload.c: is there a value that has to be in pieces? pd_write for those that have one. */
bool pd_intent_is_large(const pd_intent *intent);
PD_MUST_USE pd_code pd_write_large(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err);
/* Stage several records and append them at once, all or none. `stage` runs with the lock held and nothing staged: it looks at the
 * refs and calls pd_stage without a ticket; if another process was first, it is called again. Takes the lock. */
typedef pd_code (*pd_stage_many)(void *ctx, pd_error *err);
PD_MUST_USE pd_code pd_write_many(pd_store *s, pd_stage_many stage, void *ctx, pd_error *err);
/* Would a commit be refused on what readers see (E2)? PD_OK if not. Asked when the tip refuses it. */
PD_MUST_USE pd_code pd_check_seen(pd_store *s, const pd_intent *intent, pd_error *err);
/* Does the record name commits other than the head of its ref? Then what gc retired has to be known when it is staged: only with nothing
 * staged (retired.h G9). */
bool pd_intent_points_back(const pd_intent *intent);
/* Stage one record on the tips (E2). PD_RETIRED if it names a commit that gc retired. */
PD_MUST_USE pd_code pd_stage(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err);
/* Append what is pending as one batch. With the lock held and nobody flushing; gives the lock up while it syncs. */
void pd_flush_batch(pd_store *s);
/* Wait until nothing is staged: then tip, seen and log are one, until the lock is given up. Commits wait meanwhile: it is for what moves
 * bytes or refs. Readers have no need of it: all that they can name is in the log, but for what a buffered store has not appended yet. */
PD_MUST_USE pd_code pd_settle(pd_store *s, pd_error *err);
/* Wait until record `seq`, which readers see, is in the log; commits go on. Only buffered stores have to wait. May give the lock up. */
PD_MUST_USE pd_code pd_log_reach(pd_store *s, uint64_t seq, pd_error *err);
PD_MUST_USE pd_code pd_batch_blob(pd_batch *batch, const pd_id *id, pd_bytes blob, pd_error *err);
void pd_batch_clear(pd_store *s, pd_batch *batch);

/* commit.c: a record with this time follows one with `before_ms`. */
void pd_time_note(pd_store *s, int64_t before_ms, uint64_t seq, int64_t time_ms);
/* With the lock: the time that the next record would get. Less than tip_time_ms if a clock was ahead. */
int64_t pd_time_next(pd_store *s);

/* ---- version.c: the numbers of versions ---- */

#define PD_VERSION_NOTE_SIZE 160

/* The number of the next write of a key on a ref; `before`: of the version that is there, 0 if none is. */
uint64_t pd_version_next(const pd_store *s, const pd_ref_slot *slot, uint64_t before);
/* Do imported changes keep their numbers (VN5)? */
bool pd_version_keeps(const pd_store *s);
/* The number of an imported change that had `number` elsewhere (0: the next one there). */
uint64_t pd_version_imported(const pd_store *s, const pd_ref_slot *slot, uint64_t before, uint64_t number);
/* Does every number in this store follow from the changes? Then a bundle need not say them. */
bool pd_version_is_natural(const pd_store *s);
/* A change was staged or read; a ref was moved by a record that is no commit. */
void pd_version_given(pd_store *s, pd_ref_slot *slot, const pd_rec_change *ch);
void pd_version_moved(pd_store *s, pd_ref_slot *slot, const pd_rec *rec);
/* Both, for a decoded record, after its head has moved. */
void pd_version_follow(pd_store *s, pd_ref_slot *slot, const pd_rec *rec);
/* What a keyframe's record says as its reason, and taking it up from there. */
void pd_version_note(pd_store *s, char out[PD_VERSION_NOTE_SIZE]);
void pd_version_adopt(pd_store *s, const pd_rec *keyframe);
void pd_version_forget(pd_store *s);

/* ---- keyframe.c, keeper.c ---- */

bool pd_keyframe_is_due(pd_store *s);
/* Would it save enough for what it would repeat (K5)? */
bool pd_keyframe_is_worth(pd_store *s);
/* Takes the lock. */
PD_MUST_USE pd_code pd_keyframe_write(pd_store *s, pd_error *err);
/* Nobody writes a keyframe between the two. They take the lock. */
void pd_keyframe_hold(pd_store *s);
void pd_keyframe_release(pd_store *s);
/* Put what the bag does not have of a tree there. Takes the lock. */
PD_MUST_USE pd_code pd_tree_save(pd_store *s, pd_node *root, pd_error *err);
/* Start the thread that flushes and writes keyframes, once. */
PD_MUST_USE pd_code pd_keeper_start(pd_store *s, pd_error *err);
void pd_keeper_stop(pd_store *s);

/* ---- gc_auto.c ---- */

#define PD_GC_AUTO_KIND "gc-auto"
#define PD_GC_AUTO_NAME "last"

/* Is it worth a look? */
static inline bool pd_auto_gc_is_near(const pd_store *s)
{
  return s->log_seq >= s->auto_gc.next_seq || s->auto_gc.bytes >= s->auto_gc.next_bytes;
}
/* Start gc if the settings say that it is due. */
void pd_auto_gc_look(pd_store *s);
/* Look at the settings in a while: not at once, because several may be about to be set. */
void pd_auto_gc_start(pd_store *s);
/* No more of it; waits until it has given up. Takes the lock. */
void pd_auto_gc_stop(pd_store *s);
/* PD_INVALID if a setting "gc.…" is none, or cannot have this value. */
PD_MUST_USE pd_code pd_auto_gc_check(const char *name, pd_bytes value, pd_error *err);
/* What the settings say is to be kept, whether it runs by itself or not. Takes the lock. */
PD_MUST_USE pd_code pd_auto_gc_policy(pd_store *s, pd_gc_policy *out, pd_error *err);
PD_MUST_USE pd_code pd_auto_gc_status(pd_store *s, pd_gc_info *out, pd_error *err);

/* ---- meta.c: tags, pins, settings, message links: a tree of its own, under a ref that users do not see ---- */

#define PD_META_REF "@meta"
#define PD_IMPORT_REF "@import" /* PD_IMPORT_REF/…: where imported commits are appended, until the refs move to them (bundle.h D7) */

/* Users neither see nor name it. */
static inline bool pd_ref_is_hidden(const char *name)
{
  return name[0] == '@';
}

/* One that an import appends to; older versions had a single one. */
static inline bool pd_ref_is_import(const char *name)
{
  size_t size = sizeof PD_IMPORT_REF - 1;
  return strncmp(name, PD_IMPORT_REF, size) == 0 && (!name[size] || name[size] == '/');
}

/* bundle_lines.c: is the slot a ref of an import that has shown no sign of life for an hour? *out_last_ms: when it last did. */
bool pd_import_is_idle(const pd_store *s, const pd_ref_slot *slot, int64_t *out_last_ms);
/* Delete those. Takes the lock. */
PD_MUST_USE pd_code pd_import_clean(pd_store *s, pd_error *err);

/* A name that users may give, or one of the hidden ones. */
PD_MUST_USE pd_code pd_ref_check_any(const char *name, pd_error *err);
/* All take the lock. Keys are "KIND/NAME". PD_NOT_FOUND if it is not there. `out` is replaced. */
PD_MUST_USE pd_code pd_meta_get(pd_store *s, const char *kind, const char *name, pd_buf *out, pd_entry *out_entry, pd_error *err);
PD_MUST_USE pd_code pd_meta_put(pd_store *s, const char *kind, const char *name, pd_bytes value, uint64_t expect_version,
                                const pd_note *note, pd_ack *out, pd_error *err);
/* pd_meta_put of something that keeps `commit`: PD_RETIRED, and nothing is written, if gc has retired it by then. */
PD_MUST_USE pd_code pd_meta_put_mark(pd_store *s, const char *kind, const char *name, pd_bytes value, uint64_t expect_version,
                                     const pd_commit *commit, const pd_note *note, pd_error *err);
PD_MUST_USE pd_code pd_meta_delete(pd_store *s, const char *kind, const char *name, const pd_note *note, pd_error *err);
/* Many at once, in one commit: an edit on the hidden ref. */
PD_MUST_USE pd_code pd_meta_edit(pd_store *s, const pd_note *note, pd_edit **out, pd_error *err);
/* Every entry of a kind by name; `visit` returns false to stop, and may call the store. */
typedef bool (*pd_meta_visit)(void *ctx, const char *name, pd_bytes value, const pd_entry *entry);
PD_MUST_USE pd_code pd_meta_list(pd_store *s, const char *kind, pd_meta_visit visit, void *ctx, pd_error *err);
/* The same two with the lock held, of what is seen; `visit` must not take the lock. */
PD_MUST_USE pd_code pd_meta_get_locked(pd_store *s, const char *kind, const char *name, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_meta_list_locked(pd_store *s, const char *kind, pd_meta_visit visit, void *ctx, pd_error *err);

/* ---- marks.c: what tags, pins and message links have in common: they keep a commit ---- */

/* The commit of every tag, pin and message link: what retention must leave whole. `kind` is "tag", "pin" or "message". One commit
 * may be kept by several; the root commit is record 0. Marks whose commit is not in this store (imported without it) are passed
 * over. Only with nothing staged (pd_settle). Return anything but PD_OK to stop. */
typedef pd_code (*pd_kept_visit)(void *ctx, const char *kind, const char *name, uint64_t seq, pd_error *err);
PD_MUST_USE pd_code pd_kept_points(pd_store *s, pd_kept_visit visit, void *ctx, pd_error *err);

/* ---- resolve.c ---- */

/* The last record that is dated at or before a time; one before all that are whole if they are later. Records that are dated later than one
 * behind them, because a clock was wrong, count as if they had its time. */
PD_MUST_USE pd_code pd_last_before(pd_store *s, int64_t time_ms, uint64_t *out_seq, pd_error *err);

PD_MUST_USE pd_code pd_resolve_locked(pd_store *s, const char *at, pd_commit *out, pd_error *err);
/* The same for those that only read: a long way back may give the lock up (pd_store_yield). */
PD_MUST_USE pd_code pd_resolve_to_read(pd_store *s, const char *at, pd_commit *out, pd_error *err);
/* The record that made commit `id`: `seq`, unless it lies elsewhere in this store's log (what was imported does). */
PD_MUST_USE pd_code pd_commit_find(pd_store *s, const pd_id *id, uint64_t seq, pd_commit *out, pd_error *err);
/* True if `at` names the head of a ref: the cheap and common case. *out_slot is then set. */
bool pd_resolve_head(pd_store *s, const char *at, pd_ref_slot **out_slot);
/* Where a ref was after record `limit`: back along the records that moved it. out->seq is 0 if none did. Slices as pd_record_walk. With
 * `may_yield` the lock may be given up (pd_store_yield). */
PD_MUST_USE pd_code pd_ref_after(pd_store *s, const pd_ref_slot *slot, uint64_t limit, bool may_yield, pd_rec *out, pd_error *err);

#endif
