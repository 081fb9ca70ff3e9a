/* thread.c: handles on threads: opening, following the ref, telling what is there. */
#include "thread/thread.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/leaf.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

char *pd_thread_ref(const char *id, char out[PD_THREAD_REF_SIZE])
{
  snprintf(out, PD_THREAD_REF_SIZE, "thread/%.*s", PD_THREAD_ID_SIZE_MAX, id);
  return out;
}

char *pd_thread_at(uint64_t seq, char out[PD_THREAD_AT_SIZE])
{
  snprintf(out, PD_THREAD_AT_SIZE, "#%llu", (unsigned long long)seq);
  return out;
}

char *pd_thread_key(const char *noun, uint64_t number, char out[PD_THREAD_KEY_SIZE])
{
  snprintf(out, PD_THREAD_KEY_SIZE, "%s/%020llu", noun, (unsigned long long)number);
  return out;
}

uint64_t pd_thread_key_number(pd_bytes key)
{
  uint64_t number = 0;
  const char *at = (const char *)key.data + key.size - 20;
  if (key.size < 20) return 0;
  for (int i = 0; i < 20; i++) {
    if (at[i] < '0' || at[i] > '9') return 0;
    number = number * 10 + (uint64_t)(at[i] - '0');
  }
  return number;
}

pd_code pd_thread_corrupt(const char *id, const char *key, const char *why, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "thread '%s': key '%s' is not what perdure wrote there: %.200s", id, key, why);
}

pd_code pd_thread_stored(const char *id, const char *key, pd_code code, const pd_error *why, pd_error *err)
{
  if (code && code != PD_NO_MEMORY) return pd_thread_corrupt(id, key, why->message, err);
  if (code && err) *err = *why;
  return code;
}

static pd_code no_thread(const char *id, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "NotFound", "there is no thread '%s'", id);
}

/* ---- reading records ---- */

pd_code pd_thread_read_identity(pd_view *view, const char *id, pd_identity *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  pd_error why = {0};
  TRY(pd_view_get(view, pd_text(PD_KEY_THREAD), &text, NULL, err));
  pd_code code = pd_json_parse(pd_buf_bytes(&text), &json, &why);
  if (!code) code = pd_identity_parse(json, out, &why);
  return pd_thread_stored(id, PD_KEY_THREAD, code, &why, err);
}

pd_code pd_thread_read_head(pd_view *view, const char *id, pd_thread_head *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_error why = {0};
  TRY(pd_view_get(view, pd_text(PD_KEY_VERSION), &text, NULL, err));
  return pd_thread_stored(id, PD_KEY_VERSION, pd_thread_head_parse(pd_buf_bytes(&text), out, &why), &why, err);
}

/* ---- handles ---- */

pd_code pd_thread_new(pd_store *store, const char *id, const char *ref, pd_thread **out, pd_error *err)
{
  pd_thread *t = calloc(1, sizeof *t);
  if (!t) return pd_error_memory(err, "a thread's handle");
  t->store = store;
  snprintf(t->id, sizeof t->id, "%s", id);
  snprintf(t->ref, sizeof t->ref, "%s", ref);
  *out = t;
  return PD_OK;
}

void pd_thread_drop_doc(pd_thread *t)
{
  pd_doc_free(t->doc);
  t->doc = NULL;
}

void pd_thread_close(pd_thread *thread)
{
  if (!thread) return;
  pd_thread_drop_doc(thread);
  pd_identity_done(&thread->identity);
  free(thread);
}

/* Where the handle is, the ref most likely is, too: a head has its tree in memory. */
pd_code pd_thread_view(const pd_thread *t, const pd_commit *commit, pd_view **out, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  bool is_open = commit->seq == t->commit.seq && !pd_view_open(t->store, t->ref, &view, NULL);
  if (!is_open || pd_view_commit(view).seq != commit->seq) return pd_view_open_commit(t->store, commit, out, err);
  *out = view;
  view = NULL;
  return PD_OK;
}

pd_code pd_thread_look(const char *id, pd_view *view, pd_identity *out, pd_thread_head *out_head, pd_error *err)
{
  CLEANUP(pd_identity_done) pd_identity identity = {0};
  pd_error why;
  pd_code code = pd_view_commit(view).seq ? pd_thread_read_identity(view, id, &identity, &why) : PD_NOT_FOUND;
  if (code == PD_NOT_FOUND || (!code && strcmp(identity.id, id) != 0)) return no_thread(id, err); /* R2 */
  if (code && err) *err = why;
  TRY(code);
  TRY(pd_thread_read_head(view, id, out_head, err));
  *out = identity;
  identity.texts = (pd_buf){0};
  return PD_OK;
}

/* Read what the handle knows where the ref is. */
static pd_code take_commit(pd_thread *t, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_identity identity;
  pd_thread_head head;
  pd_error why;
  pd_code code = pd_view_open(t->store, t->ref, &view, &why);
  if (code == PD_NOT_FOUND) return no_thread(t->id, err);
  if (code && err) *err = why;
  TRY(code);
  TRY(pd_thread_look(t->id, view, &identity, &head, err));
  pd_identity_done(&t->identity);
  t->identity = identity;
  t->head = head;
  t->commit = pd_view_commit(view);
  pd_thread_drop_doc(t);
  return PD_OK;
}

