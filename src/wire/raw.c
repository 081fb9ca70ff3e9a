/* raw.c: the backends that raw routes use (stores.h): opened when first asked for, kept for the next one, closed when others need room. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/stores.h"

#include <stdio.h>
#include <stdlib.h>

#define OPEN_MAX 64

typedef struct raw_store {
  char name[PD_NAME_SIZE_MAX + 1];
  pd_backend *b; /* NULL: the place is free */
  unsigned users;
  int64_t used_ms;
} raw_store;

struct pd_raw {
  pthread_mutex_t lock;
  const pd_backend_ops *ops;
  char *uri;
  const char *rest; /* in it */
  size_t open_max;
  raw_store stores[OPEN_MAX];
};

pd_code pd_raw_new(const char *uri, size_t open_max, pd_raw **out, pd_error *err)
{
  pd_raw *raw = calloc(1, sizeof *raw);
  if (!raw) return pd_error_memory(err, "the server's stores");
  raw->uri = strdup(uri);
  pd_code code = raw->uri ? pd_backend_find(raw->uri, &raw->ops, &raw->rest, err) : pd_error_memory(err, "the server's stores");
  if (code) {
    free(raw->uri);
    free(raw);
    return code;
  }
  pthread_mutex_init(&raw->lock, NULL);
  raw->open_max = open_max < OPEN_MAX ? open_max : OPEN_MAX;
  *out = raw;
  return PD_OK;
}

void pd_raw_free(pd_raw *raw)
{
  if (!raw) return;
  for (size_t i = 0; i < OPEN_MAX; i++)
    if (raw->stores[i].b) raw->ops->close(raw->stores[i].b);
  pthread_mutex_destroy(&raw->lock);
  free(raw->uri);
  free(raw);
}

/* The store's place, or one that can be had: a free one, else that which was not used for longest. NULL: all are in use. */
static raw_store *place_for(pd_raw *raw, const char *name)
{
  raw_store *best = NULL;
  for (size_t i = 0; i < raw->open_max; i++) {
    raw_store *s = &raw->stores[i];
    if (s->b && strcmp(s->name, name) == 0) return s;
    bool is_better = !best || (best->b && (!s->b || s->used_ms < best->used_ms));
    if (!s->users && is_better) best = s;
  }
  return best;
}

static pd_code open_there(pd_raw *raw, raw_store *place, const char *name, bool create, pd_error *err)
{
  pd_backend *b = NULL;
  char place_uri[PD_PLACE_SIZE];
  const pd_backend_ops *ops = raw->ops;
  const char *rest = raw->rest;
  pd_code code = pd_store_placed(raw->uri, name, place_uri, err);
  if (code == PD_OK) code = pd_backend_find(place_uri, &ops, &rest, err);
  if (code && code != PD_NOT_FOUND) return code;
  if (ops != raw->ops) return pd_error_set(err, PD_UNSUPPORTED, "the store of '%s' is of another kind than the server's home", name);
  TRY(ops->open(rest, name, create ? PD_BACKEND_CREATE : 0, &b, err));
  if (place->b) raw->ops->close(place->b);
  *place = (raw_store){.b = b};
  snprintf(place->name, sizeof place->name, "%s", name);
  return PD_OK;
}

pd_code pd_raw_borrow(pd_raw *raw, const char *store, bool create, pd_backend **out, pd_error *err)
{
  pd_code code = PD_OK;
  if (strcmp(raw->ops->scheme, "memory") == 0 && !*raw->rest)
    return pd_error_set(err, PD_UNSUPPORTED, "the home is in the server's memory, and nobody else can reach its logs");
  pthread_mutex_lock(&raw->lock);
  raw_store *place = place_for(raw, store);
  if (!place)
    code = pd_error_set(err, PD_LIMIT, "%zu stores are in use at once, and no more can be", raw->open_max);
  else if (!place->b || strcmp(place->name, store) != 0)
    code = open_there(raw, place, store, create, err);
  if (!code) {
    place->users++;
    *out = place->b;
  }
  pthread_mutex_unlock(&raw->lock);
  return code;
}

void pd_raw_return(pd_raw *raw, pd_backend *b)
{
  if (!b) return;
  pthread_mutex_lock(&raw->lock);
  for (size_t i = 0; i < OPEN_MAX; i++) {
    if (raw->stores[i].b != b) continue;
    raw->stores[i].users--;
    raw->stores[i].used_ms = pd_clock_monotonic_ms();
  }
  pthread_mutex_unlock(&raw->lock);
}

pd_code pd_raw_stores(pd_raw *raw, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err)
{
  return pd_home_agents(raw->uri, visit, ctx, err); /* with those that are placed elsewhere: they can be opened by their names */
}
