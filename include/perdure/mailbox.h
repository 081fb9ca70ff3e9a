/*
 * mailbox.h: what waits for a thread: letters that wake it. Errors and lifetimes as in perdure.h.
 *
 *     pd_mailbox *box = NULL;
 *     if (pd_mailbox_open(store, "support-17", NULL, &box, &err)) …
 *     pd_mailbox_send(box, &(pd_mail){.body = pd_text("{\"text\":\"hello\"}"), .dedupe_key = "web-4711"}, &sent, &err);
 *
 *     pd_claim claim = {.consumer = "worker-3", .lease_ms = 30000, .count = 1};     // any process that has the store open
 *     pd_mailbox_claim(box, &claim, take, &mine, &found, &err);
 *     … begin the run …
 *     pd_mailbox_accept(box, mine.number, mine.token, &err);                        // or pd_mailbox_reject, to try again later
 *
 * A LETTER is in one of six states, and moves only like this:
 *
 *     queued ──claim──> claimed ──accept──> accepted
 *       ^  ^               │
 *       │  └──reject, or───┤ the lease ends            queued, claimed ──interrupt──> superseded
 *       │                  │                           queued, claimed ──cancel─────> cancelled
 *       └─requeue─ dead <──┘ as above, when its attempts are used up
 *
 * Letters are claimed by priority, then in the order they were sent, and none before its retry time. A claim has a lease and a token:
 * while the lease lasts nobody else gets the letter, and only the token's holder can settle it. A claim that was lost (the lease ended and
 * another took the letter, or an interrupt superseded it) is told so by PD_CONFLICT.
 *
 * The mailbox of thread ID is the ref `mailbox/ID` of the agent's store: each change is one commit, durable as the store is, and its past
 * can be read like any other. Any number of processes may use it at once. To sleep until a letter comes, watch the ref (watch.h), no
 * longer than pd_claim_found.next_due_ms.
 */
#ifndef PERDURE_MAILBOX_H
#define PERDURE_MAILBOX_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_MAIL_BODY_SIZE_MAX ((size_t)1024 * 1024)
#define PD_MAIL_DEDUPE_SIZE_MAX 512
#define PD_MAIL_NAME_SIZE_MAX 256 /* kind, sender, consumer: each */
#define PD_MAIL_ERROR_SIZE_MAX 1024
#define PD_MAIL_PRIORITY_MAX 1000 /* and -1000 is the least */
#define PD_MAIL_ATTEMPTS_MAX 1000
#define PD_MAIL_ATTEMPTS_DEFAULT 5
#define PD_MAIL_LEASE_MS_MAX ((int64_t)24 * 3600 * 1000)
#define PD_MAIL_CLAIM_COUNT_MAX 100
#define PD_MAIL_TOKEN_SIZE 33 /* 32 hex digits and a NUL */

typedef enum pd_mail_status {
  PD_MAIL_QUEUED = 1,
  PD_MAIL_CLAIMED = 2,
  PD_MAIL_ACCEPTED = 3,
  PD_MAIL_SUPERSEDED = 4,
  PD_MAIL_CANCELLED = 5,
  PD_MAIL_DEAD = 6,
  PD_MAIL_STATUS_COUNT
} pd_mail_status;

/* "queued", "claimed", "accepted", "superseded", "cancelled", "dead_letter"; "unknown" for another number. Static storage. */
PD_API const char *pd_mail_status_name(pd_mail_status status);
/* The other way. */
PD_API PD_MUST_USE bool pd_mail_status_parse(const char *name, pd_mail_status *out);

typedef struct pd_mailbox_options {
  int64_t (*now_ms)(void *ctx); /* NULL: the system's clock */
  void *now_ctx;
  uint64_t count_max; /* letters queued or claimed; 0: 10,000 */
  int64_t keep_ms;    /* how long letters are kept that were accepted, superseded or cancelled; 0: seven days. Dead letters stay */
  const char *author; /* for the records; NULL: the store's. Copied */
  pd_later **later;   /* as note.later (perdure.h), for each commit; borrowed until pd_mailbox_close. Most often NULL */
} pd_mailbox_options;

