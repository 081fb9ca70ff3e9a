/*
 * capgen.c: from capabilities/NAME.json to what is made of them.
 *
 *   capgen table OUT.c  FILE...    the table that the door looks things up in (built by meson, not checked in)
 *   capgen header OUT.h FILE...    the prototypes of the functions that run them (the same)
 *   capgen docs  FOLDER FILE...    FOLDER/NAME.md, FOLDER/NAME.schema.json and FOLDER/README.md (checked in; a test finds stale ones)
 *   capgen facts - FILE...         every promise on a line: capability, how the names of its tests begin, sentence
 *
 * common.json among the files has the errors that every capability may answer with, and by name those that several share: there the name
 * stands in the list of a capability's errors. A file that is not as it should be is refused with
 * its name and what is wrong, and nothing is written.
 */
#include "capgen.h"

#include "base/array.h"

#include <stdarg.h>

capability capgen_caps[CAPGEN_FILES_MAX];
size_t capgen_count;
pd_json capgen_common;
static pd_json shared_errors;
static pd_buf common_bytes;

void capgen_refuse(const char *path, const char *fmt, ...)
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
  if (!f) capgen_refuse(path, "cannot be opened");
  char part[4096];
  size_t got;
  while ((got = fread(part, 1, sizeof part, f)))
    if (pd_buf_append(out, part, got, NULL)) capgen_refuse(path, "no memory");
  fclose(f);
}

/* Texts live until the program ends. */
static char **kept;
static size_t kept_count, kept_capacity;

static const char *keep(const char *path, pd_buf *text)
{
  if (pd_buf_byte(text, 0, NULL) || pd_array_grow(&kept, kept_count, &kept_capacity, sizeof *kept, "texts", NULL))
    capgen_refuse(path, "no memory");
  return kept[kept_count++] = (char *)text->data;
}

static void free_kept(void)
{
  pd_buf_done(&common_bytes);
  for (size_t i = 0; i < capgen_count; i++) pd_buf_done(&capgen_caps[i].bytes);
  for (size_t i = 0; i < kept_count; i++) free(kept[i]);
  free(kept);
}

const char *capgen_text(const char *path, pd_json value)
{
  pd_buf buf = {0};
  if (value.kind == PD_JSON_NONE) return "";
  if (pd_json_decode(value, &buf, NULL)) capgen_refuse(path, "a text was expected, not %s", pd_json_kind_name(value.kind));
  return keep(path, &buf);
}

const char *capgen_member(const capability *c, pd_json object, const char *key)
{
  return capgen_text(c->path, pd_json_member(object, key));
}

const char *capgen_needed(const capability *c, const char *key)
{
  const char *text = capgen_member(c, c->json, key);
  if (!*text) capgen_refuse(c->path, "'%s' is missing or empty", key);
  return text;
}

const char *capgen_line(pd_json value)
{
  pd_buf buf = {0};
  pd_json_writer w = {.out = &buf};
  pd_json_value(&w, value);
  if (w.code) capgen_refuse("", "no memory");
  return keep("", &buf);
}

bool capgen_is_listed(pd_json list, const char *text)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item))
    if (pd_json_is(item, text)) return true;
  return false;
}

void capgen_cell(FILE *f, const char *text)
{
  for (; *text; text++) {
    if (*text == '|') fputc('\\', f);
    fputc(*text == '\n' ? ' ' : *text, f);
  }
}

bool capgen_next_error(const char *path, pd_json_walk *walk, pd_json *out)
{
  if (!pd_json_walk_next(walk, NULL, out)) return false;
  if (out->kind != PD_JSON_STRING) return true;
  const char *name = capgen_text(path, *out);
  *out = pd_json_member(shared_errors, name);
  if (out->kind == PD_JSON_NONE) capgen_refuse(path, "common.json has no shared error '%s'", name);
  return true;
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
    if (i == COUNT_OF(known)) capgen_refuse(c->path, "there is no member %.*s", (int)key.raw.size, (const char *)key.raw.data);
  }
  static const char *const lists[] = {"side_effects", "errors", "examples", "tags"};
  for (size_t i = 0; i < COUNT_OF(lists); i++)
    if (pd_json_member(c->json, lists[i]).kind != PD_JSON_ARRAY) capgen_refuse(c->path, "'%s' must be an array", lists[i]);
  if (pd_json_member(c->json, "examples").raw.size < 4) capgen_refuse(c->path, "it has no example");
}

const char *capgen_word(const capability *c, const char *what, pd_json value, const capgen_word_pair *words, size_t count)
{
  if (value.kind == PD_JSON_NONE) return words[0].c;
  for (size_t i = 0; i < count; i++)
    if (pd_json_is(value, words[i].json)) return words[i].c;
  capgen_refuse(c->path, "%s %.*s is not known", what, (int)value.raw.size, (const char *)value.raw.data);
}

