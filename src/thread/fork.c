/* fork.c: another thread from a version of this one; and back to a version. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/append.h"
#include "thread/thread.h"

#include <stdio.h>

/* ---- identities over identities ---- */

pd_code pd_thread_stage_identity(pd_edit *edit, const pd_identity *identity, const pd_identity *before, const pd_thread_head *head,
                                 pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf who = {0}, origin = {0}, where = {0};
  pd_thread_head next = *head;
  char key[PD_THREAD_KEY_SIZE];
  next.active_run[0] = 0;
  TRY(pd_identity_write(identity, &who, err));
  TRY(pd_identity_write(before, &origin, err));
  TRY(pd_thread_head_write(&next, &where, err));
  TRY(pd_edit_put(edit, pd_text(pd_thread_key(PD_KEY_ORIGIN, identity->forks, key)), pd_buf_bytes(&origin), PD_ANY_VERSION, err));
  TRY(pd_edit_put(edit, pd_text(PD_KEY_THREAD), pd_buf_bytes(&who), PD_ANY_VERSION, err));
  return pd_edit_put(edit, pd_text(PD_KEY_VERSION), pd_buf_bytes(&where), PD_ANY_VERSION, err);
}

/* What a point has, and what will stand over it. */
typedef struct over {
  pd_identity identity, before;
  pd_thread_head head;
} over;

static void over_done(over *o)
{
  pd_identity_done(&o->identity);
  pd_identity_done(&o->before);
}

static pd_code stage_over(void *ctx, pd_edit *edit, pd_error *err)
{
  const over *o = ctx;
  return pd_thread_stage_identity(edit, &o->identity, &o->before, &o->head, err);
}

static pd_code read_point(pd_thread *t, const pd_thread_point *point, over *o, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  TRY(pd_thread_view(t, &point->commit, &view, err));
  TRY(pd_thread_read_identity(view, t->id, &o->before, err));
  return pd_thread_read_head(view, t->id, &o->head, err);
}

/* ---- forks ---- */

static pd_code make_over(pd_thread *t, const pd_thread_point *point, const pd_thread_options *options, over *o, pd_error *err)
{
  pd_thread_options own = *options;
  if (options->state.size) return pd_error_set(err, PD_INVALID, "a fork has the state of what it is forked from: 'state' must be empty");
  if (!own.owner && *t->identity.owner) own.owner = t->identity.owner;
  if (!own.parent) own.parent = t->identity.parent;
  if (!own.meta.size) own.meta = t->identity.meta;
  TRY(read_point(t, point, o, err));
  TRY(pd_identity_make(&own, &o->identity, err));
  o->identity.forked_from = t->id;
  o->identity.forked_version = point->version;
  o->identity.forks = o->before.forks + 1;
  o->identity.since = point->version;
  return PD_OK;
}

pd_code pd_thread_fork(pd_thread *thread, uint64_t version, const pd_thread_options *options, pd_thread **out, pd_error *err)
{
  CLEANUP(over_done) over o = {0};
  pd_thread_point point;
  char at[PD_THREAD_AT_SIZE];
  TRY(pd_thread_point_get(thread, version, &point, err));
  TRY(make_over(thread, &point, options, &o, err));
  TRY(pd_thread_check_parent(thread->store, options->parent, err));
  pd_thread_birth birth = {.identity = &o.identity,
                           .base_at = pd_thread_at(point.commit.seq, at),
                           .base = &point.commit.id,
                           .author = options->author,
                           .reason = "ThreadForked",
                           .stage = stage_over,
                           .ctx = &o};
  TRY(pd_thread_bear(thread->store, &birth, err));
  return out ? pd_thread_open(thread->store, o.identity.id, out, err) : PD_OK;
}

/* ---- rewinding ---- */

