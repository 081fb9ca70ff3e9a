/* mailbox_claim.c: claiming letters, and what the holder of a claim may do. Invariants are in mailbox.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/random.h"
#include "thread/mailbox.h"

#include <stdlib.h>

#define BACKOFF_MS_FIRST 1000
#define BACKOFF_MS_MAX (5 * 60 * 1000)

static pd_code check_lease(int64_t lease_ms, pd_error *err)
{
  if (lease_ms >= 1 && lease_ms <= PD_MAIL_LEASE_MS_MAX) return PD_OK;
  return pd_error_set(err, PD_INVALID, "a lease of %lld ms: it lasts 1 to %lld ms", (long long)lease_ms, (long long)PD_MAIL_LEASE_MS_MAX);
}

/* Queued again, or a dead letter if that was the last attempt. */
static void give_back(pd_letter *letter, int64_t retry_ms, bool is_final)
{
  letter->status = is_final || letter->attempts >= letter->attempts_max ? PD_MAIL_DEAD : PD_MAIL_QUEUED;
  letter->retry_ms = letter->status == PD_MAIL_QUEUED ? retry_ms : 0;
  letter->token = "";
  letter->lease_until_ms = 0;
}

/* ---- claiming ---- */

typedef struct claim_job {
  pd_mailbox *box;
  const pd_claim *claim;
  pd_claim_found found;
  pd_mail_item items[PD_MAIL_CLAIM_COUNT_MAX];
} claim_job;

static pd_code take_back_one(claim_job *job, pd_mail_tx *tx, uint64_t number, pd_error *err)
{
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  TRY(pd_mail_read(tx, number, &item, err));
  pd_letter next = item.letter;
  give_back(&next, 0, false);
  if (next.status == PD_MAIL_DEAD) {
    next.error = "its last lease ended";
    job->found.dead++;
  }
  return pd_mail_move(tx, &next, &item.letter, err);
}

/* Leases that have ended. */
static pd_code take_back(claim_job *job, pd_mail_tx *tx, pd_leased_look *look, bool *out_any, pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *all = NULL;
  size_t count = 0;
  TRY(pd_mail_places(tx, "claimed/", look, SIZE_MAX, &all, &count, err));
  for (size_t i = 0; i < count; i++) TRY(take_back_one(job, tx, all[i].number, err));
  *out_any = count > 0;
  return PD_OK;
}

static pd_code take_one(claim_job *job, pd_mail_tx *tx, uint64_t number, pd_mail_item *item, pd_error *err)
{
  TRY(pd_mail_read(tx, number, item, err));
  TRY(pd_random_hex(item->token, sizeof item->token, err));
  pd_letter was = item->letter, *l = &item->letter;
  l->status = PD_MAIL_CLAIMED;
  l->attempts++;
  l->claimed_by = job->claim->consumer;
  l->token = item->token;
  l->lease_until_ms = tx->l.now_ms + job->claim->lease_ms;
  l->retry_ms = 0;
  return pd_mail_move(tx, l, &was, err);
}

static pd_code stage_claim(void *ctx, pd_mail_tx *tx, pd_error *err)
{
  claim_job *job = ctx;
  CLEANUP(pd_free_at) pd_leased_item *first = NULL;
  pd_leased_look look = {tx->l.now_ms, PD_MAIL_LEASE_MS_MAX, INT64_MAX};
  size_t count = 0;
  bool any;
  job->found = (pd_claim_found){0};
  TRY(take_back(job, tx, &look, &any, err));
  look.lease_ms_max = INT64_MAX; /* a letter may wait for as long as its sender said */
  TRY(pd_mail_places(tx, "queued/", &look, job->claim->count ? job->claim->count : 1, &first, &count, err));
  for (size_t i = 0; i < count; i++) TRY(take_one(job, tx, first[i].number, &job->items[i], err));
  job->found.next_due_ms = look.next_due_ms;
  job->found.count = (uint32_t)count;
  return any || count ? pd_mail_stage_head(tx, err) : PD_OK;
}

