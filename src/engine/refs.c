/* refs.c: the table of refs in memory, and the rules of names. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/store.h"

#include <stdlib.h>

/* ---- names ---- */

pd_code pd_key_check(pd_bytes key, pd_error *err)
{
  if (!key.size) return pd_error_set(err, PD_INVALID, "the key is empty");
  if (key.size > PD_KEY_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "key '%.32s…' has %zu bytes, the limit is %d", (const char *)key.data, key.size, PD_KEY_SIZE_MAX);
  if (memchr(key.data, 0, key.size)) return pd_error_set(err, PD_INVALID, "the key contains a NUL byte");
  if (!pd_utf8_check(key)) return pd_error_set(err, PD_INVALID, "the key is not valid UTF-8");
  return PD_OK;
}

static pd_code check_name(const char *name, const char *what, size_t size_max, const char *also, pd_error *err)
{
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  if (!name || !*name) return pd_error_set(err, PD_INVALID, "the %s name is empty", what);
  size_t size = strnlen(name, size_max + 1);
  if (size > size_max) return pd_error_set(err, PD_INVALID, "%s name '%.32s…' is longer than %zu bytes", what, name, size_max);
  for (size_t i = 0; i < size; i++) {
    if (strchr(plain, name[i]) || (i && strchr(also, name[i]))) continue;
    return pd_error_set(err, PD_INVALID, "%s name '%s' may not contain '%c' at position %zu; letters, digits and %s are allowed", what,
                        name, name[i], i + 1, also);
  }
  return PD_OK;
}

pd_code pd_agent_check(const char *name, pd_error *err)
{
  return check_name(name, "agent", PD_NAME_SIZE_MAX, "._-", err);
}

pd_code pd_ref_check(const char *name, pd_error *err)
{
  return check_name(name, "ref", PD_REF_SIZE_MAX, "._-/:", err);
}

pd_code pd_ref_check_any(const char *name, pd_error *err)
{
  if (strcmp(name, PD_META_REF) == 0) return PD_OK;
  return pd_ref_check(pd_ref_is_import(name) ? name + 1 : name, err);
}

/* ---- the table ---- */

/* Index of the first slot whose name is >= `name`. */
static size_t slot_index(const pd_store *s, const char *name)
{
  size_t low = 0, high = s->slot_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (strcmp(s->slots[mid]->name, name) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

pd_ref_slot *pd_slot_find(pd_store *s, const char *name)
{
  size_t i = slot_index(s, name);
  return i < s->slot_count && strcmp(s->slots[i]->name, name) == 0 ? s->slots[i] : NULL;
}

pd_code pd_slot_make(pd_store *s, const char *name, pd_ref_slot **out, pd_error *err)
{
  pd_ref_slot *slot = pd_slot_find(s, name);
  if (slot) {
    *out = slot;
    return PD_OK;
  }
  TRY(pd_array_grow(&s->slots, s->slot_count, &s->slot_capacity, sizeof *s->slots, "a ref", err));
  slot = calloc(1, sizeof *slot);
  if (!slot) return pd_error_memory(err, "a ref");
  strncpy(slot->name, name, PD_REF_SIZE_MAX);
  slot->seen.is_deleted = slot->tip.is_deleted = true; /* until its first record */
  size_t i = slot_index(s, name);
  memmove(s->slots + i + 1, s->slots + i, (s->slot_count - i) * sizeof *s->slots);
  s->slots[i] = slot;
  s->slot_count++;
  *out = slot;
  return PD_OK;
}

pd_code pd_slot_get(pd_store *s, const char *name, pd_ref_slot **out, pd_error *err)
{
  if (!name || !*name) name = s->ref;
  pd_ref_slot *slot = pd_slot_find(s, name);
  if (!slot || slot->seen.is_deleted) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s'", name);
  *out = slot;
  return PD_OK;
}

void pd_head_done(pd_store *s, pd_head *head)
{
  pd_node_unref(&s->tree.pool, head->root);
  head->root = NULL;
}

void pd_head_copy(pd_store *s, pd_head *to, const pd_head *from)
{
  if (from->root) pd_node_ref(from->root);
  pd_head_done(s, to);
  *to = *from;
}

void pd_head_move(pd_head *head, const pd_rec *rec)
{
  uint64_t was_seq = head->commit.seq;
  head->last_seq = rec->seq;
  head->updated_ms = rec->time_ms;
  if (rec->kind == PD_RECORD_SWITCH) return;
  head->has_bytes = false; /* who knows them says so afterwards */
  if (rec->kind == PD_RECORD_REF_DELETE) {
    head->is_deleted = true;
    head->redo_seq = 0;
    return;
  }
  head->commit = (pd_commit){rec->commit, rec->tree, rec->target_seq};
  if (rec->kind == PD_RECORD_UNDO) {
    if (!head->redo_seq) head->redo_seq = was_seq;
  } else if (rec->kind != PD_RECORD_REDO || head->redo_seq == rec->target_seq) {
    head->redo_seq = 0;
  }
  head->is_deleted = false;
}

void pd_head_share_root(pd_store *s, pd_head *head)
{
  head->root = NULL;
  head->has_blob = false;
  if (head->is_deleted) return; /* no keyframe saves it: its nodes could never leave the cache */
  for (size_t i = 0; i < s->slot_count; i++) {
    const pd_head *other = &s->slots[i]->seen;
    if (other->is_deleted || other->commit.seq != head->commit.seq || !(other->root || other->has_blob)) continue;
    head->root = other->root ? pd_node_ref(other->root) : NULL;
    head->has_blob = other->has_blob;
    head->root_blob = other->root_blob;
    return;
  }
}

/* ---- listing ---- */

static void describe(const pd_store *s, const pd_ref_slot *slot, pd_ref *out)
{
  out->name = slot->name;
  out->commit = slot->seen.commit;
  out->updated_ms = slot->seen.updated_ms;
  out->is_current = strcmp(slot->name, s->current) == 0;
  out->can_redo = slot->seen.redo_seq != 0;
}

pd_code pd_ref_list(pd_store *store, void (*visit)(void *ctx, const pd_ref *ref), void *ctx, pd_error *err)
{
  pd_store_lock(store);
  pd_code code = pd_refresh_to_read(store, err);
  for (size_t i = 0; !code && i < store->slot_count; i++) {
    pd_ref ref;
    if (store->slots[i]->seen.is_deleted || pd_ref_is_hidden(store->slots[i]->name)) continue;
    describe(store, store->slots[i], &ref);
    visit(ctx, &ref);
  }
  pd_store_unlock(store);
  return code;
}

pd_code pd_ref_get(pd_store *store, const char *name, pd_ref *out, pd_error *err)
{
  pd_store_lock(store);
  pd_ref_slot *slot = NULL;
  pd_code code = pd_refresh_to_read(store, err);
  if (!code) code = pd_slot_get(store, name, &slot, err);
  if (!code) {
    describe(store, slot, out);
    if (name && *name) out->name = name;
  }
  pd_store_unlock(store);
  return code;
}
