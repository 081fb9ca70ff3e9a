/*
 * mailbox.h: the inside of a mailbox. The contract is include/perdure/mailbox.h; the keys are in docs/formats.md, "Mailboxes".
 *
 * It is a leased queue: LEA-1 to LEA-4 in leased/leased.h hold.
 *
 * M1  A letter has exactly one place: `queued/…` if it is queued, `claimed/…` if it is claimed, `dead/…` if it is a dead letter, `done/…`
 *     else. The head counts the first two.
 */
#ifndef PD_THREAD_MAILBOX_H
#define PD_THREAD_MAILBOX_H

#include "leased/leased.h"

#include <perdure/mailbox.h>

#define PD_MAIL_KEY_SIZE 96
#define PD_MAIL_REF_SIZE 80

struct pd_mailbox {
  pd_store *store;
  char ref[PD_MAIL_REF_SIZE];
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;
  pd_later **later; /* NULL: commits are waited for */
  uint64_t count_max;
  int64_t keep_ms;
  char *author; /* NULL: the store's */
};

/* ---- invocations: mailbox.c ---- */

typedef struct pd_mail_tx {
  pd_leased_tx l;
  pd_mailbox *box;
  uint64_t next, generation, queued, claimed; /* of the head */
} pd_mail_tx;

/* Change a mailbox in one commit (pd_leased_update): `fn` reads and stages in `tx`, and ends with pd_mail_stage_head; if it does not,
 * nothing is written. It may run several times, each time from the start. */
typedef pd_code (*pd_mail_fn)(void *ctx, pd_mail_tx *tx, pd_error *err);
PD_MUST_USE pd_code pd_mail_update(pd_mailbox *box, const char *reason, pd_mail_fn fn, void *ctx, bool *out_is_missing, pd_error *err);
/* Stage the head as the counts of `tx` are now. */
PD_MUST_USE pd_code pd_mail_stage_head(pd_mail_tx *tx, pd_error *err);

/* "NOUN/<20 digits>"; returns `out`. */
char *pd_mail_key(const char *noun, uint64_t number, char out[PD_MAIL_KEY_SIZE]);

/* ---- letters: mailbox_letter.c ---- */

/* A letter in memory, with what its texts are borrowed from. Zero-initialise. */
typedef struct pd_mail_item {
  pd_letter letter;
  pd_buf fixed, state, text;
  char token[PD_MAIL_TOKEN_SIZE]; /* a new claim's; letter.token points here then */
} pd_mail_item;

void pd_mail_item_done(pd_mail_item *item);
/* Read letter `number` in an invocation. PD_NOT_FOUND named LetterNotFound. */
PD_MUST_USE pd_code pd_mail_read(pd_mail_tx *tx, uint64_t number, pd_mail_item *out, pd_error *err);
/* Decode what item->fixed and item->state hold; PD_CORRUPT. */
PD_MUST_USE pd_code pd_mail_decode(uint64_t number, pd_mail_item *item, pd_error *err);
/* Stage a letter's fixed part. */
PD_MUST_USE pd_code pd_mail_put_fixed(pd_mail_tx *tx, const pd_letter *letter, pd_error *err);
/* Stage a letter's state and its place; `was` is where it was (0: nowhere, a new one). Keeps the head's counts. M1. */
PD_MUST_USE pd_code pd_mail_move(pd_mail_tx *tx, pd_letter *letter, const pd_letter *was, pd_error *err);
/* Stage that a letter is forgotten, which has ended. */
PD_MUST_USE pd_code pd_mail_forget(pd_mail_tx *tx, const pd_letter *letter, pd_error *err);
/* The key of a dedupe key: "dedupe/<64 hex digits>"; returns `out`. */
char *pd_mail_dedupe_key(const char *dedupe_key, char out[PD_MAIL_KEY_SIZE]);

/* ---- places: mailbox_place.c ---- */

/* The letters of "queued/" (until_ms: not before), "claimed/" (until), "done/" or "dead/" (since): see pd_leased_list. */
PD_MUST_USE pd_code pd_mail_places(pd_mail_tx *tx, const char *prefix, pd_leased_look *look, size_t max, pd_leased_item **out,
                                   size_t *out_count, pd_error *err);
/* Supersede all that is queued or claimed: `by` is the interrupt's number, or 0. */
PD_MUST_USE pd_code pd_mail_supersede(pd_mail_tx *tx, uint64_t by, uint64_t *out_count, pd_error *err);
/* Forget letters of "done/" or "dead/" that ended before `before_ms`, the oldest first, no more than `max`; adds to *out_count. */
PD_MUST_USE pd_code pd_mail_forget_place(pd_mail_tx *tx, const char *prefix, int64_t before_ms, size_t max, bool is_dry_run,
                                         uint64_t *out_count, pd_error *err);

#endif
