/* gc.c: retiring history: the order of things (gc.h G4). */
#include "engine/gc.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/erase.h"
#include "engine/marks.h"
#include "engine/retired.h"

#include <stdlib.h>

#define PLAN_TRIES 8
#define SECOND_BYTES_MIN ((uint64_t)16 << 10)
#define SECOND_REF_BYTES 512 /* of each living ref: the lists name it again, and save little */
#define SECOND_POINT_BYTES 8192

pd_code pd_gc_tick(pd_gc_run *run, uint64_t steps, pd_error *err)
{
  run->done += steps;
  if (run->done > run->total) run->done = run->total;
  if (!run->policy->progress || run->policy->progress(run->policy->ctx, run->done, run->total)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "gc was given up");
}

/* ---- the record that says so ---- */

pd_code pd_retention_prepare(pd_store *s, pd_error *err)
{
  pd_edit *edit;
  TRY(pd_meta_edit(s, NULL, &edit, err));
  pd_edit_abort(edit);
  return PD_OK;
}

pd_code pd_retention_write(pd_store *s, const pd_points *state, const pd_change_in *notes, size_t note_count, const char *author,
                           pd_code (*guard)(pd_store *s, void *ctx, pd_error *err), void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf bytes = {0};
  TRY(pd_points_encode(state, &bytes, err));
  pd_change_in *changes = calloc(note_count + 1, sizeof *changes);
  if (!changes) return pd_error_memory(err, "a gc");
  if (note_count) memcpy(changes, notes, note_count * sizeof *changes);
  changes[note_count] = (pd_change_in){.key = pd_text(PD_RETENTION_KEY), /* "erased/…" sorts before it */
                                       .value = pd_buf_bytes(&bytes),
                                       .value_id = pd_value_id(pd_buf_bytes(&bytes)),
                                       .expect_version = PD_ANY_VERSION};
  pd_note note = {.author = author};
  pd_intent intent = {.kind = PD_RECORD_COMMIT,
                      .ref = PD_META_REF,
                      .note = &note,
                      .changes = changes,
                      .change_count = note_count + 1,
                      .guard = guard,
                      .guard_ctx = ctx};
  pd_code code = pd_write(s, &intent, NULL, err);
  free(changes);
  if (!code) code = pd_store_flush(s, err); /* G4: of a buffered store too */
  if (code) return code;
  pd_store_lock(s);
  pd_retention_changed(s);
  code = pd_retention_ready(s, err);
  pd_store_unlock(s);
  return code;
}

/* ---- nothing may have been pointed at what is to be retired since the plan was made ---- */

static bool is_kept(const pd_gc_run *run, uint64_t seq)
{
  return !seq || seq >= run->cut || pd_points_find(&run->next, seq);
}

/* A tag, pin or link to a commit that stays whole anyway? */
static bool is_mark_fine(const pd_gc_run *run, const char *kind, const pd_rec_change *ch)
{
  CLEANUP(pd_mark_done) pd_mark_read read = {0};
  CLEANUP(pd_taken_done) pd_taken t = {0};
  pd_rec rec;
  if (ch->is_delete) return true;
  if (ch->is_in_bag || ch->is_erased || pd_mark_parse(kind, "", ch->value, &read, NULL)) return false;
  uint64_t seq = read.mark.seq;
  if (!seq) return true;
  if (seq < run->cut || pd_take_records(run->s, seq, seq, &t, NULL) || !t.count) return false;
  return !pd_rec_decode(seq, pd_taken_at(&t, 0), &rec, NULL) && pd_id_equal(&rec.commit, &read.mark.commit);
}

/* What came to the hidden ref since the plan was made: marks may keep more than it knows. */
static pd_code check_meta(const pd_gc_run *run, const pd_rec *rec, pd_error *err)
{
  static const char *const kinds[] = {PD_MARK_TAG, PD_MARK_PIN, PD_MARK_MESSAGE};
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
      size_t size = strlen(kinds[k]);
      bool is_mark = ch.key.size > size && memcmp(ch.key.data, kinds[k], size) == 0 && ((const char *)ch.key.data)[size] == '/';
      if (is_mark && !is_mark_fine(run, kinds[k], &ch))
        return pd_error_set(err, PD_CONFLICT, "tags, pins or links changed while gc was making its plan: try again");
    }
  }
  return PD_OK;
}

pd_code pd_gc_decode(const pd_store *s, uint64_t seq, pd_bytes bytes, pd_rec *out, pd_error *err)
{
  if (!bytes.size) return pd_retired_error(s, seq, err);
  TRY(pd_rec_decode(seq, bytes, out, err));
  return out->has_dropped ? pd_retired_error(s, seq, err) : PD_OK;
}

