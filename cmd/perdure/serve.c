/* serve.c: `serve`: the home over HTTP, until it is told to stop. */
#include "wire/serve.h"
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "commands.h"
#include "home_server.h"
#include "passphrase.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_TTL_S ((uint64_t)12 * 3600)
#define MAPPED_MIN (256 * 1024)
#define LINK_TTL_MAX_S ((uint64_t)30 * 86400)
#define EXIT_IDLE_MAX_S ((uint64_t)365 * 86400)

/* Each --allow-host (or the like) in turn. */
static pd_code take_names(const args_parsed *args, const char *option, const char *out[PD_SERVE_NAMES_MAX], pd_error *err)
{
  size_t count = 0, index = 0;
  for (const char *value; (value = args_next(args, option, &index));) {
    if (count == PD_SERVE_NAMES_MAX - 1) return pd_error_set(err, PD_LIMIT, "--%s: more than %d are given", option, PD_SERVE_NAMES_MAX - 1);
    out[count++] = value;
  }
  return PD_OK;
}

static pd_code take_log(const args_parsed *args, pd_log_options *out, pd_error *err)
{
  const char *format = args_get(args, "log"), *level = args_get(args, "log-level");
  *out = (pd_log_options){.fd = STDERR_FILENO, .is_json = !isatty(STDERR_FILENO), .level = PD_LOG_INFO};
  if (format) out->is_json = strcmp(format, "json") == 0;
  if (format && !out->is_json && strcmp(format, "human") != 0)
    return pd_error_set(err, PD_INVALID, "--log is json or human, not '%s'", format);
  if (level && !pd_log_level_parse(level, &out->level))
    return pd_error_set(err, PD_INVALID, "--log-level is error, warn, info or debug, not '%s'", level);
  return PD_OK;
}

static pd_code take_exit_idle(const args_parsed *args, uint64_t *out_ms, pd_error *err)
{
  const char *text = args_get(args, "exit-idle");
  uint64_t seconds = 0;
  if (!text) return PD_OK;
  TRY(args_parse_seconds("--exit-idle", text, &seconds, err));
  if (seconds < 1 || seconds > EXIT_IDLE_MAX_S)
    return pd_error_set(err, PD_INVALID, "--exit-idle is a time from 1s to 365d, not '%.60s'", text);
  *out_ms = seconds * 1000;
  return PD_OK;
}

static pd_code take_options(const cli_session *cli, const args_parsed *args, pd_serve_options *out, pd_error *err)
{
  const char *mode = args_get(args, "socket-mode");
  *out = (pd_serve_options){
    .uri = cli->uri,
    .program = "/proc/self/exe",
    .listen = args_get(args, "listen"),
    .socket = args_get(args, "socket"),
    .tls_cert = args_get(args, "tls-cert"),
    .tls_key = args_get(args, "tls-key"),
    .is_local = args_get(args, "local"),
    .no_auth = args_get(args, "no-auth"),
    .insecure_listen = args_get(args, "insecure-listen"),
    .mcp_tools = args_get(args, "mcp-tools"),
    .mcp_approvals = args_get(args, "mcp-approvals"),
    .no_mcp_approvals = args_get(args, "no-mcp-approvals"),
    .is_level_given = args_get(args, "log-level"),
  };
  if (out->mcp_approvals && out->no_mcp_approvals)
    return pd_error_set(err, PD_INVALID, "--mcp-approvals and --no-mcp-approvals exclude each other");
  if (out->is_local && (out->listen || out->socket || out->tls_cert || args_get(args, "link")))
    return pd_error_set(err, PD_INVALID, "--local does not go with --listen, --socket, --tls-cert and --link");
  if (!out->tls_cert != !out->tls_key) return pd_error_set(err, PD_INVALID, "--tls-cert and --tls-key belong together: give both");
  if (mode) {
    char *end;
    out->socket_mode = (unsigned)strtoul(mode, &end, 8);
    if (*end || !*mode || out->socket_mode > 0777) return pd_error_set(err, PD_INVALID, "--socket-mode is a mode as 0660, not '%s'", mode);
  }
  TRY(take_exit_idle(args, &out->exit_idle_ms, err));
  TRY(take_names(args, "allow-host", out->hosts, err));
  TRY(take_names(args, "allow-origin", out->origins, err));
  return take_log(args, &out->log, err);
}

