/*
 * opened.c: the stores that a home has open. Invariants O1 to O6 are in opened.h.
 *
 * Closing takes a sync or two, so a thread does it that is started when there are first too many. Who opens more than it can keep up with
 * helps it; so the number stays bounded, and no queue grows.
 */
#include "state/opened.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "base/map.h"
#include "state/authorise.h"
#include "state/threads.h"
#include "state/window.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

typedef enum entry_state { OPENING, OPEN, CLOSING } entry_state;

typedef struct entry {
  pd_held held; /* first: what others see */
  entry_state state;
  bool stays;              /* shared, system: not counted, held for ever */
  bool is_kept;            /* it was written to: what gc keeps there is as configured */
  bool is_keeping;         /* somebody sees to that just now */
  atomic_uint holds;       /* more of them only under the lock, fewer at any time */
  _Atomic int64_t left_ms; /* when it was let go last; monotonic */
} entry;

struct pd_opened {
  pd_home *home;
  pthread_mutex_t lock;   /* of all that follows */
  pthread_cond_t changed; /* an entry's state, or is_keeping */
  pthread_cond_t work;    /* for the closer */
  pd_map entries;         /* by name */
  atomic_size_t count;    /* agents' stores, those included that are being closed */
  atomic_size_t max;
  bool is_in_memory;      /* O6 */
  int64_t idle_before_ms; /* those let go before are to be closed */
  uint64_t opened_count, closed_count;
  pd_counters closed; /* of the stores that were closed */
  pthread_t closer;
  bool has_closer, must_stop;
};

/* ---- how many ---- */

/* No more than half of the descriptors that the process may have: who embeds us needs some, too. */
static size_t room_for(uint64_t wanted)
{
  struct rlimit limit;
  uint64_t room = wanted;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) room = limit.rlim_cur / 2 / PD_STORE_FILES;
  if (room > wanted) room = wanted;
  return room ? (size_t)room : 1;
}

/* So many more may be open while the closer is at work. */
static size_t slack(const pd_opened *o)
{
  return 1 + o->max / 8;
}

/* Are there too few descriptors for one more store? */
static bool has_no_files(void)
{
  int fds[PD_STORE_FILES], count = 0, why = 0;
  while (count < PD_STORE_FILES && !why) {
    fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fds[count] < 0)
      why = errno;
    else
      count++;
  }
  while (count) close(fds[--count]);
  return why == EMFILE || why == ENFILE;
}

/* ---- entries; under the lock ---- */

static entry *find(pd_opened *o, const char *name)
{
  return pd_map_find(&o->entries, pd_text(name));
}

/* NULL: no memory. */
static entry *add(pd_opened *o, const char *name)
{
  entry *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  snprintf(e->held.name, sizeof e->held.name, "%s", name);
  e->stays = strcmp(name, PD_STORE_SHARED) == 0 || strcmp(name, PD_STORE_SYSTEM) == 0;
  if (pd_map_put(&o->entries, e, NULL, NULL) == PD_OK) return e;
  free(e);
  return NULL;
}

static void drop(pd_opened *o, entry *e)
{
  free(pd_map_remove(&o->entries, pd_text(e->held.name)));
}

static void hold(entry *e)
{
  if (!e->stays) atomic_fetch_add(&e->holds, 1);
}

/* Needs no lock. It may be closed from here on. */
static void let_go(entry *e)
{
  if (e->stays) return;
  atomic_store(&e->left_ms, pd_clock_monotonic_ms());
  atomic_fetch_sub(&e->holds, 1);
}

/* The one that was let go longest ago, of those that nobody holds; NULL: there is none. All are looked at: that is nothing beside closing
 * one, and those who hold and let go have no list to keep. */
static entry *oldest(pd_opened *o)
{
  entry *found = NULL;
  size_t at = 0;
  for (entry *e; (e = pd_map_next(&o->entries, &at));) {
    if (e->stays || e->state != OPEN || atomic_load(&e->holds)) continue;
    if (!found || atomic_load(&e->left_ms) < atomic_load(&found->left_ms)) found = e;
  }
  return found;
}

