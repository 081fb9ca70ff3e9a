/* mailbox_place.c: walking the letters of one place, superseding and forgetting them. Invariant M3 is in mailbox.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/key.h"
#include "thread/mailbox.h"

#include <stdio.h>
#include <stdlib.h>

static bool read_place(const pd_entry *entry, pd_bytes text, pd_mail_place *out)
{
  pd_json json;
  out->number = pd_key_number(entry->key);
  return out->number && pd_json_parse(text, &json, NULL) == PD_OK && pd_json_i64(json, &out->time_ms);
}

static pd_code collect(pd_mail_tx *tx, pd_iter *iter, size_t max, pd_mail_place **all, size_t *out_count, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE];
  size_t capacity = 0;
  pd_entry entry;
  pd_bytes text;
  pd_code code = PD_OK;
  while (*out_count < max && (code = pd_iter_next(iter, &entry, &text, err)) == PD_OK) {
    TRY(pd_array_grow(all, *out_count, &capacity, sizeof **all, "letters", err));
    if (!read_place(&entry, text, &(*all)[*out_count])) {
      snprintf(key, sizeof key, "%.*s", (int)entry.key.size, (const char *)entry.key.data);
      return pd_mail_corrupt(tx->box, key, err);
    }
    (*out_count)++;
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_mail_places(pd_mail_tx *tx, const char *prefix, size_t max, pd_mail_place **out, size_t *out_count, pd_error *err)
{
  CLEANUP(pd_free_at) pd_mail_place *all = NULL;
  size_t count = 0;
  pd_iter *iter;
  pd_scan scan = {.prefix = pd_text(prefix)};
  TRY(pd_edit_iter(tx->edit, &scan, &iter, err));
  pd_code code = collect(tx, iter, max, &all, &count, err);
  pd_iter_close(iter);
  TRY(code);
  *out = all;
  *out_count = count;
  all = NULL;
  return PD_OK;
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
  CLEANUP(pd_free_at) pd_mail_place *all = NULL;
  size_t count = 0;
  TRY(pd_mail_places(tx, prefix, SIZE_MAX, &all, &count, err));
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
  CLEANUP(pd_free_at) pd_mail_place *all = NULL;
  size_t count = 0;
  TRY(pd_mail_places(tx, prefix, max, &all, &count, err));
  for (size_t i = 0; i < count && all[i].time_ms < before_ms; i++) {
    CLEANUP(pd_mail_item_done) pd_mail_item item = {0};
    (*out_count)++;
    if (is_dry_run) continue;
    TRY(pd_mail_read(tx, all[i].number, &item, err));
    TRY(pd_mail_forget(tx, &item.letter, err));
  }
  return PD_OK;
}
