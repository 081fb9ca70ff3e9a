/*
 * capgen.c: from capabilities/NAME.json to what is made of them.
 *
 *   capgen table OUT.c  FILE...    the table that the door looks things up in (built by meson, not checked in)
 *   capgen header OUT.h FILE...    the prototypes of the functions that run them (the same)
 *   capgen docs  FOLDER FILE...    FOLDER/NAME.md, FOLDER/NAME.schema.json and FOLDER/README.md (checked in; a test finds stale ones)
 *   capgen facts - FILE...         every promise on a line: capability, how the names of its tests begin, sentence
 *
 * common.json among the files has the errors that every capability may answer with. A file that is not as it should be is refused with
 * its name and what is wrong, and nothing is written.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FILES_MAX 512
#define FIELDS_MAX 16
#define TEXT_SIZE_MAX "16384"

typedef struct capability {
  const char *path;
  pd_buf bytes;
  pd_json json;
  char name[96];
} capability;

static capability caps[FILES_MAX];
static size_t cap_count;
static pd_json common; /* its errors */
static pd_buf common_bytes;

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(const char *path, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  fprintf(stderr, "capgen: %s: ", path);
  vfprintf(stderr, fmt, args);
  fprintf(stderr, "\n");
  va_end(args);
  exit(1);
}

/* ---- reading ---- */

static void read_file(const char *path, pd_buf *out)
{
  FILE *f = fopen(path, "rb");
  if (!f) refuse(path, "cannot be opened");
  char part[4096];
  size_t got;
  while ((got = fread(part, 1, sizeof part, f)))
    if (pd_buf_append(out, part, got, NULL)) refuse(path, "no memory");
  fclose(f);
}

/* Texts live until the program ends. */
static char **kept;
static size_t kept_count, kept_capacity;

static const char *keep(const char *path, pd_buf *text)
{
  if (pd_buf_byte(text, 0, NULL) || pd_array_grow(&kept, kept_count, &kept_capacity, sizeof *kept, "texts", NULL))
    refuse(path, "no memory");
  return kept[kept_count++] = (char *)text->data;
}

static void free_kept(void)
{
  pd_buf_done(&common_bytes);
  for (size_t i = 0; i < cap_count; i++) pd_buf_done(&caps[i].bytes);
  for (size_t i = 0; i < kept_count; i++) free(kept[i]);
  free(kept);
}

/* A decoded string; "" for what is absent. */
static const char *text_of(const char *path, pd_json value)
{
  pd_buf buf = {0};
  if (value.kind == PD_JSON_NONE) return "";
  if (pd_json_decode(value, &buf, NULL)) refuse(path, "a text was expected, not %s", pd_json_kind_name(value.kind));
  return keep(path, &buf);
}

static const char *member_text(const capability *c, pd_json object, const char *key)
{
  return text_of(c->path, pd_json_member(object, key));
}

static const char *needed_text(const capability *c, const char *key)
{
  const char *text = member_text(c, c->json, key);
  if (!*text) refuse(c->path, "'%s' is missing or empty", key);
  return text;
}

static void check_members(const capability *c)
{
  static const char *const known[] = {"name", "summary", "when_to_use",  "permission", "needs_agent", "inputs",   "outputs",
                                      "tags", "version", "side_effects", "errors",     "examples",    "handling", "shorthand"};
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(c->json);
  while (pd_json_walk_next(&walk, &key, &value)) {
    size_t i = 0;
    while (i < COUNT_OF(known) && !pd_json_is(key, known[i])) i++;
    if (i == COUNT_OF(known)) refuse(c->path, "there is no member %.*s", (int)key.raw.size, (const char *)key.raw.data);
  }
  static const char *const lists[] = {"side_effects", "errors", "examples", "tags"};
  for (size_t i = 0; i < COUNT_OF(lists); i++)
    if (pd_json_member(c->json, lists[i]).kind != PD_JSON_ARRAY) refuse(c->path, "'%s' must be an array", lists[i]);
  if (pd_json_member(c->json, "examples").raw.size < 4) refuse(c->path, "it has no example");
}

