/*
 * doc_path.h: where a value lies inside a JSON value: names of members and indices of items, from the root down.
 *
 * Written as an array, ["todos", 3, "title"]: strings are names, integers are indices. Written as a JSON Pointer (RFC 6901),
 * "/todos/3/title": whether a numeral is a name or an index is decided by what it meets, and "-" is the place behind the last item.
 */
#ifndef PD_BASE_DOC_PATH_H
#define PD_BASE_DOC_PATH_H

#include "base/json.h"

#define PD_DOC_DEPTH_MAX 100       /* of a doc, and of a path into one: leaves room for what documents are wrapped in (PD_JSON_DEPTH_MAX) */
#define PD_DOC_NAME_SIZE_MAX 65536 /* of one member's name, decoded */
#define PD_DOC_INDEX_MAX 4294967295u /* of an item */

typedef enum pd_doc_step_kind {
  PD_STEP_NAME = 0, /* a member */
  PD_STEP_INDEX,    /* an item */
  PD_STEP_EITHER    /* of a JSON Pointer: `name` holds the text, be it a numeral or "-" */
} pd_doc_step_kind;

typedef struct pd_doc_step {
  pd_doc_step_kind kind;
  pd_bytes name;  /* decoded; not for PD_STEP_INDEX */
  uint64_t index; /* only for PD_STEP_INDEX */
} pd_doc_step;

/* One block on the heap holds steps and names; all zero is the path of the root. */
typedef struct pd_doc_path {
  pd_doc_step *steps;
  size_t count;
} pd_doc_path;

void pd_doc_path_done(pd_doc_path *path);

/* From JSON: an array of strings and integers, or a string with a JSON Pointer. PD_INVALID says what is wrong with it; PD_LIMIT past
 * PD_DOC_DEPTH_MAX steps, PD_DOC_NAME_SIZE_MAX or PD_DOC_INDEX_MAX. */
PD_MUST_USE pd_code pd_doc_path_parse(pd_json value, pd_doc_path *out, pd_error *err);
/* From the text of a JSON Pointer ("" is the root); the same errors, and PD_INVALID for what is no UTF-8. */
PD_MUST_USE pd_code pd_doc_path_pointer(pd_bytes text, pd_doc_path *out, pd_error *err);
/* A copy of the first `count` steps of `path`, and of `more` behind them unless it is NULL. */
PD_MUST_USE pd_code pd_doc_path_copy(const pd_doc_step *steps, size_t count, const pd_doc_step *more, pd_doc_path *out, pd_error *err);

/* Append it as a JSON Pointer. */
PD_MUST_USE pd_code pd_doc_path_write(const pd_doc_step *steps, size_t count, pd_buf *out, pd_error *err);
/* Append it as an array of names and indices; PD_STEP_EITHER as a string. */
void pd_doc_path_json(const pd_doc_step *steps, size_t count, pd_json_writer *w);
/* The same for messages: into `out` of `size` bytes, cut off with dots if it is longer; returns `out`. */
const char *pd_doc_path_text(const pd_doc_step *steps, size_t count, char *out, size_t size);

/* Is `step` a numeral without leading zeros (or an index)? Then it goes to `out`. */
bool pd_doc_step_index(const pd_doc_step *step, uint64_t *out);
/* Steps are ordered by their text, so an index and a numeral with the same digits are equal. */
int pd_doc_step_compare(const pd_doc_step *a, const pd_doc_step *b);
/* A path before those inside it. */
int pd_doc_path_compare(const pd_doc_path *a, const pd_doc_path *b);
/* Is `inner` the same as `outer`, or inside it? */
bool pd_doc_path_covers(const pd_doc_path *outer, const pd_doc_path *inner);

#endif