static pd_code check_claim(const pd_claim *claim, pd_error *err)
{
  size_t size = claim->consumer ? strlen(claim->consumer) : 0;
  if (!size || size > PD_MAIL_NAME_SIZE_MAX || !pd_utf8_check(pd_text(claim->consumer)))
    return pd_error_set(err, PD_INVALID, "the consumer of a claim is 1 to %d bytes of UTF-8", PD_MAIL_NAME_SIZE_MAX);
  if (claim->count > PD_MAIL_CLAIM_COUNT_MAX)
    return pd_error_set(err, PD_LIMIT, "a claim of %u letters: the limit is %d", claim->count, PD_MAIL_CLAIM_COUNT_MAX);
  return check_lease(claim->lease_ms, err);
}

pd_code pd_mailbox_claim(pd_mailbox *box, const pd_claim *claim, pd_letter_visit visit, void *ctx, pd_claim_found *out, pd_error *err)
{
  TRY(check_claim(claim, err));
  claim_job *job = calloc(1, sizeof *job);
  if (!job) return pd_error_memory(err, "a claim");
  job->box = box;
  job->claim = claim;
  job->found = (pd_claim_found){.next_due_ms = INT64_MAX};
  bool is_missing; /* nothing was ever sent */
  pd_code code = pd_mail_update(box, "mailbox.claim", stage_claim, job, &is_missing, err);
  if (!code && job->found.count) job->found.next_due_ms = INT64_MAX;
  for (uint32_t i = 0; !code && i < job->found.count; i++) (void)visit(ctx, &job->items[i].letter);
  if (!code && out) *out = job->found;
  for (size_t i = 0; i < COUNT_OF(job->items); i++) pd_mail_item_done(&job->items[i]);
  free(job);
  return code;
}

/* ---- the holder's calls ---- */

typedef struct settle_job {
  pd_mailbox *box;
  uint64_t number;
  const char *token;
  const char *reason;
  pd_mail_status to; /* accepted, claimed (extend), queued (reject) */
  int64_t lease_ms;
  const pd_rejection *how;
  pd_mail_status status; /* out */
} settle_job;

static pd_code check_holder(const settle_job *job, const pd_letter *letter, pd_error *err)
{
  unsigned long long number = job->number;
  if (letter->status == PD_MAIL_SUPERSEDED || letter->status == PD_MAIL_CANCELLED || letter->status == PD_MAIL_DEAD)
    return pd_error_named(err, PD_CONFLICT, "LetterDone", "letter %llu on '%s' is %s", number, job->box->ref,
                          pd_mail_status_name(letter->status));
  if (!*letter->token || strcmp(letter->token, job->token) != 0)
    return pd_error_named(err, PD_CONFLICT, "ClaimLost", "letter %llu on '%s' is %s%s%s: this claim's token is not good any more", number,
                          job->box->ref, pd_mail_status_name(letter->status), *letter->claimed_by ? ", last claimed by " : "",
                          letter->claimed_by);
  if (letter->status == PD_MAIL_ACCEPTED && job->to != PD_MAIL_ACCEPTED)
    return pd_error_named(err, PD_CONFLICT, "LetterDone", "letter %llu on '%s' is accepted", number, job->box->ref);
  return PD_OK;
}

/* Doubles with each attempt. */
static int64_t backoff_ms(uint32_t attempts)
{
  int64_t pause = BACKOFF_MS_FIRST;
  for (uint32_t i = 1; i < attempts && pause < BACKOFF_MS_MAX; i++) pause *= 2;
  return pause < BACKOFF_MS_MAX ? pause : BACKOFF_MS_MAX;
}

