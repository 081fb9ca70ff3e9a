/*
 * history.h: what the capabilities history.* share: whose history, which point of it, and what may be seen there.
 *
 * V1  An agent works on its own store; of `shared` it only reads. No input names another store.
 * V2  The refs that threads, mailboxes, work items, snapshots and restores keep in an agent's store are not part of its history here: they
 *     are neither listed nor read nor moved, also not by the id of a commit that was made on one of them.
 * V3  What policy closes of state.persistent.* (of state.shared.*) is closed here, too: by key, at every point in history.
 * V4  Writing: `main` and the agent's own forks (fork/NAME), nothing else.
 *
 * W1  A change of a key needs what state.persistent.set or .delete of that key needs: policy refuses it, or asks for approval.
 * W2  No ref has more bytes afterwards than persistent.quota, unless it has no more than before.
 * W3  No key comes back whose bytes were erased: the persistent tier promises that they are gone, and lists what it can read.
 * W4  A store whose history was ever changed here is marked; state.persistent.delete then erases what was left behind, too.
 */
#ifndef PD_STATE_HISTORY_H
#define PD_STATE_HISTORY_H

#include "state/call.h"
#include "state/home.h"

#define PD_FORK_PREFIX "fork/"
#define PD_HISTORY_SHOWN_MAX 200 /* of a key, in messages */

/* A point in history that was looked up. */
typedef struct pd_point_in {
  pd_commit commit;
  char at[PD_ID_HEX_SIZE]; /* its id, for the engine: it does not move meanwhile */
} pd_point_in;

/* The store to read, by the input `store`: the caller's own or the shared one. *out is NULL if it was never written to. PD_INVALID if the
 * operator named no agent. */
PD_MUST_USE pd_code pd_history_open(pd_frame *frame, pd_store **out, pd_error *err);
/* The caller's own store, to be written to: it has to be there. PD_NOT_FOUND (NotFound). */
PD_MUST_USE pd_code pd_history_own(pd_frame *frame, pd_store **out, pd_error *err);

/* The point that an input names (absent: `otherwise`, which is `main` if NULL). V2. PD_NOT_FOUND (NotFound), PD_AMBIGUOUS, PD_RETIRED. */
PD_MUST_USE pd_code pd_history_point(pd_frame *frame, pd_store *store, const char *field, const char *otherwise, pd_point_in *out,
                                     pd_error *err);
/* The same for a text. */
PD_MUST_USE pd_code pd_history_point_at(pd_store *store, const char *at, pd_point_in *out, pd_error *err);
/* PD_NOT_FOUND: nothing was written yet (NotFound); the input `key` is not there at `at` (KeyNotFound). */
pd_code pd_history_none(pd_frame *frame, pd_error *err);
pd_code pd_history_no_key(pd_frame *frame, const char *at, pd_error *err);
/* V2: pd_history_hides, pd_history_resolve: state.h. */

/* V3: may keys that are `subject` or begin with it (NULL: any) be read? PD_DENIED (PermissionDenied). */
PD_MUST_USE pd_code pd_history_may_read(pd_frame *frame, const pd_bytes *subject, pd_error *err);
/* …as the inputs `key` and `prefix`, of which the capability has those that are said, name them. */
PD_MUST_USE pd_code pd_history_may_read_key(pd_frame *frame, pd_error *err);
PD_MUST_USE pd_code pd_history_may_read_prefix(pd_frame *frame, pd_error *err);

/* The value of a key at a point as the member `name`; or, if its bytes were erased, `erased_name` as true. */
PD_MUST_USE pd_code pd_history_put_value(pd_frame *frame, pd_view *view, pd_bytes key, const char *name, const char *erased_name,
                                         pd_error *err);
/* A member that is a text, or null if it is empty. */
void pd_out_next(pd_frame *frame, const char *name, pd_bytes next);

/* Members, each unless it says nothing. */
void pd_out_who(pd_frame *frame, const char *author, const char *run, const char *reason);

/* The versions of the input `key`, newest first, a page of the input `limit`. */
typedef struct pd_version_page {
  pd_frame *frame;
  void (*put)(pd_frame *frame, const pd_version_info *version); /* the members before who and why */
  uint64_t limit, count;
  char next[PD_ID_HEX_SIZE]; /* the commit that the next page begins with; "": this is the last */
} pd_version_page;

/* The member `versions`: those that the key has had up to `at`. */
PD_MUST_USE pd_code pd_out_versions(pd_version_page *page, pd_store *store, const char *at, pd_error *err);

/* Who, when and why, and the changes that an answer shows of one record. */
typedef struct pd_change_filter {
  pd_bytes key, prefix, after; /* empty: any */
  uint64_t limit;              /* changes shown of one record */
} pd_change_filter;

bool pd_change_fits(const pd_change_filter *filter, pd_bytes key);
/* ---- writing: history_write.c ---- */

