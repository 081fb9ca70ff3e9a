/*
 * http.h: the inside of the HTTP server.
 *
 * Place: libmicrohttpd's threads (one a processor, epoll) read requests and write replies. A route's function runs there if it answers
 * from memory; else the connection sleeps, a worker of the pool runs it and wakes the connection. No thread belongs to a connection.
 *
 * W1  A request is answered once: by its route's function, by the guard before it, or by libmicrohttpd for what is no HTTP.
 * W2  Every buffer has a maximum from birth: head, body, queue of the pool, connections, requests in flight and streams of an agent and of
 *     a token, and the bytes of their bodies and answers. What all share is never one agent's to use up (shares.c).
 * W3  Whoever calls is settled (auth.c) before a route's function runs, and the function takes names of agents from nowhere else.
 * W4  A request belongs to one thread at a time: to libmicrohttpd's until it is suspended, to the worker until it is resumed.
 */
#ifndef PD_WIRE_HTTP_H
#define PD_WIRE_HTTP_H

#include "base/json.h"
#include "wire/hub.h"
#include "wire/metrics.h"
#include "wire/notify.h"
#include "wire/pool.h"
#include "wire/pulse.h"
#include "wire/serve.h"
#include "wire/settle.h"
#include "wire/spool.h"
#include "wire/stall.h"
#include "wire/tls.h"
#include "wire/waits.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#define PD_REQUEST_ID_SIZE 68
#define PD_HEAD_SIZE_MAX (12 * 1024) /* memory of a connection: its head must fit, and an idle one costs no more */
#define PD_LISTENERS_MAX 8
#define PD_REPLY_HEADERS_MAX 4

typedef struct pd_request pd_request;

/* ---- settings (settings.c) ---- */

/* Of [server] and [store] in perdure.toml, and limits that are not settings; read with relaxed atomics, as a reload may change them. */
typedef struct pd_wire_settings {
  _Atomic uint64_t body_size_max, bytes_max, bundles_max, connection_count_max, in_flight_max, agent_in_flight_max, request_ms, idle_ms,
    drain_ms;
  _Atomic uint64_t heartbeat_ms, watcher_count_max, agent_watcher_count_max, watch_queue_bytes, rate, agent_rate;
  _Atomic uint64_t store_open_max, store_idle_ms;
} pd_wire_settings;

/* ---- connections (connection.c) ---- */

typedef struct pd_listener {
  pd_server *server;
  int fd;
  struct MHD_Daemon *daemon;
  bool is_unix, is_tls;
  bool is_home;       /* home_socket */
  bool is_passed;     /* whoever started us listens on it, too: a Unix socket stays */
  size_t count, room; /* connections; the lock of the connections */
  bool is_full;       /* and it was said */
  char address[160];
} pd_listener;

typedef enum pd_conn_state {
  PD_CONN_IDLE,    /* no whole request head was seen since `since_ms` */
  PD_CONN_READING, /* a body is being read */
  PD_CONN_BUSY     /* it is our turn: working, or sending */
} pd_conn_state;

typedef struct pd_conn pd_conn;
struct pd_conn {
  pd_conn *next, *prev;
  const pd_listener *listener;
  int fd;
  pd_conn_state state;
  int64_t since_ms;
  pd_token_mark mark; /* of an answer that lasts: id "": there is none, or it needs no token */
  bool is_cut;        /* for that token's sake */
  /* What the request before it had: a client mostly says the same again. */
  pd_token_memory known;
  const pd_serve_options *host_of; /* the options by which `host` is allowed */
  char host[64];
};

typedef struct pd_conns {
  pthread_mutex_t lock;
  pd_conn *first;
  size_t count, peak; /* peak: since memory was given back */
  int64_t given_back_ms;
} pd_conns;

/* ---- who calls (auth.c) ---- */

typedef struct pd_caller {
  pd_server *server;
  char agent[PD_NAME_SIZE_MAX + 1]; /* "": none was named */
  char session[PD_SESSION_ID_SIZE]; /* as it was given; "": none */
  bool is_session_live;             /* it is one of this agent's: only then it is recorded */
  bool is_operator;                 /* or an auditor, which its token says */
  bool has_token;                   /* else: --no-auth, or the server's own user on the Unix socket */
  bool is_local;                    /* a command of that user, on home_socket: it could open the home itself */
  const pd_token_info *token;       /* held if has_token; else one that only says the role. Never NULL */
} pd_caller;

