/* capgen_table.c: the table of capabilities in C, and the prototypes of their functions. */
#include "capgen.h"

#define FIELDS_MAX 16
#define TEXT_SIZE_MAX "16384"

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

static const char *number_or(pd_json object, const char *key, const char *otherwise)
{
  pd_json value = pd_json_member(object, key);
  return value.kind == PD_JSON_NUMBER ? capgen_line(value) : otherwise;
}

static void table_choices(FILE *f, size_t index, const char *field, pd_json list)
{
  fprintf(f, "static const char *const choices_%zu_%s[] = {", index, field);
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    c_text(f, capgen_text("", item));
    fputs(", ", f);
  }
  fputs("NULL};\n", f);
}

static void table_field(FILE *f, const capability *c, size_t index, const char *name, pd_json schema, bool is_required)
{
  static const capgen_word_pair types[] = {
    {"", "PD_FIELD_ANY"},          {"string", "PD_FIELD_STRING"}, {"integer", "PD_FIELD_INTEGER"}, {"boolean", "PD_FIELD_BOOLEAN"},
    {"object", "PD_FIELD_OBJECT"}, {"array", "PD_FIELD_ARRAY"}};
  static const capgen_word_pair formats[] = {{"", "PD_FORMAT_NONE"},       {"key", "PD_FORMAT_KEY"},   {"prefix", "PD_FORMAT_PREFIX"},
                                             {"agent", "PD_FORMAT_AGENT"}, {"name", "PD_FORMAT_NAME"}, {"date-time", "PD_FORMAT_NONE"}};
  bool is_array = pd_json_is(pd_json_member(schema, "type"), "array");
  fputs("  {", f);
  c_text(f, name);
  fprintf(f, ", %s, %s, %s, %s, %s, %s, %s, ", capgen_word(c, "type", pd_json_member(schema, "type"), types, COUNT_OF(types)),
          capgen_word(c, "format", pd_json_member(schema, "format"), formats, COUNT_OF(formats)), is_required ? "true" : "false",
          number_or(schema, "minimum", "0"), number_or(schema, "maximum", "9007199254740991"),
          number_or(schema, is_array ? "minItems" : "minLength", "0"),
          number_or(schema, is_array ? "maxItems" : "maxLength", is_array ? "10000" : TEXT_SIZE_MAX));
  if (pd_json_member(schema, "enum").kind == PD_JSON_ARRAY)
    fprintf(f, "choices_%zu_%s, ", index, name);
  else
    fputs("NULL, ", f);
  pd_json otherwise = pd_json_member(schema, "default");
  c_text(f, otherwise.kind == PD_JSON_NONE ? NULL : capgen_line(otherwise));
  fputs(", ", f);
  const char *about = capgen_member(c, schema, "description");
  if (!*about) capgen_refuse(c->path, "the input '%s' has no description", name);
  c_text(f, about);
  fputs("},\n", f);
}

