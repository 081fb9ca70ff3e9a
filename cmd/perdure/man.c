/*
 * man.c: the manual of the commands, made from their table as scdoc source, so that `help` and `man` cannot disagree. tools/man asks
 * for it (`perdure __man …`) when the house is built; people never see it.
 */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"

#include <stdlib.h>

/* Text with what scdoc would read as markup escaped. */
static void put_text(out_stream *o, const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    bool is_line_start = i == 0 || text[i - 1] == '\n';
    bool is_markup = strchr("\\*_+`", text[i]) || (is_line_start && strchr(";#-[|].", text[i]));
    if (text[i] && is_markup) out_text(o, "\\");
    out_bytes(o, (pd_bytes){text + i, 1});
  }
}

/* Lines as they are: in a literal block only the backslash has a meaning. */
static void put_literal(out_stream *o, const char *text, size_t size)
{
  out_text(o, "```\n");
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '\\') out_text(o, "\\");
    out_bytes(o, (pd_bytes){text + i, 1});
  }
  out_text(o, "\n```\n\n");
}

/* A paragraph; one with indented lines is a table made by hand, and stays as it is. */
static void put_paragraph(out_stream *o, const char *text, size_t size)
{
  bool is_literal = size && text[0] == ' ';
  for (size_t i = 0; i + 1 < size; i++) is_literal = is_literal || (text[i] == '\n' && text[i + 1] == ' ');
  if (is_literal) {
    put_literal(o, text, size);
    return;
  }
  put_text(o, text, size);
  out_text(o, "\n\n");
}

static void put_about(out_stream *o, const char *about)
{
  while (*about) {
    const char *end = strstr(about, "\n\n");
    size_t size = end ? (size_t)(end - about) : strlen(about);
    while (size && about[size - 1] == '\n') size--;
    put_paragraph(o, about, size);
    about = end ? end + 2 : about + strlen(about);
  }
}

static void put_options(out_stream *o, const args_option *options)
{
  for (; options && options->name; options++) {
    if (options->letter) out_printf(o, "*-%c*, ", options->letter);
    out_printf(o, "*--%s*", options->name);
    if (options->param) out_printf(o, " _%s_", options->param);
    out_text(o, "\n\t");
    put_text(o, options->help, strlen(options->help));
    out_text(o, "\n\n");
  }
}

static void put_setting(void *ctx, const pd_config_info *info)
{
  out_stream *o = ctx;
  out_printf(o, "*%s*", info->name);
  if (*info->value) out_printf(o, " (%s)", info->value);
  out_text(o, "\n\t");
  put_text(o, info->about, strlen(info->about));
  out_text(o, ". Change it when ");
  put_text(o, info->when, strlen(info->when));
  out_text(o, ".\n\n");
}

/* A row of the table in docs/guide/configuration.md; a | in it would end a cell. */
static void put_row(void *ctx, const pd_config_info *info)
{
  out_stream *o = ctx;
  const char *texts[] = {info->about, info->when};
  out_printf(o, "| `%s` | %s |", info->name, *info->value ? info->value : "-");
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    out_text(o, " ");
    for (const char *at = texts[i]; *at; at++) out_printf(o, *at == '|' ? "\\%c" : "%c", *at);
    out_text(o, " |");
  }
  out_text(o, "\n");
}

static void put_former_row(void *ctx, const char *name, const char *now)
{
  out_printf(ctx, "| `%s` | %s |\n", name, now);
}

static pd_code put_settings(out_stream *o, pd_error *err)
{
  out_text(o, "| setting | default | what it is | change it when |\n|---|---|---|---|\n");
  return pd_config_each(NULL, put_row, o, err);
}

static void put_former(out_stream *o)
{
  out_text(o, "| was a setting | is now |\n|---|---|\n");
  pd_config_each_former(put_former_row, o);
}

static pd_code put_command(out_stream *o, const cli_command *command, pd_error *err)
{
  bool has_options = command->spec.options && command->spec.options->name;
  out_printf(o, "perdure-%s(1)\n\n# NAME\n\nperdure-%s - ", command->spec.name, command->spec.name);
  put_text(o, command->summary, strlen(command->summary));
  out_printf(o, "\n\n# SYNOPSIS\n\n*perdure %s*%s ", command->spec.name, has_options ? " [OPTIONS]" : "");
  put_text(o, command->usage, strlen(command->usage));
  out_text(o, "\n\n# DESCRIPTION\n\n");
  put_about(o, command->about);
  if (has_options) out_text(o, "# OPTIONS\n\n");
  put_options(o, command->spec.options);
  if (command == &cmd_config) {
    out_text(o, "# SETTINGS\n\n");
    TRY(pd_config_each(NULL, put_setting, o, err));
  }
  out_text(o, "The options that all commands share, how points in history are named, and the exit codes are in *perdure*(1).\n\n");
  out_text(o, "# EXAMPLES\n\n");
  put_literal(o, command->example, strlen(command->example));
  out_text(o, "# SEE ALSO\n\n*perdure*(1)\n");
  return PD_OK;
}

/* The list of commands in the overview: one heading a group. */
static void put_commands(out_stream *o)
{
  const cli_command *const *commands = cli_commands();
  const char *group, *title;
  for (size_t g = 0; cli_group(g, &group, &title); g++) {
    out_printf(o, "## %s\n\n", title);
    for (size_t i = 0; commands[i]; i++) {
      if (strcmp(commands[i]->group, group) != 0) continue;
      out_printf(o, "*perdure-%s*(1)\n\t", commands[i]->spec.name);
      put_text(o, commands[i]->summary, strlen(commands[i]->summary));
      out_text(o, "\n\n");
    }
  }
}

static pd_code run_man(cli_session *cli, const args_parsed *args, pd_error *err)
{
  out_stream *o = &cli->out;
  const cli_command *const *commands = cli_commands();
  const char *what = args->words[0];
  clearenv(); /* settings are shown as they are by default */
  if (strcmp(what, "commands") == 0) {
    put_commands(o);
    return PD_OK;
  }
  if (strcmp(what, "options") == 0) {
    put_options(o, cli_global_options());
    return PD_OK;
  }
  if (strcmp(what, "at") == 0) {
    out_text(o, "```\n");
    cli_help_at(cli);
    out_text(o, "```\n");
    return PD_OK;
  }
  if (strcmp(what, "settings") == 0) return put_settings(o, err);
  if (strcmp(what, "former") == 0) {
    put_former(o);
    return PD_OK;
  }
  bool wants_list = strcmp(what, "list") == 0;
  for (size_t i = 0; commands[i]; i++) {
    if (strcmp(commands[i]->group, CLI_HIDDEN) == 0) continue;
    if (wants_list)
      out_printf(o, "%s\n", commands[i]->spec.name);
    else if (args->word_count == 2 && strcmp(args->words[1], commands[i]->spec.name) == 0) {
      return put_command(o, commands[i], err);
    }
  }
  return wants_list ? PD_OK : pd_error_set(err, PD_INVALID, "there is no page '%s'", args->word_count == 2 ? args->words[1] : what);
}

const cli_command cmd_man = {
  .spec = {"__man", NULL, 1, 2, false},
  .group = CLI_HIDDEN,
  .summary = "Print manual pages as scdoc source",
  .usage = "list|commands|options|at|settings|former|command NAME",
  .about = "For tools/man.",
  .example = "$ perdure __man command put",
  .run = run_man,
};
