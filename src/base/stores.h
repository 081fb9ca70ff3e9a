/* stores.h: names in a home that more than one room has to know. */
#ifndef PD_BASE_STORES_H
#define PD_BASE_STORES_H

/* The stores that are no agent's. */
#define PD_STORE_SHARED "shared"
#define PD_STORE_SYSTEM "system"

/* Behind an agent's name: the file that says where its store is, if that is not here (engine/place.c). It is written under the flock of
 * the store's lock file, under which a store is made, too: so there is never both. */
#define PD_PLACE_SUFFIX ".place"

#endif
