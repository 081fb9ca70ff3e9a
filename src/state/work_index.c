/* work_index.c: the index of items in its two forms, and the batch that changes it together with the items (R1). */
#include "state/work.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

char *pd_work_key(pd_bytes id, char out[PD_WORK_KEY_SIZE])
{
  snprintf(out, PD_WORK_KEY_SIZE, "run:%.*s", (int)id.size, (const char *)id.data);
  return out;
}

/* ---- the index ---- */

void pd_work_index_done(pd_work_index *index)
{
  pd_buf_done(&index->text);
  pd_buf_done(&index->names);
  free(index->ids);
  free(index->numbers);
  index->ids = NULL;
  index->numbers = NULL;
}

static pd_code no_index(pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the value of key '" PD_WORK_INDEX "' is no list of the ids of work items");
}

/* The value replaces what `out` holds; *out_has says whether there is one. */
static pd_code get_maybe(const pd_work_place *place, const char *key, pd_buf *out, bool *out_has, pd_error *err)
{
  pd_error why;
  pd_code code = place->get(place->ctx, key, out, &why);
  *out_has = !code;
  if (!code || code == PD_NOT_FOUND) return PD_OK;
  if (err) *err = why;
  return code;
}

static pd_code add_id(pd_work_index *index, pd_bytes id, uint64_t number, pd_error *err)
{
  TRY(pd_array_grow(&index->ids, index->count, &index->capacity, sizeof index->ids[0], "the ids of work items", err));
  TRY(pd_array_grow(&index->numbers, index->count, &index->number_capacity, sizeof index->numbers[0], "the ids of work items", err));
  index->ids[index->count] = id;
  index->numbers[index->count++] = number;
  return PD_OK;
}

/* The id in a JSON string, without its quotes: no character of an id needs an escape. */
static bool take_id(pd_json item, pd_bytes *out)
{
  if (item.kind != PD_JSON_STRING) return false;
  *out = (pd_bytes){(const uint8_t *)item.raw.data + 1, item.raw.size - 2};
  return pd_work_id_check(*out);
}

static pd_code read_list(pd_work_index *out, pd_error *err)
{
  pd_json array, item;
  pd_bytes id;
  if (pd_json_parse(pd_buf_bytes(&out->text), &array, NULL) || array.kind != PD_JSON_ARRAY) return no_index(err);
  pd_json_walk walk = pd_json_walk_begin(array);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    if (!take_id(item, &id)) return no_index(err);
    TRY(add_id(out, id, 0, err));
  }
  return PD_OK;
}

static pd_code no_id(pd_bytes key, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the value of key '%.*s' is not the id of a work item", (int)(key.size < 100 ? key.size : 100),
                      (const char *)key.data);
}

/* The ids' data are set when all names are there: the buffer moves. */
static pd_code visit_key(void *ctx, pd_bytes key, pd_bytes value, pd_error *err)
{
  pd_work_index *index = ctx;
  pd_json item;
  pd_bytes id;
  uint64_t number = pd_work_index_number(key);
  if (!number) return PD_OK; /* the tally, or another's */
  if (pd_json_parse(value, &item, NULL) || !take_id(item, &id)) return no_id(key, err);
  TRY(pd_buf_append(&index->names, id.data, id.size, err));
  return add_id(index, (pd_bytes){NULL, id.size}, number, err);
}

pd_code pd_work_index_read(const pd_work_place *place, pd_work_index *out, pd_error *err)
{
  TRY(get_maybe(place, PD_WORK_INDEX, &out->text, &out->has_list, err));
  if (out->has_list) TRY(read_list(out, err));
  if (!place->scan) return PD_OK;
  size_t first = out->count, at = 0;
  TRY(place->scan(place->ctx, PD_WORK_INDEX_PREFIX, visit_key, out, err));
  for (size_t i = first; i < out->count; i++) {
    out->ids[i].data = out->names.data + at;
    at += out->ids[i].size;
  }
  return PD_OK;
}

static pd_code stage_list(const pd_work_index *index, const char *added, pd_work_batch *batch, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_open(&w, '[');
  for (size_t i = 0; i < index->count; i++)
    if (index->ids[i].data) pd_json_text(&w, index->ids[i]);
  if (added) pd_json_text(&w, pd_text(added));
  pd_json_close(&w, ']');
  TRY(w.code);
  return pd_work_batch_add(batch, PD_WORK_INDEX, pd_buf_bytes(&text), err);
}

/* ---- as keys ---- */

#define INDEX_KEY_SIZE (sizeof PD_WORK_INDEX_PREFIX + PD_WORK_INDEX_DIGITS)

static char *index_key(uint64_t number, char out[INDEX_KEY_SIZE])
{
  snprintf(out, INDEX_KEY_SIZE, PD_WORK_INDEX_PREFIX "%0*llx", PD_WORK_INDEX_DIGITS, (unsigned long long)number);
  return out;
}

static pd_code stage_key(uint64_t number, pd_bytes id, pd_work_batch *batch, pd_error *err)
{
  char key[INDEX_KEY_SIZE], value[PD_WORK_ID_SIZE_MAX + 3];
  int size = snprintf(value, sizeof value, "\"%.*s\"", (int)id.size, (const char *)id.data);
  return pd_work_batch_add(batch, index_key(number, key), (pd_bytes){value, (size_t)size}, err);
}