/* ---- closing; under the lock, but for where they open it ---- */

static void count_closed(pd_counters *sum, const pd_counters *one, uint64_t sign)
{
  sum->commits += sign * one->commits;
  sum->syncs += sign * one->syncs;
  sum->sync_us += sign * one->sync_us;
  sum->group_count += sign * one->group_count;
  sum->cache_hits += sign * one->cache_hits;
  sum->cache_misses += sign * one->cache_misses;
  for (size_t i = 0; i < PD_COUNTER_STEPS; i++) {
    sum->sync_steps[i] += sign * one->sync_steps[i];
    sum->group_steps[i] += sign * one->group_steps[i];
  }
}

/* O5. It is CLOSING, and nobody's. */
static bool close_store(pd_opened *o, entry *e)
{
  pd_counters counters;
  pd_store_counters(e->held.store, &counters);
  count_closed(&o->closed, &counters, 1);
  pthread_mutex_unlock(&o->lock);
  pd_thread_cache_forget(o->home->threads, e->held.store);
  bool is_flushed = pd_store_flush(e->held.store, NULL) == PD_OK;
  if (is_flushed) (void)!pd_store_close(e->held.store, NULL);
  pthread_mutex_lock(&o->lock);
  if (!is_flushed) {
    count_closed(&o->closed, &counters, UINT64_MAX); /* times -1: it goes on counting */
    e->state = OPEN;
    atomic_store(&e->left_ms, pd_clock_monotonic_ms()); /* as the newest: others may be closed meanwhile */
  } else {
    o->closed_count++;
    o->count--;
    drop(o, e);
  }
  pthread_cond_broadcast(&o->changed);
  return is_flushed;
}

/* False: it cannot be closed, or there is none. */
static bool close_one(pd_opened *o, entry *e)
{
  if (!e || o->is_in_memory) return false;
  hold(e); /* while gc runs, others may have it */
  bool is_kept = e->is_kept;
  pthread_mutex_unlock(&o->lock);
  if (is_kept && pd_gc_auto(e->held.store, NULL, NULL, NULL)) is_kept = false; /* it is tried again next time */
  pthread_mutex_lock(&o->lock);
  if (atomic_fetch_sub(&e->holds, 1) > 1) return true;
  e->state = CLOSING;
  return close_store(o, e);
}

static bool close_oldest(pd_opened *o)
{
  return close_one(o, oldest(o));
}

/* Each that nobody holds now, once: one that cannot be flushed is not tried in a circle. False: none was closed. */
static bool close_some(pd_opened *o)
{
  int64_t begun_ms = pd_clock_monotonic_ms();
  bool has_closed = false;
  for (entry *e; !o->must_stop && (e = oldest(o));) {
    int64_t left_ms = atomic_load(&e->left_ms);
    if (left_ms > begun_ms || (o->count <= o->max && left_ms >= o->idle_before_ms)) break;
    has_closed |= close_one(o, e);
  }
  return has_closed;
}

static void *keep_closing(void *ctx)
{
  pd_opened *o = ctx;
  pthread_mutex_lock(&o->lock);
  while (!o->must_stop)
    if (!close_some(o)) pthread_cond_wait(&o->work, &o->lock);
  pthread_mutex_unlock(&o->lock);
  return NULL;
}

