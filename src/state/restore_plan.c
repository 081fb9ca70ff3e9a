/* restore_plan.c: FOLDER/restore.json: a restore that a perdure before joint commits had decided (R3 of restore.h). */
#include "base/base.h"
#include "base/bind.h"
#include "base/error.h"
#include "state/restore.h"

#include <stdio.h>
#include <stdlib.h>

void pd_restore_plan_done(pd_restore_plan *plan)
{
  free(plan->stores);
  *plan = (pd_restore_plan){0};
}

static bool take_store(pd_json object, pd_restore_store *out)
{
  static const pd_bind members[] = {
    {"name", PD_BIND_TEXT, PD_BIND_AT(pd_restore_store, name)},
    {"head", PD_BIND_ID, PD_BIND_AT(pd_restore_store, head)},
    {"seq", PD_BIND_NUMBER, PD_BIND_AT(pd_restore_store, seq)},
  };
  return pd_bind_read(object, members, COUNT_OF(members), PD_BIND_EXACT, out, NULL) == PD_OK && pd_agent_check(out->name, NULL) == PD_OK;
}

pd_code pd_restore_plan_decode(pd_bytes text, pd_restore_plan *out, pd_error *err)
{
  pd_json json, item;
  pd_json_field f[] = {{.name = "id"}, {.name = "backup"}, {.name = "stores"}};
  bool is_right = pd_json_parse(text, &json, NULL) == PD_OK && pd_json_fields(json, f, COUNT_OF(f), NULL) == PD_OK &&
                  pd_json_copy_text(f[0].value, out->id, sizeof out->id) &&
                  pd_json_copy_text(f[1].value, out->backup, sizeof out->backup) && pd_ref_check(out->id, NULL) == PD_OK &&
                  f[2].value.kind == PD_JSON_ARRAY;
  size_t count = 0;
  pd_json_walk walk = pd_json_walk_begin(f[2].value);
  while (is_right && pd_json_walk_next(&walk, NULL, &item)) count++;
  out->stores = is_right ? calloc(count + 1, sizeof out->stores[0]) : NULL;
  if (is_right && !out->stores) return pd_error_memory(err, "a restore");
  walk = pd_json_walk_begin(f[2].value);
  while (is_right && pd_json_walk_next(&walk, NULL, &item)) is_right = take_store(item, &out->stores[out->count++]);
  return is_right ? PD_OK : pd_error_set(err, PD_CORRUPT, "restore.json is malformed");
}