static pd_code stage_tally(const pd_work_tally *tally, pd_work_batch *batch, pd_error *err)
{
  char text[128];
  int size = snprintf(text, sizeof text, "{\"next\":%llu,\"count\":%llu,\"ended\":%llu}", (unsigned long long)tally->next,
                      (unsigned long long)tally->count, (unsigned long long)tally->ended);
  return pd_work_batch_add(batch, PD_WORK_INDEX_TALLY, (pd_bytes){text, (size_t)size}, err);
}

/* All but the tally, which comes to be that of the keys afterwards. Where there is a list its ids are older than those of the keys, so
 * all of them get new numbers. */
static pd_code stage_keys(const pd_work_index *index, pd_work_tally *tally, pd_work_batch *batch, pd_error *err)
{
  char key[INDEX_KEY_SIZE];
  *tally = (pd_work_tally){.next = index->count ? index->numbers[index->count - 1] + 1 : 1};
  if (index->has_list) TRY(pd_work_batch_add(batch, PD_WORK_INDEX, (pd_bytes){NULL, 0}, err));
  for (size_t i = 0; i < index->count; i++) {
    bool is_there = index->ids[i].data != NULL;
    if (index->numbers[i] && (!is_there || index->has_list))
      TRY(pd_work_batch_add(batch, index_key(index->numbers[i], key), (pd_bytes){NULL, 0}, err));
    if (is_there && index->has_list) TRY(stage_key(tally->next++, index->ids[i], batch, err));
    tally->count += is_there;
  }
  return PD_OK;
}

pd_code pd_work_index_stage(const pd_work_place *place, const pd_work_index *index, pd_work_batch *batch, pd_error *err)
{
  pd_work_tally tally;
  if (!place->scan) return stage_list(index, NULL, batch, err);
  TRY(stage_keys(index, &tally, batch, err));
  return stage_tally(&tally, batch, err);
}

/* ---- the tally ---- */

void pd_work_tally_done(pd_work_tally *tally)
{
  pd_work_index_done(&tally->index);
}

static bool parse_tally(pd_bytes text, pd_work_tally *out)
{
  pd_json json;
  if (pd_json_parse(text, &json, NULL) || json.kind != PD_JSON_OBJECT) return false;
  return pd_json_u64(pd_json_member(json, "next"), &out->next) && pd_json_u64(pd_json_member(json, "count"), &out->count) &&
         pd_json_u64(pd_json_member(json, "ended"), &out->ended) && out->next && out->next < UINT64_MAX - 1;
}

/* It counts only if no list lies beside the keys, and if its next number is free: others may have written here. */
static pd_code find_tally(const pd_work_place *place, pd_work_tally *out, bool *out_is_good, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[INDEX_KEY_SIZE];
  bool has;
  *out_is_good = false;
  TRY(get_maybe(place, PD_WORK_INDEX, &text, &has, err));
  if (has) return PD_OK;
  TRY(get_maybe(place, PD_WORK_INDEX_TALLY, &text, &has, err));
  if (!has || !parse_tally(pd_buf_bytes(&text), out)) return PD_OK;
  TRY(get_maybe(place, index_key(out->next, key), &text, &has, err));
  *out_is_good = !has;
  return PD_OK;
}

pd_code pd_work_tally_read(const pd_work_place *place, pd_work_tally *out, pd_error *err)
{
  bool is_good = false;
  if (place->scan) TRY(find_tally(place, out, &is_good, err));
  if (is_good) return PD_OK;
  *out = (pd_work_tally){.has_index = true};
  TRY(pd_work_index_read(place, &out->index, err));
  out->count = out->index.count;
  return PD_OK;
}

pd_code pd_work_tally_add(const pd_work_place *place, pd_work_tally *tally, const char *id, pd_work_batch *batch, pd_error *err)
{
  pd_work_tally after = {.next = tally->next, .count = tally->count, .ended = tally->ended};
  if (!place->scan) return stage_list(&tally->index, id, batch, err);
  if (tally->has_index) TRY(stage_keys(&tally->index, &after, batch, err));
  TRY(stage_key(after.next++, pd_text(id), batch, err));
  after.count++;
  return stage_tally(&after, batch, err);
}

pd_code pd_work_tally_end(pd_work_tally *tally, pd_work_batch *batch, pd_error *err)
{
  tally->ended++;
  return stage_tally(tally, batch, err);
}

/* ---- the batch ---- */

pd_code pd_work_batch_add(pd_work_batch *batch, const char *key, pd_bytes value, pd_error *err)
{
  TRY(pd_array_grow(&batch->changes, batch->count, &batch->capacity, sizeof batch->changes[0], "changes of work items", err));
  char *own_key = strdup(key);
  void *own_value = value.data ? malloc(value.size + 1) : NULL;
  if (!own_key || (value.data && !own_value)) {
    free(own_key);
    free(own_value);
    return pd_error_memory(err, "a change of a work item");
  }
  if (own_value) memcpy(own_value, value.data, value.size);
  batch->changes[batch->count++] = (pd_statestore_change){{own_key, strlen(own_key)}, {own_value, value.size}};
  return PD_OK;
}

void pd_work_batch_done(pd_work_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++) {
    free((void *)(uintptr_t)batch->changes[i].key.data);
    free((void *)(uintptr_t)batch->changes[i].value.data);
  }
  free(batch->changes);
  *batch = (pd_work_batch){0};
}
