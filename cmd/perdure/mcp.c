/* mcp.c: `mcp`: the Model Context Protocol over standard input and output, and the lines that make a client use it. */
#include "wire/mcp.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "commands.h"
#include "door.h"
#include "passphrase.h"
#include "remote/bridge.h"
#include "wire/mcp_stdio.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- configuration of clients ---- */

typedef struct client {
  const char *name, *where;
  bool is_toml;
  const char *member; /* of the JSON */
  bool has_type;
} client;

static const client clients[] = {
  {"claude", "claude_desktop_config.json of Claude Desktop, or .mcp.json of a project for Claude Code", false, "mcpServers", false},
  {"cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of a project", false, "mcpServers", false},
  {"codex", "~/.codex/config.toml", true, NULL, false},
  {"vscode", ".vscode/mcp.json", false, "servers", true},
};

static pd_code absolute_path(const char *relative, pd_buf *out, pd_error *err)
{
  char path[PATH_MAX];
  if (realpath(relative, path)) return pd_buf_printf(out, err, "%s", path);
  if (relative[0] == '/') return pd_buf_printf(out, err, "%s", relative);
  if (!getcwd(path, sizeof path)) return pd_error_set(err, PD_STORAGE, "the current folder is not known: %s", strerror(errno));
  return pd_buf_printf(out, err, "%s/%s", path, strncmp(relative, "./", 2) == 0 ? relative + 2 : relative);
}

/* The home's URI as it is from everywhere. */
static pd_code absolute_uri(const cli_session *cli, pd_buf *out, pd_error *err)
{
  static const char *const schemes[] = {"sqlite:", "unix:"};
  for (size_t i = 0; i < COUNT_OF(schemes); i++) {
    size_t size = strlen(schemes[i]);
    if (strncmp(cli->uri, schemes[i], size) != 0) continue;
    TRY(pd_buf_printf(out, err, "%s", schemes[i]));
    return absolute_path(cli->uri + size, out, err);
  }
  return pd_buf_printf(out, err, "%s", cli->uri);
}

/* An option that takes a value; NULL: not given. */
static void write_option(pd_json_writer *w, const char *option, const char *value)
{
  if (!value) return;
  pd_json_text(w, pd_text(option));
  pd_json_text(w, pd_text(value));
}

/* One that names a file, which the client may look for from another folder. */
static void write_file_option(pd_json_writer *w, const char *option, const char *file)
{
  CLEANUP(pd_buf_done) pd_buf path = {0};
  if (!file || w->code) return;
  w->code = absolute_path(file, &path, w->err);
  if (w->code) return;
  pd_json_text(w, pd_text(option));
  pd_json_text(w, pd_buf_bytes(&path));
}

/* A token is never among them: only the file that has it. */
static void write_args(pd_json_writer *w, const cli_session *cli, const args_parsed *args, pd_bytes uri)
{
  pd_json_open(w, '[');
  pd_json_text(w, pd_text("mcp"));
  pd_json_text(w, pd_text(cli->is_remote ? "--server" : "--store"));
  pd_json_text(w, uri);
  if (!cli->is_remote || cli->has_agent) write_option(w, "--agent", cli->agent);
  if (cli->is_remote) write_file_option(w, "--token-file", args_get_global(args, "token-file"));
  if (cli->is_remote) write_file_option(w, "--ca", args_get_global(args, "ca"));
  if (cli->is_remote && args_get_global(args, "insecure-http")) pd_json_text(w, pd_text("--insecure-http"));
  write_option(w, "--tools", args_get(args, "tools"));
  if (args_get(args, "approvals")) pd_json_text(w, pd_text("--approvals"));
  if (args_get(args, "no-approvals")) pd_json_text(w, pd_text("--no-approvals"));
  write_option(w, "--passphrase-file", args_get(args, "passphrase-file"));
  pd_json_close(w, ']');
}

