/*
 * messages.c: the messages of conversations, each linked to the commit at its end. They lie under the hidden ref (meta.c) as marks
 * (marks.h) with four members more. A link is never changed: the same data again is nothing new, other data is a conflict.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/marks.h"

static pd_code check_id(const char *id, const char *what, pd_error *err)
{
  size_t size = strnlen(id, PD_MESSAGE_ID_SIZE_MAX + 1);
  if (!size) return pd_error_set(err, PD_INVALID, "the id of %s is empty", what);
  if (size > PD_MESSAGE_ID_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the id '%.32s…' of %s is longer than %d bytes", id, what, PD_MESSAGE_ID_SIZE_MAX);
  for (size_t i = 0; i < size; i++)
    if (id[i] <= ' ' || id[i] >= '~')
      return pd_error_set(err, PD_INVALID, "the id '%s' of %s has a character that is no printable ASCII, a space or '~'", id, what);
  return PD_OK;
}

static pd_code check_text(const char *text, const char *what, pd_error *err)
{
  if (!text) return PD_OK;
  size_t size = strnlen(text, PD_MESSAGE_TEXT_SIZE_MAX + 1);
  if (size > PD_MESSAGE_TEXT_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the %s '%.32s…' is longer than %d bytes", what, text, PD_MESSAGE_TEXT_SIZE_MAX);
  bool is_plain = pd_utf8_check((pd_bytes){text, size});
  for (size_t i = 0; i < size && is_plain; i++) is_plain = (unsigned char)text[i] >= 0x20 && text[i] != 0x7F;
  return is_plain ? PD_OK : pd_error_set(err, PD_INVALID, "the %s is no UTF-8 without control characters", what);
}

static pd_code check_message(const pd_message *m, pd_error *err)
{
  TRY(check_id(m->id, "the message", err));
  if (m->agent) TRY(pd_agent_check(m->agent, err));
  TRY(check_text(m->session, "session", err));
  TRY(check_text(m->submission, "submission", err));
  if (!m->parent || !*m->parent) return PD_OK;
  TRY(check_id(m->parent, "the parent", err));
  if (strcmp(m->id, m->parent) == 0) return pd_error_set(err, PD_INVALID, "message '%s' cannot be its own parent", m->id);
  return PD_OK;
}

/* ---- reading ---- */

/* A message as it is read, with what it borrows from. */
typedef struct message_read {
  pd_message message;
  pd_mark_read mark;
  pd_buf texts;
} message_read;

static void message_read_done(message_read *read)
{
  pd_mark_done(&read->mark);
  pd_buf_done(&read->texts);
}

static pd_code parse_message(const char *id, pd_bytes value, const pd_entry *entry, message_read *read, pd_error *err)
{
  TRY(pd_mark_parse(PD_MARK_MESSAGE, id, value, &read->mark, err));
  const pd_mark *mark = &read->mark.mark;
  pd_message *m = &read->message;
  *m = (pd_message){.id = id,
                    .commit = mark->commit,
                    .seq = mark->seq,
                    .link_seq = entry->seq,
                    .time_ms = mark->time_ms,
                    .author = mark->author,
                    .reason = mark->reason};
  const pd_mark_text members[] = {{"agent", &m->agent}, {"session", &m->session}, {"submission", &m->submission}, {"parent", &m->parent}};
  pd_code code = pd_mark_texts(read->mark.object, members, COUNT_OF(members), &read->texts, err);
  if (code == PD_INVALID) return pd_error_set(err, PD_CORRUPT, "what is kept as message '%s' is none", id);
  return code;
}

static pd_code read_message(pd_store *s, const char *id, message_read *read, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_entry entry;
  TRY(pd_meta_get(s, PD_MARK_MESSAGE, id, &value, &entry, err));
  return parse_message(id, pd_buf_bytes(&value), &entry, read, err); /* only the mark's object borrows from `value` */
}

pd_code pd_message_get(pd_store *store, const char *id, pd_message_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(message_read_done) message_read read = {0};
  TRY(check_id(id, "the message", err));
  TRY(read_message(store, id, &read, err));
  visit(ctx, &read.message);
  return PD_OK;
}

pd_code pd_message_commit(pd_store *s, const char *id, pd_commit *out, pd_error *err)
{
  TRY(check_id(id, "the message", err));
  return pd_mark_commit(s, PD_MARK_MESSAGE, id, out, err);
}

