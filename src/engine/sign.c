/*
 * sign.c: signed heads: one line of JSON in which the owner of a home's key says where a store's log ended.
 *
 *   G1  A document has one form: members, their order and their spelling are fixed, so what is not exactly as the writer below would
 *       write it is refused, and so is every changed byte.
 *   G2  What is signed are the bytes of the document before the comma in front of "signature". They begin with the member that names
 *       what it is, so a signature of something else that the key made can never be taken for one of these.
 *   G3  Copies are kept under the hidden ref as signed/<record>-<hash>.
 */
#include "engine/sign.h"

#include "base/base.h"
#include "base/base64.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "engine/retired.h"

#include <stdio.h>

#define HEAD_FORMAT 1
#define HEAD_KIND "signed"

/* ---- as text ---- */

typedef struct signed_text {
  uint64_t format;
  pd_signed_head head;
  char key[PD_PUBLIC_KEY_TEXT_SIZE];
  uint8_t signature[PD_SIGNATURE_SIZE];
} signed_text;

/* G2: all but the last are signed, and no more. */
static const pd_bind members[] = {
  {"perdure_signed_head", PD_BIND_NUMBER, PD_BIND_AT(signed_text, format)},
  {"agent", PD_BIND_TEXT, PD_BIND_AT(signed_text, head.agent)},
  {"ref", PD_BIND_TEXT, PD_BIND_AT(signed_text, head.ref)},
  {"commit", PD_BIND_ID, PD_BIND_AT(signed_text, head.commit)},
  {"seq", PD_BIND_NUMBER, PD_BIND_AT(signed_text, head.seq)},
  {"audit", PD_BIND_ID, PD_BIND_AT(signed_text, head.audit)},
  {"time", PD_BIND_TIME, PD_BIND_AT(signed_text, head.time_ms)},
  {"public_key", PD_BIND_TEXT, PD_BIND_AT(signed_text, key)},
  {"signature", PD_BIND_BYTES, PD_BIND_AT(signed_text, signature)},
};
enum { SIGNED_COUNT = COUNT_OF(members) - 1 };

static pd_code write_signed_part(signed_text *d, pd_json_writer *w)
{
  d->format = HEAD_FORMAT;
  pd_public_key_text(&d->head.key, d->key);
  pd_json_open(w, '{');
  pd_bind_write(w, members, SIGNED_COUNT, d);
  return w->code;
}

static pd_code write_end(const signed_text *d, pd_json_writer *w, pd_error *err)
{
  pd_bind_write(w, members + SIGNED_COUNT, 1, d);
  pd_json_close(w, '}');
  TRY(w->code);
  return pd_buf_byte(w->out, '\n', err);
}

/* ---- signing ---- */

static pd_code look_up(pd_store *s, const char *at, pd_signed_head *out, pd_error *err)
{
  pd_commit commit;
  pd_ref_slot *slot;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_resolve_to_read(s, at, &commit, err));
  if (s->is_buffered) TRY(pd_settle(s, err)); /* what is signed must be in the log */
  if (pd_resolve_head(s, at, &slot)) {
    commit = slot->seen.commit; /* of the same moment as the end of the log */
    strcpy(out->ref, slot->name);
  }
  strcpy(out->agent, s->agent);
  out->commit = commit.id;
  out->seq = s->seen_seq;
  out->audit = s->seen_audit;
  out->time_ms = s->now_ms(s->now_ctx);
  return PD_OK;
}

static pd_code keep_head(pd_store *s, const pd_signed_head *head, const pd_buf *document, pd_error *err)
{
  char name[64], hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(pd_buf_bytes(document));
  snprintf(name, sizeof name, "%020llu-%.16s", (unsigned long long)head->seq, pd_id_hex(&id, hex));
  pd_note note = {.reason = "signed head"};
  return pd_meta_put(s, HEAD_KIND, name, pd_buf_bytes(document), PD_ANY_VERSION, &note, NULL, err);
}

