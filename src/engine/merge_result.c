/* merge_result.c: what a merge finds out: changes and conflicts, with copies of all bytes, until the result is done. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/merge.h"

#include <stdlib.h>

#define CONFLICT_BYTES_MAX ((size_t)256 << 20)

typedef struct block {
  struct block *next;
  uint8_t bytes[];
} block;

struct pd_merge_memory {
  block *blocks;
  pd_merge_changes changes;
  pd_merge_change *shown; /* as many as changes */
  size_t shown_capacity;
  pd_conflict *conflicts;
  size_t conflict_capacity;
  size_t conflict_bytes;
};

pd_code pd_result_begin(pd_merge_result *result, pd_error *err)
{
  *result = (pd_merge_result){.memory = calloc(1, sizeof *result->memory)};
  return result->memory ? PD_OK : pd_error_memory(err, "a merge");
}

void pd_merge_result_done(pd_merge_result *result)
{
  if (!result || !result->memory) return;
  pd_merge_memory *m = result->memory;
  for (block *b = m->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(m->changes.items);
  free(m->shown);
  free(m->conflicts);
  free(m);
  *result = (pd_merge_result){0};
}

pd_merge_changes *pd_result_changes(const pd_merge_result *result)
{
  return &result->memory->changes;
}

pd_code pd_result_keep(pd_merge_result *result, pd_bytes bytes, pd_bytes *out, pd_error *err)
{
  block *b = malloc(sizeof *b + bytes.size);
  if (!b) return pd_error_memory(err, "a merge");
  if (bytes.size) memcpy(b->bytes, bytes.data, bytes.size);
  b->next = result->memory->blocks;
  result->memory->blocks = b;
  *out = (pd_bytes){b->bytes, bytes.size};
  return PD_OK;
}

static pd_code reserve_change(pd_merge_memory *m, pd_error *err)
{
  size_t count = m->changes.count;
  if (count >= PD_EDIT_COUNT_MAX) return pd_error_set(err, PD_LIMIT, "a merge may change at most %d keys", PD_EDIT_COUNT_MAX);
  TRY(pd_array_grow(&m->changes.items, count, &m->changes.capacity, sizeof *m->changes.items, "a merge", err));
  return pd_array_grow(&m->shown, count, &m->shown_capacity, sizeof *m->shown, "a merge", err);
}

pd_code pd_result_change(pd_merge_result *result, const pd_merge_change *change, pd_bytes value, pd_error *err)
{
  pd_merge_memory *m = result->memory;
  pd_change_in in = {.is_delete = change->is_delete, .expect_version = PD_ANY_VERSION};
  TRY(reserve_change(m, err));
  TRY(pd_result_keep(result, change->key, &in.key, err));
  if (!change->is_delete) {
    TRY(pd_result_keep(result, value, &in.value, err));
    in.value_id = pd_sha256(in.value);
  }
  pd_merge_change *shown = &m->shown[m->changes.count];
  *shown = *change;
  shown->key = in.key;
  shown->size = in.value.size;
  m->changes.items[m->changes.count++] = in;
  result->changes = m->shown;
  result->change_count = m->changes.count;
  return PD_OK;
}

static pd_code keep_side(pd_merge_result *result, const pd_side_value *side, bool *out_has, pd_bytes *out, pd_error *err)
{
  *out_has = side->is_present;
  return side->is_present ? pd_result_keep(result, side->bytes, out, err) : PD_OK;
}

pd_code pd_result_conflict(pd_merge_result *result, pd_bytes key, pd_bytes path, pd_merge_rule rule, const char *why,
                           const pd_side_value sides[PD_SIDE_COUNT], pd_error *err)
{
  pd_merge_memory *m = result->memory;
  pd_conflict c = {.rule = rule, .why = why};
  result->conflict_total++;
  for (int i = 0; i < PD_SIDE_COUNT; i++) m->conflict_bytes += sides[i].bytes.size;
  bool is_full = result->conflict_count >= PD_CONFLICT_COUNT_MAX || (result->conflict_count && m->conflict_bytes > CONFLICT_BYTES_MAX);
  if (is_full) return PD_OK;
  TRY(pd_array_grow(&m->conflicts, result->conflict_count, &m->conflict_capacity, sizeof c, "the conflicts of a merge", err));
  TRY(pd_result_keep(result, key, &c.key, err));
  TRY(pd_result_keep(result, path, &c.path, err));
  TRY(keep_side(result, &sides[PD_SIDE_BASE], &c.has_base, &c.base, err));
  TRY(keep_side(result, &sides[PD_SIDE_OURS], &c.has_ours, &c.ours, err));
  TRY(keep_side(result, &sides[PD_SIDE_THEIRS], &c.has_theirs, &c.theirs, err));
  m->conflicts[result->conflict_count++] = c;
  result->conflicts = m->conflicts;
  return PD_OK;
}
