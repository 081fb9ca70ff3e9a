/*
 * main.c: the front door of the perdure binary: the table of commands, the options that all of them share, and the one way in
 * and out: parse, run, flush, close, tell.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/distance.h"
#include "base/error.h"
#include "commands.h"
#include "far.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const cli_command cmd_help, cmd_version;

static const cli_command *const commands[] = {
  /* one a line, so that two who add one do not meet */
  /* clang-format off */
  &cmd_put,
  &cmd_get,
  &cmd_del,
  &cmd_has,
  &cmd_ls,
  &cmd_batch,
  &cmd_log,
  &cmd_history,
  &cmd_show,
  &cmd_diff,
  &cmd_undo,
  &cmd_redo,
  &cmd_reset,
  &cmd_fork,
  &cmd_refs,
  &cmd_switch,
  &cmd_export,
  &cmd_import,
  &cmd_clone,
  &cmd_push,
  &cmd_pull,
  &cmd_call,
  &cmd_capabilities,
  &cmd_session,
  &cmd_persistent,
  &cmd_shared,
  &cmd_queue,
  &cmd_thread,
  &cmd_mailbox,
  &cmd_briefing,
  &cmd_snapshot,
  &cmd_alerts,
  &cmd_folders,
  &cmd_work,
  &cmd_statestore,
  &cmd_health,
  &cmd_mcp,
  &cmd_init,
  &cmd_run,
  &cmd_agents,
  &cmd_agent,
  &cmd_stats,
  &cmd_du,
  &cmd_verify,
  &cmd_gc,
  &cmd_erase,
  &cmd_doctor,
  &cmd_repair,
  &cmd_version,
  &cmd_help,
  &cmd_prove,
  &cmd_check_proof,
  &cmd_keygen,
  &cmd_sign,
  &cmd_merge,
  &cmd_cherry_pick,
  &cmd_revert,
  &cmd_settings,
  &cmd_config,
  &cmd_tag,
  &cmd_pin,
  &cmd_link,
  &cmd_resolve,
  &cmd_messages,
  &cmd_blame,
  &cmd_bisect,
  &cmd_watch,
  &cmd_approvals,
  &cmd_audit,
  &cmd_policy,
  &cmd_vault,
  &cmd_backup,
  &cmd_serve,
  &cmd_token,
  &cmd_man,
  &cmd_complete,
  NULL,
  /* clang-format on */
};

static const args_option global_options[] = {
  {"store", 0, "URI", "sqlite:FOLDER, a plain FOLDER, or memory: (PERDURE_STORE; default sqlite:./.perdure)"},
  {"agent", 0, "NAME", "whose state (PERDURE_AGENT; default main)"},
  {"server", 0, "URL", "work against a server: http://HOST:PORT, https://HOST:PORT or unix:/PATH (PERDURE_SERVER)"},
  {"token-file", 0, "FILE", "the token for it, in a file that only you may read (PERDURE_TOKEN: the token itself)"},
  {"insecure-http", 0, NULL, "send tokens over http to other machines, too, where others can read them"},
  {"ca", 0, "FILE", "certificates to check an https server with, instead of the system's (PERDURE_CA)"},
  {"json", 0, NULL, "JSON on standard output, and errors as JSON on standard error"},
  {"quiet", 'q', NULL, "no talk on standard error, but errors"},
  {"no-pager", 0, NULL, "never page long output"},
  {"no-color", 0, NULL, "no colours, also on a terminal (NO_COLOR)"},
  {"help", 'h', NULL, "help, for the command if one is given"},
  {"version", 'V', NULL, "the version of perdure"},
  {0},
};

const cli_command *const *cli_commands(void)
{
  return commands;
}

const args_option *cli_global_options(void)
{
  return global_options;
}

static const cli_command *find_command(const char *name)
{
  for (size_t i = 0; commands[i]; i++)
    if (strcmp(commands[i]->spec.name, name) == 0) return commands[i];
  return NULL;
}

static const args_spec *find_spec(const char *name)
{
  const cli_command *command = find_command(name);
  return command ? &command->spec : NULL;
}

