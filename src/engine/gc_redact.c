/* gc_redact.c: through the log, newest first: which changes stay, which bytes go (gc.h). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <stdlib.h>

#define CHUNK_RECORDS 8192
#define CHUNK_TRIES 16
#define BY_VERSIONS (PD_GC_VERSIONS_MAX + 1) /* a bit: only keep_versions keeps it */

/* A change stays. So do versions before it. */
static pd_code keep_change(pd_gc_run *run, const pd_rec_change *ch, uint32_t versions, pd_error *err)
{
  TRY(pd_gc_keep_value(run, ch, err));
  versions &= PD_GC_VERSIONS_MAX;
  if (versions <= 1 || !ch->prev_seq) return PD_OK;
  uint32_t *before;
  bool is_new;
  TRY(pd_map64_add(&run->live, pd_change_print(ch->prev_seq, ch->key), &before, &is_new, err));
  uint32_t flag = is_new ? BY_VERSIONS : *before & BY_VERSIONS;
  if ((*before & PD_GC_VERSIONS_MAX) < versions - 1) *before = versions - 1;
  *before = (*before & PD_GC_VERSIONS_MAX) | flag;
  return PD_OK;
}

/* Note what stays of a record: everything from the cut on and of points; else what is live. */
static pd_code note_record(pd_gc_run *run, const pd_rec *rec, bool is_whole, pd_error *err)
{
  if (rec->kind == PD_RECORD_KEYFRAME && rec->seq >= run->cut) return pd_gc_keep_frame(run, &rec->catalog, err);
  if (rec->kind != PD_RECORD_COMMIT) return PD_OK;
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    const uint32_t *live = pd_map64_find(&run->live, pd_change_print(rec->seq, ch.key));
    if (live && !is_whole && *live & BY_VERSIONS) run->report->kept_versions++;
    if (live || is_whole) TRY(keep_change(run, &ch, live ? *live : 0, err));
  }
  return PD_OK;
}

static pd_redaction choose(void *ctx, const pd_rec *rec, const pd_rec_change *ch)
{
  pd_gc_run *run = ctx;
  if (!ch->is_delete && pd_map64_find(&run->live, pd_change_print(rec->seq, ch->key))) return PD_REDACT_KEEP;
  run->report->dropped_versions += !ch->is_delete;
  return PD_REDACT_DROP;
}

static void count_commit(pd_gc_run *run, const pd_rec *rec, bool is_wanted)
{
  pd_gc_report *r = run->report;
  bool was_readable = rec->seq >= run->old_cut || pd_map64_find(&run->old_points, rec->seq);
  if (rec->kind != PD_RECORD_COMMIT || !was_readable || pd_bytes_equal(rec->ref, pd_text(PD_META_REF))) return;
  r->commits++;
  if (rec->seq < run->cut && !is_wanted) r->retired++;
  if (rec->time_ms >= run->young_ms) r->kept_days++;
}

/* What is left of the records of one chunk. */
typedef struct left {
  pd_buf bytes;
  size_t *ends;
  size_t first, last; /* that changed */
  bool has_changed;
} left;

static void left_done(left *l)
{
  pd_buf_done(&l->bytes);
  free(l->ends);
}

/* Append what is left of a record before the cut. */
static pd_code redact_record(pd_gc_run *run, pd_bytes bytes, const pd_rec *rec, bool is_wanted, pd_buf *out, bool *out_changed,
                             pd_error *err)
{
  *out_changed = false;
  if (!bytes.size) return PD_OK;
  if (is_wanted) return pd_buf_append(out, bytes.data, bytes.size, err);
  size_t before = out->size;
  if (rec->kind == PD_RECORD_COMMIT)
    TRY(pd_rec_redact(rec, choose, run, false, out, out_changed, err));
  else
    *out_changed = true; /* moves of refs: the catalog of the cut knows where they led */
  run->report->log_bytes += bytes.size - (out->size - before);
  return PD_OK;
}

