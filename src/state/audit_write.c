/* audit_write.c: from lines in memory to batches of the chain, and what audit.keep removes again. Invariants A1 to A5 are in audit.h. */
#include "state/audit.h"

#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RACES_MAX 1000          /* lost in a row, before the batch waits for the next time */
#define EXPIRE_BATCHES_MAX 5000 /* removed with one batch that is written */
#define MINUTE_MS 60000
#define DAY_MS ((int64_t)86400000)

/* ---- lines ---- */

static void put_unless_empty(pd_json_writer *w, const char *key, pd_bytes text)
{
  if (text.size) pd_json_put_bytes(w, key, text);
}

static void line_json(pd_json_writer *w, const pd_audit_batch *batch, const pd_audit_line *line, uint64_t seq)
{
  pd_bytes name = line->capability ? pd_text(line->capability) : pd_audit_text(batch, line, PD_AUDIT_NAME);
  pd_json_open(w, '{');
  pd_json_put_number(w, "seq", seq);
  pd_json_put_time(w, "time", line->first_ms);
  pd_json_put_bytes(w, "agent", pd_audit_text(batch, line, PD_AUDIT_AGENT));
  put_unless_empty(w, "session", pd_audit_text(batch, line, PD_AUDIT_SESSION));
  put_unless_empty(w, "token", pd_audit_text(batch, line, PD_AUDIT_TOKEN));
  if (line->is_operator) pd_json_put_bool(w, "operator", true);
  pd_json_put_bytes(w, "capability", name);
  pd_json_put_text(w, "permission", pd_permission_name((pd_permission)line->permission));
  put_unless_empty(w, "subject", pd_audit_text(batch, line, PD_AUDIT_SUBJECT));
  pd_json_put_id(w, "input_hash", &line->input_hash);
  pd_json_put_text(w, "outcome", line->outcome);
  if (line->has_commit) pd_json_put_id(w, "commit", &line->commit);
  put_unless_empty(w, "approval_id", pd_audit_text(batch, line, PD_AUDIT_APPROVAL));
  if (line->count > 1) {
    pd_json_put_number(w, "count", line->count);
    pd_json_put_time(w, "last_time", line->last_ms);
  }
  pd_json_close(w, '}');
}

/* A line that the audit writes about itself: what was lost, what was removed. */
static void own_json(pd_json_writer *w, uint64_t seq, int64_t time_ms, const char *what, const char *subject, uint64_t count)
{
  pd_id none = {0};
  pd_json_open(w, '{');
  pd_json_put_number(w, "seq", seq);
  pd_json_put_time(w, "time", time_ms);
  pd_json_put_text(w, "agent", "");
  pd_json_put_bool(w, "operator", true);
  pd_json_put_text(w, "capability", what);
  pd_json_put_text(w, "permission", pd_permission_name(PD_PERMIT_NOTIFY));
  pd_json_put_text(w, "subject", subject);
  pd_json_put_id(w, "input_hash", &none);
  pd_json_put_text(w, "outcome", "ok");
  if (count > 1) {
    pd_json_put_number(w, "count", count);
    pd_json_put_time(w, "last_time", time_ms);
  }
  pd_json_close(w, '}');
}

/* ---- heads and tops: text and back ---- */

char *pd_audit_key(uint64_t first, char out[PD_AUDIT_KEY_SIZE])
{
  snprintf(out, PD_AUDIT_KEY_SIZE, PD_AUDIT_BATCH "%020" PRIu64, first);
  return out;
}

pd_id pd_audit_link(const pd_id *before, pd_bytes line)
{
  pd_bytes parts[] = {{before->bytes, PD_ID_SIZE}, line};
  return pd_sha256_parts(parts, COUNT_OF(parts));
}

static const pd_bind head_members[] = {
  {"seq", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_head, seq)},
  {"chain", PD_BIND_ID, PD_BIND_AT(pd_audit_head, chain)},
  {"batch", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_head, batch)},
  {"until", PD_BIND_MS, PD_BIND_AT(pd_audit_head, until_ms)},
  {"start", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_head, start_seq)},
  {"start_chain", PD_BIND_ID, PD_BIND_AT(pd_audit_head, start_chain)},
  {"start_batch", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_head, start_batch)},
};