/* The command most like `name`; other tools' words first. */
static const char *near_command(const char *name)
{
  static const char *const words[][2] = {{"set", "put"},         {"delete", "del"},   {"rm", "del"},      {"remove", "del"},
                                         {"list", "ls"},         {"keys", "ls"},      {"branch", "fork"}, {"branches", "refs"},
                                         {"checkout", "switch"}, {"status", "stats"}, {"fsck", "verify"}, {"exists", "has"},
                                         {"read", "get"},        {"cat", "get"},      {"write", "put"}};
  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (strcmp(words[i][0], name) == 0) return words[i][1];
  const char *best = NULL;
  unsigned best_distance = 3;
  for (size_t i = 0; commands[i]; i++) {
    if (strcmp(commands[i]->group, CLI_HIDDEN) == 0) continue;
    unsigned distance = pd_text_distance(name, commands[i]->spec.name);
    if (distance < best_distance && distance < strlen(name)) best = commands[i]->spec.name, best_distance = distance;
  }
  return best;
}

static pd_code run_version(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  if (!cli->is_json) {
    out_printf(&cli->out, "perdure %s\n", pd_version());
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "version", pd_version());
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static const cli_command cmd_version = {
  .spec = {"version", NULL, 0, 0, false},
  .group = "care",
  .summary = "Print the version of perdure",
  .usage = "",
  .about = "Prints the version of the program and its library.",
  .example = "$ perdure version",
  .run = run_version,
};

static pd_code run_help(cli_session *cli, const args_parsed *args, pd_error *err)
{
  if (!args->word_count) {
    cli_help_all(cli, commands, global_options);
    return PD_OK;
  }
  const cli_command *command = find_command(args->words[0]);
  if (command) {
    cli_help_command(cli, command);
  } else if (strcmp(args->words[0], "at") == 0) {
    cli_help_at(cli);
  } else {
    const char *near = near_command(args->words[0]);
    if (near) snprintf(cli->hint, sizeof cli->hint, "did you mean '%s'?", near);
    return pd_error_set(err, PD_INVALID, "there is no command '%s'", args->words[0]);
  }
  return PD_OK;
}

static const cli_command cmd_help = {
  .spec = {"help", NULL, 0, 1, false},
  .group = "care",
  .summary = "Explain a command, or how to name points in history",
  .usage = "[COMMAND|at]",
  .about = "Lists the commands, or explains one; `help at` explains how points in history are named.",
  .example = "$ perdure help put\n$ perdure help at",
  .run = run_help,
};

/* A closed standard stream would be reused for a database file, and then be written to. What takes its place can neither be read
 * (standard input) nor written (the others), so that using it is an error and not a silent nothing. */
static void guard_streams(void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) abort();
}

static const char *setting(const args_parsed *args, const char *option, const char *variable, const char *otherwise)
{
  const char *value = args_get(args, option);
  if (value) return value;
  value = getenv(variable);
  return value && *value ? value : otherwise;
}

bool cli_has_scheme(const char *uri)
{
  size_t size = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
  return size && uri[size] == ':' && uri[0] != '.';
}

static pd_code choose_store(cli_session *cli, const cli_command *command, const args_parsed *args, char **out_owned, pd_error *err)
{
  cli->agent = setting(args, "agent", "PERDURE_AGENT", "main");
  cli->uri = setting(args, "store", "PERDURE_STORE", "sqlite:./.perdure");
  cli->has_agent = args_get(args, "agent") || (getenv("PERDURE_AGENT") && *getenv("PERDURE_AGENT"));
  if (!*cli->uri) return pd_error_set(err, PD_INVALID, "--store is empty");
  TRY(pd_agent_check(cli->agent, err));
  TRY(far_setup(cli, command, args, err));
  if (cli_has_scheme(cli->uri)) return PD_OK;
  if (asprintf(out_owned, "sqlite:%s", cli->uri) < 0) return pd_error_memory(err, "the store's name");
  cli->uri = *out_owned;
  return PD_OK;
}

