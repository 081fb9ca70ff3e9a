/* create.c: threads come and go: creating (R2 of thread.h), and deleting. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "base/random.h"
#include "thread/append.h"
#include "thread/leaf.h"

#include <stdio.h>

#define BIRTHS_MAX 100 /* tries, against others who make and delete it */

/* ---- who it is ---- */

/* One way for all identities: as JSON, and read back with all its checks. */
pd_code pd_identity_make(const pd_thread_options *options, pd_identity *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0}, meta = {0};
  char id[PD_THREAD_ID_SIZE_MAX + 1];
  pd_json json;
  if (!options->id) TRY(pd_random_hex(id, 33, err));
  if (options->id) TRY(pd_thread_id_check(options->id, "thread", err));
  if (options->owner) TRY(pd_thread_check_text(options->owner, PD_THREAD_OWNER_SIZE_MAX, "owner", err));
  if (options->parent && *options->parent) TRY(pd_thread_id_check(options->parent, "parent thread", err));
  if (options->time_ms < 0) return pd_error_set(err, PD_INVALID, "the time is before 1970");
  if (options->meta.size) {
    TRY(pd_json_parse(options->meta, &json, err));
    TRY(pd_json_canonical(json, &meta, err)); /* what is no object, or has a member twice, is found when it is read back */
  }
  pd_identity made = {.id = options->id ? options->id : id,
                      .owner = options->owner ? options->owner : "",
                      .parent = options->parent ? options->parent : "",
                      .forked_from = "",
                      .meta = pd_buf_bytes(&meta),
                      .created_ms = options->time_ms ? options->time_ms : pd_clock_now_ms(NULL)};
  TRY(pd_identity_write(&made, &text, err));
  TRY(pd_json_parse(pd_buf_bytes(&text), &json, err));
  return pd_identity_parse(json, out, err);
}

/* ---- the first commit ---- */

/* PD_OK: nobody is there. PD_EXISTS; else what went wrong. */
pd_code pd_thread_check_absent(pd_store *store, const char *id, pd_error *err)
{
  CLEANUP(pd_thread_close_at) pd_thread *there = NULL;
  pd_error why;
  pd_code code = pd_thread_open(store, id, &there, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (!code) return pd_error_named(err, PD_EXISTS, "AlreadyExists", "there is a thread '%s' already", id);
  if (err) *err = why;
  return code;
}

/* The ref at its base: made now, or left behind by who did not come to an end. */
static pd_code place_ref(pd_store *store, const pd_thread_birth *birth, const char *ref, pd_error *err)
{
  pd_error why;
  pd_ref left;
  pd_note note = {.author = birth->author, .reason = birth->reason};
  pd_code code = pd_fork(store, ref, birth->base_at, &note, NULL, &why);
  if (code && code != PD_EXISTS && err) *err = why;
  if (code != PD_EXISTS) return code;
  TRY(pd_ref_get(store, ref, &left, err));
  if (pd_id_equal(&left.commit.id, birth->base)) return PD_OK;
  TRY(pd_thread_check_absent(store, birth->identity->id, err));
  note.expect_head = &left.commit.id;
  return pd_reset(store, ref, birth->base_at, &note, NULL, err);
}

static pd_code commit_birth(pd_store *store, const pd_thread_birth *birth, const char *ref, pd_error *err)
{
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  pd_note note = {.ref = ref, .author = birth->author, .reason = birth->reason, .expect_head = birth->base};
  TRY(pd_edit_begin(store, &note, &edit, err));
  TRY(birth->stage(birth->ctx, edit, err));
  TRY(pd_edit_commit(edit, NULL, err));
  edit = NULL;
  return PD_OK;
}

static pd_code bear_once(pd_store *store, const pd_thread_birth *birth, const char *ref, pd_error *err)
{
  TRY(pd_thread_check_absent(store, birth->identity->id, err));
  TRY(place_ref(store, birth, ref, err));
  return commit_birth(store, birth, ref, err);
}

pd_code pd_thread_bear(pd_store *store, const pd_thread_birth *birth, pd_error *err)
{
  char ref[PD_THREAD_REF_SIZE];
  pd_error why = {0};
  pd_code code = PD_CONFLICT;
  TRY(pd_thread_check_absent(store, birth->identity->id, err));
  TRY(pd_threads_add(store, birth->identity, err)); /* before the ref: a thread that is there is listed */
  pd_thread_ref(birth->identity->id, ref);
  for (int i = 0; i < BIRTHS_MAX && (code == PD_CONFLICT || code == PD_NOT_FOUND); i++) code = bear_once(store, birth, ref, &why);
  if (code && err) *err = why;
  return code;
}

static pd_code put_record(pd_edit *edit, const char *key, const pd_buf *text, pd_error *err)
{
  return pd_edit_put(edit, pd_text(key), pd_buf_bytes(text), PD_ANY_VERSION, err);
}

/* change/0: the state that it begins with, and when. */
static pd_code write_first(pd_json snapshot, int64_t time_ms, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = out, .err = err};
  TRY(pd_json_canonical(snapshot, &text, err));
  pd_json_open(&w, '{');
  if (text.size) {
    pd_json_key(&w, "snapshot");
    pd_json_raw(&w, pd_buf_bytes(&text));
  }
  pd_json_put_number(&w, "time", (uint64_t)time_ms);
  pd_json_put_number(&w, "version", 0);
  pd_json_close(&w, '}');
  return w.code;
}

static void free_doc(pd_doc **doc)
{
  pd_doc_free(*doc);
}

