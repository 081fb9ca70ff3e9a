/*
 * queue.h: the message queue of each agent, durable, in the agent's own store. Watch events, approval outcomes and notices arrive there,
 * and what agents send one another.
 *
 * Keys (docs/formats.md): queue/AGENT is the head {"next","count","bytes"}; queue/AGENT/<20 digits> a message; flight/AGENT/<20 digits> its
 * delivery {"until","deliveries"}; once/AGENT/KEY what was pushed with a dedupe key; from/AGENT/SENDER and sent/AGENT/RECEIVER count bytes
 * (queue_sender.c).
 *
 * It is a leased queue: LEA-1 to LEA-4 in leased/leased.h hold.
 *
 * Q1  Messages are given out in the order of their numbers.
 * Q2  A message stays until it is acknowledged. Its delivery is its lease; one that has ended stays, for the number of deliveries.
 * Q3  The queue is on the ref PD_QUEUE_REF of the agent's store. An agent that has no store gets none by being sent a message: its queue is
 *     in `system` until then.
 * Q4  Whoever opens the queue in the agent's store first brings what is in `system` over; killed at any moment, each message is there
 *     once. So a home that an older version wrote is brought over agent by agent.
 */
#ifndef PD_STATE_QUEUE_H
#define PD_STATE_QUEUE_H

#include "leased/leased.h"
#include "state/home.h"

#define PD_QUEUE_BODY_SIZE_MAX ((size_t)1024 * 1024)
#define PD_QUEUE_KIND_SIZE_MAX 64
#define PD_QUEUE_ID_SIZE 24 /* "m17" and a NUL */

/* Kinds that only perdure itself may use; agents' own kinds are anything else. */
#define PD_QUEUE_SHARED_CHANGE "shared_change"
#define PD_QUEUE_APPROVAL "approval"
#define PD_QUEUE_NOTICE "notice"

/*
 * Push a message of perdure's own (its `from` is null) to `agent`, who need not have a store. `body` is JSON, at most
 * PD_QUEUE_BODY_SIZE_MAX. With a `dedupe_key` (NULL: none; 1 to 512 bytes, what a key may have) a second push of the same key within
 * seven days changes nothing and is PD_OK, so a retry is safe. Durable when it returns. Any process, any thread.
 * PD_QUOTA named QueueFull if it has no room for one more; PD_INVALID if `body` is no JSON; PD_LIMIT; and what the system store answers.
 */
PD_MUST_USE pd_code pd_queue_push(pd_home *home, const char *agent, const char *kind, pd_bytes body, const char *dedupe_key, pd_error *err);

typedef struct pd_queue_counts {
  uint64_t unread;    /* would be received now */
  uint64_t in_flight; /* received, not acknowledged, and not yet due to come again */
} pd_queue_counts;

/* Counts the agent's messages, after its watch events were moved to the queue. For briefings. An agent that has none gets no store. */
PD_MUST_USE pd_code pd_queue_count(pd_home *home, const char *agent, pd_queue_counts *out, pd_error *err);

/* ---- for the files of the queue: an invocation over one agent's queue ---- */

typedef struct pd_queue_tx {
  pd_leased_tx l;
  pd_home *home;
  const char *agent;
  uint64_t next, count, bytes; /* of the head, as staged so far */
  uint64_t grant;              /* what the sender of the message reserved for it */
  /* Out: the sender must reserve room for so many bytes first (pd_queue_sender_reserve), then try again. */
  uint64_t short_bytes;
} pd_queue_tx;

/* Where a queue is. Zero-initialise; pd_queue_place_close. */
typedef struct pd_queue_place {
  pd_home *home;
  pd_held *held; /* NULL: in `system` */
  pd_store *store;
  const char *ref; /* NULL: the store's */
} pd_queue_place;

/* queue_place.c: Q3, Q4. `create`: make the agent's store if there is none. */
PD_MUST_USE pd_code pd_queue_place_open(pd_home *home, const char *agent, bool create, pd_queue_place *out, pd_error *err);
void pd_queue_place_close(pd_queue_place *place);

/* Change an agent's queue in one commit, without conflicts (pd_update): `fn` reads and stages in `tx`, and ends with pd_queue_stage_head;
 * if it does not, nothing is written. It may run several times, each time from the start, and must not call another of these. `out` may be
 * NULL. */
typedef pd_code (*pd_queue_fn)(void *ctx, pd_queue_tx *tx, pd_error *err);
PD_MUST_USE pd_code pd_queue_update(pd_home *home, const char *agent, const pd_note *note, pd_queue_fn fn, void *ctx, pd_ack *out,
                                    pd_error *err);
