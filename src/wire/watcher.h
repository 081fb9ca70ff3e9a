/* watcher.h: one follower of a store, as the hub sees it. Invariants are in hub.h. */
#ifndef PD_WIRE_WATCHER_H
#define PD_WIRE_WATCHER_H

#include "wire/hub.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct pd_watcher pd_watcher;
typedef struct pd_topic pd_topic;

struct pd_hub {
  pd_server *server;
  pthread_mutex_t lock; /* of the topics and their refs; taken before a topic's */
  pthread_cond_t changed;
  pd_topic *topics;
  atomic_size_t count;
  atomic_ullong cut_count;
  atomic_bool is_draining;
};

/* A store that somebody follows. */
struct pd_topic {
  pd_hub *hub;
  pd_topic *next;
  char name[PD_NAME_SIZE_MAX + 1];
  unsigned refs;   /* watchers; hub's lock */
  pd_watch *watch; /* its thread's */
  pthread_mutex_t lock;
  pd_watcher *live;
  pd_watch_cursor position; /* everything before it was given to those in `live` */
};

struct pd_watcher {
  pd_job job; /* first: reading on, by the pool */
  pd_watcher *next, *prev;
  pd_topic *topic;
  struct MHD_Connection *connection;
  int fd;                        /* -1: only libmicrohttpd writes */
  char ref[PD_REF_SIZE_MAX + 1]; /* "": all */
  pd_buf prefix;
  pd_watch *watch;        /* while it is behind */
  pd_watch_cursor joined; /* when it became live: what lies before was sent */
  int64_t pushed_ms;
  pthread_mutex_t lock; /* of what follows; taken last */
  pd_buf queue;
  size_t sent; /* of the queue */
  bool is_live, is_asleep, is_over;
};

pd_code pd_topic_take(pd_hub *hub, const char *name, pd_store *store, pd_topic **out, pd_error *err);
void pd_topic_release(pd_topic *topic);

/* < 0, 0 or > 0: a place before, at or after another. */
int pd_cursor_compare(const pd_watch_cursor *a, const pd_watch_cursor *b);

/* With the topic's lock held: */
/* Everything before it was sent or is queued. */
const pd_watch_cursor *pd_watcher_place(const pd_watcher *watcher);
bool pd_watcher_wants(const pd_watcher *watcher, const pd_watch_event *event);
void pd_watcher_push(pd_watcher *watcher, pd_bytes text);
/* Say why, and end it. */
void pd_watcher_cut(pd_watcher *watcher, const char *reason);

#endif
