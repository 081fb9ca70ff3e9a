/*
 * door.h: calling capabilities from the command line: on the server that is named (far.h), on the server of the home if one runs
 * (home_server.h), else in this process.
 */
#ifndef PD_CMD_DOOR_H
#define PD_CMD_DOOR_H

#include "cli.h"
#include "passphrase.h"

/* Who calls, for commands that call capabilities. */
#define CLI_DOOR_OPTIONS                                                                                                                   \
  {"session", 0, "ID", "the session (PERDURE_SESSION)"},                                                                                   \
  {                                                                                                                                        \
    "operator", 0, NULL, "call as the operator: needs no approval"                                                                         \
  }

/* Call `capability` with the JSON `input`. `out` is replaced by the answer; on a failure by {"error":…}, and `err` says the same. */
PD_MUST_USE pd_code door_call(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out,
                              pd_error *err);

/* The same, only on the server of the home. False: none runs, and nothing was called. `progress` (may be NULL) is asked whether the call
 * is still wanted, as pd_ctx.progress with nothing to tell. */
PD_MUST_USE bool door_call_server(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input,
                                  bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx, pd_buf *out, pd_code *out_code,
                                  pd_error *err);

/* "unlock", "lock" or (with the full path of a backup) "learn", in the vault of the server: the one that is named, or the home's. "unlock"
 * starts one if none runs. PD_NOT_FOUND: none runs. */
PD_MUST_USE pd_code door_vault(cli_session *cli, const char *verb, const char *path, const passphrase *pass, pd_error *err);

#endif