static pd_code check_record(const pd_gc_run *run, uint64_t seq, pd_bytes bytes, pd_error *err)
{
  pd_rec rec;
  TRY(pd_gc_decode(run->s, seq, bytes, &rec, err));
  if (rec.kind == PD_RECORD_COMMIT && pd_bytes_equal(rec.ref, pd_text(PD_META_REF))) TRY(check_meta(run, &rec, err));
  bool is_fine = rec.kind == PD_RECORD_KEYFRAME || rec.kind == PD_RECORD_SWITCH || is_kept(run, rec.target_seq);
  for (size_t i = 0; i < rec.parent_count; i++) is_fine = is_fine && is_kept(run, rec.parent_seqs[i]);
  if (rec.is_grafted) is_fine = is_fine && is_kept(run, rec.base_seq);
  if (is_fine) return PD_OK;
  return pd_error_set(err, PD_CONFLICT, "record %llu points at history that gc was about to retire: try again", (unsigned long long)seq);
}

static pd_code check_staged(const pd_gc_run *run, const pd_batch *batch, pd_error *err)
{
  for (size_t i = 0; i < batch->count; i++) {
    const pd_staged *st = &batch->staged[i];
    TRY(check_record(run, st->seq, (pd_bytes){batch->bytes.data + st->record_at, st->record_size}, err));
  }
  return PD_OK;
}

