/*
 * doc.c: the doc of doc.h: its edits, each written down before it is made, and paths through it.
 *
 * The journal holds for each edit what was there before and what is there now; one of the two belongs to the journal, the other to the doc.
 */
#include "base/doc.h"

#include "base/array.h"
#include "base/base.h"
#include "base/doc_node.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>

typedef enum edit_kind { EDIT_ROOT, EDIT_MEMBER, EDIT_ITEM, EDIT_INSERT, EDIT_REMOVE } edit_kind;

typedef struct edit {
  edit_kind kind;
  pd_node *parent;    /* the object or array */
  size_t index;       /* in an array */
  pd_node *old, *now; /* NULL: nothing */
  size_t size_before; /* of the doc */
} edit;

struct pd_doc {
  pd_node *root;
  size_t size, size_max;
  edit *journal;
  size_t edit_count, edit_capacity;
};

static const pd_json empty_object = {{"{}", 2}, PD_JSON_OBJECT}, empty_array = {{"[]", 2}, PD_JSON_ARRAY};

/* ---- the whole ---- */

static pd_code check_size(const pd_doc *doc, size_t size, pd_error *err)
{
  if (size <= doc->size_max) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the JSON text would have %zu bytes; %zu are the limit", size, doc->size_max);
}

static pd_code fill(pd_doc *doc, pd_json value, pd_error *err)
{
  TRY(pd_node_make(value.kind == PD_JSON_NONE ? empty_object : value, NULL, 0, &doc->root, err));
  doc->size = pd_node_size(doc->root);
  return check_size(doc, doc->size, err);
}

pd_code pd_doc_new(pd_json value, size_t size_max, pd_doc **out, pd_error *err)
{
  pd_doc *doc = calloc(1, sizeof *doc);
  if (!doc) return pd_error_memory(err, "a JSON document");
  doc->size_max = size_max ? size_max : PD_DOC_SIZE_MAX;
  pd_code code = fill(doc, value, err);
  if (code)
    pd_doc_free(doc);
  else
    *out = doc;
  return code;
}

void pd_doc_free(pd_doc *doc)
{
  if (!doc) return;
  pd_doc_keep(doc);
  pd_node_free(doc->root);
  free(doc->journal);
  free(doc);
}

pd_node *pd_doc_root(const pd_doc *doc)
{
  return doc->root;
}

size_t pd_doc_size(const pd_doc *doc)
{
  return doc->size;
}

pd_code pd_doc_write(const pd_doc *doc, pd_buf *out, pd_error *err)
{
  return pd_node_write(doc->root, out, err);
}

/* ---- edits and taking them back ---- */

static void swap_members(pd_node *object, pd_node *old, pd_node *now)
{
  if (old && now)
    pd_node_tree_replace(&object->members, old, now);
  else if (now)
    pd_node_tree_insert(&object->members, now);
  else
    pd_node_tree_remove(&object->members, old);
  object->count += (size_t)(now ? 1 : 0);
  object->count -= (size_t)(old ? 1 : 0);
}

/* Make the edit, or with old and now exchanged take it back. */
static void perform(pd_doc *doc, edit_kind kind, const edit *e, pd_node *old, pd_node *now)
{
  switch (kind) {
  case EDIT_ROOT: doc->root = now; break;
  case EDIT_MEMBER: swap_members(e->parent, old, now); break;
  case EDIT_ITEM: e->parent->items[e->index] = now; break;
  case EDIT_INSERT: pd_node_item_put(e->parent, e->index, now); break;
  case EDIT_REMOVE: pd_node_item_take(e->parent, e->index); break;
  }
}

/* Write the edit down and make it. On failure `now` is freed. */
static pd_code commit(pd_doc *doc, edit e, pd_error *err)
{
  e.size_before = doc->size;
  size_t size = doc->size - (e.old ? pd_node_size(e.old) : 0) + (e.now ? pd_node_size(e.now) : 0);
  if (e.parent && !e.old && e.parent->count > 0) size++; /* a comma more */
  if (e.parent && !e.now && e.parent->count > 1) size--;
  pd_code code = check_size(doc, size, err);
  if (!code) code = pd_array_grow(&doc->journal, doc->edit_count, &doc->edit_capacity, sizeof e, "a journal of edits", err);
  if (!code && e.kind == EDIT_INSERT) code = pd_node_reserve(e.parent, err);
  if (code) {
    pd_node_free(e.now);
    return code;
  }
  perform(doc, e.kind, &e, e.old, e.now);
  doc->size = size;
  doc->journal[doc->edit_count++] = e;
  return PD_OK;
}

size_t pd_doc_mark(const pd_doc *doc)
{
  return doc->edit_count;
}

void pd_doc_undo(pd_doc *doc, size_t mark)
{
  while (doc->edit_count > mark) {
    edit e = doc->journal[--doc->edit_count];
    edit_kind back = e.kind == EDIT_INSERT ? EDIT_REMOVE : e.kind == EDIT_REMOVE ? EDIT_INSERT : e.kind;
    perform(doc, back, &e, e.now, e.old);
    doc->size = e.size_before;
    pd_node_free(e.now);
  }
}

