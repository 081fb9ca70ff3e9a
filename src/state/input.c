/* input.c: from JSON text to checked inputs. What is not in the schema is refused, and the message names the field. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_merge.h"
#include "base/json_pick.h"
#include "base/sha256.h"
#include "state/call.h"

#include <stdio.h>
#include <stdlib.h>

#define BAD "InvalidInput"
#define SHOWN_MAX 40

static pd_code bad(const pd_input *input, const char *field, pd_error *err, const char *what)
{
  return pd_error_named(err, PD_INVALID, BAD, "%s: field '%s' %s", input->capability->name, field, what);
}

static const char *type_name(pd_field_type type)
{
  static const char *const names[] = {"any value", "a string", "an integer", "a boolean", "an object", "an array"};
  return names[type];
}

static bool fits_type(pd_field_type type, pd_json_kind kind)
{
  switch (type) {
  case PD_FIELD_ANY: return true;
  case PD_FIELD_STRING: return kind == PD_JSON_STRING;
  case PD_FIELD_INTEGER: return kind == PD_JSON_NUMBER;
  case PD_FIELD_BOOLEAN: return kind == PD_JSON_BOOL;
  case PD_FIELD_OBJECT: return kind == PD_JSON_OBJECT;
  case PD_FIELD_ARRAY: return kind == PD_JSON_ARRAY;
  }
  return false;
}

/* A string's bytes: a slice where there is nothing to decode, else in input->decoded, which has room for all of them. */
static pd_code decode(pd_input *input, size_t index, const char *name, pd_error *err)
{
  pd_json value = input->fields[index];
  pd_bytes inside = {(const char *)value.raw.data + 1, value.raw.size - 2};
  if (!memchr(inside.data, '\\', inside.size)) {
    input->texts[index] = inside;
    return PD_OK;
  }
  size_t before = input->decoded.size;
  if (pd_json_decode(value, &input->decoded, NULL)) return bad(input, name, err, "has an escape that is no character");
  input->texts[index] = (pd_bytes){input->decoded.data + before, input->decoded.size - before};
  return PD_OK;
}

static bool has_control(pd_bytes text)
{
  const uint8_t *at = text.data;
  for (size_t i = 0; i < text.size; i++)
    if (at[i] < 0x20 || at[i] == 0x7f) return true;
  return false;
}

static pd_code check_format(const pd_input *input, const pd_field *field, pd_bytes text, pd_error *err)
{
  char name[PD_NAME_SIZE_MAX + 2];
  pd_error why = {0};
  switch (field->format) {
  case PD_FORMAT_KEY:
    if (pd_key_check(text, &why)) return bad(input, field->name, err, why.message);
    if (has_control(text)) return bad(input, field->name, err, "has a control character; keys are one line of text");
    return PD_OK;
  case PD_FORMAT_PREFIX:
    if (text.size > PD_KEY_SIZE_MAX) return bad(input, field->name, err, "is longer than a key (1024 bytes)");
    if (has_control(text)) return bad(input, field->name, err, "has a control character; keys are one line of text");
    return PD_OK;
  case PD_FORMAT_AGENT:
    if (text.size > PD_NAME_SIZE_MAX || memchr(text.data, 0, text.size))
      return bad(input, field->name, err, "is no agent's name: 1 to 64 of letters, digits, . _ -");
    snprintf(name, sizeof name, "%.*s", (int)text.size, (const char *)text.data);
    if (pd_agent_check(name, &why)) return bad(input, field->name, err, why.message);
    return PD_OK;
  case PD_FORMAT_NAME: {
    const uint8_t *at = text.data;
    for (size_t i = 0; i < text.size; i++)
      if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:", at[i] ? at[i] : ' '))
        return bad(input, field->name, err, "is no id: letters, digits, - _ . : only");
    return PD_OK;
  }
  case PD_FORMAT_NONE: break;
  }
  if (memchr(text.data, 0, text.size)) return bad(input, field->name, err, "has a NUL character");
  return PD_OK;
}

static pd_code check_string(const pd_input *input, const pd_field *field, pd_bytes text, pd_error *err)
{
  char what[160];
  if (text.size < field->size_min) return bad(input, field->name, err, field->size_min == 1 ? "is empty" : "is too short");
  if (text.size > field->size_max) {
    snprintf(what, sizeof what, "is %zu bytes long; at most %zu", text.size, field->size_max);
    return bad(input, field->name, err, what);
  }
  if (field->choices) {
    for (size_t i = 0; field->choices[i]; i++)
      if (pd_bytes_equal(text, pd_text(field->choices[i]))) return PD_OK;
    int used = snprintf(what, sizeof what, "must be one of:");
    for (size_t i = 0; field->choices[i] && used < (int)sizeof what; i++)
      used += snprintf(what + used, sizeof what - (size_t)used, " %s", field->choices[i]);
    return bad(input, field->name, err, what);
  }
  return check_format(input, field, text, err);
}

