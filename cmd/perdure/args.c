/* args.c: see args.h. */
#include "args.h"

#include "base/base.h"
#include "base/distance.h"
#include "base/error.h"
#include "base/number.h"

#include <stdio.h>

#define WORD_SIZE_MAX 63 /* of names that are compared for a suggestion */

typedef struct parser {
  int argc, index;
  char **argv;
  args_parsed *out;
  const char *(*near)(const char *name);
  pd_error *err;
} parser;

/* The slot of the option that `fits`, in the command's table or the common one. */
static const char **find_slot(args_parsed *a, const char *name, size_t name_size, char letter, const args_option **out_option)
{
  const args_option *tables[] = {a->spec ? a->spec->options : NULL, a->global};
  const char **values[] = {a->values, a->global_values};
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; tables[t] && tables[t][i].name; i++) {
      const args_option *option = &tables[t][i];
      bool is_it = name ? strlen(option->name) == name_size && memcmp(option->name, name, name_size) == 0 : option->letter == letter;
      if (!is_it) continue;
      *out_option = option;
      return &values[t][i];
    }
  return NULL;
}

static void suggest_option(args_parsed *a, const char *name)
{
  const args_option *tables[] = {a->spec ? a->spec->options : NULL, a->global};
  const char *best = NULL;
  unsigned best_distance = 3;
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; tables[t] && tables[t][i].name; i++) {
      unsigned distance = pd_text_distance(name, tables[t][i].name);
      if (distance < best_distance && distance < strlen(name)) best = tables[t][i].name, best_distance = distance;
    }
  if (best)
    snprintf(a->hint, sizeof a->hint, "did you mean --%s?", best);
  else if (a->spec)
    snprintf(a->hint, sizeof a->hint, "see: perdure help %s", a->spec->name);
  else
    snprintf(a->hint, sizeof a->hint, "options of a command stand after it; see: perdure help");
}

static pd_code keep_value(parser *p, const args_option *option, const char *value, const char **slot)
{
  args_parsed *a = p->out;
  if (a->given_count == ARGS_GIVEN_MAX) return pd_error_set(p->err, PD_LIMIT, "more than %d options are given", ARGS_GIVEN_MAX);
  a->given[a->given_count++] = (args_given){option, value};
  *slot = value;
  return PD_OK;
}

static pd_code take_value(parser *p, const args_option *option, const char **slot)
{
  if (p->index + 1 >= p->argc) return pd_error_set(p->err, PD_INVALID, "option --%s needs %s", option->name, option->param);
  return keep_value(p, option, p->argv[++p->index], slot);
}

static bool is_option(const char *text)
{
  return text[0] == '-' && text[1] && !(text[1] >= '0' && text[1] <= '9');
}

static pd_code keep_field(parser *p, const char *text, size_t name_size, const char *value)
{
  args_parsed *a = p->out;
  if (a->field_count == ARGS_FIELD_MAX) return pd_error_set(p->err, PD_LIMIT, "more than %d fields are given", ARGS_FIELD_MAX);
  if (!value && p->index + 1 < p->argc && !is_option(p->argv[p->index + 1])) value = p->argv[++p->index];
  a->fields[a->field_count++] = (args_field){text, name_size, value};
  return PD_OK;
}

static bool is_global(const args_parsed *a, const args_option *option)
{
  for (size_t i = 0; a->global[i].name; i++)
    if (&a->global[i] == option) return true;
  return false;
}

/* `call state.persistent.get --version 3` means the field, `perdure --version` the flag; `call history.get --store shared` means the
 * field, `perdure --store shared call …` where the home is. */
static bool is_field(const parser *p, const args_option *option, const char *value)
{
  const args_spec *spec = p->out->spec;
  if (!spec || !spec->takes_fields) return false;
  if (!option) return true;
  bool has_value = value || (p->index + 1 < p->argc && !is_option(p->argv[p->index + 1]));
  if (!p->out->word_count || !has_value) return false;
  if (strcmp(option->name, ARGS_FLAG_OR_FIELD) == 0) return true;
  return spec->has_field && is_global(p->out, option) && spec->has_field(p->out, option->name, strlen(option->name));
}

static pd_code parse_long(parser *p, const char *text)
{
  size_t size = strcspn(text, "=");
  const char *value = text[size] ? text + size + 1 : NULL;
  const args_option *option = NULL;
  const char **slot = find_slot(p->out, text, size, 0, &option);
  if (is_field(p, option, value)) return keep_field(p, text, size, value);
  if (!slot) {
    char name[WORD_SIZE_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)(size < WORD_SIZE_MAX ? size : WORD_SIZE_MAX), text);
    suggest_option(p->out, name);
    return pd_error_set(p->err, PD_INVALID, "unknown option '--%s'", name);
  }
  if (!option->param && value) return pd_error_set(p->err, PD_INVALID, "option --%s takes no value", option->name);
  if (!option->param) value = "";
  if (!value) return take_value(p, option, slot);
  return keep_value(p, option, value, slot);
}

static pd_code parse_short(parser *p, const char *letters)
{
  for (; *letters; letters++) {
    const args_option *option;
    const char **slot = find_slot(p->out, NULL, 0, *letters, &option);
    if (!slot) {
      suggest_option(p->out, "");
      return pd_error_set(p->err, PD_INVALID, "unknown option '-%c'", *letters);
    }
    if (!option->param) {
      *slot = "";
      continue;
    }
    return letters[1] ? keep_value(p, option, letters + 1, slot) : take_value(p, option, slot);
  }
  return PD_OK;
}

