/*
 * thread_cache.c: handles on threads that calls have used, for the next call: a handle knows the state of its thread, which else would be
 * read from all of its leaves again for one patch.
 *
 * T1  A handle is in the cache or used by one call; nobody else sees it.
 * T2  One that is taken looks where its ref is (pd_thread_info_get) before it is used, as every handle does: another process, undo, rewind
 *     or delete may have moved it.
 * T3  No handle outlives its store: pd_thread_cache_forget is called before a store is closed, which nobody holds then.
 * T4  There are at most COUNT_MAX of them with BYTES_MAX of state; the one that was used longest ago goes first.
 */
#include "base/base.h"
#include "base/error.h"
#include "state/threads.h"

#include <pthread.h>
#include <stdlib.h>

#define COUNT_MAX 64
#define BYTES_MAX ((size_t)8 << 20) /* of canonical text; in memory a state takes several times as much */

struct pd_thread_cache {
  pthread_mutex_t lock;
  pd_thread *kept[COUNT_MAX]; /* the one that was used longest ago first */
  size_t count, bytes;
};

pd_code pd_thread_cache_new(pd_thread_cache **out, pd_error *err)
{
  pd_thread_cache *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_thread_cache_free(pd_thread_cache *cache)
{
  if (!cache) return;
  for (size_t i = 0; i < cache->count; i++) pd_thread_close(cache->kept[i]);
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}

static pd_thread *remove_at(pd_thread_cache *cache, size_t index)
{
  pd_thread *thread = cache->kept[index];
  cache->count--;
  memmove(&cache->kept[index], &cache->kept[index + 1], (cache->count - index) * sizeof cache->kept[0]);
  cache->bytes -= pd_thread_size(thread);
  return thread;
}

/* Of this store; with this id, if it is not NULL. NULL: there is none. */
static pd_thread *remove_one(pd_thread_cache *cache, const pd_store *store, const char *id)
{
  for (size_t i = cache->count; i-- > 0;)
    if (pd_thread_store(cache->kept[i]) == store && (!id || strcmp(pd_thread_id(cache->kept[i]), id) == 0)) return remove_at(cache, i);
  return NULL;
}

pd_thread *pd_thread_cache_take(pd_thread_cache *cache, const pd_store *store, const char *id)
{
  pthread_mutex_lock(&cache->lock);
  pd_thread *found = remove_one(cache, store, id);
  pthread_mutex_unlock(&cache->lock);
  return found;
}

/* T4, for one more: the handle that has to go; to be closed without the lock. NULL: there is room. */
static pd_thread *make_room(pd_thread_cache *cache, size_t size)
{
  bool is_full = cache->count == COUNT_MAX || cache->bytes + size > BYTES_MAX;
  return cache->count && is_full ? remove_at(cache, 0) : NULL;
}

void pd_thread_cache_put(pd_thread_cache *cache, pd_thread *thread)
{
  size_t size = pd_thread_size(thread);
  pthread_mutex_lock(&cache->lock);
  pd_thread *old = remove_one(cache, pd_thread_store(thread), pd_thread_id(thread)); /* another call's, of the same thread */
  pd_thread *one;
  while ((one = make_room(cache, size))) {
    pthread_mutex_unlock(&cache->lock);
    pd_thread_close(one);
    pthread_mutex_lock(&cache->lock);
  }
  bool fits = size <= BYTES_MAX && cache->count < COUNT_MAX;
  if (fits) {
    cache->kept[cache->count++] = thread;
    cache->bytes += size;
  }
  pthread_mutex_unlock(&cache->lock);
  pd_thread_close(old);
  if (!fits) pd_thread_close(thread);
}

void pd_thread_cache_forget(pd_thread_cache *cache, const pd_store *store)
{
  if (!cache) return; /* a home that could not be opened */
  for (pd_thread *one; (one = pd_thread_cache_take(cache, store, NULL));) pd_thread_close(one);
}
