/* story.h: tags, pins, blame, message links. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_STORY_H
#define PERDURE_STORY_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tags and pins ------------------------------------------------------------------------------------------------ */

/*
 * A tag is a name for a commit that never moves by itself, and can be used wherever `at` is. A pin is a commit that retention must
 * not touch, without a name. Both keep the whole state at their commit, are shared by all processes, and are no part of the state:
 * no key shows them. They are records of the log like any other, so setting or deleting one is audited.
 */
typedef struct pd_mark {
  const char *name; /* of the tag; of a pin: its commit's 64 digits */
  pd_id commit;
  uint64_t seq;                /* the record that made the commit; 0: the root commit */
  int64_t time_ms;             /* when it was set */
  const char *author, *reason; /* "" if none */
} pd_mark;

/* All pointers are borrowed until the visitor returns. Return false to stop. */
typedef bool (*pd_mark_visit)(void *ctx, const pd_mark *mark);

/* Tag the commit at `at`. A name is what a ref's is, but not 64 hex digits (a commit id) and nothing that begins with "message:".
 * PD_EXISTS if the tag is at another commit, unless `may_move`; PD_EXISTS too if a ref has this name, which would hide the tag. The
 * same tag at the same commit is no error and writes nothing, so a retry is safe. `note` (author, run, reason) and `out` (the
 * commit) may be NULL. */
PD_API PD_MUST_USE pd_code pd_tag_set(pd_store *store, const char *name, const char *at, bool may_move, const pd_note *note, pd_commit *out,
                                      pd_error *err);
/* PD_NOT_FOUND if there is no such tag. The commit stays. */
PD_API PD_MUST_USE pd_code pd_tag_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err);
/* Visit all tags by name. */
PD_API PD_MUST_USE pd_code pd_tag_list(pd_store *store, pd_mark_visit visit, void *ctx, pd_error *err);

/* Pin the commit at `at`; pinning it again replaces author, time and reason. `note` and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_pin_set(pd_store *store, const char *at, const pd_note *note, pd_commit *out, pd_error *err);
/* PD_NOT_FOUND if the commit at `at` is not pinned. */
PD_API PD_MUST_USE pd_code pd_pin_delete(pd_store *store, const char *at, const pd_note *note, pd_error *err);
/* Visit all pins by commit id. */
PD_API PD_MUST_USE pd_code pd_pin_list(pd_store *store, pd_mark_visit visit, void *ctx, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
