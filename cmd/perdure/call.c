/* call.c: `call` any capability, and `capabilities` to see what there is. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "door.h"
#include "fields.h"

#include <stdio.h>

/* ---- call ---- */

static pd_code read_input(const char *capability, const args_parsed *args, pd_buf *out, pd_error *err)
{
  if (args->word_count < 2) return fields_write(capability, NULL, args, out, err);
  if (args->field_count) return pd_error_set(err, PD_INVALID, "give the input as JSON or as fields, not both");
  const char *text = args->words[1];
  if (strcmp(text, "-") == 0 || text[0] == '@') return cli_value_read(text, out, err);
  return pd_buf_append(out, text, strlen(text), err);
}

static pd_code run_call(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0}, out = {0};
  pd_capability_info info;
  const char *name = args->words[0];
  pd_code code = pd_capability_find(name, &info, err);
  if (code) {
    cli->exit_code = CLI_EXIT_USAGE;
    snprintf(cli->hint, sizeof cli->hint, "the capabilities are listed by: perdure capabilities");
    return code;
  }
  TRY(read_input(name, args, &input, err));
  code = door_call(cli, args, name, pd_buf_bytes(&input), &out, err);
  if (code) return answer_failed(cli, &out, code);
  out_bytes(&cli->out, pd_buf_bytes(&out)); /* what a capability answers is JSON, with --json or without */
  out_text(&cli->out, "\n");
  return PD_OK;
}

static bool has_field(const args_parsed *args, const char *name, size_t name_size)
{
  return fields_has(args->words[0], name, name_size);
}

static const args_option call_options[] = {CLI_DOOR_OPTIONS, {0}};

const cli_command cmd_call = {
  .spec = {"call", call_options, 1, 2, true, has_field},
  .group = "agents",
  .summary = "Call a capability",
  .usage = "CAPABILITY [JSON|-|@FILE | --FIELD VALUE…]",
  .about = "Calls a capability with its input as JSON, or field by field (--expected-version 3).\n"
           "Prints the capability's answer as JSON. After the capability's name, an option that is\n"
           "one of its fields is the field (--store shared, --agent bob); before `call` it is the\n"
           "option of all commands. Exit code 6: an operator has to approve or unlock.",
  .example = "$ perdure call state.persistent.set '{\"key\":\"plan\",\"value\":{\"step\":1}}'\n"
             "$ perdure call state.persistent.get --key plan",
  .run = run_call,
};

/* ---- capabilities ---- */

static pd_code list_all(cli_session *cli, pd_error *err)
{
  pd_capability_info info;
  if (cli->is_json) {
    pd_json_writer w = cli_json(cli, err);
    pd_json_open(&w, '[');
    for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
      pd_json document;
      TRY(pd_json_parse(pd_text(info.document), &document, err));
      pd_json_value(&w, document);
    }
    pd_json_close(&w, ']');
    return cli_json_end(cli, &w);
  }
  cli->out.wants_pager = cli->has_pager;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    out_set(&cli->out, OUT_NAME);
    out_printf(&cli->out, "%-26s", info.name);
    out_set(&cli->out, OUT_PLAIN);
    out_printf(&cli->out, " %-10s %s\n", pd_permission_name(info.permission), info.summary);
  }
  return PD_OK;
}

static void show_text(cli_session *cli, pd_json object, const char *member)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_json_decode(pd_json_member(object, member), &text, NULL) == PD_OK) out_safe(&cli->out, pd_buf_bytes(&text));
}

static void show_properties(cli_session *cli, const char *title, pd_json schema)
{
  pd_json key, value, required = pd_json_member(schema, "required"), item;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(schema, "properties"));
  out_printf(&cli->out, "\n%s:\n", title);
  while (pd_json_walk_next(&walk, &key, &value)) {
    bool is_required = false;
    pd_json_walk list = pd_json_walk_begin(required);
    while (pd_json_walk_next(&list, NULL, &item)) is_required = is_required || pd_bytes_equal(item.raw, key.raw);
    out_printf(&cli->out, "  %-18.*s ", (int)key.raw.size - 2, (const char *)key.raw.data + 1);
    if (pd_json_member(value, "type").kind == PD_JSON_STRING)
      show_text(cli, value, "type");
    else
      out_text(&cli->out, "any JSON");
    out_text(&cli->out, is_required ? ", required: " : ": ");
    show_text(cli, value, "description");
    out_text(&cli->out, "\n");
  }
}

static void show_errors(cli_session *cli, pd_json errors)
{
  pd_json error, recovery;
  pd_json_walk walk = pd_json_walk_begin(errors);
  if (errors.raw.size > 2) out_text(&cli->out, "\nErrors:\n");
  while (pd_json_walk_next(&walk, NULL, &error)) {
    out_text(&cli->out, "  ");
    show_text(cli, error, "code");
    out_text(&cli->out, ": ");
    show_text(cli, error, "description");
    out_text(&cli->out, "\n");
    pd_json_walk inner = pd_json_walk_begin(pd_json_member(error, "recovery"));
    while (pd_json_walk_next(&inner, NULL, &recovery)) {
      out_text(&cli->out, "    ");
      show_text(cli, recovery, "action");
      out_text(&cli->out, ": ");
      show_text(cli, recovery, "hint");
      out_text(&cli->out, "\n");
    }
  }
}

static void show_examples(cli_session *cli, const char *name, pd_json examples)
{
  pd_json example;
  pd_json_walk walk = pd_json_walk_begin(examples);
  out_text(&cli->out, "\nExamples:\n");
  while (pd_json_walk_next(&walk, NULL, &example)) {
    pd_json input = pd_json_member(example, "input");
    out_text(&cli->out, "  ");
    show_text(cli, example, "title");
    out_printf(&cli->out, "\n    $ perdure call %s", name);
    if (input.raw.size > 2) out_printf(&cli->out, " '%.*s'", (int)input.raw.size, (const char *)input.raw.data);
    out_text(&cli->out, "\n");
  }
}

static pd_code run_capabilities(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_capability_info info;
  pd_json document;
  if (!args->word_count) return list_all(cli, err);
  snprintf(cli->hint, sizeof cli->hint, "the capabilities are listed by: perdure capabilities");
  TRY(pd_capability_find(args->words[0], &info, err));
  if (cli->is_json) {
    out_printf(&cli->out, "%s\n", info.document);
    return PD_OK;
  }
  TRY(pd_json_parse(pd_text(info.document), &document, err));
  out_set(&cli->out, OUT_NAME);
  out_text(&cli->out, info.name);
  out_set(&cli->out, OUT_PLAIN);
  out_printf(&cli->out, " (%s, version %s)\n%s\n\n", pd_permission_name(info.permission), info.version, info.summary);
  show_text(cli, document, "when_to_use");
  out_text(&cli->out, "\n");
  show_properties(cli, "Inputs", pd_json_member(document, "inputs"));
  show_properties(cli, "Outputs", pd_json_member(document, "outputs"));
  show_errors(cli, pd_json_member(document, "errors"));
  show_examples(cli, info.name, pd_json_member(document, "examples"));
  return PD_OK;
}

const cli_command cmd_capabilities = {
  .spec = {"capabilities", NULL, 0, 1, false},
  .group = "agents",
  .summary = "List what an agent may do, or explain one of it",
  .usage = "[CAPABILITY]",
  .about = "Lists the capabilities with their permission, or explains one: inputs, outputs,\n"
           "errors and what to do about them, examples. With --json, their whole description.",
  .example = "$ perdure capabilities\n$ perdure capabilities state.shared.set",
  .run = run_capabilities,
};