/* Nobody is known yet. */
void pd_caller_init(pd_caller *caller, pd_server *server);
/* Another's, with its own hold on the token. */
void pd_caller_copy(const pd_caller *from, pd_caller *to);
void pd_caller_done(pd_caller *caller);

/* Who it is to a home: for pd_call, pd_authorise_read. Borrows from the caller. */
pd_ctx pd_caller_ctx(const pd_caller *caller);
/* A line of the audit: the caller asked for what `capability` tells, of `subject`, and this came of it. */
void pd_caller_audit(const pd_caller *caller, const char *capability, pd_bytes subject, pd_code code, const pd_error *err);
/* Is it limited to some keys? */
bool pd_caller_is_narrow(const pd_caller *caller);
/* …or to some capabilities? */
bool pd_caller_is_scoped(const pd_caller *caller);
/* May it read refs that pd_history_hides, past the capabilities that are about them? The operator may, and the auditor, unless their token
 * is narrowed. */
bool pd_caller_sees_hidden(const pd_caller *caller);

/* ---- routes (route.c) ---- */

typedef enum pd_lane {
  PD_LANE_HERE,  /* answers at once, from memory */
  PD_LANE_STAGE, /* a call that writes: begun at once, and finished with all others that wait for the same sync */
  PD_LANE_WRITE, /* waits for the disk */
  PD_LANE_SLOW,  /* may take seconds */
  PD_LANE_WATCH  /* begins to watch */
} pd_lane;

/* Writes the answer into the request (reply.c). Returns when it is there. */
typedef void (*pd_route_run)(pd_request *request);

typedef struct pd_route {
  const char *method; /* GET answers HEAD too */
  const char *path;   /* ends with '/' or '*': what follows is request->rest */
  pd_route_run run;
  pd_lane (*lane)(pd_request *request); /* NULL: PD_LANE_HERE */
  bool is_open;                         /* answers whoever asks: health */
  bool is_stream;                       /* does not count as in flight: it has a limit of its own */
  bool is_spooled;                      /* its body, if pd_bundle_takes_body, goes into a file (spool.h) */
} pd_route;

/* The table, by index; NULL after the last. For those who walk through all of it. */
const pd_route *pd_route_at(size_t index);
/* The route of a path and method; NULL: none. `*out_allow` then has the methods that the path has, or "". */
const pd_route *pd_route_find(const char *method, const char *path, const char **out_rest, char *out_allow, size_t allow_size);

/* ---- requests (request.c) ---- */

typedef enum pd_request_state {
  PD_REQUEST_NEW,
  PD_REQUEST_KNOWN,   /* who calls was looked up elsewhere: the rest of the head is to be judged */
  PD_REQUEST_SPOOLED, /* what its body goes into was opened, or is refused */
  PD_REQUEST_READING,
  PD_REQUEST_WORKING,
  PD_REQUEST_READY, /* what it waited for is there: its route's function makes the answer of it, where it was read */
  PD_REQUEST_ANSWERED,
  PD_REQUEST_SENT
} pd_request_state;

