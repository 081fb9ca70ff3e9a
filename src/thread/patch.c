/* patch.c: lists of patches, parsed and checked as far as they can be without a state. */
#include "thread/patch.h"

#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "thread/patch_list.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIELD_OP, FIELD_PATH, FIELD_VALUE, FIELD_BY, FIELD_INDEX, FIELD_LATTICE, FIELD_COUNT };

static const char *const field_names[FIELD_COUNT] = {"op", "path", "value", "by", "index", "lattice"};

#define BIT(field) (1u << (field))

/* Which members besides op and path an op must have, and which it may have. */
static const struct {
  const char *name;
  unsigned must, may;
} ops[PD_PATCH_OP_COUNT] = {
  [PD_PATCH_SET] = {"set", BIT(FIELD_VALUE), 0},
  [PD_PATCH_DELETE] = {"delete", 0, 0},
  [PD_PATCH_APPEND] = {"append", BIT(FIELD_VALUE), 0},
  [PD_PATCH_MERGE_OBJECT] = {"merge_object", BIT(FIELD_VALUE), 0},
  [PD_PATCH_INCREMENT] = {"increment", 0, BIT(FIELD_BY)},
  [PD_PATCH_DECREMENT] = {"decrement", 0, BIT(FIELD_BY)},
  [PD_PATCH_INSERT] = {"insert", BIT(FIELD_INDEX) | BIT(FIELD_VALUE), 0},
  [PD_PATCH_REMOVE] = {"remove", 0, BIT(FIELD_INDEX) | BIT(FIELD_VALUE)},
  [PD_PATCH_LATTICE_MERGE] = {"lattice_merge", BIT(FIELD_LATTICE) | BIT(FIELD_VALUE), 0},
};

const char *pd_patch_op_name(pd_patch_op op)
{
  return ops[op].name;
}

pd_code pd_patch_refuse(size_t index, const char *op, const pd_doc_path *path, const pd_error *cause, pd_error *err)
{
  char where[160] = "";
  if (path) pd_doc_path_text(path->steps, path->count, where, sizeof where);
  if (!op) return pd_error_set(err, cause->code, "patch %zu: %.300s", index + 1, cause->message);
  if (!path) return pd_error_set(err, cause->code, "patch %zu (%s): %.300s", index + 1, op, cause->message);
  return pd_error_set(err, cause->code, "patch %zu (%s '%s'): %.300s", index + 1, op, where, cause->message);
}

/* ---- one patch ---- */

static pd_code find_op(pd_json name, pd_patch *patch, pd_error *err)
{
  if (name.kind != PD_JSON_STRING) return pd_error_set(err, PD_INVALID, "it has no 'op'");
  for (int i = 0; i < PD_PATCH_OP_COUNT; i++)
    if (pd_json_is(name, ops[i].name)) {
      patch->op = (pd_patch_op)i;
      return PD_OK;
    }
  return pd_error_set(
    err, PD_INVALID, "unknown op %.*s: there are set, delete, append, merge_object, increment, decrement, insert, remove and lattice_merge",
    (int)(name.raw.size < 60 ? name.raw.size : 60), (const char *)name.raw.data);
}

static pd_code check_fields(pd_patch_op op, const pd_json_field *f, pd_error *err)
{
  for (int i = FIELD_VALUE; i < FIELD_COUNT; i++) {
    bool is_there = f[i].value.kind != PD_JSON_NONE;
    if (!is_there && (ops[op].must & BIT(i))) return pd_error_set(err, PD_INVALID, "it has no '%s'", f[i].name);
    if (is_there && !((ops[op].must | ops[op].may) & BIT(i))) return pd_error_set(err, PD_INVALID, "it takes no '%s'", f[i].name);
  }
  if (op == PD_PATCH_REMOVE && (f[FIELD_INDEX].value.kind == PD_JSON_NONE) == (f[FIELD_VALUE].value.kind == PD_JSON_NONE))
    return pd_error_set(err, PD_INVALID, "it has either 'index' or 'value'");
  return PD_OK;
}

static pd_code take_index(pd_json index, pd_patch *patch, pd_error *err)
{
  patch->has_index = index.kind != PD_JSON_NONE;
  if (!patch->has_index || (pd_json_u64(index, &patch->index) && patch->index <= PD_DOC_INDEX_MAX)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "'index' is a whole number from 0 to %u", PD_DOC_INDEX_MAX);
}