typedef struct word {
  const char *json, *c;
} word;

static const char *word_of(const capability *c, const char *what, pd_json value, const word *words, size_t count)
{
  if (value.kind == PD_JSON_NONE) return words[0].c;
  for (size_t i = 0; i < count; i++)
    if (pd_json_is(value, words[i].json)) return words[i].c;
  refuse(c->path, "%s %.*s is not known", what, (int)value.raw.size, (const char *)value.raw.data);
}

/* Who may call it: every file says so. */
static const char *permission_of(const capability *c)
{
  static const word permissions[] = {{"autonomous", "PD_PERMIT_AUTONOMOUS"},
                                     {"notify", "PD_PERMIT_NOTIFY"},
                                     {"approval", "PD_PERMIT_APPROVAL"},
                                     {"operator", "PD_PERMIT_OPERATOR"}};
  pd_json value = pd_json_member(c->json, "permission");
  if (value.kind == PD_JSON_NONE) refuse(c->path, "'permission' is missing: it must be autonomous, notify, approval or operator");
  return word_of(c, "permission", value, permissions, COUNT_OF(permissions));
}

static void add_file(const char *path)
{
  if (cap_count == FILES_MAX) refuse(path, "too many files");
  capability *c = &caps[cap_count];
  pd_error err;
  *c = (capability){.path = path}; /* the slot of common.json is used again */
  read_file(path, &c->bytes);
  if (pd_json_parse(pd_buf_bytes(&c->bytes), &c->json, &err) || pd_json_unique(c->json, &err)) refuse(path, "%s", err.message);
  const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  if (strcmp(base, "common.json") == 0) {
    common = pd_json_member(c->json, "errors");
    common_bytes = c->bytes;
    return;
  }
  snprintf(c->name, sizeof c->name, "%.*s", (int)(strlen(base) - strlen(".json")), base);
  if (strcmp(needed_text(c, "name"), c->name) != 0) refuse(path, "its name is '%s', not that of the file", needed_text(c, "name"));
  needed_text(c, "summary");
  needed_text(c, "when_to_use");
  needed_text(c, "version");
  permission_of(c);
  check_members(c);
  cap_count++;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const capability *)a)->name, ((const capability *)b)->name);
}

/* ---- the table ---- */

static void c_text(FILE *f, const char *text)
{
  if (!text) {
    fputs("NULL", f);
    return;
  }
  fputc('"', f);
  for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
    if (*at == '"' || *at == '\\')
      fprintf(f, "\\%c", *at);
    else if (*at == '\n')
      fputs("\\n", f);
    else if (*at < 0x20 || *at >= 0x7f)
      fprintf(f, "\\%03o", *at);
    else
      fputc(*at, f);
  }
  fputc('"', f);
}

static const char *one_line(pd_json value)
{
  pd_buf buf = {0};
  pd_json_writer w = {.out = &buf};
  pd_json_value(&w, value);
  if (w.code) refuse("", "no memory");
  return keep("", &buf);
}

static const char *number_or(pd_json object, const char *key, const char *otherwise)
{
  pd_json value = pd_json_member(object, key);
  return value.kind == PD_JSON_NUMBER ? one_line(value) : otherwise;
}

static bool is_listed(pd_json list, const char *text)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item))
    if (pd_json_is(item, text)) return true;
  return false;
}

static void table_choices(FILE *f, size_t index, const char *field, pd_json list)
{
  fprintf(f, "static const char *const choices_%zu_%s[] = {", index, field);
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    c_text(f, text_of("", item));
    fputs(", ", f);
  }
  fputs("NULL};\n", f);
}

