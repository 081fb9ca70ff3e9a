/* watcher.h: one watcher, as the hub sees it. Invariants are in hub.h. */
#ifndef PD_WIRE_WATCHER_H
#define PD_WIRE_WATCHER_H

#include "wire/gone.h"
#include "wire/http.h"
#include "wire/sse.h"

#include <perdure/follow.h>
#include <stdatomic.h>

typedef struct pd_watcher pd_watcher;

struct pd_hub {
  pd_server *server;
  pthread_mutex_t lock; /* of the list */
  pd_watcher *first;
  atomic_size_t count;
  atomic_ullong cut_count;
  atomic_bool is_draining;
};

/* What is looked at for each event stands together: a thousand of them are walked through. */
struct pd_watcher {
  pd_follower follower; /* first */
  pthread_mutex_t lock; /* of stream, reader, place, pushed_ms, is_live, is_filling, is_over; taken last */
  pd_sse stream;
  pd_sse_reader reader;
  int fd; /* -1: only libmicrohttpd writes */
  bool wants_live;
  bool is_live, is_over;
  bool is_filling;       /* the pool has it: it must not be woken by another, and so not end */
  bool is_open;          /* it hears of hidden refs, too */
  uint64_t policy_epoch; /* when policy was asked last; the watcher's thread of the moment */
  pd_watch_cursor place; /* of a live one: what lies before was sent, or is queued */
  int64_t pushed_ms;
  pd_buf prefix;
  char ref[PD_REF_SIZE_MAX + 1]; /* "": all */
  pd_hub *hub;
  pd_watcher *next, **link;        /* in hub->first */
  char name[PD_NAME_SIZE_MAX + 1]; /* of the store */
  pd_caller caller;                /* who it is, and the capability that tells the same: asked again when policy changes */
  const char *like;
  pd_store *store; /* borrowed while it is behind, for */
  pd_watch *watch;
  pd_job job;       /* reading on, by the pool */
  pd_leaver leaver; /* its client */
};

/* If it is live, and was told nothing for `after_ms`: a heartbeat. */
void pd_watcher_beat(pd_watcher *watcher, int64_t after_ms);
/* Say why, and end it; one that is behind sees by itself that the server stops. */
void pd_watcher_stop(pd_watcher *watcher);
/* Set it up with a response of its own. On failure it is freed. */
PD_MUST_USE pd_code pd_watcher_begin(pd_watcher *watcher, const pd_hub_request *request, struct MHD_Response **out, pd_error *err);

#endif