/* The longest beginning of `text` that fits and does not end within a character. */
static void cut_error(const char *text, char out[PD_MAIL_ERROR_SIZE_MAX + 1])
{
  size_t size = strnlen(text, PD_MAIL_ERROR_SIZE_MAX + 1);
  if (size > PD_MAIL_ERROR_SIZE_MAX)
    for (size = PD_MAIL_ERROR_SIZE_MAX; size && ((uint8_t)text[size] & 0xc0) == 0x80;) size--;
  memcpy(out, text, size);
  out[size] = 0;
}

static void settle(const settle_job *job, const pd_mail_tx *tx, pd_letter *letter, char error[PD_MAIL_ERROR_SIZE_MAX + 1])
{
  static const pd_rejection none = {0};
  const pd_rejection *how = job->how ? job->how : &none;
  if (job->to == PD_MAIL_QUEUED) {
    give_back(letter, how->retry_ms ? how->retry_ms : tx->l.now_ms + backoff_ms(letter->attempts), how->is_final);
    cut_error(how->error ? how->error : "", error);
    letter->error = error;
  } else if (job->to == PD_MAIL_CLAIMED) {
    letter->lease_until_ms = tx->l.now_ms + job->lease_ms;
  } else {
    letter->status = PD_MAIL_ACCEPTED;
    letter->lease_until_ms = 0;
  }
}

static pd_code stage_settlement(void *ctx, pd_mail_tx *tx, pd_error *err)
{
  settle_job *job = ctx;
  char error[PD_MAIL_ERROR_SIZE_MAX + 1];
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  TRY(pd_mail_read(tx, job->number, &item, err));
  TRY(check_holder(job, &item.letter, err));
  pd_letter next = item.letter;
  job->status = PD_MAIL_ACCEPTED;
  if (item.letter.status == PD_MAIL_ACCEPTED) return PD_OK; /* said twice */
  settle(job, tx, &next, error);
  job->status = next.status;
  TRY(pd_mail_move(tx, &next, &item.letter, err));
  return pd_mail_stage_head(tx, err);
}

static pd_code settle_letter(settle_job *job, pd_error *err)
{
  bool is_missing;
  TRY(pd_mail_update(job->box, job->reason, stage_settlement, job, &is_missing, err));
  if (!is_missing) return PD_OK;
  return pd_error_named(err, PD_NOT_FOUND, "LetterNotFound", "no letter was ever sent to '%s'", job->box->ref);
}

static pd_code check_token(const char *token, pd_error *err)
{
  if (token && strlen(token) == PD_MAIL_TOKEN_SIZE - 1) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the token of a claim is %d hex digits, as the claim gave it", PD_MAIL_TOKEN_SIZE - 1);
}

pd_code pd_mailbox_accept(pd_mailbox *box, uint64_t number, const char *token, pd_error *err)
{
  settle_job job = {.box = box, .number = number, .token = token, .reason = "mailbox.accept", .to = PD_MAIL_ACCEPTED};
  TRY(check_token(token, err));
  return settle_letter(&job, err);
}

pd_code pd_mailbox_extend(pd_mailbox *box, uint64_t number, const char *token, int64_t lease_ms, pd_error *err)
{
  settle_job job = {.box = box, .number = number, .token = token, .reason = "mailbox.extend", .to = PD_MAIL_CLAIMED, .lease_ms = lease_ms};
  TRY(check_token(token, err));
  TRY(check_lease(lease_ms, err));
  return settle_letter(&job, err);
}

pd_code pd_mailbox_reject(pd_mailbox *box, uint64_t number, const char *token, const pd_rejection *how, pd_mail_status *out_status,
                          pd_error *err)
{
  settle_job job = {.box = box, .number = number, .token = token, .reason = "mailbox.reject", .to = PD_MAIL_QUEUED, .how = how};
  TRY(check_token(token, err));
  if (how && how->retry_ms < 0) return pd_error_set(err, PD_INVALID, "retry_ms of a rejection is negative");
  TRY(settle_letter(&job, err));
  if (out_status) *out_status = job.status;
  return PD_OK;
}
