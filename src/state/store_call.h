/*
 * store_call.h: what the capabilities store.* share: the engine's own operations on one store of the home, for the operator.
 *
 * history.* is what an agent may do with its own state: JSON values, main and its forks, policy and quotas. store.* is what
 * `perdure --server` does: any store, any ref, any bytes, as the commands do it in a home of their own.
 *
 * E1  They are the operator's; the auditor may call those that change nothing.
 * E2  The store `system` is written by nobody here, and not read by auditors.
 * E3  No ref named is the store's current one, whatever ref the handle was opened with.
 */
#ifndef PD_STATE_STORE_CALL_H
#define PD_STATE_STORE_CALL_H

#include "state/call.h"
#include "state/home.h"

typedef enum pd_store_use {
  PD_STORE_READ,  /* it must be there */
  PD_STORE_WRITE, /* it must be there, and will be written to */
  PD_STORE_MAKE   /* made if it is not there */
} pd_store_use;

/* The store that the input `store` names. E2. PD_NOT_FOUND (StoreNotFound), PD_DENIED. */
PD_MUST_USE pd_code pd_store_open_for(pd_frame *frame, pd_store_use use, pd_store **out, pd_error *err);
/* E2 alone. */
PD_MUST_USE pd_code pd_store_check_system(const pd_frame *frame, const char *name, pd_store_use use, pd_error *err);
/* PD_NOT_FOUND (StoreNotFound). */
pd_code pd_store_missing(const char *name, pd_error *err);
/* The name of the current ref. */
PD_MUST_USE pd_code pd_store_current(pd_store *store, char out[PD_REF_SIZE_MAX + 1], pd_error *err);

#define PD_STORE_AT_SIZE 600 /* a message's id is a point, too; with the current ref before it */

/* The point that an input names, as the engine takes it; absent: the current ref. */
PD_MUST_USE pd_code pd_store_at(pd_frame *frame, pd_store *store, const char *field, char out[PD_STORE_AT_SIZE], pd_error *err);
/* The same, looked up: `out_hex` is its id, which does not move meanwhile. */
PD_MUST_USE pd_code pd_store_point(pd_frame *frame, pd_store *store, const char *field, pd_commit *out, char out_hex[PD_ID_HEX_SIZE],
                                   pd_error *err);

/* Who, why and on which ref, by the inputs `author`, `run`, `reason` and `ref`. */
typedef struct pd_store_note {
  char ref[PD_REF_SIZE_MAX + 1], author[PD_NOTE_SIZE_MAX + 1], run[PD_NOTE_SIZE_MAX + 1], reason[PD_NOTE_SIZE_MAX + 1];
  char name[PD_NAME_SIZE_MAX + 1]; /* of the store: who writes if nobody is named */
  pd_note note;                    /* points into the others */
} pd_store_note;

PD_MUST_USE pd_code pd_store_take_note(pd_frame *frame, pd_store *store, pd_store_note *out, pd_error *err);

/* Members ref, commit, tree, seq, durability, and version if there is one; noted for the audit. */
void pd_out_ack(pd_frame *frame, const char *ref, const pd_ack *ack);
/* A member with bytes as they are. */
void pd_out_base64(pd_frame *frame, const char *name, pd_bytes bytes);
/* Members version, size, value_id, created_ms, updated_ms. */
void pd_out_entry(pd_frame *frame, const pd_entry *entry);
/* An object with commit, tree and seq. */
void pd_out_point(pd_frame *frame, const char *name, const pd_commit *commit);
/* The list `refs`: objects with name, commit, tree, seq, updated_ms, is_current, can_redo. */
PD_MUST_USE pd_code pd_out_refs(pd_frame *frame, pd_store *store, pd_error *err);

#endif
