/*
 * erase_ledger.c: what was erased here stays erased, whatever is imported, pulled or restored later.
 *
 * A backup, a bundle and another store may still hold the bytes of what was erased. So the hidden ref, which no restore sets back, has a
 * ledger beside the notes for readers (erased/<value id>):
 *
 *   erased/<value id>/<SHA-256 of the key>   {"at_ms":…}   this value of the key
 *   erased/key/<SHA-256 of the key>          {"at_ms":…}   every value of the key; written when all was erased and no other ref had it
 *
 * Y1  A change that is imported, of a commit that was made no later than at_ms, becomes one whose value was erased: its id is kept, so the
 *     commit is the same, and its bytes are never written. What was put to the key after the erasure is not concerned.
 * Y2  at_ms is no less than the times of the commits that were erased: another machine's clock may be ahead.
 * Y3  The ledger holds ids and hashes, no value and no key. It travels with bundles, and an entry that is here is not replaced.
 * Y4  What says that every value of a key was erased speaks of the agent's store that it was written in: an import from another agent does
 *     not bring it, or a key of the same name would be lost when this agent's own backups are restored.
 * Y5  Of the very millisecond at_ms it covers nothing: what was erased then has entries of its own, and what was put right after the
 * erasure
 *     may have the same time, for long if another machine's clock was ahead (Y2).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "engine/bundle.h"
#include "engine/erase.h"

#include <stdio.h>

static pd_code add_time(int64_t at_ms, pd_buf *out, pd_error *err)
{
  return pd_buf_printf(out, err, "{\"at_ms\":%lld}", (long long)at_ms);
}

pd_code pd_ledger_add_value(pd_bytes key, const pd_id *value_id, int64_t at_ms, pd_buf *out, size_t *out_key_end, pd_error *err)
{
  char value_hex[PD_ID_HEX_SIZE], key_hex[PD_ID_HEX_SIZE];
  pd_id hash = pd_sha256(key);
  TRY(pd_buf_printf(out, err, PD_ERASED_KIND "/%s/%s", pd_id_hex(value_id, value_hex), pd_id_hex(&hash, key_hex)));
  *out_key_end = out->size;
  return add_time(at_ms, out, err);
}

pd_code pd_ledger_add_key(pd_bytes key, int64_t at_ms, pd_buf *out, size_t *out_key_end, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_id hash = pd_sha256(key);
  TRY(pd_buf_printf(out, err, PD_ERASED_KIND "/key/%s", pd_id_hex(&hash, hex)));
  *out_key_end = out->size;
  return add_time(at_ms, out, err);
}

/* ---- imports ---- */

/* Does the entry speak of what was made then? `key`: and of this key, by a note for readers; NULL: the name says so. */
static pd_code covers(pd_store *s, const char *name, const pd_bytes *key, int64_t made_ms, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  CLEANUP(pd_buf_done) pd_buf noted = {0};
  pd_error why;
  pd_json json;
  int64_t at_ms;
  pd_code code = pd_meta_get_locked(s, PD_ERASED_KIND, name, &value, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  TRY(code);
  if (pd_json_parse(pd_buf_bytes(&value), &json, NULL) || !pd_json_i64(pd_json_member(json, "at_ms"), &at_ms)) return PD_OK;
  if (made_ms > at_ms) return PD_OK;
  if (key && (pd_json_decode(pd_json_member(json, "key"), &noted, NULL) || !pd_bytes_equal(pd_buf_bytes(&noted), *key))) return PD_OK;
  *out = true;
  return PD_OK;
}

/* Stores of before the ledger have the notes for readers alone: one for each value, with the key that was erased last. */
static pd_code is_in_ledger(pd_store *s, pd_bytes key, const pd_id *value_id, int64_t made_ms, bool *out, pd_error *err)
{
  char value_hex[PD_ID_HEX_SIZE], key_hex[PD_ID_HEX_SIZE], name[2 * PD_ID_HEX_SIZE + 8];
  pd_id hash = pd_sha256(key);
  pd_id_hex(value_id, value_hex);
  pd_id_hex(&hash, key_hex);
  snprintf(name, sizeof name, "key/%s", key_hex);
  TRY(covers(s, name, NULL, made_ms < INT64_MAX ? made_ms + 1 : made_ms, out, err)); /* Y5 */
  snprintf(name, sizeof name, "%s/%s", value_hex, key_hex);
  if (!*out) TRY(covers(s, name, NULL, made_ms, out, err));
  return *out ? PD_OK : covers(s, value_hex, &key, made_ms, out, err);
}

static pd_code forget_locked(pd_store *s, pd_bundle_commit *commit, pd_error *err)
{
  TRY(pd_refresh(s, err));
  if (s->retention.is_stale) TRY(pd_retention_ready(s, err));
  for (size_t i = 0; s->retention.has_erased && i < commit->count; i++) {
    pd_bundle_change *ch = &commit->changes[i];
    pd_bytes key = {commit->bytes.data + ch->key_at, ch->key_size};
    bool is_erased = false;
    if (ch->is_delete || ch->is_erased) continue;
    TRY(is_in_ledger(s, key, &ch->value_id, commit->made_ms, &is_erased, err));
    if (is_erased) ch->is_erased = true, ch->is_far = false;
  }
  return PD_OK;
}

pd_code pd_import_forget(pd_importer *im, pd_bundle_commit *commit, pd_error *err)
{
  pd_store_lock(im->s);
  pd_code code = forget_locked(im->s, commit, err);
  pd_store_unlock(im->s);
  return code;
}
