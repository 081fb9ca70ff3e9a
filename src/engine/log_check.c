/*
 * log_check.c: records that somebody else made, looked at before they are appended or put in the place of others (backend.h). A server does
 * so for its clients: what is in the log cannot be taken out again, so a faulty client must not get anything into it that no engine
 * would write.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "dag/record.h"

#include <perdure/backend.h>

#define JUMP_MS ((int64_t)24 * 3600 * 1000) /* PD_JUMP_MS of store.h: a clock had been ahead */

typedef struct log_check {
  pd_backend *b;
  uint64_t first; /* number of records[0] */
  const pd_bytes *records;
  pd_id audit; /* of the record before */
  bool has_audit;
  int64_t time_ms;
} log_check;

/* ---- records that are there ---- */

static pd_code take_copy(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)seq;
  return pd_buf_append(ctx, record.data, record.size, err);
}

/* A record before the one that is looked at: of the log, or of those that come with it. Empty: retired. */
static pd_code record_before(const log_check *c, uint64_t seq, pd_buf *scratch, pd_bytes *out, pd_error *err)
{
  if (seq >= c->first) {
    *out = c->records[seq - c->first];
    return PD_OK;
  }
  pd_buf_clear(scratch);
  TRY(c->b->ops->log_read(c->b, seq, seq, take_copy, scratch, err));
  *out = pd_buf_bytes(scratch);
  return PD_OK;
}

static pd_code begin(log_check *c, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  uint64_t tail = 0;
  pd_bytes before;
  pd_rec rec;
  TRY(c->b->ops->log_tail(c->b, &tail, err));
  if (!c->first || c->first > tail + 1)
    return pd_error_set(err, PD_INVALID, "record %llu cannot be appended: the log ends with %llu", (unsigned long long)c->first,
                        (unsigned long long)tail);
  if (c->first <= tail) return pd_error_conflict(err, c->first, tail + 1, "record %llu is there already", (unsigned long long)c->first);
  c->has_audit = c->first == 1; /* the chain begins with zeros */
  if (c->first == 1) return PD_OK;
  TRY(record_before(c, c->first - 1, &scratch, &before, err));
  if (!before.size) return PD_OK; /* retired: nobody can tell */
  TRY(pd_rec_decode(c->first - 1, before, &rec, err));
  c->audit = rec.audit;
  c->has_audit = true;
  c->time_ms = rec.time_ms;
  return PD_OK;
}

/* ---- records that come ---- */

static pd_code unsound(uint64_t seq, const char *why, pd_error *err)
{
  return pd_error_set(err, PD_INVALID, "record %llu is not what an engine would append: %s", (unsigned long long)seq, why);
}

/* The ids of a commit's parents; *out_known is false if retention took one away. */
static pd_code parents_of(const log_check *c, const pd_rec *rec, pd_id out[PD_PARENT_COUNT_MAX], bool *out_known, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  *out_known = true;
  for (size_t i = 0; i < rec->parent_count; i++) {
    uint64_t seq = rec->parent_seqs[i];
    pd_bytes bytes;
    pd_rec parent;
    if (rec->is_grafted || !seq) {
      out[i] = rec->is_grafted ? rec->parent_ids[i] : pd_commit_root_id();
      continue;
    }
    if (seq >= rec->seq) return unsound(rec->seq, "its parent comes after it", err);
    TRY(record_before(c, seq, &scratch, &bytes, err));
    *out_known = *out_known && bytes.size;
    if (!bytes.size) continue;
    TRY(pd_rec_decode(seq, bytes, &parent, err));
    if (parent.kind != PD_RECORD_COMMIT) return unsound(rec->seq, "its parent is no commit", err);
    out[i] = parent.commit;
  }
  return PD_OK;
}

static pd_code check_commit(const log_check *c, const pd_rec *rec, pd_error *err)
{
  pd_id parents[PD_PARENT_COUNT_MAX];
  bool is_known;
  if (rec->kind != PD_RECORD_COMMIT) return PD_OK;
  TRY(parents_of(c, rec, parents, &is_known, err));
  if (!is_known) return PD_OK;
  pd_id id = pd_commit_id(&rec->tree, parents, rec->parent_count);
  return pd_id_equal(&id, &rec->commit) ? PD_OK : unsound(rec->seq, "its commit id does not follow from tree and parents", err);
}

static pd_code check_record(log_check *c, uint64_t seq, pd_bytes bytes, pd_error *err)
{
  pd_error why = {0};
  pd_rec rec;
  if (pd_rec_decode(seq, bytes, &rec, &why)) return unsound(seq, why.message, err);
  if (rec.has_dropped) return unsound(seq, "changes are missing", err);
  pd_id audit = c->has_audit ? pd_rec_audit(&rec, &c->audit) : rec.audit;
  if (!pd_id_equal(&audit, &rec.audit)) return unsound(seq, "it does not continue the audit chain", err);
  if (rec.time_ms < c->time_ms && c->time_ms - rec.time_ms <= JUMP_MS) return unsound(seq, "it is older than the one before", err);
  if (rec.keyframe_seq >= seq || rec.ref_prev_seq >= seq) return unsound(seq, "it follows a record that comes after it", err);
  TRY(check_commit(c, &rec, err));
  c->audit = rec.audit;
  c->has_audit = true;
  c->time_ms = rec.time_ms;
  return PD_OK;
}

pd_code pd_log_check_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  log_check c = {.b = b, .first = seq, .records = records};
  TRY(begin(&c, err));
  for (size_t i = 0; i < count; i++) TRY(check_record(&c, seq + i, records[i], err));
  return PD_OK;
}

pd_code pd_log_check_swap(uint64_t seq, pd_bytes was, pd_bytes now, pd_error *err)
{
  pd_rec before, after;
  pd_error why = {0};
  if (!now.size || pd_bytes_equal(was, now)) return PD_OK;
  if (!was.size) return unsound(seq, "it was retired, and nothing brings it back", err);
  TRY(pd_rec_decode(seq, was, &before, err));
  if (pd_rec_decode(seq, now, &after, &why)) return unsound(seq, why.message, err);
  if (after.kind != before.kind || !pd_id_equal(&after.audit, &before.audit) || !pd_id_equal(&after.commit, &before.commit) ||
      !pd_id_equal(&after.tree, &before.tree) || after.change_count > before.change_count)
    return unsound(seq, "redaction leaves kind, audit and ids as they were", err);
  return PD_OK;
}

pd_code pd_log_commit_of(uint64_t seq, pd_bytes record, pd_id *out, pd_error *err)
{
  pd_rec rec;
  if (!record.size || pd_rec_decode(seq, record, &rec, NULL) || rec.kind == PD_RECORD_KEYFRAME)
    return pd_error_set(err, PD_NOT_FOUND, "record %llu names no commit", (unsigned long long)seq);
  *out = rec.commit;
  return PD_OK;
}
