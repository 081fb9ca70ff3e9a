/* mailbox_send.c: sending letters: dedupe keys, interrupts, limits; and forgetting old letters by the way. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/mailbox.h"

#include <stdio.h>

#define FORGET_MAX 100 /* old letters that one send removes */

/* ---- what is refused ---- */

static pd_code check_text(const char *what, const char *text, size_t size_max, pd_error *err)
{
  if (!text) return PD_OK;
  size_t size = strlen(text);
  if (!size) return pd_error_set(err, PD_INVALID, "the %s of a letter is empty", what);
  if (size > size_max) return pd_error_set(err, PD_LIMIT, "the %s of a letter has %zu bytes, the limit is %zu", what, size, size_max);
  if (!pd_utf8_check(pd_text(text))) return pd_error_set(err, PD_INVALID, "the %s of a letter is not UTF-8", what);
  return PD_OK;
}

static pd_code check_body(pd_bytes body, pd_error *err)
{
  pd_error why = {0};
  pd_json json;
  if (body.size > PD_MAIL_BODY_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the body of a letter has %zu bytes, the limit is %zu", body.size, PD_MAIL_BODY_SIZE_MAX);
  pd_code code = pd_json_parse(body, &json, &why);
  if (!code) code = pd_json_unique(json, &why);
  if (code) return pd_error_set(err, code, "the body of a letter: %s", why.message);
  return PD_OK;
}

static pd_code check_mail(const pd_mail *mail, pd_error *err)
{
  TRY(check_body(mail->body, err));
  TRY(check_text("kind", mail->kind, PD_MAIL_NAME_SIZE_MAX, err));
  TRY(check_text("sender", mail->sender, PD_MAIL_NAME_SIZE_MAX, err));
  TRY(check_text("dedupe key", mail->dedupe_key, PD_MAIL_DEDUPE_SIZE_MAX, err));
  if (mail->priority < -PD_MAIL_PRIORITY_MAX || mail->priority > PD_MAIL_PRIORITY_MAX)
    return pd_error_set(err, PD_INVALID, "the priority of a letter is %d: it goes from %d to %d", (int)mail->priority,
                        -PD_MAIL_PRIORITY_MAX, PD_MAIL_PRIORITY_MAX);
  if (mail->attempts_max > PD_MAIL_ATTEMPTS_MAX)
    return pd_error_set(err, PD_LIMIT, "a letter with %u attempts: the limit is %d", mail->attempts_max, PD_MAIL_ATTEMPTS_MAX);
  if (mail->not_before_ms < 0) return pd_error_set(err, PD_INVALID, "not_before_ms of a letter is negative");
  return PD_OK;
}

/* ---- sending ---- */

/* The letter that has this dedupe key already, if there is one that is kept. */
static pd_code find_duplicate(pd_mail_tx *tx, const char *dedupe_key, pd_mail_sent *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  char key[PD_MAIL_KEY_SIZE];
  uint64_t number;
  pd_json json;
  pd_code code = pd_edit_get(tx->l.edit, pd_text(pd_mail_dedupe_key(dedupe_key, key)), &text, NULL, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  if (pd_json_parse(pd_buf_bytes(&text), &json, NULL) || !pd_json_u64(json, &number)) return pd_leased_corrupt(key, "", err);
  TRY(pd_mail_read(tx, number, &item, err));
  const pd_letter *l = &item.letter;
  bool is_done = l->status != PD_MAIL_QUEUED && l->status != PD_MAIL_CLAIMED && l->status != PD_MAIL_DEAD;
  if (is_done && l->updated_ms < tx->l.now_ms - tx->box->keep_ms) return pd_mail_forget(tx, l, err); /* the key is free again */
  *out = (pd_mail_sent){.number = number, .status = item.letter.status, .is_duplicate = true};
  return PD_OK;
}

static pd_code check_room(const pd_mail_tx *tx, pd_error *err)
{
  if (tx->queued + tx->claimed < tx->box->count_max) return PD_OK;
  return pd_error_named(err, PD_QUOTA, "MailboxFull", "'%s' holds %llu letters that are not settled, the limit is %llu", tx->box->ref,
                        (unsigned long long)(tx->queued + tx->claimed), (unsigned long long)tx->box->count_max);
}

static pd_code stage_letter(pd_mail_tx *tx, const pd_mail *mail, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE], text[32];
  pd_letter letter = {
    .number = tx->next,
    .status = PD_MAIL_QUEUED,
    .kind = mail->kind ? mail->kind : "message",
    .sender = mail->sender ? mail->sender : "",
    .dedupe_key = mail->dedupe_key ? mail->dedupe_key : "",
    .body = mail->body,
    .priority = mail->priority,
    .generation = tx->generation,
    .attempts_max = mail->attempts_max ? mail->attempts_max : PD_MAIL_ATTEMPTS_DEFAULT,
    .created_ms = tx->l.now_ms < 0 ? 0 : tx->l.now_ms,
    .retry_ms = mail->not_before_ms,
    .claimed_by = "",
    .token = "",
    .error = "",
  };
  TRY(pd_mail_put_fixed(tx, &letter, err));
  TRY(pd_mail_move(tx, &letter, NULL, err));
  tx->next++;
  if (!mail->dedupe_key) return PD_OK;
  snprintf(text, sizeof text, "%llu", (unsigned long long)letter.number);
  return pd_edit_put(tx->l.edit, pd_text(pd_mail_dedupe_key(mail->dedupe_key, key)), pd_text(text), PD_ANY_VERSION, err);
}

typedef struct send_job {
  pd_mailbox *box;
  const pd_mail *mail;
  pd_mail_sent sent;
} send_job;

static pd_code stage_send(void *ctx, pd_mail_tx *tx, pd_error *err)
{
  send_job *job = ctx;
  uint64_t forgotten = 0;
  job->sent = (pd_mail_sent){.status = PD_MAIL_QUEUED};
  TRY(pd_mail_forget_place(tx, "done/", pd_leased_sure_ms(&tx->l) - job->box->keep_ms, FORGET_MAX, false, &forgotten, err));
  if (job->mail->dedupe_key) TRY(find_duplicate(tx, job->mail->dedupe_key, &job->sent, err));
  if (job->sent.is_duplicate) return PD_OK;
  if (job->mail->is_interrupt) TRY(pd_mail_supersede(tx, tx->next, &job->sent.superseded, err));
  TRY(check_room(tx, err));
  job->sent.number = tx->next;
  TRY(stage_letter(tx, job->mail, err));
  return pd_mail_stage_head(tx, err);
}

pd_code pd_mailbox_send(pd_mailbox *box, const pd_mail *mail, pd_mail_sent *out, pd_error *err)
{
  send_job job = {.box = box, .mail = mail};
  TRY(check_mail(mail, err));
  TRY(pd_mail_update(box, "mailbox.send", stage_send, &job, NULL, err));
  if (out) *out = job.sent;
  return PD_OK;
}

/* ---- an interrupt alone ---- */

static pd_code stage_interrupt(void *ctx, pd_mail_tx *tx, pd_error *err)
{
  send_job *job = ctx;
  job->sent.superseded = 0;
  TRY(pd_mail_supersede(tx, 0, &job->sent.superseded, err));
  return job->sent.superseded ? pd_mail_stage_head(tx, err) : PD_OK;
}

pd_code pd_mailbox_interrupt(pd_mailbox *box, uint64_t *out_count, pd_error *err)
{
  send_job job = {.box = box};
  bool is_missing; /* nothing was ever sent */
  TRY(pd_mail_update(box, "mailbox.interrupt", stage_interrupt, &job, &is_missing, err));
  if (out_count) *out_count = job.sent.superseded;
  return PD_OK;
}

/* ---- forgetting by hand ---- */

typedef struct purge_job {
  pd_mailbox *box;
  int64_t before_ms;
  bool with_dead, is_dry_run;
  uint64_t count;
} purge_job;

static pd_code stage_purge(void *ctx, pd_mail_tx *tx, pd_error *err)
{
  purge_job *job = ctx;
  job->count = 0;
  TRY(pd_mail_forget_place(tx, "done/", job->before_ms, SIZE_MAX, job->is_dry_run, &job->count, err));
  if (job->with_dead) TRY(pd_mail_forget_place(tx, "dead/", job->before_ms, SIZE_MAX, job->is_dry_run, &job->count, err));
  return job->count && !job->is_dry_run ? pd_mail_stage_head(tx, err) : PD_OK;
}

pd_code pd_mailbox_purge(pd_mailbox *box, int64_t before_ms, bool with_dead, bool is_dry_run, uint64_t *out_count, pd_error *err)
{
  purge_job job = {.box = box, .before_ms = before_ms, .with_dead = with_dead, .is_dry_run = is_dry_run};
  bool is_missing;
  TRY(pd_mail_update(box, "mailbox.purge", stage_purge, &job, &is_missing, err));
  if (out_count) *out_count = job.count;
  return PD_OK;
}
