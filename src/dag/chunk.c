/* chunk.c: see chunk.h. */
#include "dag/chunk.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#define GROUP_MARK 0x47
#define LIST_MARK 0x4c
#define FORMAT 1
#define GEAR_SEED 0x7065726475726521u /* "perdure!" */
#define STRICT_SHIFT 48               /* 16 bits: rarely, while a piece is small */
#define EASY_SHIFT 52                 /* 12 bits: soon, once it is not */

/* ---- cutting ---- */

void pd_gear_init(pd_gear *gear)
{
  uint64_t state = GEAR_SEED;
  for (size_t i = 0; i < COUNT_OF(gear->table); i++) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    gear->table[i] = z ^ z >> 31;
  }
}

size_t pd_chunk_cut(const pd_gear *gear, pd_bytes data)
{
  const uint8_t *p = data.data;
  size_t end = data.size < PD_CHUNK_SIZE_MAX ? data.size : PD_CHUNK_SIZE_MAX;
  size_t normal = end < PD_CHUNK_SIZE_NORMAL ? end : PD_CHUNK_SIZE_NORMAL;
  uint64_t hash = 0;
  size_t i = PD_CHUNK_SIZE_MIN; /* no cut before it, so nothing to hash */
  for (; i < normal; i++) {
    hash = (hash << 1) + gear->table[p[i]];
    if (!(hash >> STRICT_SHIFT)) return i + 1;
  }
  for (; i < end; i++) {
    hash = (hash << 1) + gear->table[p[i]];
    if (!(hash >> EASY_SHIFT)) return i + 1;
  }
  return end;
}

bool pd_group_ends(const pd_id *id, size_t count)
{
  if (count < PD_GROUP_COUNT_MIN) return false;
  return count >= PD_GROUP_COUNT_MAX || !(id->bytes[PD_ID_SIZE - 1] & PD_GROUP_MASK);
}

/* ---- groups and lists as bytes ---- */

static pd_code add_head(pd_buf *out, uint8_t mark, size_t count, pd_error *err)
{
  uint8_t head[2] = {mark, FORMAT};
  TRY(pd_buf_append(out, head, sizeof head, err));
  return pd_add_varint(out, count, err);
}

pd_code pd_group_encode(const pd_chunk *chunks, size_t count, pd_buf *out, pd_error *err)
{
  TRY(add_head(out, GROUP_MARK, count, err));
  for (size_t i = 0; i < count; i++) {
    TRY(pd_add_id(out, &chunks[i].id, err));
    TRY(pd_add_varint(out, chunks[i].size, err));
  }
  return PD_OK;
}

pd_code pd_list_encode(const pd_group *groups, size_t count, pd_buf *out, pd_error *err)
{
  TRY(add_head(out, LIST_MARK, count, err));
  for (size_t i = 0; i < count; i++) {
    TRY(pd_add_id(out, &groups[i].id, err));
    TRY(pd_add_varint(out, groups[i].count, err));
    TRY(pd_add_varint(out, groups[i].size, err));
  }
  return PD_OK;
}

static void take_chunk(pd_cursor *c, pd_chunk *out)
{
  out->id = pd_take_id(c);
  uint64_t size = pd_take_varint(c);
  if (!size || size > PD_CHUNK_SIZE_MAX) c->failed = true;
  out->size = c->failed ? 0 : (uint32_t)size;
}

static void take_group(pd_cursor *c, pd_group *out)
{
  out->id = pd_take_id(c);
  uint64_t count = pd_take_varint(c), size = pd_take_varint(c);
  if (!count || count > PD_GROUP_COUNT_MAX || !size || size > PD_GROUP_COUNT_MAX * PD_CHUNK_SIZE_MAX) c->failed = true;
  out->count = c->failed ? 0 : (uint32_t)count;
  out->size = c->failed ? 0 : (uint32_t)size;
}

static bool take_head(pd_bytes blob, uint8_t mark, pd_list_walk *out)
{
  *out = (pd_list_walk){.c = pd_cursor_of(blob)};
  pd_cursor *c = &out->c;
  uint8_t is = pd_take_u8(c), format = pd_take_u8(c);
  uint64_t count = pd_take_varint(c);
  if (is != mark || format != FORMAT || !count || count > pd_cursor_left(c) / (PD_ID_SIZE + 1)) c->failed = true;
  out->count = c->failed ? 0 : (size_t)count;
  return !c->failed;
}

pd_code pd_group_open(pd_bytes blob, const pd_group *expect, pd_list_walk *out, pd_error *err)
{
  bool is_good = take_head(blob, GROUP_MARK, out) && out->count <= PD_GROUP_COUNT_MAX;
  pd_cursor c = out->c;
  for (size_t i = 0; is_good && i < out->count; i++) {
    pd_chunk chunk;
    take_chunk(&c, &chunk);
    out->size += chunk.size;
  }
  if (!is_good || !pd_cursor_ok(&c)) return pd_error_set(err, PD_CORRUPT, "a list of a value's pieces is malformed");
  if (expect && (expect->count != out->count || expect->size != out->size))
    return pd_error_set(err, PD_CORRUPT, "a list of a value's pieces is not the one that its value names");
  return PD_OK;
}

bool pd_group_next(pd_list_walk *walk, pd_chunk *out)
{
  if (!walk->count) return false;
  walk->count--;
  take_chunk(&walk->c, out);
  return true;
}

pd_code pd_list_open(pd_bytes blob, pd_list_walk *out, pd_error *err)
{
  bool is_good = take_head(blob, LIST_MARK, out);
  pd_cursor c = out->c;
  for (size_t i = 0; is_good && i < out->count; i++) {
    pd_group group;
    take_group(&c, &group);
    out->size += group.size;
  }
  if (!is_good || !pd_cursor_ok(&c) || out->size > PD_CHUNKED_SIZE_MAX)
    return pd_error_set(err, PD_CORRUPT, "the list of a value's pieces is malformed");
  return PD_OK;
}

bool pd_list_next(pd_list_walk *walk, pd_group *out)
{
  if (!walk->count) return false;
  walk->count--;
  take_group(&walk->c, out);
  return true;
}
