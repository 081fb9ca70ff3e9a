/*
 * json.c: the strict scanner (J1, J2 of json.h): one pass over the text, a stack of closing brackets instead of recursion.
 * What is done with a text that passed is in json_walk.c.
 */
#include "base/json.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

typedef struct scanner {
  const uint8_t *begin, *at, *end;
  pd_error *err;
  unsigned depth;
  pd_json_facts facts;
  pd_bytes *keys; /* the last one of each object that is open, by depth; its data NULL: none yet. NULL: nobody asks */
  uint8_t closers[PD_JSON_DEPTH_MAX];
} scanner;

const char *pd_json_kind_name(pd_json_kind kind)
{
  static const char *const names[] = {"nothing", "null", "boolean", "number", "string", "array", "object"};
  return (unsigned)kind < COUNT_OF(names) ? names[kind] : names[0];
}

static pd_code fault(scanner *s, const char *what)
{
  if (s->at >= s->end) return pd_error_set(s->err, PD_INVALID, "JSON ends too early (byte %zu): %s", (size_t)(s->end - s->begin), what);
  return pd_error_set(s->err, PD_INVALID, "JSON is malformed at byte %zu: %s", (size_t)(s->at - s->begin), what);
}

static int peek(const scanner *s)
{
  return s->at < s->end ? *s->at : -1;
}

