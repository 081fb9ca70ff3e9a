/* json_canon.c: the meaning of JSON values: one canonical text each, and equality. Declared in json_merge.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"

#include <stdlib.h>

/* ---- canonical text ---- */

#define SPANS_SIZE_MIN 4096 /* below, passing over the same bytes again costs less than to note where things end */

/* One text being written. */
typedef struct canon {
  pd_json_writer w;
  pd_json_span *spans; /* of the whole value; NULL: none */
  uint64_t passed;     /* bytes, as pd_json_walk has it */
} canon;

typedef struct member {
  pd_json name, value;
  size_t span; /* of the value, if it is an array or object */
} member;

#define FEW 8 /* small: objects nest, and threads may have small stacks */

typedef struct members {
  member *items; /* `few`, or on the heap when they are more */
  size_t count, capacity;
  member few[FEW];
} members;

static void members_done(members *m)
{
  if (m->items != m->few) free(m->items);
}

static pd_code add_member(members *m, member one, pd_error *err)
{
  if (m->count == FEW && m->items == m->few) {
    member *heap = malloc(2 * sizeof m->few);
    if (!heap) return pd_error_memory(err, "a JSON object");
    m->items = memcpy(heap, m->few, sizeof m->few);
    m->capacity = (size_t)2 * FEW;
  }
  if (m->items != m->few) TRY(pd_array_grow(&m->items, m->count, &m->capacity, sizeof one, "a JSON object", err));
  m->items[m->count++] = one;
  return PD_OK;
}

static int compare_members(const void *a, const void *b)
{
  return pd_json_string_compare(((const member *)a)->name, ((const member *)b)->name);
}

static bool is_sorted(const members *m)
{
  for (size_t i = 1; i < m->count; i++)
    if (compare_members(&m->items[i - 1], &m->items[i]) > 0) return false;
  return true;
}

static pd_code write_canonical(canon *c, pd_json value, size_t span);

/* A string with half of a surrogate pair has no decoded form: it stays as it is written. */
static pd_code write_string(pd_json_writer *w, pd_json value)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (!memchr(value.raw.data, '\\', value.raw.size) && !memchr(value.raw.data, 0x7F, value.raw.size)) {
    pd_json_raw(w, value.raw); /* it would be written as it stands */
    return w->code;
  }
  TRY(pd_buf_reserve(&text, value.raw.size, w->err)); /* so decoding fails for no other reason than a surrogate */
  if (pd_json_decode(value, &text, NULL))
    pd_json_value(w, value);
  else
    pd_json_text(w, pd_buf_bytes(&text));
  return w->code;
}

static pd_json_walk walk_begin(const canon *c, pd_json container, size_t span)
{
  pd_json_walk walk = pd_json_walk_begin(container);
  walk.spans = c->spans;
  walk.next = span + 1;
  return walk;
}

static pd_code write_object(canon *c, pd_json object, size_t span)
{
  CLEANUP(members_done) members all;
  all.items = all.few;
  all.count = all.capacity = 0;
  pd_json_walk walk = walk_begin(c, object, span);
  member one = {.span = walk.next};
  for (; pd_json_walk_next(&walk, &one.name, &one.value); one.span = walk.next) TRY(add_member(&all, one, c->w.err));
  c->passed += walk.passed;
  if (!is_sorted(&all)) qsort(all.items, all.count, sizeof one, compare_members);
  pd_json_open(&c->w, '{');
  for (size_t i = 0; i < all.count; i++) {
    TRY(write_string(&c->w, all.items[i].name));
    TRY(pd_buf_byte(c->w.out, ':', c->w.err));
    c->w.needs_comma = false;
    TRY(write_canonical(c, all.items[i].value, all.items[i].span));
  }
  pd_json_close(&c->w, '}');
  return c->w.code;
}

static pd_code write_array(canon *c, pd_json array, size_t span)
{
  pd_json_walk walk = walk_begin(c, array, span);
  pd_json item;
  pd_json_open(&c->w, '[');
  for (size_t at = walk.next; pd_json_walk_next(&walk, NULL, &item); at = walk.next) TRY(write_canonical(c, item, at));
  c->passed += walk.passed;
  pd_json_close(&c->w, ']');
  return c->w.code;
}

/* Recurses at most PD_JSON_DEPTH_MAX deep (J1). */
static pd_code write_canonical(canon *c, pd_json value, size_t span)
{
  switch (value.kind) {
  case PD_JSON_NONE: return PD_OK;
  case PD_JSON_OBJECT: return write_object(c, value, span);
  case PD_JSON_ARRAY: return write_array(c, value, span);
  case PD_JSON_STRING: return write_string(&c->w, value);
  default: pd_json_value(&c->w, value); return c->w.code;
  }
}

pd_code pd_json_canonical_counted(pd_json value, pd_buf *out, uint64_t *out_passed, pd_error *err)
{
  canon c = {.w = {.out = out, .err = err}};
  if (value.raw.size >= SPANS_SIZE_MIN) {
    TRY(pd_json_spans(value, &c.spans, err));
    c.passed = value.raw.size;
  }
  pd_code code = write_canonical(&c, value, 0);
  free(c.spans);
  *out_passed = c.passed;
  return code;
}

pd_code pd_json_canonical(pd_json value, pd_buf *out, pd_error *err)
{
  uint64_t passed;
  return pd_json_canonical_counted(value, out, &passed, err);
}

pd_code pd_json_equal(pd_json a, pd_json b, bool *out, pd_error *err)
{
  *out = a.kind == b.kind;
  if (!*out || pd_bytes_equal(a.raw, b.raw)) return PD_OK;
  CLEANUP(pd_buf_done) pd_buf text_a = {0};
  CLEANUP(pd_buf_done) pd_buf text_b = {0};
  TRY(pd_json_canonical(a, &text_a, err));
  TRY(pd_json_canonical(b, &text_b, err));
  *out = pd_bytes_equal(pd_buf_bytes(&text_a), pd_buf_bytes(&text_b));
  return PD_OK;
}
