/* id_map.c: see id_map.h. Open addressing by the first bytes of the id, which are as good as random unless somebody made them so. */
#include "dag/id_map.h"

#include "base/base.h"
#include "base/error.h"

#include <stdlib.h>

#define SIZE_MIN 256

static const pd_id none;

void pd_id_map_done(pd_id_map *map)
{
  free(map->slots);
  *map = (pd_id_map){0};
}

static pd_id_map_slot *slot_of(const pd_id_map *map, const pd_id *id)
{
  uint64_t hash;
  memcpy(&hash, id->bytes, sizeof hash);
  size_t mask = map->size - 1, at = (size_t)hash & mask;
  while (!pd_id_equal(&map->slots[at].id, &none) && !pd_id_equal(&map->slots[at].id, id)) at = (at + 1) & mask;
  return &map->slots[at];
}

static pd_code grow(pd_id_map *map, pd_error *err)
{
  pd_id_map larger = {.size = map->size ? map->size * 2 : SIZE_MIN, .count = map->count};
  larger.slots = calloc(larger.size, sizeof *larger.slots);
  if (!larger.slots) return pd_error_memory(err, "a set of ids");
  for (size_t i = 0; i < map->size; i++)
    if (!pd_id_equal(&map->slots[i].id, &none)) *slot_of(&larger, &map->slots[i].id) = map->slots[i];
  free(map->slots);
  *map = larger;
  return PD_OK;
}

pd_code pd_id_map_add(pd_id_map *map, const pd_id *id, uint32_t **out_value, bool *out_is_new, pd_error *err)
{
  if (pd_id_equal(id, &none)) return pd_error_set(err, PD_INVALID, "an id of zeros names nothing");
  if (map->count * 3 >= map->size * 2) TRY(grow(map, err));
  pd_id_map_slot *slot = slot_of(map, id);
  bool is_new = pd_id_equal(&slot->id, &none);
  if (is_new) *slot = (pd_id_map_slot){.id = *id};
  map->count += is_new;
  if (out_value) *out_value = &slot->value;
  if (out_is_new) *out_is_new = is_new;
  return PD_OK;
}

uint32_t *pd_id_map_find(const pd_id_map *map, const pd_id *id)
{
  if (!map->size || pd_id_equal(id, &none)) return NULL;
  pd_id_map_slot *slot = slot_of(map, id);
  return pd_id_equal(&slot->id, &none) ? NULL : &slot->value;
}
