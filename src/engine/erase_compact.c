/*
 * erase_compact.c: how large the ledger of erasures may become (erase_ledger.c).
 *
 * Nobody can say how old the oldest backup is, so no entry goes because of its age. gc removes what says nothing that other entries do not:
 *
 *   erased/<value id>/<hash>   if an entry of the whole key covers all of it
 *   erased/<value id>          likewise, once gc has retired the records that it explains to readers
 *
 * So a key has one entry for all of it, and those of the values that were erased with it or since. What changed meanwhile is not removed:
 * each change names the version that was looked at. And before gc takes the record that put a clock right, the ledger says what it meant
 * (Y6).
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "engine/erase.h"

#include <stdlib.h>

#define REMOVED_MAX 50000 /* by one gc; the next one goes on. Times are all put right at once: their proof may go with this gc */
#define HEX_SIZE (PD_ID_HEX_SIZE - 1)

typedef struct compaction {
  pd_store *s;
  pd_erase_notes *n;
  pd_id_map keys; /* hash of the key: which of `times` */
  pd_erase_ledger_times *times;
  size_t count, capacity;
  size_t removed;
  uint64_t cut;
  pd_code code;
  pd_error *err;
} compaction;

static void compaction_done(compaction *c)
{
  pd_id_map_done(&c->keys);
  free(c->times);
}

/* *out_changed: the log has put its time right. */
static pd_code read_entry(compaction *c, pd_bytes value, uint64_t seq, pd_erase_ledger_times *out, bool *out_changed, bool *out_is_entry)
{
  *out_is_entry = pd_erase_ledger_parse(value, out);
  if (!*out_is_entry) return PD_OK;
  int64_t at_ms = out->at_ms;
  pd_store_lock(c->s);
  pd_code code = pd_erase_ledger_settle(c->s, seq, out, c->err);
  pd_store_unlock(c->s);
  *out_changed = out->at_ms != at_ms;
  return code;
}

static bool take_key(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  compaction *c = ctx;
  pd_erase_ledger_times t;
  pd_id hash;
  uint32_t *index;
  bool has_changed, is_entry;
  c->code = read_entry(c, value, entry->seq, &t, &has_changed, &is_entry);
  if (c->code || !is_entry || !pd_id_parse(name, &hash)) return !c->code;
  c->code = pd_array_grow(&c->times, c->count, &c->capacity, sizeof *c->times, "a gc", c->err);
  if (!c->code) c->code = pd_id_map_add(&c->keys, &hash, &index, NULL, c->err);
  if (c->code) return false;
  *index = (uint32_t)c->count;
  c->times[c->count++] = t;
  return true;
}

static pd_code remove_entry(compaction *c, const char *name, const pd_entry *entry)
{
  return c->removed++ < REMOVED_MAX ? pd_erase_notes_replace(c->n, name, entry->version, NULL, c->err) : PD_OK;
}

static const pd_erase_ledger_times *key_times(const compaction *c, const pd_id *hash)
{
  const uint32_t *index = pd_id_map_find(&c->keys, hash);
  return index ? &c->times[*index] : NULL;
}

static pd_code replace(compaction *c, const char *name, const pd_entry *entry, const pd_erase_ledger_times *t)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_erase_ledger_print(t, &text, c->err));
  pd_bytes value = pd_buf_bytes(&text);
  return pd_erase_notes_replace(c->n, name, entry->version, &value, c->err);
}

/* "<value id>/<hash>" or "key/<hash>" */
static pd_code compact_entry(compaction *c, const char *name, const char *hex, pd_bytes value, const pd_entry *entry)
{
  pd_erase_ledger_times t;
  pd_id hash;
  bool has_changed, is_entry;
  TRY(read_entry(c, value, entry->seq, &t, &has_changed, &is_entry));
  if (!is_entry || !pd_id_parse(hex, &hash)) return PD_OK;
  const pd_erase_ledger_times *key = hex - name > HEX_SIZE ? key_times(c, &hash) : NULL;
  if (key && pd_erase_ledger_is_within(&t, key)) return remove_entry(c, name, entry);
  return has_changed ? replace(c, name, entry, &t) : PD_OK;
}

static pd_code compact_note(compaction *c, const char *name, pd_bytes value, const pd_entry *entry)
{
  CLEANUP(pd_buf_done) pd_buf noted = {0};
  pd_erase_ledger_times t;
  pd_json json;
  if (entry->seq >= c->cut || !pd_erase_ledger_parse(value, &t) || pd_json_parse(value, &json, NULL)) return PD_OK;
  if (pd_json_decode(pd_json_member(json, "key"), &noted, NULL)) return PD_OK;
  pd_id hash = pd_sha256(pd_buf_bytes(&noted));
  const pd_erase_ledger_times *key = key_times(c, &hash);
  return key && pd_erase_ledger_is_within(&t, key) ? remove_entry(c, name, entry) : PD_OK;
}

static bool take_entry(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  compaction *c = ctx;
  const char *slash = strchr(name, '/');
  c->code = slash ? compact_entry(c, name, slash + 1, value, entry) : compact_note(c, name, value, entry);
  return !c->code;
}

pd_code pd_erase_ledger_compact(pd_store *s, pd_erase_notes *n, pd_error *err)
{
  CLEANUP(compaction_done) compaction c = {.s = s, .n = n, .err = err};
  pd_gc_info info;
  TRY(pd_gc_status(s, &info, err));
  c.cut = info.cut;
  TRY(pd_meta_list(s, PD_ERASED_KIND "/key", take_key, &c, err));
  TRY(c.code);
  TRY(pd_meta_list(s, PD_ERASED_KIND, take_entry, &c, err));
  return c.code;
}

/* ---- its size ---- */

static bool count_entry(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  pd_erase_ledger_size *size = ctx;
  size->entries++;
  size->keys += pd_bytes_starts(pd_text(name), pd_text("key/"));
  size->bytes += entry->key.size + value.size;
  return true;
}

pd_code pd_erase_ledger_measure(pd_store *s, pd_erase_ledger_size *out, pd_error *err)
{
  pd_erase_ledger_size size = {0};
  TRY(pd_meta_list(s, PD_ERASED_KIND, count_entry, &size, err));
  *out = size;
  return PD_OK;
}