pd_code pd_sign_head(pd_store *store, const pd_sign_key *key, const char *at, bool keep, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  signed_text d = {.head.key = pd_sign_key_public(key)};
  pd_store_lock(store);
  pd_code code = look_up(store, at, &d.head, err);
  pd_store_unlock(store);
  if (code) return code;
  pd_json_writer w = {.out = &text, .err = err};
  TRY(write_signed_part(&d, &w));
  TRY(pd_sign_bytes(key, pd_buf_bytes(&text), d.signature, err));
  TRY(write_end(&d, &w, err));
  if (keep) TRY(keep_head(store, &d.head, &text, err));
  pd_buf_clear(out);
  return pd_buf_append(out, text.data, text.size, err);
}

/* ---- checking a document ---- */

static pd_code refuse(pd_error *err, const char *why)
{
  return pd_error_set(err, PD_CORRUPT, "the signed head is refused: %s", why);
}

static pd_code take_members(pd_bytes text, signed_text *out, pd_error *err)
{
  pd_error why = {0};
  pd_json json;
  if (pd_json_parse(text, &json, NULL) || !pd_json_u64(pd_json_member(json, members[0].name), &out->format))
    return refuse(err, "it is no such document");
  if (out->format != HEAD_FORMAT)
    return pd_error_set(err, PD_FORMAT, "the signed head has format %llu, this perdure knows %d", (unsigned long long)out->format,
                        HEAD_FORMAT);
  if (pd_bind_read(json, members, COUNT_OF(members), PD_BIND_EXACT, out, &why)) return refuse(err, why.message);
  if (pd_agent_check(out->head.agent, NULL)) return refuse(err, "its agent");
  if (*out->head.ref && pd_ref_check(out->head.ref, NULL)) return refuse(err, "its ref");
  return pd_public_key_parse(pd_text(out->key), &out->head.key, NULL) ? refuse(err, "its public key") : PD_OK;
}

/* G1. The newline at the end is the one thing that may be missing: shells take it away. */
static bool is_exact(pd_bytes document, const pd_buf *again)
{
  pd_bytes whole = pd_buf_bytes(again), line = {whole.data, whole.size - 1};
  return pd_bytes_equal(document, whole) || pd_bytes_equal(document, line);
}

