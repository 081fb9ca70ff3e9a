/* owners.c: see owners.h. */
#include "state/owners.h"

#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/map.h"
#include "base/map64.h"
#include "state/quota.h"
#include "state/tiers.h"

#include <stdio.h>
#include <stdlib.h>

#define REMEMBERED_MAX 1000000 /* keys; then it starts again from nothing: about 48 MB */

typedef char owner_name[PD_NAME_SIZE_MAX + 1];

/* Who wrote the newest version of a key that was asked for; a newer one takes its place, so memory grows with keys and not with writes. */
typedef struct owner {
  uint64_t entry; /* fingerprint */
  uint32_t name;  /* index */
} owner;

struct pd_owners {
  pthread_mutex_t lock;
  pd_map64 keys; /* hash of a key -> index of its owner */
  owner *owners;
  size_t owner_count, owner_capacity;
  owner_name *names;
  size_t name_count, name_capacity;
};

pd_code pd_owners_new(pd_owners **out, pd_error *err)
{
  pd_owners *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_owners_free(pd_owners *owners)
{
  if (!owners) return;
  pthread_mutex_destroy(&owners->lock);
  pd_map64_done(&owners->keys);
  free(owners->owners);
  free(owners->names);
  free(owners);
}

/* Of the record and what it wrote: a store that was put back from elsewhere has other records under the same numbers. */
static uint64_t fingerprint(const pd_entry *entry)
{
  uint64_t value;
  memcpy(&value, entry->value_id.bytes, sizeof value);
  uint64_t mixed = pd_mix64(entry->seq, value ^ (uint64_t)entry->updated_ms);
  return mixed ? mixed : 1;
}

/* Two keys with one hash take each other's place and are looked up each time: the fingerprint tells them apart. */
static uint64_t hash_of(const pd_entry *entry)
{
  uint64_t hash = pd_map_hash(entry->key, 0);
  return hash ? hash : 1;
}

static bool recall(pd_owners *owners, const pd_entry *entry, char *out)
{
  pthread_mutex_lock(&owners->lock);
  const uint32_t *at = pd_map64_find(&owners->keys, hash_of(entry));
  const owner *o = at ? &owners->owners[*at] : NULL;
  bool is_it = o && o->entry == fingerprint(entry);
  if (is_it) memcpy(out, owners->names[o->name], sizeof(owner_name));
  pthread_mutex_unlock(&owners->lock);
  return is_it;
}

static pd_code name_index(pd_owners *owners, const char *name, uint32_t *out, pd_error *err)
{
  for (size_t i = 0; i < owners->name_count; i++)
    if (strcmp(owners->names[i], name) == 0) {
      *out = (uint32_t)i;
      return PD_OK;
    }
  TRY(pd_array_grow(&owners->names, owners->name_count, &owners->name_capacity, sizeof owners->names[0], "names of agents", err));
  snprintf(owners->names[owners->name_count], sizeof owners->names[0], "%s", name);
  *out = (uint32_t)owners->name_count++;
  return PD_OK;
}

static void forget_all(pd_owners *owners)
{
  pd_map64_done(&owners->keys);
  owners->keys = (pd_map64){0};
  owners->owner_count = owners->name_count = 0;
}

static pd_code remember_locked(pd_owners *owners, const pd_entry *entry, const char *name, pd_error *err)
{
  if (owners->owner_count >= REMEMBERED_MAX) forget_all(owners);
  uint32_t index = 0, *at;
  bool is_new;
  TRY(name_index(owners, name, &index, err));
  TRY(pd_array_grow(&owners->owners, owners->owner_count, &owners->owner_capacity, sizeof owners->owners[0], "owners of keys", err));
  TRY(pd_map64_add(&owners->keys, hash_of(entry), &at, &is_new, err));
  if (is_new) *at = (uint32_t)owners->owner_count++;
  owners->owners[*at] = (owner){fingerprint(entry), index};
  return PD_OK;
}

typedef struct author_search {
  uint64_t seq;
  char *out;
} author_search;

static bool take_version(void *ctx, const pd_version_info *version)
{
  author_search *search = ctx;
  if (version->entry.seq == search->seq) snprintf(search->out, sizeof(owner_name), "%s", version->author);
  return version->entry.seq > search->seq;
}

static bool take_record(void *ctx, const pd_record *record)
{
  author_search *search = ctx;
  snprintf(search->out, sizeof(owner_name), "%s", record->author);
  return false;
}

/* Retention keeps who wrote the versions of keys that are there; the record itself is for a key that was deleted a moment ago. */
static pd_code look_up(pd_store *store, const pd_entry *entry, char *out, pd_error *err)
{
  author_search search = {.seq = entry->seq, .out = out};
  pd_code code = pd_history(store, PD_STATE_REF, entry->key, 0, take_version, &search, err);
  if (code && code != PD_NOT_FOUND && code != PD_RETIRED) return code;
  if (*out) return PD_OK;
  char at[32];
  snprintf(at, sizeof at, "#%llu", (unsigned long long)entry->seq);
  code = pd_show(store, at, take_record, &search, err);
  return code == PD_NOT_FOUND || code == PD_RETIRED ? PD_OK : code;
}

pd_code pd_owner_of(pd_home *home, pd_store *store, const pd_entry *entry, char out[PD_NAME_SIZE_MAX + 1], pd_error *err)
{
  if (recall(home->owners, entry, out)) return PD_OK;
  *out = 0;
  TRY(look_up(store, entry, out, err));
  if (!*out) return PD_OK;
  pthread_mutex_lock(&home->owners->lock);
  pd_code code = remember_locked(home->owners, entry, out, err);
  pthread_mutex_unlock(&home->owners->lock);
  return code;
}