typedef struct pd_mailbox pd_mailbox;

/* The mailbox of a thread, which need not exist. Writes nothing: the ref is made by the first letter. `options` may be NULL. A pd_mailbox
 * may be used by any number of threads at once; close it before the store. PD_INVALID named InvalidId. */
PD_API PD_MUST_USE pd_code pd_mailbox_open(pd_store *store, const char *thread_id, const pd_mailbox_options *options, pd_mailbox **out,
                                           pd_error *err);
/* Takes NULL. */
PD_API void pd_mailbox_close(pd_mailbox *box);
/* Remove the mailbox with all its letters; history keeps them. PD_NOT_FOUND if no letter was ever sent there. */
PD_API PD_MUST_USE pd_code pd_mailbox_remove(pd_mailbox *box, pd_error *err);

/* ---- sending ------------------------------------------------------------------------------------------------------ */

/* What to send. Zero-initialise; only `body` is needed. */
typedef struct pd_mail {
  pd_bytes body;          /* JSON, at most PD_MAIL_BODY_SIZE_MAX */
  const char *kind;       /* the sender's word for it; NULL: "message" */
  const char *sender;     /* NULL: none */
  const char *dedupe_key; /* NULL: none. A letter with this key that is still kept, whatever became of it, stands for this one */
  int32_t priority;       /* higher is sooner */
  uint32_t attempts_max;  /* claims before it is a dead letter; 0: PD_MAIL_ATTEMPTS_DEFAULT */
  int64_t not_before_ms;  /* milliseconds since 1970; 0: at once */
  bool is_interrupt;      /* every letter that is queued or claimed is superseded by this one */
} pd_mail;

typedef struct pd_mail_sent {
  uint64_t number;       /* 1, 2, 3…, never used twice */
  pd_mail_status status; /* of a duplicate: what has become of the first */
  bool is_duplicate;     /* `number` is an earlier letter's, and nothing was written */
  uint64_t superseded;   /* letters that the interrupt superseded */
} pd_mail_sent;

/* Durable as the store is when it returns. A call that failed with PD_STORAGE may have been done all the same: with a dedupe key it can be
 * made again without harm. PD_QUOTA named MailboxFull at count_max (not for an interrupt that makes room); PD_INVALID, PD_LIMIT name the
 * member. `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_mailbox_send(pd_mailbox *box, const pd_mail *mail, pd_mail_sent *out, pd_error *err);

/* ---- letters ------------------------------------------------------------------------------------------------------ */

/* A letter. Pointers are borrowed until the visitor returns; texts are "" if there is none. */
typedef struct pd_letter {
  uint64_t number;
  pd_mail_status status;
  const char *kind, *sender, *dedupe_key;
  pd_bytes body; /* JSON */
  int32_t priority;
  uint64_t generation; /* how many interrupts came before it, itself included */
  uint32_t attempts, attempts_max;
  int64_t created_ms, updated_ms;
  int64_t retry_ms;       /* queued: not before */
  const char *claimed_by; /* the consumer that has it, or had it last */
  const char *token;      /* claimed: the claim's */
  int64_t lease_until_ms; /* claimed */
  const char *error;      /* why it was rejected, the last time */
  uint64_t superseded_by; /* superseded: the interrupt's number; 0: pd_mailbox_interrupt */
} pd_letter;

/* Return false to stop. */
typedef bool (*pd_letter_visit)(void *ctx, const pd_letter *letter);

typedef struct pd_letter_query {
  unsigned statuses; /* 1u << PD_MAIL_QUEUED | …; 0: all */
  uint64_t after;    /* only letters with greater numbers: paging */
  uint64_t limit;    /* 0: all */
} pd_letter_query;

/* Visit letters by number, as they are at one moment. `query` may be NULL. An empty mailbox has none; that is no error. */
PD_API PD_MUST_USE pd_code pd_mailbox_list(pd_mailbox *box, const pd_letter_query *query, pd_letter_visit visit, void *ctx, pd_error *err);
/* One letter. PD_NOT_FOUND named LetterNotFound. */
PD_API PD_MUST_USE pd_code pd_mailbox_show(pd_mailbox *box, uint64_t number, pd_letter_visit visit, void *ctx, pd_error *err);