static const pd_bind top_members[] = {
  {"first", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_top, first)},   {"count", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_top, count)},
  {"before", PD_BIND_NUMBER, PD_BIND_AT(pd_audit_top, before)}, {"chain", PD_BIND_ID, PD_BIND_AT(pd_audit_top, chain)},
  {"until", PD_BIND_MS, PD_BIND_AT(pd_audit_top, until_ms)},
};

pd_code pd_audit_head_text(const pd_audit_head *head, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_bind_object(&w, head_members, COUNT_OF(head_members), head);
  return w.code;
}

pd_code pd_audit_top_text(const pd_audit_top *top, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_bind_object(&w, top_members, COUNT_OF(top_members), top);
  TRY(w.code);
  return pd_buf_byte(out, '\n', err);
}

pd_code pd_audit_head_parse(pd_bytes text, pd_audit_head *out, pd_error *err)
{
  pd_audit_head head = {0};
  CLEANUP(pd_buf_done) pd_buf again = {0};
  bool is_good = pd_bind_parse(text, head_members, COUNT_OF(head_members), PD_BIND_EXACT, &head, NULL) == PD_OK;
  if (is_good) TRY(pd_audit_head_text(&head, &again, err));
  if (!is_good || !pd_bytes_equal(text, pd_buf_bytes(&again)))
    return pd_error_set(err, PD_CORRUPT, "the audit's entry '%s' is not as perdure writes it", PD_AUDIT_HEAD);
  *out = head;
  return PD_OK;
}

pd_code pd_audit_top_parse(pd_bytes batch, pd_audit_top *out, pd_bytes *out_rest, pd_error *err)
{
  pd_audit_top top = {0};
  const char *end = batch.size ? memchr(batch.data, '\n', batch.size) : NULL;
  size_t size = end ? (size_t)(end - (const char *)batch.data) : 0;
  CLEANUP(pd_buf_done) pd_buf again = {0};
  bool is_good = end && pd_bind_parse((pd_bytes){batch.data, size}, top_members, COUNT_OF(top_members), PD_BIND_EXACT, &top, NULL) == PD_OK;
  if (is_good) TRY(pd_audit_top_text(&top, &again, err));
  if (!is_good || !pd_bytes_equal((pd_bytes){batch.data, size + 1}, pd_buf_bytes(&again)))
    return pd_error_set(err, PD_CORRUPT, "the first line of an audit batch is not as perdure writes it");
  *out = top;
  *out_rest = (pd_bytes){end + 1, batch.size - size - 1};
  return PD_OK;
}

pd_code pd_audit_next(pd_bytes *rest, pd_id *out_chain, pd_bytes *out_line, bool *out_is_end, pd_error *err)
{
  *out_is_end = !rest->size;
  if (!rest->size) return PD_OK;
  const char *at = rest->data, *end = memchr(at, '\n', rest->size);
  char hex[PD_ID_HEX_SIZE] = "", lower[PD_ID_HEX_SIZE] = "";
  size_t size = end ? (size_t)(end - at) : 0;
  if (size > PD_ID_HEX_SIZE) memcpy(hex, at, PD_ID_HEX_SIZE - 1);
  if (size <= PD_ID_HEX_SIZE || at[PD_ID_HEX_SIZE - 1] != ' ' || !pd_id_parse(hex, out_chain) ||
      strcmp(pd_id_hex(out_chain, lower), hex) != 0) /* one text for one line: capital digits are a change too */
    return pd_error_set(err, PD_CORRUPT, "a line of the audit is not as perdure writes it");
  *out_line = (pd_bytes){at + PD_ID_HEX_SIZE, size - PD_ID_HEX_SIZE};
  *rest = (pd_bytes){end + 1, rest->size - size - 1};
  return PD_OK;
}

pd_code pd_audit_head_read(pd_view *view, pd_audit_head *out, uint64_t *out_version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_entry entry;
  pd_code code = pd_view_get(view, pd_text(PD_AUDIT_HEAD), &text, &entry, err);
  if (code == PD_NOT_FOUND) {
    *out = (pd_audit_head){.start_seq = 1};
    *out_version = 0;
    return PD_OK;
  }
  TRY(code);
  TRY(pd_audit_head_parse(pd_buf_bytes(&text), out, err));
  out->written_ms = entry.updated_ms;
  *out_version = entry.version;
  return PD_OK;
}