static void table_field(FILE *f, const capability *c, size_t index, const char *name, pd_json schema, bool is_required)
{
  static const word types[] = {
    {"", "PD_FIELD_ANY"},          {"string", "PD_FIELD_STRING"}, {"integer", "PD_FIELD_INTEGER"}, {"boolean", "PD_FIELD_BOOLEAN"},
    {"object", "PD_FIELD_OBJECT"}, {"array", "PD_FIELD_ARRAY"}};
  static const word formats[] = {{"", "PD_FORMAT_NONE"},       {"key", "PD_FORMAT_KEY"},   {"prefix", "PD_FORMAT_PREFIX"},
                                 {"agent", "PD_FORMAT_AGENT"}, {"name", "PD_FORMAT_NAME"}, {"date-time", "PD_FORMAT_NONE"}};
  bool is_array = pd_json_is(pd_json_member(schema, "type"), "array");
  fputs("  {", f);
  c_text(f, name);
  fprintf(f, ", %s, %s, %s, %s, %s, %s, %s, ", word_of(c, "type", pd_json_member(schema, "type"), types, COUNT_OF(types)),
          word_of(c, "format", pd_json_member(schema, "format"), formats, COUNT_OF(formats)), is_required ? "true" : "false",
          number_or(schema, "minimum", "0"), number_or(schema, "maximum", "9007199254740991"),
          number_or(schema, is_array ? "minItems" : "minLength", "0"),
          number_or(schema, is_array ? "maxItems" : "maxLength", is_array ? "10000" : TEXT_SIZE_MAX));
  if (pd_json_member(schema, "enum").kind == PD_JSON_ARRAY)
    fprintf(f, "choices_%zu_%s, ", index, name);
  else
    fputs("NULL, ", f);
  pd_json otherwise = pd_json_member(schema, "default");
  c_text(f, otherwise.kind == PD_JSON_NONE ? NULL : one_line(otherwise));
  fputs(", ", f);
  const char *about = member_text(c, schema, "description");
  if (!*about) refuse(c->path, "the input '%s' has no description", name);
  c_text(f, about);
  fputs("},\n", f);
}

static size_t table_fields(FILE *f, const capability *c, size_t index)
{
  pd_json inputs = pd_json_member(c->json, "inputs"), required = pd_json_member(inputs, "required");
  pd_json properties = pd_json_member(inputs, "properties"), key, value;
  size_t count = 0;
  if (properties.kind != PD_JSON_OBJECT) refuse(c->path, "'inputs' has no properties");
  pd_json_walk walk = pd_json_walk_begin(properties);
  while (pd_json_walk_next(&walk, &key, &value))
    if (pd_json_member(value, "enum").kind == PD_JSON_ARRAY) table_choices(f, index, text_of(c->path, key), pd_json_member(value, "enum"));
  fprintf(f, "static const pd_field fields_%zu[] = {\n", index);
  walk = pd_json_walk_begin(properties);
  while (pd_json_walk_next(&walk, &key, &value)) {
    const char *name = text_of(c->path, key);
    if (++count > FIELDS_MAX) refuse(c->path, "more than %d inputs", FIELDS_MAX);
    table_field(f, c, index, name, value, is_listed(required, name));
  }
  if (!count) fputs("  {0},\n", f);
  fputs("};\n", f);
  return count;
}

static void table_errors(FILE *f, const char *path, const char *suffix, pd_json errors)
{
  size_t n = 0;
  pd_json error, recovery;
  pd_json_walk walk = pd_json_walk_begin(errors);
  for (; pd_json_walk_next(&walk, NULL, &error); n++) {
    fprintf(f, "static const pd_recovery recovery_%s_%zu[] = {", suffix, n);
    pd_json_walk inner = pd_json_walk_begin(pd_json_member(error, "recovery"));
    while (pd_json_walk_next(&inner, NULL, &recovery)) {
      fputc('{', f);
      c_text(f, text_of(path, pd_json_member(recovery, "action")));
      fputs(", ", f);
      c_text(f, text_of(path, pd_json_member(recovery, "hint")));
      fputs("}, ", f);
    }
    fputs("{0}};\n", f);
  }
  bool is_common = strcmp(suffix, "common") == 0;
  fprintf(f, is_common ? "const pd_cap_error pd_common_errors[] = {\n" : "static const pd_cap_error errors_%s[] = {\n", suffix);
  walk = pd_json_walk_begin(errors);
  for (n = 0; pd_json_walk_next(&walk, NULL, &error); n++) {
    fputs("  {", f);
    c_text(f, text_of(path, pd_json_member(error, "code")));
    fputs(", ", f);
    c_text(f, text_of(path, pd_json_member(error, "description")));
    fprintf(f, ", recovery_%s_%zu},\n", suffix, n);
  }
  fputs("  {0},\n};\n", f);
}

