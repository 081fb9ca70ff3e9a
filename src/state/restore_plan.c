/* restore_plan.c: FOLDER/restore.json: a restore that a perdure before joint commits had decided (R3 of restore.h). */
#include "base/base.h"
#include "base/error.h"
#include "base/json.h"
#include "state/restore.h"

#include <stdio.h>
#include <stdlib.h>

void pd_restore_plan_done(pd_restore_plan *plan)
{
  free(plan->stores);
  *plan = (pd_restore_plan){0};
}

static bool take_text(pd_json value, char *out, size_t size)
{
  if (value.kind != PD_JSON_STRING || value.raw.size - 2 >= size) return false;
  snprintf(out, size, "%.*s", (int)value.raw.size - 2, (const char *)value.raw.data + 1);
  return true;
}

static bool take_store(pd_json object, pd_restore_store *out)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_field f[] = {{.name = "name"}, {.name = "head"}, {.name = "seq"}};
  return pd_json_fields(object, f, COUNT_OF(f), NULL) == PD_OK && take_text(f[0].value, out->name, sizeof out->name) &&
         pd_agent_check(out->name, NULL) == PD_OK && take_text(f[1].value, hex, sizeof hex) && pd_id_parse(hex, &out->head) &&
         pd_json_u64(f[2].value, &out->seq);
}

pd_code pd_restore_plan_decode(pd_bytes text, pd_restore_plan *out, pd_error *err)
{
  pd_json json, item;
  pd_json_field f[] = {{.name = "id"}, {.name = "backup"}, {.name = "stores"}};
  bool is_right = pd_json_parse(text, &json, NULL) == PD_OK && pd_json_fields(json, f, COUNT_OF(f), NULL) == PD_OK &&
                  take_text(f[0].value, out->id, sizeof out->id) && take_text(f[1].value, out->backup, sizeof out->backup) &&
                  pd_ref_check(out->id, NULL) == PD_OK && f[2].value.kind == PD_JSON_ARRAY;
  size_t count = 0;
  pd_json_walk walk = pd_json_walk_begin(f[2].value);
  while (is_right && pd_json_walk_next(&walk, NULL, &item)) count++;
  out->stores = is_right ? calloc(count + 1, sizeof out->stores[0]) : NULL;
  if (is_right && !out->stores) return pd_error_memory(err, "a restore");
  walk = pd_json_walk_begin(f[2].value);
  while (is_right && pd_json_walk_next(&walk, NULL, &item)) is_right = take_store(item, &out->stores[out->count++]);
  return is_right ? PD_OK : pd_error_set(err, PD_CORRUPT, "restore.json is malformed");
}
