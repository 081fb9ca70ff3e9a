/*
 * part.h: as much of a thread's state as a list of patches needs, so that applying it costs what it touches and not the whole state.
 *
 * Q1  What lies at a wanted path is loaded whole. An object on the way to one is a shell: it has the members on the way and, if the state
 *     has other members there, one placeholder (null) that stands for all of them. So "is it empty" and "is this its only member" have
 *     the same answer as in the whole state. An array on the way is loaded whole.
 * Q2  A list whose paths are all wanted does to the part what it does to the whole state: the same touched paths, the same values there,
 *     the same change in size. Nobody reads a shell otherwise: no touched path covers one, which pd_part_is_sound checks.
 * Q3  A part is used only for lists that are accepted. A list that the part refuses is applied to the whole state, which gives the error.
 * Q4  The size of the rest is not known exactly, so the part's limit is what PD_DOC_SIZE_MAX leaves beside an upper bound for all of the
 *     state. A list that reaches the limit is refused by the part, and Q3 applies.
 */
#ifndef PD_THREAD_PART_H
#define PD_THREAD_PART_H

#include "thread/patch.h"

#define PD_PART_PATHS_MAX 100 /* more wanted paths than this: the whole state is loaded */

/* {0} is none. */
typedef struct pd_part {
  pd_doc *doc;
  pd_touched placeholders; /* their paths */
  uint64_t bound;          /* the state, as it was loaded, has at most so many bytes (Q4) */
  size_t loaded_size;      /* of the doc */
} pd_part;

void pd_part_done(pd_part *part);

/* Load what lies at the paths, which are minimal (pd_touched_minimize) and are not the root's. `tree` is the id of the tree that `view`
 * reads. See pd_part_is_refused for errors. */
PD_MUST_USE pd_code pd_part_load(pd_view *view, const pd_id *tree, const pd_touched *wanted, pd_part *out, pd_error *err);
/* Is this a reason to use the whole state instead, be it of loading the part or of applying a list to it? Else it is a failure. */
bool pd_part_is_refused(pd_code code);
/* May the leaves at these paths be taken from the part? (Q2) */
bool pd_part_is_sound(const pd_part *part, const pd_touched *touched);
/* The bound for the state with the edits that were made to the part. */
uint64_t pd_part_bound(const pd_part *part);

/*
 * Upper bounds for the size of states, by the id of the tree. A tree's id is the hash of its contents, so what is remembered stays true:
 * in every store, whatever other threads or processes commit. The table is the process's, of fixed size; an entry can be overwritten, and
 * then the keys of the state are walked again.
 */
void pd_state_bound_note(const pd_id *tree, uint64_t bound);
/* False: not known. */
bool pd_state_bound_known(const pd_id *tree, uint64_t *out);

#endif
