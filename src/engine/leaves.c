/* leaves.c: see leaves.h. */
#include "engine/leaves.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

#define PATHS_SIZE_MAX ((size_t)256 << 20)
#define HASH_SEED 0xcbf29ce484222325u
#define HASH_PRIME 0x100000001b3u

void pd_leaves_done(pd_leaves *leaves)
{
  free(leaves->items);
  free(leaves->table);
  pd_buf_done(&leaves->paths);
}

pd_bytes pd_leaf_path(const pd_leaves *leaves, const pd_leaf *leaf)
{
  return (pd_bytes){leaf->path_size ? leaves->paths.data + leaf->path_at : NULL, leaf->path_size};
}

/* ---- walking a value ---- */

/* A container that is being walked. Hashes go on from those of the container: paths are never hashed as a whole. */
typedef struct frame {
  pd_json_walk walk;
  size_t pointer_size, index;
  uint64_t hash;
} frame;

typedef struct leaf_at {
  pd_bytes path;
  uint64_t hash;
  pd_json value;
} leaf_at;

typedef pd_code (*leaf_visit)(void *ctx, const leaf_at *leaf, pd_error *err);

static uint64_t hash_on(uint64_t hash, const uint8_t *data, size_t size)
{
  for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * HASH_PRIME;
  return hash;
}

static bool is_container(pd_json value)
{
  return value.kind == PD_JSON_OBJECT || value.kind == PD_JSON_ARRAY;
}

static bool is_leaf(pd_json value)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(value);
  return !is_container(value) || !pd_json_walk_next(&walk, NULL, &item);
}

/* A member's name as a JSON Pointer has it. A lone surrogate stays as it is escaped. */
static pd_code append_name(pd_buf *pointer, pd_json key, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_error why;
  pd_code code = pd_json_decode(key, &name, &why);
  if (code == PD_INVALID) code = pd_buf_append(&name, (const char *)key.raw.data + 1, key.raw.size - 2, &why);
  if (code) {
    if (err) *err = why;
    return code;
  }
  for (size_t i = 0; i < name.size; i++) {
    if (name.data[i] == '~' || name.data[i] == '/')
      TRY(pd_buf_append(pointer, name.data[i] == '~' ? "~0" : "~1", 2, err));
    else
      TRY(pd_buf_byte(pointer, name.data[i], err));
  }
  return PD_OK;
}

static pd_code append_token(pd_buf *pointer, frame *f, pd_json key, pd_error *err)
{
  pointer->size = f->pointer_size;
  TRY(pd_buf_byte(pointer, '/', err));
  return key.kind == PD_JSON_STRING ? append_name(pointer, key, err) : pd_buf_printf(pointer, err, "%zu", f->index++);
}

static pd_code walk_leaves(pd_json root, leaf_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pointer = {.size_max = PATHS_SIZE_MAX};
  frame frames[PD_JSON_DEPTH_MAX + 1];
  size_t depth = 0;
  if (is_leaf(root)) return visit(ctx, &(leaf_at){.hash = HASH_SEED, .value = root}, err);
  frames[depth++] = (frame){.walk = pd_json_walk_begin(root), .hash = HASH_SEED};
  while (depth) {
    frame *f = &frames[depth - 1];
    pd_json key, value;
    if (!pd_json_walk_next(&f->walk, &key, &value)) {
      depth--;
      continue;
    }
    TRY(append_token(&pointer, f, key, err));
    uint64_t hash = hash_on(f->hash, pointer.data + f->pointer_size, pointer.size - f->pointer_size);
    if (is_leaf(value))
      TRY(visit(ctx, &(leaf_at){pd_buf_bytes(&pointer), hash, value}, err));
    else
      frames[depth++] = (frame){.walk = pd_json_walk_begin(value), .pointer_size = pointer.size, .hash = hash};
  }
  return PD_OK;
}

/* ---- the table ---- */

/* The slot of a path: of the leaf that has it, or the empty one where it would be. */
static uint32_t *find_slot(const pd_leaves *leaves, pd_bytes path, uint64_t hash)
{
  size_t mask = leaves->table_size - 1;
  for (size_t i = (hash ^ hash >> 32) & mask;; i = (i + 1) & mask) {
    uint32_t *slot = &leaves->table[i];
    if (!*slot) return slot;
    const pd_leaf *leaf = &leaves->items[*slot - 1];
    if (leaf->hash == hash && pd_bytes_equal(pd_leaf_path(leaves, leaf), path)) return slot;
  }
}

