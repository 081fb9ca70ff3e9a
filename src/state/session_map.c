/* session_map.c: see session_map.h. */
#include "state/session_map.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"

#include <stdlib.h>

#define SIZE_MIN 16

uint64_t pd_session_hash(pd_bytes bytes, uint64_t seed)
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

void pd_session_map_done(pd_session_map *map)
{
  for (size_t i = 0; i < map->size; i++) free(map->slots[i]);
  free(map->slots);
  *map = (pd_session_map){.seed = map->seed};
}

/* Where the key is, or the free place where it would be. The map has a free place. */
static size_t place_of(const pd_session_map *map, pd_bytes key, uint64_t hash)
{
  size_t mask = map->size - 1, i = hash & mask;
  for (; map->slots[i]; i = (i + 1) & mask)
    if (map->slots[i]->hash == hash && pd_bytes_equal(pd_session_entry_key(map->slots[i]), key)) return i;
  return i;
}

const pd_session_entry *pd_session_map_find(const pd_session_map *map, pd_bytes key)
{
  return map->count ? map->slots[place_of(map, key, pd_session_hash(key, map->seed))] : NULL;
}

static pd_code resize(pd_session_map *map, size_t size, pd_error *err)
{
  pd_session_entry **slots = calloc(size, sizeof *slots);
  if (!slots) return pd_error_memory(err, "a session's keys");
  for (size_t i = 0; i < map->size; i++) {
    if (!map->slots[i]) continue;
    size_t at = map->slots[i]->hash & (size - 1);
    while (slots[at]) at = (at + 1) & (size - 1);
    slots[at] = map->slots[i];
  }
  free(map->slots);
  map->slots = slots;
  map->size = size;
  return PD_OK;
}

static size_t entry_bytes(const pd_session_entry *entry)
{
  return entry ? (size_t)entry->key_size + entry->value_size : 0;
}

pd_code pd_session_map_put(pd_session_map *map, pd_bytes key, pd_bytes value, pd_error *err)
{
  if (map->count * 4 >= map->size * 3) TRY(resize(map, map->size ? map->size * 2 : SIZE_MIN, err));
  pd_session_entry *made = malloc(sizeof *made + key.size + value.size);
  if (!made) return pd_error_memory(err, "a session's value");
  *made = (pd_session_entry){pd_session_hash(key, map->seed), (uint32_t)key.size, (uint32_t)value.size};
  if (key.size) memcpy(made->bytes, key.data, key.size);
  if (value.size) memcpy(made->bytes + key.size, value.data, value.size);
  size_t at = place_of(map, key, made->hash);
  pd_session_entry *old = map->slots[at];
  map->slots[at] = made;
  map->bytes += entry_bytes(made) - entry_bytes(old);
  map->count += !old;
  free(old);
  return PD_OK;
}

/* Move what follows a gap into it, as long as that brings it nearer to its own place. */
static void close_gap(pd_session_map *map, size_t gap)
{
  size_t mask = map->size - 1;
  for (size_t i = (gap + 1) & mask; map->slots[i]; i = (i + 1) & mask) {
    size_t home = map->slots[i]->hash & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue; /* its own place lies behind the gap */
    map->slots[gap] = map->slots[i];
    map->slots[i] = NULL;
    gap = i;
  }
}

bool pd_session_map_remove(pd_session_map *map, pd_bytes key)
{
  if (!map->count) return false;
  size_t at = place_of(map, key, pd_session_hash(key, map->seed));
  pd_session_entry *old = map->slots[at];
  if (!old) return false;
  map->slots[at] = NULL;
  close_gap(map, at);
  map->bytes -= entry_bytes(old);
  map->count--;
  free(old);
  if (map->size > SIZE_MIN && map->count * 8 < map->size && resize(map, map->size / 4 > SIZE_MIN ? map->size / 4 : SIZE_MIN, NULL))
    return true; /* no memory for a smaller table: the larger one serves too */
  return true;
}

static int compare_entries(const void *a, const void *b)
{
  const pd_session_entry *const *x = a, *const *y = b;
  return pd_bytes_compare(pd_session_entry_key(*x), pd_session_entry_key(*y));
}

pd_code pd_session_map_sorted(const pd_session_map *map, pd_bytes prefix, const pd_session_entry ***out, size_t *out_count, pd_error *err)
{
  const pd_session_entry **list = malloc((map->count + 1) * sizeof *list);
  if (!list) return pd_error_memory(err, "a list of keys");
  size_t count = 0;
  for (size_t i = 0; i < map->size; i++)
    if (map->slots[i] && pd_bytes_starts(pd_session_entry_key(map->slots[i]), prefix)) list[count++] = map->slots[i];
  qsort(list, count, sizeof *list, compare_entries);
  *out = list;
  *out_count = count;
  return PD_OK;
}