static pd_code print_config(cli_session *cli, const args_parsed *args, const client *c, pd_error *err)
{
  char program[PATH_MAX];
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
  snprintf(program + (size > 0 ? size : 0), sizeof program - (size_t)(size > 0 ? size : 0), "%s", size > 0 ? "" : "perdure");
  TRY(absolute_uri(cli, &uri, err));
  pd_json_writer w = cli_json(cli, err);
  if (c->is_toml) {
    out_text(&cli->out, "[mcp_servers.perdure]\ncommand = ");
    pd_json_text(&w, pd_text(program)); /* a JSON string is a basic string of TOML */
    out_text(&cli->out, "\nargs = ");
    w.needs_comma = false;
    write_args(&w, cli, args, pd_buf_bytes(&uri));
  } else {
    pd_json_open(&w, '{');
    pd_json_key(&w, c->member);
    pd_json_open(&w, '{');
    pd_json_key(&w, "perdure");
    pd_json_open(&w, '{');
    if (c->has_type) pd_json_put_text(&w, "type", "stdio");
    pd_json_put_text(&w, "command", program);
    pd_json_key(&w, "args");
    write_args(&w, cli, args, pd_buf_bytes(&uri));
    for (int i = 0; i < 3; i++) pd_json_close(&w, '}');
  }
  TRY(cli_json_end(cli, &w));
  cli_say(cli, "put this into %s", c->where);
  if (cli->is_remote && !args_get_global(args, "token-file"))
    cli_say(cli, "the server wants a token: set PERDURE_TOKEN in the client's environment, or name its file with --token-file");
  return PD_OK;
}

static pd_code find_client(cli_session *cli, const char *name, const client **out, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(clients); i++)
    if (strcmp(clients[i].name, name) == 0) {
      *out = &clients[i];
      return PD_OK;
    }
  cli->exit_code = CLI_EXIT_USAGE;
  return pd_error_set(err, PD_INVALID, "--print-config knows claude, cursor, codex and vscode, not '%s'", name);
}

/* ---- serving ---- */

typedef struct door {
  cli_session *cli;
  const args_parsed *args;
  bool is_unlocked; /* the vault, in this process */
} door;

/* The vault may be unlocked in the server of the home, and then backups work there alone; unless it is unlocked here. */
static pd_code call_through(void *ctx, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  door *d = ctx;
  bool is_of_vault = strncmp(capability, "state.backup.", 13) == 0 || strncmp(capability, "vault.", 6) == 0;
  pd_code code = PD_OK;
  if (is_of_vault && !d->is_unlocked &&
      door_call_server(d->cli, d->args, capability, input, who->progress, who->progress_ctx, out, &code, err))
    return code;
  return pd_call(who, capability, input, out, err);
}

/* With the passphrase from a file or credential: standard input is the client's. */
static pd_code unlock(const args_parsed *args, pd_home *home, bool *out_is_unlocked, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  if (!passphrase_is_given(args, "")) return PD_OK;
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  TRY(pd_vault_unlock(home, pass.text, err));
  *out_is_unlocked = true;
  return PD_OK;
}

static void take_approvals(void *ctx, const pd_config_info *info)
{
  if (strcmp(info->name, "mcp.approvals") == 0) *(bool *)ctx = info->number;
}

/* Does the client's form count as the operator's decision? Only if the operator said so: by the command line, or by mcp.approvals. */
static pd_code may_approve(const args_parsed *args, pd_home *home, bool *out, pd_error *err)
{
  *out = args_get(args, "approvals");
  if (*out && args_get(args, "no-approvals")) return pd_error_set(err, PD_INVALID, "--approvals and --no-approvals exclude each other");
  if (*out || args_get(args, "no-approvals")) return PD_OK;
  return pd_config_each(home, take_approvals, out, err);
}

static pd_code serve(cli_session *cli, const args_parsed *args, pd_home *home, pd_error *err)
{
  pd_mcp *mcp = NULL;
  door d = {cli, args, false};
  pd_mcp_options options = {.home = home, .uri = cli->uri, .tools = args_get(args, "tools")};
  pd_mcp_peer peer = {
    .agent = cli->agent,
    .gate = {.call = call_through, .ctx = &d},
  };
  TRY(may_approve(args, home, &peer.may_approve, err));
  TRY(unlock(args, home, &d.is_unlocked, err));
  TRY(pd_mcp_new(&options, &mcp, err));
  if (isatty(STDIN_FILENO)) cli_say(cli, "serving agent '%s' of %s: one JSON-RPC message a line, until end of file", cli->agent, cli->uri);
  pd_code code = pd_mcp_stdio(mcp, &peer, STDIN_FILENO, STDOUT_FILENO, err);
  pd_mcp_free(mcp);
  return code;
}