struct pd_request {
  pd_job job; /* first: the pool's */
  pd_server *server;
  pd_conn *conn;
  struct MHD_Connection *connection;
  const pd_route *route;
  pd_request_state state;
  char id[PD_REQUEST_ID_SIZE];
  char method[8];
  char *path;          /* decoded */
  const char *rest;    /* in path: what follows the route's */
  const char *bad_uri; /* what is wrong with it; NULL: nothing */
  pd_buf body;
  bool is_too_large; /* the body is longer than it may be: what follows is dropped */
  bool is_refused;   /* the answer is there before the body is: it is dropped */
  size_t dropped;
  pd_spool *spool;   /* where its body goes, or its answer comes from; NULL: memory */
  size_t held;       /* bytes of body or answer that are counted: shares.c */
  bool is_known;     /* with PD_REQUEST_KNOWN: the caller is admitted; else the answer is in the request */
  bool is_counted;   /* in flight */
  bool is_streaming; /* counted as a stream */
  bool is_write;     /* counted in server->stall */
  pd_begun *begun;   /* the call, until its route's function finishes it */
  /* Set by a route's function that has no answer yet. True: the request is another's now, who runs the function again (pd_request_run) or
   * calls pd_request_ready. False: run it again at once. */
  bool (*park)(pd_request *request);
  pd_waiter *waiter;        /* of one that waits (pd_request_wait) */
  struct pd_mcp_flow *flow; /* that it waits for: mcp_http.c */
  pd_caller caller;
  pd_capability_info called; /* of a call, once its lane is asked for; name NULL: there is no such capability */
  pd_grant grant;            /* of a route that reads by other ways than calls */
  int64_t begun_us;
  /* the answer */
  unsigned status;
  const char *type; /* Content-Type; static storage */
  pd_buf out;
  char etag[2 * PD_ID_HEX_SIZE + 2]; /* with quotes; "": none. A diff has two ids */
  const char *allow;                 /* of a 405 */
  const char *policy;                /* Content-Security-Policy; NULL: none. As long as the server lives */
  char allow_text[48];
  unsigned retry_after_s; /* 0: none */
  struct {
    const char *name;
    char value[256];
  } headers[PD_REPLY_HEADERS_MAX]; /* more of them */
  size_t header_count;
  pd_code code;                /* of the answer, for metrics */
  const char *outcome;         /* the error's name, for log and metrics; NULL: ok */
  const char *subject;         /* the capability, for log and metrics; NULL: none */
  struct MHD_Response *stream; /* instead of `out` */
};

/* The pools that run what may wait. */
PD_MUST_USE pd_code pd_request_pools(pd_server *server, pd_error *err);
/* Run its route's function, and give it back to libmicrohttpd. On a worker. */
void pd_request_run(pd_request *request);
/* A request that was parked: there is something to answer with. */
void pd_request_ready(pd_request *request);
/* May its answer be a stream, that lasts? Agent and token have a share of all streams. False: an answer is in the request. */
bool pd_request_streams(pd_request *request);
/* It is not in flight any more: answered, or a stream that may last. */
void pd_request_leave(pd_request *request);
/* The stream is over. */
void pd_request_stream_over(pd_request *request);
const char *pd_request_header(const pd_request *request, const char *name);
/* Of a request at work: false if the client has closed its connection, and does not want the answer any more. As pd_bundle_progress. */
bool pd_request_is_wanted(pd_request *request, uint64_t done, uint64_t total);
/* A parameter of the query, decoded; NULL if it was not given. */
const char *pd_request_query(const pd_request *request, const char *name);

/* ---- replies (reply.c) ---- */

unsigned pd_status_of(const pd_error *err);
/* request->out has JSON. */
void pd_reply(pd_request *request, unsigned status);
/* The one shape of an error, with the status that fits. */
void pd_reply_error(pd_request *request, const pd_error *err);
/* The same with another status, and what to do about it. */
void pd_reply_failure(pd_request *request, unsigned status, pd_code code, const char *name, const char *hint, const char *fmt, ...)
  PD_PRINTF(6, 7);
/* The shape itself replaces what `out` holds. `hint` NULL: the code's own; `request_id` may be NULL. */
void pd_wire_error(pd_buf *out, const pd_error *err, const char *hint, const char *request_id);
/* A header of the answer; `value` is copied, as far as there is room. */
void pd_reply_header(pd_request *request, const char *name, const char *value);
/* To libmicrohttpd. */
enum MHD_Result pd_reply_send(pd_request *request);

/* framing.c: is it certain where the request ends, and who sends it? An answer is in the request if not. */
bool pd_framing_admits(pd_request *request, const char *version);

/* ---- the guard (guard.c) ---- */

/* May this request be answered at all: its Host, its Origin? An answer is in the request if not. */
bool pd_guard_admits(pd_request *request);
/* A browser asks whether a page may ask: answered here. */
bool pd_guard_preflight(pd_request *request);
/* The headers by which a browser shows the answer to a page of an origin that was allowed. */
void pd_guard_add(const pd_request *request, struct MHD_Response *response);
/* "127.0.0.1", "::1", "localhost"… */
bool pd_is_loopback(const char *host);

/* auth.c: does it take the disk to know who calls, or who is refused? Then pd_auth_admits has to be called where one may wait. */
bool pd_auth_must_wait(pd_request *request);
/* Settle request->caller. False: an answer is in the request. */
bool pd_auth_admits(pd_request *request);

