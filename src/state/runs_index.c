/* runs_index.c: run:index, and the batch that changes it together with the runs (R1). */
#include "state/runs.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

char *pd_run_key(pd_bytes id, char out[PD_RUN_KEY_SIZE])
{
  snprintf(out, PD_RUN_KEY_SIZE, "run:%.*s", (int)id.size, (const char *)id.data);
  return out;
}

/* ---- the index ---- */

void pd_run_index_done(pd_run_index *index)
{
  pd_buf_done(&index->text);
  free(index->ids);
  index->ids = NULL;
}

static pd_code no_index(pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the value of key '" PD_RUN_INDEX "' is no list of the ids of runs");
}

pd_code pd_run_index_read(const pd_runs_place *place, pd_run_index *out, pd_error *err)
{
  pd_json array, item;
  pd_error why;
  pd_code code = place->get(place->ctx, PD_RUN_INDEX, &out->text, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code) {
    if (err) *err = why;
    return code;
  }
  if (pd_json_parse(pd_buf_bytes(&out->text), &array, NULL) || array.kind != PD_JSON_ARRAY) return no_index(err);
  pd_json_walk walk = pd_json_walk_begin(array);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    pd_bytes id = {(const uint8_t *)item.raw.data + 1, item.raw.size - 2}; /* no character of an id needs an escape */
    if (item.kind != PD_JSON_STRING || !pd_run_id_check(id)) return no_index(err);
    TRY(pd_array_grow(&out->ids, out->count, &out->capacity, sizeof out->ids[0], "the ids of runs", err));
    out->ids[out->count++] = id;
  }
  return PD_OK;
}

pd_code pd_run_index_write(const pd_run_index *index, const char *added, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '[');
  for (size_t i = 0; i < index->count; i++)
    if (index->ids[i].data) pd_json_text(&w, index->ids[i]);
  if (added) pd_json_text(&w, pd_text(added));
  pd_json_close(&w, ']');
  return w.code;
}

/* ---- the batch ---- */

pd_code pd_run_batch_add(pd_run_batch *batch, const char *key, pd_bytes value, pd_error *err)
{
  TRY(pd_array_grow(&batch->changes, batch->count, &batch->capacity, sizeof batch->changes[0], "changes of runs", err));
  char *own_key = strdup(key);
  void *own_value = value.data ? malloc(value.size + 1) : NULL;
  if (!own_key || (value.data && !own_value)) {
    free(own_key);
    free(own_value);
    return pd_error_memory(err, "a change of a run");
  }
  if (own_value) memcpy(own_value, value.data, value.size);
  batch->changes[batch->count++] = (pd_statestore_change){{own_key, strlen(own_key)}, {own_value, value.size}};
  return PD_OK;
}

void pd_run_batch_done(pd_run_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++) {
    free((void *)(uintptr_t)batch->changes[i].key.data);
    free((void *)(uintptr_t)batch->changes[i].value.data);
  }
  free(batch->changes);
  *batch = (pd_run_batch){0};
}
