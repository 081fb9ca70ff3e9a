/*
 * serve.h: a home over HTTP: what `perdure serve` runs. docs/guide/server.md tells what is served.
 *
 *     pd_server *server = NULL;
 *     pd_serve_options options = {.uri = "sqlite:./.perdure", .listen = "127.0.0.1:7373"};
 *     if (pd_server_open(&options, &server, &err)) …
 *     pd_server_run(server, &err);                    // until SIGTERM or SIGINT; SIGHUP reloads
 *     pd_server_close(server, &err);
 *
 * One server a process: it answers the process's signals.
 */
#ifndef PD_WIRE_SERVE_H
#define PD_WIRE_SERVE_H

#include "wire/log.h"

#include <perdure/perdure.h>

#define PD_SERVE_NAMES_MAX 16 /* of hosts, and of origins */
#define PD_SERVE_PORT 7373
#define PD_SERVE_LISTEN "127.0.0.1:7373"

/* What is not given here is taken from [server] in the home's perdure.toml, and read again on SIGHUP; an address (listen or socket) takes
 * the place of both, and a certificate or key of both. */
typedef struct pd_serve_options {
  const char *uri;                       /* the home's */
  const char *listen;                    /* HOST:PORT, [HOST]:PORT or PORT; port 0: any that is free. NULL: no TCP, if there is a socket */
  const char *socket;                    /* the path of a Unix socket; NULL: none */
  unsigned socket_mode;                  /* 0: 0600 */
  const char *home_socket;               /* a Unix socket for commands of this user that open the same home; NULL: none. Besides the others,
                                          * with mode 0600, and not among the addresses unless it is the only one */
  bool is_local;                         /* home_socket alone, whatever the settings say */
  uint64_t exit_idle_ms;                 /* stop after so long without a session, an unlocked vault, a request or a stream; 0: never */
  const char *tls_cert, *tls_key;        /* PEM files: TCP is HTTPS. Both or neither; looked at again when they change */
  bool no_auth;                          /* whoever reaches it is who they say; on loopback alone */
  bool insecure_listen;                  /* other addresses than loopback without TLS */
  const char *hosts[PD_SERVE_NAMES_MAX]; /* names that Host may have besides localhost and addresses; ended by NULL */
  const char *origins[PD_SERVE_NAMES_MAX]; /* of pages that may call: scheme://host[:port]; ended by NULL */
  pd_log_options log;
  bool is_level_given;   /* the log's level: the setting does not change it */
  const char *mcp_tools; /* globs of capabilities that /mcp offers; NULL: all */
  bool mcp_approvals;    /* the form of an MCP client counts as the operator's decision; else the setting mcp.approvals says */
  bool no_mcp_approvals; /* it does not, whatever the setting says */
  const char *program;   /* perdure itself, for what needs a process of its own; NULL: that is not served */
  bool trusts_records;   /* raw routes take what is no record, for tests of them */
  pd_bytes passphrase;   /* the vault's, which is unlocked with it (until it idles out: vault.idle); data NULL: it stays locked */
  const struct pd_mcp_provider *mcp_provider; /* of /mcp, for tests; NULL: the home's capabilities */
} pd_serve_options;

typedef struct pd_server pd_server;

/* Were sockets passed to this process ($LISTEN_FDS and $LISTEN_PID, as systemd does)? pd_server_open listens on them besides `listen` and
 * `socket`, which may both be NULL then. */
bool pd_serve_is_activated(void);

/* Open the home and listen. PD_EXISTS if another process serves this home, unless that stops when it is idle, and is; PD_INVALID for an
 * address that is none, PD_DENIED for one that may not be used so; PD_STORAGE if the system refuses. `options` are borrowed until the
 * server is closed. */
PD_MUST_USE pd_code pd_server_open(const pd_serve_options *options, pd_server **out, pd_error *err);
/* "http://127.0.0.1:7373", "https://…" or "unix:/run/perdure.sock": the index-th address, NULL after the last. Borrowed until close. */
const char *pd_server_address(const pd_server *server, size_t index);

/* What opens the server's page in a browser. */
typedef struct pd_link {
  char url[320];                  /* http://127.0.0.1:7373/#token=… */
  char token[PD_TOKEN_TEXT_SIZE]; /* the operator's; "": the server asks for none (no_auth) */
  char token_id[PD_TOKEN_ID_SIZE], expires_at[32];
} pd_link;

/* The options that are in force: those given and the settings. Borrowed until close. */
const pd_serve_options *pd_server_options(const pd_server *server);

/* Make the link, with a token that is good for `ttl_s` seconds at most, and until the server is closed. For the first TCP address;
 * PD_INVALID if there is none. `out` holds a secret: wipe it. */
PD_MUST_USE pd_code pd_server_link(pd_server *server, uint64_t ttl_s, pd_link *out, pd_error *err);
/* Serve until SIGTERM or SIGINT, then finish what was begun. With exit_idle_ms, SIGUSR1 asks it to stop at once if it is idle. */
PD_MUST_USE pd_code pd_server_run(pd_server *server, pd_error *err);
/* Close the home: everything acknowledged is on disk. Takes NULL. */
pd_code pd_server_close(pd_server *server, pd_error *err);

#endif
