/*
 * gc.h: the inside of gc and erasure. Private to src/engine.
 *
 *   G4  Order: mark the bag; save what is to stay; write the record that says what is retired (R), durably; only then take bytes away.
 *       Killed anywhere, the store is whole: at worst bytes are left that the next gc takes.
 *   G5  A blob that was put before the mark, but whose record comes after R, would be swept: whoever writes such a record meets R first
 *       (its append conflicts) and puts the blob again, which then counts as new (B15). Keyframes and pieces check for R themselves.
 *   G6  Fingerprints stand for (record, key). If two are the same, more is kept, never less. Blobs are told apart by their whole ids: one
 *       that is taken for another would not be walked into, and what hangs on it would go.
 *   G10 From before the plan until the last byte is gone gc has the store's gc_lock alone (B21): nothing goes while an export reads.
 *   G8  A keyframe behind the cut lists refs and commits from before it. If they weigh much, gc by hand does the same once more: now that R
 *       is there the next keyframe leaves out what R made forgotten (G7), and the next cut is behind the one that lists it. Killed between
 *       the two, the store is as after one gc that was killed. What runs by itself leaves that to the next one.
 */
#ifndef PD_ENGINE_GC_H
#define PD_ENGINE_GC_H

#include "base/map64.h"
#include "dag/id_map.h"
#include "engine/store.h"

/* Why a commit is kept. */
#define PD_KEEP_HEAD 1u
#define PD_KEEP_MARK 2u /* a tag, pin or message link */
#define PD_KEEP_LAST 4u
#define PD_KEEP_BASE 8u /* what is kept needs it */
#define PD_KEEP_REFS 16u

typedef struct pd_want {
  uint64_t seq;
  unsigned why;
} pd_want;

typedef struct pd_gc_run {
  pd_store *s;
  const pd_gc_policy *policy;
  pd_gc_report *report;
  bool is_dry;
  bool is_quiet;     /* by itself: it does not insist */
  bool has_whole;    /* all commits of some ref are wanted */
  uint64_t mark;     /* of the bag, before anything */
  uint64_t plan_seq; /* the last record that the plan knows */
  uint64_t old_cut, cut;
  uint64_t cut_min; /* not lower, if a keyframe allows it and keep_days does; 0: as low as is best */
  pd_map64 old_points;
  pd_want *wants; /* ascending by seq, each once, after planning */
  size_t want_count, want_capacity;
  pd_points next;  /* what is to be written */
  pd_map64 live;   /* changes that stay: how many older versions stay with each */
  pd_id_map blobs; /* of the bag, that stay */
  uint64_t bag_bytes;
  uint32_t versions;               /* that stay with what is being noted */
  int64_t young_ms;                /* keep_days keeps what is not older; INT64_MAX: no such rule */
  uint64_t epoch;                  /* of the state that the plan knows */
  uint64_t done, total;            /* progress */
  struct pd_erase_notes *finished; /* lazy erasures whose entries R removes (erase.h X1) */
} pd_gc_run;

/* ---- gc_plan.c: what to keep, where to cut ---- */

/* Fill wants, cut and plan_seq. Takes the lock. */
PD_MUST_USE pd_code pd_gc_plan(pd_gc_run *run, pd_error *err);
/* Fill `next`: the points before the cut, their trees saved unless it is a dry run, and the refs at the cut. Takes the lock. */
PD_MUST_USE pd_code pd_gc_points(pd_gc_run *run, pd_error *err);
bool pd_gc_wants(const pd_gc_run *run, uint64_t seq);
void pd_gc_run_done(pd_gc_run *run);

/* ---- gc_mark.c: what is reachable ---- */

uint64_t pd_change_print(uint64_t seq, pd_bytes key);
/* Visit every node below a root in the bag that is not in `seen`, and add it there; each is compared with its id. `tree` may be NULL.
 * Without the lock. */
typedef pd_code (*pd_node_visit)(void *ctx, const pd_node *node, pd_error *err);
PD_MUST_USE pd_code pd_walk_tree(pd_store *s, const pd_id *root_blob, const pd_id *tree, pd_id_map *seen, pd_node_visit visit, void *ctx,
                                 pd_error *err);
