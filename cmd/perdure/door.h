/*
 * door.h: calling capabilities from the command line: on the server if one is named (far.h), through the holder of the home if one runs,
 * else in this process.
 *
 * The command line is many short processes, and sessions and an unlocked vault live in one. So, as ssh-agent does for keys, a holder
 * keeps them: a process in the background with the home open, on a Unix socket that only its owner may use. `perdure session begin` and
 * `perdure vault unlock` start it; it leaves when it holds nothing any more.
 */
#ifndef PD_CMD_DOOR_H
#define PD_CMD_DOOR_H

#include "cli.h"

/* Who calls, for commands that call capabilities. */
#define CLI_DOOR_OPTIONS                                                                                                                   \
  {"session", 0, "ID", "the session (PERDURE_SESSION)"},                                                                                   \
  {                                                                                                                                        \
    "operator", 0, NULL, "call as the operator: needs no approval"                                                                         \
  }

/* Call `capability` with the JSON `input`. `out` is replaced by the answer; on a failure by {"error":…}, and `err` says the same. */
PD_MUST_USE pd_code door_call(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out,
                              pd_error *err);

/* The same, only by the holder: PD_NOT_FOUND, and nothing in `out`, if none runs. */
PD_MUST_USE pd_code door_call_holder(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out,
                                     pd_error *err);

/* Start the holder of the home unless it runs. */
PD_MUST_USE pd_code door_start_holder(cli_session *cli, pd_error *err);

/* One line to the holder, one line back. PD_NOT_FOUND if none runs. */
PD_MUST_USE pd_code door_ask_holder(cli_session *cli, pd_bytes line, pd_buf *out, pd_error *err);

/* All of it; false if the other side went away. */
bool door_send(int fd, pd_bytes bytes);

/* holder.c: a folder of this user's alone, made if need be: $XDG_RUNTIME_DIR/perdure, or one under /tmp that nobody else could have put
 * there. */
PD_MUST_USE pd_code holder_folder(char *out, size_t size, pd_error *err);
/* The path of the socket. PD_UNSUPPORTED for a home without a folder. */
PD_MUST_USE pd_code holder_path(const char *uri, char *out, size_t size, pd_error *err);
/* Serve the home at `uri` on `listener` until it holds nothing. `ready` gets a newline when it serves, or the error's text. */
__attribute__((noreturn)) void holder_serve(const char *uri, int listener, int ready);

#endif
