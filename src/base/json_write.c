/* json_write.c: the writer of json.h. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#include <string.h>

/* Most of what is written are a few bytes, for which there is room. */
static inline void add(pd_json_writer *w, const void *data, size_t size)
{
  pd_buf *out = w->out;
  if (w->code) return;
  size_t room = out->size_max && out->size_max < out->capacity ? out->size_max : out->capacity;
  if (size && out->size + size <= room) {
    memcpy(out->data + out->size, data, size);
    out->size += size;
  } else {
    w->code = pd_buf_append(out, data, size, w->err);
  }
}

static void begin_value(pd_json_writer *w)
{
  if (w->needs_comma) add(w, ",", 1);
  w->needs_comma = true;
}

void pd_json_open(pd_json_writer *w, char bracket)
{
  begin_value(w);
  add(w, &bracket, 1);
  w->needs_comma = false;
}

void pd_json_close(pd_json_writer *w, char bracket)
{
  add(w, &bracket, 1);
  w->needs_comma = true;
}

/* Size of the character at p if it is whole and strict UTF-8, else 0. */
static size_t character_size(const uint8_t *p, size_t left)
{
  size_t size = *p < 0x80 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4;
  return size <= left && pd_utf8_check((pd_bytes){p, size}) ? size : 0;
}

/* Write the escape of one byte that cannot stand for itself. */
static void add_escaped(pd_json_writer *w, uint8_t c)
{
  static const char letters[32] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
  static const char hex[] = "0123456789abcdef";
  if (c >= 0x80) {
    add(w, "\xEF\xBF\xBD", 3);
  } else if (c == '"' || c == '\\' || (c < 0x20 && letters[c])) {
    char two[2] = {'\\', c < 0x20 ? letters[c] : (char)c};
    add(w, two, sizeof two);
  } else {
    char six[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    add(w, six, sizeof six);
  }
}

static void add_string(pd_json_writer *w, pd_bytes text)
{
  const uint8_t *p = text.data;
  size_t run = 0;
  add(w, "\"", 1);
  for (size_t i = 0; i < text.size;) {
    bool is_plain = p[i] >= 0x20 && p[i] < 0x7F && p[i] != '"' && p[i] != '\\';
    size_t size = is_plain ? 1 : p[i] >= 0x80 ? character_size(p + i, text.size - i) : 0;
    if (!size) {
      add(w, p + run, i - run);
      add_escaped(w, p[i]);
      run = i + 1;
    }
    i += size ? size : 1;
  }
  if (text.size) add(w, p + run, text.size - run);
  add(w, "\"", 1);
}

void pd_json_text(pd_json_writer *w, pd_bytes text)
{
  begin_value(w);
  add_string(w, text);
}

void pd_json_key(pd_json_writer *w, const char *key)
{
  begin_value(w);
  add_string(w, (pd_bytes){key, strlen(key)});
  add(w, ":", 1);
  w->needs_comma = false;
}

void pd_json_key_as(pd_json_writer *w, pd_json key)
{
  pd_json_value(w, key);
  add(w, ":", 1);
  w->needs_comma = false;
}

void pd_json_number(pd_json_writer *w, uint64_t number)
{
  char digits[PD_U64_TEXT_SIZE];
  begin_value(w);
  add(w, digits, pd_u64_text(number, digits));
}

void pd_json_bool(pd_json_writer *w, bool value)
{
  begin_value(w);
  add(w, value ? "true" : "false", value ? 4 : 5);
}

void pd_json_null(pd_json_writer *w)
{
  begin_value(w);
  add(w, "null", 4);
}

void pd_json_value(pd_json_writer *w, pd_json value)
{
  const uint8_t *p = value.raw.data, *end = p + value.raw.size;
  bool is_in_string = false;
  begin_value(w);
  for (const uint8_t *run = p; p <= end; p++) {
    bool is_space = p < end && !is_in_string && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t');
    if (p == end || is_space) {
      add(w, run, (size_t)(p - run));
      run = p + 1;
    } else if (*p == '"') {
      const uint8_t *quote = is_in_string ? NULL : memchr(p + 1, '"', (size_t)(end - p - 1));
      if (quote && quote[-1] != '\\')
        p = quote; /* past a string in which the first quote is not escaped */
      else
        is_in_string = !is_in_string;
    } else if (*p == '\\') {
      p++; /* only strings have backslashes: whatever follows is no quote that ends one */
    }
  }
}

void pd_json_raw(pd_json_writer *w, pd_bytes json)
{
  begin_value(w);
  add(w, json.data, json.size);
}

void pd_json_put_text(pd_json_writer *w, const char *key, const char *text)
{
  pd_json_put_bytes(w, key, (pd_bytes){text, strlen(text)});
}

void pd_json_put_bytes(pd_json_writer *w, const char *key, pd_bytes text)
{
  pd_json_key(w, key);
  pd_json_text(w, text);
}

void pd_json_put_number(pd_json_writer *w, const char *key, uint64_t number)
{
  pd_json_key(w, key);
  pd_json_number(w, number);
}

void pd_json_put_bool(pd_json_writer *w, const char *key, bool value)
{
  pd_json_key(w, key);
  pd_json_bool(w, value);
}

void pd_json_put_said(pd_json_writer *w, const char *key, const char *text)
{
  if (text && *text) pd_json_put_text(w, key, text);
}

void pd_json_put_or_null(pd_json_writer *w, const char *key, pd_bytes text)
{
  pd_json_key(w, key);
  if (text.size)
    pd_json_text(w, text);
  else
    pd_json_null(w);
}

void pd_json_put_value(pd_json_writer *w, const char *key, pd_json value)
{
  if (value.kind == PD_JSON_NONE) return;
  pd_json_key(w, key);
  pd_json_value(w, value);
}

void pd_json_put_id(pd_json_writer *w, const char *key, const pd_id *id)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_put_text(w, key, pd_id_hex(id, hex));
}

