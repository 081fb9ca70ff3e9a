/*
 * verify.c: recompute everything. The log is replayed into trees of its own, next to the store's: every checksum, audit, tree id and
 * commit id is compared, every large value is read, and at each keyframe what was replayed is compared with what the bag holds.
 *
 * Two passes: the first learns which commits are pointed at again later (forks, undos…) and which keyframes there are, so that the
 * second keeps no more trees than it needs.
 */
#include "engine/verify.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PROGRESS_EVERY 1024
#define GC_TRIES 16

void pd_finding(pd_verifier *v, const char *fmt, ...)
{
  char line[PD_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  v->report.findings++;
  if (v->options->finding) v->options->finding(v->options->ctx, line);
}

static void backend_finding(void *ctx, const char *what)
{
  pd_finding(ctx, "%s", what);
}

/* Damage is a finding; anything else (memory, disk) ends the verification with that error. */
static pd_code judge(pd_verifier *v, pd_code code, const pd_error *err, pd_error *out)
{
  if (!code) return PD_OK;
  if (code != PD_CORRUPT && code != PD_NOT_FOUND) {
    if (out) *out = *err;
    return code;
  }
  pd_finding(v, "%s", err->message);
  v->is_stopped = true;
  return PD_OK;
}

static bool tick(pd_verifier *v, uint64_t done)
{
  if (!v->options->progress || done % PROGRESS_EVERY) return true;
  v->is_given_up = !v->options->progress(v->options->ctx, done, 2 * v->tail);
  return !v->is_given_up;
}

/* ---- first pass ---- */

static pd_code survey_record(pd_verifier *v, const pd_rec *rec, pd_error *err)
{
  if (rec->kind == PD_RECORD_KEYFRAME) {
    TRY(pd_array_grow(&v->frames, v->frame_count, &v->frame_capacity, sizeof *v->frames, "a verification", err));
    v->frames[v->frame_count++] = (pd_due_frame){.covers = rec->covers, .seq = rec->seq, .catalog = rec->catalog};
  } else if (rec->kind != PD_RECORD_COMMIT && rec->target_seq) {
    TRY(pd_array_grow(&v->kepts, v->kept_count, &v->kept_capacity, sizeof *v->kepts, "a verification", err));
    v->kepts[v->kept_count++] = (pd_kept){.seq = rec->target_seq};
  }
  for (size_t i = 1; !rec->is_grafted && i < rec->parent_count; i++) {
    TRY(pd_array_grow(&v->kepts, v->kept_count, &v->kept_capacity, sizeof *v->kepts, "a verification", err));
    v->kepts[v->kept_count++] = (pd_kept){.seq = rec->parent_seqs[i]};
  }
  return PD_OK;
}

static int compare_kepts(const void *a, const void *b)
{
  const pd_kept *x = a, *y = b;
  return (x->seq > y->seq) - (x->seq < y->seq);
}

static int compare_frames(const void *a, const void *b)
{
  const pd_due_frame *x = a, *y = b;
  return (x->covers > y->covers) - (x->covers < y->covers);
}

static pd_kept *find_kept(pd_verifier *v, uint64_t seq)
{
  pd_kept wanted = {.seq = seq};
  return v->kept_count ? bsearch(&wanted, v->kepts, v->kept_count, sizeof *v->kepts, compare_kepts) : NULL;
}

static void sort_survey(pd_verifier *v)
{
  if (v->kept_count) qsort(v->kepts, v->kept_count, sizeof *v->kepts, compare_kepts);
  if (v->frame_count) qsort(v->frames, v->frame_count, sizeof *v->frames, compare_frames);
  size_t unique = 0;
  for (size_t i = 0; i < v->kept_count; i++)
    if (!unique || v->kepts[unique - 1].seq != v->kepts[i].seq) v->kepts[unique++] = v->kepts[i];
  v->kept_count = unique;
}

typedef pd_code (*handle_record)(pd_verifier *v, const pd_rec *rec, pd_error *err);

/* Hand every record to `handle`, until damage makes it pointless. */
static pd_code for_each_record(pd_verifier *v, handle_record handle, uint64_t progress_from, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  for (uint64_t seq = v->first; seq <= v->tail && !v->is_stopped;) {
    pd_error why = {.code = PD_OK};
    pd_code code = pd_take_records(v->s, seq, v->tail, &t, &why);
    if (!code && !t.count) code = pd_error_set(&why, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    for (size_t i = 0; !code && i < t.count && !v->is_stopped; i++, seq++) {
      pd_rec rec;
      if (!tick(v, progress_from + seq)) return pd_error_set(err, PD_INVALID, "the verification was given up");
      pd_bytes bytes = pd_taken_at(&t, i);
      code = bytes.size ? pd_rec_decode(seq, bytes, &rec, &why) : pd_retired_error(v->s, seq, &why);
      if (!code && rec.has_dropped) code = pd_retired_error(v->s, seq, &why);
      if (!code) code = handle(v, &rec, &why);
    }
    TRY(judge(v, code, &why, err));
  }
  return PD_OK;
}

/* ---- second pass ---- */

static pd_code skip_piece(void *ctx, pd_bytes piece, pd_error *err)
{
  (void)ctx, (void)piece, (void)err;
  return PD_OK;
}

/* In one blob, or in pieces: each of them is read. */
static pd_code check_bytes(pd_store *s, const pd_rec_change *ch, pd_buf *value, pd_error *err)
{
  if (ch->is_chunked) return pd_pieces_stream(s, &ch->list_id, &ch->value_id, ch->size, skip_piece, NULL, err);
  TRY(pd_load_blob(s, &ch->value_id, "the value", value, err));
  return value->size == ch->size ? PD_OK : pd_error_set(err, PD_CORRUPT, "the value has another size than the record says");
}

/* A damaged value is a finding of its own: what follows can still be judged. */
static pd_code check_value(pd_verifier *v, const pd_rec *rec, const pd_rec_change *ch, pd_buf *value, pd_error *err)
{
  pd_error why;
  char hex[PD_ID_HEX_SIZE];
  pd_code code = check_bytes(v->s, ch, value, &why);
  if (code == PD_CORRUPT) {
    pd_finding(v, "record %llu, key '%.*s', commit %.12s: %s", (unsigned long long)rec->seq, (int)(ch->key.size < 200 ? ch->key.size : 200),
               (const char *)ch->key.data, pd_id_hex(&rec->commit, hex), why.message);
    return PD_OK;
  }
  if (code && err) *err = why;
  return code;
}

static pd_code check_values(pd_verifier *v, const pd_rec *rec, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    v->report.values += !ch.is_delete;
    if (ch.is_in_bag && !ch.is_erased) TRY(check_value(v, rec, &ch, &value, err));
  }
  return PD_OK;
}

/* The head and what was merged into it. */
static pd_code parents_of(pd_verifier *v, const pd_rec *rec, const pd_head *head, pd_id out[PD_PARENT_COUNT_MAX], pd_error *err)
{
  out[0] = head->commit.id;
  if (rec->is_grafted) memcpy(out, rec->parent_ids, rec->parent_count * sizeof *out); /* nobody here can tell more of them */
  if (rec->is_grafted) return PD_OK;
  for (size_t i = 1; i < rec->parent_count; i++) {
    const pd_kept *k = find_kept(v, rec->parent_seqs[i]);
    if (rec->parent_seqs[i] && (!k || !k->root))
      return pd_error_set(err, PD_CORRUPT, "record %llu merges a commit that is not there", (unsigned long long)rec->seq);
    out[i] = rec->parent_seqs[i] ? k->commit.id : pd_commit_root_id();
  }
  return PD_OK;
}

static pd_code note_commit(pd_verifier *v, const pd_rec *rec, pd_error *err)
{
  v->report.commits++;
  TRY(pd_array_grow(&v->commits, v->commit_count, &v->commit_capacity, sizeof *v->commits, "a verification", err));
  v->commits[v->commit_count++] = (pd_run_entry){pd_id_prefix(&rec->commit), rec->seq};
  return PD_OK;
}

static pd_code replay_commit(pd_verifier *v, const pd_rec *rec, pd_head *head, pd_error *err)
{
  if (pd_rec_base(rec) != head->commit.seq)
    return pd_error_set(err, PD_CORRUPT, "record %llu: its parent is not the head of its ref", (unsigned long long)rec->seq);
  if (!head->root) return note_commit(v, rec, err); /* lost */
  pd_node *made;
  TRY(pd_apply_record(&v->replay->tree, head->root, rec, &made, err));
  pd_id parents[PD_PARENT_COUNT_MAX];
  pd_code code = parents_of(v, rec, head, parents, err);
  if (code) {
    pd_node_unref(&v->replay->tree.pool, made);
    return code;
  }
  pd_id id = pd_commit_id(&rec->tree, parents, rec->parent_count);
  pd_node_unref(&v->replay->tree.pool, head->root);
  head->root = made;
  if (!pd_id_equal(&id, &rec->commit))
    return pd_error_set(err, PD_CORRUPT, "record %llu: its commit id does not follow from tree and parent", (unsigned long long)rec->seq);
  TRY(check_values(v, rec, err));
  return note_commit(v, rec, err);
}

/* A ref that points at what gc retired, or at what was built on that: it is lost from here on, until it is moved again. */
static bool is_lost(const pd_verifier *v, const pd_rec *rec, const pd_kept *k)
{
  if (!rec->target_seq || (k && k->root)) return false;
  return rec->target_seq < v->points.cut || (k && k->is_lost);
}

static pd_code replay_move(pd_verifier *v, const pd_rec *rec, pd_head *head, pd_error *err)
{
  pd_commit target = {pd_commit_root_id(), pd_tree_empty_id(), 0};
  pd_kept *k = rec->target_seq ? find_kept(v, rec->target_seq) : NULL;
  if (is_lost(v, rec, k)) {
    pd_node_unref(&v->replay->tree.pool, head->root);
    head->root = NULL;
    return PD_OK;
  }
  if (rec->target_seq && (!k || !k->root))
    return pd_error_set(err, PD_CORRUPT, "record %llu points at a commit that is not there", (unsigned long long)rec->seq);
  if (k) target = k->commit;
  if (!pd_id_equal(&target.id, &rec->commit) || !pd_id_equal(&target.tree, &rec->tree))
    return pd_error_set(err, PD_CORRUPT, "record %llu names another commit than it points at", (unsigned long long)rec->seq);
  pd_node *root;
  if (k)
    root = pd_node_ref(k->root);
  else
    TRY(pd_tree_empty(&v->replay->tree, &root, err));
  pd_node_unref(&v->replay->tree.pool, head->root);
  head->root = root;
  return PD_OK;
}

static pd_code replay_ref(pd_verifier *v, const pd_rec *rec, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1] = {0};
  pd_ref_slot *slot;
  memcpy(name, rec->ref.data, rec->ref.size);
  TRY(pd_ref_check_any(name, err));
  TRY(pd_slot_make(v->replay, name, &slot, err));
  pd_head *head = &slot->seen;
  if (head->is_deleted != (rec->kind == PD_RECORD_FORK))
    return pd_error_set(err, PD_CORRUPT, "record %llu: ref '%s' %s", (unsigned long long)rec->seq, name,
                        head->is_deleted ? "does not exist" : "exists already");
  /* a ref that is made again after it was forgotten (G7) follows what this process still knows */
  bool is_anew = rec->kind == PD_RECORD_FORK && rec->ref_prev_seq < v->points.cut && head->last_seq < v->points.cut;
  if (rec->ref_prev_seq != head->last_seq && !is_anew)
    return pd_error_set(err, PD_CORRUPT, "record %llu does not follow the record before on ref '%s'", (unsigned long long)rec->seq, name);
  if (rec->kind == PD_RECORD_COMMIT)
    TRY(replay_commit(v, rec, head, err));
  else if (rec->kind == PD_RECORD_SWITCH)
    memcpy(v->replay->current, name, sizeof name);
  else if (rec->kind != PD_RECORD_REF_DELETE)
    TRY(replay_move(v, rec, head, err));
  pd_head_move(head, rec);
  pd_kept *k = rec->kind == PD_RECORD_COMMIT ? find_kept(v, rec->seq) : NULL;
  if (k) {
    k->commit = head->commit;
    k->root = head->root ? pd_node_ref(head->root) : NULL;
    k->is_lost = !head->root;
  }
  return PD_OK;
}