typedef struct pd_mailbox_counts {
  uint64_t queued, claimed, accepted, superseded, cancelled, dead;
  uint64_t generation;
} pd_mailbox_counts;

/* Costs a walk over the letters that are kept. */
PD_API PD_MUST_USE pd_code pd_mailbox_count(pd_mailbox *box, pd_mailbox_counts *out, pd_error *err);

/* ---- claiming ----------------------------------------------------------------------------------------------------- */

typedef struct pd_claim {
  const char *consumer; /* who claims, 1 to 256 bytes: for people; the token is what counts */
  int64_t lease_ms;     /* 1 to PD_MAIL_LEASE_MS_MAX */
  uint32_t count;       /* at most so many letters, 1 to PD_MAIL_CLAIM_COUNT_MAX; 0: 1 */
} pd_claim;

typedef struct pd_claim_found {
  uint32_t count;      /* claimed */
  uint32_t dead;       /* letters that became dead letters here: their last lease has ended */
  int64_t next_due_ms; /* if none was found: when a retry time or a lease ends; INT64_MAX: nothing waits */
} pd_claim_found;

/* Claim letters. Leases that have ended are taken back first. `visit` is called for each letter once the claim is durable; its answer is
 * ignored. None is no error: count is 0. `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_mailbox_claim(pd_mailbox *box, const pd_claim *claim, pd_letter_visit visit, void *ctx, pd_claim_found *out,
                                            pd_error *err);

/* The calls of a claim's holder. PD_CONFLICT named ClaimLost if the token is not (any more) the letter's, LetterDone if the letter was
 * superseded, cancelled or is a dead letter; PD_NOT_FOUND named LetterNotFound. A lease that has ended is no hindrance as long as nobody
 * else took the letter. */

/* The thread has taken the letter: it will not be delivered again. Accepting twice with one token is no error. */
PD_API PD_MUST_USE pd_code pd_mailbox_accept(pd_mailbox *box, uint64_t number, const char *token, pd_error *err);
/* The lease ends `lease_ms` from now. */
PD_API PD_MUST_USE pd_code pd_mailbox_extend(pd_mailbox *box, uint64_t number, const char *token, int64_t lease_ms, pd_error *err);

typedef struct pd_rejection {
  const char *error; /* why, for people; NULL: none. Cut at PD_MAIL_ERROR_SIZE_MAX */
  int64_t retry_ms;  /* milliseconds since 1970; 0: after a pause that doubles with each attempt, from a second to five minutes */
  bool is_final;     /* do not try again: a dead letter */
} pd_rejection;

/* It could not be dealt with: queued again, or a dead letter if it was its last attempt. `how` may be NULL; `out_status` too. */
PD_API PD_MUST_USE pd_code pd_mailbox_reject(pd_mailbox *box, uint64_t number, const char *token, const pd_rejection *how,
                                             pd_mail_status *out_status, pd_error *err);

/* ---- for those who look after it ----------------------------------------------------------------------------------- */

/* A letter that is queued or claimed is not to be delivered. Cancelling twice is no error; PD_CONFLICT named LetterDone for other ends. */
PD_API PD_MUST_USE pd_code pd_mailbox_cancel(pd_mailbox *box, uint64_t number, pd_error *err);
/* An interrupt without a letter: all that is queued or claimed is superseded. `out_count` may be NULL. */
PD_API PD_MUST_USE pd_code pd_mailbox_interrupt(pd_mailbox *box, uint64_t *out_count, pd_error *err);
/* A dead letter is queued again, with all its attempts. PD_CONFLICT named LetterNotDead. */
PD_API PD_MUST_USE pd_code pd_mailbox_requeue(pd_mailbox *box, uint64_t number, pd_error *err);
/* Forget letters that ended before `before_ms`; dead ones too if `with_dead`. With `is_dry_run` only count. History keeps them. */
PD_API PD_MUST_USE pd_code pd_mailbox_purge(pd_mailbox *box, int64_t before_ms, bool with_dead, bool is_dry_run, uint64_t *out_count,
                                            pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
