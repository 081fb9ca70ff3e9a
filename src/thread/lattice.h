/*
 * lattice.h: values in the state that parallel writers may merge into in any order, any number of times, with the same result.
 *
 * | lattice | its state in the JSON                   | a merge takes                                      | joins by        |
 * |---------|-----------------------------------------|----------------------------------------------------|-----------------|
 * | flag    | true or false                           | true or false                                      | or              |
 * | max     | a number, or a string                   | the same kind                                      | the greater     |
 * | min     | a number, or a string                   | the same kind                                      | the lesser      |
 * | counter | {"$counter":{REPLICA: n}}               | {REPLICA: n}: all that this replica has counted    | greater n each  |
 * | set     | {"$set":{ITEM: true}}                   | [item, …]                                          | union           |
 * | or_set  | {"$or_set":{ITEM:{TAG: true or false}}} | [{"item","tag"}, {"item","tag","removed":true}, …] | removed wins    |
 * | or_map  | {"$or_map":{KEY:{TAG: [v] or false}}}   | [{"key","tag","value"}, {"key","tag","removed"},…] | removed wins    |
 *
 * ITEM is the canonical JSON text of the item. A merge also takes a whole state in place of the short form. REPLICA and TAG are named by
 * the writer, 1 to 256 bytes: each writer counts under a replica of its own, and every addition has a tag of its own ("run7-3").
 *
 * L1  A join changes nothing that is already there: joining twice is joining once.
 * L2  Of two values that are equal but written differently (1 and 1.0), or two under one tag, the same one is kept in any order.
 */
#ifndef PD_THREAD_LATTICE_H
#define PD_THREAD_LATTICE_H

#include "base/doc.h"

#define PD_LATTICE_TAG_SIZE_MAX 256

typedef enum pd_lattice {
  PD_LATTICE_NONE = 0,
  PD_LATTICE_FLAG,
  PD_LATTICE_MAX,
  PD_LATTICE_MIN,
  PD_LATTICE_COUNTER,
  PD_LATTICE_SET,
  PD_LATTICE_OR_SET,
  PD_LATTICE_OR_MAP,
  PD_LATTICE_COUNT
} pd_lattice;

const char *pd_lattice_name(pd_lattice lattice);
/* PD_LATTICE_NONE if it is none of them. */
pd_lattice pd_lattice_named(pd_json name);

/* Is `value` something to merge into this lattice? PD_INVALID says why not. */
PD_MUST_USE pd_code pd_lattice_check(pd_lattice lattice, pd_json value, pd_error *err);

/* Hears of what a join is about to change. */
typedef pd_code (*pd_lattice_touch)(void *ctx, const pd_doc_step *steps, size_t count, pd_error *err);

/* Join `value` into what is at `place`; absent is the least state. PD_INVALID if what is there is no state of this lattice. The caller
 * takes back what was done before a failure (pd_doc_undo). */
PD_MUST_USE pd_code pd_lattice_join(pd_lattice lattice, pd_doc *doc, pd_doc_place *place, pd_json value, pd_lattice_touch touch, void *ctx,
                                    pd_error *err);

/* Append the value with every lattice state in it as what it stands for: a counter as its sum, sets as sorted arrays, a map as an object
 * (of several values under one key that of the greatest tag). What only looks like a state stays as it is. */
PD_MUST_USE pd_code pd_lattice_view(const pd_node *node, pd_buf *out, pd_error *err);

#endif
