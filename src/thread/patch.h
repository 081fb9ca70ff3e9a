/*
 * patch.h: lists of changes to a JSON state, applied whole or not at all (docs/guide/patches.md is the manual of the forms).
 *
 * P1  A list that is refused leaves the doc as it was; the error says which patch (from 1), its op and its path.
 * P2  Outside of the touched paths nothing has changed. They are minimal: sorted, none inside another. A container that was empty before
 *     or is empty now is touched itself, as is an array whose items moved.
 * P3  Applying is a function of doc and list alone: no clock, no chance, so a replay gives the same bytes.
 * P4  Lattice merges commute, associate and are idempotent: any order of the same merges gives the same bytes (src/thread/lattice.h).
 * P5  The root stays an object.
 */
#ifndef PD_THREAD_PATCH_H
#define PD_THREAD_PATCH_H

#include "base/doc.h"

#define PD_PATCHES_MAX 10000 /* in one list */

typedef struct pd_patches pd_patches;

/*
 * From JSON: an array of {"op", "path", …} with the members that the op has. PD_INVALID names patch, op and path, and what is wrong: an
 * unknown op or member, a value that the op cannot use, a number that no double can hold. PD_LIMIT for PD_PATCHES_MAX and the limits of
 * paths and docs. `list` is borrowed: its text must outlive *out. Free with pd_patches_free. PD_JSON_NONE is an empty list.
 */
PD_MUST_USE pd_code pd_patches_parse(pd_json list, pd_patches **out, pd_error *err);
void pd_patches_free(pd_patches *patches); /* NULL is fine */
size_t pd_patches_count(const pd_patches *patches);
/* Append the list as canonical JSON: what is kept for a replay. */
PD_MUST_USE pd_code pd_patches_write(const pd_patches *patches, pd_buf *out, pd_error *err);

/* Paths, each with names and indices only; {0} is none. */
typedef struct pd_touched {
  pd_doc_path *paths;
  size_t count, capacity;
} pd_touched;

void pd_touched_done(pd_touched *touched);
PD_MUST_USE pd_code pd_touched_add(pd_touched *touched, const pd_doc_step *steps, size_t count, pd_error *err);
/* Sort the paths, and drop those that lie inside another. */
void pd_touched_minimize(pd_touched *touched);

/* Add the paths that a list reads and writes: those of the patches, with the steps of pointers as they are (PD_STEP_EITHER); of a
 * merge_object those of its members. The result is not minimal. */
PD_MUST_USE pd_code pd_patches_paths(const pd_patches *patches, pd_touched *out, pd_error *err);

/* Apply them in order. On success the edits can still be taken back (pd_doc_mark before, pd_doc_undo after; pd_doc_keep ends that), on
 * failure they are (P1): PD_INVALID for what does not fit the state, PD_LIMIT for size and depth, PD_NO_MEMORY. `out_touched` may be NULL;
 * what it held before stays, and minimal it is over all (P2), so two lists can be applied one after the other. */
PD_MUST_USE pd_code pd_patches_apply(const pd_patches *patches, pd_doc *doc, pd_touched *out_touched, pd_error *err);

/* Two patches of parallel lists that write into the same place. Valid during the visit. */
typedef struct pd_patch_conflict {
  size_t a_index, b_index;            /* from 0 */
  const char *a_op, *b_op;            /* static storage */
  const pd_doc_path *a_path, *b_path; /* what each writes; equal, or one inside the other */
} pd_patch_conflict;

typedef pd_code (*pd_patch_conflict_visit)(void *ctx, const pd_patch_conflict *conflict, pd_error *err);

/* Visit what conflicts between two lists that were made in parallel from the same state (by two tool calls, say): paths that are equal or
 * one inside the other, unless both are merges into the same lattice at the same path. Patches that move items (insert, remove, a delete
 * of an item, append) write the whole array. Each pair of paths comes once. What the visitor returns besides PD_OK ends it. Reads no
 * state, so a numeral in a pointer counts as name and index. n log n. */
PD_MUST_USE pd_code pd_patches_conflicts(const pd_patches *a, const pd_patches *b, pd_patch_conflict_visit visit, void *ctx, pd_error *err);

#endif
