/*
 * meta.c: what a store knows besides its state: tags, pins, settings, message links, what was erased. It is a tree like any other,
 * under the ref PD_META_REF that no user can name: so it is durable, audited, shared between processes and part of every bundle
 * without a format of its own.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/store.h"

#include <stdio.h>

static pd_code key_of(const char *kind, const char *name, char out[PD_KEY_SIZE_MAX + 1], pd_bytes *out_key, pd_error *err)
{
  int size = snprintf(out, PD_KEY_SIZE_MAX + 1, "%s/%s", kind, name);
  if (size < 0 || size > PD_KEY_SIZE_MAX) return pd_error_set(err, PD_LIMIT, "the name '%.32s…' of a %s is too long", name, kind);
  *out_key = (pd_bytes){out, (size_t)size};
  return pd_key_check(*out_key, err);
}

static pd_ref_slot *meta_slot(pd_store *s)
{
  pd_ref_slot *slot = pd_slot_find(s, PD_META_REF);
  return slot && !slot->seen.is_deleted ? slot : NULL;
}

static pd_code find_meta(pd_store *s, bool *out_exists, pd_error *err)
{
  pd_store_lock(s);
  pd_code code = pd_refresh_to_read(s, err);
  *out_exists = meta_slot(s) != NULL;
  pd_store_unlock(s);
  return code;
}

/* The hidden ref begins at the root commit, with the first thing that is put there. */
static pd_code make_meta(pd_store *s, pd_error *err)
{
  bool exists;
  TRY(find_meta(s, &exists, err));
  if (exists) return PD_OK;
  pd_error why;
  pd_intent intent = {.kind = PD_RECORD_FORK, .ref = PD_META_REF, .at = "root"};
  pd_code code = pd_write(s, &intent, NULL, &why);
  if (code == PD_EXISTS) return PD_OK; /* another was first */
  if (code && err) *err = why;
  return code;
}

static pd_note note_on_meta(const pd_note *note)
{
  pd_note own = {.ref = PD_META_REF};
  if (!note) return own;
  own.author = note->author;
  own.run = note->run;
  own.reason = note->reason;
  return own;
}

static pd_code missing(const char *kind, const char *name, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "there is no %s '%.200s'", kind, name);
}

pd_code pd_meta_get(pd_store *s, const char *kind, const char *name, pd_buf *out, pd_entry *out_entry, pd_error *err)
{
  char text[PD_KEY_SIZE_MAX + 1];
  pd_bytes key;
  bool exists;
  TRY(key_of(kind, name, text, &key, err));
  TRY(find_meta(s, &exists, err));
  if (!exists) return missing(kind, name, err);
  pd_error why;
  pd_code code = pd_get(s, PD_META_REF, key, out, out_entry, &why);
  if (code == PD_NOT_FOUND) return missing(kind, name, err);
  if (code && err) *err = why;
  return code;
}

pd_code pd_meta_get_locked(pd_store *s, const char *kind, const char *name, pd_buf *out, pd_error *err)
{
  char text[PD_KEY_SIZE_MAX + 1];
  pd_bytes key;
  pd_ref_slot *slot = meta_slot(s);
  TRY(key_of(kind, name, text, &key, err));
  if (!slot) return missing(kind, name, err);
  pd_error why;
  pd_code code = pd_get_at_head(s, &slot->seen, key, out, NULL, &why);
  if (code == PD_NOT_FOUND) return missing(kind, name, err);
  if (code && err) *err = why;
  return code;
}

pd_code pd_meta_put(pd_store *s, const char *kind, const char *name, pd_bytes value, uint64_t expect_version, const pd_note *note,
                    pd_ack *out, pd_error *err)
{
  char text[PD_KEY_SIZE_MAX + 1];
  pd_bytes key;
  TRY(key_of(kind, name, text, &key, err));
  TRY(make_meta(s, err));
  pd_note own = note_on_meta(note);
  return pd_put_if(s, key, value, expect_version, &own, out, err);
}