/* ---- limits (meter.c) ---- */

typedef struct pd_meter pd_meter;
PD_MUST_USE pd_code pd_meter_new(pd_meter **out, pd_error *err);
void pd_meter_free(pd_meter *meter);
/* One more in flight for `name`, unless there are `max` already. */
PD_MUST_USE bool pd_meter_enter(pd_meter *meter, const char *name, uint64_t max);
void pd_meter_leave(pd_meter *meter, const char *name);
/* The same with `amount` more of something, which has to fit as a whole. */
PD_MUST_USE bool pd_meter_take(pd_meter *meter, const char *name, uint64_t amount, uint64_t max);
void pd_meter_give(pd_meter *meter, const char *name, uint64_t amount);
uint64_t pd_meter_of(pd_meter *meter, const char *name);

typedef struct pd_rates pd_rates; /* rate.c */
PD_MUST_USE pd_code pd_rates_new(pd_rates **out, pd_error *err);
void pd_rates_free(pd_rates *rates);
/* One more request of the token or agent `id`, which may make `rate` a second. */
PD_MUST_USE bool pd_rate_take(pd_rates *rates, const char *id, uint64_t rate);
/* shares.c: one more message of the caller, by its token's rate and its agent's. PD_LIMIT. */
PD_MUST_USE pd_code pd_rate_admits(const pd_caller *caller, pd_error *err);
/* What one agent may have of `total`: `wanted`, but never more than half. */
uint64_t pd_share_of(uint64_t wanted, uint64_t total);
/* shares.c: count a request in, in all, for its agent and for its token. False: 429 is in the request. */
PD_MUST_USE bool pd_shares_enter(pd_request *request);
/* shares.c: the longest body that the caller's share has room for. */
uint64_t pd_bytes_share(const pd_request *request);
/* Count `size` bytes of its body, of which some may be counted already. False: there is no room, and an answer is in the request. */
PD_MUST_USE bool pd_bytes_hold(pd_request *request, size_t size);
/* Its answer takes the place of its body, which is freed. Never refused: what it tells of has been done. */
void pd_bytes_answer(pd_request *request);
void pd_bytes_release(pd_request *request);
/* Before it runs: does its caller leave so many answers unread that there is no room for another? True: an answer is in the request. */
PD_MUST_USE bool pd_bytes_are_over(pd_request *request);

/* ---- the server (server.c) ---- */

typedef struct pd_own_options pd_own_options; /* options.c */

struct pd_server {
  const pd_serve_options *_Atomic options; /* in force now: `given`, then those of `own`; a reload puts others in their place */
  const pd_serve_options *given;
  pd_own_options *own; /* the newest first */
  pd_home *home;
  int lock_fd; /* of FOLDER/.server.lock */
  pd_wire_settings settings;
  pd_listener listeners[PD_LISTENERS_MAX];
  size_t listener_count;
  pd_conns conns;
  size_t connection_room; /* of all listeners: who were accepted beyond it would have no descriptor */
  size_t store_room;      /* agents' stores that there are descriptors for */
  atomic_llong files_told_ms;
  pd_pool writers, slow, readers; /* readers: for watchers that are behind */
  pd_pool finishers;              /* the settler's alone: no request can keep it from finishing what was staged */
  pd_settler settler;
  pd_stall stall;     /* of writes */
  pd_gone *gone;      /* notices who has left */
  pd_waits *waits;    /* what waits for a message, or for a log to grow */
  struct pd_raw *raw; /* stores.h */
  pd_meter *meter;    /* requests in flight, of agents and of tokens */
  pd_meter *streams;  /* the same, of answers that last */
  atomic_size_t stream_count;
  pd_meter *bytes;   /* of bodies and answers */
  pd_meter *spooled; /* bytes of bundles on their way, and */
  pd_meter *spools;  /* how many, of tokens */
  atomic_ullong spooled_bytes;
  atomic_size_t spool_count;
  atomic_size_t byte_count;
  pd_rates *rates;
  pd_hub *hub;
  pd_metrics *metrics;
  pd_tls *tls; /* NULL: none */
  pd_notify notify;
  pd_pulse pulses[2];                        /* of writers and readers; `slow` may rightly do one thing for minutes */
  int64_t pulse_ms;                          /* the last sign of life */
  struct pd_mcp_http *mcp;                   /* mcp_http.h */
  int64_t rechecked_ms;                      /* pd_conns_recheck */
  int64_t idle_since_ms;                     /* idle.c */
  unsigned long long idle_requests;          /* request_count then */
  char policy_problem[PD_ERROR_MESSAGE_MAX]; /* that the log was told of last */
  atomic_bool is_buffered;                   /* store.flush: an ok does not wait for the disk */
  atomic_bool is_draining;
  atomic_bool is_full;           /* space.c */
  atomic_ullong full_count_seen; /* of the metrics' full count */
  atomic_size_t in_flight;
  atomic_ullong request_count;
  char id_prefix[12];                /* of request ids: random */
  char link_token[PD_TOKEN_ID_SIZE]; /* the id of the link's token; "": none */
  pd_buf capabilities, openapi;
  char capabilities_etag[PD_ID_HEX_SIZE + 2], openapi_etag[PD_ID_HEX_SIZE + 2], page_etag[PD_ID_HEX_SIZE + 2];
  pd_buf page_policy; /* text, with its NUL */
};

