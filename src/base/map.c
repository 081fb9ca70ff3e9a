/* map.c: see map.h. */
#include "base/map.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"

#include <stdlib.h>

#define SIZE_MIN 16

uint64_t pd_map_hash(pd_bytes bytes, uint64_t seed)
{
  const uint8_t *at = bytes.data;
  uint64_t hash = seed + bytes.size, word = 0;
  size_t left = bytes.size;
  for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
    memcpy(&word, at, sizeof word);
    hash = pd_mix64(hash, word);
  }
  word = 0;
  if (left) memcpy(&word, at, left);
  return pd_mix64(hash, word);
}

void pd_map_done(pd_map *map)
{
  free(map->slots);
  map->slots = NULL;
  map->count = map->size = 0;
}

static pd_bytes key_of(const pd_map *map, const void *item)
{
  return map->key_of ? map->key_of(item) : pd_text((const char *)item + map->text_at);
}

/* Where the key is, or the free slot where it would be. The table has a free slot. */
static size_t slot_of(const pd_map *map, pd_bytes key, uint64_t hash)
{
  size_t mask = map->size - 1, i = hash & mask;
  for (; map->slots[i].item; i = (i + 1) & mask)
    if (map->slots[i].hash == hash && pd_bytes_equal(key_of(map, map->slots[i].item), key)) break;
  return i;
}

void *pd_map_find(const pd_map *map, pd_bytes key)
{
  return map->count ? map->slots[slot_of(map, key, pd_map_hash(key, map->seed))].item : NULL;
}

static pd_code resize(pd_map *map, size_t size, pd_error *err)
{
  pd_map_slot *slots = calloc(size, sizeof *slots);
  if (!slots) return pd_error_memory(err, "a table");
  for (size_t i = 0; i < map->size; i++) {
    if (!map->slots[i].item) continue;
    size_t at = map->slots[i].hash & (size - 1);
    while (slots[at].item) at = (at + 1) & (size - 1);
    slots[at] = map->slots[i];
  }
  free(map->slots);
  map->slots = slots;
  map->size = size;
  return PD_OK;
}

pd_code pd_map_put(pd_map *map, void *item, void **out_old, pd_error *err)
{
  if (map->count * 4 >= map->size * 3) TRY(resize(map, map->size ? map->size * 2 : SIZE_MIN, err));
  pd_bytes key = key_of(map, item);
  uint64_t hash = pd_map_hash(key, map->seed);
  pd_map_slot *slot = &map->slots[slot_of(map, key, hash)];
  map->count += !slot->item;
  if (out_old) *out_old = slot->item;
  *slot = (pd_map_slot){hash, item};
  return PD_OK;
}

/* Move what follows a gap into it, as long as that brings it nearer to its own slot. */
static void close_gap(pd_map *map, size_t gap)
{
  size_t mask = map->size - 1;
  for (size_t i = (gap + 1) & mask; map->slots[i].item; i = (i + 1) & mask) {
    size_t home = map->slots[i].hash & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue; /* its own slot lies behind the gap */
    map->slots[gap] = map->slots[i];
    map->slots[i] = (pd_map_slot){0};
    gap = i;
  }
}

void *pd_map_remove(pd_map *map, pd_bytes key)
{
  if (!map->count) return NULL;
  size_t at = slot_of(map, key, pd_map_hash(key, map->seed));
  void *item = map->slots[at].item;
  if (!item) return NULL;
  map->slots[at] = (pd_map_slot){0};
  map->count--;
  close_gap(map, at);
  if (map->size > SIZE_MIN && map->count * 8 < map->size) (void)!resize(map, map->size / 4 > SIZE_MIN ? map->size / 4 : SIZE_MIN, NULL);
  return item; /* without memory for a smaller table, the larger one serves too */
}

void *pd_map_next(const pd_map *map, size_t *at)
{
  while (*at < map->size && !map->slots[*at].item) ++*at;
  return *at < map->size ? map->slots[(*at)++].item : NULL;
}