/* ---- one batch ---- */

typedef struct batch_writer {
  pd_audit_head head; /* as it is, and then as it will be */
  pd_audit_top top;
  pd_buf text, line, lines, head_text;
  int64_t own_ms; /* of the newest line of the batch */
} batch_writer;

static void batch_writer_done(batch_writer *w)
{
  pd_buf_done(&w->text);
  pd_buf_done(&w->line);
  pd_buf_done(&w->lines);
  pd_buf_done(&w->head_text);
}

/* w->line becomes the next line of the chain. */
static pd_code chain_line(batch_writer *w, pd_code written, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  TRY(written);
  w->head.chain = pd_audit_link(&w->head.chain, pd_buf_bytes(&w->line));
  w->head.seq++;
  w->top.count++;
  TRY(pd_buf_append(&w->lines, pd_id_hex(&w->head.chain, hex), PD_ID_HEX_SIZE - 1, err));
  TRY(pd_buf_byte(&w->lines, ' ', err));
  TRY(pd_buf_append(&w->lines, w->line.data, w->line.size, err));
  pd_buf_clear(&w->line);
  return pd_buf_byte(&w->lines, '\n', err);
}

static pd_code chain_own(batch_writer *w, const char *what, const char *subject, uint64_t count, pd_error *err)
{
  pd_json_writer json = {.out = &w->line, .err = err};
  own_json(&json, w->head.seq + 1, w->own_ms ? w->own_ms : w->head.until_ms, what, subject, count);
  return chain_line(w, json.code, err);
}

static pd_code chain_all(batch_writer *w, const pd_audit_batch *batch, pd_error *err)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->lines[i].last_ms > w->head.until_ms) w->head.until_ms = batch->lines[i].last_ms;
  for (size_t i = 0; i < batch->count; i++) {
    pd_json_writer json = {.out = &w->line, .err = err};
    line_json(&json, batch, &batch->lines[i], w->head.seq + 1);
    TRY(chain_line(w, json.code, err));
  }
  char subject[64];
  snprintf(subject, sizeof subject, "%" PRIu64 " lines could not be kept", batch->lost);
  return batch->lost ? chain_own(w, "audit.lost", subject, batch->lost, err) : PD_OK;
}

/* When a batch was written; `now_ms` if it is the one that is about to be. */
static int64_t batch_ms(pd_store *store, uint64_t first, int64_t now_ms)
{
  char key[PD_AUDIT_KEY_SIZE];
  pd_entry entry;
  return pd_get(store, PD_AUDIT_REF, pd_text(pd_audit_key(first, key)), NULL, &entry, NULL) ? now_ms : entry.updated_ms;
}

/* Does audit.keep let the oldest batch go? `next` is the start without it. A batch that cannot be read stays, for audit.verify to tell. One
 * that is dated after the batch behind it, because a clock was ahead, is as old as that one. */
static bool is_expired(pd_store *store, const pd_audit_head *head, int64_t limit, pd_audit_head *next)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_AUDIT_KEY_SIZE];
  pd_audit_top top;
  pd_entry entry;
  pd_bytes rest, line;
  bool is_end = false;
  if (pd_get(store, PD_AUDIT_REF, pd_text(pd_audit_key(head->start_batch, key)), &text, &entry, NULL)) return false;
  if (pd_audit_top_parse(pd_buf_bytes(&text), &top, &rest, NULL)) return false;
  if (entry.updated_ms >= limit && batch_ms(store, top.first + top.count, entry.updated_ms) >= limit) return false;
  *next = *head;
  while (!is_end)
    if (pd_audit_next(&rest, &next->start_chain, &line, &is_end, NULL)) return false;
  next->start_seq = next->start_batch = top.first + top.count;
  return true;
}

/* Take what audit.keep lets go out of `edit`, when a minute is over. The time that counts is one that two batches agree upon, this one and
 * the one before it: what a single call with its clock ahead says lets nothing go. */
