/* toml_value.c: the values of a TOML file. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/toml_parse.h"

#include <stdlib.h>

/* ---- strings ---- */

static bool is_hex(uint8_t c)
{
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The UTF-8 of a character; 0 for what is none. */
static size_t encode(uint32_t c, uint8_t out[4])
{
  if (c < 0x80) return out[0] = (uint8_t)c, c > 0;
  if (c < 0x800) return out[0] = (uint8_t)(0xC0 | c >> 6), out[1] = (uint8_t)(0x80 | (c & 63)), 2;
  if (c >= 0xD800 && c < 0xE000) return 0;
  if (c < 0x10000)
    return out[0] = (uint8_t)(0xE0 | c >> 12), out[1] = (uint8_t)(0x80 | (c >> 6 & 63)), out[2] = (uint8_t)(0x80 | (c & 63)), 3;
  if (c > 0x10FFFF) return 0;
  out[0] = (uint8_t)(0xF0 | c >> 18);
  out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
  out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
  out[3] = (uint8_t)(0x80 | (c & 63));
  return 4;
}

/* \uXXXX or \UXXXXXXXX, the letter is there. */
static pd_code read_code_point(toml_parser *p, const char *name, pd_buf *out)
{
  int digits = *p->at++ == 'u' ? 4 : 8;
  uint32_t c = 0;
  uint8_t bytes[4];
  for (int i = 0; i < digits; i++, p->at++) {
    if (p->at == p->end || !is_hex(*p->at)) return pd_toml_bad(p, p->line, "'%s': an escape needs %d hex digits", name, digits);
    uint8_t d = *p->at;
    c = c << 4 | (uint32_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
  }
  size_t size = encode(c, bytes);
  if (!size) return pd_toml_bad(p, p->line, "'%s': an escape that is no character", name);
  return pd_buf_append(out, bytes, size, NULL) ? pd_toml_no_memory(p) : PD_OK;
}

static pd_code read_escape(toml_parser *p, const char *name, pd_buf *out)
{
  static const char letters[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
  if (p->at < p->end && (*p->at == 'u' || *p->at == 'U')) return read_code_point(p, name, out);
  const char *found = p->at < p->end && *p->at ? strchr(letters, *p->at) : NULL;
  if (!found) return pd_toml_bad(p, p->line, "'%s': an escape that TOML does not know", name);
  p->at++;
  return pd_buf_byte(out, (uint8_t)bytes[found - letters], NULL) ? pd_toml_no_memory(p) : PD_OK;
}

/* "basic" or 'literal'; the quote is there. */
static pd_code read_string(toml_parser *p, const char *name, pd_toml_value *out)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  uint8_t quote = *p->at++;
  if (p->end - p->at >= 2 && p->at[0] == quote && p->at[1] == quote)
    return pd_toml_bad(p, p->line, "'%s': strings over several lines are not read here", name);
  while (p->at < p->end && *p->at != quote) {
    uint8_t c = *p->at;
    if ((c < 0x20 && c != '\t') || c == 0x7F)
      return pd_toml_bad(p, p->line, "'%s': the string does not end on its line, or has a control character", name);
    p->at++;
    if (c == '\\' && quote == '"')
      TRY(read_escape(p, name, &text));
    else if (pd_buf_byte(&text, c, NULL))
      return pd_toml_no_memory(p);
  }
  if (p->at == p->end) return pd_toml_bad(p, p->line, "'%s': the string does not end", name);
  p->at++;
  out->kind = PD_TOML_STRING;
  out->text = pd_toml_copy(p, text.data, text.size);
  return out->text ? PD_OK : pd_toml_no_memory(p);
}

/* ---- numbers and words ---- */

/* The characters that a number, a date or a word can have. */
static size_t word_size(const toml_parser *p)
{
  const uint8_t *at = p->at;
  while (at < p->end && (*at > ' ' && *at < 0x7F) && !strchr(",]}#=[{\"'", *at)) at++;
  return (size_t)(at - p->at);
}

static bool is_word(const toml_parser *p, size_t size, const char *word)
{
  return size == strlen(word) && memcmp(p->at, word, size) == 0;
}

static pd_code read_integer(toml_parser *p, const char *name, size_t size, pd_toml_value *out)
{
  const uint8_t *at = p->at, *end = at + size;
  bool is_negative = *at == '-';
  at += *at == '-' || *at == '+';
  if (at == end || *at < '0' || *at > '9' || (*at == '0' && at + 1 < end))
    return pd_toml_bad(p, p->line, "'%s': %.*s is no value: a string in quotes, a whole number, true, false or an array", name,
                       (int)(size < 40 ? size : 40), (const char *)p->at);
  uint64_t number = 0, limit = (uint64_t)INT64_MAX + is_negative;
  for (const uint8_t *digit = at; digit < end; digit++) {
    bool is_between = digit > at && digit + 1 < end && digit[-1] != '_';
    if (*digit == '_' && is_between) continue;
    if (*digit < '0' || *digit > '9')
      return pd_toml_bad(p, p->line, "'%s': %.*s is no whole number", name, (int)(size < 40 ? size : 40), (const char *)p->at);
    if (number > (limit - (uint64_t)(*digit - '0')) / 10) return pd_toml_bad(p, p->line, "'%s': the number does not fit 64 bits", name);
    number = number * 10 + (uint64_t)(*digit - '0');
  }
  out->kind = PD_TOML_INTEGER;
  out->integer = is_negative ? (int64_t)(0 - number) : (int64_t)number;
  p->at = end;
  return PD_OK;
}

static pd_code read_scalar(toml_parser *p, const char *name, pd_toml_value *out)
{
  *out = (pd_toml_value){.line = p->line};
  if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) return read_string(p, name, out);
  if (p->at < p->end && *p->at == '{') return pd_toml_bad(p, p->line, "'%s': tables in braces are not read here", name);
  if (p->at < p->end && *p->at == '[') return pd_toml_bad(p, p->line, "'%s': arrays of arrays are not read here", name);
  size_t size = word_size(p);
  if (!size) return pd_toml_bad(p, p->line, "'%s' has no value", name);
  if (!is_word(p, size, "true") && !is_word(p, size, "false")) return read_integer(p, name, size, out);
  out->kind = PD_TOML_BOOL;
  out->is_true = size == 4;
  p->at += size;
  return PD_OK;
}

/* ---- arrays ---- */

typedef struct item_list {
  pd_toml_value *items;
  size_t count, capacity;
} item_list;

static void item_list_done(item_list *list)
{
  free(list->items);
}

static pd_code read_items(toml_parser *p, const char *name, item_list *list)
{
  for (;;) {
    TRY(pd_toml_skip_lines(p));
    if (p->at < p->end && *p->at == ']') break;
    if (pd_array_grow(&list->items, list->count, &list->capacity, sizeof list->items[0], "items", NULL)) return pd_toml_no_memory(p);
    TRY(read_scalar(p, name, &list->items[list->count]));
    list->count++;
    TRY(pd_toml_skip_lines(p));
    if (p->at < p->end && *p->at == ',')
      p->at++;
    else if (p->at == p->end || *p->at != ']')
      return pd_toml_bad(p, p->line, "'%s': an array goes on with , or ends with ]", name);
  }
  p->at++;
  return PD_OK;
}

static pd_code read_array(toml_parser *p, const char *name, pd_toml_value *out)
{
  CLEANUP(item_list_done) item_list list = {0};
  *out = (pd_toml_value){.kind = PD_TOML_ARRAY, .line = p->line};
  p->at++;
  TRY(read_items(p, name, &list));
  pd_toml_value *items = pd_toml_take(p, (list.count + 1) * sizeof *items);
  if (!items) return pd_toml_no_memory(p);
  if (list.count) memcpy(items, list.items, list.count * sizeof *items);
  out->items = items;
  out->item_count = list.count;
  return PD_OK;
}

pd_code pd_toml_read_value(toml_parser *p, const char *name, pd_toml_value *out)
{
  return p->at < p->end && *p->at == '[' ? read_array(p, name, out) : read_scalar(p, name, out);
}
