/* points.c: see points.h. */
#include "dag/points.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

#define POINTS_TAG 0x50 /* 'P' */
#define FORMAT 1

static pd_code encode_point(const pd_point *p, uint64_t seq_before, pd_buf *out, pd_error *err)
{
  TRY(pd_add_varint(out, p->commit.seq - seq_before, err));
  TRY(pd_add_id(out, &p->commit.id, err));
  TRY(pd_add_id(out, &p->commit.tree, err));
  TRY(pd_add_id(out, &p->root_blob, err));
  TRY(pd_add_varint(out, p->parent_count, err));
  for (size_t i = 0; i < p->parent_count; i++) {
    TRY(pd_add_varint(out, p->parent_seqs[i] == PD_SEQ_GONE ? 0 : p->commit.seq - p->parent_seqs[i], err));
    TRY(pd_add_id(out, &p->parents[i], err));
  }
  return PD_OK;
}

pd_code pd_points_encode(const pd_points *points, pd_buf *out, pd_error *err)
{
  uint8_t head[2] = {POINTS_TAG, FORMAT};
  TRY(pd_buf_append(out, head, sizeof head, err));
  TRY(pd_add_varint(out, points->cut, err));
  TRY(pd_add_id(out, &points->audit, err));
  TRY(pd_add_varint(out, (uint64_t)points->cut_time_ms, err));
  TRY(pd_add_id(out, &points->catalog, err));
  TRY(pd_add_id(out, &points->run, err));
  TRY(pd_add_varint(out, (uint64_t)points->retired_ms, err));
  TRY(pd_add_varint(out, points->erasures, err));
  TRY(pd_add_sized(out, pd_text(points->by), err));
  TRY(pd_add_varint(out, points->count, err));
  for (size_t i = 0; i < points->count; i++) TRY(encode_point(&points->points[i], i ? points->points[i - 1].commit.seq : 0, out, err));
  return PD_OK;
}

static void decode_point(pd_cursor *c, uint64_t seq_before, uint64_t cut, pd_point *p)
{
  uint64_t step = pd_take_varint(c);
  if (!step || step >= cut - seq_before) c->failed = true; /* seq_before is below the cut */
  p->commit.seq = seq_before + step;
  p->commit.id = pd_take_id(c);
  p->commit.tree = pd_take_id(c);
  p->root_blob = pd_take_id(c);
  uint64_t count = pd_take_varint(c);
  if (count > PD_PARENT_COUNT_MAX) c->failed = true;
  p->parent_count = c->failed ? 0 : (size_t)count;
  p->parent_seqs[0] = PD_SEQ_GONE; /* of a part, which has no parents (record.h, R5) */
  for (size_t i = 0; i < p->parent_count; i++) {
    uint64_t back = pd_take_varint(c);
    if (back > p->commit.seq) c->failed = true;
    p->parent_seqs[i] = back ? p->commit.seq - (c->failed ? 0 : back) : PD_SEQ_GONE;
    p->parents[i] = pd_take_id(c);
  }
}

static int64_t take_time(pd_cursor *c)
{
  uint64_t time = pd_take_varint(c);
  if (time > INT64_MAX / 2) c->failed = true;
  return (int64_t)time;
}

static pd_code malformed(pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "what the store knows of its retention is malformed");
}

pd_code pd_points_decode(pd_bytes bytes, pd_points *out, pd_error *err)
{
  memset(out, 0, sizeof *out);
  pd_cursor c = pd_cursor_of(bytes);
  if (pd_take_u8(&c) != POINTS_TAG || pd_take_u8(&c) != FORMAT) c.failed = true;
  out->cut = pd_take_varint(&c);
  out->audit = pd_take_id(&c);
  out->cut_time_ms = take_time(&c);
  out->catalog = pd_take_id(&c);
  out->run = pd_take_id(&c);
  out->retired_ms = take_time(&c);
  out->erasures = pd_take_varint(&c);
  pd_bytes by = pd_take_sized(&c, sizeof out->by - 1);
  if (by.size) memcpy(out->by, by.data, by.size);
  if (by.size && memchr(by.data, 0, by.size)) c.failed = true;
  uint64_t count = pd_take_varint(&c);
  if (!out->cut || count > PD_POINT_COUNT_MAX || count > pd_cursor_left(&c) / (3 * PD_ID_SIZE)) c.failed = true;
  for (uint64_t i = 0; !c.failed && i < count; i++) {
    pd_point *p;
    TRY(pd_points_add(out, &p, err));
    decode_point(&c, i ? p[-1].commit.seq : 0, out->cut, p);
  }
  return pd_cursor_ok(&c) ? PD_OK : malformed(err);
}

void pd_points_done(pd_points *points)
{
  free(points->points);
  points->points = NULL;
  points->count = points->capacity = 0;
}

pd_code pd_points_add(pd_points *points, pd_point **out, pd_error *err)
{
  TRY(pd_array_grow(&points->points, points->count, &points->capacity, sizeof *points->points, "kept points", err));
  *out = &points->points[points->count++];
  memset(*out, 0, sizeof **out);
  return PD_OK;
}

const pd_point *pd_points_before(const pd_points *points, uint64_t seq)
{
  size_t low = 0, high = points->count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (points->points[mid].commit.seq <= seq)
      low = mid + 1;
    else
      high = mid;
  }
  return low ? &points->points[low - 1] : NULL;
}

const pd_point *pd_points_find(const pd_points *points, uint64_t seq)
{
  const pd_point *p = pd_points_before(points, seq);
  return p && p->commit.seq == seq ? p : NULL;
}

void pd_points_set_by(pd_points *points, const char *by)
{
  size_t size = strnlen(by, sizeof points->by);
  if (size == sizeof points->by)
    for (size--; size && ((unsigned char)by[size] & 0xC0) == 0x80;) size--;
  memcpy(points->by, by, size);
  points->by[size] = 0;
}
