/* json_canon.c: the meaning of JSON values: one canonical text each, and equality. Declared in json_merge.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"

#include <stdlib.h>

/* ---- canonical text ---- */

typedef struct member {
  pd_json name, value;
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

static pd_code write_canonical(pd_json_writer *w, pd_json value);

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

static pd_code write_object(pd_json_writer *w, pd_json object)
{
  CLEANUP(members_done) members all;
  all.items = all.few;
  all.count = all.capacity = 0;
  pd_json_walk walk = pd_json_walk_begin(object);
  member one;
  while (pd_json_walk_next(&walk, &one.name, &one.value)) TRY(add_member(&all, one, w->err));
  if (!is_sorted(&all)) qsort(all.items, all.count, sizeof one, compare_members);
  pd_json_open(w, '{');
  for (size_t i = 0; i < all.count; i++) {
    TRY(write_string(w, all.items[i].name));
    TRY(pd_buf_byte(w->out, ':', w->err));
    w->needs_comma = false;
    TRY(write_canonical(w, all.items[i].value));
  }
  pd_json_close(w, '}');
  return w->code;
}

static pd_code write_array(pd_json_writer *w, pd_json array)
{
  pd_json_walk walk = pd_json_walk_begin(array);
  pd_json item;
  pd_json_open(w, '[');
  while (pd_json_walk_next(&walk, NULL, &item)) TRY(write_canonical(w, item));
  pd_json_close(w, ']');
  return w->code;
}

/* Recurses at most PD_JSON_DEPTH_MAX deep (J1). */
static pd_code write_canonical(pd_json_writer *w, pd_json value)
{
  switch (value.kind) {
  case PD_JSON_NONE: return PD_OK;
  case PD_JSON_OBJECT: return write_object(w, value);
  case PD_JSON_ARRAY: return write_array(w, value);
  case PD_JSON_STRING: return write_string(w, value);
  default: pd_json_value(w, value); return w->code;
  }
}

pd_code pd_json_canonical(pd_json value, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  return write_canonical(&w, value);
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