/* A ref beside the thread, at `at`: what is made there becomes the thread's in one move. */
static pd_code place_draft(pd_store *store, const char *draft, const char *at, const pd_note *note, pd_error *err)
{
  pd_error why;
  pd_code code = pd_fork(store, draft, at, note, NULL, &why);
  if (code && code != PD_EXISTS && err) *err = why;
  return code == PD_EXISTS ? pd_reset(store, draft, at, note, NULL, err) : code;
}

/* Behind the version that it was forked at the thread is another's: a commit that says who it is now comes over that. */
static pd_code draft_identity(pd_thread *t, const pd_thread_point *point, const char *draft, pd_id *out_commit, pd_error *err)
{
  CLEANUP(over_done) over o = {0};
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  char at[PD_THREAD_AT_SIZE];
  pd_note note = {.reason = "ThreadRewound"};
  pd_ack ack;
  TRY(read_point(t, point, &o, err));
  pd_identity identity = t->identity; /* borrows its texts */
  identity.forks = o.before.forks + 1;
  identity.since = point->version;
  TRY(place_draft(t->store, draft, pd_thread_at(point->commit.seq, at), &note, err));
  note.ref = draft;
  note.expect_head = &point->commit.id;
  TRY(pd_edit_begin(t->store, &note, &edit, err));
  TRY(pd_thread_stage_identity(edit, &identity, &o.before, &o.head, err));
  TRY(pd_edit_commit(edit, &ack, err));
  edit = NULL;
  *out_commit = ack.commit;
  return PD_OK;
}

static pd_code rewind_behind_fork(pd_thread *t, const pd_thread_point *point, const pd_note *note, pd_error *err)
{
  char draft[PD_THREAD_REF_SIZE], at[PD_ID_HEX_SIZE];
  pd_id commit;
  snprintf(draft, sizeof draft, "thread-draft/%s", t->id);
  TRY(draft_identity(t, point, draft, &commit, err));
  TRY(pd_reset(t->store, t->ref, pd_id_hex(&commit, at), note, NULL, err));
  pd_error why; /* a draft that stays is in nobody's way */
  (void)!pd_ref_delete(t->store, draft, &(pd_note){.reason = "ThreadRewound"}, &why);
  return PD_OK;
}

static pd_code rewind_once(pd_thread *t, uint64_t version, uint64_t expect_version, const pd_note *note, bool *out_again, pd_error *err)
{
  CLEANUP(pd_identity_done) pd_identity there = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread_point point;
  char at[PD_THREAD_AT_SIZE];
  *out_again = false;
  TRY(pd_thread_follow(t, err));
  if (expect_version != PD_ANY_VERSION && expect_version != t->head.version) return pd_thread_conflict(t, expect_version, err);
  TRY(pd_thread_find_point(t, version, &point, err));
  if (point.commit.seq == t->commit.seq) return PD_OK;
  TRY(pd_thread_view(t, &point.commit, &view, err));
  TRY(pd_thread_read_identity(view, t->id, &there, err));
  pd_note own = {.author = note ? note->author : NULL,
                 .run = note ? note->run : NULL,
                 .reason = note && note->reason ? note->reason : "ThreadRewound",
                 .expect_head = &t->commit.id};
  pd_code code = strcmp(there.id, t->id) == 0 ? pd_reset(t->store, t->ref, pd_thread_at(point.commit.seq, at), &own, NULL, err)
                                              : rewind_behind_fork(t, &point, &own, err);
  *out_again = code == PD_CONFLICT;
  return code;
}

pd_code pd_thread_rewind(pd_thread *thread, uint64_t version, uint64_t expect_version, const pd_note *note, pd_thread_point *out,
                         pd_error *err)
{
  bool again = true;
  pd_code code = PD_OK;
  while (again) code = rewind_once(thread, version, expect_version, note, &again, err);
  TRY(code);
  TRY(pd_thread_follow(thread, err));
  return out ? pd_thread_find_point(thread, thread->head.version, out, err) : PD_OK;
}
