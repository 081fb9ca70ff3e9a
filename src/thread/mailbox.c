/* mailbox.c: opening a mailbox, and invocations over one. Invariants are in mailbox.h. */
#include "thread/mailbox.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT_MAX_DEFAULT 10000
#define KEEP_MS_DEFAULT ((int64_t)7 * 24 * 3600 * 1000)

/* ---- opening ---- */

pd_code pd_mailbox_open(pd_store *store, const char *thread_id, const pd_mailbox_options *options, pd_mailbox **out, pd_error *err)
{
  static const pd_mailbox_options none = {0};
  const pd_mailbox_options *o = options ? options : &none;
  TRY(pd_thread_id_check(thread_id, "thread", err));
  if (o->keep_ms < 0) return pd_error_set(err, PD_INVALID, "keep_ms of a mailbox is negative");
  pd_mailbox *box = calloc(1, sizeof *box);
  if (!box) return pd_error_memory(err, "a mailbox");
  box->store = store;
  snprintf(box->ref, sizeof box->ref, "mailbox/%s", thread_id);
  box->now_ms = o->now_ms ? o->now_ms : pd_clock_now_ms;
  box->now_ctx = o->now_ctx;
  box->count_max = o->count_max ? o->count_max : COUNT_MAX_DEFAULT;
  box->keep_ms = o->keep_ms ? o->keep_ms : KEEP_MS_DEFAULT;
  box->later = o->later;
  if (o->author && !(box->author = strdup(o->author))) {
    free(box);
    return pd_error_memory(err, "a mailbox");
  }
  *out = box;
  return PD_OK;
}

void pd_mailbox_close(pd_mailbox *box)
{
  if (!box) return;
  free(box->author);
  free(box);
}

pd_code pd_mailbox_remove(pd_mailbox *box, pd_error *err)
{
  pd_note note = {.author = box->author, .reason = "mailbox.remove"};
  return pd_ref_delete(box->store, box->ref, &note, err);
}

/* ---- keys ---- */

char *pd_mail_key(const char *noun, uint64_t number, char out[PD_MAIL_KEY_SIZE])
{
  snprintf(out, PD_MAIL_KEY_SIZE, "%s/%020llu", noun, (unsigned long long)number);
  return out;
}

/* ---- invocations ---- */

static const pd_bind head[] = {
  {"next", PD_BIND_NUMBER, PD_BIND_AT(pd_mail_tx, next)},
  {"generation", PD_BIND_NUMBER, PD_BIND_AT(pd_mail_tx, generation)},
  {"queued", PD_BIND_NUMBER, PD_BIND_AT(pd_mail_tx, queued)},
  {"claimed", PD_BIND_NUMBER, PD_BIND_AT(pd_mail_tx, claimed)},
};

pd_code pd_mail_stage_head(pd_mail_tx *tx, pd_error *err)
{
  return pd_leased_stage_head(&tx->l, head, COUNT_OF(head), tx, err);
}

typedef struct mail_update {
  pd_mailbox *box;
  pd_mail_fn fn;
  void *ctx;
} mail_update;

static pd_code run_update(void *ctx, pd_edit *edit, pd_error *err)
{
  const mail_update *u = ctx;
  pd_mail_tx tx = {.box = u->box, .next = 1};
  TRY(pd_leased_begin(&tx.l, edit, "head", u->box->now_ms(u->box->now_ctx), head, COUNT_OF(head), &tx, err));
  TRY(u->fn(u->ctx, &tx, err));
  pd_leased_end(&tx.l);
  return PD_OK;
}

pd_code pd_mail_update(pd_mailbox *box, const char *reason, pd_mail_fn fn, void *ctx, bool *out_is_missing, pd_error *err)
{
  mail_update u = {.box = box, .fn = fn, .ctx = ctx};
  pd_note note = {.ref = box->ref, .author = box->author, .reason = reason, .later = box->later};
  return pd_leased_update(box->store, &note, run_update, &u, out_is_missing, NULL, err);
}
