/* store_meta.c: store.settings, setting, messages, message, prove: what a store knows besides its state (store_call.h). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#include <stdio.h>

#define NAME_SIZE 257 /* of a setting; of a message's id and texts */
#define PROOF_SIZE_MAX ((size_t)16 << 20)

/* ---- settings ---- */

static bool put_setting(void *ctx, const char *name, pd_bytes value)
{
  pd_frame *frame = ctx;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "name", name);
  pd_json_put_bytes(&frame->out, "value", value);
  pd_json_close(&frame->out, '}');
  return frame->out.code == PD_OK;
}

static pd_code put_one_setting(pd_frame *frame, pd_store *store, const char *name, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(pd_setting_get(store, name, &value, err));
  put_setting(frame, name, pd_buf_bytes(&value));
  return PD_OK;
}

pd_code pd_cap_store_settings(pd_frame *frame, pd_error *err)
{
  char name[NAME_SIZE];
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  pd_json_key(&frame->out, "settings");
  pd_json_open(&frame->out, '[');
  TRY(pd_in_string(frame, "name", name, sizeof name) ? put_one_setting(frame, store, name, err)
                                                     : pd_setting_list(store, NULL, put_setting, frame, err));
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}

pd_code pd_cap_store_setting(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char name[NAME_SIZE] = "";
  bool is_delete = pd_in_bool(frame, "delete", false), has_value = pd_in(frame, "value").kind == PD_JSON_STRING;
  pd_store_note n;
  pd_store *store;
  (void)!pd_in_string(frame, "name", name, sizeof name);
  if (is_delete == has_value)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: give 'value', or 'delete' as true", frame->capability->name);
  TRY(pd_store_open_for(frame, PD_STORE_WRITE, &store, err));
  TRY(pd_store_take_note(frame, store, &n, err));
  n.note.ref = NULL;
  if (has_value) TRY(pd_json_decode(pd_in(frame, "value"), &value, err));
  TRY(is_delete ? pd_setting_delete(store, name, &n.note, err) : pd_setting_set(store, name, pd_buf_bytes(&value), &n.note, err));
  pd_json_put_text(&frame->out, "name", name);
  if (is_delete) pd_json_put_bool(&frame->out, "deleted", true);
  return frame->out.code;
}

/* ---- messages ---- */

typedef struct message_list {
  pd_frame *frame;
  char after[NAME_SIZE], last[NAME_SIZE], parent[NAME_SIZE]; /* last, parent: of the last one that was told */
  bool has_more;
} message_list;

static void put_message(pd_frame *frame, const pd_message *m)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "id", m->id);
  pd_out_said(frame, "agent", m->agent);
  pd_out_said(frame, "session", m->session);
  pd_out_said(frame, "submission", m->submission);
  pd_out_said(frame, "parent", m->parent);
  pd_out_id(frame, "commit", &m->commit);
  pd_json_put_number(&frame->out, "seq", m->seq);
  pd_json_put_number(&frame->out, "link_seq", m->link_seq);
  pd_json_put_number(&frame->out, "time_ms", (uint64_t)m->time_ms);
  pd_out_said(frame, "author", m->author);
  pd_out_said(frame, "reason", m->reason);
  pd_json_close(&frame->out, '}');
}

static bool visit_message(void *ctx, const pd_message *m)
{
  message_list *list = ctx;
  if (*list->after && strcmp(m->id, list->after) <= 0) return true;
  list->has_more = *list->last && pd_out_is_long(list->frame);
  if (list->has_more || list->frame->out.code) return false;
  put_message(list->frame, m);
  snprintf(list->last, sizeof list->last, "%s", m->id);
  snprintf(list->parent, sizeof list->parent, "%s", m->parent);
  return true;
}

typedef struct ancestor {
  message_list *list;
  uint64_t below; /* only one that was linked before this record */
  bool is_told;
} ancestor;

static bool visit_ancestor(void *ctx, const pd_message *m)
{
  ancestor *a = ctx;
  a->is_told = m->link_seq < a->below;
  a->below = m->link_seq;
  if (a->is_told) (void)visit_message(a->list, m);
  return false;
}

