/*
 * node.c: layout, search, hashing, encoding of one node. A node is a single allocation: the struct, then its arrays, then the
 * packed preimage, so that a path copy is a few memcpys.
 */
#include "dag/node.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "dag/cursor.h"

#include <assert.h>
#include <stdlib.h>

#define PREIMAGE_HEAD_SIZE 4
#define ENTRY_FIXED_SIZE (2 + PD_ID_SIZE)
#define RIDER_SIZE_ABOUT 18

pd_bytes pd_node_key(const pd_node *n, size_t index)
{
  const uint8_t *entry = n->packed + n->offsets[index];
  pd_bytes key = {entry + 2, n->offsets[index + 1] - n->offsets[index] - ENTRY_FIXED_SIZE};
  return key;
}

const uint8_t *pd_node_value_id(const pd_node *n, size_t index)
{
  return n->packed + n->offsets[index + 1] - PD_ID_SIZE;
}

/* FNV-1a, then murmur's finaliser, because FNV's low bits alone are poor. Part of the format: never changes. */
unsigned pd_key_height(pd_bytes key)
{
  const uint8_t *p = key.data;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < key.size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53u;
  h ^= h >> 33;
  unsigned zeros = h ? (unsigned)__builtin_ctzll(h) : 64;
  unsigned height = zeros / 4; /* one key in 16 starts a leaf, one in 256 also its parent… */
  return height < PD_NODE_LEVEL_MAX ? height : PD_NODE_LEVEL_MAX;
}

static uint64_t head_of(pd_bytes key, size_t skip)
{
  uint64_t head = 0;
  size_t left = key.size > skip ? key.size - skip : 0;
  const uint8_t *p = (const uint8_t *)key.data + skip;
  if (left >= 8) {
    memcpy(&head, p, 8);
    return __builtin_bswap64(head);
  }
  for (size_t i = 0; i < left; i++) head |= (uint64_t)p[i] << (56 - 8 * i);
  return head;
}

/* How `key` stands to the common prefix: <0 before all keys, >0 after all, 0 shares it. */
static int compare_prefix(const pd_node *n, pd_bytes key)
{
  const void *prefix = n->prefix_size <= PD_PREFIX_INLINE ? n->prefix : n->packed + 2;
  size_t shorter = key.size < n->prefix_size ? key.size : n->prefix_size;
  int order = shorter ? memcmp(key.data, prefix, shorter) : 0;
  if (order) return order;
  return key.size < n->prefix_size ? -1 : 0;
}

size_t pd_node_find(const pd_node *n, pd_bytes key, bool *out_equal)
{
  *out_equal = false;
  if (!n->count) return 0;
  int order = n->prefix_size ? compare_prefix(n, key) : 0;
  if (order) return order < 0 ? 0 : n->count;
  uint64_t head = head_of(key, n->prefix_size);
  size_t low = 0, high = n->count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (n->heads[mid] < head)
      low = mid + 1;
    else
      high = mid;
  }
  if (!n->level && low < n->count && n->cells[low]) __builtin_prefetch(n->cells[low]->data + 64); /* most likely wanted next */
  for (; low < n->count && n->heads[low] == head; low++) {
    int tie = pd_bytes_compare(pd_node_key(n, low), key);
    if (tie < 0) continue;
    *out_equal = tie == 0;
    break;
  }
  return low;
}

/* ---- memory ---- */

#define CLASS_MIN_BITS 10 /* below 1 KiB the allocator's own caches serve; eight classes to each doubling, up to 32 KiB */
#define CLASS_STEPS 8

/* The class of a size, which is rounded up to it; PD_POOL_CLASS_COUNT: none. */
static size_t class_of(size_t *size)
{
  if (*size <= (size_t)1 << CLASS_MIN_BITS || *size > (size_t)1 << (CLASS_MIN_BITS + PD_POOL_CLASS_COUNT / CLASS_STEPS))
    return PD_POOL_CLASS_COUNT;
  unsigned bits = 63 - (unsigned)__builtin_clzll(*size - 1); /* 2^bits < size <= 2^(bits + 1) */
  size_t step = (size_t)1 << (bits - 3);
  *size = (*size + step - 1) & ~(step - 1);
  return (bits - CLASS_MIN_BITS) * CLASS_STEPS + (*size - ((size_t)1 << bits)) / step - 1;
}

static void *take_memory(pd_node_pool *pool, size_t *size)
{
  size_t class_ = class_of(size);
  if (class_ == PD_POOL_CLASS_COUNT || !pool->spares[class_]) return malloc(*size);
  void *p = pool->spares[class_];
  memcpy(&pool->spares[class_], p, sizeof(void *));
  pool->spare_bytes -= *size;
  return p;
}