void pd_doc_keep(pd_doc *doc)
{
  for (size_t i = 0; i < doc->edit_count; i++) pd_node_free(doc->journal[i].old);
  doc->edit_count = 0;
}

/* ---- editing by node ---- */

pd_code pd_doc_root_set(pd_doc *doc, pd_json value, pd_error *err)
{
  edit e = {.kind = EDIT_ROOT, .old = doc->root};
  TRY(pd_node_make(value, NULL, 0, &e.now, err));
  return commit(doc, e, err);
}

pd_code pd_doc_member_set(pd_doc *doc, pd_node *object, unsigned depth, pd_bytes name, pd_json value, pd_node **out_node, pd_error *err)
{
  edit e = {.kind = EDIT_MEMBER, .parent = object, .old = pd_node_member(object, name)};
  TRY(pd_node_make(value, &name, depth + 1, &e.now, err));
  TRY(commit(doc, e, err));
  if (out_node) *out_node = e.now;
  return PD_OK;
}

pd_code pd_doc_member_remove(pd_doc *doc, pd_node *object, pd_bytes name, pd_error *err)
{
  edit e = {.kind = EDIT_MEMBER, .parent = object, .old = pd_node_member(object, name)};
  return e.old ? commit(doc, e, err) : PD_OK;
}

pd_code pd_doc_item_set(pd_doc *doc, pd_node *array, unsigned depth, size_t index, pd_json value, pd_node **out_node, pd_error *err)
{
  edit e = {.kind = EDIT_ITEM, .parent = array, .index = index, .old = pd_node_item(array, index)};
  if (!e.old) return pd_error_set(err, PD_INVALID, "index %zu is past the end: there are %zu items", index, array->count);
  TRY(pd_node_make(value, NULL, depth + 1, &e.now, err));
  TRY(commit(doc, e, err));
  if (out_node) *out_node = e.now;
  return PD_OK;
}

pd_code pd_doc_item_insert(pd_doc *doc, pd_node *array, unsigned depth, size_t index, pd_json value, pd_node **out_node, pd_error *err)
{
  edit e = {.kind = EDIT_INSERT, .parent = array, .index = index};
  if (index > array->count) return pd_error_set(err, PD_INVALID, "index %zu is past the end: there are %zu items", index, array->count);
  TRY(pd_node_make(value, NULL, depth + 1, &e.now, err));
  TRY(commit(doc, e, err));
  if (out_node) *out_node = e.now;
  return PD_OK;
}

pd_code pd_doc_item_remove(pd_doc *doc, pd_node *array, size_t index, pd_error *err)
{
  edit e = {.kind = EDIT_REMOVE, .parent = array, .index = index, .old = pd_node_item(array, index)};
  if (!e.old) return pd_error_set(err, PD_INVALID, "index %zu is past the end: there are %zu items", index, array->count);
  return commit(doc, e, err);
}

/* ---- paths ---- */

static bool is_behind_last(const pd_doc_step *step)
{
  return step->kind == PD_STEP_EITHER && step->name.size == 1 && *(const char *)step->name.data == '-';
}

static pd_doc_step index_step(uint64_t index)
{
  return (pd_doc_step){PD_STEP_INDEX, {NULL, 0}, index};
}

static pd_doc_step name_step(pd_bytes name)
{
  return (pd_doc_step){PD_STEP_NAME, name, 0};
}

/* Nothing of this kind is inside `node`, which the first `depth` of `steps` lead to. */
static pd_code refuse_step(const pd_node *node, const pd_doc_step *step, const pd_doc_step *steps, size_t depth, pd_error *err)
{
  char where[160], what[80];
  pd_doc_path_text(steps, depth, where, sizeof where);
  pd_doc_path_text(step, 1, what, sizeof what);
  if (node->kind == PD_JSON_OBJECT)
    return pd_error_set(err, PD_INVALID, "'%s' is an object: its members have names, and %s is an index", where, what + 1);
  if (node->kind == PD_JSON_ARRAY)
    return pd_error_set(err, PD_INVALID, "'%s' is an array: its items have indices, and '%s' is a name", where, what + 1);
  return pd_error_set(err, PD_INVALID, "'%s' is a %s: there is no '%s' inside it", where, pd_json_kind_name(pd_node_kind(node)), what + 1);
}

/* What `step` means inside `node`. */
static bool resolve(const pd_node *node, const pd_doc_step *step, pd_doc_step *out)
{
  uint64_t index = 0;
  if (node->kind == PD_JSON_OBJECT && step->kind != PD_STEP_INDEX) {
    *out = name_step(step->name);
    return true;
  }
  if (node->kind != PD_JSON_ARRAY || step->kind == PD_STEP_NAME) return false;
  if (is_behind_last(step))
    index = node->count;
  else if (!pd_doc_step_index(step, &index))
    return false;
  *out = index_step(index);
  return true;
}

