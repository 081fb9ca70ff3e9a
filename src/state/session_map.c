/* session_map.c: see session_map.h. */
#include "state/session_map.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

static pd_bytes key_of(const void *entry)
{
  return pd_session_entry_key(entry);
}

void pd_session_map_init(pd_session_map *map, uint64_t seed)
{
  *map = (pd_session_map){.entries = {.key_of = key_of, .seed = seed}};
}

void pd_session_map_done(pd_session_map *map)
{
  for (size_t at = 0; at < map->entries.size; at++) free(map->entries.slots[at].item);
  pd_map_done(&map->entries);
  map->bytes = 0;
}

const pd_session_entry *pd_session_map_find(const pd_session_map *map, pd_bytes key)
{
  return pd_map_find(&map->entries, key);
}

static size_t entry_bytes(const pd_session_entry *entry)
{
  return entry ? (size_t)entry->key_size + entry->value_size : 0;
}

pd_code pd_session_map_put(pd_session_map *map, pd_bytes key, pd_bytes value, pd_error *err)
{
  pd_session_entry *made = malloc(sizeof *made + key.size + value.size);
  void *old = NULL;
  if (!made) return pd_error_memory(err, "a session's value");
  *made = (pd_session_entry){(uint32_t)key.size, (uint32_t)value.size};
  if (key.size) memcpy(made->bytes, key.data, key.size);
  if (value.size) memcpy(made->bytes + key.size, value.data, value.size);
  pd_code code = pd_map_put(&map->entries, made, &old, err);
  if (!code) map->bytes += entry_bytes(made) - entry_bytes(old);
  free(code ? made : old);
  return code;
}

bool pd_session_map_remove(pd_session_map *map, pd_bytes key)
{
  pd_session_entry *old = pd_map_remove(&map->entries, key);
  map->bytes -= entry_bytes(old);
  free(old);
  return old != NULL;
}

static int compare_entries(const void *a, const void *b)
{
  const pd_session_entry *const *x = a, *const *y = b;
  return pd_bytes_compare(pd_session_entry_key(*x), pd_session_entry_key(*y));
}

pd_code pd_session_map_sorted(const pd_session_map *map, pd_bytes prefix, const pd_session_entry ***out, size_t *out_count, pd_error *err)
{
  const pd_session_entry **list = malloc((map->entries.count + 1) * sizeof *list);
  if (!list) return pd_error_memory(err, "a list of keys");
  size_t count = 0, at = 0;
  for (const pd_session_entry *entry; (entry = pd_map_next(&map->entries, &at));)
    if (pd_bytes_starts(pd_session_entry_key(entry), prefix)) list[count++] = entry;
  qsort(list, count, sizeof *list, compare_entries);
  *out = list;
  *out_count = count;
  return PD_OK;
}
