/* rebuild.c: stories of threads: told, and turned into threads again. */
#include "thread/rebuild.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/append.h"

#include <stdio.h>

/* ---- telling ---- */

typedef struct teller {
  pd_thread *t;
  const pd_story *story;
  pd_identity next; /* the identity to come, read ahead; {0}: none */
  uint64_t told;    /* identities */
  pd_code code;
  pd_error *err;
} teller;

static void teller_done(teller *tl)
{
  pd_identity_done(&tl->next);
}

/* Identity number `told`: origin/1 is the first one, and `thread` the last. */
static pd_code read_next(teller *tl, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_thread *t = tl->t;
  char key[PD_THREAD_KEY_SIZE];
  pd_json json;
  pd_error why = {0};
  bool is_last = tl->told == t->identity.forks;
  snprintf(key, sizeof key, "%s", PD_KEY_THREAD);
  if (!is_last) pd_thread_key(PD_KEY_ORIGIN, tl->told + 1, key);
  pd_identity_done(&tl->next);
  tl->next = (pd_identity){0};
  if (tl->told > t->identity.forks) return PD_OK;
  TRY(pd_thread_view(t, &t->commit, &view, err));
  TRY(pd_view_get(view, pd_text(key), &text, NULL, err));
  pd_code code = pd_json_parse(pd_buf_bytes(&text), &json, &why);
  if (!code) code = pd_identity_parse(json, &tl->next, &why);
  return pd_thread_stored(t->id, key, code, &why, err);
}

static pd_code tell_identity(teller *tl, pd_error *err)
{
  TRY(tl->story->identity(tl->story->ctx, &tl->next, err));
  tl->told++;
  return read_next(tl, err);
}

static pd_code tell_change(teller *tl, const pd_thread_delta *delta, pd_error *err)
{
  TRY(tl->story->change(tl->story->ctx, delta, err));
  while (tl->next.id && tl->next.since == delta->version) TRY(tell_identity(tl, err));
  return PD_OK;
}

static bool visit_change(void *ctx, const pd_thread_delta *delta)
{
  teller *tl = ctx;
  tl->code = tell_change(tl, delta, tl->err);
  return !tl->code;
}

pd_code pd_thread_tell(pd_thread *t, const pd_story *story, pd_error *err)
{
  CLEANUP(teller_done) teller tl = {.t = t, .story = story, .err = err};
  TRY(read_next(&tl, err));
  TRY(tell_identity(&tl, err));
  TRY(pd_thread_walk_changes(t, 0, t->head.version, visit_change, &tl, err));
  return tl.code;
}

/* ---- rebuilding ---- */

static int64_t rebuilt_now(void *ctx)
{
  return ((pd_rebuild *)ctx)->now_ms;
}

pd_code pd_rebuild_open(pd_rebuild *out, pd_error *err)
{
  pd_options options = {.now_ms = rebuilt_now, .now_ctx = out};
  return pd_store_open("memory:", "main", &options, &out->store, err);
}

void pd_rebuild_done(pd_rebuild *r)
{
  pd_thread_close(r->t);
  pd_identity_done(&r->identity);
  pd_store_close(r->store, NULL);
}

const char *pd_rebuild_ref(const pd_rebuild *r)
{
  return r->t ? r->t->ref : "";
}

static pd_code wrong(pd_error *err, const char *what)
{
  return pd_error_set(err, PD_INVALID, "%s", what);
}

static void take_identity(pd_rebuild *r, pd_identity *identity)
{
  pd_identity_done(&r->identity);
  r->identity = *identity;
  *identity = (pd_identity){0};
}

/* Over the one before, as a fork does. */
static pd_code commit_identity(pd_rebuild *r, const pd_identity *identity, pd_error *err)
{
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  pd_thread *t = r->t;
  pd_ack ack;
  pd_note note = {.ref = t->ref, .reason = "ThreadForked", .expect_head = &t->commit.id};
  r->now_ms = identity->created_ms;
  TRY(pd_edit_begin(r->store, &note, &edit, err));
  TRY(pd_thread_stage_identity(edit, identity, &r->identity, &t->head, err));
  TRY(pd_edit_commit(edit, &ack, err));
  edit = NULL;
  pd_thread_head head = t->head;
  head.active_run[0] = 0;
  pd_thread_moved(t, &head, &ack);
  return PD_OK;
}