pd_code pd_meta_put_mark(pd_store *s, const char *kind, const char *name, pd_bytes value, uint64_t expect_version, const pd_commit *commit,
                         const pd_note *note, pd_error *err)
{
  char text[PD_KEY_SIZE_MAX + 1];
  pd_change_in change = {.value = value, .value_id = pd_value_id(value), .expect_version = expect_version};
  TRY(key_of(kind, name, text, &change.key, err));
  TRY(make_meta(s, err));
  pd_note own = note_on_meta(note);
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = PD_META_REF, .note = &own, .changes = &change, .change_count = 1, .kept = commit};
  return pd_write(s, &intent, NULL, err);
}

pd_code pd_meta_delete(pd_store *s, const char *kind, const char *name, const pd_note *note, pd_error *err)
{
  char text[PD_KEY_SIZE_MAX + 1];
  pd_bytes key;
  TRY(key_of(kind, name, text, &key, err));
  TRY(make_meta(s, err));
  pd_note own = note_on_meta(note);
  pd_error why;
  pd_code code = pd_delete(s, key, PD_ANY_VERSION, &own, NULL, &why);
  if (code == PD_NOT_FOUND) return missing(kind, name, err);
  if (code && err) *err = why;
  return code;
}

pd_code pd_meta_edit(pd_store *s, const pd_note *note, pd_edit **out, pd_error *err)
{
  TRY(make_meta(s, err));
  pd_note own = note_on_meta(note);
  return pd_edit_begin(s, &own, out, err);
}

pd_code pd_meta_list(pd_store *s, const char *kind, pd_meta_visit visit, void *ctx, pd_error *err)
{
  char prefix[PD_KEY_SIZE_MAX + 1], name[PD_KEY_SIZE_MAX + 1];
  bool exists;
  TRY(find_meta(s, &exists, err));
  if (!exists) return PD_OK;
  int prefix_size = snprintf(prefix, sizeof prefix, "%s/", kind);
  pd_scan scan = {.prefix = {prefix, (size_t)prefix_size}};
  pd_iter *iter;
  TRY(pd_iter_open(s, PD_META_REF, &scan, &iter, err));
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, &value, err))) {
    size_t size = entry.key.size - scan.prefix.size;
    memcpy(name, (const char *)entry.key.data + scan.prefix.size, size);
    name[size] = 0;
    if (!visit(ctx, name, value, &entry)) break;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code walk_kind(pd_store *s, pd_node *root, pd_bytes prefix, pd_meta_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  CLEANUP(pd_tree_cursor_done) pd_tree_cursor cursor = {0};
  char name[PD_KEY_SIZE_MAX + 1];
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_seek(&cursor, &s->tree, root, prefix, err));
  while (pd_tree_at(&cursor, &leaf, &index) && pd_bytes_starts(pd_node_key(leaf, index), prefix)) {
    pd_entry entry;
    pd_entry_of(leaf, index, &entry);
    TRY(pd_value_read(s, leaf, index, &value, err));
    size_t size = entry.key.size - prefix.size;
    memcpy(name, (const char *)entry.key.data + prefix.size, size);
    name[size] = 0;
    if (!visit(ctx, name, pd_buf_bytes(&value), &entry)) break;
    TRY(pd_tree_next(&cursor, err));
  }
  return PD_OK;
}

pd_code pd_meta_list_locked(pd_store *s, const char *kind, pd_meta_visit visit, void *ctx, pd_error *err)
{
  char prefix[PD_KEY_SIZE_MAX + 1];
  pd_ref_slot *slot = meta_slot(s);
  if (!slot) return PD_OK;
  int prefix_size = snprintf(prefix, sizeof prefix, "%s/", kind);
  pd_node *root;
  TRY(pd_head_root(s, &slot->seen, &root, err));
  return walk_kind(s, root, (pd_bytes){prefix, (size_t)prefix_size}, visit, ctx, err);
}
