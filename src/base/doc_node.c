/* doc_node.c: nodes made from JSON, read and written. Recursion is as deep as values nest (PD_DOC_DEPTH_MAX) and their trees are high. */
#include "base/doc_node.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"

#include <stdlib.h>

/* ---- making ---- */

static bool is_container(pd_json_kind kind)
{
  return kind == PD_JSON_OBJECT || kind == PD_JSON_ARRAY;
}

/* How many bytes the name takes as JSON. */
static pd_code json_size(pd_bytes name, size_t *out, pd_error *err)
{
  const uint8_t *p = name.data;
  size_t plain = 0;
  while (plain < name.size && p[plain] >= 0x20 && p[plain] != '"' && p[plain] != '\\' && p[plain] != 0x7F) plain++;
  *out = name.size + 2;
  if (plain == name.size) return PD_OK;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_text(&w, name);
  *out = text.size;
  return w.code;
}

static pd_code new_node(pd_json_kind kind, const pd_bytes *name, pd_bytes text, pd_node **out, pd_error *err)
{
  size_t name_size = name ? name->size : 0, name_json_size = 0;
  if (name_size > PD_DOC_NAME_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a member's name of %zu bytes; %d are the limit", name_size, PD_DOC_NAME_SIZE_MAX);
  if (name) TRY(json_size(*name, &name_json_size, err));
  pd_node *node = malloc(sizeof *node + name_size + text.size);
  if (!node) return pd_error_memory(err, "a JSON value");
  *node = (pd_node){.kind = (uint8_t)kind, .height = 1, .name_size = (uint32_t)name_size, .name_json_size = (uint32_t)name_json_size};
  if (name_size) memcpy(node->bytes, name->data, name_size);
  if (text.size) memcpy(node->bytes + name_size, text.data, text.size);
  node->count = text.size;
  *out = node;
  return PD_OK;
}

static pd_code make_leaf(pd_json value, const pd_bytes *name, pd_node **out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  bool has_escapes =
    value.kind == PD_JSON_STRING && (memchr(value.raw.data, '\\', value.raw.size) || memchr(value.raw.data, 0x7F, value.raw.size));
  if (!has_escapes) return new_node(value.kind, name, value.raw, out, err);
  TRY(pd_json_canonical(value, &text, err));
  return new_node(value.kind, name, pd_buf_bytes(&text), out, err);
}

static pd_code add_members(pd_node *object, pd_json value, unsigned depth, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_walk walk = pd_json_walk_begin(value);
  pd_json name_json, member;
  while (pd_json_walk_next(&walk, &name_json, &member)) {
    pd_buf_clear(&text);
    TRY(pd_json_decode(name_json, &text, err));
    pd_bytes name = pd_buf_bytes(&text);
    if (pd_node_tree_find(object->members, name))
      return pd_error_set(err, PD_INVALID, "member %.*s is there twice", (int)(name_json.raw.size < 80 ? name_json.raw.size : 80),
                          (const char *)name_json.raw.data);
    pd_node *node;
    TRY(pd_node_make(member, &name, depth, &node, err));
    pd_node_tree_insert(&object->members, node);
    object->count++;
  }
  return PD_OK;
}

static pd_code add_items(pd_node *array, pd_json value, unsigned depth, pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(value);
  pd_json item;
  while (pd_json_walk_next(&walk, NULL, &item)) {
    pd_node *node;
    TRY(pd_node_reserve(array, err));
    TRY(pd_node_make(item, NULL, depth, &node, err));
    array->items[array->count++] = node;
  }
  return PD_OK;
}

pd_code pd_node_make(pd_json value, const pd_bytes *name, unsigned depth, pd_node **out, pd_error *err)
{
  pd_node *node;
  if (!is_container(value.kind)) return make_leaf(value, name, out, err);
  if (depth >= PD_DOC_DEPTH_MAX) return pd_error_set(err, PD_LIMIT, "nested more than %d deep", PD_DOC_DEPTH_MAX);
  TRY(new_node(value.kind, name, (pd_bytes){NULL, 0}, &node, err));
  pd_code code = value.kind == PD_JSON_OBJECT ? add_members(node, value, depth + 1, err) : add_items(node, value, depth + 1, err);
  if (code)
    pd_node_free(node);
  else
    *out = node;
  return code;
}

static void free_members(pd_node *root)
{
  if (!root) return;
  free_members(root->left);
  free_members(root->right);
  pd_node_free(root);
}

void pd_node_free(pd_node *node)
{
  if (!node) return;
  free_members(node->members);
  if (node->kind == PD_JSON_ARRAY)
    for (size_t i = 0; i < node->count; i++) pd_node_free(node->items[i]);
  free(node->items);
  free(node);
}

/* ---- items ---- */

pd_code pd_node_reserve(pd_node *array, pd_error *err)
{
  if (array->count < array->capacity) return PD_OK;
  if (array->count > PD_DOC_INDEX_MAX) return pd_error_set(err, PD_LIMIT, "an array of more than %u items", PD_DOC_INDEX_MAX);
  return pd_array_grow_from(4, &array->items, array->count, &array->capacity, sizeof(pd_node *), "a JSON array", err); /* most are small */
}

void pd_node_item_put(pd_node *array, size_t index, pd_node *item)
{
  memmove(array->items + index + 1, array->items + index, (array->count - index) * sizeof *array->items);
  array->items[index] = item;
  array->count++;
}

pd_node *pd_node_item_take(pd_node *array, size_t index)
{
  pd_node *item = array->items[index];
  array->count--;
  memmove(array->items + index, array->items + index + 1, (array->count - index) * sizeof *array->items);
  return item;
}

/* ---- reading ---- */

pd_json_kind pd_node_kind(const pd_node *node)
{
  return (pd_json_kind)node->kind;
}

pd_json pd_node_leaf(const pd_node *node)
{
  if (is_container((pd_json_kind)node->kind)) return (pd_json){{NULL, 0}, PD_JSON_NONE};
  return (pd_json){{node->bytes + node->name_size, node->count}, (pd_json_kind)node->kind};
}

size_t pd_node_count(const pd_node *node)
{
  return is_container((pd_json_kind)node->kind) ? node->count : 0;
}

pd_node *pd_node_member(const pd_node *node, pd_bytes name)
{
  return pd_node_tree_find(node->members, name);
}

pd_node *pd_node_item(const pd_node *node, size_t index)
{
  return node->kind == PD_JSON_ARRAY && index < node->count ? node->items[index] : NULL;
}

static void wait_for(pd_node_walk *walk, pd_node *root)
{
  for (; root; root = root->left) walk->waiting[walk->count++] = root;
}

pd_node_walk pd_node_walk_begin(const pd_node *node)
{
  pd_node_walk walk;
  walk.array = node->kind == PD_JSON_ARRAY ? node : NULL;
  walk.count = 0;
  if (!walk.array) wait_for(&walk, node->members);
  return walk;
}

bool pd_node_walk_next(pd_node_walk *walk, pd_bytes *out_name, pd_node **out)
{
  pd_node *node = NULL;
  if (walk->array) {
    if (walk->count < walk->array->count) node = walk->array->items[walk->count++];
  } else if (walk->count) {
    node = walk->waiting[--walk->count];
    wait_for(walk, node->right);
  }
  if (!node) return false;
  if (out_name) *out_name = pd_node_name(node);
  *out = node;
  return true;
}

size_t pd_node_size(const pd_node *node)
{
  size_t size = node->name_json_size ? node->name_json_size + 1 : 0;
  if (!is_container((pd_json_kind)node->kind)) return size + node->count;
  size += node->count ? 1 + node->count : 2; /* brackets and commas */
  pd_node_walk walk = pd_node_walk_begin(node);
  pd_node *child;
  while (pd_node_walk_next(&walk, NULL, &child)) size += pd_node_size(child);
  return size;
}

static pd_code write_node(const pd_node *node, pd_json_writer *w)
{
  bool is_object = node->kind == PD_JSON_OBJECT;
  if (!is_container((pd_json_kind)node->kind)) {
    pd_json_raw(w, pd_node_leaf(node).raw);
    return w->code;
  }
  pd_node_walk walk = pd_node_walk_begin(node);
  pd_bytes name;
  pd_node *child;
  pd_json_open(w, is_object ? '{' : '[');
  while (pd_node_walk_next(&walk, &name, &child)) {
    if (is_object) {
      pd_json_text(w, name);
      TRY(w->code);
      TRY(pd_buf_byte(w->out, ':', w->err));
      w->needs_comma = false;
    }
    TRY(write_node(child, w));
  }
  pd_json_close(w, is_object ? '}' : ']');
  return w->code;
}

pd_code pd_node_write(const pd_node *node, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  return write_node(node, &w);
}

bool pd_node_equal(const pd_node *a, const pd_node *b)
{
  if (a->kind != b->kind || a->count != b->count) return false;
  if (!is_container((pd_json_kind)a->kind)) return pd_bytes_equal(pd_node_leaf(a).raw, pd_node_leaf(b).raw);
  pd_node_walk walk_a = pd_node_walk_begin(a), walk_b = pd_node_walk_begin(b);
  pd_bytes name_a, name_b;
  pd_node *child_a, *child_b;
  while (pd_node_walk_next(&walk_a, &name_a, &child_a) && pd_node_walk_next(&walk_b, &name_b, &child_b))
    if (!pd_bytes_equal(name_a, name_b) || !pd_node_equal(child_a, child_b)) return false;
  return true;
}