/* ---- how it is run, and called from a command line ---- */

static bool flag_of(const capability *c, pd_json object, const char *key, bool otherwise)
{
  pd_json value = pd_json_member(object, key);
  if (value.kind == PD_JSON_NONE) return otherwise;
  if (value.kind != PD_JSON_BOOL) refuse(c->path, "'%s' must be true or false", key);
  return pd_json_true(value);
}

/* A list of names of inputs as a static array; a name that is no input's is refused. */
static void table_names(FILE *f, const capability *c, size_t index, const char *what, pd_json list)
{
  pd_json properties = pd_json_member(pd_json_member(c->json, "inputs"), "properties"), item;
  fprintf(f, "static const char *const %s_%zu[] = {", what, index);
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    const char *name = text_of(c->path, item);
    if (pd_json_member(properties, name).kind == PD_JSON_NONE) refuse(c->path, "'%s' names '%s', which is not an input", what, name);
    c_text(f, name);
    fputs(", ", f);
  }
  fputs("NULL};\n", f);
}

static void check_handling(const capability *c, const char *what, const char *const *known, size_t count)
{
  pd_json object = pd_json_member(c->json, what), key, value;
  pd_json_walk walk = pd_json_walk_begin(object);
  while (pd_json_walk_next(&walk, &key, &value)) {
    size_t i = 0;
    while (i < count && !pd_json_is(key, known[i])) i++;
    if (i == count) refuse(c->path, "'%s' has no member %.*s", what, (int)key.raw.size, (const char *)key.raw.data);
  }
}

static void table_lists(FILE *f, const capability *c, size_t index)
{
  static const char *const handling[] = {"executor", "destructive", "idempotent",  "session",   "subject", "keys",
                                         "host",     "waits",       "cancellable", "preflight", "activity"};
  static const char *const shorthand[] = {"command", "verb", "words", "prints", "columns", "notes", "value"};
  pd_json how = pd_json_member(c->json, "handling"), words = pd_json_member(c->json, "shorthand");
  if (pd_json_member(how, "executor").kind != PD_JSON_STRING) refuse(c->path, "'handling' does not say which 'executor' runs it");
  check_handling(c, "handling", handling, COUNT_OF(handling));
  check_handling(c, "shorthand", shorthand, COUNT_OF(shorthand));
  table_names(f, c, index, "subject", pd_json_member(how, "subject"));
  table_names(f, c, index, "keys", pd_json_member(how, "keys"));
  if (words.kind == PD_JSON_OBJECT) table_names(f, c, index, "words", pd_json_member(words, "words"));
}

static void optional_text(FILE *f, const capability *c, pd_json object, const char *key)
{
  fprintf(f, ".%s = ", key);
  pd_json value = pd_json_member(object, key);
  c_text(f, value.kind == PD_JSON_NONE ? NULL : text_of(c->path, value));
  fputs(", ", f);
}

static void table_shorthand(FILE *f, const capability *c, size_t index)
{
  pd_json object = pd_json_member(c->json, "shorthand");
  if (object.kind != PD_JSON_OBJECT) return;
  if (!*member_text(c, object, "command")) refuse(c->path, "'shorthand' names no 'command'");
  fprintf(f, "static const pd_shorthand shorthand_%zu = {.words = words_%zu, .verb = ", index, index);
  c_text(f, member_text(c, object, "verb"));
  fputs(", ", f);
  optional_text(f, c, object, "command");
  optional_text(f, c, object, "prints");
  optional_text(f, c, object, "columns");
  optional_text(f, c, object, "notes");
  fprintf(f, ".is_value = %d};\n", flag_of(c, object, "value", false));
}

