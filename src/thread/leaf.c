/* leaf.c: leaves of docs and of trees: taken apart, compared, put together again. */
#include "thread/leaf.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/leaf_key.h"
#include "thread/thread.h"

#include <stdlib.h>

/* ---- lists ---- */

void pd_stateleaves_done(pd_stateleaves *leaves)
{
  free(leaves->items);
  pd_buf_done(&leaves->bytes);
}

pd_bytes pd_stateleaf_key_of(const pd_stateleaves *leaves, size_t index)
{
  return (pd_bytes){leaves->bytes.data + leaves->items[index].key_at, leaves->items[index].key_size};
}

pd_bytes pd_stateleaf_value_of(const pd_stateleaves *leaves, size_t index)
{
  return (pd_bytes){leaves->bytes.data + leaves->items[index].value_at, leaves->items[index].value_size};
}

pd_code pd_stateleaves_add(pd_stateleaves *leaves, pd_bytes key, pd_bytes value, pd_error *err)
{
  TRY(pd_array_grow(&leaves->items, leaves->count, &leaves->capacity, sizeof *leaves->items, "leaves of a state", err));
  pd_stateleaf leaf = {leaves->bytes.size, key.size, leaves->bytes.size + key.size, value.size};
  TRY(pd_buf_append(&leaves->bytes, key.data, key.size, err));
  TRY(pd_buf_append(&leaves->bytes, value.data, value.size, err));
  leaves->items[leaves->count++] = leaf;
  return PD_OK;
}

static int compare_leaves(const void *a, const void *b, void *ctx)
{
  const pd_stateleaf *x = a, *y = b;
  const uint8_t *bytes = ((const pd_stateleaves *)ctx)->bytes.data;
  return pd_bytes_compare((pd_bytes){bytes + x->key_at, x->key_size}, (pd_bytes){bytes + y->key_at, y->key_size});
}

/* ---- of a doc ---- */

typedef struct taker {
  pd_stateleaves *out;
  pd_buf key;
} taker;

/* The value is written behind the key, in place. */
static pd_code take_leaf(taker *t, const pd_node *node, pd_bytes long_name, pd_error *err)
{
  pd_stateleaves *out = t->out;
  TRY(pd_array_grow(&out->items, out->count, &out->capacity, sizeof *out->items, "leaves of a state", err));
  pd_stateleaf leaf = {.key_at = out->bytes.size, .key_size = t->key.size};
  TRY(pd_buf_append(&out->bytes, t->key.data, t->key.size, err));
  leaf.value_at = out->bytes.size;
  if (long_name.size) {
    pd_json_writer w = {.out = &out->bytes, .err = err};
    TRY(pd_buf_byte(&out->bytes, '[', err));
    pd_json_text(&w, long_name);
    TRY(w.code);
    TRY(pd_buf_byte(&out->bytes, ',', err));
  }
  TRY(pd_node_write(node, &out->bytes, err));
  if (long_name.size) TRY(pd_buf_byte(&out->bytes, ']', err));
  leaf.value_size = out->bytes.size - leaf.value_at;
  out->items[out->count++] = leaf;
  return PD_OK;
}

static pd_code take_node(taker *t, const pd_node *node, pd_error *err)
{
  pd_bytes name;
  pd_node *child;
  size_t size = t->key.size;
  bool is_array = pd_node_kind(node) == PD_JSON_ARRAY;
  if (!pd_node_count(node) || size > PD_LEAF_SPLIT_MAX) return take_leaf(t, node, (pd_bytes){NULL, 0}, err);
  pd_node_walk walk = pd_node_walk_begin(node);
  for (uint64_t i = 0; pd_node_walk_next(&walk, &name, &child); i++) {
    pd_doc_step step = {.kind = is_array ? PD_STEP_INDEX : PD_STEP_NAME, .name = name, .index = i};
    bool is_whole;
    TRY(pd_stateleaf_key_step(&step, &t->key, &is_whole, err));
    TRY(is_whole ? take_leaf(t, child, name, err) : take_node(t, child, err));
    t->key.size = size;
  }
  return PD_OK;
}

static void taker_done(taker *t)
{
  pd_buf_done(&t->key);
}

pd_code pd_stateleaves_of(const pd_doc *doc, const pd_doc_step *steps, size_t used, pd_bytes key, pd_stateleaves *out, pd_error *err)
{
  CLEANUP(taker_done) taker t = {.out = out};
  const pd_node *node = pd_doc_find(doc, steps, used);
  if (!node || (!used && !pd_node_count(node))) return PD_OK; /* an empty root has no keys */
  const pd_doc_step *last = used ? &steps[used - 1] : NULL;
  TRY(pd_buf_append(&t.key, key.data, key.size, err));
  if (last && pd_stateleaf_is_hashed(key)) return take_leaf(&t, node, last->name, err);
  TRY(take_node(&t, node, err));
  if (out->count > 1) qsort_r(out->items, out->count, sizeof *out->items, compare_leaves, out);
  return PD_OK;
}

