/*
 * edit.c: writing as callers see it: put, delete, moves of refs, and invocations. An invocation keeps its edits sorted by key; its
 * reads look there first, then at the tree that its ref had when it began.
 */
#include "engine/edit.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/iter.h"
#include "engine/view.h"

#include <stdlib.h>

/* ---- single writes ---- */

static pd_code check_value(const pd_store *s, pd_bytes key, pd_bytes value, pd_error *err)
{
  if (value.size <= s->value_size_max) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the value of key '%.*s' has %zu bytes, the limit is %zu", (int)(key.size < 200 ? key.size : 200),
                      (const char *)key.data, value.size, s->value_size_max);
}

/* The intent to put `change`, which it points to. */
static pd_code intend_put(const pd_store *s, pd_change_in *change, const pd_note *note, pd_intent *out, pd_error *err)
{
  TRY(pd_key_check(change->key, err));
  TRY(check_value(s, change->key, change->value, err));
  change->value_id = pd_sha256(change->value);
  *out = (pd_intent){.kind = PD_RECORD_COMMIT, .ref = note ? note->ref : NULL, .note = note, .changes = change, .change_count = 1};
  return PD_OK;
}

/* As the note says: acknowledged, or only staged. */
static pd_code write_noted(pd_store *store, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  pd_ack ack;
  if (!intent->note || !intent->note->later) return pd_write(store, intent, out, err);
  return pd_write_at_once(store, intent, intent->note->later, out ? out : &ack, err);
}

pd_code pd_put_if(pd_store *store, pd_bytes key, pd_bytes value, uint64_t expect_version, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_change_in change = {.key = key, .value = value, .expect_version = expect_version};
  pd_intent intent;
  TRY(intend_put(store, &change, note, &intent, err));
  return write_noted(store, &intent, out, err);
}

pd_code pd_put_later(pd_store *store, pd_bytes key, pd_bytes value, uint64_t expect_version, const pd_note *note, pd_later **out,
                     pd_ack *out_ack, pd_error *err)
{
  pd_change_in change = {.key = key, .value = value, .expect_version = expect_version};
  pd_intent intent;
  *out = NULL;
  TRY(intend_put(store, &change, note, &intent, err));
  return pd_write_later(store, &intent, out, out_ack, err);
}

pd_code pd_put(pd_store *store, pd_bytes key, pd_bytes value, const pd_note *note, pd_ack *out, pd_error *err)
{
  return pd_put_if(store, key, value, PD_ANY_VERSION, note, out, err);
}

pd_code pd_delete(pd_store *store, pd_bytes key, uint64_t expect_version, const pd_note *note, pd_ack *out, pd_error *err)
{
  TRY(pd_key_check(key, err));
  pd_change_in change = {.key = key, .is_delete = true, .must_exist = true, .expect_version = expect_version};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = note ? note->ref : NULL, .note = note, .changes = &change, .change_count = 1};
  pd_ack ack;
  TRY(write_noted(store, &intent, &ack, err));
  ack.version = 0;
  if (out) *out = ack;
  return PD_OK;
}

/* ---- moves of refs ---- */

/* Staging looks for the target with the lock held, while others wait. So the way is gone once before, as readers go it: what that learns
 * makes the second time short (line.c, pd_segment_bring). Whatever is wrong, staging will say. */
static void scout_point(pd_store *s, const char *at)
{
  pd_commit commit;
  if (at && strpbrk(at, "~@")) (void)!pd_resolve(s, at, &commit, NULL);
}

static pd_code scout_count(pd_store *s, const pd_head *head, pd_record_kind kind, uint64_t count)
{
  uint64_t seq = head->commit.seq, back = count, distance;
  bool is_found;
  if (kind == PD_RECORD_UNDO) return pd_line_back(s, &seq, &back, true, NULL);
  uint64_t from = head->redo_seq;
  TRY(pd_line_count(s, from, seq, true, &is_found, &distance, NULL));
  back = is_found && distance > count ? distance - count : 0;
  return pd_line_back(s, &from, &back, true, NULL);
}

