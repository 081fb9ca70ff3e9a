/*
 * append.c: the write path of threads: one change set, one commit.
 *
 * The state in memory is changed first, so that a bad patch is found before anything is staged; what was touched is compared with the tree
 * and only leaves that differ are written. If the commit does not come about, the state is taken back.
 */
#include "thread/append.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "thread/leaf.h"
#include "thread/operation.h"

#include <stdlib.h>

typedef struct attempt {
  pd_thread *t;
  const pd_prepared *p;
  pd_thread_head next;
  pd_doc *fresh; /* of a snapshot: instead of the handle's */
  size_t mark;
  bool is_marked;
  pd_touched touched;
  uint64_t first, added, duplicates;
  pd_buf ids; /* of the messages that are new: a JSON array */
} attempt;

/* What is not kept goes. */
static void attempt_done(attempt *a)
{
  if (a->is_marked) pd_doc_undo(a->t->doc, a->mark);
  pd_doc_free(a->fresh);
  pd_touched_done(&a->touched);
  pd_buf_done(&a->ids);
}

static void keep_state(attempt *a)
{
  if (a->fresh) {
    pd_thread_drop_doc(a->t);
    a->t->doc = a->fresh;
    a->fresh = NULL;
  }
  if (a->t->doc) pd_doc_keep(a->t->doc);
  a->is_marked = false;
}

/* ---- state ---- */

static pd_code apply_state(attempt *a, pd_error *err)
{
  pd_doc *doc = NULL;
  if (a->p->snapshot.kind != PD_JSON_NONE) {
    TRY(pd_doc_new(a->p->snapshot, 0, &a->fresh, err));
    a->touched.paths = calloc(1, sizeof *a->touched.paths); /* the root */
    if (!a->touched.paths) return pd_error_memory(err, "a change set");
    a->touched.count = a->touched.capacity = 1;
    doc = a->fresh;
  } else if (a->p->patches) {
    TRY(pd_thread_need_doc(a->t, err));
    doc = a->t->doc;
    a->mark = pd_doc_mark(doc);
    a->is_marked = true;
  }
  return a->p->patches ? pd_patch_error(pd_patches_apply(a->p->patches, doc, &a->touched, err), err) : PD_OK;
}

/* ---- messages ---- */

static pd_code put_text(pd_edit *edit, pd_bytes key, const pd_buf *value, pd_error *err)
{
  return pd_edit_put(edit, key, pd_buf_bytes(value), PD_ANY_VERSION, err);
}

static pd_code stage_message(attempt *a, pd_edit *edit, pd_json message, pd_json_writer *ids, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf id_key = {0}, text = {0};
  char key[PD_THREAD_KEY_SIZE];
  pd_error why;
  TRY(pd_buf_append(&id_key, PD_KEY_MESSAGE "-id/", strlen(PD_KEY_MESSAGE "-id/"), err));
  size_t prefix = id_key.size;
  TRY(pd_message_id(message, &id_key, err));
  pd_code code = pd_edit_get(edit, pd_buf_bytes(&id_key), NULL, NULL, &why); /* sees those of this change set, too */
  if (!code) a->duplicates++;
  if (code && code != PD_NOT_FOUND && err) *err = why;
  if (code != PD_NOT_FOUND) return code;
  pd_json_writer w = {.out = &text, .err = err};
  uint64_t place = ++a->next.messages;
  pd_json_value(&w, message);
  TRY(w.code);
  TRY(put_text(edit, pd_text(pd_thread_key(PD_KEY_MESSAGE, place, key)), &text, err));
  pd_buf_clear(&text);
  TRY(pd_buf_printf(&text, err, "%llu", (unsigned long long)place));
  TRY(put_text(edit, pd_buf_bytes(&id_key), &text, err));
  if (!a->first) a->first = place;
  a->added++;
  pd_json_text(ids, (pd_bytes){id_key.data + prefix, id_key.size - prefix});
  return ids->code;
}

static pd_code stage_messages(attempt *a, pd_edit *edit, pd_error *err)
{
  pd_json_writer ids = {.out = &a->ids, .err = err};
  pd_json message;
  pd_json_open(&ids, '[');
  pd_json_walk walk = pd_json_walk_begin(a->p->messages);
  while (pd_json_walk_next(&walk, NULL, &message)) TRY(stage_message(a, edit, message, &ids, err));
  pd_json_close(&ids, ']');
  return ids.code;
}

/* ---- the active run ---- */

static pd_code next_active(attempt *a, bool *out_is_final, pd_error *err)
{
  const pd_changeset *set = a->p->set;
  const char *wanted = set->active_run, *is = a->t->head.active_run;
  bool ends = !wanted && set->reason == PD_REASON_RUN_FINISHED && strcmp(is, set->run_id) == 0;
  if (ends) wanted = "";
  if (!wanted) return PD_OK;
  if (*wanted && *is && strcmp(wanted, is) != 0) {
    *out_is_final = true;
    return pd_error_named(err, PD_CONFLICT, "RunActive", "run '%s' of thread '%s' is active, so run '%s' cannot be", is, a->t->id, wanted);
  }
  strcpy(a->next.active_run, wanted);
  return PD_OK;
}

/* ---- all together ---- */