/* What helps against a NotFound of this command; NULL: what the code itself says. */
static const char *not_found_hint(const cli_command *command)
{
  static const char *const hints[][2] = {
    {"agent", "agents with a snapshot are listed by: perdure agents"},
    {"statestore", "its keys are listed by: perdure statestore list"},
    {"resolve", "messages are listed by: perdure messages"},
    {"vault", "make one with: perdure vault init"},
  };
  static const char *const groups[] = {"state", "history", "branches", "bundles"}; /* they work with keys and refs */
  for (size_t i = 0; i < COUNT_OF(hints); i++)
    if (strcmp(command->spec.name, hints[i][0]) == 0) return hints[i][1];
  for (size_t i = 0; i < COUNT_OF(groups); i++)
    if (strcmp(command->group, groups[i]) == 0) return "keys are listed by `perdure ls`, refs by `perdure refs`";
  return NULL;
}

static pd_code dispatch(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const cli_command *command = args->spec ? find_command(args->spec->name) : NULL;
  CLEANUP(pd_free_at) char *owned_uri = NULL;
  if (args_get_global(args, "version")) return run_version(cli, args, err);
  if (command && args_get(args, "help")) {
    cli_help_command(cli, command);
    return PD_OK;
  }
  if (!command && args_get(args, "help")) return run_help(cli, args, err);
  if (!command) {
    snprintf(cli->hint, sizeof cli->hint, "the commands are listed by: perdure help");
    return pd_error_set(err, PD_INVALID, "no command given");
  }
  snprintf(cli->hint, sizeof cli->hint, "usage: perdure %s %s", command->spec.name, command->usage);
  TRY(args_check_words(args, err));
  cli->hint[0] = 0;
  TRY(choose_store(cli, command, args, &owned_uri, err));
  pd_code code = command->run(cli, args, err);
  const char *hint = code == PD_NOT_FOUND && !*cli->hint ? not_found_hint(command) : NULL;
  if (hint) snprintf(cli->hint, sizeof cli->hint, "%s", hint);
  if (code == PD_DENIED && cli->is_remote) far_explain(cli, args, cli->uri);
  if (code != PD_OK && cli->is_json) cli->out.buf.size = 0; /* half a document helps nobody */
  out_flush(&cli->out);
  /* `stats` and `doctor` tell of trouble; who sets one setting may be about to set another */
  if (code == PD_OK && cli->store && command != &cmd_settings) (void)!pd_gc_auto(cli->store, NULL, NULL, NULL);
  pd_code closed = pd_store_close(cli->store, code == PD_OK ? err : NULL);
  return code == PD_OK ? closed : code;
}

/* A reader that went away is told to the shell in the usual way, not to the person. */
static void leave_quietly(void)
{
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
}

int main(int argc, char **argv)
{
  guard_streams();
  signal(SIGPIPE, SIG_IGN);
  pd_error err = {0};
  const char **words = calloc((size_t)argc + 1, sizeof *words);
  args_parsed args = {.words = words};
  cli_session cli = {.uri = "", .agent = ""};
  pd_code code = words ? args_parse(argc, argv, global_options, find_spec, near_command, &args, &err) : pd_error_memory(&err, "arguments");
  args.global = global_options;
  cli.is_json = args_get(&args, "json") != NULL;
  cli.is_quiet = args_get(&args, "quiet") != NULL;
  cli.has_pager = !cli.is_json && !args_get(&args, "no-pager");
  out_init(&cli.out, !args_get(&args, "no-color"));
  if (code == PD_OK)
    code = dispatch(&cli, &args, &err);
  else
    snprintf(cli.hint, sizeof cli.hint, "%s", args.hint);
  bool is_reader_gone = cli.out.failed_errno == EPIPE && !cli.out.pager;
  pd_code finished = out_finish(&cli.out, code == PD_OK ? &err : NULL);
  is_reader_gone = is_reader_gone || (cli.out.failed_errno == EPIPE && !cli.out.pager);
  if (code == PD_OK && finished != PD_OK) cli.exit_code = 0, code = finished;
  int exit_code = code == PD_OK ? cli.exit_code : cli_fail(&cli, &err);
  free(words);
  if (code == PD_OK && is_reader_gone) leave_quietly();
  return exit_code;
}
