/* fail.c: how a failure is told: one line and a hint for people, the one JSON shape for programs, and the exit code for both. */
#include "cli.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json_error.h"

#include <stdio.h>

int cli_exit_of(pd_code code)
{
  switch (code) {
  case PD_OK: return CLI_EXIT_OK;
  case PD_NOT_FOUND:
  case PD_SESSION:
  case PD_ERASED: return CLI_EXIT_NEGATIVE;
  case PD_INVALID:
  case PD_AMBIGUOUS:
  case PD_UNSUPPORTED: return CLI_EXIT_USAGE;
  case PD_CONFLICT:
  case PD_EXISTS: return CLI_EXIT_CONFLICT;
  case PD_LIMIT:
  case PD_QUOTA: return CLI_EXIT_LIMIT;
  case PD_LOCKED:
  case PD_APPROVAL:
  case PD_DENIED: return CLI_EXIT_OPERATOR;
  default: return CLI_EXIT_STORAGE;
  }
}

void cli_error_json(pd_json_writer *w, const pd_error *err, const char *hint)
{
  pd_json_error_begin(w, err);
  if (hint && *hint) pd_json_put_text(w, "hint", hint);
  pd_json_error_end(w, err, NULL);
}

static void tell_json(const cli_session *cli, const pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf buf = {0};
  pd_json_writer w = {.out = &buf};
  pd_json_open(&w, '{');
  cli_error_json(&w, err, cli->hint);
  pd_json_close(&w, '}');
  if (w.code == PD_OK)
    fprintf(stderr, "%.*s\n", (int)buf.size, (const char *)buf.data);
  else
    fputs("{\"error\":{\"code\":\"OutOfMemory\",\"message\":\"out of memory for an error\",\"details\":{},\"recovery\":[]}}\n", stderr);
}

/* The hint of the command, else the code's own where it says more than the message does. */
static const char *hint_for(const cli_session *cli, const pd_error *err)
{
  if (*cli->hint) return cli->hint;
  if (strncmp(err->message, "the server at ", 14) == 0) return "is the server running (perdure serve), and is this its address?";
  const pd_recovery *recovery = pd_error_recovery(err);
  return err->code == PD_INVALID || !recovery->hint ? "" : recovery->hint;
}

int cli_fail(const cli_session *cli, const pd_error *err)
{
  fflush(stdout);
  if (cli->told) {
    /* by the command itself */
  } else if (cli->is_json) {
    tell_json(cli, err);
  } else {
    const char *hint = hint_for(cli, err);
    fprintf(stderr, "perdure: %s\n", err->message);
    if (*hint) fprintf(stderr, "hint: %s\n", hint);
  }
  return cli->exit_code ? cli->exit_code : cli_exit_of(err->code);
}