typedef struct message_list {
  const char *session;
  pd_message_visit visit;
  void *ctx;
  message_read read;
  pd_code code;
  pd_error *err;
} message_list;

static void message_list_done(message_list *list)
{
  message_read_done(&list->read);
}

static bool visit_message(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  message_list *list = ctx;
  list->code = parse_message(name, value, entry, &list->read, list->err);
  if (list->code) return false;
  if (list->session && strcmp(list->session, list->read.message.session) != 0) return true;
  return list->visit(list->ctx, &list->read.message);
}

pd_code pd_message_list(pd_store *store, const char *session, pd_message_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(message_list_done) message_list list = {.session = session, .visit = visit, .ctx = ctx, .err = err};
  TRY(check_text(session, "session", err));
  TRY(pd_meta_list(store, PD_MARK_MESSAGE, visit_message, &list, err));
  return list.code;
}

/* ---- writing ---- */

static bool is_same_text(const char *given, const char *kept)
{
  return strcmp(given ? given : "", kept) == 0;
}

/* PD_OK if the link that is there says the same; PD_CONFLICT names the first thing that it says otherwise. */
static pd_code compare_with_kept(pd_store *s, const pd_message *m, const pd_commit *commit, pd_error *err)
{
  CLEANUP(message_read_done) message_read read = {0};
  TRY(read_message(s, m->id, &read, err));
  const pd_message *kept = &read.message;
  const char *other = !pd_id_equal(&commit->id, &kept->commit) ? "commit"
                      : !is_same_text(m->agent ? m->agent : s->agent, kept->agent) ? "agent"
                      : !is_same_text(m->session, kept->session)       ? "session"
                      : !is_same_text(m->submission, kept->submission) ? "submission"
                      : !is_same_text(m->parent, kept->parent)         ? "parent"
                                                                       : NULL;
  if (!other) return PD_OK;
  return pd_error_conflict(err, 0, 0, "message '%s' is linked already, with another %s", m->id, other);
}

static pd_code write_link(pd_store *s, const pd_message *m, const pd_commit *commit, const pd_note *note, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json_writer w = {.out = &value, .err = err};
  pd_json_open(&w, '{');
  pd_mark_write(&w, s, commit, note);
  pd_json_put_said(&w, "agent", m->agent ? m->agent : s->agent);
  pd_json_put_said(&w, "session", m->session);
  pd_json_put_said(&w, "submission", m->submission);
  pd_json_put_said(&w, "parent", m->parent);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_meta_put_mark(s, PD_MARK_MESSAGE, m->id, pd_buf_bytes(&value), 0, commit, note, err);
}

static pd_code check_parent(pd_store *s, const pd_message *m, pd_error *err)
{
  if (!m->parent || !*m->parent) return PD_OK;
  pd_error why;
  pd_code code = pd_meta_get(s, PD_MARK_MESSAGE, m->parent, NULL, NULL, &why);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_NOT_FOUND, "the parent '%s' of message '%s' is not linked", m->parent, m->id);
  if (code && err) *err = why;
  return code;
}

static pd_code link_once(pd_store *s, const pd_message *m, const pd_commit *commit, const pd_note *note, pd_error *err)
{
  for (;;) {
    pd_error why;
    pd_code code = compare_with_kept(s, m, commit, &why);
    if (code && code != PD_NOT_FOUND && err) *err = why;
    if (code != PD_NOT_FOUND) return code;
    TRY(check_parent(s, m, err));
    code = write_link(s, m, commit, note, err);
    if (code != PD_CONFLICT) return code; /* else another process was first: see what it linked */
  }
}

typedef struct new_link {
  pd_store *s;
  const pd_message *message;
  const pd_note *note;
} new_link;

static pd_code put_link(void *ctx, const pd_commit *commit, pd_error *err)
{
  const new_link *l = ctx;
  return link_once(l->s, l->message, commit, l->note, err);
}

pd_code pd_message_link(pd_store *store, const pd_message *message, const char *at, const pd_note *note, pd_commit *out, pd_error *err)
{
  new_link l = {store, message, note};
  TRY(check_message(message, err));
  return pd_mark_set(store, at, put_link, &l, out, err);
}

pd_code pd_message_unlink(pd_store *store, const char *id, const pd_note *note, pd_error *err)
{
  TRY(check_id(id, "the message", err));
  return pd_meta_delete(store, PD_MARK_MESSAGE, id, note, err);
}
