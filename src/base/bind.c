/* bind.c: see bind.h. */
#include "base/bind.h"

#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <assert.h>
#include <string.h>

#define MEMBERS_MAX 64

/* ---- single values ---- */

bool pd_json_copy_text(pd_json value, char *out, size_t size)
{
  pd_bytes inside = {(const char *)value.raw.data + 1, value.raw.size - 2};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (value.kind != PD_JSON_STRING) return false;
  if (inside.size && memchr(inside.data, '\\', inside.size)) { /* else it is what it says */
    if (pd_json_decode(value, &text, NULL)) return false;
    inside = pd_buf_bytes(&text);
  }
  if (inside.size >= size || (inside.size && memchr(inside.data, 0, inside.size))) return false;
  if (inside.size) memcpy(out, inside.data, inside.size);
  out[inside.size] = 0;
  return true;
}

pd_code pd_json_append_text(pd_json value, pd_buf *out, pd_error *err)
{
  size_t before = out->size;
  TRY(pd_json_decode(value, out, err)); /* makes room for the quotes too, so the NUL has its place */
  if (memchr(out->data + before, 0, out->size - before)) {
    out->size = before;
    return pd_error_set(err, PD_INVALID, "a string has a NUL inside");
  }
  return pd_buf_byte(out, 0, err);
}

bool pd_json_id(pd_json value, pd_id *out)
{
  char hex[PD_ID_HEX_SIZE];
  return pd_json_copy_text(value, hex, sizeof hex) && pd_id_parse(hex, out);
}

int pd_json_name(pd_json value, const char *const *names)
{
  for (int i = 0; names[i]; i++)
    if (pd_json_is(value, names[i])) return i;
  return -1;
}

/* ---- reading ---- */

static bool read_texts(pd_json value, const pd_bind *b, char *out)
{
  pd_json item;
  size_t at = 0;
  pd_json_walk walk = pd_json_walk_begin(value);
  if (value.kind != PD_JSON_ARRAY) return false;
  for (; pd_json_walk_next(&walk, NULL, &item); at += b->stride)
    if (at == b->size || !pd_json_copy_text(item, out + at, b->stride)) return false;
  return true;
}

static bool read_bytes(pd_json value, const pd_bind *b, void *out)
{
  CLEANUP(pd_buf_done) pd_buf bytes = {0};
  if (value.kind != PD_JSON_STRING) return false;
  if (pd_base64_decode((pd_bytes){(const char *)value.raw.data + 1, value.raw.size - 2}, &bytes, NULL) || bytes.size != b->size)
    return false;
  memcpy(out, bytes.data, b->size);
  return true;
}

static bool read_number(pd_json value, const pd_bind *b, void *out)
{
  uint64_t number;
  if (!pd_json_u64(value, &number) || (b->size == sizeof(uint32_t) && number > UINT32_MAX)) return false;
  if (b->size == sizeof(uint32_t))
    *(uint32_t *)out = (uint32_t)number;
  else
    *(uint64_t *)out = number;
  return true;
}

/* As it is written, and no other way. */
static bool read_time(pd_json value, int64_t *out)
{
  char text[PD_TIME_TEXT_SIZE], again[PD_TIME_TEXT_SIZE];
  int64_t ms;
  if (!pd_json_copy_text(value, text, sizeof text) || !pd_time_parse(text, &ms)) return false;
  if (ms <= 0 || strcmp(pd_time_text(ms, again), text) != 0) return false;
  *out = ms;
  return true;
}

static bool read_name(pd_json value, const pd_bind *b, int *out)
{
  int index = pd_json_name(value, b->names);
  if (index >= 0) *out = index;
  return index >= 0;
}

static bool read_kept(pd_json value, pd_buf *texts, const char **out)
{
  size_t at = texts->size;
  if (pd_json_append_text(value, texts, NULL)) return false;
  *out = (const char *)texts->data + at;
  return true;
}

static bool read_one(pd_json value, const pd_bind *b, void *out, pd_buf *texts)
{
  switch (b->kind) {
  case PD_BIND_TEXT: return pd_json_copy_text(value, out, b->size);
  case PD_BIND_TEXTS: return read_texts(value, b, out);
  case PD_BIND_BYTES: return read_bytes(value, b, out);
  case PD_BIND_ID: return pd_json_id(value, out);
  case PD_BIND_NUMBER: return read_number(value, b, out);
  case PD_BIND_MS: return pd_json_i64(value, out) && *(int64_t *)out >= 0;
  case PD_BIND_TIME: return read_time(value, out);
  case PD_BIND_BOOL: return *(bool *)out = pd_json_true(value), value.kind == PD_JSON_BOOL;
  case PD_BIND_NAME: return read_name(value, b, out);
  case PD_BIND_STRING:
  case PD_BIND_JSON: return *(pd_json *)out = value, b->kind == PD_BIND_JSON || value.kind == PD_JSON_STRING;
  case PD_BIND_KEPT: return read_kept(value, texts, out);
  }
  return false;
}

/* One walk over the object, however many members there are. */
static pd_code find(pd_json object, const pd_bind *table, size_t count, pd_bind_mode mode, pd_json *found, pd_error *err)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(object);
  if (object.kind != PD_JSON_OBJECT) return pd_error_set(err, PD_INVALID, "it is not an object");
  while (pd_json_walk_next(&walk, &key, &value)) {
    size_t i = 0;
    while (i < count && !pd_json_is(key, table[i].name)) i++;
    if (mode != PD_BIND_LOOSE && (i == count || found[i].kind))
      return pd_error_set(err, PD_INVALID, "member %.*s is unknown or there twice", (int)(key.raw.size < 64 ? key.raw.size : 64),
                          (const char *)key.raw.data);
    if (i < count && !found[i].kind) found[i] = value;
  }
  return PD_OK;
}