static pd_code check_value(const pd_patch *patch, pd_error *err)
{
  if (patch->op == PD_PATCH_INCREMENT || patch->op == PD_PATCH_DECREMENT) return pd_json_number_check(patch->value, err);
  if (patch->value.kind == PD_JSON_NONE) return PD_OK;
  TRY(pd_json_unique(patch->value, err));
  bool is_object = patch->value.kind == PD_JSON_OBJECT;
  if (patch->op == PD_PATCH_MERGE_OBJECT && !is_object)
    return pd_error_set(err, PD_INVALID, "an object is needed, and 'value' is of the kind %s", pd_json_kind_name(patch->value.kind));
  if (patch->op == PD_PATCH_SET && !patch->path.count && !is_object)
    return pd_error_set(err, PD_INVALID, "the whole state is an object, and 'value' is of the kind %s",
                        pd_json_kind_name(patch->value.kind));
  return patch->op == PD_PATCH_LATTICE_MERGE ? pd_lattice_check(patch->lattice, patch->value, err) : PD_OK;
}

static pd_code take_values(const pd_json_field *f, pd_patch *patch, pd_error *err)
{
  TRY(check_fields(patch->op, f, err));
  TRY(take_index(f[FIELD_INDEX].value, patch, err));
  patch->value = f[FIELD_VALUE].value;
  if (patch->op == PD_PATCH_INCREMENT || patch->op == PD_PATCH_DECREMENT) {
    static const pd_json one = {{"1", 1}, PD_JSON_NUMBER};
    patch->value = f[FIELD_BY].value.kind == PD_JSON_NONE ? one : f[FIELD_BY].value;
  }
  if (patch->op == PD_PATCH_LATTICE_MERGE) {
    patch->lattice = pd_lattice_named(f[FIELD_LATTICE].value);
    if (!patch->lattice) return pd_error_set(err, PD_INVALID, "'lattice' is one of flag, max, min, counter, set, or_set and or_map");
  }
  return check_value(patch, err);
}

static pd_code parse_patch(pd_json source, size_t index, pd_patch *patch, pd_error *err)
{
  pd_error cause;
  pd_json_field f[FIELD_COUNT];
  for (int i = 0; i < FIELD_COUNT; i++) f[i] = (pd_json_field){.name = field_names[i]};
  if (pd_json_fields(source, f, FIELD_COUNT, &cause) || find_op(f[FIELD_OP].value, patch, &cause))
    return pd_patch_refuse(index, NULL, NULL, &cause, err);
  if (pd_doc_path_parse(f[FIELD_PATH].value, &patch->path, &cause)) return pd_patch_refuse(index, ops[patch->op].name, NULL, &cause, err);
  if (take_values(f, patch, &cause)) return pd_patch_refuse(index, ops[patch->op].name, &patch->path, &cause, err);
  return PD_OK;
}

/* ---- the list ---- */

static pd_code parse_list(pd_patches *patches, pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(patches->source);
  pd_json one;
  while (pd_json_walk_next(&walk, NULL, &one)) {
    if (patches->count == PD_PATCHES_MAX) return pd_error_set(err, PD_LIMIT, "a list of more than %d patches", PD_PATCHES_MAX);
    TRY(pd_array_grow(&patches->items, patches->count, &patches->capacity, sizeof *patches->items, "a list of patches", err));
    pd_patch *patch = &patches->items[patches->count++];
    *patch = (pd_patch){.op = PD_PATCH_SET};
    TRY(parse_patch(one, patches->count - 1, patch, err));
  }
  return PD_OK;
}

pd_code pd_patches_parse(pd_json list, pd_patches **out, pd_error *err)
{
  if (list.kind == PD_JSON_NONE) list = (pd_json){{"[]", 2}, PD_JSON_ARRAY};
  if (list.kind != PD_JSON_ARRAY)
    return pd_error_set(err, PD_INVALID, "patches are a list, and this is of the kind %s", pd_json_kind_name(list.kind));
  pd_patches *patches = calloc(1, sizeof *patches);
  if (!patches) return pd_error_memory(err, "a list of patches");
  patches->source = list;
  pd_code code = parse_list(patches, err);
  if (code)
    pd_patches_free(patches);
  else
    *out = patches;
  return code;
}

void pd_patches_free(pd_patches *patches)
{
  if (!patches) return;
  for (size_t i = 0; i < patches->count; i++) pd_doc_path_done(&patches->items[i].path);
  free(patches->items);
  free(patches);
}

size_t pd_patches_count(const pd_patches *patches)
{
  return patches->count;
}

pd_code pd_patches_write(const pd_patches *patches, pd_buf *out, pd_error *err)
{
  return pd_json_canonical(patches->source, out, err);
}
