/* far.c: see far.h. */
#include "far.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/uri.h"
#include "remote/remote.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE_MAX 4096

/* ---- which server, and who we are there ---- */

static const char *variable(const char *name)
{
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* One line of a file that nobody else may read. */
static pd_code read_token(const char *path, char out[PD_REMOTE_TOKEN_SIZE_MAX + 2], pd_error *err)
{
  struct stat is;
  CLEANUP(pd_fd_done) int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &is) != 0) return pd_file_refused(err, "read", path);
  if (S_ISREG(is.st_mode) && (is.st_mode & 077))
    return pd_error_set(err, PD_INVALID, "others may read the token in %.300s (mode %04o): chmod 600 it first", path, is.st_mode & 07777);
  ssize_t size = read(fd, out, PD_REMOTE_TOKEN_SIZE_MAX + 1);
  if (size < 0) return pd_file_refused(err, "read", path);
  out[size] = 0;
  out[strcspn(out, "\r\n")] = 0;
  return *out ? PD_OK : pd_error_set(err, PD_INVALID, "there is no token in %.300s", path);
}

static pd_code set_up_client(const args_parsed *args, pd_error *err)
{
  const char *ca = args_get_global(args, "ca");
  pd_remote_options options = {.ca = ca ? ca : variable("PERDURE_CA"), .sends_openly = args_get_global(args, "insecure-http") != NULL};
  if (options.ca && access(options.ca, R_OK) != 0) return pd_file_refused(err, "read", options.ca);
  return pd_remote_setup(&options, err);
}

/* ---- tokens: each for one server (decision 083) ---- */

static pd_code bind_file(const char *uri, const char *path, pd_error *err)
{
  char token[PD_REMOTE_TOKEN_SIZE_MAX + 2] = "";
  pd_code code = read_token(path, token, err);
  if (!code) code = pd_remote_token(uri, token, err);
  explicit_bzero(token, sizeof token);
  return code;
}

/* PERDURE_TOKEN is PERDURE_SERVER's where there is one; else of the server that the command line names. */
static bool is_variable_for(const char *uri)
{
  const char *server = variable("PERDURE_SERVER");
  return !server || pd_remote_is_same(server, uri);
}

/* The token of the command's own server, or, without one, of the server that it pushes to or pulls from. */
static pd_code bind_token(const args_parsed *args, const char *uri, bool is_named, pd_error *err)
{
  const char *file = args_get_global(args, "token-file"), *token = variable("PERDURE_TOKEN");
  if (file) return bind_file(uri, file, err);
  return token && is_named && is_variable_for(uri) ? pd_remote_token(uri, token, err) : PD_OK;
}

pd_code far_other(const cli_session *cli, const args_parsed *args, const char *uri, bool is_named, pd_error *err)
{
  const char *file = args_get(args, "remote-token-file"), *token = variable("PERDURE_REMOTE_TOKEN");
  if (!pd_remote_is(uri)) return PD_OK;
  TRY(pd_remote_check(uri, err));
  bool is_ours = cli->is_remote && pd_remote_is_same(cli->uri, uri);
  if (is_ours && file)
    return pd_error_set(err, PD_INVALID, "--remote-token-file: %.200s is the server of --server, which has one token", uri);
  if (is_ours) return PD_OK;
  if (file) return bind_file(uri, file, err);
  if (token) return pd_remote_token(uri, token, err);
  const char *server = variable("PERDURE_SERVER");
  return cli->is_remote ? PD_OK : bind_token(args, uri, is_named || (server && pd_remote_is_same(server, uri)), err);
}

pd_code far_move(cli_session *cli, const args_parsed *args, const char *uri, pd_error *err)
{
  bool has_server = cli->is_remote;
  if (has_server) TRY(far_other(cli, args, uri, true, err));
  cli->uri = uri;
  if (has_server || !pd_remote_is(uri)) return PD_OK;
  TRY(pd_remote_check(uri, err));
  cli->is_remote = true;
  return bind_token(args, uri, true, err);
}

void far_explain(cli_session *cli, const args_parsed *args, const char *uri)
{
  bool is_given = args_get_global(args, "token-file") || variable("PERDURE_TOKEN");
  if (*cli->hint || !is_given || !pd_remote_is(uri) || pd_remote_has_token(uri)) return;
  bool is_own = cli->is_remote && pd_remote_is_same(cli->uri, uri);
  snprintf(cli->hint, sizeof cli->hint, "no token was sent to %.200s: %s", uri,
           is_own           ? "PERDURE_TOKEN is for PERDURE_SERVER; give this server's token with --token-file"
           : cli->is_remote ? "yours is for the other server; give this one's with --remote-token-file or PERDURE_REMOTE_TOKEN"
                            : "PERDURE_TOKEN was not given for it; use --remote-token-file or PERDURE_REMOTE_TOKEN");
}

