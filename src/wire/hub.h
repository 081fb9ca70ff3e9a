/*
 * hub.h: those who watch a store by GET /v1/watch. Each is a follower of the store (perdure/follow.h), whose thread reads the log once for
 * all of them.
 *
 * X1  A watcher is behind or live. Behind, it reads the log by itself, as fast as its client takes it. It becomes live when it stands where
 *     the store's thread stands or past it (pd_follow_join); from then on it gets each event that comes after its own place, once.
 * X2  The id of an event is the place after it, so who comes back with Last-Event-ID goes on there: nothing is lost, nothing comes twice.
 * X3  A live watcher that is more than 256 KiB behind is cut off, with a reason; the others do not wait for it.
 * X4  While a watcher sleeps, libmicrohttpd does not touch its socket: the store's thread (or one that helps it) writes to it directly.
 *     What the socket does not take at once is queued, and libmicrohttpd is woken to send it. With TLS everything goes that way: only it
 *     can encrypt.
 * X5  Events that are due together are written as text once for all watchers that a thread tells, and go to each with one system call.
 *
 * LOCKS       The hub's, then a watcher's. None is held while a store is called, or a watcher stops to follow one.
 */
#ifndef PD_WIRE_HUB_H
#define PD_WIRE_HUB_H

#include "wire/pool.h"

#include <microhttpd.h>

typedef struct pd_server pd_server;
typedef struct pd_hub pd_hub;
typedef struct pd_caller pd_caller;

PD_MUST_USE pd_code pd_hub_new(pd_server *server, pd_hub **out, pd_error *err);
/* When no connection is served any more. Takes NULL. */
void pd_hub_free(pd_hub *hub);
size_t pd_hub_count(const pd_hub *hub);
/* How many were cut off for being too slow. */
uint64_t pd_hub_cut_count(const pd_hub *hub);
/* About once a second: heartbeats. */
void pd_hub_tick(pd_hub *hub);
/* End all of them, with a reason; they come back elsewhere, or later. */
void pd_hub_drain(pd_hub *hub);

typedef struct pd_hub_request {
  const char *name; /* of the store */
  const pd_grant *grant;
  pd_store *store; /* borrowed; the watcher gives it back if pd_hub_add returns PD_OK */
  pd_watch_options options;
  struct MHD_Connection *connection;
  int fd;                  /* -1: unknown */
  bool is_open;            /* refs that pd_history_hides are told, too */
  const pd_caller *caller; /* who it is */
  const char *like;        /* the capability that tells the same; static */
  uint64_t policy_epoch;   /* from before it was permitted */
  bool wants_live;         /* say when all that was there is told */
  bool is_direct;          /* it may be written to past libmicrohttpd: not with TLS */
} pd_hub_request;

/* A new watcher, as a response that libmicrohttpd streams. PD_LIMIT if there are too many; PD_INVALID for a place that is none. */
PD_MUST_USE pd_code pd_hub_add(pd_hub *hub, const pd_hub_request *request, struct MHD_Response **out, pd_error *err);

#endif
