/*
 * statestore_map.h: the keys and values of a StateStore, in the order of their first set, like a JavaScript Map. Not thread-safe: the
 * store's lock is around it.
 *
 * M1  A cell that is held by more than the map (refs > 1) is never written again: a flush or a listing reads it without the lock.
 * M2  Nodes lie in the order in which their keys were first set; a removed one leaves a hole, and holes go when the arrays are made anew.
 * M3  `dirty` has each node with is_dirty once, and perhaps holes; it has room for all nodes, so marking never fails.
 */
#ifndef PD_STATE_STATESTORE_MAP_H
#define PD_STATE_STATESTORE_MAP_H

#include <perdure/perdure.h>

/* A key and its value in one piece of memory: the key's bytes, then the value's. */
typedef struct pd_statecell {
  uint32_t refs;
  uint32_t key_size, value_size;
  uint32_t value_room;
  uint8_t bytes[];
} pd_statecell;

static inline pd_bytes pd_statecell_key(const pd_statecell *cell)
{
  return (pd_bytes){cell->bytes, cell->key_size};
}

static inline pd_bytes pd_statecell_value(const pd_statecell *cell)
{
  return (pd_bytes){cell->bytes + cell->key_size, cell->value_size};
}

/* With one reference. NULL: no memory. Both sizes fit 31 bits. */
pd_statecell *pd_statecell_new(pd_bytes key, pd_bytes value);
/* Give one reference back. Takes NULL. */
void pd_statecell_drop(pd_statecell *cell);

typedef struct pd_statemap_node {
  pd_statecell *cell; /* NULL: a hole */
  uint32_t tag;       /* the low bits of its key's hash */
  bool is_dirty;
  bool is_stored; /* the shelf has the key, or may have it */
} pd_statemap_node;

typedef struct pd_statemap_slot {
  uint32_t tag, index; /* index + 1 of a node; 0: free */
} pd_statemap_slot;

/* Zero-initialise, with any seed; pd_statemap_done frees. */
typedef struct pd_statemap {
  pd_statemap_slot *slots; /* open addressing, linear; a removal closes the gap. Twice as many as nodes */
  pd_statemap_node *nodes;
  uint32_t *dirty;
  size_t capacity; /* of nodes and dirty: a power of two, or 0 */
  size_t used;     /* nodes, holes included */
  size_t count;    /* nodes with a cell */
  size_t dirty_count;
  size_t bytes; /* of all keys and values */
  uint64_t seed;
} pd_statemap;

/* Empty it and give its memory back; it may be used again. */
void pd_statemap_done(pd_statemap *map);
/* Hash a key, outside of the lock if you like. */
uint32_t pd_statemap_tag(const pd_statemap *map, pd_bytes key);
/* NULL if it is not there. Borrowed until the map changes. */
pd_statemap_node *pd_statemap_find(const pd_statemap *map, pd_bytes key, uint32_t tag);
/* After this, `more` cells with new keys can be placed. */
PD_MUST_USE pd_code pd_statemap_reserve(pd_statemap *map, size_t more, pd_error *err);
/* Take over `cell`: in the place of the cell with its key, or behind all others. There is room for it. */
pd_statemap_node *pd_statemap_place(pd_statemap *map, pd_statecell *cell, uint32_t tag);
/* Write the value into the node's own cell, if that may be done (M1) and it fits. */
bool pd_statemap_overwrite(pd_statemap *map, pd_statemap_node *node, pd_bytes value);
/* Take the node's cell out; it is the caller's. */
pd_statecell *pd_statemap_remove(pd_statemap *map, pd_statemap_node *node);
void pd_statemap_mark(pd_statemap *map, pd_statemap_node *node);

#endif
