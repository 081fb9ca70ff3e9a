/*
 * patch_apply.c: patches made as edits of a doc. Each op notes what it touches before it edits, by what is there (P2 of patch.h).
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_number.h"
#include "thread/patch_list.h"

#include <stdlib.h>

/* ---- what is touched ---- */

void pd_touched_done(pd_touched *touched)
{
  if (!touched) return;
  for (size_t i = 0; i < touched->count; i++) pd_doc_path_done(&touched->paths[i]);
  free(touched->paths);
  *touched = (pd_touched){NULL, 0, 0};
}

pd_code pd_touched_add(pd_touched *t, const pd_doc_step *steps, size_t count, pd_error *err)
{
  TRY(pd_array_grow(&t->paths, t->count, &t->capacity, sizeof *t->paths, "touched paths", err));
  TRY(pd_doc_path_copy(steps, count, NULL, &t->paths[t->count], err));
  t->count++;
  return PD_OK;
}

static pd_code touch(void *ctx, const pd_doc_step *steps, size_t count, pd_error *err)
{
  return ctx ? pd_touched_add(ctx, steps, count, err) : PD_OK;
}

static int compare_paths(const void *a, const void *b)
{
  return pd_doc_path_compare(a, b);
}

void pd_touched_minimize(pd_touched *t)
{
  if (!t->count) return;
  qsort(t->paths, t->count, sizeof *t->paths, compare_paths);
  size_t kept = 1;
  for (size_t i = 1; i < t->count; i++) {
    if (pd_doc_path_covers(&t->paths[kept - 1], &t->paths[i]))
      pd_doc_path_done(&t->paths[i]);
    else
      t->paths[kept++] = t->paths[i];
  }
  t->count = kept;
}

/* What is at `place` is about to be taken out. */
static pd_code touch_remove(pd_touched *t, const pd_doc_place *place, pd_error *err)
{
  if (!place->count) return touch(t, place->steps, 0, err);
  const pd_node *parent = place->nodes[place->count - 1];
  const pd_doc_step *last = &place->steps[place->count - 1];
  bool items_move = last->kind == PD_STEP_INDEX && last->index + 1 < pd_node_count(parent);
  bool is_only = pd_node_count(parent) == 1;
  return touch(t, place->steps, items_move || is_only ? place->count - 1 : place->count, err);
}

/* ---- ops ---- */

typedef struct target {
  pd_doc *doc;
  pd_touched *touched; /* may be NULL */
  pd_doc_place place;
} target;

static pd_node *there(const target *t)
{
  return t->place.found == t->place.count ? t->place.nodes[t->place.count] : NULL;
}

/* PD_INVALID unless what is there is of this kind, or nothing is and that will do. */
static pd_code need(const target *t, pd_json_kind kind, bool may_be_absent, pd_error *err)
{
  const pd_node *node = there(t);
  if (!node && may_be_absent) return PD_OK;
  if (!node) return pd_error_set(err, PD_INVALID, "an %s is needed, and nothing is there", pd_json_kind_name(kind));
  if (pd_node_kind(node) == kind) return PD_OK;
  return pd_error_set(err, PD_INVALID, "an %s is needed, and what is there is of the kind %s", pd_json_kind_name(kind),
                      pd_json_kind_name(pd_node_kind(node)));
}

static pd_code set_place(target *t, pd_json value, pd_error *err)
{
  TRY(touch(t->touched, t->place.steps, pd_doc_place_changed(&t->place), err));
  return pd_doc_place_set(t->doc, &t->place, value, err);
}

static pd_code apply_delete(target *t, pd_error *err)
{
  if (!there(t)) return PD_OK;
  TRY(touch_remove(t->touched, &t->place, err));
  return pd_doc_place_remove(t->doc, &t->place, err);
}

