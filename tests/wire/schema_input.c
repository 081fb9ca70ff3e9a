/* schema_input.c: see schema_input.h. */
#include "wire/schema_input.h"

#include "base/base.h"
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *word_for(const schema_words *words, const char *name, pd_json schema)
{
  for (size_t i = 0; words->named && words->named[i][0]; i++)
    if (strcmp(words->named[i][0], name) == 0) return words->named[i][1];
  if (pd_json_is(pd_json_member(schema, "format"), "agent")) return words->agent;
  return strstr(name, "session") ? words->session : words->text;
}

static void write_field(pd_json_writer *w, const schema_words *words, const char *name, pd_json schema)
{
  pd_json type = pd_json_member(schema, "type"), choices = pd_json_member(schema, "enum"), first;
  uint64_t least = 1;
  pd_json_walk c = pd_json_walk_begin(choices);
  pd_json_key(w, name);
  if (pd_json_walk_next(&c, NULL, &first)) {
    pd_json_value(w, first);
  } else if (pd_json_is(type, "integer")) {
    if (!pd_json_u64(pd_json_member(schema, "minimum"), &least)) least = 1;
    pd_json_number(w, least);
  } else if (pd_json_is(type, "boolean")) {
    pd_json_bool(w, true);
  } else if (pd_json_is(type, "array")) {
    pd_json_open(w, '[');
    pd_json_text(w, pd_text(words->agent));
    pd_json_close(w, ']');
  } else if (pd_json_is(type, "object")) {
    pd_json_open(w, '{');
    pd_json_close(w, '}');
  } else {
    pd_json_text(w, pd_text(word_for(words, name, schema)));
  }
}

char *schema_input(const schema_words *words, pd_json inputs, bool has_all)
{
  pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_json key, schema, item;
  pd_json_walk fields = pd_json_walk_begin(pd_json_member(inputs, "properties"));
  pd_json_open(&w, '{');
  while (pd_json_walk_next(&fields, &key, &schema)) {
    bool is_needed = has_all;
    pd_json_walk needed = pd_json_walk_begin(pd_json_member(inputs, "required"));
    while (pd_json_walk_next(&needed, NULL, &item)) is_needed = is_needed || pd_bytes_equal(item.raw, key.raw);
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)key.raw.size - 2, (const char *)key.raw.data + 1);
    if (is_needed && strcmp(name, "wait_ms") != 0) write_field(&w, words, name, schema);
  }
  pd_json_close(&w, '}');
  if (w.code || pd_buf_byte(&out, 0, NULL)) abort();
  return (char *)out.data;
}