static pd_code refuse(cli_session *cli, const cli_command *command, pd_error *err)
{
  snprintf(cli->hint, sizeof cli->hint, "name the home itself with --store");
  return pd_error_set(err, PD_UNSUPPORTED, "%s does not work against a server: %s", command->spec.name, command->no_server);
}

pd_code far_setup(cli_session *cli, const cli_command *command, const args_parsed *args, pd_error *err)
{
  const char *given = args_get_global(args, "server"), *store = args_get_global(args, "store");
  if (given && store) return pd_error_set(err, PD_INVALID, "--server and --store do not go together: which of the two homes?");
  const char *uri = given ? given : store ? NULL : variable("PERDURE_SERVER");
  TRY(set_up_client(args, err));
  if (!uri && pd_remote_is(cli->uri)) uri = cli->uri;
  if (!uri) return PD_OK;
  TRY(pd_remote_check(uri, err));
  if (command->no_server) return given || !args_get(args, "home") ? refuse(cli, command, err) : PD_OK;
  cli->uri = uri;
  cli->is_remote = true;
  return bind_token(args, uri, true, err);
}

/* ---- asking ---- */

static pd_code ask(const cli_session *cli, pd_remote_request *request, const char *what, pd_buf *out, pd_error *err)
{
  pd_remote_reply reply = {0};
  request->uri = cli->uri;
  TRY(pd_remote_ask(request, &reply, out, err));
  bool is_ours = out->size && *out->data == '{'; /* a web page is an answer, too */
  return reply.status == 200 && is_ours ? PD_OK : pd_remote_error(&reply, pd_buf_bytes(out), what, err);
}

/* Whatever was typed: the server says what is wrong with it, in the same words as without one. */
static pd_code call_path(const char *capability, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_printf(out, err, "/v1/call/"));
  TRY(pd_uri_escape(pd_text(capability), "", out, err));
  return pd_buf_byte(out, 0, err);
}

pd_code far_call(const cli_session *cli, const char *session, bool is_operator, const char *capability, pd_bytes input, pd_buf *out,
                 pd_error *err)
{
  return far_call_as(cli, &(far_caller){.session = session, .is_operator = is_operator}, capability, input, out, err);
}

pd_code far_call_as(const cli_session *cli, const far_caller *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf path = {.size_max = PATH_SIZE_MAX};
  TRY(call_path(capability, &path, err));
  pd_remote_request request = {
    .method = "POST",
    .path = (const char *)path.data,
    .agent = cli->has_agent || who->is_operator ? cli->agent : NULL, /* an agent's token says whose it is; the operator's does not */
    .session = who->session,
    .role = who->is_operator ? "operator" : "agent",
    .body = input,
    .is_slow = true, /* a backup, a queue that is waited at */
    .progress = who->progress,
    .progress_ctx = who->progress_ctx,
    .out_is_unsent = who->out_is_unsent,
  };
  return ask(cli, &request, capability, out, err);
}

/* What walks the whole store may take its time. */
static const char *const slow[] = {"store.verify", "store.merge", "store.gc", "store.erase", "store.du", "store.repair"};

pd_code far_store(const cli_session *cli, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf path = {.size_max = PATH_SIZE_MAX};
  TRY(call_path(capability, &path, err));
  pd_remote_request request = {.method = "POST", .path = (const char *)path.data, .role = pd_remote_role(cli->uri), .body = input};
  for (size_t i = 0; i < COUNT_OF(slow); i++) request.is_slow |= strcmp(capability, slow[i]) == 0;
  return ask(cli, &request, capability, out, err);
}

pd_code far_ask(const cli_session *cli, const char *method, const char *path, pd_bytes body, pd_buf *out, pd_error *err)
{
  pd_remote_request request = {.method = method, .path = path, .role = pd_remote_role(cli->uri), .body = body, .is_slow = true};
  return ask(cli, &request, path, out, err);
}

pd_code far_bundle(const cli_session *cli, const char *path, pd_bytes body, const far_files *files, pd_buf *out, pd_error *err)
{
  pd_remote_reply reply = {0};
  pd_remote_request request = {
    .uri = cli->uri,
    .method = "POST",
    .path = path,
    .role = pd_remote_role(cli->uri),
    .type = files->send_fd ? "application/octet-stream" : NULL,
    .body = body,
    .send_fd = files->send_fd,
    .send_size = files->send_size,
    .take_fd = files->take_fd,
    .progress = files->progress,
    .progress_ctx = files->progress_ctx,
    .is_slow = true,
  };
  TRY(pd_remote_ask(&request, &reply, out, err));
  if (files->report) memcpy(files->report, reply.report, sizeof reply.report);
  return reply.status == 200 ? PD_OK : pd_remote_error(&reply, pd_buf_bytes(out), path, err);
}

bool far_is_without_store(const pd_buf *answer)
{
  pd_json json;
  return pd_json_parse(pd_buf_bytes(answer), &json, NULL) == PD_OK &&
         pd_json_is(pd_json_member(pd_json_member(json, "error"), "code"), "StoreNotFound");
}
