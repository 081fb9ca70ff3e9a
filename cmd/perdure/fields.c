/* fields.c: see fields.h. */
#include "fields.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME_SIZE 64

static pd_json schema_of(pd_json properties, const char *name)
{
  return pd_json_member(properties, name);
}

static void list_names(pd_json properties, char *out, size_t size)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(properties);
  size_t used = 0;
  out[0] = 0;
  while (pd_json_walk_next(&walk, &key, &value) && used < size)
    used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? ", " : "", (int)key.raw.size - 2, (const char *)key.raw.data + 1);
}

/* Text that may be JSON: as JSON if it is, else as a string, unless it begins like JSON. */
static pd_code write_any(pd_json_writer *w, const char *text, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf read = {0};
  pd_bytes bytes = pd_text(text);
  pd_json json;
  if (strcmp(text, "-") == 0 || text[0] == '@') {
    TRY(cli_value_read(text, &read, err));
    bytes = pd_buf_bytes(&read);
  }
  TRY(cli_json_check(bytes, CLI_AS_JSON_STRING, err));
  if (pd_json_parse(bytes, &json, NULL) == PD_OK)
    pd_json_value(w, json);
  else
    pd_json_text(w, bytes);
  return w->code;
}

static pd_code write_text(pd_json_writer *w, const char *name, const char *text, pd_error *err)
{
  if (!pd_utf8_check(pd_text(text))) return pd_error_set(err, PD_INVALID, "%s is not UTF-8", name);
  pd_json_text(w, pd_text(text));
  return w->code;
}

/* One word that is a JSON array, or words that are the strings of one. */
static pd_code write_array(pd_json_writer *w, const char *name, const char *const *words, size_t count, pd_error *err)
{
  pd_json json;
  if (count == 1 && pd_json_parse(pd_text(words[0]), &json, NULL) == PD_OK && json.kind == PD_JSON_ARRAY) {
    pd_json_value(w, json);
    return w->code;
  }
  if (count == 1 && words[0][0] == '[') TRY(cli_json_check(pd_text(words[0]), CLI_AS_JSON_STRING, err));
  pd_json_open(w, '[');
  for (size_t i = 0; i < count; i++) TRY(write_text(w, name, words[i], err));
  pd_json_close(w, ']');
  return w->code;
}

static bool is_array(pd_json schema)
{
  return pd_json_is(pd_json_member(schema, "type"), "array");
}

static pd_code write_field(pd_json_writer *w, pd_json schema, const char *name, const char *text, pd_error *err)
{
  pd_json type = pd_json_member(schema, "type"), json;
  pd_json_key(w, name);
  if (!text) text = "true"; /* --flag */
  if (pd_json_is(type, "string")) {
    return write_text(w, name, text, err);
  } else if (is_array(schema)) {
    return write_array(w, name, &text, 1, err);
  } else if (type.kind != PD_JSON_STRING) {
    return write_any(w, text, err);
  } else if (pd_json_parse(pd_text(text), &json, NULL) == PD_OK) {
    pd_json_value(w, json);
  } else {
    pd_json_text(w, pd_text(text)); /* of the wrong type: the door says so, and how it should be */
  }
  return w->code;
}

/* Dashes stand for underscores. */
static void field_name(const char *text, size_t size, char out[NAME_SIZE])
{
  snprintf(out, NAME_SIZE, "%.*s", (int)size, text);
  for (char *at = out; *at; at++)
    if (*at == '-') *at = '_';
}

static pd_code write_option(pd_json_writer *w, pd_json properties, const char *capability, const args_field *field, pd_error *err)
{
  char name[NAME_SIZE], known[200];
  field_name(field->name, field->name_size, name);
  pd_json schema = schema_of(properties, name);
  if (schema.kind == PD_JSON_NONE) {
    list_names(properties, known, sizeof known);
    return pd_error_set(err, PD_INVALID, "%s has no field '--%.*s'; it has: %s", capability, (int)field->name_size, field->name,
                        *known ? known : "none");
  }
  return write_field(w, schema, name, field->value, err);
}

pd_code fields_write(const char *capability, const char *const *names, const args_parsed *args, pd_buf *out, pd_error *err)
{
  pd_capability_info info;
  pd_json document;
  TRY(pd_capability_find(capability, &info, err));
  TRY(pd_json_parse(pd_text(info.document), &document, err));
  pd_json properties = pd_json_member(pd_json_member(document, "inputs"), "properties");
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  for (size_t i = 1; names && i < args->word_count; i++) {
    if (!names[i - 1]) return pd_error_set(err, PD_INVALID, "unexpected argument '%s'", args->words[i]);
    pd_json schema = schema_of(properties, names[i - 1]);
    if (is_array(schema)) { /* takes all words that are left */
      pd_json_key(&w, names[i - 1]);
      TRY(write_array(&w, names[i - 1], &args->words[i], args->word_count - i, err));
      break;
    }
    TRY(write_field(&w, schema, names[i - 1], args->words[i], err));
  }
  for (size_t i = 0; i < args->field_count; i++) TRY(write_option(&w, properties, capability, &args->fields[i], err));
  pd_json_close(&w, '}');
  return w.code;
}

bool fields_has(const char *capability, const char *name, size_t name_size)
{
  pd_capability_info info;
  pd_json document;
  char field[NAME_SIZE];
  if (!capability || name_size >= sizeof field || pd_capability_find(capability, &info, NULL)) return false;
  if (pd_json_parse(pd_text(info.document), &document, NULL)) return false;
  field_name(name, name_size, field);
  return schema_of(pd_json_member(pd_json_member(document, "inputs"), "properties"), field).kind != PD_JSON_NONE;
}

pd_code fields_full_path(const char *path, char out[FIELDS_PATH_SIZE], pd_error *err)
{
  char here[FIELDS_PATH_SIZE];
  if (path[0] != '/' && realpath(path, out)) return PD_OK;
  if (path[0] != '/' && !getcwd(here, sizeof here)) return pd_error_set(err, PD_STORAGE, "the current folder has no name");
  int size = path[0] == '/' ? snprintf(out, FIELDS_PATH_SIZE, "%s", path) : snprintf(out, FIELDS_PATH_SIZE, "%s/%s", here, path);
  return size < FIELDS_PATH_SIZE ? PD_OK : pd_error_set(err, PD_LIMIT, "the path %.100s is too long", path);
}
