/*
 * merge.h: merge, cherry-pick, revert, and the store's settings. Included by perdure.h; errors, lifetimes and `at` are explained there.
 *
 *     pd_merge_options options = {.policy = PD_MERGE_JSON};
 *     pd_merge_result result;
 *     pd_code code = pd_merge(store, "agent-1", &options, NULL, &result, &err);
 *     if (code == PD_CONFLICT)
 *       for (size_t i = 0; i < result.conflict_count; i++) ask_about(&result.conflicts[i]);
 *     pd_merge_result_done(&result);
 *
 * A merge compares both sides with what they had in common: a key that one side changed is taken from it; a key that both changed is
 * merged by its rule. Nothing is written unless everything is settled.
 */
#ifndef PERDURE_MERGE_H
#define PERDURE_MERGE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- merging ------------------------------------------------------------------------------------------------------ */

/*
 * What to do with a key that both sides changed, each in its own way. The first four need nothing of the value but its bytes, or that it
 * is a JSON object; the others say what the value is. A value that does not fit its rule is a conflict that says so (pd_conflict.why).
 * One side deleting what the other changed is a conflict under every rule but PD_MERGE_OURS and PD_MERGE_THEIRS.
 */
typedef enum pd_merge_rule {
  PD_MERGE_FAIL = 0,    /* "fail": a conflict */
  PD_MERGE_OURS = 1,    /* "ours": the ref's value stays */
  PD_MERGE_THEIRS = 2,  /* "theirs": the other's value is taken */
  PD_MERGE_JSON = 3,    /* "json": objects member by member at any depth, anything else as a whole; digits of numbers are kept */
  PD_MERGE_COUNTER = 4, /* "counter": whole numbers of 64 bits; what both sides added is added up, also if both added the same */
  PD_MERGE_SET = 5,     /* "set": JSON arrays without order; what either side added or removed is added or removed */
  PD_MERGE_MAX = 6,     /* "max": the larger of two numbers (exact, of any length), JSON strings or texts */
  PD_MERGE_MIN = 7,     /* "min": the smaller one */
  PD_MERGE_APPEND = 8,  /* "append": JSON arrays, or texts that end with a newline: the base, what ours appended, what theirs appended */
  PD_MERGE_RULE_COUNT
} pd_merge_rule;

/* "fail", "ours"…; NULL for a number that is no rule. Static storage. */
PD_API const char *pd_merge_rule_name(pd_merge_rule rule);
/* PD_INVALID names what is allowed. */
PD_API PD_MUST_USE pd_code pd_merge_rule_parse(const char *name, pd_merge_rule *out, pd_error *err);

/* Rules by prefix are settings: "merge.rule.PREFIX" has the name of a rule, for all keys that begin with PREFIX. The longest prefix wins;
 * keys without one follow pd_merge_options.policy. */
#define PD_SETTING_MERGE_RULE "merge.rule."

/* What a resolution puts in the place of a conflict. */
typedef enum pd_take { PD_TAKE_VALUE = 0, PD_TAKE_DELETE, PD_TAKE_BASE, PD_TAKE_OURS, PD_TAKE_THEIRS } pd_take;

typedef struct pd_resolution {
  pd_bytes key;
  pd_bytes path;  /* empty: the whole key, whatever its rule. Else the JSON Pointer of a conflict under rule "json" */
  pd_take take;   /* a side without a value: delete */
  pd_bytes value; /* PD_TAKE_VALUE: the new value; with a path, JSON */
} pd_resolution;

#define PD_RESOLUTION_COUNT_MAX 100000

/* Zero-initialise. */
typedef struct pd_merge_options {
  pd_merge_rule policy;   /* for keys without a rule of their own; PD_MERGE_FAIL if zero */
  bool ignores_rules;     /* the policy for all keys: do not look at the settings */
  bool allows_unrelated;  /* also histories that have nothing in common but the empty root commit */
  bool no_fast_forward;   /* make a commit with two parents, also where moving the ref would do */
  bool is_dry_run;        /* find out, write nothing */
  uint32_t parent_number; /* cherry-pick and revert of a merge commit: against which parent, from 1; 0: the first */
  const pd_resolution *resolutions;
  size_t resolution_count;
} pd_merge_options;

typedef enum pd_merge_outcome {
  PD_MERGE_UP_TO_DATE = 0,   /* there was nothing to merge; nothing was written */
  PD_MERGE_FAST_FORWARD = 1, /* the ref was moved to `theirs` */
  PD_MERGE_COMMITTED = 2,    /* a commit was made */
  PD_MERGE_CONFLICTS = 3     /* nothing was written; see conflicts */
} pd_merge_outcome;

/* "up-to-date", "fast-forward", "committed", "conflicts". Static storage. */
PD_API const char *pd_merge_outcome_name(pd_merge_outcome outcome);

/* What both sides changed and no rule could merge. A side that has no value there is absent. */
typedef struct pd_conflict {
  pd_bytes key;
  pd_bytes path; /* JSON Pointer; empty: the whole value */
  pd_merge_rule rule;
  const char *why; /* one line. Static storage */
  bool has_base, has_ours, has_theirs;
  pd_bytes base, ours, theirs; /* with a path: JSON */
} pd_conflict;

