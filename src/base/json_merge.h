/*
 * json_merge.h: JSON values compared by what they mean, and merged three ways.
 *
 * Two values mean the same if they differ only in white space, in the order of members, or in how strings are escaped. Numbers keep
 * their digits: 1 and 1.0 are two values.
 */
#ifndef PD_BASE_JSON_MERGE_H
#define PD_BASE_JSON_MERGE_H

#include "base/json.h"
#include "base/json_number.h"

/* Append the one text that all values of the same meaning share: no white space, members sorted by name. Nothing for PD_JSON_NONE. */
PD_MUST_USE pd_code pd_json_canonical(pd_json value, pd_buf *out, pd_error *err);
/* The same, and how many bytes were passed over to find the ends of values: in proportion to the size, however deep it is. */
PD_MUST_USE pd_code pd_json_canonical_counted(pd_json value, pd_buf *out, uint64_t *out_passed, pd_error *err);
/* Do they mean the same? An absent value equals only an absent one. */
PD_MUST_USE pd_code pd_json_equal(pd_json a, pd_json b, bool *out, pd_error *err);
/* The order of two strings by their decoded bytes. */
int pd_json_string_compare(pd_json a, pd_json b);

/* The sides of a three-way merge, wherever three of something stand in an array. */
enum { PD_SIDE_BASE = 0, PD_SIDE_OURS = 1, PD_SIDE_THEIRS = 2, PD_SIDE_COUNT = 3 };

/* Both sides changed what is at `path` (a JSON Pointer; "" is the whole), each in its own way. *chosen is the base's value, and what the
 * result gets; the visitor may set another, or PD_JSON_NONE for no member at all. */
typedef pd_code (*pd_json_conflict)(void *ctx, pd_bytes path, const pd_json sides[PD_SIDE_COUNT], pd_json *chosen, pd_error *err);

/*
 * Merge objects member by member, at any depth, and anything else as a whole. The result is appended to `out` without white space:
 * members that the base has in its order, new ones behind them sorted by name, so it does not depend on which side is which, nor on the
 * order of members in the sides. No object may have a key twice (pd_json_unique). If the result is no value at all, nothing is
 * appended.
 */
PD_MUST_USE pd_code pd_json_merge(const pd_json sides[PD_SIDE_COUNT], pd_json_conflict conflict, void *ctx, pd_buf *out, pd_error *err);

#endif
