/* operation.c: see operation.h. */
#include "thread/operation.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "base/sha256.h"

#include <stdio.h>

#define KEY_OPERATION "operation"
#define FORGET_AT_ONCE 4 /* more than one, so that a window that shrank is caught up with */

pd_code pd_operation_check(const char *id, const char *mark, pd_error *err)
{
  if (!id && !mark) return PD_OK;
  if (!id) return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "an 'operation_mark' needs an 'operation_id'");
  if (pd_thread_check_text(id, PD_THREAD_OPERATION_SIZE_MAX, "operation id", NULL))
    return pd_error_named(err, PD_INVALID, "InvalidId", "the id of an operation is 1 to %d bytes of UTF-8 without control characters",
                          PD_THREAD_OPERATION_SIZE_MAX);
  if (mark && (strlen(mark) != PD_ID_HEX_SIZE - 1 || strspn(mark, "0123456789abcdef") != PD_ID_HEX_SIZE - 1))
    return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "an 'operation_mark' is 64 hex digits");
  return PD_OK;
}

/* ---- the mark ---- */

static pd_code add_part(pd_buf *out, pd_bytes part, pd_error *err)
{
  TRY(pd_buf_printf(out, err, "%zu:", part.size));
  return pd_buf_append(out, part.data, part.size, err);
}

pd_code pd_operation_mark(const pd_prepared *prepared, char out[PD_ID_HEX_SIZE], pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  const pd_changeset *set = prepared->set;
  CLEANUP(pd_buf_done) pd_buf messages = {0};
  if (prepared->messages.kind != PD_JSON_NONE) TRY(pd_json_canonical(prepared->messages, &messages, err));
  TRY(add_part(&text, pd_text(set->run_id), err));
  TRY(add_part(&text, pd_text(pd_reason_name(set->reason)), err));
  TRY(add_part(&text, pd_buf_bytes(&messages), err));
  TRY(add_part(&text, pd_buf_bytes(&prepared->run_meta_text), err));
  TRY(add_part(&text, pd_buf_bytes(&prepared->patches_text), err));
  TRY(add_part(&text, pd_buf_bytes(&prepared->actions_text), err));
  TRY(add_part(&text, pd_buf_bytes(&prepared->snapshot_text), err));
  pd_id id = pd_sha256(pd_buf_bytes(&text));
  pd_id_hex(&id, out);
  return PD_OK;
}

/* ---- finding ---- */

static pd_code id_key(const char *id, pd_buf *out, pd_error *err)
{
  pd_buf_clear(out);
  return pd_buf_printf(out, err, KEY_OPERATION "/%s", id);
}

static pd_code read_change(pd_thread *t, pd_view *view, uint64_t version, const char *mark, const char *id, pd_thread_ack *out,
                           pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_THREAD_KEY_SIZE];
  pd_change_parts parts;
  pd_entry entry;
  pd_error why = {0};
  TRY(pd_view_get(view, pd_text(pd_thread_key(PD_KEY_CHANGE, version, key)), &text, &entry, err));
  TRY(pd_thread_stored(t->id, key, pd_change_parse(pd_buf_bytes(&text), &parts, &why), &why, err));
  if (mark && parts.operation_mark.kind == PD_JSON_STRING && !pd_json_is(parts.operation_mark, mark))
    return pd_error_named(err, PD_CONFLICT, "OperationUsed",
                          "operation '%.64s' made version %llu of thread '%s' with other content: an id stands for one change", id,
                          (unsigned long long)version, t->id);
  *out = (pd_thread_ack){.version = version,
                         .message_first = parts.message_first,
                         .message_count = parts.message_count,
                         .time_ms = parts.time_ms,
                         .durability = PD_SYNCED,
                         .is_duplicate = true};
  return pd_thread_commit_id(t->store, entry.seq, &out->commit, err);
}

pd_code pd_operation_find(pd_thread *t, const char *id, const char *mark, bool *out_is_found, pd_thread_ack *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0}, text = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread_ack ack;
  pd_json number;
  uint64_t version;
  pd_error why = {0};
  *out_is_found = false;
  TRY(id_key(id, &key, err));
  TRY(pd_thread_view(t, &t->commit, &view, err));
  pd_code code = pd_view_get(view, pd_buf_bytes(&key), &text, NULL, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  TRY(code);
  if (pd_json_parse(pd_buf_bytes(&text), &number, NULL) || !pd_json_u64(number, &version))
    return pd_thread_corrupt(t->id, KEY_OPERATION "/", "no number", err);
  TRY(read_change(t, view, version, mark, id, &ack, err));
  TRY(pd_store_flush(t->store, err)); /* the answer says that it is durable */
  *out_is_found = true;
  *out = ack;
  return PD_OK;
}

