/* meter.c: how much each agent has in flight, requests or bytes: a table by name, as large as there are names with something in it. */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/map.h"
#include "wire/http.h"

#include <stdlib.h>

#define SHARDS 16

typedef struct meter_entry {
  char name[PD_NAME_SIZE_MAX + 1];
  uint64_t count;
} meter_entry;

typedef struct meter_shard {
  pthread_mutex_t lock;
  meter_entry *entries; /* few: requests in flight are */
  size_t count, capacity;
} meter_shard;

struct pd_meter {
  meter_shard shards[SHARDS];
};

pd_code pd_meter_new(pd_meter **out, pd_error *err)
{
  pd_meter *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "the server");
  for (size_t i = 0; i < SHARDS; i++) pthread_mutex_init(&made->shards[i].lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_meter_free(pd_meter *meter)
{
  if (!meter) return;
  for (size_t i = 0; i < SHARDS; i++) {
    pthread_mutex_destroy(&meter->shards[i].lock);
    free(meter->shards[i].entries);
  }
  free(meter);
}

static meter_shard *shard_of(pd_meter *meter, const char *name)
{
  return &meter->shards[pd_map_hash(pd_text(name), 0) % SHARDS];
}

static meter_entry *find(meter_shard *shard, const char *name)
{
  for (size_t i = 0; i < shard->count; i++)
    if (strcmp(shard->entries[i].name, name) == 0) return &shard->entries[i];
  return NULL;
}

static meter_entry *add(meter_shard *shard, const char *name)
{
  if (pd_array_grow(&shard->entries, shard->count, &shard->capacity, sizeof *shard->entries, "the server", NULL)) return NULL;
  meter_entry *entry = &shard->entries[shard->count++];
  *entry = (meter_entry){0};
  for (size_t i = 0; i + 1 < sizeof entry->name && name[i]; i++) entry->name[i] = name[i];
  return entry;
}

bool pd_meter_take(pd_meter *meter, const char *name, uint64_t amount, uint64_t max)
{
  meter_shard *shard = shard_of(meter, name);
  pthread_mutex_lock(&shard->lock);
  meter_entry *entry = find(shard, name);
  uint64_t has = entry ? entry->count : 0;
  bool is_in = amount <= max && has <= max - amount;
  if (is_in && !entry) is_in = (entry = add(shard, name)) != NULL;
  if (is_in) entry->count += amount;
  pthread_mutex_unlock(&shard->lock);
  return is_in;
}

void pd_meter_give(pd_meter *meter, const char *name, uint64_t amount)
{
  meter_shard *shard = shard_of(meter, name);
  pthread_mutex_lock(&shard->lock);
  meter_entry *entry = find(shard, name);
  if (entry) entry->count -= amount < entry->count ? amount : entry->count;
  if (entry && entry->count == 0) *entry = shard->entries[--shard->count];
  pthread_mutex_unlock(&shard->lock);
}

uint64_t pd_meter_of(pd_meter *meter, const char *name)
{
  meter_shard *shard = shard_of(meter, name);
  pthread_mutex_lock(&shard->lock);
  const meter_entry *entry = find(shard, name);
  uint64_t count = entry ? entry->count : 0;
  pthread_mutex_unlock(&shard->lock);
  return count;
}

bool pd_meter_enter(pd_meter *meter, const char *name, uint64_t max)
{
  return pd_meter_take(meter, name, 1, max);
}

void pd_meter_leave(pd_meter *meter, const char *name)
{
  pd_meter_give(meter, name, 1);
}
