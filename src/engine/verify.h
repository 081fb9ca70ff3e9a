/* verify.h: verification, between its two files, and as repair uses it. Private to src/engine. */
#ifndef PD_ENGINE_VERIFY_H
#define PD_ENGINE_VERIFY_H

#include "engine/store.h"

/* The bag does not hold `blob` under `id` as it should: it is missing or damaged. `blob` is what the log gives. PD_OK: it was seen to, and
 * is no finding. `what` says what it is: "a tree node". */
typedef pd_code (*pd_mend)(void *ctx, const char *what, const pd_id *id, pd_bytes blob, pd_error *err);

/* A commit that is pointed at again. */
typedef struct pd_kept {
  uint64_t seq;
  pd_commit commit;
  pd_node *root;
  bool is_lost; /* gc retired what it was built on, in spite of it */
} pd_kept;

typedef struct pd_due_frame {
  uint64_t covers, seq;
  pd_id catalog;
  pd_id run; /* known once the frame was checked */
} pd_due_frame;

typedef struct pd_verifier {
  pd_store *s;
  const pd_verify_options *options;
  pd_mend mend; /* NULL: only look */
  void *mend_ctx;
  pd_verify_report report;
  uint64_t first, tail; /* records first … tail are compared */
  bool has_base;        /* begins behind a keyframe */
  pd_catalog_frame base;
  bool is_stopped;  /* nothing after this can be judged */
  bool is_given_up; /* by the caller */
  pd_store *replay; /* heads and trees as the log gives them: only refs, tree and numbers of it are used */
  pd_kept *kepts;
  size_t kept_count, kept_capacity;
  pd_due_frame *frames;
  size_t frame_count, frame_capacity;
  pd_run_entry *commits;
  size_t commit_count, commit_capacity;
  pd_points points; /* what is left before the cut */
} pd_verifier;

/* Count a finding, and tell the caller. */
void pd_finding(pd_verifier *v, const char *fmt, ...) PD_PRINTF(2, 3);
/* Compare a keyframe with what was replayed up to the last record it covers (verify_frame.c). */
PD_MUST_USE pd_code pd_verify_frame(pd_verifier *v, pd_due_frame *f, pd_error *err);

/* pd_verify that hands derived data to `mend` (NULL: none) instead of finding fault with it. Takes the lock. */
PD_MUST_USE pd_code pd_verify_mending(pd_store *s, const pd_verify_options *options, pd_mend mend, void *mend_ctx, pd_verify_report *out,
                                      pd_error *err);

#endif
