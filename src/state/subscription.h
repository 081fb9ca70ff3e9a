/*
 * subscription.h: watching shared state. A subscription is a durable object beside the agent's queue, subscription/AGENT:ID: it says which
 * changes are wanted, how far they were told, and which session it belongs to. docs/decisions/018 has the reasons.
 *
 * W1  Events are moved to the agent's queue in one commit with the cursor they advance it to. So each change is told once and in order,
 *     whoever moves it and whatever dies.
 * W2  A subscription is live while its session is: known in the home that holds the session, and believed elsewhere as long as the
 *     process that holds it runs. Nothing is lost or doubled if that belief is wrong, it is only told earlier or later.
 * W3  When its session ends, it is told what happened until then and is gone. When its process goes away (or closes its home), it is
 *     suspended: the cursor stays, and state.shared.watch with its id goes on from there in a new session; events that were received and
 *     not acknowledged come first, again.
 */
#ifndef PD_STATE_SUBSCRIPTION_H
#define PD_STATE_SUBSCRIPTION_H

#include "state/queue.h"

#define PD_SUBSCRIPTION_COUNT_MAX 1000 /* of one agent */
#define PD_SUBSCRIPTION_ID_SIZE (PD_NAME_SIZE_MAX + 18)
#define PD_SUBSCRIPTION_KEEP_MS ((int64_t)7 * 86400 * 1000) /* a suspended one, then it may be removed */

typedef struct pd_subscription {
  char id[PD_SUBSCRIPTION_ID_SIZE]; /* AGENT:16 hex digits */
  char session[PD_SESSION_ID_SIZE];
  char prefix[PD_KEY_SIZE_MAX + 1];
  char cursor[PD_WATCH_CURSOR_SIZE]; /* in the shared log */
  char holder[40];                   /* the home that holds the session: a random name; "": suspended */
  char process[96];                  /* where that home is open: boot, process, its start */
  int64_t updated_ms;
} pd_subscription;

/* Move what the agent's live subscriptions have to tell to its queue, as far as there is room. Any thread, any process. */
PD_MUST_USE pd_code pd_subscriptions_move(pd_home *home, const char *agent, pd_error *err);
/* Has the agent any subscription? */
PD_MUST_USE pd_code pd_subscriptions_any(pd_home *home, const char *agent, bool *out, pd_error *err);

/* ---- for the files of subscriptions ---- */

typedef struct pd_subscription_list {
  pd_subscription *items;
  size_t count, capacity;
} pd_subscription_list;

void pd_subscription_list_done(pd_subscription_list *list);
/* The agent's subscriptions as the invocation sees them, by id. PD_CORRUPT. */
PD_MUST_USE pd_code pd_subscription_load(pd_queue_tx *tx, pd_subscription_list *out, pd_error *err);
PD_MUST_USE pd_code pd_subscription_store(pd_queue_tx *tx, const pd_subscription *s, pd_error *err);
PD_MUST_USE pd_code pd_subscription_remove(pd_queue_tx *tx, const pd_subscription *s, pd_error *err);

typedef enum pd_subscription_state {
  PD_SUBSCRIPTION_LIVE,
  PD_SUBSCRIPTION_SUSPENDED, /* its process is gone */
  PD_SUBSCRIPTION_ENDED      /* its session has ended */
} pd_subscription_state;

pd_subscription_state pd_subscription_state_of(pd_home *home, const char *agent, const pd_subscription *s);
/* Is it one of this home's sessions that it belongs to? */
bool pd_subscription_is_ours(pd_home *home, const pd_subscription *s);

/* Make it one of this home's session. */
void pd_subscription_bind(pd_home *home, const char *session, pd_subscription *s);
/* Remember that the session has subscriptions, so that its end is theirs. To be called before one is committed. */
PD_MUST_USE pd_code pd_subscriptions_hold(pd_home *home, const char *agent, const char *session, pd_error *err);

/* What is left to tell for the agent's subscriptions of a session that has ended, then remove them. */
PD_MUST_USE pd_code pd_subscriptions_finish(pd_home *home, const char *agent, const char *session, pd_error *err);

#endif