pd_code pd_bind_keep(pd_json object, const pd_bind *table, size_t count, pd_bind_mode mode, void *out, pd_buf *texts, pd_error *err)
{
  pd_json found[MEMBERS_MAX];
  assert(count <= MEMBERS_MAX);
  if (texts) TRY(pd_buf_reserve(texts, object.raw.size, err)); /* for all of them: none is longer decoded, with its NUL, than it was */
  for (size_t i = 0; i < count; i++) found[i] = (pd_json){.kind = PD_JSON_NONE};
  TRY(find(object, table, count, mode, found, err));
  for (size_t i = 0; i < count; i++) {
    bool is_null = found[i].kind == PD_JSON_NULL && table[i].kind != PD_BIND_JSON;
    bool is_absent = found[i].kind == PD_JSON_NONE || (is_null && mode != PD_BIND_STRICT);
    if (is_absent && table[i].is_optional) continue;
    if (is_absent || !read_one(found[i], &table[i], (char *)out + table[i].offset, texts))
      return pd_error_set(err, PD_INVALID, "member '%s' is missing or malformed", table[i].name);
  }
  return PD_OK;
}

pd_code pd_bind_read(pd_json object, const pd_bind *table, size_t count, pd_bind_mode mode, void *out, pd_error *err)
{
  return pd_bind_keep(object, table, count, mode, out, NULL, err);
}

pd_code pd_bind_parse(pd_bytes text, const pd_bind *table, size_t count, pd_bind_mode mode, void *out, pd_error *err)
{
  pd_json object;
  TRY(pd_json_parse(text, &object, err));
  return pd_bind_read(object, table, count, mode, out, err);
}

/* ---- writing ---- */

static uint64_t number_at(const pd_bind *b, const void *at)
{
  return b->size == sizeof(uint32_t) ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static bool is_empty(const pd_bind *b, const void *at)
{
  static const pd_id none;
  switch (b->kind) {
  case PD_BIND_TEXT:
  case PD_BIND_TEXTS: return !*(const char *)at;
  case PD_BIND_ID: return pd_id_equal(at, &none);
  case PD_BIND_NUMBER: return !number_at(b, at);
  case PD_BIND_MS:
  case PD_BIND_TIME: return !*(const int64_t *)at;
  case PD_BIND_BOOL: return !*(const bool *)at;
  case PD_BIND_STRING:
  case PD_BIND_JSON: return ((const pd_json *)at)->kind == PD_JSON_NONE;
  case PD_BIND_KEPT: return !*(const char *const *)at || !**(const char *const *)at;
  case PD_BIND_BYTES:
  case PD_BIND_NAME: break;
  }
  return false;
}

static void write_texts(pd_json_writer *w, const pd_bind *b, const char *texts)
{
  pd_json_key(w, b->name);
  pd_json_open(w, '[');
  for (size_t at = 0; at < b->size && texts[at]; at += b->stride) pd_json_text(w, pd_text(texts + at));
  pd_json_close(w, ']');
}

static void write_bytes(pd_json_writer *w, const pd_bind *b, const void *at)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (w->code) return;
  w->code = pd_base64_encode((pd_bytes){at, b->size}, &text, w->err);
  pd_json_put_bytes(w, b->name, pd_buf_bytes(&text));
}

static void write_one(pd_json_writer *w, const pd_bind *b, const void *at)
{
  switch (b->kind) {
  case PD_BIND_TEXT: pd_json_put_text(w, b->name, at); break;
  case PD_BIND_TEXTS: write_texts(w, b, at); break;
  case PD_BIND_BYTES: write_bytes(w, b, at); break;
  case PD_BIND_ID: pd_json_put_id(w, b->name, at); break;
  case PD_BIND_NUMBER: pd_json_put_number(w, b->name, number_at(b, at)); break;
  case PD_BIND_MS: pd_json_put_number(w, b->name, *(const int64_t *)at > 0 ? *(const uint64_t *)at : 0); break;
  case PD_BIND_TIME: pd_json_put_time(w, b->name, *(const int64_t *)at); break;
  case PD_BIND_BOOL: pd_json_put_bool(w, b->name, *(const bool *)at); break;
  case PD_BIND_NAME: pd_json_put_text(w, b->name, b->names[*(const int *)at]); break;
  case PD_BIND_STRING:
  case PD_BIND_JSON: pd_json_put_value(w, b->name, *(const pd_json *)at); break;
  case PD_BIND_KEPT: pd_json_put_text(w, b->name, *(const char *const *)at); break;
  }
}

void pd_bind_write(pd_json_writer *w, const pd_bind *table, size_t count, const void *in)
{
  for (const pd_bind *b = table; b < table + count; b++) {
    const void *at = (const char *)in + b->offset;
    if (!b->is_optional || b->is_always || !is_empty(b, at)) write_one(w, b, at);
  }
}

void pd_bind_object(pd_json_writer *w, const pd_bind *table, size_t count, const void *in)
{
  pd_json_open(w, '{');
  pd_bind_write(w, table, count, in);
  pd_json_close(w, '}');
}
