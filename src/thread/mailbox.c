/* mailbox.c: opening a mailbox, and invocations over one. Invariants M1 to M3 are in mailbox.h. */
#include "thread/mailbox.h"

#include "base/base.h"
#include "base/buf.h"
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

pd_code pd_mail_corrupt(const pd_mailbox *box, const char *key, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "'%s' on ref '%s' is not what perdure wrote there", key, box->ref);
}

/* ---- invocations ---- */

static pd_code read_head(pd_mail_tx *tx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_entry entry;
  pd_json head;
  tx->next = 1;
  pd_code code = pd_edit_get(tx->edit, pd_text("head"), &text, &entry, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  tx->version = entry.version;
  tx->last_ms = entry.updated_ms;
  if (pd_json_parse(pd_buf_bytes(&text), &head, NULL) || !pd_json_u64(pd_json_member(head, "next"), &tx->next) ||
      !pd_json_u64(pd_json_member(head, "generation"), &tx->generation) || !pd_json_u64(pd_json_member(head, "queued"), &tx->queued) ||
      !pd_json_u64(pd_json_member(head, "claimed"), &tx->claimed))
    return pd_mail_corrupt(tx->box, "head", err);
  return PD_OK;
}

pd_code pd_mail_stage_head(pd_mail_tx *tx, pd_error *err)
{
  char text[160];
  snprintf(text, sizeof text, "{\"next\":%llu,\"generation\":%llu,\"queued\":%llu,\"claimed\":%llu}", (unsigned long long)tx->next,
           (unsigned long long)tx->generation, (unsigned long long)tx->queued, (unsigned long long)tx->claimed);
  TRY(pd_edit_put(tx->edit, pd_text("head"), pd_text(text), tx->version, err));
  tx->is_complete = true;
  return PD_OK;
}

typedef struct mail_update {
  pd_mailbox *box;
  pd_mail_fn fn;
  void *ctx;
  pd_code code; /* of `fn`, the last time */
} mail_update;

static pd_code run_fn(mail_update *u, pd_edit *edit, pd_error *err)
{
  pd_mail_tx tx = {.box = u->box, .edit = edit, .now_ms = u->box->now_ms(u->box->now_ctx)};
  TRY(read_head(&tx, err));
  TRY(u->fn(u->ctx, &tx, err));
  if (!tx.is_complete) pd_edit_clear(edit);
  return PD_OK;
}

static pd_code run_update(void *ctx, pd_edit *edit, pd_error *err)
{
  mail_update *u = ctx;
  return u->code = run_fn(u, edit, err);
}

pd_code pd_mail_update(pd_mailbox *box, const char *reason, pd_mail_fn fn, void *ctx, bool *out_is_missing, pd_error *err)
{
  mail_update u = {.box = box, .fn = fn, .ctx = ctx};
  pd_note note = {.ref = box->ref, .author = box->author, .reason = reason};
  pd_code code = pd_update(box->store, &note, run_update, &u, NULL, err);
  bool is_missing = code == PD_NOT_FOUND && u.code != PD_NOT_FOUND; /* the ref, not a letter */
  if (out_is_missing) *out_is_missing = is_missing;
  if (!is_missing) return code;
  if (out_is_missing) return PD_OK;
  code = pd_fork(box->store, box->ref, "root", &note, NULL, err); /* it begins at the empty commit */
  if (code && code != PD_EXISTS) return code;                     /* somebody else may be making it at this moment */
  return pd_update(box->store, &note, run_update, &u, NULL, err);
}
