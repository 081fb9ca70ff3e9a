/* session_map.h: the keys and values of one session. Not thread-safe: the session's lock is around it. */
#ifndef PD_STATE_SESSION_MAP_H
#define PD_STATE_SESSION_MAP_H

#include "base/map.h"

/* A key and its value in one piece of memory: the key's bytes, then the value's. */
typedef struct pd_session_entry {
  uint32_t key_size, value_size;
  uint8_t bytes[];
} pd_session_entry;

typedef struct pd_session_map {
  pd_map entries;
  size_t bytes; /* of all keys and values: what the quota counts */
} pd_session_map;

static inline pd_bytes pd_session_entry_key(const pd_session_entry *entry)
{
  return (pd_bytes){entry->bytes, entry->key_size};
}

static inline pd_bytes pd_session_entry_value(const pd_session_entry *entry)
{
  return (pd_bytes){entry->bytes + entry->key_size, entry->value_size};
}

/* With any seed; pd_session_map_done frees. */
void pd_session_map_init(pd_session_map *map, uint64_t seed);
/* Empty it and give its memory back; it may be used again. */
void pd_session_map_done(pd_session_map *map);
/* NULL if it is not there. Borrowed until the map changes. */
const pd_session_entry *pd_session_map_find(const pd_session_map *map, pd_bytes key);
/* PD_NO_MEMORY: nothing is changed. Both sizes fit 32 bits. */
PD_MUST_USE pd_code pd_session_map_put(pd_session_map *map, pd_bytes key, pd_bytes value, pd_error *err);
/* False if it is not there. */
bool pd_session_map_remove(pd_session_map *map, pd_bytes key);
/* The entries whose keys begin with `prefix`, by key. The caller frees `*out`; the entries are borrowed until the map changes. */
PD_MUST_USE pd_code pd_session_map_sorted(const pd_session_map *map, pd_bytes prefix, const pd_session_entry ***out, size_t *out_count,
                                          pd_error *err);

#endif
