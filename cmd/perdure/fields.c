/* fields.c: see fields.h. */
#include "fields.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>

#define NAME_SIZE 64

/* ---- inputs ---- */

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

/* Text that may be JSON: as JSON if it is, else as a string. */
static pd_code write_any(pd_json_writer *w, const char *text, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf read = {0};
  pd_bytes bytes = pd_text(text);
  pd_json json;
  if (strcmp(text, "-") == 0 || text[0] == '@') {
    TRY(cli_value_read(text, &read, err));
    bytes = pd_buf_bytes(&read);
  }
  if (pd_json_parse(bytes, &json, NULL) == PD_OK)
    pd_json_value(w, json);
  else
    pd_json_text(w, bytes);
  return w->code;
}

static pd_code write_field(pd_json_writer *w, pd_json schema, const char *name, const char *text, pd_error *err)
{
  pd_json type = pd_json_member(schema, "type"), json;
  pd_json_key(w, name);
  if (!text) text = "true"; /* --flag */
  if (pd_json_is(type, "string")) {
    if (!pd_utf8_check(pd_text(text))) return pd_error_set(err, PD_INVALID, "--%s is not UTF-8", name);
    pd_json_text(w, pd_text(text));
  } else if (type.kind != PD_JSON_STRING) {
    return write_any(w, text, err);
  } else if (pd_json_parse(pd_text(text), &json, NULL) == PD_OK) {
    pd_json_value(w, json);
  } else {
    pd_json_text(w, pd_text(text)); /* of the wrong type: the door says so, and how it should be */
  }
  return w->code;
}

static pd_code write_option(pd_json_writer *w, pd_json properties, const char *capability, const args_field *field, pd_error *err)
{
  char name[NAME_SIZE], known[200];
  snprintf(name, sizeof name, "%.*s", (int)field->name_size, field->name);
  for (char *at = name; *at; at++)
    if (*at == '-') *at = '_';
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
    TRY(write_field(&w, schema_of(properties, names[i - 1]), names[i - 1], args->words[i], err));
  }
  for (size_t i = 0; i < args->field_count; i++) TRY(write_option(&w, properties, capability, &args->fields[i], err));
  pd_json_close(&w, '}');
  return w.code;
}

/* ---- answers ---- */

static void print_scalar(cli_session *cli, pd_json value)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (value.kind == PD_JSON_STRING && pd_json_decode(value, &text, NULL) == PD_OK)
    out_safe(&cli->out, pd_buf_bytes(&text));
  else
    out_safe(&cli->out, value.raw);
}

static void print_row(cli_session *cli, pd_json item)
{
  pd_json key, value;
  bool is_first = true;
  if (item.kind != PD_JSON_OBJECT) {
    print_scalar(cli, item);
    out_text(&cli->out, "\n");
    return;
  }
  pd_json_walk walk = pd_json_walk_begin(item);
  for (; pd_json_walk_next(&walk, &key, &value); is_first = false) {
    if (!is_first) out_text(&cli->out, "\t");
    print_scalar(cli, value);
  }
  out_text(&cli->out, "\n");
}

/* The names of the columns, where a person looks. */
static void print_head(cli_session *cli, pd_json item)
{
  pd_json key;
  bool is_first = true;
  if (item.kind != PD_JSON_OBJECT || !cli->out.is_terminal) return;
  pd_json_walk walk = pd_json_walk_begin(item);
  out_set(&cli->out, OUT_DIM);
  for (; pd_json_walk_next(&walk, &key, NULL); is_first = false) {
    if (!is_first) out_text(&cli->out, "\t");
    print_scalar(cli, key);
  }
  out_set(&cli->out, OUT_PLAIN);
  out_text(&cli->out, "\n");
}

static void print_list(cli_session *cli, pd_json list)
{
  pd_json item;
  bool is_first = true;
  pd_json_walk walk = pd_json_walk_begin(list);
  for (; pd_json_walk_next(&walk, NULL, &item); is_first = false) {
    if (is_first) print_head(cli, item);
    print_row(cli, item);
  }
}

