/*
 * home_server.h: the server of a home, as commands of its own user find it (decision 088): every `perdure serve` of a folder listens on a
 * socket of this user's alone, whose name follows from the home. Sessions and the unlocked vault live there. If none runs and one is
 * needed, one is started that stops when it keeps nothing any more.
 */
#ifndef PD_CMD_HOME_SERVER_H
#define PD_CMD_HOME_SERVER_H

#include "cli.h"

#include <sys/un.h>

#define HOME_SERVER_PATH_SIZE sizeof((struct sockaddr_un *)0)->sun_path

/* A folder of this user's alone, made if need be: $XDG_RUNTIME_DIR/perdure, or one under /tmp that nobody else could have put there. */
PD_MUST_USE pd_code home_server_folder(char *out, size_t size, pd_error *err);
/* The path of the socket. PD_UNSUPPORTED for a home that is not a folder. */
PD_MUST_USE pd_code home_server_path(const char *uri, char out[HOME_SERVER_PATH_SIZE], pd_error *err);

/* Does one run? Says so, once, if it was killed. */
PD_MUST_USE bool home_server_find(const cli_session *cli, char out_path[HOME_SERVER_PATH_SIZE]);
/* Start one unless it runs; makes the home's folder. */
PD_MUST_USE pd_code home_server_start(const cli_session *cli, pd_error *err);

#endif
