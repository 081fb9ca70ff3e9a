/*
 * stores.h: all stores of a home, for those who look at the whole of it: system.health, system snapshots.
 *
 * A store that the home has open is used as it is; any other is opened for the purpose and closed again, so that looking at a home of
 * many agents does not leave all of their stores open.
 */
#ifndef PD_STATE_STORES_H
#define PD_STATE_STORES_H

#include "state/home.h"

typedef struct pd_lease {
  char name[PD_NAME_SIZE_MAX + 1];
  pd_store *store; /* NULL: it cannot be opened */
  bool is_own;     /* opened for this lease */
  pd_home *home;
  pd_held *held; /* else: the home's */
  pd_error why;  /* if store is NULL */
} pd_lease;

typedef struct pd_leases {
  pd_lease *items; /* by name */
  size_t count, capacity;
} pd_leases;

/* The names of all stores, shared and system with them; none is open yet. To be finished with pd_leases_done, also after a failure. */
PD_MUST_USE pd_code pd_leases_list(pd_home *home, pd_leases *out, pd_error *err);
/* Open one. What is wrong with the store is in lease->why. */
void pd_lease_open(pd_home *home, pd_lease *lease, bool is_read_only);
void pd_lease_close(pd_lease *lease);
void pd_leases_done(pd_leases *leases);
/* How many may be open at once, besides the home's own: half as many. There may be more stores than descriptors. */
size_t pd_leases_open_max(pd_home *home);

/* "agent", "shared" or "system". Static storage. */
const char *pd_store_kind(const char *name);

#endif