/* ---- a server's ---- */

/* What is asked of the server has to be said to the server. */
static pd_code check_bridge(cli_session *cli, const args_parsed *args, pd_error *err)
{
  static const struct {
    const char *option, *instead;
  } theirs[] = {{"tools", "--mcp-tools"},
                {"approvals", "--mcp-approvals"},
                {"no-approvals", "--no-mcp-approvals"},
                {"passphrase-file", "--passphrase-file"},
                {"passphrase-fd", "--passphrase-file"}};
  for (size_t i = 0; cli->is_remote && i < COUNT_OF(theirs); i++)
    if (args_get(args, theirs[i].option)) {
      snprintf(cli->hint, sizeof cli->hint, "start the server with: perdure serve %s", theirs[i].instead);
      return pd_error_set(err, PD_UNSUPPORTED, "--%s does not work against a server: it is the server that offers the tools",
                          theirs[i].option);
    }
  return PD_OK;
}

/* Readable when somebody wants it to end: it has a session to end at the server. -1: it cannot be had, and a signal ends it at once. */
static int watch_signals(void)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  int fd = signalfd(-1, &set, SFD_CLOEXEC);
  if (fd >= 0) sigprocmask(SIG_BLOCK, &set, NULL);
  return fd;
}

static pd_code carry(cli_session *cli, pd_error *err)
{
  CLEANUP(pd_fd_done) int stop = watch_signals();
  pd_bridge_options options = {
    .uri = cli->uri,
    .agent = cli->has_agent ? cli->agent : NULL,
    .in = STDIN_FILENO,
    .out = STDOUT_FILENO,
    .stop = stop,
  };
  if (isatty(STDIN_FILENO)) cli_say(cli, "one JSON-RPC message a line for %s, until end of file", cli->uri);
  return pd_bridge_run(&options, err);
}

static pd_code run_mcp(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_home *home = NULL;
  const client *c = NULL;
  const char *name = args_get(args, "print-config");
  TRY(check_bridge(cli, args, err));
  if (name) {
    TRY(find_client(cli, name, &c, err));
    return print_config(cli, args, c, err);
  }
  if (cli->is_remote) return carry(cli, err);
  TRY(pd_home_open(cli->uri, NULL, &home, err));
  pd_code code = serve(cli, args, home, err);
  pd_code closed = pd_home_close(home, code ? NULL : err);
  return code ? code : closed;
}

static const args_option mcp_options[] = {
  {"tools", 0, "GLOBS", "only these tools: state.persistent.*,queue.* (long lists cost tokens)"},
  {"approvals", 0, NULL, "the form that the client shows its person may approve: only if a person, not the agent, answers it"},
  {"no-approvals", 0, NULL, "it may not, whatever mcp.approvals says: that is left to `perdure approvals`; the default"},
  PASSPHRASE_OPTIONS,
  {"print-config", 0, "CLIENT", "print what claude, cursor, codex or vscode need to use it"},
  {0},
};

const cli_command cmd_mcp = {
  .spec = {"mcp", mcp_options, 0, 0, false},
  .group = "agents",
  .summary = "Serve an agent's state to an MCP client, over standard input and output",
  .usage = "[--tools GLOBS] [--approvals] [--print-config CLIENT]",
  .about = "Speaks the Model Context Protocol (2026-07-28, 2025-11-25 and before) on standard\n"
           "input and output, one JSON text a line. The capabilities of the agent (--agent) are\n"
           "its tools, its keys are resources, `briefing` is a prompt. Ends with its input. With --server, those\n"
           "are the server's: for clients that cannot use its /mcp themselves.",
  .example = "$ perdure mcp --print-config claude\n"
             "$ perdure --agent researcher mcp --tools 'state.persistent.*,state.briefing.*'\n"
             "$ perdure --server http://127.0.0.1:7373 --token-file ~/.token mcp --print-config claude",
  .run = run_mcp,
};