static void give_memory(pd_node_pool *pool, void *p, size_t size)
{
  size_t class_ = class_of(&size);
  if (class_ == PD_POOL_CLASS_COUNT || pool->spare_bytes + size > pool->spare_bytes_max) {
    free(p);
    return;
  }
  memcpy(p, &pool->spares[class_], sizeof(void *));
  pool->spares[class_] = p;
  pool->spare_bytes += size;
}

void pd_node_pool_done(pd_node_pool *pool)
{
  pool->spare_bytes_max = 0;
  for (size_t i = 0; i < PD_POOL_CLASS_COUNT; i++) {
    while (pool->spares[i]) {
      void *next;
      memcpy(&next, pool->spares[i], sizeof next);
      free(pool->spares[i]);
      pool->spares[i] = next;
    }
  }
  pool->spare_bytes = 0;
}

static size_t arrays_size(uint8_t level, size_t count)
{
  size_t each = sizeof(uint64_t) + sizeof(uint32_t);
  each += level ? sizeof(pd_node *) + sizeof(pd_id) + sizeof(uint64_t) : sizeof(pd_rider) + sizeof(pd_cell *);
  return each * count + sizeof(uint32_t); /* one offset more */
}

pd_code pd_node_new(pd_node_pool *pool, uint8_t level, size_t count, size_t packed_size, size_t embed_size, pd_node **out, pd_error *err)
{
  assert(count <= PD_NODE_COUNT_MAX);
  size_t fixed_size = (sizeof(pd_node) + arrays_size(level, count) + packed_size + 7) & ~(size_t)7;
  size_t size = fixed_size + embed_size;
  pd_node *n = take_memory(pool, &size);
  if (!n) return pd_error_memory(err, "a tree node");
  memset(n, 0, sizeof *n);
  n->refs = 1;
  n->size = (uint32_t)size;
  n->level = level;
  n->count = (uint16_t)count;
  uint8_t *at = (uint8_t *)(n + 1);
  n->heads = (uint64_t *)at, at += sizeof(uint64_t) * count;
  if (level) {
    n->kids = (pd_node **)at, at += sizeof(pd_node *) * count;
    n->kid_counts = (uint64_t *)at, at += sizeof(uint64_t) * count;
    n->kid_blobs = (pd_id *)at, at += sizeof(pd_id) * count;
    memset(n->kids, 0, sizeof(pd_node *) * count);
  } else {
    n->cells = (pd_cell **)at, at += sizeof(pd_cell *) * count;
    n->riders = (pd_rider *)at, at += sizeof(pd_rider) * count;
    memset(n->cells, 0, sizeof(pd_cell *) * count);
  }
  n->offsets = (uint32_t *)at, at += sizeof(uint32_t) * (count + 1);
  n->packed = at;
  n->embedded = (uint8_t *)n + fixed_size;
  n->offsets[0] = 0;
  n->is_used = true;
  pool->bytes += size;
  *out = n;
  return PD_OK;
}

/* The same place in the copy. */
static void *moved(const void *p, const pd_node *from, pd_node *to)
{
  return p ? (uint8_t *)to + ((const uint8_t *)p - (const uint8_t *)from) : NULL;
}

static void clone_cells(const pd_node *n, pd_node *copy)
{
  for (size_t i = 0; i < n->count; i++) {
    pd_cell *cell = n->cells[i];
    if (cell && !cell->refs)
      copy->cells[i] = moved(cell, n, copy);
    else if (cell)
      cell->refs++;
  }
}

pd_code pd_node_clone(pd_node_pool *pool, const pd_node *n, pd_node **out, pd_error *err)
{
  for (size_t i = 0; n->level && i < n->count; i++) __builtin_prefetch(n->kids[i], 1);
  size_t size = n->size; /* a class already */
  pd_node *copy = take_memory(pool, &size);
  if (!copy) return pd_error_memory(err, "a tree node");
  memcpy(copy, n, size);
  copy->refs = 1;
  copy->heads = moved(n->heads, n, copy);
  copy->kids = moved(n->kids, n, copy);
  copy->packed = moved(n->packed, n, copy);
  copy->offsets = moved(n->offsets, n, copy);
  copy->riders = moved(n->riders, n, copy);
  copy->kid_blobs = moved(n->kid_blobs, n, copy);
  copy->kid_counts = moved(n->kid_counts, n, copy);
  copy->embedded = moved(n->embedded, n, copy);
  if (!n->level) clone_cells(n, copy);
  for (size_t i = 0; n->level && i < n->count; i++)
    if (n->kids[i]) n->kids[i]->refs++;
  copy->is_used = true;
  copy->is_saved = false;
  pool->bytes += copy->size;
  pool->dirty_bytes += copy->blob_size;
  *out = copy;
  return PD_OK;
}

