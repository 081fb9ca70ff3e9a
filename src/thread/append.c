/*
 * append.c: the write path of threads: one change set, one commit.
 *
 * The state in memory is changed first, so that a bad patch is found before anything is staged; what was touched is compared with the tree
 * and only leaves that differ are written. If the commit does not come about, the state is taken back.
 *
 * A handle that has read the state has it in memory. One that has not loads the part that the patches need (part.h), and forgets it
 * afterwards: an append costs what it touches, however large the state is. After some appends it loads the whole, and keeps it.
 */
#include "thread/append.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "thread/leaf.h"
#include "thread/operation.h"
#include "thread/part.h"

#include <stdlib.h>

#define PARTS_MAX 8 /* a handle that appends again and again, and finds nobody else doing so, has the state in memory */

typedef struct attempt {
  pd_thread *t;
  const pd_prepared *p;
  pd_thread_head is, next; /* before and after */
  pd_id before;            /* the tree */
  pd_identity identity;    /* if the thread is not where the handle is */
  bool is_elsewhere;
  pd_doc *fresh; /* of a snapshot, or if it is elsewhere: instead of the handle's */
  pd_part part;  /* or this, if the state is not in memory */
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
  pd_part_done(&a->part);
  pd_identity_done(&a->identity);
  pd_touched_done(&a->touched);
  pd_buf_done(&a->ids);
}

static void keep_state(attempt *a)
{
  if (a->is_elsewhere) {
    pd_thread_drop_doc(a->t);
    pd_identity_done(&a->t->identity);
    a->t->identity = a->identity;
    a->identity.texts = (pd_buf){0};
  }
  if (a->fresh) {
    pd_thread_drop_doc(a->t);
    a->t->doc = a->fresh;
    a->fresh = NULL;
  }
  if (a->t->doc) pd_doc_keep(a->t->doc);
  a->is_marked = false;
}

/* What is known of the new state's size: the next append need not count. */
static void note_bound(const attempt *a, const pd_id *before, const pd_id *after)
{
  const pd_doc *doc = a->fresh ? a->fresh : a->is_marked ? a->t->doc : NULL;
  uint64_t bound;
  if (a->part.doc)
    pd_state_bound_note(after, pd_part_bound(&a->part));
  else if (doc)
    pd_state_bound_note(after, pd_doc_size(doc));
  else if (pd_state_bound_known(before, &bound)) /* no patches: the state is the same */
    pd_state_bound_note(after, bound);
}

/* ---- state ---- */

/* The state that patches apply to. It is read through the edit: at the commit that the edit began on, staged or not. */
static pd_code take_doc(attempt *a, pd_edit *edit, pd_doc **out, pd_error *err)
{
  if (a->is_elsewhere) {
    TRY(pd_stateleaves_load(pd_edit_view(edit), &a->fresh, err));
    *out = a->fresh;
    return PD_OK;
  }
  if (!a->t->doc) TRY(pd_stateleaves_load(pd_edit_view(edit), &a->t->doc, err));
  a->mark = pd_doc_mark(a->t->doc);
  a->is_marked = true;
  *out = a->t->doc;
  return PD_OK;
}

/* Apply the patches to the part of the state that they need. *out_is_done: false if it takes the whole state (Q3 of part.h). */
static pd_code apply_to_part(attempt *a, pd_edit *edit, bool *out_is_done, pd_error *err)
{
  CLEANUP(pd_touched_done) pd_touched wanted = {0};
  pd_error why = {0};
  pd_commit at = pd_edit_head(edit);
  *out_is_done = false;
  if (!a->is_elsewhere && (a->t->doc || a->t->part_count >= PARTS_MAX)) return PD_OK;
  TRY(pd_patches_paths(a->p->patches, &wanted, err));
  pd_touched_minimize(&wanted);
  pd_code code = pd_part_load(pd_edit_view(edit), &at.tree, &wanted, &a->part, &why);
  if (!code) code = pd_patches_apply(a->p->patches, a->part.doc, &a->touched, &why);
  *out_is_done = !code && pd_part_is_sound(&a->part, &a->touched);
  if (*out_is_done) a->t->part_count = a->is_elsewhere ? 0 : a->t->part_count + 1;
  if (*out_is_done) return PD_OK;
  pd_part_done(&a->part);
  pd_touched_done(&a->touched);
  if (!code || pd_part_is_refused(code)) return PD_OK;
  if (err) *err = why;
  return code;
}

