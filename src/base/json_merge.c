/*
 * json_merge.c: three JSON values become one. Members of the three objects are collected into one table, sorted by name, so that the
 * work is n log n however many there are.
 */
#include "base/json_merge.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"

#include <stdlib.h>

typedef struct merger {
  pd_json_conflict conflict;
  void *ctx;
  pd_buf path;
  pd_json_writer w;
} merger;

static void merger_done(merger *m)
{
  pd_buf_done(&m->path);
}

/* One member as the three sides have it. */
typedef struct row {
  pd_json name;
  size_t base_index; /* its place in the base; SIZE_MAX: a new one */
  pd_json sides[PD_SIDE_COUNT];
} row;

typedef struct table {
  row *rows;
  size_t count, capacity;
} table;

static void table_done(table *t)
{
  free(t->rows);
}

static pd_code collect_side(table *t, pd_json object, int side, pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(object);
  pd_json name, value;
  for (size_t i = 0; pd_json_walk_next(&walk, &name, &value); i++) {
    TRY(pd_array_grow(&t->rows, t->count, &t->capacity, sizeof *t->rows, "a JSON object", err));
    row *r = &t->rows[t->count++];
    *r = (row){.name = name, .base_index = side == PD_SIDE_BASE ? i : SIZE_MAX};
    r->sides[side] = value;
  }
  return PD_OK;
}

static int compare_names(const void *a, const void *b)
{
  return pd_json_string_compare(((const row *)a)->name, ((const row *)b)->name);
}

/* As they are written: the base's in its order, then the new ones by name. */
static int compare_places(const void *a, const void *b)
{
  const row *ra = a, *rb = b;
  if (ra->base_index != rb->base_index) return ra->base_index < rb->base_index ? -1 : 1;
  return compare_names(a, b);
}

/* The spelling of a name must not depend on which side is which. */
static void join_rows(row *into, const row *from)
{
  bool is_base_name = into->base_index != SIZE_MAX;
  bool is_better = from->base_index != SIZE_MAX || pd_bytes_compare(from->name.raw, into->name.raw) < 0;
  if (!is_base_name && is_better) into->name = from->name;
  if (from->base_index != SIZE_MAX) into->base_index = from->base_index;
  for (int side = 0; side < PD_SIDE_COUNT; side++)
    if (from->sides[side].kind != PD_JSON_NONE) into->sides[side] = from->sides[side];
}

static pd_code collect(table *t, const pd_json sides[PD_SIDE_COUNT], pd_error *err)
{
  for (int side = 0; side < PD_SIDE_COUNT; side++) TRY(collect_side(t, sides[side], side, err));
  if (!t->count) return PD_OK;
  qsort(t->rows, t->count, sizeof *t->rows, compare_names);
  size_t count = 1;
  for (size_t i = 1; i < t->count; i++) {
    if (compare_names(&t->rows[count - 1], &t->rows[i]) == 0)
      join_rows(&t->rows[count - 1], &t->rows[i]);
    else
      t->rows[count++] = t->rows[i];
  }
  t->count = count;
  qsort(t->rows, t->count, sizeof *t->rows, compare_places);
  return PD_OK;
}

/* ---- paths ---- */

/* A name with half of a surrogate pair cannot be decoded; its escapes stand in the path then. */
static pd_code decode_name(pd_json name, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_reserve(out, name.raw.size, err));
  if (pd_json_decode(name, out, NULL) == PD_OK) return PD_OK;
  return pd_buf_append(out, (const char *)name.raw.data + 1, name.raw.size - 2, err);
}

static pd_code push_path(merger *m, pd_json name)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(decode_name(name, &text, m->w.err));
  TRY(pd_buf_byte(&m->path, '/', m->w.err));
  for (size_t i = 0; i < text.size; i++) {
    const char *escape = text.data[i] == '~' ? "~0" : text.data[i] == '/' ? "~1" : NULL;
    if (escape)
      TRY(pd_buf_append(&m->path, escape, 2, m->w.err));
    else
      TRY(pd_buf_byte(&m->path, text.data[i], m->w.err));
  }
  return PD_OK;
}

/* ---- merging ---- */

/* Of two texts that mean the same, the same one whichever side it is on. */
static pd_json either(pd_json a, pd_json b)
{
  return pd_bytes_compare(a.raw, b.raw) <= 0 ? a : b;
}

/* What becomes of one value: *out_chosen, or *out_merge: go into it. */
static pd_code choose(merger *m, const pd_json sides[PD_SIDE_COUNT], pd_json *out_chosen, bool *out_merge)
{
  pd_json base = sides[PD_SIDE_BASE], ours = sides[PD_SIDE_OURS], theirs = sides[PD_SIDE_THEIRS];
  bool is_same, ours_is_base, theirs_is_base;
  *out_merge = false;
  TRY(pd_json_equal(ours, theirs, &is_same, m->w.err));
  *out_chosen = either(ours, theirs);
  if (is_same) return PD_OK;
  TRY(pd_json_equal(base, ours, &ours_is_base, m->w.err));
  *out_chosen = theirs;
  if (ours_is_base) return PD_OK;
  TRY(pd_json_equal(base, theirs, &theirs_is_base, m->w.err));
  *out_chosen = ours;
  if (theirs_is_base) return PD_OK;
  *out_merge = ours.kind == PD_JSON_OBJECT && theirs.kind == PD_JSON_OBJECT && (base.kind == PD_JSON_OBJECT || base.kind == PD_JSON_NONE);
  if (*out_merge) return PD_OK;
  *out_chosen = base;
  return m->conflict(m->ctx, pd_buf_bytes(&m->path), sides, out_chosen, m->w.err);
}

static pd_code merge_objects(merger *m, const pd_json sides[PD_SIDE_COUNT]);

static pd_code merge_row(merger *m, const row *r)
{
  pd_json chosen;
  bool goes_deeper;
  size_t path_size = m->path.size;
  TRY(push_path(m, r->name));
  TRY(choose(m, r->sides, &chosen, &goes_deeper));
  if (goes_deeper || chosen.kind != PD_JSON_NONE) {
    pd_json_value(&m->w, r->name);
    TRY(m->w.code);
    TRY(pd_buf_byte(m->w.out, ':', m->w.err));
    m->w.needs_comma = false;
    if (goes_deeper)
      TRY(merge_objects(m, r->sides));
    else
      pd_json_value(&m->w, chosen);
  }
  m->path.size = path_size;
  return m->w.code;
}

/* Recurses at most PD_JSON_DEPTH_MAX deep (J1). */
static pd_code merge_objects(merger *m, const pd_json sides[PD_SIDE_COUNT])
{
  CLEANUP(table_done) table t = {0};
  TRY(collect(&t, sides, m->w.err));
  pd_json_open(&m->w, '{');
  for (size_t i = 0; i < t.count; i++) TRY(merge_row(m, &t.rows[i]));
  pd_json_close(&m->w, '}');
  return m->w.code;
}

pd_code pd_json_merge(const pd_json sides[PD_SIDE_COUNT], pd_json_conflict conflict, void *ctx, pd_buf *out, pd_error *err)
{
  CLEANUP(merger_done) merger m = {.conflict = conflict, .ctx = ctx, .w = {.out = out, .err = err}};
  pd_json chosen;
  bool goes_deeper;
  TRY(choose(&m, sides, &chosen, &goes_deeper));
  if (goes_deeper) return merge_objects(&m, sides);
  if (chosen.kind != PD_JSON_NONE) pd_json_value(&m.w, chosen);
  return m.w.code;
}
