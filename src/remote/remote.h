/*
 * remote.h: a home on a server (`perdure serve`) as a home of this program: the backend of http:, https: and unix: URIs, and requests
 * to the server's other routes. docs/guide/remote.md is for users, decision 036 has the reasons.
 *
 *     pd_remote_options options = {.ca = NULL};
 *     if (pd_remote_setup(&options, &err)) …                      // once; registers the three schemes
 *     if (pd_remote_token("http://127.0.0.1:7373", token, &err)) …
 *     pd_store_open("http://127.0.0.1:7373", "main", NULL, &store, &err)
 *
 *     pd_remote_request ask = {.uri = uri, .method = "POST", .path = "/v1/call/state.persistent.get", .body = input};
 *     if (pd_remote_ask(&ask, &reply, &out, &err)) …              // no answer came
 *     if (reply.status != 200) return pd_remote_error(&out, "what was asked", &err);
 *
 * R1  A request is either answered by the server (whatever the status) or fails with PD_STORAGE that names the URI.
 * R2  Nothing is sent through a proxy, no redirect is followed, and https is never weakened: who cannot be verified is not spoken to.
 * R3  Connections are kept and shared by all who use the same URI; a process that was forked makes its own.
 * R4  A server cannot hold a request for ever, nor fill the memory: all of it may take a minute (an hour for what is_slow) and a second for
 *     each KiB that was sent or received, and an answer in memory has at most 257 MiB. Streams (flight.h) have limits of their own.
 * R5  A token is sent to the server that it was given for (the same scheme, host and port) and to no other. Over http it is sent to this
 *     machine alone, unless sends_openly.
 */
#ifndef PD_REMOTE_REMOTE_H
#define PD_REMOTE_REMOTE_H

#include <perdure/perdure.h>

#define PD_REMOTE_TOKEN_SIZE_MAX 512
#define PD_REMOTE_REPORT_SIZE 256

typedef struct pd_remote_options {
  const char *ca;    /* a file of certificates in PEM that https servers are checked with; NULL: the system's */
  bool sends_openly; /* R5: tokens also over http to other machines */
  /* R4, for tests: 0 means a minute (an hour for what is_slow), and 257 MiB */
  unsigned patience_s;
  size_t answer_size_max;
} pd_remote_options;

/* Set up, and register the backends. Not thread-safe: call it once, before the first request or open. The options are copied. */
PD_MUST_USE pd_code pd_remote_setup(const pd_remote_options *options, pd_error *err);

/* R5: the token of requests to the server `uri`, instead of the one that it had. For two servers at most (PD_LIMIT). Both are copied.
 * PD_INVALID for an address or a token that is none, PD_DENIED where others can listen. */
PD_MUST_USE pd_code pd_remote_token(const char *uri, const char *token, pd_error *err);
/* Is there a token for the server? */
bool pd_remote_has_token(const char *uri);

/* Does the URI name a server: http:, https: or unix:? */
bool pd_remote_is(const char *uri);
/* Is it written as http://HOST[:PORT], https://HOST[:PORT] or unix:/PATH? PD_INVALID says what is wrong. */
PD_MUST_USE pd_code pd_remote_check(const char *uri, pd_error *err);
/* Do both name the same server: scheme, host and port, or the same socket? */
bool pd_remote_is_same(const char *a, const char *b);
/* The role to ask the server as for more than an agent may: a token says it by itself, then NULL; without one "operator". */
const char *pd_remote_role(const char *uri);
/* Can nobody listen on the way: https, a Unix socket, or this machine? */
bool pd_remote_is_private(const char *uri);

typedef struct pd_remote_request {
  const char *uri;                    /* of the home */
  const char *method, *path;          /* the path with its query, encoded */
  const char *agent, *session, *role; /* Perdure-Agent, Perdure-Session, Perdure-Role; NULL: not sent */
  const char *type;                   /* of the body; NULL: application/json */
  pd_bytes body;
  const int *send_fd; /* instead of `body`: `send_size` bytes of this file, from its beginning; NULL: none */
  uint64_t send_size;
  const int *take_fd;                                         /* an answer of status 200 goes into this file, not into `out`; NULL: none */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total); /* about once a second: false cancels; bytes of the two files. NULL: none */
  void *progress_ctx;
  bool is_slow;        /* it may work for long before it says anything: an hour; else a minute of silence is no answer */
  bool *out_is_unsent; /* if it fails: there was no connection, so nobody has seen the request; NULL: who cares */
} pd_remote_request;

typedef struct pd_remote_reply {
  unsigned status;
  uint64_t tail, next;                /* Perdure-Tail, Perdure-Next; 0: not said */
  char report[PD_REMOTE_REPORT_SIZE]; /* Perdure-Bundle: what is in the file; "": not said */
  bool is_doubtful;                   /* a kept connection had to be made anew: the server may have been asked twice */
} pd_remote_reply;

/* Ask and wait for the answer, whose body replaces what `out` holds. PD_STORAGE: there was none, or it came too slowly. PD_LIMIT:
 * it is over out->size_max, or over what R4 says. Cancelled: `progress` returned false. */
PD_MUST_USE pd_code pd_remote_ask(const pd_remote_request *request, pd_remote_reply *reply, pd_buf *out, pd_error *err);

/* The error that an answer tells. What is no error of ours is PD_STORAGE, and names `what` and the status. Returns its code. */
pd_code pd_remote_error(const pd_remote_reply *reply, pd_bytes body, const char *what, pd_error *err);

#endif