static pd_code apply_state(attempt *a, pd_edit *edit, pd_error *err)
{
  bool is_done = false;
  pd_doc *doc = NULL;
  if (a->p->snapshot.kind != PD_JSON_NONE) {
    TRY(pd_doc_new(a->p->snapshot, 0, &a->fresh, err));
    a->touched.paths = calloc(1, sizeof *a->touched.paths); /* the root */
    if (!a->touched.paths) return pd_error_memory(err, "a change set");
    a->touched.count = a->touched.capacity = 1;
    doc = a->fresh;
  } else if (a->p->patches) {
    TRY(apply_to_part(a, edit, &is_done, err));
    if (is_done) return PD_OK;
    TRY(take_doc(a, edit, &doc, err));
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

static pd_code next_active(attempt *a, pd_error *err)
{
  const pd_changeset *set = a->p->set;
  const char *wanted = set->active_run, *is = a->is.active_run;
  bool ends = !wanted && set->reason == PD_REASON_RUN_FINISHED && strcmp(is, set->run_id) == 0;
  if (ends) wanted = "";
  if (!wanted) return PD_OK;
  if (*wanted && *is && strcmp(wanted, is) != 0)
    return pd_error_named(err, PD_CONFLICT, "RunActive", "run '%s' of thread '%s' is active, so run '%s' cannot be", is, a->t->id, wanted);
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

static pd_code stage_all(attempt *a, pd_edit *edit, pd_error *err)
{
  const pd_doc *doc = a->fresh ? a->fresh : a->part.doc ? a->part.doc : a->t->doc;
  TRY(pd_stateleaves_stage(edit, doc, a->touched.paths, a->touched.count, err));
  TRY(stage_messages(a, edit, err));
  TRY(pd_run_stage(a->t->id, edit, a->p, &a->next, err));
  TRY(pd_operation_stage(edit, a->p->set, a->next.version, err));
  return stage_records(a, edit, err);
}

/* Where the thread is as the edit sees it: where the handle is, most often. The commit is made there, or not at all. */
static pd_code look(attempt *a, pd_edit *edit, pd_error *err)
{
  pd_commit at = pd_edit_head(edit);
  a->is = a->t->head;
  a->is_elsewhere = !pd_id_equal(&at.id, &a->t->commit.id);
  if (a->is_elsewhere) TRY(pd_thread_look(a->t->id, pd_edit_view(edit), &a->identity, &a->is, err));
  pd_edit_expect_head(edit);
  return PD_OK;
}

static pd_code stage_change(attempt *a, pd_edit *edit, pd_error *err)
{
  const pd_changeset *set = a->p->set;
  int64_t now = set->time_ms ? set->time_ms : pd_clock_now_ms(NULL);
  a->before = pd_edit_head(edit).tree;
  a->next = a->is;
  a->next.version++;
  if (now > a->next.time_ms) a->next.time_ms = now;
  TRY(next_active(a, err));
  TRY(apply_state(a, edit, err));
  return stage_all(a, edit, err);
}

static void conclude(attempt *a, const pd_ack *ack, pd_thread_ack *out)
{
  note_bound(a, &a->before, &ack->tree);
  keep_state(a);
  pd_thread_moved(a->t, &a->next, ack);
  if (!out) return;
  *out = (pd_thread_ack){.version = a->next.version,
                         .message_first = a->first,
                         .message_count = a->added,
                         .message_duplicates = a->duplicates,
                         .time_ms = a->next.time_ms,
                         .commit = ack->commit,
                         .durability = ack->durability};
}

static pd_note note_of(const pd_thread *t, const pd_changeset *set)
{
  return (pd_note){.ref = t->ref, .author = set->author, .run = set->run_id, .reason = pd_reason_name(set->reason), .later = set->later};
}

pd_code pd_thread_append_here(pd_thread *t, const pd_prepared *prepared, pd_thread_ack *out, pd_error *err)
{
  CLEANUP(attempt_done) attempt a = {.t = t, .p = prepared, .is = t->head};
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  pd_note note = note_of(t, prepared->set);
  pd_ack ack;
  note.expect_head = &t->commit.id;
  TRY(pd_edit_begin(t->store, &note, &edit, err));
  TRY(stage_change(&a, edit, err));
  TRY(pd_edit_commit(edit, &ack, err));
  edit = NULL;
  conclude(&a, &ack, out);
  return PD_OK;
}

/* ---- appends ---- */

typedef struct append_job {
  attempt a;
  uint64_t expect_version;
  bool is_duplicate; /* its operation was appended before */
} append_job;

static void append_job_done(append_job *job)
{
  attempt_done(&job->a);
}

static pd_code conflict(const append_job *job, pd_error *err)
{
  pd_thread there = *job->a.t;
  there.head = job->a.is;
  return pd_thread_conflict(&there, job->expect_version, err);
}

static pd_code stage_append(void *ctx, pd_edit *edit, pd_error *err)
{
  append_job *job = ctx;
  attempt again = {.t = job->a.t, .p = job->a.p};
  attempt_done(&job->a); /* what an earlier run did to the state in memory is taken back */
  job->a = again;
  TRY(look(&job->a, edit, err));
  TRY(pd_operation_is_there(edit, job->a.p->set, &job->is_duplicate, err));
  if (job->is_duplicate) return PD_OK; /* nothing to write */
  if (job->expect_version != PD_ANY_VERSION && job->expect_version != job->a.is.version) return conflict(job, err);
  return stage_change(&job->a, edit, err);
}

/* What the operation that was appended before said. */
static pd_code answer_duplicate(pd_thread *t, const pd_prepared *p, pd_thread_ack *out, pd_error *err)
{
  pd_thread_ack ack;
  pd_json message;
  uint64_t count = 0;
  bool is_found;
  TRY(pd_thread_follow(t, err));
  TRY(pd_operation_find(t, p->set->operation_id, p->operation_mark, &is_found, &ack, err));
  if (!is_found) return pd_error_set(err, PD_STORAGE, "thread '%s' was rewound while an operation was repeated; try again", t->id);
  if (!out) return PD_OK;
  pd_json_walk walk = pd_json_walk_begin(p->messages);
  while (pd_json_walk_next(&walk, NULL, &message)) count++;
  ack.message_duplicates = count > ack.message_count ? count - ack.message_count : 0;
  *out = ack;
  return PD_OK;
}

pd_code pd_thread_append(pd_thread *thread, const pd_changeset *changeset, uint64_t expect_version, pd_thread_ack *out, pd_error *err)
{
  CLEANUP(pd_prepared_done) pd_prepared prepared = {0};
  TRY(pd_prepare(changeset, &prepared, err));
  CLEANUP(append_job_done) append_job job = {.a = {.t = thread, .p = &prepared}, .expect_version = expect_version};
  pd_note note = note_of(thread, changeset);
  pd_error why = {0};
  pd_ack ack;
  pd_code code = pd_update(thread->store, &note, stage_append, &job, &ack, &why);
  if (!code && job.is_duplicate) return answer_duplicate(thread, &prepared, out, err);
  if (!code) {
    conclude(&job.a, &ack, out);
    return PD_OK;
  }
  append_job_done(&job);
  job.a = (attempt){0};
  pd_error gone = {0};
  pd_code followed = pd_thread_follow(thread, &gone); /* a caller that is refused looks at the handle next */
  if (err) *err = followed == PD_NOT_FOUND ? gone : why;
  return followed == PD_NOT_FOUND ? followed : code;
}
