/* capgen_pages.c: the reference pages and schemas of docs/capabilities. */
#include "capgen.h"

static FILE *open_in(const char *folder, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  if (!f) capgen_refuse(path, "cannot be written");
  return f;
}

static const char *type_words(const capability *c, pd_json schema)
{
  pd_json kind = pd_json_member(schema, "type");
  if (kind.kind == PD_JSON_ARRAY) { /* ["string", "null"]: the first says it */
    pd_json_walk walk = pd_json_walk_begin(kind);
    if (!pd_json_walk_next(&walk, NULL, &kind)) capgen_refuse(c->path, "a type is an empty list");
  }
  const char *type = capgen_text(c->path, kind);
  if (!*type) return "any JSON";
  return strcmp(capgen_member(c, schema, "format"), "date-time") == 0 ? "date-time" : type;
}

static void docs_inputs(FILE *f, const capability *c)
{
  pd_json inputs = pd_json_member(c->json, "inputs"), key, value;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(inputs, "properties"));
  bool is_first = true;
  fputs("\n## Inputs\n\n", f);
  for (; pd_json_walk_next(&walk, &key, &value); is_first = false) {
    if (is_first) fputs("| field | type | required | default | what |\n|---|---|---|---|---|\n", f);
    const char *name = capgen_text(c->path, key);
    pd_json otherwise = pd_json_member(value, "default");
    fprintf(f, "| `%s` | %s | %s | %s | ", name, type_words(c, value),
            capgen_is_listed(pd_json_member(inputs, "required"), name) ? "yes" : "no",
            otherwise.kind == PD_JSON_NONE ? "" : capgen_line(otherwise));
    capgen_cell(f, capgen_member(c, value, "description"));
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
    fprintf(f, "| `%s` | %s | ", capgen_text(c->path, key), type_words(c, value));
    capgen_cell(f, capgen_member(c, value, "description"));
    fputs(" |\n", f);
  }
}

static void docs_effects(FILE *f, const capability *c)
{
  pd_json effect;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "side_effects"));
  for (bool is_first = true; pd_json_walk_next(&walk, NULL, &effect); is_first = false) {
    if (is_first) fputs("\n## Side effects\n\n", f);
    fprintf(f, "- %s (%s)\n", capgen_member(c, effect, "description"),
            pd_json_true(pd_json_member(effect, "reversible")) ? "reversible" : "not reversible");
  }
}

static void docs_errors(FILE *f, const char *path, pd_json errors)
{
  pd_json error, recovery;
  pd_json_walk walk = pd_json_walk_begin(errors);
  while (capgen_next_error(path, &walk, &error)) {
    fprintf(f, "- **%s**: %s\n", capgen_text(path, pd_json_member(error, "code")), capgen_text(path, pd_json_member(error, "description")));
    pd_json_walk inner = pd_json_walk_begin(pd_json_member(error, "recovery"));
    while (pd_json_walk_next(&inner, NULL, &recovery))
      fprintf(f, "  - `%s`: %s\n", capgen_text(path, pd_json_member(recovery, "action")),
              capgen_text(path, pd_json_member(recovery, "hint")));
  }
}

static void docs_examples(FILE *f, const capability *c)
{
  pd_json example, step;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "examples"));
  fputs("\n## Examples\n", f);
  while (pd_json_walk_next(&walk, NULL, &example)) {
    fprintf(f, "\n%s:\n\n```\n", capgen_member(c, example, "title"));
    pd_json_walk steps = pd_json_walk_begin(pd_json_member(example, "setup"));
    while (pd_json_walk_next(&steps, NULL, &step))
      fprintf(f, "$ perdure call %s '%s'\n", capgen_member(c, step, "call"), capgen_line(pd_json_member(step, "input")));
    fprintf(f, "$ perdure call %s '%s'\n", c->name, capgen_line(pd_json_member(example, "input")));
    pd_json output = pd_json_member(example, "output");
    if (output.kind != PD_JSON_NONE)
      fprintf(f, "%s\n```\n", capgen_line(output));
    else
      fprintf(f, "%s\n```\n", capgen_member(c, example, "error"));
  }
}

static void docs_page(const char *folder, const capability *c)
{
  char name[128];
  snprintf(name, sizeof name, "%s.md", c->name);
  FILE *f = open_in(folder, name);
  fprintf(f, "<!-- Made by tools/capgen.c from capabilities/%s.json. Do not edit. -->\n# %s\n\n%s\n\n", c->name, c->name,
          capgen_needed(c, "summary"));
  fprintf(f, "Permission: **%s** · Version: %s · Tags:", capgen_needed(c, "permission"), capgen_needed(c, "version"));
  pd_json tag;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(c->json, "tags"));
  while (pd_json_walk_next(&walk, NULL, &tag)) fprintf(f, " %s", capgen_text(c->path, tag));
  fprintf(f, "\n\n## When to use\n\n%s\n", capgen_needed(c, "when_to_use"));
  docs_inputs(f, c);
  docs_outputs(f, c);
  docs_effects(f, c);
  fputs("\n## Errors\n\n", f);
  docs_errors(f, c->path, pd_json_member(c->json, "errors"));
  fputs("\nAnd those that [all capabilities](README.md#errors-of-all-capabilities) share.\n", f);
  docs_examples(f, c);
  if (fclose(f)) capgen_refuse(name, "cannot be written");
}

static void docs_schema(const char *folder, const capability *c)
{
  char name[128];
  snprintf(name, sizeof name, "%s.schema.json", c->name);
  FILE *f = open_in(folder, name);
  fprintf(f, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"%s\",\"inputs\":%s,\"outputs\":%s}\n", c->name,
          capgen_line(pd_json_member(c->json, "inputs")), capgen_line(pd_json_member(c->json, "outputs")));
  if (fclose(f)) capgen_refuse(name, "cannot be written");
}

void capgen_pages(const char *folder)
{
  FILE *f = open_in(folder, "README.md");
  fputs("<!-- Made by tools/capgen.c from capabilities/. Do not edit. -->\n# Capabilities\n\n", f);
  fputs("What an agent may do: one page each, with its inputs, outputs, permission, errors and what to do about them.\n", f);
  fputs("`perdure call NAME '{…}'`, `pd_call` in C, and every server front end lead to the same door.\n\n", f);
  fputs("| capability | permission | purpose |\n|---|---|---|\n", f);
  for (size_t i = 0; i < capgen_count; i++) {
    fprintf(f, "| [%s](%s.md) | %s | ", capgen_caps[i].name, capgen_caps[i].name, capgen_needed(&capgen_caps[i], "permission"));
    capgen_cell(f, capgen_needed(&capgen_caps[i], "summary"));
    fputs(" |\n", f);
    docs_page(folder, &capgen_caps[i]);
    docs_schema(folder, &capgen_caps[i]);
  }
  fputs("\n## Errors of all capabilities\n\n", f);
  docs_errors(f, "common.json", capgen_common);
  if (fclose(f)) capgen_refuse(folder, "cannot be written");
}
