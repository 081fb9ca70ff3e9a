/* mailbox_list.c: looking into a mailbox, and what those who look after it may do with single letters. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/key.h"
#include "thread/mailbox.h"
#include "thread/thread.h"

/* ---- looking ---- */

/* All reads of one call are of one moment. *out stays NULL if there is no such mailbox, so it is empty. */
static pd_code view_of(pd_mailbox *box, pd_view **out, pd_error *err)
{
  pd_error why;
  pd_code code = pd_view_open(box->store, box->ref, out, &why);
  if (code && code != PD_NOT_FOUND && err) *err = why;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code read_fixed(pd_view *view, uint64_t number, pd_mail_item *item, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE];
  TRY(pd_view_get(view, pd_text(pd_mail_key("mail", number, key)), &item->fixed, NULL, err));
  return pd_mail_decode(number, item, err);
}

static pd_code walk(pd_view *view, pd_iter *iter, const pd_letter_query *query, pd_letter_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  unsigned statuses = query->statuses ? query->statuses : ~0u;
  uint64_t shown = 0;
  pd_entry entry;
  pd_bytes state;
  pd_code code = PD_OK;
  while ((!query->limit || shown < query->limit) && (code = pd_iter_next(iter, &entry, &state, err)) == PD_OK) {
    pd_buf_clear(&item.state);
    TRY(pd_buf_append(&item.state, state.data, state.size, err));
    TRY(read_fixed(view, pd_key_number(entry.key), &item, err));
    if (!(statuses & 1u << item.letter.status)) continue;
    shown++;
    if (!visit(ctx, &item.letter)) return PD_OK;
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_mailbox_list(pd_mailbox *box, const pd_letter_query *query, pd_letter_visit visit, void *ctx, pd_error *err)
{
  static const pd_letter_query all = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  char after[PD_MAIL_KEY_SIZE];
  pd_scan scan = {.prefix = pd_text("letter/")};
  TRY(view_of(box, &view, err));
  if (!view) return PD_OK;
  if (query && query->after) scan.after = pd_text(pd_mail_key("letter", query->after, after));
  TRY(pd_view_scan(view, &scan, &iter, err));
  return walk(view, iter, query ? query : &all, visit, ctx, err);
}

static pd_code no_letter(const pd_mailbox *box, uint64_t number, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "LetterNotFound", "there is no letter %llu on ref '%s'", (unsigned long long)number, box->ref);
}

pd_code pd_mailbox_show(pd_mailbox *box, uint64_t number, pd_letter_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  char key[PD_MAIL_KEY_SIZE];
  TRY(view_of(box, &view, err));
  if (!view) return no_letter(box, number, err);
  pd_code code = pd_view_get(view, pd_text(pd_mail_key("letter", number, key)), &item.state, NULL, err);
  if (code == PD_NOT_FOUND) return no_letter(box, number, err);
  TRY(code);
  TRY(read_fixed(view, number, &item, err));
  (void)visit(ctx, &item.letter);
  return PD_OK;
}

static bool count_one(void *ctx, const pd_letter *letter)
{
  pd_mailbox_counts *counts = ctx;
  uint64_t *const of[PD_MAIL_STATUS_COUNT] = {
    [PD_MAIL_QUEUED] = &counts->queued,         [PD_MAIL_CLAIMED] = &counts->claimed,     [PD_MAIL_ACCEPTED] = &counts->accepted,
    [PD_MAIL_SUPERSEDED] = &counts->superseded, [PD_MAIL_CANCELLED] = &counts->cancelled, [PD_MAIL_DEAD] = &counts->dead,
  };
  ++*of[letter->status];
  return true;
}

pd_code pd_mailbox_count(pd_mailbox *box, pd_mailbox_counts *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  static const pd_bind head[] = {{"generation", PD_BIND_NUMBER, PD_BIND_AT(pd_mailbox_counts, generation)}};
  pd_mailbox_counts counts = {0};
  TRY(pd_mailbox_list(box, NULL, count_one, &counts, err));
  pd_code code = pd_get(box->store, box->ref, pd_text("head"), &text, NULL, err);
  if (code && code != PD_NOT_FOUND) return code;
  if (!code) TRY(pd_leased_parse("head", pd_buf_bytes(&text), head, COUNT_OF(head), &counts, err));
  *out = counts;
  return PD_OK;
}

/* ---- looking after single letters ---- */

typedef struct care_job {
  pd_mailbox *box;
  uint64_t number;
  bool is_cancel; /* else requeue */
} care_job;

static pd_code check_care(const care_job *job, const pd_letter *letter, pd_error *err)
{
  bool is_open = letter->status == PD_MAIL_QUEUED || letter->status == PD_MAIL_CLAIMED;
  if (job->is_cancel ? is_open : letter->status == PD_MAIL_DEAD) return PD_OK;
  return pd_error_named(err, PD_CONFLICT, job->is_cancel ? "LetterDone" : "LetterNotDead", "letter %llu on '%s' is %s, so it cannot be %s",
                        (unsigned long long)job->number, job->box->ref, pd_mail_status_name(letter->status),
                        job->is_cancel ? "cancelled" : "queued again");
}

static pd_code stage_care(void *ctx, pd_mail_tx *tx, pd_error *err)
{
  const care_job *job = ctx;
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  TRY(pd_mail_read(tx, job->number, &item, err));
  if (job->is_cancel && item.letter.status == PD_MAIL_CANCELLED) return PD_OK; /* said twice */
  TRY(check_care(job, &item.letter, err));
  pd_letter next = item.letter;
  next.status = job->is_cancel ? PD_MAIL_CANCELLED : PD_MAIL_QUEUED;
  next.retry_ms = next.lease_until_ms = 0;
  next.token = "";
  if (!job->is_cancel) next.attempts = 0;
  TRY(pd_mail_move(tx, &next, &item.letter, err));
  return pd_mail_stage_head(tx, err);
}

static pd_code care_for(care_job *job, pd_error *err)
{
  bool is_missing;
  TRY(pd_mail_update(job->box, job->is_cancel ? "mailbox.cancel" : "mailbox.requeue", stage_care, job, &is_missing, err));
  return is_missing ? no_letter(job->box, job->number, err) : PD_OK;
}

pd_code pd_mailbox_cancel(pd_mailbox *box, uint64_t number, pd_error *err)
{
  care_job job = {.box = box, .number = number, .is_cancel = true};
  return care_for(&job, err);
}

pd_code pd_mailbox_requeue(pd_mailbox *box, uint64_t number, pd_error *err)
{
  care_job job = {.box = box, .number = number};
  return care_for(&job, err);
}
