/* help.c: the help texts, made from the table of commands. */
#include "cli.h"

static const struct {
  const char *group, *title;
} groups[] = {
  {"state", "Read and write"},
  {"history", "History"},
  {"branches", "Branches"},
  {"agents", "Agents: capabilities, sessions, sharing"},
  {"bundles", "Bundles and other homes"},
  {"care", "Care"},
  {"operator", "For the operator"},
};

bool cli_group(size_t index, const char **out_group, const char **out_title)
{
  if (index >= sizeof groups / sizeof groups[0]) return false;
  *out_group = groups[index].group;
  *out_title = groups[index].title;
  return true;
}

static void print_options(out_stream *o, const args_option *options)
{
  for (; options && options->name; options++) {
    char letter[5] = {'-', options->letter, ',', ' ', 0};
    out_printf(o, "  %s--%s%s%s", options->letter ? letter : "    ", options->name, options->param ? " " : "",
               options->param ? options->param : "");
    size_t width = 2 + 4 + 2 + strlen(options->name) + (options->param ? 1 + strlen(options->param) : 0);
    out_printf(o, "%*s%s\n", width < 26 ? (int)(26 - width) : 2, "", options->help);
  }
}

void cli_help_all(cli_session *cli, const cli_command *const *commands, const args_option *global)
{
  out_stream *o = &cli->out;
  out_text(o, "perdure: the state engine for AI agents; every version of an agent's state, in one history\n\n"
              "usage: perdure [--store URI] [--agent NAME] [--json] COMMAND …\n");
  for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
    out_printf(o, "\n%s\n", groups[g].title);
    for (size_t i = 0; commands[i]; i++)
      if (strcmp(commands[i]->group, groups[g].group) == 0) out_printf(o, "  %-10s %s\n", commands[i]->spec.name, commands[i]->summary);
  }
  out_text(o, "\nOptions for all commands\n");
  print_options(o, global);
  out_text(o, "\nExit codes: 0 ok, 1 not found or differs, 2 usage, 3 conflict, 4 storage or corruption, 5 quota or limit,\n"
              "6 the operator is asked: to approve, unlock or permit.\n"
              "More: perdure help COMMAND, perdure help at (points in history), man perdure.\n");
}

void cli_help_command(cli_session *cli, const cli_command *command)
{
  out_stream *o = &cli->out;
  bool has_options = command->spec.options && command->spec.options->name;
  out_printf(o, "%s: %s\n\n", command->spec.name, command->summary);
  out_printf(o, "usage: perdure %s%s%s%s\n\n", command->spec.name, has_options ? " [OPTIONS]" : "", *command->usage ? " " : "",
             command->usage);
  out_printf(o, "%s\n", command->about);
  if (has_options) out_text(o, "\nOptions\n");
  print_options(o, command->spec.options);
  out_printf(o, "\nExample%s\n", strstr(command->example, "\n$ ") ? "s" : "");
  for (const char *line = command->example; *line;) {
    size_t size = strcspn(line, "\n");
    out_printf(o, "  %.*s\n", (int)size, line);
    line += size + (line[size] == '\n');
  }
}

void cli_help_at(cli_session *cli)
{
  out_text(&cli->out, "Points in history, wherever a command takes X, A, B or --at X:\n\n"
                      "  main              the head of a ref (nothing: of the current one)\n"
                      "  release-3         a tag; a ref of that name wins\n"
                      "  message:ID        the commit that a message is linked to\n"
                      "  3f2a9c1b…         a commit, by its id or the first 4 or more digits of it\n"
                      "  X~3               three commits before X; X~ is X~1\n"
                      "  @TIME, main@TIME  the head of the ref as it was at that time: 2026-11-15,\n"
                      "                    2026-11-15T10:20:30Z (or +01:00; UTC if none), milliseconds since 1970\n"
                      "  #17               the commit that record 17 of the log made\n"
                      "  root              the empty commit that every history begins with\n");
}