void pd_json_put_time(pd_json_writer *w, const char *key, int64_t time_ms)
{
  char text[PD_TIME_TEXT_SIZE];
  pd_json_key(w, key);
  if (time_ms)
    pd_json_text(w, pd_text(pd_time_text(time_ms, text)));
  else
    pd_json_null(w);
}

/* ---- changing members ---- */

static size_t find_change(pd_json key, const pd_json_change *changes, size_t count)
{
  size_t i = 0;
  while (i < count && !pd_json_is(key, changes[i].name)) i++;
  return i;
}

static void put_raw(pd_json_writer *w, pd_bytes key, pd_bytes value)
{
  pd_json_raw(w, key);
  add(w, ":", 1);
  w->needs_comma = false;
  pd_json_raw(w, value);
}

pd_code pd_json_change_members(pd_json object, const pd_json_change *changes, size_t count, pd_buf *out, pd_error *err)
{
  pd_json key, value;
  uint64_t done = 0; /* a bit a change */
  if (count > 64) return pd_error_set(err, PD_LIMIT, "%zu members cannot be changed at once", count);
  pd_json_writer w = {.out = out, .err = err};
  pd_json_walk walk = pd_json_walk_begin(object);
  pd_json_open(&w, '{');
  while (object.kind == PD_JSON_OBJECT && pd_json_walk_next(&walk, &key, &value)) {
    size_t at = find_change(key, changes, count);
    if (at == count)
      put_raw(&w, key.raw, value.raw);
    else if (!(done >> at & 1) && changes[at].json.size)
      put_raw(&w, key.raw, changes[at].json);
    if (at < count) done |= (uint64_t)1 << at;
  }
  for (size_t i = 0; i < count; i++) {
    if (done >> i & 1 || !changes[i].json.size) continue;
    pd_json_key(&w, changes[i].name);
    pd_json_raw(&w, changes[i].json);
  }
  pd_json_close(&w, '}');
  return w.code;
}