static void scout_move(pd_store *s, const char *ref, pd_record_kind kind, uint64_t count)
{
  pd_ref_slot *slot;
  pd_store_lock_to_read(s);
  if (!pd_refresh_to_read(s, NULL) && !pd_slot_get(s, ref, &slot, NULL)) (void)!scout_count(s, &slot->seen, kind, count);
  pd_store_unlock(s);
}

pd_code pd_fork(pd_store *store, const char *name, const char *at, const pd_note *note, pd_ack *out, pd_error *err)
{
  TRY(pd_ref_check(name, err));
  scout_point(store, at);
  pd_intent intent = {.kind = PD_RECORD_FORK, .ref = name, .at = at, .note = note};
  return pd_write(store, &intent, out, err);
}

pd_code pd_reset(pd_store *store, const char *name, const char *at, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_intent intent = {.kind = PD_RECORD_RESET, .ref = name, .at = at, .note = note};
  scout_point(store, at);
  return pd_write(store, &intent, out, err);
}

pd_code pd_ref_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err)
{
  TRY(pd_ref_check(name, err));
  pd_intent intent = {.kind = PD_RECORD_REF_DELETE, .ref = name, .note = note};
  return pd_write(store, &intent, NULL, err);
}

pd_code pd_switch(pd_store *store, const char *name, const pd_note *note, pd_error *err)
{
  TRY(pd_ref_check(name, err));
  pd_intent intent = {.kind = PD_RECORD_SWITCH, .ref = name, .note = note};
  TRY(pd_write(store, &intent, NULL, err));
  pd_store_lock(store);
  strcpy(store->ref, name);
  pd_store_unlock(store);
  return PD_OK;
}

static pd_code move_by(pd_store *store, pd_record_kind kind, uint64_t count, const pd_note *note, pd_ack *out, pd_error *err)
{
  if (!count) return pd_error_set(err, PD_INVALID, "the number of commits to %s is 0", pd_record_kind_name(kind));
  pd_intent intent = {.kind = kind, .ref = note ? note->ref : NULL, .count = count, .note = note};
  scout_move(store, intent.ref, kind, count);
  return pd_write(store, &intent, out, err);
}

pd_code pd_undo(pd_store *store, uint64_t count, const pd_note *note, pd_ack *out, pd_error *err)
{
  return move_by(store, PD_RECORD_UNDO, count, note, out, err);
}

pd_code pd_redo(pd_store *store, uint64_t count, const pd_note *note, pd_ack *out, pd_error *err)
{
  return move_by(store, PD_RECORD_REDO, count, note, out, err);
}

/* ---- invocations ---- */

/* One allocation: the key's and the value's bytes follow. */
typedef struct staged_edit {
  pd_bytes key, value;
  pd_id value_id;
  bool is_delete;
  uint64_t expect_version;
  uint8_t bytes[];
} staged_edit;

struct pd_edit {
  pd_store *store;
  pd_view base; /* what reads start from */
  bool is_on_tip;
  pd_note note;
  char *texts[4]; /* owned copies behind note */
  pd_id expect_head;
  staged_edit **edits; /* ascending by key */
  size_t count, capacity;
};

static pd_code copy_text(const char *text, char **slot, const char **out, pd_error *err)
{
  if (!text) return PD_OK;
  *slot = strdup(text);
  *out = *slot;
  return *slot ? PD_OK : pd_error_memory(err, "an invocation");
}

