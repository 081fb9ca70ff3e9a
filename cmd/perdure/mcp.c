/* mcp.c: `mcp`: the Model Context Protocol over standard input and output, and the lines that make a client use it. */
#include "wire/mcp.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "door.h"
#include "wire/mcp_stdio.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The store's URI as it is from everywhere. */
static pd_code absolute_store(cli_session *cli, pd_buf *out, pd_error *err)
{
  char path[PATH_MAX];
  const char *uri = cli->uri;
  if (strncmp(uri, "sqlite:", 7) != 0) return pd_buf_printf(out, err, "%s", uri);
  if (realpath(uri + 7, path)) return pd_buf_printf(out, err, "sqlite:%s", path);
  if (uri[7] == '/') return pd_buf_printf(out, err, "%s", uri);
  if (!getcwd(path, sizeof path)) return pd_error_set(err, PD_STORAGE, "the current folder is not known: %s", strerror(errno));
  const char *rest = strncmp(uri + 7, "./", 2) == 0 ? uri + 9 : uri + 7;
  return pd_buf_printf(out, err, "sqlite:%s/%s", path, rest);
}

static void write_args(pd_json_writer *w, const args_parsed *args, pd_bytes store, const char *agent)
{
  pd_json_open(w, '[');
  pd_json_text(w, pd_text("mcp"));
  pd_json_text(w, pd_text("--store"));
  pd_json_text(w, store);
  pd_json_text(w, pd_text("--agent"));
  pd_json_text(w, pd_text(agent));
  if (args_get(args, "tools")) {
    pd_json_text(w, pd_text("--tools"));
    pd_json_text(w, pd_text(args_get(args, "tools")));
  }
  if (args_get(args, "no-approvals")) pd_json_text(w, pd_text("--no-approvals"));
  pd_json_close(w, ']');
}

static pd_code print_config(cli_session *cli, const args_parsed *args, const client *c, pd_error *err)
{
  char program[PATH_MAX];
  CLEANUP(pd_buf_done) pd_buf store = {0};
  ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
  snprintf(program + (size > 0 ? size : 0), sizeof program - (size_t)(size > 0 ? size : 0), "%s", size > 0 ? "" : "perdure");
  TRY(absolute_store(cli, &store, err));
  pd_json_writer w = cli_json(cli, err);
  if (c->is_toml) {
    out_text(&cli->out, "[mcp_servers.perdure]\ncommand = ");
    pd_json_text(&w, pd_text(program)); /* a JSON string is a basic string of TOML */
    out_text(&cli->out, "\nargs = ");
    w.needs_comma = false;
    write_args(&w, args, pd_buf_bytes(&store), cli->agent);
  } else {
    pd_json_open(&w, '{');
    pd_json_key(&w, c->member);
    pd_json_open(&w, '{');
    pd_json_key(&w, "perdure");
    pd_json_open(&w, '{');
    if (c->has_type) pd_json_put_text(&w, "type", "stdio");
    pd_json_put_text(&w, "command", program);
    pd_json_key(&w, "args");
    write_args(&w, args, pd_buf_bytes(&store), cli->agent);
    for (int i = 0; i < 3; i++) pd_json_close(&w, '}');
  }
  TRY(cli_json_end(cli, &w));
  cli_say(cli, "put this into %s", c->where);
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
} door;

/* The vault may be unlocked in the holder of the home, and then backups work there alone. */
static pd_code call_through(void *ctx, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  door *d = ctx;
  if (strncmp(capability, "state.backup.", 13) == 0 || strncmp(capability, "vault.", 6) == 0) {
    pd_code code = door_call_holder(d->cli, d->args, capability, input, out, err);
    if (code != PD_NOT_FOUND || out->size) return code;
  }
  return pd_call(who, capability, input, out, err);
}

static pd_code serve(cli_session *cli, const args_parsed *args, pd_home *home, pd_error *err)
{
  pd_mcp *mcp = NULL;
  door d = {cli, args};
  pd_mcp_options options = {.home = home, .uri = cli->uri, .tools = args_get(args, "tools")};
  pd_mcp_peer peer = {
    .agent = cli->agent,
    .may_approve = !args_get(args, "no-approvals"),
    .gate = {.call = call_through, .ctx = &d},
  };
  TRY(pd_mcp_new(&options, &mcp, err));
  if (isatty(STDIN_FILENO)) cli_say(cli, "serving agent '%s' of %s: one JSON-RPC message a line, until end of file", cli->agent, cli->uri);
  pd_code code = pd_mcp_stdio(mcp, &peer, STDIN_FILENO, STDOUT_FILENO, err);
  pd_mcp_free(mcp);
  return code;
}

static pd_code run_mcp(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_home *home = NULL;
  const client *c = NULL;
  const char *name = args_get(args, "print-config");
  if (name) {
    TRY(find_client(cli, name, &c, err));
    return print_config(cli, args, c, err);
  }
  TRY(pd_home_open(cli->uri, NULL, &home, err));
  pd_code code = serve(cli, args, home, err);
  pd_code closed = pd_home_close(home, code ? NULL : err);
  return code ? code : closed;
}

static const args_option mcp_options[] = {
  {"tools", 0, "GLOBS", "only these tools: state.persistent.*,queue.* (long lists cost tokens)"},
  {"no-approvals", 0, NULL, "never ask the client's person to approve: leave that to `perdure approvals`"},
  {"print-config", 0, "CLIENT", "print what claude, cursor, codex or vscode need to use it"},
  {0},
};

const cli_command cmd_mcp = {
  .spec = {"mcp", mcp_options, 0, 0, false},
  .group = "agents",
  .summary = "Serve an agent's state to an MCP client, over standard input and output",
  .usage = "[--tools GLOBS] [--no-approvals] [--print-config CLIENT]",
  .about = "Speaks the Model Context Protocol (2026-07-28, 2025-11-25 and before) on standard\n"
           "input and output, one JSON text a line. The capabilities of the agent (--agent) are\n"
           "its tools, its keys are resources, `briefing` is a prompt. Ends with its input.",
  .example = "$ perdure mcp --print-config claude\n"
             "$ perdure --agent researcher mcp --tools 'state.persistent.*,state.briefing.*'",
  .no_server = "an MCP client can use the server itself, at /mcp",
  .run = run_mcp,
};