/* The one array among the members; PD_JSON_NONE if there is none, or there are several. */
static pd_json only_list(pd_json answer)
{
  pd_json value, found = {0};
  pd_json_walk walk = pd_json_walk_begin(answer);
  while (pd_json_walk_next(&walk, NULL, &value)) {
    if (value.kind != PD_JSON_ARRAY) continue;
    if (found.kind != PD_JSON_NONE) return (pd_json){0};
    found = value;
  }
  return found;
}

pd_code answer_print(cli_session *cli, pd_bytes answer, pd_error *err)
{
  pd_json json, key, value;
  if (cli->is_json) {
    out_bytes(&cli->out, answer);
    out_text(&cli->out, "\n");
  }
  TRY(pd_json_parse(answer, &json, err));
  pd_json found = pd_json_member(json, "found"), stored = pd_json_member(json, "value"), list = only_list(json);
  if (found.kind == PD_JSON_BOOL && !pd_json_true(found)) cli->exit_code = CLI_EXIT_NEGATIVE;
  pd_json deleted = pd_json_member(json, "deleted");
  if (deleted.kind == PD_JSON_BOOL && !pd_json_true(deleted)) cli->exit_code = CLI_EXIT_NEGATIVE;
  if (cli->is_json) return PD_OK;
  if (found.kind == PD_JSON_BOOL && stored.kind != PD_JSON_NONE) {
    if (cli->exit_code)
      cli_say(cli, "there is no such key");
    else
      out_bytes(&cli->out, stored.raw), out_text(&cli->out, "\n");
    return PD_OK;
  }
  if (list.kind == PD_JSON_ARRAY) {
    print_list(cli, list);
    return PD_OK;
  }
  pd_json summary = pd_json_member(pd_json_member(json, "briefing"), "summary");
  if (summary.kind == PD_JSON_STRING) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    TRY(pd_json_decode(summary, &text, err));
    out_bytes(&cli->out, pd_buf_bytes(&text));
    out_text(&cli->out, "\n");
    return PD_OK;
  }
  pd_json_walk walk = pd_json_walk_begin(json);
  while (pd_json_walk_next(&walk, &key, &value)) {
    print_scalar(cli, key);
    out_text(&cli->out, ": ");
    print_scalar(cli, value);
    out_text(&cli->out, "\n");
  }
  return PD_OK;
}

pd_code answer_print_only(cli_session *cli, pd_bytes answer, const char *member, pd_error *err)
{
  pd_json json;
  TRY(pd_json_parse(answer, &json, err));
  print_scalar(cli, pd_json_member(json, member));
  out_text(&cli->out, "\n");
  return PD_OK;
}

pd_code answer_failed(cli_session *cli, const pd_buf *answer, pd_code code, pd_error *err)
{
  pd_json json;
  if (pd_json_parse(pd_buf_bytes(answer), &json, NULL)) return code;
  pd_json error = pd_json_member(json, "error"), recovery;
  if (error.kind != PD_JSON_OBJECT) return code;
  if (cli->is_json) cli->told = true, fprintf(stderr, "%.*s\n", (int)answer->size, (const char *)answer->data);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(error, "recovery"));
  CLEANUP(pd_buf_done) pd_buf hint = {0};
  pd_json approval = pd_json_member(pd_json_member(error, "details"), "approval_id");
  if (approval.kind == PD_JSON_STRING)
    snprintf(cli->hint, sizeof cli->hint, "perdure approvals approve %.*s, then the same call again", (int)approval.raw.size - 2,
             (const char *)approval.raw.data + 1);
  else if (pd_json_walk_next(&walk, NULL, &recovery) && pd_json_decode(pd_json_member(recovery, "hint"), &hint, NULL) == PD_OK)
    snprintf(cli->hint, sizeof cli->hint, "%.*s", (int)hint.size, (const char *)hint.data);
  (void)err;
  return code;
}