static pd_code expire(pd_home *home, pd_store *store, batch_writer *w, int64_t own_ms, pd_edit *edit, pd_error *err)
{
  int64_t sure_ms = own_ms < w->head.written_ms ? own_ms : w->head.written_ms;
  int64_t limit = sure_ms - (int64_t)home->config.audit_keep_days * DAY_MS;
  uint64_t first = w->head.start_seq;
  if (!home->config.audit_keep_days || w->head.written_ms / MINUTE_MS == own_ms / MINUTE_MS) return PD_OK;
  for (size_t i = 0; i < EXPIRE_BATCHES_MAX && w->head.start_batch && w->head.start_seq < w->top.first; i++) {
    char key[PD_AUDIT_KEY_SIZE];
    pd_audit_head next;
    if (!is_expired(store, &w->head, limit, &next)) break;
    TRY(pd_edit_delete(edit, pd_text(pd_audit_key(w->head.start_batch, key)), PD_ANY_VERSION, err));
    w->head = next;
  }
  if (w->head.start_seq == first) return PD_OK;
  char subject[80];
  snprintf(subject, sizeof subject, "lines %" PRIu64 " to %" PRIu64, first, w->head.start_seq - 1);
  return chain_own(w, "audit.expire", subject, 1, err);
}

static pd_code stage(pd_home *home, pd_store *store, const pd_audit_batch *batch, batch_writer *w, uint64_t version, pd_edit *edit,
                     pd_error *err)
{
  char key[PD_AUDIT_KEY_SIZE];
  w->top = (pd_audit_top){.first = w->head.seq + 1, .before = w->head.batch, .chain = w->head.chain};
  pd_buf_clear(&w->text);
  pd_buf_clear(&w->lines);
  pd_buf_clear(&w->head_text);
  w->own_ms = 0;
  for (size_t i = 0; i < batch->count; i++)
    if (batch->lines[i].last_ms > w->own_ms) w->own_ms = batch->lines[i].last_ms;
  TRY(chain_all(w, batch, err));
  TRY(expire(home, store, w, w->own_ms, edit, err));
  w->top.until_ms = w->head.until_ms;
  w->head.batch = w->top.first;
  if (!w->head.start_batch) w->head.start_batch = w->top.first;
  TRY(pd_audit_top_text(&w->top, &w->text, err));
  TRY(pd_buf_append(&w->text, w->lines.data, w->lines.size, err));
  TRY(pd_audit_head_text(&w->head, &w->head_text, err));
  TRY(pd_edit_put(edit, pd_text(pd_audit_key(w->top.first, key)), pd_buf_bytes(&w->text), 0, err));
  return pd_edit_put(edit, pd_text(PD_AUDIT_HEAD), pd_buf_bytes(&w->head_text), version, err);
}

static pd_code try_once(pd_home *home, pd_store *store, const pd_audit_batch *batch, batch_writer *w, pd_error *err)
{
  uint64_t version;
  pd_ack ack;
  pd_edit *edit = NULL;
  pd_note note = {.ref = PD_AUDIT_REF, .author = "perdure", .reason = "audit"};
  CLEANUP(pd_audit_view_close) pd_view *view = NULL;
  pd_code code = pd_view_open(store, PD_AUDIT_REF, &view, err);
  if (code == PD_NOT_FOUND) {
    code = pd_fork(store, PD_AUDIT_REF, "root", &note, &ack, err);
    return code && code != PD_EXISTS ? code : PD_CONFLICT; /* it is there now: go on from the beginning */
  }
  TRY(code);
  TRY(pd_audit_head_read(view, &w->head, &version, err));
  TRY(pd_edit_begin(store, &note, &edit, err));
  code = stage(home, store, batch, w, version, edit, err);
  if (code == PD_OK) code = pd_edit_commit(edit, &ack, err);
  if (code) {
    pd_edit_abort(edit);
    return code;
  }
  return ack.durability == PD_BUFFERED ? pd_store_flush(store, err) : PD_OK;
}

pd_code pd_audit_write(pd_home *home, const pd_audit_batch *batch, pd_error *err)
{
  pd_store *store;
  CLEANUP(batch_writer_done) batch_writer w = {0};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  pd_code code =
    PD_CONFLICT; /* a process has one thread that writes the audit: each race is lost to a batch of another, which is durable */
  for (int races = 0; code == PD_CONFLICT && races < RACES_MAX; races++) code = try_once(home, store, batch, &w, err);
  return code;
}