/* ---- what the files share ---- */

/* settings.c: from the home's perdure.toml, and again on a reload. */
PD_MUST_USE pd_code pd_wire_settings_load(pd_server *server, pd_error *err);
/* options.c: the server's options, from what was given and the home's perdure.toml; and again on a reload. */
PD_MUST_USE pd_code pd_wire_options_load(pd_server *server, pd_error *err);
void pd_wire_options_free(pd_server *server);
/* listen.c */
PD_MUST_USE pd_code pd_listen_all(pd_server *server, pd_error *err);
/* May this address be listened on? PD_DENIED. */
PD_MUST_USE pd_code pd_listen_check_host(const pd_server *server, const char *host, pd_error *err);
pd_listener *pd_listener_new(pd_server *server, int fd, bool is_unix);
/* What the system gave us, port 0 or not: http://HOST:PORT. */
void pd_listener_name(pd_listener *listener);
/* passed.c: sockets that whoever started us listens on. PD_INVALID for what is none; as pd_listen_check_host. */
PD_MUST_USE pd_code pd_listen_passed(pd_server *server, pd_error *err);
PD_MUST_USE pd_code pd_lock_home(pd_server *server, pd_error *err);
/* idle.c, of a server with exit_idle_ms, about once a second: may it stop now? True: no request is admitted from here on. `is_asked`: it
 * need not have been idle for long. */
bool pd_idle_leaves(pd_server *server, bool is_asked);
/* Remove home_socket and let those who have connected get their answers, half a second at most: from here on commands do without us. */
void pd_idle_unlink(pd_server *server);
/* server.c: requests, watches or MCP's streams. */
bool pd_server_is_at_work(pd_server *server);
/* request.c: the callbacks that a daemon is started with. */
PD_MUST_USE pd_code pd_daemon_start(pd_listener *listener, unsigned threads, pd_error *err);
/* read.c: may the caller read of the store `name` what a call of `like` tells? `key` may be NULL. Sets request->grant.
 * PD_DENIED, which is a line of the audit; what came of a read that was permitted is for pd_read_audit. */
PD_MUST_USE pd_code pd_read_permit(pd_request *request, const char *name, const char *like, const char *key, pd_error *err);
void pd_read_audit(const pd_request *request, const char *name, const char *like, const char *key, pd_code code, const pd_error *err);
/* The store, by request->grant; it may be made if it is the caller's own or the shared one. To be given back (pd_home_return).
 * PD_NOT_FOUND, also for `system`. */
PD_MUST_USE pd_code pd_read_store(const pd_request *request, const char *name, bool create, pd_store **out, pd_error *err);
/* connection.c */
void pd_conn_notify(void *cls, struct MHD_Connection *connection, void **socket_context, enum MHD_ConnectionNotificationCode code);
void pd_conn_enter(pd_conn *conn, pd_conn_state state);
size_t pd_conns_count(pd_server *server);
/* Say that there is no room for more; once, until there is again. */
void pd_conns_tell_full(pd_server *server);
/* Cut those who take too long to ask. */
void pd_conns_sweep(pd_server *server);
/* Cut those who ask nothing now. */
void pd_conns_hang_up(pd_server *server);
/* lasting.c: an answer that may last begins: from here on it ends when the caller's token does. */
void pd_conn_lasts(pd_conn *conn, const pd_caller *caller);
/* It is over. */
void pd_conn_lasted(pd_conn *conn);
/* About once a second: cut those whose token is not good any more. */
void pd_conns_recheck(pd_server *server);
/* describe.c: what there is: the capabilities and the OpenAPI document, made once. */
PD_MUST_USE pd_code pd_describe(pd_server *server, pd_error *err);

