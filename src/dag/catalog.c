/* catalog.c: see catalog.h. */
#include "dag/catalog.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

#define CATALOG_TAG 0x4B /* 'K' */
#define RUN_TAG 0x52     /* 'R' */
#define FORMAT 1
#define REF_DELETED 1u
#define REF_HAS_REDO 2u
#define RUN_HEAD_SIZE 14 /* tag, format, base u64, count u32 */
#define RUN_ENTRY_SIZE 8

static pd_code encode_ref(const pd_catalog_ref *ref, pd_buf *out, pd_error *err)
{
  TRY(pd_add_sized(out, pd_text(ref->name), err));
  TRY(pd_buf_byte(out, (uint8_t)((ref->is_deleted ? REF_DELETED : 0) | (ref->redo_seq ? REF_HAS_REDO : 0)), err));
  TRY(pd_add_varint(out, ref->last_seq, err));
  TRY(pd_add_varint(out, (uint64_t)ref->updated_ms, err));
  if (ref->is_deleted) return PD_OK;
  TRY(pd_add_varint(out, ref->commit.seq, err));
  TRY(pd_add_id(out, &ref->commit.id, err));
  TRY(pd_add_id(out, &ref->commit.tree, err));
  TRY(pd_add_id(out, &ref->root_blob, err));
  return ref->redo_seq ? pd_add_varint(out, ref->redo_seq, err) : PD_OK;
}

pd_code pd_catalog_encode(const pd_catalog *catalog, pd_buf *out, pd_error *err)
{
  uint8_t head[2] = {CATALOG_TAG, FORMAT};
  TRY(pd_buf_append(out, head, sizeof head, err));
  TRY(pd_add_varint(out, catalog->covers, err));
  TRY(pd_add_id(out, &catalog->audit, err));
  TRY(pd_add_varint(out, (uint64_t)catalog->time_ms, err));
  TRY(pd_add_id(out, &catalog->run, err));
  TRY(pd_add_sized(out, pd_text(catalog->current), err));
  TRY(pd_add_varint(out, catalog->ref_count, err));
  for (size_t i = 0; i < catalog->ref_count; i++) TRY(encode_ref(&catalog->refs[i], out, err));
  TRY(pd_add_varint(out, catalog->frame_count, err));
  for (size_t i = 0; i < catalog->frame_count; i++) {
    const pd_catalog_frame *f = &catalog->frames[i];
    TRY(pd_add_varint(out, f->covers, err));
    TRY(pd_add_varint(out, f->seq - f->covers, err));
    TRY(pd_add_id(out, &f->catalog, err));
    TRY(pd_add_id(out, &f->run, err));
  }
  return PD_OK;
}

static void take_name(pd_cursor *c, char out[PD_REF_SIZE_MAX + 1])
{
  pd_bytes name = pd_take_sized(c, PD_REF_SIZE_MAX);
  if (name.size) memcpy(out, name.data, name.size);
  out[name.size] = 0;
  if (!name.size || memchr(name.data, 0, name.size)) c->failed = true;
}

static void decode_ref(pd_cursor *c, pd_catalog_ref *ref)
{
  take_name(c, ref->name);
  uint8_t flags = pd_take_u8(c);
  if (flags > (REF_DELETED | REF_HAS_REDO) || flags == (REF_DELETED | REF_HAS_REDO)) c->failed = true;
  ref->is_deleted = flags & REF_DELETED;
  ref->last_seq = pd_take_varint(c);
  ref->updated_ms = (int64_t)pd_take_varint(c);
  if (ref->is_deleted) return;
  ref->commit.seq = pd_take_varint(c);
  ref->commit.id = pd_take_id(c);
  ref->commit.tree = pd_take_id(c);
  ref->root_blob = pd_take_id(c);
  if (flags & REF_HAS_REDO) ref->redo_seq = pd_take_varint(c);
}

/* A count that the bytes left can hold, at `least` bytes each. */
static size_t take_count(pd_cursor *c, size_t least)
{
  uint64_t count = pd_take_varint(c);
  if (count > PD_CATALOG_COUNT_MAX || count * least > pd_cursor_left(c)) c->failed = true;
  return c->failed ? 0 : (size_t)count;
}

static pd_code decode_lists(pd_cursor *c, pd_catalog *out, pd_error *err)
{
  out->ref_count = take_count(c, 4);
  out->refs = calloc(out->ref_count + 1, sizeof *out->refs);
  if (!out->refs) return pd_error_memory(err, "a catalog");
  for (size_t i = 0; i < out->ref_count; i++) decode_ref(c, &out->refs[i]);
  out->frame_count = take_count(c, 2 * PD_ID_SIZE + 2);
  out->frames = calloc(out->frame_count + 1, sizeof *out->frames);
  if (!out->frames) return pd_error_memory(err, "a catalog");
  for (size_t i = 0; i < out->frame_count; i++) {
    pd_catalog_frame *f = &out->frames[i];
    f->covers = pd_take_varint(c);
    f->seq = f->covers + pd_take_varint(c);
    f->catalog = pd_take_id(c);
    f->run = pd_take_id(c);
    if (f->seq <= f->covers || (i && f->covers <= f[-1].covers)) c->failed = true;
  }
  return PD_OK;
}