static pd_code stage_records(attempt *a, pd_edit *edit, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf change = {0}, where = {0};
  char key[PD_THREAD_KEY_SIZE];
  pd_change_place place = {
    .version = a->next.version, .time_ms = a->next.time_ms, .message_first = a->first, .message_ids = pd_buf_bytes(&a->ids)};
  TRY(pd_change_write(a->p, &place, &change, err));
  TRY(pd_thread_head_write(&a->next, &where, err));
  TRY(put_text(edit, pd_text(pd_thread_key(PD_KEY_CHANGE, a->next.version, key)), &change, err));
  return put_text(edit, pd_text(PD_KEY_VERSION), &where, err);
}

/* The tree that the edit reads is the one that the handle knows. The commit sees to the rest. */
static pd_code check_here(const attempt *a, pd_edit *edit, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf is = {0}, known = {0};
  TRY(pd_edit_get(edit, pd_text(PD_KEY_VERSION), &is, NULL, err));
  TRY(pd_thread_head_write(&a->t->head, &known, err));
  if (pd_bytes_equal(pd_buf_bytes(&is), pd_buf_bytes(&known))) return PD_OK;
  return pd_error_set(err, PD_CONFLICT, "thread '%s' was changed by another", a->t->id);
}

static pd_code stage_all(attempt *a, pd_edit *edit, pd_error *err)
{
  const pd_doc *doc = a->fresh ? a->fresh : a->t->doc;
  TRY(check_here(a, edit, err));
  TRY(pd_stateleaves_stage(edit, doc, a->touched.paths, a->touched.count, err));
  TRY(stage_messages(a, edit, err));
  TRY(pd_run_stage(a->t->id, edit, a->p, &a->next, err));
  TRY(pd_operation_stage(edit, a->p->set, a->next.version, err));
  return stage_records(a, edit, err);
}

static void tell(const attempt *a, const pd_ack *ack, pd_thread_ack *out)
{
  if (!out) return;
  *out = (pd_thread_ack){.version = a->next.version,
                         .message_first = a->first,
                         .message_count = a->added,
                         .message_duplicates = a->duplicates,
                         .time_ms = a->next.time_ms,
                         .commit = ack->commit,
                         .durability = ack->durability};
}

pd_code pd_thread_append_here(pd_thread *t, const pd_prepared *prepared, pd_thread_ack *out, bool *out_is_final, pd_error *err)
{
  CLEANUP(attempt_done) attempt a = {.t = t, .p = prepared, .next = t->head};
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  const pd_changeset *set = prepared->set;
  int64_t now = set->time_ms ? set->time_ms : pd_clock_now_ms(NULL);
  pd_ack ack;
  a.next.version++;
  if (now > a.next.time_ms) a.next.time_ms = now;
  TRY(next_active(&a, out_is_final, err));
  TRY(apply_state(&a, err));
  pd_note note = {
    .ref = t->ref, .author = set->author, .run = set->run_id, .reason = pd_reason_name(set->reason), .expect_head = &t->commit.id};
  TRY(pd_edit_begin(t->store, &note, &edit, err));
  TRY(stage_all(&a, edit, err));
  TRY(pd_edit_commit(edit, &ack, err));
  edit = NULL;
  keep_state(&a);
  pd_thread_moved(t, &a.next, &ack);
  tell(&a, &ack, out);
  return PD_OK;
}

/* Was this operation appended before? Then there is nothing to do: *out_is_found. */
static pd_code find_duplicate(pd_thread *t, const pd_prepared *p, bool *out_is_found, pd_thread_ack *out, pd_error *err)
{
  pd_thread_ack ack;
  pd_json message;
  uint64_t count = 0;
  *out_is_found = false;
  if (!p->set->operation_id) return PD_OK;
  TRY(pd_operation_find(t, p->set->operation_id, p->operation_mark, out_is_found, &ack, err));
  if (!*out_is_found || !out) return PD_OK;
  pd_json_walk walk = pd_json_walk_begin(p->messages);
  while (pd_json_walk_next(&walk, NULL, &message)) count++;
  ack.message_duplicates = count > ack.message_count ? count - ack.message_count : 0;
  *out = ack;
  return PD_OK;
}

/* One look and one try. *out_again: somebody else was faster. */
static pd_code append_once(pd_thread *t, const pd_prepared *p, uint64_t expect_version, bool must_settle, pd_thread_ack *out,
                           bool *out_again, pd_error *err)
{
  bool is_final = false, is_duplicate;
  *out_again = false;
  TRY(pd_thread_follow(t, must_settle, err));
  TRY(find_duplicate(t, p, &is_duplicate, out, err));
  if (is_duplicate) return PD_OK;
  if (expect_version != PD_ANY_VERSION && expect_version != t->head.version) return pd_thread_conflict(t, expect_version, err);
  pd_code code = pd_thread_append_here(t, p, out, &is_final, err);
  *out_again = code == PD_CONFLICT && !is_final;
  return code;
}

pd_code pd_thread_append(pd_thread *thread, const pd_changeset *changeset, uint64_t expect_version, pd_thread_ack *out, pd_error *err)
{
  CLEANUP(pd_prepared_done) pd_prepared prepared = {0};
  bool again = true;
  pd_code code = PD_OK;
  TRY(pd_prepare(changeset, &prepared, err));
  for (int i = 0; again && i < PD_THREAD_TRIES_MAX; i++) code = append_once(thread, &prepared, expect_version, i > 0, out, &again, err);
  if (!again) return code;
  return pd_error_set(err, PD_STORAGE, "thread '%s' changed %d times while it was appended to; try again", thread->id, PD_THREAD_TRIES_MAX);
}
