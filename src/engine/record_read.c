/* record_read.c: single records, from a segment in memory or from the log, and walks along first parents. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

typedef struct one_record {
  pd_buf *scratch;
  uint64_t seq;
  bool was_met;
} one_record;

static pd_code take_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  one_record *one = ctx;
  one->was_met = seq == one->seq;
  pd_buf_clear(one->scratch);
  return pd_buf_append(one->scratch, record.data, record.size, err);
}

/* Staged records are numbered without gaps (E3). */
static bool find_staged(const pd_batch *batch, uint64_t seq, pd_bytes *out)
{
  if (!batch->count || seq < batch->staged[0].seq || seq - batch->staged[0].seq >= batch->count) return false;
  const pd_staged *st = &batch->staged[seq - batch->staged[0].seq];
  *out = (pd_bytes){batch->bytes.data + st->record_at, st->record_size};
  return true;
}

bool pd_record_staged(const pd_store *s, uint64_t seq, pd_bytes *out)
{
  return seq > s->log_seq && (find_staged(&s->inflight, seq, out) || find_staged(&s->pending, seq, out));
}

pd_code pd_record_at(pd_store *s, uint64_t seq, pd_buf *scratch, pd_rec *out, pd_error *err)
{
  if (seq == PD_SEQ_GONE) return pd_retired_error(s, seq, err);
  pd_segment *seg = pd_segment_loaded(s, seq);
  if (seg) return pd_segment_record(seg, seq, out, err);
  one_record one = {.scratch = scratch, .seq = seq};
  pd_bytes staged;
  if (pd_record_staged(s, seq, &staged))
    TRY(take_record(&one, seq, staged, err));
  else
    TRY(s->ops->log_read(s->backend, seq, seq, take_record, &one, err));
  if (!one.was_met) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
  if (!scratch->size) return pd_retired_error(s, seq, err);
  return pd_rec_decode(seq, pd_buf_bytes(scratch), out, err);
}

pd_code pd_record_walk(pd_store *s, uint64_t seq, pd_buf *scratch, pd_rec *out, pd_error *err)
{
  pd_segment *seg;
  TRY(pd_retention_ready(s, err));
  if (seq < s->retention.state.cut) return pd_record_at(s, seq, scratch, out, err);
  TRY(pd_segment_of(s, seq, &seg, err));
  return pd_segment_record(seg, seq, out, err);
}

pd_code pd_commit_at(pd_store *s, uint64_t seq, pd_commit *out, pd_error *err)
{
  if (!seq) {
    *out = (pd_commit){pd_commit_root_id(), pd_tree_empty_id(), 0};
    return PD_OK;
  }
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  if (seq == PD_SEQ_GONE) return pd_retired_error(s, seq, err);
  if (seq > s->seen_seq) return pd_error_set(err, PD_NOT_FOUND, "there is no record %llu", (unsigned long long)seq);
  TRY(pd_retention_ready(s, err));
  const pd_point *point = pd_point_at(s, seq);
  if (point) {
    *out = point->commit;
    return PD_OK;
  }
  if (pd_is_retired(s, seq)) return pd_retired_error(s, seq, err);
  TRY(pd_record_at(s, seq, &scratch, &rec, err));
  if (rec.kind != PD_RECORD_COMMIT)
    return pd_error_set(err, PD_NOT_FOUND, "record %llu made no commit: it is a %s", (unsigned long long)seq,
                        pd_record_kind_name(rec.kind));
  *out = (pd_commit){rec.commit, rec.tree, seq};
  return PD_OK;
}

pd_code pd_parent_of(pd_store *s, uint64_t seq, uint64_t *out_parent, pd_error *err)
{
  if (seq == PD_SEQ_GONE) return pd_retired_error(s, seq, err);
  TRY(pd_retention_ready(s, err));
  const pd_point *point = pd_point_at(s, seq);
  if (point) {
    *out_parent = point->parent_seqs[0];
    return PD_OK;
  }
  pd_segment *seg = pd_segment_loaded(s, seq);
  if (!seg) TRY(pd_segment_of(s, seq, &seg, err));
  const pd_seg_record *r = &seg->records[seq - seg->base - 1];
  if (r->kind != PD_RECORD_COMMIT) return pd_error_set(err, PD_CORRUPT, "record %llu is no commit", (unsigned long long)seq);
  *out_parent = r->parent_seq;
  return PD_OK;
}

/* ---- many at once ---- */

static pd_code take(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  pd_taken *t = ctx;
  if (t->bytes.size > PD_TAKEN_BYTES_MAX) return PD_OK; /* enough for one go */
  if (seq != t->first + t->count)
    return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)(t->first + t->count));
  TRY(pd_array_grow(&t->at, t->count + 1, &t->capacity, sizeof *t->at, "records of the log", err)); /* and where the last one ends */
  t->at[t->count] = t->bytes.size;
  TRY(pd_buf_append(&t->bytes, record.data, record.size, err));
  t->at[++t->count] = t->bytes.size;
  return PD_OK;
}

pd_code pd_take_records(pd_store *s, uint64_t from, uint64_t to, pd_taken *out, pd_error *err)
{
  pd_buf_clear(&out->bytes);
  out->count = 0;
  out->first = from;
  if (to - from >= PD_TAKEN_COUNT_MAX) to = from + PD_TAKEN_COUNT_MAX - 1;
  return s->ops->log_read(s->backend, from, to, take, out, err);
}

pd_code pd_take_before(pd_store *s, uint64_t last, uint64_t *count, pd_taken *out, pd_error *err)
{
  for (;;) {
    if (*count > last) *count = last;
    TRY(pd_take_records(s, last - *count + 1, last, out, err));
    if (out->count == *count) return PD_OK;
    if (*count == 1) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)last);
    *count = out->count && out->count < *count / 2 ? out->count : *count / 2; /* large ones: fewer at a time */
  }
}

pd_bytes pd_taken_at(const pd_taken *taken, size_t index)
{
  pd_bytes record = {taken->bytes.data + taken->at[index], taken->at[index + 1] - taken->at[index]};
  return record;
}

void pd_taken_done(pd_taken *taken)
{
  pd_buf_done(&taken->bytes);
  free(taken->at);
}