static void row_handling(FILE *f, const capability *c, size_t index)
{
  static const word executors[] = {{"quick", "PD_EXECUTOR_QUICK"}, {"writer", "PD_EXECUTOR_WRITER"}, {"slow", "PD_EXECUTOR_SLOW"}};
  static const word sessions[] = {{"", "PD_SESSION_UNUSED"}, {"optional", "PD_SESSION_OPTIONAL"}, {"required", "PD_SESSION_REQUIRED"}};
  pd_json how = pd_json_member(c->json, "handling");
  bool has_effects = pd_json_member(c->json, "side_effects").raw.size > 2, is_destructive = flag_of(c, how, "destructive", false);
  if (is_destructive && !has_effects) refuse(c->path, "it is destructive and has no side effects");
  fprintf(f, "{.executor = %s, .session = %s, .subject = subject_%zu, .keys = keys_%zu, .has_effects = %d,\n      .is_destructive = %d, ",
          word_of(c, "executor", pd_json_member(how, "executor"), executors, COUNT_OF(executors)),
          word_of(c, "session", pd_json_member(how, "session"), sessions, COUNT_OF(sessions)), index, index, has_effects, is_destructive);
  fprintf(f, ".is_idempotent = %d, .is_keyless = %d, .is_preflighted = %d, .is_of_host = %d, .is_waiting = %d, ",
          flag_of(c, how, "idempotent", !has_effects), pd_json_is(pd_json_member(how, "keys"), "none"), flag_of(c, how, "preflight", false),
          flag_of(c, how, "host", false), flag_of(c, how, "waits", false));
  fprintf(f, ".is_cancellable = %d, .is_activity = %d}", flag_of(c, how, "cancellable", false), flag_of(c, how, "activity", true));
}

static void function_name(const capability *c, char *out, size_t size)
{
  snprintf(out, size, "pd_cap_%s", c->name);
  for (char *at = out; *at; at++)
    if (*at == '.') *at = '_';
}

static void table_row(FILE *f, const capability *c, size_t index, size_t field_count)
{
  fputs("  {", f);
  c_text(f, c->name);
  fputs(", ", f);
  c_text(f, needed_text(c, "summary"));
  fputs(", ", f);
  c_text(f, needed_text(c, "when_to_use"));
  fputs(", ", f);
  c_text(f, needed_text(c, "version"));
  pd_json needs_agent = pd_json_member(c->json, "needs_agent");
  fprintf(f, ", %s, %s, fields_%zu, %zu, errors_%zu,\n    ",
          permission_of(c),
          needs_agent.kind == PD_JSON_BOOL && !pd_json_true(needs_agent) ? "false" : "true", index, field_count, index);
  c_text(f, one_line(c->json));
  fputs(",\n    ", f);
  row_handling(f, c, index);
  if (pd_json_member(c->json, "shorthand").kind == PD_JSON_OBJECT)
    fprintf(f, ", &shorthand_%zu},\n", index);
  else
    fputs(", NULL},\n", f);
}

/* The functions, which nothing but this one reaches: with a grant. */
static void table_functions(FILE *f)
{
  fputs("};\nstatic const pd_cap_run functions[] = {\n", f);
  for (size_t i = 0; i < cap_count; i++) {
    char name[128];
    function_name(&caps[i], name, sizeof name);
    fprintf(f, "  %s,\n", name);
  }
  fputs("};\n\npd_code pd_capability_run(pd_frame *frame, pd_error *err)\n{\n  TRY(pd_grant_check_call(frame, err));\n", f);
  fputs("  return functions[frame->capability - pd_capabilities](frame, err);\n}\n\n", f);
}

static void make_header(const char *path)
{
  FILE *f = fopen(path, "w");
  if (!f) refuse(path, "cannot be written");
  fputs("/* Made by tools/capgen.c from capabilities/. Do not edit. */\n#ifndef PD_STATE_RUN_H\n#define PD_STATE_RUN_H\n\n", f);
  fputs("#include \"state/capability.h\"\n\n", f);
  fputs("/* A call of one by its name does not compile: pd_capability_run alone runs them. */\n", f);
  fputs("#define PD_BY_GRANT __attribute__((error(\"a capability runs through pd_capability_run, with a grant\")))\n\n", f);
  for (size_t i = 0; i < cap_count; i++) {
    char name[128];
    function_name(&caps[i], name, sizeof name);
    fprintf(f, "PD_MUST_USE PD_BY_GRANT pd_code %s(pd_frame *frame, pd_error *err);\n", name);
  }
  fputs("\n#endif\n", f);
  if (fclose(f)) refuse(path, "cannot be written");
}