/* What the merge does to one key of the ref. */
typedef struct pd_merge_change {
  pd_bytes key;
  bool is_delete;
  bool is_new;      /* the ref did not have it */
  bool is_both;     /* both sides had changed it: merged by `rule` */
  bool is_resolved; /* by a resolution */
  pd_merge_rule rule;
  uint64_t size; /* of the new value */
} pd_merge_change;

/* Zero-initialised by the call; everything in it lives until pd_merge_result_done. */
typedef struct pd_merge_result {
  pd_merge_outcome outcome;
  pd_commit base;    /* the common ancestor; the newest, if there are several */
  size_t base_count; /* criss-cross histories have several, which are merged first */
  pd_commit ours, theirs;
  pd_ack ack; /* zero if nothing was written */
  const pd_merge_change *changes;
  size_t change_count;
  const pd_conflict *conflicts; /* in order of keys */
  size_t conflict_count;        /* those kept: at most PD_CONFLICT_COUNT_MAX, and 256 MiB of values */
  uint64_t conflict_total;
  struct pd_merge_memory *memory;
} pd_merge_result;

#define PD_CONFLICT_COUNT_MAX 10000

/* Frees what the result holds. Takes NULL and a zeroed one. */
PD_API void pd_merge_result_done(pd_merge_result *result);

/*
 * Merge `theirs` (a point in history) into the ref (note->ref, or the handle's): one commit with two parents, or a move of the ref if it
 * has nothing of its own (fast-forward), or nothing if the ref has all of it. Costs what `theirs` changed, not what is stored.
 * `options`, `note` and `out` may be NULL. Without note->expect_head a ref that others move meanwhile is merged again with what they
 * wrote; with it that is PD_CONFLICT. Without note->reason the record says what was merged.
 *
 * Commits are told apart by their records: two agents that made the very same change made two changes, and a counter counts both.
 * Several best common ancestors (criss-cross) are merged into one base first, by the same rules; where they conflict, the base has what
 * they in turn had in common, so that such a key counts as changed by both sides.
 *
 * PD_CONFLICT with out->conflicts (`out` is written then): settle them in a second call with options->resolutions. PD_INVALID for
 * unrelated histories, a resolution that meets no change of `theirs`, a rule in the settings that is none. PD_RETIRED if gc has removed
 * commits that would be needed to find the common ancestor; PD_ERASED if a value that has to be merged is gone; PD_LIMIT past
 * PD_EDIT_COUNT_MAX changes. On every error nothing is changed.
 */
PD_API PD_MUST_USE pd_code pd_merge(pd_store *store, const char *theirs, const pd_merge_options *options, const pd_note *note,
                                    pd_merge_result *out, pd_error *err);

/* Do to the ref what one commit did: a merge whose base is the commit's parent. One commit with one parent, or none if that changes
 * nothing (PD_MERGE_UP_TO_DATE). Errors as of pd_merge; PD_INVALID for the root commit and a parent that the commit does not have. */
PD_API PD_MUST_USE pd_code pd_cherry_pick(pd_store *store, const char *at, const pd_merge_options *options, const pd_note *note,
                                          pd_merge_result *out, pd_error *err);
/* Undo in the ref what one commit did, and keep what came after it: a merge whose base is the commit, and theirs is its parent. */
PD_API PD_MUST_USE pd_code pd_revert(pd_store *store, const char *at, const pd_merge_options *options, const pd_note *note,
                                     pd_merge_result *out, pd_error *err);

/* The best common ancestors of two points, newest first: usually one, the root commit if the histories are unrelated. At most
 * `count_max` are written; *out_count is how many there are. */
PD_API PD_MUST_USE pd_code pd_common_ancestors(pd_store *store, const char *a, const char *b, pd_commit *out, size_t count_max,
                                               size_t *out_count, pd_error *err);

/* ---- settings ----------------------------------------------------------------------------------------------------- */

/* Settings belong to the store, not to a ref: all processes and handles see them, and each change is a record of the log. A name is any
 * key of at most 1000 bytes; values are text of at most PD_SETTING_SIZE_MAX bytes. */
#define PD_SETTING_SIZE_MAX 65536

/* PD_NOT_FOUND. The value replaces what `out` holds. */
PD_API PD_MUST_USE pd_code pd_setting_get(pd_store *store, const char *name, pd_buf *out, pd_error *err);
/* PD_INVALID if a setting that perdure knows ("merge.rule.…", "gc.…") cannot have this value. `note->ref` is ignored. */
PD_API PD_MUST_USE pd_code pd_setting_set(pd_store *store, const char *name, pd_bytes value, const pd_note *note, pd_error *err);
/* PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_setting_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err);
/* Visit all settings whose names begin with `prefix` (NULL: all), by name. Return false to stop. */
PD_API PD_MUST_USE pd_code pd_setting_list(pd_store *store, const char *prefix, bool (*visit)(void *ctx, const char *name, pd_bytes value),
                                           void *ctx, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
