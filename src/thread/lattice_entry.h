/* lattice_entry.h: what is merged into a counter, set or map, entry by entry, be it written in the short form or as a whole state. */
#ifndef PD_THREAD_LATTICE_ENTRY_H
#define PD_THREAD_LATTICE_ENTRY_H

#include "thread/lattice.h"

/* One leaf of a state. Valid during the visit. */
typedef struct pd_lattice_entry {
  pd_bytes key;  /* the replica, the item's text, or the map's key */
  pd_bytes tag;  /* empty: this lattice has none */
  pd_json value; /* a number, true, true or false, [value] or false */
} pd_lattice_entry;

typedef pd_code (*pd_lattice_visit)(void *ctx, const pd_lattice_entry *entry, pd_error *err);

/* "$counter"…: the one member of a state; NULL for flag, max and min, which are plain values. */
const char *pd_lattice_mark(pd_lattice lattice);
/* Has it tags under its keys? */
bool pd_lattice_is_tagged(pd_lattice lattice);

/* Visit the entries of what is to be merged. PD_INVALID for all that is no short form and no state. */
PD_MUST_USE pd_code pd_lattice_entries(pd_lattice lattice, pd_json value, pd_lattice_visit visit, void *ctx, pd_error *err);

#endif