static int compare_tools(const void *a, const void *b)
{
  char name_a[128], name_b[128];
  function_name(&caps[*(const size_t *)a], name_a, sizeof name_a);
  function_name(&caps[*(const size_t *)b], name_b, sizeof name_b);
  return strcmp(name_a, name_b);
}

/* The names of MCP, sorted: with underscores they have another order than with dots. */
static void make_tools(FILE *f)
{
  size_t order[FILES_MAX];
  for (size_t i = 0; i < cap_count; i++) order[i] = i;
  qsort(order, cap_count, sizeof order[0], compare_tools);
  fputs("\nconst pd_tool pd_tools[] = {\n", f);
  for (size_t i = 0; i < cap_count; i++) {
    char name[128];
    function_name(&caps[order[i]], name, sizeof name);
    fprintf(f, "  {\"%s\", &pd_capabilities[%zu]},\n", name + strlen("pd_cap_"), order[i]);
  }
  fputs("};\n", f);
}

static void make_table(const char *path)
{
  FILE *f = fopen(path, "w");
  if (!f) refuse(path, "cannot be written");
  size_t counts[FILES_MAX];
  fputs("/* Made by tools/capgen.c from capabilities/. Do not edit. */\n#include \"state/run.h\"\n\n", f);
  fputs("#include \"base/base.h\"\n#include \"state/authorise.h\"\n\n", f);
  table_errors(f, "common.json", "common", common);
  for (size_t i = 0; i < cap_count; i++) {
    char suffix[24];
    snprintf(suffix, sizeof suffix, "%zu", i);
    counts[i] = table_fields(f, &caps[i], i);
    table_lists(f, &caps[i], i);
    table_shorthand(f, &caps[i], i);
    table_errors(f, caps[i].path, suffix, pd_json_member(caps[i].json, "errors"));
  }
  fputs("\nconst pd_capability pd_capabilities[] = {\n", f);
  for (size_t i = 0; i < cap_count; i++) table_row(f, &caps[i], i, counts[i]);
  table_functions(f);
  fprintf(f, "const size_t pd_capability_count = %zu;\n", cap_count);
  make_tools(f);
  if (fclose(f)) refuse(path, "cannot be written");
}

/* ---- the reference pages ---- */

static FILE *open_in(const char *folder, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  if (!f) refuse(path, "cannot be written");
  return f;
}

/* A table's cell: no line breaks, no bars. */
static void cell(FILE *f, const char *text)
{
  for (; *text; text++) {
    if (*text == '|') fputc('\\', f);
    fputc(*text == '\n' ? ' ' : *text, f);
  }
}

static const char *type_words(const capability *c, pd_json schema)
{
  pd_json kind = pd_json_member(schema, "type");
  if (kind.kind == PD_JSON_ARRAY) { /* ["string", "null"]: the first says it */
    pd_json_walk walk = pd_json_walk_begin(kind);
    if (!pd_json_walk_next(&walk, NULL, &kind)) refuse(c->path, "a type is an empty list");
  }
  const char *type = text_of(c->path, kind);
  if (!*type) return "any JSON";
  return strcmp(member_text(c, schema, "format"), "date-time") == 0 ? "date-time" : type;
}

static void docs_inputs(FILE *f, const capability *c)
{
  pd_json inputs = pd_json_member(c->json, "inputs"), key, value;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(inputs, "properties"));
  bool is_first = true;
  fputs("\n## Inputs\n\n", f);
  for (; pd_json_walk_next(&walk, &key, &value); is_first = false) {
    if (is_first) fputs("| field | type | required | default | what |\n|---|---|---|---|---|\n", f);
    const char *name = text_of(c->path, key);
    pd_json otherwise = pd_json_member(value, "default");
    fprintf(f, "| `%s` | %s | %s | %s | ", name, type_words(c, value), is_listed(pd_json_member(inputs, "required"), name) ? "yes" : "no",
            otherwise.kind == PD_JSON_NONE ? "" : one_line(otherwise));
    cell(f, member_text(c, value, "description"));
    fputs(" |\n", f);
  }
  if (is_first) fputs("None.\n", f);
}