/* {"home":…,"addresses":[…],"link":…,"token":…,"token_id":…,"expires_at":…} */
static pd_code tell_json(cli_session *cli, const pd_server *server, const pd_serve_options *options, const pd_link *link, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  const char *address;
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "home", options->uri);
  pd_json_key(&w, "addresses");
  pd_json_open(&w, '[');
  for (size_t i = 0; (address = pd_server_address(server, i)); i++) pd_json_text(&w, pd_text(address));
  pd_json_close(&w, ']');
  if (*link->url) pd_json_put_text(&w, "link", link->url);
  if (*link->token) {
    pd_json_put_text(&w, "token", link->token);
    pd_json_put_text(&w, "token_id", link->token_id);
    pd_json_put_text(&w, "expires_at", link->expires_at);
  }
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static void tell_plain(cli_session *cli, const pd_server *server, const pd_serve_options *options, const pd_link *link)
{
  const char *address;
  for (size_t i = 0; (address = pd_server_address(server, i)); i++)
    out_printf(&cli->out, "perdure serves %s on %s\n", options->uri, address);
  if (!*link->url) return;
  out_printf(&cli->out, "open %s\n", link->url);
  if (*link->token) out_printf(&cli->out, "(an operator's token, until %s or the end of this server)\n", link->expires_at);
}

/* The addresses go to standard output, for people and for those who started us with port 0; the link goes nowhere else. */
static pd_code tell_addresses(cli_session *cli, const pd_server *server, const pd_serve_options *options, const pd_link *link,
                              pd_error *err)
{
  const char *address;
  if (cli->is_json)
    TRY(tell_json(cli, server, options, link, err));
  else
    tell_plain(cli, server, options, link);
  out_flush(&cli->out);
  for (size_t i = 0; (address = pd_server_address(server, i)); i++)
    pd_log_say(&options->log, PD_LOG_INFO, "serving %s on %s", options->uri, address);
  if (options->no_auth)
    pd_log_say(&options->log, PD_LOG_WARN, "--no-auth: whoever can connect to this machine's loopback may do everything");
  return PD_OK;
}

static pd_code take_link_ttl(const args_parsed *args, uint64_t *out, pd_error *err)
{
  const char *text = args_get(args, "link-ttl");
  *out = LINK_TTL_S;
  if (!text) return PD_OK;
  if (!args_get(args, "link")) return pd_error_set(err, PD_INVALID, "--link-ttl goes with --link");
  TRY(args_parse_seconds("--link-ttl", text, out, err));
  if (*out < 1 || *out > LINK_TTL_MAX_S) return pd_error_set(err, PD_INVALID, "--link-ttl is a time from 1s to 30d, not '%.60s'", text);
  return PD_OK;
}

/* As many arenas as cores, not glibc's eight times that: each keeps holes of its own, which under a mixed load of half an hour came to
 * three times what was in use and were still growing; fewer cost no time. Large blocks are mapped by themselves and so given back at once;
 * glibc would raise the limit to the largest that was ever freed, 32 MiB at most, and keep the holes of a backup or a gc. The program's to
 * say, not the library's: it holds for the process. */
static void keep_memory_together(void)
{
#ifdef M_ARENA_MAX
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!getenv("MALLOC_ARENA_MAX")) (void)mallopt(M_ARENA_MAX, cores < 2 ? 2 : (int)cores);
#endif
#ifdef M_MMAP_THRESHOLD
  if (!getenv("MALLOC_MMAP_THRESHOLD_")) (void)mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
#endif
}

/* What there is to say, then serve. */
static pd_code serve(cli_session *cli, const args_parsed *args, pd_server *server, const pd_serve_options *options, uint64_t link_ttl_s,
                     pd_error *err)
{
  pd_link link = {0};
  pd_code code = args_get(args, "link") ? pd_server_link(server, link_ttl_s, &link, err) : PD_OK;
  if (!code) code = tell_addresses(cli, server, options, &link, err);
  explicit_bzero(&link, sizeof link);
  return code ? code : pd_server_run(server, err);
}

/* With the vault unlocked, if a passphrase is given; it is wiped before anybody is served. */
static pd_code open_server(const args_parsed *args, pd_serve_options *options, pd_server **out, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  if (passphrase_is_given(args, "")) TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  options->passphrase = pass.text;
  pd_code code = pd_server_open(options, out, err);
  options->passphrase = (pd_bytes){0};
  return code;
}

/* The socket by which commands of this user find us; its name needs the home's folder. Without it they open the home themselves. */
static pd_code take_home_socket(pd_serve_options *options, char path[HOME_SERVER_PATH_SIZE], pd_error *err)
{
  pd_error why = {0};
  if (strncmp(options->uri, "sqlite:", 7) == 0 && mkdir(options->uri + 7, 0700) && errno != EEXIST)
    return pd_file_refused(err, "make", options->uri + 7);
  pd_code code = home_server_path(options->uri, path, options->is_local ? err : &why);
  if (!code) options->home_socket = path;
  if (options->is_local || !code || code == PD_UNSUPPORTED) return options->is_local ? code : PD_OK;
  pd_log_say(&options->log, PD_LOG_WARN, "commands that open this home do not use this server: %s", why.message);
  return PD_OK;
}