static pd_code copy_note(pd_edit *edit, const pd_note *note, pd_error *err)
{
  if (!note) return PD_OK;
  TRY(copy_text(note->ref, &edit->texts[0], &edit->note.ref, err));
  TRY(copy_text(note->author, &edit->texts[1], &edit->note.author, err));
  TRY(copy_text(note->run, &edit->texts[2], &edit->note.run, err));
  TRY(copy_text(note->reason, &edit->texts[3], &edit->note.reason, err));
  edit->note.bytes_max = note->bytes_max;
  edit->note.later = note->later;
  if (note->expect_head) {
    edit->expect_head = *note->expect_head;
    edit->note.expect_head = &edit->expect_head;
  }
  return PD_OK;
}

/* At the tip: what is staged is read as if it were there (E2). */
static pd_code begin_at_tip(pd_edit *edit, pd_edit_base *base, pd_error *err)
{
  pd_store *s = edit->store;
  pd_node *root;
  TRY(pd_refresh(s, err));
  const char *name = edit->note.ref && *edit->note.ref ? edit->note.ref : s->ref;
  pd_ref_slot *slot = pd_slot_find(s, name);
  bool is_behind = !s->is_claimed && s->ops->log_tail_hint(s->backend) != s->log_seq;
  *base = (pd_edit_base){.staged_seq = s->tip_seq, .voided = s->voided, .is_unsynced = is_behind};
  if (slot) {
    base->last_seq = slot->tip.last_seq;
    base->is_unsynced |= slot->tip.last_seq != slot->seen.last_seq;
  }
  if (!slot || slot->tip.is_deleted) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s'", name);
  TRY(pd_head_root(s, &slot->tip, &root, err));
  edit->base.commit = slot->tip.commit;
  edit->base.root = pd_node_ref(root);
  return PD_OK;
}

/* What can be read by anybody, with all that other processes appended. */
static pd_code begin_at_seen(pd_edit *edit, bool is_exact, pd_edit_base *base, pd_error *err)
{
  pd_store *s = edit->store;
  pd_ref_slot *slot;
  pd_node *root;
  *base = (pd_edit_base){.voided = s->voided};
  TRY(is_exact ? pd_refresh_exactly(s, err) : pd_refresh_to_read(s, err));
  *base = (pd_edit_base){.voided = s->voided};
  TRY(pd_slot_get(s, edit->note.ref, &slot, err));
  TRY(pd_head_root(s, &slot->seen, &root, err));
  base->last_seq = slot->seen.last_seq;
  edit->base.commit = slot->seen.commit;
  edit->base.root = pd_node_ref(root);
  return PD_OK;
}

pd_code pd_edit_begin_on(pd_store *store, const pd_note *note, pd_edit_place place, pd_edit_base *base, pd_edit **out, pd_error *err)
{
  pd_edit *edit = calloc(1, sizeof *edit);
  pd_disk_may_look();
  if (!edit) return pd_error_memory(err, "an invocation");
  edit->store = store;
  edit->base = (pd_view){.store = store, .is_base = true};
  edit->is_on_tip = place == PD_ON_TIP;
  pd_code code = copy_note(edit, note, err);
  if (!code) {
    pd_store_lock(store);
    code = edit->is_on_tip ? begin_at_tip(edit, base, err) : begin_at_seen(edit, place == PD_ON_NEWEST, base, err);
    pd_store_unlock(store);
  }
  if (code)
    pd_edit_abort(edit);
  else
    *out = edit;
  return code;
}

pd_code pd_edit_begin(pd_store *store, const pd_note *note, pd_edit **out, pd_error *err)
{
  pd_edit_base base;
  return pd_edit_begin_on(store, note, PD_ON_SEEN, &base, out, err);
}

pd_commit pd_edit_head(const pd_edit *edit)
{
  return edit->base.commit;
}

pd_view *pd_edit_view(pd_edit *edit)
{
  return &edit->base;
}

void pd_edit_expect_head(pd_edit *edit)
{
  edit->expect_head = edit->base.commit.id;
  edit->note.expect_head = &edit->expect_head;
}

void pd_edit_clear(pd_edit *edit)
{
  while (edit->count) free(edit->edits[--edit->count]);
}

