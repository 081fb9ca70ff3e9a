/*
 * follow.c: the one thread a store that reads its log for all who want to hear of changes. FOL-1 to FOL-4 are in perdure/follow.h.
 *
 * A feed is a store that somebody follows. Its thread alone uses the watch; the list of followers and the position are under the lock,
 * which is released while followers are told. Meanwhile nobody is taken out of the list (FOL-3), and a follower that joins is put before
 * its head, where nobody looks any more: its place is that of the batch's end or later. Where hundreds follow, the thread has others help
 * it to tell a batch, and waits for their end.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/spawn.h"
#include "state/authorise.h"
#include "state/tiers.h"

#include <perdure/follow.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLICE_MS 100 /* how long a thread that nobody needs may stay; a record wakes it at once */
#define TEXT_SIZE_MAX ((size_t)16 * 1024)
#define STACK_SIZE ((size_t)512 * 1024)
#define FOLLOWERS_A_HELPER 256 /* to send to so many takes 2 ms, to start a thread about 10 µs */
#define HELPERS_MAX 3

typedef struct pd_feed {
  pd_follows *follows;
  struct pd_feed *next;
  char name[PD_NAME_SIZE_MAX + 1];
  pd_store *store;  /* the thread's; borrowed. NULL: it does not exist yet */
  pd_watch *watch;  /* the thread's. NULL: to be opened at `position` */
  atomic_uint refs; /* followers; those that are being opened count. Changed under the lock, as all that follows */
  bool is_opening, is_telling;
  pd_follower *first;
  pd_watch_cursor position; /* what lies before was given to those who have joined */
} pd_feed;

struct pd_follows {
  pd_home *home;
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a feed was opened, has told, or ended */
  pd_feed *feeds;
  size_t count; /* feeds, and those that are being freed */
};

pd_code pd_follows_new(pd_home *home, pd_follows **out, pd_error *err)
{
  pd_follows *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  *out = made;
  return PD_OK;
}

void pd_follows_free(pd_follows *follows)
{
  if (!follows) return;
  pthread_mutex_lock(&follows->lock);
  while (follows->count) pthread_cond_wait(&follows->changed, &follows->lock);
  pthread_mutex_unlock(&follows->lock);
  pthread_cond_destroy(&follows->changed);
  pthread_mutex_destroy(&follows->lock);
  free(follows);
}

size_t pd_follow_count(pd_home *home)
{
  pd_follows *follows = home->follows;
  pthread_mutex_lock(&follows->lock);
  size_t count = follows->count;
  pthread_mutex_unlock(&follows->lock);
  return count;
}

/* ---- a batch ---- */

/* The events' texts, one after the other; where they begin is known, where they lie only when all are there. */
typedef struct collection {
  pd_watch_event events[PD_FOLLOW_EVENTS_MAX];
  size_t count;
  pd_buf texts;
} collection;

static void collection_done(collection *c)
{
  pd_buf_done(&c->texts);
}

static pd_code keep(collection *c, const pd_watch_event *event, pd_error *err)
{
  const char *const names[] = {event->ref, event->author, event->run, event->reason};
  pd_bytes texts[COUNT_OF(names) + 1];
  for (size_t i = 0; i < COUNT_OF(names); i++) texts[i] = (pd_bytes){names[i], strlen(names[i]) + 1};
  texts[COUNT_OF(names)] = event->key;
  TRY(pd_buf_append_all(&c->texts, texts, COUNT_OF(texts), err));
  c->events[c->count++] = *event;
  return PD_OK;
}

static void set_texts(collection *c)
{
  const char *at = (const char *)c->texts.data;
  for (size_t i = 0; i < c->count; i++) {
    const char **const texts[] = {&c->events[i].ref, &c->events[i].author, &c->events[i].run, &c->events[i].reason};
    for (size_t k = 0; k < COUNT_OF(texts); k++) {
      *texts[k] = at;
      at += strlen(at) + 1;
    }
    c->events[i].key.data = at;
    at += c->events[i].key.size;
  }
}

/* What is due now; the first may be waited for. PD_NOT_FOUND: nothing. */
static pd_code collect(pd_feed *feed, uint32_t timeout_ms, collection *c)
{
  pd_watch_event event;
  c->count = 0;
  pd_buf_clear(&c->texts);
  pd_code code = pd_watch_next(feed->watch, timeout_ms, &event, NULL);
  while (code == PD_OK && (code = keep(c, &event, NULL)) == PD_OK && c->count < PD_FOLLOW_EVENTS_MAX && c->texts.size < TEXT_SIZE_MAX)
    code = pd_watch_next(feed->watch, 0, &event, NULL);
  set_texts(c);
  if (code == PD_NO_MEMORY) { /* the event is read again, from where the last batch ended */
    pd_watch_close(feed->watch);
    feed->watch = NULL;
    return code;
  }
  return c->count ? PD_OK : code;
}

