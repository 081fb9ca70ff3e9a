/*
 * json_walk.c: members, items, strings and integers of JSON that pd_json_parse has accepted (J3 of json.h): nothing is checked
 * twice here, except what the grammar leaves open: lone surrogates, repeated keys, numbers that do not fit.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_merge.h"
#include "base/json_pick.h"

#include <stdlib.h>

static bool is_space(uint8_t c)
{
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const uint8_t *skip_space(const uint8_t *p, const uint8_t *end)
{
  while (p < end && is_space(*p)) p++;
  return p;
}

/* Past the closing quote of the string at p. */
static const uint8_t *skip_string(const uint8_t *p, const uint8_t *end)
{
  const uint8_t *quote = ++p < end ? memchr(p, '"', (size_t)(end - p)) : NULL;
  if (quote && (quote == p || quote[-1] != '\\')) return quote + 1; /* nothing is escaped just before it: it is the end */
  for (; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  return p + 1;
}

/* Past the value at p. */
static const uint8_t *skip_value(const uint8_t *p, const uint8_t *end)
{
  if (*p == '"') return skip_string(p, end);
  if (*p != '{' && *p != '[') {
    while (p < end && *p != ',' && *p != '}' && *p != ']' && !is_space(*p)) p++;
    return p;
  }
  unsigned depth = 0;
  do {
    if (*p == '"') {
      p = skip_string(p, end);
      continue;
    }
    if (*p == '{' || *p == '[') depth++;
    if (*p == '}' || *p == ']') depth--;
    p++;
  } while (depth && p < end);
  return p;
}

static pd_json_kind kind_at(const uint8_t *p)
{
  if (*p == '{') return PD_JSON_OBJECT;
  if (*p == '[') return PD_JSON_ARRAY;
  if (*p == '"') return PD_JSON_STRING;
  if (*p == 't' || *p == 'f') return PD_JSON_BOOL;
  return *p == 'n' ? PD_JSON_NULL : PD_JSON_NUMBER;
}

pd_code pd_json_spans(pd_json value, pd_json_span **out, pd_error *err)
{
  size_t open[PD_JSON_DEPTH_MAX + 1], depth = 0, count = 0, capacity = 0;
  pd_json_span *spans = NULL;
  const uint8_t *begin = value.raw.data, *end = begin + value.raw.size;
  *out = NULL;
  if (value.raw.size > UINT32_MAX) return PD_OK;
  for (const uint8_t *p = begin; p < end;) {
    if (*p == '"') {
      p = skip_string(p, end);
      continue;
    }
    if ((*p == '{' || *p == '[') && depth <= PD_JSON_DEPTH_MAX) {
      pd_code code = pd_array_grow(&spans, count, &capacity, sizeof *spans, "the arrays and objects of a JSON value", err);
      if (code) {
        free(spans);
        return code;
      }
      spans[count].size = (uint32_t)(p - begin); /* where it begins, until its end is known */
      open[depth++] = count++;
    } else if ((*p == '}' || *p == ']') && depth) {
      pd_json_span *span = &spans[open[--depth]];
      span->size = (uint32_t)(p + 1 - begin) - span->size;
      span->inside = (uint32_t)(count - open[depth]);
    }
    p++;
  }
  *out = spans;
  return PD_OK;
}

pd_json_walk pd_json_walk_begin(pd_json container)
{
  pd_json_walk walk = {.is_object = container.kind == PD_JSON_OBJECT};
  if (container.kind != PD_JSON_OBJECT && container.kind != PD_JSON_ARRAY) return walk;
  walk.at = (const uint8_t *)container.raw.data + 1;
  walk.end = walk.at + container.raw.size - 2;
  return walk;
}

static pd_json take_value(pd_json_walk *walk)
{
  const uint8_t *begin = walk->at;
  if (walk->spans && (*begin == '{' || *begin == '[')) {
    walk->at = begin + walk->spans[walk->next].size;
    walk->next += walk->spans[walk->next].inside;
  } else {
    walk->at = skip_value(begin, walk->end);
    walk->passed += (uint64_t)(walk->at - begin);
  }
  return (pd_json){{begin, (size_t)(walk->at - begin)}, kind_at(begin)};
}

bool pd_json_walk_next(pd_json_walk *walk, pd_json *out_key, pd_json *out_value)
{
  walk->at = skip_space(walk->at, walk->end);
  if (walk->at < walk->end && *walk->at == ',') walk->at = skip_space(walk->at + 1, walk->end);
  if (walk->at >= walk->end) return false;
  pd_json key = {{NULL, 0}, PD_JSON_NONE};
  if (walk->is_object) {
    key = take_value(walk);
    walk->at = skip_space(walk->at, walk->end) + 1; /* the colon */
    walk->at = skip_space(walk->at, walk->end);
  }
  if (out_key) *out_key = key;
  *out_value = take_value(walk);
  return true;
}

/* ---- strings, decoded byte by byte ---- */

typedef struct decoder {
  const uint8_t *at, *end; /* between the quotes */
  uint8_t pending[4];
  unsigned pending_count, pending_index;
  bool has_lone_surrogate;
} decoder;

static decoder decode_begin(pd_json string)
{
  const uint8_t *begin = string.raw.data;
  return (decoder){.at = begin + 1, .end = begin + string.raw.size - 1};
}

static unsigned hex_value(uint8_t c)
{
  return c <= '9' ? c - (unsigned)'0' : (c | 0x20u) - 'a' + 10u;
}

static uint32_t take_hex4(decoder *d)
{
  uint32_t n = 0;
  for (int i = 0; i < 4; i++) n = n << 4 | hex_value(*d->at++);
  return n;
}

/* The code point after "\u", its second half included. A lone surrogate is marked and kept as it is. */
static uint32_t take_point(decoder *d)
{
  uint32_t point = take_hex4(d);
  if (point < 0xD800 || point > 0xDFFF) return point;
  if (point < 0xDC00 && d->end - d->at >= 6 && d->at[0] == '\\' && d->at[1] == 'u') {
    const uint8_t *before = d->at;
    d->at += 2;
    uint32_t low = take_hex4(d);
    if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    d->at = before;
  }
  d->has_lone_surrogate = true;
  return point;
}

static unsigned encode_utf8(uint32_t point, uint8_t out[4])
{
  if (point < 0x80) {
    out[0] = (uint8_t)point;
    return 1;
  }
  unsigned count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (unsigned i = count - 1; i > 0; i--, point >>= 6) out[i] = (uint8_t)(0x80 | (point & 0x3F));
  out[0] = (uint8_t)(leads[count] | point);
  return count;
}

static uint8_t simple_escape(uint8_t letter)
{
  switch (letter) {
  case 'b': return '\b';
  case 'f': return '\f';
  case 'n': return '\n';
  case 'r': return '\r';
  case 't': return '\t';
  default: return letter;
  }
}

/* The next byte of the string, or -1 at its end. */
static int decode_next(decoder *d)
{
  if (d->pending_index < d->pending_count) return d->pending[d->pending_index++];
  if (d->at >= d->end) return -1;
  if (*d->at != '\\') return *d->at++;
  uint8_t letter = d->at[1];
  d->at += 2;
  if (letter != 'u') return simple_escape(letter);
  d->pending_count = encode_utf8(take_point(d), d->pending);
  d->pending_index = 1;
  return d->pending[0];
}

/* What is between the quotes, if that is the string itself: without escapes. */
static bool plain_inside(pd_json value, pd_bytes *out)
{
  *out = (pd_bytes){(const uint8_t *)value.raw.data + 1, value.raw.size - 2};
  return !memchr(out->data, '\\', out->size);
}

bool pd_json_is(pd_json value, const char *text)
{
  pd_bytes inside;
  if (value.kind != PD_JSON_STRING) return false;
  if (plain_inside(value, &inside)) return strlen(text) == inside.size && memcmp(text, inside.data, inside.size) == 0;
  decoder d = decode_begin(value);
  for (int c; (c = decode_next(&d)) >= 0; text++)
    if (!*text || (uint8_t)*text != c) return false;
  return !*text;
}

int pd_json_string_compare(pd_json a, pd_json b)
{
  pd_bytes inside_a, inside_b;
  if (plain_inside(a, &inside_a) && plain_inside(b, &inside_b)) return pd_bytes_compare(inside_a, inside_b);
  decoder da = decode_begin(a), db = decode_begin(b);
  for (;;) {
    int ca = decode_next(&da), cb = decode_next(&db);
    if (ca != cb) return ca < cb ? -1 : 1;
    if (ca < 0) return 0;
  }
}

pd_code pd_json_decode(pd_json value, pd_buf *out, pd_error *err)
{
  if (value.kind != PD_JSON_STRING) return pd_error_set(err, PD_INVALID, "a string expected, not %s", pd_json_kind_name(value.kind));
  TRY(pd_buf_reserve(out, value.raw.size, err)); /* decoding never makes a string longer */
  decoder d = decode_begin(value);
  size_t size = out->size;
  for (int c; (c = decode_next(&d)) >= 0;) out->data[size++] = (uint8_t)c;
  if (d.has_lone_surrogate) return pd_error_set(err, PD_INVALID, "a string has half of a surrogate pair, which is no character");
  out->size = size;
  return PD_OK;
}

/* ---- objects ---- */

pd_json pd_json_member(pd_json object, const char *key)
{
  pd_json name, value;
  if (object.kind == PD_JSON_OBJECT) {
    pd_json_walk walk = pd_json_walk_begin(object);
    while (pd_json_walk_next(&walk, &name, &value))
      if (pd_json_is(name, key)) return value;
  }
  return (pd_json){{NULL, 0}, PD_JSON_NONE};
}

size_t pd_json_count(pd_json container)
{
  size_t count = 0;
  pd_json_walk walk = pd_json_walk_begin(container);
  while (pd_json_walk_next(&walk, NULL, &(pd_json){0})) count++;
  return count;
}

pd_json_fit pd_json_pick(pd_json object, const char *const *names, size_t stride, size_t count, bool refuses_unknown, pd_json *out,
                         pd_json *out_key, size_t *out_index)
{
  pd_json value;
  pd_json_walk walk = pd_json_walk_begin(object);
  while (object.kind == PD_JSON_OBJECT && pd_json_walk_next(&walk, out_key, &value)) {
    size_t i = 0;
    while (i < count && !pd_json_is(*out_key, *(const char *const *)(const void *)((const char *)names + i * stride))) i++;
    *out_index = i;
    if (i == count && refuses_unknown) return PD_JSON_UNKNOWN;
    if (i == count) continue;
    if (out[i].kind != PD_JSON_NONE) return PD_JSON_TWICE;
    out[i] = value;
  }
  return PD_JSON_FITS;
}

static pd_json_field *find_field(pd_json_field *fields, size_t count, pd_json name)
{
  for (size_t i = 0; i < count; i++)
    if (pd_json_is(name, fields[i].name)) return &fields[i];
  return NULL;
}

#define SHOWN_NAME_MAX 64

static int shown_size(pd_json name)
{
  return name.raw.size < SHOWN_NAME_MAX ? (int)name.raw.size : SHOWN_NAME_MAX;
}

pd_code pd_json_fields(pd_json object, pd_json_field *fields, size_t count, pd_error *err)
{
  if (object.kind != PD_JSON_OBJECT) return pd_error_set(err, PD_INVALID, "an object expected, not %s", pd_json_kind_name(object.kind));
  for (size_t i = 0; i < count; i++) fields[i].value = (pd_json){{NULL, 0}, PD_JSON_NONE};
  pd_json_walk walk = pd_json_walk_begin(object);
  pd_json name, value;
  while (pd_json_walk_next(&walk, &name, &value)) {
    pd_json_field *field = find_field(fields, count, name);
    const char *shown = name.raw.data;
    if (!field) return pd_error_set(err, PD_INVALID, "unknown field %.*s", shown_size(name), shown);
    if (field->value.kind != PD_JSON_NONE) return pd_error_set(err, PD_INVALID, "field %.*s is given twice", shown_size(name), shown);
    field->value = value;
  }
  return PD_OK;
}

typedef struct owned_key {
  uint64_t object; /* a number for each object of the text */
  pd_json name;
} owned_key;

static int compare_keys(const void *a, const void *b)
{
  const owned_key *ka = a, *kb = b;
  if (ka->object != kb->object) return ka->object < kb->object ? -1 : 1;
  return pd_json_string_compare(ka->name, kb->name);
}

/* Every key of every object inside `value`. One pass over the text: a string is a key when a colon follows. */
static pd_code collect_keys(pd_json value, pd_buf *keys, pd_error *err)
{
  const uint8_t *p = value.raw.data, *end = p + value.raw.size;
  uint64_t inside[PD_JSON_DEPTH_MAX + 1] = {0}, objects = 0;
  unsigned depth = 0;
  while (p < end) {
    if (*p != '"') {
      if (*p == '{' || *p == '[') inside[++depth] = ++objects;
      if (*p == '}' || *p == ']') depth--;
      p++;
      continue;
    }
    owned_key key = {inside[depth], {{p, 0}, PD_JSON_STRING}};
    p = skip_string(p, end);
    key.name.raw.size = (size_t)(p - (const uint8_t *)key.name.raw.data);
    p = skip_space(p, end);
    if (p < end && *p == ':') TRY(pd_buf_append(keys, &key, sizeof key, err));
  }
  return PD_OK;
}

pd_code pd_json_unique(pd_json value, pd_error *err)
{
  if (value.kind != PD_JSON_OBJECT && value.kind != PD_JSON_ARRAY) return PD_OK;
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  TRY(collect_keys(value, &buf, err));
  owned_key *keys = (owned_key *)(void *)buf.data;
  size_t count = buf.size / sizeof *keys;
  bool is_sorted = true;
  for (size_t i = 1; i < count && is_sorted; i++) is_sorted = compare_keys(&keys[i - 1], &keys[i]) <= 0;
  if (!is_sorted) qsort(keys, count, sizeof *keys, compare_keys);
  for (size_t i = 1; i < count; i++)
    if (compare_keys(&keys[i - 1], &keys[i]) == 0)
      return pd_error_set(err, PD_INVALID, "key %.*s is given twice in one object", shown_size(keys[i].name),
                          (const char *)keys[i].name.raw.data);
  return PD_OK;
}

/* ---- numbers ---- */

bool pd_json_u64(pd_json value, uint64_t *out)
{
  if (value.kind != PD_JSON_NUMBER) return false;
  const uint8_t *digits = value.raw.data;
  uint64_t n = 0;
  for (size_t i = 0; i < value.raw.size; i++) {
    if (digits[i] < '0' || digits[i] > '9') return false;
    if (__builtin_mul_overflow(n, (uint64_t)10, &n) || __builtin_add_overflow(n, (uint64_t)(digits[i] - '0'), &n)) return false;
  }
  *out = n;
  return true;
}

bool pd_json_i64(pd_json value, int64_t *out)
{
  if (value.kind != PD_JSON_NUMBER) return false;
  bool is_negative = *(const char *)value.raw.data == '-';
  pd_json digits = {{(const char *)value.raw.data + is_negative, value.raw.size - is_negative}, PD_JSON_NUMBER};
  uint64_t n;
  if (!pd_json_u64(digits, &n) || n > (uint64_t)INT64_MAX + is_negative) return false;
  *out = is_negative ? (int64_t)(0 - n) : (int64_t)n;
  return true;
}

bool pd_json_true(pd_json value)
{
  return value.kind == PD_JSON_BOOL && *(const char *)value.raw.data == 't';
}