/* space.c: was a call refused for want of space, and is there still none? */
bool pd_space_is_full(const pd_server *server);
/* How many open stores refuse writes because a sync failed; the name of one of them in `name` (NULL: not wanted), if there are any. */
size_t pd_sick_count(pd_server *server, char name[PD_NAME_SIZE_MAX + 1]);
/* About once a second, by one thread: look whether there is space again. */
void pd_space_tick(pd_server *server);
/* link.c: the link's token is good for nothing from here on. */
void pd_link_revoke(pd_server *server);
/* page.c: the page, made by tools/embed.c of page/page.html; and its policy. */
extern const unsigned char pd_page_html[];
extern const size_t pd_page_html_size;
PD_MUST_USE pd_code pd_page_prepare(pd_server *server, pd_error *err);

/* call.c: pd_call within the caller's scopes, counted. For every way in. `out` may be empty after a failure. */
PD_MUST_USE pd_code pd_wire_call(const pd_caller *caller, const pd_ctx *ctx, const char *capability, pd_bytes input, pd_buf *out,
                                 pd_error *err);

/* ---- routes' functions ---- */

void pd_route_call(pd_request *request);
/* Does what the request asks for change something? For server->stall: a read that finishes says nothing about the writes. */
bool pd_route_call_writes(const pd_request *request);
/* For a route's function that may wait, before it looks: with NULL for a message to its agent, else for the log of `store` to grow. NULL:
 * no memory. If there is nothing yet, request->park = pd_request_park; with an answer, pd_request_wait_over. */
pd_waiter *pd_request_wait(pd_request *request, const char *store);
bool pd_request_park(pd_request *request);
void pd_request_wait_over(pd_request *request);
/* For PD_LANE_STAGE. True: the answer is there; else request->begun is owed, to pd_route_call. */
bool pd_route_call_begin(pd_request *request);
pd_lane pd_route_call_lane(pd_request *request);
void pd_route_capabilities(pd_request *request);
void pd_route_capability(pd_request *request);
void pd_route_openapi(pd_request *request);
void pd_route_mcp(pd_request *request);
pd_lane pd_route_mcp_lane(pd_request *request);
void pd_route_healthz(pd_request *request);
void pd_route_readyz(pd_request *request);
void pd_route_agents(pd_request *request);
pd_lane pd_route_agents_lane(pd_request *request);
void pd_route_watch(pd_request *request);
pd_lane pd_route_watch_lane(pd_request *request);
void pd_route_page(pd_request *request);
void pd_route_icon(pd_request *request);
void pd_route_stores(pd_request *request);
pd_lane pd_route_stores_lane(pd_request *request);
void pd_route_store(pd_request *request);
pd_lane pd_route_store_lane(pd_request *request);
void pd_route_bundle(pd_request *request);
pd_lane pd_route_bundle_lane(pd_request *request);
/* The table behind /v1/bundles/STORE/, by index; false after the last. For those who walk through all of it. */
bool pd_bundle_verb_at(size_t index, const char **out_name, bool *out_takes_body);
/* Is it an import, whose body is the bundle? */
bool pd_bundle_takes_body(const pd_request *request);
/* Before the body is read: may the caller import into that store? PD_DENIED. */
PD_MUST_USE pd_code pd_bundle_permit(pd_request *request, pd_error *err);
void pd_route_home(pd_request *request);
pd_lane pd_route_home_lane(pd_request *request);
/* The table behind /v1/home/, by index; false after the last. For those who walk through all of it. */
bool pd_home_verb_at(size_t index, const char **out_method, const char **out_path);
void pd_route_metrics(pd_request *request);
pd_lane pd_route_metrics_lane(pd_request *request);

#endif