static size_t table_fields(FILE *f, const capability *c, size_t index)
{
  pd_json inputs = pd_json_member(c->json, "inputs"), required = pd_json_member(inputs, "required");
  pd_json properties = pd_json_member(inputs, "properties"), key, value;
  size_t count = 0;
  if (properties.kind != PD_JSON_OBJECT) capgen_refuse(c->path, "'inputs' has no properties");
  pd_json_walk walk = pd_json_walk_begin(properties);
  while (pd_json_walk_next(&walk, &key, &value))
    if (pd_json_member(value, "enum").kind == PD_JSON_ARRAY)
      table_choices(f, index, capgen_text(c->path, key), pd_json_member(value, "enum"));
  fprintf(f, "static const pd_field fields_%zu[] = {\n", index);
  walk = pd_json_walk_begin(properties);
  while (pd_json_walk_next(&walk, &key, &value)) {
    const char *name = capgen_text(c->path, key);
    if (++count > FIELDS_MAX) capgen_refuse(c->path, "more than %d inputs", FIELDS_MAX);
    table_field(f, c, index, name, value, capgen_is_listed(required, name));
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
  for (; capgen_next_error(path, &walk, &error); n++) {
    fprintf(f, "static const pd_recovery recovery_%s_%zu[] = {", suffix, n);
    pd_json_walk inner = pd_json_walk_begin(pd_json_member(error, "recovery"));
    while (pd_json_walk_next(&inner, NULL, &recovery)) {
      fputc('{', f);
      c_text(f, capgen_text(path, pd_json_member(recovery, "action")));
      fputs(", ", f);
      c_text(f, capgen_text(path, pd_json_member(recovery, "hint")));
      fputs("}, ", f);
    }
    fputs("{0}};\n", f);
  }
  bool is_common = strcmp(suffix, "common") == 0;
  fprintf(f, is_common ? "const pd_cap_error pd_common_errors[] = {\n" : "static const pd_cap_error errors_%s[] = {\n", suffix);
  walk = pd_json_walk_begin(errors);
  for (n = 0; capgen_next_error(path, &walk, &error); n++) {
    fputs("  {", f);
    c_text(f, capgen_text(path, pd_json_member(error, "code")));
    fputs(", ", f);
    c_text(f, capgen_text(path, pd_json_member(error, "description")));
    fprintf(f, ", recovery_%s_%zu},\n", suffix, n);
  }
  fputs("  {0},\n};\n", f);
}

/* ---- how it is run, and called from a command line ---- */

static bool flag_of(const capability *c, pd_json object, const char *key, bool otherwise)
{
  pd_json value = pd_json_member(object, key);
  if (value.kind == PD_JSON_NONE) return otherwise;
  if (value.kind != PD_JSON_BOOL) capgen_refuse(c->path, "'%s' must be true or false", key);
  return pd_json_true(value);
}

/* A list of names of inputs as a static array; a name that is no input's is refused. */
static void table_names(FILE *f, const capability *c, size_t index, const char *what, pd_json list)
{
  pd_json properties = pd_json_member(pd_json_member(c->json, "inputs"), "properties"), item;
  fprintf(f, "static const char *const %s_%zu[] = {", what, index);
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    const char *name = capgen_text(c->path, item);
    if (pd_json_member(properties, name).kind == PD_JSON_NONE) capgen_refuse(c->path, "'%s' names '%s', which is not an input", what, name);
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
    if (i == count) capgen_refuse(c->path, "'%s' has no member %.*s", what, (int)key.raw.size, (const char *)key.raw.data);
  }
}

static void table_lists(FILE *f, const capability *c, size_t index)
{
  static const char *const handling[] = {"executor", "destructive", "idempotent",  "session",   "subject", "keys",
                                         "host",     "waits",       "cancellable", "preflight", "activity"};
  static const char *const shorthand[] = {"command", "verb", "words", "prints", "columns", "notes", "value"};
  pd_json how = pd_json_member(c->json, "handling"), words = pd_json_member(c->json, "shorthand");
  if (pd_json_member(how, "executor").kind != PD_JSON_STRING) capgen_refuse(c->path, "'handling' does not say which 'executor' runs it");
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
  c_text(f, value.kind == PD_JSON_NONE ? NULL : capgen_text(c->path, value));
  fputs(", ", f);
}

static void table_shorthand(FILE *f, const capability *c, size_t index)
{
  pd_json object = pd_json_member(c->json, "shorthand");
  if (object.kind != PD_JSON_OBJECT) return;
  if (!*capgen_member(c, object, "command")) capgen_refuse(c->path, "'shorthand' names no 'command'");
  fprintf(f, "static const pd_shorthand shorthand_%zu = {.words = words_%zu, .verb = ", index, index);
  c_text(f, capgen_member(c, object, "verb"));
  fputs(", ", f);
  optional_text(f, c, object, "command");
  optional_text(f, c, object, "prints");
  optional_text(f, c, object, "columns");
  optional_text(f, c, object, "notes");
  fprintf(f, ".is_value = %d};\n", flag_of(c, object, "value", false));
}

static void row_handling(FILE *f, const capability *c, size_t index)
{
  static const capgen_word_pair executors[] = {
    {"quick", "PD_EXECUTOR_QUICK"}, {"writer", "PD_EXECUTOR_WRITER"}, {"slow", "PD_EXECUTOR_SLOW"}};
  static const capgen_word_pair sessions[] = {
    {"", "PD_SESSION_UNUSED"}, {"optional", "PD_SESSION_OPTIONAL"}, {"required", "PD_SESSION_REQUIRED"}};
  pd_json how = pd_json_member(c->json, "handling");
  bool has_effects = pd_json_member(c->json, "side_effects").raw.size > 2, is_destructive = flag_of(c, how, "destructive", false);
  if (is_destructive && !has_effects) capgen_refuse(c->path, "it is destructive and has no side effects");
  fprintf(f, "{.executor = %s, .session = %s, .subject = subject_%zu, .keys = keys_%zu, .has_effects = %d,\n      .is_destructive = %d, ",
          capgen_word(c, "executor", pd_json_member(how, "executor"), executors, COUNT_OF(executors)),
          capgen_word(c, "session", pd_json_member(how, "session"), sessions, COUNT_OF(sessions)), index, index, has_effects,
          is_destructive);
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
  c_text(f, capgen_needed(c, "summary"));
  fputs(", ", f);
  c_text(f, capgen_needed(c, "when_to_use"));
  fputs(", ", f);
  c_text(f, capgen_needed(c, "version"));
  pd_json needs_agent = pd_json_member(c->json, "needs_agent");
  fprintf(f, ", %s, %s, fields_%zu, %zu, errors_%zu,\n    ", capgen_permission(c),
          needs_agent.kind == PD_JSON_BOOL && !pd_json_true(needs_agent) ? "false" : "true", index, field_count, index);
  c_text(f, capgen_line(c->json));
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
  for (size_t i = 0; i < capgen_count; i++) {
    char name[128];
    function_name(&capgen_caps[i], name, sizeof name);
    fprintf(f, "  %s,\n", name);
  }
  fputs("};\n\npd_code pd_capability_run(pd_frame *frame, pd_error *err)\n{\n  TRY(pd_grant_check_call(frame, err));\n", f);
  fputs("  return functions[frame->capability - pd_capabilities](frame, err);\n}\n\n", f);
}