static pd_code add_item(target *t, uint64_t index, pd_json value, pd_error *err)
{
  pd_node *array = there(t);
  size_t count = t->place.count, item_count = pd_node_count(array);
  pd_doc_step steps[PD_DOC_DEPTH_MAX + 1];
  if (index > item_count)
    return pd_error_set(err, PD_INVALID, "index %llu is past the end: there are %zu items", (unsigned long long)index, item_count);
  for (size_t i = 0; i < count; i++) steps[i] = t->place.steps[i];
  steps[count] = (pd_doc_step){PD_STEP_INDEX, {NULL, 0}, index};
  bool is_at_end = index == item_count && item_count > 0;
  if (count == PD_DOC_DEPTH_MAX) return pd_error_set(err, PD_LIMIT, "nested more than %d deep", PD_DOC_DEPTH_MAX);
  TRY(touch(t->touched, steps, is_at_end ? count + 1 : count, err));
  return pd_doc_item_insert(t->doc, array, (unsigned)count, (size_t)index, value, NULL, err);
}

static pd_code apply_append(target *t, pd_json value, pd_error *err)
{
  TRY(need(t, PD_JSON_ARRAY, true, err));
  if (!there(t)) TRY(set_place(t, (pd_json){{"[]", 2}, PD_JSON_ARRAY}, err));
  return add_item(t, pd_node_count(there(t)), value, err);
}

static pd_code apply_insert(target *t, uint64_t index, pd_json value, pd_error *err)
{
  TRY(need(t, PD_JSON_ARRAY, false, err));
  return add_item(t, index, value, err);
}

static pd_code take_item(target *t, size_t index, pd_error *err)
{
  pd_node *array = there(t);
  size_t count = t->place.count, item_count = pd_node_count(array);
  pd_doc_step steps[PD_DOC_DEPTH_MAX + 1];
  if (index >= item_count) return pd_error_set(err, PD_INVALID, "index %zu is past the end: there are %zu items", index, item_count);
  for (size_t i = 0; i < count; i++) steps[i] = t->place.steps[i];
  steps[count] = (pd_doc_step){PD_STEP_INDEX, {NULL, 0}, index};
  bool is_last = index + 1 == item_count && item_count > 1;
  TRY(touch(t->touched, steps, is_last ? count + 1 : count, err));
  return pd_doc_item_remove(t->doc, array, index, err);
}

static void doc_cleanup(pd_doc **doc)
{
  pd_doc_free(*doc);
}

/* The first item that equals `value`, if there is one. */
static pd_code take_equal(target *t, pd_json value, pd_error *err)
{
  CLEANUP(doc_cleanup) pd_doc *wanted = NULL;
  TRY(pd_doc_new(value, 0, &wanted, err));
  pd_node *array = there(t);
  for (size_t i = 0; i < pd_node_count(array); i++)
    if (pd_node_equal(pd_node_item(array, i), pd_doc_root(wanted))) return take_item(t, i, err);
  return PD_OK;
}

static pd_code apply_remove(target *t, const pd_patch *patch, pd_error *err)
{
  TRY(need(t, PD_JSON_ARRAY, !patch->has_index, err));
  if (!there(t)) return PD_OK;
  return patch->has_index ? take_item(t, (size_t)patch->index, err) : take_equal(t, patch->value, err);
}

static pd_code apply_merge_object(target *t, pd_json value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_doc_step steps[PD_DOC_DEPTH_MAX + 1];
  size_t count = t->place.count;
  pd_json_walk walk = pd_json_walk_begin(value);
  pd_json key, member;
  TRY(need(t, PD_JSON_OBJECT, true, err));
  pd_node *object = there(t);
  if (!object) return set_place(t, value, err);
  for (size_t i = 0; i < count; i++) steps[i] = t->place.steps[i];
  while (pd_json_walk_next(&walk, &key, &member)) {
    pd_buf_clear(&name);
    TRY(pd_json_decode(key, &name, err));
    steps[count] = (pd_doc_step){PD_STEP_NAME, pd_buf_bytes(&name), 0};
    if (count == PD_DOC_DEPTH_MAX) return pd_error_set(err, PD_LIMIT, "nested more than %d deep", PD_DOC_DEPTH_MAX);
    TRY(touch(t->touched, steps, pd_node_count(object) ? count + 1 : count, err));
    TRY(pd_doc_member_set(t->doc, object, (unsigned)count, pd_buf_bytes(&name), member, NULL, err));
  }
  return PD_OK;
}

