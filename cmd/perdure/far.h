/*
 * far.h: the home behind a server, as commands use it (--server, PERDURE_SERVER). Commands of the engine need nothing of this: the store
 * is opened by the server's URI. Here is what goes another way: calls of capabilities, and what is done to the home as a whole.
 */
#ifndef PD_CMD_FAR_H
#define PD_CMD_FAR_H

#include "cli.h"

/* Choose the server if one is named: cli->uri is its URI then, cli->is_remote is set, and the token is for it. Sets up the certificates in
 * any case: stores can be named by a server's URI, too. PD_INVALID for an address, token or file that is wrong; PD_UNSUPPORTED for a
 * command that does not work so. */
PD_MUST_USE pd_code far_setup(cli_session *cli, const cli_command *command, const args_parsed *args, pd_error *err);

/* Another home that the command works with, before it is opened: if it is a server's, find the token for it. --remote-token-file or
 * PERDURE_REMOTE_TOKEN; else that of the command, if it has no server of its own; PERDURE_TOKEN only if the URI `is_named` by the command
 * line, not remembered. Decision 083. */
PD_MUST_USE pd_code far_other(const cli_session *cli, const args_parsed *args, const char *uri, bool is_named, pd_error *err);
/* The command names its own home by `uri` (clone SRC DST): cli->uri from now on. If it is a server's and there is no --server, the token of
 * the command is for it. */
PD_MUST_USE pd_code far_move(cli_session *cli, const args_parsed *args, const char *uri, pd_error *err);
/* After a PD_DENIED of the server: a hint, if a token was held back from it. */
void far_explain(cli_session *cli, const args_parsed *args, const char *uri);

typedef struct far_caller {
  const char *session;
  bool is_operator;
  bool (*progress)(void *ctx, uint64_t done, uint64_t total); /* asked whether the call is still wanted; NULL: it is */
  void *progress_ctx;
  bool *out_is_unsent; /* as in pd_remote_request */
} far_caller;

/* POST /v1/call/NAME as the agent (or the operator). As door_call. */
PD_MUST_USE pd_code far_call_as(const cli_session *cli, const far_caller *who, const char *capability, pd_bytes input, pd_buf *out,
                                pd_error *err);
/* The same. */
PD_MUST_USE pd_code far_call(const cli_session *cli, const char *session, bool is_operator, const char *capability, pd_bytes input,
                             pd_buf *out, pd_error *err);

/* POST /v1/call/NAME of a capability store.*, as whoever the token says. `out` has the answer, or {"error":…}. */
PD_MUST_USE pd_code far_store(const cli_session *cli, const char *capability, pd_bytes input, pd_buf *out, pd_error *err);

/* The files of a request, and what is told of them. Zero-initialise. */
typedef struct far_files {
  const int *send_fd, *take_fd; /* as in pd_remote_request */
  uint64_t send_size;
  char *report; /* PD_REMOTE_REPORT_SIZE bytes: what the answer's header says of its file; NULL: not wanted */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  void *progress_ctx;
} far_files;

/* POST PATH, as whoever the token says: a bundle is sent, or comes. `out` has the answer, or {"error":…}. */
PD_MUST_USE pd_code far_bundle(const cli_session *cli, const char *path, pd_bytes body, const far_files *files, pd_buf *out, pd_error *err);
/* Does the answer say that there is no such store? */
bool far_is_without_store(const pd_buf *answer);

/* METHOD /v1/PATH with a JSON body (of a POST), as the operator. The answer's body replaces what `out` holds. */
PD_MUST_USE pd_code far_ask(const cli_session *cli, const char *method, const char *path, pd_bytes body, pd_buf *out, pd_error *err);

#endif
