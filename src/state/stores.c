/* stores.c: see stores.h. */
#include "state/stores.h"

#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "state/authorise.h"

#include <stdio.h>
#include <stdlib.h>

const char *pd_store_kind(const char *name)
{
  if (strcmp(name, PD_STORE_SHARED) == 0 || strcmp(name, PD_STORE_SYSTEM) == 0) return name;
  return "agent";
}

typedef struct listing {
  pd_leases *leases;
  pd_code code;
} listing;

static void add_name(void *ctx, const char *name)
{
  listing *l = ctx;
  if (l->code || strlen(name) > PD_NAME_SIZE_MAX) return;
  for (size_t i = 0; i < l->leases->count; i++)
    if (strcmp(l->leases->items[i].name, name) == 0) return;
  l->code = pd_array_grow(&l->leases->items, l->leases->count, &l->leases->capacity, sizeof(pd_lease), "a list of stores", NULL);
  if (l->code) return;
  pd_lease *lease = &l->leases->items[l->leases->count++];
  *lease = (pd_lease){0};
  snprintf(lease->name, sizeof lease->name, "%s", name);
}

static void add_open_name(void *ctx, const char *name, pd_store *store)
{
  (void)store;
  add_name(ctx, name);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const pd_lease *)a)->name, ((const pd_lease *)b)->name);
}

pd_code pd_leases_list(pd_home *home, pd_leases *out, pd_error *err)
{
  listing l = {.leases = out};
  *out = (pd_leases){0};
  TRY(pd_home_agents(home->uri, add_name, &l, err));
  pd_home_each_open(home, add_open_name, &l); /* a private memory home is known by what it has open */
  if (l.code) return pd_error_memory(err, "a list of stores");
  if (out->count > 1) qsort(out->items, out->count, sizeof out->items[0], by_name);
  return PD_OK;
}

void pd_lease_open(pd_home *home, pd_lease *lease, bool is_read_only)
{
  pd_grant grant;
  if (lease->store || pd_authorise_work(home, "whole", &grant, &lease->why)) return;
  lease->home = home;
  lease->held = pd_home_hold_opened(&grant, lease->name);
  if (lease->held) {
    lease->store = lease->held->store;
    return;
  }
  pd_options options = {
    .is_read_only = is_read_only,
    .must_exist = true,
    .value_size_max = PD_CALL_SIZE_MAX,
    .ref = "main",
    .author = "perdure",
    .now_ms = home->now_ms,
    .now_ctx = home->now_ctx,
  };
  lease->is_own = pd_store_open(home->uri, lease->name, &options, &lease->store, &lease->why) == PD_OK;
}

void pd_lease_close(pd_lease *lease)
{
  if (lease->is_own) (void)!pd_store_close(lease->store, NULL); /* each write through it was synced by itself */
  if (lease->held) pd_home_let(lease->home, lease->held);
  lease->held = NULL;
  lease->store = NULL;
  lease->is_own = false;
}

void pd_leases_done(pd_leases *leases)
{
  for (size_t i = 0; i < leases->count; i++) pd_lease_close(&leases->items[i]);
  free(leases->items);
  *leases = (pd_leases){0};
}

size_t pd_leases_open_max(pd_home *home)
{
  pd_open_info info;
  pd_home_open_info(home, &info);
  return info.open_max / 2 + 1;
}
