/*
 * owners.h: who last wrote a shared key. The author of a value is in the log's record that wrote it, not in the tree, so listing many
 * keys would read as many records. Records never change, so what was read once is remembered.
 */
#ifndef PD_STATE_OWNERS_H
#define PD_STATE_OWNERS_H

#include "state/home.h"

/* The author of what `entry` (of `store` at its head) holds, into `out`; "" if retention has removed that. Takes a lock of its own. */
PD_MUST_USE pd_code pd_owner_of(pd_home *home, pd_store *store, const pd_entry *entry, char out[PD_NAME_SIZE_MAX + 1], pd_error *err);

#endif