pd_code pd_thread_follow(pd_thread *t, pd_error *err)
{
  pd_ref ref;
  pd_error why;
  pd_code code = pd_ref_get(t->store, t->ref, &ref, &why);
  if (code == PD_NOT_FOUND) return no_thread(t->id, err);
  if (code && err) *err = why;
  TRY(code);
  bool is_there = t->commit.seq && ref.commit.seq == t->commit.seq && pd_id_equal(&ref.commit.id, &t->commit.id);
  if (!is_there) TRY(take_commit(t, err));
  t->updated_ms = ref.updated_ms;
  return PD_OK;
}

void pd_thread_moved(pd_thread *t, const pd_thread_head *head, const pd_ack *ack)
{
  t->head = *head;
  t->commit = (pd_commit){ack->commit, ack->tree, ack->seq};
}

pd_code pd_thread_need_doc(pd_thread *t, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  if (t->doc) return PD_OK;
  TRY(pd_thread_view(t, &t->commit, &view, err));
  return pd_stateleaves_load(view, &t->doc, err);
}

pd_code pd_thread_open(pd_store *store, const char *id, pd_thread **out, pd_error *err)
{
  CLEANUP(pd_thread_close_at) pd_thread *t = NULL;
  char ref[PD_THREAD_REF_SIZE];
  TRY(pd_thread_id_check(id, "thread", err));
  TRY(pd_thread_new(store, id, pd_thread_ref(id, ref), &t, err));
  TRY(pd_thread_follow(t, err));
  *out = t;
  t = NULL;
  return PD_OK;
}

/* ---- telling ---- */

pd_code pd_thread_info_get(pd_thread *thread, pd_thread_info *out, pd_error *err)
{
  TRY(pd_thread_follow(thread, err));
  const pd_identity *identity = &thread->identity;
  *out = (pd_thread_info){.id = thread->id,
                          .owner = identity->owner,
                          .parent = identity->parent,
                          .meta = identity->meta,
                          .created_ms = identity->created_ms,
                          .updated_ms = thread->updated_ms,
                          .version = thread->head.version,
                          .message_count = thread->head.messages,
                          .run_count = thread->head.runs,
                          .active_run = thread->head.active_run,
                          .forked_from = identity->forked_from,
                          .forked_version = identity->forked_version,
                          .commit = thread->commit.id};
  return PD_OK;
}

uint64_t pd_thread_version(const pd_thread *thread)
{
  return thread->head.version;
}

const char *pd_thread_id(const pd_thread *thread)
{
  return thread->id;
}

pd_store *pd_thread_store(const pd_thread *thread)
{
  return thread->store;
}

size_t pd_thread_size(const pd_thread *thread)
{
  return thread->doc ? pd_doc_size(thread->doc) : 0;
}

/* ---- versions ---- */

/* Which record made it: R3. The newest version, and the one that a fork began with, have commits that came after their change set. */
static pd_code find_seq(pd_thread *t, uint64_t version, uint64_t *out, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  char key[PD_THREAD_KEY_SIZE];
  pd_entry entry;
  *out = t->commit.seq;
  if (version == t->head.version) return PD_OK;
  bool is_fork = t->identity.forks && version == t->identity.since;
  pd_bytes wanted = pd_text(is_fork ? PD_KEY_THREAD : pd_thread_key(PD_KEY_CHANGE, version, key));
  TRY(pd_thread_view(t, &t->commit, &view, err));
  TRY(pd_view_get(view, wanted, NULL, &entry, err));
  *out = entry.seq;
  return PD_OK;
}

pd_code pd_thread_find_point(pd_thread *t, uint64_t version, pd_thread_point *out, pd_error *err)
{
  pd_thread_point point = {0};
  pd_thread_head head = t->head;
  uint64_t seq;
  if (version == PD_VERSION_HEAD) version = t->head.version;
  if (version > t->head.version)
    return pd_error_named(err, PD_NOT_FOUND, "VersionNotFound", "thread '%s' has no version %llu: it is at %llu", t->id,
                          (unsigned long long)version, (unsigned long long)t->head.version);
  TRY(find_seq(t, version, &seq, err));
  point.commit = t->commit;
  if (seq != t->commit.seq) {
    CLEANUP(pd_view_close_at) pd_view *view = NULL;
    TRY(pd_view_open_record(t->store, seq, &view, err));
    TRY(pd_thread_read_head(view, t->id, &head, err));
    point.commit = pd_view_commit(view);
  }
  if (head.version != version) /* carried over to a later commit when the history was cut */
    return pd_error_set(err, PD_RETIRED, "version %llu of thread '%s' is not kept any more, but for its change set",
                        (unsigned long long)version, t->id);
  point.version = version;
  point.message_count = head.messages;
  point.run_count = head.runs;
  memcpy(point.active_run, head.active_run, sizeof point.active_run);
  *out = point;
  return PD_OK;
}

pd_code pd_thread_commit_id(pd_store *store, uint64_t seq, pd_id *out, pd_error *err)
{
  CLEANUP(pd_view_close_at) pd_view *view = NULL;
  pd_error why;
  pd_code code = pd_view_open_record(store, seq, &view, &why);
  if (code && code != PD_RETIRED && err) *err = why;
  if (code && code != PD_RETIRED) return code;
  *out = view ? pd_view_commit(view).id : (pd_id){{0}};
  return PD_OK;
}

pd_code pd_thread_point_get(pd_thread *thread, uint64_t version, pd_thread_point *out, pd_error *err)
{
  TRY(pd_thread_follow(thread, err));
  return pd_thread_find_point(thread, version, out, err);
}