/* ---- of a tree ---- */

pd_code pd_stateleaves_read(pd_view *view, pd_bytes key, pd_stateleaves *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0}, prefix = {0};
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_error why;
  pd_entry entry;
  pd_bytes found;
  pd_code code = pd_view_get(view, key, &value, NULL, &why);
  if (!code) return pd_stateleaves_add(out, key, pd_buf_bytes(&value), err); /* a leaf has nothing below it */
  if (code != PD_NOT_FOUND) {
    if (err) *err = why;
    return code;
  }
  TRY(pd_buf_append(&prefix, key.data, key.size, err));
  TRY(pd_buf_byte(&prefix, '/', err));
  TRY(pd_view_scan(view, &(pd_scan){.prefix = pd_buf_bytes(&prefix)}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &found, err)) == PD_OK) TRY(pd_stateleaves_add(out, entry.key, found, err));
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* ---- what differs ---- */

static pd_code stage_difference(const pd_stateleaves *was, const pd_stateleaves *is, pd_edit *edit, pd_error *err)
{
  size_t i = 0, k = 0;
  while (i < was->count || k < is->count) {
    int order = i == was->count ? 1 : k == is->count ? -1 : pd_bytes_compare(pd_stateleaf_key_of(was, i), pd_stateleaf_key_of(is, k));
    if (order < 0) {
      TRY(pd_edit_delete(edit, pd_stateleaf_key_of(was, i++), PD_ANY_VERSION, err));
      continue;
    }
    if (order > 0 || !pd_bytes_equal(pd_stateleaf_value_of(was, i), pd_stateleaf_value_of(is, k)))
      TRY(pd_edit_put(edit, pd_stateleaf_key_of(is, k), pd_stateleaf_value_of(is, k), PD_ANY_VERSION, err));
    i += order == 0;
    k++;
  }
  return PD_OK;
}

/* Before and after, for each path: all is read before anything is staged, for an invocation's walks see what it has staged. */
typedef struct path_leaves {
  pd_stateleaves was, is;
} path_leaves;

typedef struct all_leaves {
  path_leaves *items;
  size_t count;
} all_leaves;

static void all_leaves_done(all_leaves *all)
{
  for (size_t i = 0; i < all->count; i++) {
    pd_stateleaves_done(&all->items[i].was);
    pd_stateleaves_done(&all->items[i].is);
  }
  free(all->items);
}

static pd_code compare_path(pd_view *view, const pd_doc *doc, const pd_doc_path *path, path_leaves *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  size_t used;
  TRY(pd_stateleaf_key(path->steps, path->count, &key, &used, err));
  TRY(pd_stateleaves_of(doc, path->steps, used, pd_buf_bytes(&key), &out->is, err));
  return pd_stateleaves_read(view, pd_buf_bytes(&key), &out->was, err);
}

pd_code pd_stateleaves_stage(pd_edit *edit, const pd_doc *doc, const pd_doc_path *paths, size_t count, pd_error *err)
{
  CLEANUP(all_leaves_done) all_leaves all = {.items = calloc(count + 1, sizeof *all.items), .count = count};
  if (!all.items) {
    all.count = 0;
    return pd_error_memory(err, "leaves of a state");
  }
  for (size_t i = 0; i < count; i++) TRY(compare_path(pd_edit_view(edit), doc, &paths[i], &all.items[i], err));
  for (size_t i = 0; i < count; i++) TRY(stage_difference(&all.items[i].was, &all.items[i].is, edit, err));
  return PD_OK;
}

/* ---- put together ---- */

/* Leaf by leaf below the first `skip` steps. Items come in order, so each is the next of its array. */
static pd_code put_leaf(pd_doc *doc, pd_bytes key, pd_bytes value, size_t skip, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  pd_json json;
  pd_error why;
  TRY(pd_stateleaf_path(key, value, &path, err));
  TRY(pd_stateleaf_json(key, value, &json, err));
  pd_code code = skip > path.count ? PD_INVALID : pd_doc_set(doc, path.steps + skip, path.count - skip, json, &why);
  if (code == PD_INVALID || code == PD_LIMIT)
    return pd_error_set(err, PD_CORRUPT, "leaf '%.*s' of a thread's state does not fit the others", (int)(key.size < 200 ? key.size : 200),
                        (const char *)key.data);
  if (code && err) *err = why;
  pd_doc_keep(doc);
  return code;
}

static void free_doc(pd_doc **doc)
{
  pd_doc_free(*doc);
}