void capgen_header(const char *path)
{
  FILE *f = fopen(path, "w");
  if (!f) capgen_refuse(path, "cannot be written");
  fputs("/* Made by tools/capgen.c from capabilities/. Do not edit. */\n#ifndef PD_STATE_RUN_H\n#define PD_STATE_RUN_H\n\n", f);
  fputs("#include \"state/capability.h\"\n\n", f);
  fputs("/* A call of one by its name does not compile: pd_capability_run alone runs them. */\n", f);
  fputs("#define PD_BY_GRANT __attribute__((error(\"a capability runs through pd_capability_run, with a grant\")))\n\n", f);
  for (size_t i = 0; i < capgen_count; i++) {
    char name[128];
    function_name(&capgen_caps[i], name, sizeof name);
    fprintf(f, "PD_MUST_USE PD_BY_GRANT pd_code %s(pd_frame *frame, pd_error *err);\n", name);
  }
  fputs("\n#endif\n", f);
  if (fclose(f)) capgen_refuse(path, "cannot be written");
}

static int compare_tools(const void *a, const void *b)
{
  char name_a[128], name_b[128];
  function_name(&capgen_caps[*(const size_t *)a], name_a, sizeof name_a);
  function_name(&capgen_caps[*(const size_t *)b], name_b, sizeof name_b);
  return strcmp(name_a, name_b);
}

/* The names of MCP, sorted: with underscores they have another order than with dots. */
static void make_tools(FILE *f)
{
  size_t order[CAPGEN_FILES_MAX];
  for (size_t i = 0; i < capgen_count; i++) order[i] = i;
  qsort(order, capgen_count, sizeof order[0], compare_tools);
  fputs("\nconst pd_tool pd_tools[] = {\n", f);
  for (size_t i = 0; i < capgen_count; i++) {
    char name[128];
    function_name(&capgen_caps[order[i]], name, sizeof name);
    fprintf(f, "  {\"%s\", &pd_capabilities[%zu]},\n", name + strlen("pd_cap_"), order[i]);
  }
  fputs("};\n", f);
}

void capgen_table(const char *path)
{
  FILE *f = fopen(path, "w");
  if (!f) capgen_refuse(path, "cannot be written");
  size_t counts[CAPGEN_FILES_MAX];
  fputs("/* Made by tools/capgen.c from capabilities/. Do not edit. */\n#include \"state/run.h\"\n\n", f);
  fputs("#include \"base/base.h\"\n#include \"state/authorise.h\"\n\n", f);
  table_errors(f, "common.json", "common", capgen_common);
  for (size_t i = 0; i < capgen_count; i++) {
    char suffix[24];
    snprintf(suffix, sizeof suffix, "%zu", i);
    counts[i] = table_fields(f, &capgen_caps[i], i);
    table_lists(f, &capgen_caps[i], i);
    table_shorthand(f, &capgen_caps[i], i);
    table_errors(f, capgen_caps[i].path, suffix, pd_json_member(capgen_caps[i].json, "errors"));
  }
  fputs("\nconst pd_capability pd_capabilities[] = {\n", f);
  for (size_t i = 0; i < capgen_count; i++) table_row(f, &capgen_caps[i], i, counts[i]);
  table_functions(f);
  fprintf(f, "const size_t pd_capability_count = %zu;\n", capgen_count);
  make_tools(f);
  if (fclose(f)) capgen_refuse(path, "cannot be written");
}