#define PD_HISTORY_CHANGES_MAX 100000 /* keys that one call may change */
#define PD_HISTORY_REASON_MAX 1000
/* Where versions of an agent's keys may have been left behind: pd_erase_options.left_of. */
#define PD_HISTORY_LEFT_OF "main " PD_FORK_PREFIX

typedef struct pd_history_texts {
  char reason[PD_HISTORY_REASON_MAX + 1];
} pd_history_texts;

/* pd_frame_note with the input `reason`, if the capability has one and it is given; the operator is not the agent. */
pd_note pd_history_note(const pd_frame *frame, pd_history_texts *texts);
bool pd_history_is_fork(const char *ref);
/* The input `ref`; absent: main. V4. PD_INVALID for others. */
PD_MUST_USE pd_code pd_history_take_ref(const pd_frame *frame, char out[PD_REF_SIZE_MAX + 1], pd_error *err);
/* Compare the input `expected_head`, if it is given, with where the ref is. PD_CONFLICT (HeadMoved). */
PD_MUST_USE pd_code pd_history_take_head(const pd_frame *frame, const pd_id *head, pd_error *err);
/* W4: was it marked (pd_history_leave)? */
PD_MUST_USE pd_code pd_history_has_left(pd_store *store, bool *out, pd_error *err);
/* W1. PD_DENIED, PD_APPROVAL. */
PD_MUST_USE pd_code pd_history_may_write(pd_frame *frame, pd_bytes key, bool is_delete, pd_error *err);
/* W3: is the value of the key at `at` still there? PD_ERASED (ValueErased). A key that is not there is fine. */
PD_MUST_USE pd_code pd_history_check_value(pd_frame *frame, pd_store *store, const char *at, pd_bytes key, pd_error *err);
/* W2: PD_QUOTA (QuotaExceeded). */
pd_code pd_history_no_room(pd_frame *frame, uint64_t used, pd_error *err);

/* What visitors, who must not call the store, keep for later: keys, and what they saw of each. Zero-initialise; pd_rows_done. */
typedef struct pd_row {
  size_t from, size; /* of the key, in pd_rows.keys */
  pd_change change;  /* without its key */
  bool has_before, has_after;
  pd_entry before, after; /* without their keys */
} pd_row;

typedef struct pd_rows {
  pd_buf keys;
  pd_row *items;
  size_t count, capacity;
  pd_code code; /* PD_NO_MEMORY: it could not be kept */
} pd_rows;

void pd_rows_done(pd_rows *rows);
/* NULL if there is no memory; rows->code says so. */
pd_row *pd_rows_add(pd_rows *rows, pd_bytes key);
/* One more, with both sides of a difference. False: no memory. */
bool pd_rows_differ(pd_rows *rows, const pd_difference *difference);
/* Valid until the next is added. */
pd_bytes pd_row_key(const pd_rows *rows, const pd_row *row);

/* A ref on its way from where it is to another state. Zero-initialise; pd_turn_done. */
typedef struct pd_turn {
  pd_frame *frame;
  pd_store *store;
  char ref[PD_REF_SIZE_MAX + 1];
  pd_commit head; /* where it is */
  bool can_redo;
  pd_point_in to;  /* where it is to go */
  pd_bytes prefix; /* only keys that begin with it are looked at */
  pd_rows rows;    /* what differs */
  bool is_too_much;
  bool is_again;         /* others were faster, so that all of it is done once more */
  const pd_input *input; /* that it was looked for with */
} pd_turn;

/* Take the inputs `ref` and `expected_head`, and see where the ref is. PD_NOT_FOUND, PD_CONFLICT (HeadMoved). */
PD_MUST_USE pd_code pd_turn_begin(pd_frame *frame, pd_turn *out, pd_error *err);
/* See anew where it is. */
PD_MUST_USE pd_code pd_turn_look(pd_turn *turn, pd_error *err);
/* Find out what would change; PD_LIMIT. */
PD_MUST_USE pd_code pd_turn_compare(pd_turn *turn, pd_error *err);
/* The same, and W1 to W4 hold for it. */
PD_MUST_USE pd_code pd_turn_settle(pd_turn *turn, pd_error *err);
/* pd_brink, with the head and the target as facts; then pd_turn_is_of. */
PD_MUST_USE pd_code pd_turn_brink(pd_turn *turn, pd_error *err);
/* PD_CONFLICT, once: an approval was used since it was looked for, so it has to be looked for again with what was approved. */
PD_MUST_USE pd_code pd_turn_is_of(const pd_turn *turn, pd_error *err);
/* Did others move the ref meanwhile? Then once more. Nothing counts: the refusal rests on a commit that is on the disk (decision 065). */
bool pd_turn_again(pd_turn *turn, pd_code code);
void pd_turn_done(pd_turn *turn);

/* For CLEANUP. */
static inline void pd_history_view_close(pd_view **view)
{
  pd_view_close(*view);
}

#endif