static pd_code grow_table(pd_leaves *leaves, pd_error *err)
{
  if (leaves->count * 2 < leaves->table_size) return PD_OK;
  size_t size = leaves->table_size ? leaves->table_size * 2 : 64;
  uint32_t *table = calloc(size, sizeof *table);
  if (!table) return pd_error_memory(err, "the paths of a value");
  free(leaves->table);
  leaves->table = table;
  leaves->table_size = size;
  for (size_t i = 0; i < leaves->count; i++)
    *find_slot(leaves, pd_leaf_path(leaves, &leaves->items[i]), leaves->items[i].hash) = (uint32_t)i + 1;
  return PD_OK;
}

static pd_code add_leaf(void *ctx, const leaf_at *at, pd_error *err)
{
  pd_leaves *leaves = ctx;
  if (leaves->count >= PD_BLAME_PATH_COUNT_MAX)
    return pd_error_set(err, PD_LIMIT, "the value has more than %d paths", PD_BLAME_PATH_COUNT_MAX);
  TRY(grow_table(leaves, err));
  uint32_t *slot = find_slot(leaves, at->path, at->hash);
  if (*slot) return PD_OK; /* the first one counts */
  TRY(pd_array_grow(&leaves->items, leaves->count, &leaves->capacity, sizeof *leaves->items, "the paths of a value", err));
  pd_leaf leaf = {.path_at = leaves->paths.size, .path_size = (uint32_t)at->path.size, .hash = at->hash, .value = at->value};
  TRY(pd_buf_append(&leaves->paths, at->path.data, at->path.size, err));
  leaves->items[leaves->count++] = leaf;
  *slot = (uint32_t)leaves->count;
  return PD_OK;
}

pd_code pd_leaves_take(pd_leaves *leaves, pd_json value, pd_error *err)
{
  leaves->paths.size_max = PATHS_SIZE_MAX;
  return walk_leaves(value, add_leaf, leaves, err);
}

pd_code pd_leaves_take_opaque(pd_leaves *leaves, pd_bytes value, pd_error *err)
{
  return add_leaf(leaves, &(leaf_at){.hash = HASH_SEED, .value = {value, PD_JSON_NONE}}, err);
}

/* ---- comparing ---- */

static pd_code is_same_string(pd_json a, pd_json b, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text_a = {0};
  CLEANUP(pd_buf_done) pd_buf text_b = {0};
  bool has_escape = memchr(a.raw.data, '\\', a.raw.size) || memchr(b.raw.data, '\\', b.raw.size);
  *out = false;
  if (!has_escape) return PD_OK; /* their bytes differ */
  pd_error why;
  pd_code code = pd_json_decode(a, &text_a, &why);
  if (!code) code = pd_json_decode(b, &text_b, &why);
  if (code == PD_INVALID) return PD_OK; /* a lone surrogate: only the same bytes are the same */
  if (code && err) *err = why;
  *out = !code && pd_bytes_equal(pd_buf_bytes(&text_a), pd_buf_bytes(&text_b));
  return code;
}

static pd_code is_same_leaf(pd_json a, pd_json b, bool *out, pd_error *err)
{
  *out = a.kind == b.kind && (is_container(a) || pd_bytes_equal(a.raw, b.raw)); /* containers that are leaves are empty */
  if (*out || a.kind != PD_JSON_STRING || b.kind != PD_JSON_STRING) return PD_OK;
  return is_same_string(a, b, out, err);
}

typedef struct passing {
  pd_leaves *leaves;
  uint64_t from, to;
} passing;

static pd_code pass_leaf(void *ctx, const leaf_at *at, pd_error *err)
{
  const passing *p = ctx;
  uint32_t slot = *find_slot(p->leaves, at->path, at->hash);
  if (!slot) return PD_OK;
  pd_leaf *leaf = &p->leaves->items[slot - 1];
  if (leaf->is_settled || leaf->holder != p->from || leaf->met_in == p->leaves->walks) return PD_OK;
  leaf->met_in = p->leaves->walks;
  bool is_same;
  TRY(is_same_leaf(leaf->value, at->value, &is_same, err));
  if (is_same) leaf->holder = p->to;
  return PD_OK;
}

pd_code pd_leaves_pass(pd_leaves *leaves, pd_json value, uint64_t from, uint64_t to, pd_error *err)
{
  passing p = {leaves, from, to};
  leaves->walks++;
  return walk_leaves(value, pass_leaf, &p, err);
}