static pd_code replay_record(pd_verifier *v, const pd_rec *rec, pd_error *err)
{
  pd_store *r = v->replay;
  pd_id audit = pd_rec_audit(rec, &r->seen_audit);
  if (!pd_id_equal(&audit, &rec->audit))
    return pd_error_set(err, PD_CORRUPT, "record %llu does not continue the audit chain", (unsigned long long)rec->seq);
  if (rec->time_ms < r->seen_time_ms && r->seen_time_ms - rec->time_ms <= PD_JUMP_MS) /* else a clock had been ahead: pd_time_next */
    return pd_error_set(err, PD_CORRUPT, "record %llu is older than the one before", (unsigned long long)rec->seq);
  if (rec->kind != PD_RECORD_KEYFRAME) TRY(replay_ref(v, rec, err));
  v->report.records++;
  r->seen_seq = rec->seq;
  r->seen_audit = rec->audit;
  r->seen_time_ms = rec->time_ms;
  for (size_t i = 0; i < v->frame_count; i++)
    if (v->frames[i].covers == rec->seq) TRY(pd_verify_frame(v, &v->frames[i], err));
  return PD_OK;
}

/* ---- all together ---- */

static void verifier_done(pd_verifier *v)
{
  pd_store *r = v->replay;
  for (size_t i = 0; i < v->kept_count; i++) pd_node_unref(&r->tree.pool, v->kepts[i].root);
  for (size_t i = 0; r && i < r->slot_count; i++) {
    pd_head_done(r, &r->slots[i]->seen);
    free(r->slots[i]);
  }
  if (r) pd_tree_done(&r->tree);
  if (r) free(r->slots);
  free(r);
  free(v->kepts);
  free(v->frames);
  free(v->commits);
  pd_points_done(&v->points);
}