static void wake_closer(pd_opened *o)
{
  if (o->is_in_memory || o->must_stop) return;
  if (!o->has_closer) {
    sigset_t all, before; /* signals are for the threads of the program */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    o->has_closer = !pthread_create(&o->closer, NULL, keep_closing, o); /* else: those who open do it */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  pthread_cond_signal(&o->work);
}

/* O2, for one more. */
static void make_room(pd_opened *o)
{
  if (o->count > o->max) wake_closer(o);
  while (o->count > o->max + (o->has_closer ? slack(o) : 0) && close_oldest(o)) continue;
}

/* ---- opening; under the lock, but for where they open it ---- */

static pd_code open_once(const pd_home *home, const char *name, bool create, pd_store **out, bool *out_is_short, pd_error *err)
{
  const pd_options options = {
    .must_exist = !create,
    .flush_ms = (uint32_t)home->config.flush_ms,
    .cache_size_max = (size_t)home->config.cache_bytes,
    .value_size_max = PD_CALL_SIZE_MAX,
    .author = "perdure",
    .now_ms = home->now_ms,
    .now_ctx = home->now_ctx,
  };
  pd_code code = pd_store_open(home->uri, name, &options, out, err);
  *out_is_short = code == PD_STORAGE && has_no_files();
  return code;
}

/* If there are no descriptors (the limit was lowered, or others took them), those of a store that nobody holds are better used here. */
static pd_code open_store(pd_opened *o, entry *e, bool create, pd_error *err)
{
  bool is_short;
  pd_code code;
  pd_store *store = NULL;
  do {
    pthread_mutex_unlock(&o->lock);
    code = open_once(o->home, e->held.name, create, &store, &is_short, err);
    pthread_mutex_lock(&o->lock);
  } while (is_short && close_oldest(o));
  e->held.store = store; /* under the lock: pd_home_return looks for it in every entry */
  if (!is_short) return code;
  return pd_error_set(
    err, PD_STORAGE,
    "the store '%s' cannot be opened: the process has as many files open as it may (ulimit -n), and all %zu agents' stores "
    "that are open are in use",
    e->held.name, o->count);
}

static pd_code add_open(pd_opened *o, const char *name, bool create, entry **out, pd_error *err)
{
  entry *e = add(o, name);
  if (!e) return pd_error_memory(err, "a home's stores");
  pd_code code = open_store(o, e, create, err);
  pthread_cond_broadcast(&o->changed);
  if (code) {
    drop(o, e); /* who waits for it tries by itself: it may be one that makes the store */
    return code;
  }
  e->state = OPEN;
  o->opened_count++;
  *out = e;
  if (e->stays) return PD_OK;
  hold(e);
  o->count++;
  make_room(o);                                       /* afterwards: who asks for an agent that is not there closes nobody's store */
  while (has_no_files() && close_oldest(o)) continue; /* it takes some more when it is first written to */
  return PD_OK;
}

/* The entry when nobody opens or closes it; NULL: there is none. */
static entry *find_settled(pd_opened *o, const char *name)
{
  entry *e;
  while ((e = find(o, name)) && e->state != OPEN) pthread_cond_wait(&o->changed, &o->lock);
  return e;
}

/* It is held, and will be written to. */
static pd_code keep(pd_opened *o, entry *e, pd_error *err)
{
  while (e->is_keeping) pthread_cond_wait(&o->changed, &o->lock);
  if (e->is_kept) return PD_OK;
  e->is_keeping = true;
  pthread_mutex_unlock(&o->lock);
  pd_code code = e->stays ? pd_window_keep_common(e->held.store, strcmp(e->held.name, PD_STORE_SHARED) == 0, err)
                          : pd_window_keep(e->held.store, o->home->config.persistent_versions, err);
  pthread_mutex_lock(&o->lock);
  e->is_keeping = false;
  e->is_kept = code == PD_OK;
  pthread_cond_broadcast(&o->changed);
  return code;
}

/* ---- holding ---- */

/* Where nobody may wait: only what is open, and has been written to if it is to be. */
static pd_code hold_at_once(pd_opened *o, const char *name, bool create, pd_held **out, pd_error *err)
{
  pthread_mutex_lock(&o->lock);
  entry *e = find(o, name);
  if (e && (e->state != OPEN || (create && !e->is_kept))) e = NULL;
  if (e) hold(e);
  pthread_mutex_unlock(&o->lock);
  if (!e) return pd_disk_may_wait(err);
  *out = &e->held;
  return PD_OK;
}

static pd_code hold_store(pd_home *home, const char *name, bool create, pd_held **out, pd_error *err)
{
  pd_opened *o = home->opened;
  pd_code code = PD_OK;
  if (pd_disk_is_refusing()) return hold_at_once(o, name, create, out, err);
  pthread_mutex_lock(&o->lock);
  entry *e = find_settled(o, name);
  if (e)
    hold(e);
  else
    code = add_open(o, name, create, &e, err);
  if (!code && create && !e->is_kept) {
    code = keep(o, e, err);
    if (code) let_go(e);
  }
  if (!code) *out = &e->held;
  pthread_mutex_unlock(&o->lock);
  return code;
}

pd_code pd_home_hold(const pd_grant *grant, const char *name, bool create, pd_held **out, pd_error *err)
{
  TRY(pd_grant_check(grant, name, create, err));
  return hold_store(grant->home, name, create, out, err);
}

pd_held *pd_home_hold_opened(const pd_grant *grant, const char *name)
{
  if (pd_grant_check(grant, name, false, NULL)) return NULL;
  pd_opened *o = grant->home->opened;
  pthread_mutex_lock(&o->lock);
  entry *e = find_settled(o, name);
  if (e) hold(e);
  pthread_mutex_unlock(&o->lock);
  return e ? &e->held : NULL;
}

void pd_home_let(pd_home *home, pd_held *held)
{
  pd_opened *o = home->opened;
  if (!held) return;
  let_go((entry *)held);
  if (o->count <= o->max) return; /* nearly always */
  pthread_mutex_lock(&o->lock);
  wake_closer(o);
  pthread_mutex_unlock(&o->lock);
}

pd_code pd_home_store(pd_home *home, const char *name, bool create, pd_store **out, pd_error *err)
{
  pd_held *held;
  if (strcmp(name, PD_STORE_SHARED) != 0 && strcmp(name, PD_STORE_SYSTEM) != 0) abort(); /* an agent's takes a grant, and has to be held */
  TRY(hold_store(home, name, create, &held, err));
  *out = held->store;
  return PD_OK;
}

/* ---- for everybody ---- */

pd_code pd_home_borrow(const pd_grant *grant, const char *name, bool create, pd_store **out, pd_error *err)
{
  pd_held *held;
  TRY(pd_agent_check(name, err));
  TRY(pd_home_hold(grant, name, create, &held, err));
  *out = held->store;
  return PD_OK;
}

void pd_home_return(pd_home *home, pd_store *store)
{
  pd_opened *o = home->opened;
  size_t at = 0;
  if (!store) return;
  pthread_mutex_lock(&o->lock);
  entry *e;
  while ((e = pd_map_next(&o->entries, &at)) && e->held.store != store) continue;
  pthread_mutex_unlock(&o->lock);
  pd_home_let(home, e ? &e->held : NULL);
}

void pd_home_each_open(pd_home *home, void (*visit)(void *ctx, const char *name, pd_store *store), void *ctx)
{
  pd_opened *o = home->opened;
  size_t at = 0;
  pthread_mutex_lock(&o->lock);
  for (entry *e; (e = pd_map_next(&o->entries, &at));)
    if (e->state == OPEN) visit(ctx, e->held.name, e->held.store);
  pthread_mutex_unlock(&o->lock);
}

/* All that are open now, held; NULL: no memory. */
static pd_held **hold_all(pd_opened *o, size_t *out_count)
{
  size_t count = 0, at = 0;
  pthread_mutex_lock(&o->lock);
  pd_held **all = calloc(o->entries.count + 1, sizeof *all);
  for (entry *e; all && (e = pd_map_next(&o->entries, &at));)
    if (e->state == OPEN) {
      hold(e);
      all[count++] = &e->held;
    }
  pthread_mutex_unlock(&o->lock);
  *out_count = count;
  return all;
}

/* One that is being closed is flushed by who closes it: O5. */
pd_code pd_opened_flush(pd_home *home, pd_error *err)
{
  size_t count;
  pd_held **all = hold_all(home->opened, &count);
  pd_code code = all ? PD_OK : pd_error_memory(err, "the stores to flush");
  for (size_t i = 0; i < count; i++) {
    pd_error why = {0};
    pd_code failed = pd_store_flush(all[i]->store, &why);
    if (failed && !code) code = pd_error_set(err, failed, "store '%s' could not be flushed: %s", all[i]->name, why.message);
    pd_home_let(home, all[i]);
  }
  free(all);
  return code;
}

bool pd_home_is_open(pd_home *home, const char *name)
{
  pd_opened *o = home->opened;
  pthread_mutex_lock(&o->lock);
  const entry *e = find(o, name);
  bool is_open = e && e->state == OPEN;
  pthread_mutex_unlock(&o->lock);
  return is_open;
}

void pd_home_open_info(pd_home *home, pd_open_info *out)
{
  pd_opened *o = home->opened;
  pthread_mutex_lock(&o->lock);
  *out = (pd_open_info){
    .open_count = o->count, .open_max = o->max, .opened_count = o->opened_count, .closed_count = o->closed_count, .closed = o->closed};
  pthread_mutex_unlock(&o->lock);
}

void pd_home_open_max(pd_home *home, size_t max)
{
  pd_opened *o = home->opened;
  pthread_mutex_lock(&o->lock);
  o->max = max ? max : 1;
  if (o->count > o->max) wake_closer(o);
  pthread_mutex_unlock(&o->lock);
}

void pd_home_close_idle(pd_home *home, uint64_t idle_ms)
{
  pd_opened *o = home->opened;
  if (!idle_ms) return;
  pthread_mutex_lock(&o->lock);
  o->idle_before_ms = pd_clock_monotonic_ms() - (int64_t)idle_ms;
  const entry *e = oldest(o);
  if (e && atomic_load(&e->left_ms) < o->idle_before_ms) wake_closer(o);
  pthread_mutex_unlock(&o->lock);
}

/* ---- the home's end ---- */

pd_code pd_opened_new(pd_home *home, pd_opened **out, pd_error *err)
{
  pd_opened *o = calloc(1, sizeof *o);
  if (!o) return pd_error_memory(err, "a home");
  o->home = home;
  o->entries.text_at = offsetof(entry, held.name);
  pthread_mutex_init(&o->lock, NULL);
  pthread_cond_init(&o->changed, NULL);
  pthread_cond_init(&o->work, NULL);
  o->max = room_for(home->config.store_open_max);
  o->is_in_memory = strncmp(home->uri, "memory:", 7) == 0;
  *out = o;
  return PD_OK;
}

static void stop_closer(pd_opened *o)
{
  pthread_mutex_lock(&o->lock);
  o->must_stop = true;
  pthread_cond_signal(&o->work);
  pthread_mutex_unlock(&o->lock);
  if (o->has_closer) pthread_join(o->closer, NULL);
}

pd_code pd_opened_free(pd_opened *o, pd_error *err)
{
  pd_code code = PD_OK;
  if (!o) return PD_OK;
  stop_closer(o);
  size_t at = 0;
  for (entry *e; (e = pd_map_next(&o->entries, &at)); free(e)) {
    /* Processes that write little and often, as the command line does, would never come to it. It is tried again next time. */
    if (e->is_kept && pd_gc_auto(e->held.store, NULL, NULL, NULL)) e->is_kept = false;
    pd_thread_cache_forget(o->home->threads, e->held.store);
    pd_code closed = pd_store_close(e->held.store, code ? NULL : err);
    if (!code) code = closed;
  }
  pd_map_done(&o->entries);
  pthread_cond_destroy(&o->work);
  pthread_cond_destroy(&o->changed);
  pthread_mutex_destroy(&o->lock);
  free(o);
  return code;
}