static pd_code check_integer(const pd_input *input, const pd_field *field, pd_json value, pd_error *err)
{
  int64_t number;
  char what[160];
  bool is_int = pd_json_i64(value, &number);
  if (is_int && number >= field->min && number <= field->max) return PD_OK;
  snprintf(what, sizeof what, "must be an integer from %lld to %lld, not %.*s", (long long)field->min, (long long)field->max,
           (int)(value.raw.size < SHOWN_MAX ? value.raw.size : SHOWN_MAX), (const char *)value.raw.data);
  return bad(input, field->name, err, what);
}

static pd_code check_items(const pd_input *input, const pd_field *field, pd_json value, pd_error *err)
{
  size_t count = pd_json_count(value);
  if (count >= field->size_min && count <= field->size_max) return PD_OK;
  return bad(input, field->name, err, count < field->size_min ? "has too few items" : "has too many items");
}

static pd_code check_field(pd_input *input, size_t index, pd_error *err)
{
  const pd_field *field = &input->capability->fields[index];
  pd_json value = input->fields[index];
  if (value.kind == PD_JSON_NONE) return field->is_required ? bad(input, field->name, err, "is missing") : PD_OK;
  if (value.kind == PD_JSON_NULL && !field->is_required && field->type != PD_FIELD_ANY) { /* null is how some clients say "not given" */
    input->fields[index] = (pd_json){0};
    return PD_OK;
  }
  if (!fits_type(field->type, value.kind)) {
    char what[80];
    snprintf(what, sizeof what, "must be %s, not %s", type_name(field->type), pd_json_kind_name(value.kind));
    return bad(input, field->name, err, what);
  }
  if (field->type == PD_FIELD_STRING) {
    TRY(decode(input, index, field->name, err));
    return check_string(input, field, input->texts[index], err);
  }
  if (field->type == PD_FIELD_INTEGER) return check_integer(input, field, value, err);
  if (field->type == PD_FIELD_ARRAY) TRY(check_items(input, field, value, err));
  pd_error why = {0};
  bool is_nested = value.kind == PD_JSON_OBJECT || value.kind == PD_JSON_ARRAY;
  if (is_nested && !pd_json_inside_is_unique(&input->facts) && pd_json_unique(value, &why)) {
    if (why.code == PD_NO_MEMORY) return pd_error_memory(err, "an input");
    return bad(input, field->name, err, why.message);
  }
  return PD_OK;
}

static pd_code refuse_unknown(const pd_input *input, pd_json key, pd_error *err)
{
  char list[200] = "";
  int used = 0;
  for (size_t i = 0; i < input->capability->field_count && used < (int)sizeof list; i++)
    used += snprintf(list + used, sizeof list - (size_t)used, "%s%s", i ? ", " : "", input->capability->fields[i].name);
  return pd_error_named(err, PD_INVALID, BAD, "%s: there is no field %.*s; there %s%s", input->capability->name,
                        (int)(key.raw.size < SHOWN_MAX ? key.raw.size : SHOWN_MAX), (const char *)key.raw.data, used ? "are: " : "are none",
                        list);
}

/* Each member to its slot. */
static pd_code take_fields(pd_input *input, pd_json object, pd_error *err)
{
  const pd_capability *capability = input->capability;
  pd_json key;
  size_t index;
  const char *const *names = capability->field_count ? &capability->fields[0].name : NULL;
  switch (pd_json_pick(object, names, sizeof capability->fields[0], capability->field_count, true, input->fields, &key, &index)) {
  case PD_JSON_UNKNOWN: return refuse_unknown(input, key, err);
  case PD_JSON_TWICE: return bad(input, capability->fields[index].name, err, "appears twice");
  case PD_JSON_FITS: break;
  }
  return PD_OK;
}

pd_code pd_input_parse(const pd_capability *capability, pd_bytes text, pd_input *out, pd_error *err)
{
  *out = (pd_input){.capability = capability};
  if (!text.size) text = pd_text("{}");
  if (text.size > PD_CALL_SIZE_MAX)
    return pd_error_named(err, PD_LIMIT, BAD, "%s: the input is %zu bytes long; at most %zu", capability->name, text.size,
                          PD_CALL_SIZE_MAX);
  pd_json object;
  pd_error why = {0};
  if (pd_json_parse_facts(text, &object, &out->facts, &why))
    return pd_error_named(err, PD_INVALID, BAD, "%s: the input is no JSON: %s", capability->name, why.message);
  if (object.kind != PD_JSON_OBJECT)
    return pd_error_named(err, PD_INVALID, BAD, "%s: the input must be a JSON object, not %s", capability->name,
                          pd_json_kind_name(object.kind));
  TRY(take_fields(out, object, err));
  if (memchr(object.raw.data, '\\', object.raw.size)) TRY(pd_buf_reserve(&out->decoded, object.raw.size, err)); /* so that slices stay */
  for (size_t i = 0; i < capability->field_count; i++) TRY(check_field(out, i, err));
  return PD_OK;
}

