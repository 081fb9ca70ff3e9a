/* mcp_schema.c: see mcp_schema.h. Schemas come from the house's own table: they nest a few levels deep. */
#include "wire/mcp_schema.h"

#include "base/base.h"
#include "base/buf.h"

#define ANYTHING                                                                                                                           \
  "[{\"type\":\"object\"},{\"type\":\"array\",\"items\":{}},{\"type\":\"string\"},{\"type\":\"number\"},{\"type\":\"boolean\"},{\"type\":" \
  "\"null\"}]"

static void write_key(pd_json_writer *w, pd_json key)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_json_decode(key, &text, w->err) || pd_buf_byte(&text, 0, w->err))
    w->code = PD_NO_MEMORY;
  else
    pd_json_key(w, (const char *)text.data);
}

static bool is_known_format(pd_json format)
{
  return pd_json_is(format, "date-time") || pd_json_is(format, "uri");
}

static bool has_type(pd_json schema)
{
  static const char *const words[] = {"type", "anyOf", "oneOf", "enum", "const", "$ref"};
  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (pd_json_member(schema, words[i]).kind != PD_JSON_NONE) return true;
  return false;
}

static void write_properties(pd_json_writer *w, pd_json properties, const char *extra)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(properties);
  pd_json_open(w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    write_key(w, key);
    pd_mcp_schema_write(w, value, NULL);
  }
  if (extra) pd_json_raw(w, pd_text(extra));
  pd_json_close(w, '}');
}

/* ["string","null"] is legal, and several clients refuse it: each type stands alone. */
static void write_types(pd_json_writer *w, pd_json types)
{
  pd_json type;
  pd_json_walk walk = pd_json_walk_begin(types);
  pd_json_key(w, "anyOf");
  pd_json_open(w, '[');
  while (pd_json_walk_next(&walk, NULL, &type)) {
    pd_json_open(w, '{');
    pd_json_key(w, "type");
    pd_json_value(w, type);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
}

void pd_mcp_schema_write(pd_json_writer *w, pd_json schema, const char *extra)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(schema);
  pd_json_open(w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    if (pd_json_is(key, "format") && !is_known_format(value)) continue;
    if (pd_json_is(key, "required") && value.raw.size <= 2) continue; /* [] says nothing, and draft 4 refuses it */
    if (pd_json_is(key, "type") && value.kind == PD_JSON_ARRAY) {
      write_types(w, value);
      continue;
    }
    write_key(w, key);
    if (pd_json_is(key, "properties"))
      write_properties(w, value, extra);
    else if (pd_json_is(key, "items") && value.kind == PD_JSON_OBJECT)
      pd_mcp_schema_write(w, value, NULL);
    else
      pd_json_value(w, value);
  }
  if (!has_type(schema)) {
    pd_json_key(w, "anyOf");
    pd_json_raw(w, pd_text(ANYTHING));
  }
  if (pd_json_is(pd_json_member(schema, "type"), "array") && pd_json_member(schema, "items").kind == PD_JSON_NONE) {
    pd_json_key(w, "items");
    pd_json_raw(w, pd_text("{}"));
  }
  pd_json_close(w, '}');
}
