/* marks.c: see marks.h. */
#include "engine/marks.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

void pd_mark_done(pd_mark_read *read)
{
  pd_buf_done(&read->texts);
}

pd_code pd_mark_texts(pd_json object, const pd_mark_text *members, size_t count, pd_buf *texts, pd_error *err)
{
  pd_buf_clear(texts);
  for (size_t i = 0; i < count; i++) {
    pd_json member = pd_json_member(object, members[i].name);
    if (member.kind != PD_JSON_NONE) TRY(pd_json_decode(member, texts, err));
    TRY(pd_buf_byte(texts, 0, err));
  }
  const char *at = (const char *)texts->data;
  for (size_t i = 0; i < count; i++, at += strlen(at) + 1) *members[i].out = at;
  return PD_OK;
}

/* The value was compared with its id: a mark that does not read was never one. */
static pd_code no_mark(const char *kind, const char *name, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "what is kept as %s '%.200s' is none", kind, name);
}

static bool parse_commit(pd_json object, pd_id *out_id, uint64_t *out_seq)
{
  pd_json commit = pd_json_member(object, "commit");
  char hex[PD_ID_HEX_SIZE] = {0};
  if (commit.kind != PD_JSON_STRING || commit.raw.size != sizeof hex + 1) return false;
  memcpy(hex, (const char *)commit.raw.data + 1, sizeof hex - 1);
  return pd_id_parse(hex, out_id) && pd_json_u64(pd_json_member(object, "seq"), out_seq);
}

pd_code pd_mark_parse(const char *kind, const char *name, pd_bytes value, pd_mark_read *read, pd_error *err)
{
  pd_mark *m = &read->mark;
  *m = (pd_mark){.name = name};
  if (pd_json_parse(value, &read->object, NULL) || !parse_commit(read->object, &m->commit, &m->seq)) return no_mark(kind, name, err);
  if (!pd_json_i64(pd_json_member(read->object, "time"), &m->time_ms)) return no_mark(kind, name, err);
  const pd_mark_text members[] = {{"author", &m->author}, {"reason", &m->reason}};
  pd_code code = pd_mark_texts(read->object, members, COUNT_OF(members), &read->texts, err);
  return code == PD_INVALID ? no_mark(kind, name, err) : code;
}

void pd_mark_write(pd_json_writer *w, pd_store *s, const pd_commit *commit, const pd_note *note)
{
  char hex[PD_ID_HEX_SIZE];
  int64_t now = s->now_ms(s->now_ctx);
  pd_json_put_text(w, "commit", pd_id_hex(&commit->id, hex));
  pd_json_put_number(w, "seq", commit->seq);
  pd_json_put_number(w, "time", now > 0 ? (uint64_t)now : 0);
  pd_json_put_text(w, "author", note && note->author ? note->author : s->author);
  if (note && note->reason) pd_json_put_text(w, "reason", note->reason);
}

pd_code pd_mark_set(pd_store *s, const char *at, pd_mark_put put, void *ctx, pd_commit *out, pd_error *err)
{
  pd_commit commit, before = {.seq = PD_SEQ_GONE};
  for (;;) {
    pd_error why;
    TRY(pd_resolve(s, at, &commit, err));
    pd_code code = put(ctx, &commit, &why);
    if (code && err) *err = why;
    if (!code && out) *out = commit;
    if (code != PD_RETIRED || commit.seq == before.seq) return code;
    before = commit; /* a commit that is retired is not found by another name: each time it is a newer one */
  }
}

pd_code pd_mark_commit(pd_store *s, const char *kind, const char *name, pd_commit *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  CLEANUP(pd_mark_done) pd_mark_read read = {0};
  TRY(pd_meta_get_locked(s, kind, name, &value, err));
  TRY(pd_mark_parse(kind, name, pd_buf_bytes(&value), &read, err));
  pd_error why;
  pd_code code = pd_commit_find(s, &read.mark.commit, read.mark.seq, out, &why);
  char hex[PD_ID_HEX_SIZE];
  if (code == PD_NOT_FOUND)
    return pd_error_set(err, PD_RETIRED, "the commit %.12s of %s '%.200s' is not in this store", pd_id_hex(&read.mark.commit, hex), kind,
                        name);
  if (code && err) *err = why;
  return code;
}

/* ---- what must be kept ---- */

typedef struct kept_walk {
  pd_store *s;
  const char *kind;
  pd_kept_visit visit;
  void *ctx;
  pd_code code;
  pd_error *err;
} kept_walk;

static pd_code keep_one(kept_walk *k, const char *name, pd_bytes value)
{
  CLEANUP(pd_mark_done) pd_mark_read read = {0};
  pd_commit commit;
  pd_error why;
  TRY(pd_mark_parse(k->kind, name, value, &read, k->err));
  pd_code code = pd_commit_find(k->s, &read.mark.commit, read.mark.seq, &commit, &why);
  if (code == PD_NOT_FOUND || code == PD_RETIRED) return PD_OK; /* a mark that came without its commit keeps nothing here */
  if (!code) return k->visit(k->ctx, k->kind, name, commit.seq, k->err);
  if (k->err) *k->err = why;
  return code;
}

static bool visit_kept(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  kept_walk *k = ctx;
  (void)entry;
  k->code = keep_one(k, name, value);
  return !k->code;
}

pd_code pd_kept_points(pd_store *s, pd_kept_visit visit, void *ctx, pd_error *err)
{
  static const char *const kinds[] = {PD_MARK_TAG, PD_MARK_PIN, PD_MARK_MESSAGE};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    kept_walk k = {.s = s, .kind = kinds[i], .visit = visit, .ctx = ctx, .err = err};
    TRY(pd_meta_list_locked(s, kinds[i], visit_kept, &k, err));
    TRY(k.code);
  }
  return PD_OK;
}