static size_t first_after(const pd_follow_batch *batch, const pd_watch_cursor *from)
{
  size_t i = 0;
  while (i < batch->count && pd_watch_cursor_compare(&batch->events[i].next, from) <= 0) i++;
  return i;
}

/* Those who are still to be told of a batch. */
typedef struct telling {
  const pd_follow_batch *batch;
  _Atomic(pd_follower *) next;
} telling;

static void *tell_some(void *ctx)
{
  telling *t = ctx;
  pd_follow_batch batch = *t->batch; /* `made` is each thread's own */
  pd_follower *f = atomic_load(&t->next);
  while (f) {
    if (!atomic_compare_exchange_weak(&t->next, &f, f->next)) continue; /* another thread took it; f is the next now */
    __builtin_prefetch(f->next); /* there may be thousands, none of which was looked at for a while */
    f->take(f, &batch, first_after(&batch, &f->from));
    f = atomic_load(&t->next);
  }
  if (batch.made) batch.made_free(batch.made);
  return NULL;
}

/* Helpers are new threads each time: the system starts one on the processor that has least to do, but one that is woken may have to wait
 * for the processor of who woke it. Without any, the store's thread tells all. */
static void tell_all(telling *t, unsigned count)
{
  pthread_t helpers[HELPERS_MAX];
  unsigned wanted = count / FOLLOWERS_A_HELPER < HELPERS_MAX ? count / FOLLOWERS_A_HELPER : HELPERS_MAX, started = 0;
  while (started < wanted && pd_spawn(&helpers[started], STACK_SIZE, tell_some, t) == 0) started++;
  tell_some(t);
  while (started) pthread_join(helpers[--started], NULL);
}

static void tell(pd_feed *feed, pd_follow_batch *batch)
{
  pd_follows *follows = feed->follows;
  telling t = {.batch = batch};
  batch->store = feed->store;
  pthread_mutex_lock(&follows->lock);
  feed->position = batch->next;
  feed->is_telling = true;
  atomic_init(&t.next, feed->first);
  unsigned count = feed->refs;
  pthread_mutex_unlock(&follows->lock);
  tell_all(&t, count);
  pthread_mutex_lock(&follows->lock);
  feed->is_telling = false;
  pthread_cond_broadcast(&follows->changed);
  pthread_mutex_unlock(&follows->lock);
}

/* ---- a feed's thread ---- */

static pd_code open_watch(pd_feed *feed, const pd_watch_cursor *from, pd_error *err)
{
  pd_grant grant;
  TRY(pd_authorise_work(feed->follows->home, "follow", &grant, err));
  if (!feed->store) TRY(pd_home_borrow(&grant, feed->name, false, &feed->store, err));
  const pd_watch_options options = {.from = *from};
  return pd_watch_open(feed->store, &options, &feed->watch, err);
}

static void sleep_a_little(void)
{
  nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL);
}

static void follow_on(pd_feed *feed, collection *c)
{
  if (!feed->watch && open_watch(feed, &feed->position, NULL)) {
    sleep_a_little(); /* it does not exist yet, or the disk fails */
    return;
  }
  pd_code code = collect(feed, SLICE_MS, c);
  if (code == PD_NO_MEMORY) return sleep_a_little();
  pd_watch_cursor next = pd_watch_where(feed->watch);
  bool is_failing = code && code != PD_NOT_FOUND;
  if (code && !is_failing && pd_watch_cursor_compare(&next, &feed->position) == 0) return;
  pd_follow_batch batch = {.events = c->events, .count = code ? 0 : c->count, .next = next, .is_failing = is_failing};
  tell(feed, &batch);
  if (is_failing) sleep_a_little(); /* not in a circle */
}

/* Nobody follows it: take it out. */
static bool is_over(pd_feed *feed)
{
  pd_follows *follows = feed->follows;
  if (feed->refs) return false;
  pthread_mutex_lock(&follows->lock);
  bool is_unused = feed->refs == 0;
  if (is_unused) {
    pd_feed **link = &follows->feeds;
    while (*link != feed) link = &(*link)->next;
    *link = feed->next;
  }
  pthread_mutex_unlock(&follows->lock);
  return is_unused;
}