/* Only from the base of a partial verification: nothing is evicted here. */
static pd_code load_base_node(void *ctx, const pd_id *blob_id, pd_node **out, pd_error *err)
{
  pd_verifier *v = ctx;
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  TRY(pd_load_blob(v->s, blob_id, "a tree node", &blob, err));
  return pd_node_decode(&v->replay->tree.pool, pd_buf_bytes(&blob), blob_id, out, err);
}

/* ---- since a commit: from the last keyframe that does not cover it ---- */

static pd_code load_base(pd_verifier *v, const pd_catalog_frame *frame, pd_catalog *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  TRY(pd_load_blob(v->s, &frame->catalog, "a keyframe's catalog", &blob, err));
  return pd_catalog_decode(pd_buf_bytes(&blob), out, err);
}

static const pd_catalog_ref *head_at_base(const pd_catalog *base, uint64_t seq)
{
  for (size_t i = 0; i < base->ref_count; i++)
    if (!base->refs[i].is_deleted && base->refs[i].commit.seq == seq) return &base->refs[i];
  return NULL;
}

/* Every commit from before the base that is pointed at later must have been a head then, or be a kept point. */
static bool is_enough(const pd_verifier *v, const pd_catalog *base)
{
  for (size_t i = 0; i < v->kept_count && v->kepts[i].seq <= base->covers; i++)
    if (!head_at_base(base, v->kepts[i].seq) && !pd_points_find(&v->points, v->kepts[i].seq)) return false;
  return true;
}

