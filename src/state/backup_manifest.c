/* backup_manifest.c: what a backup holds: JSON at the end of its stream, where all places are known. */
#include "base/array.h"
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/backup.h"

#include <stdio.h>
#include <stdlib.h>

void pd_backup_manifest_done(pd_backup_manifest *manifest)
{
  for (size_t i = 0; i < manifest->count; i++) pd_gc_pause_end(manifest->stores[i].pause);
  free(manifest->stores);
  *manifest = (pd_backup_manifest){0};
}

bool pd_backup_is_agent(const pd_backup_store *store)
{
  return strcmp(store->name, PD_STORE_SHARED) != 0;
}

pd_code pd_backup_manifest_add(pd_backup_manifest *manifest, const char *name, pd_backup_store **out, pd_error *err)
{
  if (manifest->count == PD_BACKUP_STORES_MAX)
    return pd_error_set(err, PD_LIMIT, "over %d stores: too many for a backup", PD_BACKUP_STORES_MAX);
  TRY(pd_array_grow(&manifest->stores, manifest->count, &manifest->capacity, sizeof manifest->stores[0], "a backup", err));
  pd_backup_store *store = &manifest->stores[manifest->count++];
  *store = (pd_backup_store){0};
  snprintf(store->name, sizeof store->name, "%s", name);
  *out = store;
  return PD_OK;
}

static const pd_bind members[] = {
  {"name", PD_BIND_TEXT, PD_BIND_AT(pd_backup_store, name)},
  {"head", PD_BIND_ID, PD_BIND_AT(pd_backup_store, head)},
  {"queue", PD_BIND_ID, PD_BIND_AT(pd_backup_store, queue), .is_optional = true},
  {"at", PD_BIND_NUMBER, PD_BIND_AT(pd_backup_store, at)},
  {"size", PD_BIND_NUMBER, PD_BIND_AT(pd_backup_store, size)},
  {"commits", PD_BIND_NUMBER, PD_BIND_AT(pd_backup_store, commits)},
  {"changes", PD_BIND_NUMBER, PD_BIND_AT(pd_backup_store, changes)},
  {"value_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_backup_store, value_bytes)},
};

pd_code pd_backup_manifest_encode(const pd_backup_manifest *manifest, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "instant_ms", (uint64_t)manifest->instant_ms);
  pd_json_key(&w, "stores");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < manifest->count; i++) pd_bind_object(&w, members, COUNT_OF(members), &manifest->stores[i]);
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code malformed(pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the backup's manifest is malformed");
}

static pd_code take_store(pd_json object, uint64_t stream_size, pd_backup_manifest *out, pd_error *err)
{
  pd_backup_store read = {0}, *store = NULL;
  if (pd_bind_read(object, members, COUNT_OF(members), PD_BIND_EXACT, &read, NULL) || pd_agent_check(read.name, NULL) ||
      strcmp(read.name, PD_STORE_SYSTEM) == 0 || read.at > stream_size || read.size > stream_size - read.at)
    return malformed(err);
  for (size_t i = 0; i < out->count; i++)
    if (strcmp(out->stores[i].name, read.name) == 0) return malformed(err);
  TRY(pd_backup_manifest_add(out, read.name, &store, err));
  *store = read;
  return PD_OK;
}

pd_code pd_backup_manifest_decode(pd_bytes text, uint64_t stream_size, pd_backup_manifest *out, pd_error *err)
{
  pd_json json, item;
  pd_json_field f[] = {{.name = "instant_ms"}, {.name = "stores"}};
  if (pd_json_parse(text, &json, NULL) || pd_json_fields(json, f, COUNT_OF(f), NULL) || !pd_json_i64(f[0].value, &out->instant_ms) ||
      f[1].value.kind != PD_JSON_ARRAY)
    return malformed(err);
  pd_json_walk walk = pd_json_walk_begin(f[1].value);
  while (pd_json_walk_next(&walk, NULL, &item)) TRY(take_store(item, stream_size, out, err));
  return PD_OK;
}
