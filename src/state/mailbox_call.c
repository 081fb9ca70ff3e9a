/* mailbox_call.c: mailbox.*: the mailbox of a thread in the agent's own store (perdure/mailbox.h), by the home's clock. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/home.h"
#include "state/moment.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/threads.h"

#include <perdure/mailbox.h>
#include <stdio.h>

static void shut(pd_mailbox **box)
{
  pd_mailbox_close(*box);
}

/* The mailbox that the input names. *out is NULL if the agent has no store, which is made if `create`. */
static pd_code open_box(pd_frame *frame, bool create, pd_mailbox **out, pd_error *err)
{
  pd_thread_name id = pd_in_thread(frame);
  pd_mailbox_options options = {.now_ms = pd_threads_now,
                                .now_ctx = frame->home,
                                .count_max = frame->home->config.mailbox_count_max,
                                .author = *frame->agent ? frame->agent : "operator",
                                .later = pd_frame_later(frame)};
  pd_store *store;
  TRY(pd_thread_id_check(id.text, "thread", err));
  if (create)
    TRY(pd_frame_own(frame, true, &store, err));
  else
    TRY(pd_frame_own_or_none(frame, &store, err));
  *out = NULL;
  return store ? pd_mailbox_open(store, id.text, &options, out, err) : PD_OK;
}

/* …of a letter that the input names. */
static pd_code open_letter(pd_frame *frame, pd_mailbox **out, uint64_t *out_number, pd_error *err)
{
  *out_number = (uint64_t)pd_in_int(frame, "number", 0);
  TRY(open_box(frame, false, out, err));
  if (*out) return PD_OK;
  return pd_error_named(err, PD_NOT_FOUND, "LetterNotFound", "agent '%s' has no letter %llu there", frame->agent,
                        (unsigned long long)*out_number);
}

/* A token of the right size, or one that fits nothing. */
static void read_token(const pd_frame *frame, char out[65])
{
  out[0] = 0;
  pd_in_string(frame, "token", out, 65);
}

/* ---- letters ---- */

typedef struct letters {
  pd_frame *frame;
  uint64_t count, limit, last;
  bool has_more, with_token;
} letters;

static void write_letter(letters *l, const pd_letter *letter)
{
  pd_frame *frame = l->frame;
  pd_json_writer *w = &frame->out;
  pd_json_open(w, '{');
  pd_json_put_number(w, "number", letter->number);
  pd_json_put_text(w, "status", pd_mail_status_name(letter->status));
  pd_json_put_text(w, "kind", letter->kind);
  pd_out_said(frame, "sender", letter->sender);
  pd_json_key(w, "body");
  pd_json_raw(w, letter->body);
  pd_json_key(w, "priority");
  char number[16];
  pd_json_raw(w, (pd_bytes){number, (size_t)snprintf(number, sizeof number, "%d", (int)letter->priority)});
  pd_json_put_number(w, "attempts", letter->attempts);
  pd_json_put_number(w, "attempts_max", letter->attempts_max);
  pd_out_time(frame, "created_at", letter->created_ms);
  pd_out_said(frame, "dedupe_key", letter->dedupe_key);
  if (letter->retry_ms) pd_out_time(frame, "retry_at", letter->retry_ms);
  pd_out_said(frame, "claimed_by", letter->claimed_by);
  if (l->with_token) pd_out_said(frame, "token", letter->token);
  if (letter->lease_until_ms) pd_out_time(frame, "lease_until", letter->lease_until_ms);
  pd_out_said(frame, "error", letter->error);
  if (letter->superseded_by) pd_json_put_number(w, "superseded_by", letter->superseded_by);
  pd_json_close(w, '}');
}

static bool list_letter(void *ctx, const pd_letter *letter)
{
  letters *l = ctx;
  l->has_more = l->count >= l->limit || (l->count && pd_out_is_long(l->frame));
  if (l->has_more) return false;
  l->count++;
  l->last = letter->number;
  write_letter(l, letter);
  return true;
}

/* Every letter that was claimed is told, however long the answer gets: nobody else gets it before its lease ends. */
static bool tell_claimed(void *ctx, const pd_letter *letter)
{
  write_letter(ctx, letter);
  return true;
}

pd_code pd_cap_mailbox_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  char status[32] = "";
  pd_mail_status which;
  letters l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100)};
  pd_letter_query query = {.after = (uint64_t)pd_in_int(frame, "after", 0), .limit = l.limit + 1};
  pd_in_string(frame, "status", status, sizeof status);
  if (pd_mail_status_parse(status, &which)) query.statuses = 1u << which;
  TRY(open_box(frame, false, &box, err));
  pd_json_key(&frame->out, "letters");
  pd_json_open(&frame->out, '[');
  if (box) TRY(pd_mailbox_list(box, &query, list_letter, &l, err));
  pd_json_close(&frame->out, ']');
  pd_json_key(&frame->out, "next_after");
  if (l.has_more)
    pd_json_number(&frame->out, l.last);
  else
    pd_json_null(&frame->out);
  return PD_OK;
}