static void docs_outputs(FILE *f, const capability *c)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(pd_json_member(c->json, "outputs"), "properties"));
  fputs("\n## Outputs\n\n| field | type | what |\n|---|---|---|\n", f);
  while (pd_json_walk_next(&walk, &key, &value)) {
    fprintf(f, "| `%s` | %s | ", text_of(c->path, key), type_words(c, value));
    cell(f, member_text(c, value, "description"));
    fputs(" |\n", f);
  }
}

static void docs_effects(FILE *f, const capability *c)
{
  pd_json effect;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "side_effects"));
  for (bool is_first = true; pd_json_walk_next(&walk, NULL, &effect); is_first = false) {
    if (is_first) fputs("\n## Side effects\n\n", f);
    fprintf(f, "- %s (%s)\n", member_text(c, effect, "description"),
            pd_json_true(pd_json_member(effect, "reversible")) ? "reversible" : "not reversible");
  }
}

static void docs_errors(FILE *f, const char *path, pd_json errors)
{
  pd_json error, recovery;
  pd_json_walk walk = pd_json_walk_begin(errors);
  while (pd_json_walk_next(&walk, NULL, &error)) {
    fprintf(f, "- **%s**: %s\n", text_of(path, pd_json_member(error, "code")), text_of(path, pd_json_member(error, "description")));
    pd_json_walk inner = pd_json_walk_begin(pd_json_member(error, "recovery"));
    while (pd_json_walk_next(&inner, NULL, &recovery))
      fprintf(f, "  - `%s`: %s\n", text_of(path, pd_json_member(recovery, "action")), text_of(path, pd_json_member(recovery, "hint")));
  }
}

static void docs_examples(FILE *f, const capability *c)
{
  pd_json example, step;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "examples"));
  fputs("\n## Examples\n", f);
  while (pd_json_walk_next(&walk, NULL, &example)) {
    fprintf(f, "\n%s:\n\n```\n", member_text(c, example, "title"));
    pd_json_walk steps = pd_json_walk_begin(pd_json_member(example, "setup"));
    while (pd_json_walk_next(&steps, NULL, &step))
      fprintf(f, "$ perdure call %s '%s'\n", member_text(c, step, "call"), one_line(pd_json_member(step, "input")));
    fprintf(f, "$ perdure call %s '%s'\n", c->name, one_line(pd_json_member(example, "input")));
    pd_json output = pd_json_member(example, "output");
    if (output.kind != PD_JSON_NONE)
      fprintf(f, "%s\n```\n", one_line(output));
    else
      fprintf(f, "%s\n```\n", member_text(c, example, "error"));
  }
}

static void docs_page(const char *folder, const capability *c)
{
  char name[128];
  snprintf(name, sizeof name, "%s.md", c->name);
  FILE *f = open_in(folder, name);
  fprintf(f, "<!-- Made by tools/capgen.c from capabilities/%s.json. Do not edit. -->\n# %s\n\n%s\n\n", c->name, c->name,
          needed_text(c, "summary"));
  fprintf(f, "Permission: **%s** · Version: %s · Tags:", needed_text(c, "permission"), needed_text(c, "version"));
  pd_json tag;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "tags"));
  while (pd_json_walk_next(&walk, NULL, &tag)) fprintf(f, " %s", text_of(c->path, tag));
  fprintf(f, "\n\n## When to use\n\n%s\n", needed_text(c, "when_to_use"));
  docs_inputs(f, c);
  docs_outputs(f, c);
  docs_effects(f, c);
  fputs("\n## Errors\n\n", f);
  docs_errors(f, c->path, pd_json_member(c->json, "errors"));
  fputs("\nAnd those that [all capabilities](README.md#errors-of-all-capabilities) share.\n", f);
  docs_examples(f, c);
  if (fclose(f)) refuse(name, "cannot be written");
}

