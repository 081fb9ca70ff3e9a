/* map64.c: see map64.h. */
#include "base/map64.h"

#include "base/base.h"
#include "base/error.h"

#include <stdlib.h>

#define SIZE_MIN 1024

void pd_map64_done(pd_map64 *map)
{
  free(map->slots);
  *map = (pd_map64){0};
}

static pd_map64_slot *slot_of(const pd_map64 *map, uint64_t key)
{
  size_t mask = map->size - 1, at = key & mask;
  while (map->slots[at].key && map->slots[at].key != key) at = (at + 1) & mask;
  return &map->slots[at];
}

static pd_code grow(pd_map64 *map, pd_error *err)
{
  pd_map64 larger = {.size = map->size ? map->size * 2 : SIZE_MIN, .count = map->count};
  larger.slots = calloc(larger.size, sizeof *larger.slots);
  if (!larger.slots) return pd_error_memory(err, "a set of numbers");
  for (size_t i = 0; i < map->size; i++)
    if (map->slots[i].key) *slot_of(&larger, map->slots[i].key) = map->slots[i];
  free(map->slots);
  *map = larger;
  return PD_OK;
}

pd_code pd_map64_add(pd_map64 *map, uint64_t key, uint32_t **out_value, bool *out_is_new, pd_error *err)
{
  if (!key) key = 1; /* 0 is a free slot */
  if (map->count * 3 >= map->size * 2) TRY(grow(map, err));
  pd_map64_slot *slot = slot_of(map, key);
  bool is_new = !slot->key;
  if (is_new) *slot = (pd_map64_slot){.key = key};
  map->count += is_new;
  if (out_value) *out_value = &slot->value;
  if (out_is_new) *out_is_new = is_new;
  return PD_OK;
}

uint32_t *pd_map64_find(const pd_map64 *map, uint64_t key)
{
  if (!map->size) return NULL;
  pd_map64_slot *slot = slot_of(map, key ? key : 1);
  return slot->key ? &slot->value : NULL;
}
