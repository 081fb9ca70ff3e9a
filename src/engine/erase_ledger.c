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
 * Y2  Commits that were erased and are dated later than the erasure, because another machine's clock was ahead, are named by their times
 *     (`ahead`). The entry of the whole key covers the day before them, too: what gc took earlier was made by that clock.
 * Y3  The ledger holds ids and hashes, no value and no key. It travels with bundles. What a bundle says about something that the ledger
 *     here has an entry of is joined to it: both erasures hold.
 * Y4  What says that every value of a key was erased speaks of the agent's store that it was written in: an import from another agent does
 *     not bring it, or a key of the same name would be lost when this agent's own backups are restored.
 * Y5  Of the very millisecond at_ms the entry of a whole key covers nothing: what was erased then has entries of its own, and what was put
 *     right after the erasure may have the same time.
 * Y6  at_ms is the log's time, not the clock's: no less than that of any record before it. And it holds only as long as the log agrees. If
 *     the log's times were put right after it (commit.c, pd_time_next), the clock of the erasure was ahead, and it counts as made right
 *     before the record that put them right; of the day before at_ms, by that wrong clock, it covers everything all the same. So that the
 *     commits which were erased stay so, those that the log may put right are named by their times, as in Y2.
 * Y7  An import looks again when it moves its refs: what was erased while it ran leaves the records that it wrote.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "engine/bundle.h"
#include "engine/erase.h"

#include <stdio.h>

#define NAME_SIZE (sizeof PD_ERASED_KIND + 2 * PD_ID_HEX_SIZE + 8)

/* ---- looking up ---- */

typedef struct lookup {
  pd_store *s;
  pd_node *root; /* of the hidden ref's tree; NULL: there is none */
  pd_buf value;
} lookup;

static void lookup_done(lookup *l)
{
  pd_buf_done(&l->value);
}

static pd_code lookup_begin(lookup *l, pd_store *s, pd_error *err)
{
  pd_ref_slot *slot = pd_slot_find(s, PD_META_REF);
  l->s = s;
  return slot && !slot->seen.is_deleted ? pd_head_root(s, &slot->seen, &l->root, err) : PD_OK;
}

/* The entry `name`, as the log has put it right. */
static pd_code look_up(lookup *l, const char *name, pd_erase_ledger_times *out, bool *out_found, pd_error *err)
{
  pd_node *leaf;
  size_t index;
  *out_found = false;
  if (!l->root) return PD_OK;
  TRY(pd_tree_find(&l->s->tree, l->root, pd_text(name), &leaf, &index, err));
  if (!leaf) return PD_OK;
  uint64_t seq = leaf->riders[index].seq;
  TRY(pd_value_read(l->s, leaf, index, &l->value, err));
  *out_found = pd_erase_ledger_parse(pd_buf_bytes(&l->value), out);
  return *out_found ? pd_erase_ledger_settle(l->s, seq, out, err) : PD_OK;
}

static const char *name_of(const pd_id *key_hash, const pd_id *value_id, char out[NAME_SIZE])
{
  char value_hex[PD_ID_HEX_SIZE], key_hex[PD_ID_HEX_SIZE];
  const char *first = value_id ? pd_id_hex(value_id, value_hex) : "key";
  snprintf(out, NAME_SIZE, PD_ERASED_KIND "/%s/%s", first, pd_id_hex(key_hash, key_hex));
  return out;
}

/* ---- writing ---- */

pd_erase_moment pd_erase_moment_now(pd_store *s)
{
  pd_erase_moment m = {.at_ms = pd_time_next(s)};
  if (m.at_ms < 1) m.at_ms = 1;
  m.sure_ms = s->has_jump && s->jump_ms < m.at_ms ? s->jump_ms : m.at_ms;
  if (s->tip_time_ms && m.at_ms - s->tip_time_ms > PD_JUMP_MS) m.sure_ms = s->tip_time_ms;
  return m;
}

void pd_erase_ledger_add_made(pd_erase_ledger_times *t, const pd_erase_moment *moment, int64_t made_ms)
{
  bool is_last_day = made_ms <= moment->at_ms && moment->at_ms - made_ms < PD_JUMP_MS; /* Y6 covers it in any case */
  if (made_ms > moment->sure_ms && !is_last_day) pd_erase_ledger_add_span(t, made_ms, made_ms);
}

static pd_code join_known(pd_store *s, const char *name, pd_erase_ledger_times *t, pd_error *err)
{
  CLEANUP(lookup_done) lookup l = {0};
  pd_erase_ledger_times known;
  bool is_known;
  TRY(lookup_begin(&l, s, err));
  TRY(look_up(&l, name, &known, &is_known, err));
  if (is_known) pd_erase_ledger_join(t, &known);
  return PD_OK;
}