static pd_code check_plan(pd_store *s, void *ctx, pd_error *err)
{
  const pd_gc_run *run = ctx;
  CLEANUP(pd_taken_done) pd_taken t = {0};
  TRY(pd_retention_ready(s, err));
  if (s->retention.epoch != run->epoch) return pd_error_set(err, PD_CONFLICT, "another gc or erasure came first: try again");
  for (uint64_t seq = run->plan_seq + 1; seq <= s->log_seq; seq += t.count) {
    TRY(pd_take_records(s, seq, s->log_seq, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    for (size_t i = 0; i < t.count; i++) TRY(check_record(run, seq + i, pd_taken_at(&t, i), err));
  }
  TRY(check_staged(run, &s->inflight, err));
  return check_staged(run, &s->pending, err);
}

/* ---- all together ---- */

static void count_wants(const pd_gc_run *run)
{
  pd_gc_report *r = run->report;
  for (size_t i = 0; i < run->want_count; i++) {
    unsigned why = run->wants[i].why;
    r->kept_heads += (why & PD_KEEP_HEAD) != 0;
    r->kept_marks += (why & PD_KEEP_MARK) != 0;
    r->kept_last += (why & PD_KEEP_LAST) != 0;
    r->kept_refs += (why & PD_KEEP_REFS) != 0;
    r->kept_base += why == PD_KEEP_BASE;
  }
}

static pd_code plan_and_save(pd_gc_run *run, pd_error *err)
{
  TRY(pd_gc_plan(run, err));
  run->total = run->plan_seq + run->want_count;
  run->done = 0;
  pd_map64_done(&run->live);
  pd_id_map_done(&run->blobs);
  run->bag_bytes = 0;
  if (run->is_dry) TRY(pd_gc_mark_heads(run, err)); /* first: see there */
  return pd_gc_points(run, err);
}

static pd_code write_plan(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  const char *by = run->policy->author ? run->policy->author : s->author;
  pd_store_lock(s);
  run->next.retired_ms = s->now_ms(s->now_ctx);
  run->next.erasures = s->retention.state.erasures;
  pd_store_unlock(s);
  if (run->next.retired_ms < 1) run->next.retired_ms = 1;
  pd_points_set_by(&run->next, by);
  return pd_retention_write(s, &run->next, run->finished->changes, run->finished->count, run->policy->author, check_plan, run, err);
}

static bool keeps_blob(void *ctx, const pd_id *id)
{
  const pd_gc_run *run = ctx;
  return pd_id_map_find(&run->blobs, id) != NULL;
}

static pd_code measure(pd_store *s, pd_backend_usage *out, pd_error *err)
{
  *out = (pd_backend_usage){0};
  return s->ops->usage ? s->ops->usage(s->backend, out, err) : PD_OK;
}

static pd_code run_dry(pd_gc_run *run, pd_error *err)
{
  pd_backend_usage usage;
  TRY(plan_and_save(run, err));
  TRY(pd_gc_redact(run, err));
  TRY(measure(run->s, &usage, err));
  run->report->bag_bytes = usage.bag_bytes > run->bag_bytes ? usage.bag_bytes - run->bag_bytes : 0;
  run->report->disk_before = run->report->disk_after = usage.disk_bytes;
  return PD_OK;
}

/* What R retired goes. From here on a failure leaves bytes, nothing else. */
static pd_code take_away(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  pd_store_lock(s);
  run->plan_seq = s->log_seq; /* R is the last that needs looking at, or was before it: G5 */
  pd_store_unlock(s);
  TRY(pd_gc_mark_heads(run, err));
  TRY(pd_gc_mark_points(run, err));
  TRY(pd_gc_redact(run, err));
  TRY(s->ops->bag_sweep(s->backend, run->mark, keeps_blob, run, &run->report->bag_bytes, err));
  return pd_gc_tick(run, 0, err); /* the last time to give up */
}

/* Takes nothing from anybody: exports may read meanwhile. */
static pd_code shrink_files(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  pd_backend_usage usage;
  uint64_t freed = run->report->log_bytes + run->report->bag_bytes;
  if (s->ops->compact && (!run->is_quiet || freed >= run->report->disk_before / 4)) TRY(s->ops->compact(s->backend, err));
  TRY(measure(s, &usage, err));
  run->report->disk_after = usage.disk_bytes;
  return PD_OK;
}

/* ---- a second time (G8) ---- */

/* The keyframes that there are before R. */
typedef struct frames {
  pd_catalog_frame *list;
  size_t count;
} frames;

static void frames_done(frames *f)
{
  free(f->list);
}

static pd_code frames_copy(pd_store *s, frames *out, pd_error *err)
{
  pd_store_lock(s);
  out->list = malloc((s->frame_count + 1) * sizeof *out->list);
  if (out->list && s->frame_count) memcpy(out->list, s->frames, s->frame_count * sizeof *s->frames);
  if (out->list) out->count = s->frame_count;
  pd_store_unlock(s);
  return out->list ? PD_OK : pd_error_memory(err, "a gc");
}

/* The bytes of what those behind the cut list. */
static pd_code weigh(pd_gc_run *run, const frames *f, uint64_t *out_bytes, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  *out_bytes = 0;
  for (size_t i = 0; i < f->count; i++) {
    if (f->list[i].seq < run->cut) continue;
    TRY(pd_load_blob(run->s, &f->list[i].catalog, "a keyframe's catalog", &blob, err));
    *out_bytes += blob.size;
    TRY(pd_load_blob(run->s, &f->list[i].run, "a keyframe's commit list", &blob, err));
    *out_bytes += blob.size;
  }
  return PD_OK;
}

/* Would a cut behind the last keyframe free much more than the trees cost that have to be saved for it? */
static pd_code is_second_worth(pd_gc_run *run, const frames *f, uint64_t cut, bool *out, pd_error *err)
{
  pd_store *s = run->s;
  uint64_t bytes, living = 0, points = 0;
  *out = false;
  if (run->is_quiet || run->policy->keep_days || cut <= run->cut) return PD_OK; /* the next will; what is young stays whole */
  TRY(weigh(run, f, &bytes, err));
  pd_store_lock(s);
  for (size_t i = 0; i < s->slot_count; i++) living += !s->slots[i]->seen.is_deleted;
  pd_store_unlock(s);
  for (size_t i = run->want_count; i-- > 0 && run->wants[i].seq >= run->cut;) points += run->wants[i].seq < cut;
  *out = bytes > SECOND_BYTES_MIN + living * SECOND_REF_BYTES + points * SECOND_POINT_BYTES;
  return PD_OK;
}

static pd_code retire(pd_gc_run *run, pd_error *err)
{
  TRY(plan_and_save(run, err));
  return write_plan(run, err);
}

/* `run` becomes the second one if it comes to be; what came in between is no reason to give up what the first has retired. */
static pd_code retire_more(pd_gc_run *run, const frames *f, pd_error *err)
{
  pd_store *s = run->s;
  CLEANUP(pd_erase_notes_done) pd_erase_notes none = {0};
  pd_gc_run second = {.s = s, .policy = run->policy, .report = run->report, .is_quiet = run->is_quiet, .finished = &none};
  bool is_worth;
  if (f->count) second.cut_min = f->list[f->count - 1].seq + 1;
  TRY(is_second_worth(run, f, second.cut_min, &is_worth, err));
  if (!is_worth) return PD_OK;
  TRY(s->ops->bag_mark(s->backend, &second.mark, err)); /* anew: what the first put goes too */
  pd_keyframe_release(s);
  pd_code code = pd_keyframe_write(s, err);
  pd_keyframe_hold(s);
  if (!code) code = retire(&second, err);
  if (!code) {
    pd_gc_run first = *run;
    *run = second;
    run->finished = first.finished;
    run->old_cut = first.old_cut; /* the report is about both */
    run->old_points = first.old_points;
    first.old_points = second.old_points;
    second = first;
  }
  pd_gc_run_done(&second);
  return code == PD_CONFLICT ? PD_OK : code;
}

static pd_code try_gc(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  CLEANUP(pd_erase_notes_done) pd_erase_notes finished = {0};
  CLEANUP(frames_done) frames before = {0};
  run->finished = &finished;
  TRY(pd_erase_ledger_compact(s, &finished, err));
  TRY(pd_erase_finish(s, &finished, err));
  TRY(pd_keyframe_write(s, err));
  pd_keyframe_hold(s);
  pd_code code = frames_copy(s, &before, err);
  if (!code) code = retire(run, err);
  if (!code) code = retire_more(run, &before, err);
  if (!code) code = take_away(run, err);
  pd_keyframe_release(s);
  return code;
}

static uint64_t epoch_of(pd_store *s)
{
  pd_store_lock(s);
  bool is_known = !pd_refresh_to_read(s, NULL) && !pd_retention_ready(s, NULL);
  uint64_t epoch = is_known ? s->retention.epoch : 0;
  pd_store_unlock(s);
  return epoch;
}

/* PD_CONFLICT also if another gc took away what this one was about to read. */
static pd_code try_gc_once(pd_gc_run *run, pd_error *err)
{
  uint64_t epoch = epoch_of(run->s);
  pd_code code = try_gc(run, err);
  if (code != PD_RETIRED || epoch_of(run->s) == epoch) return code;
  return pd_error_set(err, PD_CONFLICT, "another gc or erasure came first: try again");
}

/* With the store's gc_lock (G10). */
static pd_code collect(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  TRY(pd_retention_prepare(s, err));
  TRY(pd_import_clean(s, err));
  TRY(s->ops->bag_mark(s->backend, &run->mark, err));
  pd_code code = PD_CONFLICT;
  int tries_max = run->is_quiet ? 1 : PLAN_TRIES;
  for (int tries = 0; code == PD_CONFLICT && tries < tries_max; tries++) code = try_gc_once(run, err);
  pd_store_lock(s);
  pd_past_forget(s); /* it may be of what is gone */
  pd_store_unlock(s);
  return code;
}

static pd_code run_gc(pd_gc_run *run, pd_error *err)
{
  pd_backend_usage usage;
  void *lock = NULL;
  TRY(measure(run->s, &usage, err));
  run->report->disk_before = usage.disk_bytes;
  TRY(pd_gc_lock(run, &lock, err));
  pd_code code = collect(run, err);
  pd_gc_unlock(run, lock);
  TRY(code);
  return shrink_files(run, err);
}

static pd_code check_backend(const pd_store *s, bool is_dry, pd_error *err)
{
  if (!s->ops->log_redact || !s->ops->bag_mark || !s->ops->bag_sweep)
    return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot retire history", s->ops->scheme);
  if (s->is_read_only && !is_dry) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  return PD_OK;
}

static pd_code gc_with(pd_store *store, const pd_gc_policy *policy, bool is_quiet, pd_gc_report *out, pd_error *err)
{
  static const pd_gc_policy defaults;
  pd_gc_report report = {0};
  pd_gc_run run = {.s = store, .policy = policy ? policy : &defaults, .report = &report, .is_quiet = is_quiet};
  run.is_dry = run.policy->is_dry;
  TRY(check_backend(store, run.is_dry, err));
  pd_code code = run.is_dry ? run_dry(&run, err) : run_gc(&run, err);
  if (!code) count_wants(&run);
  pd_gc_run_done(&run);
  if (!code && out) *out = report;
  return code;
}

pd_code pd_gc(pd_store *store, const pd_gc_policy *policy, pd_gc_report *out, pd_error *err)
{
  return gc_with(store, policy, false, out, err);
}

pd_code pd_gc_quietly(pd_store *s, const pd_gc_policy *policy, pd_gc_report *out, pd_error *err)
{
  return gc_with(s, policy, true, out, err);
}

pd_code pd_gc_would_free(pd_store *s, const pd_gc_policy *policy, uint64_t *out_bytes, pd_error *err)
{
  pd_gc_policy dry = policy ? *policy : (pd_gc_policy){0};
  pd_gc_report report;
  dry.is_dry = true;
  TRY(pd_gc(s, &dry, &report, err));
  *out_bytes = report.log_bytes + report.bag_bytes;
  return PD_OK;
}

pd_code pd_gc_status(pd_store *store, pd_gc_info *out, pd_error *err)
{
  pd_store_lock(store);
  pd_code code = pd_refresh_to_read(store, err);
  if (!code) code = pd_retention_ready(store, err);
  const pd_points *state = &store->retention.state;
  if (!code) {
    *out = (pd_gc_info){.cut = state->cut, .points = state->count, .retired_ms = state->retired_ms};
    memcpy(out->by, state->by, sizeof out->by);
    code = pd_auto_gc_status(store, out, err);
  }
  pd_store_unlock(store);
  return code;
}