/* ---- sending and claiming ---- */

pd_code pd_cap_mailbox_send(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  CLEANUP(pd_buf_done) pd_buf body = {0};
  char kind[PD_MAIL_NAME_SIZE_MAX + 1] = "message", dedupe[PD_MAIL_DEDUPE_SIZE_MAX + 1];
  pd_mail_sent sent;
  bool has;
  pd_in_string(frame, "kind", kind, sizeof kind);
  pd_mail mail = {
    .kind = kind,
    .sender = *frame->agent ? frame->agent : "operator",
    .dedupe_key = pd_in_string(frame, "dedupe_key", dedupe, sizeof dedupe) ? dedupe : NULL,
    .priority = (int32_t)pd_in_int(frame, "priority", 0),
    .attempts_max = (uint32_t)pd_in_int(frame, "attempts_max", PD_MAIL_ATTEMPTS_DEFAULT),
    .is_interrupt = pd_in_bool(frame, "is_interrupt", false),
  };
  TRY(pd_in_moment(frame, "not_before", &mail.not_before_ms, &has, err));
  TRY(pd_in_value(frame, "body", &body, err));
  mail.body = pd_buf_bytes(&body);
  TRY(open_box(frame, true, &box, err));
  TRY(pd_quota_room(frame, false, err));
  TRY(pd_mailbox_send(box, &mail, &sent, err));
  pd_json_put_number(&frame->out, "number", sent.number);
  pd_json_put_text(&frame->out, "status", pd_mail_status_name(sent.status));
  pd_json_put_bool(&frame->out, "is_duplicate", sent.is_duplicate);
  pd_json_put_number(&frame->out, "superseded", sent.superseded);
  return PD_OK;
}

pd_code pd_cap_mailbox_claim(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  char consumer[PD_MAIL_NAME_SIZE_MAX + 1] = "";
  letters l = {.frame = frame, .with_token = true};
  pd_claim_found found = {.next_due_ms = INT64_MAX};
  pd_in_string(frame, "consumer", consumer, sizeof consumer);
  pd_claim claim = {
    .consumer = consumer,
    .lease_ms = pd_in_int(frame, "lease_seconds", 30) * 1000,
    .count = (uint32_t)pd_in_int(frame, "count", 1),
  };
  TRY(open_box(frame, false, &box, err));
  pd_json_key(&frame->out, "letters");
  pd_json_open(&frame->out, '[');
  if (box) TRY(pd_mailbox_claim(box, &claim, tell_claimed, &l, &found, err));
  pd_json_close(&frame->out, ']');
  pd_out_time(frame, "next_due_at", found.count || found.next_due_ms == INT64_MAX ? 0 : found.next_due_ms);
  return PD_OK;
}

/* ---- settling ---- */

pd_code pd_cap_mailbox_accept(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  char token[65];
  uint64_t number;
  read_token(frame, token);
  TRY(open_letter(frame, &box, &number, err));
  TRY(pd_mailbox_accept(box, number, token, err));
  pd_json_put_bool(&frame->out, "accepted", true);
  return PD_OK;
}

pd_code pd_cap_mailbox_extend(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  char token[65];
  uint64_t number;
  read_token(frame, token);
  TRY(open_letter(frame, &box, &number, err));
  TRY(pd_mailbox_extend(box, number, token, pd_in_int(frame, "lease_seconds", 30) * 1000, err));
  pd_json_put_bool(&frame->out, "extended", true);
  return PD_OK;
}

pd_code pd_cap_mailbox_reject(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  char token[65], error[PD_MAIL_ERROR_SIZE_MAX + 1] = "";
  uint64_t number;
  bool has;
  pd_mail_status status;
  pd_rejection how = {.error = error, .is_final = pd_in_bool(frame, "is_final", false)};
  read_token(frame, token);
  pd_in_string(frame, "error", error, sizeof error);
  TRY(pd_in_moment(frame, "retry_at", &how.retry_ms, &has, err));
  TRY(open_letter(frame, &box, &number, err));
  TRY(pd_mailbox_reject(box, number, token, &how, &status, err));
  pd_json_put_text(&frame->out, "status", pd_mail_status_name(status));
  return PD_OK;
}

pd_code pd_cap_mailbox_cancel(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  uint64_t number;
  TRY(open_letter(frame, &box, &number, err));
  TRY(pd_mailbox_cancel(box, number, err));
  pd_json_put_bool(&frame->out, "cancelled", true);
  return PD_OK;
}

pd_code pd_cap_mailbox_requeue(pd_frame *frame, pd_error *err)
{
  CLEANUP(shut) pd_mailbox *box = NULL;
  uint64_t number;
  TRY(open_letter(frame, &box, &number, err));
  TRY(pd_mailbox_requeue(box, number, err));
  pd_json_put_bool(&frame->out, "requeued", true);
  return PD_OK;
}