/* Stage the head as tx->next and tx->count are now. */
PD_MUST_USE pd_code pd_queue_stage_head(pd_queue_tx *tx, pd_error *err);
/* The same, but if nothing was ever sent to the agent, `fn` is not run, and nothing is made. */
PD_MUST_USE pd_code pd_queue_update_any(pd_home *home, const char *agent, const pd_note *note, pd_queue_fn fn, void *ctx, pd_ack *out,
                                        pd_error *err);
/* Both, in a place that is open. */
PD_MUST_USE pd_code pd_queue_update_at(const pd_queue_place *place, pd_home *home, const char *agent, bool create, const pd_note *note,
                                       pd_queue_fn fn, void *ctx, pd_ack *out, pd_error *err);
/* Stage that a message of `size` bytes that `from` (NULL: perdure itself) sent is gone. */
PD_MUST_USE pd_code pd_queue_stage_gone(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err);
/* Stage a message at the end. `from` NULL: perdure itself. PD_QUOTA named QueueFull, or with tx->short_bytes. `out_number` may be NULL. */
PD_MUST_USE pd_code pd_queue_stage(pd_queue_tx *tx, const char *kind, const char *from, pd_bytes body, uint64_t *out_number, pd_error *err);

/* "queue/AGENT/<20 digits>", with "flight" for the delivery; returns `out`. */
#define PD_QUEUE_KEY_SIZE 128
char *pd_queue_key(const char *noun, const char *agent, uint64_t number, char out[PD_QUEUE_KEY_SIZE]);

/* A message as it is stored. */
typedef struct pd_queue_message {
  pd_json kind, body;
  char from[PD_NAME_SIZE_MAX + 1]; /* "": perdure itself */
  int64_t time_ms;
} pd_queue_message;

/* Of a message that is there: PD_CORRUPT names the key. */
PD_MUST_USE pd_code pd_queue_message_parse(const char *key, pd_bytes text, pd_queue_message *out, pd_error *err);

/* ---- queue_sender.c: how much one may send ---- */

/* Stage that a message of `from` comes in; PD_QUOTA and tx->short_bytes if there is no room reserved for it. */
PD_MUST_USE pd_code pd_queue_sender_in(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err);
/* Stage that one went out. */
PD_MUST_USE pd_code pd_queue_sender_out(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err);
/* Stage that one was brought from `system`, as that was at `at`. */
PD_MUST_USE pd_code pd_queue_sender_brought(pd_queue_tx *tx, pd_store *system, const char *at, pd_bytes message, pd_error *err);
/* Reserve room for `size` bytes from `from` in the queue of `to`: *out_grant grows by at least that. PD_QUOTA named QuotaExceeded. */
PD_MUST_USE pd_code pd_queue_sender_reserve(pd_home *home, const char *from, const char *to, uint64_t size, uint64_t *out_grant,
                                            pd_error *err);

/* ---- queue_operation.c: sending again ---- */

#define PD_QUEUE_OPERATION_SIZE_MAX 256

/* The number of the message that `from` sent as this operation, 0: none that is remembered. PD_CONFLICT (OperationUsed) if it had another
 * mark. */
PD_MUST_USE pd_code pd_queue_operation_find(pd_queue_tx *tx, const char *from, const char *id, const char *mark, uint64_t *out_number,
                                            pd_error *err);
/* Stage that message `number` is sent as this operation, and forget the oldest. */
PD_MUST_USE pd_code pd_queue_operation_stage(pd_queue_tx *tx, const char *from, const char *id, const char *mark, uint64_t number,
                                             pd_error *err);

/* ---- queue_take.c: receiving ---- */

/* Messages for a receiver, and when to look again. */
typedef struct pd_queue_take {
  uint64_t max;          /* messages wanted */
  int64_t visibility_ms; /* each comes again after this time */
  const pd_note *note;
  pd_json_writer *out; /* an array is open: a message each */
  uint64_t count;      /* taken */
  int64_t next_due_ms; /* the next time a delivery ends; INT64_MAX: none is out */
  pd_ack ack;          /* of the commit, if count */
} pd_queue_take;

/* Take up to `max` messages. PD_OK with count 0 if there is none. */
PD_MUST_USE pd_code pd_queue_receive(pd_home *home, const char *agent, pd_queue_take *take, pd_error *err);
/* Stage that messages of a subscription that were received and not acknowledged are to be received again, now. */
PD_MUST_USE pd_code pd_queue_release(pd_queue_tx *tx, const char *subscription, pd_error *err);
/* Acknowledge: those that are there are removed; *out_count says how many. */
PD_MUST_USE pd_code pd_queue_ack(pd_home *home, const char *agent, const uint64_t *numbers, size_t count, const pd_note *note,
                                 uint64_t *out_count, pd_ack *out, pd_error *err);

#endif