static void docs_schema(const char *folder, const capability *c)
{
  char name[128];
  snprintf(name, sizeof name, "%s.schema.json", c->name);
  FILE *f = open_in(folder, name);
  fprintf(f, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"%s\",\"inputs\":%s,\"outputs\":%s}\n", c->name,
          one_line(pd_json_member(c->json, "inputs")), one_line(pd_json_member(c->json, "outputs")));
  if (fclose(f)) refuse(name, "cannot be written");
}

static void make_docs(const char *folder)
{
  FILE *f = open_in(folder, "README.md");
  fputs("<!-- Made by tools/capgen.c from capabilities/. Do not edit. -->\n# Capabilities\n\n", f);
  fputs("What an agent may do: one page each, with its inputs, outputs, permission, errors and what to do about them.\n", f);
  fputs("`perdure call NAME '{…}'`, `pd_call` in C, and every server front end lead to the same door.\n\n", f);
  fputs("| capability | permission | purpose |\n|---|---|---|\n", f);
  for (size_t i = 0; i < cap_count; i++) {
    fprintf(f, "| [%s](%s.md) | %s | ", caps[i].name, caps[i].name, needed_text(&caps[i], "permission"));
    cell(f, needed_text(&caps[i], "summary"));
    fputs(" |\n", f);
    docs_page(folder, &caps[i]);
    docs_schema(folder, &caps[i]);
  }
  fputs("\n## Errors of all capabilities\n\n", f);
  docs_errors(f, "common.json", common);
  if (fclose(f)) refuse(folder, "cannot be written");
}

/* ---- what tests have to show ---- */

/* One line for each promise: capability, test name's beginning, sentence. */
static void fact(const capability *c, const char *kind, const char *name, const char *sentence)
{
  const char *plain = strncmp(c->name, "state.", 6) == 0 ? c->name + 6 : c->name;
  printf("%s\t", c->name);
  for (; *plain; plain++) putchar(*plain == '.' ? '_' : *plain);
  printf("__%s_%s__\t", kind, name);
  cell(stdout, sentence);
  putchar('\n');
}

static void facts_of_schema(const capability *c, const char *kind, pd_json schema)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(schema, "properties"));
  while (pd_json_walk_next(&walk, &key, &value)) fact(c, kind, text_of(c->path, key), member_text(c, value, "description"));
}

static void print_facts(void)
{
  for (const capability *c = caps; c < caps + cap_count; c++) {
    pd_json item;
    char number[24];
    size_t n = 0;
    facts_of_schema(c, "in", pd_json_member(c->json, "inputs"));
    facts_of_schema(c, "out", pd_json_member(c->json, "outputs"));
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "side_effects"));
    while (pd_json_walk_next(&walk, NULL, &item)) {
      snprintf(number, sizeof number, "%zu", ++n);
      fact(c, "effect", number, member_text(c, item, "description"));
    }
    walk = pd_json_walk_begin(pd_json_member(c->json, "errors"));
    while (pd_json_walk_next(&walk, NULL, &item)) fact(c, "err", member_text(c, item, "code"), member_text(c, item, "description"));
  }
}

int main(int argc, char **argv)
{
  if (argc < 4) {
    fputs("usage: capgen table OUT.c FILE... | capgen header OUT.h FILE... | capgen docs FOLDER FILE...\n", stderr);
    return 2;
  }
  atexit(free_kept);
  for (int i = 3; i < argc; i++) add_file(argv[i]);
  qsort(caps, cap_count, sizeof caps[0], by_name);
  if (strcmp(argv[1], "table") == 0) {
    make_table(argv[2]);
    return 0;
  }
  if (strcmp(argv[1], "header") == 0) {
    make_header(argv[2]);
    return 0;
  }
  if (strcmp(argv[1], "facts") == 0) {
    print_facts();
    return 0;
  }
  if (strcmp(argv[1], "docs") == 0) {
    make_docs(argv[2]);
    return 0;
  }
  fprintf(stderr, "capgen: there is no '%s'; there are table, header, docs and facts\n", argv[1]);
  return 2;
}
