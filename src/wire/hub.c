/* hub.c: all watchers. Invariants X1 to X5 are in hub.h; one watcher is watcher.c. */
#include "wire/hub.h"

#include "base/base.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/watcher.h"

#include <stdlib.h>

pd_code pd_hub_new(pd_server *server, pd_hub **out, pd_error *err)
{
  pd_hub *hub = calloc(1, sizeof *hub);
  if (!hub) return pd_error_memory(err, "the watches");
  hub->server = server;
  pthread_mutex_init(&hub->lock, NULL);
  *out = hub;
  return PD_OK;
}

void pd_hub_free(pd_hub *hub)
{
  if (!hub) return;
  pthread_mutex_destroy(&hub->lock);
  free(hub);
}

size_t pd_hub_count(const pd_hub *hub)
{
  return atomic_load(&hub->count);
}

uint64_t pd_hub_cut_count(const pd_hub *hub)
{
  return atomic_load(&hub->cut_count);
}

void pd_hub_tick(pd_hub *hub)
{
  int64_t after_ms = (int64_t)hub->server->settings.heartbeat_ms;
  pthread_mutex_lock(&hub->lock);
  for (pd_watcher *w = hub->first; w; w = w->next) pd_watcher_beat(w, after_ms);
  pthread_mutex_unlock(&hub->lock);
}

void pd_hub_drain(pd_hub *hub)
{
  atomic_store(&hub->is_draining, true);
  pthread_mutex_lock(&hub->lock);
  for (pd_watcher *w = hub->first; w; w = w->next) pd_watcher_stop(w);
  pthread_mutex_unlock(&hub->lock);
}

pd_code pd_hub_add(pd_hub *hub, const pd_hub_request *request, struct MHD_Response **out, pd_error *err)
{
  if (atomic_load(&hub->count) >= hub->server->settings.watcher_count_max)
    return pd_error_named(err, PD_LIMIT, "TooManyWatchers", "there are %llu watchers, and a quarter of server.connections_max is allowed",
                          (unsigned long long)hub->server->settings.watcher_count_max);
  pd_watcher *w = calloc(1, sizeof *w);
  if (!w) return pd_error_memory(err, "a watch");
  w->hub = hub;
  pthread_mutex_init(&w->lock, NULL);
  atomic_fetch_add(&hub->count, 1);
  pthread_mutex_lock(&hub->lock);
  w->next = hub->first;
  w->link = &hub->first;
  if (w->next) w->next->link = &w->next;
  hub->first = w;
  pthread_mutex_unlock(&hub->lock);
  return pd_watcher_begin(w, request, out, err);
}