static size_t common_prefix(pd_bytes a, pd_bytes b)
{
  const uint8_t *p = a.data, *q = b.data;
  size_t shorter = a.size < b.size ? a.size : b.size, i = 0;
  while (i < shorter && p[i] == q[i]) i++;
  return i;
}

static pd_id hash_of(const pd_node *n)
{
  uint8_t head[PREIMAGE_HEAD_SIZE] = {PD_NODE_TAG, n->level};
  pd_put_u16(head + 2, n->count);
  pd_bytes parts[] = {{head, sizeof head}, {n->packed, n->offsets[n->count]}};
  return pd_sha256_parts(parts, COUNT_OF(parts));
}

static void sum_up(pd_node *n)
{
  n->key_count = n->level ? 0 : n->count;
  for (size_t i = 0; n->level && i < n->count; i++) {
    n->key_count += n->kid_counts[i];
    if (i && pd_key_height(pd_node_key(n, i)) < n->level) n->has_forced = true;
  }
  size_t rider = n->level ? PD_ID_SIZE + 4 : RIDER_SIZE_ABOUT;
  n->blob_size = (uint32_t)(n->offsets[n->count] + n->count * rider + 2 * PREIMAGE_HEAD_SIZE);
}

/* Everything but the id. */
static void index_keys(pd_node *n)
{
  if (n->count) /* keys ascend, so what the first and the last share, all share */
    n->prefix_size = (uint16_t)common_prefix(pd_node_key(n, 0), pd_node_key(n, (size_t)n->count - 1));
  if (n->prefix_size <= PD_PREFIX_INLINE && n->prefix_size) memcpy(n->prefix, n->packed + 2, n->prefix_size);
  for (size_t i = 0; i < n->count; i++) n->heads[i] = head_of(pd_node_key(n, i), n->prefix_size);
  sum_up(n);
}

void pd_node_seal(pd_node_pool *pool, pd_node *n)
{
  index_keys(n);
  n->id = hash_of(n);
  pool->dirty_bytes += n->blob_size;
}

void pd_node_set_id(pd_node_pool *pool, pd_node *n, size_t index, const pd_id *id)
{
  memcpy(n->packed + n->offsets[index + 1] - PD_ID_SIZE, id->bytes, PD_ID_SIZE);
  n->id = hash_of(n);
  if (n->is_saved) pool->dirty_bytes += n->blob_size;
  n->is_saved = false;
}

pd_node *pd_node_ref(pd_node *n)
{
  n->refs++;
  return n;
}

void pd_node_unref(pd_node_pool *pool, pd_node *n)
{
  if (!n || --n->refs) return;
  for (size_t i = 0; n->level && i < n->count; i++) __builtin_prefetch(n->kids[i], 1);
  for (size_t i = 0; n->level && i < n->count; i++) pd_node_unref(pool, n->kids[i]);
  for (size_t i = 0; n->has_shared && i < n->count; i++) pd_cell_unref(pool, n->cells[i]);
  pool->bytes -= n->size;
  if (!n->is_saved) pool->dirty_bytes -= n->blob_size;
  give_memory(pool, n, n->size);
}

pd_code pd_cell_new(pd_node_pool *pool, pd_bytes value, pd_cell **out, pd_error *err)
{
  pd_cell *cell = malloc(sizeof *cell + value.size);
  if (!cell) return pd_error_memory(err, "a value");
  cell->refs = 1;
  cell->size = (uint32_t)value.size;
  if (value.size) memcpy(cell->data, value.data, value.size);
  pool->bytes += sizeof *cell + value.size;
  *out = cell;
  return PD_OK;
}

void pd_cell_unref(pd_node_pool *pool, pd_cell *cell)
{
  if (!cell || !cell->refs || --cell->refs) return; /* an embedded one goes with its leaf */
  pool->bytes -= sizeof *cell + cell->size;
  free(cell);
}

void pd_node_mark_saved(pd_node_pool *pool, pd_node *n, const pd_id *blob_id)
{
  if (!n->is_saved) pool->dirty_bytes -= n->blob_size;
  n->is_saved = true;
  n->blob_id = *blob_id;
}

/* An entry may be updated before it was created: what is imported has the time of another clock, and a clock that was ahead may be put
 * right. The difference is then negative, and written modulo 2^64. */
static pd_code encode_rider(const pd_rider *r, pd_buf *out, pd_error *err)
{
  TRY(pd_add_varint(out, r->seq, err));
  TRY(pd_add_varint(out, r->version, err));
  TRY(pd_add_varint(out, (uint64_t)r->created_ms, err));
  TRY(pd_add_varint(out, (uint64_t)(r->updated_ms - r->created_ms), err));
  TRY(pd_add_varint(out, r->size, err));
  return pd_add_varint(out, r->pos == PD_POS_BAG ? 0 : (uint64_t)r->pos + 1, err);
}

