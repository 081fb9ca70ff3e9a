/*
 * id_map.h: a set of ids, each with a small number of its own. Whole ids are compared: what decides about deletion must not rest on a
 * part of them.
 */
#ifndef PD_DAG_ID_MAP_H
#define PD_DAG_ID_MAP_H

#include <perdure/perdure.h>

typedef struct pd_id_map_slot {
  pd_id id; /* zeros: free */
  uint32_t value;
} pd_id_map_slot;

/* Zero-initialise; pd_id_map_done frees. */
typedef struct pd_id_map {
  pd_id_map_slot *slots;
  size_t count, size;
} pd_id_map;

void pd_id_map_done(pd_id_map *map);
/* The number of `id`, made 0 if it is new; *out_is_new says so. Both may be NULL. Borrowed until the next add. PD_INVALID for the id of
 * zeros, which no content has. */
PD_MUST_USE pd_code pd_id_map_add(pd_id_map *map, const pd_id *id, uint32_t **out_value, bool *out_is_new, pd_error *err);
/* NULL if it is not there. */
uint32_t *pd_id_map_find(const pd_id_map *map, const pd_id *id);

#endif