static void skip_space(scanner *s)
{
  for (; s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'); s->at++) s->facts.has_space = true;
}

static bool is_digit(int c)
{
  return c >= '0' && c <= '9';
}

static bool is_hex(int c)
{
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Skip bytes that need no look: ASCII from 0x20 on, but the quote and the backslash. Eight at a time. */
static void skip_plain(scanner *s)
{
  const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
  for (; s->end - s->at >= 8; s->at += 8) {
    uint64_t word;
    memcpy(&word, s->at, 8);
    uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
    uint64_t stop = (word | (word - ones * 0x20) | (quote - ones) | (slash - ones)) & highs;
    if (!stop) continue;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    s->at += __builtin_ctzll(stop) / 8; /* the lowest mark is true; a borrow can only have set higher ones */
    return;
#else
    break;
#endif
  }
  while (s->at < s->end && *s->at >= 0x20 && *s->at < 0x80 && *s->at != '"' && *s->at != '\\') s->at++;
}

/* The run of bytes from 0x80 on that begins here. */
static pd_code scan_utf8(scanner *s)
{
  const uint8_t *run = s->at;
  while (s->at < s->end && *s->at >= 0x80) s->at++;
  if (pd_utf8_check((pd_bytes){run, (size_t)(s->at - run)})) return PD_OK;
  s->at = run;
  return fault(s, "a string that is not UTF-8");
}

static pd_code scan_escape(scanner *s)
{
  s->at++;
  s->facts.has_escape = true;
  int c = peek(s);
  if (c < 0) return fault(s, "a string without its closing quote");
  if (c != 'u') {
    if (!c || !strchr("\"\\/bfnrt", c)) return fault(s, "an unknown escape in a string");
    s->at++;
    return PD_OK;
  }
  s->at++;
  for (int i = 0; i < 4; i++, s->at++)
    if (!is_hex(peek(s))) return fault(s, "\\u needs four hex digits");
  return PD_OK;
}

static pd_code scan_string(scanner *s)
{
  for (s->at++;;) {
    skip_plain(s);
    int c = peek(s);
    if (c < 0) return fault(s, "a string without its closing quote");
    if (c == '"') {
      s->at++;
      return PD_OK;
    }
    if (c == '\\') {
      TRY(scan_escape(s));
    } else if (c >= 0x80) {
      TRY(scan_utf8(s));
    } else {
      return fault(s, "a control character in a string");
    }
  }
}

static pd_code scan_digits(scanner *s)
{
  if (!is_digit(peek(s))) return fault(s, "a digit expected");
  while (is_digit(peek(s))) s->at++;
  return PD_OK;
}

static pd_code scan_number(scanner *s)
{
  if (peek(s) == '-') s->at++;
  if (peek(s) == '0') {
    s->at++;
    if (is_digit(peek(s))) return fault(s, "a number with a leading zero");
  } else {
    TRY(scan_digits(s));
  }
  if (peek(s) == '.') {
    s->at++;
    TRY(scan_digits(s));
  }
  if (peek(s) == 'e' || peek(s) == 'E') {
    s->at++;
    if (peek(s) == '+' || peek(s) == '-') s->at++;
    TRY(scan_digits(s));
  }
  return PD_OK;
}

static pd_code scan_word(scanner *s, const char *word)
{
  size_t size = strlen(word);
  if ((size_t)(s->end - s->at) < size || memcmp(s->at, word, size) != 0) return fault(s, "a value expected");
  s->at += size;
  return PD_OK;
}

static pd_code scan_scalar(scanner *s)
{
  int c = peek(s);
  if (c == '"') return scan_string(s);
  if (c == '-' || is_digit(c)) return scan_number(s);
  if (c == 't') return scan_word(s, "true");
  if (c == 'f') return scan_word(s, "false");
  if (c == 'n') return scan_word(s, "null");
  return fault(s, "a value expected");
}

/* What is between the quotes is compared: as it is written, so escapes have to be told apart (has_escape). */
static void note_key(scanner *s, const uint8_t *begin)
{
  pd_bytes key = {begin + 1, (size_t)(s->at - begin) - 2}, *last = &s->keys[s->depth - 1];
  bool is_unordered = last->data && pd_bytes_compare(*last, key) >= 0;
  *(s->depth > 1 ? &s->facts.is_inner_unordered : &s->facts.is_outer_unordered) |= is_unordered;
  *last = key;
}

static pd_code scan_key(scanner *s)
{
  skip_space(s);
  const uint8_t *begin = s->at;
  if (peek(s) != '"') return fault(s, "a key in quotes expected");
  TRY(scan_string(s));
  if (s->keys) note_key(s, begin);
  skip_space(s);
  if (peek(s) != ':') return fault(s, "':' expected after a key");
  s->at++;
  return PD_OK;
}

/* Step into the container that begins here. `out_has_value`: the next thing is a value (it is not empty). */
static pd_code scan_open(scanner *s, bool *out_has_value)
{
  uint8_t closer = *s->at == '{' ? '}' : ']';
  if (s->depth == PD_JSON_DEPTH_MAX) {
    return pd_error_set(s->err, PD_LIMIT, "JSON nests deeper than %d at byte %zu", PD_JSON_DEPTH_MAX, (size_t)(s->at - s->begin));
  }
  if (s->keys) s->keys[s->depth].data = NULL;
  s->closers[s->depth++] = closer;
  if (s->depth > s->facts.depth) s->facts.depth = s->depth;
  s->at++;
  skip_space(s);
  *out_has_value = peek(s) != closer;
  if (*out_has_value && closer == '}') TRY(scan_key(s));
  return PD_OK;
}

/* After a value: close what ends here, step over a comma. `out_has_value`: another value follows. */
static pd_code scan_after(scanner *s, bool *out_has_value)
{
  for (*out_has_value = false; s->depth;) {
    uint8_t closer = s->closers[s->depth - 1];
    skip_space(s);
    if (peek(s) == closer) {
      s->at++;
      s->depth--;
    } else if (peek(s) == ',') {
      s->at++;
      *out_has_value = true;
      return closer == '}' ? scan_key(s) : PD_OK;
    } else {
      return fault(s, closer == '}' ? "',' or '}' expected" : "',' or ']' expected");
    }
  }
  return PD_OK;
}

static pd_code scan_value(scanner *s)
{
  for (bool has_value = true; has_value;) {
    skip_space(s);
    bool is_inside = false;
    if (peek(s) == '{' || peek(s) == '[')
      TRY(scan_open(s, &is_inside));
    else
      TRY(scan_scalar(s));
    if (!is_inside) TRY(scan_after(s, &has_value));
  }
  return PD_OK;
}

static pd_json_kind kind_of(uint8_t first)
{
  switch (first) {
  case '{': return PD_JSON_OBJECT;
  case '[': return PD_JSON_ARRAY;
  case '"': return PD_JSON_STRING;
  case 't':
  case 'f': return PD_JSON_BOOL;
  case 'n': return PD_JSON_NULL;
  default: return PD_JSON_NUMBER;
  }
}

pd_code pd_json_parse(pd_bytes text, pd_json *out, pd_error *err)
{
  return pd_json_parse_facts(text, out, NULL, err);
}

pd_code pd_json_parse_facts(pd_bytes text, pd_json *out, pd_json_facts *out_facts, pd_error *err)
{
  if (!text.size) return pd_error_set(err, PD_INVALID, "JSON ends too early (byte 0): a value expected");
  pd_bytes keys[PD_JSON_DEPTH_MAX]; /* not zeroed: an object clears its own when it opens */
  scanner s = {.begin = text.data, .at = text.data, .end = (const uint8_t *)text.data + text.size, .err = err};
  if (out_facts) s.keys = keys;
  skip_space(&s);
  const uint8_t *begin = s.at;
  TRY(scan_value(&s));
  const uint8_t *end = s.at;
  skip_space(&s);
  if (s.at < s.end) return fault(&s, "something follows the value");
  if (out) *out = (pd_json){{begin, (size_t)(end - begin)}, kind_of(*begin)};
  if (out_facts) *out_facts = s.facts;
  return PD_OK;
}