static pd_code parse_word(parser *p, const char *word, const args_spec *(*find)(const char *name))
{
  args_parsed *a = p->out;
  if (a->spec) {
    a->words[a->word_count++] = word;
    return PD_OK;
  }
  a->spec = find(word);
  if (a->spec) return PD_OK;
  const char *near = p->near(word);
  if (near)
    snprintf(a->hint, sizeof a->hint, "did you mean '%s'?", near);
  else
    snprintf(a->hint, sizeof a->hint, "the commands are listed by: perdure help");
  return pd_error_set(p->err, PD_INVALID, "unknown command '%s'", word);
}

pd_code args_parse(int argc, char **argv, const args_option *global, const args_spec *(*find)(const char *name),
                   const char *(*near)(const char *name), args_parsed *out, pd_error *err)
{
  parser p = {.argc = argc, .index = 1, .argv = argv, .out = out, .near = near, .err = err};
  bool are_options_over = false;
  out->global = global;
  for (; p.index < argc; p.index++) {
    const char *text = argv[p.index];
    if (are_options_over || !is_option(text)) {
      TRY(parse_word(&p, text, find));
    } else if (strcmp(text, "--") == 0) {
      are_options_over = true;
    } else if (text[1] == '-') {
      TRY(parse_long(&p, text + 2));
    } else {
      TRY(parse_short(&p, text + 1));
    }
  }
  return PD_OK;
}

pd_code args_check_words(const args_parsed *args, pd_error *err)
{
  const args_spec *spec = args->spec;
  if (args->word_count < spec->word_min)
    return pd_error_set(err, PD_INVALID, "%s needs %s%zu argument%s, %zu given", spec->name,
                        spec->word_min < spec->word_max ? "at least " : "", spec->word_min, spec->word_min == 1 ? "" : "s",
                        args->word_count);
  if (args->word_count > spec->word_max)
    return pd_error_set(err, PD_INVALID, "%s: unexpected argument '%s'", spec->name, args->words[spec->word_max]);
  return PD_OK;
}

const char *args_get(const args_parsed *args, const char *name)
{
  for (size_t i = 0; args->spec && args->spec->options && args->spec->options[i].name; i++)
    if (strcmp(args->spec->options[i].name, name) == 0) return args->values[i];
  return args_get_global(args, name);
}

const char *args_get_global(const args_parsed *args, const char *name)
{
  for (size_t i = 0; args->global[i].name; i++)
    if (strcmp(args->global[i].name, name) == 0) return args->global_values[i];
  return NULL;
}

const char *args_next(const args_parsed *args, const char *name, size_t *index)
{
  while (*index < args->given_count) {
    const args_given *given = &args->given[(*index)++];
    if (strcmp(given->option->name, name) == 0) return given->value;
  }
  return NULL;
}

pd_code args_parse_number(const char *what, const char *text, uint64_t least, uint64_t *out, pd_error *err)
{
  uint64_t n;
  if (!pd_u64_parse(text, &n) || n < least || n == UINT64_MAX)
    return pd_error_set(err, PD_INVALID, "%s: '%s' is not a whole number of %llu or more", what, text, (unsigned long long)least);
  *out = n;
  return PD_OK;
}

pd_code args_parse_size(const char *what, const char *text, uint64_t *out, pd_error *err)
{
  static const char units[] = "KMG";
  char digits[WORD_SIZE_MAX + 1];
  size_t size = strlen(text);
  const char *unit = size ? strchr(units, text[size - 1]) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  uint64_t n = 0;
  snprintf(digits, sizeof digits, "%.*s", (int)(unit ? size - 1 : size), text);
  if (size > WORD_SIZE_MAX || args_parse_number(what, digits, 0, &n, NULL) || n > UINT64_MAX >> shift)
    return pd_error_set(err, PD_INVALID, "%s: '%.60s' is not a size like 512, 64K, 300M or 4G", what, text);
  *out = n << shift;
  return PD_OK;
}

pd_code args_parse_seconds(const char *what, const char *text, uint64_t *out, pd_error *err)
{
  static const struct {
    const char *unit;
    uint64_t seconds;
  } units[] = {{"", 1}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  char digits[16] = "";
  size_t size = strspn(text, "0123456789"), i = 0;
  if (size && size < 10) snprintf(digits, sizeof digits, "%.*s", (int)size, text);
  while (i < COUNT_OF(units) && strcmp(units[i].unit, text + size) != 0) i++;
  uint64_t number = 0;
  if (i == COUNT_OF(units) || !*digits || args_parse_number(what, digits, 0, &number, NULL))
    return pd_error_set(err, PD_INVALID, "%s is a time as 90s, 15min, 12h or 30d, not '%.60s'", what, text);
  *out = number * units[i].seconds;
  return PD_OK;
}

pd_code args_number(const args_parsed *args, const char *name, uint64_t least, uint64_t *out, pd_error *err)
{
  const char *text = args_get(args, name);
  char what[WORD_SIZE_MAX + 8];
  if (!text) return PD_OK;
  snprintf(what, sizeof what, "--%s", name);
  return args_parse_number(what, text, least, out, err);
}