pd_code pd_catalog_decode(pd_bytes bytes, pd_catalog *out, pd_error *err)
{
  memset(out, 0, sizeof *out);
  pd_cursor c = pd_cursor_of(bytes);
  if (pd_take_u8(&c) != CATALOG_TAG || pd_take_u8(&c) != FORMAT) c.failed = true;
  out->covers = pd_take_varint(&c);
  out->audit = pd_take_id(&c);
  out->time_ms = (int64_t)pd_take_varint(&c);
  out->run = pd_take_id(&c);
  take_name(&c, out->current);
  TRY(decode_lists(&c, out, err));
  return pd_cursor_ok(&c) ? PD_OK : pd_error_set(err, PD_CORRUPT, "a keyframe's catalog is malformed");
}

void pd_catalog_done(pd_catalog *catalog)
{
  free(catalog->refs);
  free(catalog->frames);
  catalog->refs = NULL;
  catalog->frames = NULL;
  catalog->ref_count = catalog->frame_count = 0;
}

/* ---- runs: fixed-size entries, so that they are searched where they lie ---- */

uint32_t pd_id_prefix(const pd_id *id)
{
  uint32_t prefix;
  memcpy(&prefix, id->bytes, sizeof prefix);
  return __builtin_bswap32(prefix);
}

static int compare_entries(const void *a, const void *b)
{
  const pd_run_entry *x = a, *y = b;
  if (x->prefix != y->prefix) return x->prefix < y->prefix ? -1 : 1;
  return (x->seq > y->seq) - (x->seq < y->seq);
}

static void put_u64(uint8_t *out, uint64_t n)
{
  pd_put_u32(out, (uint32_t)n);
  pd_put_u32(out + 4, (uint32_t)(n >> 32));
}

static uint64_t get_u64(const uint8_t *p)
{
  uint64_t n = 0;
  for (int i = 7; i >= 0; i--) n = n << 8 | p[i];
  return n;
}

pd_code pd_run_encode(pd_run_entry *entries, size_t count, uint64_t base_seq, pd_buf *out, pd_error *err)
{
  if (count) qsort(entries, count, sizeof *entries, compare_entries);
  TRY(pd_buf_reserve(out, RUN_HEAD_SIZE + count * RUN_ENTRY_SIZE, err));
  uint8_t *p = out->data + out->size;
  p[0] = RUN_TAG, p[1] = FORMAT;
  put_u64(p + 2, base_seq);
  pd_put_u32(p + 10, (uint32_t)count);
  p += RUN_HEAD_SIZE;
  for (size_t i = 0; i < count; i++, p += RUN_ENTRY_SIZE) {
    pd_put_u32(p, entries[i].prefix);
    pd_put_u32(p + 4, (uint32_t)(entries[i].seq - base_seq));
  }
  out->size += RUN_HEAD_SIZE + count * RUN_ENTRY_SIZE;
  return PD_OK;
}

pd_code pd_run_check(pd_bytes run, pd_error *err)
{
  const uint8_t *p = run.data;
  if (run.size < RUN_HEAD_SIZE || p[0] != RUN_TAG || p[1] != FORMAT || (run.size - RUN_HEAD_SIZE) % RUN_ENTRY_SIZE ||
      (get_u64(p + 10 - 4) >> 32) != (run.size - RUN_HEAD_SIZE) / RUN_ENTRY_SIZE)
    return pd_error_set(err, PD_CORRUPT, "a keyframe's commit list is malformed");
  return PD_OK;
}

size_t pd_run_count(pd_bytes run)
{
  return (run.size - RUN_HEAD_SIZE) / RUN_ENTRY_SIZE;
}

pd_run_entry pd_run_at(pd_bytes run, size_t index)
{
  const uint8_t *p = (const uint8_t *)run.data, *e = p + RUN_HEAD_SIZE + index * RUN_ENTRY_SIZE;
  uint64_t both = get_u64(e);
  pd_run_entry entry = {(uint32_t)both, get_u64(p + 2) + (both >> 32)};
  return entry;
}

size_t pd_run_find(pd_bytes run, uint32_t prefix)
{
  size_t low = 0, high = pd_run_count(run);
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (pd_run_at(run, mid).prefix < prefix)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}
