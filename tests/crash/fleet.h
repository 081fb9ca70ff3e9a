/*
 * fleet.h: clients of a server that is killed under them: writers that know exactly what has to be there afterwards, and watchers that
 * know exactly what has to come.
 *
 *  F1  A writer's key is its own. What it writes are the numbers 1, 2, 3…: number N is version N. So after a kill its key has the last
 *      number that was acknowledged, or the one after it, which was on its way; nothing else.
 *  F2  A watcher begins with the empty store and comes back with Last-Event-ID. It sees versions 1, 2, 3… of each key, each once.
 */
#ifndef PD_TESTS_CRASH_FLEET_H
#define PD_TESTS_CRASH_FLEET_H

#include "wire/server_world.h"

#include <pthread.h>
#include <stdatomic.h>

#define FLEET_WRITERS 32
#define FLEET_WATCHERS 4

typedef struct fleet fleet;

typedef struct fleet_writer {
  fleet *fleet;
  pthread_t thread;
  unsigned index;
  bool is_shared;     /* state.shared.set; else state.persistent.set */
  uint64_t number;    /* the last that is known to be there */
  bool is_on_its_way; /* the one after it was sent, and nothing was heard */
} fleet_writer;

typedef struct fleet_watcher {
  fleet *fleet;
  pthread_t thread;
  const char *store, *prefix;
  char last_id[64];                         /* "": none yet */
  _Atomic uint64_t versions[FLEET_WRITERS]; /* seen, by writer */
  _Atomic uint64_t resumes;
  uint64_t birth_count;
  bool is_cut; /* the server said so */
} fleet_watcher;

struct fleet {
  served *server;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t life;    /* of the server: 1 for the first; clients of an older one wait */
  bool is_up;       /* it serves */
  bool is_over;     /* writers end */
  bool is_all_over; /* watchers, too */
  atomic_ullong acknowledged;
  atomic_uint failures; /* printed as they are found */
  fleet_writer writers[FLEET_WRITERS];
  fleet_watcher watchers[FLEET_WATCHERS];
};

/* Start them all; they wait for a server. */
void fleet_start(fleet *f);
/* Let them have the server at f->server. */
void fleet_up(fleet *f);
/* It is gone, or will be at once. */
void fleet_down(fleet *f);
/* Writers finish what they do and end, having checked their keys; then watchers have `timeout_ms` to see all that was written. */
void fleet_end(fleet *f, int64_t timeout_ms);

#endif