static pd_code adopt_points(pd_verifier *v, pd_error *err)
{
  for (size_t i = 0; i < v->points.count; i++) {
    const pd_point *p = &v->points.points[i];
    pd_kept *k = find_kept(v, p->commit.seq);
    if (!k || k->root) continue;
    k->commit = p->commit;
    TRY(pd_tree_load_root(&v->replay->tree, &p->root_blob, &p->commit.tree, &k->root, err));
  }
  return PD_OK;
}

static pd_code adopt_base(pd_verifier *v, const pd_catalog *base, pd_error *err)
{
  pd_store *r = v->replay;
  for (size_t i = 0; i < base->ref_count; i++) {
    const pd_catalog_ref *ref = &base->refs[i];
    pd_ref_slot *slot;
    TRY(pd_slot_make(r, ref->name, &slot, err));
    slot->seen = (pd_head){.commit = ref->commit,
                           .is_deleted = ref->is_deleted,
                           .last_seq = ref->last_seq,
                           .redo_seq = ref->redo_seq,
                           .updated_ms = ref->updated_ms};
    if (ref->is_deleted || !pd_catalog_has_root(ref)) continue;
    TRY(pd_tree_load_root(&r->tree, &ref->root_blob, &ref->commit.tree, &slot->seen.root, err));
    pd_kept *k = find_kept(v, ref->commit.seq);
    if (!k || k->root) continue;
    k->commit = ref->commit;
    k->root = pd_node_ref(slot->seen.root);
  }
  memcpy(r->current, base->current, sizeof r->current);
  r->seen_seq = base->covers;
  r->seen_audit = base->audit;
  r->seen_time_ms = base->time_ms;
  return adopt_points(v, err);
}

/* The cut, as a keyframe; false if there is none. */
static bool base_at_cut(pd_verifier *v)
{
  const pd_points *p = &v->points;
  v->base = (pd_catalog_frame){p->cut, p->cut - 1, p->catalog, p->run};
  v->has_base = p->cut > 1;
  return v->has_base;
}

/* Survey from the base; if that is not enough to judge what follows, from the beginning, which may be the cut. */
static pd_code start_since(pd_verifier *v, pd_error *err)
{
  while (v->has_base) {
    CLEANUP(pd_catalog_done) pd_catalog base = {0};
    bool is_cut = v->base.covers + 1 == v->points.cut;
    TRY(load_base(v, &v->base, &base, err));
    v->first = base.covers + 1;
    v->kept_count = v->frame_count = 0;
    TRY(for_each_record(v, survey_record, 0, err));
    sort_survey(v);
    if (v->is_stopped) return PD_OK;
    if (is_cut || is_enough(v, &base)) return adopt_base(v, &base, err);
    if (base_at_cut(v)) continue;
    v->first = 1;
    v->kept_count = v->frame_count = 0;
  }
  return PD_OK;
}