pd_code pd_node_add_preimage(const pd_node *n, pd_buf *out, pd_error *err)
{
  uint8_t head[PREIMAGE_HEAD_SIZE] = {PD_NODE_TAG, n->level};
  pd_put_u16(head + 2, n->count);
  TRY(pd_buf_append(out, head, sizeof head, err));
  return pd_buf_append(out, n->packed, n->offsets[n->count], err);
}

pd_code pd_node_encode(const pd_node *n, pd_buf *out, pd_error *err)
{
  uint8_t size[4];
  pd_put_u32(size, PREIMAGE_HEAD_SIZE + n->offsets[n->count]);
  TRY(pd_buf_append(out, size, sizeof size, err));
  TRY(pd_node_add_preimage(n, out, err));
  for (size_t i = 0; i < n->count; i++) {
    if (n->level) {
      TRY(pd_add_id(out, n->kids[i] ? &n->kids[i]->blob_id : &n->kid_blobs[i], err));
      TRY(pd_add_varint(out, n->kid_counts[i], err));
    } else {
      TRY(encode_rider(&n->riders[i], out, err));
    }
  }
  return PD_OK;
}

static bool decode_rider(pd_cursor *c, pd_rider *r)
{
  r->seq = pd_take_varint(c);
  r->version = pd_take_varint(c);
  uint64_t created = pd_take_varint(c), after = pd_take_varint(c);
  uint64_t size = pd_take_varint(c), pos = pd_take_varint(c);
  r->created_ms = (int64_t)created;
  uint64_t updated = created + after;
  r->updated_ms = (int64_t)updated;
  r->size = (uint32_t)size;
  r->pos = pos ? (uint32_t)(pos - 1) : PD_POS_BAG;
  return created <= INT64_MAX / 2 && updated <= INT64_MAX - 1 && size <= UINT32_MAX && pos <= UINT32_MAX && r->seq && r->version;
}

/* Offsets of the entries in a preimage body; false if it is not exactly `count` ascending entries. */
static bool index_packed(pd_node *n, pd_bytes body)
{
  pd_cursor c = pd_cursor_of(body);
  pd_bytes before = {NULL, 0};
  for (size_t i = 0; i < n->count; i++) {
    n->offsets[i] = (uint32_t)(c.next - (const uint8_t *)body.data);
    pd_bytes key = pd_take_bytes(&c, pd_take_u16(&c));
    pd_take_bytes(&c, PD_ID_SIZE);
    if (c.failed || !key.size || key.size > PD_KEY_SIZE_MAX || (i && pd_bytes_compare(before, key) >= 0)) return false;
    before = key;
  }
  n->offsets[n->count] = (uint32_t)body.size;
  return pd_cursor_ok(&c);
}

static bool decode_riders(pd_node *n, pd_cursor *c)
{
  for (size_t i = 0; i < n->count; i++) {
    if (n->level) {
      n->kid_blobs[i] = pd_take_id(c);
      n->kid_counts[i] = pd_take_varint(c);
    } else if (!decode_rider(c, &n->riders[i])) {
      return false;
    }
  }
  return pd_cursor_ok(c);
}

pd_code pd_node_decode(pd_node_pool *pool, pd_bytes blob, const pd_id *blob_id, pd_node **out, pd_error *err)
{
  pd_cursor c = pd_cursor_of(blob);
  size_t preimage_size = pd_take_u32(&c);
  uint8_t tag = pd_take_u8(&c), level = pd_take_u8(&c);
  size_t count = pd_take_u16(&c);
  bool is_shaped = !c.failed && tag == PD_NODE_TAG && level <= PD_NODE_LEVEL_MAX && count <= PD_NODE_COUNT_MAX &&
                   preimage_size >= PREIMAGE_HEAD_SIZE && (count || !level);
  pd_bytes body = pd_take_bytes(&c, is_shaped ? preimage_size - PREIMAGE_HEAD_SIZE : 0);
  if (!is_shaped || c.failed) return pd_error_set(err, PD_CORRUPT, "a tree node of %zu bytes is malformed", blob.size);
  pd_node *n;
  TRY(pd_node_new(pool, level, count, body.size, 0, &n, err));
  if (body.size) memcpy(n->packed, body.data, body.size);
  body.data = n->packed;
  n->is_saved = true;
  if (!index_packed(n, body) || !decode_riders(n, &c)) {
    pd_node_unref(pool, n);
    return pd_error_set(err, PD_CORRUPT, "a tree node of %zu bytes is malformed", blob.size);
  }
  index_keys(n);
  n->id = hash_of(n);
  n->blob_id = *blob_id;
  *out = n;
  return PD_OK;
}
