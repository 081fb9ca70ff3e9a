/* leased.c: see leased.h. */
#include "leased/leased.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/close.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "base/key.h"

#include <stdio.h>

#define CLOCK_MS_MAX ((int64_t)24 * 3600 * 1000) /* a lease that was given later than this from now was given by a clock that was ahead */

/* ---- records ---- */

pd_code pd_leased_corrupt(const char *key, const char *why, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "'%s' is not what perdure wrote there%s%s", key, *why ? ": " : "", why);
}

pd_code pd_leased_parse(const char *key, pd_bytes text, const pd_bind *table, size_t count, void *out, pd_error *err)
{
  pd_error why = {0};
  return pd_bind_parse(text, table, count, PD_BIND_LOOSE, out, &why) ? pd_leased_corrupt(key, why.message, err) : PD_OK;
}

static pd_code get_record(const pd_leased_tx *tx, const char *key, const pd_bind *table, size_t count, void *out, pd_entry *entry,
                          pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_edit_get(tx->edit, pd_text(key), &text, entry, err));
  return pd_leased_parse(key, pd_buf_bytes(&text), table, count, out, err);
}

static pd_code put_record(const pd_leased_tx *tx, const char *key, const pd_bind *table, size_t count, const void *in, uint64_t version,
                          pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_bind_object(&w, table, count, in);
  TRY(w.code);
  return pd_edit_put(tx->edit, pd_text(key), pd_buf_bytes(&text), version, err);
}

pd_code pd_leased_get(const pd_leased_tx *tx, const char *key, const pd_bind *table, size_t count, void *out, pd_error *err)
{
  return get_record(tx, key, table, count, out, NULL, err);
}

pd_code pd_leased_put(const pd_leased_tx *tx, const char *key, const pd_bind *table, size_t count, const void *in, pd_error *err)
{
  return put_record(tx, key, table, count, in, PD_ANY_VERSION, err);
}

/* ---- invocations ---- */

pd_code pd_leased_begin(pd_leased_tx *tx, pd_edit *edit, const char *head, int64_t now_ms, const pd_bind *table, size_t count, void *out,
                        pd_error *err)
{
  pd_entry entry = {0};
  *tx = (pd_leased_tx){.edit = edit, .head = head, .now_ms = now_ms};
  pd_code code = get_record(tx, head, table, count, out, &entry, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  tx->version = entry.version;
  tx->last_ms = entry.updated_ms;
  return code;
}

pd_code pd_leased_stage_head(pd_leased_tx *tx, const pd_bind *table, size_t count, const void *in, pd_error *err)
{
  TRY(put_record(tx, tx->head, table, count, in, tx->version, err));
  tx->is_complete = true;
  return PD_OK;
}

void pd_leased_end(pd_leased_tx *tx)
{
  if (!tx->is_complete) pd_edit_clear(tx->edit);
}

int64_t pd_leased_sure_ms(const pd_leased_tx *tx)
{
  return tx->last_ms < tx->now_ms ? tx->last_ms : tx->now_ms;
}

typedef struct invocation {
  pd_update_fn fn;
  void *ctx;
  const char *ref; /* NULL: the store's */
  pd_code code;    /* of `fn`, the last time */
} invocation;

/* What is damaged is named by its key; a store has many refs with the same keys. */
static pd_code run(void *ctx, pd_edit *edit, pd_error *err)
{
  invocation *i = ctx;
  char message[sizeof err->message];
  i->code = i->fn(i->ctx, edit, err);
  if (i->code != PD_CORRUPT || !err || !i->ref) return i->code;
  snprintf(message, sizeof message, "%s", err->message);
  snprintf(err->message, sizeof err->message, "ref '%s': %.400s", i->ref, message);
  return PD_CORRUPT;
}

/* To make a ref takes a sync. */
static pd_code would_wait(const char *ref, pd_error *err)
{
  TRY(pd_disk_may_wait(err));
  return pd_error_named(err, PD_LIMIT, "WouldWait", "ref '%s' has to be made first", ref);
}

pd_code pd_leased_update(pd_store *store, const pd_note *note, pd_update_fn fn, void *ctx, bool *out_is_missing, pd_ack *out, pd_error *err)
{
  invocation i = {.fn = fn, .ctx = ctx, .ref = note->ref};
  pd_code code = pd_update(store, note, run, &i, out, err);
  bool is_missing = code == PD_NOT_FOUND && i.code != PD_NOT_FOUND; /* the ref, and not what `fn` looked for */
  if (out_is_missing) *out_is_missing = is_missing;
  if (!is_missing) return code;
  if (out_is_missing) return PD_OK;
  if (note->later) return would_wait(note->ref, err);
  code = pd_fork(store, note->ref, "root", note, NULL, err);
  if (code && code != PD_EXISTS) return code; /* somebody else may be making it at this moment */
  return pd_update(store, note, run, &i, out, err);
}

/* ---- leases ---- */

bool pd_leased_is_free(pd_leased_look *look, int64_t until_ms, int64_t given_ms)
{
  int64_t left_ms = until_ms - look->now_ms;
  if (left_ms <= 0 || left_ms > look->lease_ms_max || given_ms - look->now_ms > CLOCK_MS_MAX) return true;
  if (until_ms < look->next_due_ms) look->next_due_ms = until_ms;
  return false;
}

static pd_code corrupt_entry(const pd_entry *entry, pd_error *err)
{
  char key[160];
  snprintf(key, sizeof key, "%.*s", (int)entry->key.size, (const char *)entry->key.data);
  return pd_leased_corrupt(key, "", err);
}

pd_code pd_leased_list(const pd_leased_tx *tx, const char *prefix, pd_leased_read read, pd_leased_look *look, size_t max,
                       pd_leased_item **out, size_t *out_count, pd_error *err)
{
  CLEANUP(pd_free_at) pd_leased_item *all = NULL;
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  size_t count = 0, capacity = 0;
  pd_entry entry;
  pd_bytes value;
  pd_code code = PD_NOT_FOUND;
  TRY(pd_edit_iter(tx->edit, &(pd_scan){.prefix = pd_text(prefix)}, &iter, err));
  while (count < max && (code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) {
    pd_leased_item item = {.number = pd_key_number(entry.key)};
    if (!item.number || !read(value, &item)) return corrupt_entry(&entry, err);
    if (look && !pd_leased_is_free(look, item.until_ms, item.given_ms)) continue;
    TRY(pd_array_grow(&all, count, &capacity, sizeof all[0], "items of a queue", err));
    all[count++] = item;
  }
  if (code && code != PD_NOT_FOUND) return code;
  *out = all;
  *out_count = count;
  all = NULL;
  return PD_OK;
}