static pd_node *child(const pd_node *node, const pd_doc_step *step)
{
  return step->kind == PD_STEP_NAME ? pd_node_member(node, step->name) : pd_node_item(node, (size_t)step->index);
}

pd_code pd_doc_locate(const pd_doc *doc, const pd_doc_step *steps, size_t count, pd_doc_place *out, pd_error *err)
{
  if (count > PD_DOC_DEPTH_MAX) return pd_error_set(err, PD_LIMIT, "a path of more than %d steps", PD_DOC_DEPTH_MAX);
  out->count = count;
  out->nodes[0] = doc->root;
  size_t i = 0;
  for (; i < count; i++) {
    if (!resolve(out->nodes[i], &steps[i], &out->steps[i])) return refuse_step(out->nodes[i], &steps[i], steps, i, err);
    out->nodes[i + 1] = child(out->nodes[i], &out->steps[i]);
    if (!out->nodes[i + 1]) break;
  }
  out->found = i;
  for (i++; i < count; i++) {
    if (is_behind_last(&steps[i]))
      out->steps[i] = index_step(0);
    else
      out->steps[i] = steps[i].kind == PD_STEP_INDEX ? steps[i] : name_step(steps[i].name);
  }
  return PD_OK;
}

size_t pd_doc_place_changed(const pd_doc_place *place)
{
  size_t count = place->found < place->count ? place->found + 1 : place->count;
  bool is_first = count && !pd_node_count(place->nodes[count - 1]);
  return is_first ? count - 1 : count;
}

pd_node *pd_doc_find(const pd_doc *doc, const pd_doc_step *steps, size_t count)
{
  pd_doc_step step;
  pd_node *node = doc->root;
  for (size_t i = 0; i < count && node; i++) node = resolve(node, &steps[i], &step) ? child(node, &step) : NULL;
  return node;
}

/* Put `value` where the first `count` steps lead; everything before the last one is there. */
static pd_code put(pd_doc *doc, pd_doc_place *place, size_t count, pd_json value, pd_error *err)
{
  if (!count) return pd_doc_root_set(doc, value, err);
  pd_node *parent = place->nodes[count - 1];
  const pd_doc_step *step = &place->steps[count - 1];
  unsigned depth = (unsigned)count - 1;
  if (step->kind == PD_STEP_NAME) return pd_doc_member_set(doc, parent, depth, step->name, value, &place->nodes[count], err);
  if (step->index < parent->count) return pd_doc_item_set(doc, parent, depth, (size_t)step->index, value, &place->nodes[count], err);
  if (step->index == parent->count) return pd_doc_item_insert(doc, parent, depth, (size_t)step->index, value, &place->nodes[count], err);
  char where[160];
  return pd_error_set(err, PD_INVALID, "index %" PRIu64 " is past the end of '%s', which has %zu items", step->index,
                      pd_doc_path_text(place->steps, depth, where, sizeof where), parent->count);
}

pd_code pd_doc_place_set(pd_doc *doc, pd_doc_place *place, pd_json value, pd_error *err)
{
  size_t mark = pd_doc_mark(doc);
  pd_code code = PD_OK;
  for (size_t made = place->found + 1; made < place->count && !code; made++)
    code = put(doc, place, made, place->steps[made].kind == PD_STEP_INDEX ? empty_array : empty_object, err);
  if (!code) code = put(doc, place, place->count, value, err);
  if (code)
    pd_doc_undo(doc, mark);
  else
    place->found = place->count;
  if (!place->count) place->nodes[0] = doc->root;
  return code;
}

pd_code pd_doc_place_remove(pd_doc *doc, const pd_doc_place *place, pd_error *err)
{
  if (place->found < place->count) return PD_OK;
  if (!place->count) return pd_doc_root_set(doc, empty_object, err);
  pd_node *parent = place->nodes[place->count - 1];
  const pd_doc_step *step = &place->steps[place->count - 1];
  if (step->kind == PD_STEP_NAME) return pd_doc_member_remove(doc, parent, step->name, err);
  return pd_doc_item_remove(doc, parent, (size_t)step->index, err);
}

pd_code pd_doc_set(pd_doc *doc, const pd_doc_step *steps, size_t count, pd_json value, pd_error *err)
{
  pd_doc_place place;
  TRY(pd_doc_locate(doc, steps, count, &place, err));
  return pd_doc_place_set(doc, &place, value, err);
}

pd_code pd_doc_remove(pd_doc *doc, const pd_doc_step *steps, size_t count, bool *out_was_there, pd_error *err)
{
  pd_doc_place place;
  TRY(pd_doc_locate(doc, steps, count, &place, err));
  TRY(pd_doc_place_remove(doc, &place, err));
  if (out_was_there) *out_was_there = place.found == count;
  return PD_OK;
}