static pd_code apply_add(target *t, pd_json by, bool is_minus, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf sum = {0};
  const pd_node *node = there(t);
  pd_json old = {{"0", 1}, PD_JSON_NUMBER};
  if (node && pd_node_kind(node) != PD_JSON_NUMBER)
    return pd_error_set(err, PD_INVALID, "a number is needed, and what is there is of the kind %s", pd_json_kind_name(pd_node_kind(node)));
  if (node) old = pd_node_leaf(node);
  TRY(pd_json_number_add(old, by, is_minus, &sum, err));
  return set_place(t, (pd_json){pd_buf_bytes(&sum), PD_JSON_NUMBER}, err);
}

static pd_code apply_patch(const pd_patch *patch, pd_doc *doc, pd_touched *touched, pd_error *err)
{
  target t;
  t.doc = doc;
  t.touched = touched;
  TRY(pd_doc_locate(doc, patch->path.steps, patch->path.count, &t.place, err));
  switch (patch->op) {
  case PD_PATCH_SET: return set_place(&t, patch->value, err);
  case PD_PATCH_DELETE: return apply_delete(&t, err);
  case PD_PATCH_APPEND: return apply_append(&t, patch->value, err);
  case PD_PATCH_MERGE_OBJECT: return apply_merge_object(&t, patch->value, err);
  case PD_PATCH_INCREMENT: return apply_add(&t, patch->value, false, err);
  case PD_PATCH_DECREMENT: return apply_add(&t, patch->value, true, err);
  case PD_PATCH_INSERT: return apply_insert(&t, patch->index, patch->value, err);
  case PD_PATCH_REMOVE: return apply_remove(&t, patch, err);
  case PD_PATCH_LATTICE_MERGE: return pd_lattice_join(patch->lattice, doc, &t.place, patch->value, touch, touched, err);
  case PD_PATCH_OP_COUNT: break;
  }
  return pd_error_set(err, PD_INVALID, "unknown op");
}

pd_code pd_patches_apply(const pd_patches *patches, pd_doc *doc, pd_touched *out_touched, pd_error *err)
{
  size_t mark = pd_doc_mark(doc), touched_count = out_touched ? out_touched->count : 0;
  pd_error cause;
  for (size_t i = 0; i < patches->count; i++) {
    const pd_patch *patch = &patches->items[i];
    if (apply_patch(patch, doc, out_touched, &cause) == PD_OK) continue;
    pd_doc_undo(doc, mark);
    while (out_touched && out_touched->count > touched_count) pd_doc_path_done(&out_touched->paths[--out_touched->count]);
    return pd_patch_refuse(i, pd_patch_op_name(patch->op), &patch->path, &cause, err);
  }
  if (out_touched) pd_touched_minimize(out_touched);
  return PD_OK;
}

/* ---- what is read ---- */

static pd_code add_members(const pd_patch *patch, pd_touched *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_doc_step steps[PD_DOC_DEPTH_MAX + 1];
  size_t count = patch->path.count;
  pd_json_walk walk = pd_json_walk_begin(patch->value);
  pd_json key, member;
  for (size_t i = 0; i < count; i++) steps[i] = patch->path.steps[i];
  while (pd_json_walk_next(&walk, &key, &member)) {
    pd_buf_clear(&name);
    TRY(pd_json_decode(key, &name, err));
    steps[count] = (pd_doc_step){PD_STEP_NAME, pd_buf_bytes(&name), 0};
    TRY(pd_touched_add(out, steps, count + 1, err));
  }
  return PD_OK;
}

static bool has_members(const pd_patch *patch)
{
  pd_json_walk walk = pd_json_walk_begin(patch->value);
  pd_json key, member;
  return patch->op == PD_PATCH_MERGE_OBJECT && patch->path.count < PD_DOC_DEPTH_MAX && pd_json_walk_next(&walk, &key, &member);
}

pd_code pd_patches_paths(const pd_patches *patches, pd_touched *out, pd_error *err)
{
  for (size_t i = 0; i < patches->count; i++) {
    const pd_patch *patch = &patches->items[i];
    if (has_members(patch))
      TRY(add_members(patch, out, err));
    else
      TRY(pd_touched_add(out, patch->path.steps, patch->path.count, err));
  }
  return PD_OK;
}
