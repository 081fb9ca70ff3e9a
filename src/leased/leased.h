/*
 * leased.h: a durable queue on a ref, of which items are taken with a lease. The message queues of agents (state/queue.h), the mailboxes of
 * threads (thread/mailbox.h) and work items (state/work.h) are its users. Keys and JSON are theirs: they were there first, and stores that
 * hold them stay as they are.
 *
 * LEA-1  A change of a queue that has a head is one commit that also writes the head, on condition of the version that was read. So all
 *        that was read in the same invocation still holds, whichever processes use the queue.
 * LEA-2  Items are numbered by the head; a number is never used twice.
 * LEA-3  An item has one holder at a time, until its lease ends by the clock of the caller that looks. A lease given by a clock that was
 *        ahead counts as ended, so a wrong clock holds nothing forever.
 * LEA-4  What is forgotten for its age is old by the clock of two calls, so that one call with a wrong clock forgets nothing.
 */
#ifndef PD_LEASED_LEASED_H
#define PD_LEASED_LEASED_H

#include "base/bind.h"

/* ---- invocations ---- */

/* What all users' invocations have; the first member of theirs. */
typedef struct pd_leased_tx {
  pd_edit *edit;
  const char *head; /* its key, borrowed */
  uint64_t version; /* of the head, as read; 0: there is none */
  int64_t now_ms;
  int64_t last_ms;  /* when the head was written last; 0: never */
  bool is_complete; /* the head is staged */
} pd_leased_tx;

/* Begin one over `edit`: reads the head into `out` by the table, which stays as it is if there is no head. PD_CORRUPT. */
PD_MUST_USE pd_code pd_leased_begin(pd_leased_tx *tx, pd_edit *edit, const char *head, int64_t now_ms, const pd_bind *table, size_t count,
                                    void *out, pd_error *err);
/* Stage the head (LEA-1). */
PD_MUST_USE pd_code pd_leased_stage_head(pd_leased_tx *tx, const pd_bind *table, size_t count, const void *in, pd_error *err);
/* End it: without a head nothing is written. */
void pd_leased_end(pd_leased_tx *tx);
/* LEA-4: the earlier of now and of the call before. */
int64_t pd_leased_sure_ms(const pd_leased_tx *tx);

/* pd_update on the ref of `note`. If there is no such ref, it is made, at the empty commit; or, with `out_is_missing`, that is set, `fn` is
 * not run, and the answer is PD_OK. `out` may be NULL. */
PD_MUST_USE pd_code pd_leased_update(pd_store *store, const pd_note *note, pd_update_fn fn, void *ctx, bool *out_is_missing, pd_ack *out,
                                     pd_error *err);

/* ---- records: JSON objects by a table ---- */

/* PD_NOT_FOUND; PD_CORRUPT names the key. */
PD_MUST_USE pd_code pd_leased_get(const pd_leased_tx *tx, const char *key, const pd_bind *table, size_t count, void *out, pd_error *err);
PD_MUST_USE pd_code pd_leased_put(const pd_leased_tx *tx, const char *key, const pd_bind *table, size_t count, const void *in,
                                  pd_error *err);
PD_MUST_USE pd_code pd_leased_parse(const char *key, pd_bytes text, const pd_bind *table, size_t count, void *out, pd_error *err);
PD_MUST_USE pd_code pd_leased_corrupt(const char *key, const char *why, pd_error *err);

/* ---- leases ---- */

/* An item as an index of the user's has it. */
typedef struct pd_leased_item {
  uint64_t number;
  int64_t until_ms; /* nobody else takes it before; of what has ended: since */
  int64_t given_ms; /* when that was said; 0: not known */
  uint64_t attempts;
} pd_leased_item;

/* Whoever looks for something to take. */
typedef struct pd_leased_look {
  int64_t now_ms;
  int64_t lease_ms_max; /* the longest that is given; INT64_MAX: any */
  int64_t next_due_ms;  /* out: when the next of those that were not free is; begin with INT64_MAX */
} pd_leased_look;

/* LEA-3 */
bool pd_leased_is_free(pd_leased_look *look, int64_t until_ms, int64_t given_ms);

/* What a value of an index says; false: it is corrupt. The number comes from the key. */
typedef bool (*pd_leased_read)(pd_bytes value, pd_leased_item *out);
/* All items of the index `prefix`, in its order, up to `max`; freed by the caller. Those that are not free for `look` (NULL: all are) are
 * left out, and noted there. A list and not an iterator: the next edit ends an iterator. */
PD_MUST_USE pd_code pd_leased_list(const pd_leased_tx *tx, const char *prefix, pd_leased_read read, pd_leased_look *look, size_t max,
                                   pd_leased_item **out, size_t *out_count, pd_error *err);

#endif