pd_code pd_rebuild_identity(pd_rebuild *r, pd_identity *identity, pd_error *err)
{
  if (!r->identity.id) {
    if (identity->forks || identity->since) return wrong(err, "the first identity is one of a fork");
    take_identity(r, identity);
    return PD_OK;
  }
  if (!r->t) return wrong(err, "an identity comes before change set 0");
  if (identity->forks != r->identity.forks + 1) return wrong(err, "the forks are not counted one by one");
  if (identity->since != r->t->head.version) return wrong(err, "the identity is not of the version where it stands");
  TRY(commit_identity(r, identity, err));
  take_identity(r, identity);
  return PD_OK;
}

/* The ref of the id that was first; nothing depends on its name. */
static pd_code begin_thread(pd_rebuild *r, pd_error *err)
{
  char ref[PD_THREAD_REF_SIZE];
  return pd_thread_new(r->store, r->identity.id, pd_thread_ref(r->identity.id, ref), &r->t, err);
}

static pd_code commit_first(pd_rebuild *r, pd_json snapshot, int64_t time_ms, pd_error *err)
{
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  pd_thread *t = r->t;
  pd_ack ack, forked;
  TRY(pd_fork(r->store, t->ref, "root", &(pd_note){.reason = "ThreadCreated"}, &forked, err));
  TRY(pd_edit_begin(r->store, &(pd_note){.ref = t->ref, .reason = "ThreadCreated"}, &edit, err));
  TRY(pd_thread_stage_first(edit, &r->identity, snapshot, time_ms, err));
  TRY(pd_edit_commit(edit, &ack, err));
  edit = NULL;
  pd_thread_moved(t, &(pd_thread_head){.time_ms = time_ms}, &ack);
  return pd_thread_need_doc(t, err); /* all of the story is applied to it */
}

static pd_code rebuild_first(pd_rebuild *r, pd_bytes json, pd_error *err)
{
  pd_json_field f[] = {{"snapshot", {{0}, 0}}, {"time", {{0}, 0}}};
  pd_json value;
  int64_t time_ms;
  if (!r->identity.id) return wrong(err, "there is no identity");
  TRY(pd_json_parse(json, &value, err));
  TRY(pd_json_fields(value, f, COUNT_OF(f), err));
  if (!pd_json_i64(f[1].value, &time_ms) || time_ms < 0) return wrong(err, "'time' is no time");
  if (f[0].value.kind != PD_JSON_NONE) TRY(pd_json_unique(f[0].value, err));
  r->now_ms = time_ms;
  TRY(begin_thread(r, err));
  return commit_first(r, f[0].value, time_ms, err);
}

static pd_code rebuild_next(pd_rebuild *r, uint64_t version, pd_bytes json, pd_error *err)
{
  CLEANUP(pd_prepared_done) pd_prepared prepared = {0};
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  pd_changeset set;
  pd_thread_ack ack;
  TRY(pd_changeset_parse(json, &set, &texts, err));
  TRY(pd_prepare(&set, &prepared, err));
  if (!set.time_ms || set.time_ms < r->t->head.time_ms) return wrong(err, "its time is missing, or before that of the change set before");
  r->now_ms = set.time_ms;
  TRY(pd_thread_append_here(r->t, &prepared, &ack, err));
  if (ack.message_duplicates) return wrong(err, "it brings a message that is there already");
  return ack.version == version ? PD_OK : wrong(err, "it is not the next version");
}

pd_code pd_rebuild_change(pd_rebuild *r, uint64_t version, pd_bytes json, pd_error *err)
{
  if (!r->t) return version ? wrong(err, "change set 0 is missing") : rebuild_first(r, json, err);
  if (version != r->t->head.version + 1) return wrong(err, "it is not the next version");
  return rebuild_next(r, version, json, err);
}
