/* watcher.h: one follower of a store, as the hub sees it. Invariants are in hub.h. */
#ifndef PD_WIRE_WATCHER_H
#define PD_WIRE_WATCHER_H

#include "wire/gone.h"
#include "wire/hub.h"
#include "wire/news.h"
#include "wire/team.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct pd_watcher pd_watcher;
typedef struct pd_topic pd_topic;

struct pd_hub {
  pd_server *server;
  pthread_mutex_t lock; /* of the topics, their refs and their number; taken before a topic's */
  pthread_cond_t changed;
  pd_topic *topics;
  size_t topic_count; /* those included that are being freed */
  pd_team *team;      /* who share the sending where many follow */
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
  pd_store *store; /* borrowed as long as there is the topic, and so while it has watchers */
  pd_watch *watch; /* its thread's */
  pthread_mutex_t lock;
  pd_watcher **live; /* room for all of `refs`: becoming live cannot fail */
  size_t live_count, live_room;
  pd_watch_cursor position; /* everything before it was given to those in `live` */
};

/* What is looked at for each event stands together: a thousand of them are walked through. */
struct pd_watcher {
  pthread_mutex_t lock; /* of queue, sent, is_live, is_asleep, is_over; taken last */
  pd_buf queue;
  size_t sent; /* of the queue */
  int fd;      /* -1: only libmicrohttpd writes */
  bool is_live, is_asleep, is_over;
  bool is_open;           /* it hears of hidden refs, too */
  uint64_t policy_epoch;  /* when policy was asked last; the watcher's thread of the moment */
  bool is_filling;        /* the pool has it: it must not be woken by another, and so not end */
  pd_watch_cursor joined; /* what lies before was sent: by itself, until it became live, and since */
  int64_t pushed_ms;
  pd_buf prefix;
  pd_topic *topic;
  size_t place;                     /* in topic->live */
  char ref[PD_REF_SIZE_MAX + 1];    /* "": all */
  char agent[PD_NAME_SIZE_MAX + 1]; /* whom policy is asked about; and what it is asked */
  const char *like;
  bool is_operator;
  struct MHD_Connection *connection;
  pd_watch *watch; /* while it is behind; of the topic's store */
  pd_job job;      /* reading on, by the pool */
  char owner[PD_NAME_SIZE_MAX + 1];
  pd_leaver leaver; /* its client */
};

pd_code pd_topic_take(pd_hub *hub, const char *name, pd_topic **out, pd_error *err);
void pd_topic_release(pd_topic *topic);
/* With the topic's lock held. */
void pd_topic_join(pd_topic *topic, pd_watcher *watcher);
void pd_topic_leave(pd_topic *topic, pd_watcher *watcher);

/* < 0, 0 or > 0: a place before, at or after another. */
int pd_cursor_compare(const pd_watch_cursor *a, const pd_watch_cursor *b);

/* With the topic's lock held, by this thread or by the one that it helps: */
/* Everything before it was sent or is queued. */
const pd_watch_cursor *pd_watcher_place(const pd_watcher *watcher);
/* Send it what it wants of the news. */
void pd_watcher_tell(pd_watcher *watcher, const pd_news *news, int64_t now_ms);
void pd_watcher_push(pd_watcher *watcher, pd_bytes text, int64_t now_ms);
/* Say why, and end it. */
void pd_watcher_cut(pd_watcher *watcher, const char *reason);

#endif