/* The message, its parent, and so on. A parent that was unlinked ends it, and so does one that was linked again later. */
static pd_code list_ancestors(message_list *list, pd_store *store, const char *from, pd_error *err)
{
  ancestor a = {.list = list, .below = UINT64_MAX};
  pd_error why;
  TRY(pd_message_get(store, from, visit_ancestor, &a, err));
  while (a.is_told && *list->parent && !list->has_more && !list->frame->out.code) {
    char parent[NAME_SIZE];
    snprintf(parent, sizeof parent, "%s", list->parent);
    pd_code code = pd_message_get(store, parent, visit_ancestor, &a, &why);
    if (code == PD_NOT_FOUND) break;
    if (code && err) *err = why;
    TRY(code);
  }
  return PD_OK;
}

pd_code pd_cap_store_messages(pd_frame *frame, pd_error *err)
{
  char id[NAME_SIZE], session[NAME_SIZE], before[NAME_SIZE];
  message_list list = {.frame = frame};
  pd_store *store;
  bool is_one = pd_in_string(frame, "message", id, sizeof id), has_before = pd_in_string(frame, "before", before, sizeof before);
  bool has_session = pd_in_string(frame, "session", session, sizeof session);
  (void)!pd_in_string(frame, "after", list.after, sizeof list.after);
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  pd_json_key(&frame->out, "messages");
  pd_json_open(&frame->out, '[');
  if (is_one)
    TRY(pd_message_get(store, id, visit_message, &list, err));
  else if (has_before)
    TRY(list_ancestors(&list, store, before, err));
  else
    TRY(pd_message_list(store, has_session ? session : NULL, visit_message, &list, err));
  pd_json_close(&frame->out, ']');
  if (list.has_more) pd_json_put_text(&frame->out, has_before ? "next_before" : "next_after", has_before ? list.parent : list.last);
  return frame->out.code;
}

static bool put_linked(void *ctx, const pd_message *m)
{
  pd_frame *frame = ctx;
  pd_json_key(&frame->out, "message");
  put_message(frame, m);
  return false;
}

pd_code pd_cap_store_message(pd_frame *frame, pd_error *err)
{
  char id[NAME_SIZE] = "", session[NAME_SIZE] = "", submission[NAME_SIZE] = "", parent[NAME_SIZE] = "", at[PD_STORE_AT_SIZE];
  pd_message message = {.id = id, .session = session, .submission = submission, .parent = parent};
  pd_commit commit;
  pd_store_note n;
  pd_store *store;
  (void)!pd_in_string(frame, "message", id, sizeof id);
  (void)!pd_in_string(frame, "session", session, sizeof session);
  (void)!pd_in_string(frame, "submission", submission, sizeof submission);
  (void)!pd_in_string(frame, "parent", parent, sizeof parent);
  TRY(pd_store_open_for(frame, PD_STORE_WRITE, &store, err));
  TRY(pd_store_take_note(frame, store, &n, err));
  TRY(pd_store_at(frame, store, "at", at, err));
  n.note.ref = NULL;
  if (pd_in_bool(frame, "delete", false)) {
    TRY(pd_message_unlink(store, id, &n.note, err));
    pd_json_put_bool(&frame->out, "deleted", true);
    return frame->out.code;
  }
  TRY(pd_message_link(store, &message, at, &n.note, &commit, err));
  pd_out_point(frame, "linked", &commit);
  TRY(pd_message_get(store, id, put_linked, frame, err));
  return frame->out.code;
}

/* ---- proofs ---- */

pd_code pd_cap_store_prove(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf proof = {.size_max = PROOF_SIZE_MAX};
  char at[PD_STORE_AT_SIZE], descends[PD_STORE_AT_SIZE];
  pd_bytes key = pd_in_text(frame, "key");
  bool is_descent = pd_in_text(frame, "descends").size > 0;
  pd_store *store;
  if (is_descent == (key.size > 0))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: give one of 'key' and 'descends'", frame->capability->name);
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_at(frame, store, "at", at, err));
  TRY(pd_store_at(frame, store, "descends", descends, err));
  TRY(is_descent ? pd_prove_descent(store, descends, at, &proof, err)
                 : pd_prove(store, at, key, pd_in_bool(frame, "value", true), &proof, err));
  pd_out_base64(frame, "base64", pd_buf_bytes(&proof));
  return frame->out.code;
}
