/*
 * map.h: the one hash map: things of the caller by a key of theirs. Not thread-safe.
 *
 * Open addressing with linear probing over a table of (hash, pointer). No tombstones: a removal closes its gap, and a table that is mostly
 * empty shrinks. The things stay where they are and hold their keys, which must not change while they are in the map.
 *
 * Apart from it stand map64.h and dag/id_map.h, whose keys are of one size and lie in the table itself: they count millions of records.
 */
#ifndef PD_BASE_MAP_H
#define PD_BASE_MAP_H

#include <perdure/perdure.h>

typedef struct pd_map_slot {
  uint64_t hash;
  void *item; /* NULL: free */
} pd_map_slot;

/* Zero-initialise but for `text_at` or `key`, and a seed where strangers choose the keys; pd_map_done frees. */
typedef struct pd_map {
  size_t text_at;                       /* offsetof a char array with the key as text, unless … */
  pd_bytes (*key_of)(const void *item); /* … it is something else */
  uint64_t seed;                        /* so that nobody can choose keys that meet in one place */
  pd_map_slot *slots;
  size_t count, size; /* size is a power of two, or 0 */
} pd_map;

uint64_t pd_map_hash(pd_bytes bytes, uint64_t seed);

/* Empty it; it may be used again. The things are the caller's still. */
void pd_map_done(pd_map *map);
/* NULL if it is not there. */
void *pd_map_find(const pd_map *map, pd_bytes key);
/* Add `item`, in the place of the one with its key if there is one: *out_old (may be NULL if there is none for certain) is that, or NULL.
 * PD_NO_MEMORY: nothing is changed. */
PD_MUST_USE pd_code pd_map_put(pd_map *map, void *item, void **out_old, pd_error *err);
/* Take it out. NULL if it is not there. */
void *pd_map_remove(pd_map *map, pd_bytes key);
/* Each thing, in no order: begin with *at = 0; NULL after the last. The map must not change meanwhile. */
void *pd_map_next(const pd_map *map, size_t *at);

#endif