size_t pd_edit_count(const pd_edit *edit)
{
  return edit->count;
}

void pd_edit_abort(pd_edit *edit)
{
  if (!edit) return;
  pd_store_lock(edit->store);
  pd_view_done(&edit->base);
  pd_store_unlock(edit->store);
  pd_edit_clear(edit);
  free(edit->edits);
  for (size_t i = 0; i < COUNT_OF(edit->texts); i++) free(edit->texts[i]);
  free(edit);
}

static size_t edit_index(const pd_edit *edit, pd_bytes key, bool *out_equal)
{
  size_t low = 0, high = edit->count;
  if (high && pd_bytes_compare(edit->edits[high - 1]->key, key) < 0) low = high; /* keys often come in order */
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (pd_bytes_compare(edit->edits[mid]->key, key) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  *out_equal = low < edit->count && pd_bytes_equal(edit->edits[low]->key, key);
  return low;
}

static pd_code reserve_edit(pd_edit *edit, pd_error *err)
{
  if (edit->count >= PD_EDIT_COUNT_MAX) return pd_error_set(err, PD_LIMIT, "an invocation may have at most %d edits", PD_EDIT_COUNT_MAX);
  return pd_array_grow(&edit->edits, edit->count, &edit->capacity, sizeof *edit->edits, "an invocation", err);
}

/* A later edit of the same key replaces the earlier one, and both conditions hold: what the later one expects of an earlier put is
 * one more than what the ref must have; of an earlier delete, nothing. */
static uint64_t join_conditions(const staged_edit *earlier, uint64_t expect_version)
{
  bool says_more = earlier->expect_version == PD_ANY_VERSION && expect_version != PD_ANY_VERSION && !earlier->is_delete;
  return says_more ? expect_version - 1 : earlier->expect_version;
}

static staged_edit *copy_edit(pd_bytes key, pd_bytes value, bool is_delete)
{
  staged_edit *e = malloc(sizeof *e + key.size + value.size);
  if (!e) return NULL;
  memcpy(e->bytes, key.data, key.size);
  if (value.size) memcpy(e->bytes + key.size, value.data, value.size);
  e->key = (pd_bytes){e->bytes, key.size};
  e->value = (pd_bytes){e->bytes + key.size, value.size};
  e->value_id = is_delete ? (pd_id){{0}} : pd_sha256(value);
  e->is_delete = is_delete;
  return e;
}

static pd_code stage_edit(pd_edit *edit, pd_bytes key, pd_bytes value, bool is_delete, uint64_t expect_version, pd_error *err)
{
  TRY(pd_key_check(key, err));
  TRY(check_value(edit->store, key, value, err));
  TRY(reserve_edit(edit, err));
  bool is_equal;
  size_t i = edit_index(edit, key, &is_equal);
  staged_edit *fresh = copy_edit(key, value, is_delete);
  if (!fresh) return pd_error_memory(err, "an invocation");
  fresh->expect_version = is_equal ? join_conditions(edit->edits[i], expect_version) : expect_version;
  if (is_equal) {
    free(edit->edits[i]);
  } else {
    memmove(edit->edits + i + 1, edit->edits + i, (edit->count - i) * sizeof *edit->edits);
    edit->count++;
  }
  edit->edits[i] = fresh;
  return PD_OK;
}

/* What the invocation itself sees of a key: 0 is absent. */
static pd_code version_here(pd_edit *edit, pd_bytes key, uint64_t *out, pd_error *err)
{
  pd_entry entry;
  pd_code code = pd_edit_get(edit, key, NULL, &entry, err);
  *out = code ? 0 : entry.version;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code find_newest(pd_edit *edit, pd_bytes key, uint64_t *out, pd_error *err)
{
  pd_store *s = edit->store;
  pd_ref_slot *slot;
  pd_node *root, *leaf;
  size_t index;
  TRY(pd_refresh_exactly(s, err));
  TRY(pd_slot_get(s, edit->note.ref, &slot, err));
  TRY(pd_head_root(s, &slot->seen, &root, err));
  TRY(pd_tree_find(&s->tree, root, key, &leaf, &index, err));
  *out = leaf ? leaf->riders[index].version : 0;
  return PD_OK;
}

/* E7: the tree that the invocation began on may be an old one by now. What others wrote is not read, but not refused either: the commit
 * compares again. One on the tip has somebody who asks again (UPD-2). */
static pd_code version_now(pd_edit *edit, pd_bytes key, uint64_t *version, pd_error *err)
{
  bool is_ours;
  edit_index(edit, key, &is_ours);
  if (is_ours || edit->is_on_tip) return PD_OK;
  pd_store_lock(edit->store);
  pd_code code = find_newest(edit, key, version, err);
  pd_store_unlock(edit->store);
  return code;
}

static pd_code check_expected(pd_edit *edit, pd_bytes key, uint64_t expect_version, pd_error *err)
{
  uint64_t version;
  if (expect_version == PD_ANY_VERSION) return PD_OK;
  TRY(pd_key_check(key, err));
  TRY(version_here(edit, key, &version, err));
  if (version != expect_version) TRY(version_now(edit, key, &version, err));
  if (version == expect_version) return PD_OK;
  return pd_error_conflict(err, expect_version, version, "key '%.*s' is at version %llu, expected %llu",
                           (int)(key.size < 200 ? key.size : 200), (const char *)key.data, (unsigned long long)version,
                           (unsigned long long)expect_version);
}

pd_code pd_edit_put(pd_edit *edit, pd_bytes key, pd_bytes value, uint64_t expect_version, pd_error *err)
{
  TRY(check_expected(edit, key, expect_version, err));
  return stage_edit(edit, key, value, false, expect_version, err);
}

pd_code pd_edit_delete(pd_edit *edit, pd_bytes key, uint64_t expect_version, pd_error *err)
{
  TRY(check_expected(edit, key, expect_version, err));
  return stage_edit(edit, key, (pd_bytes){NULL, 0}, true, expect_version, err);
}

static pd_code find_below(pd_edit *edit, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, bool *out_found, pd_error *err)
{
  pd_store *s = edit->store;
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_find(&s->tree, edit->base.root, key, &leaf, &index, err));
  *out_found = leaf != NULL;
  if (!leaf) return PD_OK;
  if (out_value) TRY(pd_disk_step(err));
  if (out_value) TRY(pd_value_read(s, leaf, index, out_value, err));
  pd_entry_of(leaf, index, out_entry);
  out_entry->key = key;
  return PD_OK;
}

static void overlay(const staged_edit *e, bool is_below, const pd_entry *below, pd_entry *out)
{
  pd_entry entry = {.value_id = e->value_id,
                    .size = e->value.size,
                    .version = is_below ? below->version + 1 : 1,
                    .created_ms = is_below ? below->created_ms : 0};
  *out = entry;
}

pd_code pd_edit_get(pd_edit *edit, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  bool is_staged, is_below;
  size_t i = edit_index(edit, key, &is_staged);
  const staged_edit *e = is_staged ? edit->edits[i] : NULL;
  pd_entry below;
  pd_store_lock(edit->store);
  pd_code code = find_below(edit, key, e ? NULL : out_value, &below, &is_below, err);
  pd_store_unlock(edit->store);
  if (code) return code;
  if (e ? e->is_delete : !is_below)
    return pd_error_set(err, PD_NOT_FOUND, "there is no key '%.*s'", (int)(key.size < 200 ? key.size : 200), (const char *)key.data);
  if (e && out_value) {
    pd_buf_clear(out_value);
    TRY(pd_buf_append(out_value, e->value.data, e->value.size, err));
  }
  if (e) overlay(e, is_below, &below, &below);
  below.key = key;
  if (out_entry) *out_entry = below;
  return PD_OK;
}

static void edits_to_changes(const pd_edit *edit, pd_change_in *changes)
{
  for (size_t i = 0; i < edit->count; i++) {
    const staged_edit *e = edit->edits[i];
    changes[i] = (pd_change_in){
      .key = e->key, .value = e->value, .value_id = e->value_id, .is_delete = e->is_delete, .expect_version = e->expect_version};
  }
}

/* What writes the intent: pd_write, or another that may leave it staged. */
typedef pd_code (*write_fn)(pd_store *store, const pd_intent *intent, pd_ack *out, pd_error *err);

static pd_code write_edit(pd_edit *edit, pd_intent *intent, write_fn write, pd_ack *out, pd_error *err)
{
  pd_change_in *changes = malloc((edit->count + 1) * sizeof *changes);
  if (!changes) return pd_error_memory(err, "an invocation");
  edits_to_changes(edit, changes);
  intent->kind = PD_RECORD_COMMIT;
  intent->ref = edit->note.ref;
  intent->note = &edit->note;
  intent->changes = changes;
  intent->change_count = edit->count;
  pd_ack ack;
  pd_code code = write(edit->store, intent, &ack, err);
  free(changes);
  if (code) return code;
  ack.version = 0; /* of a single key only */
  if (out) *out = ack;
  return PD_OK;
}

static pd_code write_hurried(pd_store *store, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  return pd_write_at_once(store, intent, intent->later, out, err);
}

pd_code pd_edit_stage(pd_edit *edit, const pd_edit_guard *guard, pd_later **out_later, pd_ack *out, pd_error *err)
{
  pd_intent intent = {.guard = guard->check, .guard_ctx = guard->ctx, .later = out_later, .settles_quota = guard->settles_quota};
  return write_edit(edit, &intent, guard->is_hurried ? write_hurried : pd_write, out, err);
}

pd_code pd_edit_commit(pd_edit *edit, pd_ack *out, pd_error *err)
{
  pd_intent intent = {0};
  TRY(write_edit(edit, &intent, write_noted, out, err));
  pd_edit_abort(edit); /* frees; nothing of it is pending any more */
  return PD_OK;
}

/* The tree as the invocation sees it, for walking. */
static pd_code tree_here(pd_edit *edit, pd_node **out_root, pd_error *err)
{
  pd_store *s = edit->store;
  pd_tree_edit *edits = calloc(edit->count + 1, sizeof *edits);
  if (!edits) return pd_error_memory(err, "an invocation");
  pd_code code = PD_OK;
  for (size_t i = 0; !code && i < edit->count; i++) {
    const staged_edit *e = edit->edits[i];
    pd_entry below = {0}, entry;
    bool is_below;
    edits[i] = (pd_tree_edit){.key = e->key, .is_delete = e->is_delete, .value_id = e->value_id};
    code = find_below(edit, edits[i].key, NULL, &below, &is_below, err);
    if (code || e->is_delete) continue;
    overlay(e, is_below, &below, &entry);
    edits[i].rider = (pd_rider){.version = entry.version, .created_ms = entry.created_ms, .size = (uint32_t)entry.size, .pos = PD_POS_BAG};
    code = pd_cell_new(&s->tree.pool, e->value, &edits[i].cell, err);
  }
  if (!code) code = pd_tree_apply(&s->tree, edit->base.root, edits, edit->count, out_root, err);
  for (size_t i = 0; i < edit->count; i++) pd_cell_unref(&s->tree.pool, edits[i].cell);
  free(edits);
  return code;
}

pd_code pd_edit_iter(pd_edit *edit, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  pd_node *root;
  pd_store_lock(edit->store);
  pd_code code = tree_here(edit, &root, err);
  if (!code) {
    code = pd_iter_over(edit->store, root, scan, out, err);
    pd_node_unref(&edit->store->tree.pool, root);
  }
  pd_store_unlock(edit->store);
  return code;
}
