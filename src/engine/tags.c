/* tags.c: tags and pins: names for commits, and commits that must stay. They lie under the hidden ref (meta.c) as marks (marks.h). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/marks.h"

static pd_code check_tag_name(const char *name, pd_error *err)
{
  if (pd_ref_check(name, NULL))
    return pd_error_set(err, PD_INVALID, "'%.150s' is no name for a tag: letters, digits and . _ - / : only, at most %d", name,
                        PD_REF_SIZE_MAX);
  if (strlen(name) == 2 * PD_ID_SIZE && strspn(name, "0123456789abcdefABCDEF") == 2 * PD_ID_SIZE)
    return pd_error_set(err, PD_INVALID, "'%s' is no name for a tag: it would hide a commit id", name);
  if (strncmp(name, PD_MESSAGE_PREFIX, strlen(PD_MESSAGE_PREFIX)) == 0)
    return pd_error_set(err, PD_INVALID, "'%s' is no name for a tag: it would hide a message", name);
  return PD_OK;
}

/* PD_EXISTS if a ref has the name: the tag could never be read. */
static pd_code check_no_ref(pd_store *s, const char *name, pd_error *err)
{
  pd_ref ref;
  pd_code code = pd_ref_get(s, name, &ref, NULL);
  if (code == PD_OK) return pd_error_set(err, PD_EXISTS, "there is a ref '%s': it would hide the tag", name);
  return code == PD_NOT_FOUND ? PD_OK : pd_ref_get(s, name, &ref, err);
}

static pd_code put_mark(pd_store *s, const char *kind, const char *name, const pd_commit *commit, uint64_t expect_version,
                        const pd_note *note, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json_writer w = {.out = &value, .err = err};
  pd_json_open(&w, '{');
  pd_mark_write(&w, s, commit, note);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_meta_put_mark(s, kind, name, pd_buf_bytes(&value), expect_version, commit, note, err);
}

/* Is the tag there, which version of it, and is it at this commit? */
static pd_code look_at_tag(pd_store *s, const char *name, const pd_commit *commit, uint64_t *out_version, bool *out_is_there, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  CLEANUP(pd_mark_done) pd_mark_read read = {0};
  pd_entry entry;
  pd_error why;
  pd_code code = pd_meta_get(s, PD_MARK_TAG, name, &value, &entry, &why);
  *out_version = code ? 0 : entry.version;
  *out_is_there = false;
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code) {
    if (err) *err = why;
    return code;
  }
  TRY(pd_mark_parse(PD_MARK_TAG, name, pd_buf_bytes(&value), &read, err));
  *out_is_there = pd_id_equal(&read.mark.commit, &commit->id);
  return PD_OK;
}

static pd_code set_tag(pd_store *s, const char *name, const pd_commit *commit, bool may_move, const pd_note *note, pd_error *err)
{
  for (;;) {
    uint64_t version;
    bool is_there;
    TRY(look_at_tag(s, name, commit, &version, &is_there, err));
    if (is_there) return PD_OK;
    if (version && !may_move) return pd_error_set(err, PD_EXISTS, "there is a tag '%s' already, at another commit", name);
    pd_code code = put_mark(s, PD_MARK_TAG, name, commit, version, note, err);
    if (code != PD_CONFLICT) return code; /* else another process was first: look again */
  }
}

/* A tag or pin on its way. */
typedef struct new_mark {
  pd_store *s;
  const char *name;
  bool may_move;
  const pd_note *note;
} new_mark;

static pd_code put_tag(void *ctx, const pd_commit *commit, pd_error *err)
{
  const new_mark *m = ctx;
  return set_tag(m->s, m->name, commit, m->may_move, m->note, err);
}

pd_code pd_tag_set(pd_store *store, const char *name, const char *at, bool may_move, const pd_note *note, pd_commit *out, pd_error *err)
{
  new_mark m = {store, name, may_move, note};
  TRY(check_tag_name(name, err));
  TRY(check_no_ref(store, name, err));
  return pd_mark_set(store, at, put_tag, &m, out, err);
}

pd_code pd_tag_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err)
{
  TRY(check_tag_name(name, err));
  return pd_meta_delete(store, PD_MARK_TAG, name, note, err);
}

/* ---- lists ---- */

typedef struct mark_list {
  const char *kind;
  pd_mark_visit visit;
  void *ctx;
  pd_mark_read read;
  pd_code code;
  pd_error *err;
} mark_list;

static void mark_list_done(mark_list *list)
{
  pd_mark_done(&list->read);
}

static bool visit_mark(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  mark_list *list = ctx;
  (void)entry;
  list->code = pd_mark_parse(list->kind, name, value, &list->read, list->err);
  return !list->code && list->visit(list->ctx, &list->read.mark);
}

static pd_code list_marks(pd_store *s, const char *kind, pd_mark_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(mark_list_done) mark_list list = {.kind = kind, .visit = visit, .ctx = ctx, .err = err};
  TRY(pd_meta_list(s, kind, visit_mark, &list, err));
  return list.code;
}

pd_code pd_tag_list(pd_store *store, pd_mark_visit visit, void *ctx, pd_error *err)
{
  return list_marks(store, PD_MARK_TAG, visit, ctx, err);
}

/* ---- pins ---- */

static pd_code put_pin(void *ctx, const pd_commit *commit, pd_error *err)
{
  const new_mark *m = ctx;
  char hex[PD_ID_HEX_SIZE];
  return put_mark(m->s, PD_MARK_PIN, pd_id_hex(&commit->id, hex), commit, PD_ANY_VERSION, m->note, err);
}

pd_code pd_pin_set(pd_store *store, const char *at, const pd_note *note, pd_commit *out, pd_error *err)
{
  new_mark m = {.s = store, .note = note};
  return pd_mark_set(store, at, put_pin, &m, out, err);
}

pd_code pd_pin_delete(pd_store *store, const char *at, const pd_note *note, pd_error *err)
{
  pd_commit commit = {0};
  char hex[PD_ID_HEX_SIZE];
  bool is_id = at && pd_id_parse(at, &commit.id); /* a pin may be taken away although its commit cannot be found */
  if (!is_id) TRY(pd_resolve(store, at, &commit, err));
  pd_error why;
  pd_code code = pd_meta_delete(store, PD_MARK_PIN, pd_id_hex(&commit.id, hex), note, &why);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_NOT_FOUND, "commit %.12s is not pinned", hex);
  if (code && err) *err = why;
  return code;
}

pd_code pd_pin_list(pd_store *store, pd_mark_visit visit, void *ctx, pd_error *err)
{
  return list_marks(store, PD_MARK_PIN, visit, ctx, err);
}
