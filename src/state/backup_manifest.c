/* backup_manifest.c: what a backup holds: JSON at the end of its stream, where all places are known. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "state/backup.h"

#include <stdio.h>
#include <stdlib.h>

void pd_backup_manifest_done(pd_backup_manifest *manifest)
{
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

static void put_store(pd_json_writer *w, const pd_backup_store *store)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", store->name);
  pd_json_put_text(w, "head", pd_id_hex(&store->head, hex));
  pd_json_put_number(w, "at", store->at);
  pd_json_put_number(w, "size", store->size);
  pd_json_put_number(w, "commits", store->commits);
  pd_json_put_number(w, "changes", store->changes);
  pd_json_put_number(w, "value_bytes", store->value_bytes);
  pd_json_close(w, '}');
}

pd_code pd_backup_manifest_encode(const pd_backup_manifest *manifest, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "instant_ms", (uint64_t)manifest->instant_ms);
  pd_json_key(&w, "stores");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < manifest->count; i++) put_store(&w, &manifest->stores[i]);
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code malformed(pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the backup's manifest is malformed");
}

static bool take_text(pd_json value, char *out, size_t size)
{
  if (value.kind != PD_JSON_STRING || value.raw.size - 2 >= size) return false;
  snprintf(out, size, "%.*s", (int)value.raw.size - 2, (const char *)value.raw.data + 1);
  return true;
}

static pd_code take_store(pd_json object, uint64_t stream_size, pd_backup_manifest *out, pd_error *err)
{
  pd_backup_store *store = NULL;
  char name[PD_NAME_SIZE_MAX + 1], hex[PD_ID_HEX_SIZE];
  pd_json_field f[] = {{.name = "name"},    {.name = "head"},    {.name = "at"},         {.name = "size"},
                       {.name = "commits"}, {.name = "changes"}, {.name = "value_bytes"}};
  if (pd_json_fields(object, f, COUNT_OF(f), NULL) || !take_text(f[0].value, name, sizeof name) ||
      !take_text(f[1].value, hex, sizeof hex) || pd_agent_check(name, NULL) || strcmp(name, PD_STORE_SYSTEM) == 0)
    return malformed(err);
  for (size_t i = 0; i < out->count; i++)
    if (strcmp(out->stores[i].name, name) == 0) return malformed(err);
  TRY(pd_backup_manifest_add(out, name, &store, err));
  bool is_right = pd_id_parse(hex, &store->head) && pd_json_u64(f[2].value, &store->at) && pd_json_u64(f[3].value, &store->size) &&
                  pd_json_u64(f[4].value, &store->commits) && pd_json_u64(f[5].value, &store->changes) &&
                  pd_json_u64(f[6].value, &store->value_bytes) && store->at <= stream_size && store->size <= stream_size - store->at;
  return is_right ? PD_OK : malformed(err);
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