static pd_code stage_state(pd_edit *edit, pd_json snapshot, pd_error *err)
{
  CLEANUP(free_doc) pd_doc *doc = NULL;
  CLEANUP(pd_stateleaves_done) pd_stateleaves leaves = {0};
  if (snapshot.kind == PD_JSON_NONE) return PD_OK;
  if (snapshot.kind != PD_JSON_OBJECT)
    return pd_error_set(err, PD_INVALID, "the state is no object but %s", pd_json_kind_name(snapshot.kind));
  TRY(pd_doc_new(snapshot, 0, &doc, err));
  TRY(pd_stateleaves_of(doc, NULL, 0, pd_text(PD_LEAF_ROOT), &leaves, err));
  for (size_t i = 0; i < leaves.count; i++)
    TRY(pd_edit_put(edit, pd_stateleaf_key_of(&leaves, i), pd_stateleaf_value_of(&leaves, i), PD_ANY_VERSION, err));
  return PD_OK;
}

pd_code pd_thread_stage_first(pd_edit *edit, const pd_identity *identity, pd_json snapshot, int64_t time_ms, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf who = {0}, where = {0}, first = {0};
  pd_thread_head head = {.time_ms = time_ms};
  char key[PD_THREAD_KEY_SIZE];
  TRY(stage_state(edit, snapshot, err));
  TRY(pd_identity_write(identity, &who, err));
  TRY(pd_thread_head_write(&head, &where, err));
  TRY(write_first(snapshot, time_ms, &first, err));
  TRY(put_record(edit, pd_thread_key(PD_KEY_CHANGE, 0, key), &first, err));
  TRY(put_record(edit, PD_KEY_THREAD, &who, err));
  return put_record(edit, PD_KEY_VERSION, &where, err);
}

/* ---- creating ---- */

typedef struct first_commit {
  const pd_identity *identity;
  pd_json snapshot;
} first_commit;

static pd_code stage_first(void *ctx, pd_edit *edit, pd_error *err)
{
  const first_commit *f = ctx;
  return pd_thread_stage_first(edit, f->identity, f->snapshot, f->identity->created_ms, err);
}

pd_code pd_thread_check_parent(pd_store *store, const char *parent, pd_error *err)
{
  CLEANUP(pd_thread_close_at) pd_thread *there = NULL;
  if (!parent || !*parent) return PD_OK;
  pd_error why;
  pd_code code = pd_thread_open(store, parent, &there, &why);
  if (code == PD_NOT_FOUND) return pd_error_named(err, PD_NOT_FOUND, "NotFound", "there is no parent thread '%s'", parent);
  if (code && err) *err = why;
  return code;
}

pd_code pd_thread_create(pd_store *store, const pd_thread_options *options, pd_thread **out, pd_error *err)
{
  CLEANUP(pd_identity_done) pd_identity identity = {0};
  first_commit first = {.identity = &identity};
  pd_commit root;
  if (options->state.size > PD_CHANGESET_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the state has %zu bytes, the limit is %zu", options->state.size, PD_CHANGESET_SIZE_MAX);
  TRY(pd_identity_make(options, &identity, err));
  if (options->state.size) TRY(pd_json_parse(options->state, &first.snapshot, err));
  TRY(pd_thread_check_parent(store, options->parent, err));
  TRY(pd_resolve(store, "root", &root, err));
  pd_thread_birth birth = {.identity = &identity,
                           .base_at = "root",
                           .base = &root.id,
                           .author = options->author,
                           .reason = "ThreadCreated",
                           .stage = stage_first,
                           .ctx = &first};
  TRY(pd_thread_bear(store, &birth, err));
  return out ? pd_thread_open(store, identity.id, out, err) : PD_OK;
}

/* ---- deleting ---- */

static pd_code delete_mailbox(pd_store *store, const char *id, const pd_note *note, pd_error *err)
{
  char ref[PD_THREAD_REF_SIZE];
  pd_error why;
  snprintf(ref, sizeof ref, "mailbox/%s", id);
  pd_code code = pd_ref_delete(store, ref, note, &why);
  if (code && code != PD_NOT_FOUND && err) *err = why;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_thread_conflict(const pd_thread *t, uint64_t expected, pd_error *err)
{
  return pd_error_conflict(err, expected, t->head.version, "thread '%s' is at version %llu, expected %llu", t->id,
                           (unsigned long long)t->head.version, (unsigned long long)expected);
}

static pd_code delete_once(pd_thread *t, uint64_t expect_version, const pd_note *note, pd_error *err)
{
  TRY(pd_thread_follow(t, err));
  if (expect_version != PD_ANY_VERSION && expect_version != t->head.version) {
    pd_thread_conflict(t, expect_version, err);
    return PD_INVALID; /* told apart from a race, by the caller */
  }
  pd_note own = {.author = note ? note->author : NULL, .run = note ? note->run : NULL, .reason = note ? note->reason : NULL};
  own.expect_head = &t->commit.id;
  return pd_ref_delete(t->store, t->ref, &own, err);
}

pd_code pd_thread_delete(pd_store *store, const char *id, uint64_t expect_version, const pd_note *note, pd_error *err)
{
  CLEANUP(pd_thread_close_at) pd_thread *t = NULL;
  pd_error why = {0};
  pd_code code = PD_CONFLICT;
  TRY(pd_thread_open(store, id, &t, err));
  while (code == PD_CONFLICT) code = delete_once(t, expect_version, note, &why); /* lost to an append, which is on the disk */
  if (code && err) *err = why;
  if (code) return why.code; /* PD_CONFLICT if the version is another */
  pd_note plain = {.author = note ? note->author : NULL, .reason = "ThreadDeleted"};
  TRY(delete_mailbox(store, id, &plain, err));
  return pd_threads_remove(store, &t->identity, err);
}