static void free_feed(pd_feed *feed)
{
  pd_follows *follows = feed->follows;
  pd_watch_close(feed->watch);
  pd_home_return(follows->home, feed->store);
  free(feed);
  pthread_mutex_lock(&follows->lock);
  follows->count--; /* last: who waits for it closes the home */
  pthread_cond_broadcast(&follows->changed);
  pthread_mutex_unlock(&follows->lock);
}

static void *run(void *ctx)
{
  pd_feed *feed = ctx;
  CLEANUP(collection_done) collection c = {.count = 0};
  while (!is_over(feed)) follow_on(feed, &c);
  free_feed(feed);
  return NULL;
}

static pd_code start_thread(pd_feed *feed, pd_error *err)
{
  int failed = pd_spawn(NULL, STACK_SIZE, run, feed);
  return failed ? pd_error_set(err, PD_STORAGE, "cannot start a thread to follow '%s': %s", feed->name, strerror(failed)) : PD_OK;
}

/* ---- opening ---- */

/* The feed when nobody opens it, held; NULL: there is none. Under the lock. */
static pd_feed *find(pd_follows *follows, const char *name)
{
  for (;;) {
    pd_feed *feed = follows->feeds;
    while (feed && strcmp(feed->name, name) != 0) feed = feed->next;
    if (!feed || !feed->is_opening) {
      if (feed) feed->refs++;
      return feed;
    }
    pthread_cond_wait(&follows->changed, &follows->lock); /* it may be freed meanwhile: opening it failed */
  }
}

static pd_code open_feed(pd_feed *feed, pd_error *err)
{
  static const pd_watch_cursor now;
  pd_code code = open_watch(feed, &now, err);
  if (code == PD_NOT_FOUND && !feed->store) {
    feed->position = (pd_watch_cursor){.seq = 2}; /* the first record makes `main` */
    code = PD_OK;
  } else if (!code) {
    feed->position = pd_watch_where(feed->watch);
  }
  return code ? code : start_thread(feed, err);
}

/* Makes the feed with the lock released: others that want it wait for is_opening. */
static pd_code add_feed(pd_follows *follows, const char *name, pd_feed **out, pd_error *err)
{
  pd_feed *feed = calloc(1, sizeof *feed);
  if (!feed) return pd_error_memory(err, "a follower");
  *feed = (pd_feed){.follows = follows, .next = follows->feeds, .refs = 1, .is_opening = true};
  snprintf(feed->name, sizeof feed->name, "%s", name);
  follows->feeds = feed;
  follows->count++;
  pthread_mutex_unlock(&follows->lock);
  pd_code code = open_feed(feed, err);
  if (code) {
    feed->refs = 0;
    (void)is_over(feed);
    free_feed(feed);
  }
  pthread_mutex_lock(&follows->lock);
  if (!code) feed->is_opening = false;
  pthread_cond_broadcast(&follows->changed);
  if (!code) *out = feed;
  return code;
}

pd_code pd_follow_open(const pd_grant *grant, const char *name, pd_follower *follower, pd_error *err)
{
  TRY(pd_agent_check(name, err));
  TRY(pd_grant_check(grant, name, false, err));
  pd_follows *follows = grant->home->follows;
  pthread_mutex_lock(&follows->lock);
  pd_feed *feed = find(follows, name);
  pd_code code = feed ? PD_OK : add_feed(follows, name, &feed, err);
  pthread_mutex_unlock(&follows->lock);
  if (!code) follower->feed = feed;
  return code;
}

bool pd_follow_join(pd_follower *follower, const pd_watch_cursor *at)
{
  pd_feed *feed = follower->feed;
  pthread_mutex_lock(&feed->follows->lock);
  bool is_there = !at || pd_watch_cursor_compare(at, &feed->position) >= 0;
  if (is_there) {
    follower->from = at ? *at : feed->position;
    follower->next = feed->first;
    follower->link = &feed->first;
    if (feed->first) feed->first->link = &follower->next;
    feed->first = follower;
  }
  pthread_mutex_unlock(&feed->follows->lock);
  return is_there;
}

void pd_follow_close(pd_follower *follower)
{
  pd_feed *feed = follower->feed;
  if (!feed) return;
  pd_follows *follows = feed->follows;
  pthread_mutex_lock(&follows->lock);
  while (follower->link && feed->is_telling) pthread_cond_wait(&follows->changed, &follows->lock);
  if (follower->link) {
    *follower->link = follower->next;
    if (follower->next) follower->next->link = follower->link;
  }
  feed->refs--; /* its thread sees it, and frees it */
  pthread_mutex_unlock(&follows->lock);
  follower->feed = NULL;
  follower->link = NULL;
}