pd_code pd_log_replace(pd_store *s, const pd_taken *t, size_t first, size_t count, const pd_buf *bytes, const size_t *ends, pd_error *err)
{
  pd_log_swap *swaps = calloc(count + 1, sizeof *swaps);
  pd_bytes *records = calloc(count + 1, sizeof *records);
  pd_code code = swaps && records ? PD_OK : pd_error_memory(err, "a redaction");
  for (size_t i = 0, from = 0; !code && i < count; from = ends[i++]) {
    records[i] = (pd_bytes){bytes->data + from, ends[i] - from};
    swaps[i] = (pd_log_swap){.seq = t->first + first + i, .was = pd_taken_at(t, first + i), .now = records[i]};
  }
  if (!code)
    code = s->ops->log_swap ? s->ops->log_swap(s->backend, swaps, count, err)
                            : s->ops->log_redact(s->backend, t->first + first, records, count, err);
  free(swaps);
  free(records);
  return code;
}

/* `left` was filled from the newest record to the oldest. */
static pd_code write_left(pd_gc_run *run, const pd_taken *t, const left *l, pd_error *err)
{
  if (!l->has_changed || run->is_dry) return PD_OK;
  CLEANUP(left_done) left turned = {.ends = calloc(t->count + 1, sizeof *turned.ends)};
  if (!turned.ends) return pd_error_memory(err, "a gc");
  size_t count = l->last - l->first + 1;
  for (size_t i = 0; i < count; i++) {
    size_t k = t->count - 1 - (l->first + i), from = k ? l->ends[k - 1] : 0;
    TRY(pd_buf_append(&turned.bytes, l->bytes.data + from, l->ends[k] - from, err));
    turned.ends[i] = turned.bytes.size;
  }
  return pd_log_replace(run->s, t, l->first, count, &turned.bytes, turned.ends, err);
}

static pd_code handle_record(pd_gc_run *run, uint64_t seq, pd_bytes bytes, left *l, bool *out_changed, pd_error *err)
{
  pd_rec rec = {.seq = seq};
  bool is_wanted = pd_gc_wants(run, seq);
  *out_changed = false;
  if (bytes.size) {
    TRY(pd_rec_decode(seq, bytes, &rec, err));
    TRY(note_record(run, &rec, is_wanted || seq >= run->cut, err));
    count_commit(run, &rec, is_wanted);
  }
  return seq < run->cut ? redact_record(run, bytes, &rec, is_wanted, &l->bytes, out_changed, err) : PD_OK;
}

static pd_code handle_chunk(pd_gc_run *run, const pd_taken *t, pd_error *err)
{
  CLEANUP(left_done) left l = {.ends = calloc(t->count + 1, sizeof *l.ends)};
  if (!l.ends) return pd_error_memory(err, "a gc");
  for (size_t i = t->count; i-- > 0;) {
    bool has_changed;
    TRY(handle_record(run, t->first + i, pd_taken_at(t, i), &l, &has_changed, err));
    l.ends[t->count - 1 - i] = l.bytes.size;
    if (!has_changed) continue;
    if (!l.has_changed) l.last = i;
    l.first = i;
    l.has_changed = true;
  }
  return write_left(run, t, &l, err);
}

/* The *count records that end with `last`; once more if an erasure took something from them meanwhile (erase.h X2). */
static pd_code redact_chunk(pd_gc_run *run, uint64_t last, uint64_t *count, pd_taken *t, pd_error *err)
{
  pd_code code = PD_CONFLICT;
  for (int tries = 0; code == PD_CONFLICT && tries < CHUNK_TRIES; tries++) {
    pd_gc_report before = *run->report;
    TRY(pd_take_before(run->s, last, count, t, err));
    code = handle_chunk(run, t, err);
    if (code == PD_CONFLICT) *run->report = before;
  }
  TRY(code);
  return pd_gc_tick(run, t->count, err);
}

pd_code pd_gc_redact(pd_gc_run *run, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  uint64_t count = CHUNK_RECORDS;
  for (uint64_t last = run->plan_seq; last; last -= t.count) TRY(redact_chunk(run, last, &count, &t, err));
  return PD_OK;
}