static pd_code run_serve(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_serve_options options;
  pd_server *server = NULL;
  CLEANUP(pd_free_at) char *uri = NULL;
  const char *home = args_get(args, "home");
  char path[HOME_SERVER_PATH_SIZE];
  uint64_t link_ttl_s;
  keep_memory_together();
  if (home && asprintf(&uri, "%s%s", cli_has_scheme(home) ? "" : "sqlite:", home) < 0) return pd_error_memory(err, "the home's name");
  if (uri) cli->uri = uri;
  TRY(take_options(cli, args, &options, err));
  TRY(take_link_ttl(args, &link_ttl_s, err));
  TRY(take_home_socket(&options, path, err));
  pd_code code = open_server(args, &options, &server, err);
  if (code == PD_EXISTS) snprintf(cli->hint, sizeof cli->hint, "stop the other server first, or serve another home");
  TRY(code);
  code = serve(cli, args, server, pd_server_options(server), link_ttl_s, err);
  pd_log_options log = pd_server_options(server)->log;
  pd_code closed = pd_server_close(server, code ? NULL : err);
  if (!code && !closed) pd_log_say(&log, PD_LOG_INFO, "stopped");
  return code ? code : closed;
}

static const args_option serve_options[] = {
  {"listen", 0, "HOST:PORT", "where (default 127.0.0.1:7373; port 0: any that is free)"},
  {"socket", 0, "PATH", "a Unix socket, instead of TCP or besides --listen"},
  {"socket-mode", 0, "MODE", "its mode (default 0600)"},
  {"local", 0, NULL, "only for your own commands on this machine: no address, whatever perdure.toml says"},
  {"link", 0, NULL, "print a link that opens the server's page: it carries a fresh operator's token"},
  {"link-ttl", 0, "TIME", "how long that token is good at most: 90s, 15min, 12h, 30d (default 12h)"},
  {"home", 0, "FOLDER", "the home's folder: the same as --store"},
  {"tls-cert", 0, "FILE", "serve HTTPS with this certificate (PEM, with those who vouch for it after it); looked at again when it changes"},
  {"tls-key", 0, "FILE", "the certificate's private key (PEM, without a passphrase)"},
  {"no-auth", 0, NULL, "whoever connects is who they say; for trying things out, on loopback alone"},
  {"insecure-listen", 0, NULL, "listen beyond loopback without TLS"},
  {"allow-host", 0, "NAME", "a name that Host may have besides localhost and addresses; may be repeated"},
  {"allow-origin", 0, "ORIGIN", "a web page that may call, as https://console.example; may be repeated"},
  {"mcp-tools", 0, "GLOBS", "the tools that /mcp offers: state.persistent.*,queue.* (default: all)"},
  {"mcp-approvals", 0, NULL, "the form that an MCP client shows its person may approve: only if a person, not the agent, answers it"},
  {"no-mcp-approvals", 0, NULL, "it may not, whatever mcp.approvals says; this is the default"},
  {"exit-idle", 0, "TIME", "stop after so long without a session, an unlocked vault, a request or a stream: 5s, 15min"},
  PASSPHRASE_OPTIONS,
  {"log", 0, "FORMAT", "json or human (default: human on a terminal)"},
  {"log-level", 0, "LEVEL", "error, warn, info, or debug: every request (default info)"},
  {0},
};

const cli_command cmd_serve = {
  .spec = {"serve", serve_options, 0, 0, false},
  .group = "agents",
  .summary = "Serve the home over HTTP",
  .usage = "[--listen HOST:PORT] [--socket PATH] [--home FOLDER]",
  .about = "Gives every capability to any language: POST /v1/call/NAME. SIGTERM finishes what was\n"
           "begun and stops; SIGHUP reads policy.toml, [server] and folders.roots of perdure.toml again.\n"
           "What is not given here may stand there: listen, socket, tls_cert, tls_key, allow_host and the like\n"
           "(perdure config). GET / is a page for browsers, and --link prints the way to it. Who else\n"
           "may call: perdure token.",
  .example = "$ perdure serve --no-auth\n"
             "$ curl --json '{\"key\":\"plan\",\"value\":1}' localhost:7373/v1/call/state.persistent.set\n"
             "$ perdure serve --link   # and open the link that it prints",
  .no_server = "it is the server",
  .run = run_serve,
};