pd_code pd_operation_is_there(pd_edit *edit, const pd_changeset *set, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  pd_error why = {0};
  *out = false;
  if (!set->operation_id) return PD_OK;
  TRY(id_key(set->operation_id, &key, err));
  pd_code code = pd_edit_get(edit, pd_buf_bytes(&key), NULL, NULL, &why);
  if (code && code != PD_NOT_FOUND && err) *err = why;
  *out = !code;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* ---- remembering and forgetting ---- */

static pd_code put_text(pd_edit *edit, pd_bytes key, pd_bytes value, pd_error *err)
{
  return pd_edit_put(edit, key, value, PD_ANY_VERSION, err);
}

typedef struct old_one {
  pd_buf at_key, id;
} old_one;

static void old_ones_done(old_one (*old)[FORGET_AT_ONCE])
{
  for (size_t i = 0; i < FORGET_AT_ONCE; i++) {
    pd_buf_done(&(*old)[i].at_key);
    pd_buf_done(&(*old)[i].id);
  }
}

/* The oldest ones that are out of the window. All are read before anything is staged. */
static pd_code find_old(pd_edit *edit, uint64_t version, old_one old[FORGET_AT_ONCE], size_t *out_count, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes id;
  pd_code code = PD_OK;
  *out_count = 0;
  TRY(pd_view_scan(pd_edit_view(edit), &(pd_scan){.prefix = pd_text(KEY_OPERATION "-at/")}, &iter, err));
  while (*out_count < FORGET_AT_ONCE && (code = pd_iter_next(iter, &entry, &id, err)) == PD_OK) {
    if (pd_thread_key_number(entry.key) + PD_THREAD_OPERATIONS_KEPT > version) break;
    TRY(pd_buf_append(&old[*out_count].at_key, entry.key.data, entry.key.size, err));
    TRY(pd_buf_append(&old[*out_count].id, id.data, id.size, err));
    ++*out_count;
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code forget(pd_edit *edit, uint64_t version, pd_error *err)
{
  CLEANUP(old_ones_done) old_one old[FORGET_AT_ONCE] = {0};
  CLEANUP(pd_buf_done) pd_buf key = {0};
  size_t count;
  TRY(find_old(edit, version, old, &count, err));
  for (size_t i = 0; i < count; i++) {
    TRY(pd_buf_byte(&old[i].id, 0, err));
    TRY(id_key((const char *)old[i].id.data, &key, err));
    TRY(pd_edit_delete(edit, pd_buf_bytes(&key), PD_ANY_VERSION, err));
    TRY(pd_edit_delete(edit, pd_buf_bytes(&old[i].at_key), PD_ANY_VERSION, err));
  }
  return PD_OK;
}

pd_code pd_operation_stage(pd_edit *edit, const pd_changeset *set, uint64_t version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  char at_key[PD_THREAD_KEY_SIZE], number[24];
  if (!set->operation_id) return PD_OK;
  TRY(forget(edit, version, err));
  TRY(id_key(set->operation_id, &key, err));
  snprintf(number, sizeof number, "%llu", (unsigned long long)version);
  TRY(put_text(edit, pd_buf_bytes(&key), pd_text(number), err));
  return put_text(edit, pd_text(pd_thread_key(KEY_OPERATION "-at", version, at_key)), pd_text(set->operation_id), err);
}

/* ---- asking ---- */

pd_code pd_thread_operation_get(pd_thread *thread, const char *operation_id, const char *mark, pd_thread_ack *out, pd_error *err)
{
  bool is_found;
  pd_thread_ack ack;
  TRY(pd_operation_check(operation_id, mark, err));
  TRY(pd_store_flush(thread->store, err)); /* it may be what another thread of this process is just writing */
  TRY(pd_thread_follow(thread, err));
  if (operation_id) TRY(pd_operation_find(thread, operation_id, mark, &is_found, &ack, err));
  if (!operation_id || !is_found)
    return pd_error_named(err, PD_NOT_FOUND, "OperationNotFound", "thread '%s' remembers no operation '%.64s'", thread->id,
                          operation_id ? operation_id : "");
  if (out) *out = ack;
  return PD_OK;
}
