/* mailbox_place.c: walking the letters of one place, superseding and forgetting them. Invariant M1 is in mailbox.h. */
#include "base/array.h"
#include "base/base.h"
#include "thread/mailbox.h"

static bool read_time(pd_bytes text, pd_leased_item *out)
{
  pd_json json;
  return pd_json_parse(text, &json, NULL) == PD_OK && pd_json_i64(json, &out->until_ms);
}

pd_code pd_mail_places(pd_mail_tx *tx, const char *prefix, pd_leased_look *look, size_t max, pd_leased_item **out, size_t *out_count,
                       pd_error *err)
{
  return pd_leased_list(&tx->l, prefix, read_time, look, max, out, out_count, err);
}

/* ---- an interrupt ---- */

static pd_code supersede_one(pd_mail_tx *tx, uint64_t number, uint64_t by, pd_error *err)
{
  CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
  TRY(pd_mail_read(tx, number, &item, err));
  pd_letter next = item.letter;
  next.status = PD_MAIL_SUPERSEDED;
  next.superseded_by = by;
  next.retry_ms = next.lease_until_ms = 0;
  next.token = "";
  return pd_mail_move(tx, &next, &item.letter, err);
}

static pd_code supersede_place(pd_mail_tx *tx, const char *prefix, uint64_t by, uint64_t *out_count, pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *all = NULL;
  size_t count = 0;
  TRY(pd_mail_places(tx, prefix, NULL, SIZE_MAX, &all, &count, err));
  for (size_t i = 0; i < count; i++) TRY(supersede_one(tx, all[i].number, by, err));
  *out_count += count;
  return PD_OK;
}

pd_code pd_mail_supersede(pd_mail_tx *tx, uint64_t by, uint64_t *out_count, pd_error *err)
{
  *out_count = 0;
  TRY(supersede_place(tx, "queued/", by, out_count, err));
  TRY(supersede_place(tx, "claimed/", by, out_count, err));
  tx->generation++;
  return PD_OK;
}

/* ---- forgetting ---- */

pd_code pd_mail_forget_place(pd_mail_tx *tx, const char *prefix, int64_t before_ms, size_t max, bool is_dry_run, uint64_t *out_count,
                             pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *all = NULL;
  size_t count = 0;
  TRY(pd_mail_places(tx, prefix, NULL, max, &all, &count, err));
  for (size_t i = 0; i < count && all[i].until_ms < before_ms; i++) {
    CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
    (*out_count)++;
    if (is_dry_run) continue;
    TRY(pd_mail_read(tx, all[i].number, &item, err));
    TRY(pd_mail_forget(tx, &item.letter, err));
  }
  return PD_OK;
}