pd_code pd_stateleaf_put(pd_doc *doc, pd_bytes key, pd_bytes value, pd_error *err)
{
  return put_leaf(doc, key, value, 0, err);
}

pd_code pd_stateleaves_load(pd_view *view, pd_doc **out, pd_error *err)
{
  CLEANUP(free_doc) pd_doc *doc = NULL;
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  TRY(pd_doc_new((pd_json){.kind = PD_JSON_NONE}, 0, &doc, err));
  TRY(pd_view_scan(view, &(pd_scan){.prefix = pd_text(PD_LEAF_ROOT "/")}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) TRY(put_leaf(doc, entry.key, value, 0, err));
  if (code != PD_NOT_FOUND) return code;
  *out = doc;
  doc = NULL;
  return PD_OK;
}

/* ---- a part of it ---- */

static pd_code no_path(const char *pointer, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "PathNotFound", "there is nothing at '%.200s' in the state", pointer);
}

/* A numeral of a pointer is an index if what it is looked up in is an array: the first key below says so. */
static pd_code settle_step(pd_view *view, pd_bytes key, pd_doc_step *step, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf prefix = {0};
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  uint64_t index = 0;
  TRY(pd_buf_append(&prefix, key.data, key.size, err));
  TRY(pd_buf_byte(&prefix, '/', err));
  TRY(pd_view_scan(view, &(pd_scan){.prefix = pd_buf_bytes(&prefix), .keys_only = true}, &iter, err));
  pd_code code = pd_iter_next(iter, &entry, NULL, err);
  if (code && code != PD_NOT_FOUND) return code;
  bool is_array = !code && entry.key.size > prefix.size && ((const char *)entry.key.data)[prefix.size] == '#';
  step->kind = PD_STEP_NAME;
  if (!is_array || !pd_doc_step_index(&(pd_doc_step){.kind = PD_STEP_EITHER, .name = step->name}, &index)) return PD_OK;
  step->kind = PD_STEP_INDEX;
  step->index = index;
  return PD_OK;
}

/* pd_stateleaf_key, with the steps made certain on the way. */
static pd_code settle_path(pd_view *view, pd_doc_path *path, pd_buf *key, size_t *out_used, pd_error *err)
{
  for (size_t i = 0; i < path->count; i++) {
    TRY(pd_stateleaf_key(path->steps, i, key, out_used, err));
    if (*out_used < i || key->size > PD_LEAF_SPLIT_MAX) break;
    if (path->steps[i].kind == PD_STEP_EITHER) TRY(settle_step(view, pd_buf_bytes(key), &path->steps[i], err));
  }
  return pd_stateleaf_key(path->steps, path->count, key, out_used, err);
}

pd_code pd_stateleaves_at(pd_view *view, const char *pointer, pd_stateleaves *out, pd_doc_path *out_path, size_t *out_used, pd_error *err)
{
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  CLEANUP(pd_buf_done) pd_buf key = {0};
  TRY(pd_doc_path_pointer(pd_text(pointer), &path, err));
  TRY(settle_path(view, &path, &key, out_used, err));
  TRY(pd_stateleaves_read(view, pd_buf_bytes(&key), out, err));
  if (path.count && !out->count) return no_path(pointer, err);
  *out_path = path;
  path = (pd_doc_path){0};
  return PD_OK;
}

/* Are these leaves in an array that lies `used` steps deep? */
static bool is_item_list(const pd_stateleaves *leaves, size_t used)
{
  if (!leaves->count) return false;
  pd_bytes key = pd_stateleaf_key_of(leaves, 0);
  const char *at = key.data, *end = at + key.size;
  for (size_t i = 0; at && i <= used; i++) {
    at = memchr(at, '/', (size_t)(end - at));
    if (at) at++;
  }
  return at && at < end && *at == '#';
}

pd_code pd_stateleaves_text(pd_view *view, const char *pointer, pd_buf *out, pd_error *err)
{
  CLEANUP(free_doc) pd_doc *doc = NULL;
  CLEANUP(pd_stateleaves_done) pd_stateleaves leaves = {0};
  CLEANUP(pd_doc_path_done) pd_doc_path path = {0};
  size_t used;
  TRY(pd_stateleaves_at(view, pointer, &leaves, &path, &used, err));
  TRY(pd_doc_new(is_item_list(&leaves, used) ? (pd_json){pd_text("[]"), PD_JSON_ARRAY} : (pd_json){.kind = PD_JSON_NONE}, 0, &doc, err));
  for (size_t i = 0; i < leaves.count; i++)
    TRY(put_leaf(doc, pd_stateleaf_key_of(&leaves, i), pd_stateleaf_value_of(&leaves, i), used, err));
  const pd_node *node = pd_doc_find(doc, path.steps + used, path.count - used);
  return node ? pd_node_write(node, out, err) : no_path(pointer, err);
}
