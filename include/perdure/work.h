/*
 * work.h: work items: what is waiting, being done, or over, and outlives the process. Included by perdure.h. Runs on threads are in run.h.
 *
 *     pd_work *work = NULL;
 *     pd_work_open(statestore, NULL, &work, &err);         // what the process before left unfinished is offered again
 *     pd_work_create(work, &(pd_work_request){.title = "look at disk 3"}, NULL, &err);
 *     pd_buf text = {0};
 *     pd_work_item item;
 *     while (pd_work_claim(work, NULL, &text, &err) == PD_OK) {
 *       pd_work_parse((pd_bytes){text.data, text.size}, &item, &err);
 *       …
 *       pd_work_complete(work, item.id, item.token, pd_text("{\"found\":0}"), NULL, &err);
 *     }
 *     pd_work_close(work);
 *
 * An item is a JSON object at the key run:<id> of the StateStore, and run:index is the list of all ids, the oldest first. Both change in
 * one batch, so they never disagree. Members that perdure does not know are kept. The same items, under the same keys and rules, are to be
 * had as capabilities (work.create, work.claim…) in a home: there they are on the ref `state` of the agent's own store, and any number of
 * processes may work on them. Use one of the two for an agent at a time. In a home the index has a key an item (docs/formats.md), which a
 * StateStore of type perdure shows as run:index.
 *
 *     pending ──────► investigating ──────► completed
 *        │ ▲  claim    │      │    complete
 *        │ └───────────┘      ├───────────► failed        (also from pending)
 *        │   given back       └───────────► cancelled     (also from pending)
 *
 * CLAIMS      Who claims an item gets a token, which update, complete, fail and give_back ask for: so of two who believe that an item is
 *             theirs only the one that claimed last can end it. A claim ends with the item, when it is given back, when its lease has
 *             passed, or when the owner starts again: then the item is offered to the next who claims.
 * RETRIES     Ending an item once more in the same way, with the same token and the same value, is PD_OK and changes nothing.
 * PRUNING     Items that are over are removed, by age and by count, when another one ends and when the items are opened. Others never are.
 * DURABILITY  That of the StateStore: with flush_interval_ms = 0 a change is durable when the call returns. If that flush fails, the
 *             change is in memory and pending, as with pd_statestore_set.
 * COST        Every call but get looks at all items, which is what the format asks for; so there are limits.
 * LIMITS      10,000 items; ids: 1 to 128 of letters, digits, . _ - (perdure makes UUIDs); values: 1 MiB of JSON each, 120 levels deep;
 *             title and reason: 1024 bytes; owner: 128 bytes.
 * THREADS     Any number.
 */
#ifndef PERDURE_WORK_H
#define PERDURE_WORK_H

#include <perdure/statestore.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_WORK_COUNT_MAX 10000
#define PD_WORK_ID_SIZE_MAX 128
#define PD_WORK_OWNER_SIZE_MAX 128
#define PD_WORK_TEXT_SIZE_MAX 1024
#define PD_WORK_VALUE_SIZE_MAX ((size_t)1024 * 1024)
#define PD_WORK_VALUE_DEPTH_MAX 120
#define PD_WORK_KEEP_ALL UINT64_MAX

typedef struct pd_work pd_work;

typedef enum pd_work_status {
  PD_WORK_PENDING = 0,
  PD_WORK_INVESTIGATING = 1,
  PD_WORK_COMPLETED = 2,
  PD_WORK_FAILED = 3,
  PD_WORK_CANCELLED = 4,
  PD_WORK_STATUS_COUNT
} pd_work_status;

/* "pending", "investigating"… Static storage. */
PD_API const char *pd_work_status_name(pd_work_status status);

/* An item's document. The values are JSON texts, borrowed from it; data is NULL if there is none. Times are milliseconds since 1970, 0 if
 * there is none. */
typedef struct pd_work_item {
  char id[PD_WORK_ID_SIZE_MAX + 1];
  pd_work_status status;
  char token[PD_WORK_ID_SIZE_MAX + 1]; /* of the last claim; "" if there is none */
  char owner[PD_WORK_OWNER_SIZE_MAX + 1];
  pd_bytes title, input, progress, result, error, reason;
  uint64_t attempts, attempts_max; /* claims so far; and how many there may be, 0: any number */
  int64_t created_ms, updated_ms, claimed_ms, lease_until_ms, finished_ms;
} pd_work_item;

/* Read an item's document. PD_CORRUPT if it is none. */
PD_API PD_MUST_USE pd_code pd_work_parse(pd_bytes json, pd_work_item *out, pd_error *err);

typedef struct pd_work_options {
  const char *owner;   /* of claims that name none; NULL: "main" */
  bool keeps_claims;   /* do not offer again what is being done: another process is at it, or one only looks. Nothing is pruned then */
  uint64_t keep_count; /* of items that are over: 1000. PD_WORK_KEEP_ALL: any number */
  uint64_t keep_ms;    /* an item that is over is kept this long: 30 days. PD_WORK_KEEP_ALL: for ever */
} pd_work_options;

PD_API pd_work_options pd_work_defaults(void);