/* Mark the trees of the heads, whose keys keep versions; then those of points. */
PD_MUST_USE pd_code pd_gc_mark_heads(pd_gc_run *run, pd_error *err);
PD_MUST_USE pd_code pd_gc_mark_points(pd_gc_run *run, pd_error *err);
/* Mark a keyframe: its catalog, its list of commits, and its trees unless it stands before the cut. */
PD_MUST_USE pd_code pd_gc_keep_frame(pd_gc_run *run, const pd_id *catalog_id, pd_error *err);
#define PD_GC_VERSIONS_MAX 0x7fffffffu
/* How many versions of each key stay by the policy; 0: no such rule. */
uint32_t pd_gc_versions(const pd_gc_run *run);
/* Note what a leaf names: the visitor of pd_walk_tree here. */
pd_code pd_gc_note_node(void *run, const pd_node *node, pd_error *err);
/* With the lock: the same for a tree in memory of which the bag does not have all, in a dry run. */
PD_MUST_USE pd_code pd_gc_look_at(pd_gc_run *run, pd_node *root, pd_error *err);
/* A blob that stays, of `size` bytes. */
PD_MUST_USE pd_code pd_gc_keep_blob(pd_gc_run *run, const pd_id *id, uint64_t size, pd_error *err);
PD_MUST_USE pd_code pd_gc_keep_value(pd_gc_run *run, const pd_rec_change *ch, pd_error *err);

/* ---- gc_redact.c: through the log, newest first ---- */

/* Mark the large values of what stays, and redact what does not unless it is a dry run. */
PD_MUST_USE pd_code pd_gc_redact(pd_gc_run *run, pd_error *err);

/* ---- gc.c ---- */

/* One more step of progress; PD_INVALID if the caller gave up. */
PD_MUST_USE pd_code pd_gc_tick(pd_gc_run *run, uint64_t steps, pd_error *err);
/* A record that the plan needs whole. PD_RETIRED if another gc has taken bytes away from it: the plan is overtaken. */
PD_MUST_USE pd_code pd_gc_decode(const pd_store *s, uint64_t seq, pd_bytes bytes, pd_rec *out, pd_error *err);
/* Have a PD_META_REF. Takes the lock. */
PD_MUST_USE pd_code pd_retention_prepare(pd_store *s, pd_error *err);
/* Write a new state of retention: R. `guard` as in pd_intent. Takes the lock; on stable storage when it returns. */
PD_MUST_USE pd_code pd_retention_write(pd_store *s, const pd_points *state, const pd_change_in *notes, size_t note_count,
                                       const char *author, pd_code (*guard)(pd_store *s, void *ctx, pd_error *err), void *ctx,
                                       pd_error *err);
/* Replace `count` of the taken records, from the one at `first` on, by what `bytes` has, each up to its end. PD_CONFLICT if somebody else
 * took bytes away from one of them meanwhile (erase.h X2). Without the lock. */
PD_MUST_USE pd_code pd_log_replace(pd_store *s, const pd_taken *t, size_t first, size_t count, const pd_buf *bytes, const size_t *ends,
                                   pd_error *err);
/* pd_gc that gives way: to others who are at it, and does not compact the files for little. Takes the lock. */
PD_MUST_USE pd_code pd_gc_quietly(pd_store *s, const pd_gc_policy *policy, pd_gc_report *out, pd_error *err);
/* What of the log and the bag a gc by this policy would free. For `du`. Takes the lock. */
PD_MUST_USE pd_code pd_gc_would_free(pd_store *s, const pd_gc_policy *policy, uint64_t *out_bytes, pd_error *err);
/* The visitor of pd_pieces_stream for whoever wants the pieces only compared. */
pd_code pd_piece_ignore(void *ctx, pd_bytes piece, pd_error *err);

/* ---- gc_lock.c: gc and exports exclude each other ---- */

/* PD_CONFLICT if exports or others have it: at once if the gc is quiet, else after a while. */
PD_MUST_USE pd_code pd_gc_lock(pd_gc_run *run, void **out_lock, pd_error *err);
void pd_gc_unlock(pd_gc_run *run, void *lock);

/* ---- verify_points.c ---- */

PD_MUST_USE pd_code pd_verify_points(pd_store *s, const pd_points *points, pd_check_visit visit, void *ctx, uint64_t *out_nodes,
                                     uint64_t *out_values, pd_error *err);

#endif