pd_code pd_check_signed_head(pd_bytes document, const pd_public_key *key, pd_signed_head *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf again = {0};
  signed_text d = {0};
  bool is_right;
  if (document.size > PD_SIGNED_HEAD_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a signed head of %zu bytes is over the limit of %d", document.size, PD_SIGNED_HEAD_SIZE_MAX);
  TRY(take_members(document, &d, err));
  pd_json_writer w = {.out = &again, .err = err};
  TRY(write_signed_part(&d, &w));
  TRY(pd_signature_check(&d.head.key, pd_buf_bytes(&again), d.signature, &is_right, err));
  TRY(write_end(&d, &w, err));
  if (!is_exact(document, &again)) return refuse(err, "it is not written as it was signed");
  if (!is_right) return refuse(err, "the signature is wrong");
  char text[PD_PUBLIC_KEY_TEXT_SIZE];
  if (key && memcmp(key->bytes, d.head.key.bytes, sizeof key->bytes) != 0)
    return pd_error_set(err, PD_CONFLICT, "the head was signed with another key: %s", pd_public_key_text(&d.head.key, text));
  if (out) *out = d.head;
  return PD_OK;
}

/* ---- against a store ---- */

static pd_code changed(const pd_signed_head *head, const char *what, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the head signed at record %llu: %s", (unsigned long long)head->seq, what);
}

static pd_code check_audit(pd_store *s, const pd_signed_head *head, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec = {0}; /* before the first record the audit is zeros */
  if (head->seq > s->seen_seq) return changed(head, "the log ends before it", err);
  if (head->seq) TRY(pd_record_at(s, head->seq, &scratch, &rec, err));
  return pd_id_equal(&rec.audit, &head->audit) ? PD_OK : changed(head, "the log until there is not what was signed", err);
}

static pd_code check_ref(pd_store *s, const pd_signed_head *head, pd_error *err)
{
  pd_id then = pd_commit_root_id(); /* where a ref is that no record moved */
  const pd_ref_slot *slot = pd_slot_find(s, head->ref);
  pd_rec rec;
  if (!*head->ref) return PD_OK;
  TRY(pd_retention_ready(s, err));
  if (!slot && head->seq < s->retention.state.cut) return pd_retired_error(s, head->seq, err); /* G7 */
  if (!slot) return changed(head, "there is no such ref", err);
  TRY(pd_ref_after(s, slot, head->seq, true, &rec, err));
  if (rec.seq) then = rec.commit;
  bool is_there = rec.kind != PD_RECORD_REF_DELETE && pd_id_equal(&then, &head->commit);
  return is_there ? PD_OK : changed(head, "the ref was at another commit", err);
}

static pd_code verify_head_locked(pd_store *s, const pd_signed_head *head, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  pd_error why;
  TRY(pd_refresh_to_read(s, err));
  TRY(check_audit(s, head, err));
  pd_code code = pd_resolve_locked(s, pd_id_hex(&head->commit, hex), &commit, &why);
  if (code == PD_NOT_FOUND) return changed(head, "the commit is not in the store", err);
  if (code && err) *err = why;
  TRY(code);
  if (!pd_id_equal(&commit.id, &head->commit)) return changed(head, "a ref has the name of the commit", err);
  return check_ref(s, head, err);
}

pd_code pd_verify_head(pd_store *store, const pd_signed_head *head, pd_error *err)
{
  if (strcmp(store->agent, head->agent) != 0)
    return pd_error_set(err, PD_CONFLICT, "the signed head is for agent '%s', not '%s'", head->agent, store->agent);
  pd_store_lock(store);
  pd_code code = verify_head_locked(store, head, err);
  pd_store_unlock(store);
  return code;
}

typedef struct heads_check {
  pd_store *s;
  const pd_public_key *key;
  void (*finding)(void *ctx, const char *what);
  void *ctx;
  pd_heads_report report;
  pd_code code;
  pd_error err;
} heads_check;

static bool check_kept(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  heads_check *q = ctx;
  (void)entry;
  pd_signed_head head;
  pd_error why = {0};
  pd_code code = pd_check_signed_head(value, q->key, &head, &why);
  if (!code) code = pd_verify_head(q->s, &head, &why);
  q->report.heads++;
  if (code == PD_RETIRED) {
    q->report.retired++;
    return true;
  }
  if (!code) return true;
  if (code != PD_CORRUPT && code != PD_CONFLICT && code != PD_FORMAT && code != PD_LIMIT) {
    q->code = code; /* memory, disk: nothing that the head is to blame for */
    q->err = why;
    return false;
  }
  q->report.findings++;
  char line[PD_ERROR_MESSAGE_MAX + 128];
  snprintf(line, sizeof line, "signed head %.64s: %s", name, why.message);
  if (q->finding) q->finding(q->ctx, line);
  return true;
}

pd_code pd_verify_heads(pd_store *store, const pd_public_key *key, void (*finding)(void *ctx, const char *what), void *ctx,
                        pd_heads_report *out, pd_error *err)
{
  heads_check q = {.s = store, .key = key, .finding = finding, .ctx = ctx};
  TRY(pd_meta_list(store, HEAD_KIND, check_kept, &q, err));
  if (q.code && err) *err = q.err;
  TRY(q.code);
  if (out) *out = q.report;
  if (!q.report.findings) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%llu of the %llu signed heads of agent '%s' do not hold", (unsigned long long)q.report.findings,
                      (unsigned long long)q.report.heads, store->agent);
}