/* Borrows the store until pd_work_close. `options` may be NULL: the defaults. What the owner was doing when its process ended is given back
 * here, and so offered again. PD_CORRUPT if run:index is no list of ids. */
PD_API PD_MUST_USE pd_code pd_work_open(pd_statestore *store, const pd_work_options *options, pd_work **out, pd_error *err);
/* Takes NULL. Claims stay. */
PD_API void pd_work_close(pd_work *work);

/*
 * In all of these `out` (may be NULL) is replaced by the item's document as it is afterwards, for pd_work_parse. Errors:
 * PD_NOT_FOUND (name RunNotFound), PD_CONFLICT (name RunStatusConflict: from its status the item cannot go there; name RunNotHeld:
 * another token holds it), PD_INVALID and PD_LIMIT for what is wrong with an argument, PD_CORRUPT for a document that is no item's, and
 * what pd_statestore_apply answers.
 */

typedef struct pd_work_request {
  const char *id;        /* NULL: one is made */
  const char *title;     /* NULL: none */
  pd_bytes input;        /* JSON: what is to be done; empty: none */
  uint64_t attempts_max; /* after so many claims that came to nothing the item fails; 0: never */
} pd_work_request;

/* A pending item. PD_EXISTS (name RunExists), PD_QUOTA (name RunsFull). */
PD_API PD_MUST_USE pd_code pd_work_create(pd_work *work, const pd_work_request *request, pd_buf *out, pd_error *err);
PD_API PD_MUST_USE pd_code pd_work_get(pd_work *work, const char *id, pd_buf *out, pd_error *err);

typedef struct pd_work_query {
  unsigned statuses; /* 1u << status of those that are wanted; 0: all */
  bool newest_first;
  uint64_t limit; /* 0: all */
} pd_work_query;

/* Return false to stop. Both are borrowed until it returns. It may call the items. */
typedef bool (*pd_work_visit)(void *ctx, const pd_work_item *item, pd_bytes json);

/* The items that fit, the oldest first. `query` may be NULL: all. Documents that are no items' are left out; `out_unreadable` (may be NULL)
 * says how many. */
PD_API PD_MUST_USE pd_code pd_work_list(pd_work *work, const pd_work_query *query, pd_work_visit visit, void *ctx, uint64_t *out_unreadable,
                                        pd_error *err);

typedef struct pd_work_claim_options {
  const char *id;    /* NULL: the oldest item that is offered */
  const char *owner; /* NULL: that of the options */
  uint64_t lease_ms; /* the item is offered to others after this time without an update; 0: never */
} pd_work_claim_options;

/* Take an item that is pending, or whose lease has passed. `claim` may be NULL. PD_NOT_FOUND (name NoRunWaits) if there is none. Items that
 * were claimed attempts_max times already become failed by the way. */
PD_API PD_MUST_USE pd_code pd_work_claim(pd_work *work, const pd_work_claim_options *claim, pd_buf *out, pd_error *err);
/* Note how far it is (`progress` is JSON; empty: as before), and begin the lease anew with `lease_ms` (0: it has none). */
PD_API PD_MUST_USE pd_code pd_work_update(pd_work *work, const char *id, const char *token, pd_bytes progress, uint64_t lease_ms,
                                          pd_buf *out, pd_error *err);
/* Stop working on it; it is pending again. `reason` may be NULL. */
PD_API PD_MUST_USE pd_code pd_work_give_back(pd_work *work, const char *id, const char *token, const char *reason, pd_buf *out,
                                             pd_error *err);
/* `result` is JSON; empty: none. */
PD_API PD_MUST_USE pd_code pd_work_complete(pd_work *work, const char *id, const char *token, pd_bytes result, pd_buf *out, pd_error *err);
/* `error` is JSON; empty: none. An item that is pending fails without a token (NULL). */
PD_API PD_MUST_USE pd_code pd_work_fail(pd_work *work, const char *id, const char *token, pd_bytes error, pd_buf *out, pd_error *err);
/* Needs no token: who was at it finds out by its next call. `reason` may be NULL. */
PD_API PD_MUST_USE pd_code pd_work_cancel(pd_work *work, const char *id, const char *reason, pd_buf *out, pd_error *err);

/* Give back all that `owner` (NULL: that of the options) is doing: it has just started again. `out_count` may be NULL. */
PD_API PD_MUST_USE pd_code pd_work_resume(pd_work *work, const char *owner, uint64_t *out_count, pd_error *err);

typedef struct pd_work_prune_options {
  uint64_t keep_count; /* the last ended of those that are over stay; PD_WORK_KEEP_ALL: any number */
  uint64_t keep_ms;    /* those that ended within this time stay; PD_WORK_KEEP_ALL: for ever */
  bool is_dry_run;     /* only look */
} pd_work_prune_options;

/* Remove items that are over and fit neither. `options` may be NULL: those of pd_work_open. `visit` (may be NULL) is shown each of them,
 * and must not call the items. Ids in run:index that have no document go, too. */
PD_API PD_MUST_USE pd_code pd_work_prune(pd_work *work, const pd_work_prune_options *options, pd_work_visit visit, void *ctx,
                                         uint64_t *out_count, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