const char *capgen_permission(const capability *c)
{
  static const capgen_word_pair permissions[] = {{"autonomous", "PD_PERMIT_AUTONOMOUS"},
                                                 {"notify", "PD_PERMIT_NOTIFY"},
                                                 {"approval", "PD_PERMIT_APPROVAL"},
                                                 {"operator", "PD_PERMIT_OPERATOR"}};
  pd_json value = pd_json_member(c->json, "permission");
  if (value.kind == PD_JSON_NONE) capgen_refuse(c->path, "'permission' is missing: it must be autonomous, notify, approval or operator");
  return capgen_word(c, "permission", value, permissions, COUNT_OF(permissions));
}

/* When all files are read, and before anything is written. */
static void check_errors(const capability *c)
{
  pd_json error;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "errors"));
  while (capgen_next_error(c->path, &walk, &error)) continue;
}

static void add_file(const char *path)
{
  if (capgen_count == CAPGEN_FILES_MAX) capgen_refuse(path, "too many files");
  capability *c = &capgen_caps[capgen_count];
  pd_error err;
  *c = (capability){.path = path}; /* the slot of common.json is used again */
  read_file(path, &c->bytes);
  if (pd_json_parse(pd_buf_bytes(&c->bytes), &c->json, &err) || pd_json_unique(c->json, &err)) capgen_refuse(path, "%s", err.message);
  const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  if (strcmp(base, "common.json") == 0) {
    capgen_common = pd_json_member(c->json, "errors");
    shared_errors = pd_json_member(c->json, "shared");
    common_bytes = c->bytes;
    return;
  }
  snprintf(c->name, sizeof c->name, "%.*s", (int)(strlen(base) - strlen(".json")), base);
  if (strcmp(capgen_needed(c, "name"), c->name) != 0)
    capgen_refuse(path, "its name is '%s', not that of the file", capgen_needed(c, "name"));
  capgen_needed(c, "summary");
  capgen_needed(c, "when_to_use");
  capgen_needed(c, "version");
  capgen_permission(c);
  check_members(c);
  capgen_count++;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const capability *)a)->name, ((const capability *)b)->name);
}

/* ---- what tests have to show ---- */

/* One line for each promise: capability, test name's beginning, sentence. */
static void fact(const capability *c, const char *kind, const char *name, const char *sentence)
{
  const char *plain = strncmp(c->name, "state.", 6) == 0 ? c->name + 6 : c->name;
  printf("%s\t", c->name);
  for (; *plain; plain++) putchar(*plain == '.' ? '_' : *plain);
  printf("__%s_%s__\t", kind, name);
  capgen_cell(stdout, sentence);
  putchar('\n');
}

static void facts_of_schema(const capability *c, const char *kind, pd_json schema)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(schema, "properties"));
  while (pd_json_walk_next(&walk, &key, &value)) fact(c, kind, capgen_text(c->path, key), capgen_member(c, value, "description"));
}

static void print_facts(void)
{
  for (const capability *c = capgen_caps; c < capgen_caps + capgen_count; c++) {
    pd_json item;
    char number[24];
    size_t n = 0;
    facts_of_schema(c, "in", pd_json_member(c->json, "inputs"));
    facts_of_schema(c, "out", pd_json_member(c->json, "outputs"));
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "side_effects"));
    while (pd_json_walk_next(&walk, NULL, &item)) {
      snprintf(number, sizeof number, "%zu", ++n);
      fact(c, "effect", number, capgen_member(c, item, "description"));
    }
    walk = pd_json_walk_begin(pd_json_member(c->json, "errors"));
    while (capgen_next_error(c->path, &walk, &item)) fact(c, "err", capgen_member(c, item, "code"), capgen_member(c, item, "description"));
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
  for (size_t i = 0; i < capgen_count; i++) check_errors(&capgen_caps[i]);
  qsort(capgen_caps, capgen_count, sizeof capgen_caps[0], by_name);
  if (strcmp(argv[1], "table") == 0) {
    capgen_table(argv[2]);
    return 0;
  }
  if (strcmp(argv[1], "header") == 0) {
    capgen_header(argv[2]);
    return 0;
  }
  if (strcmp(argv[1], "facts") == 0) {
    print_facts();
    return 0;
  }
  if (strcmp(argv[1], "docs") == 0) {
    capgen_pages(argv[2]);
    return 0;
  }
  fprintf(stderr, "capgen: there is no '%s'; there are table, header, docs and facts\n", argv[1]);
  return 2;
}