/* Before the cut: only of a whole verification. */
static pd_code verify_points(pd_verifier *v, pd_error *err)
{
  if (v->options->since || v->points.cut <= 1) return PD_OK;
  return pd_verify_points(v->s, &v->points, backend_finding, v, &v->report.nodes, &v->report.values, err);
}

/* Repair looks for them itself. */
static void tell_lost(pd_verifier *v)
{
  for (size_t i = 0; !v->mend && !v->is_stopped && i < v->replay->slot_count; i++) {
    const pd_ref_slot *slot = v->replay->slots[i];
    if (!slot->seen.is_deleted && !slot->seen.root)
      pd_finding(v, "ref '%s' cannot be read: gc retired what record %llu points at; perdure repair moves it back or deletes it",
                 slot->name, (unsigned long long)slot->seen.last_seq);
  }
}

static pd_code run_verifier(pd_verifier *v, pd_error *err)
{
  v->replay = calloc(1, sizeof *v->replay);
  if (!v->replay) return pd_error_memory(err, "a verification");
  pd_tree_init(&v->replay->tree, load_base_node, v);
  strcpy(v->replay->current, "main");
  if (v->s->ops->check) TRY(v->s->ops->check(v->s->backend, backend_finding, v, err));
  pd_error why = {.code = PD_OK};
  TRY(judge(v, start_since(v, &why), &why, err));
  if (!v->has_base) TRY(for_each_record(v, survey_record, 0, err));
  if (!v->has_base) sort_survey(v);
  if (!v->is_stopped) TRY(for_each_record(v, replay_record, v->tail, err));
  tell_lost(v);
  TRY(verify_points(v, err));
  if (v->options->progress) v->options->progress(v->options->ctx, 2 * v->tail, 2 * v->tail);
  return PD_OK;
}

/* With the lock held: where to begin. */
static pd_code choose_base(pd_verifier *v, pd_error *err)
{
  pd_store *s = v->s;
  pd_commit since;
  const pd_points *state = &s->retention.state;
  TRY(pd_retention_ready(s, err));
  v->points = *state;
  v->points.points = malloc((state->count + 1) * sizeof *state->points);
  if (!v->points.points) return pd_error_memory(err, "a verification");
  if (state->count) memcpy(v->points.points, state->points, state->count * sizeof *state->points);
  base_at_cut(v);
  if (!v->options->since) return PD_OK;
  TRY(pd_resolve_locked(s, v->options->since, &since, err));
  for (size_t i = 0; i < s->frame_count && s->frames[i].covers <= since.seq; i++) {
    v->base = s->frames[i];
    v->has_base = true;
  }
  return PD_OK;
}

pd_code pd_verify(pd_store *store, const pd_verify_options *options, pd_verify_report *out, pd_error *err)
{
  return pd_verify_mending(store, options, NULL, NULL, out, err);
}

static pd_code verify_once(pd_verifier *v, pd_verify_report *out, pd_error *err)
{
  pd_store *s = v->s;
  pd_store_lock(s);
  pd_code code = pd_refresh_to_read(s, err);
  if (!code && s->is_buffered) code = pd_settle(s, err); /* all that was acknowledged is verified */
  if (!code) code = choose_base(v, err);
  v->tail = s->log_seq;
  pd_store_unlock(s);
  if (!code) code = run_verifier(v, err);
  if (out && !code) *out = v->report;
  if (!code && v->report.findings)
    code =
      pd_error_set(err, PD_CORRUPT, "the store of agent '%s' is damaged: %llu findings", s->agent, (unsigned long long)v->report.findings);
  verifier_done(v);
  return code;
}

pd_code pd_verify_mending(pd_store *store, const pd_verify_options *options, pd_mend mend, void *mend_ctx, pd_verify_report *out,
                          pd_error *err)
{
  static const pd_verify_options defaults;
  pd_code code = PD_RETIRED;
  for (int tries = 0; code == PD_RETIRED && tries < GC_TRIES; tries++) { /* a gc took away what was being looked at: from its cut on */
    pd_verifier v = {.s = store, .options = options ? options : &defaults, .mend = mend, .mend_ctx = mend_ctx, .first = 1};
    code = verify_once(&v, out, err);
  }
  return code;
}