void pd_input_done(pd_input *input)
{
  pd_buf_done(&input->decoded);
  pd_buf_done(&input->copy);
}

/* What is hashed, piece by piece. */
typedef struct pieces {
  pd_bytes items[2 + 3 * PD_FIELD_COUNT_MAX];
  size_t count;
  char sizes[PD_FIELD_COUNT_MAX][24];
} pieces;

static void add_text(pieces *p, const char *text)
{
  p->items[p->count++] = (pd_bytes){text, strlen(text)};
}

/* name:size:bytes; `size` has room for :size: */
static void add_field(pieces *p, const char *name, pd_bytes bytes, char size[24])
{
  char *at = size + 23;
  *at = 0;
  *--at = ':';
  for (size_t left = bytes.size; left || at == size + 22; left /= 10) *--at = (char)('0' + left % 10);
  *--at = ':';
  add_text(p, name);
  add_text(p, at);
  p->items[p->count++] = bytes;
}

/* Is the value's text its canonical one? The input was looked at when it was parsed; only DEL is not told there, which strings may have as
 * it is, and the canonical text has not. */
static bool is_canonical(const pd_input *input, pd_json value)
{
  if (value.kind == PD_JSON_NULL || value.kind == PD_JSON_BOOL || value.kind == PD_JSON_NUMBER) return true;
  const pd_json_facts *facts = &input->facts;
  bool is_plain = !facts->has_space && !facts->has_escape && !facts->is_inner_unordered;
  return is_plain && !memchr(value.raw.data, 0x7F, value.raw.size);
}

/* The canonical text of a field that is another than what was given: behind those in `texts`. Its place is known when all are there. */
static pd_code make_canonical(pd_json value, pd_buf *texts, pd_bytes *out, pd_error *err)
{
  size_t before = texts->size;
  TRY(pd_buf_reserve(texts, value.raw.size, err));
  TRY(pd_json_canonical(value, texts, err));
  *out = (pd_bytes){NULL, texts->size - before};
  return PD_OK;
}

/* name:size:bytes for each field that is there, so that no two inputs share a text. */
static pd_code hash_input(const pd_input *input, pd_id *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  pieces p;
  p.count = 0;
  add_text(&p, input->capability->name);
  add_text(&p, "\n");
  for (size_t i = 0; i < input->capability->field_count; i++) {
    pd_json value = input->fields[i];
    if (value.kind == PD_JSON_NONE) continue;
    bool is_text = input->capability->fields[i].type == PD_FIELD_STRING;
    pd_bytes bytes = is_text ? input->texts[i] : value.raw;
    if (!is_text && !is_canonical(input, value)) TRY(make_canonical(value, &texts, &bytes, err));
    add_field(&p, input->capability->fields[i].name, bytes, p.sizes[i]);
  }
  const uint8_t *at = texts.data;
  for (size_t i = 0; i < p.count; i++) {
    if (p.items[i].data) continue;
    p.items[i].data = at;
    at += p.items[i].size;
  }
  *out = pd_sha256_parts(p.items, p.count);
  return PD_OK;
}

pd_code pd_input_hash(const pd_input *input, pd_id *out, pd_error *err)
{
  if (!input->has_hash) return hash_input(input, out, err);
  *out = input->hash;
  return PD_OK;
}

pd_code pd_input_new(const char *capability, pd_bytes input, pd_input **out, pd_error *err)
{
  const pd_capability *found = pd_capability_get(capability);
  pd_capability_info info;
  if (!found) return pd_capability_find(capability, &info, err);
  pd_buf copy = {0};
  pd_json_writer w = {.out = &copy, .err = err};
  pd_json json;
  if (input.size <= PD_CALL_SIZE_MAX && pd_json_parse(input, &json, NULL) == PD_OK)
    pd_json_value(&w, json); /* once, instead of at each call */
  else
    w.code = pd_buf_append(&copy, input.data, input.size, err); /* what is wrong with it is told below */
  pd_input *made = w.code ? NULL : calloc(1, sizeof *made);
  pd_code code = w.code;
  if (code == PD_OK) code = made ? pd_input_parse(found, pd_buf_bytes(&copy), made, err) : pd_error_memory(err, "an input");
  if (code == PD_OK) code = hash_input(made, &made->hash, err);
  if (code) {
    pd_buf_done(&copy);
    pd_input_free(made);
    return code;
  }
  made->has_hash = true;
  made->copy = copy;
  *out = made;
  return PD_OK;
}

void pd_input_free(pd_input *input)
{
  if (!input) return;
  pd_input_done(input);
  free(input);
}