pd_code pd_erase_ledger_add(pd_store *s, bool has_lock, pd_bytes key, const pd_id *value_id, const pd_erase_ledger_times *times,
                            pd_buf *out, size_t *out_key_end, pd_error *err)
{
  char name[NAME_SIZE];
  pd_id hash = pd_sha256(key);
  pd_erase_ledger_times t = *times;
  name_of(&hash, value_id, name);
  if (!has_lock) pd_store_lock(s);
  pd_code code = join_known(s, name, &t, err);
  if (!has_lock) pd_store_unlock(s);
  TRY(code);
  TRY(pd_buf_printf(out, err, "%s", name));
  *out_key_end = out->size;
  return pd_erase_ledger_print(&t, out, err);
}

/* ---- bundles ---- */

static bool is_entry(pd_bytes name)
{
  size_t size = sizeof PD_ERASED_KIND; /* with the / */
  return pd_bytes_starts(name, pd_text(PD_ERASED_KIND "/")) && memchr((const char *)name.data + size, '/', name.size - size);
}

pd_code pd_erase_ledger_export(pd_store *s, const pd_entry *entry, pd_bytes *value, pd_buf *out, pd_error *err)
{
  pd_erase_ledger_times t;
  if (!is_entry(entry->key) || !pd_erase_ledger_parse(*value, &t)) return PD_OK;
  int64_t at_ms = t.at_ms;
  pd_store_lock(s);
  pd_code code = pd_erase_ledger_settle(s, entry->seq, &t, err);
  pd_store_unlock(s);
  if (code || t.at_ms == at_ms) return code;
  pd_buf_clear(out);
  TRY(pd_erase_ledger_print(&t, out, err));
  *value = pd_buf_bytes(out);
  return PD_OK;
}

pd_code pd_erase_ledger_meet(pd_store *s, pd_bytes name, pd_bytes value, pd_buf *out, bool *out_is_more, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf here = {0};
  CLEANUP(lookup_done) lookup l = {0};
  char text[NAME_SIZE];
  pd_erase_ledger_times known, t;
  bool is_known;
  *out_is_more = false;
  if (!is_entry(name) || name.size >= sizeof text || !pd_erase_ledger_parse(value, &t)) return PD_OK;
  memcpy(text, name.data, name.size);
  text[name.size] = 0;
  TRY(lookup_begin(&l, s, err));
  TRY(look_up(&l, text, &known, &is_known, err));
  if (!is_known) return PD_OK;
  TRY(pd_erase_ledger_print(&known, &here, err));
  pd_erase_ledger_join(&known, &t);
  pd_buf_clear(out);
  TRY(pd_erase_ledger_print(&known, out, err));
  *out_is_more = !pd_bytes_equal(pd_buf_bytes(&here), pd_buf_bytes(out));
  return PD_OK;
}

/* ---- imports ---- */

/* Stores of before the ledger have the notes for readers alone: one for each value, with the key that was erased last. */
static pd_code is_in_note(lookup *l, pd_bytes key, const pd_id *value_id, int64_t made_ms, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf noted = {0};
  char name[NAME_SIZE], hex[PD_ID_HEX_SIZE];
  pd_erase_ledger_times t;
  pd_json json;
  snprintf(name, sizeof name, PD_ERASED_KIND "/%s", pd_id_hex(value_id, hex));
  TRY(look_up(l, name, &t, out, err));
  if (!*out) return PD_OK;
  *out = pd_erase_ledger_has_value(&t, made_ms) && !pd_json_parse(pd_buf_bytes(&l->value), &json, NULL) &&
         !pd_json_decode(pd_json_member(json, "key"), &noted, NULL) && pd_bytes_equal(pd_buf_bytes(&noted), key);
  return PD_OK;
}

static pd_code is_in_ledger(lookup *l, pd_bytes key, const pd_id *value_id, int64_t made_ms, bool *out, pd_error *err)
{
  char name[NAME_SIZE];
  pd_id hash = pd_sha256(key);
  pd_erase_ledger_times of_key, of_value;
  bool has_key, has_value;
  TRY(look_up(l, name_of(&hash, NULL, name), &of_key, &has_key, err));
  *out = has_key && pd_erase_ledger_has_key(&of_key, made_ms);
  if (*out) return PD_OK;
  TRY(look_up(l, name_of(&hash, value_id, name), &of_value, &has_value, err));
  *out = has_value && pd_erase_ledger_has_value(&of_value, made_ms);
  return *out || has_key || has_value ? PD_OK : is_in_note(l, key, value_id, made_ms, out, err);
}

static pd_code forget_locked(pd_store *s, pd_bundle_commit *commit, pd_error *err)
{
  CLEANUP(lookup_done) lookup l = {0};
  TRY(pd_refresh(s, err));
  TRY(pd_retention_ready(s, err));
  TRY(lookup_begin(&l, s, err));
  for (size_t i = 0; i < commit->count; i++) {
    pd_bundle_change *ch = &commit->changes[i];
    pd_bytes key = {commit->bytes.data + ch->key_at, ch->key_size};
    ch->is_forgotten = false;
    if (ch->is_delete || ch->is_erased) continue;
    TRY(is_in_ledger(&l, key, &ch->value_id, commit->made_ms, &ch->is_forgotten, err));
    if (ch->is_forgotten) ch->is_erased = true, ch->is_far = false;
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
