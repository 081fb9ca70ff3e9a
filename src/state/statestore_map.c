/* statestore_map.c: see statestore_map.h. */
#include "state/statestore_map.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map.h"

#include <stdlib.h>

#define CAPACITY_MIN ((size_t)16)
#define CAPACITY_MAX ((size_t)1 << 30) /* so that indexes fit, and slots too */

pd_statecell *pd_statecell_new(pd_bytes key, pd_bytes value)
{
  size_t room = (value.size + 15) & ~(size_t)15; /* so that a counter that gains a digit stays where it is */
  pd_statecell *cell = malloc(sizeof *cell + key.size + room);
  if (!cell) return NULL;
  *cell = (pd_statecell){1, (uint32_t)key.size, (uint32_t)value.size, (uint32_t)room};
  if (key.size) memcpy(cell->bytes, key.data, key.size);
  if (value.size) memcpy(cell->bytes + key.size, value.data, value.size);
  return cell;
}

void pd_statecell_drop(pd_statecell *cell)
{
  if (cell && !--cell->refs) free(cell);
}

void pd_statemap_done(pd_statemap *map)
{
  for (size_t i = 0; i < map->used; i++) pd_statecell_drop(map->nodes[i].cell);
  free(map->slots);
  free(map->nodes);
  free(map->dirty);
  *map = (pd_statemap){.seed = map->seed};
}

uint32_t pd_statemap_tag(const pd_statemap *map, pd_bytes key)
{
  return (uint32_t)pd_map_hash(key, map->seed);
}

static size_t slot_mask(const pd_statemap *map)
{
  return map->capacity * 2 - 1;
}

/* The slot of the key, or the free one where it would be. The map has capacity. */
static size_t slot_of(const pd_statemap *map, pd_bytes key, uint32_t tag)
{
  size_t mask = slot_mask(map), i = tag & mask;
  for (; map->slots[i].index; i = (i + 1) & mask) {
    if (map->slots[i].tag != tag) continue;
    const pd_statecell *cell = map->nodes[map->slots[i].index - 1].cell;
    if (cell->key_size == key.size && (!key.size || memcmp(cell->bytes, key.data, key.size) == 0)) return i;
  }
  return i;
}

pd_statemap_node *pd_statemap_find(const pd_statemap *map, pd_bytes key, uint32_t tag)
{
  if (!map->count) return NULL;
  uint32_t index = map->slots[slot_of(map, key, tag)].index;
  return index ? &map->nodes[index - 1] : NULL;
}

static void add_node(pd_statemap *map, pd_statemap_node node)
{
  size_t mask = slot_mask(map), i = node.tag & mask;
  while (map->slots[i].index) i = (i + 1) & mask;
  if (node.is_dirty) map->dirty[map->dirty_count++] = (uint32_t)map->used;
  map->nodes[map->used++] = node;
  map->slots[i] = (pd_statemap_slot){node.tag, (uint32_t)map->used};
}

/* The same nodes without holes, in arrays of another size. */
static pd_code make_anew(pd_statemap *map, size_t capacity, pd_error *err)
{
  pd_statemap made = {.capacity = capacity};
  made.slots = calloc(capacity * 2, sizeof *made.slots);
  made.nodes = malloc(capacity * sizeof *made.nodes);
  made.dirty = malloc(capacity * sizeof *made.dirty);
  if (!made.slots || !made.nodes || !made.dirty) {
    free(made.slots);
    free(made.nodes);
    free(made.dirty);
    return pd_error_memory(err, "the keys of a StateStore");
  }
  for (size_t i = 0; i < map->used; i++)
    if (map->nodes[i].cell) add_node(&made, map->nodes[i]);
  free(map->slots);
  free(map->nodes);
  free(map->dirty);
  map->slots = made.slots; /* one by one: the seed is read without the lock */
  map->nodes = made.nodes;
  map->dirty = made.dirty;
  map->capacity = capacity;
  map->used = made.used;
  map->dirty_count = made.dirty_count;
  return PD_OK;
}

pd_code pd_statemap_reserve(pd_statemap *map, size_t more, pd_error *err)
{
  if (more <= map->capacity - map->used) return PD_OK;
  size_t need = map->count + more, capacity = CAPACITY_MIN;
  if (need > CAPACITY_MAX / 2) return pd_error_set(err, PD_LIMIT, "a StateStore holds at most %zu keys", CAPACITY_MAX / 2);
  while (capacity < need + need / 2) capacity *= 2; /* a third is free, so the next time is far */
  return make_anew(map, capacity, err);
}

pd_statemap_node *pd_statemap_place(pd_statemap *map, pd_statecell *cell, uint32_t tag)
{
  size_t size = (size_t)cell->key_size + cell->value_size;
  pd_statemap_node *node = pd_statemap_find(map, pd_statecell_key(cell), tag);
  map->bytes += size;
  if (node) {
    map->bytes -= (size_t)node->cell->key_size + node->cell->value_size;
    pd_statecell_drop(node->cell);
    node->cell = cell;
    return node;
  }
  add_node(map, (pd_statemap_node){.cell = cell, .tag = tag});
  map->count++;
  return &map->nodes[map->used - 1];
}

bool pd_statemap_overwrite(pd_statemap *map, pd_statemap_node *node, pd_bytes value)
{
  pd_statecell *cell = node->cell;
  if (cell->refs > 1 || value.size > cell->value_room || value.size + 64 < cell->value_room / 4) return false;
  map->bytes += value.size - cell->value_size;
  memcpy(cell->bytes + cell->key_size, value.data, value.size);
  cell->value_size = (uint32_t)value.size;
  return true;
}

/* Move what follows a gap into it, as long as that brings it nearer to its own place. */
static void close_gap(pd_statemap *map, size_t gap)
{
  size_t mask = slot_mask(map);
  for (size_t i = (gap + 1) & mask; map->slots[i].index; i = (i + 1) & mask) {
    size_t home = map->slots[i].tag & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue; /* its own place lies behind the gap */
    map->slots[gap] = map->slots[i];
    map->slots[i] = (pd_statemap_slot){0, 0};
    gap = i;
  }
}

pd_statecell *pd_statemap_remove(pd_statemap *map, pd_statemap_node *node)
{
  pd_statecell *cell = node->cell;
  size_t slot = slot_of(map, pd_statecell_key(cell), node->tag);
  map->slots[slot] = (pd_statemap_slot){0, 0};
  close_gap(map, slot);
  *node = (pd_statemap_node){.cell = NULL};
  map->count--;
  map->bytes -= (size_t)cell->key_size + cell->value_size;
  return cell;
}

void pd_statemap_mark(pd_statemap *map, pd_statemap_node *node)
{
  if (node->is_dirty) return;
  node->is_dirty = true;
  map->dirty[map->dirty_count++] = (uint32_t)(node - map->nodes);
}
